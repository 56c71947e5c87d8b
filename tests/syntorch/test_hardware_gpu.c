/* Tests predicted times for machines with multiprocessors, stacks that fuse ops, and a collective
   library. With a file of round numbers, they must equal times computed manually. */
#include "tests/support/collective_times.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "syntorch/hardware/hardware.h"

static const char *const toy =
    "{\"name\":\"toy\",\n"
    " \"hardware\":{\"peak_tflops\":{\"f32\":1,\"f16\":10},\"multiprocessors\":10,\n"
    "  \"memory_gib\":2,\"memory_gb_per_s\":100,\"node_ranks\":4,\n"
    "  \"intra\":{\"gb_per_s\":50},\"inter\":{\"gb_per_s\":40}},\n"
    " \"collectives\":{\"name\":\"l\",\n"
    "  \"ll\":{\"base_us\":1,\"step_us\":1,\"hop_us\":10,\"link_efficiency\":1,\"gb_per_s\":1},\n"
    "  \"simple\":{\"base_us\":30,\"step_us\":2,\"hop_us\":20,\"link_efficiency\":0.5,\n"
    "   \"copy_efficiency\":0.1}},\n"
    " \"stack\":{\"name\":\"s\",\"launch_us\":3,\"kernel_us\":1,\"matmul_efficiency\":0.5,\n"
    "  \"matmul_tail\":0.5,\"attention_efficiency\":0.25,\"score_passes\":4,\"score_heads\":4,\n"
    "  \"score_kernels\":7,\"memory_efficiency\":0.8,\"vector_efficiency\":0.4,\n"
    "  \"collective_us\":9,\"collective_rank_us\":100,\"collective_kernel_us\":2,\n"
    "  \"kernels\":{\"add\":0,\"attention\":5},\"overhead_us\":{\"sample\":50},\n"
    "  \"phases\":{\"decode\":{\"launch\":0.5},\"prefill\":{\"device\":2}}}}\n";

static void load(syn_hardware *hw, const char *json) {
    syn_error err = {0};
    CHECK_OK(syn_hardware_parse(hw, "hw.json", json, strlen(json), &err), err);
}

static double toy_ns(const syn_node *node) {
    syn_hardware hw;
    load(&hw, toy);
    return syn_hardware_predict_ns(&hw, node, NULL, 0);
}

/* stack.traffic multiplies the bytes of an op. */
static void kernels_move_more_bytes(void) {
    syn_hardware hw;
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_REDUCTION,
                  .op = "cross_entropy",
                  .bytes_read = 4000000};
    load(&hw, toy);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 1e5 + 1000, 1e-6);
    hw.stack.traffic = (syn_hw_ops){{{"cross_entropy", 13}}, 1};
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 13e5 + 1000, 1e-6);
}

static void products_come_in_tiles(void) {
    /* 256 x 1280 is 20 tiles of 128 x 128, that is 2 waves of 10 tiles, plus half a wave for the
       tail. Each tile takes 2 * 128 * 128 * 1000 flops at 5e12 / 10 flop/s. The kernel takes 1 us
       in addition. */
    const double tile = 2 * 128 * 128 * 1000 / 500.0;
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_MATMUL,
                  .op = "linear",
                  .dtype = SYN_F16,
                  .flops = 2ull * 256 * 1280 * 1000,
                  .extents = {.batch = 1, .rows = 256, .columns = 1280, .inner = 1000}};
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.extents.rows = 129; /* 129 rows need the same number of tiles */
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.extents.rows = 3; /* one row of tiles, with 16 rows instead of 128 */
    CHECK_NEAR(toy_ns(&n), 1.5 * tile / 8 + 1000, 1e-6);
    n.extents = (syn_extents){.batch = 2,
                              .rows = 128,
                              .columns = 1280,
                              .inner = 1000}; /* two products run concurrently */
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.dtype = SYN_F32;
    CHECK_NEAR(toy_ns(&n), 25 * tile + 1000, 1e-6);
    n.extents = (syn_extents){.batch = 1,
                              .rows = 1,
                              .columns = 1280,
                              .inner = 1000}; /* without tensor cores, tiles may have one row */
    CHECK_NEAR(toy_ns(&n), 15 * tile / 128 + 1000, 1e-6);
    n.extents = (syn_extents){.batch = 2, .rows = 128, .columns = 1280, .inner = 1000};
    n.bytes_read = 8000000000; /* limited by the memory bandwidth of 80 GB/s */
    CHECK_NEAR(toy_ns(&n), 1e8 + 1000, 1e-6);
    /* Without extents, a cube with sides of 1280 is assumed. */
    n = (syn_node){.kind = SYN_NODE_COMPUTE,
                   .category = SYN_CATEGORY_MATMUL,
                   .op = "linear",
                   .dtype = SYN_F16,
                   .flops = 2ull * 1280 * 1280 * 1280};
    CHECK_NEAR(toy_ns(&n), 10.5 * tile * 1.28 + 1000, 1);
}

