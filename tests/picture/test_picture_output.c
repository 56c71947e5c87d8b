/* Tests the output of pictures: DOT from both writers; Graphviz as a process that may be missing,
   hang or fail; running out of memory at any allocation; and the formatting of text. */
#include "export/picture/picture_text.h"
#include "export/walk/graph_walk.h"
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/graphs.h"
#include "tests/support/picture_check.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* A graph whose picture fits on a page: 2 layers, 8 heads, tp 2, 15 steps. */
static const gpt_shape page = {2, 8, 2, 15, 64, 16, 256};

static const syn_export_options plain;
static const syn_export_options unfolded = {.no_fold = true};
static const syn_export_options comm = {.comm_graph = true};

/* ---- DOT ---- */

/* The sample's all-reduce takes 2500 ns on rank 0, of which 2000 ns are wait time for rank 1. On
   rank 1, it takes 500 ns. */
static void test_waiting_stands_apart(void) {
    syn_graph *graph = full_graph();
    char *one = export_text(&syn_export_dot, graph, &plain),
         *all = export_text(&syn_export_dot, graph, &comm);
    CHECK_HAS(one, "500 ns, +2 \xC2\xB5s wait");
    CHECK_HAS(one, "measured: 500 ns, +2 \xC2\xB5s wait");
    CHECK_HAS(one, "sum of op times: 6.6 \xC2\xB5s measured, +2 \xC2\xB5s wait");
    CHECK_HAS(all, "rank 0 \xC2\xB7 500 ns, +2 \xC2\xB5s wait");
    CHECK_HAS(all, "measured by rank 1: 500 ns");
    CHECK(strstr(one, "2.5 \xC2\xB5s") == NULL && strstr(all, "2.5 \xC2\xB5s") == NULL);
    free(one);
    free(all);
    syn_graph_free(graph);
}

static void test_deterministic(void) {
    syn_graph *a = gpt_graph(&page, false), *b = gpt_graph(&page, false);
    char *x = export_text(&syn_export_dot, a, &plain), *y = export_text(&syn_export_dot, b, &plain);
    CHECK(strcmp(x, y) == 0);
    free(x);
    free(y);
    syn_graph_free(a);
    syn_graph_free(b);
}

static bool save_dot(const char *path, const syn__pic_drawing *d, bool cgraph) {
    syn_error err = {0};
    syn_sink *sink;
    if (syn_sink_open_file(&sink, path, &err) != SYN_OK) return false;
    const syn_status s =
        cgraph ? syn__pic_write_cgraph(d, sink, &err) : syn__pic_write_plain(d, sink, &err);
    return syn_sink_close(sink, s == SYN_OK, &err) == SYN_OK && s == SYN_OK;
}

/* After graphviz's own reader and writer (nop) have processed our plain text, it must equal the
   output of cgraph. */
static void test_both_writers_agree(void) {
    if (!syn__pic_have_cgraph()) SKIP("built without cgraph");
    if (system("command -v nop >/dev/null 2>&1") != 0) SKIP("graphviz's nop is not there");
    char command[1300];
    for (int k = 0; k < 3; k++) {
        drawn x;
        CHECK(draw(&x, k == 2 ? picture_hostile() : gpt_graph(&page, false),
                   k == 1 ? &comm : &plain));
        CHECK(save_dot(in_folder("a.dot"), &x.d, true));
        CHECK(save_dot(in_folder("b.dot"), &x.d, false));
        drop(&x);
        snprintf(command, sizeof command,
                 "cd %s && export LC_ALL=C && nop b.dot | sort >b && sort a.dot | cmp - b && test "
                 "\"$(wc -l <b)\" -gt 50",
                 /* Sorted, because the order of nop's clusters depends on addresses. */
                 in_folder(""));
        CHECK_INT(system(command), 0);
    }
}

/* ---- Running graphviz ---- */

static void test_graphviz_missing(void) {
    char *path = getenv("PATH") != NULL ? strdup(getenv("PATH")) : NULL;
    const char *file = in_folder("x.png");
    syn_graph *g = gpt_graph(&page, false);
    syn_error err = {0};
    setenv("PATH", "", 1);
    const syn_status s = syn_export_file(g, NULL, NULL, file, &err);
    if (path != NULL) setenv("PATH", path, 1);
    free(path);
    syn_graph_free(g);
    CHECK_INT(s, SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "apt install graphviz");
    CHECK_HAS(err.text, "--format dot");
    CHECK_INT(clear_folder(), 0);
}

/* Runs graphviz with a script instead of neato. */
static syn_status run_script(const char *script, double seconds, syn_error *err, size_t *bytes) {
    char path[4096];
    char *old = getenv("PATH") != NULL ? strdup(getenv("PATH")) : strdup("");
    syn_sink *sink;
    if (syn_sink_open_memory(&sink, err) != SYN_OK) return SYN_E_IO;
    snprintf(path, sizeof path, "#!/bin/sh\n%s\n", script);
    chmod(put_text("neato", path), 0700);
    snprintf(path, sizeof path, "%s:%s", in_folder(""), old);
    setenv("PATH", path, 1);
    const syn__pic_limits limits = {seconds, 10, (uint64_t)1 << 30, "neato"};
    const syn_status s = syn__pic_graphviz(&limits, "svg", 72, "digraph {}", 10, sink, err);
    setenv("PATH", old, 1);
    *bytes = (size_t)syn_sink_bytes(sink);
    (void)syn_sink_close(sink, false, NULL);
    free(old);
    return s;
}

static void test_graphviz_hangs(void) {
    syn_error err = {0};
    size_t bytes;
    CHECK_INT(run_script("exec sleep 100000", 0.3, &err, &bytes), SYN_E_IO);
    CHECK_HAS(err.text, "longer than 0.3 s");
    CHECK_INT(bytes, 0);
}

