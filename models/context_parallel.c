/* Attention and positions of sequences that are divided among ranks; see context_parallel.h. */
#include "models/context_parallel.h"

#include <math.h>

#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

int64_t syn__cp_ranks(const syn_model *m) {
    return m->options.cp ? m->options.cp->size : 1;
}

syn_status syn__cp_check(const syn_model *m, syn_error *err) {
    const syn_model_options *o = &m->options;
    const syn_model_config *c = &m->config;
    if (!o->cp) return SYN_OK;
    if (!o->cp_a2a && !o->cp_p2p)
        return SYN_FAIL(err, SYN_E_INVALID, "context parallelism needs cp_a2a, cp_p2p or both");
    SYN_TRY(syn_model_context_check(c, o->tp ? o->tp->size : 1, o->cp_a2a ? o->cp_a2a->size : 1,
                                    o->cp_p2p != NULL, err));
    if (o->cp_p2p && (!o->fused_attention || o->recompute == SYN_RECOMPUTE_OP))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a ring or all-gathers of keys and values need fused attention, and cannot "
                        "save the outputs of single ops");
    return SYN_OK;
}

bool syn__cp_can_train(syn_model *m, int64_t tokens, syn_tensor mask) {
    const syn_model_dropout *d = &m->dropout;
    if (!m->options.cp) return true;
    if (tokens % 2 != 0)
        syn_ctx_fail(m->ctx, SYN_E_SHAPE,
                     "context parallelism: a rank has two pieces of each sequence, so its %lld "
                     "tokens must be even",
                     (long long)tokens);
    else if (mask.id)
        syn_ctx_fail(m->ctx, SYN_E_UNSUPPORTED, "context parallelism does not support masks");
    else if (d->embedding > 0 || d->attention > 0 || d->residual > 0)
        syn_ctx_fail(m->ctx, SYN_E_UNSUPPORTED, "context parallelism does not support dropout");
    return syn_ctx_status(m->ctx) == SYN_OK;
}

void syn__cp_count_pass(syn_model *m) {
    const uint32_t step = syn_ctx_trace(m->ctx)->step;
    m->pass = step == m->step ? m->pass + 1 : 0;
    m->step = step;
}

syn_tensor syn__cp_positions(syn_model *m, int64_t tokens) {
    const syn_group *cp = m->options.cp;
    const syn_spec spec = {SYN_I32, 2, {1, tokens}};
    const int64_t half = tokens / 2,
                  begin[2] = {cp->index * half, (2 * cp->size - 1 - cp->index) * half};
    int32_t *ids = NULL;
    if (syn_ctx_has_data(m->ctx)) {
        ids = syn_malloc((size_t)syn_spec_bytes(&spec));
        if (!ids) return syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: positions of a batch");
        for (int64_t i = 0; i < tokens; i++) ids[i] = (int32_t)(begin[i / half] + i % half);
    }
    const syn_tensor positions = syn_input(m->ctx, "positions", &spec, ids);
    syn_free(ids);
    return positions;
}

/* x (B, H, T, D), this rank's tokens -> (B, H/n, n T, D): the tokens of all ranks of the group, but
   only this rank's heads. */
static syn_tensor to_heads(syn_ctx *ctx, syn_tensor x, const syn_group *group) {
    const int64_t *n = syn_tensor_spec(ctx, x)->dims;
    const int64_t dims[5] = {n[0], group->size, n[1] / group->size, n[2], n[3]};
    x = syn_permute(ctx, syn_reshape(ctx, x, dims, 5), (const int[]){1, 0, 2, 3, 4}, 5);
    return syn_zigzag_join(ctx, syn_all_to_all(ctx, x, NULL, NULL, 0, group), 2);
}

/* The opposite, after attention: y (B, n T, H/n, D) -> (B, T, n, H/n, D). */
static syn_tensor to_tokens(syn_ctx *ctx, syn_tensor y, const syn_group *group) {
    y = syn_all_to_all(ctx, syn_zigzag_split(ctx, y, 1, group->size), NULL, NULL, 0, group);
    return syn_permute(ctx, y, (const int[]){1, 2, 0, 3, 4}, 5);
}

/* The number of a call in layer i of the part, for the tags of its messages. */
static int64_t call_of(const syn_model *m, int64_t i) {
    return m->pass * m->config.n_layer + m->part.first_layer + i;
}

syn_tensor syn__cp_attend(syn_model *m, int64_t i, syn_tensor q, syn_tensor k, syn_tensor v,
                          const syn_heads_options *how) {
    syn_ctx *ctx = m->ctx;
    const syn_group *a2a = m->options.cp_a2a, *ring = m->options.cp_p2p;
    const int64_t dims[3] = {syn_tensor_dim(ctx, q, 0), syn_tensor_dim(ctx, q, 2), -1};
    syn_tensor y;
    if (a2a) {
        q = to_heads(ctx, q, a2a);
        k = to_heads(ctx, k, a2a);
        v = to_heads(ctx, v, a2a);
    }
    if (ring) {
        const double scale =
            how->scale != 0 ? how->scale : 1.0 / sqrt((double)syn_tensor_dim(ctx, q, 3));
        y = syn_context_attention(ctx, q, k, v, scale, m->options.cp_gathers, call_of(m, i), ring);
    } else {
        const int64_t heads[4] = {dims[0], syn_tensor_dim(ctx, q, 2), syn_tensor_dim(ctx, q, 1),
                                  -1};
        syn_heads_options own = *how;
        if (how->sinks.id)
            own.sinks = syn_slice(ctx, how->sinks, 0, a2a->index * heads[2], heads[2]);
        y = syn_reshape(ctx, syn_heads_attend(ctx, q, k, v, &own), heads, 4);
    }
    if (a2a) y = to_tokens(ctx, y, a2a);
    return syn_reshape(ctx, y, dims, 3);
}
