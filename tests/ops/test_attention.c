/* Tests fused attention. The kernels of every SIMD level that this machine supports are compared
   with the definition in double precision. Their memory ends where the rows end, so that any access
   outside crashes. The op is tested with threads, a cache and masks. */
#include "ops/attention.h"
#include "tests/support/guarded.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { MOST = 1 << 16 };

/* Computes one query in double: the mean of the visible values, weighted by softmax, or zeros if no
   key is visible. Returns a bound for the magnitude of a score. The error of float kernels is
   proportional to it. */
static double exact_row(const syn_attention_tile *a, int64_t query, double *out) {
    static double w[MOST];
    const int64_t visible = syn__visible_end(a, query);
    const int64_t first = syn__first_visible_key(a, query);
    double max = a->has_sink ? (double)a->sink : -(double)INFINITY, sum = 0, far = 0;
    for (int64_t s = first; s < visible; s++) {
        double dot = 0, size = 0;
        for (int64_t d = 0; d < a->depth; d++) {
            const double term = (double)a->q[query * a->q_stride + d] *
                                (double)((const float *)a->k)[syn__key_row(a, s) * a->k_stride + d];
            dot += term;
            size += fabs(term);
        }
        dot *= (double)a->scale;
        if (a->cap > 0) dot = (double)a->cap * tanh(dot / (double)a->cap);
        w[s] = dot + (a->mask ? (double)a->mask[s] : 0);
        max = fmax(max, w[s]);
        far = fmax(far, size * (double)a->scale);
    }
    for (int64_t s = first; s < visible; s++)
        sum += w[s] = max == -(double)INFINITY ? 0 : exp(w[s] - max);
    if (a->has_sink) sum += exp((double)a->sink - max);
    for (int64_t d = 0; d < a->value_depth; d++) {
        out[d] = 0;
        for (int64_t s = first; s < visible; s++)
            if (sum > 0)
                out[d] += w[s] / sum *
                          (double)((const float *)a->v)[syn__key_row(a, s) * a->v_stride + d];
    }
    return far;
}

/* Compares all queries. The values must be in [-1, 1]. */
static bool check(const syn_attention_kernels *k, syn_attention_tile *a, guarded *out, bool at_end,
                  const char *what) {
    double want[300];
    const int64_t depth = a->value_depth;
    float *scratch =
        syn_aligned_malloc(k->scratch_floats(a->depth, depth, a->keys) * sizeof *scratch);
    a->scratch = scratch;
    a->out = guarded_floats(out, a->queries * depth, at_end);
    a->out_stride = depth;
    k->attend(a);
    bool same = guarded_untouched(out, a->out, a->queries * depth);
    if (!same) fprintf(stderr, "%s wrote beside its rows\n", what);
    for (int64_t i = 0; same && i < a->queries; i++) {
        const double tolerance = 1e-6 + 2e-7 * exact_row(a, i, want);
        for (int64_t d = 0; same && d < depth; d++) {
            const double got = (double)a->out[i * depth + d];
            same = fabs(got - want[d]) <= tolerance;
            if (!same)
                fprintf(stderr,
                        "%s, %lld queries, %lld keys, depth %lld and %lld, query %lld, %lld: "
                        "%.9g, not %.9g\n",
                        what, (long long)a->queries, (long long)a->keys, (long long)a->depth,
                        (long long)depth, (long long)i, (long long)d, got, want[d]);
        }
    }
    syn_aligned_free(scratch);
    return same;
}

