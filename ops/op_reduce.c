/* Sums: sum_to, which undoes broadcasting, and accumulate, which adds gradients in place. Also
   expand, the view that broadcasts. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* Whether `small` broadcasts to `large` as in NumPy: dimensions are aligned at the end. */
static bool broadcasts(const syn_spec *small, const syn_spec *large) {
    const int lead = large->rank - small->rank;
    for (int d = 0; lead >= 0 && d < small->rank; d++)
        if (small->dims[d] != 1 && small->dims[d] != large->dims[d + lead]) return false;
    return lead >= 0;
}

static syn_spec spec_of(const syn_call *c) {
    syn_spec spec = {c->in[0].spec.dtype, (int32_t)c->attr[0].i, {0}};
    for (int d = 0; d < spec.rank; d++) spec.dims[d] = c->attr[1 + d].i;
    return spec;
}

static syn_tensor with_shape(syn_ctx *ctx, syn_op op, syn_tensor x, const int64_t *dims, int rank) {
    syn_attr attr[1 + SYN_MAX_RANK] = {{.i = rank}};
    syn_tensor out;
    if (rank < 0 || rank > SYN_MAX_RANK)
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "%s got %d dimensions but accepts at most %d",
                            syn_op_table[op].name, rank, SYN_MAX_RANK);
    for (int d = 0; d < rank; d++) attr[1 + d].i = dims[d];
    syn__call_op(ctx, op, &x, 1, attr, 1 + SYN_MAX_RANK, NULL, &out);
    return out;
}

