/* syn_graph_verify, which checks a graph. It makes one pass over the tensors of each rank and one
   pass over its nodes, or two if the ids of the nodes do not ascend. */
#include <inttypes.h>
#include <math.h>

#include "syntorch/base/memory.h"
#include "syntorch/graph/graph.h"

/* The state of a group while the nodes of one rank are checked. */
typedef struct group_state {
    uint32_t id, index; /* index in graph->groups; the states are sorted by id */
    uint32_t rank;      /* 1 + index of the rank for which the following members are valid */
    uint64_t next_comm_index;
    bool member;
} group_state;

typedef struct check {
    const syn_graph *graph;
    uint32_t rank;
    syn_cursor cursor;
    syn_error *err;
    group_state *groups;
    uint32_t *producers; /* by tensor */
    uint32_t *bases;
    uint32_t *versions; /* by storage: 1 + the last tensor that overwrote it; 0: none */
    uint8_t *produced;  /* by tensor: whether its producer lists it as an output */
} check;

/* ---- Sorting in place, iteratively, without allocating, unlike qsort ---- */

static void sift_down(uint64_t *keys, size_t root, size_t n) {
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && keys[child + 1] > keys[child]) child++;
        if (keys[root] >= keys[child]) return;
        const uint64_t key = keys[root];
        keys[root] = keys[child];
        keys[child] = key;
    }
}

static void heap_sort(uint64_t *keys, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(keys, i, n);
    for (size_t i = n; i-- > 1;) {
        const uint64_t key = keys[0];
        keys[0] = keys[i];
        keys[i] = key;
        sift_down(keys, 0, i);
    }
}

/* Sorts the keys. If two keys are equal, returns true and sets *twice to this key. */
static bool has_twice(uint64_t *keys, size_t n, uint64_t *twice) {
    heap_sort(keys, n);
    for (size_t i = 1; i < n; i++) {
        if (keys[i] != keys[i - 1]) continue;
        *twice = keys[i];
        return true;
    }
    return false;
}

static uint64_t *new_keys(size_t n, syn_error *err) {
    uint64_t *keys = (uint64_t *)syn_calloc(n, sizeof *keys);
    if (keys == NULL) (void)SYN_FAIL_NOMEM(err, n * sizeof *keys, "the checks of a graph");
    return keys;
}

/* ---- Parts of the whole graph ---- */

static bool attribute_is_whole(const syn_attribute *a) {
    return a->name != NULL && *a->name != '\0' && (unsigned)a->type <= SYN_VALUE_TEXT &&
           (a->type != SYN_VALUE_TEXT || a->text != NULL);
}

static syn_status check_metadata(const check *c) {
    for (uint32_t i = 0; i < c->graph->n_metadata; i++) {
        if (!attribute_is_whole(&c->graph->metadata[i]))
            return SYN_FAIL(c->err, SYN_E_INVALID, "entry %u of the metadata lacks a name or value",
                            i);
    }
    return SYN_OK;
}

static syn_status check_ranks(const check *c) {
    const syn_graph *g = c->graph;
    uint64_t twice, *keys = new_keys(g->n_ranks, c->err);
    if (keys == NULL) return SYN_E_NOMEM;
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < g->n_ranks && status == SYN_OK; i++) {
        const int32_t rank = g->ranks[i].rank;
        keys[i] = (uint64_t)(uint32_t)rank;
        if (rank < 0 || rank >= g->world_size)
            status = SYN_FAIL(c->err, SYN_E_INVALID, "rank %d is not in a world of %d ranks",
                              (int)rank, (int)g->world_size);
    }
    if (status == SYN_OK && has_twice(keys, g->n_ranks, &twice))
        status = SYN_FAIL(c->err, SYN_E_INVALID, "rank %" PRIu64 " is in the graph twice", twice);
    syn_free(keys);
    return status;
}

