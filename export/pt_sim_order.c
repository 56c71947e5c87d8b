/* In which order a simulator gets its nodes: communication in the order of its launches, the rest
   by time, every dependency before what waits for it. And the delays: see pt_sim.c. */
#include <stdlib.h>

#include "export/pt_sim.h"
#include "export/pt_sort.h"
#include "syntorch/memory.h"

/* ---- Orders ---- */

/* Sorts items by time; those without one (SYN__PT_NO_NS) stay behind the item before them.
 *order is the caller's. */
static syn_status by_time(const int64_t *times, size_t n, uint32_t **order, syn_error *err) {
    uint64_t *keys = (uint64_t *)syn_malloc((n + 1) * sizeof *keys);
    int64_t last = INT64_MIN;
    if (keys == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *keys, "times of nodes");
    for (size_t i = 0; i < n; i++) {
        if (times[i] != SYN__PT_NO_NS) last = times[i];
        keys[i] = syn__pt_i64_key(last);
    }
    const syn_status status = syn__pt_sort(keys, n, order, err);
    syn_free(keys);
    return status;
}

/* When each node started, ascending. */
static syn_status nodes_by_time(const syn__pt_sim *sim, uint32_t **order, syn_error *err) {
    int64_t *times = (int64_t *)syn_malloc((sim->n_nodes + 1) * sizeof *times);
    if (times == NULL) return SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *times, "times of nodes");
    for (size_t i = 0; i < sim->n_nodes; i++)
        times[i] =
            sim->nodes[i].has_start ? sim->rank->ops[sim->nodes[i].op].start_ns : SYN__PT_NO_NS;
    const syn_status status = by_time(times, sim->n_nodes, order, err);
    syn_free(times);
    return status;
}

/* ---- Communication, in the order of launches ---- */

typedef struct talk {
    uint32_t *nodes; /* collectives and sends */
    size_t n;
} talk;

static bool talks(const syn__pt_sim_node *node) {
    return node->role == SYN__PT_SIM_COLLECTIVE || node->role == SYN__PT_SIM_SEND;
}

/* The op that launched the node; the node's own if that is not known. */
static uint32_t launcher(const syn__pt_sim *sim, uint32_t node) {
    const uint32_t op = sim->nodes[node].op;
    const syn__pt_op *o = &sim->rank->ops[op];
    return syn__pt_is_device(o) && o->parent != SYN__PT_NONE ? o->parent : op;
}

/* When the node was launched. */
static int64_t launch_time(const syn__pt_sim *sim, uint32_t node) {
    const syn__pt_rank *rank = sim->rank;
    const uint32_t call = rank->ops[sim->nodes[node].op].launch;
    if (call != SYN__PT_NONE && rank->device.events[call].flags & SYN__PT_EVENT_TS)
        return rank->device.events[call].ts_ns;
    return rank->ops[launcher(sim, node)].start_ns;
}

static void rearrange(talk *t, const uint32_t *order, uint32_t *scratch) {
    for (size_t i = 0; i < t->n; i++) scratch[i] = t->nodes[order[i]];
    memcpy(t->nodes, scratch, t->n * sizeof *scratch);
}

/* By the launchers' place in the rank's order, then by time, where it is known. */
static syn_status sort_talk(const syn__pt_sim *sim, talk *t, const uint32_t *place, int64_t *times,
                            uint32_t *scratch, syn_error *err) {
    for (int pass = 0; pass < 2; pass++) {
        uint32_t *order;
        for (size_t i = 0; i < t->n; i++) {
            times[i] = pass == 0 ? (int64_t)place[launcher(sim, t->nodes[i])]
                                 : launch_time(sim, t->nodes[i]);
        }
        SYN_TRY(by_time(times, t->n, &order, err));
        rearrange(t, order, scratch);
        syn_free(order);
    }
    return SYN_OK;
}

