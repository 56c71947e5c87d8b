/* The cells of the trace view: what becomes a box, at a level of detail, and what boxes say. */
#ifndef EXPORT_PICTURE_CELLS_H
#define EXPORT_PICTURE_CELLS_H

#include "export/picture/picture_draw.h"
#include "export/picture/picture_fold.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pic_detail {
    SYN__PIC_FULL,   /* every op and every tensor */
    SYN__PIC_OPS,    /* ops; tensors only as text */
    SYN__PIC_RUNS,   /* ops of one module between communications in one box */
    SYN__PIC_LAYERS, /* ops of one layer between communications in one box */
    SYN__PIC_UNITS,  /* of a page: all of a layer, with what it communicates */
    SYN__PIC_CHUNKS, /* at most level->chunks boxes whatever comes */
    SYN__PIC_DETAILS
} syn__pic_detail;

/* A tensor beside or under an op. */
typedef struct syn__pic_pill {
    uint32_t tensor; /* or SYN_NO_TENSOR: a summary of `count` tensors */
    uint32_t count;
    int look;
    const char *name, *detail; /* a line each; arena */
    const char *rest;          /* of a long name, in a line of its own; or NULL */
    const char *via;           /* views between the tensor and its user, or NULL */
    const char *tip;
    double w, h;
    uint32_t box;
} syn__pic_pill;

typedef struct syn__pic_cell {
    uint32_t first, last; /* nodes, both included */
    uint32_t unit;
    int32_t cluster; /* of the drawing */
    uint32_t section, part;
    syn__pic_detail detail;
    syn__pic_waits waits;
    int look;
    uint32_t first_out, n_outs, first_side, n_sides; /* pills */
    uint32_t first_cut_end, n_cut_ends;
    double above, below; /* room for cut ends */
    const char *id, *label, *tip;
    double w, h;
    uint32_t box;
    uint32_t repeats; /* of a few ops, in a box that stands for all of them; else 0 */
    bool adds;        /* an addition: may end a residual connection */
    bool sums;        /* an op over a list: a pill for all its outputs of one look */
    /* layout */
    uint32_t row;
    double x, left, right, height, top; /* x: the op's centre; top of the cell */
    double side_x;                      /* from x left to the inputs beside it */
} syn__pic_cell;

typedef struct syn__pic_link {
    uint32_t from, to; /* cells of one part; from < to */
    int32_t slot;      /* output of `from`, -1: the op itself */
    int line;
    bool main; /* one of the data inputs */
    const char *via;
} syn__pic_link;

/* An end of a link that a break between columns cuts, at cell `cell`; part: of the other end. */
typedef struct syn__pic_cut_end {
    uint32_t cell, part;
    uint32_t other;  /* of one that comes in, the cell at the other end; else 0 */
    uint32_t number; /* among those of the cell */
    int line;
    bool out;         /* from the cell to that part */
    bool upright;     /* above the column's first cell, or below its last */
    const char *name; /* "from 1 of 3" */
    double w, h;
} syn__pic_cut_end;

/* What one column of the picture holds. */
typedef struct syn__pic_part {
    uint32_t cell_begin, cell_end, link_begin, link_end;
    uint32_t section;
    uint32_t step_index;
    uint32_t plan_section; /* SYN__PIC_FORWARD ..., of a training step */
    syn_phase phase;
    uint32_t number, of; /* part number within its section */
    int32_t cluster;
    double width, height;
} syn__pic_part;

#define SYN__PIC_MAX_BOXES 1000

typedef struct syn__pic_cells {
    syn__pic_plan *plan;
    syn__pic_drawing *drawing;
    syn__pic_detail detail, decode; /* decode steps with the lesser of the two */
    syn__pic_detail outside;        /* the same of what is outside layers */
    uint32_t part_cells;            /* a column of more is broken, as a newspaper's */
    uint32_t chunks;
    bool too_many; /* stopped: more than SYN__PIC_MAX_BOXES */
    syn__pic_cell *cells;
    syn__pic_pill *pills;
    syn__pic_link *links;
    syn__pic_part *parts;
    syn__pic_cut_end *cut_ends;
    uint8_t *tensor_seen;          /* per tensor: a box bears its id */
    struct syn__pic_outer *outers; /* scratch */
    size_t outers_cap;
    size_t n_cells, n_pills, n_links, n_parts, n_cut_ends;
    size_t cells_cap, pills_cap, links_cap, parts_cap, cut_ends_cap;
} syn__pic_cells;

typedef struct syn__pic_level {
    syn__pic_detail detail, decode, outside;
    uint32_t part_cells, chunks;
} syn__pic_level;

/* Cells, pills, links and parts of a rank. On success with too_many set, only that is of use. */
syn_status syn__pic_cells_make(syn__pic_cells *cells, syn__pic_plan *plan, syn__pic_drawing *d,
                               const syn__pic_level *level, syn_error *err) SYN_MUST_USE;
