/* Training steps: combines microbatches, backward passes, data parallelism and the optimizer. If a
 * loss or gradient is not finite, finds the op that caused it. */
#ifndef MODELS_TRAINER_H
#define MODELS_TRAINER_H

#include "models/training/optimizer.h"
#include "models/training/pipeline.h"

SYN_API_BEGIN

typedef struct syn_trainer syn_trainer;

typedef struct syn_trainer_options {
    syn_optimizer_options optimizer;
    const syn_group *edp; /* syn_data_parallel_options.edp */
    const syn_group *dp;  /* data-parallel ranks (syn_data_parallel_new); NULL: one rank */
    /* ZeRO stage and buckets of data parallelism (syn_data_parallel_options). optimizer.norm may be
     * NULL if only one of these groups exists: tp, pp and, with ZeRO, dp. */
    int zero;
    syn_bucket_rule buckets;
    syn_dtype reduce_dtype; /* of sums of gradients over ranks (syn_data_parallel_options) */
    const size_t *chunks;   /* syn_data_parallel_options.chunks */
    int n_chunks;
    /* ZeRO 3: the ranks of dp that divide the parameters (NULL: all), `replicas` and `gather` of
     * syn_data_parallel_options, and the units of the parameters (syn_model_units) */
    const syn_group *shard, *replicas, *gather;
    const uint32_t *units;
    uint32_t n_units, head_unit;
    bool no_reshard;
    int microbatches; /* microbatches per step (gradient accumulation); 0: 1 */
    /* Sum the gradients over dp after the last backward pass, as Megatron-LM does by default,
     * instead of while it runs. */
    bool late_sums;
    /* The pipeline; NULL: this rank has the whole model. Its number of microbatches is
     * `microbatches`. The trainer sets optimizer.copy, optimizer.copies and optimizer.parallel. */
    const syn_pipeline_options *pipeline;
    /* If embedding and head share a table and are on different stages: the name of this parameter,
     * and the group of the first and the last stage, over which the parameter's gradients are
     * summed. NULL on all other stages, and if no table is shared. */
    const char *tied;
    const syn_group *embedding;
    /* A state f32 (1) to which the microbatches of a step add further losses, such as those of
     * routers (syn_router_options); invalid: none. The step's loss includes it, summed over the tp,
     * dp and pp ranks. Each step begins with 0. */
    syn_tensor losses;
    /* Called after each update of the parameters, in phase optimizer. NULL: nothing. */
    void (*updated)(void *user);
    void *updated_user;
    /* On an asynchronous device (syn_ctx_is_async), do not wait for a step's loss and gradient
     * norm: the next step reads them after it has queued its own microbatches, so the device stays
     * busy. A NaN or infinity is therefore reported one step late: the call for step n + 1 fails
     * with step n's error and changes nothing. (If only the loss is not finite, step n's update was
     * made.) Requires clipping or `unchecked`, and has no effect otherwise. */
    bool ahead;
} syn_trainer_options;

/* Prepares the parameters created so far; see syn_data_parallel_new and syn_optimizer_new. The
 * context must outlive the trainer. */
syn_status syn_trainer_new(syn_trainer **out, syn_ctx *ctx, const syn_trainer_options *options,
                           syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_trainer_free(syn_trainer *trainer);
/* Computes this rank's share of the loss for microbatch number `microbatch` of a step, counted from
   0: one f32 scalar. The loss of the step is the sum over microbatches and data-parallel ranks. If
   the loss or a gradient is not finite, the trainer calls the function again for the same
   microbatches, and the function must then compute the same as before. With `ahead`, these calls
   may come after the first call for the next step, but they get the arg of the failed step. */
typedef syn_tensor syn_microbatch_loss(void *arg, int microbatch);
/* Trains one step, then calls syn_next_step. The trace rows of a step are dropped when the next
   step begins, unless syn_trainer_keep_rows is set. If loss is not NULL, *loss becomes the loss
   before the update, or 0 on meta. With `ahead`, it becomes the loss of the previous step instead
   (syn_trainer_last_result). Unless optimizer.unchecked, a step whose loss or gradients are not
   finite fails on all ranks. The message has name, scope and op of the first tensor that is not
   finite. Parameters, moments and the context are then as before the step. */
syn_status syn_trainer_step(syn_trainer *trainer, syn_microbatch_loss *forward, void *arg,
                            double learning_rate, double *loss, syn_error *err) SYN_MUST_USE;
/* The same for a trainer with a pipeline. All stages get the loss. */
syn_status syn_trainer_step_stage(syn_trainer *trainer, syn_stage_forward *forward, void *arg,
                                  double learning_rate, double *loss, syn_error *err) SYN_MUST_USE;
/* Computes the loss of one microbatch without gradients, for validation. All stages get the result,
 * the sum of the losses of the data-parallel ranks. The caller releases it. `forward` is called for
 * microbatch 0. */
syn_tensor syn_trainer_evaluate(syn_trainer *trainer, syn_stage_forward *forward, void *arg);
/* With `ahead`, waits for the last step, and fails if that step fails. Without `ahead`, does
 * nothing. Call it before you read or save parameters. */
syn_status syn_trainer_settle(syn_trainer *trainer, syn_error *err) SYN_MUST_USE;
/* The last step whose result is known. steps: the number of steps up to and including this one; 0:
 * none. grad_norm is 0 without clipping and on meta. */
typedef struct syn_step_result {
    int64_t steps;
    double loss, grad_norm;
} syn_step_result;
syn_step_result syn_trainer_last_result(const syn_trainer *trainer);
/* Sets whether the trace rows of a step are kept when the next step begins, for traces of several
 * steps. Off by default. */
void syn_trainer_keep_rows(syn_trainer *trainer, bool keep);
/* Sets whether the trace rows of each microbatch but the last are dropped when it ends, so that
 * memory does not grow with the number of microbatches. For steps that are not traced. Off by
 * default. */
void syn_trainer_forget_microbatches(syn_trainer *trainer, bool forget);
/* Sets the number of microbatches per step, at least 1, from the next step on. Fails if the
   pipeline's schedule does not exist for this number. */
syn_status syn_trainer_set_microbatches(syn_trainer *trainer, int microbatches,
                                        syn_error *err) SYN_MUST_USE;
/* Owned by the trainer. */
syn_optimizer *syn_trainer_optimizer(const syn_trainer *trainer);

SYN_API_END
#endif
