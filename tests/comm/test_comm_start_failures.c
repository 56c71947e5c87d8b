/* Tests how asynchronous operations of in-process ranks end if they fail, or if no rank waits for
   them. */
#include "comm/comm.h"
#include "comm/comm_request.h"
#include "syntorch/base/memory.h"
#include "tests/support/comm_calls.h"
#include "tests/support/test.h"

enum { LARGE = 20000 };

/* One call of a rank. Each of the two ranks runs its list of `acts`. */
typedef enum act {
    END,
    START_SUM,   /* a sum of 3 elements */
    START_LARGE, /* a sum of LARGE elements */
    START_RECV,
    WAIT,      /* waits for the oldest operation */
    WAIT_LAST, /* waits for the newest operation */
    RECV,      /* a blocking receive */
    FAIL
} act;

typedef struct scenario {
    act acts[2][5];
    syn_status status[2];
    syn_error error[2];
} scenario;

static syn_status scenario_act(syn_comm *comm, const syn_group *group, act what,
                               syn_request **requests, int *n, syn_error *err) {
    static _Thread_local float in[LARGE], out[5][LARGE];
    syn_request *oldest = requests[0];
    switch (what) {
    case START_SUM:
    case START_LARGE:
        (*n)++;
        return start_f32_sum(comm, group, in, out[*n - 1], what == START_SUM ? 3 : LARGE,
                             &requests[*n - 1], err);
    case START_RECV:
        (*n)++;
        return start_f32_message(comm, SYN_COMM_RECV, out[*n - 1], 3, 1 - comm->rank, 4,
                                 &requests[*n - 1], err);
    case WAIT:
        (*n)--;
        memmove(requests, requests + 1, (size_t)*n * sizeof *requests);
        return wait_for(comm, oldest, err);
    case WAIT_LAST:
        (*n)--;
        return wait_for(comm, requests[*n], err);
    case RECV:
        return syn_comm_recv(comm, out[4], 3, SYN_F32, 1 - comm->rank, 8, err);
    case FAIL:
        return SYN_FAIL(err, SYN_E_IO, "the disk is full");
    case END:
        break;
    }
    return SYN_OK;
}

static syn_status scenario_rank(syn_comm *comm, void *arg, syn_error *err) {
    scenario *s = arg;
    syn_group *group = NULL;
    syn_request *requests[5] = {NULL};
    int n = 0;
    syn_status status = open_first(comm, 1, "pair", 2, &group, err);
    for (int i = 0; i < 5 && status == SYN_OK; i++)
        status = scenario_act(comm, group, s->acts[comm->rank][i], requests, &n, err);
    /* Abort guarantees that no operation uses the buffers any more. */
    if (status != SYN_OK) comm->ops->abort(comm, err->text);
    s->status[comm->rank] = status;
    s->error[comm->rank] = *err;
    return status;
}

static const struct {
    act acts[2][5];
    const char *sentence; /* expected error; NULL: success */
} scenarios[] = {
    {{{START_SUM, WAIT}, {START_SUM, WAIT}}, NULL},
    /* Sums that the rank does not wait for are finished, because the other rank needs them.
       Receives are cancelled. */
    {{{START_LARGE}, {START_LARGE, WAIT}}, NULL},
    {{{START_LARGE, START_SUM, START_SUM}, {START_LARGE, START_SUM, START_SUM, WAIT_LAST}}, NULL},
    {{{START_RECV, START_SUM, WAIT_LAST}, {START_SUM, WAIT}}, NULL},
    {{{START_SUM, WAIT}, {FAIL}}, "rank 1 failed: the disk is full"},
    {{{START_LARGE, START_SUM, WAIT_LAST}, {START_LARGE, FAIL}}, "rank 1 failed: the disk is full"},
    {{{START_RECV, WAIT}, {START_SUM, FAIL}}, "rank 1 failed: the disk is full"},
    {{{START_SUM, START_LARGE, WAIT_LAST}, {START_SUM, START_SUM, WAIT}},
     "rank 0 calls all_reduce(sum, f32, 20000 elements) in group pair (#2) but rank 1 calls "
     "all_reduce(sum, f32, 3 elements)"},
    {{{START_SUM, START_LARGE, WAIT_LAST}, {START_SUM, WAIT}},
     "rank 1 finished while rank 0 waits in all_reduce #2 of group pair"},
    /* only the close waits for the second sum */
    {{{START_SUM, START_SUM}, {START_SUM}},
     "rank 1 finished while rank 0 waits in all_reduce #2 of group pair"},
    {{{START_RECV, WAIT}, {END}}, "rank 1 finished while rank 0 waits for it in recv(tag 4)"},
    {{{START_RECV, START_SUM, WAIT}, {START_SUM, START_SUM, WAIT_LAST}},
     "rank 0 in recv(f32, 3 elements, tag 4) from rank 1"},
    {{{START_SUM, WAIT}, {RECV}}, "rank 1 in recv(f32, 3 elements, tag 8) from rank 0"},
};

