/* embedding, layernorm. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- embedding ---- */

SYN__INFER(embedding) {
    SYN_TRY(syn__want_float(c, 0));
    SYN_TRY(syn__want_dtype(c, 1, SYN_I32));
    if (c->in[0].spec.rank != 2) return syn__bad_input(c, 0, "a table (V, C)");
    if (c->in[1].spec.rank >= SYN_MAX_RANK) return syn__bad_input(c, 1, "ids of fewer dimensions");
    c->out[0].spec = c->in[1].spec;
    c->out[0].spec.dtype = c->in[0].spec.dtype;
    c->out[0].spec.dims[c->out[0].spec.rank++] = c->in[0].spec.dims[1];
    return SYN_OK;
}

/* Only the rows looked up are read. */
SYN__COST(embedding) {
    const uint64_t rows = syn__elems(&c->out[0]) * syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
    *cost = (syn_cost){0, rows + syn_spec_bytes(&c->in[1].spec), syn__output_bytes(c)};
}

/* Ids begin.. end in row-major order. */
static void embed_some(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *table = &c->in[0], *ids = &c->in[1];
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)table->spec.dtype);
    const int64_t width = table->spec.dims[1] * elem, step = table->strides[0] * elem;
    const int64_t inner = ids->spec.rank ? ids->spec.dims[ids->spec.rank - 1] : 1;
    const uint64_t first = (uint64_t)c->attr[0].i, rows = (uint64_t)table->spec.dims[0];
    char *out = (char *)c->out[0].data + begin * width;
    syn_rows r;
    (void)worker;
    syn__seek_row(&r, &ids->spec, &ids, 1, begin / inner);
    for (int64_t at = begin, i = begin % inner; at < end; at++, out += width) {
        /* wraps past all rows when below the first */
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
    const syn_tensor in[2] = {syn__dense_rows(ctx, table), syn__dense_rows(ctx, ids)};
    const syn_attr attr[2] = {{.i = first_row}, {.i = padding}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING, in, 2, attr, padding < 0 ? 1 : 2, NULL, &out);
    return out;
}

/* Ids that stand for no row of the table get nothing, nor does padding. */
SYN__GRAD(embedding) {
    const int64_t first = g->attr[0].i, padding = g->n_attr > 1 ? g->attr[1].i : -1;
    const int64_t rows = syn_tensor_dim(g->ctx, g->in[0], 0);
    const syn_tensor dy = syn_grad_out(g, 0), sum = g->sum[0];
    const bool add = sum.id && syn_tensor_spec(g->ctx, sum)->dtype == SYN_F32;
    g->din[0] = add ? syn_embedding_grad_add(g->ctx, sum, g->in[1], dy, first, padding)
                    : syn_embedding_grad(g->ctx, g->in[1], dy, first, rows, padding);
}

/* dy (..., C) for ids (...) */
static syn_status check_looked_up(const syn_call *c, int ids) {
    const syn_spec *i = &c->in[ids].spec, *dy = &c->in[ids + 1].spec;
    SYN_TRY(syn__want_dtype(c, ids, SYN_I32));
    SYN_TRY(syn__want_float(c, ids + 1));
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
    const uint64_t sums = syn__elems(&c->in[dy]) * sizeof(float);
    *cost = (syn_cost){syn__elems(&c->in[dy]),
                       rows + syn_spec_bytes(&c->in[dy - 1].spec) + (sum ? sums : 0),
                       sum ? sums : syn__output_bytes(c)};
}

struct scatter {
    const syn_operand *ids, *dy, *table;
    int64_t first, width, padding;
};

/* to += n elements of x from `at` on. */
static void add_widened(const syn_operand *x, int64_t at, float *to, int64_t n) {
    const int64_t piece = syn__is_f32(x) ? n : SYN__PIECE;
    float room[SYN__PIECE];
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < piece ? n - i : piece;
        syn__row_kernels()->add(to + i, syn__row_in(x, at + i, some, room), to + i, some);
    }
}

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
            float *to = (float *)s->table->data + row * s->table->strides[0] + begin;
            add_widened(s->dy, r.at[1] + i * step + begin, to, end - begin);
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
    SYN_TRY(syn__want_floats(c, 3));
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

/* Of each worker room for three rows; `room` 0: all are f32. */
struct norm {
    const syn_call *c;
    float *rooms;
    int64_t room, width;
};

static struct norm norm_of(const syn_call *c) {
    const int64_t width = c->in[1].spec.dims[0];
    const int64_t room = syn__is_f32(&c->in[0]) ? 0 : syn__room(3 * width);
    return (struct norm){.c = c, .room = room, .width = width};
}

