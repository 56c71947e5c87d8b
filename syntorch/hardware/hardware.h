/* Predicts the times of ops. A syn_hardware has three parts: a machine (peak rates, memory, links),
   the software stack on it (launches, fusion, efficiencies), and a collective library. The parts
   come from a JSON file or from presets. docs/hardware.md describes the model and docs/accuracy.md
   its accuracy. */
#ifndef SYNTORCH_HARDWARE_H
#define SYNTORCH_HARDWARE_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* How links join the ranks of a node, or the nodes. Predicted times do not depend on it; the
   network that `syntorch astra-sim` describes does. */
typedef enum syn_topology {
    SYN_TOPOLOGY_SWITCH,          /* through a switch, or a fat tree of switches */
    SYN_TOPOLOGY_FULLY_CONNECTED, /* each with each directly */
    SYN_TOPOLOGY_RING             /* each with two neighbours */
} syn_topology;

typedef struct syn_link {
    double alpha_ns; /* latency per step of a ring, or per message; predictions with a collective
                        library do not use it */
    /* Bandwidth of one rank in each direction; 1 byte/ns = 1 GB/s. With a collective library,
       `inter` is the bandwidth of a whole node. */
    double bytes_per_ns;
    syn_topology topology;
} syn_link;

/* A list of numbers by op name. */
#define SYN_HW_OPS 64
typedef struct syn_hw_ops {
    struct syn_hw_op {
        char op[32];
        double value;
    } at[SYN_HW_OPS];
    int32_t n;
} syn_hw_ops;

/* The range of sizes on which constants were fitted or measured. There is a range for each extent
   of each kind of work. A kind of work is a collective ("all_reduce"), "products" or
   "attention". */
typedef struct syn_hw_range {
    double least, most; /* both 0: unknown */
} syn_hw_range;

