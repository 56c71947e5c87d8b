/* Draws lines from a forward column to the backward column next to it: from ops of forward to the
   ops of backward that use their saved tensors, and from a tp_enter to the all-reduce of its
   gradient (a pair). */
#include "export/picture/picture_layout.h"
#include "syntorch/base/memory.h"

#include <math.h>
#include <string.h>

typedef struct saved_line {
    uint32_t from, to; /* boxes */
    int line;          /* SYN__PIC_SAVED or SYN__PIC_PAIR */
} saved_line;

typedef struct lines {
    syn__pic_cells *cells;
    const syn__pic_part *forward;
    saved_line *list;
    size_t n, cap;
} lines;

static syn_status add_line(lines *l, uint32_t from, uint32_t to, int line, syn_error *err) {
    for (size_t i = 0; i < l->n; i++)
        if (l->list[i].from == from && l->list[i].to == to && l->list[i].line == line)
            return SYN_OK;
    SYN_TRY(syn_grow(&l->list, &l->cap, l->n + 1, sizeof *l->list, err));
    l->list[l->n++] = (saved_line){from, to, line};
    return SYN_OK;
}

/* The cell of forward that shows the op at `place`. UINT32_MAX: there is none, or it represents
   several layers and the op at `user` belongs to another of these layers. */
static uint32_t forward_cell(const lines *l, uint32_t place, uint32_t user) {
    const syn__pic_plan *plan = l->cells->plan;
    const syn__pic_unit *from = &plan->units[syn__pic_unit_of(plan, place)];
    const syn__pic_unit *to = &plan->units[syn__pic_unit_of(plan, user)];
    if (from->section != l->forward->plan_section) return UINT32_MAX;
    if (plan->units[from->rep].count > 1 && strcmp(from->layer, to->layer) != 0) return UINT32_MAX;
    return syn__pic_cell_of(l->cells, place);
}

/* Adds lines into a cell without pills, from the ops of forward whose data the cell uses. */
static syn_status lines_of_deps(lines *l, const syn__pic_cell *c, syn_error *err) {
    syn__pic_plan *plan = l->cells->plan;
    for (uint32_t i = c->first; i <= c->last; i++) {
        const syn_node *n, *d;
        SYN_TRY(syn__pic_node(plan, i, &plan->cursor, &n, err));
        for (uint32_t k = 0; k < n->n_deps; k++) {
            if (n->deps[k].dep_class != SYN_DEP_DATA) continue;
            uint32_t place = syn__pic_place_of(plan, n->deps[k].node);
            SYN_TRY(syn__pic_node(plan, place, &plan->other, &d, err));
            while ((d->flags & SYN_NODE_VIRTUAL) != 0 && d->n_deps > 0) { /* skip views */
                place = syn__pic_place_of(plan, d->deps[0].node);
                SYN_TRY(syn__pic_node(plan, place, &plan->other, &d, err));
            }
            const uint32_t from = forward_cell(l, place, i);
            if (from != UINT32_MAX)
                SYN_TRY(add_line(l, l->cells->cells[from].box, c->box, SYN__PIC_SAVED, err));
        }
    }
    return SYN_OK;
}

/* Adds lines into the pills of a cell, from the ops of forward that computed the tensors. */
static syn_status lines_of_pills(lines *l, const syn__pic_cell *c, syn_error *err) {
    syn__pic_plan *plan = l->cells->plan;
    for (uint32_t i = 0; i < c->n_sides; i++) {
        const syn__pic_pill *p = &l->cells->pills[c->first_side + i];
        const syn_graph_tensor *t;
        if (p->tensor == SYN_NO_TENSOR) continue;
        SYN_TRY(syn__pic_tensor(plan, p->tensor, &t, err));
        if (t->producer == SYN_NO_NODE) continue;
        const uint32_t from = forward_cell(l, syn__pic_place_of(plan, t->producer), c->first);
        if (from == UINT32_MAX) continue;
        SYN_TRY(add_line(l, l->cells->cells[from].box, p->box, SYN__PIC_SAVED, err));
    }
    return SYN_OK;
}

/* Finds the op in unit `u` that reads the output of the tp_enter at `place`; SYN_NO_NODE if there
   is none. */
static syn_status reader_of(const lines *l, const syn__pic_unit *u, uint32_t place, uint32_t *out,
                            syn_error *err) {
    syn__pic_plan *plan = l->cells->plan;
    *out = SYN_NO_NODE;
    for (uint32_t i = place + 1; i < u->end && *out == SYN_NO_NODE; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(plan, i, &plan->other, &n, err));
        for (uint32_t k = 0; k < n->n_deps; k++)
            if (syn__pic_place_of(plan, n->deps[k].node) == place) *out = i;
    }
    return SYN_OK;
}

/* Adds the line of a pair. A tp_enter gives every rank the same input, so backward sums the
   gradients of all ranks; this all-reduce has the scope of the tp_enter. The line starts at the op
   that reads the output of the tp_enter. */