static syn_status check_group(const check *c, const syn_graph_group *group) {
    if (group->id == 0 || group->name == NULL || group->n_ranks == 0)
        return SYN_FAIL(c->err, SYN_E_INVALID, "group %u has no %s", group->id,
                        group->id == 0        ? "id"
                        : group->name == NULL ? "name"
                                              : "ranks");
    uint64_t twice, *keys = new_keys(group->n_ranks, c->err);
    if (keys == NULL) return SYN_E_NOMEM;
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < group->n_ranks && status == SYN_OK; i++) {
        const int32_t rank = group->ranks[i];
        keys[i] = (uint64_t)(uint32_t)rank;
        if (rank < 0 || rank >= c->graph->world_size)
            status = SYN_FAIL(c->err, SYN_E_INVALID,
                              "group %u (%s) has rank %d, which is not in a world of %d ranks",
                              group->id, group->name, (int)rank, (int)c->graph->world_size);
    }
    if (status == SYN_OK && has_twice(keys, group->n_ranks, &twice))
        status = SYN_FAIL(c->err, SYN_E_INVALID, "group %u (%s) has rank %" PRIu64 " twice",
                          group->id, group->name, twice);
    syn_free(keys);
    return status;
}

/* Checks the groups and sorts their states by id, for lookups. */
static syn_status check_groups(check *c) {
    const uint32_t n = c->graph->n_groups;
    uint64_t *keys = new_keys(n, c->err);
    if (keys == NULL) return SYN_E_NOMEM;
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < n && status == SYN_OK; i++) {
        keys[i] = (uint64_t)c->graph->groups[i].id << 32 | i;
        status = check_group(c, &c->graph->groups[i]);
    }
    heap_sort(keys, n);
    for (uint32_t i = 0; i < n; i++)
        c->groups[i] = (group_state){.id = (uint32_t)(keys[i] >> 32), .index = (uint32_t)keys[i]};
    syn_free(keys);
    for (uint32_t i = 1; i < n && status == SYN_OK; i++) {
        if (c->groups[i].id == c->groups[i - 1].id)
            status = SYN_FAIL(c->err, SYN_E_INVALID, "group %u appears twice", c->groups[i].id);
    }
    return status;
}

/* The state of a group; NULL if there is no such group. A state that belongs to an earlier rank is
   reset. */
static group_state *find_group(check *c, uint32_t id) {
    uint32_t low = 0, high = c->graph->n_groups;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->groups[middle].id < id) low = middle + 1;
        else high = middle;
    }
    if (low == c->graph->n_groups || c->groups[low].id != id) return NULL;
    group_state *state = &c->groups[low];
    if (state->rank == c->rank + 1) return state;
    state->rank = c->rank + 1;
    state->next_comm_index = 0;
    state->member = false;
    const syn_graph_group *group = &c->graph->groups[state->index];
    for (uint32_t i = 0; i < group->n_ranks && !state->member; i++)
        state->member = group->ranks[i] == c->graph->ranks[c->rank].rank;
    return state;
}

/* ---- Tensors ---- */

static syn_status fail_tensor(const check *c, uint32_t tensor, const char *name, const char *what) {
    return SYN_FAIL(c->err, SYN_E_INVALID, "rank %d, tensor %u (%s): %s",
                    (int)c->graph->ranks[c->rank].rank, tensor, name, what);
}

static syn_status check_tensor(check *c, uint32_t i) {
    const uint32_t given = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    const syn_graph_rank *rank = &c->graph->ranks[c->rank];
    const syn_graph_tensor *t = syn_graph_tensor_at(c->graph, c->rank, i, &c->cursor);
    if (t == NULL) return SYN_FAIL(c->err, c->cursor.error.code, "%s", c->cursor.error.text);
    if (t->name == NULL) return fail_tensor(c, i, "?", "has no name");
    if (!syn_spec_valid(&t->spec)) return fail_tensor(c, i, t->name, "its shape is not valid");
    if (t->base > i) return fail_tensor(c, i, t->name, "shares the storage of a later tensor");
    if (t->producer == SYN_NO_NODE && (t->flags & given) == 0)
        return fail_tensor(c, i, t->name,
                           "has no producer, but is not a parameter, input or state");
    if (t->producer != SYN_NO_NODE && t->producer >= rank->n_nodes)
        return fail_tensor(c, i, t->name, "its producer does not exist");
    c->producers[i] = t->producer;
    c->bases[i] = t->base;
    return SYN_OK;
}

