/* Tokenizers of GPT and BERT: text to ids and back. A tokenizer is immutable once opened, so any
   number of threads may use one at the same time. */
#ifndef MODELS_TOKENIZER_H
#define MODELS_TOKENIZER_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_tokenizer syn_tokenizer;

typedef enum syn_tokenizer_kind {
    SYN_TOKENIZER_BYTES,
    SYN_TOKENIZER_BPE,      /* GPT-2's and that of those after it */
    SYN_TOKENIZER_WORDPIECE /* BERT's */
} syn_tokenizer_kind;

/* The tokenizer that needs no files: an id is the value of a byte, 0..255. */
syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) SYN_MUST_USE;
/* The tokenizer of a folder, which may hold three kinds of files:
   - tokenizer.json (at most 64 MiB), HuggingFace's file for all of a tokenizer. Ids, texts and
     offsets are those of its tokenizers library (0.23) for the models BPE and WordPiece; what of
     such a file is not known here is refused by its name. tokenizer_config.json then only says
     which tokens begin and end a text. Unigram and what a SentencePiece file says are not read.
   - vocab.json and merges.txt of GPT-2 (each at most 64 MiB). The ids are those of transformers 5's
     GPT2Tokenizer. Of tokenizer_config.json count add_prefix_space, add_bos_token, add_eos_token,
     all special tokens and added_tokens_decoder with its flags; without the last also
     special_tokens_map.json, added_tokens.json and the added_tokens of a tokenizer.json, of which
     also the post_processor counts. split_special_tokens and ids with gaps are refused.
   - vocab.txt of BERT (at most 16 MiB). The ids are those of transformers 5's BertTokenizer. Of
     tokenizer_config.json count do_lower_case (true unless said), strip_accents (as do_lower_case)
     and tokenize_chinese_chars (true); special and added tokens that are not BERT's own are
   refused. Of several, the tokenizer_class in tokenizer_config.json or else the model_type in
   config.json decides: GPT-2's and BERT's read their own files, all others tokenizer.json. Where
   neither says anything, GPT-2's or BERT's own files count. SYN_E_UNSUPPORTED also in a build
   without PCRE2 (GPT-2, most of tokenizer.json) or utf8proc (BERT); SYN_E_IO; SYN_E_FORMAT with the
   file and line. */
syn_status syn_tokenizer_load(syn_tokenizer **out, const char *folder, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_tokenizer_free(syn_tokenizer *tok);
/* A number that another one of the folder's files that count here would change. */
syn_status syn_tokenizer_checksum(const char *folder, uint64_t *out, syn_error *err) SYN_MUST_USE;

syn_tokenizer_kind syn_tokenizer_kind_of(const syn_tokenizer *tok);
/* "bytes", "gpt2-bpe" or "bert-wordpiece"; of a tokenizer.json "bpe" or "wordpiece". */
const char *syn_tokenizer_name(const syn_tokenizer *tok);
/* Ids are 0 .. size - 1. */
int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok);
/* How many of them, the last, are tokens that were added to the vocabulary. */
int32_t syn_tokenizer_added(const syn_tokenizer *tok);
/* Id of an added token, which those of a vocabulary that are special count as, too: "[UNK]",
   "[SEP]",
   "[PAD]", "[CLS]", "[MASK]" of BERT, "<|endoftext|>" of GPT-2; -1 if it is none. */
int32_t syn_tokenizer_special(const syn_tokenizer *tok, const char *text);
/* Id of the token that begins texts (not BERT's), -1 if there is none. */
int32_t syn_tokenizer_bos(const syn_tokenizer *tok);
/* Id of the token that ends texts: "<|endoftext|>", of a tokenizer.json the eos_token of
   tokenizer_config.json; -1 if there is none. */
int32_t syn_tokenizer_eos(const syn_tokenizer *tok);
/* The text of one token ("##ing"; of byte-level BPE its bytes), not NUL-terminated, the tokenizer's
   own; NULL and 0 bytes if there is no such id. */
const char *syn_tokenizer_token(const syn_tokenizer *tok, int32_t id, size_t *bytes);

/* The same as the vocabulary's file spells it: bytes of byte-level BPE as GPT-2 does ("\u0120the"
 *for " the"). piece is the caller's, to be freed with syn_free. An id that is not one is
 *SYN_E_INVALID. */
syn_status syn_tokenizer_piece(const syn_tokenizer *tok, int32_t id, char **piece, size_t *bytes,
                               syn_error *err) SYN_MUST_USE;

/* The ids of `text` (any bytes for the byte tokenizer, else UTF-8, or SYN_E_INVALID with the offset
   of the first bad byte). A special or added token in the text becomes its single id; none is put
   around it but what the files of BPE ask for. *ids is the caller's, to be freed with syn_free;
   never NULL after success. */
syn_status syn_tokenizer_encode(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                int32_t **ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
/* What a text becomes; all arrays have n elements. */
typedef struct syn_encoding {
    int32_t *ids, *types;
    uint32_t (*offsets)[2]; /* each is from these characters (code points) of the text: from the
                               first up to, but without, the second; 0, 0: it was put around */
    size_t n;
} syn_encoding;
/* The same with all that HuggingFace's `encode` tells, and with what the files put around a text
   or, if not `special`, without. Slower. Offsets of the byte tokenizer are in bytes. */
syn_status syn_tokenizer_encode_text(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                     bool special, syn_encoding *out, syn_error *err) SYN_MUST_USE;
void syn_encoding_free(syn_encoding *encoding);
/* The input of a BERT model: [CLS] a [SEP], or [CLS] a [SEP] b [SEP] if b is not NULL; *types has 0
   up to the first [SEP] and 1 after. Both are the caller's. Nothing is cut to a model's length.
   As the post_processor of a tokenizer.json says, if it has one. SYN_E_INVALID if it has none or
   the vocabulary lacks [CLS] or [SEP]. */
syn_status syn_tokenizer_encode_pair(const syn_tokenizer *tok, const char *a, size_t a_bytes,
                                     const char *b, size_t b_bytes, int32_t **ids, int32_t **types,
                                     size_t *elems, syn_error *err) SYN_MUST_USE;
/* The text of the ids, NUL-terminated beyond *text_bytes, to be freed with syn_free. It is what
   the decoder of a tokenizer.json makes; but byte-level BPE gives back the bytes that were encoded,
   which may begin or end inside a UTF-8 character, where HuggingFace's has U+FFFD. BERT's vocab.txt
   joins tokens with a space, or without one before "##" (HuggingFace's
   decode(clean_up_tokenization_spaces=False); of its fast tokenizer also the decoder's cleanup is
   off). An id outside the vocabulary is SYN_E_INVALID. */
syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) SYN_MUST_USE;
/* How that text begins, whatever ids may follow these: without what they could still change, as the
   first bytes of a character or, with byte fallback, bytes that others may join. So texts can be
   shown while they come. Nothing at all where a decoder makes texts whose ends follow from all of
   it. */
syn_status syn_tokenizer_decode_begun(const syn_tokenizer *tok, const int32_t *ids,
                                      size_t ids_elems, char **text, size_t *text_bytes,
                                      syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
