/* Context parallelism: attention_merge, and the copies zigzag_join and zigzag_split. */
#include "ops/cuda/walk.cuh"
#include "ops/zigzag.h"

/* ---- attention_merge: one warp per query and head of the part ---- */

enum { WARPS = 8 };

struct merging {
    float *sum, *log_sum;
    const float *part_log_sum;
    int64_t rows, queries, heads, depth; /* of the part */
    int64_t sums[3], log_sums[3], parts[3], part_log_sums[3]; /* strides; log-sum-exps: (B, H, T) */
};

template <typename T> static __global__ void merge_kernel(const merging m, const T *part) {
    const int lane = (int)threadIdx.x % SYN_WARP;
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / SYN_WARP;
    if (i >= m.rows) return;
    const int64_t b = i / (m.queries * m.heads), t = i / m.heads % m.queries, h = i % m.heads;
    float *log_sum = m.log_sum + b * m.log_sums[0] + h * m.log_sums[1] + t * m.log_sums[2];
    const float own = *log_sum, other = m.part_log_sum[b * m.part_log_sums[0] +
                                                       h * m.part_log_sums[1] +
                                                       t * m.part_log_sums[2]];
    const float most = fmaxf(own, other);
    if (most == -INFINITY) return; /* neither has a visible key: both are zero */
    const float merged = most + logf(expf(own - most) + expf(other - most));
    const float keep = expf(own - merged), add = expf(other - merged);
    float *out = m.sum + b * m.sums[0] + t * m.sums[1] + h * m.sums[2];
    const T *x = part + b * m.parts[0] + t * m.parts[1] + h * m.parts[2];
    for (int64_t d = lane; d < m.depth; d += SYN_WARP)
        out[d] = keep * out[d] + add * syn_to_float(x[d]);
    __syncwarp();
    if (lane == 0) *log_sum = merged;
}

static syn_status attention_merge_cuda(syn_call *c) {
    const syn_operand *sum = &c->out[0], *log_sum = &c->out[1];
    const syn_operand *part = &c->in[2], *other = &c->in[3];
    const int64_t first = c->attr[0].i, *n = part->spec.dims;
    merging m = {};
    m.sum = static_cast<float *>(sum->data) + first * sum->strides[1];
    m.log_sum = static_cast<float *>(log_sum->data) + first * log_sum->strides[2];
    m.part_log_sum = static_cast<const float *>(other->data);
    m.queries = n[1];
    m.heads = n[2];
    m.depth = n[3];
    m.rows = n[0] * n[1] * n[2];
    for (int d = 0; d < 3; d++) {
        m.sums[d] = sum->strides[d];
        m.log_sums[d] = log_sum->strides[d];
        m.parts[d] = part->strides[d];
        m.part_log_sums[d] = other->strides[d];
    }
    if (m.rows == 0) return SYN_OK;
    const unsigned blocks = (unsigned)((m.rows + WARPS - 1) / WARPS);
    SYN_WITH_FLOAT(part->spec.dtype, T,
                   SYN_LAUNCH(merge_kernel<T>, blocks, WARPS * SYN_WARP, 0,
                              syn__cuda_of(c)->stream, m, static_cast<const T *>(part->data)));
    return syn__launched(c);
}

/* ---- zigzag_join and zigzag_split ---- */

static syn_status copy_pieces(syn_call *c, bool join) {
    const syn_operand *whole = join ? &c->out[0] : &c->in[0];
    const syn_operand *parts = join ? &c->in[0] : &c->out[0];
    const int axis = (int)c->attr[0].i;
    const int64_t n = 2 * parts->spec.dims[0], length = whole->spec.dims[axis] / n;
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)whole->spec.dtype);
    for (int64_t i = 0; i < n; i++) {
        const syn_operand a = syn__piece_of_whole(whole, axis, i, length, elem),
                          b = syn__piece_of_parts(parts, axis, i, length, elem);
        if (join) syn__cuda_copy(c, &a, &b);
        else syn__cuda_copy(c, &b, &a);
    }
    return syn__launched(c);
}

static syn_status zigzag_join_cuda(syn_call *c) {
    return copy_pieces(c, true);
}

static syn_status zigzag_split_cuda(syn_call *c) {
    return copy_pieces(c, false);
}

const syn__cuda_row syn__cuda_context[] = {{SYN_OP_ATTENTION_MERGE, attention_merge_cuda},
                                           {SYN_OP_ZIGZAG_JOIN, zigzag_join_cuda},
                                           {SYN_OP_ZIGZAG_SPLIT, zigzag_split_cuda},
                                           {SYN_OP_NONE, NULL}};
