/* Runs ranks as threads, MPI processes, or one after the other on meta, and collects their
   results. */
#include "tools/launch/launch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/blas.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/cli_json.h"
#include "tools/launch/gather.h"

void launch_begin(launch *l, cli_program *program) {
    int32_t size = 1;
    l->program = program;
    l->mpi = syn_mpi_launched(&l->rank, &size) && size > 1;
    l->ranks = size;
    if (!l->mpi) l->rank = 0;
    program->mute = l->mpi && l->rank != 0;
}

int launch_device(launch *l, const char *name) {
    static const char *const names[] = {
        [SYN_DEVICE_CPU] = "cpu", [SYN_DEVICE_META] = "meta", [SYN_DEVICE_CUDA] = "cuda"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        l->device = (syn_device)i;
        if (strcmp(name, names[i]) == 0) return CLI_RUN;
    }
    return cli_fail(l->program, CLI_USAGE, "--device must be cpu, meta or cuda, not '%s'", name);
}

/* Fails early if the device is not available, before any file is read. */
static syn_status check_device(const launch *l, syn_error *err) {
    const syn_backend *backend;
    syn_error why = {0};
    if (syn_backend_get(l->device, &backend, &why) == SYN_OK) return SYN_OK;
    return SYN_FAIL(err, why.code, "--device cuda: %s", why.text);
}

syn_status launch_threads(launch *l, syn_error *err) {
    /* Ranks in this process; processes on this machine. */
    int32_t together = l->ranks, processes = 1;
    if (l->mpi) syn_mpi_launched(NULL, &processes);
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (l->mpi && local && atoi(local) > 0) processes = atoi(local);
    SYN_TRY(check_device(l, err));
    l->threads = cli_cores() / (l->mpi ? processes : together);
    if (l->threads < 1) l->threads = 1;
    if (l->threads > SYN_WORKERS_MAX) l->threads = SYN_WORKERS_MAX;
    if (l->mpi) together = 1;
    if (l->device != SYN_DEVICE_CPU) return SYN_OK;
    const char *forced = syn_blas_forced_by();
    char value[CLI_SHOWN_BYTES];
    if (forced && !l->quiet && !l->program->mute)
        fprintf(stderr,
                "%s: warning: %s=%s decides the speed of matrix products; unset it to let OpenBLAS "
                "choose\n",
                l->program->name, forced, cli_shown(getenv(forced), value, sizeof value));
    const int callers = (int)together * l->threads;
    SYN_TRY(syn_blas_reserve(callers, err));
    syn_blas_set_threads(1); /* a rank's own threads call OpenBLAS concurrently */
    cli_take_blas_buffers(callers);
    return SYN_OK;
}

static syn_status rank_main(syn_comm *comm, void *user, syn_error *err) {
    launch *l = user;
    SYN_TRY(l->main(comm, l->user, &l->ctx[comm->rank], err));
    const syn_ctx *ctx = l->ctx[comm->rank];
    l->nodes[comm->rank] = syn_ctx_mark(ctx).node - 1;
    if (l->want_hashes) l->hashes[comm->rank] = syn_trace_hash(syn_ctx_trace(ctx));
    return SYN_OK;
}

/* The nth of the ranks that run on meta. */
static syn_status run_nth(launch *l, int32_t n, syn_error *err) {
    const int32_t r = l->alone ? l->alone_rank + n * l->alone_step : n;
    syn_comm *comm;
    SYN_TRY(syn_comm_fake_new(&comm, r, l->ranks, err));
    const syn_status s = rank_main(comm, l, err);
    syn_comm_close(comm);
    return s;
}

typedef struct together {
    launch *l;
    syn_error *errs; /* by rank, in the order in which ranks run */
} together;

/* A syn_worker_task. */
static void run_one(void *arg, int64_t i, int worker) {
    const together *t = arg;
    (void)worker;
    t->errs[i].code = run_nth(t->l, (int32_t)i, &t->errs[i]);
}

/* If ranks fail, the error is that of the first. */
static syn_status run_together(launch *l, int32_t n, syn_error *err) {
    const int cores = cli_cores() < SYN_WORKERS_MAX ? cli_cores() : SYN_WORKERS_MAX;
    together t = {l, syn_calloc((size_t)n, sizeof *t.errs)};
    syn_workers *workers = NULL;
    syn_status s = t.errs ? syn_workers_new(&workers, cores < n ? cores : n, err)
                          : SYN_FAIL_NOMEM(err, (size_t)n * sizeof *t.errs, "errors");
    if (s == SYN_OK) syn_workers_run(workers, n, run_one, &t);
    for (int32_t i = 0; i < n && s == SYN_OK; i++) {
        s = t.errs[i].code;
        if (s != SYN_OK) *err = t.errs[i];
    }
    syn_workers_free(workers);
    syn_free(t.errs);
    return s;
}

