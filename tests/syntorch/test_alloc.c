/* Out-of-memory tests: the allocations of a whole run (model, generation, graph, all exporters and
   readers) fail one at a time. Each failure must be reported as one sentence and leave no leak (the
   sanitizer run checks leaks) and no partial file. */
#include "comm/comm.h"
#include "export/export.h"
#include "models/generate.h"
#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"
#include "tools/inference/npy.h"
#include "tools/inference/report.h"
#include "tools/launch/gather.h"

#include <dirent.h>
#include <unistd.h>

struct run {
    int tp;
    bool gather; /* gather the graphs on rank 0, as runs over MPI do */
    syn_ctx *ctx[2];
    syn_graph *gathered;
};

static syn_status gather(struct run *run, syn_comm *comm, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(run->ctx[comm->rank]);
    uint64_t hashes[2];
    syn_graph *mine = NULL, *all = NULL;
    SYN_TRY(syn_trace_graph(&mine, &trace, 1, NULL, err));
    syn_status s = gather_graphs(&all, comm, mine, err);
    if (s == SYN_OK) s = gather_numbers(hashes, comm, syn_trace_hash(trace), err);
    syn_graph_free(mine);
    if (comm->rank == 0) run->gathered = all;
    return s;
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    struct run *run = arg;
    static const int32_t prompt[4] = {1, 2, 3, 10};
    syn_mesh mesh;
    syn_model *gpt = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = run->tp}, err));
    SYN_TRY(syn_ctx_new(&run->ctx[comm->rank], SYN_DEVICE_CPU, comm, err));
    const syn_model_options how = {
        .tp = mesh.group[SYN_AXIS_TP], .fused_attention = false, .seed = 1};
    syn_model_config config = small_gpt;
    config.n_layer = 1;
    config.tied = false;
    SYN_TRY(syn_model_new(&gpt, run->ctx[comm->rank], &config, &how, err));
    syn_generation g = {.batch = 2,
                        .prompt_tokens = 2,
                        .new_tokens = 2,
                        .prompt = prompt,
                        .sampling = {1.0, 3, 0.9, 1, 0},
                        .want_logits = true};
    syn_status s = syn_generate(gpt, &g, err);
    if (s == SYN_OK && run->gather) s = gather(run, comm, err);
    syn_free(g.tokens);
    syn_free(g.logits);
    syn_model_free(gpt);
    return s;
}

/* Exports to memory. If the format has a reader, also reads the result. */
static syn_status export_one(const syn_graph *graph, const syn_exporter *exporter, syn_error *err) {
    syn_status s = SYN_OK;
    syn_sink *sink = NULL;
    syn_graph *back = NULL;
    size_t bytes = 0;
    SYN_TRY(syn_export_memory(&sink, graph, exporter, NULL, err));
    const char *data = syn_sink_data(sink, &bytes);
    if (exporter == &syn_export_json) s = syn_import_json_memory(&back, "json", data, bytes, err);
    if (exporter == &syn_export_et) s = syn_import_et_memory(&back, "et", data, bytes, err);
    syn_graph_free(back);
    const syn_status closed = syn_sink_close(sink, true, err);
    return s != SYN_OK ? s : closed;
}

/* Graphviz renders these formats in its own process, which is too slow for thousands of runs. The
   part in this process is the same as for the DOT exporter, which is tested. */
static bool is_picture(const syn_exporter *exporter) {
    return exporter == &syn_export_svg || exporter == &syn_export_png ||
           exporter == &syn_export_pdf;
}

/* Whether this program's graphs can be exported: SimAI's workloads need a training step. */
static bool is_tested(const syn_exporter *exporter) {
    return !is_picture(exporter) && exporter != &syn_export_simai && can_export(exporter);
}

static syn_status export_all(const syn_graph *graph, syn_error *err) {
    for (const syn_exporter *const *e = syn_exporters(); *e; e++)
        if (is_tested(*e)) SYN_TRY(export_one(graph, *e, err));
    if (!can_export(&syn_export_et)) return SYN_OK;
    return syn_export_et_set(graph, NULL, in_folder("trace"), err);
}

/* The remaining steps of a program: the report, and logits as .npy. */
static syn_status report_and_logits(const syn_graph *graph, syn_error *err) {
    static const float logits[6] = {1, 2, 3, 4, 5, 6};
    report r = {0};
    const syn_status s = report_add(&r, graph, 0, NULL, err);
    report_sort(&r);
    report_free(&r);
    SYN_TRY(s);
    return npy_write_f32(in_folder("logits.npy"), logits, 2, 3, err);
}

static syn_status tokenize(syn_error *err) {
    static const char text[] = "some text";
    syn_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n, bytes;
    SYN_TRY(syn_tokenizer_open_bytes(&tok, err));
    syn_status s = syn_tokenizer_encode(tok, text, sizeof text - 1, &ids, &n, err);
    if (s == SYN_OK) s = syn_tokenizer_decode(tok, ids, n, &back, &bytes, err);
    syn_free(ids);
    syn_free(back);
    syn_tokenizer_free(tok);
    return s;
}

/* A whole run: tokenizer, hardware file, generation on `tp` ranks and, with `exporting`,
   exports. */
