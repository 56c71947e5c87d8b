/* Compares cross_entropy, square_sum, clip_factor and adamw with their definitions in double
   precision. */
#include "ops/rules.h"
#include "syntorch/base/half.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { ROUNDS = 200 };

/* ---- losses ---- */

/* Returns the loss of one row, -log softmax(x)[target], and stores its gradient in dx. */
static double row_loss(const double *x, int64_t classes, int64_t target, double *dx) {
    double max = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < classes; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < classes; i++) sum += exp(x[i] - max);
    for (int64_t i = 0; i < classes; i++) dx[i] = exp(x[i] - max) / sum - (i == target);
    return max + log(sum) - x[target];
}

/* Some targets are ignored, in some rounds all of them. Columns from index `classes` on are
   ignored, whatever values they have. */
static void test_cross_entropy(void) {
    static ref x, targets, dx, loss;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        ref_seed((uint64_t)round);
        const double width = round % 3 ? 3 : 80;
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 4, false), -width, width);
        const int64_t v = x.spec.dims[x.spec.rank - 1], classes = ref_int(1, v);
        targets.spec = x.spec;
        targets.spec.dtype = SYN_I32;
        targets.spec.dims[--targets.spec.rank] = 0;
        const int64_t rows = syn_spec_elems(&targets.spec);
        double counted = 0;
        dx.spec = x.spec;
        loss.spec = (syn_spec){SYN_F32, 0, {0}};
        loss.v[0] = 0;
        memset(dx.v, 0, sizeof dx.v);
        for (int64_t r = 0; r < rows; r++) {
            const bool ignored = round % 10 == 0 || ref_int(0, 3) == 0;
            targets.v[r] = ignored ? SYN_IGNORED_TARGET : (double)ref_int(0, classes - 1);
            counted += !ignored;
            if (!ignored)
                loss.v[0] += row_loss(x.v + r * v, classes, (int64_t)targets.v[r], dx.v + r * v);
            for (int64_t i = classes; i < v; i++) x.v[r * v + i] = round % 2 ? (double)NAN : 1e30;
        }
        const bool mean = round % 4 != 3;
        const float given = (float)ref_real(0.01, 2);
        const double weight = mean ? 1 / fmax(counted, 1) : (double)given;
        loss.v[0] *= weight;
        for (int64_t i = 0; i < rows * v; i++) dx.v[i] *= weight;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_spec one = {SYN_F32, 1, {1}};
        const syn_tensor logits = syn_reshape(ctx, ref_dense(ctx, &x), x.spec.dims, x.spec.rank);
        const syn_tensor got =
            syn_cross_entropy(ctx, logits, ref_wild(ctx, &targets),
                              mean ? SYN_MEAN : syn_input(ctx, "weight", &one, &given), classes);
        CHECK(ref_check(ctx, got, &loss, 2e-6));
        CHECK(ref_check(ctx, syn_current_version(ctx, logits), &dx,
                        2e-6)); /* this call overwrites the logits */
        syn_ctx_free(ctx);
    }
}

/* The ops of the loss that is not fused, for a shard of the logits: the log-softmax, its gradient,
   and the gradient of the logits, dx. in[1..4]: the other inputs of cross_entropy_join. */
