/* Runs causal language models: forward steps with KV caches, and the training loss; see causal.h.
   All causal families share it; they supply only the embedding and the layer. */
#include "models/causal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/cache_transfer.h"
#include "models/context_parallel.h"
#include "models/family_private.h"
#include "models/paged.h"
#include "syntorch/base/memory.h"

/* ---- new sequences ---- */

static syn_status check_model(const syn_model *m, syn_error *err) {
    const syn_model_config *c = &m->config;
    if (!syn_model_is_causal(c))
        return SYN_FAIL(err, SYN_E_INVALID, "%s is a %s, which does not predict the next token",
                        c->name, c->family->title);
    if (m->options.cp)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "context parallelism (cp) is only for training");
    return SYN_OK;
}

static syn_status check_begin(const syn_model *m, int64_t batch, int64_t max_tokens,
                              const syn_spec *cache, syn_error *err) {
    const syn_model_config *c = &m->config;
    SYN_TRY(check_model(m, err));
    if (batch < 1 || max_tokens < 1)
        return SYN_FAIL(err, SYN_E_INVALID, "a batch of %lld sequences of %lld tokens is empty",
                        (long long)batch, (long long)max_tokens);
    if (max_tokens > syn_model_max_tokens(c))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld tokens (prompt and output) exceed the %lld positions of %s",
                        (long long)max_tokens, (long long)syn_model_max_tokens(c), c->name);
    if (!syn_spec_valid(cache))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the KV cache of %lld sequences of %lld tokens is too large",
                        (long long)batch, (long long)max_tokens);
    return SYN_OK;
}

static syn_tensor new_cache(syn_model *m, int64_t i, const char *which, const syn_spec *spec) {
    const syn_model_family *f = m->config.family;
    char name[80];
    snprintf(name, sizeof name, "%s.%lld.%s.%s", f->layers, (long long)(m->part.first_layer + i),
             f->attention, which);
    return syn_state(m->ctx, name, spec);
}

static void set_position_ids(syn_model *m) {
    if (m->places.id) syn_drop(m->ctx, m->places);
    m->places = syn__model_position_ids(m, m->batch, m->max_tokens, m->padding);
}

/* The spec of a cache. With latent attention, every tensor-parallel rank has all latents. */
static syn_spec cache_spec(const syn_model *m, int64_t batch, int64_t max_tokens) {
    const syn_latent_config *latent = &m->config.latent;
    const int64_t depth = latent->kv > 0 ? latent->kv + latent->rope : syn__model_head_dim(m);
    const int tp = syn__model_tp(m), copies = syn_model_kv_ranks(&m->config, tp);
    const int64_t heads =
        latent->kv > 0 ? 1 : syn__family_dim(&m->config, SYN__DIM_KEYS) / depth * copies / tp;
    return (syn_spec){(int32_t)m->options.dtype, 4, {batch, heads, max_tokens, depth}};
}

/* Replaces the caches and forgets the previous sequences. */
static void begin(syn_model *m, int64_t batch, int64_t max_tokens, const syn_spec *cache) {
    const bool latent = m->config.latent.kv > 0;
    for (int64_t i = 0; i < m->part.n_layers; i++) {
        syn_drop(m->ctx, m->caches[i].k);
        m->caches[i].k = new_cache(m, i, latent ? "latent_cache" : "k_cache", cache);
        if (latent) continue;
        syn_drop(m->ctx, m->caches[i].v);
        m->caches[i].v = new_cache(m, i, "v_cache", cache);
    }
    m->batch = batch;
    m->max_tokens = max_tokens;
    m->position = 0;
    m->mask = m->visible = SYN_NO_MASK;
    m->paged = (struct syn__paged){0};
    syn_free(m->padding);
    m->padding = NULL;
}

