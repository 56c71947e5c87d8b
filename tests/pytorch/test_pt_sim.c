/* Tests the nodes that profile astra-sim writes for one rank: their dependencies, delays, durations
   and communication. Ranks are built from rows (pt_hand.h). The expected nodes were worked out by
   hand from the rules in pt_sim.c. They are written as in "2 K1 5+7 1S" (pt_written.h): id, name,
   start and duration in microseconds, then each dependency as the id of the node and a letter for
   its class (L launch, S stream, Y sync, G group, T thread, caller, or previous op of the thread).
   Files are tested in test_pt_sim_file.c, delays before communication in test_pt_sim_launch.c. */
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "tests/support/pt_written.h"

static char text[1 << 16];
static syn_error error;

/* Converts a rank with these rows, communications and groups, and sets `text` to its nodes.
   attributes: with their attributes. */
static syn_status sim(const hand_op *rows, size_t n, syn__pt_comm *comms, size_t n_comms,
                      syn__pt_group *groups, size_t n_groups, bool attributes) {
    hand h;
    hand_make(&h, rows, n);
    h.rank.comms = comms;
    h.rank.n_comms = n_comms;
    h.rank.groups = groups;
    h.rank.n_groups = n_groups;
    error = (syn_error){0};
    const syn_status status = written(&h.rank, attributes, text, sizeof text, &error);
    hand_free(&h);
    return status;
}

#define CHECK_SIM(rows, want)                                             \
    do {                                                                  \
        CHECK_OK(sim(rows, COUNT(rows), NULL, 0, NULL, 0, false), error); \
        CHECK_STR(text, want);                                            \
    } while (0)

/* ---- Dependencies ---- */

static void test_streams(void) {
    /* Each stream is a chain. Streams do not depend on each other only because the same thread
       launches their kernels one after the other. */
    const hand_op rows[] = {{"a", HOST, 0, 0, 1 US, .deps = NULL},
                            {"K0", KERNEL, 2, 0, 2 US, .deps = "0L"},
                            {"b", HOST, 0, 1 US, 1 US, .deps = "0P"},
                            {"K1", KERNEL, 3, 1 US, 9 US, .deps = "2L"},
                            {"K2", KERNEL, 2, 2 US, 1 US, .deps = "1S 2L"}};
    CHECK_SIM(rows, "1 K0 0+2 | 2 K1 1+9 | 3 K2 2+1 1S");
}

static void test_sync(void) {
    /* Everything launched after a wait for both streams depends on both. Only the first node of
       each stream has these dependencies; the later nodes of the stream depend on that node. */
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 5 US, .deps = NULL},
                            {"K1", KERNEL, 3, 0, 5 US, .deps = NULL},
                            {"wait", HOST, 0, 5 US, 0, .deps = "0Y 1Y"},
                            {"a", HOST, 0, 5 US, 0, .deps = "2P"},
                            {"K2", KERNEL, 2, 5 US, 1 US, .deps = "0S 3L"},
                            {"K3", KERNEL, 2, 6 US, 1 US, .deps = "3L 4S"},
                            {"K4", KERNEL, 3, 7 US, 1 US, .deps = "3L"},
                            {"K5", KERNEL, 4, 8 US, 1 US, .deps = "3L"},
                            {"K6", KERNEL, 4, 9 US, 1 US, .deps = "3L 7S"}};
    CHECK_SIM(rows, "1 K0 0+5 | 2 K1 0+5 | 3 K2 5+1 1S 2L | 4 K3 6+1 3S | 5 K4 7+1 1L 2S | "
                    "6 K5 8+1 1L 2L | 7 K6 9+1 6S");
}

