/* The tokenizer's struct and internal functions, shared by tokenizer*.c. */
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

/* A post-processing template: ids of special tokens, and placeholders for the one or two texts. */
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
    int32_t vocab_elems; /* including added tokens */
    int32_t bos, eos;    /* -1: none */
    syn__added added;
    syn__steps normalizers, cuts, decoders, trims;
    syn__template single, pair; /* pair.n is 0 if pairs are not supported */
    syn__bpe *bpe;
    syn__wordpiece *wordpiece;
    syn__composer *composer; /* NULL unless a normalizer composes characters */
    syn__regex *word;        /* \w; NULL unless an added token is a single_word */
    bool spells;             /* words and token texts are bytes, which the files spell as GPT-2
                                does */
    char bytes[256];         /* texts of the byte tokenizer's tokens */
};

/* ---- encoding (tokenizer_encode.c, tokenizer_cut.c) ---- */

/* A token's range in the input, in characters, and the number of white space characters at its
   ends. */
typedef struct syn__place {
    uint32_t begin, end, spaces_before, spaces_behind;
} syn__place;

/* State of one encode call. */
typedef struct syn__encoder syn__encoder;
/* Called for each word; words are never empty. */
typedef syn_status syn__take_word(syn__encoder *enc, const syn__text *word, syn_error *err);
struct syn__encoder {
    const syn_tokenizer *tok;
    syn__take_word *take;
    void *user; /* for take */
    syn__match *match;
    syn__normal_work normal;
    syn__text_buffer whole;    /* the input with offsets, if offsets are tracked */
    syn__text_buffer *changed; /* one per pre-tokenizer: its output, for those that change the
                                  text */
    syn__bpe_work work;
    struct syn__cached_word *cache;
    syn__added_pieces pieces[2]; /* split at tokens that are [0] not normalized, [1] normalized */
    bool needs_position_ids, followed; /* needs_position_ids: the caller wants `places`; followed:
                                          offsets are tracked, for `places` or because a
                                          pre-tokenizer needs them */
    int32_t *ids;
    size_t n, cap;
    syn__place *places; /* of the ids, if needs_position_ids */
    size_t places_cap;
    /* The symbols of a word before merging, and their lengths in bytes, from which places are
       computed. */
    int32_t *begun;
    uint32_t *begun_bytes;
    size_t begun_cap, begun_bytes_cap;
};
/* Encodes a text: calls enc->take for its words, and appends the ids of added tokens to enc->ids.
   The caller sets `tok`, `take` and `needs_position_ids`, sets all other members to zero, and frees
   ids and places. syn__encoder_free frees everything else; call it even after a failure. */
syn_status syn__encoder_run(syn__encoder *enc, const char *text, size_t bytes,
                            syn_error *err) SYN_MUST_USE;
void syn__encoder_free(syn__encoder *enc);

/* The ids of a text without the tokens put around it. The caller frees it, even after a failure. */
typedef struct syn__encoded {
    int32_t *ids;
    syn__place *places; /* NULL if syn__encode_plain's `places` was false */
    size_t n;
} syn__encoded;
void syn__encoded_free(syn__encoded *encoded);
syn_status syn__encode_plain(const syn_tokenizer *tok, const char *text, size_t bytes, bool places,
                             syn__encoded *out, syn_error *err) SYN_MUST_USE;

/* Runs the pre-tokenizers from number `step` on, and then the model, on a text without added
   tokens. */
syn_status syn__encode_cut(syn__encoder *enc, size_t step, const syn__text *in,
                           syn_error *err) SYN_MUST_USE;
/* The text of a token that decoders get. If the tokenizer `spells`, it is the token's bytes. */
const char *syn__token_shown(const syn_tokenizer *tok, int32_t id, size_t *bytes);
/* Decodes ids, which must be valid. */
syn_status syn__decode(const syn_tokenizer *tok, const int32_t *ids, size_t n, char **text,
                       size_t *text_bytes, syn_error *err) SYN_MUST_USE;

/* Lowers *n so that ids after the first *n cannot change the text of the first *n ids, except an
   incomplete character at the end of that text. */
syn_status syn__decode_settled(const syn_tokenizer *tok, const int32_t *ids, size_t *n,
                               syn_error *err) SYN_MUST_USE;

/* ---- files of a folder (tokenizer_json.c) ---- */

#define SYN__TOK_NAME_BYTES     48
#define SYN__TOK_MAX_JSON_BYTES ((size_t)64 << 20)

