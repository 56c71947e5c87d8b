/* Tests the timeline view: the positions of bars, what is collapsed, and the separate tracks of
 * host and device. */
#include "tests/support/exported.h"
#include "tests/support/graphs.h"
#include "tests/support/picture_check.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "export/picture/picture_modules.h"
#include "syntorch/base/memory.h"

static const syn_export_options timeline = {.view = SYN_VIEW_TIMELINE};
static const syn_export_options unfolded = {.view = SYN_VIEW_TIMELINE, .no_fold = true};

static const syn__pic_box *box(const syn__pic_drawing *d, const char *id) {
    for (size_t i = 0; i < d->n_boxes; i++)
        if (strcmp(d->boxes[i].id, id) == 0) return &d->boxes[i];
    return NULL;
}

static double left(const syn__pic_box *b) {
    return b->x - b->w / 2;
}

/* The total width of the bars whose tooltip begins with `name`. A bar that does not fit on a line
 * of the timeline (a shelf) continues on the next line. */
static double width(const syn__pic_drawing *d, const char *name) {
    double sum = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        if (strncmp(d->boxes[i].tip, name, strlen(name)) == 0) sum += d->boxes[i].w;
    return sum;
}

static int count_text(const syn__pic_drawing *d, const char *part) {
    return count_label(d, SYN__PIC_PLAIN, part);
}

static bool is_bar(const syn__pic_box *b) {
    return b->look >= SYN__PIC_TIME && b->look <= SYN__PIC_TIME_RANGE &&
           strncmp(b->id, "legend", 6) != 0;
}

/* The number of bars that overlap another bar in the same row by more than a line's width. */
static int count_overlaps(const syn__pic_drawing *d) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        for (size_t k = i + 1; k < d->n_boxes; k++) {
            const syn__pic_box *a = &d->boxes[i], *b = &d->boxes[k];
            if (!is_bar(a) || !is_bar(b) || fabs(a->y - b->y) > 1) continue;
            n += fabs(a->x - b->x) < (a->w + b->w) / 2 - 0.4;
        }
    return n;
}

/* ---- Ranks recorded by Syntorch ---- */

/* 3000 and 1000 ns of computation, then 500 ns of communication (sample_graphs.h), so rank 1 waits
 * for 2000 ns. */
static void test_ranks(void) {
    drawn x;
    CHECK(draw(&x, simulated_graph(true, false), &timeline));
    const syn__pic_box *a = box(&x.d, "r0.o1"), *b = box(&x.d, "r1.o1");
    CHECK(a != NULL && b != NULL);
    if (a != NULL && b != NULL) {
        CHECK(fabs(left(a) - left(b)) < 0.01 && a->y < b->y);
    }
    CHECK(fabs(width(&x.d, "work") / width(&x.d, "reduce") - 4) < 0.01);
    CHECK(count_look(&x.d, SYN__PIC_TIME_WAIT) > 0);
    CHECK(x.d.n_edges > 0);
    int red = 0;
    for (size_t i = 0; i < x.d.n_edges; i++) red += x.d.edges[i].line == SYN__PIC_RED;
    CHECK_INT(red, 3); /* the collective, the message, and one bar in the legend */
    drop(&x);
}

/* Checks the totals of the drawn steps, and those of the whole run. */
static void check_sums(const syn__pic_drawing *d) {
    CHECK(count_text(d, "in the drawn steps: compute") > 0);
    CHECK(count_text(d, "all 16 steps take") > 0);
}

/* A training program counts steps from 1, the trace from 0. */
static void test_step_number(void) {
    const syn_attribute step = {"step", SYN_VALUE_I64, 2, 0, NULL};
    static const int32_t ranks[1] = {0};
    syn_graph *g = NULL;
    syn_error err = {0};
    drawn x;
    NEED_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
    NEED_OK(syn_graph_set_meta(g, &step, &err), err);
    for (uint32_t i = 0; i < 2; i++) {
        syn_node n = plain_node(i + 1, i > 0 ? "late" : "early");
        n.step = i;
        n.phase = SYN_PHASE_FORWARD;
        n.start_ns = 100.0 * i;
        n.wall_ns = 50;
        NEED_OK(syn_graph_add_node(g, 0, &n, &err), err);
    }
    CHECK(draw(&x, g, &timeline));
    CHECK(count_text(&x.d, "step 1 ") > 0 && count_text(&x.d, "step 2 ") > 0);
    CHECK_INT(count_text(&x.d, "step 0 "), 0);
    drop(&x);
}