static void test_later_sync(void) {
    /* A dependency on a node implies dependencies on the earlier nodes of its track. A node has
       only the dependencies that the earlier nodes of its own track do not imply. */
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 1 US, .deps = NULL},
                            {"a", HOST, 0, 1 US, 0, .deps = "0Y"},
                            {"K1", KERNEL, 3, 1 US, 1 US, .deps = "1L"},
                            {"K2", KERNEL, 2, 2 US, 1 US, .deps = "0S 1L"},
                            {"b", HOST, 0, 3 US, 0, .deps = "1P 3Y"},
                            {"K3", KERNEL, 3, 3 US, 1 US, .deps = "2S 4L"},
                            {"K4", KERNEL, 3, 4 US, 1 US, .deps = "0Y 4L 5S"},
                            {"c", HOST, 0, 5 US, 0, .deps = "1C 4P"},
                            {"K5", KERNEL, 4, 5 US, 1 US, .deps = "7L"}};
    CHECK_SIM(rows, "1 K0 0+1 | 2 K1 1+1 1L | 3 K2 2+1 1S | 4 K3 3+1 2S 3L | 5 K4 4+1 4S | "
                    "6 K5 5+1 3L");
}

static void test_news(void) {
    /* A stream does not wait again for what it has already waited for: K2 depends on K0, K3 also on
       K1, and K4 only on K3. K2 depends on K0 by launch and by sync. The written class is launch,
       which comes first in syn_pytorch_edge_class. */
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 1 US, .deps = NULL},
                            {"K1", KERNEL, 3, 0, 1 US, .deps = NULL},
                            {"a", HOST, 0, 1 US, 0, .deps = "0Y"},
                            {"K2", KERNEL, 4, 1 US, 1 US, .deps = "0Y 2L"},
                            {"K3", KERNEL, 4, 2 US, 1 US, .deps = "1Y 3S"},
                            {"K4", KERNEL, 4, 3 US, 1 US, .deps = "0Y 2L 4S"}};
    CHECK_SIM(rows, "1 K0 0+1 | 2 K1 0+1 | 3 K2 1+1 1L | 4 K3 2+1 2Y 3S | 5 K4 3+1 4S");
}

static void test_threads(void) {
    /* A thread that is woken up by another thread has waited for everything that the other thread
       has waited for, so K1 depends on K0. A stream can also wait for another one without the host:
       K2 depends on K1. */
    const hand_op rows[] = {
        {"K0", KERNEL, 2, 0, 1 US, .deps = NULL},    {"a", HOST, 0, 1 US, 0, .deps = "0Y"},
        {"b", HOST, 1, 1 US, 0, .deps = "1T"},       {"c", HOST, 1, 1 US, 0, .deps = "2P"},
        {"K1", KERNEL, 3, 1 US, 1 US, .deps = "3L"}, {"K2", KERNEL, 4, 2 US, 1 US, .deps = "4Y"}};
    CHECK_SIM(rows, "1 K0 0+1 | 2 K1 1+1 1L | 3 K2 2+1 2Y");
}

static void test_time_order(void) {
    /* Nodes that do not depend on each other get ids in the order of their starts, not launches. */
    const hand_op rows[] = {{"K0", KERNEL, 2, 5 US, 1 US, .deps = NULL},
                            {"K1", KERNEL, 3, 0, 5 US, .deps = NULL},
                            {"K2", KERNEL, 2, 6 US, 1 US, .deps = "0S"}};
    CHECK_SIM(rows, "1 K1 0+5 | 2 K0 5+1 | 3 K2 6+1 2S");
    const hand_op many[] = {
        {"K4", KERNEL, 2, 4 US, 1 US, .deps = NULL}, {"K5", KERNEL, 3, 5 US, 1 US, .deps = NULL},
        {"K2", KERNEL, 4, 2 US, 1 US, .deps = NULL}, {"K3", KERNEL, 5, 3 US, 1 US, .deps = NULL},
        {"K0", KERNEL, 6, 0, 1 US, .deps = NULL},    {"K1", KERNEL, 7, 1 US, 1 US, .deps = NULL}};
    const hand_op unknown[] = {{"K2", KERNEL, 2, 10 US, 1 US, .deps = NULL},
                               {"U", KERNEL, 3, SYN__PT_NO_NS, 1 US, .deps = NULL},
                               {"K1", KERNEL, 4, 0, 10 US, .deps = NULL}};
    CHECK_SIM(unknown, "1 K1 0+10 | 2 K2 10+1 | 3 U 0+1");
    CHECK_SIM(many, "1 K0 0+1 | 2 K1 1+1 | 3 K2 2+1 | 4 K3 3+1 | 5 K4 4+1 | 6 K5 5+1");
}

