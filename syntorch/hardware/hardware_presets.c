/* The constants of the built-in machines. docs/hardware.md gives the source of every
   number. */
#include "syntorch/hardware/hardware_presets.h"

const char *const syn__hardware_preset_names[SYN__HARDWARE_PRESETS + 1] = {
    "a100-80g", "h100",   "h200",       "h800",    "b200",     "b300", "gb200",
    "gb300",    "mi300x", "rtxpro6000", "rtx4090", "v100-32g", "cpu",  NULL};
/* ---- Collective library ---- */

/* post_ns and ring_hop_ns are from NCCL's own model (src/graph/tuning.cc). */
#define LL_RING     .post_ns = US(1), .ring_hop_ns = US(2.7)
#define LL128_RING  .post_ns = US(1), .ring_hop_ns = US(4)
#define SIMPLE_RING .post_ns = US(3), .ring_hop_ns = US(14)
#define NCCL_SIMPLE(base_us, step_us)                                                             \
    .base_ns = US(base_us), .step_ns = US(step_us), .hop_ns = US(7), .network_efficiency = 0.945, \
    .network_fill_ns = US(205), SIMPLE_RING

/* base, step and fill in microseconds; link: link_efficiency, 0: that of all collectives */
#define ONE_PASS(base_us, step_us, link, fill_us) \
    { US(base_us), US(step_us), link, US(fill_us) }
#define NCCL                                                                                \
    {                                                                                       \
        .name = "nccl",                                                                     \
        .protocols = {[SYN_PROTOCOL_LL] = {.base_ns = US(7.8),                              \
                                           .step_ns = US(1.6),                              \
                                           .hop_ns = US(3.7),                               \
                                           LL_RING,                                         \
                                           .link_efficiency = 1,                            \
                                           .bytes_per_ns = GB_PER_S(15),                    \
                                           .network_efficiency = 0.014,                     \
                                           .one_pass = ONE_PASS(9.6, 0.75, 0, 0)},          \
                      [SYN_PROTOCOL_LL128] = {.base_ns = US(37.7),                          \
                                              .hop_ns = US(10),                             \
                                              LL128_RING,                                   \
                                              .link_efficiency = 0.528,                     \
                                              .network_efficiency = 0.4,                    \
                                              .one_pass = ONE_PASS(12.6, 0.31, 0.25, 0)},   \
                      [SYN_PROTOCOL_SIMPLE] = {NCCL_SIMPLE(35, 4.25), .link_efficiency = 1, \
                                               .copy_efficiency = 0.254,                    \
                                               .one_pass = ONE_PASS(20, 0.1, 0, 52.5)}},    \
        .fitted = {                                                                         \
            {COLLECTIVES("all_reduce", 2, 128, 16, 1024, MIB(1024)),                        \
             COLLECTIVES("all_gather", 2, 8, 1, 512, MIB(512)),                             \
             COLLECTIVES("reduce_scatter", 2, 8, 1, 512, MIB(512)),                         \
             COLLECTIVES("all_to_all", 2, 8, 1, 512, MIB(512))},                            \
            4                                                                               \
        }                                                                                   \
    }
#define NCCL_WITH_SWITCH                                                             \
    {                                                                                \
        .name = "nccl",                                                              \
        .protocols = {[SYN_PROTOCOL_LL] = {.base_ns = US(5.2),                       \
                                           .step_ns = US(0.8),                       \
                                           .hop_ns = US(12),                         \
                                           LL_RING,                                  \
                                           .link_efficiency = 1,                     \
                                           .bytes_per_ns = GB_PER_S(126),            \
                                           .network_efficiency = 0.025,              \
                                           .one_pass = ONE_PASS(5.6, 0.7, 0, 0)},    \
                      [SYN_PROTOCOL_LL128] = {.base_ns = US(38),                     \
                                              .hop_ns = US(2),                       \
                                              LL128_RING,                            \
                                              .link_efficiency = 0.528,              \
                                              .network_efficiency = 0.076,           \
                                              .one_pass = ONE_PASS(11, 0, 0.43, 0)}, \
                      [SYN_PROTOCOL_SIMPLE] = {.base_ns = US(14.4),                  \
                                               .step_ns = US(1.9),                   \
                                               .hop_ns = US(14),                     \
                                               SIMPLE_RING,                          \
                                               .link_efficiency = 1,                 \
                                               .copy_efficiency = 0.211,             \
                                               .network_efficiency = 0.945,          \
                                               .network_fill_ns = US(205),           \
                                               .one_pass = ONE_PASS(16, 0, 0, 7.1)}, \
                      [SYN_PROTOCOL_SWITCH] = {.base_ns = US(27.3),                  \
                                               .hop_ns = US(30),                     \
                                               .link_efficiency = 0.573,             \
                                               .fill_ns = US(52.8),                  \
                                               .network_efficiency = 0.945,          \
                                               .network_fill_ns = US(162.5)}},       \
        .fitted = {                                                                  \
            {COLLECTIVES("all_reduce", 2, 64, 8, 512, MIB(8192)),                    \
             COLLECTIVES("all_gather", 2, 8, 1, 512, MIB(512)),                      \
             COLLECTIVES("reduce_scatter", 2, 8, 1, 512, MIB(512)),                  \
             COLLECTIVES("all_to_all", 2, 8, 1, 512, MIB(512))},                     \
            4                                                                        \
        }                                                                            \
    }
