/* The schema and protobuf-c, whose pack and unpack share nothing with our reader and writer: the
   same nodes give the same bytes, in every form. With GROWN the same with a schema that has more
   fields, types and enum values than the library was written for (tests/CMakeLists.txt): nothing
   but et_def.proto has to change for them. */
#include "tests/support/test.h"

#include "export/chakra/chakra_json.h"
#include "export/chakra/wire/et_node.h"
#include "export/pytorch.h"
#include "export/statistics.h"
#include "export/validate.h"
#include "tests/support/et_protobuf.h"
#include "tests/support/et_sample.h"
#include "tests/support/files.h"
#include "tests/support/gpt_graph.h"

#ifdef SYN_HAVE_PROTOBUF_C

#include "chakra_schema.pb-c.h" /* which protoc-c makes of export/chakra/wire/et_def.proto */

typedef Syn__Chakra__AttributeProto pb_attr;

static pb_attr attr_of(char *name) {
    pb_attr a = SYN__CHAKRA__ATTRIBUTE_PROTO__INIT;
    a.name = name;
    return a;
}

static pb_attr bool_attr(char *name, int v) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_BOOL_VAL;
    a.bool_val = v;
    return a;
}

static pb_attr i64_attr(char *name, int64_t v) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_INT64_VAL;
    a.int64_val = v;
    return a;
}

static pb_attr u64_attr(char *name, uint64_t v) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_UINT64_VAL;
    a.uint64_val = v;
    return a;
}

static pb_attr i32_attr(char *name, int32_t v) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_INT32_VAL;
    a.int32_val = v;
    return a;
}

static pb_attr text_attr(char *name, char *v) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_STRING_VAL;
    a.string_val = v;
    return a;
}

static pb_attr list_attr(char *name, Syn__Chakra__StringList *list) {
    pb_attr a = attr_of(name);
    a.value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_STRING_LIST;
    a.string_list = list;
    return a;
}

static size_t frame(uint8_t *out, const ProtobufCMessage *m) {
    char length[SYN__ET_VARINT_MAX];
    const size_t bytes = protobuf_c_message_get_packed_size(m);
    const size_t n = (size_t)(syn__et_varint(length, bytes) - length);
    memcpy(out, length, n);
    return n + protobuf_c_message_pack(m, out + n);
}

