/* Token embeddings and rotary position embeddings. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- embedding ---- */

SYN__INFER(embedding) {
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    if (c->in[0].spec.rank != 2) return syn__bad_input(c, 0, "a table (V, C)");
    if (c->in[1].spec.rank >= SYN_MAX_RANK) return syn__bad_input(c, 1, "ids of fewer dimensions");
    c->out[0].spec = c->in[1].spec;
    c->out[0].spec.dtype = c->in[0].spec.dtype;
    c->out[0].spec.dims[c->out[0].spec.rank++] = c->in[0].spec.dims[1];
    return SYN_OK;
}

/* Only the selected rows of the table are read. */
SYN__COST(embedding) {
    const uint64_t rows = syn__elems(&c->out[0]) * syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
    *cost = (syn_cost){0, rows + syn_spec_bytes(&c->in[1].spec), syn__output_bytes(c)};
}

/* Looks up ids begin .. end - 1, in row-major order. */
static void embed_some(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *table = &c->in[0], *ids = &c->in[1];
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)table->spec.dtype);
    const int64_t width = table->spec.dims[1] * elem, step = table->strides[0] * elem;
    const int64_t inner = ids->spec.rank ? ids->spec.dims[ids->spec.rank - 1] : 1;
    const uint64_t first = (uint64_t)c->attr[0].i, rows = (uint64_t)table->spec.dims[0];
    char *out = (char *)c->out[0].data + begin * width;
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, &ids->spec, &ids, 1, begin / inner);
    for (int64_t at = begin, i = begin % inner; at < end; at++, out += width) {
        /* unsigned: ids below the first row become large and fail the check */
        const uint64_t row = (uint64_t)((const int32_t *)ids->data)[r.at[0] + i] - first;
        if (row < rows) memcpy(out, (const char *)table->data + (int64_t)row * step, (size_t)width);
        else memset(out, 0, (size_t)width);
        if (++i < inner) continue;
        i = 0;
        syn__next_row(&r, &ids->spec, &ids, 1);
    }
}

SYN__CPU(embedding) {
    const int64_t ids = syn_spec_elems(&c->in[1].spec), width = c->in[0].spec.dims[1];
    if (width > 0) syn_workers_ranges(c->workers, ids, SYN__GRAIN_MOVE / width + 1, embed_some, c);
    return SYN_OK;
}

syn_tensor syn_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row) {
    return syn_embedding_padded(ctx, table, ids, first_row, -1);
}

syn_tensor syn_embedding_padded(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row,
                                int64_t padding) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, table), syn__dense_last_dim(ctx, ids)};
    const syn_attr attr[2] = {{.i = first_row}, {.i = padding}};
    syn__call_op(ctx, SYN_OP_EMBEDDING, in, 2, attr, padding < 0 ? 1 : 2, NULL, &out);
    return out;
}

/* Ids outside the table and the padding id contribute nothing. */
SYN__GRAD(embedding) {
    const int64_t first = g->attr[0].i, padding = g->n_attr > 1 ? g->attr[1].i : -1;
    const int64_t rows = syn_tensor_dim(g->ctx, g->in[0], 0);
    const syn_tensor dy = syn_grad_out(g, 0), sum = g->sum[0];
    const bool add = sum.id && syn_tensor_spec(g->ctx, sum)->dtype == SYN_F32;
    g->din[0] = add ? syn_embedding_grad_add(g->ctx, sum, g->in[1], dy, first, padding)
                    : syn_embedding_grad(g->ctx, g->in[1], dy, first, rows, padding);
}

/* Checks ids (...) and dy (..., C). */
static syn_status check_looked_up(const syn_call *c, int ids) {
    const syn_spec *i = &c->in[ids].spec, *dy = &c->in[ids + 1].spec;
    SYN_TRY(syn__check_dtype(c, ids, SYN_I32));
    SYN_TRY(syn__check_float(c, ids + 1));
    bool ok = dy->rank == i->rank + 1;
    for (int d = 0; ok && d < i->rank; d++) ok = dy->dims[d] == i->dims[d];
    return ok ? SYN_OK : syn__bad_input(c, ids + 1, "(..., C) for ids (...)");
}

