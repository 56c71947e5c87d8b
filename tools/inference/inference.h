/* The parts of the inference program: its options (inference_options.c), prompts
   (inference_prompts.c), one rank's model (inference_run.c) and what it does (inference_generate.c,
   inference_fill.c, inference_perplexity.c), and what is printed (inference_summary.c). */
#ifndef TOOLS_INFERENCE_H
#define TOOLS_INFERENCE_H

#include "models/model.h"
#include "models/text_ending.h"
#include "models/weights/weights.h"
#include "tools/inference/report.h"
#include "tools/launch/launch.h"
#include "tools/output_lock.h"
#include "tools/residuals.h"
#include "tools/sweep/comparison.h"

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

typedef struct inference_args {
    parallel_options parallel;
    int64_t num_input_tokens, num_output_tokens, tp, batch_size, seed, top_k, watchdog, max_length,
        stride, mask_id;                                  /* mask_id, top_k -1: not given */
    double temperature, top_p, min_p, repetition_penalty; /* NaN: not given */
    const char *device, *hw, *compare, *model_config, *model, *weights, *tokenizer, *prompt,
        *prompts, *prompt_ids, *out_dir, *save_logits, *save_weights, *embeddings, *perplexity,
        *eos;
    cli_texts sweep;
    int attention, logits, pooling; /* the enumerations above */
    int dtype, weight_dtype;        /* syn_dtype; -1: not given */
    bool visualize_trace, debug, quiet, json, check_collectives, greedy;
} inference_args;

typedef struct inference inference;

/* The ids of a prompt. */
typedef struct inference_text {
    int32_t *ids;
    size_t n, cap;
} inference_text;

/* What a model does: it continues texts, fills their masks in, or says how likely a text is.
   Functions get the whole run; run->work is theirs. */
typedef struct inference_task {
    const char *prompt; /* without an option that gives one */
    unsigned heads;     /* that it needs, see syn_model_options */
    /* Options that mean nothing to it: a sentence, else NULL. NULL itself: there are none. */
    const char *(*refuses)(const inference_args *args);
    /* Allocates run->work, sets run->around; the tokenizer and the weights are open. */
    syn_status (*begin)(inference *run, syn_error *err);
    /* The ids of prompt i. NULL: there are no prompts; `begin` sets run->batch and what else
       `lay_out` does. */
    syn_status (*encode)(const inference *run, int64_t i, inference_text *out, syn_error *err);
    /* The longest has run->prompt_tokens with those around it: checks and lays them out. */
    syn_status (*lay_out)(inference *run, const inference_text *texts, syn_error *err);
    /* One rank, with the model made in its context. */
    syn_status (*run)(inference *run, syn_model *model, bool progress, syn_error *err);
    uint64_t (*plan)(const inference *run, uint64_t hash); /* see launch.plan */
    /* The summary's lines between the model and the table of ops; members of the JSON object. */
    void (*print)(const inference *run, const report *r);
    void (*json)(const inference *run, const report *r, syn_sink *out);
    /* What the error of a prediction depends on; NULL: no such runs were measured. */
    run_shape (*shape)(const inference *run);
    syn_status (*save_logits)(const inference *run, const char *path, syn_error *err);
    void (*free)(inference *run);
} inference_task;

extern const inference_task inference_generate, inference_fill, inference_perplexity;

struct inference {
    inference_args *args;
    launch launch;
    syn_model_config config;
    syn_error unknown; /* why the model is not known; code SYN_OK: it is */
    unsigned heads;    /* of the model; those to save all that the weights have among them */
    int64_t params;    /* of it */
    const inference_task *task;
    void *work;
    syn_text_sampling said;        /* by the file of this name: */
    const char *said_by;           /* "generation_config.json" or "config.json" */
    syn_tokenizer *tokenizer;      /* NULL: prompts are ids, and ids are printed */
    syn_weights *weights;          /* NULL: random */
    char *partial;                 /* where a model is written that is saved; NULL: none is */
    syn_dtype dtype, weight_dtype; /* of all that is computed; of the matrices */
    bool fused_attention;          /* what --attention asks for, or auto chose */
    syn_hardware hw;
    const char **prompts; /* texts; each the start of one sequence */
    int64_t n_prompts;
    char *prompt_text;                 /* behind them, when they come from a file */
    int64_t around;                    /* tokens that the task puts around a prompt's ids */
    int64_t batch;                     /* sequences */
    int64_t prompt_tokens, new_tokens; /* of each; set by the task */
    double cache_elems;                /* of the KV cache, all ranks together; likewise */
    int64_t score_ns;                  /* rank 0's, see inference_score.h */
    int64_t scored_tokens;             /* of --perplexity */
    report report;                     /* of rank 0 */
    comparison comparison;             /* likewise; without --compare empty */
    report *compared;                  /* of rank 0, on each of its machines */

    output_lock save_lock, trace_lock; /* of the process of rank 0 */
};

