/* Tests which nodes an execution trace contains and what each node waits for. The expected
   dependencies were derived manually. */
#include "tests/support/test.h"

#include "export/chakra/et_walk.h"
#include "export/export.h"
#include "tests/support/et_sample.h"

#define COMP SYN_NODE_COMPUTE
#define COLL SYN_NODE_COLLECTIVE
#define VIEW .kind = SYN_NODE_COMPUTE, .flags = SYN_NODE_VIRTUAL

/* Writes all nodes as "id:c2,3d1o3 ...", that is, first control and then data dependencies, and
   those of them that only keep the order of collectives. */
static void deps_of(const syn_graph *g, char *out, size_t cap, syn_error *err) {
    syn__et_walk walk;
    syn__et_node node;
    bool more;
    size_t n = 0;
    out[0] = '\0';
    if (syn__et_walk_open(&walk, g, 0, NULL, err) != SYN_OK) return;
    while (syn__et_walk_node(&walk, &node, &more, err) == SYN_OK && more) {
        n += (size_t)snprintf(out + n, cap - n, "%s%llu:", n != 0 ? " " : "",
                              (unsigned long long)node.id);
        for (size_t i = 0; i < node.n_ctrl; i++)
            n += (size_t)snprintf(out + n, cap - n, "%s%llu", i == 0 ? "c" : ",",
                                  (unsigned long long)node.ctrl[i]);
        for (size_t i = 0; i < node.n_data; i++)
            n += (size_t)snprintf(out + n, cap - n, "%s%llu", i == 0 ? "d" : ",",
                                  (unsigned long long)node.data[i]);
        for (size_t i = 0; i < node.n_attrs; i++) {
            uint64_t id;
            syn__str unused;
            if (!syn__str_is(node.attrs[i].name, "order_deps")) continue;
            syn__et_list list =
                syn__et_list_of(syn__et_type_of(SYN__ET_UINT64_LIST), node.attrs[i].data);
            for (const char *mark = "o"; syn__et_list_next(&list, &id, &unused); mark = ",")
                n += (size_t)snprintf(out + n, cap - n, "%s%llu", mark, (unsigned long long)id);
        }
    }
    syn__et_walk_close(&walk);
}

#define CHECK_PLAN(rows, want)                                                    \
    do {                                                                          \
        syn_error plan_error = {0};                                               \
        char plan_text[1024];                                                     \
        syn_graph *plan_graph = et_graph(rows, sizeof(rows) / sizeof((rows)[0])); \
        deps_of(plan_graph, plan_text, sizeof plan_text, &plan_error);            \
        syn_graph_free(plan_graph);                                               \
        CHECK_OK(plan_error.code, plan_error);                                    \
        CHECK_STR(plan_text, want);                                               \
    } while (0)

static void test_chain(void) {
    const et_row rows[] = {{.kind = COMP}, {.kind = COMP}, {.kind = COMP, .deps = "d0 d1"}};
    CHECK_PLAN(rows, "1: 2:c1 3:d1,2");
}

static void test_classes(void) {
    /* A node waits for the previous node of its own stream, and for the latest node of another
       stream. */
    const et_row rows[] = {{.kind = COMP},
                           {.kind = COMP, .deps = "s0"},
                           {.kind = COMP, .deps = "c0 i1"},
                           {.kind = COMP, .stream = 4, .deps = "c0 c1"},
                           {.kind = COMP, .stream = 5, .deps = "i0 d1 c2"},
                           {.kind = COMP, .stream = 5, .deps = "d0 c0 c3"}};
    CHECK_PLAN(rows, "1: 2:c1 3:c2 4:c2 5:c3d2 6:c4,5d1");
}

static void test_views(void) {
    const et_row rows[] = {
        {.kind = COMP},
        {VIEW, .deps = "d0"},
        {VIEW, .deps = "d1"},
        {.kind = COMP, .stream = 1, .deps = "d2"},       /* a path of data dependencies only */
        {VIEW, .deps = "d0 d3"},                         /* joins two paths */
        {.kind = COMP, .stream = 2, .deps = "d0 d2 d4"}, /* each source is listed once */
        {VIEW, .deps = "c5"},
        /* This path is not one of data dependencies only. */
        {.kind = COMP, .stream = 3, .deps = "d6"},
        {.kind = COMP, .stream = 4, .deps = "c4 d1"}, /* one path of data dependencies is enough */
        {.kind = SYN_NODE_METADATA, .deps = "d3"},
        {.kind = COMP, .stream = 6, .deps = "d9"}};
    CHECK_PLAN(rows, "1: 2:d1 3:d1,2 4:c3 5:c2d1 6:d2");
}

