/* Parses option values that the commands for PyTorch traces share. */
#ifndef TOOLS_PYTORCH_OPTIONS_H
#define TOOLS_PYTORCH_OPTIONS_H

#include "export/pytorch.h"

/* Parses "all", "none" or a list such as "launch,stream" of dependency classes. *without gets a bit
   mask of the optional classes (1 << syn_pytorch_edge_class) that are not in the list. False:
   *wrong points to the unknown name. */
bool pytorch_read_edges(const char *text, uint32_t *without, const char **wrong);
/* Parses "last", "all" or a number of at least 0. False: it is none of these. */
bool pytorch_read_object(const char *text, syn_pytorch_object *object);

#endif
