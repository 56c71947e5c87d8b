/* Evaluates causal models on whole sequences, without caches or generated tokens: hidden states,
   logits of every position, and the loss of each token. */
#ifndef MODELS_SCORE_H
#define MODELS_SCORE_H

#include "models/causal.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* tokens (B, T) i32 -> hidden states (B, T, C) in the model's dtype, the same on all ranks: the
   output of the last layer after the final norm (transformers' last_hidden_state). Needs a whole
   model. Sequences begin at position 0. Padding after a shorter sequence does not change its hidden
   states. Does not change the caches. The function releases its intermediate tensors; the caller
   releases the result. */
syn_tensor syn_causal_hidden(syn_model *model, syn_tensor tokens);
/* Rows of these hidden states, (N, C) -> logits (N, V0), the same on all ranks. */
syn_tensor syn_causal_logits(syn_model *model, syn_tensor hidden);
/* Rows of hidden states (N, C) and targets (N) i32 -> the mean of -log p(target), a scalar
   (syn_cross_entropy). Each rank computes only its shard of the logits. */
syn_tensor syn_causal_target_loss(syn_model *model, syn_tensor hidden, syn_tensor targets);
/* The number of rows of logits that take at most 64 MiB per rank; at least one.
   whole: rows of all V0 logits; otherwise rows of the rank's shard. */
int64_t syn_logits_rows(const syn_model *model, bool whole);

/* Computes the perplexity of a text that is longer than the model's positions, as HuggingFace's
   page "Perplexity of fixed-length models" does. A window of max_length tokens begins every
   `stride` tokens. Each window predicts the tokens that earlier windows did not contain. Its mean
   loss is weighted by the number of these tokens minus one. */
typedef struct syn_perplexity {
    /* inputs */
    const int32_t *tokens; /* (n_tokens); NULL on meta */
    int64_t n_tokens;      /* at least 2 */
    int64_t max_length;    /* 2 to the number of the model's positions */
    int64_t stride;        /* 1 to max_length */
    /* Called before the first window and after each window; may be NULL. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
    /* Called after each window, numbered from 0. *keep_rows works as in syn_generation. NULL: all
       rows stay. A failure ends the run. */
    syn_status (*after_window)(void *user, int64_t window, bool *keep_rows, syn_error *err);
    void *after_window_user;
    /* results, zero before the call */
    int64_t windows, counted; /* counted: the sum of the windows' weights */
    double mean_loss;         /* NaN on meta; the perplexity is its exponential */
    int64_t ns;               /* wall time */
} syn_perplexity;

/* Collective over the tensor-parallel group: all ranks call it with the same arguments. Fails if a
   loss is NaN or infinite. */
syn_status syn_perplexity_run(syn_model *model, syn_perplexity *perplexity,
                              syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
