/* Progress of work that takes more than a second: on a terminal a line that is rewritten (bar,
   rate, time left), elsewhere a plain line every ten seconds. On standard error. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include "syntorch/base/status.h"
#include "tools/progress_line.h"

typedef struct progress {
    const char *what, *unit; /* "generating", "tokens"; NULL: bytes, shown as GiB */
    bool quiet;
    bool terminal_only;      /* no lines elsewhere */
    double start_s, shown_s; /* 0: not begun */
    bool on_terminal;
    progress_line line;
} progress;

/* `user` is a progress; `done` of `of` units are done. The first call begins the clock, the last
   (done == of) clears the line. */
void progress_step(void *user, int64_t done, int64_t of);

#endif
