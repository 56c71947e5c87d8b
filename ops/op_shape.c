/* Views (reshape, permute, slice), ops that copy (contiguous, concat, the gradient of slice), and
   the dtype conversion cast. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/base/memory.h"

SYN__COST(zero) {
    (void)c;
    *cost = (syn_cost){0, 0, 0};
}

SYN__COST(copy) {
    *cost = (syn_cost){0, syn__input_bytes(c), syn__output_bytes(c)};
}

/* ---- reshape ---- */

/* Goes through both shapes from the last dimension on, ignoring old dimensions of 1. Consecutive
   old dimensions without gaps in memory form a run, which can be split in any way. Where a run
   ends, a new dimension must end, too. */
bool syn__view_strides(const syn_operand *o, const syn_spec *to, int64_t *strides) {
    int64_t dims[SYN_MAX_RANK], steps[SYN_MAX_RANK];
    int n = 0, t = to->rank - 1;
    const bool empty = syn_spec_elems(to) == 0;
    for (int d = 0; d < o->spec.rank && !empty; d++) {
        if (o->spec.dims[d] == 1) continue;
        dims[n] = o->spec.dims[d];
        steps[n++] = o->strides[d];
    }
    int64_t stride = 1; /* stride of the run's last dimension; new dimensions of 1 may have any
                           stride */
    for (int d = n - 1; d >= 0;) {
        stride = steps[d];
        int64_t run = dims[d];
        while (d > 0 && steps[d - 1] == dims[d] * steps[d]) run *= dims[--d];
        d--;
        int64_t cut = 1;
        for (; t >= 0 && (cut < run || to->dims[t] == 1); t--) {
            strides[t] = cut * stride;
            cut *= to->dims[t];
        }
        if (cut != run) return false;
    }
    for (; t >= 0; t--) strides[t] = stride;
    return true;
}

SYN__INFER(reshape) {
    syn_spec *o = &c->out[0].spec;
    o->dtype = c->in[0].spec.dtype;
    o->rank = (int32_t)c->attr[0].i;
    for (int d = 0; d < o->rank; d++) o->dims[d] = c->attr[1 + d].i;
    if (!syn_spec_valid(o) || syn_spec_elems(o) != syn_spec_elems(&c->in[0].spec)) {
        char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
        return SYN_FAIL(c->err, SYN_E_SHAPE, "%s cannot become %s",
                        syn_spec_text(&c->in[0].spec, a, sizeof a), syn_spec_text(o, b, sizeof b));
    }
    memset(c->out[0].strides, 0, sizeof c->out[0].strides);
    c->out[0].offset = c->in[0].offset;
    if (!syn__view_strides(&c->in[0], o, c->out[0].strides))
        return SYN_FAIL(c->err, SYN_E_SHAPE, "the strides do not allow a view");
    return SYN_OK;
}

syn_tensor syn_reshape(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank) {
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    if (rank < 0 || rank > SYN_MAX_RANK)
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "reshape got %d dimensions but accepts at most %d",
                            rank, SYN_MAX_RANK);
    syn_operand o;
    syn__tensor_operand(ctx, x, &o);
    syn_spec to = {o.spec.dtype, rank, {0}};
    int64_t known = 1;
    int open = -1;
    for (int d = 0; d < rank; d++) {
        to.dims[d] = dims[d];
        if (dims[d] >= 0 ? !syn_mul_i64(known, dims[d], &known) : open >= 0 || dims[d] != -1)
            return syn_ctx_fail(ctx, SYN_E_SHAPE,
                                "reshape: the new shape has a negative or more than one open "
                                "dimension, or is too large");
        if (dims[d] < 0) open = d;
    }
    if (open >= 0) to.dims[open] = known > 0 ? syn_spec_elems(&o.spec) / known : 0;
    int64_t strides[SYN_MAX_RANK];
    if (syn_spec_valid(&to) && syn_spec_elems(&to) == syn_spec_elems(&o.spec) &&
        !syn__view_strides(&o, &to, strides))
        x = syn_contiguous(ctx, x);
    syn_attr attr[7] = {{.i = rank}};
    for (int d = 0; d < SYN_MAX_RANK; d++) attr[1 + d].i = to.dims[d];
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_RESHAPE, &x, 1, attr, 7, NULL, &out);
    return out;
}

SYN__GRAD(reshape) {
    const syn_spec from = *syn_tensor_spec(g->ctx, g->in[0]);
    g->din[0] = syn_reshape(g->ctx, syn_grad_out(g, 0), from.dims, from.rank);
}

/* ---- permute ---- */

