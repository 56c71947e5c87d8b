/* Predicted times of ops. A machine (peaks, memory, links), the software stack on it (launches,
   fusion, efficiencies) and the collective library are separate parts. They come from one JSON file
   or from presets. docs/hardware.md describes the model, docs/accuracy.md its accuracy. */
#ifndef SYNTORCH_HARDWARE_H
#define SYNTORCH_HARDWARE_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

typedef struct syn_link {
    double alpha_ns; /* per step of a ring, or per message; unused with a collective library */
    /* Bandwidth of one rank in each direction; 1 byte/ns = 1 GB/s. With a collective library,
       `inter` is the bandwidth of a whole node. */
    double bytes_per_ns;
} syn_link;

/* Numbers by op name. */
#define SYN_HW_OPS 64
typedef struct syn_hw_ops {
    struct syn_hw_op {
        char op[32];
        double value;
    } at[SYN_HW_OPS];
    int32_t n;
} syn_hw_ops;

/* The range of sizes that constants were fitted to or measured on. One range per extent and kind of
   work: a collective ("all_reduce"), "products" or "attention". */
typedef struct syn_hw_range {
    double least, most; /* both 0: unknown */
} syn_hw_range;

typedef enum syn_hw_extent {
    SYN_HW_EXTENT_RANKS, /* collectives: ranks of the group */
    SYN_HW_EXTENT_NODES, /* collectives: nodes that the ranks are on */
    SYN_HW_EXTENT_BYTES, /* collectives: bytes of the whole buffer */
    SYN_HW_EXTENT_ROWS,  /* products */
    SYN_HW_EXTENT_COLUMNS,
    SYN_HW_EXTENT_INNER,
    SYN_HW_EXTENT_QUERIES, /* attention, per sequence */
    SYN_HW_EXTENT_KEYS,
    SYN_HW_EXTENTS
} syn_hw_extent;

#define SYN_HW_FITS 16
typedef struct syn_hw_fit_ranges {
    struct syn_hw_fit_range {
        char what[32];
        syn_hw_range range[SYN_HW_EXTENTS];
    } at[SYN_HW_FITS];
    int32_t n; /* 0: unknown */
} syn_hw_fit_ranges;

/* The software stack: how programs use the machine. */
typedef struct syn_stack {
    char name[64];
    double launch_ns; /* host time per kernel: an op takes at least launch_ns * its number of
                         kernels */
    double kernel_ns; /* device time per kernel in addition to its work: start and drain */
    double matmul_efficiency;    /* fraction of the peak, when all multiprocessors multiply */
    double matmul_tail;          /* waves of tiles that a product takes in addition to its own */
    double matmul_half_flops;    /* machines without multiprocessors: flops of a product at half the
                                    efficiency */
    double attention_efficiency; /* fraction of the peak in fused attention; 0: matmul_efficiency */
    double score_passes;         /* how often attention moves its scores through memory */
    /* If sequences * heads is not a multiple of score_heads, attention takes score_kernels more
       kernels. 0: it never does. */
    int32_t score_heads;
    double score_kernels;
    double memory_efficiency;  /* fraction of the memory bandwidth */
    double vector_efficiency;  /* the same for ops other than products and fused attention; 0:
                                  memory_efficiency */
    double collective_ns;      /* minimum time of a collective of two ranks */
    double collective_rank_ns; /* added to the minimum per further rank, for at most the ranks of a
                                  node */
    double collective_kernel_ns;  /* added to the collective library's time */
    double collective_hop_ns;     /* added to the library's time per doubling of the nodes */
    syn_hw_ops kernels, overhead; /* kernels per op, 1 if not listed; extra time per op in ns */
    struct syn_hw_phase {
        double launch, device; /* factors for the time on the host and on the device; 0: 1 */
    } phases[SYN_PHASE_COUNT];
    syn_hw_fit_ranges fitted;
} syn_stack;

/* NCCL's ways to move bytes: protocols along a ring or tree, and reduction in the switch. */
typedef enum syn_protocol_id {
    SYN_PROTOCOL_LL,
    SYN_PROTOCOL_LL128,
    SYN_PROTOCOL_SIMPLE,
    SYN_PROTOCOL_SWITCH, /* all-reduces with at least three ranks on a node */
    SYN_PROTOCOL_COUNT
} syn_protocol_id;

