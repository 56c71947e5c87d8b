/* The prediction model, which computes times of ops from a syn_hardware. docs/hardware.md derives
   the formulas. */
#include <math.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

#define TILE     128.0 /* columns of a tile, and its maximum number of rows */
#define TILE_MIN 16.0  /* minimum rows of a tile in 16-bit dtypes, because of the tensor cores */

/* The time for copies in a collective with one pass, as a fraction of that in an all-reduce. Fitted
   to all-gathers, reduce-scatters and all-to-alls on 2 to 8 A100 and H100 GPUs. */
#define ONE_PASS_COPY 0.6

static double max2(double a, double b) {
    return a > b ? a : b;
}

static double min2(double a, double b) {
    return a < b ? a : b;
}

static double or_else(double value, double other) {
    return value > 0 ? value : other;
}

/* Kernels that combine the splits of paged attention with one query per sequence: a small one, and
   the wait for the last split, which is as long. */
#define SPLIT_KERNELS 2

/* ---- Compute ---- */

/* The peak rate of a dtype. A dtype without its own peak gets that of f32, because programs then
   convert to f32. */
static double peak(const syn_hardware *hw, syn_dtype dtype) {
    const bool given = (size_t)dtype < (size_t)SYN_DTYPE_COUNT && hw->peak_flops_per_ns[dtype] > 0;
    return hw->peak_flops_per_ns[given ? dtype : SYN_F32];
}

/* The value of an op in a list; `otherwise` if the op is not listed. Stacks write to paged caches
   as to others. */
static double op_value(const syn_hw_ops *ops, const char *op, double otherwise) {
    if (strcmp(op, "paged_append") == 0) op = "kv_append";
    for (int32_t i = 0; i < ops->n; i++)
        if (strcmp(ops->at[i].op, op) == 0) return ops->at[i].value;
    return otherwise;
}

/* The number of rows of a tile. Products with few rows have smaller tiles; in f32, tiles of one row
   exist. */
static double tile_rows(double rows, syn_dtype dtype) {
    double tile = dtype == SYN_F32 ? 1 : TILE_MIN;
    while (tile < rows && tile < TILE) tile *= 2;
    return tile;
}

/* The time of a product. Its tiles run in waves on all multiprocessors. matmul_tail accounts for
   the start of the first wave and for the last wave, which uses only some multiprocessors. */
static double product_ns(const syn_hardware *hw, const syn_node *node, double rate) {
    const syn_extents *e = &node->extents;
    const double flops = (double)node->flops;
    if (hw->multiprocessors <= 0) return (flops + hw->stack.matmul_half_flops) / rate;
    const double cube = cbrt(flops / 2), parts = hw->multiprocessors;
    const bool known = e->rows > 0 && e->columns > 0 && e->inner > 0;
    const double rows = known ? (double)e->rows : cube, columns = known ? (double)e->columns : cube,
                 inner = known ? (double)e->inner : cube, batch = known ? (double)e->batch : 1;
    const double tile = tile_rows(rows, node->dtype);
    const double waves = batch * ceil(rows / tile) * ceil(columns / TILE) / parts;
    return (waves + hw->stack.matmul_tail) * 2 * tile * TILE * inner * parts / rate;
}

/* The time to move bytes through memory. */
static double moved_ns(const syn_hardware *hw, double bytes) {
    return bytes / (hw->memory_bytes_per_ns * hw->stack.memory_efficiency);
}

/* ---- Products in FP8 ---- */

/* Whether a scope, which may be NULL, is inside a layer: one of its parts is a number, as in
   "h.3.attn". */
static bool is_in_layer(const char *scope) {
    for (const char *dot = scope; dot != NULL && (dot = strchr(dot, '.')) != NULL; dot++)
        if (dot[1] >= '0' && dot[1] <= '9') return true;
    return false;
}

/* Whether a product is in FP8. Products with weights have batch 1, but not those of attention. */
static bool is_fp8(const syn_hardware *hw, const syn_node *node) {
    return hw->fp8 && node->category == SYN_CATEGORY_MATMUL && node->extents.batch <= 1 &&
           is_in_layer(node->scope);
}

