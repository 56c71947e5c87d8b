/* DeepSeek-V2 and V3 (DeepSeek-AI 2024), and Kimi K2 (Moonshot AI 2025), which has V3's layers:
   latent attention, a few layers with one MLP, then layers with experts. */
#include "models/experts.h"
#include "models/llama_private.h"
#include "models/mla.h"

struct deepseek_layer {
    struct llama_layer common; /* its norms and o; its MLP: only in layers without experts */
    syn__mla mla;
    syn__experts experts;
};

#define COMMON(member) offsetof(struct deepseek_layer, common.member)
#define IN(member)     offsetof(struct deepseek_layer, member)

static const syn__param_row layer_rows[] = {
    {"input_layernorm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = COMMON(input_norm)},
    {"self_attn.q_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_QUERIES, .at = IN(mla.q),
     .flags = SYN__Q_DIRECT | SYN__NO_BIAS},
    {"self_attn.q_a_proj", SYN__REPLICATED_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_Q_LATENT,
     .at = IN(mla.q_a), .flags = SYN__Q_LATENT | SYN__OUT_BIAS},
    {"self_attn.q_a_layernorm", SYN__RMS_NORM, 0, SYN__DIM_Q_LATENT, .at = IN(mla.q_norm),
     .flags = SYN__Q_LATENT},
    {"self_attn.q_b_proj", SYN__COLUMN_LINEAR, SYN__DIM_Q_LATENT, SYN__DIM_QUERIES,
     .at = IN(mla.q_b), .flags = SYN__Q_LATENT | SYN__NO_BIAS},
    {"self_attn.kv_a_proj_with_mqa", SYN__REPLICATED_LINEAR, SYN__DIM_HIDDEN,
     SYN__DIM_LATENT_AND_ROPE, .at = IN(mla.kv_a), .flags = SYN__OUT_BIAS},
    {"self_attn.kv_a_layernorm", SYN__RMS_NORM, 0, SYN__DIM_KV_LATENT, .at = IN(mla.kv_norm)},
    {"self_attn.kv_b_proj", SYN__COLUMN_LINEAR, SYN__DIM_KV_LATENT, SYN__DIM_LATENT_HEADS,
     .at = IN(mla.kv_b), .flags = SYN__NO_BIAS},
    {"self_attn.o_proj", SYN__ROW_LINEAR, SYN__DIM_VALUES, SYN__DIM_HIDDEN, .at = COMMON(o),
     .flags = SYN__OUT_BIAS | SYN__RESIDUAL},
    {"self_attn.rotary_emb.inv_freq", .kind = SYN__IGNORED},
    {"post_attention_layernorm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = COMMON(post_norm)},
    SYN__LLAMA_MLP_ROWS(COMMON, SYN__DENSE),
    SYN__EXPERTS_ROWS(IN(experts), "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj",
                      "mlp.experts.*.down_proj"),
    {"mlp.gate.e_score_correction_bias", SYN__BUFFER, 0, SYN__DIM_EXPERTS, .at = IN(experts.bias),
     .flags = SYN__SPARSE | SYN__ROUTER_BIAS},
    SYN__SHARED_EXPERT_ROWS(IN(experts), "mlp.shared_experts"),
    {0}};

/* ---- computation ---- */

static syn_tensor attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    return syn__mla_run(m, &((const struct deepseek_layer *)layer)->mla, i, x);
}

static syn_tensor experts(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    return syn__experts_run(m, &((const struct deepseek_layer *)layer)->experts, i, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct deepseek_layer *l = layer;
    const bool sparse = syn_model_layer_has_experts(&m->config, m->part.first_layer + i);
    const syn__branch mlp = SYN__LLAMA_MLP_BRANCH(&l->common),
                      moe = {"mlp", &l->common.post_norm, "post_attention_layernorm", experts, NULL,
                             NULL,  SYN__SITE_MLP_OUT};
    const syn__branch branches[2] = {{"self_attn", &l->common.input_norm, "input_layernorm",
                                      attention, &l->common.o, "o_proj", SYN__SITE_ATTENTION_OUT},
                                     sparse ? moe : mlp};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define YARN(theta_, factor_, fast_, mscale_)                                        \
    {                                                                                \
        .theta = (theta_), .part = 1, .scaling = SYN_ROPE_YARN, .factor = (factor_), \
        .original = 4096, .fast = (fast_), .slow = 1, .mscale = (mscale_),           \
        .mscale_all = (mscale_), .truncate = true                                    \
    }
#define LATENT(queries) \
    { .kv = 512, .q = (queries), .nope = 128, .rope = 64, .value = 128, .interleaved = true }
#define PRESET(family_, name_, layers, hidden, heads, inner, positions, vocab, ...)            \
    {                                                                                          \
        .family = &syn_##family_##_family, .name = name_, .n_layer = layers, .n_embd = hidden, \
        .n_head = heads, .n_kv_head = heads, .head_dim = 192, .n_inner = inner,                \
        .n_positions = positions, .vocab_size = vocab, .initializer_range = 0.02,              \
        .norm_epsilon = 1e-6, .dtype = "bfloat16", __VA_ARGS__                                 \
    }

/* Sizes: DeepSeek-AI 2024, "DeepSeek-V2", section 3.1.2 and appendix B, and the released
   configurations. */
static const syn_model_config deepseek_v2_presets[] = {
    PRESET(deepseek_v2, "deepseek-v2-lite", 27, 2048, 16, 10944, 163840, 102400,
           .rotary = YARN(1e4, 40, 32, 0.707), .latent = LATENT(-1),
           .experts = {.n = 64,
                       .k = 6,
                       .inner = 1408,
                       .shared = 2,
                       .shared_inner = 2816,
                       .first = 1,
                       .scale = 1},
           .end = {{100001}, 1, 100001, 100000}),
    PRESET(deepseek_v2, "deepseek-v2", 60, 5120, 128, 12288, 163840, 102400,
           .rotary = YARN(1e4, 40, 32, 1), .latent = LATENT(1536),
           .experts = {.n = 160,
                       .k = 6,
                       .inner = 1536,
                       .shared = 2,
                       .shared_inner = 3072,
                       .limited = true,
                       .groups = 8,
                       .top_groups = 3,
                       .first = 1,
                       .scale = 16},
           .end = {{100001}, 1, 100001, 100000}),
};
/* DeepSeek-AI 2024, "DeepSeek-V3", section 4.2, and the released configuration. */
static const syn_model_config deepseek_v3_presets[] = {
    PRESET(deepseek_v3, "deepseek-v3", 61, 7168, 128, 18432, 163840, 129280,
           .rotary = YARN(1e4, 40, 32, 1), .latent = LATENT(1536), .mtp = 1,
           .experts = {.n = 256,
                       .k = 8,
                       .inner = 2048,
                       .shared = 1,
                       .shared_inner = 2048,
                       .normalize = true,
                       .sigmoid = true,
                       .biased = true,
                       .limited = true,
                       .groups = 8,
                       .top_groups = 4,
                       .first = 3,
                       .scale = 2.5},
           .end = {{1}, 1, 1, 0}),
};
/* Moonshot AI 2025, "Kimi K2", table 2, and the released configuration. */
static const syn_model_config kimi_k2_presets[] = {
    PRESET(kimi_k2, "kimi-k2", 61, 7168, 64, 18432, 131072, 163840, .rotary = YARN(5e4, 32, 1, 1),
           .latent = LATENT(1536),
           .experts = {.n = 384,
                       .k = 8,
                       .inner = 2048,
                       .shared = 1,
                       .shared_inner = 2048,
                       .normalize = true,
                       .sigmoid = true,
                       .biased = true,
                       .limited = true,
                       .groups = 1,
                       .top_groups = 1,
                       .first = 1,
                       .scale = 2.827},
           .end = {{163586}, 1, 163839, 163584}),
};

static const syn_model_config deepseek_v2_defaults = SYN__LLAMA_DEFAULTS(
    deepseek_v2, .n_positions = 2048, .latent = LATENT(1536), .end = SYN__STOP_IDS(2, 1),
    .experts = {.n = 64, .inner = 1407, .shared = 2, .every = 1, .scale = 1});
#define V3_DEFAULTS(family_)                                                                    \
    SYN__LLAMA_DEFAULTS(family_, .n_positions = 4096, .n_kv_head = 128, .latent = LATENT(1536), \
                        .end = SYN__STOP_IDS(1, 0),                                             \
                        .experts = {.n = 256,                                                   \
                                    .k = 8,                                                     \
                                    .inner = 2048,                                              \
                                    .shared = 1,                                                \
                                    .normalize = true,                                          \
                                    .sigmoid = true,                                            \
                                    .biased = true,                                             \
                                    .limited = true,                                            \
                                    .groups = 8,                                                \
                                    .top_groups = 4,                                            \
                                    .first = 3,                                                 \
                                    .every = 1,                                                 \
                                    .scale = 2.5})
static const syn_model_config deepseek_v3_defaults = V3_DEFAULTS(deepseek_v3),
                              kimi_k2_defaults = V3_DEFAULTS(kimi_k2);

static syn_status must_be_text(syn__settings *s, const char *text) {
    char shown[64];
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, text)) return SYN_OK;
    return syn__settings_fail(
        s, "\"%s\" must be \"%s\", not \"%s\": this model supports no other value", s->path, text,
        syn__settings_shown(s, shown));
}

static syn_status read_sigmoid(syn__settings *s, void *member) {
    (void)member;
    return must_be_text(s, "sigmoid");
}

static syn_status read_softmax(syn__settings *s, void *member) {
    (void)member;
    return must_be_text(s, "softmax");
}

static syn_status read_v3_method(syn__settings *s, void *member) {
    (void)member;
    return must_be_text(s, "noaux_tc");
}

/* Reads V2's topk_method into a bool: whether groups of experts are limited. */
static syn_status read_v2_method(syn__settings *s, void *member) {
    bool *limited = member;
    char shown[64];
    SYN_TRY(syn__config_string(s));
    *limited = syn__settings_text_is(s, "group_limited_greedy");
    if (*limited || syn__settings_text_is(s, "greedy")) return SYN_OK;
    return syn__settings_fail(s,
                              "\"%s\" must be \"greedy\" or \"group_limited_greedy\", not \"%s\"",
                              s->path, syn__settings_shown(s, shown));
}

static void write_v2_method(syn_sink *out, const void *member) {
    syn_sink_printf(out, ",\n  \"topk_method\": \"%s\"",
                    *(const bool *)member ? "group_limited_greedy" : "greedy");
}

#define MAX_EXPERTS 65536
#define I64(key, flags, member, lowest, highest) \
    SYN__ROW_I64(key, flags, SYN__AT(member), lowest, highest)
#define DEEPSEEK_ROWS                                                                         \
    SYN__LLAMA_SIZE_ROWS, SYN__LLAMA_OTHER_ROWS("rms_norm_eps"), SYN__ROWS_ROTARY,            \
        SYN__ROW_CUSTOM("hidden_act", 0, syn__llama_activation),                              \
        SYN__ROW_CUSTOM("layer_types", 0, syn__llama_layer_types), SYN__LLAMA_ATTENTION_BIAS, \
        I64("kv_lora_rank", SYN__SAVED, latent.kv, 1, SYN__MAX_EMBD),                         \
        I64("q_lora_rank", SYN__SAVED | SYN__NONE, latent.q, 1, SYN__MAX_EMBD),               \
        I64("qk_nope_head_dim", SYN__SAVED, latent.nope, 1, SYN__MAX_EMBD),                   \
        I64("qk_rope_head_dim", SYN__SAVED, latent.rope, 2, SYN__MAX_EMBD),                   \
        I64("v_head_dim", SYN__SAVED, latent.value, 1, SYN__MAX_EMBD),                        \
        I64("n_routed_experts", SYN__SAVED, experts.n, 1, MAX_EXPERTS),                       \
        I64("n_shared_experts", SYN__SAVED, experts.shared, 1, 1024),                         \
        I64("num_experts_per_tok", SYN__SAVED, experts.k, 1, MAX_EXPERTS),                    \
        I64("moe_intermediate_size", SYN__SAVED, experts.inner, 1, SYN__MAX_INNER),           \
        I64("first_k_dense_replace", SYN__SAVED, experts.first, 0, SYN__MAX_LAYERS),          \
        I64("moe_layer_freq", 0, experts.every, 1, 1),                                        \
        I64("n_group", SYN__SAVED | SYN__NONE, experts.groups, 1, MAX_EXPERTS),               \
        I64("topk_group", SYN__SAVED | SYN__NONE, experts.top_groups, 1, MAX_EXPERTS),        \
        SYN__ROW_F64("routed_scaling_factor", SYN__SAVED, SYN__AT(experts.scale), 1e-6, 1e6)

static const syn__setting deepseek_v2_rows[] = {
    DEEPSEEK_ROWS,
    SYN__ROW_BOOL("mlp_bias", SYN__SAVED, SYN__AT(mlp_bias)),
    SYN__ROW_CUSTOM("rope_interleave", 0, syn__config_true),
    SYN__ROW_CUSTOM("norm_topk_prob", 0, syn__config_false),
    SYN__ROW_CUSTOM("scoring_func", 0, read_softmax),
    {.key = "topk_method",
     .type = SYN__SETTING_CUSTOM,
     .flags = SYN__SAVED,
     .offset = SYN__AT(experts.limited),
     .read = read_v2_method,
     .write = write_v2_method}};
static const syn__setting deepseek_v3_rows[] = {
    DEEPSEEK_ROWS, SYN__ROW_BOOL("rope_interleave", SYN__SAVED, SYN__AT(latent.interleaved)),
    SYN__ROW_BOOL("norm_topk_prob", SYN__SAVED, SYN__AT(experts.normalize)),
    SYN__ROW_CUSTOM("scoring_func", 0, read_sigmoid),
    SYN__ROW_CUSTOM("topk_method", 0, read_v3_method)};

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_model_config *c = &file->config;
    c->head_dim = c->latent.nope + c->latent.rope;
    c->experts.shared_inner = c->experts.shared * c->experts.inner;
    SYN_TRY(syn__llama_check_file(s, table, file));
    if (c->n_kv_head == c->n_head) return SYN_OK;
    return syn__settings_fail_at(
        s, table, "num_key_value_heads",
        "\"num_key_value_heads\" %lld must equal \"num_attention_heads\" %lld: all heads of a %s "
        "share one latent",
        (long long)c->n_kv_head, (long long)c->n_head, c->family->title);
}

