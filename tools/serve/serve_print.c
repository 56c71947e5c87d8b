/* Prints the results of `syntorch serve`, as text and as JSON. */
#include <math.h>

#include <string.h>

#include "tools/cli_json.h"
#include "tools/serve/serve_run.h"

static const char *const limit_names[SYN_LIMIT_COUNT] = {"compute", "memory", "launches",
                                                         "communication"};

static void print_pool(const serve_run *run, int32_t i) {
    const serve_pool_options *o = serve_pool_get(run->sim.pools[i]);
    const serving_limits *l = &run->sim.limits[i];
    char weights[32], cache[32];
    printf("%s%s%d x tp %d", o->role, o->role[0] ? ": " : "", o->layout.dp, o->layout.tp);
    if (o->layout.ep > 1) printf(", ep %d", o->layout.ep);
    printf(": %s of weights and %lld KV blocks (%lld tokens, %s) per rank\n",
           cli_bytes_text(serve_pool_weight_bytes(run->sim.pools[i]), weights, sizeof weights),
           (long long)l->blocks, (long long)(l->blocks * l->block_tokens),
           cli_bytes_text(serve_pool_token_bytes(run->sim.pools[i]) *
                              (double)(l->blocks * l->block_tokens),
                          cache, sizeof cache));
}

static void print_phase(const serve_totals *t, int prompt) {
    char mean[32];
    if (t->steps[prompt] == 0) return;
    printf("  %-22s %8lld %s, mean %s:", prompt ? "with prompt tokens" : "decode only",
           (long long)t->steps[prompt], t->steps[prompt] == 1 ? "step" : "steps",
           cli_time_text(t->busy_ns[prompt] / (double)t->steps[prompt], mean, sizeof mean));
    for (int i = 0; i < SYN_LIMIT_COUNT; i++)
        printf(" %s %.0f %%%s", limit_names[i], 100 * t->time[prompt].parts[i] / t->time[prompt].ns,
               i + 1 < SYN_LIMIT_COUNT ? "," : "\n");
}

static void print_traces(const serve_run *run) {
    char shown[CLI_SHOWN_BYTES], nodes[32], time[32];
    const serve_traces *t = &run->traces;
    if (!run->capture) return;
    printf("traces: %s.*.et, %llu %s on %llu %s, %s nodes, in %s\n",
           cli_shown(serve_given.out, shown, sizeof shown), (unsigned long long)t->steps,
           t->steps == 1 ? "step" : "steps", (unsigned long long)t->ranks,
           t->ranks == 1 ? "rank" : "ranks", cli_count_text((double)t->nodes, nodes, sizeof nodes),
           cli_time_text((double)run->wrote_ns, time, sizeof time));
}

static void print_overload(const serve_rates *r) {
    if (r->overloaded)
        printf("note: the server is overloaded: %.4g requests/s arrive, but only %.3g requests/s "
               "finish while others wait\n",
               r->arriving, r->finishing);
}

/* Errors of the mean TPOT and the mean latency in measured runs of a machine with the stack `vllm`:
   the largest of those in docs/accuracy.md. */
static const struct {
    const char *machine;
    int runs;
    double tpot, latency;
} measured_errors[] = {{"rtxpro6000", 2, 0.006, 0.013}};

/* The index of this machine's errors; -1: no run was measured. */
static int error_of(const syn_hardware *hw) {
    const int n = (int)(sizeof measured_errors / sizeof *measured_errors);
    if (!syn_hardware_serving_calibrated(hw)) return -1;
    for (int i = 0; i < n; i++)
        if (strcmp(measured_errors[i].machine, hw->name) == 0) return i;
    return -1;
}

static void print_error(const syn_hardware *hw) {
    const int i = error_of(hw);
    char title[160], shown[CLI_SHOWN_BYTES];
    cli_shown(syn_hardware_title(hw, title, sizeof title), shown, sizeof shown);
    if (i >= 0)
        printf("prediction error: %.1f %% of the mean TPOT, %.1f %% of the mean latency in %d "
               "measured runs\n",
               100 * measured_errors[i].tpot, 100 * measured_errors[i].latency,
               measured_errors[i].runs);
    else if (syn_hardware_serving_calibrated(hw))
        printf("prediction error: unknown: only kernels were measured on %s\n", shown);
    else printf("prediction error: unknown: %s is not calibrated\n", shown);
}