/* ---- Delays ---- */

static void test_delay(void) {
    /* There is a delay of 3 us from the start of the trace to K0, of 4 us from the end of K0 to K1,
       and of 1 us from the end of K3 to K4. K2 has none, because it starts while K1 runs. */
    const hand_op rows[] = {{"a", HOST, 0, 100 US, 1 US, .deps = NULL},
                            {"K0", KERNEL, 2, 103 US, 2 US, .deps = "0L"},
                            {"K1", KERNEL, 2, 109 US, 9 US, .deps = "0L 1S"},
                            {"K2", KERNEL, 3, 110 US, 9 US, .deps = "0L"},
                            {"K3", KERNEL, 2, 118 US, 1 US, .deps = "2S"},
                            {"K4", KERNEL, 2, 120 US, 1 US, .deps = "4S"}};
    CHECK_SIM(rows, "1 host delay 100+3 | 2 K0 103+2 1L | 3 host delay 105+4 2S | 4 K1 109+9 3L | "
                    "5 K2 110+9 | 6 K3 118+1 4S | 7 host delay 119+1 6S | 8 K4 120+1 7L");
    /* The delay before K2 begins at the end of K0, not at the end of K1, which was shorter and
       ended while K0 still ran on another stream. */
    const hand_op beside[] = {{"K0", KERNEL, 2, 0, 20 US, .deps = NULL},
                              {"K1", KERNEL, 3, 5 US, 1 US, .deps = NULL},
                              {"K2", KERNEL, 3, 21 US, 1 US, .deps = "1S"}};
    CHECK_SIM(beside, "1 K0 0+20 | 2 K1 5+1 | 3 host delay 20+1 2S | 4 K2 21+1 3L");
}

static void test_delay_sync(void) {
    /* K1 depends on the collective C through the host. Its delay therefore begins at the end of C
       and depends on C. The time before C was launched is a delay, too. */
    syn__pt_comm comm = {.op = 1, .type = SYN__ET_COMM_COLL_NODE, .bytes = 8, .group = 0};
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 1 US, .deps = NULL},
                            {"C", KERNEL, 3, 50 US, 50 US, .deps = "0Y", .comm = 1},
                            {"a", HOST, 0, 100 US, 0, .deps = "1Y"},
                            {"K1", KERNEL, 2, 107 US, 1 US, .deps = "0S 2L"},
                            {"K2", KERNEL, 4, 108 US, 1 US, .deps = NULL}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1, &group, 1, false), error);
    CHECK_STR(text, "1 K0 0+1 | 2 host delay 1+49 1L | 3 C 50+50 1Y 2L | "
                    "4 host delay 100+7 1S 3L | 5 K1 107+1 4L | 6 K2 108+1");
}

static void test_delay_during_communication(void) {
    /* K1 does not depend on the collective C, so its delay overlaps C. */
    syn__pt_comm comm = {.op = 1, .type = SYN__ET_COMM_COLL_NODE, .bytes = 8, .group = 0};
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
                            {"C", KERNEL, 3, 10 US, 50 US, .deps = "0Y", .comm = 1},
                            {"K1", KERNEL, 2, 40 US, 1 US, .deps = "0S"}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1, &group, 1, false), error);
    CHECK_STR(text, "1 K0 0+10 | 2 C 10+50 1Y | 3 host delay 10+30 1S | 4 K1 40+1 3L");
}

