/* Fits constants of a stack to measured times: least squares of the logarithm of predicted over
   measured, outliers damped, each constant within its bounds; the same every time. */
#ifndef TOOLS_FIT_H
#define TOOLS_FIT_H

#include "tools/calibrate/measured.h"

/* A constant by its name in hardware files below "stack", "kernels.add" for example, or below
   "collectives", "ll.base_us". */
typedef struct fit_constant {
    char name[64];
    size_t offset;             /* in syn_hardware; of several with one value: the first */
    double least, most, usual; /* in the file's unit; usual: of a stack of which nothing is known */
    double scale;              /* from that unit to the struct's */
} fit_constant;

enum { FIT_CONSTANTS = 32 };

typedef struct fit_free {
    fit_constant at[FIT_CONSTANTS];
    int n;
} fit_free;

/* The constants that hw gives, which a fit may change: those that are not 0 but those of `fixed`;
   with `library` also those of the collectives' library. SYN_E_INVALID: a name in `fixed` is none
   of them. */
syn_status fit_choose(fit_free *out, const syn_hardware *hw, bool library, const char *const *fixed,
                      int n_fixed, syn_error *err) SYN_MUST_USE;
double fit_value(const fit_constant *c, const syn_hardware *hw); /* in the file's unit */
/* -1 or 1: the constant is at its lower or upper bound; else 0. */
int fit_at_bounds(const syn_hardware *hw, const fit_constant *c);

/* Errors of predictions, predicted / measured - 1. */
typedef struct fit_errors {
    double mean, median, worst, bias; /* mean and worst: absolute; bias: mean of the signed */
    size_t n, worst_row;
} fit_errors;
fit_errors fit_measure(const measured_row *const *rows, size_t n, const syn_hardware *hw);

/* Changes *hw for the rows, from a few fixed starts and, if `given`, from what it is, whichever
   ends best; at most `rounds` each. */
syn_status fit_rows(syn_hardware *hw, const fit_free *constants, const measured_row *const *rows,
                    size_t n, bool given, int rounds, syn_error *err) SYN_MUST_USE;

/* What rows are left out together. */
typedef enum fit_split {
    FIT_TENTH,
    FIT_MODEL,
    FIT_TP,
    FIT_BATCH,
    FIT_LENGTH,
    FIT_SPLITS
} fit_split;
extern const char *const fit_split_names[FIT_SPLITS];
/* What each row is predicted to take by constants that were fitted to the rows of other parts, and
   began knowing none of them; n_parts: how many there were. What is not fitted is as in *start. */
syn_status fit_leave_out(double *predicted_ns, int *n_parts, fit_split split,
                         const syn_hardware *start, const fit_free *constants, const measured *all,
                         int rounds, syn_error *err) SYN_MUST_USE;

#endif