syn_status syn_causal_begin(syn_model *m, int64_t batch, int64_t max_tokens, syn_error *err) {
    const syn_spec cache = cache_spec(m, batch, max_tokens);
    SYN_TRY(check_begin(m, batch, max_tokens, &cache, err));
    begin(m, batch, max_tokens, &cache);
    set_position_ids(m);
    return syn_ctx_check(m->ctx, err);
}

syn_status syn_causal_begin_paged(syn_model *m, int64_t blocks, int64_t block_tokens,
                                  syn_error *err) {
    SYN_TRY(check_model(m, err));
    const bool fits = blocks >= 1 && block_tokens >= 1 && blocks <= INT32_MAX / block_tokens;
    const syn_spec cache = cache_spec(m, 1, fits ? blocks * block_tokens : 0);
    if (!fits || !syn_spec_valid(&cache))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a KV cache cannot have %lld blocks of %lld tokens: it needs 1 to 2^31 - 1 "
                        "tokens",
                        (long long)blocks, (long long)block_tokens);
    begin(m, 1, 0, &cache);
    m->paged.blocks = blocks;
    m->paged.block_tokens = block_tokens;
    return syn_ctx_check(m->ctx, err);
}

static syn_status check_padding(const syn_model *m, const int32_t *padding, syn_error *err) {
    if (m->max_tokens == 0 || m->position != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "padding must be set between syn_causal_begin and the first forward step");
    for (int64_t b = 0; b < m->batch; b++)
        if (padding[b] < 0 || padding[b] >= m->max_tokens)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%d padding tokens do not fit into a sequence of %lld tokens",
                            padding[b], (long long)m->max_tokens);
    return SYN_OK;
}

syn_status syn_causal_set_padding(syn_model *m, const int32_t *padding, syn_error *err) {
    const syn_spec spec = {SYN_F32, 2, {m->batch, m->max_tokens}};
    SYN_TRY(check_padding(m, padding, err));
    const size_t bytes = (size_t)m->batch * sizeof *m->padding;
    if (!m->padding && !(m->padding = syn_malloc(bytes)))
        return SYN_FAIL_NOMEM(err, bytes, "the padding of a batch");
    memcpy(m->padding, padding, bytes);
    set_position_ids(m);
    float *mask = NULL;
    if (syn_ctx_has_data(m->ctx)) {
        mask = syn_calloc((size_t)syn_spec_elems(&spec), sizeof *mask);
        if (!mask) return SYN_FAIL_NOMEM(err, (size_t)syn_spec_bytes(&spec), "a padding mask");
        for (int64_t b = 0; b < m->batch; b++)
            for (int32_t t = 0; t < padding[b]; t++) mask[b * m->max_tokens + t] = -INFINITY;
    }
    m->mask = syn_input(m->ctx, "padding_mask", &spec, mask);
    syn_free(mask);
    return syn_ctx_check(m->ctx, err);
}

int64_t syn_causal_position(const syn_model *m) {
    return m->position;
}

/* ---- the head ---- */

syn_tensor syn__causal_norm(syn_model *m, syn_tensor x) {
    const syn__param_row *row = &m->config.family->head_rows[0];
    return syn__model_norm(m, x, (const syn_layer_norm *)((const char *)m->params + row->at),
                           row->name);
}

/* The matrix of the output head. In tied models it is the token embedding. */
static syn_tensor words(const syn_model *m) {
    const char *at = (const char *)m->params + m->config.family->head_rows[1].at;
    return *(const syn_tensor *)at;
}

/* Divides and caps the logits as the configuration says. */
static syn_tensor adjusted(syn_model *m, syn_tensor x) {
    const syn_model_config *c = &m->config;
    if (c->logit_divisor > 0) x = syn__model_scale(m, x, 1 / c->logit_divisor, "scaled");
    if (!(c->logit_cap > 0)) return x;
    x = syn_tanh(m->ctx, syn_scale(m->ctx, x, 1 / c->logit_cap));
    return syn_name(m->ctx, syn_scale(m->ctx, x, c->logit_cap), "capped");
}

