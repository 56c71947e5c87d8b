/* Makes a graph with all ranks, including those that a file stores as references to identical ranks
   (copies.h). This graph wraps the graph of the file's nodes and only stores the names, shards and
   attributes that differ, so that a small file that describes a large cluster needs little
   memory. */
#include "export/nodelink/nodelink_build.h"
#include "export/walk/copies.h"
#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define NO_COPY UINT32_MAX

/* The shard of one tensor of an identical rank. */
typedef struct own_shard {
    uint32_t tensor; /* index within the rank */
    int32_t index;
} own_shard;

/* A rank of the wrapping graph. */
typedef struct view {
    uint32_t base;    /* rank index in the base graph */
    uint32_t changed; /* rank index in the graph of changed ops; NO_COPY: the attributes of no op
                         differ */
    uint32_t *at;     /* node indices of the changed ops, ascending */
    bool is_copy;
    syn__renaming renaming;
    syn__shard_places places;
    own_shard *shards; /* shards that do not follow from `places`, ascending by tensor */
    size_t n_shards;
} view;

typedef struct copied {
    syn_graph *base, *changed;
    view *views;
} copied;

static int compare_own_shards(const void *a, const void *b) {
    const own_shard *x = a, *y = b;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static const syn_graph_tensor *copied_tensor(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                             syn_cursor *cursor) {
    const copied *c = graph->self;
    const view *v = &c->views[rank];
    const syn_graph_tensor *t = syn_graph_tensor_at(c->base, v->base, tensor, cursor);
    if (t == NULL || t->shard.count == 0 || !v->is_copy) return t;
    const own_shard key = {tensor, 0}, *own = NULL;
    if (v->n_shards > 0)
        own = bsearch(&key, v->shards, v->n_shards, sizeof key, compare_own_shards);
    cursor->tensor = *t;
    cursor->tensor.shard.index =
        own != NULL ? own->index : syn__shard_places_get(&v->places, &t->shard);
    if (cursor->tensor.shard.index < 0) cursor->tensor.shard = (syn_shard){0};
    return &cursor->tensor;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns the node of the original rank, with the names and attributes of the identical rank. The
   base graph is in memory, so the arrays of its nodes stay valid when the cursor reads another
   node. */
static const syn_node *copied_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                                   syn_cursor *cursor) {
    const copied *c = graph->self;
    const view *v = &c->views[rank];
    const syn_node *original = syn_graph_node(c->base, v->base, node, cursor);
    if (original == NULL || (v->changed == NO_COPY && v->renaming.n == 0)) return original;
    syn_node kept = *original;
    const uint32_t *at = v->changed == NO_COPY
                             ? NULL
                             : bsearch(&node, v->at, c->changed->ranks[v->changed].n_nodes,
                                       sizeof node, compare_u32);
    if (at != NULL) {
        const syn_node *changed =
            syn_graph_node(c->changed, v->changed, (uint32_t)(at - v->at), cursor);
        if (changed == NULL) return NULL;
        kept.attributes = changed->attributes;
        kept.n_attributes = changed->n_attributes;
    }
    syn__rename_node(c->base, &v->renaming, &kept);
    cursor->node = kept;
    return &cursor->node;
}

static void view_free(view *v) {
    syn_free(v->at);
    syn_free(v->renaming.at);
    syn_free(v->shards);
    syn__shard_places_free(&v->places);
}

static void copied_free(syn_graph *graph) {
    copied *c = graph->self;
    if (c != NULL) {
        for (uint32_t r = 0; c->views != NULL && r < graph->n_ranks; r++) view_free(&c->views[r]);
        syn_graph_free(c->base);
        syn_graph_free(c->changed);
        syn_free(c->views);
    }
    syn_free(c);
    syn_graph_free_meta(graph);
    syn_free(graph->ranks); /* the groups belong to the base graph */
    syn_free(graph);
}

static const syn_graph_source copied_source = {copied_node, copied_tensor, copied_free};

/* ---- Before the graph is built ---- */

static int compare_copies(const void *a, const void *b) {
    const syn__found_copy *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static const syn__found_copy *find_copy(const syn__found *found, int32_t rank) {
    const syn__found_copy *copies = found->copies;
    size_t low = 0, high = found->n_copies;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (copies[middle].rank < rank) low = middle + 1;
        else high = middle;
    }
    return low < found->n_copies && copies[low].rank == rank ? &copies[low] : NULL;
}

syn_status syn__build_leave_out_copies(syn__build *b) {
    syn__found *found = b->found;
    size_t n = 0;
    if (found->n_copies == 0) return SYN_OK;
    qsort(found->copies, found->n_copies, sizeof *found->copies, compare_copies);
    for (size_t i = 1; i < found->n_copies; i++)
        if (found->copies[i].rank == found->copies[i - 1].rank)
            return syn__found_fail(found, found->copies[i].at, "rank %d appears twice in copies",
                                   (int)found->copies[i].rank);
    for (size_t i = 0; i < b->n_ranks; i++)
        if (find_copy(found, b->ranks[i]) == NULL) b->ranks[n++] = b->ranks[i];
    if (found->n_ranks > 0 && n + found->n_copies != b->n_ranks)
        return syn__found_fail(found, found->copies[0].at,
                               "graph.ranks must list each rank of copies exactly once");
    b->n_ranks = n;
    return SYN_OK;
}

/* ---- The wrapping graph ---- */

typedef struct change_at {
    uint64_t id;
    uint32_t change; /* index into the file's list of changes */
} change_at;

static int compare_changes(const void *a, const void *b) {
    const change_at *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->change < y->change ? -1 : x->change > y->change;
}

/* Adds the ops of `changes`, which is sorted by id, in the order of their node indices. */
static syn_status add_changed(syn__build *b, copied *c, view *v, const change_at *changes,
                              size_t n) {
    const syn__found *found = b->found;
    const syn_graph_rank *rank = &c->base->ranks[v->base];
    syn_cursor cursor = {0};
    syn_status status = SYN_OK;
    uint32_t n_met = 0;
    for (uint32_t i = 0; i < rank->n_nodes && status == SYN_OK && n_met < n; i++) {
        const syn_node *node = syn_graph_node(c->base, v->base, i, &cursor);
        if (node == NULL) {
            status = syn__build_no_memory(b);
            break;
        }
        const uint64_t id = node->id;
        size_t low = 0, high = n;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (changes[middle].id < id) low = middle + 1;
            else high = middle;
        }
        if (low == n || changes[low].id != id) continue;
        const syn__found_change *change = &found->changes[changes[low].change];
        const syn_node facts = {.id = id,
                                .op = "",
                                .label = "",
                                .scope = "",
                                .attributes = change->attributes,
                                .n_attributes = change->n_attributes,
                                SYN_NODE_UNKNOWN};
        v->at[n_met++] = i;
        status = syn_graph_add_node(c->changed, v->changed, &facts, found->err);
    }
    syn_cursor_free(&cursor);
    if (status == SYN_OK && n_met < n)
        return syn__found_fail(
            b->found, found->changes[changes[0].change].at,
            "an op of a copy does not exist in the copied rank, or appears twice");
    return status;
}

