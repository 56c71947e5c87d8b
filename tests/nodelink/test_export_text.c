/* Tests node-link JSON (written and read again), GraphML, and the list of exporters.
   test_export_text.py reads the files that this program writes to $SYN_TEST_OUT with independent
   readers. */
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/gpt_graph.h"
#include "tests/support/graphs.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

static syn_status import_text(syn_graph **out, const char *text, syn_error *err) {
    return syn_import_json_memory(out, "g.json", text, strlen(text), err);
}

static void round_trip(void) {
    static const syn_nx_key ways[] = {SYN_NX_BOTH, SYN_NX_LINKS, SYN_NX_EDGES};
    syn_graph *graph = full_graph();
    for (size_t i = 0; i < 3; i++) {
        const syn_export_options options = {.nx_key = ways[i]};
        char *text = export_text(&syn_export_json, graph, &options);
        CHECK_INT(strstr(text, "\"links\"") != NULL, ways[i] != SYN_NX_EDGES);
        CHECK_INT(strstr(text, "\"edges\"") != NULL, ways[i] != SYN_NX_LINKS);
        syn_graph *again = read_json(text);
        const char *difference = graph_difference(graph, again);
        CHECK_MSG(difference == NULL, "%s differs", difference);
        free(text);
        syn_graph_free(again);
    }
    syn_graph_free(graph);
}

/* A graph that was written and read again must give the same bytes as the original, in every
   format. */
static void same_bytes_in_every_format(void) {
    static const syn_exporter *const all[] = {&syn_export_json, &syn_export_graphml,
                                              &syn_export_chrome};
    syn_graph *graph = full_graph();
    char *json = export_text(&syn_export_json, graph, NULL);
    syn_graph *again = read_json(json);
    free(json);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char *a = export_text(all[i], graph, NULL), *b = export_text(all[i], again, NULL);
        CHECK(strlen(a) > 100);
        CHECK_STR(b, a);
        free(a);
        free(b);
    }
    syn_graph_free(graph);
    syn_graph_free(again);
}

