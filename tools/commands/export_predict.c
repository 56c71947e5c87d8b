/* syntorch export --hw: predicts the times of a graph for another machine and prints a summary. */
#include "tools/commands/export_predict.h"

#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "tools/cli_json.h"
#include "tools/limits.h"
#include "tools/residuals.h"

static const unsigned training =
    1u << SYN_PHASE_BACKWARD | 1u << SYN_PHASE_RECOMPUTE | 1u << SYN_PHASE_OPTIMIZER;

/* Sums over rank 0's nodes, by phase. */
struct sums {
    limits limits;
    double ns[SYN_PHASE_COUNT];
    unsigned phases;           /* bit mask of phases that occur */
    uint32_t steps, last_step; /* number of steps; number of the last decode step */
};

static syn_status sum(const syn_graph *graph, const syn_hardware *hw, struct sums *s,
                      syn_error *err) {
    syn_cursor cursor = {0};
    int64_t step = -1;
    *s = (struct sums){.steps = 0};
    for (uint32_t i = 0; graph->n_ranks > 0 && i < graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(graph, 0, i, &cursor);
        if (!n) {
            *err = cursor.error;
            syn_cursor_free(&cursor);
            return err->code;
        }
        if (hw) limits_add(&s->limits, hw, graph, 0, n);
        if (n->predicted_ns > 0) s->ns[n->phase] += n->predicted_ns;
        s->phases |= 1u << n->phase;
        s->steps += (int64_t)n->step > step;
        if ((int64_t)n->step > step) step = n->step;
        if (n->phase == SYN_PHASE_DECODE) s->last_step = n->step;
    }
    syn_cursor_free(&cursor);
    return SYN_OK;
}

syn_status export_predict(syn_graph **graph, const char *name, syn_hardware *hw, syn_error *err) {
    struct sums s;
    syn_graph *predicted;
    SYN_TRY(sum(*graph, NULL, &s, err));
    SYN_TRY(syn_hardware_load(hw, name, s.phases & training ? "megatron" : "serving", err));
    syn_hardware_set_sharing(hw, (*graph)->world_size);
    SYN_TRY(syn_graph_predict(&predicted, *graph, hw, err));
    *graph = predicted;
    return SYN_OK;
}

/* Returns a number in the run's metadata, which .et files store as text; `other` if it is
   missing. */
static int64_t metadata_number(const syn_graph *graph, const char *name, int64_t other) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    if (!a) return other;
    return a->type == SYN_VALUE_TEXT ? strtoll(a->text, NULL, 10) : a->i64;
}

static void report_rate(double tokens, double ns, FILE *out) {
    char rate[64];
    if (tokens > 0 && ns > 0)
        fprintf(out, ", %s tokens/s", cli_count_text(tokens * 1e9 / ns, rate, sizeof rate));
    fputc('\n', out);
}

static run_error error_of(const syn_graph *graph, const syn_hardware *hw, const struct sums *s) {
    const syn_attribute *dtype = syn_graph_meta(graph, "dtype");
    const bool trains = (s->phases & training) != 0;
    const run_shape shape = {
        .training = trains,
        .wide = !dtype || dtype->type != SYN_VALUE_TEXT || strstr(dtype->text, "f32") != NULL,
        .layers = metadata_number(graph, "layers", 0),
        .hidden = metadata_number(graph, "hidden", 0),
        .tp = metadata_number(graph, "tp", 1),
        .dp = metadata_number(graph, "dp", 1),
        .pp = metadata_number(graph, "pp", 1),
        .batch = metadata_number(graph, "batch", 1),
        .tokens = metadata_number(graph, trains ? "tokens" : "prompt_tokens", 0),
        .new_tokens = metadata_number(graph, "new_tokens", 0)};
    return residuals_near(hw, &shape);
}

static bool generates(const struct sums *s) {
    return (s->phases & (1u << SYN_PHASE_PREFILL | 1u << SYN_PHASE_DECODE)) != 0;
}

/* The number of tokens that decode produces. */
static double decoded_tokens(const syn_graph *graph, const struct sums *s) {
    return (double)metadata_number(graph, "batch", 0) * s->last_step;
}

/* Prints times of prefill and decode. They are sums over rank 0's ops, which run one after
   another. */
static void report_generation(const syn_graph *graph, const struct sums *s, FILE *out) {
    const double prefill = s->ns[SYN_PHASE_PREFILL], decode = s->ns[SYN_PHASE_DECODE];
    char text[256];
    if (prefill > 0)
        fprintf(out, "predicted prefill: %s\n", cli_time_text(prefill, text, sizeof text));
    if (decode > 0) {
        fprintf(out, "predicted decode:  %s", cli_time_text(decode, text, sizeof text));
        report_rate(decoded_tokens(graph, s), decode, out);
    }
    if (prefill > 0)
        fprintf(out, "limits of prefill: %s\n",
                limits_text(&s->limits, 1u << SYN_PHASE_PREFILL, prefill, text, sizeof text));
    if (decode > 0)
        fprintf(out, "limits of decode:  %s\n",
                limits_text(&s->limits, 1u << SYN_PHASE_DECODE, decode, text, sizeof text));
}

