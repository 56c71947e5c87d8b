/* Detects which tokenizer a folder has, and opens it. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

#include <string.h>

/* Settings from tokenizer_config.json and config.json. */
typedef struct settings {
    char class[SYN__TOK_NAME_BYTES]; /* tokenizer_class, "" if none is given; long names are
                                        truncated */
    char model_type[SYN__TOK_NAME_BYTES];
    bool for_wordpiece; /* read all of WordPiece's keys */
    bool has_decoder;   /* added_tokens_decoder exists, so older files are ignored */
    bool strips_as_lower;
    bool lower_case, strip_accents, split_ideographs;
} settings;

/* BERT's own tokens. A file that adds other tokens is rejected, because these would have to be
   recognized in texts. */
static const char *const own_tokens[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
#define OWN_TOKENS (sizeof own_tokens / sizeof *own_tokens)

static syn_status check_own(syn_json *json, const char *text) {
    bool known = text[0] == '\0';
    for (size_t i = 0; i < OWN_TOKENS; i++) known |= strcmp(text, own_tokens[i]) == 0;
    return known ? SYN_OK : syn_json_fail(json, "the added token \"%.47s\" is not supported", text);
}

/* Reads {"103": {"content": "[MASK]", ...}, ...}. */
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

/* Reads additional_special_tokens and similar keys: a list, or an object from names to tokens. */
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

/* Reads another key that ends in "_token". Its value counts as a token if it is a string. */
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

/* Reads added_tokens.json: {"[MASK]": 103, ...}. */
static syn_status read_added(void *user, syn_json *json, syn_error *err) {
    (void)user;
    SYN_TRY(check_own(json, json->text));
    return syn__tok_skip(json, err);
}

/* Reads the value of a key for WordPiece. Sets *found to whether it is such a key. */
static syn_status read_wordpiece(settings *s, syn_json *json, bool *found, syn_error *err) {
    static const char *const keys[OWN_TOKENS] = {"unk_token", "sep_token", "pad_token", "cls_token",
                                                 "mask_token"};
    const char *key = json->text;
    char text[SYN__TOK_NAME_BYTES];
    *found = true;
    if (strcmp(key, "do_lower_case") == 0)
        return syn__tok_bool(json, &s->lower_case, "do_lower_case");
    if (strcmp(key, "tokenize_chinese_chars") == 0)
        return syn__tok_bool(json, &s->split_ideographs, "tokenize_chinese_chars");
    if (strcmp(key, "added_tokens_decoder") == 0) return read_decoder(s, json, err);
    if (strcmp(key, "additional_special_tokens") == 0 || strcmp(key, "extra_special_tokens") == 0)
        return read_list(json, err);
    if (strcmp(key, "strip_accents") == 0) {
        const syn_json_type type = syn_json_next(json);
        s->strips_as_lower = type == SYN_JSON_NULL;
        s->strip_accents = json->boolean;
        if (type == SYN_JSON_NULL || type == SYN_JSON_BOOL) return SYN_OK;
        return syn_json_fail(json, "strip_accents must be true, false or null");
    }
    for (size_t i = 0; i < OWN_TOKENS; i++) {
        if (strcmp(key, keys[i]) != 0) continue;
        SYN_TRY(syn__tok_text(json, text, keys[i], err));
        if (text[0] == '\0' || strcmp(text, own_tokens[i]) == 0) return SYN_OK;
        return syn_json_fail(json, "%s is \"%s\"; only \"%s\" is supported", keys[i], text,
                             own_tokens[i]);
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

/* Class names and model types of BERT's and GPT-2's tokenizers. SYN_TOKENIZER_BYTES: the class does
   not determine the tokenizer. */
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

/* Chooses the kind of tokenizer for a folder with vocab.txt: by tokenizer_config.json; if that does
   not determine it, by the files that exist; if both kinds exist, by config.json. */
static syn_status choose(syn_tokenizer_kind *kind, const char *folder, bool has_bpe,
                         syn_error *err) {
    settings s = {.for_wordpiece = false};
    SYN_TRY(syn__tok_read(folder, "tokenizer_config.json", read_key, &s, err));
    if (!syn__tok_kind_of_class(s.class, kind))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s/tokenizer_config.json: the tokenizer_class \"%s\" is not supported; "
                        "only GPT2Tokenizer and BertTokenizer are",
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
    return SYN_FAIL(
        err, SYN_E_FORMAT,
        "%s has two tokenizers, vocab.json with merges.txt (GPT-2) and vocab.txt (BERT); select "
        "one with tokenizer_class in tokenizer_config.json or model_type in config.json",
        folder);
}

static int32_t find_in_wordpiece(const void *wp, const char *text, size_t bytes) {
    return syn__wordpiece_find(wp, text, bytes, syn__bpe_hash(text, bytes));
}

/* Adds BERT's own tokens, and the templates if the vocabulary has [CLS] and [SEP]. */
static syn_status add_own(syn_tokenizer *tok, const char *name, syn_error *err) {
    const syn__wordpiece *wp = tok->wordpiece;
    syn__added_token *token;
    for (size_t i = 0; i < OWN_TOKENS; i++) {
        const size_t n = strlen(own_tokens[i]);
        if (find_in_wordpiece(wp, own_tokens[i], n) < 0) continue;
        SYN_TRY(syn__added_put(&tok->added, own_tokens[i], n, &token, err));
        token->special = true;
    }
    SYN_TRY(syn__tok_number_added(tok, find_in_wordpiece, wp, wp->vocab_elems, name, err));
    const int32_t cls = syn_tokenizer_special(tok, "[CLS]"),
                  sep = syn_tokenizer_special(tok, "[SEP]");
    if (cls < 0 || sep < 0) return SYN_OK;
    const int32_t items[] = {cls, SYN__TEMPLATE_FIRST, sep, SYN__TEMPLATE_SECOND, sep};
    for (int i = 0; i < 5; i++) {
        if (i < 3) (void)syn__template_add(&tok->single, items[i], 0);
        (void)syn__template_add(&tok->pair, items[i], i > 2);
    }
    return SYN_OK;
}

static syn_status add_steps(syn_tokenizer *tok, const settings *s, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add_bert(&tok->normalizers, true, s->split_ideographs, s->strip_accents,
                                s->lower_case, err));
    SYN_TRY(syn__steps_add(&tok->cuts, SYN__CUT_BERT, &step, err));
    SYN_TRY(syn__steps_add(&tok->decoders, SYN__DECODE_WORDPIECE, &step, err));
    step->text_bytes = strlen(SYN__WORDPIECE_PREFIX);
    step->text = syn_strdup(SYN__WORDPIECE_PREFIX);
    return step->text ? SYN_OK : SYN_FAIL_NOMEM(err, step->text_bytes, "a tokenizer");
}

static syn_status read_vocab(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *path, *data;
    size_t bytes;
    syn_status status = syn__tok_read_file(folder, "vocab.txt", SYN__WORDPIECE_MAX_FILE_BYTES,
                                           &path, &data, &bytes, err);
    if (status == SYN_OK) status = syn__wordpiece_read(&tok->wordpiece, path, data, bytes, err);
    if (status == SYN_OK) status = add_own(tok, path, err);
    if (status == SYN_OK) status = syn__tok_finish(tok, path, err);
    syn_free(data);
    syn_free(path);
    return status;
}

static syn_status open_wordpiece(syn_tokenizer *tok, const char *folder, syn_error *err) {
    settings s = {.for_wordpiece = true,
                  .strips_as_lower = true,
                  .lower_case = true,
                  .split_ideographs = true};
    tok->name = "bert-wordpiece";
    SYN_TRY(syn__char_ready(err));
    SYN_TRY(syn__tok_read(folder, "tokenizer_config.json", read_key, &s, err));
    if (!s.has_decoder) {
        SYN_TRY(syn__tok_read(folder, "special_tokens_map.json", read_key, &s, err));
        SYN_TRY(syn__tok_read(folder, "added_tokens.json", read_added, NULL, err));
    }
    if (s.strips_as_lower) s.strip_accents = s.lower_case;
    SYN_TRY(add_steps(tok, &s, err));
    return read_vocab(tok, folder, err);
}

/* Whether to use tokenizer.json although there are other files: if the configuration names neither
   GPT-2's nor BERT's tokenizer. */
static syn_status json_counts(bool *out, const char *folder, syn_error *err) {
    settings s = {.for_wordpiece = false};
    syn_tokenizer_kind kind = SYN_TOKENIZER_BYTES;
    SYN_TRY(syn__tok_read(folder, "tokenizer_config.json", read_key, &s, err));
    *out = !syn__tok_kind_of_class(s.class, &kind) || (s.class[0] && kind == SYN_TOKENIZER_BYTES);
    if (s.class[0]) return SYN_OK;
    s.model_type[0] = '\0';
    SYN_TRY(syn__tok_read(folder, "config.json", read_key, &s, err));
    *out = s.model_type[0] != '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].model_type, s.model_type) == 0) *out = false;
    return SYN_OK;
}

static syn_status open_any(syn_tokenizer *tok, const char *folder, syn_error *err) {
    static const char *const names[4] = {"vocab.txt", "vocab.json", "merges.txt", "tokenizer.json"};
    bool has[4];
    for (int i = 0; i < 4; i++) SYN_TRY(syn__tok_exists(&has[i], folder, names[i], err));
    const bool has_bpe = has[1] && has[2], has_own = has[0] || has_bpe;
    if (has[3] && has_own) SYN_TRY(json_counts(&has[3], folder, err));
    if (has[3]) return syn__tok_open_json(tok, folder, err);
    if (!has[0] && !has[1] && !has[2])
        return SYN_FAIL(err, SYN_E_IO,
                        "%s is not a folder with a tokenizer: it lacks tokenizer.json, vocab.json "
                        "with merges.txt (GPT-2), and vocab.txt (BERT)",
                        folder);
    tok->kind = SYN_TOKENIZER_BPE;
    if (has[0]) SYN_TRY(choose(&tok->kind, folder, has_bpe, err));
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
