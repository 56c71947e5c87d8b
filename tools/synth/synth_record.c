/* Records the ranks of a job for a caller in the same process, without printing or writing. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/synth/synth.h"

static cli_program program = {"syntorch", "", synth_options, NULL, false};

/* The values of all options before the first call. */
static struct defaults {
    bool known;
    pretrain_args training;
    synth_args own;
    inference_args inference;
} defaults;

static void restore_defaults(void) {
    if (!defaults.known) {
        synth_set_defaults();
        defaults = (struct defaults){true, pretrain_given, synth_given, *inference_arguments()};
    }
    pretrain_given = defaults.training;
    synth_given = defaults.own;
    *inference_arguments() = defaults.inference;
}

static syn_status record_training_rank(void *run, int32_t rank, launch_use_graph *use, void *user,
                                       syn_error *err) {
    return pretrain_record_rank(run, rank, use, user, err);
}

static syn_status prepare_training(pretrain *run, syn_error *err) {
    SYN_TRY(pretrain_prepare(run, err));
    return launch_threads(&run->launch, err);
}

static int read_options(pretrain *training, inference *inferring, int argc, char **argv) {
    int code = cli_parse(&program, argc, argv);
    pretrain_given.quiet = pretrain_given.dry_run = true;
    if (code == CLI_RUN) code = synth_check_common(&training->launch, argc, argv);
    if (code != CLI_RUN) return code;
    return synth_given.phase == SYNTH_TRAIN ? synth_check_training(training, argc, argv)
                                            : synth_check_inference(inferring, argc, argv);
}

syn_status synth_record(int argc, char **argv, synth_use_job *use, void *user, syn_error *err) {
    pretrain training = {.args = &pretrain_given};
    inference inferring = {.args = inference_arguments()};
    synth_job job = {.run = NULL};
    restore_defaults();
    launch_begin(&training.launch, &program);
    launch_begin(&inferring.launch, &program);
    const int code = read_options(&training, &inferring, argc, argv);
    /* After --help and --version, which have no message. */
    if (code == CLI_OK) (void)SYN_FAIL(err, SYN_E_INVALID, "--help and --version are not options");
    syn_status s = code == CLI_RUN ? SYN_OK : err->code;
    if (s == SYN_OK && synth_given.phase == SYNTH_TRAIN) {
        job = (synth_job){&training.launch.parallel, 0, record_training_rank, &training, NULL};
        s = prepare_training(&training, err);
    } else if (s == SYN_OK) {
        s = synth_prepare_inference(&inferring, &job, err);
    }
    if (s == SYN_OK) s = use(user, &job, err);
    launch_free(&training.launch);
    pretrain_free(&training);
    launch_free(&inferring.launch);
    inference_free(&inferring);
    return s;
}
