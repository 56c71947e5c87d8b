/* Tests measured kernels: how hardware files describe them, and predicted times, which must equal
   times computed manually. */
#include <math.h>

#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/test.h"

static const char *const toy =
    "{\"name\":\"toy\",\n"
    " \"hardware\":{\"peak_tflops\":{\"f32\":1},\"memory_gib\":2,\"memory_gb_per_s\":5,\n"
    "  \"node_ranks\":4,\"intra\":{\"alpha_us\":2,\"gb_per_s\":50}},\n"
    " \"stack\":{\"name\":\"s\",\"launch_us\":3,\"matmul_efficiency\":1,\"memory_efficiency\":1},\n"
    " \"kernels\":{\n"
    "  \"alone\":{\"ranks\":1,\"launch_us\":1,\"memory\":[[1000,40]],\n"
    "   "
    "\"f32\":{\"read_gb_per_s\":20,\"gflop_per_s\":{\"linear\":[[16,100],[64,400]],\"attention\":[["
    "32,50]]},\n"
    "    \"gb_per_s\":{\"add\":[[1000,10],[100000,40]],\"attention\":[[1,8]]}},\n"
    "   "
    "\"half\":{\"read_gb_per_s\":20,\"gflop_per_s\":{\"linear\":[[16,200]]},\"gb_per_s\":{\"add\":["
    "[1,5]]}}},\n"
    "  \"shared\":{\"ranks\":4,\"launch_us\":2,\"memory\":[[1000,10]],\n"
    "   "
    "\"f32\":{\"read_gb_per_s\":4,\"gflop_per_s\":{\"linear\":[[16,25]]},\"gb_per_s\":{\"add\":[["
    "1000,2.5]]}}}}}\n";

static syn_hardware hw;

static syn_status parse(const char *json, syn_error *err) {
    memset(err, 0, sizeof *err);
    return syn_hardware_parse(&hw, "hw.json", json, strlen(json), err);
}

static double toy_ns(const syn_node *node, int32_t ranks) {
    syn_error err;
    if (parse(toy, &err) != SYN_OK) return -1;
    syn_hardware_set_sharing(&hw, ranks);
    return syn_hardware_predict_ns(&hw, node, NULL, 0);
}

static syn_node product(int64_t rows, int64_t inner, int64_t columns, uint64_t bytes) {
    return (syn_node){.kind = SYN_NODE_COMPUTE,
                      .category = SYN_CATEGORY_MATMUL,
                      .op = "linear",
                      .flops = 2 * (uint64_t)(rows * inner * columns),
                      .bytes_read = bytes,
                      .extents = {.batch = 1, .rows = rows, .columns = columns, .inner = inner}};
}

static void products(void) {
    syn_node n = product(16, 100, 1000, 100);
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 3.2e6 / 100, 1e-6);
    /* Fewer rows than measured: the time of the smallest measured number counts. */
    n = product(1, 100, 1000, 100);
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 2e5 / 100, 1e-6);
    /* Halfway between 16 and 64 on a logarithmic scale: sqrt(100 * 400). */
    n = product(32, 100, 1000, 100);
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 6.4e6 / 200, 1e-6);
    n = product(1000, 100, 1000, 100);
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 2e8 / 400, 1e-6);
    n = product(1000, 16, 1000, 100); /* a short inner dimension */
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 3.2e7 / 100, 1e-6);
    n = product(16, 100, 1000, 1000000); /* limited by memory: 1e6 bytes at 20 bytes/ns */
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 50000, 1e-6);
    n = product(16, 100, 1000, 100);
    n.dtype = SYN_BF16;
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 3.2e6 / 200, 1e-6);
}

static void other_ops(void) {
    syn_node n = {.kind = SYN_NODE_COMPUTE, .category = SYN_CATEGORY_ELEMENTWISE, .op = "add"};
    n.bytes_read = 9000;
    n.bytes_written = 1000; /* halfway between 1e3 and 1e5 bytes */
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 10000 / 20.0, 1e-6);
    n.op = "gelu"; /* not measured, so the memory bandwidth counts */
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 10000 / 40.0, 1e-6);
    n.op = "attention";
    n.category = SYN_CATEGORY_ATTENTION;
    n.flags = SYN_NODE_FUSED;
    n.flops = 1000000;
    n.extents.rows = 1;
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 10000 / 8.0, 1e-6);
    n.extents.rows = 32;
    CHECK_NEAR(toy_ns(&n, 1), 1000 + 1e6 / 50, 1e-6);
    n.category = SYN_CATEGORY_VIEW;
    CHECK_NEAR(toy_ns(&n, 1), 0, 0);
}

/* A kernel takes 34 us if one rank runs, and 130 us if four do. Two ranks are halfway between them
   on a logarithmic scale. Ranks beyond the size of a node run on other nodes. */
