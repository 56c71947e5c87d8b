/* The GPT-NeoX family (Black et al. 2022), which includes Pythia (Biderman et al. 2023): LayerNorm
   before each branch, and the rotary embedding on the first elements of each head. By default both
   branches, attention and MLP, read the layer's input, so a layer needs only one all-reduce. With
   tensor parallelism, attention is sharded by heads, the MLP is column- then row-parallel, and the
   token embedding is sharded by vocabulary rows. */
#include "models/family_private.h"

struct neox {
    syn_tensor embed_in, embed_out; /* if tied, embed_out is embed_in */
    syn_layer_norm final_norm;
};

struct neox_layer {
    syn_layer_norm input_norm, post_norm;
    syn_layer_linear qkv, dense, up, down;
};

#define AT(member) offsetof(struct neox, member)
#define IN(member) offsetof(struct neox_layer, member)
#define HIDDEN     SYN__DIM_HIDDEN
#define INNER      SYN__DIM_INNER

static const syn__param_row embed_rows[] = {
    {"embed_in", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(embed_in)}, {0}};

/* The output of query_key_value is ordered by heads: query, key and value of head 0, then query,
   key and value of head 1, and so on. */
static const syn__param_row layer_rows[] = {
    {"input_layernorm", SYN__NORM, 0, HIDDEN, .at = IN(input_norm)},
    {"post_attention_layernorm", SYN__NORM, 0, HIDDEN, .at = IN(post_norm)},
    {"attention.query_key_value", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QKV, .at = IN(qkv),
     .flags = SYN__QKV_BIAS},
    {"attention.dense", SYN__ROW_LINEAR, SYN__DIM_QUERIES, HIDDEN, .at = IN(dense),
     .flags = SYN__OUT_BIAS},
    {"mlp.dense_h_to_4h", SYN__COLUMN_LINEAR, HIDDEN, INNER, .at = IN(up)},
    {"mlp.dense_4h_to_h", SYN__ROW_LINEAR, INNER, HIDDEN, .at = IN(down)},
    {"attention.bias", .kind = SYN__IGNORED},        /* the causal mask */
    {"attention.masked_bias", .kind = SYN__IGNORED}, /* the score of masked keys */
    {"attention.rotary_emb.inv_freq", .kind = SYN__IGNORED},
    {0}};

static const syn__param_row head_rows[] = {
    {"final_layer_norm", SYN__NORM, 0, HIDDEN, .at = AT(final_norm)},
    {"embed_out", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(embed_out),
     .flags = SYN__NO_PREFIX, .tied = "embed_in"},
    {0}};

/* ---- computation ---- */

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    const struct neox *neox = m->params;
    syn_push_scope(m->ctx, "embed_in");
    syn_tensor x = syn__model_embed(m, neox->embed_in, tokens);
    x = syn__model_drop(m, x, 0, SYN__SITE_EMBEDDING);
    syn_pop_scope(m->ctx);
    return x;
}

/* Returns the queries, keys or values (`which` is 0, 1 or 2) of the heads (B, H/tp, T, 3 D) as a
   view (B, H/tp, T, D). */
static syn_tensor part(syn_model *m, syn_tensor heads, int which, const char *label) {
    const int64_t depth = syn__model_head_dim(m);
    return syn_name(m->ctx, syn_slice(m->ctx, heads, 3, which * depth, depth), label);
}

static syn_tensor attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct neox_layer *l = layer;
    x = syn_column_linear(m->ctx, syn__model_enter(m, x), &l->qkv, false, NULL, "query_key_value");
    x = syn_heads_split(m->ctx, x, 3 * syn__model_head_dim(m));
    const syn_tensor q = syn__model_apply_rotary(m, part(m, x, 0, "q"), 0);
    const syn_tensor k = syn__model_apply_rotary(m, part(m, x, 1, "k"), 0);
    const syn_tensor keys = syn__causal_keys(m, i, k);
    const syn_tensor values = syn__causal_values(m, i, part(m, x, 2, "v"));
    return syn__model_attend(m, i, q, keys, values);
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct neox_layer *l = layer;
    (void)i;
    x = syn_column_linear(m->ctx, syn__model_enter(m, x), &l->up, false, NULL, "dense_h_to_4h");
    return syn__model_activate(m, x);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct neox_layer *l = layer;
    const syn__branch branches[2] = {{"attention", &l->input_norm, "input_layernorm", attention,
                                      &l->dense, "dense", SYN__SITE_ATTENTION_OUT},
                                     {"mlp", &l->post_norm, "post_attention_layernorm", mlp,
                                      &l->down, "dense_4h_to_h", SYN__SITE_MLP_OUT}};
    return m->config.parallel_residual ? syn__model_parallel(m, l, i, x, branches)
                                       : syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define CONFIG(...)                                                                          \
    {                                                                                        \
        .family = &syn_gpt_neox_family, .norm_epsilon = 1e-5, .initializer_range = 0.02,     \
        .rotary = SYN__ROTARY(1e4, 0.25), .parallel_residual = true, .attention_bias = true, \
        __VA_ARGS__                                                                          \
    }
