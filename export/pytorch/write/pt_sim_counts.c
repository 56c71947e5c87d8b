/* Counts the nodes of profile astra-sim, and the communication that is not simulated, by reason;
   see pt_sim_counts.h. */
#include "export/pytorch/write/pt_sim_counts.h"

static void count_reason(syn_pytorch_simulated *w, const syn__pt_op *op, const char *why) {
    size_t i = 0;
    if (why == NULL) return;
    while (i + 1 < SYN_PYTORCH_REASONS && w->reasons[i].why != NULL && w->reasons[i].why != why)
        i++;
    w->reasons[i].why = why;
    w->reasons[i].count++;
    w->stand_ins += !op->detached;
    w->absorbed += op->detached;
}

syn_pytorch_simulated syn__pt_sim_count(const syn__pt_sim *sim) {
    const syn__pt_rank *rank = sim->rank;
    syn_pytorch_simulated w = {.dropped_barriers = sim->n_dropped_barriers};
    for (size_t i = 0; i < rank->n_comms; i++) {
        const syn__pt_op *op = &rank->ops[rank->comms[i].op];
        const char *why;
        (void)syn__pt_sim_role_of(rank, op, &why);
        count_reason(&w, op, why);
    }
    for (size_t i = 0; i < sim->n_nodes; i++) {
        const syn__pt_sim_node *node = &sim->nodes[i];
        const bool is_delay = node->role == SYN__PT_SIM_DELAY;
        w.nodes += node->delay_us > 0 ? 2 : 1;
        w.delays += is_delay || node->delay_us > 0;
        w.delay_us += is_delay ? node->end_us - node->start_us : node->delay_us;
        w.compute += node->role == SYN__PT_SIM_COMPUTE;
        w.collectives += node->role == SYN__PT_SIM_COLLECTIVE;
        w.messages += node->role == SYN__PT_SIM_SEND || node->role == SYN__PT_SIM_RECV;
    }
    return w;
}
