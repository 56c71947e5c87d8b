/* Tests the graph that owns its rows: rows that are read equal those that were added, also after
   failed allocations. */
#include "tests/support/graph_plan.h"

#include <stdint.h>

#include "syntorch/base/memory.h"

/* ---- Round trip ---- */

/* Checks that node i of a rank equals node i of the plan. */
static void check_node(const syn_graph *g, uint32_t rank, uint32_t i, syn_cursor *cursor,
                       const plan *p) {
    const syn_node *n = syn_graph_node(g, rank, i, cursor);
    CHECK(n != NULL);
    const char *difference = node_difference(n, &p->nodes[i]);
    CHECK_MSG(difference == NULL, "node %u: %s differs", i, difference);
}

static void round_trip(void) {
    plan p;
    syn_graph *g;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    CHECK_INT(g->n_ranks, 2);
    CHECK_INT(g->world_size, 4);
    syn_cursor a = {0}, b = {0};
    for (uint32_t r = 0; r < 2; r++) {
        CHECK_INT(g->ranks[r].rank, p.ranks[r]);
        CHECK_INT(g->ranks[r].n_nodes, 4);
        CHECK_INT(g->ranks[r].n_tensors, 5);
        for (uint32_t i = 0; i < 4; i++) {
            const syn_node *n = syn_graph_node(g, r, i, &a);
            (void)syn_graph_node(g, r, 3 - i, &b); /* a second cursor does not affect the first */
            CHECK(n != NULL && node_difference(n, &p.nodes[i]) == NULL);
        }
        for (uint32_t i = 0; i < 5; i++) {
            const syn_graph_tensor *t = syn_graph_tensor_at(g, r, i, &a), *want = &p.tensors[i];
            CHECK(t != NULL);
            CHECK_STR(t->name, want->name);
            CHECK(syn_spec_equal(&t->spec, &want->spec));
            CHECK(t->flags == want->flags && t->producer == want->producer &&
                  t->base == want->base);
        }
    }
    const syn_node *n = syn_graph_node(g, 0, 0, &a);
    CHECK(n->comm == SYN_COMM_NONE && n->reduce == -1 && n->group == 0 && n->peer == -1);
    CHECK_OK(syn_graph_verify(g, &err), err);
    syn_cursor_free(&a);
    syn_cursor_free(&b);
    syn_graph_free(g);
}

static void texts_are_copied(void) {
    plan p;
    syn_graph *g;
    syn_error err = {0};
    char op[] = "linear", label[] = "qkv", scope[] = "h.0", name[] = "w", group[] = "tp0";
    plan_new(&p);
    p.nodes[0].op = op;
    p.nodes[0].label = label;
    p.nodes[0].scope = scope;
    p.tensors[1].name = name;
    p.groups[0].name = group;
    p.linear_attributes[3].text = label;
    CHECK_OK(build(&g, &p, &err), err);
    op[0] = label[0] = scope[0] = name[0] = group[0] = '!';
    p.linear_in[0] = 99;
    p.tp_ranks[0] = 99;
    syn_cursor c = {0};
    const syn_node *n = syn_graph_node(g, 1, 0, &c);
    CHECK_STR(n->op, "linear");
    CHECK_STR(n->label, "qkv");
    CHECK_STR(n->scope, "h.0");
    CHECK_STR(n->attributes[3].text, "qkv");
    CHECK_INT(n->inputs[0], 0);
    CHECK_STR(syn_graph_tensor_at(g, 1, 1, &c)->name, "w");
    CHECK_STR(syn_graph_group_by_id(g, 1)->name, "tp0");
    CHECK_INT(syn_graph_group_by_id(g, 1)->ranks[0], 0);
    syn_cursor_free(&c);
    syn_graph_free(g);
}

/* The first node has more attributes than the cursor's own array can hold; the second has fewer. */
static void many_attributes(void) {
    enum { MANY = 100 };
    plan p;
    syn_graph *g;
    syn_error err = {0};
    syn_attribute list[MANY];
    char names[MANY][16];
    plan_new(&p);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "a%d", i);
        list[i] = (syn_attribute){.name = names[i], .type = SYN_VALUE_F64, .f64 = i * 0.5};
    }
    p.nodes[1].attributes = list;
    p.nodes[1].n_attributes = MANY;
    CHECK_OK(build(&g, &p, &err), err);
    syn_cursor c = {0};
    for (uint32_t i = 0; i < 4; i++) check_node(g, 0, i, &c, &p);
    syn_cursor_free(&c);
    syn_memory_fail_after(0);
    const syn_node *none = syn_graph_node(g, 0, 1, &c);
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK(none == NULL && c.error.code == SYN_E_NOMEM);
    syn_cursor_free(&c);
    syn_graph_free(g);
}

