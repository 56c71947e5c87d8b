/* Writes, as text for people, where the time of a run goes. There are tables of sums over all
   ranks: by phase, op and input shapes; by scope; and, if stacks are requested, by phase, op and
   modules. Column "total" includes wait time and, for a scope, its inner scopes. Column "self" is
   the time of the ops themselves. */
#include "export/kineto/kineto_modules.h"
#include "export/kineto/kineto_recording.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 2048, SHOWN_SHAPES = 4, SHOWN_FRAMES = 5, MAX_ROWS = 400 };

typedef struct row {
    uint32_t key;
    uint64_t calls;
    double total_ns, self_ns, flops, bytes;
} row;

typedef struct table {
    syn_intern keys;
    row *rows; /* per key */
    size_t rows_cap;
} table;

typedef struct writer {
    const syn_graph *graph;
    syn_sink *sink;
    syn__timeline timeline;
    syn__walk walk;
    table ops, scopes, stacks;
    bool with_stack;
    uint64_t calls;
    double self_ns;
    syn_error *err;
} writer;

static syn_status find_row(table *t, const char *key, size_t bytes, row **out, syn_error *err) {
    uint32_t id;
    const size_t before = t->keys.n_entries;
    SYN_TRY(syn_intern_put(&t->keys, key, bytes, &id, err));
    SYN_TRY(syn_grow(&t->rows, &t->rows_cap, (size_t)id + 1, sizeof *t->rows, err));
    if (id >= before) t->rows[id] = (row){.key = id};
    *out = &t->rows[id];
    return SYN_OK;
}

static void table_free(table *t) {
    syn_intern_free(&t->keys);
    syn_free(t->rows);
}

/* ---- Sums ---- */

static void add(row *r, const syn_node *node, double total_ns, double self_ns) {
    r->total_ns += total_ns;
    r->self_ns += self_ns;
    r->calls++;
    r->flops += (double)node->flops;
    r->bytes += (double)node->bytes_read + (double)node->bytes_written;
}

/* Writes the shapes of the first inputs, and the number of further inputs: "[4, 32, 64] [256, 64]
   +3". */
static syn_status shapes_text(writer *w, const syn_node *node, char *out, size_t bytes) {
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < node->n_inputs && i < SHOWN_SHAPES; i++) {
        const syn_graph_tensor *t;
        char text[SYN_SPEC_TEXT];
        SYN_TRY(syn__walk_tensor(&w->walk, node->inputs[i], &t, w->err));
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i > 0 ? " " : "",
                               syn_spec_text(&t->spec, text, sizeof text));
    }
    if (node->n_inputs > SHOWN_SHAPES)
        snprintf(out + at, bytes - at, " +%u", (unsigned)node->n_inputs - SHOWN_SHAPES);
    return SYN_OK;
}

static syn_status add_op(writer *w, const syn_node *node, double total_ns, double self_ns) {
    char key[KEY_BYTES], shapes[(SYN_SPEC_TEXT + 1) * SHOWN_SHAPES + 16];
    row *r;
    SYN_TRY(shapes_text(w, node, shapes, sizeof shapes));
    int n = snprintf(key, sizeof key, "%-9s %-24.80s %s", syn_phase_name(node->phase), node->op,
                     shapes);
    if (n >= KEY_BYTES) n = KEY_BYTES - 1;
    while (n > 0 && key[n - 1] == ' ') n--;
    SYN_TRY(find_row(&w->ops, key, (size_t)n, &r, w->err));
    add(r, node, total_ns, self_ns);
    return SYN_OK;
}

/* Adds the times to the row of the scope, and to the totals of the scopes around it: "h.0.attn"
   also counts in "h.0" and "h". */
static syn_status add_scope(writer *w, const syn_node *node, double total_ns, double self_ns) {
    const char *scope = node->scope[0] != '\0' ? node->scope : "(none)";
    row *r;
    SYN_TRY(find_row(&w->scopes, scope, strlen(scope), &r, w->err));
    add(r, node, total_ns, self_ns);
    for (size_t n = strlen(scope); n-- > 0;) {
        if (scope[n] != '.') continue;
        SYN_TRY(find_row(&w->scopes, scope, n, &r, w->err));
        r->total_ns += total_ns;
    }
    return SYN_OK;
}

/* Adds a row for the modules around an op: at most the innermost five, outermost first, as in
   "encoder;layer.0;attention;self". */
static syn_status add_stack(writer *w, const syn_node *node, double total_ns, double self_ns) {
    char key[KEY_BYTES];
    size_t ends[KEY_BYTES / 2 + 1] = {0}, frames = 0, at = 0;
    row *r;
    while (node->scope[at] != '\0' && frames < KEY_BYTES / 2)
        ends[++frames] = at = syn__kineto_module_end(node->scope, at);
    int n = snprintf(key, sizeof key, "%-9s %-24.80s ", syn_phase_name(node->phase), node->op);
    for (size_t f = frames > SHOWN_FRAMES ? frames - SHOWN_FRAMES : 0; f < frames; f++) {
        const size_t from = ends[f] + (f > 0), bytes = ends[f + 1] - from;
        if ((size_t)n + bytes + 2 > sizeof key) break;
        n += snprintf(key + n, sizeof key - (size_t)n, "%.*s%s", (int)bytes, node->scope + from,
                      f + 1 < frames ? ";" : "");
    }
    while (n > 0 && key[n - 1] == ' ') n--;
    SYN_TRY(find_row(&w->stacks, key, (size_t)n, &r, w->err));
    add(r, node, total_ns, self_ns);
    return SYN_OK;
}