static syn_status line_of_pair(lines *l, const syn__pic_cell *c, syn_error *err) {
    syn__pic_plan *plan = l->cells->plan;
    const syn_node *n, *enter;
    SYN_TRY(syn__pic_node(plan, c->first, &plan->cursor, &n, err));
    if (c->first != c->last || n->comm != SYN_COMM_ALL_REDUCE) return SYN_OK;
    const char *layer = plan->units[syn__pic_unit_of(plan, c->first)].layer;
    for (size_t u = 0; u < plan->n_units; u++) {
        const syn__pic_unit *unit = &plan->units[u];
        if (unit->section != l->forward->plan_section || strcmp(unit->layer, layer) != 0) continue;
        for (uint32_t i = unit->begin; i < unit->end; i++) {
            uint32_t reader;
            SYN_TRY(syn__pic_node(plan, i, &plan->other, &enter, err));
            if (strcmp(enter->op, "tp_enter") != 0 || strcmp(enter->scope, n->scope) != 0) continue;
            SYN_TRY(reader_of(l, unit, i, &reader, err));
            const uint32_t from =
                reader != SYN_NO_NODE ? forward_cell(l, reader, c->first) : UINT32_MAX;
            if (from == UINT32_MAX) return SYN_OK;
            return add_line(l, l->cells->cells[from].box, c->box, SYN__PIC_PAIR, err);
        }
    }
    return SYN_OK;
}

/* Returns the y at which line i enters its box. The lines into a box are distributed over its
   height, in the order of their starts. */
static double arrival(const lines *l, size_t i) {
    const syn__pic_box *boxes = l->cells->drawing->boxes, *to = &boxes[l->list[i].to];
    uint32_t n = 0, before = 0;
    for (size_t k = 0; k < l->n; k++) {
        if (l->list[k].to != l->list[i].to) continue;
        n++;
        before += boxes[l->list[k].from].y < boxes[l->list[i].from].y;
    }
    const double step = fmin(6, (to->h - 10) / n);
    return to->y + (before - (n - 1) / 2.0) * step;
}

/* Changes *y to the nearest y at which the way from x0 to x1 is free. The vertical way to that y at
   x0 must be free, too. Returns false if there is no such y nearby. */
static bool find_way(const syn__pic_drawing *d, double x0, double x1, double *y) {
    for (int k = 0; k < 160; k++) {
        const double at = *y + (k % 2 == 0 ? k : -k - 1);
        if (!syn__pic_free_way(d, x0 < x1 ? (syn__pic_point){x0, at} : (syn__pic_point){x1, at},
                               fabs(x1 - x0), 0) ||
            !syn__pic_free_way(d, (syn__pic_point){x0, fmin(at, *y)}, 0, fabs(at - *y)))
            continue;
        *y = at;
        return true;
    }
    return false;
}

#define EDGE_LEAD 10.0 /* length of the straight line at both boxes */

/* Draws line i, around boxes: out of the forward column to x0, across to x1, and into the backward
   column. */
static syn_status draw_line(lines *l, size_t i, double x0, double x1, syn_error *err) {
    syn__pic_drawing *d = l->cells->drawing;
    const syn__pic_box *from = &d->boxes[l->list[i].from], *to = &d->boxes[l->list[i].to];
    const syn__pic_point a = {from->x + from->w / 2, from->y};
    const syn__pic_point tip = {to->x - to->w / 2, arrival(l, i)};
    double leave = a.y, enter = tip.y;
    if (!find_way(d, a.x + EDGE_LEAD, x0, &leave) || !find_way(d, tip.x - EDGE_LEAD, x1, &enter))
        return SYN_OK;
    const syn__pic_edge e = {.from = l->list[i].from,
                             .to = l->list[i].to,
                             .tip = tip,
                             .arrow = true,
                             .line = l->list[i].line,
                             .tip_text = l->list[i].line == SYN__PIC_PAIR
                                             ? "tp_enter, and the all_reduce of its gradient"
                                             : "saved for backward"};
    const syn__pic_point out[] = {{a.x + EDGE_LEAD, a.y}, {a.x + EDGE_LEAD, leave}, {x0, leave}};
    const syn__pic_point in[] = {
        {tip.x - EDGE_LEAD, enter}, {tip.x - EDGE_LEAD, tip.y}, {tip.x - SYN__PIC_ARROW, tip.y}};
    SYN_TRY(syn__pic_begin_edge(d, &e, a, err));
    SYN_TRY(syn__pic_corners_to(d, out, 3, err));
    SYN_TRY(syn__pic_sway_to(d, (syn__pic_point){x1, enter}, err));
    return syn__pic_corners_to(d, in, 3, err);
}

syn_status syn__pic_draw_saved(syn__pic_cells *cells, uint32_t part, syn_error *err) {
    const syn__pic_part *backward = &cells->parts[part + 1];
    lines l = {.cells = cells, .forward = &cells->parts[part]};
    const double x0 = cells->drawing->clusters[l.forward->cluster].x1;
    const double x1 = cells->drawing->clusters[backward->cluster].x0;
    syn_status s = SYN_OK;
    for (uint32_t i = backward->cell_begin; i < backward->cell_end && s == SYN_OK; i++) {
        const syn__pic_cell *c = &cells->cells[i];
        s = cells->detail == SYN__PIC_FULL && c->n_sides > 0 ? lines_of_pills(&l, c, err)
                                                             : lines_of_deps(&l, c, err);
        if (s == SYN_OK) s = line_of_pair(&l, c, err);
    }
    for (size_t i = 0; i < l.n && s == SYN_OK; i++) s = draw_line(&l, i, x0, x1, err);
    syn_free(l.list);
    return s;
}
