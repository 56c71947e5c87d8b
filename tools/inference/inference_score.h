/* Output for every position of the prompts: --logits all and --embeddings. In the files each prompt
   begins at position 0; positions after the end of a shorter prompt are zero. */
#ifndef TOOLS_INFERENCE_SCORE_H
#define TOOLS_INFERENCE_SCORE_H

#include "tools/inference/inference.h"

/* Returns an error message if these options contradict each other or need another option, else
   NULL. */
const char *inference_score_refuses(const inference_args *args);
/* Whether --logits all was given. */
bool inference_all_logits(const inference_args *args);
/* inference_scores: whether the run writes output for every position. inference_only_scores:
   whether this is all that the run does. */
bool inference_scores(const inference_args *args);
bool inference_only_scores(const inference_args *args);
/* Adds these options to the hash of the run's plan (launch.plan). */
uint64_t inference_score_plan(const inference *run, uint64_t hash);

/* The state of scoring a batch on one rank: several prompts at a time, in order. Rank 0 writes the
   files. */
typedef struct inference_scoring {
    inference *run;
    syn_model *model;
    const int32_t *padding; /* (batch): padding tokens after each prompt; NULL: none */
    syn_sink *logits, *hidden;
    int64_t start_ns;
} inference_scoring;

/* Number of prompts per forward pass. */
int64_t inference_texts_at_once(const inference *run);
/* Opens the output files. The caller has set run, model and padding. */
syn_status inference_scoring_begin(inference_scoring *s, syn_error *err) SYN_MUST_USE;
/* Writes the results of n prompts, beginning with prompt `first`, from their hidden states (n,
   prompt_tokens, C). */
syn_status inference_scoring_put(const inference_scoring *s, syn_tensor hidden, int64_t first,
                                 int64_t n, syn_error *err) SYN_MUST_USE;
/* Closes the files. If `came`, the status of the scoring, is SYN_OK, they get their final names;
   otherwise they are discarded, and the function returns `came`. */
syn_status inference_scoring_end(inference_scoring *s, syn_status came,
                                 syn_error *err) SYN_MUST_USE;
/* Releases the tensors created since `from`. If no output needs the rows recorded since then, adds
   the rows to the report and forgets them. */
syn_status inference_end_piece(inference *run, syn_ctx *ctx, syn_mark from,
                               syn_error *err) SYN_MUST_USE;
/* Scores all prompts of a causal model with the functions above. ids is (batch, prompt_tokens),
   with padding before each prompt; NULL on meta. padding is (batch), the number of padding tokens
   before each prompt; NULL: none. */
syn_status inference_score_texts(inference *run, syn_model *model, const int32_t *ids,
                                 const int32_t *padding, bool progress_shown,
                                 syn_error *err) SYN_MUST_USE;

/* Print the scoring time and the written files, as lines of the summary and as members of the JSON
   object. `tokens` excludes padding. */
void inference_score_print(const inference *run, const report *r, int64_t tokens);
void inference_score_json(const inference *run, const report *r, int64_t tokens, syn_sink *out);

#endif
