/* Steps of training: backward passes, data parallelism and an optimizer, and what is done when a
   number is not finite. */
#ifndef MODELS_TRAINER_H
#define MODELS_TRAINER_H

#include "models/training/optimizer.h"

SYN_API_BEGIN

typedef struct syn_trainer syn_trainer;

typedef struct syn_trainer_options {
    syn_optimizer_options optimizer;
    const syn_group *dp; /* ranks with other texts, as in syn_data_parallel_new; NULL: one */
    int passes;          /* backward passes each step adds up (accumulation); 0: 1 */
    /* Where ops go on after calls (syn_ctx_goes_on), and gradients are clipped or unchecked: a step
       does not wait for its loss and norm, the next one does, when its passes are asked for; so the
       device goes on meanwhile. What is not finite is found by then: that call fails for the
       step before, and has done nothing of its own. (Where gradients are finite beside a loss that
       is not, the update has been made.) */
    bool ahead;
} syn_trainer_options;

/* This rank's part of the loss in pass `pass`, from 0, of a step: one f32. The loss is the sum over
   passes and dp's ranks. Called twice for a pass if the loss or a gradient turns out not finite, it
   must do the same both times; `ahead`, the second time may be after the first call for the next
   step, whose arg then is another. */
typedef syn_tensor syn_pass(void *arg, int pass);

/* For the parameters made so far; see syn_data_parallel_new and syn_optimizer_new. The context must
   outlive it. */
syn_status syn_trainer_new(syn_trainer **out, syn_ctx *ctx, const syn_trainer_options *options,
                           syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_trainer_free(syn_trainer *trainer);
/* One step of the context (syn_next_step comes after it). The rows of a step are forgotten when the
   next one begins; see syn_trainer_hold. *loss, unless NULL: the loss before the step; 0 on meta;
   `ahead` that of the last step before (syn_trainer_known).
   Unless optimizer.unchecked, a step whose loss or gradients are not finite fails on all ranks,
   with name, scope and maker of the first such tensor. Parameters, moments and the context are then
   as before the step. */
syn_status syn_trainer_step(syn_trainer *trainer, syn_pass *pass, void *arg, double learning_rate,
                            double *loss, syn_error *err) SYN_MUST_USE;
/* `ahead`: waits for the newest step, and fails where that step is to fail; else nothing. Before
   what depends on it: parameters are read, or saved. */
syn_status syn_trainer_settle(syn_trainer *trainer, syn_error *err) SYN_MUST_USE;
/* The newest step that is known to have been: how many there were with it (0: none), its loss and
   the norm of its gradients, 0 without clipping and on meta. */
typedef struct syn_trained {
    int64_t steps;
    double loss, grad_norm;
} syn_trained;
syn_trained syn_trainer_known(const syn_trainer *trainer);
/* Whether the rows of steps stay when the next one begins, to write a trace of several; at first
   they do not. */
void syn_trainer_hold(syn_trainer *trainer, bool hold);
/* Whether the rows of a pass are forgotten when the pass ends, except the last one's, so that a
   step's rows do not grow with its passes; at first they stay. For steps that are not traced. */
void syn_trainer_forget_passes(syn_trainer *trainer, bool forget);
/* Changes the number of passes, at least 1, from the next step on. */
void syn_trainer_set_passes(syn_trainer *trainer, int passes);
/* The trainer's own. */
syn_optimizer *syn_trainer_optimizer(const syn_trainer *trainer);

SYN_API_END
#endif
