/* Computes how long collectives and messages take in ASTRA-sim's networks, and chooses the
   latencies of these networks. Separate from the command, which writes the files and prints the
   times. */
#include "tools/commands/astra_sim_links.h"

#include <math.h>
#include <string.h>

#include "export/chakra/et_ring.h"
#include "syntorch/base/memory.h"

#define ENDPOINT_NS 10.0 /* ASTRA-sim adds this to each step of a ring */

/* The time of a collective in ASTRA-sim, from its sources and checked with runs:
       hops[0] * latency + bytes[0] / rate + hops[1] * latency + bytes[1] / rate + fixed_ns
   where hops and bytes are those of the last chunk to arrive, per dimension. Chunks do not wait for
   each other, so a slow link delays only the chunks that cross it. */
typedef struct cost {
    double hops[2], bytes[2], fixed_ns;
} cost;

static bool is_network(const int32_t *ring, uint32_t n, uint32_t at, int32_t node_ranks) {
    const int32_t hop[2] = {ring[at % n], ring[(at + 1) % n]};
    return syn__et_network_hops(hop, 2, node_ranks) > 0;
}

/* The largest number of hops between nodes among `hops` consecutive hops of the ring. */
static uint32_t most_network_hops(const int32_t *ring, uint32_t n, uint32_t hops,
                                  int32_t node_ranks) {
    uint32_t now = 0, most = 0;
    for (uint32_t i = 0; i < hops; i++) now += is_network(ring, n, i, node_ranks);
    for (uint32_t i = 0; i < n; i++) {
        if (now > most) most = now;
        now += is_network(ring, n, i + hops, node_ranks);
        now -= is_network(ring, n, i, node_ranks);
    }
    return most;
}

/* Adds a ring of n ranks in which each rank reduces a chunk and sends it to the next rank.
   `network` of the `hops` hops are between nodes. */
static void add_ring(cost *c, const syn_hardware *hw, syn_comm_kind comm, uint32_t n, double chunk,
                     uint32_t hops, uint32_t network) {
    c->hops[1] += network;
    c->hops[0] += hops - network;
    c->bytes[1] += network * chunk;
    c->bytes[0] += (hops - network) * chunk;
    c->fixed_ns += (hops + 1) * ENDPOINT_NS;
    if (comm != SYN_COMM_ALL_GATHER) c->fixed_ns += 3 * (n - 1) * chunk / hw->memory_bytes_per_ns;
}

/* Adds a collective of all ranks in a network of two dimensions. It runs in one dimension after the
   other. */
static void add_all_ranks(cost *c, const syn_hardware *hw, const syn_node *node, uint32_t n) {
    const uint32_t inner = (uint32_t)hw->node_ranks, outer = n / inner;
    const double bytes = (double)node->comm_bytes;
    if (node->comm == SYN_COMM_ALL_GATHER) {
        add_ring(c, hw, SYN_COMM_ALL_GATHER, outer, bytes, outer - 1, outer - 1);
        add_ring(c, hw, SYN_COMM_ALL_GATHER, inner, bytes * outer, inner - 1, 0);
        return;
    }
    const uint32_t passes = node->comm == SYN_COMM_ALL_REDUCE ? 2 : 1;
    add_ring(c, hw, SYN_COMM_REDUCE_SCATTER, inner, bytes / inner, inner - 1, 0);
    add_ring(c, hw, SYN_COMM_ALL_REDUCE, outer, bytes / n, passes * (outer - 1),
             passes * (outer - 1));
    if (passes == 2) add_ring(c, hw, SYN_COMM_ALL_GATHER, inner, bytes / inner, inner - 1, 0);
}

static syn_status cost_of(const syn_hardware *hw, const syn_node *node,
                          const syn_graph_group *group, int32_t world, cost *out, syn_error *err) {
    const uint32_t n = group->n_ranks;
    *out = (cost){.fixed_ns = 0};
    if ((int32_t)n == world && world > hw->node_ranks && hw->node_ranks > 1) {
        add_all_ranks(out, hw, node, n);
        return SYN_OK;
    }
    const size_t bytes = n * sizeof(int32_t);
    int32_t *ring = syn_malloc(bytes);
    if (!ring) return SYN_FAIL_NOMEM(err, bytes, "a group's ranks");
    memcpy(ring, group->ranks, bytes);
    const syn_status s = syn__et_order_ring(ring, n, hw->node_ranks, err);
    const uint32_t hops = (node->comm == SYN_COMM_ALL_REDUCE ? 2 : 1) * (n - 1);
    const double chunk = (double)node->comm_bytes / (node->comm == SYN_COMM_ALL_GATHER ? 1 : n);
    if (s == SYN_OK)
        add_ring(out, hw, node->comm, n, chunk, hops,
                 most_network_hops(ring, n, hops, hw->node_ranks));
    syn_free(ring);
    return s;
}

/* ---- The collectives of a trace set ---- */

/* Where a group communicates. NEAR: within a node. FAR: between nodes. ASTRAY: between nodes, but
   ASTRA-sim does not use the network between nodes for it. */
