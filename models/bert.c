#include "models/bert.h"

#include <stdio.h>

#include "syntorch/memory.h"

/* Parameters of a layer. */
struct block {
    syn_layer_linear query, key, value, attention_output, intermediate, output;
    syn_layer_norm attention_norm, output_norm;
};

struct syn_bert {
    syn_ctx *ctx;
    syn_bert_config config;
    syn_bert_options options;
    syn_tensor words, positions, types;
    syn_layer_norm embeddings_norm;
    struct block *blocks;
    /* Heads, each only if it was asked for. */
    syn_layer_linear pooler, transform, seq_relationship;
    syn_layer_norm transform_norm;
    syn_tensor word_head, word_bias; /* word_head: words when tied */
};

static int tp_size(const syn_bert *bert) {
    return bert->options.tp ? bert->options.tp->size : 1;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static syn_initializer initializer(const syn_bert *bert) {
    return (syn_initializer){.std = bert->config.initializer_range,
                             .seed = bert->options.seed,
                             .dtype = bert->options.weight_dtype,
                             .out_in = true};
}

static syn_tensor table_new(syn_bert *bert, const char *name, int64_t rows) {
    const syn_spec spec = {SYN_F32, 2, {rows, bert->config.n_embd}};
    return syn_param(bert->ctx, name, &spec, SYN_WHOLE, SYN_INIT_NORMAL,
                     bert->config.initializer_range, -1, bert->options.seed);
}

/* A linear layer that every rank has whole. */
static syn_layer_linear dense_new(syn_bert *bert, const char *name, int64_t out) {
    const syn_initializer init = initializer(bert);
    return syn_column_linear_new(bert->ctx, name, bert->config.n_embd, out, 1, &init, NULL);
}

static void embeddings_new(syn_bert *bert) {
    const syn_bert_config *c = &bert->config;
    const syn_initializer init = initializer(bert);
    bert->words = syn_vocab_embedding_new(bert->ctx, "embeddings.word_embeddings",
                                          syn_bert_padded_vocab(c, tp_size(bert), 1), c->vocab_size,
                                          c->n_embd, &init, bert->options.tp);
    bert->positions = table_new(bert, "embeddings.position_embeddings.weight", c->n_positions);
    bert->types = table_new(bert, "embeddings.token_type_embeddings.weight", c->n_types);
    bert->embeddings_norm = syn_layer_norm_new(bert->ctx, "embeddings.LayerNorm", c->n_embd);
}

static void block_new(syn_bert *bert, int layer, struct block *b) {
    syn_ctx *ctx = bert->ctx;
    const int64_t h = bert->config.n_embd, f = bert->config.n_inner;
    const syn_group *tp = bert->options.tp;
    const syn_initializer init = initializer(bert);
    char name[80];
#define PART(part) (snprintf(name, sizeof name, "encoder.layer.%d." part, layer), name)
    b->query = syn_column_linear_new(ctx, PART("attention.self.query"), h, h, 1, &init, tp);
    b->key = syn_column_linear_new(ctx, PART("attention.self.key"), h, h, 1, &init, tp);
    b->value = syn_column_linear_new(ctx, PART("attention.self.value"), h, h, 1, &init, tp);
    b->attention_output = syn_row_linear_new(ctx, PART("attention.output.dense"), h, h, &init, tp);
    b->attention_norm = syn_layer_norm_new(ctx, PART("attention.output.LayerNorm"), h);
    b->intermediate = syn_column_linear_new(ctx, PART("intermediate.dense"), h, f, 1, &init, tp);
    b->output = syn_row_linear_new(ctx, PART("output.dense"), f, h, &init, tp);
    b->output_norm = syn_layer_norm_new(ctx, PART("output.LayerNorm"), h);
#undef PART
}

static void heads_new(syn_bert *bert) {
    const syn_bert_config *c = &bert->config;
    const unsigned heads = bert->options.heads;
    if (heads & SYN_BERT_POOLER) bert->pooler = dense_new(bert, "pooler.dense", c->n_embd);
    if (heads & SYN_BERT_MLM) {
        bert->transform = dense_new(bert, "cls.predictions.transform.dense", c->n_embd);
        bert->transform_norm =
            syn_layer_norm_new(bert->ctx, "cls.predictions.transform.LayerNorm", c->n_embd);
        const int64_t vocab = syn_bert_padded_vocab(c, tp_size(bert), 1);
        const syn_initializer init = initializer(bert);
        bert->word_head =
            c->tied ? bert->words
                    : syn_vocab_embedding_new(bert->ctx, "cls.predictions.decoder", vocab,
                                              c->vocab_size, c->n_embd, &init, bert->options.tp);
        bert->word_bias = syn_vocab_bias_new(bert->ctx, "cls.predictions", vocab, c->vocab_size,
                                             bert->options.tp);
    }
    if (heads & SYN_BERT_NSP) bert->seq_relationship = dense_new(bert, "cls.seq_relationship", 2);
}

syn_status syn_bert_new(syn_bert **out, syn_ctx *ctx, const syn_bert_config *config,
                        const syn_bert_options *options, syn_error *err) {
    SYN_TRY(syn_bert_config_check(config, options->tp ? options->tp->size : 1, err));
    syn_bert *bert = syn_calloc(1, sizeof *bert);
    if (!bert) return SYN_FAIL_NOMEM(err, sizeof *bert, "a model");
    bert->ctx = ctx;
    bert->config = *config;
    bert->options = *options;
    if (options->heads & SYN_BERT_NSP) bert->options.heads |= SYN_BERT_POOLER;
    bert->blocks = syn_calloc((size_t)config->n_layer, sizeof *bert->blocks);
    if (!bert->blocks) {
        syn_bert_free(bert);
        return SYN_FAIL_NOMEM(err, (size_t)config->n_layer * sizeof *bert->blocks,
                              "a model's layers");
    }
    embeddings_new(bert);
    for (int i = 0; i < config->n_layer && syn_ctx_status(ctx) == SYN_OK; i++) {
        if (options->progress) options->progress(options->progress_user, i, config->n_layer);
        block_new(bert, i, &bert->blocks[i]);
    }
    if (options->progress)
        options->progress(options->progress_user, config->n_layer, config->n_layer);
    heads_new(bert);
    const syn_status s = syn_ctx_check(ctx, err);
    if (s != SYN_OK) {
        syn_bert_free(bert);
        return s;
    }
    *out = bert;
    return SYN_OK;
}

void syn_bert_free(syn_bert *bert) {
    if (!bert) return;
    syn_free(bert->blocks);
    syn_free(bert);
}

const syn_bert_config *syn_bert_get_config(const syn_bert *bert) {
    return &bert->config;
}

syn_ctx *syn_bert_ctx(const syn_bert *bert) {
    return bert->ctx;
}

const syn_group *syn_bert_tp(const syn_bert *bert) {
    return bert->options.tp;
}

/* ---- encoder --------------------------------------------------------------------------------- */

static syn_tensor normalize(syn_bert *bert, syn_tensor x, const syn_layer_norm *norm) {
    return syn_name(
        bert->ctx,
        syn_layernorm(bert->ctx, x, norm->weight, norm->bias, bert->config.layer_norm_epsilon),
        "LayerNorm");
}

static syn_tensor dense(syn_bert *bert, syn_tensor x, const syn_layer_linear *layer,
                        const char *label) {
    return syn_column_linear(bert->ctx, x, layer, false, NULL, label);
}

/* x (B, T, C) -> (B, T, C/tp) */
static syn_tensor self_attention(syn_bert *bert, struct block *b, syn_tensor x,
                                 syn_tensor padding) {
    syn_ctx *ctx = bert->ctx;
    const int64_t depth = bert->config.n_embd / bert->config.n_head;
    const syn_attending how = {.fused = bert->options.fused_attention, .mask = padding};
    syn_push_scope(ctx, "self");
    if (tp_size(bert) > 1) x = syn_tp_enter(ctx, x, bert->options.tp); /* once for all three */
    const syn_tensor q = syn_heads_split(ctx, dense(bert, x, &b->query, "query"), depth);
    const syn_tensor k = syn_heads_split(ctx, dense(bert, x, &b->key, "key"), depth);
    const syn_tensor v = syn_heads_split(ctx, dense(bert, x, &b->value, "value"), depth);
    const syn_tensor y = syn_heads_attend(ctx, q, k, v, &how);
    syn_pop_scope(ctx);
    return y;
}

/* LayerNorm(dense(x) + residual), x (B, T, K/tp) */
static syn_tensor output(syn_bert *bert, syn_tensor x, syn_tensor residual,
                         const syn_layer_linear *layer, const syn_layer_norm *norm) {
    syn_ctx *ctx = bert->ctx;
    syn_push_scope(ctx, "output");
    x = syn_row_linear(ctx, x, layer, true, bert->options.tp, "dense");
    x = normalize(bert, syn_name(ctx, syn_add(ctx, x, residual), "residual"), norm);
    syn_pop_scope(ctx);
    return x;
}

static syn_tensor block_forward(syn_bert *bert, struct block *b, syn_tensor x, syn_tensor padding) {
    syn_ctx *ctx = bert->ctx;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "attention");
    syn_tensor y = self_attention(bert, b, x, padding);
    x = output(bert, y, x, &b->attention_output, &b->attention_norm);
    syn_release(ctx, mark, &x, 1);
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "intermediate");
    y = syn_column_linear(ctx, x, &b->intermediate, false, bert->options.tp, "dense");
    y = syn_gelu(ctx, y, bert->config.gelu_tanh);
    syn_pop_scope(ctx);
    return output(bert, y, x, &b->output, &b->output_norm);
}

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_bert *bert, syn_tensor tokens, syn_tensor types) {
    syn_ctx *ctx = bert->ctx;
    syn_push_scope(ctx, "embeddings");
    syn_tensor x = syn_vocab_embedding(ctx, bert->words, tokens, bert->options.tp);
    const syn_tensor positions = syn_name(
        ctx, syn_slice(ctx, bert->positions, 0, 0, syn_tensor_dim(ctx, tokens, 1)), "positions");
    const syn_tensor kinds =
        types.id ? syn_embedding(ctx, bert->types, types, 0) : syn_slice(ctx, bert->types, 0, 0, 1);
    x = syn_add(ctx, x, syn_name(ctx, kinds, "types"));
    x = normalize(bert, syn_add(ctx, x, positions), &bert->embeddings_norm);
    syn_pop_scope(ctx);
    return x;
}

