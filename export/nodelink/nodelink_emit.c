/* The second half of building a graph from node-link JSON: sorts the ops topologically and writes
   the graph. */
#include "export/nodelink/nodelink_build.h"
#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- Order ---- */

/* Fills `order` with the ops, rank after rank, by id (or by "program_order", if ops have it), and
   `position` with the index of each op in it. */
static syn_status list_program(syn__build *b) {
    const syn__found *found = b->found;
    const syn__build_id *ids = b->ops.at; /* sorted by id */
    if (found->has_order) {
        syn__build_id *own = syn__build_table(b, found->n_ops, sizeof *own);
        if (own == NULL) return syn__build_no_memory(b);
        for (uint32_t i = 0; i < found->n_ops; i++)
            own[i] = (syn__build_id){found->ops[ids[i].found].order, ids[i].rank, i};
        syn__build_sort_ids(own, found->n_ops); /* ops with equal numbers are sorted by id */
        for (size_t i = 0; i < found->n_ops; i++) own[i].found = ids[own[i].found].found;
        ids = own;
    }
    for (uint32_t i = 0; i < found->n_ops; i++) {
        b->order[i] = ids[i].found;
        b->position[ids[i].found] = i;
    }
    return SYN_OK;
}

/* Whether every op comes after its dependencies. */
static bool order_holds(const syn__build *b) {
    for (size_t op = 0; op < b->found->n_ops; op++) {
        for (uint32_t k = b->deps_first[op]; k < b->deps_first[op + 1]; k++)
            if (b->position[b->deps[k].op] >= b->position[op]) return false;
    }
    return true;
}

/* A min-heap of positions in the program. */
static void heap_push(uint32_t *heap, size_t *n, uint32_t place) {
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > place; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = place;
}

