/* Tests the exporters of PyTorch-like traces on small graphs, with manually computed results: names
   and arguments of calls, order and nesting, memory, and sums. test_kineto_sets.c tests whole
   runs. */
#include "export/kineto/kineto_modules.h"
#include "tests/support/exported.h"
#include "tests/support/graphs.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

static const syn_export_options all_asked = {.profile_memory = true, .with_stack = true};

/* Turns the node's duration into a prediction, and makes its other times unknown. */
static void foretell(syn_node *node) {
    node->predicted_ns = node->wall_ns;
    node->start_ns = node->wall_ns = node->wait_ns = SYN_NO_TIME;
}

/* Two ranks of one group. On each rank, a matmul computes a tensor, an all-reduce sums it, and an
   add adds both tensors. The run begins at `ns`; if this is negative, times are predicted. */
static syn_graph *two_rank_graph_at(double ns) {
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
        matmul.start_ns = ns + 1000, matmul.wall_ns = 2000;
        sum.kind = SYN_NODE_COLLECTIVE, sum.comm = SYN_COMM_ALL_REDUCE, sum.group = 1;
        sum.reduce = SYN_REDUCE_SUM, sum.stream = 1, sum.comm_bytes = 4 * 8 * 4;
        sum.inputs = t + 1, sum.n_inputs = 1, sum.outputs = t + 2, sum.n_outputs = 1;
        sum.deps = &on_first, sum.n_deps = 1;
        sum.start_ns = ns + 5000, sum.wall_ns = 3000, sum.wait_ns = 1000;
        other.scope = "h.1", other.start_ns = ns + 4000, other.wall_ns = 500;
        add.scope = "h.0.mlp", add.start_ns = ns + 9000, add.wall_ns = 1000;
        add.inputs = t + 1, add.n_inputs = 2, add.outputs = t + 3, add.n_outputs = 1;
        add.deps = on_both, add.n_deps = 2;
        NEED_OK(add_tensor(g, r, "w", SYN_TENSOR_PARAM, SYN_NO_NODE, 0, 4, &err), err);
        NEED_OK(add_tensor(g, r, "x", 0, 0, 1, 4, &err), err);
        NEED_OK(add_tensor(g, r, "s", 0, 1, 2, 4, &err), err);
        NEED_OK(add_tensor(g, r, "y", 0, 3, 3, 4, &err), err);
        syn_node *const all[] = {&matmul, &sum, &other, &add};
        for (size_t i = 0; ns < 0 && i < 4; i++) foretell(all[i]);
        NEED_OK(syn_graph_add_node(g, r, &matmul, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &sum, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &other, &err), err);
        NEED_OK(syn_graph_add_node(g, r, &add, &err), err);
    }
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

static syn_graph *two_rank_graph(void) {
    return two_rank_graph_at(0);
}

