/* Tests predicted times for machines with multiprocessors, stacks that fuse ops, and a collective
   library. With a file of round numbers, they must equal times computed manually; for the presets,
   they must be close to published NCCL measurements. */
#include <stdlib.h>

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
                  .extents = {1, 256, 1280, 1000}};
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.extents.rows = 129; /* 129 rows need the same number of tiles */
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.extents.rows = 3; /* one row of tiles, with 16 rows instead of 128 */
    CHECK_NEAR(toy_ns(&n), 1.5 * tile / 8 + 1000, 1e-6);
    n.extents = (syn_extents){2, 128, 1280, 1000}; /* two products run concurrently */
    CHECK_NEAR(toy_ns(&n), 2.5 * tile + 1000, 1e-6);
    n.dtype = SYN_F32;
    CHECK_NEAR(toy_ns(&n), 25 * tile + 1000, 1e-6);
    n.extents = (syn_extents){1, 1, 1280, 1000}; /* without tensor cores, tiles may have one row */
    CHECK_NEAR(toy_ns(&n), 15 * tile / 128 + 1000, 1e-6);
    n.extents = (syn_extents){2, 128, 1280, 1000};
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
                  .extents = {1, 256, 1280, 1000}};
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
    n.extents = (syn_extents){2, 128, 1280, 1000}; /* of attention */
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
                  .extents = {8, 100, 100, 25}};
    CHECK_NEAR(toy_ns(&n), 3200 + 8000 + 5000, 1e-6);
    /* A batch that is not a multiple of 4 takes 7 more kernels. Launching the 12 kernels takes
       longer than running them. */
    n.extents.batch = 6;
    CHECK_NEAR(toy_ns(&n), 12 * 3000, 1e-6);
    /* With one query per head there is one kernel, which does not store scores. */
    n.extents = (syn_extents){8, 1, 100, 25};
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
                  .extents = {8, 100, 100, 0}};
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

static double collective_ns(const syn_hardware *hw, syn_comm_kind comm, uint64_t bytes,
                            const int32_t *ranks, uint32_t n_ranks) {
    const syn_graph_group group = {.id = 1, .name = "tp0", .ranks = ranks, .n_ranks = n_ranks};
    const syn_node node = {.kind = SYN_NODE_COLLECTIVE,
                           .category = SYN_CATEGORY_COMMUNICATION,
                           .op = syn_comm_kind_name(comm),
                           .comm = comm,
                           .group = 1,
                           .comm_bytes = bytes};
    return syn_hardware_predict_ns(hw, &node, &group, ranks[0]);
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
                        .extents = {1, 65, 1000, 1000}};
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

/* NCCL's all-reduce in place on 2 to 8 A100 of one node, in microseconds for 1, 4, 16, 64 and 256
   MiB and 1 GiB. The times were published with vTrain (data/ of VIA-Research/vTrain). */
static void nccl_all_reduce_on_a100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        uint32_t gpus;
        double us[6];
    } measured[] = {{2, {45.1, 60.3, 129.4, 404, 1454, 5453}},
                    {3, {63.5, 78.2, 151.2, 499, 1786, 6761}},
                    {4, {52.7, 75.8, 177.8, 541, 1928, 7276}},
                    {6, {73.7, 80.1, 198.9, 560, 2117, 7888}},
                    {8, {92.2, 94.0, 231, 580, 2158, 8196}}};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    double sum = 0;
    for (size_t i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++) {
            const uint64_t bytes = (uint64_t)1 << (20 + 2 * j);
            const double ns =
                collective_ns(&hw, SYN_COMM_ALL_REDUCE, bytes, ranks, measured[i].gpus);
            const double off = fabs(ns / (measured[i].us[j] * 1e3) - 1);
            CHECK_MSG(off <= 0.5, "%u GPUs, %llu bytes: %g, measured %g us", measured[i].gpus,
                      (unsigned long long)bytes, ns / 1e3, measured[i].us[j]);
            sum += off;
        }
    CHECK_MSG(sum / 30 <= 0.08, "%g", sum / 30);
}

