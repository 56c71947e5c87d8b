/* Compares embedding, layernorm, rmsnorm, rope, linear and matmul with double precision, for random
   shapes and layouts. */
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const syn_dtype weight_types[3] = {SYN_F32, SYN_F16, SYN_BF16};

/* Random weights with a magnitude of at most 2. 16-bit weights are stored as bit patterns. */
static void fill_weights(ref *w, syn_spec spec) {
    if (spec.dtype == SYN_F32) ref_fill(w, spec, -2, 2);
    else if (spec.dtype == SYN_F16) ref_fill(w, spec, 0x2c00, 0x4000);
    else ref_fill(w, spec, 0x3d80, 0x4000);
    for (int64_t i = 0; spec.dtype != SYN_F32 && i < syn_spec_elems(&spec); i++)
        if (ref_int(0, 1)) w->v[i] += 0x8000;
}

static double weight(const ref *w, int64_t at) {
    return w->spec.dtype == SYN_F32 ? w->v[at]
                                    : ref_half((uint16_t)w->v[at], (syn_dtype)w->spec.dtype);
}

/* A context, which has threads in some rounds. */
static syn_ctx *ctx_with_threads(int round) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_error err = {0};
    if (round % 8 == 0 && syn_ctx_set_threads(ctx, 2 + round / 8 % 2, &err) != SYN_OK) {
        fprintf(stderr, "no threads: %s\n", err.text);
        abort();
    }
    return ctx;
}

static void test_embedding(void) {
    static ref table, ids, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const int64_t rows = ref_int(1, 12), width = ref_int(round % 10 ? 1 : 0, 9),
                      first = ref_int(-3, 20);
        const int64_t dims[2] = {rows, width};
        do ref_fill(&ids, ref_random_spec(SYN_I32, 0, 5, true), -4, 34);
        while (syn_spec_elems(&ids.spec) * width > REF_MAX);
        fill_weights(&table, ref_spec(weight_types[round % 3], 2, dims));
        want.spec = ids.spec;
        want.spec.dtype = table.spec.dtype;
        want.spec.dims[want.spec.rank++] = width;
        for (int64_t i = 0; i < syn_spec_elems(&ids.spec); i++)
            for (int64_t c = 0; c < width; c++) {
                const int64_t row = (int64_t)ids.v[i] - first;
                want.v[i * width + c] = row >= 0 && row < rows ? table.v[row * width + c] : 0;
            }
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK(ref_check(ctx, syn_embedding(ctx, ref_wild(ctx, &table), ref_wild(ctx, &ids), first),
                        &want, 0));
        syn_ctx_free(ctx);
    }
}

/* Vocabulary-parallel ranks: the sum of the lookups in all row shards equals the lookup in the full
   table. */
static void test_embedding_shards(void) {
    static ref table, ids, want;
    const int64_t dims[2] = {12, 3}, n = 40;
    ref_fill(&table, ref_spec(SYN_F32, 2, dims), -1, 1);
    ref_fill(&ids, ref_spec(SYN_I32, 1, &n), 0, 11);
    want.spec = (syn_spec){SYN_F32, 2, {n, 3}};
    for (int64_t i = 0; i < 3 * n; i++) want.v[i] = table.v[(int64_t)ids.v[i / 3] * 3 + i % 3];
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor t = ref_dense(ctx, &table), x = ref_dense(ctx, &ids);
    syn_tensor sum = syn_embedding(ctx, syn_slice(ctx, t, 0, 0, 4), x, 0);
    for (int64_t r = 1; r < 3; r++)
        sum = syn_add(ctx, sum, syn_embedding(ctx, syn_slice(ctx, t, 0, 4 * r, 4), x, 4 * r));
    CHECK(ref_check(ctx, sum, &want, 0));
    syn_ctx_free(ctx);
}