static syn_status view_changes(syn__build *b, copied *c, view *v, uint32_t changed,
                               const syn__found_copy *copy) {
    const syn__found *found = b->found;
    if (copy->n_changes == 0) return SYN_OK;
    v->changed = changed;
    change_at *changes = syn_calloc(copy->n_changes, sizeof *changes);
    v->at = syn_calloc(copy->n_changes, sizeof *v->at);
    syn_status status = changes != NULL && v->at != NULL ? SYN_OK : syn__build_no_memory(b);
    for (size_t i = 0; i < copy->n_changes && status == SYN_OK; i++) {
        const syn__found_change *change = &found->changes[copy->first_change + i];
        changes[i] = (change_at){change->id.number, (uint32_t)(copy->first_change + i)};
        if (change->id.kind != 'o' || change->id.rank != copy->rank)
            status = syn__found_fail(b->found, change->at, "this must be an op of rank %d",
                                     (int)copy->rank);
    }
    if (status == SYN_OK) {
        qsort(changes, copy->n_changes, sizeof *changes, compare_changes);
        status = add_changed(b, c, v, changes, copy->n_changes);
    }
    syn_free(changes);
    return status;
}

/* Fails if the file cannot mean the name. */
static syn_status check_name(syn__build *b, const syn_graph *graph, const syn__found_copy *copy,
                             const syn__renamed *name) {
    const int64_t both[2] = {name->from, name->to};
    if (name->kind == SYN__NAME_SHARD && name->to >= name->from >> 32)
        return syn__found_fail(b->found, copy->at, "copy %d has shard %lld of %lld",
                               (int)copy->rank, (long long)name->to, (long long)(name->from >> 32));
    for (int i = 0; i < 2; i++) {
        if (name->kind == SYN__NAME_GROUP &&
            syn_graph_group_by_id(graph, (uint32_t)both[i]) == NULL)
            return syn__found_fail(b->found, copy->at,
                                   "the groups of copy %d name group %lld, which does not exist",
                                   (int)copy->rank, (long long)both[i]);
        if (name->kind == SYN__NAME_PEER && both[i] >= graph->world_size)
            return syn__found_fail(b->found, copy->at,
                                   "the peers of copy %d name rank %lld, but world_size is %d",
                                   (int)copy->rank, (long long)both[i], (int)graph->world_size);
    }
    return SYN_OK;
}