static void check_unfused(syn_ctx *ctx, const syn_tensor in[5], int64_t first, int64_t all,
                          const ref *x, const ref *dx, const ref *loss) {
    static ref y, dy, scaled;
    const float half = 0.5f;
    const syn_spec scalar = {SYN_F32, 0, {0}};
    const int64_t rows = x->spec.dims[0], n = x->spec.dims[1];
    float max[9], sum[9];
    int32_t ids[9];
    CHECK(syn_tensor_read(ctx, in[2], max, (size_t)rows * sizeof *max) == SYN_OK);
    CHECK(syn_tensor_read(ctx, in[3], sum, (size_t)rows * sizeof *sum) == SYN_OK);
    CHECK(syn_tensor_read(ctx, in[1], ids, (size_t)rows * sizeof *ids) == SYN_OK);
    int counted = 0;
    for (int64_t r = 0; r < rows; r++) counted += ids[r] != SYN_IGNORED_TARGET;
    y.spec = dy.spec = scaled.spec = x->spec;
    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t r = i / n, target = ids[r] - first;
        y.v[i] = x->v[i] - (double)max[r] - log((double)sum[r]);
        dy.v[i] = ids[r] != SYN_IGNORED_TARGET && i % n == target ? -0.5 / counted : 0;
        scaled.v[i] = dx->v[i] / 2;
    }
    const syn_attr attr[3] = {{.i = n}, {.i = first}, {.i = all}};
    const syn_attr shape[3] = {{.i = n}, {.i = first}, {.i = n}};
    const syn_tensor fresh[5] = {ref_dense(ctx, x), in[1], in[2], in[3], in[4]};
    const syn_tensor nll[2] = {in[1], syn_input(ctx, "dloss", &scalar, &half)};
    syn_tensor out[2], grads[4] = {{0}, {0}, in[1], nll[1]}, got;
    syn__call_op(ctx, SYN_OP_LOG_SOFTMAX_LOSS, fresh, 5, attr, 3, NULL, out);
    CHECK(ref_check(ctx, out[0], &y, 5e-6));
    CHECK(ref_check(ctx, out[1], loss, 5e-6));
    syn__call_op(ctx, SYN_OP_NLL_GRAD, nll, 2, shape, 3, NULL, &grads[1]);
    CHECK(ref_check(ctx, grads[1], &dy, 2e-6));
    grads[0] = out[0];
    syn__call_op(ctx, SYN_OP_LOG_SOFTMAX_GRAD, grads, 4, attr, 1, NULL, &got);
    CHECK(ref_check(ctx, got, &scaled, 5e-6));
}

/* Logits in two shards, as on two ranks. Each rank computes values for the targets from its shard;
   from the combined values, it computes the loss and its shard of the gradient. */
static void test_cross_entropy_in_parts(void) {
    static ref x, targets, dx, loss, part, known[3], all[3], got;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        const int64_t rows = ref_int(1, 9), cut = ref_int(1, 40), v = cut + ref_int(1, 40);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, v}}, round % 3 ? -3 : -60, round % 3 ? 3 : 60);
        ref_fill(&targets, (syn_spec){SYN_I32, 1, {rows}}, 0, (double)v - 1);
        if (rows > 1) targets.v[ref_int(0, rows - 1)] = SYN_IGNORED_TARGET;
        const double counted = (double)(rows > 1 ? rows - 1 : rows);
        dx.spec = x.spec;
        loss.spec = (syn_spec){SYN_F32, 0, {0}};
        loss.v[0] = 0;
        memset(dx.v, 0, sizeof dx.v);
        for (int i = 0; i < 3; i++) all[i].spec = known[i].spec = (syn_spec){SYN_F32, 1, {rows}};
        for (int64_t r = 0; r < rows; r++) {
            const int64_t t = (int64_t)targets.v[r];
            if (t >= 0) loss.v[0] += row_loss(x.v + r * v, v, t, dx.v + r * v) / counted;
            for (int64_t i = 0; i < v; i++) dx.v[r * v + i] /= counted;
            all[0].v[r] = -HUGE_VAL;
            all[1].v[r] = 0;
            for (int64_t i = 0; i < v; i++) all[0].v[r] = fmax(all[0].v[r], x.v[r * v + i]);
            for (int64_t i = 0; i < v; i++) all[1].v[r] += exp(x.v[r * v + i] - all[0].v[r]);
            all[2].v[r] = t >= 0 ? x.v[r * v + t] : 0;
        }
        for (int which = 0; which < 2; which++) {
            const int64_t first = which ? cut : 0, n = which ? v - cut : cut;
            part.spec = got.spec = (syn_spec){SYN_F32, 2, {rows, n}};
            for (int64_t r = 0; r < rows; r++) {
                const int64_t t = (int64_t)targets.v[r] - first;
                known[0].v[r] = -HUGE_VAL;
                known[1].v[r] = 0;
                for (int64_t i = 0; i < n; i++) {
                    part.v[r * n + i] = x.v[r * v + first + i];
                    got.v[r * n + i] = dx.v[r * v + first + i];
                    known[0].v[r] = fmax(known[0].v[r], part.v[r * n + i]);
                }
                for (int64_t i = 0; i < n; i++)
                    known[1].v[r] += exp(part.v[r * n + i] - known[0].v[r]);
                known[2].v[r] = t >= 0 && t < n ? part.v[r * n + t] : 0;
            }
            const syn_attr attr[2] = {{.i = n}, {.i = first}};
            syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
            syn_tensor in[5] = {ref_dense(ctx, &part), ref_dense(ctx, &targets)}, out[3], sum;
            syn__call_op(ctx, SYN_OP_CROSS_ENTROPY_PART, in, 2, attr, 2, NULL, out);
            for (int i = 0; i < 3; i++) CHECK(ref_check(ctx, out[i], &known[i], 2e-6));
            for (int i = 0; i < 3; i++) in[2 + i] = ref_dense(ctx, &all[i]);
            const syn_tensor sums[3] = {out[1], out[0], in[2]};
            for (int64_t r = 0; r < rows; r++) known[1].v[r] *= exp(known[0].v[r] - all[0].v[r]);
            syn__call_op(ctx, SYN_OP_EXP_RESCALE, sums, 3, NULL, 0, NULL, &sum);
            CHECK(ref_check(ctx, sum, &known[1], 2e-6));
            syn__call_op(ctx, SYN_OP_CROSS_ENTROPY_JOIN, in, 5, attr, 2, NULL, out);
            CHECK(ref_check(ctx, out[0], &got, 5e-6));
            CHECK(ref_check(ctx, out[1], &loss, 5e-6));
            check_unfused(ctx, in, first, v, &part, &got, &loss);
            syn_ctx_free(ctx);
        }
    }
}

