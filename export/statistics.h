/* What Chakra execution traces hold, rank by rank and in all: counts, bytes, times, the critical
   path. Reads files message by message, so that foreign and damaged ones are described as far as
   they go. Sums beyond 2^64 - 1 stay there. */
#ifndef EXPORT_STATISTICS_H
#define EXPORT_STATISTICS_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

#define SYN_STATISTICS_TYPES       9  /* node types of the schema, and all others */
#define SYN_STATISTICS_COLLECTIVES 11 /* likewise for collectives */
#define SYN_STATISTICS_CLASSES     5

/* "COMP", "COLL", ..., "other"; "ALL_REDUCE", ..., "other"; "launch", "stream",
   "sync", "group", "thread". */
const char *syn_statistics_type_name(size_t type);
const char *syn_statistics_collective_name(size_t kind);
const char *syn_statistics_class_name(size_t dependency_class);

typedef struct syn_statistics_row {
    char *name;
    uint64_t count, bytes, micros; /* bytes: comm_size, this rank's input */
    uint64_t waiting_ns;           /* for other ranks, where nodes record it; not in micros */
} syn_statistics_row;

typedef struct syn_statistics_fact {
    char *name, *value; /* value: JSON */
} syn_statistics_fact;

typedef struct syn_statistics {
    int32_t rank; /* -1: all ranks together, or not known */
    uint64_t file_bytes, n_nodes, types[SYN_STATISTICS_TYPES];
    uint64_t n_ctrl_deps, n_data_deps;        /* as written, repeats and dangling ones included */
    uint64_t classes[SYN_STATISTICS_CLASSES]; /* ids in the attributes launch_deps, ... */
    uint64_t n_roots, widest_ready;           /* all ranks: sums */
    /* The critical path of this rank alone; all ranks: the longest, or the path from rank to rank
       (path_across of the set). In recordings, whose ops overlap, ops count for the time in which
       the run could not have gone on without them, so the path is no longer than the run; else it
       is the chain of dependencies that lasts longest. */
    uint64_t critical_micros, critical_nodes;
    uint64_t sum_micros, n_timed;        /* durations; nodes with one */
    uint64_t waiting_ns;                 /* beside the durations */
    uint64_t num_ops, tensor_bytes;      /* of compute nodes */
    uint64_t n_cpu, n_cpu_communication; /* is_cpu_op is true */
    uint64_t n_communication, collective_bytes, send_bytes, recv_bytes;
    syn_statistics_row collectives[SYN_STATISTICS_COLLECTIVES]; /* names NULL */
    syn_statistics_row *groups, *ops; /* most micros first, then most often */
    size_t n_groups, n_ops;
    uint64_t n_damaged, n_dangling, n_duplicates; /* messages not read, ids */
    uint64_t n_never;                             /* nodes that wait for a cycle */
    char *version;                                /* of the schema; NULL: none */
    syn_statistics_fact *facts;                   /* metadata attributes */
    size_t n_facts;
} syn_statistics;

typedef struct syn_statistics_set {
    syn_statistics total;
    syn_statistics *ranks;
    size_t n_ranks;
    bool path_across; /* the critical path of `total` goes from rank to rank */
} syn_statistics_set;

/* The files, or the set of one prefix, as syn_validate takes them; gzip may unpack to so many bytes
   (0: to 200 times its size, and 16 GiB). Free *out in any case. */
syn_status syn_statistics_read(syn_statistics_set *out, const char *const *paths, size_t n,
                               uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
void syn_statistics_free(syn_statistics_set *set);

SYN_API_END
#endif
