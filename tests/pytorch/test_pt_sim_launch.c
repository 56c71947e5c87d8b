/* Tests the nodes "host delay" before communication in profile astra-sim. They end at the launch of
   the communication. Also tests traces without device work, in which all time between
   communications is delay. Ranks are built from rows; test_pt_sim.c explains how the expected nodes
   are written. It also tests the delays before computation. */
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "tests/support/pt_written.h"

#define COLL(op_, kind, group_)                                                     \
    {                                                                               \
        .op = op_, .type = SYN__ET_COMM_COLL_NODE, .collective = kind, .bytes = 64, \
        .group = group_, .peer = -1, .sequence = -1                                 \
    }

static char text[1 << 12];
static syn_error error;
static int32_t two[] = {0, 1};
static syn__pt_group pair = {"0", "", two, 2, 2, 1};

/* Converts rank 0 of two, with these rows and communications, and sets `text` to its nodes. */
static syn_status sim(const hand_op *rows, size_t n, syn__pt_comm *comms, size_t n_comms) {
    hand h;
    hand_make(&h, rows, n);
    h.rank.comms = comms;
    h.rank.n_comms = n_comms;
    h.rank.groups = &pair;
    h.rank.n_groups = 1;
    error = (syn_error){0};
    const syn_status status = written(&h.rank, false, text, sizeof text, &error);
    hand_free(&h);
    return status;
}

/* ---- When communication is launched ---- */

static void test_launched_first(void) {
    /* Nothing ran before C was launched at 100 us, so C has a delay of 100 us. K starts at 130 us
       and has a delay of the remaining 30 us. */
    syn__pt_comm comm = COLL(1, 0, 0);
    const hand_op rows[] = {
        {"a", HOST, 0, 0, 1 US, .deps = NULL},
        {"C", KERNEL, 3, 120 US, 10 US, .deps = "0L", .comm = 1, .launched = 100 US},
        {"K", KERNEL, 2, 130 US, 5 US, .deps = "0L"}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1), error);
    CHECK_STR(text, "1 host delay 0+100 | 2 C 120+10 1L | 3 host delay 100+30 1L | 4 K 130+5 3L");
}

static void test_launched_concurrently(void) {
    /* C0 was launched at 60 us, while K1 ran, so it depends on K0, which had ended last. C2 follows
       C0 on its stream and needs no dependency on K0 of its own. C1 was launched at 115 us, when K1
       had just ended, and depends on K1 anyway. */
    syn__pt_comm comms[] = {COLL(2, 0, 0), COLL(3, 0, 0), COLL(4, 0, 0)};
    const hand_op rows[] = {
        {"K0", KERNEL, 2, 0, 50 US, .deps = NULL},
        {"K1", KERNEL, 2, 50 US, 65 US, .deps = "0S"},
        {"C0", KERNEL, 3, 120 US, 5 US, .deps = NULL, .comm = 1, .launched = 60 US},
        {"C2", KERNEL, 3, 125 US, 5 US, .deps = "2S", .comm = 2, .launched = 70 US},
        {"C1", KERNEL, 4, 130 US, 5 US, .deps = "1Y", .comm = 3, .launched = 115 US}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3), error);
    CHECK_STR(text, "1 K0 0+50 | 2 K1 50+65 1S | 3 C0 120+5 1L | 4 C2 125+5 3S | 5 C1 130+5 2Y 4G");
    /* If C1 is launched before the end of K1, its dependency on K1 implies the one on K0. */
    hand_op before[COUNT(rows)];
    memcpy(before, rows, sizeof rows);
    before[4].launched = 80 US;
    CHECK_OK(sim(before, COUNT(rows), comms, 3), error);
    CHECK_HAS(text, "| 5 C1 130+5 2Y 4G");
}

static void test_launched_after_delay(void) {
    /* When C was launched, at 40 us, the delay before K1 had ended last (it lasted from 10 to 30
       us), so C depends on that delay. */
    syn__pt_comm comm = COLL(2, 0, 0);
    const hand_op rows[] = {
        {"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
        {"K1", KERNEL, 2, 30 US, 60 US, .deps = "0S"},
        {"C", KERNEL, 3, 95 US, 5 US, .deps = NULL, .comm = 1, .launched = 40 US}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1), error);
    CHECK_STR(text, "1 K0 0+10 | 2 host delay 10+20 1S | 3 K1 30+60 2L | 4 C 95+5 2L");
}