/* In FP8 the product of a layer takes half the time of products_come_in_tiles, and converting its
   input, which moves 2 + 1 + 1 bytes per element at 40 GB/s, comes before it. */
static void layers_compute_in_fp8(void) {
    const double tile = 2 * 128 * 128 * 1000 / 500.0, convert = 256 * 1000 * 4 / 40.0;
    syn_hardware hw;
    syn_error err = {0};
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_MATMUL,
                  .op = "linear",
                  .scope = "h.3.mlp",
                  .dtype = SYN_F16,
                  .flops = 2ull * 256 * 1280 * 1000,
                  .extents = {.batch = 1, .rows = 256, .columns = 1280, .inner = 1000}};
    load(&hw, toy);
    CHECK_INT(syn_hardware_use_fp8(&hw, &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "toy has no peak rate for FP8");
    hw.fp8_flops_per_ns = 20000;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 2.5 * tile + 1000, 1e-6);
    CHECK_OK(syn_hardware_use_fp8(&hw, &err), err);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 1.25 * tile + convert + 1000, 1e-6);
    n.op = "matmul"; /* the gradient of the weight, whose inputs are converted already */
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 1.25 * tile + 1000, 1e-6);
    n.scope = "lm_head";
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 2.5 * tile + 1000, 1e-6);
    n.scope = "h.3.attn";
    n.extents =
        (syn_extents){.batch = 2, .rows = 128, .columns = 1280, .inner = 1000}; /* of attention */
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 2.5 * tile + 1000, 1e-6);
}

/* Products hide a part of the collectives of tensor parallelism in layers, and of no others. */
static void products_hide_collectives(void) {
    static const int32_t ranks[] = {0, 1, 2, 3};
    static const char *const names[] = {"tp0", "tp0", "dp0"}, *const scopes[] = {
                                                                  "h.3.mlp", "lm_head", "h.3.mlp"};
    syn_hardware hw;
    load(&hw, toy);
    for (int i = 0; i < 3; i++) {
        const syn_graph_group group = {.id = 1, .name = names[i], .ranks = ranks, .n_ranks = 4};
        const syn_node n = {.kind = SYN_NODE_COLLECTIVE,
                            .op = "all_gather",
                            .comm = SYN_COMM_ALL_GATHER,
                            .scope = scopes[i],
                            .comm_bytes = 1 << 20};
        hw.stack.tp_overlap = 0;
        const double whole = syn_hardware_predict_ns(&hw, &n, &group, 0);
        hw.stack.tp_overlap = 0.75;
        CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, &group, 0), whole * (i == 0 ? 0.25 : 1), 1e-6);
    }
}

