/* Data parallelism: ranks with the same parameters train on different samples. Their gradients are
 * summed while the backward pass still runs, as in PyTorch's DistributedDataParallel (Li et al.
 * 2020). With ZeRO (Rajbhandari et al. 2020), each rank gets only its part of the sums. */
#ifndef MODELS_DATA_PARALLEL_H
#define MODELS_DATA_PARALLEL_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_data_parallel syn_data_parallel;

/* How parameters are divided into buckets, whose gradients are summed in one collective. */
typedef enum syn_bucket_rule {
    SYN_BUCKETS_PYTORCH,  /* 25 MiB of f32 gradients; the first bucket has 1 MiB */
    SYN_BUCKETS_MEGATRON, /* max(40 million, 1 million per data-parallel rank) elements on the first
                           * pipeline stage, otherwise one bucket. With ZeRO, parameters begin at
                           * multiples of 64 elements, and buckets end at multiples of
                           * lcm(ranks, 128). */
    SYN_BUCKETS_NONE      /* one bucket */
} syn_bucket_rule;

typedef struct syn_data_parallel_options {
    const syn_group *dp; /* NULL: one rank, no communication */
    /* ZeRO 3: a group with the same ranks as dp, for all-gathers. Collectives of one group wait for
     * each other, so with a group of their own, all-gathers and reduce-scatters run at the same
     * time. NULL: dp. */
    const syn_group *gather;
    /* ZeRO 3: the ranks that have the same part as this rank, if other groups have copies of the
     * parameters that the ranks of dp divide (hybrid sharding). Sums of gradients are all-reduced
     * over them. NULL: none. */
    const syn_group *replicas;
    /* The gradients of experts (syn_param_set_expert) are summed over these ranks instead of dp.
     * NULL: no other rank has the same experts; ZeRO 1 and 2 then do not divide their state. */
    const syn_group *edp;
    /* 0: gradients are all-reduced. 1 and 2: gradients are reduce-scattered, so that each rank has
     * the sums for one part of each bucket, updates this part of the parameters, and all-gathers
     * the parameters (syn_optimizer_options.parallel). 1: whole gradients are accumulated until the
     * last microbatch. 2: gradients are scattered after each microbatch. 3: as 2, and parameters
     * are gathered before each use and freed after it, a unit at a time. */
    int zero;
    syn_bucket_rule buckets;
    /* SYN_F32 or SYN_BF16: the dtype in which gradients are summed, here and by the trainer.
     * Gradients are f32; with SYN_BF16 they are rounded before each collective, which halves its
     * bytes, and the sums are widened after it, as with FSDP's reduce_dtype. */
    syn_dtype reduce_dtype;
    /* The following members are used only with ZeRO, except for `chunks`. */
    const syn_group *tp;         /* tensor-parallel ranks; NULL: no parameter is sharded */
    const char *const *no_decay; /* as in syn_optimizer_options */
    const char *tied; /* name of the parameter whose gradients two pipeline stages sum at the end of
                       * the step; NULL: none */
    bool first_stage; /* of the pipeline, or there is no pipeline */
    /* The chunks of layers that are on this rank. No bucket has parameters of two chunks.
     * chunks[i]: number of parameters of chunks 0 to i. NULL: one chunk. */
    const size_t *chunks;
    int n_chunks;
    /* ZeRO 3. Parameter i belongs to unit units[i]. The units are numbered in the order in which
     * the forward pass uses them. While it uses one, the next one is gathered; the backward pass
     * gathers them again, in reverse order. A unit is freed when the next one is used, except for
     * unit `head`, which stays until its gradients are scattered. The context must have been
     * created with syn_ctx_evict_params. */
    const uint32_t *units;
    uint32_t n_units, head;
    bool no_reshard;  /* parameters stay gathered until their gradients are scattered */
    bool gather_once; /* gradients are scattered only in the last backward pass; for pipelines */
} syn_data_parallel_options;

/* Prepares all parameters created so far. It copies the parameters of the group's first rank to the
 * other ranks, which makes older versions of the parameters unusable (syn_current_version), and
 * makes the parameters require gradients. From then on each syn_backward sums the gradients over
 * the group, each bucket as soon as its gradients are complete. With ZeRO, this drops the gradients
 * of the parameters. The context must outlive *out. */
syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx,
                                 const syn_data_parallel_options *options,
                                 syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_data_parallel_free(syn_data_parallel *parallel);
/* Turns communication off or on, for gradient accumulation. While it is off, backward passes do not
 * communicate; the first backward pass with communication on again sums the accumulated gradients
 * over the group. On by default. */
void syn_data_parallel_sync(syn_data_parallel *parallel, bool on);
/* Sums the gradients of all buckets over the group now, except for buckets without gradients,
   buckets that were summed already and, with ZeRO, late ones (syn_data_parallel_sum_late). Call it
   after a backward pass while communication is off, to sum gradients without overlap. */
void syn_data_parallel_sum(syn_data_parallel *parallel);
/* ZeRO: scatters the gradients of parameters that are used with only a part of the tokens
   (syn_param_set_partial) and of the tied parameter. Before this, the caller must sum these
   gradients over the tensor-parallel ranks, and over the stages that share the table. */
void syn_data_parallel_sum_late(syn_data_parallel *parallel);
/* Call it after each backward pass that communicates. Fails if the backward pass failed or a
 * parameter got no gradient. */
syn_status syn_data_parallel_check(syn_data_parallel *parallel, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
