/* Tests training over MPI. A step must record the same trace as on meta, which equals that of a run
   in threads (test_training_trace). If a rank fails or is killed while a gradient bucket is in
   flight, the whole job must end. */
#include "syntorch/context_private.h"
#include "tests/support/small_training.h"

#include "tests/support/mpi_job.h"
#include "tests/support/processes.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- One rank ---- */

/* Runs this rank over MPI and then on meta, without the other ranks, and compares the traces. */
static syn_status check_same(syn_comm *comm, const small_training *like, syn_error *err) {
    small_training over_mpi = *like, on_meta = *like;
    const int r = comm->rank;
    syn_comm *fake;
    SYN_TRY(small_training_rank(comm, &over_mpi, err));
    on_meta.device = SYN_DEVICE_META;
    SYN_TRY(syn_comm_fake_new(&fake, r, comm->size, err));
    const syn_status s = small_training_rank(fake, &on_meta, err);
    syn_comm_close(fake);
    if (s != SYN_OK) return s;
    if (over_mpi.hash[r] == on_meta.hash[r] && over_mpi.peak[r] == on_meta.peak[r]) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%s, tp %d, dp %d, %d passes, recompute %d: %s on rank %d",
                    like->config->name, like->shape.tp, like->shape.dp, like->micro,
                    (int)like->recompute,
                    over_mpi.peak[r] == on_meta.peak[r] ? "other rows" : "other memory", r);
}

static syn_status check_ways(syn_comm *comm, const syn_plan *shape, syn_error *err) {
    static const syn_model_config *const configs[] = {&small_gpt, &small_bert};
    for (int i = 0; i < 6; i++) {
        const small_training t = {.config = configs[i % 2],
                                  .shape = *shape,
                                  .steps = 2,
                                  .micro = i / 2 == 1 ? 3 : 1,
                                  .recompute = i / 2 == 2   ? SYN_RECOMPUTE_FULL
                                               : i / 2 == 1 ? SYN_RECOMPUTE_SELECTIVE
                                                            : SYN_RECOMPUTE_NONE};
        SYN_TRY(check_same(comm, &t, err));
    }
    return SYN_OK;
}

static syn_status check_traces(syn_comm *comm, void *tp, syn_error *err) {
    const int of_tp = *(const int *)tp;
    return check_ways(comm, &(syn_plan){.tp = of_tp, .dp = comm->size / of_tp}, err);
}

/* In the second step, rank 1 fails or is killed: before its backward pass, while other ranks wait
   for its gradients, or (end_after) while one of its buckets is in flight. */
static bool end_after, end_killed;

static void end_rank_1(syn_ctx *ctx, int step, bool after) {
    if (syn_ctx_rank(ctx) != 1 || step != 1 || after != end_after) return;
    if (after && ctx->n_pending == 0) syn_ctx_fail(ctx, SYN_E_INVALID, "no bucket is under way");
    else if (end_killed) kill(getpid(), SIGKILL);
    else syn_ctx_fail(ctx, SYN_E_IO, "the disk is full");
}

static syn_status train_and_end(syn_comm *comm, void *process, syn_error *err) {
    small_training t = {.config = &small_gpt,
                        .shape = {.tp = comm->size / 2, .dp = 2},
                        .steps = 3,
                        .micro = 1,
                        .around_backward = end_rank_1};
    if (process) printf("pid %ld\n", (long)getpid());
    fflush(stdout);
    return small_training_rank(comm, &t, err);
}

static int run_rank(const char *mode) {
    int tp = atoi(mode); /* 0 selects the test in which rank 1 ends */
    end_after = strstr(mode, "after") != NULL;
    end_killed = strstr(mode, "killed") != NULL;
    syn_error err = {0};
    if (syn_ranks_run(0, tp ? check_traces : train_and_end, &tp, &err) == SYN_OK) return 0;
    printf("error: %s\n", err.text);
    return 1;
}

/* ---- The test ---- */

static void test_traces(void) {
    if (!have_mpi()) SKIP("no MPI");
    static const struct {
        const char *tp;
        int ranks;
    } meshes[] = {{"1", 2}, {"1", 4}, {"2", 2}, {"2", 4}, {"2", 8}};
    for (size_t i = 0; i < COUNT(meshes); i++) {
        const int code = run_mpi(meshes[i].tp, meshes[i].ranks);
        CHECK_MSG(code == 0, "tp %s, %d ranks: exit %d: %s", meshes[i].tp, meshes[i].ranks, code,
                  output);
    }
}

static void test_lost_process(void) {
    if (!have_mpi()) SKIP("no MPI");
    static const char *const modes[] = {"fails-before", "fails-after", "killed-before",
                                        "killed-after"};
    for (int i = 0; i < 8; i++) {
        const int n = i % 2 ? 4 : 2, code = run_mpi(modes[i / 2], n);
        CHECK_MSG(code != 0 && code != HUNG, "%s: exit %d: %s", modes[i / 2], code, output);
        CHECK_INT(occurrences("pid "), n);
        const int left = processes_alive(output);
        CHECK_MSG(left == 0, "%s left %d processes: %s", modes[i / 2], left, output);
        if (i < 4) CHECK_INT(occurrences("rank 1 failed: the disk is full\n"), 1);
    }
}

static void test_lost_thread(void) {
    int before = 0;
    for (int i = 0; i < 4; i++) {
        const int n = i % 2 ? 4 : 2;
        syn_error err = {0};
        end_after = i / 2;
        CHECK_INT(syn_local_run(n, train_and_end, NULL, &err), SYN_E_IO);
        CHECK_STR(err.text, "rank 1 failed: the disk is full");
        /* The first run may start a thread of the sanitizer, which stays. */
        if (i == 0) before = threads_alive();
        CHECK_MSG(threads_alive() == before && before <= 2, "%d threads, %d before",
                  threads_alive(), before);
    }
}

static const test_case cases[] = {
    {"the same rows as on meta", test_traces},
    {"a process ends", test_lost_process},
    {"a thread ends", test_lost_thread},
};
MPI_TEST_MAIN(cases)
