/* Computes the hash of a trace. Numbers are hashed instead of rows, so that dropping rows does not
   change the hash. */
#include <string.h>

#include "syntorch/trace_private.h"

/* Hashes the attributes of a node, except seeds. Lists are last, so the first list and all values
   after it are hashed at once. */
static uint64_t hash_attrs(const syn_trace *trace, const syn_trace_node *n, uint64_t h) {
    const syn_attr *attr = syn_intern_get(&trace->blobs, n->attrs);
    size_t left = syn_intern_entry_bytes(&trace->blobs, n->attrs) / sizeof *attr;
    for (const char *type = syn_trace_op(trace, n)->attrs; left > 0; attr++, left--) {
        type = strchr(type, ':') + 1;
        if (*type == 'l') return syn_hash(attr, left * sizeof *attr, h);
        if (*type != 's') h = syn_hash(attr, sizeof *attr, h);
    }
    return h;
}

/* Hashes a tensor row. Interned entries are hashed by content, because their ids may change. */
static uint64_t hash_tensor(const syn_trace *trace, uint32_t row, uint64_t h) {
    const syn_trace_tensor *t = &trace->tensors[row];
    const uint32_t fixed[4] = {syn_trace_tensor_number(trace, t->base),
                               t->flags & SYN_TENSOR_GRAPH_FLAGS,
                               syn_intern_hash(&trace->specs, t->spec),
                               t->name ? syn_intern_hash(&trace->texts, t->name - 1) : 0};
    return syn_hash(fixed, sizeof fixed, h);
}

static uint64_t hash_node(const syn_trace *trace, uint32_t row, uint64_t h) {
    const syn_trace_node *n = &trace->nodes[row];
    enum { FIXED = 9 };
    uint32_t words[FIXED + SYN_MAX_INPUTS] = {n->op,
                                              n->phase,
                                              n->stream,
                                              syn_trace_step_of(trace, row),
                                              n->n_in,
                                              n->n_out,
                                              syn_trace_tensor_number(trace, n->first_out),
                                              syn_intern_hash(&trace->texts, n->scope),
                                              syn_intern_hash(&trace->texts, n->label)};
    for (uint32_t i = 0; i < n->n_in; i++)
        words[FIXED + i] = syn_trace_tensor_number(trace, trace->inputs[n->first_in + i]);
    h = syn_hash(words, (FIXED + (size_t)n->n_in) * sizeof *words, h);
    if (n->attrs) h = hash_attrs(trace, n, h);
    if (!n->group) return h;
    const syn_group *g = &trace->groups[n->group - 1];
    h = syn_hash(&g->id, sizeof g->id, h);
    return syn_hash(g->ranks, (size_t)g->size * sizeof *g->ranks, h);
}

struct syn_trace_hash_state syn__trace_hash_rows(const syn_trace *trace) {
    struct syn_trace_hash_state h = trace->hashed;
    for (; h.next_tensor < trace->n_tensors; h.next_tensor++)
        h.tensors = hash_tensor(trace, h.next_tensor, h.tensors);
    for (; h.next_node < trace->n_nodes; h.next_node++)
        h.nodes = hash_node(trace, h.next_node, h.nodes);
    return h;
}

uint64_t syn_trace_hash(const syn_trace *trace) {
    if (trace->unhashed) return 0;
    const struct syn_trace_hash_state h = syn__trace_hash_rows(trace);
    const uint64_t all[3] = {h.tensors, h.nodes, trace->step};
    return syn_hash(all, sizeof all, 0);
}
