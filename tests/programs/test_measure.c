/* What is found of kernels: from times that formulas gave, and of a small model that runs. */
#include <math.h>

#include "syntorch/hardware.h"
#include "syntorch/memory.h"
#include "tests/support/device.h"
#include "tests/support/test.h"
#include "tools/calibrate/measure.h"

/* Ops as they are recorded, with times by the prediction of *hw, all of them `n` times. */
static void put(timed_ops *ops, const syn_hardware *hw, syn_node node, double ns) {
    syn_error err = {0};
    CHECK_OK(syn_grow(&ops->at, &ops->cap, ops->n + 1, sizeof *ops->at, &err), err);
    if (ns == 0) ns = syn_hardware_predict_ns(hw, &node, NULL, 0);
    ops->at[ops->n++] = (timed_op){.node = node, .n = 1, .ns = ns};
}

static syn_node product(int64_t rows, syn_dtype dtype) {
    const int64_t size = 2048;
    const uint64_t weights = (uint64_t)(size * size) * syn_dtype_bytes(dtype);
    return (syn_node){.kind = SYN_NODE_COMPUTE,
                      .category = SYN_CATEGORY_MATMUL,
                      .op = "linear",
                      .dtype = dtype,
                      .flops = 2 * (uint64_t)(rows * size * size),
                      .bytes_read = weights,
                      .extents = {1, rows, size, size}};
}

static syn_node moving(const char *op, uint64_t bytes, syn_dtype dtype) {
    return (syn_node){.kind = SYN_NODE_COMPUTE,
                      .category = SYN_CATEGORY_ELEMENTWISE,
                      .op = op,
                      .dtype = dtype,
                      .bytes_read = bytes / 2,
                      .bytes_written = bytes / 2};
}

static syn_node attention(const char *op, int64_t queries) {
    syn_node n = moving(op, 1 << 20, SYN_F32);
    n.category = SYN_CATEGORY_ATTENTION;
    n.flags = SYN_NODE_FUSED;
    n.flops = (uint64_t)queries << 20;
    n.extents = (syn_extents){12, queries, 128, 64};
    return n;
}

static syn_hw_curve *curve_of(syn_hw_rates *rates, const char *op) {
    for (int32_t i = 0; i < rates->n; i++)
        if (strcmp(rates->at[i].op, op) == 0) return &rates->at[i].curve;
    static syn_hw_curve none;
    return &none;
}

static void check_point(const syn_hw_curve *curve, int i, double at, double rate) {
    CHECK(i < curve->n);
    CHECK_NEAR(curve->points[i].at, at, 1e-6 * at);
    CHECK_NEAR(curve->points[i].rate, rate, 1e-6 * rate);
}

/* A machine, what its ops take, and the machine again; one op of each kind was delayed. */
static void rates_come_back(void) {
    static syn_hardware hw;
    static syn_hw_kernels found;
    const double own_ns = 500;
    timed_ops ops = {0};
    hw.alone = (syn_hw_kernels){.ranks = 1, .launch_ns = own_ns};
    for (int width = 0; width < 2; width++) {
        struct syn_hw_width *w = &hw.alone.widths[width];
        const double f = width + 1;
        w->read_bytes_per_ns = 20 * f;
        w->flops_per_ns = (syn_hw_rates){
            {{"linear", {{{64, 100 * f}, {512, 300 * f}}, 2}}, {"attention", {{{16, 40}}, 1}}}, 2};
        w->bytes_per_ns = (syn_hw_rates){{{"gelu", {{{4096, 5 * f}, {1048576, 10 * f}}, 2}}}, 1};
        const syn_dtype dtype = width ? SYN_BF16 : SYN_F32;
        for (int repeat = 0; repeat < 3; repeat++) {
            put(&ops, &hw, product(1, dtype), repeat == 1 ? 1e9 : 0);
            put(&ops, &hw, product(64, dtype), repeat == 1 ? 1e9 : 0);
            put(&ops, &hw, product(512, dtype), repeat == 1 ? 1e9 : 0);
            put(&ops, &hw, moving("gelu", 4096, dtype), repeat == 1 ? 1e6 : 0);
            put(&ops, &hw, moving("gelu", 1048576, dtype), 0);
        }
    }
    put(&ops, &hw, attention("attention", 16), 0);
    found.launch_ns = own_ns;
    measure_rates(&found, &ops, own_ns);
    /* a product of one row is reading, but for the launch in its time */
    for (int width = 0; width < 2; width++) {
        struct syn_hw_width *w = &found.widths[width];
        const double f = width + 1;
        CHECK_NEAR(w->read_bytes_per_ns, 20 * f, 0.1 * f);
        const syn_hw_curve *products = curve_of(&w->flops_per_ns, "linear");
        CHECK_INT(products->n, 2);
        check_point(products, 0, 64, 100 * f);
        check_point(products, 1, 512, 300 * f);
        check_point(curve_of(&w->bytes_per_ns, "gelu"), 0, 4096, 5 * f);
        check_point(curve_of(&w->bytes_per_ns, "gelu"), 1, 1048576, 10 * f);
    }
    check_point(curve_of(&found.widths[0].flops_per_ns, "attention"), 0, 16, 40);
    timed_ops_free(&ops);
}