static syn_status add_rank(writer *w, uint32_t rank) {
    syn__walk_select(&w->walk, rank);
    for (uint32_t i = 0; i < w->graph->ranks[rank].n_nodes; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&w->walk, i, &node, w->err));
        if (!syn__kineto_shows(w->graph, node)) continue;
        const syn__span *s = syn__timeline_span(&w->timeline, rank, i);
        const double total = s->start_ns < 0 ? 0 : s->end_ns - s->start_ns;
        const double wait = s->wait_ns < total ? s->wait_ns : total;
        const double self = total - (wait > 0 ? wait : 0);
        SYN_TRY(add_op(w, node, total, self));
        SYN_TRY(add_scope(w, node, total, self));
        if (w->with_stack) SYN_TRY(add_stack(w, node, total, self));
        w->calls++;
        w->self_ns += self;
    }
    return SYN_OK;
}

/* ---- Text ---- */

static int by_total(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->self_ns != y->self_ns) return x->self_ns > y->self_ns ? -1 : 1;
    if (x->total_ns != y->total_ns) return x->total_ns > y->total_ns ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Writes an amount per second, as in "1.5 G". */
static void put_rate(writer *w, double amount, double ns) {
    static const char *const units[] = {" ", "k", "M", "G", "T", "P"};
    size_t unit = 0;
    double rate = ns > 0 ? amount / ns * 1e9 : 0;
    if (rate <= 0) {
        syn_sink_text(w->sink, "         -");
        return;
    }
    for (; rate >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) rate /= 1000;
    syn_sink_printf(w->sink, "  %6.1f %s", rate, units[unit]);
}

static void put_row(writer *w, const row *r, const char *what, size_t bytes) {
    const double share = w->self_ns > 0 ? 100 * r->self_ns / w->self_ns : 0;
    syn_sink_printf(w->sink, "%9llu  %12.3f  %12.3f  %6.2f", (unsigned long long)r->calls,
                    r->total_ns / 1e3, r->self_ns / 1e3, share);
    put_rate(w, r->flops, r->self_ns);
    put_rate(w, r->bytes, r->self_ns);
    syn_sink_text(w->sink, "  ");
    syn_sink_write(w->sink, what, bytes);
    syn_sink_char(w->sink, '\n');
}

/* Writes one row for all rows after the first MAX_ROWS, so that the columns add up. */
static void put_rest(writer *w, const table *t, size_t n) {
    row rest = {0};
    char text[32];
    for (size_t i = MAX_ROWS; i < n; i++) {
        const row *r = &t->rows[i];
        rest.calls += r->calls;
        rest.total_ns += r->total_ns;
        rest.self_ns += r->self_ns;
        rest.flops += r->flops;
        rest.bytes += r->bytes;
    }
    const int bytes = snprintf(text, sizeof text, "(%zu more)", n - MAX_ROWS);
    put_row(w, &rest, text, (size_t)bytes);
}

static void put_table(writer *w, table *t, const char *what) {
    const size_t n = t->keys.n_entries;
    if (n > 1) qsort(t->rows, n, sizeof *t->rows, by_total);
    syn_sink_printf(w->sink, "\n%9s  %12s  %12s  %6s  %8s  %8s  %s\n", "calls", "total us",
                    "self us", "%", "flop/s", "B/s", what);
    for (size_t i = 0; i < n && i < MAX_ROWS; i++)
        put_row(w, &t->rows[i], syn_intern_get(&t->keys, t->rows[i].key),
                syn_intern_entry_bytes(&t->keys, t->rows[i].key));
    if (n > MAX_ROWS) put_rest(w, t, n);
}

static syn_status write_tables(writer *w, const syn_export_options *options) {
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(w->graph, options, &first, &end, w->err));
    for (uint32_t r = first; r < end; r++) SYN_TRY(add_rank(w, r));
    syn_sink_printf(w->sink, "%u rank%s, %llu ops, %.3f us of work in all (times: %s)\n",
                    end - first, end - first == 1 ? "" : "s", (unsigned long long)w->calls,
                    w->self_ns / 1e3, syn__clock_name(w->timeline.clock));
    put_table(w, &w->ops, "phase, op, inputs");
    put_table(w, &w->scopes, "scope");
    if (w->with_stack) put_table(w, &w->stacks, "phase, op, modules");
    return SYN_OK;
}

static syn_status write_stacks(const syn_graph *graph, const syn_export_options *options,
                               syn_sink *sink, syn_error *err) {
    writer w = {.graph = graph,
                .sink = sink,
                .with_stack = options != NULL && options->with_stack,
                .err = err};
    syn__walk_init(&w.walk, graph);
    syn_status status = syn__timeline_make(&w.timeline, graph, NULL, NULL, err);
    if (status == SYN_OK) status = write_tables(&w, options);
    syn__timeline_free(&w.timeline);
    syn__walk_free(&w.walk);
    table_free(&w.ops);
    table_free(&w.scopes);
    table_free(&w.stacks);
    return status;
}

const syn_exporter syn_export_stacks = {"stacks", "stacks.txt", write_stacks};
