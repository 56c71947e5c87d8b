/* Makes the nodes of profile astra-sim, which has only what that simulator runs: device work and
   communication, as COMP and COMM nodes. docs/formats.md describes the behaviour of the simulator.

   Dependencies. Host ops have no nodes. Instead, a node depends on the nodes that come before it
   through host ops; these are the nodes for which the host had waited when it launched the node.
   Each track (thread or stream) is a chain. The collectives of a rank form one chain in launch
   order, and each also depends on the sends that were launched before it, because a rank has one
   slot for communication. A node that depends on a barrier depends on the dependencies of the
   barrier.

   Delays. If computation waited for the host (Python, launches), the gap becomes a compute node
   "host delay" directly before the op. The delay ends at the start of the op. It begins at the
   latest of these times: the end of all computation that started earlier, the end of the op's
   dependencies, the end of barriers, and the start of the trace. So if two streams compute, each
   hides the gaps of the other. Waiting for communication, and thereby for other ranks, is never a
   delay, because the dependencies of the op account for it. A delay has the dependencies of its op
   and no others: if it also waited for other streams, computation could wait for unrelated
   communication. Ids follow time, so the simulator runs the earliest ready computation first. A
   delay can hold up the computation of another stream only if communication takes longer than
   measured, and then at most for the length of the delay.

   Communication does not run before the time at which it was launched. If the compute slot was idle
   at the launch, a delay up to the launch comes before the communication. This delay is a part of
   the gap; the delay of the next computation has the rest. If the slot was busy, the communication
   depends on the computation or delay that ended last before the launch. The delay before a
   communication also depends on whatever had ended last.

   Without device work, the computation is the computation of the host: the time between
   communications, from the start to the end of the trace, consists of delays. Communication on a
   library's threads (gloo) does not hold up the thread that launched it. It depends on the delay
   before its launch. If the thread waited for it (pt_waits.c), the delay after the wait depends on
   it, and the time of the wait is not computation. If simulators cannot run the communication, the
   wait counts as computation. The simulator has one slot for communication, so the time in which
   communications overlap is counted once. So these durations add up as well.

   Durations are differences of rounded times, so rounding errors do not accumulate: along a track
   without overlap, durations and delays add up to the measured time. */
#include "export/chakra/wire/et_node.h"
#include "export/pytorch/sim/pt_sim_steps.h"
#include "syntorch/base/memory.h"

/* The number of ranks in a group; if the group is unknown, the number of all ranks; 0: unknown. */
static uint32_t rank_count(const syn__pt_rank *rank, const syn__pt_group *group) {
    if (group != NULL && group->n_ranks != 0) return group->n_ranks;
    if (group != NULL && group->size != 0) return group->size;
    return rank->world_size > 0 ? (uint32_t)rank->world_size : 0;
}

/* The reason why simulators cannot run the collective; NULL: they can run it. */
static const char *why_no_collective(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    const syn__pt_group *group = comm->group != SYN__PT_NONE ? &rank->groups[comm->group] : NULL;
    const syn_comm_kind kind = syn__pt_comm_kind(comm);
    const bool simulated = kind == SYN_COMM_ALL_REDUCE || kind == SYN_COMM_ALL_GATHER ||
                           kind == SYN_COMM_BROADCAST || kind == SYN_COMM_ALL_TO_ALL ||
                           kind == SYN_COMM_REDUCE_SCATTER;
    if (kind == SYN_COMM_NONE) return "a collective of an unknown kind";
    if (!simulated) return "a collective that simulators do not run";
    if (rank_count(rank, group) == 1) return "a group of one rank";
    if (group != NULL && group->n_ranks == 0 && rank->world_size > 0 &&
        rank_count(rank, group) != (uint32_t)rank->world_size)
        return "a group with unknown ranks";
    if (group != NULL && group->n_ranks != 0 && rank->rank >= 0 &&
        !syn__pt_group_has(group, rank->rank))
        return "a group without this rank";
    return comm->alone ? "a collective that other ranks lack" : NULL;
}

static const char *why_no_message(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    if (comm->peer < 0) return "a message with an unknown peer";
    if (comm->peer == rank->rank) return "a message to its own rank";
    if (rank->world_size >= 0 && comm->peer >= rank->world_size)
        return "a message whose peer is outside the world";
    if (comm->tag < 0) return "a message without a tag";
    return comm->alone ? "a message that the other rank lacks" : NULL;
}

syn__pt_sim_role syn__pt_sim_role_of(const syn__pt_rank *rank, const syn__pt_op *op,
                                     const char **why) {
    *why = NULL;
    if (op->comm == SYN__PT_NONE)
        return syn__pt_is_device(op) ? SYN__PT_SIM_COMPUTE : SYN__PT_SIM_ABSENT;
    const syn__pt_comm *comm = &rank->comms[op->comm];
    const bool message = comm->type != SYN__ET_COMM_COLL_NODE;
    if (!message && syn__pt_comm_kind(comm) == SYN_COMM_BARRIER) return SYN__PT_SIM_ABSENT;
    *why = message ? why_no_message(rank, comm) : why_no_collective(rank, comm);
    if (*why != NULL) return op->detached ? SYN__PT_SIM_ABSENT : SYN__PT_SIM_STAND_IN;
    if (!message) return SYN__PT_SIM_COLLECTIVE;
    return comm->type == SYN__ET_COMM_SEND_NODE ? SYN__PT_SIM_SEND : SYN__PT_SIM_RECV;
}

syn_status syn__pt_sim_make(syn__pt_sim *sim, const syn__pt_rank *rank, syn_error *err) {
    *sim = (syn__pt_sim){.rank = rank};
    SYN_TRY(syn__pt_sim_link(sim, err));
    const size_t n_real = sim->n_nodes, n_links = sim->n_edges;
    SYN_TRY(syn__pt_sim_delay(sim, err));
    if (sim->n_nodes == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s: the trace has no device work, communication or host op times, so a "
                        "simulator has nothing to run; %s, or use --profile full",
                        rank->host_input.name != NULL ? rank->host_input.name : "trace",
                        rank->has_device
                            ? "convert a trace of steps in which the profiler was active"
                            : "convert it together with its device trace");
    return syn__pt_sim_arrange(sim, n_real, n_links, err);
}

void syn__pt_sim_free(syn__pt_sim *sim) {
    syn_free(sim->nodes);
    syn_free(sim->edges);
    syn_free(sim->barriers);
    syn_free(sim->first_dep);
    syn_free(sim->deps);
    syn_free(sim->sequence);
    *sim = (syn__pt_sim){.rank = NULL};
}
