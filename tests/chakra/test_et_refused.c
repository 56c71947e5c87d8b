/* Tests errors of the readers of execution traces, with their messages. If memory runs out, no file
   and no memory may be left behind. */
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "export/chakra/et_import.h"
#include "export/export.h"
#include "syntorch/base/memory.h"
#include "tests/support/et_sample.h"
#include "tests/support/files.h"
#include "tests/support/gpt_graph.h"

/* The beginnings of files: "\x00" is empty metadata, "\x07\x0a\x05""1.0.0" is metadata with a
   version. */
#define V          \
    "\x07\x0a\x05" \
    "1.0.0"

static void test_damage(void) {
    static const struct {
        const char *data;
        size_t bytes;
        const char *want;
    } cases[] = {
#define CASE(text, want) {text, sizeof(text) - 1, want}
        CASE("", "x.et, byte 0: the file is empty"),
        CASE("\x1f\x8b\x08", "x.et is compressed with gzip; unpack it first (gunzip)"),
        CASE("hello", "x.et, byte 0: the file ends inside a message; it is truncated or not a "
                      "Chakra execution trace"),
        CASE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
             "x.et, byte 0: this is not a Chakra execution trace"),
        CASE("\x04\x08\x01\x18\x04",
             "x.et, byte 1: the first message is a node, not GlobalMetadata"),
        CASE(V "\x05\x08\x01", "x.et, byte 8: the file ends inside a message"),
        CASE(V "\x80", "x.et, byte 8: a number is truncated"),
        CASE(V "\x00", "x.et, byte 9: a node is empty"),
        CASE(V "\x02\x08\x80", "x.et, byte 10: a number is truncated"),
        CASE(V "\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
             "x.et, byte 10: a number is longer than 64 bits"),
        CASE(V "\x04\x12\x05"
               "ab",
             "x.et, byte 11: a field extends past its message"),
        CASE(V "\x02\x0b\x01", "x.et, byte 9: a field has an unknown wire type"),
        CASE(V "\x02\x00\x01", "x.et, byte 9: a field has an invalid number"),
        CASE(V "\x04\x12\x02\xc3\x28", "x.et, byte 11: a string is not valid UTF-8"),
        CASE(V "\x06\x52\x04\x0a\x02\xff\xff", "x.et, byte 13: a string is not valid UTF-8"),
        CASE(V "\x07\x52\x05\xea\x01\x02\xff\xff", "x.et, byte 14: a string is not valid UTF-8"),
        CASE(V "\x07\x52\x05\xf2\x01\x02\x0a\x05",
             "x.et, byte 16: a field extends past its message"),
        CASE(V "\x07\x52\x05\x22\x03\x0a\x01\x00", "x.et, byte 15: a number is truncated"),
        CASE(V "\x04\x22\x02\x01\x80", "x.et, byte 12: a number is truncated"),
        CASE(V "\x02\x08\x05\x02\x08\x05", "x.et: two nodes have the id 5"),
        CASE(V "\x05\x08\x05\x2a\x01\x05",
             "x.et: the dependencies form a cycle: 1 nodes, including 5, can never start"),
        CASE(V "\x05\x08\x05\x2a\x01\x06\x05\x08\x06\x22\x01\x05\x02\x08\x01",
             "form a cycle: 2 nodes, including 5"),
        CASE(V "\x05\x08\x05\x2a\x01\x06",
             "x.et: node 5 depends on node 6, which is not in the file"),
        CASE("\x00\x05\x08\x05\x2a\x01\x06",
             "x.et: node 5 depends on node 6, which is not in the file"),
        CASE("\x0f\x12\x0d\x0a\x04pg.1\x42\x05\x0a\x03\x00\x01\x01",
             "x.et: group 1 has rank 1 twice"),
        CASE("\x0a\x12\x08\x0a\x04pg.1\x42\x00", "x.et: group 1 is empty"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        const syn_status status =
            syn_import_et_memory(&g, "x.et", cases[i].data, cases[i].bytes, &err);
        CHECK_MSG(status != SYN_OK && g == NULL, "case %zu: %s", i, cases[i].want);
        CHECK_HAS(err.text, cases[i].want);
    }
}

