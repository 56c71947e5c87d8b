/* Internal. ZeRO: the parts of the buckets that this rank updates. */
#ifndef MODELS_DATA_PARALLEL_PRIVATE_H
#define MODELS_DATA_PARALLEL_PRIVATE_H

#include "models/training/buckets_private.h"

/* NULL without ZeRO. */
const syn__buckets *syn__parallel_buckets(const syn_data_parallel *parallel);
/* Whether ranks divide bucket i. If no other rank has the same experts, it is updated as without
   ZeRO. The other functions with an index are for buckets that are divided. */
bool syn__parallel_divides(const syn_data_parallel *parallel, size_t i);
/* The ranks that divide bucket i. */
const syn_group *syn__parallel_group(const syn_data_parallel *parallel, size_t i);
/* On how many ranks of this kind each part is. */
int syn__parallel_replicas(const syn_data_parallel *parallel);
/* This rank's part of bucket i as f32 numbers, (part). Its gradient (syn_grad) is the sum of the
   ranks' gradients. The optimizer overwrites it, and stores the new version here. */
syn_tensor *syn__parallel_part(const syn_data_parallel *parallel, size_t i);
/* Sets grads to the gradients of n parameters in the dtype in which they are summed. If that is not
   f32, the parameters have no gradients until syn__parallel_put_grads stores the sums. */
void syn__parallel_take_grads(const syn_data_parallel *parallel, const syn_tensor *params, int n,
                              syn_tensor *grads);
void syn__parallel_put_grads(const syn_data_parallel *parallel, const syn_tensor *params, int n,
                             const syn_tensor *sums);
/* Stores the last sums as gradients, if that has not been done. Call it after a backward pass,
   before tensors of the pass are released. */
void syn__parallel_store(syn_data_parallel *parallel);
/* Sets the elements of a parameter that are in this rank's part. */
syn_status syn__parallel_write(const syn_data_parallel *parallel, size_t param,
                               const float *data) SYN_MUST_USE;
/* ZeRO 3 with 16-bit parameters: the rounded part of bucket i, which the optimizer overwrites, too.
   Otherwise NULL. */
syn_tensor *syn__parallel_narrow(const syn_data_parallel *parallel, size_t i);
/* Whether parameters are whole only while they are used (ZeRO 3). */
bool syn__parallel_evicts(const syn_data_parallel *parallel);
/* ZeRO 3: frees all parameters. Does nothing for lower stages. */
void syn__parallel_evict_all(syn_data_parallel *parallel);
/* ZeRO 1 and 2: overwrites the parameters of bucket i with the ranks' parts, in an all-gather. */
void syn__parallel_gather(const syn_data_parallel *parallel, size_t i);
/* The elements of a parameter's shard that are in this rank's part of its bucket: elements first to
   first + n - 1, which begin at element `at` of the part. n is 0 if the bucket is not divided. */
typedef struct syn_part_range {
    int64_t first, n, at;
} syn_part_range;
syn_part_range syn__parallel_range(const syn_data_parallel *parallel, size_t param);

#endif
