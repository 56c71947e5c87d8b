/* BERT in the inference program: the data that inference_fill.c prepares and inference_fill_rank.c
   runs on one rank. B is the batch size, T the padded length, V0 the vocabulary size. */
#ifndef TOOLS_INFERENCE_FILL_H
#define TOOLS_INFERENCE_FILL_H

#include "tools/inference/inference_score.h"

typedef struct filling {
    int32_t cls, sep, mask, pad; /* token ids; mask -1: unknown, so every position is predicted */
    int32_t *ids;                /* (B, T) */
    float *padding; /* (B, T): 0, and -infinity after the end of shorter sequences; NULL: none is
                       shorter */
    int32_t *n_padding; /* (B): padding tokens of each sequence; NULL: none */
    int32_t *masks;     /* (n_masks): positions to predict, as indices into the B * T ids */
    int64_t n_masks, n_top,
        n_tokens; /* n_top: number of predictions per position; n_tokens: without padding */
    /* Results of rank 0; over MPI, of this process's rank. */
    float *logits; /* (n_masks, V0) if --save_logits is given, else NULL */
    float *top;    /* (n_masks, n_top): probabilities, largest first */
    int32_t *best; /* (n_masks, n_top): token ids with these probabilities */
    int64_t forward_ns;
} filling;

/* Runs one rank: predicts the masked tokens, and scores every position if an option asks for it. */
syn_status inference_fill_rank(inference *run, const inference_rank *self,
                               syn_error *err) SYN_MUST_USE;

#endif
