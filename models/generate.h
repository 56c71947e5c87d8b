/* Text generation: one prefill step, then one decode step per token. All ops are recorded.
   Decisions that depend on data, such as stopping at the end of a sequence, are made between
   steps. */
#ifndef MODELS_GENERATE_H
#define MODELS_GENERATE_H

#include "models/causal.h"
#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_generation {
    /* inputs */
    const syn_group *pp; /* the ranks that have the parts of the model, in order, as the stages of a
                            pipeline; NULL: this rank's model is whole */
    const syn_group *together; /* the ranks with other sequences that share experts with this rank.
                                  All of them run as many steps as the one that needs most. NULL:
                                  none */
    int64_t batch, prompt_tokens, new_tokens; /* new_tokens >= 1 */
    const int32_t *prompt;                    /* (batch, prompt_tokens); NULL on meta */
    const int32_t
        *padding; /* (batch): number of padding tokens on the left of each prompt; NULL: none */
    syn_sampling sampling;
    double repetition_penalty; /* penalty for tokens that are in the prompt (padding excluded) or
                                  were generated, see syn_repetition_penalty; 0 or 1: none */
    syn_stop_criteria end;     /* all zero: sequences never end */
    bool want_logits;  /* copy the logits of the last prompt position, on ranks that have them */
    bool share_logits; /* in a pipeline: broadcast these logits from the last stage to all stages;
                          the same on all ranks */
    /* Called before the first step and after each step; may be NULL. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
    /* Called after each step, numbered from 0, while the step's rows are the last of the trace. Set
       *keep_rows to false to remove these rows (syn_forget), so that memory does not grow with the
       number of steps. NULL: all rows stay. A failure ends the generation. */
    syn_status (*after_step)(void *user, int64_t step, bool *keep_rows, syn_error *err);
    void *after_step_user;
    /* Results; zero before the call. The caller frees the arrays with syn_free. On meta they are
       NULL. */
    int32_t *tokens; /* (batch, new_tokens); end.fill after the end of a sequence */
    int64_t made;    /* number of steps run: less than new_tokens if every sequence ended earlier */
    float *logits;   /* (batch, V0), converted to f32; NULL if this rank has none */
    int64_t prefill_ns, decode_ns; /* wall time; decode_ns covers made - 1 steps */
} syn_generation;

/* Collective over the tensor-parallel group, g->pp and g->together: all ranks call it with the same
   arguments, except that the ranks of g->together have other prompts and may have other seeds.
   All ranks of the tensor-parallel group sample, and its first rank broadcasts its tokens to the
   others. In a pipeline, the batch passes through the stages one after the other, and the last
   stage broadcasts the sampled tokens to all stages. */
syn_status syn_generate(syn_model *model, syn_generation *g, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
