/* Draws the communication view. It simulates the ranks: each lane processes its list of items, and
   waits at a shared item until all lanes that have the item have reached it. */
#include "export/picture/picture_comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT       " \xC2\xB7 "
#define SIDE_W    24.0
#define HEAD_H    36.0
#define FRAME_PAD 12.0

/* ---- synchronization ---- */

static syn__pic_item *current(syn__pic_lane *lane) {
    return lane->next < lane->n_items ? &lane->items[lane->next] : NULL;
}

static bool shared(const syn__pic_item *item) {
    return item->kind == SYN__PIC_OPEN || item->kind == SYN__PIC_CLOSE ||
           item->kind == SYN__PIC_BAR;
}

/* The item with the key of `item` and this kind that `lane` has not processed yet, or NULL. */
static syn__pic_item *partner(syn__pic_lane *lane, const syn__pic_item *item,
                              syn__pic_item_kind kind) {
    for (size_t i = lane->next; i < lane->n_items; i++)
        if (lane->items[i].kind == kind && lane->items[i].key == item->key) return &lane->items[i];
    return NULL;
}

static bool sent(const syn__pic_chart *c, const syn__pic_item *recv, const syn__pic_item **send) {
    for (uint32_t k = 0; k < c->n_lanes; k++)
        for (size_t i = 0; i < c->lanes[k].n_items; i++) {
            const syn__pic_item *item = &c->lanes[k].items[i];
            if (item->kind != SYN__PIC_SEND || item->key != recv->key) continue;
            *send = item;
            return item->done;
        }
    *send = NULL;
    return true; /* the sender is not drawn */
}

/* Finds the lanes that take part in the current item of `lane`. Returns whether all of them have
   reached it. */
static bool ready(syn__pic_chart *c, uint32_t lane, bool members[SYN__PIC_COLUMNS]) {
    const syn__pic_item *item = current(&c->lanes[lane]), *send;
    for (uint32_t k = 0; k < SYN__PIC_COLUMNS; k++) members[k] = k == lane;
    if (item->kind == SYN__PIC_RECV) return sent(c, item, &send);
    if (!shared(item)) return true;
    bool all = true;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        const syn__pic_item *other = k == lane ? item : partner(&c->lanes[k], item, item->kind);
        if (other == NULL) continue;
        members[k] = true;
        if (other != current(&c->lanes[k])) all = false;
    }
    return all;
}

/* ---- drawing items ---- */

/* Formats the line below a lane's name: "3.2 GFLOP, 46.9 KiB payload". */
static void lane_summary(const syn__pic_lane *lane, char *text, size_t bytes) {
    char flops[SYN__PIC_NUMBER], comms[SYN__PIC_NUMBER];
    snprintf(text, bytes, "%s" DOT "%s payload", syn__pic_flops(lane->plan.totals.flops, flops),
             syn__pic_bytes(lane->plan.totals.comm_bytes, comms));
}

/* The width that an item needs in one lane. A bar extends over several lanes, which share its
   width. */
static double share(syn__pic_chart *c, uint32_t lane, const syn__pic_item *item) {
    uint32_t n = 1;
    for (uint32_t k = 0; k < c->n_lanes && item->kind == SYN__PIC_BAR; k++)
        n += k != lane && partner(&c->lanes[k], item, item->kind) != NULL;
    return (item->w - (n - 1) * c->lane_gap) / n;
}

static double lane_width(syn__pic_chart *c) {
    double w = c->drawing->page == SYN_PAGE_NONE ? 190 : 150;
    char text[96];
    syn__pic_text name, others;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        lane_summary(&c->lanes[k], text, sizeof text);
        w = fmax(w, syn__pic_width(text, 8.5, false));
        syn__pic_lane_name(c, k, &name, &others);
        const double badge = c->lanes[k].n_ranks > 1 ? 104 : 0;
        w = fmax(w, syn__pic_width(name.s, 12, true) + 8 + badge);
        for (size_t i = 0; i < c->lanes[k].n_items; i++)
            w = fmax(w, share(c, k, &c->lanes[k].items[i]));
    }
    return w;
}

/* Finds the first and the last member. Returns the y below everything drawn so far in the lanes
   from first to last. */
static double span(const syn__pic_chart *c, const bool members[], uint32_t *first, uint32_t *last) {
    double y = 0;
    *first = UINT32_MAX;
    *last = 0;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        if (!members[k]) continue;
        if (*first == UINT32_MAX) *first = k;
        *last = k;
    }
    for (uint32_t k = *first; k <= *last; k++)
        if (c->lanes[k].y > y) y = c->lanes[k].y;
    return y;
}