static void test_collectives_in_program_order(void) {
    const et_row rows[] = {
        {.kind = COMP},
        {.kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE, .deps = "d0"},
        {.kind = COLL, .stream = 2, .group = 3, .comm = SYN_COMM_ALL_GATHER, .deps = "d0"},
        {.kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE},
        {.kind = COMP}};
    CHECK_PLAN(rows, "1: 2:d1 3:c2d1o2 4:c2,3o3 5:c1");
}

static void test_sends_before_collectives(void) {
    const et_row rows[] = {
        {.kind = COMP},
        {.kind = SYN_NODE_SEND, .stream = 2, .peer = 1, .tag = 1, .deps = "d0"},
        {.kind = SYN_NODE_SEND, .stream = 2, .peer = 1, .tag = 2, .deps = "d0"},
        {.kind = SYN_NODE_SEND, .stream = 3, .peer = 2, .tag = 3, .deps = "d0"},
        {.kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE, .deps = "d0"},
        {.kind = SYN_NODE_SEND, .stream = 2, .peer = 1, .tag = 4, .deps = "d0"},
        {.kind = SYN_NODE_RECV, .stream = 4, .peer = 1, .tag = 4},
        {.kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE}};
    CHECK_PLAN(rows, "1: 2:d1 3:c2d1 4:d1 5:c3,4d1o3,4 6:c3d1 7: 8:c5,6o6");
}

static void test_sends_before_earlier_collectives(void) {
    const et_row all_reduce = {
        .kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE, .deps = "d0"};
    const et_row send = {.kind = SYN_NODE_SEND, .stream = 3, .peer = 2, .deps = "d0"};
    const et_row barrier = {.kind = COLL, .group = 3, .comm = SYN_COMM_BARRIER};
    const et_row rows[] = {
        {.kind = COMP},
        all_reduce,
        {.kind = COMP},
        all_reduce,
        {.kind = COLL, .stream = 2, .group = 1, .comm = SYN_COMM_ALL_GATHER, .deps = "d2"},
        {.kind = COMP, .deps = "d4"},
        {.kind = SYN_NODE_SEND, .stream = 3, .peer = 2, .deps = "d5"},
        {.kind = COMP, .deps = "d1"},
        {.kind = COLL, .stream = 1, .group = 1, .comm = SYN_COMM_ALL_REDUCE, .deps = "d7"}};
    /* The first two all-reduces follow the send. The send needs the all-gather. */
    CHECK_PLAN(rows, "1: 2:c1 3:d2 4:c2d3 5:d4 6:c3,5d1o3,5 7:c6d1 8:c4d6 9:c7d8");
    /* The second collective needs the first one, and both follow the send. */
    const et_row chained[] = {
        {.kind = COMP},
        all_reduce,
        {.kind = COLL, .stream = 2, .group = 1, .comm = SYN_COMM_ALL_GATHER, .deps = "d1"},
        send};
    CHECK_PLAN(chained, "1: 2:d1 3:c2d1o2 4:d3");
    /* A collective stays where it is if its group contains the receiver, before a barrier, before
       a node that uses it, also through a view, and before a node of its stream. */
    const et_row to_member[] = {
        {.kind = COMP}, all_reduce, {.kind = SYN_NODE_SEND, .stream = 3, .peer = 1, .deps = "d0"}};
    CHECK_PLAN(to_member, "1: 2:d1 3:d1");
    const et_row blocked[] = {{.kind = COMP}, all_reduce, barrier, send};
    CHECK_PLAN(blocked, "1: 2:d1 3:c2d1");
    const et_row used[] = {{.kind = COMP}, all_reduce, {VIEW, .deps = "d1"}, send};
    CHECK_PLAN(used, "1: 2:d1 3:d1");
    const et_row followed[] = {{.kind = COMP}, all_reduce, {.kind = COMP, .stream = 1}, send};
    CHECK_PLAN(followed, "1: 2:d1 3:c2 4:d1");
}

