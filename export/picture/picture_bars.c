/* Bars for the collectives over gradients, beside the ops of backward that make these. In a layer
   drawn for several, a bar takes the share of those whose gradients it holds. */
#include "export/picture/picture_layout.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

#define DOT     " \xC2\xB7 "
#define TO      "\xE2\x80\xA6"
#define GREY    "#4a5560"
#define BAR_H   46.0 /* three lines of text */
#define BAR_GAP 6.0
#define HEAD_W  34.0 /* the icon and what is left and right of the text */
#define PANEL_W 12.0 /* from the panel's border to the bars */
#define HEAD_PT 26.0 /* the panel's title */

typedef struct bar {
    uint32_t node; /* place */
    double top, bottom;
    double w;
    uint32_t lane;
    uint32_t last; /* place of the op whose gradient comes last */
    const char *label, *tip, *id;
} bar;

typedef struct bars {
    syn__pic_cells *cells;
    const syn__pic_part *part; /* backward */
    bar *list;
    size_t n, cap;
    uint32_t lanes;
    double lane_w;
    uint64_t bytes;
} bars;

/* ---- Where the gradients are ---- */

/* What cell `c` and its tensors take of the page. */
static void extent(const syn__pic_cells *cells, const syn__pic_cell *c, double *top,
                   double *bottom) {
    const syn__pic_box *boxes = cells->drawing->boxes, *b = &boxes[c->box];
    *top = b->y - b->h / 2, *bottom = b->y + b->h / 2;
    for (uint32_t i = 0; i < c->n_outs + c->n_sides; i++) {
        const uint32_t pill = i < c->n_outs ? c->first_out + i : c->first_side + i - c->n_outs;
        b = &boxes[cells->pills[pill].box];
        *top = fmin(*top, b->y - b->h / 2), *bottom = fmax(*bottom, b->y + b->h / 2);
    }
}

/* The same for the op at `place`, which a cell stands for: of a box of several ops its share, and
   of a frame of several layers that of its layer. Time goes up. */
static bool place_extent(const syn__pic_cells *cells, uint32_t place, double *top, double *bottom) {
    const syn__pic_plan *plan = cells->plan;
    const uint32_t cell = syn__pic_cell_of(cells, place);
    if (cell == UINT32_MAX) return false;
    const syn__pic_cell *c = &cells->cells[cell];
    extent(cells, c, top, bottom);
    const double each = (*bottom - *top) / (c->last - c->first + 1);
    *bottom -= each * (syn__pic_rep_of(plan, place) - c->first);
    *top = *bottom - each;
    const uint32_t unit = syn__pic_unit_of(plan, place);
    const syn__pic_unit *rep = &plan->units[plan->units[unit].rep];
    int32_t frame = c->cluster;
    while (frame >= 0 && cells->drawing->clusters[frame].level > 1)
        frame = cells->drawing->clusters[frame].parent;
    if (rep->count < 2 || frame < 0) return true;
    const syn__pic_cluster *k = &cells->drawing->clusters[frame];
    const double share = (k->y1 - k->y0) / rep->count;
    const double start = k->y1 - share * (unit - plan->units[unit].rep + 1);
    *top = start + (*top - k->y0) / rep->count;
    *bottom = start + (*bottom - k->y0) / rep->count;
    return true;
}

/* "h.3", or "embed" outside layers. */
static syn_status put_where(syn__pic_plan *plan, uint32_t place, char out[64], syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, place, &plan->other, &n, err));
    const char *layer = plan->units[syn__pic_unit_of(plan, place)].layer;
    const size_t end = layer[0] != '\0' ? strlen(layer) : strcspn(n->scope, ".");
    snprintf(out, 64, "%.*s", (int)(end < 40 ? end : 40), n->scope);
    return SYN_OK;
}

/* Extent of bar `b` over the ops it takes gradients from; their number; the first and the last. */
static syn_status span(bars *s, bar *b, uint32_t *n_ops, uint32_t *first, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    const syn_node *n;
    *n_ops = 0;
    *first = UINT32_MAX;
    b->top = INFINITY, b->bottom = -INFINITY, b->last = 0;
    SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &n, err));
    for (uint32_t i = 0; i < n->n_deps; i++) {
        const uint32_t place = syn__pic_place_of(plan, n->deps[i].node);
        double top, bottom;
        if (n->deps[i].dep_class != SYN_DEP_DATA ||
            plan->units[syn__pic_unit_of(plan, place)].section != s->part->plan_section ||
            !place_extent(s->cells, place, &top, &bottom))
            continue;
        b->top = fmin(b->top, top), b->bottom = fmax(b->bottom, bottom);
        if (place < *first) *first = place;
        if (place > b->last) b->last = place;
        ++*n_ops;
    }
    return SYN_OK;
}

