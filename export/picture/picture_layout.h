/* What placing and drawing one column of the trace view share. Cells stand in rows, every row in
   one cluster; a link between neighbouring rows runs down, one over several rows of a cluster runs
   in a lane between the cells, and one that leaves its cluster runs beside it on a rail. */
#ifndef EXPORT_PICTURE_LAYOUT_H
#define EXPORT_PICTURE_LAYOUT_H

#include "export/picture/picture_cells.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A place in a row: a cell, or the lane of a link. */
typedef struct syn__pic_slot {
    int32_t cell;  /* index within the part, or -1 */
    uint32_t link; /* of a lane */
    uint32_t row, pos;
    double x, left, right;
    double want, weight, key;
    uint32_t n_keys;
} syn__pic_slot;

typedef struct syn__pic_row {
    uint32_t begin, end; /* of order[] */
    int32_t cluster;
    double top, bottom;  /* y */
    double min_x, max_x; /* what is drawn so far */
    uint32_t legs_below, legs_above;
    uint32_t left; /* cells left of the lanes, at first */
    bool labels_above;
    uint64_t band;             /* layer and part of it: rows of the other column stand beside it */
    double gap, before, after; /* more room: before what opens above the row, before it, below */
} syn__pic_row;

/* A piece of a link between two neighbouring rows. */
typedef struct syn__pic_piece {
    uint32_t a, b; /* slots */
    uint32_t row;  /* of a */
} syn__pic_piece;

typedef struct syn__pic_track {
    uint32_t from_row, to_row, first_lane; /* first_lane: slot; the others follow */
    bool rail;
    double rail_x;
    double enter_x; /* where it meets the top of its cell */
    double room;    /* for a label right of that */
} syn__pic_track;

typedef struct syn__pic_column {
    syn__pic_cells *cells;
    syn__pic_part *part;
    syn__pic_cell *cell; /* of the part */
    syn__pic_link *link;
    uint32_t n_cells, n_links;
    syn__pic_slot *slots; /* the cells' first */
    syn__pic_row *rows;
    syn__pic_piece *pieces;
    syn__pic_track *tracks; /* one a link */
    uint32_t *order;        /* slots, row after row */
    size_t n_slots, n_rows, n_pieces, slots_cap, rows_cap, pieces_cap;
    int32_t first_cluster, end_cluster;
    double end_gap; /* more room at the end */
    bool up;        /* time goes up: it is turned over once it is drawn */
} syn__pic_column;

#define SYN__PIC_PILL_H  17.0 /* an output, one line */
#define SYN__PIC_SIDE_H  25.0 /* an input, two lines */
#define SYN__PIC_LINE_H  11.0 /* a third one */
#define SYN__PIC_SIDE_Y  4.0  /* from an input to the next */
#define SYN__PIC_PILL_UP 11.0 /* from an op down to its outputs */
#define SYN__PIC_SIDE_X  20.0 /* from the inputs to the op */
#define SYN__PIC_BETWEEN 70.0 /* from forward to backward */
#define SYN__PIC_NEAR    44.0 /* ... on a page */

#define SYN__PIC_CUT_END_X 12.0 /* from cut ends alone to the op */

/* What comes from an earlier column into an addition, to which n_links lead within its own, is the
   skip connection. */
void syn__pic_mark_cut_ends(syn__pic_cells *cells, const syn__pic_cell *to, uint32_t n_links);
/* Sizes of a cell's cut ends, and the room that it needs above and below; which cell of its part it
   is. */
void syn__pic_size_cut_ends(syn__pic_cells *cells, syn__pic_cell *cell, bool first, bool last);
/* A cut end with a line between it and its cell's box. At the cell's side its right end is at
   `right` and its middle at y. */
syn_status syn__pic_draw_cut_end(syn__pic_cells *cells, const syn__pic_cell *cell,
                                 const syn__pic_cut_end *cut_end, bool red, double right, double y,
                                 syn_error *err) SYN_MUST_USE;

/* Positions of part `part`, and its boxes, edges and clusters with the top left corner
   at (0, 0). */
syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;

/* The same for a forward part and the backward part after it, which stand side by side, each layer
   beside itself; time goes down in one and up in the other (picture_align.c). *width is that of all
   of it, with what is drawn between and beside them. */
syn_status syn__pic_layout_pair(syn__pic_cells *cells, uint32_t part, double *width,
                                syn_error *err) SYN_MUST_USE;
/* Beside the column of backward part `part`, at x: a bar for each collective over its gradients,
   *width together, 0 without one. And the lines from forward part `part` to the next
   (picture_bars.c, picture_kept.c). */
syn_status syn__pic_draw_bars(syn__pic_cells *cells, uint32_t part, double x, double *width,
                              syn_error *err) SYN_MUST_USE;
syn_status syn__pic_draw_kept(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;
/* Their steps: a column with x of all slots, then its drawing from (0, 0). Free it in any case. */
syn_status syn__pic_column_make(syn__pic_column *col, syn__pic_cells *cells, uint32_t part,
                                syn_error *err) SYN_MUST_USE;
syn_status syn__pic_column_finish(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
void syn__pic_column_free(syn__pic_column *col);

/* A cluster without a place yet; `facts` stand behind its name. */
syn_status syn__pic_new_cluster(syn__pic_drawing *d, int32_t parent, int level, const char *name,
                                const char *facts, int32_t *out, syn_error *err) SYN_MUST_USE;
/* First segment of the scope of a cell of the part after its layer: "attn" of "h.3.attn.c_attn". */
syn_status syn__pic_part_name(syn__pic_column *col, uint32_t cell, char *out, size_t out_bytes,
                              syn_error *err) SYN_MUST_USE;
/* Clusters of the part, and the cluster of every cell (picture_cluster.c). */
syn_status syn__pic_make_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Whether a link runs on a rail and starts at its box's side, for nothing is right of that. */
bool syn__pic_starts_aside(const syn__pic_column *col, const syn__pic_link *link);
/* Room that lines take above and below the cells of a row. */
double syn__pic_room_above(const syn__pic_row *row);
double syn__pic_room_below(const syn__pic_row *row);
/* y of the rows and clusters, with the room that rows ask for. */
void syn__pic_place_rows(syn__pic_column *col);
/* Gives clusters their rectangles, rows their y, rails their x; needs x of all slots. */
syn_status syn__pic_place_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
double syn__pic_cluster_head(const syn__pic_drawing *d, int level);
/* Order and x of the slots in their rows (picture_order.c). */
void syn__pic_order_slots(syn__pic_column *col);
syn_status syn__pic_spread_slots(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Boxes and edges (picture_route.c). */
syn_status syn__pic_draw_column(syn__pic_column *col, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
