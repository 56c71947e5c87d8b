/* One rank in default mode: its two traces, and what the steps of the conversion derive from them.
   Each step has its own folder:
     rank/   reads the traces
     match/  matches host nodes and device events, and makes ops with times, callers and launchers
     comm/   finds the ops that communicate, with kind, bytes, group and peer
     deps/   finds dependencies by class, and orders the ops topologically, dropping edges that
             close cycles
     sim/    makes the nodes that a simulator runs, and replays them
     set/    makes several ranks agree on groups, collectives and messages
     write/  writes all ops (profile full), the nodes that a simulator runs (profile astra-sim), or
             a linked trace
   Compat mode is separate (compat/). */
#ifndef EXPORT_PT_RANK_H
#define EXPORT_PT_RANK_H

#include "export/pytorch.h"
#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"
#include "export/text/arena.h"
#include "syntorch/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_NO_NS INT64_MIN /* unknown time */

typedef struct syn__pt_op {
    uint32_t host;   /* host op: its host node; device work: the host node of the op that launched
                        it; SYN__PT_NONE: none */
    uint32_t event;  /* device work: its event; host op: its CPU event; SYN__PT_NONE: none */
    uint32_t parent; /* host op: the op that called it; device work: the op that launched it;
                        SYN__PT_NONE: none */
    uint32_t track;  /* index into tracks */
    uint32_t comm;   /* index into comms; SYN__PT_NONE: none */
    uint8_t kind;    /* syn_pytorch_op_kind */
    int64_t start_ns, wall_ns; /* start_ns: time since the origin of the trace's times;
                                  SYN__PT_NO_NS: unknown */
    int64_t self_ns; /* host op: its duration without the ops called within; device work: wall_ns;
                        0: unknown */
    uint32_t launch; /* device work: the runtime event that launched it; SYN__PT_NONE: none */
    uint32_t around; /* host op whose caller is unknown: the op that encloses it in time;
                        SYN__PT_NONE: none */
    bool by_time;    /* device work: `parent` is only a guess by time */
    bool detached;   /* host op of a communication library that ran concurrently with the thread of
                        its parent; the parent only launched it */
    bool till_wait;  /* detached op whose recorded end is the end of the thread's wait for it */
} syn__pt_op;

static inline bool syn__pt_is_device(const syn__pt_op *op) {
    return op->kind >= SYN_PYTORCH_OP_KERNEL;
}

/* The end of an op; SYN__PT_NO_NS if the op has no times. */
static inline int64_t syn__pt_op_end(const syn__pt_op *op) {
    if (op->start_ns == SYN__PT_NO_NS) return SYN__PT_NO_NS;
    return op->wall_ns > 0 && op->start_ns <= INT64_MAX - op->wall_ns ? op->start_ns + op->wall_ns
                                                                      : op->start_ns;
}

/* Whether the op runs concurrently with its parent, which only launched it. */
static inline bool syn__pt_is_launched(const syn__pt_op *op) {
    return syn__pt_is_device(op) || op->detached;
}

/* A track is a thread of the host, or a stream of a device. */
typedef struct syn__pt_track {
    bool device;
    uint32_t tid;      /* host: "tid" of the host trace, truncated to 32 bits */
    int32_t device_id; /* device: number of the device */
    int64_t stream;    /* device: number of the stream; -1: unknown */
} syn__pt_track;

typedef struct syn__pt_edge {
    uint32_t from, to; /* ops; `to` depends on `from` */
    uint32_t class_;   /* syn_pytorch_edge_class */
} syn__pt_edge;

/* One communication. */
typedef struct syn__pt_comm {
    uint32_t op;
    uint32_t type;      /* SYN__ET_COMM_COLL_NODE, SYN__ET_COMM_SEND_NODE, SYN__ET_COMM_RECV_NODE */
    int32_t collective; /* CollectiveCommType; -1: a message, or a collective that the format cannot
                           express */
    int64_t bytes;      /* size of this rank's input, > 0; 1 if the size is unknown */
    bool unsized;       /* the rank's own trace does not have the size */
    uint32_t group;     /* index into groups; SYN__PT_NONE: unknown */
    int32_t peer, tag;  /* messages: peer: global rank of the other end, -1: unknown; tag: >= 0 */
    int64_t sequence;   /* "Seq" of the kernel, or seq of record_param_comms; -1: none */
    bool alone;         /* no other rank takes part, because the group has one rank, or the traces
                           of the other ranks lack the communication. A simulator would wait forever
                           for these ranks, so it is written as computation */
} syn__pt_comm;