#define PRESET(name_, layers, hidden, heads, vocab, activation_)                \
    CONFIG(.name = name_, .n_layer = layers, .n_embd = hidden, .n_head = heads, \
           .n_inner = 4 * (hidden), .n_positions = 2048, .vocab_size = vocab,   \
           .activation = activation_, .end = {{0}, 1, 0, 0}, .dtype = "float16")

/* Sizes are from Biderman et al. 2023, table 1, and Black et al. 2022, section 2. Vocabulary sizes
   (with padding) and activations are those of the released configurations. */
static const syn_model_config presets[] = {
    PRESET("pythia-70m", 6, 512, 8, 50304, SYN_GELU_ERF),
    PRESET("pythia-160m", 12, 768, 12, 50304, SYN_GELU_ERF),
    PRESET("pythia-410m", 24, 1024, 16, 50304, SYN_GELU_ERF),
    PRESET("pythia-1b", 16, 2048, 8, 50304, SYN_GELU_ERF),
    PRESET("pythia-1.4b", 24, 2048, 16, 50304, SYN_GELU_ERF),
    PRESET("pythia-2.8b", 32, 2560, 32, 50304, SYN_GELU_ERF),
    PRESET("pythia-6.9b", 32, 4096, 32, 50432, SYN_GELU_ERF),
    PRESET("pythia-12b", 36, 5120, 40, 50688, SYN_GELU_ERF),
    PRESET("gpt-neox-20b", 44, 6144, 64, 50432, SYN_GELU_TANH),
};

static const syn_model_config defaults =
    CONFIG(.n_positions = 2048, .activation = SYN_GELU_ERF, .end = SYN__STOP_IDS(2, 0));

/* Writes the group rope_parameters, which transformers 5 reads, and the keys rotary_emb_base and
   rotary_pct, which transformers 4 reads. */
static void write_rotary(syn_sink *out, const void *member) {
    const syn_rotary *r = member;
    syn__rotary_write(out, r);
    syn_sink_text(out, ",\n  \"rotary_emb_base\": ");
    syn_sink_double(out, r->theta);
    syn_sink_text(out, ",\n  \"rotary_pct\": ");
    syn_sink_double(out, r->part);
}

static const syn__setting rows[] = {
    SYN__ROWS_NAMES,
    SYN__ROWS_LAYERS,
    SYN__ROWS_WIDTHS,
    SYN__ROWS_NUMBERS("layer_norm_eps"),
    SYN__ROW_ACTIVATION("hidden_act", SYN__SAVED),
    SYN__ROW_DROPOUT("hidden_dropout", residual),
    SYN__ROW_DROPOUT("attention_dropout", attention),
    SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)),
    SYN__ROW_BOOL("use_parallel_residual", SYN__SAVED, SYN__AT(parallel_residual)),
    SYN__ROW_BOOL("attention_bias", SYN__SAVED, SYN__AT(attention_bias)),
    SYN__ROWS_ROTARY_AS("rotary_emb_base", "rotary_pct", write_rotary),
    /* Files of transformers 4 have these keys, too. */
    SYN__ROWS_ROTARY_TOP_LEVEL("rope_theta", "partial_rotary_factor"),
    SYN__ROWS_STOP_IDS,
    SYN__ROWS_DECODER_ONLY,
};
static const syn__setting_table fields = SYN__MODEL_TABLE_OF(rows);

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    file->config.dropout.embedding = file->config.dropout.residual;
    return syn__rotary_check(s, table, file);
}

static const char *const types[] = {"gpt_neox", NULL};

const syn_model_family syn_gpt_neox_family = {.name = "gpt_neox",
                                              .title = "GPT-NeoX",
                                              .types = types,
                                              .tokenizer = SYN_TOKENIZER_BPE,
                                              .defaults = &defaults,
                                              SYN__PRESETS(presets),
                                              .fields = &fields,
                                              .check_file = check_file,
                                              .architecture = "GPTNeoXForCausalLM",
                                              .prefix = "gpt_neox.",
                                              .layers = "layers",
                                              .attention = "attention",
                                              .embed_rows = embed_rows,
                                              .layer_rows = layer_rows,
                                              .head_rows = head_rows,
                                              .out_in = true,
                                              .params_bytes = sizeof(struct neox),
                                              .layer_bytes = sizeof(struct neox_layer),
                                              .layer = layer,
                                              .embed = embed,
                                              .head_scope = "embed_out"};