static void test_launched_after_wait(void) {
    /* The host waited for C0 until 50 us. C1 started at 60 us, so it has a delay of 10 us. Its
       recorded launch, at 61 us, is after its start and therefore counts as 60 us. */
    syn__pt_comm comms[] = {COLL(1, 0, 0), COLL(3, 0, 0)};
    const hand_op rows[] = {
        {"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
        {"C0", KERNEL, 3, 10 US, 40 US, .deps = "0Y", .comm = 1, .launched = 9 US},
        {"a", HOST, 0, 50 US, 0, .deps = "1Y"},
        {"C1", KERNEL, 4, 60 US, 5 US, .deps = "2L", .comm = 2, .launched = 61 US}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 2), error);
    CHECK_STR(text, "1 K0 0+10 | 2 C0 10+40 1Y | 3 host delay 50+10 1L 2L | 4 C1 60+5 2L 3L");
}

static void test_contradiction(void) {
    /* K depends on C, but according to the times C was launched after K had ended. The dependency
     * wins. */
    syn__pt_comm comm = COLL(0, 0, 0);
    const hand_op rows[] = {{"C", KERNEL, 3, 20 US, 5 US, .deps = NULL, .comm = 1},
                            {"K", KERNEL, 2, 0, 10 US, .deps = "0Y"}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1), error);
    CHECK_STR(text, "1 C 20+5 | 2 K 0+10 1Y");
}

/* ---- Without device work ---- */

static void test_host_only(void) {
    /* The time before, between and after the collectives is delay. */
    syn__pt_comm comms[] = {COLL(1, 0, 0), COLL(3, 0, 0)};
    const hand_op rows[] = {{"a", HOST, 0, 0, 10 US, .deps = NULL},
                            {"C0", HOST, 0, 10 US, 5 US, .deps = "0P", .comm = 1},
                            {"b", HOST, 0, 15 US, 4 US, .deps = "1P"},
                            {"C1", HOST, 0, 20 US, 10 US, .deps = "2P", .comm = 2},
                            {"z", HOST, 0, 32 US, 13 US, .deps = "3P"}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 2), error);
    CHECK_STR(text, "1 host delay 0+10 | 2 C0 10+5 1L | 3 host delay 15+5 2L | 4 C1 20+10 2T 3L | "
                    "5 host delay 30+15 4L");
}

static void test_host_barrier(void) {
    /* The 10 us before the barrier and the 2 us after it become a single delay. */
    syn__pt_comm comms[] = {COLL(1, 9, 0), COLL(2, 0, 0)};
    const hand_op rows[] = {{"a", HOST, 0, 0, 10 US, .deps = NULL},
                            {"B", HOST, 0, 10 US, 4 US, .deps = "0P", .comm = 1},
                            {"C", HOST, 0, 16 US, 4 US, .deps = "1P", .comm = 2}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 2), error);
    CHECK_STR(text, "1 host delay 4+12 | 2 C 16+4 1L");
}

static void test_host_threads(void) {
    /* C1 overlaps C0, so it has no delay of its own. C2 starts 10 us after the end of C0, which
       ended later than C1. */
    syn__pt_comm comms[] = {COLL(1, 0, 0), COLL(2, 0, 0), COLL(3, 0, 0)};
    const hand_op rows[] = {{"a", HOST, 0, 0, 10 US, .deps = NULL},
                            {"C0", HOST, 0, 10 US, 30 US, .deps = "0P", .comm = 1},
                            {"C1", HOST, 1, 20 US, 10 US, .deps = NULL, .comm = 2},
                            {"C2", HOST, 1, 50 US, 10 US, .deps = "2P", .comm = 3}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3), error);
    CHECK_STR(text,
              "1 host delay 0+10 | 2 C0 10+30 1L | 3 C1 20+10 1L 2G | 4 host delay 40+10 2L | "
              "5 C2 50+10 3T 4L");
}

static const test_case cases[] = {{"launched_first", test_launched_first},
                                  {"launched_beside", test_launched_concurrently},
                                  {"launched_after_delay", test_launched_after_delay},
                                  {"launched_after_wait", test_launched_after_wait},
                                  {"contradiction", test_contradiction},
                                  {"host_only", test_host_only},
                                  {"host_barrier", test_host_barrier},
                                  {"host_threads", test_host_threads}};
TEST_MAIN(cases)
