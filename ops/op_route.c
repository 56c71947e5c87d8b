/* Routing of tokens in mixtures of experts: route chooses the experts of each token and their
   weights; sort_by_expert sorts the (token, expert) pairs by expert. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- route ---- */

/* attributes: experts per token, score, normalize, groups, groups per token, scale */
enum { K, SCORE, NORMALIZE, GROUPS, TOP_GROUPS, SCALE };

static int64_t experts_of(const syn_call *c) {
    return c->in[0].spec.dims[1];
}

static syn_status check_choice(const syn_call *c) {
    const int64_t n = experts_of(c), k = c->attr[K].i, groups = c->attr[GROUPS].i,
                  top = c->attr[TOP_GROUPS].i, score = c->attr[SCORE].i;
    const double scale = c->attr[SCALE].f;
    if (score != SYN_SCORE_SOFTMAX && score != SYN_SCORE_SIGMOID)
        return SYN_FAIL(c->err, SYN_E_INVALID, "unknown score %lld", (long long)score);
    if (!isfinite(scale)) return SYN_FAIL(c->err, SYN_E_INVALID, "the scale is not finite");
    if (groups < 1 || n % groups != 0 || top < 1 || top > groups)
        return SYN_FAIL(c->err, SYN_E_INVALID,
                        "%lld of %lld groups cannot be chosen from %lld experts", (long long)top,
                        (long long)groups, (long long)n);
    if (k < 1 || k > n / groups * top)
        return SYN_FAIL(c->err, SYN_E_INVALID,
                        "cannot choose %lld experts per token: there are %lld", (long long)k,
                        (long long)(n / groups * top));
    return SYN_OK;
}

SYN__INFER(route) {
    const syn_spec *x = &c->in[0].spec;
    SYN_TRY(syn__check_float(c, 0));
    if (x->rank != 2 || x->dims[1] < 1 || x->dims[1] > INT32_MAX)
        return syn__bad_input(c, 0, "logits (N, E) with E from 1 to 2^31 - 1");
    if (c->n_in > 1) {
        SYN_TRY(syn__check_dtype(c, 1, SYN_F32));
        if (c->in[1].spec.rank != 1 || c->in[1].spec.dims[0] != x->dims[1])
            return syn__bad_input(c, 1, "a bias (E)");
    }
    SYN_TRY(check_choice(c));
    c->out[0].spec = (syn_spec){SYN_F32, 2, {x->dims[0], c->attr[K].i}};
    c->out[1].spec = (syn_spec){SYN_I32, 2, {x->dims[0], c->attr[K].i}};
    return SYN_OK;
}

/* Softmax: 4 operations per logit; sigmoid: 3. One comparison per logit, and 2 operations per
   weight. */
SYN__COST(route) {
    const uint64_t score = c->attr[SCORE].i == SYN_SCORE_SOFTMAX ? 4 : 3;
    *cost = (syn_cost){(score + 1) * syn__elems(&c->in[0]) + 2 * syn__elems(&c->out[0]),
                       syn__input_bytes(c), syn__output_bytes(c)};
}

/* Writes the index of the largest element that is not -infinity and returns true. Among equals the
   lowest index wins. Returns false if all are -infinity. */
static bool largest(const float *x, int64_t n, int64_t *at) {
    *at = -1;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > -INFINITY && (*at < 0 || x[i] > x[*at])) *at = i;
    return *at >= 0;
}

/* The value by which groups are chosen: the sum of the two largest scores (DeepSeek-V3), or with
   softmax the largest one (DeepSeek-V2). */
static float group_score(const float *x, int64_t n, bool two) {
    float first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second) second = x[i];
    }
    return two && n > 1 ? first + second : first;
}

/* Sets the entries of all groups except the best ones to -infinity. group_scores: one per group;
   NaN marks the chosen groups. */
static void keep_groups(const syn_call *c, float *choice, float *group_scores) {
    const int64_t groups = c->attr[GROUPS].i, each = experts_of(c) / groups;
    if (c->attr[TOP_GROUPS].i == groups) return;
    for (int64_t g = 0; g < groups; g++)
        group_scores[g] =
            group_score(choice + g * each, each, c->attr[SCORE].i == SYN_SCORE_SIGMOID);
    for (int64_t i = 0, best; i < c->attr[TOP_GROUPS].i; i++)
        if (largest(group_scores, groups, &best)) group_scores[best] = NAN;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; !isnan(group_scores[g]) && i < each; i++)
            choice[g * each + i] = -INFINITY;
}

