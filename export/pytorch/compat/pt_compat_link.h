/* The state that the steps of the compat linker share. Each step has its own file:
     pt_compat_times.c   computes the time of each op without the ops called within, and finds the
                         op of another thread that came before it
     pt_compat_launch.c  finds which CPU op launched which device work
     pt_compat_link.c    matches host nodes to CPU ops, and assigns new ids */
#ifndef EXPORT_PT_COMPAT_LINK_H
#define EXPORT_PT_COMPAT_LINK_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A CPU event: an operator or an annotation. */
typedef struct syn__compat_op {
    double ts, end, dur, exclusive; /* µs */
    uint64_t rf_id, dep;            /* dep: rf_id of the op of another thread on which the op
                                       depends; 0: none */
    int64_t external_id;
    uint32_t event, thread; /* thread: number of the thread; threads are numbered in the order of
                               their first ops */
    uint32_t host;          /* index of the matched host node; SYN__PT_NONE: none yet */
    bool has_rf_id, ts_int, dur_int, exclusive_int;
} syn__compat_op;

typedef struct syn__compat {
    const syn__pt_host *host;
    const syn__pt_device *device;
    syn_error *err;
    syn__compat_op *ops; /* ordered by ts */
    size_t n_ops;
    syn__pt_map threads; /* string id of the "tid" in the device trace -> number of the thread */
    uint32_t n_threads;
    uint32_t *by_thread;     /* ops ordered by thread, then ts */
    uint32_t *first_of;      /* n_threads + 1 entries: index of the thread's first entry in
                                by_thread */
    uint32_t *gpu;           /* events of device work, ordered by ts */
    size_t n_gpu, n_grouped; /* n_grouped: number of events for which the launching op was found */
    syn__pt_map groups;      /* External id of the launching op -> the first entry of gpu that it
                                launched */
    uint32_t *next_gpu;      /* next entry with the same External id; SYN__PT_NONE: none */
} syn__compat;

/* Fills `exclusive` of all ops. Fails if a duration is negative. */
syn_status syn__compat_exclusive(syn__compat *c) SYN_MUST_USE;
/* Fills `dep` of all ops. */
syn_status syn__compat_threads(syn__compat *c) SYN_MUST_USE;
/* Fills gpu, groups and next_gpu. */
syn_status syn__compat_launches(syn__compat *c) SYN_MUST_USE;

/* The number of ops that start before ts. */
size_t syn__compat_before(const syn__compat *c, double ts);
/* Allocates an array of n elements, which is freed together with the linker. On failure, sets the
   error and returns NULL. */
void *syn__compat_array(syn__compat *c, size_t n, size_t elem_bytes);

#ifdef __cplusplus
}
#endif
#endif
