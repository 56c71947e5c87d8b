/* Writes the ops of a rank, and the group file of a trace set. */
#ifndef EXPORT_PT_WRITE_H
#define EXPORT_PT_WRITE_H

#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes all ops (profile full, pt_full.c). version: the program version to record; NULL: none. */
syn_status syn__pt_write_full(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                              syn_error *err) SYN_MUST_USE;

/* Writes the nodes that a simulator runs (profile astra-sim, pt_sim_write.c). *written: counts of
   these nodes. */
syn_status syn__pt_write_sim(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                             syn_pytorch_simulated *written /* may be NULL */,
                             syn_error *err) SYN_MUST_USE;
/* Writes the group file: {"<id>": [ranks...]}. */
void syn__pt_write_groups(const syn__pt_rank *ranks, size_t n_ranks, syn_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