/* The in-place all-reduce of nccl-tests on 8 H100 of one node, for sizes from 1 KiB to 1 GiB that
   double each time. The first row is AWS's, in microseconds. The second is Azure's ND H100 v5 in
   GB/s of bus bandwidth, for 1 MiB and more (its AI-benchmarking-guide, NCCL 2.18.5); below 1 MiB,
   Azure takes twice as long as AWS. */
static void nccl_all_reduce_on_h100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double aws[] = {15.61, 15.9,  16.06, 16.2,  16.78,  18.09,  18.26,
                                 18.57, 20.13, 20.96, 28.37, 43.39,  55.0,   83.22,
                                 123.4, 198.3, 326.5, 592.1, 1121.2, 2166.4, 4255.4};
    static const double azure[] = {43.70,  81.93,  128.73, 172.13, 234.45, 295.53,
                                   361.78, 400.61, 423.38, 438.46, 466.35};
    enum { SIZES = sizeof aws / sizeof aws[0], LARGE = sizeof azure / sizeof azure[0] };
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "h100+pytorch-eager", NULL, &err), err);
    double off[2] = {0, 0};
    for (int i = 0; i < SIZES; i++) {
        const uint64_t bytes = (uint64_t)1024 << i;
        const int large = i - (SIZES - LARGE);
        const double ns = collective_ns(&hw, SYN_COMM_ALL_REDUCE, bytes, ranks, 8);
        off[0] += fabs(ns / (aws[i] * 1e3) - 1);
        if (large >= 0) off[1] += fabs(ns / (2.0 * 7 / 8 * (double)bytes / azure[large]) - 1);
    }
    CHECK_MSG(off[0] / SIZES <= 0.05 && off[1] / LARGE <= 0.06, "%g, %g", off[0] / SIZES,
              off[1] / LARGE);
}

/* The same for less than 1 MiB on 8 A100 (40 GB), in microseconds, from the tutorials of Oracle's
   cloud. */
static void small_all_reduces_on_a100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double us[] = {32.17, 32.24, 32.20, 32.14, 32.20,
                                32.20, 34.20, 37.47, 44.01, 57.54};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    double sum = 0;
    for (int i = 0; i < 10; i++)
        sum += fabs(collective_ns(&hw, SYN_COMM_ALL_REDUCE, (uint64_t)1024 << i, ranks, 8) /
                        (us[i] * 1e3) -
                    1);
    CHECK_MSG(sum / 10 <= 0.09, "%g", sum / 10);
}

/* The all-reduce of nccl-tests across nodes, in microseconds. Sources, in the order of the rows: 16
   nodes of 8 A100: CoreWeave (README of its nccl-tests, NCCL 2.16). 32 nodes of 8 A100: issue 652
   of NVIDIA/nccl. 2 nodes of 8 A100: Oracle. 2 nodes of 8 H100: a DGX (three rows) and Oracle (the
   last row). */