static void attention_moves_its_scores(void) {
    /* 8 heads, 100 queries, 100 keys and head_dim 25 give 8e6 flops at 2.5e12 flop/s. The 80000
       scores have 2 bytes each and are moved 4 times at 80 GB/s. The 5 kernels take 1 us each, or 3
       us each if launches are the limit. */
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_ATTENTION,
                  .op = "attention",
                  .flags = SYN_NODE_FUSED,
                  .dtype = SYN_F16,
                  .flops = 8000000,
                  .extents = {.batch = 8, .rows = 100, .columns = 100, .inner = 25}};
    CHECK_NEAR(toy_ns(&n), 3200 + 8000 + 5000, 1e-6);
    /* A batch that is not a multiple of 4 takes 7 more kernels. Launching the 12 kernels takes
       longer than running them. */
    n.extents.batch = 6;
    CHECK_NEAR(toy_ns(&n), 12 * 3000, 1e-6);
    /* With one query per head there is one kernel, which does not store scores. */
    n.extents = (syn_extents){.batch = 8, .rows = 1, .columns = 100, .inner = 25};
    n.flops = 80000;
    n.bytes_read = 8000000;
    CHECK_NEAR(toy_ns(&n), 100000 + 1000, 1e-6);
}

static void attention_in_separate_ops(void) {
    /* The same 80000 scores as separate ops: product, mask, softmax, product. Fused attention makes
       4 passes over the scores at 80 GB/s. As separate ops, each of the two products makes one of
       these passes, and the mask makes two passes at 40 GB/s. Each of these three ops also has one
       of the 5 kernels. */
    const syn_node product = {.kind = SYN_NODE_COMPUTE,
                              .category = SYN_CATEGORY_MATMUL,
                              .op = "matmul",
                              .dtype = SYN_F16,
                              .phase = SYN_PHASE_DECODE,
                              .bytes_read = 8000};
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_ATTENTION,
                  .op = "softmax",
                  .dtype = SYN_F16,
                  .bytes_read = 160000,
                  .extents = {.batch = 8, .rows = 100, .columns = 100, .inner = 0}};
    syn_hardware hw;
    load(&hw, toy);
    hw.stack.score_passes = 10;
    hw.stack.launch_ns = 0;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 8 * 2000 - 4000 + 2000, 1e-6);
    hw.stack.score_passes = 3; /* an op takes at least as long as its own traffic */
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 4000 + 2000, 1e-6);
    n.extents.batch = 6; /* a batch that is not a multiple of 4 */
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 4000 + 9000, 1e-6);
    n.phase = SYN_PHASE_DECODE;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 4000 + 250, 1e-6);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &product, NULL, 0), 100 + 250, 1e-6);
    /* A stack whose attention is one kernel: the separate ops have four. */
    hw.stack.score_passes = 2;
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &n, NULL, 0), 4000 + 1000, 1e-6);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &product, NULL, 0), 100 + 1000, 1e-6);
}

static void stacks_fuse_and_wait(void) {
    syn_node n = {.kind = SYN_NODE_COMPUTE,
                  .category = SYN_CATEGORY_ELEMENTWISE,
                  .op = "add",
                  .bytes_read = 4000000};
    /* A fused op moves its bytes at 40 GB/s and has no kernel of its own. */
    CHECK_NEAR(toy_ns(&n), 100000, 1e-6);
    n.op = "gelu";
    CHECK_NEAR(toy_ns(&n), 101000, 1e-6);
    n.phase = SYN_PHASE_PREFILL; /* a device with half the speed */
    CHECK_NEAR(toy_ns(&n), 201000, 1e-6);
    n.bytes_read = 4;
    n.phase = SYN_PHASE_FORWARD;
    CHECK_NEAR(toy_ns(&n), 3000, 1e-6);
    n.phase = SYN_PHASE_DECODE; /* a host with twice the speed */
    CHECK_NEAR(toy_ns(&n), 1500, 1e-6);
    n.op = "sample";
    CHECK_NEAR(toy_ns(&n), 1500 + 25000, 1e-6);
}