static void device_by_hand(void) {
    syn_graph *graph = two_rank_graph();
    char *text = export_text(&syn_export_kineto, graph, NULL);
    CHECK_HAS(text, "\"name\":\"aten::matmul\",\"pid\":1,\"tid\":1,\"ts\":1.001,\"dur\":1.999");
    /* The all-reduce is launched when the matmul has finished, before the op that does not depend
       on it. */
    CHECK_HAS(text, "\"name\":\"_c10d_functional::all_reduce\",\"pid\":1,\"tid\":1,\"ts\":3.001,"
                    "\"dur\":0.998");
    CHECK_HAS(text,
              "\"name\":\"record_param_comms\",\"pid\":1,\"tid\":1,\"ts\":3.003,\"dur\":0.994");
    CHECK_HAS(text, "\"name\":\"gloo:all_reduce\",\"pid\":1,\"tid\":2,\"ts\":5.000,\"dur\":3.000");
    CHECK_HAS(text, "\"name\":\"_c10d_functional::wait_tensor\",\"pid\":1,\"tid\":1,\"ts\":4.501,"
                    "\"dur\":3.499");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"dtype\":\"Float\",\"In msg nelems\":32,"
                    "\"Out msg nelems\":32");
    CHECK_HAS(text, "\"Group size\":2,\"Process Group Name\":\"1\",\"Process Group Description\":"
                    "\"dp0\",\"Process Group Ranks\":\"[0, 1]\",\"Rank\":0,\"Seq\":0");
    /* The shape is (4, 8) transposed, that is, a view of a tensor of shape (8, 4). */
    CHECK_HAS(text, "\"Input Strides\":[[1, 8], [8, 1]],\"Input Dims\":[[8, 4], [4, 8]]");
    CHECK_HAS(text, "\"name\":\"ProfilerStep#0\",\"pid\":1,\"tid\":1,\"ts\":1.000,\"dur\":9.001");
    free(text);
    const syn_export_options second = {.rank = &(int32_t){1}};
    text = export_text(&syn_export_kineto, graph, &second);
    CHECK_HAS(text, "\"Rank\":1,");
    free(text);
    syn_graph_free(graph);
}

/* Checks the nesting of the main thread's events, for a reader that adds ts and dur as doubles:
   each event must be strictly inside the innermost event that has not ended. */
static void check_nesting(const char *text) {
    double ends[16] = {INFINITY}, begins[16] = {-INFINITY};
    int depth = 0, n = 0;
    for (const char *p = text; (p = strstr(p, "\"tid\":1,\"ts\":")) != NULL; p++) {
        double ts, dur;
        if (sscanf(p, "\"tid\":1,\"ts\":%lf,\"dur\":%lf", &ts, &dur) != 2) continue;
        while (ends[depth] < ts) depth--;
        CHECK_MSG(begins[depth] < ts && ts + dur < ends[depth], "%.3f to %.3f", ts, ts + dur);
        CHECK(++depth < 16);
        begins[depth] = ts;
        ends[depth] = ts + dur;
        n++;
    }
    CHECK_INT(n, 8);
}

/* Runs whose clock is large at the start. After 11 days, a double in microseconds has 13 bits after
   the binary point. For a clock that counts from the epoch it would have 2 bits, so the exporter
   subtracts the base time. */
static void late_times(void) {
    static const struct {
        double ns;
        const char *base, *first;
    } cases[] = {{9.5e14, "\"baseTimeNanoseconds\":0,",
                  "\"aten::matmul\",\"pid\":1,\"tid\":1,\"ts\":950000000001.001,\"dur\":1.999,"},
                 {1.7e18, "\"baseTimeNanoseconds\":1700000000000001000,",
                  "\"aten::matmul\",\"pid\":1,\"tid\":1,\"ts\":0.001,\"dur\":1.999,"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        syn_graph *graph = two_rank_graph_at(cases[i].ns);
        char *text = export_text(&syn_export_kineto, graph, NULL);
        CHECK_HAS(text, cases[i].base);
        CHECK_HAS(text, cases[i].first);
        check_nesting(text);
        free(text);
        syn_graph_free(graph);
    }
}

/* Adds device work for rank 0: a matmul kernel from 2.5 to 4.5 us that was launched at 1.2 us,
   NCCL's kernel on a separate stream, and a fill and a kernel of `other` whose start times are too
   early to be possible. */
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
    NEED_OK(syn_graph_set_work(graph, 0, &work, &err), err);
}