static syn_status whole_run(int tp, bool exporting, syn_error *err) {
    struct run run = {.tp = tp, .gather = tp > 1 && exporting};
    syn_hardware hw;
    syn_graph *graph = NULL;
    const syn_attribute fact = {.name = "model", .type = SYN_VALUE_TEXT, .text = "tiny"};
    syn_status s = tokenize(err);
    if (s == SYN_OK) s = syn_hardware_load(&hw, "a100-80g", NULL, err);
    if (s == SYN_OK) s = syn_local_run(tp, rank_main, &run, err);
    if (s == SYN_OK && run.gather) {
        graph = run.gathered;
    } else if (s == SYN_OK && exporting) {
        const syn_trace *trace = syn_ctx_trace(run.ctx[0]);
        s = syn_trace_graph(&graph, &trace, 1, &hw, err);
    }
    if (s == SYN_OK && exporting) s = syn_graph_set_meta(graph, &fact, err);
    if (s == SYN_OK && exporting) s = export_all(graph, err);
    if (s == SYN_OK && exporting) s = report_and_logits(graph, err);
    syn_graph_free(graph ? graph : run.gathered);
    for (int r = 0; r < 2; r++) syn_ctx_free(run.ctx[r]);
    return s;
}

/* Removes the files of the test's folder and returns their number. Sets *temporary to whether one
   of them had a temporary name. */
static int clear_files(bool *temporary) {
    DIR *dir = opendir(in_folder(""));
    *temporary = false;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        *temporary = *temporary || strstr(entry->d_name, ".tmp.");
    if (dir) closedir(dir);
    return clear_folder();
}

static bool is_sentence(const syn_error *err) {
    return err->code != SYN_OK && strlen(err->text) > 10 && strstr(err->text, "memory") != NULL;
}

/* Fails each of the first `dense` allocations (every third one under a sanitizer), then every
   `stride`th one. */
static void fail_everywhere(int tp, bool exporting, uint64_t dense, uint64_t stride) {
    syn_error err = {0};
    bool temporary;
    const uint64_t start = syn_memory_calls(), step = TEST_REDUCED ? 3 : 1;
    const syn_status clean = whole_run(tp, exporting, &err);
    const uint64_t total = syn_memory_calls() - start;
    const int files = clear_files(&temporary);
    uint64_t failed = 0, bad = UINT64_MAX;
    const char *why = "";
    syn_error first = {0};
    for (uint64_t n = 0; n < total && bad == UINT64_MAX; n += n < dense ? step : step * stride) {
        err = (syn_error){0};
        const uint64_t before = syn_memory_calls();
        syn_memory_fail_after(n);
        const syn_status s = whole_run(tp, exporting, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        const int left = clear_files(&temporary);
        /* In this run the ranks' threads may have made at most n allocations, so none failed. */
        if (syn_memory_calls() - before <= n) continue;
        failed++;
        if (s == SYN_OK) why = "did not fail";
        else if (s != SYN_E_NOMEM || s != err.code) why = "failed with another status";
        else if (!is_sentence(&err)) why = "has no error message";
        else if (temporary) why = "left a temporary file";
        else if (files > 0 && left == files) why = "left a complete set of files";
        else continue;
        bad = n;
        first = err;
    }
    CHECK_OK(clean, err);
    CHECK_MSG(bad == UINT64_MAX, "allocation %llu of %llu: the run %s (%d: %s)",
              (unsigned long long)bad, (unsigned long long)total, why, (int)first.code, first.text);
    CHECK_MSG(failed * step > 100, "only %llu allocations failed", (unsigned long long)failed);
    printf("tp %d: %llu of %llu allocations failed\n", tp, (unsigned long long)failed,
           (unsigned long long)total);
}

static void every_allocation_of_one_rank(void) {
    fail_everywhere(1, true, 3000, 37);
}

/* On two ranks: whichever rank fails, both ranks must return one sentence that names it. */
static void every_allocation_of_two_ranks(void) {
    fail_everywhere(2, false, 3000, 37);
}

static void every_allocation_of_gathering_and_writing(void) {
    fail_everywhere(2, true, 0, 3);
}

/* Fails a sample of the allocations of the two picture exporters. Early failures happen before
   Graphviz starts. */
static void some_allocations_of_pictures(void) {
    struct run run = {.tp = 1};
    syn_error err = {0};
    syn_graph *graph = NULL;
    uint64_t bad = UINT64_MAX;
    syn_status s = syn_local_run(1, rank_main, &run, &err);
    const syn_trace *trace = s == SYN_OK ? syn_ctx_trace(run.ctx[0]) : NULL;
    if (s == SYN_OK) s = syn_trace_graph(&graph, &trace, 1, NULL, &err);
    const uint64_t start = syn_memory_calls();
    if (s == SYN_OK) s = export_one(graph, &syn_export_svg, &err);
    const uint64_t total = syn_memory_calls() - start;
    for (uint64_t i = 0; i < 24 && s == SYN_OK && bad == UINT64_MAX; i++) {
        syn_error failure = {0};
        syn_memory_fail_after(i * total / 24);
        const syn_status failed =
            export_one(graph, i % 2 ? &syn_export_svg : &syn_export_png, &failure);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (failed != SYN_E_NOMEM || !is_sentence(&failure)) bad = i;
    }
    syn_graph_free(graph);
    syn_ctx_free(run.ctx[0]);
    if (s == SYN_E_UNSUPPORTED) SKIP(err.text);
    CHECK_OK(s, err);
    CHECK_MSG(bad == UINT64_MAX, "sample %llu of 24", (unsigned long long)bad);
}

static const test_case cases[] = {
    {"every_allocation_of_one_rank", every_allocation_of_one_rank},
    {"every_allocation_of_two_ranks", every_allocation_of_two_ranks},
    {"every_allocation_of_gathering_and_writing", every_allocation_of_gathering_and_writing},
    {"some_allocations_of_pictures", some_allocations_of_pictures},
};

TEST_MAIN(cases)
