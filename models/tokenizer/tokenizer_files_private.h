/* What the files beside vocab.json and merges.txt say about GPT-2's tokenizer, as they say it:
   read by models/tokenizer/tokenizer_files.c and models/tokenizer/tokenizer_template.c for
   models/tokenizer/tokenizer_bpe.c. */
#ifndef MODELS_TOKENIZER_FILES_PRIVATE_H
#define MODELS_TOKENIZER_FILES_PRIVATE_H

#include "models/tokenizer/tokenizer_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens that have a name, in the order in which transformers adds them: bos_token, eos_token,
   unk_token, sep_token, pad_token, cls_token, mask_token. */
enum { SYN__NAMED_BOS, SYN__NAMED_EOS, SYN__NAMED_UNK, SYN__NAMED_TOKENS = 7 };

/* A token as a file writes it: a string, or an object with "content". */
typedef struct syn__file_token {
    char *text; /* NULL: null, or nothing was said */
    size_t bytes;
    int64_t id;   /* -1: none */
    size_t order; /* as it was read */
    bool single_word, lstrip, rstrip, normalized, normalized_said;
    bool is_object;
    bool special; /* said, or a string, or an object where special tokens are listed */
} syn__file_token;

typedef struct syn__file_tokens {
    syn__file_token *at;
    size_t n, cap;
} syn__file_tokens;

typedef struct syn__tokenizer_files {
    const char *folder;
    syn__file_token named[SYN__NAMED_TOKENS];
    bool said[SYN__NAMED_TOKENS];           /* the token is not the default */
    syn__file_tokens config_more, map_more; /* other keys that end in "_token" */
    syn__file_tokens extra;      /* extra_special_tokens, formerly additional_special_tokens */
    syn__file_tokens additional; /* the latter of the file that is read */
    bool extra_said, extra_named, additional_said;
    syn__file_tokens decoder;
    bool has_decoder, has_json;
    bool prefix_space, add_bos, add_eos, split_special;
    char class_name[SYN__TOK_NAME_BYTES];
    int64_t json_vocab; /* tokens of tokenizer.json's vocabulary; -1: no such file */
    syn_tokenizer *tok; /* its templates are what the post_processor says */
} syn__tokenizer_files;

/* Every file of files->folder that counts; the rest of *files is zero before. Free it also after a
   failure. */
syn_status syn__tokenizer_files_read(syn__tokenizer_files *files, syn_error *err) SYN_MUST_USE;
void syn__tokenizer_files_free(syn__tokenizer_files *files);

/* The value of a key of tokenizer.json. */
syn_status syn__tokenizer_files_json(void *files, syn_json *json, syn_error *err) SYN_MUST_USE;

/* One more element; *t is valid until the next. */
syn_status syn__file_tokens_append(syn__file_tokens *list, syn__file_token **t,
                                   syn_error *err) SYN_MUST_USE;
syn_status syn__file_token_set(syn__file_token *t, const char *text, size_t bytes,
                               syn_error *err) SYN_MUST_USE;
bool syn__file_token_is(const syn__file_token *t, const char *text, size_t bytes);
void syn__file_tokens_free(syn__file_tokens *list);
/* An array of tokens, or, if `named` is not NULL, an object from names to tokens, which go to
   `named`. */
syn_status syn__file_tokens_read(syn_json *json, syn__file_tokens *list, syn__file_tokens *named,
                                 const char *what, bool special, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
