/* Output of a sweep: the table, sweep.csv, sweep.svg and JSON. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/limits.h"
#include "tools/sweep/sweep.h"

enum { TABLE_ROWS = 50, REASONS = 12 };

const char *sweep_value(const sweep *s, const sweep_row *row, int axis) {
    return s->axes[axis].values[row->at[axis]];
}

const char *sweep_label(const sweep *s, const sweep_row *row, char *buf, size_t bytes) {
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < s->n_axes && used < bytes; i++) {
        char shown[CLI_SHOWN_BYTES];
        if (s->axes[i].n < 2) continue;
        used += (size_t)snprintf(buf + used, bytes - used, "%s%s %s", used ? ", " : "",
                                 s->axes[i].option->name,
                                 cli_shown(sweep_value(s, row, i), shown, sizeof shown));
    }
    return buf;
}

static bool varies(const sweep *s, const char *option) {
    for (int i = 0; i < s->n_axes; i++)
        if (strcmp(s->axes[i].option->name, option) == 0) return true;
    return false;
}

const char *sweep_title(const sweep *s, char *buf, size_t bytes) {
    bool has[SYN_DTYPE_COUNT] = {false};
    const char *before = " in";
    size_t used = (size_t)snprintf(buf, bytes, "%s", s->title);
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].t.ns > 0) has[s->rows[i].t.dtype] = true;
    for (int d = 0; d < SYN_DTYPE_COUNT && used < bytes && !varies(s, "dtype"); d++) {
        if (!has[d]) continue;
        used += (size_t)snprintf(buf + used, bytes - used, "%s %s", before,
                                 syn_dtype_name((syn_dtype)d));
        before = ",";
    }
    return buf;
}

/* ---- The table ---- */

int sweep_width(const sweep_axis *axis) {
    size_t most = strlen(axis->option->name);
    for (int i = 0; i < axis->n; i++) {
        const size_t n = strlen(axis->values[i]);
        if (n > most) most = n;
    }
    return most < 30 ? (int)most : 30;
}

static void print_head(const sweep *s, FILE *out) {
    fprintf(out, "   ");
    for (int i = 0; i < s->n_axes; i++)
        fprintf(out, " %*s", sweep_width(&s->axes[i]), s->axes[i].option->name);
    fprintf(out, " %9s", s->training ? "step" : "time");
    if (!s->training) fprintf(out, " %9s %9s", "prefill", "decode");
    fprintf(out, " %8s %8s %8s %-20s %4s %4s\n", "tokens/s", "GPU-s/1k", "memory", " limited by",
            "MFU", "+-");
}

static const char *phase_time(double ns, char *buf, size_t bytes) {
    return ns > 0 ? cli_time_text(ns, buf, bytes) : "";
}

static void print_row(const sweep *s, const sweep_row *row, FILE *out) {
    const sweep_times *t = &row->t;
    char a[32], b[32], shown[CLI_SHOWN_BYTES];
    if (row->front) fprintf(out, "%3d", row->front);
    else fprintf(out, "   ");
    for (int i = 0; i < s->n_axes; i++)
        fprintf(out, " %*s", sweep_width(&s->axes[i]),
                cli_shown(sweep_value(s, row, i), shown, sizeof shown));
    fprintf(out, " %9s", cli_time_text(t->ns, a, sizeof a));
    if (!s->training)
        fprintf(out, " %9s %9s", phase_time(t->prefill_ns, a, sizeof a),
                phase_time(t->decode_ns, b, sizeof b));
    int most = 0;
    for (int i = 1; i < LIMITS_SHARES; i++)
        if (t->shares[i] > t->shares[most]) most = i;
    fprintf(out, " %8s %8.3g %8s", cli_count_text(t->tokens * 1e9 / t->ns, a, sizeof a),
            sweep_cost(row), cli_bytes_text(t->rank_bytes, b, sizeof b));
    fprintf(out, " %3.0f%% %-15s %3.0f%%", 100 * t->shares[most], limits_name(most),
            100 * t->utilisation);
    fprintf(out, " %s\n", residuals_short(&t->error, a));
}

