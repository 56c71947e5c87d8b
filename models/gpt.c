#include "models/gpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

/* Parameters of a layer, then its cache. */
struct block {
    syn_layer_norm ln_1, ln_2;
    syn_layer_linear attn_qkv, attn_proj, mlp_fc, mlp_proj;
    syn_tensor k_cache, v_cache; /* (B, H/tp, max_tokens, D): newest version */
};

struct syn_gpt {
    syn_ctx *ctx;
    syn_gpt_config config;
    syn_gpt_options options;
    syn_tensor wte, wpe, lm_head; /* lm_head: wte when tied */
    syn_layer_norm ln_f;
    struct block *blocks;
    int64_t batch, max_tokens, position;
    int32_t *padding;   /* (B) tokens at the start of each sequence that count for nothing; NULL */
    syn_tensor mask;    /* (B, max_tokens): -infinity there, else 0; poisoned without padding */
    syn_tensor visible; /* this step's part of it, (B, S) */
};

static int tp_size(const syn_gpt *gpt) {
    return gpt->options.tp ? gpt->options.tp->size : 1;
}

static syn_initializer initializer(const syn_gpt *gpt, double std) {
    return (syn_initializer){
        .std = std, .seed = gpt->options.seed, .dtype = gpt->options.weight_dtype};
}

static void block_new(syn_gpt *gpt, int layer, struct block *b) {
    const syn_gpt_config *c = &gpt->config;
    const syn_group *tp = gpt->options.tp;
    const syn_initializer init = initializer(gpt, c->initializer_range);
    const syn_initializer residual =
        initializer(gpt, c->initializer_range / sqrt(2.0 * (double)c->n_layer));
    char name[64];
#define PART(part) (snprintf(name, sizeof name, "h.%d." part, layer), name)
    b->ln_1 = syn_layer_norm_new(gpt->ctx, PART("ln_1"), c->n_embd);
    b->attn_qkv = syn_column_linear_new(gpt->ctx, PART("attn.c_attn"), c->n_embd, 3 * c->n_embd, 3,
                                        &init, tp);
    b->attn_proj =
        syn_row_linear_new(gpt->ctx, PART("attn.c_proj"), c->n_embd, c->n_embd, &residual, tp);
    b->ln_2 = syn_layer_norm_new(gpt->ctx, PART("ln_2"), c->n_embd);
    b->mlp_fc =
        syn_column_linear_new(gpt->ctx, PART("mlp.c_fc"), c->n_embd, c->n_inner, 1, &init, tp);
    b->mlp_proj =
        syn_row_linear_new(gpt->ctx, PART("mlp.c_proj"), c->n_inner, c->n_embd, &residual, tp);
#undef PART
}

syn_status syn_gpt_new(syn_gpt **out, syn_ctx *ctx, const syn_gpt_config *config,
                       const syn_gpt_options *options, syn_error *err) {
    SYN_TRY(syn_gpt_config_check(config, options->tp ? options->tp->size : 1, err));
    syn_gpt *gpt = syn_calloc(1, sizeof *gpt);
    if (!gpt) return SYN_FAIL_NOMEM(err, sizeof *gpt, "a model");
    gpt->ctx = ctx;
    gpt->config = *config;
    gpt->options = *options;
    gpt->blocks = syn_calloc((size_t)config->n_layer, sizeof *gpt->blocks);
    if (!gpt->blocks) {
        syn_gpt_free(gpt);
        return SYN_FAIL_NOMEM(err, (size_t)config->n_layer * sizeof *gpt->blocks,
                              "a model's layers");
    }
    const syn_initializer init = initializer(gpt, config->initializer_range);
    const int64_t vocab = syn_gpt_padded_vocab(config, tp_size(gpt), 1);
    gpt->wte = syn_vocab_embedding_new(ctx, "wte", vocab, config->vocab_size, config->n_embd, &init,
                                       options->tp);
    const syn_spec positions = {SYN_F32, 2, {config->n_positions, config->n_embd}};
    gpt->wpe = syn_param(ctx, "wpe.weight", &positions, SYN_WHOLE, SYN_INIT_NORMAL, init.std, -1,
                         init.seed);
    for (int i = 0; i < config->n_layer && syn_ctx_status(ctx) == SYN_OK; i++) {
        if (options->progress) options->progress(options->progress_user, i, config->n_layer);
        block_new(gpt, i, &gpt->blocks[i]);
    }
    if (options->progress)
        options->progress(options->progress_user, config->n_layer, config->n_layer);
    gpt->ln_f = syn_layer_norm_new(ctx, "ln_f", config->n_embd);
    gpt->lm_head = config->tied ? gpt->wte
                                : syn_vocab_embedding_new(ctx, "lm_head", vocab, config->vocab_size,
                                                          config->n_embd, &init, options->tp);
    const syn_status s = syn_ctx_check(ctx, err);
    if (s != SYN_OK) {
        syn_gpt_free(gpt);
        return s;
    }
    *out = gpt;
    return SYN_OK;
}

