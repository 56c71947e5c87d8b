/* The program synth, which writes the traces of a cluster's ranks. It records one rank of each
   pipeline stage: of a training step with the code of pretrain (tools/pretrain/), and of inference
   with the code of inference (synth_inference.c). The program is in synth_program.c. */
#ifndef TOOLS_SYNTH_H
#define TOOLS_SYNTH_H

#include "tools/inference/inference.h"
#include "tools/pretrain/pretrain.h"

typedef enum synth_phase {
    SYNTH_TRAIN,   /* one training step */
    SYNTH_PREFILL, /* the prompts of a batch, up to the first token of each */
    SYNTH_DECODE,  /* one further token of each sequence, or several */
    SYNTH_GENERATE /* prefill and decoding */
} synth_phase;

/* Values of the options that pretrain does not have. */
typedef struct synth_args {
    int phase; /* synth_phase */
    bool gzip;
    int64_t num_input_tokens, num_output_tokens; /* 0: not given */
} synth_args;

/* The whole program; see inference_program. */
int synth_program(int argc, char **argv);
extern const cli_option synth_options[];
extern synth_args synth_given;

/* Sets all options to their defaults, also those of pretrain and inference. Called before
   cli_parse. */
void synth_set_defaults(void);
/* Called after cli_parse: the checks that all phases share, and then those of training or of
   inference, which also set run->args, and device and ranks of run->launch. They return CLI_RUN,
   or the exit code after a message. */
int synth_check_common(const launch *l, int argc, char **argv);
int synth_check_training(pretrain *run, int argc, char **argv);
int synth_check_inference(inference *run, int argc, char **argv);
/* For training: sets device and ranks of run->launch from the options. Returns as the checks. */
int synth_begin(pretrain *run);
/* For inference: predicts the run, prints the prediction and writes the set. */
syn_status synth_infer(inference *run, syn_error *err) SYN_MUST_USE;

/* ---- Jobs (synth_set.c, synth_record.c) ---- */

/* A job whose traces are written. */
typedef struct synth_job {
    const syn_plan *plan; /* complete */
    int32_t node_ranks;   /* ranks per node */
    /* Records a rank and passes its graph to `use`. */
    syn_status (*record)(void *run, int32_t rank, launch_use_graph *use, void *user,
                         syn_error *err);
    void *run;      /* passed to `record` */
    syn_sink *json; /* gets the number of nodes and the files of the set; NULL: none */
} synth_job;

/* Sets *wanted to a list that says for each of all ranks whether --ranks names it, or to NULL if
   all files are written. The caller frees it with syn_free. Fails if --ranks is malformed or names
   a rank that does not exist. */
syn_status synth_wanted(int32_t all, bool **wanted, syn_error *err) SYN_MUST_USE;
/* Records one rank of each program, writes the set of --out and prints what was written. With
   --dry_run it only counts. */
syn_status synth_write(const synth_job *job, const bool *wanted, syn_error *err) SYN_MUST_USE;

/* For inference: prepares the run and sets *job, after the checks. */
syn_status synth_prepare_inference(inference *run, synth_job *job, syn_error *err) SYN_MUST_USE;
/* Reads the options, records the ranks that --ranks selects, and joins their graphs, whose memory
   does not depend on the run. Prints nothing: messages about options go to cli_keep_messages.
   argv[0] is ignored, and --out is not needed. The caller frees *out. */
syn_status synth_record(syn_graph **out, int argc, char **argv, syn_error *err) SYN_MUST_USE;

#endif