double syn_hardware_peak(const syn_hardware *hw, const syn_node *node) {
    return is_fp8(hw, node) ? hw->fp8_flops_per_ns : peak(hw, node->dtype);
}

/* The time to convert activations to FP8: they are read once, and written once as they are and once
   transposed for the gradient of the weight. That gradient, the only product with another op name,
   finds its inputs converted. The weights are converted once per step, which is neglected. */
static double conversion_ns(const syn_hardware *hw, const syn_node *node) {
    const double elements = (double)node->extents.rows * (double)node->extents.inner;
    const double bytes = elements * ((double)syn_dtype_bytes(node->dtype) + 2);
    const double efficiency = or_else(hw->stack.vector_efficiency, hw->stack.memory_efficiency);
    if (strcmp(node->op, "linear") != 0) return 0;
    return bytes / (hw->memory_bytes_per_ns * efficiency);
}

/* The time of fused attention. With one query per sequence, it reads only the KV cache. With more
   queries, it also moves the scores, score_passes times in forward, and more often in backward, in
   proportion to its flops. */
static double attention_ns(const syn_hardware *hw, const syn_node *node, double rate) {
    const syn_extents *e = &node->extents;
    const double flops = (double)node->flops;
    if (hw->multiprocessors <= 0) return (flops + hw->stack.matmul_half_flops) / rate;
    if (e->rows <= 1) return flops / rate;
    const double scores = (double)e->batch * (double)e->rows * (double)e->columns;
    const double again = flops / (4 * scores * (double)e->inner);
    const double bytes = scores * (double)syn_dtype_bytes(node->dtype);
    return flops / rate + moved_ns(hw, hw->stack.score_passes * again * bytes);
}

/* Whether the node's op is `op`, one of the ops of unfused attention, on a stack that does not fuse
   attention. On such a stack score_passes is larger than 2, which is how often the two products
   alone move the scores. */
static bool is_holdout(const syn_hardware *hw, const syn_node *node, const char *op) {
    return hw->multiprocessors > 0 && hw->stack.score_passes > 2 && strcmp(node->op, op) == 0;
}

/* The memory time of a softmax in unfused attention: the time to move the scores score_passes
   times, minus the times of the two products, which move them once each, and of the mask. The mask
   takes `traffic`, which is also the minimum for the softmax. */
static double softmax_ns(const syn_hardware *hw, const syn_node *node, double traffic) {
    const double left = moved_ns(hw, (hw->stack.score_passes - 2) * (double)node->bytes_read);
    return max2(traffic, left - traffic);
}

static double attention_kernels(const syn_stack *stack, const char *op, const syn_extents *e) {
    const bool odd = stack->score_heads > 0 && e->batch % stack->score_heads != 0;
    return op_value(&stack->kernels, op, 1) + (odd ? stack->score_kernels : 0);
}

/* The number of kernels of a node. Attention with one query per sequence is one kernel, so each of
   the four ops of unfused attention counts as a quarter of a kernel. With more queries, the softmax
   gets all kernels of attention that do not belong to the products and the mask. */
static double kernels_of(const syn_hardware *hw, const syn_node *node, bool fused) {
    const syn_hw_ops *known = &hw->stack.kernels;
    const syn_extents *e = &node->extents;
    const double kernels = op_value(known, node->op, 1);
    if (syn__is_paged(node)) return kernels + (e->rows == 1 ? SPLIT_KERNELS : 0);
    if (fused && e->rows == 1) return min2(kernels, 1);
    if (fused && e->rows > 0) return attention_kernels(&hw->stack, node->op, e);
    const bool softmax = is_holdout(hw, node, "softmax");
    if (node->phase == SYN_PHASE_DECODE &&
        (softmax || is_holdout(hw, node, "matmul") || is_holdout(hw, node, "scale_mask")))
        return 0.25;
    if (!softmax || e->rows == 0) return kernels;
    const double others = 2 * op_value(known, "matmul", 1) + op_value(known, "scale_mask", 1);
    return max2(kernels, attention_kernels(&hw->stack, "attention", e) - others);
}

/* The time of a compute node: the time of its launches on the host or that of its work on the
   device, whichever is longer, plus the op's overhead. *work is set to the device time of the work
   itself, or to 0 if the launches take longer, and *limit to what limits the work. */
