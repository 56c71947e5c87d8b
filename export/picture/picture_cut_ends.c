/* Draws the ends of links that cross a break between columns: "from 1 of 3" next to the box to
   which a link leads, and "to 2 of 3" next to the box from which it comes. */
#include "export/picture/picture_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "syntorch/base/memory.h"

#define TO      "\xE2\x80\xA6" /* ellipsis */
#define TEXT_PT 8.0
#define TEXT_H  10.0
#define FROM_W  22.0 /* width of "from" */
#define GAP     9.0  /* distance between a text and the box above or below it */
#define LISTED  3u   /* maximum columns in a text; if there are more, only the first and last */

static syn_status add(syn__pic_cells *c, const syn__pic_cut_end *cut_end, syn_error *err) {
    const size_t n = c->n_cut_ends;
    for (size_t i = n; i-- > 0 && i + 64 > n;) { /* only the last 64 are compared, because
                                                    duplicates usually follow soon */
        const syn__pic_cut_end *s = &c->cut_ends[i];
        if (s->cell == cut_end->cell && s->part == cut_end->part && s->other == cut_end->other &&
            s->out == cut_end->out && s->line == cut_end->line)
            return SYN_OK;
    }
    SYN_TRY(syn_grow(&c->cut_ends, &c->cut_ends_cap, n + 1, sizeof *c->cut_ends, err));
    c->cut_ends[c->n_cut_ends++] = *cut_end;
    return SYN_OK;
}

bool syn__pic_is_cut(const syn__pic_cells *c, uint32_t producer, uint32_t to) {
    if (producer == SYN_NO_NODE) return false;
    const uint32_t from = syn__pic_cell_of(c, producer);
    return from != UINT32_MAX && from < to && c->cells[from].section == c->cells[to].section &&
           c->cells[from].part != c->cells[to].part;
}

syn_status syn__pic_cut_link(syn__pic_cells *c, uint32_t producer, uint32_t to, int line,
                             syn_error *err) {
    const uint32_t from = syn__pic_cell_of(c, producer);
    const syn__pic_cut_end in = {
        .cell = to, .part = c->cells[from].part, .other = from, .line = line};
    const syn__pic_cut_end out = {
        .cell = from, .part = c->cells[to].part, .line = line, .out = true};
    SYN_TRY(add(c, &in, err));
    return add(c, &out, err);
}

static int compare(const void *a, const void *b) {
    const syn__pic_cut_end *x = a, *y = b;
    if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
    if (x->out != y->out) return x->out ? 1 : -1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return x->other < y->other ? -1 : x->other > y->other;
}

static bool together(const syn__pic_cut_end *a, const syn__pic_cut_end *b) {
    return a->cell == b->cell && a->out == b->out && a->line == b->line;
}

/* Returns an index `end`: the cut ends i .. end - 1 are drawn as one text. All outgoing links of a
   box share a text. Incoming links have a text each if there are few of them. */
static size_t end_of(const syn__pic_cells *c, size_t i) {
    size_t end = i + 1;
    while (end < c->n_cut_ends && together(&c->cut_ends[i], &c->cut_ends[end])) end++;
    const bool begins = i == 0 || !together(&c->cut_ends[i - 1], &c->cut_ends[i]);
    if (c->cut_ends[i].out || (begins && end - i > LISTED)) return end;
    return i + 1;
}

/* Writes the text of n cut ends, which are in the order of the columns: "to 2, 3 of 5", or "to 2
   ... 5 of 5" (with the ellipsis character). */
static syn_status name(syn__pic_cells *c, syn__pic_cut_end *cut_ends, size_t n, syn_error *err) {
    syn__pic_text t;
    uint32_t before = 0;
    syn__pic_clear(&t);
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = c->parts[cut_ends[i].part].number;
        if (number == before || (n > LISTED && i > 0 && i + 1 < n)) continue;
        syn__pic_put(&t, "%s%u",
                     i == 0       ? cut_ends[0].out ? "to " : "from "
                     : n > LISTED ? " " TO " "
                                  : ", ",
                     number);
        before = number;
    }
    syn__pic_put(&t, " of %u", c->parts[cut_ends[0].part].of);
    return syn__pic_keep(&c->drawing->arena, &t, &cut_ends[0].name, err);
}

syn_status syn__pic_name_cut_ends(syn__pic_cells *c, syn_error *err) {
    size_t n = 0;
    if (c->n_cut_ends > 1) qsort(c->cut_ends, c->n_cut_ends, sizeof *c->cut_ends, compare);
    for (size_t i = 0, end; i < c->n_cut_ends; i = end) {
        end = end_of(c, i);
        SYN_TRY(name(c, &c->cut_ends[i], end - i, err));
        syn__pic_cell *cell = &c->cells[c->cut_ends[i].cell];
        if (cell->n_cut_ends++ == 0) cell->first_cut_end = (uint32_t)n;
        c->cut_ends[n] = c->cut_ends[i];
        c->cut_ends[n++].number = cell->n_cut_ends;
    }
    c->n_cut_ends = n;
    return SYN_OK;
}

