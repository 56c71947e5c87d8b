#include "ops/cuda/cuda_device.h"
#include "syntorch/clock.h"

syn_status syn__cuda_times_open(syn__cuda_times *t, cudaStream_t stream, syn_error *err) {
    for (int i = 0; i < 2; i++) SYN_CUDA(cudaEventCreate(&t->anchors[i]), "an event", err);
    SYN_CUDA(cudaEventRecord(t->anchors[0], stream), "an event", err);
    SYN_CUDA(cudaEventSynchronize(t->anchors[0]), "an event", err);
    t->anchor_ns = syn__clock_ns();
    return SYN_OK;
}

void syn__cuda_times_close(syn__cuda_times *t) {
    for (uint32_t i = 0; i < t->n_events; i++) cudaEventDestroy(t->mark[i]);
    for (int i = 0; i < 2; i++)
        if (t->anchors[i]) cudaEventDestroy(t->anchors[i]);
}

/* Number of a mark where the stream is now. */
static uint32_t mark(syn__cuda_times *t, cudaStream_t stream) {
    const uint32_t i = t->n_marks++;
    if (i == t->n_events) {
        t->mark[i] = NULL;
        if (cudaEventCreate(&t->mark[i]) == cudaSuccess) t->n_events++;
    }
    if (i < t->n_events) cudaEventRecord(t->mark[i], stream);
    t->idle = true;
    return i;
}

bool syn__cuda_times_begin(syn__cuda_times *t, cudaStream_t stream, uint32_t node) {
    if (t->n_marks + 2 > SYN__CUDA_MARKS) return false;
    syn__cuda_span *span = &t->spans[t->n_spans];
    span->node = node;
    span->begins = t->idle ? t->n_marks - 1 : mark(t, stream);
    return true;
}

void syn__cuda_times_end(syn__cuda_times *t, cudaStream_t stream) {
    t->spans[t->n_spans++].ends = mark(t, stream);
}

/* Nanoseconds from one event to another; times are floats of milliseconds, so the events should be
   near each other. */
static uint64_t between_ns(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess || ms < 0) return 0;
    return (uint64_t)((double)ms * 1e6 + 0.5);
}

cudaError_t syn__cuda_times_before_sync(syn__cuda_times *t, cudaStream_t stream) {
    return cudaEventRecord(t->anchors[1], stream);
}

void syn__cuda_times_finish(syn__cuda_times *t, struct syn_ctx *ctx) {
    const uint64_t synced_ns = syn__clock_ns();
    /* From mark to mark, as each is near the one before. */
    cudaEvent_t last = t->anchors[0];
    uint64_t now_ns = t->anchor_ns;
    uint32_t at = 0;
    for (uint32_t i = 0; ctx && i < t->n_spans && t->spans[i].ends < t->n_events; i++) {
        const syn__cuda_span *span = &t->spans[i];
        for (; at <= span->begins; at++) {
            now_ns += between_ns(last, t->mark[at]);
            last = t->mark[at];
        }
        const uint64_t wall_ns = between_ns(t->mark[span->begins], t->mark[span->ends]);
        syn__cuda_host->set_time(ctx, span->node, now_ns, wall_ns, 0);
    }
    t->n_spans = t->n_marks = 0;
    t->idle = false;
    last = t->anchors[0];
    t->anchors[0] = t->anchors[1];
    t->anchors[1] = last;
    t->anchor_ns = synced_ns;
}