/* If a layer is too narrow for its name, it shows only its number, so that readers can still
 * distinguish layers. */
static void test_narrow_layers(void) {
    static const int32_t ranks[1] = {0};
    char scope[32];
    syn_graph *g = NULL;
    syn_error err = {0};
    drawn x;
    NEED_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
    for (uint32_t i = 0; i < 250; i++) {
        syn_node n = plain_node(i + 1, "work");
        snprintf(scope, sizeof scope, "layers.%u", (unsigned)i);
        n.scope = scope;
        n.start_ns = 100.0 * i;
        n.wall_ns = 100;
        NEED_OK(syn_graph_add_node(g, 0, &n, &err), err);
    }
    CHECK(draw(&x, g, &timeline));
    CHECK(count_label(&x.d, SYN__PIC_TIME_RANGE, ">41<") > 0);
    CHECK_INT(count_label(&x.d, SYN__PIC_TIME_RANGE, ">la\xE2\x80\xA6"), 0);
    drop(&x);
}

/* The line between a rank and the rank above it must not cross out its title. */
static void test_titles_have_a_ground(void) {
    drawn x;
    CHECK(draw(&x, simulated_graph(true, false), &timeline));
    for (size_t i = 0; i < x.d.n_boxes; i++)
        if (strstr(x.d.boxes[i].label, "rank ") != NULL && strstr(x.d.boxes[i].label, "computes"))
            CHECK_HAS(x.d.boxes[i].label, "bgcolor=\"#fafbfc\"");
    CHECK(count_text(&x.d, "wait for other ranks 3.5 \xC2\xB5s") > 0);
    CHECK(count_text(&x.d, "tp0 \xC2\xB7 500 ns") > 0); /* the time does not include wait time */
    drop(&x);
}

static void test_steps_of_a_model(void) {
    const gpt_shape shape = {2, 8, 2, 15, 64, 16, 256};
    drawn x;
    CHECK(draw(&x, gpt_graph(&shape, true), &timeline));
    CHECK_INT(count_overlaps(&x.d), 0);
    CHECK(count_text(&x.d, "prefill") > 0);
    CHECK(count_text(&x.d, "decode 1") > 0 && count_text(&x.d, "decode 2") == 0);
    CHECK(count_text(&x.d, "\xC3\x97"
                           "15 steps") > 0);
    CHECK(count_label(&x.d, SYN__PIC_TIME_RANGE, ">h.1<") > 0);
    check_sums(&x.d);
    drop(&x);
}

/* ---- PyTorch traces ---- */

enum { STEPS = 3 };

static syn_status add(syn_graph *g, syn_node n, int64_t tid, double start_us, int64_t long_us,
                      double own_us, int64_t scope, syn_error *err) {
    const syn_attribute host[] = {{"scope", SYN_VALUE_I64, scope, 0, NULL},
                                  {"tid", SYN_VALUE_I64, tid, 0, NULL},
                                  {"inclusive_dur", SYN_VALUE_I64, long_us, 0, NULL}};
    n.start_ns = 1e3 * start_us;
    n.wall_ns = 1e3 * own_us;
    n.attributes = host;
    n.n_attributes = tid > 0 ? 3 : 0;
    return syn_graph_add_node(g, 0, &n, err);
}

static syn_status add_step(syn_graph *g, int step, syn_error *err) {
    char name[32];
    const uint64_t id = (uint64_t)(10 * step);
    const double at = 100.0 * step;
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    SYN_TRY(add(g, plain_node(id + 1, name), 1, at, 100, 20, 7, err));
    SYN_TRY(add(g, plain_node(id + 2, "## forward ##"), 1, at + 5, 80, 40, 7, err));
    SYN_TRY(add(g, plain_node(id + 3, "aten::linear"), 1, at + 10, 40, 10, 0, err));
    SYN_TRY(add(g, plain_node(id + 4, "aten::addmm"), 1, at + 15, 30, 30, 0, err));
    syn_node kernel = plain_node(id + 5, "void cutlass::sgemm<4, float>(int)"),
             sum = plain_node(id + 6, "ncclDevKernel_AllReduce");
    kernel.stream = 7;
    kernel.category = SYN_CATEGORY_MATMUL;
    SYN_TRY(add(g, kernel, 0, at + 30, 0, 20, 0, err));
    sum.kind = SYN_NODE_COLLECTIVE;
    sum.comm = SYN_COMM_ALL_REDUCE;
    sum.group = 1;
    sum.stream = 8;
    sum.comm_index = (uint32_t)step;
    return add(g, sum, 0, at + 40, 0, 20, 0, err);
}