SYN__INFER(embedding_grad) {
    SYN_TRY(check_looked_up(c, 0));
    const syn_spec *dy = &c->in[1].spec;
    c->out[0].spec = (syn_spec){SYN_F32, 2, {c->attr[1].i, dy->dims[dy->rank - 1]}};
    return SYN_OK;
}

SYN__INFER(embedding_grad_add) {
    SYN_TRY(syn__check_dtype(c, 0, SYN_F32));
    SYN_TRY(check_looked_up(c, 1));
    const syn_spec *sum = &c->in[0].spec, *dy = &c->in[2].spec;
    if (sum->rank != 2 || sum->dims[1] != dy->dims[dy->rank - 1])
        return syn__bad_input(c, 0, "a table (V, C)");
    c->out[0].spec = *sum;
    return SYN_OK;
}

/* One addition per element of dy. embedding_grad also writes zeros to the other rows. */
SYN__COST(embedding_grad) {
    const int dy = c->n_in - 1;
    const uint64_t rows = syn_spec_bytes(&c->in[dy].spec);
    const bool sum = c->n_in == 3;
    const uint64_t sums = syn__elems(&c->in[dy]) * sizeof(float);
    *cost = (syn_cost){syn__elems(&c->in[dy]),
                       rows + syn_spec_bytes(&c->in[dy - 1].spec) + (sum ? sums : 0),
                       sum ? sums : syn__output_bytes(c)};
}

struct scatter {
    const syn_operand *ids, *dy, *table;
    int64_t first, width, padding;
};

/* Adds the n elements of x from `at` on, converted to f32, to `to`. */
static void add_widened(const syn_operand *x, int64_t at, float *to, int64_t n) {
    const int64_t piece = syn__is_f32(x) ? n : SYN__PIECE;
    float buffer[SYN__PIECE];
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < piece ? n - i : piece;
        syn__row_kernels()->add(to + i, syn__load_row(x, at + i, some, buffer), to + i, some);
    }
}

/* Adds columns begin .. end - 1 of all rows of dy, in the order of the ids. The threads divide
   columns, not rows, so sums do not depend on the number of threads. */
static void scatter_columns(void *arg, int64_t begin, int64_t end, int worker) {
    const struct scatter *s = arg;
    const syn_operand *operands[2] = {s->ids, s->dy};
    const syn_spec *shape = &s->ids->spec;
    const int64_t inner = shape->rank ? shape->dims[shape->rank - 1] : 1;
    const int64_t step = s->dy->spec.rank > 1 ? s->dy->strides[s->dy->spec.rank - 2] : 0;
    syn_row_iter r = {.started = false};
    (void)worker;
    while (syn__next_row(&r, shape, operands, 2))
        for (int64_t i = 0; i < inner; i++) {
            const int64_t id = ((const int32_t *)s->ids->data)[r.at[0] + i], row = id - s->first;
            if (row < 0 || row >= s->table->spec.dims[0] || id == s->padding) continue;
            float *to = (float *)s->table->data + row * s->table->strides[0] + begin;
            add_widened(s->dy, r.at[1] + i * step + begin, to, end - begin);
        }
}

/* others: number of attributes before the optional padding id. */
static void scatter(const syn_call *c, int ids, int others) {
    struct scatter s = {
        &c->in[ids],  &c->in[ids + 1],        &c->out[0],
        c->attr[0].i, c->out[0].spec.dims[1], c->n_attr > others ? c->attr[others].i : -1};
    const int64_t n = syn_spec_elems(&s.ids->spec);
    if (n > 0)
        syn_workers_ranges(c->workers, s.width, SYN__GRAIN_MOVE / n + 64, scatter_columns, &s);
}

SYN__CPU(embedding_grad) {
    syn__fill_zero(c, &c->out[0]);
    scatter(c, 0, 2);
    return SYN_OK;
}

