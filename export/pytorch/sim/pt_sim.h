/* Makes the nodes that a simulator runs from the ops of one rank (profile astra-sim). */
#ifndef EXPORT_PT_SIM_H
#define EXPORT_PT_SIM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pt_sim_role {
    SYN__PT_SIM_ABSENT,   /* not written: host work, barriers */
    SYN__PT_SIM_COMPUTE,  /* kernel, copy, memset */
    SYN__PT_SIM_STAND_IN, /* communication that simulators cannot run, written as computation of the
                             same duration */
    SYN__PT_SIM_COLLECTIVE,
    SYN__PT_SIM_SEND,
    SYN__PT_SIM_RECV,
    SYN__PT_SIM_DELAY /* "host delay" before a communication, or at the end of the trace */
} syn__pt_sim_role;

/* Flag in the class of an edge: the edge comes from the delay before node `from`, not from the node
   itself. */
#define SYN__PT_SIM_OF_DELAY 0x100u

typedef struct syn__pt_sim_node {
    uint32_t op;              /* delays: the op after the delay; for the delay at the end of the
                                 trace, the last op */
    uint32_t id;              /* id in the file; the delay before the node has the previous id */
    uint8_t role;             /* syn__pt_sim_role */
    bool has_start;           /* the start is known; otherwise start_us is 0 and end_us is the
                                 duration */
    bool dominates;           /* the node gets the flops and bytes of the op that launched it */
    const char *why;          /* stand-ins: the reason, as part of a message */
    int64_t start_us, end_us; /* rounded, so that durations add up */
    int64_t delay_us;         /* duration of the "host delay" node before it; 0: there is none */
} syn__pt_sim_node;

typedef struct syn__pt_sim_span {
    int64_t start_us, end_us;
} syn__pt_sim_span;

typedef struct syn__pt_sim {
    const syn__pt_rank *rank;
    syn__pt_sim_node *nodes; /* in topological order, as the rank's ops */
    size_t n_nodes, nodes_cap;
    syn__pt_edge *edges; /* between nodes */
    size_t n_edges, edges_cap;
    syn__pt_sim_span *barriers;      /* barriers have no nodes, but their time must be accounted
                                        for */
    size_t n_barriers, barriers_cap; /* number of barriers with times */
    uint64_t n_dropped_barriers;     /* number of all barriers */
    /* Node i depends on deps[first_dep[i] .. first_dep[i + 1] - 1]. */
    size_t *first_dep;
    syn__pt_dep *deps;
    uint32_t *sequence; /* nodes ordered by id */
} syn__pt_sim;

/* Whether the node runs in the simulator's slot for computation. */
static inline bool syn__pt_sim_is_compute(const syn__pt_sim_node *node) {
    return node->role == SYN__PT_SIM_COMPUTE || node->role == SYN__PT_SIM_STAND_IN ||
           node->role == SYN__PT_SIM_DELAY;
}

/* The role of an op in the simulator. Sets *why to the reason if it is a stand-in, otherwise to
   NULL. */
syn__pt_sim_role syn__pt_sim_role_of(const syn__pt_rank *rank, const syn__pt_op *op,
                                     const char **why);

void syn__pt_sim_free(syn__pt_sim *sim);
/* Makes the nodes and dependencies; pt_sim_write.c writes them. The caller calls syn__pt_sim_free
   in all cases. */
syn_status syn__pt_sim_make(syn__pt_sim *sim, const syn__pt_rank *rank,
                            syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
