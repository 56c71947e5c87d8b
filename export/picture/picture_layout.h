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
    int32_t first_cluster;
} syn__pic_column;

#define SYN__PIC_PILL_H  17.0 /* an output, one line */
#define SYN__PIC_SIDE_H  25.0 /* an input, two lines */
#define SYN__PIC_PILL_UP 11.0 /* from an op down to its outputs */
#define SYN__PIC_SIDE_X  20.0 /* from the inputs to the op */

/* Positions of part `part`, and its boxes, edges and clusters with the top left corner
   at (0, 0). */
syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;

/* Clusters of the part, and the cluster of every cell (picture_cluster.c). */
syn_status syn__pic_make_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Gives clusters their rectangles, rows their y, rails their x; needs x of all slots. */
syn_status syn__pic_place_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
double syn__pic_cluster_head(int level);
/* Order and x of the slots in their rows (picture_order.c). */
void syn__pic_order_slots(syn__pic_column *col);
syn_status syn__pic_spread_slots(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Boxes and edges (picture_route.c). */
syn_status syn__pic_draw_column(syn__pic_column *col, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
