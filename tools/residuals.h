/* Expected error of a prediction, from the prediction errors on the measured runs that are most
   similar to the predicted one. */
#ifndef TOOLS_RESIDUALS_H
#define TOOLS_RESIDUALS_H

#include "syntorch/hardware/hardware.h"

typedef struct run_shape {
    bool training, wide; /* wide: f32, for which nothing was measured */
    int64_t layers, hidden, tp, dp, batch, tokens, new_tokens;
    const char *unlike[4]; /* other properties that no measured run had ("no dropout"), up to the
                              first NULL */
} run_shape;

typedef struct run_error {
    int n_rows;   /* number of measured runs with these constants; 0: no error is known */
    double error; /* root mean square of the nearest runs' errors, as a fraction; at least the error
                     of left-out rows for each dimension in `beyond` */
    char beyond[120]; /* comma-separated: properties that no measured run had, or had so small or so
                         large; "": none */
} run_error;

/* Finds the expected error. It comes from rows that the constants were not fitted to. */
run_error residuals_near(const syn_hardware *hw, const run_shape *shape);
/* Writes "+-4 % on the nearest of 135 measured runs", or why the error is unknown; returns buf. */
const char *residuals_text(const run_error *e, const syn_hardware *hw, char *buf, size_t bytes);
/* Writes four columns for tables, " 4%" or " ?", followed by a star if the run is extrapolated;
   returns buf. */
const char *residuals_short(const run_error *e, char buf[16]);

#endif
