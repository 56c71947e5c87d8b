/* Renames groups, peers, tags and shards; see renaming.h. */
#include "export/walk/renaming.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>

static int compare_renamed(const void *a, const void *b) {
    const syn__renamed *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

void syn__renaming_sort(syn__renaming *renaming) {
    if (renaming->n > 1) qsort(renaming->at, renaming->n, sizeof *renaming->at, compare_renamed);
}

int64_t syn__renaming_get(const syn__renaming *renaming, syn__name_kind kind, int64_t name) {
    const syn__renamed key = {kind, name, 0};
    if (renaming->n == 0) return name;
    const syn__renamed *found =
        bsearch(&key, renaming->at, renaming->n, sizeof key, compare_renamed);
    return found != NULL ? found->to : name;
}

syn_status syn__renaming_add(syn__renaming *renaming, syn__renamed name, syn_error *err) {
    SYN_TRY(syn_grow(&renaming->at, &renaming->cap, renaming->n + 1, sizeof *renaming->at, err));
    renaming->at[renaming->n++] = name;
    return SYN_OK;
}

size_t syn__renaming_nodes(const syn__renaming *renaming) {
    size_t n = renaming->n;
    while (n > 0 && renaming->at[n - 1].kind == SYN__NAME_SHARD) n--;
    return n;
}

/* The position of a rank in a group; -1 if it is not a member. Most groups have a constant
   stride. */
static int32_t place_in(const syn_graph_group *g, int32_t rank) {
    const int64_t step = g->n_ranks > 1 ? (int64_t)g->ranks[1] - g->ranks[0] : 1;
    const int64_t guess = step != 0 ? ((int64_t)rank - g->ranks[0]) / step : 0;
    if (guess >= 0 && guess < g->n_ranks && g->ranks[guess] == rank) return (int32_t)guess;
    for (uint32_t i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == rank) return (int32_t)i;
    return -1;
}

static int32_t rename_root(const syn_graph *graph, uint32_t from, uint32_t to, int32_t root) {
    const syn_graph_group *a = syn_graph_group_by_id(graph, from);
    const syn_graph_group *b = syn_graph_group_by_id(graph, to);
    const int32_t place = a != NULL && b != NULL && root >= 0 ? place_in(a, root) : -1;
    return place >= 0 && place < (int32_t)b->n_ranks ? b->ranks[place] : root;
}

/* The stream of messages with a peer; -1 if it has no number. */
static int32_t stream_with(int32_t peer, bool send) {
    return peer >= 0 && peer < INT32_MAX / 2 - 128 ? syn_message_stream(peer, send) : -1;
}

void syn__rename_node(const syn_graph *graph, const syn__renaming *renaming, syn_node *node) {
    const bool send = node->kind == SYN_NODE_SEND, message = send || node->kind == SYN_NODE_RECV;
    if (renaming->n == 0) return;
    if (node->group != 0) {
        const uint32_t group =
            (uint32_t)syn__renaming_get(renaming, SYN__NAME_GROUP, (int64_t)node->group);
        if (group != node->group) node->root = rename_root(graph, node->group, group, node->root);
        node->group = group;
    }
    if (!message) return;
    const int32_t peer = (int32_t)syn__renaming_get(renaming, SYN__NAME_PEER, node->peer);
    if (node->stream == stream_with(node->peer, send) && stream_with(peer, send) >= 0)
        node->stream = stream_with(peer, send);
    node->peer = peer;
    node->tag = (int32_t)syn__renaming_get(renaming, SYN__NAME_TAG, node->tag);
}

/* ---- Shards ---- */

static syn_status add_place(syn__shard_places *places, syn__shard_place place, syn_error *err) {
    SYN_TRY(syn_grow(&places->at, &places->cap, places->n + 1, sizeof *places->at, err));
    places->at[places->n++] = place;
    return SYN_OK;
}

syn_status syn__shard_places_find(syn__shard_places *places, const syn_graph *graph, int32_t of,
                                  int32_t copy, const syn__renaming *renaming, syn_error *err) {
    places->n = 0;
    for (size_t i = 0; i < renaming->n; i++) {
        const syn__renamed *name = &renaming->at[i];
        if (name->kind != SYN__NAME_SHARD) continue;
        const syn__shard_place place = {(uint32_t)(name->from >> 32), (int32_t)name->from,
                                        (int32_t)name->to};
        SYN_TRY(add_place(places, place, err));
    }
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const syn_graph_group *g = &graph->groups[i];
        const int32_t index = place_in(g, of);
        if (index < 0) continue;
        const syn_graph_group *own = syn_graph_group_by_id(
            graph, (uint32_t)syn__renaming_get(renaming, SYN__NAME_GROUP, g->id));
        const int32_t place = own != NULL && own->n_ranks == g->n_ranks ? place_in(own, copy) : -1;
        if (place < 0) continue;
        SYN_TRY(add_place(places, (syn__shard_place){g->n_ranks, index, place}, err));
    }
    return SYN_OK;
}

int32_t syn__shard_places_get(const syn__shard_places *places, const syn_shard *shard) {
    if (shard->count < 2) return shard->index;
    for (size_t i = 0; i < places->n; i++)
        if (places->at[i].count == (uint32_t)shard->count && places->at[i].index == shard->index)
            return places->at[i].place;
    return -1;
}

void syn__shard_places_free(syn__shard_places *places) {
    syn_free(places->at);
    *places = (syn__shard_places){0};
}
