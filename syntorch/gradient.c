/* The gradients of tensors: where they are stored, and how they are added. backward.c decides which
   gradients are built. A gradient keeps its storage allocated. Each storage counts the gradients in
   it (storage.grads), because a gradient that shares its storage must not be overwritten. */
#include "syntorch/gradient.h"

#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/dispatch.h"

static syn_storage *storage_of(syn_ctx *ctx, uint32_t tensor) {
    return syn__storage(ctx, syn_trace_tensor_row(ctx->trace, tensor));
}

void syn__grad_hold(syn_ctx *ctx, uint32_t tensor) {
    syn_storage *s = storage_of(ctx, tensor);
    s->kept++;
    s->grads++;
}

void syn__grad_unhold(syn_ctx *ctx, uint32_t tensor) {
    const uint32_t row = syn_trace_tensor_row(ctx->trace, tensor);
    const uint32_t number = syn__storage_number(ctx, row);
    if (!number) return; /* the context has failed */
    ctx->storages.at[number].grads--;
    syn__storage_unkeep(&ctx->storages, number);
}

uint32_t syn__grad_version(const syn_ctx *ctx, uint32_t tensor) {
    const uint32_t row = syn_trace_tensor_row(ctx->trace, tensor);
    const syn_storage *s = syn__storage(ctx, row);
    return s && s->version > tensor ? s->version : tensor;
}

/* ---- gradients of leaves ---- */

syn_tensor syn_grad(const syn_ctx *ctx, syn_tensor t) {
    const syn__leaf *leaf = syn__leaf_of(ctx, syn__row(ctx, t));
    return leaf && leaf->grad ? (syn_tensor){syn__grad_version(ctx, leaf->grad), ctx->tag}
                              : (syn_tensor){0};
}

static void set_kind(syn_ctx *ctx, uint32_t tensor, syn_memory_kind kind) {
    const uint32_t row = syn_trace_tensor_row(ctx->trace, tensor);
    const uint32_t number = syn__storage_number(ctx, row);
    if (number) syn__storage_set_kind(&ctx->storages, number, kind);
}

static void drop(syn_ctx *ctx, syn__leaf *leaf) {
    if (leaf->grad) {
        set_kind(ctx, leaf->grad, SYN_MEMORY_OTHER);
        syn__grad_unhold(ctx, leaf->grad);
    }
    leaf->grad = 0;
}

void syn_drop_grads(syn_ctx *ctx) {
    syn__gradients *g = &ctx->gradients;
    for (size_t i = 0; i < g->n_leaves; i++) drop(ctx, &g->leaves[i]);
}

void syn_drop_grad(syn_ctx *ctx, syn_tensor t) {
    syn__leaf *leaf = syn__leaf_of(ctx, syn__row(ctx, t));
    if (leaf) drop(ctx, leaf);
}

/* ---- gradients by tensor row ---- */

void syn__grad_begin(syn_ctx *ctx, uint32_t first_row) {
    ctx->gradients.first_row = first_row;
    ctx->gradients.n_rows = 0;
}

bool syn__grad_extend(syn_ctx *ctx, uint32_t end) {
    syn__gradients *g = &ctx->gradients;
    const uint32_t n = end - g->first_row;
    if (syn_grow(&g->of_row, &g->of_row_cap, n, sizeof *g->of_row, &ctx->error) != SYN_OK)
        return false;
    memset(g->of_row + g->n_rows, 0, (n - g->n_rows) * sizeof *g->of_row);
    g->n_rows = n;
    return true;
}

uint32_t *syn__grad_place(syn_ctx *ctx, uint32_t row) {
    syn__leaf *leaf = syn__leaf_of(ctx, row);
    if (leaf) return &leaf->grad;
    const syn__gradients *g = &ctx->gradients;
    return row >= g->first_row && row - g->first_row < g->n_rows ? &g->of_row[row - g->first_row]
                                                                 : NULL;
}

bool syn__grad_alone(syn_ctx *ctx, uint32_t tensor) {
    return tensor && tensor != SYN__GRAD_SEED && storage_of(ctx, tensor)->grads == 1;
}

bool syn__same_shape(const syn_ctx *ctx, syn_tensor a, uint32_t row) {
    const syn_spec *x = syn_tensor_spec(ctx, a), *y = syn_trace_spec(ctx->trace, row);
    return x->rank == y->rank && memcmp(x->dims, y->dims, sizeof x->dims) == 0;
}

/* The dtype of a row's gradient. */
static syn_dtype dtype_of(const syn_ctx *ctx, uint32_t row) {
    const syn__leaf *leaf = syn__leaf_of(ctx, row);
    if (leaf) return leaf->dtype;
    return (syn_dtype)syn_trace_spec(ctx->trace, row)->dtype;
}

/* A row of the op table. trace->ops is set, because a tape with ops implies that the trace has
   nodes. */
static const syn_opdef *row_of_op(const syn_ctx *ctx, syn_op op) {
    return &ctx->trace->ops[op];
}