SYN__CPU(embedding_grad_add) {
    scatter(c, 1, 1);
    return SYN_OK;
}

syn_tensor syn_embedding_grad(syn_ctx *ctx, syn_tensor ids, syn_tensor dy, int64_t first_row,
                              int64_t rows, int64_t padding) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, ids), syn__dense_last_dim(ctx, dy)};
    const syn_attr attr[3] = {{.i = first_row}, {.i = rows}, {.i = padding}};
    syn__call_op(ctx, SYN_OP_EMBEDDING_GRAD, in, 2, attr, padding < 0 ? 2 : 3, NULL, &out);
    return out;
}

syn_tensor syn_embedding_grad_add(syn_ctx *ctx, syn_tensor sum, syn_tensor ids, syn_tensor dy,
                                  int64_t first_row, int64_t padding) {
    syn_tensor out;
    const syn_tensor in[3] = {sum, syn__dense_last_dim(ctx, ids), syn__dense_last_dim(ctx, dy)};
    const syn_attr attr[2] = {{.i = first_row}, {.i = padding}};
    syn__call_op(ctx, SYN_OP_EMBEDDING_GRAD_ADD, in, 3, attr, padding < 0 ? 1 : 2, NULL, &out);
    return out;
}

/* ---- rope ---- */

/* Checks x (B, H, T, D), positions (B or 1, T), frequencies (R/2). */
SYN__INFER(rope) {
    const syn_spec *x = &c->in[0].spec, *at = &c->in[1].spec, *frequencies = &c->in[2].spec;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    SYN_TRY(syn__check_dtype(c, 2, SYN_F32));
    if (x->rank != 4) return syn__bad_input(c, 0, "heads (B, H, T, D)");
    if (at->rank != 2 || (at->dims[0] != x->dims[0] && at->dims[0] != 1) ||
        at->dims[1] != x->dims[2])
        return syn__bad_input(c, 1, "positions (B, T) or (1, T)");
    const int64_t first = c->n_attr > 2 ? c->attr[2].i : 0;
    if (first < 0 || first > x->dims[3])
        return SYN_FAIL(c->err, SYN_E_INVALID, "heads of %lld elements have no element %lld",
                        (long long)x->dims[3], (long long)first);
    if (frequencies->rank != 1 || 2 * frequencies->dims[0] > x->dims[3] - first)
        return syn__bad_input(c, 2, "at most one frequency per two elements of a head");
    c->out[0].spec = *x;
    return SYN_OK;
}

/* Two products and a sum per rotated element. Computing the angles is not counted, because all
   heads share them. */
SYN__COST(rope) {
    const syn_spec *x = &c->in[0].spec;
    const uint64_t rows = (uint64_t)(x->dims[0] * x->dims[1] * x->dims[2]);
    *cost = (syn_cost){3 * 2 * rows * (uint64_t)c->in[2].spec.dims[0], syn__input_bytes(c),
                       syn__output_bytes(c)};
}

/* Each worker has a buffer for cosines, sines, one head and its interleaved pairs. */
struct rope {
    const syn_call *c;
    int64_t first;
    bool interleaved;
    float *buffers;
    int64_t buffer_floats;
};

/* The same as the kernel `rotate`, but elements 2i and 2i + 1 of x form a pair. pairs: space for 2
   half floats. */
static void rotate_interleaved(const float *x, const float *cosines, const float *sines, float *y,
                               int64_t half, float *pairs) {
    for (int64_t i = 0; i < half; i++) {
        pairs[i] = x[2 * i];
        pairs[half + i] = x[2 * i + 1];
    }
    syn__row_kernels()->rotate(pairs, cosines, sines, pairs, half);
    for (int64_t i = 0; i < half; i++) {
        y[2 * i] = pairs[i];
        y[2 * i + 1] = pairs[half + i];
    }
}

