/* Detects whether other processes ran during a measurement, which makes its times useless. */
#ifndef TOOLS_QUIET_H
#define TOOLS_QUIET_H

typedef struct quiet_mark {
    /* CPU time of all cores; CPU time of this process; clock. busy_s < 0: unknown. */
    double busy_s, own_s, wall_s;
} quiet_mark;

quiet_mark quiet_begin(void);
/* The fraction of the machine's cores, 0 to 1, that other processes or the host of a virtual
   machine used since then. 0 if /proc/stat is not available. */
double quiet_others(const quiet_mark *since);

#endif
