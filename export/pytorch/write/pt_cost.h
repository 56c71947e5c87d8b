/* Estimates the cost of a PyTorch op. */
#ifndef EXPORT_PT_COST_H
#define EXPORT_PT_COST_H

#include "export/pytorch/read/pt_host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* flops: 0 unless the op is a matrix product, convolution or attention. bytes: size of all input
   and output tensors. Both are computed from the shapes of a host node. */
typedef struct syn__pt_cost {
    uint64_t flops, bytes;
} syn__pt_cost;

syn__pt_cost syn__pt_cost_of(const syn__pt_host *host, const syn__pt_host_node *node);

#ifdef __cplusplus
}
#endif
#endif
