/* Checks made before a trace set is written: each rank must have nodes, and the members of a group
   must call the same collectives. Otherwise simulators fail. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/chakra/et_plan.h"
#include "syntorch/base/memory.h"

bool syn__et_is_verbatim(const syn_graph *graph) {
    return syn_graph_meta(graph, "et.version") != NULL;
}

static syn_status node_at(const syn_graph *graph, uint32_t rank, uint32_t index, syn_cursor *cursor,
                          const syn_node **out, syn_error *err) {
    *out = syn_graph_node(graph, rank, index, cursor);
    return *out != NULL ? SYN_OK : SYN_FAIL(err, cursor->error.code, "%s", cursor->error.text);
}

/* ---- Ranks without nodes ---- */

static syn_status find_shown(const syn_graph *graph, uint32_t rank, syn_cursor *cursor,
                             bool *out_found, syn_error *err) {
    bool barrier;
    *out_found = false;
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes && !*out_found; i++) {
        const syn_node *node;
        SYN_TRY(node_at(graph, rank, i, cursor, &node, err));
        SYN_TRY(syn__et_plan_includes(graph, rank, i, node, out_found, &barrier, err));
    }
    return SYN_OK;
}

syn_status syn__et_check_rank(const syn_graph *graph, uint32_t rank, syn_error *err) {
    syn_cursor cursor = {0};
    bool found;
    if (syn__et_is_verbatim(graph)) return SYN_OK;
    const syn_status status = find_shown(graph, rank, &cursor, &found, err);
    syn_cursor_free(&cursor);
    if (status != SYN_OK || found) return status;
    return SYN_FAIL(
        err, SYN_E_INVALID,
        "rank %d has no nodes for an execution trace, and simulators reject a trace without nodes",
        (int)graph->ranks[rank].rank);
}

/* ---- Collectives of a group's members ---- */

typedef struct call {
    syn_comm_kind comm;
    uint64_t bytes;
} call;

typedef struct group_calls {
    bool complete; /* all members are in the graph */
    call *calls;   /* calls of the first rank that called the group */
    size_t n_calls, calls_cap;
    uint32_t first, latest; /* indices of the first rank and of the latest rank that called the
                               group */
    uint32_t n_callers;
    size_t at; /* number of calls that `latest` has made so far */
} group_calls;

typedef struct check {
    const syn_graph *graph;
    group_calls *groups; /* per group of the graph, and a last entry for all ranks (group id 0) */
    uint32_t *touched;   /* indices of groups that the current rank has called */
    uint32_t n_touched;
    int32_t *ranks; /* global rank numbers, ascending */
    syn_cursor cursor;
    syn_error *err;
} check;

