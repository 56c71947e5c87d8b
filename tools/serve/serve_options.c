/* Options of `syntorch serve`, and what follows from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/launch/launch.h"
#include "tools/requests/requests_options.h"
#include "tools/serve/serve_sweep.h"
#include "tools/serving/serving_options.h"

serve_args serve_given;

static const char *const examples[] = {
    "syntorch serve --model llama-3-8b --requests sharegpt-like --rate 4 --duration 60 --hw h100",
    "syntorch serve --model qwen3-30b-a3b --dp 2 --ep 2 --requests requests.csv --hw h100 --out "
    "run/serve",
    "syntorch serve --model llama-3-70b --prefill tp=4 --decode tp=8 --requests sharegpt-like "
    "--rate 4 --duration 60 --hw h200 --out run/split",
    NULL};

static const cli_option options[] = {
    CLI_GROUP("Model"),
    {"model", CLI_TEXT, &serve_given.model, "NAME",
     "preset: llama-3-8b, qwen3-30b-a3b, ...; `syntorch help models` lists all", 0, 0},
    {"model_config", CLI_TEXT, &serve_given.model_config, "FILE", "HuggingFace config.json", 0, 0},
    {"layers", CLI_INT, &serve_given.layers, "N", "number of layers; default: the model's own", 1,
     100000},
    {"dtype", CLI_CHOICE, &serve_given.dtype, "bf16|f16|f32",
     "dtype of weights, activations and KV cache [bf16; f16 on GPUs without bf16]", 0, 0},
    CLI_GROUP("Machine and layout"),
    {"hw", CLI_TEXT, &serve_given.hw, "MACHINE[+STACK]", LAUNCH_MACHINES " [h100+vllm]", 0, 0},
    {"tp", CLI_INT, &serve_given.tp, "N", "tensor-parallel ranks of a replica", 1, 65536},
    {"dp", CLI_INT, &serve_given.dp, "N", "replicas", 1, 65536},
    {"ep", CLI_INT, &serve_given.ep, "N",
     "ranks that share the experts of a layer; replicas that share experts run their steps "
     "together",
     1, 65536},
    {"prefill", CLI_TEXT, &serve_given.prefill, "tp=N,dp=N,ep=N",
     "ranks that only compute prompts (disaggregated serving); needs --decode", 0, 0},
    {"decode", CLI_TEXT, &serve_given.decode, "tp=N,dp=N,ep=N",
     "ranks that generate the tokens after the first one; needs --prefill", 0, 0},
    CLI_GROUP("Requests"),
    REQUESTS_OPTION(serve_given.requests),
    REQUEST_OPTIONS(serve_given.requests, "10,000 (with --rate inf: 1000)"),
    {"seed", CLI_INT, &serve_given.requests.seed, "N",
     "seed of generated requests and accepted drafts", 0, 1e18},
    CLI_GROUP("Scheduler (names and defaults as in vLLM)"),
    SERVING_STEP_OPTIONS(serve_given,
                         "; default: 1024, or 256 on A100s and machines with less than 70 GiB",
                         "; default: 8192, or 2048 on A100s and machines with less than 70 GiB; "
                         "with --no-chunked-prefill at least --max-model-len"),
    {"max_model_len", CLI_INT, &serve_given.max_model_tokens, "N",
     "tokens of a sequence, prompt and output; default: the model's positions", 2, 1e9},
    SERVING_PROMPT_OPTIONS(serve_given),
    {"no_async_scheduling", CLI_FLAG, &serve_given.sync, NULL,
     "schedule a step only when the previous one has finished", 0, 0},
    {"router", CLI_CHOICE, &serve_given.router, "least|round-robin",
     "replica of a new request: the one with the lowest 4 x waiting + running requests, or one "
     "after the other",
     0, 0},
    CLI_GROUP("KV cache"),
    SERVING_BLOCK_OPTION(serve_given),
    {"gpu_memory_utilization", CLI_REAL, &serve_given.share, "F",
     "share of the device's memory for weights, activations and cache", 0.001, 1},
    {"device_memory", CLI_REAL, &serve_given.device_gib, "GIB",
     "memory of a device; default: the machine's", 0.001, 1e6},
    {"activation_memory", CLI_REAL, &serve_given.activation_gib, "GIB",
     "memory for activations, as vLLM profiles it; default: predicted", 0, 1e6},
    SERVING_CACHE_OPTIONS(serve_given),
    CLI_GROUP("Speculative decoding"),
    {"num_speculative_tokens", CLI_INT, &serve_given.drafts, "N",
     "draft tokens of each sequence and step; 0: none", 0, 64},
    {"acceptance_rate", CLI_REAL, &serve_given.acceptance, "P",
     "probability that a draft token is accepted if those before it are", 0, 1},
    {"draft_model", CLI_TEXT, &serve_given.draft_model, "NAME",
     "preset of the model that proposes the drafts; default: proposing takes no time (n-grams)", 0,
     0},
    CLI_GROUP("Choosing a layout and a rate"),
    {"sweep", CLI_TEXTS, &serve_given.sweep, "KEY=VALUE,...",
     "compare all combinations of options: tp=1,2 hw=h100,h200; layouts such as "
     "prefill=tp:2+dp:2",
     0, 0},
    {"gpus", CLI_INT, &serve_given.gpus, "N", "refuse layouts with more GPUs", 1, 1e7},
    {"find_rate", CLI_FLAG, &serve_given.find_rate, NULL,
     "find the highest rate at which the limits of --slo hold", 0, 0},
    {"slo_percentile", CLI_REAL, &serve_given.slo_percentile, "P",
     "--sweep, --find-rate: percentile of the times that must meet --slo", 1, 100},
    {"allow_overload", CLI_FLAG, &serve_given.allow_overload, NULL,
     "run even if requests arrive faster than the server finishes them", 0, 0},
    CLI_GROUP("Output"),
    SERVING_SLO_OPTION(&serve_given.slo),
    {"out", CLI_TEXT, &serve_given.out, "PREFIX",
     "write PREFIX.requests.csv, PREFIX.series.csv, PREFIX.svg, PREFIX.batch.svg, "
     "PREFIX.timeline.json and a trace set",
     0, 0},
    {"timeline_steps", CLI_INT, &serve_given.timeline_steps, "N",
     "steps in PREFIX.timeline.json at most", 1, 1e9},
    {"trace", CLI_TEXT, &serve_given.trace, "STEPS",
     "steps in the trace set: none, fullest (of each replica, the largest with and without prompt "
     "tokens), steps:A-B (numbers of a replica's steps), time:S-E (seconds) or all",
     0, 0},
    {"fold", CLI_FLAG, &serve_given.fold, NULL,
     "trace set: one node for all computation between two communications", 0, 0},
    {"trace_limit", CLI_INT, &serve_given.trace_limit, "N",
     "steps in the trace set, at most; default: 200, with --fold 5,000", 1, 1e6},
    {"quiet", CLI_FLAG, &serve_given.quiet, NULL, "print only errors", 0, 0},
    CLI_JSON(&serve_given.json),
    CLI_END};

cli_program serve_cli = {
    "syntorch serve",
    "Simulates an LLM server: predicts latencies and throughput for given requests, and writes "
    "traces of its steps.",
    options, examples, false};

void serve_set_defaults(void) {
    serve_given = (serve_args){.tp = 1,
                               .dp = 1,
                               .ep = 1,
                               .block_tokens = SERVING_DEFAULT_BLOCK_TOKENS,
                               .share = 0.9,
                               .activation_gib = -1,
                               .timeline_steps = 20000,
                               .slo_percentile = 90,
                               .acceptance = 0.7,
                               .trace = "fullest"};
}

/* ---- Checks ---- */

