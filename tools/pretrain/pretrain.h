/* The pretraining program: options (pretrain_options.c), data (pretrain_data.c), pipeline stages
   (pretrain_division.c), one rank (pretrain_rank.c) and its training (pretrain_train.c), progress,
   metrics and checkpoints (pretrain_progress.c, pretrain_outputs.c, pretrain_curve.c,
   pretrain_checkpoint.c, pretrain_tensors.c, pretrain_state.c), traces (pretrain_trace.c) and
   predictions (pretrain_predict.c, pretrain_sweep.c). The program is in
   pretrain_program.c. */
#ifndef TOOLS_PRETRAIN_H
#define TOOLS_PRETRAIN_H

#include "export/stamp.h"
#include "models/model.h"
#include "models/training/batches.h"
#include "models/training/optimizer.h"
#include "models/training/pipeline.h"
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
    syn_layer_division division;
    const char *device, *hw, *compare, *save_dir, *out_dir, *trace_name;
    const char *out, *ranks;  /* synth: prefix of the trace set; which ranks, NULL: all */
    int64_t vocab_multiple;   /* synth: see syn_model_options; 0: 1 */
    int64_t layers;           /* synth: number of layers; 0: the model's own */
    int64_t dp, global_batch; /* 0: not given; num_gpus and accumulation have their values */
    int64_t batch_size, num_epochs, max_steps, warmup_steps /* -1 if not given */, accumulation,
        max_seq_length;
    int64_t save_steps, logging_steps, eval_steps, num_gpus, tp, seed;
    int64_t save_total_limit; /* 0: no limit */
    int64_t trace_skip_first, trace_wait, trace_warmup, trace_active,
        trace_repeat /* 0: until training ends */;
    double learning_rate, weight_decay, max_grad_norm, dropout /* -1: the model's rate */;
    double aux_coefficient /* -1: as the model's configuration says */, z_coefficient, bias_rate;
    double capacity;     /* see syn_router_options */
    const char *routing; /* the loads of experts on meta; NULL: balanced */
    int dispatcher;      /* syn_dispatcher */
    bool dispatch_fp8, overlap_a2a;
    int masking;      /* syn_masking; -1 if not given */
    int buckets;      /* syn_bucket_rule; -1: not given */
    int reduce_dtype; /* 0: f32, 1: bf16 */
    int recompute;    /* syn_recompute_mode */
    int loss;         /* 0: fused, 1: unfused */
    int dtype;        /* 0: f32, 1: bf16, -1: not given; see pretrain.dtype */
    int reference;    /* 1: --recipe reference, see docs/training.md */
    bool dry_run;     /* synth */
    bool fp8;         /* predict the products of layers in FP8 */
    bool sp_keep, no_reshard, skip_eval, enable_tracing, visualize_trace, profile_memory,
        with_stack, resume, quiet, json;
} pretrain_args;

/* A row of metrics.csv. */
typedef struct pretrain_metrics {
    int64_t step, epoch; /* steps count from 1 */
    double loss, learning_rate, grad_norm, tokens_per_s;
} pretrain_metrics;

typedef struct pretrain_log pretrain_log;

/* State of the progress bar on a terminal. */
typedef struct pretrain_bar {
    progress_line line;          /* line.out NULL: no bar */
    uint64_t begun_ns, drawn_ns; /* time of the start and of the last drawing */
    int64_t first_step;          /* number of the first step of this run */
} pretrain_bar;

/* The last model or checkpoint if it could not be saved. name "": the last one was saved. */
typedef struct pretrain_unsaved {
    char name[40];
    const char *folder; /* folder that contains it; a static string */
} pretrain_unsaved;

