/* The experts of a mixture: moe_permute and moe_unpermute copy tokens into the order of their
   experts and back; grouped_linear multiplies each expert's rows by the expert's matrix. */
#include <string.h>

#include "ops/ops.h"
#include "ops/products.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/base/expert_choice.h"

/* ---- moe_permute ---- */

static syn_status check_places(const syn_call *c, int i) {
    SYN_TRY(syn__check_dtype(c, i, SYN_I32));
    return c->in[i].spec.rank == 1 ? SYN_OK : syn__bad_input(c, i, "places (R)");
}

SYN__INFER(moe_permute) {
    const syn_spec *x = &c->in[0].spec;
    int64_t all;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(check_places(c, 1));
    if (x->rank != 2) return syn__bad_input(c, 0, "tokens (N, C)");
    if (c->attr[0].i < 1 || !syn_mul_i64(x->dims[0], c->attr[0].i, &all) || all > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_INVALID, "%lld tokens cannot have %lld copies each",
                        (long long)x->dims[0], (long long)c->attr[0].i);
    c->out[0].spec = (syn_spec){x->dtype, 2, {c->in[1].spec.dims[0], x->dims[1]}};
    return SYN_OK;
}

/* Each copied row is read once. */
SYN__COST(moe_permute) {
    *cost =
        (syn_cost){0, syn__output_bytes(c) + syn_spec_bytes(&c->in[1].spec), syn__output_bytes(c)};
}

/* Fails unless the places are from 0 to n - 1, or -1: none. */
static syn_status check_range(const syn_call *c, const syn_operand *places, int64_t n) {
    const int64_t rows = places->spec.dims[0];
    for (int64_t i = 0; i < rows; i++) {
        const int32_t at = ((const int32_t *)places->data)[i * places->strides[0]];
        if (at < -1 || at >= n)
            return SYN_FAIL(c->err, SYN_E_INVALID, "row %lld has place %d, which is not below %lld",
                            (long long)i, at, (long long)n);
    }
    return SYN_OK;
}

static void permute_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *x = &c->in[0], *places = &c->in[1];
    const size_t elem = syn_dtype_bytes((syn_dtype)x->spec.dtype);
    const size_t bytes = (size_t)x->spec.dims[1] * elem;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t place = ((const int32_t *)places->data)[i * places->strides[0]];
        char *to = (char *)c->out[0].data + (size_t)i * bytes;
        if (place < 0) memset(to, 0, bytes);
        else
            memcpy(to,
                   (const char *)x->data + (size_t)(place / c->attr[0].i * x->strides[0]) * elem,
                   bytes);
    }
}

SYN__CPU(moe_permute) {
    const int64_t rows = c->out[0].spec.dims[0], width = c->out[0].spec.dims[1];
    SYN_TRY(check_range(c, &c->in[1], c->in[0].spec.dims[0] * c->attr[0].i));
    if (width > 0)
        syn_workers_ranges(c->workers, rows, SYN__GRAIN_MOVE / width + 1, permute_rows, c);
    return SYN_OK;
}

syn_tensor syn_moe_permute(syn_ctx *ctx, syn_tensor x, syn_tensor places, int64_t copies) {
    syn_tensor out = {0};
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, x), places};
    const syn_attr attr[1] = {{.i = copies}};
    syn__call_op(ctx, SYN_OP_MOE_PERMUTE, in, 2, attr, 1, NULL, &out);
    return out;
}

SYN__GRAD(moe_permute) {
    g->din[0] = syn_moe_unpermute(g->ctx, syn_grad_out(g, 0), g->in[1],
                                  syn_tensor_dim(g->ctx, g->in[0], 0), g->attr[0].i);
}

/* ---- moe_unpermute ---- */