static void scores_of(const syn_call *c, const float *logits, float *scores) {
    const int64_t n = experts_of(c);
    if (c->attr[SCORE].i == SYN_SCORE_SOFTMAX) {
        syn__row_kernels()->softmax(logits, scores, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) scores[i] = 1.0f / (1.0f + expf(-logits[i]));
}

/* The factor from scores to weights. DeepSeek-V3 adds the small number. */
static float factor_of(const syn_attr *attr, float sum) {
    const float scale = (float)attr[SCALE].f;
    if (!attr[NORMALIZE].i) return scale;
    return scale / (attr[SCORE].i == SYN_SCORE_SIGMOID ? sum + 1e-20f : sum);
}

struct route {
    const syn_call *c;
    float *buffers; /* per worker: logits, scores, choice and groups */
    int64_t buffer_floats;
};

/* Routes one token. scores, choice: buffers of one float per expert; groups: one per group. */
static void route_row(const syn_call *c, const float *logits, float *scores, float *choice,
                      float *groups, float *weights, int32_t *experts) {
    const int64_t n = experts_of(c), k = c->attr[K].i;
    float sum = 0;
    scores_of(c, logits, scores);
    memcpy(choice, scores, (size_t)n * sizeof *choice);
    if (c->n_in > 1) syn__row_kernels()->add(choice, c->in[1].data, choice, n);
    keep_groups(c, choice, groups);
    for (int64_t j = 0, best; j < k; j++) {
        if (!largest(choice, n, &best)) best = 0; /* only if logits are NaN or -infinity */
        choice[best] = -INFINITY;
        experts[j] = (int32_t)best;
        weights[j] = scores[best];
        sum += scores[best];
    }
    const float factor = factor_of(c->attr, sum);
    for (int64_t j = 0; j < k; j++) weights[j] *= factor;
}

static void route_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct route *s = arg;
    const syn_call *c = s->c;
    const int64_t n = experts_of(c), k = c->attr[K].i;
    float *logits = s->buffers + worker * s->buffer_floats, *scores = logits + n,
          *choice = scores + n, *groups = choice + n;
    for (int64_t i = begin; i < end; i++)
        route_row(c, syn__load_row(&c->in[0], i * c->in[0].strides[0], n, logits), scores, choice,
                  groups, (float *)c->out[0].data + i * k, (int32_t *)c->out[1].data + i * k);
}

SYN__CPU(route) {
    const int64_t n = experts_of(c);
    struct route s = {.c = c, .buffer_floats = syn__padded_floats(3 * n + c->attr[GROUPS].i)};
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    syn_workers_ranges(c->workers, c->in[0].spec.dims[0],
                       SYN__GRAIN_MATH / (n * (c->attr[K].i + 4)) + 1, route_rows, &s);
    return SYN_OK;
}

syn_tensor syn_route(syn_ctx *ctx, syn_tensor logits, syn_tensor bias, const syn_routing *how,
                     syn_tensor *experts) {
    syn_tensor out[2] = {{0}, {0}};
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, logits), bias};
    const syn_attr attr[] = {{.i = how->k},      {.i = how->score},      {.i = how->normalize},
                             {.i = how->groups}, {.i = how->top_groups}, {.f = how->scale}};
    syn__call_op(ctx, SYN_OP_ROUTE, in, bias.id ? 2 : 1, attr, 6, NULL, out);
    *experts = out[1];
    return out[0];
}