static syn_status find_talk(const syn__pt_sim *sim, talk *t, syn_error *err) {
    const syn__pt_rank *rank = sim->rank;
    uint32_t *place = (uint32_t *)syn_malloc((rank->n_ops + 1) * sizeof *place);
    int64_t *times = (int64_t *)syn_malloc((sim->n_nodes + 1) * sizeof *times);
    uint32_t *scratch = (uint32_t *)syn_malloc((sim->n_nodes + 1) * sizeof *scratch);
    syn_status status = SYN_OK;
    if (place == NULL || times == NULL || scratch == NULL) {
        status = SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *place, "the order of collectives");
    } else {
        for (size_t i = 0; i < rank->n_ops; i++) place[rank->order[i]] = (uint32_t)i;
        for (uint32_t i = 0; i < sim->n_nodes; i++) {
            if (talks(&sim->nodes[i])) t->nodes[t->n++] = i;
        }
        status = sort_talk(sim, t, place, times, scratch, err);
    }
    syn_free(place);
    syn_free(times);
    syn_free(scratch);
    return status;
}

static uint32_t lane_of(const syn__pt_sim *sim, uint32_t node) {
    return sim->rank->ops[sim->nodes[node].op].lane;
}

static syn_status wait_for(syn__pt_sim *sim, uint32_t from, uint32_t to, syn_error *err) {
    if (from == SYN__PT_NONE) return SYN_OK;
    if (from < to && lane_of(sim, from) == lane_of(sim, to)) return SYN_OK; /* the lane's chain */
    SYN_TRY(syn_grow(&sim->edges, &sim->edges_cap, sim->n_edges + 1, sizeof *sim->edges, err));
    sim->edges[sim->n_edges++] = (syn__pt_edge){from, to, SYN__PT_EDGE_GROUP};
    return SYN_OK;
}

/* Each collective waits for the one before it and for the sends in between, of which the last one
   of a lane stands for all. */
static syn_status chain(syn__pt_sim *sim, const talk *t, uint32_t *last_send, uint32_t *senders,
                        syn_error *err) {
    uint32_t last = SYN__PT_NONE;
    size_t n_senders = 0;
    for (size_t i = 0; i < sim->rank->n_lanes; i++) last_send[i] = SYN__PT_NONE;
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t node = t->nodes[i], lane = lane_of(sim, node);
        if (sim->nodes[node].role == SYN__PT_SIM_SEND) {
            if (last_send[lane] == SYN__PT_NONE) senders[n_senders++] = lane;
            last_send[lane] = node;
            continue;
        }
        SYN_TRY(wait_for(sim, last, node, err));
        for (size_t k = 0; k < n_senders; k++) {
            SYN_TRY(wait_for(sim, last_send[senders[k]], node, err));
            last_send[senders[k]] = SYN__PT_NONE;
        }
        n_senders = 0;
        last = node;
    }
    return SYN_OK;
}

/* in_launch_order: else in the rank's order, which no other dependency can contradict. */
static syn_status chain_talk(syn__pt_sim *sim, bool in_launch_order, syn_error *err) {
    const size_t n_lanes = sim->rank->n_lanes;
    talk t = {(uint32_t *)syn_malloc((sim->n_nodes + 1) * sizeof *t.nodes), 0};
    uint32_t *scratch = (uint32_t *)syn_malloc((2 * n_lanes + 1) * sizeof *scratch);
    syn_status status = SYN_OK;
    if (t.nodes == NULL || scratch == NULL)
        status = SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *t.nodes, "the order of collectives");
    else if (in_launch_order) status = find_talk(sim, &t, err);
    for (uint32_t i = 0; status == SYN_OK && !in_launch_order && i < sim->n_nodes; i++) {
        if (talks(&sim->nodes[i])) t.nodes[t.n++] = i;
    }
    if (status == SYN_OK) status = chain(sim, &t, scratch, scratch + n_lanes, err);
    syn_free(t.nodes);
    syn_free(scratch);
    return status;
}

/* ---- Numbering ---- */