/* Reads "tp=4,dp=2", or "tp:4+dp:2" as in --sweep. Returns CLI_RUN or CLI_USAGE. */
int serve_read_layout(const char *option, const char *text, serve_layout *out) {
    static const char *const names[] = {"tp", "dp", "ep"};
    int32_t *const values[] = {&out->tp, &out->dp, &out->ep};
    bool given[3] = {false};
    *out = (serve_layout){1, 1, 1};
    do {
        size_t i = 0;
        while (i < 3 && (strncmp(text, names[i], 2) != 0 || (text[2] != '=' && text[2] != ':')))
            i++;
        char *end = NULL;
        const long n = i < 3 ? strtol(text + 3, &end, 10) : 0;
        if (i == 3 || given[i] || end == text + 3 || n < 1 || n > 65536 || !strchr(",+", *end))
            return cli_fail(&serve_cli, CLI_USAGE, "--%s must be like tp=4,dp=2, not '%s'", option,
                            text);
        *values[i] = (int32_t)n;
        given[i] = true;
        text = *end ? end + 1 : end;
    } while (*text);
    return CLI_RUN;
}

int serve_read_layouts(serve_run *run) {
    const serve_args *a = &serve_given;
    if (!a->prefill != !a->decode)
        return cli_fail(&serve_cli, CLI_USAGE, "--%s needs --%s", a->prefill ? "prefill" : "decode",
                        a->prefill ? "decode" : "prefill");
    run->n_pools = a->prefill ? 2 : 1;
    run->layouts[0] = (serve_layout){(int32_t)a->tp, (int32_t)a->dp, (int32_t)a->ep};
    if (!a->prefill) return CLI_RUN;
    const int code = serve_read_layout("prefill", a->prefill, &run->layouts[0]);
    return code == CLI_RUN ? serve_read_layout("decode", a->decode, &run->layouts[1]) : code;
}

