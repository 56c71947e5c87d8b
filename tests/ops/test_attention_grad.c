/* Tests fused attention in training. The kernels of every SIMD level that this machine supports are
   compared with the definition in double precision. Their memory ends where the rows end, so that
   any access outside crashes. The ops are tested with threads, layouts and dropout, and compared
   with the separate ops. tests/gradients checks the formulas. */
#include "models/layers.h"
#include "ops/attention.h"
#include "ops/rules.h"
#include "tests/support/device.h"
#include "tests/support/guarded.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { QUERIES = 64, KEYS = 200, DEPTH = 140, ROW = DEPTH + 16 };

/* ---- the kernels ---- */

/* Expected results in double precision, and the sums of the absolute values of all their terms. The
   errors of float kernels are proportional to these sums. */
static struct {
    double out[QUERIES][DEPTH], log_sum[QUERIES], far[QUERIES];
    double dq[QUERIES][DEPTH], dk[KEYS][DEPTH], dv[KEYS][DEPTH];
    double q_size[QUERIES][DEPTH], k_size[KEYS][DEPTH], v_size[KEYS][DEPTH];
} want;

static double dot(const float *x, const float *y, int64_t n, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
        *size += fabs((double)x[i] * (double)y[i]);
    }
    return sum;
}

static double kept(const syn_attention_tile *a, int64_t query, int64_t key) {
    if (!a->drop) return 1;
    return syn__drops(&a->drop[query], a->column + (uint32_t)key) ? 0 : (double)a->drop->keep;
}

/* Computes the weights `w` of a query, and its rows of want.out, want.log_sum and want.far. */
static void exact_forward(const syn_attention_tile *a, int64_t query, double *w) {
    const int64_t visible = syn__visible_end(a, query), first = syn__first_visible_key(a, query);
    double max = a->has_sink ? (double)a->sink : -(double)INFINITY, sum = 0;
    want.far[query] = 0;
    for (int64_t s = first; s < visible; s++) {
        double size;
        w[s] = dot(a->q + query * a->q_stride, (const float *)a->k + s * a->k_stride, a->depth,
                   &size) *
                   (double)a->scale +
               (a->mask ? (double)a->mask[s] : 0);
        max = fmax(max, w[s]);
        want.far[query] = fmax(want.far[query], size * (double)a->scale);
    }
    for (int64_t s = first; s < visible; s++) sum += exp(w[s] - max);
    if (a->has_sink) sum += exp((double)a->sink - max);
    want.log_sum[query] = max == -(double)INFINITY ? max : max + log(sum);
    for (int64_t s = first; s < visible; s++)
        w[s] = max == -(double)INFINITY ? 0 : exp(w[s] - max) / sum;
    for (int64_t d = 0; d < a->value_depth; d++) {
        want.out[query][d] = 0;
        for (int64_t s = first; s < visible; s++)
            want.out[query][d] +=
                w[s] * kept(a, query, s) * (double)((const float *)a->v)[s * a->v_stride + d];
    }
}

/* Adds the query's contribution to the expected gradients of keys and values. */
static void exact_backward(const syn_attention_grad_tile *g, int64_t query, const double *w) {
    const syn_attention_tile *a = &g->of;
    const float *dout = g->dout + query * g->dout_stride, *q = a->q + query * a->q_stride;
    const double unit = 1e-6 + 2e-7 * want.far[query];
    double mean = 0, mean_size = 0;
    for (int64_t d = 0; d < a->value_depth; d++) {
        mean += want.out[query][d] * (double)dout[d];
        mean_size += fabs(want.out[query][d] * (double)dout[d]);
    }
    for (int64_t d = 0; d < a->depth; d++) want.dq[query][d] = want.q_size[query][d] = 0;
    for (int64_t s = syn__first_visible_key(a, query); s < syn__visible_end(a, query); s++) {
        double size, by = kept(a, query, s);
        const float *v = (const float *)a->v + s * a->v_stride;
        const double dp = by * dot(dout, v, a->value_depth, &size);
        const double p = w[s] * by, ds = w[s] * (dp - mean) * (double)a->scale;
        const double ds_size = w[s] * (by * size + mean_size) * (double)a->scale * unit;
        for (int64_t d = 0; d < a->depth; d++) {
            const double k = (double)((const float *)a->k)[s * a->k_stride + d];
            want.dq[query][d] += ds * k;
            want.q_size[query][d] += ds_size * fabs(k);
            want.dk[s][d] += ds * (double)q[d];
            want.k_size[s][d] += ds_size * fabs((double)q[d]);
        }
        for (int64_t d = 0; d < a->value_depth; d++) {
            want.dv[s][d] += p * (double)dout[d];
            want.v_size[s][d] += p * fabs((double)dout[d]) * unit;
        }
    }
}