void syn__pic_mark_cut_ends(syn__pic_cells *c, const syn__pic_cell *to, uint32_t n_links) {
    syn__pic_cut_end *first = NULL; /* the cut end from the earliest column */
    uint32_t n = n_links;
    for (uint32_t i = 0; i < to->n_cut_ends; i++) {
        syn__pic_cut_end *s = &c->cut_ends[to->first_cut_end + i];
        if (s->out || s->line != SYN__PIC_DATA) continue;
        if (first == NULL) first = s;
        n++;
    }
    if (to->adds && n > 1 && first != NULL) first->line = SYN__PIC_RESIDUAL;
}

/* Returns the second line of a cut end at the side of a box: the name without "from " or "to ". */
static const char *second_line(const syn__pic_cut_end *s) {
    return s->name + (s->out ? 3 : 5);
}

void syn__pic_size_cut_ends(syn__pic_cells *c, syn__pic_cell *cell, bool first, bool last) {
    cell->above = cell->below = 0;
    for (uint32_t i = 0; i < cell->n_cut_ends; i++) {
        syn__pic_cut_end *s = &c->cut_ends[cell->first_cut_end + i];
        double *space = s->out ? &cell->below : &cell->above;
        s->upright = (s->out ? last : first) && !(*space > 0) && cell->n_outs == 0;
        s->h = s->upright ? TEXT_H : 2 * TEXT_H;
        s->w = syn__pic_width(s->upright ? s->name : second_line(s), TEXT_PT, false) + 3;
        if (!s->out && s->w < FROM_W) s->w = FROM_W;
        if (s->upright) *space = s->h + GAP;
    }
}

/* Adds the text of a cut end; at the side of a box it has two lines. */
static syn_status add_text(syn__pic_cells *c, const syn__pic_cell *cell,
                           const syn__pic_cut_end *cut_end, double x, double y, uint32_t *box,
                           syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_text t;
    char id[128], first[8];
    snprintf(id, sizeof id, "%.80s.%s%u", cell->id, cut_end->out ? "to" : "from", cut_end->number);
    snprintf(first, sizeof first, "%s", cut_end->out ? "to" : "from");
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\" color=\"#333333\"><i>", TEXT_PT);
    if (!cut_end->upright) {
        syn__pic_put_html(&t, first);
        syn__pic_put(&t, "<br/>");
    }
    syn__pic_put_html(&t, cut_end->upright ? cut_end->name : second_line(cut_end));
    syn__pic_put(&t, "</i></font>");
    const syn__pic_box text = {.id = syn__arena_copy(&d->arena, id),
                               .label = syn__arena_copy(&d->arena, t.s),
                               .tip = cut_end->name,
                               .x = x,
                               .y = y,
                               .w = cut_end->w,
                               .h = cut_end->h,
                               .look = SYN__PIC_PLAIN,
                               .cluster = cell->cluster};
    if (text.id == NULL || text.label == NULL)
        return SYN_FAIL_NOMEM(err, t.n, "a label of a picture");
    return syn__pic_add_box(d, &text, box, err);
}

syn_status syn__pic_draw_cut_end(syn__pic_cells *c, const syn__pic_cell *cell,
                                 const syn__pic_cut_end *cut_end, bool red, double right, double y,
                                 syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    const syn__pic_box op = d->boxes[cell->box];
    syn__pic_point text = {right, y}, side = {op.x - op.w / 2, op.y}, middle = {right, y};
    if (cut_end->upright) {
        const double away = cut_end->out ? 1 : -1; /* direction of the line in y */
        side = (syn__pic_point){op.x, op.y + away * op.h / 2};
        text = (syn__pic_point){op.x, side.y + away * GAP};
        middle = (syn__pic_point){op.x, text.y + away * cut_end->h / 2};
    } else {
        middle.x -= cut_end->w / 2;
    }
    uint32_t box;
    SYN_TRY(add_text(c, cell, cut_end, middle.x, middle.y, &box, err));
    const syn__pic_point from = cut_end->out ? side : text, to = cut_end->out ? text : side;
    syn__pic_point end = to; /* where the line ends: at the base of the arrow head */
    if (cut_end->upright) end.y -= SYN__PIC_ARROW;
    else end.x += cut_end->out ? SYN__PIC_ARROW : -SYN__PIC_ARROW;
    const syn__pic_edge e = {.from = cut_end->out ? cell->box : box,
                             .to = cut_end->out ? box : cell->box,
                             .tip = to,
                             .arrow = true,
                             .line = red && cut_end->line != SYN__PIC_ORDER ? SYN__PIC_RED
                                                                            : cut_end->line};
    const double mid = right + 4;
    const syn__pic_point corners[] = {{mid, from.y}, {mid, end.y}, end};
    const bool straight = cut_end->upright || (from.y - to.y < 0.5 && to.y - from.y < 0.5);
    SYN_TRY(syn__pic_begin_edge(d, &e, from, err));
    return straight ? syn__pic_line_to(d, end, err) : syn__pic_corners_to(d, corners, 3, err);
}
