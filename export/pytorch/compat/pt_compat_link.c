/* Links as the reference linker does (compat mode); see pt_compat.h and pt_compat_link.h. This file
   matches host nodes to ops, and makes the merged list. */
#include "export/pytorch/compat/pt_compat_link.h"

#include "export/pytorch/compat/pt_compat.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define MAX_MERGED ((size_t)1 << 31)

void *syn__compat_array(syn__compat *c, size_t n, size_t elem_bytes) {
    size_t bytes = 0;
    void *array = syn_mul_size(n ? n : 1, elem_bytes, &bytes) ? syn_malloc(bytes) : NULL;
    if (array == NULL)
        (void)SYN_FAIL_NOMEM(c->err, n * elem_bytes, "the link of host and device traces");
    return array;
}

size_t syn__compat_before(const syn__compat *c, double ts) {
    size_t low = 0, high = c->n_ops;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->ops[middle].ts < ts) low = middle + 1;
        else high = middle;
    }
    return low;
}

static syn_status no_memory(syn__compat *c) {
    return SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory while linking %.200s",
                    c->host->input->name);
}

/* ---- Device events ---- */

static bool is_integer(const syn__pt_event *e, unsigned has, unsigned as_integer) {
    return (e->flags & has) == 0 || (e->flags & as_integer) != 0; /* a missing value counts as the
                                                                     integer 0 */
}

static void fill_op(syn__compat_op *op, const syn__pt_event *e, uint32_t event, uint32_t thread) {
    *op = (syn__compat_op){.ts = e->ts,
                           .end = e->ts + e->dur,
                           .dur = e->dur,
                           .rf_id = e->rf_id,
                           .external_id = e->external_id,
                           .event = event,
                           .thread = thread,
                           .host = SYN__PT_NONE,
                           .has_rf_id = (e->flags & SYN__PT_EVENT_RF_ID) != 0};
    op->ts_int = is_integer(e, SYN__PT_EVENT_TS, SYN__PT_EVENT_TS_INT);
    op->dur_int = is_integer(e, SYN__PT_EVENT_DUR, SYN__PT_EVENT_DUR_INT);
}

static syn_status collect_ops(syn__compat *c) {
    const syn__pt_device *d = c->device;
    c->ops = syn__compat_array(c, (size_t)d->n_class[SYN__PT_CPU_OP], sizeof *c->ops);
    if (c->ops == NULL) return SYN_E_NOMEM;
    for (size_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        if (e->class_ != SYN__PT_CPU_OP || c->n_ops == d->n_class[SYN__PT_CPU_OP]) continue;
        uint32_t *thread = syn__pt_map_put(&c->threads, e->tid);
        if (thread == NULL) return no_memory(c);
        if (*thread == SYN__PT_NONE) *thread = c->n_threads++;
        fill_op(&c->ops[c->n_ops++], e, (uint32_t)i, *thread);
    }
    return SYN_OK;
}

static syn_status group_by_thread(syn__compat *c) {
    c->by_thread = syn__compat_array(c, c->n_ops, sizeof *c->by_thread);
    c->first_of = syn_calloc((size_t)c->n_threads + 2, sizeof *c->first_of);
    if (!c->by_thread || !c->first_of) return no_memory(c);
    uint32_t *next = c->first_of + 1; /* per thread: position of its next op, and after the loop the
                                         end of its ops */
    for (size_t i = 0; i < c->n_ops; i++) next[c->ops[i].thread + 1]++;
    for (uint32_t t = 1; t <= c->n_threads; t++) next[t] += next[t - 1];
    for (size_t i = 0; i < c->n_ops; i++) c->by_thread[next[c->ops[i].thread]++] = (uint32_t)i;
    return SYN_OK;
}

/* Finds out whether any device work has the correlation id of a runtime event. */
static syn_status find_pair(syn__compat *c, bool *found) {
    const syn__pt_device *d = c->device;
    syn__pt_map runtime = {0};
    syn_status s = SYN_OK;
    *found = false;
    for (size_t i = 0; i < d->n_events && s == SYN_OK; i++)
        if (d->events[i].class_ == SYN__PT_RUNTIME) {
            uint32_t *at = syn__pt_map_put(&runtime, (uint64_t)d->events[i].correlation);
            if (at != NULL) *at = (uint32_t)i;
            else s = no_memory(c);
        }
    for (size_t i = 0; i < d->n_events && s == SYN_OK && !*found; i++) {
        const syn__pt_event *e = &d->events[i];
        *found = e->class_ >= SYN__PT_KERNEL && e->class_ <= SYN__PT_MEMSET &&
                 syn__pt_map_get(&runtime, (uint64_t)e->correlation) != SYN__PT_NONE;
    }
    syn__pt_map_free(&runtime);
    return s;
}