typedef enum syn_hw_extent {
    SYN_HW_EXTENT_RANKS, /* collectives: ranks of the group */
    SYN_HW_EXTENT_NODES, /* collectives: nodes on which the ranks are */
    SYN_HW_EXTENT_BYTES, /* collectives: bytes of the whole buffer */
    SYN_HW_EXTENT_ROWS,  /* products */
    SYN_HW_EXTENT_COLUMNS,
    SYN_HW_EXTENT_INNER,
    SYN_HW_EXTENT_QUERIES, /* attention: per sequence */
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

/* The software stack, which determines how programs use the machine. */
typedef struct syn_stack {
    char name[64];
    double launch_ns; /* host time per kernel: an op takes at least launch_ns * its number of
                         kernels */
    double kernel_ns; /* device time per kernel in addition to its work: start and drain */
    double matmul_efficiency;    /* fraction of the peak while all multiprocessors are busy */
    double matmul_tail;          /* waves of tiles that are added to those of each product */
    double matmul_half_flops;    /* machines without multiprocessors: a product with this many flops
                                    reaches half of matmul_efficiency */
    double attention_efficiency; /* fraction of the peak in fused attention; 0: matmul_efficiency */
    double score_passes;         /* how often attention reads or writes its scores in memory */
    /* If sequences * heads is not a multiple of score_heads, attention has score_kernels additional
       kernels. score_heads 0: there are never additional kernels. */
    int32_t score_heads;
    double score_kernels;
    /* 1: nothing overlaps. A rank computes nothing while it takes part in a collective or sends,
       and it sums its gradients after the backward pass. 0: only data dependencies and streams
       delay communication. */
    int32_t blocking;
    /* 1: the gathers of tokens, weights and experts before a layer's experts are one launch. */
    int32_t joined_gathers;
    /* A kernel that two times limit, such as those of a product's arithmetic and of its memory
       traffic, takes the longer one and this fraction of the shorter one. */
    double exposed;
    /* Attention with a paged KV cache: time of a multiprocessor per tile of 64 queries in addition
       to that for the tile's keys, and time of a tile without queries. */
    double tile_ns, empty_tile_ns;
    /* Serving: time of a step of the engine in addition to that of its ops, and the part that each
       of the step's sequences adds, for sampling. */
    double step_ns, sequence_ns;
    double memory_efficiency;  /* fraction of the memory bandwidth */
    double vector_efficiency;  /* the same fraction for ops other than products and fused attention;
                                  0: memory_efficiency */
    double collective_ns;      /* minimum time of a collective of two ranks */
    double collective_rank_ns; /* added to this minimum for each further rank, up to the number of
                                  ranks of a node, or up to 8 */
    double collective_kernel_ns; /* added to the collective library's time */
    double collective_hop_ns;    /* added to the library's time for each doubling of the number of
                                    nodes */
    double tp_overlap; /* fraction of the time of a tensor-parallel collective that products of its
                          layer hide, because they run in pieces beside it */
    /* kernels: kernels per op. overhead: extra time per op in ns. traffic: how many times the bytes
       that our op moves the stack's kernels move. An op that is not listed has 1, 0 and 1. */
    syn_hw_ops kernels, overhead, traffic;
    struct syn_hw_phase {
        double launch, device; /* factors for the time on the host and on the device; 0 means 1 */
    } phases[SYN_PHASE_COUNT];
    syn_hw_fit_ranges fitted;
} syn_stack;

/* NCCL's protocols. The first three move bytes along a ring or tree; the last uses switches that
   reduce. */
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
    double hop_ns;  /* trees: latency in each direction for each doubling of the number of nodes */
    /* Time per message that a rank posts to the network. In a ring that spans nodes, each step
       takes at least this long. 0: rings and direct sends across nodes are predicted like one pass
       of a tree, with hop_ns. */
    double post_ns;
    double ring_hop_ns;     /* rings: latency for each node after the first */
    double link_efficiency; /* fraction of the link's bandwidth; 0: the library does not have this
                               protocol */
    double bytes_per_ns;    /* maximum bandwidth; 0: the link's bandwidth */
    /* Fraction of the memory bandwidth at which an all-reduce copies its buffer. For other
       collectives the copies take 0.6 of this time. 0: nothing is copied. */
    double copy_efficiency;
    double fill_ns; /* maximum time to fill the pipeline of stages; small buffers take less */
    double network_efficiency; /* fraction of a node's network bandwidth; 0: link_efficiency */
    double network_fill_ns;    /* added to fill_ns if the ranks are on several nodes */
    /* Replace the members of the same names in collectives of one pass, which have neither a second
       pass nor a tree: all-gather, reduce-scatter, all-to-all, gather and scatter. base_ns 0: they
       replace nothing. */
    struct syn_one_pass {
        double base_ns, step_ns, link_efficiency, fill_ns;
    } one_pass;
} syn_protocol;

typedef struct syn_collectives {
    char name[64]; /* "": no library; collectives run on rings of alpha-beta links */
    syn_protocol protocols[SYN_PROTOCOL_COUNT];
    syn_hw_fit_ranges fitted;
} syn_collectives;

/* Rates at ascending sizes. Between two points, the logarithm of the rate is interpolated over the
   logarithm of the size. Outside the points, the rate of the nearest point is used. */
#define SYN_HW_POINTS 12
typedef struct syn_hw_curve {
    struct syn_hw_point {
        double at, rate;
    } points[SYN_HW_POINTS];
    int32_t n; /* 0: not measured */
} syn_hw_curve;

/* A list of curves by op name. */
#define SYN_HW_CURVES 32
typedef struct syn_hw_rates {
    struct syn_hw_rate {
        char op[32];
        syn_hw_curve curve;
    } at[SYN_HW_CURVES];
    int32_t n;
} syn_hw_rates;

/* Kernels of a CPU, measured by one of `ranks` ranks while all of them run (syntorch calibrate
   --measure). */
typedef struct syn_hw_kernels {
    int32_t ranks; /* 0: not measured; efficiencies of the peak are used instead */
    double launch_ns;
    syn_hw_curve memory; /* bytes/ns by bytes moved, for ops without a curve of their own */
    /* Rates in f32 (widths[0]), and in f16 and bf16 (widths[1]). flops_per_ns has a curve for all
       matrix products, under the name "linear": its size is the number of rows, or the inner size
       if that is smaller. Its curves for fused attention are by number of queries. bytes_per_ns has
       the curves of other ops, by bytes moved. */
    struct syn_hw_width {
        double read_bytes_per_ns; /* bandwidth at which products read weights that do not fit in any
                                     cache */
        syn_hw_rates flops_per_ns, bytes_per_ns;
    } widths[2];
} syn_hw_kernels;

