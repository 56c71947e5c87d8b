/* Tests asynchronous operations over MPI: they progress without further calls, and overlap with
   each other and with ops. The program starts itself under mpirun (mpi_job.h). */
#include "comm/comm.h"
#include "ops/ops.h"
#include "tests/support/comm_calls.h"
#include "tests/support/comm_program.h"
#include "tests/support/comm_reference.h"
#include "tests/support/files.h"
#include "tests/support/mpi_job.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 4, LARGE = 300000, GO = 77 };

/* Ranks synchronize without MPI: one rank creates a file, and the others poll for it. */
static void mark(void) {
    close(open(getenv("SYN_TEST_MARK"), O_WRONLY | O_CREAT, 0600));
}

static void await_mark(void) {
    const struct timespec moment = {0, 1000000};
    while (access(getenv("SYN_TEST_MARK"), F_OK) != 0) nanosleep(&moment, NULL);
}

/* ---- Modes ---- */

/* Rank 0 starts a sum and a receive and notifies the other ranks. It does not call MPI until the
   other ranks have the result of the sum and the message is in its own buffer. */
static syn_status meanwhile(syn_comm *comm, syn_error *err) {
    static float in[LARGE], out[LARGE], got[LARGE];
    syn_group *world = NULL;
    syn_request *reduced = NULL, *received = NULL;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    for (int i = 0; i < LARGE; i++) in[i] = 1;
    if (comm->rank == 0) {
        SYN_TRY(start_f32_sum(comm, world, in, out, LARGE, &reduced, err));
        SYN_TRY(start_f32_message(comm, SYN_COMM_RECV, got, LARGE, 1, GO, &received, err));
        for (int32_t r = 1; r < comm->size; r++)
            SYN_TRY(syn_comm_send(comm, in, 1, SYN_F32, r, GO, err));
        await_mark();
        const volatile float *last = &got[LARGE - 1];
        while (*last != 1) {
            const struct timespec moment = {0, 1000000};
            nanosleep(&moment, NULL);
        }
        SYN_TRY(wait_for(comm, received, err));
        SYN_TRY(wait_for(comm, reduced, err));
    } else {
        SYN_TRY(syn_comm_recv(comm, got, 1, SYN_F32, 0, GO, err));
        SYN_TRY(run_all_reduce(comm, world, in, out, LARGE, SYN_F32, SYN_REDUCE_SUM, err));
        if (comm->rank == 1) SYN_TRY(syn_comm_send(comm, in, LARGE, SYN_F32, 0, GO, err));
        if (comm->rank == 1) mark();
    }
    if (out[0] != (float)comm->size || out[LARGE - 1] != (float)comm->size)
        return SYN_FAIL(err, SYN_E_FORMAT, "the sum is %g", (double)out[0]);
    return SYN_OK;
}

/* Many operations are in flight at the same time: several in each of two groups, and messages.
   Ranks start the groups in different orders where that is allowed, and wait in different
   orders. */
enum { ROUNDS = 40, DEPTH = 5, ELEMS = 3000 };

typedef struct operation {
    syn_comm_call x;
    syn_segment one;
    syn_request *request;
    size_t bytes; /* size of the result */
    uint64_t in[ELEMS * MAX_RANKS], got[ELEMS * MAX_RANKS], want[ELEMS * MAX_RANKS];
} operation;

static void plan(operation *o, const syn_group *group, uint64_t dice) {
    static const syn_comm_kind kinds[] = {SYN_COMM_ALL_REDUCE, SYN_COMM_ALL_GATHER,
                                          SYN_COMM_REDUCE_SCATTER, SYN_COMM_BROADCAST};
    const size_t n = dice >> 8 & 1 ? (dice >> 16) % ELEMS : (dice >> 16) % 20;
    o->x = (syn_comm_call){.kind = kinds[dice % 4],
                           .dtype = (syn_dtype)((dice >> 32) % SYN_DTYPE_COUNT),
                           .reduce = (syn_reduce)((dice >> 40) % SYN_REDUCE_COUNT),
                           .root = (int32_t)((dice >> 48) % (uint64_t)group->size),
                           .group = group};
    set_data(&o->x, &o->one, o->in, o->got, n);
    const size_t results = o->x.kind == SYN_COMM_ALL_GATHER ? n * (size_t)group->size : n;
    o->bytes = results * syn_dtype_bytes(o->x.dtype);
    reference_fill(o->in, n * (size_t)group->size, o->x.dtype, dice + (uint64_t)group->index);
}

