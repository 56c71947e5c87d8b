/* Tests identical ranks: JSON, Chakra JSON and timelines contain them once. Reading such a file
   must give the same graph as a file that contains every rank. */
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/graphs.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

#define N_RANKS 4

/* How the ranks of a test graph differ from each other. */
typedef struct variation {
    int64_t first_row[N_RANKS]; /* an attribute of each rank's first op */
    uint64_t flops[N_RANKS];
    double predicted_ns[N_RANKS];
} variation;

static const variation shards = {{0, 100, 200, 300}, {8, 8, 8, 8}, {5, 5, 5, 5}};

static syn_status add_tensors(syn_graph *g, uint32_t r, syn_error *err) {
    const syn_graph_tensor ids = {.name = "ids",
                                  .spec = {SYN_F32, 2, {4, 8}},
                                  .flags = SYN_TENSOR_INPUT,
                                  .producer = SYN_NO_NODE,
                                  .shard = SYN_SHARD(1, 2, (int)r, N_RANKS)};
    SYN_TRY(syn_graph_add_tensor(g, r, &ids, err));
    SYN_TRY(add_tensor(g, r, "h.0/look:0", SYN_TENSOR_PARTIAL, 0, 1, 4, err));
    SYN_TRY(add_tensor(g, r, "h.0/sum:0", 0, 1, 2, 4, err));
    return add_tensor(g, r, "h.0/add:0", 0, 2, 3, 4, err);
}

static syn_status add_rank(syn_graph *g, uint32_t r, const variation *v, syn_error *err) {
    static const uint32_t tensors[4] = {0, 1, 2, 3};
    const syn_attribute row = {"first_row", SYN_VALUE_I64, v->first_row[r], 0, NULL};
    SYN_TRY(add_tensors(g, r, err));
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const ops[3] = {"look", "all_reduce", "add"};
        const syn_dep dep = {i - 1, SYN_DEP_DATA};
        syn_node n = plain_node(i + 1, ops[i]);
        n.scope = "h.0";
        n.inputs = &tensors[i];
        n.outputs = &tensors[i + 1];
        n.n_inputs = n.n_outputs = 1;
        n.deps = &dep;
        n.n_deps = i > 0;
        n.flops = i == 2 ? v->flops[r] : 0;
        n.bytes_read = 128;
        n.predicted_ns = i == 2 ? v->predicted_ns[r] : 5;
        n.attributes = &row;
        n.n_attributes = i == 0;
        if (i == 1) {
            n.kind = SYN_NODE_COLLECTIVE;
            n.category = SYN_CATEGORY_COMMUNICATION;
            n.comm = SYN_COMM_ALL_REDUCE;
            n.reduce = SYN_REDUCE_SUM;
            n.group = 1;
            n.stream = 1;
            n.comm_bytes = 128;
        }
        SYN_TRY(syn_graph_add_node(g, r, &n, err));
    }
    return SYN_OK;
}