static void layernorm(const ref *x, const ref *weight, const ref *bias, double eps, ref *want) {
    const int64_t n = x->spec.dims[x->spec.rank - 1];
    want->spec = x->spec;
    for (int64_t at = 0; at < syn_spec_elems(&x->spec); at += n) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += x->v[at + i] / (double)n;
        for (int64_t i = 0; i < n; i++) variance += pow(x->v[at + i] - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++)
            want->v[at + i] =
                (x->v[at + i] - mean) / sqrt(variance + eps) * weight->v[i] + bias->v[i];
    }
}

static void test_layernorm(void) {
    static ref x, weight, bias, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const double middle = round % 3 ? 0 : ref_real(-5, 5), eps = round % 2 ? 1e-5 : 1e-12;
        do ref_fill(&x, ref_random_spec(SYN_F32, 1, 6, true), middle - 2, middle + 2);
        while (x.spec.dims[x.spec.rank - 1] == 0 ||
               (x.spec.dims[x.spec.rank - 1] == 1 && eps < 1e-6));
        const syn_spec row = {SYN_F32, 1, {x.spec.dims[x.spec.rank - 1]}};
        ref_fill(&weight, row, -2, 2);
        ref_fill(&bias, row, -2, 2);
        layernorm(&x, &weight, &bias, eps, &want);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK(ref_check(ctx,
                        syn_layernorm(ctx, ref_wild(ctx, &x), ref_wild(ctx, &weight),
                                      ref_wild(ctx, &bias), eps),
                        &want, 2e-5));
        syn_ctx_free(ctx);
    }
}

/* Wide rows far from zero, as in residual streams. */
static void test_layernorm_far_from_zero(void) {
    static ref x, weight, bias, want;
    const syn_spec row = {SYN_F32, 1, {REF_MAX}}, one = {SYN_F32, 2, {1, REF_MAX}};
    ref_seed(3);
    ref_fill(&x, one, 999, 1001);
    ref_fill(&weight, row, 1, 1);
    ref_fill(&bias, row, 0, 0);
    layernorm(&x, &weight, &bias, 1e-5, &want);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    CHECK(ref_check(ctx,
                    syn_layernorm(ctx, ref_dense(ctx, &x), ref_dense(ctx, &weight),
                                  ref_dense(ctx, &bias), 1e-5),
                    &want, 2e-4));
    syn_ctx_free(ctx);
}

static void test_rmsnorm(void) {
    static ref x, weight, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const double size = pow(10, ref_real(-3, 3)), eps = round % 2 ? 1e-5 : 1e-12;
        const double offset = round % 3 == 0 ? 1 : 0;
        do ref_fill(&x, ref_random_spec(SYN_F32, 1, 6, true), -size, size);
        while (x.spec.dims[x.spec.rank - 1] == 0);
        const int64_t n = x.spec.dims[x.spec.rank - 1];
        ref_fill(&weight, (syn_spec){SYN_F32, 1, {n}}, -2, 2);
        want.spec = x.spec;
        for (int64_t at = 0; at < syn_spec_elems(&x.spec); at += n) {
            double squares = 0;
            for (int64_t i = 0; i < n; i++) squares += pow(x.v[at + i], 2) / (double)n;
            for (int64_t i = 0; i < n; i++)
                want.v[at + i] = x.v[at + i] / sqrt(squares + eps) * (weight.v[i] + offset);
        }
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor in[2] = {ref_wild(ctx, &x), ref_wild(ctx, &weight)};
        CHECK(ref_check(ctx, syn_rmsnorm_offset(ctx, in[0], in[1], eps, offset), &want, 2e-6));
        syn_ctx_free(ctx);
    }
}

/* Rotates whole heads, a part of each head, or nothing. Positions are per sequence or shared, and
   pairs are halves apart or adjacent. */
