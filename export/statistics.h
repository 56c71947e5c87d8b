/* Statistics of Chakra execution traces, per rank and in total: counts, bytes, times and the
   critical path. Files are read message by message, so damaged files and files of other programs
   are described as far as they can be read. Sums saturate at 2^64 - 1. */
#ifndef EXPORT_STATISTICS_H
#define EXPORT_STATISTICS_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

#define SYN_STATISTICS_NAME        24 /* bytes of a type's name, including the NUL */
#define SYN_STATISTICS_TYPES       33 /* node types below 32, plus one for all others */
#define SYN_STATISTICS_COLLECTIVES 33 /* kinds below 32, plus one for all others */
#define SYN_STATISTICS_CLASSES     5

/* Names of the entries of `types`, `collectives` and `classes` in syn_statistics: "COMP", "COLL",
   ..., "other"; "ALL_REDUCE", ..., "other"; "launch", "stream", "sync", "group", "thread". */
void syn_statistics_type_name(size_t type, char name[SYN_STATISTICS_NAME]);
const char *syn_statistics_collective_name(size_t kind);
const char *syn_statistics_class_name(size_t dependency_class);

typedef struct syn_statistics_row {
    char *name;
    uint64_t count, bytes, micros; /* bytes: sum of comm_size, the bytes that this rank
                                      contributes */
    uint64_t wait_ns;              /* time spent waiting for other ranks, if the nodes record it;
                                         not included in micros */
} syn_statistics_row;

typedef struct syn_statistics_metadata {
    char *name, *value; /* value: JSON text */
} syn_statistics_metadata;

typedef struct syn_statistics {
    int32_t rank; /* -1: total of all ranks, or unknown */
    uint64_t file_bytes, n_nodes, types[SYN_STATISTICS_TYPES];
    uint64_t n_ctrl_deps, n_data_deps;        /* as in the file, including repeated and dangling
                                                 ones */
    uint64_t classes[SYN_STATISTICS_CLASSES]; /* per class: number of ids in the attribute
                                                 launch_deps, stream_deps, ... */
    uint64_t n_roots, widest_ready;           /* number of nodes without dependencies; largest
                                                 number of nodes that are ready at the same time. In
                                                 `total`: sums over the ranks */
    /* The critical path of this rank alone. In `total`: the longest of the ranks' paths or, if
       path_across is set, the path across ranks. In PyTorch traces, whose ops overlap, an op counts
       only for the time in which the run depended on it, so the path is never longer than the run.
       In other traces the path is the chain of dependencies with the largest total duration. */
    uint64_t critical_micros, critical_nodes;
    uint64_t sum_micros, n_timed;        /* sum of durations; number of nodes that have one */
    uint64_t wait_ns;                    /* wait time, which sum_micros does not include */
    uint64_t num_ops, tensor_bytes;      /* sums over compute nodes */
    uint64_t n_cpu, n_cpu_communication; /* number of nodes with is_cpu_op set, and how many of them
                                            are communication */
    uint64_t n_communication, collective_bytes, send_bytes, recv_bytes;
    syn_statistics_row collectives[SYN_STATISTICS_COLLECTIVES]; /* name is NULL in each row */
    syn_statistics_row *groups, *ops; /* sorted by micros, then by count, in descending order */
    size_t n_groups, n_ops;
    uint64_t n_damaged, n_dangling, n_duplicates; /* messages that could not be read; dependencies
                                                     on missing nodes; repeated ids */
    uint64_t n_never;                             /* nodes that never run because they are part of a
                                                     cycle or depend on one */
    char *version;                                /* version of the schema; NULL: none recorded */
    syn_statistics_metadata *metadata;            /* metadata attributes */
    size_t n_metadata;
} syn_statistics;

typedef struct syn_statistics_set {
    syn_statistics total;
    syn_statistics *ranks;
    size_t n_ranks;
    bool path_across; /* the critical path of `total` crosses ranks */
} syn_statistics_set;

/* Reads the files, or the trace set of one prefix, as syn_validate does. max_unpacked_bytes limits
   decompressed gzip input; 0: 200 times the compressed size, at most 16 GiB. The caller frees *out
   in all cases. */
syn_status syn_statistics_read(syn_statistics_set *out, const char *const *paths, size_t n,
                               uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
void syn_statistics_free(syn_statistics_set *set);

SYN_API_END
#endif