/* Checks what the reference needs when it reads the device trace a second time, for its critical
   path analysis. If something is missing, the reference fails there. */
static syn_status check_device(syn__compat *c) {
    const syn__pt_device *d = c->device;
    const char *name = d->input->name;
    const syn__str text = {d->input->data, d->input->bytes};
    bool pair = c->n_grouped > 0;
    if (d->n_class[SYN__PT_STEP] == 0 && !syn__str_has(text, "ProfilerStep"))
        return SYN_FAIL(c->err, SYN_E_FORMAT,
                        "%.200s: the reference linker stops here: \"TypeError: cannot unpack "
                        "non-iterable NoneType object\", because the trace has no ProfilerStep "
                        "(call the profiler's step()); without --compat it is converted",
                        name);
    if (!syn__str_has(text, "\"cuda_runtime\""))
        return SYN_FAIL(c->err, SYN_E_FORMAT,
                        "%.200s: the reference linker stops here: \"KeyError: 'cuda_runtime'\", "
                        "because the trace has no event of the CUDA runtime (profile with "
                        "ProfilerActivity.CUDA); without --compat it is converted",
                        name);
    if (!pair) SYN_TRY(find_pair(c, &pair));
    if (pair) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_FORMAT,
                    "%.200s: the reference linker stops here: \"TypeError: 'NoneType' object is "
                    "not subscriptable\", because no device work was launched by any event of the "
                    "CUDA runtime; without --compat it is converted",
                    name);
}

static syn_status read_device(syn__compat *c) {
    SYN_TRY(collect_ops(c));
    SYN_TRY(group_by_thread(c));
    SYN_TRY(syn__compat_launches(c));
    SYN_TRY(syn__compat_exclusive(c));
    SYN_TRY(syn__compat_threads(c));
    return check_device(c);
}

/* ---- Host nodes ---- */

typedef struct hosts {
    syn__compat *c;
    const syn__pt_host_node *nodes;
    size_t n;
    syn__pt_map last;    /* id -> the last node with the id, which is the one that PARAM uses */
    syn__pt_map rf_ids;  /* rf_id -> the last op with the id */
    uint32_t *by_id;     /* nodes ordered by id; equal ids in file order */
    uint32_t *op;        /* per node, set for the last node of each id: its op; SYN__PT_NONE:
                            none */
    uint32_t *dep;       /* set for the same nodes: the preceding node of another thread */
    uint8_t *state;      /* set for the same nodes: see reach_root */
    syn__pt_map new_ids; /* old id -> new id */
    uint32_t next_id;
    bool repeated; /* an id occurs more than once */
    syn__pt_merged_list *out;
} hosts;

static syn_status check_strides(const hosts *h, const syn__pt_host_node *n) {
    if (syn__loose_find(syn__pt_inputs(n), "strides").bytes != 0 &&
        syn__loose_find(syn__pt_outputs(n), "strides").bytes != 0)
        return SYN_OK;
    return SYN_FAIL(h->c->err, SYN_E_FORMAT,
                    "%.200s: the reference linker stops here: \"KeyError: 'strides'\" in node "
                    "%llu",
                    h->c->host->input->name, (unsigned long long)n->id);
}

static syn_status check_node(const hosts *h, const syn__pt_host_node *n, bool flat, bool strides) {
    const char *file = h->c->host->input->name;
    const char *missing = n->inputs_bytes == 0                 ? "inputs"
                          : n->outputs_bytes == 0              ? "outputs"
                          : (n->has & SYN__PT_HAS_PARENT) == 0 ? (flat ? "parent" : "ctrl_deps")
                                                               : NULL;
    if (missing)
        return SYN_FAIL(h->c->err, SYN_E_FORMAT,
                        "%.200s: the reference linker stops here: \"KeyError: '%s'\" in node %llu",
                        file, missing, (unsigned long long)n->id);
    if (!flat && (n->has & SYN__PT_HAS_ALL_ATTRS) != SYN__PT_HAS_ALL_ATTRS)
        return SYN_FAIL(h->c->err, SYN_E_FORMAT,
                        "%.200s: the reference linker stops here: \"ValueError: not enough "
                        "values to unpack\", because node %llu lacks one of rf_id, fw_parent, "
                        "seq_id, scope, tid, fw_tid, op_schema",
                        file, (unsigned long long)n->id);
    return strides ? check_strides(h, n) : SYN_OK;
}

