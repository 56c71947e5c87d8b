/* Tests the replays of profile full and of profile astra-sim (pt_replay.h), on ranks built from
   rows (pt_hand.h). The expected times were worked out by hand. */
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/sim/pt_replay.h"
#include "tests/support/pt_hand.h"

typedef syn_status (*replayer)(const syn__pt_rank *rank, syn_pytorch_replay *out, syn_error *err);

static syn_pytorch_replay_row tracks[8];
static syn_pytorch_replay end;

/* Replays a rank with these rows and communications. Sets `end`, copies its rows to `tracks`. */
static syn_status replay(replayer run, const hand_op *rows, size_t n, syn__pt_comm *comms,
                         size_t n_comms, syn_error *err) {
    hand h;
    hand_make(&h, rows, n);
    h.rank.comms = comms;
    h.rank.n_comms = n_comms;
    const syn_status status = run(&h.rank, &end, err);
    memset(tracks, 0, sizeof tracks);
    if (status == SYN_OK) memcpy(tracks, end.rows, end.n_rows * sizeof *tracks);
    syn_free(end.rows);
    hand_free(&h);
    return status;
}

#define REPLAY_WITH(run, rows, comms, n_comms)                                                  \
    do {                                                                                        \
        syn_error replay_error = {0};                                                           \
        CHECK_OK(                                                                               \
            replay(run, rows, sizeof(rows) / sizeof((rows)[0]), comms, n_comms, &replay_error), \
            replay_error);                                                                      \
    } while (0)
#define REPLAY(rows)     REPLAY_WITH(syn__pt_replay, rows, NULL, 0)
#define REPLAY_SIM(rows) REPLAY_WITH(syn__pt_replay_sim, rows, NULL, 0)

/* ---- All nodes ---- */

static void test_times(void) {
    /* The trace begins at 1 ms. The 10 us of Python between a and b are in no node, so b runs from
       50 to 90 us. K1 begins at the end of a. K2 begins when both b and K1 have ended. */
    const hand_op rows[] = {{"a", HOST, 0, 1000 US, 50 US, .deps = NULL},
                            {"b", HOST, 0, 1060 US, 40 US, .deps = "0P"},
                            {"K1", KERNEL, 2, 1035 US, 100 US, .deps = "0L", .parent = 1},
                            {"K2", KERNEL, 2, 1140 US, 60 US, .deps = "1L 2S", .parent = 2}};
    REPLAY(rows);
    CHECK_INT(end.n_rows, 8);
    CHECK_INT(end.measured_ns, 200 US);
    CHECK_INT(tracks[0].measured_ns, 100 US);
    CHECK_INT(tracks[0].replayed_ns, 90 US);
    CHECK_INT(tracks[0].busy_ns, 90 US);
    CHECK_INT(tracks[0].idle_ns, 10 US);
    CHECK_INT(tracks[0].n_ops, 2);
    CHECK_INT(tracks[2].measured_ns, 200 US);
    CHECK_INT(tracks[2].replayed_ns, (50 + 100 + 60) US);
    CHECK_INT(tracks[2].busy_ns, 160 US);
    CHECK_INT(tracks[2].idle_ns, 0);
    CHECK_INT(end.replayed_ns, 210 US);
    CHECK_INT(tracks[3].n_ops, 0);
    CHECK_INT(tracks[3].replayed_ns, 0);
}

static void test_whole_micros(void) {
    /* The host ops of 1.5, 1.5 and 1.7 us are written as 1, 2 and 1 us, and a remainder of 0.7 us
       is left. The kernel of 0.999 us is written as 0 us. */
    const hand_op rows[] = {{"a", HOST, 0, 0, 1500, .deps = NULL},
                            {"b", HOST, 0, 1500, 1500, .deps = "0P"},
                            {"K", KERNEL, 2, 3000, 999, .deps = "1L"},
                            {"c", HOST, 0, 3000, 1700, .deps = "1P"}};
    REPLAY(rows);
    CHECK_INT(tracks[0].replayed_ns, 4 US);
    CHECK_INT(tracks[0].busy_ns, 4 US);
    CHECK_INT(tracks[0].idle_ns, 0);
    CHECK_INT(tracks[2].replayed_ns, 3 US);
    CHECK_INT(end.measured_ns, 4700);
}

