/* What a tokenizer is; shared by models/tokenizer*.c. */
#ifndef MODELS_TOKENIZER_PRIVATE_H
#define MODELS_TOKENIZER_PRIVATE_H

#include "models/tokenizer/bpe_private.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/tokenizer_added_private.h"
#include "models/tokenizer/tokenizer_steps_private.h"
#include "models/tokenizer/wordpiece_private.h"
#include "syntorch/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is put around a text, or two: ids of tokens and the texts themselves. */
#define SYN__TEMPLATE_FIRST  (-1)
#define SYN__TEMPLATE_SECOND (-2)
#define SYN__TEMPLATE_ITEMS  32
typedef struct syn__template {
    int32_t id[SYN__TEMPLATE_ITEMS];
    int32_t type[SYN__TEMPLATE_ITEMS];
    size_t n;
} syn__template;

struct syn_tokenizer {
    syn_tokenizer_kind kind;
    const char *name;
    int32_t vocab_elems; /* with added tokens */
    int32_t bos, eos;    /* -1: none */
    syn__added added;
    syn__steps normalizers, cuts, decoders, trims;
    syn__template single, pair; /* pair.n 0: there is none */
    syn__bpe *bpe;
    syn__wordpiece *wordpiece;
    syn__composer *composer; /* if a normalizer composes */
    syn__regex *word;        /* \w, if an added token asks for it */
    bool spells;             /* texts of tokens are bytes, which the files spell as GPT-2 does */
    char bytes[256];         /* the tokens of the byte tokenizer */
};

/* ---- the steps of encoding (tokenizer_encode.c, tokenizer_cut.c) ---- */

/* Where a token is from, in characters, and the white space characters it holds there. */
typedef struct syn__place {
    uint32_t begin, end, spaces_before, spaces_behind;
} syn__place;

/* State of one encode call. */
typedef struct syn__encoder syn__encoder;
/* What is done with each word; none is empty. */
typedef syn_status syn__take_word(syn__encoder *enc, const syn__text *word, syn_error *err);
struct syn__encoder {
    const syn_tokenizer *tok;
    syn__take_word *take;
    void *user; /* take's */
    syn__match *match;
    syn__normal_work normal;
    syn__text_buffer whole;    /* the text, where it is followed */
    syn__text_buffer *changed; /* of each cut that changes what it cuts */
    syn__bpe_work work;
    struct syn__cached_word *cache;
    syn__added_pieces pieces[2]; /* of tokens not normalized, and normalized */
    bool wants_places, followed; /* followed: the text is, for places or for a cut's sake */
    int32_t *ids;
    size_t n, cap;
    syn__place *places; /* if they are wanted */
    size_t places_cap;
    int32_t *begun; /* what a word begins as, and of how many of its bytes: to find places */
    uint32_t *begun_bytes;
    size_t begun_cap, begun_bytes_cap;
};
/* Hands the words of a text to enc->take and puts its added tokens among enc->ids. `tok`, `take`
   and, for places, `wants_places` are set, the rest is zero; ids and places are the caller's to
   free, all else is freed below, also after a failure. */
syn_status syn__encoder_run(syn__encoder *enc, const char *text, size_t bytes,
                            syn_error *err) SYN_MUST_USE;
void syn__encoder_free(syn__encoder *enc);

/* Ids of a text without what is put around it; free also after a failure. */
typedef struct syn__encoded {
    int32_t *ids;
    syn__place *places; /* NULL unless they were asked for */
    size_t n;
} syn__encoded;
void syn__encoded_free(syn__encoded *encoded);
syn_status syn__encode_plain(const syn_tokenizer *tok, const char *text, size_t bytes, bool places,
                             syn__encoded *out, syn_error *err) SYN_MUST_USE;

/* The ids of a text without added tokens, from the cuts on; `step` is the first of them. */
syn_status syn__encode_cut(syn__encoder *enc, size_t step, const syn__text *in,
                           syn_error *err) SYN_MUST_USE;
/* The text of a token as decoders see it: with `spells` the bytes it stands for. */
const char *syn__token_shown(const syn_tokenizer *tok, int32_t id, size_t *bytes);
/* What the decoders make of ids, which must be of the vocabulary. */
syn_status syn__decode(const syn_tokenizer *tok, const int32_t *ids, size_t n, char **text,
                       size_t *text_bytes, syn_error *err) SYN_MUST_USE;

/* Lowers *n to as many of the ids as have a text that no later id changes, but for a character that
   they may begin. */