SYN__INFER(moe_unpermute) {
    const syn_spec *x = &c->in[0].spec;
    int64_t all;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(check_places(c, 1));
    if (x->rank != 2 || x->dims[0] != c->in[1].spec.dims[0])
        return syn__bad_input(c, 0, "rows (R, C), as many as places");
    if (c->attr[0].i < 0 || c->attr[1].i < 1 || !syn_mul_i64(c->attr[0].i, c->attr[1].i, &all) ||
        all > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_INVALID, "cannot make %lld tokens from %lld rows each",
                        (long long)c->attr[0].i, (long long)c->attr[1].i);
    c->out[0].spec = (syn_spec){x->dtype, 2, {c->attr[0].i, x->dims[1]}};
    return SYN_OK;
}

/* One addition per element of the rows. */
SYN__COST(moe_unpermute) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

struct unpermute {
    const syn_call *c;
    const int32_t *row_at; /* per place: its row; -1: none */
    float *buffers;
    int64_t buffer_floats;
};

/* Adds the rows of each token in the order of their places, so the sum does not depend on the
   order of the experts or the number of threads. */
static void unpermute_tokens(void *arg, int64_t begin, int64_t end, int worker) {
    const struct unpermute *s = arg;
    const syn_operand *x = &s->c->in[0], *y = &s->c->out[0];
    const int64_t k = s->c->attr[1].i, n = y->spec.dims[1];
    float *sum = s->buffers + worker * s->buffer_floats, *row = sum + n;
    for (int64_t i = begin; i < end; i++) {
        float *out = syn__row_dest(y, i * n, sum);
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t j = 0; j < k; j++) {
            const int32_t at = s->row_at[i * k + j];
            if (at >= 0)
                syn__row_kernels()->add(out, syn__load_row(x, at * x->strides[0], n, row), out, n);
        }
        syn__store_row(y, i * n, n, sum);
    }
}

SYN__CPU(moe_unpermute) {
    const syn_operand *places = &c->in[1];
    const int64_t n = c->out[0].spec.dims[1], all = c->attr[0].i * c->attr[1].i;
    const int64_t rows = places->spec.dims[0];
    struct unpermute s = {.c = c, .buffer_floats = syn__padded_floats(2 * n)};
    const int64_t floats = s.buffer_floats * syn_workers_count(c->workers);
    void *scratch;
    SYN_TRY(check_range(c, places, all));
    if (n == 0 || all == 0) return SYN_OK;
    SYN_TRY(syn__scratch(c, (size_t)(floats + all) * sizeof(float), "rows of tokens", &scratch));
    s.buffers = scratch;
    int32_t *row_at = (int32_t *)(s.buffers + floats);
    for (int64_t i = 0; i < all; i++) row_at[i] = -1;
    for (int64_t i = 0; i < rows; i++) {
        const int32_t at = ((const int32_t *)places->data)[i * places->strides[0]];
        if (at < 0) continue;
        if (row_at[at] >= 0)
            return SYN_FAIL(c->err, SYN_E_INVALID, "rows %d and %lld have place %d", row_at[at],
                            (long long)i, at);
        row_at[at] = (int32_t)i;
    }
    s.row_at = row_at;
    syn_workers_ranges(c->workers, c->attr[0].i, SYN__GRAIN_MOVE / (n * c->attr[1].i) + 1,
                       unpermute_tokens, &s);
    return SYN_OK;
}

syn_tensor syn_moe_unpermute(syn_ctx *ctx, syn_tensor x, syn_tensor places, int64_t tokens,
                             int64_t copies) {
    syn_tensor out = {0};
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, x), places};
    const syn_attr attr[2] = {{.i = tokens}, {.i = copies}};
    syn__call_op(ctx, SYN_OP_MOE_UNPERMUTE, in, 2, attr, 2, NULL, &out);
    return out;
}

SYN__GRAD(moe_unpermute) {
    g->din[0] = syn_moe_permute(g->ctx, syn_grad_out(g, 0), g->in[1], g->attr[1].i);
}

/* ---- grouped products ---- */

