/* Checks full-size models: gives them the weights of the formula in
   tests/reference/make_full_fixture.py, through the same interface as a checkpoint, and compares
   the logits of one position with the fixture's. */
#ifndef TESTS_FULL_FORMULA_H
#define TESTS_FULL_FORMULA_H

#include "syntorch/base/half.h"
#include "syntorch/context.h"
#include "tests/support/bert_fixture.h"
#include "tests/support/gpt_reference.h"

/* A parameter's number in the script, and the scales of its formula. number() returns -1 for an
   unknown name. */
typedef struct full_formula {
    int (*number)(const char *name);
    double (*scale)(const char *name, int rank);
    /* A part of the names of norm weights, whose values are 1 plus the formula's. */
    const char *norm;
} full_formula;

/* A source of parameters with these values. *formula must stay valid as long as the source is
   used. */
syn_param_source full_source(const full_formula *formula);

/* A run of a full-size model on one or several ranks. */
typedef struct full_job {
    int tp, threads; /* threads: 0 means the default */
    bool fused;
    syn_dtype dtype;
    double worst; /* largest error of rank 0, relative to the largest logit */
    int right;    /* how many of rank 0's tokens equal the fixture's */
} full_job;

/* Runs the model on a rank and sets job->worst and job->right. */
typedef syn_status full_run(full_job *job, syn_model *model, syn_error *err);

/* A check in a case of TEST_MAIN: every rank must succeed, and errors must be at most 2e-5 relative
   to the largest logit (HuggingFace's own f32 results have an error of 5e-6). Only rank 0 writes to
   the job. */
void full_check(full_job *job, const char *preset, unsigned heads, const full_formula *formula,
                full_run *run);

/* Raises *worst to the largest |got - want| / largest of n elements; to infinity for a NaN. */
void full_worse(double *worst, const float *got, const double *want, int64_t n, double largest);

/* Compares the n logits of one position with the fixture's selected logits, top 10, minimum, sum
   and sum of squares. Raises *worst to the largest error. */
void full_compare(const bfix_word *w, const float *logits, int64_t n, double *worst);

#endif
