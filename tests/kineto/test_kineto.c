/* What stands for PyTorch's recordings: names and arguments of calls, order and nesting, memory and
   sums by hand. test_kineto_files.py reads the sets that this program leaves in $SYN_TEST_OUT, and
   compares them with the execution traces beside them. */
#include "export/kineto/kineto_modules.h"
#include "models/data_parallel.h"
#include "models/optimizer.h"
#include "syntorch/clock.h"
#include "syntorch/gradient.h"
#include "syntorch/hardware.h"
#include "syntorch/mesh.h"
#include "tests/support/exported.h"
#include "tests/support/gpt_graph.h"
#include "tests/support/graphs.h"
#include "tests/support/ops_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/sample_graphs.h"
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
    CHECK_OK(syn_export_et_set(graph, NULL, prefix, &err), err);
}

/* ---- Training steps ---- */

enum { BATCH = 4, TOKENS = 8, MOST = 4 };

typedef struct job {
    const syn_model_config *config;
    syn_mesh_shape shape;
    syn_device device;
    bool recompute;
    int passes; /* of a step */
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

/* Two steps: forward, backward with bucket all-reduces, optimizer, and the loss of all. */
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
    syn_ctx_keep_work(ctx, true);
    syn_status s = syn_model_new(&m, ctx, j->config, &options, err);
    if (s == SYN_OK) s = syn_data_parallel_new(&parallel, ctx, mesh.group[SYN_AXIS_DP], err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &how, err);
    if (s == SYN_OK) s = steps(j, m, &mesh, parallel, optimizer, err);
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    syn_model_free(m);
    return s;
}

/* ---- A device that is made up ---- */

enum { CALL_NS = 3000, MOST_STREAMS = 64, COMPUTE = 7, FIRST_GROUP = 20 };

typedef struct made_up {
    uint64_t *end_ns; /* of each node, on the device */
    uint64_t now_ns, free_ns[MOST_STREAMS];
} made_up;

/* A node's call launches a kernel, of each third node a fill before it, which wait for their stream
   and what the node depends on; a communication for all that was launched before. */
static void invent_node(made_up *m, syn_ctx *ctx, uint32_t index, const syn_node *node) {
    const bool comm = node->kind != SYN_NODE_COMPUTE;
    const uint32_t stream =
        comm ? FIRST_GROUP + node->group % (MOST_STREAMS - FIRST_GROUP) : COMPUTE;
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

/* At the end of a step the host reads a result, for which it waits; then it has the next texts. */
static void invent_between(made_up *m, syn_ctx *ctx, uint32_t after) {
    syn_piece_between b = {after, {.kind = SYN_PIECE_COPY_OUT, .bytes = 4, .stream = COMPUTE}};
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
        syn_ctx_add_between(ctx, &b);
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
        if (node->step != step) invent_between(&m, ctx, newest);
        step = node->step;
        newest = (uint32_t)node->id;
        if (node->flags & SYN_NODE_VIRTUAL) { /* passes on what it waits for */
            for (uint32_t d = 0; d < node->n_deps; d++)
                if (m.end_ns[node->deps[d].node] > m.end_ns[i])
                    m.end_ns[i] = m.end_ns[node->deps[d].node];
        } else {
            invent_node(&m, ctx, i, node);
        }
    }
    invent_between(&m, ctx, newest);
    free(m.end_ns);
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    CHECK_INT(syn_ctx_status(ctx), SYN_OK);
}

