/* The pretraining program: trains a GPT or BERT on the questions and paragraphs of SQuAD and traces
   one step. Ranks are data-parallel (each has its own samples), and optionally tensor-parallel
   (--tp). pretrain_rank is
   the program of one rank. The same function runs in N threads (--num-gpus N), in N processes
   (mpirun -n N), or N times without data (--device meta). */
#include "tools/pretrain/pretrain.h"

static const char *const examples[] = {
    "syntorch pretrain --max-steps 40 --max-seq-length 128  # a small GPT",
    "syntorch pretrain --device meta --model gpt2 --num-gpus 256 --tp 2 --hw h100",
    "syntorch pretrain --model gpt2 --num-gpus 2 --max-steps 10 --enable-tracing --device meta",
    "mpirun -n 4 syntorch pretrain --num-gpus 4 --tp 2 --max-steps 10 --max-seq-length 64", NULL};

static cli_program program = {"syntorch pretrain",
                              "Trains GPT-2, gpt-oss, GPT-NeoX, Llama, Mistral, Mixtral, Qwen, "
                              "DeepSeek or BERT on SQuAD and records traces of steps.",
                              pretrain_options, examples, false};

static pretrain run;

/* Does one run: the only run, or one run of a sweep. */
static syn_status train(syn_error *err) {
    const syn_status s = pretrain_launch(&run, err);
    const syn_status closed = pretrain_log_close(&run, err);
    if (s != SYN_OK || closed != SYN_OK) return s != SYN_OK ? s : closed;
    return pretrain_check_unsaved(&run, err);
}

static syn_status train_all(syn_error *err) {
    if (run.args->sweep.n > 0) return pretrain_sweep(&run, train, err);
    const pretrain_args given = *run.args;
    SYN_TRY(train(err));
    pretrain_list_saved(&run);
    SYN_TRY(pretrain_report(&run, err));
    *run.args = given; /* a run fills in options that were not given */
    pretrain_suggest(&run, train);
    return SYN_OK;
}

static int read_options(int argc, char **argv) {
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN) code = pretrain_check_sweep(&run, argc, argv);
    return code == CLI_RUN ? pretrain_check_options(&run, argc, argv) : code;
}

int pretrain_program(int argc, char **argv) {
    program.name = argv[0];
    pretrain_set_defaults();
    run = (pretrain){.args = NULL};
    const int code = launch_program(&run.launch, &program, read_options, train_all, argc, argv);
    pretrain_free(&run);
    return code;
}
