/* The results of `syntorch serve` about its replicas, and about times that were measured. */
#include "tools/cli_json.h"
#include "tools/serve/serve_run.h"

/* ---- Pools ---- */

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

typedef struct pool_means {
    double busy;              /* fraction of the time in which a replica computes */
    double sequences, tokens; /* per step */
    int64_t steps;
} pool_means;

static pool_means means_of(const serve_run *run, int32_t pool) {
    const serve_totals *t = &run->result.totals[pool];
    const double replicas = serve_pool_get(run->sim.pools[pool])->layout.dp;
    const int64_t steps = t->steps[0] + t->steps[1];
    return (pool_means){.busy = ratio(t->busy_ns[0] + t->busy_ns[1],
                                      replicas * serving_metrics_duration(&run->result.metrics)),
                        .sequences = ratio((double)t->rows, (double)steps),
                        .tokens = ratio((double)t->tokens, (double)steps),
                        .steps = steps};
}

static void print_pool(const serve_run *run, int32_t pool) {
    const serve_pool_options *o = serve_pool_get(run->sim.pools[pool]);
    const pool_means m = means_of(run, pool);
    printf("%s%seach replica computes %.1f %% of the time; on average, a step has %.4g sequences "
           "and %.4g "
           "tokens\n",
           o->role, o->role[0] ? ": " : "", 100 * m.busy, m.sequences, m.tokens);
}

static const char *const limit_names[SYN_LIMIT_COUNT] = {"compute", "memory", "launches",
                                                         "communication"};

static void json_phase(syn_sink *json, const char *name, const serve_totals *t, int prompt) {
    const serve_time *time = &t->time[prompt];
    if (t->steps[prompt] == 0) return;
    syn_sink_printf(json, ", \"%s\": {\"steps\": %lld, \"mean_ns\": %.0f, \"limits\": {", name,
                    (long long)t->steps[prompt], t->busy_ns[prompt] / (double)t->steps[prompt]);
    for (int i = 0; i < SYN_LIMIT_COUNT; i++)
        syn_sink_printf(json, "%s\"%s\": %.6g", i > 0 ? ", " : "", limit_names[i],
                        ratio(time->parts[i], time->ns));
    syn_sink_text(json, "}}");
}

static void json_pool(const serve_run *run, int32_t pool, syn_sink *json) {
    serve_pool *p = run->sim.pools[pool];
    const serve_pool_options *o = serve_pool_get(p);
    const serve_totals *t = &run->result.totals[pool];
    const pool_means m = means_of(run, pool);
    syn_sink_text(json, pool > 0 ? ", {\"role\": " : "{\"role\": ");
    syn_sink_json_string(json, o->role[0] ? o->role : "all");
    cli_json_count(json, "tp", (uint64_t)o->layout.tp);
    cli_json_count(json, "dp", (uint64_t)o->layout.dp);
    cli_json_count(json, "ep", (uint64_t)o->layout.ep);
    cli_json_real(json, "weight_bytes", serve_pool_weight_bytes(p));
    cli_json_real(json, "kv_token_bytes", serve_pool_token_bytes(p));
    cli_json_count(json, "kv_blocks", (uint64_t)run->sim.limits[pool].blocks);
    cli_json_count(json, "steps", (uint64_t)m.steps);
    cli_json_count(json, "step_tokens", (uint64_t)t->tokens);
    cli_json_real(json, "busy", m.busy);
    cli_json_real(json, "mean_batch", m.sequences);
    cli_json_real(json, "mean_step_tokens", m.tokens);
    json_phase(json, "prompt_steps", t, 1);
    json_phase(json, "decode_steps", t, 0);
    syn_sink_char(json, '}');
}

/* ---- Measured times ---- */

static const char *const measured_names[3] = {"TTFT", "TPOT", "latency"};

static const serve_mean *measured_at(const serve_measured *m, int i) {
    return i == 0 ? &m->ttft : i == 1 ? &m->tpot : &m->latency;
}

