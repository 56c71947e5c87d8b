/* Families with Llama's layers in which experts replace the MLP: Mixtral (Jiang et al. 2024),
   Qwen2-MoE and Qwen3-MoE (Yang et al. 2024, 2025). */
#include "models/experts.h"
#include "models/llama_private.h"

struct moe_layer {
    struct llama_layer common; /* its MLP: only in layers without experts */
    syn__experts experts;
};

#define COMMON(member) offsetof(struct moe_layer, common.member)
#define IN(member)     offsetof(struct moe_layer, member)

static const syn__param_row mixtral_layer[] = {
    SYN__LLAMA_ATTENTION_ROWS(COMMON),
    SYN__EXPERTS_ROWS(IN(experts), "block_sparse_moe.gate", "block_sparse_moe.experts.*.w1",
                      "block_sparse_moe.experts.*.w3", "block_sparse_moe.experts.*.w2"),
    {0}};

static const syn__param_row qwen_layer[] = {
    SYN__LLAMA_ATTENTION_ROWS(COMMON),
    SYN__LLAMA_MLP_ROWS(COMMON, SYN__DENSE),
    SYN__EXPERTS_ROWS(IN(experts), "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj",
                      "mlp.experts.*.down_proj"),
    SYN__SHARED_EXPERT_ROWS(IN(experts), "mlp.shared_expert"),
    {"mlp.shared_expert_gate", SYN__REPLICATED_LINEAR, SYN__DIM_HIDDEN, SYN__DIM_ONE,
     .at = IN(experts.shared_factor), .flags = SYN__SPARSE | SYN__SHARED_GATE | SYN__NO_BIAS},
    {0}};

/* ---- computation ---- */

