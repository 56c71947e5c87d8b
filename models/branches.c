/* Runs the two branches of a layer, attention and MLP, sequentially or in parallel. All
   families with such layers share it. */
#include "models/family_private.h"
#include "syntorch/gradient.h"

/* Normalizes x and runs the branch up to its row-parallel layer. */
static syn_tensor inside(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                         const syn__branch *b) {
    if (b->norm) x = syn__model_norm(m, x, b->norm, b->norm_label);
    return b->inside(m, layer, i, x);
}

syn_tensor syn__model_post_norm(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                                const syn__branch branches[2], const syn__post_norm norms[2]) {
    syn_ctx *ctx = m->ctx;
    const syn_mark mark = syn_ctx_mark(ctx);
    for (const syn__branch *b = branches; b < branches + 2; b++, norms += norms != NULL) {
        syn_push_scope(ctx, b->scope);
        syn_tensor y = inside(m, layer, i, x, b);
        if (b->out) {
            y = syn_row_linear_partial(ctx, y, b->out, m->options.tp, b->out_label);
            y = syn__model_reduce(m, y, b->out->bias);
        }
        if (norms) y = syn__model_norm(m, y, norms->norm, norms->label);
        y = syn__model_drop(m, y, i, b->site);
        y = syn__model_scale(m, y, m->config.residual_factor, "scaled");
        x = syn_name(ctx, syn_add(ctx, x, y), "residual");
        syn_release(ctx, mark, &x, 1);
        syn_pop_scope(ctx);
    }
    return x;
}

syn_tensor syn__model_sequential(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                                 const syn__branch branches[2]) {
    return syn__model_post_norm(m, layer, i, x, branches, NULL);
}

/* Returns this rank's partial sum of the branch's output. All ranks drop the same elements, so
   dropout can be applied before the partial sums are added. */
static syn_tensor partial(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                          const syn__branch *b) {
    syn_push_scope(m->ctx, b->scope);
    syn_tensor y = inside(m, layer, i, x, b);
    y = syn_row_linear_partial(m->ctx, y, b->out, m->options.tp, b->out_label);
    y = syn__model_drop_whole(m, y, i, b->site);
    syn_pop_scope(m->ctx);
    return y;
}

/* Returns the bias (C) of the branch's output, which the partial sums y (B, T, C) do not include.
   With dropout, the result is (B, T, C), and the same elements are dropped as in y. */
static syn_tensor bias_of(syn_model *m, int64_t i, syn_tensor y, const syn__branch *b) {
    const syn_tensor bias = syn_current_version(m->ctx, b->out->bias);
    if (!(m->dropout.residual > 0) || !syn_requires_grad(m->ctx, bias)) return bias;
    const syn_spec *like = syn_tensor_spec(m->ctx, y);
    return syn__model_drop(m, syn_expand(m->ctx, bias, like->dims, like->rank), i, b->site);
}

static syn_tensor biases_of(syn_model *m, int64_t i, syn_tensor y, const syn__branch branches[2]) {
    if (syn__model_tp(m) == 1) return SYN_NO_BIAS; /* y includes the biases */
    const syn_tensor a = bias_of(m, i, y, &branches[0]), b = bias_of(m, i, y, &branches[1]);
    return !a.id ? b : !b.id ? a : syn_name(m->ctx, syn_add(m->ctx, a, b), "biases");
}

syn_tensor syn__model_parallel(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                               const syn__branch branches[2]) {
    syn_ctx *ctx = m->ctx;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor y = partial(m, layer, i, x, &branches[0]);
    syn_release(ctx, mark, &y, 1);
    y = syn_name(ctx, syn_add(ctx, y, partial(m, layer, i, x, &branches[1])), "branches");
    if (m->cut) y = syn__model_reduce(m, y, SYN_NO_BIAS); /* then the biases have its shape */
    const syn_tensor biases = biases_of(m, i, y, branches);
    if (!m->cut) y = syn__model_reduce(m, y, biases);
    else if (biases.id) y = syn_name(ctx, syn_add(ctx, y, biases), "bias");
    return syn_name(ctx, syn_add(ctx, x, y), "residual");
}
