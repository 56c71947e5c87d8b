/* The program synth: writes the Chakra traces of a training step, or of inference, for all ranks of
   a cluster, which may be any size. One rank of each pipeline stage is recorded on `meta`, without
   data; the files of the other ranks are written from these. */
#include "syntorch/base/memory.h"
#include "tools/synth/synth.h"

static const char *const examples[] = {
    "syntorch synth --model gpt3-175b --tp 8 --pp 8 --sp --global-batch 8 --out run/gpt3",
    "syntorch synth --model llama-3-8b --dp 64 --zero 3 --hw h100 --out run/llama3", NULL};

static cli_program program = {
    "syntorch synth",
    "Writes Chakra traces of one training step, or of inference, for all ranks of a cluster, and "
    "predicts it.",
    synth_options, examples, false};

static pretrain run;        /* of training */
static inference inferring; /* of the other phases */

static syn_status predict(syn_error *err) {
    return pretrain_launch(&run, err);
}

/* If the step does not fit the machine's memory, tries and prints changes with which it would. Then
   prepares the run again, because the tries replaced it. */
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
    SYN_TRY(pretrain_prepare(&run, err));
    return launch_threads(&run.launch, err);
}

static syn_status record(void *unused, int32_t rank, launch_use_graph *use, void *user,
                         syn_error *err) {
    (void)unused;
    return pretrain_record_rank(&run, rank, use, user, err);
}

/* Predicts the step, and then writes the set. */
static syn_status train(syn_error *err) {
    bool *wanted = NULL;
    const pretrain_args given = *run.args;
    syn_status s = synth_wanted(run.launch.ranks, &wanted, err);
    if (s == SYN_OK) s = predict(err);
    if (s == SYN_OK) s = pretrain_report(&run, err);
    if (s == SYN_OK) s = suggest(&given, err);
    const synth_job job = {&run.launch.parallel, (int32_t)run.hw.node_ranks, record, NULL,
                           run.launch.json};
    if (s == SYN_OK) s = synth_write(&job, wanted, err);
    syn_free(wanted);
    return s;
}

static syn_status synthesize(syn_error *err) {
    return synth_given.phase == SYNTH_TRAIN ? train(err) : synth_infer(&inferring, err);
}

static int read_options(int argc, char **argv) {
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN) code = synth_check_common(&run.launch, argc, argv);
    if (code != CLI_RUN) return code;
    if (synth_given.phase == SYNTH_TRAIN) return synth_check_training(&run, argc, argv);
    launch_begin(&inferring.launch, &program);
    return synth_check_inference(&inferring, argc, argv);
}

int synth_program(int argc, char **argv) {
    program.name = argv[0];
    synth_set_defaults();
    run = (pretrain){.args = NULL};
    inferring = (inference){.args = NULL};
    const int code = launch_program(&run.launch, &program, read_options, synthesize, argc, argv);
    pretrain_free(&run);
    launch_free(&inferring.launch);
    inference_free(&inferring);
    return code;
}
