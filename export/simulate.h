/* Simulates a set of Chakra execution traces, from any program: when each rank computes,
   communicates and waits, and whether the set runs to its end.

   Times come from the traces, or from a description of the machine in ASTRA-sim's files. With the
   times of the traces, a rank computes one node at a time on each stream, and its collectives and
   messages run beside computation. With ASTRA-sim's files, scheduling follows ASTRA-sim, too: a
   rank computes one node at a time, and runs one collective or send at a time. Of the ready nodes,
   the one with the smallest id starts first.

   A collective starts when all ranks of its group have arrived, and a receive ends when its message
   has arrived. Ranks that do the same work at the same times are simulated once. */
#ifndef EXPORT_SIMULATE_H
#define EXPORT_SIMULATE_H

#include "syntorch/base/intern.h"
#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"

SYN_API_BEGIN

/* Makes the computation of ranks first to last (inclusive) take `factor` times as long. */
typedef struct syn_slow_ranks {
    int32_t first, last;
    double factor;
} syn_slow_ranks;

#define SYN_MAX_SCALED 64
/* Makes nodes take `factor` times as long; 0: no time. pattern: a shell pattern (fnmatch) for the
   names of nodes, or the name of a collective (ALL_REDUCE), or COMPUTE, COLLECTIVES or MESSAGES. */
typedef struct syn_scaled_nodes {
    const char *pattern;
    double factor;
} syn_scaled_nodes;

#define SYN_MAX_FUSED 64
/* Lets consecutive kernels run as one. patterns: shell patterns (fnmatch) for the names of nodes,
   or COMPUTE. */
typedef struct syn_fused_nodes {
    const char *const *patterns;
    size_t n_patterns;
} syn_fused_nodes;

/* Algorithms of collectives. RING, DIRECT (each rank sends to each other one at the same time) and
   HALVING_DOUBLING are those of ASTRA-sim; DOUBLING and TREE those of syn_expansion. DOUBLING and
   HALVING_DOUBLING differ in all-reduces, where DOUBLING exchanges all data in each round. Groups
   whose size is no power of two use rings instead of both. */
typedef enum syn_algorithm {
    SYN_ALGORITHM_RING,
    SYN_ALGORITHM_DIRECT,
    SYN_ALGORITHM_HALVING_DOUBLING,
    SYN_ALGORITHM_DOUBLING,
    SYN_ALGORITHM_TREE
} syn_algorithm;
/* "ring", "direct", "halvingDoubling", "doubling" or "tree". Returns false for other names. */
bool syn_algorithm_named(const char *name, syn_algorithm *out);

typedef struct syn_collective_algorithm {
    const char *kind; /* "ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER" or "ALL_TO_ALL" */
    syn_algorithm algorithm;
} syn_collective_algorithm;

typedef struct syn_simulate_options {
    const char *groups;  /* path of the group file; NULL: <prefix>.comm_group.json if it exists */
    const char *network; /* path of ASTRA-sim's network file; NULL: times of the traces */
    const char *system;  /* path of ASTRA-sim's system file; given if `network` is */
    /* With `network`: algorithms of collectives instead of rings. Such a collective starts when the
       last rank arrives, ends on all ranks at the same time, and is flat: on several dimensions, a
       round takes as long as its slowest message. */
    const syn_collective_algorithm *algorithms;
    size_t n_algorithms;
    /* Another machine: the times of the traces were predicted for, or measured on, *from, and nodes
       get the times that they have on *to. Communication is predicted from its kind, bytes and
       ranks. The time of a compute node is predicted, too, if the prediction for *from reproduces
       its time in the trace; otherwise it is scaled by the ratio of the predictions for *to and
       *from. CPU ops, memory nodes and measured nodes without flops and bytes keep their times.
       Both NULL: no change. Not with network. */
    const syn_hardware *from, *to;
    syn_dtype dtype; /* of matrix products, for `to`; SYN_DTYPE_COUNT: that of the metadata, or else
                        bf16 */
    const syn_slow_ranks *slow; /* if ranges overlap, factors are multiplied */
    size_t n_slow;
    const syn_scaled_nodes *scaled; /* factors of all patterns that match are multiplied */
    size_t n_scaled;                /* at most SYN_MAX_SCALED */
    /* Consecutive compute nodes of a stream, in the order of their ids, run as one kernel if each
       matches one of the patterns of the same element of `fused` and depends on the one before it.
       The first node takes the time of the slowest, also after `to` and `scaled`, and the others
       take no time. A node that must wait for another stream, such as for a collective, is not
       fused with the nodes before it. */
    const syn_fused_nodes *fused;
    size_t n_fused;       /* at most SYN_MAX_FUSED */
    bool traffic;         /* also find out how many bytes ranks send to each other */
    const char *timeline; /* path of a timeline in Chrome's trace format to write (Perfetto shows
                             it); ranks that do the same share a process. NULL: none */
    bool critical_path;   /* also find the critical path */
    int threads;          /* that read the files; 0: one */
    uint64_t max_unpacked_bytes; /* limit of decompressed gzip input; 0: 200 times the compressed
                                    size, at most 16 GiB */
} syn_simulate_options;