static void test_kernels(void) {
    guarded g[5];
    int32_t slots[300];
    for (int i = 0; i < 5; i++) g[i] = guarded_new(300 * 310 * sizeof(float));
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < TEST_ROUNDS(1500) && syn_simd_supported(level); round++) {
            const syn_attention_kernels *k = syn__attention_kernels_at(level);
            ref_seed((uint64_t)round);
            const bool end = round % 2;
            syn_attention_tile a = {.queries = ref_int(0, 2) ? ref_int(1, k->tile) : ref_int(1, 8),
                                    .keys = ref_int(0, 3) ? ref_int(0, 150) : ref_int(150, 300),
                                    .depth = ref_int(0, 3) ? ref_int(1, 80) : ref_int(1, 260)};
            a.value_depth = ref_int(0, 2)   ? a.depth
                            : ref_int(0, 3) ? ref_int(1, 80)
                                            : ref_int(1, 260);
            const int64_t widest = a.depth > a.value_depth ? a.depth : a.value_depth;
            if (widest * a.keys > 20000) a.keys = 20000 / widest;
            a.scale = (float)ref_real(0.05, 0.5);
            a.q_stride = a.depth + ref_int(0, 9);
            a.k_stride = a.depth + ref_int(0, 9);
            a.v_stride = a.value_depth + ref_int(0, 9);
            a.q = guarded_rows(&g[0], a.queries, a.depth, a.q_stride, end, 2);
            a.k = guarded_rows(&g[1], a.keys, a.depth, a.k_stride, end, ref_int(0, 2) ? 1 : 20);
            a.v = guarded_rows(&g[2], a.keys, a.value_depth, a.v_stride, end, 1);
            a.step = ref_int(0, 1);
            a.visible = a.step ? ref_int(-5, a.keys) : a.keys;
            if (a.step && ref_int(0, 1)) {
                a.window = ref_int(0, 3) ? ref_int(1, 40) : ref_int(1, 310);
                if (ref_int(0, 3) == 0) a.visible = a.keys + ref_int(0, 20);
            }
            if (ref_int(0, 1)) {
                float *mask = guarded_floats(&g[3], a.keys, end);
                const int64_t hidden = ref_int(0, 10); /* in tenths of all keys */
                for (int64_t s = 0; s < a.keys; s++)
                    mask[s] = ref_int(1, 10) <= hidden ? -INFINITY : (float)ref_real(-3, 0);
                a.mask = mask;
            }
            a.cap = ref_int(0, 3) ? 0 : (float)ref_real(0.5, 5);
            if (ref_int(0, 2) == 0) {
                for (int64_t s = 0; s < a.keys; s++) slots[s] = (int32_t)ref_int(0, a.keys - 1);
                a.slots = slots;
            }
            a.has_sink = ref_int(0, 1);
            a.sink = (float)ref_real(-4, 4);
            CHECK(check(k, &a, &g[4], end, syn_simd_name(level)));
        }
    for (int i = 0; i < 5; i++) guarded_free(&g[i]);
}

/* Either the largest score comes last, so that everything summed before must be rescaled, or all
   scores are far from zero. */
static void test_running_maximum(void) {
    guarded g[5];
    for (int i = 0; i < 5; i++) g[i] = guarded_new(400 * sizeof(float) * 4);
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 40 && syn_simd_supported(level); round++) {
            const syn_attention_kernels *k = syn__attention_kernels_at(level);
            syn_attention_tile a = {
                .queries = round % 2 ? 1 : k->tile, .keys = 400, .depth = 1, .value_depth = 1};
            a.q_stride = a.k_stride = a.v_stride = 1;
            a.scale = 1;
            a.visible = a.keys;
            float *q = guarded_floats(&g[0], a.queries, true),
                  *keys = guarded_floats(&g[1], 400, true);
            for (int64_t i = 0; i < a.queries; i++) q[i] = i % 2 ? 1.0f : -1.0f;
            for (int i = 0; i < 400; i++)
                keys[i] = (float)(round < 20 ? i * round : 3000 + i * 7 % 13);
            a.q = q;
            a.k = keys;
            a.v = guarded_rows(&g[2], 400, 1, 1, true, 1);
            CHECK(check(k, &a, &g[4], true, syn_simd_name(level)));
        }
    for (int i = 0; i < 5; i++) guarded_free(&g[i]);
}

/* A NaN affects exactly the queries that see it. If a mask hides all keys, the result is zero. */
static void test_specials(void) {
    enum { QUERIES = 9, KEYS = 70, DEPTH = 5 };
    static float q[QUERIES * DEPTH], k[KEYS * DEPTH], v[KEYS * DEPTH], out[QUERIES * DEPTH];
    float mask[KEYS];
    for (int i = 0; i < QUERIES * DEPTH; i++) q[i] = (float)ref_real(-1, 1);
    for (int i = 0; i < KEYS * DEPTH; i++) k[i] = v[i] = (float)ref_real(-1, 1);
    for (int i = 0; i < KEYS; i++) mask[i] = -INFINITY;
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_supported(level)) continue;
        const syn_attention_kernels *kernels = syn__attention_kernels_at(level);
        for (int queries = 1; queries <= QUERIES; queries++) {
            syn_attention_tile a = {.q = q,
                                    .k = k,
                                    .v = v,
                                    .mask = mask,
                                    .out = out,
                                    .q_stride = DEPTH,
                                    .k_stride = DEPTH,
                                    .v_stride = DEPTH,
                                    .out_stride = DEPTH,
                                    .queries = queries,
                                    .keys = KEYS,
                                    .depth = DEPTH,
                                    .value_depth = DEPTH,
                                    .visible = KEYS,
                                    .scale = 1};
            a.scratch =
                syn_aligned_malloc(kernels->scratch_floats(DEPTH, DEPTH, KEYS) * sizeof(float));
            kernels->attend(&a);
            for (int i = 0; i < queries * DEPTH; i++) CHECK(out[i] == 0);
            a.mask = NULL;
            a.visible = 60;
            a.step = 1; /* query 3 is the first query that sees key 62 */
            k[62 * DEPTH] = NAN;
            kernels->attend(&a);
            for (int i = 0; i < queries * DEPTH; i++) CHECK(!isnan(out[i]) == (i / DEPTH < 3));
            k[62 * DEPTH] = 0;
            q[0] = NAN;
            kernels->attend(&a);
            for (int i = 0; i < queries * DEPTH; i++) CHECK(isnan(out[i]) == (i < DEPTH));
            q[0] = 0;
            syn_aligned_free(a.scratch);
        }
    }
}