static void nccl_all_reduce_across_nodes(void) {
    static int32_t ranks[256];
    static const struct {
        const char *machine;
        uint32_t gpus;
        uint64_t bytes;
        double us, off;
    } measured[] = {
        {"a100-80g+pytorch-eager", 128, 1024, 56.74, 0.1},
        {"a100-80g+pytorch-eager", 128, 65536, 90.06, 0.25},
        {"a100-80g+pytorch-eager", 128, 1048576, 143.4, 0.1},
        {"a100-80g+pytorch-eager", 128, 16777216, 447.8, 0.25},
        {"a100-80g+pytorch-eager", 128, 1073741824, 18266, 0.37}, /* this network is slower */
        {"a100-80g+pytorch-eager", 256, 128, 63.2, 0.1},
        {"a100-80g+pytorch-eager", 16, 1024, 38, 0.1},
        {"h100+pytorch-eager", 16, 1024, 39.56, 0.05},
        {"h100+pytorch-eager", 16, 4096, 40.82, 0.05},
        {"h100+pytorch-eager", 16, 1073741824, 4511.2, 0.05},
        {"h100+pytorch-eager", 16, 8589934592, 34719, 0.05},
    };
    for (int32_t i = 0; i < 256; i++) ranks[i] = i;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, measured[i].machine, NULL, &err), err);
        const double us =
            collective_ns(&hw, SYN_COMM_ALL_REDUCE, measured[i].bytes, ranks, measured[i].gpus) /
            1e3;
        CHECK_MSG(fabs(us / measured[i].us - 1) <= measured[i].off, "%s, %u ranks, %llu bytes: %g",
                  measured[i].machine, measured[i].gpus, (unsigned long long)measured[i].bytes, us);
    }
}

/* Collectives other than all-reduce, with 512 MiB on 2, 4 and 8 GPUs of one node, in microseconds
   (systems/data of ai-dynamo/aiconfigurator, Apache-2.0; NCCL 2.27 and 2.29). */
static void other_collectives_of_a_node(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        const char *machine;
        syn_comm_kind comm;
        double us[3], off;
    } measured[] = {
        {"a100-80g+pytorch-eager", SYN_COMM_ALL_GATHER, {1789.8, 2102.0, 2288.0}, 0.16},
        {"a100-80g+pytorch-eager", SYN_COMM_REDUCE_SCATTER, {1611.8, 1982.3, 2207.1}, 0.06},
        {"a100-80g+pytorch-eager", SYN_COMM_ALL_TO_ALL, {1635.3, 2065.7, 2313.5}, 0.08},
        {"h100+pytorch-eager", SYN_COMM_ALL_GATHER, {1038.6, 1267.5, 1401.5}, 0.1},
        {"h100+pytorch-eager", SYN_COMM_REDUCE_SCATTER, {1077.9, 1299.8, 1399.4}, 0.12},
        {"h100+pytorch-eager", SYN_COMM_ALL_TO_ALL, {958.9, 1397.0, 1490.4}, 0.13},
    };
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, measured[i].machine, NULL, &err), err);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t n = 2u << k;
            const uint64_t whole = (uint64_t)1 << 29,
                           own = measured[i].comm == SYN_COMM_ALL_GATHER ? whole / n : whole;
            const double us = collective_ns(&hw, measured[i].comm, own, ranks, n) / 1e3;
            CHECK_MSG(fabs(us / measured[i].us[k] - 1) <= measured[i].off,
                      "%s, %s of %u: %g us, measured %g", measured[i].machine,
                      syn_comm_kind_name(measured[i].comm), n, us, measured[i].us[k]);
        }
    }
}

/* All-gathers, reduce-scatters and all-to-alls of at least 1 MiB on 2, 4 and 8 GPUs
   (tests/measured): the mean error of each kind on each machine. */
