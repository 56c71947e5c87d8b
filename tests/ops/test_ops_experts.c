/* Compares the ops of mixtures of experts with their definitions in double: routing, the sort by
   expert, the copies of tokens, and the products of each expert's rows. */
#include <sys/mman.h>
#include <unistd.h>

#include "ops/rules.h"
#include "syntorch/context_private.h"
#include "syntorch/gradient.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const syn_dtype float_types[3] = {SYN_F32, SYN_F16, SYN_BF16};

/* A context, which has threads in some rounds. */
static syn_ctx *ctx_with_threads(int round) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_error err = {0};
    if (round % 4 == 0) NEED_OK(syn_ctx_set_threads(ctx, 2 + round / 4 % 2, &err), err);
    return ctx;
}

/* The emulated device is slow. */
static int rounds(int n) {
    return ref_on_cuda() ? n / 3 : TEST_ROUNDS(n);
}

/* Output 0 of an op that only gradient rules build. */
static syn_tensor built(syn_ctx *ctx, syn_op op, const syn_tensor *in, int n_in,
                        const syn_attr *attr, int n_attr) {
    syn_tensor out[2];
    syn__call_op(ctx, op, in, n_in, attr, n_attr, NULL, out);
    return out[0];
}

static syn_tensor integers(syn_ctx *ctx, const int32_t *values, int64_t n) {
    const syn_spec spec = {SYN_I32, 1, {n}};
    return syn_input(ctx, "integers", &spec, values);
}

static syn_tensor numbers_of(syn_ctx *ctx, const int64_t *values, int64_t n) {
    const syn_spec spec = {SYN_I64, 1, {n}};
    return syn_input(ctx, "sizes", &spec, values);
}

/* ---- route ---- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void scores_of(const double *x, int64_t n, const syn_routing *how, double *s) {
    double max = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += s[i] = how->score == SYN_SCORE_SOFTMAX ? exp(x[i] - max) : sigmoid(x[i]);
    for (int64_t i = 0; i < n && how->score == SYN_SCORE_SOFTMAX; i++) s[i] /= sum;
}

/* Weights for given experts. */
static void weights_of(const double *x, int64_t n, const syn_routing *how, const double *experts,
                       double *w) {
    double s[REF_MAX], sum = 0;
    scores_of(x, n, how, s);
    for (int64_t j = 0; j < how->k; j++) sum += s[(int64_t)experts[j]];
    for (int64_t j = 0; j < how->k; j++)
        w[j] = how->scale * s[(int64_t)experts[j]] / (how->normalize ? sum : 1);
}

/* The number of elements that come before x[at] in descending order. */
static int64_t rank_of(const double *x, int64_t n, int64_t at) {
    int64_t rank = 0;
    for (int64_t i = 0; i < n; i++) rank += x[i] > x[at] || (x[i] == x[at] && i < at);
    return rank;
}

/* The sum of the two largest of n elements; with `one`, the largest. */
static double best_of(const double *x, int64_t n, bool one) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (rank_of(x, n, i) < (one ? 1 : 2)) sum += x[i];
    return sum;
}

static void experts_of(const double *x, const double *bias, int64_t n, const syn_routing *how,
                       double *experts) {
    double choice[REF_MAX], groups[REF_MAX];
    const int64_t each = n / how->groups;
    scores_of(x, n, how, choice);
    for (int64_t i = 0; i < n; i++) choice[i] += bias ? bias[i] : 0;
    for (int64_t g = 0; g < how->groups; g++)
        groups[g] = best_of(choice + g * each, each, how->score == SYN_SCORE_SOFTMAX);
    for (int64_t i = 0; i < n; i++)
        if (rank_of(groups, how->groups, i / each) >= how->top_groups)
            choice[i] = -(double)INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (rank_of(choice, n, i) < how->k) experts[rank_of(choice, n, i)] = (double)i;
}

static void route(const ref *x, const ref *bias, const syn_routing *how, ref *weights,
                  ref *experts) {
    const int64_t rows = x->spec.dims[0], n = x->spec.dims[1];
    weights->spec = (syn_spec){SYN_F32, 2, {rows, how->k}};
    experts->spec = (syn_spec){SYN_I32, 2, {rows, how->k}};
    for (int64_t i = 0; i < rows; i++) {
        double *to = experts->v + i * how->k;
        experts_of(x->v + i * n, bias ? bias->v : NULL, n, how, to);
        weights_of(x->v + i * n, n, how, to, weights->v + i * how->k);
    }
}

/* A random way to choose among up to 30 experts. */
static syn_routing some_routing(int64_t *n) {
    syn_routing how = {.groups = ref_int(0, 1) ? 1 : ref_int(1, 5)};
    const int64_t each = ref_int(1, how.groups > 1 ? 6 : 30);
    how.top_groups = ref_int(1, how.groups);
    how.k = ref_int(1, each * how.top_groups);
    how.score = ref_int(0, 1) ? SYN_SCORE_SOFTMAX : SYN_SCORE_SIGMOID;
    how.normalize = ref_int(0, 1);
    how.scale = ref_int(0, 2) ? ref_real(0.3, 3) : 1;
    *n = how.groups * each;
    return how;
}

/* Equal logits have equal scores. The sums of two different pairs of these scores differ. */
static void make_ties(ref *x) {
    static const double levels[] = {0.25, 0.7, 1.9, -3.1};
    for (int64_t i = 0; i < syn_spec_elems(&x->spec); i++)
        x->v[i] = (double)(float)levels[ref_int(0, 3)];
}

