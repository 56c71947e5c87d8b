/* Detects whether other processes ran during a measurement, because its times are then useless. */
#ifndef TOOLS_QUIET_H
#define TOOLS_QUIET_H

typedef struct idle_mark {
    /* CPU time of all cores (negative: unknown), CPU time of this process, and wall-clock time. */
    double busy_s, own_s, wall_s;
} idle_mark;

idle_mark idle_begin(void);
/* Returns the fraction of the machine's cores, 0 to 1, that other processes or the host of a
   virtual machine have used since `since`. Returns 0 if /proc/stat is not available. */
double idle_others(const idle_mark *since);

#endif
