/* --compare: the same ops on other machines and stacks. */
#ifndef TOOLS_INFERENCE_COMPARISON_H
#define TOOLS_INFERENCE_COMPARISON_H

#include "syntorch/trace.h"
#include "tools/inference/report.h"

typedef struct compared {
    syn_hardware hw;
    report report; /* of rank 0 */
} compared;

typedef struct comparison {
    compared *of; /* the run's own hardware, if it has one, and those of the list */
    int n;
} comparison;

/* Reads `list`, "h100,h200+megatron,file.json"; NULL: there is nothing to compare. own: the run's
   hardware, or NULL; ranks: that share a machine (syn_hardware_share). */
syn_status comparison_open(comparison *c, const char *list, const syn_hardware *own, int32_t ranks,
                           syn_error *err) SYN_MUST_USE;
void comparison_free(comparison *c);
/* As report_add, for each of them. */
syn_status comparison_add(comparison *c, const syn_trace *trace, syn_error *err) SYN_MUST_USE;
/* A table; nothing if there is nothing to compare. rank_bytes: what a rank has to hold. */
void comparison_print(const comparison *c, double rank_bytes, FILE *out);
/* [{"hardware": "h100", "stack": "serving", "prefill_ns": ..., "limits": {...}}, ...] */
void comparison_json(const comparison *c, double rank_bytes, syn_sink *out);

#endif