void syn_gpt_free(syn_gpt *gpt) {
    if (!gpt) return;
    syn_free(gpt->blocks);
    syn_free(gpt->padding);
    syn_free(gpt);
}

const syn_gpt_config *syn_gpt_get_config(const syn_gpt *gpt) {
    return &gpt->config;
}

syn_ctx *syn_gpt_ctx(const syn_gpt *gpt) {
    return gpt->ctx;
}

const syn_group *syn_gpt_tp(const syn_gpt *gpt) {
    return gpt->options.tp;
}

int64_t syn_gpt_position(const syn_gpt *gpt) {
    return gpt->position;
}

syn_status syn_gpt_begin(syn_gpt *gpt, int64_t batch, int64_t max_tokens, syn_error *err) {
    const syn_gpt_config *c = &gpt->config;
    if (batch < 1 || max_tokens < 1)
        return SYN_FAIL(err, SYN_E_INVALID, "a batch of %lld sequences of %lld tokens is empty",
                        (long long)batch, (long long)max_tokens);
    if (max_tokens > c->n_positions)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld tokens (prompt and output) exceed the %lld positions of %s",
                        (long long)max_tokens, (long long)c->n_positions, c->name);
    const syn_spec cache = {
        SYN_F32, 4, {batch, c->n_head / tp_size(gpt), max_tokens, c->n_embd / c->n_head}};
    if (!syn_spec_valid(&cache))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the KV cache of %lld sequences of %lld tokens is too large",
                        (long long)batch, (long long)max_tokens);
    for (int64_t i = 0; i < c->n_layer; i++) {
        char name[64];
        syn_drop(gpt->ctx, gpt->blocks[i].k_cache);
        syn_drop(gpt->ctx, gpt->blocks[i].v_cache);
        snprintf(name, sizeof name, "h.%lld.attn.k_cache", (long long)i);
        gpt->blocks[i].k_cache = syn_state(gpt->ctx, name, &cache);
        snprintf(name, sizeof name, "h.%lld.attn.v_cache", (long long)i);
        gpt->blocks[i].v_cache = syn_state(gpt->ctx, name, &cache);
    }
    gpt->batch = batch;
    gpt->max_tokens = max_tokens;
    gpt->position = 0;
    gpt->mask = gpt->visible = SYN_NO_MASK;
    syn_free(gpt->padding);
    gpt->padding = NULL;
    return syn_ctx_check(gpt->ctx, err);
}

syn_status syn_gpt_set_padding(syn_gpt *gpt, const int32_t *padding, syn_error *err) {
    const syn_spec spec = {SYN_F32, 2, {gpt->batch, gpt->max_tokens}};
    if (gpt->max_tokens == 0 || gpt->position != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "padding is set between syn_gpt_begin and the first forward step");
    for (int64_t b = 0; b < gpt->batch; b++)
        if (padding[b] < 0 || padding[b] >= gpt->max_tokens)
            return SYN_FAIL(err, SYN_E_INVALID, "%d tokens of padding in a sequence of %lld",
                            padding[b], (long long)gpt->max_tokens);
    const size_t bytes = (size_t)gpt->batch * sizeof *gpt->padding;
    if (!gpt->padding && !(gpt->padding = syn_malloc(bytes)))
        return SYN_FAIL_NOMEM(err, bytes, "the padding of a batch");
    memcpy(gpt->padding, padding, bytes);
    float *mask = NULL;
    if (syn_ctx_has_data(gpt->ctx)) {
        mask = syn_calloc((size_t)syn_spec_elems(&spec), sizeof *mask);
        if (!mask) return SYN_FAIL_NOMEM(err, (size_t)syn_spec_bytes(&spec), "a padding mask");
        for (int64_t b = 0; b < gpt->batch; b++)
            for (int32_t t = 0; t < padding[b]; t++) mask[b * gpt->max_tokens + t] = -INFINITY;
    }
    gpt->mask = syn_input(gpt->ctx, "padding_mask", &spec, mask);
    syn_free(mask);
    return syn_ctx_check(gpt->ctx, err);
}