enum { NEAR, FAR, ASTRAY };

typedef struct collective {
    cost cost;
    double predicted_ns;
    int where;
    bool by_switch, by_one_link;
} collective;

typedef struct collectives {
    collective *at;
    size_t n, cap;
} collectives;

static bool has_switch(const syn_hardware *hw) {
    return hw->collectives.name[0] &&
           hw->collectives.protocols[SYN_PROTOCOL_SWITCH].link_efficiency > 0;
}

static bool is_far(const syn_graph_group *group, int32_t node_ranks) {
    for (uint32_t i = 1; i < group->n_ranks; i++)
        if (group->ranks[i] / node_ranks != group->ranks[0] / node_ranks) return true;
    return false;
}

/* Whether a group has several ranks on a node but only one ring. The group of all ranks does not
   count, because it has a ring for each index on the nodes. */
static bool is_by_one_link(const syn_graph_group *group, int32_t world, int32_t node_ranks) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < group->n_ranks; i++)
        here += group->ranks[i] / node_ranks == group->ranks[0] / node_ranks;
    return here > 1 && (int32_t)group->n_ranks < world;
}

static syn_status add_one(collectives *all, const syn_hardware *hw, const syn_graph_group *group,
                          int32_t world, const syn_node *node, syn_error *err) {
    collective one = {.where = NEAR};
    SYN_TRY(cost_of(hw, node, group, world, &one.cost, err));
    SYN_TRY(syn_grow(&all->at, &all->cap, all->n + 1, sizeof *all->at, err));
    if (one.cost.hops[1] > 0) one.where = FAR;
    else if (is_far(group, hw->node_ranks)) one.where = ASTRAY;
    one.predicted_ns = syn_hardware_predict_ns(hw, node, group, group->ranks[0]);
    one.by_switch = has_switch(hw) && node->comm == SYN_COMM_ALL_REDUCE && group->n_ranks > 2;
    one.by_one_link =
        one.where == FAR && hw->collectives.name[0] && is_by_one_link(group, world, hw->node_ranks);
    all->at[all->n++] = one;
    return SYN_OK;
}

static bool is_ring(const syn_node *node) {
    return node->kind == SYN_NODE_COLLECTIVE && node->comm_bytes > 0 &&
           (node->comm == SYN_COMM_ALL_REDUCE || node->comm == SYN_COMM_ALL_GATHER ||
            node->comm == SYN_COMM_REDUCE_SCATTER);
}

static syn_status add_all(collectives *all, const syn_hardware *hw, const syn_graph *first,
                          int32_t world, syn_error *err) {
    syn_cursor cursor = {.deps = NULL};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < first->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(first, 0, i, &cursor);
        if (!node) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        if (!node || !is_ring(node)) continue;
        const syn_graph_group *group = syn_graph_group_by_id(first, node->group);
        if (group && group->n_ranks > 1) s = add_one(all, hw, group, world, node, err);
    }
    syn_cursor_free(&cursor);
    return s;
}

/* Adds a small all-reduce of n ranks that are `stride` apart; its time is mostly latency. */
static syn_status add_small(collectives *all, const syn_hardware *hw, int32_t n, int32_t stride,
                            syn_error *err) {
    int32_t *ranks = syn_malloc((size_t)n * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *ranks, "a dimension's ranks");
    for (int32_t i = 0; i < n; i++) ranks[i] = i * stride;
    const syn_graph_group group = {.ranks = ranks, .n_ranks = (uint32_t)n};
    const syn_node node = {SYN_NODE_UNKNOWN, .kind = SYN_NODE_COLLECTIVE,
                           .comm = SYN_COMM_ALL_REDUCE, .op = "all_reduce", .comm_bytes = 65536};
    const syn_status s = add_one(all, hw, &group, 0, &node, err);
    syn_free(ranks);
    return s;
}

/* ---- Latencies ---- */

static double simulated_ns(const astra_network *net, const cost *c) {
    double ns = c->fixed_ns;
    for (int d = 0; d < 2; d++) {
        const astra_dimension *at = &net->dimensions[net->n > 1 ? d : 0];
        ns += c->hops[d] * at->latency_ns + c->bytes[d] / at->bytes_per_ns;
    }
    return ns;
}

/* Sets the latency of dimension d so that the sum of simulated times of its collectives equals the
   sum of predicted times. Returns false if the dimension has no collectives. */
static bool fit(astra_network *net, int d, int where, const collectives *all) {
    double hops = 0, more_ns = 0;
    net->dimensions[d].latency_ns = 0;
    for (size_t i = 0; i < all->n; i++) {
        const collective *c = &all->at[i];
        if (c->where != where) continue;
        hops += net->n > 1 ? c->cost.hops[d] : c->cost.hops[0] + c->cost.hops[1];
        more_ns += c->predicted_ns - simulated_ns(net, &c->cost);
    }
    if (hops > 0) net->dimensions[d].latency_ns = fmax(0, more_ns / hops);
    return hops > 0;
}

