/* Selects the ops that become nodes, and finds the dependencies between nodes through host ops. The
   *frontier* of a host op consists of the latest node of each track (thread or stream) that comes
   before the op. The ops of a thread share a frontier; only synchronization and other threads
   change it. A node depends on the previous node of its track, and on the nodes of its frontiers
   for which its track has not waited already. */
#include <assert.h>

#include "export/pytorch/sim/pt_sim_steps.h"
#include "syntorch/base/memory.h"

#define PASSED 0x80000000u /* in place[]: the op has a frontier but no node */

typedef struct latest {
    uint32_t track, node;
} latest;

typedef struct frontier {
    size_t first;
    uint32_t n;
} frontier;

typedef struct track_state {
    uint32_t tail;          /* the last node of the track so far */
    uint32_t known;         /* index of the frontier for which the track has waited */
    uint32_t found, class_; /* scratch memory: the latest node found for the current op, and its
                               class */
    uint32_t seen;          /* scratch memory: the track's node in a known frontier */
} track_state;

typedef struct links {
    syn__pt_sim *sim;
    uint32_t *place; /* per op: its node, or PASSED | the index of its frontier */
    latest *pool;
    size_t n_pool, pool_cap;
    frontier *frontiers; /* the first frontier is empty */
    size_t n_frontiers, frontiers_cap;
    track_state *tracks;
    uint32_t *found; /* tracks in which a node was found */
    size_t n_found;
} links;

/* ---- Frontiers ---- */

static void find(links *l, uint32_t track, uint32_t node, uint32_t class_) {
    track_state *s = &l->tracks[track];
    if (s->found == SYN__PT_NONE) l->found[l->n_found++] = track;
    else if (node < s->found || (node == s->found && class_ >= s->class_)) return;
    s->found = node;
    s->class_ = class_;
}

static void forget(links *l) {
    for (size_t i = 0; i < l->n_found; i++) l->tracks[l->found[i]].found = SYN__PT_NONE;
    l->n_found = 0;
}

static inline const syn__pt_dep *deps_of(const syn__pt_rank *rank, uint32_t op, size_t *n) {
    *n = rank->first_dep[op + 1] - rank->first_dep[op];
    return rank->deps + rank->first_dep[op];
}

static void find_all(links *l, uint32_t op) {
    const syn__pt_rank *rank = l->sim->rank;
    size_t n;
    const syn__pt_dep *deps = deps_of(rank, op, &n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t place = l->place[deps[i].from];
        if (!(place & PASSED)) {
            find(l, rank->ops[deps[i].from].track, place, deps[i].class_);
            continue;
        }
        const frontier *f = &l->frontiers[place & ~PASSED];
        for (uint32_t k = 0; k < f->n; k++)
            find(l, l->pool[f->first + k].track, l->pool[f->first + k].node, deps[i].class_);
    }
}

/* Whether the frontier consists of the nodes that were found. */
static bool is_found(const links *l, uint32_t index) {
    const frontier *f = &l->frontiers[index];
    if (f->n != l->n_found) return false;
    for (uint32_t k = 0; k < f->n; k++) {
        if (l->tracks[l->pool[f->first + k].track].found != l->pool[f->first + k].node)
            return false;
    }
    return true;
}

static syn_status add_frontier(links *l, uint32_t *out, syn_error *err) {
    if (l->n_frontiers >= PASSED)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "the trace synchronises more than 2^31 times");
    SYN_TRY(syn_grow(&l->pool, &l->pool_cap, l->n_pool + l->n_found, sizeof *l->pool, err));
    SYN_TRY(
        syn_grow(&l->frontiers, &l->frontiers_cap, l->n_frontiers + 1, sizeof *l->frontiers, err));
    l->frontiers[l->n_frontiers] = (frontier){l->n_pool, (uint32_t)l->n_found};
    for (size_t i = 0; i < l->n_found; i++)
        l->pool[l->n_pool++] = (latest){l->found[i], l->tracks[l->found[i]].found};
    *out = (uint32_t)l->n_frontiers++;
    return SYN_OK;
}

/* ---- Ops without a node ---- */

static syn_status pass_on(links *l, uint32_t op, syn_error *err) {
    size_t n;
    const syn__pt_dep *deps = deps_of(l->sim->rank, op, &n);
    uint32_t *place = &l->place[op];
    bool same = true;
    *place = n != 0 ? l->place[deps[0].from] : PASSED;
    for (size_t i = 1; i < n && same; i++) same = l->place[deps[i].from] == *place;
    if (same && (*place & PASSED)) return SYN_OK;
    find_all(l, op);
    same = false;
    for (size_t i = 0; i < n && !same; i++) {
        *place = l->place[deps[i].from];
        same = (*place & PASSED) && is_found(l, *place & ~PASSED);
    }
    uint32_t added = 0;
    if (!same) SYN_TRY(add_frontier(l, &added, err));
    if (!same) *place = PASSED | added;
    forget(l);
    return SYN_OK;
}

/* ---- Ops with a node ---- */

static syn_status add_edge(syn__pt_sim *sim, uint32_t from, uint32_t to, uint32_t class_,
                           syn_error *err) {
    SYN_TRY(syn_grow(&sim->edges, &sim->edges_cap, sim->n_edges + 1, sizeof *sim->edges, err));
    sim->edges[sim->n_edges++] = (syn__pt_edge){from, to, class_};
    return SYN_OK;
}

