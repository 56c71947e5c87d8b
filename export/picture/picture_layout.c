/* Computes the layout of one column: assigns cells to rows by longest path within each cluster,
   adds lanes for links over several rows, and then computes order, x and y. All steps are linear in
   the size of the column, except for a few sweeps over each row. */
#include "export/picture/picture_layout.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define LANE_ROWS 24u /* links within a cluster that pass more rows use a rail */

static void size_cell(syn__pic_column *col, syn__pic_cell *c, bool first, bool last) {
    syn__pic_pill *pills = col->cells->pills;
    double outs = 0, sides = 0, side_h = 0;
    for (uint32_t i = 0; i < c->n_outs; i++) {
        syn__pic_pill *p = &pills[c->first_out + i];
        p->w = syn__pic_width(p->name, 8.5, true) + syn__pic_width(p->detail, 8, false) + 24;
        p->h = SYN__PIC_PILL_H;
        outs += p->w + (i > 0 ? 8 : 0);
    }
    for (uint32_t i = 0; i < c->n_sides; i++) {
        syn__pic_pill *p = &pills[c->first_side + i];
        double name = syn__pic_width(p->name, 8.5, true);
        const double rest = p->rest != NULL ? syn__pic_width(p->rest, 8.5, true) : 0;
        const double detail = syn__pic_width(p->detail, 8, false);
        if (p->via != NULL) name += syn__pic_width(p->via, 8, false) + 10;
        p->w = fmax(name, fmax(rest, detail)) + 18;
        p->h = SYN__PIC_SIDE_H + (p->rest != NULL ? SYN__PIC_LINE_H : 0);
        sides = fmax(sides, p->w);
        side_h += p->h + SYN__PIC_SIDE_Y;
    }
    uint32_t n_sides = c->n_sides;
    double core = outs > c->w ? outs : c->w;
    syn__pic_size_cut_ends(col->cells, c, first, last);
    for (uint32_t i = 0; i < c->n_cut_ends; i++) {
        const syn__pic_cut_end *s = &col->cells->cut_ends[c->first_cut_end + i];
        if (s->upright) {
            core = fmax(core, s->w);
            continue;
        }
        sides = fmax(sides, s->w);
        side_h += s->h + SYN__PIC_SIDE_Y;
        n_sides++;
    }
    const double core_h =
        c->above + c->h + (c->n_outs > 0 ? SYN__PIC_PILL_UP + SYN__PIC_PILL_H : 0) + c->below;
    c->right = core / 2;
    c->left = core / 2;
    c->side_x =
        (n_sides > 1 ? core : c->w) / 2 + (c->n_sides > 0 ? SYN__PIC_SIDE_X : SYN__PIC_CUT_END_X);
    if (n_sides > 0 && c->side_x + sides > c->left) c->left = c->side_x + sides;
    c->height = core_h > side_h ? core_h : side_h;
}

/* ---- Rows ---- */

static syn_status new_row(syn__pic_column *col, int32_t cluster, syn_error *err) {
    SYN_TRY(syn_grow(&col->rows, &col->rows_cap, col->n_rows + 1, sizeof *col->rows, err));
    col->rows[col->n_rows++] = (syn__pic_row){.cluster = cluster};
    return SYN_OK;
}

/* Assigns rows to the cells [begin, end), which are all consecutive cells of one cluster. */
static syn_status rows_of_run(syn__pic_column *col, uint32_t begin, uint32_t end,
                              uint32_t *next_link, syn_error *err) {
    const uint32_t base = (uint32_t)col->n_rows;
    const uint32_t offset = col->part->cell_begin;
    const uint32_t most = col->cells->drawing->page == SYN_PAGE_NONE ? 3 : 2; /* per row */
    for (uint32_t i = begin; i < end; i++) {
        uint32_t row = base;
        for (; *next_link < col->n_links && col->link[*next_link].to - offset == i; ++*next_link) {
            const uint32_t from = col->link[*next_link].from - offset;
            if (from >= begin && col->cell[from].row + 1 > row) row = col->cell[from].row + 1;
        }
        while (row < col->n_rows && col->rows[row].end >= most) row++;
        while (row >= col->n_rows) SYN_TRY(new_row(col, col->cell[begin].cluster, err));
        col->rows[row].end++; /* `end` is a count here; fill_order makes it the end of a range */
        col->cell[i].row = row;
    }
    return SYN_OK;
}

