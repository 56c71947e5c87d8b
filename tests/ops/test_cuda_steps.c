/* Tests repeated steps on CUDA: from the third step on, the ops of a step are one graph launch,
   nothing is allocated, and results do not change. */
#include <stdlib.h>

#include "ops/ops.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* Whether calls are counted. Only the emulated device does that. */
static bool counts(void) {
    return ref_cuda_calls("cudaMalloc") > 0;
}

typedef struct loop {
    syn_ctx *ctx;
    syn_tensor cache, x;
    syn_mark mark;
} loop;

enum { ROWS = 24, WIDTH = 16 };

static loop open_loop(syn_device device) {
    loop l = {.ctx = NULL};
    syn_error err = {0};
    const syn_spec cache = {SYN_F32, 4, {1, 2, ROWS, WIDTH}}, x = {SYN_F32, 4, {1, 2, 1, WIDTH}};
    float data[2 * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++) data[i] = 0.01f * (float)(i - WIDTH);
    NEED_OK(syn_ctx_new(&l.ctx, device, NULL, &err), err);
    l.cache = syn_state(l.ctx, "cache", &cache);
    l.x = syn_input(l.ctx, "x", &x, data);
    syn_next_step(l.ctx);
    l.mark = syn_ctx_mark(l.ctx);
    return l;
}

/* A step of six ops. The cache's row and the keys that are read differ between steps. odd: the step
   has one more op. */
static void step(loop *l, int64_t position, bool odd) {
    syn_ctx *ctx = l->ctx;
    syn_tensor y = syn_scale(ctx, l->x, 1.25);
    y = syn_tanh(ctx, syn_add(ctx, y, l->x));
    if (odd) y = syn_silu(ctx, y);
    const syn_tensor cache = syn_kv_append(ctx, l->cache, y, position);
    const syn_tensor seen = syn_slice(ctx, cache, 2, 0, position + 1);
    const syn_tensor sums = syn_sum_to(ctx, seen, (const int64_t[]){1, 2, 1, WIDTH}, 4);
    const syn_tensor x = syn_scale(ctx, syn_add(ctx, sums, y), 0.5);
    l->cache = cache;
    l->x = x;
    syn_tensor kept[2] = {cache, x};
    syn_forget(ctx, l->mark, kept, 2);
    syn_next_step(ctx);
}

static bool equal(loop *a, loop *b) {
    float of_a[2 * WIDTH], of_b[2 * WIDTH];
    if (syn_tensor_read(a->ctx, a->x, of_a, sizeof of_a) != SYN_OK ||
        syn_tensor_read(b->ctx, b->x, of_b, sizeof of_b) != SYN_OK)
        return false;
    for (int i = 0; i < 2 * WIDTH; i++)
        if (!(fabsf(of_a[i] - of_b[i]) <= 1e-5f * (1 + fabsf(of_b[i])))) return false;
    return true;
}

static void run(bool read_each, int odd_step) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    loop cuda = open_loop(SYN_DEVICE_CUDA), cpu = open_loop(SYN_DEVICE_CPU);
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    for (int i = 0; i < ROWS; i++) {
        step(&cuda, i, i == odd_step);
        step(&cpu, i, i == odd_step);
        if (read_each) CHECK_MSG(equal(&cuda, &cpu), "step %d", i);
    }
    CHECK(equal(&cuda, &cpu));
    CHECK_OK(syn_ctx_status(cuda.ctx), *syn_ctx_error(cuda.ctx));
    const uint64_t launched = ref_cuda_calls("cudaGraphLaunch") - graphs;
    /* The first step sums nothing. The next two steps, a step that differs, and the two steps after
       it are launched op by op. */
    if (counts()) CHECK_INT(launched, ROWS - 3 - (odd_step < 0 ? 0 : 3));
    syn_ctx_free(cuda.ctx);
    syn_ctx_free(cpu.ctx);
}

static void test_steps_read_each(void) {
    run(true, -1);
}

static void test_steps_read_at_the_end(void) {
    run(false, -1);
}

/* One step has an additional op. This step and the next two are launched op by op. */
static void test_a_step_that_differs(void) {
    run(true, 9);
    run(false, 9);
}

