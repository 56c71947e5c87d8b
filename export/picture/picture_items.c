/* Computes the items of the lanes of the communication view: frames for phases and layers, boxes
   for runs of ops between communications, and the communications themselves. */
#include "export/picture/picture_comm.h"

#include <stdio.h>
#include <string.h>

#include "export/walk/passes.h"
#include "syntorch/base/memory.h"

#define MAX_BARS 3 /* maximum bars for buckets of gradients; more are combined by kind */

static syn_status read_lane(syn__pic_chart *c, syn__pic_lane *lane, int fold, syn_error *err) {
    const uint32_t rank = lane->rank_index;
    if (c->passes) {
        SYN_TRY(syn__passes_find(&lane->passes, &lane->n_passes, c->graph, rank, err));
        return syn__pic_plan_stage(&lane->plan, c->graph, rank, lane->passes, lane->n_passes, err);
    }
    if (fold == SYN__PIC_FOLD_NONE)
        return syn__pic_plan_make(&lane->plan, c->graph, rank, fold, err);
    return syn__pic_plan_passes(&lane->plan, c->graph, rank, fold, err);
}

syn_status syn__pic_chart_make(syn__pic_chart *c, syn__pic_drawing *d, const syn_graph *graph,
                               const syn_copied_ranks *copies, int fold, uint32_t columns,
                               bool passes, syn_error *err) {
    *c = (syn__pic_chart){
        .graph = graph, .drawing = d, .columns = columns, .passes = passes, .name_lines = 3};
    SYN_TRY(syn__pic_choose_lanes(c, copies, err));
    for (uint32_t i = 0; i < c->n_lanes; i++) {
        SYN_TRY(read_lane(c, &c->lanes[i], fold, err));
        c->lanes[i].plan.spans_ranks = c->n_lanes > 1;
        c->lanes[i].plan.n_similar = c->n_similar;
    }
    return SYN_OK;
}

