/* Writes the Chakra traces of one training step on a cluster that nobody needs to own. One rank of
   each pipeline stage is recorded on `meta`, without data; the files of all other ranks are written
   from these. */
#include "tools/synth/synth.h"
#include "syntorch/base/memory.h"

static const char *const examples[] = {
    "synth --model gpt3-175b --tp 8 --pp 8 --sp --global-batch 8 --out run/gpt3",
    "synth --model llama-3-8b --dp 64 --zero 3 --hw h100 --out run/llama3", NULL};

static cli_program program = {
    "synth",
    "Writes Chakra traces of one training step for all ranks of a cluster, and predicts it.",
    synth_options, examples, false};

static pretrain run;

static syn_status metadata(void *unused, syn_graph *graph, syn_error *err) {
    (void)unused;
    (void)graph;
    (void)err;
    return SYN_OK;
}

static syn_status write_set(syn_error *err) {
    launch *l = &run.launch;
    l->quiet = run.args->quiet;
    l->plan = pretrain_plan;
    l->parts = pretrain_parts;
    l->metadata = metadata;
    l->main = pretrain_rank;
    l->user = &run;
    syn_status s = pretrain_prepare(&run, err);
    bool *wanted = NULL;
    if (s == SYN_OK) s = synth_ranks(&run, &wanted, err);
    const syn_stamp_options options = {.node_ranks = run.hw.node_ranks,
                                       .version = "syntorch " SYN_VERSION,
                                       .wanted = wanted,
                                       .one_each = synth_one_each(&run)};
    if (s == SYN_OK) s = syn_stamp_open(&run.stamper, &l->parallel, run.args->out, &options, err);
    if (s == SYN_OK) s = launch_threads(l, err);
    s = launch_run(l, s, err);
    const syn_stamp_counts n = run.stamper ? syn_stamp_count(run.stamper) : (syn_stamp_counts){0};
    const syn_status closed = syn_stamp_close(run.stamper, s == SYN_OK, err);
    if (s == SYN_OK) s = closed;
    syn_free(wanted);
    if (s == SYN_OK && !run.args->quiet) {
        char bytes[32], shown[CLI_SHOWN_BYTES];
        printf("written: %s.*, %llu ranks with %llu nodes, %s\n",
               cli_shown(run.args->out, shown, sizeof shown), (unsigned long long)n.files,
               (unsigned long long)n.nodes, cli_bytes_text((double)n.bytes, bytes, sizeof bytes));
    }
    return s == SYN_OK ? pretrain_report(&run, err) : s;
}

static int read_options(int argc, char **argv) {
    const int code = cli_parse(&program, argc, argv);
    return code == CLI_RUN ? synth_check_options(&run, argc, argv) : code;
}

static int run_program(int argc, char **argv) {
    syn_error err = {0};
    launch_begin(&run.launch, &program);
    cli_check_address_space(&program);
    int code = launch_options(&run.launch, read_options, argc, argv);
    if (code == CLI_RUN)
        code = write_set(&err) == SYN_OK ? CLI_OK : cli_fail(&program, CLI_FAILED, "%s", err.text);
    launch_free(&run.launch);
    pretrain_free(&run);
    return code;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("synth", run_program, argc, argv);
}