static syn_status view_names(syn__build *b, const syn_graph *graph, view *v,
                             const syn__found_copy *copy) {
    static const char *const keys[SYN__NAME_KINDS] = {"groups", "peers", "tags", "shards"};
    if (copy->n_names == 0) return SYN_OK;
    v->renaming.at = syn_calloc(copy->n_names, sizeof *v->renaming.at);
    if (v->renaming.at == NULL) return syn__build_no_memory(b);
    v->renaming.n = v->renaming.cap = copy->n_names;
    memcpy(v->renaming.at, b->found->names + copy->first_name,
           copy->n_names * sizeof *v->renaming.at);
    syn__renaming_sort(&v->renaming);
    for (size_t i = 0; i < v->renaming.n; i++) {
        const syn__renamed *name = &v->renaming.at[i];
        SYN_TRY(check_name(b, graph, copy, name));
        if (i > 0 && name[-1].kind == name->kind && name[-1].from == name->from)
            return syn__found_fail(b->found, copy->at, "%d appears twice in the %s of copy %d",
                                   (int)name->from, keys[name->kind], (int)copy->rank);
    }
    return SYN_OK;
}

static syn_status view_shard(syn__build *b, view *v, const syn__found_copy *copy,
                             const syn__found_shard *shard) {
    const syn__found_ref ref = {shard->tensor, copy->of, 't'};
    uint32_t at;
    SYN_TRY(syn__build_find(b, &ref, copy->at, &at));
    const int count = b->found->tensors[b->tensors.at[at].found].tensor.shard.count;
    if (shard->index >= count)
        return syn__found_fail(
            b->found, copy->at, "copy %d has shard %d of tensor %llu, which has %d shards",
            (int)copy->rank, (int)shard->index, (unsigned long long)shard->tensor, count);
    v->shards[v->n_shards++] = (own_shard){at - b->tensors.first[v->base], shard->index};
    return SYN_OK;
}

static syn_status view_shards(syn__build *b, view *v, const syn__found_copy *copy) {
    if (copy->n_shards == 0) return SYN_OK;
    v->shards = syn_calloc(copy->n_shards, sizeof *v->shards);
    if (v->shards == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < copy->n_shards; i++)
        SYN_TRY(view_shard(b, v, copy, &b->found->shards[copy->first_shard + i]));
    qsort(v->shards, v->n_shards, sizeof *v->shards, compare_own_shards);
    for (size_t i = 1; i < v->n_shards; i++)
        if (v->shards[i].tensor == v->shards[i - 1].tensor)
            return syn__found_fail(b->found, copy->at,
                                   "a tensor appears twice in the tensors of copy %d",
                                   (int)copy->rank);
    return SYN_OK;
}

/* Makes the view of an identical rank. `changed`: its rank index in the graph of changed ops. */
static syn_status view_copy(syn__build *b, const syn_graph *graph, view *v, uint32_t changed,
                            const syn__found_copy *copy) {
    copied *c = graph->self;
    v->is_copy = true;
    v->base = syn__build_rank_index(b, copy->of);
    if (v->base == UINT32_MAX)
        return syn__found_fail(b->found, copy->at,
                               "rank %d is a copy of rank %d, which has no nodes", (int)copy->rank,
                               (int)copy->of);
    SYN_TRY(view_changes(b, c, v, changed, copy));
    SYN_TRY(view_names(b, graph, v, copy));
    SYN_TRY(syn__shard_places_find(&v->places, graph, copy->of, copy->rank, &v->renaming,
                                   b->found->err));
    return view_shards(b, v, copy);
}

