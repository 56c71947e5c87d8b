/* Tests the readers of execution traces: which files they accept, that accepted files are written
   back unchanged, and the meaning and order of their nodes. test_et_refused.c tests rejected
   files. */
#include "ops/ops.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

#include <unistd.h>

#include "export/chakra/et_import.h"
#include "export/chakra/wire/et_node.h"
#include "export/export.h"
#include "ops/ops.h"
#include "tests/support/et_sample.h"
#include "tests/support/gpt_graph.h"

/* ---- Making files ---- */

typedef struct file {
    syn__buf buf, message;
} file;

static void end_message(file *f) {
    syn__et_put_varint(&f->buf, f->message.bytes);
    syn__buf_put(&f->buf, f->message.data, f->message.bytes);
    f->message.bytes = 0;
}

static void put_meta(file *f, const char *version, const syn__et_attr *attrs, size_t n) {
    const syn__et_meta meta = {.version = {version, strlen(version)}, .attrs = attrs, .n_attrs = n};
    syn__et_put_meta(&f->message, &meta);
    end_message(f);
}

static void put_node(file *f, uint64_t id, const uint64_t *ctrl, size_t n_ctrl,
                     const uint64_t *data, size_t n_data) {
    const syn__et_node node = {.id = id,
                               .name = {"n", 1},
                               .type = SYN__ET_COMP_NODE,
                               .ctrl = ctrl,
                               .n_ctrl = n_ctrl,
                               .data = data,
                               .n_data = n_data};
    syn__et_put_node(&f->message, &node);
    end_message(f);
}

static void close_file(file *f) {
    syn__buf_free(&f->buf);
    syn__buf_free(&f->message);
}

/* Checks two round trips: bytes to graph to bytes; and bytes to graph to Chakra JSON to graph to
   bytes. */
static void check_round_trip(const char *data, size_t bytes) {
    syn_error err = {0};
    size_t n, n_json;
    syn_graph *g = read_et(data, bytes);
    char *again = export_bytes(&syn_export_et, g, NULL, &n);
    char *json = export_bytes(&syn_export_chakra, g, NULL, &n_json);
    syn_graph_free(g);
    CHECK_INT(n, bytes);
    CHECK(memcmp(again, data, n) == 0);
    free(again);
    g = NULL;
    CHECK_OK(syn__et_import_chakra(&g, "x.json", json, n_json, &err), err);
    again = export_bytes(&syn_export_et, g, NULL, &n);
    syn_graph_free(g);
    CHECK_INT(n, bytes);
    CHECK(memcmp(again, data, n) == 0);
    free(again);
    free(json);
}

/* ---- Round trips ---- */

static void test_round_trip(void) {
    for (int which = 0; which < 2; which++) {
        syn_graph *g = which == 0 ? small_gpt_graph() : et_pipeline();
        for (uint32_t r = 0; r < g->n_ranks; r++) {
            size_t bytes;
            const syn_export_options options = {.rank = &g->ranks[r].rank, .version = "syntorch 1"};
            char *data = export_bytes(&syn_export_et, g, &options, &bytes);
            check_round_trip(data, bytes);
            free(data);
        }
        syn_graph_free(g);
    }
}

static void test_all_ranks_through_json(void) {
    syn_error err = {0};
    syn_graph *g = et_pipeline(), *back = NULL;
    size_t n, n_json;
    char *json = export_bytes(&syn_export_chakra, g, NULL, &n_json);
    CHECK_OK(syn__et_import_chakra(&back, "x.json", json, n_json, &err), err);
    CHECK_OK(syn_graph_verify(back, &err), err);
    CHECK_INT(back->n_ranks, 4);
    CHECK_INT(back->world_size, 4);
    CHECK_INT(back->n_groups, 5); /* the groups of more than one rank */
    CHECK_STR(syn_graph_group_by_id(back, 4)->name, "embd1");
    for (int32_t rank = 0; rank < 4; rank++) {
        const syn_export_options options = {.rank = &rank};
        size_t m;
        char *a = export_bytes(&syn_export_et, g, &options, &n);
        char *b = export_bytes(&syn_export_et, back, &options, &m);
        CHECK(n == m && memcmp(a, b, n) == 0);
        free(a);
        free(b);
    }
    free(json);
    syn_graph_free(back);
    syn_graph_free(g);
}