/* ---- Nodes ---- */

/* Fails for a node: "rank 0, node 12 (linear): <what> <number>". */
static syn_status fail_node(const check *c, uint32_t i, const syn_node *n, const char *what,
                            int64_t number) {
    return SYN_FAIL(c->err, SYN_E_INVALID, "rank %d, node %u (%.80s): %s %" PRId64,
                    (int)c->graph->ranks[c->rank].rank, i, n->op != NULL ? n->op : "?", what,
                    number);
}

static syn_status check_fields(const check *c, uint32_t i, const syn_node *n) {
    if (n->op == NULL || n->label == NULL || n->scope == NULL)
        return fail_node(c, i, n, "lacks its op, label or scope; its id is", (int64_t)n->id);
    if ((unsigned)n->kind >= SYN_NODE_KIND_COUNT)
        return fail_node(c, i, n, "unknown kind of node", (int64_t)n->kind);
    if ((unsigned)n->category >= SYN_CATEGORY_COUNT)
        return fail_node(c, i, n, "unknown category", (int64_t)n->category);
    if ((unsigned)n->phase >= SYN_PHASE_COUNT)
        return fail_node(c, i, n, "unknown phase", (int64_t)n->phase);
    if (n->stream < 0) return fail_node(c, i, n, "negative stream", n->stream);
    if (!isfinite(n->start_ns) || !isfinite(n->wall_ns) || !isfinite(n->cpu_ns) ||
        !isfinite(n->wait_ns) || !isfinite(n->predicted_ns))
        return fail_node(c, i, n, "has a time that is not a number; its id is", (int64_t)n->id);
    return SYN_OK;
}

static syn_status check_deps(const check *c, uint32_t i, const syn_node *n) {
    uint32_t classes = 0; /* the classes of the dependencies on the same node so far */
    for (uint32_t k = 0; k < n->n_deps; k++) {
        const syn_dep *d = &n->deps[k];
        if (d->node >= i)
            return fail_node(c, i, n, "depends on a node that is not earlier:", d->node);
        if (d->dep_class >= SYN_DEP_COUNT)
            return fail_node(c, i, n, "unknown class of dependency", d->dep_class);
        if (k > 0 && d->node < d[-1].node)
            return fail_node(c, i, n, "dependencies are not in ascending order at node", d->node);
        if (k == 0 || d->node != d[-1].node) classes = 0;
        if (classes & 1u << d->dep_class)
            return fail_node(c, i, n, "lists the same dependency twice, on node", d->node);
        classes |= 1u << d->dep_class;
    }
    return SYN_OK;
}

static bool has_data_dep(const syn_node *n, uint32_t producer) {
    uint32_t low = 0, high = n->n_deps;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (n->deps[middle].node < producer) low = middle + 1;
        else high = middle;
    }
    for (; low < n->n_deps && n->deps[low].node == producer; low++) {
        if (n->deps[low].dep_class == SYN_DEP_DATA) return true;
    }
    return false;
}

/* Whether tensor t is older than the current version in its storage. */
static bool is_stale(const check *c, uint32_t t) {
    const uint32_t current = c->versions[c->bases[t]];
    if (current == 0) return false;
    if (c->producers[t] == SYN_NO_NODE) return t < current - 1;
    return c->producers[t] < c->producers[current - 1];
}

/* A node whose output is in the storage of one of its inputs overwrites this storage, unless the
   output is a view. Older tensors in the storage are then stale. */
static syn_status check_versions(check *c, uint32_t i, const syn_node *n) {
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        const uint32_t t = n->inputs[k];
        if (is_stale(c, t))
            return SYN_FAIL(c->err, SYN_E_INVALID,
                            "rank %d, node %u (%.80s): reads tensor %u, which node %u overwrote",
                            (int)c->graph->ranks[c->rank].rank, i, n->op, t,
                            c->producers[c->versions[c->bases[t]] - 1]);
    }
    for (uint32_t k = 0; k < n->n_outputs && !(n->flags & SYN_NODE_VIRTUAL); k++) {
        const uint32_t t = n->outputs[k], base = c->bases[t];
        for (uint32_t m = 0; m < n->n_inputs && base != t; m++)
            if (c->bases[n->inputs[m]] == base) c->versions[base] = t + 1;
    }
    return SYN_OK;
}

