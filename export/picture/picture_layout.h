/* Layout and drawing of one column of the trace view. Cells are arranged in rows, and every row
   belongs to one cluster, which is drawn as a frame. A link between neighbouring rows is drawn
   straight down. A link over several rows of one cluster runs in a lane, which is free space
   between the cells of each row that it passes. A link that leaves its cluster, or is too long for
   a lane, runs on a rail, which is a vertical line outside the cluster. */
#ifndef EXPORT_PICTURE_LAYOUT_H
#define EXPORT_PICTURE_LAYOUT_H

#include "export/picture/picture_cells.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An element of a row: a cell, or the lane of a link. */
typedef struct syn__pic_slot {
    int32_t cell;  /* index of the cell within the column's part (syn__pic_part); -1: the slot is a
                      lane */
    uint32_t link; /* lane: the link that runs in it */
    uint32_t row, pos;
    double x, left, right;
    double want, weight, key;
    uint32_t n_keys;
} syn__pic_slot;

typedef struct syn__pic_row {
    uint32_t begin, end; /* range in order[] */
    int32_t cluster;
    double top, bottom;  /* y */
    double min_x, max_x; /* smallest and largest x drawn so far */
    uint32_t legs_below, legs_above;
    uint32_t left; /* number of cells that are initially placed to the left of the lanes */
    bool labels_above;
    uint64_t band; /* hash of the layer and the part of the layer; rows of the neighbouring column
                      with the same band are placed at the same height */
    double gap, before, after; /* extra space: above the frame that begins here, above the row,
                                  below the row */
} syn__pic_row;

/* A piece of a link between two neighbouring rows. */
typedef struct syn__pic_piece {
    uint32_t a, b; /* slots */
    uint32_t row;  /* row of a */
} syn__pic_piece;

typedef struct syn__pic_track {
    uint32_t from_row, to_row, first_lane; /* first_lane: slot of the link in the first row that it
                                              passes; its slots in the next rows follow */
    bool rail;
    double rail_x;
    double enter_x; /* x at which the link enters the top of its cell */
    double space;   /* space for a label to the right of the rail */
} syn__pic_track;

typedef struct syn__pic_column {
    syn__pic_cells *cells;
    syn__pic_part *part;
    syn__pic_cell *cell; /* the cells and the links of the part */
    syn__pic_link *link;
    uint32_t n_cells, n_links;
    syn__pic_slot *slots; /* the cells, then the lanes */
    syn__pic_row *rows;
    syn__pic_piece *pieces;
    syn__pic_track *tracks; /* one per link */
    uint32_t *order;        /* slots, row by row */
    size_t n_slots, n_rows, n_pieces, slots_cap, rows_cap, pieces_cap;
    int32_t first_cluster, end_cluster;
    double end_gap; /* extra space below the last row */
    bool up;        /* time runs upwards: the column is mirrored after drawing */
} syn__pic_column;

#define SYN__PIC_PILL_H  17.0 /* height of an output, one line */
#define SYN__PIC_SIDE_H  25.0 /* height of an input, two lines */
#define SYN__PIC_LINE_H  11.0 /* height of a third line */
#define SYN__PIC_SIDE_Y  4.0  /* distance between inputs */
#define SYN__PIC_PILL_UP 11.0 /* distance from an op down to its outputs */
#define SYN__PIC_SIDE_X  20.0 /* distance from the inputs to the op */
#define SYN__PIC_BETWEEN 70.0 /* distance between forward and backward */
#define SYN__PIC_NEAR    44.0 /* distance between forward and backward on a page */

/* Cut ends are the two ends of a link that crosses a break between columns; each has a text, such
   as "to 2 of 3" (picture_cut_ends.c). */
#define SYN__PIC_CUT_END_X 12.0 /* distance from cut ends to an op without inputs at its side */

/* Marks the incoming cut end from the earliest column as a residual connection, if cell `to` is an
   addition with several inputs. n_links: number of links into the cell from its own column. */
