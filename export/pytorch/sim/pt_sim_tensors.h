/* The tensors that a simulator's nodes read and write, from the host trace. Among the kernels that
   an op launched, the one that gets its costs (`dominates`) has the tensors of the op;
   communication nodes have their own. A tensor here is the content of a storage from the op that
   makes it to the next op that makes another one with the same storage id. */
#ifndef EXPORT_PT_SIM_TENSORS_H
#define EXPORT_PT_SIM_TENSORS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_sim_tensor {
    int64_t storage, bytes;
    uint32_t version; /* number of earlier tensors with this storage id */
    uint32_t writer;  /* node; SYN__PT_NONE: exists from the start */
} syn__pt_sim_tensor;

typedef struct syn__pt_sim_tensors {
    syn__pt_sim_tensor *tensors;
    size_t n, cap;
    uint32_t *uses; /* indices of tensors */
    size_t n_uses, uses_cap;
    /* Per node: its slice of `uses`, first the tensors that it reads, then those that it writes,
       each once. Each tensor is written at most once, and read only by nodes that depend on its
       writer. */
    struct syn__pt_sim_use {
        size_t first;
        uint32_t reads, writes;
    } * nodes;
} syn__pt_sim_tensors;

void syn__pt_sim_tensors_free(syn__pt_sim_tensors *t);
/* Call syn__pt_sim_tensors_free in all cases. */
syn_status syn__pt_sim_tensors_find(syn__pt_sim_tensors *t, const syn__pt_sim *sim,
                                    syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