static void failures_end_started_operations(void) {
    for (int repeat = 0; repeat < 20; repeat++)
        for (size_t i = 0; i < COUNT(scenarios); i++) {
            scenario s = {0};
            syn_error err = {0};
            memcpy(s.acts, scenarios[i].acts, sizeof s.acts);
            const syn_status status = syn_local_run(2, scenario_rank, &s, &err);
            if (scenarios[i].sentence == NULL) {
                CHECK_MSG(status == SYN_OK, "scenario %d: %s", (int)i, err.text);
                continue;
            }
            CHECK_MSG(status != SYN_OK, "scenario %d went well", (int)i);
            CHECK_HAS(err.text, scenarios[i].sentence);
            for (int r = 0; r < 2; r++)
                if (s.status[r] == SYN_E_COMM) CHECK_HAS(s.error[r].text, scenarios[i].sentence);
        }
}

static syn_status check_refused_list(syn_comm *comm, syn_comm_call x, int32_t n,
                                     const char *sentence, syn_error *err) {
    syn_request *request = NULL;
    syn_error refused = {0};
    x.root = 0;
    x.n_segments = n;
    if (start_call(comm, x, &request, &refused) == SYN_E_INVALID &&
        strcmp(refused.text, sentence) == 0)
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%d tensors: %s", (int)n, refused.text);
}

static syn_status arguments_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_group *group = NULL;
    syn_request *request = NULL;
    syn_error refused = {0};
    float data = 0;
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    const syn_segment many[SYN_MAX_LIST + 1] = {{&data, &data, 1}};
    syn_comm_call x = {
        .kind = SYN_COMM_BROADCAST, .root = 2, .n_segments = 1, .group = group, .segments = many};
    if (start_call(comm, x, &request, &refused) != SYN_E_INVALID)
        return SYN_FAIL(err, SYN_E_FORMAT, "root 2 of 2 was taken");
    if (strcmp(refused.text, "broadcast has root 2 in group pair of 2 ranks") != 0)
        return SYN_FAIL(err, SYN_E_FORMAT, "%s", refused.text);
    SYN_TRY(check_refused_list(comm, x, SYN_MAX_LIST + 1,
                               "broadcast got 1001 tensors but accepts 1 to 1000", err));
    SYN_TRY(check_refused_list(comm, x, 0, "broadcast got 0 tensors but accepts 1 to 1000", err));
    x.kind = SYN_COMM_ALL_GATHER;
    SYN_TRY(check_refused_list(comm, x, SYN_MAX_LIST + 1,
                               "all_gather got 1001 tensors but accepts 1 to 1000", err));
    SYN_TRY(check_refused_list(comm, x, 2, "all_gather: 2 parts of 0 elements do not hold the list",
                               err));
    x.kind = SYN_COMM_ALL_TO_ALL; /* without the numbers of elements */
    SYN_TRY(check_refused_list(comm, x, 1, "all_to_all: 1 elements are not divided among 2 ranks",
                               err));
    x.kind = SYN_COMM_REDUCE;
    if (start_call(comm, x, &request, NULL) != SYN_E_UNSUPPORTED)
        return SYN_FAIL(err, SYN_E_FORMAT, "a reduce was taken");
    x.kind = SYN_COMM_ALL_REDUCE; /* nothing was started, so this is the group's first call */
    SYN_TRY(start_call(comm, x, &request, err));
    return wait_for(comm, request, err);
}

static void invalid_calls_start_nothing(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, arguments_rank, NULL, &err), err);
}

