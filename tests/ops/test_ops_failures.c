/* Out-of-memory tests: each allocation of whole runs fails once. The runs are a small GPT on both
   devices, its graph, and collectives of ranks that are threads. Each failure must give one clear
   error and a valid trace, and the leak checker must find no lost memory. */
#include "comm/comm.h"
#include "models/generate.h"
#include "models/layers.h"
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/gradient.h"
#include "tests/support/ops_reference.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

typedef struct run {
    syn_device device;
    int ranks;
    bool fused;
} run;

/* Everything that a program does on one rank, in order. */
static syn_status generate(const run *r, syn_comm *comm, const syn_group *tp, syn_ctx **ctx,
                           syn_graph **graph, syn_error *err) {
    static const int32_t prompt[6] = {1, 2, 3, 4, 5, 6};
    const syn_model_options options = {.tp = tp, .fused_attention = r->fused, .seed = 1};
    syn_generation g = {.batch = 2,
                        .prompt_tokens = 3,
                        .new_tokens = 3,
                        .prompt = prompt,
                        .sampling = {1.0, 5, 0.9, 1, 0},
                        .want_logits = true};
    syn_model *gpt = NULL;
    SYN_TRY(syn_ctx_new(ctx, r->device, comm, err));
    SYN_TRY(syn_model_new(&gpt, *ctx, &small_gpt, &options, err));
    syn_status s = syn_generate(gpt, &g, err);
    syn_free(g.tokens);
    syn_free(g.logits);
    syn_model_free(gpt);
    if (s != SYN_OK) return s;
    const syn_trace *t = syn_ctx_trace(*ctx);
    SYN_TRY(syn_trace_graph(graph, &t, 1, NULL, err));
    return syn_graph_verify(*graph, err);
}

static void fail_everywhere(const run *r) {
    bool done = false;
    uint64_t n = 0;
    for (; !done; n++) {
        syn_error err = {0}, setup = {0};
        syn_comm *comm = NULL;
        syn_group *group = NULL;
        syn_ctx *ctx = NULL;
        syn_graph *graph = NULL;
        const int32_t ranks[2] = {0, 1};
        if (r->ranks > 1) {
            CHECK_OK(syn_comm_fake_new(&comm, 1, r->ranks, &setup), setup);
            CHECK_OK(syn_comm_open_group(comm, 1, "tp0", ranks, r->ranks, &group, &setup), setup);
        }
        syn_memory_fail_after(n);
        const syn_status s = generate(r, comm, group, &ctx, &graph, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        done = s == SYN_OK;
        if (!done) {
            CHECK_MSG(s == SYN_E_NOMEM && err.code == SYN_E_NOMEM, "allocation %llu: %d, %s",
                      (unsigned long long)n, (int)s, err.text);
            CHECK_HAS(err.text, "out of memory");
            CHECK(!graph || syn_graph_verify(graph, &setup) == SYN_OK);
        }
        if (ctx) CHECK_OK(syn_trace_verify(syn_ctx_trace(ctx), &setup), setup);
        syn_graph_free(graph);
        syn_ctx_free(ctx);
        syn_comm_close(comm);
        CHECK(n < 5000);
    }
    CHECK_MSG(n > 20, "only %llu allocations were tried", (unsigned long long)n);
}

static void test_meta(void) {
    fail_everywhere(&(run){SYN_DEVICE_META, 1, false});
}

static void test_meta_ranks(void) {
    fail_everywhere(&(run){SYN_DEVICE_META, 2, true});
}

static void test_cpu(void) {
    fail_everywhere(&(run){SYN_DEVICE_CPU, 1, false});
}

static void test_cpu_fused(void) {
    fail_everywhere(&(run){SYN_DEVICE_CPU, 1, true});
}

/* If dispatch runs out of memory, the error also names the op and the scope. */
static void test_sentence(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 300, 300);
    syn_push_scope(ctx, "h.7.mlp");
    syn_gelu(ctx, x, true); /* warm-up, which interns names and allocates rows */
    if (ref_on_cuda()) SKIP("the memory is the device's");
    syn_memory_fail_after(0);
    CHECK_INT(syn_gelu(ctx, x, true).id, 0);
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK_HAS(syn_ctx_error(ctx)->text,
              "gelu in h.7.mlp: out of memory: 360000 bytes for a tensor");
    CHECK_INT(syn_ctx_trace(ctx)->n_nodes, 2);
    syn_ctx_free(ctx);
}