/* Whether the lane's item needs the result of the box above it. Between different units the answer
   is always yes, because each unit may represent several layers. */
static syn_status needs_above(syn__pic_lane *lane, const syn__pic_item *item, bool *out,
                              syn_error *err) {
    const syn__pic_item *above = &lane->items[lane->above_item];
    const bool passes = item->pass || above->pass;
    *out = !passes && (lane->plan.waits == NULL || above->unit != item->unit);
    if (*out) return SYN_OK;
    return syn__pic_needs(&lane->plan, item->first, item->last, above->first, above->last, passes,
                          out, err);
}

static syn_status flow_to(syn__pic_chart *c, syn__pic_lane *lane, uint32_t box, double top,
                          bool red, syn_error *err) {
    bool needed = lane->above != UINT32_MAX;
    if (needed) SYN_TRY(needs_above(lane, current(lane), &needed, err));
    if (needed) {
        const syn__pic_edge e = {.from = lane->above,
                                 .to = box,
                                 .arrow = true,
                                 .tip = {lane->x, top},
                                 .line = red || lane->above_red ? SYN__PIC_RED : SYN__PIC_DATA};
        SYN_TRY(syn__pic_begin_edge(c->drawing, &e, (syn__pic_point){lane->x, lane->above_y}, err));
        SYN_TRY(syn__pic_line_to(c->drawing, (syn__pic_point){lane->x, top - SYN__PIC_ARROW}, err));
    }
    lane->above = box;
    lane->above_item = lane->next;
    lane->above_red = red;
    return SYN_OK;
}

static int32_t cluster_of(const syn__pic_lane *lane) {
    return lane->clusters[1] >= 0 ? lane->clusters[1] : lane->clusters[0];
}

static const char *box_id(syn__pic_chart *c, uint32_t lane, syn__pic_item *item, syn_error *err) {
    const syn_node *n;
    char id[64];
    if (syn__pic_node(&c->lanes[lane].plan, item->first, &c->lanes[lane].plan.cursor, &n, err) !=
        SYN_OK)
        return NULL;
    snprintf(id, sizeof id, "r%d.o%llu", c->graph->ranks[c->lanes[lane].rank_index].rank,
             (unsigned long long)n->id);
    return syn__arena_copy(&c->drawing->arena, id);
}

/* The tooltip of a bar: the tooltip of its first rank, followed by the measured times of the other
   ranks. */
static const char *bar_tip(syn__pic_chart *c, const bool members[], uint32_t first,
                           syn_error *err) {
    syn__pic_text t;
    syn__pic_clear(&t);
    syn__pic_put(&t, "%s", current(&c->lanes[first])->tip);
    for (uint32_t k = first + 1; k < c->n_lanes; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        syn__pic_cost cost;
        if (!members[k]) continue;
        const syn__pic_item *item = current(lane);
        if (syn__pic_cost_of(&lane->plan, item->first, item->last, &cost, err) != SYN_OK)
            return NULL;
        if (cost.busy == SYN_NO_TIME) continue;
        syn__pic_put(&t, "\nmeasured by rank %d: ", c->graph->ranks[lane->rank_index].rank);
        syn__pic_put_measured(&t, &cost);
    }
    const char *tip = syn__arena_copy(&c->drawing->arena, t.s);
    if (tip == NULL) SYN_FAIL_NOMEM(err, t.n + 1, "a tooltip of a picture");
    return tip;
}

static syn_status draw_box(syn__pic_chart *c, const bool members[], syn_error *err) {
    uint32_t first, last;
    const double top = span(c, members, &first, &last);
    syn__pic_lane *a = &c->lanes[first], *b = &c->lanes[last];
    syn__pic_item *item = current(a);
    const double width = last > first ? b->x - a->x + item->w : item->w;
    syn__pic_box box = {.id = box_id(c, first, item, err),
                        .label = item->label,
                        .tip = item->tip,
                        .x = (a->x + b->x) / 2,
                        .y = top + item->h / 2,
                        .w = width,
                        .h = item->h,
                        .look = item->kind == SYN__PIC_RUN_BOX ? SYN__PIC_RUN
                                : item->kind == SYN__PIC_BAR   ? SYN__PIC_COLLECTIVE
                                                               : SYN__PIC_MESSAGE,
                        .cluster = cluster_of(a)};
    if (box.id == NULL) return SYN_FAIL_NOMEM(err, 64, "an id of a picture");
    if (last > first && (box.tip = bar_tip(c, members, first, err)) == NULL)
        return err != NULL ? err->code : SYN_E_NOMEM;
    for (uint32_t k = first; k <= last; k++)
        if (members[k] && cluster_of(&c->lanes[k]) != box.cluster) box.cluster = -1;
    uint32_t index;
    SYN_TRY(syn__pic_add_box(c->drawing, &box, &index, err));
    for (uint32_t k = first; k <= last; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        lane->y = top + item->h + c->row_gap;
        if (!members[k]) continue;
        SYN_TRY(flow_to(c, lane, index, top, item->kind != SYN__PIC_RUN_BOX, err));
        lane->above_y = top + item->h;
        current(lane)->box = index;
    }
    return SYN_OK;
}