/* Checks what PARAM's reader requires of a host trace. */
static syn_status check_host(const hosts *h) {
    static const char *const schemas[] = {"\"1.0.1\"",
                                          "\"1.0.2-chakra.0.0.4\"",
                                          "\"1.0.3-chakra.0.0.4\"",
                                          "\"1.0.4-chakra.0.0.4\"",
                                          "\"1.1.0-chakra.0.0.4\"",
                                          "\"1.1.1-chakra.0.0.4\""};
    const size_t n_schemas = sizeof schemas / sizeof schemas[0];
    const syn__str schema = h->c->host->schema;
    size_t which = 0;
    while (which < n_schemas && !syn__str_is(schema, schemas[which])) which++;
    if (which == n_schemas)
        return SYN_FAIL(
            h->c->err, SYN_E_FORMAT,
            "%.200s: the reference linker stops here: \"No corresponding node creation "
            "function found for schema version %.*s\"; without --compat it is read by its keys",
            h->c->host->input->name, (int)(schema.bytes < 40 ? schema.bytes : 40), schema.text);
    for (size_t i = 0; i < h->n; i++)
        SYN_TRY(check_node(h, &h->nodes[i], which == 0, which == n_schemas - 1));
    if (syn__pt_map_get(&h->last, 1) == SYN__PT_NONE)
        return SYN_FAIL(h->c->err, SYN_E_FORMAT,
                        "%.200s: the reference linker stops here: \"KeyError: 1\", because the "
                        "trace has no node 1, the process",
                        h->c->host->input->name);
    return SYN_OK;
}

enum { UNKNOWN, ON_PATH, BELOW_ROOT, APART };

/* The node's parent; SYN__PT_NONE at the top. */
static uint32_t parent_of(const hosts *h, uint32_t node) {
    const syn__pt_host_node *n = &h->nodes[node];
    if (n->id == 1 || n->parent == n->id) return SYN__PT_NONE;
    return syn__pt_map_get(&h->last, n->parent);
}

/* Checks a cycle of parents. PARAM loops forever on it, unless the cycle has a DataLoader. */
static syn_status check_circle(const hosts *h, uint32_t node) {
    uint32_t at = node;
    do {
        const syn__str name = syn__pt_host_name(h->c->host, h->nodes[at].name);
        if (syn__str_has(name, "DataLoader")) return SYN_OK;
        at = parent_of(h, at);
    } while (at != node);
    return SYN_FAIL(
        h->c->err, SYN_E_FORMAT,
        "%.200s: the reference linker never terminates here, because node %llu is its own "
        "ancestor; without --compat the cycle is cut",
        h->c->host->input->name, (unsigned long long)h->nodes[node].id);
}

/* Determines whether node 1, the process, is an ancestor of the node. */
static syn_status reach_root(hosts *h, uint32_t node) {
    uint32_t at = node;
    while (at != SYN__PT_NONE && h->state[at] == UNKNOWN) {
        h->state[at] = ON_PATH;
        if (h->nodes[at].id == 1) h->state[at] = BELOW_ROOT;
        else at = parent_of(h, at);
    }
    if (at != SYN__PT_NONE && h->state[at] == ON_PATH) SYN_TRY(check_circle(h, at));
    const bool below = at != SYN__PT_NONE && h->state[at] == BELOW_ROOT;
    for (at = node; at != SYN__PT_NONE && h->state[at] == ON_PATH; at = parent_of(h, at))
        h->state[at] = below ? BELOW_ROOT : APART;
    return SYN_OK;
}

