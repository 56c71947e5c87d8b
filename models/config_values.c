/* Readers and writers for values in config.json that several families share; the families' tables
   refer to them. */
#include <math.h>
#include <string.h>

#include "models/family_private.h"

syn_status syn__config_string(syn__settings *s) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_STRING) return syn__settings_fail(s, "\"%s\" must be a string", s->path);
    return SYN_OK;
}

const syn__setting_choice syn__activations[] = {
    {"gelu_new", SYN_GELU_TANH},  {"gelu_pytorch_tanh", SYN_GELU_TANH},
    {"gelu_fast", SYN_GELU_TANH}, {"gelu", SYN_GELU_ERF},
    {"relu", SYN_RELU},           {NULL, 0}};

const char *const syn__torch_dtypes[] = {"float32", "float16", "bfloat16"};

/* Keys that stand for computations that our families do not have: experts, scaled embeddings or
   logits, other norms, biases, attention or positions. transformers ignores these keys in our
   families. A file that has them was written for other code, so it is rejected here. The list is
   sorted. */
const syn__setting_restricted syn__config_refused[] = {{"add_bias_linear", 0},
                                                       {"alibi", 0},
                                                       {"attention_bias", 0},
                                                       {"attention_in_bias", 0},
                                                       {"attention_multiplier", 0},
                                                       {"attention_out_bias", 0},
                                                       {"attn_logit_softcapping", 0},
                                                       {"attn_output_gate", 0},
                                                       {"attn_temperature_tuning", 0},
                                                       {"bias", 0},
                                                       {"block_configs", 0},
                                                       {"cla_share_factor", 0},
                                                       {"clip_qkv", 0},
                                                       {"dim_model_base", 0},
                                                       {"dual_chunk_attention_config", 0},
                                                       {"embedding_multiplier", 1},
                                                       {"final_logit_softcapping", 0},
                                                       {"kv_lora_rank", 0},
                                                       {"layers_block_type", 0},
                                                       {"lm_head_bias", 0},
                                                       {"lm_head_multiplier", 1},
                                                       {"logit_scale", 1},
                                                       {"logits_scaling", 1},
                                                       {"logits_soft_cap", 0},
                                                       {"mlp_bias", 0},
                                                       {"mlp_layer_types", 0},
                                                       {"moe_intermediate_size", 0},
                                                       {"moe_num_experts", 0},
                                                       {"n_routed_experts", 0},
                                                       {"n_shared_experts", 0},
                                                       {"no_rope_layer_interval", 0},
                                                       {"no_rope_layers", 0},
                                                       {"num_experts", 0},
                                                       {"num_kv_shared_layers", 0},
                                                       {"num_local_experts", 0},
                                                       {"parallel_attn", 0},
                                                       {"q_lora_rank", 0},
                                                       {"qk_layer_norms", 0},
                                                       {"qk_layernorm", 0},
                                                       {"qk_norm", 0},
                                                       {"query_pre_attn_scalar", 0},
                                                       {"residual_multiplier", 1},
                                                       {"rope_interleave", 0},
                                                       {"rope_ratio", 1},
                                                       {"rotary_dim", 0},
                                                       {"router_jitter_noise", 0},
                                                       {"rotary_emb_fraction", 1},
                                                       {"rotary_pct", 1},
                                                       {"rotary_percent", 1},
                                                       {"sandwich_norm", 0},
                                                       {"scale_depth", 1},
                                                       {"scale_emb", 1},
                                                       {"scale_embedding", 0},
                                                       {"sliding_window_pattern", 0},
                                                       {"use_alibi", 0},
                                                       {"use_bias", 0},
                                                       {"use_cla", 0},
                                                       {"use_dynamic_ntk", 0},
                                                       {"use_logn_attn", 0},
                                                       {"use_parallel_residual", 0},
                                                       {"use_post_norm", 0},
                                                       {"use_qk_norm", 0},
                                                       {"use_sandwich_norm", 0},
                                                       {NULL, 0}};

syn_status syn__config_path(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING)
        return syn__settings_fail(s, "\"%s\" must be a string or null", s->path);
    syn__settings_base_name(s->json.text, (char *)member);
    return SYN_OK;
}

/* A string that is not a supported weight dtype (such as "auto") and null are treated as absent. */
syn_status syn__config_dtype(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    for (int i = 0; i < 3; i++)
        if (type == SYN_JSON_STRING && syn__settings_text_is(s, syn__torch_dtypes[i]))
            strcpy(member, syn__torch_dtypes[i]);
    return type == SYN_JSON_OBJECT_BEGIN || type == SYN_JSON_ARRAY_BEGIN
               ? syn__settings_fail(s, "\"%s\" must be a string or null", s->path)
               : SYN_OK;
}