void syn__pic_chart_free(syn__pic_chart *c) {
    for (uint32_t i = 0; i < c->n_lanes; i++) {
        syn__pic_plan_free(&c->lanes[i].plan);
        syn_free(c->lanes[i].items);
        syn_free(c->lanes[i].passes);
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

/* Whether a node in [begin, end) is the same kind of communication as `node`. */
static syn_status has_same(syn__pic_lane *lane, uint32_t node, uint32_t begin, uint32_t end,
                           bool *out, syn_error *err) {
    const syn_node *n, *other;
    *out = false;
    SYN_TRY(syn__pic_node(&lane->plan, node, &lane->plan.cursor, &n, err));
    for (uint32_t k = begin; k < end && !*out; k++) {
        SYN_TRY(syn__pic_node(&lane->plan, k, &lane->plan.other, &other, err));
        *out = other->kind == SYN_NODE_COLLECTIVE && syn__pic_same_comm(n, other);
    }
    return SYN_OK;
}

/* Adds one bar per kind of collective in the nodes [begin, end), except for those kinds that
   [known_begin, known_end) also has. */
static syn_status add_sums(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, uint32_t begin,
                           uint32_t end, uint32_t known_begin, uint32_t known_end, syn_error *err) {
    for (uint32_t i = begin; i < end && !c->too_many; i++) {
        const syn_node *n;
        bool before, known, after;
        SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
        if (n->kind != SYN_NODE_COLLECTIVE) continue;
        SYN_TRY(has_same(lane, i, begin, i, &before, err));
        SYN_TRY(has_same(lane, i, known_begin, known_end, &known, err));
        if (before || known) continue;
        SYN_TRY(has_same(lane, i, i + 1, end, &after, err));
        SYN_TRY(after ? add_bars(c, lane, unit, i, end - 1, err) : add_comm(c, lane, unit, i, err));
    }
    return SYN_OK;
}

/* Adds one bar per kind of collective in a unit (consecutive nodes of one step, phase and layer;
   picture_fold.h). It is used for layers that are drawn as one box, and for many buckets of
   gradients. */
static syn_status sum_items(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, syn_error *err) {
    const syn__pic_unit *u = &lane->plan.units[unit];
    return add_sums(c, lane, unit, u->begin, u->end, 0, 0, err);
}

/* Adds the runs and communications of the nodes [begin, end) of one unit. With c->passes, receives
   are added elsewhere. */
static syn_status unit_items(syn__pic_chart *c, syn__pic_lane *lane, uint32_t unit, uint32_t begin,
                             uint32_t end, syn_error *err) {
    uint32_t first = UINT32_MAX, last = 0;
    syn__pic_waits box = {0};
    for (uint32_t i = begin; i <= end && !c->too_many; i++) {
        const syn_node *n = NULL;
        if (i < end) {
            SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
            if (n->kind == SYN_NODE_METADATA || (n->flags & SYN_NODE_VIRTUAL) != 0) continue;
            if (c->passes && n->kind == SYN_NODE_RECV) continue;
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
            SYN_TRY(many ? sum_items(c, lane, u, err)
                         : unit_items(c, lane, u, p->units[u].begin, p->units[u].end, err));
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

/* ---- passes of a pipeline ---- */

/* The receives of a lane that were posted before the pass that needs them. */
typedef struct posted {
    uint32_t *nodes;
    size_t n, cap;
} posted;

static syn_status post(posted *p, uint32_t node, syn_error *err) {
    SYN_TRY(syn_grow(&p->nodes, &p->cap, p->n + 1, sizeof *p->nodes, err));
    p->nodes[p->n++] = node;
    return SYN_OK;
}

/* Removes the posted receives that the nodes [first, last] need from the list, and adds them if
   `drawn`. */
static syn_status receive(syn__pic_chart *c, syn__pic_lane *lane, posted *p, uint32_t first,
                          uint32_t last, bool drawn, syn_error *err) {
    size_t left = 0;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t node = p->nodes[i];
        bool needed;
        SYN_TRY(syn__pic_needs(&lane->plan, first, last, node, node, false, &needed, err));
        if (!needed) p->nodes[left++] = node;
        else if (drawn) SYN_TRY(add_comm(c, lane, syn__pic_unit_of(&lane->plan, node), node, err));
    }
    p->n = left;
    return SYN_OK;
}

/* If a step has more than MOST_PASSES microbatches, those between the first and the last ones are
   drawn as one pass. */
enum { MOST_PASSES = 16, FIRST_PASSES = 8, LAST_PASSES = 4 };

/* The number of the last microbatch that is drawn in the place of microbatch `number`. 0: it is not
   drawn itself. */
static int32_t drawn_until(const syn__pic_lane *lane, int32_t number) {
    int32_t most = 0;
    for (size_t i = 0; i < lane->n_passes; i++)
        if (lane->passes[i].number > most) most = lane->passes[i].number;
    if (most <= MOST_PASSES || number <= FIRST_PASSES || number > most - LAST_PASSES) return number;
    return number == FIRST_PASSES + 1 ? most - LAST_PASSES : 0;
}

/* The first pass of the same kind and chunk. */
static const syn__pass *first_like(const syn__pic_lane *lane, const syn__pass *pass) {
    const syn__pass *p = lane->passes;
    while (p->kind != pass->kind || p->chunk != pass->chunk) p++;
    return p;
}

static syn_status count_comm(syn__pic_lane *lane, const syn__pass *pass, uint32_t *out,
                             syn_error *err) {
    *out = 0;
    for (uint32_t i = pass->first; i <= pass->last; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
        *out += n->kind == SYN_NODE_COLLECTIVE;
    }
    return SYN_OK;
}

/* Adds the frame of a pass with the items of its units. An optimizer with many collectives is one
   box, with a bar per kind of collective. */
static syn_status whole_pass(syn__pic_chart *c, syn__pic_lane *lane, const syn__pass *pass,
                             const char *title, uint64_t key, syn_error *err) {
    syn__pic_plan *p = &lane->plan;
    const uint32_t begins = syn__pic_unit_of(p, pass->first),
                   ends = syn__pic_unit_of(p, pass->last);
    syn__pic_item item = {.kind = SYN__PIC_OPEN, .unit = begins, .title = title};
    uint32_t n_comm;
    SYN_TRY(add_item(c, lane, item, key, err));
    SYN_TRY(count_comm(lane, pass, &n_comm, err));
    const bool many = pass->kind == SYN__PASS_OPTIMIZER && n_comm > MAX_BARS;
    if (many) {
        SYN_TRY(add_run(c, lane, begins, pass->first, pass->last, NULL, err));
        SYN_TRY(add_sums(c, lane, begins, pass->first, pass->last + 1, 0, 0, err));
    }
    for (uint32_t u = begins; u <= ends && !many; u++) {
        const syn__pic_unit *unit = &p->units[u];
        const uint32_t begin = unit->begin > pass->first ? unit->begin : pass->first;
        const uint32_t end = unit->end < pass->last + 1 ? unit->end : pass->last + 1;
        const bool layer = unit->layer[0] != '\0';
        if (!syn__pic_unit_drawn(p, u)) continue;
        if (layer) SYN_TRY(frame(c, lane, SYN__PIC_OPEN, 1, u, err));
        SYN_TRY(unit_items(c, lane, u, begin, end, err));
        if (layer) SYN_TRY(frame(c, lane, SYN__PIC_CLOSE, 1, u, err));
    }
    item.kind = SYN__PIC_CLOSE;
    return add_item(c, lane, item, key, err);
}

/* Writes "forward 3", "forward 9 ... 60" or, if the stage has several chunks of layers, "forward 3,
   chunk 2". */
static void pass_title(const syn__pic_lane *lane, const syn__pass *pass, char *out, size_t bytes) {
    int64_t below = -1, above = -1; /* the next lower and the next higher chunk */
    int chunk = 1;
    for (bool found = true; found && pass->chunk >= 0; chunk += found) {
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < lane->n_passes; i++) {
            const int64_t at = lane->passes[i].chunk;
            if (at > below && at < pass->chunk && at < next) next = at;
            if (at > pass->chunk) above = at;
        }
        found = next != INT64_MAX;
        if (found) below = next;
    }
    int used = snprintf(out, bytes, "%s", syn__pass_name(pass->kind));
    const int32_t until = drawn_until(lane, pass->number);
    if (pass->number > 0) used += snprintf(out + used, bytes - (size_t)used, " %d", pass->number);
    if (until > pass->number)
        used += snprintf(out + used, bytes - (size_t)used, " \xE2\x80\xA6 %d", until);
    if (pass->number > 0 && (chunk > 1 || above >= 0))
        snprintf(out + used, bytes - (size_t)used, ", chunk %d", chunk);
}

/* Adds a pass. If `full`, the first one of its kind and chunk has a frame with all its items. Any
   other is a box, with bars for collectives that the first one does not have, such as those of
   gradients in the last backward pass. */
static syn_status add_pass(syn__pic_chart *c, syn__pic_lane *lane, size_t i, bool full,
                           syn_error *err) {
    const syn__pass *pass = &lane->passes[i], *like = first_like(lane, pass);
    const uint32_t unit = syn__pic_unit_of(&lane->plan, pass->first);
    const uint64_t key =
        mix(mix(mix(mix(19, (uint64_t)pass->kind), (uint64_t)pass->chunk), (uint64_t)pass->number),
            lane->plan.units[unit].step_index);
    char title[96];
    pass_title(lane, pass, title, sizeof title);
    if (like == pass && full) {
        const char *copy = syn__arena_copy(&c->drawing->arena, title);
        if (!copy) return SYN_FAIL_NOMEM(err, sizeof title, "a title of a picture");
        return whole_pass(c, lane, pass, copy, key, err);
    }
    syn__pic_item item = {.kind = SYN__PIC_RUN_BOX,
                          .unit = unit,
                          .first = pass->first,
                          .last = pass->last,
                          .pass = true};
    SYN_TRY(syn__pic_label_run(&lane->plan, &c->drawing->arena, pass->first, pass->last, title, 0,
                               &item.label, &item.tip, &item.w, &item.h, err));
    SYN_TRY(add_item(c, lane, item, pass->first, err));
    return add_sums(c, lane, unit, pass->first, pass->last + 1, like->first, like->last + 1, err);
}

static syn_status pass_items(syn__pic_chart *c, syn__pic_lane *lane, bool full, posted *waiting,
                             syn_error *err) {
    syn__pic_plan *p = &lane->plan;
    const syn__pass *passes = lane->passes;
    const size_t n = lane->n_passes;
    size_t next = 0;
    bool drawn = true; /* the last pass is drawn */
    for (uint32_t i = 0; i < p->n_nodes && !c->too_many; i++) {
        const uint32_t unit = syn__pic_unit_of(p, i);
        const syn_node *node;
        while (next < n && passes[next].first < i) next++;
        if (p->steps[p->units[unit].step_index].rep != p->units[unit].step_index) continue;
        if (next < n && passes[next].first == i) {
            drawn = passes[next].number == 0 || drawn_until(lane, passes[next].number) > 0;
            SYN_TRY(receive(c, lane, waiting, i, passes[next].last, drawn, err));
            if (drawn) SYN_TRY(add_pass(c, lane, next, full, err));
            for (; i < passes[next].last; i++) { /* receives for later passes */
                SYN_TRY(syn__pic_node(p, i, &p->cursor, &node, err));
                if (node->kind == SYN_NODE_RECV) SYN_TRY(post(waiting, i, err));
            }
            continue;
        }
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &node, err));
        if (node->kind == SYN_NODE_RECV) {
            SYN_TRY(post(waiting, i, err));
        } else if (syn__walk_is_comm(node) && (drawn || node->kind != SYN_NODE_SEND)) {
            SYN_TRY(receive(c, lane, waiting, i, i, true, err));
            SYN_TRY(add_comm(c, lane, unit, i, err));
        }
    }
    return SYN_OK;
}

static syn_status lane_passes(syn__pic_chart *c, syn__pic_lane *lane, bool full, syn_error *err) {
    posted waiting = {0};
    const syn_status s = pass_items(c, lane, full, &waiting, err);
    syn_free(waiting.nodes);
    return s;
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
        else if (c->passes) SYN_TRY(lane_passes(c, lane, detail == SYN__PIC_FULL, err));
        else SYN_TRY(lane_items(c, lane, detail, err));
    }
    return SYN_OK;
}