static double compute_ns(const syn_hardware *hw, const syn_node *node, double *work,
                         syn_limit *limit) {
    const syn_stack *stack = &hw->stack;
    if (hw->alone.ranks > 0) return syn__hardware_kernel_ns(hw, node, work, limit);
    const double flops = (double)node->flops;
    const double bytes = (double)node->bytes_read + (double)node->bytes_written;
    const bool product = node->category == SYN_CATEGORY_MATMUL,
               fused =
                   node->category == SYN_CATEGORY_ATTENTION && (node->flags & SYN_NODE_FUSED) != 0;
    const double efficiency = fused ? or_else(stack->attention_efficiency, stack->matmul_efficiency)
                                    : stack->matmul_efficiency;
    const bool fp8 = is_fp8(hw, node);
    const double rate = syn_hardware_peak(hw, node) * efficiency;
    const double moved = product || fused
                             ? stack->memory_efficiency
                             : or_else(stack->vector_efficiency, stack->memory_efficiency);
    double computed = flops / hw->peak_flops_per_ns[SYN_F32];
    if (fused || product) computed = 0;
    if (fused && node->flops > 0)
        computed = syn__is_paged(node) ? syn__hardware_paged_ns(hw, node, rate)
                                       : attention_ns(hw, node, rate);
    if (product && node->flops > 0) computed = product_ns(hw, node, rate);
    double traffic =
        bytes * op_value(&stack->traffic, node->op, 1) / (hw->memory_bytes_per_ns * moved);
    if (node->phase != SYN_PHASE_DECODE && is_holdout(hw, node, "softmax"))
        traffic = softmax_ns(hw, node, traffic);
    if (syn__is_paged(node) && node->extents.rows == 1) { /* it reads the cache */
        traffic = max2(traffic, computed);
        computed = 0;
    }
    const struct syn_hw_phase *phase = &stack->phases[node->phase];
    const double kernels = kernels_of(hw, node, fused), host = or_else(phase->launch, 1);
    const double launches = kernels * stack->launch_ns * host;
    const double before = fp8 ? conversion_ns(hw, node) : 0;
    *limit = computed >= traffic ? SYN_LIMIT_COMPUTE : SYN_LIMIT_MEMORY;
    const double both =
        product ? syn__hardware_longer(stack, computed, traffic) : max2(computed, traffic);
    *work = (before + both) * or_else(phase->device, 1);
    const double device = *work + kernels * stack->kernel_ns;
    if (launches > device) *work = 0; /* the device waits for the host */
    const bool concurrent =
        (node->flags & SYN_NODE_SECONDARY_LOOKUP) != 0; /* not the first of its batch */
    return max2(device, launches) +
           (concurrent ? 0 : op_value(&stack->overhead, node->op, 0) * host);
}

/* ---- Communication ---- */

/* How the ranks of a group are distributed over nodes. */
struct places {
    double ranks, nodes, node_ranks; /* node_ranks: ranks on the node with the most ranks of the
                                        group */
};

static int32_t node_of(const syn_hardware *hw, int32_t rank) {
    return rank / hw->node_ranks;
}

/* The number of ranks on the node of ranks[first]; 0 if an earlier rank in the list is on this
   node, so that each node is counted once. */
static uint32_t count_node(const syn_hardware *hw, const int32_t *ranks, uint32_t n_ranks,
                           uint32_t first) {
    const int32_t node = node_of(hw, ranks[first]);
    uint32_t here = 0;
    for (uint32_t i = 0; i < first; i++)
        if (node_of(hw, ranks[i]) == node) return 0;
    for (uint32_t i = first; i < n_ranks; i++) here += node_of(hw, ranks[i]) == node;
    return here;
}

/* Counts ranks and nodes. The order of the ranks does not matter, because libraries order their
   rings by topology. Most groups list their ranks node by node; then one pass over the list
   suffices. */
static struct places places_of(const syn_hardware *hw, const int32_t *ranks, uint32_t n_ranks) {
    struct places p = {n_ranks, 0, 0};
    bool by_node = true;
    for (uint32_t i = 1; i < n_ranks; i++)
        by_node = by_node && node_of(hw, ranks[i - 1]) <= node_of(hw, ranks[i]);
    for (uint32_t i = 0, here = 0; i < n_ranks; i++) {
        const bool next = i == 0 || node_of(hw, ranks[i]) != node_of(hw, ranks[i - 1]);
        if (by_node) here = next ? 1 : here + 1;
        else here = count_node(hw, ranks, n_ranks, i);
        p.nodes += by_node ? next : here > 0;
        p.node_ranks = max2(p.node_ranks, here);
    }
    return p;
}

