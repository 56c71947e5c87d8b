/* The calibrate program: reads measured rows, fits or checks constants, or measures this machine,
   and prints and writes the results. */
#include "tools/calibrate/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/measure.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/launch/launch.h"

#define args calibrate_given

/* Results of a run, to be printed as text or as JSON. */
typedef struct findings {
    char title[160];
    const measured *rows;
    const measured_row **all;
    fit_errors before, after;
    fit_free constants;
    syn_hardware start, fitted;
    extrapolation extrapolated;    /* extrapolations of the rows, with the constants in `start` */
    double *predicted[FIT_SPLITS]; /* for each row, the time in ns predicted by a fit to the rows of
                                      all other parts (see fit_leave_out) */
    double left_out[FIT_SPLITS], square[FIT_SPLITS]; /* mean absolute and mean squared error of
                                                        these predictions */
    int parts[FIT_SPLITS]; /* number of parts; less than 2: nothing could be left out */
} findings;

static void print_errors(const char *what, const fit_errors *e, const measured *m) {
    const measured_row *row = &m->rows[e->worst_row];
    char bytes[32];
    printf("%-28s %zu rows, mean %.2f %%, median %.2f %%, bias %+.2f %%, worst %.1f %% (line "
           "%lld: %s, ",
           what, e->n, 100 * e->mean, 100 * e->median, 100 * e->bias, 100 * e->worst,
           (long long)row->line, row->model);
    if (row->kind == MEASURED_COLLECTIVE)
        printf("%lld ranks, %s)\n", (long long)row->tp,
               cli_bytes_text((double)row->bytes, bytes, sizeof bytes));
    else printf("tp %lld, batch %lld)\n", (long long)row->tp, (long long)row->batch);
}

static bool has_several_stacks(const measured *m) {
    for (size_t i = 1; i < m->n; i++)
        if (strcmp(m->rows[i].stack, m->rows[0].stack) != 0) return true;
    return false;
}

/* ---- Errors of collectives by kind, ranks and size ---- */

enum { SMALL, MIDDLE, LARGE, SIZES };

static int size_of(const measured_row *row) {
    return row->bytes < 1u << 20 ? SMALL : row->bytes < 1u << 26 ? MIDDLE : LARGE;
}

static bool is_same_group(const measured_row *a, const measured_row *b) {
    return a->comm == b->comm && a->tp == b->tp;
}

static void print_group(const findings *f, size_t first) {
    double sum[SIZES] = {0};
    int n[SIZES] = {0};
    const measured_row *row = f->all[first];
    for (size_t i = first; i < f->rows->n; i++) {
        const int size = size_of(f->all[i]);
        if (!is_same_group(f->all[i], row)) continue;
        sum[size] += fabs(measured_predict_ns(f->all[i], &f->start) / f->all[i]->ns - 1);
        n[size]++;
    }
    printf("  %-16s %6lld", row->model, (long long)row->tp);
    for (int size = 0; size < SIZES; size++) {
        if (n[size] > 0) printf(" %11.1f %%", 100 * sum[size] / n[size]);
        else printf(" %13s", "-");
    }
    printf("\n");
}

/* Whether all rows are collectives. The collective library is fitted only in this case. */
static bool collectives_alone(const measured *m) {
    for (size_t i = 0; i < m->n; i++)
        if (m->rows[i].kind != MEASURED_COLLECTIVE) return false;
    return true;
}

/* Prints mean errors by kind of collective and number of ranks, in the order of first
   occurrence. */
static void print_kinds(const findings *f) {
    if (!collectives_alone(f->rows)) return;
    printf("  %-16s %6s %13s %13s %13s\n", "collective", "ranks", "below 1 MiB", "below 64 MiB",
           "above");
    for (size_t i = 0; i < f->rows->n; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) seen = is_same_group(f->all[i], f->all[j]);
        if (!seen) print_group(f, i);
    }
}

