/* BERT, an encoder with LayerNorm after each branch, learned position embeddings, token types, and
   heads for pretraining; DistilBERT (Sanh et al. 2019), which has neither token types nor a pooler;
   and RoBERTa (Liu et al. 2019), whose positions follow that of padding. With tensor parallelism
   (Shoeybi et al. 2019, section 3), attention is sharded by heads, the MLP is column- then
   row-parallel, and the word embedding is sharded by vocabulary rows. */
#include "models/bert.h"

#include "models/family_private.h"
#include "syntorch/gradient.h"

struct bert {
    syn_tensor words, positions, types;
    syn_layer_norm embeddings_norm;
    /* Heads. The tensors of a head that was not requested are invalid. */
    syn_layer_linear pooler, transform, seq_relationship;
    syn_layer_norm transform_norm;
    syn_tensor word_head, word_bias; /* if tied, word_head is words */
};

struct bert_layer {
    syn_layer_linear query, key, value, attention_output, intermediate, output;
    syn_layer_norm attention_norm, output_norm;
};

#define AT(member) offsetof(struct bert, member)
#define IN(member) offsetof(struct bert_layer, member)
#define WORDS      "embeddings.word_embeddings"
#define HIDDEN     SYN__DIM_HIDDEN

static const syn__param_row embed_rows[] = {
    {WORDS, SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(words)},
    {"embeddings.position_embeddings", SYN__TABLE, SYN__DIM_POSITIONS, HIDDEN, .at = AT(positions)},
    {"embeddings.token_type_embeddings", SYN__TABLE, SYN__DIM_TYPES, HIDDEN, .at = AT(types)},
    {"embeddings.LayerNorm", SYN__NORM, 0, HIDDEN, .at = AT(embeddings_norm)},
    {"embeddings.position_ids", .kind = SYN__IGNORED},   /* 0, 1, 2 ... */
    {"embeddings.token_type_ids", .kind = SYN__IGNORED}, /* all 0 */
    {0}};

static const syn__param_row layer_rows[] = {
    {"attention.self.query", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(query)},
    {"attention.self.key", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, .layout = SYN__SHARED_HEADS,
     .at = IN(key)},
    {"attention.self.value", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, .layout = SYN__SHARED_HEADS,
     .at = IN(value)},
    {"attention.output.dense", SYN__ROW_LINEAR, SYN__DIM_QUERIES, HIDDEN,
     .at = IN(attention_output)},
    {"attention.output.LayerNorm", SYN__NORM, 0, HIDDEN, .at = IN(attention_norm)},
    {"intermediate.dense", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_INNER, .at = IN(intermediate)},
    {"output.dense", SYN__ROW_LINEAR, SYN__DIM_INNER, HIDDEN, .at = IN(output)},
    {"output.LayerNorm", SYN__NORM, 0, HIDDEN, .at = IN(output_norm)},
    {0}};

#define POOLER (SYN_BERT_POOLER | SYN_BERT_NSP)
#define MLM    SYN_BERT_MLM

