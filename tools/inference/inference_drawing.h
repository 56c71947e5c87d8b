/* How the inference program draws tokens, and what ends its texts. */
#ifndef TOOLS_INFERENCE_DRAWING_H
#define TOOLS_INFERENCE_DRAWING_H

#include "ops/ops.h"
#include "tools/inference/inference.h"

/* As the options say, or else the files. */
typedef struct drawing {
    syn_sampling sampling;
    double repetition_penalty;
    syn_text_ending end;
} drawing;
/* Whether one of these options was given. */
bool drawing_asked(const inference_args *args);
/* A sentence where they contradict each other; else NULL. */
const char *drawing_refuses(const inference_args *args);
syn_status drawing_choose(const inference *run, drawing *out, syn_error *err) SYN_MUST_USE;
uint64_t drawing_hash(const drawing *d, uint64_t hash);
/* A line about what generation_config.json chose, if it did. */
void drawing_print(const inference *run, const drawing *d);
/* Members of the JSON object, the last without a comma behind it. */
void drawing_json(const drawing *d, syn_sink *out);

#endif