static syn_graph *ranks_of(const variation *v) {
    static const int32_t ranks[N_RANKS] = {0, 1, 2, 3};
    const syn_graph_group group = {1, "tp0", ranks, N_RANKS};
    const syn_attribute fact = {"model", SYN_VALUE_TEXT, 0, 0, "four ranks"};
    syn_error err = {0};
    syn_graph *g = NULL;
    NEED_OK(syn_graph_new(&g, ranks, N_RANKS, N_RANKS, &err), err);
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
    NEED_OK(syn_graph_set_meta(g, &fact, &err), err);
    for (uint32_t r = 0; r < N_RANKS; r++) NEED_OK(add_rank(g, r, v, &err), err);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

/* Checks that both graphs give the same .et bytes for every rank. */
static void check_et(const syn_graph *a, const syn_graph *b) {
    if (!can_export(&syn_export_et)) return;
    for (int32_t r = 0; r < N_RANKS; r++) {
        size_t bytes[2] = {0, 0};
        char *data[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            const syn_export_options options = {.rank = &r};
            data[i] = export_bytes(&syn_export_et, i == 0 ? a : b, &options, &bytes[i]);
            CHECK(bytes[i] > 100);
        }
        CHECK(bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0);
        free(data[0]);
        free(data[1]);
    }
}

/* ---- JSON ---- */

static void once_is_the_same_graph(void) {
    static const syn_exporter *const all[] = {&syn_export_json, &syn_export_graphml,
                                              &syn_export_chrome, &syn_export_chakra,
                                              &syn_export_dot};
    syn_graph *g = ranks_of(&shards);
    char *once = export_copies(&syn_export_json, g, SYN_COPIES_ONCE);
    CHECK_HAS(once, "\"ranks\":[0,1,2,3]");
    CHECK_HAS(once, "{\"rank\":3,\"of\":0,\"nodes\":[\n"
                    "{\"id\":\"r3.o1\",\"attributes\":{\"first_row\":300}}]}");
    CHECK(strstr(once, "\"r3.o2\"") == NULL && strstr(once, "\"r1.t0\"") == NULL);
    CHECK(strstr(once, "\"kind\":\"group\"") == NULL); /* only one rank is shown */
    syn_graph *again = read_json(once);
    const char *difference = graph_difference(g, again);
    CHECK_MSG(difference == NULL, "%s differs", difference);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!can_export(all[i])) continue;
        for (syn_copies how = SYN_COPIES_AUTO; how <= SYN_COPIES_ONCE; how++) {
            char *a = export_copies(all[i], g, how), *b = export_copies(all[i], again, how);
            CHECK_STR(b, a);
            free(a);
            free(b);
        }
    }
    check_et(g, again);
    /* Small graphs contain every rank by default. */
    char *full = export_copies(&syn_export_json, g, SYN_COPIES_FULL);
    char *by_itself = export_copies(&syn_export_json, g, SYN_COPIES_AUTO);
    CHECK_STR(by_itself, full);
    CHECK(strstr(full, "\"copies\"") == NULL);
    CHECK_HAS(full, "\"r3.o2\"");
    free(once);
    free(full);
    free(by_itself);
    syn_graph_free(again);
    syn_graph_free(g);
}

static void kinds(void) {
    variation v = shards;
    v.flops[1] = v.flops[3] = 9;
    syn_graph *g = ranks_of(&v);
    char *once = export_copies(&syn_export_json, g, SYN_COPIES_ONCE);
    CHECK_HAS(once, "{\"rank\":2,\"of\":0,");
    CHECK_HAS(once, "{\"rank\":3,\"of\":1,");
    CHECK(strstr(once, "{\"rank\":1,\"of\"") == NULL);
    CHECK_HAS(once, "{\"source\":\"r0.t1\",\"target\":\"r1.o2\",\"kind\":\"group\"");
    syn_graph *again = read_json(once);
    const char *difference = graph_difference(g, again);
    CHECK_MSG(difference == NULL, "%s differs", difference);
    free(once);
    syn_graph_free(again);
    syn_graph_free(g);
}

/* A rank that differs in more than names and attributes is not identical. */
static void not_copies(void) {
    variation slower = shards;
    for (uint32_t r = 0; r < N_RANKS; r++) slower.predicted_ns[r] = 5 + r;
    syn_graph *g = ranks_of(&slower);
    char *once = export_copies(&syn_export_json, g, SYN_COPIES_ONCE);
    char *full = export_copies(&syn_export_json, g, SYN_COPIES_FULL);
    CHECK_STR(once, full);
    free(once);
    free(full);
    syn_graph_free(g);
}

/* ---- Timelines and Chakra ---- */

static void timeline(void) {
    syn_graph *g = ranks_of(&shards);
    char *once = export_copies(&syn_export_chrome, g, SYN_COPIES_ONCE);
    char *full = export_copies(&syn_export_chrome, g, SYN_COPIES_FULL);
    CHECK_HAS(once, "\"name\":\"rank 0, identical: 1, 2, 3\"");
    CHECK(strstr(once, "\"pid\":1") == NULL);
    CHECK_HAS(full, "\"name\":\"rank 3\"");
    CHECK_HAS(full, "\"pid\":3");
    free(once);
    free(full);
    syn_graph_free(g);
}

static syn_graph *read_chakra(const char *text) {
    syn_error err = {0};
    syn_graph *g = NULL;
    NEED_OK(syn_import_chakra_json(&g, put_text("t.json", text), &err), err);
    return g;
}