/* Checks rows (R, ...), and sizes (E) as input number `sizes`. */
static syn_status check_groups(const syn_call *c, int rows, int sizes, int64_t experts) {
    const syn_spec *s = &c->in[sizes].spec;
    SYN_TRY(syn__check_dtype(c, sizes, SYN_I64));
    if (c->in[rows].spec.rank != 2) return syn__bad_input(c, rows, "rows (R, K)");
    if (s->rank != 1 || (experts >= 0 && s->dims[0] != experts))
        return syn__bad_input(c, sizes, "the number of rows of each expert (E)");
    return SYN_OK;
}

/* If x is f32, w may be f16 or bf16. */
SYN__INFER(grouped_linear) {
    const syn_spec *x = &c->in[0].spec, *w = &c->in[1].spec;
    const syn_dtype dtype = (syn_dtype)x->dtype;
    const int t = c->attr[0].i != 0;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(dtype == SYN_F32 ? syn__check_float(c, 1) : syn__check_dtype(c, 1, dtype));
    if (w->rank != 3) return syn__bad_input(c, 1, "one matrix per expert (E, ., .)");
    SYN_TRY(check_groups(c, 0, 2, w->dims[0]));
    if (w->dims[1 + t] != x->dims[1])
        return SYN_FAIL(c->err, SYN_E_SHAPE, "rows of %lld elements cannot be multiplied by %lld",
                        (long long)x->dims[1], (long long)w->dims[1 + t]);
    c->out[0].spec = (syn_spec){x->dtype, 2, {x->dims[0], w->dims[2 - t]}};
    if (c->n_in < 4) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, 3, dtype));
    if (c->in[3].spec.rank != 2 || c->in[3].spec.dims[0] != w->dims[0] ||
        c->in[3].spec.dims[1] != w->dims[2 - t] || !syn__is_dense(&c->in[3]))
        return syn__bad_input(c, 3, "one bias per expert (E, N), dense");
    return SYN_OK;
}

/* Only the matrices of experts with rows are read. How many these are is known only when the op
   runs, so that the cost is that of random experts. */
SYN__COST(grouped_linear) {
    const syn_spec *x = &c->in[0].spec, *w = &c->in[1].spec;
    const int64_t experts = w->dims[0], used = syn_experts_used(experts, x->dims[0]);
    const uint64_t matrices = experts ? syn_spec_bytes(w) / (uint64_t)experts * (uint64_t)used : 0;
    *cost = (syn_cost){2 * syn__elems(&c->out[0]) * (uint64_t)x->dims[1],
                       syn__input_bytes(c) - syn_spec_bytes(w) + matrices, syn__output_bytes(c)};
}

/* One product per expert. */
struct grouped {
    const syn_operand *sizes;
    syn_product first;                   /* the product of the first expert, except for its size */
    int64_t w_step, bias_step, out_step; /* bytes from one expert to the next; out_step 0: experts
                                            have rows of the output */
    bool rows_are_inner;                 /* an expert's rows are the inner dimension */
    int64_t parts;                       /* tasks per expert */
    struct used {
        int64_t expert, first, rows;
    } * used; /* the experts with rows */
    int64_t n_used;
};

static char *ahead(const void *from, int64_t elems, syn_dtype dtype) {
    return (char *)from + elems * (int64_t)syn_dtype_bytes(dtype);
}

static syn_product product_of(const struct grouped *s, const struct used *e) {
    syn_product p = s->first;
    p.x = ahead(p.x, e->first * p.ldx, p.x_dtype);
    if (s->rows_are_inner) {
        p.k = e->rows;
        p.w = ahead(p.w, e->first * p.ldw, p.w_dtype);
        p.out = (char *)p.out + e->expert * s->out_step;
        return p;
    }
    p.m = e->rows;
    p.w = (const char *)p.w + e->expert * s->w_step;
    if (p.bias) p.bias = (const char *)p.bias + e->expert * s->bias_step;
    p.out = ahead(p.out, e->first * p.ldo, p.out_dtype);
    return p;
}

