/* Adds up the ops of a run by name, and prints them as a table, as JSON and as a list of nodes. */
#include "tools/inference/report.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli.h"

static report_row *row_of(report *r, const char *op, syn_error *err) {
    for (uint32_t i = 0; i < r->n_rows; i++)
        if (strcmp(r->rows[i].op, op) == 0) return &r->rows[i];
    if (syn_grow(&r->rows, &r->rows_cap, r->n_rows + 1, sizeof *r->rows, err) != SYN_OK)
        return NULL;
    r->rows[r->n_rows] = (report_row){.op = op};
    return &r->rows[r->n_rows++];
}

static void add(report_row *row, const syn_node *n, bool timed) {
    row->calls++;
    row->flops += n->flops;
    row->bytes += n->bytes_read + n->bytes_written;
    row->comm_bytes += n->comm_bytes;
    row->communication = n->comm != SYN_COMM_NONE;
    const double busy = syn_node_busy_ns(n);
    if (busy > 0) row->busy_ns += busy;
    row->wait_ns += syn_node_wait_ns(n);
    if (timed) row->predicted_ns += n->predicted_ns;
}

static double weight(const report_row *r) {
    return r->busy_ns > 0        ? r->busy_ns
           : r->predicted_ns > 0 ? r->predicted_ns
                                 : (double)r->flops * 1e-9;
}

static int by_weight(const void *a, const void *b) {
    const double x = weight(a), y = weight(b);
    return x > y   ? -1
           : x < y ? 1
                   : strcmp(((const report_row *)a)->op, ((const report_row *)b)->op);
}

/* Whether the predicted time of a node is added. A message is added where it is received, and a
   broadcast to all stages on its first rank. */
static bool is_timed(const syn_graph *graph, uint32_t rank, const syn_node *n) {
    const syn_graph_group *group = n->group ? syn_graph_group_by_id(graph, n->group) : NULL;
    if (n->predicted_ns < 0 || n->kind == SYN_NODE_SEND) return false;
    return !group || strncmp(group->name, "pp", 2) != 0 ||
           group->ranks[0] == graph->ranks[rank].rank;
}

static syn_status add_node(report *r, const syn_node *n, bool timed, syn_error *err) {
    report_row *row = row_of(r, n->op, err);
    if (!row) return err->code;
    add(row, n, timed);
    add(&r->total, n, timed);
    if (n->wall_ns >= 0) r->measured = true;
    if (timed) {
        r->predicted = true;
        *(n->phase == SYN_PHASE_PREFILL  ? &r->predicted_prefill_ns
          : n->phase == SYN_PHASE_DECODE ? &r->predicted_decode_ns
                                         : &r->predicted_forward_ns) += n->predicted_ns;
    }
    return SYN_OK;
}

static void add_outputs(report *r, const syn_graph *graph, uint32_t rank, const syn_node *n,
                        syn_cursor *tensors) {
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(graph, rank, n->outputs[i], tensors);
        if (!t || t->base != n->outputs[i]) continue;
        const uint64_t bytes = syn_spec_bytes(&t->spec);
        if (bytes > r->largest_bytes) r->largest_bytes = bytes;
    }
}

syn_status report_add(report *r, const syn_graph *graph, uint32_t rank, const syn_hardware *hw,
                      syn_error *err) {
    syn_cursor cur = {0}, tensors = {0};
    syn_status s = SYN_OK;
    if (graph->ranks[rank].rank != r->last_rank) r->last_id = 0;
    r->last_rank = graph->ranks[rank].rank;
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes && s == SYN_OK; i++) {
        const syn_node *n = syn_graph_node(graph, rank, i, &cur);
        if (!n) s = SYN_FAIL(err, cur.error.code, "%s", cur.error.text);
        if (!n || n->id <= r->last_id) continue;
        r->last_id = n->id;
        if (n->flags & SYN_NODE_VIRTUAL) continue;
        s = add_node(r, n, is_timed(graph, rank, n), err);
        if (hw) limits_add(&r->limits, hw, graph, rank, n);
        add_outputs(r, graph, rank, n, &tensors);
    }
    syn_cursor_free(&cur);
    syn_cursor_free(&tensors);
    return s;
}

void report_sort(report *r) {
    if (r->n_rows) qsort(r->rows, r->n_rows, sizeof *r->rows, by_weight);
}

