/* Computes the items of the lanes of the communication view: frames for phases and layers, boxes
   for runs of ops between communications, and the communications themselves. */
#include "export/picture/picture_comm.h"

#include <string.h>

#include "syntorch/base/memory.h"

#define MAX_BARS 3 /* maximum bars for buckets of gradients; more are combined by kind */

syn_status syn__pic_chart_make(syn__pic_chart *c, syn__pic_drawing *d, const syn_graph *graph,
                               const syn_copied_ranks *copies, int fold, uint32_t columns,
                               syn_error *err) {
    *c = (syn__pic_chart){.graph = graph, .drawing = d, .columns = columns, .name_lines = 3};
    SYN_TRY(syn__pic_choose_lanes(c, copies, err));
    for (uint32_t i = 0; i < c->n_lanes; i++) {
        SYN_TRY(
            fold == SYN__PIC_FOLD_NONE
                ? syn__pic_plan_make(&c->lanes[i].plan, graph, c->lanes[i].rank_index, fold, err)
                : syn__pic_plan_passes(&c->lanes[i].plan, graph, c->lanes[i].rank_index, fold,
                                       err));
        c->lanes[i].plan.spans_ranks = c->n_lanes > 1;
        c->lanes[i].plan.n_similar = c->n_similar;
    }
    return SYN_OK;
}

void syn__pic_chart_free(syn__pic_chart *c) {
    for (uint32_t i = 0; i < c->n_lanes; i++) {
        syn__pic_plan_free(&c->lanes[i].plan);
        syn_free(c->lanes[i].items);
    }
    syn_free(c->panels);
    syn_free(c->cuts);
    syn_free(c->lane_of);
    syn_free(c->n_similar);
    *c = (syn__pic_chart){0};
}

/* ---- Items ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static uint64_t mix_text(uint64_t h, const char *text) {
    for (; *text != '\0'; text++) h = mix(h, (unsigned char)*text);
    return mix(h, 0);
}

/* Adds an item. Its key includes the number of items with the same `key` before it in the lane, so
   that keys are unique. */
static syn_status add_item(syn__pic_chart *c, syn__pic_lane *lane, syn__pic_item item, uint64_t key,
                           syn_error *err) {
    uint64_t before = 0;
    for (size_t i = 0; i < lane->n_items; i++) {
        const syn__pic_item *other = &lane->items[i];
        before += other->kind == item.kind && other->level == item.level &&
                  mix(key, before) == other->key;
    }
    item.key = mix(key, before);
    SYN_TRY(syn_grow(&lane->items, &lane->items_cap, lane->n_items + 1, sizeof *lane->items, err));
    lane->items[lane->n_items++] = item;
    if (item.kind != SYN__PIC_OPEN && item.kind != SYN__PIC_CLOSE) c->n_boxes++;
    if (c->n_boxes > SYN__PIC_MAX_BOXES) c->too_many = true;
    return SYN_OK;
}

static uint64_t unit_key(const syn__pic_lane *lane, uint32_t unit, int level) {
    const syn__pic_unit *u = &lane->plan.units[unit];
    const syn__pic_step *s = &lane->plan.steps[u->step_index];
    uint64_t h = mix(mix(mix(7, (uint64_t)level), s->number), (uint64_t)u->phase);
    h = mix(h, u->section);
    if (level == 0) return mix(h, s->count);
    return mix(mix_text(h, u->layer), u->count);
}

static syn_status frame(syn__pic_chart *c, syn__pic_lane *lane, syn__pic_item_kind kind_, int level,
                        uint32_t unit, syn_error *err) {
    const syn__pic_item item = {.kind = kind_, .unit = unit, .level = level};
    return add_item(c, lane, item, mix(unit_key(lane, unit, level), (uint64_t)kind_), err);
}

/* Adds a box for the ops [first, last], which do not communicate. If `name` is NULL, the box is
   named after the parts of the model to which the ops belong. */
