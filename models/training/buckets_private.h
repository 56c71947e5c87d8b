/* The parameters of a context in buckets: what is reduced and updated together. Internal. */
#ifndef MODELS_BUCKETS_PRIVATE_H
#define MODELS_BUCKETS_PRIVATE_H

#include "syntorch/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__bucket {
    size_t last; /* number of its first parameter; the next ones are those made before */
    int n;
    int64_t elems; /* on this rank */
} syn__bucket;

/* In the reverse of the order in which they were made, as their gradients come about. A bucket ends
   with the parameter with which it has 25 MiB of f32, the first one 1 MiB (as PyTorch's
   DistributedDataParallel has them), or SYN_MAX_LIST parameters. */
typedef struct syn__buckets {
    syn__bucket *at;
    size_t n;
    uint32_t *of_param;
} syn__buckets;

syn_status syn__buckets_make(syn__buckets *buckets, const syn_ctx *ctx,
                             syn_error *err) SYN_MUST_USE;
void syn__buckets_free(syn__buckets *buckets);

#ifdef __cplusplus
}
#endif
#endif
