/* What a GPU would do for a rank whose times were predicted, as work (syntorch/graph/work.h), so
   that it is written as the work of a real one. */
#ifndef EXPORT_KINETO_PREDICTED_H
#define EXPORT_KINETO_PREDICTED_H

#include "export/walk/graph_walk.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the GPU that times are predicted for: the fact "multiprocessors". 0: there is none. */
int64_t syn__kineto_multiprocessors(const syn_graph *graph);
/* Whether the times are predictions for a GPU. */
bool syn__kineto_predicts_gpu(const syn_graph *graph, const syn__timeline *timeline);

/* The work of the rank `walk` stands in; the caller frees it. Each op is one kernel, which lasts as
   long as the op's span, in a stream for each of the graph's. The host runs ahead of the device and
   waits for it at the end of each step. So each step is longer than in the timeline by the time
   from the first call to its kernel. Nodes whose ids exceed 32 bits have no work. */
syn_status syn__kineto_predict_work(syn_work *out, const syn__timeline *timeline, syn__walk *walk,
                                    syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
