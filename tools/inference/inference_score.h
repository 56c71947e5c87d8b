/* Output for every position of the prompts: --logits all and --embeddings. In these files each
   prompt begins at position 0, and positions after a shorter prompt are zero. */
#ifndef TOOLS_INFERENCE_SCORE_H
#define TOOLS_INFERENCE_SCORE_H

#include "tools/inference/inference.h"

/* An error message if these options contradict each other or one is missing, else NULL. */
const char *inference_score_refuses(const inference_args *args);
/* --logits all */
bool inference_all_logits(const inference_args *args);
/* Whether every position is written, and whether nothing else is to be done. */
bool inference_scores(const inference_args *args);
bool inference_only_scores(const inference_args *args);
/* Adds these options to the hash of the plan (launch.plan). */
uint64_t inference_score_plan(const inference *run, uint64_t hash);

/* Scores a batch on one rank, several prompts at a time, in order. Rank 0 writes the files. */
typedef struct inference_scoring {
    inference *run;
    syn_model *model;
    const int32_t *padding; /* (batch): padding tokens after each prompt; NULL: none */
    syn_sink *logits, *hidden;
    int64_t start_ns;
} inference_scoring;

/* Number of prompts per forward pass. */
int64_t inference_texts_at_once(const inference *run);
/* Opens the files that the options ask for. The caller has set run, model and padding. */
syn_status inference_scoring_begin(inference_scoring *s, syn_error *err) SYN_MUST_USE;
/* Writes the results of n prompts, beginning with prompt `first`, from their hidden states (n,
   prompt_tokens, C). */
syn_status inference_scoring_put(const inference_scoring *s, syn_tensor hidden, int64_t first,
                                 int64_t n, syn_error *err) SYN_MUST_USE;
/* Closes the files, which appear under their names if `came` is SYN_OK; else discards them and
   returns `came`. */
syn_status inference_scoring_end(inference_scoring *s, syn_status came,
                                 syn_error *err) SYN_MUST_USE;
/* Releases the tensors created since `from`. If no output needs the recorded rows, adds them to the
   report and forgets them. */
syn_status inference_end_piece(inference *run, syn_ctx *ctx, syn_mark from,
                               syn_error *err) SYN_MUST_USE;
/* All of the above for a causal model. ids is (batch, prompt_tokens), with padding before each
   prompt, and NULL on meta. padding has the number of padding tokens of each prompt (batch); NULL:
   none. */
syn_status inference_score_texts(inference *run, syn_model *model, const int32_t *ids,
                                 const int32_t *padding, bool progress_shown,
                                 syn_error *err) SYN_MUST_USE;

/* Time taken and files written, as lines of the summary and as members of the JSON object. `tokens`
   excludes padding. */
void inference_score_print(const inference *run, const report *r, int64_t tokens);
void inference_score_json(const inference *run, const report *r, int64_t tokens, syn_sink *out);

#endif