/* ---- What they say ---- */

static void put_line(syn__pic_text *t, const char *text, double size, const char *color,
                     bool bold) {
    syn__pic_put(t, "<tr><td align=\"left\"><font point-size=\"%g\" color=\"%s\">%s", size, color,
                 bold ? "<b>" : "");
    syn__pic_put_html(t, text);
    syn__pic_put(t, "%s</font></td></tr>", bold ? "</b>" : "");
}

static syn_status label_bar(bars *s, bar *b, uint32_t n_ops, uint32_t first, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    syn__arena *arena = &s->cells->drawing->arena;
    const char *facts;
    double w, h;
    char bytes[SYN__PIC_NUMBER], from[64] = "", to[64] = "", line[3][160], id[48];
    SYN_TRY(syn__pic_label_node(plan, arena, b->node, SYN__PIC_COLLECTIVE, &facts, &b->tip, &w, &h,
                                err));
    if (n_ops > 0) SYN_TRY(put_where(plan, first, from, err));
    if (n_ops > 0) SYN_TRY(put_where(plan, b->last, to, err));
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &n, err));
    s->bytes += n->comm_bytes;
    snprintf(line[0], sizeof line[0], "%s  %s", syn_comm_kind_name(n->comm),
             syn__pic_bytes(n->comm_bytes, bytes));
    if (n->n_inputs > 0)
        snprintf(line[1], sizeof line[1], "%u gradient%s", n->n_inputs, n->n_inputs > 1 ? "s" : "");
    else snprintf(line[1], sizeof line[1], "of %u op%s", n_ops, n_ops == 1 ? "" : "s");
    const size_t used = strlen(line[1]);
    snprintf(line[1] + used, sizeof line[1] - used, "%s%s%s%s", n_ops > 0 ? DOT : "", from,
             strcmp(from, to) != 0 ? " " TO " " : "", strcmp(from, to) != 0 ? to : "");
    syn__pic_text t;
    syn__pic_clear(&t);
    SYN_TRY(syn__pic_put_comm_facts(plan, b->node, &t, err));
    syn__pic_shorten(t.s, 60, line[2], sizeof line[2]);
    const syn__pic_style *style = syn__pic_style_of(SYN__PIC_COLLECTIVE);
    syn__pic_clear(&t);
    syn__pic_put(&t,
                 "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\"><tr>"
                 "<td rowspan=\"4\"><font point-size=\"15\" color=\"%s\">%s</font></td>"
                 "<td rowspan=\"4\" width=\"6\"></td></tr>",
                 style->line, style->icon);
    put_line(&t, line[0], 10, "#000000", true);
    put_line(&t, line[1], 8.5, "#000000", false);
    put_line(&t, line[2], 8, GREY, false);
    syn__pic_put(&t, "</table>");
    b->w = fmax(syn__pic_width(line[0], 10, true),
                fmax(syn__pic_width(line[1], 8.5, false), syn__pic_width(line[2], 8, false))) +
           HEAD_W + 2 * style->pad;
    snprintf(id, sizeof id, "r%d.o%" PRIu64, plan->graph->ranks[plan->rank].rank, n->id);
    b->label = syn__arena_copy(arena, t.s);
    b->id = syn__arena_copy(arena, id);
    if (b->label == NULL || b->id == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label");
    return SYN_OK;
}

/* ---- Places ---- */

static bool meet(const bar *a, const bar *b) {
    return a->top < b->bottom + BAR_GAP && b->top < a->bottom + BAR_GAP;
}

/* High enough for its text, within the column; in the first lane where there is room. */
static void place_bar(bars *s, bar *b) {
    const double lack = BAR_H - (b->bottom - b->top);
    if (!(b->bottom > b->top)) b->top = HEAD_PT + 5, b->bottom = b->top + BAR_H;
    else if (lack > 0) b->top -= lack / 2, b->bottom += lack / 2;
    const double low = HEAD_PT + 5 - b->top, high = b->bottom - (s->part->height - PANEL_W);
    if (low > 0) b->top += low, b->bottom = fmax(b->bottom, b->top + BAR_H);
    else if (high > 0) b->bottom -= high, b->top = fmin(b->top, b->bottom - BAR_H);
    for (bool clash = true; clash;) {
        clash = false;
        for (const bar *o = s->list; o < b && !clash; o++) clash = o->lane == b->lane && meet(o, b);
        b->lane += clash;
    }
    if (b->lane + 1 > s->lanes) s->lanes = b->lane + 1;
    s->lane_w = fmax(s->lane_w, b->w);
}

