/* Finds the dependencies that a linked trace lists: dependencies on ops of other threads, and on
   device work for which the host waited. */
#include "export/pytorch/deps/pt_edge_finders.h"
#include "export/pytorch/read/pt_events.h"

static syn_status put_id(const syn__pt_connector *c, syn__pt_map *ops, uint64_t id, uint32_t op,
                         bool again) {
    uint32_t *at = syn__pt_map_put(ops, id);
    if (!at) return SYN_FAIL_NOMEM(c->err, ops->n * 16, "node ids");
    if (*at == SYN__PT_NONE || again) *at = op;
    return SYN_OK;
}

/* Fills the map from ids to ops. If several host nodes have the same id, options->same_ids says
   which of them keeps it. Device work takes precedence over host nodes. */
static syn_status list_ids(const syn__pt_connector *c, syn__pt_map *ops) {
    const syn__pt_rank *r = c->rank;
    const bool last = c->options->same_ids == SYN_PYTORCH_LAST_KEEPS;
    for (uint32_t i = 0; i < r->n_ops; i++)
        if (!syn__pt_is_device(&r->ops[i]) && r->ops[i].host != SYN__PT_NONE)
            SYN_TRY(put_id(c, ops, r->host.nodes[r->ops[i].host].id, i, last));
    for (uint32_t i = 0; i < r->device.n_events; i++) {
        const syn__pt_event *e = &r->device.events[i];
        const syn__str text = {e->text, e->text_bytes};
        uint64_t id = 0;
        if (syn__pt_is_gpu(e) && syn__loose_u64(syn__loose_find(text, "id"), &id))
            SYN_TRY(put_id(c, ops, id, r->event_op[i], true));
    }
    return SYN_OK;
}

static syn_status add_edge(syn__pt_connector *c, const syn__pt_map *ops, uint64_t id, uint32_t to,
                           syn_pytorch_edge_class class_) {
    const uint32_t from = syn__pt_map_get(ops, id);
    if (from == SYN__PT_NONE || c->rank->ops[from].event == SYN__PT_NONE) return SYN_OK;
    return syn__pt_add_edge(c, from, to, class_);
}

static syn_status add_edges(syn__pt_connector *c, const syn__pt_map *ops, uint32_t to) {
    const syn__pt_host *host = &c->rank->host;
    const syn__pt_linked *l = &host->linked[host->nodes[c->rank->ops[to].host].linked];
    syn__loose list;
    syn__str text;
    if (l->inter_thread_dep != 0)
        SYN_TRY(add_edge(c, ops, l->inter_thread_dep, to, SYN_PYTORCH_EDGE_THREAD));
    if (!syn__loose_open_array(&list, l->sync_dep)) return SYN_OK;
    while (syn__loose_element(&list)) {
        uint64_t id = 0;
        if (syn__loose_skip(&list, &text) == SYN__LOOSE_NUMBER && syn__loose_u64(text, &id))
            SYN_TRY(add_edge(c, ops, id, to, SYN_PYTORCH_EDGE_SYNC));
    }
    return SYN_OK;
}

syn_status syn__pt_find_linked(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    syn__pt_map ops = {0}; /* id -> op */
    if (r->host.n_linked == 0) return SYN_OK;
    syn_status s = list_ids(c, &ops);
    for (uint32_t i = 0; i < r->n_ops && s == SYN_OK; i++) {
        const syn__pt_op *op = &r->ops[i];
        if (!syn__pt_is_device(op) && op->host != SYN__PT_NONE &&
            r->host.nodes[op->host].linked != SYN__PT_NONE)
            s = add_edges(c, &ops, i);
    }
    syn__pt_map_free(&ops);
    return s;
}