static syn__str str(const char *text, size_t bytes) {
    return (syn__str){text, bytes};
}

static uint64_t bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint64_t bits_of_float(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Every member of the oneof, with values that are easily lost in a conversion. */
static void test_attribute_types(void) {
    const struct {
        uint32_t field;
        uint64_t bits;
        const char *data;
        size_t bytes;
    } values[] = {
        {0, 0, "", 0},
        {3, bits_of(0.1), "", 0},
        {3, bits_of(-0.0), "", 0},
        {3, bits_of(1e300 * 1e300), "", 0},
        {4, 0, "\x0a\x10\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0@", 18},
        {5, bits_of_float(0.1f), "", 0},
        {6, 0, "\x0a\x04\xcd\xcc\xcc=", 6},
        {7, (uint64_t)-5, "", 0},
        {8, 0, "\x0a\x0b\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13},
        {9, (uint64_t)INT64_MIN, "", 0},
        {9, 0, "", 0},
        {10, 0, "\x0a\x02\xac\x02", 4},
        {11, UINT32_MAX, "", 0},
        {12, 0, "\x0a\x01\x07", 3},
        {13, UINT64_MAX, "", 0},
        {14, 0, "\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {15, (uint64_t)-1, "", 0},
        {16, 0, "\x0a\x02\x01\x02", 4},
        {17, (uint64_t)INT64_MIN, "", 0},
        {18, 0, "\x0a\x01\x03", 3},
        {19, UINT32_MAX, "", 0},
        {20, 0, "\x0a\x04\1\2\3\4", 6},
        {21, UINT64_MAX, "", 0},
        {22, 0, "\x0a\x08\1\2\3\4\5\6\7\xff", 10},
        {23, (uint64_t)INT32_MIN, "", 0},
        {24, 0, "\x0a\x04\xff\xff\xff\xff", 6},
        {25, (uint64_t)INT64_MIN, "", 0},
        {26, 0, "\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff", 10},
        {27, 0, "", 0},
        {27, 1, "", 0},
        {28, 0, "\x0a\x03\x01\x00\x01", 5},
        {28, 0, "", 0},
        {29, 0, "", 0},
        {29, 0, "\xC3\xA9\"\\\n\x01", 6},
        {30, 0, "\x0a\x00\x0a\x02hi", 6},
        {31, 0, "\x00\xff\x10", 3},
        {31, 0, "ab", 2},
        {32, 0, "\x0a\x01\xff\x0a\x00", 5},
    };
    syn__et_attr attrs[sizeof values / sizeof values[0]];
    const size_t n = sizeof values / sizeof values[0];
    static const char *const names[] = {"a",   "num_ops", "tensor_size", "comm_tag", "",
                                        "x@y", "x@none",  "@type",       "@inputs",  "et.version"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        file f = {0};
        for (size_t i = 0; i < n; i++)
            attrs[i] = (syn__et_attr){.name = str(names[k], strlen(names[k])),
                                      .doc = i % 3 == 0 ? str("doc", 3) : str("", 0),
                                      .field = values[i].field,
                                      .bits = values[i].bits,
                                      .data = str(values[i].data, values[i].bytes)};
        const syn__et_node node = {
            .id = UINT64_MAX,
            .name = str(k % 2 == 0 ? "" : "a/b/", k % 2 == 0 ? 0 : 4),
            .type = (uint32_t)k,
            .start_micros = k == 1 ? UINT64_MAX : 1ull << 53 | 1,
            .duration_micros = k == 2 ? UINT64_MAX : 1ull << 60 | 1,
            .io = {{.present = k != 3, .text = {str("[1]", 3), str("", 0), str("[]", 2)}},
                   {.present = k != 4, .text = {str("", 0), str("", 0), str("", 0)}}},
            .attrs = attrs,
            .n_attrs = n};
        put_meta(&f, k % 2 == 0 ? "" : "7", NULL, 0);
        syn__et_put_node(&f.message, &node);
        end_message(&f);
        CHECK(!f.buf.failed);
        check_round_trip(f.buf.data, f.buf.bytes);
        close_file(&f);
    }
}

static void test_metadata_types(void) {
    const syn__et_attr attrs[] = {
        {str("schema", 6), str("", 0), 29, 0, str("1.1.1-chakra.0.0.4", 18), str("", 0)},
        {str("pid", 3), str("process", 7), 13, 7, str("", 0), str("", 0)},
        {str("start_ts", 8), str("", 0), 13, UINT64_MAX, str("", 0), str("", 0)},
        {str("rank", 4), str("", 0), 9, 5, str("", 0), str("", 0)},
        {str("et.groups", 9), str("", 0), 27, 1, str("", 0), str("", 0)},
        {str("x@rank5", 7), str("d", 1), 5, bits_of_float(1.5f), str("", 0), str("", 0)},
        {str("pg.3", 4), str("tp0", 3), 8, 0, str("\x0a\x02\x05\x06", 4), str("", 0)},
    };
    file f = {0};
    put_meta(&f, "", attrs, sizeof attrs / sizeof attrs[0]);
    put_node(&f, 1, NULL, 0, NULL, 0);
    check_round_trip(f.buf.data, f.buf.bytes);
    syn_graph *g = read_et(f.buf.data, f.buf.bytes);
    CHECK_INT(g->ranks[0].rank, 5);
    CHECK_INT(g->world_size, 7);
    CHECK_STR(syn_graph_group_by_id(g, 3)->name, "tp0");
    syn_graph_free(g);
    close_file(&f);
}

/* ---- Meaning ---- */

static void test_meaning(void) {
    syn_graph *g = small_gpt_graph();
    size_t bytes;
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph *back = read_et(data, bytes);
    CHECK_INT(back->n_ranks, 1);
    CHECK_INT(back->world_size, 2);
    CHECK_STR(syn_graph_meta(back, "model")->text, "gpt3-style");
    CHECK_STR(syn_graph_group_by_id(back, 1)->name, "tp0");
    syn_cursor a = {0}, b = {0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *want = syn_graph_node(g, 0, i, &a);
        if (want->flags & SYN_NODE_VIRTUAL) continue;
        const syn_node *got = syn_graph_node(back, 0, at++, &b);
        CHECK_STR(got->op, want->op);
        CHECK_STR(got->label, want->label);
        CHECK_STR(got->scope, want->scope);
        CHECK_INT(got->id, at);
        CHECK_INT(got->kind, want->kind);
        CHECK_INT(got->category, want->category);
        CHECK_INT(got->phase, want->phase);
        CHECK_INT(got->stream, want->stream);
        CHECK_NEAR(got->predicted_ns, want->predicted_ns, 0.5);
        CHECK_INT(got->comm, want->comm);
        CHECK_INT(got->reduce, want->reduce);
        CHECK_INT(got->group, want->group);
        CHECK_INT(got->comm_bytes, want->comm_bytes);
        CHECK_INT(got->comm_index, want->comm_index);
        if (want->kind != SYN_NODE_COMPUTE || i == 0) continue;
        CHECK_INT(got->flops, want->flops);
        CHECK_INT(got->bytes_read, want->bytes_read + want->bytes_written);
    }
    CHECK_INT(at, back->ranks[0].n_nodes);
    syn_cursor_free(&a);
    syn_cursor_free(&b);
    free(data);
    syn_graph_free(back);
    syn_graph_free(g);
}

static void test_messages_mean(void) {
    syn_graph *g = et_pipeline();
    size_t bytes;
    const int32_t rank = 3;
    const syn_export_options options = {.rank = &rank};
    char *data = export_bytes(&syn_export_et, g, &options, &bytes);
    syn_graph *back = read_et(data, bytes);
    CHECK_INT(back->ranks[0].rank, 3);
    CHECK_INT(back->world_size, 4);
    syn_cursor c = {0};
    uint32_t received = 0;
    for (uint32_t i = 0; i < back->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(back, 0, i, &c);
        if (n->kind != SYN_NODE_RECV) continue;
        CHECK_INT(n->comm, SYN_COMM_RECV);
        CHECK_INT(n->peer, 1);
        CHECK_INT(n->tag, received);
        CHECK_INT(n->comm_index, received);
        CHECK_INT(n->comm_bytes, 64);
        received++;
    }
    CHECK_INT(received, 3);
    syn_cursor_free(&c);
    free(data);
    syn_graph_free(back);
    syn_graph_free(g);
}

/* The node that an op of the table has in the trace of rank 0 of two. */
static syn_node node_of(int op) {
    const syn_opdef *def = &syn_op_table[op];
    syn_node n = plain_node((uint64_t)op, def->name);
    n.category = def->category;
    n.comm = def->comm;
    n.comm_bytes = n.flops = n.bytes_read = 64;
    n.flags = def->cpu == NULL ? SYN_NODE_VIRTUAL : 0;
    n.tag = 0;
    if (def->comm == SYN_COMM_NONE) return n;
    const bool message = def->comm == SYN_COMM_SEND || def->comm == SYN_COMM_RECV;
    n.kind = !message                     ? SYN_NODE_COLLECTIVE
             : def->comm == SYN_COMM_SEND ? SYN_NODE_SEND
                                          : SYN_NODE_RECV;
    n.group = message ? 0 : 1;
    n.peer = message ? 1 : -1;
    if (def->comm == SYN_COMM_ALL_REDUCE || def->comm == SYN_COMM_REDUCE_SCATTER)
        n.reduce = SYN_REDUCE_SUM;
    if (def->comm == SYN_COMM_BROADCAST) n.root = 0;
    return n;
}

static void test_categories(void) {
    syn_error err = {0};
    const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "tp0", ranks, 2};
    size_t bytes;
    syn_graph *g = et_empty(ranks, 1, 2, &group, 1);
    uint32_t shown = 0, at[SYN_NODE_KIND_COUNT] = {0};
    for (int op = SYN_OP_NONE + 1; op < SYN_OP_COUNT; op++) {
        syn_node node = node_of(op);
        node.comm_index = at[node.kind]++;
        shown += (node.flags & SYN_NODE_VIRTUAL) == 0 && node.comm != SYN_COMM_BARRIER;
        CHECK_OK(syn_graph_add_node(g, 0, &node, &err), err);
    }
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph *back = read_et(data, bytes);
    CHECK_INT(back->ranks[0].n_nodes, shown);
    syn_cursor c = {0};
    for (uint32_t i = 0; i < back->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(back, 0, i, &c);
        int op = SYN_OP_COUNT - 1;
        while (op > SYN_OP_NONE && strcmp(syn_op_table[op].name, n->op) != 0) op--;
        CHECK_MSG(op != SYN_OP_NONE && n->category == syn_op_table[op].category,
                  "%s came back as %s", n->op, syn_category_name(n->category));
    }
    syn_cursor_free(&c);
    free(data);
    syn_graph_free(back);
    syn_graph_free(g);
    /* Op names of other programs are assigned to categories by keywords, the more specific keywords
       first. */
    CHECK_INT(syn_op_category("aten::_softmax"), SYN_CATEGORY_REDUCTION);
    CHECK_INT(syn_op_category("aten::native_layer_norm"), SYN_CATEGORY_NORM);
    CHECK_INT(syn_op_category("aten::matmul"), SYN_CATEGORY_MATMUL);
    CHECK_INT(syn_op_category("aten::mul"), SYN_CATEGORY_ELEMENTWISE);
    CHECK_INT(syn_op_category("void kernel<float>()"), SYN_CATEGORY_OTHER);
}

/* Costs that were raised to a minimum for simulators must not be read as the costs of the
   program. */
static void test_clamped(void) {
    const struct {
        uint64_t ops, bytes;
        bool clamped;
        uint64_t want_ops, want_bytes;
    } cases[] = {{1, 1, true, 0, 0},       {1, 500, true, 0, 500},   {7, 1, true, 7, 0},
                 {7, 4096, true, 7, 0},    {1, 4096, true, 0, 4096}, {1, 1, false, 1, 1},
                 {7, 4096, false, 7, 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const syn__et_attr attrs[] = {syn__et_number("num_ops", SYN__ET_INT64, cases[i].ops),
                                      syn__et_number("tensor_size", SYN__ET_UINT64, cases[i].bytes),
                                      syn__et_number("clamped", SYN__ET_BOOL, 1)};
        const syn__et_node node = {.id = 1,
                                   .name = str("a", 1),
                                   .type = SYN__ET_COMP_NODE,
                                   .attrs = attrs,
                                   .n_attrs = cases[i].clamped ? 3 : 2};
        file f = {0};
        syn_cursor c = {0};
        put_meta(&f, "1", NULL, 0);
        syn__et_put_node(&f.message, &node);
        end_message(&f);
        check_round_trip(f.buf.data, f.buf.bytes);
        syn_graph *g = read_et(f.buf.data, f.buf.bytes);
        const syn_node *n = syn_graph_node(g, 0, 0, &c);
        CHECK_INT(n->flops, cases[i].want_ops);
        CHECK_INT(n->bytes_read, cases[i].want_bytes);
        syn_cursor_free(&c);
        syn_graph_free(g);
        close_file(&f);
    }
}

/* ---- Order ---- */

static void test_forward_dependencies(void) {
    /* 5 depends on 2, 2 depends on 9, and 7 is independent. Among ready nodes the one with the
       smaller id comes first, so 7 is before 9. */
    static const uint64_t on9[] = {9}, on2[] = {2, 2};
    file f = {0};
    put_meta(&f, "1", NULL, 0);
    put_node(&f, 5, on2, 2, on2, 1);
    put_node(&f, 2, NULL, 0, on9, 1);
    put_node(&f, 9, NULL, 0, NULL, 0);
    put_node(&f, 7, NULL, 0, NULL, 0);
    syn_graph *g = read_et(f.buf.data, f.buf.bytes);
    static const uint64_t want[] = {7, 9, 2, 5};
    syn_cursor c = {0};
    for (uint32_t i = 0; i < 4; i++) CHECK_INT(syn_graph_node(g, 0, i, &c)->id, want[i]);
    const syn_node *last = syn_graph_node(g, 0, 3, &c);
    CHECK_INT(last->n_deps,
              2); /* a data and a control dependency on node 2, of which one is dropped */
    CHECK_INT(last->deps[0].node, 2);
    CHECK_INT(last->deps[0].dep_class, SYN_DEP_DATA);
    CHECK_INT(last->deps[1].dep_class, SYN_DEP_CONTROL);
    syn_cursor_free(&c);
    syn_graph_free(g);
    close_file(&f);
}

static void test_ties_go_by_id(void) {
    /* Ids decide the order of ready nodes, whether or not a node depends on a later one. */
    static const uint64_t ids[] = {50, 9, 31, 4, 77, 12, 60, 3, 25, 18, 90, 41}, on9[] = {9};
    const uint32_t n = sizeof ids / sizeof ids[0];
    for (size_t n_deps = 0; n_deps < 2; n_deps++) {
        file f = {0};
        put_meta(&f, "1", NULL, 0);
        for (uint32_t i = 0; i < n; i++) put_node(&f, ids[i], NULL, 0, on9, i == 0 ? n_deps : 0);
        syn_graph *g = read_et(f.buf.data, f.buf.bytes);
        syn_cursor c = {0};
        for (uint32_t i = 1; i < n; i++) {
            const uint64_t before = syn_graph_node(g, 0, i - 1, &c)->id;
            CHECK(before < syn_graph_node(g, 0, i, &c)->id);
        }
        syn_cursor_free(&c);
        syn_graph_free(g);
        close_file(&f);
    }
}

static void test_deep_chain(void) {
    const uint64_t n = 200000;
    file f = {0};
    put_meta(&f, "1", NULL, 0);
    for (uint64_t id = 1; id <= n; id++) {
        const uint64_t next = id + 1;
        put_node(&f, id, NULL, 0, &next, id < n ? 1 : 0);
    }
    syn_graph *g = read_et(f.buf.data, f.buf.bytes);
    CHECK_INT(g->ranks[0].n_nodes, n);
    syn_cursor c = {0};
    CHECK_INT(syn_graph_node(g, 0, 0, &c)->id, n);
    syn_cursor_free(&c);
    syn_graph_free(g);
    close_file(&f);
}

static void test_odd_but_valid(void) {
    /* Fields in any order, dependencies that are not packed, and unknown fields of every wire
       type. */
    static const char data[] =
        "\x00"
        "\x04\x18\x04\x08\x01"
        "\x1d\x98\x06\x05\xa1\x06\1\2\3\4\5\6\7\x08\xaa\x06\x01z\xad\x06\1\2\3\4"
        "\x20\x01\x08\x02\x20\x01";
    syn_graph *g = read_et(data, sizeof data - 1);
    CHECK_INT(g->ranks[0].n_nodes, 2);
    syn_cursor c = {0};
    CHECK_INT(syn_graph_node(g, 0, 1, &c)->n_deps, 1);
    syn_cursor_free(&c);
    syn_graph_free(g);
}

static void test_absent_control_dependencies(void) {
    /* PyTorch's converter writes no version, and leaves control dependencies on nodes that it
       omitted. */
    static const uint64_t gone[] = {0};
    for (int versioned = 0; versioned < 2; versioned++) {
        file f = {0};
        syn_error err = {0};
        put_meta(&f, versioned ? "1.0.0" : "", NULL, 0);
        put_node(&f, 1, gone, 1, NULL, 0);
        syn_graph *g = NULL;
        CHECK_INT(syn_import_et_memory(&g, "x.et", f.buf.data, f.buf.bytes, &err),
                  versioned ? SYN_E_FORMAT : SYN_OK);
        if (versioned)
            CHECK_STR(err.text, "x.et: node 1 depends on node 0, which is not in the file");
        else CHECK_INT(syn_graph_meta(g, "et.dropped_ctrl_deps")->i64, 1);
        syn_graph_free(g);
        close_file(&f);
    }
}

static const test_case cases[] = {
    {"round_trip", test_round_trip},
    {"all_ranks_through_json", test_all_ranks_through_json},
    {"attribute_types", test_attribute_types},
    {"metadata_types", test_metadata_types},
    {"meaning", test_meaning},
    {"messages_mean", test_messages_mean},
    {"categories", test_categories},
    {"clamped", test_clamped},
    {"forward_dependencies", test_forward_dependencies},
    {"ties_go_by_id", test_ties_go_by_id},
    {"deep_chain", test_deep_chain},
    {"odd_but_valid", test_odd_but_valid},
    {"absent_control_dependencies", test_absent_control_dependencies},
};

TEST_MAIN(cases)
