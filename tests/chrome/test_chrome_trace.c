/* Tests the Chrome trace exporter: measured times, tracks and arrows. The simulated timeline is
   compared with manually computed times. test_export_text.py checks the files that this program
   writes to $SYN_TEST_OUT. */
#include "tests/support/exported.h"
#include "tests/support/graphs.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

static void chrome_measured(void) {
    syn_graph *graph = full_graph();
    char *text = export_text(&syn_export_chrome, graph, NULL);
    CHECK_HAS(text, "\"clock\":\"measured\"");
    CHECK_HAS(text,
              "\"name\":\"wait\",\"cat\":\"wait\",\"pid\":0,\"tid\":1,\"ts\":1.000,\"dur\":2.000");
    CHECK_HAS(text, "\"name\":\"all_reduce\",\"cat\":\"communication\",\"pid\":0,\"tid\":1,"
                    "\"ts\":3.000,\"dur\":0.500");
    CHECK_HAS(text, "\"args\":{\"id\":\"r0.o7\",\"for\":\"all_reduce\"}");
    CHECK_HAS(text, "\"Collective name\":\"allreduce\",\"dtype\":\"Float\",\"In msg nelems\":32,"
                    "\"Out msg nelems\":32");
    CHECK_HAS(text, "\"Process Group Name\":\"1\",\"Process Group Description\":\"tp0\","
                    "\"Process Group Ranks\":\"[0, 1]\"");
    CHECK_HAS(text, "{\"ph\":\"s\",\"name\":\"p2p\",\"cat\":\"p2p\",\"id\":1,\"pid\":0,\"tid\":3,"
                    "\"ts\":3.600}");
    CHECK_HAS(text,
              "{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"p2p\",\"cat\":\"p2p\",\"id\":1,\"pid\":1,"
              "\"tid\":4,\"ts\":3.899}");
    CHECK_HAS(text, "compute (overlap 1)");
    CHECK(strstr(text, "\"name\":\"view\"") == NULL);
    free(text);
    syn_graph_free(graph);
}

/* Whether the trace has a slice (an event with a duration) of category `cat` with these values. */
static bool has_slice(const char *text, const char *name, const char *cat, int pid, int tid,
                      const char *ts, const char *dur) {
    char want[256];
    snprintf(want, sizeof want,
             "\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s", name, cat,
             pid, tid, ts, dur);
    return strstr(text, want) != NULL;
}

/* Expected times in ns, computed manually. Rank 1 arrives at 1000 and rank 0 at 3000; both leave at
   3500. Rank 0 sends from 3500 to 3700. Rank 1 is ready to receive at 0 and waits until 3500. */
static void chrome_predicted(void) {
    syn_graph *graph = simulated_graph(true, false);
    char *text = export_text(&syn_export_chrome, graph, NULL);
    CHECK_HAS(text, "\"clock\":\"predicted\"");
    CHECK(has_slice(text, "work", "other", 0, 0, "0.000", "3.000"));
    CHECK(has_slice(text, "more", "other", 0, 0, "3.000", "0.100"));
    CHECK(has_slice(text, "reduce", "other", 0, 1, "3.000", "0.500"));
    CHECK(has_slice(text, "give", "other", 0, 2, "3.500", "0.200"));
    CHECK(has_slice(text, "work", "other", 1, 0, "0.000", "1.000"));
    CHECK(has_slice(text, "more", "other", 1, 0, "1.000", "0.100"));
    CHECK(has_slice(text, "wait", "wait", 1, 1, "1.000", "2.000"));
    CHECK(has_slice(text, "reduce", "other", 1, 1, "3.000", "0.500"));
    CHECK(has_slice(text, "wait", "wait", 1, 3, "0.000", "3.500"));
    CHECK(has_slice(text, "take", "other", 1, 3, "3.500", "0.200"));
    free(text);
    syn_graph_free(graph);
}

/* Two ranks with three collectives that wait for nothing, in three groups and streams. The first
   and the third group have the same ranks. */