static syn_tensor cast(syn_ctx *ctx, syn_tensor g, syn_dtype dtype) {
    const syn_attr attr = {.i = dtype};
    syn_tensor out;
    if (syn_tensor_spec(ctx, g)->dtype == (int32_t)dtype) return g;
    syn__dispatch(ctx, row_of_op(ctx, SYN_OP_CAST), &g, 1, &attr, 1, NULL, &out);
    return out;
}

/* Returns g itself if it can be a leaf's gradient, otherwise a copy. A leaf's gradient must be
   dense, and must not share its storage with another gradient. It also must not be a view, because
   syn_forget may drop the row of a view while the gradient is still needed. */
static syn_tensor own(syn_ctx *ctx, syn_tensor g) {
    const syn_trace_tensor *t = &ctx->trace->tensors[syn__row(ctx, g)];
    syn_tensor out = {0};
    if (syn_tensor_contiguous(ctx, g) && t->producer && t->base == syn__row(ctx, g) &&
        syn__storage(ctx, t->base)->grads == 0)
        return g;
    syn__dispatch(ctx, row_of_op(ctx, SYN_OP_CONTIGUOUS), &g, 1, NULL, 0, NULL, &out);
    return out;
}

/* Fails for a tensor row that has no place for its gradient. */
static void refuse(syn_ctx *ctx, uint32_t row) {
    const uint32_t number = syn_trace_tensor_number(ctx->trace, row);
    if (ctx->trace->tensors[row].flags & SYN_TENSOR_LEAF)
        syn_ctx_fail(ctx, SYN_E_INVALID,
                     "the data of tensor %u, which requires a gradient, was released", number);
    else
        syn_ctx_fail(
            ctx, SYN_E_INVALID,
            "tensor %u was computed before the last backward pass or on another tape, so its "
            "inputs get no gradients",
            number);
}

/* Whether the op that produced a tensor row is still on the current tape. A search is needed only
   if there are several tapes. */
static bool is_on_tape(const syn_ctx *ctx, uint32_t row) {
    const syn__tape *tape = &ctx->gradients.tape;
    const uint32_t node = syn_trace_node_number(ctx->trace, ctx->trace->tensors[row].producer);
    size_t low = 0, high = tape->n;
    if (ctx->gradients.n_others == 0) return true;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tape->entries[middle].at < node) low = middle + 1;
        else high = middle;
    }
    if (low < tape->n && tape->entries[low].node == node) return true;
    /* A kept op is near the end, in the region that ran last. */
    for (size_t i = tape->n; tape->n_inputs > 0 && i-- > 0;)
        if (tape->entries[i].node == node) return true;
    return false;
}

void syn__grad_add(syn_ctx *ctx, uint32_t row, syn_tensor g) {
    uint32_t *place = syn__grad_place(ctx, row);
    const bool is_leaf = syn__leaf_of(ctx, row) != NULL;
    if (ctx->error.code != SYN_OK) return;
    if (!place || (!is_leaf && !is_on_tape(ctx, row))) {
        refuse(ctx, row);
        return;
    }
    if (!syn__same_shape(ctx, g, row)) {
        char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
        syn_ctx_fail(ctx, SYN_E_SHAPE, "a gradient rule returned %s for %s",
                     syn_spec_text(syn_tensor_spec(ctx, g), a, sizeof a),
                     syn_spec_text(syn_trace_spec(ctx->trace, row), b, sizeof b));
        return;
    }
    const syn_dtype dtype = dtype_of(ctx, row);
    const bool in_place = *place && syn__grad_alone(ctx, *place);
    if (!in_place || dtype != SYN_F32) g = cast(ctx, g, dtype); /* an f32 sum accepts any dtype */
    if (!g.id) return;
    if (*place) {
        const syn_tensor pair[2] = {{syn__grad_version(ctx, *place), ctx->tag}, g};
        syn_tensor sum;
        syn__dispatch(ctx, row_of_op(ctx, in_place ? SYN_OP_ACCUMULATE : SYN_OP_ADD), pair, 2, NULL,
                      0, NULL, &sum);
        if (!sum.id || in_place) return;
        if (is_leaf) set_kind(ctx, *place, SYN_MEMORY_OTHER);
        syn__grad_unhold(ctx, *place);
        syn__grad_hold(ctx, sum.id);
        if (is_leaf) set_kind(ctx, sum.id, SYN_MEMORY_GRADIENTS);
        *place = sum.id;
        return;
    }
    if (is_leaf) g = own(ctx, g);
    if (!g.id) return;
    *place = g.id;
    syn__grad_hold(ctx, g.id);
    if (is_leaf) set_kind(ctx, g.id, SYN_MEMORY_GRADIENTS);
}

void syn_add_grad(syn_ctx *ctx, syn_tensor t, syn_tensor g) {
    const uint32_t row = syn__own_row(ctx, t, "given a gradient");
    if (row && !syn__leaf_of(ctx, row))
        syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u does not require a gradient", t.id);
    if (ctx->error.code == SYN_OK) syn__grad_add(ctx, row, g);
}

syn_dtype syn_grad_dtype(const syn_grad_call *call, int i) {
    return dtype_of(call->ctx, syn__row(call->ctx, call->in[i]));
}
