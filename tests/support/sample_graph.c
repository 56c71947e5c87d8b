#include "tests/support/sample_graph.h"

typedef struct sample_build {
    syn_graph *graph;
    uint32_t rank, nodes, tensors;
    uint64_t clock_ns;
    uint32_t comms;
    syn_status status;
    syn_error *err;
} sample_build;

static uint32_t sample_tensor(sample_build *b, const char *name, int64_t rows, int64_t columns,
                              uint32_t flags, uint32_t producer, uint32_t base) {
    const uint32_t id = b->tensors++;
    const syn_graph_tensor t = {name,
                                {SYN_F32, 2, {rows, columns, 0, 0, 0, 0}},
                                flags,
                                producer,
                                base == SYN_NO_TENSOR ? id : base};
    if (b->status == SYN_OK) b->status = syn_graph_add_tensor(b->graph, b->rank, &t, b->err);
    return id;
}

/* Adds a node that reads `in` and, if there is one, the parameter or second input; returns its
 * output (T, columns). */
static uint32_t sample_node(sample_build *b, syn_node node, const uint32_t *in,
                            const uint32_t *producers, uint32_t n_in, int64_t columns) {
    char name[96];
    syn_dep deps[2];
    uint32_t n_deps = 0;
    const uint32_t self = b->nodes++;
    snprintf(name, sizeof name, "%s%s%s:0", node.scope, *node.scope ? "/" : "", node.label);
    const bool view = (node.flags & SYN_NODE_VIRTUAL) != 0;
    const uint32_t out = sample_tensor(b, name, SAMPLE_TOKENS, columns, view ? SYN_TENSOR_VIEW : 0,
                                       self, view ? in[0] : SYN_NO_TENSOR);
    for (uint32_t i = 0; i < n_in; i++) {
        if (producers[i] == SYN_NO_NODE) continue;
        deps[n_deps++] = (syn_dep){producers[i], SYN_DEP_DATA};
    }
    if (n_deps == 2 && deps[0].node > deps[1].node) {
        const syn_dep first = deps[0];
        deps[0] = deps[1];
        deps[1] = first;
    }
    node.id = self + 1;
    node.phase = SYN_PHASE_PREFILL;
    node.inputs = in;
    node.n_inputs = n_in;
    node.outputs = &out;
    node.n_outputs = 1;
    node.deps = deps;
    node.n_deps = n_deps;
    node.peer = node.root = -1;
    node.cpu_ns = node.wait_ns = node.predicted_ns = SYN_NO_TIME;
    node.start_ns = (double)b->clock_ns;
    node.wall_ns = view ? 0 : 2500 + 10.0 * self;
    b->clock_ns += (uint64_t)node.wall_ns;
    if (node.kind == SYN_NODE_COLLECTIVE) {
        node.stream = 1;
        node.group = 1;
        node.comm_index = b->comms++;
        node.comm_bytes = (uint64_t)(SAMPLE_TOKENS * columns) * 4;
    }
    if (!view) {
        node.bytes_read = (uint64_t)(SAMPLE_TOKENS * SAMPLE_HIDDEN) * 4;
        node.bytes_written = (uint64_t)(SAMPLE_TOKENS * columns) * 4;
    }
    if (b->status == SYN_OK) b->status = syn_graph_add_node(b->graph, b->rank, &node, b->err);
    return out;
}

typedef struct sample_value {
    uint32_t tensor, producer;
} sample_value;

/* One op on x and perhaps y. */
static sample_value sample_op(sample_build *b, const char *op, const char *label, const char *scope,
                              syn_category category, sample_value x, sample_value y,
                              int64_t columns) {
    const uint32_t in[2] = {x.tensor, y.tensor}, producers[2] = {x.producer, y.producer};
    const bool collective = category == SYN_CATEGORY_COMMUNICATION;
    const syn_node node = {
        .kind = collective ? SYN_NODE_COLLECTIVE : SYN_NODE_COMPUTE,
        .category = category,
        .flags = category == SYN_CATEGORY_VIEW ? SYN_NODE_VIRTUAL : 0,
        .op = op,
        .label = label,
        .scope = scope,
        .flops = category == SYN_CATEGORY_MATMUL
                     ? 2 * SAMPLE_TOKENS * SAMPLE_HIDDEN * (uint64_t)columns
                     : (uint64_t)(SAMPLE_TOKENS * columns),
        .comm = !collective                     ? SYN_COMM_NONE
                : strcmp(op, "all_gather") == 0 ? SYN_COMM_ALL_GATHER
                                                : SYN_COMM_ALL_REDUCE,
        .reduce = collective && strcmp(op, "all_reduce") == 0 ? (int32_t)SYN_REDUCE_SUM : -1,
    };
    sample_value out;
    out.producer = b->nodes;
    out.tensor = sample_node(b, node, in, producers, y.tensor == SYN_NO_TENSOR ? 1 : 2, columns);
    return out;
}

static sample_value sample_param(sample_build *b, const char *scope, const char *name, int64_t rows,
                                 int64_t columns) {
    char full[96];
    snprintf(full, sizeof full, "%s%s%s", scope, *scope ? "." : "", name);
    const sample_value v = {
        sample_tensor(b, full, rows, columns, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR),
        SYN_NO_NODE};
    return v;
}

