/* Full-size models whose weights are the formula of tests/reference/make_full_fixture.py, read
   as checkpoints are, and logits of one position compared with what the fixture knows of them. */
#ifndef TESTS_FULL_FORMULA_H
#define TESTS_FULL_FORMULA_H

#include "syntorch/base/half.h"
#include "syntorch/context.h"
#include "tests/support/bert_fixture.h"
#include "tests/support/gpt_reference.h"

/* The script's numbering and scales. number: -1 for a name it does not have. */
typedef struct full_formula {
    int (*number)(const char *name);
    double (*scale)(const char *name, int rank);
    const char *norm; /* what names of norms' weights hold; those are 1 plus the formula */
} full_formula;

/* Where parameters get such values; the formula outlives it. */
syn_param_source full_source(const full_formula *formula);

/* A run of such a model on some ranks. */
typedef struct full_job {
    int tp, threads; /* threads 0: the default */
    bool fused;
    syn_dtype dtype;
    double worst; /* error of rank 0 */
    int right;    /* tokens of rank 0 that are the fixture's */
} full_job;

/* What a rank does with the model; sets worst and right. */
typedef syn_status full_run(full_job *job, syn_model *model, syn_error *err);

/* A check of TEST_MAIN's cases: on every rank it succeeds, and errors are at most 2e-5 of the
   largest (HuggingFace's own f32: 5e-6). The job is changed on rank 0. */
void full_check(full_job *job, const char *preset, unsigned heads, const full_formula *formula,
                full_run *run);

void full_worse(double *worst, const float *got, const double *want, int64_t n, double largest);

/* All that is known of one position's n logits; the largest error in *worst. */
void full_compare(const bfix_word *w, const float *logits, int64_t n, double *worst);

#endif
