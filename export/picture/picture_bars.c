/* Draws a bar for each collective over gradients, next to the ops of backward that compute the
   gradients. The collectives over gradients of folded layers are combined in one bar, which lists
   them. */
#include "export/picture/picture_layout.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT        " \xC2\xB7 "
#define TO         "\xE2\x80\xA6"
#define GREY       "#4a5560"
#define BAR_H      46.0 /* height of a bar with three lines of text */
#define LIST_H     10.0 /* height of each further line */
#define BAR_GAP    6.0
#define MAX_LISTED 24   /* maximum number of collectives listed in a bar */
#define HEAD_W     34.0 /* width of the icon and of the space around the text */
#define PANEL_W    12.0 /* distance from the panel's border to the bars */
#define HEAD_PT    26.0 /* height of the panel's title */

typedef struct bar {
    uint32_t node; /* place of the collective */
    double top, bottom;
    double w;
    double least; /* height that the bar's text needs */
    uint32_t lane;
    uint32_t first, last; /* places of the ops that compute its first and last gradients */
    uint32_t n_ops;       /* number of ops that compute its gradients */
    uint32_t n;           /* number of collectives in the bar; 0: another bar lists this
                             collective */
    uint32_t box;
    bool folded; /* the bar has gradients of folded layers */
    const char *label, *tip, *id;
} bar;

typedef struct bars {
    syn__pic_cells *cells;
    const syn__pic_part *part; /* the part with the backward pass */
    bar *list;
    size_t n, cap;
    uint32_t lanes;
    double lane_w;
    uint64_t bytes;
} bars;

/* ---- positions of gradients ---- */

/* Computes the top and bottom of cell `c` with its tensors. */
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

/* Computes the top and bottom of the op at `place`. If its box has several ops, this is the op's
   share of the box. Time runs upwards. */
static bool place_extent(const syn__pic_cells *cells, uint32_t place, double *top, double *bottom) {
    const syn__pic_plan *plan = cells->plan;
    const uint32_t cell = syn__pic_cell_of(cells, place);
    if (cell == UINT32_MAX) return false;
    const syn__pic_cell *c = &cells->cells[cell];
    extent(cells, c, top, bottom);
    const double each = (*bottom - *top) / (c->last - c->first + 1);
    *bottom -= each * (syn__pic_rep_of(plan, place) - c->first);
    *top = *bottom - each;
    return true;
}

/* Writes the layer of an op, "h.3", or its scope if it is outside the layers, "embed". */
static syn_status put_where(syn__pic_plan *plan, uint32_t place, char out[64], syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, place, &plan->other, &n, err));
    const char *layer = plan->units[syn__pic_unit_of(plan, place)].layer;
    const size_t end = layer[0] != '\0' ? strlen(layer) : strcspn(n->scope, ".");
    snprintf(out, 64, "%.*s", (int)(end < 40 ? end : 40), n->scope);
    return SYN_OK;
}

/* Finds the ops that compute the gradients of bar `b`, and from these ops the bar's top and
   bottom. */
static syn_status span(bars *s, bar *b, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    const syn_node *n;
    b->first = UINT32_MAX;
    b->top = INFINITY, b->bottom = -INFINITY;
    SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &n, err));
    for (uint32_t i = 0; i < n->n_deps; i++) {
        const uint32_t place = syn__pic_place_of(plan, n->deps[i].node);
        const syn__pic_unit *unit = &plan->units[syn__pic_unit_of(plan, place)];
        double top, bottom;
        if (n->deps[i].dep_class != SYN_DEP_DATA || unit->section != s->part->plan_section ||
            !place_extent(s->cells, place, &top, &bottom))
            continue;
        b->top = fmin(b->top, top), b->bottom = fmax(b->bottom, bottom);
        b->folded = b->folded || plan->units[unit->rep].count > 1;
        if (place < b->first) b->first = place;
        if (place > b->last) b->last = place;
        b->n_ops++;
    }
    return SYN_OK;
}

static bool meet(const bar *a, const bar *b) {
    return a->top < b->bottom + BAR_GAP && b->top < a->bottom + BAR_GAP;
}

/* Combines bars with gradients of folded layers: for each kind of collective, the first such bar
   gets the collectives of the others. It also gets those of any other bar of that kind that it
   would overlap. */
