/* Implements sample_graphs.h, one function per node. */
#include "tests/support/sample_graphs.h"

#include "tests/support/graphs.h"
#include "tests/support/test.h"

static syn_status add_metadata(syn_graph *g, syn_error *err) {
    static const int32_t pair[2] = {0, 1}, one[1] = {1};
    const syn_graph_group groups[2] = {{1, "tp0", pair, 2}, {9, "odd <&\"'> \xC3\xA9", one, 1}};
    const syn_attribute facts[] = {
        {"model", SYN_VALUE_TEXT, 0, 0, "GPT <3> & \"co\"\n\x01 \xC3\xA9"},
        {"tp", SYN_VALUE_I64, 2, 0, NULL},
        {"temperature", SYN_VALUE_F64, 0, 3.0, NULL},
        {"top_p", SYN_VALUE_F64, 0, 0.1, NULL},
        {"fused", SYN_VALUE_BOOL, 1, 0, NULL},
        {"lowest", SYN_VALUE_I64, INT64_MIN, 0, NULL},
        {"empty", SYN_VALUE_TEXT, 0, 0, ""},
    };
    for (size_t i = 0; i < 2; i++) SYN_TRY(syn_graph_add_group(g, &groups[i], err));
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        SYN_TRY(syn_graph_set_meta(g, &facts[i], err));
    return SYN_OK;
}

/* The tensors of a rank, by index: 0 is x (an input), 1 is w (a parameter), 2 is x*x, 3 is a view
   of 2, 4 is the sum of 2 over ranks, 5 is a cache (state), 6 is sent or received. */
static syn_status add_tensors(syn_graph *g, uint32_t r, syn_error *err) {
    SYN_TRY(add_tensor(g, r, "x", SYN_TENSOR_INPUT, SYN_NO_NODE, 0, 4, err));
    SYN_TRY(add_tensor(g, r, "h.0.w", SYN_TENSOR_PARAM, SYN_NO_NODE, 1, 4, err));
    SYN_TRY(add_tensor(g, r, "h.0/mul:0", 0, 0, 2, 4, err));
    SYN_TRY(add_tensor(g, r, "h.0/view:0", SYN_TENSOR_VIEW, 1, 2, 4, err));
    SYN_TRY(add_tensor(g, r, "h.0/sum:0", 0, 2, 4, 4, err));
    SYN_TRY(add_tensor(g, r, "cache", SYN_TENSOR_STATE | SYN_TENSOR_INPUT, SYN_NO_NODE, 5, 0, err));
    return add_tensor(g, r, "h.0/pipe:0", r == 0 ? SYN_TENSOR_STATE : 0, r == 0 ? SYN_NO_NODE : 3,
                      6, 4, err);
}

static syn_status add_mul(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t in[3] = {0, 1, 0}, out[1] = {2};
    static const syn_attribute attributes[] = {
        {"axis", SYN_VALUE_I64, -1, 0, NULL},
        {"scale", SYN_VALUE_F64, 0, -0.0, NULL},
        {"fill", SYN_VALUE_F64, 0, -HUGE_VAL, NULL},
        {"big", SYN_VALUE_F64, 0, 12345678901234567890.0, NULL},
        {"pi", SYN_VALUE_F64, 0, 3.141592653589793, NULL},
        {"causal", SYN_VALUE_BOOL, 0, 0, NULL},
        {"mode", SYN_VALUE_TEXT, 0, 0, "a\\b\t"},
    };
    syn_node n = plain_node(5, "mul");
    n.category = SYN_CATEGORY_ELEMENTWISE;
    n.flags = SYN_NODE_FUSED;
    n.phase = SYN_PHASE_PREFILL;
    n.label = "square \xE2\x82\xAC";
    n.scope = "h.0";
    n.inputs = in;
    n.n_inputs = 3;
    n.outputs = out;
    n.n_outputs = 1;
    n.attributes = attributes;
    n.n_attributes = sizeof attributes / sizeof attributes[0];
    n.flops = UINT64_MAX;
    n.bytes_read = (uint64_t)INT64_MAX + 1;
    n.bytes_written = 128;
    n.start_ns = 0;
    n.wall_ns = 1000.25 + r * 2000;
    n.cpu_ns = 0.1;
    n.predicted_ns = 1e-7;
    return syn_graph_add_node(g, r, &n, err);
}

static syn_status add_view(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t in[1] = {2}, out[1] = {3};
    static const syn_dep deps[1] = {{0, SYN_DEP_DATA}};
    syn_node n = plain_node(2, "view");
    n.category = SYN_CATEGORY_VIEW;
    n.flags = SYN_NODE_VIRTUAL;
    n.inputs = in;
    n.n_inputs = 1;
    n.outputs = out;
    n.n_outputs = 1;
    n.deps = deps;
    n.n_deps = 1;
    return syn_graph_add_node(g, r, &n, err);
}

