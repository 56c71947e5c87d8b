/* Opens tokenizer.json, HuggingFace's file for a complete tokenizer. */
#include "models/tokenizer/tokenizer_file_private.h"

#include "models/tokenizer/tokenizer_files_private.h"
#include "syntorch/base/memory.h"

#include <string.h>

/* The contents of "model". */
typedef struct model {
    char type[SYN__TOK_NAME_BYTES];
    char *unk, *prefix; /* NULL: none */
    size_t unk_bytes, prefix_bytes;
    bool has_vocab, has_merges, has_suffix;
    bool fuse_unk, byte_fallback, ignore_merges;
    int64_t max_chars;
    syn__vocab vocab;
} model;

typedef struct reader {
    syn_tokenizer *tok;
    const char *data;
    size_t bytes;
    model model;
    bool has_model;
    syn__file_tokens added;
} reader;

static void reader_free(reader *r) {
    syn_free(r->model.unk);
    syn_free(r->model.prefix);
    syn__vocab_free(&r->model.vocab);
    syn__file_tokens_free(&r->added);
}

/* ---- the model ---- */

static syn_status read_text(syn_json *json, char **text, size_t *bytes, const char *what,
                            syn_error *err) {
    const syn_json_type type = syn_json_next(json);
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING)
        return type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                      : syn_json_fail(json, "%s must be a string or null", what);
    syn_free(*text);
    *text = syn_strndup(json->text, json->text_bytes);
    *bytes = json->text_bytes;
    return *text ? SYN_OK : SYN_FAIL_NOMEM(err, *bytes, "a tokenizer");
}

static syn_status read_dropout(syn_json *json, syn_error *err) {
    const syn_json_type type = syn_json_next(json);
    if (type == SYN_JSON_NULL || (type == SYN_JSON_NUMBER && json->number == 0)) return SYN_OK;
    return type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                  : syn_json_fail(json, "dropout is not supported");
}

static syn_status read_suffix(model *m, syn_json *json, syn_error *err) {
    char suffix[SYN__TOK_NAME_BYTES];
    SYN_TRY(syn__tok_text(json, suffix, "end_of_word_suffix", err));
    m->has_suffix = suffix[0] != '\0';
    return SYN_OK;
}

static syn_status check_type(syn_json *json, const char *type) {
    if (strcmp(type, "BPE") == 0 || strcmp(type, "WordPiece") == 0) return SYN_OK;
    return syn_json_fail(json, "the model \"%s\" is not supported; only BPE and WordPiece are",
                         type);
}

static syn_status read_model_key(reader *r, syn_json *json, syn_error *err) {
    model *m = &r->model;
    const char *key = json->text;
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"fuse_unk", &m->fuse_unk},
                 {"byte_fallback", &m->byte_fallback},
                 {"ignore_merges", &m->ignore_merges}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].key) == 0)
            return syn__tok_bool(json, flags[i].value, flags[i].key);
    if (strcmp(key, "type") == 0) {
        SYN_TRY(syn__tok_text(json, m->type, "type", err));
        return check_type(json, m->type);
    }
    if (strcmp(key, "unk_token") == 0) return read_text(json, &m->unk, &m->unk_bytes, key, err);
    if (strcmp(key, "continuing_subword_prefix") == 0)
        return read_text(json, &m->prefix, &m->prefix_bytes, "continuing_subword_prefix", err);
    if (strcmp(key, "end_of_word_suffix") == 0) return read_suffix(m, json, err);
    if (strcmp(key, "dropout") == 0) return read_dropout(json, err);
    if (strcmp(key, "max_input_chars_per_word") == 0)
        return syn_json_expect_i64(json, "max_input_chars_per_word", 0, INT32_MAX, &m->max_chars);
    if (strcmp(key, "vocab") == 0) {
        if (m->has_vocab) return syn_json_fail(json, "the file has two vocabularies");
        m->has_vocab = true;
        return syn__vocab_read(&m->vocab, json->name, json, err);
    }
    if (strcmp(key, "merges") != 0)
        return syn_json_fail(json, "the key \"%.40s\" of the model is not supported", key);
    m->has_merges = true; /* read later, because they need the vocabulary */
    return syn__tok_skip(json, err);
}

static syn_status read_model(reader *r, syn_json *json, syn_error *err) {
    if (r->has_model) return syn_json_fail(json, "the file has two models");
    r->has_model = true;
    r->model.max_chars = -1;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "model"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_model_key(r, json, err));
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* ---- everything but the merges ---- */

static syn_status read_steps(syn__step_group group, syn_json *json, syn__steps *to,
                             syn_error *err) {
    static const char *const what[] = {"normalizer", "pre_tokenizer", "decoder"};
    const syn_json_type type = syn_json_next(json);
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type == SYN_JSON_OBJECT_BEGIN) return syn__steps_take(group, json, to, err);
    return type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                  : syn_json_fail(json, "%s must be an object", what[group]);
}

