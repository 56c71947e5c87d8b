/* Converts what the node-link reader found to a syn_graph: ids become indices, edges become inputs,
   outputs and dependencies, and nodes are put in program order. Program order is never the order in
   the file, because other programs write nodes in any order. Memory and time are linear in the
   length of the file's lists, except for sorting, which is only needed where the file is not
   sorted. */
#include "export/nodelink/nodelink_build.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

syn_status syn__build_no_memory(const syn__build *b) {
    return SYN_FAIL(b->found->err, SYN_E_NOMEM,
                    "out of memory while building the %zu nodes and %zu edges of %s",
                    b->found->n_ops + b->found->n_tensors, b->found->n_edges, b->found->name);
}

void *syn__build_table(syn__build *b, size_t n, size_t elem_bytes) {
    void *out = b->n_tables < SYN__BUILD_TABLES ? syn_calloc(n, elem_bytes) : NULL;
    if (out != NULL) b->tables[b->n_tables++] = out;
    return out;
}

static void build_free(syn__build *b) {
    for (size_t i = 0; i < b->n_tables; i++) syn_free(b->tables[i]);
}

/* ---- Ranks ---- */

static int compare_i32(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static int compare_ranks(const void *a, const void *b) {
    const syn__build_rank *x = a, *y = b;
    return compare_i32(&x->rank, &y->rank);
}

/* Collects the list of ranks in the file or, if there is none, the ranks of the file's nodes in
   ascending order. */
static syn_status collect_ranks(syn__build *b) {
    const syn__found *found = b->found;
    const size_t n_nodes = found->n_ops + found->n_tensors;
    b->ranks = syn__build_table(b, found->n_ranks > 0 ? found->n_ranks : n_nodes, sizeof *b->ranks);
    if (b->ranks == NULL) return syn__build_no_memory(b);
    if (found->n_ranks > 0) {
        memcpy(b->ranks, found->ranks, found->n_ranks * sizeof *b->ranks);
        b->n_ranks = found->n_ranks;
        return SYN_OK;
    }
    size_t n = 0;
    for (size_t i = 0; i < found->n_ops; i++) {
        if (n == 0 || b->ranks[n - 1] != found->ops[i].rank) b->ranks[n++] = found->ops[i].rank;
    }
    for (size_t i = 0; i < found->n_tensors; i++) {
        if (n == 0 || b->ranks[n - 1] != found->tensors[i].rank)
            b->ranks[n++] = found->tensors[i].rank;
    }
    qsort(b->ranks, n, sizeof *b->ranks, compare_i32);
    for (size_t i = 0; i < n; i++) {
        if (b->n_ranks == 0 || b->ranks[b->n_ranks - 1] != b->ranks[i])
            b->ranks[b->n_ranks++] = b->ranks[i];
    }
    return SYN_OK;
}

static syn_status index_ranks(syn__build *b) {
    SYN_TRY(collect_ranks(b));
    SYN_TRY(syn__build_leave_out_copies(b));
    if (b->n_ranks == 0) return syn__found_fail(b->found, 0, "the graph is empty: it has no ranks");
    b->by_rank = syn__build_table(b, b->n_ranks, sizeof *b->by_rank);
    if (b->by_rank == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < b->n_ranks; i++)
        b->by_rank[i] = (syn__build_rank){b->ranks[i], (uint32_t)i};
    qsort(b->by_rank, b->n_ranks, sizeof *b->by_rank, compare_ranks);
    for (size_t i = 1; i < b->n_ranks; i++) {
        if (b->by_rank[i].rank == b->by_rank[i - 1].rank)
            return syn__found_fail(b->found, 0, "rank %d appears twice", (int)b->by_rank[i].rank);
    }
    return SYN_OK;
}

uint32_t syn__build_rank_index(const syn__build *b, int32_t rank) {
    size_t low = 0, high = b->n_ranks;
    if (rank >= 0 && (size_t)rank < b->n_ranks && b->by_rank[rank].rank == rank)
        return b->by_rank[rank].index;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (b->by_rank[middle].rank < rank) low = middle + 1;
        else high = middle;
    }
    return low < b->n_ranks && b->by_rank[low].rank == rank ? b->by_rank[low].index : UINT32_MAX;
}