static syn_status check(const syn_model_config *c, syn_error *err) {
    const syn_experts_config *e = &c->experts;
    const bool limited = e->limited && e->groups > 0;
    const int64_t groups = limited ? e->groups : 1, top = limited ? e->top_groups : 1;
    if (e->n % groups != 0 || top < 1 || top > groups)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: %lld of %lld groups cannot be chosen from %lld experts", c->name,
                        (long long)top, (long long)groups, (long long)e->n);
    if (e->k >= 1 && e->k <= e->n / groups * top) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "model %s: a token cannot use %lld of %lld experts",
                    c->name, (long long)e->k, (long long)(e->n / groups * top));
}

#define FAMILY(name_, title_, class_, rows_)                                                       \
    {                                                                                              \
        .name = #name_, .title = title_, .types = (const char *const[]){#name_, NULL},             \
        .tokenizer = SYN_TOKENIZER_BPE, .defaults = &name_##_defaults,                             \
        .fields = &(const syn__setting_table)SYN__MODEL_TABLE_OF(rows_), .check_file = check_file, \
        .check = check, .architecture = class_, .prefix = "model.", .layers = "layers",            \
        .attention = "self_attn", .embed_rows = syn__llama_embed_rows, .layer_rows = layer_rows,   \
        .head_rows = syn__llama_head_rows, .out_in = true, .params_bytes = sizeof(struct llama),   \
        .layer_bytes = sizeof(struct deepseek_layer), .layer = layer, .embed = syn__llama_embed,   \
        .head_scope = "lm_head", SYN__PRESETS(name_##_presets)                                     \
    }

const syn_model_family syn_deepseek_v2_family = FAMILY(deepseek_v2, "DeepSeek-V2",
                                                       "DeepseekV2ForCausalLM", deepseek_v2_rows),
                       syn_deepseek_v3_family = FAMILY(deepseek_v3, "DeepSeek-V3",
                                                       "DeepseekV3ForCausalLM", deepseek_v3_rows),
                       syn_kimi_k2_family =
                           FAMILY(kimi_k2, "Kimi K2", "DeepseekV3ForCausalLM", deepseek_v3_rows);