static void metadata(void) {
    plan p;
    syn_graph *g;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    const syn_attribute again = {.name = "model", .type = SYN_VALUE_F64, .f64 = 0.5};
    CHECK_OK(syn_graph_set_meta(g, &again, &err), err);
    CHECK_INT(g->n_metadata, 2);
    CHECK_STR(g->metadata[0].name, "model");
    CHECK(g->metadata[0].type == SYN_VALUE_F64 && g->metadata[0].f64 == 0.5);
    CHECK_INT(syn_graph_meta(g, "tp")->i64, 2);
    CHECK(syn_graph_meta(g, "dp") == NULL);
    syn_graph_free(g);
}

static void attribute_texts(void) {
    static const struct {
        syn_attribute a;
        const char *want;
    } cases[] = {
        {{"n", SYN_VALUE_I64, 64, 0, NULL}, "64"},
        {{"n", SYN_VALUE_I64, INT64_MIN, 0, NULL}, "-9223372036854775808"},
        {{"n", SYN_VALUE_F64, 0, 0.125, NULL}, "0.125"},
        {{"n", SYN_VALUE_F64, 0, 1e-5, NULL}, "1e-05"},
        {{"n", SYN_VALUE_BOOL, 1, 0, NULL}, "true"},
        {{"n", SYN_VALUE_BOOL, 0, 0, NULL}, "false"},
        {{"n", SYN_VALUE_TEXT, 0, 0, "some text"}, "some text"},
    };
    char buf[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(syn_attribute_text(&cases[i].a, buf, sizeof buf), cases[i].want);
    const syn_attribute euro = {"n", SYN_VALUE_TEXT, 0, 0, "ab\xE2\x82\xAC"};
    CHECK_STR(syn_attribute_text(&euro, buf, 5), "ab"); /* truncation does not split a character */
    CHECK_STR(syn_attribute_text(&euro, buf, 6), "ab\xE2\x82\xAC");
    CHECK_STR(syn_attribute_text(&euro, buf, 1), "");
}

static void groups_by_id(void) {
    static const uint32_t orders[][4] = {{1, 2, 3, 4}, {3, 8, 20, 21}, {9, 2, 30, 5}};
    const int32_t ranks[] = {0};
    for (size_t o = 0; o < 3; o++) {
        syn_graph *g;
        syn_error err = {0};
        CHECK_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
        for (size_t i = 0; i < 4; i++) {
            const syn_graph_group group = {orders[o][i], "g", ranks, 1};
            CHECK_OK(syn_graph_add_group(g, &group, &err), err);
        }
        for (uint32_t i = 0; i < 4; i++)
            CHECK(syn_graph_group_by_id(g, orders[o][i]) == &g->groups[i]);
        CHECK(syn_graph_group_by_id(g, 0) == NULL && syn_graph_group_by_id(g, 1000) == NULL);
        CHECK_OK(syn_graph_verify(g, &err), err);
        syn_graph_free(g);
    }
}

static void names(void) {
    CHECK_STR(syn_node_kind_name(SYN_NODE_METADATA), "metadata");
    CHECK_STR(syn_dep_class_name(SYN_DEP_INPLACE), "inplace");
    CHECK_STR(syn_category_name(SYN_CATEGORY_DATA_MOVEMENT), "data movement");
    CHECK_STR(syn_category_name(SYN_CATEGORY_COUNT), "?");
    CHECK_STR(syn_node_kind_name((syn_node_kind)-1), "?");
}

static void empty_graphs(void) {
    const int32_t ranks[] = {2};
    syn_graph *g;
    syn_error err = {0};
    CHECK_OK(syn_graph_new(&g, NULL, 0, 1, &err), err);
    CHECK_OK(syn_graph_verify(g, &err), err);
    syn_graph_free(g);
    CHECK_OK(syn_graph_new(&g, ranks, 1, 4, &err), err);
    CHECK_OK(syn_graph_verify(g, &err), err);
    syn_graph_free(g);
    syn_graph_free(NULL);
    syn_cursor_free(NULL);
}

static void rows_refuse_nonsense(void) {
    const int32_t ranks[] = {0};
    syn_graph *g;
    syn_error err = {0};
    CHECK_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
    const syn_node good = {.op = "x", NO_TIMES};
    syn_node bad[6];
    for (size_t i = 0; i < 6; i++) bad[i] = good;
    bad[0].op = NULL;
    bad[1].kind = SYN_NODE_KIND_COUNT;
    bad[2].category = (syn_category)1000;
    bad[3].phase = SYN_PHASE_COUNT;
    bad[4].comm = SYN_COMM_KIND_COUNT;
    bad[5].reduce = SYN_REDUCE_COUNT;
    for (size_t i = 0; i < 6; i++)
        CHECK_MSG(syn_graph_add_node(g, 0, &bad[i], NULL) == SYN_E_INVALID, "%zu", i);
    CHECK_INT(g->ranks[0].n_nodes, 0);
    CHECK_OK(syn_graph_add_node(g, 0, &good, &err), err);
    syn_cursor c = {0};
    /* A node without a label has the op's name as label. */
    CHECK_STR(syn_graph_node(g, 0, 0, &c)->label, "x");
    CHECK_STR(syn_graph_node(g, 0, 0, &c)->scope, "");
    syn_graph_free(g);
}

/* ---- Memory and size ---- */

static syn_status build_and_verify(void *p, syn_error *err) {
    syn_graph *g = NULL;
    syn_status status = build(&g, p, err);
    if (status == SYN_OK) status = syn_graph_verify(g, err);
    syn_graph_free(g);
    return status;
}

static void out_of_memory(void) {
    plan p;
    plan_new(&p);
    CHECK(test_without_memory(build_and_verify, &p) > 30);
}

/* A failed addition leaves the graph unchanged and can be repeated. */
static void failed_additions_change_nothing(void) {
    plan p;
    syn_graph *g;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(syn_graph_new(&g, p.ranks, p.n_ranks, p.world_size, &err), err);
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < p.n_tensors; i++)
            CHECK_OK(syn_graph_add_tensor(g, r, &p.tensors[i], &err), err);
    }
    CHECK_OK(syn_graph_add_group(g, &p.groups[0], &err), err);
    for (uint32_t i = 0; i < p.n_nodes; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            syn_status status = SYN_E_NOMEM;
            for (uint64_t n = 0; status != SYN_OK; n++) {
                CHECK_INT(g->ranks[r].n_nodes, i);
                syn_memory_fail_after(n);
                status = syn_graph_add_node(g, r, &p.nodes[i], NULL);
                syn_memory_fail_after(SYN_MEMORY_NEVER);
            }
        }
    }
    CHECK_OK(syn_graph_verify(g, &err), err);
    syn_cursor c = {0};
    for (uint32_t i = 0; i < p.n_nodes; i++) check_node(g, 1, i, &c, &p);
    syn_graph_free(g);
}

