/* Internal. Divides the parameters of a context into buckets. Data parallelism reduces one bucket
 * at a time, and the optimizer updates one bucket at a time. */
#ifndef MODELS_BUCKETS_PRIVATE_H
#define MODELS_BUCKETS_PRIVATE_H

#include "models/training/data_parallel.h"
#include "syntorch/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bucket has the parameters order[first] to order[first + n - 1] of syn__buckets. */
typedef struct syn__bucket {
    size_t first;
    int n;
    int64_t elems; /* number of elements of this rank's shards */
    int64_t part;  /* ZeRO: elements of each data-parallel rank's part, with padding; 0: the bucket
                      is  not divided, because no other rank has the same experts */
    int64_t decayed; /* ZeRO: elements with weight decay, which are the first ones */
    /* ZeRO: the gradients are incomplete after the backward pass. They are scattered at the end of
       the step, after they were summed over tensor-parallel ranks or over the stages that share an
       embedding table. */
    bool late;
    uint32_t unit; /* ZeRO 3 */
    bool experts;  /* of experts: their gradients are summed over edp */
} syn__bucket;

/* order: parameter numbers. of_param[i]: the bucket of parameter i. */
typedef struct syn__buckets {
    syn__bucket *at;
    size_t n;
    size_t *order;
    uint32_t *of_param;
} syn__buckets;

/* Creates the optimizer's buckets without ZeRO: the parameters in reverse order of creation, in
   which the backward pass completes their gradients. A bucket is full when it has 25 MiB of f32
   elements or SYN_MAX_PARAMS parameters; the first bucket is full at 1 MiB. Both sizes are those of
   PyTorch's DistributedDataParallel. */
syn_status syn__buckets_make(syn__buckets *buckets, const syn_ctx *ctx,
                             syn_error *err) SYN_MUST_USE;
/* Creates the buckets of data parallelism, by options->buckets. With ZeRO, a bucket is divided into
   equal parts, one for each data-parallel rank, and all parameters of a bucket belong to the same
   class: sharded over tensor-parallel ranks, sharded with copies, not sharded, of experts, and two
   classes of late parameters. The gradient norm then counts all elements of a bucket alike. */
syn_status syn__buckets_divide(syn__buckets *buckets, const syn_ctx *ctx,
                               const syn_data_parallel_options *options,
                               syn_error *err) SYN_MUST_USE;
void syn__buckets_free(syn__buckets *buckets);

static inline size_t syn__bucket_param(const syn__buckets *buckets, const syn__bucket *b, int k) {
    return buckets->order[b->first + (size_t)k];
}
/* The ranks over which a bucket's gradients are summed; NULL: only this one. */
static inline const syn_group *syn__bucket_group(const syn_data_parallel_options *options,
                                                 const syn__bucket *b) {
    return b->experts ? options->edp : options->dp;
}
/* Index of a parameter's first element within its bucket. */
int64_t syn__bucket_offset(const syn__buckets *buckets, const syn_ctx *ctx, size_t param);
/* On how many tensor-parallel ranks each element of a parameter is: 1 if the parameter is sharded
   over all of them. tp NULL: 1. */
int syn__param_copies(const syn_param_info *param, const syn_group *tp);
/* Whether the optimizer decays the parameter; no_decay: as in syn_optimizer_options. */
bool syn__param_decays(const syn_ctx *ctx, size_t param, const char *const *no_decay);
/* Finds the number (syn_ctx_param) of the parameter with this name. */
syn_status syn__find_param(size_t *number, const syn_ctx *ctx, const char *name,
                           syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
