/* Runs what was written again. */
#ifndef EXPORT_PT_REPLAY_H
#define EXPORT_PT_REPLAY_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A replay runs what was written, and nothing else of the measurement. */
typedef struct syn__pt_replay_lane {
    int64_t measured_ns, replayed_ns; /* from the trace's first op to the lane's last end */
    int64_t busy_ns;                  /* sum of the written durations */
    int64_t idle_ns; /* of a thread: measured time in no op, which profile full has no node for */
    uint64_t n_ops;
} syn__pt_replay_lane;

typedef struct syn__pt_replayed {
    int64_t measured_ns, replayed_ns; /* end to end */
    syn__pt_replay_lane *lanes;       /* freed by the caller (syn_free) */
    size_t n_lanes;
} syn__pt_replayed;

/* Profile full: an op starts when all that it waits for is over and its lane is free, in the order
   of ids, and takes its node's duration. One row per lane of the rank. Time between ops is in no
   node, and a caller's own time passes before its callees', waits included: so the replay may end
   far from the measured end. */
syn_status syn__pt_replay(const syn__pt_rank *rank, syn__pt_replayed *out,
                          syn_error *err) SYN_MUST_USE;
/* Profile astra-sim: two slots, each of which always runs the ready node with the lowest id:
   computation with delays (row 0), communication with its measured durations (row 1). */
syn_status syn__pt_replay_sim(const syn__pt_rank *rank, syn__pt_replayed *out,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
