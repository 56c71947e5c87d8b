/* Adds CPU ops that Kineto recorded but ExecutionTraceObserver did not. The observer writes an op
   when it ends, so an op that was still running when the observer was stopped is only in the device
   trace. This happens most often to the ops of gloo, which end last. Record function ids prove that
   an op is missing. They increase in the order in which ops began.
   Ops that began outside of the time that both traces cover belong to another step. The kernels of
   such steps are kept (pt_launch.c), so communication of libraries that run on the host is kept,
   too. */
#include "export/pytorch/rank/pt_host_missing.h"

#include "export/pytorch/rank/pt_host_made.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define LONG_NS  1000000 /* ops of any kind that are at least this long are added */
#define MAX_LOOK 256     /* maximum number of ops searched for the caller of a library op */

typedef struct finder {
    syn__pt_rank *rank;
    syn_error *err;
    syn__pt_map by_rf_id; /* record function id -> host node */
    syn__pt_map tids;     /* tid of events -> index into host_tids */
    uint64_t *host_tids;
    size_t n_tids, tids_cap;
    uint64_t next_tid;         /* tid for the next thread that the host trace lacks */
    int64_t first_ns, last_ns; /* time that both traces cover */
    bool has_ids;              /* whether events have record function ids */
    uint32_t *by_order;        /* host nodes with record function ids, ordered by these ids */
    size_t n_by_order;
} finder;

static bool has_rf_id(const syn__pt_host_node *n) {
    return (n->has & SYN__PT_HAS_RF_ID) != 0 && n->rf_id != 0;
}

static bool is_op(const syn__pt_event *e) {
    return syn__pt_is_cpu(e) && (e->flags & SYN__PT_EVENT_RF_ID) != 0 && e->rf_id != 0 &&
           (e->flags & SYN__PT_EVENT_TS) != 0;
}

static syn__str name_of(const finder *f, const syn__pt_event *e) {
    return syn__pt_device_name(&f->rank->device, e->name);
}

