/* Finds out which tokenizer a folder holds, and opens it. */
#include "models/tokenizer_private.h"

#include "syntorch/json.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"

#include <string.h>
#include <unistd.h>

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define NAME_BYTES       48

static syn_status join_path(char **out, const char *folder, const char *file, syn_error *err) {
    const size_t a = strlen(folder), b = strlen(file);
    *out = syn_malloc(a + b + 2);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, a + b + 2, "a file name");
    memcpy(*out, folder, a);
    (*out)[a] = '/';
    memcpy(*out + a + 1, file, b + 1);
    return SYN_OK;
}

static syn_status file_exists(bool *out, const char *folder, const char *file, syn_error *err) {
    char *path;
    SYN_TRY(join_path(&path, folder, file, err));
    *out = access(path, F_OK) == 0;
    syn_free(path);
    return SYN_OK;
}

/* A file of the folder; the path begins error sentences. Both are the caller's to free, also after
   a failure. */
static syn_status read_file(const char *folder, const char *file, size_t max_bytes, char **path,
                            char **data, size_t *bytes, syn_error *err) {
    *data = NULL;
    SYN_TRY(join_path(path, folder, file, err));
    return syn_read_file(*path, max_bytes, data, bytes, err);
}

/* What tokenizer_config.json and config.json say. */
typedef struct settings {
    char class[NAME_BYTES]; /* tokenizer_class, "" if none is named; long names are cut */
    char model_type[NAME_BYTES];
    bool for_wordpiece; /* read all that WordPiece must know */
    bool strips_as_lower;
    syn__wordpiece_rules rules;
} settings;

static syn_status reader_status(const syn_json *json, syn_json_type end, const syn_error *err) {
    if (json->type == end) return SYN_OK;
    return err->code != SYN_OK ? err->code : SYN_E_FORMAT;
}

static syn_status skip_value(syn_json *json, const syn_error *err) {
    return syn_json_skip(json) ? SYN_OK : reader_status(json, SYN_JSON_END, err);
}

static void copy_text(const syn_json *json, char out[NAME_BYTES]) {
    const size_t n = json->text_bytes < NAME_BYTES - 1 ? json->text_bytes : NAME_BYTES - 1;
    memcpy(out, json->text, n);
    out[n] = '\0';
}

/* A string, null (gives ""), or an object with the string as "content". */
static syn_status read_text(syn_json *json, char out[NAME_BYTES], const char *what,
                            syn_error *err) {
    const syn_json_type type = syn_json_next(json);
    out[0] = '\0';
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type == SYN_JSON_STRING) {
        copy_text(json, out);
        return SYN_OK;
    }
    if (type == SYN_JSON_ERROR) return reader_status(json, SYN_JSON_END, err);
    if (type != SYN_JSON_OBJECT_BEGIN) return syn_json_fail(json, "%s must be a string", what);
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "content") != 0) {
            SYN_TRY(skip_value(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, what));
        copy_text(json, out);
    }
    return reader_status(json, SYN_JSON_OBJECT_END, err);
}

static syn_status read_bool(syn_json *json, bool *out, const char *what) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_BOOL, what));
    *out = json->boolean;
    return SYN_OK;
}

/* Every token listed there would be recognized in a text: only BERT's own are. */
static syn_status read_added_tokens(syn_json *json, syn_error *err) {
    char text[NAME_BYTES];
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "added_tokens_decoder"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        bool known = false;
        SYN_TRY(read_text(json, text, "an added token", err));
        for (size_t i = 0; i < SYN__WORDPIECE_SPECIALS; i++)
            known |= strcmp(text, syn__wordpiece_special(i)) == 0;
        if (!known) return syn_json_fail(json, "the added token \"%s\" is not supported", text);
    }
    return reader_status(json, SYN_JSON_OBJECT_END, err);
}