SYN__INFER(permute) {
    const int rank = c->in[0].spec.rank;
    unsigned seen = 0;
    c->out[0].spec = c->in[0].spec;
    memset(c->out[0].strides, 0, sizeof c->out[0].strides);
    c->out[0].offset = c->in[0].offset;
    for (int d = 0; d < rank; d++) {
        const int64_t from = c->attr[1 + d].i;
        if (from < 0 || from >= rank || (seen >> from & 1))
            return SYN_FAIL(c->err, SYN_E_SHAPE, "the order is not a permutation of %d dimensions",
                            rank);
        seen |= 1u << from;
        c->out[0].spec.dims[d] = c->in[0].spec.dims[from];
        c->out[0].strides[d] = c->in[0].strides[from];
    }
    return SYN_OK;
}

syn_tensor syn_permute(syn_ctx *ctx, syn_tensor x, const int *order, int rank) {
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    if (rank != syn_tensor_spec(ctx, x)->rank)
        return syn_ctx_fail(ctx, SYN_E_SHAPE,
                            "permute got an order of %d dimensions for a tensor of %d", rank,
                            syn_tensor_spec(ctx, x)->rank);
    syn_attr attr[1 + SYN_MAX_RANK] = {{.i = rank}};
    for (int d = 0; d < rank; d++) attr[1 + d].i = order[d];
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_PERMUTE, &x, 1, attr, 1 + SYN_MAX_RANK, NULL, &out);
    return out;
}

SYN__GRAD(permute) {
    const int rank = (int)g->attr[0].i;
    int back[SYN_MAX_RANK];
    for (int d = 0; d < rank; d++) back[g->attr[1 + d].i] = d;
    g->din[0] = syn_permute(g->ctx, syn_grad_out(g, 0), back, rank);
}

/* ---- slice ---- */

static syn_status check_axis(const syn_call *c, int64_t axis) {
    if (axis >= 0 && axis < c->in[0].spec.rank) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_SHAPE, "dimension %lld does not exist: the tensor has %d",
                    (long long)axis, c->in[0].spec.rank);
}

SYN__INFER(slice) {
    const int64_t axis = c->attr[0].i, start = c->attr[1].i, length = c->attr[2].i;
    SYN_TRY(check_axis(c, axis));
    if (start < 0 || length < 0 || start > c->in[0].spec.dims[axis] - length)
        return SYN_FAIL(c->err, SYN_E_SHAPE,
                        "%lld elements from %lld on are outside dimension %lld of length %lld",
                        (long long)length, (long long)start, (long long)axis,
                        (long long)c->in[0].spec.dims[axis]);
    c->out[0] = c->in[0];
    c->out[0].spec.dims[axis] = length;
    c->out[0].offset += start * c->in[0].strides[axis];
    return SYN_OK;
}

syn_tensor syn_slice(syn_ctx *ctx, syn_tensor x, int axis, int64_t start, int64_t length) {
    if (axis < 0) axis += syn_tensor_spec(ctx, x)->rank;
    const syn_attr attr[3] = {{.i = axis}, {.i = start}, {.i = length}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_SLICE, &x, 1, attr, 3, NULL, &out);
    return out;
}

/* ---- gradient of slice: zeros around it, or added to a sum ---- */

SYN__GRAD(slice) {
    const syn_attr attr[3] = {
        g->attr[0], g->attr[1], {.i = syn_tensor_dim(g->ctx, g->in[0], (int)g->attr[0].i)}};
    const syn_tensor in[2] = {g->sum[0], syn_grad_out(g, 0)};
    if (g->sum[0].id) syn__call_op(g->ctx, SYN_OP_SLICE_ADD, in, 2, attr, 2, NULL, &g->din[0]);
    else syn__call_op(g->ctx, SYN_OP_SLICE_GRAD, in + 1, 1, attr, 3, NULL, &g->din[0]);
}

/* The slice of `whole`, as an operand. */
static syn_operand part_of(const syn_operand *whole, int64_t axis, int64_t start, int64_t length) {
    syn_operand part = *whole;
    part.spec.dims[axis] = length;
    if (part.data)
        part.data = (char *)part.data + start * part.strides[axis] *
                                            (int64_t)syn_dtype_bytes((syn_dtype)whole->spec.dtype);
    return part;
}

/* The attribute `length` is the length of the whole dimension here. */
SYN__INFER(slice_grad) {
    const int64_t axis = c->attr[0].i, start = c->attr[1].i, length = c->attr[2].i;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(check_axis(c, axis));
    if (start < 0 || start > length - c->in[0].spec.dims[axis])
        return SYN_FAIL(c->err, SYN_E_SHAPE, "the slice is outside dimension %lld of length %lld",
                        (long long)axis, (long long)length);
    c->out[0].spec = c->in[0].spec;
    c->out[0].spec.dims[axis] = length;
    return SYN_OK;
}