static void the_fastest_protocol_is_taken(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    syn_hardware hw;
    load(&hw, toy);
    hw.stack.collective_rank_ns = 0;
    /* The ll protocol on 4 ranks with 1000 bytes takes 1 + 2 * 3 us, 1500 bytes at 1 GB/s, and 2 us
       for the kernel. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000, ranks, 4), 7000 + 1500 + 2000, 1e-6);
    /* The simple protocol with 1e6 bytes takes 30 + 6 * 2 us, 1.5e6 bytes at 25 GB/s, and 1e6 bytes
       copied at 10 GB/s. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 4),
               42000 + 60000 + 100000 + 2000, 1e-6);
    /* An all-gather is one pass and copies half as many bytes. */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_GATHER, 250000, ranks, 4),
               36000 + 30000 + 60000 + 2000, 1e-6);
    /* Two nodes add one hop in each direction. The slower of two limits counts: links and copies
       within a node, or the network (all four cards of a node, 40 GB/s at 50% efficiency). */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 8),
               42000 + 40000 + 1750000 / 25.0 + 100000 + 2000, 1e-6);
    hw.collectives.protocols[SYN_PROTOCOL_SIMPLE].network_efficiency = 0.25;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 8),
               42000 + 40000 + 1750000 / 10.0 + 2000, 1e-6);
    hw.collectives.protocols[SYN_PROTOCOL_SIMPLE].network_efficiency = 0;
    /* With one rank per node, one of the four cards is used. */
    static const int32_t far[] = {0, 4};
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, far, 2),
               30000 + 40000 + 1000000 / 5.0 + 2000, 1e-6);
    hw.stack.collective_rank_ns = 100000; /* at least 9 + 2 * 100 us */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000, ranks, 4), 209000, 1e-6);
    /* The switch computes the sum, so each rank sends its buffer only once. This needs at least
       three ranks. */
    hw.stack.collective_rank_ns = 0;
    hw.collectives.protocols[SYN_PROTOCOL_SWITCH] =
        (syn_protocol){.base_ns = 10000, .link_efficiency = 0.8};
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 4), 10000 + 25000 + 2000,
               1e-6);
    CHECK(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 2) > 100000);
    CHECK(collective_ns(&hw, SYN_COMM_ALL_GATHER, 250000, ranks, 4) > 50000);
    /* With two nodes, sums cross the network once, at 40 GB/s. With four nodes they cross it twice,
       which takes longer than the switches. The stack adds its own wait per hop. */
    syn_protocol *sums = &hw.collectives.protocols[SYN_PROTOCOL_SWITCH];
    sums->hop_ns = 3000;
    sums->network_efficiency = 1;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 8), 16000 + 25000 + 2000,
               1e-6);
    hw.stack.collective_hop_ns = 500;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 16),
               22000 + 50000 + 2000 + 1000, 1e-6);
    /* Three of a node's four ranks use three of its four cards. */
    static const int32_t quarters[] = {0, 1, 2, 4, 5, 6};
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, quarters, 6),
               16000 + 1000000 / 30.0 + 2000 + 500, 1e-6);
    /* Filling the pipeline adds t f / (t + f) to a transfer of t, where f is the limit of the
       filling time: 12.5 us for t = f = 25 us, and 25 us for t = f = 50 us. For 10 bytes, this is
       as long as the transfer itself. */
    sums->fill_ns = 25000;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 4),
               10000 + 25000 + 12500 + 2000, 1e-6);
    sums->network_fill_ns = 25000;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 1000000, ranks, 16),
               22000 + 50000 + 25000 + 2000 + 1000, 1e-6);
    hw.collectives.protocols[SYN_PROTOCOL_LL].link_efficiency = 0;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 10, ranks, 4), 10000 + 0.5 + 2000, 1e-3);
}

/* 16 ranks on four nodes. Trees take one hop per doubling of the number of nodes, whatever the
   stack adds. Rings take one ring hop (ring_hop_us) for each further node, and a step within a node
   or, if it is longer, the time of a message to another node (post_us) for each of the remaining
   ranks. An all-to-all takes post_us for each message that leaves the node. */
