/* Times of DeepEP's all-to-alls, from measurements of its kernels with 20 SMs on H100s with 8 GPUs
   and 8 network cards of 50 GB/s per node (tests/measured/deepep_h100.csv), for at least 512 tokens
   per rank. On another machine, the bandwidths are scaled with those of its links. */
#include <math.h>
#include <string.h>

#include "syntorch/base/expert_choice.h"
#include "syntorch/hardware/hardware_private.h"

/* The time of a kernel that sends `bytes` bytes of each rank over the links that limit it: to all
   ranks within a node, or to other nodes. Beyond far_bytes it is slower. */
struct fit {
    double base_ns, rate, far_bytes, far_rate; /* rates: bytes per ns */
};

static const struct measured {
    double nodes;
    struct fit dispatch, combine;
} measured[] = {
    {1, {42e3, 353, INFINITY, 353}, {78e3, 348, INFINITY, 348}},
    {2, {56e3, 38.2, INFINITY, 38.2}, {112e3, 30.4, INFINITY, 30.4}},
    {4, {66e3, 47.3, INFINITY, 47.3}, {114e3, 46.8, INFINITY, 46.8}},
    {8, {44e3, 17.2, 192e6, 15.5}, {118e3, 40.6, 372e6, 14.6}},
};
enum { MEASURED = (int)(sizeof measured / sizeof *measured) };
#define H100_LINK 450.0
#define H100_CARD 50.0

static double fit_ns(const struct fit *f, double bytes, double scale) {
    const double near = fmin(bytes, f->far_bytes);
    return f->base_ns + (near / f->rate + (bytes - near) / f->far_rate) / scale;
}

static int64_t attribute(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return node->attributes[i].i64;
    return 0;
}

bool syn__is_deepep(const syn_node *node) {
    return node->op != NULL && strcmp(node->op, "deepep_all_to_all") == 0 &&
           attribute(node, "experts") > 0;
}

bool syn__deepep_extrapolated(const syn_hardware *hw, double nodes, syn_hw_extrapolation *out) {
    const double most = measured[MEASURED - 1].nodes;
    const bool other = strncmp(hw->name, "h100", strlen("h100")) != 0;
    *out = (syn_hw_extrapolation){.what = "deepep_all_to_all",
                                  .extent = other ? SYN_HW_EXTENTS : SYN_HW_EXTENT_NODES,
                                  .value = nodes,
                                  .fitted = {1, most}};
    return other || nodes > most;
}

double syn__deepep_ns(const syn_hardware *hw, const syn_node *node, double ranks, double nodes) {
    const syn_expert_choice choice = {attribute(node, "experts"), attribute(node, "k"),
                                      attribute(node, "groups"), attribute(node, "top_groups")};
    const bool combine = attribute(node, "combine") != 0, near = nodes < 2;
    const double copies = ranks * syn_expert_reach(&choice, (int64_t)ranks),
                 others = near ? copies : (nodes - 1) * syn_expert_reach(&choice, (int64_t)nodes),
                 bytes = (double)node->comm_bytes * others / copies,
                 scale = near ? hw->intra.bytes_per_ns / H100_LINK
                              : syn_hardware_between(hw)->bytes_per_ns / hw->node_ranks / H100_CARD;
    int i = near ? 0 : 1;
    while (i + 1 < MEASURED && measured[i + 1].nodes <= nodes) i++;
    const struct measured *a = &measured[i], *b = &measured[i + 1 < MEASURED ? i + 1 : i];
    const double first = fit_ns(combine ? &a->combine : &a->dispatch, bytes, scale);
    if (nodes <= a->nodes || a == b) return first;
    const double part = log2(nodes / a->nodes) / log2(b->nodes / a->nodes);
    return first + part * (fit_ns(combine ? &b->combine : &b->dispatch, bytes, scale) - first);
}
