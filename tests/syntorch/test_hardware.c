/* Tests hardware files: what is accepted and rejected. Predicted times are compared with closed
   formulas and with published and own measurements. */
#include "tests/support/collective_times.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <stdint.h>

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"

#define GIB 1073741824.0

/* A file of round numbers, so that expected times can be computed manually. */
static const char *const toy =
    "{\"name\":\"toy\",\n"
    " \"hardware\":{\"peak_tflops\":{\"f32\":1,\"f16\":10},\n"
    "  \"memory_gib\":2,\"memory_gb_per_s\":100,\"node_ranks\":4,\n"
    "  \"intra\":{\"alpha_us\":2,\"gb_per_s\":50},\"inter\":{\"alpha_us\":20,\"gb_per_s\":5}},\n"
    " \"stack\":{\"name\":\"s\",\"launch_us\":3,\"matmul_efficiency\":0.5,\"matmul_half_gflop\":1,"
    "\n"
    "  \"memory_efficiency\":0.8,\"kernels\":{\"softmax\":2,\"add\":0.5}}}\n";

static syn_status parse(syn_hardware *hw, const char *json, syn_error *err) {
    memset(err, 0, sizeof *err);
    return syn_hardware_parse(hw, "hw.json", json, strlen(json), err);
}

/* The toy file with the first occurrence of `from` replaced by `to`, in static storage. */
static const char *toy_with(const char *from, const char *to) {
    static char out[2048];
    const char *at = strstr(toy, from);
    if (at == NULL) {
        fprintf(stderr, "the toy file has no %s\n", from);
        abort();
    }
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - toy), toy, to, at + strlen(from));
    return out;
}

static void reads_every_member(void) {
    syn_hardware hw;
    syn_error err;
    CHECK_OK(parse(&hw, toy, &err), err);
    CHECK_STR(hw.name, "toy");
    CHECK_NEAR(hw.peak_flops_per_ns[SYN_F32], 1000, 0);
    CHECK_NEAR(hw.peak_flops_per_ns[SYN_F16], 10000, 0);
    CHECK_NEAR(hw.peak_flops_per_ns[SYN_BF16], 0, 0);
    CHECK_NEAR(hw.memory_bytes, 2 * GIB, 0);
    CHECK_NEAR(hw.memory_bytes_per_ns, 100, 0);
    CHECK_INT(hw.node_ranks, 4);
    CHECK_NEAR(hw.intra.alpha_ns, 2000, 0);
    CHECK_NEAR(hw.intra.bytes_per_ns, 50, 0);
    CHECK_NEAR(hw.inter.alpha_ns, 20000, 0);
    CHECK_NEAR(hw.inter.bytes_per_ns, 5, 0);
    CHECK_STR(hw.stack.name, "s");
    CHECK_NEAR(hw.stack.launch_ns, 3000, 0);
    CHECK_NEAR(hw.stack.matmul_efficiency, 0.5, 0);
    CHECK_NEAR(hw.stack.matmul_half_flops, 1e9, 0);
    CHECK_NEAR(hw.stack.memory_efficiency, 0.8, 0);
    CHECK_INT(hw.stack.kernels.n, 2);
    CHECK_STR(hw.stack.kernels.at[0].op, "softmax");
    CHECK_NEAR(hw.stack.kernels.at[0].value, 2, 0);
    CHECK_STR(hw.stack.kernels.at[1].op, "add");
    CHECK_NEAR(hw.stack.kernels.at[1].value, 0.5, 0);
}

