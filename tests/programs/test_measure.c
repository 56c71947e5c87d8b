/* Tests how kernels are measured and hardware constants are fitted. Times are computed with known
   constants, which the fit must recover; and a small model is measured. */
#include <math.h>

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/device.h"
#include "tests/support/test.h"
#include "tools/calibrate/measure.h"
#include "tools/calibrate/probe.h"

/* Adds an op with the time ns or, if ns is 0, with the time that *hw predicts. */
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
                      .extents = {.batch = 1, .rows = rows, .columns = size, .inner = size}};
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
    n.extents = (syn_extents){.batch = 12, .rows = queries, .columns = 128, .inner = 64};
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

/* Checks the time that is used for an op with n runs of 100, 101, ... ns. If n is at least 3, the
   last run took much longer instead. The runs are stored in another order. */
static void check_time(size_t n, double want) {
    double all[64];
    timed_op op = {.all = all, .n = n};
    timed_ops ops = {&op, 1, 1};
    for (size_t i = 0; i < n; i++) all[i * 7 % n] = i + 1 < n || n < 3 ? 100 + (double)i : 1e9;
    timed_ops_settle(&ops);
    CHECK_NEAR(op.ns, want, 1e-9);
}

/* The slowest and the fastest twentieth of the times are ignored; with at least three times, at
   least one of each. */
static void times_are_means(void) {
    check_time(1, 100);
    check_time(2, 100.5);
    check_time(3, 101);
    check_time(20, 109.5);
    check_time(40, 119.5);
    /* Three of the seven runs are slow. */
    timed_op op = {.all = (double[]){9, 1, 1, 9, 1, 1, 9}, .n = 7};
    timed_ops_settle(&(timed_ops){&op, 1, 1});
    CHECK_NEAR(op.ns, (3 * 1 + 2 * 9) / 5.0, 1e-9);
}

/* Predicts times with known rates, and recovers the rates from these times. One measurement of each
   kind was delayed. */
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
    /* A product with one row is limited by reading. Its time also contains the launch. */
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

