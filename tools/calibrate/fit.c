/* Fits constants with the Levenberg-Marquardt method, and cross-validates them. */
#include "tools/calibrate/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

/* ---- Constants ---- */

#define STACK(member) offsetof(syn_hardware, stack.member)

static const fit_constant scalars[] = {
    {"launch_us", STACK(launch_ns), 0.1, 300, 30, 1e3},
    {"kernel_us", STACK(kernel_ns), 0.1, 100, 5, 1e3},
    {"matmul_efficiency", STACK(matmul_efficiency), 0.3, 0.97, 0.7, 1},
    {"matmul_tail", STACK(matmul_tail), 0.02, 3, 0.5, 1},
    {"matmul_half_gflop", STACK(matmul_half_flops), 1e-5, 100, 1, 1e9},
    {"attention_efficiency", STACK(attention_efficiency), 0.05, 0.97, 0.6, 1},
    {"score_passes", STACK(score_passes), 0.1, 60, 5, 1},
    {"score_kernels", STACK(score_kernels), 0.1, 50, 2, 1},
    {"memory_efficiency", STACK(memory_efficiency), 0.3, 1, 0.8, 1},
    {"vector_efficiency", STACK(vector_efficiency), 0.05, 1, 0.6, 1},
    {"collective_us", STACK(collective_ns), 0.5, 300, 20, 1e3},
    {"collective_rank_us", STACK(collective_rank_ns), 0.5, 300, 5, 1e3},
    {"collective_kernel_us", STACK(collective_kernel_ns), 0.1, 100, 5, 1e3},
    {"collective_hop_us", STACK(collective_hop_ns), 0.1, 200, 5, 1e3},
};

#define PROTOCOL(id, member) offsetof(syn_hardware, collectives.protocols[SYN_PROTOCOL_##id].member)

/* Constants of the collective library, which all stacks of a machine share. They are fitted only if
   all rows are collectives. */
static const fit_constant protocols[] = {
    {"ll.base_us", PROTOCOL(LL, base_ns), 1, 100, 5, 1e3},
    {"ll.step_us", PROTOCOL(LL, step_ns), 0.1, 20, 1, 1e3},
    {"ll.gb_per_s", PROTOCOL(LL, bytes_per_ns), 1, 500, 20, 1},
    {"ll128.base_us", PROTOCOL(LL128, base_ns), 1, 100, 15, 1e3},
    {"ll128.step_us", PROTOCOL(LL128, step_ns), 0.1, 20, 1, 1e3},
    {"ll128.link_efficiency", PROTOCOL(LL128, link_efficiency), 0.1, 1, 0.7, 1},
    {"simple.base_us", PROTOCOL(SIMPLE, base_ns), 1, 200, 30, 1e3},
    {"simple.step_us", PROTOCOL(SIMPLE, step_ns), 0.1, 50, 3, 1e3},
    {"simple.link_efficiency", PROTOCOL(SIMPLE, link_efficiency), 0.1, 1, 0.9, 1},
    {"simple.copy_efficiency", PROTOCOL(SIMPLE, copy_efficiency), 0.01, 1, 0.3, 1},
    {"simple.fill_us", PROTOCOL(SIMPLE, fill_ns), 1, 1000, 50, 1e3},
    {"switch.base_us", PROTOCOL(SWITCH, base_ns), 1, 200, 30, 1e3},
    {"switch.link_efficiency", PROTOCOL(SWITCH, link_efficiency), 0.1, 1, 0.7, 1},
    {"switch.fill_us", PROTOCOL(SWITCH, fill_ns), 1, 1000, 50, 1e3},
};

static double *place(const fit_constant *c, syn_hardware *hw) {
    return (double *)(void *)((char *)hw + c->offset);
}

double fit_value(const fit_constant *c, const syn_hardware *hw) {
    double value;
    memcpy(&value, (const char *)hw + c->offset, sizeof value);
    return value / c->scale;
}

/* The number of fixed starting points. There are several, because a fit may end in a local minimum.
   The first has the typical values. In the other three, some constants are half way between the
   typical value and the upper bound on a logarithmic scale: all constants, only the fractions of a
   peak, or only the other constants. */
enum { STARTS = 4 };

