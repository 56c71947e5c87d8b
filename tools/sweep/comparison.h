/* --compare: predicts the ops of one run for other machines and stacks, and prints a table. */
#ifndef TOOLS_COMPARISON_H
#define TOOLS_COMPARISON_H

#include "tools/sweep/sweep.h"

typedef struct comparison {
    syn_hardware *machines; /* the run's own hardware, if it has one, then the machines of the
                               list */
    sweep_times *times;     /* predicted times of the run on each machine; filled in by the
                               program */
    int n;                  /* number of machines */
    bool own;               /* machines[0] is the run's own hardware */
} comparison;

/* Loads the machines of `list`, such as "h100,h200+megatron,file.json"; NULL: none. own: the run's
   hardware, or NULL. stack: the stack of machines whose name in the list has no stack. ranks:
   number of ranks in the run (syn_hardware_set_sharing). */
syn_status comparison_open(comparison *c, const char *list, const syn_hardware *own,
                           const char *stack, int32_t ranks, syn_error *err) SYN_MUST_USE;
void comparison_free(comparison *c);
/* Prints the table. `all` is the heading of the column with the total time. */
void comparison_print(const comparison *c, const char *all, FILE *out);
/* Writes [{"hardware": "h100", "stack": "serving", "prefill_ns": ..., "limits": {...}}, ...]. */
void comparison_json(const comparison *c, bool training, syn_sink *out);

#endif