static bool same_name(const finder *f, uint32_t node, const syn__pt_event *e) {
    const syn__str a = syn__pt_host_name(&f->rank->host, f->rank->host.nodes[node].name);
    const syn__str b = name_of(f, e);
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

/* ---- What both traces contain ---- */

static syn_status index_nodes(finder *f) {
    const syn__pt_host *h = &f->rank->host;
    for (uint32_t i = 0; i < h->n_nodes; i++) {
        if (h->nodes[i].tid >= f->next_tid) f->next_tid = h->nodes[i].tid + 1;
        if (!has_rf_id(&h->nodes[i])) continue;
        uint32_t *at = syn__pt_map_put(&f->by_rf_id, h->nodes[i].rf_id);
        if (!at) return SYN_FAIL_NOMEM(f->err, h->n_nodes * 16, "record function ids");
        if (*at == SYN__PT_NONE) *at = i;
    }
    return SYN_OK;
}

static syn_status put_tid(finder *f, uint32_t tid, uint64_t host_tid) {
    uint32_t *at = syn__pt_map_put(&f->tids, tid);
    if (!at) return SYN_FAIL_NOMEM(f->err, f->tids.n * 16, "threads");
    if (*at != SYN__PT_NONE) return SYN_OK;
    SYN_TRY(syn_grow(&f->host_tids, &f->tids_cap, f->n_tids + 1, sizeof *f->host_tids, f->err));
    *at = (uint32_t)f->n_tids;
    f->host_tids[f->n_tids++] = host_tid;
    return SYN_OK;
}

/* Compares the traces. *sure: whether the ids of both are from the same run, by the rule of
   pt_match.c. Also collects the pairs of thread ids and the time that both traces cover. This
   ignores ops of libraries, because the host trace gives these ops the thread of their caller. */
static syn_status compare(finder *f, bool *sure) {
    const syn__pt_device *d = &f->rank->device;
    uint64_t agree = 0, differ = 0;
    f->first_ns = INT64_MAX;
    f->last_ns = INT64_MIN;
    for (uint32_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        if (!is_op(e)) continue;
        f->has_ids = true;
        const uint32_t node = syn__pt_map_get(&f->by_rf_id, e->rf_id);
        if (node == SYN__PT_NONE) continue;
        const bool same = same_name(f, node, e);
        *(same ? &agree : &differ) += 1;
        if (!same || syn__pt_is_library_call(name_of(f, e))) continue;
        SYN_TRY(put_tid(f, e->tid, f->rank->host.nodes[node].tid));
        if (e->ts_ns < f->first_ns) f->first_ns = e->ts_ns;
        if (syn__pt_event_end(e) > f->last_ns) f->last_ns = syn__pt_event_end(e);
    }
    *sure = agree > 0 && differ * 4 <= agree;
    return SYN_OK;
}

/* ---- Missing ops ---- */

static bool is_missing(const finder *f, const syn_pytorch_options *options,
                       const syn__pt_event *e) {
    if (!is_op(e) || syn__pt_map_get(&f->by_rf_id, e->rf_id) != SYN__PT_NONE) return false;
    const syn__str name = name_of(f, e);
    if (e->ts_ns >= f->first_ns && e->ts_ns <= f->last_ns)
        return syn__pt_is_call(name) || (e->class_ != SYN__PT_STEP && e->dur_ns >= LONG_NS);
    return !options->trim && syn__pt_is_library_call(name) && !syn__str_begins(name, "nccl:");
}

static syn_status sort_nodes(finder *f) {
    const syn__pt_host *h = &f->rank->host;
    uint64_t *keys = syn_malloc((h->n_nodes + 1) * sizeof *keys);
    uint32_t *nodes = syn_malloc((h->n_nodes + 1) * sizeof *nodes), *order = NULL;
    syn_status s = keys && nodes ? SYN_OK : SYN_FAIL_NOMEM(f->err, h->n_nodes * 12, "ids");
    for (uint32_t i = 0; s == SYN_OK && i < h->n_nodes; i++) {
        if (!has_rf_id(&h->nodes[i])) continue;
        nodes[f->n_by_order] = i;
        keys[f->n_by_order++] = h->nodes[i].rf_id;
    }
    if (s == SYN_OK) s = syn__pt_sort(keys, f->n_by_order, &order, f->err);
    for (size_t i = 0; s == SYN_OK && i < f->n_by_order; i++) order[i] = nodes[order[i]];
    syn_free(keys);
    syn_free(nodes);
    f->by_order = order;
    return s;
}

/* The number of entries of by_order that began before the op with this id. */
static size_t begun_before(const finder *f, uint64_t rf_id) {
    size_t low = 0, high = f->n_by_order;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (f->rank->host.nodes[f->by_order[mid]].rf_id < rf_id) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The node that called a library op: the latest of the first `begun` nodes that is a call of
   communication. */
static const syn__pt_host_node *find_caller(const finder *f, size_t begun) {
    const syn__pt_host *h = &f->rank->host;
    for (size_t i = begun; i > 0 && begun - i < MAX_LOOK; i--) {
        const syn__pt_host_node *n = &h->nodes[f->by_order[i - 1]];
        const syn__str name = syn__pt_host_name(h, n->name);
        if (syn__pt_is_call(name) && !syn__pt_is_library_call(name)) return n;
    }
    return NULL;
}

/* Finds the tid of an op in the host trace. The host trace has no tids for threads of libraries,
   because no other ops run there; their ops get the tid of their caller. */
static syn_status tid_of(finder *f, const syn__pt_event *e, size_t begun, uint64_t *tid) {
    uint32_t at = syn__pt_map_get(&f->tids, e->tid);
    const bool concurrent = at == SYN__PT_NONE && syn__pt_is_library_call(name_of(f, e));
    const syn__pt_host_node *caller = concurrent ? find_caller(f, begun) : NULL;
    if (caller) {
        *tid = caller->tid;
        return SYN_OK;
    }
    if (at == SYN__PT_NONE) {
        at = (uint32_t)f->n_tids;
        SYN_TRY(put_tid(f, e->tid, f->next_tid++));
    }
    *tid = f->host_tids[at];
    return SYN_OK;
}

/* ---- Nodes ---- */

static syn_status add_node(finder *f, uint32_t event) {
    const syn__pt_host *h = &f->rank->host;
    const syn__pt_event *e = &f->rank->device.events[event];
    const size_t begun = begun_before(f, e->rf_id);
    uint64_t tid;
    SYN_TRY(tid_of(f, e, begun, &tid));
    const uint64_t id = h->nodes[begun > 0 ? f->by_order[begun - 1] : 0].id;
    return syn__pt_add_made(f->rank, event, id, tid, e->rf_id, f->err);
}

static syn_status add_missing(finder *f, const syn_pytorch_options *options) {
    const syn__pt_device *d = &f->rank->device;
    size_t n_missing = 0;
    bool sure = false;
    SYN_TRY(index_nodes(f));
    SYN_TRY(compare(f, &sure));
    if (!f->has_ids) return syn__pt_add_missing_by_name(f->rank, f->err);
    for (uint32_t i = 0; sure && i < d->n_events; i++)
        n_missing += is_missing(f, options, &d->events[i]);
    if (n_missing == 0) return SYN_OK;
    SYN_TRY(sort_nodes(f));
    for (uint32_t i = 0; i < d->n_events; i++)
        if (is_missing(f, options, &d->events[i])) SYN_TRY(add_node(f, i));
    return SYN_OK;
}

syn_status syn__pt_add_missing(syn__pt_rank *rank, const syn_pytorch_options *options,
                               syn_error *err) {
    finder f = {.rank = rank, .err = err};
    const syn_status s = rank->host.n_linked == 0 ? add_missing(&f, options) : SYN_OK;
    syn__pt_map_free(&f.by_rf_id);
    syn__pt_map_free(&f.tids);
    syn_free(f.host_tids);
    syn_free(f.by_order);
    return s;
}
