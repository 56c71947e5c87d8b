/* Computes what limits a predicted time: the shares of compute, memory, launch overhead and
   communication, and the model flops utilisation. */
#ifndef TOOLS_LIMITS_H
#define TOOLS_LIMITS_H

#include "syntorch/hardware/hardware.h"
#include "tools/extrapolation.h"

/* Sums over the ops of one rank, or of one rank of each stage, by phase. */
typedef struct limits {
    int stages; /* stages of a pipeline that run one after the other, so that each waits while
                   another one runs; 0: one */
    double ns[SYN_PHASE_COUNT][SYN_LIMIT_COUNT]; /* predicted time of the ops, by what limits each
                                                    op */
    double at_peak_ns[SYN_PHASE_COUNT]; /* time that matrix products and attention would take at the
                                           peak rate of their dtype, without recomputation */
    extrapolation extrapolated;         /* ops outside the ranges that the constants were fitted
                                     to */
} limits;

#define LIMITS_ALL ((1u << SYN_PHASE_COUNT) - 1)

/* A time is divided into one share for each syn_limit, and one for the bubble of a pipeline, in
   which a rank waits for other stages. The shares add up to 1. */
enum { LIMITS_BUBBLE = SYN_LIMIT_COUNT, LIMITS_SHARES };

const char *limits_name(int limit); /* "compute"; `limit` is a syn_limit or LIMITS_BUBBLE */
/* Adds a node of rank `rank`. */
void limits_add(limits *l, const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                const syn_node *node);
/* Computes the shares of wall_ns, the total time of the phases whose bits are set in `phases`.
   Communication gets the time in which the rank does no other work: exposed communication and wait
   time. The bubble is the time in which other stages run, or 0 if l->stages is 0. *utilisation is
   the fraction of wall_ns that the flops would take at the peak rate (model flops utilisation,
   Chowdhery et al. 2022). Returns false if wall_ns is 0. */
bool limits_shares(const limits *l, uint32_t phases, double wall_ns, double shares[LIMITS_SHARES],
                   double *utilisation);
/* Writes "61% compute, 9% memory, 4% launch overhead, 26% communication; 38% MFU", or
   "unknown", to buf. A bubble is left out if it is 0. */
const char *limits_text(const limits *l, uint32_t phases, double wall_ns, char *buf, size_t bytes);
/* Writes {"compute": 0.61, ..., "utilisation": 0.38}. */
void limits_json(const limits *l, uint32_t phases, double wall_ns, syn_sink *out);
/* Like limits_text and limits_json, for shares that limits_shares returned. */
const char *limits_shares_text(const double shares[LIMITS_SHARES], double utilisation, char *buf,
                               size_t bytes);
void limits_shares_json(const double shares[LIMITS_SHARES], double utilisation, syn_sink *out);

#endif