static const syn__param_row head_rows[] = {
    {"pooler.dense", SYN__REPLICATED_LINEAR, HIDDEN, HIDDEN, .at = AT(pooler), .heads = POOLER},
    {"cls.predictions.transform.dense", SYN__REPLICATED_LINEAR, HIDDEN, HIDDEN, .at = AT(transform),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {"cls.predictions.transform.LayerNorm", SYN__NORM, 0, HIDDEN, .at = AT(transform_norm),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {"cls.predictions.decoder", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(word_head),
     .flags = SYN__NO_PREFIX, .heads = MLM, .tied = WORDS},
    {"cls.predictions", SYN__VOCAB_BIAS, SYN__DIM_VOCAB, 0, .at = AT(word_bias),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {"cls.predictions.decoder", SYN__BIAS_ALIAS, .flags = SYN__NO_PREFIX, .heads = MLM,
     .tied = "cls.predictions"},
    {"cls.seq_relationship", SYN__REPLICATED_LINEAR, HIDDEN, SYN__DIM_TWO,
     .at = AT(seq_relationship), .flags = SYN__NO_PREFIX, .heads = SYN_BERT_NSP},
    {0}};

/* DistilBERT's names, of the members that it has. */
static const syn__param_row distil_embed_rows[] = {
    {WORDS, SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(words)},
    {"embeddings.position_embeddings", SYN__TABLE, SYN__DIM_POSITIONS, HIDDEN, .at = AT(positions)},
    {"embeddings.LayerNorm", SYN__NORM, 0, HIDDEN, .at = AT(embeddings_norm)},
    {"embeddings.position_ids", .kind = SYN__IGNORED},
    {0}};

static const syn__param_row distil_layer_rows[] = {
    {"attention.q_lin", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(query)},
    {"attention.k_lin", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(key)},
    {"attention.v_lin", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(value)},
    {"attention.out_lin", SYN__ROW_LINEAR, SYN__DIM_QUERIES, HIDDEN, .at = IN(attention_output)},
    {"sa_layer_norm", SYN__NORM, 0, HIDDEN, .at = IN(attention_norm)},
    {"ffn.lin1", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_INNER, .at = IN(intermediate)},
    {"ffn.lin2", SYN__ROW_LINEAR, SYN__DIM_INNER, HIDDEN, .at = IN(output)},
    {"output_layer_norm", SYN__NORM, 0, HIDDEN, .at = IN(output_norm)},
    {0}};

static const syn__param_row distil_head_rows[] = {
    {"vocab_transform", SYN__REPLICATED_LINEAR, HIDDEN, HIDDEN, .at = AT(transform),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {"vocab_layer_norm", SYN__NORM, 0, HIDDEN, .at = AT(transform_norm), .flags = SYN__NO_PREFIX,
     .heads = MLM},
    {"vocab_projector", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(word_head),
     .flags = SYN__NO_PREFIX, .heads = MLM, .tied = WORDS},
    {"vocab_projector", SYN__VOCAB_BIAS, SYN__DIM_VOCAB, 0, .at = AT(word_bias),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {0}};

/* RoBERTa's head. Its other names are BERT's. */
static const syn__param_row roberta_head_rows[] = {
    {"pooler.dense", SYN__REPLICATED_LINEAR, HIDDEN, HIDDEN, .at = AT(pooler), .heads = POOLER},
    {"lm_head.dense", SYN__REPLICATED_LINEAR, HIDDEN, HIDDEN, .at = AT(transform),
     .flags = SYN__NO_PREFIX, .heads = MLM},
    {"lm_head.layer_norm", SYN__NORM, 0, HIDDEN, .at = AT(transform_norm), .flags = SYN__NO_PREFIX,
     .heads = MLM},
    {"lm_head.decoder", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(word_head),
     .flags = SYN__NO_PREFIX, .heads = MLM, .tied = WORDS},
    {"lm_head", SYN__VOCAB_BIAS, SYN__DIM_VOCAB, 0, .at = AT(word_bias), .flags = SYN__NO_PREFIX,
     .heads = MLM},
    {"lm_head.decoder", SYN__BIAS_ALIAS, .flags = SYN__NO_PREFIX, .heads = MLM, .tied = "lm_head"},
    {0}};

/* ---- encoder ---- */

static syn_tensor dense(syn_model *m, syn_tensor x, const syn_layer_linear *layer,
                        const char *label) {
    return syn_column_linear(m->ctx, x, layer, false, NULL, label);
}

/* x (B, T, C) -> (B, T, C/tp) */
static syn_tensor self_attention(syn_model *m, const struct bert_layer *l, int64_t i,
                                 syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const int64_t depth = syn__model_head_dim(m);
    syn_push_scope(ctx, "self");
    x = syn__model_enter(m, x); /* once for query, key and value */
    const syn_tensor q = syn_heads_split(ctx, dense(m, x, &l->query, "query"), depth);
    const syn_tensor k = syn_heads_split(ctx, dense(m, x, &l->key, "key"), depth);
    const syn_tensor v = syn_heads_split(ctx, dense(m, x, &l->value, "value"), depth);
    const syn_tensor y = syn__model_attend(m, i, q, k, v);
    syn_pop_scope(ctx);
    return y;
}

/* The output of attention has no dropout in DistilBERT. */
static bool drops_attention(const syn_model *m) {
    return m->config.family != &syn_distilbert_family;
}

/* Returns LayerNorm(dropout(dense(x)) + residual) for x (B, T, K/tp), where K is the input width of
   `layer`. */
static syn_tensor output(syn_model *m, syn_tensor x, syn_tensor residual,
                         const syn_layer_linear *layer, const syn_layer_norm *norm, int64_t i,
                         syn__site site) {
    syn_ctx *ctx = m->ctx;
    syn_push_scope(ctx, "output");
    x = syn_row_linear_partial(ctx, x, layer, m->options.tp, "dense");
    x = syn__model_reduce(m, x, layer->bias);
    if (site != SYN__SITE_ATTENTION_OUT || drops_attention(m)) x = syn__model_drop(m, x, i, site);
    x = syn_name(ctx, syn_add(ctx, x, residual), "residual");
    x = syn__model_norm(m, x, norm, "LayerNorm");
    syn_pop_scope(ctx);
    return x;
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct bert_layer *l = layer;
    syn_ctx *ctx = m->ctx;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "attention");
    syn_tensor y = self_attention(m, l, i, x);
    x = output(m, y, x, &l->attention_output, &l->attention_norm, i, SYN__SITE_ATTENTION_OUT);
    syn_release(ctx, mark, &x, 1);
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "intermediate");
    y = dense(m, syn__model_enter(m, x), &l->intermediate, "dense");
    y = syn__model_activate(m, y);
    syn_pop_scope(ctx);
    return output(m, y, x, &l->output, &l->output_norm, i, SYN__SITE_MLP_OUT);
}

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_model *m, syn_tensor tokens, syn_tensor types) {
    const struct bert *bert = m->params;
    syn_ctx *ctx = m->ctx;
    syn_push_scope(ctx, "embeddings");
    syn_tensor x = syn_vocab_embedding(ctx, bert->words, tokens, m->config.pad_id, m->options.dtype,
                                       m->options.tp);
    const syn_tensor positions =
        syn_name(ctx,
                 syn_slice(ctx, syn_current_version(ctx, bert->positions), 0,
                           m->config.first_position, syn_tensor_dim(ctx, tokens, 1)),
                 "positions");
    const syn_tensor table = syn_current_version(ctx, bert->types);
    if (table.id) {
        const bool one = !types.id || m->config.n_types == 1;
        const syn_tensor kinds =
            one ? syn_slice(ctx, table, 0, 0, 1) : syn_embedding(ctx, table, types, 0);
        x = syn_add(ctx, x, syn_name(ctx, kinds, "types"));
    }
    x = syn__model_cut(m, syn_add(ctx, x, positions));
    x = syn__model_norm(m, x, &bert->embeddings_norm, "LayerNorm");
    x = syn__model_drop(m, x, 0, SYN__SITE_EMBEDDING);
    syn_pop_scope(ctx);
    return x;
}

/* The context fails unless t has dtype `dtype` and the shape (B, T), with the B sequences of x and
   T tokens each. An invalid t is allowed. */
static void check_same_shape(syn_model *m, syn_tensor t, syn_tensor x, int64_t tokens,
                             syn_dtype dtype, const char *what) {
    syn_ctx *ctx = m->ctx;
    const syn_spec want = {(int32_t)dtype, 2, {syn_tensor_dim(ctx, x, 0), tokens}};
    if (!t.id || syn_spec_equal(syn_tensor_spec(ctx, t), &want)) return;
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    syn_ctx_fail(ctx, SYN_E_SHAPE, "%s must be %s with the tokens' shape, not %s", what,
                 syn_spec_text(&want, a, sizeof a),
                 syn_spec_text(syn_tensor_spec(ctx, t), b, sizeof b));
}

static void check_inputs(syn_model *m, syn_tensor x, syn_tensor types, syn_tensor mask) {
    if (!syn__model_accepts(m, x, 1)) return;
    const int64_t n = syn__model_tokens(m, x);
    if (n > m->config.n_positions)
        syn_ctx_fail(m->ctx, SYN_E_SHAPE, "%lld tokens exceed the %lld positions of %s",
                     (long long)n, (long long)m->config.n_positions, m->config.name);
    check_same_shape(m, types, x, n, SYN_I32, "token types");
    check_same_shape(m, mask, x, n, SYN_F32, "the padding mask");
    (void)syn__model_set_cut(m, n, !m->part.embed);
}

/* With sequence parallelism: whether the result is this rank's tokens, for the next stage or a
   training loss. */
static bool returns_cut(const syn_model *m, syn_tensor x) {
    const bool whole = m->part.embed && m->part.head && m->part.n_layers == m->config.n_layer;
    return !whole || syn_requires_grad(m->ctx, x);
}

syn_tensor syn_bert_forward(syn_model *m, syn_tensor tokens, syn_tensor types, syn_tensor mask) {
    syn_ctx *ctx = m->ctx;
    syn_tensor x = tokens;
    check_inputs(m, x, types, mask);
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    const syn_mark mark = syn_ctx_mark(ctx);
    m->visible = mask;
    if (m->part.embed) x = embed(m, x, types);
    syn_release(ctx, mark, &x, 1);
    x = syn__model_layers(m, x, mark);
    if (!returns_cut(m, x)) x = syn__model_whole(m, x);
    m->cut = false;
    return x;
}

/* ---- heads ---- */

/* Checks that the model has the head that owns `weight`, and that x is (..., C) in the model's
   dtype with `rank` dimensions (2 or 3). Otherwise the context fails. */
static bool ready(syn_model *m, syn_tensor weight, const char *name, syn_tensor x, int rank) {
    syn_ctx *ctx = m->ctx;
    if (syn_ctx_status(ctx) != SYN_OK) return false;
    if (!weight.id) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "%s was created without the head '%s'", m->config.name,
                     name);
        return false;
    }
    const syn_spec *spec = syn_tensor_spec(ctx, x);
    if (spec->dtype == (int32_t)m->options.dtype && spec->rank == rank &&
        spec->dims[rank - 1] == m->config.n_embd)
        return true;
    char text[SYN_SPEC_TEXT];
    syn_ctx_fail(ctx, SYN_E_SHAPE, "the head '%s' needs %s (batch, %s%lld), not %s", name,
                 syn_dtype_name(m->options.dtype), rank == 3 ? "tokens, " : "",
                 (long long)m->config.n_embd, syn_spec_text(spec, text, sizeof text));
    return false;
}

