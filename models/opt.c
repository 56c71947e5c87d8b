/* OPT (Zhang et al. 2022): GPT-2's layers with ReLU, separate matrices of queries, keys and values,
   and a table of positions whose first two rows are unused. Tensor parallelism is that of GPT-2. */
#include "models/family_private.h"

struct opt {
    syn_tensor tokens, positions, lm_head; /* if tied, lm_head is tokens */
    syn_layer_norm norm;
};

struct opt_layer {
    syn_layer_norm attention_norm, mlp_norm;
    syn_layer_linear q, k, v, out, fc1, fc2;
};

#define AT(member) offsetof(struct opt, member)
#define IN(member) offsetof(struct opt_layer, member)
#define TOKENS     "decoder.embed_tokens"

static const syn__param_row embed_rows[] = {
    {TOKENS, SYN__VOCAB_TABLE, SYN__DIM_VOCAB, SYN__DIM_HIDDEN, .at = AT(tokens)},
    {"decoder.embed_positions", SYN__TABLE, SYN__DIM_POSITIONS, SYN__DIM_HIDDEN,
     .at = AT(positions)},
    {0}};

static const syn__param_row layer_rows[] = {
    {"self_attn_layer_norm", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = IN(attention_norm)},
    {"self_attn.q_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_QUERIES, .at = IN(q),
     .flags = SYN__QKV_BIAS},
    {"self_attn.k_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_QUERIES, .at = IN(k),
     .flags = SYN__QKV_BIAS},
    {"self_attn.v_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_QUERIES, .at = IN(v),
     .flags = SYN__QKV_BIAS},
    {"self_attn.out_proj", SYN__ROW_LINEAR, SYN__DIM_QUERIES, SYN__DIM_HIDDEN, .at = IN(out),
     .flags = SYN__OUT_BIAS | SYN__RESIDUAL},
    {"final_layer_norm", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = IN(mlp_norm)},
    {"fc1", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_INNER, .at = IN(fc1),
     .flags = SYN__MLP_BIAS},
    {"fc2", SYN__ROW_LINEAR, SYN__DIM_INNER, SYN__DIM_HIDDEN, .at = IN(fc2),
     .flags = SYN__MLP_BIAS | SYN__RESIDUAL},
    {0}};

static const syn__param_row head_rows[] = {
    {"decoder.final_layer_norm", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = AT(norm)},
    {"lm_head", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, SYN__DIM_HIDDEN, .at = AT(lm_head),
     .flags = SYN__NO_PREFIX, .tied = TOKENS},
    {0}};

/* ---- computation ---- */

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    const struct opt *opt = m->params;
    syn_ctx *ctx = m->ctx;
    const int64_t n = syn_tensor_dim(ctx, tokens, 1), first = m->config.first_position;
    syn_push_scope(ctx, "embed");
    const syn_tensor x =
        syn_vocab_embedding(ctx, opt->tokens, tokens, -1, m->options.dtype, m->options.tp);
    const syn_tensor table = syn_current_version(ctx, opt->positions);
    const syn_tensor at = syn__causal_positions(m, n);
    const syn_tensor p =
        at.id ? syn_embedding(ctx, syn_slice(ctx, table, 0, first, m->config.n_positions), at, 0)
              : syn_slice(ctx, table, 0, first + m->position, n);
    const syn_tensor y = syn_add(ctx, x, syn_name(ctx, p, "positions"));
    syn_pop_scope(ctx);
    return syn__model_cut(m, y);
}

