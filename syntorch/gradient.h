/* Gradients: of a number that a context computed, with respect to what asked for them. While a
   tensor that requires a gradient is used, the ops on the way are remembered, and what their rules
   (op.h: grad) will need is pinned. syn_backward then walks back over them; the rules build ops as
   models do, so that the backward pass is in the trace like the forward pass. */
#ifndef SYNTORCH_GRADIENT_H
#define SYNTORCH_GRADIENT_H

#include "syntorch/context.h"

SYN_API_BEGIN

/* From now on `t`, a parameter or an input of f32, f16 or bf16, gets a gradient, and so do its new
   versions. */
void syn_require_grad(syn_ctx *ctx, syn_tensor t);
/* All parameters made so far. */
void syn_require_grads(syn_ctx *ctx);
/* Whether t, or what it was computed from while gradients were on, requires one. */
bool syn_requires_grad(const syn_ctx *ctx, syn_tensor t);
/* At first on. Off: nothing is remembered, as in inference. Returns what it was. */
bool syn_set_grad(syn_ctx *ctx, bool on);

/* Builds the gradients of `loss`, one element of f32, and adds them to those of earlier calls, in
   the scopes of the forward ops, as phase `backward`. What was remembered is forgotten: a second
   call for the same ops is an error. Failures are the context's. */
syn_status syn_backward(syn_ctx *ctx, syn_tensor loss);
/* What run(arg, in) returns, computed without keeping anything for syn_backward, which runs it
   again, in phase `recompute`, when it comes there: less memory, more time. It must do the same
   both times, from its inputs and what requires gradients; arg stays valid until then. in: at most
   SYN_MAX_REGION_INPUTS tensors, or poisoned. Within another such region, and with gradients off,
   it just runs. */
#define SYN_MAX_REGION_INPUTS 6
typedef syn_tensor syn_region(void *arg, const syn_tensor *in);
syn_tensor syn_recompute(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in, int n);
/* The gradient of a tensor that syn_require_grad named, of its shape, dense, and f32 also where the
   tensor is not: sums over many steps keep their digits. Poisoned: none so far. It stays until
   syn_drop_grads. */
syn_tensor syn_grad(const syn_ctx *ctx, syn_tensor t);
/* Gives all gradients back. */
void syn_drop_grads(syn_ctx *ctx);
/* `ready` is called within syn_backward for each parameter that gets a gradient, with its number
   (syn_ctx_param), when nothing more will be added in this call. It may use ops. NULL: none. */
void syn_ctx_on_grad(syn_ctx *ctx, void (*ready)(void *user, size_t param), void *user);

/* ---- for the rules of ops ---- */

/* A recorded op whose gradients are to be built. */
struct syn_grad_call {
    syn_ctx *ctx;
    const syn_opdef *def;
    int n_in, n_out;
    syn_tensor in[SYN_MAX_INPUTS], out[SYN_MAX_OUTPUTS];
    const syn_attr *attr; /* valid until the next op */
    int n_attr;
    const syn_group *group;
    /* Inputs whose gradients are wanted. A rule builds no other. */
    bool need[SYN_MAX_INPUTS];
    /* What the rule sets: the gradient of an input, of its shape, f32 or of its dtype (it is cast
       where it is kept in the other, see syn_grad_dtype); poisoned: zero. */
    syn_tensor din[SYN_MAX_INPUTS];
    /* The gradient that input has so far, f32 or of its dtype, if the rule may add to it in place:
       it then sets din to the new version. Else poisoned; what is in din is then added. */
    syn_tensor sum[SYN_MAX_INPUTS];
    /* The op that made input 0 starts an exchange next: what does not concern input 0 may wait
       until that is under way. The rule sets `later` and is called again for the rest. */
    bool exchange_next, later;
    syn_tensor dout[SYN_MAX_OUTPUTS]; /* see syn_grad_out */
    int seed;                         /* the output that is the loss itself: 1; -1: none is */
};
/* The gradient of output i; poisoned: it has none. */
syn_tensor syn_grad_out(syn_grad_call *call, int i);
/* The dtype in which the gradient of input i is kept: f32 for what syn_require_grad named, else the
   input's own. A rule that can give it so does. */
syn_dtype syn_grad_dtype(const syn_grad_call *call, int i);

SYN_API_END
#endif