static syn_status join_folded(bars *s, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = i + 1; k < s->n && s->list[i].folded && s->list[i].n > 0; k++) {
            bar *a = &s->list[i], *b = &s->list[k];
            const syn_node *x, *y;
            SYN_TRY(syn__pic_node(plan, a->node, &plan->cursor, &x, err));
            SYN_TRY(syn__pic_node(plan, b->node, &plan->other, &y, err));
            if (b->n == 0 || !syn__pic_same_comm(x, y) || !(b->folded || (a->n > 1 && meet(a, b))))
                continue;
            a->top = fmin(a->top, b->top), a->bottom = fmax(a->bottom, b->bottom);
            a->n++;
            b->n = 0;
            b->lane = (uint32_t)i; /* index of the combined bar; bars get their lanes later */
        }
    return SYN_OK;
}

/* ---- labels ---- */

static void put_line(syn__pic_text *t, const char *text, double size, const char *color,
                     bool bold) {
    syn__pic_put(t, "<tr><td align=\"left\"><font point-size=\"%g\" color=\"%s\">%s", size, color,
                 bold ? "<b>" : "");
    syn__pic_put_html(t, text);
    syn__pic_put(t, "%s</font></td></tr>", bold ? "</b>" : "");
}

/* Writes the range of layers whose gradients the bar has, in order of time: "h.11 ... h.10". */
static syn_status put_range(bars *s, const bar *b, syn__pic_text *out, syn_error *err) {
    char from[64], to[64];
    if (b->n_ops == 0) return SYN_OK;
    SYN_TRY(put_where(s->cells->plan, b->first, from, err));
    SYN_TRY(put_where(s->cells->plan, b->last, to, err));
    syn__pic_put_clean(out, from);
    if (strcmp(from, to) == 0) return SYN_OK;
    syn__pic_put(out, " " TO " ");
    syn__pic_put_clean(out, to);
    return SYN_OK;
}

/* Writes the number of gradients, such as "24 gradients". For graphs without tensors, it writes the
   number of ops instead. */
static void put_gradients(syn__pic_text *out, uint64_t tensors, uint64_t ops) {
    char count[SYN__PIC_NUMBER];
    if (tensors > 0)
        syn__pic_put(out, "%s gradient%s", syn__pic_count(tensors, count), tensors > 1 ? "s" : "");
    else syn__pic_put(out, "gradients of %s op%s", syn__pic_count(ops, count), ops == 1 ? "" : "s");
}

typedef struct label {
    syn__pic_text html;
    double w;
} label;

static void add_line(label *l, const char *text, double size, const char *color, bool bold) {
    char cut[200];
    syn__pic_shorten(text, 60, cut, sizeof cut);
    put_line(&l->html, cut, size, color, bold);
    l->w = fmax(l->w, syn__pic_width(cut, size, bold));
}

static void open_label(label *l, size_t lines) {
    const syn__pic_style *style = syn__pic_style_of(SYN__PIC_COLLECTIVE);
    l->w = 0;
    syn__pic_clear(&l->html);
    syn__pic_put(&l->html,
                 "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\"><tr>"
                 "<td rowspan=\"%zu\"><font point-size=\"15\" color=\"%s\">%s</font></td>"
                 "<td rowspan=\"%zu\" width=\"6\"></td></tr>",
                 lines + 1, style->line, style->icon, lines + 1);
}

static syn_status close_label(bars *s, label *l, bar *b, size_t lines, syn_error *err) {
    syn__pic_put(&l->html, "</table>");
    b->w = l->w + HEAD_W + 2 * syn__pic_style_of(SYN__PIC_COLLECTIVE)->pad;
    b->least = BAR_H + (double)(lines - 3) * LIST_H;
    return syn__pic_keep(&s->cells->drawing->arena, &l->html, &b->label, err);
}

