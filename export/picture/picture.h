/* Inside of the picture exporters. A picture is made in steps, each its own file: fold (which
   steps, layers and ranks repeat), cells (what becomes a box), layout (positions), draw (boxes,
   edges and clusters with their texts), dot (the same as DOT text, with cgraph or without), run
   (graphviz turns the text into SVG or PNG).

   Lengths are points (1/72 inch), y grows downwards until the writer turns it round. */
#ifndef EXPORT_PICTURE_H
#define EXPORT_PICTURE_H

#include "export/export.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Texts (picture_text.c) ---- */

/* A text under construction; what does not fit is cut at a whole character. */
typedef struct syn__pic_text {
    char s[4096];
    size_t n;
} syn__pic_text;

void syn__pic_clear(syn__pic_text *t);
void syn__pic_put(syn__pic_text *t, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Escaped for an HTML-like label; control characters and bytes that are not UTF-8 become '?'. */
void syn__pic_put_html(syn__pic_text *t, const char *text);
/* As put, for plain text of unknown origin: valid UTF-8 without control characters. */
void syn__pic_put_clean(syn__pic_text *t, const char *text);

/* Width in points of `text` in DejaVu Sans of `size` points (a few per cent more than other sans
   fonts need). */
double syn__pic_width(const char *text, double size, bool bold);
/* Copies at most `max` characters of text to out, with an ellipsis if it was cut. Returns out. */
char *syn__pic_shorten(const char *text, size_t max, char *out, size_t out_bytes);

#define SYN__PIC_NUMBER 32
/* "12.5 KiB", "3.2 GFLOP", "12,345", "35.2 us" (micro sign); each into buf[SYN__PIC_NUMBER]. */
const char *syn__pic_bytes(uint64_t bytes, char *buf);
const char *syn__pic_flops(uint64_t flops, char *buf);
const char *syn__pic_count(uint64_t count, char *buf);
const char *syn__pic_time(double ns, char *buf);

/* ---- The drawing (picture_draw.c, picture_look.c) ---- */

/* How a box looks. The first are the categories of ops, in the order of syn_category. */
typedef enum syn__pic_look {
    SYN__PIC_OP = 0,
    SYN__PIC_RUN = SYN_CATEGORY_COUNT, /* several ops in one box */
    SYN__PIC_MEMORY,
    SYN__PIC_COLLECTIVE,
    SYN__PIC_MESSAGE, /* send, recv */
    SYN__PIC_ACTIVATION,
    SYN__PIC_PARAM,
    SYN__PIC_INPUT,
    SYN__PIC_STATE,
    SYN__PIC_ELSEWHERE, /* a tensor made in another part of the picture */
    SYN__PIC_BADGE,
    SYN__PIC_PLAIN, /* text without a border */
    SYN__PIC_LOOKS
} syn__pic_look;

typedef struct syn__pic_style {
    const char *legend; /* what the legend says */
    const char *icon;   /* before an op's name; "" none */
    const char *shape, *style, *fill, *line;
    double pen;
    int peripheries;
    double pad; /* room between text and left or right border */
} syn__pic_style;

const syn__pic_style *syn__pic_style_of(int look);

typedef enum syn__pic_line {
    SYN__PIC_DATA,
    SYN__PIC_RED,      /* communication */
    SYN__PIC_RESIDUAL, /* a skip connection */
    SYN__PIC_ORDER,    /* waits without using data */
    SYN__PIC_LINES
} syn__pic_line;

typedef struct syn__pic_point {
    double x, y;
} syn__pic_point;

typedef struct syn__pic_box {
    const char *id;    /* unique; "r0.o12" or "r0.t7" where it stands for one of these */
    const char *label; /* HTML-like */
    const char *tip;   /* tooltip, lines separated by \n */
    double x, y, w, h; /* centre and size */
    int look;
    int32_t cluster; /* or -1 */
} syn__pic_box;

/* A path: points[first_point .. +n_points): a start, then three control points a segment; the
   arrow's tip is `tip` if `arrow`. Its label, if any, is centred at (lx, ly). */
typedef struct syn__pic_edge {
    uint32_t from, to; /* boxes */
    size_t first_point, n_points;
    syn__pic_point tip;
    const char *label, *tip_text;
    double lx, ly, label_w;
    int line;
    bool arrow;
} syn__pic_edge;

typedef struct syn__pic_cluster {
    const char *label; /* HTML-like, "" none */
    const char *tip;
    double x0, y0, x1, y1;
    double label_w, label_h, min_w; /* min_w: with what else stands in the label's line */
    int32_t parent;                 /* an earlier cluster, or -1 */
    int level;                      /* 0 phase, 1 layer, 2 part of a layer */
} syn__pic_cluster;

typedef struct syn__pic_drawing {
    syn__arena arena;
    syn__pic_box *boxes;
    syn__pic_edge *edges;
    syn__pic_cluster *clusters;
    syn__pic_point *points;
    size_t n_boxes, n_edges, n_clusters, n_points;
    size_t boxes_cap, edges_cap, clusters_cap, points_cap;
    double width, height;
    const char *title; /* plain text */
} syn__pic_drawing;

void syn__pic_drawing_free(syn__pic_drawing *d);
/* Each appends one and gives its index; texts must live in d->arena or be literals. */
syn_status syn__pic_add_box(syn__pic_drawing *d, const syn__pic_box *box, uint32_t *out,
                            syn_error *err) SYN_MUST_USE;
syn_status syn__pic_add_cluster(syn__pic_drawing *d, const syn__pic_cluster *cluster, int32_t *out,
                                syn_error *err) SYN_MUST_USE;
/* Starts a path at p and makes it the newest edge; the functions below lengthen it. */
syn_status syn__pic_begin_edge(syn__pic_drawing *d, const syn__pic_edge *edge, syn__pic_point p,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_line_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Leaves and arrives vertically. */
syn_status syn__pic_curve_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Right-angled path through n corners with round corners, ending at p[n - 1]. */
syn_status syn__pic_corners_to(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* Moves boxes, edges and clusters from the given counts on. */
typedef struct syn__pic_mark {
    size_t boxes, edges, clusters, points;
} syn__pic_mark;
syn__pic_mark syn__pic_mark_of(const syn__pic_drawing *d);
void syn__pic_shift(syn__pic_drawing *d, syn__pic_mark from, double dx, double dy);

#define SYN__PIC_ARROW 6.0 /* length of an arrow head */

/* Title, facts and legend above what is drawn so far, whose extent is width x height from (0, 0).
   `subtitle` says what was folded. Only looks and lines that occur are explained. */
typedef struct syn__pic_heading {
    const char *title;
    const char *lines[4]; /* plain text; NULL ends */
} syn__pic_heading;
syn_status syn__pic_add_heading(syn__pic_drawing *d, const syn__pic_heading *heading,
                                syn_error *err) SYN_MUST_USE;

/* Left-aligned text with its top left corner at (x, y); *w, if wanted, is its width. */
syn_status syn__pic_add_text(syn__pic_drawing *d, const char *text, double x, double y, double size,
                             bool bold, double *w, syn_error *err) SYN_MUST_USE;
/* "xN what" on a dark ground with its right end at x. */
syn_status syn__pic_add_badge(syn__pic_drawing *d, uint32_t count, const char *what, double x,
                              double y, int32_t cluster, const char *tip,
                              syn_error *err) SYN_MUST_USE;

/* ---- Folding (picture_fold.c) ---- */

/* Consecutive nodes of one step, phase and layer. */
typedef struct syn__pic_unit {
    uint32_t begin, end; /* nodes */
    uint32_t step_index; /* of plan->steps */
    syn_phase phase;
    const char *layer; /* "h.3"; "" outside layers */
    uint64_t sig;
    uint32_t rep;   /* the unit drawn instead; its own index if drawn */
    uint32_t count; /* of a drawn unit: how many it stands for */
    uint32_t last;  /* of a drawn unit: the last of these */
} syn__pic_unit;

typedef struct syn__pic_step {
    uint32_t begin, end;           /* nodes */
    uint32_t unit_begin, unit_end; /* units */
    uint32_t number, rep, count;
    uint64_t sig;
} syn__pic_step;

typedef struct syn__pic_totals {
    uint64_t ops, flops, bytes, comms, comm_bytes;
    double busy_ns, wait_ns, predicted_ns; /* sums, SYN_NO_TIME if no node has one (wait_ns: 0);
                                              busy_ns is without the waiting for other ranks */
} syn__pic_totals;

void syn__pic_totals_init(syn__pic_totals *t);
/* Adds what node counts for: nothing for metadata, no op for virtual nodes. */
void syn__pic_totals_add(syn__pic_totals *t, const syn_node *node);

typedef struct syn__pic_plan {
    const syn_graph *graph;
    uint32_t rank; /* index */
    uint32_t n_nodes;
    syn__pic_unit *units;
    syn__pic_step *steps;
    size_t n_units, n_steps, units_cap, steps_cap;
    uint64_t rank_sig; /* equal for ranks that do the same */
    syn__pic_totals totals;
    uint32_t folded_steps, folded_units; /* not drawn */
    bool spans_ranks; /* boxes of collectives stand for those of other ranks as well */
    syn_cursor cursor, other, tensor_cursor; /* for callers: one node, a second one, a tensor */
    syn__arena arena;
} syn__pic_plan;

/* What is folded: nothing, equal steps and equal layers one after the other, or also sequences of
   up to four units that repeat (pairs of layers, microbatches). */
enum { SYN__PIC_FOLD_NONE = 0, SYN__PIC_FOLD_LAYERS = 1, SYN__PIC_FOLD_ALL = 4 };
/* Reads one rank in one pass. */
syn_status syn__pic_plan_make(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank, int fold,
                              syn_error *err) SYN_MUST_USE;
void syn__pic_plan_free(syn__pic_plan *plan);
uint32_t syn__pic_unit_of(const syn__pic_plan *plan, uint32_t node);
/* The node drawn in the place of `node`. */
uint32_t syn__pic_rep_of(const syn__pic_plan *plan, uint32_t node);
bool syn__pic_unit_drawn(const syn__pic_plan *plan, size_t unit);
syn_status syn__pic_node(syn__pic_plan *plan, uint32_t node, syn_cursor *cursor,
                         const syn_node **out, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_tensor(syn__pic_plan *plan, uint32_t tensor, const syn_graph_tensor **out,
                           syn_error *err) SYN_MUST_USE;
/* "h.0", or "h.0 ... h.11" when folded, with a real ellipsis. */
void syn__pic_unit_title(const syn__pic_plan *plan, uint32_t unit, syn__pic_text *out);
/* "prefill", "decode steps 1 ... 15", "step 0, forward". */
void syn__pic_step_title(const syn__pic_plan *plan, uint32_t step, syn_phase phase,
                         syn__pic_text *out);
static inline bool syn__pic_is_comm(const syn_node *n) {
    return n->kind == SYN_NODE_COLLECTIVE || n->kind == SYN_NODE_SEND || n->kind == SYN_NODE_RECV;
}

/* ---- Ranges over folded steps (picture_range.c) ---- */

/* Smallest spec and largest of a tensor over the steps it stands for. */
typedef struct syn__pic_range {
    syn_spec lo, hi;
} syn__pic_range;

typedef struct syn__pic_cost {
    uint64_t flops_lo, flops_hi, bytes_lo, bytes_hi, comm_lo, comm_hi;
    double busy, predicted; /* means in ns, or SYN_NO_TIME */
    double wait;            /* beside busy, for other ranks */
} syn__pic_cost;

/* "8 us, +2.81 ms waiting": measured, with the wait for other ranks beside it. */
void syn__pic_put_measured(syn__pic_text *t, const syn__pic_cost *c);

/* Cost of nodes [first, last] together, over the steps that they stand for. */
syn_status syn__pic_cost_of(syn__pic_plan *plan, uint32_t first, uint32_t last, syn__pic_cost *c,
                            syn_error *err) SYN_MUST_USE;
/* Shape of an output, or of what input `slot` comes from, over the steps that the node stands
   for. */
syn_status syn__pic_range_of(syn__pic_plan *plan, uint32_t node, bool output, uint32_t slot,
                             syn__pic_range *r, syn_error *err) SYN_MUST_USE;
void syn__pic_put_spec(syn__pic_text *t, const syn__pic_range *r);
typedef const char *syn__pic_human(uint64_t value, char *buf);
/* "12 KiB", or "12 ... 16 KiB" with a real ellipsis. */
void syn__pic_put_range(syn__pic_text *t, syn__pic_human *text, uint64_t lo, uint64_t hi);
/* Follows views: the tensor that holds the data of input `slot` of `node`, the node that made it
   (or SYN_NO_NODE) and which of its outputs it is; `via` collects the views' names. */
typedef struct syn__pic_source {
    uint32_t tensor, node, slot;
} syn__pic_source;
syn_status syn__pic_resolve(syn__pic_plan *plan, uint32_t node, uint32_t slot, syn__pic_source *out,
                            syn__pic_text *via, syn_error *err) SYN_MUST_USE;

/* ---- Cells: what becomes boxes in the trace view (picture_cells.c) ---- */

/* A tensor beside or under an op. */
typedef struct syn__pic_pill {
    uint32_t tensor; /* or SYN_NO_TENSOR: a summary of `count` tensors */
    uint32_t count;
    int look;
    const char *name, *detail; /* two lines; arena */
    const char *via;           /* views between the tensor and its user, or NULL */
    const char *tip;
    double w;
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
/* Texts of one cell, its outputs and its inputs (picture_label.c). */
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
int syn__pic_look_of(const syn_node *node);
/* "tp0 {0,1}", "tp0 {0…7}" */
void syn__pic_put_group(syn__pic_text *t, const syn_graph *graph, uint32_t group);

/* ---- Layout and views ---- */

/* Positions of part `part`, and its boxes, edges and clusters with the top left corner at (0,
   0). */
syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;

/* The two views. `d` starts zeroed; free it in any case. max_side: points, larger pictures are
   condensed. */
syn_status syn__pic_trace_view(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_comm_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, double max_side,
                              syn_error *err) SYN_MUST_USE;
/* Model, tp, dtype ... of the metadata on one line; totals on another (picture_head.c). */
syn_status syn__pic_facts(syn__arena *arena, const syn_graph *graph, const char **out,
                          syn_error *err) SYN_MUST_USE;

/* ---- Output ---- */

/* DOT text with all positions, for `neato -n2` (picture_dot.c); with cgraph where it is there. */
syn_status syn__pic_write_dot(const syn__pic_drawing *d, syn_sink *sink,
                              syn_error *err) SYN_MUST_USE;
/* The two ways to write it, for tests: they mean the same graph. */
syn_status syn__pic_write_plain(const syn__pic_drawing *d, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;
bool syn__pic_have_cgraph(void);
syn_status syn__pic_write_cgraph(const syn__pic_drawing *d, syn_sink *sink,
                                 syn_error *err) SYN_MUST_USE;

/* Runs graphviz's neato over DOT text (picture_graphviz.c). */
typedef struct syn__pic_limits {
    double seconds; /* wall clock */
    uint64_t cpu_seconds;
    uint64_t memory_bytes;
    const char *program; /* "neato" */
} syn__pic_limits;
#define SYN__PIC_LIMITS \
    { 60.0, 60, (uint64_t)4 << 30, "neato" }
syn_status syn__pic_graphviz(const syn__pic_limits *limits, const char *format, double dpi,
                             const char *dot, size_t dot_bytes, syn_sink *sink,
                             syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
