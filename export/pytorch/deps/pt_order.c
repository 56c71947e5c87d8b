/* Sorts the ops topologically (Kahn 1962; among ready ops, the one with the lowest index comes
   first). If a cycle blocks the remaining ops, drops edges between them: first edges that go back
   in time, and if there are none, edges that go back in the order of ops. */
#include <stdlib.h>

#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/read/pt_notes.h"
#include "syntorch/base/memory.h"

/* If several edges connect two ops, only the edge whose class has the lowest number is kept,
   because this class is the most specific one. */
static const uint8_t precedence[SYN_PYTORCH_EDGE_CLASSES] = {
    [SYN_PYTORCH_EDGE_STREAM] = 0, [SYN_PYTORCH_EDGE_LAUNCH] = 1,  [SYN_PYTORCH_EDGE_SYNC] = 2,
    [SYN_PYTORCH_EDGE_GROUP] = 3,  [SYN_PYTORCH_EDGE_PROGRAM] = 4, [SYN_PYTORCH_EDGE_THREAD] = 5,
    [SYN_PYTORCH_EDGE_CALL] = 6};

/* Sorts the edges by target op with a counting sort. */
static syn_status collect(syn__pt_rank *r, syn_error *err) {
    syn_free(r->first_dep);
    syn_free(r->deps);
    r->first_dep = syn_calloc(r->n_ops + 2, sizeof *r->first_dep);
    r->deps = syn_malloc((r->n_edges + 1) * sizeof *r->deps);
    if (!r->first_dep || !r->deps)
        return SYN_FAIL_NOMEM(err, r->n_edges * sizeof *r->deps, "dependencies");
    uint32_t *first = r->first_dep;
    for (size_t i = 0; i < r->n_edges; i++) first[r->edges[i].to + 2]++;
    for (size_t i = 2; i < r->n_ops + 2; i++) first[i] += first[i - 1];
    for (size_t i = 0; i < r->n_edges; i++) {
        const syn__pt_dep d = {r->edges[i].from, r->edges[i].class_};
        r->deps[first[r->edges[i].to + 1]++] = d;
    }
    return SYN_OK;
}

static int compare(const void *x, const void *y) {
    const syn__pt_dep *a = x, *b = y;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (int)precedence[a->class_] - (int)precedence[b->class_];
}

static void sort_few(syn__pt_dep *d, size_t n) {
    if (n > 32) {
        qsort(d, n, sizeof *d, compare);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        const syn__pt_dep held = d[i];
        size_t at = i;
        for (; at > 0 && compare(&d[at - 1], &held) > 0; at--) d[at] = d[at - 1];
        d[at] = held;
    }
}

static void tidy(syn__pt_rank *r) {
    size_t kept = 0;
    memset(r->n_edge_class, 0, sizeof r->n_edge_class);
    for (size_t op = 0; op < r->n_ops; op++) {
        const size_t begin = r->first_dep[op], end = r->first_dep[op + 1];
        sort_few(r->deps + begin, end - begin);
        r->first_dep[op] = (uint32_t)kept;
        for (size_t i = begin; i < end; i++) {
            if (i > begin && r->deps[i].from == r->deps[i - 1].from) continue;
            r->n_edge_class[r->deps[i].class_]++;
            r->deps[kept++] = r->deps[i];
        }
    }
    r->first_dep[r->n_ops] = (uint32_t)kept;
    r->n_deps = kept;
}

/* ---- Order ---- */

typedef struct sorter {
    syn__pt_rank *rank;
    uint32_t *left;            /* per op: number of dependencies that are not in the order yet; 0:
                                  ready */
    uint32_t *heap, *children; /* heap of ready ops; dependents, grouped by op */
    uint32_t *first_child;
    uint32_t *later; /* scratch memory of trim */
    size_t n_heap, n_done;
} sorter;

static void heap_push(sorter *s, uint32_t op) {
    size_t at = s->n_heap++;
    for (; at > 0 && s->heap[(at - 1) / 2] > op; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = op;
}

static uint32_t heap_pop(sorter *s) {
    const uint32_t top = s->heap[0], op = s->heap[--s->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->n_heap) break;
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child]) child++;
        if (s->heap[child] >= op) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = op;
    return top;
}

static bool in_order(const syn__pt_rank *r) {
    for (size_t op = 0; op < r->n_ops; op++)
        if (r->first_dep[op + 1] > r->first_dep[op] && r->deps[r->first_dep[op + 1] - 1].from >= op)
            return false;
    return true;
}

static void list_children(sorter *s) {
    const syn__pt_rank *r = s->rank;
    memset(s->first_child, 0, (r->n_ops + 2) * sizeof *s->first_child);
    for (size_t i = 0; i < r->n_deps; i++) s->first_child[r->deps[i].from + 2]++;
    for (size_t i = 2; i < r->n_ops + 2; i++) s->first_child[i] += s->first_child[i - 1];
    for (uint32_t op = 0; op < r->n_ops; op++)
        for (size_t i = r->first_dep[op]; i < r->first_dep[op + 1]; i++)
            s->children[s->first_child[r->deps[i].from + 1]++] = op;
}

static void run(sorter *s) {
    const syn__pt_rank *r = s->rank;
    s->n_heap = s->n_done = 0;
    list_children(s);
    for (uint32_t op = 0; op < r->n_ops; op++) {
        s->left[op] = r->first_dep[op + 1] - r->first_dep[op];
        if (s->left[op] == 0) heap_push(s, op);
    }
    while (s->n_heap > 0) {
        const uint32_t op = heap_pop(s);
        r->order[s->n_done++] = op;
        for (size_t i = s->first_child[op]; i < s->first_child[op + 1]; i++)
            if (--s->left[s->children[i]] == 0) heap_push(s, s->children[i]);
    }
}