typedef struct pretrain {
    pretrain_args *args;
    launch launch;
    syn_hardware hw;
    syn_model_config config;
    syn_dtype dtype;      /* compute dtype: f32 or bf16 */
    syn_weights *weights; /* initial weights; NULL: random weights */
    syn_tokenizer *tokenizer;
    char tokenizer_folder[4096];   /* folder of the tokenizer; "": the byte tokenizer */
    char save_dir[96];             /* buffer for the default of --save-dir */
    syn_texts *texts, *eval_texts; /* samples for training and validation; eval_texts NULL: no
                                      validation */
    uint64_t texts_key, eval_key;  /* hashes of the token ids of texts and eval_texts; 0: none */
    uint64_t model_sum, data_sum, eval_sum,
        tokenizer_sum; /* checksums of the files of model, data, validation data and tokenizer; 0:
                          no file */
    syn_batch_options batches;
    int32_t special[8];
    syn_expert_load load;  /* on meta, of --routing */
    syn_model_part *parts; /* of all virtual stages; see syn_pipeline_parts */
    char *uneven; /* numbers of their layers, such as "7,8,8,7"; NULL: all have the same number */
    int64_t n_texts;                /* number of training samples; on meta at least as many as the
                                       traced steps need */
    int64_t steps_per_epoch, steps; /* optimizer steps */
    /* The following fields are used only on rank 0. */
    pretrain_log *log;
    pretrain_bar bar;
    pretrain_unsaved unsaved[2]; /* [0]: model; [1]: checkpoint */
    char saved[2][40];           /* names of the last saved model and checkpoint; "": none */
    int64_t unwritten_traces;    /* number of traces that could not be written */
    int64_t unwritten_step;      /* step of the first of these traces */
    /* The following fields are for predictions and traces. */
    double *stage_bytes;                     /* peak memory of a rank, by pipeline stage */
    double (*stage_parts)[SYN_MEMORY_KINDS]; /* its parts; all 0: unknown */
    double *stage_reserved;       /* what PyTorch's allocator would reserve for it; 0: unknown */
    syn_ctx **shorter;            /* by stage: the shorter of two recorded steps, or NULL */
    struct pretrain_swept *swept; /* collects the times of a sweep's combination; NULL: no
                                     sweep */
    bool predicts;                /* the run only predicts a step and writes no files */
    comparison predicted;         /* predicted times of a step on each machine; 0: no step was
                                     traced */
    pretrain_metrics last;        /* of the last step that was logged; on rank 0 */
    double validation_loss;       /* of the last validation, if there was one */
    bool validated;
    double measured_ns;              /* measured time of the last traced step; 0 on meta */
    struct pretrain_window *windows; /* the traces so far; on rank 0 only, on meta for all ranks */
    size_t n_windows, windows_cap;

    output_lock save_lock, trace_lock; /* locks of the output folders, held by rank 0's process */
} pretrain;

/* Default data, in examples/. */
#define PRETRAIN_DATA      "squad/train.json"
#define PRETRAIN_EVAL_DATA "squad/validation.json"

/* The whole program; see inference_program. */
int pretrain_program(int argc, char **argv);
extern const cli_option pretrain_options[];
extern pretrain_args pretrain_given; /* the options' values */
/* Sets all options to their defaults. Called before cli_parse. */
void pretrain_set_defaults(void);
/* Called after cli_parse and pretrain_check_sweep. Sets run->args, and device and ranks of
   run->launch. Rejects options that contradict each other or have no effect. Returns CLI_RUN, or
   the exit code after a message. */
int pretrain_check_options(pretrain *run, int argc, char **argv);
/* Parts of it that synth shares: rejects options of division_options.h that have no effect; sets
   the number of ranks from --dp and the number of microbatches from --global-batch; and makes a run
   on meta record only one rank of each stage. */
int pretrain_check_division(const pretrain *run, int argc, char **argv);
int pretrain_take_sizes(const cli_program *program, int argc, char **argv);
void pretrain_predict_alone(pretrain *run);

/* Called before pretrain_check_options: parses --sweep and rejects options that contradict it.
   Without --sweep it returns CLI_RUN. */
int pretrain_check_sweep(const pretrain *run, int argc, char **argv);
/* Runs all combinations of --sweep, then prints and writes the results. `once` checks the options,
   prepares and launches one run. */
syn_status pretrain_sweep(pretrain *run, syn_status (*once)(syn_error *err),
                          syn_error *err) SYN_MUST_USE;
/* After a run on meta: tries other runs, each with one option changed, and prints the options that
   make the step faster or, if it does not fit the machine's memory, those with which it does. The
   run is then the last one that was tried. */
void pretrain_suggest(pretrain *run, syn_status (*once)(syn_error *err));
/* Whether the predicted step fits the memory of the machine. */
bool pretrain_fits(const pretrain *run);
/* Whether the run is a combination of which only the memory is wanted. */
bool pretrain_only_memory(const pretrain *run);
/* For one combination of a sweep: predicts the recorded step on each machine. */
syn_status pretrain_add_swept(pretrain *run, syn_error *err) SYN_MUST_USE;

/* In a sweep over machines, returns the machine that determines the default dtype; otherwise
   NULL. */
const syn_hardware *pretrain_deciding_machine(const pretrain *run);

