/* layernorm and rmsnorm. rmsnorm has no mean and no bias. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* x (..., C), weight (C) and, for layernorm, bias (C) -> (..., C) */
SYN__INFER(norm) {
    const syn_spec *x = &c->in[0].spec;
    SYN_TRY(syn__check_floats(c, c->n_in));
    if (x->rank < 1 || x->dims[x->rank - 1] < 1) return syn__bad_input(c, 0, "(..., C) with C > 0");
    for (int i = 1; i < c->n_in; i++)
        if (c->in[i].spec.rank != 1 || c->in[i].spec.dims[0] != x->dims[x->rank - 1])
            return syn__bad_input(c, i, "(C) like the last dimension of input 0");
    c->out[0].spec = *x;
    return SYN_OK;
}

SYN__COST(layernorm) {
    *cost = (syn_cost){8 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__COST(rmsnorm) {
    *cost = (syn_cost){4 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Each worker has an f32 buffer for three rows; `buffer_floats` is 0 if all tensors are f32 and
   there is no offset. */
struct norm {
    const syn_call *c;
    float *buffers;
    int64_t buffer_floats, width;
    float offset; /* added to the weights */
};

static struct norm norm_of(const syn_call *c, bool has_offset) {
    const int64_t width = c->in[1].spec.dims[0];
    const float offset = has_offset ? (float)c->attr[1].f : 0;
    const bool direct = syn__is_f32(&c->in[0]) && !(offset > 0 || offset < 0);
    const int64_t buffer_floats = direct ? 0 : syn__padded_floats(3 * width);
    return (struct norm){.c = c, .buffer_floats = buffer_floats, .width = width, .offset = offset};
}

/* Row i of a worker's buffer. */
static float *norm_buffer(const struct norm *s, int worker, int i) {
    return s->buffers ? s->buffers + worker * s->buffer_floats + i * s->width : NULL;
}

/* The weights plus the offset. */
static const float *weights_of(const struct norm *s, int worker) {
    float *buffer = norm_buffer(s, worker, 0);
    const float *weight = syn__load_row(&s->c->in[1], 0, s->width, buffer);
    if (!(s->offset > 0 || s->offset < 0)) return weight;
    for (int64_t i = 0; i < s->width; i++) buffer[i] = weight[i] + s->offset;
    return buffer;
}

static void norm_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct norm *s = arg;
    const syn_operand *x = &s->c->in[0], *y = &s->c->out[0];
    const int64_t n = s->width;
    const float *weight = weights_of(s, worker), *bias = NULL;
    const double eps = s->c->attr[0].f;
    if (s->c->n_in > 2) bias = syn__load_row(&s->c->in[2], 0, n, norm_buffer(s, worker, 1));
    float *buffer = norm_buffer(s, worker, 2);
    syn_row_iter r;
    syn__seek_row(&r, &x->spec, &x, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        const float *in = syn__load_row(x, r.at[0], n, buffer);
        float *out = syn__row_dest(y, row * n, buffer);
        if (bias) syn__row_kernels()->layernorm(in, weight, bias, eps, out, n);
        else syn__row_kernels()->rmsnorm(in, weight, eps, out, n);
        syn__store_row(y, row * n, n, buffer);
        syn__next_row(&r, &x->spec, &x, 1);
    }
}

SYN__CPU(norm) {
    struct norm s = norm_of(c, c->n_in == 2);
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    const int64_t rows = syn_spec_elems(&c->in[0].spec) / s.width;
    if (rows > 0)
        syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / s.width + 1, norm_rows, &s);
    return SYN_OK;
}

syn_tensor syn_layernorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, syn_tensor bias,
                         double eps) {
    syn_tensor out;
    const syn_tensor in[3] = {syn__dense_last_dim(ctx, x), syn__dense_last_dim(ctx, weight),
                              syn__dense_last_dim(ctx, bias)};
    const syn_attr attr[1] = {{.f = eps}};
    syn__call_op(ctx, SYN_OP_LAYERNORM, in, 3, attr, 1, NULL, &out);
    return out;
}

syn_tensor syn_rmsnorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, double eps) {
    return syn_rmsnorm_offset(ctx, x, weight, eps, 0);
}

syn_tensor syn_rmsnorm_offset(syn_ctx *ctx, syn_tensor x, syn_tensor weight, double eps,
                              double offset) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, x), syn__dense_last_dim(ctx, weight)};
    const syn_attr attr[2] = {{.f = eps}, {.f = offset}};
    syn__call_op(ctx, SYN_OP_RMSNORM, in, 2, attr, 2, NULL, &out);
    return out;
}

/* ---- gradients ---- */

