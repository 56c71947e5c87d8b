/* Tests the MPI communicator with the same reference as test_comm.c. Started normally, the program
   starts itself under mpirun once per case and number of ranks, and checks output, exit code and
   time. Under mpirun, it runs as one of the ranks. */
#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

#include "tests/support/comm_calls.h"
#include "tests/support/comm_reference.h"
#include "tests/support/mpi_job.h"
#include "tests/support/processes.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 4 };

/* ---- A rank ---- */

static double elem_at(const void *data, size_t i, syn_dtype dtype) {
    switch (dtype) {
    case SYN_F32:
        return (double)((const float *)data)[i];
    case SYN_I32:
        return ((const int32_t *)data)[i];
    case SYN_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return reference_widen(((const uint16_t *)data)[i], dtype);
    }
}

/* MPI may add floats in any order, so their sums are compared with a tolerance relative to the
   summands. Everything else must be equal. */
static bool equal(const void *got, const void *want, size_t n, syn_dtype dtype, syn_reduce reduce) {
    const bool exact = dtype == SYN_I32 || dtype == SYN_I64 || reduce == SYN_REDUCE_MIN ||
                       reduce == SYN_REDUCE_MAX;
    if (exact) return memcmp(got, want, n * syn_dtype_bytes(dtype)) == 0;
    const double eps = dtype == SYN_F32 ? 1e-6 : (dtype == SYN_F16 ? 1e-3 : 8e-3);
    for (size_t i = 0; i < n; i++) {
        const double a = elem_at(got, i, dtype), b = elem_at(want, i, dtype);
        if (a != b && !(fabs(a - b) <= eps * (fabs(b) + (dtype == SYN_F32 ? 32 : 1e-2))))
            return false;
    }
    return true;
}

typedef struct buffers {
    void *ins[MAX_RANKS];
    void *out, *want;
} buffers;

static syn_status check(const buffers *b, size_t n, syn_dtype dtype, syn_reduce reduce,
                        const char *what, syn_error *err) {
    if (equal(b->out, b->want, n, dtype, reduce)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%s of %zu elements of %s, %s: wrong result", what, n,
                    syn_dtype_name(dtype), syn_reduce_name(reduce));
}

static syn_status check_reductions(syn_comm *comm, const syn_group *g, buffers *b, size_t n,
                                   syn_dtype dtype, syn_reduce reduce, syn_error *err) {
    const void *const *ins = (const void *const *)b->ins;
    const size_t size = (size_t)g->size, part = n / size, bytes = syn_dtype_bytes(dtype);
    reference_reduce(ins, g->size, 0, b->want, n, dtype, reduce);
    SYN_TRY(run_all_reduce(comm, g, ins[g->index], b->out, n, dtype, reduce, err));
    SYN_TRY(check(b, n, dtype, reduce, "all_reduce", err));
    memcpy(b->out, ins[g->index], n * bytes);
    SYN_TRY(run_all_reduce(comm, g, b->out, b->out, n, dtype, reduce, err));
    SYN_TRY(check(b, n, dtype, reduce, "all_reduce in place", err));
    reference_reduce(ins, g->size, part * (size_t)g->index, b->want, part, dtype, reduce);
    SYN_TRY(run_reduce_scatter(comm, g, ins[g->index], b->out, part, dtype, reduce, err));
    return check(b, part, dtype, reduce, "reduce_scatter", err);
}

/* Tests lists with short segments, which the communicator packs together, with long ones, which it
   does not, and with empty ones. Every second segment is in place. */
