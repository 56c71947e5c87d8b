/* Describes a machine's links for ASTRA-sim's analytical networks, which have one bandwidth and one
   latency per dimension: within nodes, and between nodes. */
#ifndef TOOLS_ASTRA_SIM_LINKS_H
#define TOOLS_ASTRA_SIM_LINKS_H

#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"

/* A dimension of the network, and the all-reduces, all-gathers and reduce-scatters of rank 0 whose
   slowest links belong to this dimension. Times are sums over these collectives. */
typedef struct astra_dimension {
    int32_t ranks;
    double bytes_per_ns; /* bandwidth per rank, from the hardware file */
    double latency_ns;   /* latency per message: the link's latency or, if the hardware file models
                            a collective library, the latency with which the sum of simulated times
                            equals the sum of predicted times */
    uint64_t n;          /* number of collectives */
    double predicted_ns, simulated_ns; /* times according to our prediction and to ASTRA-sim */
    double least, most;                /* smallest and largest ratio of simulated to predicted time
                                          of a collective */
    bool by_switch;                    /* in the prediction, a switch reduces the data of some of
                                          these collectives */
    bool by_one_link; /* ASTRA-sim's rings leave a node over the link of one rank, but the
                         prediction uses the links of several ranks */
} astra_dimension;

/* Communication between nodes that ASTRA-sim does not send over the network between nodes: the
   number of calls, and the sums of their times according to our prediction and to ASTRA-sim. */
typedef struct astra_detour {
    uint64_t n;
    double predicted_ns, simulated_ns;
} astra_detour;

typedef struct astra_network {
    astra_dimension dimensions[2]; /* within a node; between nodes */
    int n;
    uint32_t n_astray;        /* number of groups that span several nodes but whose rings never use
                                 the network between nodes */
    astra_detour collectives; /* rank 0's collectives in these groups */
    astra_detour messages;    /* messages to a rank with another index on another node; set by
                                 astra_add_messages */
} astra_network;

/* Describes the network for a trace set of `ranks` ranks. `first` has rank 0 and all groups. Fails
   with SYN_E_UNSUPPORTED if the ranks do not fill their nodes. */
syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err);
/* Adds the messages that the ranks of a graph send to net->messages. */
syn_status astra_add_messages(astra_network *net, const syn_hardware *hw, const syn_graph *graph,
                              syn_error *err);

#endif