typedef struct syn_protocol {
    double base_ns; /* latency of any collective */
    double step_ns; /* latency per step within a node */
    double hop_ns;  /* trees: latency per doubling of the nodes, each way */
    /* Time per message that a rank posts to the network; a step of a ring that spans nodes takes at
       least this long. 0: rings and direct sends across nodes are predicted like one pass of a
       tree, with hop_ns. */
    double post_ns;
    double ring_hop_ns;     /* rings: latency per further node */
    double link_efficiency; /* fraction of the link's bandwidth; 0: the library does not have this
                               protocol */
    double bytes_per_ns;    /* maximum bandwidth; 0: the link's */
    /* Fraction of the memory bandwidth at which an all-reduce copies its buffer; other collectives
       take 0.6 of that time. 0: nothing is copied. */
    double copy_efficiency;
    double fill_ns; /* time to fill the pipeline, at most: small buffers pass its stages one after
                       the other */
    double network_efficiency; /* fraction of a node's network bandwidth; 0: link_efficiency */
    double network_fill_ns;    /* added to fill_ns across nodes */
} syn_protocol;

typedef struct syn_collectives {
    char name[64]; /* "": no library; rings of alpha-beta links */
    syn_protocol protocols[SYN_PROTOCOL_COUNT];
    syn_hw_fit_ranges fitted;
} syn_collectives;

/* Rates at ascending sizes. Between two points the rate is interpolated in log-log; outside, the
   rate of the nearest point is used. */
#define SYN_HW_POINTS 8
typedef struct syn_hw_curve {
    struct syn_hw_point {
        double at, rate;
    } points[SYN_HW_POINTS];
    int32_t n; /* 0: not measured */
} syn_hw_curve;

/* Curves by op name. */
#define SYN_HW_CURVES 32
typedef struct syn_hw_rates {
    struct syn_hw_rate {
        char op[32];
        syn_hw_curve curve;
    } at[SYN_HW_CURVES];
    int32_t n;
} syn_hw_rates;

/* Measured kernels of a CPU (syntorch calibrate --measure), for one of `ranks` ranks that share
   it. */
typedef struct syn_hw_kernels {
    int32_t ranks; /* 0: not measured; efficiencies of the peak are used instead */
    double launch_ns;
    syn_hw_curve memory; /* bytes/ns by bytes moved, for ops that were not measured */
    /* Rates in f32 ([0]), and in f16 and bf16 ([1]). flops_per_ns: matrix products ("linear" for
       all), by rows or by inner size if that is smaller; fused attention, by queries. bytes_per_ns:
       other ops, by bytes moved. */
    struct syn_hw_width {
        double read_bytes_per_ns; /* bandwidth at which products read weights, which do not fit in
                                     any cache */
        syn_hw_rates flops_per_ns, bytes_per_ns;
    } widths[2];
} syn_hw_kernels;

/* A measured run, and the error of its prediction when the constants are fitted to other runs. */
typedef struct syn_hw_row {
    bool training;
    /* batch: sequences per rank at a time. new_tokens: 0 for prefill only, and for training. */
    int32_t layers, hidden, tp, dp, batch, tokens, new_tokens;
    double error; /* predicted / measured - 1 */
} syn_hw_row;

/* How rows were split for `apart`: the left-out rows share a model, a tensor-parallel degree, a
   batch size or a sequence length. */
typedef enum syn_hw_holdout {
    SYN_HW_MODEL,
    SYN_HW_TP,
    SYN_HW_BATCH,
    SYN_HW_LENGTH,
    SYN_HW_SPLITS
} syn_hw_holdout;

/* The prediction error with these constants. */
#define SYN_HW_ROWS 320
typedef struct syn_hw_errors {
    char constants[64]; /* hash of the constants that the rows of a file belong to */
    syn_hw_row rows[SYN_HW_ROWS];
    int32_t n;    /* 0: nothing was measured */
    bool changed; /* the file's rows belonged to other constants and were dropped */
    struct syn_hw_holdout_error {
        double error[SYN_HW_SPLITS]; /* root mean square; 0: unknown */
    } apart[2];                      /* [0]: inference, [1]: training */
} syn_hw_errors;

