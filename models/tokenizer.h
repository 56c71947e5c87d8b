/* Tokenizers of GPT: text to ids and back. A tokenizer is immutable once opened, so any number of
   threads may use one at the same time. */
#ifndef MODELS_TOKENIZER_H
#define MODELS_TOKENIZER_H

#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_tokenizer syn_tokenizer;

/* The tokenizer that needs no files: an id is the value of a byte, 0..255. */
syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) SYN_MUST_USE;
/* GPT-2's byte-level BPE from `folder`/vocab.json and `folder`/merges.txt (each at most 64 MiB).
   Gives the ids of HuggingFace's GPT2Tokenizer. SYN_E_UNSUPPORTED in a build without PCRE2;
   SYN_E_IO, SYN_E_FORMAT with the file and line. */
syn_status syn_tokenizer_load(syn_tokenizer **out, const char *folder, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_tokenizer_free(syn_tokenizer *tok);

/* "bytes" or "gpt2-bpe". */
const char *syn_tokenizer_name(const syn_tokenizer *tok);
/* Ids are 0 .. size - 1. */
int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok);
/* Id of "<|endoftext|>", -1 if the vocabulary lacks it. */
int32_t syn_tokenizer_eos(const syn_tokenizer *tok);

/* The ids of `text` (any bytes for the byte tokenizer, UTF-8 for BPE, else SYN_E_INVALID with the
   offset of the first bad byte). "<|endoftext|>" in the text becomes its single id where the
   vocabulary has it. *ids is the caller's, to be freed with syn_free; at most one id a byte, never
   NULL after success. */
syn_status syn_tokenizer_encode(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                int32_t **ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
/* The bytes of the ids, NUL-terminated beyond *text_bytes, to be freed with syn_free. They may
   begin or end inside a UTF-8 character. An id outside the vocabulary is SYN_E_INVALID. */
syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
