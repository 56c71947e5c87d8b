/* What the inference program writes of every position of the prompts: --logits all and
   --embeddings. Texts begin at position 0; behind a shorter one stand zeros. */
#ifndef TOOLS_INFERENCE_SCORE_H
#define TOOLS_INFERENCE_SCORE_H

#include "tools/inference/inference.h"

/* A sentence where options of scores contradict each other or miss one; else NULL. */
const char *inference_score_refuses(const inference_args *args);
bool inference_all_logits(const inference_args *args);
/* Whether every position is to be written, and whether that is all that is to be done. */
bool inference_scores(const inference_args *args);
bool inference_only_scores(const inference_args *args);
uint64_t inference_score_plan(const inference *run, uint64_t hash);

/* What one rank makes of the batch, some texts at a time, from the first to the last; files are
   rank 0's. */
typedef struct inference_scoring {
    inference *run;
    syn_model *model;
    const int32_t *padding; /* (batch): tokens behind each text; NULL: none */
    syn_sink *logits, *hidden;
    int64_t start_ns;
} inference_scoring;

/* How many texts go through the model at once. */
int64_t inference_texts_at_once(const inference *run);
/* Opens the files that are wanted; the members before them are set. */
syn_status inference_scoring_begin(inference_scoring *s, syn_error *err) SYN_MUST_USE;
/* The hidden states (n, prompt_tokens, C) of n texts, `first` on. */
syn_status inference_scoring_put(const inference_scoring *s, syn_tensor hidden, int64_t first,
                                 int64_t n, syn_error *err) SYN_MUST_USE;
/* The files take their places, unless what came of it is a failure, which is returned. */
syn_status inference_scoring_end(inference_scoring *s, syn_status came,
                                 syn_error *err) SYN_MUST_USE;
/* Gives back what was made since `from`; rows that nothing will be written from are counted and
   forgotten. */
syn_status inference_end_piece(inference *run, syn_ctx *ctx, syn_mark from,
                               syn_error *err) SYN_MUST_USE;
/* All of that of a causal model's texts. ids (batch, prompt_tokens), NULL on meta, in which texts
   stand behind their padding (batch; NULL: none). */
syn_status inference_score_texts(inference *run, syn_model *model, const int32_t *ids,
                                 const int32_t *padding, bool progress_shown,
                                 syn_error *err) SYN_MUST_USE;

/* Lines of the summary and members of the JSON object: how long it took, what was written. tokens:
   without padding. */
void inference_score_print(const inference *run, const report *r, int64_t tokens);
void inference_score_json(const inference *run, const report *r, int64_t tokens, syn_sink *out);

#endif
