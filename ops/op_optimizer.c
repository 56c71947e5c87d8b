/* Ops on lists of parameters and gradients: square sums, gradient clipping, AdamW. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/base/half.h"

static syn_status want_dense(const syn_call *c, int i) {
    SYN_TRY(syn__check_dtype(c, i, SYN_F32));
    return syn__is_dense(&c->in[i]) ? SYN_OK : syn__bad_input(c, i, "dense");
}

static syn_status want_number(const syn_call *c, int i, int64_t n) {
    char expected[40];
    SYN_TRY(want_dense(c, i));
    if (syn_spec_elems(&c->in[i].spec) == n) return SYN_OK;
    snprintf(expected, sizeof expected, "of %lld element%s", (long long)n, n == 1 ? "" : "s");
    return syn__bad_input(c, i, expected);
}

static int64_t elems(const syn_operand *o) {
    return syn_spec_elems(&o->spec);
}

/* ---- square_sum ---- */

SYN__INFER(square_sum) {
    for (int i = 0; i < c->n_in; i++) SYN_TRY(want_dense(c, i));
    if (c->n_attr && c->attr[0].i < 1)
        return SYN_FAIL(c->err, SYN_E_INVALID, "the divisor must be at least 1, not %lld",
                        (long long)c->attr[0].i);
    c->out[0].spec = (syn_spec){SYN_F32, 0, {0}};
    return SYN_OK;
}

SYN__COST(square_sum) {
    const uint64_t bytes = syn__input_bytes(c);
    *cost = (syn_cost){2 * (bytes / sizeof(float)), bytes, syn__output_bytes(c)};
}

/* Tensors are split into pieces with separate sums. The split does not depend on the number of
   threads, so neither does the result. */
struct pieces {
    const syn_call *c;
    double *sums;
    int64_t first[SYN_MAX_PARAMS + 1]; /* number of pieces before those of each tensor */
};

enum { PIECE = 65536 };

static void square_piece(void *arg, int64_t i, int worker) {
    struct pieces *p = arg;
    int t = 0;
    (void)worker;
    while (i >= p->first[t + 1]) t++;
    const int64_t at = (i - p->first[t]) * PIECE, n = elems(&p->c->in[t]) - at;
    p->sums[i] = 0;
    syn__row_kernels()->square_sum((const float *)p->c->in[t].data + at, &p->sums[i],
                                   n < PIECE ? n : PIECE);
}

SYN__CPU(square_sum) {
    struct pieces p = {.c = c};
    double sum = 0;
    for (int t = 0; t < c->n_in; t++)
        p.first[t + 1] = p.first[t] + (elems(&c->in[t]) + PIECE - 1) / PIECE;
    const int64_t n = p.first[c->n_in];
    void *sums;
    SYN_TRY(syn__scratch(c, (size_t)n * sizeof *p.sums, "sums of squares", &sums));
    p.sums = sums;
    syn_workers_run(c->workers, n, square_piece, &p);
    for (int64_t i = 0; i < n; i++) sum += p.sums[i];
    *(float *)c->out[0].data = (float)(sum / (double)(c->n_attr ? c->attr[0].i : 1));
    return SYN_OK;
}

/* Only a divisor other than 1 is recorded. */
syn_tensor syn_square_sum_divided(syn_ctx *ctx, const syn_tensor *xs, int n, int divisor) {
    const syn_attr attr[1] = {{.i = divisor}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_SQUARE_SUM, xs, n, attr, divisor != 1, NULL, &out);
    return out;
}

syn_tensor syn_square_sum(syn_ctx *ctx, const syn_tensor *xs, int n) {
    return syn_square_sum_divided(ctx, xs, n, 1);
}

/* ---- clip_factor ---- */

SYN__INFER(clip_factor) {
    SYN_TRY(want_number(c, 0, 1));
    c->out[0].spec = c->out[1].spec = c->in[0].spec;
    return SYN_OK;
}

