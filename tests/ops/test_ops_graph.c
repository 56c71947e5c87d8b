/* Compares the graph of a trace with the trace's rows: dependencies, numbers, names and attributes
   are found by brute force. */
#include "ops/ops.h"
#include "tests/support/ops_program.h"
#include "tests/support/test.h"

enum { RANKS = 2 };

/* For any two nodes: whether `later` uses a result of `earlier`, or overwrites a storage that
   `earlier` has used since the storage was last written. */
static uint32_t wanted_dep(const syn_trace *t, uint32_t later, uint32_t earlier) {
    const syn_trace_node *n = &t->nodes[later], *e = &t->nodes[earlier];
    for (uint32_t k = 0; k < n->n_in; k++)
        if (t->tensors[t->inputs[n->first_in + k]].producer == earlier) return SYN_DEP_DATA;
    if (n->op != SYN_OP_KV_APPEND || (syn_op_table[e->op].flags & SYN_OPF_VIEW))
        return SYN_DEP_COUNT;
    const uint32_t base = t->tensors[t->inputs[n->first_in]].base;
    /* A write between them already waited for `earlier`. */
    for (uint32_t i = earlier + 1; i < later; i++)
        if (t->nodes[i].op == SYN_OP_KV_APPEND &&
            t->tensors[t->inputs[t->nodes[i].first_in]].base == base)
            return SYN_DEP_COUNT;
    for (uint32_t k = 0; k < e->n_in; k++)
        if (t->tensors[t->inputs[e->first_in + k]].base == base) return SYN_DEP_INPLACE;
    return SYN_DEP_COUNT;
}

static void check_deps(const syn_trace *t, const syn_node *n) {
    uint32_t k = 0;
    for (uint32_t earlier = 1; earlier < n->id; earlier++) {
        const uint32_t want = wanted_dep(t, (uint32_t)n->id, earlier);
        if (want == SYN_DEP_COUNT) continue;
        CHECK_MSG(k < n->n_deps, "node %llu does not wait for %u", (unsigned long long)n->id,
                  earlier);
        CHECK_MSG(n->deps[k].node == earlier - 1 && n->deps[k].dep_class == want,
                  "node %llu: dependency %u of class %u, want %u of %u", (unsigned long long)n->id,
                  n->deps[k].node, n->deps[k].dep_class, earlier - 1, want);
        k++;
    }
    CHECK_INT(n->n_deps, k);
}

static void check_node(const syn_trace *t, const syn_node *n) {
    const syn_trace_node *row = &t->nodes[n->id];
    const syn_opdef *def = &syn_op_table[row->op];
    uint32_t step = 0, index = 0;
    for (size_t i = 0; i < t->n_steps; i++) step += t->steps[i].node <= n->id;
    CHECK_INT(n->step, step);
    CHECK_INT(n->phase, row->phase);
    CHECK_INT(n->stream, row->stream);
    CHECK_STR(n->op, def->name);
    CHECK_STR(n->scope, syn_trace_text(t, row->scope));
    CHECK_STR(n->label, row->label ? syn_trace_text(t, row->label) : def->name);
    CHECK_INT(n->category, def->category);
    CHECK_INT(n->n_inputs, row->n_in);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        CHECK_INT(n->inputs[i], t->inputs[row->first_in + i] - 1);
    for (uint32_t i = 0; i < n->n_outputs; i++) CHECK_INT(n->outputs[i], row->first_out + i - 1);
    CHECK((n->flags & SYN_NODE_FUSED) == (row->op == SYN_OP_ATTENTION ? SYN_NODE_FUSED : 0));
    CHECK(n->start_ns == SYN_NO_TIME && n->wall_ns == SYN_NO_TIME &&
          n->predicted_ns == SYN_NO_TIME); /* on meta without a hardware file there are no times */
    if (!(def->flags & SYN_OPF_COMM)) {
        CHECK(n->kind == SYN_NODE_COMPUTE && n->comm == SYN_COMM_NONE && n->group == 0 &&
              n->reduce == -1 && n->root == -1);
        return;
    }
    for (uint64_t i = 1; i < n->id; i++)
        index +=
            t->nodes[i].group == row->group && (syn_op_table[t->nodes[i].op].flags & SYN_OPF_COMM);
    CHECK_INT(n->comm_index, index);
    CHECK_INT(n->group, 4);
    CHECK_INT(n->kind, SYN_NODE_COLLECTIVE);
    CHECK(n->stream >= 1);
    CHECK((n->reduce >= 0) == (row->op == SYN_OP_ALL_REDUCE || row->op == SYN_OP_REDUCE_SCATTER));
    CHECK((n->root >= 0) == (row->op == SYN_OP_BROADCAST));
}