static syn_status check_list(syn_comm *comm, const syn_group *g, buffers *b, syn_comm_kind kind,
                             syn_dtype dtype, syn_reduce reduce, syn_error *err) {
    static const size_t parts[] = {3, 1000, 0, 40000, 7, 35000, 20000, 0, 3990};
    const char *in = b->ins[g->index];
    const size_t bytes = syn_dtype_bytes(dtype);
    syn_segment segments[COUNT(parts)];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(parts); n += parts[i++]) {
        char *out = (char *)b->out + n * bytes;
        segments[i] = (syn_segment){i % 2 ? out : in + n * bytes, out, parts[i]};
        if (i % 2) memcpy(out, in + n * bytes, parts[i] * bytes);
    }
    const syn_comm_call x = {.kind = kind,
                             .dtype = dtype,
                             .reduce = reduce,
                             .root = g->size - 1,
                             .n_segments = COUNT(parts),
                             .group = g,
                             .segments = segments};
    if (kind == SYN_COMM_BROADCAST) memcpy(b->want, b->ins[x.root], n * bytes);
    else reference_reduce((const void *const *)b->ins, g->size, 0, b->want, n, dtype, reduce);
    SYN_TRY(syn_comm_run(comm, &x, NULL, err));
    return check(b, n, dtype, reduce, syn_comm_kind_name(kind), err);
}

static syn_status check_lists(syn_comm *comm, const syn_group *g, buffers *b, syn_dtype dtype,
                              syn_error *err) {
    for (int r = 0; r < SYN_REDUCE_COUNT; r++)
        SYN_TRY(check_list(comm, g, b, SYN_COMM_ALL_REDUCE, dtype, (syn_reduce)r, err));
    return check_list(comm, g, b, SYN_COMM_BROADCAST, dtype, SYN_REDUCE_MIN, err);
}

static syn_status check_copies(syn_comm *comm, const syn_group *g, buffers *b, size_t n,
                               syn_dtype dtype, syn_error *err) {
    const size_t bytes = n * syn_dtype_bytes(dtype);
    const int32_t next = g->ranks[(g->index + 1) % g->size];
    const int32_t last = g->ranks[(g->index + g->size - 1) % g->size];
    for (int32_t k = 0; k < g->size; k++) {
        if (bytes > 0) memcpy((char *)b->want + (size_t)k * bytes, b->ins[k], bytes);
    }
    SYN_TRY(run_all_gather(comm, g, b->ins[g->index], b->out, n, dtype, err));
    SYN_TRY(check(b, n * (size_t)g->size, dtype, SYN_REDUCE_MIN, "all_gather", err));
    for (int32_t root = 0; root < g->size; root++) {
        memcpy(b->want, b->ins[root], bytes);
        memset(b->out, 0x5a, bytes);
        SYN_TRY(run_broadcast(comm, g, b->ins[g->index], b->out, n, dtype, root, err));
        SYN_TRY(check(b, n, dtype, SYN_REDUCE_MIN, "broadcast", err));
    }
    memcpy(b->want, b->ins[(g->index + g->size - 1) % g->size], bytes);
    for (int32_t tag = 0; tag < 2; tag++)
        SYN_TRY(syn_comm_send(comm, b->ins[g->index], n, dtype, next, tag, err));
    for (int32_t tag = 1; tag >= 0; tag--) {
        memset(b->out, 0x5a, bytes);
        SYN_TRY(syn_comm_recv(comm, b->out, n, dtype, last, tag, err));
        SYN_TRY(check(b, n, dtype, SYN_REDUCE_MIN, "message", err));
    }
    return run_barrier(comm, g, err);
}

/* max_elems limits the number of elements. The largest number is only used with the default chunk
   length: with short chunks it takes a hundred MPI calls, and a minute on a busy machine. */
static syn_status check_group(syn_comm *comm, const syn_group *group, size_t max_elems,
                              syn_error *err) {
    static const size_t sizes[] = {0, 1, 7, 4096, 100003};
    static _Alignas(64) unsigned char space[MAX_RANKS + 2][MAX_RANKS * 100003 * 8];
    for (size_t s = 0; s < COUNT(sizes) && sizes[s] <= max_elems; s++)
        for (int d = 0; d < SYN_DTYPE_COUNT; d++) {
            buffers b = {.out = space[MAX_RANKS], .want = space[MAX_RANKS + 1]};
            for (int32_t k = 0; k < group->size; k++) {
                b.ins[k] = space[k];
                reference_fill(space[k], sizes[s], (syn_dtype)d, (uint64_t)(d * 100 + k + 1));
            }
            for (int r = 0; r < SYN_REDUCE_COUNT; r++)
                SYN_TRY(
                    check_reductions(comm, group, &b, sizes[s], (syn_dtype)d, (syn_reduce)r, err));
            SYN_TRY(check_copies(comm, group, &b, sizes[s], (syn_dtype)d, err));
            if (sizes[s] > 100000) SYN_TRY(check_lists(comm, group, &b, (syn_dtype)d, err));
        }
    return SYN_OK;
}

