/* The communication view: a column a rank, time downwards; a collective is one red bar over the
   columns of its ranks, a message a red line between two columns. Placing works as the ranks run:
   each goes through its items, and waits at what it shares with others until they are there. */
#include "export/picture/picture_comm.h"
#include "export/picture/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

#define DOT       " \xC2\xB7 "
#define TO        "\xE2\x80\xA6"
#define LANE_GAP  44.0
#define ROW_GAP   20.0
#define HEAD_H    36.0
#define FRAME_PAD 12.0

/* ---- Waiting for each other ---- */

static syn__pic_item *current(syn__pic_lane *lane) {
    return lane->next < lane->n_items ? &lane->items[lane->next] : NULL;
}

static bool shared(const syn__pic_item *item) {
    return item->kind == SYN__PIC_OPEN || item->kind == SYN__PIC_CLOSE ||
           item->kind == SYN__PIC_BAR;
}

/* The item of `lane` with this key and kind that is still to come, or NULL. */
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
    return true; /* its sender is not drawn */
}

/* Which lanes take part in item, and whether all of them are there. */
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

/* ---- Drawing items ---- */

/* "3.2 GFLOP, 46.9 KiB into communication" under a column's name. */
static void lane_facts(const syn__pic_lane *lane, char *text, size_t bytes) {
    char flops[SYN__PIC_NUMBER], comms[SYN__PIC_NUMBER];
    snprintf(text, bytes, "%s" DOT "%s into communication",
             syn__pic_flops(lane->plan.totals.flops, flops),
             syn__pic_bytes(lane->plan.totals.comm_bytes, comms));
}

static double lane_width(const syn__pic_chart *c) {
    double w = 190;
    char text[96];
    syn__pic_text name, others;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        lane_facts(&c->lanes[k], text, sizeof text);
        if (syn__pic_width(text, 8.5, false) > w) w = syn__pic_width(text, 8.5, false);
        syn__pic_lane_name(c, k, &name, &others);
        const double badge = c->lanes[k].n_ranks > 1 ? 104 : 0;
        w = fmax(w, syn__pic_width(name.s, 12, true) + 8 + badge);
        for (size_t i = 0; i < c->lanes[k].n_items; i++)
            if (c->lanes[k].items[i].w > w) w = c->lanes[k].items[i].w;
    }
    return w;
}

/* First and last of the members, and the lowest point in between. */
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

static syn_status flow_to(syn__pic_chart *c, syn__pic_lane *lane, uint32_t box, double top,
                          bool red, syn_error *err) {
    if (lane->above != UINT32_MAX) {
        const syn__pic_edge e = {.from = lane->above,
                                 .to = box,
                                 .arrow = true,
                                 .tip = {lane->x, top},
                                 .line = red || lane->above_red ? SYN__PIC_RED : SYN__PIC_DATA};
        SYN_TRY(syn__pic_begin_edge(c->drawing, &e, (syn__pic_point){lane->x, lane->above_y}, err));
        SYN_TRY(syn__pic_line_to(c->drawing, (syn__pic_point){lane->x, top - SYN__PIC_ARROW}, err));
    }
    lane->above = box;
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

/* The tooltip of a bar: the first rank's, and what each other one measured. */
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
    if (tip == NULL) SYN_FAIL_NOMEM(err, t.n + 1, "a tooltip");
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
    if (box.id == NULL) return SYN_FAIL_NOMEM(err, 64, "an id");
    if (last > first && (box.tip = bar_tip(c, members, first, err)) == NULL)
        return err != NULL ? err->code : SYN_E_NOMEM;
    for (uint32_t k = first; k <= last; k++)
        if (members[k] && cluster_of(&c->lanes[k]) != box.cluster) box.cluster = -1;
    uint32_t index;
    SYN_TRY(syn__pic_add_box(c->drawing, &box, &index, err));
    for (uint32_t k = first; k <= last; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        lane->y = top + item->h + ROW_GAP;
        if (!members[k]) continue;
        SYN_TRY(flow_to(c, lane, index, top, item->kind != SYN__PIC_RUN_BOX, err));
        lane->above_y = top + item->h;
        current(lane)->box = index;
    }
    return SYN_OK;
}

