/* What limits a predicted time: the shares of compute, memory, launches and communication, and the
   model flops utilisation. */
#ifndef TOOLS_LIMITS_H
#define TOOLS_LIMITS_H

#include "syntorch/hardware/hardware.h"
#include "tools/extrapolation.h"

/* Sums over the ops of one rank, by phase. */
typedef struct limits {
    double ns[SYN_PHASE_COUNT][SYN_LIMIT_COUNT]; /* predicted time by limit */
    double at_peak_ns[SYN_PHASE_COUNT]; /* time of products and attention at the peak of their
                                           dtype; recomputation does not count */
    extrapolation beyond;               /* ops outside of the fitted ranges */
} limits;

#define LIMITS_ALL ((1u << SYN_PHASE_COUNT) - 1)

const char *limits_name(int limit); /* "compute"; `limit` is a syn_limit */
/* Adds a node of the rank. */
void limits_add(limits *l, const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                const syn_node *node);
/* Computes shares for the phases whose bits are set in `phases`, which took wall_ns. The shares add
   up to 1. *utilisation is the share that the flops would take at the peak (model flops
   utilisation, Chowdhery et al. 2022). The share of communication is the time not covered by other
   work: exposed communication and wait time. Returns false if wall_ns is 0. */
bool limits_shares(const limits *l, uint32_t phases, double wall_ns, double shares[SYN_LIMIT_COUNT],
                   double *utilisation);
/* Writes "61% compute, 9% memory, 4% launches, 26% communication; 38% of peak flops", or "unknown",
   to buf. */
const char *limits_text(const limits *l, uint32_t phases, double wall_ns, char *buf, size_t bytes);
/* {"compute": 0.61, ..., "utilisation": 0.38} */
void limits_json(const limits *l, uint32_t phases, double wall_ns, syn_sink *out);
/* The same for given shares. */
const char *limits_shares_text(const double shares[SYN_LIMIT_COUNT], double utilisation, char *buf,
                               size_t bytes);
void limits_shares_json(const double shares[SYN_LIMIT_COUNT], double utilisation, syn_sink *out);

#endif
