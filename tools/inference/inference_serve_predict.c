/* Predicts served requests with the simulator of `syntorch serve`, and prints what was served
   beside the prediction; see inference_serve.h. */
#include <stdio.h>

#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/inference/inference_serve.h"
#include "tools/inference/inference_text.h"
#include "tools/serve/serve.h"

/* ---- Prediction ---- */

/* The requests with the output that they got. Their blocks say which prefixes were equal. */
static void list_requests(const serving_work *work, request *list) {
    const int64_t size = work->limits.block_tokens;
    for (int64_t i = 0; i < work->n; i++) {
        const served_request *r = &work->requests[i];
        const int64_t blocks = r->q.prompt / size;
        if (blocks > 0) (void)inference_serve_key(&r->q, blocks - 1, size);
        list[i] = (request){.arrival_ns = r->q.arrival_ns,
                            .prompt = r->q.prompt,
                            .output = r->made,
                            .priority = r->q.priority,
                            .block_tokens = (int32_t)size,
                            .n_blocks = (int32_t)blocks,
                            .blocks = r->keys,
                            .line = r->line};
    }
}

static syn_status simulate(inference *run, serve_pool *pool, const request *list, syn_error *err) {
    serving_work *work = inference_serving_of(run);
    served_totals *out = &work->predicted;
    serve_simulation sim = {.pools = {pool},
                            .n_pools = 1,
                            .limits = {work->limits},
                            .requests = "the requests",
                            .policy = work->policy};
    serve_result result = {.metrics = out->metrics};
    request_source *source;
    sim.limits[0].key = serve_block_key;
    SYN_TRY(requests_open_list(&source, list, work->n, err));
    const syn_status s = serve_simulate(&sim, source, &result, err);
    requests_close(source);
    *out = (served_totals){.metrics = result.metrics,
                           .preemptions = result.preemptions,
                           .hits = result.hits,
                           .most_running = result.most_running,
                           .most_waiting = result.most_waiting,
                           .most_usage = result.most_usage};
    for (int i = 0; i < 2; i++) {
        out->steps[i] = result.totals[0].steps[i];
        out->busy_ns[i] = result.totals[0].busy_ns[i];
    }
    return s;
}

syn_status inference_serve_predict(inference *run, syn_error *err) {
    serving_work *work = inference_serving_of(run);
    const syn_plan *plan = &run->launch.parallel;
    const serve_pool_options how = {.config = &run->config,
                                    .hw = &run->hw,
                                    .layout = {plan->tp, 1, plan->ep},
                                    .dtype = run->weight_dtype,
                                    .f32_activations = run->dtype == SYN_F32,
                                    .samples = true,
                                    .block_tokens = work->limits.block_tokens,
                                    .role = ""};
    serve_pool *pool = NULL;
    if (!run->launch.hw) return SYN_OK;
    request *list = syn_calloc((size_t)work->n, sizeof *list);
    if (!list) return SYN_FAIL_NOMEM(err, (size_t)work->n * sizeof *list, "the served requests");
    list_requests(work, list);
    syn_status s = serve_pool_new(&pool, &how, err);
    if (s == SYN_OK) s = simulate(run, pool, list, err);
    serve_pool_free(pool);
    syn_free(list);
    return s;
}

/* ---- Text ---- */

static void print_steps(const served_totals *t) {
    static const char *const names[] = {"decode only", "with prompt tokens"};
    char mean[32];
    for (int i = 1; i >= 0; i--)
        if (t->steps[i] > 0)
            printf("  %-22s %8lld steps, mean %s\n", names[i], (long long)t->steps[i],
                   cli_time_text(t->busy_ns[i] / (double)t->steps[i], mean, sizeof mean));
}

/* Prints a predicted time and by how many per cent it differs from the measured one. */
static void print_difference(double predicted, double measured) {
    char text[32], difference[32] = "";
    if (measured > 0)
        snprintf(difference, sizeof difference, "(%+.1f %%)", 100 * (predicted / measured - 1));
    printf(" %10s %9s", cli_time_text(predicted, text, sizeof text), difference);
}

static void print_predicted(const inference *run, const served_totals *p, const served_totals *m) {
    const struct {
        const char *name;
        const serving_times *predicted, *measured;
    } rows[] = {{"TTFT", &p->metrics.ttft, &m->metrics.ttft},
                {"TPOT", &p->metrics.tpot, &m->metrics.tpot},
                {"latency", &p->metrics.latency, &m->metrics.latency}};
    printf("predicted, and difference from the measured times:\n");
    printf("  %-8s %20s %20s %20s %20s\n", "", "mean", "p50", "p90", "p99");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf("  %-8s", rows[i].name);
        print_difference(serving_times_mean(rows[i].predicted),
                         serving_times_mean(rows[i].measured));
        for (double q = 0.5; q > 0; q = q < 0.9 ? 0.9 : q < 0.99 ? 0.99 : 0)
            print_difference(serving_times_percentile(rows[i].predicted, q),
                             serving_times_percentile(rows[i].measured, q));
        putchar('\n');
    }
    print_steps(p);
    if (run->hw.alone.ranks == 0)
        printf("note: the constants of %s were not measured on this machine; `syntorch calibrate "
               "--measure --output FILE` measures them for --hw FILE\n",
               run->hw.name);
}