SYN__CPU(slice_grad) {
    const int64_t axis = c->attr[0].i;
    const syn_operand part = part_of(&c->out[0], axis, c->attr[1].i, c->in[0].spec.dims[axis]);
    syn__fill_zero(c, &c->out[0]);
    syn__copy_rows(c, &c->in[0], &part, part.data);
    return SYN_OK;
}

SYN__INFER(slice_add) {
    const int64_t axis = c->attr[0].i, start = c->attr[1].i;
    const syn_spec *sum = &c->in[0].spec, *x = &c->in[1].spec;
    SYN_TRY(syn__check_sum(c));
    SYN_TRY(check_axis(c, axis));
    bool ok = x->rank == sum->rank && start >= 0 && start <= sum->dims[axis] - x->dims[axis];
    for (int d = 0; ok && d < x->rank; d++) ok = d == axis || x->dims[d] == sum->dims[d];
    c->out[0].spec = *sum;
    return ok ? SYN_OK : syn__bad_input(c, 1, "a part of input 0");
}

SYN__COST(slice_add) {
    const uint64_t elems = syn__elems(&c->in[1]);
    const uint64_t sums = elems * syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
    *cost = (syn_cost){elems, sums + syn_spec_bytes(&c->in[1].spec), sums};
}

SYN__CPU(slice_add) {
    const syn_operand part =
        part_of(&c->out[0], c->attr[0].i, c->attr[1].i, c->in[1].spec.dims[c->attr[0].i]);
    syn__add_rows(c, &part, &c->in[1]);
    return SYN_OK;
}

/* ---- contiguous ---- */

struct copy {
    const syn_operand *from, *to;
    const char *in;
    char *out;
    size_t elem_bytes;
    int64_t n, step; /* number of elements per row, and the stride at which they are read */
};

static void copy_some(void *arg, int64_t begin, int64_t end, int worker) {
    const struct copy *c = arg;
    const syn_operand *operands[2] = {c->from, c->to};
    const int64_t elem = (int64_t)c->elem_bytes;
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, &c->from->spec, operands, 2, begin);
    for (int64_t row = begin; row < end; row++) {
        const char *a = c->in + r.at[0] * elem;
        char *b = c->out + r.at[1] * elem;
        if (c->step == 1) memcpy(b, a, (size_t)c->n * c->elem_bytes);
        else if (elem == 4)
            for (int64_t i = 0; i < c->n; i++) memcpy(b + i * 4, a + i * c->step * 4, 4);
        else
            for (int64_t i = 0; i < c->n; i++)
                memcpy(b + i * elem, a + i * c->step * elem, c->elem_bytes);
        syn__next_row(&r, &c->from->spec, operands, 2);
    }
}

void syn__copy_rows(const syn_call *c, const syn_operand *from, const syn_operand *to, void *out) {
    enum { GRAIN_BYTES = 131072 };
    const syn_spec *shape = &from->spec;
    const int last = shape->rank - 1;
    struct copy job = {from,
                       to,
                       from->data,
                       out,
                       syn_dtype_bytes((syn_dtype)shape->dtype),
                       last < 0 ? 1 : shape->dims[last],
                       last < 0 ? 1 : from->strides[last]};
    const int64_t elems = syn_spec_elems(shape);
    if (elems == 0) return;
    const int64_t row_bytes = job.n * (int64_t)job.elem_bytes;
    syn_workers_ranges(c->workers, elems / job.n, GRAIN_BYTES / row_bytes + 1, copy_some, &job);
}

SYN__CPU(contiguous) {
    syn__copy_rows(c, &c->in[0], &c->out[0], c->out[0].data);
    return SYN_OK;
}

syn_tensor syn_contiguous(syn_ctx *ctx, syn_tensor x) {
    if (syn_ctx_status(ctx) != SYN_OK || syn_tensor_contiguous(ctx, x)) return x;
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_CONTIGUOUS, &x, 1, NULL, 0, NULL, &out);
    return out;
}

SYN__GRAD(contiguous) {
    g->din[0] = syn_grad_out(g, 0);
}

syn_tensor syn__dense_last_dim(syn_ctx *ctx, syn_tensor x) {
    if (syn_ctx_status(ctx) != SYN_OK) return x;
    syn_operand o;
    syn__tensor_operand(ctx, x, &o);
    const int last = o.spec.rank - 1;
    return last < 0 || o.spec.dims[last] <= 1 || o.strides[last] == 1 ? x : syn_contiguous(ctx, x);
}

/* ---- cast ---- */

SYN__INFER(cast) {
    const int64_t dtype = c->attr[0].i;
    SYN_TRY(syn__check_float(c, 0));
    if (dtype != SYN_F32 && dtype != SYN_F16 && dtype != SYN_BF16)
        return SYN_FAIL(c->err, SYN_E_INVALID, "the new dtype must be f32, f16 or bf16");
    c->out[0].spec = c->in[0].spec;
    c->out[0].spec.dtype = (int32_t)dtype;
    return SYN_OK;
}