/* The schedule of a step; one stage without --pp. */
syn_schedule_shape pretrain_schedule(const pretrain *run, int64_t microbatches);
/* Sets run->parts and run->uneven. Fails if the schedule does not exist for the shape, or the
   layers cannot be divided. */
syn_status pretrain_divide(pretrain *run, syn_error *err) SYN_MUST_USE;
/* Hash of the numbers of layers of all virtual stages; 0: all have the same number. */
uint64_t pretrain_division(const pretrain *run);
/* The factor of the routers' auxiliary loss: without the option, that of the configuration if it
   has output_router_logits. */
double pretrain_aux_coefficient(const pretrain *run);
/* Fails if options of experts contradict each other, the model, the plan or the device. Sets
   syn_plan.counts. */
syn_status pretrain_check_routers(pretrain *run, syn_error *err);
/* Reads --routing, after the layers are divided. Sets run->load and syn_plan.skewed. */
syn_status pretrain_read_routing(pretrain *run, syn_error *err);
/* Number of layers for multi-token prediction. */
int64_t pretrain_mtp(const pretrain *run);
/* The name of the token table if the first and the last stage of a pipeline have it; otherwise
 * NULL. */
const char *pretrain_tied(const pretrain *run, char *buf, size_t buf_bytes);
/* Sets up model, tokenizer and data, and everything derived from them. */
syn_status pretrain_prepare(pretrain *run, syn_error *err) SYN_MUST_USE;
void pretrain_free(pretrain *run);

/* Whether any dropout rate is above 0. */
bool pretrain_drops(const pretrain *run);
/* Describes the dropout: "0.1", or "0.1 of embeddings, 0 of ..." if rates differ. */
void pretrain_dropout_text(const pretrain *run, char *buf, size_t buf_bytes);
/* Prepares a run and runs its ranks. */
syn_status pretrain_launch(pretrain *run, syn_error *err) SYN_MUST_USE;
/* Hashes of everything that determines the ranks' work; see launch.plan and launch.parts. */
uint64_t pretrain_plan(void *run);
int pretrain_parts(void *run, launch_part parts[LAUNCH_PARTS]);
/* With --overlap-a2a, replaces *graph, a view of the traces of its ranks, by one whose passes
   overlap (pretrain_overlap.c). */
syn_status pretrain_overlap(const pretrain *run, const syn_trace *const *traces, syn_graph **graph,
                            syn_error *err);
/* Runs one rank; a launch_main. */
syn_status pretrain_rank(syn_comm *comm, void *run, syn_ctx **ctx, syn_error *err) SYN_MUST_USE;

/* ---- Output ---- */

/* Creates metrics.csv in --save-dir, or continues an existing file after step `done`. The log also
   prints lines for steps and validations. */
syn_status pretrain_log_open(pretrain *run, int64_t done, syn_error *err) SYN_MUST_USE;
/* Sets *steps to the last step in metrics.csv of --save-dir; 0: none. */
syn_status pretrain_logged_steps(const pretrain *run, int64_t *steps, syn_error *err) SYN_MUST_USE;
void pretrain_log_step(pretrain *run, const pretrain_metrics *m);
void pretrain_log_eval(pretrain *run, int64_t step, double loss);
/* Writes loss.svg and closes metrics.csv. */
syn_status pretrain_log_close(pretrain *run, syn_error *err) SYN_MUST_USE;

typedef struct pretrain_point {
    int64_t step;
    double loss; /* finite */
} pretrain_point;

typedef struct pretrain_curve {
    pretrain_point *at;
    size_t n, cap;
} pretrain_curve;
/* Writes <save-dir>/loss.svg. `train` has at least one point. */
syn_status pretrain_write_curve(const pretrain *run, const pretrain_curve *train,
                                const pretrain_curve *eval, syn_error *err) SYN_MUST_USE;

/* Starts the progress bar after step `done`, if standard output is a terminal. */
void pretrain_bar_begin(pretrain *run, int64_t done);
/* Draws the bar. After the last step, the bar stays on the screen. */
void pretrain_bar_step(pretrain *run, const pretrain_metrics *m);
/* Clears the bar; call it before printing anything else. The next step draws it again. */
void pretrain_bar_clear(pretrain *run);

/* How the ranks of a run share the model. */
typedef struct pretrain_layout {
    int32_t tp, pp, vp;
    /* Each tensor-parallel rank of a stage has as many files in a checkpoint, one for each of the
       first data-parallel ranks: with ZeRO, those that divide the state; otherwise those that have
       all experts together, which is one rank if experts are shared like other layers. */
    int32_t parts;
    int32_t buckets; /* ZeRO 1 and 2: syn_bucket_rule + 1; ZeRO 3: 4; otherwise 1, or 0 with several
                        parts */
    int32_t ep;
    int32_t experts;   /* 1: ranks share experts like other layers; otherwise 2 + the order of ranks
                          (syn_plan_order_number) + SYN_PLAN_ORDERS * (etp - 1) */
    uint64_t division; /* see pretrain_division */
} pretrain_layout;

