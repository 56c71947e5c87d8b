/* Moves collectives behind the sends that do not need them (et_order.h). */
#include "export/chakra/et_order.h"

#include "export/walk/streams.h"
#include "syntorch/base/memory.h"

#define NONE UINT32_MAX

typedef struct collective {
    uint32_t node, group;
    uint32_t next;  /* index of the stream's next collective; NONE: there is none */
    uint32_t users; /* the collectives that depend on it: index into uses; NONE: there are none */
    uint32_t send;  /* the send that it follows; NONE: it does not move */
} collective;

typedef struct sorter {
    const syn_graph *graph;
    uint32_t rank;
    uint32_t *limit; /* per node: the first node that must come after it, except for collectives
                        after a collective; NONE: there is none */
    collective *all;
    size_t n, cap;
    struct use {
        uint32_t user, next; /* index of the collective; the next use; NONE: there is none */
    } * uses;
    size_t n_uses, uses_cap;
    uint32_t *sends, *barriers, *last; /* last: per stream, 1 + index of its last collective */
    size_t n_sends, sends_cap, n_barriers, barriers_cap, n_last, last_cap;
    int32_t *peers;
    size_t n_peers, peers_cap;
    syn__streams streams; /* per stream: 1 + index into last */
} sorter;

static void limit_to(sorter *s, uint32_t node, uint32_t limit) {
    if (limit < s->limit[node]) s->limit[node] = limit;
}

static syn_status add_peer(sorter *s, int32_t peer, syn_error *err) {
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i] == peer) return SYN_OK;
    SYN_TRY(syn_grow(&s->peers, &s->peers_cap, s->n_peers + 1, sizeof *s->peers, err));
    s->peers[s->n_peers++] = peer;
    return SYN_OK;
}

static syn_status add_index(uint32_t **array, size_t *n, size_t *cap, uint32_t index,
                            syn_error *err) {
    SYN_TRY(syn_grow(array, cap, *n + 1, sizeof **array, err));
    (*array)[(*n)++] = index;
    return SYN_OK;
}

/* Notes that `index` is the next node of its stream. */
static syn_status follow_stream(sorter *s, uint32_t index, const syn_node *node, syn_error *err) {
    uint32_t *number;
    SYN_TRY(syn__streams_at(&s->streams, syn__stream_of(node), &number, err));
    if (*number == 0) {
        SYN_TRY(add_index(&s->last, &s->n_last, &s->last_cap, 0, err));
        *number = (uint32_t)s->n_last;
    }
    uint32_t *last = &s->last[*number - 1];
    if (node->kind != SYN_NODE_COLLECTIVE) {
        if (*last != 0) limit_to(s, s->all[*last - 1].node, index);
        *last = 0;
        return SYN_OK;
    }
    SYN_TRY(syn_grow(&s->all, &s->cap, s->n + 1, sizeof *s->all, err));
    if (*last != 0) s->all[*last - 1].next = (uint32_t)s->n;
    s->all[s->n++] = (collective){index, node->group, NONE, NONE, NONE};
    *last = (uint32_t)s->n;
    return SYN_OK;
}

/* The collective of a node; NULL: the node is none. */
static collective *collective_at(const sorter *s, uint32_t node) {
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->all[middle].node < node) low = middle + 1;
        else high = middle;
    }
    return low < s->n && s->all[low].node == node ? &s->all[low] : NULL;
}

/* Notes what the node depends on. A collective may depend on one that moves, too; the node will be
   number s->n. */
static syn_status read_deps(sorter *s, uint32_t index, const syn_node *node, syn_error *err) {
    for (uint32_t i = 0; i < node->n_deps; i++) {
        const uint32_t dep = node->deps[i].node;
        collective *of = node->kind == SYN_NODE_COLLECTIVE ? collective_at(s, dep) : NULL;
        if (of == NULL && dep < index) limit_to(s, dep, index);
        if (of == NULL) continue;
        SYN_TRY(syn_grow(&s->uses, &s->uses_cap, s->n_uses + 1, sizeof *s->uses, err));
        s->uses[s->n_uses] = (struct use){(uint32_t)s->n, of->users};
        of->users = (uint32_t)s->n_uses++;
    }
    return SYN_OK;
}

static syn_status read_node(sorter *s, uint32_t index, const syn_node *node, syn_error *err) {
    if (node->kind == SYN_NODE_SEND)
        SYN_TRY(add_index(&s->sends, &s->n_sends, &s->sends_cap, index, err));
    if (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV)
        SYN_TRY(add_peer(s, node->peer, err));
    if (node->kind == SYN_NODE_COLLECTIVE && node->comm == SYN_COMM_BARRIER)
        return add_index(&s->barriers, &s->n_barriers, &s->barriers_cap, index, err);
    SYN_TRY(read_deps(s, index, node, err));
    return follow_stream(s, index, node, err);
}

