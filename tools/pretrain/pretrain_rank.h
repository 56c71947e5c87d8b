/* Internal. The state of one rank of the pretraining program, and its creation. */
#ifndef TOOLS_PRETRAIN_RANK_H
#define TOOLS_PRETRAIN_RANK_H

#include "models/training/trainer.h"
#include "syntorch/mesh.h"
#include "tools/pretrain/pretrain.h"

struct pretrain_worker;

/* Data that the microbatches of a step need. The trainer may still use the data of the previous
   step while the data of the next step is filled in. */
typedef struct pretrain_passes {
    struct pretrain_worker *rank;
    int64_t epoch, first; /* first: index of the step's first microbatch in the epoch */
    float weight;         /* weight of each label in the loss */
    bool empty;           /* there are no labels, so the loss is NaN */
} pretrain_passes;

/* One rank of a run. */
typedef struct pretrain_worker {
    pretrain *run;
    syn_ctx *ctx;
    syn_comm *comm;
    syn_mesh mesh;
    size_t *chunk_params;     /* syn_trainer_options.chunks */
    uint32_t *units;          /* syn_trainer_options.units */
    syn_model **chunks;       /* the chunks of layers that this rank has (syn_plan_chunks) */
    char shared[64];          /* name of the parameter that the first and the last stage share */
    syn_tensor router_losses; /* see syn_router_options; invalid: none */
    syn_trainer *trainer;
    syn_sampler sampler, eval_sampler;
    bool heaviest;        /* for predictions; see syn_router_options */
    int64_t microbatches; /* per step */
    int64_t *which;       /* (batch_size): indices of the samples of a microbatch */
    syn_batch batch;
    int64_t first_step; /* number of the first step of this run */
    /* Data of this step and of the previous one, indexed by the lowest bit of the step number. */
    pretrain_passes passes[2];
    pretrain_metrics metrics[2];
    int64_t noted;     /* number of steps of this run that are logged */
    uint64_t begun_ns; /* when the last step was logged */
    pretrain_state state;
    bool validated; /* a validation had labels, so that there is a best model */
    bool done;      /* stop before the next step */
} pretrain_worker;

/* The number of data-parallel ranks, and the index of this one. The context-parallel ranks that
   share samples count as one. */
static inline int32_t pretrain_dp_size(const pretrain_worker *r) {
    return r->run->launch.parallel.dp;
}
static inline int32_t pretrain_dp_index(const pretrain_worker *r) {
    return r->mesh.index[SYN_AXIS_DP] / r->run->launch.parallel.cp;
}

/* Creates the rank's layers, trainer and buffers in r->ctx, and resumes from a checkpoint with
   --resume. run, comm, mesh, ctx and microbatches must be set. Call pretrain_free_rank also after a
   failure. */
syn_status pretrain_make_rank(pretrain_worker *r, syn_error *err) SYN_MUST_USE;
void pretrain_free_rank(pretrain_worker *r);

#endif