/* How a library sends small buffers: up and down a tree, from rank to rank along a ring, or from
   each rank directly to all others. */
enum route { ROUTE_TREE, ROUTE_RING, ROUTE_DIRECT };

/* The work of a collective. passes: passes over all ranks, each of which takes ranks - 1 steps; an
   all-reduce has two. wire: bytes that each rank sends. whole: bytes of the whole buffer. */
struct transfer {
    double passes, wire, whole;
    enum route route;
};

static struct transfer transfer_of(const syn_node *node, double k) {
    const double bytes = (double)node->comm_bytes;
    switch (node->comm) {
    case SYN_COMM_ALL_REDUCE:
    case SYN_COMM_BARRIER:
        return (struct transfer){2, 2 * (k - 1) / k * bytes, bytes, ROUTE_TREE};
    case SYN_COMM_ALL_GATHER: /* comm_bytes is the size of a shard; the whole buffer is k times as
                                 large */
        return (struct transfer){1, (k - 1) * bytes, k * bytes, ROUTE_RING};
    case SYN_COMM_GATHER:
        return (struct transfer){1, (k - 1) * bytes, k * bytes, ROUTE_DIRECT};
    case SYN_COMM_REDUCE_SCATTER:
    case SYN_COMM_REDUCE_SCATTER_BLOCK:
        return (struct transfer){1, (k - 1) / k * bytes, bytes, ROUTE_RING};
    case SYN_COMM_SCATTER:
    case SYN_COMM_ALL_TO_ALL:
        return (struct transfer){1, (k - 1) / k * bytes, bytes, ROUTE_DIRECT};
    default: /* broadcast, reduce: pipelined along the ring */
        return (struct transfer){0, bytes, bytes, ROUTE_RING};
    }
}

/* The time of a collective on a ring of alpha-beta links. */
static double ring_ns(const syn_link *link, const struct transfer *t, double k) {
    const double steps = t->passes > 0 ? t->passes * (k - 1) : 1;
    return steps * link->alpha_ns + t->wire / link->bytes_per_ns;
}

/* The time of a collective with an empty buffer. Across nodes, the time of a tree grows with the
   logarithm of the number of nodes, and the time of a ring with their number. A rank that sends
   directly to all other ranks posts one message for each rank on another node. */
static double latency_ns(const syn_protocol *p, const struct transfer *t, const struct places *at) {
    const double tree = (at->node_ranks - 1) * p->step_ns + log2(at->nodes) * p->hop_ns;
    if (at->nodes <= 1 || t->route == ROUTE_TREE || p->post_ns <= 0)
        return p->base_ns + max2(t->passes, 1) * tree;
    if (t->route == ROUTE_RING)
        return p->base_ns + (at->ranks - at->nodes) * max2(p->step_ns, p->post_ns) +
               (at->nodes - 1) * p->ring_hop_ns;
    return p->base_ns + (at->node_ranks - 1) * p->step_ns + p->hop_ns +
           (at->ranks - at->node_ranks) * p->post_ns;
}

/* Adds latency and transfer times. Transfers within nodes and across the network overlap, so the
   slower of them determines the time. Two stages, such as sending sums up a tree and results down,
   overlap only after the first part of the buffer has passed the first stage. A small buffer has
   only one part. */
static double stages_ns(const syn_protocol *p, const struct transfer *t, const struct places *at,
                        double within, double across) {
    const bool far = at->nodes > 1;
    const double ns = far ? max2(within, across) : within;
    const double fill = p->fill_ns + (far ? p->network_fill_ns : 0);
    return latency_ns(p, t, at) + ns + (fill > 0 ? ns * fill / (ns + fill) : 0);
}

/* The total network bandwidth of `ranks` ranks of a node. */
static double network_rate(const syn_hardware *hw, const syn_protocol *p, double ranks) {
    return syn_hardware_between(hw)->bytes_per_ns * ranks / hw->node_ranks *
           or_else(p->network_efficiency, p->link_efficiency);
}