syn_tensor syn_bert_pooled(syn_model *m, syn_tensor hidden) {
    const struct bert *bert = m->params;
    syn_ctx *ctx = m->ctx;
    if (!ready(m, bert->pooler.weight, "pooler", hidden, 3)) return (syn_tensor){0};
    const int64_t dims[2] = {syn_tensor_dim(ctx, hidden, 0), m->config.n_embd};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "pooler");
    syn_tensor x = syn_name(ctx, syn_slice(ctx, hidden, 1, 0, 1), "first");
    x = dense(m, syn_reshape(ctx, x, dims, 2), &bert->pooler, "dense");
    x = syn_tanh(ctx, x);
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

/* The layer before the word prediction: x (N, C) -> (N, C). */
static syn_tensor transform(syn_model *m, syn_tensor x) {
    const struct bert *bert = m->params;
    syn_push_scope(m->ctx, "transform");
    x = dense(m, x, &bert->transform, "dense");
    x = m->config.family == &syn_roberta_family ? syn_gelu(m->ctx, x, false) /* always, as in */
                                                : syn__model_activate(m, x); /* transformers */
    x = syn__model_norm(m, x, &bert->transform_norm, "LayerNorm");
    syn_pop_scope(m->ctx);
    return x;
}

syn_tensor syn_bert_mlm(syn_model *m, syn_tensor hidden, syn_tensor positions) {
    const struct bert *bert = m->params;
    syn_ctx *ctx = m->ctx;
    if (!ready(m, bert->word_bias, "MLM", hidden, 3)) return (syn_tensor){0};
    const syn_spec *which = syn_tensor_spec(ctx, positions);
    if (positions.id && (which->dtype != SYN_I32 || which->rank != 1 || which->dims[0] < 1)) {
        char text[SYN_SPEC_TEXT];
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "positions must be i32 (number of positions), not %s",
                            syn_spec_text(which, text, sizeof text));
    }
    const int64_t dims[2] = {-1, m->config.n_embd};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "cls.predictions");
    syn_tensor x = syn_reshape(ctx, hidden, dims, 2);
    if (positions.id) x = syn_name(ctx, syn_embedding(ctx, x, positions, 0), "picked");
    x = syn_vocab_head(ctx, transform(m, x), bert->word_head, bert->word_bias, m->config.vocab_size,
                       m->options.tp, "decoder");
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