/* A red line from the side of a send down beside its column to the side of the receive. */
static syn_status draw_message(syn__pic_chart *c, const syn__pic_item *send,
                               const syn__pic_item *recv, syn_error *err) {
    const syn__pic_box *a = &c->drawing->boxes[send->box], *b = &c->drawing->boxes[recv->box];
    const double side = b->x > a->x ? 1 : -1;
    const double x = a->x + side * (a->w / 2 + 14), tip = b->x - side * b->w / 2;
    const syn__pic_edge e = {.from = send->box,
                             .to = recv->box,
                             .arrow = true,
                             .tip = {tip, b->y},
                             .line = SYN__PIC_RED};
    const syn__pic_point p[] = {{x, a->y}, {x, b->y}, {tip - side * SYN__PIC_ARROW, b->y}};
    SYN_TRY(
        syn__pic_begin_edge(c->drawing, &e, (syn__pic_point){a->x + side * a->w / 2, a->y}, err));
    return syn__pic_corners_to(c->drawing, p, 3, err);
}

static syn_status frame_label(syn__pic_chart *c, const syn__pic_lane *lane,
                              const syn__pic_item *item, syn__pic_cluster *k, double lane_w,
                              syn_error *err) {
    const syn__pic_unit *u = &lane->plan.units[item->unit];
    double size = item->level == 0 ? 12 : 10.5;
    char shown[128];
    size_t room = 64;
    syn__pic_text name, t;
    syn__pic_clear(&name);
    if (item->level == 0) syn__pic_step_title(&lane->plan, u->step_index, u->phase, &name);
    else syn__pic_unit_title(&lane->plan, item->unit, &name);
    syn__pic_shorten(name.s, room, shown, sizeof shown);
    if (item->level > 0) { /* left of the arrows: in smaller letters, then cut */
        const double most = lane_w / 2 - 8;
        while (size > 8 && syn__pic_width(shown, size, true) > most) size -= 0.5;
        while (room > 4 && syn__pic_width(shown, size, true) > most)
            syn__pic_shorten(name.s, --room, shown, sizeof shown);
    }
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\"><b>", size);
    syn__pic_put_html(&t, shown);
    syn__pic_put(&t, "</b></font>");
    k->label = syn__arena_copy(&c->drawing->arena, t.s);
    k->tip = syn__arena_copy(&c->drawing->arena, name.s);
    k->label_w = syn__pic_width(shown, size, true);
    k->label_h = size;
    if (k->label == NULL || k->tip == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label");
    return SYN_OK;
}

/* Opens one frame for each stretch of neighbouring members. */
static syn_status open_frame(syn__pic_chart *c, const bool members[], double lane_w,
                             syn_error *err) {
    uint32_t first, last;
    const double y = span(c, members, &first, &last);
    const int level = current(&c->lanes[first])->level;
    const double room = level == 0 ? 22 : 11, head = level == 0 ? 28 : 24;
    for (uint32_t k = first, end; k <= last; k = end) {
        for (end = k + 1; end <= last && members[end] == members[k];) end++;
        if (!members[k]) continue;
        syn__pic_lane *a = &c->lanes[k], *b = &c->lanes[end - 1];
        syn__pic_cluster cluster = {.x0 = a->x - lane_w / 2 - room,
                                    .x1 = b->x + lane_w / 2 + room,
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
            if (level == 0) c->lanes[m].above = UINT32_MAX; /* no arrow through a phase's title */
        }
    }
    for (uint32_t k = first; k <= last; k++)
        if (members[k]) c->lanes[k].y = y + head;
    return SYN_OK;
}

static void close_frame(syn__pic_chart *c, const bool members[]) {
    uint32_t first, last;
    const double y = span(c, members, &first, &last) - ROW_GAP + FRAME_PAD;
    for (uint32_t k = first; k <= last; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        if (!members[k]) continue;
        const int level = current(lane)->level;
        if (lane->clusters[level] >= 0) c->drawing->clusters[lane->clusters[level]].y1 = y;
        lane->clusters[level] = -1;
        lane->y = y + ROW_GAP;
    }
}

static syn_status do_item(syn__pic_chart *c, const bool members[], double lane_w, syn_error *err) {
    uint32_t first, last;
    span(c, members, &first, &last);
    const syn__pic_item *item = current(&c->lanes[first]), *send = NULL;
    if (item->kind == SYN__PIC_OPEN) {
        SYN_TRY(open_frame(c, members, lane_w, err));
    } else if (item->kind == SYN__PIC_CLOSE) {
        close_frame(c, members);
    } else {
        if (item->kind == SYN__PIC_RECV && sent(c, item, &send) && send != NULL) {
            const syn__pic_box *b = &c->drawing->boxes[send->box];
            if (c->lanes[first].y < b->y + b->h / 2) c->lanes[first].y = b->y + b->h / 2;
        }
        SYN_TRY(draw_box(c, members, err));
        if (send != NULL && send->done) SYN_TRY(draw_message(c, send, item, err));
    }
    for (uint32_t k = 0; k < c->n_lanes; k++)
        if (members[k]) {
            current(&c->lanes[k])->done = true;
            c->lanes[k].next++;
        }
    return SYN_OK;
}

