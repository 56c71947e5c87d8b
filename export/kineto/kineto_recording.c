/* Opens a graph for the Kineto writers and selects ranks; see kineto_recording.h. */
#include "export/kineto/kineto_recording.h"

#include "export/kineto/kineto_predicted.h"
#include "syntorch/base/memory.h"

#include <string.h>

/* Makes a shallow copy of the graph with its own array of ranks, so that the current rank can have
   predicted work. */
static syn_status shadow(syn__kineto_recording *r) {
    const size_t n = r->graph->n_ranks;
    r->shadow = *r->graph;
    r->shadow.ranks = syn_calloc(n, sizeof *r->shadow.ranks);
    if (r->shadow.ranks == NULL)
        return SYN_FAIL_NOMEM(r->err, n * sizeof *r->shadow.ranks, "the ranks of a graph");
    if (n > 0) memcpy(r->shadow.ranks, r->graph->ranks, n * sizeof *r->shadow.ranks);
    r->graph = r->walk.graph = &r->shadow;
    return SYN_OK;
}

syn_status syn__kineto_open(syn__kineto_recording *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err) {
    *out = (syn__kineto_recording){.graph = graph,
                                   .memory = options != NULL && options->profile_memory,
                                   .modules = options != NULL && options->with_stack,
                                   .err = err};
    if (syn__walk_is_foreign(graph))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "the trace was recorded by PyTorch; use PyTorch's own files, which have "
                        "more than could be written here");
    syn__walk_init(&out->walk, graph);
    SYN_TRY(syn__timeline_make(&out->timeline, graph, NULL, NULL, err));
    out->predicted = syn__kineto_predicts_gpu(graph, &out->timeline);
    return out->predicted ? shadow(out) : SYN_OK;
}

syn_status syn__kineto_select(syn__kineto_recording *recording, uint32_t rank_index) {
    syn__kineto_plan_free(&recording->plan);
    syn__walk_select(&recording->walk, rank_index);
    if (recording->predicted) {
        syn_work_free(&recording->work);
        SYN_TRY(syn__kineto_predict_work(&recording->work, &recording->timeline, &recording->walk,
                                         recording->err));
        recording->shadow.ranks[rank_index].work = &recording->work;
    }
    const syn_work *work = recording->graph->ranks[rank_index].work;
    recording->device = work && work->n_pieces > 0;
    recording->device_number = recording->device ? work->pieces[0].device : 0;
    return syn__kineto_plan_make(&recording->plan, &recording->timeline, &recording->walk,
                                 recording->modules, recording->predicted, recording->err);
}

void syn__kineto_close(syn__kineto_recording *recording) {
    syn__kineto_plan_free(&recording->plan);
    syn__timeline_free(&recording->timeline);
    syn__walk_free(&recording->walk);
    syn_work_free(&recording->work);
    syn_free(recording->shadow.ranks);
}

syn_status syn__kineto_rank(const syn_graph *graph, const syn_export_options *options,
                            uint32_t *out, syn_error *err) {
    uint32_t end;
    SYN_TRY(syn__walk_ranks(graph, options, out, &end, err));
    if (*out < end) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "the graph has no ranks");
}

/* ---- Groups ---- */

syn__kineto_ranks syn__kineto_ranks_of(const syn_graph *graph, const syn_graph_group *group) {
    if (group == NULL) return (syn__kineto_ranks){0, 1, graph->world_size};
    syn__kineto_ranks r = {group->n_ranks > 0 ? group->ranks[0] : 0, 1, group->n_ranks};
    if (group->n_ranks > 1) r.stride = (int64_t)group->ranks[1] - group->ranks[0];
    for (uint32_t i = 2; i < group->n_ranks; i++) {
        if ((int64_t)group->ranks[i] - group->ranks[i - 1] != r.stride) r.stride = 0;
    }
    return r;
}

void syn__kineto_put_ranks(syn_sink *sink, const syn_graph *graph, const syn_graph_group *group) {
    const int64_t n = group != NULL ? (int64_t)group->n_ranks : graph->world_size;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) syn_sink_text(sink, ", ");
        syn_sink_i64(sink, group != NULL ? group->ranks[i] : i);
    }
}

int64_t syn__kineto_peer(const syn_graph_group *group, const syn_node *node) {
    if (group == NULL) return node->peer;
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        if (group->ranks[i] == node->peer) return i;
    }
    return -1;
}