/* Rings of four: 6 steps of 3 us and 3/2 of the bytes at 8 GB/s. */
static void link_comes_back(void) {
    timed_ops ops = {0};
    syn_link link = {0, 0};
    syn_node n = {.kind = SYN_NODE_COLLECTIVE, .op = "all_reduce", .comm = SYN_COMM_ALL_REDUCE};
    for (int bits = 0; bits < 30; bits += 5) {
        n.comm_bytes = (uint64_t)1 << bits;
        put(&ops, NULL, n, 6 * 3000 + 1.5 * (double)n.comm_bytes / 8);
    }
    measure_link(&link, &ops, 4);
    CHECK_NEAR(link.alpha_ns, 3000, 1);
    CHECK_NEAR(link.bytes_per_ns, 8, 0.01);
    timed_ops_free(&ops);
}

static size_t times_of(const timed_ops *ops, const char *op, syn_phase phase) {
    size_t n = 0;
    for (size_t i = 0; i < ops->n; i++)
        if (strcmp(ops->at[i].node.op, op) == 0 && ops->at[i].node.phase == phase)
            n += ops->at[i].n;
    return n;
}

/* Every op of every measured run is there once, with a time; those of the first run are not. */
static void models_run_on(syn_device device) {
    const job generating = {.device = device,
                            .layers = 2,
                            .hidden = 128,
                            .vocabulary = 64,
                            .shapes = {{1, 4, 3}, {2, 5, 2}},
                            .ranks = 2,
                            .threads = 1,
                            .steps = 2};
    job training = generating;
    training.shapes[0] = training.shapes[1] = (struct job_shape){1, 4, 0};
    timed_ops ops = {0};
    syn_error err = {0};
    double decode_ns = 0;
    CHECK_OK(job_run(&generating, &ops, &decode_ns, &err), err);
    CHECK(decode_ns > 0);
    CHECK_INT(times_of(&ops, "attention", SYN_PHASE_PREFILL), 2 * 2 * 2);
    CHECK_INT(times_of(&ops, "attention", SYN_PHASE_DECODE), 2 * 2 * (2 + 1));
    CHECK_INT(times_of(&ops, "all_reduce", SYN_PHASE_DECODE), 2 * 5 * (2 + 1));
    timed_ops_free(&ops);
    CHECK_OK(job_run(&training, &ops, NULL, &err), err);
    CHECK_INT(times_of(&ops, "attention_grad", SYN_PHASE_BACKWARD), 2 * 2 * 2);
    timed_ops_settle(&ops);
    for (size_t i = 0; i < ops.n; i++)
        CHECK_MSG(ops.at[i].ns > 0, "%s took no time", ops.at[i].node.op);
    timed_ops_free(&ops);
}

/* Of each size each measured sum, by the first rank. */
static void ranks_sum(void) {
    const job sums = {.shapes = {{1, 1, 1}}, .ranks = 2, .threads = 1, .steps = 2};
    timed_ops ops = {0};
    syn_error err = {0};
    syn_link link = {0, 0};
    int32_t ranks = 0;
    CHECK_OK(job_all_reduce(&sums, &ops, &ranks, &err), err);
    CHECK_INT(ranks, 2);
    CHECK_INT(ops.n, 5);
    for (size_t i = 0; i < ops.n; i++) {
        CHECK_INT(ops.at[i].n, 2);
        CHECK_INT(ops.at[i].node.comm_bytes, 1024 << 4 * i);
    }
    timed_ops_settle(&ops);
    measure_link(&link, &ops, ranks);
    CHECK(link.alpha_ns > 0 && link.bytes_per_ns > 0);
    timed_ops_free(&ops);
}

static void models_run(void) {
    models_run_on(SYN_DEVICE_CPU);
    if (ref_has_cuda()) models_run_on(SYN_DEVICE_CUDA);
}

static const test_case cases[] = {
    {"rates_come_back", rates_come_back},
    {"link_comes_back", link_comes_back},
    {"ranks_sum", ranks_sum},
    {"models_run", models_run},
};
TEST_MAIN(cases)