static void grouped_task(void *arg, int64_t i, int worker) {
    const struct grouped *s = arg;
    const syn_product whole = product_of(s, &s->used[i / s->parts]),
                      part = syn_product_part(&whole, i % s->parts, s->parts);
    syn_product_run(&part, NULL);
    (void)worker;
}

/* Lists the experts that have rows. */
static syn_status list_used(const syn_call *c, struct grouped *s, int64_t rows) {
    const int64_t n = s->sizes->spec.dims[0];
    int64_t at = 0;
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)n * sizeof *s->used, "the experts' rows", &scratch));
    s->used = scratch;
    bool fits = true;
    for (int64_t e = 0; e < n && fits; e++) {
        const int64_t size = ((const int64_t *)s->sizes->data)[e * s->sizes->strides[0]];
        fits = size >= 0 && size <= rows - at;
        if (size > 0) s->used[s->n_used++] = (struct used){e, at, size};
        at += size;
    }
    if (fits && at == rows) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "the experts' sizes do not add up to %lld rows",
                    (long long)rows);
}

/* Experts have different numbers of rows. Unless there are many experts, all threads share each
   product. */
static void run_grouped(const syn_call *c, struct grouped *s) {
    const int64_t threads = syn_workers_count(c->workers);
    int64_t most = 0;
    for (int64_t i = 1; i < s->n_used; i++)
        if (s->used[i].rows > s->used[most].rows) most = i;
    if (s->n_used == 0) return;
    const syn_product largest = product_of(s, &s->used[most]);
    const bool small = syn_product_is_small(&largest, s->n_used);
    s->parts = s->n_used < 8 * threads ? threads : 1;
    syn_workers_run(small ? NULL : c->workers, s->n_used * s->parts, grouped_task, s);
}

static int64_t row_stride(const syn_operand *o) {
    return o->spec.dims[0] > 1 ? o->strides[0] : o->spec.dims[1];
}

/* The row stride of the experts' matrices. */
static int64_t matrix_stride(const syn_operand *o) {
    return o->spec.dims[1] > 1 ? o->strides[1] : o->spec.dims[2];
}

static syn_status check_lengths(const syn_call *c, const syn_product *p) {
    if (p->k <= INT32_MAX && p->n <= INT32_MAX && p->ldx <= INT32_MAX && p->ldw <= INT32_MAX)
        return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_UNSUPPORTED,
                    "the matrices have rows of more than 2^31 - 1 elements");
}

SYN__CPU(grouped_linear) {
    const syn_operand *x = &c->in[0], *w = &c->in[1];
    const syn_dtype dtype = (syn_dtype)x->spec.dtype, w_dtype = (syn_dtype)w->spec.dtype;
    const int64_t n = c->out[0].spec.dims[1];
    struct grouped s = {.sizes = &c->in[2],
                        .w_step = w->strides[0] * (int64_t)syn_dtype_bytes(w_dtype),
                        .bias_step = n * (int64_t)syn_dtype_bytes(dtype)};
    s.first = (syn_product){.n = n,
                            .k = x->spec.dims[1],
                            .x = x->data,
                            .ldx = row_stride(x),
                            .x_dtype = dtype,
                            .w = w->data,
                            .ldw = matrix_stride(w),
                            .w_dtype = w_dtype,
                            .transpose_w = c->attr[0].i != 0,
                            .bias = c->n_in > 3 ? c->in[3].data : NULL,
                            .out = c->out[0].data,
                            .ldo = n,
                            .out_dtype = dtype};
    SYN_TRY(list_used(c, &s, x->spec.dims[0]));
    SYN_TRY(check_lengths(c, &s.first));
    run_grouped(c, &s);
    return SYN_OK;
}