static syn_status add_run(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, uint32_t first,
                          uint32_t last, const char *name, syn_error *err) {
    syn__pic_text scopes;
    syn__pic_clear(&scopes);
    if (name == NULL) SYN_TRY(syn__pic_put_scopes(&lane->plan, first, last, &scopes, err));
    syn__pic_item item = {.kind = SYN__PIC_RUN_BOX, .unit = unit, .first = first, .last = last};
    SYN_TRY(syn__pic_label_run(&lane->plan, &c->drawing->arena, first, last,
                               name != NULL ? name : scopes.s, c->name_lines, &item.label,
                               &item.tip, &item.w, &item.h, err));
    return add_item(c, lane, item, first, err);
}

static syn_status add_comm(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, uint32_t node,
                           syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(&lane->plan, node, &lane->plan.cursor, &n, err));
    const int32_t rank = c->graph->ranks[lane->rank_index].rank;
    syn__pic_item item = {.kind = SYN__PIC_BAR, .unit = unit, .first = node, .last = node};
    uint64_t key = mix(mix(11, n->group), n->comm_index);
    if (n->kind != SYN_NODE_COLLECTIVE) {
        const bool send = n->kind == SYN_NODE_SEND;
        item.kind = send ? SYN__PIC_SEND : SYN__PIC_RECV;
        key = mix(mix(13, (uint64_t)(uint32_t)(send ? rank : n->peer)),
                  (uint64_t)(uint32_t)(send ? n->peer : rank));
        key = mix(key, (uint64_t)(uint32_t)n->tag);
    }
    SYN_TRY(syn__pic_label_node(&lane->plan, &c->drawing->arena, node, syn__pic_look_of(n), false,
                                &item.label, &item.tip, &item.w, &item.h, err));
    return add_item(c, lane, item, key, err);
}

/* Adds one bar for all collectives in [first, last] of the same kind as the one at `first`. */
static syn_status add_bars(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, uint32_t first,
                           uint32_t last, syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(&lane->plan, first, &lane->plan.cursor, &n, err));
    syn__pic_item item = {.kind = SYN__PIC_BAR, .unit = unit, .first = first, .last = first};
    const uint64_t key = mix(mix(17, n->group), n->comm_index);
    SYN_TRY(syn__pic_label_bars(&lane->plan, &c->drawing->arena, first, last, &item.label,
                                &item.tip, &item.w, &item.h, err));
    return add_item(c, lane, item, key, err);
}

/* Adds one bar per kind of collective in a unit (consecutive nodes of one step, phase and layer;
   picture_fold.h). It is used for layers that are drawn as one box, and for many buckets of
   gradients. */
static syn_status sum_items(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, syn_error *err) {
    const syn__pic_unit u = lane->plan.units[unit];
    for (uint32_t i = u.begin; i < u.end && !c->too_many; i++) {
        const syn_node *n, *other;
        uint32_t before = 0, after = 0; /* collectives of the same kind before and after node i */
        SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
        if (n->kind != SYN_NODE_COLLECTIVE) continue;
        for (uint32_t k = u.begin; k < u.end; k++) {
            SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
            SYN_TRY(syn__pic_node(&lane->plan, k, &lane->plan.other, &other, err));
            before += k < i && syn__pic_same_comm(n, other);
            after += k > i && syn__pic_same_comm(n, other);
        }
        if (before > 0) continue;
        SYN_TRY(after > 0 ? add_bars(c, lane, unit, i, u.end - 1, err)
                          : add_comm(c, lane, unit, i, err));
    }
    return SYN_OK;
}