/* A chain of a million nodes, each with its own tensor. */
static void a_million_nodes(void) {
    enum { N = 1000000 };
    const int32_t ranks[] = {0};
    syn_graph *g;
    syn_error err = {0};
    const uint64_t calls = syn_memory_calls();
    CHECK_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
    for (uint32_t i = 0; i < N; i++) {
        char name[32], scope[32];
        const uint32_t in = i - 1;
        const syn_dep dep = {in, SYN_DEP_DATA};
        const syn_attribute axis = {"axis", SYN_VALUE_I64, i % 7, 0, NULL};
        snprintf(name, sizeof name, "t:%u", i);
        snprintf(scope, sizeof scope, "h.%u", i % 96);
        const syn_node n = {.id = i + 1,
                            .op = "gelu",
                            .scope = scope,
                            .inputs = &in,
                            .outputs = &i,
                            .n_inputs = i > 0,
                            .n_outputs = 1,
                            .deps = &dep,
                            .n_deps = i > 0,
                            .attributes = &axis,
                            .n_attributes = 1,
                            .flops = i,
                            NO_TIMES};
        const syn_graph_tensor t = {name, {SYN_F32, 2, {1, 64}}, 0, i, i, {0}};
        CHECK_OK(syn_graph_add_node(g, 0, &n, &err), err);
        CHECK_OK(syn_graph_add_tensor(g, 0, &t, &err), err);
    }
    /* Appending allocates rarely, because tables grow geometrically. */
    CHECK(syn_memory_calls() - calls < 1000);
    CHECK_OK(syn_graph_verify(g, &err), err);
    syn_cursor c = {0};
    const syn_node *n = syn_graph_node(g, 0, 777777, &c);
    CHECK(n->flops == 777777 && n->inputs[0] == 777776 && n->deps[0].node == 777776);
    CHECK_INT(n->attributes[0].i64, 777777 % 7);
    CHECK_STR(n->scope, "h.81"); /* 81 is 777777 mod 96 */
    CHECK_STR(syn_graph_tensor_at(g, 0, 777777, &c)->name, "t:777777");
    syn_graph_free(g);
}

static const test_case cases[] = {
    {"round_trip", round_trip},
    {"texts_are_copied", texts_are_copied},
    {"many_attributes", many_attributes},
    {"metadata", metadata},
    {"attribute_texts", attribute_texts},
    {"groups_by_id", groups_by_id},
    {"names", names},
    {"empty_graphs", empty_graphs},
    {"rows_refuse_nonsense", rows_refuse_nonsense},
    {"out_of_memory", out_of_memory},
    {"failed_additions_change_nothing", failed_additions_change_nothing},
    {"a_million_nodes", a_million_nodes},
};
TEST_MAIN(cases)