/* Sets m->cut if `hidden` is this rank's tokens, which have fewer than the labels. */
static void set_cut_hidden(syn_model *m, syn_tensor hidden, syn_tensor labels) {
    const int64_t n = syn_tensor_dim(m->ctx, hidden, 1);
    m->cut = m->options.sp && syn_tensor_spec(m->ctx, labels)->rank == 2 &&
             syn_tensor_dim(m->ctx, labels, 1) == n * syn__model_tp(m);
}

syn_tensor syn_bert_mlm_loss(syn_model *m, syn_tensor hidden, syn_tensor labels,
                             syn_tensor weight) {
    const struct bert *bert = m->params;
    syn_ctx *ctx = m->ctx;
    const int64_t dims[2] = {-1, m->config.n_embd}, flat[1] = {-1};
    if (!ready(m, bert->word_bias, "MLM", hidden, 3)) return (syn_tensor){0};
    set_cut_hidden(m, hidden, labels);
    check_same_shape(m, labels, hidden,
                     syn_tensor_dim(ctx, hidden, 1) * (m->cut ? syn__model_tp(m) : 1), SYN_I32,
                     "labels");
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, "cls.predictions");
    syn_tensor x;
    if (m->cut) { /* gathered along T, before tokens become rows */
        x = syn__model_enter(m, transform(m, hidden));
        x = syn_vocab_logits(ctx, syn_reshape(ctx, x, dims, 2), bert->word_head, bert->word_bias,
                             NULL, "decoder");
    } else {
        x = transform(m, syn_reshape(ctx, hidden, dims, 2));
        x = syn_vocab_logits(ctx, x, bert->word_head, bert->word_bias, m->options.tp, "decoder");
    }
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "loss");
    x = syn_vocab_loss(ctx, x, syn_reshape(ctx, labels, flat, 1), weight, m->config.vocab_size,
                       m->options.unfused_loss, m->options.tp);
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_bert_nsp(syn_model *m, syn_tensor pooled) {
    const struct bert *bert = m->params;
    syn_ctx *ctx = m->ctx;
    if (!ready(m, bert->seq_relationship.weight, "NSP", pooled, 2)) return (syn_tensor){0};
    syn_push_scope(ctx, "cls");
    const syn_tensor logits = dense(m, pooled, &bert->seq_relationship, "seq_relationship");
    syn_pop_scope(ctx);
    return logits;
}