static int compare(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static syn_status open_check(check *c) {
    const syn_graph *g = c->graph;
    const size_t n = (size_t)g->n_groups + 1;
    c->groups = (group_calls *)syn_calloc(n, sizeof *c->groups);
    c->touched = (uint32_t *)syn_calloc(n, sizeof *c->touched);
    c->ranks = (int32_t *)syn_calloc((size_t)g->n_ranks + 1, sizeof *c->ranks);
    if (c->groups == NULL || c->touched == NULL || c->ranks == NULL)
        return SYN_FAIL_NOMEM(c->err, n * sizeof *c->groups, "the comparison of ranks");
    for (uint32_t i = 0; i < g->n_ranks; i++) c->ranks[i] = g->ranks[i].rank;
    qsort(c->ranks, g->n_ranks, sizeof *c->ranks, compare);
    for (uint32_t i = 0; i < g->n_groups; i++) {
        bool all = true;
        for (uint32_t k = 0; k < g->groups[i].n_ranks && all; k++)
            all = bsearch(&g->groups[i].ranks[k], c->ranks, g->n_ranks, sizeof *c->ranks,
                          compare) != NULL;
        c->groups[i].complete = all;
    }
    c->groups[g->n_groups].complete = (int64_t)g->n_ranks == g->world_size;
    return SYN_OK;
}

static void close_check(check *c) {
    for (uint32_t i = 0; c->groups != NULL && i <= c->graph->n_groups; i++)
        syn_free(c->groups[i].calls);
    syn_free(c->groups);
    syn_free(c->touched);
    syn_free(c->ranks);
    syn_cursor_free(&c->cursor);
}

/* Texts for messages: group_word returns "group " and the function below "tp0"; for the group of
   all ranks they return "" and "the world". */
static const char *group_word(const check *c, uint32_t group) {
    return group < c->graph->n_groups ? "group " : "";
}

static const char *group_name(const check *c, uint32_t group) {
    return group < c->graph->n_groups ? c->graph->groups[group].name : "the world";
}

static int number(const check *c, uint32_t rank) {
    return (int)c->graph->ranks[rank].rank;
}

/* Sets *out to the index of the node's group. Returns false if the node is not a collective, is
   virtual or has an unknown group. */
static bool group_of(const check *c, const syn_node *node, uint32_t *out) {
    *out = c->graph->n_groups;
    if (node->kind != SYN_NODE_COLLECTIVE || (node->flags & SYN_NODE_VIRTUAL)) return false;
    if (node->group == 0) return true;
    const syn_graph_group *group = syn_graph_group_by_id(c->graph, node->group);
    if (group == NULL) return false; /* syn__et_plan_node reports the unknown group */
    *out = (uint32_t)(group - c->graph->groups);
    return true;
}

static syn_status differs(const check *c, uint32_t group, uint32_t rank, const call *got) {
    const group_calls *g = &c->groups[group];
    const call *want = &g->calls[g->at];
    return SYN_FAIL(c->err, SYN_E_INVALID,
                    "the ranks of %s%.80s differ in call %zu: rank %d has %s of %" PRIu64
                    " bytes, but rank %d has %s of %" PRIu64 " bytes",
                    group_word(c, group), group_name(c, group), g->at + 1, number(c, g->first),
                    syn_comm_kind_name(want->comm), want->bytes, number(c, rank),
                    syn_comm_kind_name(got->comm), got->bytes);
}

static syn_status fewer(const check *c, uint32_t group, uint32_t rank, size_t n, uint32_t other,
                        size_t n_other) {
    return SYN_FAIL(c->err, SYN_E_INVALID,
                    "the ranks of %s%.80s call different numbers of collectives: rank %d calls "
                    "%zu, but rank %d calls %zu",
                    group_word(c, group), group_name(c, group), number(c, rank), n,
                    number(c, other), n_other);
}

/* Stores the call if `rank` is the first rank that called the group; otherwise compares it with
   that rank's call. */
static syn_status add_call(check *c, uint32_t group, uint32_t rank, const syn_node *node) {
    group_calls *g = &c->groups[group];
    const call made = {node->comm, node->comm_bytes};
    if (g->n_callers == 0) g->first = rank;
    if (g->n_callers == 0 || g->latest != rank) {
        g->latest = rank;
        g->at = 0;
        g->n_callers++;
        c->touched[c->n_touched++] = group;
    }
    if (rank == g->first) {
        SYN_TRY(syn_grow(&g->calls, &g->calls_cap, g->n_calls + 1, sizeof *g->calls, c->err));
        g->calls[g->n_calls++] = made;
    } else if (g->at < g->n_calls) {
        const call *want = &g->calls[g->at];
        /* Sizes may differ in a scatter: only its root has an input. */
        const bool same_bytes = want->bytes == made.bytes || made.comm == SYN_COMM_SCATTER;
        if (want->comm != made.comm || !same_bytes) return differs(c, group, rank, &made);
    }
    g->at++;
    return SYN_OK;
}

static syn_status read_rank(check *c, uint32_t rank) {
    c->n_touched = 0;
    for (uint32_t i = 0; i < c->graph->ranks[rank].n_nodes; i++) {
        const syn_node *node;
        uint32_t group;
        SYN_TRY(node_at(c->graph, rank, i, &c->cursor, &node, c->err));
        if (group_of(c, node, &group) && c->groups[group].complete)
            SYN_TRY(add_call(c, group, rank, node));
    }
    for (uint32_t i = 0; i < c->n_touched; i++) {
        const group_calls *g = &c->groups[c->touched[i]];
        if (g->at != g->n_calls) return fewer(c, c->touched[i], g->first, g->n_calls, rank, g->at);
    }
    return SYN_OK;
}

static bool is_member(const check *c, uint32_t group, uint32_t rank) {
    if (group == c->graph->n_groups) return true;
    const syn_graph_group *g = &c->graph->groups[group];
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        if (g->ranks[i] == c->graph->ranks[rank].rank) return true;
    }
    return false;
}

/* Fails with the number of a rank that does not call the group although other members do. */
static syn_status fail_missing_calls(check *c, uint32_t group) {
    const group_calls *g = &c->groups[group];
    for (uint32_t rank = 0; rank < c->graph->n_ranks; rank++) {
        bool calls = !is_member(c, group, rank);
        for (uint32_t i = 0; i < c->graph->ranks[rank].n_nodes && !calls; i++) {
            const syn_node *node;
            uint32_t at;
            SYN_TRY(node_at(c->graph, rank, i, &c->cursor, &node, c->err));
            calls = group_of(c, node, &at) && at == group;
        }
        if (!calls) return fewer(c, group, g->first, g->n_calls, rank, 0);
    }
    return SYN_OK;
}

static syn_status read_all(check *c) {
    const syn_graph *g = c->graph;
    SYN_TRY(open_check(c));
    for (uint32_t rank = 0; rank < g->n_ranks; rank++) SYN_TRY(read_rank(c, rank));
    for (uint32_t i = 0; i <= g->n_groups; i++) {
        const uint32_t members = i < g->n_groups ? g->groups[i].n_ranks : g->n_ranks;
        const uint32_t callers = c->groups[i].n_callers;
        if (callers > 0 && callers < members) SYN_TRY(fail_missing_calls(c, i));
    }
    return SYN_OK;
}

syn_status syn__et_check_calls(const syn_graph *graph, syn_error *err) {
    check c = {.graph = graph, .err = err};
    if (syn__et_is_verbatim(graph)) return SYN_OK;
    const syn_status status = read_all(&c);
    close_check(&c);
    return status;
}
