/* A small GPT and a small BERT, models in a context of their own, and text generation on several
   ranks. */
#ifndef TESTS_SMALL_MODELS_H
#define TESTS_SMALL_MODELS_H

#include "models/bert.h"
#include "models/causal.h"
#include "tests/support/ranks.h"

#define ALL_HEADS (SYN_BERT_POOLER | SYN_BERT_MLM | SYN_BERT_NSP)

/* Two layers of width 32 with 8 heads and 24 positions. The MLP has 3 times the width instead of 4
   times. The vocabulary sizes 257 and 131 are not divisible by 2 or 4. BERT has 3 token types. Both
   are named "small". */
extern const syn_model_config small_gpt, small_bert;

/* A model in a new context of one rank. Free it with model_drop. A failure ends the program. */
syn_model *model_alone(syn_device device, const syn_model_config *config,
                       const syn_model_options *how);
/* Frees the model and its context. */
void model_drop(syn_model *model);
/* Frees the model and its context. Returns the first failure of the context with its message in
 *err, or SYN_OK. */
syn_status model_end(syn_model *model, syn_error *err);

/* A job of several ranks that generate text with one model. */
typedef struct generation_job {
    syn_model_config config;
    int tp;
    bool fused;
    uint64_t seed;
    int64_t batch, prompt, new_tokens;
} generation_job;
/* Generates on one rank; a rank_body. Rank 0 also stores the logits. */
syn_status generation_rank(const test_rank *me, void *job, syn_error *err);
#endif
