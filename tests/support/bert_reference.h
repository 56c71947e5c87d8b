/* An independent BERT, from the formulas (Devlin et al. 2019; Vaswani et al. 2017, sec. 3) and
   HuggingFace's names. Computes one sequence, one number at a time, in double. Does not use the
   library's sharding: it defines how each full parameter is sharded. */
#ifndef TESTS_BERT_REFERENCE_H
#define TESTS_BERT_REFERENCE_H

#include "tests/support/gpt_reference.h"

/* A model with all heads, without values. */
ref_model bref_new(const syn_model_config *c);

/* The same with parameters filled with ref_value. */
ref_model bref_filled(const syn_model_config *c);

double *bref_alloc(int64_t n);

/* tokens (T), types (T; NULL: all 0), visible (T; NULL: all) -> hidden (T, h), to be freed. */
double *bref_forward(const ref_model *m, const int32_t *tokens, const int32_t *types,
                     const bool *visible, int64_t n_tokens);

/* hidden (h) of the first token -> pooled (h) and next-sentence logits (2) */
void bref_pool(const ref_model *m, const double *hidden, double *pooled, double *follows);

/* hidden (h) of one token -> word logits (V) */
void bref_words(const ref_model *m, const double *hidden, double *logits);

#endif