static bool near(const char *what, const float *got, const double *wanted, const double *size,
                 int64_t row, int64_t depth) {
    for (int64_t d = 0; d < depth; d++)
        if (!(fabs((double)got[d] - wanted[d]) <= 3e-6 + size[d])) {
            fprintf(stderr, "%s, row %lld, %lld: %.9g, not %.9g\n", what, (long long)row,
                    (long long)d, (double)got[d], wanted[d]);
            return false;
        }
    return true;
}

enum { PLACES = 11 };

static void describe(syn_attention_grad_tile *g, const guarded m[PLACES], syn_dropout_row *drop,
                     bool end) {
    syn_attention_tile *a = &g->of;
    a->scale = (float)ref_real(0.05, 0.5);
    a->q_stride = a->depth + ref_int(0, 9);
    a->k_stride = a->depth + ref_int(0, 9);
    a->v_stride = a->value_depth + ref_int(0, 9);
    a->out_stride = a->value_depth + ref_int(0, 9);
    g->dout_stride = a->value_depth + ref_int(0, 9);
    a->q = guarded_rows(&m[0], a->queries, a->depth, a->q_stride, end, 2);
    a->k = guarded_rows(&m[1], a->keys, a->depth, a->k_stride, end, ref_int(0, 4) ? 1 : 10);
    a->v = guarded_rows(&m[2], a->keys, a->value_depth, a->v_stride, end, 1);
    g->dout = guarded_rows(&m[3], a->queries, a->value_depth, g->dout_stride, end, 1);
    a->step = ref_int(0, 1);
    a->visible = a->step ? ref_int(-5, a->keys) : a->keys;
    if (a->step && ref_int(0, 1)) a->window = ref_int(1, ref_int(0, 1) ? 40 : a->keys + 9);
    if (ref_int(0, 1)) {
        float *mask = guarded_floats(&m[4], a->keys, end);
        const int64_t hidden = ref_int(0, 10); /* in tenths of all keys */
        for (int64_t s = 0; s < a->keys; s++)
            mask[s] = ref_int(1, 10) <= hidden ? -INFINITY : (float)ref_real(-3, 0);
        a->mask = mask;
    }
    a->has_sink = ref_int(0, 1);
    a->sink = (float)ref_real(-4, 4);
    if (ref_int(0, 1)) {
        for (int64_t i = 0; i < a->queries; i++) drop[i] = syn__dropout_row(0.3, 5, 7, 1000 + i);
        a->drop = drop;
        a->column = (uint32_t)ref_int(0, 100);
    }
}

static bool check_forward(const syn_attention_kernels *k, syn_attention_tile *a, const guarded *out,
                          const guarded *sums, bool end) {
    const int64_t queries = a->queries;
    a->queries = queries < k->tile ? queries : k->tile;
    a->out = guarded_floats(out, (queries - 1) * a->out_stride + a->value_depth, end);
    a->log_sum = guarded_floats(sums, queries, end);
    k->attend(a);
    bool same = true;
    for (int64_t i = 0; same && i < a->queries; i++) {
        double size[DEPTH], size_of_sum = 1e-6 + 4e-7 * want.far[i];
        for (int64_t d = 0; d < a->value_depth; d++) size[d] = 4e-7 * want.far[i];
        same = near("out", a->out + i * a->out_stride, want.out[i], size, i, a->value_depth) &&
               (want.log_sum[i] == (double)a->log_sum[i] ||
                near("log-sum-exp", &a->log_sum[i], &want.log_sum[i], &size_of_sum, i, 1));
    }
    a->queries = queries;
    return same;
}

