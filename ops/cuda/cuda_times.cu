/* Measures with CUDA events when the work of nodes ran, and converts device times to the host's
   monotonic clock (cuda_device.h). */
#include "ops/cuda/cuda_device.h"
#include "syntorch/base/clock.h"

enum { DRIFT_NS = 10000000, DRIFT_SYNCS = 64, TRIES = 16 };

/* Nanoseconds between two events. CUDA returns milliseconds as float, so the events should be
   close to each other. */
static uint64_t between_ns(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess || ms < 0) return 0;
    return (uint64_t)((double)ms * 1e6 + 0.5);
}

/* The host learns of each event with a delay that varies. Of several estimates of the first event's
   time, the smallest is the most accurate. An estimate that is too late would have to be corrected
   at a later sync, and work after that sync could then appear to run before work that it waited
   for. */
syn_status syn__cuda_times_open(syn__cuda_times *t, cudaStream_t stream, syn_error *err) {
    for (int i = 0; i < 2; i++) SYN_CUDA(cudaEventCreate(&t->anchors[i]), "an event", err);
    for (int i = 0; i < TRIES; i++) {
        cudaEvent_t event = t->anchors[i > 0];
        SYN_CUDA(cudaEventRecord(event, stream), "an event", err);
        SYN_CUDA(cudaEventSynchronize(event), "an event", err);
        const uint64_t seen_ns = syn__clock_ns();
        const uint64_t estimate_ns = i > 0 ? seen_ns - between_ns(t->anchors[0], event) : seen_ns;
        if (i == 0 || estimate_ns < t->anchor_ns) t->anchor_ns = estimate_ns;
    }
    return SYN_OK;
}

void syn__cuda_times_close(syn__cuda_times *t) {
    for (uint32_t i = 0; i < t->n_events; i++) cudaEventDestroy(t->mark[i]);
    for (int i = 0; i < 2; i++)
        if (t->anchors[i]) cudaEventDestroy(t->anchors[i]);
}

/* Records a mark at the current position of the stream and returns its number. */
uint32_t syn__cuda_times_mark(syn__cuda_times *t, cudaStream_t stream) {
    const uint32_t i = t->n_marks++;
    if (i == t->n_events) {
        t->mark[i] = NULL;
        if (cudaEventCreate(&t->mark[i]) == cudaSuccess) t->n_events++;
    }
    if (i < t->n_events) cudaEventRecord(t->mark[i], stream);
    t->idle = true;
    return i;
}

bool syn__cuda_times_begin(syn__cuda_times *t, cudaStream_t stream, uint32_t node, int segment,
                           int op) {
    if (t->n_marks + 2 > SYN__CUDA_MARKS) return false;
    syn__cuda_span *span = &t->spans[t->n_spans];
    span->node = node;
    span->segment = segment;
    span->op = op;
    span->begins = t->idle ? t->n_marks - 1 : syn__cuda_times_mark(t, stream);
    return true;
}

void syn__cuda_times_end(syn__cuda_times *t, cudaStream_t stream) {
    t->spans[t->n_spans++].ends = syn__cuda_times_mark(t, stream);
}

uint64_t syn__cuda_times_between(const syn__cuda_times *t, uint32_t from, uint32_t to) {
    return from < to && to < t->n_events ? between_ns(t->mark[from], t->mark[to]) : 0;
}

cudaError_t syn__cuda_times_before_sync(syn__cuda_times *t, cudaStream_t stream) {
    return cudaEventRecord(t->anchors[1], stream);
}

/* Divides the time of a graph among its ops, in proportion to their times when launched alone. */
static void give_shares(const syn__cuda_span *span, uint64_t begin_ns, uint64_t wall_ns,
                        struct syn_ctx *ctx, syn__graphs *graphs) {
    const int n = syn__graphs_ops(graphs, span->segment);
    double all = 0, before = 0;
    for (int i = 0; i < n; i++) all += *syn__graphs_ns(graphs, span->segment, i);
    for (int i = 0; i < n; i++) {
        const double one = all > 0 ? *syn__graphs_ns(graphs, span->segment, i) / all : 1.0 / n;
        const uint64_t from = (uint64_t)(before * (double)wall_ns);
        before += one;
        syn__cuda_host->set_time(ctx, span->node + syn__graphs_distance(graphs, span->segment, i),
                                 begin_ns + from, (uint64_t)(one * (double)wall_ns), 0);
    }
}

