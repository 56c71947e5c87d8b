/* syntorch export --hw: the times of another machine. */
#ifndef TOOLS_EXPORT_PREDICT_H
#define TOOLS_EXPORT_PREDICT_H

#include <stdio.h>

#include "syntorch/hardware/hardware.h"

/* MACHINE[+STACK]; without STACK what fits the run, serving or megatron. *graph is replaced. */
syn_status export_predict(syn_graph **graph, const char *name, syn_hardware *hw,
                          syn_error *err) SYN_MUST_USE;
/* Time, tokens/s and what limits them, of a graph from there. */
syn_status export_tell(const syn_graph *graph, const syn_hardware *hw, FILE *out,
                       syn_error *err) SYN_MUST_USE;

#endif
