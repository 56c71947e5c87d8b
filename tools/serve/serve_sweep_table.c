/* Output of --sweep of `syntorch serve`: the table, PREFIX.sweep.csv and JSON. */
#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/serve/serve_sweep.h"

enum { TABLE_ROWS = 50 };

static bool has_limits(const serve_sweep *s) {
    return s->slo.ttft_ns > 0 || s->slo.tpot_ns > 0 || s->slo.latency_ns > 0;
}

static bool any_overloads(const serve_sweep *s) {
    for (size_t i = 0; i < s->all.n; i++)
        if (serve_sweep_overloads(&s->rows[i])) return true;
    return false;
}

/* ---- The table ---- */

static void print_head(const serve_sweep *s, FILE *out) {
    char tail[2][32];
    fprintf(out, "   ");
    for (int i = 0; i < s->all.n_axes; i++)
        fprintf(out, " %*s", sweep_width(&s->all.axes[i]), s->all.axes[i].option->name);
    snprintf(tail[0], sizeof tail[0], "TTFT p%g", s->percentile);
    snprintf(tail[1], sizeof tail[1], "TPOT p%g", s->percentile);
    fprintf(out, " %5s", "GPUs");
    if (serve_given.find_rate) fprintf(out, " %8s", "max rate");
    fprintf(out, " %8s %8s %8s %9s %9s %9s %9s%s%s\n", "tokens/s", "per GPU", "GPU-s/1k",
            "TTFT mean", tail[0], "TPOT mean", tail[1], has_limits(s) ? "    goodput" : "",
            has_limits(s) || any_overloads(s) ? " limits" : "");
}

/* The names of the limits that a row misses: " missed: TTFT, TPOT". */
static const char *missed_names(const serve_sweep *s, const serve_row *row, char buf[64]) {
    size_t used = 0;
    if (serve_sweep_overloads(row)) return " overloaded";
    for (int i = 0; i < SERVE_LIMITS; i++) {
        const double limit = serve_limit(&s->slo, i);
        if (limit <= 0 || serve_limit(&row->f.tail, i) <= limit) continue;
        used += (size_t)snprintf(buf + used, 64 - used, "%s%s",
                                 used ? ", " : " missed: ", serve_limit_names[i]);
    }
    return used ? buf : has_limits(s) ? " met" : "";
}

static void print_times(double mean, double tail, FILE *out) {
    char a[32], b[32];
    fprintf(out, " %9s %9s", cli_time_text(mean, a, sizeof a), cli_time_text(tail, b, sizeof b));
}

static void print_row(const serve_sweep *s, const serve_row *row, FILE *out) {
    const serve_figures *f = &row->f;
    char a[64], b[32], shown[CLI_SHOWN_BYTES];
    if (row->of->front) fprintf(out, "%3d", row->of->front);
    else fprintf(out, "   ");
    for (int i = 0; i < s->all.n_axes; i++)
        fprintf(out, " %*s", sweep_width(&s->all.axes[i]),
                cli_shown(sweep_value(&s->all, row->of, i), shown, sizeof shown));
    fprintf(out, " %5lld", (long long)f->gpus);
    if (serve_given.find_rate) fprintf(out, " %6.4g/s", row->highest.rate);
    fprintf(out, " %8s %8s %8.3g", cli_count_text(serve_per_s(f, f->output_tokens), a, 32),
            cli_count_text(serve_tokens_per_gpu(f), b, sizeof b), serve_cost(f));
    print_times(f->mean.ttft_ns, f->tail.ttft_ns, out);
    print_times(f->mean.tpot_ns, f->tail.tpot_ns, out);
    if (has_limits(s)) fprintf(out, " %9.4g/s", serve_per_s(f, (double)f->good));
    fprintf(out, "%s\n", missed_names(s, row, a));
}

static const char *label_of(const serve_sweep *s, const serve_row *row, char buf[512]) {
    return *sweep_label(&s->all, row->of, buf, 512) ? buf : "the only combination";
}

/* Prints a row as the answer to "which layout?". */
static void print_choice(const serve_sweep *s, const serve_row *row, FILE *out) {
    char label[512], ttft[32], tpot[32];
    fprintf(out,
            "%s: %lld GPU%s, %.3g GPU-s per 1000 output tokens (%.3g GPU hours per million), "
            "TTFT p%g %s, TPOT p%g %s\n",
            label_of(s, row, label), (long long)row->f.gpus, cli_plural((uint64_t)row->f.gpus),
            serve_cost(&row->f), serve_cost(&row->f) / 3.6, s->percentile,
            cli_time_text(row->f.tail.ttft_ns, ttft, sizeof ttft), s->percentile,
            cli_time_text(row->f.tail.tpot_ns, tpot, sizeof tpot));
}