static int read_trace(serve_run *run) {
    const serve_args *a = &serve_given;
    if (!serve_trace_read(&run->trace, a->trace))
        return cli_fail(&serve_cli, CLI_USAGE,
                        "--trace must be fullest, none, all, or a range such as steps:0-9 "
                        "(whole numbers) or time:10-12.5 (seconds), not '%s'",
                        a->trace);
    if (a->trace_limit == 0) serve_given.trace_limit = a->fold ? 5000 : 200;
    if (!a->out) run->trace.kind = SERVE_TRACE_NONE;
    return CLI_RUN;
}

int serve_read_options(serve_run *run, int argc, char **argv) {
    const serve_args *a = &serve_given;
    int code = cli_parse(&serve_cli, argc, argv);
    if (code != CLI_RUN) return code;
    if (a->json) serve_given.quiet = true;
    code = serve_sweep_check(argc, argv);
    if (code != CLI_RUN) return code;
    const cli_rule rules[] = {
        REQUEST_OPTIONS_RULE(a->requests),
        {a->prefill != NULL || a->decode != NULL,
         {"tp", "dp", "ep"},
         "has no effect with --prefill and --decode, which have their own layouts; omit it"},
        {a->drafts == 0 && !serve_sweep_varies("num_speculative_tokens"),
         {"acceptance_rate", "draft_model"},
         "has no effect without --num-speculative-tokens; give that, too, or omit it"},
        {a->blocks > 0,
         {"gpu_memory_utilization", "device_memory", "activation_memory"},
         "has no effect with --num-gpu-blocks; omit it"},
        {a->out == NULL,
         {"timeline_steps", "trace", "fold", "trace_limit"},
         "has no effect without --out; give that, too, or omit it"},
        {strcmp(a->trace, "none") == 0,
         {"fold", "trace_limit"},
         "has no effect with --trace none; omit it"},
        {a->policy == 2,
         {"long_prefill_token_threshold"},
         "has no effect with --policy static; omit it"},
        {a->unchunked,
         {"long_prefill_token_threshold"},
         "has no effect with --no-chunked-prefill; omit it"},
    };
    code = cli_check_rules(&serve_cli, argc, argv, rules, sizeof rules / sizeof *rules);
    if (code == CLI_RUN && !a->requests.requests)
        code = cli_fail(&serve_cli, CLI_USAGE,
                        "give --requests, a file or a workload such as sharegpt-like");
    if (code == CLI_RUN && a->model && a->model_config)
        code = cli_fail(&serve_cli, CLI_USAGE, "--model and --model-config exclude each other");
    if (code == CLI_RUN) code = serve_read_layouts(run);
    if (code == CLI_RUN && a->slo) code = serving_read_slo(&serve_cli, a->slo, &run->slo);
    if (code == CLI_RUN) code = read_trace(run);
    run->given_dtype = cli_was_given(&serve_cli, argc, argv, "dtype");
    run->given_seqs = cli_was_given(&serve_cli, argc, argv, "max_num_seqs");
    run->given_tokens = cli_was_given(&serve_cli, argc, argv, "max_num_batched_tokens");
    run->given_layout = a->prefill || cli_was_given(&serve_cli, argc, argv, "tp") ||
                        cli_was_given(&serve_cli, argc, argv, "dp") ||
                        cli_was_given(&serve_cli, argc, argv, "ep");
    return code;
}
