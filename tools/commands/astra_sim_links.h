/* Describes a machine for ASTRA-sim's analytical networks, which have one topology, bandwidth and
   latency per dimension: within nodes, and between nodes. Compares the times of collectives and
   messages there with the predicted times. */
#ifndef TOOLS_ASTRA_SIM_LINKS_H
#define TOOLS_ASTRA_SIM_LINKS_H

#include "export/chakra/simulate/et_sim.h"
#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"

/* Kinds of groups, by where their ranks are. */
typedef enum astra_where {
    ASTRA_WITHIN,  /* on one node */
    ASTRA_BETWEEN, /* one rank on each of several nodes */
    ASTRA_SEVERAL, /* several ranks on some of several nodes */
    ASTRA_ALL,     /* all ranks of several nodes, which ASTRA-sim does not simulate as one ring */
    ASTRA_ASTRAY,  /* on several nodes, but no two neighbours in the ring have the same index on
                      their nodes, so ASTRA-sim never uses the network between nodes */
    ASTRA_WHERE_COUNT
} astra_where;

/* Collectives of rank 0 in groups of one kind, or messages: their number, and the sums of their
   times. */
typedef struct astra_times {
    uint64_t n;
    double predicted_ns, simulated_ns; /* according to our prediction and to ASTRA-sim */
    double startup_ns;                 /* time that an empty buffer takes longer in the prediction
                                          than in ASTRA-sim */
    double least, most;                /* smallest and largest ratio of simulated to predicted time
                                          of a collective */
    double switched_ns;                /* how much longer all-reduces take in ASTRA-sim whose data a
                                          switch reduces in the prediction */
} astra_times;

typedef struct astra_network {
    /* What network.yml and system.json describe. Bandwidths are those of the hardware file, per
       rank. The latency of a message is alpha_us of the link; if it is 0 and the file models a
       collective library, the latency is the shortest time that the library's protocols take for a
       step within a node, or for a hop to the next node. */
    syn__sim_machine machine;
    double latency_ns[2]; /* of a message between neighbours, per dimension */
    astra_times times[ASTRA_WHERE_COUNT];
    uint32_t n_astray;    /* number of groups of this kind, also without collectives of rank 0 */
    astra_times messages; /* messages to a rank with another index on another node, which ASTRA-sim
                             sends over the links within a node; set by astra_add_messages */
} astra_network;

/* Describes the network for a trace set of `ranks` ranks. `first` has rank 0 and all groups. Fails
   with SYN_E_UNSUPPORTED if the ranks do not fill their nodes. */
syn_status astra_network_of(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                            astra_network *out, syn_error *err);
/* Adds the messages that the ranks of a graph send to net->messages. */
syn_status astra_add_messages(astra_network *net, const syn_hardware *hw, const syn_graph *graph,
                              syn_error *err);

#endif