/* Returns all ranks in the order of the file's list or, if it has none, in ascending order. */
static int32_t *all_ranks(const syn__build *b, size_t *n) {
    const syn__found *found = b->found;
    int32_t *ranks = syn_calloc(b->n_ranks + found->n_copies, sizeof *ranks);
    size_t base = 0, copy = 0;
    *n = b->n_ranks + found->n_copies;
    if (ranks == NULL) return NULL;
    if (found->n_ranks > 0) return memcpy(ranks, found->ranks, *n * sizeof *ranks);
    for (size_t i = 0; i < *n; i++) {
        const bool take_copy = base == b->n_ranks || (copy < found->n_copies &&
                                                      found->copies[copy].rank < b->ranks[base]);
        ranks[i] = take_copy ? found->copies[copy++].rank : b->ranks[base++];
    }
    return ranks;
}

static syn_status fill(syn__build *b, syn_graph *graph, const int32_t *ranks) {
    copied *c = graph->self;
    int32_t *numbers = syn_calloc(b->found->n_copies, sizeof *numbers);
    if (numbers == NULL) return syn__build_no_memory(b);
    for (size_t i = 0; i < b->found->n_copies; i++) numbers[i] = b->found->copies[i].rank;
    const syn_status made = syn_graph_new(&c->changed, numbers, (uint32_t)b->found->n_copies,
                                          graph->world_size, b->found->err);
    syn_free(numbers);
    SYN_TRY(made);
    for (uint32_t r = 0; r < graph->n_ranks; r++) {
        const syn__found_copy *copy = find_copy(b->found, ranks[r]);
        view *v = &c->views[r];
        v->changed = NO_COPY;
        if (copy == NULL) v->base = syn__build_rank_index(b, ranks[r]);
        else SYN_TRY(view_copy(b, graph, v, (uint32_t)(copy - b->found->copies), copy));
        graph->ranks[r] = c->base->ranks[v->base];
        graph->ranks[r].rank = ranks[r];
    }
    return SYN_OK;
}

static syn_status wrap(syn__build *b, syn_graph *base, const int32_t *ranks, size_t n_ranks,
                       syn_graph **out) {
    syn_graph *graph = syn_calloc(1, sizeof *graph);
    if (graph == NULL) return syn__build_no_memory(b);
    copied *c = syn_calloc(1, sizeof *c);
    *graph = (syn_graph){.source = &copied_source,
                         .world_size = base->world_size,
                         .groups = base->groups,
                         .n_groups = base->n_groups,
                         .self = c};
    graph->ranks = syn_calloc(n_ranks, sizeof *graph->ranks);
    if (c != NULL) c->views = syn_calloc(n_ranks, sizeof *c->views);
    const bool has_capacity = c != NULL && c->views != NULL && graph->ranks != NULL;
    syn_status status = SYN_OK;
    if (has_capacity) {
        graph->n_ranks = (uint32_t)n_ranks;
        c->base = base;
        status = fill(b, graph, ranks);
        c->base = status == SYN_OK ? base : NULL; /* after a failure the caller still owns the base
                                                     graph */
    } else {
        status = syn__build_no_memory(b);
    }
    if (status != SYN_OK) {
        copied_free(graph);
        return status;
    }
    graph->metadata = base->metadata;
    graph->n_metadata = base->n_metadata;
    graph->metadata_cap = base->metadata_cap;
    base->metadata = NULL;
    base->n_metadata = 0;
    base->metadata_cap = 0;
    *out = graph;
    return SYN_OK;
}

syn_status syn__build_show_copies(syn__build *b, syn_graph **graph) {
    size_t n_ranks;
    if (b->found->n_copies == 0) return SYN_OK;
    int32_t *ranks = all_ranks(b, &n_ranks);
    syn_graph *all = NULL;
    syn_status status =
        ranks != NULL ? wrap(b, *graph, ranks, n_ranks, &all) : syn__build_no_memory(b);
    syn_free(ranks);
    if (status != SYN_OK) return status;
    *graph = all;
    return SYN_OK;
}