/* Row i of a worker's room. */
static float *norm_room(const struct norm *s, int worker, int i) {
    return s->rooms ? s->rooms + worker * s->room + i * s->width : NULL;
}

static void norm_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct norm *s = arg;
    const syn_operand *x = &s->c->in[0], *y = &s->c->out[0];
    const int64_t n = s->width;
    const float *weight = syn__row_in(&s->c->in[1], 0, n, norm_room(s, worker, 0)),
                *bias = syn__row_in(&s->c->in[2], 0, n, norm_room(s, worker, 1));
    float *room = norm_room(s, worker, 2);
    syn_rows r;
    syn__seek_row(&r, &x->spec, &x, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        syn__row_kernels()->layernorm(syn__row_in(x, r.at[0], n, room), weight, bias,
                                      s->c->attr[0].f, syn__row_out(y, row * n, room), n);
        syn__row_done(y, row * n, n, room);
        syn__next_row(&r, &x->spec, &x, 1);
    }
}

SYN__CPU(layernorm) {
    struct norm s = norm_of(c);
    SYN_TRY(syn__rooms(c, s.room, &s.rooms));
    const int64_t rows = syn_spec_elems(&c->in[0].spec) / s.width;
    if (rows > 0)
        syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / s.width + 1, norm_rows, &s);
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

/* x (..., C), weight (C), dy (..., C) -> dx (..., C), dweight (C), dbias (C); the sums are f32 */
SYN__INFER(layernorm_grad) {
    SYN_TRY(syn__want_floats(c, 3));
    const syn_spec *x = &c->in[0].spec, *weight = &c->in[1].spec;
    if (x->rank < 1 || x->dims[x->rank - 1] < 1) return syn__bad_input(c, 0, "(..., C) with C > 0");
    if (weight->rank != 1 || weight->dims[0] != x->dims[x->rank - 1])
        return syn__bad_input(c, 1, "(C) like the last dimension of input 0");
    if (!syn_spec_equal(x, &c->in[2].spec)) return syn__bad_input(c, 2, "like input 0");
    c->out[0].spec = *x;
    c->out[1].spec = c->out[2].spec = *weight;
    c->out[1].spec.dtype = c->out[2].spec.dtype = SYN_F32;
    return SYN_OK;
}

/* Per element twice what the forward op counts. */
SYN__COST(layernorm_grad) {
    *cost = (syn_cost){16 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Rows go in as many pieces for any number of threads, each with sums of its own. */
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
    float *dweight = s->sums + i * 2 * n, *dbias = dweight + n;
    const float *weight = syn__row_in(&c->in[1], 0, n, norm_room(&s->norm, worker, 0));
    float *x_room = norm_room(&s->norm, worker, 1), *dy_room = norm_room(&s->norm, worker, 2);
    syn_rows r;
    memset(dweight, 0, 2 * (size_t)n * sizeof *dweight);
    syn__seek_row(&r, &x->spec, operands, 2, i * s->piece);
    for (int64_t row = i * s->piece; row < end; row++) {
        syn__row_kernels()->layernorm_grad(syn__row_in(x, r.at[0], n, x_room), weight,
                                           syn__row_in(dy, r.at[1], n, dy_room), c->attr[0].f,
                                           syn__row_out(dx, row * n, dy_room), dweight, dbias, n);
        syn__row_done(dx, row * n, n, dy_room);
        syn__next_row(&r, &x->spec, operands, 2);
    }
}

SYN__CPU(layernorm_grad) {
    enum { PIECES = 32 };
    struct norm_grad s = {.norm = norm_of(c)};
    const int64_t n = s.norm.width, rooms = syn_workers_count(c->workers) * s.norm.room;
    s.rows = syn_spec_elems(&c->in[0].spec) / n;
    s.piece = s.rows / PIECES + 1;
    const int64_t pieces = (s.rows + s.piece - 1) / s.piece;
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)(rooms + pieces * 2 * n) * sizeof *s.sums,
                         "sums of a layernorm's gradients", &scratch));
    s.norm.rooms = rooms ? scratch : NULL;
    s.sums = (float *)scratch + rooms;
    syn_workers_run(c->workers, pieces, norm_grad_piece, &s);
    for (int k = 0; k < 2; k++) {
        float *out = c->out[1 + k].data;
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t i = 0; i < pieces; i++)
            syn__row_kernels()->add(out, s.sums + (2 * i + k) * n, out, n);
    }
    return SYN_OK;
}
