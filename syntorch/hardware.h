/* Predicted times: a roofline with a floor per op for compute, alpha-beta links for communication.
   One JSON file format, in two separate parts: the hardware (peaks, memory, links) and the software
   stack on it (launch overhead, kernels per op, efficiencies). */
#ifndef SYNTORCH_HARDWARE_H
#define SYNTORCH_HARDWARE_H

#include "syntorch/graph.h"

SYN_API_BEGIN

typedef struct syn_link {
    double alpha_ns;     /* per step of a ring, or per message */
    double bytes_per_ns; /* of one rank, each direction; 1 byte/ns = 1 GB/s */
} syn_link;

#define SYN_HW_KERNELS 64

typedef struct syn_hardware {
    char name[64];
    /* the hardware */
    double peak_flops_per_ns[SYN_DTYPE_COUNT]; /* matrix products; 1 flop/ns = 1 GFLOP/s; 0: the
                                                  dtype is not supported */
    double memory_bytes, memory_bytes_per_ns;
    int32_t node_ranks; /* ranks that `intra` joins; farther apart: `inter` */
    syn_link intra, inter;
    /* the stack */
    char stack[64];
    double launch_ns;         /* per kernel: an op lasts at least launch_ns * its kernels */
    double matmul_efficiency; /* of the peak, for large products: eff * flops / (flops +
                                 matmul_half_flops) */
    double matmul_half_flops;
    double memory_efficiency;
    struct syn_hw_kernels {
        char op[32];
        double count;
    } kernels[SYN_HW_KERNELS]; /* ops not listed: 1 */
    int32_t n_kernels;
} syn_hardware;

/* `name`: a preset (a100-80g, h100, h200, v100-32g, cpu) or the path of a JSON file. The error
   lists the presets. */
syn_status syn_hardware_load(syn_hardware *hw, const char *name, syn_error *err) SYN_MUST_USE;
syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) SYN_MUST_USE;
/* Names of the presets, ended by NULL. */
const char *const *syn_hardware_presets(void);

/* Predicted time of a node in ns: views 0; compute max(flops / rate, bytes / bandwidth, floor);
   all-reduce 2(k-1)alpha + 2(k-1)/k n/bw, all-gather and reduce-scatter (k-1)alpha + (k-1)/k n/bw
   with n the whole buffer, broadcast and messages alpha + n/bw (ring costs: Thakur, Rabenseifner,
   Gropp 2005). dtype: of the op's data. ranks: of its group (NULL for messages:
   peer and self_rank). */
double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node, syn_dtype dtype,
                               const syn_graph_group *group, int32_t self_rank);

SYN_API_END
#endif
