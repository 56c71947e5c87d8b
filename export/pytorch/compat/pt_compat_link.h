/* Between the steps of the compatible linker:

     pt_compat_times.c   what of an op's time is its own; what another thread did before it
     pt_compat_launch.c  which CPU op launched which device work
     pt_compat_link.c    host nodes to CPU ops, new ids */
#ifndef EXPORT_PT_COMPAT_LINK_H
#define EXPORT_PT_COMPAT_LINK_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A CPU event: an operator or annotation. */
typedef struct syn__compat_op {
    double ts, end, dur, exclusive; /* µs */
    uint64_t rf_id, dep;            /* dep: the rf_id of another thread's op; 0 none */
    int64_t external_id;
    uint32_t event, thread; /* thread: in order of first ops */
    uint32_t host;          /* index of its host node so far, SYN__PT_NONE */
    bool has_rf_id, ts_int, dur_int, exclusive_int;
} syn__compat_op;

typedef struct syn__compat {
    const syn__pt_host *host;
    const syn__pt_device *device;
    syn_error *err;
    syn__compat_op *ops; /* ascending by ts */
    size_t n_ops;
    syn__pt_map threads; /* tid, as a text id of the device trace, to thread */
    uint32_t n_threads;
    uint32_t *by_thread;     /* ops thread by thread, each ascending by ts */
    uint32_t *first_of;      /* n_threads + 1: where a thread's ops begin */
    uint32_t *gpu;           /* events of device work, ascending by ts */
    size_t n_gpu, n_grouped; /* grouped: with an op that launched it */
    syn__pt_map groups;      /* External id of the launching op to its first of gpu */
    uint32_t *next_gpu;      /* the next of the same External id, SYN__PT_NONE */
} syn__compat;

/* Fills exclusive; refuses what comes out negative. */
syn_status syn__compat_exclusive(syn__compat *c) SYN_MUST_USE;
/* Fills dep. */
syn_status syn__compat_threads(syn__compat *c) SYN_MUST_USE;
/* Fills gpu, groups, next_gpu. */
syn_status syn__compat_launches(syn__compat *c) SYN_MUST_USE;

/* How many of the ops start before ts. */
size_t syn__compat_before(const syn__compat *c, double ts);
/* An array of n elements for the linker, NULL with an error when memory is out. */
void *syn__compat_array(syn__compat *c, size_t n, size_t elem_bytes);

#ifdef __cplusplus
}
#endif
#endif