/* dk and dv begin as ones, because kernels add gradients to them. With g->add, kernels add to dq as
   well, so it also begins as ones. */
static bool check_backward(const syn_attention_kernels *k, syn_attention_grad_tile *g,
                           const guarded m[PLACES], bool end) {
    syn_attention_tile *a = &g->of;
    const int64_t whole = a->keys * g->dk_stride, depth = a->depth;
    g->dq_stride = depth + ref_int(0, 9);
    g->add = ref_int(0, 1);
    g->dq = guarded_floats(&m[7], (a->queries - 1) * g->dq_stride + depth, end);
    g->dk = guarded_floats(&m[8], whole, end);
    g->dv = guarded_floats(&m[9], whole, end);
    for (int64_t i = 0; i < whole; i++) g->dk[i] = g->dv[i] = 1;
    for (int64_t i = 0; i < a->queries; i++) {
        for (int64_t d = 0; d < a->value_depth; d++)
            a->out[i * a->out_stride + d] = (float)want.out[i][d];
        for (int64_t d = 0; g->add && d < depth; d++)
            g->dq[i * g->dq_stride + d] = 1, want.dq[i][d] += 1;
    }
    for (int64_t i = 0; i < a->queries; i++) a->log_sum[i] = (float)want.log_sum[i];
    k->attend_grad(g);
    bool same = guarded_untouched(&m[8], g->dk, whole) && guarded_untouched(&m[9], g->dv, whole);
    for (int64_t i = 0; same && i < a->queries; i++)
        same = near("dq", g->dq + i * g->dq_stride, want.dq[i], want.q_size[i], i, depth);
    for (int64_t s = 0; same && s < a->keys; s++)
        same = near("dk", g->dk + s * g->dk_stride, want.dk[s], want.k_size[s], s, depth) &&
               near("dv", g->dv + s * g->dk_stride, want.dv[s], want.v_size[s], s, a->value_depth);
    return same;
}

static void round_of(const syn_attention_kernels *k, const guarded m[PLACES], uint64_t seed) {
    static syn_dropout_row drop[QUERIES];
    static double w[KEYS];
    ref_seed(seed);
    const bool end = seed % 2;
    syn_attention_grad_tile g = {
        .of = {.queries = ref_int(0, 2) ? ref_int(1, k->grad_tile) : ref_int(1, 8),
               .keys = ref_int(0, 3) ? ref_int(0, 100) : ref_int(100, KEYS),
               .depth = ref_int(0, 3) ? ref_int(1, 40) : ref_int(1, DEPTH)}};
    syn_attention_tile *a = &g.of;
    a->value_depth = ref_int(0, 2) ? a->depth : ref_int(0, 3) ? ref_int(1, 40) : ref_int(1, DEPTH);
    const int64_t widest = a->depth > a->value_depth ? a->depth : a->value_depth;
    g.dk_stride = (widest + SYN__ATTEND_PAD - 1) / SYN__ATTEND_PAD * SYN__ATTEND_PAD;
    describe(&g, m, drop, end);
    for (int64_t s = 0; s < a->keys; s++)
        for (int64_t d = 0; d < widest; d++) {
            want.dk[s][d] = want.dv[s][d] = 1;
            want.k_size[s][d] = want.v_size[s][d] = 0;
        }
    for (int64_t i = 0; i < a->queries; i++) {
        exact_forward(a, i, w);
        exact_backward(&g, i, w);
    }
    const size_t n = k->scratch_floats(a->depth, a->value_depth, a->keys),
                 n_grad = k->grad_scratch_floats(a->depth, a->value_depth);
    a->scratch = guarded_floats(&m[10], (int64_t)n, true);
    CHECK(check_forward(k, a, &m[5], &m[6], end));
    a->scratch = guarded_floats(&m[10], (int64_t)n_grad, true);
    CHECK(check_backward(k, &g, m, end));
}

