/* The summary that the inference program prints, and the metadata that it adds to files. */
#include <string.h>

#include "ops/blas.h"
#include "ops/simd.h"
#include "tools/cli_json.h"
#include "tools/inference/footprint.h"
#include "tools/inference/inference.h"
#include "tools/sweep/suggestions.h"

enum { DTYPE_TEXT_BYTES = 48, DEGREES_TEXT_BYTES = 96 };

static const char *attention_name(const inference *run) {
    return run->fused_attention ? "fused" : "unfused";
}

static const char *dtype_text(const inference *run, char text[DTYPE_TEXT_BYTES]) {
    const bool differ = run->weight_dtype != run->dtype;
    snprintf(text, DTYPE_TEXT_BYTES, "%s%s", syn_dtype_name(run->weight_dtype),
             differ ? " weights, f32 arithmetic" : "");
    return text;
}

/* Whether a degree of parallelism has its default, so that the metadata omit it. */
static bool is_usual(const inference *run, const char *name, int64_t degree) {
    static const char *const names[] = {"dp", "pp", "ep"};
    if (strcmp(name, "etp") == 0) return !syn_plan_experts_apart(&run->launch.parallel);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return degree == 1;
    return false;
}

syn_status inference_metadata(void *user, syn_graph *graph, syn_error *err) {
    const inference *run = user;
    const syn_model_config *m = &run->config;
    char cores[64], dtype[DTYPE_TEXT_BYTES];
    const syn_attribute list[] = {
        {.name = "model", .type = SYN_VALUE_TEXT, .text = m->name},
        {.name = "layers", .i64 = m->n_layer},
        {.name = "hidden", .i64 = m->n_embd},
        {.name = "heads", .i64 = m->n_head},
        {.name = "vocabulary", .i64 = m->vocab_size},
        {.name = "parameters", .i64 = run->params},
        {.name = "tp", .i64 = run->args->tp},
        {.name = "dp", .i64 = run->launch.parallel.dp},
        {.name = "pp", .i64 = run->launch.parallel.pp},
        {.name = "ep", .i64 = run->launch.parallel.ep},
        {.name = "etp", .i64 = run->launch.parallel.etp},
        {.name = "dtype", .type = SYN_VALUE_TEXT, .text = dtype_text(run, dtype)},
        {.name = "batch", .i64 = run->batch},
        {.name = "prompt_tokens", .i64 = run->prompt_tokens},
        {.name = "new_tokens", .i64 = run->new_tokens},
        {.name = "attention", .type = SYN_VALUE_TEXT, .text = attention_name(run)},
        {.name = "device", .type = SYN_VALUE_TEXT, .text = run->args->device},
        {.name = "seed", .i64 = run->args->seed},
        {.name = "oversubscribed",
         .type = SYN_VALUE_TEXT,
         .text = launch_shared_cores(&run->launch, cores, sizeof cores)},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].name, "new_tokens") == 0 && run->new_tokens == 0) continue; /* BERT */
        if (is_usual(run, list[i].name, list[i].i64)) continue;
        if (list[i].type != SYN_VALUE_TEXT || list[i].text)
            SYN_TRY(syn_graph_set_meta(graph, &list[i], err));
    }
    return run->launch.hw ? syn_graph_set_hardware(graph, &run->hw, err) : SYN_OK;
}

static uint64_t all_nodes(const inference *run) {
    uint64_t nodes = 0;
    for (int32_t r = 0; r < run->launch.ranks; r++) nodes += run->launch.nodes[r];
    return nodes;
}

/* Prints a note if the model does not fit the memory of the predicted hardware. */
static void print_fit(const inference *run) {
    const sweep_times t = inference_times(run, &run->report, &run->hw);
    char what[80];
    snprintf(what, sizeof what, "%s weights%s and activations", syn_dtype_name(run->weight_dtype),
             run->cache_elems > 0 ? ", KV cache" : "");
    if (run->launch.hw && !sweep_fits(&run->hw, &t))
        suggestions_print_need(&run->hw, &t, what, stdout);
}

/* Prints a note if there are more ranks than key and value heads, so that several ranks store and
   compute the same heads. */
static void print_shared_heads(const inference *run) {
    const syn_model_config *m = &run->config;
    const int ranks = syn_model_kv_ranks(m, (int)run->args->tp);
    if (m->n_kv_head == 0 || m->n_kv_head == m->n_head) return;
    printf("heads:   %lld query heads share %lld key/value heads", (long long)m->n_head,
           (long long)m->n_kv_head);
    if (ranks > 1) printf(", each on %d ranks", ranks);
    putchar('\n');
}

