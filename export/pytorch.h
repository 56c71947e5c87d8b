/* Converts PyTorch traces to Chakra execution traces. For each rank, torch.profiler writes a device
   trace (Kineto's JSON), and its ExecutionTraceObserver writes a host trace. One or both of them
   are converted to one .et file; the ranks of a job become a trace set. docs/pytorch.md explains
   how to record traces and what the conversion writes.

       const syn_pytorch_source ranks[] = {{.host = "host.0.json", .device = "device.0.json"},
                                           {.host = "host.1.json", .device = "device.1.json"}};
       syn_pytorch_report report;
       syn_error err = {0};
       if (syn_pytorch_convert(&report, ranks, 2, "out/trace", NULL, &err) != SYN_OK)
           fprintf(stderr, "%s\n", err.text);
       syn_pytorch_report_free(&report); */
#ifndef EXPORT_PYTORCH_H
#define EXPORT_PYTORCH_H

#include "export/pytorch_notes.h"
#include "syntorch/base/types.h"

SYN_API_BEGIN

/* Classes of dependencies, by their reason: X(id, name). Each comment says which node depends on
   which. */
#define SYN_PYTORCH_EDGE_LIST(X)                                                     \
    X(CALL, "call")       /* of an op on its caller in the host trace; a ctrl_dep */ \
    X(PROGRAM, "program") /* of an op on the previous op of its thread */            \
    X(LAUNCH, "launch")   /* of device work on the op that launched it */            \
    X(STREAM, "stream")   /* of device work on the previous work of its stream */    \
    X(SYNC, "sync")       /* of the host on the device, or of a stream on another */ \
    X(GROUP, "group")     /* of a collective on the group's previous collective */   \
    X(THREAD, "thread")   /* of a thread on the thread that woke it up */

typedef enum syn_pytorch_edge_class {
#define SYN_X(id, name) SYN_PYTORCH_EDGE_##id,
    SYN_PYTORCH_EDGE_LIST(SYN_X)
#undef SYN_X
        SYN_PYTORCH_EDGE_CLASSES
} syn_pytorch_edge_class;

const char *syn_pytorch_edge_name(syn_pytorch_edge_class edge_class);

/* ---- What to convert, and how ---- */

/* The files of one rank, which may be gzip-compressed. */
typedef struct syn_pytorch_source {
    const char *host;     /* host trace or linked trace; NULL: CPU ops of the device trace become
                             host ops */
    const char *device;   /* device trace; NULL: the result has no times, except those of a linked
                             trace */
    const int32_t *rank;  /* NULL: the rank in the device trace or, if it has none, the index of the
                             source */
    bool rank_is_guessed; /* rank comes from the file name; it is ignored if it does not exist in
                             the job that the device trace describes */
} syn_pytorch_source;

typedef enum syn_pytorch_profile {
    SYN_PYTORCH_FULL,     /* every node */
    SYN_PYTORCH_ASTRA_SIM /* only the nodes that ASTRA-sim runs: device work and communication */
} syn_pytorch_profile;

/* Which JSON object of a host file to read if the file has several. */
typedef enum syn_pytorch_objects {
    SYN_PYTORCH_LAST_OBJECT, /* the last complete object */
    SYN_PYTORCH_ALL_OBJECTS, /* all objects, with new ids */
    SYN_PYTORCH_ONE_OBJECT
} syn_pytorch_objects;

/* Which JSON object of a host file to read, with its number if needed. */
typedef struct syn_pytorch_object {
    syn_pytorch_objects which;
    uint64_t number; /* with ONE_OBJECT: its index, from 0 */
} syn_pytorch_object;

/* Which node keeps its id if several nodes have the same id. Nodes whose parent has this id become
   children of the node that keeps it. */
typedef enum syn_pytorch_same_ids {
    SYN_PYTORCH_FIRST_KEEPS, /* exception: if the child ran within another of these nodes, it
                                belongs to that node */
    SYN_PYTORCH_LAST_KEEPS,
    SYN_PYTORCH_NONE_KEEPS /* fail with SYN_E_FORMAT */
} syn_pytorch_same_ids;

/* Options of a conversion. A zero-initialized struct, or a NULL pointer to one, selects the
   defaults. */