static int lane_of(const syn__pic_chart *c, const syn__pic_box *b) {
    int k = 0;
    while (k + 1 < (int)c->n_lanes && c->lanes[k].x < b->x) k++;
    return k;
}

/* Whether a message passes other lanes between boxes that stand side by side in their rows. */
static bool passes_lanes(const syn__pic_chart *c, int from, int to) {
    return !c->passes && abs(to - from) > 1;
}

/* The height of the line of such a message, in the gap above the receive. The ranks of a stage send
   side by side; the line that begins farthest from its end is the lowest one, so that lines do not
   cross. */
static double line_height(const syn__pic_chart *c, int from, int to, const syn__pic_box *recv) {
    const int lanes = abs(to - from);
    const int above = to > from ? lanes - 1 - from % lanes : from % lanes;
    return recv->y - recv->h / 2 - c->row_gap * (lanes - above) / (lanes + 1);
}

/* Draws a message: a red line from the side of box `from`, downwards next to its lane, to the side
   of box `to`. */
static syn_status draw_message(syn__pic_chart *c, uint32_t from, uint32_t to, syn_error *err) {
    const syn__pic_box *a = &c->drawing->boxes[from], *b = &c->drawing->boxes[to];
    const int first = lane_of(c, a), last = lane_of(c, b);
    const double side = b->x > a->x ? 1 : -1;
    const double x = a->x + side * (a->w / 2 + 14), tip = b->x - side * b->w / 2;
    const syn__pic_edge e = {
        .from = from, .to = to, .arrow = true, .tip = {tip, b->y}, .line = SYN__PIC_RED};
    syn__pic_point p[5];
    size_t n = 0;
    p[n++] = (syn__pic_point){x, a->y};
    if (passes_lanes(c, first, last)) {
        const double y = line_height(c, first, last, b);
        p[n++] = (syn__pic_point){x, y};
        p[n++] = (syn__pic_point){tip - side * 14, y};
        p[n++] = (syn__pic_point){tip - side * 14, b->y};
    } else {
        p[n++] = (syn__pic_point){x, b->y};
    }
    p[n++] = (syn__pic_point){tip - side * SYN__PIC_ARROW, b->y};
    SYN_TRY(
        syn__pic_begin_edge(c->drawing, &e, (syn__pic_point){a->x + side * a->w / 2, a->y}, err));
    return syn__pic_corners_to(c->drawing, p, n, err);
}

static syn_status frame_label(syn__pic_chart *c, const syn__pic_lane *lane,
                              const syn__pic_item *item, syn__pic_cluster *k, double lane_w,
                              syn_error *err) {
    const syn__pic_unit *u = &lane->plan.units[item->unit];
    double size = item->level == 0 ? 12 : 10.5;
    char shown[128];
    size_t space = 64;
    syn__pic_text name, t;
    syn__pic_clear(&name);
    if (item->title) syn__pic_put(&name, "%s", item->title);
    else if (item->level == 0 && syn__pic_is_bucket(&lane->plan, item->unit))
        syn__pic_put(&name, "gradients, during backward");
    else if (item->level == 0) syn__pic_step_title(&lane->plan, u->step_index, u->phase, &name);
    else syn__pic_unit_title(&lane->plan, item->unit, &name);
    syn__pic_shorten(name.s, space, shown, sizeof shown);
    /* Fit the label to the left of the arrows: first reduce its font size, then truncate it. */
    if (item->level > 0) {
        const double most = lane_w / 2 - 8;
        while (size > 8 && syn__pic_width(shown, size, true) > most) size -= 0.5;
        while (space > 4 && syn__pic_width(shown, size, true) > most)
            syn__pic_shorten(name.s, --space, shown, sizeof shown);
    }
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\"><b>", size);
    syn__pic_put_html(&t, shown);
    syn__pic_put(&t, "</b></font>");
    k->label = syn__arena_copy(&c->drawing->arena, t.s);
    k->tip = syn__arena_copy(&c->drawing->arena, name.s);
    k->label_w = syn__pic_width(shown, size, true);
    k->label_h = size;
    if (k->label == NULL || k->tip == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label of a picture");
    return SYN_OK;
}

