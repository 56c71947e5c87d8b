/* GPT-2 written down a second time, from the formulas (Radford et al. 2019; Vaswani et al. 2017,
   sec. 3): one sequence, every position, one number after the other, in double. Knows nothing of
   the library's sharding: how a full parameter is cut among ranks is written out here as well. */
#ifndef TESTS_GPT_REFERENCE_H
#define TESTS_GPT_REFERENCE_H

#include "models/causal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which part of (rows, columns) a rank holds. */
typedef enum ref_cut {
    REF_WHOLE,
    REF_ROWS,    /* rows r n/k .. (r+1) n/k */
    REF_COLUMNS, /* columns likewise */
    REF_QKV,     /* columns likewise of each third */
    REF_VOCAB    /* rows likewise, after rounding up to a multiple of k with rows of zeros */
} ref_cut;

/* A full parameter under its name in HuggingFace's checkpoints; vectors have one row. */
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

/* Values that Python repeats with integers (tests/reference/make_gpt2_fixture.py): element i of
   parameter number p is a hash of both, in -1024 .. 1024, times a power of two; weights of norms
   are 1 plus that. */
float ref_value(int p, int64_t i, double scale);

bool ref_ends(const char *name, const char *end);

/* Its parameters filled with such values. */
ref_model ref_filled(const syn_model_config *c);
/* Fills it with the random weights that a model with these heads makes for itself. */
void ref_from_model(ref_model *m, unsigned heads, uint64_t seed);
/* The root of the mean of its squares. */
double ref_deviation(const ref_param *p);

/* Shard `rank` of tp, to be freed. */
float *ref_shard(const ref_param *p, int rank, int tp, size_t *bytes);

/* Writes this rank's shards over a model's parameters, narrowed to what those are of. */
syn_status ref_load(const ref_model *m, syn_ctx *ctx, int rank, int tp);

/* Whether a model's parameters are this rank's shards, to the bit, and no others. */
bool ref_is_held(const ref_model *m, syn_ctx *ctx, int rank, int tp);

/* out = normalised x */
void ref_norm(const double *x, const float *weight, const float *bias, int64_t n, double eps,
              double *out);

double ref_gelu(double x, bool tanh_form);

/* tokens (T) -> logits (T, V), to be freed. */
double *ref_forward(const ref_model *m, const int32_t *tokens, int64_t n_tokens);

/* Largest difference relative to the largest reference value; not a number if a value is none. */
double ref_error(const float *got, const double *want, int64_t n);

int32_t ref_argmax(const double *x, int64_t n);

#endif
