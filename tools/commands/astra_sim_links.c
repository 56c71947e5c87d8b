/* Describes a machine's links for ASTRA-sim, and computes how long collectives and messages take
   there. Separate from the command, which writes the files and prints the times. */
#include "tools/commands/astra_sim_links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_ring.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

/* ---- The machine ---- */

/* The latency of a message. Data sheets do not list it, so presets have only the latencies that
   were measured with their collective library. The protocol with the shortest steps, which is the
   one for small buffers, is nearest to the latency of the link itself. */
static double latency_of(const syn_hardware *hw, bool far) {
    const syn_link *link = far ? syn_hardware_between(hw) : &hw->intra;
    double least = INFINITY;
    if (link->alpha_ns > 0 || !hw->collectives.name[0]) return link->alpha_ns;
    for (int i = 0; i < SYN_PROTOCOL_COUNT; i++) {
        const syn_protocol *p = &hw->collectives.protocols[i];
        const double across = p->ring_hop_ns > 0 ? p->ring_hop_ns : p->hop_ns;
        const double ns = far ? across : p->step_ns;
        if (p->link_efficiency > 0 && ns > 0) least = fmin(least, ns);
    }
    return isfinite(least) ? least : 0;
}

static const syn__sim_topology topologies[] = {
    [SYN_TOPOLOGY_SWITCH] = SYN__SIM_SWITCH,
    [SYN_TOPOLOGY_FULLY_CONNECTED] = SYN__SIM_FULLY_CONNECTED,
    [SYN_TOPOLOGY_RING] = SYN__SIM_RING,
};

/* ASTRA-sim's latency is that of a hop. A message makes two hops through a switch. */
static void add_dimension(astra_network *net, const syn_hardware *hw, int64_t ranks, bool far) {
    const syn_link *link = far ? syn_hardware_between(hw) : &hw->intra;
    const double sharing = /* ranks that share the link of a node */
        far && hw->collectives.name[0] ? hw->node_ranks : 1;
    const int at = net->machine.n_dimensions++;
    net->latency_ns[at] = latency_of(hw, far);
    net->machine.dimensions[at] = (syn__sim_dimension){
        .topology = topologies[link->topology],
        .ranks = ranks,
        .bytes_per_ns = link->bytes_per_ns / sharing,
        .latency_ns = net->latency_ns[at] / (link->topology == SYN_TOPOLOGY_SWITCH ? 2 : 1)};
}

/* With local_first, an all-reduce over all ranks is a reduce-scatter within nodes, an all-reduce of
   the shards between nodes and an all-gather within nodes, as in collective libraries. */
static syn_status describe(astra_network *net, const syn_hardware *hw, int32_t ranks,
                           syn_error *err) {
    const int32_t node = hw->node_ranks < ranks ? hw->node_ranks : ranks;
    if (ranks % node != 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%d ranks do not fill nodes of %d ranks, as ASTRA-sim's networks require: "
                        "choose the ranks per node with --node-ranks, such as %d for a single node",
                        (int)ranks, (int)node, (int)ranks);
    net->machine = (syn__sim_machine){.n_ranks = (uint32_t)ranks,
                                      .memory_bytes_per_ns = hw->memory_bytes_per_ns,
                                      .endpoint_ns = 10,
                                      .splits = 1,
                                      .active = 1,
                                      .local_first = true};
    if (node > 1) add_dimension(net, hw, node, false);
    if (node < ranks) add_dimension(net, hw, ranks / node, true);
    return SYN_OK;
}

/* ---- Groups ---- */

typedef struct ring {
    const syn_graph_group *group;
    int32_t *ranks; /* in the order of comm_group.json */
    astra_where where;
    uint32_t most; /* ranks on the node with the most ranks of the group */
} ring;