/* Whether the size is unknown: neither the rank's own trace nor the trace of another rank has
   it. */
static inline bool syn__pt_size_is_unknown(const syn__pt_comm *comm) {
    return comm->unsized && comm->bytes == 1;
}

/* The wait of a thread for a communication that it launched. */
typedef struct syn__pt_wait {
    uint32_t op;              /* the communication's op, which is detached */
    uint32_t next;            /* the thread's next op; SYN__PT_NONE: none */
    int64_t start_ns, end_ns; /* interval in which the thread only waits; empty if the communication
                                 had ended before */
} syn__pt_wait;

typedef struct syn__pt_group {
    const char *name, *desc; /* in the rank's arena; desc may be "" */
    int32_t *ranks;          /* global ranks in ring order; n_ranks 0: the list is unknown */
    uint32_t n_ranks, size;  /* size: number of ranks as recorded; 0: unknown */
    uint32_t id;             /* id in the trace set, at least 1, written as pg_name; 0: not assigned
                                yet */
} syn__pt_group;

static inline bool syn__pt_group_has(const syn__pt_group *group, int32_t rank) {
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        if (group->ranks[i] == rank) return true;
    }
    return false;
}

typedef struct syn__pt_dep {
    uint32_t from, class_;
} syn__pt_dep;

typedef struct syn__pt_rank {
    int32_t rank, world_size; /* -1: unknown */
    syn__file_text host_input, device_input;
    syn__pt_host host;
    syn__pt_device device; /* has no events if there is no device trace */
    bool has_device;
    syn__pt_op *ops;
    size_t n_ops, ops_cap;
    uint32_t *event_op; /* per event: its op; for a runtime event, the op that called it;
                           SYN__PT_NONE: none */
    syn__pt_track *tracks;
    size_t n_tracks, tracks_cap;
    syn__pt_comm *comms; /* ordered by op */
    size_t n_comms, comms_cap;
    syn__pt_wait *waits; /* ordered by end_ns; filled by syn__pt_connect */
    size_t n_waits, waits_cap;
    syn__pt_group *groups;
    size_t n_groups, groups_cap;
    syn__pt_edge *edges; /* in the order in which they were found; freed by syn__pt_order */
    size_t n_edges, edges_cap;
    /* After syn__pt_order: op i depends on deps[first_dep[i] .. first_dep[i + 1] - 1], which are
       ordered by `from`. If two ops have several dependencies, only one is kept, with the class of
       highest precedence (pt_order.c). */
    uint32_t *first_dep;
    syn__pt_dep *deps;
    size_t n_deps;
    uint32_t *order; /* the ops in topological order; among ready ops, the lowest index comes
                        first */
    uint32_t *ids;   /* per op: its position in that order plus one, which is its id in profile
                        full */
    uint64_t n_edge_class[SYN_PYTORCH_EDGE_CLASSES]; /* per class: number of dependencies in deps */
    syn__pt_edge *dropped;                           /* edges that were dropped because they closed
                                                        a cycle */
    size_t n_dropped, dropped_cap;
    syn_pytorch_matches matches;
    syn__arena arena; /* strings and rank lists of groups */
} syn__pt_rank;

/* Opens and reads the files. device NULL: there is no device trace. host NULL: there is no host
   trace, so host nodes are made from the CPU ops of the device trace. */
syn_status syn__pt_rank_read(syn__pt_rank *rank, const char *host, const char *device,
                             const syn_pytorch_options *options, syn_pytorch_note *notes,
                             syn_error *err) SYN_MUST_USE;
/* Reads inputs that the caller has opened. All other fields of *rank must be zero. */
syn_status syn__pt_rank_load(syn__pt_rank *rank, const syn_pytorch_options *options,
                             syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
/* Makes host nodes from the CPU ops of the device trace if there is no host trace
   (pt_host_from_events.c). */
syn_status syn__pt_host_from_events(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;
/* The kind of a collective; SYN_COMM_NONE if the format cannot express it. */
syn_comm_kind syn__pt_comm_kind(const syn__pt_comm *comm);
/* The name of an op as in the trace, not decoded. Device work has the name of its event. "": no
   name. */
syn__str syn__pt_op_name(const syn__pt_rank *rank, const syn__pt_op *op);
/* Count an anomaly of a host node or of a device event. notes may be NULL. */
void syn__pt_note_host(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                       uint32_t node);
void syn__pt_note_event(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                        uint32_t event);
void syn__pt_rank_free(syn__pt_rank *rank);

#ifdef __cplusplus
}
#endif
#endif
