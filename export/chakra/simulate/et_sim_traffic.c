/* Counts the bytes that ranks of a trace set send to each other. */
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define COMM_TYPES 32

typedef struct traffic {
    const syn__sim_set *set;
    syn_simulation *out;
    syn_intern keys; /* (from, to); ids are indices into out->pairs */
    size_t pairs_cap;
    /* Per program: bytes of the calls on each channel, and of each type on each group; and the
       collectives with a root, with equal ones summed. */
    double **channels, **groups;
    struct rooted_list {
        struct rooted {
            uint32_t slot;
            uint16_t root;
            uint8_t comm_type;
            double bytes;
        } * list;
        size_t n, cap;
    } * rooted;
    syn_error *err;
} traffic;

static syn_status add(traffic *t, int32_t from, int32_t to, double bytes) {
    const int32_t key[2] = {from, to};
    syn_simulation *out = t->out;
    uint32_t id;
    if (!(bytes > 0)) return SYN_OK;
    SYN_TRY(syn_intern_put(&t->keys, key, sizeof key, &id, t->err));
    if (id == out->n_pairs) {
        SYN_TRY(syn_grow(&out->pairs, &t->pairs_cap, id + 1u, sizeof *out->pairs, t->err));
        out->pairs[out->n_pairs++] = (syn_simulated_pair){from, to, 0};
    }
    out->pairs[id].bytes += bytes;
    return SYN_OK;
}

static bool has_root(int comm_type) {
    return comm_type == SYN__ET_BROADCAST || comm_type == SYN__ET_REDUCE ||
           comm_type == SYN__ET_GATHER || comm_type == SYN__ET_SCATTER;
}

static syn_status sum_rooted(traffic *t, struct rooted_list *all, const syn__sim_call *c) {
    for (size_t i = 0; i < all->n; i++) {
        struct rooted *x = &all->list[i];
        if (x->slot != c->slot || x->root != c->root || x->comm_type != c->comm_type) continue;
        x->bytes += (double)c->bytes;
        return SYN_OK;
    }
    SYN_TRY(syn_grow(&all->list, &all->cap, all->n + 1, sizeof *all->list, t->err));
    all->list[all->n++] = (struct rooted){c->slot, c->root, c->comm_type, (double)c->bytes};
    return SYN_OK;
}

static syn_status sum_program(traffic *t, const syn__sim_rank *rank) {
    const syn__sim_program *p = &t->set->programs[rank->program];
    double **channels = &t->channels[rank->program], **groups = &t->groups[rank->program];
    if (*channels != NULL) return SYN_OK;
    *channels = syn_calloc(rank->n_channels + 1u, sizeof **channels);
    *groups = syn_calloc(((size_t)rank->n_groups + 1) * COMM_TYPES, sizeof **groups);
    if (*channels == NULL || *groups == NULL)
        return SYN_FAIL_NOMEM(t->err, rank->n_channels * sizeof **channels, "traffic");
    for (uint32_t i = 0; i < p->n_calls; i++) {
        const syn__sim_call *c = &p->calls[i];
        const bool collective = p->kinds[c->node] == SYN__SIM_COLLECTIVE;
        if (collective && has_root(c->comm_type))
            SYN_TRY(sum_rooted(t, &t->rooted[rank->program], c));
        else if (collective) (*groups)[c->slot * COMM_TYPES + c->comm_type] += (double)c->bytes;
        else (*channels)[c->slot] += (double)c->bytes;
    }
    return SYN_OK;
}

/* The bytes that each of n ranks sends to the next one in a collective without root. */
static double to_next(int comm_type, double n, double bytes) {
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        return 2 * (n - 1) * bytes / n;
    case SYN__ET_REDUCE_SCATTER:
    case SYN__ET_REDUCE_SCATTER_BLOCK:
        return (n - 1) * bytes / n;
    case SYN__ET_ALL_GATHER:
        return (n - 1) * bytes;
    default:
        return 0;
    }
}

/* Adds what the i-th rank of a group sends in collectives with a root, which is the first rank if
   the trace names none. Broadcasts and reduces pass along the ring from the root, or to it. */
