/* Tests the communicator of in-process ranks: the results of all collectives and messages are
   compared with naive loops (comm_reference.h). test_comm_failures.c tests failures, and
   test_comm_mpi.c tests MPI. */
#include <sched.h>
#include <time.h>

#include "comm/comm_local.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

#include "tests/support/comm_calls.h"
#include "tests/support/comm_reference.h"
#include "tests/support/random.h"

static const int32_t world_sizes[] = {1, 2, 3, 4, 8};
static const size_t sizes[] = {0, 1, 7, 4096, 100003};

/* One collective, with the input and the expected output of every rank. */
typedef struct job {
    syn_comm_kind kind;
    syn_dtype dtype;
    syn_reduce reduce;
    size_t n; /* number of elements of a rank's input or, for reduce_scatter, of its output */
    bool in_place, list;
    int32_t size, root;
    void *in[8], *want[8];
    size_t in_elems, out_elems;
} job;

/* Splits in and out into the consecutive segments of a tensor list, or into a single segment.
   Returns the number of segments. */
static int32_t cut(const job *j, char *in, char *out, syn_segment *segments) {
    const size_t parts[] = {j->n / 7, 0, j->n / 2, j->n / 50, j->n / 4};
    const int32_t n_parts = j->list ? (int32_t)COUNT(parts) : 0;
    const size_t bytes = syn_dtype_bytes(j->dtype);
    size_t at = 0;
    for (int32_t i = 0; i < n_parts; at += parts[i++])
        segments[i] = (syn_segment){in + at * bytes, out + at * bytes, parts[i]};
    segments[n_parts] = (syn_segment){in + at * bytes, out + at * bytes, j->n - at};
    return n_parts + 1;
}

/* Runs the collective. With `started`, starts it and then waits for it. */
static syn_status run_job(syn_comm *comm, const syn_group *group, const job *j, void *in, void *out,
                          bool started, syn_error *err) {
    syn_segment segments[6];
    const int32_t n = cut(j, in, out, segments);
    syn_comm_call x = {.kind = j->kind,
                       .dtype = j->dtype,
                       .reduce = j->reduce,
                       .root = j->root,
                       .n_segments = n,
                       .group = group,
                       .segments = segments};
    if (!j->list) set_data(&x, segments, in, out, j->n);
    if (!started) return syn_comm_run(comm, &x, NULL, err);
    syn_request *request = NULL;
    SYN_TRY(comm->ops->start(comm, &x, &request, err));
    return comm->ops->wait(comm, request, NULL, err);
}

static syn_status job_rank(syn_comm *comm, void *arg, syn_error *err) {
    const job *j = arg;
    const size_t bytes = syn_dtype_bytes(j->dtype);
    int32_t ranks[8];
    for (int32_t r = 0; r < j->size; r++) ranks[r] = r;
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "world", ranks, j->size, &group, err));
    unsigned char *in = malloc(j->in_elems * bytes + 1);
    unsigned char *out = malloc(j->out_elems * bytes + 1);
    syn_status status = SYN_OK;
    for (int again = 0; again < 2 && status == SYN_OK; again++) {
        memcpy(in, j->in[comm->rank], j->in_elems * bytes);
        memset(out, 0xa5, j->out_elems * bytes + 1);
        unsigned char *to = j->in_place ? in : out;
        status = run_job(comm, group, j, in, to, again == 1, err);
        if (status == SYN_OK && memcmp(to, j->want[comm->rank], j->out_elems * bytes) != 0)
            status = SYN_FAIL(err, SYN_E_FORMAT, "rank %d got wrong elements", (int)comm->rank);
        if (status == SYN_OK && out[j->out_elems * bytes] != 0xa5)
            status = SYN_FAIL(err, SYN_E_FORMAT, "rank %d: written past the end", (int)comm->rank);
        if (!j->in_place && memcmp(in, j->in[comm->rank], j->in_elems * bytes) != 0)
            status = SYN_FAIL(err, SYN_E_FORMAT, "rank %d: input changed", (int)comm->rank);
    }
    free(in);
    free(out);
    return status;
}

