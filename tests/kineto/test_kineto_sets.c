/* Tests trace sets of whole runs in PyTorch's format. test_kineto_files.py reads the sets that this
   program writes to $SYN_TEST_OUT and compares them with the execution traces in the same
   folder. */
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/base/clock.h"
#include "syntorch/gradient.h"
#include "syntorch/hardware/hardware.h"
#include "syntorch/mesh.h"
#include "tests/support/exported.h"
#include "tests/support/gpt_graph.h"
#include "tests/support/ops_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

static const syn_export_options all_asked = {.profile_memory = true, .with_stack = true};

static void save_set(const syn_graph *graph, const syn_export_options *how, const char *name) {
    const char *folder = getenv("SYN_TEST_OUT");
    char prefix[512];
    syn_error err = {0};
    if (folder == NULL) return;
    snprintf(prefix, sizeof prefix, "%s/%s", folder, name);
    CHECK_OK(syn_export_kineto_set(graph, how, prefix, &err), err);
    if (can_export(&syn_export_et)) CHECK_OK(syn_export_et_set(graph, NULL, prefix, &err), err);
}

/* ---- Training steps ---- */

enum { BATCH = 4, TOKENS = 8, MOST = 4 };

typedef struct job {
    const syn_model_config *config;
    syn_plan shape;
    syn_device device;
    bool recompute;
    int passes; /* number of microbatches per step */
    syn_ctx *kept[MOST];
} job;

static syn_tensor loss_of(const job *j, syn_model *m) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_spec spec = {SYN_I32, 2, {BATCH, TOKENS}}, one = {SYN_F32, 0, {0}};
    int32_t ids[BATCH * TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++) ids[i] = (i * 37 + syn_ctx_rank(ctx)) % 100;
    const syn_tensor tokens = syn_input(ctx, "tokens", &spec, ids);
    const syn_tensor targets = syn_input(ctx, "targets", &spec, ids);
    const syn_tensor weight = syn_input(ctx, "weight", &one, &(float){1.0f / (BATCH * TOKENS)});
    if (j->config == &small_gpt) return syn_causal_loss(m, tokens, targets, weight);
    const syn_tensor hidden = syn_bert_forward(m, tokens, SYN_BERT_NO_TYPES, SYN_NO_MASK);
    return syn_bert_mlm_loss(m, hidden, targets, weight);
}

/* Runs two steps: forward, backward with all-reduces of buckets, the optimizer, and the all-reduce
   of the loss. */
static syn_status steps(const job *j, syn_model *m, const syn_mesh *mesh,
                        syn_data_parallel *parallel, syn_optimizer *optimizer, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(m);
    for (int t = 0; t < 2; t++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        syn_tensor loss = {0};
        for (int pass = 1; pass <= j->passes; pass++) {
            syn_data_parallel_sync(parallel, pass == j->passes);
            loss = loss_of(j, m);
            syn_backward(ctx, loss);
        }
        SYN_TRY(syn_data_parallel_check(parallel, err));
        SYN_TRY(syn_optimizer_step(optimizer, 0.001, err));
        if (mesh->group[SYN_AXIS_DP] != NULL)
            syn_all_reduce(ctx, loss, SYN_REDUCE_SUM, mesh->group[SYN_AXIS_DP]);
        if (syn_ctx_has_data(ctx)) SYN_TRY(syn_tensor_read(ctx, loss, &(float){0}, sizeof(float)));
        syn_release(ctx, mark, NULL, 0);
        syn_next_step(ctx);
    }
    SYN_TRY(syn_ctx_sync(ctx));
    return syn_ctx_check(ctx, err);
}

static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    job *j = arg;
    syn_mesh mesh;
    syn_model *m = NULL;
    syn_data_parallel *parallel = NULL;
    syn_optimizer *optimizer = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &j->shape, err));
    const syn_model_options options = {.tp = mesh.group[SYN_AXIS_TP],
                                       .heads = SYN_BERT_MLM,
                                       .recompute =
                                           j->recompute ? SYN_RECOMPUTE_FULL : SYN_RECOMPUTE_NONE};
    const syn_optimizer_options how = {.max_grad_norm = 1, .tp = options.tp};
    SYN_TRY(syn_ctx_new(&j->kept[comm->rank], j->device, comm, err));
    syn_ctx *ctx = j->kept[comm->rank];
    syn_ctx_set_overlap(ctx, true);
    syn_ctx_record_work(ctx, true);
    syn_status s = syn_model_new(&m, ctx, j->config, &options, err);
    if (s == SYN_OK)
        s = syn_data_parallel_new(&parallel, ctx,
                                  &(syn_data_parallel_options){.dp = mesh.group[SYN_AXIS_DP]}, err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &how, err);
    if (s == SYN_OK) s = steps(j, m, &mesh, parallel, optimizer, err);
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    syn_model_free(m);
    return s;
}

/* ---- A simulated device ---- */

