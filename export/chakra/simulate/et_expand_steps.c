/* The messages of collectives. The algorithms are those of Thakur, Rabenseifner and Gropp,
   "Optimization of Collective Communication Operations in MPICH" (2005). */
#include "export/chakra/simulate/et_expand.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define NONE SYN__SIM_NONE

/* Rank i of n is ranks[i * stride]. */
typedef struct making {
    syn__steps *steps;
    const int32_t *ranks;
    uint32_t n, own, stride;
    uint32_t received, sent; /* rings: the last steps; NONE: no ring yet */
    syn_error *err;
} making;

/* Adds a step, and returns its number in *out (NULL: not needed). */
static syn_status add(making *m, bool sends, uint32_t peer, uint64_t bytes, uint32_t after,
                      uint32_t also_after, uint32_t *out) {
    syn__steps *s = m->steps;
    SYN_TRY(syn_grow(&s->list, &s->cap, s->n + 1, sizeof *s->list, m->err));
    s->list[s->n] = (syn__step){.sends = sends,
                                .is_last = true,
                                .peer = m->ranks[peer * m->stride],
                                .round = s->rounds,
                                .bytes = bytes > 0 ? bytes : 1,
                                .after = {after, also_after}};
    if (after != NONE) s->list[after].is_last = false;
    if (also_after != NONE) s->list[also_after].is_last = false;
    if (out != NULL) *out = (uint32_t)s->n;
    s->n++;
    return SYN_OK;
}

static uint64_t part(uint64_t bytes, uint64_t n) {
    return bytes / n + (bytes % n != 0);
}

/* `rounds` times: receive a chunk from the previous rank, and send to the next one what was
   received in the round before. Follows an earlier ring. */
static syn_status add_ring(making *m, uint32_t rounds, uint64_t chunk) {
    const uint32_t next = (m->own + 1) % m->n, last = (m->own + m->n - 1) % m->n;
    for (uint32_t i = 0; i < rounds; i++) {
        const uint32_t before = m->received;
        SYN_TRY(add(m, false, last, chunk, before, NONE, &m->received));
        SYN_TRY(add(m, true, next, chunk, before, m->sent, &m->sent));
        m->steps->rounds++;
    }
    return SYN_OK;
}

/* Rings within the nodes of `width` ranks, and between the ranks with the same index on their
   nodes. The ranks of a node are consecutive. */
static syn_status add_levels(const making *m, uint32_t width, int comm_type, uint64_t bytes) {
    const uint32_t nodes = m->n / width, place = m->own % width;
    making within = *m, between = *m;
    within.ranks += m->own - place;
    within.n = width;
    within.own = place;
    between.ranks += place;
    between.n = nodes;
    between.own = m->own / width;
    between.stride = width;
    if (comm_type != SYN__ET_ALL_GATHER) SYN_TRY(add_ring(&within, width - 1, part(bytes, width)));
    between.received = within.received;
    between.sent = within.sent;
    if (comm_type == SYN__ET_ALL_GATHER) SYN_TRY(add_ring(&between, nodes - 1, bytes));
    else
        SYN_TRY(add_ring(&between, (comm_type == SYN__ET_ALL_REDUCE ? 2 : 1) * (nodes - 1),
                         part(part(bytes, width), nodes)));
    within.received = between.received;
    within.sent = between.sent;
    if (comm_type == SYN__ET_ALL_GATHER) return add_ring(&within, width - 1, bytes * nodes);
    return comm_type == SYN__ET_ALL_REDUCE ? add_ring(&within, width - 1, part(bytes, width))
                                           : SYN_OK;
}

/* Exchanges with a partner in each round. `halves`: distances n / 2, ..., 1 and bytes / 2, ...
   otherwise distances 1, 2, ...; `grows`: then the bytes double. */
static syn_status add_exchanges(making *m, uint64_t bytes, bool halves, bool grows) {
    uint32_t received = NONE, sent = NONE;
    for (uint32_t i = 1; i < m->n; i *= 2) {
        const uint32_t partner = m->own ^ (halves ? m->n / 2 / i : i), before = received;
        const uint64_t now = halves ? part(bytes, (uint64_t)2 * i) : grows ? bytes * i : bytes;
        SYN_TRY(add(m, false, partner, now, before, sent, &received));
        SYN_TRY(add(m, true, partner, now, before, sent, &sent));
        m->steps->rounds++;
    }
    return SYN_OK;
}

/* A binomial tree with the root at distance 0: rank r has the parent r - (lowest bit of r), and the
   children r + 1, r + 2, r + 4, ... below its own lowest bit. */
