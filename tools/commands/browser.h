/* Opens a file in the user's browser. */
#ifndef TOOLS_BROWSER_H
#define TOOLS_BROWSER_H

#include "syntorch/base/status.h"

/* Opens the file with the first program of $BROWSER that exists (names separated by ':'), otherwise
   with the desktop's program. Does nothing if $BROWSER is not set and there is no display. Waits
   for a browser in a terminal, but not for one with a window. Fails if no program can be started,
   or if it ends at once with an error. */
syn_status browser_open(const char *path, syn_error *err) SYN_MUST_USE;

#endif