static syn_status check_nan(syn_comm *comm, const syn_group *group, syn_error *err) {
    for (int r = SYN_REDUCE_MIN; r <= SYN_REDUCE_MAX; r++)
        for (int32_t where = 0; where < comm->size; where++) {
            const float in = where == comm->rank ? NAN : 1;
            float out = 0;
            SYN_TRY(run_all_reduce(comm, group, &in, &out, 1, SYN_F32, (syn_reduce)r, err));
            if (!isnan(out))
                return SYN_FAIL(err, SYN_E_FORMAT, "NaN of rank %d was lost", (int)where);
        }
    return SYN_OK;
}

static syn_status table(syn_comm *comm, size_t max_elems, syn_error *err) {
    syn_group *world = NULL, *pair = NULL;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    SYN_TRY(check_group(comm, world, max_elems, err));
    SYN_TRY(check_nan(comm, world, err));
    if (comm->size < 4) return SYN_OK;
    const int32_t ranks[2][2] = {{2, 0}, {1, 3}};
    SYN_TRY(syn_comm_open_group(comm, 2 + (uint32_t)comm->rank % 2, "pair", ranks[comm->rank % 2],
                                2, &pair, err));
    return check_group(comm, pair, max_elems, err);
}

static syn_status mismatch(syn_comm *comm, syn_error *err) {
    syn_group *world = NULL;
    float in[128] = {0}, out[128 * MAX_RANKS];
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    SYN_TRY(run_barrier(comm, world, err));
    if (comm->rank == 1) return run_all_gather(comm, world, in, out, 64, SYN_F32, err);
    return run_all_reduce(comm, world, in, out, 128, SYN_F32, SYN_REDUCE_SUM, err);
}

/* All ranks have the same number of elements and segments, but rank 1 has different segment
   lengths. */
static syn_status cut_mismatch(syn_comm *comm, syn_error *err) {
    syn_group *world = NULL;
    float data[128] = {0};
    const size_t first = comm->rank == 1 ? 29 : 28;
    const syn_segment segments[] = {{data, data, first}, {data + first, data + first, 128 - first}};
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    const syn_comm_call x = {
        .kind = SYN_COMM_ALL_REDUCE, .n_segments = 2, .group = world, .segments = segments};
    return syn_comm_run(comm, &x, NULL, err);
}

static syn_status message_mismatch(syn_comm *comm, syn_error *err) {
    float data[8] = {0};
    if (comm->rank == 0) {
        SYN_TRY(syn_comm_send(comm, data, 8, SYN_F32, 1, 3, err));
        return syn_comm_recv(comm, data, 8, SYN_F32, 1, 3, err);
    }
    return syn_comm_recv(comm, data, 8, SYN_I32, 0, 3, err);
}

/* All ranks except rank 1 wait in an all-reduce. Rank 1 does what `mode` says. */
static syn_status others_wait(syn_comm *comm, const char *mode, syn_error *err) {
    syn_group *world = NULL;
    float value = 1;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    SYN_TRY(run_all_reduce(comm, world, &value, &value, 1, SYN_F32, SYN_REDUCE_SUM, err));
    if (comm->rank == 1) {
        const struct timespec half = {0, 500000000};
        nanosleep(&half, NULL);
        if (strcmp(mode, "killed") == 0) kill(getpid(), SIGKILL);
        if (strcmp(mode, "fails") == 0) return SYN_FAIL(err, SYN_E_IO, "the disk is full");
        if (strcmp(mode, "stuck") == 0) pause(); /* forever */
        return SYN_OK;
    }
    return run_all_reduce(comm, world, &value, &value, 1, SYN_F32, SYN_REDUCE_SUM, err);
}