static void check_tensor(const syn_trace *t, const syn_graph_tensor *x, uint32_t index) {
    const syn_trace_tensor *row = &t->tensors[index + 1];
    CHECK(syn_spec_equal(&x->spec, syn_trace_spec(t, index + 1)));
    CHECK_INT(x->base, row->base - 1);
    CHECK_INT(x->flags, row->flags);
    CHECK_INT(x->producer, row->producer ? row->producer - 1 : SYN_NO_NODE);
    char want[256];
    if (row->name) {
        snprintf(want, sizeof want, "%s", syn_trace_text(t, row->name - 1));
    } else {
        const syn_trace_node *n = &t->nodes[row->producer];
        const char *scope = syn_trace_text(t, n->scope);
        snprintf(want, sizeof want, "%s%s%s:%u", scope, *scope ? "/" : "",
                 n->label ? syn_trace_text(t, n->label) : syn_op_table[n->op].name,
                 index + 1 - n->first_out);
    }
    CHECK_STR(x->name, want);
}

static void test_random_views(void) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        syn_error err = {0};
        syn_comm *comms[RANKS];
        const syn_trace *traces[RANKS];
        program p[RANKS];
        const int32_t ranks[RANKS] = {0, 1};
        for (int r = 0; r < RANKS; r++) {
            syn_group *group = NULL;
            CHECK_OK(syn_comm_fake_new(&comms[r], r, RANKS, &err), err);
            CHECK_OK(syn_comm_open_group(comms[r], 4, "tp0", ranks, RANKS, &group, &err), err);
            p[r] = (program){.ctx = ref_ctx(SYN_DEVICE_META, comms[r]), .group = group, .seed = 1};
            program_run(&p[r], seed, 80);
            traces[r] = syn_ctx_trace(p[r].ctx);
        }
        syn_graph *g = NULL;
        syn_cursor cursor = {0};
        CHECK_OK(syn_trace_graph(&g, traces, RANKS, NULL, &err), err);
        CHECK_OK(syn_graph_verify(g, &err), err);
        CHECK(g->n_ranks == RANKS && g->world_size == RANKS &&
              g->n_groups == (traces[0]->n_groups ? 1 : 0));
        for (uint32_t r = 0; r < RANKS; r++) {
            CHECK_INT(g->ranks[r].rank, r);
            CHECK_INT(g->ranks[r].n_nodes, traces[r]->n_nodes - 1);
            CHECK_INT(g->ranks[r].n_tensors, traces[r]->n_tensors - 1);
            for (uint32_t i = 0; i < g->ranks[r].n_nodes && !test_failures; i++) {
                const syn_node *n = syn_graph_node(g, r, i, &cursor);
                CHECK(n && n->id == i + 1);
                check_deps(traces[r], n);
                check_node(traces[r], n);
            }
            for (uint32_t i = 0; i < g->ranks[r].n_tensors && !test_failures; i++)
                check_tensor(traces[r], syn_graph_tensor_at(g, r, i, &cursor), i);
        }
        CHECK_MSG(!test_failures, "seed %llu", (unsigned long long)seed);
        syn_cursor_free(&cursor);
        syn_graph_free(g);
        for (int r = 0; r < RANKS; r++) {
            syn_ctx_free(p[r].ctx);
            syn_comm_close(comms[r]);
        }
    }
}

