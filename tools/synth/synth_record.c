/* Records the ranks of a job for a caller in the same process, without printing or writing. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/synth/synth.h"

static cli_program program = {"syntorch", "", synth_options, NULL, false};

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

/* ---- Recording ---- */

/* The ranks to record, and their graphs. */
typedef struct recorded {
    const synth_job *job;
    const int32_t *ranks;
    uint32_t n;
    syn_graph **graphs;
    syn_error *errs; /* by rank in `ranks` */
} recorded;

/* A launch_use_graph. */
static syn_status copy(void *out, const syn_graph *graph, syn_error *err) {
    return syn_graph_copy(out, graph, err);
}

/* A syn_worker_task. */
static void record_one(void *arg, int64_t i, int worker) {
    const recorded *r = arg;
    (void)worker;
    r->errs[i].code = r->job->record(r->job->run, r->ranks[i], copy, &r->graphs[i], &r->errs[i]);
}

static syn_status record_all(const recorded *r, syn_error *err) {
    int threads = cli_cores();
    syn_workers *workers;
    if (threads > SYN_WORKERS_MAX) threads = SYN_WORKERS_MAX;
    if ((uint32_t)threads > r->n) threads = (int)r->n;
    SYN_TRY(syn_workers_new(&workers, threads, err));
    syn_workers_run(workers, r->n, record_one, (void *)r);
    syn_workers_free(workers);
    for (uint32_t i = 0; i < r->n; i++)
        if (r->errs[i].code != SYN_OK)
            return SYN_FAIL(err, r->errs[i].code, "rank %d: %s", r->ranks[i], r->errs[i].text);
    return SYN_OK;
}

/* Sets ranks[0 .. *n - 1] to the ranks that --ranks selects. */
static syn_status choose(const syn_plan *plan, int32_t *ranks, uint32_t *n, syn_error *err) {
    const bool each = pretrain_given.ranks && strcmp(pretrain_given.ranks, "one-per-program") == 0;
    bool *wanted = NULL, *seen = NULL;
    SYN_TRY(synth_wanted(plan->ranks, &wanted, err));
    const size_t programs = (size_t)plan->pp * (size_t)syn_plan_programs(plan);
    if (each && !(seen = syn_calloc(programs, sizeof *seen)))
        return SYN_FAIL_NOMEM(err, programs, "the programs of ranks");
    int32_t stride[SYN_AXES];
    syn_plan_strides(plan, stride);
    *n = 0;
    for (int32_t r = 0; r < plan->ranks; r++) {
        const int32_t stage = r / stride[SYN_AXIS_PP] % plan->pp;
        const size_t number =
            (size_t)stage * (size_t)syn_plan_programs(plan) + (size_t)syn_plan_program(plan, r);
        if ((wanted && !wanted[r]) || (seen && seen[number])) continue;
        if (seen) seen[number] = true;
        ranks[(*n)++] = r;
    }
    syn_free(wanted);
    syn_free(seen);
    return SYN_OK;
}

/* Records the selected ranks of a prepared job. */
static syn_status record(syn_graph **out, const synth_job *job, syn_error *err) {
    const size_t all = (size_t)job->plan->ranks;
    int32_t *ranks = syn_calloc(all, sizeof *ranks);
    recorded r = {job, ranks, 0, syn_calloc(all, sizeof *r.graphs),
                  syn_calloc(all, sizeof *r.errs)};
    syn_status s = ranks && r.graphs && r.errs ? choose(job->plan, ranks, &r.n, err)
                                               : SYN_FAIL_NOMEM(err, all * sizeof *ranks, "ranks");
    if (s == SYN_OK) s = record_all(&r, err);
    if (s == SYN_OK) s = syn_graph_union(out, r.graphs, r.n, err);
    for (uint32_t i = 0; s != SYN_OK && i < r.n; i++) syn_graph_free(r.graphs[i]);
    syn_free(r.graphs);
    syn_free(r.errs);
    syn_free(ranks);
    return s;
}

/* Like launch_begin, but a launcher has no effect: each process records all ranks. */
static void begin(launch *l) {
    l->program = &program;
    l->ranks = 1;
}

syn_status synth_record(syn_graph **out, int argc, char **argv, syn_error *err) {
    pretrain training = {.args = &pretrain_given};
    inference inferring = {.args = inference_arguments()};
    synth_job job = {.run = NULL};
    syn_status s = SYN_OK;
    synth_set_defaults();
    begin(&training.launch);
    begin(&inferring.launch);
    if (read_options(&training, &inferring, argc, argv) != CLI_RUN)
        s = err->code != SYN_OK /* --help and --version have no message */
                ? err->code
                : SYN_FAIL(err, SYN_E_INVALID, "--help and --version are not options");
    if (s == SYN_OK && synth_given.phase == SYNTH_TRAIN) {
        job = (synth_job){&training.launch.parallel, 0, record_training_rank, &training, NULL};
        s = prepare_training(&training, err);
    } else if (s == SYN_OK) {
        s = synth_prepare_inference(&inferring, &job, err);
    }
    if (s == SYN_OK) s = record(out, &job, err);
    launch_free(&training.launch);
    pretrain_free(&training);
    launch_free(&inferring.launch);
    inference_free(&inferring);
    return s;
}
