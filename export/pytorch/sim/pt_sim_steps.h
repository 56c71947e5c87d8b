/* The steps in which a simulator's nodes are made (pt_sim.c), and what they share. */
#ifndef EXPORT_PT_SIM_STEPS_H
#define EXPORT_PT_SIM_STEPS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes nodes, and edges by contraction of host work (pt_sim_links.c). */
syn_status syn__pt_sim_link(syn__pt_sim *sim, syn_error *err) SYN_MUST_USE;
/* Finds the delays, and what communication waits for as it was launched
   after it (pt_sim_delay.c). */
syn_status syn__pt_sim_delay(syn__pt_sim *sim, syn_error *err) SYN_MUST_USE;
/* Orders communication, numbers the nodes; n_real nodes and n_links edges are
   without delays (pt_sim_order.c). */
syn_status syn__pt_sim_arrange(syn__pt_sim *sim, size_t n_real, size_t n_links,
                               syn_error *err) SYN_MUST_USE;
/* Sorts by time; what has none (SYN__PT_NO_NS) stays behind what stands before it. *order
   is the caller's. */
syn_status syn__pt_sim_by_time(const int64_t *times, size_t n, uint32_t **order,
                               syn_error *err) SYN_MUST_USE;
/* Lists of edges by one end: those of node i are at[first[i] .. first[i + 1]); first has room for
   n_nodes + 2. */
void syn__pt_sim_list_edges(const syn__pt_sim *sim, bool by_target, size_t *first, syn__pt_dep *at);
/* When the op was launched, or its launcher began; beside a thread, by when it was launched at the
   latest. SYN__PT_NO_NS unknown. */
int64_t syn__pt_sim_launch(const syn__pt_rank *rank, uint32_t op);
/* Rounded, halves upwards. */
static inline int64_t syn__pt_sim_micros(int64_t ns) {
    const int64_t rest = ns % 1000;
    return ns / 1000 - (rest < -500) + (rest >= 500);
}

#ifdef __cplusplus
}
#endif
#endif