static void latency_follows_the_route(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int32_t far[] = {0, 4, 8, 12};
    syn_hardware hw;
    load(&hw, toy);
    hw.collectives.protocols[SYN_PROTOCOL_SIMPLE].base_ns = 1e9;
    hw.collectives.protocols[SYN_PROTOCOL_LL].bytes_per_ns = 1e9;
    hw.collectives.protocols[SYN_PROTOCOL_LL].post_ns = 1500;
    hw.collectives.protocols[SYN_PROTOCOL_LL].ring_hop_ns = 4000;
    hw.stack.collective_kernel_ns = 0;
    /* At least 9 us, plus 100 us for each rank of a node beyond the second. Each doubling of the
       number of nodes adds 20 us (2 * 10). */
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 0, ranks, 4), 209000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 0, ranks, 8), 209000 + 20000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 0, ranks, 16), 209000 + 40000, 1e-6);
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 0, far, 4), 209000 + 40000, 1e-6);
    hw.stack.collective_ns = hw.stack.collective_rank_ns = 0;
    CHECK_NEAR(collective_ns(&hw, SYN_COMM_ALL_REDUCE, 0, ranks, 16), 1000 + 6000 + 40000, 1e-6);
    static const syn_comm_kind rings[] = {SYN_COMM_ALL_GATHER, SYN_COMM_REDUCE_SCATTER,
                                          SYN_COMM_BROADCAST, SYN_COMM_REDUCE};
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR(collective_ns(&hw, rings[i], 0, ranks, 4), 1000 + 3000, 1e-6);
        CHECK_NEAR(collective_ns(&hw, rings[i], 0, ranks, 16), 1000 + 12 * 1500 + 12000, 1e-6);
        CHECK_NEAR(collective_ns(&hw, rings[i], 0, far, 4), 1000 + 12000, 1e-6);
    }
    static const syn_comm_kind direct[] = {SYN_COMM_ALL_TO_ALL, SYN_COMM_GATHER, SYN_COMM_SCATTER};
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(collective_ns(&hw, direct[i], 0, ranks, 4), 1000 + 3000, 1e-6);
        CHECK_NEAR(collective_ns(&hw, direct[i], 0, ranks, 16), 1000 + 3000 + 10000 + 12 * 1500,
                   1e-6);
    }
    const syn_node send = {.kind = SYN_NODE_SEND, .op = "send", .comm = SYN_COMM_SEND, .peer = 13};
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &send, NULL, 12), 1000 + 1000, 1e-6);
    CHECK_NEAR(syn_hardware_predict_ns(&hw, &send, NULL, 0), 1000 + 10000 + 1500, 1e-6);
}

/* For every machine and stack, doubling the number of nodes adds no more to a 4-byte all-reduce
   than the previous doubling did, and 64 nodes take less than six times as long as one. */
static void all_reduces_grow_with_the_logarithm(void) {
    static int32_t ranks[72 << 6];
    for (int32_t i = 0; i < 72 << 6; i++) ranks[i] = i;
    for (const char *const *machine = syn_hardware_presets(); *machine != NULL; machine++)
        for (const char *const *stack = syn_stack_presets(); *stack != NULL; stack++) {
            char name[64];
            double us[7];
            syn_hardware hw;
            syn_error err = {0};
            if (strcmp(*machine, "cpu") == 0) continue;
            snprintf(name, sizeof name, "%s+%s", *machine, *stack);
            CHECK_OK(syn_hardware_load(&hw, name, NULL, &err), err);
            const uint32_t node = (uint32_t)hw.node_ranks;
            for (uint32_t i = 0; i < 7; i++)
                us[i] = collective_ns(&hw, SYN_COMM_ALL_REDUCE, 4, ranks, node << i) / 1e3;
            for (int i = 1; i < 7; i++)
                CHECK_MSG(us[i] > us[i - 1] &&
                              (i == 1 || us[i] - us[i - 1] < us[i - 1] - us[i - 2] + 0.01),
                          "%s, %u ranks: %g after %g us", name, node << i, us[i], us[i - 1]);
            CHECK_MSG(us[6] < 6 * us[0] && us[6] < 400, "%s: %g and %g us", name, us[0], us[6]);
        }
}

