/* Replays of ranks made by hand. */
#include "test.h"

#include "pt_hand.h"

#define HOST   SYN__PT_OP_HOST
#define KERNEL SYN__PT_OP_KERNEL

static syn__pt_replay_lane lanes[8];
static syn__pt_replayed end;

/* Replays into lanes and end. */
static syn_status replay(const hand_op *rows, size_t n, syn_error *err) {
    hand h;
    hand_make(&h, rows, n);
    const syn_status status = syn__pt_replay(&h.rank, &end, err);
    if (status == SYN_OK) memcpy(lanes, end.lanes, sizeof lanes);
    syn_free(end.lanes);
    hand_free(&h);
    return status;
}

#define REPLAY(rows)                                                                           \
    do {                                                                                       \
        syn_error replay_error = {0};                                                          \
        CHECK_OK(replay(rows, sizeof(rows) / sizeof((rows)[0]), &replay_error), replay_error); \
    } while (0)

static void test_times(void) {
    /* The trace begins at 1000. Kernels start as measured, since nothing differs:
       K1 is launched at 1000 + 20 and starts 15 later for no known reason: the replay has it at 20;
       it ends at 120, K2 was launched before and starts then. */
    const hand_op rows[] = {{"a", HOST, 0, 1000, 50, .deps = NULL},
                            {"b", HOST, 0, 1060, 40, .deps = "0P"},
                            {"K1", KERNEL, 2, 1035, 100, .deps = "0L", .parent = 1,
                             .launched = 1010, .launch_wall = 10},
                            {"K2", KERNEL, 2, 1140, 60, .deps = "1L 2S", .parent = 2,
                             .launched = 1070, .launch_wall = 20}};
    REPLAY(rows);
    CHECK_INT(end.measured_ns, 200);
    CHECK_INT(lanes[0].measured_ns, 100);
    CHECK_INT(lanes[0].replayed_ns, 100);
    CHECK_INT(lanes[0].busy_ns, 90);
    CHECK_INT(lanes[0].n_ops, 2);
    CHECK_INT(lanes[2].measured_ns, 200);
    CHECK_INT(lanes[2].replayed_ns, 20 + 100 + 60);
    CHECK_INT(lanes[2].busy_ns, 160);
    CHECK_INT(end.replayed_ns, 180);
    CHECK_INT(lanes[3].n_ops, 0);
    CHECK_INT(lanes[3].replayed_ns, 0);
}

static void test_launch(void) {
    /* Without the call's times a launch is over when the kernel began, or with the op. */
    const hand_op early[] = {{"a", HOST, 0, 0, 50, .deps = NULL},
                             {"K", KERNEL, 2, 30, 5, .deps = "0L", .parent = 1}};
    REPLAY(early);
    CHECK_INT(lanes[2].replayed_ns, 35);
    const hand_op late[] = {{"a", HOST, 0, 0, 50, .deps = NULL},
                            {"K", KERNEL, 2, 80, 5, .deps = "0L", .parent = 1}};
    REPLAY(late);
    CHECK_INT(lanes[2].replayed_ns, 55);
    /* A call that waits for its own copy: not launched later than it ran. */
    const hand_op copy[] = {{"a", HOST, 0, 0, 50, .deps = NULL},
                            {"K", SYN__PT_OP_MEMCPY, 2, 30, 5, .deps = "0L", .parent = 1,
                             .launched = 10, .launch_wall = 39}};
    REPLAY(copy);
    CHECK_INT(lanes[2].replayed_ns, 35);
}

static void test_idle(void) {
    /* Python before the first op, between ops, and within an op: all of it passes again. */
    const hand_op rows[] = {{"first", HOST, 1, 0, 1, .deps = NULL},
                            {"a", HOST, 0, 100, 10, .deps = NULL},
                            {"b", HOST, 0, 300, 100, .deps = "1P", .self = 70},
                            {"c", HOST, 0, 340, 30, .deps = "2C 2P", .parent = 3}};
    REPLAY(rows);
    CHECK_INT(lanes[0].measured_ns, 400);
    CHECK_INT(lanes[0].replayed_ns, 400);
    CHECK_INT(lanes[0].busy_ns, 110);
}