static void set_start(syn_hardware *hw, const fit_free *constants, int start) {
    for (int i = 0; i < constants->n; i++) {
        const fit_constant *c = &constants->at[i];
        const bool share = c->most <= 1,
                   more = start == 1 || (start == 2 && share) || (start == 3 && !share);
        *place(c, hw) = (more ? sqrt(c->usual * c->most) : c->usual) * c->scale;
    }
}

int fit_at_bounds(const syn_hardware *hw, const fit_constant *c) {
    const double value = fit_value(c, hw);
    return value <= c->least * (1 + 1e-9) ? -1 : value >= c->most * (1 - 1e-9);
}

static void add(fit_free *out, const fit_constant *c, const syn_hardware *hw) {
    if (out->n < FIT_CONSTANTS && fit_value(c, hw) > 0) out->at[out->n++] = *c;
}

static void add_ops(fit_free *out, const syn_hardware *hw, const char *what, const syn_hw_ops *ops,
                    double most, double usual, double scale) {
    for (int32_t i = 0; i < ops->n; i++) {
        fit_constant c = {.offset = (size_t)((const char *)&ops->at[i].value - (const char *)hw),
                          .least = most * 1e-4,
                          .most = most,
                          .usual = usual,
                          .scale = scale};
        snprintf(c.name, sizeof c.name, "%s.%s", what, ops->at[i].op);
        add(out, &c, hw);
    }
}

static void add_phases(fit_free *out, const syn_hardware *hw) {
    for (int p = 0; p < SYN_PHASE_COUNT; p++) {
        const size_t at = STACK(phases) + sizeof(struct syn_hw_phase) * (size_t)p;
        fit_constant launch = {.offset = at + offsetof(struct syn_hw_phase, launch),
                               .least = 0.05,
                               .most = 10,
                               .usual = 1,
                               .scale = 1},
                     device = launch;
        device.offset = at + offsetof(struct syn_hw_phase, device);
        snprintf(launch.name, sizeof launch.name, "phases.%s.launch", syn_phase_name((syn_phase)p));
        snprintf(device.name, sizeof device.name, "phases.%s.device", syn_phase_name((syn_phase)p));
        add(out, &launch, hw);
        add(out, &device, hw);
    }
}

static void drop(fit_free *out, int at) {
    memmove(&out->at[at], &out->at[at + 1], (size_t)(out->n - at - 1) * sizeof out->at[0]);
    out->n--;
}

syn_status fit_choose(fit_free *out, const syn_hardware *hw, bool library, const char *const *fixed,
                      int n_fixed, syn_error *err) {
    out->n = 0;
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) add(out, &scalars[i], hw);
    add_ops(out, hw, "kernels", &hw->stack.kernels, 50, 1, 1);
    add_ops(out, hw, "overhead_us", &hw->stack.overhead, 1e5, 1e3, 1e3);
    add_phases(out, hw);
    for (size_t i = 0; library && i < sizeof protocols / sizeof protocols[0]; i++)
        add(out, &protocols[i], hw);
    for (int f = 0; f < n_fixed; f++) {
        int found = -1;
        for (int i = 0; i < out->n && found < 0; i++)
            if (strcmp(out->at[i].name, fixed[f]) == 0) found = i;
        if (found < 0)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "--fix %s: %s has no fitted constant of this name; the first is %s",
                            fixed[f], hw->stack.name, out->n > 0 ? out->at[0].name : "none");
        drop(out, found);
    }
    return SYN_OK;
}

/* ---- Errors ---- */

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

fit_errors fit_measure(const measured_row *const *rows, size_t n, const syn_hardware *hw) {
    fit_errors e = {.n = n};
    double *all = syn_malloc((n + 1) * sizeof *all);
    for (size_t i = 0; i < n; i++) {
        const double off = measured_predict_ns(rows[i], hw) / rows[i]->ns - 1;
        e.mean += fabs(off) / (double)n;
        e.bias += off / (double)n;
        if (fabs(off) > e.worst) e.worst_row = i;
        e.worst = fmax(e.worst, fabs(off));
        if (all != NULL) all[i] = fabs(off);
    }
    if (all != NULL && n > 0) {
        qsort(all, n, sizeof *all, compare_numbers);
        e.median = all[n / 2];
    }
    syn_free(all);
    return e;
}

/* ---- Least squares ---- */

#define DAMPED_FROM 0.05 /* larger errors than this have less weight */

