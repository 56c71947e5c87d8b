/* Reads the normalizers, pre-tokenizers and decoders of tokenizer.json. */
#include "models/tokenizer/tokenizer_file_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* Keys that an object may have. */
enum {
    SAYS_CLEAN = 1 << 0,
    SAYS_IDEOGRAPHS = 1 << 1,
    SAYS_ACCENTS = 1 << 2,
    SAYS_LOWER = 1 << 3,
    SAYS_LEFT = 1 << 4,
    SAYS_RIGHT = 1 << 5,
    SAYS_INVERT = 1 << 6,
    SAYS_SPLIT = 1 << 7,
    SAYS_PREFIX_SPACE = 1 << 8,
    SAYS_TRIM = 1 << 9,
    SAYS_REGEX = 1 << 10,
    SAYS_DIGITS = 1 << 11,
    SAYS_CLEANUP = 1 << 12,
    SAYS_CONTENT = 1 << 13,
    SAYS_PREPEND = 1 << 14,
    SAYS_PREFIX = 1 << 15,
    SAYS_REPLACEMENT = 1 << 16,
    SAYS_STR_REP = 1 << 17,
    SAYS_PATTERN = 1 << 18,
    SAYS_BEHAVIOR = 1 << 19,
    SAYS_SCHEME = 1 << 20,
    SAYS_START = 1 << 21,
    SAYS_STOP = 1 << 22,
    SAYS_LIST = 1 << 23
};

typedef enum value { FLAG, FLAG_OR_NULL, STRING, PATTERN, NAME, COUNT, LIST } value;

static const struct {
    const char *key;
    value value;
    uint32_t bit;
} keys[] = {{"clean_text", FLAG, SAYS_CLEAN},
            {"handle_chinese_chars", FLAG, SAYS_IDEOGRAPHS},
            {"strip_accents", FLAG_OR_NULL, SAYS_ACCENTS},
            {"lowercase", FLAG, SAYS_LOWER},
            {"strip_left", FLAG, SAYS_LEFT},
            {"strip_right", FLAG, SAYS_RIGHT},
            {"invert", FLAG, SAYS_INVERT},
            {"split", FLAG, SAYS_SPLIT},
            {"add_prefix_space", FLAG, SAYS_PREFIX_SPACE},
            {"trim_offsets", FLAG, SAYS_TRIM},
            {"use_regex", FLAG, SAYS_REGEX},
            {"individual_digits", FLAG, SAYS_DIGITS},
            {"cleanup", FLAG, SAYS_CLEANUP},
            {"content", STRING, SAYS_CONTENT},
            {"prepend", STRING, SAYS_PREPEND},
            {"prefix", STRING, SAYS_PREFIX},
            {"replacement", STRING, SAYS_REPLACEMENT},
            {"str_rep", STRING, SAYS_STR_REP},
            {"pattern", PATTERN, SAYS_PATTERN},
            {"behavior", NAME, SAYS_BEHAVIOR},
            {"prepend_scheme", NAME, SAYS_SCHEME},
            {"start", COUNT, SAYS_START},
            {"stop", COUNT, SAYS_STOP},
            {"normalizers", LIST, SAYS_LIST},
            {"pretokenizers", LIST, SAYS_LIST},
            {"decoders", LIST, SAYS_LIST}};

typedef struct object {
    char type[SYN__TOK_NAME_BYTES];
    uint32_t given, on; /* given: keys that are present; on: flags that are true */
    char *text, *pattern;
    size_t text_bytes, pattern_bytes;
    bool is_regex;
    char behavior[SYN__TOK_NAME_BYTES], scheme[SYN__TOK_NAME_BYTES];
    int64_t start, stop;
    syn__steps inner; /* steps of a Sequence */
    const char *file;
} object;

static void object_free(object *o) {
    syn_free(o->text);
    syn_free(o->pattern);
    syn__steps_free(&o->inner);
}

/* ---- from objects to steps ---- */

static bool on(const object *o, uint32_t bit, bool otherwise) {
    return o->given & bit ? (o->on & bit) != 0 : otherwise;
}

