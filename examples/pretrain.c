/* Pretrains a GPT or BERT on the questions and paragraphs of SQuAD and traces one step. Ranks are
   data-parallel (each has its own samples), and optionally tensor-parallel (--tp). pretrain_rank is
   the program of one rank. The same function runs in N threads (--num-gpus N), in N processes
   (mpirun -n N), or N times without data (--device meta). */
#include "tools/pretrain/pretrain.h"

static const char *const examples[] = {
    "pretrain --max-steps 40 --max-seq-length 128  # a small GPT",
    "pretrain --device meta --model gpt2 --num-gpus 256 --tp 2 --hw h100",
    "pretrain --model gpt2 --num-gpus 2 --max-steps 10 --enable-tracing --device meta",
    "mpirun -n 4 pretrain --num-gpus 4 --tp 2 --max-steps 10 --max-seq-length 64", NULL};

static cli_program program = {
    "pretrain",
    "Trains GPT-2, GPT-NeoX, Llama, Mistral, Qwen or BERT on SQuAD and records traces of steps.",
    pretrain_options, examples, false};

static pretrain run;

static syn_status metadata(void *unused, syn_graph *graph, syn_error *err) {
    (void)unused;
    (void)graph;
    (void)err;
    return SYN_OK;
}

/* Does one run: the only run, or one run of a sweep. */
static syn_status train(syn_error *err) {
    launch *l = &run.launch;
    l->quiet = run.args->quiet;
    l->plan = pretrain_plan;
    l->parts = pretrain_parts;
    l->metadata = metadata;
    l->main = pretrain_rank;
    l->user = &run;
    syn_status s = pretrain_prepare(&run, err);
    if (s == SYN_OK) s = launch_threads(l, err);
    s = launch_run(l, s, err);
    const syn_status closed = pretrain_log_close(&run, err);
    if (s == SYN_OK) s = closed;
    return s == SYN_OK ? pretrain_check_unsaved(&run, err) : s;
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

static int run_program(int argc, char **argv) {
    syn_error err = {0};
    launch_begin(&run.launch, &program);
    cli_check_address_space(&program);
    int code = launch_options(&run.launch, read_options, argc, argv);
    if (code == CLI_RUN)
        code = train_all(&err) == SYN_OK ? CLI_OK : cli_fail(&program, CLI_FAILED, "%s", err.text);
    launch_free(&run.launch);
    pretrain_free(&run);
    return code;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("pretrain", run_program, argc, argv);
}
