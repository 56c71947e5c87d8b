/* The inference program: options (inference_options.c), prompts (inference_prompts.c), the model of
   one rank (inference_run.c), its tasks (inference_generate.c, inference_fill.c,
   inference_perplexity.c, inference_serve.c) and the summary (inference_summary.c). The program is
   in inference_program.c. */
#ifndef TOOLS_INFERENCE_H
#define TOOLS_INFERENCE_H

#include "models/model.h"
#include "models/stop_criteria.h"
#include "models/weights/weights.h"
#include "syntorch/mesh.h"
#include "tools/folders.h"
#include "tools/inference/report.h"
#include "tools/launch/launch.h"
#include "tools/output_lock.h"
#include "tools/requests/requests.h"
#include "tools/residuals.h"
#include "tools/serving/serving_metrics.h"
#include "tools/sweep/comparison.h"
#include "tools/sweep/suggestions.h"

typedef enum inference_attention {
    INFERENCE_AUTO,
    INFERENCE_FUSED,
    INFERENCE_UNFUSED
} inference_attention;

typedef enum inference_logits { INFERENCE_LOGITS_LAST, INFERENCE_LOGITS_ALL } inference_logits;

typedef enum inference_pooling {
    INFERENCE_POOLING_NONE,
    INFERENCE_POOLING_MEAN,
    INFERENCE_POOLING_FIRST,
    INFERENCE_POOLING_LAST
} inference_pooling;

/* Options of --requests. */
typedef struct inference_serving {
    request_options requests;
    int64_t max_seqs, max_tokens, long_prefill, block_tokens, blocks;
    int policy, by_priority;
    bool unchunked, uncached;
    const char *slo_text;
    serving_slo slo;
    bool listed; /* write requests.csv */
} inference_serving;

typedef struct inference_args {
    inference_serving serving;
    parallel_options parallel;
    int64_t num_input_tokens, num_output_tokens, tp, batch_size, seed, top_k, watchdog, max_length,
        stride, mask_id;                                  /* mask_id, top_k: -1 if not given */
    double temperature, top_p, min_p, repetition_penalty; /* NaN if not given */
    const char *device, *hw, *compare, *model_config, *model, *weights, *tokenizer, *prompt,
        *prompts, *prompt_ids, *out_dir, *save_logits, *save_weights, *embeddings, *perplexity,
        *eos;
    const char *layers_per_stage;
    int64_t layers; /* synth: number of layers; 0: the model's own */
    int64_t dp;     /* data-parallel size; 0: one */
    int dispatcher; /* syn_dispatcher */
    bool dispatch_fp8;
    const char *ids; /* synth: the prompt as token ids, which need no tokenizer; batch_size is that
                        of a data-parallel rank */
    int64_t first_step; /* synth: steps of the generation before this one are not recorded */
    cli_texts sweep;
    int attention, logits, pooling; /* values of the enumerations above */
    int dtype, weight_dtype;        /* syn_dtype; -1 if not given */
    bool visualize_trace, debug, quiet, json, check_collectives, greedy;
} inference_args;

typedef struct inference inference;

/* One rank of a run. */
typedef struct inference_rank {
    syn_model *model;
    const syn_mesh *mesh;
    const syn_group *pp; /* the ranks of the pipeline's stages; NULL: the model is whole */
    bool shows_progress;
} inference_rank;

/* The token ids of a prompt. */
typedef struct inference_text {
    int32_t *ids;
    size_t n, cap;
} inference_text;

/* A task of the program: generating text, filling in masks, or computing a perplexity. Its
   functions get the whole run; run->work belongs to the task. */
typedef struct inference_task {
    const char *prompt; /* default prompt */
    unsigned heads;     /* output heads that the task needs, see syn_model_options */
    /* Returns an error message if an option was given that the task does not use, else NULL. The
       pointer is NULL if the task uses every option. */
    const char *(*refuses)(const inference_args *args);
    /* Allocates run->work and sets run->around. Tokenizer and weights are open already. */
    syn_status (*begin)(inference *run, syn_error *err);
    /* Encodes prompt i. The pointer is NULL if the task has no prompts; in that case `begin` does
       the work of `lay_out` and sets run->batch. */
    syn_status (*encode)(const inference *run, int64_t i, inference_text *out, syn_error *err);
    /* Checks the encoded prompts and pads them. The longest prompt has run->prompt_tokens tokens,
       including the special tokens around it. */
    syn_status (*lay_out)(inference *run, const inference_text *texts, syn_error *err);
    /* Runs the task on one rank, in the model's context. */
    syn_status (*run)(inference *run, const inference_rank *rank, syn_error *err);
    uint64_t (*plan)(const inference *run, uint64_t hash); /* adds the task's data to `hash`, see
                                                              launch.plan */
    /* Print the results, as lines and as JSON members. They come between the description of the
       model and the table of ops. */
    void (*print)(const inference *run, const report *r);
    void (*json)(const inference *run, const report *r, syn_sink *out);
    /* Returns the properties of the run that determine its prediction error. The pointer is NULL if
       no run of this task was measured. */
    run_shape (*shape)(const inference *run);
    syn_status (*save_logits)(const inference *run, const char *path, syn_error *err);
    void (*free)(inference *run);
} inference_task;