/* ---- The op ---- */

/* Runs the op on heads with a model's layout (slices of one product's result), optionally with a
   mask. The result must have the same bits for any number of threads. */
static void op_result(int threads, int64_t batch, int64_t heads, int64_t new_tokens, int64_t tokens,
                      int64_t depth, bool masked, float *out, size_t bytes) {
    syn_error err = {0};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    if (syn_ctx_set_threads(ctx, threads, &err) != SYN_OK) abort();
    const syn_spec q_spec = {SYN_F32, 4, {batch, new_tokens, heads, depth}},
                   k_spec = {SYN_F32, 4, {batch, tokens, heads, depth}},
                   m_spec = {SYN_F32, 2, {batch, tokens}};
    const int64_t n = syn_spec_elems(&k_spec);
    float *data = malloc((size_t)n * sizeof *data);
    ref_seed(3);
    for (int64_t i = 0; i < n; i++) data[i] = (float)ref_real(-1, 1);
    const int turn[4] = {0, 2, 1, 3};
    const syn_tensor q = syn_permute(ctx, syn_input(ctx, "q", &q_spec, data), turn, 4),
                     k = syn_permute(ctx, syn_input(ctx, "k", &k_spec, data), turn, 4);
    const syn_tensor mask = masked ? syn_input(ctx, "mask", &m_spec, data) : SYN_NO_MASK;
    const syn_tensor y =
        syn_attention(ctx, q, k, syn_scale(ctx, k, 0.5), mask, 0.2, true, tokens - new_tokens);
    if (syn_tensor_read(ctx, y, out, bytes) != SYN_OK) memset(out, 0xff, bytes);
    CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0);
    syn_ctx_free(ctx);
    free(data);
}

static void test_threads(void) {
    static const int64_t shapes[][5] = {
        {2, 3, 100, 100, 16}, {1, 5, 1, 300, 64}, {3, 2, 2, 90, 70}, {1, 1, 200, 257, 33}};
    for (int i = 0; i < 8; i++) {
        const int64_t *n = shapes[i / 2];
        const size_t bytes = (size_t)(n[0] * n[1] * n[2] * n[4]) * sizeof(float);
        float *alone = malloc(bytes), *shared = malloc(bytes);
        op_result(1, n[0], n[1], n[2], n[3], n[4], i % 2, alone, bytes);
        CHECK(!isnan(alone[0]));
        for (int threads = 2; threads < 5; threads++) {
            op_result(threads, n[0], n[1], n[2], n[3], n[4], i % 2, shared, bytes);
            CHECK_MSG(memcmp(alone, shared, bytes) == 0, "%d threads, shape %d", threads, i / 2);
        }
        free(alone);
        free(shared);
    }
}

/* A long prompt in one call gives, up to rounding, the same result as its last tokens one by
   one. */
static void test_prompt_or_steps(void) {
    enum { HEADS = 2, TOKENS = 200, DEPTH = 24, ALL = HEADS * TOKENS * DEPTH };
    static float prompt[ALL], step[HEADS * DEPTH];
    op_result(1, 1, HEADS, TOKENS, TOKENS, DEPTH, false, prompt, sizeof prompt);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_spec spec = {SYN_F32, 4, {1, TOKENS, HEADS, DEPTH}};
    static float data[ALL];
    ref_seed(3);
    for (int i = 0; i < ALL; i++) data[i] = (float)ref_real(-1, 1);
    const int turn[4] = {0, 2, 1, 3};
    const syn_tensor x = syn_permute(ctx, syn_input(ctx, "x", &spec, data), turn, 4);
    const syn_tensor half = syn_scale(ctx, x, 0.5);
    for (int64_t t = 0; t < TOKENS; t += 13) {
        const syn_tensor y =
            syn_attention(ctx, syn_slice(ctx, x, 2, t, 1), syn_slice(ctx, x, 2, 0, t + 1),
                          syn_slice(ctx, half, 2, 0, t + 1), SYN_NO_MASK, 0.2, true, t);
        CHECK(syn_tensor_read(ctx, y, step, sizeof step) == SYN_OK);
        for (int i = 0; i < HEADS * DEPTH; i++)
            CHECK_NEAR(step[i], prompt[(i / DEPTH * TOKENS + t) * DEPTH + i % DEPTH], 1e-6);
    }
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"kernels", test_kernels},
    {"running maximum", test_running_maximum},
    {"specials", test_specials},
    {"threads", test_threads},
    {"prompt or steps", test_prompt_or_steps},
};
TEST_MAIN(cases)
