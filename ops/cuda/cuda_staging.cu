/* Copies between host and device memory through pinned staging memory (cuda_device.h). */
#include <string.h>

#include "ops/cuda/cuda_device.h"

syn_status syn__cuda_staging_open(syn__cuda_staging *s, syn_error *err) {
    for (int i = 0; i < 2; i++) {
        SYN_CUDA(cudaMallocHost((void **)&s->in[i], SYN__STAGED_IN), "staging memory", err);
        SYN_CUDA(cudaEventCreateWithFlags(&s->done[i], cudaEventDisableTiming), "an event", err);
    }
    SYN_CUDA(cudaMallocHost((void **)&s->out, SYN__STAGED_OUT), "staging memory", err);
    return SYN_OK;
}

void syn__cuda_staging_close(syn__cuda_staging *s) {
    for (int i = 0; i < 2; i++) {
        if (s->in[i]) cudaFreeHost(s->in[i]);
        if (s->done[i]) cudaEventDestroy(s->done[i]);
    }
    if (s->out) cudaFreeHost(s->out);
}

static syn_status next_half(syn__cuda_staging *s, cudaStream_t stream, syn_error *err) {
    SYN_CUDA(cudaEventRecord(s->done[s->half], stream), "an event", err);
    s->half = 1 - s->half;
    s->in_used = 0;
    SYN_CUDA(cudaEventSynchronize(s->done[s->half]), "waiting for a copy", err);
    return SYN_OK;
}

syn_status syn__cuda_staging_in(syn__cuda_staging *s, cudaStream_t stream, void *to,
                                const void *from, size_t bytes, syn_error *err) {
    for (size_t done = 0, n; done < bytes; done += n) {
        if (s->in_used == SYN__STAGED_IN) SYN_TRY(next_half(s, stream, err));
        const size_t left = SYN__STAGED_IN - s->in_used;
        n = bytes - done < left ? bytes - done : left;
        char *piece = s->in[s->half] + s->in_used;
        memcpy(piece, (const char *)from + done, n);
        s->in_used += n;
        SYN_CUDA(cudaMemcpyAsync((char *)to + done, piece, n, cudaMemcpyHostToDevice, stream),
                 "a copy to the device", err);
    }
    return SYN_OK;
}

syn_status syn__cuda_staging_out(syn__cuda_staging *s, cudaStream_t stream, void *to,
                                 const void *from, size_t bytes, syn_error *err) {
    if (bytes == 0) return SYN_OK;
    const bool staged = bytes <= SYN__STAGED_OUT - s->out_used && s->n_out < SYN__STAGED_COPIES;
    char *at = staged ? s->out + s->out_used : (char *)to;
    SYN_CUDA(cudaMemcpyAsync(at, from, bytes, cudaMemcpyDeviceToHost, stream),
             "a copy from the device", err);
    if (!staged) return SYN_OK;
    s->copies[s->n_out].to = to;
    s->copies[s->n_out].from = at;
    s->copies[s->n_out++].bytes = bytes;
    s->out_used += bytes;
    return SYN_OK;
}

void syn__cuda_staging_finish(syn__cuda_staging *s) {
    for (int i = 0; i < s->n_out; i++)
        memcpy(s->copies[i].to, s->copies[i].from, s->copies[i].bytes);
    s->n_out = 0;
    s->out_used = 0;
}
