/* The constants of the built-in machines and stacks. docs/hardware.md gives the source of every
   number. */
#include "syntorch/hardware/hardware_presets.h"

const char *const syn__hardware_preset_names[SYN__HARDWARE_PRESETS + 1] = {
    "a100-80g", "h100",  "h200",   "h800",     "b200", "b300",
    "gb200",    "gb300", "mi300x", "v100-32g", "cpu",  NULL};
const char *const syn__stack_preset_names[SYN__STACK_PRESETS + 1] = {
    "pytorch-eager", "megatron", "serving", "fsdp", "fsdp-eager", "megatron-core", NULL};

/* Convert units of data sheets to those of the structs. */
#define TFLOPS(x)   ((x)*1e3)
#define GIB(x)      ((x)*1073741824.0)
#define GB_PER_S(x) (x)
#define US(x)       ((x)*1e3)

/* The ranges to which constants were fitted, as `syntorch calibrate --output` computes them from
   tests/measured. */
#define COLLECTIVES(kind, least_ranks, most_ranks, most_nodes, least_bytes, most_bytes) \
    {                                                                                   \
        kind, {                                                                         \
            [SYN_HW_EXTENT_RANKS] = {least_ranks, most_ranks},                          \
            [SYN_HW_EXTENT_NODES] = {1, most_nodes}, [SYN_HW_EXTENT_BYTES] = {          \
                least_bytes,                                                            \
                most_bytes                                                              \
            }                                                                           \
        }                                                                               \
    }
#define PRODUCTS(least_rows, most_rows, least_columns, most_columns, least_inner, most_inner)  \
    {                                                                                          \
        "products", {                                                                          \
            [SYN_HW_EXTENT_ROWS] = {least_rows, most_rows},                                    \
            [SYN_HW_EXTENT_COLUMNS] = {least_columns, most_columns}, [SYN_HW_EXTENT_INNER] = { \
                least_inner,                                                                   \
                most_inner                                                                     \
            }                                                                                  \
        }                                                                                      \
    }
#define ATTENTION(most_queries, least_keys, most_keys)                            \
    {                                                                             \
        "attention", {                                                            \
            [SYN_HW_EXTENT_QUERIES] = {1, most_queries}, [SYN_HW_EXTENT_KEYS] = { \
                least_keys,                                                       \
                most_keys                                                         \
            }                                                                     \
        }                                                                         \
    }
#define MIB(x) ((x)*1048576.0)

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

/* ---- Stacks ---- */

/* the ranges of training and inference together */
#define MEGATRON_WORK PRODUCTS(1, 51200, 128, 51200, 128, 51200), ATTENTION(1024, 128, 1024)

/* PyTorch 2 with FSDP, mixed precision in bf16 and FlashAttention 2. */
#define FSDP_STACK(title, products, attention, vectors, kernel_us)                                \
    .name = title, .launch_ns = US(5), .kernel_ns = US(kernel_us), .matmul_efficiency = products, \
    .matmul_tail = 0.02, .attention_efficiency = attention, .memory_efficiency = 0.85,            \
    .vector_efficiency = vectors,                                                                 \
    .fitted = {{PRODUCTS(16384, 131072, 768, 50432, 768, 50432), ATTENTION(65536, 512, 65536),    \
                COLLECTIVES("all_gather", 8, 512, 64, 1048576, MIB(4096)),                        \
                COLLECTIVES("reduce_scatter", 8, 512, 64, 1048576, MIB(4096))},                   \
               4}
#define FSDP(products, attention, vectors, kernel_us)                             \
    {                                                                             \
        FSDP_STACK("fsdp", products, attention, vectors, kernel_us), .kernels = { \
            {{"scale_mask", 0.5}, {"softmax", 0.5}},                              \
            2                                                                     \
        }                                                                         \
    }
/* The same with models that consist of elementwise ops of PyTorch, without torch.compile. The
   numbers of kernels and the memory traffic are counted from source; see docs/hardware.md. */
#define FSDP_EAGER(products, attention, vectors, kernel_us)                \
    {                                                                      \
        FSDP_STACK("fsdp-eager", products, attention, vectors, kernel_us), \
            .kernels = {{{"scale_mask", 0.5},                              \
                         {"softmax", 0.5},                                 \
                         {"rmsnorm", 8},                                   \
                         {"rmsnorm_grad", 14},                             \
                         {"rope", 3},                                      \
                         {"swiglu", 2},                                    \
                         {"swiglu_grad", 3}},                              \
                        7},                                                \
            .traffic = {                                                   \
                {{"rmsnorm", 9},                                           \
                 {"rmsnorm_grad", 14},                                     \
                 {"rope", 5},                                              \
                 {"swiglu", 1.67},                                         \
                 {"swiglu_grad", 1.8}},                                    \
                5                                                          \
            }                                                              \
    }

