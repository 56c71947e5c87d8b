/* The parts of `syntorch serve`: its options, one run, and its files. The simulation itself is in
   serve.h. */
#ifndef TOOLS_SERVE_RUN_H
#define TOOLS_SERVE_RUN_H

#include "tools/cli.h"
#include "tools/serve/serve.h"
#include "tools/serve/serve_traces.h"

typedef struct serve_args {
    request_options requests;
    const char *model, *model_config, *hw, *prefill, *decode, *draft_model, *slo, *out, *trace;
    int64_t layers, tp, dp, ep, max_seqs, max_tokens, max_model_tokens, long_prefill, block_tokens,
        blocks, drafts, timeline_steps, trace_limit;
    double share, device_gib, activation_gib, acceptance;
    int dtype, policy, by_priority, router;
    bool unchunked, sync, uncached, fold, quiet, json;
    cli_texts sweep;
    int64_t gpus; /* 0: any number */
    double slo_percentile;
    bool find_rate, allow_overload;
} serve_args;
extern serve_args serve_given;
extern cli_program serve_cli;

/* Sums over the requests whose times were measured. */
typedef struct serve_mean {
    int64_t n;
    double measured_ns, predicted_ns;
} serve_mean;
typedef struct serve_measured {
    serve_mean ttft, tpot, latency;
} serve_measured;

typedef struct serve_run {
    serve_layout layouts[2];
    int32_t n_pools;
    serving_slo slo;
    bool given_dtype, given_seqs, given_tokens, given_layout; /* as options */
    syn_model_config config, draft_config;
    syn_hardware hw;
    syn_dtype dtype;
    request_source *source;
    serve_simulation sim;
    serve_result result;
    serve_measured measured;
    struct serve_outputs *outputs; /* NULL: no --out */
    serve_trace_choice trace;
    serve_capture *capture; /* NULL: no traces */
    serve_traces traces;
    uint64_t took_ns, wrote_ns; /* wrote_ns: traces */
} serve_run;

/* The whole program; see inference_program. */
int serve_program(int argc, char **argv);
void serve_set_defaults(void);
/* Returns CLI_RUN, or an exit code after a message. */
int serve_read_options(serve_run *run, int argc, char **argv);
/* Set run->layouts from the options, or read one layout: "tp=4,dp=2", in --sweep "tp:4+dp:2".
   Return CLI_RUN, or CLI_USAGE after a message. */
int serve_read_layouts(serve_run *run);
int serve_read_layout(const char *option, const char *text, serve_layout *out);
/* Opens the requests, the model and the pools. */
syn_status serve_open(serve_run *run, syn_error *err) SYN_MUST_USE;
/* Opens the requests again, for another simulation with the same pools. */
syn_status serve_reopen_requests(serve_run *run, syn_error *err) SYN_MUST_USE;
void serve_close(serve_run *run);
/* Ranks of all pools. */
int64_t serve_gpus(const serve_run *run);
/* Prints the results, as text or as members of an object. */
void serve_print(const serve_run *run);
void serve_json(const serve_run *run, syn_sink *json);
/* The parts of the results that concern the replicas and measured times (serve_summary.c). */
void serve_print_summary(const serve_run *run);
void serve_json_summary(const serve_run *run, syn_sink *json);

/* Opens the files of --out and makes the simulation call what observes it (serve_outputs.c). */
syn_status serve_outputs_open(serve_run *run, syn_error *err) SYN_MUST_USE;
/* Completes the files; after a failure, discards them. Returns the first failure. */
syn_status serve_outputs_close(serve_run *run, syn_status status, syn_error *err);
/* Prints the names of the files and notes about them, as text or as members of an object. */
void serve_outputs_print(const serve_run *run);
syn_status serve_outputs_json(const serve_run *run, syn_sink *json, syn_error *err) SYN_MUST_USE;
/* Releases the lock of the files. */
void serve_outputs_free(serve_run *run);

#endif
