/* Full-size models with the weights of the formula in tests/reference/make_full_fixture.py, read
   like a checkpoint. Compares the logits of one position with the fixture. */
#ifndef TESTS_FULL_FORMULA_H
#define TESTS_FULL_FORMULA_H

#include "syntorch/base/half.h"
#include "syntorch/context.h"
#include "tests/support/bert_fixture.h"
#include "tests/support/gpt_reference.h"

/* The script's parameter numbers and scales. number returns -1 for an unknown name. */
typedef struct full_formula {
    int (*number)(const char *name);
    double (*scale)(const char *name, int rank);
    const char *norm; /* part of the names of norm weights, which are 1 plus the formula */
} full_formula;

/* A source of parameters with these values. The formula must outlive it. */
syn_param_source full_source(const full_formula *formula);

/* A run of such a model on one or several ranks. */
typedef struct full_job {
    int tp, threads; /* threads 0: the default */
    bool fused;
    syn_dtype dtype;
    double worst; /* largest error of rank 0, relative to the largest logit */
    int right;    /* number of rank 0's tokens that equal the fixture's */
} full_job;

/* Runs the model on a rank; sets worst and right. */
typedef syn_status full_run(full_job *job, syn_model *model, syn_error *err);

/* A check for the cases of TEST_MAIN: every rank must succeed, and errors must be at most 2e-5
   relative to the largest logit (HuggingFace's own f32 has 5e-6). Only rank 0 changes the job. */
void full_check(full_job *job, const char *preset, unsigned heads, const full_formula *formula,
                full_run *run);

/* Raises *worst to the largest |got - want| / largest; infinity for NaN. */
void full_worse(double *worst, const float *got, const double *want, int64_t n, double largest);

/* Compares the n logits of one position with the fixture's selected logits, top 10, minimum, sum
   and sum of squares. Raises *worst to the largest error. */
void full_compare(const bfix_word *w, const float *logits, int64_t n, double *worst);

#endif