/* Rotates all heads of tokens begin .. end - 1, counted over all sequences. */
static void rotate_tokens(void *arg, int64_t begin, int64_t end, int worker) {
    const struct rope *s = arg;
    const syn_operand *x = &s->c->in[0], *at = &s->c->in[1], *y = &s->c->out[0];
    const int64_t *n = x->spec.dims, half = s->c->in[2].spec.dims[0], first = s->first,
                  after = first + 2 * half;
    const float factor = (float)s->c->attr[0].f;
    const syn_row_kernels *k = syn__row_kernels();
    float *cosines = s->buffers + worker * s->buffer_floats, *sines = cosines + half,
          *buffer = sines + half, *pairs = buffer + n[3];
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / n[2], t = i % n[2];
        const int64_t place = (at->spec.dims[0] > 1 ? b * at->strides[0] : 0) + t * at->strides[1];
        k->angles(s->c->in[2].data, (float)((const int32_t *)at->data)[place], factor,
                  s->c->attr[1].i ? -factor : factor, cosines, sines, half);
        for (int64_t h = 0; h < n[1]; h++) {
            const int64_t from = b * x->strides[0] + h * x->strides[1] + t * x->strides[2];
            const int64_t to = ((b * n[1] + h) * n[2] + t) * n[3];
            const float *in = syn__load_row(x, from, n[3], buffer);
            float *out = syn__row_dest(y, to, buffer);
            if (s->interleaved)
                rotate_interleaved(in + first, cosines, sines, out + first, half, pairs);
            else k->rotate(in + first, cosines, sines, out + first, half);
            if (in != out) {
                memcpy(out, in, (size_t)first * sizeof *out);
                memcpy(out + after, in + after, (size_t)(n[3] - after) * sizeof *out);
            }
            syn__store_row(y, to, n[3], buffer);
        }
    }
}

SYN__CPU(rope) {
    const int64_t *n = c->in[0].spec.dims, tokens = n[0] * n[2], each = n[1] * n[3];
    const bool more = c->n_attr > 2;
    struct rope s = {.c = c,
                     .first = more ? c->attr[2].i : 0,
                     .interleaved = more && c->attr[3].i,
                     .buffer_floats = syn__padded_floats(4 * c->in[2].spec.dims[0] + n[3])};
    if (tokens * each == 0) return SYN_OK;
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    syn_workers_ranges(c->workers, tokens, SYN__GRAIN_MOVE / each + 1, rotate_tokens, &s);
    return SYN_OK;
}

/* attr: factor, back, first, interleaved */
static syn_tensor rotate(syn_ctx *ctx, const syn_tensor x[3], const syn_attr attr[4]) {
    syn_tensor out;
    const syn_tensor in[3] = {syn__dense_last_dim(ctx, x[0]), syn__dense_last_dim(ctx, x[1]),
                              syn__dense_last_dim(ctx, x[2])};
    syn__call_op(ctx, SYN_OP_ROPE, in, 3, attr, attr[2].i || attr[3].i ? 4 : 2, NULL, &out);
    return out;
}

syn_tensor syn_rope(syn_ctx *ctx, syn_tensor x, syn_tensor positions, syn_tensor frequencies,
                    double factor) {
    return syn_rope_at(ctx, x, positions, frequencies, factor, 0, false);
}

syn_tensor syn_rope_at(syn_ctx *ctx, syn_tensor x, syn_tensor positions, syn_tensor frequencies,
                       double factor, int64_t first, bool interleaved) {
    const syn_attr attr[4] = {{.f = factor}, {.i = false}, {.i = first}, {.i = interleaved}};
    return rotate(ctx, (const syn_tensor[]){x, positions, frequencies}, attr);
}

/* The gradient is the inverse rotation. */
SYN__GRAD(rope) {
    const syn_tensor in[3] = {syn_grad_out(g, 0), g->in[1], g->in[2]};
    syn_attr attr[4] = {g->attr[0], {.i = g->attr[1].i == 0}};
    if (g->n_attr > 2) attr[2] = g->attr[2], attr[3] = g->attr[3];
    g->din[0] = rotate(g->ctx, in, attr);
}
