/* Tests in-process ranks that disagree, fail, end early or deadlock: every rank gets the same
   message, and no rank hangs. */
#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "tests/support/comm_calls.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <time.h>

enum { MAX_RANKS = 8, MAX_ELEMS = 70000 };

/* What a rank does in one step of a scenario. */
typedef enum act {
    NOTHING, /* the rank ends immediately */
    REDUCE,
    GATHER,
    SCATTER,
    BROADCAST,
    BARRIER,
    SEND,
    RECV,
    FAIL,  /* the rank returns its own error */
    SLEEP, /* the rank sleeps for 0.1 s, then ends */
    SLEEP_FAIL
} act;

typedef struct step {
    act what;
    size_t n;
    syn_dtype dtype;
    int32_t arg; /* reduction, root or peer */
    int32_t tag;
    int group; /* index into scenario.groups */
} step;

typedef struct scenario {
    int32_t size;
    int32_t groups[2][4], group_sizes[2];
    step steps[MAX_RANKS][3];
    syn_status status[MAX_RANKS];
    syn_error error[MAX_RANKS];
    uint64_t wait_ns[MAX_RANKS];
} scenario;

static void pause_ms(long ms) {
    const struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

static const syn_comm_kind kinds[] = {[REDUCE] = SYN_COMM_ALL_REDUCE,
                                      [GATHER] = SYN_COMM_ALL_GATHER,
                                      [SCATTER] = SYN_COMM_REDUCE_SCATTER,
                                      [BROADCAST] = SYN_COMM_BROADCAST,
                                      [BARRIER] = SYN_COMM_BARRIER,
                                      [SEND] = SYN_COMM_SEND,
                                      [RECV] = SYN_COMM_RECV};

/* Splits the elements of a collective into 1 to 3 segments. The first `tag` elements form a
   segment. If `tag` is negative, there are two such segments of -tag elements each. The remaining
   elements form the last segment. */
static int32_t cut(const step *s, void *in, void *out, syn_segment *segments) {
    const bool one = s->tag == 0 || s->what == SEND || s->what == RECV;
    const size_t first = one ? 0 : (size_t)abs(s->tag), bytes = syn_dtype_bytes(s->dtype);
    int32_t n = 0;
    size_t at = 0;
    for (int32_t i = 0; first > 0 && i < (s->tag < 0 ? 2 : 1); i++, at += first)
        segments[n++] = (syn_segment){(char *)in + at * bytes, (char *)out + at * bytes, first};
    segments[n++] = (syn_segment){(char *)in + at * bytes, (char *)out + at * bytes, s->n - at};
    return n;
}

static syn_comm_call call_of(const step *s, syn_group *const *groups) {
    return (syn_comm_call){.kind = kinds[s->what],
                           .dtype = s->dtype,
                           .reduce = (syn_reduce)s->arg,
                           .root = s->arg,
                           .peer = s->arg,
                           .tag = s->tag,
                           .group = groups[s->group]};
}

static syn_status do_step(syn_comm *comm, syn_group *const *groups, const step *s, void *in,
                          void *out, uint64_t *wait, syn_error *err) {
    if (s->what == SLEEP || s->what == SLEEP_FAIL) pause_ms(100);
    if (s->what == FAIL || s->what == SLEEP_FAIL)
        return SYN_FAIL(err, SYN_E_IO, "the disk is full");
    if (s->what == NOTHING || s->what == SLEEP) return SYN_OK;
    syn_comm_call x = call_of(s, groups);
    syn_segment segments[3];
    x.n_segments = cut(s, in, out, segments);
    x.segments = segments;
    if (s->what == GATHER || s->what == SCATTER) set_data(&x, segments, in, out, s->n);
    return syn_comm_run(comm, &x, wait, err);
}

static syn_status scenario_rank(syn_comm *comm, void *arg, syn_error *err) {
    scenario *s = arg;
    syn_group *groups[2] = {NULL};
    syn_status status = SYN_OK;
    for (uint32_t g = 0; g < 2; g++)
        for (int32_t k = 0; k < s->group_sizes[g] && status == SYN_OK; k++)
            if (s->groups[g][k] == comm->rank)
                status = syn_comm_open_group(comm, g + 1, g == 0 ? "tp0" : "dp0", s->groups[g],
                                             s->group_sizes[g], &groups[g], err);
    void *in = calloc(MAX_ELEMS, 8), *out = calloc(MAX_ELEMS, 8 * MAX_RANKS);
    for (int i = 0; i < 3 && status == SYN_OK; i++)
        status =
            do_step(comm, groups, &s->steps[comm->rank][i], in, out, &s->wait_ns[comm->rank], err);
    free(in);
    free(out);
    s->status[comm->rank] = status;
    s->error[comm->rank] = *err;
    return status;
}

/* Runs the scenario. The run, and every rank except `own` (-1: no exception), must end with exactly
   this sentence as error. */
static void check_sentence(scenario *s, int32_t own, const char *sentence) {
    syn_error err = {0};
    CHECK(syn_local_run(s->size, scenario_rank, s, &err) != SYN_OK);
    CHECK_STR(err.text, sentence);
    for (int32_t r = 0; r < s->size; r++) {
        if (r == own) continue;
        CHECK_MSG(s->status[r] == SYN_E_COMM, "rank %d: status %d", (int)r, (int)s->status[r]);
        CHECK_STR(s->error[r].text, sentence);
    }
}

typedef struct mismatch {
    step a, b;
    const char *sentence;
} mismatch;

static const mismatch mismatches[] = {
    {{REDUCE, 128, SYN_F32, SYN_REDUCE_SUM, 0, 0},
     {GATHER, 64, SYN_F32, 0, 0, 0},
     "rank 0 calls all_reduce(sum, f32, 128 elements) in group tp0 (#1) but rank 1 calls "
     "all_gather(f32, 64 elements)"},
    {{REDUCE, 70000, SYN_F32, SYN_REDUCE_SUM, 0, 0},
     {REDUCE, 70000, SYN_BF16, SYN_REDUCE_SUM, 0, 0},
     "rank 0 calls all_reduce(sum, f32, 70000 elements) in group tp0 (#1) but rank 1 calls "
     "all_reduce(sum, bf16, 70000 elements)"},
    {{REDUCE, 3, SYN_F32, SYN_REDUCE_SUM, 0, 0},
     {REDUCE, 70000, SYN_F32, SYN_REDUCE_SUM, 0, 0},
     "rank 0 calls all_reduce(sum, f32, 3 elements) in group tp0 (#1) but rank 1 calls "
     "all_reduce(sum, f32, 70000 elements)"},
    {{REDUCE, 3, SYN_I64, SYN_REDUCE_AVG, 0, 0},
     {REDUCE, 3, SYN_I64, SYN_REDUCE_MAX, 0, 0},
     "rank 0 calls all_reduce(avg, i64, 3 elements) in group tp0 (#1) but rank 1 calls "
     "all_reduce(max, i64, 3 elements)"},
    {{BROADCAST, 3, SYN_I32, 0, 0, 0},
     {BROADCAST, 3, SYN_I32, 1, 0, 0},
     "rank 0 calls broadcast(i32, 3 elements, root 0) in group tp0 (#1) but rank 1 calls "
     "broadcast(i32, 3 elements, root 1)"},
    {{BARRIER, 0, SYN_F32, 0, 0, 0},
     {SCATTER, 3, SYN_F16, SYN_REDUCE_MIN, 0, 0},
     "rank 0 calls barrier() in group tp0 (#1) but rank 1 calls reduce_scatter(min, f16, 3 "
     "elements)"},
    {{BARRIER, 0, SYN_F32, 0, 0, 0},
     {BARRIER, 0, SYN_F32, 0, 0, 1},
     "rank 0 calls barrier() in group tp0 (#1) but rank 1 calls barrier() in group dp0 (#1)"},
    {{REDUCE, 5, SYN_F32, 0, 0, 0},
     {REDUCE, 70000, SYN_F32, 0, 0, 1},
     "rank 0 calls all_reduce(sum, f32, 5 elements) in group tp0 (#1) but rank 1 calls "
     "all_reduce(sum, f32, 70000 elements) in group dp0 (#1)"},
    {{REDUCE, 70000, SYN_F32, SYN_REDUCE_SUM, 0, 0},
     {REDUCE, 70000, SYN_F32, SYN_REDUCE_SUM, 10, 0},
     "rank 0 calls all_reduce(sum, f32, 70000 elements) in group tp0 (#1) but rank 1 calls "
     "all_reduce(sum, f32, 70000 elements in 2 tensors)"},
    {{REDUCE, 9, SYN_F32, SYN_REDUCE_SUM, 2, 0},
     {REDUCE, 9, SYN_F32, SYN_REDUCE_SUM, -2, 0},
     "rank 0 calls all_reduce(sum, f32, 9 elements in 2 tensors) in group tp0 (#1) but rank 1 "
     "calls all_reduce(sum, f32, 9 elements in 3 tensors)"},
    {{BROADCAST, 70000, SYN_F32, 0, 10, 0},
     {BROADCAST, 70000, SYN_F32, 0, 11, 0},
     "rank 0 calls broadcast(f32, 70000 elements in 2 tensors, root 0) in group tp0 (#1) but rank "
     "1 calls broadcast(f32, 70000 elements in 2 tensors, root 0) of different sizes"},
    {{REDUCE, 70000, SYN_F32, SYN_REDUCE_SUM, 10, 0},
     {REDUCE, 70001, SYN_F32, SYN_REDUCE_SUM, 10, 0},
     "rank 0 calls all_reduce(sum, f32, 70000 elements in 2 tensors) in group tp0 (#1) but rank 1 "
     "calls all_reduce(sum, f32, 70001 elements in 2 tensors)"},
    {{SEND, 5, SYN_F32, 1, 9, 0},
     {RECV, 5, SYN_I32, 0, 9, 0},
     "rank 0 calls send(f32, 5 elements, tag 9) to rank 1 but rank 1 calls recv(i32, 5 elements, "
     "tag 9) from rank 0"},
    {{SEND, 5, SYN_F32, 1, 9, 0},
     {RECV, 6, SYN_F32, 0, 9, 0},
     "rank 0 calls send(f32, 5 elements, tag 9) to rank 1 but rank 1 calls recv(f32, 6 elements, "
     "tag 9) from rank 0"},
};

static void calls_that_differ_fail_on_every_rank(void) {
    const step barrier = {BARRIER, 0, SYN_F32, 0, 0, 0};
    for (size_t i = 0; i < COUNT(mismatches); i++)
        for (int32_t size = 2; size <= (mismatches[i].b.group == 0 ? 4 : 2); size++)
            for (int repeat = 0; repeat < TEST_ROUNDS(20); repeat++) {
                const mismatch *m = &mismatches[i];
                scenario s = {.size = size,
                              .groups = {{0, 1, 2, 3}, {0, 1, 2, 3}},
                              .group_sizes = {size, size},
                              .steps = {{m->a, barrier}, {m->b, barrier}, {m->a}, {m->a}}};
                if (m->a.what == SEND) s.steps[2][0] = s.steps[3][0] = barrier;
                check_sentence(&s, -1, m->sentence);
                if (test_failures > 0) return;
            }
}

/* The rank fails before the other ranks arrive, while they arrive, or after that. */
static void a_failing_rank_ends_all(void) {
    for (int32_t size = 2; size <= MAX_RANKS; size += 3)
        for (int repeat = 0; repeat < TEST_ROUNDS(30); repeat++) {
            scenario s = {.size = size, .group_sizes = {0, 0}};
            const act fails = repeat < 3 ? SLEEP_FAIL : FAIL;
            for (int32_t r = 0; r < size; r++) s.steps[r][0] = (step){RECV, 1, SYN_F32, 1, 0, 0};
            s.steps[1][0] = (step){fails, 0, SYN_F32, 0, 0, 0};
            check_sentence(&s, 1, "rank 1 failed: the disk is full");
            if (test_failures > 0) return;
        }
    for (int repeat = 0; repeat < TEST_ROUNDS(30); repeat++) {
        scenario s = {.size = 4, .groups = {{0, 1, 2, 3}}, .group_sizes = {4, 0}};
        for (int32_t r = 0; r < 4; r++)
            for (int i = 0; i < 3; i++) s.steps[r][i] = (step){REDUCE, 50000, SYN_F32, 0, 0, 0};
        s.steps[1][repeat % 3].what = repeat < 3 ? SLEEP_FAIL : FAIL;
        check_sentence(&s, 1, "rank 1 failed: the disk is full");
        if (test_failures > 0) return;
    }
}

static void a_rank_that_ends_early_is_named(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(30); repeat++) {
        scenario s = {.size = 2, .groups = {{0, 1}}, .group_sizes = {2, 0}};
        for (int i = 0; i < 3; i++)
            s.steps[0][i] = s.steps[1][i] = (step){REDUCE, 5, SYN_F32, 0, 0, 0};
        s.steps[1][2].what = repeat < 3 ? SLEEP : NOTHING;
        check_sentence(&s, 1, "rank 1 finished while rank 0 waits in all_reduce #3 of group tp0");
        if (test_failures > 0) return;
        scenario p = {.size = 2,
                      .steps = {{{SEND, 5, SYN_F32, 1, 8, 0}},
                                {{RECV, 5, SYN_F32, 0, 8, 0}, {RECV, 5, SYN_F32, 0, 8, 0}}}};
        p.steps[0][1].what = repeat < 3 ? SLEEP : NOTHING;
        check_sentence(&p, 0, "rank 0 finished while rank 1 waits for it in recv(tag 8)");
        if (test_failures > 0) return;
    }
}