syn_tensor syn__causal_logits(syn_model *m, syn_tensor x) {
    return adjusted(m,
                    syn_vocab_logits(m->ctx, x, words(m), SYN_NO_BIAS, m->options.tp, "lm_head"));
}

syn_tensor syn__causal_all_logits(syn_model *m, syn_tensor x) {
    return adjusted(m, syn_vocab_head(m->ctx, x, words(m), SYN_NO_BIAS, m->config.vocab_size,
                                      m->options.tp, "lm_head"));
}

/* x (B, T, C) -> logits (B, V0) of the last position only, because the next token is sampled from
   them. */
static syn_tensor head(syn_model *m, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const int64_t dims[2] = {m->batch, m->config.n_embd};
    syn_push_scope(ctx, m->config.family->head_scope);
    x = syn_name(ctx, syn_slice(ctx, x, 1, syn_tensor_dim(ctx, x, 1) - 1, 1), "last");
    x = syn__causal_all_logits(m, syn__causal_norm(m, syn_reshape(ctx, x, dims, 2)));
    syn_pop_scope(ctx);
    return x;
}

/* ---- a step ---- */

syn_tensor syn__causal_keys(syn_model *m, int64_t i, syn_tensor k) {
    const char *label = m->config.latent.kv > 0 ? "latent_cache" : "k_cache";
    if (m->training) return k;
    if (m->paged.step) {
        syn__caches_take(m, i);
        k = syn__paged_append(m, &m->caches[i].k, k, label);
        if (m->config.latent.kv > 0) syn__caches_pack(m, i);
        return k;
    }
    return syn_heads_append_cache(m->ctx, &m->caches[i].k, k, m->position, label);
}

syn_tensor syn__causal_values(syn_model *m, int64_t i, syn_tensor v) {
    if (m->training) return v;
    if (m->paged.step) {
        v = syn__paged_append(m, &m->caches[i].v, v, "v_cache");
        syn__caches_pack(m, i);
        return v;
    }
    return syn_heads_append_cache(m->ctx, &m->caches[i].v, v, m->position, "v_cache");
}

syn_tensor syn__causal_positions(syn_model *m, int64_t n) {
    if ((m->training && m->options.cp) || m->paged.step) return m->positions;
    if (!m->padding || m->training) return (syn_tensor){0};
    return syn__model_count_positions(m, m->position, m->batch, n, m->padding);
}

/* Whether x fits into the caches; if not, the context fails. */
static bool fits(const syn_model *m, syn_tensor x) {
    if (syn_ctx_status(m->ctx) != SYN_OK) return false;
    if (m->max_tokens == 0) {
        syn_ctx_fail(m->ctx, SYN_E_INVALID, "a forward step needs syn_causal_begin first");
        return false;
    }
    if (!syn__model_accepts(m, x, 0)) return false;
    const int64_t *n = syn_tensor_spec(m->ctx, x)->dims;
    syn_error err = {0};
    if (m->position > 0 &&
        syn_model_check_growth(&m->config, m->position, m->position + n[1], &err) != SYN_OK) {
        syn_ctx_fail(m->ctx, err.code, "%s", err.text);
        return false;
    }
    if (n[0] == m->batch && n[1] >= 1 && n[1] <= m->max_tokens - m->position) return true;
    syn_ctx_fail(m->ctx, SYN_E_SHAPE,
                 "%lld tokens of %lld sequences at position %lld do not fit into a KV cache of "
                 "%lld tokens for %lld sequences",
                 (long long)n[1], (long long)n[0], (long long)m->position, (long long)m->max_tokens,
                 (long long)m->batch);
    return false;
}