/* Removes from the remaining ops those that do not lead to a cycle. */
static void trim(sorter *s) {
    const syn__pt_rank *r = s->rank;
    uint32_t *later = s->later; /* per op: number of remaining dependents */
    s->n_heap = 0;
    for (uint32_t op = 0; op < r->n_ops; op++) {
        later[op] = 0;
        for (size_t i = s->first_child[op]; i < s->first_child[op + 1]; i++)
            later[op] += s->left[s->children[i]] > 0;
        if (s->left[op] > 0 && later[op] == 0) s->heap[s->n_heap++] = op;
    }
    while (s->n_heap > 0) {
        const uint32_t op = s->heap[--s->n_heap];
        s->left[op] = 0;
        for (size_t i = r->first_dep[op]; i < r->first_dep[op + 1]; i++) {
            const uint32_t from = r->deps[i].from;
            if (s->left[from] > 0 && --later[from] == 0) s->heap[s->n_heap++] = from;
        }
    }
}

static bool goes_back(const syn__pt_rank *r, uint32_t from, uint32_t to, bool by_index) {
    const int64_t a = r->ops[from].start_ns, b = r->ops[to].start_ns;
    if (by_index || a == SYN__PT_NO_NS || b == SYN__PT_NO_NS || a == b) return from >= to;
    return a > b;
}

/* Drops the edges between remaining ops that go back in time, or in the order of ops if by_index.
 *n: number of dropped edges. */
static syn_status drop(sorter *s, bool by_index, syn_pytorch_note *notes, size_t *n,
                       syn_error *err) {
    syn__pt_rank *r = s->rank;
    size_t kept = 0;
    *n = 0;
    for (uint32_t op = 0; op < r->n_ops; op++) {
        const size_t begin = r->first_dep[op], end = r->first_dep[op + 1];
        r->first_dep[op] = (uint32_t)kept;
        for (size_t i = begin; i < end; i++) {
            const syn__pt_dep d = r->deps[i];
            const bool timely =
                !by_index && d.class_ == SYN_PYTORCH_EDGE_GROUP; /* group edges follow launch order,
                                                                    not the start times */
            if (s->left[op] > 0 && s->left[d.from] > 0 && !timely &&
                goes_back(r, d.from, op, by_index)) {
                SYN_TRY(syn_grow(&r->dropped, &r->dropped_cap, r->n_dropped + 1, sizeof *r->dropped,
                                 err));
                const syn__pt_edge e = {d.from, op, d.class_};
                r->dropped[r->n_dropped++] = e;
                r->n_edge_class[d.class_]--;
                const uint32_t node = r->ops[op].host;
                syn__pt_note_at(
                    notes, SYN_PYTORCH_ANOMALY_CYCLE, r->host_input.name, SYN_PYTORCH_NO_PLACE,
                    node == SYN__PT_NONE ? SYN_PYTORCH_NO_PLACE : r->host.nodes[node].id);
                ++*n;
            } else {
                r->deps[kept++] = d;
            }
        }
    }
    r->first_dep[r->n_ops] = (uint32_t)kept;
    r->n_deps = kept;
    return SYN_OK;
}

static syn_status sort_ops(sorter *s, syn_pytorch_note *notes, syn_error *err) {
    const size_t n = s->rank->n_ops;
    s->left = syn_malloc(n * sizeof *s->left);
    s->heap = syn_malloc(n * sizeof *s->heap);
    s->children = syn_malloc((s->rank->n_deps + 1) * sizeof *s->children);
    s->first_child = syn_malloc((n + 2) * sizeof *s->first_child);
    s->later = syn_malloc(n * sizeof *s->later);
    if (!s->left || !s->heap || !s->children || !s->first_child || !s->later)
        return SYN_FAIL_NOMEM(err, n * 16, "the order of ops");
    run(s);
    for (bool by_index = false; s->n_done < n;) {
        size_t n_dropped = 0;
        trim(s);
        SYN_TRY(drop(s, by_index, notes, &n_dropped, err));
        if (n_dropped == 0) by_index = true;
        run(s);
    }
    return SYN_OK;
}

static syn_status find_order(syn__pt_rank *rank, syn_pytorch_note *notes, syn_error *err) {
    sorter s = {.rank = rank};
    if (in_order(rank)) {
        for (uint32_t i = 0; i < rank->n_ops; i++) rank->order[i] = i;
        return SYN_OK;
    }
    const syn_status status = sort_ops(&s, notes, err);
    syn_free(s.left);
    syn_free(s.heap);
    syn_free(s.children);
    syn_free(s.first_child);
    syn_free(s.later);
    return status;
}

syn_status syn__pt_order(syn__pt_rank *rank, syn_pytorch_note *notes, syn_error *err) {
    SYN_TRY(collect(rank, err));
    syn_free(rank->edges);
    rank->edges = NULL;
    rank->n_edges = rank->edges_cap = 0;
    tidy(rank);
    syn_free(rank->order);
    syn_free(rank->ids);
    rank->order = syn_malloc(rank->n_ops * sizeof *rank->order);
    rank->ids = syn_malloc(rank->n_ops * sizeof *rank->ids);
    if (!rank->order || !rank->ids) return SYN_FAIL_NOMEM(err, rank->n_ops * 8, "the order of ops");
    SYN_TRY(find_order(rank, notes, err));
    for (uint32_t i = 0; i < rank->n_ops; i++) rank->ids[rank->order[i]] = i + 1;
    return SYN_OK;
}
