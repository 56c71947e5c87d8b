/* Implements picture_graphs.h with the functions that any graph is built with. */
#include "tests/support/picture_graphs.h"

#include <stdarg.h>

#include "syntorch/base/memory.h"
#include "tests/support/graphs.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

uint32_t picture_tensor(picture_maker *m, const char *name, syn_spec spec, uint32_t flags,
                        uint32_t producer, uint32_t base) {
    const syn_graph_tensor t = {.name = name,
                                .spec = spec,
                                .flags = flags,
                                .producer = producer,
                                .base = base == SYN_NO_TENSOR ? m->n_tensors : base};
    syn_error err = {0};
    NEED_OK(syn_graph_add_tensor(m->g, m->rank, &t, &err), err);
    NEED_OK(syn_grow(&m->producer, &m->producer_cap, m->n_tensors + 1, sizeof *m->producer, &err),
            err);
    m->producer[m->n_tensors] = producer;
    return m->n_tensors++;
}

uint32_t picture_add(picture_maker *m, picture_op op, syn_spec out, uint32_t n_inputs,
                     const uint32_t *inputs) {
    char name[160];
    snprintf(name, sizeof name, "%s/%s:0", m->scope, op.label);
    const uint32_t made =
        picture_tensor(m, name, out, 0, m->n_nodes, op.base > 0 ? op.base - 1 : SYN_NO_TENSOR);
    const uint64_t bytes = syn_spec_bytes(&out);
    syn_dep deps[4];
    uint32_t n_deps = 0;
    for (uint32_t i = 0; i < n_inputs; i++) { /* sorted, without duplicates */
        const uint32_t from = m->producer[inputs[i]];
        uint32_t at = n_deps;
        while (at > 0 && deps[at - 1].node >= from) at--;
        if (from == SYN_NO_NODE || (at < n_deps && deps[at].node == from)) continue;
        memmove(&deps[at + 1], &deps[at], (n_deps - at) * sizeof *deps);
        deps[at] = (syn_dep){from, SYN_DEP_DATA};
        n_deps++;
    }
    syn_error err = {0};
    const bool view = (op.flags & SYN_NODE_VIRTUAL) != 0;
    syn_node n = plain_node(m->n_nodes + 1, op.op);
    n.category = op.category;
    n.flags = op.flags;
    n.phase = m->phase;
    n.step = m->step;
    n.label = op.label;
    n.scope = m->scope;
    n.inputs = inputs;
    n.outputs = &made;
    n.n_inputs = n_inputs;
    n.n_outputs = 1;
    n.deps = deps;
    n.n_deps = n_deps;
    if (op.category == SYN_CATEGORY_COMMUNICATION) {
        n.kind = SYN_NODE_COLLECTIVE;
        n.comm = SYN_COMM_ALL_REDUCE;
        n.comm_bytes = bytes;
        n.comm_index = m->n_comms++;
    }
    n.flops = op.flops;
    n.bytes_read = view ? 0 : bytes * n_inputs;
    n.bytes_written = view ? 0 : bytes;
    NEED_OK(syn_graph_add_node(m->g, m->rank, &n, &err), err);
    m->n_nodes++;
    return made;
}

void picture_scope(picture_maker *m, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->scope, sizeof m->scope, fmt, args);
    va_end(args);
}

uint32_t picture_view(picture_maker *m, const char *op, const char *label, syn_spec out,
                      uint32_t x) {
    return picture_add(
        m,
        (picture_op){
            .op = op, .label = label, .category = SYN_CATEGORY_VIEW, .flags = SYN_NODE_VIRTUAL},
        out, PICTURE_IN(x));
}

static uint32_t picture_linear(picture_maker *m, const char *label, syn_spec out, int64_t inner,
                               uint32_t x, uint32_t weight) {
    const picture_op op = {.op = "linear",
                           .label = label,
                           .category = SYN_CATEGORY_MATMUL,
                           .flops = 2 * (uint64_t)(syn_spec_elems(&out) * inner)};
    return picture_add(m, op, out, PICTURE_IN(x, weight));
}

/* Adds an op of the given category, labelled with its name, that reads x. */
static uint32_t picture_unary(picture_maker *m, const char *op, syn_category category, syn_spec out,
                              uint32_t x) {
    return picture_add(m, (picture_op){.op = op, .label = op, .category = category}, out,
                       PICTURE_IN(x));
}