static void test_kernels(void) {
    guarded m[PLACES];
    if (ref_on_cuda()) return; /* the kernels below are for CPUs */
    for (int i = 0; i < PLACES; i++) m[i] = guarded_new(KEYS * ROW * 3 * sizeof(float));
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (uint64_t seed = 0;
             seed < TEST_ROUNDS(800) && syn_simd_supported(level) && !test_failures; seed++) {
            round_of(syn__attention_kernels_at(level), m, seed);
            if (test_failures) fprintf(stderr, "%s, seed %d\n", syn_simd_name(level), (int)seed);
        }
    for (int i = 0; i < PLACES; i++) guarded_free(&m[i]);
}

/* ---- the ops ---- */

static const float *floats_of(const ref *r, float *to) {
    for (int64_t i = 0; i < syn_spec_elems(&r->spec); i++) to[i] = (float)r->v[i];
    return to;
}

/* Computes the expected results r in double: y, log-sum-exp, dq, dk, dv and dsinks. x: q, k, v, dy
   and sinks, which are used if `sunk`. */
static void exact_op(const ref x[5], const syn_attention_options *how, bool sunk, ref r[6]) {
    static float q[REF_MAX], k[REF_MAX], v[REF_MAX], dy[REF_MAX];
    static double w[KEYS];
    const int64_t *n = x[0].spec.dims, *m = x[1].spec.dims, depth = n[3],
                  values = x[2].spec.dims[3], row = n[1] * depth, values_row = n[1] * values;
    const int64_t sums[3] = {n[0], n[1], n[2]}, dq[4] = {n[0], n[2], n[1], depth},
                  dk[4] = {m[0], m[2], m[1], depth}, dv[4] = {m[0], m[2], m[1], values};
    floats_of(&x[0], q), floats_of(&x[1], k), floats_of(&x[2], v), floats_of(&x[3], dy);
    r[0].spec = x[3].spec;
    r[1].spec = ref_spec(SYN_F32, 3, sums);
    r[2].spec = ref_spec(SYN_F32, 4, dq);
    r[3].spec = ref_spec(SYN_F32, 4, dk);
    r[4].spec = ref_spec(SYN_F32, 4, dv);
    r[5].spec = x[4].spec;
    memset(r[5].v, 0, (size_t)n[1] * sizeof *r[5].v);
    for (int64_t head = 0; head < n[0] * n[1]; head++) {
        const int64_t b = head / n[1], h = head % n[1], group = n[1] / m[1];
        const int64_t shared = b * m[1] + h / group;
        const syn_attention_grad_tile g = {.of = {.q = q + head * n[2] * depth,
                                                  .k = k + shared * m[2] * depth,
                                                  .v = v + shared * m[2] * values,
                                                  .q_stride = depth,
                                                  .k_stride = depth,
                                                  .v_stride = values,
                                                  .queries = n[2],
                                                  .keys = m[2],
                                                  .depth = depth,
                                                  .value_depth = values,
                                                  .visible = how->causal ? how->offset + 1 : m[2],
                                                  .step = how->causal,
                                                  .window = how->window,
                                                  .scale = (float)how->scale,
                                                  .has_sink = sunk,
                                                  .sink = (float)x[4].v[h]},
                                           .dout = dy + b * n[2] * values_row + h * values,
                                           .dout_stride = values_row};
        if (h % group == 0) memset(want.dk, 0, sizeof want.dk), memset(want.dv, 0, sizeof want.dv);
        for (int64_t i = 0; i < n[2]; i++) {
            exact_forward(&g.of, i, w);
            exact_backward(&g, i, w);
            r[1].v[head * n[2] + i] = want.log_sum[i];
            for (int64_t d = 0; d < values; d++) {
                r[0].v[(b * n[2] + i) * values_row + h * values + d] = want.out[i][d];
                r[5].v[h] -= exp(x[4].v[h] - want.log_sum[i]) * want.out[i][d] *
                             (double)g.dout[i * values_row + d];
            }
            for (int64_t d = 0; d < depth; d++)
                r[2].v[(b * n[2] + i) * row + h * depth + d] = want.dq[i][d];
        }
        for (int64_t s = 0; s < m[2]; s++) {
            const int64_t at = (b * m[2] + s) * m[1] + h / group;
            for (int64_t d = 0; d < depth; d++) r[3].v[at * depth + d] = want.dk[s][d];
            for (int64_t d = 0; d < values; d++) r[4].v[at * values + d] = want.dv[s][d];
        }
    }
}

