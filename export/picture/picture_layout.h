/* Layout and drawing of one column of the trace view. Cells are arranged in rows, and every row
   belongs to one cluster. A link between neighbouring rows is drawn straight down; a link over
   several rows of a cluster runs in a lane between the cells; a link that leaves its cluster runs
   outside it, on a rail. */
#ifndef EXPORT_PICTURE_LAYOUT_H
#define EXPORT_PICTURE_LAYOUT_H

#include "export/picture/picture_cells.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An element of a row: a cell, or the lane of a link. */
typedef struct syn__pic_slot {
    int32_t cell;  /* index within the part; -1: a lane */
    uint32_t link; /* of a lane */
    uint32_t row, pos;
    double x, left, right;
    double want, weight, key;
    uint32_t n_keys;
} syn__pic_slot;

typedef struct syn__pic_row {
    uint32_t begin, end; /* range in order[] */
    int32_t cluster;
    double top, bottom;  /* y */
    double min_x, max_x; /* extent of what is drawn so far */
    uint32_t legs_below, legs_above;
    uint32_t left; /* number of cells left of the lanes, initially */
    bool labels_above;
    uint64_t band; /* hash of the layer and its part; rows of the other column with the same band
                      are placed next to it */
    double gap, before, after; /* extra space: before frames above, before and after the row */
} syn__pic_row;

/* A piece of a link between two neighbouring rows. */
typedef struct syn__pic_piece {
    uint32_t a, b; /* slots */
    uint32_t row;  /* row of a */
} syn__pic_piece;

typedef struct syn__pic_track {
    uint32_t from_row, to_row, first_lane; /* first_lane: a slot; the other lanes follow it */
    bool rail;
    double rail_x;
    double enter_x; /* x where it enters the top of its cell */
    double room;    /* space for a label at its right */
} syn__pic_track;

typedef struct syn__pic_column {
    syn__pic_cells *cells;
    syn__pic_part *part;
    syn__pic_cell *cell; /* of the part */
    syn__pic_link *link;
    uint32_t n_cells, n_links;
    syn__pic_slot *slots; /* cells first */
    syn__pic_row *rows;
    syn__pic_piece *pieces;
    syn__pic_track *tracks; /* one per link */
    uint32_t *order;        /* slots, row by row */
    size_t n_slots, n_rows, n_pieces, slots_cap, rows_cap, pieces_cap;
    int32_t first_cluster, end_cluster;
    double end_gap; /* extra space at the end */
    bool up;        /* time runs upwards: the column is mirrored after drawing */
} syn__pic_column;

#define SYN__PIC_PILL_H  17.0 /* height of an output, one line */
#define SYN__PIC_SIDE_H  25.0 /* height of an input, two lines */
#define SYN__PIC_LINE_H  11.0 /* height of a third line */
#define SYN__PIC_SIDE_Y  4.0  /* distance between inputs */
#define SYN__PIC_PILL_UP 11.0 /* distance from an op down to its outputs */
#define SYN__PIC_SIDE_X  20.0 /* distance from the inputs to the op */
#define SYN__PIC_BETWEEN 70.0 /* distance between forward and backward */
#define SYN__PIC_NEAR    44.0 /* the same on a page */

#define SYN__PIC_CUT_END_X 12.0 /* distance from cut ends to the op, if there are no inputs */

/* Marks an incoming cut end as a residual connection: one that comes from an earlier column into an
   addition with n_links links from its own column. */
void syn__pic_mark_cut_ends(syn__pic_cells *cells, const syn__pic_cell *to, uint32_t n_links);
/* Computes the sizes of a cell's cut ends and their space above and below. first, last: the cell is
   the first or last of its part. */
void syn__pic_size_cut_ends(syn__pic_cells *cells, syn__pic_cell *cell, bool first, bool last);
/* Draws a cut end with a line to its cell's box. At the side of the cell, its right end is at
   `right` and its middle at y. */
syn_status syn__pic_draw_cut_end(syn__pic_cells *cells, const syn__pic_cell *cell,
                                 const syn__pic_cut_end *cut_end, bool red, double right, double y,
                                 syn_error *err) SYN_MUST_USE;

/* Computes the positions of part `part` and draws it, with its top left corner at (0, 0). */
syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;

/* The same for a forward part and the backward part after it, side by side with the same layers
   aligned; time runs down in forward and up in backward (picture_align.c). *width: of both, with
   everything between and next to them. */
syn_status syn__pic_layout_pair(syn__pic_cells *cells, uint32_t part, double *width,
                                syn_error *err) SYN_MUST_USE;
/* Draws, next to the column of backward part `part` at x, a bar for each collective over its
   gradients; *width: of all bars, 0 if there is none (picture_bars.c). syn__pic_draw_kept draws the
   lines from forward part `part` to the next part (picture_kept.c). */
syn_status syn__pic_draw_bars(syn__pic_cells *cells, uint32_t part, double x, double *width,
                              syn_error *err) SYN_MUST_USE;
syn_status syn__pic_draw_kept(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;
/* Steps of the layout: make computes x of all slots, finish draws the column from (0, 0). Free the
   column in any case. */
syn_status syn__pic_column_make(syn__pic_column *col, syn__pic_cells *cells, uint32_t part,
                                syn_error *err) SYN_MUST_USE;
syn_status syn__pic_column_finish(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
void syn__pic_column_free(syn__pic_column *col);

/* Adds a cluster without a position; `facts` follow its name. */
syn_status syn__pic_new_cluster(syn__pic_drawing *d, int32_t parent, int level, const char *name,
                                const char *facts, int32_t *out, syn_error *err) SYN_MUST_USE;
/* The first segment of a cell's scope after its layer: "attn" of "h.3.attn.c_attn". */
syn_status syn__pic_part_name(syn__pic_column *col, uint32_t cell, char *out, size_t out_bytes,
                              syn_error *err) SYN_MUST_USE;
/* Creates the clusters of the part and assigns cells to them (picture_cluster.c). */
syn_status syn__pic_make_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Whether a link on a rail starts at the side of its box, because nothing is at its right. */
bool syn__pic_starts_aside(const syn__pic_column *col, const syn__pic_link *link);
/* Space for lines above and below the cells of a row. */
double syn__pic_room_above(const syn__pic_row *row);
double syn__pic_room_below(const syn__pic_row *row);
/* Sets y of rows and clusters, with the space that rows need. */
void syn__pic_place_rows(syn__pic_column *col);
/* Sets the rectangles of clusters, y of rows and x of rails; needs x of all slots. */
syn_status syn__pic_place_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
double syn__pic_cluster_head(const syn__pic_drawing *d, int level);
/* Orders the slots in their rows and sets their x (picture_order.c). */
void syn__pic_order_slots(syn__pic_column *col);
syn_status syn__pic_spread_slots(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Draws boxes and edges (picture_route.c). */
syn_status syn__pic_draw_column(syn__pic_column *col, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
