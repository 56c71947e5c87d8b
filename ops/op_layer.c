/* embedding, layernorm. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/half.h"
#include "syntorch/memory.h"

/* ---- embedding ---- */

SYN__INFER(embedding) {
    SYN_TRY(syn__want_float(c, 0));
    SYN_TRY(syn__want_dtype(c, 1, SYN_I32));
    if (c->in[0].spec.rank != 2) return syn__bad_input(c, 0, "a table (V, C)");
    if (c->in[1].spec.rank >= SYN_MAX_RANK) return syn__bad_input(c, 1, "ids of fewer dimensions");
    c->out[0].spec = c->in[1].spec;
    c->out[0].spec.dtype = SYN_F32;
    c->out[0].spec.dims[c->out[0].spec.rank++] = c->in[0].spec.dims[1];
    return SYN_OK;
}

/* Only the rows looked up are read. */
SYN__COST(embedding) {
    const uint64_t rows = syn__elems(&c->out[0]) * syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
    *cost = (syn_cost){0, rows + syn_spec_bytes(&c->in[1].spec), syn__output_bytes(c)};
}

/* Row `row` of a table, as f32. */
static void look_up(const syn_operand *table, int64_t row, float *out, size_t width) {
    const int64_t at = row * table->strides[0];
    const syn_dtype dtype = (syn_dtype)table->spec.dtype;
    if (dtype == SYN_F32) memcpy(out, (const float *)table->data + at, width * sizeof *out);
    else syn_half_widen((const uint16_t *)table->data + at, out, width, dtype);
}

/* Ids begin.. end in row-major order. */
static void embed_some(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *table = &c->in[0], *ids = &c->in[1];
    const int64_t width = table->spec.dims[1];
    const int64_t inner = ids->spec.rank ? ids->spec.dims[ids->spec.rank - 1] : 1;
    const uint64_t first = (uint64_t)c->attr[0].i, rows = (uint64_t)table->spec.dims[0];
    float *out = (float *)c->out[0].data + begin * width;
    syn_rows r;
    (void)worker;
    syn__seek_row(&r, &ids->spec, &ids, 1, begin / inner);
    for (int64_t at = begin, i = begin % inner; at < end; at++, out += width) {
        /* wraps past all rows when below the first */
        const uint64_t row = (uint64_t)((const int32_t *)ids->data)[r.at[0] + i] - first;
        if (row < rows) look_up(table, (int64_t)row, out, (size_t)width);
        else memset(out, 0, (size_t)width * sizeof *out);
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
    const syn_tensor in[2] = {syn__dense_rows(ctx, table), syn__dense_rows(ctx, ids)};
    const syn_attr attr[2] = {{.i = first_row}, {.i = padding}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING, in, 2, attr, padding < 0 ? 1 : 2, NULL, &out);
    return out;
}

/* Ids that stand for no row of the table get nothing, nor does padding. */
SYN__GRAD(embedding) {
    const int64_t first = g->attr[0].i, padding = g->n_attr > 1 ? g->attr[1].i : -1;
    const int64_t rows = syn_tensor_dim(g->ctx, g->in[0], 0);
    const syn_tensor dy = syn_grad_out(g, 0);
    g->din[0] = g->sum[0].id
                    ? syn_embedding_grad_add(g->ctx, g->sum[0], g->in[1], dy, first, padding)
                    : syn_embedding_grad(g->ctx, g->in[1], dy, first, rows, padding);
}

/* dy (..., C) for ids (...) */
static syn_status check_looked_up(const syn_call *c, int ids) {
    const syn_spec *i = &c->in[ids].spec, *dy = &c->in[ids + 1].spec;
    SYN_TRY(syn__want_dtype(c, ids, SYN_I32));
    SYN_TRY(syn__want_dtype(c, ids + 1, SYN_F32));
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
    SYN_TRY(syn__want_dtype(c, 0, SYN_F32));
    SYN_TRY(check_looked_up(c, 1));
    const syn_spec *sum = &c->in[0].spec, *dy = &c->in[2].spec;
    if (sum->rank != 2 || sum->dims[1] != dy->dims[dy->rank - 1])
        return syn__bad_input(c, 0, "a table (V, C)");
    c->out[0].spec = *sum;
    return SYN_OK;
}

/* An addition for each element looked up; rows that are not are set to zero, or left. */
SYN__COST(embedding_grad) {
    const int dy = c->n_in - 1;
    const uint64_t rows = syn_spec_bytes(&c->in[dy].spec);
    const bool sum = c->n_in == 3;
    *cost = (syn_cost){syn__elems(&c->in[dy]),
                       rows + syn_spec_bytes(&c->in[dy - 1].spec) + (sum ? rows : 0),
                       sum ? rows : syn__output_bytes(c)};
}

struct scatter {
    const syn_operand *ids, *dy, *table;
    int64_t first, width, padding;
};

/* Columns begin .. end of all rows, in the order of the ids: the same sum for any threads. */
static void scatter_columns(void *arg, int64_t begin, int64_t end, int worker) {
    const struct scatter *s = arg;
    const syn_operand *operands[2] = {s->ids, s->dy};
    const syn_spec *shape = &s->ids->spec;
    const int64_t inner = shape->rank ? shape->dims[shape->rank - 1] : 1;
    const int64_t step = s->dy->spec.rank > 1 ? s->dy->strides[s->dy->spec.rank - 2] : 0;
    syn_rows r = {.started = false};
    (void)worker;
    while (syn__next_row(&r, shape, operands, 2))
        for (int64_t i = 0; i < inner; i++) {
            const int64_t id = ((const int32_t *)s->ids->data)[r.at[0] + i], row = id - s->first;
            if (row < 0 || row >= s->table->spec.dims[0] || id == s->padding) continue;
            const float *from = (const float *)s->dy->data + r.at[1] + i * step + begin;
            float *to = (float *)s->table->data + row * s->table->strides[0] + begin;
            syn__row_kernels()->add(to, from, to, end - begin);
        }
}

/* `others`: attributes before the padding, which may be missing. */
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
    const syn_tensor in[2] = {syn__dense_rows(ctx, ids), syn__dense_rows(ctx, dy)};
    const syn_attr attr[3] = {{.i = first_row}, {.i = rows}, {.i = padding}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING_GRAD, in, 2, attr, padding < 0 ? 2 : 3, NULL, &out);
    return out;
}

