/* Dispatch: every op builder calls syn__dispatch, the only function that records nodes and runs
   kernels. */
#ifndef SYNTORCH_DISPATCH_H
#define SYNTORCH_DISPATCH_H

#include "syntorch/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in *out with the dtype, shape, strides and offset of a tensor; data is NULL. */
void syn__tensor_operand(const syn_ctx *ctx, syn_tensor t, syn_operand *out);
/* Checks the inputs, infers the shapes of the outputs, records the node and, except on meta, runs
   and times the kernel. Writes the outputs to out[0 .. n_out - 1]; on failure they are all
   invalid. */
void syn__dispatch(syn_ctx *ctx, const syn_opdef *def, const syn_tensor *in, int n_in,
                   const syn_attr *attr, int n_attr, const syn_group *group, syn_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