/* The time of a training step, or of a trace of another kind, over all ranks together. */
typedef struct step {
    double all_ns, ns; /* of all steps; of one step */
    double tokens;     /* that a step trains on; 0: not training */
    bool trains;
} step;

static syn_status step_of(const syn_graph *graph, const struct sums *s, step *out, syn_error *err) {
    *out = (step){.trains = (s->phases & training) != 0};
    SYN_TRY(syn_predicted_duration(&out->all_ns, graph, err));
    out->ns = out->trains && s->steps > 0 ? out->all_ns / s->steps : out->all_ns;
    if (out->trains)
        out->tokens = (double)metadata_number(graph, "batch", 0) *
                      (double)metadata_number(graph, "accumulation", 1) *
                      (double)metadata_number(graph, "tokens", 0) *
                      (double)metadata_number(graph, "dp", 1);
    return SYN_OK;
}

static syn_status report_steps(const syn_graph *graph, const struct sums *s, FILE *out,
                               syn_error *err) {
    char text[256];
    step one;
    SYN_TRY(step_of(graph, s, &one, err));
    fprintf(out, "predicted%s: %s", one.trains ? " step" : "",
            cli_time_text(one.ns, text, sizeof text));
    report_rate(one.tokens, one.ns, out);
    fprintf(out, "limits: %s\n",
            limits_text(&s->limits, LIMITS_ALL, one.all_ns, text, sizeof text));
    return SYN_OK;
}

syn_status export_report(const syn_graph *graph, const syn_hardware *hw, FILE *out,
                         syn_error *err) {
    char title[160], name[CLI_SHOWN_BYTES];
    struct sums s;
    SYN_TRY(sum(graph, hw, &s, err));
    const syn_attribute *dtype = syn_graph_meta(graph, "dtype");
    fprintf(out, "times are predictions for %s",
            cli_shown(syn_hardware_title(hw, title, sizeof title), name, sizeof name));
    if (dtype && dtype->type == SYN_VALUE_TEXT)
        fprintf(out, " in %s", cli_shown(dtype->text, name, sizeof name));
    fputc('\n', out);
    if (generates(&s)) report_generation(graph, &s, out);
    else SYN_TRY(report_steps(graph, &s, out, err));
    const run_error e = error_of(graph, hw, &s);
    char text[256];
    fprintf(out, "prediction error: %s\n", residuals_text(&e, hw, text, sizeof text));
    extrapolation_print(&s.limits.extrapolated, out);
    return SYN_OK;
}

/* ---- JSON ---- */

static void put_phase(syn_sink *json, const struct sums *s, syn_phase phase, const char *name) {
    if (!(s->ns[phase] > 0)) return;
    syn_sink_printf(json, ", \"predicted_%s_ns\": ", name);
    syn_sink_double(json, s->ns[phase]);
    syn_sink_printf(json, ", \"%s_limits\": ", name);
    limits_json(&s->limits, 1u << phase, s->ns[phase], json);
}

static void put_rate(syn_sink *json, double tokens, double ns) {
    if (tokens > 0 && ns > 0) cli_json_real(json, "predicted_tokens_per_second", tokens * 1e9 / ns);
}

static syn_status put_steps(syn_sink *json, const syn_graph *graph, const struct sums *s,
                            syn_error *err) {
    step one;
    SYN_TRY(step_of(graph, s, &one, err));
    cli_json_real(json, "predicted_step_ns", one.ns);
    put_rate(json, one.tokens, one.ns);
    syn_sink_text(json, ", \"step_limits\": ");
    limits_json(&s->limits, LIMITS_ALL, one.all_ns, json);
    return SYN_OK;
}

syn_status export_report_json(const syn_graph *graph, const syn_hardware *hw, syn_sink *json,
                              syn_error *err) {
    struct sums s;
    SYN_TRY(sum(graph, hw, &s, err));
    cli_json_text(json, "hardware", hw->name);
    cli_json_text(json, "stack", hw->stack.name);
    if (generates(&s)) {
        put_phase(json, &s, SYN_PHASE_PREFILL, "prefill");
        put_phase(json, &s, SYN_PHASE_DECODE, "decode");
        put_rate(json, decoded_tokens(graph, &s), s.ns[SYN_PHASE_DECODE]);
    } else {
        SYN_TRY(put_steps(json, graph, &s, err));
    }
    const run_error e = error_of(graph, hw, &s);
    if (e.n_rows > 0) {
        cli_json_real(json, "predicted_error", e.error);
        cli_json_text(json, "extrapolated", e.extrapolated);
    }
    syn_sink_text(json, ", \"extrapolations\": ");
    extrapolation_json(&s.limits.extrapolated, json);
    return SYN_OK;
}
