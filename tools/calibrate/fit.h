/* Fits the constants of a stack and of a collective library to measured times. A fit minimizes the
   squared logarithm of predicted / measured time over all rows, with less weight for outliers, and
   keeps each constant within its bounds. It is deterministic. */
#ifndef TOOLS_FIT_H
#define TOOLS_FIT_H

#include "tools/calibrate/measured.h"

/* A constant. Its name is its key in hardware files, below "stack" ("kernels.add") or below
   "collectives" ("ll.base_us"). */
typedef struct fit_constant {
    char name[64];
    size_t offset;             /* offset of the value in syn_hardware */
    double least, most, usual; /* bounds, and a typical value to start from, in the unit of hardware
                                  files */
    double scale;              /* factor from the unit of hardware files to the unit of
                                  syn_hardware */
} fit_constant;

enum { FIT_CONSTANTS = 32 };

typedef struct fit_free {
    fit_constant at[FIT_CONSTANTS];
    int n;
} fit_free;

/* Selects the constants of hw that a fit may change: the stack's constants and, if `library` is
   set, the collective library's. Constants that are 0 are not selected, nor the n_fixed constants
   named in `fixed`. Fails with SYN_E_INVALID if a name in `fixed` is not the name of such a
   constant. */
syn_status fit_choose(fit_free *out, const syn_hardware *hw, bool library, const char *const *fixed,
                      int n_fixed, syn_error *err) SYN_MUST_USE;
double fit_value(const fit_constant *c, const syn_hardware *hw); /* value of c, in the unit of
                                                                    hardware files */
/* Returns -1 if the constant is at its lower bound, 1 at its upper bound, otherwise 0. */
int fit_at_bounds(const syn_hardware *hw, const fit_constant *c);

/* Statistics of the relative prediction errors, predicted / measured - 1. */
typedef struct fit_errors {
    /* mean, median and worst are those of the absolute errors; bias is the mean of the signed
       errors. */
    double mean, median, worst, bias;
    size_t n, worst_row; /* number of rows; index of the row with the largest absolute error */
} fit_errors;
fit_errors fit_measure(const measured_row *const *rows, size_t n, const syn_hardware *hw);

/* Fits the constants in *hw to n rows. Runs one fit from each of a few fixed starting points and,
   if `given` is set, one from the values in *hw; keeps the best result. Each fit has at most
   `rounds` iterations. */
syn_status fit_rows(syn_hardware *hw, const fit_free *constants, const measured_row *const *rows,
                    size_t n, bool given, int rounds, syn_error *err) SYN_MUST_USE;

/* How cross-validation divides the rows into parts, each of which is left out once. The rows of a
   part have one property in common: the model, the tensor-parallel size, the batch size or the
   lengths. FIT_TENTH instead divides the rows into tenths. */
typedef enum fit_split {
    FIT_TENTH,
    FIT_MODEL,
    FIT_TP,
    FIT_BATCH,
    FIT_LENGTH,
    FIT_SPLITS
} fit_split;
extern const char *const fit_split_names[FIT_SPLITS];
/* Predicts each row with constants that were fitted to the rows of all other parts. These fits
   start only from the fixed starting points. predicted_ns gets one value per row, *n_parts the
   number of parts. Constants that are not fitted have the values that they have in *start. */
syn_status fit_leave_out(double *predicted_ns, int *n_parts, fit_split split,
                         const syn_hardware *start, const fit_free *constants, const measured *all,
                         int rounds, syn_error *err) SYN_MUST_USE;

#endif
