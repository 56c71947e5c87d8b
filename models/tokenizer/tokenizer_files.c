/* Reads the configuration files of a GPT-2 tokenizer, in the order and with the precedence of
   transformers. tokenizer_bpe.c makes added tokens of them. */
#include "models/tokenizer/tokenizer_files_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

static const char *const named_keys[SYN__NAMED_TOKENS] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

void syn__file_tokens_free(syn__file_tokens *list) {
    for (size_t i = 0; i < list->n; i++) syn_free(list->at[i].text);
    syn_free(list->at);
    *list = (syn__file_tokens){0};
}

void syn__tokenizer_files_free(syn__tokenizer_files *f) {
    for (int i = 0; i < SYN__NAMED_TOKENS; i++) syn_free(f->named[i].text);
    syn__file_tokens_free(&f->config_more);
    syn__file_tokens_free(&f->map_more);
    syn__file_tokens_free(&f->extra);
    syn__file_tokens_free(&f->additional);
    syn__file_tokens_free(&f->decoder);
}

/* ---- one token ---- */

syn_status syn__file_token_set(syn__file_token *t, const char *text, size_t bytes, syn_error *err) {
    syn_free(t->text);
    t->bytes = bytes;
    t->text = syn_strndup(text, bytes);
    return t->text ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "a token");
}

/* Reads a member of a token's object. */
static syn_status read_member(syn_json *json, syn__file_token *t, syn_error *err) {
    struct {
        const char *key;
        bool *value;
    } flags[] = {{"single_word", &t->single_word},
                 {"lstrip", &t->lstrip},
                 {"rstrip", &t->rstrip},
                 {"normalized", &t->normalized},
                 {"special", &t->special}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(json->text, flags[i].key) == 0) {
            t->normalized_given |= flags[i].value == &t->normalized;
            return syn__tok_bool(json, flags[i].value, flags[i].key);
        }
    if (strcmp(json->text, "id") == 0)
        return syn_json_expect_i64(json, "the id of a token", 0, INT32_MAX - 1, &t->id);
    if (strcmp(json->text, "content") != 0) return syn__tok_skip(json, err);
    SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, "content"));
    return syn__file_token_set(t, json->text, json->text_bytes, err);
}

/* Reads the token whose first JSON token was just read. */
static syn_status take_token(syn_json *json, syn__file_token *t, const char *what, bool special,
                             syn_error *err) {
    syn_free(t->text);
    *t = (syn__file_token){.id = -1, .special = special};
    if (json->type == SYN_JSON_NULL) return SYN_OK;
    if (json->type == SYN_JSON_STRING) {
        t->special = true;
        return syn__file_token_set(t, json->text, json->text_bytes, err);
    }
    if (json->type == SYN_JSON_ERROR) return syn__tok_status(json, SYN_JSON_END, err);
    if (json->type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "%s must be a string, an object or null", what);
    t->is_object = true;
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_member(json, t, err));
    SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    t->special |= special;
    return t->text ? SYN_OK : syn_json_fail(json, "%s has no \"content\"", what);
}

static syn_status read_token(syn_json *json, syn__file_token *t, const char *what, bool special,
                             syn_error *err) {
    (void)syn_json_next(json);
    return take_token(json, t, what, special, err);
}

syn_status syn__file_tokens_append(syn__file_tokens *list, syn__file_token **t, syn_error *err) {
    SYN_TRY(syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err));
    *t = &list->at[list->n++];
    **t = (syn__file_token){.id = -1};
    return SYN_OK;
}

/* ---- lists of tokens ---- */

/* Reads an array of tokens into `list`, or an object from names to tokens into `named`. */
syn_status syn__file_tokens_read(syn_json *json, syn__file_tokens *list, syn__file_tokens *named,
                                 const char *what, bool special, syn_error *err) {
    syn__file_token *t;
    const syn_json_type begin = syn_json_next(json);
    if (begin == SYN_JSON_NULL) return SYN_OK;
    if (begin != SYN_JSON_ARRAY_BEGIN && (begin != SYN_JSON_OBJECT_BEGIN || !named))
        return begin == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                       : syn_json_fail(json, "%s must be a list of tokens", what);
    const bool is_list = begin == SYN_JSON_ARRAY_BEGIN;
    const syn_json_type end = is_list ? SYN_JSON_ARRAY_END : SYN_JSON_OBJECT_END;
    while (syn_json_next(json) != end) {
        if (json->type == SYN_JSON_ERROR) return syn__tok_status(json, end, err);
        SYN_TRY(syn__file_tokens_append(is_list ? list : named, &t, err));
        if (!is_list) (void)syn_json_next(json);
        SYN_TRY(take_token(json, t, what, special, err));
    }
    return SYN_OK;
}