static void test_barrier(void) {
    const et_row barrier = {.kind = COLL, .group = 3, .comm = SYN_COMM_BARRIER, .deps = "c1"};
    const et_row rows[] = {{.kind = COMP},
                           {.kind = COMP},
                           {.kind = COMP, .stream = 1},
                           {.kind = COMP, .stream = 2},
                           barrier,
                           /* Nothing is between this barrier and the first one, so both are the
                              same. */
                           barrier,
                           {.kind = COMP},
                           {.kind = COMP, .stream = 1},
                           {.kind = COMP, .stream = 1},
                           {.kind = COMP, .stream = 7, .deps = "c4"},
                           barrier,
                           {.kind = COMP, .stream = 2}};
    /* Stream 2 did not run between the barriers, so the second barrier implies the first. */
    CHECK_PLAN(rows, "1: 2:c1 3: 4: 5:c2,3,4 6:c2,3,4 7:c6 8:c2,3,4 9:c4,5,7,8");
}

static void test_alone(void) {
    /* Group 2 has one rank, so its collectives and barriers have no nodes. */
    const et_row rows[] = {
        {.kind = COMP},
        {.kind = COMP, .stream = 1},
        {.kind = COLL, .group = 2, .comm = SYN_COMM_ALL_REDUCE, .deps = "d0"},
        {.kind = COLL, .group = 2, .comm = SYN_COMM_BARRIER},
        {.kind = COMP, .stream = 2, .deps = "d2"},
    };
    CHECK_PLAN(rows, "1: 2: 3:d1");
}

static void test_long_views(void) {
    /* A chain of 200,000 views, each of which is read. For each read, the search must take one step
       back, whatever the length of the chain. */
    const uint32_t n = 200000;
    const int32_t zero = 0;
    syn_error err = {0};
    syn_graph *g = et_empty(&zero, 1, 1, NULL, 0);
    const et_row source = {.kind = COMP}, view = {VIEW}, reader = {.kind = COMP, .stream = 1};
    syn_node node = et_node(&source, 1);
    CHECK_OK(syn_graph_add_node(g, 0, &node, &err), err);
    for (uint32_t i = 0; i < n; i++) {
        const syn_dep on_view = {i == 0 ? 0 : 2 * i - 1, SYN_DEP_DATA},
                      on_this = {2 * i + 1, SYN_DEP_DATA};
        node = et_node(&view, 2 * i + 2);
        node.deps = &on_view;
        node.n_deps = 1;
        CHECK_OK(syn_graph_add_node(g, 0, &node, &err), err);
        node = et_node(&reader, 2 * i + 3);
        node.deps = &on_this;
        node.n_deps = 1;
        CHECK_OK(syn_graph_add_node(g, 0, &node, &err), err);
    }
    syn__et_walk walk;
    syn__et_node out;
    bool more = true;
    uint32_t shown = 0;
    CHECK_OK(syn__et_walk_open(&walk, g, 0, NULL, &err), err);
    while (syn__et_walk_node(&walk, &out, &more, &err) == SYN_OK && more) {
        shown++;
        if (shown == 1) continue;
        CHECK_INT(out.n_data, 1);
        CHECK_INT(out.data[0], 1);
    }
    CHECK_OK(err.code, err);
    CHECK_INT(shown, n + 1);
    CHECK(walk.plan.n_pool < 10);
    syn__et_walk_close(&walk);
    syn_graph_free(g);
}

