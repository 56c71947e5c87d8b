/* The parts of the pretraining program: its options (pretrain_options.c), data (pretrain_data.c),
   one rank's training (pretrain_train.c), what it shows and writes (pretrain_progress.c,
   pretrain_outputs.c, pretrain_curve.c, pretrain_checkpoint.c, pretrain_state.c), traces
   (pretrain_trace.c) and predictions (pretrain_predict.c, pretrain_sweep.c). */
#ifndef TOOLS_PRETRAIN_H
#define TOOLS_PRETRAIN_H

#include "models/model.h"
#include "models/training/batches.h"
#include "models/training/optimizer.h"
#include "models/training/sampler.h"
#include "models/weights/weights.h"
#include "tools/launch/launch.h"
#include "tools/limits.h"
#include "tools/output_lock.h"
#include "tools/progress_line.h"
#include "tools/residuals.h"
#include "tools/sweep/comparison.h"

typedef struct pretrain_args {
    const char *model, *model_config, *weights, *tokenizer, *cache_dir;
    cli_texts data, eval_data, sweep;
    parallel_options parallel;
    const char *device, *hw, *compare, *save_dir, *out_dir, *trace_name;
    int64_t batch_size, num_epochs, max_steps, warmup_steps /* -1: not given */, accumulation,
        max_seq_length;
    int64_t save_steps, logging_steps, eval_steps, num_gpus, tp, seed;
    int64_t save_total_limit; /* 0: none */
    int64_t trace_skip_first, trace_wait, trace_warmup, trace_active, trace_repeat /* 0: no end */;
    double learning_rate, weight_decay, max_grad_norm, dropout /* -1: the model's */;
    int masking;   /* syn_masking; -1: not given */
    int recompute; /* syn_recompute_what */
    int dtype;     /* 0: f32, 1: bf16; -1: not given, see pretrain.dtype */
    int reference; /* 1: what a known PyTorch project does, see docs/training.md */
    bool skip_eval, enable_tracing, visualize_trace, profile_memory, with_stack, resume, quiet,
        json;
} pretrain_args;

/* A line of metrics.csv. */
typedef struct pretrain_metrics {
    int64_t step, epoch; /* step from 1 */
    double loss, learning_rate, grad_norm, tokens_per_s;
} pretrain_metrics;

typedef struct pretrain_log pretrain_log;

/* How far the training is, on a terminal. */
typedef struct pretrain_bar {
    progress_line line; /* out is NULL: there is none */
    uint64_t begun_ns, drawn_ns;
    int64_t first_step; /* of this run */
} pretrain_bar;

/* What could not be saved, and was not later either; name "": nothing. */
typedef struct pretrain_unsaved {
    char name[40];
    const char *folder; /* its own name, static */
} pretrain_unsaved;

typedef struct pretrain {
    pretrain_args *args;
    launch launch;
    syn_hardware hw;
    syn_model_config config;
    syn_dtype dtype;      /* f32 or bf16 */
    syn_weights *weights; /* to begin with; NULL: random */
    syn_tokenizer *tokenizer;
    char tokenizer_folder[4096];   /* "": of bytes */
    char save_dir[96];             /* where none was named */
    syn_texts *texts, *eval_texts; /* the second NULL: there is no validation */
    uint64_t texts_key, eval_key;  /* of these ids; 0: none */
    uint64_t model_sum, data_sum, eval_sum,
        tokenizer_sum; /* of what was read; 0: nothing, or bytes */
    syn_batch_how batches;
    int32_t special[8];
    int64_t n_texts;                 /* to train on; on meta a step's at least */
    int64_t steps_per_epoch, steps;  /* of the optimizer */
    pretrain_log *log;               /* of rank 0 */
    pretrain_bar bar;                /* likewise */
    pretrain_unsaved unsaved[2];     /* likewise: of models, of checkpoints */
    char saved[2][40];               /* likewise, the last of each kind; "": none */
    int64_t unwritten_traces;        /* likewise: so many, */
    int64_t unwritten_step;          /* the first of this step */
    struct pretrain_swept *swept;    /* where times go in place of files; NULL: no sweep */
    bool predicts;                   /* a step is recorded to be predicted, and no files */
    comparison predicted;            /* a step; time 0: none was traced */
    double measured_ns;              /* of the step that was traced last; 0: on meta */
    struct pretrain_window *windows; /* traced so far; of rank 0, without transport of all */
    size_t n_windows, windows_cap;

    output_lock save_lock, trace_lock; /* of the process of rank 0 */
} pretrain;

/* Texts that come with the program, below examples/. */
#define PRETRAIN_DATA      "squad/train.json"
#define PRETRAIN_EVAL_DATA "squad/validation.json"