static void test_delay_stand_in(void) {
    /* The reduce C is written as computation, so it fills the compute slot from 20 to 60 us. */
    syn__pt_comm comm = {.op = 1, .type = SYN__ET_COMM_COLL_NODE, .collective = 1, .bytes = 8};
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
                            {"C", KERNEL, 3, 20 US, 40 US, .deps = "0Y", .comm = 1},
                            {"K1", KERNEL, 2, 62 US, 1 US, .deps = "0S"}};
    CHECK_OK(sim(rows, COUNT(rows), &comm, 1, &group, 1, false), error);
    CHECK_STR(text, "1 K0 0+10 | 2 host delay 10+10 1L | 3 C 20+40 1Y 2L | 4 host delay 60+2 1S | "
                    "5 K1 62+1 4L");
}

static void test_delay_barrier(void) {
    /* A barrier has no node, but a delay begins only at its end. If barriers overlap, the latest
       end counts. The rows of barriers may be in any order. */
    syn__pt_comm comms[3];
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 10 US, .deps = NULL},
                            {"B2", KERNEL, 4, 120 US, 7 US, .deps = "0Y", .comm = 1},
                            {"B0", KERNEL, 3, 30 US, 70 US, .deps = "0Y", .comm = 2},
                            {"B1", KERNEL, 4, 40 US, 10 US, .deps = "0Y", .comm = 3},
                            {"K1", KERNEL, 2, 105 US, 1 US, .deps = "0S 2Y 3Y"},
                            {"K2", KERNEL, 2, 130 US, 1 US, .deps = "1Y 4S"}};
    for (uint32_t i = 0; i < 3; i++)
        comms[i] = (syn__pt_comm){
            .op = i + 1, .type = SYN__ET_COMM_COLL_NODE, .collective = 9, .bytes = 8};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3, NULL, 0, false), error);
    CHECK_STR(text, "1 K0 0+10 | 2 host delay 100+5 1S | 3 K1 105+1 2L | 4 host delay 127+3 3S | "
                    "5 K2 130+1 4L");
}

static void test_rounding(void) {
    /* Ten kernels of 1.4 us without gaps end at 14 us. Their starts and ends are rounded, so their
       durations are 1 or 2 us and add up to 14 us. Rounded durations would add up to 10 us. */
    hand_op rows[10];
    for (int i = 0; i < 10; i++) {
        static const char *const deps[] = {NULL, "0S", "1S", "2S", "3S",
                                           "4S", "5S", "6S", "7S", "8S"};
        rows[i] = (hand_op){.name = "K",
                            .kind = KERNEL,
                            .track = 2,
                            .start = 1400 * i,
                            .wall = 1400,
                            .deps = deps[i]};
    }
    CHECK_SIM(rows, "1 K 0+1 | 2 K 1+2 1S | 3 K 3+1 2S | 4 K 4+2 3S | 5 K 6+1 4S | 6 K 7+1 5S | "
                    "7 K 8+2 6S | 8 K 10+1 7S | 9 K 11+2 8S | 10 K 13+1 9S");
    /* With gaps of 0.3 us, the last kernel ends at 16.7 us. Each gap becomes a delay of 0 or 1 us,
       and all durations add up to 17 us. */
    for (int i = 0; i < 10; i++) rows[i].start = 1700 * i;
    CHECK_OK(sim(rows, 10, NULL, 0, NULL, 0, false), error);
    unsigned long long sum = 0;
    for (const char *p = text; (p = strchr(p, '+')) != NULL; p++) sum += strtoull(p + 1, NULL, 10);
    CHECK_INT(sum, 17);
    /* Negative times are rounded like positive ones, halves up: -1500 ns to -1 us and -2500 ns to
       -2 us. K1 ends at -1600 ns, rounded to -2 us, so its duration is 0. The format has no
       negative times, so these starts are written as 0. */
    const hand_op before[] = {{"K0", KERNEL, 2, -1500, 3000, .deps = NULL},
                              {"K1", KERNEL, 3, -2500, 900, .deps = NULL}};
    CHECK_SIM(before, "1 K1 0+0 | 2 host delay 0+1 | 3 K0 0+3 2L");
}

