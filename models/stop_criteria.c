/* Reads and writes stop criteria and sampling defaults; see stop_criteria.h. Separate from the rest
   of the configuration, because they are in config.json and in generation_config.json. */
#include "models/stop_criteria.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/config_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

bool syn_is_stop_token(const syn_stop_criteria *criteria, int32_t token) {
    for (int32_t i = 0; i < criteria->n_ids; i++)
        if (criteria->ids[i] == token) return true;
    return false;
}

/* ---- ids ---- */

static syn_status read_stop_id(syn__settings *s, syn_stop_criteria *criteria) {
    if (s->json.type != SYN_JSON_NUMBER || !s->json.is_integer)
        return syn__settings_fail(s, "\"%s\" must be an integer, a list of integers or null",
                                  s->path);
    if (criteria->n_ids == SYN_MAX_STOP_IDS)
        return syn__settings_fail(s, "\"%s\" lists more than %d ids", s->path, SYN_MAX_STOP_IDS);
    const int64_t id = s->json.integer;
    criteria->ids[criteria->n_ids++] = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    return SYN_OK;
}

syn_status syn__stop_ids(syn__settings *s, void *member) {
    syn_stop_criteria *criteria = member;
    syn_json_type type = syn_json_next(&s->json);
    criteria->n_ids = 0; /* replaces the default */
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return type == SYN_JSON_ERROR ? s->error.code : read_stop_id(s, criteria);
    while ((type = syn_json_next(&s->json)) != SYN_JSON_ARRAY_END) {
        if (type == SYN_JSON_ERROR) return s->error.code;
        SYN_TRY(read_stop_id(s, criteria));
    }
    return SYN_OK;
}

syn_status syn__stop_fill(syn__settings *s, void *member) {
    syn_stop_criteria read = {0};
    SYN_TRY(syn__stop_ids(s, &read));
    if (read.n_ids == 1) *(int32_t *)member = read.ids[0];
    return SYN_OK;
}

syn_status syn__stop_begin(syn__settings *s, void *member) {
    syn_stop_criteria read = {0};
    SYN_TRY(syn__stop_ids(s, &read));
    *(int32_t *)member = read.n_ids == 1 ? read.ids[0] : -1;
    return SYN_OK;
}

void syn__stop_normalize(syn_stop_criteria *criteria, int64_t vocab) {
    syn_stop_criteria kept = {.begin = -1};
    for (int32_t i = 0; i < criteria->n_ids; i++)
        if (criteria->ids[i] >= 0 && criteria->ids[i] < vocab)
            kept.ids[kept.n_ids++] = criteria->ids[i];
    kept.fill = criteria->fill >= 0 && criteria->fill < vocab ? criteria->fill : kept.ids[0];
    if (criteria->begin == SYN__NOT_GIVEN) kept.begin = kept.n_ids > 0 ? kept.ids[0] : -1;
    else if (criteria->begin < vocab) kept.begin = criteria->begin;
    *criteria = kept;
}

static void put_id(syn_sink *out, const char *key, int32_t id) {
    if (id >= 0) syn_sink_printf(out, ",\n  \"%s\": %d", key, id);
    else syn_sink_printf(out, ",\n  \"%s\": null", key);
}

/* Writes null if there is no bos or eos id. If the key were omitted, transformers would use its
   default, which is 50256 for GPT-2. */
void syn__stop_write(syn_sink *out, const void *member) {
    const syn_stop_criteria *end = member;
    put_id(out, "bos_token_id", end->begin);
    if (end->n_ids < 2) put_id(out, "eos_token_id", end->n_ids ? end->ids[0] : -1);
    for (int32_t i = 0; end->n_ids > 1 && i < end->n_ids; i++)
        syn_sink_printf(out, "%s%d", i ? ", " : ",\n  \"eos_token_id\": [", end->ids[i]);
    if (end->n_ids > 1) syn_sink_char(out, ']');
    if (end->n_ids > 0 && end->fill != end->ids[0]) put_id(out, "pad_token_id", end->fill);
}

/* ---- generation_config.json ---- */

#define IGNORED_KEYS_BYTES 400

typedef struct generation_file {
    syn_stop_criteria criteria;
    syn_sampling_defaults sampling;
    bool do_sample;
    char unread[IGNORED_KEYS_BYTES];
} generation_file;

static void add_unsupported(const syn__settings *s, char *unread) {
    const size_t used = strlen(unread);
    snprintf(unread + used, IGNORED_KEYS_BYTES - used, "%s%s", used ? ", " : "", s->path);
}

/* Reads an unsupported setting, and adds its key to `unread` if the setting has an effect. Null,
   false, an empty list or object, and the number `neutral` have none. */
static syn_status read_unsupported(syn__settings *s, char *unread, double neutral) {
    const syn_json_type type = syn_json_next(&s->json);
    bool changes = type == SYN_JSON_STRING || (type == SYN_JSON_BOOL && s->json.boolean) ||
                   (type == SYN_JSON_NUMBER && s->json.number != neutral);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_BEGIN || type == SYN_JSON_OBJECT_BEGIN) {
        const int inside = s->json.depth;
        while (syn_json_next(&s->json) != SYN_JSON_ERROR && s->json.depth >= inside) changes = true;
        if (s->json.type == SYN_JSON_ERROR) return s->error.code;
    }
    if (changes) add_unsupported(s, unread);
    return SYN_OK;
}