typedef struct problem {
    syn_hardware *hw;
    const fit_free *free;
    const measured_row *const *rows;
    size_t n;
    /* `off` and `moved` have n values each, the logarithms of predicted / measured times: `off`
       with the current constants, `moved` with one constant changed. `slopes` has the derivatives
       of `off`, n values per constant. */
    double *off, *moved, *slopes;
} problem;

/* The loss: a sum over rows that grows like r^2 for errors r below s = DAMPED_FROM, and like |r|
   above. Sets off[] to the errors. */
static double losses(const problem *p, double *off) {
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        off[i] = log(measured_predict_ns(p->rows[i], p->hw) / p->rows[i]->ns);
        sum += sqrt(1 + off[i] * off[i] / (DAMPED_FROM * DAMPED_FROM)) - 1;
    }
    return sum;
}

static double set(const problem *p, int i, double value) {
    const fit_constant *c = &p->free->at[i];
    const double before = fit_value(c, p->hw);
    *place(c, p->hw) = fmin(fmax(value, c->least), c->most) * c->scale;
    return before;
}

/* Computes the derivative of each row's error with respect to the logarithm of each constant, as a
   finite difference that stays within the constant's bounds. */
static void differentiate(const problem *p) {
    for (int c = 0; c < p->free->n; c++) {
        const double before = fit_value(&p->free->at[c], p->hw);
        const double factor = before * 1.01 <= p->free->at[c].most ? 1.01 : 1 / 1.01;
        set(p, c, before * factor);
        (void)losses(p, p->moved);
        set(p, c, before);
        for (size_t i = 0; i < p->n; i++)
            p->slopes[(size_t)c * p->n + i] = (p->moved[i] - p->off[i]) / log(factor);
    }
}

/* Solves a * x = b in place for k unknowns and stores x in b. Returns false if a is not positive
   definite. */
static bool solve(double *a, double *b, int k) {
    for (int i = 0; i < k; i++) {
        if (!(a[i * k + i] > 0)) return false;
        for (int j = i + 1; j < k; j++) {
            const double factor = a[j * k + i] / a[i * k + i];
            for (int m = i; m < k; m++) a[j * k + m] -= factor * a[i * k + m];
            b[j] -= factor * b[i];
        }
    }
    for (int i = k - 1; i >= 0; i--) {
        for (int j = i + 1; j < k; j++) b[i] -= a[i * k + j] * b[j];
        b[i] /= a[i * k + i];
    }
    return true;
}

/* Computes a Levenberg-Marquardt step. Rows with larger errors have less weight. */
static bool find_step(const problem *p, double damping, double step[FIT_CONSTANTS]) {
    static const double s = DAMPED_FROM;
    double a[FIT_CONSTANTS * FIT_CONSTANTS] = {0};
    const int k = p->free->n;
    for (int i = 0; i < k; i++) step[i] = 0;
    for (size_t r = 0; r < p->n; r++) {
        const double weight = 1 / sqrt(1 + p->off[r] * p->off[r] / (s * s));
        for (int i = 0; i < k; i++) {
            const double slope = weight * p->slopes[(size_t)i * p->n + r];
            step[i] -= slope * p->off[r];
            for (int j = 0; j < k; j++) a[i * k + j] += slope * p->slopes[(size_t)j * p->n + r];
        }
    }
    for (int i = 0; i < k; i++) a[i * k + i] += damping * (a[i * k + i] + 1e-6);
    return solve(a, step, k);
}

/* Does one iteration: shortens the step until the loss decreases. Returns false if no step is
   better or the gain is negligible. */
static bool improve(const problem *p, double *loss, double *damping) {
    double step[FIT_CONSTANTS], before[FIT_CONSTANTS];
    differentiate(p);
    for (; *damping < 1e6; *damping *= 4) {
        if (!find_step(p, *damping, step)) continue;
        for (int i = 0; i < p->free->n; i++)
            before[i] =
                set(p, i, fit_value(&p->free->at[i], p->hw) * exp(fmin(fmax(step[i], -0.7), 0.7)));
        const double now = losses(p, p->moved);
        if (now < *loss) {
            const bool done = *loss - now < 1e-5 * *loss;
            *loss = now;
            *damping = fmax(*damping / 8, 1e-6);
            memcpy(p->off, p->moved, p->n * sizeof *p->off);
            return !done;
        }
        for (int i = 0; i < p->free->n; i++) set(p, i, before[i]);
    }
    return false;
}