static syn_status memory_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    static _Thread_local float in[LARGE], out[LARGE], got[LARGE];
    syn_group *group = NULL;
    syn_request *requests[2] = {NULL};
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    SYN_TRY(start_f32_sum(comm, group, in, out, LARGE, &requests[0], err));
    SYN_TRY(
        start_f32_message(comm, SYN_COMM_RECV, got, LARGE, 1 - comm->rank, 0, &requests[1], err));
    SYN_TRY(syn_comm_send(comm, in, LARGE, SYN_F32, 1 - comm->rank, 0, err));
    for (int i = 0; i < 2; i++) SYN_TRY(wait_for(comm, requests[i], err));
    return SYN_OK;
}

static syn_status memory_rank_aborts(syn_comm *comm, void *arg, syn_error *err) {
    const syn_status status = memory_rank(comm, arg, err);
    if (status != SYN_OK) comm->ops->abort(comm, err->text);
    return status;
}

static void out_of_memory_at_any_step_ends_the_run(void) {
    for (uint64_t n = 0; n < 200; n++) {
        syn_error err = {0};
        syn_memory_fail_after(n);
        const syn_status status = syn_local_run(2, memory_rank_aborts, NULL, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) return;
        CHECK_MSG(status == SYN_E_NOMEM, "step %d: %s", (int)n, err.text);
    }
    CHECK_MSG(false, "the run never succeeded");
}

/* Simulates a context that outlives its communicator: holds the communicator, and waits for an
   operation after the communicator is closed. */
typedef struct survivor {
    syn_comm *comm;
    syn_request *reduced, *received;
    float in[LARGE], out[LARGE], never[3];
} survivor;

static syn_status survivor_rank(syn_comm *comm, void *arg, syn_error *err) {
    survivor *s = (survivor *)arg + comm->rank;
    syn_group *group = NULL;
    SYN_TRY(open_first(comm, 1, "pair", 2, &group, err));
    f32_fill(s->in, LARGE, 1);
    SYN_TRY(start_f32_sum(comm, group, s->in, s->out, LARGE, &s->reduced, err));
    SYN_TRY(
        start_f32_message(comm, SYN_COMM_RECV, s->never, 3, 1 - comm->rank, 4, &s->received, err));
    syn__comm_hold(comm);
    s->comm = comm;
    return SYN_OK;
}

/* After the close, no operation can be started and no group opened, because the state that the
   ranks shared is gone. */
static void check_refused(syn_comm *comm) {
    const char *sentence = " is closed and accepts no more calls";
    syn_error start = {0}, message = {0}, open = {0};
    syn_request *request = NULL;
    syn_group *other = NULL;
    float data = 0;
    CHECK_INT(start_f32_sum(comm, syn_comm_group(comm, 1), &data, &data, 1, &request, &start),
              SYN_E_INVALID);
    CHECK_INT(syn_comm_send(comm, &data, 1, SYN_F32, 0, 0, &message), SYN_E_INVALID);
    CHECK_INT(open_first(comm, 2, "late", 2, &other, &open), SYN_E_INVALID);
    CHECK_HAS(start.text, sentence);
    CHECK_HAS(message.text, sentence);
    CHECK_HAS(open.text, sentence);
}

static void requests_can_be_waited_for_after_close(void) {
    static survivor ranks[2];
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, survivor_rank, ranks, &err), err);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(wait_for(ranks[r].comm, ranks[r].reduced, &err), err);
        CHECK_OK(f32_all_are(ranks[r].out, LARGE, 2, &err), err);
        syn_error reported = {0};
        CHECK_INT(wait_for(ranks[r].comm, ranks[r].received, &reported), SYN_E_COMM);
        CHECK_HAS(reported.text, " closed its communicator before recv(tag 4) from rank ");
        check_refused(ranks[r].comm);
        syn__comm_release(ranks[r].comm);
    }
}

static const test_case cases[] = {
    {"failures_end_started_operations", failures_end_started_operations},
    {"invalid_calls_start_nothing", invalid_calls_start_nothing},
    {"out_of_memory_at_any_step_ends_the_run", out_of_memory_at_any_step_ends_the_run},
    {"requests_can_be_waited_for_after_close", requests_can_be_waited_for_after_close},
};

TEST_MAIN(cases)
