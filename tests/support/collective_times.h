/* Predicted times of collectives, for tests of the presets and of hardware files. */
#ifndef TESTS_COLLECTIVE_TIMES_H
#define TESTS_COLLECTIVE_TIMES_H

#include "syntorch/hardware/hardware.h"

/* The time in ns of a collective of tensor-parallel ranks outside of layers. bytes: size of a
   rank's input. */
static inline double collective_ns(const syn_hardware *hw, syn_comm_kind comm, uint64_t bytes,
                                   const int32_t *ranks, uint32_t n_ranks) {
    const syn_graph_group group = {.id = 1, .name = "tp0", .ranks = ranks, .n_ranks = n_ranks};
    const syn_node node = {.kind = SYN_NODE_COLLECTIVE,
                           .category = SYN_CATEGORY_COMMUNICATION,
                           .op = syn_comm_kind_name(comm),
                           .comm = comm,
                           .group = 1,
                           .comm_bytes = bytes};
    return syn_hardware_predict_ns(hw, &node, &group, ranks[0]);
}

#endif