/* Opens one frame for each group of neighbouring lanes among the members. */
static syn_status open_frame(syn__pic_chart *c, const bool members[], double lane_w,
                             syn_error *err) {
    uint32_t first, last;
    const double y = span(c, members, &first, &last);
    const int level = current(&c->lanes[first])->level;
    const double space = level == 0 ? 22 : 11, head = level == 0 ? 28 : 24;
    for (uint32_t k = first, end; k <= last; k = end) {
        for (end = k + 1; end <= last && members[end] == members[k];) end++;
        if (!members[k]) continue;
        syn__pic_lane *a = &c->lanes[k], *b = &c->lanes[end - 1];
        syn__pic_cluster cluster = {.x0 = a->x - lane_w / 2 - space,
                                    .x1 = b->x + lane_w / 2 + space,
                                    .y0 = y,
                                    .y1 = y,
                                    .level = level,
                                    .parent = level > 0 ? a->clusters[0] : -1};
        const syn__pic_item *item = current(a);
        int32_t index;
        SYN_TRY(frame_label(c, a, item, &cluster, lane_w, err));
        SYN_TRY(syn__pic_add_cluster(c->drawing, &cluster, &index, err));
        const syn__pic_unit *u = &a->plan.units[item->unit];
        const uint32_t count = level == 0 ? a->plan.steps[u->step_index].count : u->count;
        if (count > 1)
            SYN_TRY(syn__pic_add_badge(c->drawing, count, level == 0 ? "steps" : "identical",
                                       cluster.x1 - 8, y + 12, index, cluster.tip, err));
        for (uint32_t m = k; m < end; m++) {
            c->lanes[m].clusters[level] = index;
            /* No arrow leads into a phase, because it would cross the phase's title. */
            if (level == 0) c->lanes[m].above = UINT32_MAX;
        }
    }
    for (uint32_t k = first; k <= last; k++)
        if (members[k]) c->lanes[k].y = y + head;
    return SYN_OK;
}

static void close_frame(syn__pic_chart *c, const bool members[]) {
    uint32_t first, last;
    const double y = span(c, members, &first, &last) - c->row_gap + FRAME_PAD;
    for (uint32_t k = first; k <= last; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        if (!members[k]) continue;
        const int level = current(lane)->level;
        if (lane->clusters[level] >= 0) c->drawing->clusters[lane->clusters[level]].y1 = y;
        lane->clusters[level] = -1;
        lane->y = y + c->row_gap;
    }
}

/* With c->passes, a message leaves from the last box of its lane, and is drawn with the next box of
   the receiving lane, which begins below. */
static void do_message(syn__pic_chart *c, syn__pic_lane *lane, syn__pic_item *item,
                       const syn__pic_item *send) {
    const uint32_t most = sizeof lane->arrived / sizeof *lane->arrived;
    if (item->kind == SYN__PIC_SEND) item->box = lane->above;
    if (!send || !send->done || send->box == UINT32_MAX) return;
    const syn__pic_box *b = &c->drawing->boxes[send->box];
    if (lane->y < b->y + b->h / 2 + c->row_gap / 2) lane->y = b->y + b->h / 2 + c->row_gap / 2;
    if (lane->n_arrived < most) lane->arrived[lane->n_arrived++] = send;
}

static syn_status draw_arrived(syn__pic_chart *c, syn__pic_lane *lane, uint32_t box,
                               syn_error *err) {
    for (uint32_t i = 0; i < lane->n_arrived; i++)
        SYN_TRY(draw_message(c, lane->arrived[i]->box, box, err));
    lane->n_arrived = 0;
    return SYN_OK;
}