static syn_status run_meta(launch *l, syn_error *err) {
    const int32_t n = !l->alone ? l->ranks : l->alone_n > 0 ? l->alone_n : 1;
    if (l->alone && l->alone_together && n > 1) return run_together(l, n, err);
    for (int32_t i = 0; i < n; i++) SYN_TRY(run_nth(l, i, err));
    return SYN_OK;
}

/* ---- MPI ---- */

static void mpi_log(void *user, const char *sentence) {
    if (((const launch *)user)->failed) return; /* the failure has been printed already */
    char shown[CLI_SHOWN_BYTES];
    fprintf(stderr, "%s: %s\n", ((const launch *)user)->program->name,
            cli_shown(sentence, shown, sizeof shown));
}

/* Each rank passes its own number in numbers[rank]. On rank 0, `numbers` then has those of all
   ranks. */
static syn_status share(uint64_t *numbers, syn_comm *comm, syn_error *err) {
    uint64_t *all = syn_calloc((size_t)comm->size, sizeof *all);
    if (!all) return SYN_FAIL_NOMEM(err, (size_t)comm->size * sizeof *all, "the rank numbers");
    const syn_status s = gather_numbers(all, comm, numbers[comm->rank], err);
    for (int32_t r = 0; comm->rank == 0 && r < comm->size; r++) numbers[r] = all[r];
    syn_free(all);
    return s;
}

/* Builds the graph of all ranks on rank 0. */
static syn_status share_graph(launch *l, syn_comm *comm, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(l->ctx[comm->rank]);
    syn_graph *mine;
    SYN_TRY(syn_trace_graph(&mine, &trace, 1, l->hw, err));
    syn_status s = l->metadata(l->user, mine, err);
    if (s == SYN_OK) s = gather_graphs(&l->graph, comm, mine, err);
    syn_graph_free(mine);
    return s;
}

/* Prints how `rank` differs from rank 0. These two ranks must both call it; the others return at
   once. */
static void report_difference(const launch *l, syn_comm *comm, int32_t rank) {
    launch_part parts[LAUNCH_PARTS];
    uint64_t hashes[LAUNCH_PARTS];
    syn_error err = {0};
    int first = -1;
    if (comm->rank != 0 && comm->rank != rank) return;
    const int n = l->parts ? l->parts(l->user, parts) : 0;
    for (int i = 0; i < n; i++) hashes[i] = parts[i].hash;
    if (gather_difference(&first, comm, rank, hashes, n, &err) != SYN_OK || comm->rank != 0) return;
    if (first >= 0)
        cli_fail(l->program, CLI_FAILED, "rank %d was started with another %s than rank 0", rank,
                 parts[first].name);
    else
        cli_fail(l->program, CLI_FAILED,
                 "rank %d was started with other options, or another model or prompt, than rank 0",
                 rank);
}

void launch_pause(void) {
    const struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL);
}

/* If a rank could not start (for example, because a file is missing on its machine) or was started
   with other options, the other ranks must not wait for it. All ranks stop, and the lowest such
   rank is reported. */
static bool all_can_begin(launch *l, syn_comm *comm, syn_status before, syn_error *err) {
    gather_start start;
    const uint64_t plan = before == SYN_OK ? l->plan(l->user) : 0;
    if (gather_agreement(&start, comm, before, plan, err) != SYN_OK) return false;
    if (start.failed < 0 && start.differs < 0) return true;
    /* Print before the other ranks exit, because a launcher stops all ranks as soon as one has
       failed. */
    if (start.failed < 0) report_difference(l, comm, start.differs);
    if (start.failed == 0 && comm->rank == 0) cli_fail(l->program, CLI_FAILED, "%s", err->text);
    if (start.failed > 0 && comm->rank == start.failed)
        cli_fail(l->program, CLI_FAILED, "rank %d: %s", start.failed, err->text);
    if (!l->program->mute) launch_pause();
    l->program->mute = true;
    return false;
}

static syn_status open_mpi(launch *l, syn_comm **comm, syn_error *err) {
    const syn_mpi_options how = {.check_collectives = l->check_collectives,
                                 .measure_wait = true,
                                 .watchdog_s = (double)l->watchdog_s,
                                 .abort_s = 10.0 * (double)l->watchdog_s,
                                 .log = mpi_log,
                                 .log_arg = l};
    return syn_comm_mpi_new(comm, &how, err);
}