static syn_status add_sequence(object *o, syn__steps *to, syn_error *err) {
    SYN_TRY(syn_grow(&to->at, &to->cap, to->n + o->inner.n, sizeof *to->at, err));
    if (o->inner.n > 0) memcpy(to->at + to->n, o->inner.at, o->inner.n * sizeof *to->at);
    to->n += o->inner.n;
    o->inner.n = 0; /* `to` owns them now */
    return SYN_OK;
}

static syn_status add_bert(object *o, syn__steps *to, syn_error *err) {
    const bool lower = on(o, SAYS_LOWER, true);
    return syn__steps_add_bert(to, on(o, SAYS_CLEAN, true), on(o, SAYS_IDEOGRAPHS, true),
                               on(o, SAYS_ACCENTS, lower), lower, err);
}

/* Moves the object's text to the step, which then owns it. */
static void give_text(object *o, syn__step *step) {
    step->text = o->text;
    step->text_bytes = o->text_bytes;
    o->text = NULL;
}

static syn_status give_pattern(object *o, syn__step *step, syn_error *err) {
    if (o->is_regex) {
        syn_error why = {.code = SYN_OK};
        const syn_status status =
            syn__regex_new(&step->regex, o->pattern, o->pattern_bytes, true, &why);
        if (status == SYN_OK) return SYN_OK;
        return SYN_FAIL(err, status, "%s: %s", o->file, why.text);
    }
    step->pattern = o->pattern;
    step->pattern_bytes = o->pattern_bytes;
    o->pattern = NULL;
    return SYN_OK;
}

static syn_status add_replace_of(object *o, syn__step_kind kind, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, kind, &step, err));
    give_text(o, step);
    return give_pattern(o, step, err);
}

static syn_status add_replace(object *o, syn__steps *to, syn_error *err) {
    return add_replace_of(o, SYN__NORM_REPLACE, to, err);
}

static syn_status add_replace_decoder(object *o, syn__steps *to, syn_error *err) {
    return add_replace_of(o, SYN__DECODE_REPLACE, to, err);
}

static syn_status add_byte_level(object *o, syn__steps *to, syn_error *err) {
    return syn__steps_add_byte_level(to, on(o, SAYS_PREFIX_SPACE, true), on(o, SAYS_REGEX, true),
                                     err);
}

static syn_status add_split(object *o, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__CUT_SPLIT, &step, err));
    step->invert = on(o, SAYS_INVERT, false);
    return give_pattern(o, step, err);
}

static syn_status add_regex(syn__steps *to, const char *pattern, bool invert,
                            syn__behavior behavior, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__CUT_SPLIT, &step, err));
    step->invert = invert;
    step->behavior = behavior;
    return syn__regex_new(&step->regex, pattern, strlen(pattern), false, err);
}

/* Adds the steps of Digits, with the digits of Unicode 17, U+11DE0..11DE9. */
static syn_status add_digits(object *o, syn__steps *to, syn_error *err) {
    return add_regex(to, "[\\p{N}\xf0\x91\xb7\xa0-\xf0\x91\xb7\xa9]", false,
                     on(o, SAYS_DIGITS, false) ? SYN__ISOLATED : SYN__CONTIGUOUS, err);
}

static syn_status add_whitespace(object *o, syn__steps *to, syn_error *err) {
    (void)o;
    return add_regex(to, "\\w+|[^\\w\\s]+", true, SYN__REMOVED, err);
}

static syn_status add_meta(syn__steps *to, syn__step_kind kind, object *o, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, kind, &step, err));
    step->split = on(o, SAYS_SPLIT, true);
    give_text(o, step);
    return SYN_OK;
}

static syn_status add_meta_cut(object *o, syn__steps *to, syn_error *err) {
    return add_meta(to, SYN__CUT_META, o, err);
}

static syn_status add_meta_decoder(object *o, syn__steps *to, syn_error *err) {
    return add_meta(to, SYN__DECODE_META, o, err);
}

static syn_status add_wordpiece(object *o, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__DECODE_WORDPIECE, &step, err));
    step->cleanup = on(o, SAYS_CLEANUP, true);
    give_text(o, step);
    return SYN_OK;
}