static void check_ends_with(scenario *s, const char *part, const char *other) {
    syn_error err = {0};
    const syn_status status = syn_local_run(s->size, scenario_rank, s, &err);
    CHECK_INT(status, SYN_E_COMM);
    CHECK_HAS(err.text, part);
    CHECK_HAS(err.text, other);
    for (int32_t r = 0; r < s->size; r++)
        CHECK_MSG(s->status[r] == SYN_OK || strcmp(s->error[r].text, err.text) == 0, "rank %d: %s",
                  (int)r, s->error[r].text);
}

static void deadlocks_are_found_and_explained(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(30); repeat++) {
        /* Rank 0 waits for a message that rank 1 sends only after a barrier. */
        scenario a = {.size = 2,
                      .groups = {{0, 1}},
                      .group_sizes = {2, 0},
                      .steps = {{{RECV, 3, SYN_F32, 1, 2, 0}, {BARRIER, 0, SYN_F32, 0, 0, 0}},
                                {{BARRIER, 0, SYN_F32, 0, 0, 0}, {SEND, 3, SYN_F32, 0, 2, 0}}}};
        check_ends_with(&a, "rank 0 in recv(f32, 3 elements, tag 2) from rank 1",
                        "rank 1 in barrier() in group tp0 (#1)");
        /* Three ranks receive from each other in a ring. A fourth rank is busy, which must not hide
           the deadlock. */
        scenario b = {.size = 4};
        for (int32_t r = 0; r < 3; r++) b.steps[r][0] = (step){RECV, 1, SYN_I32, (r + 1) % 3, 0, 0};
        if (repeat < 5) b.steps[3][0].what = SLEEP;
        check_ends_with(&b, "rank 0 in recv(i32, 1 elements, tag 0) from rank 1",
                        "rank 2 in recv(i32, 1 elements, tag 0) from rank 0");
        /* A rank waits for itself, and another rank waits for that rank. */
        scenario c = {.size = 2,
                      .steps = {{{RECV, 1, SYN_I32, 0, 0, 0}}, {{RECV, 1, SYN_I32, 0, 0, 0}}}};
        check_ends_with(&c, "ranks wait for each other: rank 0 in recv", "from rank 0");
        /* Two overlapping groups are entered in opposite order, by way of a third rank. */
        scenario d = {.size = 3, .groups = {{0, 1, 2}, {1, 2}}, .group_sizes = {3, 2}};
        d.steps[0][0] = d.steps[1][0] = (step){REDUCE, 9, SYN_F32, 0, 0, 0};
        d.steps[2][0] = (step){REDUCE, 9, SYN_F32, 0, 0, 1};
        check_ends_with(&d, "rank 1 calls all_reduce(sum, f32, 9 elements) in group tp0 (#1)",
                        "rank 2 calls all_reduce(sum, f32, 9 elements) in group dp0 (#1)");
        if (test_failures > 0) return;
    }
}

