/* Predicts the time of a training step. */
#include "export/export.h"
#include "tools/pretrain/pretrain.h"
#include "tools/sweep/suggestions.h"

/* Predicts the time of one step from a graph of `steps` steps. */
static syn_status time_graph(const syn_hardware *hw, const syn_graph *graph, int64_t steps,
                             sweep_times *out, syn_error *err) {
    const limits l = pretrain_limits(hw, graph);
    SYN_TRY(syn_predicted_duration(&out->ns, graph, err));
    limits_shares(&l, LIMITS_ALL, out->ns, out->shares, &out->utilisation);
    out->beyond = l.beyond;
    out->ns /= (double)steps;
    return SYN_OK;
}

/* Makes the graph of a rank's rows, with predicted instead of measured times. */
static syn_status make_graph(const syn_ctx *ctx, const syn_hardware *hw, syn_graph **out,
                             syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    const bool measured = syn_ctx_has_data(ctx);
    syn_graph *graph;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, measured ? NULL : hw, err));
    const syn_status s = measured ? syn_graph_predict(out, graph, hw, err) : SYN_OK;
    if (!measured) *out = graph;
    else if (s != SYN_OK) syn_graph_free(graph);
    return s;
}

/* Adds the time of `passes` more microbatches to t. Each microbatch takes the difference between
   the times in t and in `fewer`, whose step has one microbatch less. */
static void add_passes(sweep_times *t, const sweep_times *fewer, int64_t passes) {
    const double more = (double)passes, ns = t->ns + more * (t->ns - fewer->ns);
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) {
        const double own = t->shares[i] * t->ns, of_fewer = fewer->shares[i] * fewer->ns;
        t->shares[i] = (own + more * (own - of_fewer)) / ns;
    }
    const double own = t->utilisation * t->ns, of_fewer = fewer->utilisation * fewer->ns;
    t->utilisation = (own + more * (own - of_fewer)) / ns;
    t->ns = ns;
}

syn_status pretrain_predict(const pretrain *run, const syn_ctx *ctx, const syn_hardware *hw,
                            int64_t steps, int64_t passes, sweep_times *out, syn_error *err) {
    const sweep_times fewer = *out;
    syn_graph *graph;
    SYN_TRY(make_graph(ctx, hw, &graph, err));
    const syn_status s = time_graph(hw, graph, steps, out, err);
    syn_graph_free(graph);
    if (s == SYN_OK && passes == PRETRAIN_RECORDED_PASSES && passes < run->args->accumulation)
        add_passes(out, &fewer, run->args->accumulation - passes);
    out->tokens = pretrain_step_tokens(run);
    out->rank_bytes = (double)syn_ctx_peak_bytes(ctx);
    out->ranks = run->launch.ranks;
    out->dtype = run->dtype;
    out->error = pretrain_error(run, hw);
    return s;
}

syn_status pretrain_predict_all(pretrain *run, const syn_ctx *ctx, int64_t steps, int64_t passes,
                                syn_error *err) {
    const comparison *c = &run->predicted;
    for (int i = 0; i < c->n; i++)
        SYN_TRY(pretrain_predict(run, ctx, &c->machines[i], steps, passes, &c->times[i], err));
    return SYN_OK;
}

syn_status pretrain_predict_passes(pretrain *run, const syn_ctx *ctx, int64_t passes,
                                   syn_error *err) {
    if (run->swept) return pretrain_add_swept(run, ctx, passes, err);
    return pretrain_predict_all(run, ctx, 1, passes, err);
}

syn_status pretrain_predict_ranks(pretrain *run, const syn_graph *all, int64_t steps,
                                  syn_error *err) {
    if (run->launch.device != SYN_DEVICE_META)
        return SYN_OK; /* other devices have measured times */
    return time_graph(run->launch.hw, all, steps, run->predicted.times, err);
}

/* ---- Printing ---- */