extern const cli_option inference_options[];
inference_args *inference_arguments(void); /* the options' values */
/* After cli_parse: sets run->args and the launch; refuses what contradicts itself and what would do
   nothing. CLI_RUN: go on; else the exit code, after a message. */
int inference_check_options(inference *run);
/* Before that: refuses given options that would do nothing, whatever the model. */
int inference_check_given(const cli_program *program, int argc, char **argv);

/* Before that: reads --sweep and refuses what contradicts it; without --sweep CLI_RUN. */
int inference_check_sweep(const inference *run, int argc, char **argv);
/* The run's, or of a sweep over machines the one whose dtype a run has that names none. */
const syn_hardware *inference_deciding_machine(const inference *run);
/* Of a report of rank 0, whose run has ended. */
sweep_times inference_times(const inference *run, const report *r, const syn_hardware *hw);
/* Runs each combination: `once` prepares and launches the run. Prints and writes what came of
   them. */
syn_status inference_sweep(inference *run, syn_status (*once)(syn_error *err),
                           syn_error *err) SYN_MUST_USE;

/* After all of a run on meta was told: runs others, each with one option changed, and prints which
   make it faster. */
void inference_levers(inference *run, syn_status (*once)(syn_error *err));

/* Model, weights, tokenizer and prompts, and what follows from them. */
syn_status inference_prepare(inference *run, syn_error *err) SYN_MUST_USE;
void inference_free(inference *run);
/* Opens what --tokenizer names, or the tokenizer of the weights; without weights bytes will do.
   None with --prompt_ids if there is none. Fails if it is another family's. */
syn_status inference_open_tokenizer(inference *run, syn_error *err) SYN_MUST_USE;
/* Fills run->prompts and run->batch from --prompt, --prompts, --prompt_ids and --batch_size, and
   has the task encode them and lay them out. */
syn_status inference_read_prompts(inference *run, syn_error *err) SYN_MUST_USE;
/* The ids of prompt i, as --prompt_ids gives them or the tokenizer makes them. Fails if the model
   lacks one of them. */
syn_status inference_encode(const inference *run, int64_t i, inference_text *out,
                            syn_error *err) SYN_MUST_USE;
/* Fails if the model lacks one of the tokenizer's ids. */
syn_status inference_check_ids(const inference *run, const int32_t *ids, size_t n,
                               syn_error *err) SYN_MUST_USE;
/* Fails if what is to be saved would replace a file that is read. */
syn_status inference_keep_inputs(const inference *run, syn_error *err) SYN_MUST_USE;
/* Makes the folders of what is written, on rank 0. Fails if a file's folder is none of them and
   does not exist. */
syn_status inference_make_folders(inference *run, syn_error *err) SYN_MUST_USE;

/* "written:" and where the model, logits and hidden states are, a line each, also before the files
   of a trace; nothing if there is none of them. */
void inference_list_saved(const inference *run, FILE *list);

/* Of all that decides what the ranks do: see launch.plan. */
uint64_t inference_plan(void *run);
/* One rank's model, made in its context: random, or from the weights. */
syn_status inference_load_model(const inference *run, syn_ctx *ctx, const syn_group *tp,
                                syn_model **model, syn_error *err) SYN_MUST_USE;
/* The same from a reader of weights, which then tells how far it is; NULL: random. */
syn_status inference_make_model(const inference *run, syn_ctx *ctx, const syn_group *tp,
                                syn_weights_reader *reader, syn_model **model,
                                syn_error *err) SYN_MUST_USE;
/* Runs the task's prompts through it. */
syn_status inference_run_model(inference *run, syn_ctx *ctx, syn_model *model,
                               syn_error *err) SYN_MUST_USE;
/* Adds what rank 0 has recorded in its context since the last time to the report. */
syn_status inference_report(inference *run, const syn_ctx *ctx, syn_error *err) SYN_MUST_USE;
/* A remark on standard error, unless nothing but errors is wanted. */
void inference_note(const inference *run, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Lines, and behind others members of the JSON object, of what the task did in one pass over all
   its tokens: "scoring: 12 tokens in 3 ms" as it was measured (0: on meta) and as it is predicted,
   with limits and error. */
void inference_print_pass(const inference *run, const report *r, const char *what, int64_t tokens,
                          double measured_ns);
void inference_json_pass(const report *r, const char *key, int64_t tokens, double measured_ns,
                         syn_sink *out);
/* Bytes that weights and caches of all ranks take, and whether the machine allows them. */
double inference_resident_bytes(const inference *run);
syn_status inference_check_memory(const inference *run, syn_error *err) SYN_MUST_USE;
/* Facts about the run that titles of pictures and files show: see launch.facts. */
syn_status inference_facts(void *run, syn_graph *graph, syn_error *err) SYN_MUST_USE;
/* The summary, or the JSON object; with --debug all ops before it. */
syn_status inference_print(inference *run, syn_error *err) SYN_MUST_USE;

#endif
