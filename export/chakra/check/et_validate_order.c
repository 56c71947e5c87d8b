/* Checks that dependencies order the collectives of each group on one rank. First it visits the
   collectives of all groups in topological order. If a collective depends on the collective visited
   just before, it joins that collective's chain; otherwise it begins a new chain. The calls of a
   chain are therefore ordered. Then, group by group, it searches for a dependency between
   consecutive calls that are in different chains. */
#include <inttypes.h>

#include "export/chakra/check/et_validate.h"
#include "syntorch/base/memory.h"

/* Limit of the search: the number of times that all nodes and dependencies may be visited. If each
   group has a stream of its own, each group needs one such pass. */
#define PASSES 64u

typedef struct search {
    const syn__et_scan *scan;
    uint32_t *place; /* per node: its topological index; UINT32_MAX if it waits for a cycle */
    uint32_t *seen;  /* per node: number of the last search that visited it */
    uint32_t *stack;
    uint32_t n_searches;
    uint64_t steps, most_steps;
} search;

typedef struct order_check {
    syn_validator *v;
    const syn__checked_rank *rank;
    search s;
    uint32_t *chain; /* per call: number of its chain, whose calls are ordered */
} order_check;

/* Whether node `to` depends on `from`, directly or indirectly. Searches backwards from `to`, and
   skips nodes that come before `from` in topological order. */
static bool reaches(search *s, uint32_t from, uint32_t to) {
    if (s->place[from] >= s->place[to]) return false;
    const uint32_t mark = ++s->n_searches;
    size_t n = 0;
    s->stack[n++] = to;
    while (n > 0) {
        const uint32_t at = s->stack[--n];
        s->steps += 1 + s->scan->first_dep[at + 1] - s->scan->first_dep[at];
        for (uint32_t k = s->scan->first_dep[at]; k < s->scan->first_dep[at + 1]; k++) {
            const uint32_t dep = s->scan->deps[k];
            if (dep == from) return true;
            if (s->place[dep] < s->place[from] || s->seen[dep] == mark) continue;
            s->seen[dep] = mark;
            s->stack[n++] = dep;
        }
    }
    return false;
}

/* Numbers the chains. `at` has one entry per node, and all entries are 0 at first. */
static void find_chains(order_check *c, const syn__et_dag *dag, uint32_t *at) {
    const syn__checked_call *calls = c->rank->calls;
    uint32_t last = UINT32_MAX, chain = 0;
    for (size_t i = 0; i < c->rank->n_calls; i++) {
        if (calls[i].group != SYN__NO_GROUP) at[calls[i].node] = (uint32_t)i + 1;
        c->chain[i] = UINT32_MAX - (uint32_t)i; /* initially each call has a chain of its own; calls
                                                   that wait for a cycle keep it */
    }
    for (uint32_t i = 0; i < dag->n_ordered; i++) {
        const uint32_t node = dag->order[i];
        if (at[node] == 0) continue;
        if (last != UINT32_MAX && !reaches(&c->s, last, node)) chain++;
        c->chain[at[node] - 1] = chain;
        last = node;
    }
}

static bool ordered(order_check *c, const syn__checked_call *a, const syn__checked_call *b) {
    const uint32_t *place = c->s.place;
    if (place[a->node] == UINT32_MAX || place[b->node] == UINT32_MAX)
        return true; /* the cycle is reported elsewhere */
    const bool same_chain = c->chain[a - c->rank->calls] == c->chain[b - c->rank->calls];
    if (same_chain) return place[a->node] < place[b->node];
    return reaches(&c->s, a->node, b->node);
}

/* Reports the first unordered pair of each group. */
static void check_groups(order_check *c) {
    const syn__checked_call *calls = c->rank->calls;
    uint32_t reported = SYN__NO_GROUP;
    for (size_t i = 1; i < c->rank->n_calls && calls[i].group != SYN__NO_GROUP; i++) {
        const syn__checked_call *a = &calls[i - 1], *b = &calls[i];
        if (a->group != b->group || b->group == reported || a->id == b->id) continue;
        const syn__finding_location spot = syn__call_location(c->rank, b);
        const char *group = syn__checked_group_name(c->v, b->group);
        if (c->s.steps > c->s.most_steps) {
            syn__report_finding(c->v, SYN_FINDING_ORDER_OPEN, spot,
                                "the order of collectives was not checked from group %.60s on",
                                group);
            return;
        }
        if (ordered(c, a, b)) continue;
        reported = b->group;
        syn__report_finding(c->v, SYN_FINDING_ORDER, spot,
                            "group %.60s: no dependency orders the collectives %" PRIu64
                            " and %" PRIu64,
                            group, a->id, b->id);
    }
}

static void run(order_check *c, const syn__et_dag *dag, uint32_t *at) {
    search *s = &c->s;
    for (uint32_t i = 0; i < c->rank->n_nodes; i++) s->place[i] = UINT32_MAX;
    for (uint32_t i = 0; i < dag->n_ordered; i++) s->place[dag->order[i]] = i;
    s->most_steps = PASSES * ((uint64_t)c->rank->n_nodes + s->scan->first_dep[c->rank->n_nodes]);
    find_chains(c, dag, at);
    check_groups(c);
}

syn_status syn__check_order(syn_validator *v, const syn__checked_rank *rank,
                            const syn__et_scan *scan, const syn__et_dag *dag, syn_error *err) {
    if (rank->n_calls < 2) return SYN_OK;
    const size_t n = rank->n_nodes;
    order_check c = {.v = v, .rank = rank, .s = {.scan = scan}};
    c.s.place = (uint32_t *)syn_malloc(n * sizeof(uint32_t));
    c.s.seen = (uint32_t *)syn_calloc(n, sizeof(uint32_t));
    c.s.stack = (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t));
    c.chain = (uint32_t *)syn_malloc(rank->n_calls * sizeof(uint32_t));
    uint32_t *at = (uint32_t *)syn_calloc(n, sizeof(uint32_t));
    const bool ok =
        c.s.place != NULL && c.s.seen != NULL && c.s.stack != NULL && c.chain != NULL && at != NULL;
    if (ok) run(&c, dag, at);
    syn_free(at);
    syn_free(c.s.place);
    syn_free(c.s.seen);
    syn_free(c.s.stack);
    syn_free(c.chain);
    return ok ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof(uint32_t), "the order of collectives");
}