/* A measured run, and the prediction error for it with constants that were fitted to other runs. */
typedef struct syn_hw_row {
    bool training;
    /* batch: sequences that a rank processes at the same time. new_tokens: generated tokens; 0 if
       the run is only a prefill, or training. */
    int32_t layers, hidden, tp, dp, pp, batch, tokens, new_tokens;
    double error; /* predicted / measured - 1 */
} syn_hw_row;

/* How the rows were split for `holdout` below: constants were fitted without the rows of one model,
   tensor-parallel size, batch size or sequence length, and then predicted these rows. */
typedef enum syn_hw_holdout {
    SYN_HW_MODEL,
    SYN_HW_TP,
    SYN_HW_BATCH,
    SYN_HW_LENGTH,
    SYN_HW_SPLITS
} syn_hw_holdout;

/* The prediction errors of the constants. */
#define SYN_HW_ROWS 512
typedef struct syn_hw_errors {
    char constants[64]; /* hash of the constants with which the errors were computed */
    syn_hw_row rows[SYN_HW_ROWS];
    int32_t n;    /* 0: nothing was measured */
    bool changed; /* the file's rows were dropped, because they belong to other constants */
    struct syn_hw_holdout_error {
        double error[SYN_HW_SPLITS]; /* root mean square; 0: unknown */
    } holdout[2];                    /* [0]: inference, [1]: training */
} syn_hw_errors;

typedef struct syn_hardware {
    char name[64];
    /* Matrix products; 1 flop/ns = 1 GFLOP/s. 0: the dtype is not supported. */
    double peak_flops_per_ns[SYN_DTYPE_COUNT];
    double fp8_flops_per_ns; /* matrix products in FP8; 0: not supported */
    int32_t multiprocessors; /* they share the tiles of a product; 0: none, see syn_stack */
    double memory_bytes, memory_bytes_per_ns;
    int32_t node_ranks;    /* ranks per node; `intra` joins them, and `inter` joins nodes */
    syn_link intra, inter; /* inter.bytes_per_ns 0: the machine is one node, and intra joins all
                              ranks (syn_hardware_between) */
    syn_collectives collectives;
    syn_stack stack;
    /* alone: kernels measured with one rank. shared: kernels measured with the largest number of
       ranks. */
    syn_hw_kernels alone, shared;
    bool fp8;        /* the products with weights of layers are in FP8 (syn_hardware_use_fp8) */
    int32_t sharing; /* number of ranks that share the machine's cores (syn_hardware_set_sharing);
                        0: one */
    syn_hw_errors errors;
} syn_hardware;

/* Loads a machine and a stack. `name` is MACHINE or MACHINE+STACK. MACHINE is a preset
   (syn_hardware_presets) or the path of a JSON file. STACK is one of syn_stack_presets. Without
   STACK, a file and the cpu preset use their own stack, and the other presets use `stack` (NULL:
   pytorch-eager). If the name is unknown, the error lists the presets. */
syn_status syn_hardware_load(syn_hardware *hw, const char *name, const char *stack,
                             syn_error *err) SYN_MUST_USE;
/* Reads a hardware file of `bytes` bytes at `json`. `name`, such as a path, begins the error
   messages. */
syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) SYN_MUST_USE;
/* Sets the number of ranks that share the machine's cores. From now on, times are predicted for one
   of them. Has an effect only if kernels were measured; on other machines each rank has its own
   device. */
void syn_hardware_set_sharing(syn_hardware *hw, int32_t ranks);
/* The link between nodes: `inter`, or `intra` if there is no network between nodes. */
static inline const syn_link *syn_hardware_between(const syn_hardware *hw) {
    return hw->inter.bytes_per_ns > 0 ? &hw->inter : &hw->intra;
}
/* Fails with SYN_E_INVALID if the ranks need several nodes, but the machine has no network between
   nodes. */
syn_status syn_hardware_check_nodes(const syn_hardware *hw, int32_t ranks,
                                    syn_error *err) SYN_MUST_USE;
