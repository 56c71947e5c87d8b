/* StarCoder2 (Lozhkov et al. 2024): Llama's attention with LayerNorm, an MLP of two matrices with
   GELU, and biases everywhere. Tensor parallelism is that of Llama. */
#include "models/llama_private.h"

#define AT(member) offsetof(struct llama, member)
#define IN(member) offsetof(struct llama_layer, member)

static const syn__param_row layer_rows[] = {SYN__LLAMA_ATTENTION_ROWS_AS(IN, SYN__NORM),
                                            {"mlp.c_fc", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,
                                             SYN__DIM_INNER, .at = IN(up), .flags = SYN__MLP_BIAS},
                                            {"mlp.c_proj", SYN__ROW_LINEAR, SYN__DIM_INNER,
                                             SYN__DIM_HIDDEN, .at = IN(down),
                                             .flags = SYN__MLP_BIAS | SYN__RESIDUAL},
                                            {0}};

static const syn__param_row head_rows[] = {{"norm", SYN__NORM, 0, SYN__DIM_HIDDEN, .at = AT(norm)},
                                           {"lm_head", SYN__VOCAB_TABLE, SYN__DIM_VOCAB,
                                            SYN__DIM_HIDDEN, .at = AT(lm_head),
                                            .flags = SYN__NO_PREFIX, .tied = "embed_tokens"},
                                           {0}};

/* ---- computation ---- */

static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    return syn__model_drop(m, syn__llama_embed(m, tokens), 0, SYN__SITE_EMBEDDING);
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    (void)i;
    x = syn_column_linear(m->ctx, syn__model_enter(m, x), &l->up, false, NULL, "c_fc");
    return syn__model_activate(m, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const syn__branch branches[2] = {SYN__LLAMA_ATTENTION_BRANCH(l),
                                     {"mlp", &l->post_norm, "post_attention_layernorm", mlp,
                                      &l->down, "c_proj", SYN__SITE_MLP_OUT}};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define CONFIG(...)                                                                              \
    {                                                                                            \
        .family = &syn_starcoder2_family, .norm_epsilon = 1e-5, .initializer_range = 0.018042,   \
        .activation = SYN_GELU_TANH, .windowed = true, .attention_bias = true, .mlp_bias = true, \
        .tied = true, __VA_ARGS__                                                                \
    }
#define PRESET(name_, layers, hidden, heads, keys, theta)                                          \
    CONFIG(.name = name_, .n_layer = layers, .n_embd = hidden, .n_head = heads, .n_kv_head = keys, \
           .head_dim = 128, .n_inner = 4 * (hidden), .n_positions = 16384, .vocab_size = 49152,    \
           .rotary = SYN__ROTARY(theta, 1), .window = 4096, .end = {{0}, 1, 0, 0},                 \
           .dtype = "float32")

/* Sizes: Lozhkov et al. 2024, table 6, and the released configurations. */
static const syn_model_config presets[] = {
    PRESET("starcoder2-3b", 30, 3072, 24, 2, 999999.4420358813),
    PRESET("starcoder2-7b", 32, 4608, 36, 4, 1e6),
};

static const syn_model_config defaults =
    CONFIG(.n_positions = 4096, .n_kv_head = 2, .rotary = SYN__ROTARY(1e4, 1), .window = -1,
           .end = SYN__STOP_IDS(50256, 50256));

static const syn__setting rows[] = {
    SYN__LLAMA_ROWS("norm_epsilon"),
    SYN__ROW_ACTIVATION("hidden_act", SYN__SAVED),
    SYN__ROW_DROPOUT("residual_dropout", residual),
    SYN__ROW_DROPOUT("embedding_dropout", embedding),
    SYN__ROW_BOOL("use_bias", SYN__SAVED, SYN__AT(attention_bias)),
    SYN__LLAMA_WINDOW(1),
    SYN__ROW_CUSTOM("layer_types", 0, syn__llama_layer_types),
};
static const syn__setting_table fields = SYN__MODEL_TABLE_OF(rows);

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    file->config.mlp_bias = file->config.attention_bias;
    return syn__llama_check_file(s, table, file);
}

const syn_model_family syn_starcoder2_family = {.name = "starcoder2",
                                                .title = "StarCoder2",
                                                .types = (const char *const[]){"starcoder2", NULL},
                                                .tokenizer = SYN_TOKENIZER_BPE,
                                                .defaults = &defaults,
                                                SYN__PRESETS(presets),
                                                .fields = &fields,
                                                .check_file = check_file,
                                                .architecture = "Starcoder2ForCausalLM",
                                                .prefix = "model.",
                                                .layers = "layers",
                                                .attention = "self_attn",
                                                .embed_rows = syn__llama_embed_rows,
                                                .layer_rows = layer_rows,
                                                .head_rows = head_rows,
                                                .out_in = true,
                                                .params_bytes = sizeof(struct llama),
                                                .layer_bytes = sizeof(struct llama_layer),
                                                .layer = layer,
                                                .embed = embed,
                                                .head_scope = "lm_head",
                                                .same_layers = true};
