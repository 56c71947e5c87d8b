/* Dtype and extents of a node's work (extents.h). */
#include "syntorch/graph/extents.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/expert_choice.h"

/* Queries, keys and values have the shape [B,H,T,D]; the number of heads is taken from the
   queries. */
static syn_extents attention_extents(const syn_spec *queries, const syn_spec *keys) {
    const int64_t *q = queries->dims, *k = keys->dims;
    if (queries->rank < 4 || keys->rank < 4) return (syn_extents){0};
    return (syn_extents){.batch = q[0] * q[1], .rows = q[2], .columns = k[2], .inner = q[3]};
}

/* The value of an attribute; NULL: the node does not have it. */
static const syn_attribute *attribute(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    return NULL;
}

static const char *list_of(const syn_node *node, const char *name) {
    const syn_attribute *a = attribute(node, name);
    return a && a->type == SYN_VALUE_TEXT ? a->text : "";
}

/* The next number of a list such as "12,1,3"; 0 at its end. */
static int64_t next_number(const char **list) {
    int64_t n = 0;
    for (; **list >= '0' && **list <= '9'; ++*list)
        if (n <= INT32_MAX) n = n * 10 + **list - '0';
    if (**list == ',') ++*list;
    return n;
}

/* The mean number of keys that a sequence's queries attend to. The queries are the last tokens of
   the sequence, which has `keys` tokens. */
static double mean_keys(double queries, double keys, double window) {
    const double fewest = keys - queries + 1, most = window > 0 && window < keys ? window : keys;
    if (most <= fewest) return most;
    const double growing = most - fewest; /* number of queries that attend to fewer keys */
    return (growing * (fewest + most - 1) / 2 + (queries - growing) * most) / queries;
}

/* See syn_extents. queries: (1, H, T, D). */
static syn_extents paged_extents(const syn_node *node, const syn_spec *queries) {
    enum { TILE = 64 };
    const syn_attribute *window = attribute(node, "window");
    const double reach = window ? (double)window->i64 : 0;
    const char *counts = list_of(node, "queries"), *keys = list_of(node, "keys");
    int64_t n, most = 0, longest = 0, sequences = 0;
    double columns = 0;
    while ((n = next_number(&counts)) > 0) {
        const int64_t k = next_number(&keys);
        if (k < n) return (syn_extents){0};
        if (n > most) most = n;
        if (k > longest) longest = k;
        sequences++;
        columns += (double)((n + TILE - 1) / TILE) * ceil(mean_keys((double)n, (double)k, reach));
    }
    if (queries->rank != 4 || most == 0 || columns > 1e15) return (syn_extents){0};
    return (syn_extents){.batch = queries->dims[1],
                         .rows = most,
                         .columns = (int64_t)columns,
                         .inner = queries->dims[3],
                         .sequences = sequences,
                         .longest = longest};
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
    else if (strcmp(node->op, "paged_attention") == 0 && in[0])
        node->extents = paged_extents(node, in[0]);
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