/* A step's graph with the times that it has; NULL hardware: none but measured ones. */
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
    syn_hardware hw;
    syn_error err = {0};
    NEED_OK(syn_hardware_load(&hw, "a100-80g", NULL, &err), err);
    save_steps(&small_gpt, 1, 1, SYN_DEVICE_CPU, false, NULL, &all_asked, "alone");
    save_steps(&small_gpt, 1, 2, SYN_DEVICE_CPU, false, NULL, NULL, "measured");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_CPU, false, NULL, &all_asked, "measured_tp");
    save_steps(&small_gpt, 1, 1, SYN_DEVICE_CPU, false, NULL, NULL, "device_alone");
    save_steps(&small_gpt, 1, 2, SYN_DEVICE_CPU, false, NULL, NULL, "device");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_CPU, false, NULL, &all_asked, "device_tp");
    save_steps(&small_gpt, 2, 2, SYN_DEVICE_META, false, &hw, NULL, "predicted");
    save_steps(&small_bert, 2, 1, SYN_DEVICE_META, true, &hw, &all_asked, "bert");
    save_steps(&small_bert, 1, 4, SYN_DEVICE_META, false, NULL, NULL, "order");
}

/* Of all that a device did something is known. */
static void check_known(const syn_graph *graph, uint32_t rank) {
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, rank, i, &cursor);
        CHECK_MSG((syn_graph_work(graph, rank, node) != NULL) == !(node->flags & SYN_NODE_VIRTUAL),
                  "node %u: %s", (unsigned)i, node->op);
    }
    syn_cursor_free(&cursor);
}

/* On CUDA devices rows are those of the CPU. */
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
    save_set(graph, &all_asked, "inference");
    syn_graph_free(graph);
}

/* ---- By hand ---- */

/* A group of two ranks; rank 0's matmul makes what an all-reduce sums, and adds it. */
static syn_graph *hand_graph(void) {
    static const int32_t ranks[] = {0, 1};
    const syn_graph_group group = {1, "dp0", ranks, 2};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 2, 2, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    for (uint32_t r = 0; r < 2; r++) {
        static const uint32_t t[] = {0, 1, 2, 3}, twice[] = {0, 0};
        const syn_dep on_first = {0, SYN_DEP_DATA},
                      on_both[] = {{0, SYN_DEP_DATA}, {1, SYN_DEP_DATA}};
        const syn_attribute transposed = {.name = "transpose_a", .type = SYN_VALUE_I64, .i64 = 1};
        syn_node matmul = plain_node(1, "matmul"), sum = plain_node(2, "all_reduce"),
                 add = plain_node(3, "add"), other = plain_node(4, "syntorch_only");
        matmul.scope = "h.0", matmul.flops = 4000, matmul.bytes_read = 100;
        matmul.inputs = twice, matmul.n_inputs = 2, matmul.outputs = t + 1, matmul.n_outputs = 1;
        matmul.attributes = &transposed, matmul.n_attributes = 1;
        matmul.start_ns = 1000, matmul.wall_ns = 2000;
        sum.kind = SYN_NODE_COLLECTIVE, sum.comm = SYN_COMM_ALL_REDUCE, sum.group = 1;
        sum.reduce = SYN_REDUCE_SUM, sum.stream = 1, sum.comm_bytes = 4 * 8 * 4;
        sum.inputs = t + 1, sum.n_inputs = 1, sum.outputs = t + 2, sum.n_outputs = 1;
        sum.deps = &on_first, sum.n_deps = 1;
        sum.start_ns = 5000, sum.wall_ns = 3000, sum.wait_ns = 1000;
        other.scope = "h.1", other.start_ns = 4000, other.wall_ns = 500;
        add.scope = "h.0.mlp", add.start_ns = 9000, add.wall_ns = 1000;
        add.inputs = t + 1, add.n_inputs = 2, add.outputs = t + 3, add.n_outputs = 1;
        add.deps = on_both, add.n_deps = 2;
        NEED_OK(add_tensor(g, r, "w", SYN_TENSOR_PARAM, SYN_NO_NODE, 0, 4, &err), err);
        NEED_OK(add_tensor(g, r, "x", 0, 0, 1, 4, &err), err);
        NEED_OK(add_tensor(g, r, "s", 0, 1, 2, 4, &err), err);
        NEED_OK(add_tensor(g, r, "y", 0, 3, 3, 4, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &matmul, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &sum, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &other, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &add, &err), err);
    }
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

static void device_by_hand(void) {
    syn_graph *graph = hand_graph();
    char *text = export_text(&syn_export_kineto, graph, NULL);
    CHECK_HAS(text, "\"name\":\"aten::matmul\",\"pid\":1,\"tid\":1,\"ts\":1.001,\"dur\":1.999");
    /* launched when the matmul has ended, before the op that does not wait for it */
    CHECK_HAS(text, "\"name\":\"_c10d_functional::all_reduce\",\"pid\":1,\"tid\":1,\"ts\":3.000,"
                    "\"dur\":1.000");
    CHECK_HAS(text,
              "\"name\":\"record_param_comms\",\"pid\":1,\"tid\":1,\"ts\":3.002,\"dur\":0.996");
    CHECK_HAS(text, "\"name\":\"gloo:all_reduce\",\"pid\":1,\"tid\":2,\"ts\":5.000,\"dur\":3.000");
    CHECK_HAS(text, "\"name\":\"_c10d_functional::wait_tensor\",\"pid\":1,\"tid\":1,\"ts\":4.500,"
                    "\"dur\":3.500");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"dtype\":\"Float\",\"In msg nelems\":32,"
                    "\"Out msg nelems\":32");
    CHECK_HAS(text, "\"Group size\":2,\"Process Group Name\":\"1\",\"Process Group Description\":"
                    "\"dp0\",\"Process Group Ranks\":\"[0, 1]\",\"Rank\":0,\"Seq\":0");
    /* (4, 8), transposed: a view of (8, 4) */
    CHECK_HAS(text, "\"Input Strides\":[[1, 8], [8, 1]],\"Input Dims\":[[8, 4], [4, 8]]");
    CHECK_HAS(text, "\"name\":\"ProfilerStep#0\",\"pid\":1,\"tid\":1,\"ts\":1.000,\"dur\":9.001");
    free(text);
    const syn_export_options second = {.rank = &(int32_t){1}};
    text = export_text(&syn_export_kineto, graph, &second);
    CHECK_HAS(text, "\"Rank\":1,");
    free(text);
    syn_graph_free(graph);
}