static void test_refused(void) {
    const struct {
        et_row row;
        const char *part;
    } cases[] = {
        {{.kind = SYN_NODE_SEND, .peer = 0, .tag = 1},
         "sends to rank 0, which an execution trace cannot represent"},
        {{.kind = SYN_NODE_RECV, .peer = -1, .tag = 1}, "receives from rank -1"},
        {{.kind = SYN_NODE_RECV, .peer = 1, .tag = -5}, "negative tag -5"},
        {{.kind = COLL, .group = 99, .comm = SYN_COMM_ALL_REDUCE},
         "has group 99, which does not exist"},
        {{.kind = COMP, .deps = "d0"}, "depends on node 0, which is not earlier"},
        {{VIEW, .deps = "d3"}, "depends on node 3, which is not earlier"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        char text[256];
        syn_graph *g = et_graph(&cases[i].row, 1);
        deps_of(g, text, sizeof text, &err);
        syn_graph_free(g);
        CHECK_HAS(err.text, cases[i].part);
    }
}

/* A rank uses more streams than any machine has, and receives the same number of messages, all with
   different tags. */
static void test_many_streams(void) {
    const int32_t zero = 0, n = 5000;
    syn_error err = {0};
    syn_graph *g = et_empty(&zero, 1, 2, NULL, 0);
    for (int32_t i = 0; i < n; i++) {
        const et_row row =
            i % 2 == 0 ? (et_row){.kind = COMP, .stream = i}
                       : (et_row){.kind = SYN_NODE_RECV, .stream = 255, .peer = 1, .tag = i};
        const syn_node node = et_node(&row, (uint64_t)i + 1);
        CHECK_OK(syn_graph_add_node(g, 0, &node, &err), err);
    }
    syn__et_walk walk;
    syn__et_node out;
    bool more = true;
    CHECK_OK(syn__et_walk_open(&walk, g, 0, NULL, &err), err);
    while (syn__et_walk_node(&walk, &out, &more, &err) == SYN_OK && more) {
        CHECK_INT(out.n_ctrl + out.n_data, 0);
    }
    CHECK_OK(err.code, err);
    syn__et_walk_close(&walk);
    syn_graph_free(g);
}

/* In the graph, all messages are on one stream. In the plan, each combination of kind, peer and tag
   has its own stream, and a receive may stay open across a barrier. */
static void test_message_streams(void) {
    const et_row rows[] = {
        {.kind = COMP},
        {.kind = SYN_NODE_RECV, .stream = 255, .peer = 1, .tag = 7},
        {.kind = SYN_NODE_RECV, .stream = 255, .peer = 1, .tag = 7},
        {.kind = SYN_NODE_RECV, .stream = 255, .peer = 2, .tag = 7},
        {.kind = SYN_NODE_RECV, .stream = 255, .peer = 1, .tag = 8},
        {.kind = COMP, .deps = "d0"},
        {.kind = SYN_NODE_SEND, .stream = 255, .peer = 1, .tag = 7, .deps = "d5"},
        {.kind = SYN_NODE_SEND, .stream = 255, .peer = 1, .tag = 8, .deps = "d5"},
        {.kind = SYN_NODE_SEND, .stream = 255, .peer = 2, .tag = 7, .deps = "d5"},
        {.kind = COLL, .group = 3, .comm = SYN_COMM_BARRIER},
        {.kind = COMP},
        {.kind = COMP, .deps = "d3"}};
    CHECK_PLAN(rows, "1: 2: 3:c2 4: 5: 6:d1 7:d6 8:c7d6 9:d6 10:c6,8,9 11:c10d4");
}

/* The value of an integer or bool attribute; -1 if no attribute has this name and type. */
static int64_t value_of(const syn__et_node *node, const char *name, uint32_t field) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        if (syn__str_is(a->name, name)) return a->field == field ? (int64_t)a->bits : -2;
    }
    return -1;
}

static bool text_is(const syn__et_node *node, const char *name, const char *want) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        if (syn__str_is(a->name, name))
            return a->field == SYN__ET_STRING && syn__str_is(a->data, want);
    }
    return false;
}

static syn_graph *one_node(const syn_node *first) {
    const int32_t zero = 0, members[] = {0, 3};
    const syn_graph_group group = {7, "tp5", members, 2};
    syn_graph *g = et_empty(&zero, 1, 4, &group, 1);
    syn_error err = {0};
    NEED_OK(syn_graph_add_node(g, 0, first, &err), err);
    return g;
}