static void print_findings(const findings *f) {
    if (f->rows->n_skipped > 0) printf("%zu rows with pipelines are skipped\n", f->rows->n_skipped);
    print_errors(f->title, &f->before, f->rows);
    print_kinds(f);
    extrapolation_print(&f->extrapolated, stdout);
    if (has_several_stacks(f->rows))
        printf("note: the rows are of several stacks; select one with --rows_stack\n");
    if (args.check) return;
    for (int i = 0; i < f->constants.n; i++) {
        const fit_constant *c = &f->constants.at[i];
        const int bound = fit_at_bounds(&f->fitted, c);
        printf("  %-28s %12.6g -> %.6g%s\n", c->name, fit_value(c, &f->start),
               fit_value(c, &f->fitted),
               bound < 0   ? " (lower bound)"
               : bound > 0 ? " (upper bound)"
                           : "");
    }
    if (f->rows->n < 3 * (size_t)f->constants.n)
        printf("%zu rows are too few for %d constants; keep some with --fix\n", f->rows->n,
               f->constants.n);
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

/* Appends the files that were written, and prints the object. */
static syn_status end_json(syn_sink *json, syn_error *err) {
    bool first = true;
    cli_json_begin_written(json);
    cli_json_add_written(json, args.predictions, &first);
    if (!args.check) cli_json_add_written(json, args.output, &first);
    syn_sink_char(json, ']');
    return cli_json_close(json, SYN_OK, err);
}

static syn_status print_json(const findings *f, syn_error *err) {
    syn_sink *out;
    SYN_TRY(cli_json_open(&out, &calibrate_cli, err));
    cli_json_text(out, "hardware", f->title);
    syn_sink_printf(out, ", \"skipped\": %zu", f->rows->n_skipped);
    put_errors(out, "given", &f->before, f->rows);
    syn_sink_text(out, ", \"extrapolations\": ");
    extrapolation_json(&f->extrapolated, out);
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
        syn_sink_text(out, "}, \"left_out_rms\": {");
        before = "";
        for (int i = 0; i < FIT_SPLITS; i++) {
            if (f->parts[i] < 2) continue;
            syn_sink_printf(out, "%s\"%s\": ", before, fit_split_names[i]);
            syn_sink_double(out, sqrt(f->square[i]));
            before = ", ";
        }
        syn_sink_char(out, '}');
    }
    return end_json(out, err);
}

static syn_status leave_out(findings *f, fit_split split, int rounds, syn_error *err) {
    const size_t n = f->rows->n;
    double *predicted = f->predicted[split] = syn_calloc(n, sizeof *predicted);
    if (predicted == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *predicted, "rows");
    SYN_TRY(fit_leave_out(predicted, &f->parts[split], split, &f->start, &f->constants, f->rows,
                          rounds, err));
    for (size_t i = 0; i < n; i++) {
        const double off = predicted[i] / f->rows->rows[i].ns - 1;
        f->left_out[split] += fabs(off) / (double)n;
        f->square[split] += off * off / (double)n;
    }
    return SYN_OK;
}

/* Stores the cross-validation errors in the fitted hardware description. It has space for
   SYN_HW_ROWS rows. If there are more rows, only every second, third, ... row is stored. */
static void keep_errors(findings *f) {
    static const syn_hw_holdout splits[FIT_SPLITS] = {[FIT_MODEL] = SYN_HW_MODEL,
                                                      [FIT_TP] = SYN_HW_TP,
                                                      [FIT_BATCH] = SYN_HW_BATCH,
                                                      [FIT_LENGTH] = SYN_HW_LENGTH};
    syn_hw_errors *e = &f->fitted.errors;
    const size_t n = f->rows->n, step = (n + SYN_HW_ROWS - 1) / SYN_HW_ROWS;
    memset(e, 0, sizeof *e);
    if (f->parts[FIT_TENTH] < 2 || f->rows->rows[0].kind == MEASURED_COLLECTIVE) return;
    const bool training = f->rows->rows[0].kind == MEASURED_TRAINING;
    for (size_t i = 0; i < n; i += step) {
        const measured_row *r = &f->rows->rows[i];
        e->rows[e->n++] = (syn_hw_row){r->kind == MEASURED_TRAINING,
                                       (int32_t)r->layers,
                                       (int32_t)r->hidden,
                                       (int32_t)r->tp,
                                       (int32_t)r->dp,
                                       (int32_t)r->pp,
                                       (int32_t)r->batch,
                                       (int32_t)r->tokens,
                                       (int32_t)r->new_tokens,
                                       f->predicted[FIT_TENTH][i] / r->ns - 1};
    }
    for (int s = FIT_MODEL; s < FIT_SPLITS; s++)
        if (f->parts[s] > 1) e->holdout[training].error[splits[s]] = sqrt(f->square[s]);
}

/* Stores the ranges of the rows' sizes in the fitted hardware description. */
static void keep_ranges(findings *f) {
    const bool library = collectives_alone(f->rows) && f->fitted.collectives.name[0] != '\0';
    syn_hw_fit_ranges *fitted = library ? &f->fitted.collectives.fitted : &f->fitted.stack.fitted;
    memset(fitted, 0, sizeof *fitted);
    for (size_t i = 0; i < f->rows->n; i++) measured_fitted_to(f->all[i], &f->fitted, fitted);
}

static syn_status fit(findings *f, syn_error *err) {
    const int rounds = (int)args.rounds;
    SYN_TRY(fit_choose(&f->constants, &f->start, collectives_alone(f->rows), args.fix.at,
                       args.fix.n, err));
    SYN_TRY(fit_rows(&f->fitted, &f->constants, f->all, f->rows->n, true, rounds, err));
    f->after = fit_measure(f->all, f->rows->n, &f->fitted);
    for (fit_split split = 0; split < FIT_SPLITS; split++)
        SYN_TRY(leave_out(f, split, rounds, err));
    keep_errors(f);
    keep_ranges(f);
    return SYN_OK;
}

