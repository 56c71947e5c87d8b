/* Output of --visualize_trace: pictures, HTML report, JSON, Chakra traces and timeline of a run. */
#ifndef TOOLS_VISUALIZE_H
#define TOOLS_VISUALIZE_H

#include <stdio.h>

#include "export/export.h"
#include "tools/inputs.h"

/* Writes to `folder` (created if missing): tensor_trace_graph.{json,svg,png}; with several ranks
   tensor_comm_graph.{svg,png}; tensor_trace_chakra.json, timeline.json, trace.html,
   trace.<rank>.et and, last, trace.comm_group.json. For a large graph, JSON stores identical ranks
   once, and tensor_trace_chakra.json is omitted because the .et files have the same content. A file
   is either complete or absent. Lists the files on `list` (NULL: no list). Without graphviz
   everything but the pictures is written, then the failure is returned. */
syn_status visualize_run(const syn_graph *graph, const char *folder, const char *version,
                         FILE *list, syn_error *err) SYN_MUST_USE;
/* Fails if one of these files is an input file of the run. */
syn_status visualize_keep(const syn__input_files *inputs, const char *folder, int64_t n_ranks,
                          syn_error *err) SYN_MUST_USE;

#endif
