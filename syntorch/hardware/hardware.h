/* Predicted times of ops. A machine (peaks, memory, links), the software stack on it (launches,
   what is fused, efficiencies) and the collective library are three separate parts, read
   from one JSON file or taken from presets. What the model is and how well it does:
   docs/hardware.md, docs/accuracy.md. */
#ifndef SYNTORCH_HARDWARE_H
#define SYNTORCH_HARDWARE_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

typedef struct syn_link {
    double alpha_ns;     /* per step of a ring, or per message; not with a collective library */
    double bytes_per_ns; /* of one rank, each direction; 1 byte/ns = 1 GB/s. Between nodes, with a
                            collective library: of one node */
} syn_link;

/* Numbers by the names of ops. */
#define SYN_HW_OPS 64
typedef struct syn_hw_ops {
    struct syn_hw_op {
        char op[32];
        double value;
    } at[SYN_HW_OPS];
    int32_t n;
} syn_hw_ops;

/* On what constants were fitted or measured, by kind of work: a collective ("all_reduce"),
   "products" or "attention". */
typedef struct syn_hw_range {
    double least, most; /* 0: not known */
} syn_hw_range;

typedef enum syn_hw_extent {
    SYN_HW_EXTENT_RANKS, /* of a collective, */
    SYN_HW_EXTENT_NODES, /* that these are on, */
    SYN_HW_EXTENT_BYTES, /* and its whole buffer */
    SYN_HW_EXTENT_ROWS,  /* of a product */
    SYN_HW_EXTENT_COLUMNS,
    SYN_HW_EXTENT_INNER,
    SYN_HW_EXTENT_QUERIES, /* of attention, a sequence */
    SYN_HW_EXTENT_KEYS,
    SYN_HW_EXTENTS
} syn_hw_extent;

#define SYN_HW_FITS 16
typedef struct syn_hw_fitted {
    struct syn_hw_fit {
        char what[32];
        syn_hw_range range[SYN_HW_EXTENTS];
    } at[SYN_HW_FITS];
    int32_t n; /* 0: not known */
} syn_hw_fitted;

/* What the software makes of a machine. */
typedef struct syn_stack {
    char name[64];
    double launch_ns;         /* per kernel: an op lasts at least launch_ns * its kernels */
    double kernel_ns;         /* per kernel, besides its work: it starts and drains */
    double matmul_efficiency; /* of the peak, when all multiprocessors multiply */
    double matmul_tail;       /* waves of tiles that a product takes besides its own */
    double matmul_half_flops; /* without multiprocessors: size that reaches half the efficiency */
    double attention_efficiency; /* of the peak in fused attention; 0: matmul_efficiency */
    double score_passes;         /* times that attention moves its scores through memory */
    int32_t score_heads;         /* sequences * heads that are no multiple: score_kernels more */
    double score_kernels;
    double memory_efficiency;
    double vector_efficiency;     /* of the bandwidth in all but products; 0: memory_efficiency */
    double collective_ns;         /* a collective of two ranks lasts at least this long, */
    double collective_rank_ns;    /* and so much longer for each further rank, at most a node's */
    double collective_kernel_ns;  /* besides the library's time, */
    double collective_hop_ns;     /* and so much longer for each doubling of the nodes */
    syn_hw_ops kernels, overhead; /* kernels: 1 if not listed; overhead: ns */
    struct syn_hw_phase {
        double launch, device; /* factors of what the host and the device take; 0: 1 */
    } phases[SYN_PHASE_COUNT];
    syn_hw_fitted fitted;
} syn_stack;

/* The ways of NCCL to move bytes: protocols along a ring or tree, and sums in the switch. */
typedef enum syn_protocol_id {
    SYN_PROTOCOL_LL,
    SYN_PROTOCOL_LL128,
    SYN_PROTOCOL_SIMPLE,
    SYN_PROTOCOL_SWITCH, /* all-reduces with at least three ranks of a node */
    SYN_PROTOCOL_COUNT
} syn_protocol_id;

