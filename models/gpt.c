/* The GPT family: the decoder-only transformer of GPT-2 (Radford et al. 2019) and GPT-3 (Brown et
   al. 2020), with LayerNorm before each branch and learned position embeddings. With tensor
   parallelism, attention is sharded by heads, the MLP is column- then row-parallel, and the token
   embedding is sharded by vocabulary rows. Each family has a file with its parameters, computation,
   presets and configuration keys. */
#include "models/family_private.h"

struct gpt {
    syn_tensor wte, wpe, lm_head; /* if tied, lm_head is wte */
    syn_layer_norm ln_f;
};

struct gpt_layer {
    syn_layer_norm ln_1, ln_2;
    syn_layer_linear attn_qkv, attn_proj, mlp_fc, mlp_proj;
};

#define AT(member) offsetof(struct gpt, member)
#define IN(member) offsetof(struct gpt_layer, member)

static const syn__param_row embed_rows[] = {
    {"wte", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, SYN__DIM_HIDDEN, .at = AT(wte)},
    {"wpe", SYN__TABLE, SYN__DIM_POSITIONS, SYN__DIM_HIDDEN, .at = AT(wpe)},
    {0}};

static const syn__param_row layer_rows[] = {
    {"ln_1", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = IN(ln_1)},
    {"attn.c_attn", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_QKV, .layout = SYN__QKV_BLOCKS,
     .at = IN(attn_qkv)},
    {"attn.c_proj", SYN__ROW_LINEAR, SYN__DIM_QUERIES, SYN__DIM_HIDDEN, .at = IN(attn_proj),
     .flags = SYN__RESIDUAL},
    {"ln_2", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = IN(ln_2)},
    {"mlp.c_fc", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_INNER, .at = IN(mlp_fc)},
    {"mlp.c_proj", SYN__ROW_LINEAR, SYN__DIM_INNER, SYN__DIM_HIDDEN, .at = IN(mlp_proj),
     .flags = SYN__RESIDUAL},
    {"attn.bias", .kind = SYN__IGNORED},        /* the causal mask */
    {"attn.masked_bias", .kind = SYN__IGNORED}, /* the score of masked keys */
    {0}};

static const syn__param_row head_rows[] = {{"ln_f", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = AT(ln_f)},
                                           {"lm_head", SYN__VOCAB_TABLE, SYN__DIM_VOCAB,
                                            SYN__DIM_HIDDEN, .at = AT(lm_head),
                                            .flags = SYN__NO_PREFIX, .tied = "wte"},
                                           {0}};

/* ---- computation ---- */

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    const struct gpt *gpt = m->params;
    syn_ctx *ctx = m->ctx;
    const int64_t n = syn_tensor_dim(ctx, tokens, 1);
    syn_push_scope(ctx, "embed");
    const syn_tensor x =
        syn_vocab_embedding(ctx, gpt->wte, tokens, -1, m->options.dtype, m->options.tp);
    const syn_tensor at = syn__causal_positions(m, n);
    const syn_tensor wpe = syn_current_version(ctx, gpt->wpe);
    const syn_tensor p =
        at.id ? syn_embedding(ctx, wpe, at, 0) : syn_slice(ctx, wpe, 0, m->position, n);
    syn_tensor y = syn_add(ctx, x, syn_name(ctx, p, "positions"));
    y = syn__model_cut(m, y);
    y = syn__model_drop(m, y, 0, SYN__SITE_EMBEDDING);
    syn_pop_scope(ctx);
    return y;
}

/* Returns the queries, keys or values (`which` is 0, 1 or 2) in qkv (B, T, 3 C/tp) as heads (B,
   H/tp, T, D). Only creates views. */
static syn_tensor heads(syn_model *m, syn_tensor qkv, int which, const char *label) {
    const int64_t width = syn_tensor_dim(m->ctx, qkv, 2) / 3;
    const syn_tensor x = syn_slice(m->ctx, qkv, 2, which * width, width);
    return syn_heads_split(m->ctx, syn_name(m->ctx, x, label), syn__model_head_dim(m));
}