static syn_graph *graph_of_groups(bool with_times) {
    static const int32_t ranks[2] = {0, 1};
    const syn_graph_group groups[3] = {
        {1, "dp0", ranks, 2}, {2, "tp0", ranks, 1}, {3, "gather0", ranks, 2}};
    static const char *const names[3] = {"scatter", "reduce", "gather"};
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED_OK(syn_graph_new(&g, ranks, 2, 3, &err), err);
    for (int i = 0; i < 3; i++) NEED_OK(syn_graph_add_group(g, &groups[i], &err), err);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 3; i++) {
            syn_node n = plain_node(i + 1, names[i]);
            n.kind = SYN_NODE_COLLECTIVE;
            n.comm = SYN_COMM_ALL_REDUCE;
            n.group = i + 1;
            n.stream = (int32_t)i + 1;
            if (with_times) n.predicted_ns = 300 + 100 * (double)i;
            if (r == 0 || i != 1) NEED_OK(syn_graph_add_node(g, r, &n, &err), err);
        }
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

/* Collectives of groups with the same ranks share links: the gather begins when the scatter has
   ended, at 300 ns. */
static void predicted_collectives_share_links(void) {
    for (int times = 0; times < 2; times++) {
        syn_graph *graph = graph_of_groups(times);
        char *text = export_text(&syn_export_chrome, graph, NULL);
        const char *begin = times ? "0.300" : "0.000", *length = times ? "0.500" : "1.000";
        CHECK(has_slice(text, "scatter", "other", 0, 2, "0.000", times ? "0.300" : "1.000"));
        CHECK(has_slice(text, "reduce", "other", 0, 1, "0.000", times ? "0.400" : "1.000"));
        CHECK(has_slice(text, "gather", "other", 0, 3, begin, length));
        CHECK(has_slice(text, "gather", "other", 1, 3, begin, length));
        free(text);
        syn_graph_free(graph);
    }
}

static void chrome_order(void) {
    syn_graph *graph = simulated_graph(false, false);
    char *text = export_text(&syn_export_chrome, graph, NULL);
    CHECK_HAS(text, "\"clock\":\"order\"");
    CHECK(has_slice(text, "reduce", "other", 0, 1, "1.000", "1.000"));
    CHECK(has_slice(text, "give", "other", 0, 2, "2.000", "1.000"));
    free(text);
    syn_graph_free(graph);
}

/* The simulation must finish even if one rank never joins a collective. */
static void chrome_mismatch(void) {
    syn_graph *graph = simulated_graph(true, true);
    char *text = export_text(&syn_export_chrome, graph, NULL);
    CHECK(has_slice(text, "reduce", "other", 0, 1, "3.000", "0.500"));
    CHECK(has_slice(text, "take", "other", 1, 3, "3.500", "0.200"));
    free(text);
    syn_graph_free(graph);
}

/* Messages are matched by tag, not by order. A message that nobody receives gets no arrow. */
static void chrome_messages(void) {
    static const int32_t ranks[2] = {0, 1}, tags[2][3] = {{5, 9, 6}, {6, 5, 4}};
    syn_error err = {0};
    syn_graph *graph = NULL;
    CHECK_OK(syn_graph_new(&graph, ranks, 2, 2, &err), err);
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 3; i++) {
            syn_node n = plain_node(i + 1, "message");
            n.kind = r == 0 ? SYN_NODE_SEND : SYN_NODE_RECV;
            n.comm = r == 0 ? SYN_COMM_SEND : SYN_COMM_RECV;
            n.peer = r == 0 ? 1 : 0;
            n.tag = tags[r][i];
            n.start_ns = i * 1000.0;
            n.wall_ns = r == 0 ? 100 : 5000;
            CHECK_OK(syn_graph_add_node(graph, r, &n, &err), err);
        }
    }
    char *text = export_text(&syn_export_chrome, graph, NULL);
    CHECK_HAS(text, "\"id\":2,\"pid\":0,\"tid\":1,\"ts\":0.000}"); /* the message with tag 5 */
    CHECK_HAS(text, "\"id\":1,\"pid\":0,\"tid\":1,\"ts\":2.000}"); /* the message with tag 6 */
    CHECK_HAS(text, "\"id\":1,\"pid\":1,\"tid\":2,\"ts\":4.999}");
    CHECK(strstr(text, "\"id\":3,") == NULL);
    free(text);
    syn_graph_free(graph);
}

