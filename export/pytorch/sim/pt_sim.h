/* The nodes that a simulator runs, made from one rank's ops (profile astra-sim). */
#ifndef EXPORT_PT_SIM_H
#define EXPORT_PT_SIM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pt_sim_role {
    SYN__PT_SIM_ABSENT,   /* not written: host work, barriers */
    SYN__PT_SIM_COMPUTE,  /* kernel, copy, memset */
    SYN__PT_SIM_STAND_IN, /* communication that simulators cannot run, replaced by its duration */
    SYN__PT_SIM_COLLECTIVE,
    SYN__PT_SIM_SEND,
    SYN__PT_SIM_RECV,
    SYN__PT_SIM_DELAY /* "host delay" before a communication, or at the end */
} syn__pt_sim_role;

/* Flag in the class of an edge: its source is the delay that is written before `from`. */
#define SYN__PT_SIM_OF_DELAY 0x100u

typedef struct syn__pt_sim_node {
    uint32_t op;              /* delay: the op after it; at the end: the last op */
    uint32_t id;              /* id in the file; a delay has the previous id */
    uint8_t role;             /* syn__pt_sim_role */
    bool has_start;           /* otherwise start_us is 0 and end_us is the duration */
    bool dominates;           /* gets the flops and bytes of the op that launched it */
    const char *why;          /* stand-in: the reason, part of a sentence */
    int64_t start_us, end_us; /* rounded, so that durations add up */
    int64_t delay_us;         /* of the "host delay" node before it; 0: none */
} syn__pt_sim_node;

typedef struct syn__pt_sim_span {
    int64_t start_us, end_us;
} syn__pt_sim_span;

typedef struct syn__pt_sim {
    const syn__pt_rank *rank;
    syn__pt_sim_node *nodes; /* in the rank's order */
    size_t n_nodes, nodes_cap;
    syn__pt_edge *edges; /* between nodes */
    size_t n_edges, edges_cap;
    syn__pt_sim_span *barriers;      /* barriers: they have no nodes, but account for time */
    size_t n_barriers, barriers_cap; /* barriers with times */
    uint64_t n_dropped_barriers;     /* all barriers */
    /* Node i depends on deps[first_dep[i] .. first_dep[i + 1] - 1]. */
    size_t *first_dep;
    syn__pt_dep *deps;
    uint32_t *sequence; /* nodes ordered by id */
} syn__pt_sim;

/* Whether the node runs in the compute slot. */
static inline bool syn__pt_sim_is_compute(const syn__pt_sim_node *node) {
    return node->role == SYN__PT_SIM_COMPUTE || node->role == SYN__PT_SIM_STAND_IN ||
           node->role == SYN__PT_SIM_DELAY;
}

/* The role of an op in the simulator. Sets *why for a stand-in. */
syn__pt_sim_role syn__pt_sim_role_of(const syn__pt_rank *rank, const syn__pt_op *op,
                                     const char **why);

void syn__pt_sim_free(syn__pt_sim *sim);
/* Makes everything except the file. Call syn__pt_sim_free in all cases. */
syn_status syn__pt_sim_make(syn__pt_sim *sim, const syn__pt_rank *rank,
                            syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
