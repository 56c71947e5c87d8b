/* Tries the combinations of a sweep, and finds the Pareto front. */
#include "tools/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/progress.h"

void sweep_free(sweep *s) {
    output_lock_release(&s->lock);
    for (int i = 0; i < s->n_axes; i++) syn_free(s->axes[i].values);
    for (size_t i = 0; i < s->n; i++) syn_free(s->rows[i].refused);
    syn_free(s->machines);
    syn_free(s->words);
    syn_free(s->rows);
    *s = (sweep){0};
}

int sweep_values(const sweep *s, const char *option) {
    for (int i = 0; i < s->n_axes; i++)
        if (strcmp(s->axes[i].option->name, option) == 0) return s->axes[i].n;
    return 1;
}

void sweep_name(sweep *s, const char *option, const char *model, const char *all) {
    const int n = sweep_values(s, option);
    if (s->title[0] != '\0') return;
    if (n > 1) snprintf(s->title, sizeof s->title, "%d models", n);
    else snprintf(s->title, sizeof s->title, "%s", model);
    snprintf(s->subtitle, sizeof s->subtitle, "%s", all);
}

/* ---- All combinations ---- */

/* Advances `at` to the next combination of values on all axes except the machine axis. Returns
   false after the last combination. */
static bool advance(const sweep *s, int at[SWEEP_AXES]) {
    for (int i = s->n_axes; i-- > 0;) {
        if (i == s->machine_axis) continue;
        if (++at[i] < s->axes[i].n) return true;
        at[i] = 0;
    }
    return false;
}

bool sweep_fits(const syn_hardware *hw, const sweep_times *t) {
    return hw->memory_bytes <= 0 || t->rank_bytes <= hw->memory_bytes;
}

/* Marks the row as refused if it exceeds the memory of its machine. Its times remain set, because
   they are valid for a machine with more memory. */
static syn_status too_large(sweep_row *row, const syn_hardware *hw, syn_error *err) {
    char a[32], b[32], name[CLI_SHOWN_BYTES], text[2 * CLI_SHOWN_BYTES];
    row->too_large = !sweep_fits(hw, &row->t);
    if (!row->too_large) return SYN_OK;
    snprintf(text, sizeof text, "a rank needs %s, but %s has %s",
             cli_bytes_text(row->t.rank_bytes, a, sizeof a), cli_shown(hw->name, name, sizeof name),
             cli_bytes_text(hw->memory_bytes, b, sizeof b));
    row->refused = syn_strdup(text);
    return row->refused ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof text, "the runs of --sweep");
}

/* Adds a row for each machine, with the combination `at`. */
static syn_status add_rows(sweep *s, const int at[SWEEP_AXES], syn_error *err) {
    for (int m = 0; m < s->n_machines; m++) {
        SYN_TRY(syn_grow(&s->rows, &s->cap, s->n + 1, sizeof *s->rows, err));
        sweep_row *row = &s->rows[s->n++];
        *row = (sweep_row){.machine = m};
        memcpy(row->at, at, sizeof row->at);
        if (s->machine_axis >= 0) row->at[s->machine_axis] = m;
    }
    return SYN_OK;
}

static syn_status fill_row(const sweep *s, sweep_row *row, const sweep_times *times,
                           const char *refused, syn_error *err) {
    if (!refused) {
        row->t = times[row->machine];
        return too_large(row, &s->machines[row->machine], err);
    }
    row->refused = syn_strdup(refused);
    return row->refused ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(refused) + 1, "the runs of --sweep");
}

static syn_status try_one(sweep *s, const int at[SWEEP_AXES], sweep_times *times, sweep_try *try,
                          void *user, syn_error *why) {
    for (int i = 0; i < s->n_axes; i++)
        if (i != s->machine_axis &&
            cli_set(s->program, s->axes[i].option, s->axes[i].values[at[i]]) != CLI_RUN)
            return why->code;
    memset(times, 0, (size_t)s->n_machines * sizeof *times);
    return try(user, s, times, why);
}