static void optional_parts(void) {
    syn_hardware hw;
    syn_error err;
    CHECK_OK(parse(&hw, toy_with(",\"inter\":{\"alpha_us\":20,\"gb_per_s\":5}", ""), &err), err);
    CHECK_NEAR(hw.inter.bytes_per_ns, 0, 0); /* one node, which `intra` joins */
    CHECK_NEAR(syn_hardware_between(&hw)->alpha_ns, 2000, 0);
    CHECK_NEAR(syn_hardware_between(&hw)->bytes_per_ns, 50, 0);
    CHECK_OK(syn_hardware_check_nodes(&hw, hw.node_ranks, &err), err);
    CHECK_INT(syn_hardware_check_nodes(&hw, hw.node_ranks + 1, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "describes no network between nodes: add \"inter\"");
    CHECK_OK(parse(&hw, toy_with(",\"kernels\":{\"softmax\":2,\"add\":0.5}", ""), &err), err);
    CHECK_INT(hw.stack.kernels.n, 0);
    CHECK_OK(parse(&hw, toy_with("\"alpha_us\":2,", "\"alpha_us\":0,"), &err), err);
    CHECK_OK(parse(&hw, toy_with("\"launch_us\":3", "\"launch_us\":0"), &err), err);
}

/* ---- Bad files ---- */

static void refuses_bad_files(void) {
    static const struct {
        const char *from, *to, *where, *says;
    } bad[] = {
        {"\"memory_gib\":2", "\"memory_gib\":-2", "hw.json:3:16: ", "\"hardware.memory_gib\""},
        {"\"memory_gib\":2", "\"memory_gib\":0", "hw.json:3:16: ", "not 0"},
        {"\"memory_gib\":2", "\"memory_gib\":\"2\"", "hw.json:3:16: ", "not \"2\""},
        {"\"memory_gib\":2", "\"memory_gib\":null", "hw.json:3:16: ", "not null"},
        {"\"memory_gib\":2", "\"memory_gib\":[2]", "hw.json:3:16: ", "not an array"},
        {"\"memory_gib\":2", "\"memory_gib\":1e300", "hw.json:3:16: ", "not 1e300"},
        {"\"memory_gib\":2", "\"memory_gib\":NaN", "hw.json:3:16: ", "\"hardware.memory_gib\""},
        {"\"memory_gib\":2", "\"memory_gib\":1e999", "hw.json:3:16: ", "\"hardware.memory_gib\""},
        {"\"memory_gib\":2,", "", "hw.json:4:76: ", "\"hardware\" lacks \"memory_gib\""},
        {"\"memory_gib\"", "\"memory_gb\"",
         "hw.json:3:3: ", "unknown key \"memory_gb\" in \"hardware\""},
        {"\"memory_gib\":2", "\"memory_gib\":2,\"memory_gib\":2",
         "hw.json:3:18: ", "appears twice"},
        {"\"f32\":1,", "", "", "\"hardware.peak_tflops\" lacks \"f32\""},
        {"\"f16\":10", "\"f8\":10", "", "unknown key \"f8\" in \"hardware.peak_tflops\""},
        {"\"f16\":10", "\"f16\":0", "", "\"hardware.peak_tflops.f16\" must be"},
        {"{\"f32\":1,\"f16\":10}", "19.5", "",
         "\"hardware.peak_tflops\" must be an object, not 19.5"},
        {"\"node_ranks\":4", "\"node_ranks\":0", "hw.json:3:53: ", "\"hardware.node_ranks\""},
        {"\"node_ranks\":4", "\"node_ranks\":8.5", "hw.json:3:53: ", "must be an integer"},
        {"\"node_ranks\":4", "\"node_ranks\":99999999999999999999",
         "hw.json:3:53: ", "must be an integer"},
        {"\"alpha_us\":2,", "\"alpha_us\":-1,", "", "\"hardware.intra.alpha_us\""},
        {"\"alpha_us\":2,", "\"alpha_ms\":2,", "",
         "unknown key \"alpha_ms\" in \"hardware.intra\""},
        {"\"gb_per_s\":5}", "\"gb_per_s\":0}", "", "\"hardware.inter.gb_per_s\""},
        {",\"gb_per_s\":5}", "}", "", "\"hardware.inter\" lacks \"gb_per_s\""},
        {"\"alpha_us\":2,", "\"alpha_us\":2,\"topology\":\"torus\",", "",
         "\"hardware.intra.topology\" must be"},
        {"\"matmul_efficiency\":0.5", "\"matmul_efficiency\":1.5", "",
         "\"stack.matmul_efficiency\""},
        {"\"memory_efficiency\":0.8", "\"memory_efficiency\":0", "", "\"stack.memory_efficiency\""},
        {"\"launch_us\":3,", "", "", "\"stack\" lacks \"launch_us\""},
        {"\"launch_us\":3", "\"launch_ms\":3", "",
         "unknown key \"launch_ms\" in \"stack\"; valid keys are name, launch_us, kernel_us, "},
        {"\"launch_us\":3", "\"launch_ms\":3", "", ", ..."}, /* a long list of names is truncated */
        {"\"softmax\":2", "\"sofmax\":2",
         "hw.json:6:38: ", "names the op \"sofmax\", which does not exist"},
        {"\"softmax\":2", "\"softmax\":-1", "", "\"stack.kernels.softmax\""},
        {"\"softmax\":2", "\"softmax\":true", "", "not true"},
        {"\"softmax\":2", "\"add\":2", "", "\"stack.kernels.add\" appears twice"},
        {"{\"softmax\":2,\"add\":0.5}", "[]", "", "\"stack.kernels\" must be an object"},
        {"\"stack\":{", "\"hardware\":{", "hw.json:5:2: ", "\"hardware\" appears twice"},
        {"}}}\n", "}},\"stack\":{}}", "", "\"stack\" appears twice"},
        {"\"name\":\"toy\",", "", "", "the file lacks \"name\""},
        {"\"name\":\"toy\"", "\"name\":\"\"",
         "hw.json:1:9: ", "\"name\" must be a string of 1 to 63"},
        {"\"name\":\"toy\"", "\"name\":\"a\\u0000b\"",
         "hw.json:1:9: ", "without control characters"},
        {"\"name\":\"toy\"", "\"name\":\"toy\",\"nmae\":1",
         "hw.json:1:15: ", "unknown key \"nmae\""},
        {"\"name\":\"toy\"", "\"name\":\"toy\",\"errors\":{\"rows\":[]}", "",
         "\"errors\" lacks \"constants\""},
        {"\"name\":\"toy\"", "\"name\":\"toy\",\"errors\":{\"constants\":\"x\",\"rows\":[[1,2]]}",
         "", "\"errors.rows\""},
        {"\"name\":\"toy\"",
         "\"name\":\"toy\",\"errors\":{\"constants\":\"x\",\"rows\":[[0,2,3,4,5,6,7.5,8,9,0]]}", "",
         "a row of \"errors.rows\" must be integers and an error"},
        {"\"name\":\"toy\"",
         "\"name\":\"toy\",\"errors\":{\"constants\":\"x\",\"rows\":[[0,2,3,4,5,6,7,8,9,0,10]]}",
         "", "a row of \"errors.rows\" must have 10 numbers"},
        {"\"name\":\"toy\"",
         "\"name\":\"toy\",\"errors\":{\"constants\":\"x\",\"training\":{\"tp\":-1}}", "",
         "\"errors.training.tp\""},
        {"{\"name\"", "[{\"name\"", "hw.json:1:1: ", "the file must be an object, not an array"},
        {"0.5}}}\n", "0.5}}} x", "hw.json:6:63: ", "the end of the document"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_hardware hw, before;
        syn_error err;
        memset(&hw, 7, sizeof hw);
        before = hw;
        const syn_status status = parse(&hw, toy_with(bad[i].from, bad[i].to), &err);
        CHECK_MSG(status == SYN_E_FORMAT, "%s was taken (status %d)", bad[i].to, (int)status);
        CHECK_MSG(strncmp(err.text, "hw.json:", 8) == 0, "%s", err.text);
        CHECK_MSG(strncmp(err.text, bad[i].where, strlen(bad[i].where)) == 0, "\"%s\", not at %s",
                  err.text, bad[i].where);
        CHECK_HAS(err.text, bad[i].says);
        CHECK(memcmp(&hw, &before, sizeof hw) == 0); /* a failure leaves *hw unchanged */
    }
}

/* A file must have both parts, the hardware and the stack. */
static void refuses_halves(void) {
    const char *stack = strstr(toy, ",\n \"stack\""), *hardware = strstr(toy, " \"hardware\"");
    char half[1024];
    syn_hardware hw;
    syn_error err;
    snprintf(half, sizeof half, "%.*s}", (int)(stack - toy), toy);
    CHECK_INT(parse(&hw, half, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "the file lacks \"stack\"");
    snprintf(half, sizeof half, "%.*s%s", (int)(hardware - toy), toy, stack + 1);
    CHECK_INT(parse(&hw, half, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "the file lacks \"hardware\"");
}

static void refuses_every_cut(void) {
    const size_t bytes = strlen(toy) - 1; /* without the last newline the file is still complete */
    for (size_t n = 0; n < bytes; n++) {
        syn_hardware hw;
        syn_error err = {0};
        /* A buffer of the exact size, so that a sanitizer finds reads past its end. */
        char *cut = malloc(n + 1);
        CHECK(cut != NULL);
        memcpy(cut, toy, n);
        const syn_status status = syn_hardware_parse(&hw, "hw.json", cut, n, &err);
        free(cut);
        CHECK_MSG(status == SYN_E_FORMAT, "a file cut at %zu was taken", n);
    }
}

static syn_status parse_toy(void *unused, syn_error *err) {
    (void)unused;
    syn_hardware hw;
    return syn_hardware_parse(&hw, "hw.json", toy, strlen(toy), err);
}

static void survives_allocation_failures(void) {
    CHECK(test_without_memory(parse_toy, NULL) > 0);
}

/* ---- Presets ---- */

static void presets_are_complete(void) {
    size_t n = 0;
    for (const char *const *name = syn_hardware_presets(); *name != NULL; name++, n++) {
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, *name, NULL, &err), err);
        CHECK_STR(hw.name, *name);
        CHECK(hw.peak_flops_per_ns[SYN_F32] > 0 && hw.memory_bytes >= GIB &&
              hw.stack.name[0] != '\0');
        CHECK(hw.memory_bytes_per_ns > 0 && hw.node_ranks > 0);
        CHECK(hw.stack.launch_ns + hw.stack.kernel_ns > 0);
        CHECK(hw.intra.bytes_per_ns > 0);
        CHECK(hw.stack.matmul_efficiency > 0 && hw.stack.matmul_efficiency <= 1);
        CHECK(hw.stack.memory_efficiency > 0 && hw.stack.memory_efficiency <= 1);
    }
    CHECK_INT(n, 13);
}

/* Sums of whole systems, as in the data sheets of NVIDIA's and AMD's systems: peak in PFLOP/s of
   bf16 without sparsity, f32 in TFLOP/s, memory bandwidth, links and network cards in GB/s. */
static void presets_add_up_to_systems(void) {
    static const struct {
        const char *name;
        int32_t ranks;
        double bf16_pflops, f32_tflops, memory, links, network;
        syn_topology topology;
    } systems[] = {
        {"h800", 8, 7.9152, 535.2, 26800, 8 * 400 / 2, 8 * 400 / 8, SYN_TOPOLOGY_SWITCH},
        {"b300", 8, 18, 600, 61600, 7200, 8 * 800 / 8, SYN_TOPOLOGY_SWITCH},
        {"gb200", 72, 180, 5760, 576000, 64800, 72 * 400 / 8, SYN_TOPOLOGY_SWITCH},
        {"gb300", 72, 180, 5760, 576000, 64800, 72 * 800 / 8, SYN_TOPOLOGY_SWITCH},
        {"mi300x", 8, 10.4592, 1307.2, 42400, 8 * 7 * 64, 8 * 400 / 8,
         SYN_TOPOLOGY_FULLY_CONNECTED},
    };
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++) {
        const double n = systems[i].ranks;
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, systems[i].name, NULL, &err), err);
        CHECK_INT(hw.node_ranks, systems[i].ranks);
        CHECK_NEAR(n * hw.peak_flops_per_ns[SYN_BF16] / 1e6, systems[i].bf16_pflops, 1e-6);
        CHECK_NEAR(n * hw.peak_flops_per_ns[SYN_F32] / 1e3, systems[i].f32_tflops, 1e-6);
        CHECK_NEAR(n * hw.memory_bytes_per_ns, systems[i].memory, 1e-6);
        CHECK_NEAR(n * hw.intra.bytes_per_ns, systems[i].links, 1e-6);
        CHECK_NEAR(hw.inter.bytes_per_ns, systems[i].network, 1e-6);
        CHECK_INT(hw.intra.topology, systems[i].topology);
        CHECK_INT(hw.inter.topology, SYN_TOPOLOGY_SWITCH);
    }
}

