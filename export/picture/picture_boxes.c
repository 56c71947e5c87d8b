/* Builds the boxes of a step: finds the user ranges and modules around each op, groups consecutive
   ops of a thread, and adds the device work that the ops launched. */
#include "export/picture/picture_boxes.h"
#include "export/picture/picture_text.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

/* If a step has more boxes, paths are shortened by a level and the boxes are built again. */
#define MAX_BOXES 160
#define LEVELS    8
/* Factor of device times when the ops and categories of a box are ranked, so that host time only
   decides among boxes without device work. */
#define DEVICE_WEIGHT 1e6

/* ---- names ---- */

/* Writes the names of the user ranges around slice i, outermost first. A thread without ranges,
   such as autograd's, gets the ranges of another thread that are open when the slice starts. */
static void put_ranges(const syn__boxes *m, uint32_t i, char *path) {
    const syn__pic_times *t = m->times;
    uint32_t chain[LEVELS], n = 0, at = m->range_of[i];
    const int64_t start = t->lanes.slices[i].start;
    for (uint32_t k = 0; at == UINT32_MAX && k < m->n_ranges; k++) {
        const uint32_t r = m->ranges[m->n_ranges - 1 - k];
        if (t->lanes.slices[r].start <= start && start < t->lanes.slices[r].end) at = r;
    }
    for (; at != UINT32_MAX && n < LEVELS; at = m->range_of[at]) chain[n++] = at;
    while (n-- > 0) {
        syn_cursor cursor = {0};
        const syn_node *node =
            syn_graph_node(m->graph, m->rank_index, t->lanes.slices[chain[n]].node, &cursor);
        char name[96];
        syn__pic_short_name(node != NULL ? node->op : "", name, sizeof name);
        for (char *c = name; *c != '\0'; c++)
            if (*c == '/') *c = '|';
        const size_t used = strlen(path);
        snprintf(path + used, SYN__BOX_PATH_BYTES - used, "%s%s", used > 0 ? "/" : "", name);
        syn_cursor_free(&cursor);
    }
}

/* The path of a host op: its ranges and modules, or its own name if it has none. */
static syn_status path_of(syn__boxes *m, uint32_t i, bool backward,
                          char path[SYN__BOX_PATH_BYTES]) {
    const syn__pic_times *t = m->times;
    const syn__slice *s = &t->lanes.slices[m->top_of[i]];
    const syn_node *node;
    path[0] = '\0';
    put_ranges(m, m->top_of[i], path);
    SYN_TRY(syn__walk_node(&m->times->walk, s->node, &node, m->err));
    if (path[0] == '\0' && backward) snprintf(path, SYN__BOX_PATH_BYTES, "backward");
    const uint32_t named = m->named_by[m->top_of[i]];
    if (named != UINT32_MAX)
        SYN_TRY(syn__walk_node(&m->times->walk, t->lanes.slices[named].node, &node, m->err));
    for (uint32_t k = 0; k < node->n_attributes && named != UINT32_MAX; k++) {
        const syn_attribute *a = &node->attributes[k];
        if (strcmp(a->name, "module") != 0 || a->type != SYN_VALUE_TEXT || a->text == NULL)
            continue;
        const char *module = a->text + t->common + (a->text[t->common] == '/');
        if (module[0] != '\0')
            snprintf(path, SYN__BOX_PATH_BYTES, "%s%s", backward ? "backward/" : "", module);
    }
    if (path[0] == '\0') syn__pic_short_name(node->op, path, SYN__BOX_PATH_BYTES);
    char *end = path;
    for (int k = 0; k < m->levels && end != NULL; k++) end = strchr(end + (k > 0), '/');
    if (end != NULL) *end = '\0';
    return SYN_OK;
}

/* ---- boxes ---- */

static syn_status new_box(syn__boxes *m, uint32_t thread, uint32_t node, const char *path,
                          uint32_t section, uint32_t *out) {
    SYN_TRY(syn_grow(&m->at, &m->cap, m->n + 1, sizeof *m->at, m->err));
    syn__box *b = &m->at[m->n];
    *b = (syn__box){.thread = thread, .node = node, .section = section, .last_top = UINT32_MAX};
    snprintf(b->path, sizeof b->path, "%s", path);
    *out = (uint32_t)m->n++;
    return SYN_OK;
}

/* The last box on which the node depends; 0: none. */
static uint32_t latest(const syn__boxes *m, const syn_node *node) {
    uint32_t most = 0;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        const uint32_t b = m->box_of[node->deps[k].node];
        if (b != SYN__BOX_NONE && b > most) most = b;
    }
    return most;
}

/* The call that launched the node, if it has a box; otherwise SYN_NO_NODE. */
static uint32_t launcher(const syn__boxes *m, const syn_node *node) {
    uint32_t by = SYN_NO_NODE;
    for (uint32_t k = 0; k < node->n_deps; k++)
        if (node->deps[k].dep_class == SYN_DEP_LAUNCH) by = node->deps[k].node;
    return by != SYN_NO_NODE && m->box_of[by] != SYN__BOX_NONE ? by : SYN_NO_NODE;
}