static syn_status add_tree(making *m, uint32_t root, uint64_t bytes, bool reduces, uint32_t *last) {
    const uint32_t own = (m->own + m->n - root) % m->n, n = m->n;
    uint32_t bit = own != 0 ? own & (0 - own) : 1;
    while (own == 0 && bit < n) bit *= 2;
    const uint32_t parent = own != 0 ? (own - bit + root) % n : 0;
    if (!reduces && own != 0) SYN_TRY(add(m, false, parent, bytes, *last, NONE, last));
    /* a reduction starts with the leaves, a broadcast with the largest subtree */
    for (uint32_t i = 1; i < bit; i *= 2) {
        const uint32_t child = reduces ? i : bit / 2 / i;
        if (child == 0 || own + child >= n) continue;
        SYN_TRY(add(m, !reduces, (own + child + root) % n, bytes, *last, NONE, last));
    }
    if (reduces && own != 0) SYN_TRY(add(m, true, parent, bytes, *last, NONE, last));
    for (uint32_t i = 1; i < n; i *= 2) m->steps->rounds++;
    return SYN_OK;
}

static syn_status add_pairs(making *m, uint64_t bytes) {
    for (uint32_t i = 1; i < m->n; i++) {
        SYN_TRY(add(m, false, (m->own + m->n - i) % m->n, bytes, NONE, NONE, NULL));
        SYN_TRY(add(m, true, (m->own + i) % m->n, bytes, NONE, NONE, NULL));
    }
    m->steps->rounds++;
    return SYN_OK;
}

/* Messages between the root and all others. */
static syn_status add_star(making *m, uint32_t root, uint64_t bytes, bool to_root) {
    m->steps->rounds++;
    if (m->own != root) return add(m, to_root, root, bytes, NONE, NONE, NULL);
    for (uint32_t i = 0; i < m->n; i++)
        if (i != root) SYN_TRY(add(m, !to_root, i, bytes, NONE, NONE, NULL));
    return SYN_OK;
}

syn_status syn__steps_make(syn__steps *steps, const syn__expand_plan *plan, int comm_type,
                           const int32_t *ranks, uint32_t n, uint32_t own, uint32_t root,
                           uint64_t bytes, syn_error *err) {
    making m = {steps, ranks, n, own, 1, NONE, NONE, err};
    const bool doubling = plan->algorithm == SYN_EXPAND_DOUBLING && (n & (n - 1)) == 0;
    const bool has_levels =
        plan->algorithm == SYN_EXPAND_HIERARCHICAL &&
        (comm_type == SYN__ET_ALL_REDUCE || comm_type == SYN__ET_ALL_GATHER ||
         comm_type == SYN__ET_REDUCE_SCATTER || comm_type == SYN__ET_REDUCE_SCATTER_BLOCK);
    const uint32_t width = has_levels ? syn__expand_node_width(ranks, n, plan->node_ranks) : 0;
    uint32_t last = NONE;
    steps->n = 0;
    steps->rounds = 0;
    if (n < 2) return SYN_OK;
    if (width > 0) return add_levels(&m, width, comm_type, bytes);
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        if (doubling) return add_exchanges(&m, bytes, false, false);
        if (plan->algorithm != SYN_EXPAND_TREE) return add_ring(&m, 2 * (n - 1), part(bytes, n));
        SYN_TRY(add_tree(&m, 0, bytes, true, &last));
        return add_tree(&m, 0, bytes, false, &last);
    case SYN__ET_ALL_GATHER:
        return doubling ? add_exchanges(&m, bytes, false, true) : add_ring(&m, n - 1, bytes);
    case SYN__ET_REDUCE_SCATTER:
    case SYN__ET_REDUCE_SCATTER_BLOCK:
        return doubling ? add_exchanges(&m, bytes, true, false)
                        : add_ring(&m, n - 1, part(bytes, n));
    case SYN__ET_ALL_TO_ALL:
        return add_pairs(&m, part(bytes, n));
    case SYN__ET_BROADCAST:
        return add_tree(&m, root, bytes, false, &last);
    case SYN__ET_REDUCE:
        return add_tree(&m, root, bytes, true, &last);
    case SYN__ET_GATHER:
        return add_star(&m, root, bytes, true);
    case SYN__ET_SCATTER:
        return add_star(&m, root, part(bytes, n), false);
    default: /* a barrier: reduce and broadcast one byte */
        SYN_TRY(add_tree(&m, 0, 1, true, &last));
        return add_tree(&m, 0, 1, false, &last);
    }
}