/* Explains the asterisks in the table. Of the rows' lists of extrapolated properties, prints only
   the longest, which usually contains the others. */
static void print_extrapolated(sweep_row *const *rows, size_t n, FILE *out) {
    const char *most = "";
    for (size_t i = 0; i < n; i++)
        if (strlen(rows[i]->t.error.extrapolated) > strlen(most))
            most = rows[i]->t.error.extrapolated;
    if (*most) fprintf(out, "\n* extrapolated in %s; see column extrapolated of sweep.csv\n", most);
    extrapolation extrapolated = {.n = 0};
    for (size_t i = 0; i < n; i++) extrapolation_merge(&extrapolated, &rows[i]->t.extrapolated);
    if (extrapolated.n > 0 && !*most) fputc('\n', out);
    extrapolation_print(&extrapolated, out);
}

/* Prints for each machine the number of combinations that do not fit its memory, and the least
   memory that one of them needs. */
static void print_too_large(const sweep *s, FILE *out) {
    char name[CLI_SHOWN_BYTES], a[32], b[32];
    for (int m = 0; m < s->n_machines; m++) {
        const sweep_row *least = NULL;
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++) {
            const sweep_row *row = &s->rows[i];
            if (!row->too_large || row->machine != m) continue;
            if (!least || row->t.rank_bytes < least->t.rank_bytes) least = row;
            n++;
        }
        if (!least) continue;
        fprintf(out, "  %zu combination%s too large for %s with %s: %s", n, n > 1 ? "s are" : " is",
                cli_shown(s->machines[m].name, name, sizeof name),
                cli_bytes_text(s->machines[m].memory_bytes, a, sizeof a), n > 1 ? "from " : "");
        fprintf(out, "%s per rank\n", cli_bytes_text(least->t.rank_bytes, b, sizeof b));
    }
}

void sweep_print_refused(const sweep *s, FILE *out) {
    const sweep_row *first[REASONS];
    size_t same[REASONS], n = 0, others = 0;
    char label[512], reason[CLI_SHOWN_BYTES];
    for (size_t i = 0; i < s->n; i++) {
        const sweep_row *row = &s->rows[i];
        size_t k = 0;
        if (!row->refused || row->too_large) continue;
        while (k < n && strcmp(first[k]->refused, row->refused) != 0) k++;
        if (k == REASONS) {
            others++;
            continue;
        }
        if (k == n) {
            first[n] = row;
            same[n++] = 0;
        }
        same[k]++;
    }
    for (size_t k = 0; k < n; k++) {
        fprintf(out, "  %s", *sweep_label(s, first[k], label, sizeof label) ? label : "all");
        if (same[k] > 1) fprintf(out, " and %zu more", same[k] - 1);
        fprintf(out, ": %s\n", cli_shown(first[k]->refused, reason, sizeof reason));
    }
    if (others > 0) fprintf(out, "  and %zu more, for other reasons\n", others);
}

static syn_status print(const sweep *s, FILE *out, syn_error *err) {
    size_t n;
    sweep_row **rows = sweep_in_order(s, &n);
    const bool all = n <= TABLE_ROWS;
    char title[200], shown[CLI_SHOWN_BYTES];
    if (!rows) return SYN_FAIL_NOMEM(err, s->n * sizeof *rows, "the runs of --sweep");
    fprintf(out, "%s: %zu combination%s, %zu possible\n",
            cli_shown(sweep_title(s, title, sizeof title), shown, sizeof shown), s->n,
            cli_plural(s->n), n);
    if (s->subtitle[0] != '\0') fprintf(out, "%s\n", s->subtitle);
    fprintf(out, "numbered rows: no other combination is both faster and cheaper%s\n\n",
            all ? "" : "; only these are listed");
    if (n > 0) print_head(s, out);
    for (size_t i = 0; i < n; i++)
        if (all || rows[i]->front) print_row(s, rows[i], out);
    print_extrapolated(rows, n, out);
    if (n < s->n) fprintf(out, "\nnot possible:\n");
    print_too_large(s, out);
    sweep_print_refused(s, out);
    syn_free(rows);
    return SYN_OK;
}