/* The transfer time across the network. A ring enters and leaves each node once. As many bytes
   cross there as one rank sends, and they use the links of all ranks of the group on the node.
   Direct messages to other nodes use only the link of the rank that sends them. */
static double across_ns(const syn_hardware *hw, const syn_protocol *p, const struct transfer *t,
                        const struct places *at, double most) {
    if (t->route != ROUTE_DIRECT || at->ranks <= at->node_ranks)
        return t->wire / min2(network_rate(hw, p, at->node_ranks), most);
    const double far = t->wire * (at->ranks - at->node_ranks) / (at->ranks - 1);
    return far / min2(network_rate(hw, p, 1), most);
}

static double protocol_ns(const syn_hardware *hw, const syn_protocol *p, const struct transfer *t,
                          const struct places *at) {
    const double most = or_else(p->bytes_per_ns, INFINITY);
    double within = t->wire / min2(hw->intra.bytes_per_ns * p->link_efficiency, most);
    if (p->copy_efficiency > 0)
        within += (t->passes > 1 ? 1 : ONE_PASS_COPY) * t->whole /
                  (hw->memory_bytes_per_ns * p->copy_efficiency);
    return stages_ns(p, t, at, within, across_ns(hw, p, t, at, most));
}

/* The time of an all-reduce in switches. The switches of each node reduce the buffers of its ranks,
   and then the nodes add their sums along a tree. With two nodes, each node sends its sum once;
   with more nodes, some nodes also forward the sums of others. */
static double switch_ns(const syn_hardware *hw, const syn_protocol *p, const struct transfer *t,
                        const struct places *at) {
    const double within = t->whole / (hw->intra.bytes_per_ns * p->link_efficiency);
    const double across = min2(at->nodes - 1, 2) * t->whole / network_rate(hw, p, at->node_ranks);
    return stages_ns(p, t, at, within, across);
}

/* The protocol for a collective. */
static syn_protocol protocol_for(const syn_protocol *p, const struct transfer *t) {
    const struct syn_one_pass *one = &p->one_pass;
    syn_protocol out = *p;
    if (!(t->passes > 0 && t->passes < 2) || !(one->base_ns > 0)) return out;
    out.base_ns = one->base_ns;
    out.step_ns = one->step_ns;
    out.link_efficiency = or_else(one->link_efficiency, p->link_efficiency);
    out.fill_ns = one->fill_ns;
    return out;
}

/* The time of a collective with the library's fastest protocol. */
static double library_ns(const syn_hardware *hw, const struct transfer *t,
                         const struct places *at) {
    double best = INFINITY;
    for (int i = 0; i < SYN_PROTOCOL_COUNT; i++) {
        const syn_protocol p = protocol_for(&hw->collectives.protocols[i], t);
        if (p.link_efficiency <= 0) continue;
        if (i != SYN_PROTOCOL_SWITCH) best = min2(best, protocol_ns(hw, &p, t, at));
        else if (t->route == ROUTE_TREE && at->node_ranks > 2)
            best = min2(best, switch_ns(hw, &p, t, at));
    }
    return best;
}

/* How much longer an empty buffer takes across nodes than within one node. */
static double network_latency_ns(const syn_hardware *hw, const struct transfer *t,
                                 const struct places *at) {
    const struct transfer empty = {t->passes, 0, 0, t->route};
    const struct places near = {at->node_ranks, 1, at->node_ranks};
    return at->nodes > 1 ? library_ns(hw, &empty, at) - library_ns(hw, &empty, &near) : 0;
}

/* A node with more ranks, such as a rack of GB200, has several hosts. */
#define HOST_RANKS 8

/* The minimum time of a collective, because a rank waits for the ranks that start later. It grows
   only with the number of ranks on one host, because all hosts start their ranks at the same time.
   With several nodes, the latency of the network is added. */
static double least_ns(const syn_hardware *hw, const syn_node *node, const struct transfer *t,
                       const struct places *at) {
    const syn_stack *stack = &hw->stack;
    const double host = or_else(stack->phases[node->phase].launch, 1);
    const double together = min2(max2(hw->node_ranks, 2), HOST_RANKS);
    const double others = min2(at->ranks, together) - 2;
    return (stack->collective_ns + stack->collective_rank_ns * others) * host +
           network_latency_ns(hw, t, at);
}