syn_status syn__decode_settled(const syn_tokenizer *tok, const int32_t *ids, size_t *n,
                               syn_error *err) SYN_MUST_USE;

/* ---- the files of a folder (tokenizer_json.c) ---- */

#define SYN__TOK_NAME_BYTES     48
#define SYN__TOK_MAX_JSON_BYTES ((size_t)64 << 20)

/* Whether the folder has the file. */
syn_status syn__tok_exists(bool *out, const char *folder, const char *file,
                           syn_error *err) SYN_MUST_USE;
/* A file of the folder; the path begins error sentences. Both are the caller's to free, also after
   a failure. */
syn_status syn__tok_read_file(const char *folder, const char *file, size_t max_bytes, char **path,
                              char **data, size_t *bytes, syn_error *err) SYN_MUST_USE;
/* Called behind each key of the object that a file is; must read the value, or skip it. */
typedef syn_status syn__tok_entry(void *user, syn_json *json, syn_error *err);
/* Reads the contents of a JSON file, whose name begins error sentences. */
syn_status syn__tok_parse(const char *name, const char *data, size_t bytes, syn__tok_entry *entry,
                          void *user, syn_error *err) SYN_MUST_USE;
/* The same of a file if the folder has it. */
syn_status syn__tok_read(const char *folder, const char *file, syn__tok_entry *entry, void *user,
                         syn_error *err) SYN_MUST_USE;

/* SYN_OK if the last token was `end`, else what went wrong. */
syn_status syn__tok_status(const syn_json *json, syn_json_type end,
                           const syn_error *err) SYN_MUST_USE;
/* The same of an array's last token, which may be of a type that `what` are not. */
syn_status syn__tok_list_end(syn_json *json, const char *what, const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_skip(syn_json *json, const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_bool(syn_json *json, bool *out, const char *what) SYN_MUST_USE;
/* A string, null (gives ""), or an object with the string as "content"; cut to what fits. */
syn_status syn__tok_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                         syn_error *err) SYN_MUST_USE;

/* The same, of the JSON token that was read last. */
syn_status syn__tok_take_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                              syn_error *err) SYN_MUST_USE;

/* Whose tokenizer a tokenizer_class is; SYN_TOKENIZER_BYTES: of any, or none was named. False if
   the class is one that this program does not know. */
bool syn__tok_kind_of_class(const char *class_name, syn_tokenizer_kind *kind);

/* ---- kinds of folders ---- */

/* GPT-2's vocab.json and merges.txt (tokenizer_bpe.c). */
syn_status syn__tok_open_bpe(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
/* The tokens that begin and end texts, as tokenizer_config.json or the template say. */
syn_status syn__tok_find_ends(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
/* A tokenizer.json (tokenizer_file.c), and the contents of one. */
syn_status syn__tok_open_json(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
syn_status syn__tok_open_data(syn_tokenizer *tok, const char *name, const char *data, size_t bytes,
                              syn_error *err) SYN_MUST_USE;

/* ---- putting a tokenizer together (tokenizer_make.c) ---- */

/* ByteLevel: a space before what has none, if `prefix_space`; GPT-2's words; spelled. */
syn_status syn__steps_add_byte_level(syn__steps *cuts, bool prefix_space, bool use_regex,
                                     syn_error *err) SYN_MUST_USE;
syn_status syn__steps_add_bert(syn__steps *normalizers, bool clean, bool ideographs, bool accents,
                               bool lower, syn_error *err) SYN_MUST_USE;
/* The item of an id, or of a text (SYN__TEMPLATE_FIRST). False if it is full. */
bool syn__template_add(syn__template *t, int32_t id, int32_t type);
/* Id of a token in a vocabulary, -1 if it is none. */
typedef int32_t syn__find_token(const void *vocab, const char *text, size_t bytes);
/* Ids for the added tokens: those of the vocabulary or the next ones; an id that a file says must
   be that. `name` begins error sentences, here and below. */
syn_status syn__tok_number_added(syn_tokenizer *tok, syn__find_token *find, const void *vocab,
                                 int32_t vocab_elems, const char *name,
                                 syn_error *err) SYN_MUST_USE;
/* Whether words may stay bytes until they are tokens: then the last cut, which would spell them, is
   gone. After all steps were added and before the model is made. */
bool syn__tok_spells(syn_tokenizer *tok, const syn__vocab *vocab);
/* When all else is there: what the steps need together, and the forms of added tokens. */
syn_status syn__tok_finish(syn_tokenizer *tok, const char *name, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