/* Lists of edges by one end: those of node i are at[first[i] .. first[i + 1]). */
static void list_edges(const syn__pt_sim *sim, bool by_target, size_t *first, syn__pt_dep *at) {
    memset(first, 0, (sim->n_nodes + 2) * sizeof *first);
    for (size_t i = 0; i < sim->n_edges; i++)
        first[(by_target ? sim->edges[i].to : sim->edges[i].from) + 2]++;
    for (size_t i = 2; i < sim->n_nodes + 2; i++) first[i] += first[i - 1];
    for (size_t i = 0; i < sim->n_edges; i++) {
        const syn__pt_edge *e = &sim->edges[i];
        at[first[(by_target ? e->to : e->from) + 1]++] =
            (syn__pt_dep){by_target ? e->from : e->to, e->class_};
    }
}

typedef struct heap {
    uint32_t *at; /* at[1..n], the least one first */
    size_t n;
} heap;

static void push(heap *h, uint32_t value) {
    size_t i = ++h->n;
    for (; i > 1 && h->at[i / 2] > value; i /= 2) h->at[i] = h->at[i / 2];
    h->at[i] = value;
}

static uint32_t pop(heap *h) {
    const uint32_t least = h->at[1], moved = h->at[h->n--];
    size_t i = 1;
    while (2 * i <= h->n) {
        size_t child = 2 * i;
        if (child < h->n && h->at[child + 1] < h->at[child]) child++;
        if (h->at[child] >= moved) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = moved;
    return least;
}

typedef struct numbering {
    uint32_t *order; /* nodes by time */
    uint32_t *rank;  /* a node's place in it */
    uint32_t *left;  /* dependencies not yet numbered */
    size_t *first;
    syn__pt_dep *children;
    heap ready; /* ranks */
} numbering;

/* Of the nodes that wait for nothing more always the earliest one. False: there is a cycle. */
static bool run(syn__pt_sim *sim, numbering *n) {
    size_t done = 0;
    list_edges(sim, false, n->first, n->children);
    memset(n->left, 0, (sim->n_nodes + 1) * sizeof *n->left);
    for (size_t i = 0; i < sim->n_edges; i++) n->left[sim->edges[i].to]++;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        n->rank[n->order[i]] = i;
        if (n->left[n->order[i]] == 0) push(&n->ready, i);
    }
    while (n->ready.n != 0) {
        const uint32_t node = n->order[pop(&n->ready)];
        sim->sequence[done++] = node;
        for (size_t i = n->first[node]; i < n->first[node + 1]; i++) {
            const uint32_t child = n->children[i].from;
            if (--n->left[child] == 0) push(&n->ready, n->rank[child]);
        }
    }
    return done == sim->n_nodes;
}

static syn_status number(syn__pt_sim *sim, uint32_t *order, bool *complete, syn_error *err) {
    const size_t n = sim->n_nodes + 2;
    numbering num = {.order = order,
                     .rank = (uint32_t *)syn_malloc(n * sizeof(uint32_t)),
                     .left = (uint32_t *)syn_malloc(n * sizeof(uint32_t)),
                     .first = (size_t *)syn_malloc(n * sizeof(size_t)),
                     .children =
                         (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof(syn__pt_dep)),
                     .ready = {(uint32_t *)syn_malloc(n * sizeof(uint32_t)), 0}};
    const bool all = num.rank != NULL && num.left != NULL && num.first != NULL &&
                     num.children != NULL && num.ready.at != NULL;
    if (all) *complete = run(sim, &num);
    syn_free(num.rank);
    syn_free(num.left);
    syn_free(num.first);
    syn_free(num.children);
    syn_free(num.ready.at);
    return all ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof(size_t), "the order of nodes");
}

/* ---- Delays ---- */

static int64_t first_start(const syn__pt_rank *rank) {
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < rank->n_ops; i++) {
        const int64_t start = rank->ops[i].start_ns;
        if (start != SYN__PT_NO_NS && start < first) first = start;
    }
    return first;
}