static syn_status read_key(void *user, syn_json *json, syn_error *err) {
    reader *r = user;
    syn_tokenizer *tok = r->tok;
    const char *key = json->text;
    char version[SYN__TOK_NAME_BYTES];
    if (strcmp(key, "model") == 0) return read_model(r, json, err);
    if (strcmp(key, "normalizer") == 0)
        return read_steps(SYN__GROUP_NORMALIZERS, json, &tok->normalizers, err);
    if (strcmp(key, "pre_tokenizer") == 0)
        return read_steps(SYN__GROUP_CUTS, json, &tok->cuts, err);
    if (strcmp(key, "decoder") == 0)
        return read_steps(SYN__GROUP_DECODERS, json, &tok->decoders, err);
    if (strcmp(key, "post_processor") == 0) return syn__post_read(tok, json, err);
    if (strcmp(key, "added_tokens") == 0)
        return syn__file_tokens_read(json, &r->added, NULL, "added_tokens", false, err);
    if (strcmp(key, "truncation") == 0 || strcmp(key, "padding") == 0)
        return syn__tok_skip(json, err); /* only matters for batches */
    if (strcmp(key, "version") != 0)
        return syn_json_fail(json, "the key \"%.40s\" is not supported", key);
    SYN_TRY(syn__tok_text(json, version, "version", err));
    return strcmp(version, "1.0") == 0
               ? SYN_OK
               : syn_json_fail(json, "the version \"%s\" is not supported; only 1.0 is", version);
}

/* ---- the merges ---- */

static syn_status put_merge(syn__bpe *bpe, const syn__vocab *vocab, syn_json *json,
                            const char *left, size_t left_bytes, const char *right,
                            size_t right_bytes, syn_error *err) {
    char why[SYN__BPE_WHY_BYTES];
    const syn__bpe_pair *known;
    SYN_TRY(syn__bpe_reserve(bpe, bpe->n_pairs + 1, err));
    if (syn__bpe_put_merge(bpe, vocab, left, left_bytes, right, right_bytes, why, &known))
        return SYN_OK;
    return syn_json_fail(json, "%s", why[0] ? why : "the merge appears twice");
}

/* Reads "left right" or ["left", "right"], whose first JSON token was just read. */
static syn_status take_merge(syn__bpe *bpe, const syn__vocab *vocab, syn_json *json,
                             syn_error *err) {
    char *left = NULL;
    size_t left_bytes = 0;
    if (json->type == SYN_JSON_STRING) {
        const char *space = memchr(json->text, ' ', json->text_bytes);
        const size_t at = space ? (size_t)(space - json->text) : 0;
        if (space && !memchr(space + 1, ' ', json->text_bytes - at - 1))
            return put_merge(bpe, vocab, json, json->text, at, space + 1, json->text_bytes - at - 1,
                             err);
        return syn_json_fail(json, "a merge must be two tokens separated by one space");
    }
    if (json->type != SYN_JSON_ARRAY_BEGIN)
        return json->type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                            : syn_json_fail(json, "a merge must be two tokens");
    syn_status status = syn_json_expect(json, SYN_JSON_STRING, "the left token of a merge");
    if (status == SYN_OK) {
        left_bytes = json->text_bytes;
        left = syn_strndup(json->text, left_bytes);
        if (left == NULL) status = SYN_FAIL_NOMEM(err, left_bytes, "a merge");
    }
    if (status == SYN_OK)
        status = syn_json_expect(json, SYN_JSON_STRING, "the right token of a merge");
    if (status == SYN_OK)
        status = put_merge(bpe, vocab, json, left, left_bytes, json->text, json->text_bytes, err);
    syn_free(left);
    if (status == SYN_OK) status = syn_json_expect(json, SYN_JSON_ARRAY_END, "a merge of two");
    return status;
}

static syn_status read_merges(reader *r, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "merges"));
    while (syn_json_next(json) != SYN_JSON_ARRAY_END)
        SYN_TRY(take_merge(r->tok->bpe, &r->model.vocab, json, err));
    return SYN_OK;
}

static syn_status read_merges_key(void *user, syn_json *json, syn_error *err) {
    if (strcmp(json->text, "model") != 0) return syn__tok_skip(json, err);
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "model"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "merges") == 0) SYN_TRY(read_merges(user, json, err));
        else SYN_TRY(syn__tok_skip(json, err));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* ---- building the tokenizer ---- */