typedef struct syn_pytorch_options {
    syn_pytorch_profile profile;
    bool is_set; /* `output` is a prefix even for one source; for several sources it always is */
    bool compat; /* write exactly what chakra_trace_link and chakra_converter write, for one rank
                    with a host trace; can only be combined with max_unpacked_bytes and progress */
    bool strict; /* treat any anomaly as SYN_E_FORMAT and write nothing */
    bool trim;   /* omit device work that was launched before or after the time that the host trace
                    covers */
    bool replay; /* add a replay of each rank to the report */
    uint32_t without;      /* profile full: dependency classes to omit, as bits 1 << class; CALL and
                              PROGRAM are always written */
    int64_t thread_gap_ns; /* if a thread was idle for longer than this, another thread is assumed
                              to have woken it up; 0: 1 ms; negative: any idle time counts */
    syn_pytorch_same_ids same_ids;
    syn_pytorch_object object;
    uint64_t max_unpacked_bytes; /* limit of decompressed gzip input; 0: 200 times the compressed
                                    size, at most 16 GiB */
    const char *version;         /* program version to record in files; NULL: none is recorded */
    void (*progress)(void *user, int64_t done, int64_t of); /* called after each step of the
                                                               conversion; may be NULL */
    void *user;                                             /* passed to progress */
} syn_pytorch_options;

/* ---- Report: what was found and what was written ---- */

typedef enum syn_pytorch_op_kind {
    SYN_PYTORCH_OP_HOST,     /* a host node */
    SYN_PYTORCH_OP_METADATA, /* a host node that describes process groups */
    SYN_PYTORCH_OP_KERNEL,
    SYN_PYTORCH_OP_MEMCPY,
    SYN_PYTORCH_OP_MEMSET,
    SYN_PYTORCH_OP_KINDS
} syn_pytorch_op_kind;

/* How host nodes and device events were matched to each other. */
typedef struct syn_pytorch_matches {
    uint64_t host_nodes, host_rf_id, host_external, host_time; /* number of host nodes; number of
                                                                  host nodes whose CPU event was
                                                                  found by record function id, by
                                                                  External id, and by name and
                                                                  order */
    uint64_t host_calls;    /* host nodes with a record function id; roots have none */
    uint64_t device_events; /* kernels, copies, memsets */
    /* Device events by how their launch was found: by correlation id, by External id, by time, or
       not at all. */
    uint64_t device_correlation, device_external, device_time, device_none;
    uint64_t device_outside; /* device events launched before or after the time that the host trace
                                covers; the other fields include them only if they are written */
    uint64_t cpu_events, cpu_events_unused; /* all CPU events; CPU events without a host node */
    uint64_t cpu_events_kept;               /* CPU events that the host trace lacks and that became
                                               host ops */
    bool repeats;    /* matching by name and order fitted equally well at several steps; the first
                        one was used */
    bool renumbered; /* nodes were matched by name and order, and autograd's sequence numbers differ
                        between the two traces, which therefore show different steps */
} syn_pytorch_matches;

/* A dependency that was dropped. The ids are those that profile full writes. */
typedef struct syn_pytorch_edge {
    uint32_t from, to;
    syn_pytorch_edge_class edge_class;
} syn_pytorch_edge;

#define SYN_PYTORCH_REASONS 12

/* Counts of what profile astra-sim writes for one rank. */
typedef struct syn_pytorch_simulated {
    uint64_t nodes, compute, delays; /* all nodes; nodes of kernels and copies; "host delay"
                                        nodes */
    uint64_t stand_ins;              /* communication written as compute nodes */
    uint64_t absorbed;               /* communication on a library's threads: it has no node, and
                                        its time is part of the host delay */
    struct {
        const char *why; /* "a group of one rank"; static; NULL: end of the list */
        uint64_t count;
    } reasons[SYN_PYTORCH_REASONS]; /* the reasons for stand_ins and absorbed */
    uint64_t collectives, messages;
    uint64_t dropped_barriers; /* number of barriers, which have no nodes: their successors inherit
                                  their dependencies */
    int64_t delay_us;          /* sum over all delay nodes */
} syn_pytorch_simulated;

/* One row of a replay. Profile full: a thread or a stream. Profile astra-sim: computation or
   communication. */