/* Rank 0 uses dp0 before tp0, and rank 1 uses them in the opposite order. Both ranks must be shown
   with tp first. */
static void chrome_group_order(void) {
    static const int32_t ranks[4] = {0, 1, 2, 3}, members[4][2] = {{0, 2}, {0, 1}, {1, 3}, {2, 3}};
    static const char *const names[4] = {"dp0", "tp0", "dp1", "tp1"};
    static const uint32_t used[2][2] = {{1, 2}, {3, 2}}; /* group ids in the order of use */
    syn_error err = {0};
    syn_graph *graph = NULL;
    CHECK_OK(syn_graph_new(&graph, ranks, 2, 4, &err), err);
    for (uint32_t g = 0; g < 4; g++) {
        const syn_graph_group group = {g + 1, names[g], members[g], 2};
        CHECK_OK(syn_graph_add_group(graph, &group, &err), err);
    }
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 2; i++) {
            syn_node n = plain_node(i + 1, "reduce");
            n.kind = SYN_NODE_COLLECTIVE;
            n.group = used[r][i];
            n.start_ns = i * 1000.0;
            n.wall_ns = 100;
            CHECK_OK(syn_graph_add_node(graph, r, &n, &err), err);
        }
    char *text = export_text(&syn_export_chrome, graph, NULL);
    const char *tp = strstr(text, "\"tp0\"}"), *dp = strstr(text, "\"dp0\"}");
    CHECK(tp != NULL && dp != NULL && tp < dp);
    const char *other = tp != NULL ? strstr(tp + 1, "\"tp0\"}") : NULL;
    const char *dp1 = strstr(text, "\"dp1\"}");
    CHECK(other != NULL && dp1 != NULL && other < dp1);
    free(text);
    syn_graph_free(graph);
}

static void out_of_memory(void) {
    syn_graph *measured = full_graph();
    syn_graph *predicted = simulated_graph(true, false);
    CHECK(export_without_memory(&syn_export_chrome, measured, NULL) > 3);
    CHECK(export_without_memory(&syn_export_chrome, predicted, NULL) > 3);
    syn_graph_free(measured);
    syn_graph_free(predicted);
}

static void files_for_other_readers(void) {
    syn_error err = {0};
    if (getenv("SYN_TEST_OUT") == NULL) SKIP("SYN_TEST_OUT names no folder");
    syn_graph *measured = full_graph();
    syn_graph *predicted = simulated_graph(true, false);
    syn_graph *order = simulated_graph(false, true);
    CHECK_OK(export_save(&syn_export_chrome, measured, "measured.trace.json", &err), err);
    CHECK_OK(export_save(&syn_export_chrome, predicted, "predicted.trace.json", &err), err);
    CHECK_OK(export_save(&syn_export_chrome, order, "order.trace.json", &err), err);
    CHECK_OK(export_save(&syn_export_json, predicted, "predicted.json", &err), err);
    CHECK_OK(export_save(&syn_export_graphml, predicted, "predicted.graphml", &err), err);
    CHECK_OK(export_save(&syn_export_json, order, "order.json", &err), err);
    syn_graph_free(measured);
    syn_graph_free(predicted);
    syn_graph_free(order);
}

static const test_case cases[] = {
    {"chrome_measured", chrome_measured},
    {"chrome_predicted", chrome_predicted},
    {"predicted_collectives_share_links", predicted_collectives_share_links},
    {"chrome_order", chrome_order},
    {"chrome_mismatch", chrome_mismatch},
    {"chrome_messages", chrome_messages},
    {"chrome_group_order", chrome_group_order},
    {"out_of_memory", out_of_memory},
    {"files_for_other_readers", files_for_other_readers},
};
TEST_MAIN(cases)
