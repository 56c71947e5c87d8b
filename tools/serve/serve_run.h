/* The parts of `syntorch serve`: its options, one run, and its files. The simulation itself is in
   serve.h. */
#ifndef TOOLS_SERVE_RUN_H
#define TOOLS_SERVE_RUN_H

#include "tools/cli.h"
#include "tools/serve/serve.h"

typedef struct serve_args {
    request_options requests;
    const char *model, *model_config, *hw, *prefill, *decode, *draft_model, *slo, *out;
    int64_t layers, tp, dp, ep, max_seqs, max_tokens, max_model_tokens, long_prefill, block_tokens,
        blocks, drafts;
    double share, device_gib, activation_gib, acceptance;
    int dtype, policy, by_priority, router;
    bool unchunked, sync, uncached, quiet, json;
} serve_args;
extern serve_args serve_given;
extern cli_program serve_cli;

typedef struct serve_run {
    serve_layout layouts[2];
    int32_t n_pools;
    serving_slo slo;
    bool given_seqs, given_tokens, given_layout; /* as options */
    syn_model_config config, draft_config;
    syn_hardware hw;
    syn_dtype dtype;
    request_source *source;
    serve_simulation sim;
    serve_result result;
    uint64_t took_ns;
} serve_run;

/* The whole program; see inference_program. */
int serve_program(int argc, char **argv);
void serve_set_defaults(void);
/* Returns CLI_RUN, or an exit code after a message. */
int serve_read_options(serve_run *run, int argc, char **argv);
/* Prints the results, as text or as members of an object. */
void serve_print(const serve_run *run);
void serve_json(const serve_run *run, syn_sink *json);

#endif
