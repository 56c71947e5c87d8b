/* What a sweep prints and writes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/memory.h"
#include "tools/limits.h"
#include "tools/sweep/sweep.h"

enum { TABLE_ROWS = 50, REASONS = 12 };

static const char *value_of(const sweep *s, const sweep_row *row, int axis) {
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
                                 cli_shown(value_of(s, row, i), shown, sizeof shown));
    }
    return buf;
}

/* ---- The table ---- */

static int width_of(const sweep_axis *axis) {
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
        fprintf(out, " %*s", width_of(&s->axes[i]), s->axes[i].option->name);
    fprintf(out, " %9s", s->training ? "step" : "time");
    if (!s->training) fprintf(out, " %9s %9s", "prefill", "decode");
    fprintf(out, " %8s %8s %8s %-18s %4s %4s\n", "tokens/s", "GPU-s/1k", "memory", " limited by",
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
        fprintf(out, " %*s", width_of(&s->axes[i]),
                cli_shown(value_of(s, row, i), shown, sizeof shown));
    fprintf(out, " %9s", cli_time_text(t->ns, a, sizeof a));
    if (!s->training)
        fprintf(out, " %9s %9s", phase_time(t->prefill_ns, a, sizeof a),
                phase_time(t->decode_ns, b, sizeof b));
    int most = 0;
    for (int i = 1; i < SYN_LIMIT_COUNT; i++)
        if (t->shares[i] > t->shares[most]) most = i;
    fprintf(out, " %8s %8.3g %8s", cli_count_text(t->tokens * 1e9 / t->ns, a, sizeof a),
            sweep_cost(row), cli_bytes_text(t->rank_bytes, b, sizeof b));
    fprintf(out, " %3.0f%% %-13s %3.0f%%", 100 * t->shares[most], limits_name(most),
            100 * t->utilisation);
    if (t->error > 0) fprintf(out, " %3.0f%%\n", 100 * t->error);
    else fprintf(out, " %4s\n", "?");
}

/* One that sorts as the table does: faster first, then cheaper, then in the order of the words. */
typedef struct entry {
    double time, cost;
    const sweep_row *row;
} entry;

static int by_time(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Rows that are not refused; returns how many, or -1: there is no memory. */
static int sorted(const sweep *s, entry **out) {
    int n = 0;
    *out = syn_calloc(s->n + 1, sizeof **out);
    if (!*out) return -1;
    for (size_t i = 0; i < s->n; i++) {
        const sweep_row *row = &s->rows[i];
        if (!row->refused) (*out)[n++] = (entry){sweep_time(s, row), sweep_cost(row), row};
    }
    qsort(*out, (size_t)n, sizeof **out, by_time);
    return n;
}

/* Of each machine how many do not fit, and the smallest of them. */
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
        fprintf(out, "%s a rank\n", cli_bytes_text(least->t.rank_bytes, b, sizeof b));
    }
}

/* Each reason once, with how many combinations it is of and the first of them. */
static void print_refused(const sweep *s, FILE *out) {
    int shown = 0;
    char label[512], reason[CLI_SHOWN_BYTES];
    for (size_t i = 0; i < s->n; i++) {
        const char *why = s->rows[i].refused;
        size_t first = 0, same = 0;
        if (!why || s->rows[i].too_large) continue;
        while (!s->rows[first].refused || strcmp(s->rows[first].refused, why) != 0) first++;
        if (first < i) continue;
        for (size_t k = i; k < s->n; k++)
            same += s->rows[k].refused && strcmp(s->rows[k].refused, why) == 0;
        if (shown++ >= REASONS) continue;
        fprintf(out, "  %s", sweep_label(s, &s->rows[i], label, sizeof label));
        if (same > 1) fprintf(out, " and %zu more", same - 1);
        fprintf(out, ": %s\n", cli_shown(why, reason, sizeof reason));
    }
    if (shown > REASONS) fprintf(out, "  and %d more reasons\n", shown - REASONS);
}

static void print(const sweep *s, FILE *out) {
    entry *rows;
    const int n = sorted(s, &rows);
    const bool all = n <= TABLE_ROWS;
    char title[CLI_SHOWN_BYTES];
    if (n < 0) return;
    fprintf(out, "%s: %zu combinations, %d possible\n", cli_shown(s->title, title, sizeof title),
            s->n, n);
    if (s->subtitle[0] != '\0') fprintf(out, "%s\n", s->subtitle);
    fprintf(out, "numbered: none is both faster and cheaper%s\n\n",
            all ? "" : "; only those are listed here");
    if (n > 0) print_head(s, out);
    for (int i = 0; i < n; i++)
        if (all || rows[i].row->front) print_row(s, rows[i].row, out);
    if ((size_t)n < s->n) fprintf(out, "\nnot possible:\n");
    print_too_large(s, out);
    print_refused(s, out);
    syn_free(rows);
}

