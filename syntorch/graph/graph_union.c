/* syn_graph_union, which joins several graphs into one graph that has the ranks of all of them. */
#include "syntorch/base/memory.h"
#include "syntorch/graph/graph.h"

struct part {
    const syn_graph *graph;
    uint32_t rank; /* rank index in `graph` */
};

struct joined {
    syn_graph **graphs;
    uint32_t n_graphs;
    struct part *parts; /* for each rank of the union: the graph that the rank comes from, and its
                           rank index there */
};

static const syn_node *joined_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                                   syn_cursor *cursor) {
    const struct part *p = graph->ranks[rank].self;
    return syn_graph_node(p->graph, p->rank, node, cursor);
}

static const syn_graph_tensor *joined_tensor(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                             syn_cursor *cursor) {
    const struct part *p = graph->ranks[rank].self;
    return syn_graph_tensor_at(p->graph, p->rank, tensor, cursor);
}

static void joined_free(syn_graph *graph) {
    struct joined *j = graph->self;
    for (uint32_t i = 0; j && j->graphs && i < j->n_graphs; i++) syn_graph_free(j->graphs[i]);
    if (j) {
        syn_free(j->graphs);
        syn_free(j->parts);
    }
    syn_free(j);
    syn_graph_free_meta(graph);
    syn_free(graph->groups);
    syn_free(graph->ranks);
    syn_free(graph);
}

static const syn_graph_source joined_source = {joined_node, joined_tensor, joined_free};

static syn_status join(syn_graph *g, struct joined *j, syn_error *err) {
    size_t n_groups = 0, n_ranks = 0;
    for (uint32_t i = 0; i < j->n_graphs; i++) {
        n_groups += j->graphs[i]->n_groups;
        n_ranks += j->graphs[i]->n_ranks;
    }
    g->ranks = syn_calloc(n_ranks, sizeof *g->ranks);
    g->groups = syn_calloc(n_groups, sizeof *g->groups);
    j->parts = syn_calloc(n_ranks, sizeof *j->parts);
    if (!g->ranks || !g->groups || !j->parts)
        return SYN_FAIL_NOMEM(err, n_ranks * sizeof *g->ranks, "the union of graphs");
    for (uint32_t i = 0; i < j->n_graphs; i++) {
        const syn_graph *from = j->graphs[i];
        if (from->world_size > g->world_size) g->world_size = from->world_size;
        for (uint32_t r = 0; r < from->n_ranks; r++) {
            j->parts[g->n_ranks] = (struct part){from, r};
            g->ranks[g->n_ranks] = from->ranks[r];
            g->ranks[g->n_ranks].self = &j->parts[g->n_ranks];
            g->n_ranks++;
        }
        for (uint32_t k = 0; k < from->n_groups; k++)
            if (!syn_graph_group_by_id(g, from->groups[k].id))
                g->groups[g->n_groups++] = from->groups[k];
    }
    for (uint32_t i = 0; j->n_graphs && i < j->graphs[0]->n_metadata; i++)
        SYN_TRY(syn_graph_set_meta(g, &j->graphs[0]->metadata[i], err));
    return SYN_OK;
}

syn_status syn_graph_union(syn_graph **out, syn_graph *const *graphs, uint32_t n_graphs,
                           syn_error *err) {
    syn_graph *g = syn_calloc(1, sizeof *g);
    struct joined *j = syn_calloc(1, sizeof *j);
    syn_graph **copy = syn_calloc(n_graphs, sizeof *copy);
    if (!g || !j || !copy) {
        syn_free(g);
        syn_free(j);
        syn_free(copy);
        return SYN_FAIL_NOMEM(err, sizeof *g, "the union of graphs");
    }
    for (uint32_t i = 0; i < n_graphs; i++) copy[i] = graphs[i];
    j->graphs = copy;
    j->n_graphs = n_graphs;
    g->source = &joined_source;
    g->self = j;
    const syn_status s = join(g, j, err);
    if (s != SYN_OK) {
        j->n_graphs = 0; /* after a failure, the caller still owns the graphs */
        joined_free(g);
        return s;
    }
    *out = g;
    return SYN_OK;
}
