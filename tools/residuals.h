/* How far a prediction may be off: errors of predictions on the measured runs that are nearest to
   the one that is predicted. */
#ifndef TOOLS_RESIDUALS_H
#define TOOLS_RESIDUALS_H

#include "syntorch/hardware/hardware.h"

typedef struct run_shape {
    bool training, wide; /* wide: f32, of which nothing was measured */
    int64_t layers, hidden, tp, dp, batch, tokens, new_tokens;
    const char *unlike[4]; /* what else no measured run had: "no dropout"; NULL: no more */
} run_shape;

typedef struct run_error {
    int n_rows;       /* measured runs of these constants; 0: none, and no error */
    double error;     /* root mean square of the nearest ones' errors, a fraction; at least that of
                         rows left out by what lies beyond the measured ones */
    char beyond[120]; /* what no measured run has so small, so large or at all, with commas; "":
                         nothing */
} run_error;

/* Errors are those of rows that the constants were not fitted to. */
run_error residuals_near(const syn_hardware *hw, const run_shape *shape);
/* "+-4 % on the nearest of 135 measured runs", or why there are none; returns buf. */
const char *residuals_text(const run_error *e, const syn_hardware *hw, char *buf, size_t bytes);
/* For tables, four columns: "  4%", or "   ?", and a star behind it where that is extrapolated;
   returns buf. */
const char *residuals_short(const run_error *e, char buf[16]);

#endif