static syn_status check_tensors_of(check *c, uint32_t i, const syn_node *n) {
    const uint32_t n_tensors = c->graph->ranks[c->rank].n_tensors;
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        if (n->inputs[k] >= n_tensors)
            return fail_node(c, i, n, "reads a tensor that does not exist:", n->inputs[k]);
        const uint32_t producer = c->producers[n->inputs[k]];
        if (producer == SYN_NO_NODE) continue;
        if (producer >= i)
            return fail_node(c, i, n, "reads the output of a node that is not earlier:", producer);
        if (!has_data_dep(n, producer))
            return fail_node(
                c, i, n, "lacks a data dependency on the node whose output it reads:", producer);
    }
    for (uint32_t k = 0; k < n->n_outputs; k++) {
        if (n->outputs[k] >= n_tensors)
            return fail_node(c, i, n, "writes a tensor that does not exist:", n->outputs[k]);
        if (c->producers[n->outputs[k]] != i)
            return fail_node(c, i, n, "writes a tensor that has another producer:", n->outputs[k]);
        c->produced[n->outputs[k]] = 1;
    }
    return check_versions(c, i, n);
}

static syn_status check_comm_kind(const check *c, uint32_t i, const syn_node *n) {
    const bool known = n->comm > SYN_COMM_NONE && (unsigned)n->comm < SYN_COMM_KIND_COUNT;
    const bool fits = n->kind == SYN_NODE_SEND ? n->comm == SYN_COMM_SEND
                      : n->kind == SYN_NODE_RECV
                          ? n->comm == SYN_COMM_RECV
                          : n->comm != SYN_COMM_SEND && n->comm != SYN_COMM_RECV;
    if (!known || !fits)
        return fail_node(c, i, n, "its kind of communication does not match its kind of node:",
                         (int64_t)n->comm);
    if (n->reduce < -1 || n->reduce >= (int32_t)SYN_REDUCE_COUNT)
        return fail_node(c, i, n, "unknown reduction", n->reduce);
    if (n->root < -1 || n->root >= c->graph->world_size)
        return fail_node(c, i, n, "its root is not a rank:", n->root);
    if (n->kind != SYN_NODE_COLLECTIVE && (n->peer < 0 || n->peer >= c->graph->world_size))
        return fail_node(c, i, n, "its peer is not a rank:", n->peer);
    return SYN_OK;
}

static syn_status check_comm(check *c, uint32_t i, const syn_node *n) {
    if (n->kind != SYN_NODE_COLLECTIVE && n->kind != SYN_NODE_SEND && n->kind != SYN_NODE_RECV)
        return SYN_OK;
    SYN_TRY(check_comm_kind(c, i, n));
    if (n->group == 0) return SYN_OK;
    group_state *state = find_group(c, n->group);
    if (state == NULL) return fail_node(c, i, n, "its group does not exist:", n->group);
    if (!state->member) return fail_node(c, i, n, "its rank is not in its group", n->group);
    if (n->kind != SYN_NODE_COLLECTIVE) return SYN_OK;
    /* Consumers match the calls of different ranks by comm_index. */
    if (n->comm_index < state->next_comm_index)
        return fail_node(c, i, n,
                         "its sequence number in the group does not ascend:", n->comm_index);
    state->next_comm_index = (uint64_t)n->comm_index + 1;
    return SYN_OK;
}

static syn_status check_node(check *c, uint32_t i, const syn_node *n) {
    SYN_TRY(check_fields(c, i, n));
    SYN_TRY(check_deps(c, i, n));
    SYN_TRY(check_tensors_of(c, i, n));
    SYN_TRY(check_comm(c, i, n));
    for (uint32_t k = 0; k < n->n_attributes; k++) {
        if (!attribute_is_whole(&n->attributes[k]))
            return fail_node(c, i, n, "has an attribute without a name or value, number", k);
    }
    return SYN_OK;
}

