/* The program `syntorch serve`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/requests/request_generate.h"
#include "tools/serve/serve_sweep.h"

#define GIB 1073741824.0

/* ---- Preparation ---- */

/* The text of a column of the requests' file if it was not given as an option. */
static const char *column(const serve_run *run, const char *name) {
    return requests_value(run->source, name);
}

static int64_t number_of(const serve_run *run, const char *name, int64_t otherwise) {
    const char *text = column(run, name);
    char *end;
    const long long n = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && n > 0 ? n : otherwise;
}

/* A file of a measured run says how the server was started. */
static void take_from_file(serve_run *run) {
    serve_args *a = &serve_given;
    if (!run->given_seqs) a->max_seqs = number_of(run, "max_num_seqs", a->max_seqs);
    if (!run->given_tokens) a->max_tokens = number_of(run, "max_num_batched_tokens", a->max_tokens);
    if (!run->given_layout) {
        serve_layout *l = &run->layouts[0];
        l->tp = (int32_t)number_of(run, "tp", l->tp);
        l->dp = (int32_t)number_of(run, "dp", l->dp);
        /* The column `ep` says whether experts are divided among all ranks, as
           vLLM's --enable-expert-parallel. */
        if (number_of(run, "ep", 0) > 0) l->ep = l->tp * l->dp;
    }
}

/* Tokens of a sequence, at most. */
static int64_t max_tokens(const serve_run *run) {
    const int64_t given = serve_given.max_model_tokens;
    return given > 0 ? given : syn_model_max_tokens(&run->config);
}

static syn_status load_model(serve_run *run, const char *name, syn_error *err) {
    const serve_args *a = &serve_given;
    if (a->model_config) SYN_TRY(syn_model_config_load(&run->config, a->model_config, err));
    else SYN_TRY(syn_model_config_preset(&run->config, name, err));
    if (a->layers > 0) run->config.n_layer = a->layers;
    if (!syn_model_is_causal(&run->config))
        return SYN_FAIL(err, SYN_E_INVALID, "%s generates no text, so it cannot be served",
                        run->config.name);
    return SYN_OK;
}

/* The column `gpu` of a file may have capital letters. */
static syn_status load_machine(serve_run *run, syn_error *err) {
    static const syn_dtype dtypes[] = {SYN_BF16, SYN_F16, SYN_F32};
    const char *gpu = column(run, "gpu");
    char name[64];
    size_t n = 0;
    for (; gpu && gpu[n] && n + 1 < sizeof name; n++)
        name[n] = (char)(gpu[n] >= 'A' && gpu[n] <= 'Z' ? gpu[n] - 'A' + 'a' : gpu[n]);
    name[n] = '\0';
    const char *hw = serve_given.hw ? serve_given.hw : gpu ? name : "h100";
    syn_error why = {0};
    const syn_status s = syn_hardware_load(&run->hw, hw, "vllm", &why);
    if (s != SYN_OK && !serve_given.hw && gpu)
        return SYN_FAIL(err, s, "column gpu of %s: %s; choose a machine with --hw",
                        syn_input_name(serve_given.requests.requests), why.text);
    if (s != SYN_OK) return SYN_FAIL(err, s, "%s", why.text);
    const double *peak = run->hw.peak_flops_per_ns;
    run->dtype = dtypes[serve_given.dtype];
    if (!run->given_dtype && !(peak[SYN_BF16] > 0) && peak[SYN_F16] > 0) run->dtype = SYN_F16;
    return SYN_OK;
}

/* Sets limits that were not given to the defaults of vLLM's API server (version 0.19,
   EngineArgs.get_batch_defaults in vllm/engine/arg_utils.py). */
static syn_status set_limits(const serve_run *run, syn_error *err) {
    serve_args *a = &serve_given;
    const double gib = a->device_gib > 0 ? a->device_gib : run->hw.memory_bytes / GIB;
    const bool large = gib >= 70 && !strstr(run->hw.name, "a100");
    const int64_t longest = max_tokens(run), positions = syn_model_max_tokens(&run->config);
    if (longest > positions)
        return SYN_FAIL(err, SYN_E_INVALID, "--max-model-len %lld exceeds the %lld positions of %s",
                        (long long)longest, (long long)positions, run->config.name);
    if (a->max_tokens == 0) {
        a->max_tokens = large ? 8192 : 2048;
        if (a->unchunked && longest > a->max_tokens) a->max_tokens = longest;
    }
    if (a->max_seqs == 0) a->max_seqs = serving_least(large ? 1024 : 256, a->max_tokens);
    if (a->max_tokens >= a->max_seqs) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--max-num-batched-tokens %lld is less than --max-num-seqs %lld: a step must "
                    "have room for a token of each sequence",
                    (long long)a->max_tokens, (long long)a->max_seqs);
}