static void compare(astra_network *net, int d, int where, const collectives *all) {
    astra_dimension *at = &net->dimensions[d];
    for (size_t i = 0; i < all->n; i++) {
        const collective *c = &all->at[i];
        if (c->where != where || !(c->predicted_ns > 0)) continue;
        const double ns = simulated_ns(net, &c->cost), times = ns / c->predicted_ns;
        at->least = at->n ? fmin(at->least, times) : times;
        at->most = fmax(at->most, times);
        at->n++;
        at->predicted_ns += c->predicted_ns;
        at->simulated_ns += ns;
        at->by_switch |= c->by_switch;
        at->by_one_link |= c->by_one_link;
    }
}

static void add_detour(astra_detour *sum, const astra_network *net, const cost *c,
                       double predicted_ns) {
    sum->n++;
    sum->predicted_ns += predicted_ns;
    sum->simulated_ns += simulated_ns(net, c);
}

static syn_status fit_all(astra_network *net, const syn_hardware *hw, const collectives *all,
                          syn_error *err) {
    for (int d = 0; d < net->n; d++) {
        const int where = d == 1 || hw->node_ranks == 1 ? FAR : NEAR;
        if (!hw->collectives.name[0]) {
            net->dimensions[d].latency_ns = (where == FAR ? &hw->inter : &hw->intra)->alpha_ns;
        } else if (!fit(net, d, where, all)) {
            collectives small = {.n = 0};
            const syn_status s =
                add_small(&small, hw, net->dimensions[d].ranks, d == 1 ? hw->node_ranks : 1, err);
            if (s == SYN_OK) fit(net, d, where, &small);
            syn_free(small.at);
            SYN_TRY(s);
        }
        compare(net, d, where, all);
    }
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].where == ASTRAY)
            add_detour(&net->collectives, net, &all->at[i].cost, all->at[i].predicted_ns);
    return SYN_OK;
}

/* ---- The network ---- */

static syn_status count_astray(const syn_hardware *hw, const syn_graph *first, int32_t world,
                               uint32_t *out, syn_error *err) {
    const syn_node node = {SYN_NODE_UNKNOWN, .kind = SYN_NODE_COLLECTIVE,
                           .comm = SYN_COMM_ALL_REDUCE, .op = "all_reduce", .comm_bytes = 1};
    *out = 0;
    for (uint32_t i = 0; i < first->n_groups; i++) {
        const syn_graph_group *group = &first->groups[i];
        cost c;
        if (!is_far(group, hw->node_ranks)) continue;
        SYN_TRY(cost_of(hw, &node, group, world, &c, err));
        *out += c.hops[1] <= 0;
    }
    return SYN_OK;
}

syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err) {
    const int32_t node = hw->node_ranks < ranks ? hw->node_ranks : ranks;
    const double share =
        hw->collectives.name[0] ? hw->node_ranks : 1; /* number of ranks that share a node's link */
    collectives all = {.n = 0};
    *out = (astra_network){.n = 0};
    if (ranks % node != 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%d ranks do not fill nodes of %d ranks, as ASTRA-sim's networks require",
                        (int)ranks, (int)node);
    if (node > 1)
        out->dimensions[out->n++] =
            (astra_dimension){.ranks = node, .bytes_per_ns = hw->intra.bytes_per_ns};
    if (node < ranks)
        out->dimensions[out->n++] = (astra_dimension){
            .ranks = ranks / node, .bytes_per_ns = hw->inter.bytes_per_ns / share};
    syn_status s = add_all(&all, hw, first, ranks, err);
    if (s == SYN_OK) s = fit_all(out, hw, &all, err);
    if (s == SYN_OK) s = count_astray(hw, first, ranks, &out->n_astray, err);
    syn_free(all.at);
    return s;
}

/* ---- Messages ---- */

static void add_message(astra_network *net, const syn_hardware *hw, int32_t rank,
                        const syn_node *node) {
    const int32_t width = hw->node_ranks, peer = node->peer;
    const cost c = {.hops = {1, 0}, .bytes = {(double)node->comm_bytes, 0}};
    if (node->kind != SYN_NODE_SEND || peer < 0) return;
    if (peer / width == rank / width || peer % width == rank % width) return;
    add_detour(&net->messages, net, &c, syn_hardware_predict_ns(hw, node, NULL, rank));
}

syn_status astra_add_messages(astra_network *net, const syn_hardware *hw, const syn_graph *graph,
                              syn_error *err) {
    syn_cursor cursor = {.deps = NULL};
    syn_status s = SYN_OK;
    for (uint32_t r = 0; r < graph->n_ranks; r++)
        for (uint32_t i = 0; i < graph->ranks[r].n_nodes && s == SYN_OK; i++) {
            const syn_node *node = syn_graph_node(graph, r, i, &cursor);
            if (node) add_message(net, hw, graph->ranks[r].rank, node);
            else s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        }
    syn_cursor_free(&cursor);
    return s;
}