/* A file without "topology" has switches. Another topology is written and read again. */
static void topologies(void) {
    static const char *const names[] = {"switch", "fully_connected", "ring"};
    for (int i = 0; i < 3; i++) {
        char link[64];
        syn_hardware hw, again;
        syn_error err = {0};
        syn_sink *sink;
        size_t bytes;
        CHECK_OK(parse(&hw, toy, &err), err);
        CHECK_INT(hw.intra.topology, SYN_TOPOLOGY_SWITCH);
        snprintf(link, sizeof link, "\"intra\":{\"topology\":\"%s\",", names[i]);
        CHECK_OK(parse(&hw, toy_with("\"intra\":{", link), &err), err);
        CHECK_INT(hw.intra.topology, i);
        CHECK_INT(hw.inter.topology, SYN_TOPOLOGY_SWITCH);
        CHECK_OK(syn_sink_open_memory(&sink, &err), err);
        syn_hardware_write(&hw, sink);
        const char *text = syn_sink_data(sink, &bytes);
        CHECK_OK(syn_hardware_parse(&again, "again", text, bytes, &err), err);
        CHECK_INT(again.intra.topology, i);
        CHECK_OK(syn_sink_close(sink, true, &err), err);
    }
}

static void unknown_names_list_the_presets(void) {
    syn_hardware hw;
    syn_error err = {0};
    CHECK_INT(syn_hardware_load(&hw, "a100", NULL, &err), SYN_E_IO);
    CHECK_HAS(err.text, "cannot read a100");
    CHECK_HAS(
        err.text,
        "a100-80g, h100, h200, h800, b200, b300, gb200, gb300, mi300x, rtxpro6000, "
        "rtx4090, v100-32g, cpu, alone or with +STACK: pytorch-eager, megatron, serving, fsdp");
    err = (syn_error){0};
    CHECK_INT(syn_hardware_load(&hw, "gb-200", NULL, &err), SYN_E_IO);
    CHECK_HAS(err.text, "did you mean gb200?");
}

