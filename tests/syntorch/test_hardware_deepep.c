/* Compares predicted times of DeepEP's all-to-alls with measured ones, and the mean number of ranks
   that tokens reach with closed formulas. */
#include <math.h>
#include <stdlib.h>

#include "syntorch/base/expert_choice.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/test.h"

#define EXPERTS 256
#define CHOSEN  8
#define HIDDEN  7168

/* The time of a dispatch in FP8, or of a combine in bf16, of `tokens` tokens per rank on nodes of 8
   ranks. DeepEP's measurement chooses the experts of a token from four nodes at most. */
static double deepep_us(const syn_hardware *hw, int64_t nodes, int64_t tokens, bool combine) {
    int32_t ranks[8 * 64];
    const int64_t n = 8 * nodes, groups = nodes > 4 ? nodes : 1, top = nodes > 4 ? 4 : 1;
    const syn_expert_choice choice = {EXPERTS, CHOSEN, groups, top};
    const syn_attribute attributes[] = {{.name = "experts", .type = SYN_VALUE_I64, .i64 = EXPERTS},
                                        {.name = "k", .type = SYN_VALUE_I64, .i64 = CHOSEN},
                                        {.name = "groups", .type = SYN_VALUE_I64, .i64 = groups},
                                        {.name = "top_groups", .type = SYN_VALUE_I64, .i64 = top},
                                        {.name = "combine", .type = SYN_VALUE_I64, .i64 = combine}};
    const double copies = (double)(tokens * n) * syn_expert_reach(&choice, n),
                 row = combine ? 2 * HIDDEN : HIDDEN + 4 * HIDDEN / 128;
    for (int32_t i = 0; i < n; i++) ranks[i] = i;
    const syn_graph_group group = {.id = 1, .name = "ep0", .ranks = ranks, .n_ranks = (uint32_t)n};
    const syn_node node = {.kind = SYN_NODE_COLLECTIVE,
                           .category = SYN_CATEGORY_COMMUNICATION,
                           .op = "deepep_all_to_all",
                           .comm = SYN_COMM_ALL_TO_ALL,
                           .group = 1,
                           .comm_bytes = (uint64_t)(copies * row),
                           .attributes = attributes,
                           .n_attributes = sizeof attributes / sizeof *attributes};
    return syn_hardware_predict_ns(hw, &node, &group, 0) / 1e3;
}

static void measured_on_h100(void) {
    char path[4200], version[32], line[256];
    double dispatch, combine;
    long long nodes, tokens;
    int n = 0;
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "h100+megatron-core", NULL, &err), err);
    snprintf(path, sizeof path, "%s/tests/measured/deepep_h100.csv", getenv("SYN_SOURCE"));
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%31[^,],%lld,%lld,%lf,%lf", version, &nodes, &tokens, &dispatch,
                   &combine) != 5)
            continue;
        const double sent = deepep_us(&hw, nodes, tokens, false),
                     back = deepep_us(&hw, nodes, tokens, true);
        CHECK_MSG(fabs(sent / dispatch - 1) < 0.15 && fabs(back / combine - 1) < 0.15,
                  "%lld nodes, %lld tokens: %g and %g us, measured %g and %g", nodes, tokens, sent,
                  back, dispatch, combine);
        n++;
    }
    if (f) fclose(f);
    CHECK_MSG(n >= 40, "%d rows", n);
}

/* H800: DeepEP's documentation has 153 GB/s within a node of H800, whose links have 200 GB/s, for
   the copies of 4,096 tokens. More nodes take longer. */
static void other_machines(void) {
    syn_hardware h800, h100;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&h800, "h800+megatron-core", NULL, &err), err);
    CHECK_OK(syn_hardware_load(&h100, "h100+megatron-core", NULL, &err), err);
    const syn_expert_choice choice = {EXPERTS, CHOSEN, 1, 1};
    const double us = deepep_us(&h800, 1, 4096, true),
                 bytes = 4096 * 8 * syn_expert_reach(&choice, 8) * 2 * HIDDEN;
    CHECK_MSG(fabs(bytes / us / 1e3 / 158 - 1) < 0.15, "%g GB/s", bytes / us / 1e3);
    for (int64_t nodes = 2; nodes < 64; nodes++)
        CHECK_MSG(deepep_us(&h100, nodes + 1, 4096, false) > deepep_us(&h100, nodes, 4096, false),
                  "%lld nodes", (long long)nodes);
}

/* With 256 experts and k = 8, tokens reach 5.29 of 8 ranks, 7.27 of 32 and 7.68 of 64. */
static void reached_ranks(void) {
    const syn_expert_choice free = {256, 8, 1, 1}, limited = {256, 8, 8, 4}, all = {8, 8, 1, 1};
    CHECK(fabs(8 * syn_expert_reach(&free, 8) - 5.29) < 0.005);
    CHECK(fabs(32 * syn_expert_reach(&free, 32) - 7.27) < 0.005);
    CHECK(fabs(64 * syn_expert_reach(&free, 64) - 7.68) < 0.005);
    CHECK(fabs(8 * syn_expert_reach(&all, 8) - 8) < 1e-9);
    /* Four of eight groups, which are nodes: 4 (1 - C(96, 8) / C(128, 8)) of them. */
    double none = 1;
    for (int i = 0; i < 8; i++) none *= (96.0 - i) / (128 - i);
    CHECK(fabs(8 * syn_expert_reach(&limited, 8) - 4 * (1 - none)) < 1e-9);
    /* Each of 2 parts has 4 groups: it is missed if all chosen groups are those of the other. */
    const double missed = 1 - syn_expert_reach(&limited, 2);
    CHECK_MSG(missed > 1.0 / 70 && missed < 0.1, "%g", missed);
    for (int64_t parts = 1; parts <= 256; parts *= 2)
        CHECK((double)parts * syn_expert_reach(&limited, parts) <= 8 + 1e-9 &&
              syn_expert_reach(&limited, parts) <= 1 + 1e-9);
}

/* Of 128 experts, 16 random rows reach 128 (1 - (127 / 128)^16) = 15.1. */
static void used_experts(void) {
    CHECK_INT(syn_experts_used(128, 0), 0);
    CHECK_INT(syn_experts_used(128, 1), 1);
    CHECK_INT(syn_experts_used(128, 16), 15);
    CHECK_INT(syn_experts_used(128, 128), 81);
    CHECK_INT(syn_experts_used(128, 100000), 128);
    CHECK_INT(syn_experts_used(1, 1), 1);
    CHECK_INT(syn_experts_used(0, 1), 0);
}

static const test_case cases[] = {
    {"measured_on_h100", measured_on_h100},
    {"other_machines", other_machines},
    {"reached_ranks", reached_ranks},
    {"used_experts", used_experts},
};

TEST_MAIN(cases)