/* A ring of four ranks takes 6 steps of 3 us, and sends 3/2 of the bytes at 8 GB/s. */
static void link_comes_back(void) {
    timed_ops ops = {0};
    syn_link link = {.alpha_ns = 0};
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

/* ---- A GPU ---- */

static syn_node gpu_product(int64_t rows, int64_t size, syn_dtype dtype) {
    syn_node n = product(rows, dtype);
    const uint64_t bytes = syn_dtype_bytes(dtype), moved = (uint64_t)(rows * size) * bytes;
    n.extents = (syn_extents){.batch = 1, .rows = rows, .columns = size, .inner = size};
    n.flops = 2 * (uint64_t)(rows * size * size);
    n.bytes_read = (uint64_t)(size * size) * bytes + moved;
    n.bytes_written = moved;
    return n;
}

static syn_node gpu_attention(int64_t tokens, syn_dtype dtype) {
    syn_node n = attention("attention", tokens);
    n.dtype = dtype;
    n.extents = (syn_extents){.batch = 128, .rows = tokens, .columns = tokens, .inner = 64};
    n.flops = 4 * 128 * 64 * (uint64_t)(tokens * tokens);
    n.bytes_read = n.bytes_written = 2 * 128 * 64 * (uint64_t)tokens * syn_dtype_bytes(dtype);
    return n;
}

/* Ops of the machine *hw at the sizes that are probed. Some take a third longer. */
static void gpu_ops(timed_ops *ops, const syn_hardware *hw) {
    static const syn_dtype types[] = {SYN_F32, SYN_F16, SYN_BF16};
    static const int64_t rows[] = {1, 16, 256, 2048};
    for (int t = 0; t < 3; t++) {
        for (int64_t size = 64; size <= 8192; size *= 2)
            for (int r = 0; r < 4; r++) put(ops, hw, gpu_product(rows[r], size, types[t]), 0);
        for (int bits = 10; bits <= 30; bits += 3)
            put(ops, hw, moving("add", (uint64_t)1 << bits, types[t]), 0);
        for (int64_t tokens = 8; tokens <= 8192; tokens *= 2)
            put(ops, hw, gpu_attention(tokens, types[t]), 0);
    }
    for (size_t i = 0; i < ops->n; i += 7) ops->at[i].ns *= 1.3;
}

/* The fitted peaks are those that products reach, and the bandwidth is the highest of any op. */
static void gpu_constants_come_back(void) {
    static syn_hardware hw, found;
    timed_ops ops = {0};
    fit_errors errors;
    syn_error err = {0};
    NEED_OK(syn_hardware_load(&hw, "h100+serving", NULL, &err), err);
    hw.stack = (syn_stack){.name = "real",
                           .kernel_ns = 2500,
                           .matmul_efficiency = 0.7,
                           .matmul_tail = 0.4,
                           .attention_efficiency = 0.35,
                           .score_passes = 1.5,
                           .memory_efficiency = 0.85,
                           .vector_efficiency = 0.6};
    gpu_ops(&ops, &hw);
    found = (syn_hardware){.multiprocessors = hw.multiprocessors, .stack = {.name = "found"}};
    CHECK_OK(measure_constants(&found, &ops, &errors, &err), err);
    CHECK_MSG(errors.median < 0.03, "median error %g", errors.median);
    const syn_stack *s = &found.stack;
    const struct {
        const char *what;
        double got, want;
    } constants[] = {
        {"f32", found.peak_flops_per_ns[SYN_F32], 0.7 * hw.peak_flops_per_ns[SYN_F32]},
        {"f16", found.peak_flops_per_ns[SYN_F16], 0.7 * hw.peak_flops_per_ns[SYN_F16]},
        {"bf16", found.peak_flops_per_ns[SYN_BF16], 0.7 * hw.peak_flops_per_ns[SYN_BF16]},
        {"tail", s->matmul_tail, 0.4},
        {"kernel", s->kernel_ns, 2500},
        {"attention", s->attention_efficiency, 0.5},
        {"reading", found.memory_bytes_per_ns * s->memory_efficiency,
         0.85 * hw.memory_bytes_per_ns},
        {"moving", found.memory_bytes_per_ns * s->vector_efficiency, 0.6 * hw.memory_bytes_per_ns},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        CHECK_MSG(fabs(constants[i].got / constants[i].want - 1) < 0.1, "%s: %g, not %g",
                  constants[i].what, constants[i].got, constants[i].want);
    timed_ops_free(&ops);
}

/* The number of kernels of an op is the mean over its sizes. Ops with one kernel are not in the
   list. */
static void kernels_are_counted(void) {
    static const struct {
        const char *op;
        uint32_t kernels;
    } counted[] = {{"add", 1},    {"sample", 3}, {"linear", 1},
                   {"linear", 2}, {"add", 1},    {"gelu", 0}};
    timed_ops ops = {0};
    syn_stack stack = {.name = "counted"};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        put(&ops, NULL, moving(counted[i].op, 1 << i, SYN_F32), 1);
        ops.at[i].kernels = counted[i].kernels;
        ops.at[i].node.phase = i < 2 ? SYN_PHASE_DECODE : SYN_PHASE_FORWARD;
    }
    measure_kernels(&stack, &ops);
    CHECK_INT(stack.kernels.n, 2);
    CHECK_STR(stack.kernels.at[0].op, "sample");
    CHECK_NEAR(stack.kernels.at[0].value, 3, 1e-9);
    CHECK_NEAR(stack.kernels.at[1].value, 1.5, 1e-9);
    CHECK_NEAR(measure_launches(&stack, &ops, true), 1 + 3, 1e-9);
    CHECK_NEAR(measure_launches(&stack, &ops, false), 1.5 + 1.5 + 1 + 1, 1e-9);
    timed_ops_free(&ops);
}

/* Measuring within a node must not change what the given file says about communication between
   nodes, even if the file leaves out keys or has no collective library. */
static void stays_between_nodes(const timed_ops ops[2]) {
    static syn_hardware given, found;
    const syn_protocol *p = found.collectives.protocols;
    fit_errors errors;
    syn_error err = {0};
    NEED_OK(syn_hardware_load(&given, "h100", NULL, &err), err);
    given.collectives.protocols[SYN_PROTOCOL_SIMPLE].link_efficiency = 0.5;
    given.collectives.protocols[SYN_PROTOCOL_SIMPLE].network_efficiency = 0;
    found = given;
    CHECK_OK(measure_library(&found, &ops[0], &ops[1], 8, &errors, &err), err);
    CHECK_NEAR(p[SYN_PROTOCOL_LL].network_efficiency * found.inter.bytes_per_ns, 10, 1e-9);
    CHECK_NEAR(p[SYN_PROTOCOL_SIMPLE].network_efficiency, 0.5, 1e-9);
    found = given;
    found.collectives.protocols[SYN_PROTOCOL_LL].link_efficiency = 0;
    CHECK_OK(measure_library(&found, &ops[0], &ops[1], 8, &errors, &err), err);
    CHECK_NEAR(p[SYN_PROTOCOL_LL].hop_ns, p[SYN_PROTOCOL_SIMPLE].hop_ns, 0);
    CHECK_NEAR(p[SYN_PROTOCOL_LL].network_efficiency, 0.5, 1e-9);
    found = given;
    found.collectives = (syn_collectives){.name = ""};
    found.inter = (syn_link){.alpha_ns = 2000, .bytes_per_ns = 25};
    CHECK_OK(measure_library(&found, &ops[0], &ops[1], 8, &errors, &err), err);
    CHECK_NEAR(found.inter.bytes_per_ns, 200, 0);
    CHECK_NEAR(p[SYN_PROTOCOL_SIMPLE].hop_ns, 2000, 0);
}

static void library_comes_back(void) {
    static syn_hardware hw, found;
    int32_t ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    timed_ops ops[2] = {{0}, {0}};
    fit_errors errors;
    syn_error err = {0};
    NEED_OK(syn_hardware_load(&hw, "a100-80g", NULL, &err), err);
    found = hw;
    hw.collectives.protocols[SYN_PROTOCOL_LL128].link_efficiency = 0;
    hw.collectives.protocols[SYN_PROTOCOL_SIMPLE].copy_efficiency = 0;
    for (int all = 0; all < 2; all++)
        for (int bits = 10; bits <= 28; bits += 2) {
            const syn_graph_group group = {.id = 1, .ranks = ranks, .n_ranks = all ? 8 : 2};
            const syn_node n = {.kind = SYN_NODE_COLLECTIVE,
                                .op = "all_reduce",
                                .comm = SYN_COMM_ALL_REDUCE,
                                .comm_bytes = (uint64_t)1 << bits};
            put(&ops[all], NULL, n, syn_hardware_predict_ns(&hw, &n, &group, 0));
        }
    CHECK_OK(measure_library(&found, &ops[0], &ops[1], 8, &errors, &err), err);
    CHECK_INT(errors.n, 20);
    CHECK_MSG(errors.worst < 0.05, "worst error %g", errors.worst);
    CHECK_NEAR(found.intra.bytes_per_ns, hw.intra.bytes_per_ns, 0.05 * hw.intra.bytes_per_ns);
    CHECK_NEAR(found.inter.bytes_per_ns, hw.inter.bytes_per_ns, 0);
    CHECK_NEAR(found.collectives.protocols[SYN_PROTOCOL_SIMPLE].hop_ns,
               hw.collectives.protocols[SYN_PROTOCOL_SIMPLE].hop_ns, 0);
    stays_between_nodes(ops);
    timed_ops_free(&ops[0]);
    timed_ops_free(&ops[1]);
}

static size_t times_of(const timed_ops *ops, const char *op, syn_phase phase) {
    size_t n = 0;
    for (size_t i = 0; i < ops->n; i++)
        if (strcmp(ops->at[i].node.op, op) == 0 && ops->at[i].node.phase == phase)
            n += ops->at[i].n;
    return n;
}

/* Every op of every measured run has one time. The warm-up run is not counted. */
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
    job_times times = {0};
    CHECK_OK(job_run(&generating, &ops, &times, &err), err);
    CHECK(times.decode_ns > 0 && times.prefill_ns > 0);
    CHECK_INT(times_of(&ops, "attention", SYN_PHASE_PREFILL), 2 * 2 * 2);
    CHECK_INT(times_of(&ops, "attention", SYN_PHASE_DECODE), 2 * 2 * (2 + 1));
    CHECK_INT(times_of(&ops, "all_reduce", SYN_PHASE_DECODE), 2 * 5 * (2 + 1));
    timed_ops_free(&ops);
    CHECK_OK(job_run(&training, &ops, &times, &err), err);
    CHECK(times.training_ns > 0);
    CHECK_INT(times_of(&ops, "attention_grad", SYN_PHASE_BACKWARD), 2 * 2 * 2);
    timed_ops_settle(&ops);
    for (size_t i = 0; i < ops.n; i++)
        CHECK_MSG(ops.at[i].ns > 0, "%s took no time", ops.at[i].node.op);
    timed_ops_free(&ops);
}

