/* Computes the times that the nodes of a trace have on another machine. */
#ifndef EXPORT_ET_SIM_RETIME_H
#define EXPORT_ET_SIM_RETIME_H

#include "export/chakra/simulate/et_sim.h"
#include "export/chakra/wire/et_node.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a file's metadata say about its run; numbers are 0 if unknown. */
typedef struct syn__sim_meta {
    syn_set_hardware hardware;
    syn_dtype dtype; /* of matrix products; bf16 if unknown */
    int64_t head_dim, tokens;
} syn__sim_meta;

void syn__sim_meta_read(syn__sim_meta *out, const syn__et_meta *meta);

/* A node of a file, without its communication. recorded_ns: its time in the trace; is_predicted:
   it was predicted for `from`, rounded to ns. */
typedef struct syn__sim_timed {
    const syn__et_node *node;
    int64_t num_ops, tensor_size; /* 0 or less: unknown */
    uint64_t recorded_ns;
    bool is_predicted;
} syn__sim_timed;

/* The time of a compute node on *to. A time that the prediction for *from reproduces is replaced by
   the prediction for *to, and *exact is set. All other times are scaled by the ratio of the two
   predictions. */
uint64_t syn__sim_retime_compute(const syn__sim_timed *timed, const syn__sim_meta *meta,
                                 const syn_hardware *from, const syn_hardware *to, bool *exact);
/* The time of a collective (group) or a message (peer) of comm_size bytes on *to. */
uint64_t syn__sim_retime_collective(const syn__et_node *node, const syn_hardware *to, int comm_type,
                                    uint64_t bytes, const syn_graph_group *group);
uint64_t syn__sim_retime_message(const syn__et_node *node, const syn_hardware *to, uint64_t bytes,
                                 int32_t rank, int32_t peer);

#ifdef __cplusplus
}
#endif
#endif
