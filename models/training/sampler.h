/* Which texts a rank sees in which step: every text once an epoch, in an order that follows from
   seed and epoch alone, dealt out among the ranks. It holds no state: a run that goes on from any
   step sees what it would have seen. */
#ifndef MODELS_SAMPLER_H
#define MODELS_SAMPLER_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_sampler {
    int64_t n;     /* texts */
    int64_t batch; /* of them a rank takes in a step */
    int32_t ranks;
    uint64_t seed;
    bool shuffle; /* else in their own order, in every epoch */
    bool whole;   /* the last batches may lack texts; else what does not fill them is left out */
} syn_sampler;

/* Number of the text that has place i of n in an epoch's order. */
int64_t syn_sampler_place(const syn_sampler *s, int64_t epoch, int64_t i);
/* Steps of an epoch, on all ranks. */
int64_t syn_sampler_steps(const syn_sampler *s);
/* The texts, s->batch of them, that a rank takes in a step of an epoch, both from 0. The batches of
   all ranks hold the same texts for any number of ranks whose batches have as many together; text i
   of them goes to rank i % ranks (as PyTorch's DistributedSampler deals). -1 where there is none,
   in the last step of a whole sampler. */
void syn_sampler_batch(const syn_sampler *s, int64_t epoch, int64_t step, int32_t rank,
                       int64_t *out);

SYN_API_END
#endif