static void make_job(job *j, uint64_t seed) {
    const size_t bytes = syn_dtype_bytes(j->dtype), size = (size_t)j->size;
    j->in_elems = j->kind == SYN_COMM_REDUCE_SCATTER ? j->n * size : j->n;
    j->out_elems = j->kind == SYN_COMM_ALL_GATHER ? j->n * size : j->n;
    for (int32_t r = 0; r < j->size; r++) {
        j->in[r] = malloc(j->in_elems * bytes + 1);
        j->want[r] = malloc(j->out_elems * bytes + 1);
        reference_fill(j->in[r], j->in_elems, j->dtype, seed + (uint64_t)r * 977);
    }
    const void *const *ins = (const void *const *)j->in;
    for (int32_t r = 0; r < j->size; r++) {
        if (j->kind == SYN_COMM_ALL_REDUCE && r > 0) memcpy(j->want[r], j->want[0], j->n * bytes);
        else if (j->kind == SYN_COMM_ALL_REDUCE)
            reference_reduce(ins, j->size, 0, j->want[r], j->n, j->dtype, j->reduce);
        else if (j->kind == SYN_COMM_REDUCE_SCATTER)
            reference_reduce(ins, j->size, j->n * (size_t)r, j->want[r], j->n, j->dtype, j->reduce);
        else if (j->kind == SYN_COMM_BROADCAST) memcpy(j->want[r], j->in[j->root], j->n * bytes);
        else
            for (size_t k = 0; k < size; k++)
                memcpy((char *)j->want[r] + k * j->n * bytes, j->in[k], j->n * bytes);
    }
}

static void check_job(job *j, uint64_t seed) {
    syn_error err = {0};
    make_job(j, seed);
    const syn_status status = syn_local_run(j->size, job_rank, j, &err);
    for (int32_t r = 0; r < j->size; r++) {
        free(j->in[r]);
        free(j->want[r]);
    }
    CHECK_MSG(status == SYN_OK, "%s %s %s n=%zu ranks=%d%s: %s", syn_comm_kind_name(j->kind),
              syn_dtype_name(j->dtype), syn_reduce_name(j->reduce), j->n, (int)j->size,
              j->in_place ? " in place" : "", err.text);
}

/* Which reductions to test: EACH tests all of them, IN_TURN one per case, alternately. NONE tests
   only the first; it is for collectives that do not reduce. */
typedef enum reductions { EACH, IN_TURN, NONE } reductions;

static void check_table_of(syn_comm_kind kind, reductions which, bool in_place, bool list) {
    uint64_t seed = 1;
    for (size_t w = 0; w < COUNT(world_sizes); w++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int d = 0; d < SYN_DTYPE_COUNT; d++)
                for (int i = 0; i < (which == EACH ? (int)SYN_REDUCE_COUNT : 1); i++, seed++) {
                    if (TEST_REDUCED && seed % 7 != 0) continue; /* a sample of each kind */
                    const int turn = ((int)w + (int)s + d) % (int)SYN_REDUCE_COUNT;
                    const int r = which == IN_TURN ? turn : i;
                    /* The input of reduce_scatter has `size` times as many elements. */
                    const bool many = kind == SYN_COMM_REDUCE_SCATTER && world_sizes[w] > 3;
                    const size_t n = many && sizes[s] > 20000 ? 12503 : sizes[s];
                    job j = {.kind = kind,
                             .dtype = (syn_dtype)d,
                             .reduce = (syn_reduce)r,
                             .n = n,
                             .size = world_sizes[w],
                             .root = world_sizes[w] - 1,
                             .in_place = in_place,
                             .list = list};
                    check_job(&j, seed);
                    if (test_failures > 0) return;
                }
}

