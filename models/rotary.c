/* Rotary position embeddings (Su et al. 2021): computes the frequencies by which pairs of a head's
   elements are rotated, and reads, checks and writes the rotary settings of config.json. Several
   families share them. Formulas and the order of roundings are those of transformers. */
#include <math.h>
#include <stdio.h>

#include "models/family_private.h"

#define TWO_PI 6.283185307179586

/* ---- frequencies ---- */

static int64_t rotary_elems(const syn_model_config *c) {
    if (c->latent.kv > 0) return c->latent.rope;
    return (int64_t)((double)syn__model_config_head_dim(c) * c->rotary.part);
}

int64_t syn__rotary_pairs(const syn_model_config *c) {
    return rotary_elems(c) / 2;
}

/* theta^(2i/R), where R is the number of rotated elements of a head. */
static float power(const syn_model_config *c, double theta, int64_t i) {
    return powf((float)theta, (float)(2 * i) / (float)(2 * syn__rotary_pairs(c)));
}

/* Scaling of Llama 3.1: divides frequencies with long wavelengths by `factor`, keeps frequencies
   with short wavelengths, and interpolates between the two. */
static float llama3_frequency(const syn_rotary *r, float frequency) {
    const float wave = (float)TWO_PI / frequency, old = (float)r->original;
    if (wave < old / (float)r->high) return frequency;
    if (wave > old / (float)r->low) return frequency / (float)r->factor;
    const float smooth = (old / wave - (float)r->low) / (float)(r->high - r->low);
    return (1 - smooth) * frequency / (float)r->factor + smooth * frequency;
}

/* The index of the pair that makes `turns` rotations within the original length. It is a real
   number, so it may lie between two pairs. */
static double pair_of(const syn_model_config *c, double turns) {
    const syn_rotary *r = &c->rotary;
    return 2 * (double)syn__rotary_pairs(c) * log((double)r->original / (turns * TWO_PI)) /
           (2 * log(r->theta));
}

/* YaRN (Peng et al. 2023) interpolates between each frequency and the same frequency divided by
   `factor`. Returns the weight of the divided one for pair i, from 0 to 1. */
static float stretched(const syn_model_config *c, int64_t i) {
    const syn_rotary *r = &c->rotary;
    const double last = 2 * (double)syn__rotary_pairs(c) - 1;
    double low = pair_of(c, r->fast), high = pair_of(c, r->slow);
    if (r->truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0), high = fmin(high, last);
    if (low == high) high += 0.001;
    return fminf(fmaxf(((float)i - (float)low) / (float)(high - low), 0), 1);
}

bool syn__rotary_is_long(const syn_model_config *c, int64_t tokens) {
    if (c->rotary.scaling == SYN_ROPE_DYNAMIC) return tokens > c->n_positions;
    return c->rotary.scaling == SYN_ROPE_LONGROPE && tokens > c->rotary.original;
}

void syn__rotary_frequencies(const syn_model_config *c, int64_t tokens, float *out) {
    const syn_rotary *r = &c->rotary;
    const double dims = 2 * (double)syn__rotary_pairs(c), n = (double)c->n_positions;
    const bool is_long = syn__rotary_is_long(c, tokens);
    const syn_rotary_factors *factors = is_long ? &r->long_factors : &r->short_factors;
    double theta = r->theta;
    if (r->scaling == SYN_ROPE_DYNAMIC && is_long)
        theta *= pow(r->factor * (double)tokens / n - (r->factor - 1), dims / (dims - 2));
    for (int64_t i = 0; i < syn__rotary_pairs(c); i++) {
        const float p = power(c, theta, i);
        out[i] = 1 / p;
        if (r->scaling == SYN_ROPE_LINEAR) out[i] /= (float)r->factor;
        if (r->scaling == SYN_ROPE_LONGROPE) out[i] = 1 / (factors->at[i] * p);
        if (r->scaling == SYN_ROPE_LLAMA3) out[i] = llama3_frequency(r, out[i]);
        if (r->scaling == SYN_ROPE_YARN) {
            const float stay = 1 - stretched(c, i);
            out[i] = 1 / ((float)r->factor * p) * (1 - stay) + out[i] * stay;
        }
    }
}

