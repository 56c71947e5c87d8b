/* The critical path of a run that PyTorch recorded: for each moment, the op without which the run
   could not have continued.

   The path is found backwards, from the op that ends last. At each moment a thread runs the
   innermost of its open ops, and a stream runs one op. From an op, the path continues with the
   previous op on the same thread or stream, unless the op waited for something else:
   - for a dependency on another thread or stream that ended later than the previous op. A kernel or
     communication that a host op depends on may also have ended while the previous op ran, because
     the previous op is then the call that waited for it;
   - for the rank that arrived last at a collective, or for the other end of a message if that end
     began later.

   The time of an op on the path is the part of its duration that the path covers. The path is
   therefore never longer than the run; the difference is time in which no recorded op ran.

   PyTorch traces need this method because their ops overlap: a call contains the ops that it calls,
   and a launch may return after its kernel began. In our own traces ops do not overlap, and the
   chain with the longest total duration (links.h) gives the same result. */
#ifndef EXPORT_CRITICAL_H
#define EXPORT_CRITICAL_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__critical_op {
    double begin_ns, end_ns; /* end_ns of host ops: when they return. An op without times has end_ns
                                <= begin_ns */
    uint64_t track;          /* number of the thread or stream; equal for all its ops, different for
                               all others */
    uint32_t last_member;    /* for a collective or message: the op of it that began last; otherwise
                                SYN_NO_NODE */
    bool is_device;          /* runs on a stream */
    bool is_comm;
    bool is_receive; /* cannot end before last_member, its send, begins */
    bool is_range;   /* a user annotation, which runs nothing itself */
} syn__critical_op;

/* Returns the track of a stream of a device or, with device 0, of a host thread. */
uint64_t syn__critical_track(uint32_t rank, bool is_device, uint64_t device, uint64_t number);

/* Sets path_ns[i] to the part of op i's duration that is on the path; 0 if the op is not on it. The
   dependencies of op i are deps[first_dep[i] .. first_dep[i + 1] - 1]. */
syn_status syn__critical_find(double *path_ns, const syn__critical_op *ops, uint32_t n,
                              const uint32_t *first_dep, const uint32_t *deps,
                              syn_error *err) SYN_MUST_USE;

/* The same for the graph of a PyTorch trace: *path_ns has one entry per node of each rank, rank
   after rank. The caller frees it. NULL if the graph is not a PyTorch trace or its nodes have no
   start times. */
syn_status syn__critical_of_graph(double **path_ns, const syn_graph *graph,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
