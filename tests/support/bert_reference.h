/* An independent BERT, computed from the published formulas (Devlin et al. 2019; Vaswani et al.
   2017, sec. 3), with HuggingFace's parameter names. It computes one sequence, one number at a
   time, in double. It has its own definition of how each full parameter is sharded, so it also
   tests the library's sharding. */
#ifndef TESTS_BERT_REFERENCE_H
#define TESTS_BERT_REFERENCE_H

#include "tests/support/gpt_reference.h"

/* A model with all heads, whose parameters have no values yet. */
ref_model bref_new(const syn_model_config *c);

/* The same model, with parameters filled by ref_value. */
ref_model bref_filled(const syn_model_config *c);

double *bref_alloc(int64_t n);

/* tokens (T), types (T; NULL: all 0), visible (T; NULL: all) -> hidden (T, h). The caller frees the
   result. */
double *bref_forward(const ref_model *m, const int32_t *tokens, const int32_t *types,
                     const bool *visible, int64_t n_tokens);

/* hidden (h) of the first token -> pooled (h) and next-sentence logits (2) */
void bref_pool(const ref_model *m, const double *hidden, double *pooled, double *follows);

/* hidden (h) of one token -> word logits (V) */
void bref_words(const ref_model *m, const double *hidden, double *logits);

#endif