static void chakra(void) {
    if (!can_export(&syn_export_chakra)) SKIP("built without protobuf-c");
    syn_graph *g = ranks_of(&shards);
    char *once = export_copies(&syn_export_chakra, g, SYN_COPIES_ONCE);
    char *full = export_copies(&syn_export_chakra, g, SYN_COPIES_FULL);
    CHECK_HAS(once, "\"nodes_of\":0}");
    CHECK(strstr(full, "nodes_of") == NULL);
    syn_graph *from_once = read_chakra(once), *from_full = read_chakra(full);
    check_et(from_once, from_full);
    check_et(from_once, g);
    /* Attributes that a message had in a file are written again, so an additional attribute of rank
       1 makes its nodes differ from rank 0's. */
    const char *at = strstr(strstr(full, "{\"rank\":1,"), "{\"name\":\"is_cpu_op\"");
    CHECK(at != NULL);
    char *odd = malloc(strlen(full) + 64);
    CHECK(odd != NULL);
    sprintf(odd, "%.*s{\"name\":\"mine\",\"int64Val\":\"7\"},%s", (int)(at - full), full, at);
    syn_graph *other = read_chakra(odd);
    char *odd_once = export_copies(&syn_export_chakra, other, SYN_COPIES_ONCE);
    CHECK_HAS(odd_once, "\"mine\"");
    CHECK_HAS(odd_once, "\"nodes_of\":0}");
    syn_graph *again = read_chakra(odd_once);
    check_et(again, other);
    syn_graph *const graphs[] = {g, from_once, from_full, other, again};
    for (size_t i = 0; i < 5; i++) syn_graph_free(graphs[i]);
    char *const texts[] = {once, full, odd, odd_once};
    for (size_t i = 0; i < 4; i++) free(texts[i]);
}

/* ---- Damage ---- */

#define FILE_OF(ranks, copies)                                               \
    "{\"graph\":{" ranks "\"copies\":[" copies "]},\"links\":[],\"nodes\":[" \
    "{\"id\":\"r0.o1\",\"op\":\"a\"},{\"id\":\"r0.o2\",\"op\":\"b\"}]}"

#define COPY(more) "{\"rank\":1,\"of\":0," more "}"
#define GROUP      "\"groups\":[{\"id\":1,\"ranks\":[0,1]}],"

static void refusals(void) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {FILE_OF("", "{\"rank\":1}"), "needs \"rank\" and \"of\""},
        {FILE_OF("", "{\"rank\":1,\"of\":-1}"), "a rank must be"},
        {FILE_OF("", "7"), "a copy must be an object"},
        {FILE_OF("", "{\"rank\":1,\"of\":2}"), "which has no nodes"},
        {FILE_OF("", "{\"rank\":1,\"of\":1}"), "which has no nodes"},
        {FILE_OF("", "{\"rank\":0,\"of\":0}"), "no rank"},
        {FILE_OF("", "{\"rank\":2,\"of\":1},{\"rank\":1,\"of\":0}"), "which has no nodes"},
        {FILE_OF("", "{\"rank\":1,\"of\":0},{\"rank\":1,\"of\":0}"),
         "rank 1 appears twice in copies"},
        {FILE_OF("\"ranks\":[0],", "{\"rank\":1,\"of\":0}"), "must list each rank of copies"},
        {FILE_OF("\"world_size\":2,", "{\"rank\":5,\"of\":0}"), "rank 5 is out of range"},
        {FILE_OF("", "{\"rank\":1,\"of\":0,\"nodes\":[{\"id\":\"r1.o9\"}]}"), "does not exist in"},
        {FILE_OF("", "{\"rank\":1,\"of\":0,\"nodes\":[{\"id\":\"r1.o1\"},{\"id\":\"r1.o1\"}]}"),
         "or appears twice"},
        {FILE_OF("", "{\"rank\":1,\"of\":0,\"nodes\":[{\"id\":\"r0.o1\"}]}"), "an op of rank 1"},
        {FILE_OF("", "{\"rank\":1,\"of\":0,\"nodes\":[{}]}"), "an op of rank 1"},
        {FILE_OF("", "{\"rank\":1,\"of\":0,\"nodes\":[1]}"), "must be an object"},
        {FILE_OF("", COPY("\"groups\":[]")), "the groups of a copy must be an object"},
        {FILE_OF("", COPY("\"groups\":{\"x\":1}")), "a group's id must be an integer from 1"},
        {FILE_OF("", COPY("\"groups\":{\"1\":0}")), "a group's id must be an integer from 1"},
        {FILE_OF(GROUP, COPY("\"groups\":{\"1\":2}")), "name group 2, which does not exist"},
        {FILE_OF(GROUP, COPY("\"groups\":{\"2\":1}")), "name group 2, which does not exist"},
        {FILE_OF(GROUP, COPY("\"groups\":{\"1\":1,\"1\":1}")), "1 appears twice in the groups"},
        {FILE_OF("", COPY("\"peers\":{\"0\":2}")), "name rank 2, but world_size is 2"},
        {FILE_OF("", COPY("\"peers\":{\"9\":0}")), "name rank 9, but world_size is 2"},
        {FILE_OF("", COPY("\"peers\":{\"0\":-1}")), "a peer must be an integer from 0"},
        {FILE_OF("", COPY("\"tags\":{\"-\":1}")), "a tag must be an integer"},
        {FILE_OF("", COPY("\"shards\":{\"0\":1}")), "a shard must be like"},
        {FILE_OF("", COPY("\"shards\":{\"2/2\":1}")), "a shard must be like"},
        {FILE_OF("", COPY("\"shards\":{\"0/2\":2}")), "copy 1 has shard 2 of 2"},
        {FILE_OF("", COPY("\"tensors\":{\"3\":0}")), "\"r0.t3\" does not exist"},
        {FILE_OF("", COPY("\"tensors\":7")), "the tensors of a copy must be an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        const syn_status s =
            syn_import_json_memory(&g, "g.json", cases[i].text, strlen(cases[i].text), &err);
        CHECK_MSG(s == SYN_E_FORMAT && g == NULL, "case %zu was read", i);
        CHECK_HAS(err.text, cases[i].part);
    }
}

