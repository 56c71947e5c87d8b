#include "tests/support/picture_graph.h"

syn_spec picture_spec(syn_dtype dtype, int rank, ...) {
    syn_spec s = {.dtype = (int32_t)dtype, .rank = rank};
    va_list dims;
    va_start(dims, rank);
    for (int i = 0; i < rank; i++) s.dims[i] = va_arg(dims, int64_t);
    va_end(dims);
    return s;
}

uint32_t picture_tensor(picture_maker *m, const char *name, syn_spec spec, uint32_t flags,
                        uint32_t producer, uint32_t base) {
    const syn_graph_tensor t = {.name = name,
                                .spec = spec,
                                .flags = flags,
                                .producer = producer,
                                .base = base == SYN_NO_TENSOR ? m->n_tensors : base};
    if (!m->failed && syn_graph_add_tensor(m->g, m->rank, &t, m->err) != SYN_OK) m->failed = true;
    if (!m->failed && syn_grow(&m->producer, &m->producer_cap, m->n_tensors + 1,
                               sizeof *m->producer, m->err) != SYN_OK)
        m->failed = true;
    if (!m->failed) m->producer[m->n_tensors] = producer;
    return m->n_tensors++;
}

uint32_t picture_add(picture_maker *m, picture_op op, syn_spec out, uint32_t n_inputs,
                     const uint32_t *inputs) {
    char name[160];
    snprintf(name, sizeof name, "%s/%s:0", m->scope, op.label);
    const uint32_t made = picture_tensor(m, name, out, op.out_flags, m->n_nodes,
                                         op.base > 0 ? op.base - 1 : SYN_NO_TENSOR);
    const uint64_t bytes = syn_spec_bytes(&out);
    syn_dep deps[4];
    uint32_t n_deps = 0;
    for (uint32_t i = 0; i < n_inputs && !m->failed; i++) { /* ascending, each once */
        const uint32_t from = m->producer[inputs[i]];
        uint32_t at = n_deps;
        while (at > 0 && deps[at - 1].node >= from) at--;
        if (from == SYN_NO_NODE || (at < n_deps && deps[at].node == from)) continue;
        memmove(&deps[at + 1], &deps[at], (n_deps - at) * sizeof *deps);
        deps[at] = (syn_dep){from, SYN_DEP_DATA};
        n_deps++;
    }
    syn_node n = {.id = m->n_nodes + 1,
                  .kind = op.comm != SYN_COMM_NONE ? SYN_NODE_COLLECTIVE : SYN_NODE_COMPUTE,
                  .category = op.category,
                  .flags = op.flags,
                  .phase = m->phase,
                  .step = m->step,
                  .op = op.op,
                  .label = op.label,
                  .scope = m->scope,
                  .inputs = inputs,
                  .outputs = &made,
                  .n_inputs = n_inputs,
                  .n_outputs = 1,
                  .deps = deps,
                  .n_deps = n_deps,
                  .flops = op.flops,
                  .bytes_read = (op.flags & SYN_NODE_VIRTUAL) != 0 ? 0 : bytes * n_inputs,
                  .bytes_written = (op.flags & SYN_NODE_VIRTUAL) != 0 ? 0 : bytes,
                  .comm = op.comm,
                  .reduce = op.comm == SYN_COMM_ALL_REDUCE ? (int32_t)SYN_REDUCE_SUM : -1,
                  .peer = -1,
                  .tag = -1,
                  .root = op.comm == SYN_COMM_BROADCAST ? 0 : -1,
                  .start_ns = SYN_NO_TIME,
                  .wall_ns = SYN_NO_TIME,
                  .cpu_ns = SYN_NO_TIME,
                  .wait_ns = SYN_NO_TIME,
                  .predicted_ns = SYN_NO_TIME};
    if (op.comm != SYN_COMM_NONE) {
        n.group = 1;
        n.comm_bytes = op.comm == SYN_COMM_ALL_GATHER ? bytes / (uint64_t)m->tp : bytes;
        n.comm_index = m->n_comms++;
    }
    if (!m->failed && syn_graph_add_node(m->g, m->rank, &n, m->err) != SYN_OK) m->failed = true;
    m->n_nodes++;
    return made;
}

void picture_scope(picture_maker *m, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->scope, sizeof m->scope, fmt, args);
    va_end(args);
}

static uint32_t picture_comm(picture_maker *m, syn_comm_kind kind, syn_spec out, uint32_t x) {
    if (m->tp == 1) return x;
    const char *name = syn_comm_kind_name(kind);
    return picture_add(
        m,
        (picture_op){
            .op = name, .label = name, .category = SYN_CATEGORY_COMMUNICATION, .comm = kind},
        out, PICTURE_IN(x));
}