static void put_error(const syn_hardware *hw, syn_sink *json) {
    const int i = error_of(hw);
    cli_json_bool(json, "calibrated", syn_hardware_serving_calibrated(hw));
    if (i >= 0)
        syn_sink_printf(json, ", \"error\": {\"tpot\": %g, \"latency\": %g}",
                        measured_errors[i].tpot, measured_errors[i].latency);
}

void serve_print(const serve_run *run) {
    char title[160], shown[CLI_SHOWN_BYTES];
    const serve_result *r = &run->result;
    printf("%s in %s on %s; a step has at most %lld sequences and %lld tokens\n", run->config.name,
           syn_dtype_name(run->dtype),
           cli_shown(syn_hardware_title(&run->hw, title, sizeof title), shown, sizeof shown),
           (long long)run->sim.limits[0].max_seqs, (long long)run->sim.limits[0].max_tokens);
    for (int32_t i = 0; i < run->n_pools; i++) print_pool(run, i);
    printf("requests: %lld, %lld prompt tokens, %lld output tokens\n",
           (long long)r->metrics.requests, (long long)r->metrics.prompt_tokens,
           (long long)r->metrics.output_tokens);
    serving_metrics_print(&r->metrics);
    print_error(&run->hw);
    printf("peak: %lld running, %lld waiting, %.1f %% of a cache; preemptions: %lld\n",
           (long long)r->most_running, (long long)r->most_waiting, 100 * r->most_usage,
           (long long)r->preemptions);
    print_overload(&r->rates);
    for (int32_t i = 0; i < run->n_pools; i++) {
        printf("steps%s%s, by what limits their time:\n", run->n_pools > 1 ? " of " : "",
               serve_pool_get(run->sim.pools[i])->role);
        print_phase(&r->totals[i], 1);
        print_phase(&r->totals[i], 0);
    }
    serve_print_summary(run);
    if (requests_cut(run->source) > 0)
        printf("note: %lld of %lld generated requests were cut to the %d positions of the model\n",
               (long long)requests_cut(run->source), (long long)r->metrics.requests,
               serve_given.requests.max_tokens);
    print_traces(run);
}

void serve_json(const serve_run *run, syn_sink *json) {
    const serve_result *r = &run->result;
    cli_json_text(json, "model", run->config.name);
    cli_json_text(json, "hardware", run->hw.name);
    cli_json_text(json, "stack", run->hw.stack.name);
    cli_json_text(json, "dtype", syn_dtype_name(run->dtype));
    cli_json_count(json, "max_num_seqs", (uint64_t)run->sim.limits[0].max_seqs);
    cli_json_count(json, "max_num_batched_tokens", (uint64_t)run->sim.limits[0].max_tokens);
    serving_metrics_json(&r->metrics, json);
    cli_json_count(json, "cut_requests", (uint64_t)requests_cut(run->source));
    cli_json_count(json, "kv_blocks", (uint64_t)run->sim.limits[run->n_pools - 1].blocks);
    cli_json_count(json, "preemptions", (uint64_t)r->preemptions);
    put_error(&run->hw, json);
    cli_json_count(json, "prefix_hit_tokens", (uint64_t)r->hits);
    cli_json_bool(json, "overloaded", r->rates.overloaded);
    cli_json_real(json, "capacity_per_s", r->rates.overloaded ? r->rates.finishing : NAN);
    serve_json_summary(run, json);
    if (!run->capture) return;
    cli_json_count(json, "traced_ranks", run->traces.ranks);
    cli_json_count(json, "traced_steps", run->traces.steps);
    cli_json_count(json, "traced_nodes", run->traces.nodes);
    cli_json_real(json, "traced_ns", run->traces.ns);
}