static void test_layouts(void) {
    static ref x[5], r[6];
    for (int round = 0; round < ref_rounds(200); round++) {
        ref_seed((uint64_t)round);
        const int64_t b = ref_int(1, 3), g = ref_int(1, 2), h = g * ref_int(1, 3),
                      t = ref_int(1, 7), s = ref_int(1, 9), d = ref_int(1, 5),
                      values = ref_int(0, 1) ? d : ref_int(1, 5);
        const int64_t of_q[4] = {b, h, t, d}, of_k[4] = {b, g, s, d}, of_v[4] = {b, g, s, values},
                      of_y[4] = {b, t, h, values};
        syn_attention_options how = {.scale = ref_real(0.1, 2),
                                     .causal = ref_int(0, 3) > 0,
                                     .offset = ref_int(0, 3) ? s - t : ref_int(-3, 4),
                                     .window = ref_int(0, 1) ? ref_int(1, 9) : 0};
        if (!how.causal) how.window = 0;
        for (int i = 0; i < 4; i++)
            ref_fill(&x[i],
                     ref_spec(SYN_F32, 4,
                              i == 0   ? of_q
                              : i == 1 ? of_k
                              : i == 2 ? of_v
                                       : of_y),
                     -2, 2);
        const bool sunk = ref_int(0, 1);
        ref_fill(&x[4], (syn_spec){SYN_F32, 1, {h}}, -2, 2);
        exact_op(x, &how, sunk, r);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor in[6], out[3], dsinks;
        for (int i = 0; i < 3; i++) in[i] = syn__dense_last_dim(ctx, ref_wild(ctx, &x[i]));
        const syn_tensor sinks = ref_wild(ctx, &x[4]), all[4] = {in[0], in[1], in[2], sinks};
        in[5] = syn__dense_last_dim(ctx, ref_wild(ctx, &x[3]));
        syn_attr attr[10] = {{.f = how.scale}, {.i = how.causal}, {.i = how.offset}};
        attr[8].i = how.window;
        syn__call_op(ctx, SYN_OP_ATTENTION_TRAIN, all, sunk ? 4 : 3, attr, how.window ? 9 : 8, NULL,
                     in + 3);
        attr[8].i = 7, attr[9].i = how.window;
        CHECK(ref_check(ctx, in[3], &r[0], 1e-5) && ref_check(ctx, in[4], &r[1], 1e-5));
        syn__call_op(ctx, SYN_OP_ATTENTION_GRAD, in, 6, attr, how.window ? 10 : 8, NULL, out);
        for (int i = 0; i < 3; i++) CHECK(ref_check(ctx, out[i], &r[2 + i], 2e-5));
        if (sunk) {
            const syn_tensor of_sinks[4] = {in[3], in[4], in[5], sinks};
            syn__call_op(ctx, SYN_OP_SINKS_GRAD, of_sinks, 4, NULL, 0, NULL, &dsinks);
            CHECK(ref_check(ctx, dsinks, &r[5], 2e-5));
        }
        syn_ctx_free(ctx);
    }
}

typedef struct shape {
    int64_t batch, heads, shared, queries, keys, depth;
    bool causal, masked;
    double p;
    bool sunk;
} shape;

enum { MOST = 120000 };

typedef struct results {
    float y[MOST], d[3][MOST], dsinks[MOST];
    uint64_t flops; /* flops of the gradient op */
} results;

static void read_all(syn_ctx *ctx, syn_tensor t, float *to) {
    const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, t));
    CHECK_MSG(n <= MOST && syn_tensor_read(ctx, t, to, n * sizeof *to) == SYN_OK, "%s",
              syn_ctx_error(ctx)->text);
}