syn_tensor syn_embedding_grad_add(syn_ctx *ctx, syn_tensor sum, syn_tensor ids, syn_tensor dy,
                                  int64_t first_row, int64_t padding) {
    syn_tensor out;
    const syn_tensor in[3] = {sum, syn__dense_rows(ctx, ids), syn__dense_rows(ctx, dy)};
    const syn_attr attr[2] = {{.i = first_row}, {.i = padding}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING_GRAD_ADD, in, 3, attr, padding < 0 ? 1 : 2, NULL, &out);
    return out;
}

/* ---- layernorm ---- */

SYN__INFER(layernorm) {
    for (int i = 0; i < 3; i++) SYN_TRY(syn__want_dtype(c, i, SYN_F32));
    const syn_spec *x = &c->in[0].spec;
    if (x->rank < 1 || x->dims[x->rank - 1] < 1) return syn__bad_input(c, 0, "(..., C) with C > 0");
    for (int i = 1; i < 3; i++)
        if (c->in[i].spec.rank != 1 || c->in[i].spec.dims[0] != x->dims[x->rank - 1])
            return syn__bad_input(c, i, "(C) like the last dimension of input 0");
    c->out[0].spec = *x;
    return SYN_OK;
}

SYN__COST(layernorm) {
    *cost = (syn_cost){8 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void layernorm_row(const syn_call *c, const float *in, float *out, int64_t n,
                          int64_t first) {
    (void)first;
    syn__row_kernels()->layernorm(in, c->in[1].data, c->in[2].data, c->attr[0].f, out, n);
}

SYN__CPU(layernorm) {
    syn__each_row(c, layernorm_row, SYN__GRAIN_MATH, false);
    return SYN_OK;
}

syn_tensor syn_layernorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, syn_tensor bias,
                         double eps) {
    syn_tensor out;
    const syn_tensor in[3] = {syn__dense_rows(ctx, x), syn__dense_rows(ctx, weight),
                              syn__dense_rows(ctx, bias)};
    const syn_attr attr[1] = {{.f = eps}};
    syn__dispatch(ctx, SYN_OP_LAYERNORM, in, 3, attr, 1, NULL, &out);
    return out;
}

/* The parameters' gradients come along with the input's. */
SYN__GRAD(layernorm) {
    const syn_tensor in[3] = {g->in[0], g->in[1], syn__dense_rows(g->ctx, syn_grad_out(g, 0))};
    syn_tensor out[3];
    syn__dispatch(g->ctx, SYN_OP_LAYERNORM_GRAD, in, 3, g->attr, 1, NULL, out);
    for (int i = 0; i < 3; i++) g->din[i] = out[i];
}

/* x (..., C), weight (C), dy (..., C) -> dx (..., C), dweight (C), dbias (C) */
SYN__INFER(layernorm_grad) {
    for (int i = 0; i < 3; i++) SYN_TRY(syn__want_dtype(c, i, SYN_F32));
    const syn_spec *x = &c->in[0].spec, *weight = &c->in[1].spec;
    if (x->rank < 1 || x->dims[x->rank - 1] < 1) return syn__bad_input(c, 0, "(..., C) with C > 0");
    if (weight->rank != 1 || weight->dims[0] != x->dims[x->rank - 1])
        return syn__bad_input(c, 1, "(C) like the last dimension of input 0");
    if (!syn_spec_equal(x, &c->in[2].spec)) return syn__bad_input(c, 2, "like input 0");
    c->out[0].spec = *x;
    c->out[1].spec = c->out[2].spec = *weight;
    return SYN_OK;
}

/* Per element twice what the forward op counts. */
SYN__COST(layernorm_grad) {
    *cost = (syn_cost){16 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Rows go in as many pieces for any number of threads, each with sums of its own. */
struct norm_grad {
    const syn_call *c;
    float *sums; /* (pieces, 2, C) */
    int64_t rows, width, piece;
};

static void norm_grad_piece(void *arg, int64_t i, int worker) {
    const struct norm_grad *s = arg;
    const syn_call *c = s->c;
    const syn_operand *operands[2] = {&c->in[0], &c->in[2]};
    const int64_t end = (i + 1) * s->piece < s->rows ? (i + 1) * s->piece : s->rows;
    float *dweight = s->sums + i * 2 * s->width, *dbias = dweight + s->width;
    syn_rows r;
    (void)worker;
    memset(dweight, 0, 2 * (size_t)s->width * sizeof *dweight);
    syn__seek_row(&r, &c->in[0].spec, operands, 2, i * s->piece);
    for (int64_t row = i * s->piece; row < end; row++) {
        syn__row_kernels()->layernorm_grad((const float *)c->in[0].data + r.at[0], c->in[1].data,
                                           (const float *)c->in[2].data + r.at[1], c->attr[0].f,
                                           (float *)c->out[0].data + row * s->width, dweight, dbias,
                                           s->width);
        syn__next_row(&r, &c->in[0].spec, operands, 2);
    }
}

SYN__CPU(layernorm_grad) {
    enum { PIECES = 32 };
    struct norm_grad s = {.c = c, .width = c->in[1].spec.dims[0]};
    s.rows = syn_spec_elems(&c->in[0].spec) / s.width;
    s.piece = s.rows / PIECES + 1;
    const int64_t pieces = (s.rows + s.piece - 1) / s.piece;
    const size_t bytes = (size_t)(pieces * 2 * s.width) * sizeof *s.sums;
    if (!(s.sums = syn_malloc(bytes + 1)))
        return SYN_FAIL_NOMEM(c->err, bytes, "sums of a layernorm's gradients");
    syn_workers_run(c->workers, pieces, norm_grad_piece, &s);
    for (int k = 0; k < 2; k++) {
        float *out = c->out[1 + k].data;
        memset(out, 0, (size_t)s.width * sizeof *out);
        for (int64_t i = 0; i < pieces; i++)
            syn__row_kernels()->add(out, s.sums + (2 * i + k) * s.width, out, s.width);
    }
    syn_free(s.sums);
    return SYN_OK;
}