/* Long chains of ranks that wait for a busy rank look like a deadlock for a moment. They must not
   be reported. */
static void chains_ending_in_a_running_rank_are_no_deadlock(void) {
    scenario s = {.size = MAX_RANKS, .groups = {{0, 1, 2, 3}}, .group_sizes = {4, 0}};
    for (int32_t r = 0; r < MAX_RANKS; r++) {
        s.steps[r][0] = (step){RECV, 1, SYN_I32, r + 1, 0, 0};
        s.steps[r][1] = (step){SEND, 1, SYN_I32, r - 1, 0, 0};
    }
    s.steps[MAX_RANKS - 1][0] = (step){SLEEP, 0, SYN_I32, 0, 0, 0};
    s.steps[0][1] = (step){BARRIER, 0, SYN_I32, 0, 0, 0};
    for (int32_t r = 1; r < 4; r++) s.steps[r][2] = (step){BARRIER, 0, SYN_I32, 0, 0, 0};
    syn_error err = {0};
    CHECK_OK(syn_local_run(s.size, scenario_rank, &s, &err), err);
}

/* Rank 1 arrives 0.1 s late, so rank 0 must have wait time and rank 1 must have none. On a busy
   machine, the test tries several times. */
static void waiting_is_measured(void) {
    uint64_t wait_ns[2] = {0, 0};
    for (int tries = 0; tries < 10 && (wait_ns[0] < 80000000 || wait_ns[1] > 20000000); tries++) {
        scenario s = {.size = 2, .groups = {{0, 1}}, .group_sizes = {2, 0}};
        s.steps[0][0] = (step){REDUCE, 9, SYN_F32, 0, 0, 0};
        s.steps[1][0] = (step){SLEEP, 0, SYN_F32, 0, 0, 0};
        s.steps[1][1] = s.steps[0][0];
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, scenario_rank, &s, &err), err);
        memcpy(wait_ns, s.wait_ns, sizeof wait_ns);
    }
    CHECK_MSG(wait_ns[0] >= 80000000 && wait_ns[1] <= 20000000, "%llu ns and %llu ns",
              (unsigned long long)wait_ns[0], (unsigned long long)wait_ns[1]);
}

