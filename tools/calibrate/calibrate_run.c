#include "tools/calibrate/calibrate.h"

#include <stdio.h>

#include "comm/comm.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/measure.h"

#define args calibrate_given

/* What a run found out, for both ways to print it. */
typedef struct findings {
    char title[160];
    const measured *rows;
    const measured_row **all;
    fit_errors before, after;
    fit_free constants;
    syn_hardware start, fitted;
    double left_out[FIT_SPLITS];
    int parts[FIT_SPLITS]; /* fewer than 2: nothing could be left out */
} findings;

static void print_errors(const char *what, const fit_errors *e, const measured *m) {
    const measured_row *row = &m->rows[e->worst_row];
    printf("%-28s %zu rows, mean %.2f %%, median %.2f %%, bias %+.2f %%, worst %.1f %% (line "
           "%lld: %s, tp %lld, batch %lld)\n",
           what, e->n, 100 * e->mean, 100 * e->median, 100 * e->bias, 100 * e->worst,
           (long long)row->line, row->model, (long long)row->tp, (long long)row->batch);
}

static void print_findings(const findings *f) {
    if (f->rows->n_skipped > 0)
        printf("%zu rows with pipelines are left out\n", f->rows->n_skipped);
    print_errors(f->title, &f->before, f->rows);
    if (args.check) return;
    for (int i = 0; i < f->constants.n; i++)
        printf("  %-28s %12.6g -> %.6g\n", f->constants.at[i].name,
               fit_value(&f->constants.at[i], &f->start),
               fit_value(&f->constants.at[i], &f->fitted));
    print_errors("fitted, in sample:", &f->after, f->rows);
    for (int i = 0; i < FIT_SPLITS; i++)
        if (f->parts[i] > 1)
            printf("leaving out %-20s %d parts, mean %.2f %%\n", fit_split_names[i], f->parts[i],
                   100 * f->left_out[i]);
}

static void put_number(syn_sink *out, const char *key, double value) {
    syn_sink_printf(out, ", \"%s\": ", key);
    syn_sink_double(out, value);
}

static void put_errors(syn_sink *out, const char *key, const fit_errors *e, const measured *m) {
    syn_sink_printf(out, ", \"%s\": {\"rows\": %zu", key, e->n);
    put_number(out, "mean", e->mean);
    put_number(out, "median", e->median);
    put_number(out, "bias", e->bias);
    put_number(out, "worst", e->worst);
    syn_sink_printf(out, ", \"worst_line\": %lld}", (long long)m->rows[e->worst_row].line);
}

static syn_status print_json(const findings *f, syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, "-", err));
    syn_sink_text(out, "{\"hardware\": ");
    syn_sink_json_string(out, f->title);
    syn_sink_printf(out, ", \"skipped\": %zu", f->rows->n_skipped);
    put_errors(out, "given", &f->before, f->rows);
    if (!args.check) {
        put_errors(out, "fitted", &f->after, f->rows);
        syn_sink_text(out, ", \"constants\": {");
        for (int i = 0; i < f->constants.n; i++) {
            syn_sink_printf(out, "%s\"%s\": ", i > 0 ? ", " : "", f->constants.at[i].name);
            syn_sink_double(out, fit_value(&f->constants.at[i], &f->fitted));
        }
        syn_sink_text(out, "}, \"left_out\": {");
        const char *before = "";
        for (int i = 0; i < FIT_SPLITS; i++) {
            if (f->parts[i] < 2) continue;
            syn_sink_printf(out, "%s\"%s\": ", before, fit_split_names[i]);
            syn_sink_double(out, f->left_out[i]);
            before = ", ";
        }
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, "}\n");
    return syn_sink_close(out, true, err);
}

/* The library is fitted to collectives alone. */
static bool all_reduces_alone(const measured *m) {
    for (size_t i = 0; i < m->n; i++)
        if (m->rows[i].kind != MEASURED_ALL_REDUCE) return false;
    return true;
}

static syn_status fit(findings *f, syn_error *err) {
    const int rounds = (int)args.rounds;
    SYN_TRY(fit_choose(&f->constants, &f->start, all_reduces_alone(f->rows), args.fix.at,
                       args.fix.n, err));
    SYN_TRY(fit_rows(&f->fitted, &f->constants, f->all, f->rows->n, rounds, err));
    f->after = fit_measure(f->all, f->rows->n, &f->fitted);
    for (fit_split split = 0; split < FIT_SPLITS; split++)
        SYN_TRY(fit_validate(&f->left_out[split], &f->parts[split], split, &f->fitted,
                             &f->constants, f->rows, rounds, err));
    return SYN_OK;
}