static syn_graph *recording(void) {
    static const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "default_pg", ranks, 2};
    const syn_attribute source = {"source", SYN_VALUE_TEXT, 0, 0, "pytorch"};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 1, 2, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    NEED_OK(syn_graph_set_meta(g, &source, &err), err);
    for (int k = 1; k <= STEPS; k++) NEED_OK(add_step(g, k, &err), err);
    return g;
}

static void test_recording(void) {
    drawn x;
    CHECK(draw(&x, recording(), &timeline));
    CHECK_INT(count_overlaps(&x.d), 0);
    CHECK(count_text(&x.d, "step 1 \xC2\xB7 100 \xC2\xB5s \xC2\xB7 \xC3\x97"
                           "3 steps") > 0);
    CHECK(count_text(&x.d, "host ops 40 \xC2\xB5s") > 0);
    CHECK(count_text(&x.d, "device compute 20 \xC2\xB5s") > 0);
    CHECK(count_text(&x.d, "communication 20 \xC2\xB5s, 10 \xC2\xB5s overlapped") > 0);
    CHECK(box(&x.d, "r0.o11") == NULL); /* the step has no bar, because the page shows this step */
    CHECK(box(&x.d, "r0.o23") == NULL); /* this op is in the second step, which is collapsed */
    const syn__pic_box *outer = box(&x.d, "r0.o13"), *inner = box(&x.d, "r0.o14"),
                       *kernel = box(&x.d, "r0.o15");
    CHECK(outer != NULL && inner != NULL && kernel != NULL);
    if (outer != NULL && inner != NULL && kernel != NULL) {
        CHECK(outer->y < inner->y && inner->y < kernel->y);
        CHECK(left(outer) < left(inner));
        CHECK_HAS(kernel->label, ">sgemm<");
    }
    CHECK(fabs(width(&x.d, "aten::linear") / width(&x.d, "aten::addmm") - 4.0 / 3) < 0.01);
    CHECK(fabs(width(&x.d, "aten::linear") / width(&x.d, "void cutlass") - 2) < 0.01);
    CHECK(count_label(&x.d, SYN__PIC_TIME_RANGE, ">forward<") > 0);
    drop(&x);
    CHECK(draw(&x, recording(), &unfolded));
    CHECK(box(&x.d, "r0.o23") != NULL && box(&x.d, "r0.o33") != NULL);
    drop(&x);
}

/* ---- Modules ---- */

/* A call on the host, or device work that it launched. */
typedef struct call {
    const char *name, *module; /* module NULL: device work or communication */
    double start_us, own_us;
    int launched_by, after; /* indices of nodes; -1: none */
    bool reduces;
} call;

static syn_status add_call(syn_graph *g, uint64_t id, const call *c, syn_error *err) {
    syn_dep deps[2];
    syn_node n = plain_node(id, c->name);
    const syn_attribute host[] = {{"tid", SYN_VALUE_I64, 1, 0, NULL},
                                  {"inclusive_dur", SYN_VALUE_I64, (int64_t)c->own_us, 0, NULL},
                                  {"scope", SYN_VALUE_I64, 0, 0, NULL},
                                  {"module", SYN_VALUE_TEXT, 0, 0, c->module}};
    n.start_ns = 1e3 * c->start_us;
    n.wall_ns = 1e3 * c->own_us;
    n.attributes = host;
    n.n_attributes = c->module != NULL ? 4 : 0;
    if (c->launched_by >= 0) deps[n.n_deps++] = (syn_dep){(uint32_t)c->launched_by, SYN_DEP_LAUNCH};
    if (c->after >= 0) deps[n.n_deps++] = (syn_dep){(uint32_t)c->after, SYN_DEP_DATA};
    n.deps = deps;
    n.stream = c->module != NULL ? 0 : c->reduces ? 8 : 7;
    if (c->launched_by >= 0) n.category = SYN_CATEGORY_MATMUL;
    if (c->reduces) {
        n.kind = SYN_NODE_COLLECTIVE;
        n.comm = SYN_COMM_ALL_REDUCE;
        n.group = 1;
    }
    return syn_graph_add_node(g, 0, &n, err);
}

