/* Elementwise ops: gelu, tanh, silu, swiglu, add, mul, scale, dropout, scale_mask. */
#include <math.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

SYN__INFER(unary) {
    c->out[0].spec = c->in[0].spec;
    if (c->def->category == SYN_CATEGORY_DATA_MOVEMENT) return SYN_OK; /* copies take any dtype */
    SYN_TRY(syn__check_float(c, 0));
    return c->in[0].spec.rank < 1 ? syn__bad_input(c, 0, "of at least one dimension") : SYN_OK;
}

/* One operation per element. */
SYN__COST(unary) {
    *cost = (syn_cost){syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static syn_tensor unary(syn_ctx *ctx, syn_op op, syn_tensor x, const syn_attr *attr, int n_attr) {
    syn_tensor out;
    const syn_tensor in[1] = {syn__dense_last_dim(ctx, x)};
    syn__call_op(ctx, op, in, 1, attr, n_attr, NULL, &out);
    return out;
}

/* ---- two operands, with broadcasting ---- */

syn_operand syn__broadcast_operand(const syn_operand *o, const syn_spec *shape) {
    syn_operand s = *o;
    s.spec = *shape;
    s.spec.dtype = o->spec.dtype;
    const int lead = shape->rank - o->spec.rank;
    for (int d = shape->rank - 1; d >= 0; d--) {
        const bool repeats = d < lead || (o->spec.dims[d - lead] == 1 && shape->dims[d] != 1);
        s.strides[d] = repeats ? 0 : o->strides[d - lead];
    }
    return s;
}

struct binary {
    syn_operand a, b;
    const syn_operand *out;
    int64_t n; /* elements per row */
    syn_binary_row f;
};

/* Processes part of a row. The row kernel needs dense f32 rows, so operands that are repeated,
   strided or 16-bit are copied to f32 buffers, PIECE elements at a time. at_a, at_b, at: offsets in
   elements; step_a, step_b: strides. */
static void row_pieces(const struct binary *s, int64_t at_a, int64_t step_a, int64_t at_b,
                       int64_t step_b, int64_t at, int64_t elems) {
    enum { PIECE = 1024 };
    float a[PIECE], b[PIECE];
    for (int64_t i = 0, n; i < elems; i += n) {
        n = elems - i < PIECE ? elems - i : PIECE;
        s->f(syn__load_strided(&s->a, at_a + i * step_a, step_a, n, a),
             syn__load_strided(&s->b, at_b + i * step_b, step_b, n, b),
             syn__row_dest(s->out, at + i, a), n);
        syn__store_row(s->out, at + i, n, a);
    }
}

static void binary_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct binary *s = arg;
    const syn_spec *shape = &s->a.spec;
    const syn_operand *operands[2] = {&s->a, &s->b};
    const int last = shape->rank - 1;
    const int64_t sa = last < 0 ? 1 : s->a.strides[last], sb = last < 0 ? 1 : s->b.strides[last];
    const bool whole = sa == 1 && sb == 1 && syn__is_f32(s->out);
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, shape, operands, 2, begin);
    for (int64_t row = begin; row < end; row++, syn__next_row(&r, shape, operands, 2)) {
        if (whole)
            s->f((const float *)s->a.data + r.at[0], (const float *)s->b.data + r.at[1],
                 (float *)s->out->data + row * s->n, s->n);
        else row_pieces(s, r.at[0], sa, r.at[1], sb, row * s->n, s->n);
    }
}

static void binary_elements(void *arg, int64_t begin, int64_t end, int worker) {
    const struct binary *s = arg;
    (void)worker;
    if (!syn__is_f32(s->out)) row_pieces(s, begin, 1, begin, 1, begin, end - begin);
    else
        s->f((const float *)s->a.data + begin, (const float *)s->b.data + begin,
             (float *)s->out->data + begin, end - begin);
}

static void each_pair(const syn_call *c, syn_binary_row f) {
    const syn_spec *shape = &c->out[0].spec;
    const int64_t elems = syn_spec_elems(shape);
    struct binary s = {syn__broadcast_operand(&c->in[0], shape),
                       syn__broadcast_operand(&c->in[1], shape), &c->out[0],
                       shape->rank ? shape->dims[shape->rank - 1] : 1, f};
    if (elems == 0) return;
    if (syn__is_dense(&s.a) && syn__is_dense(&s.b))
        syn_workers_ranges(c->workers, elems, SYN__GRAIN_MOVE, binary_elements, &s);
    else syn_workers_ranges(c->workers, elems / s.n, SYN__GRAIN_MOVE / s.n + 1, binary_rows, &s);
}