/* What a rank did. Times are in ns; compute_ns + exposed_ns + wait_ns = end_ns of the whole run. */
typedef struct syn_simulated_rank {
    int32_t rank;
    int32_t same_as;     /* the first rank that does the same at the same times */
    uint32_t row;        /* index into `rows`, the same for both */
    uint64_t end_ns;     /* end of its last node */
    uint64_t compute_ns; /* time with computation */
    uint64_t exposed_ns; /* time with communication and without computation */
    uint64_t wait_ns;    /* the rest: waiting for other ranks, or finished */
} syn_simulated_rank;

/* What a rank does over time: the shares of time with computation, and with exposed communication,
   in each part of the run. */
#define SYN_SIMULATED_PARTS 1024
typedef struct syn_simulated_row {
    float compute[SYN_SIMULATED_PARTS], exposed[SYN_SIMULATED_PARTS];
} syn_simulated_row;

/* The collectives of a group, or all messages. */
typedef struct syn_simulated_group {
    char *name; /* pg_name; syn_simulation.world: all ranks; NULL: messages */
    uint32_t n_ranks;
    uint64_t n_calls; /* collectives of each rank; messages of all ranks */
    uint64_t bytes;   /* sum of comm_size: of each rank; of all messages */
    uint64_t ns;      /* time of each rank's collectives, without waiting; of all messages */
} syn_simulated_group;

/* What a rank sends to another one: messages, and its part of collectives. Collectives are counted
   as rings in the order of the group file (n ranks, each with S bytes: all-reduce 2 (n - 1) S / n,
   reduce-scatter (n - 1) S / n, all-gather (n - 1) S to the next rank; all-to-all S / n to each
   rank; all others S to the next rank, except from the last). */
typedef struct syn_simulated_pair {
    int32_t from, to;
    double bytes;
} syn_simulated_pair;

/* A node of the critical path, which starts when the previous one ends. The first one starts at 0,
   and the last one ends at the end of the run. A collective starts when the last rank arrives; with
   ASTRA-sim's files, when the rank arrives whose chunk reaches this rank last. A
   receive that waits for its send follows the send, or replaces it if it takes longer. */
typedef struct syn_simulated_step {
    int32_t rank;
    uint32_t name;    /* entry of path_texts */
    uint32_t group;   /* of a collective: entry of path_texts; UINT32_MAX: none */
    const char *kind; /* "COMPUTE"; "OTHER": CPU ops, memory and metadata; "SEND"; "RECV"; or the
                         collective, such as "ALL_REDUCE" */
    uint64_t id, start_ns, ns;
} syn_simulated_step;

/* All nodes of the critical path with the same kind and group, or with the same name. */
typedef struct syn_simulated_sum {
    const char *kind; /* as above; NULL in path_names */
    uint32_t text;    /* entry of path_texts: the group (UINT32_MAX: none), or the name with * for
                         the number of a layer, such as "h.*.attn/qkv" */
    uint64_t n_nodes, ns;
} syn_simulated_sum;

/* The machine for which a set's times were predicted, as in the metadata of the files. */
typedef struct syn_set_hardware {
    char machine[64], stack[64]; /* "": unknown */
    bool own_constants;          /* from a hardware file, not those of a preset */
    bool has_dtype;              /* the metadata name the dtype of products */
    bool fp8;                    /* with products in FP8 (syn_hardware_use_fp8) */
} syn_set_hardware;

typedef struct syn_simulation {
    uint64_t n_nodes;                  /* of all ranks */
    uint64_t n_scaled;                 /* nodes of which at least one pattern matched */
    uint64_t matched;                  /* bit i: options.scaled[i] matched at least one node */
    uint64_t n_fused, n_fused_kernels; /* nodes that run as fewer kernels, and these kernels */
    uint64_t fused;                    /* bit i: options.fused[i] fused at least two nodes */
    uint64_t chosen;                   /* bit i: options.algorithms[i] is that of a collective */
    uint64_t n_compute, n_predicted;   /* with `to`: compute nodes; those with predicted times */
    syn_set_hardware hardware;         /* of the first rank */
    uint64_t n_run;  /* of these, nodes that ran; fewer than n_nodes if the set deadlocks */
    uint64_t end_ns; /* end of the last node */
    syn_simulated_rank *ranks;  /* ascending */
    size_t n_ranks, n_distinct; /* n_distinct: ranks that were simulated */
    syn_simulated_row *rows;    /* per distinct rank */
    uint64_t part_ns;           /* duration of a part; the last ones may lie after end_ns */
    const char *world; /* name of the group of all ranks: "0", or "all ranks" if the group file
                          gives the name "0" to other ranks */
    syn_simulated_group *groups; /* used groups, longest time first, then messages */
    size_t n_groups;
    syn_simulated_pair *pairs; /* ordered by from, then to */
    size_t n_pairs;
    syn_simulated_step *path; /* the critical path; its times add up to end_ns */
    size_t n_path;
    syn_simulated_sum *path_kinds, *path_names; /* its sums, longest time first */
    size_t n_path_kinds, n_path_names;
    syn_intern path_texts;
    uint32_t n_absent; /* ranks in groups or messages that have no file; they are never late */
    char *deadlock;    /* NULL: all nodes ran; otherwise which rank waits for what, as a sentence
                          without full stop */
} syn_simulation;