static syn_status add_strip(object *o, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__NORM_STRIP, &step, err));
    step->left = on(o, SAYS_LEFT, true);
    step->right = on(o, SAYS_RIGHT, true);
    return SYN_OK;
}

static syn_status add_strip_decoder(object *o, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__DECODE_STRIP, &step, err));
    step->start = (size_t)o->start;
    step->stop = (size_t)o->stop;
    give_text(o, step);
    return SYN_OK;
}

static syn_status add_prepend(object *o, syn__steps *to, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add(to, SYN__NORM_PREPEND, &step, err));
    give_text(o, step);
    return SYN_OK;
}

/* ---- types ---- */

typedef syn_status add_steps(object *o, syn__steps *to, syn_error *err);

/* The keys that an object of a type must and may have, and the function that converts the object to
   steps. Without a function, the object becomes one step of the given kind, which has only behavior
   and scheme. */
typedef struct step_type {
    const char *name;
    uint32_t must, may;
    add_steps *add;
    syn__step_kind kind;
} step_type;

static const step_type normalizer_types[] = {
    {"Sequence", SAYS_LIST, 0, add_sequence, 0},
    {"BertNormalizer", 0, SAYS_CLEAN | SAYS_IDEOGRAPHS | SAYS_ACCENTS | SAYS_LOWER, add_bert, 0},
    {"Lowercase", 0, 0, NULL, SYN__NORM_LOWERCASE},
    {"Strip", SAYS_LEFT | SAYS_RIGHT, 0, add_strip, 0},
    {"StripAccents", 0, 0, NULL, SYN__NORM_STRIP_ACCENTS},
    {"Prepend", SAYS_PREPEND, 0, add_prepend, 0},
    {"Replace", SAYS_PATTERN | SAYS_CONTENT, 0, add_replace, 0},
    {"NFC", 0, 0, NULL, SYN__NORM_NFC},
    {"NFD", 0, 0, NULL, SYN__NORM_NFD},
    {"NFKC", 0, 0, NULL, SYN__NORM_NFKC},
    {"NFKD", 0, 0, NULL, SYN__NORM_NFKD},
    {NULL, 0, 0, NULL, 0}};

static const step_type cut_types[] = {
    {"Sequence", SAYS_LIST, 0, add_sequence, 0},
    {"ByteLevel", SAYS_PREFIX_SPACE, SAYS_TRIM | SAYS_REGEX, add_byte_level, 0},
    {"Split", SAYS_PATTERN | SAYS_BEHAVIOR, SAYS_INVERT, add_split, 0},
    {"Digits", SAYS_DIGITS, 0, add_digits, 0},
    {"Metaspace", SAYS_REPLACEMENT, SAYS_SCHEME | SAYS_SPLIT | SAYS_PREFIX_SPACE | SAYS_STR_REP,
     add_meta_cut, 0},
    {"BertPreTokenizer", 0, 0, NULL, SYN__CUT_BERT},
    {"Whitespace", 0, 0, add_whitespace, 0},
    {"WhitespaceSplit", 0, 0, NULL, SYN__CUT_SPACE},
    {"Punctuation", 0, SAYS_BEHAVIOR, NULL, SYN__CUT_PUNCTUATION},
    {NULL, 0, 0, NULL, 0}};

static const step_type decoder_types[] = {
    {"Sequence", SAYS_LIST, 0, add_sequence, 0},
    {"ByteLevel", 0, SAYS_PREFIX_SPACE | SAYS_TRIM | SAYS_REGEX, NULL, SYN__DECODE_BYTES},
    {"WordPiece", SAYS_PREFIX, SAYS_CLEANUP, add_wordpiece, 0},
    {"Metaspace", SAYS_REPLACEMENT, SAYS_SCHEME | SAYS_SPLIT | SAYS_PREFIX_SPACE | SAYS_STR_REP,
     add_meta_decoder, 0},
    {"ByteFallback", 0, 0, NULL, SYN__DECODE_FALLBACK},
    {"Fuse", 0, 0, NULL, SYN__DECODE_FUSE},
    {"Strip", SAYS_CONTENT | SAYS_START | SAYS_STOP, 0, add_strip_decoder, 0},
    {"Replace", SAYS_PATTERN | SAYS_CONTENT, 0, add_replace_decoder, 0},
    {NULL, 0, 0, NULL, 0}};