/* ---- configurations ---- */

#define MAX_TYPES     ((int64_t)1 << 16)
#define UNCASED_VOCAB 30522
#define CASED_VOCAB   28996

/* Sizes: Devlin et al. 2019, section 3, and the released vocab.txt files. Everything else: the
   released configurations. */
#define PRESET(name_, layers, hidden, heads, vocab)                                              \
    {                                                                                            \
        .family = &syn_bert_family, .name = name_, .n_layer = layers, .n_embd = hidden,          \
        .n_head = heads, .n_positions = 512, .n_inner = 4 * (hidden), .vocab_size = vocab,       \
        .n_types = 2, .norm_epsilon = 1e-12, .initializer_range = 0.02,                          \
        .activation = SYN_GELU_ERF, .dropout = {0.1, 0.1, 0.1}, .tied = true, .dtype = "float32" \
    }

static const syn_model_config presets[] = {
    PRESET("bert-base-uncased", 12, 768, 12, UNCASED_VOCAB),
    PRESET("bert-large-uncased", 24, 1024, 16, UNCASED_VOCAB),
    PRESET("bert-base-cased", 12, 768, 12, CASED_VOCAB),
    PRESET("bert-large-cased", 24, 1024, 16, CASED_VOCAB),
};

static const syn_model_config defaults = {.family = &syn_bert_family,
                                          .n_positions = 512,
                                          .n_types = 2,
                                          .norm_epsilon = 1e-12,
                                          .initializer_range = 0.02,
                                          .activation = SYN_GELU_ERF,
                                          .dropout = {0.1, 0.1, 0.1},
                                          .tied = true};