int launch_options(launch *l, int (*read)(int argc, char **argv), int argc, char **argv) {
    const int code = read(argc, argv);
    gather_start start;
    syn_error err = {0};
    syn_comm *comm;
    char name[64];
    if (code == CLI_RUN || !l->mpi || open_mpi(l, &comm, &err) != SYN_OK) return code;
    const syn_status s = gather_agreement(&start, comm, SYN_E_INVALID, 0, &err);
    const bool speaks = s == SYN_OK && start.failed == comm->rank && comm->rank != 0;
    if (speaks) { /* rank 0 has printed its own message */
        snprintf(name, sizeof name, "%s: rank %d", l->program->name, comm->rank);
        l->program->name = name;
        l->program->mute = false;
        if (code == CLI_OK)
            cli_fail(l->program, CLI_FAILED,
                     "was started with --help or --version, but rank 0 was not");
        else (void)read(argc, argv);
    }
    syn_comm_close(comm);
    return speaks && code == CLI_OK ? CLI_FAILED : code;
}

/* Runs this process's rank and collects the results on rank 0. A rank that fails prints its error
   and aborts the job. */
static syn_status run_mpi(launch *l, syn_status before, syn_error *err) {
    syn_comm *comm;
    SYN_TRY(open_mpi(l, &comm, err));
    l->program->mute = false;
    if (!all_can_begin(l, comm, before, err)) {
        syn_comm_close(comm);
        return before != SYN_OK ? before : SYN_E_COMM;
    }
    syn_status s = rank_main(comm, l, err);
    if (s == SYN_OK && l->want_graph) s = share_graph(l, comm, err);
    if (s == SYN_OK) s = share(l->nodes, comm, err);
    if (s == SYN_OK && l->want_hashes) s = share(l->hashes, comm, err);
    if (s != SYN_OK) {
        cli_fail(l->program, CLI_FAILED, "rank %d: %s", comm->rank, err->text);
        l->failed = true;
        comm->ops->abort(comm, err->text);
        l->program->mute = true;
    }
    if (comm->rank != 0) l->program->mute = true;
    syn_comm_close(comm);
    return s;
}

/* ---- All ---- */

static syn_status make_graph(launch *l, syn_error *err) {
    const syn_trace **traces = syn_calloc((size_t)l->ranks, sizeof *traces);
    if (!traces) return SYN_FAIL_NOMEM(err, (size_t)l->ranks * sizeof *traces, "traces");
    for (int32_t r = 0; r < l->ranks; r++) traces[r] = syn_ctx_trace(l->ctx[r]);
    const syn_status s = syn_trace_graph(&l->graph, traces, (uint32_t)l->ranks, l->hw, err);
    syn_free(traces);
    SYN_TRY(s);
    return l->metadata(l->user, l->graph, err);
}

syn_status launch_run(launch *l, syn_status before, syn_error *err) {
    syn_status s = before;
    l->ctx = syn_calloc((size_t)l->ranks, sizeof *l->ctx);
    l->nodes = syn_calloc((size_t)l->ranks, sizeof *l->nodes);
    l->hashes = syn_calloc((size_t)l->ranks, sizeof *l->hashes);
    if (s == SYN_OK && (!l->ctx || !l->nodes || !l->hashes))
        s = SYN_FAIL_NOMEM(err, (size_t)l->ranks * 3 * sizeof *l->ctx, "results");
    if (l->mpi) return run_mpi(l, s, err);
    SYN_TRY(s);
    if (l->device == SYN_DEVICE_META) SYN_TRY(run_meta(l, err));
    else SYN_TRY(syn_local_run(l->ranks, rank_main, l, err));
    return l->want_graph ? make_graph(l, err) : SYN_OK;
}

void launch_free(launch *l) {
    syn_graph_free(l->graph);
    for (int32_t r = 0; l->ctx && r < l->ranks; r++) syn_ctx_free(l->ctx[r]);
    syn_free(l->ctx);
    syn_free(l->nodes);
    syn_free(l->hashes);
}

const char *launch_shared_cores(const launch *l, char *buf, size_t buf_bytes) {
    if (l->device != SYN_DEVICE_CPU || l->ranks <= cli_cores()) return NULL;
    snprintf(buf, buf_bytes, "%d ranks on %d cores", l->ranks, cli_cores());
    return buf;
}

int launch_program(launch *l, cli_program *program, int (*read)(int argc, char **argv),
                   syn_status (*work)(syn_error *err), int argc, char **argv) {
    syn_error err = {0};
    launch_begin(l, program);
    int code = launch_options(l, read, argc, argv);
    if (code == CLI_RUN) {
        const syn_status worked = work(&err);
        const syn_status s = cli_json_close(l->json, worked, &err);
        l->json = NULL;
        code = cli_done(program, s, &err);
    }
    launch_free(l);
    return code;
}
