/* Replays a written trace, using no other information than what was written; see
   syn_pytorch_replay. */
#ifndef EXPORT_PT_REPLAY_H
#define EXPORT_PT_REPLAY_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Replays profile full. The result has one row per track (thread or stream) of the rank. The caller
   frees the rows (syn_free). */
syn_status syn__pt_replay(const syn__pt_rank *rank, syn_pytorch_replay *out,
                          syn_error *err) SYN_MUST_USE;
/* Replays profile astra-sim. Row 0 of the result has computation including delays, and row 1 has
   communication. */
syn_status syn__pt_replay_sim(const syn__pt_rank *rank, syn_pytorch_replay *out,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
