/* AdamW for a list of parameters in one launch. Each value is read and written once. */
#include "ops/cuda/lists.cuh"

enum { THREADS = 256, PIECE = 4096, WIDE = 4 };

/* Uses the names of syn_adamw in ops/rows.h. rates and scale are in device memory. */
struct adamw {
    void *p[SYN_MAX_PARAMS];
    const float *g[SYN_MAX_PARAMS];
    int64_t before[SYN_MAX_PARAMS + 1]; /* number of elements in the tensors before each one */
    syn_pieces pieces;
    float *m, *v, *masters; /* all tensors, one after the other; masters NULL: p is f32 */
    const float *rates, *scale;
    float beta1, rest1, beta2, rest2, eps, decay;
    uint64_t decayed;         /* bit t: weight decay for tensor t */
    const int64_t *n_decayed; /* in device memory; not NULL: replaces `decayed` */
};

/* The first n_decayed elements of m, v and masters have weight decay. */
struct step {
    float scale, rate, root, shrink;
    int64_t n_decayed;
};

/* An element and its moments. */
struct state {
    float x, m, v;
};

static __device__ __forceinline__ state adamw_one(const adamw &a, const step &s, float shrink,
                                                  state old, float g) {
    const float d = s.scale * g;
    const float m = fmaf(a.beta1, old.m, a.rest1 * d);
    const float v = fmaf(a.beta2, old.v, a.rest2 * (d * d));
    const state now = {shrink * old.x - s.rate * (m / fmaf(s.root, sqrtf(v), a.eps)), m, v};
    return now;
}

/* Updates W elements, beginning with element `from` of tensor t, which is element `at` of m, v and
   masters. P: float, or a 16-bit type if there are masters. */
template <typename P, int W>
static __device__ __forceinline__ void adamw_pack(const adamw &a, const step &s, int t,
                                                  int64_t from, int64_t at) {
    P *p = static_cast<P *>(a.p[t]) + from;
    float *exact = a.masters ? a.masters + at : reinterpret_cast<float *>(p);
    const syn_pack<float, W> g = syn_load<float, W>(a.g[t] + from);
    syn_pack<float, W> m = syn_load<float, W>(a.m + at), v = syn_load<float, W>(a.v + at);
    syn_pack<float, W> x = syn_load<float, W>(exact);
#pragma unroll
    for (int i = 0; i < W; i++) {
        const state old = {x.at[i], m.at[i], v.at[i]};
        const float shrink = at + i < s.n_decayed ? s.shrink : 1.0f;
        const state now = adamw_one(a, s, shrink, old, g.at[i]);
        x.at[i] = now.x;
        m.at[i] = now.m;
        v.at[i] = now.v;
    }
    syn_store(a.m + at, m);
    syn_store(a.v + at, v);
    syn_store(exact, x);
    if (!a.masters) return;
    syn_pack<P, W> narrow;
#pragma unroll
    for (int i = 0; i < W; i++) narrow.at[i] = syn_from_float<P>(x.at[i]);
    syn_store(p, narrow);
}

template <typename P>
static __device__ __forceinline__ bool packs_fit(const adamw &a, int t, int64_t at) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(a.m + at) |
                          reinterpret_cast<uintptr_t>(a.v + at) |
                          reinterpret_cast<uintptr_t>(a.g[t]) |
                          (a.masters ? reinterpret_cast<uintptr_t>(a.masters + at) : 0);
    return all % (WIDE * sizeof(float)) == 0 &&
           reinterpret_cast<uintptr_t>(a.p[t]) % (WIDE * sizeof(P)) == 0;
}

template <typename P> static __global__ void adamw_kernel(const adamw a) {
    const int t = syn_piece_tensor(a.pieces, blockIdx.x), tid = (int)threadIdx.x;
    const int64_t from = ((int64_t)blockIdx.x - a.pieces.first[t]) * PIECE, before = a.before[t];
    const int64_t left = a.before[t + 1] - before - from;
    const int n = (int)(left < PIECE ? left : (int64_t)PIECE);
    const int64_t n_decayed = a.n_decayed ? *a.n_decayed : a.decayed >> t & 1 ? INT64_MAX : 0;
    const step s = {*a.scale, a.rates[1], a.rates[2], 1.0f - a.rates[0] * a.decay, n_decayed};
    if (!(s.scale > 0)) return; /* NaN or 0: changes nothing, see syn_adamw_step */
    const int packed = packs_fit<P>(a, t, before) ? n / WIDE * WIDE : 0;
    for (int i = tid * WIDE; i < packed; i += THREADS * WIDE)
        adamw_pack<P, WIDE>(a, s, t, from + i, before + from + i);
    for (int i = packed + tid; i < n; i += THREADS)
        adamw_pack<P, 1>(a, s, t, from + i, before + from + i);
}

static syn_status adamw_cuda(syn_call *c) {
    const int32_t dtype = c->in[0].spec.dtype;
    const int written = (int)c->attr[0].i, k = written - (dtype == SYN_F32 ? 2 : 3);
    adamw a = {};
    for (int t = 0; t < k; t++) {
        a.p[t] = c->out[t].data;
        a.g[t] = static_cast<const float *>(c->in[written + t].data);
        a.before[t + 1] = a.before[t] + syn_elems(&c->in[t].spec);
    }
    a.pieces = syn_pieces_of(c->in, k, PIECE);
    a.m = static_cast<float *>(c->out[k].data);
    a.v = static_cast<float *>(c->out[k + 1].data);
    if (dtype != SYN_F32) a.masters = static_cast<float *>(c->out[k + 2].data);
    const int rest = written + k;
    a.rates = static_cast<const float *>(c->in[rest].data);
    a.scale = static_cast<const float *>(c->in[rest + 1].data);
    if (rest + 2 < c->n_in) a.n_decayed = static_cast<const int64_t *>(c->in[rest + 2].data);
    a.beta1 = (float)c->attr[1].f;
    a.rest1 = (float)(1 - c->attr[1].f);
    a.beta2 = (float)c->attr[2].f;
    a.rest2 = (float)(1 - c->attr[2].f);
    a.eps = (float)c->attr[3].f;
    a.decay = (float)c->attr[4].f;
    a.decayed = (uint64_t)c->attr[5].i;
    const unsigned blocks = syn_blocks(a.pieces.first[k], 1, 1);
    SYN_WITH_FLOAT(dtype, P,
                   SYN_LAUNCH(adamw_kernel<P>, blocks, THREADS, 0, syn__cuda_of(c)->stream, a));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_optimizer[] = {{SYN_OP_ADAMW, adamw_cuda}, {SYN_OP_NONE, NULL}};