uint32_t picture_view(picture_maker *m, const char *op, const char *label, syn_spec out,
                      uint32_t x) {
    return picture_add(
        m,
        (picture_op){
            .op = op, .label = label, .category = SYN_CATEGORY_VIEW, .flags = SYN_NODE_VIRTUAL},
        out, PICTURE_IN(x));
}

static uint32_t picture_param(picture_maker *m, const char *layer, const char *name,
                              syn_spec spec) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", layer, name);
    return picture_tensor(m, full, spec, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR);
}

static void picture_params(picture_maker *m, const picture_gpt *c) {
    const int64_t w = c->width, part = w / c->tp;
    m->param[127][0] = picture_param(m, "", "wte.weight", PICTURE_F32(2, c->vocab / c->tp, w));
    m->param[127][1] = picture_param(m, "", "wpe.weight", PICTURE_F32(2, (int64_t)128, w));
    for (int i = 0; i < c->layers; i++) {
        char at[32];
        uint32_t *p = m->param[i];
        snprintf(at, sizeof at, "h.%d.", i);
        p[0] = picture_param(m, at, "ln_1.weight", PICTURE_F32(1, w));
        p[1] = picture_param(m, at, "ln_1.bias", PICTURE_F32(1, w));
        p[2] = picture_param(m, at, "attn.c_attn.weight", PICTURE_F32(2, w, 3 * part));
        p[3] = picture_param(m, at, "attn.c_attn.bias", PICTURE_F32(1, 3 * part));
        p[4] = picture_param(m, at, "attn.c_proj.weight", PICTURE_F32(2, part, w));
        p[5] = picture_param(m, at, "attn.c_proj.bias", PICTURE_F32(1, w));
        p[6] = picture_param(m, at, "ln_2.weight", PICTURE_F32(1, w));
        p[7] = picture_param(m, at, "ln_2.bias", PICTURE_F32(1, w));
        p[8] = picture_param(m, at, "mlp.c_fc.weight", PICTURE_F32(2, w, 4 * part));
        p[9] = picture_param(m, at, "mlp.c_fc.bias", PICTURE_F32(1, 4 * part));
        p[10] = picture_param(m, at, "mlp.c_proj.weight", PICTURE_F32(2, 4 * part, w));
        p[11] = picture_param(m, at, "mlp.c_proj.bias", PICTURE_F32(1, w));
        const syn_spec cache =
            PICTURE_F32(4, (int64_t)1, (int64_t)(c->heads / c->tp), (int64_t)128, w / c->heads);
        for (int k = 12; k < 14; k++) {
            char name[48];
            snprintf(name, sizeof name, "h.%d.attn.%c_cache", i, k == 12 ? 'k' : 'v');
            p[k] = p[k + 2] =
                picture_tensor(m, name, cache, SYN_TENSOR_STATE, SYN_NO_NODE, SYN_NO_TENSOR);
        }
    }
    m->param[126][0] = picture_param(m, "", "ln_f.weight", PICTURE_F32(1, w));
    m->param[126][1] = picture_param(m, "", "ln_f.bias", PICTURE_F32(1, w));
}

static uint32_t picture_norm(picture_maker *m, const char *label, syn_spec spec, uint32_t x,
                             uint32_t weight, uint32_t bias) {
    return picture_add(m,
                       (picture_op){.op = "layernorm",
                                    .label = label,
                                    .category = SYN_CATEGORY_NORM,
                                    .flops = 8 * (uint64_t)syn_spec_elems(&spec)},
                       spec, PICTURE_IN(x, weight, bias));
}

uint32_t picture_linear(picture_maker *m, const char *label, syn_spec out, int64_t inner,
                        uint32_t x, uint32_t weight, uint32_t bias) {
    const picture_op op = {.op = "linear",
                           .label = label,
                           .category = SYN_CATEGORY_MATMUL,
                           .flops = 2 * (uint64_t)(syn_spec_elems(&out) * inner)};
    if (bias == SYN_NO_TENSOR) return picture_add(m, op, out, PICTURE_IN(x, weight));
    return picture_add(m, op, out, PICTURE_IN(x, weight, bias));
}

uint32_t picture_sum(picture_maker *m, const char *label, syn_spec spec, uint32_t a, uint32_t b) {
    return picture_add(m,
                       (picture_op){.op = "add",
                                    .label = label,
                                    .category = SYN_CATEGORY_ELEMENTWISE,
                                    .flops = (uint64_t)syn_spec_elems(&spec)},
                       spec, PICTURE_IN(a, b));
}

/* q, k or v of every head of this rank: a view. */
static uint32_t picture_heads(picture_maker *m, const picture_gpt *c, const char *label,
                              uint32_t qkv, int64_t t) {
    const int64_t part = c->width / c->tp, heads = c->heads / c->tp, depth = c->width / c->heads;
    uint32_t x = picture_view(m, "slice", label, PICTURE_F32(3, (int64_t)1, t, part), qkv);
    x = picture_view(m, "reshape", "reshape", PICTURE_F32(4, (int64_t)1, t, heads, depth), x);
    return picture_view(m, "permute", "permute", PICTURE_F32(4, (int64_t)1, heads, t, depth), x);
}

