/* Calls of communication libraries in a rank's ops (pt_calls.c, pt_call_kernels.c). */
#ifndef EXPORT_PT_CALLS_H
#define EXPORT_PT_CALLS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call: the host ops that belong to it, SYN__PT_NONE where it has none, and the kernel that
   carries it. */
typedef struct syn__pt_call {
    uint32_t record;     /* record_param_comms */
    uint32_t api;        /* c10d::... */
    uint32_t functional; /* _c10d_functional::... */
    uint32_t backend;    /* nccl:..., gloo:...; the first of several */
    uint32_t latest;     /* ... that ends last */
    uint32_t kernel;
    int kind;     /* SYN__PT_CALL_... */
    bool grouped; /* the kernel may carry other calls too: what its args say is not of this one */
} syn__pt_call;

/* An op of a call by its record function id. */
typedef struct syn__pt_call_id {
    uint64_t rf_id;
    uint32_t call, lane;
} syn__pt_call_id;

typedef struct syn__pt_calls {
    syn__pt_rank *rank;
    syn_error *err;
    syn__pt_call *calls; /* in the order of their first op */
    size_t n_calls, calls_cap;
    size_t first_waiting;      /* calls before it have their library's op */
    uint32_t *call_of;         /* per op: the call of the nearest such op, itself or above */
    uint8_t *in_record;        /* per op: it is within a record_param_comms, or one itself */
    syn__pt_call_id *by_rf_id; /* ascending: ops that may have called a library's op */
    size_t n_by_rf_id, by_rf_id_cap;
    uint32_t *looked;     /* per lane: the library's op for which its calls were looked through */
    uint8_t *name_level;  /* per host name: what it is, 0 not looked at yet */
    uint8_t *kernel_name; /* per device name: 0 not looked at yet, 1 + syn__pt_kernel_library */
    size_t n_ops;         /* when call_of was filled */
} syn__pt_calls;

/* The call's main op on the host: what runs in a library's thread is the communication itself. */
static inline uint32_t syn__pt_call_op(const syn__pt_rank *rank, const syn__pt_call *call) {
    if (call->backend != SYN__PT_NONE && rank->ops[call->latest].detached) return call->latest;
    if (call->record != SYN__PT_NONE) return call->record;
    if (call->api != SYN__PT_NONE) return call->api;
    return call->functional != SYN__PT_NONE ? call->functional : call->backend;
}
/* The op that a kernel hangs from, unless its thread is guessed too. */
static inline uint32_t syn__pt_known_launcher(const syn__pt_op *op) {
    return op->by_time && op->launch == SYN__PT_NONE ? SYN__PT_NONE : op->parent;
}

/* Finds calls among host ops (pt_calls.c). Close in any case. */
syn_status syn__pt_calls_open(syn__pt_calls *calls, syn__pt_rank *rank,
                              syn_error *err) SYN_MUST_USE;
void syn__pt_calls_close(syn__pt_calls *calls);
/* Gives kernels to calls; one that several messages or collectives share gets further ops of no
   duration behind it, one for each (pt_call_kernels.c). `own` grows by kernels that
   no call explains. */
syn_status syn__pt_calls_kernels(syn__pt_calls *calls, uint32_t **own, size_t *n_own) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
