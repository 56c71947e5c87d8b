/* Tests predicted times of serving: attention with a paged KV cache and products, on a machine with
   round numbers and against measured kernels (tests/measured/serving_kernels.csv). */
#include <math.h>
#include <stdlib.h>

#include "syntorch/hardware/hardware.h"
#include "tests/support/test.h"

static const char *const toy =
    "{\"name\":\"toy\",\n"
    " \"hardware\":{\"peak_tflops\":{\"f32\":1,\"f16\":10},\"multiprocessors\":10,\n"
    "  \"memory_gib\":2,\"memory_gb_per_s\":100,\"node_ranks\":1,\n"
    "  \"intra\":{\"alpha_us\":1,\"gb_per_s\":50}},\n"
    " \"stack\":{\"name\":\"s\",\"launch_us\":0,\"kernel_us\":1,\"matmul_efficiency\":0.5,\n"
    "  \"attention_efficiency\":0.25,\"exposed\":0.25,\"tile_us\":1,\"empty_tile_us\":0.1,\n"
    "  \"step_us\":300,\"sequence_us\":0.5,\"memory_efficiency\":0.8}}\n";

static void load_toy(syn_hardware *hw) {
    syn_error err = {0};
    CHECK_OK(syn_hardware_parse(hw, "hw.json", toy, strlen(toy), &err), err);
}

static double ns_of(const syn_hardware *hw, const syn_node *node) {
    return syn_hardware_predict_ns(hw, node, NULL, 0);
}

static syn_node paged(uint64_t bytes_read, uint64_t bytes_written, syn_extents e) {
    return (syn_node){.kind = SYN_NODE_COMPUTE,
                      .category = SYN_CATEGORY_ATTENTION,
                      .flags = SYN_NODE_FUSED,
                      .op = "paged_attention",
                      .dtype = SYN_F16,
                      .flops = 1,
                      .bytes_read = bytes_read,
                      .bytes_written = bytes_written,
                      .extents = e};
}

/* Each key and value of a head takes 2 * 64 * 2 bytes. All are read at 80 GB/s, and those of the
   longest sequence at a tenth of it. Three kernels take 1 us each, and a tile 1 us. */
static void one_query_per_sequence(void) {
    const double key = 2 * 64 * 2;
    syn_hardware hw;
    load_toy(&hw);
    syn_node n = paged(
        32 * 100 * 256 * 2, 32 * 4 * 64 * 2,
        (syn_extents){
            .batch = 4, .rows = 1, .columns = 3200, .inner = 64, .sequences = 32, .longest = 300});
    const double all = 32 * 100 * key * 2 / 80;
    CHECK_NEAR(ns_of(&hw, &n), all + 0.25 * 300 * key / 8 + 4000, 1e-6);
    n.extents.longest = 1500; /* alone, it takes longer than all sequences on all multiprocessors */
    CHECK_NEAR(ns_of(&hw, &n), 1500 * key / 8 + 0.25 * all + 4000, 1e-6);
    /* One sequence is split into 17 parts, which occupy 85 % of two slots per multiprocessor. */
    n = paged(
        300 * 256, 4 * 64 * 2,
        (syn_extents){
            .batch = 4, .rows = 1, .columns = 300, .inner = 64, .sequences = 1, .longest = 300});
    CHECK_NEAR(ns_of(&hw, &n), 300 * key / 80 + 0.25 * 300 * key / 17 / 8 + 4000, 1e-6);
    n.extents = (syn_extents){0}; /* unknown */
    CHECK_NEAR(ns_of(&hw, &n), 300 * key / 80 + 4 * 64 * 2 / 80.0 + 1000, 1e-6);
}

/* Sequences with 128, 1 and 1 queries and 200, 50 and 70 keys. The 128 queries see 137 keys in the
   mean. A key of a tile takes 64 * 4 * 64 flops at 2500 / 10 flops/ns. */
static void several_queries_in_a_sequence(void) {
    const double key = 64 * 4 * 64 / 250.0, heads = 4, tiles = heads * (3 + 127 / 64.0);
    syn_hardware hw;
    load_toy(&hw);
    syn_node n = paged(1000, 130 * 4 * 64 * 2,
                       (syn_extents){.batch = 4,
                                     .rows = 128,
                                     .columns = 2 * 137 + 50 + 70,
                                     .inner = 64,
                                     .sequences = 3,
                                     .longest = 200});
    double all = (tiles * 1000 + (heads * 3 * 2 - tiles) * 100 + heads * 394 * key) / 10;
    const double longest = 1000 + 200 * key;
    CHECK(longest > all);
    CHECK_NEAR(ns_of(&hw, &n), longest + 0.25 * all + 1000, 1e-6);
    n.extents.batch = 8; /* twice the heads: now all tiles take longer than the longest one */
    n.bytes_written *= 2;
    all *= 2;
    CHECK_NEAR(ns_of(&hw, &n), all + 0.25 * longest + 1000, 1e-6);
}

/* A product of 256 x 1280 has 2 waves of tiles, and its traffic is not hidden completely. */
static void products_expose_the_shorter_time(void) {
    const double computed = 2 * 2.0 * 128 * 128 * 1000 / 500, moved = 80000 / 80.0;
    syn_hardware hw;
    load_toy(&hw);
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_MATMUL,
                  .op = "linear",
                  .dtype = SYN_F16,
                  .flops = 2ull * 256 * 1280 * 1000,
                  .bytes_read = 80000,
                  .extents = {.batch = 1, .rows = 256, .columns = 1280, .inner = 1000}};
    CHECK_NEAR(ns_of(&hw, &n), computed + 0.25 * moved + 1000, 1e-6);
    hw.stack.exposed = 0;
    CHECK_NEAR(ns_of(&hw, &n), computed + 1000, 1e-6);
}

