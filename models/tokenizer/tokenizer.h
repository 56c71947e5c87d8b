/* Tokenizers of GPT, BERT and other models: text to ids and back. A tokenizer is immutable, so any
   number of threads may use one at the same time. */
#ifndef MODELS_TOKENIZER_H
#define MODELS_TOKENIZER_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_tokenizer syn_tokenizer;

typedef enum syn_tokenizer_kind {
    SYN_TOKENIZER_BYTES,
    SYN_TOKENIZER_BPE,      /* byte-pair encoding: GPT-2 and later models */
    SYN_TOKENIZER_WORDPIECE /* BERT */
} syn_tokenizer_kind;

/* Creates the tokenizer that needs no files. Its ids are byte values, 0..255. */
syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) SYN_MUST_USE;
/* Loads the tokenizer of a folder. Three kinds of files are supported:
   - tokenizer.json (at most 64 MiB), HuggingFace's file for a complete tokenizer with a BPE or
     WordPiece model. Ids, texts and offsets match the tokenizers library (0.23). If the file
     contains something unsupported, the function fails with an error that names it.
     tokenizer_config.json is then read only for bos and eos tokens. Unigram models and
     SentencePiece files are not supported.
   - vocab.json and merges.txt of GPT-2 (at most 64 MiB each). Ids match transformers 5's
     GPT2Tokenizer. From tokenizer_config.json the function reads add_prefix_space, add_bos_token,
     add_eos_token, all special tokens, and added_tokens_decoder with its flags. If there is no
     added_tokens_decoder, it also reads special_tokens_map.json, added_tokens.json and the
     added_tokens of tokenizer.json. The post_processor of a tokenizer.json is always used.
     split_special_tokens and gaps between ids are rejected.
   - vocab.txt of BERT (at most 16 MiB). Ids match transformers 5's BertTokenizer. From
     tokenizer_config.json the function reads do_lower_case (default true), strip_accents (default:
     do_lower_case) and tokenize_chinese_chars (default true). Special and added tokens other than
     BERT's are rejected.

   If the folder has several kinds of files, tokenizer_class in tokenizer_config.json decides or, if
   there is none, model_type in config.json: GPT-2 and BERT use their own files, all other models
   tokenizer.json. If neither key is given, GPT-2's or BERT's own files are used.

   Errors: SYN_E_IO; SYN_E_FORMAT with file and line; SYN_E_UNSUPPORTED, also if the build lacks
   PCRE2 (for GPT-2 and most tokenizer.json files) or utf8proc (for BERT). */
syn_status syn_tokenizer_load(syn_tokenizer **out, const char *folder, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_tokenizer_free(syn_tokenizer *tok);
/* A hash of all files of the folder that affect the tokenizer. */
syn_status syn_tokenizer_checksum(const char *folder, uint64_t *out, syn_error *err) SYN_MUST_USE;

syn_tokenizer_kind syn_tokenizer_kind_of(const syn_tokenizer *tok);
/* "bytes", "gpt2-bpe" or "bert-wordpiece"; for a tokenizer.json "bpe" or "wordpiece". */
const char *syn_tokenizer_name(const syn_tokenizer *tok);
/* Ids are 0 .. size - 1, added tokens included. */
int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok);
/* The number of added tokens that are not in the vocabulary file. They have the highest ids. */
int32_t syn_tokenizer_added(const syn_tokenizer *tok);
/* The id of the added or special token with that text; -1 if there is none. BERT's "[UNK]",
   "[SEP]", "[PAD]", "[CLS]", "[MASK]" and GPT-2's "<|endoftext|>" count as special. */
int32_t syn_tokenizer_special(const syn_tokenizer *tok, const char *text);
/* The same for "[CLS]", "[SEP]", "[MASK]", "[PAD]" and "[UNK]". In BPE tokenizers, which RoBERTa
   has, these are "<s>", "</s>", "<mask>", "<pad>" and "<unk>". */