/* 4 operations: root, sum, quotient, minimum. */
SYN__COST(clip_factor) {
    *cost = (syn_cost){4, syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(clip_factor) {
    const double norm = sqrt((double)*(const float *)c->in[0].data);
    const double factor = c->attr[0].f / (norm + 1e-6);
    *(float *)c->out[0].data = c->attr[0].f > 0 && !(factor >= 1) ? (float)factor : 1.0f;
    *(float *)c->out[1].data = (float)norm;
    return SYN_OK;
}

syn_tensor syn_clip_factor(syn_ctx *ctx, syn_tensor squares, double max_norm, syn_tensor *norm) {
    syn_tensor out[2];
    const syn_attr attr[1] = {{.f = max_norm}};
    syn__call_op(ctx, SYN_OP_CLIP_FACTOR, &squares, 1, attr, 1, NULL, out);
    *norm = out[1];
    return out[0];
}

/* ---- adamw; inputs: k parameters, m, v, [masters], k gradients, rates, scale, [n_decayed] ---- */

static bool has_masters(const syn_call *c) {
    return c->n_in > 0 && syn_dtype_is_half((syn_dtype)c->in[0].spec.dtype);
}

/* number of state tensors: m, v and, for 16-bit parameters, masters */
static int states(const syn_call *c) {
    return has_masters(c) ? 3 : 2;
}

static int count(const syn_call *c) {
    return (int)c->attr[0].i - states(c);
}

static const syn_operand *gradient(const syn_call *c, int i) {
    return &c->in[count(c) + states(c) + i];
}

static syn_status want_param(const syn_call *c, int i) {
    const syn_dtype dtype = (syn_dtype)c->in[0].spec.dtype;
    SYN_TRY(syn__check_dtype(c, i, syn_dtype_is_half(dtype) ? dtype : SYN_F32));
    return syn__is_dense(&c->in[i]) ? SYN_OK : syn__bad_input(c, i, "dense");
}

SYN__INFER(adamw) {
    const int k = count(c), written = k + states(c);
    int64_t all = 0;
    const bool counted = c->n_in == written + k + 3;
    if (k < 1 || k > SYN_MAX_PARAMS || (c->n_in != written + k + 2 && !counted))
        return SYN_FAIL(c->err, SYN_E_INVALID, "got a list of %d tensors for %d parameters",
                        c->n_in, k);
    for (int i = 0; i < k; i++) {
        SYN_TRY(want_param(c, i));
        SYN_TRY(want_number(c, written + i, elems(&c->in[i])));
        all += elems(&c->in[i]);
    }
    for (int i = k; i < written; i++) SYN_TRY(want_number(c, i, all));
    SYN_TRY(want_number(c, written + k, 3));
    SYN_TRY(want_number(c, written + k + 1, 1));
    if (!counted) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, written + k + 2, SYN_I64));
    if (syn_spec_elems(&c->in[written + k + 2].spec) == 1) return SYN_OK;
    return syn__bad_input(c, written + k + 2, "of 1 element");
}

/* 15 operations per element. Scaling: 1. m: two products and a sum. v: three products and a sum. p:
   root, product, sum, quotient, two products, and a difference. Parameters with masters are not
   read. */
SYN__COST(adamw) {
    const uint64_t n = syn__elems(&c->in[count(c)]);
    *cost = (syn_cost){15 * n, syn__input_bytes(c), syn__output_bytes(c)};
    if (has_masters(c)) cost->bytes_read -= n * syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
}

/* Updates n elements of parameter i, starting with its element `at`, which is element `from` of m,
   v and masters. Masters are rounded to the parameter block by block, while they are in the L1
   cache. */
