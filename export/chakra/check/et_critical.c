/* Critical paths for statistics: of one PyTorch trace, of a trace set of PyTorch traces, and of a
   trace whose ops do not overlap. */
#include "export/chakra/check/et_critical.h"

#include <math.h>

#include "export/chakra/et_import.h"
#include "export/chakra/wire/et_files.h"
#include "syntorch/base/memory.h"

static void take_path(syn_statistics *out, const double *ns, size_t n) {
    double sum = 0;
    out->critical_nodes = 0;
    for (size_t i = 0; i < n; i++) {
        sum += ns[i];
        out->critical_nodes += ns[i] > 0;
    }
    out->critical_micros = (uint64_t)fmin(sum / 1e3 + 0.5, 1.8e19);
}

syn_status syn__et_critical_path_of_recording(syn_statistics *out, const syn__et_scan *scan,
                                              const syn__critical_op *times, syn_error *err) {
    double *ns = syn_malloc(((size_t)scan->n_nodes + 1) * sizeof *ns);
    if (ns == NULL) return SYN_FAIL_NOMEM(err, scan->n_nodes * sizeof *ns, "a path");
    const syn_status status =
        syn__critical_find(ns, times, scan->n_nodes, scan->first_dep, scan->deps, err);
    if (status == SYN_OK) take_path(out, ns, scan->n_nodes);
    syn_free(ns);
    return status;
}

syn_status syn__et_critical_path_of_set(syn_statistics_set *set, const char *path, syn_error *err) {
    syn_graph *graph = NULL;
    syn_error why = {0};
    size_t prefix_bytes = 0, n = 0;
    double *ns = NULL;
    if (syn__et_rank_of(path, &prefix_bytes) < 0) return SYN_OK;
    if (syn__et_import_set(&graph, path, prefix_bytes, &why) != SYN_OK) return SYN_OK;
    const syn_status status = syn__critical_of_graph(&ns, graph, err);
    for (uint32_t r = 0; r < graph->n_ranks; r++) n += graph->ranks[r].n_nodes;
    set->path_across = ns != NULL;
    if (ns != NULL) take_path(&set->total, ns, n);
    syn_free(ns);
    syn_graph_free(graph);
    return status;
}

syn_status syn__et_longest_chain(syn_statistics *out, const syn__et_scan *scan,
                                 const syn__et_dag *dag, const uint64_t *micros, syn_error *err) {
    typedef struct chain {
        uint64_t micros;
        uint32_t nodes;
    } chain;
    chain *longest = (chain *)syn_malloc(((size_t)scan->n_nodes + 1) * sizeof *longest);
    if (longest == NULL) return SYN_FAIL_NOMEM(err, scan->n_nodes * sizeof *longest, "a path");
    for (uint32_t i = 0; i < dag->n_ordered; i++) {
        const uint32_t node = dag->order[i];
        chain best = {0, 0};
        for (uint32_t k = scan->first_dep[node]; k < scan->first_dep[node + 1]; k++) {
            const chain *dep = &longest[scan->deps[k]];
            if (dep->micros > best.micros ||
                (dep->micros == best.micros && dep->nodes > best.nodes))
                best = *dep;
        }
        best.micros = syn__et_sum(best.micros, micros[node]);
        best.nodes++;
        longest[node] = best;
        if (best.micros > out->critical_micros ||
            (best.micros == out->critical_micros && best.nodes > out->critical_nodes)) {
            out->critical_micros = best.micros;
            out->critical_nodes = best.nodes;
        }
    }
    syn_free(longest);
    return SYN_OK;
}
