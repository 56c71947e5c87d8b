#include "tools/inference/comparison.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/memory.h"
#include "tools/cli.h"

static syn_status load(comparison *c, const char *name, int32_t ranks, syn_error *err) {
    syn_hardware *hw = &c->of[c->n].hw;
    SYN_TRY(syn_hardware_load(hw, name, "serving", err));
    syn_hardware_share(hw, ranks);
    c->n++;
    return SYN_OK;
}

syn_status comparison_open(comparison *c, const char *list, const syn_hardware *own, int32_t ranks,
                           syn_error *err) {
    if (!list) return SYN_OK;
    size_t n = 2;
    for (const char *p = list; *p; p++) n += *p == ',';
    c->of = syn_calloc(n, sizeof *c->of);
    char *names = syn_strdup(list);
    syn_status s = c->of && names ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof *c->of, "--compare");
    if (s == SYN_OK && own) c->of[c->n++].hw = *own;
    for (char *name = names, *end; s == SYN_OK && name; name = end) {
        end = strchr(name, ',');
        if (end) *end++ = '\0';
        s = load(c, name, ranks, err);
    }
    syn_free(names);
    return s;
}

void comparison_free(comparison *c) {
    for (int i = 0; i < c->n; i++) report_free(&c->of[i].report);
    syn_free(c->of);
    *c = (comparison){0};
}

syn_status comparison_add(comparison *c, const syn_trace *trace, syn_error *err) {
    syn_status s = SYN_OK;
    for (int i = 0; i < c->n && s == SYN_OK; i++) {
        syn_graph *graph;
        SYN_TRY(syn_trace_graph(&graph, &trace, 1, &c->of[i].hw, err));
        s = report_add(&c->of[i].report, graph, 0, &c->of[i].hw, err);
        syn_graph_free(graph);
    }
    return s;
}

static const char *phase_time(double ns, char *buf, size_t bytes) {
    return ns > 0 ? cli_time_text(ns, buf, bytes) : "";
}

static bool too_large(const compared *m, double rank_bytes) {
    return m->hw.memory_bytes > 0 && rank_bytes > m->hw.memory_bytes;
}

static void print_limits(const report *r, FILE *out) {
    double shares[SYN_LIMIT_COUNT], used;
    limits_shares(&r->limits, LIMITS_ALL, r->total.predicted_ns, shares, &used);
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) fprintf(out, " %6.0f%%", 100 * shares[i]);
    fprintf(out, " %6.0f%%", 100 * used);
}

void comparison_print(const comparison *c, double rank_bytes, FILE *out) {
    char title[160], name[CLI_SHOWN_BYTES], a[32], b[32], d[32];
    if (c->n == 0) return;
    const report *first = &c->of[0].report;
    const bool forward = first->predicted_forward_ns > 0 && first->predicted_prefill_ns <= 0;
    fprintf(out, "\nthe same ops on\n  %-19s", "");
    if (!forward) fprintf(out, " %9s %9s", "prefill", "decode");
    fprintf(out, " %9s %8s %7s %7s %7s %7s %7s\n", forward ? "forward" : "all", "of first",
            "compute", "memory", "launch", "comm.", "of peak");
    for (int i = 0; i < c->n; i++) {
        const compared *m = &c->of[i];
        const report *r = &m->report;
        const double all = r->total.predicted_ns;
        syn_hardware_title(&m->hw, title, sizeof title);
        fprintf(out, "  %-19s", cli_shown(title, name, sizeof name));
        if (!forward)
            fprintf(out, " %9s %9s", phase_time(r->predicted_prefill_ns, a, sizeof a),
                    phase_time(r->predicted_decode_ns, b, sizeof b));
        fprintf(out, " %9s %8.2f", cli_time_text(all, d, sizeof d),
                all / first->total.predicted_ns);
        print_limits(r, out);
        fprintf(out, "%s\n", too_large(m, rank_bytes) ? "  too little memory" : "");
    }
}

void comparison_json(const comparison *c, double rank_bytes, syn_sink *out) {
    for (int i = 0; i < c->n; i++) {
        const compared *m = &c->of[i];
        const report *r = &m->report;
        syn_sink_text(out, i ? ", {\"hardware\": " : "[{\"hardware\": ");
        syn_sink_json_string(out, m->hw.name);
        syn_sink_text(out, ", \"stack\": ");
        syn_sink_json_string(out, m->hw.stack.name);
        syn_sink_text(out, ", \"forward_ns\": ");
        syn_sink_double(out, r->predicted_forward_ns);
        syn_sink_text(out, ", \"prefill_ns\": ");
        syn_sink_double(out, r->predicted_prefill_ns);
        syn_sink_text(out, ", \"decode_ns\": ");
        syn_sink_double(out, r->predicted_decode_ns);
        syn_sink_printf(
            out, ", \"fits\": %s, \"limits\": ", too_large(m, rank_bytes) ? "false" : "true");
        limits_json(&r->limits, LIMITS_ALL, r->total.predicted_ns, out);
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, c->n ? "]" : "[]");
}
