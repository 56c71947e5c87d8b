/* Orders the nodes of a simulator and assigns their ids. Dependencies come first, communication is
   in launch order, and everything else is in order of time. */
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/read/pt_sort.h"
#include "export/pytorch/sim/pt_sim_heap.h"
#include "export/pytorch/sim/pt_sim_steps.h"
#include "syntorch/base/memory.h"

/* ---- Orders ---- */

int64_t syn__pt_sim_launch(const syn__pt_rank *rank, uint32_t op) {
    if (!rank->ops[op].detached) return syn__pt_launch_time(rank, op);
    /* The launch happened somewhere within the call, possibly long after the start of the call, so
       the end of the call is used. */
    const int64_t end_ns = syn__pt_op_end(&rank->ops[syn__pt_launched_by(rank, op)]);
    return end_ns > rank->ops[op].start_ns ? rank->ops[op].start_ns : end_ns;
}

syn_status syn__pt_sim_by_time(const int64_t *times, size_t n, uint32_t **order, syn_error *err) {
    uint64_t *keys = (uint64_t *)syn_malloc((n + 1) * sizeof *keys);
    int64_t last = INT64_MIN;
    if (keys == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *keys, "the times of nodes");
    for (size_t i = 0; i < n; i++) {
        if (times[i] != SYN__PT_NO_NS) last = times[i];
        keys[i] = syn__pt_i64_key(last);
    }
    const syn_status status = syn__pt_sort(keys, n, order, err);
    syn_free(keys);
    return status;
}

/* Sorts nodes by start. A delay is sorted by the launch of the node after it. */
static syn_status nodes_by_time(const syn__pt_sim *sim, uint32_t **order, syn_error *err) {
    int64_t *times = (int64_t *)syn_malloc((sim->n_nodes + 1) * sizeof *times);
    if (times == NULL)
        return SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *times, "the times of nodes");
    for (size_t i = 0; i < sim->n_nodes; i++) {
        const syn__pt_sim_node *node = &sim->nodes[i];
        if (node->role == SYN__PT_SIM_DELAY) times[i] = syn__pt_sim_launch(sim->rank, node->op);
        else times[i] = node->has_start ? sim->rank->ops[node->op].start_ns : SYN__PT_NO_NS;
    }
    const syn_status status = syn__pt_sim_by_time(times, sim->n_nodes, order, err);
    syn_free(times);
    return status;
}

/* ---- Communication in launch order ---- */

typedef struct comm_list {
    uint32_t *nodes; /* collectives and sends */
    size_t n;
} comm_list;

static bool communicates(const syn__pt_sim_node *node) {
    return node->role == SYN__PT_SIM_COLLECTIVE || node->role == SYN__PT_SIM_SEND;
}

/* Lists collectives and sends in the order on which the ranks of a set agree
   (pt_launch_order.c). */
static syn_status list_comms(const syn__pt_sim *sim, comm_list *t, syn_error *err) {
    const syn__pt_rank *rank = sim->rank;
    uint32_t *node_of = (uint32_t *)syn_malloc((rank->n_ops + 1) * sizeof *node_of), *order = NULL;
    if (node_of == NULL)
        return SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *node_of, "the order of collectives");
    memset(node_of, 0xFF, rank->n_ops * sizeof *node_of); /* SYN__PT_NONE */
    for (uint32_t i = 0; i < sim->n_nodes; i++)
        if (communicates(&sim->nodes[i])) node_of[sim->nodes[i].op] = i;
    const syn_status status = syn__pt_launch_order(rank, NULL, &order, err);
    for (size_t i = 0; i < rank->n_comms && status == SYN_OK; i++) {
        const uint32_t node = node_of[rank->comms[order[i]].op];
        if (node != SYN__PT_NONE) t->nodes[t->n++] = node;
    }
    syn_free(order);
    syn_free(node_of);
    return status;
}

static uint32_t track_of(const syn__pt_sim *sim, uint32_t node) {
    return sim->rank->ops[sim->nodes[node].op].track;
}