static void test_without_times(void) {
    /* An op without a start has no delay. Its node follows the node of the op before it. */
    const int64_t none = SYN__PT_NO_NS;
    const hand_op rows[] = {{"K0", KERNEL, 2, 10 US, 1 US, .deps = NULL},
                            {"K1", KERNEL, 2, none, 15600, .deps = "0S"},
                            {"K2", KERNEL, 2, none, none, .deps = "1S"},
                            {"K3", KERNEL, 2, 20 US, 1 US, .deps = "2S"},
                            {"K4", KERNEL, 2, 21 US, none, .deps = "3S"}};
    CHECK_SIM(rows,
              "1 K0 10+1 | 2 K1 0+16 1S | 3 K2 0+0 2S | 4 host delay 11+9 3S | 5 K3 20+1 4L | "
              "6 K4 21+0 5S");
    /* The duration of an op without a start does not shorten the delay before a later op. */
    const hand_op long_ago[] = {{"a", HOST, 0, 0, 1 US, .deps = NULL},
                                {"K0", KERNEL, 3, none, 50 US, .deps = NULL},
                                {"K1", KERNEL, 2, 10 US, 1 US, .deps = "1Y"}};
    CHECK_SIM(long_ago, "1 K0 0+50 | 2 host delay 0+10 1Y | 3 K1 10+1 2L");
}

static void test_extremes(void) {
    /* The largest time, 2^63 - 1 ns = 9223372036854775.807 us, is rounded up. */
    const hand_op rows[] = {{"a", HOST, 0, INT64_MIN + 1, 1, .deps = NULL},
                            {"K0", KERNEL, 2, INT64_MAX, INT64_MAX, .deps = NULL},
                            {"K1", KERNEL, 2, INT64_MIN + 8, INT64_MAX, .deps = "1S"}};
    CHECK_SIM(rows, "1 host delay 0+9223372036854776 | 2 K0 9223372036854776+0 1L | "
                    "3 K1 0+9223372036854776 2S");
}

/* ---- Communication ---- */

#define COLL(op_, kind, group_)                                                     \
    {                                                                               \
        .op = op_, .type = SYN__ET_COMM_COLL_NODE, .collective = kind, .bytes = 64, \
        .group = group_, .peer = -1, .sequence = -1                                 \
    }

static void check_collective(const char *node, const char *type, const char *group) {
    char want[256];
    snprintf(want, sizeof want,
             "%s is_cpu_op=0:bool_val comm_type=%s:int64_val comm_size=64:int64_val%s stream=8",
             node, type, group);
    CHECK_HAS(text, want);
}

static void check_stand_in(const char *node, const char *why, const char *kind) {
    char want[256];
    snprintf(want, sizeof want,
             "%s is_cpu_op=0:bool_val num_ops=1:int64_val tensor_size=64:uint64_val "
             "clamped=1:bool_val not_simulated='%s' comm_kind='%s' stream=8",
             node, why, kind);
    CHECK_HAS(text, want);
}