/* Simulates the given files, or the trace set with the prefix paths[0] if n is 1 and no file has
   that name. Fails if a file is damaged or a node lacks what a simulation needs; a deadlock is not
   a failure. The caller frees *out in all cases. */
syn_status syn_simulate(syn_simulation *out, const char *const *paths, size_t n,
                        const syn_simulate_options *options, syn_error *err) SYN_MUST_USE;
void syn_simulation_free(syn_simulation *simulation);

/* Draw an SVG picture: a row for each distinct rank, with computation, communication and waiting
   over time; and a matrix of the bytes that ranks send to each other, which needs the pairs. */
void syn_simulation_draw_times(const syn_simulation *simulation, syn_sink *svg);
void syn_simulation_draw_traffic(const syn_simulation *simulation, syn_sink *svg);
/* Writes the ranks that do the same as rank `first`, such as "0-7,64-71", to `text`; the list is
   truncated if it is too long. Returns `text`. */
const char *syn_simulation_ranks(const syn_simulation *simulation, int32_t first, char *text,
                                 size_t bytes);

/* ---- Collectives as messages ---- */

/* How all-reduces, all-gathers and reduce-scatters become messages. RING: each rank sends to the
   next one. DOUBLING: pairs at distances 1, 2, 4, ... exchange (recursive doubling, or halving for
   reduce-scatters); groups whose size is no power of two use rings. TREE: all-reduces are a
   binomial reduction and a broadcast, and the others are rings. HIERARCHICAL: if a group has the
   same number of ranks, at least two, on each of several nodes, its rings are within nodes and
   between the ranks with the same index on their nodes. An all-reduce reduce-scatters within nodes,
   all-reduces between nodes and gathers within nodes; an all-gather begins between nodes, and a
   reduce-scatter within nodes. Other groups use rings. Broadcasts and reductions are binomial
   trees, all-to-alls pairs, gathers and scatters messages with the root. */
typedef enum syn_expansion {
    SYN_EXPAND_RING,
    SYN_EXPAND_DOUBLING,
    SYN_EXPAND_TREE,
    SYN_EXPAND_HIERARCHICAL
} syn_expansion;

typedef struct syn_expand_options {
    syn_expansion algorithm;
    int32_t node_ranks; /* HIERARCHICAL: ranks per node; node i has the ranks from i * node_ranks.
                           0: those of the machine in the metadata of the set's first file */
    const char *groups; /* as in syn_simulate_options */
    uint64_t max_unpacked_bytes;
    bool binary; /* GOAL: LogGOPSim's binary form instead of text */
} syn_expand_options;

typedef struct syn_expanded {
    uint32_t n_ranks;
    uint64_t n_nodes, n_collectives; /* of the set that was read */
    uint64_t n_written;              /* nodes of the set that was written, or ops of a schedule */
    uint64_t bytes;                  /* that all ranks send */
    uint32_t n_uneven; /* HIERARCHICAL: groups with different numbers of ranks on their nodes, whose
                          collectives are rings */
} syn_expanded;

/* Writes the trace set `out`.<rank>.et, in which collectives are replaced by sends and receives. */
syn_status syn_expand_set(syn_expanded *done, const char *prefix, const char *out,
                          const syn_expand_options *options, syn_error *err) SYN_MUST_USE;
/* Writes the set as a GOAL schedule, which LogGOPSim and ATLAHS simulate. Computation becomes
   delays in ns. All ops of a rank are on one CPU. The binary form reads each file twice. */
syn_status syn_export_goal(syn_expanded *done, const char *prefix, syn_sink *sink,
                           const syn_expand_options *options, syn_error *err) SYN_MUST_USE;

/* ---- Differences of two sets ---- */

/* A difference between the ranks first to last of two sets, in all of which it is the same. */
typedef struct syn_set_difference {
    int32_t first, last;
    char *text; /* a sentence without full stop: "ALL_REDUCE on 8 ranks: 977 and 500 calls" */
} syn_set_difference;

typedef struct syn_set_differences {
    syn_set_difference *list;
    size_t n, cap;
    uint32_t n_ranks[2];
    uint64_t n_nodes[2];
} syn_set_differences;

/* Compares two trace sets rank by rank: numbers of nodes by kind, time of computation, bytes of
   messages, calls and bytes of collectives by kind and size of the group, and the first place at
   which the order of communication differs. max_unpacked_bytes as in syn_simulate_options. The
   caller frees *out in all cases. */
syn_status syn_set_compare(syn_set_differences *out, const char *a, const char *b,
                           uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
void syn_set_differences_free(syn_set_differences *differences);

SYN_API_END
#endif
