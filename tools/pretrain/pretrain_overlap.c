/* --overlap-a2a: computes the forward pass of a microbatch beside the backward pass of an earlier
   one, so that the collectives of experts of each pass overlap the computation of the other, as
   Megatron-LM does with overlap_moe_expert_parallel_comm, and DeepSeek with DualPipe. Passes are
   recorded one after the other; the nodes of a backward pass and of a forward pass are then merged:
   a part of the backward pass up to its next collective of experts, a part of the forward pass up
   to its next one, and so on. These two passes are the pairs of DualPipe, or otherwise a backward
   pass and the forward pass after it. A message that arrives for one of the passes delays both, so
   pipelines need the early starts of the interleaved schedule or of DualPipe. The memory is that of
   the recorded order, which has as many microbatches in flight. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/graph/graph_reorder.h"
#include "tools/pretrain/pretrain.h"

/* What a node means for the order. */
enum kind { OTHER, FORWARD, BACKWARD, MESSAGE };

typedef struct merging {
    const syn_graph *graph;
    const syn_trace *trace; /* of the rank */
    uint32_t rank, n;
    uint8_t *kinds;      /* by node */
    bool *exchanges;     /* by node: a collective of experts */
    uint32_t *first_dep; /* by node: its first entry in `deps` */
    uint32_t *deps;      /* dependencies */
    size_t n_deps, deps_cap;
    bool *done;          /* by node */
    uint32_t *order, at; /* the result, and its length so far */
} merging;

/* Whether a group is one of expert parallelism: ep0, ep1, ... */
static bool is_of_experts(const syn_graph *graph, const syn_node *node) {
    const syn_graph_group *group =
        node->kind == SYN_NODE_COLLECTIVE ? syn_graph_group_by_id(graph, node->group) : NULL;
    return group && strncmp(group->name, "ep", 2) == 0 && group->name[2] >= '0' &&
           group->name[2] <= '9';
}

static enum kind kind_of(const syn_node *node) {
    if (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV) return MESSAGE;
    if (node->phase == SYN_PHASE_FORWARD) return FORWARD;
    return node->phase == SYN_PHASE_BACKWARD || node->phase == SYN_PHASE_RECOMPUTE ? BACKWARD
                                                                                   : OTHER;
}

static syn_status read_node(merging *m, uint32_t i, syn_cursor *cursor, syn_error *err) {
    const syn_node *node = syn_graph_node(m->graph, m->rank, i, cursor);
    if (!node) return *err = cursor->error, err->code;
    m->kinds[i] = (uint8_t)kind_of(node);
    m->exchanges[i] = is_of_experts(m->graph, node);
    m->first_dep[i] = (uint32_t)m->n_deps;
    SYN_TRY(syn_grow(&m->deps, &m->deps_cap, m->n_deps + node->n_deps, sizeof *m->deps, err));
    for (uint32_t k = 0; k < node->n_deps; k++) m->deps[m->n_deps++] = node->deps[k].node;
    return SYN_OK;
}

static syn_status read_nodes(merging *m, syn_error *err) {
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < m->n && s == SYN_OK; i++) s = read_node(m, i, &cursor, err);
    m->first_dep[m->n] = (uint32_t)m->n_deps;
    syn_cursor_free(&cursor);
    return s;
}

static void put(merging *m, uint32_t i) {
    m->order[m->at++] = i;
    m->done[i] = true;
}

/* The end of the run of nodes of a pass, with messages, that begins at i. */
static uint32_t run_end(const merging *m, uint32_t i) {
    const uint8_t kind = m->kinds[i];
    while (i < m->n && (m->kinds[i] == kind || m->kinds[i] == MESSAGE)) i++;
    return i;
}

static bool has_exchange(const merging *m, uint32_t i, uint32_t end) {
    while (i < end && !m->exchanges[i]) i++;
    return i < end;
}

/* The end of a part of a pass: behind its next collectives of experts. */
static uint32_t part_end(const merging *m, uint32_t i, uint32_t end) {
    while (i < end && !m->exchanges[i]) i++;
    while (i < end && m->exchanges[i]) i++;
    return i;
}

/* Whether all that the nodes from i to end depend on comes earlier in the order. */
static bool is_ready(const merging *m, uint32_t i, uint32_t end) {
    for (uint32_t k = m->first_dep[i]; k < m->first_dep[end]; k++)
        if (m->deps[k] < i && !m->done[m->deps[k]]) return false;
    return true;
}

