/* The state that the finders of dependencies share. */
#ifndef EXPORT_PT_EDGES_H
#define EXPORT_PT_EDGES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_connector {
    syn__pt_rank *rank;
    const syn_pytorch_options *options;
    int64_t gap_ns; /* if a thread is idle for longer than this, another thread is assumed to have
                       woken it up */
    syn_error *err;
    int64_t *when;         /* per op: its start; if unknown, the start of the previous op of its
                              thread or stream */
    uint32_t *track_first; /* per track (thread or stream): index of its first entry in track_ops;
                             one more element has the end */
    uint32_t *track_ops;   /* ops ordered by track, `when` and index */
} syn__pt_connector;

static inline bool syn__pt_wants(const syn__pt_connector *c, syn_pytorch_edge_class class_) {
    return !(c->options->without >> class_ & 1u) || class_ == SYN_PYTORCH_EDGE_CALL ||
           class_ == SYN_PYTORCH_EDGE_PROGRAM;
}
/* Adds an edge if its class is selected. Does nothing if an op is SYN__PT_NONE. */
syn_status syn__pt_add_edge(syn__pt_connector *c, uint32_t from, uint32_t to,
                            syn_pytorch_edge_class class_);

#ifdef __cplusplus
}
#endif
#endif