static syn_status rank_1_fails(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    return others_wait(comm, "fails", err);
}

static int run_rank(const char *mode) {
    if (strcmp(mode, "ranks-run") == 0)
        return syn_ranks_run(9, rank_1_fails, NULL, &(syn_error){0}) == SYN_OK ? 0 : 1;
    syn_mpi_options options = {.log = log_line};
    if (strcmp(mode, "table-checked") == 0) {
        options.check_collectives = true;
        options.chunk_elems = 1000; /* small chunks, so that inputs are split */
    }
    if (strstr(mode, "mismatch") != NULL) options.check_collectives = true;
    if (strcmp(mode, "stuck") == 0 || strcmp(mode, "ends") == 0) {
        options.watchdog_s = 0.5;
        options.abort_s = 2;
    }
    syn_comm *comm = NULL;
    syn_error err = {0};
    syn_status status = syn_comm_mpi_new(&comm, &options, &err);
    if (status == SYN_OK) printf("pid %ld\n", (long)getpid());
    fflush(stdout);
    if (status != SYN_OK) {
    } else if (strncmp(mode, "table", 5) == 0) {
        status = table(comm, options.chunk_elems > 0 ? 5000 : SIZE_MAX, &err);
    } else if (strcmp(mode, "mismatch") == 0) {
        status = mismatch(comm, &err);
    } else if (strcmp(mode, "cut-mismatch") == 0) {
        status = cut_mismatch(comm, &err);
    } else if (strcmp(mode, "message-mismatch") == 0) {
        status = message_mismatch(comm, &err);
    } else {
        status = others_wait(comm, mode, &err);
    }
    return rank_ends(comm, status, &err);
}

/* ---- The test ---- */

static void every_operation_gives_what_naive_loops_give(void) {
    if (!have_mpi()) SKIP("no MPI");
    static const char *const modes[] = {"table", "table-checked"};
    static const int ranks[] = {1, 2, 4};
    for (size_t m = 0; m < COUNT(modes); m++)
        for (size_t r = 0; r < COUNT(ranks); r++) {
            const int code = run_mpi(modes[m], ranks[r]);
            CHECK_MSG(code == 0, "%s on %d ranks: exit %d: %s", modes[m], ranks[r], code, output);
        }
}

static void calls_that_differ_fail_on_every_rank(void) {
    if (!have_mpi()) SKIP("no MPI");
    for (int n = 2; n <= 4; n += 2) {
        CHECK_MSG(run_mpi("mismatch", n) != 0, "%s", output);
        CHECK_MSG(occurrences("error: rank 0 calls all_reduce(sum, f32, 128 elements) in group "
                              "world (#2) but rank 1 calls all_gather(f32, 64 elements)\n") == n,
                  "%s", output);
        CHECK_MSG(run_mpi("cut-mismatch", n) != 0, "%s", output);
        CHECK_MSG(occurrences("error: rank 0 calls all_reduce(sum, f32, 128 elements in 2 tensors) "
                              "in group world (#1) but rank 1 calls all_reduce(sum, f32, 128 "
                              "elements in 2 tensors) of different sizes\n") == n,
                  "%s", output);
    }
    CHECK(run_mpi("message-mismatch", 2) != 0);
    CHECK_HAS(output, "error: rank 0 calls send(f32, 8 elements, tag 3) to rank 1 but rank 1 calls "
                      "recv(i32, 8 elements, tag 3) from rank 0\n");
}

