/* One rank in default mode: its two traces, and what the steps of the conversion find in them. Each
   step has a room:

     rank/   the traces are read
     match/  host nodes and device events become ops: who launched what, times
     comm/   which ops communicate: kind, bytes, group, peer
     deps/   dependencies by class; an order of the ops in which each comes earlier, cycles are cut
     sim/    the nodes that a simulator runs, and what it would make of them
     set/    several ranks: groups, collectives and messages agree
     write/  all nodes (profile full), what a simulator runs (profile astra-sim), a linked trace

   Compatible mode is apart (compat/). */
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

#define SYN__PT_NO_NS INT64_MIN /* a time that is not known */

typedef struct syn__pt_op {
    uint32_t host;   /* the host node: its own; of device work the launching op's; SYN__PT_NONE */
    uint32_t event;  /* the device event (of a host op: its CPU event); SYN__PT_NONE */
    uint32_t parent; /* op: the caller; of device work the op that launched it; SYN__PT_NONE */
    uint32_t lane;   /* index into lanes */
    uint32_t comm;   /* index into comms, SYN__PT_NONE */
    uint8_t kind;    /* syn_pytorch_op_kind */
    int64_t start_ns, wall_ns; /* since the epoch of the trace; SYN__PT_NO_NS unknown */
    int64_t self_ns; /* without the ops called within; of device work wall_ns; 0 unknown */
    uint32_t launch; /* device work: the runtime event that launched it; SYN__PT_NONE */
    uint32_t around; /* host op: the op around it by time where no caller is known; SYN__PT_NONE */
    bool by_time;    /* device work: that this op launched it is a guess by time */
    bool detached;   /* host op of a communication library: it ran beside the thread of its parent,
                        which only launched it */
    bool till_wait;  /* ... and was over when that thread had waited for it */
} syn__pt_op;

static inline bool syn__pt_is_device(const syn__pt_op *op) {
    return op->kind >= SYN_PYTORCH_OP_KERNEL;
}

/* The end of an op, SYN__PT_NO_NS if it has no times. */
static inline int64_t syn__pt_op_end(const syn__pt_op *op) {
    if (op->start_ns == SYN__PT_NO_NS) return SYN__PT_NO_NS;
    return op->wall_ns > 0 && op->start_ns <= INT64_MAX - op->wall_ns ? op->start_ns + op->wall_ns
                                                                      : op->start_ns;
}

/* It runs beside its parent, which only launched it. */
static inline bool syn__pt_is_launched(const syn__pt_op *op) {
    return syn__pt_is_device(op) || op->detached;
}

/* A thread of the host, or a stream of a device. */
typedef struct syn__pt_lane {
    bool device;
    uint32_t tid;      /* host: "tid" of the host trace as a number, cut to 32 bits */
    int32_t device_id; /* device: which */
    int64_t stream;    /* device: which; -1 unknown */
} syn__pt_lane;

typedef struct syn__pt_edge {
    uint32_t from, to; /* ops: `to` waits for `from` */
    uint32_t class_;   /* syn_pytorch_edge_class */
} syn__pt_edge;

/* One communication. */
typedef struct syn__pt_comm {
    uint32_t op;
    uint32_t type;      /* SYN__ET_COMM_COLL_NODE, SYN__ET_COMM_SEND_NODE, SYN__ET_COMM_RECV_NODE */
    int32_t collective; /* CollectiveCommType; -1: none that the format has, or a message */
    int64_t bytes;      /* of this rank's input; > 0; 1 if it is unknown */
    bool unsized;       /* it is unknown */
    uint32_t group;     /* index into groups, SYN__PT_NONE */
    int32_t peer, tag;  /* messages: the other global rank, -1 unknown; the tag, >= 0 */
    int64_t sequence;   /* "Seq" of the kernel or seq of record_param_comms; -1: none */
    bool alone;         /* no other rank takes part: the group has one, or the others' traces lack
                           it; a simulator would wait for ever, so it is written as computation */
} syn__pt_comm;

