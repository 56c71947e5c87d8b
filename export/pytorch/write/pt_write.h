/* Writers of a rank's ops. */
#ifndef EXPORT_PT_WRITE_H
#define EXPORT_PT_WRITE_H

#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Profile full (pt_full.c): all ops. version: program version to record; NULL: none. */
syn_status syn__pt_write_full(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                              syn_error *err) SYN_MUST_USE;

/* Profile astra-sim (pt_sim_write.c). */
syn_status syn__pt_write_sim(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                             syn_pytorch_simulated *written /* may be NULL */,
                             syn_error *err) SYN_MUST_USE;
/* Writes {"<id>": [ranks...]}. */
void syn__pt_write_groups(const syn__pt_rank *ranks, size_t n_ranks, syn_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
