/* Tests asynchronous operations of in-process ranks. Some of the programs would deadlock if
   operations only progressed during calls, so they show that operations progress on their own. */
#include "comm/comm_local.h"
#include "syntorch/base/memory.h"
#include "tests/support/comm_calls.h"
#include "tests/support/comm_program.h"
#include "tests/support/test.h"

#include <sched.h>

enum { LARGE = 20000, GO = 77 };

static bool has_thread(const syn_group *group) {
    return ((const syn__group_node *)(const void *)((const char *)group -
                                                    offsetof(syn__group_node, group)))
        ->stream.has_thread;
}

/* ---- Progress without the rank ---- */

/* Rank 0 starts a sum and then sends a message. Rank 1 joins the sum only after it has received the
   message. Rank 0 does not call the communicator again until rank 1 has the result. */
static syn_status meanwhile_rank(syn_comm *comm, void *arg, syn_error *err) {
    _Atomic int *arrived = arg;
    static _Thread_local float in[LARGE], out[LARGE], nothing[1];
    syn_group *group = NULL;
    syn_request *request = NULL;
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    f32_fill(in, LARGE, (float)(comm->rank + 1));
    if (comm->rank == 1) {
        SYN_TRY(syn_comm_recv(comm, nothing, 1, SYN_F32, 0, GO, err));
        SYN_TRY(run_all_reduce(comm, group, in, out, LARGE, SYN_F32, SYN_REDUCE_SUM, err));
        atomic_store(arrived, 1);
        return f32_all_are(out, LARGE, 3, err);
    }
    SYN_TRY(start_f32_sum(comm, group, in, out, LARGE, &request, err));
    SYN_TRY(syn_comm_send(comm, nothing, 1, SYN_F32, 1, GO, err));
    while (atomic_load(arrived) == 0) sched_yield();
    SYN_TRY(wait_for(comm, request, err));
    return f32_all_are(out, LARGE, 3, err);
}

static void started_operations_progress_without_the_rank(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(50); repeat++) {
        syn_error err = {0};
        _Atomic int arrived = 0;
        CHECK_OK(syn_local_run(2, meanwhile_rank, &arrived, &err), err);
    }
}

/* The sender fills the buffer of a receive that was started, without any help of the receiver. */
static syn_status filled_rank(syn_comm *comm, void *arg, syn_error *err) {
    _Atomic int *posted = arg;
    static _Thread_local float data[LARGE];
    syn_request *request = NULL;
    if (comm->rank == 0) {
        while (atomic_load(posted) == 0) sched_yield();
        f32_fill(data, LARGE, 5);
        SYN_TRY(syn_comm_send(comm, data, LARGE, SYN_F32, 1, GO, err));
        atomic_store(posted, 2);
        return SYN_OK;
    }
    SYN_TRY(start_f32_message(comm, SYN_COMM_RECV, data, LARGE, 0, GO, &request, err));
    atomic_store(posted, 1);
    while (atomic_load(posted) != 2) sched_yield();
    SYN_TRY(f32_all_are(data, LARGE, 5, err)); /* the data has arrived before the wait */
    return wait_for(comm, request, err);
}

static void a_receive_is_filled_by_the_sender(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(50); repeat++) {
        syn_error err = {0};
        _Atomic int posted = 0;
        CHECK_OK(syn_local_run(2, filled_rank, &posted, &err), err);
    }
}

/* An operation that is waited for immediately runs on the rank's own thread. No thread is created
   for it. */
static syn_status threads_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_group *a = NULL, *b = NULL;
    syn_request *request = NULL;
    float in = 1, out = 0;
    SYN_TRY(open_first(comm, 1, "pair", 2, &a, err));
    SYN_TRY(open_first(comm, 2, "pair", 2, &b, err));
    for (int i = 0; i < 100; i++)
        SYN_TRY(run_all_reduce(comm, a, &in, &out, 1, SYN_F32, SYN_REDUCE_SUM, err));
    if (has_thread(a)) return SYN_FAIL(err, SYN_E_FORMAT, "calls that block made a thread");
    SYN_TRY(start_f32_sum(comm, b, &in, &out, 1, &request, err));
    SYN_TRY(wait_for(comm, request, err));
    if (has_thread(a) || !has_thread(b)) return SYN_FAIL(err, SYN_E_FORMAT, "the wrong thread");
    return f32_all_are(&out, 1, 2, err);
}