/* Files keep the constants of serving, and whether they were fitted. */
static void files_keep_serving(void) {
    static const char *const machines[] = {"rtxpro6000", "rtx4090", "h100"};
    for (int i = 0; i < 3; i++) {
        char name[32];
        syn_hardware hw, again;
        syn_error err = {0};
        syn_sink *sink;
        size_t bytes;
        snprintf(name, sizeof name, "%s+vllm", machines[i]);
        CHECK_OK(syn_hardware_load(&hw, name, NULL, &err), err);
        CHECK_INT(syn_hardware_serving_calibrated(&hw), i < 2);
        CHECK_OK(syn_sink_open_memory(&sink, &err), err);
        syn_hardware_write(&hw, sink);
        const char *text = syn_sink_data(sink, &bytes);
        CHECK_OK(syn_hardware_parse(&again, "again", text, bytes, &err), err);
        CHECK_NEAR(again.stack.exposed, 0.2, 1e-12);
        CHECK_NEAR(again.stack.tile_ns, 5000, 1e-9);
        CHECK_NEAR(again.stack.empty_tile_ns, 330, 1e-9);
        CHECK_NEAR(again.stack.step_ns, 100000, 1e-6);
        CHECK_NEAR(again.stack.sequence_ns, 350, 1e-9);
        CHECK_INT(syn_hardware_serving_calibrated(&again), i < 2);
        CHECK_OK(syn_sink_close(sink, true, &err), err);
    }
    syn_hardware other;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&other, "rtxpro6000+serving", NULL, &err), err);
    CHECK(!syn_hardware_serving_calibrated(&other));
}

/* ---- Measured kernels ---- */

static double product_us(const syn_hardware *hw, int64_t rows, int64_t columns, int64_t inner) {
    const syn_node n = {.kind = SYN_NODE_COMPUTE,
                        .category = SYN_CATEGORY_MATMUL,
                        .op = "linear",
                        .dtype = SYN_BF16,
                        .flops = (uint64_t)(2 * rows * columns * inner),
                        .bytes_read = (uint64_t)(2 * (rows + columns) * inner),
                        .bytes_written = (uint64_t)(2 * rows * columns),
                        .extents = {.batch = 1, .rows = rows, .columns = columns, .inner = inner}};
    return ns_of(hw, &n) / 1e3;
}

struct step {
    long long heads, kv_heads, chunk, cached, sequences, keys;
};

/* A step with a chunk of a prompt after `cached` tokens, and sequences with one query each. */
static double attention_us(const syn_hardware *hw, const struct step *s) {
    enum { DEPTH = 128, TILE = 64 };
    const int64_t prompt = s->chunk > 0 ? s->cached + s->chunk : 0,
                  queries = s->sequences + s->chunk, seen = s->cached + (s->chunk + 2) / 2;
    const int64_t keys = prompt + s->sequences * s->keys, row = DEPTH * 2;
    const syn_extents e = {.batch = s->heads,
                           .rows = s->chunk > 0 ? s->chunk : 1,
                           .columns = (s->chunk + TILE - 1) / TILE * seen + s->sequences * s->keys,
                           .inner = DEPTH,
                           .sequences = s->sequences + (s->chunk > 0),
                           .longest = prompt > s->keys ? prompt : s->keys};
    syn_node n = paged((uint64_t)(2 * keys * s->kv_heads * row + queries * s->heads * row),
                       (uint64_t)(queries * s->heads * row), e);
    n.dtype = SYN_BF16;
    return ns_of(hw, &n) / 1e3;
}

static void measured_kernels(void) {
    char path[4200], line[256], machine[16], name[32];
    double measured, error[2] = {0, 0};
    int n[2] = {0, 0};
    syn_hardware hw;
    syn_error err = {0};
    snprintf(path, sizeof path, "%s/tests/measured/serving_kernels.csv", getenv("SYN_SOURCE"));
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        struct step s;
        long long rows, columns, inner;
        double us;
        const bool product = sscanf(line, "%15[^,],product,%lld,%lld,%lld,%lf", machine, &rows,
                                    &columns, &inner, &measured) == 5;
        if (!product &&
            sscanf(line, "%15[^,],attention,%lld,%lld,%lld,%lld,%lld,%lld,%lf", machine, &s.heads,
                   &s.kv_heads, &s.chunk, &s.cached, &s.sequences, &s.keys, &measured) != 8)
            continue;
        snprintf(name, sizeof name, "%s+vllm", machine);
        CHECK_OK(syn_hardware_load(&hw, name, NULL, &err), err);
        us = product ? product_us(&hw, rows, columns, inner) : attention_us(&hw, &s);
        CHECK_MSG(fabs(us / measured - 1) < 0.25, "%s  predicted %g us", line, us);
        error[product] += fabs(us / measured - 1);
        n[product]++;
    }
    if (f) fclose(f);
    CHECK_INT(n[0], 72);
    CHECK_INT(n[1], 48);
    CHECK_MSG(error[0] / n[0] < 0.08, "attention: mean error %g", error[0] / n[0]);
    CHECK_MSG(error[1] / n[1] < 0.06, "products: mean error %g", error[1] / n[1]);
    printf("mean error: attention %.3f, products %.3f\n", error[0] / n[0], error[1] / n[1]);
}

static const test_case cases[] = {
    {"one_query_per_sequence", one_query_per_sequence},
    {"several_queries_in_a_sequence", several_queries_in_a_sequence},
    {"products_expose_the_shorter_time", products_expose_the_shorter_time},
    {"files_keep_serving", files_keep_serving},
    {"measured_kernels", measured_kernels},
};

TEST_MAIN(cases)