/* Reads {"50257": {"content": "<pad>", ...}, ...}. */
static syn_status read_decoder(syn__tokenizer_files *f, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "added_tokens_decoder"));
    f->has_decoder = true;
    while (syn_json_next(json) == SYN_JSON_KEY) {
        syn__file_token *t;
        int64_t id = 0;
        for (const char *p = json->text; *p; p++) {
            if (*p < '0' || *p > '9' || id > INT32_MAX / 10 - 1)
                return syn_json_fail(json, "\"%.20s\" is not the id of an added token", json->text);
            id = 10 * id + (*p - '0');
        }
        SYN_TRY(syn__file_tokens_append(&f->decoder, &t, err));
        if (syn_json_next(json) != SYN_JSON_OBJECT_BEGIN)
            return json->type == SYN_JSON_ERROR
                       ? syn__tok_status(json, SYN_JSON_END, err)
                       : syn_json_fail(json, "an added token must be an object with \"content\"");
        SYN_TRY(take_token(json, t, "an added token", false, err));
        t->id = id;
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* ---- tokenizer_config.json ---- */

static bool ends_in_token(const char *key) {
    const size_t n = strlen(key);
    return n >= 6 && strcmp(key + n - 6, "_token") == 0;
}

/* Reads a key that names a token: one of the seven named tokens, or any key that ends in "_token"
   and has a string. */
static syn_status read_named(syn__tokenizer_files *f, syn_json *json, syn__file_tokens *more,
                             bool special, syn_error *err) {
    syn__file_token *t;
    for (int i = 0; i < SYN__NAMED_TOKENS; i++)
        if (strcmp(json->text, named_keys[i]) == 0) {
            f->given[i] = true;
            return read_token(json, &f->named[i], named_keys[i], special, err);
        }
    if (!ends_in_token(json->text)) return syn__tok_skip(json, err);
    if (syn_json_next(json) != SYN_JSON_STRING)
        return syn_json_skip(json) ? SYN_OK : syn__tok_status(json, SYN_JSON_END, err);
    SYN_TRY(syn__file_tokens_append(more, &t, err));
    return take_token(json, t, "a token", special, err);
}

static bool is_extra(const char *key) {
    return strcmp(key, "extra_special_tokens") == 0 ||
           strcmp(key, "additional_special_tokens") == 0;
}

static syn_status read_extra(syn__tokenizer_files *f, syn_json *json, bool special,
                             syn_error *err) {
    if (json->text[0] == 'a') {
        f->additional_given = true;
        syn__file_tokens_free(&f->additional); /* the last file wins */
        return syn__file_tokens_read(json, &f->additional, NULL, "additional_special_tokens",
                                     special, err);
    }
    const size_t before = f->config_more.n;
    SYN_TRY(syn__file_tokens_read(json, &f->extra, &f->config_more, "extra_special_tokens", special,
                                  err));
    f->extra_named = f->config_more.n > before; /* named tokens are not part of the list */
    f->extra_given = !f->extra_named;
    return SYN_OK;
}

/* Chooses between the old key, additional_special_tokens, and the new key, extra_special_tokens. In
   tokenizer_config.json the new key wins if it has tokens; after all files were read, it wins if it
   is present. */
static void settle_extra(syn__tokenizer_files *f, bool in_config) {
    if (in_config && f->extra_named) return;
    const bool old_counts = in_config ? f->extra.n == 0 : !f->extra_given;
    if (f->additional_given && old_counts) {
        syn__file_tokens_free(&f->extra);
        f->extra = f->additional;
        f->additional = (syn__file_tokens){0};
        f->extra_given = true;
    }
    syn__file_tokens_free(&f->additional);
    f->additional_given = false;
}

static syn_status read_config(void *user, syn_json *json, syn_error *err) {
    syn__tokenizer_files *f = user;
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"add_prefix_space", &f->prefix_space},
                 {"add_bos_token", &f->add_bos},
                 {"add_eos_token", &f->add_eos},
                 {"split_special_tokens", &f->split_special}};
    const char *key = json->text;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].key) == 0)
            return syn__tok_bool(json, flags[i].value, flags[i].key);
    if (strcmp(key, "tokenizer_class") == 0)
        return syn__tok_text(json, f->class_name, "tokenizer_class", err);
    if (strcmp(key, "added_tokens_decoder") == 0) return read_decoder(f, json, err);
    if (is_extra(key)) return read_extra(f, json, false, err);
    return read_named(f, json, &f->config_more, false, err);
}

/* ---- old files, used if there is no added_tokens_decoder ---- */

static syn_status read_map(void *user, syn_json *json, syn_error *err) {
    syn__tokenizer_files *f = user;
    if (is_extra(json->text)) return read_extra(f, json, true, err);
    return read_named(f, json, &f->map_more, true, err);
}

bool syn__file_token_is(const syn__file_token *t, const char *text, size_t bytes) {
    return t->text && t->bytes == bytes && memcmp(t->text, text, bytes) == 0;
}