enum { CALL_NS = 3000, MAX_STREAMS = 64, COMPUTE = 7, FIRST_GROUP = 20 };

typedef struct made_up {
    uint64_t *end_ns; /* for each node, the time at which it finishes on the device */
    uint64_t now_ns, free_ns[MAX_STREAMS];
} made_up;

/* Adds simulated device work for a node. The node's call launches a kernel, and for every third
   node a fill before the kernel. Both wait for their stream and for the node's dependencies. A
   communication waits for everything that was launched before it. */
static void invent_node(made_up *m, syn_ctx *ctx, uint32_t index, const syn_node *node) {
    const bool comm = node->kind != SYN_NODE_COMPUTE;
    const uint32_t stream =
        comm ? FIRST_GROUP + node->group % (MAX_STREAMS - FIRST_GROUP) : COMPUTE;
    syn_piece pieces[2] = {{.kind = SYN_PIECE_FILL, .bytes = 64},
                           {.grid = {7, 2, 1}, .block = {128, 1, 1}, .bytes = 48}};
    const char *const names[2] = {NULL, comm ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL" : "made"};
    const int n = !comm && index % 3 == 0 ? 2 : 1;
    uint64_t start = m->now_ns + CALL_NS / 2;
    for (uint32_t d = 0; d < node->n_deps; d++)
        if (m->end_ns[node->deps[d].node] > start) start = m->end_ns[node->deps[d].node];
    if (m->free_ns[stream] > start) start = m->free_ns[stream];
    if (comm && m->free_ns[COMPUTE] > start) start = m->free_ns[COMPUTE];
    for (int i = 2 - n; i < 2; i++) {
        pieces[i].stream = stream;
        pieces[i].call_ns = m->now_ns + 100 + 1000 * (uint64_t)i;
        pieces[i].call_wall_ns = 900;
        pieces[i].start_ns = start;
        pieces[i].wall_ns = comm ? 9000 : 2000;
        start += pieces[i].wall_ns;
    }
    m->free_ns[stream] = m->end_ns[index] = start;
    const syn_node_work work = {.node = (uint32_t)node->id,
                                .n_pieces = (uint32_t)n,
                                .call_ns = m->now_ns,
                                .call_wall_ns = CALL_NS};
    syn_ctx_add_work(ctx, &work, pieces + 2 - n, names + 2 - n);
    m->now_ns += CALL_NS + 500;
}

/* Adds the work between two steps: the host reads a result, waits for it, and copies the next
   samples to the device. */
static void invent_unowned(made_up *m, syn_ctx *ctx, uint32_t after) {
    syn_unowned_piece b = {after, {.kind = SYN_PIECE_COPY_OUT, .bytes = 4, .stream = COMPUTE}};
    for (int i = 0; i < 3; i++, m->now_ns += 500) {
        b.piece.call_ns = b.piece.start_ns = m->now_ns;
        b.piece.call_wall_ns = 400;
        if (i == 2) b.piece.kind = SYN_PIECE_COPY_IN, b.piece.bytes = 128;
        if (m->free_ns[COMPUTE] > b.piece.start_ns) b.piece.start_ns = m->free_ns[COMPUTE];
        b.piece.wall_ns = 300;
        if (i == 1) {
            b.piece.kind = SYN_PIECE_WAIT;
            b.piece.start_ns = b.piece.call_ns;
            m->now_ns = b.piece.start_ns + 100;
            if (m->free_ns[COMPUTE] > m->now_ns) m->now_ns = m->free_ns[COMPUTE];
            b.piece.wall_ns = b.piece.call_wall_ns = m->now_ns - b.piece.start_ns;
        } else {
            m->free_ns[COMPUTE] = b.piece.start_ns + b.piece.wall_ns;
        }
        syn_ctx_add_unowned_work(ctx, &b);
    }
}

static void invent_work(syn_ctx *ctx) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_cursor cursor = {0};
    syn_graph *graph = NULL;
    syn_error err = {0};
    NEED_OK(syn_trace_graph(&graph, &trace, 1, NULL, &err), err);
    const uint32_t n = graph->ranks[0].n_nodes;
    made_up m = {.end_ns = calloc(n, sizeof *m.end_ns), .now_ns = syn__clock_ns()};
    uint32_t step = UINT32_MAX, newest = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (node->step != step) invent_unowned(&m, ctx, newest);
        step = node->step;
        newest = (uint32_t)node->id;
        if (node->flags &
            SYN_NODE_VIRTUAL) { /* without work, so it finishes with its dependencies */
            for (uint32_t d = 0; d < node->n_deps; d++)
                if (m.end_ns[node->deps[d].node] > m.end_ns[i])
                    m.end_ns[i] = m.end_ns[node->deps[d].node];
        } else {
            invent_node(&m, ctx, i, node);
        }
    }
    invent_unowned(&m, ctx, newest);
    free(m.end_ns);
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    CHECK_INT(syn_ctx_status(ctx), SYN_OK);
}

