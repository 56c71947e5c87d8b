/* What the files beside vocab.json and merges.txt say about GPT-2's tokenizer, as they say it:
   read by models/tokenizer_told.c and models/tokenizer_template.c for models/tokenizer_bpe.c. */
#ifndef MODELS_TOLD_PRIVATE_H
#define MODELS_TOLD_PRIVATE_H

#include "models/tokenizer_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens that have a name, in the order in which transformers adds them: bos_token, eos_token,
   unk_token, sep_token, pad_token, cls_token, mask_token. */
enum { SYN__TOLD_BOS, SYN__TOLD_EOS, SYN__TOLD_UNK, SYN__TOLD_NAMED = 7 };

/* A token as a file writes it: a string, or an object with "content". */
typedef struct syn__told {
    char *text; /* NULL: null, or nothing was said */
    size_t bytes;
    int64_t id;   /* -1: none */
    size_t order; /* as it was read */
    bool single_word, lstrip, rstrip, normalized, normalized_said;
    bool is_object;
    bool special; /* said, or a string, or an object where special tokens are listed */
} syn__told;

typedef struct syn__told_list {
    syn__told *at;
    size_t n, cap;
} syn__told_list;

typedef struct syn__told_files {
    const char *folder;
    syn__told named[SYN__TOLD_NAMED];
    bool said[SYN__TOLD_NAMED];           /* the token is not the default */
    syn__told_list config_more, map_more; /* other keys that end in "_token" */
    syn__told_list extra;      /* extra_special_tokens, formerly additional_special_tokens */
    syn__told_list additional; /* the latter of the file that is read */
    bool extra_said, extra_named, additional_said;
    syn__told_list decoder;
    bool has_decoder, has_json;
    bool prefix_space, add_bos, add_eos, split_special;
    char class_name[SYN__TOK_NAME_BYTES];
    int64_t json_vocab; /* tokens of tokenizer.json's vocabulary; -1: no such file */
    syn__bpe_frame frame;
} syn__told_files;

/* Every file of files->folder that counts; the rest of *files is zero before. Free it also after a
   failure. */
syn_status syn__told_read_all(syn__told_files *files, syn_error *err) SYN_MUST_USE;
void syn__told_drop_all(syn__told_files *files);

/* The value of a key of tokenizer.json. */
syn_status syn__told_read_tokenizer_json(void *files, syn_json *json, syn_error *err) SYN_MUST_USE;

/* One more element; *t is valid until the next. */
syn_status syn__told_append(syn__told_list *list, syn__told **t, syn_error *err) SYN_MUST_USE;
syn_status syn__told_keep(syn__told *t, const char *text, size_t bytes,
                          syn_error *err) SYN_MUST_USE;
bool syn__told_is(const syn__told *t, const char *text, size_t bytes);
void syn__told_drop(syn__told_list *list);
/* An array of tokens, or, if `named` is not NULL, an object from names to tokens, which go to
   `named`. */
syn_status syn__told_read_list(syn_json *json, syn__told_list *list, syn__told_list *named,
                               const char *what, bool special, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