/* Invalid targets are reported before anything is written (CPU), or when the loss is read. */
static void test_targets_that_are_no_class(void) {
    static const int32_t wrong[] = {4, -1, -99, INT32_MAX, INT32_MIN};
    const syn_spec spec = {SYN_F32, 2, {3, 5}}, three = {SYN_I32, 1, {3}};
    for (size_t i = 0; i < 2 * COUNT(wrong); i++) {
        const int32_t targets[3] = {0, SYN_IGNORED_TARGET, wrong[i / 2]};
        const bool fused = i % 2 == 0;
        char want[96];
        float none;
        snprintf(want, sizeof want, "%s: %s is %d, which is out of range: there are 4 classes",
                 fused ? "cross_entropy" : "log_softmax_loss",
                 ref_on_cuda() ? "a target" : "target 2", (int)wrong[i / 2]);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor x = syn_input(ctx, "x", &spec, NULL),
                         y = syn_input(ctx, "targets", &three, targets);
        const syn_tensor loss = fused
                                    ? syn_cross_entropy(ctx, x, y, SYN_MEAN, 4)
                                    : syn_cross_entropy_unfused(ctx, x, y, SYN_MEAN, 4, 0, 4, NULL);
        CHECK(syn_tensor_read(ctx, loss, &none, sizeof none) != SYN_OK);
        CHECK_STR(syn_ctx_error(ctx)->text, want);
        syn_ctx_free(ctx);
    }
}

/* ---- ops of the optimizer ---- */

enum { LISTS = 6 };

/* A random list of 1 to LISTS tensors of any rank. Returns its length. */
static int some_list(ref *xs, double low, double high) {
    const int n = (int)ref_int(1, LISTS);
    for (int i = 0; i < n; i++) ref_fill(&xs[i], ref_random_spec(SYN_F32, 0, 3, true), low, high);
    return n;
}

