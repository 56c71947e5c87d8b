/* Tests the writer of execution traces: bytes, compared with Chakra's generator and with protobuf's
   documentation; files of trace sets; and the JSON form. */
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "export/chakra/et_ring.h"
#include "export/chakra/wire/et_node.h"
#include "export/export.h"
#include "syntorch/base/memory.h"
#include "tests/support/et_sample.h"
#include "tests/support/files.h"
#include "tests/support/gpt_graph.h"

/* ---- Bytes ---- */

/* The file ALL_REDUCE.1.et that Chakra's own generator (et_generator) writes. */
static const unsigned char chakra_bytes[] = "\x07\x0a\x05"
                                            "1.0.0"
                                            "\x40\x08\x11\x12\x0a"
                                            "ALL_REDUCE"
                                            "\x18\x07"
                                            "\x52\x0e\x0a\x09"
                                            "is_cpu_op"
                                            "\xd8\x01\x00"
                                            "\x52\x0d\x0a\x09"
                                            "comm_type"
                                            "\x48\x00"
                                            "\x52\x0f\x0a\x09"
                                            "comm_size"
                                            "\x48\x80\x80\x04";

static void test_chakra_bytes(void) {
    const syn__et_attr attrs[] = {
        syn__et_number("is_cpu_op", SYN__ET_BOOL, 0),
        syn__et_number("comm_type", SYN__ET_INT64, 0),
        syn__et_number("comm_size", SYN__ET_INT64, 65536),
    };
    const syn__et_node node = {
        .id = 17, .name = {"ALL_REDUCE", 10}, .type = 7, .attrs = attrs, .n_attrs = 3};
    const syn__et_meta meta = {.version = {"1.0.0", 5}};
    syn__buf buf = {0};
    syn__et_put_varint(&buf, 7);
    syn__et_put_meta(&buf, &meta);
    syn__et_put_varint(&buf, 64);
    syn__et_put_node(&buf, &node);
    CHECK_INT(buf.bytes, sizeof chakra_bytes - 1);
    CHECK(memcmp(buf.data, chakra_bytes, buf.bytes) == 0);
    syn__buf_free(&buf);
}