static syn_tensor attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct gpt_layer *l = layer;
    x = syn__model_enter(m, x);
    const syn_tensor qkv = syn_column_linear(m->ctx, x, &l->attn_qkv, false, NULL, "qkv");
    const syn_tensor q = heads(m, qkv, 0, "q");
    const syn_tensor k = syn__causal_keys(m, i, heads(m, qkv, 1, "k"));
    const syn_tensor v = syn__causal_values(m, i, heads(m, qkv, 2, "v"));
    return syn__model_attend(m, i, q, k, v);
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct gpt_layer *l = layer;
    (void)i;
    x = syn_column_linear(m->ctx, syn__model_enter(m, x), &l->mlp_fc, false, NULL, "fc");
    return syn__model_activate(m, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct gpt_layer *l = layer;
    const syn__branch branches[2] = {
        {"attn", &l->ln_1, "ln_1", attention, &l->attn_proj, "proj", SYN__SITE_ATTENTION_OUT},
        {"mlp", &l->ln_2, "ln_2", mlp, &l->mlp_proj, "proj", SYN__SITE_MLP_OUT}};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define GPT2_VOCAB     50257
#define GPT2_EOS       50256
#define GPT2_POSITIONS 1024
#define MEGATRON_VOCAB 51200

/* Sources of the presets. GPT-2: Radford et al. 2019, table 2, and the released hparams. GPT-3:
   Brown et al. 2020, table 2.1, except that 1.3b has 16 heads and 13b has width 5120 here, because
   the number of heads must divide the width. Megatron: Narayanan et al. 2021, table 1, and for 22b,
   530b and 1t Korthikanti et al. 2022, table 3; the vocabulary is that of GPT-2 with padding. No
   checkpoints of the GPT-3 and Megatron models were published. */
#define PRESET(name_, layers, hidden, heads, positions, vocab, ...)                              \
    {                                                                                            \
        .family = &syn_gpt_family, .name = name_, .n_layer = layers, .n_embd = hidden,           \
        .n_head = heads, .n_positions = positions, .n_inner = 4 * (hidden), .vocab_size = vocab, \
        .norm_epsilon = 1e-5, .initializer_range = 0.02, .activation = SYN_GELU_TANH,            \
        .dropout = {0.1, 0.1, 0.1}, .tied = true, .end = {{GPT2_EOS}, 1, GPT2_EOS, GPT2_EOS},    \
        __VA_ARGS__                                                                              \
    }

static const syn_model_config presets[] = {
    PRESET("gpt2", 12, 768, 12, 1024, GPT2_VOCAB, .dtype = "float32"),
    PRESET("gpt2-medium", 24, 1024, 16, 1024, GPT2_VOCAB, .dtype = "float32"),
    PRESET("gpt2-large", 36, 1280, 20, 1024, GPT2_VOCAB, .dtype = "float32"),
    PRESET("gpt2-xl", 48, 1600, 25, 1024, GPT2_VOCAB, .dtype = "float32"),
    PRESET("gpt3-125m", 12, 768, 12, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-350m", 24, 1024, 16, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-760m", 24, 1536, 16, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-1.3b", 24, 2048, 16, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-2.7b", 32, 2560, 32, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-6.7b", 32, 4096, 32, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-13b", 40, 5120, 40, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("gpt3-175b", 96, 12288, 96, 2048, GPT2_VOCAB, .dtype = ""),
    PRESET("megatron-1.7b", 24, 2304, 24, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-3.6b", 30, 3072, 32, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-7.5b", 36, 4096, 32, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-18.4b", 40, 6144, 48, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-22b", 48, 6144, 64, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-39.1b", 48, 8192, 64, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-76.1b", 60, 10240, 80, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-145.6b", 80, 12288, 96, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-310.1b", 96, 16384, 128, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-530b", 105, 20480, 128, 2048, MEGATRON_VOCAB, .dtype = ""),
    PRESET("megatron-1t", 128, 25600, 160, 2048, MEGATRON_VOCAB, .dtype = ""),
};

static const syn_model_config defaults = {.family = &syn_gpt_family,
                                          .norm_epsilon = 1e-5,
                                          .initializer_range = 0.02,
                                          .activation = SYN_GELU_TANH,
                                          .dropout = {0.1, 0.1, 0.1},
                                          .tied = true,
                                          .end = SYN__STOP_IDS(GPT2_EOS, SYN__NOT_GIVEN)};

static const syn__setting rows[] = {
    SYN__ROWS_NAMES,
    SYN__ROW_I64("n_layer", SYN__REQUIRED | SYN__SAVED, SYN__AT(n_layer), 1, SYN__MAX_LAYERS),
    SYN__ROW_I64("num_hidden_layers", SYN__REQUIRED, SYN__AT(n_layer), 1, SYN__MAX_LAYERS),
    SYN__ROW_I64("n_embd", SYN__REQUIRED | SYN__SAVED, SYN__AT(n_embd), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("hidden_size", SYN__REQUIRED, SYN__AT(n_embd), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("n_head", SYN__REQUIRED | SYN__SAVED, SYN__AT(n_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("num_attention_heads", SYN__REQUIRED, SYN__AT(n_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("num_key_value_heads", SYN__NULLABLE, SYN__AT(n_kv_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("n_positions", SYN__SAVED, SYN__AT(n_positions), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("max_position_embeddings", 0, SYN__AT(n_positions), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("n_ctx", SYN__NULLABLE, offsetof(syn__config_file, n_ctx), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("n_inner", SYN__NULLABLE | SYN__SAVED, SYN__AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("intermediate_size", SYN__NULLABLE, SYN__AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("vocab_size", SYN__REQUIRED | SYN__SAVED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_F64("layer_norm_epsilon", SYN__SAVED, SYN__AT(norm_epsilon), 0, 0.1),
    SYN__ROW_F64("layer_norm_eps", 0, SYN__AT(norm_epsilon), 0, 0.1),
    SYN__ROW_F64("initializer_range", SYN__SAVED, SYN__AT(initializer_range), 1e-9, 10),
    SYN__ROW_ACTIVATION("activation_function", SYN__SAVED),
    SYN__ROW_DROPOUT("embd_pdrop", embedding),
    SYN__ROW_DROPOUT("attn_pdrop", attention),
    SYN__ROW_DROPOUT("resid_pdrop", residual),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    SYN__ROWS_STOP_IDS,
    /* Features of GPT-2's file format that this model does not support. */
    SYN__ROW_CUSTOM("scale_attn_weights", 0, syn__config_true),
    SYN__ROW_CUSTOM("scale_attn_by_inverse_layer_idx", 0, syn__config_false),
    SYN__ROWS_DECODER_ONLY,
    SYN__ROW_CUSTOM("sliding_window", 0, syn__config_null),
};
static const syn__setting_table fields = SYN__MODEL_TABLE_OF(rows);

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_model_config *c = &file->config;
    const char *n_head = syn__settings_key(s, table, SYN__AT(n_head));
    if (c->n_positions == 0) c->n_positions = file->n_ctx > 0 ? file->n_ctx : GPT2_POSITIONS;
    if (c->n_kv_head != 0 && c->n_kv_head != c->n_head)
        return syn__settings_fail_at(s, table, "num_key_value_heads",
                                     "\"num_key_value_heads\" %lld differs from \"%s\" %lld: "
                                     "grouped-query attention is not supported",
                                     (long long)c->n_kv_head, n_head, (long long)c->n_head);
    return SYN_OK;
}

static const char *const types[] = {"gpt2", "gpt3", NULL};

const syn_model_family syn_gpt_family = {.name = "gpt",
                                         .title = "GPT-2",
                                         .types = types,
                                         .tokenizer = SYN_TOKENIZER_BPE,
                                         .defaults = &defaults,
                                         SYN__PRESETS(presets),
                                         .fields = &fields,
                                         .check_file = check_file,
                                         .architecture = "GPT2LMHeadModel",
                                         .prefix = "transformer.",
                                         .layers = "h",
                                         .attention = "attn",
                                         .embed_rows = embed_rows,
                                         .layer_rows = layer_rows,
                                         .head_rows = head_rows,
                                         .params_bytes = sizeof(struct gpt),
                                         .layer_bytes = sizeof(struct gpt_layer),
                                         .layer = layer,
                                         .embed = embed,
                                         .head_scope = "head"};