static double grown(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

double syn__rotary_factor(const syn_model_config *c) {
    const syn_rotary *r = &c->rotary;
    const bool longrope = r->scaling == SYN_ROPE_LONGROPE;
    if (r->scaling != SYN_ROPE_YARN && !longrope) return 1;
    if (r->attention_factor > 0) return r->attention_factor;
    if (longrope) return sqrt(1 + log(fmax(r->factor, 1)) / log((double)r->original));
    if (r->mscale > 0 && r->mscale_all > 0)
        return grown(r->factor, r->mscale) / grown(r->factor, r->mscale_all);
    return grown(r->factor, 1);
}

/* Linear and dynamic scaling multiply n_positions by `factor`; YaRN multiplies the original length.
   With Llama 3 scaling n_positions is already the extended length. */
int64_t syn_model_max_tokens(const syn_model_config *c) {
    const syn_rotary *r = &c->rotary;
    double most = 0;
    if (r->scaling == SYN_ROPE_LINEAR || r->scaling == SYN_ROPE_DYNAMIC)
        most = (double)c->n_positions * r->factor;
    if (r->scaling == SYN_ROPE_YARN) most = (double)r->original * r->factor;
    most = fmin(fmax(most, (double)c->n_positions), (double)SYN__MAX_POSITIONS);
    return (int64_t)most;
}

syn_status syn_model_check_growth(const syn_model_config *c, int64_t tokens, int64_t most,
                                  syn_error *err) {
    if (c->rotary.scaling != SYN_ROPE_LONGROPE || syn__rotary_is_long(c, tokens) ||
        !syn__rotary_is_long(c, most))
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "a text of %lld tokens cannot grow to %lld: %s has another rotary embedding "
                    "for texts of more than %lld tokens (longrope), so begin with a longer text or "
                    "end earlier",
                    (long long)tokens, (long long)most, c->name, (long long)c->rotary.original);
}

/* ---- files ---- */

static const syn__setting_choice scalings[] = {
    {"default", SYN_ROPE_DEFAULT}, {"linear", SYN_ROPE_LINEAR}, {"dynamic", SYN_ROPE_DYNAMIC},
    {"llama3", SYN_ROPE_LLAMA3},   {"yarn", SYN_ROPE_YARN},     {NULL, 0}};

#define IN(member)                            offsetof(syn_rotary, member)
#define NUMBER(key_, member, lowest, highest) SYN__ROW_F64(key_, 0, IN(member), lowest, highest)
#define CHOICE(key_, flags_, choices_)                                                        \
    {                                                                                         \
        .key = (key_), .type = SYN__SETTING_CHOICE, .flags = (flags_), .offset = IN(scaling), \
        .choices = (choices_)                                                                 \
    }

static const syn__setting rows[] = {
    CHOICE("rope_type", 0, scalings),
    CHOICE("type", SYN__NULLABLE, scalings),
    NUMBER("rope_theta", theta, 1.0001, 1e12),
    NUMBER("partial_rotary_factor", part, 0.001, 1),
    NUMBER("factor", factor, 1, 1e6),
    NUMBER("low_freq_factor", low, 1e-6, 1e6),
    NUMBER("high_freq_factor", high, 1e-6, 1e6),
    SYN__ROW_I64("original_max_position_embeddings", SYN__NULLABLE, IN(original), 1,
                 SYN__MAX_POSITIONS),
    NUMBER("attention_factor", attention_factor, 1e-6, 1e6),
    NUMBER("beta_fast", fast, 1e-6, 1e6),
    NUMBER("beta_slow", slow, 1e-6, 1e6),
    NUMBER("mscale", mscale, 0, 1e6),
    NUMBER("mscale_all_dim", mscale_all, 0, 1e6),
    {.key = "truncate", .type = SYN__SETTING_BOOL, .offset = IN(truncate)},
};

