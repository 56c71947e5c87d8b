/* Compares softmax, attention (as one op and as separate ops) and the KV cache with their
   definitions in double precision. */
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const double infinite = (double)INFINITY;

/* A row of -infinity gives zeros. A NaN makes its whole row NaN. */
static void softmax(const ref *x, ref *want) {
    const int64_t n = x->spec.dims[x->spec.rank - 1];
    want->spec = x->spec;
    for (int64_t at = 0; at < syn_spec_elems(&x->spec); at += n) {
        double max = -infinite, sum = 0;
        bool broken = false;
        for (int64_t i = 0; i < n; i++) {
            max = fmax(max, x->v[at + i]);
            broken = broken || isnan(x->v[at + i]);
        }
        for (int64_t i = 0; i < n; i++) sum += max == -infinite ? 1 : exp(x->v[at + i] - max);
        for (int64_t i = 0; i < n; i++)
            want->v[at + i] = broken             ? (double)NAN
                              : max == -infinite ? 0
                                                 : exp(x->v[at + i] - max) / sum;
    }
}

static void test_softmax(void) {
    static ref x, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 6, true), -5, 5);
        for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++) {
            if (round % 3 == 1 && ref_int(0, 2) == 0) x.v[i] = -infinite;
            if (round % 3 == 2) x.v[i] *= (double)3e37f;
            if (round % 10 == 1 && ref_int(0, 40) == 0) x.v[i] = (double)NAN;
        }
        softmax(&x, &want);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK(ref_check(ctx, syn_softmax(ctx, ref_wild(ctx, &x)), &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

static void test_softmax_rows(void) {
    static const double rows[][3] = {{-(double)INFINITY, -(double)INFINITY, -(double)INFINITY},
                                     {1, -(double)INFINITY, -(double)INFINITY},
                                     {3e38, 3e38, -3e38},
                                     {-3e38, -3e38, -3e38},
                                     {(double)NAN, (double)NAN, (double)NAN},
                                     {(double)NAN, -(double)INFINITY, -(double)INFINITY},
                                     {-(double)INFINITY, 2, (double)NAN},
                                     {1e-40, 0, 0},
                                     {-100, 0, 100}};
    enum { N = (int)(sizeof rows / sizeof *rows) };
    static ref x, want;
    x.spec = (syn_spec){SYN_F32, 2, {N, 3}};
    for (int i = 0; i < 3 * N; i++) x.v[i] = (double)(float)rows[i / 3][i % 3];
    softmax(&x, &want);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    CHECK(ref_check(ctx, syn_softmax(ctx, ref_dense(ctx, &x)), &want, 1e-6));
    syn_ctx_free(ctx);
}

/* Attention in double precision, one query at a time. k and v may have fewer heads than q; then
   consecutive heads of q use the same head of k and v. mask: (B, S) or NULL. */
static void attention(const ref *q, const ref *k, const ref *v, const ref *mask, double scale,
                      bool causal, int64_t offset, ref *want) {
    const int64_t *n = q->spec.dims, keys = k->spec.dims[2], depth = n[3];
    want->spec = q->spec;
    for (int64_t row = 0; row < n[0] * n[1] * n[2]; row++) {
        const int64_t head = row / n[2], t = row % n[2], groups = k->spec.dims[1];
        const int64_t shared = head / n[1] * groups + head % n[1] / (n[1] / groups);
        double w[64], max = -infinite, sum = 0;
        for (int64_t s = 0; s < keys; s++) {
            double dot = 0;
            for (int64_t d = 0; d < depth; d++)
                dot += q->v[row * depth + d] * k->v[(shared * keys + s) * depth + d];
            w[s] = causal && s > t + offset ? -infinite : dot * scale;
            if (mask) w[s] += mask->v[head / n[1] * keys + s];
            max = fmax(max, w[s]);
        }
        for (int64_t s = 0; s < keys; s++) sum += w[s] = max == -infinite ? 0 : exp(w[s] - max);
        for (int64_t d = 0; d < depth; d++) {
            double y = 0;
            for (int64_t s = 0; s < keys; s++)
                y += sum > 0 ? w[s] / sum * v->v[(shared * keys + s) * depth + d] : 0;
            want->v[row * depth + d] = y;
        }
    }
}

static void test_attention(void) {
    static ref q, k, v, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const bool zeros = round % 20 == 7;
        const int64_t t = zeros ? ref_int(0, 1) : ref_int(1, 6),
                      s = zeros ? ref_int(0, 2) : ref_int(1, 9), depth = ref_int(1, 5);
        const int64_t shared_by = round % 2 ? ref_int(1, 3) : 1, heads = ref_int(1, 3);
        const int64_t dq[4] = {ref_int(1, 3), heads * shared_by, t, depth},
                      dk[4] = {dq[0], heads, s, depth};
        ref_fill(&q, ref_spec(SYN_F32, 4, dq), -3, 3);
        ref_fill(&k, ref_spec(SYN_F32, 4, dk), -3, 3);
        ref_fill(&v, ref_spec(SYN_F32, 4, dk), -3, 3);
        const bool causal = ref_int(0, 3) > 0;
        const int64_t offset = ref_int(0, 3) ? s - t : ref_int(-3, 4);
        const double scale = ref_real(0.1, 2);
        attention(&q, &k, &v, NULL, scale, causal, offset, &want);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor tq = ref_wild(ctx, &q), tk = ref_wild(ctx, &k), tv = ref_wild(ctx, &v);
        CHECK(ref_check(ctx, syn_attention(ctx, tq, tk, tv, SYN_NO_MASK, scale, causal, offset),
                        &want, 1e-5));
        if (shared_by == 1) {
            syn_tensor w = syn_matmul(ctx, tq, tk, false, true);
            w = syn_softmax(ctx, syn_scale_mask(ctx, w, SYN_NO_MASK, scale, causal, offset));
            CHECK(ref_check(ctx, syn_matmul(ctx, w, tv, false, false), &want, 1e-5));
        }
        syn_ctx_free(ctx);
    }
}

/* Padding: each sequence hides other keys, possibly all of them. Tested with and without a causal
   mask. */
static void test_padding_mask(void) {
    static ref q, k, v, mask, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const int64_t t = ref_int(1, 6), s = ref_int(1, 12), depth = ref_int(1, 5);
        const int64_t dq[4] = {ref_int(1, 4), ref_int(1, 3), t, depth},
                      dk[4] = {dq[0], dq[1], s, depth}, dm[2] = {dq[0], s};
        ref_fill(&q, ref_spec(SYN_F32, 4, dq), -3, 3);
        ref_fill(&k, ref_spec(SYN_F32, 4, dk), -3, 3);
        ref_fill(&v, ref_spec(SYN_F32, 4, dk), -3, 3);
        ref_fill(&mask, ref_spec(SYN_F32, 2, dm), -1, 1);
        for (int64_t i = 0; i < dq[0] * s; i++) /* hides the last or the first keys of a sequence */
            if (round % 2 ? i % s >= i / s * 3 : i % s < i / s * 3) mask.v[i] = -infinite;
        const bool causal = ref_int(0, 1);
        attention(&q, &k, &v, &mask, 0.5, causal, s - t, &want);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor tq = ref_wild(ctx, &q), tk = ref_wild(ctx, &k), tv = ref_wild(ctx, &v);
        const syn_tensor tm = ref_wild(ctx, &mask);
        CHECK(ref_check(ctx, syn_attention(ctx, tq, tk, tv, tm, 0.5, causal, s - t), &want, 1e-5));
        syn_tensor w = syn_matmul(ctx, tq, tk, false, true);
        w = syn_softmax(ctx, syn_scale_mask(ctx, w, tm, 0.5, causal, s - t));
        CHECK(ref_check(ctx, syn_matmul(ctx, w, tv, false, false), &want, 1e-5));
        syn_ctx_free(ctx);
    }
}