static void report_written(const char *path) {
    char shown[CLI_SHOWN_BYTES];
    if (!args.json && strcmp(path, "-") != 0)
        printf("written: %s\n", cli_shown(path, shown, sizeof shown));
}

static syn_status write_predictions(const findings *f, syn_error *err) {
    syn_sink *out;
    if (args.predictions == NULL) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&out, args.predictions, err));
    syn_sink_text(out, "line,model,layers,hidden,tp,dp,pp,batch,tokens,new_tokens,bytes,"
                       "measured_ms,predicted_ms,left_out_ms\n");
    for (size_t i = 0; i < f->rows->n; i++) {
        const measured_row *row = f->all[i];
        syn_sink_printf(out, "%lld,%s,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%llu,%.9g,%.9g,",
                        (long long)row->line, row->model, (long long)row->layers,
                        (long long)row->hidden, (long long)row->tp, (long long)row->dp,
                        (long long)row->pp, (long long)row->batch, (long long)row->tokens,
                        (long long)row->new_tokens, (unsigned long long)row->bytes, row->ns / 1e6,
                        measured_predict_ns(row, &f->fitted) / 1e6);
        if (f->parts[FIT_TENTH] > 1) syn_sink_printf(out, "%.9g", f->predicted[FIT_TENTH][i] / 1e6);
        syn_sink_char(out, '\n');
    }
    SYN_TRY(syn_sink_close(out, true, err));
    report_written(args.predictions);
    return SYN_OK;
}

static syn_status write_file(const syn_hardware *hw, syn_error *err) {
    syn_sink *sink;
    if (args.output == NULL) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&sink, args.output, err));
    syn_hardware_write(hw, sink);
    SYN_TRY(syn_sink_close(sink, true, err));
    report_written(args.output);
    return SYN_OK;
}

static syn_status read_rows(measured *m, const syn_hardware *hw, syn_error *err) {
    for (int i = 0; i < args.rows.n; i++)
        SYN_TRY(measured_read(m, args.rows.at[i], args.rows_stack, err));
    if (m->n == 0 && args.rows_stack)
        return SYN_FAIL(err, SYN_E_INVALID, "%s has no rows with '%.100s' in column stack",
                        args.rows.at[0], args.rows_stack);
    if (m->n == 0) return SYN_FAIL(err, SYN_E_INVALID, "%s has no usable rows", args.rows.at[0]);
    for (size_t i = 0; i < m->n; i++) SYN_TRY(measured_record(&m->rows[i], hw, err));
    return SYN_OK;
}

/* Checks the outputs now, because they are written only after minutes of work. */
static syn_status check_outputs(syn_error *err) {
    SYN_TRY(folder_check_output(args.output, err));
    return folder_check_output(args.predictions, err);
}

/* Merges the extrapolations of all rows. */
static void find_extrapolations(findings *f) {
    for (size_t i = 0; i < f->rows->n; i++) {
        extrapolation one = {.n = 0};
        measured_extrapolate(f->all[i], &f->start, &one);
        extrapolation_merge(&f->extrapolated, &one);
    }
}

static syn_status run(findings *f, measured *m, syn_error *err) {
    SYN_TRY(check_outputs(err));
    SYN_TRY(syn_hardware_load(&f->start, args.hw, NULL, err));
    if (!args.check && f->start.alone.ranks > 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s has nothing to fit, because its times are predicted from measured "
                        "kernels; --check prints its errors",
                        f->start.name);
    syn_hardware_title(&f->start, f->title, sizeof f->title);
    SYN_TRY(read_rows(m, &f->start, err));
    f->all = syn_calloc(m->n, sizeof *f->all);
    if (f->all == NULL) return SYN_FAIL_NOMEM(err, m->n * sizeof *f->all, "rows");
    for (size_t i = 0; i < m->n; i++) f->all[i] = &m->rows[i];
    f->rows = m;
    f->fitted = f->start;
    f->before = fit_measure(f->all, m->n, &f->start);
    find_extrapolations(f);
    if (!args.check) SYN_TRY(fit(f, err));
    if (!args.json) print_findings(f);
    SYN_TRY(write_predictions(f, err));
    if (!args.check) SYN_TRY(write_file(&f->fitted, err));
    return args.json ? print_json(f, err) : SYN_OK;
}

/* With --json, prints an object with the measured machine. */
static syn_status report_measured(const syn_hardware *hw, syn_error *err) {
    syn_sink *json;
    if (!args.json) return SYN_OK;
    SYN_TRY(cli_json_open(&json, &calibrate_cli, err));
    cli_json_text(json, "hardware", hw->name);
    return end_json(json, err);
}