static syn_status read_nodes(sorter *s, syn_error *err) {
    const uint32_t n = s->graph->ranks[s->rank].n_nodes;
    syn_cursor cursor = {0};
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < n && status == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(s->graph, s->rank, i, &cursor);
        status = node != NULL ? read_node(s, i, node, err)
                              : SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
    }
    syn_cursor_free(&cursor);
    return status;
}

/* Whether the rank exchanges a message with a member of the group. Group 0 has all ranks. */
static bool has_peer(const sorter *s, uint32_t id) {
    const syn_graph_group *group = syn_graph_group_by_id(s->graph, id);
    if (id == 0 || group == NULL) return true;
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        for (size_t k = 0; k < s->n_peers; k++)
            if (group->ranks[i] == s->peers[k]) return true;
    }
    return false;
}

/* The first position that is too late for a collective before collective number `next`. */
static uint32_t end_before(const sorter *s, uint32_t next) {
    const collective *c = &s->all[next];
    return c->send != NONE ? c->send + 1 : c->node;
}

/* Decides for each collective which send it follows, from the last to the first. */
static bool decide(sorter *s) {
    size_t send = s->n_sends, barrier = s->n_barriers;
    bool moved = false;
    for (size_t i = s->n; i-- > 0;) {
        collective *c = &s->all[i];
        while (send > 0 && s->sends[send - 1] > c->node) send--;
        while (barrier > 0 && s->barriers[barrier - 1] > c->node) barrier--;
        uint32_t limit = s->limit[c->node];
        if (barrier < s->n_barriers && s->barriers[barrier] < limit) limit = s->barriers[barrier];
        if (c->next != NONE && end_before(s, c->next) < limit) limit = end_before(s, c->next);
        for (uint32_t u = c->users; u != NONE; u = s->uses[u].next)
            if (end_before(s, s->uses[u].user) < limit) limit = end_before(s, s->uses[u].user);
        size_t k = send;
        while (k < s->n_sends && s->sends[k] < limit) k++;
        if (k == send || has_peer(s, c->group)) continue;
        c->send = s->sends[k - 1];
        moved = true;
    }
    return moved;
}

/* Lists the nodes in their order. Uses limit[] for the first collective that follows each send. */
static void list_nodes(sorter *s, uint32_t *order) {
    const uint32_t n = s->graph->ranks[s->rank].n_nodes;
    uint32_t *first = s->limit;
    size_t n_order = 0, at = 0;
    for (uint32_t i = 0; i < n; i++) first[i] = NONE;
    for (size_t i = s->n; i-- > 0;) {
        collective *c = &s->all[i];
        if (c->send == NONE) continue;
        c->next = first[c->send];
        first[c->send] = (uint32_t)i;
    }
    for (uint32_t i = 0; i < n; i++) {
        while (at < s->n && s->all[at].node < i) at++;
        const bool later = at < s->n && s->all[at].node == i && s->all[at].send != NONE;
        if (!later) order[n_order++] = i;
        for (uint32_t k = first[i]; k != NONE; k = s->all[k].next)
            order[n_order++] = s->all[k].node;
    }
}

static syn_status sort_nodes(sorter *s, uint32_t **order, syn_error *err) {
    const uint32_t n = s->graph->ranks[s->rank].n_nodes;
    s->limit = (uint32_t *)syn_malloc(((size_t)n + 1) * sizeof *s->limit);
    if (s->limit == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *s->limit, "the order of a trace");
    for (uint32_t i = 0; i < n; i++) s->limit[i] = NONE;
    SYN_TRY(read_nodes(s, err));
    if (!decide(s)) return SYN_OK;
    *order = (uint32_t *)syn_malloc(n * sizeof **order);
    if (*order == NULL) return SYN_FAIL_NOMEM(err, n * sizeof **order, "the order of a trace");
    list_nodes(s, *order);
    return SYN_OK;
}

syn_status syn__et_order(const syn_graph *graph, uint32_t rank, uint32_t **order, syn_error *err) {
    sorter s = {.graph = graph, .rank = rank};
    *order = NULL;
    const syn_status status = sort_nodes(&s, order, err);
    syn_free(s.limit);
    syn_free(s.all);
    syn_free(s.uses);
    syn_free(s.sends);
    syn_free(s.barriers);
    syn_free(s.last);
    syn_free(s.peers);
    syn__streams_free(&s.streams);
    return status;
}
