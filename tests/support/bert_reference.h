/* BERT written down a second time, from the formulas (Devlin et al. 2019; Vaswani et al. 2017,
   sec. 3) and HuggingFace's names: one sequence, one number after the other, in double. Knows
   nothing of the library's sharding: how a full parameter is cut is written out here as well. */
#ifndef TESTS_BERT_REFERENCE_H
#define TESTS_BERT_REFERENCE_H

#include "models/bert.h"
#include "tests/support/gpt_reference.h"

typedef struct bref_model {
    syn_model_config config;
    ref_model weights; /* its config is unused */
} bref_model;

/* With all heads. */
bref_model bref_new(const syn_model_config *c);

void bref_free(bref_model *m);

void bref_fill(bref_model *m);

double *bref_alloc(int64_t n);

/* tokens and types (T; NULL: all 0), visible (T; NULL: all) -> hidden (T, h), to be freed. */
double *bref_forward(const bref_model *m, const int32_t *tokens, const int32_t *types,
                     const bool *visible, int64_t n_tokens);

/* hidden (h) of the first token -> pooled (h) and logits (2) */
void bref_pool(const bref_model *m, const double *hidden, double *pooled, double *follows);

/* hidden (h) of one token -> logits (V) */
void bref_words(const bref_model *m, const double *hidden, double *logits);

#endif
