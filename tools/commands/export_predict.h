/* syntorch export --hw: replaces times by predictions for another machine. */
#ifndef TOOLS_EXPORT_PREDICT_H
#define TOOLS_EXPORT_PREDICT_H

#include <stdio.h>

#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"

/* Replaces *graph by a graph with times predicted for the hardware `name`, in the form
   MACHINE[+STACK]. The default stack is megatron for training, otherwise serving. Sets *hw to this
   hardware. */
syn_status export_predict(syn_graph **graph, const char *name, syn_hardware *hw,
                          syn_error *err) SYN_MUST_USE;
/* Prints time, tokens/s and limits of a graph that export_predict returned. */
syn_status export_report(const syn_graph *graph, const syn_hardware *hw, FILE *out,
                         syn_error *err) SYN_MUST_USE;
/* Appends the same as members of an object, each after a comma. */
syn_status export_report_json(const syn_graph *graph, const syn_hardware *hw, syn_sink *json,
                              syn_error *err) SYN_MUST_USE;

#endif