static void test_route(void) {
    static ref x, bias, weights, experts;
    for (int round = 0; round < rounds(800); round++) {
        int64_t n;
        ref_seed((uint64_t)round);
        const syn_routing how = some_routing(&n);
        const bool with_bias = ref_int(0, 1);
        const int64_t rows = ref_int(0, 9) ? ref_int(1, 12) : ref_int(0, 1) * ref_int(30, 130);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, n}}, -3, 3);
        ref_fill(&bias, (syn_spec){SYN_F32, 1, {n}}, -0.5, 0.5);
        if (round % 3 == 0) make_ties(&x);
        if (round % 6 == 0)
            for (int64_t i = 0; i < n; i++) bias.v[i] = i % 3 == 1 ? 0.5 : 0;
        if (round % 9 == 0) x.v[0] = -(double)INFINITY;
        if (n == 1) x.v[0] = 0.5;
        route(&x, with_bias ? &bias : NULL, &how, &weights, &experts);
        syn_ctx *ctx = ctx_with_threads(round);
        syn_tensor chosen;
        const syn_tensor got = syn_route(
            ctx, ref_wild(ctx, &x), with_bias ? ref_wild(ctx, &bias) : SYN_NO_BIAS, &how, &chosen);
        CHECK_MSG(ref_check(ctx, chosen, &experts, 0) && ref_check(ctx, got, &weights, 2e-6),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* More experts than a device's shared memory has room for, and tokens for more than one block. */
static void test_many_experts(void) {
    static ref x, weights, experts;
    for (int round = 0; round < 4; round++) {
        syn_routing how = {9, SYN_SCORE_SOFTMAX, true, 20, 7, 1.5};
        if (round & 1) how.score = SYN_SCORE_SIGMOID;
        if (round & 2) how.groups = how.top_groups = 1;
        ref_seed((uint64_t)round);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {5, 800}}, -3, 3);
        route(&x, NULL, &how, &weights, &experts);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor same[3] = {ref_dense(ctx, &x), ref_wild(ctx, &x), ref_dense(ctx, &x)};
        syn_tensor chosen;
        const syn_tensor got =
            syn_route(ctx, syn_concat(ctx, same, 3, 0), SYN_NO_BIAS, &how, &chosen);
        for (int i = 0; i < 3; i++) {
            const syn_tensor e = syn_slice(ctx, chosen, 0, 5 * i, 5),
                             w = syn_slice(ctx, got, 0, 5 * i, 5);
            CHECK(ref_check(ctx, e, &experts, 0) && ref_check(ctx, w, &weights, 2e-6));
        }
        syn_ctx_free(ctx);
    }
}