/* ---- Files ---- */

static void put_csv_text(syn_sink *out, const char *text) {
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

/* A row's figures in the order of their names; NaN: it has no such one. */
enum { FIGURES = 15 };

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
                                                  "front"};

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
                                     t->error > 0 ? t->error : NAN,
                                     row->front ? (double)row->front : NAN};
    for (int i = 0; i < FIGURES; i++) out[i] = timed ? figures[i] : NAN;
}

static void put_figure(syn_sink *out, double value) {
    if (value == floor(value) && fabs(value) < 9007199254740992.0)
        syn_sink_i64(out, (int64_t)value);
    else syn_sink_double(out, value);
}

static void put_csv(const sweep *s, syn_sink *out) {
    double figures[FIGURES];
    for (int i = 0; i < s->n_axes; i++)
        syn_sink_printf(out, "%s%s", i ? "," : "", s->axes[i].option->name);
    syn_sink_text(out, ",machine,stack");
    for (int i = 0; i < FIGURES; i++) syn_sink_printf(out, ",%s", figure_names[i]);
    syn_sink_text(out, ",refused\n");
    for (size_t r = 0; r < s->n; r++) {
        const sweep_row *row = &s->rows[r];
        const syn_hardware *hw = &s->machines[row->machine];
        for (int i = 0; i < s->n_axes; i++) {
            put_csv_text(out, value_of(s, row, i));
            syn_sink_char(out, ',');
        }
        put_csv_text(out, hw->name);
        syn_sink_char(out, ',');
        put_csv_text(out, hw->stack.name);
        figures_of(row, figures);
        for (int i = 0; i < FIGURES; i++) {
            syn_sink_char(out, ',');
            if (!isnan(figures[i])) put_figure(out, figures[i]);
        }
        syn_sink_char(out, ',');
        if (row->refused) put_csv_text(out, row->refused);
        syn_sink_char(out, '\n');
    }
}

static void put_json(const sweep *s, syn_sink *out) {
    double figures[FIGURES];
    for (size_t r = 0; r < s->n; r++) {
        const sweep_row *row = &s->rows[r];
        const syn_hardware *hw = &s->machines[row->machine];
        syn_sink_text(out, r ? ",\n {" : "[{");
        for (int i = 0; i < s->n_axes; i++) {
            syn_sink_printf(out, "\"%s\": ", s->axes[i].option->name);
            syn_sink_json_string(out, value_of(s, row, i));
            syn_sink_text(out, ", ");
        }
        syn_sink_text(out, "\"machine\": ");
        syn_sink_json_string(out, hw->name);
        syn_sink_text(out, ", \"stack\": ");
        syn_sink_json_string(out, hw->stack.name);
        figures_of(row, figures);
        for (int i = 0; i < FIGURES; i++) {
            syn_sink_printf(out, ", \"%s\": ", figure_names[i]);
            if (isnan(figures[i])) syn_sink_text(out, "null");
            else put_figure(out, figures[i]);
        }
        syn_sink_text(out, ", \"refused\": ");
        if (row->refused) syn_sink_json_string(out, row->refused);
        else syn_sink_text(out, "null");
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, s->n ? "]\n" : "[]\n");
}

static syn_status write_files(const sweep *s, const char *folder, syn_error *err) {
    char path[4300];
    syn_sink *out;
    SYN_TRY(syn_make_folder(folder, err));
    snprintf(path, sizeof path, "%s/sweep.csv", folder);
    SYN_TRY(syn_sink_open_file(&out, path, err));
    put_csv(s, out);
    SYN_TRY(syn_sink_close(out, true, err));
    snprintf(path, sizeof path, "%s/sweep.svg", folder);
    return sweep_draw(s, path, err);
}

syn_status sweep_tell(const sweep *s, const char *folder, bool json, bool quiet, syn_error *err) {
    char shown[CLI_SHOWN_BYTES];
    syn_sink *out;
    SYN_TRY(write_files(s, folder, err));
    if (json) {
        SYN_TRY(syn_sink_open_file(&out, "-", err));
        put_json(s, out);
        return syn_sink_close(out, true, err);
    }
    if (quiet) return SYN_OK;
    print(s, stdout);
    cli_shown(folder, shown, sizeof shown);
    printf("\nwritten: %s/sweep.csv, %s/sweep.svg\n", shown, shown);
    return SYN_OK;
}