static void test_callers(void) {
    /* b calls c, and c launches K. The 70 us of b itself are replayed before the 30 us of c, and K
       begins after both. */
    const hand_op rows[] = {{"b", HOST, 0, 0, 100 US, .deps = NULL, .self = 70 US},
                            {"c", HOST, 0, 10 US, 30 US, .deps = "0C 0P", .parent = 1},
                            {"K", KERNEL, 2, 41 US, 5 US, .deps = "1L", .parent = 2}};
    REPLAY(rows);
    CHECK_INT(tracks[0].replayed_ns, 100 US);
    CHECK_INT(tracks[0].idle_ns, 0);
    CHECK_INT(tracks[2].replayed_ns, 105 US);
}

static void test_waits(void) {
    /* Op b depends on K, op `woken` on another thread, and K2 on another stream. The times in the
       trace do not matter. A track runs one op at a time, so K3 begins at the end of K2. */
    const hand_op rows[] = {
        {"a", HOST, 0, 0, 5 US, .deps = NULL},      {"K", KERNEL, 2, 500 US, 60 US, .deps = "0L"},
        {"b", HOST, 0, 10 US, 40 US, .deps = "1Y"}, {"woken", HOST, 1, 0, 10 US, .deps = "2T"},
        {"K2", KERNEL, 3, 0, 7 US, .deps = "1Y"},   {"K3", KERNEL, 3, 0, 8 US, .deps = NULL}};
    REPLAY(rows);
    CHECK_INT(tracks[2].replayed_ns, 65 US);
    CHECK_INT(tracks[0].replayed_ns, 105 US);
    CHECK_INT(tracks[1].replayed_ns, 115 US);
    CHECK_INT(tracks[3].replayed_ns, (65 + 7 + 8) US);
}

static void test_without_times(void) {
    const int64_t none = SYN__PT_NO_NS;
    const hand_op rows[] = {{"root", HOST, 0, none, none, .deps = NULL, .self = 0},
                            {"a", HOST, 0, 10 US, 20 US, .deps = "0C 0P", .parent = 1},
                            {"K", KERNEL, 2, none, 7 US, .deps = "1L", .parent = 2},
                            {"K2", KERNEL, 2, none, none, .deps = "2S"}};
    REPLAY(rows);
    CHECK_INT(end.measured_ns, 20 US); /* from the start of a */
    CHECK_INT(tracks[0].replayed_ns, 20 US);
    CHECK_INT(tracks[2].measured_ns, 0);
    CHECK_INT(tracks[2].replayed_ns, 27 US);
    const hand_op nothing[] = {{"K", KERNEL, 2, none, none, .deps = NULL}};
    REPLAY(nothing);
    CHECK_INT(end.measured_ns, 0);
    CHECK_INT(end.replayed_ns, 0);
    CHECK_INT(tracks[2].n_ops, 1);
}

static void test_extremes(void) {
    /* Arithmetic with the smallest and largest times does not overflow. */
    const hand_op rows[] = {{"a", HOST, 0, INT64_MIN + 1, INT64_MAX, .deps = NULL},
                            {"b", HOST, 0, INT64_MAX, INT64_MAX, .deps = "0P"},
                            {"K", KERNEL, 2, INT64_MAX - 1, INT64_MAX, .deps = "1L", .parent = 2,
                             .launched = INT64_MIN + 1},
                            {"K2", KERNEL, 2, -5, INT64_MAX, .deps = "2S 0Y"}};
    REPLAY(rows);
    CHECK(end.measured_ns > 0);
    CHECK(end.replayed_ns > 0);
    REPLAY_SIM(rows);
    CHECK(end.measured_ns > 0);
    CHECK(end.replayed_ns > 0);
}

/* ---- Nodes of a simulator ---- */

static void test_slots(void) {
    /* K1 overlapped K0 on another stream, but there is only one compute slot: K0 runs from 0 to 20
       us and K1 from 20 to 30 us. K2 began 9 us after the end of K0, so its delay fills the slot
       from 30 to 39 us. */
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 20 US, .deps = NULL},
                            {"K1", KERNEL, 3, 5 US, 10 US, .deps = NULL},
                            {"K2", KERNEL, 3, 29 US, 1 US, .deps = "1S"}};
    REPLAY_SIM(rows);
    CHECK_INT(end.n_rows, 2);
    CHECK_INT(end.measured_ns, 30 US);
    CHECK_INT(end.replayed_ns, 40 US);
    CHECK_INT(tracks[0].busy_ns, 40 US);
    CHECK_INT(tracks[0].n_ops, 4);
    CHECK_INT(tracks[1].n_ops, 0);
}

