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
    bool by_one_link; /* rings leave a node by one rank's link, and we let several ranks send */
} astra_dimension;

/* What goes from node to node without the network, and its times in sum: ours, and the
   simulator's. */
typedef struct astra_detour {
    uint64_t n;
    double predicted_ns, simulated_ns;
} astra_detour;

typedef struct astra_network {
    astra_dimension dimensions[2]; /* within a node, and between nodes */
    int n;
    uint32_t n_astray;        /* groups of several nodes in whose rings no hop uses the network */
    astra_detour collectives; /* rank 0's in them */
    astra_detour messages;    /* to another place on another node: see astra_add_messages */
} astra_network;

/* Of a set of so many ranks; `first` holds its groups and rank 0. SYN_E_UNSUPPORTED if the ranks do
   not fill nodes. */
syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err);
/* Adds those that the ranks of a graph send. */
syn_status astra_add_messages(astra_network *net, const syn_hardware *hw, const syn_graph *graph,
                              syn_error *err);

#endif