typedef struct syn_hardware {
    char name[64];
    /* Matrix products; 1 flop/ns = 1 GFLOP/s. 0: the dtype is not supported. */
    double peak_flops_per_ns[SYN_DTYPE_COUNT];
    int32_t multiprocessors; /* which share the tiles of a product; 0: see syn_stack */
    double memory_bytes, memory_bytes_per_ns;
    int32_t node_ranks; /* ranks per node, joined by `intra`; nodes are joined by `inter` */
    syn_link intra, inter;
    syn_collectives collectives;
    syn_stack stack;
    /* Measured with one rank, and with the most ranks that were measured. */
    syn_hw_kernels alone, shared;
    int32_t sharing; /* ranks that share the machine's cores (syn_hardware_set_sharing); 0: one */
    syn_hw_errors errors;
} syn_hardware;

/* `name`: MACHINE or MACHINE+STACK. MACHINE is a preset (a100-80g, h100, h200, b200, v100-32g, cpu)
   or the path of a JSON file; STACK is one of pytorch-eager, megatron, serving. Without STACK, a
   file and the cpu preset use their own stack; the other presets use `stack` (NULL: pytorch-eager).
   The error lists the presets. */
syn_status syn_hardware_load(syn_hardware *hw, const char *name, const char *stack,
                             syn_error *err) SYN_MUST_USE;
/* Reads a hardware file of `bytes` bytes at `json`. `name`, such as a path, begins the error
   sentences. */
syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) SYN_MUST_USE;
/* From now on, predict the times of one of `ranks` ranks that share the machine's cores. Only
   matters if kernels were measured; on other machines each rank has its own device. */
void syn_hardware_set_sharing(syn_hardware *hw, int32_t ranks);
/* Writes a file that syn_hardware_parse reads as *hw; failures are the sink's. The file's errors
   belong to its constants: if a constant is edited, the errors are ignored. */
void syn_hardware_write(const syn_hardware *hw, syn_sink *sink);
/* Writes "a100-80g+serving" to `out`, which is returned. */
const char *syn_hardware_title(const syn_hardware *hw, char *out, size_t bytes);
/* Names of the presets; NULL ends the list. */
const char *const *syn_hardware_presets(void);
const char *const *syn_stack_presets(void);

/* What limits an op. LAUNCH: its kernels are too small for the time it takes to start them. */
typedef enum syn_limit {
    SYN_LIMIT_COMPUTE,
    SYN_LIMIT_MEMORY,
    SYN_LIMIT_LAUNCH,
    SYN_LIMIT_COMMUNICATION,
    SYN_LIMIT_COUNT
} syn_limit;

/* The predicted time of a node in ns; docs/hardware.md has the formulas. Views take 0. A product
   with unknown extents counts as a cube. group: the node's; NULL for messages, which use peer and
   self_rank. */
double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node,
                               const syn_graph_group *group, int32_t self_rank);
/* The same, and splits the time by limit; the parts add up to it. Work that takes longer to compute
   than to read and write counts as compute, other work as memory. */
double syn_hardware_predict_parts(const syn_hardware *hw, const syn_node *node,
                                  const syn_graph_group *group, int32_t self_rank,
                                  double parts[SYN_LIMIT_COUNT]);

/* An extent of a node that is outside the range that the constants of its time were fitted to. */
typedef struct syn_hw_extrapolation {
    char what[32];        /* "all_reduce", "products"; for measured kernels the op */
    syn_hw_extent extent; /* SYN_HW_EXTENTS: nothing of this kind was fitted */
    double value;         /* the node's value */
    syn_hw_range fitted;
} syn_hw_extrapolation;
/* Fills in `out` and returns the number of entries. 0 also if it is not known what the constants
   were fitted to. */
int syn_hardware_extrapolated(const syn_hardware *hw, const syn_node *node,
                              const syn_graph_group *group,
                              syn_hw_extrapolation out[SYN_HW_EXTENTS]);
/* Widens the ranges to include this node. */
void syn_hardware_fitted_to(syn_hw_fit_ranges *fitted, const syn_hardware *hw, const syn_node *node,
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
