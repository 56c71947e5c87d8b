/* Makes host nodes if there is no host trace: one for each CPU op of the device trace. The parent
   of a node is the op that encloses it. Its inputs are those that Kineto records: shapes and types,
   but no tensor ids. It has no outputs. */
#include "export/pytorch/rank/pt_event_inputs.h"
#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_reading.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

typedef struct maker {
    syn__pt_rank *rank;
    syn_error *err;
    uint32_t *node;     /* per event: the node made from it */
    syn__pt_map tracks; /* "tid" as in the file -> number of the thread, from 1 */
} maker;

static syn_status make_node(maker *k, uint32_t event) {
    syn__pt_host *h = &k->rank->host;
    const syn__pt_event *e = &k->rank->device.events[event];
    const syn__str name = syn__pt_device_name(&k->rank->device, e->name);
    syn__pt_host_node *n = &h->nodes[h->n_nodes];
    uint32_t *track = syn__pt_map_put(&k->tracks, e->tid);
    if (!track) return SYN_FAIL_NOMEM(k->err, k->tracks.n * 16, "threads");
    if (*track == SYN__PT_NONE) *track = (uint32_t)k->tracks.n;
    *n = (syn__pt_host_node){.id = h->n_nodes + 1,
                             .rf_id = e->rf_id,
                             .tid = *track,
                             .text = "",
                             .has = SYN__PT_HAS_TID | SYN__PT_HAS_SEQ_ID | SYN__PT_MADE,
                             .linked = SYN__PT_NONE};
    if (e->flags & SYN__PT_EVENT_RF_ID) n->has |= SYN__PT_HAS_RF_ID;
    if (syn__pt_is_annotation(e)) {
        n->scope = SYN__PT_USER_SCOPE;
        n->has |= SYN__PT_HAS_SCOPE;
    }
    SYN_TRY(syn_intern_put(&h->names, name.text, name.bytes, &n->name, k->err));
    syn__str inputs;
    SYN_TRY(syn__pt_event_inputs(&k->rank->arena, e, &inputs, &n->seq_id, k->err));
    if (inputs.bytes > 0) n->text = inputs.text;
    n->text_bytes = n->inputs_bytes = (uint32_t)inputs.bytes;
    h->from_event[h->n_nodes] = event;
    k->node[event] = (uint32_t)h->n_nodes++;
    return SYN_OK;
}

/* Finds the callers of ops. The caller is the op that began last among the ops that end no earlier
   than the called op. If an op of a communication library ends later than its caller, it runs
   concurrently with the thread and calls nothing. */
static void find_callers(const maker *k, const uint32_t *list, size_t n, uint32_t *stack) {
    const syn__pt_event *events = k->rank->device.events;
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        const syn__pt_event *e = &events[list[i]];
        const int64_t end_ns = syn__pt_event_end(e);
        if (i > 0 && events[list[i - 1]].tid != e->tid) depth = 0;
        while (depth > 0 && syn__pt_event_end(&events[stack[depth - 1]]) <= e->ts_ns) depth--;
        if (depth > 0 && syn__pt_runs_concurrently(&k->rank->device, e,
                                                   syn__pt_event_end(&events[stack[depth - 1]])))
            continue;
        while (depth > 0 && syn__pt_event_end(&events[stack[depth - 1]]) < end_ns) depth--;
        if (depth > 0) {
            syn__pt_host_node *node = &k->rank->host.nodes[k->node[list[i]]];
            node->parent = k->rank->host.nodes[k->node[stack[depth - 1]]].id;
            node->has |= SYN__PT_HAS_PARENT;
        }
        stack[depth++] = list[i];
    }
}

static syn_status make(maker *k, uint32_t *list, uint32_t *stack) {
    const syn__pt_device *d = &k->rank->device;
    syn__pt_host *h = &k->rank->host;
    uint32_t empty;
    size_t n = 0;
    const char *kept = k->rank->device_input.data;
    SYN_TRY(syn_intern_put(&h->names, "", 0, &empty, k->err)); /* id 0: no name */
    for (uint32_t i = 0; i < d->n_events; i++)
        if (syn__pt_is_cpu(&d->events[i]) && (d->events[i].flags & SYN__PT_EVENT_TS)) list[n++] = i;
    SYN_TRY(syn__pt_sort_events(d, list, n, SYN__PT_OUTER_FIRST | SYN__PT_BY_START, k->err));
    syn__file_text_done(&k->rank->device_input, kept);
    for (size_t i = 0; i < n; i++) {
        SYN_TRY(make_node(k, list[i]));
        if (d->events[list[i]].text <= kept + SYN__PT_RELEASE_BYTES) continue;
        kept = d->events[list[i]].text;
        syn__file_text_done(&k->rank->device_input, kept);
    }
    for (uint32_t i = 0; i < d->n_events; i++) /* events that have no time */
        if (syn__pt_is_cpu(&d->events[i]) && !(d->events[i].flags & SYN__PT_EVENT_TS))
            SYN_TRY(make_node(k, i));
    SYN_TRY(syn__pt_sort_events(
        d, list, n, SYN__PT_OUTER_FIRST | SYN__PT_BY_START | SYN__PT_BY_THREAD, k->err));
    find_callers(k, list, n, stack);
    return SYN_OK;
}

syn_status syn__pt_host_from_events(syn__pt_rank *rank, syn_error *err) {
    const size_t n = rank->device.n_events;
    syn__pt_host *h = &rank->host;
    maker k = {.rank = rank, .err = err, .node = syn_malloc(n * sizeof *k.node)};
    uint32_t *list = syn_malloc(n * sizeof *list), *stack = syn_malloc(n * sizeof *stack);
    h->nodes = syn_malloc(n * sizeof *h->nodes);
    h->from_event = syn_malloc(n * sizeof *h->from_event);
    syn_status s = SYN_OK;
    if (!k.node || !list || !stack || !h->nodes || !h->from_event)
        s = SYN_FAIL_NOMEM(err, n * sizeof *h->nodes, "host nodes");
    if (s == SYN_OK) s = make(&k, list, stack);
    if (s == SYN_OK && h->n_nodes == 0 && rank->device.n_class[SYN__PT_KERNEL] == 0)
        s = SYN_FAIL(err, SYN_E_FORMAT, "%.200s has neither CPU ops nor kernels",
                     rank->device_input.name);
    syn__pt_map_free(&k.tracks);
    syn_free(k.node);
    syn_free(list);
    syn_free(stack);
    return s;
}