/* Attention over a whole prompt gives the same rows as attention token by token with a cache. */
static void test_causal_offset_is_a_cache(void) {
    static ref q, k, v, want;
    const int64_t dims[4] = {2, 3, 7, 4}, one[4] = {2, 3, 1, 4};
    ref_seed(5);
    ref_fill(&q, ref_spec(SYN_F32, 4, dims), -2, 2);
    ref_fill(&k, ref_spec(SYN_F32, 4, dims), -2, 2);
    ref_fill(&v, ref_spec(SYN_F32, 4, dims), -2, 2);
    attention(&q, &k, &v, NULL, 0.5, true, 0, &want);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor tq = ref_dense(ctx, &q), tk = ref_dense(ctx, &k), tv = ref_dense(ctx, &v);
    const syn_spec spec = ref_spec(SYN_F32, 4, dims);
    syn_tensor kc = syn_state(ctx, "k", &spec), vc = syn_state(ctx, "v", &spec);
    for (int64_t t = 0; t < 7; t++) {
        kc = syn_kv_append(ctx, kc, syn_slice(ctx, tk, 2, t, 1), t);
        vc = syn_kv_append(ctx, vc, syn_slice(ctx, tv, 2, t, 1), t);
        const syn_tensor y =
            syn_attention(ctx, syn_slice(ctx, tq, 2, t, 1), syn_slice(ctx, kc, 2, 0, t + 1),
                          syn_slice(ctx, vc, 2, 0, t + 1), SYN_NO_MASK, 0.5, true, t);
        static ref row;
        row.spec = ref_spec(SYN_F32, 4, one);
        for (int64_t i = 0; i < 24; i++) row.v[i] = want.v[(i / 4 * 7 + t) * 4 + i % 4];
        CHECK(ref_check(ctx, y, &row, 1e-5));
    }
    CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0); /* the cache was not copied */
    syn_ctx_free(ctx);
}

