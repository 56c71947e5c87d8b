/* Values of options that the commands for PyTorch traces share. */
#ifndef TOOLS_PYTORCH_OPTIONS_H
#define TOOLS_PYTORCH_OPTIONS_H

#include "export/pytorch/rank/pt_rank.h"

/* "all", "none", "launch,stream": bits of syn__pt_edge_class, those that are always there included.
   False: *wrong is the name that is none. */
bool pytorch_read_edges(const char *text, uint32_t *edges, const char **wrong);
/* "first", "last", "error" */
bool pytorch_read_dup_ids(const char *text, syn__pt_options *options);
/* "last", "all", a number */
bool pytorch_read_object(const char *text, int64_t *object);

#endif