static syn_status read_positions(syn__settings *s, void *member) {
    (void)member;
    char shown[64];
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, "absolute")) return SYN_OK;
    return syn__settings_fail(
        s, "\"%s\" must be \"absolute\", not \"%s\": this model supports no other value", s->path,
        syn__settings_shown(s, shown));
}

static const syn__setting rows[] = {
    SYN__ROWS_NAMES,
    SYN__ROWS_LAYERS,
    SYN__ROWS_WIDTHS,
    SYN__ROW_I64("type_vocab_size", SYN__OPTIONAL, SYN__AT(n_types), 1, MAX_TYPES),
    SYN__ROW_I64("pad_token_id", SYN__NONE | SYN__SAVED, SYN__AT(pad_id), 0, SYN__MAX_VOCAB - 1),
    SYN__ROWS_NUMBERS("layer_norm_eps"),
    SYN__ROW_ACTIVATION("hidden_act", SYN__SAVED),
    SYN__ROW_DROPOUT("hidden_dropout_prob", residual),
    SYN__ROW_DROPOUT("attention_probs_dropout_prob", attention),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    /* Features of the file format that this model does not support. */
    SYN__ROW_CUSTOM("position_embedding_type", 0, read_positions),
    SYN__ROW_CUSTOM("is_decoder", 0, syn__config_false),
    SYN__ROWS_DECODER_ONLY,
};
static const syn__setting_table fields = SYN__MODEL_TABLE_OF(rows);

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_model_config *c = &file->config;
    c->dropout.embedding = c->dropout.residual;
    if (c->pad_id < c->vocab_size) return SYN_OK;
    return syn__settings_fail_at(
        s, table, "pad_token_id",
        "\"pad_token_id\" %lld is outside a vocabulary of %lld (\"vocab_size\")",
        (long long)c->pad_id, (long long)c->vocab_size);
}

static syn_status check(const syn_model_config *c, syn_error *err) {
    if (c->n_types >= 1) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "model %s: the number of token types must be at least 1, not %lld", c->name,
                    (long long)c->n_types);
}

static const char *class_of(unsigned heads) {
    return heads & SYN_BERT_NSP   ? "BertForPreTraining"
           : heads & SYN_BERT_MLM ? "BertForMaskedLM"
                                  : "BertModel";
}

static const char *const types[] = {"bert", NULL};

const syn_model_family syn_bert_family = {.name = "bert",
                                          .title = "BERT",
                                          .types = types,
                                          .tokenizer = SYN_TOKENIZER_WORDPIECE,
                                          .defaults = &defaults,
                                          SYN__PRESETS(presets),
                                          .fields = &fields,
                                          .check_file = check_file,
                                          .check = check,
                                          .class_of = class_of,
                                          .prefix = "bert.",
                                          .layers = "encoder.layer",
                                          .embed_rows = embed_rows,
                                          .layer_rows = layer_rows,
                                          .head_rows = head_rows,
                                          .out_in = true,
                                          .params_bytes = sizeof(struct bert),
                                          .layer_bytes = sizeof(struct bert_layer),
                                          .layer = layer};

/* ---- DistilBERT ---- */

#define DISTIL(...)                                                                        \
    {                                                                                      \
        .family = &syn_distilbert_family, .n_positions = 512, .norm_epsilon = 1e-12,       \
        .initializer_range = 0.02, .activation = SYN_GELU_ERF, .dropout = {0.1, 0.1, 0.1}, \
        .tied = true, __VA_ARGS__                                                          \
    }
