#include "tests/support/picture_more.h"
#include "tests/support/random.h"

void picture_start(picture_maker *m, int n_ranks, syn_error *err) {
    int32_t ranks[64];
    for (int i = 0; i < n_ranks; i++) ranks[i] = i;
    *m = (picture_maker){.err = err, .tp = n_ranks};
    if (syn_graph_new(&m->g, ranks, (uint32_t)n_ranks, n_ranks, err) != SYN_OK) {
        m->g = NULL;
        m->failed = true;
    }
}

syn_graph *picture_finish(picture_maker *m) {
    syn_free(m->producer);
    if (!m->failed) return m->g;
    syn_graph_free(m->g);
    return NULL;
}

syn_graph *picture_flat(uint32_t n, syn_error *err) {
    static const syn_category kinds[] = {SYN_CATEGORY_MATMUL, SYN_CATEGORY_ELEMENTWISE,
                                         SYN_CATEGORY_REDUCTION, SYN_CATEGORY_DATA_MOVEMENT,
                                         SYN_CATEGORY_OTHER};
    static const char *const names[] = {"aten::mm", "aten::add", "aten::sum", "aten::copy_",
                                        "aten::custom"};
    picture_maker m;
    uint64_t seed = 7;
    picture_start(&m, 1, err);
    uint32_t last = picture_tensor(&m, "x", PICTURE_F32(1, (int64_t)1000), SYN_TENSOR_INPUT,
                                   SYN_NO_NODE, SYN_NO_TENSOR);
    for (uint32_t i = 0; i < n && !m.failed; i++) {
        const uint32_t k = random_u32(&seed) % 5, back = random_u32(&seed) % 100;
        const uint32_t far =
            back < 60 || last < 40 ? last : last - random_u32(&seed) % (back < 90 ? 4 : 40);
        const picture_op op = {
            .op = names[k], .label = names[k], .category = kinds[k], .flops = 1000};
        last = picture_add(&m, op, PICTURE_F32(1, (int64_t)1000), PICTURE_IN(last, far));
    }
    return picture_finish(&m);
}

syn_graph *picture_bare(uint32_t n, syn_error *err) {
    picture_maker m;
    picture_start(&m, 1, err);
    for (uint32_t i = 0; i < n && !m.failed; i++) {
        const syn_dep deps[2] = {{i > 1 ? i - 2 : 0, i > 1 ? SYN_DEP_CONTROL : SYN_DEP_DATA},
                                 {i - 1, SYN_DEP_DATA}};
        const syn_node node = {.id = i + 1,
                               .category = SYN_CATEGORY_MATMUL,
                               .op = "comp",
                               .label = "comp",
                               .scope = "",
                               .deps = deps,
                               .n_deps = i == 0   ? 0
                                         : i == 1 ? 1
                                                  : 2,
                               .flops = 5000,
                               .reduce = -1,
                               .peer = -1,
                               .tag = -1,
                               .root = -1,
                               .start_ns = SYN_NO_TIME,
                               .wall_ns = 1500.0 * (1 + i % 3),
                               .cpu_ns = SYN_NO_TIME,
                               .wait_ns = SYN_NO_TIME,
                               .predicted_ns = SYN_NO_TIME};
        if (syn_graph_add_node(m.g, 0, &node, err) != SYN_OK) m.failed = true;
    }
    return picture_finish(&m);
}

uint32_t picture_message(picture_maker *m, bool send, uint32_t x, int32_t peer, int32_t tag,
                         syn_spec spec) {
    uint32_t made = 0;
    char name[96];
    snprintf(name, sizeof name, "%s/recv:0", m->scope);
    if (!send) made = picture_tensor(m, name, spec, 0, m->n_nodes, SYN_NO_TENSOR);
    const syn_dep dep = {send ? m->producer[x] : 0, SYN_DEP_DATA};
    const syn_node node = {.id = m->n_nodes + 1,
                           .kind = send ? SYN_NODE_SEND : SYN_NODE_RECV,
                           .category = SYN_CATEGORY_COMMUNICATION,
                           .op = send ? "send" : "recv",
                           .label = send ? "send" : "recv",
                           .scope = m->scope,
                           .inputs = &x,
                           .outputs = &made,
                           .n_inputs = send,
                           .n_outputs = !send,
                           .deps = &dep,
                           .n_deps = send,
                           .comm = send ? SYN_COMM_SEND : SYN_COMM_RECV,
                           .comm_bytes = syn_spec_bytes(&spec),
                           .comm_index = m->n_comms++,
                           .reduce = -1,
                           .peer = peer,
                           .tag = tag,
                           .root = -1,
                           .start_ns = SYN_NO_TIME,
                           .wall_ns = SYN_NO_TIME,
                           .cpu_ns = SYN_NO_TIME,
                           .wait_ns = SYN_NO_TIME,
                           .predicted_ns = SYN_NO_TIME};
    if (!m->failed && syn_graph_add_node(m->g, m->rank, &node, m->err) != SYN_OK) m->failed = true;
    m->n_nodes++;
    return made;
}

