/* Internal. Divides the parameters of a context into buckets. Data parallelism reduces one bucket
 * at a time, and the optimizer updates one bucket at a time. */
#ifndef MODELS_BUCKETS_PRIVATE_H
#define MODELS_BUCKETS_PRIVATE_H

#include "syntorch/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__bucket {
    size_t last; /* highest parameter number; the bucket has the numbers last - n + 1 to last */
    int n;
    int64_t elems; /* number of elements of this rank's shards */
} syn__bucket;

/* The buckets contain the parameters in reverse order of creation, the order in which the backward
 * pass completes their gradients. A bucket is full when it has 25 MiB of f32 elements or
 * SYN_MAX_PARAMS parameters; the first bucket is full at 1 MiB. Both sizes are those of PyTorch's
 * DistributedDataParallel. of_param[i] is the bucket of parameter i. */
typedef struct syn__buckets {
    syn__bucket *at;
    size_t n;
    uint32_t *of_param;
} syn__buckets;

syn_status syn__buckets_make(syn__buckets *buckets, const syn_ctx *ctx,
                             syn_error *err) SYN_MUST_USE;
void syn__buckets_free(syn__buckets *buckets);
/* Finds the number (syn_ctx_param) of the parameter with this name. */
syn_status syn__find_param(size_t *number, const syn_ctx *ctx, const char *name,
                           syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