static void check_table(syn_comm_kind kind, reductions which, bool in_place) {
    check_table_of(kind, which, in_place, false);
}

static void all_reduce_is_the_reduction_in_rank_order(void) {
    check_table(SYN_COMM_ALL_REDUCE, EACH, false);
}
static void all_reduce_works_in_place(void) {
    check_table(SYN_COMM_ALL_REDUCE, IN_TURN, true);
}
static void reduce_scatter_gives_each_its_part(void) {
    check_table(SYN_COMM_REDUCE_SCATTER, EACH, false);
}
static void all_gather_is_rank_after_rank(void) {
    check_table(SYN_COMM_ALL_GATHER, NONE, false);
}
static void broadcast_copies_the_root(void) {
    check_table(SYN_COMM_BROADCAST, NONE, false);
    check_table(SYN_COMM_BROADCAST, NONE, true);
}

static void lists_give_what_their_segments_give(void) {
    check_table_of(SYN_COMM_ALL_REDUCE, IN_TURN, true, true);
    check_table_of(SYN_COMM_ALL_REDUCE, IN_TURN, false, true);
    check_table_of(SYN_COMM_BROADCAST, NONE, true, true);
    check_table_of(SYN_COMM_BROADCAST, NONE, false, true);
}

/* Every f16 and bf16 value is unchanged by a sum with zero, and sums of two values are rounded to
   nearest even. */
static syn_status all_halves_rank(syn_comm *comm, void *arg, syn_error *err) {
    const syn_dtype dtype = *(const syn_dtype *)arg;
    const int32_t ranks[] = {0, 1};
    enum { N = 65536 };
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "pair", ranks, 2, &group, err));
    uint16_t *in = malloc(N * sizeof *in), *other = malloc(N * sizeof *in),
             *out = malloc(N * sizeof *in);
    syn_status status = SYN_OK;
    for (uint32_t step = 0; step < 12 && status == SYN_OK; step++) {
        for (uint32_t i = 0; i < N; i++) {
            const uint16_t mine = (uint16_t)i,
                           second = (uint16_t)(step == 0 ? 0 : i * 40503U + step * 7919U);
            in[i] = comm->rank == 0 ? mine : second;
            other[i] = comm->rank == 0 ? second : mine;
        }
        status = run_all_reduce(comm, group, in, out, N, dtype, SYN_REDUCE_SUM, err);
        for (uint32_t i = 0; i < N && status == SYN_OK; i++) {
            const double a = reference_widen(in[i], dtype), b = reference_widen(other[i], dtype);
            const double sum = (double)((float)a + (float)b);
            const uint16_t want = reference_narrow(sum, dtype);
            const bool both_nan = isnan(sum) && isnan(reference_widen(out[i], dtype));
            if (out[i] != want && !both_nan)
                status = SYN_FAIL(err, SYN_E_FORMAT, "%s %#x + %#x: %#x, not %#x",
                                  syn_dtype_name(dtype), in[i], other[i], out[i], want);
        }
    }
    free(in);
    free(other);
    free(out);
    return status;
}

static void halves_round_to_nearest_even(void) {
    syn_dtype dtypes[] = {SYN_F16, SYN_BF16};
    for (size_t i = 0; i < 2; i++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, all_halves_rank, &dtypes[i], &err), err);
    }
}

/* Rank 0 finishes its part of a collective before rank 1 does. The time that rank 0 then waits for
   rank 1 counts as wait time, not as transfer time. */
static syn_status leaving_rank(syn_comm *comm, void *arg, syn_error *err) {
    const int32_t ranks[] = {0, 1};
    syn_group *group = NULL;
    uint64_t *waited_ns = arg, origin_ns = comm->origin_ns;
    SYN_TRY(syn_comm_open_group(comm, 1, "g", ranks, 2, &group, err));
    syn__local_group *shared = group->impl;
    const struct timespec moment = {0, 1000000};
    while (comm->rank == 1 && atomic_load(&shared->left) == 0) sched_yield();
    if (comm->rank == 1) nanosleep(&moment, NULL);
    syn_request r = {.sig = {.comm_call = {.group = group}}, .on_main = true};
    syn__local_leave((syn__local *)(void *)comm, &r);
    waited_ns[comm->rank] = r.times.wait_ns;
    return origin_ns != 0 ? SYN_OK : SYN_FAIL(err, SYN_E_FORMAT, "times have no common origin");
}

