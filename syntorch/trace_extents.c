/* What a call multiplies. */
#include "syntorch/trace_private.h"

/* Queries, keys and values are [B,H,T,D]; the heads of queries count. */
static syn_extents attention_extents(const syn_call *call) {
    const int64_t *q = call->in[0].spec.dims, *k = call->in[1].spec.dims;
    return (syn_extents){q[0] * q[1], q[2], k[2], q[3]};
}

/* Leading dimensions are rows of a `linear` and products of their own of a `matmul`; what is summed
   over follows from the flops: 2 a term, and 1 more where a sum is added to. */
static syn_extents product_extents(const syn_call *call, uint64_t flops) {
    const syn_spec *out = &call->out[0].spec;
    const int64_t elems = syn_spec_elems(out);
    if (out->rank < 2 || elems <= 0) return (syn_extents){0, 0, 0, 0};
    const int64_t columns = out->dims[out->rank - 1], inner = (int64_t)flops / elems / 2;
    const int64_t rows =
        call->def == &syn_op_table[SYN_OP_LINEAR] ? elems / columns : out->dims[out->rank - 2];
    return (syn_extents){elems / columns / rows, rows, columns, inner};
}

syn_extents syn__call_extents(const syn_call *call, uint64_t flops) {
    const syn_opdef *def = call->def;
    if (def->category == SYN_CATEGORY_MATMUL && call->n_out > 0)
        return product_extents(call, flops);
    const bool fused = def->category == SYN_CATEGORY_ATTENTION && (def->flags & SYN_OPF_FUSED) != 0;
    if (fused && call->n_in > 1) return attention_extents(call);
    return (syn_extents){0, 0, 0, 0};
}