#define DISTIL_PRESET(name_, vocab)                                                   \
    DISTIL(.name = name_, .n_layer = 6, .n_embd = 768, .n_head = 12, .n_inner = 3072, \
           .vocab_size = vocab, .dtype = "float32")

/* Sanh et al. 2019, and the released configurations. */
static const syn_model_config distil_presets[] = {
    DISTIL_PRESET("distilbert-base-uncased", UNCASED_VOCAB),
    DISTIL_PRESET("distilbert-base-cased", CASED_VOCAB),
};
static const syn_model_config distil_defaults = DISTIL(.pad_id = 0);

/* transformers accepts a second name of some keys. */
#define SIZE(key, other, member, most)                                \
    SYN__ROW_I64(key, SYN__REQUIRED_SAVED, SYN__AT(member), 1, most), \
        SYN__ROW_I64(other, SYN__REQUIRED, SYN__AT(member), 1, most)

static const syn__setting distil_rows[] = {
    SYN__ROWS_NAMES,
    SIZE("n_layers", "num_hidden_layers", n_layer, SYN__MAX_LAYERS),
    SIZE("dim", "hidden_size", n_embd, SYN__MAX_EMBD),
    SIZE("n_heads", "num_attention_heads", n_head, SYN__MAX_EMBD),
    SYN__ROW_I64("hidden_dim", SYN__REQUIRED_SAVED, SYN__AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("max_position_embeddings", SYN__SAVED, SYN__AT(n_positions), 1,
                 SYN__MAX_POSITIONS),
    SYN__ROW_I64("vocab_size", SYN__REQUIRED_SAVED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_I64("pad_token_id", SYN__NONE | SYN__SAVED, SYN__AT(pad_id), 0, SYN__MAX_VOCAB - 1),
    SYN__ROW_F64("initializer_range", SYN__SAVED, SYN__AT(initializer_range), 1e-9, 10),
    SYN__ROW_ACTIVATION("activation", SYN__SAVED),
    SYN__ROW_DROPOUT("dropout", residual),
    SYN__ROW_DROPOUT("attention_dropout", attention),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    SYN__ROW_CUSTOM("sinusoidal_pos_embds", 0, syn__config_false),
    SYN__ROWS_DECODER_ONLY,
};
static const syn__setting_table distil_fields = SYN__MODEL_TABLE_OF(distil_rows);

static const char *distil_class_of(unsigned heads) {
    return heads & SYN_BERT_MLM ? "DistilBertForMaskedLM" : "DistilBertModel";
}

static const char *const distil_types[] = {"distilbert", NULL};

const syn_model_family syn_distilbert_family = {.name = "distilbert",
                                                .title = "DistilBERT",
                                                .types = distil_types,
                                                .tokenizer = SYN_TOKENIZER_WORDPIECE,
                                                .defaults = &distil_defaults,
                                                SYN__PRESETS(distil_presets),
                                                .fields = &distil_fields,
                                                .check_file = check_file,
                                                .class_of = distil_class_of,
                                                .prefix = "distilbert.",
                                                .layers = "transformer.layer",
                                                .embed_rows = distil_embed_rows,
                                                .layer_rows = distil_layer_rows,
                                                .head_rows = distil_head_rows,
                                                .out_in = true,
                                                .params_bytes = sizeof(struct bert),
                                                .layer_bytes = sizeof(struct bert_layer),
                                                .layer = layer};

/* ---- RoBERTa ---- */

#define ROBERTA(...)                                                                            \
    {                                                                                           \
        .family = &syn_roberta_family, .initializer_range = 0.02, .activation = SYN_GELU_ERF,   \
        .dropout = {0.1, 0.1, 0.1}, .pad_id = 1, .first_position = 2, .tied = true, __VA_ARGS__ \
    }
#define ROBERTA_PRESET(name_, layers, hidden, heads)                                        \
    ROBERTA(.name = name_, .n_layer = layers, .n_embd = hidden, .n_head = heads,            \
            .n_inner = 4 * (hidden), .n_positions = 512, .vocab_size = 50265, .n_types = 1, \
            .norm_epsilon = 1e-5, .dtype = "float32")

/* Liu et al. 2019, section 3.1, and the released configurations. */
static const syn_model_config roberta_presets[] = {
    ROBERTA_PRESET("roberta-base", 12, 768, 12),
    ROBERTA_PRESET("roberta-large", 24, 1024, 16),
};
static const syn_model_config roberta_defaults =
    ROBERTA(.n_positions = 512, .n_types = 2, .norm_epsilon = 1e-12); /* see roberta_check_file */

/* max_position_embeddings counts all rows of the position table. */
static void write_positions(syn_sink *out, const void *member) {
    const char *start = (const char *)member - offsetof(syn_model_config, n_positions);
    const syn_model_config *c = (const void *)start;
    syn_sink_printf(out, ",\n  \"max_position_embeddings\": %lld",
                    (long long)(c->first_position + c->n_positions));
}

static const syn__setting roberta_rows[] = {
    SYN__ROWS_NAMES,
    SYN__ROWS_LAYERS,
    SYN__ROW_I64("intermediate_size", SYN__REQUIRED_SAVED, SYN__AT(n_inner), 1, SYN__MAX_INNER),
    {.key = "max_position_embeddings",
     .type = SYN__SETTING_I64,
     .flags = SYN__SAVED,
     .offset = SYN__AT(n_positions),
     .min = 1,
     .max = SYN__MAX_POSITIONS,
     .write = write_positions},
    SYN__ROW_I64("vocab_size", SYN__REQUIRED_SAVED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_I64("type_vocab_size", SYN__OPTIONAL, SYN__AT(n_types), 1, MAX_TYPES),
    SYN__ROW_I64("pad_token_id", SYN__SAVED, SYN__AT(pad_id), 0, SYN__MAX_VOCAB - 1),
    SYN__ROWS_NUMBERS("layer_norm_eps"),
    SYN__ROW_ACTIVATION("hidden_act", SYN__SAVED),
    SYN__ROW_DROPOUT("hidden_dropout_prob", residual),
    SYN__ROW_DROPOUT("attention_probs_dropout_prob", attention),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    SYN__ROW_CUSTOM("position_embedding_type", 0, read_positions),
    SYN__ROW_CUSTOM("is_decoder", 0, syn__config_false),
    SYN__ROWS_DECODER_ONLY,
};
static const syn__setting_table roberta_fields = SYN__MODEL_TABLE_OF(roberta_rows);

static syn_status roberta_check_file(syn__settings *s, const syn__setting_table *table,
                                     syn__config_file *file) {
    syn_model_config *c = &file->config;
    const int64_t all = c->n_positions;
    SYN_TRY(check_file(s, table, file));
    c->first_position = c->pad_id + 1;
    c->n_positions = all - c->first_position;
    if (c->n_positions >= 1) return SYN_OK;
    return syn__settings_fail_at(s, table, "max_position_embeddings",
                                 "\"max_position_embeddings\" %lld must be above %lld, because "
                                 "positions begin after \"pad_token_id\"",
                                 (long long)all, (long long)c->first_position);
}

static const char *roberta_class_of(unsigned heads) {
    return heads & SYN_BERT_MLM ? "RobertaForMaskedLM" : "RobertaModel";
}

static const char *const roberta_types[] = {"roberta", NULL};

const syn_model_family syn_roberta_family = {.name = "roberta",
                                             .title = "RoBERTa",
                                             .types = roberta_types,
                                             .tokenizer = SYN_TOKENIZER_BPE,
                                             .defaults = &roberta_defaults,
                                             SYN__PRESETS(roberta_presets),
                                             .fields = &roberta_fields,
                                             .check_file = roberta_check_file,
                                             .check = check,
                                             .class_of = roberta_class_of,
                                             .prefix = "roberta.",
                                             .layers = "encoder.layer",
                                             .embed_rows = embed_rows,
                                             .layer_rows = layer_rows,
                                             .head_rows = roberta_head_rows,
                                             .out_in = true,
                                             .params_bytes = sizeof(struct bert),
                                             .layer_bytes = sizeof(struct bert_layer),
                                             .layer = layer};
