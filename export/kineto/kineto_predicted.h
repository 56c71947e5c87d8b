/* Makes up the work that a GPU would do for a rank whose times were predicted
   (syntorch/graph/work.h), so that it can be written like the work of a real GPU. */
#ifndef EXPORT_KINETO_PREDICTED_H
#define EXPORT_KINETO_PREDICTED_H

#include "export/walk/graph_walk.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of multiprocessors of the GPU for which the times are predicted, from the metadata entry
   "multiprocessors". 0 if absent. */
int64_t syn__kineto_multiprocessors(const syn_graph *graph);
/* Whether the times are predictions for a GPU. */
bool syn__kineto_predicts_gpu(const syn_graph *graph, const syn__timeline *timeline);

/* Makes the work of the walk's selected rank, which the caller frees. Each op is one kernel, which
   lasts as long as the op's span, on one stream per stream of the graph. The host runs ahead of the
   device and waits for it at the end of each step. Each step is therefore longer than in the
   timeline by the time from its first call to the kernel of that call. Nodes whose ids exceed 32
   bits get no work. */
syn_status syn__kineto_predict_work(syn_work *out, const syn__timeline *timeline, syn__walk *walk,
                                    syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