/* ---- Ids ---- */

static int compare_ids(const void *a, const void *b) {
    const syn__build_id *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->found < y->found ? -1 : x->found > y->found;
}

void syn__build_sort_ids(syn__build_id *ids, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = compare_ids(&ids[i - 1], &ids[i]) < 0;
    if (!sorted) qsort(ids, n, sizeof *ids, compare_ids);
}

/* Sorts the ids, rejects duplicates, and records where each rank begins. */
static syn_status index_ids(syn__build *b, syn__build_ids *ids, char kind) {
    syn__build_sort_ids(ids->at, ids->n);
    for (size_t i = 1; i < ids->n; i++) {
        const syn__build_id *e = &ids->at[i];
        if (e->rank != e[-1].rank || e->number != e[-1].number) continue;
        const size_t at = kind == 'o' ? b->found->ops[e->found].at : b->found->tensors[e->found].at;
        return syn__found_fail(b->found, at, "the id \"r%d.%c%llu\" appears twice",
                               (int)b->ranks[e->rank], kind, (unsigned long long)e->number);
    }
    ids->first = syn__build_table(b, b->n_ranks + 1, sizeof *ids->first);
    if (ids->first == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < ids->n; i++) ids->first[ids->at[i].rank + 1]++;
    for (size_t r = 0; r < b->n_ranks; r++) ids->first[r + 1] += ids->first[r];
    return SYN_OK;
}

static syn_status add_id(const syn__build *b, syn__build_ids *ids, int32_t rank, uint64_t number,
                         size_t at) {
    const uint32_t index = syn__build_rank_index(b, rank);
    if (index == UINT32_MAX)
        return syn__found_fail(b->found, at, "a node has rank %d, which graph.ranks does not list",
                               (int)rank);
    ids->at[ids->n] = (syn__build_id){number, index, (uint32_t)ids->n};
    ids->n++;
    return SYN_OK;
}

static syn_status index_nodes(syn__build *b) {
    const syn__found *found = b->found;
    b->ops.at = syn__build_table(b, found->n_ops, sizeof *b->ops.at);
    b->tensors.at = syn__build_table(b, found->n_tensors, sizeof *b->tensors.at);
    if (b->ops.at == NULL || b->tensors.at == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < found->n_ops; i++)
        SYN_TRY(add_id(b, &b->ops, found->ops[i].rank, found->ops[i].node.id, found->ops[i].at));
    for (size_t i = 0; i < found->n_tensors; i++)
        SYN_TRY(add_id(b, &b->tensors, found->tensors[i].rank, found->tensors[i].number,
                       found->tensors[i].at));
    SYN_TRY(index_ids(b, &b->ops, 'o'));
    return index_ids(b, &b->tensors, 't');
}

/* First tries a guess, which is right if the numbers have no gaps. */
syn_status syn__build_find(const syn__build *b, const syn__found_ref *ref, size_t at,
                           uint32_t *out) {
    const syn__build_ids *ids = ref->kind == 'o' ? &b->ops : &b->tensors;
    const uint32_t rank = syn__build_rank_index(b, ref->rank);
    size_t low = 0, high = 0;
    if (rank != UINT32_MAX) {
        low = ids->first[rank];
        high = ids->first[rank + 1];
    }
    if (low < high && ref->number >= ids->at[low].number &&
        ref->number - ids->at[low].number < high - low) {
        const size_t guess = low + (size_t)(ref->number - ids->at[low].number);
        if (ids->at[guess].number == ref->number) low = high = guess;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ids->at[middle].number < ref->number) low = middle + 1;
        else high = middle;
    }
    if (rank == UINT32_MAX || low == ids->first[rank + 1] || ids->at[low].number != ref->number)
        return syn__found_fail(b->found, at, "node \"r%d.%c%llu\" does not exist", (int)ref->rank,
                               ref->kind, (unsigned long long)ref->number);
    *out = (uint32_t)low;
    return SYN_OK;
}

