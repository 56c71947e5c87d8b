/* A drawing: boxes, paths and clusters with positions and texts, before it is written as DOT.
   Lengths are in points (1/72 inch). y grows downwards; the DOT writer flips it. */
#ifndef EXPORT_PICTURE_DRAW_H
#define EXPORT_PICTURE_DRAW_H

#include "export/export.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a box looks. The first values are the categories of ops, in the order of syn_category. */
typedef enum syn__pic_look {
    SYN__PIC_OP = 0,
    SYN__PIC_RUN = SYN_CATEGORY_COUNT, /* several ops in one box */
    SYN__PIC_MEMORY,
    SYN__PIC_COLLECTIVE,
    SYN__PIC_MESSAGE, /* send or receive */
    SYN__PIC_ACTIVATION,
    SYN__PIC_PARAM,
    SYN__PIC_INPUT,
    SYN__PIC_STATE,
    SYN__PIC_ELSEWHERE, /* a tensor that is made in another part of the picture */
    SYN__PIC_TIME,      /* bars of the time view: one look per category of ops, */
    SYN__PIC_TIME_WAIT = SYN__PIC_TIME + SYN_CATEGORY_COUNT, /* waiting for other ranks, */
    SYN__PIC_TIME_RANGE,                                     /* layers, modules and user ranges */
    SYN__PIC_BADGE,
    SYN__PIC_PLAIN, /* text without border */
    SYN__PIC_LOOKS
} syn__pic_look;

typedef struct syn__pic_style {
    const char *legend; /* text in the legend */
    const char *icon;   /* before the op's name; "": none */
    const char *shape, *style, *fill, *line;
    double pen;
    int peripheries;
    double pad;   /* space between text and left or right border */
    double slant; /* fraction of the width that a slanted side takes outside the text */
    double more;  /* extra height compared with a plain box */
    double foot;  /* share of `more` that is below the text instead of around it */
} syn__pic_style;

const syn__pic_style *syn__pic_style_of(int look);

typedef enum syn__pic_line {
    SYN__PIC_DATA,
    SYN__PIC_RED,      /* communication */
    SYN__PIC_RESIDUAL, /* residual (skip) connection */
    SYN__PIC_ORDER,    /* dependency without data */
    SYN__PIC_KEPT,     /* saved by forward for backward */
    SYN__PIC_PAIR,     /* from a tp_enter to the all-reduce of its gradient */
    SYN__PIC_LINES,
    SYN__PIC_GRID = SYN__PIC_LINES /* of a time axis; not in the legend */
} syn__pic_line;

typedef struct syn__pic_point {
    double x, y;
} syn__pic_point;

typedef struct syn__pic_box {
    const char *id;    /* unique; "r0.o12" or "r0.t7" if the box is that op or tensor */
    const char *label; /* HTML-like */
    const char *tip;   /* tooltip, lines separated by \n */
    double x, y, w, h; /* centre and size */
    int look;
    int32_t cluster; /* -1: none */
} syn__pic_box;

/* A path with the points [first_point, first_point + n_points): the start, then three control
   points per Bezier segment. With `arrow`, the arrow head ends at `tip`. The label, if any, is
   centred at (lx, ly). */
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
    const char *label; /* HTML-like; "": none */
    const char *tip;
    double x0, y0, x1, y1;
    double label_w, label_h, min_w; /* min_w: width of the label's line with everything in it */
    int32_t parent;                 /* an earlier cluster, or -1 */
    int level;                      /* 0: phase, 1: layer, 2: part of a layer */
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
/* Append an element and return its index. Texts must be in d->arena or literals. */
syn_status syn__pic_add_box(syn__pic_drawing *d, const syn__pic_box *box, uint32_t *out,
                            syn_error *err) SYN_MUST_USE;
syn_status syn__pic_add_cluster(syn__pic_drawing *d, const syn__pic_cluster *cluster, int32_t *out,
                                syn_error *err) SYN_MUST_USE;
/* Starts a path at p as the last edge; the functions below extend it. */
syn_status syn__pic_begin_edge(syn__pic_drawing *d, const syn__pic_edge *edge, syn__pic_point p,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_line_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* A curve that leaves and arrives vertically. */
syn_status syn__pic_curve_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* A curve that leaves and arrives horizontally. */
syn_status syn__pic_sway_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* A path through n corners with right angles, which are rounded. Ends at p[n - 1]. */
syn_status syn__pic_corners_to(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* Moves the boxes, edges and clusters from the given counts on. */
typedef struct syn__pic_mark {
    size_t boxes, edges, clusters, points;
} syn__pic_mark;
syn__pic_mark syn__pic_mark_of(const syn__pic_drawing *d);
void syn__pic_shift(syn__pic_drawing *d, syn__pic_mark from, double dx, double dy);

/* Whether no box is in the way from p by dx to the right, or by dy down. */
bool syn__pic_free_way(const syn__pic_drawing *d, syn__pic_point p, double dx, double dy);
/* Mirrors these vertically within y from 0 to `height`; texts stay upright. */
void syn__pic_turn_over(syn__pic_drawing *d, syn__pic_mark from, double height);

/* A unit of page layout: everything drawn from `mark` on, with its upper left corner at (0,
   top). */
typedef struct syn__pic_panel {
    syn__pic_mark mark;
    double width, height, top;
    double x, y; /* position */
    bool first;  /* the first in its column, with `head` of free space above it */
} syn__pic_panel;
/* Places panels in rows, or on a page in columns so that they are shown as large as possible. Sets
   the size of d. */
void syn__pic_place_panels(syn__pic_drawing *d, syn__pic_panel *panels, size_t n, double head);
/* Size of the smallest text in points, and whether it is readable on d->page. */
double syn__pic_smallest(const syn__pic_drawing *d);
bool syn__pic_readable(const syn__pic_drawing *d);
/* Largest width and height of a drawing on a landscape page so that texts of `smallest` points are
   readable. */
void syn__pic_page_room(syn_page page, double smallest, double *w, double *h);

#define SYN__PIC_ARROW 6.0 /* length of an arrow head */

/* Adds title, lines of text and legend above the drawing so far, whose size is width x height from
   (0, 0). The legend only has looks and lines that occur. */
typedef struct syn__pic_heading {
    const char *title;
    const char *lines[4]; /* plain text; ends with NULL */
} syn__pic_heading;
syn_status syn__pic_add_heading(syn__pic_drawing *d, const syn__pic_heading *heading,
                                syn_error *err) SYN_MUST_USE;

/* Adds left-aligned text with its top left corner at (x, y). *w, unless NULL: its width. */
syn_status syn__pic_add_text(syn__pic_drawing *d, const char *text, double x, double y, double size,
                             bool bold, double *w, syn_error *err) SYN_MUST_USE;
/* Adds "xN what" on a dark background, with its right end at x. */
syn_status syn__pic_add_badge(syn__pic_drawing *d, uint32_t count, const char *what, double x,
                              double y, int32_t cluster, const char *tip,
                              syn_error *err) SYN_MUST_USE;

/* The name of a node: its label, otherwise its op, otherwise its id as "o12", which is written to
   buf. */
#define SYN__PIC_ID_BYTES 24
const char *syn__pic_node_name(const syn_node *node, char buf[SYN__PIC_ID_BYTES]);

/* Formats the metadata (model, tp, dtype ...) in one line (picture_head.c). */
syn_status syn__pic_facts(syn__arena *arena, const syn_graph *graph, const char **out,
                          syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