static syn_status label_one(bars *s, bar *b, const syn_node *n, syn_error *err) {
    char bytes[SYN__PIC_NUMBER];
    syn__pic_text line, range;
    label l;
    open_label(&l, 3);
    syn__pic_clear(&line);
    syn__pic_clear(&range);
    syn__pic_put(&line, "%s  %s", syn_comm_kind_name(n->comm),
                 syn__pic_bytes(n->comm_bytes, bytes));
    add_line(&l, line.s, 10, "#000000", true);
    syn__pic_clear(&line);
    put_gradients(&line, n->n_inputs, b->n_ops);
    SYN_TRY(put_range(s, b, &range, err));
    if (range.n > 0) syn__pic_put(&line, DOT "%s", range.s); /* PyTorch's ops may have no scope */
    add_line(&l, line.s, 8.5, "#000000", false);
    syn__pic_clear(&line);
    SYN_TRY(syn__pic_put_comm_info(s->cells->plan, b->node, &line, err));
    add_line(&l, line.s, 8, GREY, false);
    return close_label(s, &l, b, 3, err);
}

/* Lists the collectives of bar i from bottom to top, as time runs. If there are more than `most`,
   only the first and the last ones are listed. */
static syn_status list_bars(bars *s, size_t i, label *l, uint32_t most, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    const uint32_t n = s->list[i].n, skipped = n > most ? n - most + 1 : 0;
    uint32_t at = 0;
    for (size_t k = s->n; k-- > i;) {
        bar *b = &s->list[k];
        const syn_node *node;
        char bytes[SYN__PIC_NUMBER];
        syn__pic_text line;
        if (k != i && (b->n > 0 || b->lane != i)) continue;
        at++;
        syn__pic_clear(&line);
        if (skipped > 0 && at == most / 2 + 1) {
            syn__pic_put(&line, TO " %u more " TO, skipped);
        } else if (skipped == 0 || at <= most / 2 || at > most / 2 + skipped) {
            SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &node, err));
            syn__pic_put(&line, "%u. %s  ", n - at + 1, syn__pic_bytes(node->comm_bytes, bytes));
            SYN_TRY(put_range(s, b, &line, err));
        }
        if (line.n > 0) add_line(l, line.s, 8, GREY, false);
    }
    return SYN_OK;
}

static syn_status label_many(bars *s, size_t i, syn_error *err) {
    bar *b = &s->list[i];
    syn__pic_plan *plan = s->cells->plan;
    const double space = (s->part->height - HEAD_PT - 5 - PANEL_W - BAR_H) / LIST_H;
    const uint32_t most = space < 3 ? 3 : space > MAX_LISTED ? MAX_LISTED : (uint32_t)space;
    const uint32_t shown = b->n < most ? b->n : most;
    uint64_t bytes = 0, tensors = 0, ops = 0;
    char sum[SYN__PIC_NUMBER];
    syn__pic_text line;
    const syn_node *n;
    label l;
    for (size_t k = i; k < s->n; k++) {
        const bar *o = &s->list[k];
        if (k != i && (o->n > 0 || o->lane != i)) continue;
        SYN_TRY(syn__pic_node(plan, o->node, &plan->cursor, &n, err));
        bytes += n->comm_bytes, tensors += n->n_inputs, ops += o->n_ops;
    }
    open_label(&l, 3 + shown);
    syn__pic_clear(&line);
    syn__pic_put(&line, "%u %s  %s", b->n, syn_comm_kind_name(n->comm), syn__pic_bytes(bytes, sum));
    add_line(&l, line.s, 10, "#000000", true);
    syn__pic_clear(&line);
    put_gradients(&line, tensors, ops);
    syn__pic_put(&line, DOT "as they become ready:");
    add_line(&l, line.s, 8.5, "#000000", false);
    SYN_TRY(list_bars(s, i, &l, most, err));
    syn__pic_clear(&line);
    SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &n, err));
    syn__pic_put_groups(&line, plan, n->group);
    add_line(&l, line.s, 8, GREY, false);
    return close_label(s, &l, b, 3 + shown, err);
}

/* Sets text, id and tooltip of bar i. */
static syn_status label_bar(bars *s, size_t i, syn_error *err) {
    bar *b = &s->list[i];
    syn__pic_plan *plan = s->cells->plan;
    syn__arena *arena = &s->cells->drawing->arena;
    const char *unused;
    double w, h;
    char id[48];
    const syn_node *n;
    SYN_TRY(syn__pic_label_node(plan, arena, b->node, SYN__PIC_COLLECTIVE, false, &unused, &b->tip,
                                &w, &h, err));
    SYN_TRY(syn__pic_node(plan, b->node, &plan->cursor, &n, err));
    snprintf(id, sizeof id, "r%d.o%" PRIu64, plan->graph->ranks[plan->rank].rank, n->id);
    b->id = syn__arena_copy(arena, id);
    if (b->id == NULL) return SYN_FAIL_NOMEM(err, sizeof id, "an id of a picture");
    return b->n > 1 ? label_many(s, i, err) : label_one(s, b, n, err);
}

