/* PyTorch's traces as Chakra execution traces. Of each rank torch.profiler writes a device trace
   (Kineto's JSON) and its ExecutionTraceObserver a host trace; both, or one of them, become an .et,
   and the ranks of a job a set. How to record them, and what is written: docs/pytorch.md.

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

/* Why an op waits for another: X(id, name). */
#define SYN_PYTORCH_EDGE_LIST(X)                                                       \
    X(CALL, "call")       /* for its caller in the host trace: a ctrl_dep */           \
    X(PROGRAM, "program") /* for the op before it in its thread, in order of calls */  \
    X(LAUNCH, "launch")   /* device work waits for the op that launched it */          \
    X(STREAM, "stream")   /* ... and for what ran before it on its (device, stream) */ \
    X(SYNC, "sync")       /* the host waits for the device, or a stream for another */ \
    X(GROUP, "group")     /* a collective waits for the group's previous one */        \
    X(THREAD, "thread")   /* a thread waits for another that woke it */

typedef enum syn_pytorch_edge_class {
#define SYN_X(id, name) SYN_PYTORCH_EDGE_##id,
    SYN_PYTORCH_EDGE_LIST(SYN_X)
#undef SYN_X
        SYN_PYTORCH_EDGE_CLASSES
} syn_pytorch_edge_class;

const char *syn_pytorch_edge_name(syn_pytorch_edge_class edge_class);

/* ---- What to convert, and how ---- */

/* The files of one rank, also packed by gzip. */
typedef struct syn_pytorch_source {
    const char *host;    /* or a linked trace; NULL: host ops are the CPU ops of the device trace */
    const char *device;  /* NULL: without times, but for those of a linked trace */
    const int32_t *rank; /* NULL: as the device trace says, else its place among the sources */
    bool rank_is_guessed; /* from a name: it gives way if the device trace's job has no such rank */
} syn_pytorch_source;

typedef enum syn_pytorch_profile {
    SYN_PYTORCH_FULL,     /* every node */
    SYN_PYTORCH_ASTRA_SIM /* what that simulator runs: device work and communication */
} syn_pytorch_profile;

typedef enum syn_pytorch_objects {
    SYN_PYTORCH_LAST_OBJECT, /* the last complete one */
    SYN_PYTORCH_ALL_OBJECTS, /* all together, under fresh ids */
    SYN_PYTORCH_ONE_OBJECT
} syn_pytorch_objects;

/* Which of several JSON objects in a host file is read. */
typedef struct syn_pytorch_object {
    syn_pytorch_objects which;
    uint64_t number; /* ONE_OBJECT: from 0 */
} syn_pytorch_object;

/* Which of several nodes with one id keeps it; children mean that one. */
typedef enum syn_pytorch_same_ids {
    SYN_PYTORCH_FIRST_KEEPS, /* children may mean another one, that ran around them */
    SYN_PYTORCH_LAST_KEEPS,
    SYN_PYTORCH_NONE_KEEPS /* SYN_E_FORMAT instead */
} syn_pytorch_same_ids;

/* All zero, or NULL for the whole: the defaults. */
typedef struct syn_pytorch_options {
    syn_pytorch_profile profile;
    bool is_set; /* the output is a prefix, even of one source; so it is of several in any case */
    bool compat; /* exactly what chakra_trace_link and chakra_converter write, of one rank with a
                    host trace; of the rest only max_unpacked_bytes and progress go with it */
    bool strict; /* any anomaly is SYN_E_FORMAT, and nothing is written */
    bool trim; /* device work launched before or after all that the host trace holds is left out */
    bool replay;      /* the report has a replay of each rank */
    uint32_t without; /* profile full: dependencies that are not wanted, bits 1 << class; those of
                         calls and the program are always there */
    int64_t thread_gap_ns; /* a thread idle for longer was woken by another; 0: a millisecond;
                              negative: any time */
    syn_pytorch_same_ids same_ids;
    syn_pytorch_object object;
    uint64_t max_unpacked_bytes; /* of gzip; 0: 200 times its size, and 16 GiB */
    const char *version;         /* of the program, recorded in files; NULL: not recorded */
    void (*progress)(void *user, int64_t done, int64_t of); /* after each step; NULL: none */
    void *user;                                             /* its first argument */
} syn_pytorch_options;

/* ---- What was met and done ---- */

typedef enum syn_pytorch_op_kind {
    SYN_PYTORCH_OP_HOST,     /* a host node */
    SYN_PYTORCH_OP_METADATA, /* a host node that describes process groups */
    SYN_PYTORCH_OP_KERNEL,
    SYN_PYTORCH_OP_MEMCPY,
    SYN_PYTORCH_OP_MEMSET,
    SYN_PYTORCH_OP_KINDS
} syn_pytorch_op_kind;

/* How host nodes and device events found each other. */
typedef struct syn_pytorch_matches {
    uint64_t host_nodes, host_rf_id, host_external, host_time; /* host nodes with a CPU event */
    uint64_t host_calls;    /* host nodes with a record function id: not the roots */
    uint64_t device_events; /* kernels, copies, memsets */
    uint64_t device_correlation, device_external, device_time, device_none;
    uint64_t device_outside; /* launched before or after all that the host trace holds; counted in
                                the others only if they are kept */
    uint64_t cpu_events, cpu_events_unused; /* CPU events that no host node took */
    uint64_t cpu_events_kept;               /* ... that the host trace lacks, made into host ops */
    bool repeats;    /* by name and order, several places fitted equally: the first was taken */
    bool renumbered; /* by name and order, but autograd's sequence numbers differ: other steps */
} syn_pytorch_matches;