int32_t syn_tokenizer_bert_special(const syn_tokenizer *tok, const char *text);
/* The id of the token that begins texts (never BERT's); -1 if there is none. */
int32_t syn_tokenizer_bos(const syn_tokenizer *tok);
/* The id of the token that ends texts: "<|endoftext|>", or for a tokenizer.json the eos_token of
   tokenizer_config.json; -1 if there is none. */
int32_t syn_tokenizer_eos(const syn_tokenizer *tok);
/* The text of one token, such as "##ing"; for byte-level BPE, the token's bytes. It is not
   NUL-terminated, and the tokenizer owns it. NULL and 0 bytes if the id does not exist. */
const char *syn_tokenizer_token(const syn_tokenizer *tok, int32_t id, size_t *bytes);

/* The text of one token as the vocabulary file spells it. Byte-level BPE spells bytes as GPT-2
   does: " the" is "\u0120the". The caller frees *piece with syn_free. Fails with SYN_E_INVALID if
   the id does not exist. */
syn_status syn_tokenizer_piece(const syn_tokenizer *tok, int32_t id, char **piece, size_t *bytes,
                               syn_error *err) SYN_MUST_USE;

/* Encodes a text. The byte tokenizer accepts any bytes. Other tokenizers need UTF-8, and otherwise
   fail with SYN_E_INVALID and the offset of the first bad byte. Special and added tokens in the
   text become single ids. Only BPE tokenizers put tokens such as bos and eos around the text, and
   only if their files specify it. The caller frees *ids with syn_free. *ids is never NULL on
   success. */
syn_status syn_tokenizer_encode(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                int32_t **ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
/* A complete encoding; all arrays have n elements. */
typedef struct syn_encoding {
    int32_t *ids, *types;
    uint32_t (*offsets)[2]; /* range [begin, end) of the token in the text, in characters (code
                               points); (0, 0) for tokens put around the text */
    size_t n;
} syn_encoding;
/* Encodes a text with types and offsets, like HuggingFace's `encode`. special: whether to put
   tokens such as bos and eos around the text, as the files specify. Slower than
   syn_tokenizer_encode. Offsets of the byte tokenizer are in bytes. */
syn_status syn_tokenizer_encode_text(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                     bool special, syn_encoding *out, syn_error *err) SYN_MUST_USE;
void syn_encoding_free(syn_encoding *encoding);
/* Encodes the input of a BERT model: [CLS] a [SEP], or [CLS] a [SEP] b [SEP] if b is not NULL;
   *types is 0 up to the first [SEP] and 1 after it. If a tokenizer.json has a post_processor, it
   determines the result instead. The text is not truncated. The caller frees *ids and *types. Fails
   with SYN_E_INVALID if the tokenizer.json has no post_processor, or if the vocabulary lacks [CLS]
   or [SEP]. */
syn_status syn_tokenizer_encode_pair(const syn_tokenizer *tok, const char *a, size_t a_bytes,
                                     const char *b, size_t b_bytes, int32_t **ids, int32_t **types,
                                     size_t *elems, syn_error *err) SYN_MUST_USE;
/* Decodes ids. *text has *text_bytes bytes and a NUL after them; the caller frees it with syn_free.
   The result is that of the tokenizer.json's decoder, with one exception: byte-level BPE returns
   the original bytes, which may begin or end within a UTF-8 character, where HuggingFace writes
   U+FFFD. With BERT's vocab.txt, tokens are joined with spaces, except before "##". This equals
   HuggingFace's decode(clean_up_tokenization_spaces=False), for the fast tokenizer with the
   decoder's cleanup off. Fails with SYN_E_INVALID if an id is outside the vocabulary. */
syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) SYN_MUST_USE;
/* Decodes the part of the text that later ids cannot change, for printing text while it is
   generated. This omits, for example, the first bytes of an incomplete character and, with byte
   fallback, bytes that later bytes may complete. The text is empty if the decoder can still change
   all of it. */
syn_status syn_tokenizer_decode_begun(const syn_tokenizer *tok, const int32_t *ids,
                                      size_t ids_elems, char **text, size_t *text_bytes,
                                      syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