/* A hand-written file without "ranks": ranks are numbered in ascending order, and the attributes
   that an identical rank gives for its ops are used. */
static void by_hand(void) {
    static const char text[] = FILE_OF("", "{\"mine\":{},\"nodes\":[{\"attributes\":{\"a\":1,"
                                           "\"b\":\"x\"},\"id\":\"r3.o2\"}],\"of\":0,\"rank\":3},"
                                           "{\"rank\":1,\"of\":0}");
    static const int32_t ranks[3] = {0, 1, 3};
    syn_graph *g = read_json(text);
    syn_cursor cursor = {0};
    CHECK_INT(g->n_ranks, 3);
    CHECK_INT(g->world_size, 4);
    for (uint32_t r = 0; r < 3; r++) {
        CHECK_INT(g->ranks[r].rank, ranks[r]);
        CHECK_INT(g->ranks[r].n_nodes, 2);
        CHECK_STR(syn_graph_node(g, r, 0, &cursor)->op, "a");
        CHECK_INT(cursor.node.n_attributes, 0);
        CHECK_STR(syn_graph_node(g, r, 1, &cursor)->op, "b");
        CHECK_INT(cursor.node.n_attributes, r == 2 ? 2 : 0);
    }
    CHECK_STR(cursor.node.attributes[1].text, "x");
    syn_cursor_free(&cursor);
    syn_graph_free(g);
}

static void chakra_refusals(void) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"ranks\":[{\"rank\":0,\"nodes_of\":1},{\"rank\":1,\"nodes_of\":0}]}",
         "none of its own"},
        {"{\"ranks\":[{\"rank\":0,\"nodes_of\":0}]}", "none of its own"},
        {"{\"ranks\":[{\"rank\":0,\"nodes_of\":9}]}", "none of its own"},
        {"{\"ranks\":[{\"rank\":0,\"nodes\":[],\"nodes_of\":1},{\"rank\":1,\"nodes\":[]}]}",
         "both \"nodes\" and \"nodes_of\""},
    };
    if (!can_export(&syn_export_chakra)) SKIP("built without protobuf-c");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        const syn_status s = syn_import_chakra_json(&g, put_text("t.json", cases[i].text), &err);
        CHECK_MSG(s == SYN_E_FORMAT && g == NULL, "case %zu was read: %s", i, err.text);
        CHECK_HAS(err.text, cases[i].part);
    }
}

/* ---- Memory ---- */

static void out_of_memory(void) {
    static const syn_exporter *const all[] = {&syn_export_json, &syn_export_chrome,
                                              &syn_export_chakra};
    syn_graph *g = ranks_of(&shards);
    copies_without_memory(g, all, sizeof all / sizeof all[0]);
    syn_graph_free(g);
}

static const test_case cases[] = {
    {"once_is_the_same_graph", once_is_the_same_graph},
    {"kinds", kinds},
    {"not_copies", not_copies},
    {"timeline", timeline},
    {"chakra", chakra},
    {"refusals", refusals},
    {"by_hand", by_hand},
    {"chakra_refusals", chakra_refusals},
    {"out_of_memory", out_of_memory},
};
TEST_MAIN(cases)
