/* Data parallelism: ranks with the same parameters train on different samples. Their gradients are
 * summed while the backward pass still runs, as in PyTorch's DistributedDataParallel (Li et al.
 * 2020). */
#ifndef MODELS_DATA_PARALLEL_H
#define MODELS_DATA_PARALLEL_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_data_parallel syn_data_parallel;

/* Prepares all parameters created so far: copies those of the group's first rank to the other
 * ranks, which makes their older versions unusable (syn_current_version), and makes them require
 * gradients. From then on each syn_backward sums the gradients over the group, a bucket at a time,
 * as soon as the bucket is complete. The buckets are the optimizer's. dp NULL: one rank, no
 * communication. The context must outlive the result. */
syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx, const syn_group *dp,
                                 syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_data_parallel_free(syn_data_parallel *parallel);
/* Off: the next backward passes do not communicate; their gradients are summed together with those
 * of the first backward pass after it is on again (gradient accumulation). On by default. */
void syn_data_parallel_sync(syn_data_parallel *parallel, bool on);
/* To call after a backward pass with sync on. Fails if the backward pass failed or a parameter got
 * no gradient. */
syn_status syn_data_parallel_check(syn_data_parallel *parallel, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