syn_graph *picture_pipeline(int stages, int batches, syn_error *err) {
    picture_maker m;
    const syn_spec spec = PICTURE_F32(2, (int64_t)64, (int64_t)64);
    picture_start(&m, stages, err);
    for (int r = 0; r < stages && !m.failed; r++) {
        m.rank = (uint32_t)r;
        m.n_nodes = m.n_tensors = m.n_comms = 0;
        const uint32_t input =
            picture_tensor(&m, "batch", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        for (int b = 0; b < batches; b++) {
            picture_scope(&m, "pipe");
            uint32_t x = r > 0 ? picture_message(&m, false, 0, r - 1, b, spec) : input;
            for (int i = 0; i < 2; i++) {
                picture_scope(&m, "h.%d.mlp", 2 * r + i);
                x = picture_linear(&m, "fc", spec, 64, x, x, SYN_NO_TENSOR);
            }
            picture_scope(&m, "pipe");
            if (r + 1 < stages) picture_message(&m, true, x, r + 1, b, spec);
        }
    }
    return picture_finish(&m);
}

syn_graph *picture_training(int layers, int steps, syn_error *err) {
    picture_maker m;
    const syn_spec x_spec = PICTURE_F32(2, (int64_t)32, (int64_t)64),
                   w_spec = PICTURE_F32(2, (int64_t)64, (int64_t)64);
    uint32_t weight[64], saved[64], gradient[64];
    picture_start(&m, 1, err);
    for (int i = 0; i < layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%d.mlp.weight", i);
        weight[i] = picture_tensor(&m, name, w_spec, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR);
    }
    for (int s = 0; s < steps && !m.failed; s++) {
        uint32_t x =
            picture_tensor(&m, "batch", x_spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        m.step = (uint32_t)s;
        m.phase = SYN_PHASE_FORWARD;
        for (int i = 0; i < layers; i++) {
            picture_scope(&m, "h.%d.mlp", i);
            saved[i] = x;
            uint32_t y = picture_linear(&m, "fc", x_spec, 64, x, weight[i], SYN_NO_TENSOR);
            y = picture_add(
                &m,
                (picture_op){.op = "gelu", .label = "gelu", .category = SYN_CATEGORY_ELEMENTWISE},
                x_spec, PICTURE_IN(y));
            x = picture_sum(&m, "residual", x_spec, x, y);
        }
        picture_scope(&m, "loss");
        x = picture_add(&m,
                        (picture_op){.op = "cross_entropy",
                                     .label = "loss",
                                     .category = SYN_CATEGORY_REDUCTION},
                        PICTURE_F32(1, (int64_t)1), PICTURE_IN(x));
        m.phase = SYN_PHASE_BACKWARD;
        x = picture_add(&m,
                        (picture_op){.op = "cross_entropy_grad",
                                     .label = "d_loss",
                                     .category = SYN_CATEGORY_ELEMENTWISE},
                        x_spec, PICTURE_IN(x));
        for (int i = layers; i-- > 0;) {
            picture_scope(&m, "h.%d.mlp", i);
            gradient[i] = picture_linear(&m, "d_weight", w_spec, 32, x, saved[i], SYN_NO_TENSOR);
            x = picture_linear(&m, "d_x", x_spec, 64, x, weight[i], SYN_NO_TENSOR);
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

syn_graph *picture_hostile(syn_error *err) {
    static const char *const names[] = {
        "<b>&\"\\N\\\"",
        "a\nb\tc",
        "\xff\xfe bad",
        "h.1.\xE4\xBD\xA0.{x|y}",
        "",
        "very long name very long name very long name very long name very long name"};
    picture_maker m;
    picture_start(&m, 1, err);
    uint32_t x = picture_tensor(&m, names[0], PICTURE_F32(1, (int64_t)0), SYN_TENSOR_INPUT,
                                SYN_NO_NODE, SYN_NO_TENSOR);
    for (int i = 0; i < 6; i++) {
        picture_scope(&m, "%s", names[(i + 2) % 6]);
        const picture_op op = {
            .op = names[i], .label = names[(i + 1) % 6], .category = (syn_category)i};
        x = picture_add(&m, op, PICTURE_F32(1, (int64_t)INT32_MAX), PICTURE_IN(x, x));
    }
    picture_meta(&m, "mo<del", "<&>\"", 0);
    return picture_finish(&m);
}