static syn_status index_hosts(hosts *h) {
    uint64_t *keys = syn__compat_array(h->c, h->n, sizeof *keys);
    if (keys == NULL) return SYN_E_NOMEM;
    for (size_t i = 0; i < h->n; i++) {
        keys[i] = syn__pt_i64_key((int64_t)h->nodes[i].id);
        uint32_t *last = syn__pt_map_put(&h->last, h->nodes[i].id);
        if (last == NULL) {
            syn_free(keys);
            return no_memory(h->c);
        }
        h->repeated = h->repeated || *last != SYN__PT_NONE;
        *last = (uint32_t)i;
    }
    const syn_status s = syn__pt_sort(keys, h->n, &h->by_id, h->c->err);
    syn_free(keys);
    return s;
}

static syn_status index_ops(hosts *h) {
    for (size_t i = 0; i < h->c->n_ops; i++) {
        if (!h->c->ops[i].has_rf_id) continue;
        uint32_t *last = syn__pt_map_put(&h->rf_ids, h->c->ops[i].rf_id);
        if (last == NULL) return no_memory(h->c);
        *last = (uint32_t)i;
    }
    return SYN_OK;
}

/* Assigns ops to host nodes by rf_id, in order of node id. */
static syn_status match_hosts(hosts *h) {
    syn__compat_op *ops = h->c->ops;
    for (size_t i = 0; i < h->n; i++) {
        const uint32_t node = h->by_id[i];
        const syn__pt_host_node *n = &h->nodes[node];
        h->op[node] = h->dep[node] = SYN__PT_NONE;
        if (h->repeated && syn__pt_map_get(&h->last, n->id) != node) continue;
        SYN_TRY(reach_root(h, node));
        if (h->state[node] != BELOW_ROOT || !(n->has & SYN__PT_HAS_RF_ID)) continue;
        const uint32_t op = syn__pt_map_get(&h->rf_ids, n->rf_id);
        if (op == SYN__PT_NONE) continue;
        h->op[node] = op;
        ops[op].host = node;
        const uint32_t before =
            ops[op].dep != 0 ? syn__pt_map_get(&h->rf_ids, ops[op].dep) : SYN__PT_NONE;
        if (before != SYN__PT_NONE) h->dep[node] = ops[before].host;
    }
    return SYN_OK;
}

/* ---- The merged list ---- */

static syn_status add_merged(hosts *h, const syn__pt_merged *merged) {
    syn__pt_merged_list *l = h->out;
    if (l->n_nodes == MAX_MERGED)
        return SYN_FAIL(h->c->err, SYN_E_UNSUPPORTED,
                        "%.200s: linked as the reference does, the trace has more than %zu nodes, "
                        "because ops share their External ids",
                        h->c->host->input->name, MAX_MERGED);
    SYN_TRY(syn_grow(&l->nodes, &l->nodes_cap, l->n_nodes + 1, sizeof *l->nodes, h->c->err));
    l->nodes[l->n_nodes++] = *merged;
    return SYN_OK;
}

/* Gets the new id of an old id. *fresh: whether this call created it. */
static syn_status new_id(hosts *h, uint64_t old, uint32_t *id, bool *fresh) {
    uint32_t *at = syn__pt_map_put(&h->new_ids, old);
    if (at == NULL) return no_memory(h->c);
    *fresh = *at == SYN__PT_NONE;
    if (*fresh) *at = h->next_id++;
    *id = *at;
    return SYN_OK;
}

static syn_status add_work(hosts *h, const syn__pt_merged *cpu, const syn__compat_op *op) {
    const syn__compat *c = h->c;
    uint32_t at = syn__pt_map_get(&c->groups, (uint64_t)op->external_id);
    for (; at != SYN__PT_NONE; at = c->next_gpu[at]) {
        const syn__pt_event *e = &c->device->events[c->gpu[at]];
        const bool dur_int = is_integer(e, SYN__PT_EVENT_DUR, SYN__PT_EVENT_DUR_INT);
        syn__pt_merged work = *cpu;
        work.id = h->next_id++;
        work.parent = cpu->id;
        work.event = c->gpu[at];
        work.inclusive = work.exclusive = e->dur;
        work.ts = e->ts;
        work.ints = dur_int ? SYN__PT_INCLUSIVE_INT | SYN__PT_EXCLUSIVE_INT : 0;
        if (is_integer(e, SYN__PT_EVENT_TS, SYN__PT_EVENT_TS_INT)) work.ints |= SYN__PT_TS_INT;
        SYN_TRY(add_merged(h, &work));
    }
    return SYN_OK;
}