static syn_tensor random_input(syn_ctx *ctx, int rank, const int64_t *dims, bool hides) {
    static float data[MOST];
    const syn_spec spec = ref_spec(SYN_F32, rank, dims);
    for (int64_t i = 0; i < syn_spec_elems(&spec); i++) {
        data[i] = (float)ref_real(-1, 1);
        if (hides && ref_int(0, 3) == 0) data[i] = -INFINITY;
    }
    return syn_input(ctx, "x", &spec, data);
}

/* The flops of the last node of an op; 0 if the trace has none. */
static uint64_t flops_of(const syn_ctx *ctx, syn_op op) {
    const syn_trace *t = syn_ctx_trace(ctx);
    uint32_t at = (uint32_t)t->n_nodes - 1;
    syn_error err = {0};
    syn_graph *graph = NULL;
    syn_cursor cursor = {0};
    while (at > 0 && t->nodes[at].op != op) at--;
    if (at == 0 || syn_trace_graph(&graph, &t, 1, NULL, &err) != SYN_OK) return 0;
    const uint64_t flops = syn_graph_node(graph, 0, at - 1, &cursor)->flops;
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    return flops;
}

/* Runs attention and its gradient on heads with a model's layout (slices of one product's result).
   Bits 0, 1 and 2 of `wanted` request the gradients of q, k and v. */
static void run_op(const shape *s, int threads, bool fused, int wanted, results *r) {
    syn_error err = {0};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    if (syn_ctx_set_threads(ctx, threads, &err) != SYN_OK) abort();
    ref_seed(3);
    const int64_t of_q[4] = {s->batch, s->queries, s->heads, s->depth},
                  of_k[4] = {s->batch, s->keys, s->shared, s->depth}, of_m[2] = {s->batch, s->keys};
    const int order[4] = {0, 2, 1, 3};
    const int64_t flat[3] = {s->batch, s->queries, -1};
    syn_tensor leaf[3], x[3];
    for (int i = 0; i < 3; i++) {
        leaf[i] = random_input(ctx, 4, i == 0 ? of_q : of_k, false);
        if (wanted >> i & 1) syn_require_grad(ctx, leaf[i]);
        x[i] = syn_permute(ctx, leaf[i], order, 4);
    }
    syn_heads_options how = {.fused = fused, .causal = s->causal, .position = s->keys - s->queries};
    how.dropout = (syn_dropout_options){.p = s->p, .seed = 9, .sample = 4, .row = 3 * s->queries};
    if (s->masked) how.mask = random_input(ctx, 2, of_m, true);
    if (s->sunk) {
        how.sinks = random_input(ctx, 1, &s->heads, false);
        syn_require_grad(ctx, how.sinks);
    }
    const syn_tensor y = syn_heads_attend(ctx, x[0], x[1], x[2], &how);
    const syn_tensor w = syn_reshape(ctx, random_input(ctx, 4, of_q, false), flat, 3);
    const syn_tensor loss = syn_sum_to(ctx, syn_mul(ctx, y, w), NULL, 0);
    read_all(ctx, y, r->y);
    CHECK_MSG(syn_backward(ctx, loss) == SYN_OK, "%s", syn_ctx_error(ctx)->text);
    for (int i = 0; i < 3; i++)
        if (wanted >> i & 1) read_all(ctx, syn_grad(ctx, leaf[i]), r->d[i]);
    if (s->sunk) read_all(ctx, syn_grad(ctx, how.sinks), r->dsinks);
    r->flops = flops_of(ctx, SYN_OP_ATTENTION_GRAD);
    CHECK_INT(ref_count(ctx, SYN_OP_ATTENTION_GRAD), fused);
    /* The three copies that are saved for the leaves. */
    if (fused && wanted == 7) CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 3);
    syn_ctx_free(ctx);
}

static const shape shapes[] = {
    {2, 3, 3, 100, 100, 16, true, false, 0, false},
    {1, 4, 2, 70, 130, 33, false, true, 0, false},
    {3, 2, 1, 5, 90, 70, true, true, 0.2, false},
    {1, 1, 1, 66, 1100, 20, false, false, 0.5, false},
    {1, 2, 1, 300, 700, 64, true, false, 0.1, false},
    {2, 6, 3, 64, 64, 64, false, false, 0, false},
    {2, 4, 2, 60, 110, 32, true, true, 0.2, true},
};
enum { SHAPES = (int)(sizeof shapes / sizeof *shapes) };

