/* Matrix products: linear, matmul, matmul_add. */
#include "ops/ops.h"
#include "ops/products.h"
#include "ops/rules.h"

/* ---- arguments of BLAS ---- */

/* The row stride (leading dimension) of a matrix, which is the last two dimensions. BLAS requires
   at least the row length, even for a single row, whose stride in the tensor may be anything. */
static int64_t leading(const syn_operand *o) {
    const int last = o->spec.rank - 1;
    return o->spec.dims[last - 1] > 1 ? o->strides[last - 1] : o->spec.dims[last];
}

/* Checks that dimensions fit in an int, as BLAS requires. */
static syn_status check_lengths(const syn_call *c, int64_t k, int64_t n, int64_t lda, int64_t ldb) {
    if (k <= INT32_MAX && n <= INT32_MAX && lda <= INT32_MAX && ldb <= INT32_MAX) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_UNSUPPORTED,
                    "the matrices have rows of more than 2^31 - 1 elements");
}

/* ---- linear ---- */

/* If x is f32, w may be f16 or bf16. */
SYN__INFER(linear) {
    const syn_dtype dtype = (syn_dtype)c->in[0].spec.dtype;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(dtype == SYN_F32 ? syn__check_float(c, 1) : syn__check_dtype(c, 1, dtype));
    if (c->n_in == 3) SYN_TRY(syn__check_dtype(c, 2, dtype));
    const syn_spec *x = &c->in[0].spec, *w = &c->in[1].spec;
    const bool t = c->attr[0].i != 0;
    if (x->rank < 1) return syn__bad_input(c, 0, "(..., K)");
    if (w->rank != 2) return syn__bad_input(c, 1, "a matrix");
    if (w->dims[t ? 1 : 0] != x->dims[x->rank - 1]) {
        char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
        return SYN_FAIL(c->err, SYN_E_SHAPE, "the inner dimensions of %s and %s%s differ",
                        syn_spec_text(x, a, sizeof a), syn_spec_text(w, b, sizeof b),
                        t ? " transposed" : "");
    }
    c->out[0].spec = *x;
    c->out[0].spec.dims[x->rank - 1] = w->dims[t ? 0 : 1];
    if (c->n_in == 3 && (c->in[2].spec.rank != 1 || c->in[2].spec.dims[0] != w->dims[t ? 0 : 1]))
        return syn__bad_input(c, 2, "a bias (N)");
    return SYN_OK;
}

SYN__COST(linear) {
    const syn_spec *x = &c->in[0].spec;
    *cost = (syn_cost){2 * syn__elems(&c->out[0]) * (uint64_t)x->dims[x->rank - 1],
                       syn__input_bytes(c), syn__output_bytes(c)};
}

/* Rows of x have a constant stride; the builder copied x if they did not. */
SYN__CPU(linear) {
    const syn_spec *x = &c->in[0].spec;
    const bool t = c->attr[0].i != 0;
    const int64_t k = x->dims[x->rank - 1], n = c->out[0].spec.dims[x->rank - 1];
    const int64_t m = n > 0 ? syn_spec_elems(&c->out[0].spec) / n : 0;
    if (m == 0) return SYN_OK;
    int64_t row_stride = k;
    for (int d = 0; d < x->rank - 1; d++)
        if (x->dims[d] > 1) row_stride = c->in[0].strides[d];
    const syn_product p = {.m = m,
                           .n = n,
                           .k = k,
                           .x = c->in[0].data,
                           .ldx = row_stride,
                           .x_dtype = (syn_dtype)x->dtype,
                           .w = c->in[1].data,
                           .ldw = leading(&c->in[1]),
                           .w_dtype = (syn_dtype)c->in[1].spec.dtype,
                           .transpose_w = t,
                           .bias = c->n_in == 3 ? c->in[2].data : NULL,
                           .out = c->out[0].data,
                           .ldo = n,
                           .out_dtype = (syn_dtype)x->dtype};
    SYN_TRY(check_lengths(c, k, n, p.ldx, p.ldw));
    syn_product_run(&p, c->workers);
    return SYN_OK;
}

/* True if all rows are dense and have one constant stride. */
static bool rows_collapse(const syn_ctx *ctx, syn_tensor x) {
    syn_operand o;
    syn__tensor_operand(ctx, x, &o);
    if (o.spec.rank < 1 || (o.strides[o.spec.rank - 1] != 1 && o.spec.dims[o.spec.rank - 1] > 1))
        return false;
    int64_t step = 0;
    for (int d = o.spec.rank - 2; d >= 0; d--) {
        if (o.spec.dims[d] == 1) continue;
        if (step && o.strides[d] != step) return false;
        step = o.strides[d] * o.spec.dims[d];
    }
    return true;
}

syn_tensor syn_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor bias, bool transpose_w) {
    syn_tensor out;
    if (syn_ctx_status(ctx) == SYN_OK && !rows_collapse(ctx, x)) x = syn_contiguous(ctx, x);
    const syn_tensor in[3] = {x, syn__dense_last_dim(ctx, w), syn__dense_last_dim(ctx, bias)};
    const syn_attr attr[1] = {{.i = transpose_w}};
    syn__call_op(ctx, SYN_OP_LINEAR, in, bias.id ? 3 : 2, attr, 1, NULL, &out);
    return out;
}