static void groups_and_peers_are_checked(void) {
    syn_error err = {0};
    syn_local_world *world = NULL;
    syn_comm *a = NULL, *b = NULL;
    syn_group *group = NULL;
    const int32_t good[] = {0, 1}, other[] = {1, 0}, twice[] = {0, 0}, far[] = {0, 2};
    CHECK_INT(syn_local_world_new(&world, 0, &err), SYN_E_INVALID);
    err = (syn_error){0};
    CHECK_OK(syn_local_world_new(&world, 2, &err), err);
    CHECK_OK(syn_comm_local_new(&a, world, 0, &err), err);
    CHECK_INT(syn_comm_local_new(&b, world, 0, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "rank 0 of this world is already open");
    err = (syn_error){0};
    CHECK_INT(syn_comm_open_group(a, 1, "g", twice, 2, &group, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "group g has rank 0 twice");
    err = (syn_error){0};
    CHECK_INT(syn_comm_open_group(a, 1, "g", far, 2, &group, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "group g has rank 2, which does not exist in a world of 2 ranks");
    err = (syn_error){0};
    CHECK_INT(syn_comm_open_group(a, 1, "g", &good[1], 1, &group, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "rank 0 opens group g but is not one of its 1 ranks");
    err = (syn_error){0};
    CHECK_INT(syn_comm_send(a, good, 1, SYN_I32, 2, 0, &err), SYN_E_INVALID);
    CHECK_STR(err.text,
              "rank 0: send refers to rank 2, which does not exist in a world of 2 ranks");
    err = (syn_error){0};
    CHECK_OK(syn_comm_open_group(a, 1, "g", good, 2, &group, &err), err);
    CHECK_INT(syn_comm_open_group(a, 1, "g", other, 2, &group, &err), SYN_E_INVALID);
    err = (syn_error){0};
    CHECK_OK(syn_comm_local_new(&b, world, 1, &err), err);
    CHECK_INT(syn_comm_open_group(b, 1, "g", other, 2, &group, &err), SYN_E_COMM);
    CHECK_HAS(err.text, "rank 1 opens group 1 (g) with 2 ranks but another rank");
    syn_comm_close(a);
    syn_local_world_free(world);
    syn_comm_close(b);
}

static void *barrier_alone(void *arg) {
    syn_comm *comm = arg;
    static syn_error err;
    syn_group *group = NULL;
    const int32_t ranks[] = {0, 1};
    err = (syn_error){0};
    if (syn_comm_open_group(comm, 1, "all", ranks, 2, &group, &err) == SYN_OK &&
        run_barrier(comm, group, &err) == SYN_OK)
        SYN_FAIL(&err, SYN_E_FORMAT, "the barrier let one rank pass");
    syn_comm_close(comm);
    return &err;
}

/* The creator of the world gives up waiting for a rank, or reports why the rank will never join. */
static void a_rank_that_never_starts_is_named(void) {
    for (int aborts = 0; aborts < 2; aborts++) {
        syn_error err = {0};
        syn_local_world *world = NULL;
        syn_comm *comm = NULL;
        pthread_t thread;
        void *got = NULL;
        CHECK_OK(syn_local_world_new(&world, 2, &err), err);
        CHECK_OK(syn_comm_local_new(&comm, world, 0, &err), err);
        CHECK(pthread_create(&thread, NULL, barrier_alone, comm) == 0);
        pause_ms(20);
        if (aborts) syn_local_world_abort(world, "no thread for rank 1");
        syn_local_world_free(world);
        pthread_join(thread, &got);
        CHECK_STR(((syn_error *)got)->text,
                  aborts ? "no thread for rank 1"
                         : "rank 1 never started while rank 0 waits in barrier #1 of group all");
    }
}

static syn_status memory_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    const int32_t ranks[] = {0, 1};
    syn_group *group = NULL;
    float in[2000] = {0}, out[4000];
    SYN_TRY(syn_comm_open_group(comm, 1, "pair", ranks, 2, &group, err));
    SYN_TRY(run_all_gather(comm, group, in, out, 2000, SYN_F32, err));
    SYN_TRY(syn_comm_send(comm, in, 2000, SYN_F32, 1 - comm->rank, 0, err));
    return syn_comm_recv(comm, out, 2000, SYN_F32, 1 - comm->rank, 0, err);
}

static syn_status run_two(void *unused, syn_error *err) {
    return syn_local_run(2, memory_rank, unused, err);
}

/* If any allocation of any rank fails, the run ends with an error. */
static void out_of_memory_at_any_step_ends_the_run(void) {
    CHECK(test_without_memory(run_two, NULL) > 0);
}

static const test_case cases[] = {
    {"calls_that_differ_fail_on_every_rank", calls_that_differ_fail_on_every_rank},
    {"a_failing_rank_ends_all", a_failing_rank_ends_all},
    {"a_rank_that_ends_early_is_named", a_rank_that_ends_early_is_named},
    {"deadlocks_are_found_and_explained", deadlocks_are_found_and_explained},
    {"chains_ending_in_a_running_rank_are_no_deadlock",
     chains_ending_in_a_running_rank_are_no_deadlock},
    {"waiting_is_measured", waiting_is_measured},
    {"groups_and_peers_are_checked", groups_and_peers_are_checked},
    {"a_rank_that_never_starts_is_named", a_rank_that_never_starts_is_named},
    {"out_of_memory_at_any_step_ends_the_run", out_of_memory_at_any_step_ends_the_run},
};

TEST_MAIN(cases)
