/* Runs a pipeline schedule on one rank: receives activations, runs the forward and backward passes
   of this stage's microbatches, and sends results to the neighbouring stages. */
#ifndef MODELS_PIPELINE_H
#define MODELS_PIPELINE_H

#include "models/model.h"
#include "models/training/division.h"
#include "models/training/schedule.h"
#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_pipeline syn_pipeline;

typedef struct syn_pipeline_options {
    syn_schedule_shape shape;
    const syn_group *pp; /* the ranks of this pipeline by stage; this rank's index is its stage */
    syn_spec activation; /* what a stage sends to the next one per microbatch, such as bf16[B, T,
                            C] */
} syn_pipeline_options;

/* Runs the forward pass of a chunk of layers for a microbatch. x: the activation from the previous
   virtual stage; invalid on the first virtual stage. Returns the activation for the next virtual
   stage; on the last virtual stage, this microbatch's share of the loss, one f32. */
typedef syn_tensor syn_stage_forward(void *arg, int chunk, int microbatch, syn_tensor x);
/* Called before each backward pass of a chunk (done false) and after it (done true). last: no later
   pass of the step adds to the gradients of parameters that this pass computes, so they are final
   after it. A BACKWARD_INPUT pass computes the gradients of all parameters except the matrices and
   biases of linear layers, which are left to the BACKWARD_WEIGHTS pass. */
typedef void syn_stage_backward(void *arg, int chunk, bool last, bool done);

/* Turns overlap on (syn_ctx_set_overlap), because a rank posts a receive before it sends the data
   that the other rank waits for. Fails with SYN_E_INVALID if the schedule does not exist for the
   shape. The context must outlive the pipeline. */
syn_status syn_pipeline_new(syn_pipeline **out, syn_ctx *ctx, const syn_pipeline_options *options,
                            syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_pipeline_free(syn_pipeline *pipeline);
/* Runs the microbatches of one step. Gradients are added to existing ones. Returns the sum of the
   losses of the microbatches that end on this rank, and the invalid tensor if none does: they end
   on the last stage, and with DualPipe half of them on the first. Releases all other tensors that
   it created. A failure makes the context fail. backward may be NULL.
   Messages have the tag 2^21 + 2 (microbatch x virtual stages + virtual stage) + direction, where
   the virtual stage is the receiver's and direction is 0 for activations and 1 for gradients. The
   receive for the next action is posted before an action runs. */
syn_tensor syn_pipeline_step(syn_pipeline *pipeline, syn_stage_forward *forward,
                             syn_stage_backward *backward, void *arg);
/* Runs the forward pass of one microbatch, number 0, without gradients, for validation. Returns the
   loss on the last stage, and the invalid tensor on the others. */
syn_tensor syn_pipeline_forward(syn_pipeline *pipeline, syn_stage_forward *forward, void *arg);

SYN_API_END
#endif