/* From now on, predicts the products with weights of layers in FP8, as Transformer Engine and
   torchao compute them: their inputs are converted to FP8 first, and their outputs stay in the
   dtype of the run. Products of the head and of attention are predicted as before. Fails with
   SYN_E_UNSUPPORTED if the machine has no rate for FP8. */
syn_status syn_hardware_use_fp8(syn_hardware *hw, syn_error *err) SYN_MUST_USE;
/* Writes *hw as a file that syn_hardware_parse can read. The sink stores failures. The prediction
   errors in the file belong to its constants: if somebody edits a constant, the errors are
   ignored. */
void syn_hardware_write(const syn_hardware *hw, syn_sink *sink);
/* Writes the name of machine and stack ("a100-80g+serving") to `out` and returns `out`. */
const char *syn_hardware_title(const syn_hardware *hw, char *out, size_t bytes);
/* The names of the presets. NULL ends the list. */
const char *const *syn_hardware_presets(void);
const char *const *syn_stack_presets(void);

/* What limits the time of an op. LAUNCH: the time to start its kernels, which exceeds the time to
   run them. */
typedef enum syn_limit {
    SYN_LIMIT_COMPUTE,
    SYN_LIMIT_MEMORY,
    SYN_LIMIT_LAUNCH,
    SYN_LIMIT_COMMUNICATION,
    SYN_LIMIT_COUNT
} syn_limit;

/* The predicted time of a node in ns, 0 for views. docs/hardware.md has the formulas. A product
   with unknown extents is predicted as a product of square matrices. group: the node's group; NULL
   for messages, which are predicted between node->peer and self_rank. */
double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node,
                               const syn_graph_group *group, int32_t self_rank);
/* The same, but also divides the time into parts by limit. The parts add up to the time. The time
   of work counts as COMPUTE if its flops take longer than its reads and writes, otherwise as
   MEMORY. */
double syn_hardware_predict_parts(const syn_hardware *hw, const syn_node *node,
                                  const syn_graph_group *group, int32_t self_rank,
                                  double parts[SYN_LIMIT_COUNT]);

/* The peak rate of a product or of attention in flops/ns: that of its dtype, of FP8 for products in
   FP8, or of f32 if the machine has no rate for the dtype. */
double syn_hardware_peak(const syn_hardware *hw, const syn_node *node);

/* An extent of a node for which the prediction is extrapolated: it is outside the range to which
   the constants were fitted. */
typedef struct syn_hw_extrapolation {
    char what[32];        /* kind of work: "all_reduce", "products"; for measured kernels the op */
    syn_hw_extent extent; /* SYN_HW_EXTENTS: no constants were fitted to this kind of work */
    double value;         /* the node's value of this extent */
    syn_hw_range fitted;
} syn_hw_extrapolation;
/* Fills in `out` and returns the number of entries: 0 if no extent is extrapolated, or if the
   ranges to which the constants were fitted are unknown. */
int syn_hardware_extrapolated(const syn_hardware *hw, const syn_node *node,
                              const syn_graph_group *group,
                              syn_hw_extrapolation out[SYN_HW_EXTENTS]);
/* Whether the constants of the stack were fitted to an engine that serves requests, on this
   machine: the stack has step_ns, and the range of its attention is known. */
bool syn_hardware_serving_calibrated(const syn_hardware *hw);
/* Widens the ranges so that they include the extents of this node. */
void syn_hardware_fitted_to(syn_hw_fit_ranges *fitted, const syn_hardware *hw, const syn_node *node,
                            const syn_graph_group *group);

/* Adds the machine and stack of predicted times to a graph's metadata. If the constants come from a
   file and differ from the presets with these names, also adds their hash (`hardware_constants`)
   and `node_ranks`. */
syn_status syn_graph_set_hardware(syn_graph *graph, const syn_hardware *hw,
                                  syn_error *err) SYN_MUST_USE;

/* Creates a graph with the times that `graph` would have on *hw, which is copied. Its nodes have
   predicted times and no measured times. On success *out owns `graph`. Fails with SYN_E_UNSUPPORTED
   if the nodes have neither costs nor tensors with shapes, as in .et files and traces of other
   programs. */
syn_status syn_graph_predict(syn_graph **out, syn_graph *graph, const syn_hardware *hw,
                             syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