/* What a rank writes to a checkpoint, and which of the files with tensors have its state. */
typedef struct pretrain_files {
    int32_t own;    /* number of the file that this rank writes; -1: none */
    int32_t layers; /* number of the file with the state of this rank's parameters except experts */
    int32_t experts;  /* number of the file with that of its experts (syn_param_info.expert) */
    bool pieces;      /* tensors in the files are pieces of shards (pretrain_tensors.c) */
    bool saves_model; /* this rank must call pretrain_save_model */
} pretrain_files;

/* Training state of one rank after `step` steps. */
typedef struct pretrain_state {
    syn_ctx *ctx;
    syn_comm *comm;
    syn_optimizer *optimizer;
    pretrain_files files;
    int64_t step;
    double best;             /* lowest validation loss; infinity: none yet */
    pretrain_layout written; /* layout of the run that wrote the checkpoint */
} pretrain_state;
/* Saves the model to a folder in the format of transformers. The ranks with
   pretrain_files.saves_model must call it. */
syn_status pretrain_save_model(pretrain *run, const pretrain_state *state, const char *folder,
                               syn_error *err) SYN_MUST_USE;
/* Saves <save-dir>/<name>/: the model and, if `resumable`, the training state. The folder gets its
   name when everything is on disk. Every rank must call it. */
syn_status pretrain_save(pretrain *run, const pretrain_state *state, const char *name,
                         bool resumable, syn_error *err) SYN_MUST_USE;
/* Records on rank 0 whether a save succeeded. `name` must be a static string unless it is the name
   of a checkpoint. */
void pretrain_note_saved(pretrain *run, const char *name, int64_t step, bool resumable, bool saved);
/* After the run: prints the paths of the log, the curve, and the last saved model and
   checkpoint. */
void pretrain_list_saved(const pretrain *run);
/* After the last step: fails if the last model, the last checkpoint, or any trace could not be
   saved. */
