/* Fills batches of samples for a model: pads them to one length and sets the labels. The masked
 * positions depend only on seed, epoch, sample and position, so they are the same for any number of
 * ranks and any order of samples. */
#ifndef MODELS_BATCHES_H
#define MODELS_BATCHES_H

#include "models/training/texts.h"

SYN_API_BEGIN

/* What the model sees in place of the 15 % of tokens that it must predict. Special tokens are never
 * among them. */
typedef enum syn_masking {
    SYN_MASKING_BERT, /* 80 % [MASK], 10 % a random token, 10 % unchanged (Devlin et al. 2019) */
    SYN_MASKING_ONLY  /* 80 % are [MASK], 20 % unchanged */
} syn_masking;

typedef struct syn_batch_how {
    int64_t tokens;       /* sequence length T: shorter samples are padded at their end, longer ones
                             truncated */
    int32_t pad;          /* id of the padding token */
    bool causal;          /* predict the next token; otherwise predict masked tokens */
    bool predict_padding; /* causal: padding tokens are targets, too */
    /* The rest is for masked tokens only: */
    syn_masking masking;
    int32_t mask, vocab;    /* id of [MASK]; size of the vocabulary */
    const int32_t *special; /* n_special ids that are never masked */
    int n_special;
    uint64_t seed;
    int64_t epoch;
} syn_batch_how;

/* Arrays of the caller, (n, T) each; NULL: not wanted. */
typedef struct syn_batch {
    int32_t *ids;
    int32_t *labels; /* SYN_IGNORED_TARGET where nothing is predicted */
    int32_t *types;
    float *mask; /* 0, and -infinity on padding: see syn_scale_mask */
} syn_batch;

/* Fills n rows: row i with sample which[i], or, if that is -1, with padding that has no labels and
 * no -infinity in its mask. Returns the number of labels that are not ignored. */
int64_t syn_batch_fill(const syn_batch *out, const syn_texts *texts, const int64_t *which,
                       int64_t n, const syn_batch_how *how);

SYN_API_END
#endif