syn_tensor syn_grouped_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor sizes,
                              syn_tensor bias, bool transpose_w) {
    syn_tensor out = {0};
    const syn_tensor in[4] = {syn__dense_last_dim(ctx, x), syn__dense_last_dim(ctx, w), sizes,
                              bias};
    const syn_attr attr[1] = {{.i = transpose_w}};
    syn__call_op(ctx, SYN_OP_GROUPED_LINEAR, in, bias.id ? 4 : 3, attr, 1, NULL, &out);
    return out;
}

/* For each expert: dx = dy w', dw = x' dy, and dbias is the sum of dy. */
SYN__GRAD(grouped_linear) {
    syn_ctx *ctx = g->ctx;
    const bool t = g->attr[0].i != 0;
    const syn_tensor dy = syn_grad_out(g, 0), sizes = g->in[2], sum = g->sum[1];
    if (g->n_in > 3 && g->need[3]) g->din[3] = syn_grouped_sum(ctx, dy, sizes);
    if (g->need[0]) g->din[0] = syn_grouped_linear(ctx, dy, g->in[1], sizes, SYN_NO_BIAS, !t);
    if (!g->need[1]) return;
    const syn_tensor x = g->in[0], a = t ? dy : x, b = t ? x : dy;
    if (sum.id && syn_tensor_spec(ctx, sum)->dtype == SYN_F32)
        g->din[1] = syn_grouped_product_add(ctx, sum, a, b, sizes);
    else g->din[1] = syn_grouped_product(ctx, a, b, sizes);
}

/* ---- grouped_product: rows a (R, M), b (R, N) -> a' b of each expert's rows (E, M, N) ---- */

static syn_status product_shape(const syn_call *c, int a, syn_spec *out) {
    SYN_TRY(syn__check_float(c, a));
    SYN_TRY(syn__check_dtype(c, a + 1, (syn_dtype)c->in[a].spec.dtype));
    SYN_TRY(check_groups(c, a, a + 2, -1));
    const syn_spec *x = &c->in[a].spec, *y = &c->in[a + 1].spec;
    if (y->rank != 2 || y->dims[0] != x->dims[0])
        return syn__bad_input(c, a + 1, "as many rows as the input before it");
    *out = (syn_spec){SYN_F32, 3, {c->in[a + 2].spec.dims[0], x->dims[1], y->dims[1]}};
    return SYN_OK;
}

SYN__INFER(grouped_product) {
    return product_shape(c, 0, &c->out[0].spec);
}