static void test_cut_anywhere(void) {
    /* A file that is truncated at the end of a message is a valid shorter file. Truncated anywhere
       else, it is rejected. */
    syn_error err = {0};
    syn_graph *g = small_gpt_graph();
    size_t bytes, whole = 0;
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph_free(g);
    for (size_t n = 0; n < bytes; n++) {
        char *part = (char *)malloc(
            n + 1); /* a separate allocation, so that a read past the end is detected */
        CHECK(part != NULL);
        memcpy(part, data, n);
        err = (syn_error){0};
        g = NULL;
        const syn_status status = syn_import_et_memory(&g, "x.et", part, n, &err);
        free(part);
        if (status == SYN_OK) whole++;
        else CHECK(g == NULL && err.text[0] != '\0');
        syn_graph_free(g);
    }
    CHECK_INT(whole, SMALL_GPT_NODES); /* after the metadata, and after each node except the last */
    free(data);
}

static void test_flipped_bytes(void) {
    /* Any byte value at any position must give an error or a valid graph. */
    syn_error err = {0};
    syn_graph *g = et_pipeline();
    size_t bytes;
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph_free(g);
    CHECK(data != NULL);
    for (size_t i = 0; i < bytes; i++) {
        static const unsigned char changes[] = {0xFF, 0x80, 0x01, 0x08};
        for (size_t k = 0; k < sizeof changes; k++) {
            const char old = data[i];
            data[i] = (char)(unsigned char)((unsigned char)old ^ changes[k]);
            err = (syn_error){0};
            g = NULL;
            if (syn_import_et_memory(&g, "x.et", data, bytes, &err) == SYN_OK)
                CHECK_OK(syn_graph_verify(g, &err), err);
            syn_graph_free(g);
            data[i] = old;
        }
    }
    free(data);
}

static void test_json_damage(void) {
#define NODE(members) \
    "{\"ranks\":[{\"rank\":0,\"metadata\":{\"version\":\"1\"},\"nodes\":[{" members "}]}]}"
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "x.json:1:1"},
        {"[]", "the file's content"},
        {"{}", "this file has no \"ranks\""},
        {"{\"ranks\":[]}", "this file has no \"ranks\""},
        {"{\"ranks\":[3]}", "a rank must be an object"},
        {"{\"ranks\":[{}]}", "this rank lacks its number, \"rank\""},
        {"{\"ranks\":[{\"rank\":-1}]}", "rank"},
        {"{\"ranks\":[{\"rank\":1},{\"rank\":1}]}", "rank 1 appears twice"},
        {"{\"ranks\":[{\"rank\":0,\"metadata\":{},\"metadata\":{}}]}", "metadata twice"},
        {"{\"ranks\":[{\"rank\":0,\"nodes\":[7]}]}", "a node must be an object"},
        {"{\"ranks\":[{\"rank\":0}]} x", "x.json:1:24"},
        {"{\"ranks\":[{\"rank\":0,\"metadata\":{\"attr\":[{\"name\":\"rank\",\"int64Val\":8}]}}]}",
         "x.json: the metadata of rank 0 has rank 8"},
        {NODE("\"id\":\"5x\""), "this is not a value of type uint64"},
        {NODE("\"id\":-5"), "this is not a value of type uint64"},
        {NODE("\"id\":\"18446744073709551616\""), "this is not a value of type uint64"},
        {NODE("\"id\":{}"), "this is not a value of type uint64"},
        {NODE("\"name\":5"), "name must be a string"},
        {NODE("\"type\":\"COMP\""), "unknown node type \"COMP\""},
        {NODE("\"dataDeps\":5"), "dependencies must be an array of ids"},
        {NODE("\"inputs\":5"), "inputs and outputs must be objects"},
        {NODE("\"attr\":{}"), "attr must be an array"},
        {NODE("\"attr\":[5]"), "an attribute must be an object"},
        {NODE("\"attr\":[{\"int32Val\":2147483648}]"), "this is not a value of type int32"},
        {NODE("\"attr\":[{\"uint32Val\":-1}]"), "this is not a value of type uint32"},
        {NODE("\"attr\":[{\"boolVal\":1}]"), "this is not a value of type bool"},
        {NODE("\"attr\":[{\"bytesVal\":\"a?\"}]"), "this is not a value of type bytes"},
        {NODE("\"attr\":[{\"boolVal\":true,\"int64Val\":\"1\"}]"), "an attribute has two values"},
        {NODE("\"attr\":[{\"int32List\":[1]}]"), "a list"},
        {NODE("\"id\":1,\"dataDeps\":[1]"), "form a cycle"},
        {NODE("\"id\":1,\"dataDeps\":[2]"), "x.json: node 1 depends on node 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        const syn_status status =
            syn__et_import_chakra(&g, "x.json", cases[i].text, strlen(cases[i].text), &err);
        CHECK_MSG(status != SYN_OK && g == NULL, "case %zu: %s", i, cases[i].want);
        CHECK_HAS(err.text, cases[i].want);
    }
}