/* Loads the toy file with these "fitted" ranges in its library and its stack. */
static void load_fitted(syn_hardware *hw, const char *library, const char *stack) {
    static char json[4096];
    const char *from = strstr(toy, ",\n  \"simple\""), *at = strstr(toy, ",\n  \"matmul_tail\"");
    snprintf(json, sizeof json, "%.*s,\"fitted\":%s%.*s,\"fitted\":%s%s", (int)(from - toy), toy,
             library, (int)(at - from), from, stack, at);
    load(hw, json);
}

static int beyond(const syn_hardware *hw, syn_comm_kind comm, uint64_t bytes, const int32_t *ranks,
                  uint32_t n_ranks, syn_hw_extrapolation out[SYN_HW_EXTENTS]) {
    const syn_graph_group group = {.id = 1, .name = "tp0", .ranks = ranks, .n_ranks = n_ranks};
    const syn_node node = {
        .kind = SYN_NODE_COLLECTIVE, .op = "x", .comm = comm, .group = 1, .comm_bytes = bytes};
    return syn_hardware_extrapolated(hw, &node, &group, out);
}

static void extrapolation_is_reported(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    syn_hw_extrapolation out[SYN_HW_EXTENTS];
    syn_hardware hw;
    load(&hw, toy);
    /* Without ranges, no time is extrapolated. */
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_REDUCE, 1, ranks, 16, out), 0);
    load_fitted(&hw, "{\"all_reduce\":{\"ranks\":[4,8],\"nodes\":[1,2],\"bytes\":[100,200]}}",
                "{\"all_reduce\":{\"ranks\":[2,2]},\"products\":{\"rows\":[16,64]}}");
    /* Within the stack's range. */
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_REDUCE, 150, ranks, 2, out), 0);
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_REDUCE, 200, ranks, 8, out), 0);
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_REDUCE, 201, ranks, 16, out), 2);
    CHECK(strcmp(out[0].what, "all_reduce") == 0 && out[0].extent == SYN_HW_EXTENT_RANKS);
    CHECK(out[0].value == 16 && out[0].fitted.least == 2 && out[0].fitted.most == 8);
    CHECK(out[1].extent == SYN_HW_EXTENT_BYTES && out[1].value == 201);
    static const int32_t far[] = {0, 4, 8};
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_REDUCE, 150, far, 3, out), 1);
    CHECK(out[0].extent == SYN_HW_EXTENT_NODES && out[0].value == 3);
    CHECK_INT(beyond(&hw, SYN_COMM_ALL_TO_ALL, 150, ranks, 4, out), 1);
    CHECK(out[0].extent == SYN_HW_EXTENTS && strcmp(out[0].what, "all_to_all") == 0);
    syn_node product = {.kind = SYN_NODE_COMPUTE,
                        .category = SYN_CATEGORY_MATMUL,
                        .op = "linear",
                        .extents = {.batch = 1, .rows = 65, .columns = 1000, .inner = 1000}};
    CHECK_INT(syn_hardware_extrapolated(&hw, &product, NULL, out), 1);
    CHECK(out[0].extent == SYN_HW_EXTENT_ROWS && out[0].value == 65 && out[0].fitted.most == 64);
    syn_hardware_fitted_to(&hw.stack.fitted, &hw, &product, NULL);
    CHECK_INT(syn_hardware_extrapolated(&hw, &product, NULL, out), 0);
    product.extents.rows = 15;
    CHECK_INT(syn_hardware_extrapolated(&hw, &product, NULL, out), 1);
}

