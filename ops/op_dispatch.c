/* Which rows the experts get: expert_capacity limits their number, and expert_order is the order of
   the rows that a rank gets from other ranks with expert parallelism. */
#include "ops/ops.h"
#include "ops/rules.h"

/* ---- expert_capacity ---- */

/* attribute: capacity */
SYN__INFER(expert_capacity) {
    const syn_spec *places = &c->in[0].spec, *sizes = &c->in[1].spec;
    int64_t rows;
    SYN_TRY(syn__check_dtype(c, 0, SYN_I32));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I64));
    if (places->rank != 1) return syn__bad_input(c, 0, "places (R)");
    if (sizes->rank != 1) return syn__bad_input(c, 1, "the number of rows of each expert (E)");
    if (c->attr[0].i < 1 || !syn_mul_i64(sizes->dims[0], c->attr[0].i, &rows) || rows > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_INVALID, "%lld experts cannot have %lld rows each",
                        (long long)sizes->dims[0], (long long)c->attr[0].i);
    c->out[0].spec = (syn_spec){SYN_I32, 1, {rows}};
    c->out[1].spec = *sizes;
    return SYN_OK;
}

SYN__COST(expert_capacity) {
    *cost = (syn_cost){syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(expert_capacity) {
    const syn_operand *in = &c->in[0], *counts = &c->in[1];
    const int64_t n = counts->spec.dims[0], rows = in->spec.dims[0], capacity = c->attr[0].i;
    int32_t *places = c->out[0].data;
    int64_t *sizes = c->out[1].data, at = 0;
    for (int64_t e = 0; e < n; e++) {
        const int64_t count = ((const int64_t *)counts->data)[e * counts->strides[0]];
        if (count < 0 || count > rows - at)
            return SYN_FAIL(c->err, SYN_E_INVALID, "the experts' sizes do not add up to %lld rows",
                            (long long)rows);
        for (int64_t i = 0; i < capacity; i++)
            *places++ = i < count ? ((const int32_t *)in->data)[(at + i) * in->strides[0]] : -1;
        sizes[e] = capacity;
        at += count;
    }
    return SYN_OK;
}

syn_tensor syn_expert_capacity(syn_ctx *ctx, syn_tensor places, int64_t capacity,
                               syn_tensor *sizes) {
    syn_tensor out[2] = {{0}, {0}};
    const syn_tensor in[2] = {places, *sizes};
    const syn_attr attr[1] = {{.i = capacity}};
    syn__call_op(ctx, SYN_OP_EXPERT_CAPACITY, in, 2, attr, 1, NULL, out);
    *sizes = out[1];
    return out[0];
}

/* ---- expert_order ---- */

/* attributes: first expert, number of experts, number of rows */
SYN__INFER(expert_order) {
    const syn_spec *counts = &c->in[0].spec;
    const int64_t first = c->attr[0].i, n = c->attr[1].i, rows = c->attr[2].i;
    SYN_TRY(syn__check_dtype(c, 0, SYN_I64));
    if (counts->rank != 2) return syn__bad_input(c, 0, "rows per source and expert (S, E)");
    if (first < 0 || n < 1 || first > counts->dims[1] - n)
        return SYN_FAIL(c->err, SYN_E_INVALID, "there are no experts %lld to %lld among %lld",
                        (long long)first, (long long)(first + n - 1), (long long)counts->dims[1]);
    if (rows < 0 || rows > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_INVALID, "%lld rows cannot be ordered", (long long)rows);
    c->out[0].spec = (syn_spec){SYN_I32, 1, {rows}};
    c->out[1].spec = (syn_spec){SYN_I64, 1, {n}};
    return SYN_OK;
}

/* One addition per row and per count. */
SYN__COST(expert_order) {
    *cost = (syn_cost){syn__elems(&c->out[0]) + syn__elems(&c->in[0]), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

/* Fails unless the counts of the rank's experts add up to all rows. */
static syn_status check_counts(const syn_call *c) {
    const syn_operand *in = &c->in[0];
    const int64_t first = c->attr[0].i, n = c->attr[1].i, rows = c->attr[2].i;
    int64_t all = 0;
    bool valid = true;
    for (int64_t s = 0; s < in->spec.dims[0]; s++)
        for (int64_t e = first; valid && e < first + n; e++) {
            const int64_t count = ((const int64_t *)in->data)[s * in->strides[0] + e];
            valid = count >= 0 && count <= rows - all;
            all += count;
        }
    if (valid && all == rows) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "the experts' sizes do not add up to %lld rows",
                    (long long)rows);
}

SYN__CPU(expert_order) {
    const syn_operand *in = &c->in[0];
    const int64_t first = c->attr[0].i, n = c->attr[1].i, sources = in->spec.dims[0];
    int32_t *places = c->out[0].data;
    int64_t *sizes = c->out[1].data, at = 0;
    SYN_TRY(check_counts(c));
    for (int64_t e = first; e < first + n; e++) {
        int64_t begin = 0; /* of the rows of this expert from source s */
        sizes[e - first] = 0;
        for (int64_t s = 0; s < sources; s++) {
            const int64_t *counts = (const int64_t *)in->data + s * in->strides[0];
            for (int64_t i = first; i < e; i++) begin += counts[i];
            for (int64_t k = 0; k < counts[e]; k++) places[at++] = (int32_t)(begin + k);
            for (int64_t i = e; i < first + n; i++) begin += counts[i];
            sizes[e - first] += counts[e];
        }
    }
    return SYN_OK;
}

syn_tensor syn_expert_order(syn_ctx *ctx, syn_tensor counts, int64_t first, int64_t experts,
                            int64_t rows, syn_tensor *sizes) {
    syn_tensor out[2] = {{0}, {0}};
    const syn_tensor in[1] = {syn__dense_last_dim(ctx, counts)};
    const syn_attr attr[3] = {{.i = first}, {.i = experts}, {.i = rows}};
    syn__call_op(ctx, SYN_OP_EXPERT_ORDER, in, 1, attr, 3, NULL, out);
    *sizes = out[1];
    return out[0];
}
