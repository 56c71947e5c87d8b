/* Tests the topological order of ops, and which dependencies are dropped to break cycles
   (pt_order.c). Ranks are built by the tests. */
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/base/memory.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

/* A rank of n_ops ops, each of which begins 100 ns after the previous one. */
static syn__pt_rank make(size_t n_ops) {
    syn__pt_rank r = {.host_input.name = "host.json"};
    r.ops = syn_calloc(n_ops, sizeof *r.ops);
    r.n_ops = r.ops_cap = n_ops;
    for (size_t i = 0; i < n_ops; i++) {
        r.ops[i].start_ns = (int64_t)(100 * i);
        r.ops[i].parent = r.ops[i].host = SYN__PT_NONE;
    }
    return r;
}

static void edge(syn__pt_rank *r, uint32_t from, uint32_t to, syn_pytorch_edge_class c) {
    CHECK(syn_grow(&r->edges, &r->edges_cap, r->n_edges + 1, sizeof *r->edges, NULL) == SYN_OK);
    const syn__pt_edge e = {from, to, c};
    r->edges[r->n_edges++] = e;
}

/* Whether the order contains every op once, after the ops on which it depends. */
static bool is_order(const syn__pt_rank *r) {
    bool ok = true;
    uint32_t *place = syn_calloc(r->n_ops, sizeof *place);
    for (uint32_t i = 0; i < r->n_ops; i++) place[r->order[i]] = i + 1;
    for (size_t op = 0; op < r->n_ops; op++) {
        ok = ok && place[op] > 0;
        for (size_t i = r->first_dep[op]; i < r->first_dep[op + 1]; i++)
            ok = ok && place[r->deps[i].from] < place[op];
    }
    syn_free(place);
    return ok;
}

static void order(syn__pt_rank *r, syn_pytorch_note *notes) {
    syn_error err = {0};
    CHECK(syn__pt_order(r, notes, &err) == SYN_OK);
    CHECK(is_order(r));
}

/* Dependencies are sorted by op. If several edges connect the same two ops, one is kept: here
   stream and program edges, which are more specific than call edges. */
static void test_deps(void) {
    syn__pt_rank r = make(4);
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    edge(&r, 2, 3, SYN_PYTORCH_EDGE_CALL);
    edge(&r, 0, 3, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 2, 3, SYN_PYTORCH_EDGE_STREAM);
    edge(&r, 0, 1, SYN_PYTORCH_EDGE_LAUNCH);
    edge(&r, 0, 3, SYN_PYTORCH_EDGE_CALL);
    order(&r, notes);
    CHECK(r.n_deps == 3);
    CHECK(r.first_dep[1] == 0 && r.first_dep[2] == 1 && r.first_dep[3] == 1 && r.first_dep[4] == 3);
    CHECK(r.deps[0].from == 0 && r.deps[0].class_ == SYN_PYTORCH_EDGE_LAUNCH);
    CHECK(r.deps[1].from == 0 && r.deps[1].class_ == SYN_PYTORCH_EDGE_PROGRAM);
    CHECK(r.deps[2].from == 2 && r.deps[2].class_ == SYN_PYTORCH_EDGE_STREAM);
    CHECK(r.n_edge_class[SYN_PYTORCH_EDGE_CALL] == 0 &&
          r.n_edge_class[SYN_PYTORCH_EDGE_STREAM] == 1);
    CHECK(notes[SYN_PYTORCH_ANOMALY_CYCLE].count == 0 && r.n_dropped == 0);
    syn__pt_rank_free(&r);
}

/* Ops 0 and 1 depend on op 3, and op 2 depends on op 1. Op 3 must come first; the others follow in
   the order of their indices. */
static void test_backward_ids(void) {
    syn__pt_rank r = make(4);
    edge(&r, 3, 0, SYN_PYTORCH_EDGE_SYNC);
    edge(&r, 3, 1, SYN_PYTORCH_EDGE_SYNC);
    edge(&r, 1, 2, SYN_PYTORCH_EDGE_PROGRAM);
    order(&r, NULL);
    const uint32_t expected[] = {3, 0, 1, 2};
    CHECK(memcmp(r.order, expected, sizeof expected) == 0);
    CHECK(r.n_dropped == 0 && r.ids[3] == 1 && r.ids[2] == 4);
    syn__pt_rank_free(&r);
}

