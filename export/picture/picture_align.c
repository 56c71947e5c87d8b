/* Draws forward and backward of a training step side by side, with the same layers at the same
   height. Consecutive rows of the same part of the same layer form a band. Bands that both columns
   have in the same order get the same position and height: the shorter band is padded, and the
   padding is distributed over its rows. */
#include "export/picture/picture_layout.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"

/* Consecutive rows of one band. */
typedef struct stretch {
    uint32_t first, last; /* rows, in order of time */
    uint64_t band;
    double top, bottom; /* y on the page, before padding is added */
} stretch;

typedef struct side {
    syn__pic_column col;
    stretch *stretches; /* in order from the top of the page downwards */
    uint32_t n;
} side;

static uint64_t mix_text(uint64_t h, const char *text) {
    for (; *text != '\0'; text++) h = (h ^ (unsigned char)*text) * 0x100000001B3u;
    return (h ^ 0xFF) * 0x100000001B3u;
}

static bool comes_first(const char *a, const char *b) {
    const size_t n = strlen(a), m = strlen(b);
    return n != m ? n < m : strcmp(a, b) < 0;
}

/* The name of a layer. If several layers are drawn as one, both columns use the same name. */
static const char *layer_of(const syn__pic_plan *plan, uint32_t unit) {
    const char *first = plan->units[unit].layer;
    const char *last = plan->units[plan->units[unit].last].layer;
    return plan->units[unit].count > 1 && comes_first(last, first) ? last : first;
}

static syn_status find_bands(syn__pic_column *col, syn_error *err) {
    char name[64];
    for (uint32_t i = col->n_cells; i-- > 0;) { /* a row gets the band of its first cell */
        SYN_TRY(syn__pic_part_name(col, i, name, sizeof name, err));
        uint64_t h = mix_text(14695981039346656037u, layer_of(col->cells->plan, col->cell[i].unit));
        col->rows[col->cell[i].row].band = mix_text(h, name);
    }
    return SYN_OK;
}

static syn_status find_stretches(side *s, syn_error *err) {
    syn__pic_column *col = &s->col;
    SYN_TRY(find_bands(col, err));
    syn__pic_place_rows(col);
    const double height = col->cells->drawing->clusters[col->part->cluster].y1;
    s->stretches = syn_calloc(col->n_rows + 1, sizeof *s->stretches);
    if (s->stretches == NULL)
        return SYN_FAIL_NOMEM(err, col->n_rows * sizeof *s->stretches, "the rows of a picture");
    for (uint32_t i = 0; i < col->n_rows; i++) {
        const uint32_t r = col->up ? (uint32_t)col->n_rows - 1 - i : i;
        const syn__pic_row *row = &col->rows[r];
        const double first = row->top - syn__pic_space_above(row);
        const double last = row->bottom + (r + 1 < col->n_rows ? syn__pic_space_below(row) : 0);
        const double top = col->up ? height - last : first;
        stretch *t = s->n > 0 ? &s->stretches[s->n - 1] : NULL;
        if (t == NULL || t->band != row->band) {
            t = &s->stretches[s->n++];
            *t = (stretch){.first = r, .last = r, .band = row->band, .top = top};
        }
        if (r < t->first) t->first = r;
        if (r > t->last) t->last = r;
        t->bottom = top + (last - first);
    }
    return SYN_OK;
}

/* Adds space in one column: `gap` between the stretches `above` and `below` (NULL: the end of the
   column), and `slack` within `below`. */
static void add_space(side *s, const stretch *above, const stretch *below, double gap,
                      double slack) {
    syn__pic_column *col = &s->col;
    const stretch *later = col->up ? above : below, *earlier = col->up ? below : above;
    if (later == NULL) col->end_gap += gap;
    else if (earlier == NULL) col->rows[0].gap += gap;
    else col->rows[col->up ? earlier->last + 1 : later->first].gap += gap;
    if (below == NULL) return;
    const double each = slack / (below->last - below->first + 2);
    for (uint32_t r = below->first; r <= below->last; r++) col->rows[r].before += each;
    col->rows[below->last].after += each;
}

/* Finds the longest common subsequence of bands. pairs[i]: the stretch of `b` that is drawn next to
   stretch i of `a`; UINT32_MAX: none. */
