/* The steps with which pt_sim.c makes the nodes, and functions that the steps share. */
#ifndef EXPORT_PT_SIM_STEPS_H
#define EXPORT_PT_SIM_STEPS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pt_sim_links.c: makes the nodes, and their edges: two nodes have an edge if their ops depend on
   each other directly or through host ops. */
syn_status syn__pt_sim_link(syn__pt_sim *sim, syn_error *err) SYN_MUST_USE;
/* pt_sim_delay.c: finds the delays, and the communication that depends on a delay because it was
   launched after it. */
syn_status syn__pt_sim_delay(syn__pt_sim *sim, syn_error *err) SYN_MUST_USE;
/* pt_sim_order.c: orders communication and assigns ids. n_real, n_links: number of nodes and edges
   before delays were added. */
syn_status syn__pt_sim_arrange(syn__pt_sim *sim, size_t n_real, size_t n_links,
                               syn_error *err) SYN_MUST_USE;
/* Sets *order to the indices of `times` in ascending order. An entry without a time (SYN__PT_NO_NS)
   stays after the entry before it. The caller frees *order. */
syn_status syn__pt_sim_by_time(const int64_t *times, size_t n, uint32_t **order,
                               syn_error *err) SYN_MUST_USE;
/* Groups edges by their target or their source: the edges of node i are at[first[i] .. first[i + 1]
   - 1]. `first` needs n_nodes + 2 elements. */
void syn__pt_sim_list_edges(const syn__pt_sim *sim, bool by_target, size_t *first, syn__pt_dep *at);
/* The time at which the op was launched, or its launcher began. For an op that runs concurrently
   with a thread, it is the latest time at which the op can have been launched. SYN__PT_NO_NS:
   unknown. */
int64_t syn__pt_sim_launch(const syn__pt_rank *rank, uint32_t op);
/* Rounds to microseconds, halves up. */
static inline int64_t syn__pt_sim_micros(int64_t ns) {
    const int64_t rest = ns % 1000;
    return ns / 1000 - (rest < -500) + (rest >= 500);
}

#ifdef __cplusplus
}
#endif
#endif