static void test_communication(void) {
    /* Communication has its own slot: K0 runs from 0 to 10 us, C from 10 to 60 us, and meanwhile
       the delay of K1 from 10 to 40 us and K1 from 40 to 41 us. The last 10 us of the host are in
       no node. */
    syn__pt_comm comm = {
        .op = 1, .type = SYN__ET_COMM_COLL_NODE, .bytes = 8, .group = SYN__PT_NONE};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
                            {"C", KERNEL, 3, 10 US, 50 US, .deps = "0Y", .comm = 1},
                            {"K1", KERNEL, 2, 40 US, 1 US, .deps = "0S"},
                            {"z", HOST, 0, 50 US, 20 US, .deps = NULL}};
    REPLAY_WITH(syn__pt_replay_sim, rows, &comm, 1);
    CHECK_INT(tracks[0].replayed_ns, 41 US);
    CHECK_INT(tracks[0].measured_ns, 41 US);
    CHECK_INT(tracks[0].busy_ns, 41 US);
    CHECK_INT(tracks[1].replayed_ns, 60 US);
    CHECK_INT(tracks[1].busy_ns, 50 US);
    CHECK_INT(tracks[1].n_ops, 1);
    CHECK_INT(end.replayed_ns, 60 US);
    CHECK_INT(end.measured_ns, 70 US);
}

static void test_launch_bound(void) {
    /* C was launched at 40 us, while K1 ran. What had ended last was the delay before K1, from 10
       to 30 us. C depends on that delay, so it starts at 30 us. */
    syn__pt_comm comm = {
        .op = 2, .type = SYN__ET_COMM_COLL_NODE, .bytes = 8, .group = SYN__PT_NONE};
    const hand_op rows[] = {
        {"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
        {"K1", KERNEL, 2, 30 US, 60 US, .deps = "0S"},
        {"C", KERNEL, 3, 95 US, 5 US, .deps = NULL, .comm = 1, .launched = 40 US}};
    REPLAY_WITH(syn__pt_replay_sim, rows, &comm, 1);
    CHECK_INT(tracks[1].replayed_ns, 35 US);
    CHECK_INT(tracks[0].replayed_ns, 90 US);
}

static void test_lowest_id(void) {
    /* K1 and K2 are ready at the end of K0, at 20 us. K2 began earlier and has the lower id, so it
       runs first, and C, which depends on K2, starts at 30 us. */
    syn__pt_comm comm = {
        .op = 3, .type = SYN__ET_COMM_COLL_NODE, .bytes = 8, .group = SYN__PT_NONE};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 20 US, .deps = NULL},
                            {"K1", KERNEL, 3, 12 US, 40 US, .deps = NULL},
                            {"K2", KERNEL, 4, 11 US, 10 US, .deps = NULL},
                            {"C", KERNEL, 5, 60 US, 5 US, .deps = "2Y", .comm = 1, .launched = 1}};
    REPLAY_WITH(syn__pt_replay_sim, rows, &comm, 1);
    CHECK_INT(tracks[1].replayed_ns, 35 US);
    CHECK_INT(tracks[0].replayed_ns, 70 US);
}

static void test_nothing(void) {
    const hand_op rows[] = {{"a", HOST, 0, SYN__PT_NO_NS, 0, .deps = NULL}};
    syn_error err = {0};
    CHECK_INT(replay(syn__pt_replay_sim, rows, 1, NULL, 0, &err), SYN_E_INVALID);
    CHECK(end.rows == NULL);
}

/* ---- Memory ---- */

/* The number of allocations of a replay, each of which fails once; negative: a failure was not
   handled correctly. */
static int count_failures(replayer run) {
    const hand_op rows[] = {{"K", KERNEL, 2, 0, 10, .deps = NULL}};
    syn_error err = {0};
    int failures = 0;
    hand h;
    hand_make(&h, rows, 1);
    for (uint64_t n = 0;; n++) {
        syn_memory_fail_after(n);
        const syn_status status = run(&h.rank, &end, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) break;
        if (status != SYN_E_NOMEM || end.rows != NULL) failures = -1000;
        failures++;
    }
    syn_free(end.rows);
    hand_free(&h);
    return failures;
}

static void test_memory(void) {
    CHECK_INT(count_failures(syn__pt_replay), 4);
    CHECK(count_failures(syn__pt_replay_sim) > 20);
}

static const test_case cases[] = {{"times", test_times},
                                  {"whole_micros", test_whole_micros},
                                  {"callers", test_callers},
                                  {"waits", test_waits},
                                  {"without_times", test_without_times},
                                  {"extremes", test_extremes},
                                  {"slots", test_slots},
                                  {"communication", test_communication},
                                  {"launch_bound", test_launch_bound},
                                  {"lowest_id", test_lowest_id},
                                  {"nothing", test_nothing},
                                  {"memory", test_memory}};
TEST_MAIN(cases)
