/* The cells of the trace view, and the texts of boxes. A cell is one box of ops with its pills,
   which are small boxes for the tensors that these ops read and write. The level of detail decides
   how many ops share a cell. The columns of the picture are called parts. */
#ifndef EXPORT_PICTURE_CELLS_H
#define EXPORT_PICTURE_CELLS_H

#include "export/picture/picture_draw.h"
#include "export/picture/picture_fold.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pic_detail {
    SYN__PIC_FULL,   /* every op and every tensor */
    SYN__PIC_OPS,    /* every op; tensors only as text */
    SYN__PIC_RUNS,   /* one box for the ops of a module between two communications */
    SYN__PIC_LAYERS, /* one box for the ops of a layer between two communications */
    SYN__PIC_UNITS,  /* for pages: one box for a layer, including its communication */
    SYN__PIC_CHUNKS, /* ops share boxes so that there are at most level->chunks boxes */
    SYN__PIC_DETAILS
} syn__pic_detail;

/* A pill: a tensor next to an op (input) or below it (output). */
typedef struct syn__pic_pill {
    uint32_t tensor; /* SYN_NO_TENSOR: a summary of `count` tensors */
    uint32_t count;
    int look;
    const char *name, *detail; /* one line of text each, in the drawing's arena */
    const char *rest;          /* second line of a long name, or NULL */
    const char *via;           /* views between the tensor and the op that uses it, or NULL */
    const char *tip;
    double w, h;
    uint32_t box;
} syn__pic_pill;

typedef struct syn__pic_cell {
    uint32_t first, last; /* range of nodes, inclusive */
    uint32_t unit;
    int32_t cluster; /* cluster in the drawing */
    uint32_t section, part;
    syn__pic_detail detail;
    syn__pic_waits waits;
    int look;
    uint32_t first_out, n_outs, first_side, n_sides; /* ranges of pills: the outputs (below) and the
                                                        inputs (at the side) */
    uint32_t first_cut_end, n_cut_ends;
    double above, below; /* space for cut ends above and below the box */
    const char *id, *label, *tip;
    double w, h;
    uint32_t box;
    uint32_t repeats; /* number of repetitions of its ops that the box represents; 0: not a
                         repetition */
    bool adds;        /* the op is an addition, so a residual connection may end here */
    bool sums; /* the op has a list of tensors as input: all outputs with the same look share one
                  pill */
    /* Set by the layout: */
    uint32_t row;
    double x, left, right, height, top; /* x: centre of the op's box; top: of the whole cell */
    double side_x;                      /* distance from x to the inputs on the left */
} syn__pic_cell;

typedef struct syn__pic_link {
    uint32_t from, to; /* cells of the same part; from < to */
    int32_t slot;      /* number of the output of `from` at which the link starts; -1: at the op's
                          box */
    int line;
    bool main; /* the link carries an input of the op, not only a dependency */
    const char *via;
} syn__pic_link;

/* A text in place of a link that crosses a break between columns. It is drawn at cell `cell`; the
   other end of the link is in part `part`. */
typedef struct syn__pic_cut_end {
    uint32_t cell, part;
    uint32_t other;  /* incoming ends: the cell at the other end of the link; outgoing ends: 0 */
    uint32_t number; /* index among the cut ends of the cell */
    int line;
    bool out;         /* the link leads from the cell to that part */
    bool upright;     /* drawn above the column's first cell or below its last cell, not at the
                         side */
    const char *name; /* "from 1 of 3" */
    double w, h;
} syn__pic_cut_end;

/* One column of the picture. */
typedef struct syn__pic_part {
    uint32_t cell_begin, cell_end, link_begin, link_end;
    uint32_t section;
    uint32_t step_index;
    uint32_t plan_section; /* for training steps: SYN__PIC_FORWARD and so on */
    syn_phase phase;
    uint32_t number, of; /* the column is number `number` of the `of` columns of its section */
    int32_t cluster;
    double width, height;
} syn__pic_part;

#define SYN__PIC_MAX_BOXES 1000

typedef struct syn__pic_cells {
    syn__pic_plan *plan;
    syn__pic_drawing *drawing;
    syn__pic_detail detail, decode; /* detail: level of detail. decode: level for decode steps, if
                                       it is less detailed than `detail` */
    syn__pic_detail outside;        /* level for ops outside layers, if it is less detailed than
                                       `detail` */
    uint32_t part_cells;            /* longer columns are broken into several */
    uint32_t chunks;
    bool too_many; /* there are more than SYN__PIC_MAX_BOXES boxes, so the cells are incomplete */
    syn__pic_cell *cells;
    syn__pic_pill *pills;
    syn__pic_link *links;
    syn__pic_part *parts;
    syn__pic_cut_end *cut_ends;
    uint8_t *tensor_seen;          /* per tensor: a box with the tensor's id exists already */
    struct syn__pic_outer *outers; /* scratch memory */
    size_t outers_cap;
    size_t n_cells, n_pills, n_links, n_parts, n_cut_ends;
    size_t cells_cap, pills_cap, links_cap, parts_cap, cut_ends_cap;
} syn__pic_cells;

typedef struct syn__pic_level {
    syn__pic_detail detail, decode, outside;
    uint32_t part_cells, chunks;
} syn__pic_level;

/* Computes the cells, pills, links and parts of a rank. If the function succeeds and too_many is
   set, everything else is invalid. */
syn_status syn__pic_cells_make(syn__pic_cells *cells, syn__pic_plan *plan, syn__pic_drawing *d,
                               const syn__pic_level *level, syn_error *err) SYN_MUST_USE;
