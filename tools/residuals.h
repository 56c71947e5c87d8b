/* Estimates the error of a prediction from the prediction errors on the measured runs that are most
   similar to the predicted run. */
#ifndef TOOLS_RESIDUALS_H
#define TOOLS_RESIDUALS_H

#include "syntorch/hardware/hardware.h"

typedef struct run_shape {
    bool training, wide; /* wide: the run uses f32, which no measured run did */
    int64_t layers, hidden, tp, dp, pp, batch, tokens, new_tokens;
    const char *unlike[6]; /* other properties that no measured run had, such as "no dropout"; ends
                              at the first NULL */
} run_shape;

typedef struct run_error {
    int n_rows;   /* number of measured runs for these constants; 0: the error is unknown */
    double error; /* expected relative error: the root mean square of the nearest runs' errors, or,
                     if that is larger, the cross-validation error for a dimension listed in
                     `extrapolated` */
    char extrapolated[120]; /* properties in which the run is extrapolated, separated by commas:
                         those that no measured run had, and those whose value is outside the
                         measured range; "": none */
} run_error;

/* Returns the expected error. It is based on cross-validation: each measured run was predicted with
   constants that were fitted to other runs. */
run_error residuals_near(const syn_hardware *hw, const run_shape *shape);
/* Writes "+-4 % on the nearest of 135 measured runs", or the reason why the error is unknown;
   returns buf. */
const char *residuals_text(const run_error *e, const syn_hardware *hw, char *buf, size_t bytes);
/* Writes the error for a table column, " 4%" or " ?", with a star after it if the run is
   extrapolated; returns buf. */
const char *residuals_short(const run_error *e, char buf[16]);

#endif