static void blocking_calls_create_no_thread(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, threads_rank, NULL, &err), err);
}

static syn_status times_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_group *group = NULL;
    syn_request *request = NULL;
    syn_comm_times t = {0};
    float in = 1, out = 0;
    const uint64_t before_ns = syn__clock_ns();
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    SYN_TRY(start_f32_sum(comm, group, &in, &out, 1, &request, err));
    SYN_TRY(comm->ops->wait(comm, request, &t, err));
    const uint64_t after_ns = syn__clock_ns();
    if (before_ns > t.begin_ns || t.begin_ns > t.end_ns || t.end_ns > after_ns ||
        t.wait_ns > t.end_ns - t.begin_ns || t.cpu_ns == 0)
        return SYN_FAIL(err, SYN_E_FORMAT, "the times do not lie within each other");
    return SYN_OK;
}

static void times_are_of_the_operation(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, times_rank, NULL, &err), err);
}

/* ---- Order ---- */

/* Two groups with the same ranks, entered in opposite orders. With blocking calls, this would
   deadlock. */
static syn_status opposite_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_group *groups[2] = {NULL};
    syn_request *requests[2] = {NULL};
    static _Thread_local float in[2][LARGE], out[2][LARGE];
    for (uint32_t g = 0; g < 2; g++) SYN_TRY(open_first(comm, g + 1, "pair", 2, &groups[g], err));
    for (int i = 0; i < 2; i++) {
        const int g = comm->rank == 0 ? i : 1 - i;
        f32_fill(in[g], LARGE, (float)(10 * g + comm->rank));
        SYN_TRY(start_f32_sum(comm, groups[g], in[g], out[g], LARGE, &requests[g], err));
    }
    for (int g = 0; g < 2; g++) {
        SYN_TRY(wait_for(comm, requests[g], err));
        SYN_TRY(f32_all_are(out[g], LARGE, (float)(20 * g + 1), err));
    }
    return SYN_OK;
}

static void groups_run_side_by_side(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(50); repeat++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, opposite_rank, NULL, &err), err);
    }
}

/* Each operation reads the result of the previous one. The last operation is waited for first, and
   a blocking call runs between them. */
static syn_status chain_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    enum { LINKS = 8 };
    syn_group *group = NULL;
    syn_request *requests[LINKS] = {NULL};
    static _Thread_local float data[LINKS + 1][LARGE];
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    f32_fill(data[0], LARGE, 1);
    for (int i = 0; i < LINKS; i++) {
        const size_t n = i % 2 ? 1 : LARGE;
        if (i == 5)
            SYN_TRY(
                run_all_reduce(comm, group, data[i], data[i + 1], n, SYN_F32, SYN_REDUCE_SUM, err));
        else SYN_TRY(start_f32_sum(comm, group, data[i], data[i + 1], n, &requests[i], err));
        if (i == 5) SYN_TRY(f32_all_are(data[6], 1, 64, err));
        if (i % 2) f32_fill(data[i + 1] + 1, LARGE - 1, 0);
    }
    for (int i = LINKS - 1; i >= 0; i--)
        if (requests[i]) SYN_TRY(wait_for(comm, requests[i], err));
    return f32_all_are(data[LINKS], 1, 256, err);
}

static void operations_of_a_group_keep_their_order(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(50); repeat++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, chain_rank, NULL, &err), err);
    }
}

/* Both ranks start receives with all tags before anything is sent, and wait for them in reverse
   order. Messages with the same tag must arrive in order. */
