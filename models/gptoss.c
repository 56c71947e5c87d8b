/* gpt-oss (OpenAI 2025): Llama's attention with biases and a sink per head, alternately with a
   window, and experts whose gate and up projections are clamped. */
#include "models/experts.h"
#include "models/llama_private.h"

struct gptoss_layer {
    struct llama_layer common; /* without its MLP */
    syn_tensor sinks;
    syn__experts experts;
};

#define COMMON(member) offsetof(struct gptoss_layer, common.member)
#define IN(member)     offsetof(struct gptoss_layer, member)
#define HIDDEN         SYN__DIM_HIDDEN
#define INNER          SYN__DIM_EXPERT_INNER

static const syn__param_row layer_rows[] = {
    {"input_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = COMMON(input_norm)},
    {"self_attn.sinks", SYN__HEADS, 0, SYN__DIM_HEADS, .at = IN(sinks)},
    SYN__LLAMA_QKVO_ROWS(COMMON, SYN__DIM_HEAD, SYN__DIM_HEAD),
    {"post_attention_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = COMMON(post_norm)},
    {"mlp.router", SYN__REPLICATED_LINEAR, HIDDEN, SYN__DIM_EXPERTS, .at = IN(experts.router)},
    {"mlp.experts.gate_proj", SYN__EXPERTS_COLUMN, HIDDEN, INNER, .at = IN(experts.gate),
     .file = "mlp.experts.gate_up_proj", .stacked = 2, .from_end = 0},
    {"mlp.experts.up_proj", SYN__EXPERTS_COLUMN, HIDDEN, INNER, .at = IN(experts.up),
     .file = "mlp.experts.gate_up_proj", .stacked = 2, .from_end = 1},
    {"mlp.experts.down_proj", SYN__EXPERTS_ROW, INNER, HIDDEN, .at = IN(experts.down),
     .file = "mlp.experts.down_proj", .stacked = 1, .flags = SYN__RESIDUAL},
    {0}};

/* ---- computation ---- */

static syn_tensor experts(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    return syn__experts_run(m, &((const struct gptoss_layer *)layer)->experts, i, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct gptoss_layer *l = layer;
    const syn__branch branches[2] = {SYN__LLAMA_ATTENTION_BRANCH(&l->common),
                                     {"mlp", &l->common.post_norm, "post_attention_layernorm",
                                      experts, NULL, NULL, SYN__SITE_MLP_OUT}};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define YARN                                                                                  \
    {                                                                                         \
        .theta = 150000, .part = 1, .scaling = SYN_ROPE_YARN, .factor = 32, .original = 4096, \
        .fast = 32, .slow = 1                                                                 \
    }
/* Every second layer of n has full attention. */
#define SECOND(n)                                                     \
    {                                                                 \
        { UINT64_C(0xaaaaaaaaaaaaaaaa) & ((UINT64_C(1) << (n)) - 1) } \
    }
#define CONFIG(n_experts, aux, ...)                                                                \
    {                                                                                              \
        .family = &syn_gpt_oss_family, .n_positions = 131072, .n_kv_head = 8, .head_dim = 64,      \
        .norm_epsilon = 1e-5, .initializer_range = 0.02, .attention_bias = true, .windowed = true, \
        .window = 128,                                                                             \
        .experts = {.n = n_experts,                                                                \
                    .k = 4,                                                                        \
                    .normalize = true,                                                             \
                    .alpha = 1.702,                                                                \
                    .limit = 7,                                                                    \
                    .aux_coefficient = aux},                                                       \
        __VA_ARGS__                                                                                \
    }
#define PRESET(name_, layers, experts_)                                                   \
    CONFIG(experts_, 0.9, .name = name_, .n_layer = layers, .n_embd = 2880, .n_head = 64, \
           .n_inner = 2880, .vocab_size = 201088, .rotary = YARN, .full = SECOND(layers), \
           .end = {{200002}, 1, 199999, 199998}, .dtype = "bfloat16")

/* Sizes: OpenAI 2025, table 1, and the released configurations. */
static const syn_model_config gpt_oss_presets[] = {PRESET("gpt-oss-20b", 24, 32),
                                                   PRESET("gpt-oss-120b", 36, 128)};
static const syn_model_config gpt_oss_defaults =
    CONFIG(128, 0.001, .rotary = SYN__ROTARY(150000, 1), .end = SYN__NO_STOP_IDS);

#define MAX_EXPERTS          65536
#define EXPERTS(key, flags_) SYN__ROW_I64(key, flags_, SYN__AT(experts.n), 1, MAX_EXPERTS)
#define REAL(key_, member, lowest, write_)                                                    \
    {                                                                                         \
        .key = (key_), .type = SYN__SETTING_F64, .flags = SYN__SAVED | SYN__NULLABLE,         \
        .offset = SYN__AT(member), .min = (lowest), .max = 1e6, .scale = 1, .write = (write_) \
    }

static void write_aux(syn_sink *out, const void *member) {
    syn__config_write_real(out, "router_aux_loss_coef", *(const double *)member);
}

static void write_alpha(syn_sink *out, const void *member) {
    syn__config_write_real(out, "swiglu_alpha", *(const double *)member);
}

static void write_limit(syn_sink *out, const void *member) {
    syn__config_write_real(out, "swiglu_limit", *(const double *)member);
}

static const syn__setting gpt_oss_rows[] = {
    SYN__LLAMA_ROWS("rms_norm_eps"),
    SYN__ROW_CUSTOM("hidden_act", 0, syn__llama_activation),
    SYN__LLAMA_ATTENTION_BIAS,
    SYN__LLAMA_WINDOW(1),
    SYN__LLAMA_LAYER_TYPES,
    EXPERTS("num_local_experts", SYN__SAVED),
    EXPERTS("num_experts", 0),
    SYN__ROW_I64("num_experts_per_tok", SYN__SAVED, SYN__AT(experts.k), 1, MAX_EXPERTS),
    REAL("router_aux_loss_coef", experts.aux_coefficient, 0, write_aux),
    REAL("swiglu_alpha", experts.alpha, 1e-6, write_alpha),
    REAL("swiglu_limit", experts.limit, 1e-6, write_limit)};

/* Without rotary settings, the embedding is that of the released models. Without layer_types, every
   second layer has full attention. */
static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    static const syn_rotary yarn = YARN;
    syn_rotary *r = &file->config.rotary;
    const double theta = r->theta;
    syn_layer_set full = {{0}};
    if (!syn__settings_key(s, table, SYN__AT(rotary)) &&
        !syn__settings_key(s, table, offsetof(syn__config_file, rope_scaling))) {
        *r = yarn;
        r->theta = theta;
        r->part = 0;
    }
    for (int64_t i = 1; i < file->config.n_layer && i < SYN_MAX_SET_LAYERS; i += 2)
        syn_layer_set_add(&full, i);
    SYN_TRY(syn__llama_set_layer_types(s, table, file, &full));
    return syn__llama_check_file(s, table, file);
}

static syn_status check(const syn_model_config *c, syn_error *err) {
    const syn_experts_config *e = &c->experts;
    if (e->n >= 1 && e->k >= 1 && e->k <= e->n) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "model %s: a token cannot use %lld of %lld experts",
                    c->name, (long long)e->k, (long long)e->n);
}

const syn_model_family syn_gpt_oss_family =
    SYN__LLAMA_FAMILY_AS(gpt_oss, "gpt-oss", "GptOssForCausalLM", layer_rows, layer,
                         struct gptoss_layer, syn__llama_embed, check_file, .check = check,
                         .mxfp4 = true, .sinks_at = IN(sinks), SYN__PRESETS(gpt_oss_presets));
