/* Tests the critical path of PyTorch traces with nested ops, streams and waits. The share of each
   op is computed manually. */
#include "export/walk/critical.h"
#include "tests/support/test.h"

enum { MOST = 16 };

static uint64_t host(uint32_t rank, uint64_t thread) {
    return syn__critical_track(rank, false, 0, thread);
}

static uint64_t stream(uint64_t number) {
    return syn__critical_track(0, true, 0, number);
}

/* An op from `begin` to `end`, in microseconds. */
static syn__critical_op op(uint64_t track, double begin, double end) {
    return (syn__critical_op){
        .begin_ns = 1e3 * begin, .end_ns = 1e3 * end, .track = track, .last_member = SYN_NO_NODE};
}

/* Checks how much each op contributes to the critical path, in microseconds. pairs: {op,
   dependency}, ascending by op. */
static void check_path(const syn__critical_op *ops, uint32_t n, const uint32_t (*pairs)[2],
                       uint32_t n_pairs, const double *want_us) {
    uint32_t first[MOST + 1], deps[MOST];
    double ns[MOST], sum = 0, end = 0, begin = ops[0].begin_ns;
    syn_error err = {0};
    for (uint32_t i = 0, k = 0; i <= n; i++) {
        first[i] = k;
        for (; k < n_pairs && pairs[k][0] == i; k++) deps[k] = pairs[k][1];
    }
    CHECK_OK(syn__critical_find(ns, ops, n, first, deps, &err), err);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_NEAR(ns[i], 1e3 * want_us[i], 1e-9);
        sum += ns[i];
        if (ops[i].end_ns > end) end = ops[i].end_ns;
        if (ops[i].begin_ns < begin) begin = ops[i].begin_ns;
    }
    CHECK(sum <= end - begin);
}

/* A call contributes only the time outside the ops that it calls. The gap between two ops
   contributes nothing. */
static void test_calls(void) {
    const syn__critical_op ops[] = {op(host(0, 1), 0, 50), op(host(0, 1), 10, 20),
                                    op(host(0, 1), 30, 45), op(host(0, 1), 60, 70)};
    const uint32_t deps[][2] = {{1, 0}, {2, 0}, {2, 1}, {3, 0}};
    check_path(ops, 4, deps, 4, (const double[]){25, 10, 15, 10});
}

/* A range that the program named does no work itself. */
static void test_range(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 50), op(host(0, 1), 10, 20)};
    const uint32_t deps[][2] = {{1, 0}};
    ops[0].is_range = true;
    check_path(ops, 2, deps, 1, (const double[]){0, 10});
}

/* Two launches of 10 us each. The first kernel is short. The second is long and starts before its
   launch returns. */
static void test_launches(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(host(0, 1), 20, 30), op(stream(7), 12, 15),
                              op(stream(7), 28, 99)};
    const uint32_t deps[][2] = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
    ops[2].is_device = ops[3].is_device = true;
    check_path(ops, 4, deps, 4, (const double[]){10, 8, 0, 71});
}

/* Kernels that wait for each other hide the launches, so these do not contribute. */
static void test_busy_stream(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(host(0, 1), 20, 30), op(stream(7), 12, 50),
                              op(stream(7), 51, 99)};
    const uint32_t deps[][2] = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
    ops[2].is_device = ops[3].is_device = true;
    check_path(ops, 4, deps, 4, (const double[]){10, 0, 38, 48});
}

/* Nothing in the trace shows why a stream was idle until 95 us. It is assumed to wait for the other
   stream, which had just finished. Gaps of at most 20 us are ignored. */
static void test_idle_stream(void) {
    syn__critical_op ops[] = {op(stream(7), 0, 10), op(stream(8), 0, 90), op(stream(7), 95, 120),
                              op(stream(8), 100, 125), op(stream(7), 140, 150)};
    const uint32_t deps[][2] = {{2, 0}, {3, 1}, {4, 2}};
    for (size_t i = 0; i < 5; i++) ops[i].is_device = true;
    check_path(ops, 5, deps, 3, (const double[]){0, 90, 25, 0, 10});
}

/* Within op 2 the host waits for the kernel. The ops after op 2 depend on the kernel. */
static void test_synchronise(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(stream(7), 12, 80), op(host(0, 1), 20, 85),
                              op(host(0, 1), 90, 99)};
    const uint32_t behind[][2] = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
    const uint32_t within[][2] = {{1, 0}, {2, 0}, {2, 1}, {3, 2}};
    ops[1].is_device = true;
    check_path(ops, 4, behind, 4, (const double[]){10, 68, 5, 9});
    check_path(ops, 4, within, 4, (const double[]){10, 68, 5, 9});
}

/* gloo's thread communicates while the program's thread waits, outside of any op. */
static void test_gloo(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(host(0, 9), 11, 80), op(host(0, 1), 14, 16),
                              op(host(0, 1), 82, 90)};
    const uint32_t deps[][2] = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
    ops[1].is_comm = true;
    check_path(ops, 4, deps, 4, (const double[]){10, 69, 0, 8});
}

/* The program's thread is in backward(), which is a range, while autograd's thread works. */
static void test_wake(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(host(0, 1), 10, 6000),
                              op(host(0, 2), 20, 3000), op(host(0, 2), 3000, 5990),
                              op(host(0, 1), 6001, 6010)};
    const uint32_t deps[][2] = {{1, 0}, {2, 0}, {3, 2}, {4, 1}};
    ops[1].is_range = true;
    check_path(ops, 5, deps, 4, (const double[]){10, 0, 2980, 2990, 9});
}

/* Rank 0 arrives at the collective early and waits for rank 1. */
static void test_ranks(void) {
    syn__critical_op ops[] = {op(host(0, 1), 0, 10), op(host(0, 1), 10, 99), op(host(1, 1), 0, 70),
                              op(host(1, 1), 75, 98)};
    const uint32_t deps[][2] = {{1, 0}, {3, 2}};
    ops[1].is_comm = ops[3].is_comm = true;
    ops[1].last_member = ops[3].last_member = 3;
    check_path(ops, 4, deps, 2, (const double[]){0, 24, 70, 0});
}

/* Ops without times, and ops that overlap without nesting. */
static void test_odd(void) {
    const syn__critical_op none[] = {op(host(0, 1), 0, 0), op(host(0, 1), 5, 5)};
    const syn__critical_op across[] = {op(host(0, 1), 0, 20), op(host(0, 1), 10, 30)};
    const uint32_t deps[][2] = {{1, 0}};
    check_path(none, 2, deps, 1, (const double[]){0, 0});
    check_path(across, 2, deps, 1, (const double[]){10, 20});
}

static const test_case cases[] = {
    {"calls", test_calls},
    {"ranges", test_range},
    {"launches", test_launches},
    {"a busy stream", test_busy_stream},
    {"an idle stream", test_idle_stream},
    {"synchronisation", test_synchronise},
    {"gloo's threads", test_gloo},
    {"threads that wake each other", test_wake},
    {"ranks", test_ranks},
    {"times that are odd", test_odd},
};

TEST_MAIN(cases)
