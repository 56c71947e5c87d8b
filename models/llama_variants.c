/* Families whose layers are Llama's with a few differences:

   Phi-3 (Abdin et al. 2024): checkpoints have queries, keys and values in one matrix, and the two
   matrices of the MLP's input in one.
   OLMo 2 (OLMo Team 2024): norms of the branches' outputs instead of their inputs, and norms over
   the queries, and the keys, of all heads.
   Granite (Granite Team 2024): factors of the embedding, of the branches' outputs, of the attention
   scores and of the logits.
   SmolLM3 (Bakouch et al. 2025): some layers have no rotary embedding. */
#include "models/llama_private.h"

#define IN(member) offsetof(struct llama_layer, member)
#define HIDDEN     SYN__DIM_HIDDEN
#define INNER      SYN__DIM_INNER
#define QKV        .flags = SYN__NO_BIAS, .file = "self_attn.qkv_proj"
#define GATE_UP    .flags = SYN__NO_BIAS, .file = "mlp.gate_up_proj"

static const syn__param_row phi3_layer[] = {
    {"input_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(input_norm)},
    {"self_attn.q_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(q), QKV},
    {"self_attn.k_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, SYN__SHARED_HEADS, IN(k), QKV,
     .from_end = 2},
    {"self_attn.v_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, SYN__SHARED_HEADS, IN(v), QKV,
     .from_end = 1},
    {"self_attn.o_proj", SYN__ROW_LINEAR, SYN__DIM_QUERIES, HIDDEN, .at = IN(o),
     .flags = SYN__NO_BIAS | SYN__RESIDUAL},
    {"self_attn.rotary_emb.inv_freq", .kind = SYN__IGNORED},
    {"post_attention_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(post_norm)},
    {"mlp.gate_proj", SYN__COLUMN_LINEAR, HIDDEN, INNER, .at = IN(gate), GATE_UP},
    {"mlp.up_proj", SYN__COLUMN_LINEAR, HIDDEN, INNER, .at = IN(up), GATE_UP, .from_end = 1},
    {"mlp.down_proj", SYN__ROW_LINEAR, INNER, HIDDEN, .at = IN(down),
     .flags = SYN__NO_BIAS | SYN__RESIDUAL},
    {0}};

static const syn__param_row olmo2_layer[] = {
    SYN__LLAMA_QKVO_ROWS(IN, SYN__DIM_QUERIES, SYN__DIM_KEYS),
    {"post_attention_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(after_attention)},
    {"post_feedforward_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(after_mlp)},
    SYN__LLAMA_MLP_ROWS(IN, 0),
    {0}};

static const syn__param_row llama_layer[] = {
    SYN__LLAMA_ATTENTION_ROWS(IN), SYN__LLAMA_MLP_ROWS(IN, 0), {0}};

/* ---- computation ---- */

static syn_tensor run_olmo2(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const syn__branch branches[2] = {
        {"self_attn", NULL, NULL, syn__llama_attention, &l->o, "o_proj", SYN__SITE_ATTENTION_OUT},
        {"mlp", NULL, NULL, syn__llama_mlp, &l->down, "down_proj", SYN__SITE_MLP_OUT}};
    const syn__post_norm norms[2] = {{&l->after_attention, "post_attention_layernorm"},
                                     {&l->after_mlp, "post_feedforward_layernorm"}};
    return syn__model_post_norm(m, l, i, x, branches, norms);
}

/* ---- configurations ---- */

#define PHI3(name_, layers, hidden, heads, keys, inner, positions, vocab, theta, window_, ...) \
    SYN__LLAMA_PRESET(phi3, name_, layers, hidden, heads, keys, inner, positions, vocab,       \
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(theta, 1), .windowed = true, \
                      .window = window_, .end = __VA_ARGS__, .dtype = "bfloat16")

/* Sizes: Abdin et al. 2024 (Phi-3 and Phi-4), and the released configurations. */
static const syn_model_config phi3_presets[] = {
    PHI3("phi-3-mini-4k", 32, 3072, 32, 32, 8192, 4096, 32064, 1e4, 2047, {{32000}, 1, 32000, 1}),
    PHI3("phi-3-medium-4k", 40, 5120, 40, 10, 17920, 4096, 32064, 1e4, 2047,
         {{32000}, 1, 32000, 1}),
    PHI3("phi-4", 40, 5120, 40, 10, 17920, 16384, 100352, 2.5e5, -1, {{100265}, 1, 100349, 100257}),
};

static const syn_model_config phi3_defaults = {.family = &syn_phi3_family,
                                               .norm_epsilon = 1e-5,
                                               .initializer_range = 0.02,
                                               .n_positions = 4096,
                                               .rotary = SYN__ROTARY(1e4, 1),
                                               .windowed = true,
                                               .window = -1,
                                               .end = {{32000}, 1, 32000, 1}};

#define OLMO2(name_, layers, hidden, heads, keys, inner, dtype_)                              \
    SYN__LLAMA_PRESET(olmo2, name_, layers, hidden, heads, keys, inner, 4096, 100352,         \
                      .norm_epsilon = 1e-6, .rotary = SYN__ROTARY(5e5, 1), .head_norm = true, \
                      .wide_norm = true, .end = {{100257}, 1, 100277, -1}, .dtype = dtype_)

/* Sizes: OLMo Team 2024, table 1, and the released configurations. */
static const syn_model_config olmo2_presets[] = {
    OLMO2("olmo-2-1b", 16, 2048, 16, 16, 8192, "float32"),
    OLMO2("olmo-2-7b", 32, 4096, 32, 32, 11008, "float32"),
    OLMO2("olmo-2-13b", 40, 5120, 40, 40, 13824, "float32"),
    OLMO2("olmo-2-32b", 64, 5120, 40, 8, 27648, "bfloat16"),
};

#define GRANITE(name_, hidden, inner, scores, logits)                                              \
    SYN__LLAMA_PRESET(granite, name_, 40, hidden, 32, 8, inner, 131072, 49159,                     \
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(1e7, 1), .tied = true,           \
                      .embedding_factor = 12, .residual_factor = 0.22, .attention_factor = scores, \
                      .logit_divisor = logits, .end = {{0}, 1, 0, 0}, .dtype = "bfloat16")

/* The released configurations of Granite 3.3. */
static const syn_model_config granite_presets[] = {
    GRANITE("granite-3.3-2b", 2048, 8192, 0.015625, 8),
    GRANITE("granite-3.3-8b", 4096, 12800, 0.0078125, 16),
};

/* Every fourth layer has no rotary embedding. The released configuration. */
static const syn_model_config smollm3_presets[] = {
    SYN__LLAMA_PRESET(smollm3, "smollm3-3b", 36, 2048, 16, 4, 11008, 65536, 128256,
                      .norm_epsilon = 1e-6, .rotary = SYN__ROTARY(5e6, 1), .tied = true,
                      .window = -1, .no_rope = {{0x888888888}},
                      .end = {{128001}, 1, 128004, 128000}, .dtype = "bfloat16"),
};

static const syn_model_config olmo2_defaults = {.family = &syn_olmo2_family,
                                                .norm_epsilon = 1e-5,
                                                .initializer_range = 0.02,
                                                .n_positions = 2048,
                                                .rotary = SYN__ROTARY(1e4, 1),
                                                .head_norm = true,
                                                .wide_norm = true,
                                                .end = {{50279}, 1, 1, -1}},
                              granite_defaults = SYN__LLAMA_DEFAULTS(
                                  granite, .n_positions = 2048, .embedding_factor = 1,
                                  .residual_factor = 1, .attention_factor = 1, .logit_divisor = 1,
                                  .end = SYN__STOP_IDS(2, 1)),
                              smollm3_defaults = {.family = &syn_smollm3_family,
                                                  .norm_epsilon = 1e-6,
                                                  .initializer_range = 0.02,
                                                  .n_positions = 32768,
                                                  .n_kv_head = 4,
                                                  .rotary = SYN__ROTARY(2e6, 1),
                                                  .window = -1,
                                                  .tied = true,
                                                  .end = {{128001}, 1, 128004, 128000}};

/* transformers reads the number of original positions from the top level. */
static void write_phi3_rotary(syn_sink *out, const void *member) {
    const syn_rotary *r = member;
    syn__rotary_write(out, r);
    if (r->scaling == SYN_ROPE_LONGROPE)
        syn_sink_printf(out, ",\n  \"original_max_position_embeddings\": %lld",
                        (long long)r->original);
}

static const syn__setting phi3_rows[] = {
    SYN__LLAMA_ROWS_BUT_ROTARY("rms_norm_eps"),
    SYN__ROW_CUSTOM("hidden_act", 0, syn__llama_activation),
    SYN__ROW_CUSTOM("layer_types", 0, syn__llama_layer_types),
    SYN__ROWS_ROTARY_OF("rope_theta", "partial_rotary_factor", write_phi3_rotary,
                        syn__longrope_table),
    SYN__ROW_I64("original_max_position_embeddings", SYN__NULLABLE,
                 offsetof(syn__config_file, top_level.original), 2, SYN__MAX_POSITIONS),
    SYN__ROW_DROPOUT("resid_pdrop", residual),
    SYN__LLAMA_WINDOW(1)};

#define FACTOR(key, member) SYN__ROW_F64(key, SYN__SAVED, SYN__AT(member), 1e-9, 1e9)
#define MLP_BIAS            SYN__ROW_BOOL("mlp_bias", SYN__SAVED, SYN__AT(mlp_bias))

static const syn__setting olmo2_rows[] = {SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_ATTENTION_BIAS};
static const syn__setting granite_rows[] = {SYN__LLAMA_COMMON_ROWS,
                                            SYN__LLAMA_ATTENTION_BIAS,
                                            MLP_BIAS,
                                            FACTOR("embedding_multiplier", embedding_factor),
                                            FACTOR("residual_multiplier", residual_factor),
                                            FACTOR("attention_multiplier", attention_factor),
                                            FACTOR("logits_scaling", logit_divisor)};

/* Reads no_rope_layers into a syn__config_file: a number per layer, 0 for layers without rotary
   embedding. */
static syn_status read_rope_layers(syn__settings *s, void *member) {
    syn__config_file *file = member;
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be a list or null", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_NUMBER || type == SYN_JSON_BOOL) {
        const bool on = type == SYN_JSON_BOOL ? s->json.boolean : s->json.number != 0;
        if (on && file->n_rope_layers < SYN_MAX_SET_LAYERS)
            syn_layer_set_add(&file->rope_layers, file->n_rope_layers);
        file->n_rope_layers++;
    }
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_END) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be a list of numbers, one for each layer", s->path);
}

static void write_rope_layers(syn_sink *out, const void *config) {
    const syn_model_config *c = config;
    syn_sink_text(out, ",\n  \"no_rope_layers\": [");
    for (int64_t i = 0; i < c->n_layer; i++)
        syn_sink_printf(out, "%s%d", i ? ", " : "", !syn_layer_set_has(&c->no_rope, i));
    syn_sink_text(out, "]");
}

static const syn__setting smollm3_rows[] = {SYN__LLAMA_ROWS("rms_norm_eps"),
                                            SYN__ROW_CUSTOM("hidden_act", 0, syn__llama_activation),
                                            SYN__LLAMA_ATTENTION_BIAS,
                                            MLP_BIAS,
                                            SYN__LLAMA_WINDOW(1),
                                            SYN__LLAMA_USE_WINDOW,
                                            SYN__LLAMA_LAYER_TYPES,
                                            SYN__ROW_I64("no_rope_layer_interval", 0,
                                                         offsetof(syn__config_file, rope_interval),
                                                         1, SYN__MAX_LAYERS),
                                            {.key = "no_rope_layers",
                                             .type = SYN__SETTING_CUSTOM,
                                             .flags = SYN__SAVED,
                                             .read = read_rope_layers,
                                             .write = write_rope_layers}};

/* By default, every fourth layer has no rotary embedding, and only such layers have a window. */
static syn_status check_smollm3(syn__settings *s, const syn__setting_table *table,
                                syn__config_file *file) {
    syn_model_config *c = &file->config;
    const int64_t every = file->rope_interval ? file->rope_interval : 4;
    syn_layer_set rope = {{0}};
    if (file->n_rope_layers > 0 && file->n_rope_layers < c->n_layer)
        return syn__settings_fail_at(s, table, "no_rope_layers",
                                     "\"no_rope_layers\" has %lld entries for %lld layers",
                                     (long long)file->n_rope_layers, (long long)c->n_layer);
    for (int64_t i = 0; i < c->n_layer && i < SYN_MAX_SET_LAYERS; i++) {
        const bool has = file->n_rope_layers > 0 ? syn_layer_set_has(&file->rope_layers, i)
                                                 : (i + 1) % every != 0;
        syn_layer_set_add(has ? &rope : &c->no_rope, i);
    }
    c->windowed = c->windowed && c->window > 0;
    SYN_TRY(syn__llama_set_layer_types(s, table, file, &rope));
    return syn__llama_check_file(s, table, file);
}

static syn_status check_phi3(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_rotary *both[2] = {&file->config.rotary, &file->rope_scaling};
    for (int i = 0; i < 2; i++)
        if (both[i]->scaling == SYN_ROPE_LONGROPE)
            both[i]->original = file->top_level.original ? file->top_level.original : 4096;
    return syn__llama_check_file(s, table, file);
}

const syn_model_family syn_phi3_family = SYN__LLAMA_FAMILY_AS(
    phi3, "Phi-3", "Phi3ForCausalLM", phi3_layer, syn__llama_layer, struct llama_layer,
    syn__llama_embed, check_phi3, .same_layers = true, SYN__PRESETS(phi3_presets));

const syn_model_family syn_olmo2_family = SYN__LLAMA_FAMILY(
                           olmo2, "OLMo 2", "Olmo2ForCausalLM", olmo2_layer, run_olmo2,
                           struct llama_layer, .same_layers = true, SYN__PRESETS(olmo2_presets)),
                       syn_granite_family = SYN__LLAMA_FAMILY(
                           granite, "Granite", "GraniteForCausalLM", llama_layer, syn__llama_layer,
                           struct llama_layer, .same_layers = true, SYN__PRESETS(granite_presets)),
                       syn_smollm3_family = SYN__LLAMA_FAMILY_AS(
                           smollm3, "SmolLM3", "SmolLM3ForCausalLM", llama_layer, syn__llama_layer,
                           struct llama_layer, syn__llama_embed, check_smollm3,
                           SYN__PRESETS(smollm3_presets));
