/* The registry of model families, and functions on their tables: find a parameter by name, and
   compute sizes. They work without a model, so that configurations and checkpoints can use them. */
#include <stdio.h>
#include <string.h>

#include "models/family_private.h"

const syn_model_family *syn__family(size_t i) {
    static const syn_model_family *const families[] = {&syn_gpt_family,
                                                       &syn_bert_family,
                                                       &syn_llama_family,
                                                       &syn_mistral_family,
                                                       &syn_qwen2_family,
                                                       &syn_qwen3_family,
                                                       &syn_gpt_neox_family,
                                                       &syn_mixtral_family,
                                                       &syn_qwen2_moe_family,
                                                       &syn_qwen3_moe_family,
                                                       &syn_starcoder2_family,
                                                       &syn_phi3_family,
                                                       &syn_olmo2_family,
                                                       &syn_granite_family,
                                                       &syn_smollm3_family,
                                                       &syn_gemma2_family,
                                                       &syn_gemma3_text_family,
                                                       &syn_distilbert_family,
                                                       &syn_deepseek_v2_family,
                                                       &syn_deepseek_v3_family,
                                                       &syn_kimi_k2_family,
                                                       &syn_gpt_oss_family,
                                                       &syn_roberta_family,
                                                       &syn_opt_family,
                                                       NULL};
    return families[i];
}