void syn__pic_mark_cut_ends(syn__pic_cells *cells, const syn__pic_cell *to, uint32_t n_links);
/* Computes the sizes of a cell's cut ends, and the space that they need above and below the cell.
   first, last: whether the cell is the first or the last of its part. */
void syn__pic_size_cut_ends(syn__pic_cells *cells, syn__pic_cell *cell, bool first, bool last);
/* Draws a cut end and a line to the box of its cell. If the cut end is at the side of the cell, its
   right end is at x = `right` and its middle at y. */
syn_status syn__pic_draw_cut_end(syn__pic_cells *cells, const syn__pic_cell *cell,
                                 const syn__pic_cut_end *cut_end, bool red, double right, double y,
                                 syn_error *err) SYN_MUST_USE;

/* Computes the positions of part `part` and draws it, with its top left corner at (0, 0). */
syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;

/* Computes and draws a forward part and the backward part after it, side by side, with the same
   layers at the same height (picture_align.c). Time runs downwards in forward and upwards in
   backward. *width: width of both parts, including the space between them and the bars. */
syn_status syn__pic_layout_pair(syn__pic_cells *cells, uint32_t part, double *width,
                                syn_error *err) SYN_MUST_USE;
/* syn__pic_draw_bars draws a bar for each collective over the gradients of backward part `part`,
   next to its column at x (picture_bars.c). *width: width of all bars; 0: there is none.
   syn__pic_draw_saved draws the lines from forward part `part` to the next (picture_kept.c). */
syn_status syn__pic_draw_bars(syn__pic_cells *cells, uint32_t part, double x, double *width,
                              syn_error *err) SYN_MUST_USE;
syn_status syn__pic_draw_saved(syn__pic_cells *cells, uint32_t part, syn_error *err) SYN_MUST_USE;
/* Steps of the layout. make computes the x of all slots. finish draws the column with its top left
   corner at (0, 0). The caller frees the column even after a failure. */
syn_status syn__pic_column_make(syn__pic_column *col, syn__pic_cells *cells, uint32_t part,
                                syn_error *err) SYN_MUST_USE;
syn_status syn__pic_column_finish(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
void syn__pic_column_free(syn__pic_column *col);

/* Adds a cluster whose position is set later. Its label is `name`, followed by `info`. */
syn_status syn__pic_new_cluster(syn__pic_drawing *d, int32_t parent, int level, const char *name,
                                const char *info, int32_t *out, syn_error *err) SYN_MUST_USE;
/* Writes the first segment of a cell's scope after the layer: "attn" of "h.3.attn.c_attn". */
syn_status syn__pic_part_name(syn__pic_column *col, uint32_t cell, char *out, size_t out_bytes,
                              syn_error *err) SYN_MUST_USE;
/* Creates the clusters of the part and assigns cells to them (picture_cluster.c). */
syn_status syn__pic_make_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Whether a link on a rail starts at the side of its box. It does if there is nothing to the right
   of the box. */
bool syn__pic_starts_aside(const syn__pic_column *col, const syn__pic_link *link);
/* Space that the lines above and below the cells of a row need. */
double syn__pic_space_above(const syn__pic_row *row);
double syn__pic_space_below(const syn__pic_row *row);
/* Sets the y of rows and clusters so that all rows have the space they need. */
void syn__pic_place_rows(syn__pic_column *col);
/* Sets the rectangles of the clusters, the y of the rows and the x of the rails. The x of all slots
   must be set. */
syn_status syn__pic_place_clusters(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
double syn__pic_cluster_head(const syn__pic_drawing *d, int level);
/* syn__pic_order_slots orders the slots in each row; syn__pic_spread_slots sets their x
   (picture_order.c). */
void syn__pic_order_slots(syn__pic_column *col);
syn_status syn__pic_spread_slots(syn__pic_column *col, syn_error *err) SYN_MUST_USE;
/* Draws the boxes and edges of a column (picture_route.c). */
syn_status syn__pic_draw_column(syn__pic_column *col, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