/* The value of a key that says what WordPiece does; *found tells whether it was one. */
static syn_status read_wordpiece(settings *s, syn_json *json, bool *found, syn_error *err) {
    static const char *const keys[SYN__WORDPIECE_SPECIALS] = {"unk_token", "sep_token", "pad_token",
                                                              "cls_token", "mask_token"};
    const char *key = json->text;
    char text[NAME_BYTES];
    *found = true;
    if (strcmp(key, "do_lower_case") == 0)
        return read_bool(json, &s->rules.lower_case, "do_lower_case");
    if (strcmp(key, "tokenize_chinese_chars") == 0)
        return read_bool(json, &s->rules.split_ideographs, "tokenize_chinese_chars");
    if (strcmp(key, "added_tokens_decoder") == 0) return read_added_tokens(json, err);
    if (strcmp(key, "strip_accents") == 0) {
        const syn_json_type type = syn_json_next(json);
        s->strips_as_lower = type == SYN_JSON_NULL;
        s->rules.strip_accents = json->boolean;
        if (type == SYN_JSON_NULL || type == SYN_JSON_BOOL) return SYN_OK;
        return syn_json_fail(json, "strip_accents must be true, false or null");
    }
    for (size_t i = 0; i < SYN__WORDPIECE_SPECIALS; i++) {
        if (strcmp(key, keys[i]) != 0) continue;
        SYN_TRY(read_text(json, text, keys[i], err));
        if (text[0] == '\0' || strcmp(text, syn__wordpiece_special(i)) == 0) return SYN_OK;
        return syn_json_fail(json, "%s is \"%s\"; only \"%s\" is supported", keys[i], text,
                             syn__wordpiece_special(i));
    }
    *found = false;
    return SYN_OK;
}

static syn_status read_keys(settings *s, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the configuration"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        bool found = false;
        if (strcmp(json->text, "tokenizer_class") == 0)
            SYN_TRY(read_text(json, s->class, "tokenizer_class", err));
        else if (strcmp(json->text, "model_type") == 0)
            SYN_TRY(read_text(json, s->model_type, "model_type", err));
        else {
            if (s->for_wordpiece) SYN_TRY(read_wordpiece(s, json, &found, err));
            if (!found) SYN_TRY(skip_value(json, err));
        }
    }
    SYN_TRY(reader_status(json, SYN_JSON_OBJECT_END, err));
    (void)syn_json_next(json);
    return reader_status(json, SYN_JSON_END, err);
}

/* Reads a file of settings if the folder has it. */
static syn_status read_settings(settings *s, const char *folder, const char *file, syn_error *err) {
    char *path, *data;
    size_t bytes;
    bool there;
    SYN_TRY(file_exists(&there, folder, file, err));
    if (!there) return SYN_OK;
    syn_error first = {.code = SYN_OK}; /* the JSON reader reports only there */
    syn_status status = read_file(folder, file, MAX_CONFIG_BYTES, &path, &data, &bytes, &first);
    if (status == SYN_OK) {
        syn_json json;
        syn_json_init(&json, path, data, bytes, &first);
        status = read_keys(s, &json, &first);
        syn_json_free(&json);
    }
    syn_free(data);
    syn_free(path);
    if (status != SYN_OK && err != NULL && err->code == SYN_OK) *err = first;
    return status;
}

/* Names of classes and model types whose tokenizers are BERT's or GPT-2's. Those that say nothing
   count as SYN_TOKENIZER_BYTES. */
static const struct {
    const char *class, *model_type;
    syn_tokenizer_kind kind;
} kinds[] = {
    {"BertTokenizer", "bert", SYN_TOKENIZER_WORDPIECE},
    {"DistilBertTokenizer", "distilbert", SYN_TOKENIZER_WORDPIECE},
    {"ElectraTokenizer", "electra", SYN_TOKENIZER_WORDPIECE},
    {"MobileBertTokenizer", "mobilebert", SYN_TOKENIZER_WORDPIECE},
    {"GPT2Tokenizer", "gpt2", SYN_TOKENIZER_BPE},
    {"PreTrainedTokenizer", "", SYN_TOKENIZER_BYTES},
    {"TokenizersBackend", "", SYN_TOKENIZER_BYTES},
    {"", "", SYN_TOKENIZER_BYTES},
};

/* False if the class is one that this program does not know. */
static bool kind_of_class(const char *class, syn_tokenizer_kind *kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].class);
        if (strncmp(class, kinds[i].class, n) != 0) continue;
        if (class[n] != '\0' && (n == 0 || strcmp(class + n, "Fast") != 0)) continue;
        *kind = kinds[i].kind;
        return true;
    }
    return false;
}