static syn_status do_item(syn__pic_chart *c, const bool members[], double lane_w, syn_error *err) {
    uint32_t first, last;
    span(c, members, &first, &last);
    const syn__pic_item *item = current(&c->lanes[first]), *send = NULL;
    if (item->kind == SYN__PIC_OPEN) {
        SYN_TRY(open_frame(c, members, lane_w, err));
    } else if (item->kind == SYN__PIC_CLOSE) {
        close_frame(c, members);
    } else if (c->passes && (item->kind == SYN__PIC_SEND || item->kind == SYN__PIC_RECV)) {
        syn__pic_lane *lane = &c->lanes[first];
        if (item->kind == SYN__PIC_RECV) (void)sent(c, item, &send);
        do_message(c, lane, current(lane), send);
    } else {
        if (item->kind == SYN__PIC_RECV && sent(c, item, &send) && send != NULL) {
            const syn__pic_box *b = &c->drawing->boxes[send->box];
            const bool passes = passes_lanes(c, lane_of(c, b), (int)first);
            const double below = b->y + b->h / 2 + (passes ? c->row_gap : 0);
            if (c->lanes[first].y < below) c->lanes[first].y = below;
        }
        c->n_in_flight += item->kind == SYN__PIC_SEND;
        c->n_in_flight -= item->kind == SYN__PIC_RECV && send != NULL;
        SYN_TRY(draw_box(c, members, err));
        for (uint32_t k = first; k <= last; k++)
            if (members[k]) SYN_TRY(draw_arrived(c, &c->lanes[k], current(&c->lanes[k])->box, err));
        if (send != NULL && send->done) SYN_TRY(draw_message(c, send->box, item->box, err));
    }
    for (uint32_t k = 0; k < c->n_lanes; k++)
        if (members[k]) {
            current(&c->lanes[k])->done = true;
            c->lanes[k].next++;
        }
    return SYN_OK;
}

/* ---- panels of a page ---- */

/* Draws the names of the lanes above a column of panels. They need the height that head_height
   returns. */
static syn_status lane_heads(syn__pic_chart *c, double x, double y, double lane_w, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_text name, others;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        const syn__pic_lane *lane = &c->lanes[k];
        char text[96];
        const double left = x + lane->x - lane_w / 2;
        syn__pic_lane_name(c, k, &name, &others);
        SYN_TRY(syn__pic_add_text(d, name.s, left, y, 12, true, NULL, err));
        if (lane->n_ranks > 1)
            SYN_TRY(syn__pic_add_badge(d, lane->n_ranks, "identical", left + lane_w, y + 8, -1,
                                       "identical ranks", err));
        lane_summary(lane, text, sizeof text);
        SYN_TRY(syn__pic_add_text(d, text, left, y + 18, 8.5, false, NULL, err));
        if (others.n > 0)
            SYN_TRY(syn__pic_add_text(d, others.s, left, y + 31, 8.5, false, NULL, err));
    }
    return SYN_OK;
}

static double head_height(const syn__pic_chart *c) {
    syn__pic_text name, others;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        syn__pic_lane_name(c, k, &name, &others);
        if (others.n > 0) return HEAD_H + 13;
    }
    return HEAD_H;
}

static double bottom(const syn__pic_chart *c) {
    double y = 0;
    for (uint32_t k = 0; k < c->n_lanes; k++) y = fmax(y, c->lanes[k].y);
    return y;
}

static void end_panel(syn__pic_chart *c) {
    if (c->n_panels == 0) return;
    syn__pic_panel *b = &c->panels[c->n_panels - 1];
    b->height = bottom(c) - b->top;
}

static syn_status begin_panel(syn__pic_chart *c, double lane_w, syn_error *err) {
    const double y = bottom(c);
    end_panel(c);
    SYN_TRY(syn_grow(&c->panels, &c->panels_cap, c->n_panels + 1, sizeof *c->panels, err));
    c->panels[c->n_panels++] =
        (syn__pic_panel){.mark = syn__pic_mark_of(c->drawing),
                         .width = 2 * SIDE_W + c->n_lanes * lane_w +
                                  (c->n_lanes > 0 ? c->n_lanes - 1 : 0) * c->lane_gap,
                         .top = y};
    for (uint32_t k = 0; k < c->n_lanes; k++) c->lanes[k].y = y, c->lanes[k].above = UINT32_MAX;
    return SYN_OK;
}

