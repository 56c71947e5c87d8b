/* The steps of a tokenizer, as HuggingFace's tokenizers library defines them: normalizers change a
   text, pre-tokenizers split it into words, the model converts words to tokens, post-processors put
   tokens around a text, and decoders convert tokens back to text. Each of these objects in
   tokenizer.json becomes one or more steps. Shared by tokenizer_*.c. */
#ifndef MODELS_TOKENIZER_STEPS_PRIVATE_H
#define MODELS_TOKENIZER_STEPS_PRIVATE_H

#include "models/tokenizer/tokenizer_regex_private.h"
#include "models/tokenizer/tokenizer_unicode_private.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__step_kind {
    /* normalizers */
    SYN__NORM_BERT_CLEAN, /* BertNormalizer: control characters, ideographs */
    SYN__NORM_BERT_FOLD,  /* BertNormalizer: accents, case */
    SYN__NORM_LOWERCASE,
    SYN__NORM_STRIP,
    SYN__NORM_STRIP_ACCENTS,
    SYN__NORM_PREPEND, /* prepends `text` */
    SYN__NORM_REPLACE, /* replaces matches of pattern or regex by `text` */
    SYN__NORM_NFC,
    SYN__NORM_NFD,
    SYN__NORM_NFKC,
    SYN__NORM_NFKD,
    /* pre-tokenizers */
    SYN__CUT_PREFIX, /* does not split: prefixes a space to texts that do not begin with one */
    SYN__CUT_SPELL,  /* does not split: spells bytes as GPT-2 does */
    SYN__CUT_SPLIT,  /* splits at pattern or regex */
    SYN__CUT_META,   /* Metaspace; `text` replaces spaces */
    SYN__CUT_BERT,
    SYN__CUT_SPACE,
    SYN__CUT_PUNCTUATION,
    /* decoders */
    SYN__DECODE_BYTES,
    SYN__DECODE_WORDPIECE, /* `text` is the prefix */
    SYN__DECODE_META,
    SYN__DECODE_FALLBACK,
    SYN__DECODE_FUSE,
    SYN__DECODE_STRIP,
    SYN__DECODE_REPLACE,
    /* post-processors */
    SYN__POST_TRIM,    /* excludes white space from offsets */
    SYN__POST_TEMPLATE /* the template itself is in the tokenizer */
} syn__step_kind;

typedef enum syn__behavior {
    SYN__REMOVED,
    SYN__ISOLATED,
    SYN__WITH_PREVIOUS,
    SYN__WITH_NEXT,
    SYN__CONTIGUOUS
} syn__behavior;

typedef enum syn__scheme { SYN__ALWAYS, SYN__FIRST, SYN__NEVER } syn__scheme;

typedef struct syn__step {
    syn__step_kind kind;
    char *text, *pattern;
    size_t text_bytes, pattern_bytes;
    syn__regex *regex;                      /* if set, pattern is NULL */
    bool clean, ideographs, accents, lower; /* BertNormalizer: which parts to do */
    bool left, right;                       /* Strip: which ends to strip */
    bool split;                             /* Metaspace: also split at `text` */
    bool invert, cleanup;
    bool prefix_space; /* for SYN__POST_TRIM */
    syn__behavior behavior;
    syn__scheme scheme;
    size_t start, stop; /* decoder Strip: maximum number of removals at each end */
} syn__step;

typedef struct syn__steps {
    syn__step *at;
    size_t n, cap;
} syn__steps;

syn_status syn__steps_add(syn__steps *steps, syn__step_kind kind, syn__step **step,
                          syn_error *err) SYN_MUST_USE;
void syn__steps_free(syn__steps *steps);

/* A UTF-8 text or a part of one. If offsets are tracked, byte i came from the input characters
   [from[i], to[i]); otherwise from and to are NULL. */
typedef struct syn__text {
    const char *at;
    size_t n;
    const uint32_t *from, *to;
    bool is_first; /* the text is at the beginning of the input */
} syn__text;

/* A text that grows. */
typedef struct syn__text_buffer {
    char *at;
    uint32_t *from, *to;
    size_t n, cap, from_cap, to_cap;
} syn__text_buffer;

void syn__text_buffer_free(syn__text_buffer *buffer);
/* Appends bytes; `followed`: offsets are tracked, and all bytes came from characters [from, to). */
syn_status syn__text_put(syn__text_buffer *out, bool followed, const char *bytes, size_t n,
                         uint32_t from, uint32_t to, syn_error *err) SYN_MUST_USE;
/* Appends a part of a text with its offsets. */
syn_status syn__text_copy(syn__text_buffer *out, const syn__text *in, size_t begin, size_t end,
                          syn_error *err) SYN_MUST_USE;
syn__text syn__text_of(const syn__text_buffer *buffer, bool followed, bool is_first);
/* The part in.at[begin .. end). */
syn__text syn__text_part(const syn__text *in, size_t begin, size_t end);

/* Working memory of normalizers. */
typedef struct syn__normal_work {
    const syn__composer *composer; /* if a step composes */
    syn__match *match;             /* if a step has a regular expression */
    syn__text_buffer buffers[2];
    struct syn__unit *units, *composed;
    size_t units_cap, composed_cap;
} syn__normal_work;
void syn__normal_work_free(syn__normal_work *work);
/* Runs all normalizers. *out is *in or a text in a buffer of `work`, which is valid until the next
   call. */
syn_status syn__normalize(const syn__steps *steps, syn__normal_work *work, const syn__text *in,
                          syn__text *out, syn_error *err) SYN_MUST_USE;
/* Finds the next match of a step's pattern or regular expression at or after `from`. If there is
   none, *begin = *end = n. */
syn_status syn__step_find(const syn__step *step, syn__match *match, const char *text, size_t n,
                          size_t from, size_t *begin, size_t *end, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
