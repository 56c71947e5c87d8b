/* embedding, layernorm, linear, matmul. */
#include <math.h>
#include <string.h>

#include "ops/blas.h"
#include "ops/ops.h"
#include "ops/rules.h"

/* ---- embedding ------------------------------------------------------------------------------- */

SYN__INFER(embedding) {
    SYN_TRY(syn__want_dtype(c, 0, SYN_F32));
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
    *cost =
        (syn_cost){0, syn__output_bytes(c) + syn_spec_bytes(&c->in[1].spec), syn__output_bytes(c)};
}

SYN__CPU(embedding) {
    const int64_t width = c->in[0].spec.dims[1], stride = c->in[0].strides[0];
    const uint64_t first = (uint64_t)c->attr[0].i, rows = (uint64_t)c->in[0].spec.dims[0];
    const float *table = c->in[0].data;
    const int32_t *ids = c->in[1].data;
    float *out = c->out[0].data;
    const syn_operand *operands[2] = {&c->in[1], &c->in[1]};
    const syn_spec *shape = &c->in[1].spec;
    const int64_t inner = shape->rank ? shape->dims[shape->rank - 1] : 1;
    for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 1);)
        for (int64_t i = 0; i < inner; i++, out += width) {
            const uint64_t row =
                (uint64_t)ids[r.at[0] + i] - first; /* wraps past all rows when below the first */
            if (row < rows) memcpy(out, table + (int64_t)row * stride, (size_t)width * sizeof *out);
            else memset(out, 0, (size_t)width * sizeof *out);
        }
    return SYN_OK;
}

syn_tensor syn_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_rows(ctx, table), syn__dense_rows(ctx, ids)};
    const syn_attr attr[1] = {{.i = first_row}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING, in, 2, attr, 1, NULL, &out);
    return out;
}

/* ---- layernorm ------------------------------------------------------------------------------- */

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

SYN__CPU(layernorm) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->dims[shape->rank - 1];
    const float *x = c->in[0].data, *weight = c->in[1].data, *bias = c->in[2].data;
    float *out = c->out[0].data;
    const double eps = c->attr[0].f;
    const syn_operand *operands[1] = {&c->in[0]};
    for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 1); out += n) {
        const float *row = x + r.at[0];
        /* Sums in double: a float mean of a wide row far from zero loses half its digits. */
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) sum += (double)row[i];
        const double mean = sum / (double)n;
        for (int64_t i = 0; i < n; i++)
            squares += ((double)row[i] - mean) * ((double)row[i] - mean);
        const double inverse = 1.0 / sqrt(squares / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(((double)row[i] - mean) * inverse) * weight[i] + bias[i];
    }
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

/* ---- matrices for BLAS ----------------------------------------------------------------------- */

/* Elements from row to row of a matrix (the last two dimensions). BLAS wants at least a row's
   length, also where there is but one row and its stride means nothing. */
static int64_t leading(const syn_operand *o) {
    const int last = o->spec.rank - 1;
    return o->spec.dims[last - 1] > 1 ? o->strides[last - 1] : o->spec.dims[last];
}

/* BLAS counts in int. */
static syn_status check_lengths(const syn_call *c, int64_t k, int64_t n, int64_t lda, int64_t ldb) {
    if (k <= INT32_MAX && n <= INT32_MAX && lda <= INT32_MAX && ldb <= INT32_MAX) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_UNSUPPORTED,
                    "the matrices have rows of more than 2^31 - 1 elements");
}

/* ---- linear ---------------------------------------------------------------------------------- */