static syn_status read_with_zero(syn__settings *s, void *member) {
    return read_unsupported(s, member, 0);
}

static syn_status read_with_one(syn__settings *s, void *member) {
    return read_unsupported(s, member, 1);
}

/* The range of these numbers is checked where they are used, because any value is allowed without
   sampling. */
#define REAL(member) \
    SYN__ROW_F64(#member, 0, offsetof(generation_file, sampling.member), -DBL_MAX, DBL_MAX)

static syn_status read_do_sample(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_NULL && type != SYN_JSON_BOOL)
        return syn__settings_fail(s, "\"%s\" must be true, false or null", s->path);
    *(bool *)member = type == SYN_JSON_BOOL && s->json.boolean;
    return SYN_OK;
}

#define ZERO(key) SYN__ROW_CUSTOM(key, offsetof(generation_file, unread), read_with_zero)
#define ONE(key)  SYN__ROW_CUSTOM(key, offsetof(generation_file, unread), read_with_one)

static const syn__setting rows[] = {
    SYN__ROW_CUSTOM("eos_token_id", offsetof(generation_file, criteria), syn__stop_ids),
    SYN__ROW_CUSTOM("pad_token_id", offsetof(generation_file, criteria.fill), syn__stop_fill),
    SYN__ROW_CUSTOM("bos_token_id", offsetof(generation_file, criteria.begin), syn__stop_begin),
    SYN__ROW_CUSTOM("do_sample", offsetof(generation_file, do_sample), read_do_sample),
    REAL(temperature),
    REAL(top_k),
    REAL(top_p),
    REAL(min_p),
    REAL(repetition_penalty),
    ONE("encoder_repetition_penalty"),
    ONE("num_beams"),
    ONE("typical_p"),
    ONE("guidance_scale"),
    ZERO("no_repeat_ngram_size"),
    ZERO("min_length"),
    ZERO("min_new_tokens"),
    ZERO("epsilon_cutoff"),
    ZERO("eta_cutoff"),
    ZERO("penalty_alpha"),
    ZERO("bad_words_ids"),
    ZERO("force_words_ids"),
    ZERO("forced_bos_token_id"),
    ZERO("forced_eos_token_id"),
    ZERO("suppress_tokens"),
    ZERO("begin_suppress_tokens"),
    ZERO("sequence_bias"),
    ZERO("exponential_decay_length_penalty"),
    ZERO("stop_strings"),
    ZERO("watermarking_config"),
};
static const syn__setting_table table = SYN__TABLE_OF(rows);

syn_status syn_stop_criteria_load(syn_stop_criteria *criteria, syn_sampling_defaults *sampling,
                                  const char *path, int64_t vocab, char *unread,
                                  size_t unread_bytes, syn_error *err) {
    char *json;
    size_t bytes;
    syn__settings s;
    generation_file file = {.criteria = SYN__NO_STOP_IDS, .sampling = {NAN, NAN, NAN, NAN, NAN}};
    SYN_TRY(syn_read_file(path, SYN__SETTING_FILE_BYTES, &json, &bytes, err));
    syn__settings_begin(&s, path, json, bytes);
    (void)syn__settings_read(&s, &table, &file);
    const syn_status status = syn__settings_end(&s, err);
    syn_free(json);
    SYN_TRY(status);
    syn__stop_normalize(&file.criteria, vocab);
    *criteria = file.criteria;
    if (!file.do_sample)
        file.sampling =
            (syn_sampling_defaults){NAN, NAN, NAN, NAN, file.sampling.repetition_penalty};
    *sampling = file.sampling;
    snprintf(unread, unread_bytes, "%s", file.unread);
    return SYN_OK;
}

static void write_sampling(syn_sink *out, const syn_sampling_defaults *s) {
    const struct {
        const char *name;
        double value;
    } said[] = {{"temperature", s->temperature},
                {"top_k", s->top_k},
                {"top_p", s->top_p},
                {"min_p", s->min_p},
                {"repetition_penalty", s->repetition_penalty}};
    if (!isnan(s->temperature) || !isnan(s->top_k) || !isnan(s->top_p) || !isnan(s->min_p))
        syn_sink_text(out, ",\n  \"do_sample\": true");
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (isnan(said[i].value)) continue;
        syn_sink_printf(out, ",\n  \"%s\": ", said[i].name);
        syn_sink_double(out, said[i].value);
    }
}

/* transformers sets _from_model_config in a file that only repeats settings of config.json. */
syn_status syn_stop_criteria_save(const syn_stop_criteria *criteria,
                                  const syn_sampling_defaults *sampling, const char *path,
                                  syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, path, err));
    syn_sink_text(out, "{\n  \"_from_model_config\": true");
    syn__stop_write(out, criteria);
    if (sampling) write_sampling(out, sampling);
    syn_sink_text(out, "\n}\n");
    return syn_sink_close(out, true, err);
}