extern const cli_option pretrain_options[];
pretrain_args *pretrain_arguments(void); /* the options' values */
/* After cli_parse: sets run->args, device and ranks of the launch; refuses what contradicts itself
   and what would do nothing. CLI_RUN: go on; else the exit code, after a message. */
int pretrain_check_options(pretrain *run, int argc, char **argv);

/* Before that: reads --sweep and refuses what contradicts it; without --sweep CLI_RUN. */
int pretrain_check_sweep(const pretrain *run, int argc, char **argv);
/* Runs each combination: `once` checks options, prepares and launches. Prints and writes what came
   of them. */
syn_status pretrain_sweep(pretrain *run, syn_status (*once)(syn_error *err),
                          syn_error *err) SYN_MUST_USE;
/* After a run on meta: runs others, each with one option changed, and prints which make its step
   faster. */
void pretrain_levers(pretrain *run, syn_status (*once)(syn_error *err));
/* For a combination of a sweep: pretrain_predict on each of the sweep's machines. */
syn_status pretrain_add_swept(pretrain *run, const syn_ctx *ctx, int64_t passes,
                              syn_error *err) SYN_MUST_USE;

/* Of a sweep over machines: the one whose dtype a run has that names none; else NULL. */
const syn_hardware *pretrain_deciding_machine(const pretrain *run);

/* Model, tokenizer, texts, and what follows from them. */
syn_status pretrain_prepare(pretrain *run, syn_error *err) SYN_MUST_USE;
void pretrain_free(pretrain *run);

/* Whether the run has dropout anywhere. */
bool pretrain_drops(const pretrain *run);
/* The dropout of the run: "0.1", or, where its rates differ, "0.1 of embeddings, 0 of ...". */
void pretrain_dropout_text(const pretrain *run, char *buf, size_t buf_bytes);
/* Of all that decides what the ranks do: see launch.plan and launch.parts. */
uint64_t pretrain_plan(void *run);
int pretrain_parts(void *run, launch_part parts[LAUNCH_PARTS]);
/* One rank's program, a launch_main. */
syn_status pretrain_rank(syn_comm *comm, void *run, syn_ctx **ctx, syn_error *err) SYN_MUST_USE;

/* ---- what is written ---- */

/* Begins metrics.csv in the folder, or goes on behind step `done` of the one that is there; lines
   of steps and what a validation gave are printed, too. */
syn_status pretrain_log_open(pretrain *run, int64_t done, syn_error *err) SYN_MUST_USE;
/* The last step in the folder's metrics.csv; 0: there is none. */
syn_status pretrain_logged_steps(const pretrain *run, int64_t *steps, syn_error *err) SYN_MUST_USE;
void pretrain_log_step(pretrain *run, const pretrain_metrics *m);
void pretrain_log_eval(pretrain *run, int64_t step, double loss);
/* Writes loss.svg and closes the file. */
syn_status pretrain_log_close(pretrain *run, syn_error *err) SYN_MUST_USE;

typedef struct pretrain_point {
    int64_t step;
    double loss; /* finite */
} pretrain_point;

typedef struct pretrain_curve {
    pretrain_point *at;
    size_t n, cap;
} pretrain_curve;
/* <save-dir>/loss.svg; train has a point at least. */
syn_status pretrain_write_curve(const pretrain *run, const pretrain_curve *train,
                                const pretrain_curve *eval, syn_error *err) SYN_MUST_USE;

/* Begins behind step `done`, if standard output is a terminal. */
void pretrain_bar_begin(pretrain *run, int64_t done);
/* The last step's stays on the screen. */
void pretrain_bar_step(pretrain *run, const pretrain_metrics *m);
/* Before anything else is printed: the bar comes back with the next step. */
void pretrain_bar_clear(pretrain *run);

/* The model as transformers reads it, into a folder. Ranks that hold a part call it. */
syn_status pretrain_save_model(pretrain *run, syn_ctx *ctx, syn_comm *comm, const char *folder,
                               syn_error *err) SYN_MUST_USE;

/* A rank's training after `step` steps. */
typedef struct pretrain_state {
    syn_ctx *ctx;
    syn_comm *comm;
    syn_optimizer *optimizer;
    int32_t shard; /* this rank's among those that share layers */
    int64_t step;
    double best; /* validation loss; infinite: none yet */
} pretrain_state;
/* <save-dir>/<name>/: the model, and what to go on from if it is resumable. The folder gets its
   name when all of it is on the disk. Every rank calls it. */
syn_status pretrain_save(pretrain *run, const pretrain_state *state, const char *name,
                         bool resumable, syn_error *err) SYN_MUST_USE;
