/* The topological order of a scanned trace's nodes, and the search for a cycle. */
#include "export/chakra/check/et_scan.h"
#include "syntorch/base/memory.h"

static syn_status no_memory(size_t n, syn_error *err) {
    return SYN_FAIL_NOMEM(err, n * sizeof(uint32_t), "the order of a trace's nodes");
}

void syn__et_dag_close(syn__et_dag *dag) {
    syn_free(dag->first_child);
    syn_free(dag->children);
    syn_free(dag->order);
    *dag = (syn__et_dag){0};
}

/* Fills `children` by a counting sort with shifted indices. First, first_child[i + 2] counts the
   children of node i. The prefix sums make first_child[i + 1] the start of these children's
   entries. Each entry that is filled in increments first_child[i + 1], so that at the end
   first_child[i] is the start. */
static void fill_children(syn__et_dag *dag, const syn__et_scan *scan) {
    const uint32_t n = scan->n_nodes;
    for (uint32_t k = 0; k < scan->first_dep[n]; k++) dag->first_child[scan->deps[k] + 2]++;
    for (size_t i = 2; i < (size_t)n + 2; i++) dag->first_child[i] += dag->first_child[i - 1];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = scan->first_dep[i]; k < scan->first_dep[i + 1]; k++)
            dag->children[dag->first_child[scan->deps[k] + 1]++] = i;
    }
}

/* Fills `order` with Kahn's algorithm (CACM 1962). left[i]: number of dependencies of node i that
   are not yet in the order. */
static void put_in_order(syn__et_dag *dag, const syn__et_scan *scan, uint32_t *left) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < scan->n_nodes; i++) {
        left[i] = scan->first_dep[i + 1] - scan->first_dep[i];
        if (left[i] == 0) dag->order[end++] = i;
    }
    dag->n_roots = end;
    for (uint32_t at = 0; at < end; at++) {
        const uint32_t node = dag->order[at];
        if (end - at > dag->widest_ready) dag->widest_ready = end - at;
        for (uint32_t k = dag->first_child[node]; k < dag->first_child[node + 1]; k++) {
            if (--left[dag->children[k]] == 0) dag->order[end++] = dag->children[k];
        }
    }
    dag->n_ordered = end;
}

syn_status syn__et_dag_open(syn__et_dag *dag, const syn__et_scan *scan, syn_error *err) {
    const size_t n = scan->n_nodes;
    *dag = (syn__et_dag){.first_child = (uint32_t *)syn_calloc(n + 2, sizeof(uint32_t)),
                         .children =
                             (uint32_t *)syn_malloc((scan->first_dep[n] + 1u) * sizeof(uint32_t)),
                         .order = (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t))};
    uint32_t *left = (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t));
    const bool ok =
        dag->first_child != NULL && dag->children != NULL && dag->order != NULL && left != NULL;
    if (ok) {
        fill_children(dag, scan);
        put_in_order(dag, scan, left);
    }
    syn_free(left);
    return ok ? SYN_OK : no_memory(n, err);
}

/* Every node that is not in the order depends on another such node, so following these dependencies
   leads into a cycle. */
syn_status syn__et_dag_cycle(const syn__et_dag *dag, const syn__et_scan *scan, uint32_t **out,
                             uint32_t *n, syn_error *err) {
    /* Position of each node in `path`, counted from 1; 0: not visited; UINT32_MAX: the node is in
       the order. */
    uint32_t *step = (uint32_t *)syn_calloc(scan->n_nodes, sizeof(uint32_t));
    uint32_t *path = (uint32_t *)syn_malloc(scan->n_nodes * sizeof(uint32_t));
    if (step == NULL || path == NULL) {
        syn_free(step);
        syn_free(path);
        return no_memory(scan->n_nodes, err);
    }
    for (uint32_t i = 0; i < dag->n_ordered; i++) step[dag->order[i]] = UINT32_MAX;
    uint32_t at = 0, length = 0;
    while (step[at] != 0) at++;
    while (step[at] == 0) {
        path[length++] = at;
        step[at] = length;
        uint32_t k = scan->first_dep[at];
        while (step[scan->deps[k]] == UINT32_MAX) k++;
        at = scan->deps[k];
    }
    const uint32_t begin = step[at] - 1;
    *n = length - begin;
    memmove(path, path + begin, *n * sizeof(uint32_t));
    *out = path;
    syn_free(step);
    return SYN_OK;
}