void syn__pic_cells_free(syn__pic_cells *cells);
/* Whether the unit has several cells. Such a unit has a frame with its name. */
bool syn__pic_shares_unit(const syn__pic_cells *cells, const syn__pic_cell *cell);
/* The cell that shows the node at this place, or that shows the node drawn instead of it.
   UINT32_MAX: none. */
uint32_t syn__pic_cell_of(const syn__pic_cells *cells, uint32_t place);
/* syn__pic_is_cut: whether a link from the node at place `producer` to cell `to` starts in an
   earlier column of the same section. syn__pic_cut_link records both ends of such a link
   (picture_cut_ends.c). */
bool syn__pic_is_cut(const syn__pic_cells *cells, uint32_t producer, uint32_t to);
syn_status syn__pic_cut_link(syn__pic_cells *cells, uint32_t producer, uint32_t to, int line,
                             syn_error *err) SYN_MUST_USE;
/* Assigns the cut ends to the cells, and names them. Links of one cell with the same kind and
   direction share a cut end. */
syn_status syn__pic_name_cut_ends(syn__pic_cells *cells, syn_error *err) SYN_MUST_USE;
/* Whether the node is drawn. Views and metadata are not. */
bool syn__pic_is_drawn(const syn_node *node);
/* Adds the links that lead into a cell, and the cell's outputs and inputs (picture_links.c). All
   earlier cells must be finished. */
syn_status syn__pic_finish_cell(syn__pic_cells *cells, uint32_t cell, syn_error *err) SYN_MUST_USE;
/* Sets the texts of a cell (picture_label.c), or of one of its outputs or inputs
   (picture_pill.c). */
syn_status syn__pic_label_cell(syn__pic_cells *cells, syn__pic_cell *cell,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_label_pill(syn__pic_cells *cells, syn__pic_pill *pill, uint32_t node,
                               bool output, uint32_t slot, uint32_t tensor,
                               syn_error *err) SYN_MUST_USE;
/* Writes the names of the ops [first, last], without views, in at most max_chars characters: "ln_1,
   qkv, softmax". */
syn_status syn__pic_put_names(syn__pic_plan *plan, uint32_t first, uint32_t last, size_t max_chars,
                              syn__pic_text *out, syn_error *err) SYN_MUST_USE;
/* Writes the parts of the model to which the ops [first, last] belong: "attn, mlp". */
syn_status syn__pic_put_scopes(syn__pic_plan *plan, uint32_t first, uint32_t last,
                               syn__pic_text *out, syn_error *err) SYN_MUST_USE;
/* Makes label and tooltip of a box for the nodes [first, last]. If `name` is empty, the label has
   at most `lines` lines of op names. */
syn_status syn__pic_label_run(syn__pic_plan *plan, syn__arena *arena, uint32_t first, uint32_t last,
                              const char *name, int lines, const char **label, const char **tip,
                              double *w, double *h, syn_error *err) SYN_MUST_USE;
/* Makes label and tooltip of a box for a single node. cuts: include the shards of the weights and
   of the result. */
syn_status syn__pic_label_node(syn__pic_plan *plan, syn__arena *arena, uint32_t node, int look,
                               bool cuts, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) SYN_MUST_USE;
/* Whether two nodes are collectives of the same kind in the same group. */
bool syn__pic_same_comm(const syn_node *a, const syn_node *b);
/* Makes label and tooltip of a bar that represents several collectives: the nodes in [first, last]
   of the same kind and group as node `first`. */
syn_status syn__pic_label_bars(syn__pic_plan *plan, syn__arena *arena, uint32_t first,
                               uint32_t last, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) SYN_MUST_USE;
/* Write parts of labels (picture_label.c):
   - put_groups: a group, such as "tp0 {0,1} and 3 similar".
   - put_payload: the input of a collective, such as "f32[16,768] . ", in views that do not draw
     tensors.
   - put_op: a table with an icon, the name in bold, a remark, and lines with properties. Sets *w,
     the width.
   - put_time: the measured or predicted time. `info`: length of the text before the properties.
   - put_cost: the cost lines of a tooltip. */
void syn__pic_put_groups(syn__pic_text *t, const syn__pic_plan *plan, uint32_t group);
syn_status syn__pic_put_payload(syn__pic_text *t, syn__pic_plan *plan, uint32_t node,
                                const syn_node *n, syn_error *err) SYN_MUST_USE;
typedef struct syn__pic_node_lines {
    const char *costs, *weight, *result; /* one line each; "": no such line */
} syn__pic_node_lines;
void syn__pic_put_op(syn__pic_text *t, const syn__pic_style *style, const char *name,
                     const char *remark, const syn__pic_node_lines *info, double *w);
void syn__pic_put_time(syn__pic_text *t, size_t info, const syn__pic_cost *c);
void syn__pic_put_cost(syn__pic_text *t, const syn__pic_cost *c);
/* Writes the second line of a collective's box, its group and time: "dp0 {0,1}, ~12 us". */
syn_status syn__pic_put_comm_info(syn__pic_plan *plan, uint32_t node, syn__pic_text *out,
                                  syn_error *err) SYN_MUST_USE;
int syn__pic_look_of(const syn_node *node);
syn_status syn__pic_keep(syn__arena *arena, const syn__pic_text *t, const char **out,
                         syn_error *err) SYN_MUST_USE;
/* Writes "\nrepresents 12 layers" if the node represents several layers. */
void syn__pic_put_stands_for(syn__pic_text *t, const syn__pic_plan *plan, uint32_t node);
/* Writes the shard of a tensor, "columns 0-63 of 128" or "partial sum", followed by `then`.
   Writes nothing if the tensor is not sharded. */
void syn__pic_put_part(syn__pic_text *t, const syn_graph_tensor *tensor, const char *then);

#ifdef __cplusplus
}
#endif
#endif