/* The order that shared storages require, in minimal programs. The comments below give each node's
   number and the nodes that it waits for. */
static void test_overwriting(void) {
    syn_ctx *c = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_spec spec = {SYN_F32, 4, {1, 1, 4, 2}}, one = {SYN_F32, 4, {1, 1, 1, 2}};
    const syn_tensor v0 = syn_state(c, "cache", &spec), x = syn_input(c, "x", &one, NULL),
                     other = syn_state(c, "other", &spec);
    const syn_tensor v1 = syn_kv_append(c, v0, x, 0);  /* node 0 */
    const syn_tensor part = syn_slice(c, v1, 2, 0, 1); /* node 1 is a view and reads nothing */
    syn_add(c, part, part);                            /* node 2 reads through the view */
    syn_add(c, other, other);                          /* node 3 uses another storage */
    const syn_tensor v2 = syn_kv_append(c, v1, x, 1);  /* node 4 waits for 0 and 2 */
    const syn_tensor v3 = syn_kv_append(c, v2, x, 2);  /* node 5 waits only for 4 */
    const syn_tensor v4 = syn_kv_append(c, syn_slice(c, v3, 2, 0, 4), x,
                                        /* Node 6 is the view; node 7 waits for 6, and therefore for
                                           5. */
                                        3);
    /* Node 8 writes through the view again and waits only for 7. */
    syn_kv_append(c, v4, x, 0);
    static const struct {
        uint32_t node, on, dep_class;
    } want[] = {{1, 0, SYN_DEP_DATA},    {2, 1, SYN_DEP_DATA}, {4, 0, SYN_DEP_DATA},
                {4, 2, SYN_DEP_INPLACE}, {5, 4, SYN_DEP_DATA}, {6, 5, SYN_DEP_DATA},
                {7, 5, SYN_DEP_INPLACE}, {7, 6, SYN_DEP_DATA}, {8, 7, SYN_DEP_DATA}};
    syn_error err = {0};
    syn_graph *g = NULL;
    syn_cursor cursor = {0};
    const syn_trace *t = syn_ctx_trace(c);
    CHECK_OK(syn_trace_graph(&g, &t, 1, NULL, &err), err);
    size_t k = 0;
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cursor);
        for (uint32_t d = 0; d < n->n_deps; d++, k++)
            CHECK_MSG(k < sizeof want / sizeof *want && want[k].node == i &&
                          want[k].on == n->deps[d].node &&
                          want[k].dep_class == n->deps[d].dep_class,
                      "node %u waits for %u (%s)", i, n->deps[d].node,
                      syn_dep_class_name((syn_dep_class)n->deps[d].dep_class));
    }
    CHECK_INT(k, sizeof want / sizeof *want);
    syn_cursor_free(&cursor);
    syn_graph_free(g);
    syn_ctx_free(c);
}

/* The attributes of the last node, each as "name=text;". */
static const char *attributes(const syn_ctx *ctx) {
    static char text[512];
    syn_error err = {0};
    syn_graph *g = NULL;
    syn_cursor cursor = {0};
    const syn_trace *t = syn_ctx_trace(ctx);
    text[0] = '\0';
    if (syn_trace_graph(&g, &t, 1, NULL, &err) != SYN_OK) return "no graph";
    const syn_node *n = syn_graph_node(g, 0, g->ranks[0].n_nodes - 1, &cursor);
    for (uint32_t i = 0; i < n->n_attributes; i++) {
        char value[128];
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s=%s;", n->attributes[i].name,
                 syn_attribute_text(&n->attributes[i], value, sizeof value));
    }
    syn_cursor_free(&cursor);
    syn_graph_free(g);
    return text;
}