/* Reads a list of factors into *member, a syn_rotary_factors. */
static syn_status read_factors(syn__settings *s, void *member) {
    syn_rotary_factors *out = member;
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be a list or null", s->path);
    out->n = 0;
    while ((type = syn_json_next(&s->json)) == SYN_JSON_NUMBER && s->json.number >= 1e-6 &&
           s->json.number <= 1e6 && out->n < SYN_MAX_ROTARY_FACTORS)
        out->at[out->n++] = (float)s->json.number;
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_END) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be a list of up to %d numbers from 1e-6 to 1e6",
                              s->path, SYN_MAX_ROTARY_FACTORS);
}

/* transformers reads yarn as longrope in these families. */
static const syn__setting_choice longrope_scalings[] = {{"default", SYN_ROPE_DEFAULT},
                                                        {"longrope", SYN_ROPE_LONGROPE},
                                                        {"su", SYN_ROPE_LONGROPE},
                                                        {"yarn", SYN_ROPE_LONGROPE},
                                                        {NULL, 0}};

static const syn__setting longrope_rows[] = {
    CHOICE("rope_type", 0, longrope_scalings),
    CHOICE("type", SYN__NULLABLE, longrope_scalings),
    NUMBER("rope_theta", theta, 1.0001, 1e12),
    NUMBER("partial_rotary_factor", part, 0.001, 1),
    NUMBER("factor", factor, 1, 1e6),
    NUMBER("attention_factor", attention_factor, 1e-6, 1e6),
    SYN__ROW_CUSTOM("short_factor", IN(short_factors), read_factors),
    SYN__ROW_CUSTOM("long_factor", IN(long_factors), read_factors),
};

/* Unsupported settings: a separate factor for each frequency (long_factor, short_factor), positions
   with several dimensions (mrope_section), and other settings for each layer type. */
static const syn__setting_restricted refused[] = {{"full_attention", 0},    {"long_factor", 0},
                                                  {"mrope_section", 0},     {"short_factor", 0},
                                                  {"sliding_attention", 0}, {NULL, 0}};
const syn__setting_table syn__rotary_table = {rows, sizeof rows / sizeof rows[0], true, refused};

static const syn__setting_restricted longrope_refused[] = {
    {"full_attention", 0}, {"mrope_section", 0}, {"sliding_attention", 0}, {NULL, 0}};
const syn__setting_table syn__longrope_table = {
    longrope_rows, sizeof longrope_rows / sizeof longrope_rows[0], true, longrope_refused};

static void write_number(syn_sink *out, const char *key, double value) {
    syn_sink_printf(out, ",\n    \"%s\": ", key);
    syn_sink_double(out, value);
}

static void write_factors(syn_sink *out, const char *key, const syn_rotary_factors *factors) {
    syn_sink_printf(out, ",\n    \"%s\": [", key);
    for (int64_t i = 0; i < factors->n; i++) {
        if (i > 0) syn_sink_text(out, ", ");
        syn_sink_double(out, (double)factors->at[i]);
    }
    syn_sink_text(out, "]");
}

void syn__rotary_write(syn_sink *out, const void *member) {
    syn_sink_text(out, ",\n  \"rope_parameters\": ");
    syn__rotary_write_group(out, member);
}

