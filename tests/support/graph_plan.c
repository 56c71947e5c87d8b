/* Implements graph_plan.h: the valid plan, and a graph built from a plan. */
#include "tests/support/graph_plan.h"

static void plan_tensors(plan *p) {
    static const char *const names[] = {"x", "h.0.attn.c_attn.weight", "h.0.attn/qkv:0",
                                        "h.0.attn/all_reduce:0", "h.1/recv:0"};
    static const uint32_t flags[] = {SYN_TENSOR_INPUT, SYN_TENSOR_PARAM, 0, 0, 0};
    static const uint32_t producers[] = {SYN_NO_NODE, SYN_NO_NODE, 0, 1, 3};
    p->n_tensors = 5;
    for (uint32_t i = 0; i < 5; i++)
        p->tensors[i] =
            (syn_graph_tensor){names[i], {SYN_F32, 2, {8, 64}}, flags[i], producers[i], i, {0}};
    p->tensors[1].spec = (syn_spec){SYN_F32, 2, {64, 64}};
}

static void plan_nodes(plan *p) {
    p->n_nodes = 4;
    p->nodes[0] = (syn_node){.id = 1,
                             .kind = SYN_NODE_COMPUTE,
                             .category = SYN_CATEGORY_MATMUL,
                             .flags = SYN_NODE_FUSED,
                             .phase = SYN_PHASE_PREFILL,
                             .step = 3,
                             .op = "linear",
                             .label = "qkv",
                             .scope = "h.0.attn",
                             .inputs = p->linear_in,
                             .n_inputs = 2,
                             .outputs = p->linear_out,
                             .n_outputs = 1,
                             .attributes = p->linear_attributes,
                             .n_attributes = 4,
                             .flops = 65536,
                             .bytes_read = 18432,
                             .bytes_written = 2048,
                             .start_ns = 10.5,
                             .wall_ns = 20,
                             .cpu_ns = 19,
                             .wait_ns = 0,
                             .predicted_ns = 17.25};
    p->nodes[1] = (syn_node){.id = 2,
                             .kind = SYN_NODE_COLLECTIVE,
                             .category = SYN_CATEGORY_COMMUNICATION,
                             .stream = 1,
                             .op = "all_reduce",
                             .label = "all_reduce",
                             .scope = "h.0.attn",
                             .inputs = p->reduce_in,
                             .n_inputs = 1,
                             .outputs = p->reduce_out,
                             .n_outputs = 1,
                             .deps = p->reduce_deps,
                             .n_deps = 2,
                             .comm = SYN_COMM_ALL_REDUCE,
                             .reduce = SYN_REDUCE_SUM,
                             .group = 1,
                             .comm_bytes = 2048,
                             .comm_index = 5,
                             .peer = -1,
                             .root = -1,
                             NO_TIMES};
    p->nodes[2] = (syn_node){.id = 3,
                             .kind = SYN_NODE_SEND,
                             .op = "send",
                             .label = "send",
                             .scope = "",
                             .inputs = p->send_in,
                             .n_inputs = 1,
                             .deps = p->send_deps,
                             .n_deps = 2,
                             .comm = SYN_COMM_SEND,
                             .reduce = -1,
                             .comm_bytes = 2048,
                             .peer = 3,
                             .tag = 77,
                             .root = -1,
                             NO_TIMES};
    p->nodes[3] = (syn_node){.id = 4,
                             .kind = SYN_NODE_RECV,
                             .op = "recv",
                             .label = "recv",
                             .scope = "h.1",
                             .outputs = p->recv_out,
                             .n_outputs = 1,
                             .deps = p->recv_deps,
                             .n_deps = 1,
                             .comm = SYN_COMM_RECV,
                             .reduce = -1,
                             .comm_bytes = 2048,
                             .peer = 3,
                             .tag = 78,
                             .root = -1,
                             NO_TIMES};
}

void plan_new(plan *p) {
    memset(p, 0, sizeof *p);
    p->ranks[0] = 0;
    p->ranks[1] = 1;
    p->n_ranks = 2;
    p->world_size = 4;
    p->linear_in[1] = 1;
    p->linear_out[0] = p->reduce_in[0] = 2;
    p->reduce_out[0] = p->send_in[0] = 3;
    p->recv_out[0] = 4;
    p->reduce_deps[0] = (syn_dep){0, SYN_DEP_DATA};
    p->reduce_deps[1] = (syn_dep){0, SYN_DEP_SYNC};
    p->send_deps[0] = (syn_dep){0, SYN_DEP_STREAM};
    p->send_deps[1] = (syn_dep){1, SYN_DEP_DATA};
    p->recv_deps[0] = (syn_dep){2, SYN_DEP_GROUP};
    p->linear_attributes[0] = (syn_attribute){.name = "axis", .type = SYN_VALUE_I64, .i64 = -1};
    p->linear_attributes[1] = (syn_attribute){.name = "eps", .type = SYN_VALUE_F64, .f64 = 1e-5};
    p->linear_attributes[2] = (syn_attribute){.name = "bias", .type = SYN_VALUE_BOOL, .i64 = 1};
    p->linear_attributes[3] = (syn_attribute){.name = "mode", .type = SYN_VALUE_TEXT, .text = "nt"};
    p->tp_ranks[1] = p->dp_ranks[0] = 1;
    p->dp_ranks[1] = 3;
    p->groups[0] = (syn_graph_group){1, "tp0", p->tp_ranks, 2};
    p->groups[1] = (syn_graph_group){7, "dp1", p->dp_ranks, 2};
    p->n_groups = 2;
    p->metadata[0] = (syn_attribute){.name = "model", .type = SYN_VALUE_TEXT, .text = "gpt2"};
    p->metadata[1] = (syn_attribute){.name = "tp", .type = SYN_VALUE_I64, .i64 = 2};
    plan_tensors(p);
    plan_nodes(p);
}

static syn_status add_all(syn_graph *g, const plan *p, syn_error *err) {
    for (uint32_t i = 0; i < 2; i++) SYN_TRY(syn_graph_set_meta(g, &p->metadata[i], err));
    for (uint32_t i = 0; i < p->n_groups; i++) SYN_TRY(syn_graph_add_group(g, &p->groups[i], err));
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        for (uint32_t i = 0; i < p->n_nodes; i++)
            SYN_TRY(syn_graph_add_node(g, r, &p->nodes[i], err));
        for (uint32_t i = 0; i < p->n_tensors; i++)
            SYN_TRY(syn_graph_add_tensor(g, r, &p->tensors[i], err));
    }
    return SYN_OK;
}

syn_status build(syn_graph **out, const plan *p, syn_error *err) {
    SYN_TRY(syn_graph_new(out, p->ranks, p->n_ranks, p->world_size, err));
    const syn_status status = add_all(*out, p, err);
    if (status != SYN_OK) {
        syn_graph_free(*out);
        *out = NULL;
    }
    return status;
}