static uint32_t open_box(const syn__boxes *m, uint32_t thread) {
    for (size_t b = m->n; b-- > 0;)
        if (m->at[b].thread == thread) return (uint32_t)b;
    return SYN__BOX_NONE;
}

/* Shortens the name of an op. In backward, "AddmmBackward0" becomes "Addmm". */
static void short_op(const char *op, uint32_t section, char *out, size_t bytes) {
    syn__pic_short_name(op, out, bytes);
    char *end = out + strlen(out);
    while (end > out && end[-1] >= '0' && end[-1] <= '9') end--;
    if (section % SYN__BOX_PARTS == SYN__BOX_BACKWARD && end - out > 8 &&
        strncmp(end - 8, "Backward", 8) == 0)
        end[-8] = '\0';
}

/* Adds calls and time to the box's entry for the op's name, or to n_other if the list is full. */
static void add_op(syn__box *b, const char *op, uint32_t calls, double ns) {
    char name[sizeof b->ops[0].name];
    short_op(op, b->section, name, sizeof name);
    for (int k = 0; k < SYN__BOX_NAMES; k++) {
        if (b->ops[k].count == 0) snprintf(b->ops[k].name, sizeof b->ops[k].name, "%s", name);
        if (strcmp(b->ops[k].name, name) != 0) continue;
        b->ops[k].count += calls > 0 || b->ops[k].count > 0 ? calls : 1;
        b->ops[k].ns += ns;
        return;
    }
    b->n_other += calls;
}

/* Whether an op with this path joins the open box. In backward, ops without a module of their own
   join the box of the ops before them. */
static bool stays(const char *open, const char *path, bool backward) {
    const size_t n = strlen(path);
    return strcmp(open, path) == 0 || (backward && strncmp(open, path, n) == 0 && open[n] == '/');
}

static syn_status add_host(syn__boxes *m, uint32_t i, const syn_node *node) {
    const syn__slice *s = &m->times->lanes.slices[i];
    char path[SYN__BOX_PATH_BYTES];
    const uint32_t section = m->section_of[m->top_of[i]];
    const bool backward = section % SYN__BOX_PARTS == SYN__BOX_BACKWARD;
    const syn_node wanted = *node; /* a copy, because path_of reads other nodes with the same
                                      cursor */
    const uint32_t after = latest(m, node);
    SYN_TRY(path_of(m, i, backward, path));
    uint32_t at = open_box(m, s->lane);
    if (at == SYN__BOX_NONE || at < after || m->at[at].closed || m->at[at].section != section ||
        !stays(m->at[at].path, path, backward))
        SYN_TRY(new_box(m, s->lane, s->node, path, section, &at));
    syn__box *b = &m->at[at];
    m->box_of[s->node] = at;
    b->host_ns += wanted.wall_ns > 0 ? wanted.wall_ns : 0;
    SYN_TRY(
        syn__walk_node(&m->times->walk, m->times->lanes.slices[m->top_of[i]].node, &node, m->err));
    const uint32_t calls = b->last_top != m->top_of[i];
    add_op(b, node->op, calls, wanted.wall_ns > 0 ? wanted.wall_ns : 0);
    b->n_ops += calls;
    b->last_top = m->top_of[i];
    SYN_TRY(syn__walk_node(&m->times->walk, s->node, &node, m->err));
    b->ns[node->category] += node->wall_ns > 0 ? node->wall_ns : 0;
    return SYN_OK;
}

/* Adds device work to the box of the call that launched it. If the work depends on a box after that
   one, it must go to a later box: the thread's last box if that has the same path and is not before
   the box of the dependency, otherwise a new box. */
static syn_status add_device(syn__boxes *m, uint32_t i, const syn_node *node) {
    const uint32_t by = launcher(m, node), after = latest(m, node);
    if (by == SYN_NO_NODE) return SYN_OK; /* the work was launched before the step */
    const uint32_t top = m->top_of[m->slice_of[by]];
    const syn_node work = *node;
    uint32_t at = m->box_of[by];
    if (at < after) {
        const uint32_t open = open_box(m, m->at[at].thread);
        const syn__box from = m->at[at];
        if (open != SYN__BOX_NONE && open >= after && strcmp(m->at[open].path, from.path) == 0)
            at = open;
        else
            SYN_TRY(new_box(m, from.thread, m->times->lanes.slices[i].node, from.path, from.section,
                            &at));
    }
    m->box_of[m->times->lanes.slices[i].node] = at;
    syn__box *b = &m->at[at];
    b->device_ns += work.wall_ns;
    b->ns[work.category] += DEVICE_WEIGHT * work.wall_ns;
    b->flops += work.flops;
    b->n_kernels++;
    SYN_TRY(syn__walk_node(&m->times->walk, m->times->lanes.slices[top].node, &node, m->err));
    const bool counted = b->n_ops > 0 || b->last_top == top;
    add_op(b, node->op, counted ? 0 : 1, DEVICE_WEIGHT * work.wall_ns);
    b->last_top = counted ? b->last_top : top;
    return SYN_OK;
}