static syn_status finish(syn_comm *comm, operation *o, syn_error *err) {
    SYN_TRY(wait_for(comm, o->request, err));
    if (memcmp(o->got, o->want, o->bytes) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%s of %d elements of %s: other bits when started",
                    syn_comm_kind_name(o->x.kind), (int)o->one.n_elems, syn_dtype_name(o->x.dtype));
}

static syn_status check_round(syn_comm *comm, syn_group *const *groups, bool any_order,
                              uint64_t *common, uint64_t *own, syn_error *err) {
    static operation all[2 * DEPTH];
    static float sent[2][ELEMS], got[2][ELEMS];
    syn_request *received[2] = {NULL};
    const int32_t next = (comm->rank + 1) % comm->size,
                  last = (comm->rank + comm->size - 1) % comm->size;
    /* First with blocking calls, to get the expected results. */
    for (int i = 0; i < 2 * DEPTH; i++) {
        plan(&all[i], groups[i / DEPTH], random_u64(common));
        syn_comm_call x = all[i].x;
        syn_segment one;
        set_data(&x, &one, all[i].in, all[i].want, all[i].x.n_part);
        SYN_TRY(syn_comm_run(comm, &x, NULL, err));
    }
    for (int k = 0; k < 2; k++)
        SYN_TRY(start_f32_message(comm, SYN_COMM_RECV, got[k], ELEMS, last, 3, &received[k], err));
    const int first = any_order && comm->rank % 2 ? 1 : 0;
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < DEPTH; i++) {
            operation *o = &all[(g ^ first) * DEPTH + i];
            SYN_TRY(start_call(comm, o->x, &o->request, err));
        }
    for (int k = 0; k < 2; k++) {
        sent[k][ELEMS - 1] = (float)(comm->rank * 2 + k);
        SYN_TRY(syn_comm_send(comm, sent[k], ELEMS, SYN_F32, next, 3, err));
    }
    const int from = (int)(random_u64(own) % (2 * DEPTH));
    for (int i = 0; i < 2 * DEPTH; i++)
        SYN_TRY(finish(comm, &all[(from + i * 3) % (2 * DEPTH)], err));
    for (int k = 1; k >= 0; k--) {
        SYN_TRY(wait_for(comm, received[k], err));
        if (got[k][ELEMS - 1] != (float)(last * 2 + k))
            return SYN_FAIL(err, SYN_E_FORMAT, "message %d is another", k);
    }
    return SYN_OK;
}

static syn_status rounds(syn_comm *comm, bool any_order, syn_error *err) {
    uint64_t common = 11, own = 5 + (uint64_t)comm->rank;
    syn_group *groups[2] = {NULL};
    for (uint32_t g = 0; g < 2; g++)
        SYN_TRY(open_first(comm, g + 1, "world", comm->size, &groups[g], err));
    for (int i = 0; i < ROUNDS; i++)
        SYN_TRY(check_round(comm, groups, any_order, &common, &own, err));
    return SYN_OK;
}

static syn_status programs(syn_comm *comm, bool in_order, syn_error *err) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const comm_program p = {.seed = seed, .n_steps = 60, .in_order = in_order, .any_sum = true};
        SYN_TRY(comm_program_run(comm, &p, err));
    }
    return SYN_OK;
}