static bool any_measured(const serve_measured *m) {
    return m->ttft.n + m->tpot.n + m->latency.n > 0;
}

static void print_measured(const serve_measured *m) {
    if (!any_measured(m)) return;
    printf("means of the requests with measured times:\n  %-8s %11s %11s %11s\n", "", "measured",
           "predicted", "difference");
    for (int i = 0; i < 3; i++) {
        char was[32], is[32];
        const serve_mean *one = measured_at(m, i);
        const double n = (double)one->n;
        if (one->n == 0) continue;
        printf("  %-8s %11s %11s", measured_names[i],
               cli_time_text(one->measured_ns / n, was, sizeof was),
               cli_time_text(one->predicted_ns / n, is, sizeof is));
        if (one->measured_ns > 0)
            printf(" %+9.1f %%", 100 * (one->predicted_ns / one->measured_ns - 1));
        printf("\n");
    }
}

static void json_measured(const serve_measured *m, syn_sink *json) {
    static const char *const names[3] = {"ttft_ns", "tpot_ns", "latency_ns"};
    bool first = true;
    if (!any_measured(m)) return;
    syn_sink_text(json, ", \"measured\": {");
    for (int i = 0; i < 3; i++) {
        const serve_mean *one = measured_at(m, i);
        const double n = (double)one->n;
        if (one->n == 0) continue;
        syn_sink_printf(json, "%s\"%s\": {\"requests\": %lld", first ? "" : ", ", names[i],
                        (long long)one->n);
        cli_json_real(json, "measured_mean", one->measured_ns / n);
        cli_json_real(json, "predicted_mean", one->predicted_ns / n);
        if (one->measured_ns > 0)
            cli_json_real(json, "difference", one->predicted_ns / one->measured_ns - 1);
        syn_sink_char(json, '}');
        first = false;
    }
    syn_sink_char(json, '}');
}

/* ---- All ---- */

void serve_print_summary(const serve_run *run) {
    const serve_result *r = &run->result;
    char bytes[32], time[32];
    for (int32_t i = 0; i < run->n_pools; i++) print_pool(run, i);
    if (r->hits > 0)
        printf("prefix cache: %.1f %% of the prompt tokens were found in it\n",
               100 * ratio((double)r->hits, (double)r->metrics.prompt_tokens));
    if (r->drafted > 0)
        printf("speculative decoding: %lld of %lld draft tokens were accepted (%.1f %%)\n",
               (long long)r->accepted, (long long)r->drafted,
               100 * (double)r->accepted / (double)r->drafted);
    if (run->n_pools == 2)
        printf("KV transfer: %s; requests wait %s for it on average\n",
               cli_bytes_text(r->transferred_bytes, bytes, sizeof bytes),
               cli_time_text(ratio(r->exposed_transfer_ns, (double)r->metrics.requests), time,
                             sizeof time));
    print_measured(&run->measured);
}

void serve_json_summary(const serve_run *run, syn_sink *json) {
    const serve_result *r = &run->result;
    syn_sink_text(json, ", \"pools\": [");
    for (int32_t i = 0; i < run->n_pools; i++) json_pool(run, i, json);
    syn_sink_char(json, ']');
    cli_json_real(json, "prefix_hit_rate",
                  ratio((double)r->hits, (double)r->metrics.prompt_tokens));
    cli_json_count(json, "max_running", (uint64_t)r->most_running);
    cli_json_count(json, "max_waiting", (uint64_t)r->most_waiting);
    cli_json_real(json, "max_cache_usage", r->most_usage);
    if (r->drafted > 0) {
        cli_json_count(json, "draft_tokens", (uint64_t)r->drafted);
        cli_json_count(json, "accepted_draft_tokens", (uint64_t)r->accepted);
    }
    if (run->n_pools == 2) {
        cli_json_real(json, "kv_transfer_bytes", r->transferred_bytes);
        cli_json_real(json, "exposed_kv_transfer_ns", r->exposed_transfer_ns);
    }
    json_measured(&run->measured, json);
}
