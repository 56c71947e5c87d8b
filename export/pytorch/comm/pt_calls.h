/* Finds the calls of communication libraries among a rank's ops (pt_calls.c), and the kernels that
   run them (pt_call_kernels.c). */
#ifndef EXPORT_PT_CALLS_H
#define EXPORT_PT_CALLS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call: its host ops (SYN__PT_NONE: the call has no op of that kind), and the kernel that runs
   it. */
typedef struct syn__pt_call {
    uint32_t record;     /* record_param_comms */
    uint32_t api;        /* c10d::... */
    uint32_t functional; /* _c10d_functional::... */
    uint32_t backend;    /* nccl:..., gloo:...; the first of them if there are several */
    uint32_t latest;     /* the backend op that ends last */
    uint32_t kernel;
    int kind;     /* SYN__PT_CALL_... */
    bool grouped; /* the kernel may also run other calls, so its args need not describe this call */
} syn__pt_call;

/* An op that may have created ops of a library, with its call. */
typedef struct syn__pt_call_id {
    uint64_t rf_id;
    uint32_t call, track;
} syn__pt_call_id;

typedef struct syn__pt_calls {
    syn__pt_rank *rank;
    syn_error *err;
    syn__pt_call *calls; /* ordered by their first op */
    size_t n_calls, calls_cap;
    size_t first_waiting;      /* all calls before this index have their library op */
    uint32_t *call_of;         /* per op: its call or, if it belongs to none, the call of its
                                  nearest ancestor that belongs to one; SYN__PT_NONE: none */
    uint8_t *in_record;        /* per op: 1 if it is a record_param_comms or within one */
    syn__pt_call_id *by_rf_id; /* sorted by rf_id: the ops that may have called a library op */
    size_t n_by_rf_id, by_rf_id_cap;
    uint32_t *looked;    /* per track (thread or stream): the last library op for which the calls of
                            the track were searched */
    uint8_t *name_level; /* per host name: its class; 0: not determined yet */
    uint8_t *kernel_name; /* per device name: 1 + syn__pt_kernel_library; 0: not determined yet */
    size_t n_ops;         /* number of ops for which call_of was filled */
} syn__pt_calls;

/* The main host op of a call. A library op that ran on the library's own thread is preferred,
   because it is the communication itself. */
static inline uint32_t syn__pt_call_op(const syn__pt_rank *rank, const syn__pt_call *call) {
    if (call->backend != SYN__PT_NONE && rank->ops[call->latest].detached) return call->latest;
    if (call->record != SYN__PT_NONE) return call->record;
    if (call->api != SYN__PT_NONE) return call->api;
    return call->functional != SYN__PT_NONE ? call->functional : call->backend;
}
/* The op that launched a kernel; SYN__PT_NONE if even the thread that launched it is only a
   guess. */
static inline uint32_t syn__pt_known_launcher(const syn__pt_op *op) {
    return op->by_time && op->launch == SYN__PT_NONE ? SYN__PT_NONE : op->parent;
}

/* Finds calls among the host ops (pt_calls.c). The caller calls syn__pt_calls_close in all
   cases. */
syn_status syn__pt_calls_open(syn__pt_calls *calls, syn__pt_rank *rank,
                              syn_error *err) SYN_MUST_USE;
void syn__pt_calls_close(syn__pt_calls *calls);
/* Assigns kernels to calls (pt_call_kernels.c). If several messages or collectives share a kernel,
   the first of them gets the kernel. For each of the others, an op with duration 0 is added after
   the kernel. Kernels that belong to no call are appended to `own`. */
syn_status syn__pt_calls_kernels(syn__pt_calls *calls, uint32_t **own, size_t *n_own) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