/* Breaks the frame that contains all lanes, and continues it in another panel. */
static syn_status continue_frame(syn__pic_chart *c, double lane_w, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    const int32_t open = c->lanes[0].clusters[0];
    syn__pic_cluster next = d->clusters[open];
    bool cut[SYN__PIC_COLUMNS];
    int32_t index;
    for (uint32_t k = 0; k < c->n_lanes; k++) cut[k] = c->lanes[k].above != UINT32_MAX;
    SYN_TRY(syn__pic_cut_out(c, open, cut, err));
    d->clusters[open].y1 = bottom(c) - c->row_gap + FRAME_PAD;
    for (uint32_t k = 0; k < c->n_lanes; k++) c->lanes[k].y = d->clusters[open].y1 + c->row_gap;
    SYN_TRY(begin_panel(c, lane_w, err));
    next.y0 = next.y1 = bottom(c);
    SYN_TRY(syn__pic_add_cluster(d, &next, &index, err));
    const syn__pic_plan *p = &c->lanes[0].plan;
    const uint32_t count = p->steps[p->units[current(&c->lanes[0])->unit].step_index].count;
    if (count > 1)
        SYN_TRY(
            syn__pic_add_badge(d, count, "steps", next.x1 - 8, next.y0 + 12, index, next.tip, err));
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        c->lanes[k].clusters[0] = index;
        c->lanes[k].y = next.y0 + 28;
    }
    return syn__pic_cut_in(c, index, cut, err);
}

/* On a page, starts a new panel for a phase that all ranks begin together. If the open frame is
   higher than c->most, breaks it before an item that all ranks share. */
static syn_status break_before(syn__pic_chart *c, const bool members[], double lane_w,
                               syn_error *err) {
    const syn__pic_item *item = current(&c->lanes[0]);
    bool in_frame = true;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        if (!members[k]) return SYN_OK;
        in_frame = in_frame && c->lanes[k].clusters[0] >= 0 && c->lanes[k].clusters[1] < 0 &&
                   c->lanes[k].clusters[0] == c->lanes[0].clusters[0];
    }
    if (c->drawing->page == SYN_PAGE_NONE || c->n_in_flight > 0) return SYN_OK;
    const syn__pic_panel *b = &c->panels[c->n_panels - 1];
    if (item->kind == SYN__PIC_OPEN && item->level == 0 && c->lanes[0].y > b->top)
        return begin_panel(c, lane_w, err);
    if (in_frame && item->kind == SYN__PIC_OPEN && bottom(c) - b->top > c->most)
        return continue_frame(c, lane_w, err);
    return SYN_OK;
}

/* ---- the whole chart ---- */

syn_status syn__pic_chart_draw(syn__pic_chart *c, syn_error *err) {
    bool members[SYN__PIC_COLUMNS];
    for (uint32_t k = 0; k < c->n_lanes; k++) c->lanes[k].next = 0;
    const double lane_w = lane_width(c);
    c->n_panels = c->n_cuts = 0;
    c->n_in_flight = 0;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        lane->x = SIDE_W + lane_w / 2 + k * (lane_w + c->lane_gap);
        lane->y = 0;
        lane->clusters[0] = lane->clusters[1] = -1;
        lane->n_arrived = 0;
        for (size_t i = 0; i < lane->n_items; i++)
            if (lane->items[i].kind == SYN__PIC_RUN_BOX || lane->items[i].kind == SYN__PIC_BAR)
                lane->items[i].w = lane_w;
    }
    SYN_TRY(begin_panel(c, lane_w, err));
    for (bool any = true; any;) {
        bool moved = false;
        any = false;
        for (uint32_t k = 0; k < c->n_lanes; k++)
            while (current(&c->lanes[k]) != NULL && (any = true) && ready(c, k, members)) {
                SYN_TRY(break_before(c, members, lane_w, err));
                SYN_TRY(do_item(c, members, lane_w, err));
                moved = true;
            }
        /* If no lane can continue, ranks wait for each other in a cycle: the traced program would
           hang. One lane continues without the others, so that everything is drawn. */
        for (uint32_t k = 0; k < c->n_lanes && any && !moved; k++) {
            if (current(&c->lanes[k]) == NULL) continue;
            for (uint32_t m = 0; m < SYN__PIC_COLUMNS; m++) members[m] = m == k;
            SYN_TRY(do_item(c, members, lane_w, err));
            moved = true;
        }
    }
    end_panel(c);
    SYN_TRY(syn__pic_number_cuts(c, err));
    const double head = head_height(c);
    syn__pic_place_panels(c->drawing, c->panels, c->n_panels, head);
    for (size_t i = 0; i < c->n_panels; i++)
        if (c->panels[i].first)
            SYN_TRY(lane_heads(c, c->panels[i].x, c->panels[i].y - head, lane_w, err));
    return SYN_OK;
}
