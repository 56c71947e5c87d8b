/* The options for parallelism that both programs share. */
#ifndef TOOLS_PARALLEL_H
#define TOOLS_PARALLEL_H

#include "syntorch/plan.h"
#include "tools/cli.h"

/* Degrees of parallelism; 0: not given. */
typedef struct parallel_options {
    int64_t pp, vp, microbatch_group, cp, cp_a2a, ep, etp, zero, hsdp;
    int schedule;           /* syn_schedule; -1: interleaved with vp, otherwise 1F1B */
    int cp_comm;            /* syn_cp_comm */
    const char *rank_order; /* such as "tp-dp-pp"; NULL: not given */
    bool sp;
} parallel_options;

/* These options are not in --help, because they are refused: inference has neither gradients
   (ZERO_OPTION) nor context parallelism (CP_OPTION). */
#define ZERO_OPTION(o) \
    { "zero", CLI_INT, &(o).zero, "N", NULL, 0, 3 }
#define CP_OPTION(o) \
    { "cp", CLI_INT, &(o).cp, "N", NULL, 1, 65536 }

/* Completes the plan for `ranks` ranks (0: as many as the degrees need) with the tensor-parallel
   size tp. */
syn_status parallel_plan(syn_plan *plan, const parallel_options *options, int64_t ranks, int64_t tp,
                         syn_error *err) SYN_MUST_USE;
/* Whether --sweep, whose words are KEY=VALUE,..., varies a key. */
bool parallel_sweeps(const cli_texts *words, const char *key);

#endif