static sample_value sample_layer(sample_build *b, int layer, sample_value x) {
    const sample_value none = {SYN_NO_TENSOR, SYN_NO_NODE};
    const int64_t h = SAMPLE_HIDDEN, half = SAMPLE_HIDDEN / SAMPLE_RANKS;
    char attn[32], mlp[32], top[32];
    snprintf(attn, sizeof attn, "h.%d.attn", layer);
    snprintf(mlp, sizeof mlp, "h.%d.mlp", layer);
    snprintf(top, sizeof top, "h.%d", layer);
    sample_value v = sample_op(b, "layernorm", "ln_1", top, SYN_CATEGORY_NORM, x,
                               sample_param(b, top, "ln_1.weight", 1, h), h);
    v = sample_op(b, "tp_enter", "tp_enter", attn, SYN_CATEGORY_VIEW, v, none, h);
    v = sample_op(b, "linear", "qkv", attn, SYN_CATEGORY_MATMUL, v,
                  sample_param(b, attn, "c_attn.weight", h, 3 * half), 3 * half);
    v = sample_op(b, "reshape", "heads", attn, SYN_CATEGORY_VIEW, v, none, 3 * half);
    v = sample_op(b, "attention", "attention", attn, SYN_CATEGORY_ATTENTION, v, none, half);
    v = sample_op(b, "linear", "proj", attn, SYN_CATEGORY_MATMUL, v,
                  sample_param(b, attn, "c_proj.weight", half, h), h);
    v = sample_op(b, "all_reduce", "all_reduce", attn, SYN_CATEGORY_COMMUNICATION, v, none, h);
    x = sample_op(b, "add", "residual_1", top, SYN_CATEGORY_ELEMENTWISE, x, v, h);
    v = sample_op(b, "layernorm", "ln_2", top, SYN_CATEGORY_NORM, x,
                  sample_param(b, top, "ln_2.weight", 1, h), h);
    v = sample_op(b, "linear_gelu", "fc", mlp, SYN_CATEGORY_MATMUL, v,
                  sample_param(b, mlp, "c_fc.weight", h, 4 * half), 4 * half);
    v = sample_op(b, "linear", "proj", mlp, SYN_CATEGORY_MATMUL, v,
                  sample_param(b, mlp, "c_proj.weight", 4 * half, h), h);
    v = sample_op(b, "all_reduce", "all_reduce", mlp, SYN_CATEGORY_COMMUNICATION, v, none, h);
    return sample_op(b, "add", "residual_2", top, SYN_CATEGORY_ELEMENTWISE, x, v, h);
}

static void sample_rank(sample_build *b) {
    const sample_value none = {SYN_NO_TENSOR, SYN_NO_NODE};
    const sample_value tokens = {
        sample_tensor(b, "tokens", SAMPLE_TOKENS, 1, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR),
        SYN_NO_NODE};
    sample_value x = sample_op(b, "embedding", "embedding", "", SYN_CATEGORY_EMBEDDING, tokens,
                               sample_param(b, "", "wte.weight", 32, SAMPLE_HIDDEN), SAMPLE_HIDDEN);
    for (int layer = 0; layer < SAMPLE_LAYERS; layer++) x = sample_layer(b, layer, x);
    x = sample_op(b, "linear", "head", "", SYN_CATEGORY_MATMUL, x,
                  sample_param(b, "", "lm_head.weight", 16, SAMPLE_HIDDEN), 16);
    (void)sample_op(b, "all_gather", "logits", "", SYN_CATEGORY_COMMUNICATION, x, none, 16);
}

static syn_status sample_fill(syn_graph *g, syn_error *err) {
    static const int32_t ranks[SAMPLE_RANKS] = {0, 1};
    const syn_graph_group group = {1, "tp0", ranks, SAMPLE_RANKS};
    const syn_attribute model = {.name = "model", .type = SYN_VALUE_TEXT, .text = "sample"};
    const syn_attribute tp = {.name = "tp", .type = SYN_VALUE_I64, .i64 = SAMPLE_RANKS};
    SYN_TRY(syn_graph_add_group(g, &group, err));
    SYN_TRY(syn_graph_set_meta(g, &model, err));
    SYN_TRY(syn_graph_set_meta(g, &tp, err));
    for (uint32_t r = 0; r < SAMPLE_RANKS; r++) {
        sample_build b = {.graph = g, .rank = r, .status = SYN_OK, .err = err};
        sample_rank(&b);
        if (b.status != SYN_OK) return b.status;
    }
    return syn_graph_verify(g, err);
}

syn_graph *syn_test_graph(syn_error *err) {
    static const int32_t ranks[SAMPLE_RANKS] = {0, 1};
    syn_graph *graph;
    if (syn_graph_new(&graph, ranks, SAMPLE_RANKS, SAMPLE_RANKS, err) != SYN_OK) return NULL;
    if (sample_fill(graph, err) == SYN_OK) return graph;
    syn_graph_free(graph);
    return NULL;
}
