/* Adds ops that the observer did not record if Kineto wrote no record function ids (PyTorch before
   2.3). This works only for the ops of gloo and similar libraries. If the device trace has one op
   for each call of a kind, and the host trace has fewer ops, the ops that ended last are missing.
   The first op belongs to the first call, the second op to the second call, and so on. */
#include "export/pytorch/rank/pt_host_made.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

/* Library ops and calls of one kind. */
typedef struct lists {
    uint32_t *events, *calls; /* in the order in which they began */
    size_t n_events, n_calls, n_recorded;
} lists;

static bool is_library_op(syn__str name, int kind) {
    return syn__pt_is_library_call(name) && !syn__str_begins(name, "nccl:") &&
           syn__pt_call_kind(name) == kind;
}

static void list_events(const syn__pt_rank *rank, int kind, lists *l) {
    const syn__pt_device *d = &rank->device;
    l->n_events = 0;
    for (uint32_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        if (syn__pt_is_cpu(e) && (e->flags & SYN__PT_EVENT_TS) != 0 &&
            is_library_op(syn__pt_device_name(d, e->name), kind))
            l->events[l->n_events++] = i;
    }
}

/* Lists the calls of a kind, ordered by id, because the observer assigns ids when ops begin. */
static syn_status list_calls(const syn__pt_rank *rank, int kind, lists *l, uint64_t *keys,
                             syn_error *err) {
    const syn__pt_host *h = &rank->host;
    uint32_t *order;
    l->n_calls = l->n_recorded = 0;
    for (uint32_t i = 0; i < h->n_nodes; i++) {
        const syn__str name = syn__pt_host_name(h, h->nodes[i].name);
        if (is_library_op(name, kind)) l->n_recorded++;
        if (!syn__str_begins(name, "c10d::") || syn__pt_call_kind(name) != kind) continue;
        keys[l->n_calls] = h->nodes[i].id;
        l->calls[l->n_calls++] = i;
    }
    SYN_TRY(syn__pt_sort(keys, l->n_calls, &order, err));
    for (size_t i = 0; i < l->n_calls; i++) order[i] = l->calls[order[i]];
    if (l->n_calls > 0) memcpy(l->calls, order, l->n_calls * sizeof *order);
    syn_free(order);
    return SYN_OK;
}

/* Whether the event at index `at` is one of the n events that end last. */
static bool ends_late(const syn__pt_device *d, const lists *l, size_t at, size_t n) {
    const int64_t end_ns = syn__pt_event_end(&d->events[l->events[at]]);
    size_t later = 0;
    for (size_t i = 0; i < l->n_events && later < n; i++) {
        const int64_t other_ns = syn__pt_event_end(&d->events[l->events[i]]);
        later += other_ns > end_ns || (other_ns == end_ns && i > at);
    }
    return later < n;
}

static syn_status add_kind(syn__pt_rank *rank, int kind, lists *l, uint64_t *keys, syn_error *err) {
    list_events(rank, kind, l);
    if (l->n_events == 0) return SYN_OK;
    SYN_TRY(list_calls(rank, kind, l, keys, err));
    if (l->n_events != l->n_calls || l->n_recorded >= l->n_calls) return SYN_OK;
    for (size_t i = 0; i < l->n_events; i++) {
        if (!ends_late(&rank->device, l, i, l->n_calls - l->n_recorded)) continue;
        const syn__pt_host_node *call = &rank->host.nodes[l->calls[i]];
        const uint64_t rf_id = call->rf_id + 1; /* the next id, because the call creates the library
                                                   op */
        SYN_TRY(syn__pt_add_made(rank, l->events[i], call->id, call->tid, rf_id, err));
    }
    return SYN_OK;
}

syn_status syn__pt_add_missing_by_name(syn__pt_rank *rank, syn_error *err) {
    static const int others[] = {SYN__PT_CALL_BARRIER, SYN__PT_CALL_SEND, SYN__PT_CALL_RECV};
    const size_t n_nodes = rank->host.n_nodes + 1, n_events = rank->device.n_events + 1;
    lists l = {.events = syn_malloc(n_events * sizeof *l.events),
               .calls = syn_malloc(n_nodes * sizeof *l.calls)};
    uint64_t *keys = syn_malloc(n_nodes * sizeof *keys);
    syn_status s =
        l.events && l.calls && keys ? SYN_OK : SYN_FAIL_NOMEM(err, n_nodes * 12, "library calls");
    for (int k = SYN__PT_CALL_ALL_REDUCE; k <= SYN__PT_CALL_REDUCE_SCATTER && s == SYN_OK; k++)
        s = add_kind(rank, k, &l, keys, err);
    for (size_t i = 0; i < sizeof others / sizeof others[0] && s == SYN_OK; i++)
        s = add_kind(rank, others[i], &l, keys, err);
    syn_free(l.events);
    syn_free(l.calls);
    syn_free(keys);
    return s;
}