SYN__GRAD(route) {
    const syn_tensor in[3] = {g->in[0], g->out[1], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn_attr attr[6];
    for (int i = 0; i < 6; i++) attr[i] = g->attr[i];
    if (g->need[0]) syn__call_op(g->ctx, SYN_OP_ROUTE_GRAD, in, 3, attr, 6, NULL, &g->din[0]);
}

/* ---- route_grad: logits, experts, gradient of the weights -> gradient of the logits ---- */

SYN__INFER(route_grad) {
    const syn_spec *x = &c->in[0].spec;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    SYN_TRY(syn__check_dtype(c, 2, SYN_F32));
    if (x->rank != 2 || x->dims[1] < 1) return syn__bad_input(c, 0, "logits (N, E)");
    SYN_TRY(check_choice(c));
    for (int i = 1; i < 3; i++) {
        const syn_spec *s = &c->in[i].spec;
        if (s->rank != 2 || s->dims[0] != x->dims[0] || s->dims[1] != c->attr[K].i)
            return syn__bad_input(c, i, "(N, k)");
    }
    c->out[0].spec = *x;
    return SYN_OK;
}

/* The scores once more, and 4 operations per logit. */
SYN__COST(route_grad) {
    const uint64_t score = c->attr[SCORE].i == SYN_SCORE_SOFTMAX ? 4 : 3;
    *cost =
        (syn_cost){(score + 4) * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* With scores s and weights w[j] = factor s[e[j]], where factor = scale / sum over j of s[e[j]] if
   weights are normalized: ds[e[j]] = factor (dw[j] - sum over i of dw[i] s[e[i]] / sum). With k =
   1, this is exactly 0; AdamW would turn a rounding error into a step. */
static void grad_row(const syn_call *c, const float *logits, const int32_t *experts,
                     const float *dweights, float *scores, float *dscores, float *dx) {
    const int64_t n = experts_of(c), k = c->attr[K].i;
    float sum = 0, dot = 0;
    scores_of(c, logits, scores);
    for (int64_t j = 0; j < k; j++) sum += scores[experts[j]];
    const float factor = factor_of(c->attr, sum);
    if (c->attr[NORMALIZE].i)
        for (int64_t j = 0; j < k; j++) dot += dweights[j] * (scores[experts[j]] / sum);
    memset(dscores, 0, (size_t)n * sizeof *dscores);
    for (int64_t j = 0; j < k; j++) dscores[experts[j]] = factor * (dweights[j] - dot);
    if (c->attr[SCORE].i == SYN_SCORE_SOFTMAX)
        syn__row_kernels()->softmax_grad(scores, dscores, dx, n);
    else
        for (int64_t i = 0; i < n; i++) dx[i] = dscores[i] * scores[i] * (1.0f - scores[i]);
}

static void grad_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct route *s = arg;
    const syn_call *c = s->c;
    const int64_t n = experts_of(c);
    float *logits = s->buffers + worker * s->buffer_floats, *scores = logits + n,
          *dscores = scores + n;
    for (int64_t i = begin; i < end; i++) {
        const float *x = syn__load_row(&c->in[0], i * c->in[0].strides[0], n, logits);
        float *dx = syn__row_dest(&c->out[0], i * n, logits);
        grad_row(c, x, (const int32_t *)c->in[1].data + i * c->in[1].strides[0],
                 (const float *)c->in[2].data + i * c->in[2].strides[0], scores, dscores, dx);
        syn__store_row(&c->out[0], i * n, n, logits);
    }
}

/* Fails unless all experts exist. */
static syn_status check_experts(const syn_call *c, const syn_operand *experts, int64_t n) {
    const int64_t rows = experts->spec.dims[0], k = experts->spec.dims[1];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < k; j++) {
            const int32_t e = ((const int32_t *)experts->data)[i * experts->strides[0] + j];
            if (e < 0 || e >= n)
                return SYN_FAIL(c->err, SYN_E_INVALID, "there is no expert %d among %lld", e,
                                (long long)n);
        }
    return SYN_OK;
}

SYN__CPU(route_grad) {
    const int64_t n = experts_of(c);
    struct route s = {.c = c, .buffer_floats = syn__padded_floats(3 * n)};
    SYN_TRY(check_experts(c, &c->in[1], n));
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    syn_workers_ranges(c->workers, c->in[0].spec.dims[0], SYN__GRAIN_MATH / (n * 8) + 1, grad_rows,
                       &s);
    return SYN_OK;
}

/* ---- sort_by_expert ---- */

SYN__INFER(sort_by_expert) {
    const syn_spec *x = &c->in[0].spec;
    int64_t n;
    SYN_TRY(syn__check_dtype(c, 0, SYN_I32));
    if (x->rank != 2 || !syn_mul_i64(x->dims[0], x->dims[1], &n) || n > INT32_MAX)
        return syn__bad_input(c, 0, "experts (N, k) with N k up to 2^31 - 1");
    if (c->attr[0].i < 1 || c->attr[0].i > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_INVALID, "tokens cannot be sorted by %lld experts",
                        (long long)c->attr[0].i);
    c->out[0].spec = (syn_spec){SYN_I32, 1, {n}};
    c->out[1].spec = (syn_spec){SYN_I64, 1, {c->attr[0].i}};
    return SYN_OK;
}

/* A counting sort: two additions per pair. */
SYN__COST(sort_by_expert) {
    *cost = (syn_cost){2 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(sort_by_expert) {
    const syn_operand *experts = &c->in[0];
    const int64_t n = c->attr[0].i, rows = experts->spec.dims[0], k = experts->spec.dims[1];
    int32_t *places = c->out[0].data, *next;
    int64_t *sizes = c->out[1].data;
    void *scratch;
    SYN_TRY(check_experts(c, experts, n));
    SYN_TRY(syn__scratch(c, (size_t)n * sizeof *next, "sorted tokens", &scratch));
    next = scratch;
    memset(sizes, 0, (size_t)n * sizeof *sizes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < k; j++)
            sizes[((const int32_t *)experts->data)[i * experts->strides[0] + j]]++;
    for (int64_t e = 0, at = 0; e < n; at += sizes[e++]) next[e] = (int32_t)at;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < k; j++)
            places[next[((const int32_t *)experts->data)[i * experts->strides[0] + j]]++] =
                (int32_t)(i * k + j);
    return SYN_OK;
}

syn_tensor syn_sort_by_expert(syn_ctx *ctx, syn_tensor experts, int64_t n_experts,
                              syn_tensor *sizes) {
    syn_tensor out[2] = {{0}, {0}};
    const syn_tensor in[1] = {syn__dense_last_dim(ctx, experts)};
    const syn_attr attr[1] = {{.i = n_experts}};
    syn__call_op(ctx, SYN_OP_SORT_BY_EXPERT, in, 1, attr, 1, NULL, out);
    *sizes = out[1];
    return out[0];
}