/* ---- Files ---- */

void sweep_csv_text(syn_sink *out, const char *text) {
    if (!strpbrk(text, ",\"\n")) {
        syn_sink_text(out, text);
        return;
    }
    syn_sink_char(out, '"');
    for (; *text; text++) {
        if (*text == '"') syn_sink_char(out, '"');
        syn_sink_char(out, *text);
    }
    syn_sink_char(out, '"');
}

/* The figures of a row, in the order of figure_names. NaN: not applicable. */
enum { FIGURES = 16 };

static const char *const figure_names[FIGURES] = {"ranks",
                                                  "time_ns",
                                                  "prefill_ns",
                                                  "decode_ns",
                                                  "tokens",
                                                  "tokens_per_s",
                                                  "gpu_s_per_1000_tokens",
                                                  "rank_bytes",
                                                  "share_compute",
                                                  "share_memory",
                                                  "share_launches",
                                                  "share_communication",
                                                  "utilisation",
                                                  "expected_error",
                                                  "front",
                                                  "share_bubble"};

static void figures_of(const sweep_row *row, double out[FIGURES]) {
    const sweep_times *t = &row->t;
    const bool timed = t->ns > 0;
    const double figures[FIGURES] = {(double)t->ranks,
                                     t->ns,
                                     t->prefill_ns > 0 ? t->prefill_ns : NAN,
                                     t->decode_ns > 0 ? t->decode_ns : NAN,
                                     t->tokens,
                                     t->tokens * 1e9 / t->ns,
                                     sweep_cost(row),
                                     t->rank_bytes,
                                     t->shares[SYN_LIMIT_COMPUTE],
                                     t->shares[SYN_LIMIT_MEMORY],
                                     t->shares[SYN_LIMIT_LAUNCH],
                                     t->shares[SYN_LIMIT_COMMUNICATION],
                                     t->utilisation,
                                     t->error.n_rows > 0 ? t->error.error : NAN,
                                     row->front ? (double)row->front : NAN,
                                     t->shares[LIMITS_BUBBLE]};
    for (int i = 0; i < FIGURES; i++) out[i] = timed ? figures[i] : NAN;
}

/* Returns the dtype of the row's run; "" for a row without a time. */
static const char *dtype_of(const sweep_row *row) {
    return row->t.ns > 0 ? syn_dtype_name(row->t.dtype) : "";
}

void sweep_put_figure(syn_sink *out, double value) {
    if (value == floor(value) && fabs(value) < 9007199254740992.0)
        syn_sink_i64(out, (int64_t)value);
    else syn_sink_double(out, value);
}

/* Writes in which properties and sizes the prediction of a row is extrapolated; returns buf. */
static const char *extrapolated_text(const sweep_row *row, char *buf, size_t bytes) {
    char text[1024];
    const char *error = row->t.error.extrapolated;
    extrapolation_text(&row->t.extrapolated, text, sizeof text);
    snprintf(buf, bytes, "%s%s%s", error, *error && *text ? ", " : "", text);
    return buf;
}

/* Returns the name of an axis in files. For training, --model is "model_name", which is the earlier
   name of the option, so that programs that read the files keep working. */
static const char *column_name(const sweep *s, int axis) {
    const char *name = s->axes[axis].option->name;
    return s->training && strcmp(name, "model") == 0 ? "model_name" : name;
}