static void work_by_hand(void) {
    syn_graph *graph = two_rank_graph();
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
    /* The fill starts no earlier than its call. The kernel after it starts when the stream is
       free. */
    CHECK_HAS(text, "\"cat\":\"gpu_memset\",\"name\":\"Memset (Device)\",\"pid\":0,\"tid\":7,"
                    "\"ts\":4.600,\"dur\":1.400,");
    CHECK_HAS(text, "\"bytes\":4000,\"memory bandwidth (GB/s)\":2.857142857142857");
    CHECK_HAS(text, "\"name\":\"other<float>\",\"pid\":0,\"tid\":7,\"ts\":6.001,\"dur\":0.999");
    CHECK_HAS(text, "\"cat\":\"user_annotation\",\"name\":\"nccl:all_reduce\",\"pid\":1,"
                    "\"tid\":1,\"ts\":3.003,\"dur\":0.994");
    CHECK_HAS(text, "\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,\"tid\":13,\"ts\":4.500,"
                    "\"dur\":2.000,");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"In msg nelems\":32,"
                    "\"Out msg nelems\":32,\"Group size\":2,\"dtype\":\"Float\"");
    CHECK_HAS(text, "\"name\":\"cudaStreamWaitEvent\"");
    CHECK_HAS(text, "\"backend_config\":\"cuda:nccl\"");
    CHECK(strstr(text, "gloo") == NULL);
    /* The step lasts until the last kernel has finished. */
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
    /* The second graph has no device work. */
    text = export_text(&syn_export_kineto, graph, &second);
    CHECK(strstr(text, "ac2g") == NULL);
    CHECK_HAS(text, "gloo:all_reduce");
    free(text);
    CHECK(export_without_memory(&syn_export_kineto, graph, NULL) > 5);
    CHECK(export_without_memory(&syn_export_chrome, graph, NULL) > 5);
    syn_graph_free(graph);
}

/* Times predicted for a GPU. The matmul takes 2000 ns. After it, the sum (3000 ns) and `other` (500
   ns, later in program order) run concurrently. The add (1000 ns) waits for the sum. The host takes
   4 us per op if there is enough time, and kernels start 1 us after the first call. */
static void predicted_by_hand(void) {
    const syn_attribute gpu = {.name = "multiprocessors", .i64 = 108};
    syn_graph *graph = two_rank_graph_at(-1);
    syn_error err = {0};
    char *text = export_text(&syn_export_kineto, graph, NULL);
    /* Without the metadata of a GPU, the device is unknown. */
    CHECK(strstr(text, "\"cat\":\"kernel\"") == NULL);
    free(text);
    NEED_OK(syn_graph_set_meta(graph, &gpu, &err), err);
    text = export_text(&syn_export_kineto, graph, NULL);
    CHECK_HAS(text, "\"deviceProperties\":[{\"id\":0,\"numSms\":108}]");
    CHECK_HAS(text, "\"name\":\"syntorch::matmul<f32>\",\"pid\":0,\"tid\":7,\"ts\":1.000,"
                    "\"dur\":2.000,");
    CHECK_HAS(text, "\"name\":\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\",\"pid\":0,\"tid\":20,"
                    "\"ts\":3.000,\"dur\":3.000,");
    CHECK_HAS(text, "\"name\":\"syntorch::syntorch_only<f32>\",\"pid\":0,\"tid\":7,"
                    "\"ts\":3.001,\"dur\":0.499,");
    CHECK_HAS(text, "\"name\":\"syntorch::add<f32>\",\"pid\":0,\"tid\":7,\"ts\":6.000,"
                    "\"dur\":1.000,");
    /* The sum waits for the matmul, which finishes at the second call, and the add waits for the
       sum. */
    CHECK_HAS(text, "\"wait_on_stream\":7,\"wait_on_cuda_event_record_corr_id\":2,");
    CHECK_HAS(text, "\"wait_on_stream\":20,\"wait_on_cuda_event_record_corr_id\":5,");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"In msg nelems\":32,");
    CHECK_HAS(text, "\"name\":\"cudaStreamSynchronize\"");
    CHECK(strstr(text, "gloo") == NULL);
    free(text);
    CHECK(export_without_memory(&syn_export_kineto, graph, NULL) > 5);
    const syn_attribute of_et = {.name = gpu.name, .type = SYN_VALUE_TEXT, .text = "132"};
    NEED_OK(syn_graph_set_meta(graph, &of_et, &err), err);
    text = export_text(&syn_export_kineto, graph, NULL);
    CHECK_HAS(text, "\"numSms\":132}]");
    free(text);
    syn_graph_free(graph);
}