static void test_sync(void) {
    /* The thread waits in `wait` until K is over at 500 and goes on 20 later. In the replay K
       starts at 10, when it was launched, not at 100, and so all that follows is 90 earlier. */
    const hand_op rows[] = {
        {"a", HOST, 0, 0, 20, .deps = NULL},
        {"K", KERNEL, 2, 100, 400, .deps = "0L", .parent = 1, .launched = 5, .launch_wall = 5},
        {"wait", HOST, 0, 30, 480, .deps = "0P"},
        {"b", HOST, 0, 520, 30, .deps = "2P 1Y"},
        {"K2", KERNEL, 2, 530, 7, .deps = "1S 3L", .parent = 4, .launched = 521, .launch_wall = 4}};
    REPLAY(rows);
    CHECK_INT(end.measured_ns, 550);
    CHECK_INT(lanes[0].replayed_ns, 550 - 90);
    CHECK_INT(lanes[2].replayed_ns, 410 + 20 + 5 + 7);
}

static void test_sync_long_ago(void) {
    /* What was over before the thread's last op explains nothing; it may still be what is late:
       here the stream is: K1 and K2 overlapped in the trace, and cannot in the replay. */
    const hand_op rows[] = {{"a", HOST, 0, 0, 10, .deps = NULL},
                            {"K1", KERNEL, 2, 5, 100, .deps = "0L", .parent = 1},
                            {"K2", KERNEL, 2, 6, 100, .deps = "0L", .parent = 1},
                            {"b", HOST, 0, 110, 10, .deps = "0P"},
                            {"c", HOST, 0, 130, 10, .deps = "2Y 3P"}};
    REPLAY(rows);
    CHECK_INT(lanes[2].replayed_ns, 205);
    CHECK_INT(lanes[0].replayed_ns, 215);
    CHECK_INT(end.measured_ns, 140);
    CHECK_INT(end.replayed_ns, 215);
}

static void test_threads(void) {
    /* Thread 1 sleeps until thread 0's op is over at 100 and begins 50 later; when the op is later,
       so is thread 1. The op is 40 later as K is, which it waits for. */
    const hand_op rows[] = {{"a", HOST, 0, 0, 5, .deps = NULL},
                            {"K0", KERNEL, 2, 0, 40, .deps = "0L", .parent = 1},
                            {"K", KERNEL, 2, 0, 60, .deps = "0L", .parent = 1},
                            {"op", HOST, 0, 60, 40, .deps = "0P 2Y"},
                            {"woken", HOST, 1, 150, 10, .deps = "3T"},
                            {"next", HOST, 1, 170, 10, .deps = "4P"}};
    REPLAY(rows);
    CHECK_INT(lanes[2].replayed_ns, 100);
    CHECK_INT(lanes[0].replayed_ns, 140);
    CHECK_INT(lanes[1].measured_ns, 180);
    CHECK_INT(lanes[1].replayed_ns, 220);
}

static void test_woken_within(void) {
    /* The waking op still ran: what counts is its start. */
    const hand_op rows[] = {{"op", HOST, 0, 0, 1000, .deps = NULL},
                            {"woken", HOST, 1, 30, 10, .deps = "0T"},
                            {"next", HOST, 1, 50, 10, .deps = "1P"}};
    REPLAY(rows);
    CHECK_INT(lanes[1].replayed_ns, 60);
}

static void test_waits_itself(void) {
    /* A collective that began at 50 while it waited for K until 100 takes 30 from then. */
    const hand_op rows[] = {{"K", KERNEL, 2, 0, 100, .deps = NULL},
                            {"C", KERNEL, 3, 50, 80, .deps = "0Y"},
                            {"later", KERNEL, 3, 130, 10, .deps = "1S"}};
    REPLAY(rows);
    CHECK_INT(lanes[3].replayed_ns, 140);
    CHECK_INT(lanes[3].busy_ns, 90);
}