static uint32_t picture_append(picture_maker *m, const char *label, uint32_t *cache, uint32_t root,
                               const picture_gpt *c, uint32_t x, int64_t seen) {
    const int64_t heads = c->heads / c->tp, depth = c->width / c->heads;
    *cache =
        picture_add(m,
                    (picture_op){.op = "kv_append",
                                 .label = label,
                                 .category = SYN_CATEGORY_DATA_MOVEMENT,
                                 .base = root + 1},
                    PICTURE_F32(4, (int64_t)1, heads, (int64_t)128, depth), PICTURE_IN(*cache, x));
    return picture_view(m, "slice", "slice", PICTURE_F32(4, (int64_t)1, heads, seen, depth),
                        *cache);
}

static uint32_t picture_attention(picture_maker *m, const picture_gpt *c, uint32_t *p, uint32_t x,
                                  int64_t t, int64_t seen) {
    const int64_t part = c->width / c->tp, heads = c->heads / c->tp, depth = c->width / c->heads;
    const syn_spec full = PICTURE_F32(3, (int64_t)1, t, c->width);
    const syn_spec scores = PICTURE_F32(4, (int64_t)1, heads, t, seen);
    const uint64_t square = (uint64_t)(heads * t * seen);
    uint32_t y = picture_norm(m, "ln_1", full, x, p[0], p[1]);
    if (m->tp > 1) y = picture_view(m, "tp_enter", "tp_enter", full, y);
    const uint32_t qkv =
        picture_linear(m, "qkv", PICTURE_F32(3, (int64_t)1, t, 3 * part), c->width, y, p[2], p[3]);
    const uint32_t q = picture_heads(m, c, "q", qkv, t);
    const uint32_t k =
        picture_append(m, "k_cache", &p[12], p[14], c, picture_heads(m, c, "k", qkv, t), seen);
    const uint32_t v =
        picture_append(m, "v_cache", &p[13], p[15], c, picture_heads(m, c, "v", qkv, t), seen);
    y = picture_add(m,
                    (picture_op){.op = "matmul",
                                 .label = "scores",
                                 .category = SYN_CATEGORY_MATMUL,
                                 .flops = 2 * square * (uint64_t)depth},
                    scores, PICTURE_IN(q, k));
    y = picture_add(m,
                    (picture_op){.op = "scale_mask",
                                 .label = "scale_mask",
                                 .category = SYN_CATEGORY_ELEMENTWISE,
                                 .flops = square},
                    scores, PICTURE_IN(y));
    y = picture_add(m,
                    (picture_op){.op = "softmax",
                                 .label = "probs",
                                 .category = SYN_CATEGORY_ATTENTION,
                                 .flops = 4 * square},
                    scores, PICTURE_IN(y));
    y = picture_add(m,
                    (picture_op){.op = "matmul",
                                 .label = "context",
                                 .category = SYN_CATEGORY_MATMUL,
                                 .flops = 2 * square * (uint64_t)depth},
                    PICTURE_F32(4, (int64_t)1, heads, t, depth), PICTURE_IN(y, v));
    y = picture_view(m, "permute", "permute", PICTURE_F32(4, (int64_t)1, t, heads, depth), y);
    y = picture_view(m, "reshape", "reshape", PICTURE_F32(3, (int64_t)1, t, part), y);
    y = picture_linear(m, "proj", full, part, y, p[4], SYN_NO_TENSOR);
    y = picture_comm(m, SYN_COMM_ALL_REDUCE, full, y);
    y = picture_sum(m, "bias", full, y, p[5]);
    return picture_sum(m, "residual", full, x, y);
}

static uint32_t picture_mlp(picture_maker *m, const picture_gpt *c, const uint32_t *p, uint32_t x,
                            int64_t t, bool gelu) {
    const int64_t part = c->width / c->tp;
    const syn_spec full = PICTURE_F32(3, (int64_t)1, t, c->width),
                   wide = PICTURE_F32(3, (int64_t)1, t, 4 * part);
    uint32_t y = picture_norm(m, "ln_2", full, x, p[6], p[7]);
    y = picture_linear(m, "fc", wide, c->width, y, p[8], p[9]);
    if (gelu)
        y = picture_add(m,
                        (picture_op){.op = "gelu",
                                     .label = "gelu",
                                     .category = SYN_CATEGORY_ELEMENTWISE,
                                     .flops = 8 * (uint64_t)syn_spec_elems(&wide)},
                        wide, PICTURE_IN(y));
    y = picture_linear(m, "proj", full, 4 * part, y, p[10], SYN_NO_TENSOR);
    y = picture_comm(m, SYN_COMM_ALL_REDUCE, full, y);
    y = picture_sum(m, "bias", full, y, p[11]);
    return picture_sum(m, "residual", full, x, y);
}

