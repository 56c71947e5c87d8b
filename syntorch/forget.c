/* syn_forget, which drops rows of the trace together with their data. */
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"

/* Sets stays[row - first] for each tensor row from `first`. A row stays if it owns a storage that
   is still allocated, is the current version in such a storage, or is in `keep`. */
static void choose(const syn_ctx *ctx, uint32_t first, bool *stays, const syn_tensor *keep,
                   int n_keep) {
    const syn_trace *t = ctx->trace;
    for (uint32_t row = first; row < t->n_tensors; row++) {
        const syn_storage *storage = syn__storage(ctx, row);
        stays[row - first] = storage && (t->tensors[row].base == row ||
                                         storage->version == syn_trace_tensor_number(t, row));
    }
    for (int k = 0; k < n_keep; k++) {
        const uint32_t row = syn__row(ctx, keep[k]);
        if (row >= first && syn__storage(ctx, row)) stays[row - first] = true;
    }
}

/* Removes parameters and buffers whose rows were dropped. The remaining parameters move up, and the
   entries of gradients.leaves get their new indices. */
static void forget_params(syn_ctx *ctx) {
    size_t left = 0;
    for (size_t i = 0; i < ctx->n_params; i++) {
        const uint32_t row = syn__row(ctx, ctx->params[i].tensor);
        if (!row) continue;
        const syn_storage *storage = syn__storage(ctx, row);
        if (storage && storage->leaf) ctx->gradients.leaves[storage->leaf - 1].param = left;
        ctx->param_random[left] = ctx->param_random[i];
        ctx->params[left++] = ctx->params[i];
    }
    ctx->n_params = left;
    left = 0;
    for (size_t i = 0; i < ctx->n_buffers; i++)
        if (syn__row(ctx, ctx->buffers[i].tensor)) ctx->buffers[left++] = ctx->buffers[i];
    ctx->n_buffers = left;
    syn__renumber_param_names(ctx);
}

void syn_forget(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep) {
    syn_trace *t = ctx->trace;
    syn__wait_for_all(ctx); /* so that rows get their times and storages are freed */
    syn__tape_clear(ctx);
    syn_release(ctx, mark, keep, n_keep);
    if (ctx->error.code != SYN_OK) return; /* keep everything, for debugging */
    syn__drop_plan what = {.first_node = syn__first_row(&t->node_numbers, t->n_nodes, mark.node),
                           .first_tensor =
                               syn__first_row(&t->tensor_numbers, t->n_tensors, mark.tensor),
                           .texts = ctx->scopes,
                           .n_texts = (size_t)ctx->n_scopes,
                           .hashed = !ctx->unhashed};
    const size_t n = t->n_tensors - what.first_tensor;
    bool *stays = syn_calloc(n + 1, sizeof *stays);
    if (!stays) {
        SYN_FAIL_NOMEM(&ctx->error, n, "the rows to drop");
        return;
    }
    choose(ctx, what.first_tensor, stays, keep, n_keep);
    what.stays = stays;
    if (syn__trace_drop(t, &what, &ctx->error) == SYN_OK) forget_params(ctx);
    ctx->forget_ns = syn__clock_ns();
    syn_free(stays);
}

void syn_ctx_set_hashing(syn_ctx *ctx, bool hashing) {
    ctx->unhashed = !hashing;
}
