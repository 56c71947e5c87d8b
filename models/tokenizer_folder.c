/* Finds out which tokenizer a folder holds, and opens it. */
#include "models/tokenizer_private.h"

#include "syntorch/intern.h"
#include "syntorch/memory.h"

#include <string.h>

/* What tokenizer_config.json and config.json say. */
typedef struct settings {
    char class[SYN__TOK_NAME_BYTES]; /* tokenizer_class, "" if none is named; long names are cut */
    char model_type[SYN__TOK_NAME_BYTES];
    bool for_wordpiece; /* read all that WordPiece must know */
    bool has_decoder;   /* then older files do not count */
    bool strips_as_lower;
    syn__wordpiece_rules rules;
} settings;

/* Every token that a file adds would be recognized in a text: only BERT's own are. */
static syn_status check_own(syn_json *json, const char *text) {
    bool known = text[0] == '\0';
    for (size_t i = 0; i < SYN__WORDPIECE_SPECIALS; i++)
        known |= strcmp(text, syn__wordpiece_special(i)) == 0;
    return known ? SYN_OK : syn_json_fail(json, "the added token \"%.47s\" is not supported", text);
}

/* {"103": {"content": "[MASK]", ...}, ...} */
static syn_status read_decoder(settings *s, syn_json *json, syn_error *err) {
    char text[SYN__TOK_NAME_BYTES];
    s->has_decoder = true;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "added_tokens_decoder"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        SYN_TRY(syn__tok_text(json, text, "an added token", err));
        SYN_TRY(check_own(json, text));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* additional_special_tokens and the like: a list, or names with tokens. */
static syn_status read_list(syn_json *json, syn_error *err) {
    char text[SYN__TOK_NAME_BYTES];
    const syn_json_type begin = syn_json_next(json);
    const bool is_list = begin == SYN_JSON_ARRAY_BEGIN;
    const syn_json_type end = is_list ? SYN_JSON_ARRAY_END : SYN_JSON_OBJECT_END;
    if (begin == SYN_JSON_NULL) return SYN_OK;
    if (begin == SYN_JSON_ERROR) return syn__tok_status(json, SYN_JSON_END, err);
    if (!is_list && begin != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "special tokens must be a list");
    while (syn_json_next(json) != end) {
        if (json->type == SYN_JSON_KEY) (void)syn_json_next(json);
        SYN_TRY(syn__tok_take_text(json, text, "a special token", err));
        SYN_TRY(check_own(json, text));
    }
    return SYN_OK;
}

/* Another key that ends in "_token": with a string it is one more. */
static syn_status read_named(syn_json *json, syn_error *err) {
    char text[SYN__TOK_NAME_BYTES];
    if (syn_json_next(json) != SYN_JSON_STRING)
        return syn_json_skip(json) ? SYN_OK : syn__tok_status(json, SYN_JSON_END, err);
    SYN_TRY(syn__tok_take_text(json, text, "a token", err));
    return check_own(json, text);
}

static bool ends_in_token(const char *key) {
    const size_t n = strlen(key);
    return n >= 6 && strcmp(key + n - 6, "_token") == 0;
}

/* added_tokens.json: {"[MASK]": 103, ...} */
static syn_status read_added(void *user, syn_json *json, syn_error *err) {
    (void)user;
    SYN_TRY(check_own(json, json->text));
    return syn__tok_skip(json, err);
}

/* The value of a key that says what WordPiece does; *found tells whether it was one. */
static syn_status read_wordpiece(settings *s, syn_json *json, bool *found, syn_error *err) {
    static const char *const keys[SYN__WORDPIECE_SPECIALS] = {"unk_token", "sep_token", "pad_token",
                                                              "cls_token", "mask_token"};
    const char *key = json->text;
    char text[SYN__TOK_NAME_BYTES];
    *found = true;
    if (strcmp(key, "do_lower_case") == 0)
        return syn__tok_bool(json, &s->rules.lower_case, "do_lower_case");
    if (strcmp(key, "tokenize_chinese_chars") == 0)
        return syn__tok_bool(json, &s->rules.split_ideographs, "tokenize_chinese_chars");
    if (strcmp(key, "added_tokens_decoder") == 0) return read_decoder(s, json, err);
    if (strcmp(key, "additional_special_tokens") == 0 || strcmp(key, "extra_special_tokens") == 0)
        return read_list(json, err);
    if (strcmp(key, "strip_accents") == 0) {
        const syn_json_type type = syn_json_next(json);
        s->strips_as_lower = type == SYN_JSON_NULL;
        s->rules.strip_accents = json->boolean;
        if (type == SYN_JSON_NULL || type == SYN_JSON_BOOL) return SYN_OK;
        return syn_json_fail(json, "strip_accents must be true, false or null");
    }
    for (size_t i = 0; i < SYN__WORDPIECE_SPECIALS; i++) {
        if (strcmp(key, keys[i]) != 0) continue;
        SYN_TRY(syn__tok_text(json, text, keys[i], err));
        if (text[0] == '\0' || strcmp(text, syn__wordpiece_special(i)) == 0) return SYN_OK;
        return syn_json_fail(json, "%s is \"%s\"; only \"%s\" is supported", keys[i], text,
                             syn__wordpiece_special(i));
    }
    *found = ends_in_token(key);
    return *found ? read_named(json, err) : SYN_OK;
}

static syn_status read_key(void *user, syn_json *json, syn_error *err) {
    settings *s = user;
    bool found = false;
    if (strcmp(json->text, "tokenizer_class") == 0)
        return syn__tok_text(json, s->class, "tokenizer_class", err);
    if (strcmp(json->text, "model_type") == 0)
        return syn__tok_text(json, s->model_type, "model_type", err);
    if (s->for_wordpiece) SYN_TRY(read_wordpiece(s, json, &found, err));
    return found ? SYN_OK : syn__tok_skip(json, err);
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

bool syn__tok_kind_of_class(const char *class_name, syn_tokenizer_kind *kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].class);
        if (strncmp(class_name, kinds[i].class, n) != 0) continue;
        if (class_name[n] != '\0' && (n == 0 || strcmp(class_name + n, "Fast") != 0)) continue;
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
    SYN_TRY(syn__tok_read(folder, "tokenizer_config.json", read_key, &s, err));
    if (!syn__tok_kind_of_class(s.class, kind))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s/tokenizer_config.json: the tokenizer_class \"%s\" is not supported; "
                        "GPT2Tokenizer and BertTokenizer are",
                        folder, s.class);
    if (*kind != SYN_TOKENIZER_BYTES) return SYN_OK;
    *kind = SYN_TOKENIZER_WORDPIECE;
    if (!has_bpe) return SYN_OK;
    s.model_type[0] = '\0';
    SYN_TRY(syn__tok_read(folder, "config.json", read_key, &s, err));
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