/* Opens model, machine and requests. Generated requests must fit the model; the file of a measured
   run may name model and machine. */
static syn_status open_inputs(serve_run *run, syn_error *err) {
    serve_args *a = &serve_given;
    const bool named = a->model || a->model_config;
    const bool at_once = !(a->requests.rate > 0) || isinf(a->requests.rate);
    /* Shorter runs do not show that a rate is too high: the first requests find an empty server. */
    a->requests.generated = !at_once || serve_sweep_varies("rate") ? 10000 : 0;
    if (named) {
        SYN_TRY(load_model(run, a->model, err));
        a->requests.max_tokens = (int32_t)max_tokens(run);
    }
    SYN_TRY(requests_open(&run->source, &a->requests, err));
    if (!named && !column(run, "model"))
        return SYN_FAIL(err, SYN_E_INVALID, "give --model, the model to serve");
    if (!named) SYN_TRY(load_model(run, column(run, "model"), err));
    take_from_file(run);
    SYN_TRY(load_machine(run, err));
    return set_limits(run, err);
}

static serving_limits limits_of(const serve_run *run) {
    const serve_args *a = &serve_given;
    return (serving_limits){.max_seqs = a->max_seqs,
                            .max_tokens = a->max_tokens,
                            .max_model_tokens = max_tokens(run),
                            .block_tokens = a->block_tokens,
                            .long_prefill = a->long_prefill,
                            .chunked = !a->unchunked,
                            .caching = !a->uncached,
                            .by_priority = a->by_priority != 0,
                            .async = !a->sync,
                            .reserve = true,
                            .drafts = (int32_t)a->drafts,
                            .key = serve_block_key};
}

static syn_status open_pool(serve_run *run, int32_t i, syn_error *err) {
    static const char *const roles[] = {"prefill", "decode"};
    const serve_args *a = &serve_given;
    const serve_memory memory = {.share = a->share,
                                 .device_bytes = a->device_gib * GIB,
                                 .activation_bytes =
                                     a->activation_gib < 0 ? -1 : a->activation_gib * GIB};
    const serve_pool_options options = {.config = &run->config,
                                        .hw = &run->hw,
                                        .layout = run->layouts[i],
                                        .dtype = run->dtype,
                                        .block_tokens = a->block_tokens,
                                        .role = run->n_pools == 2 ? roles[i] : ""};
    serving_limits *l = &run->sim.limits[i];
    SYN_TRY(syn_hardware_check_nodes(&run->hw, serve_ranks(&options.layout), err));
    SYN_TRY(serve_pool_new(&run->sim.pools[i], &options, err));
    const bool last = i == run->n_pools - 1;
    *l = limits_of(run);
    l->blocks = a->blocks;
    l->keep = !last;
    if (!last) l->drafts = 0; /* each request gets one token */
    if (l->blocks == 0)
        SYN_TRY(serve_kv_blocks(run->sim.pools[i], last ? run->sim.draft : NULL, &memory, l,
                                &l->blocks, err));
    return SYN_OK;
}

/* The draft model has the layout of the ranks that generate. */
static syn_status open_draft(serve_run *run, syn_error *err) {
    const serve_args *a = &serve_given;
    const serve_layout *l = &run->layouts[run->n_pools - 1];
    const serve_pool_options options = {.config = &run->draft_config,
                                        .hw = &run->hw,
                                        .layout = {.tp = l->tp, .dp = 1, .ep = 1},
                                        .dtype = run->dtype,
                                        .block_tokens = a->block_tokens,
                                        .role = "draft model"};
    if (!a->draft_model) return SYN_OK;
    SYN_TRY(syn_model_config_preset(&run->draft_config, a->draft_model, err));
    if (run->draft_config.vocab_size != run->config.vocab_size)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the draft model %s has a vocabulary of %lld tokens, and %s one of %lld: "
                        "they cannot have the same tokens",
                        a->draft_model, (long long)run->draft_config.vocab_size, run->config.name,
                        (long long)run->config.vocab_size);
    if (syn_model_max_tokens(&run->draft_config) < max_tokens(run))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the draft model %s has %lld positions, and sequences have up to %lld "
                        "tokens: give --max-model-len",
                        a->draft_model, (long long)syn_model_max_tokens(&run->draft_config),
                        (long long)max_tokens(run));
    return serve_pool_new(&run->sim.draft, &options, err);
}