static void test_attributes(void) {
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_group *group = NULL;
    const int32_t ranks[2] = {3, 1};
    CHECK_OK(syn_comm_fake_new(&fake, 1, 4, &err), err);
    CHECK_OK(syn_comm_open_group(fake, 2, "tp0", ranks, 2, &group, &err), err);
    syn_ctx *c = ref_ctx(SYN_DEVICE_META, fake);
    const syn_tensor x = ZEROS(c, SYN_F32, 2, 3, 4);
    const syn_sampling how = {0.75, 3, 0.9, 42, 0};
    syn_scale(c, x, 0.125);
    CHECK_STR(attributes(c), "factor=0.125;");
    syn_reshape(c, x, (const int64_t[]){6, -1}, 2);
    CHECK_STR(attributes(c), "shape=6,4;");
    syn_reshape(c, ZEROS(c, SYN_F32, 1), NULL, 0);
    CHECK_STR(attributes(c), "shape=;");
    syn_permute(c, x, (const int[]){2, 0, 1}, 3);
    CHECK_STR(attributes(c), "order=2,0,1;");
    const int64_t far = INT64_C(1) << 60;
    syn_reshape(c, ZEROS(c, SYN_F32, far, 0, 1, 1, 1, 1), (const int64_t[]){0, far, 1, 1, 1, 1}, 6);
    CHECK_STR(attributes(c), "shape=0,1152921504606846976,1,1,1,1;");
    syn_slice(c, x, -1, 1, 2);
    CHECK_STR(attributes(c), "axis=2;start=1;length=2;");
    syn_sample(c, ZEROS(c, SYN_F32, 2, 5), &how, 6);
    CHECK_STR(attributes(c), "temperature=0.75;top_k=3;top_p=0.9;seed=42;step=6;");
    syn_sample(c, ZEROS(c, SYN_F32, 2, 5), &(syn_sampling){1, 0, 1, 42, 0.25}, 6);
    CHECK_STR(attributes(c), "temperature=1;top_k=0;top_p=1;seed=42;step=6;min_p=0.25;");
    syn_repetition_penalty(c, ZEROS(c, SYN_F32, 2, 5), ZEROS(c, SYN_I32, 2, 1), 1.5);
    CHECK_STR(attributes(c), "penalty=1.5;");
    syn_scale_mask(c, x, SYN_NO_MASK, 0.5, true, -2);
    CHECK_STR(attributes(c), "scale=0.5;causal=1;offset=-2;");
    syn_add(c, x, x);
    CHECK_STR(attributes(c), "");
    syn_all_reduce(c, x, SYN_REDUCE_MAX, group);
    CHECK_STR(attributes(c), ""); /* fields of communication are not attributes */
    syn_reduce_scatter(c, x, SYN_REDUCE_SUM, 0, group);
    CHECK_STR(attributes(c), "axis=0;");
    const syn_spec message = {SYN_BF16, 2, {5, 7}};
    syn_recv(c, &message, 2, 9);
    CHECK_STR(attributes(c), "shape=5,7;");
    syn_ctx_free(c);
    syn_comm_close(fake);
}