/* Converts `elems` elements of x, `step` apart, to dense elements of y. */
static void cast_elements(const syn_operand *x, int64_t from, int64_t step, const syn_operand *y,
                          int64_t to, int64_t elems) {
    float buffer[SYN__PIECE];
    for (int64_t i = 0, n; i < elems; i += n) {
        n = elems - i < SYN__PIECE ? elems - i : SYN__PIECE;
        float *out = syn__row_dest(y, to + i, buffer);
        const float *in = syn__load_strided(x, from + i * step, step, n, out);
        if (in != out && syn__is_f32(y)) memcpy(out, in, (size_t)n * sizeof *out);
        syn__store_row(y, to + i, n, in);
    }
}

static void cast_some(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    (void)worker;
    cast_elements(&c->in[0], begin, 1, &c->out[0], begin, end - begin);
}

static void cast_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *x = &c->in[0];
    const int last = x->spec.rank - 1;
    const int64_t n = x->spec.dims[last];
    syn_row_iter r;
    (void)worker;
    syn__seek_row(&r, &x->spec, &x, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        cast_elements(x, r.at[0], x->strides[last], &c->out[0], row * n, n);
        syn__next_row(&r, &x->spec, &x, 1);
    }
}

SYN__CPU(cast) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t elems = syn_spec_elems(shape);
    if (elems == 0) return SYN_OK;
    if (syn__is_dense(&c->in[0])) {
        syn_workers_ranges(c->workers, elems, SYN__GRAIN_MOVE, cast_some, c);
        return SYN_OK;
    }
    const int64_t n = shape->dims[shape->rank - 1];
    syn_workers_ranges(c->workers, elems / n, SYN__GRAIN_MOVE / n + 1, cast_rows, c);
    return SYN_OK;
}

syn_tensor syn_cast(syn_ctx *ctx, syn_tensor x, syn_dtype dtype) {
    if (syn_ctx_status(ctx) != SYN_OK || syn_tensor_spec(ctx, x)->dtype == (int32_t)dtype) return x;
    const syn_attr attr[1] = {{.i = dtype}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_CAST, &x, 1, attr, 1, NULL, &out);
    return out;
}

/* The gradient keeps the output's dtype. gradient.c casts it once, when it adds it to other
   gradients; for tensors that were passed to syn_require_grad it does not cast. */
SYN__GRAD(cast) {
    g->din[0] = syn_grad_out(g, 0);
}

/* ---- concat ---- */

SYN__INFER(concat) {
    const int64_t axis = c->attr[0].i;
    SYN_TRY(check_axis(c, axis));
    c->out[0].spec = c->in[0].spec;
    for (int i = 1; i < c->n_in; i++) {
        const syn_spec *x = &c->in[i].spec;
        bool ok = x->rank == c->in[0].spec.rank && x->dtype == c->in[0].spec.dtype;
        for (int d = 0; ok && d < x->rank; d++)
            ok = d == axis || x->dims[d] == c->in[0].spec.dims[d];
        if (!ok) return syn__bad_input(c, i, "like input 0 except in the concatenated dimension");
        if (c->out[0].spec.dims[axis] > INT64_MAX - x->dims[axis])
            return SYN_FAIL(c->err, SYN_E_SHAPE, "the result is too large");
        c->out[0].spec.dims[axis] += x->dims[axis];
    }
    return SYN_OK;
}

SYN__CPU(concat) {
    const int64_t axis = c->attr[0].i;
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)c->out[0].spec.dtype);
    char *out = c->out[0].data;
    for (int i = 0; i < c->n_in; i++) {
        syn__copy_rows(c, &c->in[i], &c->out[0], out);
        out += c->in[i].spec.dims[axis] * c->out[0].strides[axis] * elem;
    }
    return SYN_OK;
}

syn_tensor syn_concat(syn_ctx *ctx, const syn_tensor *xs, int n, int axis) {
    if (axis < 0 && n > 0) axis += syn_tensor_spec(ctx, xs[0])->rank;
    const syn_attr attr[1] = {{.i = axis}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_CONCAT, xs, n, attr, 1, NULL, &out);
    return out;
}

SYN__GRAD(concat) {
    const int axis = (int)g->attr[0].i;
    int64_t at = 0;
    for (int i = 0; i < g->n_in; i++) {
        const int64_t n = syn_tensor_dim(g->ctx, g->in[i], axis);
        if (g->need[i]) g->din[i] = syn_slice(g->ctx, syn_grad_out(g, 0), axis, at, n);
        at += n;
    }
}