static int by_start(const void *a, const void *b) {
    const syn__pt_sim_span *x = (const syn__pt_sim_span *)a, *y = (const syn__pt_sim_span *)b;
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

static void find_delays(syn__pt_sim *sim, const uint32_t *order) {
    int64_t busy = syn__pt_sim_micros(first_start(sim->rank));
    size_t barrier = 0;
    if (sim->n_barriers > 1) qsort(sim->barriers, sim->n_barriers, sizeof *sim->barriers, by_start);
    for (size_t i = 0; i < sim->n_nodes; i++) {
        syn__pt_sim_node *node = &sim->nodes[order[i]];
        if (!node->has_start || !syn__pt_sim_is_compute(node)) continue;
        for (; barrier < sim->n_barriers && sim->barriers[barrier].start_us <= node->start_us;
             barrier++)
            busy = sim->barriers[barrier].end_us > busy ? sim->barriers[barrier].end_us : busy;
        int64_t free_us = busy;
        for (size_t k = sim->first_dep[order[i]]; k < sim->first_dep[order[i] + 1]; k++) {
            const syn__pt_sim_node *from = &sim->nodes[sim->deps[k].from];
            if (from->has_start && from->end_us > free_us) free_us = from->end_us;
        }
        if (node->role == SYN__PT_SIM_COMPUTE && node->start_us > free_us)
            node->delay_us = node->start_us - free_us;
        if (node->end_us > busy) busy = node->end_us;
    }
}

/* ---- Costs ---- */

/* Of the kernels that an op launched the longest one stands for it. */
static syn_status find_dominating(syn__pt_sim *sim, syn_error *err) {
    const syn__pt_rank *rank = sim->rank;
    uint32_t *best = (uint32_t *)syn_malloc((rank->n_ops + 1) * sizeof *best);
    if (best == NULL) return SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *best, "costs of nodes");
    for (size_t i = 0; i < rank->n_ops; i++) best[i] = SYN__PT_NONE;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        const syn__pt_op *op = &rank->ops[sim->nodes[i].op];
        if (sim->nodes[i].role != SYN__PT_SIM_COMPUTE || op->kind != SYN__PT_OP_KERNEL) continue;
        if (op->parent == SYN__PT_NONE || op->host == SYN__PT_NONE) continue;
        uint32_t *b = &best[op->parent];
        if (*b != SYN__PT_NONE && rank->ops[sim->nodes[*b].op].wall_ns >= op->wall_ns) continue;
        if (*b != SYN__PT_NONE) sim->nodes[*b].dominates = false;
        sim->nodes[i].dominates = true;
        *b = i;
    }
    syn_free(best);
    return SYN_OK;
}

/* ---- All of it ---- */

static syn_status arrange(syn__pt_sim *sim, uint32_t *order, syn_error *err) {
    const size_t n_before = sim->n_edges;
    bool complete = false;
    for (int attempt = 0; attempt < 2 && !complete; attempt++) {
        sim->n_edges = n_before;
        SYN_TRY(chain_talk(sim, attempt == 0, err));
        SYN_TRY(number(sim, order, &complete, err));
    }
    sim->first_dep = (size_t *)syn_malloc((sim->n_nodes + 2) * sizeof *sim->first_dep);
    sim->deps = (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof *sim->deps);
    if (sim->first_dep == NULL || sim->deps == NULL)
        return SYN_FAIL_NOMEM(err, sim->n_edges * sizeof *sim->deps, "dependencies of nodes");
    list_edges(sim, true, sim->first_dep, sim->deps);
    find_delays(sim, order);
    uint32_t id = 0;
    for (size_t i = 0; i < sim->n_nodes; i++) {
        syn__pt_sim_node *node = &sim->nodes[sim->sequence[i]];
        node->id = id += node->delay_us > 0 ? 2 : 1;
    }
    return find_dominating(sim, err);
}

syn_status syn__pt_sim_arrange(syn__pt_sim *sim, syn_error *err) {
    uint32_t *order;
    sim->sequence = (uint32_t *)syn_malloc((sim->n_nodes + 1) * sizeof *sim->sequence);
    if (sim->sequence == NULL)
        return SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *sim->sequence, "the order of nodes");
    SYN_TRY(nodes_by_time(sim, &order, err));
    const syn_status status = arrange(sim, order, err);
    syn_free(order);
    return status;
}