/* Every series contains its first size, and each size was timed after a first call that does not
   count. */
static void a_device_is_probed(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    probed p;
    syn_error err = {0};
    CHECK_OK(probe_device(&p, SYN_DEVICE_CUDA, 0, &err), err);
    CHECK(p.n_series > 20 && p.sizes == p.n_series);
    CHECK(p.device.multiprocessors > 0 && p.memory_bytes > 0 && p.launch_ns > 0);
    static const char *const ops[] = {"linear",    "add",        "gelu",
                                      "layernorm", "contiguous", "attention"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        CHECK_MSG(times_of(&p.ops, ops[i], SYN_PHASE_FORWARD) > 0, "%s was not called", ops[i]);
    for (size_t i = 0; i < p.ops.n; i++)
        CHECK_MSG(p.ops.at[i].ns > 0, "%s took no time", p.ops.at[i].node.op);
    for (size_t i = 0; i < p.first.n; i++)
        CHECK_MSG(p.first.at[i].kernels > 0, "%s has no kernels", p.first.at[i].node.op);
    probed_free(&p);
}

/* Rank 0 measures each size of the sums. */
static void ranks_sum(void) {
    const job sums = {.shapes = {{1, 1, 1}},
                      .ranks = 2,
                      .threads = 1,
                      .steps = 2,
                      .first_bits = 8,
                      .last_bits = 20,
                      .more_bits = 4};
    timed_ops ops = {0};
    syn_error err = {0};
    syn_link link = {.alpha_ns = 0};
    int32_t ranks = 0;
    CHECK_OK(job_all_reduce(&sums, &ops, &ranks, &err), err);
    CHECK_INT(ranks, 2);
    CHECK_INT(ops.n, 4);
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
    {"times_are_means", times_are_means},
    {"rates_come_back", rates_come_back},
    {"link_comes_back", link_comes_back},
    {"ranks_sum", ranks_sum},
    {"models_run", models_run},
    {"gpu_constants_come_back", gpu_constants_come_back},
    {"kernels_are_counted", kernels_are_counted},
    {"library_comes_back", library_comes_back},
    {"a_device_is_probed", a_device_is_probed},
};
TEST_MAIN(cases)