extern const inference_task inference_generate, inference_fill, inference_perplexity,
    inference_serve;

struct inference {
    inference_args *args;
    launch launch;
    syn_model_config config;
    syn_error unknown; /* reason why the model is unknown; code SYN_OK: the model is known */
    unsigned heads; /* output heads of the model, including heads that only --save_weights needs */
    int64_t params; /* number of parameters */
    syn_model_part *parts; /* of each pipeline stage */
    const inference_task *task;
    void *work;
    syn_sampling_defaults defaults; /* sampling parameters from the file defaults_file */
    const char *defaults_file;      /* "generation_config.json" or "config.json" */
    syn_tokenizer *tokenizer;       /* NULL: prompts and output are token ids */
    syn_weights *weights;           /* NULL: random */
    char *partial;                  /* temporary folder of --save_weights; NULL: not saving */
    syn_dtype dtype, weight_dtype;  /* compute dtype; dtype of the weight matrices */
    bool fused_attention;           /* choice of --attention, also for auto */
    syn_hardware hw;
    const char **prompts; /* n_prompts texts, one per line of the file or the single text of
                             --prompt */
    int64_t n_prompts;
    char *prompt_text;                 /* the file that the prompts point into; NULL: they come from
                                          no file */
    int64_t around;                    /* number of special tokens that the task adds to a prompt */
    int64_t batch;                     /* number of sequences of a data-parallel rank */
    int64_t prompt_tokens, new_tokens; /* per sequence; set by the task */
    double cache_elems;                /* elements of the KV cache of all ranks; set by the task */
    int64_t score_ns;                  /* scoring time of rank 0, see inference_score.h */
    int64_t scored_tokens;             /* number of tokens scored by --perplexity */
    report report;                     /* report of rank 0, or of the first rank of each stage */
    comparison comparison;             /* machines of --compare; empty without it */
    report *compared;                  /* the same on each machine of `comparison` */

    char requests_file[FOLDER_PATH_BYTES]; /* requests.csv, if it was written */
    output_lock save_lock, trace_lock; /* locks of the output folders, held by rank 0's process */
};

/* The number of ranks: the product of the degrees of parallelism. */
static inline int64_t inference_ranks(const inference_args *args) {
    const int64_t pp = args->parallel.pp > 0 ? args->parallel.pp : 1;
    return args->tp * pp * (args->dp > 0 ? args->dp : 1);
}
/* The number of sequences of all data-parallel ranks. */
static inline int64_t inference_sequences(const inference *run) {
    return run->batch * run->launch.parallel.dp;
}
/* Whether the run serves requests. */
static inline bool inference_serves(const inference_args *args) {
    return args->serving.requests.requests != NULL;
}
/* Whether the prompts need no tokenizer. */
static inline bool inference_has_ids(const inference_args *args) {
    return args->prompt_ids || (inference_serves(args) && !args->prompts);
}
/* Whether prompts are token ids instead of text. */
static inline bool inference_gets_ids(const inference_args *args) {
    return args->prompt_ids || args->ids;
}
/* The whole program. argv[0] is the name in its messages, such as "syntorch inference". Returns the
   exit code. It can be called again, but not concurrently. */
int inference_program(int argc, char **argv);
extern const cli_option inference_options[];
inference_args *inference_arguments(void); /* the options' values */
/* Sets all options to their defaults. Called before cli_parse. */
void inference_set_defaults(void);
/* Last check, after cli_parse and the two checks below: sets run->args and run->launch. Rejects
   options that contradict each other or that the model's task does not use. Returns CLI_RUN, or the
   exit code after a message. */
int inference_check_options(inference *run);
/* First check, after cli_parse: rejects options that have no effect with any model. */
int inference_check_given(const cli_program *program, int argc, char **argv);

/* Second check: parses --sweep and rejects options that contradict it. Without --sweep it returns
   CLI_RUN. */
int inference_check_sweep(const inference *run, int argc, char **argv);
/* Returns the hardware that determines the default dtype: the run's hardware, or in a sweep over
   machines the machine of the current try. */
const syn_hardware *inference_deciding_machine(const inference *run);
/* Returns the predicted times of a finished run on `hw`, from a report of rank 0. */
sweep_times inference_times(const inference *run, const report *r, const syn_hardware *hw);
/* Runs all combinations of --sweep, then prints and writes the results. `once` prepares and
   launches one run. */
syn_status inference_sweep(inference *run, syn_status (*once)(syn_error *err),
                           syn_error *err) SYN_MUST_USE;

/* After a run on meta was printed: tries other runs, each with one option changed, and prints the
   options that make it faster. */
void inference_suggest(inference *run, syn_status (*once)(syn_error *err));
/* Adds values of options with which a run may fit the machine's memory. */
void inference_add_fitting(suggestions *l, const inference *run);
/* Frees a run and begins another one on meta that records one rank of each stage. */
void inference_begin_again(inference *run);