static syn_status write_predictions(const findings *f, syn_error *err) {
    syn_sink *out;
    if (args.predictions == NULL) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&out, args.predictions, err));
    syn_sink_text(out, "line,model,layers,hidden,tp,dp,batch,tokens,new_tokens,bytes,"
                       "measured_ms,predicted_ms\n");
    for (size_t i = 0; i < f->rows->n; i++) {
        const measured_row *row = f->all[i];
        syn_sink_printf(out, "%lld,%s,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%llu,%.9g,%.9g\n",
                        (long long)row->line, row->model, (long long)row->layers,
                        (long long)row->hidden, (long long)row->tp, (long long)row->dp,
                        (long long)row->batch, (long long)row->tokens, (long long)row->new_tokens,
                        (unsigned long long)row->bytes, row->ns / 1e6,
                        measured_predict_ns(row, &f->fitted) / 1e6);
    }
    return syn_sink_close(out, true, err);
}

static syn_status write_file(const syn_hardware *hw, syn_error *err) {
    syn_sink *sink;
    if (args.output == NULL) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&sink, args.output, err));
    syn_hardware_write(hw, sink);
    return syn_sink_close(sink, true, err);
}

static syn_status read_rows(measured *m, syn_error *err) {
    for (int i = 0; i < args.rows.n; i++)
        SYN_TRY(measured_read(m, args.rows.at[i], args.rows_stack, err));
    if (m->n == 0) return SYN_FAIL(err, SYN_E_INVALID, "%s has no such rows", args.rows.at[0]);
    for (size_t i = 0; i < m->n; i++) SYN_TRY(measured_record(&m->rows[i], err));
    return SYN_OK;
}

static syn_status run(findings *f, measured *m, syn_error *err) {
    SYN_TRY(syn_hardware_load(&f->start, args.hw, NULL, err));
    syn_hardware_title(&f->start, f->title, sizeof f->title);
    SYN_TRY(read_rows(m, err));
    f->all = syn_calloc(m->n, sizeof *f->all);
    if (f->all == NULL) return SYN_FAIL_NOMEM(err, m->n * sizeof *f->all, "rows");
    for (size_t i = 0; i < m->n; i++) f->all[i] = &m->rows[i];
    f->rows = m;
    f->fitted = f->start;
    f->before = fit_measure(f->all, m->n, &f->start);
    if (!args.check) SYN_TRY(fit(f, err));
    SYN_TRY(write_predictions(f, err));
    if (args.json) SYN_TRY(print_json(f, err));
    else print_findings(f);
    return args.check ? SYN_OK : write_file(&f->fitted, err);
}

/* Over MPI only what MPI takes: kernels are those of a run without it. */
static syn_status measure_over_mpi(syn_hardware *hw, syn_error *err) {
    bool is_first = false;
    SYN_TRY(syn_hardware_load(hw, args.hw, NULL, err));
    if (hw->collectives.name[0] != '\0')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "over MPI only all-reduces are measured, for a file that --measure wrote "
                        "without MPI: --hw FILE.json; %s has the collectives of %s",
                        hw->name, hw->collectives.name);
    SYN_TRY(measure_mpi(hw, args.json, &is_first, err));
    return is_first ? write_file(hw, err) : SYN_OK;
}

static syn_status measure(syn_error *err) {
    static syn_hardware hw; /* too large for some stacks */
    int32_t processes = 1;
    if (syn_mpi_launched(NULL, &processes) && processes > 1) return measure_over_mpi(&hw, err);
    SYN_TRY(measure_machine(&hw, args.json, err));
    return write_file(&hw, err);
}

int calibrate_program(int argc, char **argv) {
    const int code = cli_parse(&calibrate_cli, argc, argv);
    if (code != CLI_RUN) return code;
    syn_error err = {0};
    if (args.measure) return cli_done(&calibrate_cli, measure(&err), &err);
    if (args.rows.n == 0)
        return cli_fail(&calibrate_cli, CLI_USAGE, "--rows FILE.csv or --measure is missing");
    measured m = {0};
    findings f = {.rows = &m};
    const syn_status s = run(&f, &m, &err);
    syn_free(f.all);
    measured_free(&m);
    return cli_done(&calibrate_cli, s, &err);
}