/* What a device did for rank 0: a kernel of the matmul from 2.5 to 4.5 us, asked for at 1.2; NCCL's
   kernel in a stream of its own; a fill and a kernel of other, told earlier than can be. */
static void give_work(syn_graph *graph) {
    static const char *const names[] = {"mm", "ncclDevKernel_AllReduce", "add", "", "other<float>"};
    static const syn_node_work nodes[] = {{.node = 1, .n_pieces = 1, .call_ns = 1000},
                                          {.node = 2, .n_pieces = 1, .call_ns = 3000},
                                          {.node = 3, .n_pieces = 1, .call_ns = 6000},
                                          {.node = 4, .n_pieces = 2, .call_ns = 4500}};
    static const syn_piece pieces[] = {
        {.grid = {4, 2, 1}, .block = {64, 1, 1}, .bytes = 512, .call_ns = 1200, .start_ns = 2500},
        {.stream = 13, .call_ns = 3100, .start_ns = 4500},
        {.call_ns = 6100, .start_ns = 8000},
        {.kind = SYN_PIECE_FILL, .bytes = 4000, .call_ns = 4600, .start_ns = 4000},
        {.call_ns = 4800, .start_ns = 5000}};
    syn_work work = {0};
    syn_error err = {0};
    for (size_t i = 0, at = 0; i < 4; at += nodes[i++].n_pieces) {
        syn_piece own[2];
        syn_node_work node = nodes[i];
        node.call_wall_ns = 1000;
        for (uint32_t k = 0; k < node.n_pieces; k++) {
            own[k] = pieces[at + k];
            own[k].call_wall_ns = 150;
            own[k].wall_ns = 2000;
            if (!own[k].stream) own[k].stream = 7;
            NEED_OK(syn_work_put_name(&work, names[at + k], &own[k].name, &err), err);
        }
        NEED_OK(syn_work_add(&work, &node, own, &err), err);
    }
    NEED_OK(syn_graph_give_work(graph, 0, &work, &err), err);
}