static syn_status prepare_over_mpi(const launch *l, syn_hardware *hw, syn_error *err) {
    if (args.device == 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--measure --device cuda uses all GPUs of the machine from one process; "
                        "start it without a launcher");
    if (l->rank == 0) SYN_TRY(check_outputs(err));
    SYN_TRY(syn_hardware_load(hw, args.hw, NULL, err));
    if (hw->collectives.name[0] != '\0')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "over MPI, --measure only adds all-reduces to a file that it wrote without "
                        "MPI (--hw FILE.json), but %s has the collectives of %s",
                        hw->name, hw->collectives.name);
    return SYN_OK;
}

/* Measures only all-reduces, because the kernels are measured in a run without MPI. */
static syn_status measure_over_mpi(launch *l, syn_hardware *hw, syn_error *err) {
    bool is_first = false;
    const syn_status before = prepare_over_mpi(l, hw, err);
    const syn_status s = measure_mpi(hw, args.json, before, &is_first, err);
    l->program->mute = s == SYN_E_COMM; /* another rank prints the error */
    if (l->program->mute) launch_pause();
    if (s == SYN_OK && is_first) SYN_TRY(write_file(hw, err));
    if (s == SYN_OK) return is_first ? report_measured(hw, err) : SYN_OK;
    const syn_error why = *err;
    if (l->rank == 0) return s;
    *err = (syn_error){.code = SYN_OK};
    return SYN_FAIL(err, s, "rank %d: %.400s", l->rank, why.text);
}

static syn_status measure_gpus(syn_hardware *hw, syn_error *err) {
    const syn_backend *backend;
    syn_error why = {0};
    if (syn_backend_get(SYN_DEVICE_CUDA, &backend, &why) != SYN_OK)
        return SYN_FAIL(err, why.code, "--device cuda: %s", why.text);
    SYN_TRY(syn_hardware_load(hw, args.hw, NULL, err));
    return measure_device(hw, SYN_DEVICE_CUDA, args.json, err);
}

static syn_status measure(launch *l, syn_error *err) {
    static syn_hardware hw; /* static, because it is too large for some stacks */
    memset(&hw, 0, sizeof hw);
    const bool cuda = args.device == 1;
    if (l->mpi) return measure_over_mpi(l, &hw, err);
    SYN_TRY(check_outputs(err));
    SYN_TRY(cuda ? measure_gpus(&hw, err) : measure_machine(&hw, args.json, err));
    SYN_TRY(write_file(&hw, err));
    return report_measured(&hw, err);
}

static int read_options(int argc, char **argv) {
    int32_t processes = 1;
    const bool mpi = syn_mpi_launched(NULL, &processes) && processes > 1;
    int code = cli_parse(&calibrate_cli, argc, argv);
    if (code != CLI_RUN) return code;
    const cli_rule rules[] = {
        {args.measure,
         {"rows", "rows_stack", "fix", "check", "rounds", "predictions"},
         "has no effect with --measure, which measures this machine; omit one"},
        {args.measure && args.device == 0 && !mpi,
         {"hw"},
         "has no effect when --measure measures a CPU; omit it"},
        {!args.measure, {"device"}, "has no effect without --measure; give that, too"},
        {args.check,
         {"fix", "rounds", "output"},
         "has no effect with --check, which fits nothing; omit one"},
    };
    code = cli_check_rules(&calibrate_cli, argc, argv, rules, sizeof rules / sizeof *rules);
    if (code == CLI_RUN) code = cli_json_check_output(&calibrate_cli, "output", args.output);
    if (code == CLI_RUN)
        code = cli_json_check_output(&calibrate_cli, "predictions", args.predictions);
    if (code != CLI_RUN || args.measure) return code;
    if (args.rows.n == 0)
        return cli_fail(&calibrate_cli, CLI_USAGE, "--rows FILE.csv or --measure is missing");
    if (!mpi) return CLI_RUN;
    return cli_fail(&calibrate_cli, CLI_USAGE,
                    "over MPI only --measure is supported; start --rows without a launcher");
}

int calibrate_program(int argc, char **argv) {
    launch l = {.program = NULL};
    calibrate_cli.name = argv[0];
    launch_begin(&l, &calibrate_cli);
    const int code = launch_options(&l, read_options, argc, argv);
    if (code != CLI_RUN) return code;
    syn_error err = {0};
    if (args.measure) return cli_done(&calibrate_cli, measure(&l, &err), &err);
    measured m = {0};
    findings f = {.rows = &m};
    const syn_status s = run(&f, &m, &err);
    for (int i = 0; i < FIT_SPLITS; i++) syn_free(f.predicted[i]);
    syn_free(f.all);
    measured_free(&m);
    return cli_done(&calibrate_cli, s, &err);
}