/* Adds the runs and communications of one unit. */
static syn_status unit_items(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit,
                             syn_error *err) {
    const syn__pic_unit u = lane->plan.units[unit];
    uint32_t first = UINT32_MAX, last = 0;
    syn__pic_waits box = {0};
    for (uint32_t i = u.begin; i <= u.end && !c->too_many; i++) {
        const syn_node *n = NULL;
        if (i < u.end) {
            SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
            if (n->kind == SYN_NODE_METADATA || (n->flags & SYN_NODE_VIRTUAL) != 0) continue;
            if (!syn__walk_is_comm(n)) {
                if (first != UINT32_MAX && !syn__pic_may_join(&lane->plan, &box, i)) {
                    SYN_TRY(add_run(c, lane, unit, first, last, NULL, err));
                    first = UINT32_MAX;
                }
                if (first == UINT32_MAX) first = i, box = lane->plan.waits[i];
                last = i;
                continue;
            }
        }
        if (first != UINT32_MAX) SYN_TRY(add_run(c, lane, unit, first, last, NULL, err));
        first = UINT32_MAX;
        if (n != NULL) SYN_TRY(add_comm(c, lane, unit, i, err));
    }
    return SYN_OK;
}

static bool has_work(const syn__pic_unit *u) {
    return u->end > u->begin;
}

static syn_status lane_items(syn__pic_chart *c, syn__pic_lane *lane, syn__pic_detail detail,
                             syn_error *err) {
    syn__pic_plan *p = &lane->plan;
    uint32_t open = UINT32_MAX;
    for (uint32_t u = 0; u < p->n_units && !c->too_many; u++) {
        if (!syn__pic_unit_drawn(p, u) || !has_work(&p->units[u])) continue;
        const bool fresh = open == UINT32_MAX ||
                           p->units[open].step_index != p->units[u].step_index ||
                           p->units[open].section != p->units[u].section ||
                           p->units[open].phase != p->units[u].phase;
        if (fresh && open != UINT32_MAX) SYN_TRY(frame(c, lane, SYN__PIC_CLOSE, 0, open, err));
        if (fresh) {
            SYN_TRY(frame(c, lane, SYN__PIC_OPEN, 0, u, err));
            open = u;
        }
        const bool layer = p->units[u].layer[0] != '\0';
        if (detail == SYN__PIC_FULL) {
            if (layer) SYN_TRY(frame(c, lane, SYN__PIC_OPEN, 1, u, err));
            const bool many =
                syn__pic_is_bucket(p, u) && p->units[u].end - p->units[u].begin > MAX_BARS;
            SYN_TRY(many ? sum_items(c, lane, u, err) : unit_items(c, lane, u, err));
            if (layer) SYN_TRY(frame(c, lane, SYN__PIC_CLOSE, 1, u, err));
        } else if (detail == SYN__PIC_LAYERS) {
            syn__pic_text title;
            syn__pic_clear(&title);
            syn__pic_unit_title(p, u, &title);
            if (!syn__pic_is_bucket(p, u))
                SYN_TRY(add_run(c, lane, u, p->units[u].begin, p->units[u].end - 1,
                                layer ? title.s : NULL, err));
            SYN_TRY(sum_items(c, lane, u, err));
        }
    }
    if (open != UINT32_MAX) SYN_TRY(frame(c, lane, SYN__PIC_CLOSE, 0, open, err));
    return SYN_OK;
}

/* Adds one box for the whole rank. It is used if nothing else fits. */
static syn_status whole_rank(syn__pic_chart *c, syn__pic_lane *lane, syn_error *err) {
    if (lane->plan.n_nodes == 0) return SYN_OK;
    return add_run(c, lane, 0, 0, lane->plan.n_nodes - 1, "everything", err);
}

syn_status syn__pic_chart_items(syn__pic_chart *c, syn__pic_detail detail, syn_error *err) {
    c->n_boxes = 0;
    c->too_many = false;
    for (uint32_t i = 0; i < c->n_lanes && !c->too_many; i++) {
        syn__pic_lane *lane = &c->lanes[i];
        lane->n_items = 0;
        lane->plan.bars = detail != SYN__PIC_CHUNKS;
        lane->plan.frames = detail == SYN__PIC_FULL;
        if (detail == SYN__PIC_FULL) SYN_TRY(syn__pic_plan_waits(&lane->plan, err));
        if (detail == SYN__PIC_CHUNKS) SYN_TRY(whole_rank(c, lane, err));
        else SYN_TRY(lane_items(c, lane, detail, err));
    }
    return SYN_OK;
}
