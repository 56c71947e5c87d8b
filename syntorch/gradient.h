/* Reverse-mode gradients. Ops that use a tensor which requires a gradient are recorded on a tape,
   and the operands that their gradient rules need (op.h: grad) are pinned. syn_backward walks the
   tape backwards. The rules build ops as models do, so the trace contains the backward pass like
   the forward pass. */
#ifndef SYNTORCH_GRADIENT_H
#define SYNTORCH_GRADIENT_H

#include "syntorch/context.h"

SYN_API_BEGIN

/* Marks t, in f32, f16 or bf16, and its later versions as requiring a gradient. t is a parameter,
   an input, or the result of an op that no gradient flows through, such as a received tensor. */
void syn_require_grad(syn_ctx *ctx, syn_tensor t);
/* The same for all parameters created so far. */
void syn_require_grads(syn_ctx *ctx);
/* Whether t requires a gradient, or was computed (with gradients on) from a tensor that does. */
bool syn_requires_grad(const syn_ctx *ctx, syn_tensor t);
/* Turns recording on the tape on or off (inference); on by default. Returns the previous state. */
bool syn_set_grad(syn_ctx *ctx, bool on);

/* Records ops on tape `tape` from now on; at first it is tape 0. Each tape has a backward pass of
   its own, so that several microbatches of a pipeline can be in flight. Ops on different tapes may
   share parameters but no tensors that were computed from them. Returns the previous tape. The
   context keeps memory for as many tapes as the largest number. */
uint32_t syn_set_tape(syn_ctx *ctx, uint32_t tape);

/* Computes the gradients of `loss`, one f32 element, and adds them to those of earlier calls. The
   ops are recorded in phase `backward`, in the scopes of their forward ops. Clears the tape that is
   set, so a second call for the same ops is an error. A failure is also the context's. */
syn_status syn_backward(syn_ctx *ctx, syn_tensor loss);
/* The same, starting from n tensors out[i] with the gradients dout[i], which have the shape and
   dtype of out[i] and may be overwritten. If dout[i] is invalid, out[i] is a loss. The data of
   out[i] may have been released. */
syn_status syn_backward_from(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n);
/* The same in two parts, for schedules that fill pipeline bubbles with weight gradients (Qi et al.,
   "Zero Bubble Pipeline Parallelism", 2023). syn_backward_inputs leaves out the weight gradients of
   matrix products and keeps what they need; syn_backward_weights computes those that are left out
   on the tape that is set, in the order of the backward pass. A parameter's gradient is final
   (syn_ctx_on_grad) after the second part. */
syn_status syn_backward_inputs(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n);
syn_status syn_backward_weights(syn_ctx *ctx);
/* Activation recomputation: returns run(arg, in) without saving tensors for backward. syn_backward
   runs it again, in phase `recompute`, when it needs them, which saves memory and costs time. run
   must build the same ops both times, from `in` and parameters only, and arg must stay valid until
   then. in: at most SYN_MAX_REGION_INPUTS tensors, which may be invalid. Inside another such
   region, or with gradients off, it only calls run. */
#define SYN_MAX_REGION_INPUTS 6
typedef syn_tensor syn_region(void *arg, const syn_tensor *in);
syn_tensor syn_recompute(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in, int n);
/* The gradient of a tensor that was passed to syn_require_grad. It is dense and has the tensor's
   shape. For
   parameters and inputs it is f32, so that sums over many microbatches keep their precision; for
   other tensors it has their dtype. Invalid if there is none yet. Lives until it is dropped. */
syn_tensor syn_grad(const syn_ctx *ctx, syn_tensor t);
/* Frees all gradients. */
void syn_drop_grads(syn_ctx *ctx);
/* Frees the gradient of t, if it has one. */
void syn_drop_grad(syn_ctx *ctx, syn_tensor t);
/* syn_backward calls `ready` for each parameter with a gradient, with its number (syn_ctx_param),
   as soon as no op on any tape uses the parameter. `ready` may call ops. NULL: no call. */
void syn_ctx_on_grad(syn_ctx *ctx, void (*ready)(void *user, size_t param), void *user);

/* ---- for gradient rules of ops ---- */

/* A recorded op whose gradients are being built. */
struct syn_grad_call {
    syn_ctx *ctx;
    const syn_opdef *def;
    int n_in, n_out;
    syn_tensor in[SYN_MAX_INPUTS], out[SYN_MAX_OUTPUTS];
    const syn_attr *attr; /* valid until the next op */
    int n_attr;
    const syn_group *group;
    /* Inputs that need a gradient. A rule builds no others. */
    bool need[SYN_MAX_INPUTS];
    /* Set by the rule: the gradient of each input, of the input's shape, in f32 or in the input's
     * dtype (cast if syn_grad_dtype differs). Invalid: zero. */
    syn_tensor din[SYN_MAX_INPUTS];
    /* The gradient that the input has so far, if the rule may add to it in place; the rule then
       sets din to the new version. Otherwise invalid, and the caller adds din. */
    syn_tensor sum[SYN_MAX_INPUTS];
    /* The op that produced input 0 starts a collective next. The rule may build only the gradient
     * of input 0 and set `later`; it is then called again for the other inputs while the collective
     * is in flight. */
    bool comm_next, later;
    syn_tensor dout[SYN_MAX_OUTPUTS]; /* see syn_grad_out */
    int seed;                         /* the output that is the loss itself (its gradient is 1); -1:
                                         none */
};
/* The gradient of output i; invalid if it has none. */
syn_tensor syn_grad_out(syn_grad_call *call, int i);
/* The dtype in which the gradient of input i is stored: f32 for tensors passed to syn_require_grad,
   otherwise the input's dtype. A rule should produce that dtype if it can. */
syn_dtype syn_grad_dtype(const syn_grad_call *call, int i);

SYN_API_END
#endif