static void test_rope(void) {
    static ref x, at, frequencies, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const int64_t b = ref_int(1, 3), h = ref_int(1, 3), t = ref_int(0, 4), half = ref_int(0, 5),
                      first = round % 3 ? 0 : ref_int(0, 3), d = first + 2 * half + ref_int(0, 2);
        const bool adjacent = round % 5 == 0;
        const int64_t step = adjacent ? 2 : 1, apart = adjacent ? 1 : half;
        const double factor = round % 2 ? 1 : ref_real(0.5, 2);
        ref_fill(&x, ref_spec(SYN_F32, 4, (const int64_t[]){b, h, t, d}), -2, 2);
        ref_fill(&at, ref_spec(SYN_I32, 2, (const int64_t[]){ref_int(0, 1) ? b : 1, t}), 0, 9000);
        ref_fill(&frequencies, ref_spec(SYN_F32, 1, (const int64_t[]){half}), 0, 1);
        want = x;
        for (int64_t i = 0; i < b * h * t; i++)
            for (int64_t j = 0; j < half; j++) {
                const int64_t place = (at.spec.dims[0] > 1 ? i / (h * t) * t : 0) + i % t;
                const double angle = (double)((float)at.v[place] * (float)frequencies.v[j]);
                const int64_t a = i * d + first + j * step;
                const double one = x.v[a], other = x.v[a + apart];
                want.v[a] = factor * (one * cos(angle) - other * sin(angle));
                want.v[a + apart] = factor * (other * cos(angle) + one * sin(angle));
            }
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK(ref_check(ctx,
                        syn_rope_at(ctx, ref_wild(ctx, &x), ref_wild(ctx, &at),
                                    ref_wild(ctx, &frequencies), factor, first, adjacent),
                        &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

/* want = x w + bias for w (K, N), or x w' + bias for w (N, K). */
static void linear(const ref *x, const ref *w, const ref *bias, bool transpose, ref *want) {
    const int64_t k = x->spec.dims[x->spec.rank - 1], n = w->spec.dims[transpose ? 0 : 1];
    want->spec = x->spec;
    want->spec.dims[x->spec.rank - 1] = n;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        double sum = bias ? bias->v[i % n] : 0;
        for (int64_t p = 0; p < k; p++)
            sum += x->v[i / n * k + p] * weight(w, transpose ? i % n * k + p : p * n + i % n);
        want->v[i] = sum;
    }
}

static void test_linear(void) {
    static ref x, w, bias, want;
    for (int round = 0; round < 800; round++) {
        ref_seed((uint64_t)round);
        const bool transpose = ref_int(0, 1), with_bias = ref_int(0, 1);
        const int64_t n = ref_int(0, 20) ? ref_int(1, 8) : 0;
        do ref_fill(&x, ref_random_spec(SYN_F32, 1, 6, true), -2, 2);
        while (syn_spec_elems(&x.spec) * 8 > REF_MAX);
        if (ref_int(0, 20) == 0) x.spec.dims[x.spec.rank - 1] = 0; /* K = 0 gives an empty sum */
        const int64_t k = x.spec.dims[x.spec.rank - 1];
        const int64_t dims[2] = {transpose ? n : k, transpose ? k : n};
        fill_weights(&w, ref_spec(weight_types[round % 3], 2, dims));
        ref_fill(&bias, ref_spec(SYN_F32, 1, &n), -2, 2);
        linear(&x, &w, with_bias ? &bias : NULL, transpose, &want);
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor b = with_bias ? ref_wild(ctx, &bias) : SYN_NO_BIAS;
        CHECK(ref_check(ctx, syn_linear(ctx, ref_wild(ctx, &x), ref_wild(ctx, &w), b, transpose),
                        &want, 1e-5));
        syn_ctx_free(ctx);
    }
}

/* A tensor of shape (1, N) with the elements of r. It is the transpose of a column that begins one
   element into its storage, so the stride of its rows is 1. */
static syn_tensor turned(syn_ctx *ctx, const ref *r) {
    static ref column;
    const int swap[2] = {1, 0};
    const int64_t n = r->spec.dims[1];
    column.spec = (syn_spec){SYN_F32, 2, {n + 1, 1}};
    column.v[0] = (double)NAN;
    memcpy(column.v + 1, r->v, (size_t)n * sizeof *r->v);
    return syn_permute(ctx, syn_slice(ctx, ref_dense(ctx, &column), 0, 1, n), swap, 2);
}

/* With a single row, the leading dimension has no effect and may be smaller than the row. BLAS
   rejects that, so the library must correct it. */
static void test_single_rows(void) {
    static ref x, w, want;
    for (int round = 0; round < 32; round++) {
        const bool ta = round & 1, tb = round & 2;
        const int64_t m = round & 4 ? 1 : 5, k = round & 8 ? 1 : 4, n = round & 16 ? 1 : 6;
        const int64_t a_dims[2] = {ta ? k : m, ta ? m : k}, b_dims[2] = {tb ? n : k, tb ? k : n};
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_spec(SYN_F32, 2, a_dims), -2, 2);
        ref_fill(&w, ref_spec(SYN_F32, 2, b_dims), -2, 2);
        want.spec = (syn_spec){SYN_F32, 2, {m, n}};
        for (int64_t i = 0; i < m * n; i++) {
            want.v[i] = 0;
            for (int64_t p = 0; p < k; p++)
                want.v[i] += x.v[ta ? p * m + i / n : i / n * k + p] *
                             w.v[tb ? i % n * k + p : p * n + i % n];
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor a = a_dims[0] == 1 ? turned(ctx, &x) : ref_dense(ctx, &x);
        const syn_tensor b = b_dims[0] == 1 ? turned(ctx, &w) : ref_dense(ctx, &w);
        CHECK(ref_check(ctx, syn_matmul(ctx, a, b, ta, tb), &want, 1e-6));
        if (!ta) CHECK(ref_check(ctx, syn_linear(ctx, a, b, SYN_NO_BIAS, tb), &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

static void matmul(const ref *a, const ref *b, bool ta, bool tb, ref *want) {
    const int r = a->spec.rank;
    const int64_t m = a->spec.dims[ta ? r - 1 : r - 2], k = a->spec.dims[ta ? r - 2 : r - 1];
    const int64_t n = b->spec.dims[tb ? r - 2 : r - 1];
    want->spec = a->spec;
    want->spec.dims[r - 2] = m;
    want->spec.dims[r - 1] = n;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        const int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += a->v[batch * m * k + (ta ? p * m + row : row * k + p)] *
                   b->v[batch * k * n + (tb ? column * k + p : p * n + column)];
        want->v[i] = sum;
    }
}

static void test_matmul(void) {
    static ref a, b, want;
    for (int round = 0; round < 800; round++) {
        ref_seed((uint64_t)round);
        const bool ta = ref_int(0, 1), tb = ref_int(0, 1);
        syn_spec sa, sb, so;
        do {
            sa = ref_random_spec(SYN_F32, 2, 6, true);
            if (ref_int(0, 20) == 0) sa.dims[sa.rank - (ta ? 2 : 1)] = 0;
            sb = so = sa;
            const int64_t n = ref_int(0, 3) ? ref_int(1, 7) : 1,
                          k = sa.dims[sa.rank - (ta ? 2 : 1)];
            sb.dims[sb.rank - 2] = tb ? n : k;
            sb.dims[sb.rank - 1] = tb ? k : n;
            so.dims[so.rank - 2] = sa.dims[sa.rank - (ta ? 1 : 2)];
            so.dims[so.rank - 1] = n;
        } while (syn_spec_elems(&sb) > REF_MAX || syn_spec_elems(&so) > REF_MAX);
        ref_fill(&a, sa, -2, 2);
        ref_fill(&b, sb, -2, 2);
        matmul(&a, &b, ta, tb, &want);
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK(ref_check(ctx, syn_matmul(ctx, ref_wild(ctx, &a), ref_wild(ctx, &b), ta, tb), &want,
                        1e-5));
        syn_ctx_free(ctx);
    }
}

/* Operands are copied only if their strides require it. That depends only on shapes, so meta and
   the CPU agree. */
static void test_copies(void) {
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        const int swap[3] = {1, 0, 2}, turn[3] = {0, 2, 1};
        const syn_tensor x = ZEROS(ctx, SYN_F32, 4, 6, 8), w = ZEROS(ctx, SYN_F32, 8, 5);
        syn_linear(ctx, x, w, SYN_NO_BIAS, false);
        /* Rows in order, not copied. */
        syn_linear(ctx, syn_slice(ctx, x, 0, 1, 2), w, SYN_NO_BIAS, false);
        syn_linear(ctx, syn_slice(ctx, x, 2, 3, 5), ZEROS(ctx, SYN_F32, 5, 2), SYN_NO_BIAS,
                   false); /* rows 8 elements apart, not copied */
        syn_layernorm(ctx, syn_permute(ctx, x, swap, 3), ZEROS(ctx, SYN_F32, 8),
                      ZEROS(ctx, SYN_F32, 8), 1e-5);
        syn_matmul(ctx, x, x, false, true);
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0);
        syn_linear(ctx, syn_permute(ctx, x, swap, 3), w, SYN_NO_BIAS,
                   false); /* rows without a constant stride, copied */
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 1);
        syn_linear(ctx, syn_slice(ctx, x, 1, 0, 3), w, SYN_NO_BIAS, false);
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 2);
        syn_matmul(ctx, x, syn_permute(ctx, x, turn, 3), false,
                   false); /* last dimension not dense, copied */
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 3);
        CHECK_MSG(syn_ctx_status(ctx) == SYN_OK, "%s", syn_ctx_error(ctx)->text);
        syn_ctx_free(ctx);
    }
}

