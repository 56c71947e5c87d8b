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

/* One rank. The causal model's hidden states of the batch, some texts at a time, and what is wanted
   of them. ids (batch, prompt_tokens), NULL on meta, whose texts stand behind their padding (batch;
   NULL: none). */
syn_status inference_score_texts(inference *run, syn_model *model, const int32_t *ids,
                                 const int32_t *padding, bool progress_shown,
                                 syn_error *err) SYN_MUST_USE;
/* The same of BERT's hidden states (batch, prompt_tokens, C). padding: behind each text. */
syn_status inference_score_hidden(inference *run, syn_model *model, syn_tensor hidden,
                                  const int32_t *padding, syn_error *err) SYN_MUST_USE;

/* Lines of the summary and members of the JSON object: how long it took, what was written. tokens:
   without padding. */
void inference_score_print(const inference *run, const report *r, int64_t tokens);
void inference_score_json(const inference *run, const report *r, syn_sink *out);

#endif