/* Records two steps and writes them as the trace set `name`. If hw is NULL there are only measured
   times, otherwise also predicted ones. */
static void save_steps(const syn_model_config *config, int tp, int dp, syn_device device,
                       bool recompute, const syn_hardware *hw, const syn_export_options *how,
                       const char *name) {
    job j = {.config = config,
             .shape = {.tp = tp, .dp = dp},
             .device = device,
             .recompute = recompute,
             .passes = device == SYN_DEVICE_CPU && dp > 1 ? 2 : 1};
    const syn_trace *traces[MOST];
    syn_graph *graph = NULL;
    syn_error err = {0};
    const bool threads = device == SYN_DEVICE_CPU;
    CHECK_OK((threads ? syn_local_run : run_without_transport)(tp * dp, train, &j, &err), err);
    for (int r = 0; r < tp * dp && test_failures == 0; r++) traces[r] = syn_ctx_trace(j.kept[r]);
    if (test_failures == 0) {
        for (int r = 0; r < tp * dp && strstr(name, "device"); r++) invent_work(j.kept[r]);
        CHECK_OK(syn_trace_graph(&graph, traces, (uint32_t)(tp * dp), hw, &err), err);
        save_set(graph, how, name);
    }
    syn_graph_free(graph);
    drop_ranks(tp * dp, j.kept);
}

static void training_sets(void) {
    syn_hardware gpu, cpu;
    syn_error err = {0};
    NEED_OK(syn_hardware_load(&gpu, "a100-80g", NULL, &err), err);
    NEED_OK(syn_hardware_load(&cpu, "cpu", NULL, &err), err);
    save_steps(&small_gpt, 1, 1, SYN_DEVICE_CPU, false, NULL, &all_asked, "alone");
    save_steps(&small_gpt, 1, 2, SYN_DEVICE_CPU, false, NULL, NULL, "measured");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_CPU, false, NULL, &all_asked, "measured_tp");
    save_steps(&small_gpt, 1, 1, SYN_DEVICE_CPU, false, NULL, NULL, "device_alone");
    save_steps(&small_gpt, 1, 2, SYN_DEVICE_CPU, false, NULL, NULL, "device");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_CPU, false, NULL, &all_asked, "device_tp");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_META, false, &cpu, NULL, "predicted");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_META, false, &gpu, NULL, "gpu_predicted");
    save_steps(&small_bert, 2, 1, SYN_DEVICE_META, true, &gpu, &all_asked, "gpu_bert");
    save_steps(&small_bert, 1, 4, SYN_DEVICE_META, false, NULL, NULL, "order");
}

/* Checks that every node that runs on the device has device work. */
static void check_known(const syn_graph *graph, uint32_t rank) {
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, rank, i, &cursor);
        CHECK_MSG((syn_graph_work(graph, rank, node) != NULL) == !(node->flags & SYN_NODE_VIRTUAL),
                  "node %u: %s", (unsigned)i, node->op);
    }
    syn_cursor_free(&cursor);
}

/* Checks that the rows recorded on CUDA devices equal those recorded on the CPU. */
static void cuda_steps(int tp, int dp, const char *name) {
    uint64_t hash[2][MOST];
    for (int cuda = 0; cuda < 2; cuda++) {
        job j = {.config = &small_gpt,
                 .shape = {.tp = tp, .dp = dp},
                 .device = cuda ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU,
                 .passes = 1};
        const syn_trace *traces[MOST];
        syn_graph *graph = NULL;
        syn_error err = {0};
        NEED_OK(syn_local_run(tp * dp, train, &j, &err), err);
        for (int r = 0; r < tp * dp; r++) {
            traces[r] = syn_ctx_trace(j.kept[r]);
            hash[cuda][r] = syn_trace_hash(traces[r]);
        }
        NEED_OK(syn_trace_graph(&graph, traces, (uint32_t)(tp * dp), NULL, &err), err);
        for (int r = 0; cuda && r < tp * dp; r++) check_known(graph, (uint32_t)r);
        if (cuda) save_set(graph, &all_asked, name);
        syn_graph_free(graph);
        drop_ranks(tp * dp, j.kept);
    }
    for (int r = 0; r < tp * dp; r++) CHECK(hash[0][r] == hash[1][r]);
}

static void cuda_set(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    const char *devices = getenv("SYN_EMULATED_DEVICES");
    cuda_steps(1, 1, "cuda");
    if (devices && atoi(devices) >= 4) cuda_steps(2, 2, "cuda_tp");
}

static void inference_set(void) {
    syn_graph *graph = small_gpt_graph();
    save_set(graph, &all_asked, "gpu_inference");
    syn_graph_free(graph);
}

static const test_case cases[] = {
    {"inference_set", inference_set},
    {"training_sets", training_sets},
    {"cuda_set", cuda_set},
};
TEST_MAIN(cases)
