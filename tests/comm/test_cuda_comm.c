/* Tests ranks with CUDA devices: reductions are compared with simple ones in double, for ranks that
   are threads or processes, and all ranks must end when one fails. The tests of ops also run on
   such ranks. */

#include <stdlib.h>

#include "ops/ops.h"
#include "tests/support/comm_reference.h"
#include "tests/support/device.h"
#include "tests/support/mpi_job.h"

enum { RANKS = 4, MOST = 1025 };

/* Whether two ranks communicate over NCCL. Ranks that share a device communicate through host
   memory instead. */
static bool by_nccl(void) {
    return ref_cuda_devices() >= 2;
}

/* ---- Every reduction of every type ---- */

static const syn_dtype dtypes[] = {SYN_F32, SYN_F16, SYN_BF16, SYN_I32, SYN_I64};

static double value_of(const void *data, int64_t i, syn_dtype dtype) {
    if (dtype == SYN_F32) return (double)((const float *)data)[i];
    if (dtype == SYN_I32) return ((const int32_t *)data)[i];
    if (dtype == SYN_I64) return (double)((const int64_t *)data)[i];
    return reference_widen(((const uint16_t *)data)[i], dtype);
}

/* The rounding unit for comparisons; 0 means that the bits must be equal. */
static double unit(syn_dtype dtype, syn_reduce how) {
    if (how == SYN_REDUCE_MIN || how == SYN_REDUCE_MAX) return 0;
    return dtype == SYN_F32 ? 0x1p-23 : dtype == SYN_F16 ? 0x1p-10 : dtype == SYN_BF16 ? 0x1p-7 : 0;
}

/* Whether the n elements of `got` equal elements offset .. offset + n - 1 of the reduction of all
   ranks' inputs. NCCL may add in another order and rounds after each addition; the allowed error is
   one unit of the largest intermediate value per rank. */
static bool reduced(void *const *of, int size, size_t offset, const void *got, int64_t n,
                    syn_dtype dtype, syn_reduce how) {
    static _Thread_local uint64_t want[RANKS * MOST];
    reference_reduce((const void *const *)of, size, offset, want, (size_t)n, dtype, how);
    for (int64_t i = 0; i < n; i++) {
        double bound = fabs(value_of(want, i, dtype));
        for (int k = 0; k < size && how != SYN_REDUCE_PROD; k++)
            bound += fabs(value_of(of[k], (int64_t)offset + i, dtype));
        const double apart = fabs(value_of(got, i, dtype) - value_of(want, i, dtype));
        if (!(apart <= size * unit(dtype, how) * bound)) return false;
    }
    return true;
}

typedef struct world {
    syn_ctx *ctx;
    const syn_group *group;
    syn_dtype dtype;
    void *of[RANKS]; /* inputs of each rank, RANKS * n elements */
    int64_t n;
} world;

static syn_tensor input(const world *w, int64_t n) {
    const syn_spec spec = {(int32_t)w->dtype, 1, {n}};
    return syn_input(w->ctx, "x", &spec, w->of[w->group->index]);
}

/* The bytes of all elements of t; NULL after a failure. */
static const char *read_all(const world *w, syn_tensor t) {
    static _Thread_local uint64_t data[RANKS * MOST];
    const int64_t n = t.id ? syn_spec_elems(syn_tensor_spec(w->ctx, t)) : 0;
    const size_t bytes = (size_t)n * syn_dtype_bytes(w->dtype);
    return syn_tensor_read(w->ctx, t, data, bytes) == SYN_OK ? (const char *)data : NULL;
}

