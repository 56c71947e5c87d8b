/* Generation: one prefill, then one decode step a token. All of it is recorded; what depends on
   data (stopping at the end of text) is decided between steps. */
#ifndef MODELS_GENERATE_H
#define MODELS_GENERATE_H

#include "models/causal.h"
#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_generation {
    /* what to do */
    int64_t batch, prompt_tokens, new_tokens; /* new_tokens >= 1 */
    const int32_t *prompt;                    /* (batch, prompt_tokens); NULL on meta */
    const int32_t *padding; /* (batch): how many of them are padding on the left; NULL: none */
    syn_sampling sampling;
    double repetition_penalty; /* of tokens in the prompt, but not its padding, and of those that
                                  were generated, see syn_repetition_penalty; 0 or 1: none */
    syn_stop_criteria end;     /* zero: nothing ends a sequence */
    bool want_logits;          /* copy the logits of the last prompt position */
    /* Called before the first step and after each; NULL: not. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
    /* Called after each step, from 0, with its rows at the trace's end: whether they stay there. If
       not they are forgotten (syn_forget), so that generation takes constant memory. NULL: all
       stay. A failure ends the generation. */
    syn_status (*after_step)(void *user, int64_t step, bool *rows_stay, syn_error *err);
    void *after_step_user;
    /* what came of it (zero before); arrays are the caller's to syn_free, NULL on meta */
    int32_t *tokens;               /* (batch, new_tokens); after the end of a sequence end.fill */
    int64_t made;                  /* steps run: less than new_tokens when every sequence ended */
    float *logits;                 /* (batch, V0), widened */
    int64_t prefill_ns, decode_ns; /* wall time; decode: made - 1 steps */
} syn_generation;

/* Every rank of a tensor-parallel group calls this with the same arguments. Rank 0 of the group
   samples and broadcasts. */
syn_status syn_generate(syn_model *model, syn_generation *g, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