/* After a save, of rank 0: name is static unless it is a checkpoint's. */
void pretrain_note_saved(pretrain *run, const char *name, int64_t step, bool resumable, bool saved);
/* After the run: prints where its log, curves and last models are. */
void pretrain_list_saved(const pretrain *run);
/* Behind the last step: fails if the last model or checkpoint, or a trace, could not be saved. */
syn_status pretrain_check_unsaved(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* A shard's file of masters and moments. */
enum { PRETRAIN_TENSORS_NAME = 40 };
const char *pretrain_tensors_name(int32_t shard, char name[PRETRAIN_TENSORS_NAME]);
/* training_state.json of a folder that is complete but for it. It lists checksums of all files:
   sums[i] is that of shard i's tensors, the other files are read. Reading it sets step and best,
   and verifies the files that this rank reads, rank 0 also those that no rank does: SYN_E_FORMAT
   names a damaged one. SYN_E_INVALID lists the options with which the run that wrote it was started
   and this one was not. */
syn_status pretrain_write_state(const pretrain *run, const pretrain_state *state,
                                const char *folder, const uint64_t *sums,
                                syn_error *err) SYN_MUST_USE;
syn_status pretrain_read_state(const pretrain *run, const char *folder, pretrain_state *state,
                               syn_error *err) SYN_MUST_USE;
/* Refuses a folder with checkpoints of an earlier run from which this one does not go on. */
syn_status pretrain_check_saved(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* Refuses to replace what an earlier run of more steps left, unless it was a trial of a few; the
   steps of this one are known. */
syn_status pretrain_check_longer(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* Goes on from the latest checkpoint: sets parameters, moments, step and best; nothing if there is
   none. SYN_E_INVALID: it is of another run. */
syn_status pretrain_resume(pretrain *run, pretrain_state *state, syn_error *err) SYN_MUST_USE;

/* ---- Traces ---- */

/* What the run's nth step, from 0, is to them; last: none follows. */
typedef enum pretrain_tracing {
    PRETRAIN_UNTRACED,
    PRETRAIN_ACTIVE,     /* its rows are of a trace that goes on with the next step */
    PRETRAIN_WINDOW,     /* a trace ends with it */
    PRETRAIN_LAST_WINDOW /* ... and no further one begins */
} pretrain_tracing;
pretrain_tracing pretrain_tracing_of(const pretrain_args *args, int64_t nth, bool last);

/* Makes the folder, tries whether files can be written there, and locks their names. */
syn_status pretrain_check_trace(pretrain *run, syn_error *err) SYN_MUST_USE;
/* The rows that this rank's context holds, of a window that ended with the nth step of the run,
   number `step` of the training: every rank calls it; rank 0 writes the files when it has those of
   all ranks. last: there is no further window. */
syn_status pretrain_write_trace(pretrain *run, syn_ctx *ctx, syn_comm *comm, int64_t nth,
                                int64_t step, bool last, syn_error *err) SYN_MUST_USE;
/* ---- Predictions ---- */

/* Of the first rank's nodes. */
limits pretrain_limits(const syn_hardware *hw, const syn_graph *graph);
double pretrain_step_tokens(const pretrain *run); /* of all ranks */
run_error pretrain_error(const pretrain *run, const syn_hardware *hw);
/* A prediction records at most this many passes of a step. Three have one of each kind: the first
   makes the gradients, the second adds to them, the last adds and sums them over ranks. */
enum { PRETRAIN_RECORDED_PASSES = 3 };
/* Predicts a step of the run on hw from one rank's rows, those of `steps` steps of `passes` passes
   each. If the run's steps have more passes, *out must hold the prediction with one pass less; the
   difference is the time of each missing pass. */
syn_status pretrain_predict(const pretrain *run, const syn_ctx *ctx, const syn_hardware *hw,
                            int64_t steps, int64_t passes, sweep_times *out,
                            syn_error *err) SYN_MUST_USE;
/* The same on each machine of run->predicted. */
syn_status pretrain_predict_all(pretrain *run, const syn_ctx *ctx, int64_t steps, int64_t passes,
                                syn_error *err) SYN_MUST_USE;
/* For a run that is only predicted: one step of `passes` passes is recorded. */
syn_status pretrain_predict_passes(pretrain *run, const syn_ctx *ctx, int64_t passes,
                                   syn_error *err) SYN_MUST_USE;
/* On meta, what all ranks take together on the run's own machine. */
syn_status pretrain_predict_ranks(pretrain *run, const syn_graph *all, int64_t steps,
                                  syn_error *err) SYN_MUST_USE;
/* Prints what was predicted, with --json as an object. */
syn_status pretrain_tell(const pretrain *run, syn_error *err) SYN_MUST_USE;

/* Says so if windows were left out because the run has ended. */
void pretrain_end_trace(const pretrain *run);
void pretrain_free_trace(pretrain *run);

#endif
