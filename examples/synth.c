/* Writes the Chakra traces of one training step for all ranks of a cluster, which may be any size.
   One rank of each pipeline stage is recorded on `meta`, without data; the files of the other ranks
   are written from these. */
#include "tools/synth/synth.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

static const char *const examples[] = {
    "synth --model gpt3-175b --tp 8 --pp 8 --sp --global-batch 8 --out run/gpt3",
    "synth --model llama-3-8b --dp 64 --zero 3 --hw h100 --out run/llama3", NULL};

static cli_program program = {
    "synth",
    "Writes Chakra traces of one training step for all ranks of a cluster, and predicts it.",
    synth_options, examples, false};

static pretrain run;

static void announce(void *unused, const syn_stamp_counts *set, uint64_t free_bytes) {
    char bytes[32], disk[32], nodes[32];
    (void)unused;
    if (run.args->quiet || run.args->dry_run) return;
    printf("writing: %llu %s with about %s nodes, %s; %s are free\n",
           (unsigned long long)set->files, set->files == 1 ? "rank" : "ranks",
           cli_count_text((double)set->nodes, nodes, sizeof nodes),
           cli_bytes_text((double)set->bytes, bytes, sizeof bytes),
           cli_bytes_text((double)free_bytes, disk, sizeof disk));
    fflush(stdout);
}

static void print_written(const syn_stamp_counts *n, double seconds) {
    char bytes[32], rate[32], shown[CLI_SHOWN_BYTES];
    printf("%s: %s.*, %llu %s with %llu nodes, %s", run.args->dry_run ? "not written" : "written",
           cli_shown(run.args->out, shown, sizeof shown), (unsigned long long)n->files,
           n->files == 1 ? "rank" : "ranks", (unsigned long long)n->nodes,
           cli_bytes_text((double)n->bytes, bytes, sizeof bytes));
    if (run.args->dry_run) printf("\n");
    else
        printf(" in %.1f s, %s/s\n", seconds,
               cli_bytes_text((double)n->bytes / seconds, rate, sizeof rate));
}

static void note_clash(const syn_stamp_counts *n) {
    if (n->clash[0] > 0)
        printf(
            "note:    groups %u and %u share ranks; ASTRA-sim may confuse them, because their ids "
            "are equal modulo 500\n",
            n->clash[0], n->clash[1]);
}

/* Records the ranks and writes all files. */
static syn_status write_set(const bool *wanted, syn_error *err) {
    const syn_stamp_options options = {.node_ranks = run.hw.node_ranks,
                                       .version = "syntorch " SYN_VERSION,
                                       .wanted = wanted,
                                       .one_each = synth_one_each(&run),
                                       .dry = run.args->dry_run,
                                       .announce = announce};
    const uint64_t begin = syn__clock_ns();
    if (!options.dry) {
        SYN_TRY(syn_make_prefix_folder(run.args->out, err));
        SYN_TRY(output_lock_take(&run.trace_lock, run.args->out, program.name, "name another --out",
                                 err));
    }
    syn_status s = syn_stamp_open(&run.stamper, &run.launch.parallel, run.args->out, &options, err);
    if (s == SYN_OK) s = pretrain_stamp_set(&run, err);
    const syn_stamp_counts n = run.stamper ? syn_stamp_count(run.stamper) : (syn_stamp_counts){0};
    const syn_status closed = syn_stamp_close(run.stamper, s == SYN_OK, err);
    if (s == SYN_OK) s = closed;
    if (s != SYN_OK || run.args->quiet) return s;
    print_written(&n, 1e-9 * (double)(syn__clock_ns() - begin));
    note_clash(&n);
    return SYN_OK;
}

static syn_status predict(syn_error *err) {
    return pretrain_launch(&run, err);
}

/* If the step does not fit the machine's memory, tries and prints changes with which it would. Then
   predicts the step again, because the tries replaced the run. */
static syn_status suggest(const pretrain_args *given, syn_error *err) {
    if (run.args->quiet || pretrain_fits(&run)) return SYN_OK;
    pretrain_given = *given; /* a run fills in options that were not given */
    pretrain_suggest(&run, predict);
    launch_free(&run.launch);
    pretrain_free(&run);
    run = (pretrain){.args = &pretrain_given};
    launch_begin(&run.launch, &program);
    if (synth_begin(&run) != CLI_RUN)
        return SYN_FAIL(err, SYN_E_INVALID, "the options cannot be used twice");
    return predict(err);
}

/* Predicts the step, and then writes the set. */
static syn_status synthesize(syn_error *err) {
    bool *wanted = NULL;
    const pretrain_args given = *run.args;
    syn_status s = synth_ranks(&run, &wanted, err);
    if (s == SYN_OK) s = predict(err);
    if (s == SYN_OK) s = pretrain_report(&run, err);
    if (s == SYN_OK) s = suggest(&given, err);
    if (s == SYN_OK) s = write_set(wanted, err);
    syn_free(wanted);
    return s;
}

static int read_options(int argc, char **argv) {
    const int code = cli_parse(&program, argc, argv);
    return code == CLI_RUN ? synth_check_options(&run, argc, argv) : code;
}

static int run_program(int argc, char **argv) {
    const int code = launch_program(&run.launch, &program, read_options, synthesize, argc, argv);
    pretrain_free(&run);
    return code;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("synth", run_program, argc, argv);
}