static const call calls[] = {{"aten::linear", "Net_0/Linear_0", 10, 5, -1, -1, false},
                             {"aten::addmm", "Net_0/Linear_0", 16, 3, -1, 0, false},
                             {"gemm", NULL, 20, 8, 1, -1, false},
                             {"aten::linear", "Net_0/Linear_1", 30, 10, -1, 1, false},
                             {"gemm", NULL, 40, 16, 3, 2, false},
                             {"nccl", NULL, 58, 20, -1, 4, true},
                             {"aten::relu", "Net_0/ReLU_0", 45, 5, -1, 3, false},
                             {"relu", NULL, 60, 4, 6, 4, false}};

/* The calls of a module become one node, whose time is that of the work they launched. Computation
 * that runs at the same time as communication does not wait for it. */
static void test_modules(void) {
    static const struct {
        const char *label;
        double us;
        int deps[2]; /* indices of nodes; -1: none */
    } want[] = {{"Linear", 8, {-1, -1}},
                {"Linear", 16, {0, -1}},
                {"all_reduce", 20, {1, -1}},
                {"ReLU", 4, {1, -1}}};
    const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "default_pg", ranks, 2};
    const syn_attribute source = {"source", SYN_VALUE_TEXT, 0, 0, "pytorch"};
    static const syn_export_options graph_view = {.view = SYN_VIEW_GRAPH};
    syn_graph *g = NULL, *modules = NULL;
    syn__pic_drawing names = {0};
    syn_cursor cursor = {0};
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 1, 2, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    NEED_OK(syn_graph_set_meta(g, &source, &err), err);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        NEED_OK(add_call(g, i + 1, &calls[i], &err), err);
    NEED_OK(syn__pic_modules(&modules, g, 0, &names, &err), err);
    CHECK_INT(modules->ranks[0].n_nodes, 4);
    for (uint32_t i = 0; i < 4 && i < modules->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(modules, 0, i, &cursor);
        CHECK_STR(n->label, want[i].label);
        CHECK(fabs(n->wall_ns - 1e3 * want[i].us) < 1);
        CHECK_INT(n->n_deps, want[i].deps[0] >= 0);
        if (n->n_deps > 0) CHECK_INT(n->deps[0].node, want[i].deps[0]);
        CHECK((n->kind == SYN_NODE_COLLECTIVE) == (i == 2));
        CHECK((n->category == SYN_CATEGORY_MATMUL) == (i != 2));
    }
    syn_cursor_free(&cursor);
    syn_graph_free(modules);
    char *dot = export_text(&syn_export_dot, g, &graph_view);
    CHECK_HAS(dot, "all_reduce");
    CHECK_HAS(dot, "Linear");
    CHECK_HAS(dot, "of the device");
    CHECK(strstr(dot, "addmm") == NULL || strstr(dot, "Linear") < strstr(dot, "addmm"));
    free(dot);
    for (uint64_t n = 0;; n++) {
        err = (syn_error){0};
        syn_memory_fail_after(n);
        const syn_status s = syn__pic_modules(&modules, g, 0, &names, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (s == SYN_OK) break;
        CHECK(s == SYN_E_NOMEM && modules == NULL && n < 3000);
    }
    syn_graph_free(modules);
    syn__pic_drawing_free(&names);
    syn_graph_free(g);
}

/* A host call of a training step on CPUs. scope 7: the call is a range. seq: autograd's sequence
 * number; -1: none. */
typedef struct host_call {
    const char *name;
    int64_t tid, start_us, long_us, scope, seq;
} host_call;

static syn_graph *host_recording(const host_call *at, size_t n) {
    static const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "default_pg", ranks, 2};
    const syn_attribute source = {"source", SYN_VALUE_TEXT, 0, 0, "pytorch"};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 1, 2, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    NEED_OK(syn_graph_set_meta(g, &source, &err), err);
    for (size_t i = 0; i < n; i++) {
        syn_node node = plain_node(i + 1, at[i].name);
        const syn_dep before = {(uint32_t)i - 1, SYN_DEP_DATA};
        const syn_attribute host[] = {{"tid", SYN_VALUE_I64, at[i].tid, 0, NULL},
                                      {"inclusive_dur", SYN_VALUE_I64, at[i].long_us, 0, NULL},
                                      {"scope", SYN_VALUE_I64, at[i].scope, 0, NULL},
                                      {"seq_id", SYN_VALUE_I64, at[i].seq, 0, NULL}};
        node.start_ns = 1e3 * (double)at[i].start_us;
        node.wall_ns = 1e3 * (double)at[i].long_us;
        node.attributes = host;
        node.n_attributes = 4;
        if (i > 0) node.deps = &before, node.n_deps = 1;
        if (strncmp(at[i].name, "gloo:", 5) == 0) {
            node.kind = SYN_NODE_COLLECTIVE;
            node.comm = SYN_COMM_ALL_REDUCE;
            node.group = 1;
        }
        NEED_OK(syn_graph_add_node(g, 0, &node, &err), err);
    }
    return g;
}