/* Whether runs without --dtype have the same dtype on both machines. */
static bool same_machine(const syn_hardware *a, const syn_hardware *b) {
    const double *x = a->peak_flops_per_ns, *y = b->peak_flops_per_ns;
    return (a->multiprocessors > 0) == (b->multiprocessors > 0) &&
           (x[SYN_F16] > 0) == (y[SYN_F16] > 0) && (x[SYN_BF16] > 0) == (y[SYN_BF16] > 0);
}

/* Tries one combination, once for each group of machines on which runs have the same default
   dtype. */
static syn_status try_machines(sweep *s, const int at[SWEEP_AXES], sweep_times *times,
                               sweep_try *try, void *user, syn_error *err) {
    const size_t first = s->n;
    SYN_TRY(add_rows(s, at, err));
    for (int m = 0; m < s->n_machines; m++) {
        syn_error why = {0};
        int k = 0;
        while (!same_machine(&s->machines[k], &s->machines[m])) k++;
        if (k < m) continue; /* a machine of this group was tried before */
        s->deciding = m;
        cli_keep_messages(&why);
        const bool refused = try_one(s, at, times, try, user, &why) != SYN_OK;
        cli_keep_messages(NULL);
        for (; k < s->n_machines; k++)
            if (same_machine(&s->machines[k], &s->machines[m]))
                SYN_TRY(fill_row(s, &s->rows[first + (size_t)k], times, refused ? why.text : NULL,
                                 err));
    }
    return SYN_OK;
}

/* ---- Order ---- */

double sweep_time(const sweep *s, const sweep_row *row) {
    return s->training ? row->t.ns * 1e6 / row->t.tokens : row->t.ns;
}

double sweep_cost(const sweep_row *row) {
    return row->t.ns * 1e-9 * (double)row->t.ranks / row->t.tokens * 1e3;
}

typedef struct place {
    double time, cost;
    sweep_row *row;
} place;

static int by_time(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

sweep_row **sweep_in_order(const sweep *s, size_t *n) {
    place *places = syn_calloc(s->n + 1, sizeof *places);
    sweep_row **rows = syn_calloc(s->n + 1, sizeof *rows);
    *n = 0;
    for (size_t i = 0; places && i < s->n; i++) {
        sweep_row *row = &s->rows[i];
        if (!row->refused) places[(*n)++] = (place){sweep_time(s, row), sweep_cost(row), row};
    }
    if (places) qsort(places, *n, sizeof *places, by_time);
    for (size_t i = 0; places && rows && i < *n; i++) rows[i] = places[i].row;
    if (!places) {
        syn_free(rows);
        rows = NULL;
    }
    syn_free(places);
    return rows;
}

static syn_status mark_front(sweep *s, syn_error *err) {
    size_t n;
    int front = 0;
    double least = INFINITY;
    sweep_row **rows = sweep_in_order(s, &n);
    if (!rows) return SYN_FAIL_NOMEM(err, s->n * sizeof *rows, "the runs of --sweep");
    for (size_t i = 0; i < n; i++) {
        if (!(sweep_cost(rows[i]) < least)) continue;
        least = sweep_cost(rows[i]);
        rows[i]->front = ++front;
    }
    syn_free(rows);
    return SYN_OK;
}

syn_status sweep_run(sweep *s, sweep_try *try, void *user, bool quiet, syn_error *err) {
    int at[SWEEP_AXES] = {0};
    int64_t all = 1, done = 0;
    progress bar = {.what = "sweeping", .unit = "runs", .quiet = quiet, .terminal_only = true};
    for (int i = 0; i < s->n_axes; i++)
        if (i != s->machine_axis) all *= s->axes[i].n;
    sweep_times *times = syn_calloc((size_t)s->n_machines, sizeof *times);
    syn_status status = times ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof *times, "the runs of --sweep");
    for (bool more = true; more && status == SYN_OK; more = advance(s, at)) {
        progress_step(&bar, done++, all);
        status = try_machines(s, at, times, try, user, err);
    }
    progress_step(&bar, all, all);
    sweep_name(s, "", "no run", "");
    syn_free(times);
    return status == SYN_OK ? mark_front(s, err) : status;
}