static syn_tensor experts(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    return syn__experts_run(m, &((const struct moe_layer *)layer)->experts, i, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct moe_layer *l = layer;
    const bool sparse = syn_model_layer_has_experts(&m->config, m->part.first_layer + i);
    const syn__branch mlp = SYN__LLAMA_MLP_BRANCH(&l->common),
                      moe = {"mlp", &l->common.post_norm, "post_attention_layernorm", experts, NULL,
                             NULL,  SYN__SITE_MLP_OUT};
    const syn__branch branches[2] = {SYN__LLAMA_ATTENTION_BRANCH(&l->common), sparse ? moe : mlp};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define QWEN_END .end = {{151643}, 1, 151643, 151643}, .dtype = "bfloat16"

/* Sizes: Jiang et al. 2024, table 1, and the released configurations. */
static const syn_model_config mixtral_presets[] = {
    SYN__LLAMA_PRESET(mixtral, "mixtral-8x7b", 32, 4096, 32, 8, 14336, 32768, 32000,
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(1e6, 1),
                      .experts = {.n = 8, .k = 2, .normalize = true}, .end = {{2}, 1, 2, 1},
                      .dtype = "bfloat16"),
    SYN__LLAMA_PRESET(mixtral, "mixtral-8x22b", 56, 6144, 48, 8, 16384, 65536, 32000,
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(1e6, 1),
                      .experts = {.n = 8, .k = 2, .normalize = true}, .end = {{2}, 1, 2, 1},
                      .dtype = "bfloat16"),
};
/* Qwen Team 2024, section 2.2.2, and the released configuration. */
static const syn_model_config qwen2_moe_presets[] = {
    SYN__LLAMA_PRESET(
        qwen2_moe, "qwen2-57b-a14b", 28, 3584, 28, 4, 18944, 131072, 151936, .norm_epsilon = 1e-6,
        .rotary = SYN__ROTARY(1e6, 1), .qkv_bias = true,
        .experts = {.n = 64, .k = 8, .inner = 2560, .shared_inner = 20480, .shared_gate = true},
        QWEN_END),
};
/* Yang et al. 2025, table 2, and the released configurations. */
#define QWEN3(name_, layers, hidden, heads, keys, dense, width)                              \
    {                                                                                        \
        .family = &syn_qwen3_moe_family, .name = name_, .n_layer = layers, .n_embd = hidden, \
        .n_head = heads, .n_kv_head = keys, .head_dim = 128, .n_inner = dense,               \
        .n_positions = 40960, .vocab_size = 151936, .initializer_range = 0.02,               \
        .norm_epsilon = 1e-6, .rotary = SYN__ROTARY(1e6, 1), .head_norm = true,              \
        .experts = {.n = 128, .k = 8, .inner = width, .normalize = true}, QWEN_END           \
    }
static const syn_model_config qwen3_moe_presets[] = {
    QWEN3("qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 768),
    QWEN3("qwen3-235b-a22b", 94, 4096, 64, 4, 12288, 1536),
};

static const syn_model_config
    mixtral_defaults = {.family = &syn_mixtral_family,
                        .norm_epsilon = 1e-5,
                        .initializer_range = 0.02,
                        .n_positions = 131072,
                        .n_kv_head = 8,
                        .rotary = SYN__ROTARY(1e6, 1),
                        .windowed = true,
                        .window = -1,
                        .end = SYN__STOP_IDS(2, 1),
                        .experts = {.n = 8, .k = 2, .normalize = true, .aux_coefficient = 0.001}},
    qwen2_moe_defaults =
        SYN__LLAMA_DEFAULTS(qwen2_moe, .n_positions = 32768, .n_kv_head = 16, .window = 4096,
                            .full_layers = 28, .qkv_bias = true, .end = SYN__NO_STOP_IDS,
                            .experts = {.n = 60,
                                        .k = 4,
                                        .inner = 1408,
                                        .shared_inner = 5632,
                                        .shared_gate = true,
                                        .every = 1,
                                        .aux_coefficient = 0.001}),
    qwen3_moe_defaults = SYN__LLAMA_DEFAULTS(
        qwen3_moe, .n_positions = 32768, .n_kv_head = 4, .window = 4096, .head_norm = true,
        .end = SYN__NO_STOP_IDS,
        .experts = {.n = 128, .k = 8, .inner = 768, .every = 1, .aux_coefficient = 0.001});

/* Reads mlp_only_layers, a list of layer numbers, into a syn_experts_config. */
static syn_status read_dense(syn__settings *s, void *member) {
    syn_experts_config *e = member;
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be a list of layer numbers or null", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_NUMBER) {
        const double at = s->json.number;
        if (!(at >= 0 && at < SYN_MAX_DENSE_LAYERS) || at != (double)(int64_t)at)
            return syn__settings_fail(s, "\"%s\" must have layer numbers from 0 to %d", s->path,
                                      SYN_MAX_DENSE_LAYERS - 1);
        e->dense[(int64_t)at / 64] |= (uint64_t)1 << ((int64_t)at % 64);
    }
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_END) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be a list of layer numbers", s->path);
}

static void write_dense(syn_sink *out, const void *member) {
    const syn_experts_config *e = member;
    const char *before = "";
    syn_sink_text(out, ",\n  \"mlp_only_layers\": [");
    for (int i = 0; i < SYN_MAX_DENSE_LAYERS; i++) {
        if ((e->dense[i / 64] >> (i % 64) & 1) == 0) continue;
        syn_sink_printf(out, "%s%d", before, i);
        before = ", ";
    }
    syn_sink_text(out, "]");
}

/* Writes 0 as 0.0: transformers rejects an integer here. */
static void write_aux(syn_sink *out, const void *member) {
    syn__config_write_real(out, "router_aux_loss_coef", *(const double *)member);
}

#define MAX_EXPERTS        65536
#define EXPERTS(key)       SYN__ROW_I64(key, SYN__SAVED, SYN__AT(experts.n), 0, MAX_EXPERTS)
#define EXPERTS_ALIAS(key) SYN__ROW_I64(key, 0, SYN__AT(experts.n), 0, MAX_EXPERTS)
#define PER_TOKEN \
    SYN__ROW_I64("num_experts_per_tok", SYN__SAVED, SYN__AT(experts.k), 1, MAX_EXPERTS)
#define AUXILIARY                                \
    {.key = "router_aux_loss_coef",              \
     .type = SYN__SETTING_F64,                   \
     .flags = SYN__SAVED | SYN__NULLABLE,        \
     .offset = SYN__AT(experts.aux_coefficient), \
     .min = 0,                                   \
     .max = 1e6,                                 \
     .scale = 1,                                 \
     .write = write_aux},                        \
        SYN__ROW_BOOL("output_router_logits", SYN__SAVED, SYN__AT(experts.aux))
#define QWEN_EXPERTS                                                                 \
    PER_TOKEN, AUXILIARY,                                                            \
        SYN__ROW_I64("moe_intermediate_size", SYN__SAVED, SYN__AT(experts.inner), 1, \
                     SYN__MAX_INNER),                                                \
        SYN__ROW_BOOL("norm_topk_prob", SYN__SAVED, SYN__AT(experts.normalize)),     \
        SYN__ROW_I64("decoder_sparse_step", SYN__SAVED, SYN__AT(experts.every), 1,   \
                     SYN__MAX_LAYERS),                                               \
    {                                                                                \
        .key = "mlp_only_layers", .type = SYN__SETTING_CUSTOM, .flags = SYN__SAVED,  \
        .offset = SYN__AT(experts), .read = read_dense, .write = write_dense         \
    }

static const syn__setting mixtral_rows[] = {SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_WINDOW(1),
                                            EXPERTS("num_local_experts"), PER_TOKEN, AUXILIARY};
static const syn__setting qwen2_moe_rows[] = {
    SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_WINDOW(0),
    /* transformers would use the window in every second layer, which no released model does */
    SYN__ROW_CUSTOM("use_sliding_window", 0, syn__config_false),
    SYN__ROW_BOOL("qkv_bias", SYN__SAVED, SYN__AT(qkv_bias)), EXPERTS("num_experts"), QWEN_EXPERTS,
    SYN__ROW_I64("shared_expert_intermediate_size", SYN__SAVED, SYN__AT(experts.shared_inner), 1,
                 SYN__MAX_INNER)};
static const syn__setting qwen3_moe_rows[] = {SYN__LLAMA_COMMON_ROWS,
                                              SYN__LLAMA_ATTENTION_BIAS,
                                              SYN__LLAMA_WINDOW(0),
                                              SYN__LLAMA_USE_WINDOW,
                                              EXPERTS("num_experts"),
                                              EXPERTS_ALIAS("num_local_experts"),
                                              QWEN_EXPERTS};

static syn_status check(const syn_model_config *c, syn_error *err) {
    const syn_experts_config *e = &c->experts;
    if (e->n == 0 || (e->k >= 1 && e->k <= e->n)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "model %s: a token cannot use %lld of %lld experts",
                    c->name, (long long)e->k, (long long)e->n);
}

#define FAMILY(name_, title_, class_, rows_)                                                 \
    SYN__LLAMA_FAMILY(name_, title_, class_, rows_, layer, struct moe_layer, .check = check, \
                      SYN__PRESETS(name_##_presets))

const syn_model_family syn_mixtral_family =
                           FAMILY(mixtral, "Mixtral", "MixtralForCausalLM", mixtral_layer),
                       syn_qwen2_moe_family =
                           FAMILY(qwen2_moe, "Qwen2-MoE", "Qwen2MoeForCausalLM", qwen_layer),
                       syn_qwen3_moe_family =
                           FAMILY(qwen3_moe, "Qwen3-MoE", "Qwen3MoeForCausalLM", qwen_layer);
