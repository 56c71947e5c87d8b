/* Balancing the experts of a mixture: the losses of a router, and the update of its bias. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- router_loss, router_loss_add and router_loss_grad ---- */

/* attributes of all three: the score of syn_routing, and the factors of syn_router_losses */
enum { SCORE, BALANCE, Z };

/* Checks logits (N, E) as input number `logits`, and counts (E) as the next input. */
static syn_status check_router(const syn_call *c, int logits) {
    const syn_spec *x = &c->in[logits].spec, *counts = &c->in[logits + 1].spec;
    const int64_t score = c->attr[SCORE].i;
    SYN_TRY(syn__check_float(c, logits));
    SYN_TRY(syn__check_dtype(c, logits + 1, SYN_I64));
    if (x->rank != 2 || x->dims[1] < 1) return syn__bad_input(c, logits, "logits (N, E)");
    if (counts->rank != 1 || counts->dims[0] != x->dims[1])
        return syn__bad_input(c, logits + 1, "the number of rows of each expert (E)");
    if (score != SYN_SCORE_SOFTMAX && score != SYN_SCORE_SIGMOID)
        return SYN_FAIL(c->err, SYN_E_INVALID, "unknown score %lld", (long long)score);
    if (isfinite(c->attr[BALANCE].f) && isfinite(c->attr[Z].f)) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "a factor is not finite");
}

SYN__INFER(router_loss) {
    SYN_TRY(check_router(c, 1));
    c->out[0] = c->in[0];
    return SYN_OK;
}

SYN__INFER(router_loss_add) {
    SYN_TRY(syn__check_dtype(c, 0, SYN_F32));
    if (syn_spec_elems(&c->in[0].spec) != 1) return syn__bad_input(c, 0, "one number");
    c->out[0].spec = c->in[0].spec;
    return check_router(c, 1);
}