/* A name has the form MACHINE+STACK. A machine without a stack gets the caller's default stack. */
static void names_have_two_parts(void) {
    syn_hardware hw, file;
    syn_error err = {0};
    char title[160];
    for (const char *const *stack = syn_stack_presets(); *stack != NULL; stack++) {
        CHECK_OK(syn_hardware_load(&hw, "h100", *stack, &err), err);
        CHECK_STR(hw.stack.name, *stack);
        snprintf(title, sizeof title, "a100-80g+%s", *stack);
        CHECK_OK(syn_hardware_load(&hw, title, "megatron", &err), err);
        CHECK_STR(hw.name, "a100-80g");
        CHECK_STR(hw.stack.name, *stack);
        CHECK_NEAR(hw.memory_bytes_per_ns, 2039, 0);
    }
    CHECK_OK(syn_hardware_load(&hw, "cpu", "serving", &err), err);
    CHECK_STR(syn_hardware_title(&hw, title, sizeof title), "cpu+syntorch");
    snprintf(title, sizeof title, "%s+megatron", source_path("examples/configs/hw_a100.json"));
    CHECK_OK(syn_hardware_load(&file, title, NULL, &err), err);
    CHECK_STR(file.stack.name, "megatron");
    CHECK_INT(syn_hardware_load(&hw, "cpu+serving", NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "the stack serving needs a GPU, but cpu has no \"multiprocessors\"");
    err = (syn_error){0};
    CHECK_INT(syn_hardware_load(&hw, "a100-80g+eager", NULL, &err), SYN_E_IO);
    CHECK_HAS(err.text, "cannot read a100-80g+eager");
    CHECK_INT(syn_hardware_load(&hw, "a100-80g", "eager", &err), SYN_E_INVALID);
    CHECK_STR(hw.name, "cpu"); /* a failure leaves hw unchanged */
}

/* The example file has the same values as the preset. */
static void example_equals_preset(void) {
    syn_hardware file, preset;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&file, source_path("examples/configs/hw_a100.json"), NULL, &err),
             err);
    CHECK_OK(syn_hardware_load(&preset, "a100-80g+serving", NULL, &err), err);
    CHECK_STR(file.name, preset.name);
    CHECK_INT(file.multiprocessors, preset.multiprocessors);
    CHECK_INT(file.node_ranks, preset.node_ranks);
    CHECK(memcmp(file.peak_flops_per_ns, preset.peak_flops_per_ns, sizeof file.peak_flops_per_ns) ==
          0);
    CHECK_NEAR(file.memory_bytes, preset.memory_bytes, 0);
    CHECK_NEAR(file.memory_bytes_per_ns, preset.memory_bytes_per_ns, 0);
    CHECK(memcmp(&file.intra, &preset.intra, sizeof file.intra) == 0);
    CHECK(memcmp(&file.inter, &preset.inter, sizeof file.inter) == 0);
    CHECK(memcmp(&file.collectives, &preset.collectives, sizeof file.collectives) == 0);
    CHECK(memcmp(&file.stack, &preset.stack, sizeof file.stack) == 0);
}