/* Sets up model, weights, tokenizer and prompts, and everything derived from them. */
syn_status inference_prepare(inference *run, syn_error *err) SYN_MUST_USE;
void inference_free(inference *run);
/* Opens --tokenizer, or the tokenizer next to the weights, or the byte tokenizer if neither option
   is given. With --prompt_ids and without --tokenizer, opens only a tokenizer next to the weights,
   and it is no error if there is none. Fails if the tokenizer is for another model family. */
syn_status inference_open_tokenizer(inference *run, syn_error *err) SYN_MUST_USE;
/* Sets run->prompts and run->batch from --prompt, --prompts, --prompt_ids and --batch_size. Then
   lets the task encode and pad the prompts. */
syn_status inference_read_prompts(inference *run, syn_error *err) SYN_MUST_USE;
/* Sets *out to the token ids of prompt i: the ids in the file of --prompt_ids, or the tokenizer's
   ids. Fails if an id is outside the model's vocabulary. */
syn_status inference_encode(const inference *run, int64_t i, inference_text *out,
                            syn_error *err) SYN_MUST_USE;
/* Fails if an id is outside the model's vocabulary. */
syn_status inference_check_ids(const inference *run, const int32_t *ids, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* Fails if an output would overwrite an input. */
syn_status inference_keep_inputs(const inference *run, syn_error *err) SYN_MUST_USE;
/* On rank 0, creates the output folders. Fails if an output file is in another folder that does not
   exist. */
syn_status inference_make_folders(inference *run, syn_error *err) SYN_MUST_USE;

/* Prints "written:" and the paths of model, logits and hidden states, one per line, before the
   files of a trace. Prints nothing if none of them was written. */
void inference_list_saved(const inference *run, FILE *list);

/* Returns a hash of everything that determines the ranks' work; see launch.plan. */
uint64_t inference_plan(void *run);
/* Creates a rank's part of the model in its context, with the weights of run->weights or, if that
   is NULL, random weights. */
syn_status inference_load_model(const inference *run, syn_ctx *ctx, const syn_mesh *mesh,
                                syn_model **model, syn_error *err) SYN_MUST_USE;
/* The same with weights from an open reader (NULL: random weights). mesh NULL: the whole model on
   one rank. Shows progress. */
syn_status inference_make_model(const inference *run, syn_ctx *ctx, const syn_mesh *mesh,
                                syn_weights_reader *reader, syn_model **model,
                                syn_error *err) SYN_MUST_USE;
/* Runs the task with this model. */
syn_status inference_run_model(inference *run, const syn_mesh *mesh, syn_model *model,
                               syn_error *err) SYN_MUST_USE;
/* The rank that is recorded for a pipeline stage if launch.alone is set. */
static inline int32_t inference_stage_rank(const inference *run, int32_t stage) {
    return run->launch.alone_rank + stage * run->launch.alone_step;
}
/* Adds the rows that a rank has recorded since the last call to the report. Does nothing for other
   ranks than 0 or the first rank of a stage, and if inference_report_stages will add the rows. */
syn_status inference_report(inference *run, const syn_ctx *ctx, syn_error *err) SYN_MUST_USE;
/* Whether rows must be kept for output or for inference_report_stages. */
bool inference_keeps_rows(const inference *run);
/* Called after all ranks have run. If stages ran concurrently, adds their rows to the report. Over
   MPI, only the rows of rank 0. */
syn_status inference_report_stages(inference *run, syn_error *err) SYN_MUST_USE;
/* Prints a note on standard error, unless --quiet is given. */
void inference_note(const inference *run, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Print the predicted times of prefill and decoding, with their limits and their error. */
void inference_print_predicted(const inference *run, const report *r);
void inference_json_predicted(const inference *run, const report *r, syn_sink *out);
/* Print the time of one pass over all tokens of the task, as lines ("scoring: 12 tokens in 3 ms")
   and as members of the JSON object: the measured time (measured_ns 0: none, on meta) and the
   predicted time with its limits and its error. */
void inference_print_pass(const inference *run, const report *r, const char *what, int64_t tokens,
                          double measured_ns);
void inference_json_pass(const report *r, const char *key, int64_t tokens, double measured_ns,
                         syn_sink *out);
/* Elements of the KV caches of all layers that one token takes. */
double inference_token_elems(const inference *run);
/* inference_resident_bytes returns the bytes of weights and KV caches of all ranks.
   inference_check_memory fails if this machine does not have enough memory for them. */
double inference_resident_bytes(const inference *run);
syn_status inference_check_memory(const inference *run, syn_error *err) SYN_MUST_USE;
/* Adds metadata of the run, shown in pictures and files; see launch.metadata. */
syn_status inference_metadata(void *run, syn_graph *graph, syn_error *err) SYN_MUST_USE;
/* Prints the summary or the JSON object. With --debug, prints all ops before that. */
syn_status inference_print(inference *run, syn_error *err) SYN_MUST_USE;

#endif