/* x (..., K) reshaped to (rows, K). */
static syn_tensor as_matrix(syn_ctx *ctx, syn_tensor x) {
    const int64_t dims[2] = {-1, syn_tensor_dim(ctx, x, -1)};
    return syn_tensor_spec(ctx, x)->rank == 2 ? x : syn_reshape(ctx, x, dims, 2);
}

/* Returns op(a) op(b). dtype: the result's dtype, f32 or that of the inputs. */
static syn_tensor product(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a,
                          bool transpose_b, syn_dtype dtype) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, a), syn__dense_last_dim(ctx, b)};
    const syn_attr attr[3] = {{.i = transpose_a}, {.i = transpose_b}, {.i = dtype}};
    const bool same = syn_tensor_spec(ctx, in[0])->dtype == (int32_t)dtype;
    syn__call_op(ctx, SYN_OP_MATMUL, in, 2, attr, same ? 2 : 3, NULL, &out);
    return out;
}

/* Returns a' b, the gradient of input i. If the input already has an f32 gradient, adds a' b to it
   and returns the sum. */
static syn_tensor add_product(const syn_grad_call *g, int i, syn_tensor a, syn_tensor b) {
    const syn_tensor sum = g->sum[i];
    if (sum.id && syn_tensor_spec(g->ctx, sum)->dtype == SYN_F32)
        return syn_matmul_add(g->ctx, sum, a, b, true, false);
    return product(g->ctx, a, b, true, false, syn_grad_dtype(g, i));
}

/* dx = dy w', dw = x' dy, dbias = the sum of dy's rows. dw may be computed later than dx, while
   ranks all-reduce dx. */
SYN__GRAD(linear) {
    syn_ctx *ctx = g->ctx;
    const bool t = g->attr[0].i != 0;
    const syn_tensor dy = syn_grad_out(g, 0);
    if (g->need[0]) g->din[0] = syn_linear(ctx, dy, g->in[1], SYN_NO_BIAS, !t);
    g->later = g->comm_next && g->need[0];
    if (g->later) return;
    if (g->need[1]) {
        const syn_tensor x = as_matrix(ctx, g->in[0]), y = as_matrix(ctx, dy);
        g->din[1] = add_product(g, 1, t ? y : x, t ? x : y);
    }
    if (g->n_in > 2 && g->need[2])
        g->din[2] = syn_sum_to(ctx, dy, (int64_t[]){syn_tensor_dim(ctx, dy, -1)}, 1);
}

/* ---- matmul ---- */

/* The shape of the product of inputs `first` and first + 1. */
static syn_status product_shape(const syn_call *c, int first, syn_spec *out) {
    SYN_TRY(syn__check_float(c, first));
    SYN_TRY(syn__check_dtype(c, first + 1, (syn_dtype)c->in[first].spec.dtype));
    const syn_spec *a = &c->in[first].spec, *b = &c->in[first + 1].spec;
    const int r = a->rank;
    if (r < 2) return syn__bad_input(c, first, "(..., M, K)");
    bool ok = b->rank == r;
    for (int d = 0; ok && d < r - 2; d++) ok = a->dims[d] == b->dims[d];
    const int ta = c->attr[0].i != 0, tb = c->attr[1].i != 0;
    if (!ok || a->dims[r - 1 - ta] != b->dims[r - 2 + tb]) {
        char x[SYN_SPEC_TEXT], y[SYN_SPEC_TEXT];
        return SYN_FAIL(c->err, SYN_E_SHAPE, "cannot multiply %s%s and %s%s",
                        syn_spec_text(a, x, sizeof x), ta ? " transposed" : "",
                        syn_spec_text(b, y, sizeof y), tb ? " transposed" : "");
    }
    *out = *a;
    out->dims[r - 2] = a->dims[r - 2 + ta];
    out->dims[r - 1] = b->dims[r - 1 - tb];
    return SYN_OK;
}

SYN__INFER(matmul) {
    SYN_TRY(product_shape(c, 0, &c->out[0].spec));
    if (c->n_attr < 3) return SYN_OK;
    c->out[0].spec.dtype = (int32_t)c->attr[2].i;
    if (c->attr[2].i == SYN_F32) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "the output dtype must be f32 or the inputs' dtype");
}

SYN__COST(matmul) {
    const syn_spec *a = &c->in[0].spec;
    const int64_t k = a->dims[a->rank - (c->attr[0].i ? 2 : 1)];
    *cost = (syn_cost){2 * syn__elems(&c->out[0]) * (uint64_t)k, syn__input_bytes(c),
                       syn__output_bytes(c)};
}

/* One product for each index of the leading dimensions. */
struct batch {
    const syn_operand *in; /* the two inputs */
    syn_product first;
    int64_t parts; /* tasks per product */
};