static void collectives_of_one_pass(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const char *const machines[] = {"a100", "h100"};
    static const struct {
        const char *name;
        syn_comm_kind comm;
    } kinds[] = {{"all_gather", SYN_COMM_ALL_GATHER},
                 {"reduce_scatter", SYN_COMM_REDUCE_SCATTER},
                 {"all_to_all", SYN_COMM_ALL_TO_ALL}};
    for (int m = 0; m < 2; m++) {
        syn_hardware hw;
        syn_error err = {0};
        char path[4200], kind[32], line[256];
        double sums[3] = {0}, ns;
        unsigned long long bytes;
        unsigned gpus;
        int n[3] = {0};
        snprintf(path, sizeof path, "%s/tests/measured/collectives_%s.csv", getenv("SYN_SOURCE"),
                 machines[m]);
        FILE *f = fopen(path, "r");
        CHECK(f != NULL);
        CHECK_OK(syn_hardware_load(&hw, m == 0 ? "a100-80g+pytorch-eager" : "h100+pytorch-eager",
                                   NULL, &err),
                 err);
        while (f && fgets(line, sizeof line, f)) {
            if (sscanf(line, "%31[^,],%u,%llu,%lf", kind, &gpus, &bytes, &ns) != 4) continue;
            for (int k = 0; k < 3 && bytes >= 1 << 20; k++) {
                if (strcmp(kind, kinds[k].name) != 0) continue;
                const bool gathers = kinds[k].comm == SYN_COMM_ALL_GATHER;
                const double ours =
                    collective_ns(&hw, kinds[k].comm, gathers ? bytes / gpus : bytes, ranks, gpus);
                sums[k] += fabs(ours / ns - 1);
                n[k]++;
            }
        }
        if (f) fclose(f);
        for (int k = 0; k < 3; k++)
            CHECK_MSG(n[k] >= 12 && sums[k] / n[k] < 0.09, "%s, %s: %d rows, mean error %g",
                      machines[m], kinds[k].name, n[k], sums[k] / n[k]);
    }
}

/* An all-to-all of 4 GiB over two nodes of 8 A100, each with four cards of 200 Gb/s, runs at 19.83
   GB/s (issue 1138 of NVIDIA/nccl): each rank sends 15/16 of its buffer in 203 ms. Half of a rank's
   data goes to the other node, at 12.5 GB/s per rank. */
static void all_to_all_across_nodes(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const double ms = 15.0 / 16 * 4294967296.0 / 19.83e9 * 1e3;
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    hw.inter.bytes_per_ns = 100;
    const double is = collective_ns(&hw, SYN_COMM_ALL_TO_ALL, 4294967296, ranks, 16) / 1e6;
    CHECK_MSG(fabs(is / ms - 1) < 0.12, "%g ms, measured %g", is, ms);
    /* In a gather, one rank receives everything. All data of the other node arrives over this
       rank's link. */
    const double one = collective_ns(&hw, SYN_COMM_GATHER, 268435456, ranks, 16) / 1e6;
    CHECK_MSG(one > 8 * 0.268 / 12.5 * 1e3 && one < 1.2 * 8 * 0.268 / 12.5 * 1e3, "%g ms", one);
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

/* Microseconds on a node of 8 V100 with direct links and no switch (konnase.github.io, 2019). The
   last value is from another machine (BM.GPU3.8, from a tutorial of Oracle's cloud). */
static void nccl_all_reduce_on_v100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        uint64_t bytes;
        double us;
    } measured[] = {{1024, 48.88},     {32768, 51.06},      {1048576, 89.27},
                    {16777216, 324.1}, {134217728, 1818.8}, {1073741824, 13867}};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "v100-32g+pytorch-eager", NULL, &err), err);
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const double us =
            collective_ns(&hw, SYN_COMM_ALL_REDUCE, measured[i].bytes, ranks, 8) / 1e3;
        CHECK_MSG(fabs(us / measured[i].us - 1) <= 0.05, "%llu bytes: %g us, measured %g",
                  (unsigned long long)measured[i].bytes, us, measured[i].us);
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
    {"nccl_all_reduce_on_a100", nccl_all_reduce_on_a100},
    {"nccl_all_reduce_on_h100", nccl_all_reduce_on_h100},
    {"small_all_reduces_on_a100", small_all_reduces_on_a100},
    {"nccl_all_reduce_across_nodes", nccl_all_reduce_across_nodes},
    {"other_collectives_of_a_node", other_collectives_of_a_node},
    {"collectives_of_one_pass", collectives_of_one_pass},
    {"all_to_all_across_nodes", all_to_all_across_nodes},
    {"order_of_ranks", order_of_ranks},
    {"nccl_all_reduce_on_v100", nccl_all_reduce_on_v100},
};

TEST_MAIN(cases)
