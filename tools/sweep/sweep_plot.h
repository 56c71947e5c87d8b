/* Parts of the pictures of sweeps that several pictures share: logarithmic axes and texts. */
#ifndef TOOLS_SWEEP_PLOT_H
#define TOOLS_SWEEP_PLOT_H

#include "tools/sweep/sweep.h"

/* A logarithmic axis. Both ends are logarithms to base 10; initially SWEEP_NO_SCALE. */
typedef struct sweep_scale {
    double from, to;
    bool dense; /* more ticks if the axis is shorter than a decade */
} sweep_scale;
#define SWEEP_NO_SCALE \
    { INFINITY, -INFINITY, false }

/* Makes the axis include a value. */
void sweep_widen(sweep_scale *a, double value);
/* Adds a margin, and widens the axis to at least half a decade. */
void sweep_settle(sweep_scale *a);
/* Where a value is on the axis: 0 to 1. */
double sweep_position(const sweep_scale *a, double value);
/* Finds the next tick within the axis. Ticks are at 1, 2 and 5 times powers of ten, or only at
   powers of ten if the axis is longer than three decades; dense ones also at 1.5, 3 and 7. *at is
   the state of the search, initially sweep_first_tick. Returns false after the last tick. */
int sweep_first_tick(const sweep_scale *a);
bool sweep_next_tick(const sweep_scale *a, int *at, double *value);
/* Formats the time of a tick, which is a round number: "200 ms". */
const char *sweep_tick_time(double ns, char buf[32]);
/* Writes a text with the attributes `how`, each after a space. */
void sweep_text_at(syn_sink *svg, double x, double y, const char *how, const char *text);

/* Colours of machines. */
enum { SWEEP_COLORS = 6 };
extern const char *const sweep_colors[SWEEP_COLORS];

#endif