/* The spans of modules: h.0 around the matmul and its call, then h.1, then h.0.mlp, which is in h.0
   again. The begin and the end of each span take 1 ns. PyTorch 2.15 writes such spans, and
   storages, with these keys. */
static void modules_by_hand(void) {
    syn_graph *graph = two_rank_graph();
    char *text = export_text(&syn_export_kineto, graph, &all_asked);
    CHECK_HAS(text, "\"with_stack\":1,\"profile_memory\":1");
    CHECK_HAS(text,
              "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: H_0\",\"pid\":1,"
              "\"tid\":1,\"ts\":1.001,\"dur\":2.999,\"args\":{\"Python id\":1,"
              "\"Python module id\":0,\"Module Hierarchy\":\"h.0\"");
    CHECK_HAS(text, "\"nn.Module: H_1\",\"pid\":1,\"tid\":1,\"ts\":4.001,\"dur\":0.500,\"args\":{"
                    "\"Python id\":2,\"Python module id\":1,\"Module Hierarchy\":\"h.1\"");
    CHECK_HAS(text, "\"nn.Module: H_0\",\"pid\":1,\"tid\":1,\"ts\":4.502,\"dur\":5.500,\"args\":{"
                    "\"Python id\":3,\"Python module id\":0,\"Module Hierarchy\":\"h.0\"");
    CHECK_HAS(text, "\"nn.Module: Mlp_0\",\"pid\":1,\"tid\":1,\"ts\":4.503,\"dur\":5.498,\"args\":{"
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

/* A number belongs to the word before it. A scope does not contain another scope only because its
   name begins with the same characters. Malformed scopes must not break the walk. */
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
    syn_graph *graph = two_rank_graph();
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

/* Each tensor has 128 bytes. w exists from the start. x and s exist until the add has read them,
   and y exists until the end. */
static void memory_by_hand(void) {
    syn_graph *graph = two_rank_graph();
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

/* Sums over two ranks: 2 matmuls of 2 us, 2 all-reduces of 3 us (1 us of each is wait time), 2 adds
   of 1 us, and 2 other ops of 0.5 us. */
static void stacks_by_hand(void) {
    syn_graph *graph = two_rank_graph();
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

/* 500 scopes with one op each, of 1 to 500 us. There must be 400 rows, and one row for the others:
   the 100 smallest scopes and "h", which has no op of its own and includes all time. */
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
    syn_graph *graph = two_rank_graph();
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

/* Graphs in which every field is used, with names that JSON must escape, and with messages. */
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
    syn_graph *graph = two_rank_graph();
    CHECK(export_without_memory(&syn_export_kineto, graph, &all_asked) > 5);
    CHECK(export_without_memory(&syn_export_host, graph, NULL) > 5);
    CHECK(export_without_memory(&syn_export_stacks, graph, &all_asked) > 5);
    CHECK(export_without_memory(&syn_export_memory_csv, graph, NULL) > 5);
    syn_graph_free(graph);
}

static const test_case cases[] = {
    {"device_by_hand", device_by_hand},
    {"late_times", late_times},
    {"modules_by_hand", modules_by_hand},
    {"module_paths", module_paths},
    {"host_by_hand", host_by_hand},
    {"memory_by_hand", memory_by_hand},
    {"stacks_by_hand", stacks_by_hand},
    {"many_rows", many_rows},
    {"refused", refused},
    {"work_by_hand", work_by_hand},
    {"predicted_by_hand", predicted_by_hand},
    {"odd_graphs", odd_graphs},
    {"without_memory", without_memory},
};
TEST_MAIN(cases)
