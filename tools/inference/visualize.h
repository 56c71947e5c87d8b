/* What --visualize_trace writes: pictures, a page for a browser, JSON, Chakra traces and the
   timeline of one run. */
#ifndef TOOLS_VISUALIZE_H
#define TOOLS_VISUALIZE_H

#include <stdio.h>

#include "export/export.h"
#include "tools/inputs.h"

/* Writes into `folder` (created if absent): tensor_trace_graph.{json,svg,png}, of more than one
   rank tensor_comm_graph.{svg,png}, tensor_trace_chakra.json, timeline.json, trace.html,
   trace.<rank>.et and, last, trace.comm_group.json. Of a large graph JSON holds equal ranks once,
   and tensor_trace_chakra.json, which says what the .et files say, is left out. Each file is whole
   or absent. Lists what it wrote on `list` (NULL: silent). Without graphviz the pictures are
   missing and everything else is written before the failure is returned. */
syn_status visualize_run(const syn_graph *graph, const char *folder, const char *version,
                         FILE *list, syn_error *err) SYN_MUST_USE;
/* Fails if one of these files is an input. */
syn_status visualize_keep(const syn__input_files *inputs, const char *folder, int64_t n_ranks,
                          syn_error *err) SYN_MUST_USE;

#endif