static void test_clipping(void) {
    static ref xs[LISTS], sum, factor, norm;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        const int n = some_list(xs, -2, 2);
        const double max_norm = round % 3 ? ref_real(0.01, 50) : 0;
        const int divisor = round % 2 ? (int)ref_int(1, 8) : 1;
        syn_tensor in[LISTS];
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        sum.spec = factor.spec = norm.spec = (syn_spec){SYN_F32, 0, {0}};
        sum.v[0] = 0;
        for (int k = 0; k < n; k++) {
            in[k] = ref_dense(ctx, &xs[k]);
            for (int64_t i = 0; i < syn_spec_elems(&xs[k].spec); i++)
                sum.v[0] += xs[k].v[i] * xs[k].v[i];
        }
        sum.v[0] /= divisor;
        norm.v[0] = sqrt(sum.v[0]);
        factor.v[0] = max_norm > 0 ? fmin(1, max_norm / (norm.v[0] + 1e-6)) : 1;
        const syn_tensor squares = syn_square_sum_divided(ctx, in, n, divisor);
        syn_tensor got_norm;
        CHECK(ref_check(ctx, squares, &sum, 1e-6));
        const syn_tensor got = syn_clip_factor(ctx, squares, max_norm, &got_norm);
        CHECK(ref_check(ctx, got, &factor, 1e-6));
        CHECK(ref_check(ctx, got_norm, &norm, 1e-6));
        syn_ctx_free(ctx);
    }
}

/* If a gradient has a NaN or infinity, the norm is not finite and the clip factor not positive, so
   that training cannot continue unnoticed. */
static void test_clipping_nan_and_infinity(void) {
    const float broken[2] = {NAN, INFINITY};
    const syn_spec spec = {SYN_F32, 1, {1}};
    for (int i = 0; i < 2; i++) {
        float norm, factor;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor x = syn_input(ctx, "x", &spec, &broken[i]);
        syn_tensor n;
        const syn_tensor f = syn_clip_factor(ctx, syn_square_sum(ctx, &x, 1), 1, &n);
        CHECK(syn_tensor_read(ctx, n, &norm, sizeof norm) == SYN_OK && !isfinite(norm));
        CHECK(syn_tensor_read(ctx, f, &factor, sizeof factor) == SYN_OK && !(factor > 0));
        syn_ctx_free(ctx);
    }
}

/* Concatenates all parameters. */
static void join(ref *all, const ref *p, int n) {
    int64_t at = 0;
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < syn_spec_elems(&p[k].spec); i++) all->v[at++] = p[k].v[i];
    all->spec = (syn_spec){SYN_F32, 1, {at}};
}

/* Whether the 16-bit parameters equal the rounded master weights. */
static bool are_rounded(syn_ctx *ctx, const syn_tensor *params, int n, syn_tensor masters) {
    static float wide[REF_MAX];
    static uint16_t want[REF_MAX], got[REF_MAX];
    const size_t all = (size_t)syn_spec_elems(syn_tensor_spec(ctx, masters));
    size_t at = 0;
    if (syn_tensor_read_f32(ctx, masters, wide, all) != SYN_OK) return false;
    for (int k = 0; k < n; k++) {
        const syn_spec *spec = syn_tensor_spec(ctx, params[k]);
        const size_t some = (size_t)syn_spec_elems(spec);
        syn_half_narrow(wide + at, want, some, (syn_dtype)spec->dtype);
        if (syn_tensor_read(ctx, params[k], got, some * sizeof *got) != SYN_OK ||
            memcmp(got, want, some * sizeof *got) != 0)
            return false;
        at += some;
    }
    return at == all;
}

/* Three steps of algorithm 2 of Loshchilov and Hutter (2019), with a schedule of 1. Also with
   16-bit parameters and master weights. */