/* Neither its own trace nor another rank's has its size. */
static inline bool syn__pt_size_is_unknown(const syn__pt_comm *comm) {
    return comm->unsized && comm->bytes == 1;
}

/* A thread waits for a communication that it launched. */
typedef struct syn__pt_wait {
    uint32_t op;              /* the communication's, detached */
    uint32_t next;            /* what the thread does then, SYN__PT_NONE: nothing */
    int64_t start_ns, end_ns; /* in which it only waits; equal: it did not have to */
} syn__pt_wait;

typedef struct syn__pt_group {
    const char *name, *desc; /* the rank's arena; desc may be "" */
    int32_t *ranks;          /* global, ring order; n_ranks 0: not known */
    uint32_t n_ranks, size;  /* size: as written, 0 unknown */
    uint32_t id;             /* of the set: 1.., written as pg_name; 0: not yet */
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
    int32_t rank, world_size; /* -1: not known */
    syn__file_text host_input, device_input;
    syn__pt_host host;
    syn__pt_device device; /* no events when there is no device file */
    bool has_device;
    syn__pt_op *ops;
    size_t n_ops, ops_cap;
    uint32_t *event_op; /* per device event: its op; of a runtime event the op that called it;
                           SYN__PT_NONE */
    syn__pt_lane *lanes;
    size_t n_lanes, lanes_cap;
    syn__pt_comm *comms; /* ascending by op */
    size_t n_comms, comms_cap;
    syn__pt_wait *waits; /* ascending by end_ns; after syn__pt_connect */
    size_t n_waits, waits_cap;
    syn__pt_group *groups;
    size_t n_groups, groups_cap;
    syn__pt_edge *edges; /* as they were found, until syn__pt_order */
    size_t n_edges, edges_cap;
    /* After syn__pt_order: op i waits for deps[first_dep[i] .. first_dep[i + 1]), ascending by
       `from`, one entry a pair (the class found first in the list of classes). */
    uint32_t *first_dep;
    syn__pt_dep *deps;
    size_t n_deps;
    uint32_t *order; /* the ops, each after what it waits for; ties by index */
    uint32_t *ids;   /* per op: its place in that order, from 1: its id in profile full */
    uint64_t n_edge_class[SYN_PYTORCH_EDGE_CLASSES]; /* kept */
    syn__pt_edge *dropped;                           /* to break cycles */
    size_t n_dropped, dropped_cap;
    syn_pytorch_matches matches;
    syn__arena arena; /* texts and lists of groups */
} syn__pt_rank;

/* Opens and reads the files; device NULL: none; host NULL: nodes are made of the
   device's CPU ops. */
syn_status syn__pt_rank_read(syn__pt_rank *rank, const char *host, const char *device,
                             const syn_pytorch_options *options, syn_pytorch_note *notes,
                             syn_error *err) SYN_MUST_USE;
/* The same of inputs that the caller has opened; the rank is zero otherwise. */
syn_status syn__pt_rank_load(syn__pt_rank *rank, const syn_pytorch_options *options,
                             syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
/* Host nodes for want of a host trace, made of the device's CPU ops (pt_host_from_events.c). */
syn_status syn__pt_host_from_events(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;
/* SYN_COMM_NONE: a collective of a kind that the format lacks. */
syn_comm_kind syn__pt_comm_kind(const syn__pt_comm *comm);
/* Its name as written, undecoded: of device work the event's; "" if it has none. */
syn__str syn__pt_op_name(const syn__pt_rank *rank, const syn__pt_op *op);
/* Counts an anomaly of a host node, or of a device event, in its place. NULL notes are allowed. */
void syn__pt_note_host(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                       uint32_t node);
void syn__pt_note_event(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                        uint32_t event);
void syn__pt_rank_free(syn__pt_rank *rank);

#ifdef __cplusplus
}
#endif
#endif
