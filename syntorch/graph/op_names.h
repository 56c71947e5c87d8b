/* What ops/ops.def says about an op by its name, without the op's functions: programs that only
   read traces need no kernels. */
#ifndef SYNTORCH_OP_NAMES_H
#define SYNTORCH_OP_NAMES_H

#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* Flags of an op. VIEW: output 0 shares input 0's storage, infer sets its strides and offset, and
   there is no kernel. STRIDED: reads inputs of any strides; those of others are dense in their last
   dimension. CONSTANT: no gradient goes through it, as it is a choice; other ops without a rule may
   not be in a gradient's way. ENTER: a view whose gradient is an exchange. */
#define SYN_OPF_VIEW     1u
#define SYN_OPF_STRIDED  2u
#define SYN_OPF_COMM     4u /* kernel describes an exchange with other ranks */
#define SYN_OPF_FUSED    8u /* one kernel for what other rows do in several */
#define SYN_OPF_CONSTANT 16u
#define SYN_OPF_ENTER    32u

/* Outputs 0 .. n-1 are new versions of inputs 0 .. n-1, written over them: a cache; of an
   optimizer, a parameter and its moments. No other input may lie in their storages. What may be
   used after it: see context.h. */
#define SYN_OPF_INPLACE(n) ((uint32_t)(n) << 8)
/* The same, with attribute 0 as n, and no other outputs: lists of tensors. */
#define SYN_OPF_INPLACE_LIST SYN_OPF_INPLACE(255)

/* The flags of the op's row; 0 if the table has no op of that name. */
uint32_t syn_op_flags(const char *name);
/* The category of an op by its name, in a file say: its row's, else by a keyword within it
   (ops.def: SYN_FOREIGN), else OTHER. */
syn_category syn_op_category(const char *name);

SYN_API_END
#endif
