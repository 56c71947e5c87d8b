/* Detects whether other processes ran during a measurement, which makes its times useless. */
#ifndef TOOLS_QUIET_H
#define TOOLS_QUIET_H

typedef struct idle_mark {
    /* CPU time of all cores; CPU time of this process; clock. busy_s < 0: unknown. */
    double busy_s, own_s, wall_s;
} idle_mark;

idle_mark idle_begin(void);
/* The fraction of the machine's cores, 0 to 1, that other processes or the host of a virtual
   machine used since then. 0 if /proc/stat is not available. */
double idle_others(const idle_mark *since);

#endif