void syn__rotary_write_group(syn_sink *out, const syn_rotary *r) {
    const bool longrope = r->scaling == SYN_ROPE_LONGROPE;
    syn_sink_printf(out, "{\n    \"rope_type\": \"%s\"",
                    longrope ? "longrope" : scalings[r->scaling].text);
    write_number(out, "rope_theta", r->theta);
    if (r->part < 1) write_number(out, "partial_rotary_factor", r->part);
    if (r->scaling != SYN_ROPE_DEFAULT) write_number(out, "factor", r->factor);
    if (r->scaling == SYN_ROPE_LLAMA3) {
        write_number(out, "low_freq_factor", r->low);
        write_number(out, "high_freq_factor", r->high);
    }
    if (longrope) {
        write_factors(out, "short_factor", &r->short_factors);
        write_factors(out, "long_factor", &r->long_factors);
        if (r->attention_factor > 0) write_number(out, "attention_factor", r->attention_factor);
    }
    if (r->scaling == SYN_ROPE_LLAMA3 || r->scaling == SYN_ROPE_YARN || longrope)
        write_number(out, "original_max_position_embeddings", (double)r->original);
    if (r->scaling == SYN_ROPE_YARN) {
        write_number(out, "beta_fast", r->fast);
        write_number(out, "beta_slow", r->slow);
        if (r->attention_factor > 0) write_number(out, "attention_factor", r->attention_factor);
        if (r->mscale > 0) write_number(out, "mscale", r->mscale);
        if (r->mscale_all > 0) write_number(out, "mscale_all_dim", r->mscale_all);
        if (!r->truncate) syn_sink_text(out, ",\n    \"truncate\": false");
    }
    syn_sink_text(out, "\n  }");
}

static void resolve_rotary_keys(const syn__settings *s, const syn__setting_table *table,
                                syn__config_file *file) {
    syn_rotary *r = &file->config.rotary;
    if (syn__settings_key(s, table, offsetof(syn__config_file, rope_scaling)))
        *r = file->rope_scaling;
    if (r->theta == 0) r->theta = file->top_level.theta;
    if (r->part == 0) r->part = file->top_level.part;
}

static syn_status check_rotary(syn__settings *s, syn_model_config *c) {
    syn_rotary *r = &c->rotary;
    const bool longrope = r->scaling == SYN_ROPE_LONGROPE;
    const bool scaled = r->scaling != SYN_ROPE_DEFAULT, parts = r->scaling == SYN_ROPE_LLAMA3;
    const char *lacks = NULL;
    if (longrope && r->factor == 0)
        r->factor = fmax((double)c->n_positions / (double)r->original, 1);
    if (scaled && r->factor == 0) lacks = "factor";
    if (parts && r->low == 0) lacks = "low_freq_factor";
    if (parts && r->high == 0) lacks = "high_freq_factor";
    if (parts && r->original == 0) lacks = "original_max_position_embeddings";
    if (lacks)
        return syn__settings_fail(s, "rotary embeddings with \"%s\" scaling need \"%s\"",
                                  scalings[r->scaling].text, lacks);
    if (parts && r->high <= r->low)
        return syn__settings_fail(s, "\"high_freq_factor\" must be above \"low_freq_factor\"");
    if (r->original == 0) r->original = c->n_positions;
    if (syn__rotary_pairs(c) < 1 || (r->scaling == SYN_ROPE_DYNAMIC && syn__rotary_pairs(c) < 2))
        return syn__settings_fail(s, "a head_dim of %lld is too small for rotary embeddings",
                                  (long long)syn__model_config_head_dim(c));
    const int64_t rotated = rotary_elems(c);
    if (rotated % 2 != 0)
        return syn__settings_fail(s,
                                  "rotary embeddings rotate pairs, but head_dim %lld gives an odd "
                                  "number of rotated elements, %lld",
                                  (long long)syn__model_config_head_dim(c), (long long)rotated);
    const int64_t pairs = syn__rotary_pairs(c);
    if (longrope && (r->short_factors.n != pairs || r->long_factors.n != pairs))
        return syn__settings_fail(
            s,
            "\"longrope\" needs \"short_factor\" and \"long_factor\" of %lld numbers each, one "
            "for each rotated pair",
            (long long)pairs);
    return SYN_OK;
}

syn_status syn__rotary_check(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    resolve_rotary_keys(s, table, file);
    return check_rotary(s, &file->config);
}

syn_status syn__rotary_check_local(syn__settings *s, syn_model_config *config) {
    syn_model_config local = *config;
    local.rotary = config->local_rotary;
    SYN_TRY(check_rotary(s, &local));
    config->local_rotary = local.rotary;
    if (local.rotary.scaling != SYN_ROPE_DYNAMIC) return SYN_OK;
    return syn__settings_fail(
        s, "the rotary embedding of \"sliding_attention\" cannot have \"dynamic\" scaling");
}
