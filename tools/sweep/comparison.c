/* Loads the machines of --compare, and prints their times as a table and as JSON. */
#include "tools/sweep/comparison.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/limits.h"

static syn_status alloc(comparison *c, size_t n, syn_error *err) {
    c->machines = syn_calloc(n, sizeof *c->machines);
    c->times = syn_calloc(n, sizeof *c->times);
    return c->machines && c->times
               ? SYN_OK
               : SYN_FAIL_NOMEM(err, n * sizeof *c->machines, "the runs of --compare");
}

static syn_status read_list(comparison *c, const char *list, char *names, const char *stack,
                            syn_error *err) {
    int entry = 1;
    for (char *name = names, *end; name; name = end, entry++) {
        end = strchr(name, ',');
        if (end) *end++ = '\0';
        if (*name == '\0')
            return SYN_FAIL(err, SYN_E_INVALID,
                            "--compare must be MACHINE[+STACK],...; entry %d of '%.200s' is empty",
                            entry, list);
        SYN_TRY(syn_hardware_load(&c->machines[c->n], name, stack, err));
        c->n++;
    }
    return SYN_OK;
}

syn_status comparison_open(comparison *c, const char *list, const syn_hardware *own,
                           const char *stack, int32_t ranks, syn_error *err) {
    size_t n = 2;
    for (const char *p = list; p && *p; p++) n += *p == ',';
    SYN_TRY(alloc(c, n, err));
    c->own = own != NULL;
    if (own) c->machines[c->n++] = *own;
    if (!list) return SYN_OK;
    char *names = syn_strdup(list);
    if (!names) return SYN_FAIL_NOMEM(err, strlen(list), "the runs of --compare");
    const syn_status s = read_list(c, list, names, stack, err);
    syn_free(names);
    for (int i = own != NULL; i < c->n; i++) syn_hardware_set_sharing(&c->machines[i], ranks);
    return s;
}

void comparison_free(comparison *c) {
    syn_free(c->machines);
    syn_free(c->times);
    *c = (comparison){0};
}

static const char *phase_time(double ns, char *buf, size_t bytes) {
    return ns > 0 ? cli_time_text(ns, buf, bytes) : "";
}

static void print_rest(const syn_hardware *hw, const sweep_times *t, bool bubble, FILE *out) {
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) fprintf(out, " %6.0f%%", 100 * t->shares[i]);
    if (bubble) fprintf(out, " %6.0f%%", 100 * t->shares[LIMITS_BUBBLE]);
    fprintf(out, " %6.0f%%", 100 * t->utilisation);
    char off[16];
    fprintf(out, " %s", residuals_short(&t->error, off));
    fprintf(out, "%s\n", sweep_fits(hw, t) ? "" : "  does not fit in memory");
}

void comparison_print(const comparison *c, const char *all, FILE *out) {
    char title[160], name[CLI_SHOWN_BYTES], a[32], b[32];
    const sweep_times *first = c->times;
    const bool phases = first->prefill_ns > 0, bubble = first->shares[LIMITS_BUBBLE] > 0;
    fprintf(out, "\nthe same ops on\n  %-19s", "");
    if (phases) fprintf(out, " %9s %9s", "prefill", "decode");
    fprintf(out, " %9s %8s %8s %7s %7s %7s %7s%s %7s %4s\n", all, "of first", "tokens/s", "compute",
            "memory", "launch", "comm.", bubble ? "  bubble" : "", "of peak", "+-");
    for (int i = 0; i < c->n; i++) {
        const sweep_times *t = &c->times[i];
        syn_hardware_title(&c->machines[i], title, sizeof title);
        fprintf(out, "  %-19s", cli_shown(title, name, sizeof name));
        if (phases)
            fprintf(out, " %9s %9s", phase_time(t->prefill_ns, a, sizeof a),
                    phase_time(t->decode_ns, b, sizeof b));
        fprintf(out, " %9s %8.2f %8s", cli_time_text(t->ns, a, sizeof a), t->ns / first->ns,
                cli_count_text(t->tokens * 1e9 / t->ns, b, sizeof b));
        print_rest(&c->machines[i], t, bubble, out);
    }
    for (int i = c->own; i < c->n; i++) {
        char text[1024];
        if (!*extrapolation_text(&c->times[i].extrapolated, text, sizeof text)) continue;
        syn_hardware_title(&c->machines[i], title, sizeof title);
        fprintf(out, "  extrapolated on %s: %s\n", cli_shown(title, name, sizeof name), text);
    }
}

static void put_number(syn_sink *out, const char *key, double value) {
    syn_sink_printf(out, ", \"%s\": ", key);
    syn_sink_double(out, value);
}

void comparison_json(const comparison *c, bool training, syn_sink *out) {
    for (int i = 0; i < c->n; i++) {
        const sweep_times *t = &c->times[i];
        syn_sink_text(out, i ? ", {\"hardware\": " : "[{\"hardware\": ");
        syn_sink_json_string(out, c->machines[i].name);
        syn_sink_text(out, ", \"stack\": ");
        syn_sink_json_string(out, c->machines[i].stack.name);
        if (training) {
            put_number(out, "step_ns", t->ns);
        } else {
            put_number(out, "forward_ns", t->forward_ns);
            put_number(out, "prefill_ns", t->prefill_ns);
            put_number(out, "decode_ns", t->decode_ns);
        }
        put_number(out, "tokens_per_second", t->tokens * 1e9 / t->ns);
        put_number(out, "predicted_error", t->error.n_rows > 0 ? t->error.error : NAN);
        syn_sink_text(out, ", \"extrapolated\": ");
        syn_sink_json_string(out, t->error.extrapolated);
        syn_sink_text(out, ", \"extrapolations\": ");
        extrapolation_json(&t->extrapolated, out);
        syn_sink_printf(
            out, ", \"fits\": %s, \"limits\": ", sweep_fits(&c->machines[i], t) ? "true" : "false");
        limits_shares_json(t->shares, t->utilisation, out);
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, c->n ? "]" : "[]");
}
