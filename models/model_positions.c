/* Rotary embeddings of a model: their frequencies, the positions of tokens, and how layers apply
   them. */
#include "models/family_private.h"
#include "syntorch/base/memory.h"

/* The frequencies of a configuration's rotary embedding as a tensor. */
static syn_tensor new_frequencies(syn_model *m, const syn_model_config *c, int64_t tokens,
                                  const char *name) {
    const syn_spec spec = {SYN_F32, 1, {syn__rotary_pairs(c)}};
    float *out = NULL;
    if (syn_ctx_has_data(m->ctx)) {
        out = syn_malloc((size_t)spec.dims[0] * sizeof *out);
        if (!out) return syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: rotary frequencies");
        syn__rotary_frequencies(c, tokens, out);
    }
    const syn_tensor frequencies = syn_input(m->ctx, name, &spec, out);
    syn_free(out);
    return frequencies;
}

/* The configuration whose rotary embedding is that of layers with a window. */
static syn_model_config local_config(const syn_model *m) {
    syn_model_config local = m->config;
    local.rotary = m->config.local_rotary;
    return local;
}

void syn__model_set_frequencies(syn_model *m, int64_t tokens) {
    const syn_rotary *r = &m->config.rotary;
    const bool grows = syn__rotary_is_long(&m->config, tokens);
    if (!(r->theta > 0)) return;
    if (m->config.local_rotary.theta > 0 && !m->local_frequencies.id) {
        const syn_model_config local = local_config(m);
        m->local_frequencies = new_frequencies(m, &local, 0, "local_frequencies");
    }
    if (m->short_frequencies.id && !grows) {
        m->frequencies = m->short_frequencies;
        return;
    }
    m->frequencies = new_frequencies(m, &m->config, tokens, "rotary_frequencies");
    if (!grows) m->short_frequencies = m->frequencies;
}

syn_tensor syn__model_count_positions(syn_model *m, int64_t first, int64_t batch, int64_t n,
                                      const int32_t *padding) {
    const syn_spec spec = {SYN_I32, 2, {padding ? batch : 1, n}};
    int32_t *ids = NULL;
    if (syn_ctx_has_data(m->ctx)) {
        ids = syn_malloc((size_t)syn_spec_bytes(&spec));
        if (!ids) return syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: positions of a batch");
        for (int64_t i = 0; i < spec.dims[0] * n; i++) {
            const int64_t at = first + i % n - (padding ? padding[i / n] : 0);
            ids[i] = at > 0 ? (int32_t)at : 0;
        }
    }
    const syn_tensor positions = syn_input(m->ctx, "positions", &spec, ids);
    syn_free(ids);
    return positions;
}

syn_tensor syn__model_position_ids(syn_model *m, int64_t batch, int64_t n, const int32_t *padding) {
    if (!(m->config.rotary.theta > 0)) return (syn_tensor){0};
    return syn__model_count_positions(m, 0, batch, n, padding);
}

syn_tensor syn__model_apply_rotary(syn_model *m, syn_tensor x, int64_t first) {
    return syn_rope_at(m->ctx, x, m->positions, m->frequencies, syn__rotary_factor(&m->config),
                       first, m->config.latent.interleaved);
}

syn_tensor syn__model_apply_layer_rotary(syn_model *m, int64_t i, syn_tensor x) {
    const int64_t layer = m->part.first_layer + i;
    if (syn_layer_set_has(&m->config.no_rope, layer)) return x;
    if (!m->local_frequencies.id || syn_model_layer_window(&m->config, layer) == 0)
        return syn__model_apply_rotary(m, x, 0);
    const syn_model_config local = local_config(m);
    return syn_rope(m->ctx, x, m->positions, m->local_frequencies, syn__rotary_factor(&local));
}
