/* Fits constants of a stack and of a collective library to measured times. Minimizes the squared
   logarithm of predicted / measured, with outliers damped and each constant within its bounds.
   Deterministic. */
#ifndef TOOLS_FIT_H
#define TOOLS_FIT_H

#include "tools/calibrate/measured.h"

/* A constant, named by its key in hardware files below "stack" ("kernels.add") or below
   "collectives" ("ll.base_us"). */
typedef struct fit_constant {
    char name[64];
    size_t offset;             /* of the value in syn_hardware */
    double least, most, usual; /* bounds, and a typical value to start from; in the file's unit */
    double scale;              /* factor from the file's unit to that of syn_hardware */
} fit_constant;

enum { FIT_CONSTANTS = 32 };

typedef struct fit_free {
    fit_constant at[FIT_CONSTANTS];
    int n;
} fit_free;

/* Selects the constants of hw that a fit may change: those that are not 0, except the n_fixed names
   in `fixed`. With `library`, also the constants of the collective library. Fails with
   SYN_E_INVALID if a name in `fixed` is not one of them. */
syn_status fit_choose(fit_free *out, const syn_hardware *hw, bool library, const char *const *fixed,
                      int n_fixed, syn_error *err) SYN_MUST_USE;
double fit_value(const fit_constant *c, const syn_hardware *hw); /* in the file's unit */
/* -1 or 1 if the constant is at its lower or upper bound, otherwise 0. */
int fit_at_bounds(const syn_hardware *hw, const fit_constant *c);

/* Statistics of the prediction errors, predicted / measured - 1. */
typedef struct fit_errors {
    /* mean, median and worst: of absolute errors; bias: mean of signed errors. */
    double mean, median, worst, bias;
    size_t n, worst_row; /* number of rows; index of the row with the largest absolute error */
} fit_errors;
fit_errors fit_measure(const measured_row *const *rows, size_t n, const syn_hardware *hw);

/* Fits the constants in *hw to n rows. Starts from a few fixed points and, if `given`, also from
   the values in *hw, and uses the best result. At most `rounds` iterations per start. */
syn_status fit_rows(syn_hardware *hw, const fit_free *constants, const measured_row *const *rows,
                    size_t n, bool given, int rounds, syn_error *err) SYN_MUST_USE;

/* Which rows are left out together in cross-validation. */
typedef enum fit_split {
    FIT_TENTH,
    FIT_MODEL,
    FIT_TP,
    FIT_BATCH,
    FIT_LENGTH,
    FIT_SPLITS
} fit_split;
extern const char *const fit_split_names[FIT_SPLITS];
/* Predicts each row with constants that were fitted to the rows of the other parts. These fits
   start from the fixed points only. predicted_ns: one value per row. *n_parts: number of parts.
   Constants that are not fitted are taken from *start. */
syn_status fit_leave_out(double *predicted_ns, int *n_parts, fit_split split,
                         const syn_hardware *start, const fit_free *constants, const measured *all,
                         int rounds, syn_error *err) SYN_MUST_USE;

#endif