static void test_adamw(void) {
    static ref p[LISTS], g[LISTS], m, v, master;
    for (int round = 0; round < ROUNDS / 2; round++) {
        const syn_dtype dtype = (syn_dtype)(round % 3);
        ref_seed((uint64_t)round);
        const int n = some_list(p, -2, 2);
        const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 0.1;
        const int64_t decayed = ref_int(0, (1 << LISTS) - 1);
        const bool counted = ref_int(0, 1); /* n_decayed instead of `decayed` */
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor params[LISTS], grads[LISTS];
        int64_t all = 0;
        for (int k = 0; k < n; k++) {
            syn_spec spec = p[k].spec;
            spec.dtype = (int32_t)dtype;
            params[k] = dtype == SYN_F32 ? ref_dense(ctx, &p[k]) : syn_state(ctx, "p", &spec);
            all += syn_spec_elems(&p[k].spec);
        }
        const int64_t n_decayed = ref_int(-1, all + 1);
        join(&master, p, n);
        m.spec = v.spec = (syn_spec){SYN_F32, 1, {all}};
        memset(m.v, 0, sizeof m.v);
        memset(v.v, 0, sizeof v.v);
        syn_tensor moments[2] = {ref_dense(ctx, &m), ref_dense(ctx, &v)},
                   masters = ref_dense(ctx, &master);
        for (int t = 1; t <= 3; t++) {
            const float scale = (float)ref_real(0.1, 1);
            const double c1 = 1 - pow(beta1, t), c2 = 1 - pow(beta2, t);
            const float rates[3] = {(float)lr, (float)(lr / c1), (float)(1 / sqrt(c2))};
            const syn_spec three = {SYN_F32, 1, {3}}, one = {SYN_F32, 0, {0}};
            int64_t at = 0;
            for (int k = 0; k < n; k++) {
                ref_fill(&g[k], p[k].spec, -1, 1);
                grads[k] = ref_dense(ctx, &g[k]);
                for (int64_t i = 0; i < syn_spec_elems(&p[k].spec); i++, at++) {
                    const double d = (double)scale * g[k].v[i];
                    m.v[at] = beta1 * m.v[at] + (1 - beta1) * d;
                    v.v[at] = beta2 * v.v[at] + (1 - beta2) * d * d;
                    if (counted ? at < n_decayed : decayed >> k & 1)
                        p[k].v[i] -= lr * decay * p[k].v[i];
                    p[k].v[i] -= lr * (m.v[at] / c1) / (sqrt(v.v[at] / c2) + eps);
                }
            }
            const syn_spec number = {SYN_I64, 0, {0}};
            const syn_tensor front = syn_input(ctx, "n_decayed", &number, &n_decayed);
            const syn_adamw_call call = {.params = params,
                                         .grads = grads,
                                         .n = n,
                                         .n_decayed = counted ? front : (syn_tensor){0},
                                         .m = &moments[0],
                                         .v = &moments[1],
                                         .masters = dtype != SYN_F32 ? &masters : NULL,
                                         .rates = syn_input(ctx, "rates", &three, rates),
                                         .scale = syn_input(ctx, "scale", &one, &scale),
                                         .beta1 = beta1,
                                         .beta2 = beta2,
                                         .eps = eps,
                                         .weight_decay = decay,
                                         .decayed = decayed};
            syn_adamw_step(ctx, &call);
            join(&master, p, n);
            if (dtype != SYN_F32) CHECK(ref_check(ctx, masters, &master, 5e-6));
            if (dtype != SYN_F32) CHECK(are_rounded(ctx, params, n, masters));
            for (int k = 0; k < n && dtype == SYN_F32; k++)
                CHECK(ref_check(ctx, params[k], &p[k], 5e-6));
            CHECK(ref_check(ctx, moments[0], &m, 1e-6));
            /* The tolerance is relative to the magnitude of v. */
            CHECK(ref_check(ctx, moments[1], &v, 2e-6 * (1 - beta2)));
        }
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"cross_entropy", test_cross_entropy},
    {"cross_entropy in parts", test_cross_entropy_in_parts},
    {"targets that are no class", test_targets_that_are_no_class},
    {"clipping", test_clipping},
    {"clipping what is no number", test_clipping_nan_and_infinity},
    {"adamw", test_adamw},
};
TEST_MAIN(cases)