static void a_lost_rank_ends_the_job(void) {
    if (!have_mpi()) SKIP("no MPI");
    static const char *const modes[] = {"killed", "fails", "stuck", "ends"};
    for (size_t m = 0; m < COUNT(modes); m++)
        for (int n = 2; n <= 4; n += 2) {
            const int code = run_mpi(modes[m], n);
            CHECK_MSG(code != 0, "%s: exit 0: %s", modes[m], output);
            CHECK_MSG(code != HUNG, "%s did not end: %s", modes[m], output);
            CHECK_INT(occurrences("pid "), n);
            const int left = processes_alive(output);
            CHECK_MSG(left == 0, "%s left %d processes: %s", modes[m], left, output);
            if (m == 1) CHECK_HAS(output, "error: the disk is full\n");
            if (m == 1) CHECK_HAS(output, "log: rank 1 failed: the disk is full\n");
            if (m < 2) continue;
            CHECK_HAS(output, "log: rank 0 has waited ");
            CHECK_HAS(output, " s in all_reduce #2 of group world\n");
            CHECK_HAS(output, "s in all_reduce #2 of group world; aborting the job\n");
        }
}

static void a_rank_that_fails_in_a_run_of_all_ranks_ends_the_job(void) {
    if (!have_mpi()) SKIP("no MPI");
    for (int n = 2; n <= 4; n += 2) {
        const int code = run_mpi("ranks-run", n);
        CHECK_MSG(code != 0 && code != HUNG, "exit %d: %s", code, output);
        CHECK_INT(occurrences("rank 1 failed: the disk is full\n"), 1);
    }
}

static void launchers_are_recognised(void) {
    int32_t rank = -1, size = -1;
    CHECK(!syn_mpi_launched(&rank, &size));
    setenv("SLURM_PROCID", "0", 1); /* simulates a batch script that does not use srun */
    setenv("SLURM_NTASKS", "8", 1);
    CHECK(!syn_mpi_launched(&rank, &size));
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    CHECK(syn_mpi_launched(&rank, &size));
    CHECK(rank == 0 && size == 8);
    setenv("PMI_RANK", "3", 1);
    setenv("PMI_SIZE", "5", 1);
    CHECK(syn_mpi_launched(&rank, &size));
    CHECK(rank == 3 && size == 5);
    setenv("PMI_SIZE", "five", 1);
    CHECK(syn_mpi_launched(&rank, &size));
    CHECK_INT(size, 8);
    static const char *const names[] = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS",
                                        "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < COUNT(names); i++) unsetenv(names[i]);
    CHECK(!syn_mpi_launched(NULL, NULL));
}

static void a_launcher_of_another_mpi_is_explained(void) {
    if (!have_mpi()) SKIP("no MPI");
    char command[8192];
    snprintf(
        command, sizeof command,
        "ASAN_OPTIONS=detect_leaks=0 MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 timeout -k 5 60 "
        "'%s' table 2>&1",
        program);
    CHECK_INT(run_command(command), 1);
    CHECK_HAS(output, "error: the launcher started 4 ranks, but MPI reports 1");
}

static void without_mpi_the_constructor_says_so(void) {
    if (syn_mpi_built()) SKIP("this build has MPI");
    syn_comm *comm = NULL;
    syn_error err = {0};
    CHECK_INT(syn_comm_mpi_new(&comm, NULL, &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "this build has no MPI");
}

static const test_case cases[] = {
    {"every_operation_gives_what_naive_loops_give", every_operation_gives_what_naive_loops_give},
    {"calls_that_differ_fail_on_every_rank", calls_that_differ_fail_on_every_rank},
    {"a_lost_rank_ends_the_job", a_lost_rank_ends_the_job},
    {"a_rank_that_fails_in_a_run_of_all_ranks_ends_the_job",
     a_rank_that_fails_in_a_run_of_all_ranks_ends_the_job},
    {"launchers_are_recognised", launchers_are_recognised},
    {"a_launcher_of_another_mpi_is_explained", a_launcher_of_another_mpi_is_explained},
    {"without_mpi_the_constructor_says_so", without_mpi_the_constructor_says_so},
};

MPI_TEST_MAIN(cases)
