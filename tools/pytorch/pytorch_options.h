/* Parses option values that the commands for PyTorch traces share. */
#ifndef TOOLS_PYTORCH_OPTIONS_H
#define TOOLS_PYTORCH_OPTIONS_H

#include "export/pytorch.h"

/* Parses "all", "none" or a list of dependency classes such as "launch,stream". Sets *without to a
   bit mask of the optional classes (1 << syn_pytorch_edge_class) that are not in the list. Returns
   false if a name is unknown; *wrong then points to it. */
bool pytorch_read_edges(const char *text, uint32_t *without, const char **wrong);
/* Parses "last", "all" or a number of at least 0. Returns false if the text is none of these. */
bool pytorch_read_object(const char *text, syn_pytorch_object *object);

#endif
