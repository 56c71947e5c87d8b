/* Fills batches of samples for a model: pads them to one length and sets the labels. The masked
 * positions depend only on seed, epoch, sample and position, so they are the same for any number of
 * ranks and any order of samples. */
#ifndef MODELS_BATCHES_H
#define MODELS_BATCHES_H

#include "models/training/texts.h"

SYN_API_BEGIN

/* What the model sees in place of the tokens that it must predict: 15 % of all tokens, never
 * special tokens. */
typedef enum syn_masking {
    SYN_MASKING_BERT, /* 80 % [MASK], 10 % a random token, 10 % unchanged (Devlin et al. 2019) */
    SYN_MASKING_ONLY  /* 80 % [MASK], 20 % unchanged */
} syn_masking;

typedef struct syn_batch_options {
    int64_t tokens;       /* sequence length T: shorter samples are padded at their end, longer ones
                             truncated */
    int32_t pad;          /* id of the padding token */
    bool causal;          /* predict the next token; otherwise predict masked tokens */
    bool predict_padding; /* only if causal: padding tokens are targets, too */
    /* The members below are only for the prediction of masked tokens: */
    syn_masking masking;
    int32_t mask, vocab;    /* id of [MASK]; size of the vocabulary */
    const int32_t *special; /* n_special ids that are never masked */
    int n_special;
    uint64_t seed;
    int64_t epoch;
} syn_batch_options;

/* The caller's arrays to fill, (n, T) each. NULL: not needed. */
typedef struct syn_batch {
    int32_t *ids;
    int32_t *labels; /* SYN_IGNORED_TARGET where nothing is predicted */
    int32_t *types;
    float *mask; /* 0 at tokens, -infinity at padding (syn_scale_mask) */
} syn_batch;

/* Fills n rows. Row i gets sample which[i]; if that is -1, it gets padding, with labels that are
 * all ignored and a mask that is all 0. Returns the number of labels that are not ignored. */
int64_t syn_batch_fill(const syn_batch *out, const syn_texts *texts, const int64_t *which,
                       int64_t n, const syn_batch_options *how);

SYN_API_END
#endif