typedef struct syn_pytorch_replay_row {
    char name[64];
    int64_t measured_ns, replayed_ns; /* from the first op of the trace to the end of the row's last
                                         op */
    int64_t busy_ns;                  /* sum of the durations written */
    int64_t idle_ns; /* threads only: measured time in which no op ran; profile full writes no nodes
                        for it */
    uint64_t n_ops;
} syn_pytorch_replay_row;

/* Replays the written trace with the durations in it. Profile full: each row runs its ops in order
   of their ids, and an op starts when all its dependencies have finished. No node covers the time
   between ops, and a caller's own time, including time it spent waiting, is replayed before its
   callees. The replay can therefore finish far from the measured end. Profile astra-sim: there is a
   slot for computation and one for communication, and each runs the ready node with the lowest
   id. */
typedef struct syn_pytorch_replay {
    int64_t measured_ns, replayed_ns; /* duration of the whole run */
    syn_pytorch_replay_row *rows;
    size_t n_rows;
} syn_pytorch_replay;

typedef struct syn_pytorch_rank_report {
    int32_t rank;
    char *host, *device;                                          /* its files; NULL: none */
    uint64_t n_nodes;                                             /* nodes in its output file */
    uint64_t in[SYN_PYTORCH_OP_KINDS], out[SYN_PYTORCH_OP_KINDS]; /* ops in the input traces, and
                                                                     ops written */
    uint64_t n_further; /* a kernel that runs several calls counts once in `out`; its other calls
                           are counted here */
    syn_pytorch_matches matches;
    uint64_t n_edges[SYN_PYTORCH_EDGE_CLASSES];
    syn_pytorch_edge *dropped; /* dependencies dropped because they closed cycles */
    size_t n_dropped;
    uint64_t n_comms[SYN_COMM_KIND_COUNT]; /* per syn_comm_kind; index SYN_COMM_NONE: other kinds */
    uint64_t comm_bytes;                   /* without collectives of unknown size */
    uint64_t n_comms_unsized;
    size_t n_groups;
    uint32_t hints;                  /* bits 1 << syn_pytorch_hint */
    syn_pytorch_simulated simulated; /* profile astra-sim only */
    syn_pytorch_replay replay;       /* only with the option `replay` */
} syn_pytorch_rank_report;

typedef struct syn_pytorch_report {
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES]; /* file names belong to the report */
    uint64_t n_anomalies;                          /* number of kinds of anomalies found */
    syn_pytorch_rank_report *ranks;                /* in the order of the sources */
    size_t n_ranks;
    uint64_t in_bytes, out_bytes; /* bytes read, after unpacking; bytes written, excluding the group
                                     file */
    bool groups_written;          /* the groups were written to a group file */
    bool groups_replaced; /* the groups of one rank replaced other groups in an existing group
                             file */
} syn_pytorch_report;

/* Converts the ranks of a job. One source is written to the file `output` ("-": standard output),
   several sources to <output>.<rank>.et and <output>.comm_group.json. If a single output file is
   named <prefix>.<rank>.et and the rank's groups are known, they are written to
   <prefix>.comm_group.json. A trace set is written completely or not at all, and a source is never
   overwritten (SYN_E_INVALID).
   Damaged parts of a file are skipped and counted. SYN_E_FORMAT: a file has nothing to convert, or
   `strict` is set and there are anomalies. SYN_E_INVALID: options contradict each other, two
   sources are the same rank, or nothing is left for a simulator to run.
   The caller frees the report in all cases. After a failure it contains the anomalies found so far;
   in compat mode it only contains totals. */
syn_status syn_pytorch_convert(syn_pytorch_report *report, const syn_pytorch_source *sources,
                               size_t n_sources, const char *output,
                               const syn_pytorch_options *options, syn_error *err) SYN_MUST_USE;
/* Writes the traces of one rank as a linked trace for other tools: the host trace, as JSON, with
   the times and the device work of the device trace. options->profile has no effect. */
syn_status syn_pytorch_link(syn_pytorch_report *report, const syn_pytorch_source *source,
                            const char *output, const syn_pytorch_options *options,
                            syn_error *err) SYN_MUST_USE;
void syn_pytorch_report_free(syn_pytorch_report *report);

SYN_API_END
#endif
