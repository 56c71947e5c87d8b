/* What limits a predicted time: how it is shared out, and how much of the machine it uses. */
#ifndef TOOLS_LIMITS_H
#define TOOLS_LIMITS_H

#include "syntorch/hardware/hardware.h"
#include "tools/extrapolation.h"

/* Of one rank's ops, by phase. */
typedef struct limits {
    double ns[SYN_PHASE_COUNT][SYN_LIMIT_COUNT];
    double at_peak_ns[SYN_PHASE_COUNT]; /* of products and attention alone, at the peak of their
                                           dtype; what is computed a second time does not count */
    extrapolation beyond;
} limits;

#define LIMITS_ALL ((1u << SYN_PHASE_COUNT) - 1)

const char *limits_name(int limit); /* "compute"; a syn_limit */
/* Adds a node of the rank. */
void limits_add(limits *l, const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                const syn_node *node);
/* Of the phases whose bits are set, which took wall_ns: shares that add up to 1, and what at the
   peak would have taken, as a share (model flops utilisation, Chowdhery et al. 2022). Communication
   is what compute did not hide, and waiting. False: wall_ns is 0. */
bool limits_shares(const limits *l, uint32_t phases, double wall_ns, double shares[SYN_LIMIT_COUNT],
                   double *utilisation);
/* "61% compute, 9% memory, 4% launches, 26% communication; 38% of peak flops" in buf, or
   "unknown". */
const char *limits_text(const limits *l, uint32_t phases, double wall_ns, char *buf, size_t bytes);
/* {"compute": 0.61, ..., "utilisation": 0.38} */
void limits_json(const limits *l, uint32_t phases, double wall_ns, syn_sink *out);
/* The same of shares that are known. */
const char *limits_shares_text(const double shares[SYN_LIMIT_COUNT], double utilisation, char *buf,
                               size_t bytes);
void limits_shares_json(const double shares[SYN_LIMIT_COUNT], double utilisation, syn_sink *out);

#endif