#define NCCL_VOLTA                                                                             \
    {                                                                                          \
        .name = "nccl",                                                                        \
        .protocols = {[SYN_PROTOCOL_LL] = {.base_ns = US(29),                                  \
                                           .step_ns = US(1.46),                                \
                                           .hop_ns = US(3.7),                                  \
                                           LL_RING,                                            \
                                           .link_efficiency = 1,                               \
                                           .bytes_per_ns = GB_PER_S(51),                       \
                                           .network_efficiency = 0.056},                       \
                      [SYN_PROTOCOL_SIMPLE] = {NCCL_SIMPLE(5, 4.85), .link_efficiency = 0.888, \
                                               .fill_ns = US(37)}},                            \
        .fitted = {                                                                            \
            {COLLECTIVES("all_reduce", 8, 12, 1, 1024, MIB(1024))},                            \
            1                                                                                  \
        }                                                                                      \
    }

/* Without NVLink, over PCIe. `ll` stands for vLLM's own all-reduce of two ranks; collectives of one
   pass have only `simple`, whose constants they get there. */
#define NCCL_PCIE                                                                                  \
    {                                                                                              \
        .name = "nccl",                                                                            \
        .protocols = {[SYN_PROTOCOL_LL] = {.base_ns = US(5),                                       \
                                           .step_ns = US(2.5),                                     \
                                           .hop_ns = US(7),                                        \
                                           LL_RING,                                                \
                                           .link_efficiency = 0.49,                                \
                                           .network_efficiency = 0.945,                            \
                                           .one_pass = ONE_PASS(14.3, 4.25, 0, 0)},                \
                      [SYN_PROTOCOL_SIMPLE] = {NCCL_SIMPLE(14.3, 4.25), .link_efficiency = 0.49}}, \
        .fitted = {                                                                                \
            {COLLECTIVES("all_gather", 2, 2, 1, 8192, MIB(16)),                                    \
             COLLECTIVES("reduce_scatter", 2, 2, 1, 8192, MIB(16))},                               \
            2                                                                                      \
        }                                                                                          \
    }

/* ---- Machines ---- */

/* The rates of GPUs that several machines have. */
#define HOPPER                                                                             \
    .peak_flops_per_ns =                                                                   \
        {[SYN_F32] = TFLOPS(66.9), [SYN_F16] = TFLOPS(989.4), [SYN_BF16] = TFLOPS(989.4)}, \
    .fp8_flops_per_ns = TFLOPS(1978.9), .multiprocessors = 132
#define BLACKWELL                                                                      \
    .peak_flops_per_ns =                                                               \
        {[SYN_F32] = TFLOPS(75), [SYN_F16] = TFLOPS(2250), [SYN_BF16] = TFLOPS(2250)}, \
    .fp8_flops_per_ns = TFLOPS(4500), .multiprocessors = 148
#define GRACE_BLACKWELL                                                                \
    .peak_flops_per_ns =                                                               \
        {[SYN_F32] = TFLOPS(80), [SYN_F16] = TFLOPS(2500), [SYN_BF16] = TFLOPS(2500)}, \
    .fp8_flops_per_ns = TFLOPS(5000), .multiprocessors = 152