/* Checks the phases and labels of the trace's boxes, in the form "forward ones, forward linear,
 * ...". */
static void check_phases(const host_call *calls_made, size_t n, const char *want) {
    char text[1024] = "";
    syn_graph *g = host_recording(calls_made, n), *modules = NULL;
    syn__pic_drawing names = {0};
    syn_cursor cursor = {0};
    syn_error err = {0};
    NEED_OK(syn__pic_modules(&modules, g, 0, &names, &err), err);
    for (uint32_t i = 0; i < modules->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(modules, 0, i, &cursor);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %s", i > 0 ? ", " : "",
                 syn_phase_name(node->phase), node->label);
    }
    CHECK_STR(text, want);
    syn_cursor_free(&cursor);
    syn_graph_free(modules);
    syn__pic_drawing_free(&names);
    syn_graph_free(g);
}

#define EVALUATE "autograd::engine::evaluate_function: "

/* DDP copies the sums back after autograd's last call, on the thread that called backward. The loss
 * is read after the optimizer. */
static void test_phases(void) {
    static const host_call step[] = {
        {"Optimizer.zero_grad#SGD.zero_grad", 1, 0, 5, 7, -1},
        {"aten::ones", 1, 10, 5, 0, -1},
        {"DistributedDataParallel.forward", 1, 20, 10, 7, -1},
        {"aten::linear", 1, 21, 5, 0, 15},
        {"aten::ones_like", 1, 40, 5, 0, -1},
        {EVALUATE "AddmmBackward0", 1, 50, 5, 0, -1},
        {EVALUATE "torch::autograd::AccumulateGrad", 1, 60, 20, 0, -1},
        {"gloo:all_reduce", 1, 61, 10, 0, -1},
        {"aten::as_strided", 1, 100, 5, 0, -1},
        {"torch.distributed.ddp.reducer::copy_bucket_to_grad", 1, 110, 5, 0, -1},
        {"aten::clip", 1, 116, 2, 0, -1},
        {"Optimizer.step#SGD.step", 1, 120, 10, 7, -1},
        {"aten::add_", 1, 121, 5, 0, -1},
        {"aten::item", 1, 140, 5, 0, 16}};
    check_phases(step, sizeof step / sizeof *step,
                 "forward ones, forward DistributedDataParallel, forward ones_like, "
                 "backward backward, backward all_reduce, backward backward, optimizer clip, "
                 "optimizer SGD.step, optimizer item");
    static const syn_export_options graph_view = {.view = SYN_VIEW_GRAPH};
    syn_graph *g = host_recording(step, sizeof step / sizeof *step);
    char *dot = export_text(&syn_export_dot, g, &graph_view);
    /* In order of time, without the beginning that all names share. */
    CHECK_HAS(dot, "AccumulateGrad, Addmm");
    CHECK(strstr(dot, "AddmmBackward") == NULL);
    free(dot);
    syn_graph_free(g);
}

/* The gradients of two microbatches are accumulated, so there are two passes. Autograd has a
 * separate thread, whose calls all belong to backward. */
static void test_two_passes(void) {
    static const host_call step[] = {{"aten::linear", 1, 0, 5, 0, 1},
                                     {EVALUATE "AddmmBackward0", 2, 10, 5, 0, -1},
                                     {"c10d::allreduce_", 2, 16, 3, 0, 7},
                                     {EVALUATE "TBackward0", 2, 20, 5, 0, -1},
                                     {"aten::rand", 1, 30, 5, 0, -1},
                                     {"aten::linear", 1, 40, 5, 0, 2},
                                     {EVALUATE "AddmmBackward0", 2, 50, 5, 0, -1}};
    check_phases(step, sizeof step / sizeof *step,
                 "forward linear, backward backward, forward rand, forward linear, "
                 "backward backward");
}

