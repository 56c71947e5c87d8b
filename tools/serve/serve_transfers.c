/* KV caches on their way between replicas; see serve_transfers.h. */
#include "tools/serve/serve_transfers.h"

#include <math.h>

#include "syntorch/base/memory.h"

syn_status serve_transfers_add(serve_transfers *t, serve_transfer more, syn_error *err) {
    SYN_TRY(syn_grow(&t->at, &t->cap, t->n + 1, sizeof *t->at, err));
    size_t i = t->n++;
    for (; i > 0 && t->at[(i - 1) / 2].end_ns > more.end_ns; i = (i - 1) / 2)
        t->at[i] = t->at[(i - 1) / 2];
    t->at[i] = more;
    return SYN_OK;
}

serve_transfer serve_transfers_take(serve_transfers *t) {
    const serve_transfer first = t->at[0], last = t->at[--t->n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < t->n) {
        if (child + 1 < t->n && t->at[child + 1].end_ns < t->at[child].end_ns) child++;
        if (t->at[child].end_ns >= last.end_ns) break;
        t->at[i] = t->at[child];
        i = child;
    }
    t->at[i] = last;
    return first;
}

/* The time of a message from a rank to one on another node. */
static double message_ns(const syn_hardware *hw, double bytes) {
    const int32_t peer = hw->node_ranks > 0 ? hw->node_ranks : 1;
    const syn_node node = {.kind = SYN_NODE_SEND,
                           .op = "send",
                           .scope = "",
                           .peer = peer,
                           .comm_bytes = (uint64_t)bytes};
    return syn_hardware_predict_ns(hw, &node, NULL, 0);
}

double serve_late_ns(const serve_pool_options *from, double bytes, double step_ns) {
    const double layers = (double)from->config->n_layer, ns = message_ns(from->hw, bytes / layers);
    return fmax(ns * layers - step_ns * (layers - 1) / layers, ns);
}
