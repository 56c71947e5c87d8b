/* Finds the calls of communication libraries among a rank's ops (pt_calls.c, pt_call_kernels.c). */
#ifndef EXPORT_PT_CALLS_H
#define EXPORT_PT_CALLS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call: its host ops, SYN__PT_NONE if it has none of a kind, and the kernel that runs it. */
typedef struct syn__pt_call {
    uint32_t record;     /* record_param_comms */
    uint32_t api;        /* c10d::... */
    uint32_t functional; /* _c10d_functional::... */
    uint32_t backend;    /* nccl:..., gloo:...; if there are several, the first */
    uint32_t latest;     /* and the last one to end */
    uint32_t kernel;
    int kind;     /* SYN__PT_CALL_... */
    bool grouped; /* the kernel may run other calls, too, so its args need not describe this call */
} syn__pt_call;

/* An op of a call, by its record function id. */
typedef struct syn__pt_call_id {
    uint64_t rf_id;
    uint32_t call, lane;
} syn__pt_call_id;

typedef struct syn__pt_calls {
    syn__pt_rank *rank;
    syn_error *err;
    syn__pt_call *calls; /* ordered by their first op */
    size_t n_calls, calls_cap;
    size_t first_waiting;      /* all calls before it have their library's op */
    uint32_t *call_of;         /* per op: the call of the nearest such op, which is the op itself or
                                  an ancestor */
    uint8_t *in_record;        /* per op: it is a record_param_comms or within one */
    syn__pt_call_id *by_rf_id; /* ascending; ops that may have called a library's op */
    size_t n_by_rf_id, by_rf_id_cap;
    uint32_t *looked;     /* per lane: the last library op for which the lane's calls were
                             searched */
    uint8_t *name_level;  /* per host name: its class; 0: not determined yet */
    uint8_t *kernel_name; /* per device name: 1 + syn__pt_kernel_library; 0: not determined yet */
    size_t n_ops;         /* number of ops when call_of was filled */
} syn__pt_calls;

/* The main host op of a call. An op on a library's thread is the communication itself, so it comes
   first. */
static inline uint32_t syn__pt_call_op(const syn__pt_rank *rank, const syn__pt_call *call) {
    if (call->backend != SYN__PT_NONE && rank->ops[call->latest].detached) return call->latest;
    if (call->record != SYN__PT_NONE) return call->record;
    if (call->api != SYN__PT_NONE) return call->api;
    return call->functional != SYN__PT_NONE ? call->functional : call->backend;
}
/* The op that launched a kernel; SYN__PT_NONE if even its thread is a guess. */
static inline uint32_t syn__pt_known_launcher(const syn__pt_op *op) {
    return op->by_time && op->launch == SYN__PT_NONE ? SYN__PT_NONE : op->parent;
}

/* Finds calls among the host ops (pt_calls.c). Call syn__pt_calls_close in all cases. */
syn_status syn__pt_calls_open(syn__pt_calls *calls, syn__pt_rank *rank,
                              syn_error *err) SYN_MUST_USE;
void syn__pt_calls_close(syn__pt_calls *calls);
/* Assigns kernels to calls (pt_call_kernels.c). If several messages or collectives share a kernel,
   one op of no duration is added after it for each further one. Kernels that belong to no call are
   appended to `own`. */
syn_status syn__pt_calls_kernels(syn__pt_calls *calls, uint32_t **own, size_t *n_own) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