syn_status syn__config_torch_dtype(syn__settings *s, void *member) {
    char ignored[16];
    return syn__config_dtype(s, *(char *)member ? ignored : member);
}

void syn__config_dtype_write(syn_sink *out, const void *member) {
    const char *dtype = member;
    if (*dtype) syn_sink_printf(out, ",\n  \"dtype\": \"%s\"", dtype);
}

syn_status syn__config_mtp(syn__settings *s, void *member) {
    enum { MOST = 64 };
    const syn_json_type type = syn_json_next(&s->json);
    const double n = s->json.number;
    if (type == SYN_JSON_ERROR) return s->error.code;
    *(int64_t *)member = 0;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_NUMBER || !(n >= 0 && n <= MOST) || n != (double)(int)n)
        return syn__settings_fail(s, "\"%s\" must be an integer from 0 to %d", s->path, MOST);
    *(int64_t *)member = (int64_t)n;
    return SYN_OK;
}

void syn__config_mtp_write(syn_sink *out, const void *member) {
    const int64_t n = *(const int64_t *)member;
    if (n > 0) syn_sink_printf(out, ",\n  \"num_nextn_predict_layers\": %lld", (long long)n);
}

void syn__config_write_real(syn_sink *out, const char *key, double value) {
    syn_sink_printf(out, ",\n  \"%s\": ", key);
    if (floor(value) < value) syn_sink_double(out, value);
    else syn_sink_printf(out, "%.1f", value);
}

/* Reads the next value and sets *is_null to whether it is null. */
static syn_status read_null(syn__settings *s, bool *is_null) {
    const syn_json_type type = syn_json_next(&s->json);
    *is_null = type == SYN_JSON_NULL;
    return type == SYN_JSON_ERROR ? s->error.code : SYN_OK;
}

/* Reads a list of two numbers, both of which must be `want`. */
static bool read_pair(syn__settings *s, double want) {
    if (syn_json_next(&s->json) != SYN_JSON_ARRAY_BEGIN) return false;
    for (int i = 0; i < 2; i++)
        if (syn_json_next(&s->json) != SYN_JSON_NUMBER || s->json.number != want) return false;
    return syn_json_next(&s->json) == SYN_JSON_ARRAY_END;
}

/* Reads the rest of a group whose quant_method must be "fp8", in blocks of 128 x 128, or with
   mxfp4, "mxfp4". Its other settings are for programs that compute with such weights. */
static syn_status read_quantization(syn__settings *s, bool mxfp4) {
    const bool group = s->json.type == SYN_JSON_OBJECT_BEGIN;
    bool found = false, fits = true;
    while (group && fits && syn_json_next(&s->json) == SYN_JSON_KEY) {
        if (strcmp(s->json.text, "quant_method") == 0) {
            found =
                syn_json_next(&s->json) == SYN_JSON_STRING &&
                (syn__settings_text_is(s, "fp8") || (mxfp4 && syn__settings_text_is(s, "mxfp4")));
            fits = found;
        } else if (strcmp(s->json.text, "weight_block_size") == 0) {
            fits = read_pair(s, 128);
        } else if (!syn_json_skip(&s->json)) {
            break;
        }
    }
    if (s->json.type == SYN_JSON_ERROR) return s->error.code;
    if (found && fits && s->json.type == SYN_JSON_OBJECT_END) return SYN_OK;
    return syn__settings_fail(s,
                              "\"%s\": quantized weights are not supported, except for \"fp8\" in "
                              "blocks of 128 x 128%s; use the checkpoint before quantization",
                              s->path, mxfp4 ? " and \"mxfp4\"" : "");
}

syn_status syn__config_unquantized(syn__settings *s, void *member) {
    const syn__config_file *file = member;
    bool is_null;
    SYN_TRY(read_null(s, &is_null));
    if (is_null) return SYN_OK;
    return read_quantization(s, file->config.family->mxfp4);
}

syn_status syn__config_null(syn__settings *s, void *member) {
    bool is_null;
    (void)member;
    SYN_TRY(read_null(s, &is_null));
    if (is_null) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be null: this model supports no other value",
                              s->path);
}

syn_status syn__config_empty(syn__settings *s, void *member) {
    bool empty;
    (void)member;
    SYN_TRY(syn__settings_empty(s, &empty));
    if (empty) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be null: this model supports no other value",
                              s->path);
}

static syn_status must_be(syn__settings *s, bool wanted) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_BOOL && s->json.boolean == wanted) return SYN_OK;
    if (type == SYN_JSON_NULL && !wanted) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be %s: this model supports no other value", s->path,
                              wanted ? "true" : "false");
}

syn_status syn__config_true(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, true);
}

syn_status syn__config_false(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, false);
}
