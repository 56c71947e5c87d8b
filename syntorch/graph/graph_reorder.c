/* syn_graph_reordered: a view of another graph that permutes its nodes. */
#include "syntorch/graph/graph_reorder.h"

#include <string.h>

#include "syntorch/base/memory.h"

/* By index of the reordered node, except for `places`. */
struct rank_order {
    uint32_t *nodes;  /* index in the other graph */
    uint32_t *places; /* by index in the other graph: index here */
    uint32_t *comm_index;
    uint64_t *ids;
};

struct reordered {
    syn_graph *graph;
    struct rank_order *ranks;
};

/* Replaces the node's dependencies by the same ones in the new order. */
static bool move_deps(syn_cursor *cursor, const uint32_t *places) {
    const syn_node *node = &cursor->node;
    if (node->n_deps == 0) return true;
    if (node->deps != cursor->deps) {
        if (syn_grow(&cursor->deps, &cursor->deps_cap, node->n_deps, sizeof *cursor->deps,
                     &cursor->error) != SYN_OK)
            return false;
        memcpy(cursor->deps, node->deps, node->n_deps * sizeof *node->deps);
    }
    syn_dep *deps = cursor->deps;
    for (uint32_t i = 0; i < node->n_deps; i++) {
        const syn_dep dep = {places[deps[i].node], deps[i].dep_class};
        uint32_t at = i;
        for (; at > 0 && (deps[at - 1].node > dep.node || (deps[at - 1].node == dep.node &&
                                                           deps[at - 1].dep_class > dep.dep_class));
             at--)
            deps[at] = deps[at - 1];
        deps[at] = dep;
    }
    cursor->node.deps = deps;
    return true;
}

static const syn_node *reordered_node(const syn_graph *graph, uint32_t rank, uint32_t index,
                                      syn_cursor *cursor) {
    const struct reordered *r = graph->self;
    const struct rank_order *order = &r->ranks[rank];
    const syn_node *from = syn_graph_node(r->graph, rank, order->nodes[index], cursor);
    if (!from) return NULL;
    if (from != &cursor->node) cursor->node = *from;
    if (!move_deps(cursor, order->places)) return NULL;
    cursor->node.id = order->ids[index];
    cursor->node.comm_index = order->comm_index[index];
    return &cursor->node;
}

static const syn_graph_tensor *reordered_tensor(const syn_graph *graph, uint32_t rank,
                                                uint32_t tensor, syn_cursor *cursor) {
    const struct reordered *r = graph->self;
    const syn_graph_tensor *from = syn_graph_tensor_at(r->graph, rank, tensor, cursor);
    if (!from) return NULL;
    if (from != &cursor->tensor) cursor->tensor = *from;
    if (from->producer != SYN_NO_NODE)
        cursor->tensor.producer = r->ranks[rank].places[from->producer];
    return &cursor->tensor;
}

/* Frees all but the orders. */
static void free_ranks(struct reordered *r, uint32_t n) {
    for (uint32_t i = 0; r->ranks && i < n; i++) {
        syn_free(r->ranks[i].places);
        syn_free(r->ranks[i].comm_index);
        syn_free(r->ranks[i].ids);
    }
    syn_free(r->ranks);
    r->ranks = NULL;
}

static void reordered_free(syn_graph *graph) {
    struct reordered *r = graph->self;
    for (uint32_t i = 0; i < graph->n_ranks; i++) syn_free(r->ranks[i].nodes);
    free_ranks(r, graph->n_ranks);
    r->graph->metadata = graph->metadata;
    r->graph->n_metadata = graph->n_metadata;
    r->graph->metadata_cap = graph->metadata_cap;
    syn_graph_free(r->graph);
    syn_free(r);
    syn_free(graph);
}

static const syn_graph_source reordered_source = {reordered_node, reordered_tensor, reordered_free};

/* How many operations of each group were counted. Group 0 is that of messages. */
struct counters {
    uint32_t *groups, *counts;
    size_t n, groups_cap, counts_cap;
};

static syn_status count(struct counters *c, uint32_t group, uint32_t *index, syn_error *err) {
    size_t i = 0;
    while (i < c->n && c->groups[i] != group) i++;
    if (i == c->n) {
        SYN_TRY(syn_grow(&c->groups, &c->groups_cap, c->n + 1, sizeof *c->groups, err));
        SYN_TRY(syn_grow(&c->counts, &c->counts_cap, c->n + 1, sizeof *c->counts, err));
        c->groups[c->n] = group;
        c->counts[c->n++] = 0;
    }
    *index = c->counts[i]++;
    return SYN_OK;
}

static syn_status fill_rank(struct rank_order *order, const syn_graph *graph, uint32_t rank,
                            struct counters *counters, syn_cursor *cursor, syn_error *err) {
    const uint32_t n = graph->ranks[rank].n_nodes;
    order->places = syn_malloc((n + 1) * sizeof *order->places);
    order->comm_index = syn_malloc((n + 1) * sizeof *order->comm_index);
    order->ids = syn_malloc((n + 1) * sizeof *order->ids);
    if (!order->places || !order->comm_index || !order->ids)
        return SYN_FAIL_NOMEM(err, n * sizeof *order->ids, "the order of nodes");
    for (uint32_t i = 0; i < n; i++) order->places[order->nodes[i]] = i;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *at = syn_graph_node(graph, rank, i, cursor);
        if (!at) return *err = cursor->error, err->code;
        order->ids[i] = at->id;
        const syn_node *node = syn_graph_node(graph, rank, order->nodes[i], cursor);
        if (!node) return *err = cursor->error, err->code;
        order->comm_index[i] = node->comm_index;
        if (node->kind == SYN_NODE_COLLECTIVE || node->kind == SYN_NODE_SEND ||
            node->kind == SYN_NODE_RECV)
            SYN_TRY(count(counters, node->kind == SYN_NODE_COLLECTIVE ? node->group : 0,
                          &order->comm_index[i], err));
    }
    return SYN_OK;
}

static syn_status fill(struct reordered *r, uint32_t *const *orders, syn_error *err) {
    const syn_graph *graph = r->graph;
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    r->ranks = syn_calloc(graph->n_ranks, sizeof *r->ranks);
    if (!r->ranks) return SYN_FAIL_NOMEM(err, graph->n_ranks * sizeof *r->ranks, "a graph");
    for (uint32_t rank = 0; rank < graph->n_ranks && s == SYN_OK; rank++) {
        struct counters counters = {0};
        r->ranks[rank].nodes = orders[rank];
        s = fill_rank(&r->ranks[rank], graph, rank, &counters, &cursor, err);
        syn_free(counters.groups);
        syn_free(counters.counts);
    }
    syn_cursor_free(&cursor);
    return s;
}

syn_status syn_graph_reordered(syn_graph **out, syn_graph *graph, uint32_t *const *orders,
                               syn_error *err) {
    syn_graph *g = syn_malloc(sizeof *g);
    struct reordered *r = syn_calloc(1, sizeof *r);
    syn_status s = g && r ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof *r, "a graph");
    if (s == SYN_OK) {
        r->graph = graph;
        s = fill(r, orders, err);
    }
    if (s != SYN_OK) {
        if (r) free_ranks(r, graph->n_ranks);
        syn_free(r);
        syn_free(g);
        return s;
    }
    *g = *graph;            /* the lists of ranks and groups still belong to `graph` */
    graph->metadata = NULL; /* only one of both graphs can grow this list */
    graph->n_metadata = 0;
    graph->metadata_cap = 0;
    g->source = &reordered_source;
    g->self = r;
    *out = g;
    return SYN_OK;
}