typedef struct syn_protocol {
    double base_ns;
    double step_ns;     /* per step within a node */
    double hop_ns;      /* per doubling of the nodes, each way: trees */
    double post_ns;     /* per message that a rank posts to the network, at least a step of a ring
                           that spans nodes; 0: collectives without trees take hop_ns, one way */
    double ring_hop_ns; /* per further node of such a ring */
    double link_efficiency; /* of the link; 0: there is no such protocol */
    double bytes_per_ns;    /* at most; 0: as the link */
    double copy_efficiency; /* of the memory's bandwidth, at which an all-reduce copies the buffer,
                               others half of it; 0: never */
    double fill_ns; /* of its pipeline, at most: small buffers pass one stage after the other */
    double network_efficiency; /* of a node's link; 0: link_efficiency */
    double network_fill_ns;    /* across nodes, besides fill_ns */
} syn_protocol;

typedef struct syn_collectives {
    char name[64]; /* "": none, rings of alpha-beta links */
    syn_protocol protocols[SYN_PROTOCOL_COUNT];
    syn_hw_fitted fitted;
} syn_collectives;

/* Rates at sizes, in ascending order; between two the logarithms are interpolated, beyond the first
   and the last these two hold. */
#define SYN_HW_POINTS 8
typedef struct syn_hw_curve {
    struct syn_hw_point {
        double at, rate;
    } points[SYN_HW_POINTS];
    int32_t n; /* 0: nothing was measured */
} syn_hw_curve;

/* Those of ops, by their names. */
#define SYN_HW_CURVES 32
typedef struct syn_hw_rates {
    struct syn_hw_rate {
        char op[32];
        syn_hw_curve curve;
    } at[SYN_HW_CURVES];
    int32_t n;
} syn_hw_rates;

/* The kernels of a CPU as they were measured (syntorch calibrate --measure), for one rank of so
   many that share it. */
typedef struct syn_hw_kernels {
    int32_t ranks; /* 0: they were not measured, and efficiencies of a peak stand for them */
    double launch_ns;
    syn_hw_curve memory; /* bytes/ns by bytes, of ops that were not measured */
    /* In f32, and in f16 and bf16: products ("linear" stands for all) and fused attention, flops/ns
       by rows, or by the terms of a sum if these are fewer, or queries; others, bytes/ns by bytes
       moved. */
    struct syn_hw_width {
        double read_bytes_per_ns; /* at which products read weights, which no cache holds */
        syn_hw_rates flops_per_ns, bytes_per_ns;
    } widths[2];
} syn_hw_kernels;

/* A run that was measured, and how far off it is predicted when the constants are fitted to other
   runs. */
typedef struct syn_hw_row {
    bool training;
    int32_t layers, hidden, tp, dp, batch, tokens, new_tokens; /* batch: texts of a rank at a time;
                                                                  new_tokens 0: none, or training */
    double error;                                              /* predicted / measured - 1 */
} syn_hw_row;

/* What rows were left out together for `apart`: those of one model, degree of tensor parallelism,
   batch size, or length of texts. */
typedef enum syn_hw_split {
    SYN_HW_MODEL,
    SYN_HW_TP,
    SYN_HW_BATCH,
    SYN_HW_LENGTH,
    SYN_HW_SPLITS
} syn_hw_split;

/* How far predictions with these constants are off. */
#define SYN_HW_ROWS 320
typedef struct syn_hw_errors {
    char constants[64]; /* of a file that is read: which constants the rows belong to */
    syn_hw_row rows[SYN_HW_ROWS];
    int32_t n;    /* 0: nothing was measured */
    bool changed; /* the file has rows, but of other constants: they are dropped */
    struct syn_hw_apart {
        double error[SYN_HW_SPLITS]; /* root mean square; 0: not known */
    } apart[2];                      /* inference, training */
} syn_hw_errors;

typedef struct syn_hardware {
    char name[64];
    double peak_flops_per_ns[SYN_DTYPE_COUNT]; /* matrix products; 1 flop/ns = 1 GFLOP/s; 0: the
                                                  dtype is not supported */
    int32_t multiprocessors;                   /* that share a product's tiles; 0: see stack */
    double memory_bytes, memory_bytes_per_ns;
    int32_t node_ranks; /* ranks that `intra` joins; farther apart: `inter` */
    syn_link intra, inter;
    syn_collectives collectives;
    syn_stack stack;
    syn_hw_kernels alone, shared; /* with one rank, and with the most that were measured */
    int32_t sharing;              /* ranks that share them: syn_hardware_share; 0: one */
    syn_hw_errors errors;
} syn_hardware;

