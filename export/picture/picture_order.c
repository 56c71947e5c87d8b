/* Computes the order and the x of the cells and lanes in their rows. Sorting by barycentres gives
   an order with few crossings. Positions then keep the order and the minimum distances, and are as
   near as possible to the neighbours above and below (isotonic regression by pooling adjacent
   violators, Ayer et al. 1955). */
#include "export/picture/picture_layout.h"

#include <stdlib.h>

#include "syntorch/base/memory.h"

static int by_row(const void *a, const void *b) {
    const syn__pic_piece *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static void sort_row(syn__pic_column *col, const syn__pic_row *row) {
    uint32_t *o = col->order;
    for (uint32_t i = row->begin + 1; i < row->end; i++)
        for (uint32_t k = i; k > row->begin && col->slots[o[k]].key < col->slots[o[k - 1]].key;
             k--) {
            const uint32_t t = o[k];
            o[k] = o[k - 1];
            o[k - 1] = t;
        }
    for (uint32_t i = row->begin; i < row->end; i++) col->slots[o[i]].pos = i - row->begin;
}

static void keys(syn__pic_column *col, const syn__pic_row *row, const syn__pic_piece *p,
                 const syn__pic_piece *end, bool down) {
    for (uint32_t i = row->begin; i < row->end; i++) {
        syn__pic_slot *s = &col->slots[col->order[i]];
        s->key = 0;
        s->n_keys = 0;
    }
    for (; p < end; p++) {
        syn__pic_slot *s = &col->slots[down ? p->b : p->a];
        const syn__pic_slot *t = &col->slots[down ? p->a : p->b];
        const syn__pic_row *r = &col->rows[t->row];
        const uint32_t n = r->end - r->begin; /* positions are relative to the row's centre, so that
                                                 rows of different sizes are comparable */
        s->key += (double)t->pos - (n - 1) / 2.0;
        s->n_keys++;
    }
    const uint32_t n = row->end - row->begin;
    for (uint32_t i = row->begin; i < row->end; i++) {
        syn__pic_slot *s = &col->slots[col->order[i]];
        if (s->n_keys > 0) s->key /= s->n_keys;
        else s->key = (double)s->pos - (n - 1) / 2.0;
    }
}

/* Finds the pieces of row r: [*begin, *end). Pieces are sorted by row. */
static void pieces_of(const syn__pic_column *col, uint32_t r, const syn__pic_piece **begin,
                      const syn__pic_piece **end) {
    size_t lo = 0, hi = col->n_pieces;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (col->pieces[mid].row < r) lo = mid + 1;
        else hi = mid;
    }
    *begin = col->pieces + lo;
    while (lo < col->n_pieces && col->pieces[lo].row == r) lo++;
    *end = col->pieces + lo;
}

void syn__pic_order_slots(syn__pic_column *col) {
    const syn__pic_piece *p, *end;
    if (col->n_pieces > 0) qsort(col->pieces, col->n_pieces, sizeof *col->pieces, by_row);
    for (int sweep = 0; sweep < 4; sweep++) {
        for (uint32_t r = 1; r < col->n_rows; r++) {
            pieces_of(col, r - 1, &p, &end);
            keys(col, &col->rows[r], p, end, true);
            sort_row(col, &col->rows[r]);
        }
        for (uint32_t r = (uint32_t)col->n_rows - 1; r-- > 0;) {
            pieces_of(col, r, &p, &end);
            keys(col, &col->rows[r], p, end, false);
            sort_row(col, &col->rows[r]);
        }
    }
}

/* ---- x ---- */

typedef struct block {
    double sum, weight; /* sums of (want - offset) * weight, and of weight */
    uint32_t n;
} block;

/* Computes the x of the slots of one row: as near as possible to `want`, with the slots' order and
   minimum distances. */
static void settle(syn__pic_column *col, const syn__pic_row *row, block *blocks) {
    const uint32_t *o = col->order + row->begin;
    const uint32_t n = row->end - row->begin;
    uint32_t used = 0;
    double offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn__pic_slot *s = &col->slots[o[i]];
        if (i > 0) offset += col->slots[o[i - 1]].right + 18 + s->left;
        blocks[used++] = (block){(s->want - offset) * s->weight, s->weight, 1};
        while (used > 1 && blocks[used - 2].sum / blocks[used - 2].weight >
                               blocks[used - 1].sum / blocks[used - 1].weight) {
            blocks[used - 2].sum += blocks[used - 1].sum;
            blocks[used - 2].weight += blocks[used - 1].weight;
            blocks[used - 2].n += blocks[used - 1].n;
            used--;
        }
    }
    offset = 0;
    for (uint32_t i = 0, b = 0, left = n > 0 ? blocks[0].n : 0; i < n; i++, left--) {
        if (left == 0) left = blocks[++b].n;
        syn__pic_slot *s = &col->slots[o[i]];
        if (i > 0) offset += col->slots[o[i - 1]].right + 18 + s->left;
        s->x = blocks[b].sum / blocks[b].weight + offset;
    }
}

