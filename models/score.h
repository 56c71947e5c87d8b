/* What causal models make of whole texts, without caches and new tokens: hidden states, logits of
   every position, and how well each token is predicted. */
#ifndef MODELS_SCORE_H
#define MODELS_SCORE_H

#include "models/causal.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* tokens (B, T) i32 of a whole model -> (B, T, C) of its dtype, the same on all ranks: what the
   last layer gives, behind the last normalisation (transformers' last_hidden_state). Texts begin
   at position 0; what stands behind a shorter one changes nothing before it. Leaves the caches
   alone. Intermediate data are released, the result stays until the caller releases it. */
syn_tensor syn_causal_hidden(syn_model *model, syn_tensor tokens);
/* Rows of such states, (N, C) -> logits (N, V0), the same on all ranks. */
syn_tensor syn_causal_logits(syn_model *model, syn_tensor hidden);
/* The same, and targets (N) i32 -> the mean of -log p(target), a scalar: see syn_cross_entropy.
   Ranks keep their parts of the logits. */
syn_tensor syn_causal_target_loss(syn_model *model, syn_tensor hidden, syn_tensor targets);
/* How many rows of logits should be made at once, so that they take no more than 64 MiB on a
   rank; at least one. `whole`: all V0 of them, else the rank's part. */
int64_t syn_logits_rows(const syn_model *model, bool whole);

/* The perplexity of a text longer than a model's positions, as HuggingFace's page "Perplexity of
   fixed-length models" computes it: windows of max_length tokens begin every `stride` tokens, each
   predicts those of its tokens that the windows before it did not have, and its mean loss counts
   as often as these are, less one. */
typedef struct syn_perplexity {
    /* what to do */
    const int32_t *tokens; /* (n_tokens); NULL on meta */
    int64_t n_tokens;      /* at least 2 */
    int64_t max_length;    /* 2 to the model's positions */
    int64_t stride;        /* 1 to max_length */
    /* Called before the first window and after each; NULL: not. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
    /* Called after each window, from 0, with its rows at the trace's end: whether they stay there,
       see syn_generation. NULL: all stay. A failure ends the run. */
    syn_status (*after_window)(void *user, int64_t window, bool *rows_stay, syn_error *err);
    void *after_window_user;
    /* what came of it (zero before) */
    int64_t windows, counted; /* counted: the sum of the windows' weights */
    double mean_loss;         /* NaN on meta; the perplexity is its exponential */
    int64_t ns;               /* wall time */
} syn_perplexity;

/* Every rank of a tensor-parallel group calls this with the same arguments. Fails if a loss is not
   a finite number. */
syn_status syn_perplexity_run(syn_model *model, syn_perplexity *perplexity,
                              syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
