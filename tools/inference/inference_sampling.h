/* Sampling parameters and stop criteria of the inference program. */
#ifndef TOOLS_INFERENCE_SAMPLING_H
#define TOOLS_INFERENCE_SAMPLING_H

#include "ops/ops.h"
#include "tools/inference/inference.h"

/* The values of the options; values that no option sets come from the files next to the weights. */
typedef struct inference_sampling {
    syn_sampling how;
    double repetition_penalty;
    syn_stop_criteria end;
} inference_sampling;
/* Whether any sampling option was given. */
bool sampling_asked(const inference_args *args);
/* Returns an error message if sampling options contradict each other, else NULL. */
const char *sampling_refuses(const inference_args *args);
/* Reads the options and files into *out. */
syn_status sampling_choose(const inference *run, inference_sampling *out,
                           syn_error *err) SYN_MUST_USE;
uint64_t sampling_hash(const inference_sampling *s, uint64_t hash);
/* Prints a line with the values that came from generation_config.json, if any did. */
void sampling_print(const inference *run, const inference_sampling *s);
/* Writes the parameters as members of a JSON object, without a comma at the end. */
void sampling_json(const inference_sampling *s, syn_sink *out);

#endif
