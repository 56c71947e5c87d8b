#include "tests/support/text_sample.h"

syn_node text_node(uint64_t id, const char *op) {
    return (syn_node){.id = id,
                      .op = op,
                      .label = op,
                      .scope = "",
                      .reduce = -1,
                      .peer = -1,
                      .tag = -1,
                      .root = -1,
                      .start_ns = SYN_NO_TIME,
                      .wall_ns = SYN_NO_TIME,
                      .cpu_ns = SYN_NO_TIME,
                      .wait_ns = SYN_NO_TIME,
                      .predicted_ns = SYN_NO_TIME};
}

syn_status text_tensor(syn_graph *g, uint32_t rank, const char *name, uint32_t flags,
                       uint32_t producer, uint32_t base, int32_t dim, syn_error *err) {
    const syn_graph_tensor t = {.name = name,
                                .spec = {SYN_F32, 2, {dim, 8}},
                                .flags = flags,
                                .producer = producer,
                                .base = base};
    return syn_graph_add_tensor(g, rank, &t, err);
}

static syn_status text_facts(syn_graph *g, syn_error *err) {
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

/* Tensors of a rank: 0 x (input), 1 w (parameter), 2 x*x, 3 view of 2, 4 its sum over ranks, 5
   cache (state), 6 received or sent */
static syn_status text_tensors(syn_graph *g, uint32_t r, syn_error *err) {
    SYN_TRY(text_tensor(g, r, "x", SYN_TENSOR_INPUT, SYN_NO_NODE, 0, 4, err));
    SYN_TRY(text_tensor(g, r, "h.0.w", SYN_TENSOR_PARAM, SYN_NO_NODE, 1, 4, err));
    SYN_TRY(text_tensor(g, r, "h.0/mul:0", 0, 0, 2, 4, err));
    SYN_TRY(text_tensor(g, r, "h.0/view:0", SYN_TENSOR_VIEW, 1, 2, 4, err));
    SYN_TRY(text_tensor(g, r, "h.0/sum:0", 0, 2, 4, 4, err));
    SYN_TRY(
        text_tensor(g, r, "cache", SYN_TENSOR_STATE | SYN_TENSOR_INPUT, SYN_NO_NODE, 5, 0, err));
    return text_tensor(g, r, "h.0/pipe:0", r == 0 ? SYN_TENSOR_STATE : 0, r == 0 ? SYN_NO_NODE : 3,
                       6, 4, err);
}

static syn_status text_mul(syn_graph *g, uint32_t r, syn_error *err) {
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
    syn_node n = text_node(5, "mul");
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

static syn_status text_view(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t in[1] = {2}, out[1] = {3};
    static const syn_dep deps[1] = {{0, SYN_DEP_DATA}};
    syn_node n = text_node(2, "view");
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

static syn_status text_collective(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t in[1] = {3}, out[1] = {4};
    static const syn_dep deps[4] = {
        {0, SYN_DEP_CONTROL}, {0, SYN_DEP_INPLACE}, {1, SYN_DEP_DATA}, {1, SYN_DEP_STREAM}};
    syn_node n = text_node(7, "all_reduce");
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

/* Rank 0 sends what rank 1 receives. */
static syn_status text_p2p(syn_graph *g, uint32_t r, syn_error *err) {
    static const uint32_t sent[1] = {4}, received[1] = {6};
    static const syn_dep deps[1] = {{2, SYN_DEP_DATA}};
    syn_node n = text_node(UINT64_MAX, r == 0 ? "send" : "recv");
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

/* A node that overlaps others in time, waits for one of a class alone, and has no tensors. */
static syn_status text_last(syn_graph *g, uint32_t r, syn_error *err) {
    static const syn_dep deps[2] = {{1, SYN_DEP_LAUNCH}, {2, SYN_DEP_DATA}};
    syn_node n = text_node(8, "free");
    n.kind = SYN_NODE_MEMORY;
    n.phase = SYN_PHASE_OPTIMIZER;
    n.deps = deps;
    n.n_deps = 2;
    n.start_ns = 500;
    n.wall_ns = 5000;
    return syn_graph_add_node(g, r, &n, err);
}

syn_status text_sample(syn_graph **out, syn_error *err) {
    static const int32_t ranks[2] = {0, 1};
    syn_graph *g = NULL;
    SYN_TRY(syn_graph_new(&g, ranks, 2, 3, err));
    syn_status s = text_facts(g, err);
    for (uint32_t r = 0; r < 2 && s == SYN_OK; r++) {
        s = text_tensors(g, r, err);
        if (s == SYN_OK) s = text_mul(g, r, err);
        if (s == SYN_OK) s = text_view(g, r, err);
        if (s == SYN_OK) s = text_collective(g, r, err);
        if (s == SYN_OK) s = text_p2p(g, r, err);
        if (s == SYN_OK) s = text_last(g, r, err);
    }
    if (s == SYN_OK) s = syn_graph_verify(g, err);
    if (s != SYN_OK) syn_graph_free(g);
    else *out = g;
    return s;
}

/* ---- Comparing ---- */

static int text_same_attributes(const syn_attribute *a, uint32_t n_a, const syn_attribute *b,
                                uint32_t n_b) {
    if (n_a != n_b) return 0;
    for (uint32_t i = 0; i < n_a; i++) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].type != b[i].type) return 0;
        if (a[i].type == SYN_VALUE_TEXT && strcmp(a[i].text, b[i].text) != 0) return 0;
        if (a[i].type == SYN_VALUE_F64 && memcmp(&a[i].f64, &b[i].f64, sizeof(double)) != 0)
            return 0;
        if ((a[i].type == SYN_VALUE_I64 || a[i].type == SYN_VALUE_BOOL) && a[i].i64 != b[i].i64)
            return 0;
    }
    return 1;
}

static int text_same_u32(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b) {
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof *a) == 0);
}

