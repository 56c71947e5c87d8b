/* Finds the tensors that the nodes of a simulator read and write, from the host trace. If an op
   launched several kernels, only the kernel that gets the costs of the op (`dominates`) also gets
   its tensors. Communication nodes have their own tensors. A host trace identifies tensors by their
   storage, which is reused. So a tensor here is the content of a storage from the op that creates
   it until another op creates a new one with the same storage id. */
#ifndef EXPORT_PT_SIM_TENSORS_H
#define EXPORT_PT_SIM_TENSORS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_sim_tensor {
    int64_t storage, bytes;
    uint32_t version; /* number of earlier tensors with this storage id */
    uint32_t writer;  /* the node that writes it; SYN__PT_NONE: it exists from the start */
} syn__pt_sim_tensor;

typedef struct syn__pt_sim_tensors {
    syn__pt_sim_tensor *tensors;
    size_t n, cap;
    uint32_t *uses; /* indices of tensors */
    size_t n_uses, uses_cap;
    /* Per node: its range of `uses`. First come the tensors that it reads, then those that it
       writes, each once. Every tensor is written at most once, and is read only by nodes that
       depend on its writer. */
    struct syn__pt_sim_use {
        size_t first;
        uint32_t reads, writes;
    } * nodes;
} syn__pt_sim_tensors;

void syn__pt_sim_tensors_free(syn__pt_sim_tensors *t);
/* The caller calls syn__pt_sim_tensors_free in all cases. */
syn_status syn__pt_sim_tensors_find(syn__pt_sim_tensors *t, const syn__pt_sim *sim,
                                    syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
