/* Replays what was written, using nothing else of the measurement; see syn_pytorch_replay. */
#ifndef EXPORT_PT_REPLAY_H
#define EXPORT_PT_REPLAY_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Profile full: one row per lane of the rank. The caller frees the rows (syn_free). */
syn_status syn__pt_replay(const syn__pt_rank *rank, syn_pytorch_replay *out,
                          syn_error *err) SYN_MUST_USE;
/* Profile astra-sim: computation with delays (row 0), communication (row 1). */
syn_status syn__pt_replay_sim(const syn__pt_rank *rank, syn_pytorch_replay *out,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
