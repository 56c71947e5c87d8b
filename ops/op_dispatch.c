/* expert_order: the order of the rows that a rank gets from other ranks with expert parallelism. */
#include "ops/ops.h"
#include "ops/rules.h"

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