/* Fails unless t is of the dtype and (B, T) like tokens. */
static void want_alike(syn_bert *bert, syn_tensor t, syn_tensor tokens, syn_dtype dtype,
                       const char *what) {
    syn_ctx *ctx = bert->ctx;
    syn_spec want = *syn_tensor_spec(ctx, tokens);
    want.dtype = (int32_t)dtype;
    if (!t.id || syn_spec_equal(syn_tensor_spec(ctx, t), &want)) return;
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    syn_ctx_fail(ctx, SYN_E_SHAPE, "%s must be %s like the tokens, not %s", what,
                 syn_spec_text(&want, a, sizeof a),
                 syn_spec_text(syn_tensor_spec(ctx, t), b, sizeof b));
}

static void check_inputs(syn_bert *bert, syn_tensor tokens, syn_tensor types, syn_tensor mask) {
    syn_ctx *ctx = bert->ctx;
    const syn_spec *spec = syn_tensor_spec(ctx, tokens);
    if (syn_ctx_status(ctx) != SYN_OK) return;
    if (spec->dtype != SYN_I32 || spec->rank != 2 || spec->dims[0] < 1 || spec->dims[1] < 1) {
        char text[SYN_SPEC_TEXT];
        syn_ctx_fail(ctx, SYN_E_SHAPE, "tokens must be i32 (batch, tokens), not %s",
                     syn_spec_text(spec, text, sizeof text));
    } else if (spec->dims[1] > bert->config.n_positions) {
        syn_ctx_fail(ctx, SYN_E_SHAPE, "%lld tokens exceed the %lld positions of %s",
                     (long long)spec->dims[1], (long long)bert->config.n_positions,
                     bert->config.name);
    }
    want_alike(bert, types, tokens, SYN_I32, "token types");
    want_alike(bert, mask, tokens, SYN_F32, "the padding mask");
}

