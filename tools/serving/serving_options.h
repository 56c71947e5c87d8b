/* The options of the scheduler and its KV cache, which several commands share. Their names are
   those of vLLM. */
#ifndef TOOLS_SERVING_OPTIONS_H
#define TOOLS_SERVING_OPTIONS_H

#include "tools/cli.h"
#include "tools/serving/serving_metrics.h"

#define SERVING_DEFAULT_BLOCK_TOKENS 16 /* of --block-size */

/* seqs_default, tokens_default: end of the description; "": the options have defaults. */
#define SERVING_STEP_OPTIONS(how, seqs_default, tokens_default)                                   \
    {"policy",                                                                                    \
     CLI_CHOICE,                                                                                  \
     &(how).policy,                                                                               \
     "vllm|sglang|static",                                                                        \
     "vllm: continuous batching with chunked prefill; sglang: steps with prompts first; static: " \
     "a batch runs until all its requests have finished",                                         \
     0,                                                                                           \
     0},                                                                                          \
        {"scheduling_policy",                                                                     \
         CLI_CHOICE,                                                                              \
         &(how).by_priority,                                                                      \
         "fcfs|priority",                                                                         \
         "order of waiting requests: first come, first served, or lowest priority number first",  \
         0,                                                                                       \
         0},                                                                                      \
        {"max_num_seqs",                                                                          \
         CLI_INT,                                                                                 \
         &(how).max_seqs,                                                                         \
         "N",                                                                                     \
         "sequences in a step of a replica" seqs_default,                                         \
         1,                                                                                       \
         65536},                                                                                  \
    {                                                                                             \
        "max_num_batched_tokens", CLI_INT, &(how).max_tokens, "N",                                \
            "tokens in a step of a replica" tokens_default, 1, 1e7                                \
    }
#define SERVING_PROMPT_OPTIONS(how)                                                                \
    {"long_prefill_token_threshold",                                                               \
     CLI_INT,                                                                                      \
     &(how).long_prefill,                                                                          \
     "N",                                                                                          \
     "prompt tokens of one request in a step; 0: no limit",                                        \
     0,                                                                                            \
     1e9},                                                                                         \
    {                                                                                              \
        "no_chunked_prefill", CLI_FLAG, &(how).unchunked, NULL, "compute each prompt in one step", \
            0, 0                                                                                   \
    }
#define SERVING_BLOCK_OPTION(how) \
    { "block_size", CLI_INT, &(how).block_tokens, "N", "tokens of a block", 1, 65536 }
#define SERVING_SLO_OPTION(text)                                                                 \
    {                                                                                            \
        "slo", CLI_TEXT, text, "ttft=T,tpot=T",                                                  \
            "limits for goodput, also latency=T: such as 500ms or 2s [ttft=2s,tpot=200ms]", 0, 0 \
    }
#define SERVING_CACHE_OPTIONS(how)                            \
    {"num_gpu_blocks",                                        \
     CLI_INT,                                                 \
     &(how).blocks,                                           \
     "N",                                                     \
     "blocks of a rank's cache; default: from the memory",    \
     2,                                                       \
     2e9},                                                    \
    {                                                         \
        "no_prefix_caching", CLI_FLAG, &(how).uncached, NULL, \
            "do not reuse blocks of equal prefixes", 0, 0     \
    }

/* Reads the value of --slo. Returns CLI_RUN, or CLI_USAGE after a message. */
int serving_read_slo(const cli_program *program, const char *text, serving_slo *out);

#endif
