/* Batches of texts as models take them: padded to one length, with what is to be predicted. Which
   words are hidden follows from seed, epoch, text and position alone: the same on any number of
   ranks, in any order. */
#ifndef MODELS_BATCHES_H
#define MODELS_BATCHES_H

#include "models/training/texts.h"

SYN_API_BEGIN

/* What becomes of the 15 % of the tokens that are to be predicted; special ones never are. */
typedef enum syn_masking {
    SYN_MASKING_BERT, /* 80 % are [MASK], 10 % any token, 10 % stay (Devlin et al. 2019) */
    SYN_MASKING_ONLY  /* 80 % are [MASK], 20 % stay */
} syn_masking;

typedef struct syn_batch_how {
    int64_t tokens; /* T, of each text: shorter ones are padded at their end, longer ones cut */
    int32_t pad;    /* the token to pad with */
    bool causal;    /* the next token is predicted, else those that masking chose */
    bool predict_padding; /* causal: that is predicted, too */
    /* Not causal: */
    syn_masking masking;
    int32_t mask, vocab;    /* [MASK]; how many ids there are */
    const int32_t *special; /* ids that are never chosen, n_special of them */
    int n_special;
    uint64_t seed;
    int64_t epoch;
} syn_batch_how;

/* (n, T) each; NULL where it is not wanted. */
typedef struct syn_batch {
    int32_t *ids;
    int32_t *labels; /* SYN_IGNORED_TARGET where nothing is predicted */
    int32_t *types;
    float *mask; /* 0; -infinity on padding: see syn_scale_mask */
} syn_batch;

/* Text which[i] of the texts as row i, where it is -1 padding of which nothing counts; returns how
   many labels count. */
int64_t syn_batch_fill(const syn_batch *out, const syn_texts *texts, const int64_t *which,
                       int64_t n, const syn_batch_how *how);

SYN_API_END
#endif