static void test_roles(void) {
    /* Collectives C0 to C3 are in a group with known ranks, in an unknown group, in a group of one
       rank, and in a group that lacks this rank. The groups of C4 and C5 have unknown ranks and
       sizes 1 and 2. C6 is a reduce, C7 has an unknown kind, and C8 is a barrier, which passes its
       dependencies on. */
    int32_t both[] = {0, 1}, self[] = {0}, others[] = {1, 2};
    syn__pt_group groups[] = {{"7", "dp", both, 2, 2, 3},
                              {"8", "", self, 1, 1, 4},
                              {"9", "", others, 2, 2, 5},
                              {"10", "", NULL, 0, 1, 6},
                              {"11", "", NULL, 0, 2, 7}};
    syn__pt_comm comms[] = {COLL(0, 0, 0), COLL(1, 2, SYN__PT_NONE),
                            COLL(2, 7, 1), COLL(3, 6, 2),
                            COLL(4, 5, 3), COLL(5, 5, 4),
                            COLL(6, 1, 0), COLL(7, -1, 0),
                            COLL(8, 9, 0)};
    hand_op rows[10];
    static const char *const names[] = {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "K"};
    static const char *const deps[] = {NULL, "0S", "1S", "2S", "3S", "4S", "5S", "6S", "7S", "8Y"};
    for (int i = 0; i < 10; i++)
        rows[i] = (hand_op){.name = names[i],
                            .kind = KERNEL,
                            .track = i < 9 ? 3 : 2,
                            .start = i * (5 US),
                            .wall = 5 US,
                            .deps = deps[i],
                            .comm = i < 9 ? i + 1 : 0};
    rows[9].start = 48 US;
    CHECK_OK(sim(rows, 10, comms, 9, groups, 5, true), error);
    check_collective("1 C0 0+5", "0", " pg_name='3' pg_desc='dp'");
    check_collective("2 C1 5+5 1S", "2", " pg_name='3' pg_desc='dp'");
    check_stand_in("3 C2 10+5 2S", "a group of one rank", "reduce_scatter");
    check_stand_in("4 C3 15+5 3S", "a group without this rank", "all_to_all");
    check_stand_in("5 C4 20+5 4S", "a group of one rank", "broadcast");
    check_collective("6 C5 25+5 5S", "5", " pg_name='3' pg_desc='dp'");
    check_stand_in("7 C6 30+5 6S", "a collective that simulators do not run", "reduce");
    check_stand_in("8 C7 35+5 7S", "a collective of an unknown kind", "unknown");
    CHECK_HAS(text, "| 9 host delay 45+3 8Y is_cpu_op=0:bool_val num_ops=1:int64_val "
                    "tensor_size=4096:uint64_val clamped=1:bool_val stream=7:int64_val "
                    "inputs=0:string_list outputs=0:string_list | 10 K 48+5 9L "
                    "is_cpu_op=0:bool_val num_ops=1:int64_val tensor_size=1:uint64_val");
}

static void test_world_of_one(void) {
    /* A collective without a group is one of all ranks. */
    syn__pt_comm comm = COLL(0, 0, SYN__PT_NONE);
    const hand_op rows[] = {{"C", KERNEL, 2, 0, 1 US, .comm = 1}};
    hand h;
    hand_make(&h, rows, 1);
    h.rank.comms = &comm;
    h.rank.n_comms = 1;
    h.rank.world_size = 1;
    const syn_status status = written(&h.rank, true, text, sizeof text, &error);
    CHECK_OK(status, error);
    CHECK_HAS(text, "not_simulated='a group of one rank' comm_kind='all_reduce'");
    h.rank.world_size = 2;
    comm.alone = true; /* set when the ranks of a set are matched */
    CHECK_OK(written(&h.rank, true, text, sizeof text, &error), error);
    CHECK_HAS(text, "not_simulated='a collective that other ranks lack' comm_kind='all_reduce'");
    comm.alone = false;
    h.rank.world_size = -1;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &error), error);
    CHECK_HAS(text, "comm_type=0:int64_val comm_size=64:int64_val stream");
    hand_free(&h);
}

static void test_host_collective(void) {
    /* A collective on the CPU is a node in the track of its thread. Everything that the thread
       launches later depends on it. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {COLL(1, 0, 0), COLL(2, 0, 0)};
    const hand_op rows[] = {{"K0", KERNEL, 2, 0, 1 US, .deps = NULL},
                            {"C0", HOST, 0, 1 US, 9 US, .deps = "0Y", .comm = 1},
                            {"C1", HOST, 0, 10 US, 5 US, .deps = "1P", .comm = 2},
                            {"a", HOST, 0, 15 US, 5 US, .deps = "2P"},
                            {"K1", KERNEL, 2, 15 US, 1 US, .deps = "0S 3L"}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 2, &group, 1, false), error);
    CHECK_STR(text, "1 K0 0+1 | 2 C0 1+9 1Y | 3 C1 10+5 2T | 4 K1 15+1 1S 3L");
}

/* ---- The order of communication ---- */

static void test_launch_order(void) {
    /* C0 was launched before C1 but began after it, because C0 had to wait for K. On other ranks
       the starts may be in another order, so collectives are ordered by launch, which is the same
       on all ranks. */
    int32_t both[] = {0, 1};
    syn__pt_group groups[] = {{"0", "", both, 2, 2, 1}, {"1", "", both, 2, 2, 2}};
    syn__pt_comm comms[] = {COLL(1, 0, 0), COLL(2, 0, 1), COLL(3, 0, 0)};
    const hand_op rows[] = {
        {"K", KERNEL, 2, 0, 9 US, .deps = NULL},
        {"C1", KERNEL, 3, 2 US, 1 US, .deps = NULL, .comm = 1, .launched = 2, .launch_wall = 1},
        {"C0", KERNEL, 4, 9 US, 1 US, .deps = "0Y", .comm = 2, .launched = 1, .launch_wall = 1},
        {"C2", KERNEL, 4, 10 US, 1 US, .deps = "2S", .comm = 3, .launched = 3, .launch_wall = 1}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3, groups, 2, false), error);
    CHECK_STR(text, "1 K 0+9 | 2 C0 9+1 1Y | 3 C1 2+1 2G | 4 C2 10+1 2S 3G");
}

