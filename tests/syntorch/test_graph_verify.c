/* Tests syn_graph_verify with one damaged graph for each violation. The message must say where the
   violation is. */
#include "tests/support/graph_plan.h"

/* A change for each violation, with a part of the expected message. */
#define VIOLATIONS(X)                                                                       \
    X(p->ranks[1] = 4, "rank 4 is not in a world of 4")                                     \
    X(p->ranks[1] = -1, "rank -1 is not in")                                                \
    X(p->ranks[1] = 0, "rank 0 is in the graph twice")                                      \
    X(p->groups[1].id = 1, "group 1 appears twice")                                         \
    X(p->groups[1].id = 0, "group 0")                                                       \
    X(p->groups[1].n_ranks = 0, "group 7 has no ranks")                                     \
    X(p->dp_ranks[0] = 4, "group 7 (dp1) has rank 4, which is not in a world of 4 ranks")   \
    X(p->dp_ranks[0] = 3, "group 7 (dp1) has rank 3 twice")                                 \
    X(p->metadata[1].name = "", "entry 1 of the metadata")                                  \
    X(p->tensors[2].spec.dims[0] = -1, "tensor 2 (h.0.attn/qkv:0): its shape")              \
    X(p->tensors[2].base = 3, "tensor 2 (h.0.attn/qkv:0): shares the storage")              \
    X(p->tensors[0].flags = 0, "tensor 0 (x): has no producer")                             \
    X(p->tensors[4].producer = 4, "tensor 4 (h.1/recv:0): its producer does not exist")     \
    X(p->tensors[4].producer = 2, "writes a tensor that has another producer: 4")           \
    X(p->nodes[3].n_outputs = 0, "tensor 4 (h.1/recv:0): its producer does not write it")   \
    X(p->linear_out[0] = 5, "node 0 (linear): writes a tensor that does not exist: 5")      \
    X(p->linear_in[1] = 5, "node 0 (linear): reads a tensor that does not exist: 5")        \
    X(p->linear_in[1] = 3, "reads the output of a node that is not earlier: 1")             \
    X(p->linear_in[1] = 2, "reads the output of a node that is not earlier: 0")             \
    X(p->reduce_deps[0].dep_class = SYN_DEP_CONTROL, "lacks a data dependency on the node") \
    X(p->send_deps[1].node = 2, "node 2 (send): depends on a node that is not earlier: 2")  \
    X(p->recv_deps[0].dep_class = SYN_DEP_COUNT, "unknown class of dependency")             \
    X((p->send_deps[0].node = 1, p->send_deps[1].node = 0), "not in ascending order")       \
    X(p->reduce_deps[1].dep_class = SYN_DEP_DATA, "lists the same dependency twice")        \
    X(p->nodes[2].id = 1, "two nodes with the id 1")                                        \
    X(p->nodes[1].stream = -1, "node 1 (all_reduce): negative stream -1")                   \
    X(p->nodes[1].wall_ns = (double)NAN, "has a time that is not a number")                 \
    X(p->nodes[1].comm = SYN_COMM_NONE, "its kind of communication does not match")         \
    X(p->nodes[1].comm = SYN_COMM_SEND, "its kind of communication does not match")         \
    X(p->nodes[2].comm = SYN_COMM_RECV, "its kind of communication does not match")         \
    X(p->nodes[3].comm = SYN_COMM_BROADCAST, "its kind of communication does not match")    \
    X(p->nodes[1].group = 2, "its group does not exist: 2")                                 \
    X(p->nodes[1].group = 7, "rank 0, node 1 (all_reduce): its rank is not in its group 7") \
    X(p->nodes[1].root = 4, "its root is not a rank: 4")                                    \
    X(p->nodes[2].peer = 4, "its peer is not a rank: 4")                                    \
    X(p->nodes[3].peer = -1, "its peer is not a rank: -1")                                  \
    X(p->linear_attributes[2].name = "", "has an attribute without a name or value, number 2")