/* ---- gelu ---- */

SYN__COST(gelu) {
    *cost = (syn_cost){8 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void gelu_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)first;
    const syn_row_kernels *k = syn__row_kernels();
    (c->attr[0].i ? k->gelu_tanh : k->gelu_erf)(in, out, n);
}

SYN__CPU(gelu) {
    return syn__each_row(c, gelu_row, SYN__GRAIN_MATH, true);
}

syn_tensor syn_gelu(syn_ctx *ctx, syn_tensor x, bool tanh_form) {
    return unary(ctx, SYN_OP_GELU, x, &(syn_attr){.i = tanh_form}, 1);
}

/* Input 0 is the forward op's x or y, input 1 is dy; both have one shape. */
SYN__INFER(unary_grad) {
    SYN_TRY(syn__unary_infer(c));
    return syn_spec_equal(&c->in[0].spec, &c->in[1].spec) ? SYN_OK
                                                          : syn__bad_input(c, 1, "like input 0");
}

/* Twice the forward op's operations per element. */
SYN__COST(gelu_grad) {
    *cost = (syn_cost){16 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(gelu_grad) {
    const syn_row_kernels *k = syn__row_kernels();
    each_pair(c, c->attr[0].i ? k->gelu_tanh_grad : k->gelu_erf_grad);
    return SYN_OK;
}

static syn_tensor unary_grad(syn_grad_call *g, syn_op op, syn_tensor x) {
    syn_tensor out;
    const syn_tensor in[2] = {x, syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn__call_op(g->ctx, op, in, 2, g->attr, syn__n_attr(g), NULL, &out);
    return out;
}

SYN__GRAD(gelu) {
    g->din[0] = unary_grad(g, SYN_OP_GELU_GRAD, g->in[0]);
}

/* ---- tanh ---- */

static void tanh_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)c;
    (void)first;
    syn__row_kernels()->tanh(in, out, n);
}

SYN__CPU(tanh) {
    return syn__each_row(c, tanh_row, SYN__GRAIN_MATH, true);
}

syn_tensor syn_tanh(syn_ctx *ctx, syn_tensor x) {
    return unary(ctx, SYN_OP_TANH, x, NULL, 0);
}

SYN__COST(tanh_grad) {
    *cost = (syn_cost){2 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(tanh_grad) {
    each_pair(c, syn__row_kernels()->tanh_grad);
    return SYN_OK;
}

SYN__GRAD(tanh) {
    g->din[0] = unary_grad(g, SYN_OP_TANH_GRAD, g->out[0]);
}

/* ---- silu ---- */

SYN__COST(silu) {
    *cost = (syn_cost){4 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void silu_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)c;
    (void)first;
    syn__row_kernels()->silu(in, out, n);
}

SYN__CPU(silu) {
    return syn__each_row(c, silu_row, SYN__GRAIN_MATH, true);
}

syn_tensor syn_silu(syn_ctx *ctx, syn_tensor x) {
    return unary(ctx, SYN_OP_SILU, x, NULL, 0);
}

/* Twice the forward op's operations per element. */
SYN__COST(silu_grad) {
    *cost = (syn_cost){8 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(silu_grad) {
    each_pair(c, syn__row_kernels()->silu_grad);
    return SYN_OK;
}

SYN__GRAD(silu) {
    g->din[0] = unary_grad(g, SYN_OP_SILU_GRAD, g->in[0]);
}

/* ---- swiglu ---- */

/* Attributes of clamped calls; others have none. */
enum { ALPHA, LIMIT };

/* The limits cost 3 operations per element, and alpha and the addition of 1 one each. */
SYN__COST(swiglu) {
    const uint64_t each = c->n_attr ? 10 : 5;
    *cost = (syn_cost){each * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Processes rows in pieces; 16-bit pieces are converted to f32 in buffers. */
static void swiglu_clamped_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *operands[2] = {&c->in[0], &c->in[1]};
    const int64_t n = c->in[0].spec.dims[c->in[0].spec.rank - 1];
    const int64_t piece = syn__is_f32(&c->in[0]) ? n : SYN__PIECE;
    float buffer[3][SYN__PIECE];
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, &c->in[0].spec, operands, 2, begin);
    for (int64_t row = begin; row < end; row++, syn__next_row(&r, &c->in[0].spec, operands, 2))
        for (int64_t i = 0, some; i < n; i += some) {
            const int64_t to = row * n + i;
            some = n - i < piece ? n - i : piece;
            syn__row_kernels()->swiglu_clamped(
                syn__load_row(&c->in[0], r.at[0] + i, some, buffer[0]),
                syn__load_row(&c->in[1], r.at[1] + i, some, buffer[1]), (float)c->attr[ALPHA].f,
                (float)c->attr[LIMIT].f, syn__row_dest(&c->out[0], to, buffer[2]), some);
            syn__store_row(&c->out[0], to, some, buffer[2]);
        }
}

/* Runs f on ranges of the rows of input 0. */
static void each_gated_row(syn_call *c, void (*f)(void *, int64_t, int64_t, int)) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t elems = syn_spec_elems(shape), n = shape->dims[shape->rank - 1];
    if (elems > 0) syn_workers_ranges(c->workers, elems / n, SYN__GRAIN_MATH / n + 1, f, c);
}

SYN__CPU(swiglu) {
    if (c->n_attr) each_gated_row(c, swiglu_clamped_rows);
    else each_pair(c, syn__row_kernels()->swiglu);
    return SYN_OK;
}

static syn_tensor swiglu(syn_ctx *ctx, syn_tensor gate, syn_tensor up, const syn_attr *attr,
                         int n_attr) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, gate), syn__dense_last_dim(ctx, up)};
    syn__call_op(ctx, SYN_OP_SWIGLU, in, 2, attr, n_attr, NULL, &out);
    return out;
}

syn_tensor syn_swiglu(syn_ctx *ctx, syn_tensor gate, syn_tensor up) {
    return swiglu(ctx, gate, up, NULL, 0);
}

syn_tensor syn_swiglu_clamped(syn_ctx *ctx, syn_tensor gate, syn_tensor up, double alpha,
                              double limit) {
    return swiglu(ctx, gate, up, (const syn_attr[]){{.f = alpha}, {.f = limit}}, 2);
}

/* gate, up, dy -> dgate, dup */
SYN__INFER(swiglu_grad) {
    SYN_TRY(syn__check_floats(c, 3));
    SYN_TRY(syn__unary_grad_infer(c));
    c->out[1].spec = c->in[0].spec;
    return syn_spec_equal(&c->in[0].spec, &c->in[2].spec) ? SYN_OK
                                                          : syn__bad_input(c, 2, "like input 0");
}

SYN__COST(swiglu_grad) {
    syn__swiglu_cost(c, cost);
    cost->flops *= 2;
}

/* Like swiglu_clamped_rows. */
static void swiglu_grad_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *operands[3] = {&c->in[0], &c->in[1], &c->in[2]};
    const int64_t n = c->in[0].spec.dims[c->in[0].spec.rank - 1];
    const int64_t piece = syn__is_f32(&c->in[0]) ? n : SYN__PIECE;
    float buffer[5][SYN__PIECE];
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, &c->in[0].spec, operands, 3, begin);
    for (int64_t row = begin; row < end; row++, syn__next_row(&r, &c->in[0].spec, operands, 3))
        for (int64_t i = 0, some; i < n; i += some) {
            const int64_t to = row * n + i;
            some = n - i < piece ? n - i : piece;
            const float *gate = syn__load_row(&c->in[0], r.at[0] + i, some, buffer[0]),
                        *up = syn__load_row(&c->in[1], r.at[1] + i, some, buffer[1]),
                        *dy = syn__load_row(&c->in[2], r.at[2] + i, some, buffer[2]);
            float *dgate = syn__row_dest(&c->out[0], to, buffer[3]),
                  *dup = syn__row_dest(&c->out[1], to, buffer[4]);
            if (c->n_attr)
                syn__row_kernels()->swiglu_clamped_grad(gate, up, dy, (float)c->attr[ALPHA].f,
                                                        (float)c->attr[LIMIT].f, dgate, dup, some);
            else syn__row_kernels()->swiglu_grad(gate, up, dy, dgate, dup, some);
            syn__store_row(&c->out[0], to, some, buffer[3]);
            syn__store_row(&c->out[1], to, some, buffer[4]);
        }
}