static syn_status put_added(reader *r, const char *name, syn_error *err) {
    syn__added_token *token;
    for (size_t i = 0; i < r->added.n; i++) {
        const syn__file_token *t = &r->added.at[i];
        const size_t before = r->tok->added.n;
        if (!t->text || t->bytes == 0 || t->id < 0)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: an added token lacks its content or id", name);
        SYN_TRY(syn__added_put(&r->tok->added, t->text, t->bytes, &token, err));
        if (r->tok->added.n == before)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: the added token \"%.40s\" appears twice", name,
                            t->text);
        token->given = t->id;
        token->single_word = t->single_word;
        token->lstrip = t->lstrip;
        token->rstrip = t->rstrip;
        token->normalized = t->normalized_given ? t->normalized : !t->special;
        token->special = t->special;
    }
    return SYN_OK;
}

static int32_t find_in_vocab(const void *vocab, const char *text, size_t bytes) {
    return syn__vocab_find(vocab, text, bytes);
}

static syn_status check_unk(const model *m, int32_t *unk, const char *name, syn_error *err) {
    *unk = m->unk ? syn__vocab_find(&m->vocab, m->unk, m->unk_bytes) : -1;
    if (!m->unk || *unk >= 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%s: the unk_token \"%.40s\" is not in the vocabulary", name,
                    m->unk);
}

static syn_status make_bpe(reader *r, const char *name, syn_error *err) {
    const model *m = &r->model;
    syn__bpe_rules rules = {.ignore_merges = m->ignore_merges,
                            .byte_fallback = m->byte_fallback,
                            .fuse_unk = m->fuse_unk,
                            .unk = -1};
    if (m->prefix && m->prefix_bytes > 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s: a continuing_subword_prefix is not supported for the model BPE", name);
    if (m->has_suffix)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%s: an end_of_word_suffix is not supported", name);
    rules.by_chars = !syn__tok_spells(r->tok, &m->vocab);
    if (rules.by_chars) SYN_TRY(check_unk(m, &rules.unk, name, err)); /* no byte is unknown */
    SYN_TRY(syn__bpe_new(&r->tok->bpe, &m->vocab, &rules, name, err));
    SYN_TRY(syn__tok_parse(name, r->data, r->bytes, read_merges_key, r, err));
    return syn__bpe_finish(r->tok->bpe, &m->vocab, err);
}

static syn_status make_wordpiece(reader *r, const char *name, syn_error *err) {
    const model *m = &r->model;
    int32_t unk;
    SYN_TRY(check_unk(m, &unk, name, err));
    if (unk < 0 || !m->prefix || m->max_chars < 0)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%s: the model WordPiece lacks unk_token, continuing_subword_prefix or "
                        "max_input_chars_per_word",
                        name);
    return syn__wordpiece_new(&r->tok->wordpiece, &m->vocab, m->prefix, m->prefix_bytes,
                              (size_t)m->max_chars, unk, err);
}

static syn_status make_model(reader *r, const char *name, syn_error *err) {
    model *m = &r->model;
    const char *guess = m->has_merges ? "BPE" : "WordPiece"; /* old files have no type */
    const bool is_bpe = strcmp(m->type[0] ? m->type : guess, "BPE") == 0;
    if (!r->has_model || !m->has_vocab || (is_bpe && !m->has_merges))
        return SYN_FAIL(err, SYN_E_FORMAT, "%s has no model with vocab%s", name,
                        is_bpe ? " and merges" : "");
    r->tok->kind = is_bpe ? SYN_TOKENIZER_BPE : SYN_TOKENIZER_WORDPIECE;
    r->tok->name = is_bpe ? "bpe" : "wordpiece";
    SYN_TRY(put_added(r, name, err));
    SYN_TRY(syn__tok_number_added(r->tok, find_in_vocab, &m->vocab, (int32_t)m->vocab.elems, name,
                                  err));
    SYN_TRY(is_bpe ? make_bpe(r, name, err) : make_wordpiece(r, name, err));
    return syn__tok_finish(r->tok, name, err);
}

syn_status syn__tok_open_data(syn_tokenizer *tok, const char *name, const char *data, size_t bytes,
                              syn_error *err) {
    reader r = {.tok = tok, .data = data, .bytes = bytes};
    syn_status status = syn__tok_parse(name, data, bytes, read_key, &r, err);
    if (status == SYN_OK) status = make_model(&r, name, err);
    reader_free(&r);
    return status;
}

syn_status syn__tok_open_json(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *name = NULL, *data = NULL;
    size_t bytes;
    syn_status status = syn__tok_read_file(folder, "tokenizer.json", SYN__TOK_MAX_JSON_BYTES, &name,
                                           &data, &bytes, err);
    if (status == SYN_OK) status = syn__tok_open_data(tok, name, data, bytes, err);
    if (status == SYN_OK) status = syn__tok_find_ends(tok, folder, err);
    syn_free(data);
    syn_free(name);
    return status;
}