int64_t serve_gpus(const serve_run *run) {
    int64_t n = 0;
    for (int32_t i = 0; i < run->n_pools; i++) n += serve_ranks(&run->layouts[i]);
    return n;
}

/* Prepares the results, and the rate that a simulation must be able to serve. */
static syn_status begin_results(serve_run *run, syn_error *err) {
    const request_options *how = &serve_given.requests;
    const bool open = !serve_given.allow_overload && !isinf(how->rate);
    run->sim.rate = open && request_is_workload(how->requests) ? how->rate : 0;
    run->result = (serve_result){.hits = 0};
    return serving_metrics_new(&run->result.metrics,
                               serve_given.slo ? &run->slo : &serving_default_slo, err);
}

syn_status serve_reopen_requests(serve_run *run, syn_error *err) {
    requests_close(run->source);
    run->source = NULL;
    serving_metrics_free(&run->result.metrics);
    SYN_TRY(requests_open(&run->source, &serve_given.requests, err));
    return begin_results(run, err);
}

syn_status serve_open(serve_run *run, syn_error *err) {
    const serve_args *a = &serve_given;
    serve_simulation *sim = &run->sim;
    SYN_TRY(open_inputs(run, err));
    if (a->gpus > 0 && serve_gpus(run) > a->gpus)
        return SYN_FAIL(err, SYN_E_INVALID, "the layout has %lld GPUs, but --gpus is %lld",
                        (long long)serve_gpus(run), (long long)a->gpus);
    sim->n_pools = run->n_pools;
    sim->requests = syn_input_name(a->requests.requests);
    sim->policy = serving_policy_at((size_t)a->policy);
    sim->router = (serve_router)a->router;
    sim->acceptance = a->acceptance;
    sim->step_ns = run->hw.stack.step_ns;
    sim->sequence_ns = run->hw.stack.sequence_ns;
    sim->seed = (uint64_t)a->requests.seed;
    SYN_TRY(open_draft(run, err));
    for (int32_t i = 0; i < run->n_pools; i++) SYN_TRY(open_pool(run, i, err));
    return begin_results(run, err);
}

void serve_close(serve_run *run) {
    requests_close(run->source);
    serve_pool_free(run->sim.pools[0]);
    serve_pool_free(run->sim.pools[1]);
    serve_pool_free(run->sim.draft);
    serving_metrics_free(&run->result.metrics);
}

/* ---- The program ---- */

static syn_status write_traces(serve_run *run, syn_error *err) {
    const uint64_t begin = syn__clock_ns();
    if (!run->capture) return SYN_OK;
    SYN_TRY(serve_capture_end(run->capture, err));
    SYN_TRY(serve_traces_write(&run->traces, run->capture, &run->sim, serve_given.out,
                               serve_given.fold, err));
    run->wrote_ns = syn__clock_ns() - begin;
    return SYN_OK;
}

static syn_status report(serve_run *run, syn_error *err) {
    syn_sink *json;
    if (!serve_given.json) {
        if (!serve_given.quiet) serve_print(run);
        if (!serve_given.quiet) serve_outputs_print(run);
        return SYN_OK;
    }
    SYN_TRY(cli_json_open(&json, &serve_cli, err));
    serve_json(run, json);
    return cli_json_close(json, serve_outputs_json(run, json, err), err);
}

static syn_status serve(serve_run *run, syn_error *err) {
    if (serve_given.sweep.n > 0) return serve_sweep_run(run, err);
    SYN_TRY(serve_open(run, err));
    if (serve_given.find_rate) return serve_find_rate(run, err);
    if (run->trace.kind != SERVE_TRACE_NONE)
        SYN_TRY(
            serve_capture_new(&run->capture, &run->sim, &run->trace, serve_given.trace_limit, err));
    const uint64_t begin = syn__clock_ns();
    SYN_TRY(serve_outputs_open(run, err));
    syn_status s = serve_simulate(&run->sim, run->source, &run->result, err);
    run->took_ns = syn__clock_ns() - begin;
    if (s == SYN_OK) s = write_traces(run, err);
    SYN_TRY(serve_outputs_close(run, s, err));
    return report(run, err);
}

int serve_program(int argc, char **argv) {
    static serve_run run;
    syn_error err = {0};
    serve_cli.name = argv[0];
    run = (serve_run){.n_pools = 0};
    serve_set_defaults();
    int code = serve_read_options(&run, argc, argv);
    if (code == CLI_RUN) code = cli_done(&serve_cli, serve(&run, &err), &err);
    serve_outputs_free(&run);
    serve_capture_free(run.capture);
    serve_close(&run);
    serve_sweep_free();
    return code;
}