/* One step over t new tokens when `before` are in the cache; gives the next token. */
static uint32_t picture_step(picture_maker *m, const picture_gpt *c, uint32_t ids, int64_t t,
                             int64_t before) {
    const syn_spec full = PICTURE_F32(3, (int64_t)1, t, c->width);
    picture_scope(m, "embed");
    uint32_t x = picture_add(
        m, (picture_op){.op = "embedding", .label = "tokens", .category = SYN_CATEGORY_EMBEDDING},
        full, PICTURE_IN(m->param[127][0], ids));
    x = picture_comm(m, SYN_COMM_ALL_REDUCE, full, x);
    const uint32_t positions =
        picture_view(m, "slice", "positions", PICTURE_F32(2, t, c->width), m->param[127][1]);
    x = picture_sum(m, "add", full, x, positions);
    for (int i = 0; i < c->layers; i++) {
        picture_scope(m, "h.%d.attn", i);
        x = picture_attention(m, c, m->param[i], x, t, before + t);
        picture_scope(m, "h.%d.mlp", i);
        x = picture_mlp(m, c, m->param[i], x, t, i != c->odd_layer);
    }
    picture_scope(m, "head");
    const syn_spec last = PICTURE_F32(2, (int64_t)1, c->width);
    x = picture_view(m, "slice", "last", last, x);
    x = picture_norm(m, "ln_f", last, x, m->param[126][0], m->param[126][1]);
    x = picture_linear(m, "lm_head", PICTURE_F32(2, (int64_t)1, c->vocab / c->tp), c->width, x,
                       m->param[127][0], SYN_NO_TENSOR);
    x = picture_comm(m, SYN_COMM_ALL_GATHER, PICTURE_F32(2, (int64_t)1, c->vocab), x);
    picture_scope(m, "generate");
    x = picture_add(m,
                    (picture_op){.op = "sample",
                                 .label = "sample",
                                 .category = SYN_CATEGORY_RANDOM,
                                 .flops = (uint64_t)c->vocab},
                    picture_spec(SYN_I64, 2, (int64_t)1, (int64_t)1), PICTURE_IN(x));
    return picture_comm(m, SYN_COMM_BROADCAST, picture_spec(SYN_I64, 2, (int64_t)1, (int64_t)1), x);
}

void picture_meta(picture_maker *m, const char *name, const char *text, int64_t number) {
    const syn_attribute a = {.name = name,
                             .type = text != NULL ? SYN_VALUE_TEXT : SYN_VALUE_I64,
                             .i64 = number,
                             .text = text};
    if (!m->failed && syn_graph_set_meta(m->g, &a, m->err) != SYN_OK) m->failed = true;
}

syn_graph *picture_gpt_graph(const picture_gpt *c, syn_error *err) {
    int32_t ranks[64];
    for (int i = 0; i < c->tp; i++) ranks[i] = i;
    picture_maker m = {.err = err, .tp = c->tp};
    if (syn_graph_new(&m.g, ranks, (uint32_t)c->tp, c->tp, err) != SYN_OK) return NULL;
    const syn_graph_group group = {
        .id = 1, .name = "tp0", .ranks = ranks, .n_ranks = (uint32_t)c->tp};
    if (c->tp > 1 && syn_graph_add_group(m.g, &group, err) != SYN_OK) m.failed = true;
    picture_meta(&m, "model", "gpt3-style", 0);
    picture_meta(&m, "layers", NULL, c->layers);
    picture_meta(&m, "heads", NULL, c->heads);
    picture_meta(&m, "tp", NULL, c->tp);
    picture_meta(&m, "dtype", "f32", 0);
    picture_meta(&m, "batch", NULL, 1);
    picture_meta(&m, "device", "cpu", 0);
    for (m.rank = 0; m.rank < (uint32_t)c->tp && !m.failed; m.rank++) {
        m.n_nodes = m.n_tensors = m.n_comms = 0;
        picture_params(&m, c);
        m.phase = SYN_PHASE_PREFILL;
        m.step = 0;
        uint32_t ids = picture_tensor(&m, "prompt", picture_spec(SYN_I64, 2, (int64_t)1, c->tokens),
                                      SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        ids = picture_step(&m, c, ids, c->tokens, 0);
        m.phase = SYN_PHASE_DECODE;
        for (int s = 1; s <= c->steps && !m.failed; s++) {
            m.step = (uint32_t)s;
            ids = picture_step(&m, c, ids, 1, c->tokens + s - 1);
        }
    }
    syn_free(m.producer);
    if (!m.failed) return m.g;
    syn_graph_free(m.g);
    return NULL;
}
