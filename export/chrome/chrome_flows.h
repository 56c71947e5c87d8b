/* Arrows between ranks: from a send to its receive, and from rank to rank of a collective, in the
   order in which they are done with it. */
#ifndef EXPORT_CHROME_FLOWS_H
#define EXPORT_CHROME_FLOWS_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where an arrow is fixed. */
typedef struct syn__chrome_flow {
    uint32_t rank, node; /* indices */
    uint64_t id;         /* from 1 */
    char phase;          /* 's' begins, 't' goes on, 'f' ends */
    bool message;
} syn__chrome_flow;

typedef struct syn__chrome_flows {
    syn__chrome_flow *at; /* by rank and node */
    size_t n, cap;
} syn__chrome_flows;

/* Of what is shown, where time runs from the one to the other. Free *out in any case. */
syn_status syn__chrome_flows_make(syn__chrome_flows *out, const syn__timeline *timeline,
                                  syn__walk *walk, syn_error *err) SYN_MUST_USE;
void syn__chrome_flows_free(syn__chrome_flows *flows);
/* The one that is fixed to a node, or NULL. */
const syn__chrome_flow *syn__chrome_flow_of(const syn__chrome_flows *flows, uint32_t rank_index,
                                            uint32_t node);
/* Where an arrow ends: just inside the slice. */
static inline int64_t syn__chrome_arrow_end(int64_t start, int64_t end) {
    return end > start ? end - 1 : start;
}

#ifdef __cplusplus
}
#endif
#endif