/* Whether exporting both graphs succeeds and gives the same bytes. */
static bool same_bytes(const syn_exporter *exporter, const syn_graph *a, const syn_graph *b) {
    const syn_graph *const graphs[2] = {a, b};
    syn_sink *sinks[2] = {NULL, NULL};
    syn_error errors[2] = {{0}, {0}};
    const char *data[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    syn_status status[2];
    for (int i = 0; i < 2; i++) {
        status[i] = syn_export_memory(&sinks[i], graphs[i], exporter, NULL, &errors[i]);
        if (status[i] == SYN_OK) data[i] = syn_sink_data(sinks[i], &bytes[i]);
    }
    const bool same = status[0] == status[1] && strcmp(errors[0].text, errors[1].text) == 0 &&
                      data[0] != NULL && data[1] != NULL && bytes[0] == bytes[1] &&
                      memcmp(data[0], data[1], bytes[0]) == 0;
    for (int i = 0; i < 2; i++) (void)syn_sink_close(sinks[i], false, NULL);
    return same && status[0] == SYN_OK;
}

/* The same for a graph like those of models, in more formats. SVG, PNG and PDF are skipped because
   they are drawn from the DOT output. */
static void model_in_every_format(void) {
    syn_graph *graph = small_gpt_graph();
    char *json = export_text(&syn_export_json, graph, NULL);
    syn_graph *again = read_json(json);
    const char *difference = graph_difference(graph, again);
    CHECK_MSG(difference == NULL, "%s differs", difference);
    for (size_t i = 0; syn_exporters()[i] != NULL; i++) {
        const syn_exporter *e = syn_exporters()[i];
        if (e == &syn_export_svg || e == &syn_export_png || e == &syn_export_pdf) continue;
        if (e == &syn_export_simai || !can_export(e)) continue; /* simai needs a training step */
        CHECK_MSG(same_bytes(e, graph, again), "%s differs or was refused", e->name);
    }
    free(json);
    syn_graph_free(graph);
    syn_graph_free(again);
}

static void one_rank_only(void) {
    syn_error err = {0};
    int32_t rank = 1;
    const syn_export_options options = {.rank = &rank};
    syn_graph *graph = full_graph();
    char *text = export_text(&syn_export_json, graph, &options);
    syn_graph *again = read_json(text);
    CHECK_INT(again->n_ranks, 1);
    CHECK_INT(again->ranks[0].rank, 1);
    CHECK_INT(again->world_size, 3);
    free(text);
    syn_graph_free(again);
    rank = 2;
    CHECK_INT(export_forget(&syn_export_graphml, graph, &options, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "rank 2");
    syn_graph_free(graph);
}

/* Reads a hand-written file whose sections, nodes and edges have another order than ours. */
static void any_order(void) {
    static const char text[] =
        "{\"edges\":[{\"target\":\"r4.t12\",\"source\":\"r4.o3\",\"position\":0,\"weight\":1.5},"
        "{\"source\":\"r4.t10\",\"target\":\"r4.o1\",\"position\":1},"
        "{\"source\":\"r4.t12\",\"target\":\"r4.o1\",\"position\":0},"
        "{\"kind\":\"stream\",\"source\":\"r4.o3\",\"target\":\"r4.o1\"}],"
        "\"nodes\":[{\"op\":\"add\",\"mine\":{\"a\":[1,{}]},\"flops\":64.0,\"id\":\"r4.o1\"},"
        "{\"id\":\"r4.t12\",\"dtype\":\"bf16\",\"shape\":[],\"step\":null},"
        "{\"shape\":[3],\"id\":\"r4.t10\",\"role\":\"input\",\"dtype\":\"i64\"},"
        "{\"id\":\"r4.o3\",\"op\":\"fill\"}]}";
    syn_cursor cursor = {0};
    syn_graph *g = read_json(text);
    CHECK_INT(g->n_ranks, 1);
    CHECK_INT(g->ranks[0].rank, 4);
    CHECK_INT(g->world_size, 5);
    CHECK_INT(g->ranks[0].n_nodes, 2);
    CHECK_INT(g->ranks[0].n_tensors, 2);
    /* Dependencies come before the nodes that depend on them. */
    CHECK_STR(syn_graph_node(g, 0, 0, &cursor)->op, "fill");
    CHECK_INT(cursor.node.n_inputs, 0);
    CHECK_INT(cursor.node.outputs[0], 1);
    CHECK_STR(syn_graph_node(g, 0, 1, &cursor)->op, "add");
    CHECK_STR(cursor.node.label, "add");
    CHECK_INT(cursor.node.flops, 64);
    CHECK_INT(cursor.node.peer, -1);
    CHECK_INT(cursor.node.n_inputs, 2);
    CHECK_INT(cursor.node.inputs[0], 1);
    CHECK_INT(cursor.node.inputs[1], 0);
    CHECK_INT(cursor.node.n_deps, 2);
    CHECK_INT(cursor.node.deps[0].dep_class, SYN_DEP_DATA);
    CHECK_INT(cursor.node.deps[1].dep_class, SYN_DEP_STREAM);
    CHECK_INT(syn_graph_tensor_at(g, 0, 0, &cursor)->spec.dims[0], 3);
    CHECK_INT(syn_graph_tensor_at(g, 0, 1, &cursor)->producer, 0);
    CHECK_INT(cursor.tensor.spec.rank, 0);
    syn_cursor_free(&cursor);
    syn_graph_free(g);
}

/* A chain of n ops that the file lists backwards must be read in forward order, in linear time. */
static void long_chain_backwards(void) {
    const uint32_t n = 20000;
    syn_cursor cursor = {0};
    char *text = malloc((size_t)n * 120 + 200), *p = text;
    CHECK(text != NULL);
    p += sprintf(p, "{\"nodes\":[");
    for (uint32_t i = n; i-- > 0;)
        p += sprintf(p, "{\"id\":\"r0.o%u\",\"op\":\"a\"}%s", i, i > 0 ? "," : "");
    p += sprintf(p, "],\"links\":[");
    for (uint32_t i = 1; i < n; i++)
        p += sprintf(p, "%s{\"source\":\"r0.o%u\",\"target\":\"r0.o%u\",\"kind\":\"control\"}",
                     i > 1 ? "," : "", i - 1, i);
    sprintf(p, "]}");
    syn_graph *g = read_json(text);
    for (uint32_t i = 0; i < n; i++) CHECK_INT(syn_graph_node(g, 0, i, &cursor)->id, i);
    syn_cursor_free(&cursor);
    syn_graph_free(g);
    free(text);
}

#define OP(id) "{\"id\":\"r0.o" id "\",\"op\":\"a\"}"
#define SHARD(list) \
    "{\"id\":\"r0.t0\",\"role\":\"param\",\"dtype\":\"f32\",\"shape\":[4],\"shard\":" list "}"
#define TENSOR(id)    "{\"id\":\"r0.t" id "\",\"dtype\":\"f32\",\"shape\":[1],\"role\":\"input\"}"
#define GRAPH(n, e)   "{\"nodes\":[" n "],\"links\":[" e "]}"
#define DEP(from, to) "{\"source\":\"r0.o" from "\",\"target\":\"r0.o" to "\",\"kind\":\"control\"}"
#define IN(t, o, p)   "{\"source\":\"r0.t" t "\",\"target\":\"r0.o" o "\",\"position\":" p "}"

static void check_order(const char *text, const uint64_t *ids, uint32_t n) {
    syn_cursor cursor = {0};
    syn_graph *g = read_json(text);
    CHECK_INT(g->ranks[0].n_nodes, n);
    for (uint32_t i = 0; i < n; i++) CHECK_INT(syn_graph_node(g, 0, i, &cursor)->id, ids[i]);
    syn_cursor_free(&cursor);
    syn_graph_free(g);
}

#define PLACED(id, order) "{\"id\":\"r0.o" id "\",\"program_order\":" order ",\"op\":\"a\"}"

/* Program order follows the numeric ids (or "program_order"), not the order in the file. An op that
   depends on a later op is moved after that op; the others stay in order. */
static void order_of_ids(void) {
    static const uint64_t moved[] = {2, 3, 4, 5, 10, 11, 9}, placed[] = {7, 3, 9, 20, 4};
    check_order(
        GRAPH(OP("11") "," OP("9") "," OP("5") "," OP("10") "," OP("4") "," OP("2") "," OP("3"),
              DEP("11", "9")),
        moved, 7);
    /* Without "program_order", the id gives the order of an op. Equal positions are ordered by
       id. */
    check_order(
        GRAPH(PLACED("3", "1") "," OP("20") "," PLACED("4", "20") "," PLACED("7", "0") "," OP("9"),
              DEP("20", "4")),
        placed, 5);
    /* The order of ids agrees with this dependency; the order in the file does not. */
    static const uint64_t kept[] = {1, 2, 3};
    check_order(GRAPH(OP("3") "," OP("1") "," OP("2"), DEP("1", "3")), kept, 3);
}

/* Reads a file whose lines of nodes are reversed, as other programs may write it. */
static void reversed_nodes(void) {
    syn_graph *graph = small_gpt_graph();
    char *text = export_text(&syn_export_json, graph, NULL);
    /* The ids of traces ascend, so this key is not needed. */
    CHECK(strstr(text, "\"program_order\"") == NULL);
    char *nodes = strstr(text, "\"nodes\":[\n"), *end = strstr(text, "\n],\n\"links\"");
    CHECK(nodes != NULL && end != NULL);
    nodes += strlen("\"nodes\":[\n");
    char *copy = malloc(strlen(text) + 1), *to = copy;
    CHECK(copy != NULL);
    to += sprintf(to, "%.*s", (int)(nodes - text), text);
    for (const char *p = end; p > nodes;) {
        const char *begin = p;
        while (begin > nodes && begin[-1] != '\n') begin--;
        const int n = (int)(p - begin) - (p[-1] == ',');
        to += sprintf(to, "%.*s%s", n, begin, begin > nodes ? ",\n" : "");
        p = begin > nodes ? begin - 1 : begin;
    }
    strcpy(to, end);
    syn_graph *again = read_json(copy);
    const char *difference = graph_difference(graph, again);
    CHECK_MSG(difference == NULL, "%s differs", difference);
    syn_graph_free(graph);
    syn_graph_free(again);
    free(text);
    free(copy);
}

static void refusals(void) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "g.json:1:1"},
        {"[]", "must be an object"},
        {"{\"nodes\":[]", "g.json:1:"},
        {"{\"nodes\":[]}", "\"links\" or \"edges\" is missing"},
        {"{\"links\":[]}", "\"nodes\" is missing"},
        {GRAPH("", ""), "no rank"},
        {GRAPH(OP("1"), "") "x", "g.json:1:"},
        {GRAPH(OP("1") "," OP("1"), ""), "\"r0.o1\" appears twice"},
        {GRAPH(TENSOR("1") "," TENSOR("1"), ""), "\"r0.t1\" appears twice"},
        {GRAPH(OP("1"), DEP("2", "1")), "node \"r0.o2\" does not exist"},
        {GRAPH(OP("1") "," OP("3") "," OP("9"), DEP("2", "1")), "node \"r0.o2\" does not exist"},
        {GRAPH(OP("1"), "\n" IN("0", "1", "0")), "g.json:2:2: node \"r0.t0\" does not exist"},
        {GRAPH(OP("1"), DEP("1", "1")), "cycle through \"r0.o1\""},
        {GRAPH(OP("1") "," OP("2") "," OP("3"), DEP("2", "3") "," DEP("3", "2") "," DEP("2", "1")),
         "cycle through \"r0.o"},
        {GRAPH(OP("1") "," TENSOR("0"), IN("0", "1", "1")),
         "input 1 of r0.o1 is out of range: the op has 1"},
        {GRAPH(OP("1") "," TENSOR("0"), IN("0", "1", "0") "," IN("0", "1", "0")),
         "input 0 of r0.o1 appears twice"},
        {GRAPH(OP("1") "," TENSOR("0"), "{\"source\":\"r0.t0\",\"target\":\"r0.o1\"}"),
         "needs \"position\""},
        {GRAPH(OP("1") "," OP("2"), "{\"source\":\"r0.o1\",\"target\":\"r0.o2\"}"), "\"kind\""},
        {GRAPH(OP("1") "," TENSOR("0") "," TENSOR("2"),
               "{\"source\":\"r0.t0\",\"target\":\"r0.t2\",\"kind\":\"data\"}"),
         "\"kind\""},
        {GRAPH("{\"id\":\"r0.o1\"}", ""), "has no \"op\""},
        {GRAPH("{\"op\":\"a\"}", ""), "has no \"id\""},
        {GRAPH("{\"id\":7,\"op\":\"a\"}", ""), "must be like \"r0.o12\""},
        {GRAPH("{\"id\":\"r0.o01\",\"op\":\"a\"}", ""), "must be like \"r0.o12\""},
        {GRAPH("{\"id\":\"r0.o18446744073709551616\",\"op\":\"a\"}", ""), "must be like"},
        {GRAPH("{\"id\":\"r99999999999.o1\",\"op\":\"a\"}", ""), "must be like"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"flops\":-1}", ""), "flops must be an integer"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"flops\":18446744073709551616}", ""), "2^64"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"flops\":\"1\"}", ""), "flops must be an integer"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"step\":4294967296}", ""), "step must be"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"kind\":\"x\"}", ""), "unknown kind \"x\""},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":3}", ""), "op must be a string"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\\u0000b\"}", ""), "U+0000"},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"wall_ns\":\"5\"}", ""),
         "wall_ns must be a number"},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f32\"}", ""), "no \"shape\""},
        {GRAPH("{\"id\":\"r0.t0\",\"shape\":[1]}", ""), "no \"dtype\""},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f99\",\"shape\":[1]}", ""), "\"f99\" (valid:"},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f32\",\"shape\":[-1]}", ""), "a dimension"},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1]}", ""), "at most 6"},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f32\",\"shape\":[4294967296,4294967296]}", ""),
         "2^63 bytes"},
        {GRAPH(SHARD("7"), ""), "a list of four integers"},
        {GRAPH(SHARD("[0,1,0]"), ""), "a list of four integers"},
        {GRAPH(SHARD("[0,1,0,2,0]"), ""), "a list of four integers"},
        {GRAPH(SHARD("[0,1,-1,2]"), ""), "a number of a shard"},
        {GRAPH(SHARD("[1,1,0,2]"), ""), "has an invalid shard"},
        {GRAPH(SHARD("[0,1,2,2]"), ""), "has an invalid shard"},
        {GRAPH(SHARD("[0,3,0,2]"), ""), "has an invalid shard"},
        {GRAPH("{\"id\":\"r0.t0\",\"dtype\":\"f32\",\"shape\":[1]}", ""), "g.json: "},
        {GRAPH("{\"id\":\"r0.o1\",\"op\":\"a\",\"kind\":\"collective\",\"comm\":\"all_reduce\","
               "\"group\":5}",
               ""),
         "group does not exist: 5"},
        {"{\"directed\":false,"
         "\"nodes\":[],\"links\":[]}",
         "directed must be true"},
        {"{\"graph\":{\"format\":\"dot\"}}", "not written by syntorch"},
        {"{\"graph\":{\"format_version\":99}}", "format_version is 99"},
        {"{\"graph\":{\"ranks\":[0,0]},\"nodes\":[],\"links\":[]}", "rank 0 appears twice"},
        {"{\"graph\":{\"ranks\":[1]},\"nodes\":[" OP("1") "],\"links\":[]}", "does not list"},
        {"{\"graph\":{\"world_size\":1,\"ranks\":[1]},\"nodes\":[],\"links\":[]}",
         "world_size is 1"},
        {"{\"graph\":{\"groups\":[{\"id\":0,\"ranks\":[0]}]}}", "a group needs"},
        {"{\"nodes\":[],\"nodes\":[]}", "appears twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        syn_error err = {0};
        syn_graph *g = NULL;
        CHECK_MSG(import_text(&g, cases[i].text, &err) != SYN_OK, "%s was taken", cases[i].text);
        CHECK(g == NULL);
        CHECK_HAS(err.text, cases[i].part);
        CHECK_HAS(err.text, "g.json");
    }
}

