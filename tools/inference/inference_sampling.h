/* How the inference program samples tokens, and what ends its texts. */
#ifndef TOOLS_INFERENCE_SAMPLING_H
#define TOOLS_INFERENCE_SAMPLING_H

#include "ops/ops.h"
#include "tools/inference/inference.h"

/* As the options say, or else the files. */
typedef struct inference_sampling {
    syn_sampling how;
    double repetition_penalty;
    syn_text_ending end;
} inference_sampling;
/* Whether one of these options was given. */
bool sampling_asked(const inference_args *args);
/* A sentence where they contradict each other; else NULL. */
const char *sampling_refuses(const inference_args *args);
syn_status sampling_choose(const inference *run, inference_sampling *out,
                           syn_error *err) SYN_MUST_USE;
uint64_t sampling_hash(const inference_sampling *s, uint64_t hash);
/* A line about what generation_config.json chose, if it did. */
void sampling_print(const inference *run, const inference_sampling *s);
/* Members of the JSON object, the last without a comma behind it. */
void sampling_json(const inference_sampling *s, syn_sink *out);

#endif