/* Part `which` (0 q, 1 k, 2 v) of qkv (B, T, 3C/tp) as heads (B, H/tp, T, D): views only. */
static syn_tensor heads(syn_gpt *gpt, syn_tensor qkv, int which, const char *label) {
    const int64_t width = syn_tensor_dim(gpt->ctx, qkv, 2) / 3;
    const syn_tensor x = syn_slice(gpt->ctx, qkv, 2, which * width, width);
    return syn_heads_split(gpt->ctx, syn_name(gpt->ctx, x, label),
                           gpt->config.n_embd / gpt->config.n_head);
}

static syn_tensor attention(syn_gpt *gpt, struct block *b, syn_tensor x) {
    syn_ctx *ctx = gpt->ctx;
    const syn_attending how = {gpt->options.fused_attention, true, gpt->position, gpt->visible};
    const syn_tensor qkv = syn_column_linear(ctx, x, &b->attn_qkv, false, gpt->options.tp, "qkv");
    const syn_tensor q = heads(gpt, qkv, 0, "q");
    const syn_tensor k =
        syn_heads_cached(ctx, &b->k_cache, heads(gpt, qkv, 1, "k"), gpt->position, "k_cache");
    const syn_tensor v =
        syn_heads_cached(ctx, &b->v_cache, heads(gpt, qkv, 2, "v"), gpt->position, "v_cache");
    const syn_tensor y = syn_heads_attend(ctx, q, k, v, &how);
    return syn_row_linear(ctx, y, &b->attn_proj, true, gpt->options.tp, "proj");
}

static syn_tensor mlp(syn_gpt *gpt, struct block *b, syn_tensor x) {
    x = syn_column_linear(gpt->ctx, x, &b->mlp_fc, false, gpt->options.tp, "fc");
    x = syn_gelu(gpt->ctx, x, gpt->config.gelu_tanh);
    return syn_row_linear(gpt->ctx, x, &b->mlp_proj, true, gpt->options.tp, "proj");
}

static syn_tensor block_forward(syn_gpt *gpt, struct block *b, syn_tensor x) {
    syn_ctx *ctx = gpt->ctx;
    const double eps = gpt->config.layer_norm_epsilon;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "attn");
    syn_tensor y = syn_name(ctx, syn_layernorm(ctx, x, b->ln_1.weight, b->ln_1.bias, eps), "ln_1");
    y = attention(gpt, b, y);
    x = syn_name(ctx, syn_add(ctx, x, y), "residual");
    syn_release(ctx, mark, &x, 1);
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "mlp");
    y = syn_name(ctx, syn_layernorm(ctx, x, b->ln_2.weight, b->ln_2.bias, eps), "ln_2");
    y = mlp(gpt, b, y);
    x = syn_name(ctx, syn_add(ctx, x, y), "residual");
    syn_pop_scope(ctx);
    return x;
}

/* The next n rows of the position table, (T, C), or with padding (B, T, C): a sequence's positions
   count from its first token that is none (as HuggingFace's generate has it). */