static syn_status open_wordpiece(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *path, *data;
    size_t bytes;
    settings s = {.for_wordpiece = true, .strips_as_lower = true, .rules = {true, true, true}};
    SYN_TRY(syn__char_ready(err));
    SYN_TRY(syn__tok_read(folder, "tokenizer_config.json", read_key, &s, err));
    if (!s.has_decoder) {
        SYN_TRY(syn__tok_read(folder, "special_tokens_map.json", read_key, &s, err));
        SYN_TRY(syn__tok_read(folder, "added_tokens.json", read_added, NULL, err));
    }
    if (s.strips_as_lower) s.rules.strip_accents = s.rules.lower_case;
    syn_status status = syn__tok_read_file(folder, "vocab.txt", SYN__WORDPIECE_MAX_FILE_BYTES,
                                           &path, &data, &bytes, err);
    if (status == SYN_OK)
        status = syn__wordpiece_read(&tok->wordpiece, s.rules, path, data, bytes, err);
    syn_free(data);
    syn_free(path);
    return status;
}

static syn_status open_any(syn_tokenizer *tok, const char *folder, syn_error *err) {
    static const char *const names[3] = {"vocab.txt", "vocab.json", "merges.txt"};
    bool has[3];
    for (int i = 0; i < 3; i++) SYN_TRY(syn__tok_exists(&has[i], folder, names[i], err));
    if (!has[0] && !has[1] && !has[2])
        return SYN_FAIL(err, SYN_E_IO,
                        "there is neither a file %s/vocab.json (for GPT-2, with merges.txt) nor a "
                        "vocab.txt (for BERT) there",
                        folder);
    tok->kind = SYN_TOKENIZER_BPE;
    if (has[0]) SYN_TRY(choose(&tok->kind, folder, has[1] && has[2], err));
    return tok->kind == SYN_TOKENIZER_BPE ? syn__tok_open_bpe(tok, folder, err)
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

syn_status syn_tokenizer_checksum(const char *folder, uint64_t *out, syn_error *err) {
    static const char *const names[] = {
        "vocab.txt",   "vocab.json",        "merges.txt",     "tokenizer_config.json",
        "config.json", "added_tokens.json", "tokenizer.json", "special_tokens_map.json"};
    *out = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL, *data = NULL;
        size_t bytes = 0;
        bool there;
        SYN_TRY(syn__tok_exists(&there, folder, names[i], err));
        if (!there) continue;
        const syn_status s =
            syn__tok_read_file(folder, names[i], SIZE_MAX - 1, &path, &data, &bytes, err);
        if (s == SYN_OK) *out = syn_hash(data, bytes, *out ^ (i + 1));
        syn_free(data);
        syn_free(path);
        SYN_TRY(s);
    }
    return SYN_OK;
}