/* ---- The whole chart ---- */

static syn_status lane_heads(syn__pic_chart *c, double lane_w, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_text name, others;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        char text[96];
        double w;
        const double left = lane->x - lane_w / 2;
        syn__pic_lane_name(c, k, &name, &others);
        SYN_TRY(syn__pic_add_text(d, name.s, left, 0, 12, true, &w, err));
        if (lane->n_ranks > 1)
            SYN_TRY(syn__pic_add_badge(d, lane->n_ranks, "identical", left + lane_w, 8, -1,
                                       "ranks that do the same", err));
        lane_facts(lane, text, sizeof text);
        SYN_TRY(syn__pic_add_text(d, text, left, 18, 8.5, false, NULL, err));
        if (others.n > 0) SYN_TRY(syn__pic_add_text(d, others.s, left, 31, 8.5, false, NULL, err));
        lane->y = others.n > 0 ? HEAD_H + 13 : HEAD_H;
        lane->next = 0;
        lane->above = UINT32_MAX;
        lane->clusters[0] = lane->clusters[1] = -1;
    }
    return SYN_OK;
}

/* Places and draws the items, without heading. */
static syn_status draw_items(syn__pic_chart *c, syn_error *err) {
    const double lane_w = lane_width(c);
    bool members[SYN__PIC_COLUMNS];
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        c->lanes[k].x = 24 + lane_w / 2 + k * (lane_w + LANE_GAP);
        for (size_t i = 0; i < c->lanes[k].n_items; i++)
            if (c->lanes[k].items[i].kind == SYN__PIC_RUN_BOX ||
                c->lanes[k].items[i].kind == SYN__PIC_BAR)
                c->lanes[k].items[i].w = lane_w;
    }
    SYN_TRY(lane_heads(c, lane_w, err));
    for (bool any = true; any;) {
        bool moved = false;
        any = false;
        for (uint32_t k = 0; k < c->n_lanes; k++)
            while (current(&c->lanes[k]) != NULL && (any = true) && ready(c, k, members)) {
                SYN_TRY(do_item(c, members, lane_w, err));
                moved = true;
            }
        /* Ranks that wait for each other in a circle: a trace that would hang. Let one
           go on alone. */
        for (uint32_t k = 0; k < c->n_lanes && any && !moved; k++) {
            if (current(&c->lanes[k]) == NULL) continue;
            for (uint32_t m = 0; m < SYN__PIC_COLUMNS; m++) members[m] = m == k;
            SYN_TRY(do_item(c, members, lane_w, err));
            moved = true;
        }
    }
    c->drawing->width = 48 + c->n_lanes * lane_w + (c->n_lanes > 0 ? c->n_lanes - 1 : 0) * LANE_GAP;
    for (uint32_t k = 0; k < c->n_lanes; k++)
        if (c->lanes[k].y > c->drawing->height) c->drawing->height = c->lanes[k].y;
    return SYN_OK;
}

/* ---- Heading ---- */

/* "all_reduce 80 x, 1.2 MiB" for every kind that rank 0's lane has. */
static syn_status put_kinds(syn__pic_chart *c, syn__pic_text *t, syn_error *err) {
    uint64_t count[SYN_COMM_KIND_COUNT] = {0}, bytes[SYN_COMM_KIND_COUNT] = {0};
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER];
    syn__pic_lane *lane = &c->lanes[0];
    for (uint32_t i = 0; i < lane->plan.n_nodes; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
        if (!syn__walk_is_comm(n) || (unsigned)n->comm >= SYN_COMM_KIND_COUNT) continue;
        count[n->comm]++;
        bytes[n->comm] += n->comm_bytes;
    }
    syn__pic_put(t, "rank %d: ", c->graph->ranks[lane->rank_index].rank);
    bool any = false;
    for (int k = 0; k < SYN_COMM_KIND_COUNT; k++) {
        if (count[k] == 0) continue;
        syn__pic_put(t, "%s%s \xC3\x97 %s, %s", any ? DOT : "", syn__pic_count(count[k], a),
                     syn_comm_kind_name((syn_comm_kind)k), syn__pic_bytes(bytes[k], b));
        any = true;
    }
    if (!any) syn__pic_put(t, "no communication");
    return SYN_OK;
}