/* The captured step needs a buffer that does not exist yet, like a step that reads more keys. */
static void test_a_step_that_needs_memory(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    loop cuda = open_loop(SYN_DEVICE_CUDA), cpu = open_loop(SYN_DEVICE_CPU);
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    for (int i = 0; i < 6; i++) {
        loop *both[2] = {&cuda, &cpu};
        for (int k = 0; k < 2; k++) {
            loop *l = both[k];
            syn_tensor y = syn_tanh(l->ctx, syn_scale(l->ctx, l->x, 1.25));
            const syn_tensor seen = syn_slice(l->ctx, l->cache, 2, 0, i < 2 ? 1 : ROWS);
            y = syn_slice(l->ctx, syn_add(l->ctx, seen, y), 2, 0, 1);
            syn_tensor kept[2] = {l->cache, l->x = syn_scale(l->ctx, y, 0.5)};
            syn_forget(l->ctx, l->mark, kept, 2);
            syn_next_step(l->ctx);
        }
    }
    CHECK(equal(&cuda, &cpu));
    CHECK_OK(syn_ctx_status(cuda.ctx), *syn_ctx_error(cuda.ctx));
    if (counts()) CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 4);
    syn_ctx_free(cuda.ctx);
    syn_ctx_free(cpu.ctx);
}

/* Between steps, allocates tensors whose sizes always differ. Two of them fill most of the device,
   so cached buffers are freed, even while ops are deferred. Graphs must still give the same
   results. */
static void test_memory_of_other_sizes(void) {
    enum { MIB = 1 << 18, MOST = 36 }; /* number of elements */
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (!counts()) SKIP("the device is not emulated");
    const char *before = getenv("SYN_EMULATED_MEMORY");
    loop cuda = open_loop(SYN_DEVICE_CUDA), cpu = open_loop(SYN_DEVICE_CPU);
    float *data = calloc((size_t)MOST * MIB, sizeof *data);
    setenv("SYN_EMULATED_MEMORY", "83886080", 1);
    for (int i = 0; i < 8; i++) {
        const syn_spec spec = {SYN_F32, 1, {(int64_t)(MOST - 12 + i) * MIB}};
        const syn_mark mark = syn_ctx_mark(cuda.ctx);
        const syn_tensor x = syn_scale(cuda.ctx, syn_input(cuda.ctx, "x", &spec, data), 2);
        CHECK_MSG(x.id != 0, "%s", syn_ctx_error(cuda.ctx)->text);
        syn_forget(cuda.ctx, mark, NULL, 0);
        step(&cuda, i, false);
        step(&cpu, i, false);
    }
    if (before) setenv("SYN_EMULATED_MEMORY", before, 1);
    else unsetenv("SYN_EMULATED_MEMORY");
    CHECK(equal(&cuda, &cpu));
    CHECK_OK(syn_ctx_status(cuda.ctx), *syn_ctx_error(cuda.ctx));
    free(data);
    syn_ctx_free(cuda.ctx);
    syn_ctx_free(cpu.ctx);
}

static void test_a_steady_step_asks_for_nothing(void) {
    static const char *const none[] = {"cudaMalloc",       "cudaFree",
                                       "cudaMallocHost",   "cudaStreamSynchronize",
                                       "cudaEventCreate",  "cudaEventSynchronize",
                                       "cudaLaunchKernel", "cudaGraphInstantiate"};
    uint64_t before[COUNT(none)];
    if (!ref_has_cuda()) SKIP("no CUDA device");
    loop l = open_loop(SYN_DEVICE_CUDA);
    if (!counts()) SKIP("the device does not count calls");
    for (int i = 0; i < 12; i++) step(&l, i, false);
    CHECK_INT(syn_ctx_sync(l.ctx), SYN_OK);
    for (size_t k = 0; k < COUNT(none); k++) before[k] = ref_cuda_calls(none[k]);
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    for (int i = 12; i < 18; i++) step(&l, i, false);
    for (size_t k = 0; k < COUNT(none); k++)
        CHECK_MSG(ref_cuda_calls(none[k]) == before[k], "%s: %d more", none[k],
                  (int)(ref_cuda_calls(none[k]) - before[k]));
    CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 6);
    syn_ctx_free(l.ctx);
}

