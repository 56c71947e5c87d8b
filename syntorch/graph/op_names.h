/* Looks up the flags and categories of ops by name, from ops/ops.def. It is separate from the op
   table, so that programs that only read traces need not link kernels. */
#ifndef SYNTORCH_OP_NAMES_H
#define SYNTORCH_OP_NAMES_H

#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* Flags of an op.
   VIEW: output 0 shares the storage of input 0; infer sets its strides and offset; there is no
   kernel.
   STRIDED: accepts inputs with any strides. Other ops require a dense last dimension.
   CONSTANT: no gradient flows through the op, by design. If a gradient must flow through an op that
   has neither this flag nor a gradient rule, the call of the op fails.
   GRAD_COMM: a view whose gradient is a collective.
   SPLIT: the gradients of weights can be computed later than those of other inputs
   (syn_backward_inputs).
   AGAIN: the output is not saved for backward. If a gradient rule needs it, the op runs again. Its
   last attribute turns this off if it is not 0. */
#define SYN_OPF_VIEW      1u
#define SYN_OPF_STRIDED   2u
#define SYN_OPF_COMM      4u /* the kernel describes a collective or message */
#define SYN_OPF_FUSED     8u /* one kernel for the work of several ops */
#define SYN_OPF_CONSTANT  16u
#define SYN_OPF_GRAD_COMM 32u
#define SYN_OPF_SPLIT     64u
#define SYN_OPF_AGAIN     128u

/* Outputs 0 .. n-1 are new versions of inputs 0 .. n-1, which are overwritten: a KV cache, or an
   optimizer's parameter and moments. No other input may share their storages. See syn_state in
   context.h for which versions may be used afterwards. */
#define SYN_OPF_INPLACE(n) ((uint32_t)(n) << 8)
/* The same for lists of tensors: attribute 0 is n, and the op has n outputs. */
#define SYN_OPF_INPLACE_LIST SYN_OPF_INPLACE(255)

/* The flags of an op; 0 if the op is not in the op table. */
uint32_t syn_op_flags(const char *name);
/* The category of an op, whose name may come from a file. If the op is not in the op table, a
   keyword in the name decides (SYN_FOREIGN in ops.def); if there is none, the category is OTHER. */
syn_category syn_op_category(const char *name);

SYN_API_END
#endif