/* Named as in DeepSeek-V3's checkpoint. */
const syn__param_row syn__mtp_rows[] = {
    {"enorm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = offsetof(syn__mtp, token_norm)},
    {"hnorm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = offsetof(syn__mtp, hidden_norm)},
    {"eh_proj", SYN__COLUMN_LINEAR, SYN__DIM_TWO_HIDDEN, SYN__DIM_HIDDEN,
     .at = offsetof(syn__mtp, proj), .flags = SYN__NO_BIAS},
    {"shared_head.norm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = offsetof(syn__mtp, norm)},
    {0}};

/* ---- names ---- */

static bool is_called(const char *name, const char *stem, const char *end) {
    const size_t n = strlen(stem);
    return strncmp(name, stem, n) == 0 && strcmp(name + n, end) == 0;
}

/* Whether `name` is that of all experts' matrices or biases, with the "*" of the row's name if it
   has one, of one expert's matrix, with a number, or of a stack in a checkpoint. */
static bool is_of_experts(const syn__param_row *row, const char *name) {
    static const char *const ends[] = {"", "_bias", "_blocks", "_scales"};
    const char *star = strchr(row->name, '*');
    for (int i = 0; row->stacked && i < 4; i++)
        if (is_called(name, row->file, ends[i])) return true;
    if (row->stacked)
        return is_called(name, row->name, ".weight") || is_called(name, row->name, ".bias");
    const size_t before = (size_t)(star - row->name);
    if (strncmp(name, row->name, before) != 0) return false;
    const size_t digits = strspn(name + before, "0123456789");
    return is_called(name + before + (digits ? digits : *(name + before) == '*'), star + 1,
                     ".weight");
}

static bool is_of(const syn__param_row *row, const char *name) {
    if (row->file && !row->stacked && is_called(name, row->file, ".weight")) return true;
    switch (row->kind) {
    case SYN__EXPERTS_COLUMN:
    case SYN__EXPERTS_ROW:
        return is_of_experts(row, name);
    case SYN__HEADS:
    case SYN__BUFFER:
    case SYN__IGNORED:
        return strcmp(name, row->name) == 0;
    case SYN__RMS_NORM:
    case SYN__TABLE:
    case SYN__VOCAB_TABLE:
        return is_called(name, row->name, ".weight");
    case SYN__VOCAB_BIAS:
    case SYN__BIAS_ALIAS:
        return is_called(name, row->name, ".bias");
    default:
        return is_called(name, row->name, ".weight") ||
               (is_called(name, row->name, ".bias") && (row->flags & SYN__NO_BIAS) == 0);
    }
}

static const syn__param_row *find(const syn__param_row *rows, const char *name) {
    for (; rows->name; rows++)
        if (is_of(rows, name)) return rows;
    return NULL;
}

/* Returns what follows "h.<number>." in the name of a layer's parameter ("h" is f->layers); NULL
   for other names. */
static const char *in_layer(const syn_model_family *f, const char *name) {
    const size_t n = strlen(f->layers);
    if (strncmp(name, f->layers, n) != 0 || name[n] != '.') return NULL;
    const size_t digits = strspn(name + n + 1, "0123456789");
    return digits > 0 && name[n + 1 + digits] == '.' ? name + n + digits + 2 : NULL;
}

const syn__param_row *syn__family_row(const syn_model_family *f, const char *parameter) {
    const char *rest = in_layer(f, parameter);
    if (rest) {
        const syn__param_row *row = find(f->layer_rows, rest);
        return row ? row : find(syn__mtp_rows, rest);
    }
    const syn__param_row *row = find(f->embed_rows, parameter);
    return row ? row : find(f->head_rows, parameter);
}

int64_t syn__family_layer(const syn_model_family *f, const char *parameter) {
    const char *rest = in_layer(f, parameter), *digits = parameter + strlen(f->layers) + 1;
    int64_t layer = 0;
    if (!rest || (digits[0] == '0' && digits[1] != '.')) return -1;
    for (; *digits != '.' && layer <= SYN__MAX_LAYERS; digits++) layer = 10 * layer + *digits - '0';
    return *digits == '.' ? layer : -1;
}

const syn__param_row *syn__family_alias_row(const syn_model_family *f, const char *parameter) {
    for (const syn__param_row *row = f->head_rows; row->name; row++)
        if (row->kind == SYN__BIAS_ALIAS && is_called(parameter, row->tied, ".bias")) return row;
    return NULL;
}

const char *syn_model_token_table(const syn_model_config *c, char *buf, size_t buf_bytes) {
    const syn__param_row *row = c->family->embed_rows;
    while (row->kind != SYN__VOCAB_TABLE) row++;
    snprintf(buf, buf_bytes, "%s.weight", row->name);
    return buf;
}

const char *syn_model_tied_parameter(const syn_model_config *c, char *buf, size_t buf_bytes) {
    for (const syn__param_row *row = c->family->head_rows; c->tied && row->name; row++)
        if (row->kind == SYN__VOCAB_TABLE && row->tied) {
            snprintf(buf, buf_bytes, "%s.weight", row->tied);
            return buf;
        }
    return NULL;
}

/* ---- sizes ---- */

int64_t syn__model_config_head_dim(const syn_model_config *c) {
    return c->head_dim ? c->head_dim : c->n_embd / c->n_head;
}

int64_t syn__family_dim(const syn_model_config *c, syn__dim dim) {
    const int64_t depth = syn__model_config_head_dim(c);
    switch (dim) {
    case SYN__DIM_TWO:
        return 2;
    case SYN__DIM_HIDDEN:
        return c->n_embd;
    case SYN__DIM_TWO_HIDDEN:
        return 2 * c->n_embd;
    case SYN__DIM_HEAD:
        return depth;
    case SYN__DIM_HEADS:
        return c->n_head;
    case SYN__DIM_QUERIES:
        return depth * c->n_head;
    case SYN__DIM_KEYS:
        return depth * (c->n_kv_head ? c->n_kv_head : c->n_head);
    case SYN__DIM_QKV:
        return 3 * depth * c->n_head;
    case SYN__DIM_INNER:
        return c->n_inner;
    case SYN__DIM_ONE:
        return 1;
    case SYN__DIM_EXPERTS:
        return c->experts.n;
    case SYN__DIM_EXPERT_INNER:
        return c->experts.inner ? c->experts.inner : c->n_inner;
    case SYN__DIM_SHARED_INNER:
        return c->experts.shared_inner;
    case SYN__DIM_Q_LATENT:
        return c->latent.q;
    case SYN__DIM_KV_LATENT:
        return c->latent.kv;
    case SYN__DIM_LATENT_AND_ROPE:
        return c->latent.kv + c->latent.rope;
    case SYN__DIM_LATENT_HEADS:
        return (c->latent.nope + c->latent.value) * c->n_head;
    case SYN__DIM_VALUES:
        return c->latent.value * c->n_head;
    case SYN__DIM_VOCAB:
        return c->vocab_size;
    case SYN__DIM_POSITIONS:
        return c->first_position + c->n_positions;
    case SYN__DIM_TYPES:
        return c->n_types;
    }
    return 0;
}

bool syn_layer_set_has(const syn_layer_set *set, int64_t i) {
    return i < SYN_MAX_SET_LAYERS && (set->bits[i / 64] >> (i % 64) & 1) != 0;
}

void syn_layer_set_add(syn_layer_set *set, int64_t i) {
    set->bits[i / 64] |= (uint64_t)1 << (i % 64);
}

int64_t syn_model_layer_window(const syn_model_config *c, int64_t i) {
    const bool has = c->windowed && c->window > 0;
    return has && i >= c->full_layers && !syn_layer_set_has(&c->full, i) ? c->window : 0;
}

bool syn_model_layer_has_experts(const syn_model_config *c, int64_t i) {
    const syn_experts_config *e = &c->experts;
    if (e->n == 0 || i < e->first || (e->every > 1 && (i + 1) % e->every != 0)) return false;
    return i >= SYN_MAX_DENSE_LAYERS || (e->dense[i / 64] >> (i % 64) & 1) == 0;
}

bool syn_model_has_experts(const syn_model_config *c) {
    int64_t i = 0;
    while (i < c->n_layer && !syn_model_layer_has_experts(c, i)) i++;
    return i < c->n_layer;
}

bool syn__family_has_row(const syn_model_config *c, const syn__param_row *row, unsigned heads,
                         int64_t layer) {
    const unsigned flags = row->flags;
    if (row->heads != 0 && (row->heads & heads) == 0) return false;
    if ((flags & SYN__DENSE) && syn_model_layer_has_experts(c, layer)) return false;
    if ((flags & SYN__SPARSE) && !syn_model_layer_has_experts(c, layer)) return false;
    if ((flags & SYN__SHARED) && c->experts.shared_inner == 0) return false;
    if ((flags & SYN__SHARED_GATE) && !c->experts.shared_gate) return false;
    if ((flags & SYN__ROUTER_BIAS) && !c->experts.biased) return false;
    if ((flags & SYN__Q_LATENT) && c->latent.q <= 0) return false;
    if ((flags & SYN__Q_DIRECT) && c->latent.q > 0) return false;
    return (flags & SYN__HEAD_NORM) == 0 || c->head_norm;
}

bool syn__family_has_bias(const syn_model_config *c, const syn__param_row *row) {
    if (row->flags & SYN__NO_BIAS) return false;
    if (row->flags & SYN__QKV_BIAS) return c->qkv_bias || c->attention_bias;
    if (row->flags & SYN__OUT_BIAS) return c->attention_bias;
    return (row->flags & SYN__MLP_BIAS) == 0 || c->mlp_bias;
}

static int64_t row_params(const syn__param_row *row, const syn_model_config *c) {
    const int64_t from = syn__family_dim(c, row->from), to = syn__family_dim(c, row->to);
    switch (row->kind) {
    case SYN__NORM:
        return 2 * to;
    case SYN__RMS_NORM:
    case SYN__HEADS:
        return to;
    case SYN__COLUMN_LINEAR:
    case SYN__ROW_LINEAR:
    case SYN__REPLICATED_LINEAR:
        return from * to + (syn__family_has_bias(c, row) ? to : 0);
    case SYN__EXPERTS_COLUMN:
    case SYN__EXPERTS_ROW:
        return c->experts.n * (from * to + (syn__family_has_bias(c, row) ? to : 0));
    case SYN__TABLE:
        return from * to;
    case SYN__VOCAB_TABLE:
        return row->tied && c->tied ? 0 : from * to;
    case SYN__VOCAB_BIAS:
        return from;
    default:
        return 0;
    }
}

static int64_t rows_params(const syn__param_row *row, const syn_model_config *c, unsigned heads,
                           int64_t layer) {
    int64_t n = 0;
    for (; row->name; row++)
        if (syn__family_has_row(c, row, heads, layer)) n += row_params(row, c);
    return n;
}

int64_t syn_model_config_expert_params(const syn_model_config *c) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_layer; i++)
        for (const syn__param_row *row = c->family->layer_rows; row->name; row++)
            if ((row->kind == SYN__EXPERTS_COLUMN || row->kind == SYN__EXPERTS_ROW) &&
                syn__family_has_row(c, row, 0, i))
                n += row_params(row, c);
    return n;
}

int64_t syn_model_config_params(const syn_model_config *c, unsigned heads) {
    const syn_model_family *f = c->family;
    int64_t n = rows_params(f->embed_rows, c, heads, -1) + rows_params(f->head_rows, c, heads, -1);
    for (int64_t i = 0; i < c->n_layer; i++) n += rows_params(f->layer_rows, c, heads, i);
    return n;
}