/* Products that are large enough for several threads. Every element is checked, wherever the
   product was split. */
static void test_shared(void) {
    static float x[64 * 700], w[700 * 130], out[64 * 130];
    const int64_t shapes[][4] = {{1, 60, 700, 130}, {4, 15, 700, 130}, {2, 1, 700, 130}};
    for (int i = 0; i < 9; i++) {
        const int64_t *s = shapes[i % 3];
        const int64_t b = s[0], m = s[1], k = s[2], n = s[3];
        const syn_spec sx = {SYN_F32, 3, {b, m, k}}, sw = {SYN_F32, 3, {b, k, n / b}};
        for (int64_t j = 0; j < b * m * k; j++) x[j] = (float)ref_real(-1, 1);
        for (int64_t j = 0; j < b * k * (n / b); j++) w[j] = (float)ref_real(-1, 1);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_error err = {0};
        CHECK_OK(syn_ctx_set_threads(ctx, i / 3 + 1, &err), err);
        const syn_tensor y =
            syn_matmul(ctx, syn_input(ctx, "x", &sx, x), syn_input(ctx, "w", &sw, w), false, false);
        const size_t bytes = (size_t)(b * m * (n / b)) * sizeof *out;
        CHECK_OK(syn_tensor_read(ctx, y, out, bytes), *syn_ctx_error(ctx));
        for (int64_t j = 0; j < b * m * (n / b); j++) {
            const int64_t entry = j / (m * (n / b)), row = j / (n / b), column = j % (n / b);
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)x[row * k + p] * (double)w[(entry * k + p) * (n / b) + column];
            CHECK_NEAR(out[j], sum, 2e-4);
        }
        syn_ctx_free(ctx);
    }
}