static void test_launching_op(void) {
    /* If the times of the launching calls are unknown, the starts of the launching ops determine
       the order of launches. If these are unknown, too, the order of the launching ops does. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {COLL(3, 0, 0), COLL(4, 0, 0), COLL(5, 0, 0)};
    hand_op rows[] = {{"a", HOST, 0, 20 US, 1 US, .deps = NULL},
                      {"b", HOST, 1, 10 US, 1 US, .deps = NULL},
                      {"c", HOST, 1, 30 US, 1 US, .deps = "1P"},
                      {"Cc", KERNEL, 4, 0, 0, .deps = "2L", .parent = 3, .comm = 1},
                      {"Cb", KERNEL, 3, 0, 0, .deps = "1L", .parent = 2, .comm = 2},
                      {"Ca", KERNEL, 2, 0, 0, .deps = "0L", .parent = 1, .comm = 3}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3, &group, 1, false), error);
    CHECK_STR(text, "1 Cb 0+0 | 2 Ca 0+0 1G | 3 Cc 0+0 2G");
    for (int i = 0; i < 3; i++) rows[i].start = SYN__PT_NO_NS;
    CHECK_OK(sim(rows, COUNT(rows), comms, 3, &group, 1, false), error);
    CHECK_STR(text, "1 Ca 0+0 | 2 Cb 0+0 1G | 3 Cc 0+0 2G");
}

static void test_contradiction(void) {
    /* If dependencies contradict launch times, collectives have the order of the rank's ops. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {COLL(0, 0, 0), COLL(1, 0, 0), COLL(2, 0, 0)};
    const hand_op rows[] = {{"C0", KERNEL, 2, 0, 1 US, .deps = NULL, .comm = 1, .launched = 9},
                            {"C1", KERNEL, 3, 1 US, 1 US, .deps = "0Y", .comm = 2, .launched = 5},
                            {"C2", KERNEL, 4, 2 US, 1 US, .deps = NULL, .comm = 3, .launched = 1}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 3, &group, 1, false), error);
    CHECK_STR(text, "1 C0 0+1 | 2 C1 1+1 1Y | 3 C2 2+1 2G");
    /* The same applies if the order of kernels on a stream contradicts launch times. */
    const hand_op turned[] = {
        {"C0", KERNEL, 2, 0, 1 US, .deps = NULL, .comm = 1, .launched = 9},
        {"C1", KERNEL, 2, 1 US, 1 US, .deps = NULL, .comm = 2, .launched = 5},
        {"C2", KERNEL, 4, 2 US, 1 US, .deps = NULL, .comm = 3, .launched = 1}};
    CHECK_OK(sim(turned, COUNT(turned), comms, 3, &group, 1, false), error);
    CHECK_STR(text, "1 C0 0+1 | 2 C1 1+1 1S | 3 C2 2+1 2G");
}

