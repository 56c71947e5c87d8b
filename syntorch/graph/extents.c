/* Dtype and extents of a node's work (extents.h). */
#include "syntorch/graph/extents.h"

#include <string.h>

#include "syntorch/base/expert_choice.h"

/* Queries, keys and values have the shape [B,H,T,D]; the number of heads is taken from the
   queries. */
static syn_extents attention_extents(const syn_spec *queries, const syn_spec *keys) {
    const int64_t *q = queries->dims, *k = keys->dims;
    if (queries->rank < 4 || keys->rank < 4) return (syn_extents){0};
    return (syn_extents){.batch = q[0] * q[1], .rows = q[2], .columns = k[2], .inner = q[3]};
}

/* Leading dimensions are rows for `linear` and batch dimensions for `matmul`. The rows of a
   grouped_linear are divided among its matrices with rows, the batch. The inner size is computed
   from the flops: an element of the output takes 2 flops per element of the inner
   dimension, and 1 more if something is added to the product. */
static syn_extents product_extents(const syn_node *node, const syn_spec *matrices,
                                   const syn_spec *out) {
    const int64_t elems = syn_spec_elems(out);
    if (out->rank < 2 || elems <= 0) return (syn_extents){0};
    const int64_t columns = out->dims[out->rank - 1], inner = (int64_t)node->flops / elems / 2;
    const bool linear = strcmp(node->op, "linear") == 0;
    if (strcmp(node->op, "grouped_linear") == 0 && matrices && matrices->rank == 3) {
        const int64_t all = elems / columns, used = syn_experts_used(matrices->dims[0], all);
        return (syn_extents){
            .batch = used, .rows = (all + used - 1) / used, .columns = columns, .inner = inner};
    }
    const int64_t rows = linear ? elems / columns : out->dims[out->rank - 2];
    return (syn_extents){
        .batch = elems / columns / rows, .rows = rows, .columns = columns, .inner = inner};
}

void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out) {
    const syn_spec *computed = data ? data : in[0] ? in[0] : out;
    node->dtype = computed ? (syn_dtype)computed->dtype : SYN_F32;
    node->extents = (syn_extents){0};
    if (node->category == SYN_CATEGORY_MATMUL && out)
        node->extents = product_extents(node, in[1], out);
    else if (node->category == SYN_CATEGORY_ATTENTION && (node->flags & SYN_NODE_FUSED) && in[1])
        node->extents = attention_extents(in[0], in[1]);
    else if (node->category == SYN_CATEGORY_ATTENTION && out && out->rank == 4)
        node->extents = (syn_extents){.batch = out->dims[0] * out->dims[1],
                                      .rows = out->dims[2],
                                      .columns = out->dims[3],
                                      .inner = 0};
}

bool syn__is_lookup(const char *op) {
    return strcmp(op, "embedding") == 0;
}

/* Between two lookups of a batch there are only collectives, sums of embeddings and views. */
syn__lookup syn__lookup_before(const syn_node *node, const char *op, syn_category category,
                               syn_phase phase, uint32_t step) {
    if (phase != node->phase || step != node->step) return SYN__LOOKUP_FIRST;
    if (syn__is_lookup(op)) return SYN__LOOKUP_SAME_BATCH;
    switch (category) {
    case SYN_CATEGORY_ELEMENTWISE:
    case SYN_CATEGORY_DATA_MOVEMENT:
    case SYN_CATEGORY_VIEW:
    case SYN_CATEGORY_COMMUNICATION:
        return SYN__LOOKUP_CONTINUE;
    default:
        return SYN__LOOKUP_FIRST;
    }
}