/* Prints the cheapest row, and that of each machine, because their GPU hours have different
   prices. */
static void print_cheapest(const serve_sweep *s, FILE *out) {
    char missed[256], label[512];
    const char *const that = has_limits(s) ? " that meets the limits" : "";
    const serve_row *row = serve_sweep_cheapest(s, -1), *closest = serve_sweep_closest(s);
    if (!closest) return;
    fputc('\n', out);
    if (serve_sweep_overloads(closest)) {
        fprintf(out, "all possible combinations are overloaded\n");
        return;
    }
    if (!row) {
        fprintf(out, "no combination meets the limits; the closest is %s: %s\n",
                label_of(s, closest, label),
                serve_missed(&closest->f, &s->slo, s->percentile, missed, sizeof missed));
        return;
    }
    fprintf(out, "cheapest combination%s: ", that);
    print_choice(s, row, out);
    for (int m = 0; m < s->all.n_machines && s->all.n_machines > 1; m++) {
        const serve_row *other = serve_sweep_cheapest(s, m);
        if (!other || other == row) continue;
        fprintf(out, "  on %s: ", s->all.machines[m].name);
        print_choice(s, other, out);
    }
}

void serve_sweep_notes(const serve_sweep *s, cli_notes notes) {
    size_t n = 0;
    for (size_t i = 0; i < s->all.n; i++) n += s->rows[i].highest.few;
    if (n > 0)
        cli_note(&notes, "note",
                 "the max rate of %zu row%s is uncertain, because there are too few requests; give "
                 "%s",
                 n, cli_plural(n), serve_more_requests());
    cli_notes_end(&notes);
}

syn_status serve_sweep_print(const serve_sweep *s, FILE *out, syn_error *err) {
    size_t n;
    serve_row **rows = serve_sweep_in_order(s, &n);
    char text[256];
    if (!rows) return SYN_FAIL_NOMEM(err, s->all.n * sizeof *rows, "the rows of --sweep");
    fprintf(out, "%s: %zu combination%s, %zu possible\n", s->all.title, s->all.n,
            cli_plural(s->all.n), n);
    if (s->all.subtitle[0] != '\0') fprintf(out, "%s\n", s->all.subtitle);
    if (has_limits(s))
        fprintf(out, "limits: %s\n", serve_limits_text(&s->slo, s->percentile, text, sizeof text));
    if (n > 0) {
        fprintf(out,
                "numbered rows: no other combination has both more tokens/s per GPU and a lower "
                "TPOT%s\n\n",
                n <= TABLE_ROWS ? "" : "; only these are listed");
        print_head(s, out);
    }
    for (size_t i = 0; i < n; i++)
        if (n <= TABLE_ROWS || rows[i]->of->front) print_row(s, rows[i], out);
    if (n < s->all.n) fprintf(out, "\nnot possible:\n");
    sweep_print_refused(&s->all, out);
    print_cheapest(s, out);
    serve_sweep_notes(s, cli_notes_begin(NULL, out));
    syn_free(rows);
    return SYN_OK;
}

/* ---- Files ---- */

/* The figures of a row, in the order of figure_names. NaN: not applicable. */
enum { FIGURES = 21 };

static const char *const figure_names[FIGURES] = {"gpus",
                                                  "requests",
                                                  "duration_ns",
                                                  "requests_per_s",
                                                  "output_tokens_per_s",
                                                  "output_tokens_per_s_per_gpu",
                                                  "gpu_s_per_1000_tokens",
                                                  "gpu_hours_per_million_tokens",
                                                  "ttft_mean_ns",
                                                  "ttft_percentile_ns",
                                                  "tpot_mean_ns",
                                                  "tpot_percentile_ns",
                                                  "latency_mean_ns",
                                                  "latency_percentile_ns",
                                                  "goodput_per_s",
                                                  "max_running",
                                                  "max_waiting",
                                                  "preemptions",
                                                  "max_rate",
                                                  "time_scale",
                                                  "front"};