/* Edges 1 -> 2 -> 3 -> 1 are a cycle. Op 3 began last, so 3 -> 1 goes back in time and is dropped.
   Edges 4 -> 0 and 6 -> 5 go back in time, too, but they are in no cycle, so they are kept. */
static void test_cycle(void) {
    syn__pt_rank r = make(7);
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    edge(&r, 1, 2, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 2, 3, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 3, 1, SYN_PYTORCH_EDGE_SYNC);
    edge(&r, 4, 0, SYN_PYTORCH_EDGE_SYNC);
    edge(&r, 3, 6, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 6, 5, SYN_PYTORCH_EDGE_SYNC);
    order(&r, notes);
    CHECK(r.n_dropped == 1 && notes[SYN_PYTORCH_ANOMALY_CYCLE].count == 1);
    CHECK(r.dropped[0].from == 3 && r.dropped[0].to == 1 &&
          r.dropped[0].class_ == SYN_PYTORCH_EDGE_SYNC);
    CHECK(r.n_deps == 5);
    CHECK(r.n_edge_class[SYN_PYTORCH_EDGE_SYNC] == 2 &&
          r.n_edge_class[SYN_PYTORCH_EDGE_PROGRAM] == 3);
    syn__pt_rank_free(&r);
}

/* Of two opposite edges, the one that goes back in time is dropped. Without times, it is the one
   that goes back in the order of ops. */
static void test_which(void) {
    for (int timed = 0; timed < 2; timed++) {
        syn__pt_rank r = make(2);
        r.ops[0].start_ns = timed ? 500 : SYN__PT_NO_NS;
        r.ops[1].start_ns = timed ? 300 : SYN__PT_NO_NS;
        edge(&r, 0, 1, SYN_PYTORCH_EDGE_SYNC);
        edge(&r, 1, 0, SYN_PYTORCH_EDGE_THREAD);
        order(&r, NULL);
        CHECK(r.n_dropped == 1 && r.dropped[0].from == (timed ? 0u : 1u));
        syn__pt_rank_free(&r);
    }
}

/* Op 1 has no time, and the only edge of the cycle between ops with times, 2 -> 0, does not go back
   in time. The cycle is therefore broken at the edge that goes back in the order of ops. */
static void test_no_time_in_cycle(void) {
    syn__pt_rank r = make(3);
    r.ops[0].start_ns = 200;
    r.ops[1].start_ns = SYN__PT_NO_NS;
    r.ops[2].start_ns = 100;
    edge(&r, 0, 1, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 1, 2, SYN_PYTORCH_EDGE_PROGRAM);
    edge(&r, 2, 0, SYN_PYTORCH_EDGE_SYNC);
    order(&r, NULL);
    CHECK(r.n_dropped == 1 && r.dropped[0].from == 2);
    syn__pt_rank_free(&r);
}

/* The result for random graphs must be a topological order. Op 59 has about 40 dependencies,
   because lists of more than 32 are sorted by other code. */
static void test_random(void) {
    uint64_t state = 12345;
    for (int round = 0; round < 200; round++) {
        const uint32_t n = 60;
        syn__pt_rank r = make(n);
        for (int i = 0; i < 150; i++) {
            const uint32_t seed = random_u32(&state);
            const uint32_t from = seed >> 8 & 63, to = seed >> 16 & 63;
            r.ops[seed >> 24 & 31].start_ns = (int64_t)(seed % 5000);
            if (from < n && to < n && from != to)
                edge(&r, from, i < 40 ? (from == 59 ? 58 : 59) : to,
                     seed % SYN_PYTORCH_EDGE_CLASSES);
        }
        order(&r, NULL);
        syn__pt_rank_free(&r);
    }
}

static void test_long_chain(void) {
    const uint32_t n = 300000;
    syn__pt_rank r = make(n);
    for (uint32_t i = 1; i < n; i++) edge(&r, i, i - 1, SYN_PYTORCH_EDGE_PROGRAM);
    order(&r, NULL);
    CHECK(r.n_dropped == 0 && r.order[0] == n - 1 && r.order[n - 1] == 0);
    syn__pt_rank_free(&r);
}

static const test_case cases[] = {
    {"deps", test_deps},
    {"backward_ids", test_backward_ids},
    {"cycle", test_cycle},
    {"which", test_which},
    {"no_time_in_cycle", test_no_time_in_cycle},
    {"random", test_random},
    {"long_chain", test_long_chain},
};

TEST_MAIN(cases)