/* Six nodes written by us, and the same six put together by hand and packed by protobuf-c. */
static void test_equal_bytes(void) {
    const et_row rows[] = {
        {.kind = SYN_NODE_COMPUTE, .label = "h/a"},
        {.kind = SYN_NODE_COMPUTE, .flags = SYN_NODE_VIRTUAL, .deps = "d0"},
        {.kind = SYN_NODE_COMPUTE, .deps = "d1", .label = "b"},
        {.kind = SYN_NODE_COLLECTIVE,
         .stream = 1,
         .group = 1,
         .comm = SYN_COMM_ALL_REDUCE,
         .deps = "d2"},
        {.kind = SYN_NODE_SEND, .stream = 2, .peer = 3, .tag = 9, .deps = "d3"},
        {.kind = SYN_NODE_RECV, .stream = 3, .peer = 2, .tag = 300, .deps = "c0"}};
    size_t bytes;
    syn_graph *g = et_graph(rows, 6);
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph_free(g);

    uint8_t packed[4096];
    int32_t pair[] = {0, 1}, all[] = {0, 1, 2, 3};
    Syn__Chakra__Int32List lists[2] = {SYN__CHAKRA__INT32_LIST__INIT,
                                       SYN__CHAKRA__INT32_LIST__INIT};
    lists[0].values = pair;
    lists[0].n_values = 2;
    lists[1].values = all;
    lists[1].n_values = 4;
    pb_attr meta_attrs[] = {i64_attr("rank", 0), i64_attr("world_size", 4), attr_of("pg.1"),
                            attr_of("pg.3")};
    pb_attr *meta_refs[4];
    for (int i = 0; i < 4; i++) {
        meta_refs[i] = &meta_attrs[i];
        if (i < 2) continue;
        meta_attrs[i].doc_string = i == 2 ? "tp0" : "dp0";
        meta_attrs[i].value_case = SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_INT32_LIST;
        meta_attrs[i].int32_list = &lists[i - 2];
    }
    Syn__Chakra__GlobalMetadata meta = SYN__CHAKRA__GLOBAL_METADATA__INIT;
    meta.version = "1.0.0";
    meta.attr = meta_refs;
    meta.n_attr = 4;
    size_t n = frame(packed, &meta.base);

    pb_attr attrs[5][8] = {
        {bool_attr("is_cpu_op", 0), i64_attr("num_ops", 100), u64_attr("tensor_size", 5000),
         text_attr("op", "op")},
        {bool_attr("is_cpu_op", 0), i64_attr("num_ops", 100), u64_attr("tensor_size", 5000),
         text_attr("op", "op")},
        {bool_attr("is_cpu_op", 0), i64_attr("comm_type", 0), i64_attr("comm_size", 64),
         text_attr("pg_name", "1"), text_attr("pg_desc", "tp0"), i64_attr("stream", 1)},
        {bool_attr("is_cpu_op", 0), i32_attr("comm_src", 0), i32_attr("comm_dst", 3),
         i32_attr("comm_tag", 9), i64_attr("comm_size", 64), i64_attr("stream", 2)},
        {bool_attr("is_cpu_op", 0), i32_attr("comm_src", 2), i32_attr("comm_dst", 0),
         i32_attr("comm_tag", 300), i64_attr("comm_size", 64), i64_attr("stream", 3)}};
    static const size_t n_attrs[] = {4, 4, 6, 6, 6};
    static char *names[] = {"h/a", "b", "op", "op", "op"};
    static const Syn__Chakra__NodeType types[] = {
        SYN__CHAKRA__NODE_TYPE__COMP_NODE, SYN__CHAKRA__NODE_TYPE__COMP_NODE,
        SYN__CHAKRA__NODE_TYPE__COMM_COLL_NODE, SYN__CHAKRA__NODE_TYPE__COMM_SEND_NODE,
        SYN__CHAKRA__NODE_TYPE__COMM_RECV_NODE};
    Syn__Chakra__StringList none = SYN__CHAKRA__STRING_LIST__INIT;
    for (uint64_t i = 0; i < 5; i++) {
        pb_attr *refs[8];
        uint64_t dep = i == 4 ? 1 : i;
        Syn__Chakra__Node node = SYN__CHAKRA__NODE__INIT;
        node.id = i + 1;
        node.name = names[i];
        node.type = types[i];
        for (int k = 0; k < 8; k++) refs[k] = &attrs[i][k];
        node.attr = refs;
        attrs[i][n_attrs[i]] = list_attr("inputs", &none);
        attrs[i][n_attrs[i] + 1] = list_attr("outputs", &none);
        node.n_attr = n_attrs[i] + 2;
        if (i == 4) {
            node.ctrl_deps = &dep;
            node.n_ctrl_deps = 1;
        } else if (i > 0) {
            node.data_deps = &dep;
            node.n_data_deps = 1;
        }
        n += frame(packed + n, &node.base);
    }
    CHECK_INT(bytes, n);
    CHECK(memcmp(data, packed, n) == 0);
    free(data);
}