/* Runs a few ops with every kind of communication and stores their results in *values. */
static syn_status ops_program(syn_comm *comm, const syn_group *group, bool overlap,
                              float values[16][16], uint64_t *hash, syn_error *err) {
    syn_ctx *ctx = NULL;
    const syn_spec spec = {SYN_F32, 2, {4, 4}};
    const int32_t next = (comm->rank + 1) % comm->size,
                  last = (comm->rank + comm->size - 1) % comm->size;
    syn_tensor kept[16];
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, overlap);
    for (int i = 0; i < 16; i += 4) {
        float data[16];
        for (int k = 0; k < 16; k++) data[k] = (float)(comm->rank * 5 + k * 3 + i) / 7;
        const syn_tensor x = syn_input(ctx, "x", &spec, data);
        kept[i] = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
        const syn_tensor all = syn_all_gather(ctx, x, 1, group);
        kept[i + 1] = syn_reduce_scatter(ctx, all, SYN_REDUCE_MAX, 1, group);
        syn_send(ctx, x, next, i);
        kept[i + 2] = syn_recv(ctx, &spec, last, i);
        kept[i + 3] = syn_broadcast(ctx, syn_scale(ctx, x, 3), 1, group);
        syn_drop(ctx, x);
    }
    for (int i = 0; i < 16 && syn_ctx_status(ctx) == SYN_OK; i++)
        (void)!syn_tensor_read(ctx, kept[i], values[i], sizeof values[i]);
    *hash = syn_trace_hash(syn_ctx_trace(ctx));
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static syn_status ops(syn_comm *comm, syn_error *err) {
    static float values[2][16][16];
    uint64_t hash[2] = {0};
    syn_group *world = NULL;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    for (int k = 0; k < 2; k++) SYN_TRY(ops_program(comm, world, k == 1, values[k], &hash[k], err));
    if (memcmp(values[0], values[1], sizeof values[0]) != 0 || hash[0] != hash[1])
        return SYN_FAIL(err, SYN_E_FORMAT, "overlap changed rows or bits");
    return SYN_OK;
}

/* Leaves started operations without waiting for them. Closing the communicator finishes the sum and
   cancels the receive. */
static syn_status left(syn_comm *comm, syn_error *err) {
    static float in[LARGE], out[LARGE], never[10];
    syn_group *world = NULL;
    syn_request *request = NULL, *received = NULL;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    SYN_TRY(
        start_f32_message(comm, SYN_COMM_RECV, never, 10, comm->rank ? 0 : 1, GO, &received, err));
    SYN_TRY(start_f32_sum(comm, world, in, out, LARGE, &request, err));
    return comm->rank == 0 ? SYN_OK : wait_for(comm, request, err);
}

static syn_status mismatch(syn_comm *comm, syn_error *err) {
    static float in[128 * MAX_RANKS], out[128 * MAX_RANKS];
    syn_group *world = NULL;
    syn_request *requests[3] = {NULL};
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    for (int i = 0; i < 3; i++) {
        syn_segment one;
        syn_comm_call x = {.kind = i == 1 && comm->rank == 1 ? SYN_COMM_ALL_GATHER
                                                             : SYN_COMM_ALL_REDUCE,
                           .group = world};
        set_data(&x, &one, in, out, i == 1 ? 128 : 1);
        SYN_TRY(start_call(comm, x, &requests[i], err));
    }
    /* This fails because an earlier operation has failed. */
    return wait_for(comm, requests[2], err);
}

/* Rank 1 never joins. */
static syn_status stuck(syn_comm *comm, syn_error *err) {
    static float in, out;
    syn_group *world = NULL;
    syn_request *request = NULL;
    SYN_TRY(open_first(comm, 1, "world", comm->size, &world, err));
    if (comm->rank == 1) pause(); /* forever */
    SYN_TRY(start_f32_sum(comm, world, &in, &out, 1, &request, err));
    return wait_for(comm, request, err);
}

static int run_rank(const char *mode) {
    syn_mpi_options options = {.log = log_line, .overlap = strstr(mode, "plain") == NULL};
    options.check_collectives = strstr(mode, "checked") != NULL || strcmp(mode, "mismatch") == 0;
    if (strcmp(mode, "stuck") == 0) {
        options.watchdog_s = 0.5;
        options.abort_s = 2;
    }
    syn_comm *comm = NULL;
    syn_error err = {0};
    syn_status status = syn_comm_mpi_new(&comm, &options, &err);
    if (status != SYN_OK) printf("no communicator: %s\n", err.text);
    if (status != SYN_OK) return status == SYN_E_UNSUPPORTED ? 77 : 1;
    if (strcmp(mode, "meanwhile") == 0) status = meanwhile(comm, &err);
    if (strcmp(mode, "any-order") == 0) status = rounds(comm, true, &err);
    if (strcmp(mode, "checked") == 0) status = rounds(comm, true, &err);
    if (strcmp(mode, "plain") == 0) status = rounds(comm, false, &err);
    if (strncmp(mode, "programs", 8) == 0) status = programs(comm, !options.overlap, &err);
    if (strncmp(mode, "ops", 3) == 0) status = ops(comm, &err);
    if (strcmp(mode, "left") == 0) status = left(comm, &err);
    if (strcmp(mode, "mismatch") == 0) status = mismatch(comm, &err);
    if (strcmp(mode, "stuck") == 0) status = stuck(comm, &err);
    return rank_ends(comm, status, &err);
}