static syn_status match(const side *a, const side *b, uint32_t *pairs, syn_error *err) {
    const size_t w = (size_t)b->n + 1;
    uint32_t *best = syn_calloc((a->n + 1) * w, sizeof *best); /* length of the longest common
                                                                  subsequence that starts at (i,
                                                                  k) */
    if (best == NULL) return SYN_FAIL_NOMEM(err, (a->n + 1) * w * 4, "the rows of a picture");
    for (size_t i = a->n; i-- > 0;)
        for (size_t k = b->n; k-- > 0;) {
            const uint32_t down = best[(i + 1) * w + k], right = best[i * w + k + 1];
            best[i * w + k] = down > right ? down : right;
            if (a->stretches[i].band == b->stretches[k].band)
                best[i * w + k] = best[(i + 1) * w + k + 1] + 1;
        }
    for (size_t i = 0, k = 0; i < a->n; i++) {
        pairs[i] = UINT32_MAX;
        while (k < b->n && best[i * w + k] > best[(i + 1) * w + k] &&
               a->stretches[i].band != b->stretches[k].band)
            k++;
        if (k < b->n && a->stretches[i].band == b->stretches[k].band &&
            best[i * w + k] > best[(i + 1) * w + k])
            pairs[i] = (uint32_t)k++;
    }
    syn_free(best);
    return SYN_OK;
}

static double page_end(const side *s) {
    return s->col.cells->drawing->clusters[s->col.part->cluster].y1;
}

/* Adds space so that both stretches of a pair have the same position and height. */
static void align(side *a, side *b, const uint32_t *pairs) {
    const stretch *above_a = NULL, *above_b = NULL;
    const double end_a = page_end(a), end_b = page_end(b);
    double at_a = 0, at_b = 0; /* bottoms of the previous pair */
    for (uint32_t i = 0; i <= a->n; i++) {
        if (i < a->n && pairs[i] == UINT32_MAX) continue;
        const stretch *x = i < a->n ? &a->stretches[i] : NULL;
        const stretch *y = i < a->n ? &b->stretches[pairs[i]] : NULL;
        const double gap_a = (x != NULL ? x->top : end_a) - at_a;
        const double gap_b = (y != NULL ? y->top : end_b) - at_b;
        const double gap = fmax(gap_a, gap_b);
        double high_a = 0, high_b = 0;
        if (x != NULL) high_a = x->bottom - x->top, high_b = y->bottom - y->top;
        const double high = fmax(high_a, high_b);
        add_space(a, above_a, x, gap - gap_a, high - high_a);
        add_space(b, above_b, y, gap - gap_b, high - high_b);
        if (x == NULL) break;
        at_a = x->bottom, at_b = y->bottom;
        above_a = x, above_b = y;
    }
}

static syn_status align_sides(side *a, side *b, syn_error *err) {
    SYN_TRY(find_stretches(a, err));
    SYN_TRY(find_stretches(b, err));
    uint32_t *pairs = syn_calloc((size_t)a->n + 1, sizeof *pairs);
    if (pairs == NULL) return SYN_FAIL_NOMEM(err, a->n * sizeof *pairs, "the rows of a picture");
    const syn_status s = match(a, b, pairs, err);
    if (s == SYN_OK) align(a, b, pairs);
    syn_free(pairs);
    return s;
}

static syn_status draw_sides(side *a, side *b, double between, syn_error *err) {
    syn__pic_drawing *d = a->col.cells->drawing;
    SYN_TRY(syn__pic_column_finish(&a->col, err));
    const syn__pic_mark drawn = syn__pic_mark_of(d);
    const syn__pic_mark mark = {drawn.boxes, drawn.edges, (size_t)b->col.first_cluster,
                                drawn.points};
    SYN_TRY(syn__pic_column_finish(&b->col, err));
    syn__pic_flip(d, mark, b->col.part->height);
    syn__pic_shift(d, mark, a->col.part->width + between, 0);
    return SYN_OK;
}

static syn_status side_by_side(syn__pic_cells *cells, uint32_t part, double between, double *width,
                               syn_error *err) {
    double bars;
    *width = cells->parts[part].width + between + cells->parts[part + 1].width;
    SYN_TRY(syn__pic_draw_bars(cells, part + 1, *width + SYN__PIC_SIDE_X, &bars, err));
    if (bars > 0) *width += SYN__PIC_SIDE_X + bars;
    return SYN_OK;
}

syn_status syn__pic_layout_pair(syn__pic_cells *cells, uint32_t part, double *width,
                                syn_error *err) {
    side a = {0}, b = {0};
    const double between = cells->drawing->page == SYN_PAGE_NONE ? SYN__PIC_BETWEEN : SYN__PIC_NEAR;
    syn_status s = syn__pic_column_make(&a.col, cells, part, err);
    if (s == SYN_OK) s = syn__pic_column_make(&b.col, cells, part + 1, err);
    b.col.up = true;
    if (s == SYN_OK) s = align_sides(&a, &b, err);
    if (s == SYN_OK) s = draw_sides(&a, &b, between, err);
    if (s == SYN_OK) s = syn__pic_draw_saved(cells, part, err);
    if (s == SYN_OK) s = side_by_side(cells, part, between, width, err);
    syn__pic_column_free(&a.col);
    syn__pic_column_free(&b.col);
    syn_free(a.stretches);
    syn_free(b.stretches);
    return s;
}