/* 16-bit weights halve the bytes that are read for weights. Nothing else in the trace changes. */
static void test_half_costs(void) {
    syn_error err = {0};
    for (int type = 0; type < 3; type++) {
        const uint64_t bytes = weight_types[type] == SYN_F32 ? 4 : 2;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
        const syn_tensor table = ZEROS(ctx, weight_types[type], 100, 8);
        const syn_tensor looked_up = syn_embedding(ctx, table, ZEROS(ctx, SYN_I32, 5), 0);
        const syn_tensor x = ZEROS(ctx, SYN_F32, 5, 8);
        CHECK_INT(syn_tensor_spec(ctx, looked_up)->dtype, weight_types[type]);
        syn_linear(ctx, x, ZEROS(ctx, weight_types[type], 8, 3), ZEROS(ctx, SYN_F32, 3), false);
        syn_linear(ctx, x, table, SYN_NO_BIAS, true);
        CHECK_MSG(syn_ctx_status(ctx) == SYN_OK, "%s", syn_ctx_error(ctx)->text);
        const syn_trace *t = syn_ctx_trace(ctx);
        syn_graph *g = NULL;
        syn_cursor cur = {0};
        CHECK_OK(syn_trace_graph(&g, &t, 1, NULL, &err), err);
        const syn_node *n = syn_graph_node(g, 0, 0, &cur);
        CHECK_INT(n->bytes_read, 5 * 8 * bytes + 5 * 4);
        CHECK_INT(n->bytes_written, 5 * 8 * bytes);
        CHECK_INT(syn_graph_tensor_at(g, 0, n->inputs[0], &cur)->spec.dtype, weight_types[type]);
        n = syn_graph_node(g, 0, 1, &cur);
        CHECK_INT(n->bytes_read, 5 * 8 * 4 + 8 * 3 * bytes + 3 * 4);
        CHECK_INT(n->bytes_written, 5 * 3 * 4);
        CHECK_INT(n->flops, 2 * 5 * 8 * 3);
        n = syn_graph_node(g, 0, 2, &cur);
        CHECK_INT(n->bytes_read, 5 * 8 * 4 + 100 * 8 * bytes);
        CHECK_INT(n->flops, 2 * 5 * 8 * 100);
        syn_cursor_free(&cur);
        syn_graph_free(g);
        syn_ctx_free(ctx);
    }
}