static void put_csv(const sweep *s, syn_sink *out) {
    double figures[FIGURES];
    char extrapolated[1200];
    for (int i = 0; i < s->n_axes; i++)
        syn_sink_printf(out, "%s%s", i ? "," : "", column_name(s, i));
    const bool own_dtype = varies(s, "dtype");
    syn_sink_text(out, own_dtype ? ",machine,stack" : ",dtype,machine,stack");
    for (int i = 0; i < FIGURES; i++) syn_sink_printf(out, ",%s", figure_names[i]);
    syn_sink_text(out, ",extrapolated,refused\n");
    for (size_t r = 0; r < s->n; r++) {
        const sweep_row *row = &s->rows[r];
        const syn_hardware *hw = &s->machines[row->machine];
        for (int i = 0; i < s->n_axes; i++) {
            sweep_csv_text(out, sweep_value(s, row, i));
            syn_sink_char(out, ',');
        }
        if (!own_dtype) syn_sink_printf(out, "%s,", dtype_of(row));
        sweep_csv_text(out, hw->name);
        syn_sink_char(out, ',');
        sweep_csv_text(out, hw->stack.name);
        figures_of(row, figures);
        for (int i = 0; i < FIGURES; i++) {
            syn_sink_char(out, ',');
            if (!isnan(figures[i])) sweep_put_figure(out, figures[i]);
        }
        syn_sink_char(out, ',');
        sweep_csv_text(out, extrapolated_text(row, extrapolated, sizeof extrapolated));
        syn_sink_char(out, ',');
        if (row->refused) sweep_csv_text(out, row->refused);
        syn_sink_char(out, '\n');
    }
}

static void put_rows(const sweep *s, syn_sink *out) {
    double figures[FIGURES];
    syn_sink_text(out, ", \"rows\": [");
    for (size_t r = 0; r < s->n; r++) {
        const sweep_row *row = &s->rows[r];
        const syn_hardware *hw = &s->machines[row->machine];
        syn_sink_text(out, r ? ",\n {" : "\n {");
        for (int i = 0; i < s->n_axes; i++) {
            syn_sink_printf(out, "\"%s\": ", column_name(s, i));
            syn_sink_json_string(out, sweep_value(s, row, i));
            syn_sink_text(out, ", ");
        }
        if (!varies(s, "dtype")) syn_sink_printf(out, "\"dtype\": \"%s\", ", dtype_of(row));
        syn_sink_text(out, "\"machine\": ");
        syn_sink_json_string(out, hw->name);
        syn_sink_text(out, ", \"stack\": ");
        syn_sink_json_string(out, hw->stack.name);
        figures_of(row, figures);
        for (int i = 0; i < FIGURES; i++) {
            syn_sink_printf(out, ", \"%s\": ", figure_names[i]);
            if (isnan(figures[i])) syn_sink_text(out, "null");
            else sweep_put_figure(out, figures[i]);
        }
        syn_sink_text(out, ", \"extrapolated\": ");
        syn_sink_json_string(out, row->t.error.extrapolated);
        syn_sink_text(out, ", \"extrapolations\": ");
        extrapolation_json(&row->t.extrapolated, out);
        syn_sink_text(out, ", \"refused\": ");
        if (row->refused) syn_sink_json_string(out, row->refused);
        else syn_sink_text(out, "null");
        syn_sink_char(out, '}');
    }
    syn_sink_char(out, ']');
}

syn_status sweep_open_folder(sweep *s, const char *folder, const char *option, syn_error *err) {
    char path[4300], advice[80];
    syn_sink *out;
    SYN_TRY(syn_make_folder(folder, err));
    snprintf(path, sizeof path, "%s/sweep.csv", folder);
    SYN_TRY(syn_sink_open_file(&out, path, err));
    SYN_TRY(syn_sink_close(out, false, err));
    snprintf(path, sizeof path, "%s/sweep", folder);
    snprintf(advice, sizeof advice, "name another %s", option);
    return output_lock_take(&s->lock, path, s->program->name, advice, err);
}

/* Whether the file at `path` contains exactly this table. */
static bool is_same(const char *path, const sweep *s) {
    syn_error ignored = {0};
    syn_sink *now;
    char *old = NULL;
    size_t bytes = 0, now_bytes = 0;
    if (syn_sink_open_memory(&now, &ignored) != SYN_OK) return false;
    put_csv(s, now);
    const char *text = syn_sink_data(now, &now_bytes);
    const bool same = text && syn_read_file(path, SIZE_MAX - 1, &old, &bytes, &ignored) == SYN_OK &&
                      bytes == now_bytes && memcmp(old, text, bytes) == 0;
    syn_free(old);
    (void)syn_sink_close(now, false, NULL);
    return same;
}

