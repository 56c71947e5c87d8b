/* The critical path of a recorded run: what the run was doing at each moment that it could not have
   ended without.

   The path is found backwards, from the op that ends last. A thread is in its innermost op, a
   stream in its only one. From an op the path goes to the one before it on the same thread or
   stream, unless the op waited for something else: for what it depends on elsewhere, if that ended
   later than the op before; for a kernel or communication also if the op before was still running
   then, since that op must have been the call that waits; or for the rank that came last to a
   collective, or the other end of a message that began later. An op counts for the time in which
   the path is in it. So the path is never longer than the run, and what is missing is time in which
   nothing recorded ran.

   Recordings need this because their ops overlap: a call contains the ops it makes, and a launch
   may return after its kernel has begun. Where ops cannot overlap, as in traces of our own, the
   longest chain of durations (links.h) says the same. */
#ifndef EXPORT_CRITICAL_H
#define EXPORT_CRITICAL_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__critical_op {
    double begin_ns, end_ns; /* host ops: until they return; not timed: end_ns <= begin_ns */
    uint64_t lane;           /* equal for ops of one thread or stream of one rank */
    uint32_t last_member;    /* of a collective or message: its op that began last; SYN_NO_NODE */
    bool is_device;          /* runs on a stream */
    bool is_comm;
    bool is_receive; /* ends only behind the begin of last_member, its send */
    bool is_range;   /* a range that the program named: it runs nothing itself */
} syn__critical_op;

/* Of a stream of a device, or of a thread of the host (device 0). */
uint64_t syn__critical_lane(uint32_t rank, bool is_device, uint64_t device, uint64_t number);

/* Sets path_ns[i] to the time of op i on the path, 0 if it is not on the path. deps[first_dep[i] ..
   first_dep[i + 1]) are the ops that op i depends on. */
syn_status syn__critical_find(double *path_ns, const syn__critical_op *ops, uint32_t n,
                              const uint32_t *first_dep, const uint32_t *deps,
                              syn_error *err) SYN_MUST_USE;

/* Of a recording's graph: path_ns has a number for each node of each rank, rank after rank. The
   caller frees it. NULL if the graph is no recording, or its nodes have no start times. */
syn_status syn__critical_of_graph(double **path_ns, const syn_graph *graph,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
