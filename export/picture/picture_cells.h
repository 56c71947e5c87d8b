/* The cells of the trace view: what becomes a box, at a level of detail, and what boxes say. */
#ifndef EXPORT_PICTURE_CELLS_H
#define EXPORT_PICTURE_CELLS_H

#include "export/picture/picture_draw.h"
#include "export/picture/picture_fold.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    int look;
    uint32_t first_out, n_outs, first_side, n_sides; /* pills */
    const char *id, *label, *tip;
    double w, h;
    uint32_t box;
    bool adds; /* an addition: may end a residual connection */
    bool sums; /* an op over a list: a pill for all its outputs of one look */
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

typedef enum syn__pic_detail {
    SYN__PIC_FULL,   /* every op and every tensor */
    SYN__PIC_OPS,    /* ops; tensors only as text */
    SYN__PIC_RUNS,   /* ops between communications in one box */
    SYN__PIC_LAYERS, /* one box a layer */
    SYN__PIC_CHUNKS, /* a few hundred boxes whatever comes */
    SYN__PIC_DETAILS
} syn__pic_detail;

#define SYN__PIC_MAX_BOXES 1000

typedef struct syn__pic_cells {
    syn__pic_plan *plan;
    syn__pic_drawing *drawing;
    syn__pic_detail detail;
    bool too_many; /* stopped: more than SYN__PIC_MAX_BOXES */
    syn__pic_cell *cells;
    syn__pic_pill *pills;
    syn__pic_link *links;
    syn__pic_part *parts;
    uint8_t *tensor_seen;          /* per tensor: a box bears its id */
    struct syn__pic_outer *outers; /* scratch */
    size_t outers_cap;
    size_t n_cells, n_pills, n_links, n_parts;
    size_t cells_cap, pills_cap, links_cap, parts_cap;
} syn__pic_cells;

/* Cells, pills, links and parts of a rank. On success with too_many set, only that is of use. */
syn_status syn__pic_cells_make(syn__pic_cells *cells, syn__pic_plan *plan, syn__pic_drawing *d,
                               syn__pic_detail detail, syn_error *err) SYN_MUST_USE;
void syn__pic_cells_free(syn__pic_cells *cells);
/* The cell that the node at this place, or the one it repeats, is drawn in, or UINT32_MAX. */
uint32_t syn__pic_cell_of(const syn__pic_cells *cells, uint32_t place);
/* Texts of one cell (picture_label.c), of one of its outputs or inputs (picture_pill.c). */
syn_status syn__pic_label_cell(syn__pic_cells *cells, syn__pic_cell *cell,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_label_pill(syn__pic_cells *cells, syn__pic_pill *pill, uint32_t node,
                               bool output, uint32_t slot, uint32_t tensor,
                               syn_error *err) SYN_MUST_USE;
/* Label and tooltip of a box that stands for nodes [first, last], with at most `lines` lines of
   their names; without `name` these are its first line. */
syn_status syn__pic_label_run(syn__pic_plan *plan, syn__arena *arena, uint32_t first, uint32_t last,
                              const char *name, int lines, const char **label, const char **tip,
                              double *w, double *h, syn_error *err) SYN_MUST_USE;
/* Label and tooltip of a single node's box. */
syn_status syn__pic_label_node(syn__pic_plan *plan, syn__arena *arena, uint32_t node, int look,
                               const char **label, const char **tip, double *w, double *h,
                               syn_error *err) SYN_MUST_USE;
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