static void figures_of(const serve_row *row, double out[FIGURES]) {
    const serve_figures *f = &row->f;
    const double figures[FIGURES] = {(double)f->gpus,
                                     (double)f->requests,
                                     f->duration_ns,
                                     serve_per_s(f, (double)f->requests),
                                     serve_per_s(f, f->output_tokens),
                                     serve_tokens_per_gpu(f),
                                     serve_cost(f),
                                     serve_cost(f) / 3.6,
                                     f->mean.ttft_ns,
                                     f->tail.ttft_ns,
                                     f->mean.tpot_ns,
                                     f->tail.tpot_ns,
                                     f->mean.latency_ns,
                                     f->tail.latency_ns,
                                     serve_per_s(f, (double)f->good),
                                     (double)f->most_running,
                                     (double)f->most_waiting,
                                     (double)f->preemptions,
                                     row->highest.rate > 0 ? row->highest.rate : NAN,
                                     row->highest.time_scale > 0 ? row->highest.time_scale : NAN,
                                     row->of->front ? (double)row->of->front : NAN};
    for (int i = 0; i < FIGURES; i++) out[i] = row->of->refused ? NAN : figures[i];
}

static const char *meets(const serve_sweep *s, const serve_row *row) {
    return row->of->refused || !has_limits(s) ? NULL : row->excess <= 1 ? "true" : "false";
}

void serve_sweep_csv(const serve_sweep *s, syn_sink *out) {
    double figures[FIGURES];
    for (int i = 0; i < s->all.n_axes; i++)
        syn_sink_printf(out, "%s,", s->all.axes[i].option->name);
    syn_sink_text(out, "machine,stack");
    for (int i = 0; i < FIGURES; i++) syn_sink_printf(out, ",%s", figure_names[i]);
    syn_sink_text(out, ",meets_slo,overloaded,refused\n");
    for (size_t r = 0; r < s->all.n; r++) {
        const serve_row *row = &s->rows[r];
        for (int i = 0; i < s->all.n_axes; i++) {
            sweep_csv_text(out, sweep_value(&s->all, row->of, i));
            syn_sink_char(out, ',');
        }
        if (row->hardware) sweep_csv_text(out, row->hardware);
        syn_sink_char(out, ',');
        if (row->stack) sweep_csv_text(out, row->stack);
        figures_of(row, figures);
        for (int i = 0; i < FIGURES; i++) {
            syn_sink_char(out, ',');
            if (isinf(figures[i])) syn_sink_text(out, "inf");
            else if (!isnan(figures[i])) sweep_put_figure(out, figures[i]);
        }
        syn_sink_printf(out, ",%s,%s,", meets(s, row) ? meets(s, row) : "",
                        row->of->refused             ? ""
                        : serve_sweep_overloads(row) ? "true"
                                                     : "false");
        if (row->of->refused) sweep_csv_text(out, row->of->refused);
        syn_sink_char(out, '\n');
    }
}

static void put_row(const serve_sweep *s, const serve_row *row, syn_sink *out) {
    double figures[FIGURES];
    figures_of(row, figures);
    for (int i = 0; i < s->all.n_axes; i++) {
        syn_sink_printf(out, "%s\"%s\": ", i ? ", " : "", s->all.axes[i].option->name);
        syn_sink_json_string(out, sweep_value(&s->all, row->of, i));
    }
    cli_json_text(out, "machine", row->hardware);
    cli_json_text(out, "stack", row->stack);
    for (int i = 0; i < FIGURES; i++) {
        syn_sink_printf(out, ", \"%s\": ", figure_names[i]);
        if (isnan(figures[i])) syn_sink_text(out, "null");
        else sweep_put_figure(out, figures[i]);
    }
    syn_sink_printf(out, ", \"meets_slo\": %s", meets(s, row) ? meets(s, row) : "null");
    if (row->of->refused) syn_sink_text(out, ", \"overloaded\": null");
    else cli_json_bool(out, "overloaded", serve_sweep_overloads(row));
    cli_json_text(out, "refused", row->of->refused);
}

/* The index of a row, or null. */
static void put_index(const serve_sweep *s, const char *key, const serve_row *row, syn_sink *out) {
    if (row) cli_json_count(out, key, (uint64_t)(row - s->rows));
    else syn_sink_printf(out, ", \"%s\": null", key);
}

void serve_sweep_json(const serve_sweep *s, syn_sink *out) {
    cli_json_text(out, "model", s->all.title);
    cli_json_real(out, "slo_percentile", s->percentile);
    syn_sink_text(out, ", \"rows\": [");
    for (size_t r = 0; r < s->all.n; r++) {
        syn_sink_text(out, r ? ",\n {" : "\n {");
        put_row(s, &s->rows[r], out);
        syn_sink_char(out, '}');
    }
    syn_sink_char(out, ']');
    put_index(s, "cheapest", serve_sweep_cheapest(s, -1), out);
    put_index(s, "closest", serve_sweep_closest(s), out);
}