static void verify_finds_each_breach(void) {
    enum {
#define X(change, says) +1
        N_VIOLATIONS = 0 VIOLATIONS(X)
#undef X
    };
    for (int which = 0; which < N_VIOLATIONS; which++) {
        plan whole, *p = &whole;
        syn_graph *g;
        syn_error err = {0};
        const char *says = "";
        int k = 0;
        plan_new(p);
#define X(change, sentence) \
    if (k++ == which) {     \
        (void)(change);     \
        says = sentence;    \
    }
        VIOLATIONS(X)
#undef X
        CHECK_OK(build(&g, p, &err), err);
        const syn_status status = syn_graph_verify(g, &err);
        syn_graph_free(g);
        CHECK_MSG(status == SYN_E_INVALID, "not found: %s", says);
        CHECK_HAS(err.text, says);
    }
}

/* Violations that only a graph source of another kind can produce. The source here changes the
   second node. */
static void (*spoil)(syn_node *node);

static const syn_node *spoiled_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                                    syn_cursor *cursor) {
    const syn_graph *whole = (const syn_graph *)graph->self;
    if (syn_graph_node(whole, rank, node, cursor) == NULL) return NULL;
    if (node == 1) spoil(&cursor->node);
    return &cursor->node;
}

static const syn_graph_tensor *whole_tensor(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                            syn_cursor *cursor) {
    return syn_graph_tensor_at((const syn_graph *)graph->self, rank, tensor, cursor);
}

static void spoil_kind(syn_node *n) {
    n->kind = SYN_NODE_KIND_COUNT;
}
static void spoil_category(syn_node *n) {
    n->category = SYN_CATEGORY_COUNT;
}
static void spoil_phase(syn_node *n) {
    n->phase = SYN_PHASE_COUNT;
}
static void spoil_op(syn_node *n) {
    n->op = NULL;
}
static void spoil_scope(syn_node *n) {
    n->scope = NULL;
}
static void spoil_comm(syn_node *n) {
    n->comm = (syn_comm_kind)99;
}
static void spoil_reduce(syn_node *n) {
    n->reduce = SYN_REDUCE_COUNT;
}

static void verify_distrusts_other_producers(void) {
    static const struct {
        void (*spoil)(syn_node *);
        const char *says;
    } cases[] = {{spoil_kind, "unknown kind of node"}, {spoil_category, "unknown category"},
                 {spoil_phase, "unknown phase"},       {spoil_op, "lacks its op"},
                 {spoil_scope, "lacks its op"},        {spoil_comm, "does not match"},
                 {spoil_reduce, "unknown reduction"}};
    const syn_graph_source source = {spoiled_node, whole_tensor, NULL};
    plan p;
    syn_graph *g;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    syn_graph view = *g;
    view.source = &source;
    view.self = g;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error e = {0};
        spoil = cases[i].spoil;
        CHECK_INT(syn_graph_verify(&view, &e), SYN_E_INVALID);
        CHECK_HAS(e.text, cases[i].says);
    }
    syn_graph_free(g);
}

/* Collectives of a group are matched across ranks by a sequence number, which must ascend along
   each rank. The group ids need not ascend. */
static void verify_orders_collectives(void) {
    const int32_t ranks[] = {0, 1};
    for (uint32_t second = 0; second < 3; second++) {
        syn_graph *g;
        syn_error err = {0};
        CHECK_OK(syn_graph_new(&g, ranks, 2, 2, &err), err);
        const syn_graph_group group = {3, "tp0", ranks, 2};
        CHECK_OK(syn_graph_add_group(g, &group, &err), err);
        for (uint32_t r = 0; r < 2; r++) {
            for (uint32_t i = 0; i < 2; i++) {
                const syn_node n = {.id = 10 - i,
                                    .kind = SYN_NODE_COLLECTIVE,
                                    .op = "barrier",
                                    .comm = SYN_COMM_BARRIER,
                                    .reduce = -1,
                                    .group = 3,
                                    .comm_index = i == 0 ? 1 : second,
                                    .root = -1,
                                    NO_TIMES};
                CHECK_OK(syn_graph_add_node(g, r, &n, &err), err);
            }
        }
        const syn_status status = syn_graph_verify(g, &err);
        syn_graph_free(g);
        CHECK_INT(status, second == 2 ? SYN_OK : SYN_E_INVALID);
        if (second != 2) CHECK_HAS(err.text, "does not ascend");
    }
}