const syn_hardware syn__hardware_presets[SYN__HARDWARE_PRESETS] = {
    {
        .name = "a100-80g",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(19.5), [SYN_F16] = TFLOPS(312), [SYN_BF16] = TFLOPS(312)},
        .multiprocessors = 108,
        .memory_bytes = GIB(80),
        .memory_bytes_per_ns = GB_PER_S(2039),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(300)},
        .inter = {.bytes_per_ns = GB_PER_S(200)},
        .collectives = NCCL,
    },
    {
        .name = "h100",
        HOPPER,
        .memory_bytes = GIB(80),
        .memory_bytes_per_ns = GB_PER_S(3350),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(450)},
        .inter = {.bytes_per_ns = GB_PER_S(400)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "h200",
        HOPPER,
        .memory_bytes = GIB(140),
        .memory_bytes_per_ns = GB_PER_S(4800),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(450)},
        .inter = {.bytes_per_ns = GB_PER_S(400)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "h800",
        HOPPER,
        .memory_bytes = GIB(80),
        .memory_bytes_per_ns = GB_PER_S(3350),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(200)},
        .inter = {.bytes_per_ns = GB_PER_S(400)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "b200",
        BLACKWELL,
        .memory_bytes = GIB(180),
        .memory_bytes_per_ns = GB_PER_S(7700),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(900)},
        .inter = {.bytes_per_ns = GB_PER_S(400)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "b300",
        BLACKWELL,
        .memory_bytes = GIB(268),
        .memory_bytes_per_ns = GB_PER_S(7700),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(900)},
        .inter = {.bytes_per_ns = GB_PER_S(800)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "gb200",
        GRACE_BLACKWELL,
        .memory_bytes = GIB(185),
        .memory_bytes_per_ns = GB_PER_S(8000),
        .node_ranks = 72,
        .intra = {.bytes_per_ns = GB_PER_S(900)},
        .inter = {.bytes_per_ns = GB_PER_S(3600)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "gb300",
        GRACE_BLACKWELL,
        .memory_bytes = GIB(277),
        .memory_bytes_per_ns = GB_PER_S(8000),
        .node_ranks = 72,
        .intra = {.bytes_per_ns = GB_PER_S(900)},
        .inter = {.bytes_per_ns = GB_PER_S(7200)},
        .collectives = NCCL_WITH_SWITCH,
    },
    {
        .name = "mi300x",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(163.4), [SYN_F16] = TFLOPS(1307.4), [SYN_BF16] = TFLOPS(1307.4)},
        .fp8_flops_per_ns = TFLOPS(2614.9),
        .multiprocessors = 304,
        .memory_bytes = GIB(192),
        .memory_bytes_per_ns = GB_PER_S(5300),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(448), .topology = SYN_TOPOLOGY_FULLY_CONNECTED},
        .inter = {.bytes_per_ns = GB_PER_S(400)},
        .collectives = NCCL,
    },
    {
        .name = "rtxpro6000",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(120), [SYN_F16] = TFLOPS(503.8), [SYN_BF16] = TFLOPS(503.8)},
        .fp8_flops_per_ns = TFLOPS(1007.6),
        .multiprocessors = 188,
        .memory_bytes = GIB(95),
        .memory_bytes_per_ns = GB_PER_S(1597),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(64)},
        .collectives = NCCL_PCIE,
    },
    {
        .name = "rtx4090",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(82.6), [SYN_F16] = TFLOPS(165.2), [SYN_BF16] = TFLOPS(165.2)},
        .fp8_flops_per_ns = TFLOPS(330.3),
        .multiprocessors = 128,
        .memory_bytes = GIB(23.65),
        .memory_bytes_per_ns = GB_PER_S(1008),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(32)},
        .collectives = NCCL_PCIE,
    },
    {
        .name = "v100-32g",
        .peak_flops_per_ns = {[SYN_F32] = TFLOPS(15.7), [SYN_F16] = TFLOPS(125)},
        .multiprocessors = 80,
        .memory_bytes = GIB(32),
        .memory_bytes_per_ns = GB_PER_S(900),
        .node_ranks = 8,
        .intra = {.bytes_per_ns = GB_PER_S(150), .topology = SYN_TOPOLOGY_FULLY_CONNECTED},
        .inter = {.bytes_per_ns = GB_PER_S(50)},
        .collectives = NCCL_VOLTA,
    },
    {
        .name = "cpu",
        .peak_flops_per_ns = {[SYN_F32] = TFLOPS(0.496)},
        .memory_bytes = GIB(16),
        .memory_bytes_per_ns = GB_PER_S(84),
        .node_ranks = 2,
        .intra = {US(0.2), GB_PER_S(12.5), SYN_TOPOLOGY_FULLY_CONNECTED},
        .inter = {US(0.2), GB_PER_S(12.5), SYN_TOPOLOGY_FULLY_CONNECTED},
        .stack = {.name = "syntorch",
                  .launch_ns = US(2),
                  .matmul_efficiency = 0.95,
                  .matmul_half_flops = 1e6,
                  .memory_efficiency = 0.7,
                  .fitted = {{COLLECTIVES("all_reduce", 2, 2, 1, 4096, MIB(1)),
                              {"products", {[SYN_HW_EXTENT_ROWS] = {1, 2048}}}},
                             2}},
    },
};