/* Renames the table and the picture of an earlier, different sweep to names with the next free
   number, and prints a note. */
static syn_status keep_old(const sweep *s, const char *folder, bool quiet, syn_error *err) {
    static const char *const ends[] = {"csv", "svg"};
    char from[4300], to[4300], shown[CLI_SHOWN_BYTES];
    int number = 0;
    snprintf(from, sizeof from, "%s/sweep.csv", folder);
    if (!syn_file_exists(from) || is_same(from, s)) return SYN_OK;
    do snprintf(to, sizeof to, "%s/sweep.%d.csv", folder, ++number);
    while (syn_file_exists(to) && number < 1000000);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/sweep.%s", folder, ends[i]);
        snprintf(to, sizeof to, "%s/sweep.%d.%s", folder, number, ends[i]);
        if (syn_file_exists(from) && rename(from, to) != 0)
            return SYN_FAIL(err, SYN_E_IO, "cannot rename %.300s: %s", from, strerror(errno));
    }
    if (!quiet)
        fprintf(stderr, "note: an earlier sweep's files are now %s/sweep.%d.csv and .svg\n",
                cli_shown(folder, shown, sizeof shown), number);
    return SYN_OK;
}

static syn_status write_files(const sweep *s, const char *folder, bool quiet, syn_error *err) {
    char path[4300];
    syn_sink *out;
    SYN_TRY(keep_old(s, folder, quiet, err));
    snprintf(path, sizeof path, "%s/sweep.csv", folder);
    SYN_TRY(syn_sink_open_file(&out, path, err));
    put_csv(s, out);
    SYN_TRY(syn_sink_close(out, true, err));
    snprintf(path, sizeof path, "%s/sweep.svg", folder);
    return sweep_draw(s, path, err);
}

syn_status sweep_check_possible(const sweep *s, syn_error *err) {
    for (size_t i = 0; i < s->n; i++)
        if (!s->rows[i].refused) return SYN_OK;
    if (s->n == 0) return SYN_OK;
    if (s->n == 1)
        return SYN_FAIL(err, SYN_E_INVALID, "--sweep: its only combination is not possible: %s",
                        s->rows[0].refused);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--sweep: none of its %zu combinations is possible; the first: %s", s->n,
                    s->rows[0].refused);
}

static syn_status print_json(const sweep *s, const char *folder, syn_error *err) {
    static const char *const names[] = {"sweep.csv", "sweep.svg"};
    char path[4300];
    bool first = true;
    syn_error why = {0};
    syn_sink *json;
    SYN_TRY(cli_json_open_as(&json, "sweep", err));
    put_rows(s, json);
    cli_json_begin_written(json);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        cli_json_add_written(json, path, &first);
    }
    syn_sink_char(json, ']');
    if (sweep_check_possible(s, &why) != SYN_OK) cli_json_error(json, CLI_FAILED, why.text);
    return cli_json_close(json, SYN_OK, err);
}

static syn_status report(const sweep *s, const char *folder, bool json, bool quiet,
                         syn_error *err) {
    char shown[CLI_SHOWN_BYTES];
    SYN_TRY(write_files(s, folder, quiet || json, err));
    if (json) return print_json(s, folder, err);
    if (quiet) return SYN_OK;
    SYN_TRY(print(s, stdout, err));
    cli_shown(folder, shown, sizeof shown);
    printf("\nwritten: %s/sweep.csv, %s/sweep.svg\n", shown, shown);
    return SYN_OK;
}

syn_status sweep_report(const sweep *s, const char *folder, bool json, bool quiet, syn_error *err) {
    SYN_TRY(report(s, folder, json, quiet, err));
    return sweep_check_possible(s, err);
}