/* Tensor 0 is a cache, and node 0 overwrites it with x (tensor 1); the result is tensor 2. Node 1
   creates a view of it, tensor 3. Node 2 reads tensor `read`. With `flags`, node 0 may be a view
   that only looks like an overwriting op. */
static syn_status overwriting(syn_graph **g, uint32_t read, uint32_t flags, syn_error *err) {
    static const int32_t ranks[1] = {0};
    static const syn_graph_tensor tensors[4] = {
        {"cache", {SYN_F32, 1, {4}}, SYN_TENSOR_STATE, SYN_NO_NODE, 0, {0}},
        {"x", {SYN_F32, 1, {2}}, SYN_TENSOR_INPUT, SYN_NO_NODE, 1, {0}},
        {"cache:1", {SYN_F32, 1, {4}}, SYN_TENSOR_STATE | SYN_TENSOR_VIEW, 0, 0, {0}},
        {"part", {SYN_F32, 1, {2}}, SYN_TENSOR_STATE | SYN_TENSOR_VIEW, 1, 0, {0}},
    };
    static const uint32_t first[3] = {0, 1, 2}, third[1] = {3};
    static const syn_dep on[2] = {{0, SYN_DEP_DATA}, {1, SYN_DEP_DATA}};
    const syn_node nodes[3] = {{.id = 1,
                                .op = "append",
                                .flags = flags,
                                .inputs = first,
                                .n_inputs = 2,
                                .outputs = first + 2,
                                .n_outputs = 1,
                                .reduce = -1,
                                .root = -1,
                                NO_TIMES},
                               {.id = 2,
                                .op = "slice",
                                .flags = SYN_NODE_VIRTUAL,
                                .inputs = first + 2,
                                .n_inputs = 1,
                                .outputs = third,
                                .n_outputs = 1,
                                .deps = on,
                                .n_deps = 1,
                                .reduce = -1,
                                .root = -1,
                                NO_TIMES},
                               {.id = 3,
                                .op = "gelu",
                                .inputs = &read,
                                .n_inputs = 1,
                                .deps = on + (read == 3),
                                .n_deps = read >= 2,
                                .reduce = -1,
                                .root = -1,
                                NO_TIMES}};
    SYN_TRY(syn_graph_new(g, ranks, 1, 1, err));
    for (int i = 0; i < 4; i++) SYN_TRY(syn_graph_add_tensor(*g, 0, &tensors[i], err));
    for (int i = 0; i < 3; i++) SYN_TRY(syn_graph_add_node(*g, 0, &nodes[i], err));
    return SYN_OK;
}

static void verify_finds_reads_of_what_was_overwritten(void) {
    for (uint32_t read = 0; read < 4; read++)
        for (uint32_t flags = 0; flags <= SYN_NODE_VIRTUAL; flags++) {
            syn_graph *g;
            syn_error err = {0};
            CHECK_OK(overwriting(&g, read, flags, &err), err);
            const syn_status status = syn_graph_verify(g, &err);
            syn_graph_free(g);
            const bool stale = read == 0 && flags == 0;
            CHECK_MSG(status == (stale ? SYN_E_INVALID : SYN_OK), "%u, %u: %s", read, flags,
                      err.text);
            if (stale)
                CHECK_STR(err.text,
                          "rank 0, node 2 (gelu): reads tensor 0, which node 0 overwrote");
        }
}

static const test_case cases[] = {
    {"verify_finds_each_breach", verify_finds_each_breach},
    {"verify_distrusts_other_producers", verify_distrusts_other_producers},
    {"verify_orders_collectives", verify_orders_collectives},
    {"verify_finds_reads_of_what_was_overwritten", verify_finds_reads_of_what_was_overwritten},
};
TEST_MAIN(cases)
