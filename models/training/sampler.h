/* Selects the samples of each rank and step: every sample once per epoch, distributed over the
 * ranks, in an order that depends only on seed and epoch. The sampler has no state, so a run that
 * resumes at any step gets the same samples. */
#ifndef MODELS_SAMPLER_H
#define MODELS_SAMPLER_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_sampler {
    int64_t n;     /* number of samples */
    int64_t batch; /* samples per rank and step */
    int32_t ranks;
    uint64_t seed;
    bool shuffle; /* false: the original order in every epoch */
    bool whole;   /* keep the last step of an epoch even if samples run out in it; false: drop such
                   * a step */
} syn_sampler;

/* The number of the sample at position i (0 to n - 1) in the order of an epoch. */
int64_t syn_sampler_place(const syn_sampler *s, int64_t epoch, int64_t i);
/* Steps per epoch, the same on all ranks. */
int64_t syn_sampler_steps(const syn_sampler *s);
/* Stores in out[] the numbers of the s->batch samples of a rank in a step of an epoch; step and
 * epoch count from 0. The samples of a step, over all ranks, depend only on batch * ranks. Sample i
 * of these goes to rank i % ranks, as in PyTorch's DistributedSampler. In the last step of a
 * sampler with `whole`, out[] is -1 where samples run out. */
void syn_sampler_batch(const syn_sampler *s, int64_t epoch, int64_t step, int32_t rank,
                       int64_t *out);

SYN_API_END
#endif