/* The ranks are threads. If any allocation of any rank fails, all ranks must end. */
static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    const int32_t ranks[2] = {0, 1};
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "tp0", ranks, 2, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_tensor x = ZEROS(ctx, SYN_F32, 4, 6);
    x = syn_all_gather(ctx, x, 1, group);
    x = syn_reduce_scatter(ctx, x, SYN_REDUCE_SUM, 1, group);
    x = syn_all_reduce(ctx, syn_gelu(ctx, x, true), SYN_REDUCE_SUM, group);
    syn_send(ctx, x, 1 - comm->rank, 0);
    syn_recv(ctx, syn_tensor_spec(ctx, x), 1 - comm->rank, 0);
    syn_broadcast(ctx, x, 1, group);
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

/* Two training steps as in examples/train_mlp.c. Some gradients are all-reduced while others are
   still being computed. */
static syn_status train(syn_ctx *ctx, const syn_group *dp, syn_error *err) {
    const syn_spec xs = {SYN_F32, 2, {3, 4}}, ys = {SYN_I32, 1, {3}};
    const syn_initializer init = {.std = 0.1, .seed = 1};
    const syn_layer_linear fc = syn_column_linear_new(ctx, "fc", 4, 5, 1, &init, NULL);
    const syn_layer_norm norm = syn_layer_norm_new(ctx, "norm", 5, true, SYN_F32);
    syn_data_parallel *parallel = NULL;
    syn_optimizer *optimizer = NULL;
    syn_status s =
        syn_data_parallel_new(&parallel, ctx, &(syn_data_parallel_options){.dp = dp}, err);
    if (s == SYN_OK)
        s = syn_optimizer_new(&optimizer, ctx, &(syn_optimizer_options){.max_grad_norm = 1}, err);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int step = 0; step < 2 && s == SYN_OK; step++) {
        syn_tensor x = syn_column_linear(ctx, syn_input(ctx, "x", &xs, NULL), &fc, false, NULL, "");
        x = syn_layernorm(ctx, syn_gelu(ctx, x, true), syn_current_version(ctx, norm.weight),
                          syn_current_version(ctx, norm.bias), 1e-5);
        s = syn_backward(ctx,
                         syn_cross_entropy(ctx, x, syn_input(ctx, "y", &ys, NULL), SYN_MEAN, 5));
        if (s == SYN_OK) s = syn_data_parallel_check(parallel, err);
        if (s == SYN_OK) s = syn_optimizer_step(optimizer, 0.01, err);
        if (s == SYN_OK) syn_forget(ctx, mark, NULL, 0);
    }
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    return s == SYN_OK ? syn_ctx_check(ctx, err) : (syn_ctx_check(ctx, err), s);
}

static syn_status train_alone(void *device, syn_error *err) {
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, *(const syn_device *)device, NULL, err));
    const syn_status s = train(ctx, NULL, err);
    syn_ctx_free(ctx);
    return s;
}

static void test_training(void) {
    for (syn_device device = SYN_DEVICE_CPU; device <= SYN_DEVICE_META; device++)
        CHECK(test_without_memory(train_alone, &device) > 50);
}

static syn_status train_main(syn_comm *comm, void *arg, syn_error *err) {
    const int32_t ranks[2] = {0, 1};
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    (void)arg;
    SYN_TRY(syn_comm_open_group(comm, 1, "dp0", ranks, 2, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, true);
    const syn_status s = train(ctx, group, err);
    syn_ctx_free(ctx);
    return s;
}

static syn_status train_together(void *unused, syn_error *err) {
    return syn_local_run(2, train_main, unused, err);
}

static void test_training_world(void) {
    CHECK(test_without_memory(train_together, NULL) > 100);
}

static syn_status run_world(void *unused, syn_error *err) {
    return syn_local_run(2, rank_main, unused, err);
}

static void test_world(void) {
    CHECK(test_without_memory(run_world, NULL) > 0);
}

static const test_case cases[] = {
    {"meta", test_meta},         {"meta, ranks", test_meta_ranks},
    {"cpu", test_cpu},           {"cpu, fused", test_cpu_fused},
    {"sentence", test_sentence}, {"world", test_world},
    {"training", test_training}, {"training world", test_training_world},
};
TEST_MAIN(cases)