static void test_threads(void) {
    static results one, more;
    for (int i = 0; i < SHAPES; i++) {
        run_op(&shapes[i], 1, true, 7, &one);
        for (int threads = 2; threads < 5; threads++) {
            run_op(&shapes[i], threads, true, 7, &more);
            CHECK_MSG(memcmp(&one, &more, sizeof one) == 0, "shape %d, %d threads", i, threads);
        }
    }
}

/* Gradients that are not requested are not computed. The requested ones do not change. */
static void test_wanted(void) {
    static results all, some;
    for (int i = 0; i < SHAPES; i++) {
        run_op(&shapes[i], 2, true, 7, &all);
        const shape *s = &shapes[i];
        const uint64_t product =
            2 * (uint64_t)(s->batch * s->heads * s->queries * s->keys * s->depth);
        for (int wanted = 1; wanted < 7; wanted++) {
            run_op(s, 2, true, wanted, &some);
            const uint64_t missing =
                3 - (uint64_t)((wanted & 1) + (wanted >> 1 & 1) + (wanted >> 2));
            CHECK_INT(some.flops, all.flops - missing * product);
            for (int k = 0; k < 3; k++)
                CHECK(!(wanted >> k & 1) || memcmp(some.d[k], all.d[k], sizeof all.d[k]) == 0);
        }
    }
}

static void compare(const char *what, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n && !test_failures; i++)
        CHECK_MSG(fabsf(a[i] - b[i]) <= 2e-6f * (1 + fabsf(b[i])), "%s, %lld: %.9g, not %.9g", what,
                  (long long)i, (double)a[i], (double)b[i]);
}

static void test_separate_ops(void) {
    static results one, several;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        const int64_t q = s->batch * s->heads * s->queries * s->depth,
                      k = s->batch * s->shared * s->keys * s->depth;
        run_op(s, 2, true, 7, &one);
        run_op(s, 2, false, 7, &several);
        compare("y", one.y, several.y, q);
        compare("dq", one.d[0], several.d[0], q);
        compare("dk", one.d[1], several.d[1], k);
        compare("dv", one.d[2], several.d[2], k);
        if (s->sunk) compare("dsinks", one.dsinks, several.dsinks, s->heads);
    }
}

/* A rank may have only some heads of one sample, which are identified by number or by key. Dropout
   must drop the same weights as for the whole batch. */
static void test_shards_of_dropout(void) {
    enum { B = 3, H = 4, T = 30, D = 8, ALL = B * H * T * D };
    static float whole[ALL], part[ALL];
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const int64_t dims[4] = {B, H, T, D};
    const int32_t numbers[B] = {42, 40, 41};
    const syn_spec of_keys = {SYN_I32, 1, {B}};
    ref_seed(1);
    const syn_tensor x = random_input(ctx, 4, dims, false),
                     keys = syn_input(ctx, "keys", &of_keys, numbers);
    syn_attention_options how = {.scale = 1, .dropout = {.p = 0.5, .seed = 77, .sample = 1}};
    how.keys = keys;
    read_all(ctx, syn_attention_train(ctx, x, x, x, &how), whole);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h += 2) {
            const syn_tensor some = syn_slice(ctx, syn_slice(ctx, x, 0, b, 1), 1, h, 2);
            how.keys = b % 2 ? syn_slice(ctx, keys, 0, b, 1) : SYN_NO_KEYS;
            how.dropout.sample = numbers[b];
            how.dropout.row = h * T;
            read_all(ctx, syn_attention_train(ctx, some, some, some, &how), part);
            for (int i = 0; i < 2 * T * D; i++)
                CHECK(part[i] == whole[((b * T + i / 2 / D) * H + h) * D + i % (2 * D)]);
        }
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"kernels", test_kernels},           {"layouts", test_layouts},
    {"threads", test_threads},           {"wanted", test_wanted},
    {"separate ops", test_separate_ops}, {"shards of dropout", test_shards_of_dropout},
};
TEST_MAIN(cases)