static void print_own(const pretrain *run) {
    const syn_hardware *hw = &run->hw;
    const sweep_times *t = run->predicted.times;
    const run_error e = pretrain_error(run, hw);
    char a[64], b[64], title[160], on[CLI_SHOWN_BYTES], text[256];
    if (run->measured_ns > 0)
        printf("measured step:  %s, %s tokens/s\n", cli_time_text(run->measured_ns, a, sizeof a),
               cli_count_text(t->tokens * 1e9 / run->measured_ns, b, sizeof b));
    printf("predicted step: %s, %s tokens/s in %s on %s\n", cli_time_text(t->ns, a, sizeof a),
           cli_count_text(t->tokens * 1e9 / t->ns, b, sizeof b), syn_dtype_name(run->dtype),
           cli_shown(syn_hardware_title(hw, title, sizeof title), on, sizeof on));
    printf("limits: %s\n", limits_shares_text(t->shares, t->utilisation, text, sizeof text));
    printf("prediction error: %s\n", residuals_text(&e, hw, text, sizeof text));
    extrapolation_print(&t->beyond, stdout);
    printf("memory: %s per rank\n", cli_bytes_text(t->rank_bytes, a, sizeof a));
    snprintf(text, sizeof text, "%s weights, gradients, optimizer and activations",
             syn_dtype_name(run->dtype));
    if (!sweep_fits(hw, t)) suggestions_print_need(hw, t, text, stdout);
}

static void put_own(const pretrain *run, syn_sink *out) {
    const sweep_times *t = run->predicted.times;
    const run_error e = pretrain_error(run, &run->hw);
    syn_sink_text(out, ", \"hardware\": ");
    syn_sink_json_string(out, run->hw.name);
    syn_sink_text(out, ", \"stack\": ");
    syn_sink_json_string(out, run->hw.stack.name);
    syn_sink_text(out, ", \"predicted_step_ns\": ");
    syn_sink_double(out, t->ns);
    syn_sink_text(out, ", \"predicted_tokens_per_second\": ");
    syn_sink_double(out, t->tokens * 1e9 / t->ns);
    syn_sink_text(out, ", \"step_limits\": ");
    limits_shares_json(t->shares, t->utilisation, out);
    if (e.n_rows > 0) {
        syn_sink_text(out, ", \"predicted_error\": ");
        syn_sink_double(out, e.error);
        syn_sink_text(out, ", \"extrapolated\": ");
        syn_sink_json_string(out, e.beyond);
    }
    syn_sink_text(out, ", \"extrapolations\": ");
    extrapolation_json(&t->beyond, out);
    syn_sink_printf(out, ", \"fits\": %s, \"memory\": {\"peak_bytes\": %.0f}",
                    sweep_fits(&run->hw, t) ? "true" : "false", t->rank_bytes);
}

static syn_status put_json(const pretrain *run, syn_error *err) {
    static const char *const recomputes[] = {[SYN_RECOMPUTE_NONE] = "none",
                                             [SYN_RECOMPUTE_SELECTIVE] = "selective",
                                             [SYN_RECOMPUTE_FULL] = "full"};
    const pretrain_args *a = run->args;
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, "-", err));
    syn_sink_text(out, "{\"model\": ");
    syn_sink_json_string(out, run->config.name);
    syn_sink_printf(out,
                    ", \"tp\": %lld, \"device\": \"%s\", \"dtype\": \"%s\", \"ranks\": %d, "
                    "\"batch_size\": %lld, \"max_seq_length\": %lld, "
                    "\"gradient_accumulation_steps\": %lld, \"activation_recompute\": \"%s\"",
                    (long long)a->tp, a->device, syn_dtype_name(run->dtype), run->launch.ranks,
                    (long long)a->batch_size, (long long)a->max_seq_length,
                    (long long)a->accumulation, recomputes[a->recompute]);
    put_own(run, out);
    if (a->compare) {
        syn_sink_text(out, ", \"compared\": ");
        comparison_json(&run->predicted, true, out);
    }
    syn_sink_text(out, "}\n");
    return syn_sink_close(out, true, err);
}

syn_status pretrain_tell(const pretrain *run, syn_error *err) {
    const comparison *c = &run->predicted;
    if (run->launch.program->mute || c->n == 0 || !(c->times->ns > 0)) return SYN_OK;
    if (run->args->json) return put_json(run, err);
    if (run->args->quiet) return SYN_OK;
    if (run->launch.hw) print_own(run);
    if (run->args->compare) comparison_print(c, "step", stdout);
    return SYN_OK;
}