static int compare_ranks(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The largest number of ranks on a node. Sorts the ranks. */
static uint32_t most_on_node(int32_t *ranks, uint32_t n, int32_t node_ranks) {
    uint32_t most = 0, here = 0;
    qsort(ranks, n, sizeof *ranks, compare_ranks);
    for (uint32_t i = 0; i < n; i++) {
        here = i > 0 && ranks[i] / node_ranks == ranks[i - 1] / node_ranks ? here + 1 : 1;
        if (here > most) most = here;
    }
    return most;
}

static syn_status order(ring *out, const syn_hardware *hw, const syn_graph_group *group,
                        int32_t world, syn_error *err) {
    const uint32_t n = group->n_ranks;
    const size_t bytes = n * sizeof(int32_t);
    *out = (ring){.group = group, .ranks = syn_malloc(bytes)};
    if (!out->ranks) return SYN_FAIL_NOMEM(err, bytes, "a group's ranks");
    memcpy(out->ranks, group->ranks, bytes);
    out->most = most_on_node(out->ranks, n, hw->node_ranks);
    memcpy(out->ranks, group->ranks, bytes);
    SYN_TRY(syn__et_order_ring(out->ranks, n, hw->node_ranks, err));
    const bool is_astray = syn__et_network_hops(out->ranks, n, hw->node_ranks) == 0;
    out->where = out->most == n        ? ASTRA_WITHIN
                 : (int32_t)n == world ? ASTRA_ALL
                 : is_astray           ? ASTRA_ASTRAY
                 : out->most == 1      ? ASTRA_BETWEEN
                                       : ASTRA_SEVERAL;
    return SYN_OK;
}

/* ---- The collectives of rank 0 ---- */

/* The time of a collective in ASTRA-sim. Layers repeat their collectives, so each is computed
   once. */
typedef struct price {
    uint32_t group;
    syn_comm_kind comm;
    uint64_t bytes, ns;
} price;

typedef struct comparison {
    astra_network *net;
    const syn_hardware *hw;
    const syn_graph *first;
    ring *rings; /* per group of `first` */
    price *prices;
    size_t n_prices, prices_cap;
    syn_error *err;
} comparison;

static syn_status simulate(comparison *c, uint32_t group, syn_comm_kind comm, uint64_t bytes,
                           uint64_t *out) {
    const ring *r = &c->rings[group];
    for (size_t i = 0; i < c->n_prices; i++) {
        const price *p = &c->prices[i];
        if (p->group != group || p->comm != comm || p->bytes != bytes) continue;
        *out = p->ns;
        return SYN_OK;
    }
    SYN_TRY(syn__sim_collective_ns(&c->net->machine, r->ranks, r->group->n_ranks,
                                   syn__et_comm_type(comm), bytes, out, c->err));
    SYN_TRY(syn_grow(&c->prices, &c->prices_cap, c->n_prices + 1, sizeof *c->prices, c->err));
    c->prices[c->n_prices++] = (price){group, comm, bytes, *out};
    return SYN_OK;
}

static bool has_switch(const syn_hardware *hw) {
    return hw->collectives.name[0] &&
           hw->collectives.protocols[SYN_PROTOCOL_SWITCH].link_efficiency > 0;
}

/* The ratio of a collective that is predicted to take almost no time, because it is part of another
   one, says nothing. */
static void add(astra_times *sum, double predicted_ns, double simulated_ns) {
    const double ratio = simulated_ns / predicted_ns;
    if (predicted_ns > 100) {
        sum->least = sum->most > 0 ? fmin(sum->least, ratio) : ratio;
        sum->most = fmax(sum->most, ratio);
    }
    sum->n++;
    sum->predicted_ns += predicted_ns;
    sum->simulated_ns += simulated_ns;
}

static syn_status add_collective(comparison *c, uint32_t group, const syn_node *node) {
    const ring *r = &c->rings[group];
    const int32_t rank = r->group->ranks[0];
    astra_times *sum = &c->net->times[r->where];
    syn_node empty = *node;
    uint64_t ns = 0, empty_ns = 0;
    SYN_TRY(simulate(c, group, node->comm, node->comm_bytes, &ns));
    SYN_TRY(simulate(c, group, node->comm, 1, &empty_ns));
    empty.comm_bytes = 0;
    const double predicted_ns = syn_hardware_predict_ns(c->hw, node, r->group, rank);
    add(sum, predicted_ns, (double)ns);
    sum->startup_ns += syn_hardware_predict_ns(c->hw, &empty, r->group, rank) - (double)empty_ns;
    if (has_switch(c->hw) && node->comm == SYN_COMM_ALL_REDUCE && r->most > 2)
        sum->switched_ns += (double)ns - predicted_ns;
    return SYN_OK;
}

/* Whether ASTRA-sim computes the time of a node: it uses the times of other collectives in the
   trace. */
static bool is_simulated(const syn_node *node) {
    return node->kind == SYN_NODE_COLLECTIVE && node->comm_bytes > 0 &&
           (node->comm == SYN_COMM_ALL_REDUCE || node->comm == SYN_COMM_ALL_GATHER ||
            node->comm == SYN_COMM_REDUCE_SCATTER || node->comm == SYN_COMM_ALL_TO_ALL);
}

static syn_status add_collectives(comparison *c) {
    syn_cursor cursor = {.deps = NULL};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < c->first->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(c->first, 0, i, &cursor);
        if (!node) s = SYN_FAIL(c->err, cursor.error.code, "%s", cursor.error.text);
        if (!node || !is_simulated(node)) continue;
        const syn_graph_group *group = syn_graph_group_by_id(c->first, node->group);
        if (group && group->n_ranks > 1)
            s = add_collective(c, (uint32_t)(group - c->first->groups), node);
    }
    syn_cursor_free(&cursor);
    return s;
}

static syn_status compare(comparison *c, int32_t world) {
    for (uint32_t i = 0; i < c->first->n_groups; i++) {
        SYN_TRY(order(&c->rings[i], c->hw, &c->first->groups[i], world, c->err));
        c->net->n_astray += c->rings[i].where == ASTRA_ASTRAY;
    }
    return add_collectives(c);
}

syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err) {
    *out = (astra_network){.n_astray = 0};
    SYN_TRY(describe(out, hw, ranks, err));
    comparison c = {.net = out, .hw = hw, .first = first, .err = err};
    c.rings = syn_calloc(first->n_groups + 1u, sizeof *c.rings);
    if (!c.rings) return SYN_FAIL_NOMEM(err, first->n_groups * sizeof *c.rings, "rings");
    const syn_status s = compare(&c, ranks);
    for (uint32_t i = 0; i < first->n_groups; i++) syn_free(c.rings[i].ranks);
    syn_free(c.rings);
    syn_free(c.prices);
    return s;
}

/* ---- Messages ---- */

static void add_message(astra_network *net, const syn_hardware *hw, int32_t rank,
                        const syn_node *node) {
    const int32_t width = hw->node_ranks, peer = node->peer;
    if (node->kind != SYN_NODE_SEND || peer < 0) return;
    if (peer / width == rank / width || peer % width == rank % width) return;
    add(&net->messages, syn_hardware_predict_ns(hw, node, NULL, rank),
        (double)syn__sim_message_ns(&net->machine, rank, peer, node->comm_bytes));
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