syn_tensor syn_causal_forward(syn_model *m, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const syn_model_family *f = m->config.family;
    if (!fits(m, x)) return (syn_tensor){0};
    const int64_t new_tokens = syn_tensor_dim(ctx, x, 1);
    syn__model_set_frequencies(m, m->position + new_tokens);
    const syn_mark mark = syn_ctx_mark(ctx);
    if (m->places.id) m->positions = syn_slice(ctx, m->places, 1, m->position, new_tokens);
    if (m->padding) m->visible = syn_slice(ctx, m->mask, 1, 0, m->position + new_tokens);
    (void)syn__model_set_cut(m, new_tokens, false);
    x = m->part.embed ? f->embed(m, x) : syn__model_cut(m, x);
    x = syn__model_whole(m, syn__model_layers(m, x, mark));
    m->cut = false;
    if (m->part.head) x = head(m, x);
    syn_release(ctx, mark, &x, 1);
    m->position += new_tokens;
    return x;
}

/* ---- training ---- */

/* Whether x is a valid input of the part, with sequences of at most syn_model_max_tokens tokens. If
   not, the context fails. */
static bool can_train(syn_model *m, syn_tensor x, syn_tensor mask) {
    const syn_model_config *c = &m->config;
    const int64_t most = syn_model_max_tokens(c);
    if (!syn__model_accepts(m, x, 1)) return false;
    const int64_t n = syn__model_tokens(m, x), all = n * syn__cp_ranks(m);
    if (!syn__cp_can_train(m, n, mask)) return false;
    if (all <= most) return syn__model_set_cut(m, n, true);
    syn_ctx_fail(m->ctx, SYN_E_SHAPE, "%lld tokens exceed the %lld positions of %s", (long long)all,
                 (long long)most, c->name);
    return false;
}

/* The position ids of a training step with n tokens per sequence on this rank; invalid if no op
   needs them. */
static syn_tensor step_positions(syn_model *m, int64_t n) {
    const bool needed = m->part.embed || m->config.rotary.theta > 0;
    if (!m->options.cp) return syn__model_position_ids(m, 1, n, NULL);
    return needed ? syn__cp_positions(m, n) : (syn_tensor){0};
}

/* Whether targets are i32 and have the shape (B, T) of the tokens. If not, the context fails. */
static bool check_targets(syn_model *m, syn_tensor x, syn_tensor targets) {
    const syn_spec *of_x = syn_tensor_spec(m->ctx, x), *spec = syn_tensor_spec(m->ctx, targets);
    if (spec->dtype == SYN_I32 && spec->rank == 2 && spec->dims[0] == of_x->dims[0] &&
        spec->dims[1] == syn__model_tokens(m, x))
        return true;
    syn_ctx_fail(m->ctx, SYN_E_SHAPE, "targets must be i32 (batch, tokens) like the tokens of %s",
                 m->config.name);
    return false;
}

syn_tensor syn_causal_loss(syn_model *m, syn_tensor tokens, syn_tensor targets, syn_tensor weight) {
    return syn_causal_loss_masked(m, tokens, SYN_NO_MASK, targets, weight);
}

/* The state that training replaces for its sequences. */
typedef struct sequences {
    int64_t position;
    syn_tensor visible, positions;
} sequences;

static sequences begin_sequences(syn_model *m, syn_tensor mask, syn_tensor places) {
    const sequences before = {m->position, m->visible, m->positions};
    m->training = true;
    m->position = 0;
    m->visible = mask;
    m->positions = places;
    return before;
}

static void end_sequences(syn_model *m, sequences before) {
    m->training = false;
    m->position = before.position;
    m->visible = before.visible;
    m->positions = before.positions;
}

syn_tensor syn__causal_sequences(syn_model *m, syn_tensor x, syn_tensor mask, syn_tensor places,
                                 syn_mark mark) {
    const sequences before = begin_sequences(m, mask, places);
    if (m->part.embed) x = m->config.family->embed(m, x);
    x = syn__model_layers(m, x, mark);
    end_sequences(m, before);
    return x;
}

static syn_tensor as_rows(syn_model *m, syn_tensor x) {
    const int64_t rows[2] = {-1, m->config.n_embd};
    return syn_tensor_spec(m->ctx, x)->rank == 2 ? x : syn_reshape(m->ctx, x, rows, 2);
}

