/* Converts the ops of a rank to a merged list, which `syntorch link` writes as a linked trace in
   default mode. */
#include "export/pytorch/write/pt_merge_rank.h"

#include "syntorch/base/memory.h"

static void take_times(syn__pt_merged *n, const syn__pt_op *op, const syn__pt_event *e) {
    n->inclusive = e->dur;
    n->ts = e->ts;
    n->exclusive = syn__pt_is_device(op) ? e->dur : (double)op->self_ns / 1000;
    if (e->flags & SYN__PT_EVENT_DUR_INT) n->ints |= SYN__PT_INCLUSIVE_INT;
    if (e->flags & SYN__PT_EVENT_TS_INT) n->ints |= SYN__PT_TS_INT;
}

/* Collects the dependencies that a linked trace can express: the dependency on a thread that woke
   up this one, and waits of the host for the device. */
static syn_status take_deps(const syn__pt_rank *rank, const uint32_t *ids, uint32_t op,
                            syn__pt_merged *n, syn__pt_merged_list *out, syn_error *err) {
    n->inter_thread_dep = SYN__PT_NONE;
    n->first_sync = (uint32_t)out->n_syncs;
    for (size_t i = rank->first_dep[op]; i < rank->first_dep[op + 1]; i++) {
        const syn__pt_dep *d = &rank->deps[i];
        if (d->class_ == SYN_PYTORCH_EDGE_THREAD) n->inter_thread_dep = ids[d->from];
        if (d->class_ != SYN_PYTORCH_EDGE_SYNC || syn__pt_is_device(&rank->ops[op])) continue;
        SYN_TRY(syn_grow(&out->syncs, &out->syncs_cap, out->n_syncs + 1, sizeof *out->syncs, err));
        out->syncs[out->n_syncs++] = ids[d->from];
    }
    n->n_syncs = (uint32_t)(out->n_syncs - n->first_sync);
    return SYN_OK;
}

/* Makes the merged list. Device work that no op launched becomes a child of the first host node. */
static syn_status merge(const syn__pt_rank *rank, uint32_t *ids, syn__pt_merged_list *out,
                        syn_error *err) {
    const syn__pt_device *d = &rank->device;
    uint32_t next = 0, home = SYN__PT_NONE;
    for (uint32_t i = 0; i < rank->n_ops; i++) {
        const bool made_up = rank->ops[i].host == SYN__PT_NONE && !syn__pt_is_device(&rank->ops[i]);
        if (!made_up && home == SYN__PT_NONE) home = i;
        ids[i] = made_up ? SYN__PT_NONE : next++;
    }
    for (uint32_t i = 0; i < rank->n_ops; i++) {
        const syn__pt_op *op = &rank->ops[i];
        syn__pt_merged n = {.id = ids[i],
                            .parent = SYN__PT_NONE,
                            .host = op->host,
                            .event = SYN__PT_NONE,
                            .cpu_event = SYN__PT_NONE};
        if (ids[i] == SYN__PT_NONE) continue;
        if (op->parent != SYN__PT_NONE) n.parent = ids[op->parent];
        if (n.parent == SYN__PT_NONE) n.parent = n.id; /* roots are their own parents */
        if (n.host == SYN__PT_NONE) {
            n.host = rank->ops[home].host;
            n.parent = ids[home];
        }
        if (syn__pt_is_device(op)) n.event = op->event;
        else n.cpu_event = op->event;
        if (op->event != SYN__PT_NONE) take_times(&n, op, &d->events[op->event]);
        SYN_TRY(take_deps(rank, ids, i, &n, out, err));
        SYN_TRY(syn_grow(&out->nodes, &out->nodes_cap, out->n_nodes + 1, sizeof *out->nodes, err));
        out->nodes[out->n_nodes++] = n;
    }
    return SYN_OK;
}

syn_status syn__pt_merge_rank(const syn__pt_rank *rank, syn__pt_merged_list *out, syn_error *err) {
    memset(out, 0, sizeof *out);
    uint32_t *ids = syn_malloc(rank->n_ops * sizeof *ids);
    if (!ids) return SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *ids, "node ids");
    const syn_status s = merge(rank, ids, out, err);
    syn_free(ids);
    return s;
}