SYN__COST(grouped_product) {
    const int a = c->n_in - 3;
    const syn_spec *o = &c->out[0].spec;
    const uint64_t each = (uint64_t)o->dims[1] * (uint64_t)o->dims[2],
                   rows = (uint64_t)c->in[a].spec.dims[0];
    *cost = (syn_cost){2 * rows * each + (a ? syn__elems(&c->out[0]) : 0), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

static syn_status multiply_rows(const syn_call *c, int first, bool add) {
    const syn_operand *a = &c->in[first], *b = &c->in[first + 1];
    const syn_dtype dtype = (syn_dtype)a->spec.dtype;
    const int64_t m = a->spec.dims[1], n = b->spec.dims[1];
    struct grouped s = {.sizes = &c->in[first + 2],
                        .out_step = m * n * (int64_t)sizeof(float),
                        .rows_are_inner = true};
    s.first = (syn_product){.m = m,
                            .n = n,
                            .x = a->data,
                            .ldx = row_stride(a),
                            .x_dtype = dtype,
                            .transpose_x = true,
                            .w = b->data,
                            .ldw = row_stride(b),
                            .w_dtype = dtype,
                            .add = add,
                            .out = c->out[0].data,
                            .ldo = n,
                            .out_dtype = SYN_F32};
    if (m == 0 || n == 0) return SYN_OK;
    if (!add) syn__fill_zero(c, &c->out[0]);
    SYN_TRY(list_used(c, &s, a->spec.dims[0]));
    SYN_TRY(check_lengths(c, &s.first));
    run_grouped(c, &s);
    return SYN_OK;
}

SYN__CPU(grouped_product) {
    return multiply_rows(c, 0, false);
}

syn_tensor syn_grouped_product(syn_ctx *ctx, syn_tensor a, syn_tensor b, syn_tensor sizes) {
    syn_tensor out = {0};
    const syn_tensor in[3] = {syn__dense_last_dim(ctx, a), syn__dense_last_dim(ctx, b), sizes};
    syn__call_op(ctx, SYN_OP_GROUPED_PRODUCT, in, 3, NULL, 0, NULL, &out);
    return out;
}

SYN__INFER(grouped_product_add) {
    SYN_TRY(product_shape(c, 1, &c->out[0].spec));
    if (syn_spec_equal(&c->out[0].spec, &c->in[0].spec) && syn__is_dense(&c->in[0])) return SYN_OK;
    return syn__bad_input(c, 0, "f32, contiguous and shaped like the product");
}

SYN__CPU(grouped_product_add) {
    return multiply_rows(c, 1, true);
}

syn_tensor syn_grouped_product_add(syn_ctx *ctx, syn_tensor sum, syn_tensor a, syn_tensor b,
                                   syn_tensor sizes) {
    syn_tensor out = {0};
    const syn_tensor in[4] = {sum, syn__dense_last_dim(ctx, a), syn__dense_last_dim(ctx, b), sizes};
    syn__call_op(ctx, SYN_OP_GROUPED_PRODUCT_ADD, in, 4, NULL, 0, NULL, &out);
    return out;
}

/* ---- grouped_sum: rows x (R, N) -> the sum of each expert's rows (E, N) ---- */

SYN__INFER(grouped_sum) {
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(check_groups(c, 0, 1, -1));
    c->out[0].spec =
        (syn_spec){c->in[0].spec.dtype, 2, {c->in[1].spec.dims[0], c->in[0].spec.dims[1]}};
    return SYN_OK;
}

/* One addition per element of the rows. */
SYN__COST(grouped_sum) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

struct grouped_sum {
    const syn_call *c;
    const struct used *used;
    int64_t pieces; /* tasks per expert */
};

/* Sums a piece of the columns. */
static void sum_task(void *arg, int64_t i, int worker) {
    const struct grouped_sum *s = arg;
    const syn_operand *x = &s->c->in[0], *y = &s->c->out[0];
    const struct used *e = &s->used[i / s->pieces];
    const int64_t width = y->spec.dims[1], first = i % s->pieces * SYN__PIECE,
                  n = width - first < SYN__PIECE ? width - first : SYN__PIECE,
                  at = e->expert * width + first, stride = row_stride(x);
    float buffer[2][SYN__PIECE], *sum = syn__row_dest(y, at, buffer[0]);
    (void)worker;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t r = e->first; r < e->first + e->rows; r++)
        syn__row_kernels()->add(sum, syn__load_row(x, r * stride + first, n, buffer[1]), sum, n);
    syn__store_row(y, at, n, buffer[0]);
}

SYN__CPU(grouped_sum) {
    const int64_t width = c->out[0].spec.dims[1];
    struct grouped_sum s = {.c = c, .pieces = (width + SYN__PIECE - 1) / SYN__PIECE};
    struct grouped of = {.sizes = &c->in[1]};
    syn__fill_zero(c, &c->out[0]);
    SYN_TRY(list_used(c, &of, c->in[0].spec.dims[0]));
    s.used = of.used;
    syn_workers_run(c->workers, of.n_used * s.pieces, sum_task, &s);
    return SYN_OK;
}

syn_tensor syn_grouped_sum(syn_ctx *ctx, syn_tensor x, syn_tensor sizes) {
    syn_tensor out = {0};
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, x), sizes};
    syn__call_op(ctx, SYN_OP_GROUPED_SUM, in, 2, NULL, 0, NULL, &out);
    return out;
}