/* With an offset at an end of its range, all keys or no keys are visible. */
static void test_extreme_offsets(void) {
    static ref q, k, want;
    const int64_t dims[4] = {1, 1, 3, 2};
    ref_fill(&q, ref_spec(SYN_F32, 4, dims), -2, 2);
    ref_fill(&k, ref_spec(SYN_F32, 4, dims), -2, 2);
    static const int64_t offsets[] = {INT64_MAX, INT64_MAX - 1, 3, INT64_MIN, -4};
    for (int i = 0; i < 5; i++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor tq = ref_dense(ctx, &q), tk = ref_dense(ctx, &k);
        attention(&q, &k, &k, NULL, 0.5, offsets[i] < 0, -100, &want);
        CHECK(ref_check(ctx, syn_attention(ctx, tq, tk, tk, SYN_NO_MASK, 0.5, true, offsets[i]),
                        &want, 1e-6));
        syn_tensor w = syn_softmax(ctx, syn_scale_mask(ctx, syn_matmul(ctx, tq, tk, false, true),
                                                       SYN_NO_MASK, 0.5, true, offsets[i]));
        CHECK(ref_check(ctx, syn_matmul(ctx, w, tk, false, false), &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

static void test_kv_append(void) {
    static ref cache, x;
    static const syn_dtype dtypes[] = {SYN_F32, SYN_BF16, SYN_I64};
    for (int round = 0; round < 200; round++) {
        ref_seed((uint64_t)round);
        const syn_dtype dtype = dtypes[round % 3];
        const int64_t dims[4] = {ref_int(1, 3), ref_int(1, 3), ref_int(1, 8), ref_int(1, 5)};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_spec spec = ref_spec(dtype, 4, dims);
        syn_tensor versions[6] = {syn_state(ctx, "cache", &spec)};
        ref_fill(&cache, spec, 0, 0);
        CHECK(ref_check(ctx, versions[0], &cache, 0)); /* the cache begins as zeros */
        for (int v = 1; v < 6; v++) {
            const int64_t rows = ref_int(0, dims[2]), position = ref_int(0, dims[2] - rows);
            const int64_t part[4] = {dims[0], dims[1], rows, dims[3]};
            ref_fill(&x, ref_spec(dtype, 4, part), 1, 100);
            for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++)
                cache.v[(i / (rows * dims[3]) * dims[2] + position + i / dims[3] % rows) * dims[3] +
                        i % dims[3]] = x.v[i];
            versions[v] = syn_kv_append(ctx, versions[v - 1], ref_wild(ctx, &x), position);
            CHECK(ref_check(ctx, versions[v], &cache, 0));
            CHECK(versions[v].id != versions[v - 1].id);
        }
        const syn_trace *t = syn_ctx_trace(ctx);
        for (int v = 1; v < 6; v++) {
            CHECK_INT(t->tensors[versions[v].id].base, versions[0].id);
            CHECK_INT(t->tensors[versions[v].id].flags, SYN_TENSOR_VIEW | SYN_TENSOR_STATE);
            CHECK_INT(t->tensors[versions[v].id].layout, 0);
        }
        syn_ctx_free(ctx);
    }
}

/* The cache is a part of a larger storage. Only that part may change. */
static void test_kv_append_into_a_view(void) {
    static ref whole, x;
    const int64_t dims[5] = {2, 2, 3, 4, 2}, part[4] = {2, 3, 2, 2};
    ref_fill(&whole, ref_spec(SYN_F32, 5, dims), 0, 0);
    ref_fill(&x, ref_spec(SYN_F32, 4, part), 1, 2);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor all = syn_state(ctx, "both", &whole.spec);
    const int64_t four[4] = {2, 3, 4, 2};
    const syn_spec second_spec = ref_spec(SYN_F32, 4, four);
    const syn_tensor second = syn_reshape(ctx, syn_slice(ctx, all, 0, 1, 1), four, 4);
    const syn_tensor v1 = syn_kv_append(ctx, second, ref_dense(ctx, &x), 1);
    for (int64_t i = 0; i < 24; i++) whole.v[48 + (i / 4 * 4 + 1 + i / 2 % 2) * 2 + i % 2] = x.v[i];
    /* Expected contents of the storage around the view, which no tensor can read any more. */
    float want[96];
    for (int i = 0; i < 96; i++) want[i] = (float)whole.v[i];
    if (!ref_on_cuda()) CHECK(memcmp(syn__storage(ctx, v1.id)->data, want, sizeof want) == 0);
    for (int i = 0; i < 48; i++) whole.v[i] = whole.v[48 + i];
    whole.spec = second_spec;
    CHECK(ref_check(ctx, v1, &whole, 0));
    CHECK_INT(syn_ctx_trace(ctx)->tensors[v1.id].base, all.id);
    CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"softmax", test_softmax},
    {"softmax rows", test_softmax_rows},
    {"attention", test_attention},
    {"padding mask", test_padding_mask},
    {"causal offset is a cache", test_causal_offset_is_a_cache},
    {"extreme offsets", test_extreme_offsets},
    {"kv append", test_kv_append},
    {"kv append into a view", test_kv_append_into_a_view},
};
TEST_MAIN(cases)