/* `name`: MACHINE or MACHINE+STACK. MACHINE is a preset (a100-80g, h100, h200, b200, v100-32g, cpu)
   or the path of a JSON file, STACK one of pytorch-eager, megatron, serving. Without STACK a file
   and the cpu have their own, other presets `stack` (NULL: pytorch-eager). The error lists
   the presets. */
syn_status syn_hardware_load(syn_hardware *hw, const char *name, const char *stack,
                             syn_error *err) SYN_MUST_USE;
syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) SYN_MUST_USE;
/* From now on times are those of one of so many ranks that share a machine's cores: where its
   kernels were measured; other machines give each rank its own device. */
void syn_hardware_share(syn_hardware *hw, int32_t ranks);
/* A file that syn_hardware_parse reads as *hw; failures are the sink's. Its errors are those of its
   constants: when one of them is changed in the file, the errors are not taken. */
void syn_hardware_write(const syn_hardware *hw, syn_sink *sink);
/* "a100-80g+serving", into `out`, which is returned. */
const char *syn_hardware_title(const syn_hardware *hw, char *out, size_t bytes);
/* Names of the presets, ended by NULL. */
const char *const *syn_hardware_presets(void);
const char *const *syn_stack_presets(void);

/* What limits an op. Launches: kernels that are too small for the time it takes to start them. */
typedef enum syn_limit {
    SYN_LIMIT_COMPUTE,
    SYN_LIMIT_MEMORY,
    SYN_LIMIT_LAUNCH,
    SYN_LIMIT_COMMUNICATION,
    SYN_LIMIT_COUNT
} syn_limit;

/* Predicted time of a node in ns; docs/hardware.md has the formulas. Views take 0. A product of
   unknown extents is taken for a cube. group: NULL for messages (peer and self_rank). */
double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node,
                               const syn_graph_group *group, int32_t self_rank);
/* The same; parts[limit] is what of it each limit is to blame for, and they add up to it. Work that
   takes longer to compute than to read and write is compute's, else memory's. */
double syn_hardware_predict_parts(const syn_hardware *hw, const syn_node *node,
                                  const syn_graph_group *group, int32_t self_rank,
                                  double parts[SYN_LIMIT_COUNT]);

/* One way in which a node is unlike all that the constants of its time were fitted to. */
typedef struct syn_hw_beyond {
    char what[32];        /* "all_reduce", "products"; of measured kernels an op */
    syn_hw_extent extent; /* SYN_HW_EXTENTS: nothing of that kind was fitted */
    double value;         /* of the node */
    syn_hw_range fitted;
} syn_hw_beyond;
/* Fills `out`; how many there are. None where nothing is known of what constants were fitted to. */
int syn_hardware_beyond(const syn_hardware *hw, const syn_node *node, const syn_graph_group *group,
                        syn_hw_beyond out[SYN_HW_EXTENTS]);
/* Widens the ranges, so that this node lies in them. */
void syn_hardware_fitted_to(syn_hw_fitted *fitted, const syn_hardware *hw, const syn_node *node,
                            const syn_graph_group *group);

/* Facts of a graph: of which machine and stack its times are. If these are a file's and not what
   the presets of their names say, also `hardware_constants`, a hash, and `node_ranks`. */
syn_status syn_graph_set_hardware(syn_graph *graph, const syn_hardware *hw,
                                  syn_error *err) SYN_MUST_USE;

/* The graph as it would run on *hw, which is copied: nodes have predicted times, and no others. On
   success `graph` belongs to *out. SYN_E_UNSUPPORTED if nodes say neither what they compute and
   move nor of which shapes: .et files, recordings of other programs. */
syn_status syn_graph_predict(syn_graph **out, syn_graph *graph, const syn_hardware *hw,
                             syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