static syn_status add_rooted(traffic *t, const syn__sim_group *g, uint32_t i, int32_t root,
                             const struct rooted *x) {
    const uint32_t n = g->n_ranks;
    const int32_t from = g->ranks[i], next = g->ranks[(i + 1) % n];
    const bool is_root = from == root;
    switch (x->comm_type) {
    case SYN__ET_BROADCAST:
        return next != root ? add(t, from, next, x->bytes) : SYN_OK;
    case SYN__ET_REDUCE:
        return !is_root ? add(t, from, next, x->bytes) : SYN_OK;
    case SYN__ET_GATHER:
        return !is_root ? add(t, from, root, x->bytes) : SYN_OK;
    default: /* scatter */
        for (uint32_t k = 0; k < n && is_root; k++)
            if (k != i) SYN_TRY(add(t, from, g->ranks[k], x->bytes / n));
        return SYN_OK;
    }
}

static bool is_member(const syn__sim_group *g, int32_t rank) {
    for (uint32_t i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == rank) return true;
    return false;
}

/* Adds what the i-th rank of a group sends in its collectives. */
static syn_status add_member(traffic *t, const syn__sim_group *g, uint32_t i,
                             const double *by_type) {
    const int32_t from = g->ranks[i], next = g->ranks[(i + 1) % g->n_ranks];
    const double part = by_type[SYN__ET_ALL_TO_ALL] / g->n_ranks;
    double bytes = 0;
    for (int type = 0; type < COMM_TYPES; type++) bytes += to_next(type, g->n_ranks, by_type[type]);
    SYN_TRY(add(t, from, next, bytes));
    for (uint32_t k = 0; k < g->n_ranks && part > 0; k++)
        if (k != i) SYN_TRY(add(t, from, g->ranks[k], part));
    return SYN_OK;
}

/* The i-th group of a rank. */
static syn_status add_group(traffic *t, const syn__sim_rank *rank, uint32_t slot) {
    const syn__sim_group *g = &t->set->groups[rank->groups[slot]];
    const double *by_type = &t->groups[rank->program][slot * COMM_TYPES];
    const struct rooted_list *rooted = &t->rooted[rank->program];
    uint32_t own = 0;
    while (own < g->n_ranks && g->ranks[own] != rank->rank) own++;
    if (own == g->n_ranks || g->n_ranks < 2) return SYN_OK;
    SYN_TRY(add_member(t, g, own, by_type));
    for (size_t i = 0; i < rooted->n; i++) {
        const struct rooted *x = &rooted->list[i];
        if (x->slot != slot) continue;
        const int32_t root = x->root > 0 ? rank->roots[x->root - 1] : g->ranks[0];
        SYN_TRY(add_rooted(t, g, own, is_member(g, root) ? root : g->ranks[0], x));
    }
    return SYN_OK;
}

static syn_status add_rank(traffic *t, const syn__sim_rank *rank) {
    SYN_TRY(sum_program(t, rank));
    for (uint32_t i = 0; i < rank->n_groups; i++) SYN_TRY(add_group(t, rank, i));
    for (uint32_t i = 0; i < rank->n_channels; i++)
        if (rank->channels[i].sends)
            SYN_TRY(add(t, rank->rank, rank->channels[i].peer, t->channels[rank->program][i]));
    return SYN_OK;
}

static int compare_pairs(const void *a, const void *b) {
    const syn_simulated_pair *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static syn_status count(traffic *t) {
    const size_t n = t->set->n_programs;
    t->channels = syn_calloc(n + 1, sizeof *t->channels);
    t->groups = syn_calloc(n + 1, sizeof *t->groups);
    t->rooted = syn_calloc(n + 1, sizeof *t->rooted);
    if (t->channels == NULL || t->groups == NULL || t->rooted == NULL)
        return SYN_FAIL_NOMEM(t->err, n * sizeof *t->channels, "traffic");
    for (size_t i = 0; i < t->set->n_ranks; i++) SYN_TRY(add_rank(t, &t->set->ranks[i]));
    if (t->out->n_pairs > 0)
        qsort(t->out->pairs, t->out->n_pairs, sizeof *t->out->pairs, compare_pairs);
    return SYN_OK;
}

syn_status syn__sim_traffic(syn_simulation *out, const syn__sim_set *set, syn_error *err) {
    traffic t = {.set = set, .out = out, .err = err};
    const syn_status s = count(&t);
    for (size_t i = 0; i < set->n_programs; i++) {
        if (t.channels != NULL) syn_free(t.channels[i]);
        if (t.groups != NULL) syn_free(t.groups[i]);
        if (t.rooted != NULL) syn_free(t.rooted[i].list);
    }
    syn_free(t.rooted);
    syn_free(t.channels);
    syn_free(t.groups);
    syn_intern_free(&t.keys);
    return s;
}