SYN__INFER(linear) {
    for (int i = 0; i < c->n_in; i++) SYN_TRY(syn__want_dtype(c, i, SYN_F32));
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

/* Rows of x lie a fixed step apart: the builder copies what does not. */
SYN__CPU(linear) {
    const syn_spec *x = &c->in[0].spec;
    const bool t = c->attr[0].i != 0;
    const int64_t k = x->dims[x->rank - 1], n = c->out[0].spec.dims[x->rank - 1];
    const int64_t m = n > 0 ? syn_spec_elems(&c->out[0].spec) / n : 0;
    if (m == 0) return SYN_OK;
    int64_t row_stride = k;
    for (int d = 0; d < x->rank - 1; d++)
        if (x->dims[d] > 1) row_stride = c->in[0].strides[d];
    float *out = c->out[0].data;
    const float *bias = c->n_in == 3 ? c->in[2].data : NULL;
    if (bias)
        for (int64_t i = 0; i < m; i++) memcpy(out + i * n, bias, (size_t)n * sizeof *out);
    else if (k == 0) memset(out, 0, (size_t)(m * n) * sizeof *out);
    if (k == 0) return SYN_OK;
    const int64_t ldb = leading(&c->in[1]);
    SYN_TRY(check_lengths(c, k, n, row_stride, ldb));
    syn_blas_gemm(false, t, m, n, k, c->in[0].data, row_stride, c->in[1].data, ldb,
                  bias ? 1.0f : 0.0f, out, n);
    return SYN_OK;
}

/* True if all rows lie a fixed step apart. */
static bool rows_collapse(const syn_ctx *ctx, syn_tensor x) {
    syn_operand o;
    syn_trace_operand(syn_ctx_trace(ctx), x.id, &o);
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
    const syn_tensor in[3] = {x, syn__dense_rows(ctx, w), syn__dense_rows(ctx, bias)};
    const syn_attr attr[1] = {{.i = transpose_w}};
    syn__dispatch(ctx, SYN_OP_LINEAR, in, bias.id ? 3 : 2, attr, 1, NULL, &out);
    return out;
}

/* ---- matmul ---------------------------------------------------------------------------------- */

SYN__INFER(matmul) {
    SYN_TRY(syn__want_dtype(c, 0, SYN_F32));
    SYN_TRY(syn__want_dtype(c, 1, SYN_F32));
    const syn_spec *a = &c->in[0].spec, *b = &c->in[1].spec;
    const int r = a->rank;
    if (r < 2) return syn__bad_input(c, 0, "(..., M, K)");
    bool ok = b->rank == r;
    for (int d = 0; ok && d < r - 2; d++) ok = a->dims[d] == b->dims[d];
    const int ta = c->attr[0].i != 0, tb = c->attr[1].i != 0;
    if (!ok || a->dims[r - 1 - ta] != b->dims[r - 2 + tb]) {
        char x[SYN_SPEC_TEXT], y[SYN_SPEC_TEXT];
        return SYN_FAIL(c->err, SYN_E_SHAPE, "cannot multiply %s%s and %s%s",
                        syn_spec_text(a, x, sizeof x), ta ? " transposed" : "",
                        syn_spec_text(b, y, sizeof y), tb ? " transposed" : "");
    }
    c->out[0].spec = *a;
    c->out[0].spec.dims[r - 2] = a->dims[r - 2 + ta];
    c->out[0].spec.dims[r - 1] = b->dims[r - 1 - tb];
    return SYN_OK;
}

SYN__COST(matmul) {
    const syn_spec *a = &c->in[0].spec;
    const int64_t k = a->dims[a->rank - (c->attr[0].i ? 2 : 1)];
    *cost = (syn_cost){2 * syn__elems(&c->out[0]) * (uint64_t)k, syn__input_bytes(c),
                       syn__output_bytes(c)};
}

SYN__CPU(matmul) {
    const syn_spec *o = &c->out[0].spec;
    const int r = o->rank;
    const bool ta = c->attr[0].i != 0, tb = c->attr[1].i != 0;
    const int64_t m = o->dims[r - 2], n = o->dims[r - 1], k = c->in[0].spec.dims[r - (ta ? 2 : 1)];
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *out = c->out[0].data;
    /* Each batch entry is one "row" of a shape whose last dimension stands for the whole matrix. */
    syn_spec batch = *o;
    batch.rank = r - 1;
    const syn_operand *operands[2] = {&c->in[0], &c->in[1]};
    if (k == 0) memset(out, 0, (size_t)syn_spec_bytes(o));
    if (m == 0 || n == 0 || k == 0) return SYN_OK;
    const int64_t lda = leading(&c->in[0]), ldb = leading(&c->in[1]);
    SYN_TRY(check_lengths(c, ta ? m : k, n, lda, ldb));
    for (syn_rows i = {0}; syn__next_row(&i, &batch, operands, 2); out += m * n)
        syn_blas_gemm(ta, tb, m, n, k, a + i.at[0], lda, b + i.at[1], ldb, 0.0f, out, n);
    return SYN_OK;
}

syn_tensor syn_matmul(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a,
                      bool transpose_b) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_rows(ctx, a), syn__dense_rows(ctx, b)};
    const syn_attr attr[2] = {{.i = transpose_a}, {.i = transpose_b}};
    syn__dispatch(ctx, SYN_OP_MATMUL, in, 2, attr, 2, NULL, &out);
    return out;
}
