/* Data parallelism: ranks with the same parameters and other texts, whose gradients are added while
   the backward pass still runs (Li et al. 2020: PyTorch's DistributedDataParallel). */
#ifndef MODELS_DATA_PARALLEL_H
#define MODELS_DATA_PARALLEL_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_data_parallel syn_data_parallel;

/* For the parameters made so far, which become those of the group's first rank (their older
   versions can be used no more: syn_newest) and from now on require gradients. From then on each
   syn_backward sums their gradients over the group, a bucket at a time, as each is complete; the
   buckets are those of the optimizer. dp NULL: one rank, and nothing is exchanged. The context must
   outlive it. */
syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx, const syn_group *dp,
                                 syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_data_parallel_free(syn_data_parallel *parallel);
/* Off: gradients of the next backward passes stay where they are, to be summed with those of the
   first one after it is on again (accumulation). At first on. */
void syn_data_parallel_sync(syn_data_parallel *parallel, bool on);
/* After a backward pass with it on: fails if that did, or if a parameter got no gradient in it. */
syn_status syn_data_parallel_check(syn_data_parallel *parallel, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