/* ---- Edges ---- */

/* Replaces the ids of an edge by indices: for ops, into the file's list; for tensors, into the
   sorted table. */
static syn_status resolve_edge(syn__build *b, syn__found_edge *e) {
    syn__found_ref *const ends[2] = {&e->from, &e->to};
    if (e->from.rank != e->to.rank)
        return syn__found_fail(b->found, e->at, "an edge connects rank %d with rank %d",
                               (int)e->from.rank, (int)e->to.rank);
    for (int i = 0; i < 2; i++) {
        uint32_t at;
        SYN_TRY(syn__build_find(b, ends[i], e->at, &at));
        ends[i]->number = ends[i]->kind == 'o' ? b->ops.at[at].found : at;
    }
    if (e->kind == SYN__EDGE_INPUT) b->inputs.first[e->to.number + 1]++;
    else if (e->kind == SYN__EDGE_OUTPUT) b->outputs.first[e->from.number + 1]++;
    else b->deps_first[e->to.number + 1]++;
    return SYN_OK;
}

static syn_status start_slices(syn__build *b, syn__build_slices *s) {
    s->first = syn__build_table(b, b->found->n_ops + 1, sizeof *s->first);
    return s->first != NULL ? SYN_OK : syn__build_no_memory(b);
}

static void sum_up(uint32_t *first, size_t n) {
    for (size_t i = 0; i < n; i++) first[i + 1] += first[i];
}

/* Puts a tensor at its position in an op's inputs or outputs. */
static syn_status place(const syn__build *b, syn__build_slices *s, uint64_t op, uint64_t tensor,
                        const syn__found_edge *e) {
    const uint32_t n = s->first[op + 1] - s->first[op];
    const char *what = e->kind == SYN__EDGE_INPUT ? "input" : "output";
    const unsigned long long id = b->found->ops[op].node.id;
    if (e->position >= n)
        return syn__found_fail(
            b->found, e->at, "%s %u of r%d.o%llu is out of range: the op has %u %ss", what,
            (unsigned)e->position, (int)b->found->ops[op].rank, id, (unsigned)n, what);
    uint32_t *slot = s->at + s->first[op] + e->position;
    if (*slot != 0)
        return syn__found_fail(b->found, e->at, "%s %u of r%d.o%llu appears twice", what,
                               (unsigned)e->position, (int)b->found->ops[op].rank, id);
    *slot = (uint32_t)tensor + 1; /* 0: still empty */
    return SYN_OK;
}

static syn_status set_producer(syn__build *b, uint64_t tensor, uint64_t op, size_t at) {
    const uint32_t old = b->producers[tensor];
    if (old != SYN_NO_NODE && old != op)
        return syn__found_fail(b->found, at, "tensor r%d.t%llu has two producers",
                               (int)b->ranks[b->tensors.at[tensor].rank],
                               (unsigned long long)b->tensors.at[tensor].number);
    b->producers[tensor] = (uint32_t)op;
    return SYN_OK;
}

static syn_status place_edges(syn__build *b) {
    for (size_t i = 0; i < b->found->n_edges; i++) {
        const syn__found_edge *e = &b->found->edges[i];
        if (e->kind == SYN__EDGE_INPUT) {
            SYN_TRY(place(b, &b->inputs, e->to.number, e->from.number, e));
        } else if (e->kind == SYN__EDGE_OUTPUT) {
            SYN_TRY(place(b, &b->outputs, e->from.number, e->to.number, e));
            SYN_TRY(set_producer(b, e->to.number, e->from.number, e->at));
        }
    }
    for (size_t i = 0; i < b->tensors.n; i++) { /* After the edges, so that a contradiction between
                                                   an edge and a tensor is reported at the
                                                   tensor. */
        const syn__found_tensor *t = &b->found->tensors[b->tensors.at[i].found];
        if (t->producer.kind == 0) continue;
        uint32_t at;
        if (t->producer.kind != 'o' || t->producer.rank != t->rank)
            return syn__found_fail(b->found, t->at,
                                   "a tensor's producer must be an op of its rank");
        SYN_TRY(syn__build_find(b, &t->producer, t->at, &at));
        SYN_TRY(set_producer(b, i, b->ops.at[at].found, t->at));
    }
    return SYN_OK;
}