/* The nodes of a pass that are not yet in the order. */
typedef struct range {
    uint32_t at, end;
} range;

/* Puts the next part of a pass, unless it must wait for the other pass. */
static void put_part(merging *m, range *pass, const range *other) {
    const uint32_t end = part_end(m, pass->at, pass->end);
    if (other->at < other->end && !is_ready(m, pass->at, end)) return;
    while (pass->at < end) put(m, pass->at++);
}

/* Merges a backward with a forward pass. The one that was recorded first never waits. */
static void merge(merging *m, range back, range fore) {
    while (back.at < back.end || fore.at < fore.end) {
        put_part(m, &back, &fore);
        put_part(m, &fore, &back);
    }
}

static void make_order(merging *m) {
    for (uint32_t i = 0; i < m->n;) {
        if (m->kinds[i] != BACKWARD) {
            put(m, i++);
            continue;
        }
        const uint32_t middle = run_end(m, i);
        const uint32_t end =
            middle < m->n && m->kinds[middle] == FORWARD ? run_end(m, middle) : middle;
        if (has_exchange(m, i, middle) && has_exchange(m, middle, end))
            merge(m, (range){i, middle}, (range){middle, end});
        else
            for (uint32_t k = i; k < end; k++) put(m, k);
        i = end;
    }
}

/* Node rows count from 1. */
static uint32_t pass_begin(const merging *m, size_t pass) {
    return m->trace->passes[pass].node - 1;
}

static void make_order_of_pairs(merging *m) {
    uint32_t i = 0;
    for (size_t k = 0; k + 1 < m->trace->n_passes; k++) {
        if (!m->trace->passes[k].paired) continue;
        const uint32_t fore = pass_begin(m, k), back = pass_begin(m, k + 1);
        const uint32_t end = k + 2 < m->trace->n_passes ? pass_begin(m, k + 2) : m->n;
        while (i < fore) put(m, i++);
        merge(m, (range){back, end}, (range){fore, back});
        i = end;
    }
    while (i < m->n) put(m, i++);
}

static syn_status order_rank(const pretrain *run, const syn_trace *trace, const syn_graph *graph,
                             uint32_t rank, uint32_t **order, syn_error *err) {
    merging m = {.graph = graph, .trace = trace, .rank = rank, .n = graph->ranks[rank].n_nodes};
    const size_t n = (size_t)m.n + 1;
    m.kinds = syn_malloc(n * sizeof *m.kinds);
    m.exchanges = syn_malloc(n * sizeof *m.exchanges);
    m.first_dep = syn_malloc(n * sizeof *m.first_dep);
    m.done = syn_calloc(n, sizeof *m.done);
    m.order = syn_malloc(n * sizeof *m.order);
    syn_status s = m.kinds && m.exchanges && m.first_dep && m.done && m.order
                       ? read_nodes(&m, err)
                       : SYN_FAIL_NOMEM(err, n * sizeof *m.order, "the order of nodes");
    const bool pairs = run->launch.parallel.schedule == SYN_SCHEDULE_DUALPIPE;
    if (s == SYN_OK && pairs) make_order_of_pairs(&m);
    else if (s == SYN_OK) make_order(&m);
    syn_free(m.kinds);
    syn_free(m.exchanges);
    syn_free(m.first_dep);
    syn_free(m.deps);
    syn_free(m.done);
    if (s == SYN_OK) *order = m.order;
    else syn_free(m.order);
    return s;
}

syn_status pretrain_overlap(const pretrain *run, const syn_trace *const *traces, syn_graph **graph,
                            syn_error *err) {
    const uint32_t n = (*graph)->n_ranks;
    if (!run->args->overlap_a2a) return SYN_OK;
    uint32_t **orders = syn_calloc(n, sizeof *orders);
    syn_status s = orders ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof *orders, "orders of nodes");
    for (uint32_t r = 0; r < n && s == SYN_OK; r++)
        s = order_rank(run, traces[r], *graph, r, &orders[r], err);
    if (s == SYN_OK) s = syn_graph_reordered(graph, *graph, orders, err);
    for (uint32_t r = 0; r < n && orders && s != SYN_OK; r++) syn_free(orders[r]);
    syn_free(orders);
    return s;
}
