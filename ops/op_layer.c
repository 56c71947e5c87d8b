/* embedding, layernorm. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/half.h"

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
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_rows(ctx, table), syn__dense_rows(ctx, ids)};
    const syn_attr attr[1] = {{.i = first_row}};
    syn__dispatch(ctx, SYN_OP_EMBEDDING, in, 2, attr, 1, NULL, &out);
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
