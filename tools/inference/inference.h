/* The parts of the inference program: what all models share, and what each family of models does in
   its own way (tools/inference/inference_gpt.c, tools/inference/inference_bert.c). */
#ifndef TOOLS_INFERENCE_H
#define TOOLS_INFERENCE_H

#include "models/tokenizer.h"
#include "models/weights.h"
#include "tools/inference/launch.h"
#include "tools/report.h"

typedef struct inference_args {
    int64_t num_input_tokens, num_output_tokens, tp, batch_size, seed, top_k, watchdog;
    double temperature, top_p; /* NaN: not given */
    const char *device, *hw_config, *model_config, *model, *weights, *tokenizer, *dtype, *prompt,
        *prompts, *prompt_ids, *out_dir, *save_logits, *save_weights, *attention;
    bool visualize_trace, debug, quiet, json, check_collectives;
} inference_args;

typedef struct inference inference;

/* What rank 0 needs to know of its model when it has run; all ranks fill it. */
typedef struct inference_rank {
    const syn_group *tp;
    bool progress; /* show it */
} inference_rank;

/* A family of models in this program. Functions get the whole run; `model` is theirs. */
typedef struct inference_family {
    const char *name; /* "gpt" */
    const char *const *(*presets)(void);
    syn_weights_kind kind;
    syn_tokenizer_kind tokenizer;
    /* Allocates run->model and fills its configuration from the preset or the file (one is NULL).
     */
    syn_status (*configure)(inference *run, const char *preset, const char *file, syn_error *err);
    /* The weights are open: what of them decides the configuration. */
    syn_status (*adapt)(inference *run, syn_error *err);
    /* Options that mean nothing to this family: a sentence, else NULL. */
    const char *(*refuses)(const inference_args *args);
    /* Makes the input of run->n_prompts texts; the tokenizer is open. */
    syn_status (*prepare)(inference *run, syn_error *err);
    /* One rank: makes the model in ctx (weights come from the context's source, if it has one) and
       runs it. forward false: the model alone, to see whether a checkpoint fits. */
    syn_status (*run)(inference *run, syn_ctx *ctx, const inference_rank *rank, bool forward,
                      syn_error *err);
    uint64_t (*plan)(const inference *run, uint64_t hash); /* see launch.plan */
    syn_status (*write_config)(const inference *run, const char *path, syn_error *err);
    /* The summary's lines between the model and the table of ops; members of the JSON object. */
    void (*print)(const inference *run, const report *r);
    void (*json)(const inference *run, const report *r, syn_sink *out);
    syn_status (*save_logits)(const inference *run, const char *path, syn_error *err);
    void (*free)(inference *run);
} inference_family;

extern const inference_family inference_gpt, inference_bert;

/* What all families tell about their model once it is configured. */
typedef struct inference_model_facts {
    const char *name;
    int64_t n_layer, hidden, heads, vocab, params;
    double cache_elems; /* of the KV cache, all ranks together; known after prepare */
} inference_model_facts;

struct inference {
    inference_args *args;
    launch launch;
    const inference_family *family;
    void *model;
    inference_model_facts facts;
    syn_tokenizer *tokenizer; /* NULL: prompts are ids, and ids are printed */
    syn_weights *weights;     /* NULL: random */
    syn_dtype dtype;          /* of the matrices */
    bool fused_attention;     /* what --attention asks for, or auto chose */
    syn_hardware hw;
    const char **prompts; /* texts; each the start of one sequence */
    int64_t n_prompts;
    char *prompt_text;                 /* behind them, when they come from a file */
    int64_t batch;                     /* sequences */
    int64_t prompt_tokens, new_tokens; /* of each; set by prepare */
};

/* Opens what --tokenizer names, or the tokenizer of the weights; without weights bytes will do.
   None with --prompt_ids if there is none. Fails if it is another family's. */
syn_status inference_open_tokenizer(inference *run, syn_error *err) SYN_MUST_USE;
/* Fills run->prompts and run->batch from --prompt, --prompts, --prompt_ids and --batch_size. */
syn_status inference_read_prompts(inference *run, syn_error *err) SYN_MUST_USE;
/* The ids of prompt i, as --prompt_ids gives them or the tokenizer makes them; the caller's. Fails
   if the model lacks one of them. */
syn_status inference_encode(const inference *run, int64_t i, int32_t **ids, size_t *n,
                            syn_error *err) SYN_MUST_USE;
/* Prints `what` and the text of the ids, or the ids where the tokenizer does not know them. */
void inference_print_text(const inference *run, const char *what, const int32_t *ids, int64_t n);
/* A remark on standard error, unless nothing but errors is wanted. */
void inference_note(const inference *run, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Bytes that weights and caches of all ranks take, and whether the machine allows them. */
double inference_resident_bytes(const inference *run);
syn_status inference_check_memory(const inference *run, syn_error *err) SYN_MUST_USE;
/* Fails if what is to be saved would replace a file that is read. */
syn_status inference_keep_inputs(const inference *run, syn_error *err) SYN_MUST_USE;
void inference_free(inference *run);

#endif
