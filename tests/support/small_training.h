/* Trains a small GPT or BERT for a few steps on a device mesh. Used by tests that need a realistic
   training trace or its hash. */
#ifndef TESTS_SMALL_TRAINING_H
#define TESTS_SMALL_TRAINING_H

#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/mesh.h"
#include "tests/support/small_models.h"

/* Number of samples of all ranks together, tokens per sample, and largest number of ranks. */
enum { TRAINED_TEXTS = 4, TRAINED_TOKENS = 8, TRAINING_MAX_RANKS = 24 };

typedef struct small_training {
    const syn_model_config *config; /* small_gpt or small_bert */
    syn_plan shape;
    syn_device device;
    int steps, micro; /* micro: number of microbatches per optimizer step */
    syn_recompute_mode recompute;
    syn_dtype dtype; /* f32 or bf16 */
    bool fused;      /* use fused attention instead of separate ops */
    bool sp;         /* use sequence parallelism */
    bool forget;     /* forget the rows after each step */
    float *losses;   /* if not NULL: receives the loss of each step over rank 0's samples */
    bool keep;       /* keep the contexts in ctx; free them with drop_ranks */
    /* If not NULL: called before and after each backward pass. After the pass, the all-reduce of
       the last bucket is in flight. If the function makes the context fail, the run fails. */
    void (*around_backward)(syn_ctx *ctx, int step, bool after);
    /* The results of each rank. */
    uint64_t hash[TRAINING_MAX_RANKS];
    size_t peak[TRAINING_MAX_RANKS], parts[TRAINING_MAX_RANKS][SYN_MEMORY_KINDS];
    syn_ctx *ctx[TRAINING_MAX_RANKS];
} small_training;

/* Trains on one rank; a syn_rank_main whose arg points to the small_training. */
syn_status small_training_rank(syn_comm *comm, void *arg, syn_error *err);
int small_training_ranks(const small_training *t);
/* The loss of `texts` samples. The samples differ between ranks. */
syn_tensor small_training_loss(syn_model *m, int64_t texts);
#endif
