/* Reverse-mode gradients. An op that uses a tensor which requires a gradient is recorded on a tape,
   and the operands that its gradient rule needs (op.h: grad) are saved. syn_backward walks the tape
   backwards and calls the rules. The rules call ops as models do, so the trace records the backward
   pass in the same way as the forward pass. */
#ifndef SYNTORCH_GRADIENT_H
#define SYNTORCH_GRADIENT_H

#include "syntorch/context.h"

SYN_API_BEGIN

/* Marks t, in f32, f16 or bf16, and its later versions as requiring a gradient. t must be a
   parameter, an input, or the result of an op through which no gradient flows, such as a received
   tensor. */
void syn_require_grad(syn_ctx *ctx, syn_tensor t);
/* The same for all parameters created so far. */
void syn_require_grads(syn_ctx *ctx);
/* Whether t requires a gradient, or was computed (with gradients on) from a tensor that does. */
bool syn_requires_grad(const syn_ctx *ctx, syn_tensor t);
/* Turns recording on the tape on or off, for example for inference; on by default. Returns the
   previous state. */
bool syn_set_grad(syn_ctx *ctx, bool on);

/* Makes tape number `tape` the current tape, on which ops are recorded from now on; at first it is
   tape 0. Each tape has its own backward pass, so that several microbatches of a pipeline can be in
   flight. Ops on different tapes may share parameters, but not tensors that were computed from
   parameters. Returns the number of the previous tape. Memory grows with the largest number, so
   number the tapes from 0. */
uint32_t syn_set_tape(syn_ctx *ctx, uint32_t tape);

/* Computes the gradients of `loss`, a tensor of one f32 element, and adds them to those of earlier
   calls. The ops are recorded in phase `backward`, in the scopes of their forward ops. Clears the
   current tape, so a second call for the same ops is an error. After a failure, the context has
   failed, too. */
syn_status syn_backward(syn_ctx *ctx, syn_tensor loss);
/* The same, starting from n tensors out[i] and their gradients dout[i]. dout[i] has the shape and
   dtype of out[i], and its data may be overwritten. If dout[i] is invalid, out[i] must be a loss.
   The data of out[i] may have been released. */
syn_status syn_backward_from(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n);
/* The same in two parts, for schedules that fill pipeline bubbles with weight gradients (Qi et al.,
   "Zero Bubble Pipeline Parallelism", 2023). syn_backward_inputs leaves out the weight gradients of
   matrix products, but keeps the tensors that they are computed from. syn_backward_weights computes
   the weight gradients that are left out on the current tape, in the order of the backward pass.
   Such a gradient is final (syn_ctx_on_grad) after the second part. */
syn_status syn_backward_inputs(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n);
syn_status syn_backward_weights(syn_ctx *ctx);
/* Activation recomputation, which saves memory but takes time. Calls run(arg, in) without saving
   tensors for backward and returns its result. When syn_backward needs these tensors, it calls
   `run` again, in phase `recompute`. Both calls must build the same ops, and only from `in` and
   parameters; arg must stay valid until the second call. `in` has n tensors, at most
   SYN_MAX_REGION_INPUTS, which may be invalid. In a `run` of another syn_recompute, or with
   gradients off, syn_recompute only calls `run`. */
#define SYN_MAX_REGION_INPUTS 6
typedef syn_tensor syn_region(void *arg, const syn_tensor *in);
syn_tensor syn_recompute(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in, int n);
/* The same, but saves the outputs of some ops, which then do not run again (selective activation
   checkpointing). keep(op, state) is called for each op in both runs and returns whether to save
   its outputs; *state is 0 at the start of each run. Ops that overwrite an input cannot be kept. */
typedef bool syn_keep(const char *op, uint32_t *state);
syn_tensor syn_recompute_except(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in,
                                int n, syn_keep *keep);
/* The gradient of a tensor that was passed to syn_require_grad. It is dense and has the tensor's
   shape. For parameters and inputs it is in f32, so that sums over many microbatches are precise;
   for other tensors it has their dtype. Invalid if there is no gradient yet. The gradient exists
   until it is dropped. */
syn_tensor syn_grad(const syn_ctx *ctx, syn_tensor t);
/* Adds g to the gradient of t, a tensor that was passed to syn_require_grad, as a backward pass
   does. */
void syn_add_grad(syn_ctx *ctx, syn_tensor t, syn_tensor g);
/* Frees all gradients. */
void syn_drop_grads(syn_ctx *ctx);
/* Frees the gradient of t, if it has one. */
void syn_drop_grad(syn_ctx *ctx, syn_tensor t);
/* Sets a function that backward passes call for each parameter, with its number (syn_ctx_param), as
   soon as its gradient is final, that is, when no op on any tape uses the parameter. `ready` may
   call ops. NULL: no function. */
void syn_ctx_on_grad(syn_ctx *ctx, void (*ready)(void *user, size_t param), void *user);

/* ---- for gradient rules of ops ---- */

/* The largest number of inputs, and of outputs, of an op that has a gradient. */
#define SYN_MAX_GRADS 32
/* A recorded op whose gradients are being built. */
struct syn_grad_call {
    syn_ctx *ctx;
    const syn_opdef *def;
    int n_in, n_out;
    syn_tensor in[SYN_MAX_GRADS], out[SYN_MAX_GRADS];
    const syn_attr *attr; /* valid until the next op */
    int n_attr;
    const syn_group *group;
    /* Whether each input needs a gradient. A rule builds no other gradients. */
    bool need[SYN_MAX_GRADS];
    /* Set by the rule: the gradient of each input. It has the input's shape, and is in f32 or the
       input's dtype; the caller casts it if syn_grad_dtype differs. Invalid: the gradient is
       zero. */
    syn_tensor din[SYN_MAX_GRADS];
    /* The gradient that the input has so far, if the rule may add to it in place. A rule that does
       so sets din to the new version; otherwise the caller adds din. Invalid: the rule may not. */
    syn_tensor sum[SYN_MAX_GRADS];
    /* comm_next: the backward pass continues with the op that produced input 0, whose gradient is a
       collective. The rule may then build only the gradient of input 0 and set `later`. It is
       called again for the other inputs while the collective is in flight. */
    bool comm_next, later;
    syn_tensor dout[SYN_MAX_GRADS]; /* read them with syn_grad_out */
    int seed;                       /* index of the output that is the loss, whose gradient is 1;
                                       -1: none */
};
/* The gradient of output i; invalid if the output has none. */
syn_tensor syn_grad_out(syn_grad_call *call, int i);
/* The dtype in which the gradient of input i is stored: f32 for tensors passed to syn_require_grad,
   otherwise the input's dtype. A rule should produce that dtype if it can. */
syn_dtype syn_grad_dtype(const syn_grad_call *call, int i);

SYN_API_END
#endif