/* One op computes the gradients of the input and of the parameters. */
SYN__GRAD(layernorm) {
    const syn_tensor in[3] = {g->in[0], g->in[1], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn__call_op(g->ctx, SYN_OP_LAYERNORM_GRAD, in, 3, g->attr, 1, NULL, g->din);
}

SYN__GRAD(rmsnorm) {
    const syn_tensor in[3] = {g->in[0], g->in[1], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn__call_op(g->ctx, SYN_OP_RMSNORM_GRAD, in, 3, g->attr, 2, NULL, g->din);
}

/* x (..., C), weight (C), dy (..., C) -> dx (..., C), dweight (C) and, for layernorm, dbias (C).
   dweight and dbias are f32. */
SYN__INFER(norm_grad) {
    SYN_TRY(syn__check_floats(c, 3));
    const syn_spec *x = &c->in[0].spec, *weight = &c->in[1].spec;
    if (x->rank < 1 || x->dims[x->rank - 1] < 1) return syn__bad_input(c, 0, "(..., C) with C > 0");
    if (weight->rank != 1 || weight->dims[0] != x->dims[x->rank - 1])
        return syn__bad_input(c, 1, "(C) like the last dimension of input 0");
    if (!syn_spec_equal(x, &c->in[2].spec)) return syn__bad_input(c, 2, "like input 0");
    c->out[0].spec = *x;
    for (int i = 1; i < c->n_out; i++) {
        c->out[i].spec = *weight;
        c->out[i].spec.dtype = SYN_F32;
    }
    return SYN_OK;
}

/* Twice the forward op's operations per element. */
SYN__COST(layernorm_grad) {
    *cost = (syn_cost){16 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__COST(rmsnorm_grad) {
    *cost = (syn_cost){8 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Rows are split into pieces with separate sums for dweight and dbias. The split does not depend
   on the number of threads, so neither do the results. */
struct norm_grad {
    struct norm norm;
    float *sums; /* (pieces, 2, C) */
    int64_t rows, piece;
};

static void norm_grad_piece(void *arg, int64_t i, int worker) {
    const struct norm_grad *s = arg;
    const syn_call *c = s->norm.c;
    const syn_operand *x = &c->in[0], *dy = &c->in[2], *dx = &c->out[0], *operands[2] = {x, dy};
    const int64_t n = s->norm.width;
    const int64_t end = (i + 1) * s->piece < s->rows ? (i + 1) * s->piece : s->rows;
    const double eps = c->attr[0].f;
    float *dweight = s->sums + i * 2 * n, *dbias = dweight + n;
    const float *weight = weights_of(&s->norm, worker);
    float *x_buffer = norm_buffer(&s->norm, worker, 1),
          *dy_buffer = norm_buffer(&s->norm, worker, 2);
    syn_row_iter r;
    memset(dweight, 0, 2 * (size_t)n * sizeof *dweight);
    syn__seek_row(&r, &x->spec, operands, 2, i * s->piece);
    for (int64_t row = i * s->piece; row < end; row++) {
        const float *in = syn__load_row(x, r.at[0], n, x_buffer),
                    *d = syn__load_row(dy, r.at[1], n, dy_buffer);
        float *out = syn__row_dest(dx, row * n, dy_buffer);
        if (c->n_out > 2)
            syn__row_kernels()->layernorm_grad(in, weight, d, eps, out, dweight, dbias, n);
        else syn__row_kernels()->rmsnorm_grad(in, weight, d, eps, out, dweight, n);
        syn__store_row(dx, row * n, n, dy_buffer);
        syn__next_row(&r, &x->spec, operands, 2);
    }
}

SYN__CPU(norm_grad) {
    enum { PIECES = 32 };
    struct norm_grad s = {.norm = norm_of(c, c->n_out == 2)};
    const int64_t n = s.norm.width, buffers = syn_workers_count(c->workers) * s.norm.buffer_floats;
    s.rows = syn_spec_elems(&c->in[0].spec) / n;
    s.piece = s.rows / PIECES + 1;
    const int64_t pieces = (s.rows + s.piece - 1) / s.piece;
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)(buffers + pieces * 2 * n) * sizeof *s.sums,
                         "sums of a norm's gradients", &scratch));
    s.norm.buffers = buffers ? scratch : NULL;
    s.sums = (float *)scratch + buffers;
    syn_workers_run(c->workers, pieces, norm_grad_piece, &s);
    for (int k = 0; k + 1 < c->n_out; k++) {
        float *out = c->out[1 + k].data;
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t i = 0; i < pieces; i++)
            syn__row_kernels()->add(out, s.sums + (2 * i + k) * n, out, n);
    }
    return SYN_OK;
}
