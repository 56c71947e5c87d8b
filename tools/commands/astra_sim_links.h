/* The links of a machine as ASTRA-sim's analytical networks know them: a rate and a latency for
   each dimension. */
#ifndef TOOLS_ASTRA_SIM_LINKS_H
#define TOOLS_ASTRA_SIM_LINKS_H

#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"

/* A dimension, and the collectives of rank 0 that go no further: all-reduces, all-gathers and
   reduce-scatters. */
typedef struct astra_dimension {
    int32_t ranks;
    double bytes_per_ns; /* of one rank: the machine's own figure */
    double latency_ns;   /* of a message: of the link, or with a collective library what makes the
                            collectives last as predicted, all in all */
    uint64_t n;          /* how many collectives */
    double predicted_ns, simulated_ns; /* their times in sum: ours, and the simulator's */
    double least, most;                /* of them one by one, the simulator's time by ours */
    bool by_switch;                    /* we let the switch sum some of them up */
} astra_dimension;

typedef struct astra_network {
    astra_dimension dimensions[2]; /* within a node, and between nodes */
    int n;
    uint32_t n_astray; /* groups of several nodes in whose rings no hop uses the network */
} astra_network;

/* Of a set of so many ranks; `first` holds its groups and rank 0. SYN_E_UNSUPPORTED if the ranks do
   not fill nodes. */
syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err);

#endif
