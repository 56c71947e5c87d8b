/* What BERT's part of the inference program (inference_fill.c) prepares, and what a rank makes of
   it (inference_fill_rank.c). */
#ifndef TOOLS_INFERENCE_FILL_H
#define TOOLS_INFERENCE_FILL_H

#include "tools/inference/inference_score.h"

typedef struct filling {
    int32_t cls, sep, mask, pad; /* ids; mask -1: nobody knows, and all positions are predicted */
    int32_t *ids;                /* (batch, T) */
    float *padding;              /* (batch, T): 0, or -infinity behind a short sequence; NULL */
    int32_t *n_padding;          /* (batch): tokens of it, likewise */
    int32_t *masks;              /* (n_masks): positions among all batch * T */
    int64_t n_masks, n_top, n_tokens; /* n_tokens: without padding */
    /* rank 0's (over MPI: this rank's) results */
    float *logits; /* (n_masks, V0), if wanted */
    float *top;    /* (n_masks, n_top): probabilities, largest first */
    int32_t *best; /* (n_masks, n_top): their ids */
    int64_t forward_ns;
} filling;

/* One rank: predicts the masks, and scores every position if that is wanted. */
syn_status inference_fill_rank(inference *run, syn_model *model, bool progress_shown,
                               syn_error *err) SYN_MUST_USE;

#endif