static syn_status make_boxes(syn__boxes *m) {
    const uint32_t n = m->graph->ranks[m->rank_index].n_nodes;
    m->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        const uint32_t s = m->slice_of[i];
        m->box_of[i] = SYN__BOX_NONE;
        if (s == UINT32_MAX || m->n > MAX_BOXES) continue;
        SYN_TRY(syn__walk_node(&m->times->walk, i, &node, m->err));
        if (m->times->slices[s].is_comm) {
            const uint32_t after = latest(m, node), by = launcher(m, node);
            const uint32_t like = by != SYN_NO_NODE ? m->box_of[by] : after;
            const uint32_t section = m->n > 0 ? m->at[like].section : 0;
            if (m->n > 0) m->at[after].closed = true;
            SYN_TRY(new_box(m, SYN__BOX_NONE, i, syn_comm_kind_name(node->comm), section,
                            &m->box_of[i]));
        } else if (m->times->lanes.slices[s].host) {
            SYN_TRY(add_host(m, s, node));
        } else {
            SYN_TRY(add_device(m, s, node));
        }
    }
    return SYN_OK;
}

/* ---- everything ---- */

/* Chooses a step from the largest group of equal steps. */
static uint32_t choose_window(const syn__pic_times *t) {
    uint32_t best = t->drawn[0], most = 0;
    for (uint32_t k = 0; k < t->n_drawn; k++) {
        uint32_t n = 0;
        for (size_t i = 0; i < t->n_windows; i++) n += t->windows[i].like == t->drawn[k];
        if (n > most) most = n, best = t->drawn[k];
    }
    return best;
}

static syn_status index_slices(syn__boxes *m) {
    const syn__pic_times *t = m->times;
    const syn__pic_window *w = &t->windows[m->window];
    const uint32_t n = m->graph->ranks[m->rank_index].n_nodes;
    const size_t n_slices = t->lanes.n_slices;
    m->slice_of = syn_calloc((size_t)n + 1, sizeof *m->slice_of);
    m->box_of = syn_calloc((size_t)n + 1, sizeof *m->box_of);
    m->top_of = syn_calloc(n_slices + 1, sizeof *m->top_of);
    m->range_of = syn_calloc(n_slices + 1, sizeof *m->range_of);
    m->named_by = syn_calloc(n_slices + 1, sizeof *m->named_by);
    m->section_of = syn_calloc(n_slices + 1, sizeof *m->section_of);
    if (!m->section_of || !m->named_by || !m->slice_of || !m->box_of || !m->top_of || !m->range_of)
        return SYN_FAIL_NOMEM(m->err, n * sizeof *m->box_of, "a picture");
    for (uint32_t i = 0; i < n; i++) m->slice_of[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn__pic_slice *p = &t->slices[i];
        const uint32_t outer = s->host ? t->lanes.outer[i] : UINT32_MAX;
        const bool in_range = outer != UINT32_MAX && t->slices[outer].depth >= 0;
        m->range_of[i] = !in_range                   ? UINT32_MAX
                         : t->slices[outer].is_range ? outer
                                                     : m->range_of[outer];
        m->top_of[i] = in_range && !t->slices[outer].is_range ? m->top_of[outer] : i;
        m->named_by[i] = UINT32_MAX;
        if (p->frames[0] != NULL && m->named_by[m->top_of[i]] == UINT32_MAX)
            m->named_by[m->top_of[i]] = i;
        if (s->start < w->begin || s->start >= w->end || p->depth < 0) continue;
        if (p->is_range && m->n_ranges < SYN__BOX_RANGES) m->ranges[m->n_ranges++] = i;
        if (!p->is_range) m->slice_of[s->node] = i;
    }
    return SYN_OK;
}

syn_status syn__boxes_make(syn__boxes *m) {
    syn__pic_times *t = m->times;
    SYN_TRY(syn__timeline_make(&t->timeline, m->graph, NULL, NULL, m->err));
    t->blocks[0].rank_index = m->rank_index;
    t->n_blocks = 1;
    SYN_TRY(syn__pic_times_windows(t, true, m->err));
    SYN_TRY(syn__pic_times_load(t, m->rank_index, m->err));
    SYN_TRY(syn__pic_times_rows(t, &t->blocks[0], m->err));
    m->window = choose_window(t);
    SYN_TRY(index_slices(m));
    SYN_TRY(syn__boxes_sections(m));
    m->n = MAX_BOXES + 1;
    for (m->levels = LEVELS; m->levels > 0 && m->n > MAX_BOXES; m->levels--) SYN_TRY(make_boxes(m));
    m->cut = m->n > MAX_BOXES;
    return SYN_OK;
}

void syn__boxes_free(syn__boxes *m) {
    syn_free(m->slice_of);
    syn_free(m->box_of);
    syn_free(m->top_of);
    syn_free(m->range_of);
    syn_free(m->section_of);
    syn_free(m->named_by);
    syn_free(m->at);
}