static void refuses_ranges(void) {
    static const struct {
        const char *fitted, *says;
    } bad[] = {
        {"{\"all_reduces\":{}}", "names \"all_reduces\", which is not a kind of work"},
        {"{\"all_reduce\":{\"gpus\":[1,2]}}", "a range of \"gpus\", which is not an extent"},
        {"{\"all_reduce\":{\"ranks\":[3,2]}}", "must be [least, most]"},
        {"{\"all_reduce\":{\"ranks\":[3]}}", "ranks\" must be a number"},
        {"{\"all_reduce\":{\"ranks\":[1,2,3]}}", "must be [least, most]"},
        {"{\"all_reduce\":{},\"all_reduce\":{}}", "appears twice"},
        {"[]", "must be an object of ranges"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        static char json[4096];
        syn_hardware hw;
        syn_error err = {0};
        const char *from = strstr(toy, ",\n  \"simple\"");
        snprintf(json, sizeof json, "%.*s,\"fitted\":%s%s", (int)(from - toy), toy, bad[i].fitted,
                 from);
        CHECK_INT(syn_hardware_parse(&hw, "hw.json", json, strlen(json), &err), SYN_E_FORMAT);
        CHECK_HAS(err.text, bad[i].says);
    }
}

/* Links without alpha are allowed only with a collective library. */
static void refuses_half_a_link(void) {
    static char json[2048];
    syn_hardware hw;
    syn_error err = {0};
    const char *from = strstr(toy, " \"collectives\""), *to = strstr(toy, " \"stack\"");
    snprintf(json, sizeof json, "%.*s%s", (int)(from - toy), toy, to);
    CHECK_INT(syn_hardware_parse(&hw, "hw.json", json, strlen(json), &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "\"hardware.intra\" lacks \"alpha_us\"");
}

/* A library orders its rings by the machine's topology, so the order of the ranks in a group has no
   effect on the time. */
static void order_of_ranks(void) {
    static const int32_t orders[][8] = {{0, 1, 4, 5, 8, 9, 12, 13},
                                        {0, 4, 8, 12, 1, 5, 9, 13},
                                        {13, 0, 12, 1, 9, 4, 8, 5},
                                        {0, 4, 12, 8, 9, 13, 5, 1}};
    static const syn_comm_kind kinds[] = {SYN_COMM_ALL_REDUCE, SYN_COMM_ALL_GATHER,
                                          SYN_COMM_ALL_TO_ALL};
    for (const char *const *machine = syn_hardware_presets(); *machine != NULL; machine++)
        for (int kind = 0; kind < 3; kind++)
            for (uint64_t bytes = 1024; bytes <= 1073741824; bytes *= 1024) {
                syn_hardware hw;
                syn_error err = {0};
                CHECK_OK(syn_hardware_load(&hw, *machine, NULL, &err), err);
                const double ns = collective_ns(&hw, kinds[kind], bytes, orders[0], 8);
                for (int i = 1; i < 4; i++)
                    CHECK_NEAR(collective_ns(&hw, kinds[kind], bytes, orders[i], 8), ns, 1e-6);
            }
}

static const test_case cases[] = {
    {"products_come_in_tiles", products_come_in_tiles},
    {"kernels_move_more_bytes", kernels_move_more_bytes},
    {"layers_compute_in_fp8", layers_compute_in_fp8},
    {"products_hide_collectives", products_hide_collectives},
    {"attention_moves_its_scores", attention_moves_its_scores},
    {"attention_in_separate_ops", attention_in_separate_ops},
    {"stacks_fuse_and_wait", stacks_fuse_and_wait},
    {"the_fastest_protocol_is_taken", the_fastest_protocol_is_taken},
    {"latency_follows_the_route", latency_follows_the_route},
    {"all_reduces_grow_with_the_logarithm", all_reduces_grow_with_the_logarithm},
    {"extrapolation_is_reported", extrapolation_is_reported},
    {"refuses_ranges", refuses_ranges},
    {"refuses_half_a_link", refuses_half_a_link},
    {"order_of_ranks", order_of_ranks},
};

TEST_MAIN(cases)