/* Normalized x (B, T, C) or (B T, C) -> logits of this rank's shard of the vocabulary, (B T, V/tp).
   With sequence parallelism the tokens are gathered along T, before they become rows. */
static syn_tensor training_logits(syn_model *m, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    if (!m->cut) return syn__causal_logits(m, as_rows(m, x));
    x = syn_vocab_logits(ctx, syn__model_enter(m, x), words(m), SYN_NO_BIAS, NULL, "lm_head");
    x = adjusted(m, x);
    const int64_t flat[2] = {-1, syn_tensor_dim(ctx, x, 2)};
    return syn_reshape(ctx, x, flat, 2);
}

/* Normalized x, as above -> the loss. */
static syn_tensor loss_of(syn_model *m, syn_tensor x, syn_tensor targets, syn_tensor weight) {
    syn_ctx *ctx = m->ctx;
    const int64_t flat[1] = {-1};
    syn_push_scope(ctx, m->config.family->head_scope);
    x = training_logits(m, x);
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "loss");
    x = syn_vocab_loss(ctx, x, syn_reshape(ctx, targets, flat, 1), weight, m->config.vocab_size,
                       m->options.unfused_loss, m->options.tp);
    syn_pop_scope(ctx);
    return x;
}

/* x (B, T, C), the output of the last layer -> normalized: (B, T, C), or (B T, C) if only the head
   reads it. */
static syn_tensor final_norm(syn_model *m, syn_tensor x) {
    if (!m->cut && m->part.mtp == 0) x = as_rows(m, x);
    syn_push_scope(m->ctx, m->config.family->head_scope);
    x = syn__causal_norm(m, x);
    syn_pop_scope(m->ctx);
    return x;
}

/* ---- multi-token prediction ---- */

/* ids (B, T): each row moved left by one place, with `fill` at its end. */
static syn_tensor shift(syn_model *m, syn_tensor ids, int32_t fill, const char *label) {
    syn_ctx *ctx = m->ctx;
    const int64_t batch = syn_tensor_dim(ctx, ids, 0), n = syn_tensor_dim(ctx, ids, 1);
    const syn_spec column = {SYN_I32, 2, {batch, 1}};
    int32_t *last = syn_ctx_has_data(ctx) ? syn_malloc((size_t)batch * sizeof *last) : NULL;
    if (syn_ctx_has_data(ctx) && !last)
        return syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: the last tokens of a batch");
    for (int64_t b = 0; last && b < batch; b++) last[b] = fill;
    const syn_tensor both[2] = {syn_slice(ctx, ids, 1, 1, n - 1),
                                syn_input(ctx, label, &column, last)};
    syn_free(last);
    return syn_name(ctx, syn_concat(ctx, both, 2, 1), label);
}

/* x, the normalized hidden states (B, T, C) of the layers before; tokens, those that follow each
   position -> the hidden states of layer k for multi-token prediction. */
static syn_tensor mtp_layer(syn_model *m, int64_t k, syn_tensor x, syn_tensor tokens) {
    syn_ctx *ctx = m->ctx;
    const syn__mtp *l = &m->mtp[k];
    syn_tensor both[2] = {syn__model_embed(m, m->mtp_tokens, tokens), x};
    both[0] = syn__model_norm(m, both[0], &l->token_norm, "enorm");
    both[1] = syn__model_norm(m, both[1], &l->hidden_norm, "hnorm");
    x = syn__model_enter(m, syn_concat(ctx, both, 2, 2));
    x = syn_column_linear(ctx, x, &l->proj, false, NULL, "eh_proj");
    if (syn__model_tp(m) > 1) x = syn_all_gather(ctx, x, -1, m->options.tp);
    return syn__model_layer(m, m->part.n_layers + k, syn__model_cut(m, x));
}