static syn_status make_rows(syn__pic_column *col, syn_error *err) {
    uint32_t next_link = 0;
    for (uint32_t begin = 0, i = 1; i <= col->n_cells; i++) {
        if (i < col->n_cells && col->cell[i].cluster == col->cell[begin].cluster) continue;
        SYN_TRY(rows_of_run(col, begin, i, &next_link, err));
        begin = i;
    }
    return SYN_OK;
}

/* ---- Lanes ---- */

static syn_status add_slot(syn__pic_column *col, const syn__pic_slot *slot, syn_error *err) {
    SYN_TRY(syn_grow(&col->slots, &col->slots_cap, col->n_slots + 1, sizeof *col->slots, err));
    col->slots[col->n_slots++] = *slot;
    return SYN_OK;
}

static syn_status add_piece(syn__pic_column *col, uint32_t a, uint32_t b, syn_error *err) {
    SYN_TRY(syn_grow(&col->pieces, &col->pieces_cap, col->n_pieces + 1, sizeof *col->pieces, err));
    col->pieces[col->n_pieces++] = (syn__pic_piece){a, b, col->slots[a].row};
    return SYN_OK;
}

static syn_status make_track(syn__pic_column *col, uint32_t i, syn_error *err) {
    const uint32_t offset = col->part->cell_begin;
    const syn__pic_cell *a = &col->cell[col->link[i].from - offset];
    const syn__pic_cell *b = &col->cell[col->link[i].to - offset];
    syn__pic_track *t = &col->tracks[i];
    *t = (syn__pic_track){.from_row = a->row, .to_row = b->row};
    t->rail = b->row != a->row + 1 && (a->cluster != b->cluster || b->row > a->row + LANE_ROWS ||
                                       col->link[i].line == SYN__PIC_RESIDUAL || b->row <= a->row);
    for (uint32_t r = a->row + 1; r < b->row && !t->rail; r++)
        t->rail = col->rows[r].cluster != a->cluster;
    if (t->rail) return SYN_OK;
    uint32_t before = col->link[i].from - offset;
    for (uint32_t r = a->row + 1; r < b->row; r++) {
        const uint32_t lane = (uint32_t)col->n_slots;
        if (r == a->row + 1) t->first_lane = lane;
        SYN_TRY(add_slot(
            col, &(syn__pic_slot){.cell = -1, .link = i, .row = r, .left = 8, .right = 8}, err));
        SYN_TRY(add_piece(col, before, lane, err));
        before = lane;
    }
    if (col->link[i].via != NULL) col->rows[b->row].labels_above = true;
    return add_piece(col, before, col->link[i].to - offset, err);
}

/* Marks the longest link into each addition as its residual connection. */
static void mark_residuals(syn__pic_column *col) {
    const uint32_t offset = col->part->cell_begin;
    for (uint32_t i = 0, end; i < col->n_links; i = end) {
        const syn__pic_cell *to = &col->cell[col->link[i].to - offset];
        uint32_t longest = UINT32_MAX, n = 0, least = UINT32_MAX;
        for (end = i; end < col->n_links && col->link[end].to == col->link[i].to; end++) {
            if (!col->link[end].main) continue;
            const uint32_t row = col->cell[col->link[end].from - offset].row;
            n++;
            if (row < least) least = row, longest = end;
        }
        syn__pic_mark_cut_ends(col->cells, to, n);
        if (to->adds && n >= 2 && least + 3 <= to->row) col->link[longest].line = SYN__PIC_RESIDUAL;
    }
}

static syn_status make_slots(syn__pic_column *col, syn_error *err) {
    for (uint32_t i = 0; i < col->n_cells; i++) {
        const syn__pic_cell *c = &col->cell[i];
        SYN_TRY(add_slot(
            col,
            &(syn__pic_slot){.cell = (int32_t)i, .row = c->row, .left = c->left, .right = c->right},
            err));
    }
    col->tracks = syn_calloc((size_t)col->n_links + 1, sizeof *col->tracks);
    if (col->tracks == NULL)
        return SYN_FAIL_NOMEM(err, (size_t)col->n_links * sizeof *col->tracks,
                              "the links of a picture");
    for (uint32_t i = 0; i < col->n_links; i++) SYN_TRY(make_track(col, i, err));
    return SYN_OK;
}

static void append_slot(syn__pic_column *col, uint32_t slot) {
    syn__pic_row *row = &col->rows[col->slots[slot].row];
    col->slots[slot].pos = row->end - row->begin;
    col->order[row->end++] = slot;
}

