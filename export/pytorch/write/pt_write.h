/* What the ops of a rank are written as. */
#ifndef EXPORT_PT_WRITE_H
#define EXPORT_PT_WRITE_H

#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Profile full: all ops (pt_full.c). */
syn_status syn__pt_write_full(const syn__pt_rank *rank, const syn__pt_options *options,
                              syn_sink *sink, syn_error *err) SYN_MUST_USE;

#define SYN__PT_STAND_IN_REASONS 12 /* that pt_sim.c knows: 11 */

/* What a simulator gets of a rank. */
typedef struct syn__pt_written {
    uint64_t nodes, compute, delays; /* of all nodes: kernels and copies; "host delay" */
    uint64_t stand_ins;              /* communication written as computation; */
    uint64_t absorbed;               /* ... of a library's threads: in delays, without nodes; */
    struct {
        const char *why; /* "a group of one rank"; static. NULL: no further reason */
        uint64_t count;
    } reasons[SYN__PT_STAND_IN_REASONS]; /* ... and why */
    uint64_t collectives, messages;
    uint64_t dropped_barriers; /* no nodes: their dependencies are passed on */
    int64_t delay_us;          /* of all delays */
} syn__pt_written;

/* Profile astra-sim (pt_sim_write.c). */
syn_status syn__pt_write_sim(const syn__pt_rank *rank, const syn__pt_options *options,
                             syn_sink *sink, syn__pt_written *written /* NULL allowed */,
                             syn_error *err) SYN_MUST_USE;
/* {"<id>": [ranks...]} */
void syn__pt_write_groups(const syn__pt_rank *ranks, size_t n_ranks, syn_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