static void test_costs(void) {
    const et_row row = {.kind = COMP};
    const struct {
        uint64_t flops, read, written;
        int64_t root_ops, root_bytes, next_bytes;
        int64_t root_clamped, next_clamped;
    } cases[] = {
        {0, 0, 0, 1, 4096, 1, 1, 1},
        {5, 100, 23, 5, 4096, 123, 1, -1},
        {5, 4000, 96, 5, 4096, 4096, -1, -1},
        /* Too large values become the largest value instead of wrapping around. */
        {UINT64_MAX, 1, UINT64_MAX, INT64_MAX, -1, -1, -1, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_node a = et_node(&row, 1);
        a.flops = cases[i].flops;
        a.bytes_read = cases[i].read;
        a.bytes_written = cases[i].written;
        syn_node b = a;
        b.id = 2;
        syn_graph *g = one_node(&a);
        CHECK_OK(syn_graph_add_node(g, 0, &b, &err), err);
        syn__et_walk walk;
        syn__et_node out;
        bool more;
        CHECK_OK(syn__et_walk_open(&walk, g, 0, NULL, &err), err);
        CHECK_OK(syn__et_walk_node(&walk, &out, &more, &err), err);
        CHECK_INT(out.type, SYN__ET_COMP_NODE);
        CHECK_INT(value_of(&out, "is_cpu_op", SYN__ET_BOOL), 0);
        CHECK_INT(value_of(&out, "num_ops", SYN__ET_INT64), cases[i].root_ops);
        CHECK_INT(value_of(&out, "tensor_size", SYN__ET_UINT64), cases[i].root_bytes);
        CHECK_INT(value_of(&out, "clamped", SYN__ET_BOOL), cases[i].root_clamped);
        CHECK_OK(syn__et_walk_node(&walk, &out, &more, &err), err);
        CHECK_INT(value_of(&out, "tensor_size", SYN__ET_UINT64), cases[i].next_bytes);
        CHECK_INT(value_of(&out, "clamped", SYN__ET_BOOL), cases[i].next_clamped);
        syn__et_walk_close(&walk);
        syn_graph_free(g);
    }
}

/* Plans the graph's only node and stores it in *out. The caller closes the walk and frees the
   graph. */
static syn_graph *describe(const syn_node *node, syn__et_walk *walk, syn__et_node *out) {
    bool more = false;
    syn_error err = {0};
    syn_graph *g = one_node(node);
    NEED_OK(syn__et_walk_open(walk, g, 0, NULL, &err), err);
    NEED_OK(syn__et_walk_node(walk, out, &more, &err), err);
    NEED(more, "there is no record");
    return g;
}

static void test_collective(void) {
    const et_row row = {.kind = COLL, .group = 7, .comm = SYN_COMM_BROADCAST, .stream = 3};
    syn_node node = et_node(&row, 1);
    node.root = 3;
    node.reduce = SYN_REDUCE_MAX;
    node.scope = "h.0";
    node.phase = SYN_PHASE_BACKWARD;
    node.step = 9;
    syn__et_walk walk;
    syn__et_node out;
    syn_graph *g = describe(&node, &walk, &out);
    CHECK_INT(out.type, SYN__ET_COMM_COLL_NODE);
    CHECK(syn__str_is(out.name, "h.0/op"));
    CHECK_INT(value_of(&out, "is_cpu_op", SYN__ET_BOOL), 0);
    CHECK_INT(value_of(&out, "comm_type", SYN__ET_INT64), 5);
    CHECK_INT(value_of(&out, "comm_size", SYN__ET_INT64), 64);
    CHECK_INT(value_of(&out, "root", SYN__ET_INT32), 3);
    CHECK_INT(value_of(&out, "stream", SYN__ET_INT64), 3);
    CHECK_INT(value_of(&out, "step", SYN__ET_INT64), 9);
    CHECK_INT(value_of(&out, "num_ops", SYN__ET_INT64), -1);
    CHECK(text_is(&out, "pg_name", "7"));
    CHECK(text_is(&out, "pg_desc", "tp5"));
    CHECK(text_is(&out, "reduce", "max"));
    CHECK(text_is(&out, "phase", "backward"));
    syn__et_walk_close(&walk);
    syn_graph_free(g);
}

static void test_messages(void) {
    for (int i = 0; i < 2; i++) {
        const et_row row = {.kind = i == 0 ? SYN_NODE_SEND : SYN_NODE_RECV, .peer = 2, .tag = 77};
        syn_node node = et_node(&row, 1);
        node.comm_bytes = 0; /* simulators abort on a size of 0 */
        syn__et_walk walk;
        syn__et_node out;
        syn_graph *g = describe(&node, &walk, &out);
        CHECK_INT(out.type, i == 0 ? SYN__ET_COMM_SEND_NODE : SYN__ET_COMM_RECV_NODE);
        CHECK_INT(value_of(&out, "comm_src", SYN__ET_INT32), i == 0 ? 0 : 2);
        CHECK_INT(value_of(&out, "comm_dst", SYN__ET_INT32), i == 0 ? 2 : 0);
        CHECK_INT(value_of(&out, "comm_tag", SYN__ET_INT32), 77);
        CHECK_INT(value_of(&out, "comm_size", SYN__ET_INT64), 1);
        CHECK_INT(value_of(&out, "clamped", SYN__ET_BOOL), 1);
        syn__et_walk_close(&walk);
        syn_graph_free(g);
    }
}

static void test_times(void) {
    const struct {
        double wall, predicted;
        uint64_t micros;
    } cases[] = {{SYN_NO_TIME, SYN_NO_TIME, 0}, {499, 9000, 0}, {500, SYN_NO_TIME, 1},
                 {SYN_NO_TIME, 2499.9, 2},      {0, 5000, 0},   {1e30, SYN_NO_TIME, INT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const et_row row = {.kind = COMP};
        syn_node node = et_node(&row, 1);
        node.wall_ns = cases[i].wall;
        node.predicted_ns = cases[i].predicted;
        syn__et_walk walk;
        syn__et_node out;
        syn_graph *g = describe(&node, &walk, &out);
        CHECK_INT(out.duration_micros, cases[i].micros);
        CHECK_INT(value_of(&out, "wall_ns", SYN__ET_INT64) >= 0, cases[i].wall >= 0);
        syn__et_walk_close(&walk);
        syn_graph_free(g);
    }
}

/* The durations of communication do not include wait time, because simulators add their own. */
static void test_waiting(void) {
    const struct {
        syn_node_kind kind;
        double wall, wait, predicted;
        uint64_t micros;
    } cases[] = {
        {COLL, 9000, 7000, SYN_NO_TIME, 2},          {COLL, 9000, 0, SYN_NO_TIME, 9},
        {COLL, 9000, SYN_NO_TIME, SYN_NO_TIME, 9},   {COLL, 9000, 9600, SYN_NO_TIME, 0},
        {COLL, SYN_NO_TIME, 7000, 3000, 3},          {SYN_NODE_SEND, 9000, 7000, SYN_NO_TIME, 2},
        {SYN_NODE_RECV, 9000, 7000, SYN_NO_TIME, 2}, {COMP, 9000, 7000, SYN_NO_TIME, 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const et_row row = {
            .kind = cases[i].kind, .group = 7, .comm = SYN_COMM_BROADCAST, .peer = 2};
        syn_node node = et_node(&row, 1);
        node.wall_ns = cases[i].wall;
        node.wait_ns = cases[i].wait;
        node.predicted_ns = cases[i].predicted;
        syn__et_walk walk;
        syn__et_node out;
        syn_graph *g = describe(&node, &walk, &out);
        CHECK_INT(out.duration_micros, cases[i].micros);
        CHECK_INT(value_of(&out, "wall_ns", SYN__ET_INT64),
                  cases[i].wall < 0 ? -1 : (int64_t)cases[i].wall);
        CHECK_INT(value_of(&out, "wait_ns", SYN__ET_INT64),
                  cases[i].wait > 0 ? (int64_t)cases[i].wait : -1);
        syn__et_walk_close(&walk);
        /* The reader computes the duration from two attributes, so no third one is stored. */
        size_t bytes;
        syn_cursor c = {0};
        char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
        syn_graph *back = read_et(data, bytes);
        const syn_node *n = syn_graph_node(back, 0, 0, &c);
        CHECK_NEAR(n->wall_ns, cases[i].wall, 0);
        for (uint32_t k = 0; k < n->n_attributes; k++)
            CHECK(strcmp(n->attributes[k].name, "@duration_micros") != 0);
        syn_cursor_free(&c);
        syn_graph_free(back);
        free(data);
        syn_graph_free(g);
    }
}

static const test_case cases[] = {
    {"chain", test_chain},
    {"classes", test_classes},
    {"views", test_views},
    {"collectives_in_program_order", test_collectives_in_program_order},
    {"sends_before_collectives", test_sends_before_collectives},
    {"sends_before_earlier_collectives", test_sends_before_earlier_collectives},
    {"barrier", test_barrier},
    {"alone", test_alone},
    {"long_views", test_long_views},
    {"refused", test_refused},
    {"many_streams", test_many_streams},
    {"message_streams", test_message_streams},
    {"costs", test_costs},
    {"collective", test_collective},
    {"messages", test_messages},
    {"times", test_times},
    {"waiting", test_waiting},
};

TEST_MAIN(cases)
