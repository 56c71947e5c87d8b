/* The options of both programs that make a parallel plan. */
#ifndef TOOLS_PARALLEL_H
#define TOOLS_PARALLEL_H

#include "syntorch/plan.h"
#include "tools/cli.h"

/* Degrees; 0: not given. */
typedef struct parallel_options {
    int64_t pp, cp, ep, etp, zero;
    int schedule;
    bool sp;
} parallel_options;

/* Not in --help, since no model implements them: the plan refuses them in one sentence. */
#define PARALLEL_OPTIONS(o)                                                                       \
    {"pp", CLI_INT, &(o).pp, "N", NULL, 1, 65536}, {"cp", CLI_INT, &(o).cp, "N", NULL, 1, 65536}, \
        {"ep", CLI_INT, &(o).ep, "N", NULL, 1, 65536},                                            \
        {"etp", CLI_INT, &(o).etp, "N", NULL, 1, 65536},                                          \
        {"zero", CLI_INT, &(o).zero, "0|1|2|3", NULL, 0, 3},                                      \
        {"sp", CLI_FLAG, &(o).sp, NULL, NULL, 0, 0}, {                                            \
        "schedule", CLI_CHOICE, &(o).schedule, "1f1b|gpipe|interleaved|zb-h1", NULL, 0, 0         \
    }

/* The complete plan of `ranks` ranks (0: one for each place), tp of which share each layer. */
syn_status parallel_plan(syn_plan *plan, const parallel_options *options, int64_t ranks, int64_t tp,
                         syn_error *err) SYN_MUST_USE;

#endif