/* Lists for each op the ops on which it depends: those of its edges, and the producers of its
   inputs. */
static syn_status list_deps(syn__build *b) {
    const size_t n_ops = b->found->n_ops;
    for (size_t op = 0; op < n_ops; op++) {
        for (uint32_t k = b->inputs.first[op]; k < b->inputs.first[op + 1]; k++)
            if (b->producers[b->inputs.at[k] - 1] != SYN_NO_NODE) b->deps_first[op + 1]++;
    }
    sum_up(b->deps_first, n_ops);
    b->deps = syn__build_table(b, b->deps_first[n_ops], sizeof *b->deps);
    uint32_t *used = syn__build_table(b, n_ops, sizeof *used);
    if (b->deps == NULL || used == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < b->found->n_edges; i++) {
        const syn__found_edge *e = &b->found->edges[i];
        if (e->kind >= SYN__EDGE_INPUT) continue;
        const uint64_t op = e->to.number;
        b->deps[b->deps_first[op] + used[op]++] =
            (syn__build_dep){(uint32_t)e->from.number, e->kind};
    }
    for (size_t op = 0; op < n_ops; op++) {
        for (uint32_t k = b->inputs.first[op]; k < b->inputs.first[op + 1]; k++) {
            const uint32_t producer = b->producers[b->inputs.at[k] - 1];
            if (producer == SYN_NO_NODE) continue;
            b->deps[b->deps_first[op] + used[op]++] =
                (syn__build_dep){producer, 1u << SYN_DEP_DATA};
        }
    }
    return SYN_OK;
}

static syn_status build_edges(syn__build *b) {
    const size_t n_ops = b->found->n_ops;
    SYN_TRY(start_slices(b, &b->inputs));
    SYN_TRY(start_slices(b, &b->outputs));
    b->deps_first = syn__build_table(b, n_ops + 1, sizeof *b->deps_first);
    b->producers = syn__build_table(b, b->tensors.n, sizeof *b->producers);
    if (b->deps_first == NULL || b->producers == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < b->found->n_edges; i++) SYN_TRY(resolve_edge(b, &b->found->edges[i]));
    for (size_t i = 0; i < b->tensors.n; i++) b->producers[i] = SYN_NO_NODE;
    sum_up(b->inputs.first, n_ops);
    sum_up(b->outputs.first, n_ops);
    b->inputs.at = syn__build_table(b, b->inputs.first[n_ops], sizeof *b->inputs.at);
    b->outputs.at = syn__build_table(b, b->outputs.first[n_ops], sizeof *b->outputs.at);
    if (b->inputs.at == NULL || b->outputs.at == NULL) return syn__build_no_memory(b);
    SYN_TRY(place_edges(b));
    return list_deps(b);
}

syn_status syn__found_to_graph(syn__found *found, syn_graph **out) {
    syn__build b = {.found = found};
    syn_status status = SYN_OK;
    *out = NULL;
    if (found->n_ops >= SYN__BUILD_ITEMS || found->n_tensors >= SYN__BUILD_ITEMS ||
        found->n_edges >= SYN__BUILD_ITEMS)
        status = SYN_FAIL(found->err, SYN_E_UNSUPPORTED,
                          "%s has more nodes or edges than the limit of 2^31", found->name);
    if (status == SYN_OK) status = index_ranks(&b);
    if (status == SYN_OK) status = index_nodes(&b);
    if (status == SYN_OK) status = build_edges(&b);
    if (status == SYN_OK) status = syn__build_order(&b);
    if (status == SYN_OK) status = syn__build_emit(&b, out);
    build_free(&b);
    return status;
}