static void want_row(syn__pic_column *col, uint32_t r, bool down, bool both) {
    const syn__pic_row *row = &col->rows[r];
    const syn__pic_piece *p, *end;
    for (uint32_t i = row->begin; i < row->end; i++) {
        syn__pic_slot *s = &col->slots[col->order[i]];
        s->want = 0;
        s->n_keys = 0;
        s->weight = s->cell >= 0 ? 2 : 3;
    }
    for (int side = 0; side < 2; side++) {
        const bool above = side == 0;
        if ((above && !down && !both) || (!above && down && !both) || (above && r == 0)) continue;
        pieces_of(col, above ? r - 1 : r, &p, &end);
        for (; p < end; p++) {
            syn__pic_slot *s = &col->slots[above ? p->b : p->a];
            s->want += col->slots[above ? p->a : p->b].x;
            s->n_keys++;
        }
    }
    uint32_t n_cells = 0;
    for (uint32_t i = row->begin; i < row->end; i++) n_cells += col->slots[col->order[i]].cell >= 0;
    for (uint32_t i = row->begin; i < row->end; i++) {
        syn__pic_slot *s = &col->slots[col->order[i]];
        if (s->n_keys > 0) s->want /= s->n_keys;
        else s->want = s->x, s->weight = 0.5;
        /* A single cell is on the column's axis. */
        if (s->cell >= 0 && n_cells == 1) s->want = 0, s->weight = 1e6;
    }
}

/* Whether slot `s` can be at x without being too near to its neighbours. */
static bool may_stand(const syn__pic_column *col, const syn__pic_slot *s, double x) {
    const syn__pic_row *row = &col->rows[s->row];
    const uint32_t *o = col->order + row->begin;
    if (s->pos > 0) {
        const syn__pic_slot *left = &col->slots[o[s->pos - 1]];
        if (left->x + left->right + 18 + s->left > x + 0.01) return false;
    }
    if (s->pos + 1 < row->end - row->begin) {
        const syn__pic_slot *right = &col->slots[o[s->pos + 1]];
        if (right->x - right->left - 18 - s->right < x - 0.01) return false;
    }
    return true;
}

/* Puts the lanes of each link on one vertical line, if there is space. */
static void straighten(syn__pic_column *col) {
    for (uint32_t i = 0; i < col->n_links; i++) {
        const syn__pic_track *t = &col->tracks[i];
        if (t->rail || t->to_row < t->from_row + 3) continue;
        const uint32_t n = t->to_row - t->from_row - 1;
        syn__pic_slot *lane = &col->slots[t->first_lane];
        double lo = lane->x, hi = lane->x;
        for (uint32_t k = 1; k < n; k++) {
            if (lane[k].x < lo) lo = lane[k].x;
            if (lane[k].x > hi) hi = lane[k].x;
        }
        for (int side = 0; side < 2; side++) {
            const double x = side == 0 ? hi : lo;
            bool free_way = true;
            for (uint32_t k = 0; k < n; k++) free_way = free_way && may_stand(col, &lane[k], x);
            for (uint32_t k = 0; k < n && free_way; k++) lane[k].x = x;
            if (free_way) break;
        }
    }
}

syn_status syn__pic_spread_slots(syn__pic_column *col, syn_error *err) {
    uint32_t widest = 1;
    for (size_t r = 0; r < col->n_rows; r++)
        if (col->rows[r].end - col->rows[r].begin > widest)
            widest = col->rows[r].end - col->rows[r].begin;
    block *blocks = syn_calloc(widest, sizeof *blocks);
    if (blocks == NULL) return SYN_FAIL_NOMEM(err, widest * sizeof *blocks, "a row of a picture");
    for (int sweep = 0; sweep < 8; sweep++)
        for (uint32_t k = 0; k < col->n_rows; k++) {
            const bool down = sweep % 2 == 0;
            const uint32_t r = down ? k : (uint32_t)col->n_rows - 1 - k;
            want_row(col, r, down, sweep >= 4);
            settle(col, &col->rows[r], blocks);
        }
    straighten(col);
    syn_free(blocks);
    return SYN_OK;
}
