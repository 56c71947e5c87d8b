/* A drawing, before it is written as DOT: boxes, paths and clusters with their positions and texts.
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
    SYN__PIC_ELSEWHERE, /* a tensor that another part of the picture computes */
    SYN__PIC_TIME,      /* bars of the time view: one look per category of ops */
    SYN__PIC_TIME_WAIT = SYN__PIC_TIME + SYN_CATEGORY_COUNT, /* bars of the time view: waiting for
                                                                other ranks */
    SYN__PIC_TIME_RANGE,                                     /* bars of the time view: layers,
                                                                modules and user ranges */
    SYN__PIC_BADGE,
    SYN__PIC_PLAIN, /* text without border */
    SYN__PIC_LOOKS
} syn__pic_look;

typedef struct syn__pic_style {
    const char *legend; /* text in the legend */
    const char *icon;   /* character before the op's name; "": none */
    const char *shape, *style, *fill, *line;
    double pen;
    int peripheries;
    double pad;   /* space between text and left or right border */
    double slant; /* fraction of the width by which slanted sides exceed the text */
    double more;  /* height that the shape needs in addition to a rectangle */
    double foot;  /* share of `more` that is below the text instead of around it */
} syn__pic_style;

const syn__pic_style *syn__pic_style_of(int look);

typedef enum syn__pic_line {
    SYN__PIC_DATA,
    SYN__PIC_RED,      /* communication */
    SYN__PIC_RESIDUAL, /* residual (skip) connection */
    SYN__PIC_ORDER,    /* dependency without data */
    SYN__PIC_SAVED,    /* saved by forward for backward */
    SYN__PIC_PAIR,     /* from a tp_enter to the all-reduce of its gradient */
    SYN__PIC_LINES,
    SYN__PIC_GRID = SYN__PIC_LINES /* vertical line of a time axis; not in the legend */
} syn__pic_line;

typedef struct syn__pic_point {
    double x, y;
} syn__pic_point;

typedef struct syn__pic_box {
    const char *id;    /* unique; "r0.o12" if the box is one op, "r0.t7" if it is one tensor */
    const char *label; /* HTML-like */
    const char *tip;   /* tooltip, lines separated by \n */
    double x, y, w, h; /* centre and size */
    int look;
    int32_t cluster; /* -1: none */
} syn__pic_box;

/* A path with the points [first_point, first_point + n_points): the start, and then three control
   points per Bezier segment. If `arrow` is set, an arrow head ends at `tip`. If there is a label,
   it is centred at (lx, ly). */
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
    double label_w, label_h, min_w; /* min_w: width that the cluster needs for the line with its
                                       label and badge */
    int32_t parent;                 /* index of an earlier cluster; -1: none */
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
/* Starts a path at p. The functions below extend the path that was started last. */
syn_status syn__pic_begin_edge(syn__pic_drawing *d, const syn__pic_edge *edge, syn__pic_point p,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_line_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Adds a curve that is vertical at both ends. */
syn_status syn__pic_curve_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Adds a curve that is horizontal at both ends. */
syn_status syn__pic_sway_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) SYN_MUST_USE;
/* Adds lines through the n points p, which end at p[n - 1]. Their right angles are rounded. */
syn_status syn__pic_corners_to(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* A position in the lists of a drawing. syn__pic_shift moves all elements that were added after
   syn__pic_mark_of returned it. */
typedef struct syn__pic_mark {
    size_t boxes, edges, clusters, points;
} syn__pic_mark;
syn__pic_mark syn__pic_mark_of(const syn__pic_drawing *d);
void syn__pic_shift(syn__pic_drawing *d, syn__pic_mark from, double dx, double dy);

/* Whether no box is in the way from p to the right by dx, or downwards by dy. */
bool syn__pic_free_way(const syn__pic_drawing *d, syn__pic_point p, double dx, double dy);
/* Mirrors the elements after `from` vertically within y from 0 to `height`. Texts stay upright. */
void syn__pic_flip(syn__pic_drawing *d, syn__pic_mark from, double height);

/* A part of the drawing that is placed as a whole: everything that was added after `mark`. Its
   upper left corner is drawn at (0, top). */
typedef struct syn__pic_panel {
    syn__pic_mark mark;
    double width, height, top;
    double x, y; /* where the panel is placed */
    bool first;  /* the panel is the first in its column, with `head` points of free space above
                    it */
} syn__pic_panel;
/* Places the panels: in rows, or if the drawing has a page, in columns so that they are shown as
   large as possible. Sets the size of d. */
void syn__pic_place_panels(syn__pic_drawing *d, syn__pic_panel *panels, size_t n, double head);
/* syn__pic_smallest: size of the smallest text in points. syn__pic_readable: whether it is readable
   on d->page. */
double syn__pic_smallest(const syn__pic_drawing *d);
bool syn__pic_readable(const syn__pic_drawing *d);
/* Sets *w and *h to the largest size of a drawing on a landscape page at which texts of `smallest`
   points are readable. */
void syn__pic_page_space(syn_page page, double smallest, double *w, double *h);

#define SYN__PIC_ARROW 6.0 /* length of an arrow head */

/* Adds a title, lines of text and a legend above the drawing so far, whose size is width x height
   from (0, 0). The legend lists only looks and lines that occur in the drawing. */
typedef struct syn__pic_heading {
    const char *title;
    const char *lines[4]; /* plain text; NULL after the last line */
} syn__pic_heading;
syn_status syn__pic_add_heading(syn__pic_drawing *d, const syn__pic_heading *heading,
                                syn_error *err) SYN_MUST_USE;

/* Adds left-aligned text with its top left corner at (x, y). *w gets the width of the text; `w` may
   be NULL. */
syn_status syn__pic_add_text(syn__pic_drawing *d, const char *text, double x, double y, double size,
                             bool bold, double *w, syn_error *err) SYN_MUST_USE;
/* Adds a badge such as "x12 layers" on a dark background, with its right end at x. */
syn_status syn__pic_add_badge(syn__pic_drawing *d, uint32_t count, const char *what, double x,
                              double y, int32_t cluster, const char *tip,
                              syn_error *err) SYN_MUST_USE;

/* Returns the name of a node: its label, otherwise its op, otherwise its id as "o12", which is
   written to buf. */
#define SYN__PIC_ID_BYTES 24
const char *syn__pic_node_name(const syn_node *node, char buf[SYN__PIC_ID_BYTES]);

/* Formats the metadata (model, tp, dtype ...) in one line (picture_head.c). */
syn_status syn__pic_metadata(syn__arena *arena, const syn_graph *graph, const char **out,
                             syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