static syn_status find_bars(bars *s, syn_error *err) {
    const syn__pic_plan *plan = s->cells->plan;
    for (size_t u = 0; u < plan->n_units; u++) {
        const syn__pic_unit *unit = &plan->units[u];
        if (unit->section != s->part->plan_section + 1 || !syn__pic_is_bucket(plan, u)) continue;
        for (uint32_t i = unit->begin; i < unit->end; i++) {
            uint32_t n_ops, first;
            SYN_TRY(syn_grow(&s->list, &s->cap, s->n + 1, sizeof *s->list, err));
            bar *b = &s->list[s->n++];
            *b = (bar){.node = i};
            SYN_TRY(span(s, b, &n_ops, &first, err));
            SYN_TRY(label_bar(s, b, n_ops, first, err));
            place_bar(s, b);
        }
    }
    return SYN_OK;
}

/* From the op that makes the last gradient, where it is drawn for itself alone. */
static syn_status draw_ready(bars *s, const bar *b, uint32_t box, syn_error *err) {
    syn__pic_drawing *d = s->cells->drawing;
    const syn__pic_plan *plan = s->cells->plan;
    const uint32_t cell = syn__pic_cell_of(s->cells, b->last);
    if (cell == UINT32_MAX || plan->units[syn__pic_unit_of(plan, b->last)].count != 1)
        return SYN_OK;
    const syn__pic_box *from = &d->boxes[s->cells->cells[cell].box];
    const double x = d->boxes[box].x - d->boxes[box].w / 2;
    const double start = from->x + from->w / 2;
    double top, bottom;
    if (!place_extent(s->cells, b->last, &top, &bottom)) return SYN_OK;
    const double y = (top + bottom) / 2;
    if (!syn__pic_free_way(d, (syn__pic_point){start + 1, y}, x - start - 2, 0) || y < b->top ||
        y > b->bottom)
        return SYN_OK;
    const syn__pic_edge e = {.from = s->cells->cells[cell].box,
                             .to = box,
                             .tip = {x, y},
                             .arrow = true,
                             .line = SYN__PIC_RED};
    SYN_TRY(syn__pic_begin_edge(d, &e, (syn__pic_point){start, y}, err));
    return syn__pic_line_to(d, (syn__pic_point){x - SYN__PIC_ARROW, y}, err);
}

static syn_status draw_bars(bars *s, double x, double *width, syn_error *err) {
    syn__pic_drawing *d = s->cells->drawing;
    syn__pic_text facts;
    char count[SYN__PIC_NUMBER], bytes[SYN__PIC_NUMBER];
    syn__pic_clear(&facts);
    syn__pic_put(&facts, "%s collective%s" DOT "%s", syn__pic_count(s->n, count),
                 s->n == 1 ? "" : "s", syn__pic_bytes(s->bytes, bytes));
    int32_t panel;
    uint32_t first = 0;
    SYN_TRY(syn__pic_new_cluster(d, -1, 0, "gradients", facts.s, &panel, err));
    syn__pic_cluster *k = &d->clusters[panel];
    *width = fmax(k->min_w, 2 * PANEL_W + s->lanes * s->lane_w + (s->lanes - 1) * BAR_GAP);
    k->x0 = x, k->x1 = x + *width, k->y0 = 0, k->y1 = s->part->height;
    for (size_t i = 0; i < s->n; i++) {
        const bar *b = &s->list[i];
        const double left = x + PANEL_W + b->lane * (s->lane_w + BAR_GAP);
        const syn__pic_box box = {.id = b->id,
                                  .label = b->label,
                                  .tip = b->tip,
                                  .x = left + s->lane_w / 2,
                                  .y = (b->top + b->bottom) / 2,
                                  .w = s->lane_w,
                                  .h = b->bottom - b->top,
                                  .look = SYN__PIC_COLLECTIVE,
                                  .cluster = panel};
        uint32_t index;
        SYN_TRY(syn__pic_add_box(d, &box, &index, err));
        if (i == 0) first = index;
    }
    for (uint32_t i = 0; i < s->n; i++) SYN_TRY(draw_ready(s, &s->list[i], first + i, err));
    return SYN_OK;
}

syn_status syn__pic_draw_bars(syn__pic_cells *cells, uint32_t part, double x, double *width,
                              syn_error *err) {
    bars s = {.cells = cells, .part = &cells->parts[part]};
    *width = 0;
    syn_status status = find_bars(&s, err);
    if (status == SYN_OK && s.n > 0) status = draw_bars(&s, x, width, err);
    syn_free(s.list);
    return status;
}
