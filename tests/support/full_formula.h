/* Full-size models whose weights are the formula of tests/reference/make_full_fixture.py, read
   as checkpoints are, and logits of one position compared with what the fixture knows of them. */
#ifndef TESTS_FULL_FORMULA_H
#define TESTS_FULL_FORMULA_H

#include "syntorch/context.h"
#include "syntorch/half.h"
#include "tests/support/bert_fixture.h"
#include "tests/support/gpt_reference.h"

/* The script's numbering and scales. number: -1 for a name it does not have. */
typedef struct full_formula {
    int (*number)(const char *name);
    double (*scale)(const char *name, int rank);
    const char *norm; /* what names of norms' weights hold; those are 1 plus the formula */
} full_formula;

/* A syn_param_source's read; user: a full_formula. */
syn_status full_read(void *user, const char *name, const syn_spec *full, syn_shard shard,
                     int64_t valid_rows, const syn_spec *local, void *data, syn_error *err);

void full_worse(double *worst, const float *got, const double *want, int64_t n, double largest);

/* All that is known of one position's n logits; the largest error in *worst. */
void full_compare(const bfix_word *w, const float *logits, int64_t n, double *worst);

#endif
