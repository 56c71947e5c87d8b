/* Converts one step of a PyTorch trace to a graph of user ranges and modules, which the trace view
   draws like any other graph. It has a node for each communication, and a node for each run of
   consecutive ops of a thread within the same ranges and modules, together with the device work
   that the ops launched. Nodes only depend on earlier nodes: a run ends before an op that depends
   on anything that came after the start of the run. */
#include "export/picture/picture_modules.h"
#include "export/picture/picture_boxes.h"
#include "export/picture/picture_text.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define MAX_NAMES 4 /* maximum number of op names after the name of a box */

/* ---- nodes ---- */

/* The number of digits at the end of a name such as "Block_3"; 0 if it has no number. */
static size_t digits_of(const char *token, size_t n) {
    size_t digits = 0;
    while (digits < n && token[n - 1 - digits] >= '0' && token[n - 1 - digits] <= '9') digits++;
    return digits > 0 && digits + 1 < n && token[n - 1 - digits] == '_' ? digits : 0;
}

/* Whether the path's first n bytes end with a name such as "Block_3", and another path has a
   "Block_N" with another number in its place. */
static bool is_one_of_many(const syn__boxes *m, const char *path, size_t n, size_t digits) {
    for (size_t i = 0; i < m->n && digits > 0; i++) {
        const char *other = m->at[i].path;
        if (strncmp(other, path, n - digits) == 0 && strncmp(other, path, n) != 0 &&
            other[n - digits] >= '0' && other[n - digits] <= '9')
            return true;
    }
    return false;
}

/* Writes the name of a module without its number. PyTorch numbers the modules of a class over the
   whole model, so with numbers the modules of equal layers would differ. */
static void put_token(syn__pic_text *t, const char *token, size_t n, bool scope) {
    const size_t digits = digits_of(token, n);
    char text[SYN__BOX_PATH_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(digits > 0 ? n - digits - 1 : n), token);
    for (char *c = text; *c != '\0' && scope; c++)
        if (*c == '.') *c = ' '; /* because a dot separates levels */
    syn__pic_put_clean(t, text);
}

/* Whether the module of this box contains other boxes. */
static bool is_outer(const syn__boxes *m, const syn__box *b) {
    const size_t n = strlen(b->path);
    for (size_t i = 0; i < m->n; i++)
        if (strncmp(m->at[i].path, b->path, n) == 0 && m->at[i].path[n] == '/') return true;
    return false;
}

/* Splits a path into scope and label. outer: the box has the ops that a module runs itself, outside
   its submodules. Such a box is labelled with the name of its first op, and its scope is the
   module. */
static void split_path(const syn__boxes *m, const syn__box *b, bool outer, syn__pic_text *scope,
                       syn__pic_text *label) {
    bool layer = false;
    const char *path = b->path, *last = outer ? path + strlen(path) : strrchr(path, '/');
    syn__pic_clear(scope);
    syn__pic_clear(label);
    for (const char *at = path; last != NULL && at < last;) {
        const size_t n = strcspn(at, "/");
        if (scope->n > 0) syn__pic_put(scope, ".");
        const size_t digits = digits_of(at, n), end = (size_t)(at - path) + n;
        put_token(scope, at, n, true);
        if (!layer && is_one_of_many(m, path, end, digits)) {
            syn__pic_put(scope, ".%.*s", (int)digits, at + n - digits);
            layer = true;
        }
        at += n + (at[n] == '/');
    }
    if (outer) syn__pic_put_clean(label, b->ops[0].name);
    else
        put_token(label, last != NULL ? last + 1 : path, strlen(last != NULL ? last + 1 : path),
                  false);
}

/* Writes the names of the ops with the most time: "27 CudnnBatchNorm, 26 Convolution, 3 more". */
static void put_names(const syn__box *b, syn__pic_text *t) {
    bool named[SYN__BOX_NAMES] = {false};
    uint32_t left = b->n_other;
    for (int k = 0; k < SYN__BOX_NAMES; k++) left += b->ops[k].count;
    syn__pic_clear(t);
    for (int n = 0; n < MAX_NAMES && left > 0; n++) {
        int most = -1;
        for (int k = 0; k < SYN__BOX_NAMES; k++)
            if (b->ops[k].count > 0 && !named[k] && (most < 0 || b->ops[k].ns > b->ops[most].ns))
                most = k;
        if (most < 0) break;
        named[most] = true;
        left -= b->ops[most].count;
        if (n > 0) syn__pic_put(t, ", ");
        if (b->ops[most].count > 1) syn__pic_put(t, "%u ", b->ops[most].count);
        syn__pic_put_clean(t, b->ops[most].name);
    }
    if (left > 0) syn__pic_put(t, ", %u more", left);
}

/* The category with the most time. Categories that compute are preferred over those that only move
   data or call other ops, which take much time on a host. */