static void leaving_is_waiting(void) {
    syn_error err = {0};
    uint64_t waited_ns[2];
    CHECK_OK(syn_local_run(2, leaving_rank, waited_ns, &err), err);
    CHECK(waited_ns[0] > 0);
    CHECK_INT(waited_ns[1], 0);
}

static syn_status nan_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    const int32_t ranks[] = {0, 1, 2};
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "g", ranks, 3, &group, err));
    for (int where = 0; where < 3; where++)
        for (int r = SYN_REDUCE_MIN; r <= SYN_REDUCE_MAX; r++) {
            float in[40], out[40];
            for (int i = 0; i < 40; i++)
                in[i] = where == comm->rank ? NAN : (float)(i + comm->rank);
            SYN_TRY(run_all_reduce(comm, group, in, out, 40, SYN_F32, (syn_reduce)r, err));
            for (int i = 0; i < 40; i++)
                if (!isnan(out[i]))
                    return SYN_FAIL(err, SYN_E_FORMAT, "NaN of rank %d was lost", where);
        }
    return SYN_OK;
}

static void min_and_max_keep_nan(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(3, nan_rank, NULL, &err), err);
}

/* The largest and smallest integers: sums wrap around, and avg rounds towards zero without an
   overflow of i32. */
static syn_status integer_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    const int32_t ranks[] = {0, 1};
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "g", ranks, 2, &group, err));
    const int32_t mine[2][3] = {{INT32_MAX, -3, 5}, {INT32_MAX, 0, -10}};
    int32_t out[3], sum[3];
    SYN_TRY(run_all_reduce(comm, group, mine[comm->rank], out, 3, SYN_I32, SYN_REDUCE_AVG, err));
    SYN_TRY(run_all_reduce(comm, group, mine[comm->rank], sum, 3, SYN_I32, SYN_REDUCE_SUM, err));
    if (out[0] != INT32_MAX || out[1] != -1 || out[2] != -2)
        return SYN_FAIL(err, SYN_E_FORMAT, "avg gave %d %d %d", (int)out[0], (int)out[1],
                        (int)out[2]);
    if (sum[0] != -2 || sum[1] != -3 || sum[2] != -5)
        return SYN_FAIL(err, SYN_E_FORMAT, "sum gave %d %d %d", (int)sum[0], (int)sum[1],
                        (int)sum[2]);
    return SYN_OK;
}

static void integers_wrap_and_truncate(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, integer_rank, NULL, &err), err);
}

/* Random programs over several overlapping groups. All ranks have the same program. The values are
   small integers, whose sums are exact in f32. */
enum { PROGRAM_RANKS = 4 };
static const int32_t group_ranks[5][4] = {
    {0, 1, 2, 3}, {0, 1, -1}, {2, 3, -1}, {0, 2, -1}, {3, 1, -1}};
static const int32_t group_sizes[5] = {4, 2, 2, 2, 2};

static double value_of(uint64_t step, int32_t rank, size_t i) {
    return (double)((step * 31 + (uint64_t)rank * 7 + i * 3) % 101);
}