/* The degrees of parallelism after tp that are above 1, and etp where it is not the default. */
static const char *degrees_text(const inference *run, char text[DEGREES_TEXT_BYTES]) {
    const syn_plan *p = &run->launch.parallel;
    const struct {
        const char *name;
        int32_t degree;
    } degrees[] = {{"pp", p->pp}, {"dp", p->dp}, {"ep", p->ep}, {"etp", p->ep > 1 ? p->etp : 1}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (degrees[i].degree > 1)
            used += (size_t)snprintf(text + used, DEGREES_TEXT_BYTES - used, ", %s %d",
                                     degrees[i].name, degrees[i].degree);
    return text;
}

/* Prints model, device and dtype. */
static void print_model(const inference *run) {
    const syn_model_config *m = &run->config;
    char a[64], name[CLI_SHOWN_BYTES], device[256], title[160], dtype[DTYPE_TEXT_BYTES];
    char degrees[DEGREES_TEXT_BYTES];
    printf("model:   %s, %lld layers, hidden %lld, %lld heads, %s parameters, tp %lld%s, "
           "%s attention, %s\n",
           cli_shown(m->name, name, sizeof name), (long long)m->n_layer, (long long)m->n_embd,
           (long long)m->n_head, cli_count_text((double)run->params, a, sizeof a),
           (long long)run->args->tp, degrees_text(run, degrees), attention_name(run),
           dtype_text(run, dtype));
    print_shared_heads(run);
    if (run->weights)
        printf("weights: %s, %s\n", cli_shown(run->args->weights, name, sizeof name),
               syn_dtype_name(run->weight_dtype));
    if (run->launch.device == SYN_DEVICE_META)
        printf("device:  meta: nothing is computed, times are predictions for %s%s\n",
               cli_shown(syn_hardware_title(&run->hw, title, sizeof title), name, sizeof name),
               run->args->hw ? "" : " (the default; --hw chooses)");
    else if (run->launch.device == SYN_DEVICE_CUDA) {
        syn_ctx_describe_device(run->launch.ctx[0], device, sizeof device);
        printf("device:  %s%s\n", device, run->launch.ranks > 1 ? ", one per rank" : "");
    } else
        printf("device:  cpu, %d thread%s per rank, %s, own kernels %s\n", run->launch.threads,
               cli_plural((uint64_t)run->launch.threads), syn_blas_describe(a, sizeof a),
               syn_simd_name(syn_simd_level()));
    if (run->dtype != SYN_F32)
        printf("dtype:   %s: weights, activations, KV cache and collectives\n",
               syn_dtype_name(run->dtype));
    else if (run->weight_dtype != SYN_F32)
        printf("dtype:   %s weights; activations, KV cache and collectives are f32%s\n",
               syn_dtype_name(run->weight_dtype),
               run->args->hw ? ", and times are predicted for f32 arithmetic" : "");
    print_fit(run);
}

/* ---- One pass over all tokens ---- */

static void print_speed(const char *kind, const char *what, int64_t tokens, double ns) {
    char a[64], b[64];
    printf("%s%s: %lld tokens in %s, %s tokens/s\n", kind, what, (long long)tokens,
           cli_time_text(ns, a, sizeof a), cli_count_text((double)tokens * 1e9 / ns, b, sizeof b));
}

void inference_print_pass(const inference *run, const report *r, const char *what, int64_t tokens,
                          double measured_ns) {
    const double ns = r->predicted_forward_ns;
    const run_error e = {0}; /* unknown: no such runs were measured */
    char text[256];
    if (measured_ns > 0) print_speed("", what, tokens, measured_ns);
    if (!(ns > 0)) return;
    print_speed("predicted ", what, tokens, ns);
    printf("limits: %s\n", limits_text(&r->limits, 1u << SYN_PHASE_FORWARD, ns, text, sizeof text));
    printf("prediction error: %s\n", residuals_text(&e, run->launch.hw, text, sizeof text));
}

static void put_speed(const char *kind, const char *key, int64_t tokens, double ns, syn_sink *out) {
    syn_sink_printf(out, ", \"%s%s_ns\": ", kind, key);
    syn_sink_double(out, ns);
    syn_sink_printf(out, ", \"%stokens_per_second\": ", kind);
    syn_sink_double(out, (double)tokens * 1e9 / ns);
}

void inference_json_pass(const report *r, const char *key, int64_t tokens, double measured_ns,
                         syn_sink *out) {
    const double ns = r->predicted_forward_ns;
    if (measured_ns > 0) put_speed("", key, tokens, measured_ns, out);
    if (!(ns > 0)) return;
    put_speed("predicted_", key, tokens, ns, out);
    syn_sink_printf(out, ", \"%s_limits\": ", key);
    limits_json(&r->limits, 1u << SYN_PHASE_FORWARD, ns, out);
}

/* ---- All ---- */

static void print_summary(const inference *run) {
    const report *r = &run->report;
    char title[160], name[CLI_SHOWN_BYTES];
    print_model(run);
    run->task->print(run, r);
    if (run->launch.hw) extrapolation_print(&r->limits.extrapolated, stdout);
    printf("trace:   %llu nodes on %d rank%s\n", (unsigned long long)all_nodes(run),
           run->launch.ranks, cli_plural((uint64_t)run->launch.ranks));
    if (run->launch.device != SYN_DEVICE_META)
        footprint_print(run->launch.ctx[0], r->largest_bytes, stdout);
    printf("\nops of %s, without views",
           run->launch.parallel.pp > 1 && !run->launch.mpi ? "one rank of each stage" : "rank 0");
    if (run->launch.hw)
        printf("; predicted for %s",
               cli_shown(syn_hardware_title(&run->hw, title, sizeof title), name, sizeof name));
    printf(":\n");
    report_print(r, stdout);
    if (run->comparison.n > 0)
        comparison_print(&run->comparison, r->predicted_prefill_ns > 0 ? "all" : "forward", stdout);
}

/* Begins the object that launch_program prints at the end. */
static syn_status put_json(inference *run, syn_error *err) {
    const report *r = &run->report;
    const syn_plan *plan = &run->launch.parallel;
    const sweep_times own = inference_times(run, r, &run->hw);
    SYN_TRY(cli_json_open(&run->launch.json, run->launch.program, err));
    syn_sink *out = run->launch.json;
    cli_json_text(out, "model", run->config.name);
    syn_sink_printf(out,
                    ", \"tp\": %lld, \"pp\": %d, \"dp\": %d, \"ep\": %d, \"device\": \"%s\", "
                    "\"dtype\": \"%s\", "
                    "\"weight_dtype\": \"%s\", \"attention\": \"%s\", \"ranks\": %d, "
                    "\"nodes\": %llu, \"trace_hash\": [",
                    (long long)run->args->tp, plan->pp, plan->dp, plan->ep, run->args->device,
                    syn_dtype_name(run->dtype), syn_dtype_name(run->weight_dtype),
                    attention_name(run), run->launch.ranks, (unsigned long long)all_nodes(run));
    for (int32_t i = 0; i < run->launch.ranks; i++)
        syn_sink_printf(out, "%s\"%016llx\"", i ? ", " : "",
                        (unsigned long long)run->launch.hashes[i]);
    syn_sink_text(out, "], ");
    if (run->launch.hw) {
        syn_sink_text(out, "\"hardware\": ");
        syn_sink_json_string(out, run->hw.name);
        syn_sink_text(out, ", \"stack\": ");
        syn_sink_json_string(out, run->hw.stack.name);
        syn_sink_printf(out, ", \"fits\": %s, \"extrapolations\": ",
                        sweep_fits(&run->hw, &own) ? "true" : "false");
        extrapolation_json(&r->limits.extrapolated, out);
        syn_sink_text(out, ", ");
    }
    run->task->json(run, r, out);
    if (run->launch.device != SYN_DEVICE_META)
        footprint_json(run->launch.ctx[0], r->largest_bytes, out);
    syn_sink_text(out, ", \"ops\": ");
    report_json(r, out);
    if (run->comparison.n > 0) {
        syn_sink_text(out, ", \"compared\": ");
        comparison_json(&run->comparison, false, out);
    }
    return SYN_OK;
}

syn_status inference_print(inference *run, syn_error *err) {
    comparison *c = &run->comparison;
    report_sort(&run->report);
    for (int i = 0; i < c->n; i++)
        c->times[i] = inference_times(run, &run->compared[i], &c->machines[i]);
    if (run->args->debug) report_print_nodes(run->launch.graph, 0, stderr);
    if (run->args->json) return put_json(run, err);
    if (!run->args->quiet) print_summary(run);
    return SYN_OK;
}
