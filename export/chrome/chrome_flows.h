/* Flow events (arrows) between ranks: from a send to its receive, and from rank to rank of a
   collective, in the order in which the ranks finish it. */
#ifndef EXPORT_CHROME_FLOWS_H
#define EXPORT_CHROME_FLOWS_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One point of an arrow, which is attached to a node. */
typedef struct syn__chrome_flow {
    uint32_t rank, node; /* indices */
    uint64_t id;         /* from 1 */
    char phase;          /* 's' start, 't' step, 'f' finish */
    bool message;
} syn__chrome_flow;

typedef struct syn__chrome_flows {
    syn__chrome_flow *at; /* sorted by rank and node */
    size_t n, cap;
} syn__chrome_flows;

/* Makes the arrows between all nodes in the timeline, except those that would point back in time.
   The caller frees *out in all cases. */
syn_status syn__chrome_flows_make(syn__chrome_flows *out, const syn__timeline *timeline,
                                  syn__walk *walk, syn_error *err) SYN_MUST_USE;
void syn__chrome_flows_free(syn__chrome_flows *flows);
/* The flow event that is attached to a node; NULL if there is none. */
const syn__chrome_flow *syn__chrome_flow_of(const syn__chrome_flows *flows, uint32_t rank_index,
                                            uint32_t node);
/* The timestamp for the end of an arrow: just before the end of the slice, so that viewers attach
   the arrow to it. */
static inline int64_t syn__chrome_arrow_end(int64_t start, int64_t end) {
    return end > start ? end - 1 : start;
}

#ifdef __cplusplus
}
#endif
#endif