static void print_row(const report *r, const report_row *row, const char *name, FILE *out) {
    char a[32], b[32];
    fprintf(out, "  %-16s %9llu", name, (unsigned long long)row->calls);
    const double ns = r->measured ? row->busy_ns : row->predicted_ns;
    const double all = r->measured ? r->total.busy_ns : r->total.predicted_ns;
    if (r->measured) fprintf(out, " %10s", cli_time_text(row->busy_ns, a, sizeof a));
    if (r->total.wait_ns > 0)
        fprintf(out, " %10s", row->wait_ns > 0 ? cli_time_text(row->wait_ns, a, sizeof a) : "");
    if (r->predicted) fprintf(out, " %10s", cli_time_text(row->predicted_ns, a, sizeof a));
    if (r->measured || r->predicted) fprintf(out, " %6.1f%%", all > 0 ? 100.0 * ns / all : 0.0);
    fprintf(out, " %10s %12s", cli_count_text((double)row->flops, a, sizeof a),
            cli_bytes_text((double)row->bytes, b, sizeof b));
    if ((r->measured || r->predicted) && ns > 0)
        fprintf(out, " %10s %13s", cli_count_text((double)row->flops * 1e9 / ns, a, sizeof a),
                cli_bytes_text((double)row->bytes * 1e9 / ns, b, sizeof b));
    fputc('\n', out);
}

void report_print(const report *r, FILE *out) {
    fprintf(out, "  %-16s %9s", "op", "calls");
    if (r->measured) fprintf(out, " %10s", "time");
    if (r->total.wait_ns > 0) fprintf(out, " %10s", "+wait");
    if (r->predicted) fprintf(out, " %10s", "predicted");
    if (r->measured || r->predicted) fprintf(out, " %7s", "share");
    fprintf(out, " %10s %12s", "flops", "read+written");
    if (r->measured || r->predicted) fprintf(out, " %10s %13s", "flop/s", "bytes/s");
    fputc('\n', out);
    for (uint32_t i = 0; i < r->n_rows; i++) print_row(r, &r->rows[i], r->rows[i].op, out);
    print_row(r, &r->total, "total", out);
    if (r->total.wait_ns > 0)
        fprintf(out, "  (+wait: wait time for other ranks, not included in the time)\n");
}

void report_json(const report *r, syn_sink *out) {
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const report_row *row = &r->rows[i];
        syn_sink_text(out, i ? ", {" : "[{");
        syn_sink_printf(out, "\"op\": \"%s\", \"calls\": %llu, \"flops\": %llu, \"bytes\": %llu",
                        row->op, (unsigned long long)row->calls, (unsigned long long)row->flops,
                        (unsigned long long)row->bytes);
        syn_sink_printf(
            out, ", \"comm_bytes\": %llu, \"time_ns\": ", (unsigned long long)row->comm_bytes);
        syn_sink_double(out, row->busy_ns);
        syn_sink_text(out, ", \"wait_ns\": ");
        syn_sink_double(out, row->wait_ns);
        syn_sink_text(out, ", \"predicted_ns\": ");
        syn_sink_double(out, row->predicted_ns);
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, r->n_rows ? "]" : "[]");
}

static void print_node(const syn_graph *graph, uint32_t rank, const syn_node *n,
                       syn_cursor *tensors, FILE *out) {
    char text[SYN_SPEC_TEXT], scope[CLI_SHOWN_BYTES], label[CLI_SHOWN_BYTES];
    fprintf(out, "%6llu %-8s %-12s %-14s %-10s", (unsigned long long)n->id,
            syn_phase_name(n->phase), cli_shown(n->scope, scope, sizeof scope), n->op,
            cli_shown(n->label, label, sizeof label));
    for (uint32_t k = 0; k < n->n_inputs + n->n_outputs; k++) {
        const uint32_t id = k < n->n_inputs ? n->inputs[k] : n->outputs[k - n->n_inputs];
        const syn_graph_tensor *t = syn_graph_tensor_at(graph, rank, id, tensors);
        if (t)
            fprintf(out, "%s%s", k == n->n_inputs ? " -> " : " ",
                    syn_spec_text(&t->spec, text, sizeof text));
    }
    if (n->flops) fprintf(out, "  %llu flops", (unsigned long long)n->flops);
    if (n->wall_ns >= 0) fprintf(out, "  %.1f us", syn_node_busy_ns(n) / 1000);
    const double waiting = syn_node_wait_ns(n);
    if (waiting > 0) fprintf(out, ", +%.1f us wait", waiting / 1000);
    fputc('\n', out);
}

void report_print_nodes(const syn_graph *graph, uint32_t rank, FILE *out) {
    syn_cursor cur = {0}, tensors = {0};
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
        const syn_node *n = syn_graph_node(graph, rank, i, &cur);
        if (!n) break;
        print_node(graph, rank, n, &tensors, out);
    }
    syn_cursor_free(&cur);
    syn_cursor_free(&tensors);
}

void report_free(report *r) {
    syn_free(r->rows);
    *r = (report){0};
}
