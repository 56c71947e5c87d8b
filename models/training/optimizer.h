/* AdamW over all parameters of a context, with clipping by their gradients' norm. */
#ifndef MODELS_OPTIMIZER_H
#define MODELS_OPTIMIZER_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_optimizer syn_optimizer;

typedef struct syn_optimizer_options {
    double beta1, beta2, eps; /* 0: 0.9, 0.999, 1e-8 */
    double weight_decay;      /* of matrices and tables; not of what has one dimension */
    /* Or of all but parameters whose name contains one of these, ended by NULL. */
    const char *const *no_decay;
    double max_grad_norm; /* 0: no clipping */
    bool unchecked;       /* gradients that are infinite or NaN are not looked for */
    const syn_group *tp;  /* ranks that share the parameters' shards; NULL: all are whole */
} syn_optimizer_options;

/* For the parameters made so far, all f32 or all bf16, which from now on require gradients. Those
   of bf16 get masters of f32, which are updated; the parameters are what they are rounded to (18
   bytes a parameter with gradient and moments, against 16). f16 is refused: its gradients would
   need a scaled loss. Where ranks have the same parameters they are made so first
   (syn_data_parallel_new). The context must outlive it. */
syn_status syn_optimizer_new(syn_optimizer **out, syn_ctx *ctx,
                             const syn_optimizer_options *options, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_optimizer_free(syn_optimizer *optimizer);
/* One step, in phase `optimizer`, with the gradients that are there, which it drops. Every
   parameter must have one. The parameters' older versions can be used no more (syn_newest).
   Unless unchecked, it reads the norm of the gradients first (with clipping, no more work; without,
   4 bytes a parameter are read, against 28); where that is not finite it fails with the name of the
   first parameter to blame, gradients and parameters as they were, the context not failed: the
   caller may syn_drop_grads and go on. */
syn_status syn_optimizer_step(syn_optimizer *optimizer, double learning_rate,
                              syn_error *err) SYN_MUST_USE;
/* What the optimizer holds of parameter number `param` (syn_ctx_param), this rank's shard, n_elems
   elements of f32: its master (of f32 parameters: itself) and moments. For checkpoints that a run
   goes on from as if it had never ended: with these, and the steps taken. To set a master sets the
   parameter, too. On meta only sizes are checked, and nothing is read. Failures are the context's,
   too. */
typedef enum syn_optimizer_slot {
    SYN_OPTIMIZER_MASTER,
    SYN_OPTIMIZER_M,
    SYN_OPTIMIZER_V
} syn_optimizer_slot;
syn_status syn_optimizer_get(const syn_optimizer *optimizer, size_t param, syn_optimizer_slot slot,
                             float *out, size_t n_elems, syn_error *err) SYN_MUST_USE;
syn_status syn_optimizer_set(syn_optimizer *optimizer, size_t param, syn_optimizer_slot slot,
                             const float *data, size_t n_elems, syn_error *err) SYN_MUST_USE;
int64_t syn_optimizer_steps(const syn_optimizer *optimizer);
void syn_optimizer_set_steps(syn_optimizer *optimizer, int64_t steps);

/* The norm of all gradients of the last step, before it was clipped: a scalar. Poisoned without
   clipping. */
syn_tensor syn_optimizer_norm(const syn_optimizer *optimizer);
/* The same as a number, 0 without clipping and on meta; nothing is waited for if the step looked at
   it. */
syn_status syn_optimizer_norm_value(const syn_optimizer *optimizer, double *norm,
                                    syn_error *err) SYN_MUST_USE;

/* Of step `step`, counted from 0: rises linearly from 0 to `peak` over the first `warm_up` steps,
   then falls linearly to 0 at step `steps` (transformers' linear schedule). */
double syn_learning_rate(double peak, int64_t step, int64_t warm_up, int64_t steps);

SYN_API_END
#endif
