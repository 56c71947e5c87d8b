/* --compare: the same ops on other machines and stacks. */
#ifndef TOOLS_COMPARISON_H
#define TOOLS_COMPARISON_H

#include "tools/sweep/sweep.h"

typedef struct comparison {
    syn_hardware *machines; /* the run's own, if it has one, and those of the list */
    sweep_times *times;     /* of the run on each: whoever runs it fills them */
    int n;
    bool own; /* the first is the run's own */
} comparison;

/* Reads `list`, "h100,h200+megatron,file.json", or NULL. own: the run's hardware, or NULL; stack:
   of machines that name none; ranks: that share a machine (syn_hardware_share). */
syn_status comparison_open(comparison *c, const char *list, const syn_hardware *own,
                           const char *stack, int32_t ranks, syn_error *err) SYN_MUST_USE;
void comparison_free(comparison *c);
/* A table; `all` heads the column of all of a time. */
void comparison_print(const comparison *c, const char *all, FILE *out);
/* [{"hardware": "h100", "stack": "serving", "prefill_ns": ..., "limits": {...}}, ...] */
void comparison_json(const comparison *c, bool training, syn_sink *out);

#endif