static const struct {
    const char *what; /* name for errors */
    const step_type *types;
} groups[] = {
    {"normalizer", normalizer_types}, {"pre_tokenizer", cut_types}, {"decoder", decoder_types}};

static const char *key_of(uint32_t bits) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].bit & bits) return keys[i].key;
    return "";
}

static syn_status name_index(syn_json *json, const char *what, const char *name,
                             const char *const *names, size_t n, int *index) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) {
            *index = (int)i;
            return SYN_OK;
        }
    return syn_json_fail(json, "the %s \"%s\" is not supported", what, name);
}

/* Sets the behavior and the scheme of the step that was added last. */
static syn_status set_names(const object *o, syn_json *json, syn__steps *to) {
    static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    static const char *const schemes[] = {"always", "first", "never"};
    int index = SYN__ISOLATED;
    syn__step *step = &to->at[to->n - 1];
    if (step->kind == SYN__CUT_PUNCTUATION) step->behavior = SYN__ISOLATED;
    if (o->given & SAYS_BEHAVIOR) {
        SYN_TRY(name_index(json, "behavior", o->behavior, behaviors, 5, &index));
        step->behavior = (syn__behavior)index;
    }
    if (o->given & SAYS_SCHEME) {
        SYN_TRY(name_index(json, "prepend_scheme", o->scheme, schemes, 3, &index));
        step->scheme = (syn__scheme)index;
    }
    const bool is_meta = step->kind == SYN__CUT_META || step->kind == SYN__DECODE_META;
    if (!is_meta || on(o, SAYS_PREFIX_SPACE, true)) return SYN_OK;
    if (o->given & SAYS_SCHEME && step->scheme != SYN__NEVER)
        return syn_json_fail(json, "add_prefix_space contradicts prepend_scheme");
    step->scheme = SYN__NEVER;
    return SYN_OK;
}

static syn_status check_texts(const object *o, const syn__step *step, syn_json *json) {
    if (step->pattern && step->pattern_bytes == 0)
        return syn_json_fail(json, "an empty pattern is not supported");
    const bool one_char = step->kind == SYN__CUT_META || step->kind == SYN__DECODE_META ||
                          step->kind == SYN__DECODE_STRIP;
    size_t at = 0;
    if (one_char && step->text_bytes > 0) (void)syn__char_read(step->text, &at);
    if (one_char && (at == 0 || at != step->text_bytes))
        return syn_json_fail(json, "%s must be one character",
                             o->given & SAYS_CONTENT ? "content" : "replacement");
    return SYN_OK;
}

static syn_status add_object(object *o, syn__step_group group, syn_json *json, syn__steps *to,
                             syn_error *err) {
    const step_type *t = groups[group].types;
    while (t->name && strcmp(t->name, o->type) != 0) t++;
    if (!o->type[0]) return syn_json_fail(json, "a %s has no type", groups[group].what);
    if (!t->name)
        return syn_json_fail(json, "the %s \"%s\" is not supported", groups[group].what, o->type);
    if (t->must & ~o->given)
        return syn_json_fail(json, "the %s \"%s\" has no %s", groups[group].what, t->name,
                             key_of(t->must & ~o->given));
    if (o->given & ~(t->must | t->may))
        return syn_json_fail(json, "%s is not supported for the %s \"%s\"",
                             key_of(o->given & ~(t->must | t->may)), groups[group].what, t->name);
    const size_t before = to->n;
    syn__step *step;
    if (t->add) SYN_TRY(t->add(o, to, err));
    else SYN_TRY(syn__steps_add(to, t->kind, &step, err));
    if (to->n == before || t->add == add_sequence || t->add == add_digits ||
        t->add == add_whitespace)
        return SYN_OK;
    SYN_TRY(set_names(o, json, to));
    return check_texts(o, &to->at[to->n - 1], json);
}

/* ---- reading ---- */

