/* Shared by the steps of the compat linker:
     pt_compat_times.c   an op's own time; what another thread did before it
     pt_compat_launch.c  which CPU op launched which device work
     pt_compat_link.c    matches host nodes to CPU ops, assigns new ids */
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
    uint64_t rf_id, dep;            /* dep: the rf_id of an op on another thread; 0: none */
    int64_t external_id;
    uint32_t event, thread; /* thread: numbered in order of their first ops */
    uint32_t host;          /* index of the host node matched so far; SYN__PT_NONE: none */
    bool has_rf_id, ts_int, dur_int, exclusive_int;
} syn__compat_op;

typedef struct syn__compat {
    const syn__pt_host *host;
    const syn__pt_device *device;
    syn_error *err;
    syn__compat_op *ops; /* ordered by ts */
    size_t n_ops;
    syn__pt_map threads; /* tid, as a string id of the device trace, -> thread */
    uint32_t n_threads;
    uint32_t *by_thread;     /* ops ordered by thread, then ts */
    uint32_t *first_of;      /* n_threads + 1 entries: first entry of by_thread */
    uint32_t *gpu;           /* events of device work, ordered by ts */
    size_t n_gpu, n_grouped; /* n_grouped: those with an op that launched them */
    syn__pt_map groups;      /* External id of the launching op -> its first entry of gpu */
    uint32_t *next_gpu;      /* next entry with the same External id; SYN__PT_NONE: none */
} syn__compat;

/* Fills `exclusive`. Fails if one is negative. */
syn_status syn__compat_exclusive(syn__compat *c) SYN_MUST_USE;
/* Fills `dep`. */
syn_status syn__compat_threads(syn__compat *c) SYN_MUST_USE;
/* Fills gpu, groups and next_gpu. */
syn_status syn__compat_launches(syn__compat *c) SYN_MUST_USE;

/* The number of ops that start before ts. */
size_t syn__compat_before(const syn__compat *c, double ts);
/* Allocates an array of n elements that lives as long as the linker. On failure sets the error and
   returns NULL. */
void *syn__compat_array(syn__compat *c, size_t n, size_t elem_bytes);

#ifdef __cplusplus
}
#endif
#endif