/* The JSON reader accepts both spellings of protobuf's names, null for a default, numbers as
   numbers or strings, and unknown members. */
static void test_json_spellings(void) {
    static const char *const texts[] = {
        NODE("\"id\":1,\"durationMicros\":\"7\",\"attr\":[{\"name\":\"n\",\"int64Val\":3}]"),
        NODE("\"attr\":[{\"int64_val\":\"3\",\"docString\":null,\"name\":\"n\"}],\"duration_"
             "micros\":7,\"id\":\"1\","
             "\"new\":[{}],\"inputs\":null,\"ctrl_deps\":[],\"type\":\"INVALID_NODE\""),
    };
    char *data[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        CHECK_OK(syn__et_import_chakra(&g, "x.json", texts[i], strlen(texts[i]), &err), err);
        data[i] = export_bytes(&syn_export_et, g, NULL, &n[i]);
        syn_graph_free(g);
        CHECK_MSG(data[i] != NULL, "%s", err.text);
    }
    CHECK(n[0] == n[1] && memcmp(data[0], data[1], n[0]) == 0);
    free(data[0]);
    free(data[1]);
}

/* ---- Sets ---- */

static void test_sets(void) {
    syn_error err = {0};
    syn_graph *g = et_pipeline(), *back = NULL;
    CHECK_OK(syn_export_et_set(g, NULL, in_folder("t"), &err), err);
    CHECK_OK(syn_import_et(&back, in_folder("t.2.et"), false, &err), err);
    CHECK_INT(back->n_ranks, 1);
    CHECK_INT(back->ranks[0].rank, 2);
    CHECK_INT(back->n_groups, 5);
    syn_graph_free(back);
    for (int way = 0; way < 2; way++) {
        if (way == 0) CHECK_OK(syn_import_et(&back, in_folder("t.2.et"), true, &err), err);
        else CHECK_OK(syn_import_any(&back, in_folder("t"), &err), err);
        CHECK_OK(syn_graph_verify(back, &err), err);
        CHECK_INT(back->n_ranks, 4);
        CHECK_INT(back->world_size, 4);
        syn_graph_free(back);
    }
    CHECK_OK(syn_import_any(&back, in_folder("t.3.et"), &err), err);
    CHECK_INT(back->ranks[0].rank, 3);
    syn_graph_free(back);
    size_t bytes;
    char *json = export_bytes(&syn_export_chakra, g, NULL, &bytes);
    CHECK(json != NULL);
    put_file("t.json", json, bytes);
    free(json);
    CHECK_OK(syn_import_any(&back, in_folder("t.json"), &err), err);
    CHECK_INT(back->n_ranks, 4);
    syn_graph_free(back);
    syn_graph_free(g);
}