static void test_varints(void) {
    static const struct {
        uint64_t value;
        const char *bytes;
        size_t n;
    } cases[] = {{0, "\x00", 1},
                 {127, "\x7f", 1},
                 {128, "\x80\x01", 2},
                 {300, "\xac\x02", 2},
                 {150, "\x96\x01", 2}, /* the example in protobuf's documentation */
                 {UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[SYN__ET_VARINT_MAX];
        uint64_t back = 1;
        CHECK_INT(syn__et_varint(out, cases[i].value) - out, cases[i].n);
        CHECK_INT(syn__et_varint_bytes(cases[i].value), cases[i].n);
        CHECK(memcmp(out, cases[i].bytes, cases[i].n) == 0);
        syn__et_reader r = {out, out + cases[i].n, NULL};
        CHECK(syn__et_read_varint(&r, &back) && back == cases[i].value && r.cur == r.end);
        r = (syn__et_reader){out, out + cases[i].n - 1, NULL};
        CHECK(!syn__et_read_varint(&r, &back) && r.why != NULL);
    }
    const char *bad[] = {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
                         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"};
    for (int i = 0; i < 2; i++) {
        uint64_t v;
        syn__et_reader r = {bad[i], bad[i] + strlen(bad[i]), NULL};
        CHECK(!syn__et_read_varint(&r, &v));
        CHECK_STR(r.why, "a number is longer than 64 bits");
    }
}

/* ---- Files ---- */

static bool exists(const char *name) {
    return path_exists(in_folder(name));
}

/* Writes to the prefix that the environment gives, so that other programs can check the files, or
   to a temporary folder. */
static void test_set(void) {
    const char *given = getenv("SYN_ET_OUT");
    syn_error err = {0};
    char prefix[300];
    for (int which = 0; which < 3; which++) {
        static const char *const names[] = {"tp", "overlap", "pp"};
        syn_graph *g = which == 0 ? small_gpt_graph() : which == 1 ? et_overlap() : et_pipeline();
        if (given != NULL) snprintf(prefix, sizeof prefix, "%s.%s", given, names[which]);
        else snprintf(prefix, sizeof prefix, "%s", in_folder("t"));
        CHECK_OK(syn_export_et_set(g, NULL, prefix, &err), err);
        syn_graph_free(g);
    }
    if (given == NULL) CHECK(exists("t.0.et") && exists("t.3.et") && exists("t.comm_group.json"));
}

static void test_set_replaces_larger(void) {
    syn_error err = {0};
    syn_graph *small = small_gpt_graph(), *large = et_pipeline();
    CHECK_OK(syn_export_et_set(large, NULL, in_folder("t"), &err), err);
    /* A file that readers would take for part of the new set is removed, too. */
    put_text("t.9.et", "");
    CHECK_OK(syn_export_et_set(small, NULL, in_folder("t"), &err), err);
    CHECK(exists("t.0.et") && exists("t.1.et") && !exists("t.2.et") && !exists("t.3.et"));
    CHECK(!exists("t.9.et") && exists("t.comm_group.json"));
    /* If a trace set cannot be completed, no group file is written. */
    put_folder("t.1.et");
    CHECK_INT(syn_export_et_set(small, NULL, in_folder("t"), &err), SYN_E_IO);
    CHECK_HAS(err.text, "t.1.et");
    CHECK(!exists("t.comm_group.json"));
    syn_graph_free(small);
    syn_graph_free(large);
}

static void test_set_of_one_rank(void) {
    syn_error err = {0};
    syn_graph *g = et_pipeline();
    int32_t rank = 3;
    const syn_export_options options = {.rank = &rank};
    CHECK_OK(syn_export_et_set(g, &options, in_folder("t"), &err), err);
    CHECK(exists("t.3.et") && !exists("t.0.et") && exists("t.comm_group.json"));
    rank = 4;
    CHECK_INT(syn_export_et_set(g, &options, in_folder("t"), &err), SYN_E_INVALID);
    CHECK_STR(err.text, "the graph has no rank 4");
    syn_graph_free(g);
}

/* Two ranks of the group "tp0". Each row lists the collectives of one rank: their kinds, and their
   bytes divided by 64. */
static syn_graph *two_ranks(const syn_comm_kind kinds[2][3], const int sizes[2][3],
                            uint32_t group) {
    static const int32_t pair[] = {0, 1};
    const syn_graph_group tp = {1, "tp0", pair, 2};
    const et_row work = {.kind = SYN_NODE_COMPUTE};
    syn_graph *g = et_empty(pair, 2, 2, &tp, 1);
    syn_error err = {0};
    for (uint32_t r = 0; r < 2; r++) {
        et_add(g, r, &work, NULL);
        for (int i = 0; i < 3 && kinds[r][i] != SYN_COMM_NONE; i++) {
            const et_row row = {.kind = SYN_NODE_COLLECTIVE, .comm = kinds[r][i], .group = group};
            syn_node node = et_node(&row, (uint64_t)i + 2);
            node.comm_index = (uint32_t)i;
            node.comm_bytes = 64 * (uint64_t)sizes[r][i];
            NEED_OK(syn_graph_add_node(g, r, &node, &err), err);
        }
    }
    return g;
}

#define AR SYN_COMM_ALL_REDUCE
#define AG SYN_COMM_ALL_GATHER
#define SC SYN_COMM_SCATTER

static void test_ranks_must_agree(void) {
    static const struct {
        syn_comm_kind kinds[2][3];
        int sizes[2][3];
        uint32_t group;
        const char *want; /* part of the expected message; NULL: the set is written */
    } cases[] = {
        {{{AR, AG, AR}, {AR, AG, AR}}, {{1, 2, 3}, {1, 2, 3}}, 1, NULL},
        {{{SC, AG, AR}, {SC, AG, AR}}, {{4, 2, 3}, {0, 2, 3}}, 1, NULL},
        {{{AR, AG, AR}, {AR, AR, AG}},
         {{1, 2, 3}, {1, 2, 3}},
         1,
         "the ranks of group tp0 differ in call 2: rank 0 has all_gather of 128 bytes, but rank 1 "
         "has all_reduce of 128 bytes"},
        {{{AR, AG, AR}, {AR, AG, AR}},
         {{1, 2, 3}, {1, 2, 4}},
         0,
         "the ranks of the world differ in call 3: rank 0 has all_reduce of 192 bytes, "
         "but rank 1 has all_reduce of 256 bytes"},
        {{{AR, AG, AR}, {AR, AG}},
         {{1, 2, 3}, {1, 2}},
         1,
         "the ranks of group tp0 call different numbers of collectives: rank 0 calls 3, but rank 1 "
         "calls 2"},
        {{{AR}, {AR, AG}},
         {{1}, {1, 2}},
         1,
         "the ranks of group tp0 call different numbers of collectives: rank 0 calls 1, but rank 1 "
         "calls 2"},
        {{{SYN_COMM_NONE}, {AR, AG}},
         {{0}, {1, 2}},
         1,
         "the ranks of group tp0 call different numbers of collectives: rank 1 calls 2, but rank 0 "
         "calls 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        clear_folder();
        syn_graph *g = two_ranks(cases[i].kinds, cases[i].sizes, cases[i].group);
        const syn_status status = syn_export_et_set(g, NULL, in_folder("t"), &err);
        CHECK_INT(status, cases[i].want == NULL ? SYN_OK : SYN_E_INVALID);
        CHECK_STR(err.text, cases[i].want == NULL ? "" : cases[i].want);
        CHECK_INT(exists("t.0.et"), cases[i].want == NULL);
        CHECK_INT(exists("t.comm_group.json"), cases[i].want == NULL);
        /* A graph that was read from files is written as it is. */
        const syn_attribute version = {
            .name = "et.version", .type = SYN_VALUE_TEXT, .text = "1.0.0"};
        CHECK_OK(syn_graph_set_meta(g, &version, &err), err);
        CHECK_OK(syn_export_et_set(g, NULL, in_folder("t"), &err), err);
        syn_graph_free(g);
    }
}

/* Rank 1 has only views and a barrier, so it has no nodes. The existing set must not change. */
static void test_rank_without_nodes(void) {
    static const int32_t pair[] = {0, 1};
    const et_row work = {.kind = SYN_NODE_COMPUTE},
                 view = {.kind = SYN_NODE_COMPUTE, .flags = SYN_NODE_VIRTUAL},
                 barrier = {.kind = SYN_NODE_COLLECTIVE, .comm = SYN_COMM_BARRIER};
    syn_error err = {0};
    syn_graph *g = et_empty(pair, 2, 2, NULL, 0), *older = small_gpt_graph();
    uint32_t index = 0;
    et_add(g, 0, &work, NULL);
    et_add(g, 1, &view, NULL);
    et_add(g, 1, &barrier, &index);
    CHECK_OK(syn_export_et_set(older, NULL, in_folder("t"), &err), err);
    CHECK_INT(syn_export_et_set(g, NULL, in_folder("t"), &err), SYN_E_INVALID);
    CHECK_STR(
        err.text,
        "rank 1 has no nodes for an execution trace, and simulators reject a trace without nodes");
    CHECK(exists("t.0.et") && exists("t.1.et") && exists("t.comm_group.json"));
    int32_t rank = 1;
    const syn_export_options options = {.rank = &rank};
    err = (syn_error){0};
    CHECK_INT(export_forget(&syn_export_et, g, &options, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "rank 1 has no node");
    rank = 0;
    CHECK_OK(export_forget(&syn_export_et, g, &options, &err), err);
    syn_graph_free(older);
    syn_graph_free(g);
}

/* If memory runs out, no group file is written. */
static syn_status export_set(void *g, syn_error *err) {
    const syn_status status = syn_export_et_set(g, NULL, in_folder("t"), err);
    return status != SYN_OK && exists("t.comm_group.json") ? SYN_E_IO : status;
}

static void test_set_no_memory(void) {
    syn_graph *g = et_pipeline();
    CHECK(test_without_memory(export_set, g) > 0);
    syn_graph_free(g);
}

static void test_comm_group(void) {
    /* Groups of one rank are not written. The ids ascend, in whatever order the graph has the
       groups. */
    static const int32_t rank = 0, pair[] = {3, 0}, alone[] = {2};
    const syn_graph_group groups[] = {{12, "b", pair, 2}, {5, "solo", alone, 1}, {9, "a", pair, 2}};
    syn_error err = {0};
    syn_graph *g = et_empty(&rank, 1, 4, groups, 3);
    syn_sink *sink;
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    CHECK_OK(syn_export_comm_group(g, 0, sink, &err), err);
    CHECK_STR(syn_sink_data(sink, NULL), "{\n  \"9\": [3, 0],\n  \"12\": [3, 0]\n}\n");
    CHECK_OK(syn_sink_close(sink, false, &err), err);
    syn_graph_free(g);
}

/* Checks that each hop of the ring stays within a node of eight ranks, or goes to the same position
   in another node. */
static void check_ring(const int32_t *ranks, uint32_t n) {
    uint64_t seen[2] = {0, 0};
    for (uint32_t i = 0; i < n; i++) {
        const int32_t a = ranks[i], b = ranks[(i + 1) % n];
        CHECK_MSG((a / 8 == b / 8) != (a % 8 == b % 8), "%d to %d", (int)a, (int)b);
        seen[a / 64] |= 1ull << (a % 64);
    }
    CHECK_INT(__builtin_popcountll(seen[0]) + __builtin_popcountll(seen[1]), n);
}

static void test_rings(void) {
    syn_error err = {0};
    int32_t odd[] = {6, 7, 8}, mixed[] = {3, 1, 8, 10};
    for (int32_t nodes = 2; nodes < 10; nodes++) {
        for (int32_t width = 1; width <= 8; width++) {
            int32_t ranks[128], n = 0;
            for (int32_t i = 0; i < nodes * width; i++)
                ranks[n++] = i / width * 8 + (width < 5 ? 1 : 0) + i % width;
            CHECK_OK(syn__et_order_ring(ranks, (uint32_t)n, 8, &err), err);
            check_ring(ranks, (uint32_t)n);
            /* One hop per node; with two ranks per node, the number of hops within nodes must be
               even, so that the ring ends at the position where it began. */
            const int32_t hops = width == 2 ? nodes + nodes % 2 : nodes;
            CHECK_INT(syn__et_network_hops(ranks, (uint32_t)n, 8), hops);
        }
    }
    /* If positions differ or there are no nodes, no order is better, so the given order stays. */
    CHECK_OK(syn__et_order_ring(odd, 3, 8, &err), err);
    CHECK_OK(syn__et_order_ring(mixed, 4, 8, &err), err);
    CHECK_OK(syn__et_order_ring(mixed, 4, 0, &err), err);
    CHECK_OK(syn__et_order_ring(mixed, 2, 8, &err), err);
    CHECK(odd[0] == 6 && odd[1] == 7 && odd[2] == 8 && mixed[0] == 3 && mixed[3] == 10);
    CHECK_INT(syn__et_network_hops(odd, 3, 8), 0);
}

/* Nodes with ranks at different positions. `hops` is the number of hops between nodes that keep
   their position; all others change it. Each rank must occur once. */
static void test_uneven_rings(void) {
    static const struct {
        int32_t begin, step, n;
        uint32_t hops;
    } groups[] = {
        {0, 1, 12, 2},  /* one whole node and half of another: one hop there and one back */
        {12, 1, 12, 2}, /* half of one node and the whole next node */
        {4, 1, 8, 0},   /* two halves that have no position in common */
        {5, 1, 6, 0},   /* 5, 6, 7 of one node, and 0, 1, 2 of the next */
        {4, 1, 16,
         /* A half, a whole node and the other half: one of the halves has no hop that keeps the
            position. */
         2},
        {2, 1, 30, 4}, /* 2 to 7 of one node, two whole nodes, and most of another */
        /* The ninth rank is entered at its own position and left to another position. */
        {0, 1, 9, 1},
        {0, 3, 16, 3}, /* three kinds of nodes, two of each kind */
        /* Nodes with 0 and 6, with 4, with 2, and the same again: nodes of the same kind become
           adjacent. */
        {0, 6, 8, 3},
        {1, 2, 7, 2}, /* 1, 3, 5, 7 of one node and 1, 3, 5 of the next */
    };
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        const uint32_t n = (uint32_t)groups[g].n;
        int32_t ranks[64], again[64];
        uint64_t seen = 0;
        syn_error err = {0};
        for (uint32_t i = 0; i < n; i++) ranks[i] = groups[g].begin + (int32_t)i * groups[g].step;
        memcpy(again, ranks, sizeof again);
        CHECK_OK(syn__et_order_ring(ranks, n, 8, &err), err);
        CHECK_MSG(syn__et_network_hops(ranks, n, 8) == groups[g].hops, "%d, %d, ...: %u hops",
                  groups[g].begin, groups[g].begin + groups[g].step,
                  syn__et_network_hops(ranks, n, 8));
        uint32_t crossings = 0, nodes = 0;
        for (uint32_t i = 0; i < n; i++) {
            crossings += ranks[i] / 8 != ranks[(i + 1) % n] / 8;
            nodes += i == 0 || again[i] / 8 != again[i - 1] / 8;
            seen |= 1ull << ((ranks[i] - groups[g].begin) / groups[g].step);
        }
        CHECK_INT(crossings, nodes);
        CHECK_INT(__builtin_popcountll(seen), n);
        CHECK_OK(syn__et_undo_ring_order(ranks, n, 8, &err), err);
        CHECK(memcmp(ranks, again, n * sizeof *ranks) == 0);
    }
}

/* A trace set has the ring order for its machine. When it is read, groups get the order of the
   graph back. */
static void test_ring_of_set(void) {
    static const int32_t rank[] = {0, 4, 8, 12}, members[] = {0, 4, 8, 12};
    static const int32_t others[] = {1, 5, 9, 13}, custom[] = {9, 5, 1};
    const syn_graph_group groups[] = {
        {3, "dp0", members, 4}, {4, "dp1", others, 4}, {5, "mine", custom, 3}};
    const syn_attribute machine = {.name = "hardware", .type = SYN_VALUE_TEXT, .text = "h100"};
    const et_row row = {.kind = SYN_NODE_COMPUTE};
    const syn_node node = et_node(&row, 1);
    syn_error err = {0};
    syn_graph *g = et_empty(rank, 4, 16, groups, 3), *back = NULL;
    NEED_OK(syn_graph_set_meta(g, &machine, &err), err);
    for (uint32_t r = 0; r < 4; r++) NEED_OK(syn_graph_add_node(g, r, &node, &err), err);
    CHECK_OK(syn_export_et_set(g, NULL, in_folder("ring"), &err), err);
    CHECK_STR(file_text(in_folder("ring.comm_group.json")),
              "{\n  \"3\": [0, 4, 12, 8],\n  \"4\": [1, 5, 13, 9],\n  \"5\": [9, 5, 1]\n}\n");
    CHECK_OK(syn_import_et(&back, in_folder("ring.0.et"), false, &err), err);
    for (uint32_t i = 0; back != NULL && i < 3; i++)
        CHECK(memcmp(back->groups[i].ranks, groups[i].ranks, groups[i].n_ranks * sizeof *rank) ==
              0);
    syn_graph_free(back);
    syn_graph_free(g);
}

/* ---- Text ---- */

static syn_graph *named_graph(const char *scope, const char *label, const char *meta) {
    static const int32_t rank = 0;
    const et_row row = {.kind = SYN_NODE_COMPUTE};
    const syn_attribute model = {.name = "model", .type = SYN_VALUE_TEXT, .text = meta};
    syn_node node = et_node(&row, 1);
    syn_graph *g = et_empty(&rank, 1, 1, NULL, 0);
    syn_error err = {0};
    node.scope = scope;
    node.label = node.op = label;
    NEED_OK(syn_graph_set_meta(g, &model, &err), err);
    NEED_OK(syn_graph_add_node(g, 0, &node, &err), err);
    return g;
}

static void test_utf8_is_repaired(void) {
    size_t bytes;
    syn_graph *g = named_graph("h\xff", "q\xc3(", "m\x80");
    char *json = export_bytes(&syn_export_chakra, g, NULL, &bytes);
    CHECK_HAS(json, "\"name\":\"h\xEF\xBF\xBD/q\xEF\xBF\xBD(\"");
    CHECK_HAS(json, "{\"name\":\"model\",\"stringVal\":\"m\xEF\xBF\xBD\"}");
    free(json);
    char *et = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph *back = read_et(et, bytes);
    free(et);
    syn_graph_free(back);
    syn_graph_free(g);
}

static void test_json_form(void) {
    /* The rules of protobuf's JSON: 64-bit integers are strings, enums are names, and default
       values are omitted, except in a oneof. */
    size_t bytes;
    syn_graph *g = named_graph("s\"\n", "x", "m");
    const syn_export_options options = {.version = "syntorch 9"};
    char *json = export_bytes(&syn_export_chakra, g, &options, &bytes);
    CHECK_STR(
        json,
        "{\"ranks\":[\n{\"rank\":0,\"metadata\":{\"version\":\"1.0.0\",\"attr\":["
        "{\"name\":\"rank\",\"int64Val\":\"0\"},{\"name\":\"world_size\",\"int64Val\":\"1\"},"
        "{\"name\":\"program\",\"stringVal\":\"syntorch 9\"},"
        "{\"name\":\"model\",\"stringVal\":\"m\"}]},\"nodes\":[\n"
        "{\"id\":\"1\",\"name\":\"s\\\"\\u000a/x\",\"type\":\"COMP_NODE\",\"attr\":["
        "{\"name\":\"is_cpu_op\",\"boolVal\":false},{\"name\":\"num_ops\",\"int64Val\":\"100\"},"
        "{\"name\":\"tensor_size\",\"uint64Val\":\"5000\"},{\"name\":\"inputs\",\"stringList\":{"
        "\"values\":[]}},"
        "{\"name\":\"outputs\",\"stringList\":{\"values\":[]}}]}]}]}\n");
    free(json);
    syn_graph_free(g);
}

static void test_same_graph_same_bytes(void) {
    size_t n[2];
    char *data[2];
    for (int i = 0; i < 2; i++) {
        syn_graph *g = small_gpt_graph();
        data[i] = export_bytes(&syn_export_et, g, NULL, &n[i]);
        syn_graph_free(g);
    }
    CHECK(n[0] == n[1] && memcmp(data[0], data[1], n[0]) == 0);
    free(data[0]);
    free(data[1]);
}

/* ---- Failing allocations ---- */

static void test_no_memory(void) {
    syn_graph *g = small_gpt_graph(), *p = et_pipeline();
    CHECK(export_without_memory(&syn_export_et, g, NULL) > 3);
    CHECK(export_without_memory(&syn_export_chakra, g, NULL) > 3);
    CHECK(export_without_memory(&syn_export_chakra, p, NULL) > 3);
    syn_graph_free(g);
    syn_graph_free(p);
}

static const test_case cases[] = {
    {"chakra_bytes", test_chakra_bytes},
    {"varints", test_varints},
    {"write_set", test_set},
    {"replaces_larger_set", test_set_replaces_larger},
    {"one_rank_of_a_set", test_set_of_one_rank},
    {"ranks_must_agree", test_ranks_must_agree},
    {"rank_without_nodes", test_rank_without_nodes},
    {"set_no_memory", test_set_no_memory},
    {"comm_group", test_comm_group},
    {"rings", test_rings},
    {"uneven rings", test_uneven_rings},
    {"ring_of_set", test_ring_of_set},
    {"utf8_is_repaired", test_utf8_is_repaired},
    {"json_form", test_json_form},
    {"same_graph_same_bytes", test_same_graph_same_bytes},
    {"no_memory", test_no_memory},
};

TEST_MAIN(cases)