/* A file that is truncated anywhere must be rejected. */
static void truncations(void) {
    syn_graph *graph = full_graph();
    char *text = export_text(&syn_export_json, graph, NULL);
    const size_t bytes = strlen(text);
    for (size_t n = 0; n + 2 < bytes; n++) {
        syn_error e = {0};
        syn_graph *g = NULL;
        CHECK_MSG(syn_import_json_memory(&g, "g.json", text, n, &e) == SYN_E_FORMAT,
                  "%zu of %zu bytes: status %d %s", n, bytes, (int)e.code, e.text);
        CHECK_HAS(e.text, "g.json:");
    }
    free(text);
    syn_graph_free(graph);
}

/* ---- Memory, list of exporters, files ---- */

static void out_of_memory(void) {
    syn_graph *graph = full_graph();
    char *text = export_text(&syn_export_json, graph, NULL);
    CHECK(export_without_memory(&syn_export_json, graph, NULL) > 3);
    CHECK(export_without_memory(&syn_export_graphml, graph, NULL) > 3);
    CHECK(read_json_without_memory(text) > 3);
    CHECK(read_json_without_memory(GRAPH(
              PLACED("1", "3") "," OP("2") "," TENSOR("3") "," TENSOR("2"), DEP("1", "2"))) > 3);
    free(text);
    syn_graph_free(graph);
}