/* A bias of -infinity excludes an expert, and a group whose second best is excluded comes last. */
static void test_excluded_experts(void) {
    static ref x, bias, want;
    const double none = -(double)INFINITY;
    const syn_routing how = {2, SYN_SCORE_SIGMOID, true, 3, 1, 1},
                      flat = {3, SYN_SCORE_SOFTMAX, true, 1, 1, 1};
    x.spec = (syn_spec){SYN_F32, 2, {1, 6}};
    bias = (ref){{SYN_F32, 1, {6}}, {none, 5, 0, 0, 0, 0.125}};
    want = (ref){{SYN_I32, 2, {1, 2}}, {5, 4}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_tensor chosen;
    syn_route(ctx, ref_dense(ctx, &x), ref_dense(ctx, &bias), &how, &chosen);
    CHECK(ref_check(ctx, chosen, &want, 0));
    bias = (ref){{SYN_F32, 1, {6}}, {none, none, 0, none, 1, 2}};
    want = (ref){{SYN_I32, 2, {1, 3}}, {5, 4, 2}};
    syn_route(ctx, ref_dense(ctx, &x), ref_dense(ctx, &bias), &flat, &chosen);
    CHECK(ref_check(ctx, chosen, &want, 0));
    syn_ctx_free(ctx);
}

/* Whatever the logits are, the chosen experts exist. */
static void test_no_scores(void) {
    static const double rows[5] = {(double)NAN, -(double)INFINITY, (double)INFINITY, 1, 2};
    static ref x;
    for (int round = 0; round < rounds(60); round++) {
        int64_t n;
        int32_t experts[30];
        ref_seed((uint64_t)round);
        const syn_routing how = some_routing(&n);
        x.spec = (syn_spec){SYN_F32, 2, {1, n}};
        for (int64_t i = 0; i < n; i++) x.v[i] = rows[round % 2 ? ref_int(0, 4) : round / 2 % 3];
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor chosen;
        syn_route(ctx, ref_dense(ctx, &x), SYN_NO_BIAS, &how, &chosen);
        CHECK(syn_tensor_read(ctx, chosen, experts, (size_t)how.k * 4) == SYN_OK);
        for (int64_t j = 0; j < how.k; j++) CHECK(experts[j] >= 0 && experts[j] < n);
        syn_ctx_free(ctx);
    }
}

/* The reference is the difference quotient of the weights for unchanged experts. */
static void test_route_grad(void) {
    static ref x, experts, dw, want;
    const double step = 1e-5;
    for (int round = 0; round < rounds(400); round++) {
        int64_t n;
        ref_seed((uint64_t)round);
        const syn_routing how = some_routing(&n);
        const int64_t rows = ref_int(0, 6), k = how.k;
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, n}}, -2, 2);
        ref_fill(&dw, (syn_spec){SYN_F32, 2, {rows, k}}, -2, 2);
        experts.spec = (syn_spec){SYN_I32, 2, {rows, k}};
        want.spec = x.spec;
        for (int64_t i = 0; i < rows; i++) {
            double *at = x.v + i * n, *e = experts.v + i * k, key[30], up[30], down[30];
            for (int64_t j = 0; j < n; j++) key[j] = ref_real(0, 1);
            for (int64_t j = 0; j < n; j++)
                if (rank_of(key, n, j) < k) e[rank_of(key, n, j)] = (double)j;
            for (int64_t j = 0; j < n; j++) {
                const double was = at[j];
                at[j] = was + step;
                weights_of(at, n, &how, e, up);
                at[j] = was - step;
                weights_of(at, n, &how, e, down);
                at[j] = was;
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += dw.v[i * k + l] * (up[l] - down[l]) / (2 * step);
                want.v[i * n + j] = sum;
            }
        }
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_attr attr[6] = {{.i = k},          {.i = how.score},      {.i = how.normalize},
                                  {.i = how.groups}, {.i = how.top_groups}, {.f = how.scale}};
        const syn_tensor in[3] = {syn__dense_last_dim(ctx, ref_wild(ctx, &x)),
                                  syn__dense_last_dim(ctx, ref_wild(ctx, &experts)),
                                  syn__dense_last_dim(ctx, ref_wild(ctx, &dw))};
        CHECK_MSG(ref_check(ctx, built(ctx, SYN_OP_ROUTE_GRAD, in, 3, attr, 6), &want, 3e-6),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* ---- the losses of a router, and its bias ---- */

/* The losses of one token. */
static double losses_of(const double *x, const int64_t *counts, int64_t n,
                        const syn_router_losses *how) {
    const syn_routing scores = {.score = how->score};
    double p[REF_MAX], sum = 0, dot = 0, exps = 0;
    scores_of(x, n, &scores, p);
    for (int64_t e = 0; e < n; e++) {
        sum += p[e];
        dot += p[e] * (double)counts[e];
        exps += exp(x[e]);
    }
    return how->balance * dot / sum + how->z * log(exps) * log(exps);
}

static void test_router_losses(void) {
    static ref x, weights, want, grad, sum;
    const double step = 1e-5;
    for (int round = 0; round < rounds(200); round++) {
        int64_t counts[60];
        ref_seed((uint64_t)round);
        const int64_t n = ref_int(1, 50), rows = ref_int(0, 9) ? ref_int(0, 8) : ref_int(60, 70);
        const syn_router_losses how = {ref_int(0, 1) ? SYN_SCORE_SOFTMAX : SYN_SCORE_SIGMOID,
                                       ref_int(0, 3) ? ref_real(0.001, 0.1) : 0,
                                       ref_int(0, 3) ? ref_real(0.01, 1) : 0};
        for (int64_t e = 0; e < n; e++) counts[e] = ref_int(0, 20);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, n}}, -3, 3);
        ref_fill(&weights, (syn_spec){SYN_F32, 2, {rows, 2}}, -3, 3);
        ref_fill(&grad, weights.spec, -3, 3);
        ref_fill(&sum, (syn_spec){SYN_F32, 1, {1}}, 1, 2);
        want.spec = x.spec;
        for (int64_t i = 0; i < rows; i++) {
            sum.v[0] += losses_of(x.v + i * n, counts, n, &how);
            for (int64_t e = 0; e < n; e++) {
                double *at = x.v + i * n + e, was = *at;
                *at = was + step;
                const double up = losses_of(x.v + i * n, counts, n, &how);
                *at = was - step;
                want.v[i * n + e] = (up - losses_of(x.v + i * n, counts, n, &how)) / (2 * step);
                *at = was;
            }
        }
        ref before = sum;
        ref_seed((uint64_t)round);
        syn_ctx *ctx = ctx_with_threads(round);
        for (int64_t i = 0; i < rows; i++) before.v[0] -= losses_of(x.v + i * n, counts, n, &how);
        const syn_tensor logits = ref_dense(ctx, &x), of = numbers_of(ctx, counts, n),
                         given = ref_dense(ctx, &weights), dy = ref_dense(ctx, &grad);
        const syn_tensor all = syn_router_loss_add(ctx, ref_dense(ctx, &before), logits, of, &how);
        syn_require_grad(ctx, logits);
        syn_require_grad(ctx, given);
        const syn_tensor y = syn_router_loss(ctx, given, logits, of, &how);
        CHECK_MSG(rows == 0 || syn_backward_from(ctx, &y, &dy, 1) == SYN_OK, "%s",
                  syn_ctx_error(ctx)->text);
        CHECK_MSG(ref_check(ctx, all, &sum, 3e-6) && ref_check(ctx, y, &weights, 0) &&
                      (rows == 0 || (ref_check(ctx, syn_grad(ctx, logits), &want, 1e-5) &&
                                     ref_check(ctx, syn_grad(ctx, given), &grad, 0))),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* Counts that are equal to the mean change nothing, also if the mean is no whole number. */
static void test_router_bias(void) {
    static const int64_t counts[2][4] = {{3, 1, 2, 2}, {1, 0, 0, 0}};
    static const double signs[2][4] = {{-1, 1, 0, 0}, {-1, 1, 1, 1}};
    for (int k = 0; k < 2; k++) {
        static ref bias = {{SYN_F32, 1, {4}}, {0.5, -0.25, 0, 1}}, zero = {{SYN_F32, 1, {4}}, {0}};
        ref want = bias;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor b = ref_dense(ctx, &bias), sums = ref_dense(ctx, &zero);
        for (int i = 0; i < 3; i++) sums = syn_count_add(ctx, sums, numbers_of(ctx, counts[k], 4));
        for (int e = 0; e < 4; e++) want.v[e] = 3 * (double)counts[k][e];
        CHECK(ref_check(ctx, sums, &want, 0));
        want = bias;
        syn_router_bias_update(ctx, &b, &sums, 0.125);
        for (int e = 0; e < 4; e++) want.v[e] += 0.125 * signs[k][e];
        CHECK(ref_check(ctx, b, &want, 0) && ref_check(ctx, sums, &zero, 0));
        syn_ctx_free(ctx);
    }
}

/* ---- sort_by_expert ---- */

static void test_sort(void) {
    static ref experts, places, sizes;
    for (int round = 0; round < rounds(300); round++) {
        ref_seed((uint64_t)round);
        const bool large = round % 30 == 0;
        const int64_t k = ref_int(1, 5), rows = large ? ref_int(500, 800) : ref_int(0, 30),
                      n = ref_int(0, 4) ? ref_int(1, 12) : ref_int(200, 700);
        ref_fill(&experts, (syn_spec){SYN_I32, 2, {rows, k}}, 0, (double)(n - 1));
        places.spec = (syn_spec){SYN_I32, 1, {rows * k}};
        sizes.spec = (syn_spec){SYN_I64, 1, {n}};
        for (int64_t e = 0, at = 0; e < n; e++) {
            sizes.v[e] = 0;
            for (int64_t i = 0; i < rows * k; i++)
                if (experts.v[i] == (double)e) {
                    sizes.v[e]++;
                    places.v[at++] = (double)i;
                }
        }
        syn_ctx *ctx = ctx_with_threads(round);
        syn_tensor counted;
        const syn_tensor sorted = syn_sort_by_expert(ctx, ref_wild(ctx, &experts), n, &counted);
        CHECK(ref_check(ctx, sorted, &places, 0) && ref_check(ctx, counted, &sizes, 0));
        syn_ctx_free(ctx);
    }
}

/* ---- expert_order ---- */

static syn_tensor order_of(syn_ctx *ctx, const int64_t *counts, int64_t first, int64_t n,
                           int64_t rows, syn_tensor *sizes) {
    const syn_spec spec = {SYN_I64, 2, {3, 5}};
    return syn_expert_order(ctx, syn_input(ctx, "counts", &spec, counts), first, n, rows, sizes);
}

/* Lists the rows as (expert, source) pairs in the order of arrival, and sorts them by expert. */
static void test_order(void) {
    static ref places, sizes;
    for (int round = 0; round < rounds(200); round++) {
        int64_t counts[15], rows = 0;
        ref_seed((uint64_t)round);
        const int64_t first = ref_int(0, 4), n = ref_int(1, 5 - first);
        for (int i = 0; i < 15; i++) counts[i] = ref_int(0, 2) ? ref_int(0, 4) : 0;
        sizes.spec = (syn_spec){SYN_I64, 1, {n}};
        for (int64_t e = first; e < first + n; e++) {
            int64_t at = 0;
            sizes.v[e - first] = 0;
            for (int64_t s = 0; s < 3; s++)
                for (int64_t i = first; i < first + n; i++)
                    for (int64_t k = 0; k < counts[5 * s + i]; k++, at++) {
                        if (i != e) continue;
                        places.v[rows++] = (double)at;
                        sizes.v[e - first]++;
                    }
        }
        places.spec = (syn_spec){SYN_I32, 1, {rows}};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor counted;
        const syn_tensor got = order_of(ctx, counts, first, n, rows, &counted);
        CHECK(ref_check(ctx, got, &places, 0) && ref_check(ctx, counted, &sizes, 0));
        syn_ctx_free(ctx);
    }
}

static syn_tensor misordered(syn_ctx *ctx, int64_t a, int64_t rows) {
    const int64_t counts[15] = {0, a, 2, [7] = 1};
    syn_tensor sizes;
    return order_of(ctx, counts, 1, 2, rows, &sizes);
}

/* ---- expert_capacity ---- */

/* The first rows of each expert. Copies of tokens without a row are 0, and so are rows without a
   token. */
static void test_capacity(void) {
    for (int round = 0; round < rounds(60); round++) {
        enum { TOKENS_EACH = 3 };
        static ref chosen, x, rows, back, want, sizes_kept;
        ref_seed((uint64_t)round);
        const int64_t n = ref_int(1, 6), tokens = ref_int(1, 9), capacity = ref_int(1, 8);
        double kept[60];
        int64_t given[6] = {0};
        chosen.spec = (syn_spec){SYN_I32, 2, {tokens, 2}};
        for (int64_t i = 0; i < 2 * tokens; i++) chosen.v[i] = (double)ref_int(0, n - 1);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {tokens, TOKENS_EACH}}, 1, 2);
        rows.spec = (syn_spec){SYN_F32, 2, {n * capacity, TOKENS_EACH}};
        want.spec = (syn_spec){SYN_I32, 1, {n * capacity}};
        sizes_kept.spec = (syn_spec){SYN_F32, 1, {n}};
        back.spec = x.spec;
        for (int64_t i = 0; i < n * capacity; i++) want.v[i] = -1;
        for (int64_t e = 0; e < n; e++) sizes_kept.v[e] = (double)capacity;
        for (int64_t i = 0; i < 2 * tokens; i++) {
            const int64_t e = (int64_t)chosen.v[i];
            kept[i] = given[e] < capacity;
            if (kept[i] > 0) want.v[e * capacity + given[e]++] = (double)i;
        }
        for (int64_t i = 0; i < n * capacity * TOKENS_EACH; i++) {
            const int64_t place = (int64_t)want.v[i / TOKENS_EACH];
            rows.v[i] = place < 0 ? 0 : x.v[place / 2 * TOKENS_EACH + i % TOKENS_EACH];
        }
        for (int64_t i = 0; i < tokens * TOKENS_EACH; i++) {
            const int64_t token = i / TOKENS_EACH;
            back.v[i] = x.v[i] * (kept[2 * token] + kept[2 * token + 1]);
        }
        syn_ctx *ctx = ctx_with_threads(round);
        syn_tensor sizes;
        syn_tensor places = syn_sort_by_expert(ctx, ref_dense(ctx, &chosen), n, &sizes);
        places = syn_expert_capacity(ctx, places, capacity, &sizes);
        const syn_tensor got = syn_moe_permute(ctx, ref_dense(ctx, &x), places, 2);
        const syn_tensor again = syn_moe_unpermute(ctx, got, places, tokens, 2);
        const syn_tensor counted = syn_count_add(ctx, ZEROS(ctx, SYN_F32, n), sizes);
        CHECK_MSG(ref_check(ctx, places, &want, 0) && ref_check(ctx, got, &rows, 0) &&
                      ref_check(ctx, again, &back, 1e-6) && ref_check(ctx, counted, &sizes_kept, 0),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* ---- moe_permute and moe_unpermute ---- */

/* Different numbers below `all`, in a random order. */
static void some_places(ref *places, int64_t n, int64_t all) {
    double key[REF_MAX / 8];
    places->spec = (syn_spec){SYN_I32, 1, {n}};
    for (int64_t i = 0; i < all; i++) key[i] = ref_real(0, 1);
    for (int64_t i = 0; i < all; i++)
        if (rank_of(key, all, i) < n) places->v[rank_of(key, all, i)] = (double)i;
}

static void test_permute(void) {
    static ref x, places, want;
    for (int round = 0; round < rounds(300); round++) {
        ref_seed((uint64_t)round);
        const int64_t tokens = ref_int(1, 20), copies = ref_int(1, 4), width = ref_int(0, 40),
                      rows = ref_int(0, 60);
        ref_fill(&x, (syn_spec){(int32_t)float_types[round % 3], 2, {tokens, width}}, 0, 30000);
        ref_fill(&places, (syn_spec){SYN_I32, 1, {rows}}, 0, (double)(tokens * copies - 1));
        want.spec = (syn_spec){x.spec.dtype, 2, {rows, width}};
        for (int64_t i = 0; i < rows * width; i++)
            want.v[i] = x.v[(int64_t)places.v[i / width] / copies * width + i % width];
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK(ref_check(ctx,
                        syn_moe_permute(ctx, ref_wild(ctx, &x), ref_wild(ctx, &places), copies),
                        &want, 0));
        syn_ctx_free(ctx);
    }
}

/* A place may have no row, and a token may have no rows at all. */
static void test_unpermute(void) {
    static ref x, places, want;
    for (int round = 0; round < rounds(300); round++) {
        ref_seed((uint64_t)round);
        const int64_t tokens = ref_int(0, 20), copies = ref_int(1, 4), width = ref_int(0, 40),
                      all = tokens * copies, rows = ref_int(0, 1) ? all : ref_int(0, all);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, width}}, -2, 2);
        some_places(&places, rows, all);
        want = (ref){.spec = {SYN_F32, 2, {tokens, width}}};
        for (int64_t i = 0; i < rows * width; i++)
            want.v[(int64_t)places.v[i / width] / copies * width + i % width] += x.v[i];
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor got =
            syn_moe_unpermute(ctx, ref_wild(ctx, &x), ref_wild(ctx, &places), tokens, copies);
        CHECK(ref_check(ctx, got, &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

/* The rows of a token are added in the order of their places, whatever the order of the rows. */
static void test_unpermute_order(void) {
    static ref x, places, want;
    want = (ref){{SYN_F32, 2, {1, 1}}, {1}};
    for (int round = 0; round < 6; round++) {
        const double at[3] = {round % 3, (round % 3 + (round < 3 ? 1 : 2)) % 3,
                              (round % 3 + (round < 3 ? 2 : 1)) % 3};
        x.spec = (syn_spec){SYN_F32, 2, {3, 1}};
        places.spec = (syn_spec){SYN_I32, 1, {3}};
        for (int i = 0; i < 3; i++) {
            places.v[i] = at[i];
            x.v[i] = at[i] == 0 ? 1e8 : at[i] == 1 ? -1e8 : 1;
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK(ref_check(ctx,
                        syn_moe_unpermute(ctx, ref_dense(ctx, &x), ref_dense(ctx, &places), 1, 3),
                        &want, 0));
        syn_ctx_free(ctx);
    }
}

/* ---- grouped products ---- */

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

/* Sizes that add up to `rows`. Some experts have no rows; in some rounds, one has all. */
static void some_sizes(ref *sizes, int64_t experts, int64_t rows) {
    sizes->spec = (syn_spec){SYN_I64, 1, {experts}};
    for (int64_t e = 0; e < experts; e++) sizes->v[e] = 0;
    const bool one = ref_int(0, 5) == 0;
    int64_t e = experts ? ref_int(0, experts - 1) : 0;
    while (rows > 0) {
        const int64_t some = one ? rows : ref_int(1, rows);
        sizes->v[e] += (double)some;
        rows -= some;
        e = ref_int(0, experts - 1);
    }
}

/* The expert of a row. */
static int64_t expert_at(const ref *sizes, int64_t row) {
    int64_t e = 0;
    for (double end = sizes->v[0]; (double)row >= end;) end += sizes->v[++e];
    return e;
}

/* Sizes of a grouped product. In some rounds an expert has more than one tile of rows. */
typedef struct shape {
    int64_t experts, rows, k, n;
} shape;

static shape some_shape(int round) {
    if (round % 10 == 0) return (shape){ref_int(1, 3), ref_int(40, 90), ref_int(30, 44), 31};
    shape s = {ref_int(1, 9), ref_int(0, 1) ? ref_int(0, 3) : ref_int(0, 20), ref_int(1, 12),
               ref_int(1, 12)};
    if (round % 25 == 1) s.experts = s.rows = 0;
    if (round % 25 == 2) s.k = 0;
    if (round % 25 == 3) s.n = 0;
    return s;
}

static void test_grouped_linear(void) {
    static ref x, w, sizes, bias, want;
    for (int round = 0; round < rounds(600); round++) {
        ref_seed((uint64_t)round);
        const shape s = some_shape(round);
        const bool t = ref_int(0, 1), with_bias = ref_int(0, 1);
        const int64_t k = s.k, n = s.n;
        ref_fill(&x, (syn_spec){SYN_F32, 2, {s.rows, k}}, -2, 2);
        fill_weights(
            &w, (syn_spec){(int32_t)float_types[round % 3], 3, {s.experts, t ? n : k, t ? k : n}});
        ref_fill(&bias, (syn_spec){SYN_F32, 2, {s.experts, n}}, -2, 2);
        some_sizes(&sizes, s.experts, s.rows);
        want.spec = (syn_spec){SYN_F32, 2, {s.rows, n}};
        for (int64_t i = 0; i < s.rows * n; i++) {
            const int64_t e = expert_at(&sizes, i / n), column = i % n;
            double sum = with_bias ? bias.v[e * n + column] : 0;
            for (int64_t p = 0; p < k; p++)
                sum += x.v[i / n * k + p] *
                       weight(&w, e * k * n + (t ? column * k + p : p * n + column));
            want.v[i] = sum;
        }
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor b = with_bias ? ref_dense(ctx, &bias) : SYN_NO_BIAS;
        CHECK_MSG(ref_check(ctx,
                            syn_grouped_linear(ctx, ref_wild(ctx, &x), ref_wild(ctx, &w),
                                               ref_wild(ctx, &sizes), b, t),
                            &want, 1e-5),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* Makes the whole pages between two addresses inaccessible, or accessible again. */
static void set_access(char *from, char *to, bool access) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    begin = ((uintptr_t)from + page - 1) / page * page,
                    end = (uintptr_t)to / page * page;
    const int how = access ? PROT_READ | PROT_WRITE : PROT_NONE;
    NEED(begin >= end || mprotect((void *)begin, end - begin, how) == 0, "cannot protect memory");
}

/* The matrices of experts without rows are not read: each access to them would crash. */
static void test_unused_experts(void) {
    enum { EXPERTS = 8, K = 192, N = 128 };
    static const int64_t sizes[][EXPERTS] = {
        {0, 0, 0, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 1}, {0, 3, 0, 0, 40, 0, 0, 0}};
    if (ref_on_cuda()) return;
    for (int round = 0; round < 18; round++) {
        const int64_t *size = sizes[round / 6];
        const syn_dtype dtype = float_types[round % 3];
        const bool t = round % 6 < 3;
        const size_t each = (size_t)(K * N) * syn_dtype_bytes(dtype);
        int64_t rows = 0;
        for (int e = 0; e < EXPERTS; e++) rows += size[e];
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor x = ZEROS(ctx, dtype, rows, K),
                         w = t ? ZEROS(ctx, dtype, EXPERTS, N, K)
                               : ZEROS(ctx, dtype, EXPERTS, K, N),
                         n = numbers_of(ctx, size, EXPERTS);
        char *data = syn__storage(ctx, w.id)->data;
        for (size_t e = 0; e < EXPERTS; e++)
            if (size[e] == 0) set_access(data + e * each, data + (e + 1) * each, false);
        const syn_tensor y = syn_grouped_linear(ctx, x, w, n, SYN_NO_BIAS, t);
        set_access(data, data + EXPERTS * each, true);
        CHECK_MSG(syn_tensor_dim(ctx, y, 0) == rows, "round %d: %s", round,
                  syn_ctx_error(ctx)->text);
        syn_ctx_free(ctx);
    }
}

static void test_grouped_product(void) {
    static ref a, b, sizes, sum, want;
    for (int round = 0; round < rounds(600); round++) {
        ref_seed((uint64_t)round);
        const shape s = some_shape(round);
        const int64_t m = s.k, n = s.n;
        const bool add = ref_int(0, 1);
        ref_fill(&a, (syn_spec){SYN_F32, 2, {s.rows, m}}, -2, 2);
        ref_fill(&b, (syn_spec){SYN_F32, 2, {s.rows, n}}, -2, 2);
        ref_fill(&sum, (syn_spec){SYN_F32, 3, {s.experts, m, n}}, -2, 2);
        some_sizes(&sizes, s.experts, s.rows);
        want = sum;
        for (int64_t i = 0; i < s.experts * m * n && !add; i++) want.v[i] = 0;
        for (int64_t r = 0; r < s.rows; r++)
            for (int64_t i = 0; i < m * n; i++)
                want.v[expert_at(&sizes, r) * m * n + i] += a.v[r * m + i / n] * b.v[r * n + i % n];
        syn_ctx *ctx = ctx_with_threads(round);
        const syn_tensor x = ref_wild(ctx, &a), y = ref_wild(ctx, &b), z = ref_wild(ctx, &sizes);
        const syn_tensor got = add ? syn_grouped_product_add(ctx, ref_dense(ctx, &sum), x, y, z)
                                   : syn_grouped_product(ctx, x, y, z);
        CHECK_MSG(ref_check(ctx, got, &want, 2e-5), "round %d", round);
        syn_ctx_free(ctx);
    }
}

static void test_grouped_sum(void) {
    static ref x, sizes, want;
    for (int round = 0; round < rounds(300); round++) {
        ref_seed((uint64_t)round);
        const shape s = some_shape(round);
        const int64_t n = round % 10 ? s.n : 3000;
        const int64_t rows = round % 10 ? s.rows : ref_int(0, 1);
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, n}}, -2, 2);
        some_sizes(&sizes, round % 10 ? s.experts : 1, rows);
        want.spec = (syn_spec){SYN_F32, 2, {sizes.spec.dims[0], n}};
        for (int64_t i = 0; i < syn_spec_elems(&want.spec); i++) want.v[i] = 0;
        for (int64_t i = 0; i < rows * n; i++)
            want.v[expert_at(&sizes, i / n) * n + i % n] += x.v[i];
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK_MSG(ref_check(ctx, syn_grouped_sum(ctx, ref_wild(ctx, &x), ref_wild(ctx, &sizes)),
                            &want, 1e-5),
                  "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* ---- threads ---- */

enum { TOKENS = 160, EXPERTS = 6, COPIES = 2, WIDE = 96, INNER = 130 };

/* Results of all ops, one after the other. */
typedef struct results {
    float routed[TOKENS * COPIES], dlogits[TOKENS * EXPERTS], inner[TOKENS * COPIES * INNER],
        out[TOKENS * WIDE], product[EXPERTS * WIDE * INNER], sum[EXPERTS * WIDE * INNER];
    int32_t places[TOKENS * COPIES];
    int64_t sizes[EXPERTS];
} results;

static bool read_all(syn_ctx *ctx, syn_tensor t, void *to, size_t bytes) {
    return syn_tensor_read(ctx, t, to, bytes) == SYN_OK;
}

/* A layer of experts, and the products of its backward pass. */
static bool run_layer(int threads, const float *numbers, results *r) {
    static const syn_routing how = {COPIES, SYN_SCORE_SOFTMAX, true, 1, 1, 1};
    const syn_spec x_spec = {SYN_F32, 2, {TOKENS, WIDE}},
                   w_spec = {SYN_F32, 3, {EXPERTS, WIDE, INNER}};
    const syn_spec logits_spec = {SYN_F32, 2, {TOKENS, EXPERTS}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_error err = {0};
    NEED_OK(syn_ctx_set_threads(ctx, threads, &err), err);
    const syn_tensor x = syn_input(ctx, "x", &x_spec, numbers),
                     w = syn_input(ctx, "w", &w_spec, numbers + 7),
                     logits = syn_input(ctx, "logits", &logits_spec, numbers + 13);
    syn_tensor experts, sizes;
    const syn_tensor routed = syn_route(ctx, logits, SYN_NO_BIAS, &how, &experts);
    const syn_attr attr[6] = {{.i = how.k},      {.i = how.score},      {.i = how.normalize},
                              {.i = how.groups}, {.i = how.top_groups}, {.f = how.scale}};
    const syn_tensor in[3] = {logits, experts, routed};
    const syn_tensor dlogits = built(ctx, SYN_OP_ROUTE_GRAD, in, 3, attr, 6);
    const syn_tensor places = syn_sort_by_expert(ctx, experts, EXPERTS, &sizes);
    const syn_tensor rows = syn_moe_permute(ctx, x, places, COPIES);
    const syn_tensor inner = syn_grouped_linear(ctx, rows, w, sizes, SYN_NO_BIAS, false);
    const syn_tensor out = syn_moe_unpermute(ctx, rows, places, TOKENS, COPIES);
    const syn_tensor product = syn_grouped_product(ctx, rows, inner, sizes);
    const syn_tensor sum =
        syn_grouped_product_add(ctx, syn_input(ctx, "sum", &w_spec, numbers), rows, inner, sizes);
    const bool read = read_all(ctx, routed, r->routed, sizeof r->routed) &&
                      read_all(ctx, dlogits, r->dlogits, sizeof r->dlogits) &&
                      read_all(ctx, inner, r->inner, sizeof r->inner) &&
                      read_all(ctx, out, r->out, sizeof r->out) &&
                      read_all(ctx, product, r->product, sizeof r->product) &&
                      read_all(ctx, sum, r->sum, sizeof r->sum) &&
                      read_all(ctx, places, r->places, sizeof r->places) &&
                      read_all(ctx, sizes, r->sizes, sizeof r->sizes);
    if (!read) fprintf(stderr, "%s\n", syn_ctx_error(ctx)->text);
    syn_ctx_free(ctx);
    return read;
}

/* Only the products depend on the number of threads (ops/products.h). A second run gives the same
   bits. */
static void test_threads(void) {
    static float numbers[EXPERTS * WIDE * INNER + 13];
    static results one, other, again;
    ref_seed(5);
    for (size_t i = 0; i < COUNT(numbers); i++) numbers[i] = (float)ref_real(-1, 1);
    CHECK(run_layer(1, numbers, &one));
    for (int threads = 1; threads < (ref_on_cuda() ? 2 : 5); threads++) {
        CHECK(run_layer(threads, numbers, &other));
        CHECK(run_layer(threads, numbers, &again));
        CHECK_MSG(memcmp(&other, &again, sizeof other) == 0, "%d threads", threads);
#define SAME(member) \
    CHECK_MSG(memcmp(one.member, other.member, sizeof one.member) == 0, "%d threads", threads)
        SAME(routed);
        SAME(dlogits);
        SAME(places);
        SAME(sizes);
        SAME(out);
#undef SAME
        for (size_t i = 0; i < COUNT(one.inner); i++)
            CHECK_NEAR(other.inner[i], one.inner[i], 1e-4);
        for (size_t i = 0; i < COUNT(one.sum); i++) {
            CHECK_NEAR(other.product[i], one.product[i], 2e-3);
            CHECK_NEAR(other.sum[i], one.sum[i], 2e-3);
        }
    }
    for (int64_t i = 0; i < TOKENS * COPIES; i++) { /* some elements of the first product */
        int64_t e = 0, column = i % INNER;
        double sum = 0;
        for (int64_t end = one.sizes[0]; i >= end;) end += one.sizes[++e];
        for (int64_t p = 0; p < WIDE; p++)
            sum += (double)numbers[one.places[i] / COPIES * WIDE + p] *
                   (double)numbers[7 + (e * WIDE + p) * INNER + column];
        CHECK_NEAR(one.inner[i * INNER + column], sum, 1e-4);
    }
}

/* ---- errors in data ---- */

static syn_tensor sorted(syn_ctx *ctx, int32_t bad) {
    syn_tensor sizes;
    return syn_sort_by_expert(
        ctx,
        syn_reshape(ctx, integers(ctx, (const int32_t[]){2, bad}, 2), (const int64_t[]){2, 1}, 2),
        3, &sizes);
}

static syn_tensor gradient_for(syn_ctx *ctx, int32_t bad) {
    const syn_attr attr[6] = {{.i = 1}, {.i = 0}, {.i = 1}, {.i = 1}, {.i = 1}, {.f = 1}};
    const syn_tensor in[3] = {
        ZEROS(ctx, SYN_F32, 2, 3),
        syn_reshape(ctx, integers(ctx, (const int32_t[]){bad, 1}, 2), (const int64_t[]){2, 1}, 2),
        ZEROS(ctx, SYN_F32, 2, 1)};
    return built(ctx, SYN_OP_ROUTE_GRAD, in, 3, attr, 6);
}

static syn_tensor limited(syn_ctx *ctx, int64_t a, int64_t b) {
    syn_tensor sizes = numbers_of(ctx, (const int64_t[]){a, b}, 2);
    return syn_expert_capacity(ctx, integers(ctx, (const int32_t[]){0, 1, 2}, 3), 2, &sizes);
}

static syn_tensor permuted(syn_ctx *ctx, int32_t bad) {
    return syn_moe_permute(ctx, ZEROS(ctx, SYN_F32, 3, 5),
                           integers(ctx, (const int32_t[]){0, bad}, 2), 2);
}

static syn_tensor unpermuted(syn_ctx *ctx, int32_t bad) {
    return syn_moe_unpermute(ctx, ZEROS(ctx, SYN_F32, 2, 5),
                             integers(ctx, (const int32_t[]){1, bad}, 2), 3, 2);
}

static syn_tensor multiplied(syn_ctx *ctx, int64_t a, int64_t b, int64_t c) {
    return syn_grouped_linear(ctx, ZEROS(ctx, SYN_F32, 5, 4), ZEROS(ctx, SYN_F32, 3, 4, 2),
                              numbers_of(ctx, (const int64_t[]){a, b, c}, 3), SYN_NO_BIAS, false);
}

static syn_tensor product(syn_ctx *ctx, bool add, int64_t a, int64_t b) {
    const syn_tensor x = ZEROS(ctx, SYN_F32, 5, 4), y = ZEROS(ctx, SYN_F32, 5, 3),
                     sizes = numbers_of(ctx, (const int64_t[]){a, b}, 2);
    return add ? syn_grouped_product_add(ctx, ZEROS(ctx, SYN_F32, 2, 4, 3), x, y, sizes)
               : syn_grouped_product(ctx, x, y, sizes);
}

/* Each line has a call and a part of the message, which is the same on all devices. */
#define BAD_DATA(X)                                                                                \
    X(sorted(c, 3), "sort_by_expert in h.0: there is no expert 3 among 3")                         \
    X(sorted(c, -1), "there is no expert -1 among 3")                                              \
    X(sorted(c, INT32_MAX), "there is no expert 2147483647 among 3")                               \
    X(gradient_for(c, 3), "route_grad in h.0: there is no expert 3 among 3")                       \
    X(gradient_for(c, -7), "there is no expert -7 among 3")                                        \
    X(misordered(c, 1, 5), "expert_order in h.0: the experts' sizes do not add up to 5 rows")      \
    X(misordered(c, 1, 3), "expert_order in h.0: the experts' sizes do not add up to 3 rows")      \
    X(misordered(c, -1, 2), "the experts' sizes do not add up to 2 rows")                          \
    X(misordered(c, INT64_MAX, 9), "the experts' sizes do not add up to 9 rows")                   \
    X(limited(c, 2, 2), "expert_capacity in h.0: the experts' sizes do not add up to 3 rows")      \
    X(limited(c, 1, -1), "the experts' sizes do not add up to 3 rows")                             \
    X(permuted(c, 6), "has place 6, which is not below 6")                                         \
    X(permuted(c, -2), "has place -2, which is not below 6")                                       \
    X(unpermuted(c, 6), "has place 6, which is not below 6")                                       \
    X(unpermuted(c, INT32_MIN), "has place -2147483648, which is not below 6")                     \
    X(unpermuted(c, 1), "have place 1")                                                            \
    X(multiplied(c, 2, 2, 0), "grouped_linear in h.0: the experts' sizes do not add up to 5 rows") \
    X(multiplied(c, 2, 2, 2), "the experts' sizes do not add up to 5 rows")                        \
    X(multiplied(c, 6, -1, 0), "the experts' sizes do not add up to 5 rows")                       \
    X(multiplied(c, -5, 5, 5), "the experts' sizes do not add up to 5 rows")                       \
    X(multiplied(c, INT64_MAX, INT64_MAX, 7), "sizes do not add up to 5 rows")                     \
    X(multiplied(c, INT64_MIN, INT64_MIN, 5), "sizes do not add up to 5 rows")                     \
    X(product(c, false, 2, 2),                                                                     \
      "grouped_product in h.0: the experts' sizes do not add up to 5 rows")                        \
    X(product(c, false, 0, INT32_MAX), "sizes do not add up to 5 rows")                            \
    X(product(c, true, 6, -1),                                                                     \
      "grouped_product_add in h.0: the experts' sizes do not add up to 5 rows")

static void test_bad_data(void) {
    static const char *const sentences[] = {
#define X(call, text) text,
        BAD_DATA(X)
#undef X
    };
    for (int i = 0; i < (int)COUNT(sentences); i++) {
        float data[64];
        int n = 0;
        syn_tensor t = {0};
        syn_ctx *c = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_push_scope(c, "h.0");
#define X(call, text) \
    if (n++ == i) t = (call);
        BAD_DATA(X)
#undef X
        const size_t bytes = t.id ? (size_t)syn_spec_bytes(syn_tensor_spec(c, t)) : 0;
        CHECK_MSG(syn_tensor_read(c, t, data, bytes) != SYN_OK, "%s", sentences[i]);
        CHECK_HAS(syn_ctx_error(c)->text, sentences[i]);
        syn_ctx_free(c);
    }
}

static const test_case cases[] = {
    {"route", test_route},
    {"many experts", test_many_experts},
    {"excluded experts", test_excluded_experts},
    {"no scores", test_no_scores},
    {"route_grad", test_route_grad},
    {"losses of a router", test_router_losses},
    {"bias of a router", test_router_bias},
    {"sort", test_sort},
    {"order of rows from several ranks", test_order},
    {"capacity", test_capacity},
    {"permute", test_permute},
    {"unpermute", test_unpermute},
    {"unpermute order", test_unpermute_order},
    {"grouped linear", test_grouped_linear},
    {"unused experts", test_unused_experts},
    {"grouped product", test_grouped_product},
    {"grouped sum", test_grouped_sum},
    {"threads", test_threads},
    {"bad data", test_bad_data},
};
TEST_MAIN(cases)