static syn_status messages_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    enum { N = 24, TAGS = 3 };
    const int32_t other = 1 - comm->rank;
    syn_request *requests[N] = {NULL};
    static _Thread_local float in[N][300], out[N][300];
    for (int i = 0; i < N / 2; i++)
        SYN_TRY(
            start_f32_message(comm, SYN_COMM_RECV, in[i], 300, other, i % TAGS, &requests[i], err));
    for (int i = 0; i < N; i++) {
        syn_request *sent = NULL;
        f32_fill(out[i], 300, (float)(100 * comm->rank + i));
        SYN_TRY(start_f32_message(comm, SYN_COMM_SEND, out[i], 300, other, i % TAGS, &sent, err));
        SYN_TRY(wait_for(comm, sent, err));
    }
    for (int i = N / 2; i < N; i++)
        SYN_TRY(
            start_f32_message(comm, SYN_COMM_RECV, in[i], 300, other, i % TAGS, &requests[i], err));
    for (int i = N - 1; i >= 0; i--) {
        SYN_TRY(wait_for(comm, requests[i], err));
        SYN_TRY(f32_all_are(in[i], 300, (float)(100 * other + i), err));
    }
    return SYN_OK;
}

static void messages_go_both_ways(void) {
    for (int repeat = 0; repeat < TEST_ROUNDS(100); repeat++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, messages_rank, NULL, &err), err);
    }
}

static void self_keeps_messages_both_ways(void) {
    syn_error err = {0};
    syn_comm *comm = NULL;
    syn_request *a = NULL, *b = NULL, *c = NULL;
    float data[3] = {1, 2, 3}, first[3] = {0}, second[3] = {0};
    CHECK_OK(syn_comm_self_new(&comm, &err), err);
    CHECK_OK(start_f32_message(comm, SYN_COMM_RECV, first, 3, 0, 1, &a, &err), err);
    CHECK_OK(start_f32_message(comm, SYN_COMM_RECV, second, 3, 0, 1, &b, &err), err);
    CHECK_OK(syn_comm_send(comm, data, 3, SYN_F32, 0, 1, &err), err);
    data[0] = 4;
    CHECK_OK(syn_comm_send(comm, data, 3, SYN_F32, 0, 1, &err), err);
    CHECK_OK(wait_for(comm, b, &err), err);
    CHECK_OK(wait_for(comm, a, &err), err);
    CHECK(first[0] == 1 && second[0] == 4 && second[2] == 3);
    CHECK_OK(start_f32_message(comm, SYN_COMM_RECV, first, 2, 0, 1, &c, &err), err);
    CHECK_OK(syn_comm_send(comm, data, 3, SYN_F32, 0, 1, &err), err);
    CHECK_INT(wait_for(comm, c, &err), SYN_E_COMM);
    CHECK_STR(err.text, "rank 0 calls send(f32, 3 elements, tag 1) to rank 0 but rank 0 calls "
                        "recv(f32, 2 elements, tag 1) from rank 0");
    err = (syn_error){0};
    CHECK_OK(start_f32_message(comm, SYN_COMM_RECV, first, 3, 0, 9, &c, &err), err);
    syn_comm_close(comm);
}

/* ---- Random programs ---- */

static syn_status program_rank(syn_comm *comm, void *arg, syn_error *err) {
    return comm_program_run(comm, arg, err);
}

static void random_programs_give_what_a_plain_computation_gives(void) {
    for (uint64_t seed = 1; seed <= TEST_ROUNDS(140); seed++) {
        syn_error err = {0};
        comm_program p = {.seed = seed, .n_steps = 80};
        const syn_status status = syn_local_run(2 + (int32_t)(seed % 7), program_rank, &p, &err);
        CHECK_MSG(status == SYN_OK, "seed %d: %s", (int)seed, err.text);
    }
}

static const test_case cases[] = {
    {"started_operations_progress_without_the_rank", started_operations_progress_without_the_rank},
    {"a_receive_is_filled_by_the_sender", a_receive_is_filled_by_the_sender},
    {"blocking_calls_create_no_thread", blocking_calls_create_no_thread},
    {"times_are_of_the_operation", times_are_of_the_operation},
    {"groups_run_side_by_side", groups_run_side_by_side},
    {"operations_of_a_group_keep_their_order", operations_of_a_group_keep_their_order},
    {"messages_go_both_ways", messages_go_both_ways},
    {"self_keeps_messages_both_ways", self_keeps_messages_both_ways},
    {"random_programs_give_what_a_plain_computation_gives",
     random_programs_give_what_a_plain_computation_gives},
};

TEST_MAIN(cases)