/* Fills order[] with the slots, row by row. In each row, lanes are placed between the left and the
   right half of the cells, because their path is shortest there. */
static syn_status fill_order(syn__pic_column *col, syn_error *err) {
    col->order = syn_calloc(col->n_slots + 1, sizeof *col->order);
    if (col->order == NULL)
        return SYN_FAIL_NOMEM(err, col->n_slots * sizeof *col->order, "the rows of a picture");
    for (size_t r = 0; r < col->n_rows; r++) col->rows[r].begin = col->rows[r].end = 0;
    for (size_t i = 0; i < col->n_slots; i++) {
        col->rows[col->slots[i].row].end++;
        /* `begin` counts the cells of the row here; below, it becomes the start of a range. */
        col->rows[col->slots[i].row].begin += col->slots[i].cell >= 0;
    }
    uint32_t at = 0;
    for (size_t r = 0; r < col->n_rows; r++) {
        syn__pic_row *row = &col->rows[r];
        const uint32_t n = row->end, left = (row->begin + 1) / 2;
        row->begin = row->end = at;
        row->left = left;
        at += n;
    }
    for (uint32_t i = 0; i < col->n_cells; i++) {
        const syn__pic_row *row = &col->rows[col->slots[i].row];
        if (row->end - row->begin < row->left) append_slot(col, i);
        else col->slots[i].pos = UINT32_MAX;
    }
    for (uint32_t i = col->n_cells; i < col->n_slots; i++) append_slot(col, i);
    for (uint32_t i = 0; i < col->n_cells; i++)
        if (col->slots[i].pos == UINT32_MAX) append_slot(col, i);
    return SYN_OK;
}

static syn_status make(syn__pic_column *col, syn_error *err) {
    for (uint32_t i = 0; i < col->n_cells; i++)
        size_cell(col, &col->cell[i], i == 0, i + 1 == col->n_cells);
    SYN_TRY(syn__pic_make_clusters(col, err));
    SYN_TRY(make_rows(col, err));
    mark_residuals(col);
    SYN_TRY(make_slots(col, err));
    SYN_TRY(fill_order(col, err));
    syn__pic_order_slots(col);
    SYN_TRY(syn__pic_spread_slots(col, err));
    for (size_t i = 0; i < col->n_cells; i++) col->cell[i].x = col->slots[i].x;
    col->end_cluster = (int32_t)col->cells->drawing->n_clusters;
    return SYN_OK;
}

syn_status syn__pic_column_make(syn__pic_column *col, syn__pic_cells *cells, uint32_t part,
                                syn_error *err) {
    syn__pic_part *p = &cells->parts[part];
    *col = (syn__pic_column){.cells = cells,
                             .part = p,
                             .cell = cells->cells + p->cell_begin,
                             .link = cells->links + p->link_begin,
                             .n_cells = p->cell_end - p->cell_begin,
                             .n_links = p->link_end - p->link_begin,
                             .first_cluster = (int32_t)cells->drawing->n_clusters};
    return make(col, err);
}

syn_status syn__pic_column_finish(syn__pic_column *col, syn_error *err) {
    syn__pic_drawing *d = col->cells->drawing;
    const syn__pic_mark mark = syn__pic_mark_of(d);
    SYN_TRY(syn__pic_place_clusters(col, err));
    SYN_TRY(syn__pic_draw_column(col, err));
    const syn__pic_cluster *outer = &d->clusters[col->part->cluster];
    col->part->width = outer->x1 - outer->x0;
    col->part->height = outer->y1 - outer->y0;
    const syn__pic_mark from = {mark.boxes, mark.edges, (size_t)col->first_cluster, mark.points};
    syn__pic_shift(d, from, -outer->x0, -outer->y0);
    return SYN_OK;
}

void syn__pic_column_free(syn__pic_column *col) {
    syn_free(col->slots);
    syn_free(col->rows);
    syn_free(col->pieces);
    syn_free(col->tracks);
    syn_free(col->order);
    *col = (syn__pic_column){0};
}

syn_status syn__pic_layout(syn__pic_cells *cells, uint32_t part, syn_error *err) {
    syn__pic_column col;
    syn_status s = syn__pic_column_make(&col, cells, part, err);
    if (s == SYN_OK) s = syn__pic_column_finish(&col, err);
    syn__pic_column_free(&col);
    return s;
}
