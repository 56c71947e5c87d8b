/* Runs multi-head latent attention (mla.h). There are two ways to compute it. Either keys and
   values of all heads are computed from the latents, which is cheaper for long prompts and in
   training. Or kv_b's parts for keys and values multiply the queries and the result instead, which
   is cheaper in decoding ("absorbed", DeepSeek-V2, section 2.1.2): all heads then attend to the
   latents. */
#include "models/mla.h"

#include <math.h>

double syn__latent_scale(const syn_model_config *c) {
    const syn_latent_config *l = &c->latent;
    const syn_rotary *r = &c->rotary;
    const double scale = 1 / sqrt((double)(l->nope + l->rope));
    if (r->scaling == SYN_ROPE_DEFAULT || r->mscale_all == 0 || r->factor <= 1) return scale;
    const double grown = 0.1 * r->mscale_all * log(r->factor) + 1; /* see YaRN */
    return scale * grown * grown;
}

/* The norms of latents do not use the configuration's epsilon. */
static syn_tensor normalize(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                            const char *label) {
    const double epsilon = 1e-6;
    return syn_name(
        m->ctx, syn_rmsnorm(m->ctx, x, syn_current_version(m->ctx, norm->weight), epsilon), label);
}

/* A product with a matrix that every rank has, on this rank's tokens. */
static syn_tensor replicated(syn_model *m, syn_tensor x, const syn_layer_linear *l,
                             const char *label) {
    return syn_column_linear(m->ctx, x, l, false, NULL, label);
}

/* x (B, T, C) -> queries (B, H/tp, T, N + R) with rotary embedding. */
static syn_tensor queries(syn_model *m, const syn__mla *mla, syn_tensor x) {
    const syn_latent_config *l = &m->config.latent;
    if (l->q > 0) {
        x = normalize(m, replicated(m, x, &mla->q_a, "q_a_proj"), &mla->q_norm, "q_a_layernorm");
        x = syn_column_linear(m->ctx, syn__model_enter(m, x), &mla->q_b, false, NULL, "q_b_proj");
    } else {
        x = syn_column_linear(m->ctx, syn__model_enter(m, x), &mla->q, false, NULL, "q_proj");
    }
    return syn__model_apply_rotary(m, syn_heads_split(m->ctx, x, l->nope + l->rope), l->nope);
}

/* What the keys and values of all heads are computed from. */
typedef struct latents {
    syn_tensor latent; /* (B, S, L), normalized */
    syn_tensor rope;   /* (B, 1, S, R), the rotary part of the keys */
    syn_tensor both;   /* (B, 1, S, L + R), the two side by side; in training invalid */
} latents;

/* x (B, T, C) -> the latents of these tokens and, in inference, of the tokens before them. In a
   packed step, only `both` has the tokens before them: it is the paged cache. */
static latents latents_of(syn_model *m, const syn__mla *mla, int64_t i, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const syn_latent_config *l = &m->config.latent;
    const syn_tensor kv = replicated(m, x, &mla->kv_a, "kv_a_proj");
    const syn_tensor normalized =
        normalize(m, syn_slice(ctx, kv, 2, 0, l->kv), &mla->kv_norm, "kv_a_layernorm");
    latents out = {.latent = syn__model_enter(m, normalized),
                   .rope = syn__model_enter(m, syn_slice(ctx, kv, 2, l->kv, l->rope))};
    out.rope = syn__model_apply_rotary(m, syn_heads_split(ctx, out.rope, l->rope), 0);
    if (m->training) return out;
    const syn_tensor both[2] = {syn_heads_split(ctx, out.latent, l->kv), out.rope};
    out.both = syn__causal_keys(m, i, syn_concat(ctx, both, 2, 3));
    if (m->paged.step) return out;
    const int64_t *n = syn_tensor_spec(ctx, out.both)->dims, flat[3] = {n[0], n[2], l->kv};
    out.latent = syn_reshape(ctx, syn_slice(ctx, out.both, 3, 0, l->kv), flat, 3);
    out.rope = syn_slice(ctx, out.both, 3, l->kv, l->rope);
    return out;
}