/* Adds the losses of multi-token prediction to `loss`. x: normalized hidden states (B, T, C). */
static syn_tensor add_mtp_losses(syn_model *m, syn_tensor loss, syn_tensor x, syn_tensor tokens,
                                 syn_tensor targets, syn_tensor weight) {
    syn_ctx *ctx = m->ctx;
    const double factor = 0.1 / (double)m->part.mtp;
    const int64_t one[1] = {1};
    syn_push_scope(ctx, "mtp");
    for (int64_t k = 0; k < m->part.mtp && syn_ctx_status(ctx) == SYN_OK; k++) {
        tokens = shift(m, tokens, 0, "tokens");
        targets = shift(m, targets, SYN_IGNORED_TARGET, "targets");
        x = syn__model_norm(m, mtp_layer(m, k, x, tokens), &m->mtp[k].norm, "norm");
        syn_tensor more = syn_reshape(ctx, loss_of(m, x, targets, weight), one, 1);
        more = syn_reshape(ctx, syn_scale(ctx, more, factor), one, 0); /* scale needs a dimension */
        loss = syn_name(ctx, syn_add(ctx, loss, more), "loss");
    }
    syn_pop_scope(ctx);
    return loss;
}

/* Whether the part can predict several tokens. If not, the context fails. */
static bool check_mtp(syn_model *m, syn_tensor x, syn_tensor tokens) {
    if (m->part.mtp == 0) return true;
    if (m->options.cp) {
        syn_ctx_fail(m->ctx, SYN_E_UNSUPPORTED,
                     "multi-token prediction cannot be combined with context parallelism (cp)");
        return false;
    }
    if (tokens.id && syn__model_tokens(m, x) > m->part.mtp) return true;
    syn_ctx_fail(
        m->ctx, SYN_E_INVALID,
        "multi-token prediction with %lld layers needs the tokens of sequences of at least "
        "%lld tokens",
        (long long)m->part.mtp, (long long)m->part.mtp + 1);
    return false;
}

/* ---- stages ---- */

syn_tensor syn_causal_stage_mtp(syn_model *m, syn_tensor x, syn_tensor tokens, syn_tensor mask,
                                syn_tensor targets, syn_tensor weight) {
    syn_ctx *ctx = m->ctx;
    if (!can_train(m, x, mask) || (m->part.head && !check_targets(m, x, targets)) ||
        !check_mtp(m, x, tokens))
        return (syn_tensor){0};
    const int64_t n = syn__model_tokens(m, x);
    syn__model_set_frequencies(m, n * syn__cp_ranks(m));
    if (m->options.cp) syn__cp_count_pass(m);
    /* Created before the mark, because backward may run a layer again. */
    const syn_tensor places = step_positions(m, n);
    const syn_mark mark = syn_ctx_mark(ctx);
    x = syn__causal_sequences(m, x, mask, places, mark);
    if (m->part.head) {
        const syn_tensor hidden = final_norm(m, x);
        x = loss_of(m, hidden, targets, weight);
        if (m->part.mtp > 0) {
            const sequences before = begin_sequences(m, mask, places);
            x = add_mtp_losses(m, x, hidden, tokens, targets, weight);
            end_sequences(m, before);
        }
    }
    syn_release(ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_causal_stage(syn_model *m, syn_tensor x, syn_tensor mask, syn_tensor targets,
                            syn_tensor weight) {
    return syn_causal_stage_mtp(m, x, m->part.embed ? x : (syn_tensor){0}, mask, targets, weight);
}

syn_tensor syn_causal_loss_masked(syn_model *m, syn_tensor tokens, syn_tensor mask,
                                  syn_tensor targets, syn_tensor weight) {
    const syn_model_config *c = &m->config;
    if (m->part.embed && m->part.head && m->part.n_layers == c->n_layer)
        return syn_causal_stage(m, tokens, mask, targets, weight);
    return syn_ctx_fail(m->ctx, SYN_E_INVALID, "a part of %s has no loss", c->name);
}