static bool has_shape(const syn_spec *spec, const int64_t *dims, int rank) {
    return spec->rank == rank &&
           (rank == 0 || memcmp(spec->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

/* ---- expand ---- */

SYN__INFER(expand) {
    syn_operand *o = &c->out[0];
    const syn_operand *x = &c->in[0];
    o->spec = spec_of(c);
    if (!syn_spec_valid(&o->spec) || !broadcasts(&x->spec, &o->spec)) {
        char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
        return SYN_FAIL(c->err, SYN_E_SHAPE, "%s does not broadcast to %s",
                        syn_spec_text(&x->spec, a, sizeof a), syn_spec_text(&o->spec, b, sizeof b));
    }
    const int lead = o->spec.rank - x->spec.rank;
    memset(o->strides, 0, sizeof o->strides);
    for (int d = lead; d < o->spec.rank; d++)
        if (x->spec.dims[d - lead] != 1) o->strides[d] = x->strides[d - lead];
    o->offset = x->offset;
    return SYN_OK;
}

SYN__GRAD(expand) {
    const syn_spec from = *syn_tensor_spec(g->ctx, g->in[0]);
    g->din[0] = syn_sum_to(g->ctx, syn_grad_out(g, 0), from.dims, from.rank);
}

syn_tensor syn_expand(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank) {
    if (syn_ctx_status(ctx) != SYN_OK || has_shape(syn_tensor_spec(ctx, x), dims, rank)) return x;
    return with_shape(ctx, SYN_OP_EXPAND, x, dims, rank);
}

/* ---- sum_to ---- */

/* The result is f32 for every input dtype. */
SYN__INFER(sum_to) {
    SYN_TRY(syn__check_float(c, 0));
    c->out[0].spec = spec_of(c);
    c->out[0].spec.dtype = SYN_F32;
    if (syn_spec_valid(&c->out[0].spec) && broadcasts(&c->out[0].spec, &c->in[0].spec))
        return SYN_OK;
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    return SYN_FAIL(c->err, SYN_E_SHAPE, "%s cannot be summed to %s",
                    syn_spec_text(&c->in[0].spec, a, sizeof a),
                    syn_spec_text(&c->out[0].spec, b, sizeof b));
}

SYN__COST(sum_to) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__GRAD(sum_to) {
    const syn_spec from = *syn_tensor_spec(g->ctx, g->in[0]);
    syn_tensor dy = syn_grad_out(g, 0);
    g->din[0] = syn_expand(g->ctx, dy, from.dims, from.rank);
}

/* Sums blocks of BLOCK rows first and then the block sums, so that sums of many rows keep their
   precision. `to` is the output broadcast to the input's shape. */
struct sums {
    const syn_operand *from;
    syn_operand to;
};

enum { BLOCK = 64, PIECE = 2048 };

/* For sums that keep the last dimension: sums columns begin .. end - 1 over all rows. */
static void sum_columns(void *arg, int64_t begin, int64_t end, int worker) {
    const struct sums *s = arg;
    const syn_operand *operands[2] = {s->from, &s->to};
    const int last = s->from->spec.rank - 1;
    const int64_t step = s->from->strides[last];
    (void)worker;
    for (int64_t at = begin, n; at < end; at += n) {
        float sum[PIECE], buffer[PIECE];
        int64_t rows = 0, place = 0;
        syn_row_iter r = {.started = false};
        n = end - at < PIECE ? end - at : PIECE;
        while (syn__next_row(&r, &s->from->spec, operands, 2)) {
            const float *x = syn__load_strided(s->from, r.at[0] + at * step, step, n, buffer);
            if (rows > 0 && (rows == BLOCK || r.at[1] != place)) {
                float *out = (float *)s->to.data + place + at;
                syn__row_kernels()->add(out, sum, out, n);
                rows = 0;
            }
            place = r.at[1];
            if (rows++ == 0) memcpy(sum, x, (size_t)n * sizeof *x);
            else syn__row_kernels()->add(sum, x, sum, n);
        }
        float *out = (float *)s->to.data + place + at;
        if (rows > 0) syn__row_kernels()->add(out, sum, out, n);
    }
}

/* For sums over the last dimension and possibly other dimensions. */
static void sum_rows(const struct sums *s) {
    const syn_operand *operands[2] = {s->from, &s->to};
    const int last = s->from->spec.rank - 1;
    const int64_t n = last < 0 ? 1 : s->from->spec.dims[last];
    const int64_t step = last < 0 ? 1 : s->from->strides[last];
    double sum = 0; /* the sum of consecutive rows that are added to the same element */
    int64_t place = 0;
    syn_row_iter r = {.started = false};
    while (syn__next_row(&r, &s->from->spec, operands, 2)) {
        if (r.at[1] != place) {
            ((float *)s->to.data)[place] += (float)sum;
            sum = 0;
        }
        place = r.at[1];
        for (int64_t at = 0, some; at < n; at += some) {
            float buffer[PIECE];
            some = n - at < PIECE ? n - at : PIECE;
            const float *x = syn__load_strided(s->from, r.at[0] + at * step, step, some, buffer);
            for (int64_t i = 0; i < some; i++) sum += (double)x[i];
        }
    }
    ((float *)s->to.data)[place] += (float)sum;
}

SYN__CPU(sum_to) {
    struct sums s = {&c->in[0], syn__broadcast_operand(&c->out[0], &c->in[0].spec)};
    const int last = c->in[0].spec.rank - 1;
    syn__fill_zero(c, &c->out[0]);
    if (syn_spec_elems(&c->in[0].spec) == 0) return SYN_OK;
    if (last < 0 || s.to.strides[last] == 0) sum_rows(&s);
    else syn_workers_ranges(c->workers, c->in[0].spec.dims[last], 384, sum_columns, &s);
    return SYN_OK;
}

syn_tensor syn_sum_to(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank) {
    if (syn_ctx_status(ctx) != SYN_OK || has_shape(syn_tensor_spec(ctx, x), dims, rank)) return x;
    return with_shape(ctx, SYN_OP_SUM_TO, x, dims, rank);
}

/* ---- accumulate ---- */

syn_status syn__check_sum(const syn_call *c) {
    SYN_TRY(syn__check_float(c, 1));
    return c->in[0].spec.dtype == SYN_F32 ? SYN_OK
                                          : syn__check_dtype(c, 0, (syn_dtype)c->in[1].spec.dtype);
}

SYN__INFER(accumulate) {
    SYN_TRY(syn__check_sum(c));
    const syn_spec *sum = &c->in[0].spec, *x = &c->in[1].spec;
    if (sum->rank != x->rank || memcmp(sum->dims, x->dims, sizeof x->dims) != 0)
        return syn__bad_input(c, 1, "like input 0");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

struct addition {
    const syn_operand *to, *from;
};

/* Adds `elems` elements at the given offsets and strides, PIECE at a time, through f32 buffers. */
static void add_pieces(const struct addition *a, int64_t to, int64_t to_step, int64_t from,
                       int64_t step, int64_t elems) {
    float sum[PIECE], buffer[PIECE];
    for (int64_t i = 0, n; i < elems; i += n, to += n * to_step, from += n * step) {
        n = elems - i < PIECE ? elems - i : PIECE;
        syn__row_kernels()->add(syn__load_strided(a->to, to, to_step, n, sum),
                                syn__load_strided(a->from, from, step, n, buffer), sum, n);
        syn__store_strided(a->to, to, to_step, n, sum);
    }
}

static void add_some(void *arg, int64_t begin, int64_t end, int worker) {
    const struct addition *a = arg;
    const syn_operand *operands[2] = {a->to, a->from};
    const syn_spec *shape = &a->to->spec;
    const int last = shape->rank - 1;
    const int64_t n = last < 0 ? 1 : shape->dims[last];
    const int64_t to_step = last < 0 ? 1 : a->to->strides[last],
                  step = last < 0 ? 1 : a->from->strides[last];
    const bool whole = to_step == 1 && step == 1 && syn__is_f32(a->to) && syn__is_f32(a->from);
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, shape, operands, 2, begin);
    for (int64_t row = begin; row < end; row++, syn__next_row(&r, shape, operands, 2)) {
        float *to = (float *)a->to->data + r.at[0];
        if (whole) syn__row_kernels()->add(to, (const float *)a->from->data + r.at[1], to, n);
        else add_pieces(a, r.at[0], to_step, r.at[1], step, n);
    }
}

static void add_elements(void *arg, int64_t begin, int64_t end, int worker) {
    const struct addition *a = arg;
    float *to = (float *)a->to->data + begin;
    (void)worker;
    if (!syn__is_f32(a->to) || !syn__is_f32(a->from))
        add_pieces(a, begin, 1, begin, 1, end - begin);
    else syn__row_kernels()->add(to, (const float *)a->from->data + begin, to, end - begin);
}

void syn__add_rows(const syn_call *c, const syn_operand *to, const syn_operand *from) {
    struct addition a = {to, from};
    const syn_spec *shape = &to->spec;
    const int64_t elems = syn_spec_elems(shape), n = shape->rank ? shape->dims[shape->rank - 1] : 1;
    if (elems == 0) return;
    if (syn__is_dense(to) && syn__is_dense(from))
        syn_workers_ranges(c->workers, elems, SYN__GRAIN_MOVE, add_elements, &a);
    else syn_workers_ranges(c->workers, elems / n, SYN__GRAIN_MOVE / n + 1, add_some, &a);
}

SYN__CPU(accumulate) {
    syn__add_rows(c, &c->out[0], &c->in[1]);
    return SYN_OK;
}