static syn_status take_string(syn_json *json, char **text, size_t *bytes, const char *what,
                              syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, what));
    syn_free(*text);
    *text = syn_strndup(json->text, json->text_bytes);
    *bytes = json->text_bytes;
    return *text ? SYN_OK : SYN_FAIL_NOMEM(err, *bytes, "a tokenizer");
}

/* Reads {"String": " "} or {"Regex": "..."}. */
static syn_status read_pattern(object *o, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "pattern"));
    SYN_TRY(syn_json_expect(json, SYN_JSON_KEY, "a pattern"));
    o->is_regex = strcmp(json->text, "Regex") == 0;
    if (!o->is_regex && strcmp(json->text, "String") != 0)
        return syn_json_fail(json, "the pattern \"%.40s\" is not supported", json->text);
    SYN_TRY(take_string(json, &o->pattern, &o->pattern_bytes, "a pattern", err));
    return syn_json_expect(json, SYN_JSON_OBJECT_END, "a pattern of one kind");
}

static syn_status read_flag(object *o, syn_json *json, size_t k) {
    const syn_json_type type = syn_json_next(json);
    if (type == SYN_JSON_NULL && keys[k].value == FLAG_OR_NULL) {
        o->given &= ~keys[k].bit;
        return SYN_OK;
    }
    if (type != SYN_JSON_BOOL) return syn_json_fail(json, "%s must be true or false", keys[k].key);
    o->on = json->boolean ? o->on | keys[k].bit : o->on & ~keys[k].bit;
    return SYN_OK;
}

static syn_status read_list(syn__step_group group, syn_json *json, syn__steps *to, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "the steps of a Sequence"));
    while (syn_json_next(json) == SYN_JSON_OBJECT_BEGIN)
        SYN_TRY(syn__steps_take(group, json, to, err));
    return syn__tok_list_end(json, "steps of a Sequence", err);
}

static syn_status read_value(object *o, syn__step_group group, syn_json *json, size_t k,
                             syn_error *err) {
    char *unused = NULL;
    size_t unused_bytes;
    syn_status status;
    o->given |= keys[k].bit;
    switch (keys[k].value) {
    case FLAG:
    case FLAG_OR_NULL:
        return read_flag(o, json, k);
    case STRING:
        if (keys[k].bit != SAYS_STR_REP)
            return take_string(json, &o->text, &o->text_bytes, keys[k].key, err);
        status = take_string(json, &unused, &unused_bytes, keys[k].key, err);
        syn_free(unused);
        return status;
    case PATTERN:
        return read_pattern(o, json, err);
    case NAME:
        return syn__tok_text(json, keys[k].bit == SAYS_SCHEME ? o->scheme : o->behavior,
                             keys[k].key, err);
    case COUNT:
        return syn_json_expect_i64(json, keys[k].key, 0, INT32_MAX,
                                   keys[k].bit == SAYS_START ? &o->start : &o->stop);
    default:
        return read_list(group, json, &o->inner, err);
    }
}

static syn_status read_object(object *o, syn__step_group group, syn_json *json, syn_error *err) {
    while (syn_json_next(json) == SYN_JSON_KEY) {
        size_t k = 0;
        if (strcmp(json->text, "type") == 0) {
            SYN_TRY(syn__tok_text(json, o->type, "type", err));
            continue;
        }
        while (k < sizeof keys / sizeof *keys && strcmp(keys[k].key, json->text) != 0) k++;
        if (k == sizeof keys / sizeof *keys && o->type[0] == '\0')
            return syn_json_fail(json, "the key \"%.40s\" of a %s is not supported", json->text,
                                 groups[group].what);
        if (k == sizeof keys / sizeof *keys)
            return syn_json_fail(json, "the %s \"%s\" with \"%.40s\" is not supported",
                                 groups[group].what, o->type, json->text);
        SYN_TRY(read_value(o, group, json, k, err));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

syn_status syn__steps_take(syn__step_group group, syn_json *json, syn__steps *to, syn_error *err) {
    object o = {.type = "", .file = json->name};
    syn_status status = read_object(&o, group, json, err);
    if (status == SYN_OK) status = add_object(&o, group, json, to, err);
    object_free(&o);
    return status;
}