/* ---- placement ---- */

/* Places a bar: makes it high enough for its text, moves it within the height of the column, and
   puts it in the first lane that has free space there. */
static void place_bar(bars *s, bar *b) {
    const double lack = b->least - (b->bottom - b->top);
    if (!(b->bottom > b->top)) b->top = HEAD_PT + 5, b->bottom = b->top + b->least;
    else if (lack > 0) b->top -= lack / 2, b->bottom += lack / 2;
    const double low = HEAD_PT + 5 - b->top, high = b->bottom - (s->part->height - PANEL_W);
    if (low > 0) b->top += low, b->bottom = fmax(b->bottom, b->top + b->least);
    else if (high > 0) b->bottom -= high, b->top = fmin(b->top, b->bottom - b->least);
    b->lane = 0;
    for (bool clash = true; clash;) {
        clash = false;
        for (const bar *o = s->list; o < b && !clash; o++)
            clash = o->n > 0 && o->lane == b->lane && meet(o, b);
        b->lane += clash;
    }
    if (b->lane + 1 > s->lanes) s->lanes = b->lane + 1;
    s->lane_w = fmax(s->lane_w, b->w);
}

static syn_status find_bars(bars *s, syn_error *err) {
    syn__pic_plan *plan = s->cells->plan;
    for (size_t u = 0; u < plan->n_units; u++) {
        const syn__pic_unit *unit = &plan->units[u];
        if (unit->section != s->part->plan_section + 1 || !syn__pic_is_bucket(plan, u)) continue;
        for (uint32_t i = unit->begin; i < unit->end; i++) {
            const syn_node *n;
            SYN_TRY(syn_grow(&s->list, &s->cap, s->n + 1, sizeof *s->list, err));
            bar *b = &s->list[s->n++];
            *b = (bar){.node = i, .n = 1};
            SYN_TRY(span(s, b, err));
            SYN_TRY(syn__pic_node(plan, i, &plan->cursor, &n, err));
            s->bytes += n->comm_bytes;
        }
    }
    SYN_TRY(join_folded(s, err));
    for (size_t i = 0; i < s->n; i++)
        /* Must come before bars get their lanes: until then, `lane` of a bar with n == 0 is the
           index of its combined bar. */
        if (s->list[i].n > 0) SYN_TRY(label_bar(s, i, err));
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].n > 0) place_bar(s, &s->list[i]);
    return SYN_OK;
}

/* Draws an arrow from the op that computes the last gradient to the bar, if that op has a box of
   its own and nothing is in the way. */
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
    const double half = from->h / 2 - 3; /* not to the edge, because tensors next to the op may
                                            extend beyond it */
    const double y = fmin(fmax((top + bottom) / 2, from->y - half), from->y + half);
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
    syn__pic_text info;
    char count[SYN__PIC_NUMBER], bytes[SYN__PIC_NUMBER];
    syn__pic_clear(&info);
    syn__pic_put(&info, "%s collective%s" DOT "%s", syn__pic_count(s->n, count),
                 s->n == 1 ? "" : "s", syn__pic_bytes(s->bytes, bytes));
    int32_t panel;
    SYN_TRY(syn__pic_new_cluster(d, -1, 0, "gradients", info.s, &panel, err));
    syn__pic_cluster *k = &d->clusters[panel];
    *width = fmax(k->min_w, 2 * PANEL_W + s->lanes * s->lane_w + (s->lanes - 1) * BAR_GAP);
    k->x0 = x, k->x1 = x + *width, k->y0 = 0, k->y1 = s->part->height;
    for (size_t i = 0; i < s->n; i++) {
        const bar *b = &s->list[i];
        if (b->n == 0) continue;
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
        s->list[i].box = index;
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].n == 1) SYN_TRY(draw_ready(s, &s->list[i], s->list[i].box, err));
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