static syn_status program_step(syn_comm *comm, syn_group *const *groups, uint64_t step,
                               uint64_t dice, float *in, float *out, syn_error *err) {
    const size_t g = (dice >> 8) % 5,
                 n = (dice >> 16) % 3 == 0 ? (dice >> 20) % 3000 : (dice >> 20) % 9;
    if (dice % 5 == 4) { /* each rank sends to the next one of a ring */
        const int32_t next = (comm->rank + 1) % PROGRAM_RANKS,
                      last = (comm->rank + 3) % PROGRAM_RANKS;
        for (size_t i = 0; i < n; i++) in[i] = (float)value_of(step, comm->rank, i);
        SYN_TRY(syn_comm_send(comm, in, n, SYN_F32, next, (int32_t)(dice % 3), err));
        SYN_TRY(syn_comm_recv(comm, out, n, SYN_F32, last, (int32_t)(dice % 3), err));
        for (size_t i = 0; i < n; i++)
            if (out[i] != (float)value_of(step, last, i))
                return SYN_FAIL(err, SYN_E_FORMAT, "step %d: wrong message", (int)step);
        return SYN_OK;
    }
    const syn_group *group = groups[g];
    if (group == NULL) return SYN_OK;
    const size_t size = (size_t)group->size;
    const bool gather = dice % 5 == 1;
    for (size_t i = 0; i < n * size; i++) in[i] = (float)value_of(step, comm->rank, i);
    if (dice % 5 == 0)
        SYN_TRY(run_all_reduce(comm, group, in, out, n, SYN_F32, SYN_REDUCE_SUM, err));
    else if (gather) SYN_TRY(run_all_gather(comm, group, in, out, n, SYN_F32, err));
    else if (dice % 5 == 2)
        SYN_TRY(run_reduce_scatter(comm, group, in, out, n, SYN_F32, SYN_REDUCE_MAX, err));
    else return run_barrier(comm, group, err);
    for (size_t i = 0; i < (gather ? n * size : n); i++) {
        double want = gather ? value_of(step, group->ranks[i / n], i % n) : 0;
        for (int32_t k = 0; k < group->size && !gather; k++) {
            const double v =
                value_of(step, group->ranks[k], dice % 5 == 0 ? i : n * (size_t)group->index + i);
            want = dice % 5 == 0 ? want + v : (v > want ? v : want);
        }
        if (out[i] != (float)want)
            return SYN_FAIL(err, SYN_E_FORMAT, "step %d: wrong result", (int)step);
    }
    return SYN_OK;
}

static syn_status program_rank(syn_comm *comm, void *arg, syn_error *err) {
    uint64_t state = *(const uint64_t *)arg;
    syn_group *groups[5] = {NULL};
    for (uint32_t g = 0; g < 5; g++)
        for (int32_t k = 0; k < group_sizes[g]; k++)
            if (group_ranks[g][k] == comm->rank)
                SYN_TRY(syn_comm_open_group(comm, g + 1, "g", group_ranks[g], group_sizes[g],
                                            &groups[g], err));
    static _Thread_local float in[4 * 3000], out[4 * 3000];
    for (uint64_t step = 0; step < 20; step++)
        SYN_TRY(program_step(comm, groups, step, random_u64(&state), in, out, err));
    return SYN_OK;
}

static void random_programs_agree(void) {
    for (uint64_t seed = 1; seed <= TEST_ROUNDS(1000); seed++) {
        syn_error err = {0};
        uint64_t state = seed * 7919;
        CHECK_OK(syn_local_run(PROGRAM_RANKS, program_rank, &state, &err), err);
    }
}

/* Messages with the same source, destination and tag arrive in order. Messages with different tags
   are independent. */
static syn_status message_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    if (comm->rank == 0) {
        for (int64_t i = 0; i < 100; i++)
            SYN_TRY(syn_comm_send(comm, &i, 1, SYN_I64, 1, (int32_t)(i % 2), err));
        return SYN_OK;
    }
    for (int32_t tag = 1; tag >= 0; tag--)
        for (int64_t i = tag; i < 100; i += 2) {
            int64_t got = -1;
            SYN_TRY(syn_comm_recv(comm, &got, 1, SYN_I64, 0, tag, err));
            if (got != i) return SYN_FAIL(err, SYN_E_FORMAT, "got %d, want %d", (int)got, (int)i);
        }
    return SYN_OK;
}

