/* Collects the recorded steps of a rank in one graph. Each step is copied when it is recorded, and
   its rows are forgotten, so a step number and a phase can be given to its nodes. */
#include <string.h>

#include "models/cache_transfer.h"
#include "syntorch/base/memory.h"
#include "tools/serve/serve_traces.h"

int32_t serve_rank_of(const serve_recording *r, int32_t placed) {
    const bool second = r->sim->n_pools == 2 && placed >= r->placed[1];
    return second ? placed - r->placed[1] + r->first[1] : placed;
}

void serve_number_node(const serve_appended *how, const syn_graph *graph, syn_node *node) {
    node->id = (uint64_t)graph->ranks[0].n_nodes + 1;
    node->step = how->step;
    node->phase = how->phase;
    if (node->kind == SYN_NODE_COLLECTIVE) node->flags |= SYN_NODE_BLOCKING;
    if (node->kind != SYN_NODE_SEND && node->kind != SYN_NODE_RECV) return;
    node->peer = serve_rank_of(how->r, node->peer);
    node->stream = syn_message_stream(node->peer, node->kind == SYN_NODE_SEND);
}

bool serve_is_view(const syn_node *node) {
    return (node->flags & SYN_NODE_VIRTUAL) != 0 || strcmp(node->label, SYN__CACHE_COPY) == 0;
}

bool serve_follows_step(const serve_appended *how, uint32_t n_deps, syn_dep *dep) {
    if (n_deps > 0 || how->after == SYN_NO_NODE) return false;
    *dep = (syn_dep){how->after, SYN_DEP_CONTROL};
    return true;
}

syn_dep serve_token_dep(const serve_appended *how, uint32_t i) {
    return (syn_dep){how->first_token + i, SYN_DEP_DATA};
}

typedef struct copying {
    syn_graph *to;
    const syn_graph *from;
    const serve_appended *how;
    uint32_t nodes, tensors; /* of `to` before this step */
    syn_cursor cursor;
    uint32_t *ids; /* of a node's tensors */
    syn_dep *deps;
    size_t ids_cap, deps_cap;
    bool computes; /* a computing node was copied */
} copying;

/* Tensors that all steps have are those of the first step. */
static uint32_t tensor_of(const copying *c, uint32_t tensor) {
    const bool fixed = c->tensors == 0 || tensor < c->how->fixed;
    return fixed ? tensor : c->tensors - c->how->fixed + tensor;
}

static syn_status copy_tensors(copying *c, syn_error *err) {
    for (uint32_t i = c->tensors ? c->how->fixed : 0; i < c->from->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(c->from, 0, i, &c->cursor);
        if (!t) return *err = c->cursor.error, err->code;
        syn_graph_tensor copy = *t;
        copy.base = tensor_of(c, t->base);
        if (t->producer != SYN_NO_NODE) copy.producer += c->nodes;
        SYN_TRY(syn_graph_add_tensor(c->to, 0, &copy, err));
    }
    return SYN_OK;
}

static syn_status copy_node(copying *c, const syn_node *node, syn_error *err) {
    const uint32_t n = node->n_inputs + node->n_outputs;
    const bool is_view = serve_is_view(node), computes = node->kind == SYN_NODE_COMPUTE && !is_view;
    const uint32_t tokens = computes && !c->computes ? c->how->n_tokens : 0;
    syn_node copy = *node;
    if (is_view) copy.flags |= SYN_NODE_VIRTUAL;
    c->computes = c->computes || computes;
    copy.n_deps = tokens + node->n_deps;
    SYN_TRY(syn_grow(&c->ids, &c->ids_cap, n, sizeof *c->ids, err));
    SYN_TRY(syn_grow(&c->deps, &c->deps_cap, copy.n_deps + 1, sizeof *c->deps, err));
    for (uint32_t i = 0; i < n; i++)
        c->ids[i] =
            tensor_of(c, i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs]);
    for (uint32_t i = 0; i < tokens; i++) c->deps[i] = serve_token_dep(c->how, i);
    for (uint32_t i = 0; i < node->n_deps; i++)
        c->deps[tokens + i] = (syn_dep){node->deps[i].node + c->nodes, node->deps[i].dep_class};
    if (serve_follows_step(c->how, copy.n_deps, c->deps)) copy.n_deps = 1;
    copy.inputs = c->ids;
    copy.outputs = c->ids + node->n_inputs;
    copy.deps = c->deps;
    copy.attributes = NULL; /* execution traces do not have them */
    copy.n_attributes = 0;
    serve_number_node(c->how, c->to, &copy);
    return syn_graph_add_node(c->to, 0, &copy, err);
}

static syn_status copy_step(copying *c, syn_error *err) {
    SYN_TRY(copy_tensors(c, err));
    for (uint32_t i = 0; i < c->from->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(c->from, 0, i, &c->cursor);
        if (!node) return *err = c->cursor.error, err->code;
        SYN_TRY(copy_node(c, node, err));
    }
    return SYN_OK;
}

syn_status serve_append_step(syn_graph *graph, const syn_graph *step, const serve_appended *how,
                             syn_error *err) {
    copying c = {.to = graph,
                 .from = step,
                 .how = how,
                 .nodes = graph->ranks[0].n_nodes,
                 .tensors = graph->ranks[0].n_tensors};
    const syn_status s = copy_step(&c, err);
    syn_cursor_free(&c.cursor);
    syn_free(c.ids);
    syn_free(c.deps);
    return s;
}
