/* The contents of a GPT-2 tokenizer's files other than vocab.json and merges.txt. tokenizer_files.c
   and tokenizer_template.c read them for tokenizer_bpe.c. */
#ifndef MODELS_TOKENIZER_FILES_PRIVATE_H
#define MODELS_TOKENIZER_FILES_PRIVATE_H

#include "models/tokenizer/tokenizer_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named tokens in the order in which transformers adds them: bos_token, eos_token, unk_token,
   sep_token, pad_token, cls_token, mask_token. */
enum { SYN__NAMED_BOS, SYN__NAMED_EOS, SYN__NAMED_UNK, SYN__NAMED_TOKENS = 7 };

/* A token as a file writes it: a string, or an object with "content". */
typedef struct syn__file_token {
    char *text; /* NULL: the file has null or does not give the token */
    size_t bytes;
    int64_t id;   /* -1: none */
    size_t order; /* position in which it was read */
    bool single_word, lstrip, rstrip, normalized, normalized_given;
    bool is_object;
    bool special; /* the file says so, or the token is a string or an object in a list of special
                     tokens */
} syn__file_token;

typedef struct syn__file_tokens {
    syn__file_token *at;
    size_t n, cap;
} syn__file_tokens;

typedef struct syn__tokenizer_files {
    const char *folder;
    syn__file_token named[SYN__NAMED_TOKENS];
    bool given[SYN__NAMED_TOKENS]; /* a file gave this token; false: `named` is the default */
    syn__file_tokens config_more, map_more; /* other keys that end in "_token" */
    syn__file_tokens extra;                 /* extra_special_tokens, or its old key
                                               additional_special_tokens */
    syn__file_tokens additional; /* additional_special_tokens of the file that is being read */
    bool extra_given, extra_named, additional_given;
    syn__file_tokens decoder;
    bool has_decoder, has_json;
    bool prefix_space, add_bos, add_eos, split_special;
    char class_name[SYN__TOK_NAME_BYTES];
    int64_t json_vocab; /* number of tokens in tokenizer.json's vocabulary; -1: no such file */
    syn_tokenizer *tok; /* its templates are set from the post_processor */
} syn__tokenizer_files;

/* Reads all files of files->folder that affect the tokenizer. Initialize *files to zero except for
   `folder`, `json_vocab` and `tok`. The caller frees it, even after a failure. */
syn_status syn__tokenizer_files_read(syn__tokenizer_files *files, syn_error *err) SYN_MUST_USE;
void syn__tokenizer_files_free(syn__tokenizer_files *files);

/* Reads the value of one key of tokenizer.json. files: a syn__tokenizer_files. */
syn_status syn__tokenizer_files_json(void *files, syn_json *json, syn_error *err) SYN_MUST_USE;

/* Appends an empty element. *t is valid until the next call. */
syn_status syn__file_tokens_append(syn__file_tokens *list, syn__file_token **t,
                                   syn_error *err) SYN_MUST_USE;
syn_status syn__file_token_set(syn__file_token *t, const char *text, size_t bytes,
                               syn_error *err) SYN_MUST_USE;
bool syn__file_token_is(const syn__file_token *t, const char *text, size_t bytes);
void syn__file_tokens_free(syn__file_tokens *list);
/* Reads an array of tokens into `list`, or, if `named` is not NULL, an object from names to tokens
   into `named`. */
syn_status syn__file_tokens_read(syn_json *json, syn__file_tokens *list, syn__file_tokens *named,
                                 const char *what, bool special, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