static double transfer_ns(const syn_hardware *hw, const syn_node *node, const int32_t *ranks,
                          uint32_t n_ranks, const struct transfer *t) {
    const struct places at = places_of(hw, ranks, n_ranks);
    const syn_stack *stack = &hw->stack;
    if (hw->collectives.name[0] == '\0')
        return ring_ns(at.nodes > 1 ? syn_hardware_between(hw) : &hw->intra, t, at.ranks);
    const double besides = stack->collective_kernel_ns + stack->collective_hop_ns * log2(at.nodes);
    return max2(library_ns(hw, t, &at) + besides, least_ns(hw, node, t, &at));
}

static double collective_ns(const syn_hardware *hw, const syn_node *node,
                            const syn_graph_group *group) {
    if (group == NULL || group->n_ranks < 2) return 0;
    if (syn__is_deepep(node) && hw->collectives.name[0] != '\0') {
        const struct places at = places_of(hw, group->ranks, group->n_ranks);
        return syn__deepep_ns(hw, node, at.ranks, at.nodes);
    }
    const struct transfer t = transfer_of(node, group->n_ranks);
    const double ns = transfer_ns(hw, node, group->ranks, group->n_ranks, &t);
    const bool tp = group->name != NULL && strncmp(group->name, "tp", 2) == 0;
    return tp && is_in_layer(node->scope) ? (1 - hw->stack.tp_overlap) * ns : ns;
}

static double message_ns(const syn_hardware *hw, const syn_node *node, int32_t self_rank) {
    const int32_t ends[2] = {self_rank, node->peer};
    const double bytes = (double)node->comm_bytes;
    const struct transfer t = {0, bytes, bytes, ROUTE_DIRECT};
    return transfer_ns(hw, node, ends, 2, &t);
}

static double communication_ns(const syn_hardware *hw, const syn_node *node,
                               const syn_graph_group *group, int32_t self_rank) {
    return node->kind == SYN_NODE_COLLECTIVE ? collective_ns(hw, node, group)
                                             : message_ns(hw, node, self_rank);
}

double syn_hardware_predict_parts(const syn_hardware *hw, const syn_node *node,
                                  const syn_graph_group *group, int32_t self_rank,
                                  double parts[SYN_LIMIT_COUNT]) {
    double ns = 0, work;
    syn_limit limit;
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) parts[i] = 0;
    if ((node->flags & SYN_NODE_VIRTUAL) != 0) return 0;
    switch (node->kind) {
    case SYN_NODE_COMPUTE:
    case SYN_NODE_MEMORY:
        if (node->kind == SYN_NODE_COMPUTE && node->category == SYN_CATEGORY_VIEW) return 0;
        ns = compute_ns(hw, node, &work, &limit);
        parts[limit] = work;
        parts[SYN_LIMIT_LAUNCH] = ns - work;
        return ns;
    case SYN_NODE_COLLECTIVE:
    case SYN_NODE_SEND:
    case SYN_NODE_RECV:
        return parts[SYN_LIMIT_COMMUNICATION] = communication_ns(hw, node, group, self_rank);
    default:
        return 0;
    }
}

double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node,
                               const syn_graph_group *group, int32_t self_rank) {
    double parts[SYN_LIMIT_COUNT];
    return syn_hardware_predict_parts(hw, node, group, self_rank, parts);
}

void syn__hardware_fill(const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                        syn_node *node) {
    const syn_graph_group *group = node->group ? syn_graph_group_by_id(graph, node->group) : NULL;
    const double ns = syn_hardware_predict_ns(hw, node, group, graph->ranks[rank].rank);
    node->flags &= ~SYN_NODE_BLOCKING; /* of another machine */
    if (hw->stack.blocking && (node->kind == SYN_NODE_COLLECTIVE || node->kind == SYN_NODE_SEND))
        node->flags |= SYN_NODE_BLOCKING;
    node->predicted_ns = round(ns * 1000) / 1000; /* rounded to picoseconds, so that text formats
                                                     need few digits */
}