/* The first field in which two nodes differ, or NULL. */
static const char *text_node_difference(const syn_node *a, const syn_node *b) {
#define FIELD(name) \
    if (a->name != b->name) return #name
    FIELD(id);
    FIELD(kind);
    FIELD(category);
    FIELD(flags);
    FIELD(phase);
    FIELD(step);
    FIELD(stream);
    FIELD(flops);
    FIELD(bytes_read);
    FIELD(bytes_written);
    if (a->kind == SYN_NODE_COLLECTIVE || a->kind == SYN_NODE_SEND || a->kind == SYN_NODE_RECV) {
        FIELD(comm);
        FIELD(reduce);
        FIELD(group);
        FIELD(comm_bytes);
        FIELD(comm_index);
        FIELD(peer);
        FIELD(tag);
        FIELD(root);
    }
    FIELD(start_ns);
    FIELD(wall_ns);
    FIELD(cpu_ns);
    FIELD(wait_ns);
    FIELD(predicted_ns);
    FIELD(n_deps);
#undef FIELD
    if (strcmp(a->op, b->op) != 0) return "op";
    if (strcmp(a->label, b->label) != 0) return "label";
    if (strcmp(a->scope, b->scope) != 0) return "scope";
    if (!text_same_u32(a->inputs, a->n_inputs, b->inputs, b->n_inputs)) return "inputs";
    if (!text_same_u32(a->outputs, a->n_outputs, b->outputs, b->n_outputs)) return "outputs";
    for (uint32_t i = 0; i < a->n_deps; i++) {
        if (a->deps[i].node != b->deps[i].node || a->deps[i].dep_class != b->deps[i].dep_class)
            return "deps";
    }
    if (!text_same_attributes(a->attributes, a->n_attributes, b->attributes, b->n_attributes))
        return "attributes";
    return NULL;
}

static const char *text_tensor_difference(const syn_graph_tensor *a, const syn_graph_tensor *b) {
    if (strcmp(a->name, b->name) != 0) return "name";
    if (!syn_spec_equal(&a->spec, &b->spec)) return "spec";
    if (a->flags != b->flags) return "flags";
    if (a->producer != b->producer) return "producer";
    return a->base != b->base ? "base" : NULL;
}

static const char *text_rank_difference(const syn_graph *a, const syn_graph *b, uint32_t r) {
    syn_cursor ca = {0}, cb = {0};
    const char *what = NULL;
    if (a->ranks[r].rank != b->ranks[r].rank) return "rank";
    if (a->ranks[r].n_nodes != b->ranks[r].n_nodes) return "n_nodes";
    if (a->ranks[r].n_tensors != b->ranks[r].n_tensors) return "n_tensors";
    for (uint32_t i = 0; i < a->ranks[r].n_nodes && what == NULL; i++) {
        const syn_node *x = syn_graph_node(a, r, i, &ca), *y = syn_graph_node(b, r, i, &cb);
        what = x != NULL && y != NULL ? text_node_difference(x, y) : "node";
    }
    for (uint32_t i = 0; i < a->ranks[r].n_tensors && what == NULL; i++) {
        const syn_graph_tensor *x = syn_graph_tensor_at(a, r, i, &ca);
        const syn_graph_tensor *y = syn_graph_tensor_at(b, r, i, &cb);
        what = x != NULL && y != NULL ? text_tensor_difference(x, y) : "tensor";
    }
    syn_cursor_free(&ca);
    syn_cursor_free(&cb);
    return what;
}

const char *text_difference(const syn_graph *a, const syn_graph *b) {
    if (a->n_ranks != b->n_ranks || a->world_size != b->world_size) return "ranks";
    if (!text_same_attributes(a->metadata, a->n_metadata, b->metadata, b->n_metadata))
        return "metadata";
    if (a->n_groups != b->n_groups) return "n_groups";
    for (uint32_t i = 0; i < a->n_groups; i++) {
        const syn_graph_group *x = &a->groups[i], *y = &b->groups[i];
        if (x->id != y->id || strcmp(x->name, y->name) != 0 || x->n_ranks != y->n_ranks ||
            memcmp(x->ranks, y->ranks, x->n_ranks * sizeof *x->ranks) != 0)
            return "groups";
    }
    for (uint32_t r = 0; r < a->n_ranks; r++) {
        const char *what = text_rank_difference(a, b, r);
        if (what != NULL) return what;
    }
    return NULL;
}
