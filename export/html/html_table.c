/* Writes sums as tables, for readers without JavaScript and for screen readers. */
#include <stdlib.h>
#include <string.h>

#include "export/html/html_trace.h"
#include "syntorch/base/memory.h"

#define MAX_ROWS 400 /* maximum number of rows of a table */

syn_status syn__html_sums_add(syn__html_sums *sums, bool host, const char *text, size_t bytes,
                              const syn__html_sum *more, syn_error *err) {
    char key[1 + SYN_MAX_NAME] = {host ? 'h' : ' '};
    uint32_t id;
    const size_t n = bytes < SYN_MAX_NAME ? bytes : SYN_MAX_NAME;
    memcpy(key + 1, text, n);
    const size_t known = sums->keys.n_entries;
    SYN_TRY(syn_intern_put(&sums->keys, key, n + 1, &id, err));
    SYN_TRY(syn_grow(&sums->at, &sums->cap, sums->keys.n_entries, sizeof *sums->at, err));
    if (sums->keys.n_entries > known) sums->at[id] = (syn__html_sum){0};
    syn__html_sum *sum = &sums->at[id];
    sum->calls += more->calls;
    sum->flops += more->flops;
    sum->bytes += more->bytes;
    sum->ns += more->ns;
    sum->wait_ns += more->wait_ns;
    return SYN_OK;
}

void syn__html_sums_free(syn__html_sums *sums) {
    syn_intern_free(&sums->keys);
    syn_free(sums->at);
}

/* Writes "1.23 GFLOP" or "12.5 KiB". Bytes are in powers of 1024, flops in powers of 1000. */
static void put_amount(syn_sink *sink, double value, bool bytes) {
    static const char *const units[2][7] = {
        {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"},
        {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}};
    const double base = bytes ? 1024 : 1000;
    size_t i = 0;
    for (; value >= base - 0.5 && i + 1 < sizeof units[0] / sizeof *units[0]; i++) value /= base;
    syn_sink_printf(sink, value < 999.5 ? "<td>%.3g %s</td>" : "<td>%.0f %s</td>", value,
                    units[bytes][i]);
}

static void put_time(syn_sink *sink, double ns, bool in_order) {
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    size_t i = 0;
    if (in_order) return;
    for (; ns >= 999.5 && i < 3; i++) ns /= 1e3;
    syn_sink_printf(sink, ns < 999.5 ? "<td>%.3g %s</td>" : "<td>%.0f %s</td>", ns, units[i]);
}

typedef struct row {
    const syn__html_sum *sum;
    const char *key;
    uint32_t id;
} row;

static int compare_rows(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->sum->ns != y->sum->ns) return x->sum->ns > y->sum->ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void put_row(const row *r, bool in_order, syn_sink *sink) {
    const syn__html_sum *sum = r->sum;
    syn_sink_text(sink, "<tr><th scope=\"row\">");
    syn_sink_xml_text(sink, r->key[1] != '\0' ? r->key + 1 : "(top level)");
    syn_sink_text(sink, r->key[0] == 'h' ? " (host)</th>" : "</th>");
    syn_sink_printf(sink, "<td>%llu</td>", (unsigned long long)sum->calls);
    put_time(sink, sum->ns, in_order);
    put_time(sink, sum->wait_ns, in_order);
    put_amount(sink, (double)sum->flops, false);
    put_amount(sink, (double)sum->bytes, true);
    syn_sink_text(sink, "</tr>\n");
}

static syn_status put_table(const syn__html_sums *sums, const char *what, bool in_order,
                            syn_sink *sink, syn_error *err) {
    const size_t n = sums->keys.n_entries;
    row *rows = syn_calloc(n, sizeof *rows);
    if (rows == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *rows, "a table of an HTML report");
    for (size_t i = 0; i < n; i++)
        rows[i] = (row){&sums->at[i], syn_intern_get(&sums->keys, (uint32_t)i), (uint32_t)i};
    qsort(rows, n, sizeof *rows, compare_rows);
    syn_sink_printf(sink, "<table>\n<thead><tr><th scope=\"col\">%s</th><th>calls</th>", what);
    if (!in_order) syn_sink_text(sink, "<th>time</th><th>wait</th>");
    syn_sink_text(sink, "<th>flops</th><th>bytes</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < n && i < MAX_ROWS; i++) put_row(&rows[i], in_order, sink);
    syn_sink_text(sink, "</tbody>\n</table>\n");
    if (n > MAX_ROWS) syn_sink_printf(sink, "<p>and %zu more with less time</p>\n", n - MAX_ROWS);
    syn_free(rows);
    return SYN_OK;
}

syn_status syn__html_put_tables(const syn__html_trace *trace, syn_sink *sink, syn_error *err) {
    const bool in_order = trace->timeline.clock == SYN__CLOCK_ORDER;
    syn_sink_printf(sink, "<p>%llu op%s on %u rank%s", (unsigned long long)trace->n_ops,
                    trace->n_ops == 1 ? "" : "s", (unsigned)trace->columns.n_ranks,
                    trace->columns.n_ranks == 1 ? "" : "s; sums over all ranks");
    syn_sink_printf(sink, in_order ? "; the trace has no times.</p>\n" : "; times are %s.</p>\n",
                    trace->timeline.clock == SYN__CLOCK_MEASURED    ? "measured"
                    : trace->timeline.clock == SYN__CLOCK_PREDICTED ? "predicted"
                                                                    : "durations of the trace");
    syn_sink_text(sink, "<h3>By op</h3>\n");
    SYN_TRY(put_table(&trace->by_op, "op", in_order, sink, err));
    syn_sink_text(sink, "<h3>By layer</h3>\n");
    return put_table(&trace->by_layer, "layer", in_order, sink, err);
}
