/* Finds the measured runs nearest to a predicted run, and computes the expected error from their
   errors. */
#include "tools/residuals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIMENSIONS = 8, NEAREST = 8 };

static const char *const names[DIMENSIONS] = {"layers", "hidden size", "tp",     "dp",
                                              "pp",     "batch",       "tokens", "new tokens"};
/* For each dimension, the cross-validation split whose error applies if the run is outside the
   measured range; SYN_HW_SPLITS: none. */
static const syn_hw_holdout splits[DIMENSIONS] = {SYN_HW_MODEL,  SYN_HW_MODEL,  SYN_HW_TP,
                                                  SYN_HW_SPLITS, SYN_HW_SPLITS, SYN_HW_BATCH,
                                                  SYN_HW_LENGTH, SYN_HW_LENGTH};

static double ratio(double a, double b) {
    return log2((a + 1) / (b + 1));
}

/* The nearest rows so far, sorted by distance. */
typedef struct near_rows {
    double distance[NEAREST], error[NEAREST];
    int n;
} near_rows;

static void add(near_rows *near, double distance, double error) {
    if (near->n < NEAREST) near->n++;
    else if (distance >= near->distance[NEAREST - 1]) return;
    int at = near->n - 1;
    for (; at > 0 && near->distance[at - 1] > distance; at--) {
        near->distance[at] = near->distance[at - 1];
        near->error[at] = near->error[at - 1];
    }
    near->distance[at] = distance;
    near->error[at] = error;
}

static void name(run_error *e, const char *what) {
    const size_t used = strlen(e->extrapolated);
    snprintf(e->extrapolated + used, sizeof e->extrapolated - used, "%s%s", used > 0 ? ", " : "",
             what);
}

/* Adds the dimensions in which the run is outside the range of all rows to e->extrapolated, and
   raises the error to at least the error of their splits. */
static void add_extrapolated(run_error *e, const double *at, const double *least,
                             const double *most, const struct syn_hw_holdout_error *holdout) {
    for (int d = 0; d < DIMENSIONS; d++) {
        if (at[d] >= least[d] && at[d] <= most[d]) continue;
        name(e, names[d]);
        if (splits[d] < SYN_HW_SPLITS) e->error = fmax(e->error, holdout->error[splits[d]]);
    }
}

run_error residuals_near(const syn_hardware *hw, const run_shape *shape) {
    const double at[DIMENSIONS] = {(double)shape->layers, (double)shape->hidden,
                                   (double)shape->tp,     (double)shape->dp,
                                   (double)shape->pp,     (double)shape->batch,
                                   (double)shape->tokens, (double)shape->new_tokens};
    double least[DIMENSIONS], most[DIMENSIONS] = {0};
    near_rows near = {.n = 0};
    run_error e = {0};
    for (int d = 0; d < DIMENSIONS; d++) least[d] = INFINITY;
    for (int32_t i = 0; i < hw->errors.n && !shape->wide; i++) {
        const syn_hw_row *r = &hw->errors.rows[i];
        const double of[DIMENSIONS] = {r->layers, r->hidden, r->tp,     r->dp,
                                       r->pp,     r->batch,  r->tokens, r->new_tokens};
        double distance = 0;
        if (r->training != shape->training) continue;
        for (int d = 0; d < DIMENSIONS; d++) {
            distance += ratio(at[d], of[d]) * ratio(at[d], of[d]);
            least[d] = fmin(least[d], of[d]);
            most[d] = fmax(most[d], of[d]);
        }
        add(&near, distance, r->error);
        e.n_rows++;
    }
    if (e.n_rows == 0) return e;
    for (int i = 0; i < near.n; i++) e.error += near.error[i] * near.error[i] / near.n;
    e.error = sqrt(e.error);
    add_extrapolated(&e, at, least, most, &hw->errors.holdout[shape->training]);
    for (size_t i = 0; i < sizeof shape->unlike / sizeof shape->unlike[0] && shape->unlike[i]; i++)
        name(&e, shape->unlike[i]);
    return e;
}

const char *residuals_text(const run_error *e, const syn_hardware *hw, char *buf, size_t bytes) {
    if (e->n_rows > 0)
        snprintf(buf, bytes, "+-%.0f %% on the nearest of %d measured runs%s%s", 100 * e->error,
                 e->n_rows, e->extrapolated[0] ? "; extrapolated in " : "", e->extrapolated);
    else if (hw->errors.changed)
        snprintf(buf, bytes, "unknown: constants of %s+%s were changed after the fit", hw->name,
                 hw->stack.name);
    else
        snprintf(buf, bytes, "unknown: no similar run on %s+%s was measured", hw->name,
                 hw->stack.name);
    return buf;
}

const char *residuals_short(const run_error *e, char buf[16]) {
    if (e->n_rows > 0)
        snprintf(buf, 16, "%3.0f%%%s", 100 * fmin(e->error, 1e6), e->extrapolated[0] ? "*" : "");
    else snprintf(buf, 16, "   ?");
    return buf;
}