static void test_sends_first(void) {
    /* A collective depends on the collective before it and on the sends before it, of which the
       last in each track is enough. The receive has no dependencies, and no node depends on it. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {
        COLL(0, 0, 0),
        {.op = 1, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 1, .tag = 0},
        {.op = 2, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 1, .tag = 1},
        {.op = 3, .type = SYN__ET_COMM_RECV_NODE, .bytes = 1, .peer = 1, .tag = 2},
        COLL(4, 0, 0),
        COLL(5, 0, 0)};
    const hand_op rows[] = {{"C0", KERNEL, 2, 1 US, 1 US, .deps = NULL, .comm = 1, .launched = 1},
                            {"S0", KERNEL, 3, 2 US, 1 US, .deps = NULL, .comm = 2, .launched = 2},
                            {"S1", KERNEL, 3, 3 US, 1 US, .deps = "1S", .comm = 3, .launched = 3},
                            {"R", KERNEL, 4, 4 US, 1 US, .deps = NULL, .comm = 4, .launched = 4},
                            {"C1", KERNEL, 5, 5 US, 1 US, .deps = NULL, .comm = 5, .launched = 5},
                            {"C2", KERNEL, 2, 6 US, 1 US, .deps = "0S", .comm = 6, .launched = 6}};
    CHECK_OK(sim(rows, COUNT(rows), comms, 6, &group, 1, false), error);
    CHECK_STR(text,
              "1 C0 1+1 | 2 S0 2+1 | 3 S1 3+1 2S | 4 R 4+1 | 5 C1 5+1 1G 3G | 6 C2 6+1 1S 5G");
}

static void test_sends_between(void) {
    /* A collective depends on the sends since the previous collective, not on earlier sends. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[40];
    hand_op rows[40];
    char deps[40][16];
    for (int i = 0; i < 40; i++) {
        const syn__pt_comm coll = COLL((uint32_t)i, 0, 0);
        comms[i] = coll;
        if (i % 2 == 0) comms[i].type = SYN__ET_COMM_SEND_NODE;
        if (i % 2 == 0) comms[i].peer = 1;
        snprintf(deps[i], sizeof deps[i], "%dS", i - 2);
        rows[i] = (hand_op){.name = "C",
                            .kind = KERNEL,
                            .track = 2 + (uint32_t)i % 2,
                            .start = i * (1 US),
                            .wall = 1 US,
                            .deps = i > 1 ? deps[i] : NULL,
                            .comm = i + 1};
    }
    CHECK_OK(sim(rows, 40, comms, 40, &group, 1, false), error);
    /* Each communication is launched 1 us after the previous one. The delays between them have the
       even ids. */
    CHECK_HAS(text, "1 C 0+1 | 2 host delay 0+1 | 3 C 1+1 1G 2L | 4 host delay 1+1 2L | "
                    "5 C 2+1 1S 4L | 6 host delay 2+1 4L | 7 C 3+1 3S 5G 6L | 8 host delay 3+1 6L");
    CHECK_HAS(text, "| 77 C 38+1 73S 76L | 78 host delay 38+1 76L | 79 C 39+1 75S 77G 78L");
}

static const test_case cases[] = {{"streams", test_streams},
                                  {"sync", test_sync},
                                  {"later_sync", test_later_sync},
                                  {"news", test_news},
                                  {"threads", test_threads},
                                  {"time_order", test_time_order},
                                  {"delay", test_delay},
                                  {"delay_sync", test_delay_sync},
                                  {"delay_beside_communication", test_delay_during_communication},
                                  {"delay_stand_in", test_delay_stand_in},
                                  {"delay_barrier", test_delay_barrier},
                                  {"rounding", test_rounding},
                                  {"without_times", test_without_times},
                                  {"extremes", test_extremes},
                                  {"roles", test_roles},
                                  {"world_of_one", test_world_of_one},
                                  {"host_collective", test_host_collective},
                                  {"launch_order", test_launch_order},
                                  {"launching_op", test_launching_op},
                                  {"contradiction", test_contradiction},
                                  {"sends_first", test_sends_first},
                                  {"sends_between", test_sends_between}};
TEST_MAIN(cases)