static const syn_node *node_at(check *c, uint32_t i) {
    const syn_node *n = syn_graph_node(c->graph, c->rank, i, &c->cursor);
    if (n == NULL) (void)SYN_FAIL(c->err, c->cursor.error.code, "%s", c->cursor.error.text);
    return n;
}

/* Checks that node ids are unique. Called only if they do not ascend. */
static syn_status check_ids(check *c) {
    const syn_graph_rank *rank = &c->graph->ranks[c->rank];
    uint64_t twice, *keys = new_keys(rank->n_nodes, c->err);
    if (keys == NULL) return SYN_E_NOMEM;
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < rank->n_nodes && status == SYN_OK; i++) {
        const syn_node *n = node_at(c, i);
        if (n == NULL) status = c->cursor.error.code;
        else keys[i] = n->id;
    }
    if (status == SYN_OK && has_twice(keys, rank->n_nodes, &twice))
        status = SYN_FAIL(c->err, SYN_E_INVALID, "rank %d has two nodes with the id %" PRIu64,
                          (int)rank->rank, twice);
    syn_free(keys);
    return status;
}

static syn_status check_nodes(check *c) {
    const syn_graph_rank *rank = &c->graph->ranks[c->rank];
    bool ascending = true;
    uint64_t last_id = 0;
    for (uint32_t i = 0; i < rank->n_nodes; i++) {
        const syn_node *n = node_at(c, i);
        if (n == NULL) return c->cursor.error.code;
        SYN_TRY(check_node(c, i, n));
        if (i > 0 && n->id <= last_id) ascending = false;
        last_id = n->id;
    }
    return ascending ? SYN_OK : check_ids(c);
}

static syn_status check_produced(check *c) {
    for (uint32_t i = 0; i < c->graph->ranks[c->rank].n_tensors; i++) {
        if (c->producers[i] == SYN_NO_NODE || c->produced[i]) continue;
        const syn_graph_tensor *t = syn_graph_tensor_at(c->graph, c->rank, i, &c->cursor);
        return fail_tensor(c, i, t != NULL ? t->name : "?", "its producer does not write it");
    }
    return SYN_OK;
}

static syn_status check_rank(check *c) {
    const uint32_t n = c->graph->ranks[c->rank].n_tensors;
    c->producers = (uint32_t *)syn_calloc(n, sizeof *c->producers);
    c->bases = (uint32_t *)syn_calloc(n, sizeof *c->bases);
    c->versions = (uint32_t *)syn_calloc(n, sizeof *c->versions);
    c->produced = (uint8_t *)syn_calloc(n, 1);
    syn_status status = SYN_OK;
    if (c->producers == NULL || c->bases == NULL || c->versions == NULL || c->produced == NULL)
        status =
            SYN_FAIL_NOMEM(c->err, (size_t)n * 3 * sizeof *c->producers, "the checks of a graph");
    for (uint32_t i = 0; i < n && status == SYN_OK; i++) status = check_tensor(c, i);
    if (status == SYN_OK) status = check_nodes(c);
    if (status == SYN_OK) status = check_produced(c);
    syn_free(c->produced);
    syn_free(c->versions);
    syn_free(c->bases);
    syn_free(c->producers);
    return status;
}

syn_status syn_graph_verify(const syn_graph *graph, syn_error *err) {
    check c = {.graph = graph, .err = err};
    c.groups = (group_state *)syn_calloc(graph->n_groups, sizeof *c.groups);
    if (c.groups == NULL)
        return SYN_FAIL_NOMEM(err, graph->n_groups * sizeof *c.groups, "the checks of a graph");
    syn_status status = check_ranks(&c);
    if (status == SYN_OK) status = check_groups(&c);
    if (status == SYN_OK) status = check_metadata(&c);
    for (; c.rank < graph->n_ranks && status == SYN_OK; c.rank++) status = check_rank(&c);
    syn_cursor_free(&c.cursor);
    syn_free(c.groups);
    return status;
}
