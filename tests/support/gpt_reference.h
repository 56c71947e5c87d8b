/* An independent GPT-2, computed from the published formulas (Radford et al. 2019; Vaswani et al.
   2017, sec. 3). It computes every position of one sequence, one number at a time, in double. It
   has its own definition of how each full parameter is sharded over ranks, so it also tests the
   library's sharding. */
#ifndef TESTS_GPT_REFERENCE_H
#define TESTS_GPT_REFERENCE_H

#include "models/causal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a parameter of shape (rows, columns) is sharded over k ranks. In the comments below, n is the
   size of the sharded dimension and r the rank. */
typedef enum ref_cut {
    REF_WHOLE,
    REF_ROWS,    /* rows r n/k .. (r+1) n/k */
    REF_COLUMNS, /* the same for columns */
    REF_QKV,     /* the same for the columns of each third */
    REF_VOCAB    /* the same for rows, padded with zero rows to a multiple of k */
} ref_cut;

/* A full parameter, with its name in HuggingFace's checkpoints. A vector is stored as one row. */
typedef struct ref_param {
    char name[64];
    int64_t rows, columns;
    ref_cut cut;
    float *data;
} ref_param;

#define REF_MAX_PARAMS 128
typedef struct ref_model {
    syn_model_config config;
    ref_param params[REF_MAX_PARAMS];
    int n_params;
} ref_model;

void ref_add(ref_model *m, const char *name, int64_t rows, int64_t columns, ref_cut cut);

ref_model ref_new(const syn_model_config *c);

void ref_free(ref_model *m);

const float *ref_data(const ref_model *m, const char *name);

/* Element i of parameter number p: a hash of both numbers, in -1024 .. 1024, times a power of two.
   A norm weight is 1 plus this value. tests/reference/make_gpt2_fixture.py computes the same values
   with integers. */
float ref_value(int p, int64_t i, double scale);

bool ref_ends(const char *name, const char *end);

/* A model whose parameters are filled with ref_value. */
ref_model ref_filled(const syn_model_config *c);
/* Fills the model with the random weights that a library model with these heads and this seed
   gets. */
void ref_from_model(ref_model *m, unsigned heads, uint64_t seed);
/* The root mean square of the parameter's elements. */
double ref_deviation(const ref_param *p);

/* The elements of shard `rank` of tp shards. The caller frees them. */
float *ref_shard(const ref_param *p, int rank, int tp, size_t *bytes);

/* Overwrites the parameters of a model in ctx with this rank's shards, rounded to the parameters'
   dtypes. */
syn_status ref_load(const ref_model *m, syn_ctx *ctx, int rank, int tp);

/* Whether the parameters in ctx equal this rank's shards bit for bit. */
bool ref_is_held(const ref_model *m, syn_ctx *ctx, int rank, int tp);

/* out is the layer norm of x. */
void ref_norm(const double *x, const float *weight, const float *bias, int64_t n, double eps,
              double *out);

double ref_gelu(double x, bool tanh_form);

/* tokens (T) -> logits (T, V). The caller frees the result. */
double *ref_forward(const ref_model *m, const int32_t *tokens, int64_t n_tokens);

/* The largest difference, relative to the largest reference value; NaN if a value is NaN. */
double ref_error(const float *got, const double *want, int64_t n);

int32_t ref_argmax(const double *x, int64_t n);

#endif