/* Whether a file that was read so far gives the text as a special token. */
static bool is_given_special(const syn__tokenizer_files *f, const char *text, size_t bytes) {
    for (int i = 0; i < SYN__NAMED_TOKENS; i++)
        if (f->given[i] && f->named[i].special && syn__file_token_is(&f->named[i], text, bytes))
            return true;
    for (size_t i = 0; i < f->extra.n; i++)
        if (syn__file_token_is(&f->extra.at[i], text, bytes)) return true;
    return false;
}

/* Reads {"<pad>": 50257, ...}. */
static syn_status read_added(void *user, syn_json *json, syn_error *err) {
    syn__tokenizer_files *f = user;
    syn__file_token *t;
    SYN_TRY(syn__file_tokens_append(&f->decoder, &t, err));
    SYN_TRY(syn__file_token_set(t, json->text, json->text_bytes, err));
    t->normalized = !is_given_special(f, t->text, t->bytes);
    t->normalized_given = true;
    return syn_json_expect_i64(json, "the id of an added token", 0, INT32_MAX - 1, &t->id);
}

/* ---- all files ---- */

static syn_status check(const syn__tokenizer_files *f, syn_error *err) {
    const char *folder = f->folder;
    syn_tokenizer_kind kind;
    if (!syn__tok_kind_of_class(f->class_name, &kind) || kind == SYN_TOKENIZER_WORDPIECE)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s/tokenizer_config.json: the tokenizer_class \"%s\" is not supported for "
                        "vocab.json and merges.txt; only GPT2Tokenizer is",
                        folder, f->class_name);
    if (f->split_special)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s/tokenizer_config.json: split_special_tokens is not supported", folder);
    return SYN_OK;
}

syn_status syn__tokenizer_files_read(syn__tokenizer_files *f, syn_error *err) {
    static const char *const end = SYN__BPE_END_OF_TEXT;
    for (int i = 0; i < SYN__NAMED_TOKENS; i++) f->named[i].id = -1;
    for (int i = SYN__NAMED_BOS; i <= SYN__NAMED_UNK; i++)
        SYN_TRY(syn__file_token_set(&f->named[i], end, strlen(end), err));
    SYN_TRY(syn__tok_exists(&f->has_json, f->folder, "tokenizer.json", err));
    SYN_TRY(syn__tok_read(f->folder, "tokenizer_config.json", read_config, f, err));
    settle_extra(f, true);
    if (!f->has_decoder) {
        SYN_TRY(syn__tok_read(f->folder, "special_tokens_map.json", read_map, f, err));
        SYN_TRY(syn__tok_read(f->folder, "added_tokens.json", read_added, f, err));
    }
    settle_extra(f, false);
    SYN_TRY(syn__tok_read(f->folder, "tokenizer.json", syn__tokenizer_files_json, f, err));
    if (f->has_json) f->add_bos = f->add_eos = false; /* the post_processor decides */
    return check(f, err);
}

/* ---- bos and eos for tokenizer.json ---- */

typedef struct ends {
    syn__file_token bos, eos;
    bool split_special;
} ends;

static syn_status read_ends(void *user, syn_json *json, syn_error *err) {
    ends *e = user;
    if (strcmp(json->text, "bos_token") == 0)
        return read_token(json, &e->bos, "bos_token", true, err);
    if (strcmp(json->text, "eos_token") == 0)
        return read_token(json, &e->eos, "eos_token", true, err);
    if (strcmp(json->text, "split_special_tokens") == 0)
        return syn__tok_bool(json, &e->split_special, "split_special_tokens");
    return syn__tok_skip(json, err);
}

static int32_t find_end(const syn_tokenizer *tok, const syn__file_token *t) {
    const syn__added_token *added =
        t->text ? syn__added_find(&tok->added, t->text, t->bytes) : NULL;
    return added ? added->id : -1;
}

syn_status syn__tok_find_ends(syn_tokenizer *tok, const char *folder, syn_error *err) {
    ends e = {.split_special = false};
    syn_status status = syn__tok_read(folder, "tokenizer_config.json", read_ends, &e, err);
    if (status == SYN_OK && e.split_special)
        status =
            SYN_FAIL(err, SYN_E_UNSUPPORTED,
                     "%s/tokenizer_config.json: split_special_tokens is not supported", folder);
    tok->bos = find_end(tok, &e.bos);
    tok->eos = find_end(tok, &e.eos);
    if (tok->bos < 0 && tok->kind == SYN_TOKENIZER_BPE && tok->single.id[0] >= 0)
        tok->bos = tok->single.id[0];
    if (tok->eos < 0) tok->eos = syn_tokenizer_special(tok, SYN__BPE_END_OF_TEXT);
    syn_free(e.bos.text);
    syn_free(e.eos.text);
    return status;
}
