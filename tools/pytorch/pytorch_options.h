/* Values of options that the commands for PyTorch traces share. */
#ifndef TOOLS_PYTORCH_OPTIONS_H
#define TOOLS_PYTORCH_OPTIONS_H

#include "export/pytorch.h"

/* "all", "none", "launch,stream": *without gets what is not named. False: *wrong is the name that
   is none. */
bool pytorch_read_edges(const char *text, uint32_t *without, const char **wrong);
/* "last", "all", a number from 0 */
bool pytorch_read_object(const char *text, syn_pytorch_object *object);

#endif