static double fit_from(const problem *p, int rounds) {
    double damping = 1e-2, loss = losses(p, p->off);
    while (rounds-- > 0 && p->n > 0 && p->free->n > 0)
        if (!improve(p, &loss, &damping)) break;
    return loss;
}

syn_status fit_rows(syn_hardware *hw, const fit_free *constants, const measured_row *const *rows,
                    size_t n, bool given, int rounds, syn_error *err) {
    const size_t numbers = n * ((size_t)constants->n + 2);
    double *buffer = syn_calloc(numbers + 1, sizeof *buffer);
    if (buffer == NULL)
        return SYN_FAIL_NOMEM(err, numbers * sizeof *buffer, "the fit of a stack's constants");
    syn_hardware best = *hw, other;
    problem p = {&best, constants, rows, n, buffer, buffer + n, buffer + 2 * n};
    double least = given ? fit_from(&p, rounds) : INFINITY;
    p.hw = &other;
    for (int start = 0; start < STARTS; start++) {
        other = *hw;
        set_start(&other, constants, start);
        const double loss = fit_from(&p, rounds);
        if (loss < least) best = other;
        least = fmin(least, loss);
    }
    *hw = best;
    syn_free(buffer);
    return SYN_OK;
}

/* ---- Cross-validation ---- */

const char *const fit_split_names[FIT_SPLITS] = {"a tenth of the rows", "a model", "a tp degree",
                                                 "a batch size", "a length"};

/* Writes the name of the part that a row belongs to. */
static void part_of(const measured_row *row, size_t index, fit_split split, char out[80]) {
    switch (split) {
    case FIT_TENTH:
        snprintf(out, 80, "%d", (int)(index * 7 % 10));
        return;
    case FIT_MODEL:
        snprintf(out, 80, "%s", row->model);
        return;
    case FIT_TP:
        snprintf(out, 80, "%lld", (long long)row->tp);
        return;
    case FIT_BATCH:
        snprintf(out, 80, "%lld", (long long)(row->batch > 0 ? row->batch : (int64_t)row->bytes));
        return;
    default:
        snprintf(out, 80, "%lld/%lld", (long long)row->tokens, (long long)row->new_tokens);
        return;
    }
}

typedef struct halves {
    const measured_row **kept, **out;
    size_t n_kept, n_out;
} halves;

static void divide(const measured *all, fit_split split, const char *part, halves *h) {
    char other[80];
    h->n_kept = h->n_out = 0;
    for (size_t i = 0; i < all->n; i++) {
        part_of(&all->rows[i], i, split, other);
        if (strcmp(other, part) == 0) h->out[h->n_out++] = &all->rows[i];
        else h->kept[h->n_kept++] = &all->rows[i];
    }
}

/* Whether no earlier row belongs to the same part. */
static bool is_first(const measured *all, size_t index, fit_split split, const char *part) {
    char other[80];
    for (size_t i = 0; i < index; i++) {
        part_of(&all->rows[i], i, split, other);
        if (strcmp(other, part) == 0) return false;
    }
    return true;
}

syn_status fit_leave_out(double *predicted_ns, int *n_parts, fit_split split,
                         const syn_hardware *start, const fit_free *constants, const measured *all,
                         int rounds, syn_error *err) {
    const measured_row **buffer = syn_calloc(2 * all->n + 1, sizeof *buffer);
    if (buffer == NULL) return SYN_FAIL_NOMEM(err, 2 * all->n * sizeof *buffer, "rows");
    halves h = {buffer, buffer + all->n, 0, 0};
    syn_status s = SYN_OK;
    *n_parts = 0;
    for (size_t i = 0; i < all->n && s == SYN_OK; i++) {
        char part[80];
        part_of(&all->rows[i], i, split, part);
        if (!is_first(all, i, split, part)) continue;
        syn_hardware hw = *start;
        divide(all, split, part, &h);
        if (h.n_kept > 0) ++*n_parts;
        s = fit_rows(&hw, constants, h.kept, h.n_kept, false, rounds, err);
        for (size_t k = 0; k < h.n_out; k++)
            predicted_ns[h.out[k] - all->rows] = measured_predict_ns(h.out[k], &hw);
    }
    syn_free(buffer);
    return s;
}
