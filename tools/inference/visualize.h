/* Writes the files of --visualize_trace: pictures, HTML report, JSON, Chakra traces and timeline of
   a run. */
#ifndef TOOLS_VISUALIZE_H
#define TOOLS_VISUALIZE_H

#include <stdio.h>

#include "export/export.h"
#include "tools/inputs.h"

/* Writes these files to `folder`, which is created if it is missing:
   tensor_trace_graph.{json,svg,png}, tensor_comm_graph.{svg,png} for several ranks,
   tensor_trace_chakra.json, timeline.json, trace.html, trace.<rank>.et and finally
   trace.comm_group.json. For a large graph, the JSON file stores identical ranks once, and
   tensor_trace_chakra.json is omitted because the .et files have the same content. Each file is
   either complete or absent. The names of the files are printed to `list` (NULL: they are not). If
   graphviz is missing, all files except the pictures are written, and then the function fails. */
syn_status visualize_run(const syn_graph *graph, const char *folder, const char *version,
                         FILE *list, syn_error *err) SYN_MUST_USE;
/* Fails if one of these files is an input of the run, which would be overwritten. */
syn_status visualize_keep(const syn__input_files *inputs, const char *folder,
                          syn_error *err) SYN_MUST_USE;
/* Adds these files to the list "written" of --json; for `first` see cli_json_add_written. */
syn_status visualize_json(const syn_graph *graph, const char *folder, syn_sink *json, bool *first,
                          syn_error *err) SYN_MUST_USE;

#endif