/* The kind of a folder with a vocab.txt: what tokenizer_config.json says, then what is there, then
   what config.json says. */
static syn_status choose(syn_tokenizer_kind *kind, const char *folder, bool has_bpe,
                         syn_error *err) {
    settings s = {.for_wordpiece = false};
    SYN_TRY(read_settings(&s, folder, "tokenizer_config.json", err));
    if (!kind_of_class(s.class, kind))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s/tokenizer_config.json: the tokenizer_class \"%s\" is not supported; "
                        "GPT2Tokenizer and BertTokenizer are",
                        folder, s.class);
    if (*kind != SYN_TOKENIZER_BYTES) return SYN_OK;
    *kind = SYN_TOKENIZER_WORDPIECE;
    if (!has_bpe) return SYN_OK;
    s.model_type[0] = '\0';
    SYN_TRY(read_settings(&s, folder, "config.json", err));
    for (size_t i = 0; s.model_type[0] != '\0' && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].model_type, s.model_type) != 0) continue;
        *kind = kinds[i].kind;
        return SYN_OK;
    }
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%s holds two tokenizers, vocab.json with merges.txt (GPT-2) and vocab.txt "
                    "(BERT), and neither the tokenizer_class in a tokenizer_config.json nor the "
                    "model_type in a config.json says which one is meant",
                    folder);
}

static syn_status open_bpe(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *path[2] = {NULL, NULL}, *data[2] = {NULL, NULL};
    size_t bytes[2];
    syn_status status = syn__bpe_pattern_new(&tok->pattern, err);
    for (int i = 0; i < 2 && status == SYN_OK; i++)
        status = read_file(folder, i == 0 ? "vocab.json" : "merges.txt", SYN__BPE_MAX_FILE_BYTES,
                           &path[i], &data[i], &bytes[i], err);
    if (status == SYN_OK)
        status =
            syn__bpe_read(&tok->bpe, path[0], data[0], bytes[0], path[1], data[1], bytes[1], err);
    for (int i = 0; i < 2; i++) {
        syn_free(data[i]);
        syn_free(path[i]);
    }
    return status;
}

static syn_status open_wordpiece(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *path, *data;
    size_t bytes;
    settings s = {.for_wordpiece = true, .strips_as_lower = true, .rules = {true, true, true}};
    SYN_TRY(syn__char_ready(err));
    SYN_TRY(read_settings(&s, folder, "tokenizer_config.json", err));
    if (s.strips_as_lower) s.rules.strip_accents = s.rules.lower_case;
    syn_status status =
        read_file(folder, "vocab.txt", SYN__WORDPIECE_MAX_FILE_BYTES, &path, &data, &bytes, err);
    if (status == SYN_OK)
        status = syn__wordpiece_read(&tok->wordpiece, s.rules, path, data, bytes, err);
    syn_free(data);
    syn_free(path);
    return status;
}

static syn_status open_any(syn_tokenizer *tok, const char *folder, syn_error *err) {
    static const char *const names[3] = {"vocab.txt", "vocab.json", "merges.txt"};
    bool has[3];
    for (int i = 0; i < 3; i++) SYN_TRY(file_exists(&has[i], folder, names[i], err));
    if (!has[0] && !has[1] && !has[2])
        return SYN_FAIL(err, SYN_E_IO,
                        "there is neither a file %s/vocab.json (for GPT-2, with merges.txt) nor a "
                        "vocab.txt (for BERT) there",
                        folder);
    tok->kind = SYN_TOKENIZER_BPE;
    if (has[0]) SYN_TRY(choose(&tok->kind, folder, has[1] && has[2], err));
    return tok->kind == SYN_TOKENIZER_BPE ? open_bpe(tok, folder, err)
                                          : open_wordpiece(tok, folder, err);
}

syn_status syn_tokenizer_load(syn_tokenizer **out, const char *folder, syn_error *err) {
    *out = NULL;
    syn_tokenizer *tok = NULL;
    syn_status status = syn_tokenizer_open_bytes(&tok, err);
    if (status == SYN_OK) status = open_any(tok, folder, err);
    if (status == SYN_OK) *out = tok;
    else syn_tokenizer_free(tok);
    return status;
}