static syn_status check_values(const world *w, syn_error *err) {
    const int size = w->group->size, me = w->group->index;
    const size_t part = (size_t)w->n * syn_dtype_bytes(w->dtype);
    const char *got, *said = NULL;
    for (int how = 0; how < SYN_REDUCE_COUNT && !said; how++) {
        got = read_all(w, syn_all_reduce(w->ctx, input(w, w->n), (syn_reduce)how, w->group));
        if (!got || !reduced(w->of, size, 0, got, w->n, w->dtype, (syn_reduce)how))
            said = "all_reduce";
        got = read_all(
            w, syn_reduce_scatter(w->ctx, input(w, size * w->n), (syn_reduce)how, 0, w->group));
        if (!got ||
            !reduced(w->of, size, (size_t)(me * w->n), got, w->n, w->dtype, (syn_reduce)how))
            said = "reduce_scatter";
    }
    got = read_all(w, syn_all_gather(w->ctx, input(w, w->n), 0, w->group));
    for (int k = 0; k < size; k++) {
        if (!got || memcmp(got + (size_t)k * part, w->of[k], part) != 0) said = "all_gather";
    }
    for (int k = 0; k < size; k++) {
        got = read_all(w, syn_broadcast(w->ctx, input(w, w->n), k, w->group));
        if (!got || memcmp(got, w->of[k], part) != 0) said = "broadcast";
    }
    SYN_TRY(syn_ctx_check(w->ctx, err));
    if (!said) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%s of %d %s is not what it should be", said, (int)w->n,
                    syn_dtype_name(w->dtype));
}

static syn_status open_group(syn_comm *comm, uint32_t id, const int32_t *ranks, int32_t n,
                             syn_group **out, syn_error *err) {
    char name[16];
    snprintf(name, sizeof name, "group%u", (unsigned)id);
    return syn_comm_open_group(comm, id, name, ranks, n, out, err);
}

static const int32_t everybody[RANKS] = {0, 1, 2, 3};

static syn_status values_rank(syn_comm *comm, void *arg, syn_error *err) {
    static const int64_t counts[] = {0, 1, 3, 64, MOST};
    static _Thread_local uint64_t data[RANKS][RANKS * MOST];
    world w = {.of = {data[0], data[1], data[2], data[3]}};
    syn_group *group;
    (void)arg;
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&w.ctx, SYN_DEVICE_CUDA, comm, err));
    w.group = group;
    syn_status s = SYN_OK;
    for (size_t i = 0; i < COUNT(counts) * COUNT(dtypes) && s == SYN_OK; i++) {
        w.n = counts[i / COUNT(dtypes)];
        w.dtype = dtypes[i % COUNT(dtypes)];
        for (int k = 0; k < comm->size; k++)
            reference_fill(data[k], (size_t)(comm->size * w.n), w.dtype, 100 * i + (uint64_t)k);
        s = check_values(&w, err);
    }
    syn_ctx_free(w.ctx);
    return s;
}

static void every_reduction_of_every_type(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    CHECK_OK(syn_local_run(RANKS, values_rank, NULL, &err), err);
}

/* ---- Groups that share ranks ---- */

enum { GROUPS = 5, ROUNDS = 40 };

/* All groups of the rank have sums in flight at the same time, in an order that differs between
   rounds. Each element counts the members of the groups, and the result of one sum is the input of
   the next. */