static void give(const syn__cuda_span *span, uint64_t begin_ns, uint64_t wall_ns,
                 struct syn_ctx *ctx, syn__graphs *graphs) {
    if (span->segment >= 0 && span->op < 0) {
        give_shares(span, begin_ns, wall_ns, ctx, graphs);
        return;
    }
    if (span->segment >= 0 && span->op < syn__graphs_ops(graphs, span->segment))
        *syn__graphs_ns(graphs, span->segment, span->op) = (float)wall_ns;
    syn__cuda_host->set_time(ctx, span->node, begin_ns, wall_ns, 0);
}

/* Computes the time at a mark as a sum from mark to mark, because each mark is close to the
   previous one. */
typedef struct cursor {
    cudaEvent_t last;
    uint64_t now_ns;
    uint32_t at;
} cursor;

static uint64_t when(const syn__cuda_times *t, cursor *c, uint32_t mark) {
    for (; c->at <= mark; c->at++) {
        c->now_ns += between_ns(c->last, t->mark[c->at]);
        c->last = t->mark[c->at];
    }
    return c->now_ns;
}

static void give_spans(syn__cuda *d) {
    const syn__cuda_times *t = &d->times;
    cursor c = {t->anchors[0], t->anchor_ns, 0};
    for (uint32_t i = 0; i < t->n_spans && t->spans[i].ends < t->n_events; i++) {
        const syn__cuda_span *span = &t->spans[i];
        const uint64_t begin_ns = when(t, &c, span->begins);
        give(span, begin_ns, syn__cuda_times_between(t, span->begins, span->ends), d->ctx,
             d->graphs);
        syn__cuda_work_report(d, i, begin_ns);
    }
}

static void give_unowned(syn__cuda *d) {
    const syn__cuda_times *t = &d->times;
    cursor c = {t->anchors[0], t->anchor_ns, 0};
    for (size_t i = 0; i < d->work.n_unowned && d->work.unowned[i].ends < t->n_events; i++) {
        syn__cuda_unowned *b = &d->work.unowned[i];
        if (b->it.piece.kind != SYN_PIECE_WAIT) {
            b->it.piece.start_ns = when(t, &c, b->begins);
            b->it.piece.wall_ns = syn__cuda_times_between(t, b->begins, b->ends);
        }
        syn__cuda_host->add_unowned(d->ctx, &b->it);
    }
}

/* Advances the anchor by the device's clock, so that times before and after a sync are consistent.
   The host sees the end of a sync late, by any time if it has no free core, so a single delay is no
   drift of the clocks. If the smallest delay of many syncs is large, it is. */
static void advance_anchor(syn__cuda_times *t, uint64_t synced_ns) {
    t->anchor_ns += between_ns(t->anchors[0], t->anchors[1]);
    const uint64_t delay_ns = synced_ns > t->anchor_ns ? synced_ns - t->anchor_ns : 0;
    if (t->n_syncs == 0 || delay_ns < t->delay_ns) t->delay_ns = delay_ns;
    t->n_syncs++;
    if (synced_ns < t->anchor_ns) { /* the device's clock is faster */
        t->anchor_ns = synced_ns;
        t->n_syncs = 0;
    } else if (t->n_syncs == DRIFT_SYNCS) {
        if (t->delay_ns > DRIFT_NS) t->anchor_ns += t->delay_ns;
        t->n_syncs = 0;
    }
}

void syn__cuda_times_finish(syn__cuda *d, uint64_t synced_ns) {
    syn__cuda_times *t = &d->times;
    if (synced_ns > 0) {
        give_spans(d);
        give_unowned(d);
        advance_anchor(t, synced_ns);
    } else t->anchor_ns = syn__clock_ns();
    syn__cuda_work_clear(&d->work);
    t->n_spans = t->n_marks = 0;
    t->idle = false;
    const cudaEvent_t last = t->anchors[0];
    t->anchors[0] = t->anchors[1];
    t->anchors[1] = last;
}
