/* The parts of the pretraining program: data (pretrain_data.c), one rank's training
   (pretrain_train.c), what it writes (pretrain_outputs.c). */
#ifndef TOOLS_PRETRAIN_H
#define TOOLS_PRETRAIN_H

#include "models/batches.h"
#include "models/model.h"
#include "models/sampler.h"
#include "tools/launch/launch.h"

typedef struct pretrain_args {
    const char *model_name, *model_config, *tokenizer, *data, *eval_data, *cache_dir;
    const char *device, *save_dir, *trace_output_dir, *trace_name;
    int64_t batch_size, num_epochs, max_steps, warmup_steps, accumulation, max_seq_length;
    int64_t save_steps, logging_steps, eval_steps, num_gpus, tp, seed;
    int64_t trace_wait, trace_warmup, trace_active;
    double learning_rate, weight_decay, max_grad_norm, dropout;
    int masking, recompute; /* syn_masking, syn_recompute_what */
    bool skip_eval, enable_tracing, quiet;
} pretrain_args;

/* A line of metrics.csv. */
typedef struct pretrain_metrics {
    int64_t step, epoch; /* step from 1 */
    double loss, learning_rate, grad_norm, tokens_per_s;
} pretrain_metrics;

typedef struct pretrain_log pretrain_log;

typedef struct pretrain {
    pretrain_args *args;
    launch launch;
    syn_model_config config;
    syn_tokenizer *tokenizer;
    char tokenizer_folder[4096];   /* "": of bytes */
    syn_texts *texts, *eval_texts; /* the second NULL: there is no validation */
    syn_batch_how batches;
    int32_t special[8];
    int64_t steps_per_epoch, steps; /* of the optimizer */
    pretrain_log *log;              /* of rank 0 */
    syn_graph **graphs;             /* of ranks without transport, until all have run */
} pretrain;

/* Model, tokenizer, texts, and what follows from them. */
syn_status pretrain_prepare(pretrain *run, syn_error *err) SYN_MUST_USE;
void pretrain_free(pretrain *run);

/* Of all that decides what the ranks do: see launch.plan. */
uint64_t pretrain_plan(void *run);
/* One rank's program, a launch_main. */
syn_status pretrain_rank(syn_comm *comm, void *run, syn_ctx **ctx, syn_error *err) SYN_MUST_USE;

/* ---- what is written ---- */

/* Begins metrics.csv in the folder; lines of steps and what a validation gave are printed, too. */
syn_status pretrain_log_open(pretrain *run, syn_error *err) SYN_MUST_USE;
void pretrain_log_step(pretrain *run, const pretrain_metrics *m);
void pretrain_log_eval(pretrain *run, int64_t step, double loss);
/* Writes loss.svg and closes the file. */
syn_status pretrain_log_close(pretrain *run, syn_error *err) SYN_MUST_USE;

/* The model into <save-dir>/<name>/. Every rank calls it. */
syn_status pretrain_save(pretrain *run, syn_ctx *ctx, syn_comm *comm, const char *name,
                         syn_error *err) SYN_MUST_USE;
/* The rows that this rank's context holds as the trace of a step: every rank calls it; rank 0
   writes the files when it has those of all ranks. */
syn_status pretrain_write_trace(pretrain *run, syn_ctx *ctx, syn_comm *comm, int64_t step,
                                syn_error *err) SYN_MUST_USE;
void pretrain_free_outputs(pretrain *run);

#endif