static void exporter_list(void) {
    static const struct {
        const char *path, *name;
    } paths[] = {
        {"graph.json", "json"},
        {"a.b/GRAPH.JSON", "json"},
        {"x.svg", "svg"},
        {"x.png", "png"},
        {"x.dot", "dot"},
        {"x.graphml", "graphml"},
        {"trace.0.et", "et"},
        {"trace.chakra.json", "chakra"},
        {"timeline.json", "chrome"},
        {"tensor_trace_chakra.json", "chakra"},
        {"run.trace.json", "chrome"},
    };
    for (const syn_exporter *const *e = syn_exporters(); *e != NULL; e++)
        CHECK(syn_exporter_by_name((*e)->name) == *e);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const syn_exporter *e = syn_exporter_by_path(paths[i].path);
        CHECK_MSG(e != NULL, "%s", paths[i].path);
        CHECK_STR(e->name, paths[i].name);
    }
    CHECK(syn_exporter_by_path("x") == NULL);
    CHECK(syn_exporter_by_path("x.json/y") == NULL);
    CHECK(syn_exporter_by_path("x.unknown") == NULL);
    CHECK(syn_exporter_by_name("jso") == NULL);
}

/* Exports a graph to a file in one call. The format is determined by the name, options that are
   zero have their defaults, and a failure leaves the old file unchanged. */
