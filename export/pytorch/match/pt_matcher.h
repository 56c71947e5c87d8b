/* The state that the steps of matching share. */
#ifndef EXPORT_PT_MATCHER_H
#define EXPORT_PT_MATCHER_H

#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/read/pt_events.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_matcher {
    syn__pt_rank *rank;
    const syn_pytorch_options *options;
    syn_pytorch_note *notes;
    syn_error *err;
    uint32_t *order;   /* host nodes ordered by id; equal ids in file order */
    uint32_t *place;   /* per host node: its position in that order */
    syn__pt_map by_id; /* id -> host node */
    uint32_t *parent;  /* per host node: the index of its parent; SYN__PT_NONE: none */
    uint32_t *late;    /* nodes whose parent comes later in that order */
    size_t n_late, late_cap;
    uint32_t *node_event; /* per host node: its CPU event */
    uint32_t *event_node; /* per event. For a CPU event: its host node; for a runtime event: the
                             node that called it; for device work: the node that launched it */
    uint32_t *launch;     /* per event: for device work, its runtime event */
    syn_intern names;     /* the names of both files, decoded */
    uint32_t *host_name, *event_name; /* per name of a file: its id in `names` */
    bool distrust;                    /* the record function ids are unreliable and must not be
                                         used */
    uint32_t *around;                 /* per host node: the node that encloses it in time;
                                         SYN__PT_NONE: none */
    uint8_t *guessed;                 /* per event: 1 if its event_node is a guess by time */
    uint8_t *detached; /* per host node: 1 for an op of a communication library that runs
                          concurrently with the thread that called it, and not within its caller */
    int64_t *self_ns;  /* per host node: its duration without the ops called within */
    uint32_t *scratch; /* per event, for any step to use */
} syn__pt_matcher;

/* Whether the event is an unmatched CPU event that may be matched by something other than its
   record function id. */
static inline bool syn__pt_is_free(const syn__pt_matcher *m, uint32_t event) {
    const syn__pt_event *e = &m->rank->device.events[event];
    return syn__pt_is_cpu(e) && (m->distrust || !(e->flags & SYN__PT_EVENT_RF_ID)) &&
           m->event_node[event] == SYN__PT_NONE;
}

#ifdef __cplusplus
}
#endif
#endif