static syn_tensor positions(syn_gpt *gpt, int64_t n) {
    syn_ctx *ctx = gpt->ctx;
    if (!gpt->padding) return syn_slice(ctx, gpt->wpe, 0, gpt->position, n);
    const syn_spec spec = {SYN_I32, 2, {gpt->batch, n}};
    int32_t *ids = NULL;
    if (syn_ctx_has_data(ctx)) {
        ids = syn_malloc((size_t)syn_spec_bytes(&spec));
        if (!ids) return syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: positions of a batch");
        for (int64_t b = 0; b < gpt->batch; b++)
            for (int64_t t = 0; t < n; t++) {
                const int64_t at = gpt->position + t - gpt->padding[b];
                ids[b * n + t] = at > 0 ? (int32_t)at : 0;
            }
    }
    const syn_tensor at = syn_input(ctx, "positions", &spec, ids);
    syn_free(ids);
    return syn_embedding(ctx, gpt->wpe, at, 0);
}

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_gpt *gpt, syn_tensor tokens) {
    syn_ctx *ctx = gpt->ctx;
    syn_push_scope(ctx, "embed");
    const syn_tensor x = syn_vocab_embedding(ctx, gpt->wte, tokens, gpt->options.tp);
    const syn_tensor p = positions(gpt, syn_tensor_dim(ctx, tokens, 1));
    const syn_tensor y = syn_add(ctx, x, syn_name(ctx, p, "positions"));
    syn_pop_scope(ctx);
    return y;
}

/* x (B, T, C) -> logits (B, V0) of the last position: only that one is predicted from. */
static syn_tensor head(syn_gpt *gpt, syn_tensor x) {
    syn_ctx *ctx = gpt->ctx;
    syn_push_scope(ctx, "head");
    const int64_t dims[2] = {gpt->batch, gpt->config.n_embd};
    x = syn_name(ctx, syn_slice(ctx, x, 1, syn_tensor_dim(ctx, x, 1) - 1, 1), "last");
    x = syn_reshape(ctx, x, dims, 2);
    x = syn_name(
        ctx,
        syn_layernorm(ctx, x, gpt->ln_f.weight, gpt->ln_f.bias, gpt->config.layer_norm_epsilon),
        "ln_f");
    x = syn_vocab_head(ctx, x, gpt->lm_head, SYN_NO_BIAS, gpt->config.vocab_size, gpt->options.tp,
                       "lm_head");
    syn_pop_scope(ctx);
    return x;
}

syn_tensor syn_gpt_forward(syn_gpt *gpt, syn_tensor tokens) {
    syn_ctx *ctx = gpt->ctx;
    const int64_t new_tokens = syn_tensor_dim(ctx, tokens, 1);
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    if (gpt->max_tokens == 0)
        return syn_ctx_fail(ctx, SYN_E_INVALID,
                            "a model's forward step needs syn_gpt_begin before it");
    if (syn_tensor_spec(ctx, tokens)->rank != 2 || syn_tensor_spec(ctx, tokens)->dtype != SYN_I32) {
        char text[SYN_SPEC_TEXT];
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "tokens must be i32 (batch, tokens), not %s",
                            syn_spec_text(syn_tensor_spec(ctx, tokens), text, sizeof text));
    }
    if (syn_tensor_dim(ctx, tokens, 0) != gpt->batch || new_tokens < 1 ||
        new_tokens > gpt->max_tokens - gpt->position)
        return syn_ctx_fail(
            ctx, SYN_E_SHAPE,
            "%lld tokens of %lld sequences at position %lld do not fit %lld of %lld",
            (long long)new_tokens, (long long)syn_tensor_dim(ctx, tokens, 0),
            (long long)gpt->position, (long long)gpt->max_tokens, (long long)gpt->batch);
    const syn_mark mark = syn_ctx_mark(ctx);
    if (gpt->padding) gpt->visible = syn_slice(ctx, gpt->mask, 1, 0, gpt->position + new_tokens);
    syn_tensor x = embed(gpt, tokens);
    for (int i = 0; i < gpt->config.n_layer && syn_ctx_status(ctx) == SYN_OK; i++) {
        syn_push_scope_index(ctx, "h", i);
        x = block_forward(gpt, &gpt->blocks[i], x);
        syn_pop_scope(ctx);
        syn_release(ctx, mark, &x, 1);
    }
    const syn_tensor logits = head(gpt, x);
    syn_release(ctx, mark, &logits, 1);
    gpt->position += new_tokens;
    return logits;
}