syn_tensor syn_bert_forward(syn_bert *bert, syn_tensor tokens, syn_tensor types, syn_tensor mask) {
    syn_ctx *ctx = bert->ctx;
    check_inputs(bert, tokens, types, mask);
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor x = embed(bert, tokens, types);
    syn_release(ctx, mark, &x, 1);
    syn_push_scope(ctx, "encoder");
    for (int i = 0; i < bert->config.n_layer && syn_ctx_status(ctx) == SYN_OK; i++) {
        syn_push_scope_index(ctx, "layer", i);
        x = block_forward(bert, &bert->blocks[i], x, mask);
        syn_pop_scope(ctx);
        syn_release(ctx, mark, &x, 1);
    }
    syn_pop_scope(ctx);
    return x;
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Whether the model has the head and x is f32 (..., C) of this rank (2 or 3). */
static bool ready(syn_bert *bert, unsigned head, const char *name, syn_tensor x, int rank) {
    syn_ctx *ctx = bert->ctx;
    if (syn_ctx_status(ctx) != SYN_OK) return false;
    if (!(bert->options.heads & head)) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "%s was made without the head '%s'", bert->config.name,
                     name);
        return false;
    }
    const syn_spec *spec = syn_tensor_spec(ctx, x);
    if (spec->dtype == SYN_F32 && spec->rank == rank && spec->dims[rank - 1] == bert->config.n_embd)
        return true;
    char text[SYN_SPEC_TEXT];
    syn_ctx_fail(ctx, SYN_E_SHAPE, "the head '%s' needs f32 (batch, %s%lld), not %s", name,
                 rank == 3 ? "tokens, " : "", (long long)bert->config.n_embd,
                 syn_spec_text(spec, text, sizeof text));
    return false;
}

