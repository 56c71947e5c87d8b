#include "tools/residuals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIMENSIONS = 7, NEAREST = 8 };

static const char *const names[DIMENSIONS] = {"layers", "hidden size", "tp",        "dp",
                                              "batch",  "tokens",      "new tokens"};

static const struct residual {
    const char *stack;
    int training;
    double at[DIMENSIONS], error;
} residuals[] = {
#define X(stack, training, layers, hidden, tp, dp, batch, tokens, new_tokens, error) \
    {stack, training, {layers, hidden, tp, dp, batch, tokens, new_tokens}, error},
#include "tools/residuals.def"
#undef X
};

#define MEASURED_ON "a100-80g"

static double ratio(double a, double b) {
    return log2((a + 1) / (b + 1));
}

/* The nearest so far, the farthest of them last. */
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

run_error residuals_near(const syn_hardware *hw, const run_shape *shape) {
    const double at[DIMENSIONS] = {
        (double)shape->layers, (double)shape->hidden, (double)shape->tp,        (double)shape->dp,
        (double)shape->batch,  (double)shape->tokens, (double)shape->new_tokens};
    double least[DIMENSIONS], most[DIMENSIONS] = {0};
    near_rows near = {.n = 0};
    run_error e = {0};
    for (int d = 0; d < DIMENSIONS; d++) least[d] = INFINITY;
    for (size_t i = 0; i < sizeof residuals / sizeof *residuals; i++) {
        const struct residual *r = &residuals[i];
        if (strcmp(hw->name, MEASURED_ON) != 0 || strcmp(hw->stack.name, r->stack) != 0 ||
            shape->training != (r->training != 0) || shape->wide)
            continue;
        double distance = 0;
        for (int d = 0; d < DIMENSIONS; d++) {
            distance += ratio(at[d], r->at[d]) * ratio(at[d], r->at[d]);
            least[d] = fmin(least[d], r->at[d]);
            most[d] = fmax(most[d], r->at[d]);
        }
        add(&near, distance, r->error);
        e.n_rows++;
    }
    for (int i = 0; i < near.n; i++) e.error += near.error[i] * near.error[i] / near.n;
    e.error = sqrt(e.error);
    for (int d = 0; d < DIMENSIONS && e.n_rows > 0 && !e.beyond; d++)
        if (at[d] < least[d] || at[d] > most[d]) e.beyond = names[d];
    return e;
}

const char *residuals_text(const run_error *e, const syn_hardware *hw, char *buf, size_t bytes) {
    if (e->n_rows == 0)
        snprintf(buf, bytes, "unknown: no such run of %s+%s was measured", hw->name,
                 hw->stack.name);
    else
        snprintf(buf, bytes, "+-%.0f %% on the nearest of %d measured runs%s%s", 100 * e->error,
                 e->n_rows, e->beyond ? "; extrapolated, by " : "", e->beyond ? e->beyond : "");
    return buf;
}