/* Computes keys and values of all heads. */
static syn_tensor attend_to_heads(syn_model *m, const syn__mla *mla, int64_t i, syn_tensor q,
                                  const latents *in) {
    syn_ctx *ctx = m->ctx;
    const syn_latent_config *l = &m->config.latent;
    syn_tensor kv = syn_column_linear(ctx, in->latent, &mla->kv_b, false, NULL, "kv_b_proj");
    kv = syn_heads_split(ctx, kv, l->nope + l->value);
    int64_t dims[4];
    for (int d = 0; d < 4; d++) dims[d] = syn_tensor_dim(ctx, kv, d);
    dims[3] = l->rope;
    const syn_tensor keys[2] = {syn_slice(ctx, kv, 3, 0, l->nope),
                                syn_expand(ctx, in->rope, dims, 4)};
    const syn_tensor k = syn_name(ctx, syn_concat(ctx, keys, 2, 3), "keys");
    return syn__model_attend(m, i, q, k, syn_slice(ctx, kv, 3, l->nope, l->value));
}

/* Computes the scores of all heads from the latents. The values are the latents, too, so each
   head's result is multiplied by its part of kv_b afterwards. */
static syn_tensor attend_to_latents(syn_model *m, const syn__mla *mla, int64_t i, syn_tensor q,
                                    const latents *in) {
    syn_ctx *ctx = m->ctx;
    const syn_latent_config *l = &m->config.latent;
    const int64_t b = syn_tensor_dim(ctx, q, 0), h = syn_tensor_dim(ctx, q, 1),
                  t = syn_tensor_dim(ctx, q, 2);
    const int64_t by_head[3] = {h, l->nope + l->value, l->kv}, rows[3] = {h, b * t, l->nope},
                  heads[4] = {h, b, t, l->kv}, results[3] = {b * t, h, l->kv},
                  out[3] = {b, t, h * l->value};
    const int swap[4] = {1, 0, 2, 3};
    const syn_tensor weight =
        syn_cast(ctx, syn_current_version(ctx, mla->kv_b.weight), m->options.dtype);
    const syn_tensor w = syn_reshape(ctx, weight, by_head, 3);
    syn_tensor x = syn_permute(ctx, syn_slice(ctx, q, 3, 0, l->nope), swap, 4);
    x = syn_matmul(ctx, syn_reshape(ctx, x, rows, 3), syn_slice(ctx, w, 1, 0, l->nope), false,
                   false);
    x = syn_permute(ctx, syn_reshape(ctx, syn_name(ctx, x, "absorbed"), heads, 4), swap, 4);
    const syn_tensor both[2] = {x, syn_slice(ctx, q, 3, l->nope, l->rope)};
    x = syn__model_attend(m, i, syn_concat(ctx, both, 2, 3), in->both,
                          syn_slice(ctx, in->both, 3, 0, l->kv));
    x = syn_permute(ctx, syn_reshape(ctx, x, results, 3), swap, 3);
    x = syn_matmul(ctx, x, syn_slice(ctx, w, 1, l->nope, l->value), false, true);
    return syn_reshape(ctx, syn_permute(ctx, syn_name(ctx, x, "values"), swap, 3), out, 3);
}

/* Whether attending to the latents takes fewer flops, for T queries and S latents. */
static bool absorbs(const syn_model *m, int64_t t, int64_t s) {
    const syn_latent_config *l = &m->config.latent;
    const double per_row = (double)(l->kv * (l->nope + l->value)), pairs = (double)t * (double)s;
    const double of_heads = (double)s * per_row + pairs * (double)(l->nope + l->rope + l->value);
    const double of_latents = (double)t * per_row + pairs * (double)(2 * l->kv + l->rope);
    return m->options.weight_dtype == m->options.dtype && of_latents < of_heads;
}

syn_tensor syn__mla_run(syn_model *m, const syn__mla *mla, int64_t i, syn_tensor x) {
    const syn_tensor q = queries(m, mla, x);
    const latents in = latents_of(m, mla, i, x);
    if (m->paged.step) return attend_to_latents(m, mla, i, q, &in);
    const int64_t t = syn_tensor_dim(m->ctx, q, 2), s = syn_tensor_dim(m->ctx, in.latent, 1);
    return !m->training && absorbs(m, t, s) ? attend_to_latents(m, mla, i, q, &in)
                                            : attend_to_heads(m, mla, i, q, &in);
}