/* ---- Times of the toy file, computed manually ---- */

static syn_node compute(const char *op, syn_category category, uint64_t flops, uint64_t bytes) {
    return (syn_node){.kind = SYN_NODE_COMPUTE,
                      .category = category,
                      .op = op,
                      .flops = flops,
                      .bytes_read = bytes - bytes / 4,
                      .bytes_written = bytes / 4};
}

static double toy_ns(const syn_node *node, syn_dtype dtype) {
    syn_hardware hw;
    syn_error err;
    if (parse(&hw, toy, &err) != SYN_OK) return -1;
    syn_node typed = *node;
    typed.dtype = dtype;
    return syn_hardware_predict_ns(&hw, &typed, NULL, 0);
}

static void compute_times(void) {
    syn_node n = compute("linear", SYN_CATEGORY_MATMUL, 3000000000, 1000);
    /* (3e9 + 1e9) flops at 50% of 1e12 flop/s */
    CHECK_NEAR(toy_ns(&n, SYN_F32), 8e6, 1e-3);
    CHECK_NEAR(toy_ns(&n, SYN_F16), 8e5, 1e-3);
    CHECK_NEAR(toy_ns(&n, SYN_BF16), 8e6, 1e-3); /* without a peak for bf16, f32's is used */
    CHECK_NEAR(toy_ns(&n, SYN_I64), 8e6, 1e-3);
    n = compute("linear", SYN_CATEGORY_MATMUL, 2, 800000000);
    CHECK_NEAR(toy_ns(&n, SYN_F32), 1e7, 1e-3); /* 0.8e9 bytes at 80% of 100 GB/s */
    /* Fused attention runs at the speed of matrix products. Softmax has the same category but does
       not. */
    n = compute("attention", SYN_CATEGORY_ATTENTION, 1000000000, 4);
    n.flags = SYN_NODE_FUSED;
    CHECK_NEAR(toy_ns(&n, SYN_F16), 4e5, 1e-3);
    n = compute("softmax", SYN_CATEGORY_ATTENTION, 1000000000, 4);
    CHECK_NEAR(toy_ns(&n, SYN_F16), 1e6, 1e-3); /* vector ops use the peak of f32, 1e12 flop/s */
    n = compute("gelu", SYN_CATEGORY_ELEMENTWISE, 8, 8);
    CHECK_NEAR(toy_ns(&n, SYN_F32), 3000, 0); /* the time of one launch */
    n = compute("softmax", SYN_CATEGORY_ATTENTION, 8, 8);
    CHECK_NEAR(toy_ns(&n, SYN_F32), 6000, 0);
    n = compute("add", SYN_CATEGORY_ELEMENTWISE, 8, 8);
    CHECK_NEAR(toy_ns(&n, SYN_F32), 1500, 0);
    n.flags = SYN_NODE_VIRTUAL;
    CHECK_NEAR(toy_ns(&n, SYN_F32), 0, 0);
    n = compute("reshape", SYN_CATEGORY_VIEW, 0, 0);
    CHECK_NEAR(toy_ns(&n, SYN_F32), 0, 0);
    n.kind = SYN_NODE_METADATA;
    CHECK_NEAR(toy_ns(&n, SYN_F32), 0, 0);
    n = compute("load", SYN_CATEGORY_OTHER, 0, 800000000);
    n.kind = SYN_NODE_MEMORY;
    CHECK_NEAR(toy_ns(&n, SYN_F32), 1e7, 1e-3);
}