/* The host reads values while the device works. Deferred ops are launched before the host waits,
   and the host does not wait for the whole device. This is also tested with a device that does
   nothing until the host waits. */
static void test_async_reads_do_not_stall(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int lazy = 0; lazy < 2; lazy++) {
        float got[2][8] = {{0}};
        for (int k = 0; k < 2; k++) {
            if (lazy) setenv("SYN_EMULATED_LAZY", "1", 1);
            loop l = open_loop(k ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU);
            unsetenv("SYN_EMULATED_LAZY");
            uint64_t waits = 0;
            int asked = 0;
            for (int i = 0; i < 9; i++) {
                syn_tensor x = l.x;
                for (int n = 0; n < 4; n++) x = syn_tanh(l.ctx, syn_scale(l.ctx, x, 1.1));
                const syn_tensor squares = syn_square_sum(l.ctx, &x, 1);
                const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
                /* From here on, scratch memory exists. */
                if (i == 0) waits = ref_cuda_calls("cudaStreamSynchronize");
                if (i > 0) CHECK_INT(syn_tensor_read_end(l.ctx, asked, &got[k][i - 1]), SYN_OK);
                if (k && i > 2 && counts())
                    CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 1);
                if (i < 8) CHECK_INT(syn_tensor_read_begin(l.ctx, &squares, 1, &asked), SYN_OK);
                l.x = syn_scale(l.ctx, x, 1.01);
                syn_forget(l.ctx, l.mark, &l.x, 1);
                syn_next_step(l.ctx);
            }
            CHECK_INT(ref_cuda_calls("cudaStreamSynchronize") - waits, 0);
            syn_ctx_free(l.ctx);
        }
        for (int i = 0; i < 8; i++) CHECK_NEAR(got[1][i], got[0][i], 1e-5 * (double)got[0][i]);
    }
}

/* The time of a graph is divided among its ops, which run one after the other. */
static void test_times_of_graphs(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    loop l = open_loop(SYN_DEVICE_CUDA);
    for (int i = 0; i < 8; i++) step(&l, i, false);
    CHECK_INT(syn_ctx_sync(l.ctx), SYN_OK);
    const uint32_t first = (uint32_t)syn_ctx_trace(l.ctx)->n_nodes;
    syn_tensor y = syn_scale(l.ctx, l.x, 1.25);
    y = syn_tanh(l.ctx, syn_add(l.ctx, y, l.x));
    const syn_tensor cache = syn_kv_append(l.ctx, l.cache, y, 8);
    const syn_tensor seen = syn_slice(l.ctx, cache, 2, 0, 9);
    syn_scale(l.ctx,
              syn_add(l.ctx, syn_sum_to(l.ctx, seen, (const int64_t[]){1, 2, 1, WIDTH}, 4), y),
              0.5);
    CHECK_INT(syn_ctx_sync(l.ctx), SYN_OK);
    const syn_trace *t = syn_ctx_trace(l.ctx);
    double all = 0, end = 0;
    for (uint32_t row = first; row < t->n_nodes; row++) {
        const syn_trace_time *time = &t->times[row];
        const double start = 0x1p32 * time->start_high + time->start_low;
        if (syn_op_table[t->nodes[row].op].flags & SYN_OPF_VIEW) continue;
        CHECK_MSG(start + 2 >= end, "row %u", row); /* times are rounded to nanoseconds */
        end = start + (double)time->wall_ns;
        all += (double)time->wall_ns;
    }
    CHECK(all > 0);
    syn_ctx_free(l.ctx);
}

enum { TOKENS = 4, CLASSES = 8 };

static void step_of_losses(syn_ctx *ctx, syn_tensor x, syn_tensor targets, int32_t target) {
    const int32_t all[TOKENS] = {1, target, 2, 3};
    const syn_mark mark = syn_ctx_mark(ctx);
    CHECK_INT(syn_tensor_write(ctx, targets, all, sizeof all), SYN_OK);
    syn_push_scope(ctx, "losses");
    for (int i = 0; i < 3; i++) x = syn_tanh(ctx, x);
    syn_cross_entropy(ctx, x, targets, SYN_MEAN, CLASSES);
    syn_pop_scope(ctx);
    syn_forget(ctx, mark, NULL, 0);
    syn_next_step(ctx);
}