static void test_communication_fields(void) {
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_group *group = NULL;
    const int32_t ranks[2] = {3, 1};
    CHECK_OK(syn_comm_fake_new(&fake, 1, 4, &err), err);
    CHECK_OK(syn_comm_open_group(fake, 2, "tp0", ranks, 2, &group, &err), err);
    syn_ctx *c = ref_ctx(SYN_DEVICE_META, fake);
    const syn_tensor x = ZEROS(c, SYN_F32, 2, 3);
    const syn_spec message = {SYN_BF16, 2, {5, 7}};
    syn_broadcast(c, x, 0, group);
    syn_send(c, x, 2, 5);
    syn_all_reduce(c, x, SYN_REDUCE_PROD, group);
    syn_recv(c, &message, 0, 6);
    static const syn_node want[4] = {{.kind = SYN_NODE_COLLECTIVE,
                                      .comm = SYN_COMM_BROADCAST,
                                      .reduce = -1,
                                      .group = 2,
                                      .comm_bytes = 24,
                                      .comm_index = 0,
                                      .peer = -1,
                                      .tag = -1,
                                      .root = 3},
                                     {.kind = SYN_NODE_SEND,
                                      .comm = SYN_COMM_SEND,
                                      .reduce = -1,
                                      .group = 0,
                                      .comm_bytes = 24,
                                      .comm_index = 0,
                                      .peer = 2,
                                      .tag = 5,
                                      .root = -1},
                                     {.kind = SYN_NODE_COLLECTIVE,
                                      .comm = SYN_COMM_ALL_REDUCE,
                                      .reduce = SYN_REDUCE_PROD,
                                      .group = 2,
                                      .comm_bytes = 24,
                                      .comm_index = 1,
                                      .peer = -1,
                                      .tag = -1,
                                      .root = -1},
                                     {.kind = SYN_NODE_RECV,
                                      .comm = SYN_COMM_RECV,
                                      .reduce = -1,
                                      .group = 0,
                                      .comm_bytes = 70,
                                      .comm_index = 1,
                                      .peer = 0,
                                      .tag = 6,
                                      .root = -1}};
    syn_graph *g = NULL;
    syn_cursor cursor = {0};
    const syn_trace *t = syn_ctx_trace(c);
    CHECK_OK(syn_trace_graph(&g, &t, 1, NULL, &err), err);
    CHECK_OK(syn_graph_verify(g, &err), err);
    for (uint32_t i = 0; i < 4; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cursor);
        CHECK(n->kind == want[i].kind && n->comm == want[i].comm);
        CHECK_INT(n->reduce, want[i].reduce);
        CHECK_INT(n->group, want[i].group);
        CHECK_INT(n->comm_bytes, want[i].comm_bytes);
        CHECK_INT(n->comm_index, want[i].comm_index);
        CHECK_INT(n->peer, want[i].peer);
        CHECK_INT(n->tag, want[i].tag);
        CHECK_INT(n->root, want[i].root);
    }
    CHECK_STR(syn_graph_group_by_id(g, 2)->name, "tp0");
    syn_cursor_free(&cursor);
    syn_graph_free(g);
    syn_ctx_free(c);
    syn_comm_close(fake);
}

/* Times of a run on the CPU are ascending and within the run. Views have none. */
static void test_times(void) {
    syn_error err = {0};
    syn_graph *g = NULL;
    syn_cursor cursor = {0};
    static program p;
    p = (program){.ctx = ref_ctx(SYN_DEVICE_CPU, NULL), .seed = 1};
    program_run(&p, 3, 200);
    CHECK_INT(syn_ctx_sync(p.ctx), SYN_OK);
    const syn_trace *t = syn_ctx_trace(p.ctx);
    CHECK_OK(syn_trace_graph(&g, &t, 1, NULL, &err), err);
    double last = 0;
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cursor);
        if (n->flags & SYN_NODE_VIRTUAL) {
            CHECK(n->start_ns == SYN_NO_TIME && n->wall_ns == SYN_NO_TIME);
            continue;
        }
        CHECK(n->start_ns >= last && n->wall_ns >= 0 && n->cpu_ns >= 0 && n->wait_ns == 0);
        last = n->start_ns + n->wall_ns * (1 - 1e-6); /* durations are stored as floats */
        CHECK(last < 60e9);
    }
    CHECK(last > 0);
    syn_cursor_free(&cursor);
    syn_graph_free(g);
    syn_ctx_free(p.ctx);
}

static const test_case cases[] = {
    {"random views", test_random_views},
    {"overwriting", test_overwriting},
    {"attributes", test_attributes},
    {"communication fields", test_communication_fields},
    {"times", test_times},
};
TEST_MAIN(cases)
