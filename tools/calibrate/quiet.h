/* Whether something else ran meanwhile, which makes measured times worthless. */
#ifndef TOOLS_QUIET_H
#define TOOLS_QUIET_H

typedef struct quiet_mark {
    double busy_s, own_s, wall_s; /* of all cores; of this process; busy_s < 0: nobody knows */
} quiet_mark;

quiet_mark quiet_begin(void);
/* The part of the machine's cores that others have had since then, or the host of a virtual machine
   has taken: 0 to 1; 0 where /proc/stat is not to be had. */
double quiet_others(const quiet_mark *since);

#endif