SYN__CPU(swiglu_grad) {
    each_gated_row(c, swiglu_grad_rows);
    return SYN_OK;
}

SYN__GRAD(swiglu) {
    const syn_tensor in[3] = {g->in[0], g->in[1], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn__call_op(g->ctx, SYN_OP_SWIGLU_GRAD, in, 3, g->attr, g->n_attr, NULL, g->din);
}

/* ---- relu ---- */

static void relu_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)c;
    (void)first;
    syn__row_kernels()->relu(in, out, n);
}

SYN__CPU(relu) {
    return syn__each_row(c, relu_row, SYN__GRAIN_MOVE, true);
}

syn_tensor syn_relu(syn_ctx *ctx, syn_tensor x) {
    return unary(ctx, SYN_OP_RELU, x, NULL, 0);
}

static void relu_grad_row(const float *y, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] <= 0 ? 0 : dy[i];
}

SYN__CPU(relu_grad) {
    each_pair(c, relu_grad_row);
    return SYN_OK;
}

SYN__GRAD(relu) {
    g->din[0] = unary_grad(g, SYN_OP_RELU_GRAD, g->out[0]);
}

/* ---- scale ---- */

static void scale_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)first;
    syn__row_kernels()->scale(in, (float)c->attr[0].f, out, n);
}

