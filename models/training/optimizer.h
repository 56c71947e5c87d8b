/* AdamW for all parameters of a context, with clipping of the gradient norm. */
#ifndef MODELS_OPTIMIZER_H
#define MODELS_OPTIMIZER_H

#include "models/training/data_parallel.h"
#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_optimizer syn_optimizer;

typedef struct syn_optimizer_options {
    double beta1, beta2, eps; /* 0: the defaults 0.9, 0.999 and 1e-8 */
    double weight_decay;      /* for parameters of two or more dimensions only */
    /* If not NULL: a NULL-terminated list of strings. Weight decay then applies to all parameters
     * except those whose name contains one of the strings. */
    const char *const *no_decay;
    double max_grad_norm; /* 0: no clipping */
    bool unchecked;       /* do not check gradients for NaN and infinity */
    const syn_group *tp;  /* tensor-parallel ranks; NULL: no parameter is sharded */
    /* The ranks over which the squared norm is summed: the tensor-parallel ranks of all pipeline
     * stages and, with ZeRO, of all data-parallel ranks. NULL: tp. */
    const syn_group *norm;
    /* Without ZeRO: the ranks that hold all experts of the model (syn_mesh.expert_model), over
     * which the squares of the experts' gradients are summed (syn_param_set_expert). NULL: only
     * this rank, or `norm` sums all squares. */
    const syn_group *expert_norm;
    int copies; /* without ZeRO: on how many ranks of `norm` each parameter of a stage is, with the
                   same gradient; 0: 1 */
    const char *copy; /* name of the parameter that is a copy of a parameter of the first stage;
                         the norm does not count it again; NULL: none */
    /* If it uses ZeRO, the optimizer updates only this rank's part of each bucket, and then
     * all-gathers the parameters. It must outlive the optimizer. NULL: no ZeRO. */
    syn_data_parallel *parallel;
} syn_optimizer_options;

/* Prepares all parameters created so far, which must all be f32 or all bf16, and makes them require
 * gradients. bf16 parameters get f32 masters: the optimizer updates the masters and rounds them to
 * the parameters. With gradient and moments this takes 18 bytes per bf16 parameter, and 16 bytes
 * per f32 parameter. With ZeRO on d ranks, f32 parameters have masters, too, and masters and
 * moments take 12 / d bytes per parameter. f16 is rejected because its gradients would need loss
 * scaling. If data-parallel ranks share the parameters, call syn_data_parallel_new first. The
 * context must outlive the optimizer. */
syn_status syn_optimizer_new(syn_optimizer **out, syn_ctx *ctx,
                             const syn_optimizer_options *options, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_optimizer_free(syn_optimizer *optimizer);
/* Does one step in phase `optimizer`, and frees the gradients. Every parameter must have a
   gradient. Older versions of the parameters become unusable (syn_current_version). Unless
   `unchecked`, the step first reads the norm of the gradients. With clipping this adds no work.
   Without clipping, computing the norm reads 4 bytes per parameter; for comparison, the update
   moves 28 bytes per parameter. If the norm is NaN or infinite, the step fails with the name of the
   first parameter whose gradient is not finite. Gradients, parameters and the context's status are
   then unchanged, so the caller may call syn_drop_grads and continue. */
syn_status syn_optimizer_step(syn_optimizer *optimizer, double learning_rate,
                              syn_error *err) SYN_MUST_USE;
/* The elements of this rank's shard of a parameter whose state this rank has: with ZeRO, those in
 * its part of the bucket; otherwise all. *first: the first one; *n: their number. */
void syn_optimizer_range(const syn_optimizer *optimizer, size_t param, int64_t *first, int64_t *n);
/* Read and write the optimizer's state of parameter number `param` (syn_ctx_param), for
 * checkpoints: the n_elems f32 elements of syn_optimizer_range. The slots are the f32 master and
 * the two moments; the master of an f32 parameter is the parameter itself. With these slots and the
 * number of steps, a run resumes exactly. Setting a master also sets its parameter, except with
 * ZeRO (syn_optimizer_gather). On meta only sizes are checked. A failure also makes the context
 * fail. */
typedef enum syn_optimizer_slot {
    SYN_OPTIMIZER_MASTER,
    SYN_OPTIMIZER_M,
    SYN_OPTIMIZER_V
} syn_optimizer_slot;
syn_status syn_optimizer_get(const syn_optimizer *optimizer, size_t param, syn_optimizer_slot slot,
                             float *out, size_t n_elems, syn_error *err) SYN_MUST_USE;
syn_status syn_optimizer_set(syn_optimizer *optimizer, size_t param, syn_optimizer_slot slot,
                             const float *data, size_t n_elems, syn_error *err) SYN_MUST_USE;
/* ZeRO: sets the parameters to the masters of all ranks. Call it on all ranks after masters were
 * set. Without ZeRO it does nothing. The rows are not kept in the trace. */
syn_status syn_optimizer_gather(syn_optimizer *optimizer, syn_error *err) SYN_MUST_USE;
int64_t syn_optimizer_steps(const syn_optimizer *optimizer);
void syn_optimizer_set_steps(syn_optimizer *optimizer, int64_t steps);

/* The norm of the last step's gradients before clipping, a scalar; invalid without clipping. */
syn_tensor syn_optimizer_norm(const syn_optimizer *optimizer);
/* The same as a number; 0 without clipping and on meta. Does not wait for the device if the step
 * has already read the norm. */
syn_status syn_optimizer_norm_value(const syn_optimizer *optimizer, double *norm,
                                    syn_error *err) SYN_MUST_USE;

/* The learning rate of step `step`, counted from 0. It rises linearly from 0 to `peak` over the
 * first `warm_up` steps, then falls linearly to 0 at step `steps`, as in transformers' linear
 * schedule. */
double syn_learning_rate(double peak, int64_t step, int64_t warm_up, int64_t steps);

SYN_API_END
#endif