static syn_tensor attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct opt_layer *l = layer;
    const int64_t depth = syn__model_head_dim(m);
    x = syn__model_enter(m, x); /* once for q, k and v */
    syn_tensor q = syn_column_linear(m->ctx, x, &l->q, false, NULL, "q_proj");
    syn_tensor k = syn_column_linear(m->ctx, x, &l->k, false, NULL, "k_proj");
    syn_tensor v = syn_column_linear(m->ctx, x, &l->v, false, NULL, "v_proj");
    q = syn_heads_split(m->ctx, q, depth);
    k = syn__causal_keys(m, i, syn_heads_split(m->ctx, k, depth));
    v = syn__causal_values(m, i, syn_heads_split(m->ctx, v, depth));
    return syn__model_attend(m, i, q, k, v);
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct opt_layer *l = layer;
    (void)i;
    x = syn_column_linear(m->ctx, syn__model_enter(m, x), &l->fc1, false, NULL, "fc1");
    return syn__model_activate(m, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct opt_layer *l = layer;
    const syn__branch branches[2] = {
        {"self_attn", &l->attention_norm, "self_attn_layer_norm", attention, &l->out, "out_proj",
         SYN__SITE_ATTENTION_OUT},
        {"mlp", &l->mlp_norm, "final_layer_norm", mlp, &l->fc2, "fc2", SYN__SITE_MLP_OUT}};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

enum { UNUSED_POSITIONS = 2 };

#define CONFIG(...)                                                                           \
    {                                                                                         \
        .family = &syn_opt_family, .n_positions = 2048, .first_position = UNUSED_POSITIONS,   \
        .norm_epsilon = 1e-5, .initializer_range = 0.02, .activation = SYN_RELU,              \
        .dropout = {.residual = 0.1}, .attention_bias = true, .mlp_bias = true, .tied = true, \
        __VA_ARGS__                                                                           \
    }
#define PRESET(name_, layers, hidden, heads)                                    \
    CONFIG(.name = name_, .n_layer = layers, .n_embd = hidden, .n_head = heads, \
           .n_inner = 4 * (hidden), .vocab_size = 50272, .end = {{2}, 1, 1, 2}, \
           .dtype = "float16")

/* Sizes: Zhang et al. 2022, table 1. Vocabulary: the released configurations. There is no preset of
   opt-350m, which normalizes after each branch. */
static const syn_model_config presets[] = {
    PRESET("opt-125m", 12, 768, 12),  PRESET("opt-1.3b", 24, 2048, 32),
    PRESET("opt-2.7b", 32, 2560, 32), PRESET("opt-6.7b", 32, 4096, 32),
    PRESET("opt-13b", 40, 5120, 40),  PRESET("opt-30b", 48, 7168, 56),
    PRESET("opt-66b", 64, 9216, 72),  PRESET("opt-175b", 96, 12288, 96),
};

static const syn_model_config defaults = CONFIG(.end = {{2}, 1, 1, 2});

static const syn__setting rows[] = {
    SYN__ROWS_NAMES,
    SYN__ROWS_LAYERS,
    SYN__ROW_I64("ffn_dim", SYN__REQUIRED_SAVED, SYN__AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("max_position_embeddings", SYN__SAVED, SYN__AT(n_positions), 1,
                 SYN__MAX_POSITIONS),
    SYN__ROW_I64("vocab_size", SYN__REQUIRED_SAVED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_I64("word_embed_proj_dim", SYN__NULLABLE, offsetof(syn__config_file, word_width), 1,
                 SYN__MAX_EMBD),
    SYN__ROW_F64("init_std", SYN__SAVED, SYN__AT(initializer_range), 1e-9, 10),
    SYN__ROW_ACTIVATION("activation_function", SYN__SAVED),
    SYN__ROW_DROPOUT("dropout", residual),
    SYN__ROW_DROPOUT("attention_dropout", attention),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    SYN__ROW_BOOL("enable_bias", SYN__SAVED, SYN__AT(attention_bias)),
    SYN__ROWS_STOP_IDS,
    /* Features of the file format that this model does not support. */
    SYN__ROW_CUSTOM("do_layer_norm_before", 0, syn__config_true),
    SYN__ROW_CUSTOM("_remove_final_layer_norm", 0, syn__config_false),
    SYN__ROW_CUSTOM("layer_norm_elementwise_affine", 0, syn__config_true),
    SYN__ROW_CUSTOM("layerdrop", 0, syn__config_empty),
    SYN__ROWS_DECODER_ONLY,
};
static const syn__setting_table fields = SYN__MODEL_TABLE_OF(rows);

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_model_config *c = &file->config;
    c->mlp_bias = c->attention_bias;
    if (file->word_width == 0 || file->word_width == c->n_embd) return SYN_OK;
    return syn__settings_fail_at(s, table, "word_embed_proj_dim",
                                 "\"word_embed_proj_dim\" %lld differs from \"hidden_size\" %lld: "
                                 "projected embeddings are not supported",
                                 (long long)file->word_width, (long long)c->n_embd);
}

static const char *const types[] = {"opt", NULL};

const syn_model_family syn_opt_family = {.name = "opt",
                                         .title = "OPT",
                                         .types = types,
                                         .tokenizer = SYN_TOKENIZER_BPE,
                                         .defaults = &defaults,
                                         SYN__PRESETS(presets),
                                         .fields = &fields,
                                         .check_file = check_file,
                                         .architecture = "OPTForCausalLM",
                                         .prefix = "model.",
                                         .layers = "decoder.layers",
                                         .attention = "self_attn",
                                         .embed_rows = embed_rows,
                                         .layer_rows = layer_rows,
                                         .head_rows = head_rows,
                                         .out_in = true,
                                         .params_bytes = sizeof(struct opt),
                                         .layer_bytes = sizeof(struct opt_layer),
                                         .layer = layer,
                                         .embed = embed,
                                         .head_scope = "head"};