/* ---- The test ---- */

/* Runs a mode on n ranks. Returns its exit code, or 77 if MPI supports only one thread. */
static int run_mode(const char *mode, int n) {
    char path[600];
    snprintf(path, sizeof path, "%s", in_folder("mark"));
    setenv("SYN_TEST_MARK", path, 1);
    const int code = run_mpi(mode, n);
    unlink(path);
    return strstr(output, "no communicator: ") != NULL && code != 1 ? 77 : code;
}

static void check_modes(const char *const *modes, size_t n_modes) {
    for (size_t m = 0; m < n_modes; m++)
        for (int n = 2; n <= 4; n += 2) {
            const int code = run_mode(modes[m], n);
            if (code == 77) SKIP("this MPI library lacks MPI_THREAD_MULTIPLE");
            CHECK_MSG(code == 0, "%s on %d ranks: exit %d: %s", modes[m], n, code, output);
        }
}

static void started_operations_progress_without_the_rank(void) {
    static const char *const modes[] = {"meanwhile"};
    if (!have_mpi()) SKIP("no MPI");
    check_modes(modes, COUNT(modes));
}

static void started_operations_give_the_bits_of_blocking_ones(void) {
    static const char *const modes[] = {"any-order", "checked", "plain", "ops", "ops-plain"};
    if (!have_mpi()) SKIP("no MPI");
    check_modes(modes, COUNT(modes));
}

static void random_programs_give_what_a_plain_computation_gives(void) {
    static const char *const modes[] = {"programs", "programs-checked", "programs-plain"};
    if (!have_mpi()) SKIP("no MPI");
    check_modes(modes, COUNT(modes));
}

static void close_finishes_operations_nobody_waited_for(void) {
    static const char *const modes[] = {"left"};
    if (!have_mpi()) SKIP("no MPI");
    check_modes(modes, COUNT(modes));
}

static void calls_that_differ_fail_on_every_rank(void) {
    if (!have_mpi()) SKIP("no MPI");
    for (int n = 2; n <= 4; n += 2) {
        const int code = run_mode("mismatch", n);
        if (code == 77) SKIP("this MPI library lacks MPI_THREAD_MULTIPLE");
        CHECK_MSG(code != 0, "%s", output);
        CHECK_MSG(occurrences("error: rank 0 calls all_reduce(sum, f32, 128 elements) in group "
                              "world (#2) but rank 1 calls all_gather(f32, 128 elements)\n") == n,
                  "%s", output);
    }
}

static void the_watchdog_names_the_waiting_operation(void) {
    if (!have_mpi()) SKIP("no MPI");
    const int code = run_mode("stuck", 2);
    if (code == 77) SKIP("this MPI library lacks MPI_THREAD_MULTIPLE");
    CHECK_MSG(code != 0 && code != HUNG, "exit %d: %s", code, output);
    CHECK_HAS(output, " s in all_reduce #1 of group world\n");
    CHECK_HAS(output, "s in all_reduce #1 of group world; aborting the job\n");
}

static const test_case cases[] = {
    {"started_operations_progress_without_the_rank", started_operations_progress_without_the_rank},
    {"started_operations_give_the_bits_of_blocking_ones",
     started_operations_give_the_bits_of_blocking_ones},
    {"random_programs_give_what_a_plain_computation_gives",
     random_programs_give_what_a_plain_computation_gives},
    {"close_finishes_operations_nobody_waited_for", close_finishes_operations_nobody_waited_for},
    {"calls_that_differ_fail_on_every_rank", calls_that_differ_fail_on_every_rank},
    {"the_watchdog_names_the_waiting_operation", the_watchdog_names_the_waiting_operation},
};

MPI_TEST_MAIN(cases)
