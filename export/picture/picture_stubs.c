/* Links that a break between columns cuts: "from 1 of 3" beside the box that one leads to, and "to
   2 of 3" beside the box that it comes from. */
#include "export/picture/picture_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "syntorch/memory.h"

#define TO      "\xE2\x80\xA6" /* ellipsis */
#define TEXT_PT 8.0
#define TEXT_H  10.0
#define FROM_W  22.0 /* of "from" */
#define GAP     9.0  /* between a text and the box above or below it */
#define LISTED  3u   /* columns; of more the first and the last are named */

static syn_status add(syn__pic_cells *c, const syn__pic_stub *stub, syn_error *err) {
    const size_t n = c->n_stubs;
    for (size_t i = n; i-- > 0 && i + 64 > n;) { /* most come again soon */
        const syn__pic_stub *s = &c->stubs[i];
        if (s->cell == stub->cell && s->part == stub->part && s->other == stub->other &&
            s->out == stub->out && s->line == stub->line)
            return SYN_OK;
    }
    SYN_TRY(syn_grow(&c->stubs, &c->stubs_cap, n + 1, sizeof *c->stubs, err));
    c->stubs[c->n_stubs++] = *stub;
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
    const syn__pic_stub in = {.cell = to, .part = c->cells[from].part, .other = from, .line = line};
    const syn__pic_stub out = {.cell = from, .part = c->cells[to].part, .line = line, .out = true};
    SYN_TRY(add(c, &in, err));
    return add(c, &out, err);
}

static int compare(const void *a, const void *b) {
    const syn__pic_stub *x = a, *y = b;
    if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
    if (x->out != y->out) return x->out ? 1 : -1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return x->other < y->other ? -1 : x->other > y->other;
}

static bool together(const syn__pic_stub *a, const syn__pic_stub *b) {
    return a->cell == b->cell && a->out == b->out && a->line == b->line;
}

/* Ends of the stubs from i on that are drawn as one: what leaves a box goes its ways at once; what
   comes into it does so by itself, as long as these are few. */
static size_t end_of(const syn__pic_cells *c, size_t i) {
    size_t end = i + 1;
    while (end < c->n_stubs && together(&c->stubs[i], &c->stubs[end])) end++;
    const bool begins = i == 0 || !together(&c->stubs[i - 1], &c->stubs[i]);
    if (c->stubs[i].out || (begins && end - i > LISTED)) return end;
    return i + 1;
}

/* "to 2, 3 of 5", "to 2 ... 5 of 5" with a real ellipsis, of n stubs in the order of columns. */
static syn_status name(syn__pic_cells *c, syn__pic_stub *stubs, size_t n, syn_error *err) {
    syn__pic_text t;
    uint32_t before = 0;
    syn__pic_clear(&t);
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = c->parts[stubs[i].part].number;
        if (number == before || (n > LISTED && i > 0 && i + 1 < n)) continue;
        syn__pic_put(&t, "%s%u",
                     i == 0       ? stubs[0].out ? "to " : "from "
                     : n > LISTED ? " " TO " "
                                  : ", ",
                     number);
        before = number;
    }
    syn__pic_put(&t, " of %u", c->parts[stubs[0].part].of);
    return syn__pic_keep(&c->drawing->arena, &t, &stubs[0].name, err);
}

syn_status syn__pic_name_stubs(syn__pic_cells *c, syn_error *err) {
    size_t n = 0;
    if (c->n_stubs > 1) qsort(c->stubs, c->n_stubs, sizeof *c->stubs, compare);
    for (size_t i = 0, end; i < c->n_stubs; i = end) {
        end = end_of(c, i);
        SYN_TRY(name(c, &c->stubs[i], end - i, err));
        syn__pic_cell *cell = &c->cells[c->stubs[i].cell];
        if (cell->n_stubs++ == 0) cell->first_stub = (uint32_t)n;
        c->stubs[n] = c->stubs[i];
        c->stubs[n++].number = cell->n_stubs;
    }
    c->n_stubs = n;
    return SYN_OK;
}

void syn__pic_mark_stubs(syn__pic_cells *c, const syn__pic_cell *to, uint32_t n_links) {
    syn__pic_stub *first = NULL; /* from furthest up */
    uint32_t n = n_links;
    for (uint32_t i = 0; i < to->n_stubs; i++) {
        syn__pic_stub *s = &c->stubs[to->first_stub + i];
        if (s->out || s->line != SYN__PIC_DATA) continue;
        if (first == NULL) first = s;
        n++;
    }
    if (to->adds && n > 1 && first != NULL) first->line = SYN__PIC_RESIDUAL;
}