static syn_status add_host(hosts *h, uint32_t node) {
    const uint64_t old = h->nodes[node].id;
    const uint32_t last = h->repeated ? syn__pt_map_get(&h->last, old) : node;
    const uint32_t match = h->op[last], dep = h->dep[last];
    syn__pt_merged m = {.parent = SYN__PT_NONE,
                        .host = node,
                        .event = SYN__PT_NONE,
                        .cpu_event = SYN__PT_NONE,
                        .inter_thread_dep = SYN__PT_NONE};
    bool fresh = false;
    SYN_TRY(new_id(h, old, &m.id, &fresh));
    const syn__compat_op *op = match != SYN__PT_NONE ? &h->c->ops[match] : NULL;
    if (op != NULL) {
        m.cpu_event = op->event;
        m.inclusive = op->dur;
        m.exclusive = op->exclusive;
        m.ts = op->ts;
        m.ints = (op->dur_int ? SYN__PT_INCLUSIVE_INT : 0u) |
                 (op->exclusive_int ? SYN__PT_EXCLUSIVE_INT : 0u) |
                 (op->ts_int ? SYN__PT_TS_INT : 0u);
        if (dep != SYN__PT_NONE)
            m.inter_thread_dep = syn__pt_map_get(&h->new_ids, h->nodes[dep].id);
    }
    SYN_TRY(add_merged(h, &m));
    return op != NULL && fresh ? add_work(h, &m, op) : SYN_OK;
}

/* Sorts the merged list by new id. Nodes with the same old id have the same new id and must be
   adjacent. */
static syn_status sort_merged(hosts *h) {
    syn__pt_merged_list *l = h->out;
    uint32_t *order = NULL;
    uint64_t *keys = syn__compat_array(h->c, l->n_nodes, sizeof *keys);
    if (keys == NULL) return SYN_E_NOMEM;
    for (size_t i = 0; i < l->n_nodes; i++) keys[i] = l->nodes[i].id;
    const syn_status s = syn__pt_sort(keys, l->n_nodes, &order, h->c->err);
    if (s == SYN_OK) syn__pt_permute(l->nodes, sizeof *l->nodes, order, l->n_nodes);
    syn_free(order);
    syn_free(keys);
    return s;
}

static syn_status merge(hosts *h) {
    for (size_t i = 0; i < h->n; i++) SYN_TRY(add_host(h, h->by_id[i]));
    if (h->repeated) SYN_TRY(sort_merged(h));
    for (size_t i = 0; i < h->out->n_nodes; i++) {
        syn__pt_merged *m = &h->out->nodes[i];
        const syn__pt_host_node *n = &h->nodes[m->host];
        bool fresh = false;
        if (m->event == SYN__PT_NONE && (n->has & SYN__PT_HAS_PARENT) &&
            !(n->has & SYN__PT_HAS_FLAT))
            SYN_TRY(new_id(h, n->parent, &m->parent, &fresh));
    }
    return SYN_OK;
}

static syn_status read_hosts(hosts *h) {
    h->op = syn__compat_array(h->c, h->n, sizeof *h->op);
    h->dep = syn__compat_array(h->c, h->n, sizeof *h->dep);
    h->state = syn_calloc(h->n + 1, 1);
    if (!h->op || !h->dep || !h->state) return no_memory(h->c);
    SYN_TRY(index_hosts(h));
    SYN_TRY(check_host(h));
    SYN_TRY(read_device(h->c));
    SYN_TRY(index_ops(h));
    SYN_TRY(match_hosts(h));
    return merge(h);
}

syn_status syn__pt_compat_link(const syn__pt_host *host, const syn__pt_device *device,
                               syn__pt_merged_list *out, syn_error *err) {
    syn__compat c = {.host = host, .device = device, .err = err};
    hosts h = {.c = &c, .nodes = host->nodes, .n = host->n_nodes, .out = out};
    *out = (syn__pt_merged_list){0};
    const syn_status s = read_hosts(&h);
    syn__pt_map_free(&h.last);
    syn__pt_map_free(&h.rf_ids);
    syn__pt_map_free(&h.new_ids);
    syn_free(h.by_id);
    syn_free(h.op);
    syn_free(h.dep);
    syn_free(h.state);
    syn__pt_map_free(&c.threads);
    syn__pt_map_free(&c.groups);
    syn_free(c.ops);
    syn_free(c.by_thread);
    syn_free(c.first_of);
    syn_free(c.gpu);
    syn_free(c.next_gpu);
    return s;
}
