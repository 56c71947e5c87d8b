/* syn_graph_copy, which copies a graph of any producer to one that owns its rows. */
#include "syntorch/base/memory.h"
#include "syntorch/graph/graph.h"

static syn_status copy_work(syn_graph *out, const syn_graph *graph, uint32_t rank, syn_error *err) {
    const syn_work *from = graph->ranks[rank].work;
    syn_work work;
    char *packed;
    size_t bytes;
    if (!from || from->n_nodes == 0) return SYN_OK;
    SYN_TRY(syn_work_pack(from, &packed, &bytes, err));
    syn_status s = syn_work_unpack(&work, packed, bytes, err);
    syn_free(packed);
    SYN_TRY(s);
    s = syn_graph_set_work(out, rank, &work, err);
    syn_work_free(&work);
    return s;
}

static syn_status copy_rank(syn_graph *out, const syn_graph *graph, uint32_t rank,
                            syn_cursor *cursor, syn_error *err) {
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, rank, i, cursor);
        if (!node) return SYN_FAIL(err, cursor->error.code, "%s", cursor->error.text);
        SYN_TRY(syn_graph_add_node(out, rank, node, err));
    }
    for (uint32_t i = 0; i < graph->ranks[rank].n_tensors; i++) {
        const syn_graph_tensor *tensor = syn_graph_tensor_at(graph, rank, i, cursor);
        if (!tensor) return SYN_FAIL(err, cursor->error.code, "%s", cursor->error.text);
        SYN_TRY(syn_graph_add_tensor(out, rank, tensor, err));
    }
    return copy_work(out, graph, rank, err);
}

static syn_status copy_all(syn_graph *out, const syn_graph *graph, syn_error *err) {
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < graph->n_groups && s == SYN_OK; i++)
        s = syn_graph_add_group(out, &graph->groups[i], err);
    for (uint32_t i = 0; i < graph->n_metadata && s == SYN_OK; i++)
        s = syn_graph_set_meta(out, &graph->metadata[i], err);
    for (uint32_t i = 0; i < graph->n_ranks && s == SYN_OK; i++)
        s = copy_rank(out, graph, i, &cursor, err);
    syn_cursor_free(&cursor);
    return s;
}

syn_status syn_graph_copy(syn_graph **out, const syn_graph *graph, syn_error *err) {
    int32_t *ranks = syn_malloc(graph->n_ranks * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, graph->n_ranks * sizeof *ranks, "a copy of a graph");
    for (uint32_t i = 0; i < graph->n_ranks; i++) ranks[i] = graph->ranks[i].rank;
    syn_status s = syn_graph_new(out, ranks, graph->n_ranks, graph->world_size, err);
    syn_free(ranks);
    SYN_TRY(s);
    s = copy_all(*out, graph, err);
    if (s == SYN_OK) return SYN_OK;
    syn_graph_free(*out);
    *out = NULL;
    return s;
}