static void test_set_damage(void) {
    static const struct {
        const char *name, *text, *want;
    } cases[] = {
        {"t.1.et", "\x05", "t.1.et, byte 0: the file ends inside a message"},
        {"t.comm_group.json", "{\"tp\": [0, 1]}", "a group's key must be a positive integer"},
        {"t.comm_group.json", "{\"0\": [0, 1]}", "a group's key must be a positive integer"},
        {"t.comm_group.json", "{\"1\": [0, 0]}", "group 1 has rank 0 twice"},
        {"t.comm_group.json", "{\"1\": []}", "group 1 is empty"},
        {"t.comm_group.json", "{\"1\": [\"a\"]}", "must be integers from 0"},
        {"t.comm_group.json", "{\"1\": [1, 2]}",
         "group 1 has other ranks here than elsewhere in the set"},
        {"t.comm_group.json", "{\"1\": [0, 1],}", "t.comm_group.json:1:14"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = small_gpt_graph(), *back = NULL;
        CHECK_OK(syn_export_et_set(g, NULL, in_folder("t"), &err), err);
        put_text(cases[i].name, cases[i].text);
        CHECK_MSG(syn_import_et(&back, in_folder("t.0.et"), true, &err) != SYN_OK, "case %zu", i);
        CHECK(back == NULL);
        CHECK_HAS(err.text, cases[i].want);
        syn_graph_free(g);
    }
    syn_error err = {0};
    syn_graph *g;
    CHECK(syn_import_et(&g, "/nowhere/t.0.et", true, &err) == SYN_E_IO);
    CHECK_HAS(err.text, "/nowhere");
}

/* For files of another format, the message names the format. */
static void test_foreign_files(void) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\x89PNG\r\n\x1a\n", "is a PNG picture, not a graph"},
        {"\x1f\x8b\x08", "is compressed with gzip"},
        {"<?xml version=\"1.0\"?>\n<svg xmlns=\"\"/>", "is an SVG picture, not a graph"},
        {"\xEF\xBB\xBF <graphml/>", "is GraphML, which can be written but not read"},
        {"<!DOCTYPE html>", "is XML, which cannot be read"},
        {"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[]}", "is a Chrome timeline (traceEvents)"},
        {"{\n  \"1\": [0, 1]\n}", "lists the groups of a set of traces"},
        {"{\"schema\":\"1.1.1-chakra.0.0.4\",\"pid\":7,\"nodes\":[{\"id\":1}]}",
         "is a PyTorch execution trace, which this command cannot read"},
        /* This byte is read as a length of 60. */
        {"<\n\x05", "t.json, byte 0: the file ends inside a message"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        put_text("t.json", cases[i].text);
        CHECK_MSG(syn_import_any(&g, in_folder("t.json"), &err) != SYN_OK, "case %zu", i);
        CHECK(g == NULL);
        CHECK_HAS(err.text, "t.json");
        CHECK_HAS(err.text, cases[i].want);
    }
}

/* Ranks with different metadata keep their own metadata. */
static void test_set_of_other_tools(void) {
    static const char a[] = "\x10\x12\x06\x0a\x02id\x48\x05\x12\x06\x0a\x02tw\x48\x07\x02\x08\x01";
    static const char b[] = "\x18\x12\x06\x0a\x02id\x48\x06\x12\x06\x0a\x02tw\x48\x07\x12\x06\x0a"
                            "\x02up\x48\x09\x02\x08\x01";
    syn_error err = {0};
    syn_graph *g;
    put_file("t.0.et", a, sizeof a - 1);
    put_file("t.1.et", b, sizeof b - 1);
    CHECK_OK(syn_import_et(&g, in_folder("t.0.et"), true, &err), err);
    CHECK_INT(syn_graph_meta(g, "id@rank1")->i64, 6);
    for (int r = 0; r < 2; r++) {
        size_t n;
        const syn_export_options options = {.rank = &r};
        char *data = export_bytes(&syn_export_et, g, &options, &n);
        CHECK_INT(n, r == 0 ? sizeof a - 1 : sizeof b - 1);
        CHECK(memcmp(data, r == 0 ? a : b, n) == 0);
        free(data);
    }
    syn_graph_free(g);
}

/* ---- Out of memory ---- */

typedef struct trace_bytes {
    bool json;
    char *data;
    size_t bytes;
} trace_bytes;

static syn_status import_either(void *arg, syn_error *err) {
    const trace_bytes *t = arg;
    syn_graph *g = NULL;
    const syn_status status = t->json ? syn__et_import_chakra(&g, "x", t->data, t->bytes, err)
                                      : syn_import_et_memory(&g, "x", t->data, t->bytes, err);
    if (status != SYN_OK && g != NULL) return SYN_E_INVALID;
    syn_graph_free(g);
    return status;
}

static void test_no_memory(void) {
    for (int json = 0; json < 2; json++) {
        syn_graph *g = small_gpt_graph();
        trace_bytes t = {.json = json};
        t.data = export_bytes(json ? &syn_export_chakra : &syn_export_et, g, NULL, &t.bytes);
        CHECK(t.data != NULL);
        CHECK(test_without_memory(import_either, &t) > 20);
        free(t.data);
        syn_graph_free(g);
    }
}

static const test_case cases[] = {
    {"damage", test_damage},
    {"cut_anywhere", test_cut_anywhere},
    {"flipped_bytes", test_flipped_bytes},
    {"json_damage", test_json_damage},
    {"json_spellings", test_json_spellings},
    {"sets", test_sets},
    {"set_damage", test_set_damage},
    {"foreign_files", test_foreign_files},
    {"set_of_other_tools", test_set_of_other_tools},
    {"no_memory", test_no_memory},
};

TEST_MAIN(cases)
