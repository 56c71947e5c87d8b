/* A drawing: boxes, paths and clusters with their places and texts, before it is written as DOT.
   Lengths are points (1/72 inch), y grows downwards until the writer turns it round. */
#ifndef EXPORT_PICTURE_DRAW_H
#define EXPORT_PICTURE_DRAW_H

#include "export/export.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    SYN__PIC_TIME,      /* bars of the time view: of the categories of ops, */
    SYN__PIC_TIME_WAIT = SYN__PIC_TIME + SYN_CATEGORY_COUNT, /* ... waiting for other ranks, */
    SYN__PIC_TIME_RANGE, /* ... layers, modules and ranges that the program named */
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
    double pad;   /* room between text and left or right border */
    double slant; /* share of the width that a slanted side takes beside the text's corners */
    double more;  /* height beyond that of a box */
    double foot;  /* of that below the text rather than around it */
} syn__pic_style;

const syn__pic_style *syn__pic_style_of(int look);

typedef enum syn__pic_line {
    SYN__PIC_DATA,
    SYN__PIC_RED,      /* communication */
    SYN__PIC_RESIDUAL, /* a skip connection */
    SYN__PIC_ORDER,    /* waits without using data */
    SYN__PIC_KEPT,     /* from forward to backward */
    SYN__PIC_PAIR,     /* from tp_enter to the all-reduce of its gradient */
    SYN__PIC_LINES,
    SYN__PIC_GRID = SYN__PIC_LINES /* of a time axis, which no legend explains */
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
    syn_page page;
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
/* Leaves and arrives horizontally. */
syn_status syn__pic_sway_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Right-angled path through n corners with round corners, ending at p[n - 1]. */
syn_status syn__pic_corners_to(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* Moves boxes, edges and clusters from the given counts on. */
typedef struct syn__pic_mark {
    size_t boxes, edges, clusters, points;
} syn__pic_mark;
syn__pic_mark syn__pic_mark_of(const syn__pic_drawing *d);
void syn__pic_shift(syn__pic_drawing *d, syn__pic_mark from, double dx, double dy);

/* Whether no box is in the way from p over dx to the right, or dy down. */
bool syn__pic_free_way(const syn__pic_drawing *d, syn__pic_point p, double dx, double dy);
/* Turns these upside down within y from 0 to `height`; texts stay upright. */
void syn__pic_turn_over(syn__pic_drawing *d, syn__pic_mark from, double height);

/* What stays together when a picture is laid out: what was drawn from `mark` on, with its upper
   left corner at (0, top). */
typedef struct syn__pic_panel {
    syn__pic_mark mark;
    double width, height, top;
    double x, y; /* where it goes */
    bool first;  /* in its column: `head` is free above it */
} syn__pic_panel;
/* In rows, or on a page in columns as large as that shows them; sets the extent of d. */
void syn__pic_place_panels(syn__pic_drawing *d, syn__pic_panel *panels, size_t n, double head);
/* Points of the smallest text, and whether it can be read on d->page. */
double syn__pic_smallest(const syn__pic_drawing *d);
bool syn__pic_readable(const syn__pic_drawing *d);
/* How wide and high a drawing may be on a page, A4 across, so that texts of `smallest` points can
   be read. */
void syn__pic_page_room(syn_page page, double smallest, double *w, double *h);

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

/* What a node is called: by its label, else its op, else its id as "o12", which is put into buf. */
#define SYN__PIC_ID_BYTES 24
const char *syn__pic_node_name(const syn_node *node, char buf[SYN__PIC_ID_BYTES]);

/* Model, tp, dtype ... of the metadata on one line; totals on another (picture_head.c). */
syn_status syn__pic_facts(syn__arena *arena, const syn_graph *graph, const char **out,
                          syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