static syn_status add_collective(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t in[1] = {3}, out[1] = {4};
    static const syn_dep deps[4] = {
        {0, SYN_DEP_CONTROL}, {0, SYN_DEP_INPLACE}, {1, SYN_DEP_DATA}, {1, SYN_DEP_STREAM}};
    syn_node n = plain_node(7, "all_reduce");
    n.kind = SYN_NODE_COLLECTIVE;
    n.category = SYN_CATEGORY_COMMUNICATION;
    n.phase = SYN_PHASE_DECODE;
    n.step = UINT32_MAX;
    n.stream = 1;
    n.scope = "h.0";
    n.inputs = in;
    n.n_inputs = 1;
    n.outputs = out;
    n.n_outputs = 1;
    n.deps = deps;
    n.n_deps = 4;
    n.comm = SYN_COMM_ALL_REDUCE;
    n.reduce = SYN_REDUCE_SUM;
    n.group = 1;
    n.comm_bytes = 128;
    n.comm_index = 3;
    n.start_ns = 1000.25 + r * 2000;
    n.wall_ns = r == 0 ? 2500 : 500;
    n.wait_ns = r == 0 ? 2000 : 0;
    return syn_graph_add_node(g, r, &n, err);
}

/* Rank 0 sends, rank 1 receives. */
static syn_status add_p2p(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t sent[1] = {4}, received[1] = {6};
    static const syn_dep deps[1] = {{2, SYN_DEP_DATA}};
    syn_node n = plain_node(UINT64_MAX, r == 0 ? "send" : "recv");
    n.kind = r == 0 ? SYN_NODE_SEND : SYN_NODE_RECV;
    n.comm = r == 0 ? SYN_COMM_SEND : SYN_COMM_RECV;
    n.category = SYN_CATEGORY_COMMUNICATION;
    n.stream = 2;
    n.peer = 1 - (int32_t)r;
    n.tag = 0;
    n.comm_bytes = 128;
    n.inputs = sent;
    n.n_inputs = r == 0;
    n.outputs = received;
    n.n_outputs = r == 1;
    n.deps = deps;
    n.n_deps = r == 0;
    n.start_ns = 3600;
    n.wall_ns = r == 0 ? 100 : 300;
    return syn_graph_add_node(g, r, &n, err);
}

/* A node without tensors that overlaps others in time. It has a launch dependency and a data
   dependency. */
static syn_status add_last(syn_graph *g, uint32_t r, syn_error *err) {
    static const syn_dep deps[2] = {{1, SYN_DEP_LAUNCH}, {2, SYN_DEP_DATA}};
    syn_node n = plain_node(8, "free");
    n.kind = SYN_NODE_MEMORY;
    n.phase = SYN_PHASE_OPTIMIZER;
    n.deps = deps;
    n.n_deps = 2;
    n.start_ns = 500;
    n.wall_ns = 5000;
    return syn_graph_add_node(g, r, &n, err);
}

static syn_status add_rank(syn_graph *g, uint32_t r, syn_error *err) {
    SYN_TRY(add_tensors(g, r, err));
    SYN_TRY(add_mul(g, r, err));
    SYN_TRY(add_view(g, r, err));
    SYN_TRY(add_collective(g, r, err));
    SYN_TRY(add_p2p(g, r, err));
    return add_last(g, r, err);
}

syn_graph *full_graph(void) {
    static const int32_t ranks[2] = {0, 1};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 2, 3, &err), err);
    NEED_OK(add_metadata(g, &err), err);
    for (uint32_t r = 0; r < 2; r++) NEED_OK(add_rank(g, r, &err), err);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

/* One rank of simulated_graph (sample_graphs.h). */
static syn_status simulated_rank(syn_graph *g, uint32_t r, bool with_times, bool skip_one,
                                 syn_error *err) {
    const syn_dep on_first = {0, SYN_DEP_CONTROL}, on_second = {1, SYN_DEP_CONTROL};
    syn_node n = plain_node(1, "work");
    if (with_times) n.predicted_ns = r == 0 ? 3000 : 1000;
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = plain_node(2, "reduce");
    n.kind = SYN_NODE_COLLECTIVE;
    n.comm = SYN_COMM_ALL_REDUCE;
    n.group = 1;
    n.stream = 1;
    n.deps = &on_first;
    n.n_deps = 1;
    if (with_times) n.predicted_ns = 500;
    if (skip_one && r == 1) n = plain_node(2, "none");
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = plain_node(3, r == 0 ? "give" : "take");
    n.kind = r == 0 ? SYN_NODE_SEND : SYN_NODE_RECV;
    n.comm = r == 0 ? SYN_COMM_SEND : SYN_COMM_RECV;
    n.peer = r == 0 ? 1 : 0;
    n.stream = 2;
    n.deps = &on_second;
    n.n_deps = r == 0;
    if (with_times) n.predicted_ns = 200;
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = plain_node(4, "more");
    if (with_times) n.predicted_ns = 100;
    return syn_graph_add_node(g, r, &n, err);
}

syn_graph *simulated_graph(bool with_times, bool skip_one) {
    static const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "tp0", ranks, 2};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 2, 2, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    for (uint32_t r = 0; r < 2; r++) NEED_OK(simulated_rank(g, r, with_times, skip_one, &err), err);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}