void picture_start(picture_maker *m, int n_ranks) {
    int32_t ranks[64];
    syn_error err = {0};
    for (int i = 0; i < n_ranks; i++) ranks[i] = i;
    *m = (picture_maker){.rank = 0};
    NEED_OK(syn_graph_new(&m->g, ranks, (uint32_t)n_ranks, n_ranks, &err), err);
}

syn_graph *picture_finish(picture_maker *m) {
    syn_free(m->producer);
    return m->g;
}

syn_graph *picture_flat(uint32_t n) {
    static const syn_category kinds[] = {SYN_CATEGORY_MATMUL, SYN_CATEGORY_ELEMENTWISE,
                                         SYN_CATEGORY_REDUCTION, SYN_CATEGORY_DATA_MOVEMENT,
                                         SYN_CATEGORY_OTHER};
    static const char *const names[] = {"aten::mm", "aten::add", "aten::sum", "aten::copy_",
                                        "aten::custom"};
    picture_maker m;
    uint64_t seed = 7;
    picture_start(&m, 1);
    uint32_t last =
        picture_tensor(&m, "x", PICTURE_F32(1, 1000), SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = random_u32(&seed) % 5, back = random_u32(&seed) % 100;
        const uint32_t far =
            back < 60 || last < 40 ? last : last - random_u32(&seed) % (back < 90 ? 4 : 40);
        const picture_op op = {
            .op = names[k], .label = names[k], .category = kinds[k], .flops = 1000};
        last = picture_add(&m, op, PICTURE_F32(1, 1000), PICTURE_IN(last, far));
    }
    return picture_finish(&m);
}

syn_graph *picture_bare(uint32_t n) {
    picture_maker m;
    syn_error err = {0};
    picture_start(&m, 1);
    for (uint32_t i = 0; i < n; i++) {
        const syn_dep deps[2] = {{i > 1 ? i - 2 : 0, i > 1 ? SYN_DEP_CONTROL : SYN_DEP_DATA},
                                 {i - 1, SYN_DEP_DATA}};
        syn_node node = plain_node(i + 1, "comp");
        node.category = SYN_CATEGORY_MATMUL;
        node.deps = deps;
        node.n_deps = i < 2 ? i : 2;
        node.flops = 5000;
        node.wall_ns = 1500.0 * (1 + i % 3);
        NEED_OK(syn_graph_add_node(m.g, 0, &node, &err), err);
    }
    return picture_finish(&m);
}

uint32_t picture_message(picture_maker *m, bool send, uint32_t x, int32_t peer, int32_t tag,
                         syn_spec spec) {
    uint32_t made = 0;
    char name[96];
    syn_error err = {0};
    snprintf(name, sizeof name, "%s/recv:0", m->scope);
    if (!send) made = picture_tensor(m, name, spec, 0, m->n_nodes, SYN_NO_TENSOR);
    const syn_dep dep = {send ? m->producer[x] : 0, SYN_DEP_DATA};
    syn_node node = plain_node(m->n_nodes + 1, send ? "send" : "recv");
    node.kind = send ? SYN_NODE_SEND : SYN_NODE_RECV;
    node.category = SYN_CATEGORY_COMMUNICATION;
    node.scope = m->scope;
    node.inputs = &x;
    node.outputs = &made;
    node.n_inputs = send;
    node.n_outputs = !send;
    node.deps = &dep;
    node.n_deps = send;
    node.comm = send ? SYN_COMM_SEND : SYN_COMM_RECV;
    node.comm_bytes = syn_spec_bytes(&spec);
    node.comm_index = m->n_comms++;
    node.peer = peer;
    node.tag = tag;
    NEED_OK(syn_graph_add_node(m->g, m->rank, &node, &err), err);
    m->n_nodes++;
    return made;
}