void syn__pic_cells_free(syn__pic_cells *cells);
/* Whether other cells are of this one's unit, which then has a frame with its name. */
bool syn__pic_shares_unit(const syn__pic_cells *cells, const syn__pic_cell *cell);
/* The cell that the node at this place, or the one it repeats, is drawn in, or UINT32_MAX. */
uint32_t syn__pic_cell_of(const syn__pic_cells *cells, uint32_t place);
/* Whether the way from the node at place `producer` to cell `to` leads from an earlier column of
   the same section; notes its ends (picture_cut_ends.c). */
bool syn__pic_is_cut(const syn__pic_cells *cells, uint32_t producer, uint32_t to);
syn_status syn__pic_cut_link(syn__pic_cells *cells, uint32_t producer, uint32_t to, int line,
                             syn_error *err) SYN_MUST_USE;
/* Gives each cell its cut ends: one for all links of one kind and direction. */
syn_status syn__pic_name_cut_ends(syn__pic_cells *cells, syn_error *err) SYN_MUST_USE;
/* Neither a view nor metadata. */
bool syn__pic_is_drawn(const syn_node *node);
/* Links into a cell, its outputs and its inputs (picture_links.c); cells before it are done. */
syn_status syn__pic_finish_cell(syn__pic_cells *cells, uint32_t cell, syn_error *err) SYN_MUST_USE;
/* Texts of one cell (picture_label.c), of one of its outputs or inputs (picture_pill.c). */
syn_status syn__pic_label_cell(syn__pic_cells *cells, syn__pic_cell *cell,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_label_pill(syn__pic_cells *cells, syn__pic_pill *pill, uint32_t node,
                               bool output, uint32_t slot, uint32_t tensor,
                               syn_error *err) SYN_MUST_USE;
/* "ln_1, qkv, softmax": of the ops [first, last] but views, at most so many characters. */
syn_status syn__pic_put_names(syn__pic_plan *plan, uint32_t first, uint32_t last, size_t max_chars,
                              syn__pic_text *out, syn_error *err) SYN_MUST_USE;
/* The parts of the model that the ops [first, last] are of: "attn, mlp". */
syn_status syn__pic_put_scopes(syn__pic_plan *plan, uint32_t first, uint32_t last,
                               syn__pic_text *out, syn_error *err) SYN_MUST_USE;
/* Label and tooltip of a box that stands for nodes [first, last], with at most `lines` lines of
   their names; without `name` these are its first line. */
syn_status syn__pic_label_run(syn__pic_plan *plan, syn__arena *arena, uint32_t first, uint32_t last,
                              const char *name, int lines, const char **label, const char **tip,
                              double *w, double *h, syn_error *err) SYN_MUST_USE;
/* Label and tooltip of a single node's box; cuts: with the parts of weights and result. */
syn_status syn__pic_label_node(syn__pic_plan *plan, syn__arena *arena, uint32_t node, int look,
                               bool cuts, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) SYN_MUST_USE;
/* Whether two nodes are collectives of one kind in one group. */
bool syn__pic_same_comm(const syn_node *a, const syn_node *b);
/* Label and tooltip of a bar for all of [first, last] that are so like the first. */
syn_status syn__pic_label_bars(syn__pic_plan *plan, syn__arena *arena, uint32_t first,
                               uint32_t last, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) SYN_MUST_USE;
/* Pieces of labels (picture_label.c): "tp0 {0,1} and 3 like it"; "f32[16,768] . " of what a rank
   gives to a collective, where no tensors are drawn; a table of icon, bold name with a remark and a
   second line, which needs *w; measured or predicted time, behind other facts from `facts` on;
   lines of a tooltip. */
void syn__pic_put_groups(syn__pic_text *t, const syn__pic_plan *plan, uint32_t group);
syn_status syn__pic_put_payload(syn__pic_text *t, syn__pic_plan *plan, uint32_t node,
                                const syn_node *n, syn_error *err) SYN_MUST_USE;
typedef struct syn__pic_facts_of {
    const char *costs, *weight, *result; /* a line each; "" none */
} syn__pic_facts_of;
void syn__pic_put_op(syn__pic_text *t, const syn__pic_style *style, const char *name,
                     const char *remark, const syn__pic_facts_of *facts, double *w);
void syn__pic_put_time(syn__pic_text *t, size_t facts, const syn__pic_cost *c);
void syn__pic_put_cost(syn__pic_text *t, const syn__pic_cost *c);
/* "dp0 {0,1}, ~12 us": group and time of a collective, as the second line of its box says. */
syn_status syn__pic_put_comm_facts(syn__pic_plan *plan, uint32_t node, syn__pic_text *out,
                                   syn_error *err) SYN_MUST_USE;
int syn__pic_look_of(const syn_node *node);
syn_status syn__pic_keep(syn__arena *arena, const syn__pic_text *t, const char **out,
                         syn_error *err) SYN_MUST_USE;
/* "\nstands for 12 layers" if the node does. */
void syn__pic_put_stands_for(syn__pic_text *t, const syn__pic_plan *plan, uint32_t node);
/* "columns 0-63 of 128", or "term of a sum", with `then` behind it; nothing of a whole tensor. */
void syn__pic_put_part(syn__pic_text *t, const syn_graph_tensor *tensor, const char *then);

#ifdef __cplusplus
}
#endif
#endif
