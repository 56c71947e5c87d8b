/* The predicted duration of a run, for programs that do not need the whole timeline. */
#include <stdlib.h>

#include "export/export.h"
#include "export/walk/timeline.h"
#include "syntorch/base/memory.h"

syn_status syn_predicted_duration(double *ns, const syn_graph *graph, syn_error *err) {
    syn__timeline t;
    *ns = 0;
    SYN_TRY(syn__timeline_make(&t, graph, NULL, NULL, err));
    for (size_t i = 0; t.clock == SYN__CLOCK_PREDICTED && i < t.span_first[t.n_ranks]; i++)
        if (t.spans[i].end_ns > *ns) *ns = t.spans[i].end_ns;
    syn__timeline_free(&t);
    return SYN_OK;
}

/* ---- how ranks spend this time ---- */

typedef struct interval {
    double start_ns, end_ns;
    bool is_comm;
} interval;

static int compare_starts(const void *a, const void *b) {
    const double x = ((const interval *)a)->start_ns, y = ((const interval *)b)->start_ns;
    return x < y ? -1 : x > y;
}

/* The time that is covered by at least one of the sorted intervals. */
static double covered(const interval *list, size_t n, bool with_comm) {
    double sum = 0, until = 0;
    for (size_t i = 0; i < n; i++) {
        const double from = list[i].start_ns > until ? list[i].start_ns : until;
        if ((list[i].is_comm && !with_comm) || !(list[i].end_ns > from)) continue;
        sum += list[i].end_ns - from;
        until = list[i].end_ns;
    }
    return sum;
}

static syn_status add_rank(syn_predicted_use *out, const syn__timeline *t, uint32_t place,
                           interval *list, syn_error *err) {
    const uint32_t rank = t->ranks[place];
    syn_cursor cur = {0};
    size_t n = 0;
    for (size_t i = t->span_first[place]; i < t->span_first[place + 1]; i++) {
        const syn__span *span = &t->spans[i];
        const syn_node *node =
            syn_graph_node(t->graph, rank, (uint32_t)(i - t->span_first[place]), &cur);
        if (!node) break;
        if (span->start_ns < 0) continue;
        list[n++] =
            (interval){span->start_ns + span->wait_ns, span->end_ns, node->comm != SYN_COMM_NONE};
    }
    const syn_error why = cur.error;
    syn_cursor_free(&cur);
    if (why.code != SYN_OK) return SYN_FAIL(err, why.code, "%s", why.text);
    qsort(list, n, sizeof *list, compare_starts);
    const double compute = covered(list, n, false), busy = covered(list, n, true);
    out->compute_ns += compute / t->n_ranks;
    out->comm_ns += (busy - compute) / t->n_ranks;
    return SYN_OK;
}

syn_status syn_predicted_use_of(syn_predicted_use *out, const syn_graph *graph, syn_error *err) {
    syn__timeline t;
    *out = (syn_predicted_use){0};
    SYN_TRY(syn__timeline_make(&t, graph, NULL, NULL, err));
    syn_status s = SYN_OK;
    if (t.clock == SYN__CLOCK_PREDICTED) {
        const size_t n = t.span_first[t.n_ranks];
        interval *list = syn_malloc((n + 1) * sizeof *list);
        if (!list) s = SYN_FAIL_NOMEM(err, n * sizeof *list, "a timeline");
        for (size_t i = 0; i < n; i++)
            if (t.spans[i].end_ns > out->ns) out->ns = t.spans[i].end_ns;
        for (uint32_t place = 0; place < t.n_ranks && s == SYN_OK; place++)
            s = add_rank(out, &t, place, list, err);
        syn_free(list);
        out->idle_ns = out->ns - out->compute_ns - out->comm_ns;
    }
    syn__timeline_free(&t);
    return s;
}