static void adamw_run(const syn_call *c, int i, int64_t at, int64_t from, int64_t n,
                      const syn_adamw *how) {
    enum { BLOCK = 1024 };
    const int k = count(c);
    const float *g = (const float *)gradient(c, i)->data + at;
    float *m = (float *)c->out[k].data + from, *v = (float *)c->out[k + 1].data + from;
    const syn_row_kernels *rows = syn__row_kernels();
    if (!has_masters(c)) {
        rows->adamw((float *)c->out[i].data + at, m, v, g, how, n);
        return;
    }
    float *master = (float *)c->out[k + 2].data + from;
    uint16_t *p = (uint16_t *)c->out[i].data + at;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t some = n - b < BLOCK ? n - b : BLOCK;
        rows->adamw(master + b, m + b, v + b, g + b, how, some);
        rows->narrow(master + b, (syn_dtype)c->out[i].spec.dtype, p + b, some);
    }
}

/* The number of elements of parameter i that have weight decay; they come first. first: number of
   its first element. */
static int64_t decayed(const syn_call *c, int i, int64_t first) {
    const int at = count(c) + states(c) + count(c) + 2;
    if (at == c->n_in) return c->attr[5].i >> i & 1 ? elems(&c->in[i]) : 0;
    const int64_t n = *(const int64_t *)c->in[at].data - first;
    return n < 0 ? 0 : n;
}

/* Updates elements begin .. end - 1, counted over all parameters. */
static void adamw_some(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const int k = count(c), rest = k + states(c) + k;
    const float *rates = c->in[rest].data;
    syn_adamw how = {.scale = *(const float *)c->in[rest + 1].data,
                     .beta1 = (float)c->attr[1].f,
                     .rest1 = (float)(1 - c->attr[1].f),
                     .beta2 = (float)c->attr[2].f,
                     .rest2 = (float)(1 - c->attr[2].f),
                     .eps = (float)c->attr[3].f,
                     .rate = rates[1],
                     .root = rates[2]};
    int64_t first = 0; /* number of parameter i's first element */
    (void)worker;
    if (!(how.scale > 0)) return;
    for (int i = 0; i < k && first < end; first += elems(&c->in[i++])) {
        const int64_t from = begin > first ? begin : first, last = first + elems(&c->in[i]);
        const int64_t n = (end < last ? end : last) - from;
        if (n <= 0) continue;
        int64_t shrunk = decayed(c, i, first) - (from - first);
        shrunk = shrunk < 0 ? 0 : shrunk > n ? n : shrunk;
        how.shrink = 1.0f - rates[0] * (float)c->attr[4].f;
        adamw_run(c, i, from - first, from, shrunk, &how);
        how.shrink = 1.0f;
        adamw_run(c, i, from - first + shrunk, from + shrunk, n - shrunk, &how);
    }
}

SYN__CPU(adamw) {
    syn_workers_ranges(c->workers, elems(&c->in[count(c)]), SYN__GRAIN_MATH, adamw_some, c);
    return SYN_OK;
}

void syn_adamw_step(syn_ctx *ctx, const syn_adamw_call *call) {
    const int k = call->n;
    syn_tensor in[2 * SYN_MAX_PARAMS + 6], out[SYN_MAX_PARAMS + 3];
    int n = 0;
    if (k < 1 || k > SYN_MAX_PARAMS) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "adamw got %d parameters but accepts 1 to %d", k,
                     SYN_MAX_PARAMS);
        return;
    }
    for (int i = 0; i < k; i++) in[n++] = call->params[i];
    in[n++] = *call->m;
    in[n++] = *call->v;
    if (call->masters) in[n++] = *call->masters;
    const int written = n;
    for (int i = 0; i < k; i++) in[n++] = call->grads[i];
    in[n++] = call->rates;
    in[n++] = call->scale;
    if (call->n_decayed.id) in[n++] = call->n_decayed;
    const syn_attr attr[6] = {{.i = written},   {.f = call->beta1},        {.f = call->beta2},
                              {.f = call->eps}, {.f = call->weight_decay}, {.i = call->decayed}};
    syn__call_op(ctx, SYN_OP_ADAMW, in, n, attr, 6, NULL, out);
    for (int i = 0; i < k; i++) call->params[i] = out[i];
    *call->m = out[k];
    *call->v = out[k + 1];
    if (call->masters) *call->masters = out[k + 2];
}