/* A dependency that was dropped, by the ids of profile full. */
typedef struct syn_pytorch_edge {
    uint32_t from, to;
    syn_pytorch_edge_class edge_class;
} syn_pytorch_edge;

#define SYN_PYTORCH_REASONS 12

/* What a simulator gets of a rank. */
typedef struct syn_pytorch_simulated {
    uint64_t nodes, compute, delays; /* of all nodes: kernels and copies; "host delay" */
    uint64_t stand_ins;              /* communication written as computation; */
    uint64_t absorbed;               /* ... of a library's threads: in delays, without nodes; */
    struct {
        const char *why; /* "a group of one rank"; static. NULL: no further reason */
        uint64_t count;
    } reasons[SYN_PYTORCH_REASONS]; /* ... and why */
    uint64_t collectives, messages;
    uint64_t dropped_barriers; /* no nodes: their dependencies are passed on */
    int64_t delay_us;          /* of all delays */
} syn_pytorch_simulated;

/* A thread or a stream; of profile astra-sim computation and communication. */
typedef struct syn_pytorch_replay_row {
    char name[64];
    int64_t measured_ns, replayed_ns; /* from the trace's first op to the row's last end */
    int64_t busy_ns;                  /* sum of the written durations */
    int64_t idle_ns; /* of a thread: measured time in no op, which profile full has no node for */
    uint64_t n_ops;
} syn_pytorch_replay_row;

/* What was written, run again on its own durations. Of profile full an op starts when all that it
   waits for is over and its row is free, in the order of ids. Time between ops is in no node, and a
   caller's own time passes before its callees', waits included: so the replay may end far from the
   measured end. Of profile astra-sim two slots always run the ready node with the lowest id. */
typedef struct syn_pytorch_replay {
    int64_t measured_ns, replayed_ns; /* end to end */
    syn_pytorch_replay_row *rows;
    size_t n_rows;
} syn_pytorch_replay;

typedef struct syn_pytorch_rank_report {
    int32_t rank;
    char *host, *device;                                          /* its files; NULL: none */
    uint64_t n_nodes;                                             /* written to its file */
    uint64_t in[SYN_PYTORCH_OP_KINDS], out[SYN_PYTORCH_OP_KINDS]; /* in the traces; as ops */
    uint64_t n_further; /* ops beside those: for each call of a kernel but its first */
    syn_pytorch_matches matches;
    uint64_t n_edges[SYN_PYTORCH_EDGE_CLASSES];
    syn_pytorch_edge *dropped; /* as they closed cycles */
    size_t n_dropped;
    uint64_t n_comms[SYN_COMM_KIND_COUNT]; /* NONE: collectives of no such kind */
    uint64_t comm_bytes;                   /* without those of unknown size */
    uint64_t n_comms_unsized;
    size_t n_groups;
    uint32_t hints;                  /* bits 1 << syn_pytorch_hint */
    syn_pytorch_simulated simulated; /* profile astra-sim */
    syn_pytorch_replay replay;       /* if wanted */
} syn_pytorch_rank_report;

typedef struct syn_pytorch_report {
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES]; /* files are texts of the report */
    uint64_t n_anomalies;                          /* kinds that were met */
    syn_pytorch_rank_report *ranks;                /* as the sources */
    size_t n_ranks;
    uint64_t in_bytes, out_bytes; /* read, unpacked; written, without the file of groups */
    bool groups_replaced; /* one rank's groups took the place of others in a file that was there */
} syn_pytorch_report;

/* Converts the ranks of a job: one source to the file `output` ("-": standard output), several to
   <output>.<rank>.et and <output>.comm_group.json. Beside one file <prefix>.<rank>.et its groups
   are written to <prefix>.comm_group.json, if it knows any. A set is written whole or not at all,
   and no source is written over (SYN_E_INVALID). Damage is read over and counted; SYN_E_FORMAT: a
   file holds nothing that could be converted, or anomalies and `strict`; SYN_E_INVALID: options
   that do not go together, two sources of one rank, nothing that a simulator could run. The report
   is the caller's to free in any case; after a failure it has the anomalies that were met until
   then, and of compatible mode only what concerns the whole. */
syn_status syn_pytorch_convert(syn_pytorch_report *report, const syn_pytorch_source *sources,
                               size_t n_sources, const char *output,
                               const syn_pytorch_options *options, syn_error *err) SYN_MUST_USE;
/* Writes one rank's traces as a linked trace instead, a host trace with the times and the device
   work of the device trace (JSON), for other tools. The profile does not matter. */
syn_status syn_pytorch_link(syn_pytorch_report *report, const syn_pytorch_source *source,
                            const char *output, const syn_pytorch_options *options,
                            syn_error *err) SYN_MUST_USE;
void syn_pytorch_report_free(syn_pytorch_report *report);

SYN_API_END
#endif
