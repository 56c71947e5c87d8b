/* Data parallelism: ranks with the same parameters train on different samples. Their gradients are
 * summed while the backward pass still runs, as in PyTorch's DistributedDataParallel (Li et al.
 * 2020). */
#ifndef MODELS_DATA_PARALLEL_H
#define MODELS_DATA_PARALLEL_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_data_parallel syn_data_parallel;

/* Prepares all parameters created so far. It copies the parameters of the group's first rank to the
 * other ranks, which makes older versions of the parameters unusable (syn_current_version), and
 * makes the parameters require gradients. From then on each syn_backward sums the gradients over
 * the group, each bucket as soon as its gradients are complete. The buckets are the same as the
 * optimizer's. dp NULL: one rank, no communication. The context must outlive *out. */
syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx, const syn_group *dp,
                                 syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_data_parallel_free(syn_data_parallel *parallel);
/* Turns communication off or on, for gradient accumulation. While it is off, backward passes do not
 * communicate; the first backward pass with communication on again sums the accumulated gradients
 * over the group. On by default. */
void syn_data_parallel_sync(syn_data_parallel *parallel, bool on);
/* Sums the gradients of all buckets over the group now. Call it after a backward pass while
   communication is off, to sum gradients without overlap. */
void syn_data_parallel_sum(syn_data_parallel *parallel);
/* Call it after each backward pass that communicates. Fails if the backward pass failed or a
 * parameter got no gradient. */
syn_status syn_data_parallel_check(syn_data_parallel *parallel, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
