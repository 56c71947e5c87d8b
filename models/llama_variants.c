/* Families whose layers are Llama's with a few differences. Phi-3 (Abdin et al. 2024): checkpoints
   have queries, keys and values in one matrix, and the two matrices of the MLP's input in one. */
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

static const syn__setting phi3_rows[] = {
    SYN__LLAMA_COMMON_ROWS, SYN__ROW_DROPOUT("resid_pdrop", residual), SYN__LLAMA_WINDOW(1)};

/* transformers reads yarn as longrope, and rejects the other types. */
static syn_status check_phi3(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    SYN_TRY(syn__llama_check_file(s, table, file));
    if (file->config.rotary.scaling == SYN_ROPE_DEFAULT) return SYN_OK;
    return syn__settings_fail(s, "the rotary embedding of a Phi-3 must be \"default\"");
}

const syn_model_family syn_phi3_family = SYN__LLAMA_FAMILY_AS(
    phi3, "Phi-3", "Phi3ForCausalLM", phi3_layer, syn__llama_layer, struct llama_layer, check_phi3,
    .same_layers = true, SYN__PRESETS(phi3_presets));