static uint32_t heap_pop(uint32_t *heap, size_t *n) {
    const uint32_t top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* Reports an op of a cycle. Every remaining op waits for another remaining op, so following these
   dependencies leads into a cycle. */
static syn_status fail_cycle(syn__build *b, const uint32_t *waits) {
    uint8_t *seen = syn__build_table(b, b->found->n_ops, 1);
    if (seen == NULL) return syn__build_no_memory(b);
    uint32_t op = 0;
    while (waits[op] == 0) op++;
    while (!seen[op]) {
        seen[op] = 1;
        uint32_t k = b->deps_first[op];
        while (waits[b->deps[k].op] == 0) k++;
        op = b->deps[k].op;
    }
    const syn__found_op *found = &b->found->ops[op];
    return syn__found_fail(b->found, found->at,
                           "the dependencies form a cycle through \"r%d.o%llu\"", (int)found->rank,
                           (unsigned long long)found->node.id);
}

/* Sorts the ops with Kahn's algorithm. The next op is always the ready op that is first in program
   order. waits[op]: number of dependencies that have not been placed yet. */
static syn_status sort_ops(syn__build *b) {
    const size_t n_ops = b->found->n_ops;
    uint32_t *waits = syn__build_table(b, n_ops, sizeof *waits);
    uint32_t *heap = syn__build_table(b, n_ops, sizeof *heap);
    uint32_t *first = syn__build_table(b, n_ops + 2, sizeof *first);
    uint32_t *users = syn__build_table(b, b->deps_first[n_ops], sizeof *users);
    uint32_t *sorted = syn__build_table(b, n_ops, sizeof *sorted);
    if (waits == NULL || heap == NULL || first == NULL || users == NULL || sorted == NULL)
        return syn__build_no_memory(b);
    for (uint32_t k = 0; k < b->deps_first[n_ops]; k++) first[b->deps[k].op + 2]++;
    for (size_t i = 1; i <= n_ops; i++) first[i + 1] += first[i];
    for (uint32_t op = 0; op < n_ops; op++) {
        waits[op] = b->deps_first[op + 1] - b->deps_first[op];
        for (uint32_t k = b->deps_first[op]; k < b->deps_first[op + 1]; k++)
            users[first[b->deps[k].op + 1]++] = op; /* afterwards first[op] is the start of the op's
                                                       users */
    }
    size_t n_heap = 0, n_done = 0;
    for (uint32_t op = 0; op < n_ops; op++)
        if (waits[op] == 0) heap_push(heap, &n_heap, b->position[op]);
    while (n_heap > 0) {
        const uint32_t op = b->order[heap_pop(heap, &n_heap)];
        sorted[n_done++] = op;
        for (uint32_t k = first[op]; k < first[op + 1]; k++)
            if (--waits[users[k]] == 0) heap_push(heap, &n_heap, b->position[users[k]]);
    }
    b->order = sorted;
    return n_done == n_ops ? SYN_OK : fail_cycle(b, waits);
}

syn_status syn__build_order(syn__build *b) {
    const size_t n_ops = b->found->n_ops;
    b->order = syn__build_table(b, n_ops, sizeof *b->order);
    b->position = syn__build_table(b, n_ops, sizeof *b->position);
    uint32_t *used = syn__build_table(b, b->n_ranks, sizeof *used);
    if (b->order == NULL || b->position == NULL || used == NULL) return syn__build_no_memory(b);
    SYN_TRY(list_program(b));
    if (!order_holds(b)) SYN_TRY(sort_ops(b));
    for (size_t i = 0; i < n_ops; i++) {
        const uint32_t op = b->order[i];
        b->position[op] = used[syn__build_rank_index(b, b->found->ops[op].rank)]++;
    }
    return SYN_OK;
}

/* ---- Graph ---- */

typedef struct emitter {
    syn__build *b;
    syn_graph *graph;
    uint32_t *inputs, *outputs; /* scratch for one node: tensor indices within the rank */
    syn_dep *deps;
    size_t inputs_cap, outputs_cap, deps_cap;
} emitter;

static syn_status emit_tensors(emitter *e) {
    const syn__build *b = e->b;
    for (uint32_t i = 0; i < b->tensors.n; i++) {
        const syn__build_id *id = &b->tensors.at[i];
        const syn__found_tensor *found = &b->found->tensors[id->found];
        const uint32_t first = b->tensors.first[id->rank];
        syn_graph_tensor tensor = found->tensor;
        tensor.base = i - first;
        if (found->base.kind != 0) {
            uint32_t at;
            if (found->base.kind != 't' || found->base.rank != found->rank)
                return syn__found_fail(b->found, found->at,
                                       "a tensor's base must be a tensor of its rank");
            SYN_TRY(syn__build_find(b, &found->base, found->at, &at));
            tensor.base = at - first;
        }
        tensor.producer = SYN_NO_NODE;
        if (b->producers[i] != SYN_NO_NODE) tensor.producer = b->position[b->producers[i]];
        SYN_TRY(syn_graph_add_tensor(e->graph, id->rank, &tensor, b->found->err));
    }
    return SYN_OK;
}

/* Collects the tensors of an op's positions as indices within the rank. */
static syn_status collect_tensors(emitter *e, const syn__build_slices *s, uint32_t op,
                                  uint32_t first, uint32_t **out, size_t *cap, uint32_t *n) {
    *n = s->first[op + 1] - s->first[op];
    SYN_TRY(syn_grow(out, cap, *n, sizeof **out, e->b->found->err));
    for (uint32_t i = 0; i < *n; i++) (*out)[i] = s->at[s->first[op] + i] - 1 - first;
    return SYN_OK;
}

static int compare_deps(const void *a, const void *b) {
    const syn_dep *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Collects dependencies sorted by node, then class. A dependency given by both an edge and an input
   is stored once. */
static syn_status collect_deps(emitter *e, uint32_t op, uint32_t *out_n) {
    const syn__build *b = e->b;
    const uint32_t begin = b->deps_first[op], end = b->deps_first[op + 1];
    const size_t want = (size_t)(end - begin) * (SYN_DEP_COUNT + 1);
    *out_n = 0;
    if (begin == end) return SYN_OK;
    SYN_TRY(syn_grow(&e->deps, &e->deps_cap, want, sizeof *e->deps, b->found->err));
    syn_dep *sets = e->deps + (want - (end - begin)); /* pairs of a node and its classes, stored
                                                         after the result */
    uint32_t n = 0;
    for (uint32_t k = begin; k < end; k++)
        sets[k - begin] = (syn_dep){b->position[b->deps[k].op], b->deps[k].classes};
    qsort(sets, end - begin, sizeof *sets, compare_deps);
    for (uint32_t k = 0; k < end - begin;) {
        const uint32_t node = sets[k].node;
        uint32_t classes = 0;
        for (; k < end - begin && sets[k].node == node; k++) classes |= sets[k].dep_class;
        for (uint32_t c = 0; c < SYN_DEP_COUNT; c++)
            if (classes >> c & 1u) e->deps[n++] = (syn_dep){node, c};
    }
    *out_n = n;
    return SYN_OK;
}

static syn_status emit_nodes(emitter *e) {
    const syn__build *b = e->b;
    for (size_t i = 0; i < b->found->n_ops; i++) {
        const uint32_t op = b->order[i];
        const syn__found_op *found = &b->found->ops[op];
        const uint32_t rank = syn__build_rank_index(b, found->rank);
        const uint32_t first = b->tensors.first[rank];
        syn_node node = found->node;
        SYN_TRY(
            collect_tensors(e, &b->inputs, op, first, &e->inputs, &e->inputs_cap, &node.n_inputs));
        SYN_TRY(collect_tensors(e, &b->outputs, op, first, &e->outputs, &e->outputs_cap,
                                &node.n_outputs));
        SYN_TRY(collect_deps(e, op, &node.n_deps));
        node.inputs = e->inputs;
        node.outputs = e->outputs;
        node.deps = e->deps;
        SYN_TRY(syn_graph_add_node(e->graph, rank, &node, b->found->err));
    }
    return SYN_OK;
}

static syn_status emit_rest(emitter *e) {
    syn__found *found = e->b->found;
    for (size_t i = 0; i < found->n_groups; i++)
        SYN_TRY(syn_graph_add_group(e->graph, &found->groups[i].group, found->err));
    for (size_t i = 0; i < found->n_metadata; i++)
        SYN_TRY(syn_graph_set_meta(e->graph, &found->metadata[i], found->err));
    SYN_TRY(emit_tensors(e));
    SYN_TRY(emit_nodes(e));
    SYN_TRY(syn__build_show_copies(e->b, &e->graph));
    syn_error error = {0};
    const syn_status status = syn_graph_verify(e->graph, &error);
    if (status == SYN_OK) return SYN_OK;
    if (status == SYN_E_NOMEM) return SYN_FAIL(found->err, status, "%s", error.text);
    return SYN_FAIL(found->err, SYN_E_FORMAT, "%.200s: %s", found->name, error.text);
}

/* The highest rank, including identical ranks. */
static int32_t last_rank(const syn__build *b) {
    int32_t last = b->by_rank[b->n_ranks - 1].rank;
    if (b->found->n_copies > 0 && b->found->copies[b->found->n_copies - 1].rank > last)
        last = b->found->copies[b->found->n_copies - 1].rank;
    return last;
}

syn_status syn__build_emit(syn__build *b, syn_graph **out) {
    syn__found *found = b->found;
    emitter e = {.b = b};
    const int32_t last = last_rank(b);
    if (found->world_size < 0) found->world_size = (int64_t)last + 1;
    if (last >= found->world_size)
        return syn__found_fail(found, 0, "rank %d is out of range: world_size is %lld", (int)last,
                               (long long)found->world_size);
    SYN_TRY(syn_graph_new(&e.graph, b->ranks, (uint32_t)b->n_ranks, (int32_t)found->world_size,
                          found->err));
    const syn_status status = emit_rest(&e);
    syn_free(e.inputs);
    syn_free(e.outputs);
    syn_free(e.deps);
    if (status != SYN_OK) syn_graph_free(e.graph);
    else *out = e.graph;
    return status;
}