SYN__INFER(router_loss_grad) {
    SYN_TRY(check_router(c, 0));
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

/* Operations per logit: 4 for a softmax, or 5 for sigmoids and their sum, and 2 for the product
   with the counts. The z-loss needs 4 more for its log-sum-exp. */
static uint64_t loss_flops(const syn_call *c) {
    const uint64_t score = c->attr[SCORE].i == SYN_SCORE_SOFTMAX ? 4 : 5;
    return (c->attr[BALANCE].f != 0 ? score + 2 : 0) + (c->attr[Z].f != 0 ? 4 : 0);
}

SYN__COST(router_loss_add) {
    *cost = (syn_cost){loss_flops(c) * syn__elems(&c->in[1]), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

/* The losses once more, and 4 operations per logit. */
SYN__COST(router_loss_grad) {
    *cost = (syn_cost){(loss_flops(c) + 4) * syn__elems(&c->in[0]), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

struct losses {
    const syn_call *c;
    const syn_operand *logits;
    int64_t n;
    double *of_rows; /* the loss of each token */
    float *slopes;   /* (E): the derivative of the loss by an expert's probability */
    float *buffers;  /* per worker: logits, probabilities and their exponentials */
    int64_t buffer_floats;
};

static syn_status prepare(const syn_call *c, int logits, struct losses *s) {
    const syn_operand *x = &c->in[logits], *counts = &c->in[logits + 1];
    const int64_t n = x->spec.dims[1], rows = x->spec.dims[0];
    const size_t each = (size_t)syn__padded_floats(3 * n), all = (size_t)syn__padded_floats(n);
    void *scratch;
    *s = (struct losses){.c = c, .logits = x, .n = n, .buffer_floats = (int64_t)each};
    SYN_TRY(syn__scratch(c,
                         (all + each * (size_t)syn_workers_count(c->workers)) * sizeof(float) +
                             (size_t)rows * sizeof *s->of_rows,
                         "the losses of a router", &scratch));
    s->slopes = scratch;
    s->buffers = s->slopes + all;
    s->of_rows = (double *)(void *)(s->buffers + each * (size_t)syn_workers_count(c->workers));
    for (int64_t e = 0; e < n; e++)
        s->slopes[e] = (float)(c->attr[BALANCE].f *
                               (double)((const int64_t *)counts->data)[e * counts->strides[0]]);
    return SYN_OK;
}

/* Writes an expert's share of a token's scores. Megatron-LM adds the small number. */
static void probabilities(const syn_call *c, const float *x, float *p, int64_t n) {
    float sum = 1e-20f;
    if (c->attr[SCORE].i == SYN_SCORE_SOFTMAX) {
        syn__row_kernels()->softmax(x, p, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) sum += p[i] = 1.0f / (1.0f + expf(-x[i]));
    for (int64_t i = 0; i < n; i++) p[i] /= sum;
}

static float log_sum_exp(const float *x, int64_t n) {
    float max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += expf(x[i] - max);
    return max + logf(sum);
}

static void loss_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct losses *s = arg;
    const syn_attr *attr = s->c->attr;
    float *logits = s->buffers + worker * s->buffer_floats, *p = logits + s->n;
    for (int64_t i = begin; i < end; i++) {
        const float *x = syn__load_row(s->logits, i * s->logits->strides[0], s->n, logits);
        double sum = 0;
        if (attr[BALANCE].f != 0) {
            probabilities(s->c, x, p, s->n);
            for (int64_t e = 0; e < s->n; e++) sum += (double)(s->slopes[e] * p[e]);
        }
        if (attr[Z].f != 0) {
            const double log_sum = (double)log_sum_exp(x, s->n);
            sum += attr[Z].f * log_sum * log_sum;
        }
        s->of_rows[i] = sum;
    }
}

SYN__CPU(router_loss_add) {
    const int64_t rows = c->in[1].spec.dims[0];
    struct losses s;
    double sum = 0;
    SYN_TRY(prepare(c, 1, &s));
    syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / (s.n * 4) + 1, loss_rows, &s);
    for (int64_t i = 0; i < rows; i++) sum += s.of_rows[i];
    *(float *)c->out[0].data += (float)sum;
    return SYN_OK;
}

/* With probabilities p and slopes d: softmax: dx[i] = p[i] (d[i] - sum over j of d[j] p[j]).
   Sigmoids s: the same times 1 - s[i]. The z-loss adds 2 factor log_sum exp(x[i] - log_sum). */
static void grad_row(const struct losses *s, const float *x, float *p, float *exps, float *dx) {
    const syn_attr *attr = s->c->attr;
    const bool sigmoid = attr[SCORE].i == SYN_SCORE_SIGMOID;
    float dot = 0, z = 0, log_sum = 0;
    memset(p, 0, (size_t)s->n * sizeof *p);
    memset(exps, 0, (size_t)s->n * sizeof *exps);
    if (attr[BALANCE].f != 0) probabilities(s->c, x, p, s->n);
    if (attr[Z].f != 0) {
        log_sum = log_sum_exp(x, s->n);
        z = 2 * (float)attr[Z].f * log_sum;
        for (int64_t i = 0; i < s->n; i++) exps[i] = expf(x[i] - log_sum);
    }
    for (int64_t i = 0; i < s->n; i++) dot += s->slopes[i] * p[i];
    for (int64_t i = 0; i < s->n; i++) {
        const float other = sigmoid ? 1.0f - 1.0f / (1.0f + expf(-x[i])) : 1.0f;
        dx[i] = p[i] * (s->slopes[i] - dot) * other + z * exps[i];
    }
}

static void grad_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct losses *s = arg;
    const syn_operand *out = &s->c->out[0];
    float *logits = s->buffers + worker * s->buffer_floats, *p = logits + s->n, *exps = p + s->n;
    for (int64_t i = begin; i < end; i++) {
        const float *x = syn__load_row(s->logits, i * s->logits->strides[0], s->n, logits);
        grad_row(s, x, p, exps, syn__row_dest(out, i * s->n, logits));
        syn__store_row(out, i * s->n, s->n, logits);
    }
}

SYN__CPU(router_loss_grad) {
    struct losses s;
    SYN_TRY(prepare(c, 0, &s));
    syn_workers_ranges(c->workers, c->in[0].spec.dims[0], SYN__GRAIN_MATH / (s.n * 8) + 1,
                       grad_rows, &s);
    return SYN_OK;
}

static void attributes_of(const syn_router_losses *how, syn_attr attr[3]) {
    attr[SCORE].i = how->score;
    attr[BALANCE].f = how->balance;
    attr[Z].f = how->z;
}

syn_tensor syn_router_loss(syn_ctx *ctx, syn_tensor weights, syn_tensor logits, syn_tensor counts,
                           const syn_router_losses *how) {
    syn_tensor out = {0};
    const syn_tensor in[3] = {weights, syn__dense_last_dim(ctx, logits), counts};
    syn_attr attr[3];
    attributes_of(how, attr);
    syn__call_op(ctx, SYN_OP_ROUTER_LOSS, in, 3, attr, 3, NULL, &out);
    return out;
}

SYN__GRAD(router_loss) {
    if (g->need[0]) g->din[0] = syn_grad_out(g, 0);
    if (g->need[1])
        syn__call_op(g->ctx, SYN_OP_ROUTER_LOSS_GRAD, g->in + 1, 2, g->attr, 3, NULL, &g->din[1]);
}

syn_tensor syn_router_loss_add(syn_ctx *ctx, syn_tensor sum, syn_tensor logits, syn_tensor counts,
                               const syn_router_losses *how) {
    syn_tensor out = {0};
    const syn_tensor in[3] = {sum, syn__dense_last_dim(ctx, logits), counts};
    syn_attr attr[3];
    attributes_of(how, attr);
    syn__call_op(ctx, SYN_OP_ROUTER_LOSS_ADD, in, 3, attr, 3, NULL, &out);
    return out;
}

/* ---- count_add ---- */

SYN__INFER(count_add) {
    SYN_TRY(syn__check_dtype(c, 0, SYN_F32));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I64));
    if (c->in[0].spec.rank != 1) return syn__bad_input(c, 0, "sums (E)");
    if (c->in[1].spec.rank != 1 || c->in[1].spec.dims[0] != c->in[0].spec.dims[0])
        return syn__bad_input(c, 1, "one count per sum");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

SYN__COST(count_add) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(count_add) {
    const syn_operand *counts = &c->in[1];
    float *sums = c->out[0].data;
    for (int64_t e = 0; e < c->in[0].spec.dims[0]; e++)
        sums[e] += (float)((const int64_t *)counts->data)[e * counts->strides[0]];
    return SYN_OK;
}

syn_tensor syn_count_add(syn_ctx *ctx, syn_tensor sums, syn_tensor counts) {
    syn_tensor out = {0};
    const syn_tensor in[2] = {sums, counts};
    syn__call_op(ctx, SYN_OP_COUNT_ADD, in, 2, NULL, 0, NULL, &out);
    return out;
}

/* ---- router_bias_update: bias, counts -> the new bias, and counts of 0 ---- */

SYN__INFER(router_bias_update) {
    for (int i = 0; i < 2; i++) {
        SYN_TRY(syn__check_dtype(c, i, SYN_F32));
        if (c->in[i].spec.rank != 1 || c->in[i].spec.dims[0] != c->in[0].spec.dims[0] ||
            !syn__is_dense(&c->in[i]))
            return syn__bad_input(c, i,
                                  i ? "one count per expert (E), dense" : "a bias (E), dense");
        c->out[i].spec = c->in[i].spec;
    }
    if (isfinite(c->attr[0].f)) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "the rate is not finite");
}

/* The mean, and 3 operations per expert. */
SYN__COST(router_bias_update) {
    *cost = (syn_cost){4 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(router_bias_update) {
    const int64_t n = c->in[0].spec.dims[0];
    const float rate = (float)c->attr[0].f;
    float *bias = c->out[0].data, *counts = c->out[1].data;
    double sum = 0;
    for (int64_t e = 0; e < n; e++) sum += (double)counts[e];
    for (int64_t e = 0; e < n; e++) {
        const double missing = sum - (double)counts[e] * (double)n; /* exact, like `sum` */
        bias[e] += missing > 0 ? rate : missing < 0 ? -rate : 0;
        counts[e] = 0;
    }
    return SYN_OK;
}

void syn_router_bias_update(syn_ctx *ctx, syn_tensor *bias, syn_tensor *counts, double rate) {
    syn_tensor out[2] = {{0}, {0}};
    const syn_tensor in[2] = {*bias, *counts};
    const syn_attr attr[1] = {{.f = rate}};
    syn__call_op(ctx, SYN_OP_ROUTER_BIAS_UPDATE, in, 2, attr, 1, NULL, out);
    *bias = out[0];
    *counts = out[1];
}