/* Where the second line of a stub beside a box begins: behind "from ". */
static const char *second_line(const syn__pic_stub *s) {
    return s->name + (s->out ? 3 : 5);
}

void syn__pic_size_stubs(syn__pic_cells *c, syn__pic_cell *cell, bool first, bool last) {
    cell->above = cell->below = 0;
    for (uint32_t i = 0; i < cell->n_stubs; i++) {
        syn__pic_stub *s = &c->stubs[cell->first_stub + i];
        double *room = s->out ? &cell->below : &cell->above;
        s->upright = (s->out ? last : first) && !(*room > 0) && cell->n_outs == 0;
        s->h = s->upright ? TEXT_H : 2 * TEXT_H;
        s->w = syn__pic_width(s->upright ? s->name : second_line(s), TEXT_PT, false) + 3;
        if (!s->out && s->w < FROM_W) s->w = FROM_W;
        if (s->upright) *room = s->h + GAP;
    }
}

/* The text of a stub, in two lines beside a box. */
static syn_status add_text(syn__pic_cells *c, const syn__pic_cell *cell, const syn__pic_stub *stub,
                           double x, double y, uint32_t *box, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_text t;
    char id[128], first[8];
    snprintf(id, sizeof id, "%.80s.%s%u", cell->id, stub->out ? "to" : "from", stub->number);
    snprintf(first, sizeof first, "%s", stub->out ? "to" : "from");
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\" color=\"#333333\"><i>", TEXT_PT);
    if (!stub->upright) {
        syn__pic_put_html(&t, first);
        syn__pic_put(&t, "<br/>");
    }
    syn__pic_put_html(&t, stub->upright ? stub->name : second_line(stub));
    syn__pic_put(&t, "</i></font>");
    const syn__pic_box text = {.id = syn__arena_copy(&d->arena, id),
                               .label = syn__arena_copy(&d->arena, t.s),
                               .tip = stub->name,
                               .x = x,
                               .y = y,
                               .w = stub->w,
                               .h = stub->h,
                               .look = SYN__PIC_PLAIN,
                               .cluster = cell->cluster};
    if (text.id == NULL || text.label == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label");
    return syn__pic_add_box(d, &text, box, err);
}

syn_status syn__pic_draw_stub(syn__pic_cells *c, const syn__pic_cell *cell,
                              const syn__pic_stub *stub, bool red, double right, double y,
                              syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    const syn__pic_box op = d->boxes[cell->box];
    syn__pic_point text = {right, y}, side = {op.x - op.w / 2, op.y}, middle = {right, y};
    if (stub->upright) {
        const double away = stub->out ? 1 : -1; /* downwards, upwards */
        side = (syn__pic_point){op.x, op.y + away * op.h / 2};
        text = (syn__pic_point){op.x, side.y + away * GAP};
        middle = (syn__pic_point){op.x, text.y + away * stub->h / 2};
    } else {
        middle.x -= stub->w / 2;
    }
    uint32_t box;
    SYN_TRY(add_text(c, cell, stub, middle.x, middle.y, &box, err));
    const syn__pic_point from = stub->out ? side : text, to = stub->out ? text : side;
    syn__pic_point end = to; /* of the line: the arrow's base */
    if (stub->upright) end.y -= SYN__PIC_ARROW;
    else end.x += stub->out ? SYN__PIC_ARROW : -SYN__PIC_ARROW;
    const syn__pic_edge e = {.from = stub->out ? cell->box : box,
                             .to = stub->out ? box : cell->box,
                             .tip = to,
                             .arrow = true,
                             .line =
                                 red && stub->line != SYN__PIC_ORDER ? SYN__PIC_RED : stub->line};
    const double mid = right + 4;
    const syn__pic_point corners[] = {{mid, from.y}, {mid, end.y}, end};
    const bool straight = stub->upright || (from.y - to.y < 0.5 && to.y - from.y < 0.5);
    SYN_TRY(syn__pic_begin_edge(d, &e, from, err));
    return straight ? syn__pic_line_to(d, end, err) : syn__pic_corners_to(d, corners, 3, err);
}