static void shared(void) {
    const syn_node n = product(16, 100, 1000, 100);
    CHECK_NEAR(toy_ns(&n, 4), 2000 + 3.2e6 / 25, 1e-6);
    CHECK_NEAR(toy_ns(&n, 2), sqrt(33000.0 * 130000.0), 1e-6);
    CHECK_NEAR(toy_ns(&n, 64), 130000, 1e-6);
}

static bool is_beyond(const syn_node *node, syn_hw_extent extent, double value, double least,
                      double most) {
    syn_hw_extrapolation out[SYN_HW_EXTENTS];
    return syn_hardware_extrapolated(&hw, node, NULL, out) == 1 &&
           strcmp(out[0].what, node->op) == 0 && out[0].extent == extent && out[0].value == value &&
           out[0].fitted.least == least && out[0].fitted.most == most;
}

/* Predictions beyond the ends of a measured curve are reported as extrapolated. */
static void beyond_curves(void) {
    syn_hw_extrapolation out[SYN_HW_EXTENTS];
    syn_error err;
    CHECK_OK(parse(toy, &err), err);
    syn_node n = product(64, 100, 1000, 100);
    CHECK_INT(syn_hardware_extrapolated(&hw, &n, NULL, out), 0);
    n = product(65, 100, 1000, 100);
    CHECK(is_beyond(&n, SYN_HW_EXTENT_ROWS, 65, 16, 64));
    n = product(65, 15, 1000, 100); /* a short inner dimension */
    CHECK(is_beyond(&n, SYN_HW_EXTENT_ROWS, 15, 16, 64));
    n = (syn_node){.kind = SYN_NODE_COMPUTE,
                   .category = SYN_CATEGORY_ELEMENTWISE,
                   .op = "add",
                   .bytes_read = 100000};
    CHECK_INT(syn_hardware_extrapolated(&hw, &n, NULL, out), 0);
    n.bytes_written = 1;
    CHECK(is_beyond(&n, SYN_HW_EXTENT_BYTES, 100001, 1000, 100000));
    n.op = "gelu"; /* limited by memory */
    CHECK(is_beyond(&n, SYN_HW_EXTENT_BYTES, 100001, 1000, 1000));
    n = (syn_node){.kind = SYN_NODE_COMPUTE,
                   .category = SYN_CATEGORY_ATTENTION,
                   .op = "attention",
                   .flags = SYN_NODE_FUSED,
                   .extents = {.batch = 1, .rows = 33, .columns = 33, .inner = 8}};
    CHECK(is_beyond(&n, SYN_HW_EXTENT_QUERIES, 33, 32, 32));
    n.flags |= SYN_NODE_VIRTUAL;
    CHECK_INT(syn_hardware_extrapolated(&hw, &n, NULL, out), 0);
}

static void written_and_read(void) {
    static syn_hardware again;
    syn_error err;
    syn_sink *sink;
    CHECK_OK(parse(toy, &err), err);
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    syn_hardware_write(&hw, sink);
    size_t bytes;
    const char *text = syn_sink_data(sink, &bytes);
    CHECK_OK(syn_hardware_parse(&again, "again.json", text, bytes, &err), err);
    CHECK(memcmp(&hw, &again, sizeof hw) == 0);
    CHECK_OK(syn_sink_close(sink, false, &err), err);
}

static void refuses(const char *from, const char *to, const char *says) {
    char text[4096];
    syn_error err;
    const char *at = strstr(toy, from);
    CHECK(at != NULL);
    if (at == NULL) return;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - toy), toy, to, at + strlen(from));
    CHECK(parse(text, &err) != SYN_OK);
    CHECK_MSG(strstr(err.text, says) != NULL, "%s", err.text);
}

static void refuses_bad_curves(void) {
    refuses("[[16,100],[64,400]]", "[[64,100],[16,400]]", "must ascend");
    refuses("[[16,100],[64,400]]", "[[16,100,3]]", "must be [size, rate]");
    refuses("[[16,100],[64,400]]", "[]", "must be [[size, rate], ...]");
    refuses("[[16,100],[64,400]]", "7", "must be [[size, rate], ...]");
    refuses("[[16,100],[64,400]]", "[[16,0]]", "gflop_per_s.linear");
    refuses("[[16,100],[64,400]]",
            "[[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1],[9,1],[10,1],[11,1],[12,1],[13,1]]",
            "may have at most 12 points");
    refuses("\"linear\"", "\"cube\"", "names the op \"cube\", which does not exist");
    refuses("\"attention\":[[32,50]]", "\"linear\":[[32,50]]", "appears twice");
    refuses("\"alone\"", "\"lone\"", "unknown key \"lone\"");
}

static const test_case cases[] = {
    {"products", products},
    {"other_ops", other_ops},
    {"shared", shared},
    {"beyond_curves", beyond_curves},
    {"written_and_read", written_and_read},
    {"refuses_bad_curves", refuses_bad_curves},
};
TEST_MAIN(cases)
