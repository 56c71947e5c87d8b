/* The tensors that a simulator's nodes read and write, as the host trace has them: of each op the
   first node has those of the op, of communication each node has its own. A tensor is what a
   storage holds from one op that makes it to the next that makes another under the same id. */
#ifndef EXPORT_PT_SIM_TENSORS_H
#define EXPORT_PT_SIM_TENSORS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_sim_tensor {
    int64_t storage, bytes;
    uint32_t version; /* how many tensors with this storage id came before */
    uint32_t writer;  /* node, SYN__PT_NONE: it is there from the beginning */
} syn__pt_sim_tensor;

typedef struct syn__pt_sim_tensors {
    syn__pt_sim_tensor *tensors;
    size_t n, cap;
    uint32_t *uses; /* of tensors */
    size_t n_uses, uses_cap;
    /* Of each node: uses[first ..], those it reads and then those it writes, each once. Each tensor
       is written once at most, and read by nodes alone that wait for its writer. */
    struct syn__pt_sim_use {
        size_t first;
        uint32_t reads, writes;
    } * nodes;
} syn__pt_sim_tensors;

void syn__pt_sim_tensors_free(syn__pt_sim_tensors *t);
/* Free it in any case. */
syn_status syn__pt_sim_tensors_find(syn__pt_sim_tensors *t, const syn__pt_sim *sim,
                                    syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