static void messages_keep_their_order(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, message_rank, NULL, &err), err);
}

static void self_copies(void) {
    syn_error err = {0};
    syn_comm *comm = NULL;
    syn_group *group = NULL;
    const int32_t rank = 0;
    const float in[3] = {1, 2, 3};
    float out[3] = {0};
    CHECK_OK(syn_comm_self_new(&comm, &err), err);
    CHECK_INT(comm->size, 1);
    CHECK_OK(syn_comm_open_group(comm, 1, "solo", &rank, 1, &group, &err), err);
    CHECK_OK(run_all_reduce(comm, group, in, out, 3, SYN_F32, SYN_REDUCE_AVG, &err), err);
    CHECK(out[2] == 3);
    CHECK_OK(run_all_gather(comm, group, &in[1], out, 1, SYN_F32, &err), err);
    CHECK(out[0] == 2);
    CHECK_OK(syn_comm_send(comm, in, 3, SYN_F32, 0, 4, &err), err);
    CHECK_OK(syn_comm_recv(comm, out, 3, SYN_F32, 0, 4, &err), err);
    CHECK(out[0] == 1);
    CHECK_INT(syn_comm_recv(comm, out, 3, SYN_F32, 0, 4, &err), SYN_E_COMM);
    CHECK_STR(err.text, "rank 0 waits in recv(tag 4) for itself, but nothing was sent");
    syn_comm_close(comm);
}

static void fake_knows_groups_only(void) {
    syn_error err = {0};
    syn_comm *comm = NULL;
    syn_group *a = NULL, *b = NULL, *again = NULL;
    const int32_t ranks[] = {8, 9000, 17}, pair[] = {9000, 3};
    CHECK_OK(syn_comm_fake_new(&comm, 9000, 10000, &err), err);
    CHECK(!comm->ops->moves_data && comm->ops->start == NULL);
    CHECK_OK(syn_comm_open_group(comm, 5, "tp1", ranks, 3, &a, &err), err);
    CHECK_INT(a->index, 1);
    for (uint32_t id = 100; id < 200; id++)
        CHECK_OK(syn_comm_open_group(comm, id, "dp", pair, 2, &b, &err), err);
    CHECK_STR(a->name, "tp1"); /* the group is still at the same address */
    CHECK(syn_comm_group(comm, 199) == b && syn_comm_group(comm, 5) == a);
    CHECK(syn_comm_group(comm, 99) == NULL);
    CHECK_OK(syn_comm_open_group(comm, 5, "tp1", ranks, 3, &again, &err), err);
    CHECK(again == a);
    syn_comm_close(comm);
    CHECK_INT(syn_comm_fake_new(&comm, 4, 4, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "rank 4 does not exist in a world of 4 ranks");
}

static const test_case cases[] = {
    {"all_reduce_is_the_reduction_in_rank_order", all_reduce_is_the_reduction_in_rank_order},
    {"all_reduce_works_in_place", all_reduce_works_in_place},
    {"reduce_scatter_gives_each_its_part", reduce_scatter_gives_each_its_part},
    {"all_gather_is_rank_after_rank", all_gather_is_rank_after_rank},
    {"broadcast_copies_the_root", broadcast_copies_the_root},
    {"lists_give_what_their_segments_give", lists_give_what_their_segments_give},
    {"halves_round_to_nearest_even", halves_round_to_nearest_even},
    {"min_and_max_keep_nan", min_and_max_keep_nan},
    {"leaving_is_waiting", leaving_is_waiting},
    {"integers_wrap_and_truncate", integers_wrap_and_truncate},
    {"random_programs_agree", random_programs_agree},
    {"messages_keep_their_order", messages_keep_their_order},
    {"self_copies", self_copies},
    {"fake_knows_groups_only", fake_knows_groups_only},
};

TEST_MAIN(cases)
