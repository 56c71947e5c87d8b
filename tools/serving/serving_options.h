/* The options of the scheduler and its KV cache, which several commands share. Their names and
   defaults are those of vLLM. */
#ifndef TOOLS_SERVING_OPTIONS_H
#define TOOLS_SERVING_OPTIONS_H

#include "tools/cli.h"

/* Defaults of --max-num-seqs, --max-num-batched-tokens and --block-size. */
#define SERVING_DEFAULT_SEQS         128
#define SERVING_DEFAULT_TOKENS       2048
#define SERVING_DEFAULT_BLOCK_TOKENS 16

#define SERVING_STEP_OPTIONS(how)                                                                 \
    {"policy",                                                                                    \
     CLI_CHOICE,                                                                                  \
     &(how).policy,                                                                               \
     "vllm|sglang|static",                                                                        \
     "vllm: continuous batching with chunked prefill; sglang: steps with prompts first; static: " \
     "batches that end together",                                                                 \
     0,                                                                                           \
     0},                                                                                          \
        {"scheduling_policy",                                                                     \
         CLI_CHOICE,                                                                              \
         &(how).by_priority,                                                                      \
         "fcfs|priority",                                                                         \
         "order of waiting requests: first come, first served, or lowest priority number first",  \
         0,                                                                                       \
         0},                                                                                      \
        {"max_num_seqs", CLI_INT, &(how).max_seqs, "N", "sequences in a step of a replica", 1,    \
         65536},                                                                                  \
    {                                                                                             \
        "max_num_batched_tokens", CLI_INT, &(how).max_tokens, "N",                                \
            "tokens in a step of a replica", 1, 1e7                                               \
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

#endif