static syn_status heading(syn__pic_chart *c, const syn_export_options *options,
                          syn__pic_detail detail, int fold, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_heading h = {0};
    syn__pic_text title, kinds, notes;
    uint32_t folded = 0;
    syn__pic_clear(&title);
    if (options->title != NULL) syn__pic_put_clean(&title, options->title);
    else if (c->graph->n_ranks < (uint32_t)c->graph->world_size && c->graph->n_ranks > 0)
        syn__pic_put(&title, "Communication of %u of %d ranks", c->graph->n_ranks,
                     c->graph->world_size);
    else
        syn__pic_put(&title, "Communication between %d rank%s", c->graph->world_size,
                     c->graph->world_size == 1 ? "" : "s");
    SYN_TRY(syn__pic_facts(&d->arena, c->graph, &h.lines[0], err));
    syn__pic_clear(&kinds);
    SYN_TRY(put_kinds(c, &kinds, err));
    syn__pic_clear(&notes);
    for (uint32_t k = 0; k < c->n_lanes; k++)
        folded +=
            c->lanes[k].plan.folded_units + c->lanes[k].plan.folded_steps + c->lanes[k].n_ranks - 1;
    if (options->no_fold && fold != SYN__PIC_FOLD_NONE)
        syn__pic_put(&notes, "Unfolded, this would be too large to read, so repeats are folded.  ");
    if (folded > 0) syn__pic_put(&notes, "What repeats is drawn once and marked \xC3\x97N.  ");
    if (c->hidden > 0) syn__pic_put(&notes, "%u ranks of other kinds are not drawn.  ", c->hidden);
    if (detail != SYN__PIC_FULL)
        syn__pic_put(&notes, "To stay readable, %s is drawn as one box.",
                     detail == SYN__PIC_LAYERS ? "every layer" : "every rank");
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, kinds.s);
    h.lines[2] = syn__arena_copy(&d->arena, notes.s);
    if (h.title == NULL || h.lines[1] == NULL || h.lines[2] == NULL)
        return SYN_FAIL_NOMEM(err, title.n + kinds.n + notes.n, "a title");
    return syn__pic_add_heading(d, &h, err);
}

static syn_status attempt(syn__pic_drawing *d, const syn_graph *graph,
                          const syn_export_options *options, syn__pic_detail detail, int fold,
                          double max_side, bool *fits, syn_error *err) {
    syn__pic_chart chart = {0};
    syn_status s = syn__pic_chart_make(&chart, d, graph, options->known_copies, fold, err);
    if (s == SYN_OK) s = syn__pic_chart_items(&chart, detail, err);
    *fits = !chart.too_many;
    if (s == SYN_OK && *fits) s = draw_items(&chart, err);
    if (s == SYN_OK && *fits) s = heading(&chart, options, detail, fold, err);
    if (d->width > max_side || d->height > max_side) *fits = false;
    syn__pic_chart_free(&chart);
    return s;
}

syn_status syn__pic_comm_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, double max_side, syn_error *err) {
    static const struct {
        int fold;
        syn__pic_detail detail;
    } tries[] = {{SYN__PIC_FOLD_NONE, SYN__PIC_FULL},   {SYN__PIC_FOLD_NONE, SYN__PIC_LAYERS},
                 {SYN__PIC_FOLD_LAYERS, SYN__PIC_FULL}, {SYN__PIC_FOLD_ALL, SYN__PIC_FULL},
                 {SYN__PIC_FOLD_ALL, SYN__PIC_LAYERS},  {SYN__PIC_FOLD_NONE, SYN__PIC_CHUNKS}};
    if (graph->n_ranks == 0) return SYN_FAIL(err, SYN_E_INVALID, "the graph to draw has no ranks");
    bool fits = false;
    for (size_t i = options->no_fold ? 0 : 2; i < sizeof tries / sizeof *tries && !fits; i++) {
        syn__pic_drawing_free(d);
        SYN_TRY(attempt(d, graph, options, tries[i].detail, tries[i].fold, max_side, &fits, err));
    }
    return SYN_OK;
}
