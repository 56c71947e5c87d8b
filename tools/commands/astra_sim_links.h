/* Describes a machine's links for ASTRA-sim's analytical networks, which have one bandwidth and one
   latency per dimension: within nodes, and between nodes. */
#ifndef TOOLS_ASTRA_SIM_LINKS_H
#define TOOLS_ASTRA_SIM_LINKS_H

#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"

/* A dimension, and the all-reduces, all-gathers and reduce-scatters of rank 0 that go no further.
   Times are sums over these collectives. */
typedef struct astra_dimension {
    int32_t ranks;
    double bytes_per_ns; /* per rank, from the hardware file */
    double latency_ns;   /* per message: that of the link, or, if the hardware file models a
                            collective   library, the latency with which the sum of simulated times
                            equals   the sum of predicted times */
    uint64_t n;          /* number of collectives */
    double predicted_ns, simulated_ns; /* our prediction; ASTRA-sim's time */
    double least, most;                /* range of simulated / predicted of single collectives */
    bool by_switch;                    /* the prediction lets a switch reduce some of them */
    bool by_one_link; /* ASTRA-sim's rings leave a node over the link of one rank, and the
                         prediction uses the links of several ranks */
} astra_dimension;

/* Communication between nodes that ASTRA-sim runs without the network between nodes: the number,
   and sums of our predictions and of ASTRA-sim's times. */
typedef struct astra_detour {
    uint64_t n;
    double predicted_ns, simulated_ns;
} astra_detour;

typedef struct astra_network {
    astra_dimension dimensions[2]; /* within a node; between nodes */
    int n;
    uint32_t n_astray;        /* groups of several nodes whose rings never use the network */
    astra_detour collectives; /* collectives of rank 0 in these groups */
    astra_detour messages;    /* to another index on another node; see astra_add_messages */
} astra_network;

/* Describes the network of a set of `ranks` ranks. `first` has rank 0 and all groups.
   SYN_E_UNSUPPORTED if the ranks do not fill their nodes. */
syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err);
/* Adds the messages that the ranks of a graph send. */
syn_status astra_add_messages(astra_network *net, const syn_hardware *hw, const syn_graph *graph,
                              syn_error *err);

#endif