/* A kernel of a graph finds an invalid target. Other ops use the graph's slot again before the host
   waits. The error must name the op of the graph or, if its row is gone, report that it was
   forgotten. */
static void test_a_fault_of_a_graph_in_flight(void) {
    const syn_spec logits = {SYN_F32, 2, {TOKENS, CLASSES}}, ids = {SYN_I32, 1, {TOKENS}};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int others = 0; others < 4; others++) {
        syn_ctx *ctx = NULL;
        syn_error err = {0};
        NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
        const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
        const syn_tensor x = syn_input(ctx, "x", &logits, NULL),
                         targets = syn_input(ctx, "targets", &ids, NULL);
        syn_next_step(ctx);
        for (int i = 0; i < 5; i++) step_of_losses(ctx, x, targets, 0);
        step_of_losses(ctx, x, targets, 99);
        if (counts()) CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 4);
        for (int i = 0; i < others; i++) {
            syn_push_scope(ctx, "others");
            for (int k = 0; k < 9; k++) syn_scale(ctx, x, 2);
            syn_pop_scope(ctx);
            syn_next_step(ctx);
        }
        CHECK_INT(syn_ctx_sync(ctx), SYN_E_INVALID);
        CHECK_STR(syn_ctx_error(ctx)->text,
                  "a forgotten op: a target is 99, which is out of range: there are 8 classes");
        syn_ctx_free(ctx);
    }
}

/* Waiting for a value reports the errors of all ops before it. */
static void test_async_reads_report_errors(void) {
    const syn_spec logits = {SYN_F32, 2, {TOKENS, CLASSES}}, ids = {SYN_I32, 1, {TOKENS}};
    const int32_t wrong[TOKENS] = {1, 2, CLASSES, 3};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    int asked[2];
    float got = 0;
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
    const syn_tensor x = syn_input(ctx, "x", &logits, NULL),
                     targets = syn_input(ctx, "targets", &ids, wrong);
    const syn_tensor before = syn_square_sum(ctx, &x, 1);
    CHECK_INT(syn_tensor_read_begin(ctx, &before, 1, &asked[0]), SYN_OK);
    const syn_tensor loss = syn_cross_entropy(ctx, x, targets, SYN_MEAN, CLASSES);
    CHECK_INT(syn_tensor_read_begin(ctx, &loss, 1, &asked[1]), SYN_OK);
    CHECK_INT(syn_tensor_read_end(ctx, asked[0], &got), SYN_OK);
    CHECK_INT(syn_tensor_read_end(ctx, asked[1], &got), SYN_E_INVALID);
    CHECK_STR(syn_ctx_error(ctx)->text,
              "cross_entropy: a target is 8, which is out of range: there are 8 classes");
    syn_ctx_free(ctx);
}

/* Every op that has a CPU kernel must have a CUDA kernel. */
static void test_every_op_has_a_kernel(void) {
    const syn_backend *cuda;
    if (!ref_has_cuda()) SKIP("no CUDA device");
    CHECK_INT(syn_backend_get(SYN_DEVICE_CUDA, &cuda, NULL), SYN_OK);
    for (int op = 1; op < SYN_OP_COUNT; op++)
        CHECK_MSG(!syn_op_table[op].cpu == !cuda->kernel(&syn_op_table[op]), "%s",
                  syn_op_table[op].name);
}

static const test_case cases[] = {
    {"every op has a kernel", test_every_op_has_a_kernel},
    {"steps read each", test_steps_read_each},
    {"steps read at the end", test_steps_read_at_the_end},
    {"a step that differs", test_a_step_that_differs},
    {"a step that needs memory", test_a_step_that_needs_memory},
    {"memory of different sizes", test_memory_of_other_sizes},
    {"a steady step asks for nothing", test_a_steady_step_asks_for_nothing},
    {"numbers beside work", test_async_reads_do_not_stall},
    {"a fault beside work", test_async_reads_report_errors},
    {"times of graphs", test_times_of_graphs},
    {"a fault of a graph in flight", test_a_fault_of_a_graph_in_flight},
};
TEST_MAIN(cases)
