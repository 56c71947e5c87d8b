/* Inside of the matching of host nodes and device events (pt_match.c, pt_align.c,
   pt_launch.c, pt_ops.c). */
#ifndef EXPORT_PT_MATCH_H
#define EXPORT_PT_MATCH_H

#include "export/pytorch/rank/pt_comm.h"
#include "export/pytorch/read/pt_names.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_matcher {
    syn__pt_rank *rank;
    const syn__pt_options *options;
    syn__pt_report *report;
    syn_error *err;
    uint32_t *order;   /* host nodes ascending by id, equal ids in file order */
    uint32_t *place;   /* per host node: its place in that order */
    syn__pt_map by_id; /* id to host node */
    uint32_t *parent;  /* per host node: the parent's node, SYN__PT_NONE */
    uint32_t *late;    /* nodes whose parent comes after them */
    size_t n_late, late_cap;
    uint32_t *node_event; /* per host node: its CPU event */
    uint32_t *event_node; /* per event: of a CPU event its host node; of a runtime event the node
                             that called it; of device work the node that launched it */
    uint32_t *launch;     /* per event: of device work its runtime event */
    syn_intern names;     /* of both files, decoded */
    uint32_t *host_name, *event_name; /* per name of a file: its id among those */
    bool distrust;                    /* record function ids are not believed */
    uint32_t *around;                 /* per host node: the node around it by time; SYN__PT_NONE */
    uint8_t *guessed;                 /* per event: its event_node is a guess by time */
    uint8_t *detached; /* per host node: an op of a communication library that runs beside the
                          thread that called it, not within its caller */
    int64_t *self_ns;  /* per host node */
    uint32_t *scratch; /* per event */
} syn__pt_matcher;

static inline bool syn__pt_is_cpu(const syn__pt_event *e) {
    return e->class_ == SYN__PT_CPU_OP || e->class_ == SYN__PT_STEP;
}
static inline bool syn__pt_is_gpu(const syn__pt_event *e) {
    return e->class_ == SYN__PT_KERNEL || e->class_ == SYN__PT_MEMCPY ||
           e->class_ == SYN__PT_MEMSET;
}
static inline int64_t syn__pt_event_end(const syn__pt_event *e) {
    return e->dur_ns > 0 && e->ts_ns <= INT64_MAX - e->dur_ns ? e->ts_ns + e->dur_ns : e->ts_ns;
}
/* Whether the event is an op of a communication library that outlasts the op which it began in: by
   more than whole microseconds make of it. */
static inline bool syn__pt_runs_beside(const syn__pt_rank *rank, const syn__pt_event *e,
                                       int64_t outer_end_ns) {
    const int64_t end_ns = syn__pt_event_end(e);
    return end_ns > outer_end_ns && end_ns - outer_end_ns > 1000 &&
           syn__pt_is_library_call(syn__pt_device_name(&rank->device, e->name));
}
/* Of a host node, in the rank's place. */
void syn__pt_note_node(const syn__pt_matcher *m, syn__pt_anomaly kind, uint32_t node);
void syn__pt_note_event(const syn__pt_matcher *m, syn__pt_anomaly kind, uint32_t event);

/* Whether the event is a CPU event that may be matched by other than its record function id. */
bool syn__pt_is_free(const syn__pt_matcher *m, uint32_t event);
/* pt_align.c: pairs free nodes and events by name and order. */
syn_status syn__pt_align(syn__pt_matcher *m);

/* pt_launch.c: sorts a list of n events by thread (if by_thread), begin, and outer ones first. */
syn_status syn__pt_sort_calls(const syn__pt_rank *rank, uint32_t *list, size_t n, bool by_thread,
                              syn_error *err) SYN_MUST_USE;
/* pt_launch.c: fills event_node of runtime and device events, launch, self_ns. */
syn_status syn__pt_find_launches(syn__pt_matcher *m);
/* pt_detach.c: pairs libraries' nodes and events that are free, by name and order, where there are
   as many of a name. */
syn_status syn__pt_pair_library_ops(syn__pt_matcher *m);
/* pt_detach.c: finds ops that ran in threads of communication libraries, and the true callers of
   those whose callers these had muddled. */
syn_status syn__pt_find_detached(syn__pt_matcher *m);
/* pt_linked.c, of a trace that a linker has written: device nodes become events; they and host
   nodes find each other; edges that the linker found. */
syn_status syn__pt_split_linked(syn__pt_matcher *m);
syn_status syn__pt_take_linked(syn__pt_matcher *m);
syn_status syn__pt_connect_linked(syn__pt_matcher *m);
/* pt_ops.c: makes the rank's ops and lanes of what was found. */
syn_status syn__pt_make_ops(syn__pt_matcher *m);

#ifdef __cplusplus
}
#endif
#endif