static void collective_times(void) {
    static const int32_t near[] = {4, 5, 6, 7}, far[] = {0, 4};
    syn_hardware hw;
    syn_error err;
    CHECK_OK(parse(&hw, toy, &err), err);
    /* The whole buffer has n = 1e6 bytes, k is 4 ranks, alpha is 2000 ns, and the bandwidth is 50
       bytes/ns. One pass takes 3 * 2000 + 3/4 * 20000 = 21000 ns; an all-reduce takes two
       passes. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, near, 4), 42000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_GATHER, 250000, near, 4), 21000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_REDUCE_SCATTER, 1000000, near, 4), 21000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_TO_ALL, 1000000, near, 4), 21000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_BROADCAST, 1000000, near, 4), 22000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_BARRIER, 0, near, 4), 12000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, near, 1), 0, 0);
    /* Ranks 0 and 4 are on two nodes: alpha is 20000 ns and the bandwidth 5 bytes/ns. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, far, 2), 40000 + 200000, 1e-6);
    /* An all-reduce takes as long as a reduce-scatter and an all-gather together. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_REDUCE_SCATTER, 4096, near, 4) +
                   collective_ns(&hw, SYN_COMM_ALL_GATHER, 1024, near, 4),
               collective_ns(&hw, SYN_COMM_ALL_REDUCE, 4096, near, 4), 1e-9);
}

static void message_times(void) {
    syn_hardware hw;
    syn_error err;
    CHECK_OK(parse(&hw, toy, &err), err);
    syn_node node = {.kind = SYN_NODE_SEND, .op = "send", .comm = SYN_COMM_SEND};
    node.comm_bytes = 1000000;
    node.peer = 2;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &node, NULL, 3), 22000, 1e-6);
    node.kind = SYN_NODE_RECV;
    node.comm = SYN_COMM_RECV;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &node, NULL, 4), 220000, 1e-6);
}

/* ---- Times against measurements ---- */

/* Decoding with a model that is too small for an H100 is limited by launches: a GPT with 583M
   parameters and 24 layers takes 22.5 ms per token at batch size 1 (Megatron-LM's inference
   performance test). */
static void decode_is_launch_bound_on_h100(void) {
    static const char *const layer[] = {"layernorm", "linear", "matmul", "scale_mask", "softmax",
                                        "matmul",    "linear", "add",    "layernorm",  "linear",
                                        "gelu",      "linear", "add"};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "h100", NULL, &err), err);
    double ns = 0;
    for (size_t i = 0; i < sizeof layer / sizeof layer[0]; i++) {
        const bool product = layer[i][0] == 'm' || strcmp(layer[i], "linear") == 0;
        const uint64_t flops = product ? 8ull * 1152 * 1152 : 8 * 1152;
        const syn_node n = compute(
            layer[i], product ? SYN_CATEGORY_MATMUL : SYN_CATEGORY_ELEMENTWISE, flops, flops);
        ns += 24 * syn_hardware_predict_ns(&hw, &n, NULL, 0);
    }
    CHECK_NEAR(ns, 22.5e6, 0.15 * 22.5e6);
}

