/* Collectives and messages. Their kernel functions only describe the operation, and comm/cuda runs
   it. Also the kernel that converts between rows and the ranks' blocks. */
#include "comm/cuda/cuda_comm.h"
#include "ops/cuda/device.cuh"

/* Reuses the CPU's kernel, which only describes the operation and touches no data. */
static syn_status described_cuda(syn_call *c) {
    return c->def->cpu(c);
}

/* Describes one segment, the array of all parts. comm/cuda converts rows to blocks. */
static void describe(syn_call *c, const syn_operand *all, const syn_operand *part) {
    c->segments[0].in = c->in[0].data;
    c->segments[0].out = c->out[0].data;
    c->segments[0].n_elems = (size_t)syn_spec_elems(&all->spec);
    c->comm_call = syn_comm_call();
    c->comm_call.kind = c->def->comm;
    c->comm_call.dtype = (syn_dtype)part->spec.dtype;
    c->comm_call.n_segments = 1;
    c->comm_call.group = c->group;
    c->comm_call.segments = c->segments;
    c->comm_call.part = part->data;
    c->comm_call.n_part = (size_t)syn_spec_elems(&part->spec);
}

static syn_status all_gather_cuda(syn_call *c) {
    describe(c, &c->out[0], &c->in[0]);
    return SYN_OK;
}

static syn_status reduce_scatter_cuda(syn_call *c) {
    describe(c, &c->in[0], &c->out[0]);
    c->comm_call.reduce = (syn_reduce)c->attr[0].i;
    return SYN_OK;
}

/* Converts blocks [n][outer][inner] to rows [outer][n][inner], or back. Each thread moves one word
   of type W; `inner` is in words. */
template <typename W>
static __global__ void interleave(const W *from, W *to, int64_t n, int64_t outer, int64_t inner,
                                  bool to_rows) {
    const int64_t all = n * outer * inner, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        const int64_t at = i / inner, o = at / n, r = at % n; /* i is the index within rows */
        const int64_t block = (r * outer + o) * inner + i % inner;
        if (to_rows) to[i] = from[block];
        else to[block] = from[i];
    }
}

template <typename W>
static void launch_interleave(cudaStream_t stream, const void *from, void *to, int64_t n,
                              int64_t outer, int64_t inner_bytes, bool to_rows) {
    const int64_t inner = inner_bytes / (int64_t)sizeof(W);
    SYN_LAUNCH(interleave<W>, syn_blocks(n * outer * inner, 256, 1), 256, 0, stream,
               static_cast<const W *>(from), static_cast<W *>(to), n, outer, inner, to_rows);
}

syn_status syn__cuda_interleave(cudaStream_t stream, const void *from, void *to, int64_t n,
                                int64_t outer, int64_t inner_bytes, bool to_rows, syn_error *err) {
    const uint64_t bits =
        (uint64_t)(uintptr_t)from | (uint64_t)(uintptr_t)to | (uint64_t)inner_bytes;
    if (bits % 16 == 0) launch_interleave<uint4>(stream, from, to, n, outer, inner_bytes, to_rows);
    else if (bits % 4 == 0)
        launch_interleave<uint32_t>(stream, from, to, n, outer, inner_bytes, to_rows);
    else launch_interleave<uint16_t>(stream, from, to, n, outer, inner_bytes, to_rows);
    SYN_CUDA(cudaGetLastError(), "a launch", err);
    return SYN_OK;
}

const syn__cuda_row syn__cuda_comm_rows[] = {
    {SYN_OP_ALL_REDUCE, described_cuda},
    {SYN_OP_ALL_REDUCE_COALESCED, described_cuda},
    {SYN_OP_ALL_GATHER, all_gather_cuda},
    {SYN_OP_ALL_TO_ALL, described_cuda},
    {SYN_OP_DEEPEP_ALL_TO_ALL, described_cuda},
    {SYN_OP_REDUCE_SCATTER, reduce_scatter_cuda},
    {SYN_OP_BROADCAST, described_cuda},
    {SYN_OP_BROADCAST_COALESCED, described_cuda},
    {SYN_OP_BARRIER, described_cuda},
    {SYN_OP_SEND, described_cuda},
    {SYN_OP_RECV, described_cuda},
    {SYN_OP_GATHER_TOKENS, all_gather_cuda},
    {SYN_OP_REDUCE_SCATTER_COALESCED, described_cuda},
    {SYN_OP_ALL_GATHER_COALESCED, described_cuda},
    {SYN_OP_NONE, NULL},
};
