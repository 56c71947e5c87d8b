/* What a PyTorch op costs. */
#ifndef EXPORT_PT_COST_H
#define EXPORT_PT_COST_H

#include "export/pytorch/read/pt_host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flops (0: not a matrix product, convolution or attention) and the bytes of all tensors that go in
   and out, by a host node's shapes. */
typedef struct syn__pt_cost {
    uint64_t flops, bytes;
} syn__pt_cost;

syn__pt_cost syn__pt_cost_of(const syn__pt_host *host, const syn__pt_host_node *node);

#ifdef __cplusplus
}
#endif
#endif