SYN__CPU(scale) {
    return syn__each_row(c, scale_row, SYN__GRAIN_MOVE, true);
}

syn_tensor syn_scale(syn_ctx *ctx, syn_tensor x, double factor) {
    return unary(ctx, SYN_OP_SCALE, x, &(syn_attr){.f = factor}, 1);
}

SYN__GRAD(scale) {
    g->din[0] = syn_scale(g->ctx, syn_grad_out(g, 0), g->attr[0].f);
}

/* ---- dropout ---- */

/* Checks x (B, ..., C) and keys (B). */
SYN__INFER(dropout) {
    const syn_spec *x = &c->in[0].spec;
    if (!(c->attr[0].f >= 0.0 && c->attr[0].f < 1.0))
        return SYN_FAIL(c->err, SYN_E_INVALID, "the probability %g is not in [0, 1)", c->attr[0].f);
    SYN_TRY(syn__unary_infer(c));
    if (x->rank < 2) return syn__bad_input(c, 0, "(B, ..., C)");
    if (c->n_in < 2) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    return c->in[1].spec.rank == 1 && c->in[1].spec.dims[0] == x->dims[0]
               ? SYN_OK
               : syn__bad_input(c, 1, "one key per sample (B)");
}

static void dropout_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    const int64_t rows = syn_spec_elems(&c->in[0].spec) / c->in[0].spec.dims[0] / n;
    const int64_t sample = first / n / rows, row = first / n % rows;
    const int32_t key =
        c->n_in > 1 ? ((const int32_t *)c->in[1].data)[sample] : (int32_t)(c->attr[2].i + sample);
    const syn_dropout_row drop =
        syn__dropout_row(c->attr[0].f, (uint64_t)c->attr[1].i, key, c->attr[3].i + row);
    syn__row_kernels()->dropout(in, &drop, (uint32_t)c->attr[4].i, out, n);
}

SYN__CPU(dropout) {
    return syn__each_row(c, dropout_row, SYN__GRAIN_MOVE, false);
}

syn_tensor syn_dropout(syn_ctx *ctx, syn_tensor x, syn_tensor keys,
                       const syn_dropout_options *how) {
    const syn_attr attr[5] = {{.f = how->p},
                              {.i = (int64_t)how->seed},
                              {.i = how->sample},
                              {.i = how->row},
                              {.i = how->column}};
    syn_tensor out, in[2] = {syn__dense_last_dim(ctx, x), keys};
    if (keys.id) in[1] = syn__dense_last_dim(ctx, keys);
    syn__call_op(ctx, SYN_OP_DROPOUT, in, keys.id ? 2 : 1, attr, 5, NULL, &out);
    return out;
}

/* The gradient op computes the same mask again. */
SYN__GRAD(dropout) {
    const syn_dropout_options how = {g->attr[0].f, (uint64_t)g->attr[1].i, g->attr[2].i,
                                     g->attr[3].i, g->attr[4].i};
    const syn_tensor keys = g->n_in > 1 ? g->in[1] : SYN_NO_KEYS;
    g->din[0] = syn_dropout(g->ctx, syn_grad_out(g, 0), keys, &how);
}

/* ---- scale and mask of attention scores ---- */

SYN__INFER(scale_mask) {
    SYN_TRY(syn__unary_infer(c));
    if (c->n_attr > 3) SYN_TRY(syn__check_window(c, c->attr[3].i));
    if (c->n_in < 2) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, 1, SYN_F32));
    const syn_spec *scores = &c->in[0].spec, *mask = &c->in[1].spec;
    if (scores->rank != 4) return syn__bad_input(c, 0, "scores (B, H, T, S) to be masked");
    if (mask->rank != 2 || mask->dims[0] != scores->dims[0] || mask->dims[1] != scores->dims[3])
        return syn__bad_input(c, 1, "a mask (B, S) like the scores");
    return SYN_OK;
}