static void test_backwards(void) {
    /* Starts that go back, as clocks may, take no time and are not made up for later. */
    const hand_op rows[] = {{"first", HOST, 1, 0, 1, .deps = NULL},
                            {"a", HOST, 0, 100, 1, .deps = NULL},
                            {"b", HOST, 0, 50, 1, .deps = "1P"},
                            {"c", HOST, 0, 200, 1, .deps = "2P"}};
    REPLAY(rows);
    CHECK_INT(lanes[0].replayed_ns, 201);
}

static void test_without_times(void) {
    const int64_t none = SYN__PT_NO_NS;
    const hand_op rows[] = {{"root", HOST, 0, none, none, .deps = NULL, .self = 0},
                            {"a", HOST, 0, 10, 20, .deps = "0C 0P", .parent = 1},
                            {"b", HOST, 0, none, none, .deps = "1P"},
                            {"K", KERNEL, 2, none, 7, .deps = "2L", .parent = 3},
                            {"K2", KERNEL, 2, none, none, .deps = "3S"},
                            {"c", HOST, 0, 60, 20, .deps = "2P"}};
    REPLAY(rows);
    CHECK_INT(end.measured_ns, 70); /* from a's start */
    CHECK_INT(lanes[0].replayed_ns, 70);
    CHECK_INT(lanes[2].measured_ns, 0);
    CHECK_INT(lanes[2].replayed_ns, 7);
    CHECK_INT(lanes[0].busy_ns, 40);
    const hand_op nothing[] = {{"K", KERNEL, 2, none, none, .deps = NULL}};
    REPLAY(nothing);
    CHECK_INT(end.measured_ns, 0);
    CHECK_INT(end.replayed_ns, 0);
    CHECK_INT(lanes[2].n_ops, 1);
}

static void test_extremes(void) {
    /* Ends of the range do not overflow. */
    const hand_op rows[] = {{"a", HOST, 0, INT64_MIN + 1, INT64_MAX, .deps = NULL},
                            {"b", HOST, 0, INT64_MAX, INT64_MAX, .deps = "0P"},
                            {"K", KERNEL, 2, INT64_MAX - 1, INT64_MAX, .deps = "1L", .parent = 2,
                             .launched = INT64_MIN + 1},
                            {"K2", KERNEL, 2, -5, INT64_MAX, .deps = "2S 0Y"}};
    REPLAY(rows);
    CHECK(end.measured_ns > 0);
    CHECK(end.replayed_ns > 0);
}

static void test_memory(void) {
    const hand_op rows[] = {{"a", HOST, 0, 0, 10, .deps = NULL}};
    syn_error err = {0};
    int failures = 0;
    hand h;
    hand_make(&h, rows, 1);
    for (uint64_t n = 0;; n++) {
        syn_memory_fail_after(n);
        const syn_status status = syn__pt_replay(&h.rank, &end, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) break;
        CHECK_INT(status, SYN_E_NOMEM);
        CHECK(end.lanes == NULL);
        failures++;
    }
    syn_free(end.lanes);
    hand_free(&h);
    CHECK_INT(failures, 4);
}

static const test_case cases[] = {{"times", test_times},
                                  {"launch", test_launch},
                                  {"idle", test_idle},
                                  {"sync", test_sync},
                                  {"sync_long_ago", test_sync_long_ago},
                                  {"threads", test_threads},
                                  {"woken_within", test_woken_within},
                                  {"waits_itself", test_waits_itself},
                                  {"backwards", test_backwards},
                                  {"without_times", test_without_times},
                                  {"extremes", test_extremes},
                                  {"memory", test_memory}};
TEST_MAIN(cases)
