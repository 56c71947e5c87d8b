/* Softmax over the last dimension, and its gradient. */
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* 4 operations per element: subtract, exponential, sum, divide. */
SYN__COST(softmax) {
    *cost = (syn_cost){4 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void softmax_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)c;
    (void)first;
    syn__row_kernels()->softmax(in, out, n);
}

SYN__CPU(softmax) {
    return syn__each_row(c, softmax_row, SYN__GRAIN_MATH, false);
}

syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x) {
    syn_tensor out;
    const syn_tensor in[1] = {syn__dense_last_dim(ctx, x)};
    syn__call_op(ctx, SYN_OP_SOFTMAX, in, 1, NULL, 0, NULL, &out);
    return out;
}

SYN__GRAD(softmax) {
    const syn_tensor in[2] = {g->out[0], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    syn__call_op(g->ctx, SYN_OP_SOFTMAX_GRAD, in, 2, NULL, 0, NULL, &g->din[0]);
}

/* 4 operations per element: product, sum, subtract, product. */
SYN__COST(softmax_grad) {
    *cost = (syn_cost){4 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Each worker has an f32 buffer for y and dy; buffers is NULL if y and dy are f32. */
struct softmax_rows {
    const syn_call *c;
    float *buffers;
    int64_t buffer_floats; /* per worker */
};

static void softmax_grad_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct softmax_rows *s = arg;
    const syn_operand *y = &s->c->in[0], *dy = &s->c->in[1], *dx = &s->c->out[0];
    const syn_operand *operands[2] = {y, dy};
    const int64_t n = y->spec.dims[y->spec.rank - 1];
    float *y_buffer = s->buffers ? s->buffers + worker * s->buffer_floats : NULL,
          *dy_buffer = s->buffers ? y_buffer + n : NULL;
    syn_row_iter r;
    syn__seek_row(&r, &y->spec, operands, 2, begin);
    for (int64_t row = begin; row < end; row++) {
        syn__row_kernels()->softmax_grad(syn__load_row(y, r.at[0], n, y_buffer),
                                         syn__load_row(dy, r.at[1], n, dy_buffer),
                                         syn__row_dest(dx, row * n, dy_buffer), n);
        syn__store_row(dx, row * n, n, dy_buffer);
        syn__next_row(&r, &y->spec, operands, 2);
    }
}

SYN__CPU(softmax_grad) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t elems = syn_spec_elems(shape), n = shape->dims[shape->rank - 1];
    struct softmax_rows s = {
        .c = c, .buffer_floats = syn__is_f32(&c->in[0]) ? 0 : syn__padded_floats(2 * n)};
    if (elems == 0) return SYN_OK;
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    syn_workers_ranges(c->workers, elems / n, SYN__GRAIN_MOVE / n + 1, softmax_grad_rows, &s);
    return SYN_OK;
}
