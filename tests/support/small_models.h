/* A small GPT and a small BERT, and models in contexts of their own. */
#ifndef TESTS_SMALL_MODELS_H
#define TESTS_SMALL_MODELS_H

#include "models/bert.h"
#include "models/causal.h"
#include "tests/support/ranks.h"

#define ALL_HEADS (SYN_BERT_POOLER | SYN_BERT_MLM | SYN_BERT_NSP)

/* Two layers of width 32 with 8 heads and 24 positions; an MLP of 3, not 4 widths. 257 words divide
   by neither 2 nor 4, nor do 131; 3 types. Named "small". */
extern const syn_model_config small_gpt, small_bert;

/* A model in a new context without ranks, which ends the program if it cannot be made; to be ended
   with model_drop. */
syn_model *model_alone(syn_device device, const syn_model_config *config,
                       const syn_model_options *how);
/* Frees the model's context as well. */
void model_drop(syn_model *model);
/* The same; the first failure of the context in *err, SYN_OK if there was none. */
syn_status model_end(syn_model *model, syn_error *err);

/* Texts that a model on several ranks generates. */
typedef struct generation_job {
    syn_model_config config;
    int tp;
    bool fused;
    uint64_t seed;
    int64_t batch, prompt, new_tokens;
} generation_job;
/* A rank's part of one, a rank_body; the first gets the logits, too. */
syn_status generation_rank(const test_rank *me, void *job, syn_error *err);
#endif