static syn_status groups_rank(syn_comm *comm, void *arg, syn_error *err) {
    static const int32_t members[GROUPS][RANKS] = {
        {0, 1, 2, 3}, {0, 1, 2}, {1, 2, 3}, {0, 3}, {1, 2}};
    static const int32_t sizes[GROUPS] = {4, 3, 3, 2, 2};
    syn_group *groups[GROUPS] = {NULL};
    syn_ctx *ctx = NULL;
    float got = 0;
    (void)arg;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < sizes[g]; i++)
            if (members[g][i] == comm->rank)
                SYN_TRY(open_group(comm, (uint32_t)g + 1, members[g], sizes[g], &groups[g], err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_ctx_set_overlap(ctx, true);
    const syn_tensor one =
        syn_input(ctx, "one", &(syn_spec){SYN_F32, 1, {1}}, (const float[]){1.0f});
    for (int round = 0; round < ROUNDS; round++) {
        syn_tensor sum[GROUPS] = {{0}};
        for (int k = 0; k < GROUPS; k++) {
            const int g = (k * (round % 2 ? 1 : 4) + round) % GROUPS;
            if (groups[g]) sum[g] = syn_all_reduce(ctx, one, SYN_REDUCE_SUM, groups[g]);
        }
        for (int g = 0; g < GROUPS; g++) {
            if (!groups[g]) continue;
            const syn_tensor both = syn_all_reduce(ctx, sum[g], SYN_REDUCE_SUM, groups[g]);
            if (syn_tensor_read(ctx, both, &got, sizeof got) == SYN_OK &&
                got != (float)(sizes[g] * sizes[g]))
                syn_ctx_fail(ctx, SYN_E_FORMAT, "round %d, group %d: %g", round, g, (double)got);
        }
    }
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void groups_that_share_ranks(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    CHECK_OK(syn_local_run(RANKS, groups_rank, NULL, &err), err);
}

/* ---- The cost of a call ---- */

enum { CALLS = 50 };

/* After the first collective, the host only queues collectives. It does not poll NCCL for
   errors. */
static syn_status asking_rank(syn_comm *comm, void *arg, syn_error *err) {
    uint64_t *looks = arg;
    syn_group *group;
    syn_ctx *ctx = NULL;
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_tensor x = syn_input(ctx, "x", &(syn_spec){SYN_F32, 1, {MOST}}, NULL);
    x = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    syn_status s = syn_ctx_sync(ctx);
    const uint64_t before = ref_cuda_calls("ncclCommGetAsyncError");
    for (int i = 0; i < CALLS; i++) x = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    if (comm->rank == 0) *looks = ref_cuda_calls("ncclCommGetAsyncError") - before;
    if (s == SYN_OK) s = syn_ctx_sync(ctx);
    if (s != SYN_OK) s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void calls_do_not_poll_nccl(void) {
    uint64_t looks = 0;
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    CHECK_OK(syn_local_run(2, asking_rank, &looks, &err), err);
    CHECK(looks < CALLS); /* the watchdog thread may poll if the machine is slow */
}

/* ---- Staging memory ---- */

/* Runs sums through host memory. Each is larger than the one before, so new staging memory is
   allocated each time. The device starts its work only when the host waits for it, and must then
   still be able to read the older staging memory. */
static syn_status growing_rank(syn_comm *comm, void *arg, syn_error *err) {
    enum { SUMS = 6 };
    syn_group *group;
    syn_ctx *ctx = NULL;
    syn_tensor sums[SUMS];
    (void)arg;
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    for (int i = 0; i < SUMS; i++) {
        float data[16 << SUMS];
        const syn_spec spec = {SYN_F32, 1, {16 << i}};
        for (int k = 0; k < 16 << i; k++) data[k] = (float)(100 * i + k);
        sums[i] = syn_all_reduce(ctx, syn_input(ctx, "x", &spec, data), SYN_REDUCE_SUM, group);
    }
    for (int i = 0; i < SUMS; i++) {
        float got[16 << SUMS];
        if (syn_tensor_read(ctx, sums[i], got, (size_t)(16 << i) * sizeof *got) != SYN_OK) break;
        for (int k = 0; k < 16 << i; k++)
            if (got[k] != (float)(comm->size * (100 * i + k)))
                syn_ctx_fail(ctx, SYN_E_FORMAT, "sum %d, element %d: %g", i, k, (double)got[k]);
    }
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void staging_memory_that_grows(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (by_nccl()) SKIP("nothing goes through the host");
    setenv("SYN_EMULATED_LAZY", "1", 1);
    CHECK_OK(syn_local_run(2, growing_rank, NULL, &err), err);
    unsetenv("SYN_EMULATED_LAZY");
}

/* ---- Failures ---- */

static syn_status open_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_ctx_free(ctx);
    return SYN_OK;
}

/* The test requests 64 devices, which no machine has. */
static void ranks_share_devices_only_if_asked_to(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    setenv("SYNTORCH_CUDA_SHARED", "0", 1);
    CHECK_INT(syn_local_run(64, open_rank, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "64 ranks need 64 CUDA devices, but this machine has ");
    setenv("SYNTORCH_CUDA_SHARED", "1", 1);
    err.code = SYN_OK;
    CHECK_OK(syn_local_run(2, open_rank, NULL, &err), err);
    unsetenv("SYNTORCH_CUDA_SHARED");
}

typedef struct reported {
    /* This sum is the first one, so the ranks of the group connect during the call, and their hosts
       wait in it. */
    bool first;
    syn_error by[RANKS];
} reported;

/* Rank 2 fails while the other ranks run a sum or are about to call it. */
static syn_status failing_rank(syn_comm *comm, void *arg, syn_error *err) {
    reported *t = arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_tensor x = syn_input(ctx, "x", &(syn_spec){SYN_F32, 1, {MOST}}, NULL);
    if (!t->first) x = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    if (comm->rank == 2) syn_ctx_fail(ctx, SYN_E_FORMAT, "the text ended");
    syn_push_scope(ctx, "layer");
    syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    syn_status s = syn_ctx_sync(ctx);
    if (s != SYN_OK) s = syn_ctx_check(ctx, err);
    t->by[comm->rank] = *err;
    syn_ctx_free(ctx);
    return s;
}

static void a_rank_that_fails_ends_the_others(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int repeat = 0; repeat < 5; repeat++) {
        reported t = {.first = repeat % 2 != 0};
        if (t.first) setenv("NCCL_RUNTIME_CONNECT", "1", 1);
        syn_error err = {0};
        CHECK(syn_local_run(RANKS, failing_rank, &t, &err) != SYN_OK);
        CHECK_HAS(err.text, "the text ended");
        for (int r = 0; r < RANKS; r++) CHECK_HAS(t.by[r].text, "the text ended");
        setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    }
}

/* Freeing rank 0's context waits for rank 1's context, and rank 1 waits for rank 0 to end. */
static syn_status alone_rank(syn_comm *comm, void *arg, syn_error *err) {
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    int32_t none;
    (void)arg;
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    if (comm->rank == 1) return syn_comm_recv(comm, &none, 1, SYN_I32, 0, 1, err);
    return syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err);
}

static void waiting_for_a_rank_times_out(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (!by_nccl()) SKIP("ranks share devices");
    setenv("SYNTORCH_NCCL_TIMEOUT_S", "0.2", 1);
    CHECK_INT(syn_local_run(2, alone_rank, NULL, &err), SYN_E_COMM);
    CHECK_HAS(err.text, "group1: other ranks did not join within 0.2 s");
    unsetenv("SYNTORCH_NCCL_TIMEOUT_S");
}

/* ---- Processes ---- */

/* Rank 0 waits for a sum that rank 1 never calls. It waits on its device or, if the sum is the
   first one, inside the call. */
static syn_status miss_sum(syn_comm *comm, bool first, syn_error *err) {
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    int32_t none;
    /* Ranks connect in the first collective, not earlier. */
    if (first) setenv("NCCL_RUNTIME_CONNECT", "1", 1);
    SYN_TRY(open_group(comm, 1, everybody, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_tensor x = syn_input(ctx, "x", &(syn_spec){SYN_F32, 1, {MOST}}, NULL);
    if (!first) x = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    if (comm->rank == 1) return syn_comm_recv(comm, &none, 1, SYN_I32, 0, 1, err);
    syn_push_scope(ctx, "layer");
    syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    syn_status s = syn_ctx_sync(ctx);
    if (s != SYN_OK) s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static syn_status late_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    return miss_sum(comm, false, err);
}

static syn_status first_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    return miss_sum(comm, true, err);
}

/* Simulates a launcher that makes only one device visible to each rank: a separate device, or the
   same device for all ranks. */
static syn_status see_one_device(syn_comm *comm, int32_t first, syn_error *err) {
    char text[16];
    snprintf(text, sizeof text, "%d", (int)first);
    setenv("SYN_EMULATED_DEVICES", "1", 1);
    setenv("SYN_EMULATED_FIRST", text, 1);
    return groups_rank(comm, NULL, err);
}

static syn_status own_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    return see_one_device(comm, comm->rank, err);
}

static syn_status same_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    return see_one_device(comm, 0, err);
}

static int run_rank(const char *mode) {
    static const struct {
        const char *mode;
        syn_rank_main *main;
    } modes[] = {{"values", values_rank}, {"groups", groups_rank}, {"late", late_rank},
                 {"first", first_rank},   {"own", own_rank},       {"same", same_rank}};
    const syn_mpi_options options = {.log = log_line};
    syn_comm *comm = NULL;
    syn_error err = {0};
    syn_status s = syn_comm_mpi_new(&comm, &options, &err);
    for (size_t i = 0; i < COUNT(modes) && s == SYN_OK; i++)
        if (strcmp(mode, modes[i].mode) == 0) s = modes[i].main(comm, NULL, &err);
    if (s == SYN_OK) printf("rank %d is done\n", (int)comm->rank);
    return rank_ends(comm, s, &err);
}

static bool have_processes(void) {
    ref_share_devices(RANKS);
    return ref_has_cuda() && have_mpi();
}

static void processes_give_the_same(void) {
    if (!have_processes()) SKIP("no CUDA device, or no MPI");
    for (int n = 2; n <= RANKS; n += 2) {
        CHECK_MSG(run_mpi("values", n) == 0, "%s", output);
        CHECK_INT(occurrences("is done"), n);
    }
    CHECK_MSG(run_mpi("groups", RANKS) == 0, "%s", output);
    CHECK_INT(occurrences("is done"), RANKS);
}

static void processes_may_each_see_one_device(void) {
    if (!have_processes()) SKIP("no CUDA device, or no MPI");
    if (!getenv("SYN_EMULATED_DEVICES")) SKIP("the device is not emulated");
    if (ref_cuda_devices() < RANKS) SKIP("ranks share devices");
    setenv("SYNTORCH_CUDA_SHARED", "0", 1);
    CHECK_MSG(run_mpi("own", RANKS) == 0, "%s", output);
    CHECK_INT(occurrences("is done"), RANKS);
    const int code = run_mpi("same", RANKS);
    unsetenv("SYNTORCH_CUDA_SHARED");
    CHECK_MSG(code != 0 && code != HUNG, "code %d: %s", code, output);
    CHECK_HAS(output,
              "error: rank 1 has no CUDA device of its own: other ranks use the 1 that it sees");
}

/* Checks that the waiting process prints `sentence` and that the whole job ends. */
static void ends_saying(const char *mode, const char *variable, const char *value,
                        const char *sentence) {
    if (!have_processes()) SKIP("no CUDA device, or no MPI");
    if (!by_nccl()) SKIP("ranks share devices");
    setenv(variable, value, 1);
    const int code = run_mpi(mode, 2);
    unsetenv(variable);
    CHECK_MSG(code != 0 && code != HUNG, "code %d: %s", code, output);
    CHECK_HAS(output, sentence);
}

static void waiting_for_a_process_times_out(void) {
    ends_saying("late", "SYNTORCH_NCCL_TIMEOUT_S", "0.2",
                "error: waiting for all_reduce in layer: the other ranks of the group did not join "
                "within 0.2 s");
    ends_saying(
        "first", "SYNTORCH_NCCL_TIMEOUT_S", "0.2",
        "error: all_reduce in layer: the other ranks of the group did not join within 0.2 s");
}

/* NCCL itself reports the failure. On a busy machine it may do so before the first sum, which has
   no scope, is done. */
static void a_lost_process_is_reported(void) {
    if (!getenv("SYN_EMULATED_DEVICES")) SKIP("the device is not emulated");
    if (!have_processes() || !by_nccl()) SKIP("no CUDA device, no MPI, or ranks share devices");
    ends_saying("late", "SYN_EMULATED_FAIL", "ncclRemoteError:20", "error: waiting for all_reduce");
    CHECK_HAS(output, ": NCCL failed at group1: remote error");
    ends_saying("first", "SYN_EMULATED_FAIL", "ncclRemoteError:1",
                "error: all_reduce in layer: NCCL failed at group1: remote error");
}

static const test_case cases[] = {
    {"every_reduction_of_every_type", every_reduction_of_every_type},
    {"groups_that_share_ranks", groups_that_share_ranks},
    {"calls_do_not_poll_nccl", calls_do_not_poll_nccl},
    {"staging_memory_that_grows", staging_memory_that_grows},
    {"ranks_share_devices_only_if_asked_to", ranks_share_devices_only_if_asked_to},
    {"a_rank_that_fails_ends_the_others", a_rank_that_fails_ends_the_others},
    {"waiting_for_a_rank_times_out", waiting_for_a_rank_times_out},
    {"processes_give_the_same", processes_give_the_same},
    {"processes_may_each_see_one_device", processes_may_each_see_one_device},
    {"waiting_for_a_process_times_out", waiting_for_a_process_times_out},
    {"a_lost_process_is_reported", a_lost_process_is_reported},
};

MPI_TEST_MAIN(cases)