/* Every scalar of the oneof: our encoder and protobuf-c agree on its bytes. */
static void test_scalars(void) {
    static const struct {
        uint32_t field;
        uint64_t bits;
    } cases[] = {{3, 0x3FB999999999999A},
                 {5, 0x3DCCCCCD},
                 {7, (uint64_t)-5},
                 {7, 5},
                 {9, (uint64_t)-1},
                 {11, 4000000000u},
                 {13, UINT64_MAX},
                 {15, (uint64_t)-3},
                 {15, 77},
                 {17, (uint64_t)-300},
                 {19, 0xFFFFFFFE},
                 {21, UINT64_MAX - 1},
                 {23, (uint64_t)-2},
                 {25, (uint64_t)-2},
                 {27, 0},
                 {27, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pb_attr a = attr_of("n"), *ref = &a;
        a.value_case = (Syn__Chakra__AttributeProto__ValueCase)cases[i].field;
        const uint32_t low = (uint32_t)cases[i].bits;
        if (cases[i].field == 27) a.bool_val = (protobuf_c_boolean)low;
        else if (syn__et_type_of(cases[i].field)->bits == 64)
            memcpy(&a.uint64_val, &cases[i].bits, 8);
        else memcpy(&a.uint32_val, &low, 4);
        Syn__Chakra__Node node = SYN__CHAKRA__NODE__INIT;
        node.attr = &ref;
        node.n_attr = 1;
        uint8_t packed[64];
        const size_t n = syn__chakra__node__pack(&node, packed);
        const syn__et_attr ours = syn__et_number("n", cases[i].field, cases[i].bits);
        const syn__et_node same = {.name = {"", 0}, .attrs = &ours, .n_attrs = 1};
        syn__buf buf = {0};
        syn__et_put_node(&buf, &same);
        CHECK_INT(buf.bytes, n);
        CHECK_MSG(memcmp(buf.data, packed, n) == 0, "field %u", cases[i].field);
        syn__buf_free(&buf);
    }
}

static void test_repacked(void) {
    bool canonical;
    for (int which = 0; which < 2; which++) {
        syn_graph *g = which == 0 ? small_gpt_graph() : et_pipeline();
        size_t bytes;
        char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
        syn_graph_free(g);
        CHECK(et_same_as_protobuf(data, bytes, &canonical) && canonical);
        CHECK(!et_same_as_protobuf(data, bytes - 1, &canonical));
        free(data);
    }
    /* The check can fail: a default that is written out is readable, but not what protobuf
       writes. */
    CHECK(et_same_as_protobuf("\x00\x04\x08\x01\x30\x00", 6, &canonical) && !canonical);
}

/* A message as an .et of its own; behind empty metadata if it is a node. */
static size_t file_of(char *out, const char *message, size_t bytes, bool is_meta) {
    char *end = out;
    if (!is_meta) *end++ = 0;
    end = syn__et_varint(end, bytes);
    memcpy(end, message, bytes);
    return (size_t)(end - out) + bytes;
}

/* To JSON and back, without "@wire". */
static void check_json(const char *data, size_t bytes) {
    syn_error err = {0};
    syn_sink *json, *back;
    syn_chakra_json_stats stats;
    size_t n_json, n_back;
    NEED_OK(syn_sink_open_memory(&json, &err), err);
    NEED_OK(syn_sink_open_memory(&back, &err), err);
    CHECK_OK(syn_chakra_et_to_json("random", data, bytes, 0, json, &stats, &err), err);
    const char *text = syn_sink_data(json, &n_json);
    CHECK_MSG(stats.n_wire == 0, "%.*s", (int)n_json, text);
    CHECK_OK(syn_chakra_json_to_et("random", text, n_json, 0, back, &stats, &err), err);
    const char *again = syn_sink_data(back, &n_back);
    CHECK_INT(n_back, bytes);
    CHECK(n_back == bytes && memcmp(again, data, bytes) == 0);
    NEED_OK(syn_sink_close(json, false, &err), err);
    NEED_OK(syn_sink_close(back, false, &err), err);
}

static void test_random(void) {
    static char file[1 << 17];
    uint64_t state = 33;
    for (int i = 0; i < TEST_ROUNDS(2000); i++) {
        const char *message;
        bool canonical;
        const bool is_meta = i % 4 == 0;
        size_t bytes = et_random_message(&state, is_meta, &message);
        if (bytes == 0) continue; /* which ends a file */
        bytes = file_of(file, message, bytes, is_meta);
        CHECK(et_same_as_protobuf(file, bytes, &canonical) && canonical);
        check_json(file, bytes);
    }
}

static void test_names(void) {
    syn__et_member m;
    _Static_assert((int)SYN__ET_COMM_COLL_NODE == (int)SYN__CHAKRA__NODE_TYPE__COMM_COLL_NODE, "");
    _Static_assert((int)SYN__ET_UINT64_LIST == (int)SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_UINT64_LIST,
                   "");
    const syn__et_message *node = syn__et_message_of(SYN__ET_RECORD_NODE);
    CHECK(syn__et_member_named(node, syn__str_of("startTimeMicros"), &m));
    CHECK_INT(m.number, SYN__ET_NODE_START_TIME_MICROS);
    CHECK(syn__et_member_named(node, syn__str_of("start_time_micros"), &m));
    CHECK(!syn__et_member_named(node, syn__str_of("startTime_micros"), &m));
    CHECK(!syn__et_member_named(node, syn__str_of("startTimeMicro"), &m));
    CHECK(!syn__et_member_named(node, syn__str_of(""), &m));
    CHECK_INT(syn__et_field_by_name(syn__str_of("sfixed64List")), 26);
    CHECK_INT(syn__et_field_by_name(syn__str_of("name")), SYN__ET_NONE);
    /* CollectiveCommType */
    CHECK_INT(syn__et_comm_type(SYN_COMM_ALL_REDUCE), 0);
    CHECK_INT(syn__et_comm_type(SYN_COMM_ALL_GATHER), 2);
    CHECK_INT(syn__et_comm_type(SYN_COMM_BROADCAST), 5);
    CHECK_INT(syn__et_comm_type(SYN_COMM_REDUCE_SCATTER), 7);
    CHECK_INT(syn__et_comm_type(SYN_COMM_BARRIER), 9);
    for (int k = 0; k <= 9; k++) CHECK_INT(syn__et_comm_type(syn__et_comm_kind(k)), k);
    CHECK_INT(syn__et_comm_kind(-1), SYN_COMM_NONE);
    CHECK_INT(syn__et_comm_kind(10), SYN_COMM_NONE);
    CHECK_INT(syn__et_comm_kind(INT64_C(1) << 32), SYN_COMM_NONE);
    CHECK_INT(syn__et_comm_type(SYN_COMM_SEND), -1);
    CHECK_INT(syn__et_comm_type(SYN_COMM_KIND_COUNT), -1);
}

#ifdef GROWN
/* Metadata and a node with what tests/CMakeLists.txt adds to the schema. */
static const char grown_json[] =
    "{\"ranks\":[\n{\"rank\":0,\"metadata\":{\"version\":\"1.0.0\",\"madeBy\":\"me\"},\"nodes\":[\n"
    "{\"id\":\"1\",\"type\":\"FUTURE_NODE\",\"inputs\":{\"values\":\"v\",\"strides\":[\"7\",\"8\"]}"
    ","
    "\"attr\":[{\"name\":\"a\",\"hashVal\":5,\"unit\":\"ns\"},"
    "{\"name\":\"b\",\"hashList\":{\"values\":[1,2]}}],"
    "\"queueMicros\":\"12\",\"states\":[{\"values\":\"x\"},{}],\"kind\":\"MULTICAST\"}]}]}\n";

static void test_grown(void) {
    syn_error err = {0};
    syn_sink *et, *json, *compat;
    syn_chakra_json_stats stats;
    size_t n_et, n_json;
    bool canonical;
    NEED_OK(syn_sink_open_memory(&et, &err), err);
    NEED_OK(syn_sink_open_memory(&json, &err), err);
    NEED_OK(syn_sink_open_memory(&compat, &err), err);
    CHECK_OK(syn_chakra_json_to_et("grown", grown_json, sizeof grown_json - 1, 0, et, &stats, &err),
             err);
    const char *data = syn_sink_data(et, &n_et);
    CHECK(et_same_as_protobuf(data, n_et, &canonical) && canonical);
    CHECK_OK(syn_chakra_et_to_json("grown", data, n_et, 0, json, &stats, &err), err);
    CHECK_STR(syn_sink_data(json, &n_json), grown_json);
    CHECK_INT(stats.n_wire, 0);
    CHECK_OK(syn_chakra_et_to_json_compat("grown", data, n_et, compat, &stats, &err), err);
    CHECK_HAS(syn_sink_data(compat, &n_json), "  \"queueMicros\": \"12\",\n  \"states\": [\n");

    syn_validator *v;
    syn_validation found;
    const syn_validate_options how = {.any_node = true, .single = true};
    NEED_OK(syn_validator_open(&v, &how, 1, &err), err);
    CHECK_OK(syn_validator_add(v, 0, data, n_et, &err), err);
    CHECK_OK(syn_validator_close(v, &found, &err), err);
    CHECK_INT(found.counts[SYN_FINDING_NEW_TYPE], 0);
    syn_validation_free(&found);
    CHECK_OK(syn_sink_close(et, false, &err), err);
    CHECK_OK(syn_sink_close(json, false, &err), err);
    CHECK_OK(syn_sink_close(compat, false, &err), err);
}
#endif

static const test_case cases[] = {
#ifdef GROWN
    {"grown", test_grown},
#endif
    {"equal_bytes", test_equal_bytes},
    {"names", test_names},
    {"random", test_random},
    {"repacked", test_repacked},
    {"scalars", test_scalars}};

#else

/* Whatever reads or writes execution traces says what is missing, and writes nothing. */
static void check_missing(syn_status status, const syn_error *err) {
    CHECK_INT(status, SYN_E_UNSUPPORTED);
    CHECK_HAS(err->text, "protobuf-c was missing");
    CHECK(!syn_file_exists(in_folder("trace.0.et")));
}

static void test_graphs(void) {
    static const char json[] = "{\"ranks\":[{\"rank\":0,\"nodes\":[]}]}";
    syn_error err = {0};
    syn_graph *g = small_gpt_graph(), *back = NULL;
    check_missing(export_forget(&syn_export_et, g, NULL, &err), &err);
    check_missing(export_forget(&syn_export_chakra, g, NULL, &err), &err);
    check_missing(syn_export_et_set(g, NULL, in_folder("trace"), &err), &err);
    CHECK_OK(export_forget(&syn_export_json, g, NULL, &err), err);
    syn_graph_free(g);
    check_missing(syn_import_et_memory(&back, "x.et", "\0", 1, &err), &err);
    check_missing(syn_import_any(&back, put_text("x.json", json), &err), &err);
    CHECK(back == NULL);
}

static void test_files(void) {
    const char *path = put_text("x.et", "\1");
    syn_error err = {0};
    syn_validation found;
    syn_statistics_set statistics;
    syn_chakra_json_stats stats;
    syn_sink *sink;
    const syn_validate_options how = {.single = true};
    check_missing(syn_validate(&found, &path, 1, &how, &err), &err);
    check_missing(syn_statistics_read(&statistics, &path, 1, 0, &err), &err);
    NEED_OK(syn_sink_open_memory(&sink, &err), err);
    check_missing(syn_chakra_et_to_json("x", "\0", 1, 0, sink, &stats, &err), &err);
    check_missing(syn_chakra_et_to_json_compat("x", "\0", 1, sink, &stats, &err), &err);
    check_missing(syn_chakra_json_to_et("x", "{}", 2, 0, sink, &stats, &err), &err);
    NEED_OK(syn_sink_close(sink, false, &err), err);
}

static void test_conversions(void) {
    syn_error err = {0};
    syn_pytorch_report report;
    const syn_pytorch_source source = {.host = put_text("host.json", "{}")};
    check_missing(syn_pytorch_convert(&report, &source, 1, in_folder("trace"), NULL, &err), &err);
    syn_pytorch_report_free(&report);
}

static const test_case cases[] = {
    {"conversions", test_conversions}, {"files", test_files}, {"graphs", test_graphs}};

#endif

TEST_MAIN(cases)