static void scale_mask_row(const syn_call *c, const float *in, float *out, int64_t n,
                           int64_t first) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t row = first / n, rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    const int64_t visible = c->attr[1].i && c->attr[2].i < n ? row % rows + c->attr[2].i + 1 : n;
    const int64_t window = c->n_attr > 3 ? c->attr[3].i : 0;
    int64_t hidden = window > 0 ? row % rows + c->attr[2].i + 1 - window : 0;
    const float *mask = NULL;
    if (c->n_in > 1)
        mask = (const float *)c->in[1].data + row / (rows * shape->dims[1]) * c->in[1].strides[0];
    syn__row_kernels()->scale_mask(in, mask, (float)c->attr[0].f, visible, out, n);
    for (hidden = hidden < n ? hidden : n; hidden > 0; hidden--) out[hidden - 1] = -INFINITY;
}

SYN__CPU(scale_mask) {
    return syn__each_row(c, scale_mask_row, SYN__GRAIN_MOVE, false);
}

static syn_tensor scale_mask(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                             bool causal, int64_t offset, int64_t window) {
    syn_tensor out, in[2] = {syn__dense_last_dim(ctx, scores), mask};
    if (mask.id) in[1] = syn__dense_last_dim(ctx, mask);
    const syn_attr attr[4] = {{.f = scale}, {.i = causal}, {.i = offset}, {.i = window}};
    syn__call_op(ctx, SYN_OP_SCALE_MASK, in, mask.id ? 2 : 1, attr, window ? 4 : 3, NULL, &out);
    return out;
}

syn_tensor syn_scale_mask(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                          bool causal, int64_t offset) {
    return scale_mask(ctx, scores, mask, scale, causal, offset, 0);
}

syn_tensor syn_scale_mask_window(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                                 int64_t offset, int64_t window) {
    return scale_mask(ctx, scores, mask, scale, true, offset, window);
}

/* The scores go to a softmax, whose gradient is already zero for masked scores. */
SYN__GRAD(scale_mask) {
    g->din[0] = syn_scale(g->ctx, syn_grad_out(g, 0), g->attr[0].f);
}

/* ---- add, mul ---- */

SYN__INFER(binary) {
    SYN_TRY(syn__check_floats(c, 2));
    const syn_spec *a = &c->in[0].spec, *b = &c->in[1].spec;
    syn_spec *o = &c->out[0].spec;
    o->dtype = a->dtype;
    o->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int d = 0; d < o->rank; d++) {
        const int da = d - (o->rank - a->rank), db = d - (o->rank - b->rank);
        const int64_t na = da < 0 ? 1 : a->dims[da], nb = db < 0 ? 1 : b->dims[db];
        if (na != nb && na != 1 && nb != 1) {
            char x[SYN_SPEC_TEXT], y[SYN_SPEC_TEXT];
            return SYN_FAIL(c->err, SYN_E_SHAPE, "the shapes %s and %s do not broadcast",
                            syn_spec_text(a, x, sizeof x), syn_spec_text(b, y, sizeof y));
        }
        o->dims[d] = na == 1 ? nb : na;
    }
    return SYN_OK;
}

SYN__COST(binary) {
    *cost = (syn_cost){syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(add) {
    each_pair(c, syn__row_kernels()->add);
    return SYN_OK;
}

SYN__CPU(mul) {
    each_pair(c, syn__row_kernels()->mul);
    return SYN_OK;
}

static syn_tensor binary(syn_ctx *ctx, syn_op op, syn_tensor a, syn_tensor b) {
    syn_tensor out;
    const syn_tensor in[2] = {a, b};
    syn__call_op(ctx, op, in, 2, NULL, 0, NULL, &out);
    return out;
}

syn_tensor syn_add(syn_ctx *ctx, syn_tensor a, syn_tensor b) {
    return binary(ctx, SYN_OP_ADD, a, b);
}

/* The gradient of broadcasting x: sums dy to the shape of x. */
static syn_tensor sum_like(syn_ctx *ctx, syn_tensor dy, syn_tensor x) {
    const syn_spec spec = *syn_tensor_spec(ctx, x);
    return syn_sum_to(ctx, dy, spec.dims, spec.rank);
}

SYN__GRAD(add) {
    for (int i = 0; i < 2; i++)
        if (g->need[i]) g->din[i] = sum_like(g->ctx, syn_grad_out(g, 0), g->in[i]);
}

syn_tensor syn_mul(syn_ctx *ctx, syn_tensor a, syn_tensor b) {
    return binary(ctx, SYN_OP_MUL, a, b);
}

SYN__GRAD(mul) {
    for (int i = 0; i < 2; i++)
        if (g->need[i])
            g->din[i] =
                sum_like(g->ctx, syn_mul(g->ctx, syn_grad_out(g, 0), g->in[1 - i]), g->in[i]);
}