static void work_by_hand(void) {
    syn_graph *graph = hand_graph();
    give_work(graph);
    char *text = export_text(&syn_export_kineto, graph, NULL);
    CHECK_HAS(text, "\"name\":\"aten::matmul\",\"pid\":1,\"tid\":1,\"ts\":1.001,");
    CHECK_HAS(text, "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\","
                    "\"pid\":1,\"tid\":1,\"ts\":1.200,\"dur\":0.150,\"args\":{"
                    "\"External id\":2,\"cbid\":211,\"correlation\":1}}");
    CHECK_HAS(text, "{\"ph\":\"s\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":1.200,"
                    "\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
    CHECK_HAS(text, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"mm\",\"pid\":0,\"tid\":7,"
                    "\"ts\":2.500,\"dur\":2.000,\"args\":{\"External id\":2,\"queued\":0,"
                    "\"device\":0,\"context\":1,\"stream\":7,\"correlation\":1,"
                    "\"shared memory\":512,\"grid\":[4, 2, 1],\"block\":[64, 1, 1]}}");
    CHECK_HAS(text, "{\"ph\":\"f\",\"id\":1,\"pid\":0,\"tid\":7,\"ts\":2.500,"
                    "\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
    /* begins with its call, and what comes then when the stream is free */
    CHECK_HAS(text, "\"cat\":\"gpu_memset\",\"name\":\"Memset (Device)\",\"pid\":0,\"tid\":7,"
                    "\"ts\":4.600,\"dur\":1.400,");
    CHECK_HAS(text, "\"bytes\":4000,\"memory bandwidth (GB/s)\":2.857142857142857");
    CHECK_HAS(text, "\"name\":\"other<float>\",\"pid\":0,\"tid\":7,\"ts\":6.000,\"dur\":1.000");
    CHECK_HAS(text, "\"cat\":\"user_annotation\",\"name\":\"nccl:all_reduce\",\"pid\":1,"
                    "\"tid\":1,\"ts\":3.003,\"dur\":0.994");
    CHECK_HAS(text, "\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,\"tid\":13,\"ts\":4.500,"
                    "\"dur\":2.000,");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"In msg nelems\":32,"
                    "\"Out msg nelems\":32,\"Group size\":2,\"dtype\":\"Float\"");
    CHECK_HAS(text, "\"name\":\"cudaStreamWaitEvent\"");
    CHECK_HAS(text, "\"backend_config\":\"cuda:nccl\"");
    CHECK(strstr(text, "gloo") == NULL);
    /* until the last kernel has ended */
    CHECK_HAS(text, "\"name\":\"ProfilerStep#0\",\"pid\":1,\"tid\":1,\"ts\":1.000,\"dur\":9.001");
    free(text);
    text = export_text(&syn_export_host, graph, NULL);
    CHECK_HAS(text, "\"cuda:0\"]");
    CHECK_HAS(text, "\"name\":\"nccl:all_reduce\"");
    CHECK(strstr(text, "gloo") == NULL && strstr(text, "\"cpu\"") == NULL);
    free(text);
    text = export_text(&syn_export_chrome, graph, NULL);
    CHECK_HAS(text, "\"args\":{\"name\":\"kernels, stream 7\"}");
    CHECK_HAS(text, "\"args\":{\"name\":\"kernels, stream 13\"}");
    CHECK_HAS(text, "\"name\":\"mm\",\"cat\":\"kernel\",\"pid\":0,\"tid\":1011,\"ts\":2.500,"
                    "\"dur\":2.000,\"args\":{\"id\":\"r0.o1\",\"device\":0,\"stream\":7,"
                    "\"grid\":[4,2,1],\"block\":[64,1,1],\"shared memory\":512}}");
    CHECK_HAS(text, "\"name\":\"fill\",\"cat\":\"copy\",");
    free(text);
    const syn_export_options second = {.rank = &(int32_t){1}};
    text = export_text(&syn_export_kineto, graph, &second); /* of which nothing is known */
    CHECK(strstr(text, "ac2g") == NULL);
    CHECK_HAS(text, "gloo:all_reduce");
    free(text);
    CHECK(export_without_memory(&syn_export_kineto, graph, NULL) > 5);
    CHECK(export_without_memory(&syn_export_chrome, graph, NULL) > 5);
    syn_graph_free(graph);
}

/* h.0 around the matmul and its call, h.1, then h.0.mlp in h.0 again: 1 ns for each begin and end.
   PyTorch 2.15 writes such spans, and storages, with these keys. */
static void modules_by_hand(void) {
    syn_graph *graph = hand_graph();
    char *text = export_text(&syn_export_kineto, graph, &all_asked);
    CHECK_HAS(text, "\"with_stack\":1,\"profile_memory\":1");
    CHECK_HAS(text,
              "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: H_0\",\"pid\":1,"
              "\"tid\":1,\"ts\":1.001,\"dur\":3.000,\"args\":{\"Python id\":1,"
              "\"Python module id\":0,\"Module Hierarchy\":\"h.0\"");
    CHECK_HAS(text, "\"nn.Module: H_1\",\"pid\":1,\"tid\":1,\"ts\":4.001,\"dur\":0.500,\"args\":{"
                    "\"Python id\":2,\"Python module id\":1,\"Module Hierarchy\":\"h.1\"");
    CHECK_HAS(text, "\"nn.Module: H_0\",\"pid\":1,\"tid\":1,\"ts\":4.501,\"dur\":5.501,\"args\":{"
                    "\"Python id\":3,\"Python module id\":0,\"Module Hierarchy\":\"h.0\"");
    CHECK_HAS(text, "\"nn.Module: Mlp_0\",\"pid\":1,\"tid\":1,\"ts\":4.502,\"dur\":5.499,\"args\":{"
                    "\"Python parent id\":3,\"Python id\":4,\"Python module id\":0,"
                    "\"Module Hierarchy\":\"h.0.mlp\"");
    CHECK_HAS(text, "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\","
                    "\"pid\":1,\"tid\":2,\"ts\":5.000,\"args\":{\"Total Reserved\":0,"
                    "\"Total Allocated\":384,\"Bytes\":128,\"Device Id\":-1,\"Device Type\":0,"
                    "\"Addr\":3,");
    free(text);
    text = export_text(&syn_export_kineto, graph, NULL);
    CHECK(strstr(text, "python_function") == NULL && strstr(text, "[memory]") == NULL);
    CHECK_HAS(text, "{\"ph\":\"C\",\"name\":\"allocated memory\",\"pid\":1,\"tid\":0,\"ts\":5.000,"
                    "\"args\":{\"bytes\":384}}");
    free(text);
    text = export_text(&syn_export_stacks, graph, &all_asked);
    CHECK_HAS(text, "phase, op, modules\n");
    CHECK_HAS(text, "        2         4.000         4.000   36.36     2.0 G    50.0 M  "
                    "forward   matmul                   h.0\n");
    CHECK_HAS(text, "        2         2.000         2.000   18.18         -         -  "
                    "forward   add                      h.0;mlp\n");
    free(text);
    syn_graph_free(graph);
}

/* A number belongs to the word before it; what is like another by its first letters is not in
   it; odd scopes end. */
static void module_paths(void) {
    static const char *const scopes[] = {"encoder.layer.1",
                                         "encoder.layer.10.attention_out",
                                         "encoder.layer.1.2",
                                         "",
                                         "a..b.",
                                         "7.8",
                                         "encoder"};
    static const char *const want[] = {"encoder Encoder 0",
                                       "encoder.layer.1 Layer 0",
                                       "encoder.layer.10 Layer 1",
                                       "encoder.layer.10.attention_out AttentionOut 0",
                                       "encoder.layer.1.2 Layer 2",
                                       "a A 0",
                                       "a.  0",
                                       "a..b B 0",
                                       "a..b.  1",
                                       "7.8 7 0",
                                       "encoder Encoder 0"};
    syn__kineto_modules m = {0};
    syn_error err = {0};
    int64_t now = 0;
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        CHECK_OK(syn__kineto_modules_enter(&m, scopes[i], &now, &err), err);
    CHECK_OK(syn__kineto_modules_enter(&m, "", &now, &err), err);
    CHECK(m.n_spans == sizeof want / sizeof *want && now == 2 * (int64_t)m.n_spans);
    for (size_t i = 0; i < m.n_spans && i < sizeof want / sizeof *want; i++) {
        const syn__kineto_instance *instance = &m.instances[m.spans[i].path];
        char text[128];
        snprintf(text, sizeof text, "%s %s %u",
                 (const char *)syn_intern_get(&m.paths, m.spans[i].path),
                 (const char *)syn_intern_get(&m.classes, instance->class_name),
                 (unsigned)instance->number);
        CHECK_STR(text, want[i]);
        CHECK(m.spans[i].end > m.spans[i].start);
    }
    syn__kineto_modules_free(&m);
}

static void host_by_hand(void) {
    syn_graph *graph = hand_graph();
    char *text = export_text(&syn_export_host, graph, NULL);
    CHECK_HAS(text, "\"schema\":\"1.1.1-chakra.0.0.4\"");
    CHECK_HAS(text, "{\"name\":\"in_msg_nelems\",\"type\":\"uint64\",\"value\":32}");
    CHECK_HAS(text, "{\"name\":\"pg_desc\",\"type\":\"string\",\"value\":\"dp0\"}");
    CHECK_HAS(text, "[0,false],[\"1\",\"dp0\"],0,\"allreduce\",[],[],0,1,2]");
    CHECK_HAS(text, "\\\"pg_name\\\": \\\"1\\\", \\\"pg_desc\\\": \\\"dp0\\\"");
    CHECK_HAS(text, "\"value\":\"syntorch::syntorch_only() -> Tensor[]\"");
    free(text);
    syn_graph_free(graph);
}

/* 128 bytes each: w from the begin, x and s until add has read them, y to the end. */
static void memory_by_hand(void) {
    syn_graph *graph = hand_graph();
    const syn_export_options first = {.rank = &(int32_t){0}};
    char *text = export_text(&syn_export_memory_csv, graph, &first);
    CHECK_STR(text, "rank,time_us,allocated_bytes,change_bytes,what\n"
                    "0,1.000,128,128,\"before the first op\"\n"
                    "0,1.001,256,128,\"x\"\n"
                    "0,5.000,384,128,\"s\"\n"
                    "0,9.000,512,128,\"y\"\n"
                    "0,10.000,384,-128,\"x\"\n"
                    "0,10.000,256,-128,\"s\"\n");
    free(text);
    syn_graph_free(graph);
}

/* Of two ranks: 2 matmuls of 2 us, 2 sums of 3 us (1 us of each waiting), 2 adds of 1 us, 2 of
   0.5. */
static void stacks_by_hand(void) {
    syn_graph *graph = hand_graph();
    char *text = export_text(&syn_export_stacks, graph, NULL);
    CHECK_HAS(text, "2 ranks, 8 ops, 11.000 us of work in all (times: measured)");
    CHECK_HAS(text, "        2         4.000         4.000   36.36     2.0 G    50.0 M  "
                    "forward   matmul                   f32[4,8] f32[4,8]\n");
    CHECK_HAS(text, "        2         6.000         4.000   36.36         -         -  "
                    "forward   all_reduce               f32[4,8]\n");
    CHECK_HAS(text, "        2         6.000         4.000   36.36     2.0 G    50.0 M  h.0\n");
    CHECK_HAS(text, "        0         7.000         0.000    0.00         -         -  h\n");
    free(text);
    syn_graph_free(graph);
}

/* 500 scopes of one op each, 1 to 500 us: 400 rows, and in one the others: the least 100, and "h",
   which has no op of its own and all time within. */
static void many_rows(void) {
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, &(int32_t){0}, 1, 1, &err), err);
    for (int i = 0; i < 500; i++) {
        char scope[16];
        syn_node node = plain_node((uint64_t)i + 1, "add");
        snprintf(scope, sizeof scope, "h.%d", i);
        node.scope = scope;
        node.start_ns = 1e6 * i, node.wall_ns = 1000 * (i + 1);
        NEED_OK(syn_graph_add_node(g, 0, &node, &err), err);
    }
    char *text = export_text(&syn_export_stacks, g, NULL);
    const char *last = strstr(text, "  h.100\n");
    CHECK(last != NULL && strstr(text, "h.99\n") == NULL);
    if (last != NULL)
        CHECK_STR(last,
                  "  h.100\n      100    130300.000      5050.000    4.03         -         -  "
                  "(101 more)\n");
    free(text);
    syn_graph_free(g);
}