static void batch_task(void *arg, int64_t i, int worker) {
    const struct batch *b = arg;
    const syn_operand *in = b->in;
    int64_t entry = i / b->parts;
    syn_product p = b->first;
    const int64_t out_bytes = (int64_t)syn_dtype_bytes(p.out_dtype);
    const int64_t in_bytes = (int64_t)syn_dtype_bytes(p.x_dtype);
    p.out = (char *)p.out + entry * p.m * p.n * out_bytes;
    for (int d = in[0].spec.rank - 3; d >= 0; d--) {
        const int64_t index = entry % in[0].spec.dims[d];
        entry /= in[0].spec.dims[d];
        p.x = (const char *)p.x + index * in[0].strides[d] * in_bytes;
        p.w = (const char *)p.w + index * in[1].strides[d] * in_bytes;
    }
    p = syn_product_part(&p, i % b->parts, b->parts);
    syn_product_run(&p, NULL);
    (void)worker;
}

/* Multiplies in[0] by in[1]. Overwrites the output, or adds to it. */
static syn_status multiply(const syn_call *c, const syn_operand *in, bool add) {
    const syn_spec *o = &c->out[0].spec;
    const int r = o->rank;
    const bool ta = c->attr[0].i != 0, tb = c->attr[1].i != 0;
    const int64_t m = o->dims[r - 2], n = o->dims[r - 1];
    const syn_dtype dtype = (syn_dtype)in[0].spec.dtype;
    if (m == 0 || n == 0) return SYN_OK;
    struct batch b = {.in = in, .parts = 1};
    b.first = (syn_product){.m = m,
                            .n = n,
                            .k = in[0].spec.dims[r - (ta ? 2 : 1)],
                            .x = in[0].data,
                            .ldx = leading(&in[0]),
                            .x_dtype = dtype,
                            .transpose_x = ta,
                            .w = in[1].data,
                            .ldw = leading(&in[1]),
                            .w_dtype = dtype,
                            .transpose_w = tb,
                            .add = add,
                            .out = c->out[0].data,
                            .ldo = n,
                            .out_dtype = (syn_dtype)o->dtype};
    SYN_TRY(check_lengths(c, ta ? m : b.first.k, n, b.first.ldx, b.first.ldw));
    const int64_t entries = syn_spec_elems(o) / (m * n), threads = syn_workers_count(c->workers);
    if (entries % threads && entries < 4 * threads) b.parts = threads;
    const bool small = syn_product_is_small(&b.first, entries);
    syn_workers_run(small ? NULL : c->workers, entries * b.parts, batch_task, &b);
    return SYN_OK;
}

SYN__CPU(matmul) {
    return multiply(c, c->in, false);
}

syn_tensor syn_matmul(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a,
                      bool transpose_b) {
    const syn_spec *spec = syn_tensor_spec(ctx, a);
    return product(ctx, a, b, transpose_a, transpose_b, (syn_dtype)spec->dtype);
}

/* For C = op(A) op(B): dop(A) = dC op(B)', dop(B) = op(A)' dC. */
SYN__GRAD(matmul) {
    syn_ctx *ctx = g->ctx;
    const bool ta = g->attr[0].i != 0, tb = g->attr[1].i != 0;
    const syn_tensor dc = syn_grad_out(g, 0), a = g->in[0], b = g->in[1];
    const syn_dtype da = syn_grad_dtype(g, 0), db = syn_grad_dtype(g, 1);
    if (g->need[0])
        g->din[0] = ta ? product(ctx, b, dc, tb, true, da) : product(ctx, dc, b, false, !tb, da);
    if (g->need[1])
        g->din[1] = tb ? product(ctx, dc, a, true, ta, db) : product(ctx, a, dc, !ta, false, db);
}

/* ---- matmul_add ---- */

SYN__INFER(matmul_add) {
    SYN_TRY(product_shape(c, 1, &c->out[0].spec));
    c->out[0].spec.dtype = SYN_F32;
    if (syn_spec_equal(&c->out[0].spec, &c->in[0].spec) && syn__is_dense(&c->in[0])) return SYN_OK;
    return syn__bad_input(c, 0, "f32, contiguous and shaped like the product");
}

SYN__COST(matmul_add) {
    const syn_spec *a = &c->in[1].spec;
    const int64_t k = a->dims[a->rank - (c->attr[0].i ? 2 : 1)];
    *cost = (syn_cost){(2 * (uint64_t)k + 1) * syn__elems(&c->out[0]), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

SYN__CPU(matmul_add) {
    return multiply(c, &c->in[1], true);
}

syn_tensor syn_matmul_add(syn_ctx *ctx, syn_tensor sum, syn_tensor a, syn_tensor b,
                          bool transpose_a, bool transpose_b) {
    syn_tensor out;
    const syn_tensor in[3] = {sum, syn__dense_last_dim(ctx, a), syn__dense_last_dim(ctx, b)};
    const syn_attr attr[2] = {{.i = transpose_a}, {.i = transpose_b}};
    syn__call_op(ctx, SYN_OP_MATMUL_ADD, in, 3, attr, 2, NULL, &out);
    return out;
}