static syn_category category_of(const syn__box *b) {
    static const bool serves[SYN_CATEGORY_COUNT] = {[SYN_CATEGORY_OTHER] = true,
                                                    [SYN_CATEGORY_VIEW] = true,
                                                    [SYN_CATEGORY_DATA_MOVEMENT] = true,
                                                    [SYN_CATEGORY_COMMUNICATION] = true};
    int most = SYN_CATEGORY_OTHER;
    double all = 0;
    for (int k = 0; k < SYN_CATEGORY_COUNT; k++) {
        all += b->ns[k];
        if (k != SYN_CATEGORY_COMMUNICATION && b->ns[k] > b->ns[most]) most = k;
    }
    for (int k = 0; k < SYN_CATEGORY_COUNT; k++)
        if (!serves[k] && b->ns[k] > 0.1 * all && (serves[most] || b->ns[k] > b->ns[most]))
            most = k;
    return (syn_category)most;
}

static const syn_phase phases[SYN__BOX_PARTS] = {[SYN__BOX_FORWARD] = SYN_PHASE_FORWARD,
                                                 [SYN__BOX_BACKWARD] = SYN_PHASE_BACKWARD,
                                                 [SYN__BOX_REST] = SYN_PHASE_OPTIMIZER};

static syn_status add_node(syn__boxes *m, syn_graph *out, uint32_t index, uint64_t id,
                           const syn_dep *deps, uint32_t n_deps) {
    const syn__box *b = &m->at[index];
    syn__pic_text scope, label, names;
    char host[96], device[96], a[SYN__PIC_NUMBER];
    const syn_node *first;
    split_path(m, b, is_outer(m, b), &scope, &label);
    put_names(b, &names);
    SYN_TRY(syn__walk_node(&m->times->walk, b->node, &first, m->err));
    syn_node n = {SYN_NODE_UNKNOWN,  .id = id,         .op = names.s,
                  .label = label.s,  .scope = scope.s, .category = category_of(b),
                  .flops = b->flops, .deps = deps,     .n_deps = n_deps};
    n.phase = phases[b->section % SYN__BOX_PARTS];
    snprintf(host, sizeof host, "%u ops, %s", b->n_ops, syn__pic_time(b->host_ns, a));
    snprintf(device, sizeof device, "%u kernels and copies, %s", b->n_kernels,
             syn__pic_time(b->device_ns, a));
    const syn_attribute attributes[] = {{"host", SYN_VALUE_TEXT, 0, 0, host},
                                        {"device", SYN_VALUE_TEXT, 0, 0, device}};
    n.attributes = attributes;
    n.n_attributes = b->n_kernels > 0 ? 2 : 1;
    n.wall_ns = m->times->device ? (b->n_kernels > 0 ? b->device_ns : SYN_NO_TIME) : b->host_ns;
    if (b->thread == SYN__BOX_NONE) {
        n.kind = first->kind;
        n.op = n.label = b->path;
        n.scope = "";
        n.category = SYN_CATEGORY_COMMUNICATION;
        n.comm = first->comm;
        n.group = first->group;
        n.comm_bytes = first->comm_bytes;
        n.comm_index = first->comm_index;
        n.peer = first->peer;
        n.tag = first->tag;
        n.stream = 1;
        n.wall_ns = first->wall_ns;
        n.n_attributes = 0;
    }
    return syn_graph_add_node(out, 0, &n, m->err);
}

/* Marks the direct dependencies of each box. */
static syn_status mark_waits(syn__boxes *m, bool **waits) {
    const uint32_t n = m->graph->ranks[m->rank_index].n_nodes;
    *waits = syn_calloc(m->n * m->n + 1, sizeof **waits);
    if (*waits == NULL) return SYN_FAIL_NOMEM(m->err, m->n * m->n, "a picture");
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        if (m->box_of[i] == SYN__BOX_NONE) continue;
        SYN_TRY(syn__walk_node(&m->times->walk, i, &node, m->err));
        for (uint32_t k = 0; k < node->n_deps; k++) {
            const uint32_t from = m->box_of[node->deps[k].node];
            if (from != SYN__BOX_NONE && from < m->box_of[i])
                (*waits)[m->box_of[i] * m->n + from] = true;
        }
    }
    return SYN_OK;
}

/* Sorts boxes by section, but no box before its dependencies. place: position of each box in the
   order. */
static void order_boxes(syn__boxes *m, const bool *waits, uint32_t *order, uint32_t *place) {
    uint32_t n = 0, last = 0;
    for (size_t i = 0; i < m->n; i++) {
        syn__box *b = &m->at[i];
        for (size_t from = 0; from < i; from++)
            if (waits[i * m->n + from] && m->at[from].section > b->section)
                b->section = m->at[from].section;
        if (b->section > last) last = b->section;
    }
    for (uint32_t section = 0; section <= last; section++)
        for (uint32_t i = 0; i < m->n; i++) {
            if (m->at[i].section != section) continue;
            order[n] = i;
            place[i] = n++;
        }
}