/* Adds the edges from other tracks, except those that earlier nodes of the track imply. */
static syn_status add_new_edges(links *l, uint32_t track, uint32_t node, syn_error *err) {
    track_state *own = &l->tracks[track];
    const frontier known = l->frontiers[own->known];
    bool news = false;
    for (uint32_t k = 0; k < known.n; k++)
        l->tracks[l->pool[known.first + k].track].seen = l->pool[known.first + k].node;
    for (size_t i = 0; i < l->n_found; i++) {
        track_state *s = &l->tracks[l->found[i]];
        if (s->seen != SYN__PT_NONE && s->seen >= s->found) continue;
        SYN_TRY(add_edge(l->sim, s->found, node, s->class_, err));
        news = true;
    }
    for (uint32_t k = 0; k < known.n; k++) {
        track_state *s = &l->tracks[l->pool[known.first + k].track];
        s->seen = SYN__PT_NONE;
        if (news) find(l, l->pool[known.first + k].track, l->pool[known.first + k].node, 0);
    }
    return news ? add_frontier(l, &own->known, err) : SYN_OK;
}

static int64_t end_us(const syn__pt_op *op) {
    const int64_t start = op->start_ns != SYN__PT_NO_NS ? op->start_ns : 0;
    const int64_t wall = op->wall_ns > 0 ? op->wall_ns : 0;
    return syn__pt_sim_micros(start > INT64_MAX - wall ? INT64_MAX : start + wall);
}

static void set_times(syn__pt_sim_node *node, const syn__pt_op *op) {
    node->has_start = op->start_ns != SYN__PT_NO_NS;
    if (node->has_start) node->start_us = syn__pt_sim_micros(op->start_ns);
    node->end_us = end_us(op);
}

static syn_status add_barrier(syn__pt_sim *sim, const syn__pt_op *op, syn_error *err) {
    sim->n_dropped_barriers++;
    /* A detached op has a recorded wait instead. */
    if (op->start_ns == SYN__PT_NO_NS || op->detached) return SYN_OK;
    SYN_TRY(syn_grow(&sim->barriers, &sim->barriers_cap, sim->n_barriers + 1, sizeof *sim->barriers,
                     err));
    sim->barriers[sim->n_barriers++] =
        (syn__pt_sim_span){syn__pt_sim_micros(op->start_ns), end_us(op)};
    return SYN_OK;
}

static syn_status show(links *l, uint32_t op, syn__pt_sim_role role, const char *why,
                       syn_error *err) {
    syn__pt_sim *sim = l->sim;
    const uint32_t track = sim->rank->ops[op].track, node = (uint32_t)sim->n_nodes;
    track_state *own = &l->tracks[track];
    SYN_TRY(syn_grow(&sim->nodes, &sim->nodes_cap, sim->n_nodes + 1, sizeof *sim->nodes, err));
    sim->nodes[sim->n_nodes++] = (syn__pt_sim_node){.op = op, .role = (uint8_t)role, .why = why};
    set_times(&sim->nodes[node], &sim->rank->ops[op]);
    find_all(l, op);
    if (own->found != SYN__PT_NONE) { /* the edge from the last node of the track implies it */
        own->found = SYN__PT_NONE;
        for (size_t i = 0; i < l->n_found; i++) {
            if (l->found[i] == track) l->found[i] = l->found[--l->n_found];
        }
    }
    if (own->tail != SYN__PT_NONE)
        SYN_TRY(add_edge(sim, own->tail, node,
                         sim->rank->tracks[track].device ? SYN_PYTORCH_EDGE_STREAM
                                                         : SYN_PYTORCH_EDGE_PROGRAM,
                         err));
    if (l->n_found != 0) SYN_TRY(add_new_edges(l, track, node, err));
    forget(l);
    own->tail = node;
    l->place[op] = node;
    return SYN_OK;
}

/* ---- All ops ---- */

static syn_status link_all(links *l, syn_error *err) {
    const syn__pt_rank *rank = l->sim->rank;
    uint32_t empty;
    SYN_TRY(add_frontier(l, &empty, err));
    for (size_t i = 0; i < rank->n_ops; i++) {
        const uint32_t op = rank->order[i];
        const char *why;
        const syn__pt_sim_role role = syn__pt_sim_role_of(rank, &rank->ops[op], &why);
        assert(rank->ops[op].track < rank->n_tracks);
        if (role != SYN__PT_SIM_ABSENT) {
            SYN_TRY(show(l, op, role, why, err));
            continue;
        }
        if (rank->ops[op].comm != SYN__PT_NONE && why == NULL)
            SYN_TRY(add_barrier(l->sim, &rank->ops[op], err));
        SYN_TRY(pass_on(l, op, err));
    }
    return SYN_OK;
}

syn_status syn__pt_sim_link(syn__pt_sim *sim, syn_error *err) {
    const syn__pt_rank *rank = sim->rank;
    links l = {.sim = sim};
    if (rank->n_ops >= PASSED)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "the trace has more than 2^31 ops");
    l.place = (uint32_t *)syn_malloc((rank->n_ops + 1) * sizeof *l.place);
    l.tracks = (track_state *)syn_malloc((rank->n_tracks + 1) * sizeof *l.tracks);
    l.found = (uint32_t *)syn_malloc((rank->n_tracks + 1) * sizeof *l.found);
    const bool complete = l.place != NULL && l.tracks != NULL && l.found != NULL;
    for (size_t i = 0; complete && i < rank->n_tracks; i++)
        l.tracks[i] = (track_state){SYN__PT_NONE, 0, SYN__PT_NONE, 0, SYN__PT_NONE};
    const syn_status status =
        complete ? link_all(&l, err)
                 : SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *l.place, "a simulator's nodes");
    syn_free(l.place);
    syn_free(l.tracks);
    syn_free(l.found);
    syn_free(l.pool);
    syn_free(l.frontiers);
    return status;
}