static syn_status wait_for(syn__pt_sim *sim, uint32_t from, uint32_t to, syn_error *err) {
    if (from == SYN__PT_NONE) return SYN_OK;
    if (from < to && track_of(sim, from) == track_of(sim, to))
        return SYN_OK; /* the order of the track implies it */
    SYN_TRY(syn_grow(&sim->edges, &sim->edges_cap, sim->n_edges + 1, sizeof *sim->edges, err));
    sim->edges[sim->n_edges++] = (syn__pt_edge){from, to, SYN_PYTORCH_EDGE_GROUP};
    return SYN_OK;
}

/* Makes each collective depend on the previous one and on the sends between them. Only the last
   send of each thread or stream is needed, because it depends on the earlier ones. */
static syn_status chain(syn__pt_sim *sim, const comm_list *t, uint32_t *last_send,
                        uint32_t *senders, syn_error *err) {
    uint32_t last = SYN__PT_NONE;
    size_t n_senders = 0;
    for (size_t i = 0; i < sim->rank->n_tracks; i++) last_send[i] = SYN__PT_NONE;
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t node = t->nodes[i], track = track_of(sim, node);
        if (sim->nodes[node].role == SYN__PT_SIM_SEND) {
            if (last_send[track] == SYN__PT_NONE) senders[n_senders++] = track;
            last_send[track] = node;
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

/* Chains collectives and sends. in_launch_order: in launch order; otherwise in the topological
   order of the ops, which no other dependency can contradict. */
static syn_status chain_comms(syn__pt_sim *sim, bool in_launch_order, syn_error *err) {
    const size_t n_tracks = sim->rank->n_tracks;
    comm_list t = {(uint32_t *)syn_malloc((sim->n_nodes + 1) * sizeof *t.nodes), 0};
    uint32_t *scratch = (uint32_t *)syn_malloc((2 * n_tracks + 1) * sizeof *scratch);
    syn_status status = SYN_OK;
    if (t.nodes == NULL || scratch == NULL)
        status = SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *t.nodes, "the order of collectives");
    else if (in_launch_order) status = list_comms(sim, &t, err);
    for (uint32_t i = 0; status == SYN_OK && !in_launch_order && i < sim->n_nodes; i++) {
        if (communicates(&sim->nodes[i])) t.nodes[t.n++] = i;
    }
    if (status == SYN_OK) status = chain(sim, &t, scratch, scratch + n_tracks, err);
    syn_free(t.nodes);
    syn_free(scratch);
    return status;
}

/* ---- Assigning ids ---- */

void syn__pt_sim_list_edges(const syn__pt_sim *sim, bool by_target, size_t *first,
                            syn__pt_dep *at) {
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

typedef struct numbering {
    uint32_t *order; /* nodes by time */
    uint32_t *rank;  /* per node: its position in that order */
    uint32_t *left;  /* per node: number of dependencies without an id */
    size_t *first;
    syn__pt_dep *children;
    syn__pt_sim_heap ready; /* positions (in `order`) of nodes that are ready */
} numbering;

/* Orders the nodes: always takes the earliest node that has no open dependencies. Returns false if
   there is a cycle. */
static bool run(syn__pt_sim *sim, numbering *n) {
    size_t done = 0;
    syn__pt_sim_list_edges(sim, false, n->first, n->children);
    memset(n->left, 0, (sim->n_nodes + 1) * sizeof *n->left);
    for (size_t i = 0; i < sim->n_edges; i++) n->left[sim->edges[i].to]++;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        n->rank[n->order[i]] = i;
        if (n->left[n->order[i]] == 0) syn__pt_sim_push(&n->ready, i);
    }
    while (n->ready.n != 0) {
        const uint32_t node = n->order[syn__pt_sim_pop(&n->ready)];
        sim->sequence[done++] = node;
        for (size_t i = n->first[node]; i < n->first[node + 1]; i++) {
            const uint32_t child = n->children[i].from;
            if (--n->left[child] == 0) syn__pt_sim_push(&n->ready, n->rank[child]);
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

/* Shortens communication that overlapped on a library's threads, so that overlapping time counts
   once. The simulator has one slot for communication. */
static void remove_overlap(syn__pt_sim *sim) {
    int64_t until_us = INT64_MIN;
    for (size_t i = 0; i < sim->n_nodes; i++) {
        syn__pt_sim_node *node = &sim->nodes[sim->sequence[i]];
        if (syn__pt_sim_is_compute(node) || !node->has_start || !sim->rank->ops[node->op].detached)
            continue;
        if (node->start_us < until_us)
            node->start_us = until_us < node->end_us ? until_us : node->end_us;
        if (node->end_us > until_us) until_us = node->end_us;
    }
}

/* ---- Costs ---- */

/* Whether it is unknown which op launched device work. If launches are recorded, work without a
   recorded launch was launched before the recording began, and not by the op that happened to run
   at the time. */
static bool is_stray(const syn__pt_rank *rank, const syn__pt_op *op) {
    return op->by_time && op->launch == SYN__PT_NONE && rank->matches.device_correlation > 0;
}

/* Marks the longest of the kernels that each op launched. This kernel gets the costs of the op. */
static syn_status find_dominating(syn__pt_sim *sim, syn_error *err) {
    const syn__pt_rank *rank = sim->rank;
    uint32_t *best = (uint32_t *)syn_malloc((rank->n_ops + 1) * sizeof *best);
    if (best == NULL) return SYN_FAIL_NOMEM(err, rank->n_ops * sizeof *best, "costs of nodes");
    for (size_t i = 0; i < rank->n_ops; i++) best[i] = SYN__PT_NONE;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        const syn__pt_op *op = &rank->ops[sim->nodes[i].op];
        if (sim->nodes[i].role != SYN__PT_SIM_COMPUTE || op->kind != SYN_PYTORCH_OP_KERNEL)
            continue;
        if (op->parent == SYN__PT_NONE || op->host == SYN__PT_NONE || is_stray(rank, op)) continue;
        uint32_t *b = &best[op->parent];
        if (*b != SYN__PT_NONE && rank->ops[sim->nodes[*b].op].wall_ns >= op->wall_ns) continue;
        if (*b != SYN__PT_NONE) sim->nodes[*b].dominates = false;
        sim->nodes[i].dominates = true;
        *b = i;
    }
    syn_free(best);
    return SYN_OK;
}

/* ---- All steps ---- */

static syn_status try_order(syn__pt_sim *sim, bool in_launch_order, bool *complete,
                            syn_error *err) {
    uint32_t *order;
    SYN_TRY(chain_comms(sim, in_launch_order, err));
    SYN_TRY(nodes_by_time(sim, &order, err));
    const syn_status status = number(sim, order, complete, err);
    syn_free(order);
    return status;
}

/* Orders the nodes. If launch times contradict dependencies, the launch times are ignored: first
   for the order of communication, and if that does not help, the delays are removed, too. */
static syn_status find_order(syn__pt_sim *sim, size_t n_real, size_t n_links, syn_error *err) {
    const size_t n_edges = sim->n_edges;
    bool complete = false;
    SYN_TRY(try_order(sim, true, &complete, err));
    if (complete) return SYN_OK;
    sim->n_edges = n_edges;
    SYN_TRY(try_order(sim, false, &complete, err));
    if (complete) return SYN_OK;
    sim->n_edges = n_links;
    sim->n_nodes = n_real;
    return try_order(sim, false, &complete, err);
}

syn_status syn__pt_sim_arrange(syn__pt_sim *sim, size_t n_real, size_t n_links, syn_error *err) {
    sim->sequence = (uint32_t *)syn_malloc((sim->n_nodes + 1) * sizeof *sim->sequence);
    if (sim->sequence == NULL)
        return SYN_FAIL_NOMEM(err, sim->n_nodes * sizeof *sim->sequence, "the order of nodes");
    SYN_TRY(find_order(sim, n_real, n_links, err));
    sim->first_dep = (size_t *)syn_malloc((sim->n_nodes + 2) * sizeof *sim->first_dep);
    sim->deps = (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof *sim->deps);
    if (sim->first_dep == NULL || sim->deps == NULL)
        return SYN_FAIL_NOMEM(err, sim->n_edges * sizeof *sim->deps, "dependencies of nodes");
    syn__pt_sim_list_edges(sim, true, sim->first_dep, sim->deps);
    remove_overlap(sim);
    uint32_t id = 0;
    for (size_t i = 0; i < sim->n_nodes; i++) {
        syn__pt_sim_node *node = &sim->nodes[sim->sequence[i]];
        node->id = id += node->delay_us > 0 ? 2 : 1;
    }
    return find_dominating(sim, err);
}