static void test_graphviz_fails(void) {
    syn_error err = {0};
    size_t bytes;
    CHECK_INT(run_script("echo 'no such layout' >&2; echo half; exit 3", 600, &err, &bytes),
              SYN_E_IO);
    CHECK_HAS(err.text, "exit code 3): no such layout");
    CHECK_INT(bytes, 0);
    err = (syn_error){0};
    CHECK_INT(run_script("kill -SEGV $$", 600, &err, &bytes), SYN_E_IO);
    CHECK_HAS(err.text, "signal 11");
    err = (syn_error){0};
    CHECK_INT(run_script("exit 0", 600, &err, &bytes), SYN_E_IO);
    CHECK_HAS(err.text, "empty picture");
    err = (syn_error){0};
    CHECK_OK(run_script("cat", 600, &err, &bytes), err);
    CHECK_INT(bytes, 10);
}

/* ---- Out of memory ---- */

static void fail_everywhere(syn_graph *g, const syn_export_options *o) {
    CHECK(export_without_memory(&syn_export_dot, g, o) > 30);
    syn_graph_free(g);
}

static void test_out_of_memory(void) {
    const gpt_shape c = {2, 8, 2, 2, 64, 16, 256};
    fail_everywhere(gpt_graph(&c, false), &plain);
    fail_everywhere(gpt_graph(&c, false), &comm);
    if (TEST_REDUCED) return;
    fail_everywhere(gpt_graph(&c, false), &unfolded);
    fail_everywhere(picture_flat(400), &plain);
}

/* ---- Text formatting ---- */

static void test_numbers(void) {
    char buf[SYN__PIC_NUMBER];
    CHECK_STR(syn__pic_bytes(0, buf), "0 B");
    CHECK_STR(syn__pic_bytes(1023, buf), "1023 B");
    CHECK_STR(syn__pic_bytes(1024, buf), "1 KiB");
    CHECK_STR(syn__pic_bytes(12800, buf), "12.5 KiB");
    CHECK_STR(syn__pic_bytes((uint64_t)300 << 40, buf), "300 TiB");
    CHECK_STR(syn__pic_flops(999, buf), "999 FLOP");
    CHECK_STR(syn__pic_flops(196608, buf), "197 kFLOP");
    CHECK_STR(syn__pic_flops(UINT64_MAX, buf), "18.4 EFLOP");
    CHECK_STR(syn__pic_count(1234567, buf), "1,234,567");
    CHECK_STR(syn__pic_time(35200, buf), "35.2 \xC2\xB5s");
    CHECK_STR(syn__pic_time(1.5e9, buf), "1.5 s");
    char out[16];
    CHECK_STR(syn__pic_shorten("abcdef", 6, out, sizeof out), "abcdef");
    CHECK_STR(syn__pic_shorten("abcdefg", 6, out, sizeof out), "abcde\xE2\x80\xA6");
    CHECK_STR(syn__pic_shorten("a long text for a small buffer", 30, out, sizeof out),
              "a long text \xE2\x80\xA6");
    CHECK_STR(syn__pic_shorten_front("abcdef", 6, out, sizeof out), "abcdef");
    CHECK_STR(syn__pic_shorten_front("abcdefg", 6, out, sizeof out), "\xE2\x80\xA6"
                                                                     "cdefg");
    CHECK_STR(syn__pic_shorten_front("a long text for a small buffer", 30, out, sizeof out),
              "\xE2\x80\xA6"
              "small buffer");
}

static void test_layer_names(void) {
    CHECK_INT(syn__walk_layer_prefix("h.3.attn"), 3);
    CHECK_INT(syn__walk_layer_prefix("transformer.h.12"), 16);
    CHECK_INT(syn__walk_layer_prefix("encoder.layer.0.output.dense"), 15);
    CHECK_INT(syn__walk_layer_prefix("embed"), 0);
    CHECK_INT(syn__walk_layer_prefix(""), 0);
    CHECK_INT(syn__walk_layer_prefix("3.attn"), 0);
    CHECK_INT(syn__walk_layer_prefix("ln_1.x2"), 0);
}

/* Both views use the same words for communicated bytes. Metadata that is only needed to write a
   file again is not shown. */
static void test_words(void) {
    for (int k = 0; k < 2; k++) {
        const syn_attribute version = {
            .name = "et.version", .type = SYN_VALUE_TEXT, .text = "7.8.9"};
        syn_graph *g = gpt_graph(&page, false);
        syn_error err = {0};
        drawn x;
        CHECK_OK(syn_graph_set_meta(g, &version, &err), err);
        CHECK_MSG(draw(&x, g, k == 0 ? &plain : &comm), "%s", x.err.text);
        int found = count_label(&x.d, SYN__PIC_PLAIN, "iB payload");
        for (size_t i = 0; i < x.d.n_clusters; i++)
            found += strstr(x.d.clusters[i].label, "iB payload") != NULL;
        CHECK(found > 0);
        CHECK(count_label(&x.d, SYN__PIC_PLAIN, "gpt3-style") > 0);
        CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "et.version"), 0);
        CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "7.8.9"), 0);
        drop(&x);
    }
}

static const test_case cases[] = {
    {"words", test_words},
    {"waiting stands apart", test_waiting_stands_apart},
    {"deterministic", test_deterministic},
    {"both_writers_agree", test_both_writers_agree},
    {"graphviz_missing", test_graphviz_missing},
    {"graphviz_hangs", test_graphviz_hangs},
    {"graphviz_fails", test_graphviz_fails},
    {"out_of_memory", test_out_of_memory},
    {"numbers", test_numbers},
    {"layer_names", test_layer_names},
};

TEST_MAIN(cases)