/* Whether the folder has the file. */
syn_status syn__tok_exists(bool *out, const char *folder, const char *file,
                           syn_error *err) SYN_MUST_USE;
/* Reads a file of the folder. *path is for errors. The caller frees *path and *data, even after a
   failure. */
syn_status syn__tok_read_file(const char *folder, const char *file, size_t max_bytes, char **path,
                              char **data, size_t *bytes, syn_error *err) SYN_MUST_USE;
/* Called for each key of a file's object. The function must read or skip the value. */
typedef syn_status syn__tok_entry(void *user, syn_json *json, syn_error *err);
/* Parses a JSON file in memory; `name` is for errors. */
syn_status syn__tok_parse(const char *name, const char *data, size_t bytes, syn__tok_entry *entry,
                          void *user, syn_error *err) SYN_MUST_USE;
/* The same for a file of the folder; does nothing if the file does not exist. */
syn_status syn__tok_read(const char *folder, const char *file, syn__tok_entry *entry, void *user,
                         syn_error *err) SYN_MUST_USE;

/* Returns SYN_OK if the last JSON token was `end`, otherwise the error. */
syn_status syn__tok_status(const syn_json *json, syn_json_type end,
                           const syn_error *err) SYN_MUST_USE;
/* The same for the end of an array. Fails if the array has an element of a wrong type; `what` names
   the elements. */
syn_status syn__tok_list_end(syn_json *json, const char *what, const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_skip(syn_json *json, const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_bool(syn_json *json, bool *out, const char *what) SYN_MUST_USE;
/* Reads a string, null (which gives ""), or an object with the string under the key "content".
   Truncates the string to the size of `out`. */
syn_status syn__tok_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                         syn_error *err) SYN_MUST_USE;

/* The same, for a value whose first JSON token was already read. */
syn_status syn__tok_take_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                              syn_error *err) SYN_MUST_USE;

/* Sets *kind to the kind of tokenizer of a tokenizer_class, or to SYN_TOKENIZER_BYTES if the class
   does not determine the kind or none is given. Returns false if the class is unknown. */
bool syn__tok_kind_of_class(const char *class_name, syn_tokenizer_kind *kind);

/* ---- kinds of folders ---- */

/* GPT-2's vocab.json and merges.txt (tokenizer_bpe.c). */
syn_status syn__tok_open_bpe(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
/* Sets bos and eos from tokenizer_config.json or the template. */
syn_status syn__tok_find_ends(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
/* A tokenizer.json (tokenizer_file.c), from a folder or from memory. */
syn_status syn__tok_open_json(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;
syn_status syn__tok_open_data(syn_tokenizer *tok, const char *name, const char *data, size_t bytes,
                              syn_error *err) SYN_MUST_USE;

/* ---- construction (tokenizer_make.c) ---- */

/* Adds the steps of ByteLevel. If `prefix_space`, a space is prefixed to texts that do not begin
   with one; if `use_regex`, texts are split into GPT-2's words; then bytes are spelled. */
syn_status syn__steps_add_byte_level(syn__steps *cuts, bool prefix_space, bool use_regex,
                                     syn_error *err) SYN_MUST_USE;
syn_status syn__steps_add_bert(syn__steps *normalizers, bool clean, bool ideographs, bool accents,
                               bool lower, syn_error *err) SYN_MUST_USE;
/* Appends an id, or a placeholder for a text (SYN__TEMPLATE_FIRST, _SECOND). False if the template
   is full. */
bool syn__template_add(syn__template *t, int32_t id, int32_t type);
/* The id of a token in a vocabulary; -1 if it is not there. */
typedef int32_t syn__find_token(const void *vocab, const char *text, size_t bytes);
/* Assigns an id to each added token: its id in the vocabulary, or the next free id. Fails if a file
   gives the token another id. `name` is for errors, here and below. */
syn_status syn__tok_number_added(syn_tokenizer *tok, syn__find_token *find, const void *vocab,
                                 int32_t vocab_elems, const char *name,
                                 syn_error *err) SYN_MUST_USE;
/* Sets tok->spells to whether words can stay bytes until they become tokens, and returns it. If so,
   removes the last pre-tokenizer, which would spell the bytes. Call it after all steps were added
   and before the model is created. */
bool syn__tok_spells(syn_tokenizer *tok, const syn__vocab *vocab);
/* The last step of construction: creates the objects that the steps need, and sets `found` and
   `shown` of the added tokens. */
syn_status syn__tok_finish(syn_tokenizer *tok, const char *name, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
