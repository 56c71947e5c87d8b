/* Records jobs for the Python package. The programs keep their options in static variables, so a
   lock lets one call run at a time. */
#include "tools/embed/embed.h"

#include <pthread.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/synth/synth.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *syn_embed_version(void) {
    return SYN_VERSION;
}

void syn_embed_set_data(const char *folder) {
    cli_set_data(folder);
}

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
    const int cores = cli_cores();
    syn_workers *workers;
    SYN_TRY(syn_workers_new(&workers, cores < (int)r->n ? cores : (int)r->n, err));
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
        const size_t program =
            (size_t)stage * (size_t)syn_plan_programs(plan) + (size_t)syn_plan_program(plan, r);
        if ((wanted && !wanted[r]) || (seen && seen[program])) continue;
        if (seen) seen[program] = true;
        ranks[(*n)++] = r;
    }
    syn_free(wanted);
    syn_free(seen);
    return SYN_OK;
}

/* Records the ranks of a prepared job; a synth_use_job. */
static syn_status record(void *out, const synth_job *job, syn_error *err) {
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

syn_status syn_embed_trace(syn_graph **out, int argc, const char *const *argv, syn_error *err) {
    /* cli_parse does not change the arguments. */
    char **args = (char **)(uintptr_t)argv;
    *out = NULL;
    pthread_mutex_lock(&lock);
    cli_keep_messages(err);
    const syn_status s = synth_record(argc, args, record, out, err);
    cli_keep_messages(NULL);
    pthread_mutex_unlock(&lock);
    return s;
}