/* Computes the direct dependencies of box i that other dependencies do not imply, nearest first.
   Adds the indirect ones to the box's row of `waits`. */
static uint32_t find_deps(const syn__boxes *m, bool *waits, uint32_t i, const uint32_t *place,
                          syn_dep *deps) {
    const size_t n = m->n;
    bool *row = &waits[i * n];
    uint32_t n_deps = 0;
    for (size_t from = i; from-- > 0;) {
        if (!row[from]) continue;
        bool implied = false;
        for (size_t k = from + 1; k < i && !implied; k++) implied = row[k] && waits[k * n + from];
        if (!implied) deps[n_deps++] = (syn_dep){place[from], SYN_DEP_DATA};
        for (size_t k = 0; k < from; k++) row[k] |= waits[from * n + k];
    }
    return n_deps;
}

static syn_status add_nodes(syn__boxes *m, bool *waits, syn_graph *out) {
    const size_t n = m->n;
    syn_dep *deps = syn_calloc(n * n + 1, sizeof *deps);
    uint32_t *numbers = syn_calloc(3 * n + 1, sizeof *numbers);
    syn_status s = deps != NULL && numbers != NULL
                       ? SYN_OK
                       : SYN_FAIL_NOMEM(m->err, n * n * sizeof *deps, "a picture");
    if (s == SYN_OK) {
        uint32_t *order = numbers, *place = numbers + n, *n_deps = numbers + 2 * n;
        order_boxes(m, waits, order, place);
        for (uint32_t i = 0; i < n; i++) n_deps[i] = find_deps(m, waits, i, place, &deps[i * n]);
        for (uint32_t i = 0; i < n && s == SYN_OK; i++)
            s = add_node(m, out, order[i], i + 1, &deps[order[i] * n], n_deps[order[i]]);
    }
    syn_free(deps);
    syn_free(numbers);
    return s;
}

static syn_status add_metadata(const syn__boxes *m, syn_graph *out) {
    for (uint32_t g = 0; g < m->graph->n_groups; g++)
        SYN_TRY(syn_graph_add_group(out, &m->graph->groups[g], m->err));
    const syn__pic_times *t = m->times;
    const syn__pic_window *w = &t->windows[m->window];
    char step[96];
    uint32_t n = 0;
    for (size_t i = 0; i < t->n_windows; i++) n += t->windows[i].like == m->window;
    const char *name = w->name[0] != '\0' ? w->name : "run";
    if (n > 1) snprintf(step, sizeof step, "%s, one of %u with the same ops", name, n);
    else snprintf(step, sizeof step, "%s", name);
    const syn_attribute info[] = {
        {"recorded", SYN_VALUE_TEXT, 0, 0, step},
        {"times", SYN_VALUE_TEXT, 0, 0, t->device ? "of the device" : "of the host"},
        {"shown", SYN_VALUE_TEXT, 0, 0, "first part; the step is too long for a picture"}};
    for (size_t i = 0; i < (m->cut ? 3 : 2); i++)
        SYN_TRY(syn_graph_set_meta(out, &info[i], m->err));
    return SYN_OK;
}

/* ---- everything ---- */

static syn_status build(syn__boxes *m, syn_graph **out) {
    const syn_graph_rank *rank = &m->graph->ranks[m->rank_index];
    bool *waits = NULL;
    SYN_TRY(syn__boxes_make(m));
    SYN_TRY(syn_graph_new(out, &rank->rank, 1, m->graph->world_size, m->err));
    SYN_TRY(add_metadata(m, *out));
    syn_status s = mark_waits(m, &waits);
    if (s == SYN_OK) s = add_nodes(m, waits, *out);
    syn_free(waits);
    return s;
}

syn_status syn__pic_modules(syn_graph **out, const syn_graph *graph, uint32_t rank_index,
                            syn__pic_drawing *names, syn_error *err) {
    *out = NULL;
    syn__boxes *m = syn_calloc(1, sizeof *m);
    syn__pic_times *t = syn_calloc(1, sizeof *t);
    syn_status s = SYN_OK;
    if (m == NULL || t == NULL) s = SYN_FAIL_NOMEM(err, sizeof *m + sizeof *t, "a picture");
    if (s == SYN_OK) {
        *m = (syn__boxes){.graph = graph, .times = t, .rank_index = rank_index, .err = err};
        t->graph = graph;
        t->drawing = names;
        syn__walk_init(&t->walk, graph);
        s = build(m, out);
        syn__boxes_free(m);
        syn__pic_times_free(t);
    }
    syn_free(m);
    syn_free(t);
    if (s != SYN_OK) {
        syn_graph_free(*out);
        *out = NULL;
    }
    return s;
}
