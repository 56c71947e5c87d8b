/* Gemma 2 and the text models of Gemma 3 (Gemma Team 2024, 2025). Llama's attention, with norms of
   the inputs and of the outputs of attention and MLP, which multiply by 1 + weight; an MLP whose
   gate is a GELU; an embedding that is multiplied by the square root of its width. Some layers have
   a window. Gemma 2 caps scores and logits; Gemma 3 has norms of each head's queries and keys, and
   another rotary embedding in the layers with a window. */
#include <math.h>

#include "models/llama_private.h"
#include "syntorch/base/half.h"

#define IN(member) offsetof(struct llama_layer, member)
#define HIDDEN     SYN__DIM_HIDDEN

static const syn__param_row layer_rows[] = {
    {"input_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(input_norm)},
    SYN__LLAMA_QKVO_ROWS(IN, SYN__DIM_HEAD, SYN__DIM_HEAD),
    {"post_attention_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(after_attention)},
    {"pre_feedforward_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(post_norm)},
    {"post_feedforward_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(after_mlp)},
    SYN__LLAMA_MLP_ROWS(IN, 0),
    {0}};

/* ---- computation ---- */

/* The factor is rounded to the model's dtype, as in transformers. */
static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    const syn_dtype dtype = m->options.dtype;
    float factor = (float)sqrt((double)m->config.n_embd);
    uint16_t half;
    if (dtype != SYN_F32) {
        syn_half_narrow(&factor, &half, 1, dtype);
        syn_half_widen(&half, &factor, 1, dtype);
    }
    return syn__model_scale(m, syn__llama_embed(m, tokens), (double)factor, "scaled");
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    (void)i;
    x = syn__model_enter(m, x);
    const syn_tensor gate = syn_column_linear(m->ctx, x, &l->gate, false, NULL, "gate_proj");
    const syn_tensor up = syn_column_linear(m->ctx, x, &l->up, false, NULL, "up_proj");
    return syn_mul(m->ctx, syn__model_activate(m, gate), up);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const syn__branch branches[2] = {SYN__LLAMA_ATTENTION_BRANCH(l),
                                     {"mlp", &l->post_norm, "pre_feedforward_layernorm", mlp,
                                      &l->down, "down_proj", SYN__SITE_MLP_OUT}};
    const syn__post_norm norms[2] = {{&l->after_attention, "post_attention_layernorm"},
                                     {&l->after_mlp, "post_feedforward_layernorm"}};
    return syn__model_post_norm(m, l, i, x, branches, norms);
}

/* ---- configurations ---- */

/* The layers of n that have full attention: every second or every sixth. */
#define SECOND(n)                                                     \
    {                                                                 \
        { UINT64_C(0xaaaaaaaaaaaaaaaa) & ((UINT64_C(1) << (n)) - 1) } \
    }
#define SIXTH(n)                                                      \
    {                                                                 \
        { UINT64_C(0x0820820820820820) & ((UINT64_C(1) << (n)) - 1) } \
    }

#define CONFIG(family_, keys, depth, ...)                                                       \
    {                                                                                           \
        .family = &syn_##family_##_family, .n_kv_head = keys, .head_dim = depth,                \
        .norm_epsilon = 1e-6, .initializer_range = 0.02, .activation = SYN_GELU_TANH,           \
        .norm_offset = true, .windowed = true, .tied = true, .end = {{1}, 1, 0, 2}, __VA_ARGS__ \
    }
#define GEMMA2(name_, layers, hidden, heads, keys, depth, inner, scale)                  \
    CONFIG(gemma2, keys, depth, .name = name_, .n_layer = layers, .n_embd = hidden,      \
           .n_head = heads, .n_inner = inner, .n_positions = 8192, .vocab_size = 256000, \
           .rotary = SYN__ROTARY(1e4, 1), .window = 4096, .full = SECOND(layers),        \
           .query_scale = scale, .attention_cap = 50, .logit_cap = 30, .dtype = "bfloat16")
#define GEMMA3(name_, layers, hidden, heads, keys, depth, inner, positions, window_, vocab, scale, \
               ...)                                                                                \
    CONFIG(gemma3_text, keys, depth, .name = name_, .n_layer = layers, .n_embd = hidden,           \
           .n_head = heads, .n_inner = inner, .n_positions = positions, .vocab_size = vocab,       \
           .local_rotary = SYN__ROTARY(1e4, 1), .window = window_, .full = SIXTH(layers),          \
           .query_scale = scale, .head_norm = true, .dtype = "bfloat16", .rotary = __VA_ARGS__)
#define LINEAR                                                                                \
    {                                                                                         \
        .theta = 1e6, .part = 1, .scaling = SYN_ROPE_LINEAR, .factor = 8, .original = 131072, \
        .fast = 32, .slow = 1, .truncate = true                                               \
    }

/* Sizes: Gemma Team 2024, table 1, and the released configurations. */
static const syn_model_config gemma2_presets[] = {
    GEMMA2("gemma-2-2b", 26, 2304, 8, 4, 256, 9216, 256),
    GEMMA2("gemma-2-9b", 42, 3584, 16, 8, 256, 14336, 256),
    GEMMA2("gemma-2-27b", 46, 4608, 32, 16, 128, 36864, 144),
};
/* Gemma Team 2025, table 1, and the released configurations; without the vision models of 4b, 12b
   and 27b. */
static const syn_model_config gemma3_text_presets[] = {
    GEMMA3("gemma-3-270m", 18, 640, 4, 1, 256, 2048, 32768, 512, 262144, 256, SYN__ROTARY(1e6, 1)),
    GEMMA3("gemma-3-1b", 26, 1152, 4, 1, 256, 6912, 32768, 512, 262144, 256, SYN__ROTARY(1e6, 1)),
    GEMMA3("gemma-3-4b", 34, 2560, 8, 4, 256, 10240, 131072, 1024, 262208, 256, LINEAR),
    GEMMA3("gemma-3-12b", 48, 3840, 16, 8, 256, 15360, 131072, 1024, 262208, 256, LINEAR),
    GEMMA3("gemma-3-27b", 62, 5376, 32, 16, 128, 21504, 131072, 1024, 262208, 168, LINEAR),
};

static const syn_model_config gemma2_defaults =
                                  CONFIG(gemma2, 4, 256, .n_positions = 8192,
                                         .rotary = SYN__ROTARY(1e4, 1), .window = 4096,
                                         .query_scale = 256, .attention_cap = 50, .logit_cap = 30),
                              gemma3_text_defaults = CONFIG(
                                  gemma3_text, 4, 256, .n_positions = 131072,
                                  .rotary = SYN__ROTARY(1e6, 1), .local_rotary = SYN__ROTARY(0, 0),
                                  .window = 4096, .query_scale = 256, .head_norm = true);

/* Null means no cap. */
static syn_status read_cap(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    double *cap = member;
    if (type == SYN_JSON_ERROR) return s->error.code;
    *cap = type == SYN_JSON_NUMBER ? s->json.number : 0;
    if (type == SYN_JSON_NULL || (type == SYN_JSON_NUMBER && *cap >= 1e-3 && *cap <= 1e6))
        return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be a number from 0.001 to 1000000, or null", s->path);
}

static void write_cap(syn_sink *out, const char *key, double cap) {
    if (cap > 0) syn__config_write_real(out, key, cap);
    else syn_sink_printf(out, ",\n  \"%s\": null", key);
}

static void write_attention_cap(syn_sink *out, const void *member) {
    write_cap(out, "attn_logit_softcapping", *(const double *)member);
}

static void write_logit_cap(syn_sink *out, const void *member) {
    write_cap(out, "final_logit_softcapping", *(const double *)member);
}

#define CAP(key_, member, write_)                                        \
    {                                                                    \
        .key = (key_), .type = SYN__SETTING_CUSTOM, .flags = SYN__SAVED, \
        .offset = SYN__AT(member), .read = read_cap, .write = (write_)   \
    }
#define ROWS                                                                                       \
    SYN__ROW_ACTIVATION("hidden_activation", SYN__SAVED), SYN__LLAMA_ATTENTION_BIAS,               \
        SYN__LLAMA_WINDOW(1), SYN__LLAMA_LAYER_TYPES,                                              \
        SYN__ROW_I64("query_pre_attn_scalar", SYN__SAVED, SYN__AT(query_scale), 1, SYN__MAX_EMBD), \
        CAP("final_logit_softcapping", logit_cap, write_logit_cap),                                \
        SYN__ROW_CUSTOM("use_bidirectional_attention", 0, syn__config_false)

static const syn__setting gemma2_rows[] = {
    SYN__LLAMA_ROWS("rms_norm_eps"), ROWS,
    CAP("attn_logit_softcapping", attention_cap, write_attention_cap)};

/* Two rotary embeddings: older files have the keys rope_theta, rope_scaling and
   rope_local_base_freq. */
static const syn__setting rotaries[] = {{.key = "full_attention",
                                         .type = SYN__SETTING_GROUP,
                                         .flags = SYN__NULLABLE,
                                         .offset = SYN__AT(rotary),
                                         .group = &syn__rotary_table},
                                        {.key = "sliding_attention",
                                         .type = SYN__SETTING_GROUP,
                                         .flags = SYN__NULLABLE,
                                         .offset = SYN__AT(local_rotary),
                                         .group = &syn__rotary_table}};
static const syn__setting_table rotary_table = {rotaries, 2, false, NULL};

static void write_rotaries(syn_sink *out, const void *config) {
    const syn_model_config *c = config;
    syn_sink_text(out, ",\n  \"rope_parameters\": {\n  \"full_attention\": ");
    syn__rotary_write_group(out, &c->rotary);
    syn_sink_text(out, ",\n  \"sliding_attention\": ");
    syn__rotary_write_group(out, &c->local_rotary);
    syn_sink_text(out, "\n  }");
}

static const syn__setting gemma3_text_rows[] = {
    SYN__LLAMA_ROWS_BUT_ROTARY("rms_norm_eps"),
    ROWS,
    SYN__ROW_I64("sliding_window_pattern", 0, offsetof(syn__config_file, window_pattern), 1,
                 SYN__MAX_LAYERS),
    SYN__ROW_F64("rope_theta", 0, offsetof(syn__config_file, top_level.theta), 1.0001, 1e12),
    SYN__ROW_F64("rope_local_base_freq", 0, offsetof(syn__config_file, local_theta), 1.0001, 1e12),
    {.key = "rope_scaling",
     .type = SYN__SETTING_GROUP,
     .flags = SYN__NULLABLE,
     .offset = offsetof(syn__config_file, rope_scaling),
     .group = &syn__rotary_table},
    {.key = "rope_parameters",
     .type = SYN__SETTING_GROUP,
     .flags = SYN__NULLABLE | SYN__SAVED,
     .group = &rotary_table,
     .write = write_rotaries}};

/* Without layer_types, layer i has full attention if i + 1 is a multiple of `every`. */
static syn_status check(syn__settings *s, const syn__setting_table *table, syn__config_file *file,
                        int64_t every) {
    syn_layer_set full = {{0}};
    for (int64_t i = every - 1; i < file->config.n_layer && i < SYN_MAX_SET_LAYERS; i += every)
        syn_layer_set_add(&full, i);
    SYN_TRY(syn__llama_set_layer_types(s, table, file, &full));
    return syn__llama_check_file(s, table, file);
}

static syn_status check_gemma2(syn__settings *s, const syn__setting_table *table,
                               syn__config_file *file) {
    return check(s, table, file, 2);
}

static syn_status check_gemma3(syn__settings *s, const syn__setting_table *table,
                               syn__config_file *file) {
    syn_rotary *local = &file->config.local_rotary;
    SYN_TRY(check(s, table, file, file->window_pattern ? file->window_pattern : 6));
    if (!(local->theta > 0)) local->theta = file->local_theta > 0 ? file->local_theta : 1e4;
    if (!(local->part > 0)) local->part = 1;
    return syn__rotary_check_local(s, &file->config);
}

#define FAMILY(name_, title_, class_, check_)                                                 \
    SYN__LLAMA_FAMILY_AS(name_, title_, class_, layer_rows, layer, struct llama_layer, embed, \
                         check_, SYN__PRESETS(name_##_presets))

const syn_model_family syn_gemma2_family =
                           FAMILY(gemma2, "Gemma 2", "Gemma2ForCausalLM", check_gemma2),
                       syn_gemma3_text_family =
                           FAMILY(gemma3_text, "Gemma 3", "Gemma3ForCausalLM", check_gemma3);