syn_status pretrain_check_unsaved(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* Writes the name of a file with master weights and moments to `name`, and returns it. The file of
   a rank has the number (pipeline stage * tp + tensor-parallel index) * parts + data-parallel
   index. */
enum { PRETRAIN_TENSORS_NAME = 40 };
const char *pretrain_tensors_name(int32_t number, char name[PRETRAIN_TENSORS_NAME]);
/* The number of these files. */
int32_t pretrain_tensors_files(const pretrain_layout *layout);
/* The rule of --buckets, or its default. */
static inline syn_bucket_rule pretrain_buckets(const pretrain *run) {
    return run->args->buckets < 0 ? SYN_BUCKETS_PYTORCH : (syn_bucket_rule)run->args->buckets;
}
/* The layout of this run, and the files of one of its ranks. */
pretrain_layout pretrain_own_layout(const pretrain *run);
pretrain_files pretrain_own_files(const pretrain *run, int32_t rank);
/* Writes this rank's file and sets its checksum. */
syn_status pretrain_write_tensors(const pretrain_state *state, const char *folder,
                                  uint64_t *checksum, syn_error *err) SYN_MUST_USE;
/* Sets the optimizer's state from the files of a checkpoint, whose layout is state->written. If
   this run has another layout, the rank reads the shards that it needs from the files of all
   ranks. */
syn_status pretrain_read_tensors(const pretrain *run, const pretrain_state *state,
                                 const char *folder, syn_error *err) SYN_MUST_USE;
bool pretrain_same_layout(const pretrain *run, const pretrain_layout *layout);
/* Writes training_state.json, the last file of a checkpoint folder. It contains checksums of all
   files. sums[i] is the checksum of file number i with tensors; the function computes the other
   checksums. */
syn_status pretrain_write_state(const pretrain *run, const pretrain_state *state,
                                const char *folder, const uint64_t *sums,
                                syn_error *err) SYN_MUST_USE;
/* Reads training_state.json, sets step and best, and verifies the files that this rank reads; rank
   0 also verifies files that no rank reads. Fails with SYN_E_FORMAT if a file is damaged, and with
   SYN_E_INVALID if options differ from those of the run that wrote it; the message lists them. */
syn_status pretrain_read_state(const pretrain *run, const char *folder, pretrain_state *state,
                               syn_error *err) SYN_MUST_USE;
/* Fails if --save-dir has checkpoints of an earlier run and --resume is not given. */
syn_status pretrain_check_saved(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* Fails if this run would replace the results of an earlier, longer run. Runs of fewer than 100
   steps may be replaced. Call it when run->steps is known. */
syn_status pretrain_check_longer(const pretrain *run, syn_error *err) SYN_MUST_USE;
/* Resumes from the latest checkpoint: sets parameters, moments, step and best. Does nothing if
   there is none. Fails with SYN_E_INVALID if the checkpoint belongs to another run. */
syn_status pretrain_resume(pretrain *run, pretrain_state *state, syn_error *err) SYN_MUST_USE;

/* ---- Traces ---- */

/* The role of the run's nth step (from 0) in traces. `last`: whether it is the run's last step. */
typedef enum pretrain_tracing {
    PRETRAIN_UNTRACED,
    PRETRAIN_ACTIVE,     /* traced, and the next step belongs to the same trace */
    PRETRAIN_WINDOW,     /* traced, and the last step of its trace */
    PRETRAIN_LAST_WINDOW /* like PRETRAIN_WINDOW, but no further trace follows */
} pretrain_tracing;
pretrain_tracing pretrain_tracing_of(const pretrain_args *args, int64_t nth, bool last);

/* Creates --out-dir, checks that files can be written there, and locks their names. */
syn_status pretrain_check_trace(pretrain *run, syn_error *err) SYN_MUST_USE;
/* synth: records a whole step of a rank, and passes its graph to `use`. */
syn_status pretrain_record_rank(pretrain *run, int32_t rank, launch_use_graph *use, void *user,
                                syn_error *err) SYN_MUST_USE;
/* synth: passes the graph of the recorded step to `use`. */
syn_status pretrain_use_graph(pretrain *run, syn_ctx *ctx, launch_use_graph *use, void *user,
                              syn_error *err) SYN_MUST_USE;
/* Writes the rows in this rank's context as a trace that ends with the nth step of this run, which
   is step `step` of the training. Every rank must call it; rank 0 collects the rows of all ranks
   and writes the files. `last`: whether no further trace follows. */
syn_status pretrain_write_trace(pretrain *run, syn_ctx *ctx, syn_comm *comm, int64_t nth,
                                int64_t step, bool last, syn_error *err) SYN_MUST_USE;
/* ---- Predictions ---- */

/* Returns the sum of the limits of the graph's first n ranks. */
limits pretrain_limits(const syn_hardware *hw, const syn_graph *graph, uint32_t n);
double pretrain_step_tokens(const pretrain *run); /* tokens per step on all ranks */
run_error pretrain_error(const pretrain *run, const syn_hardware *hw);
/* A step is predicted from one recorded rank of each pipeline stage; without a pipeline, from one
   rank. For a step with many microbatches, two shorter steps with different numbers of microbatches
   are recorded instead, and the step's time is extrapolated from the difference of their times.
   Stores the number of microbatches of each step to record, the smaller number first, and returns
   the number of these steps, 1 or 2. */
int pretrain_recorded_steps(const pretrain *run, int64_t microbatches[2]);
/* Predicts the step on each machine of run->predicted, or of the sweep. All steps must be
   recorded. */
syn_status pretrain_predict_recorded(pretrain *run, syn_error *err) SYN_MUST_USE;
/* Predicts the recorded step on one machine. */
syn_status pretrain_predict(const pretrain *run, const syn_hardware *hw, sweep_times *out,
                            syn_error *err) SYN_MUST_USE;
/* Predicts the traced steps on each machine of run->predicted. all: the graph of all ranks, which
   only rank 0 has, or on meta the last rank; NULL on all other ranks. Every rank calls it. */
syn_status pretrain_predict_traced(pretrain *run, syn_ctx *ctx, syn_comm *comm,
                                   const syn_graph *all, int64_t steps,
                                   syn_error *err) SYN_MUST_USE;
/* Prints the predictions. With --json, begins an object with them and with the results of a
   training run. */
syn_status pretrain_report(pretrain *run, syn_error *err) SYN_MUST_USE;

/* Warns if the run ended before all traces were recorded. */
void pretrain_end_trace(const pretrain *run);
/* Appends the member "traces": the prefixes of the traced steps. */
void pretrain_put_traces(const pretrain *run, syn_sink *json);
void pretrain_free_trace(pretrain *run);

#endif