/* Communication inside a call of its own thread overlaps with nothing. Computation of another
 * thread during that time overlaps with it. */
static void test_side_by_side(void) {
    static const host_call step[] = {{EVALUATE "AccumulateGrad", 1, 0, 100, 0, -1},
                                     {"gloo:all_reduce", 1, 20, 40, 0, -1},
                                     {"aten::mul", 2, 50, 30, 0, -1}};
    drawn x;
    CHECK(draw(&x, host_recording(step, 2), &timeline));
    CHECK(count_text(&x.d, "communication 40 \xC2\xB5s, not overlapped") > 0);
    drop(&x);
    CHECK(draw(&x, host_recording(step, 3), &timeline));
    CHECK(count_text(&x.d, "communication 40 \xC2\xB5s, 10 \xC2\xB5s overlapped") > 0);
    drop(&x);
}

/* Most of the run is a single wait. It gets little width, so that the work before and after it gets
 * enough. */
static void test_cut_short(void) {
    enum { CALLS = 50 };
    host_call step[CALLS];
    drawn x;
    for (int i = 0; i < CALLS; i++)
        step[i] = (host_call){"aten::add", 1, 10 * i + (i < 25 ? 0 : 100000), 10, 0, -1};
    CHECK(draw(&x, host_recording(step, CALLS), &timeline));
    CHECK(count_text(&x.d, "\xE2\x8B\xAF"
                           "100 ms\xE2\x8B\xAF") > 0);
    CHECK(width(&x.d, "aten::add") > 900);
    drop(&x);
    CHECK(draw(&x, host_recording(step, 25), &timeline));
    CHECK_INT(count_text(&x.d, "\xE2\x8B\xAF"), 0);
    drop(&x);
}

/* PyTorch traces are drawn as timelines, unless the graph view is requested. */
static void test_views(void) {
    static const syn_export_options plain, graph_view = {.view = SYN_VIEW_GRAPH};
    syn_graph *g = recording(), *own = simulated_graph(true, false);
    char *first = export_text(&syn_export_dot, g, &plain),
         *asked = export_text(&syn_export_dot, g, &timeline),
         *graph = export_text(&syn_export_dot, g, &graph_view),
         *ours = export_text(&syn_export_dot, own, &plain);
    CHECK(strcmp(first, asked) == 0);
    CHECK_HAS(first, "Timeline of rank 0 of 2");
    CHECK(strstr(graph, "Timeline") == NULL && strstr(ours, "Timeline") == NULL);
    free(first);
    free(asked);
    free(graph);
    free(ours);
    syn_graph_free(g);
    syn_graph_free(own);
}

static void test_no_memory(void) {
    syn_graph *g = recording();
    uint64_t n = 0;
    syn_status s = SYN_E_NOMEM;
    for (; s != SYN_OK && n < 5000; n++) {
        syn__pic_drawing d = {0};
        syn_error err = {0};
        syn_memory_fail_after(n);
        s = syn__pic_time_view(&d, g, &timeline, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(s == SYN_OK || s == SYN_E_NOMEM);
        syn__pic_drawing_free(&d);
    }
    CHECK(s == SYN_OK && n > 10);
    syn_graph_free(g);
}

static void test_odd(void) {
    drawn x;
    CHECK(draw(&x, picture_flat(3000), &timeline)); /* this graph has no times */
    CHECK_INT(count_overlaps(&x.d), 0);
    CHECK(count_text(&x.d, "no times") > 0);
    drop(&x);
    CHECK(draw(&x, full_graph(), &timeline));
    drop(&x);
    CHECK(draw(&x, picture_flat(0), &timeline));
    drop(&x);
}

static const test_case cases[] = {{"ranks", test_ranks},
                                  {"steps_of_a_model", test_steps_of_a_model},
                                  {"recording", test_recording},
                                  {"views", test_views},
                                  {"no_memory", test_no_memory},
                                  {"odd", test_odd},
                                  {"modules", test_modules},
                                  {"phases", test_phases},
                                  {"two_passes", test_two_passes},
                                  {"step_number", test_step_number},
                                  {"narrow_layers", test_narrow_layers},
                                  {"titles_have_a_ground", test_titles_have_a_ground},
                                  {"beside", test_side_by_side},
                                  {"cut_short", test_cut_short}};
TEST_MAIN(cases)