/* Tests which inputs may be 16-bit, and in which combinations. */
static void test_half_refused(void) {
    for (int i = 0; i < 5; i++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
        const syn_tensor f = ZEROS(ctx, SYN_F32, 3, 3), h = ZEROS(ctx, SYN_BF16, 3, 3);
        if (i == 0) syn_linear(ctx, h, f, SYN_NO_BIAS, false);
        if (i == 1) syn_linear(ctx, f, f, ZEROS(ctx, SYN_F16, 3), false);
        if (i == 2) syn_matmul(ctx, f, h, false, false);
        if (i == 3) syn_matmul(ctx, h, f, false, false);
        if (i == 4) syn_linear(ctx, f, ZEROS(ctx, SYN_I32, 3, 3), SYN_NO_BIAS, false);
        static const char *const sentences[] = {
            "linear: input 1 must be bf16, but is f32[3,3]",
            "linear: input 2 must be f32, but is f16[3]",
            "matmul: input 1 must be f32, but is bf16[3,3]",
            "matmul: input 1 must be bf16, but is f32[3,3]",
            "linear: input 1 must be f32, f16 or bf16, but is i32[3,3]"};
        CHECK_STR(syn_ctx_error(ctx)->text, sentences[i]);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"embedding", test_embedding},     {"embedding shards", test_embedding_shards},
    {"rmsnorm", test_rmsnorm},         {"rope", test_rope},
    {"layernorm", test_layernorm},     {"layernorm far from zero", test_layernorm_far_from_zero},
    {"linear", test_linear},           {"single rows", test_single_rows},
    {"matmul", test_matmul},           {"shared", test_shared},
    {"16-bit costs", test_half_costs}, {"16-bit refused", test_half_refused},
    {"copies", test_copies},
};
TEST_MAIN(cases)
