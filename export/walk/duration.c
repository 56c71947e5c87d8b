/* The predicted duration of a run, for programs that do not need the whole timeline. */
#include "export/export.h"
#include "export/walk/timeline.h"

syn_status syn_predicted_duration(double *ns, const syn_graph *graph, syn_error *err) {
    syn__timeline t;
    *ns = 0;
    SYN_TRY(syn__timeline_make(&t, graph, NULL, NULL, err));
    for (size_t i = 0; t.clock == SYN__CLOCK_PREDICTED && i < t.span_first[t.n_ranks]; i++)
        if (t.spans[i].end_ns > *ns) *ns = t.spans[i].end_ns;
    syn__timeline_free(&t);
    return SYN_OK;
}