syn_tensor syn_bert_pooled(syn_bert *bert, syn_tensor hidden) {
    syn_ctx *ctx = bert->ctx;
    if (!ready(bert, SYN_BERT_POOLER, "pooler", hidden, 3)) return (syn_tensor){0};
    const int64_t dims[2] = {syn_tensor_dim(ctx, hidden, 0), bert->config.n_embd};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "pooler");
    syn_tensor x = syn_name(ctx, syn_slice(ctx, hidden, 1, 0, 1), "first");
    x = dense(bert, syn_reshape(ctx, x, dims, 2), &bert->pooler, "dense");
    x = syn_tanh(ctx, x);
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_bert_mlm(syn_bert *bert, syn_tensor hidden, syn_tensor positions) {
    syn_ctx *ctx = bert->ctx;
    if (!ready(bert, SYN_BERT_MLM, "MLM", hidden, 3)) return (syn_tensor){0};
    const syn_spec *which = syn_tensor_spec(ctx, positions);
    if (positions.id && (which->dtype != SYN_I32 || which->rank != 1 || which->dims[0] < 1)) {
        char text[SYN_SPEC_TEXT];
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "positions must be i32 (number of words), not %s",
                            syn_spec_text(which, text, sizeof text));
    }
    const int64_t dims[2] = {-1, bert->config.n_embd};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "cls.predictions");
    syn_tensor x = syn_reshape(ctx, hidden, dims, 2);
    if (positions.id) x = syn_name(ctx, syn_embedding(ctx, x, positions, 0), "picked");
    syn_push_scope(ctx, "transform");
    x = syn_gelu(ctx, dense(bert, x, &bert->transform, "dense"), bert->config.gelu_tanh);
    x = normalize(bert, x, &bert->transform_norm);
    syn_pop_scope(ctx);
    x = syn_vocab_head(ctx, x, bert->word_head, bert->word_bias, bert->config.vocab_size,
                       bert->options.tp, "decoder");
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_bert_nsp(syn_bert *bert, syn_tensor pooled) {
    syn_ctx *ctx = bert->ctx;
    if (!ready(bert, SYN_BERT_NSP, "NSP", pooled, 2)) return (syn_tensor){0};
    syn_push_scope(ctx, "cls");
    const syn_tensor logits = dense(bert, pooled, &bert->seq_relationship, "seq_relationship");
    syn_pop_scope(ctx);
    return logits;
}
