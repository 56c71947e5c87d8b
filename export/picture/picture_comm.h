/* The communication view. It has columns, called lanes, each of which shows one rank or several
   similar ranks, and each lane has a list of items to draw. */
#ifndef EXPORT_PICTURE_COMM_H
#define EXPORT_PICTURE_COMM_H

#include "export/picture/picture_cells.h"
#include "export/walk/copies.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PIC_COLUMNS 8

typedef enum syn__pic_item_kind {
    SYN__PIC_OPEN, /* begins a phase (level 0) or a layer (level 1) */
    SYN__PIC_CLOSE,
    SYN__PIC_RUN_BOX,
    SYN__PIC_BAR,
    SYN__PIC_SEND,
    SYN__PIC_RECV
} syn__pic_item_kind;

typedef struct syn__pic_item {
    syn__pic_item_kind kind;
    uint32_t first, last; /* range of nodes that the item shows */
    uint32_t unit;
    int level;
    uint64_t key; /* the same in all lanes of a collective, and for a send and its receive */
    const char *label, *tip;
    const char *title; /* of a frame: replaces the names of step and phase; NULL: none */
    double w, h;
    uint32_t box;
    bool pass; /* the box of a whole pass */
    bool done;
} syn__pic_item;

typedef struct syn__pic_lane {
    syn__pic_plan plan;
    uint32_t rank_index;
    uint32_t n_ranks;  /* number of ranks that the lane represents */
    syn__pass *passes; /* with syn__pic_chart.passes; otherwise NULL */
    size_t n_passes;
    syn__pic_item *items;
    size_t n_items, items_cap, next;
    double x, y;    /* x of the centre; y up to which the lane is drawn */
    uint32_t above; /* box from which the next arrow starts; UINT32_MAX: none */
    size_t above_item;
    double above_y; /* bottom of that box */
    bool above_red;
    const syn__pic_item *arrived[4]; /* with `passes`: the sends whose messages the next box gets */
    uint32_t n_arrived;
    int32_t clusters[2]; /* open frames of levels 0 and 1; -1: none */
} syn__pic_lane;

/* A frame that is broken: it continues in another panel. */
typedef struct syn__pic_cut {
    int32_t from, to; /* clusters of the frame in both panels */
    /* Per lane: the boxes of the texts at the break, [0] at the end of the first panel and [1]
       where the frame continues. UINT32_MAX: the lane has no such text. */
    uint32_t texts[SYN__PIC_COLUMNS][2];
    uint32_t number;
} syn__pic_cut;

typedef struct syn__pic_chart {
    const syn_graph *graph;
    syn__pic_drawing *drawing;
    syn__pic_lane lanes[SYN__PIC_COLUMNS];
    uint32_t n_lanes;
    uint32_t hidden;     /* number of ranks that no lane represents */
    uint8_t *lane_of;    /* per rank index: the lane that represents the rank; UINT8_MAX: none */
    uint32_t *n_similar; /* per group of the graph; see syn__pic_plan */
    size_t n_boxes;
    bool too_many;
    uint32_t columns; /* maximum number of lanes, at most SYN__PIC_COLUMNS */
    /* A pipeline: each stage has a lane, a pass that is like an earlier one is a single box, and
       messages are lines between passes. */
    bool passes;
    double row_gap, lane_gap; /* distances between boxes, vertical and horizontal */
    int name_lines;           /* maximum number of lines of op names in a box */
    double most;              /* greatest height of a panel on a page; higher ones are broken if
                                 possible */
    int n_in_flight;          /* messages sent but not yet received */
    syn__pic_panel *panels;
    size_t n_panels, panels_cap;
    syn__pic_cut *cuts;
    size_t n_cuts, cuts_cap;
} syn__pic_chart;

/* Chooses the ranks to draw, and reads them. The caller frees the chart even after a failure.
   passes: see syn__pic_chart. */
syn_status syn__pic_chart_make(syn__pic_chart *chart, syn__pic_drawing *d, const syn_graph *graph,
                               const syn_copied_ranks *copies, int fold, uint32_t columns,
                               bool passes, syn_error *err) SYN_MUST_USE;
/* Sets next[r] to the index of the rank to which rank r sends activations, or to UINT32_MAX: the
   peer of its first message in the scope "pipeline", in a forward pass of training
   (syn_pipeline_step) or, if !training, in inference (syn_generate). *any: whether there is such a
   message. */
syn_status syn__pic_find_stages(const syn_graph *graph, bool training, uint32_t *next, bool *any,
                                syn_error *err) SYN_MUST_USE;
/* Chooses the ranks (picture_lanes.c): sets c->lane_of, c->n_similar and the ranks of the lanes. */
syn_status syn__pic_choose_lanes(syn__pic_chart *c, const syn_copied_ranks *copies,
                                 syn_error *err) SYN_MUST_USE;
/* Writes the name of a lane: "rank 3", "ranks 3 ... 7" (with the ellipsis character), "ranks 3, 7",
   or "rank 3 and 31 identical". Only in the last case is `others` not empty: "identical: 7, 11, 15
   ... 127". */
void syn__pic_lane_name(const syn__pic_chart *c, uint32_t lane, syn__pic_text *name,
                        syn__pic_text *others);
void syn__pic_chart_free(syn__pic_chart *chart);
/* Computes the items of all lanes. detail: FULL (one box per run of ops between communications),
   LAYERS (one bar per layer and kind of communication) or CHUNKS (one box per rank). */
syn_status syn__pic_chart_items(syn__pic_chart *chart, syn__pic_detail detail,
                                syn_error *err) SYN_MUST_USE;
/* Break a frame into panels (picture_chart_cuts.c). cut_out draws, for each lane in `cut`, an arrow
   from the lane's last box to a text. cut_in draws a text above each such lane where the frame
   continues. number_cuts is called last and sets these texts and the titles of the frames: "prefill
   (2 of 3)", "to 3 of 3", "from 1 of 3". */
syn_status syn__pic_cut_out(syn__pic_chart *c, int32_t frame, const bool cut[SYN__PIC_COLUMNS],
                            syn_error *err) SYN_MUST_USE;
syn_status syn__pic_cut_in(syn__pic_chart *c, int32_t frame, const bool cut[SYN__PIC_COLUMNS],
                           syn_error *err) SYN_MUST_USE;
syn_status syn__pic_number_cuts(syn__pic_chart *c, syn_error *err) SYN_MUST_USE;
/* Draws the lanes, without a heading (picture_chart.c). */
syn_status syn__pic_chart_draw(syn__pic_chart *chart, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