static void print_texts(const inference *run) {
    const serving_work *work = inference_serving_of(run);
    char what[40];
    for (int64_t i = 0; i < work->n; i++) {
        const served_request *r = &work->requests[i];
        const int32_t *made = r->tokens + r->q.prompt;
        const bool stopped = syn_is_stop_token(&work->sampling.end, made[r->made - 1]);
        snprintf(what, sizeof what, "text %lld: ", (long long)i);
        inference_print_text(run, what, made, r->made - stopped, true);
    }
}

void inference_serve_print(const inference *run, const report *r) {
    const serving_work *work = inference_serving_of(run);
    const served_totals *m = &work->measured;
    (void)r;
    if (run->args->prompts || run->args->prompt_ids) print_texts(run);
    printf("served:  %lld requests, %lld prompt tokens, %lld output tokens; policy %s, %lld KV "
           "blocks of %lld tokens\n",
           (long long)m->metrics.requests, (long long)m->metrics.prompt_tokens,
           (long long)m->metrics.output_tokens, work->policy->name, (long long)work->limits.blocks,
           (long long)work->limits.block_tokens);
    serving_metrics_print(&m->metrics);
    printf("peak: %lld running, %lld waiting, %.1f %% of the cache; preemptions: %lld; prompt "
           "tokens found in the cache: %lld\n",
           (long long)m->most_running, (long long)m->most_waiting, 100 * m->most_usage,
           (long long)m->preemptions, (long long)m->hits);
    print_steps(m);
    if (run->launch.hw) print_predicted(run, &work->predicted, m);
    if (work->cut > 0)
        printf("note: %lld of %lld generated requests were cut to the %lld positions of the "
               "model\n",
               (long long)work->cut, (long long)work->n, (long long)work->limits.max_model_tokens);
}

/* ---- Files ---- */

static void json_totals(const inference *run, const served_totals *t, syn_sink *out) {
    const serving_work *work = inference_serving_of(run);
    syn_sink_printf(out, "{\"policy\": \"%s\"", work->policy->name);
    serving_metrics_json(&t->metrics, out);
    cli_json_count(out, "cut_requests", (uint64_t)work->cut);
    cli_json_count(out, "kv_blocks", (uint64_t)work->limits.blocks);
    cli_json_count(out, "preemptions", (uint64_t)t->preemptions);
    cli_json_count(out, "prefix_hit_tokens", (uint64_t)t->hits);
    cli_json_count(out, "prompt_steps", (uint64_t)t->steps[1]);
    cli_json_count(out, "decode_steps", (uint64_t)t->steps[0]);
}

void inference_serve_json(const inference *run, const report *r, syn_sink *out) {
    const serving_work *work = inference_serving_of(run);
    (void)r;
    sampling_json(&work->sampling, out);
    syn_sink_text(out, ", \"serving\": ");
    json_totals(run, &work->measured, out);
    if (run->launch.hw) {
        syn_sink_text(out, ", \"predicted\": ");
        json_totals(run, &work->predicted, out);
        syn_sink_char(out, '}');
    }
    syn_sink_text(out, "}, \"tokens\": [");
    for (int64_t i = 0; i < work->n; i++) {
        const served_request *one = &work->requests[i];
        syn_sink_text(out, i ? ", [" : "[");
        for (int32_t k = 0; k < one->made; k++)
            syn_sink_printf(out, "%s%d", k ? ", " : "", one->tokens[one->q.prompt + k]);
        syn_sink_char(out, ']');
    }
    syn_sink_char(out, ']');
}

/* The ids of the prompt's blocks, separated by spaces. An id has 53 bits, as a double can have. */
static void write_blocks(const served_request *r, int64_t block_tokens, syn_sink *out) {
    const int64_t n = r->shares ? r->q.prompt / block_tokens : 0;
    for (int64_t i = 0; i < n; i++)
        syn_sink_printf(out, "%s%llu", i ? " " : "",
                        (unsigned long long)inference_serve_key(&r->q, i, block_tokens) >> 11);
    if (n > 0) syn_sink_printf(out, ",%lld,", (long long)block_tokens);
    else syn_sink_text(out, ",,");
}

static void write_rows(const serving_work *work, syn_sink *out) {
    syn_sink_text(out, "arrival_s,input_tokens,output_tokens,priority,first_token_s,last_token_s,"
                       "preemptions,prefix_hit_tokens,hash_ids,hash_block_tokens,tokens\n");
    for (int64_t i = 0; i < work->n; i++) {
        const served_request *r = &work->requests[i];
        syn_sink_printf(out, "%.9f,%d,%d,%d,%.9f,%.9f,%d,%d,", 1e-9 * r->q.arrival_ns, r->q.prompt,
                        r->made, r->q.priority, 1e-9 * r->first_ns, 1e-9 * r->last_ns,
                        r->q.preemptions, r->q.hits);
        write_blocks(r, work->limits.block_tokens, out);
        for (int32_t k = 0; k < r->made; k++)
            syn_sink_printf(out, "%s%d", k ? " " : "", r->tokens[r->q.prompt + k]);
        syn_sink_char(out, '\n');
    }
}

syn_status inference_serve_save(inference *run, syn_error *err) {
    syn_sink *out;
    if (!run->args->serving.listed) return SYN_OK;
    SYN_TRY(folder_path(run->requests_file, err, run->args->out_dir, "requests.csv"));
    SYN_TRY(syn_sink_open_file(&out, run->requests_file, err));
    write_rows(inference_serving_of(run), out);
    return syn_sink_close(out, true, err);
}
