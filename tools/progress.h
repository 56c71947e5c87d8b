/* Shows the progress of work that takes more than a second, on standard error. A terminal shows one
   line that is redrawn in place, with a bar, the time left and the rate; other outputs get a plain
   line every ten seconds. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include "syntorch/base/status.h"
#include "tools/progress_line.h"

typedef struct progress {
    const char *what, *unit; /* "generating", "tokens"; unit NULL: bytes, shown as GiB */
    bool quiet;              /* print nothing */
    bool terminal_only;      /* print nothing if standard error is not a terminal */
    double start_s, shown_s; /* times of the first call and of the last display, in s; start_s 0:
                                not started */
    bool on_terminal;        /* standard error is a terminal; set by the first call */
    progress_line line;
} progress;

/* Reports that `done` of `of` units are done. `user` is a progress *. The first call starts the
   clock; the last call (done == of) clears the line. */
void progress_step(void *user, int64_t done, int64_t of);

#endif