static void a_file_in_one_call(void) {
    const syn_export_options zero = {0};
    const int32_t nobody = 7;
    const syn_export_options bad = {.rank = &nobody};
    const char *path = in_folder("graph.json");
    syn_error err = {0};
    syn_graph *graph = full_graph();
    char *text = export_text(&syn_export_json, graph, NULL);
    CHECK_MSG(text != NULL && strlen(text) < 65536, "%s", err.text);
    CHECK_OK(syn_export_file(graph, NULL, NULL, path, &err), err);
    CHECK_STR(file_text(path), text);
    CHECK_OK(syn_export_file(graph, &syn_export_json, &zero, in_folder("x.svg"), &err), err);
    CHECK_STR(file_text(in_folder("x.svg")), text);
    CHECK_INT(syn_export_file(graph, NULL, &bad, path, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "rank 7 is not in this graph");
    CHECK_STR(file_text(path), text);
    CHECK_INT(count_entries(in_folder("")), 2);
    err = (syn_error){0};
    CHECK_INT(syn_export_file(graph, NULL, NULL, in_folder("graph"), &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "/graph' has no extension that names a format (png, svg, pdf, dot, ");
    CHECK_HAS(err.text, ", chrome");
    err = (syn_error){0};
    CHECK_INT(syn_export_file(graph, NULL, NULL, in_folder("none/graph.json"), &err), SYN_E_IO);
    CHECK_INT(count_entries(in_folder("")), 2);
    free(text);
    syn_graph_free(graph);
}

static void files_for_other_readers(void) {
    syn_error err = {0};
    if (getenv("SYN_TEST_OUT") == NULL) SKIP("SYN_TEST_OUT names no folder");
    syn_graph *graph = full_graph();
    CHECK_OK(export_save(&syn_export_json, graph, "sample.json", &err), err);
    CHECK_OK(export_save(&syn_export_graphml, graph, "sample.graphml", &err), err);
    syn_graph_free(graph);
}

/* Files that networkx wrote from sample.json must give the same graph. */
static void resaved_by_others(void) {
    static const char *const names[] = {"resaved.json", "sorted.json", "shuffled.json"};
    syn_error err = {0};
    if (getenv("SYN_TEST_RESAVED") == NULL) SKIP("SYN_TEST_RESAVED names no folder");
    syn_graph *graph = full_graph();
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        syn_graph *again = NULL;
        snprintf(path, sizeof path, "%s/%s", getenv("SYN_TEST_RESAVED"), names[i]);
        CHECK_OK(syn_import_json(&again, path, &err), err);
        const char *difference = graph_difference(graph, again);
        /* networkx sorted the keys, which changes the order of attributes and nothing else. */
        if (i == 1 && difference != NULL && strcmp(difference, "metadata") == 0) difference = NULL;
        CHECK_MSG(difference == NULL, "%s: %s differs", names[i], difference);
        syn_graph_free(again);
    }
    syn_graph_free(graph);
}

static const test_case cases[] = {
    {"round_trip", round_trip},
    {"same_bytes_in_every_format", same_bytes_in_every_format},
    {"model_in_every_format", model_in_every_format},
    {"one_rank_only", one_rank_only},
    {"any_order", any_order},
    {"long_chain_backwards", long_chain_backwards},
    {"order_of_ids", order_of_ids},
    {"reversed_nodes", reversed_nodes},
    {"refusals", refusals},
    {"truncations", truncations},
    {"out_of_memory", out_of_memory},
    {"exporter_list", exporter_list},
    {"a_file_in_one_call", a_file_in_one_call},
    {"files_for_other_readers", files_for_other_readers},
    {"resaved_by_others", resaved_by_others},
};

TEST_MAIN(cases)