/* GPT-3 175B with tp 8 generates one token at context 2048. Each layer reads a rank's weights and
   KV cache once. By the closed formula, that takes 21.92 ms for 96 layers at the A100's 2039
   GB/s. */
static void decode_roofline_of_175b(void) {
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g", NULL, &err), err);
    hw.stack.memory_efficiency = 1;
    const syn_node weights = compute("linear", SYN_CATEGORY_MATMUL, 452984832, 452984832);
    const syn_node cache = compute("matmul", SYN_CATEGORY_MATMUL, 12582912, 12582912);
    hw.stack.launch_ns = 0;
    hw.stack.matmul_half_flops = 0;
    const double ns = syn_hardware_predict_ns(&hw, &weights, NULL, 0) +
                      syn_hardware_predict_ns(&hw, &cache, NULL, 0);
    CHECK_NEAR(96 * ns / 1e6, 21.92, 0.005);
}

/* Measured on two cores with OpenBLAS: all matrix products of a training step of GPT-2 124M with 4
   x 512 tokens took 3176 ms. Reading the weights of one decode step (495 MB) took 7.4 to 10.8
   ms. */
static void cpu_as_measured(void) {
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "cpu", NULL, &err), err);
    /* A forward pass multiplies 2048 rows by the 12 h^2 weights of each of 12 layers and by the
       head. Backward takes twice as long. */
    const uint64_t weights = 12ull * 12 * 768 * 768 + 50257ull * 768;
    const syn_node step = compute("linear", SYN_CATEGORY_MATMUL, 3 * 2 * 2048 * weights, 0);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &step, NULL, 0) / 1e6, 3176, 0.05 * 3176);
    const syn_node decode = compute("linear", SYN_CATEGORY_MATMUL, 2 * weights, 495000000);
    const double ms = syn_hardware_predict_ns(&hw, &decode, NULL, 0) / 1e6;
    CHECK_MSG(ms >= 7.4 && ms <= 10.8, "%g ms", ms);
}

static const test_case cases[] = {
    {"reads_every_member", reads_every_member},
    {"optional_parts", optional_parts},
    {"refuses_bad_files", refuses_bad_files},
    {"refuses_halves", refuses_halves},
    {"refuses_every_cut", refuses_every_cut},
    {"survives_allocation_failures", survives_allocation_failures},
    {"presets_are_complete", presets_are_complete},
    {"unknown_names_list_the_presets", unknown_names_list_the_presets},
    {"presets_add_up_to_systems", presets_add_up_to_systems},
    {"topologies", topologies},
    {"names_have_two_parts", names_have_two_parts},
    {"example_equals_preset", example_equals_preset},
    {"compute_times", compute_times},
    {"collective_times", collective_times},
    {"message_times", message_times},
    {"decode_is_launch_bound_on_h100", decode_is_launch_bound_on_h100},
    {"cpu_as_measured", cpu_as_measured},
    {"decode_roofline_of_175b", decode_roofline_of_175b},
};
TEST_MAIN(cases)