const syn_stack syn__stack_presets[SYN__STACK_PRESETS] = {
    {
        .name = "pytorch-eager",
        .launch_ns = US(72),
        .matmul_efficiency = 0.97,
        .matmul_tail = 0.02,
        .attention_efficiency = 0.6,
        .memory_efficiency = 0.85,
        .kernels = {{{"scale_mask", 0.5}, {"softmax", 0.5}}, 2},
        .fitted = {{MEGATRON_WORK}, 2},
    },
    /* Bias, dropout and residual are three ops but one kernel. The softmax kernel processes four
       heads together. */
    {
        .name = "megatron",
        .launch_ns = US(60.3),
        .matmul_efficiency = 0.918,
        .matmul_tail = 0.02,
        .attention_efficiency = 0.6,
        .score_passes = 5.87,
        .score_heads = 4,
        .score_kernels = 5.3,
        .memory_efficiency = 0.85,
        .collective_ns = US(22.6),
        .collective_rank_ns = US(27.4),
        .kernels = {{{"add", 0.224},
                     {"dropout", 0.15},
                     {"accumulate", 0.167},
                     {"kv_append", 0.5},
                     {"attention", 10.2},
                     {"attention_train", 5.24},
                     {"attention_grad", 0.01},
                     {"scale_mask", 0.5},
                     {"softmax", 0.5}},
                    9},
        .overhead = {{{"embedding", US(4040)}}, 1},
        .phases = {[SYN_PHASE_PREFILL] = {.device = 6.68}, [SYN_PHASE_DECODE] = {.launch = 0.33}},
        .fitted = {{COLLECTIVES("all_reduce", 2, 8, 1, 4, 427835392),
                    COLLECTIVES("all_gather", 8, 8, 1, 102400, 2048000),
                    COLLECTIVES("broadcast", 8, 8, 1, 4, 80), MEGATRON_WORK},
                   5},
    },
    {
        .name = "serving",
        .kernel_ns = US(10.6),
        .matmul_efficiency = 0.808,
        .matmul_tail = 0.366,
        .attention_efficiency = 0.6,
        .score_passes = 28.8,
        .memory_efficiency = 0.828,
        .vector_efficiency = 0.408,
        .collective_kernel_ns = US(8.2),
        .collective_hop_ns = US(10),
        .kernels = {{{"kv_append", 0}, {"contiguous", 0.5}, {"add", 0}, {"attention", 18.4}}, 4},
        .fitted = {{COLLECTIVES("all_reduce", 2, 32, 4, 12288, MIB(1280)),
                    COLLECTIVES("all_gather", 2, 32, 4, 102400, MIB(25)),
                    COLLECTIVES("broadcast", 2, 32, 4, 4, 1024),
                    PRODUCTS(1, 51200, 1024, 51200, 640, 24576), ATTENTION(512, 20, 543)},
                   5},
    },
    FSDP(0.7472, 0.6225, 0.4277, 48),
    FSDP_EAGER(0.7472, 0.6225, 0.4277, 48),
    /* Megatron Core with Transformer Engine. They compute the gradients of biases together with
       conversions, do not copy parts of q, k and v, and compute q, k and v in one product, as well
       as gate and up, so that fewer gradients are added. */
    {
        .name = "megatron-core",
        .launch_ns = US(4),
        .kernel_ns = US(4.5),
        .matmul_efficiency = 0.53,
        .matmul_tail = 0.02,
        .attention_efficiency = 0.62,
        .memory_efficiency = 0.85,
        .vector_efficiency = 0.73,
        .tp_overlap = 0.82,
        .kernels = {{{"sum_to", 0},
                     {"slice_add", 0},
                     {"slice_grad", 0},
                     {"contiguous", 0},
                     {"accumulate", 0.4},
                     {"rope", 0.5}},
                    6},
        .traffic = {{{"sum_to", 0},
                     {"slice_add", 0},
                     {"slice_grad", 0},
                     {"contiguous", 0},
                     {"accumulate", 0.4}},
                    5},
        .fitted = {{PRODUCTS(2048, 128000, 256, 128000, 2048, 128000), ATTENTION(4096, 2048, 4096),
                    COLLECTIVES("all_gather", 2, 64, 8, 4194304, MIB(4096)),
                    COLLECTIVES("reduce_scatter", 2, 64, 8, 4194304, MIB(4096))},
                   4},
    },
};

#define LIKE_H100(machine)                                \
    {machine, FSDP(0.6035, 0.3537, 0.4813, 23.7)}, {      \
        machine, FSDP_EAGER(0.6035, 0.3537, 0.4813, 23.7) \
    }
const syn__stack_variant syn__stack_variants[] = {
    LIKE_H100("h100"),  LIKE_H100("h200"),   LIKE_H100("h800"),
    LIKE_H100("b200"),  LIKE_H100("b300"),   LIKE_H100("gb200"),
    LIKE_H100("gb300"), LIKE_H100("mi300x"), {NULL, {.name = ""}},
};

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