static void refused(void) {
    syn_graph *graph = hand_graph();
    syn_error err = {0};
    const syn_export_options none = {.rank = &(int32_t){7}};
    const syn_exporter *const all[] = {&syn_export_kineto, &syn_export_host, &syn_export_stacks,
                                       &syn_export_memory_csv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(export_forget(all[i], graph, &none, &err) == SYN_E_INVALID);
        CHECK_HAS(err.text, "rank 7");
        CHECK(syn_exporter_by_name(all[i]->name) == all[i]);
    }
    syn_graph_free(graph);
    CHECK(syn_exporter_by_path("out/run.0_kineto.json") == &syn_export_kineto);
    CHECK(syn_exporter_by_path("out/run.0_host.json") == &syn_export_host);
    CHECK(syn_exporter_by_path("out/run_stacks.txt") == &syn_export_stacks);
    CHECK(syn_exporter_by_path("out/run_memory.csv") == &syn_export_memory_csv);
}

/* Every field that a graph can have, names that JSON must escape, and messages. */
static void odd_graphs(void) {
    const syn_exporter *const all[] = {&syn_export_kineto, &syn_export_host, &syn_export_stacks,
                                       &syn_export_memory_csv};
    syn_graph *graphs[] = {full_graph(), simulated_graph(true, false), simulated_graph(true, true),
                           simulated_graph(false, false)};
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        syn_error err = {0};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            CHECK_OK(export_forget(all[i], graphs[g], g % 2 == 0 ? &all_asked : NULL, &err), err);
        syn_graph_free(graphs[g]);
    }
}

static void without_memory(void) {
    syn_graph *graph = hand_graph();
    CHECK(export_without_memory(&syn_export_kineto, graph, &all_asked) > 5);
    CHECK(export_without_memory(&syn_export_host, graph, NULL) > 5);
    CHECK(export_without_memory(&syn_export_stacks, graph, &all_asked) > 5);
    CHECK(export_without_memory(&syn_export_memory_csv, graph, NULL) > 5);
    syn_graph_free(graph);
}

static const test_case cases[] = {
    {"device_by_hand", device_by_hand}, {"modules_by_hand", modules_by_hand},
    {"module_paths", module_paths},     {"host_by_hand", host_by_hand},
    {"memory_by_hand", memory_by_hand}, {"stacks_by_hand", stacks_by_hand},
    {"many_rows", many_rows},           {"refused", refused},
    {"work_by_hand", work_by_hand},     {"odd_graphs", odd_graphs},
    {"without_memory", without_memory}, {"inference_set", inference_set},
    {"training_sets", training_sets},   {"cuda_set", cuda_set},
};
TEST_MAIN(cases)
