/* A small GPT or BERT that is trained for a few steps on a mesh of ranks. */
#ifndef TESTS_SMALL_TRAINING_H
#define TESTS_SMALL_TRAINING_H

#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/mesh.h"
#include "tests/support/small_models.h"

/* Texts of all ranks together, and their tokens. */
enum { TRAINED_TEXTS = 4, TRAINED_TOKENS = 8, TRAINING_MOST_RANKS = 24 };

typedef struct small_training {
    const syn_model_config *config; /* small_gpt or small_bert */
    syn_plan shape;
    syn_device device;
    int steps, micro; /* micro: passes before each optimizer step */
    syn_recompute_what recompute;
    syn_dtype dtype; /* f32 or bf16 */
    bool fused;      /* attention is one op */
    bool forget;     /* each step's rows */
    float *losses;   /* NULL, or of each step, rank 0's share of the texts */
    bool keep;       /* the contexts, in ctx, for drop_ranks */
    /* Unless NULL, called before each backward pass and after it, when the last bucket's exchange
       is under way. What it fails in the context ends the run. */
    void (*around_backward)(syn_ctx *ctx, int step, bool after);
    /* of each rank: */
    uint64_t hash[TRAINING_MOST_RANKS];
    size_t peak[TRAINING_MOST_RANKS];
    syn_ctx *ctx[TRAINING_MOST_RANKS];
} small_training;

/* A syn_rank_main; arg: the small_training. */
syn_status small_training_rank(syn_comm *comm, void *arg, syn_error *err);
int small_training_ranks(const small_training *t);
/* Loss of `texts` texts, which differ among ranks. */
syn_tensor small_training_loss(syn_model *m, int64_t texts);
#endif