syn_graph *picture_pipeline(int stages, int batches) {
    picture_maker m;
    const syn_spec spec = PICTURE_F32(2, 64, 64);
    picture_start(&m, stages);
    for (int r = 0; r < stages; r++) {
        m.rank = (uint32_t)r;
        m.n_nodes = m.n_tensors = m.n_comms = 0;
        const uint32_t input =
            picture_tensor(&m, "batch", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        for (int b = 0; b < batches; b++) {
            picture_scope(&m, "pipe");
            uint32_t x = r > 0 ? picture_message(&m, false, 0, r - 1, b, spec) : input;
            for (int i = 0; i < 2; i++) {
                picture_scope(&m, "h.%d.mlp", 2 * r + i);
                x = picture_linear(&m, "fc", spec, 64, x, x);
            }
            picture_scope(&m, "pipe");
            if (r + 1 < stages) picture_message(&m, true, x, r + 1, b, spec);
        }
    }
    return picture_finish(&m);
}

syn_graph *picture_training(int layers, int steps, int odd) {
    picture_maker m;
    const syn_spec x_spec = PICTURE_F32(2, 32, 64), w_spec = PICTURE_F32(2, 64, 64);
    uint32_t weight[64], saved[64], gradient[64];
    picture_start(&m, 1);
    for (int i = 0; i < layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%d.mlp.weight", i);
        weight[i] = picture_tensor(&m, name, w_spec, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR);
    }
    for (int s = 0; s < steps; s++) {
        uint32_t x =
            picture_tensor(&m, "batch", x_spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        m.step = (uint32_t)s;
        m.phase = SYN_PHASE_FORWARD;
        for (int i = 0; i < layers; i++) {
            picture_scope(&m, "h.%d.mlp", i);
            saved[i] = x;
            uint32_t y = picture_linear(&m, "fc", x_spec, 64, x, weight[i]);
            if (i != odd) y = picture_unary(&m, "gelu", SYN_CATEGORY_ELEMENTWISE, x_spec, y);
            const picture_op add = {
                .op = "add", .label = "residual", .category = SYN_CATEGORY_ELEMENTWISE};
            x = picture_add(&m, add, x_spec, PICTURE_IN(x, y));
        }
        picture_scope(&m, "loss");
        x = picture_unary(&m, "cross_entropy", SYN_CATEGORY_REDUCTION, PICTURE_F32(1, 1), x);
        m.phase = SYN_PHASE_BACKWARD;
        x = picture_unary(&m, "cross_entropy_grad", SYN_CATEGORY_ELEMENTWISE, x_spec, x);
        for (int i = layers; i-- > 0;) {
            picture_scope(&m, "h.%d.mlp", i);
            gradient[i] = picture_linear(&m, "d_weight", w_spec, 32, x, saved[i]);
            x = picture_linear(&m, "d_x", x_spec, 64, x, weight[i]);
        }
        m.phase = SYN_PHASE_OPTIMIZER;
        for (int i = 0; i < layers; i++) {
            picture_scope(&m, "h.%d.mlp", i);
            weight[i] = picture_add(&m,
                                    (picture_op){.op = "adamw",
                                                 .label = "adamw",
                                                 .category = SYN_CATEGORY_ELEMENTWISE,
                                                 .base = (uint32_t)i + 1},
                                    w_spec, PICTURE_IN(weight[i], gradient[i]));
        }
    }
    return picture_finish(&m);
}

syn_graph *picture_hostile(void) {
    static const char *const names[] = {
        "<b>&\"\\N\\\"",
        "a\nb\tc",
        "\xff\xfe bad",
        "h.1.\xE4\xBD\xA0.{x|y}",
        "",
        "very long name very long name very long name very long name very long name"};
    picture_maker m;
    syn_error err = {0};
    picture_start(&m, 1);
    uint32_t x = picture_tensor(&m, names[0], PICTURE_F32(1, 0), SYN_TENSOR_INPUT, SYN_NO_NODE,
                                SYN_NO_TENSOR);
    for (int i = 0; i < 6; i++) {
        picture_scope(&m, "%s", names[(i + 2) % 6]);
        const picture_op op = {
            .op = names[i], .label = names[(i + 1) % 6], .category = (syn_category)i};
        x = picture_add(&m, op, PICTURE_F32(1, INT32_MAX), PICTURE_IN(x, x));
    }
    static const char *const unnamed[] = {"", " ", "x/", "///"}; /* Graphviz rejects empty texts */
    for (int i = 0; i < 4; i++) {
        const uint32_t w = picture_tensor(&m, unnamed[i], PICTURE_F32(1, 4), SYN_TENSOR_PARAM,
                                          SYN_NO_NODE, SYN_NO_TENSOR);
        x = picture_add(&m, (picture_op){.op = i % 2 == 0 ? "" : " ", .label = ""},
                        PICTURE_F32(1, 4), PICTURE_IN(x, w));
    }
    const syn_attribute model = {.name = "mo<del", .type = SYN_VALUE_TEXT, .text = "<&>\""};
    NEED_OK(syn_graph_set_meta(m.g, &model, &err), err);
    return picture_finish(&m);
}
