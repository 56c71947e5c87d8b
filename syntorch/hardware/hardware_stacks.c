/* The constants of the built-in software stacks. docs/hardware.md gives the source of every
   number. */
#include "syntorch/hardware/hardware_presets.h"

const char *const syn__stack_preset_names[SYN__STACK_PRESETS + 1] = {
    "pytorch-eager", "megatron", "serving", "fsdp", "fsdp-eager", "megatron-core", "vllm", NULL};

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

/* vLLM's V1 engine with CUDA graphs. Of the ops of a layer, residuals are fused with the next norm,
   the rotary embeddings of q and k are one kernel, and the experts' kernels find their tokens by
   themselves. Keys and values are appended in one kernel. Three of five products are kernels,
   because q, k and v are one product, and gate and up, too. Sampling is part of sequence_ns. */
#define VLLM_WORK PRODUCTS(1, 2048, 512, 128256, 2048, 14336), ATTENTION(2048, 16, 18432)
#define VLLM(products, wave, attention, ...)                                                      \
    {                                                                                             \
        .name = "vllm", .kernel_ns = US(2.4), .matmul_efficiency = products, .matmul_tail = wave, \
        .exposed = 0.2, .attention_efficiency = attention, .tile_ns = US(5),                      \
        .empty_tile_ns = US(0.33), .memory_efficiency = 0.95, .vector_efficiency = 0.9,           \
        .step_ns = US(100), .sequence_ns = US(0.35), .joined_gathers = 1,                         \
        .kernels = {{{"add", 0},                                                                  \
                     {"paged_append", 0.5},                                                       \
                     {"contiguous", 0},                                                           \
                     {"kv_append", 0},                                                            \
                     {"linear", 0.6},                                                             \
                     {"rope", 0.5},                                                               \
                     {"sort_by_expert", 0},                                                       \
                     {"moe_permute", 0},                                                          \
                     {"cast", 0},                                                                 \
                     {"mul", 0},                                                                  \
                     {"argmax", 0},                                                               \
                     {"sample", 0}},                                                              \
                    12},                                                                          \
        .traffic = {{{"add", 0},                                                                  \
                     {"contiguous", 0},                                                           \
                     {"kv_append", 0},                                                            \
                     {"rmsnorm", 0.56},                                                           \
                     {"rope", 0.4},                                                               \
                     {"swiglu", 0.75},                                                            \
                     {"sort_by_expert", 0},                                                       \
                     {"moe_permute", 0},                                                          \
                     {"cast", 0},                                                                 \
                     {"mul", 0},                                                                  \
                     {"argmax", 0},                                                               \
                     {"sample", 0}},                                                              \
                    12},                                                                          \
        __VA_ARGS__                                                                               \
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
    VLLM(0.824, 0.12, 0.53, .score_passes = 0),
};

#define LIKE_H100(machine)                                \
    {machine, FSDP(0.6035, 0.3537, 0.4813, 23.7)}, {      \
        machine, FSDP_EAGER(0.6035, 0.3537, 0.4813, 23.7) \
    }
const syn__stack_variant syn__stack_variants[] = {
    LIKE_H100("h100"),
    LIKE_H100("h200"),
    LIKE_H100("h800"),
    LIKE_H100("b200"),
    LIKE_H100("b300"),
    LIKE_H100("gb200"),
    LIKE_H100("gb300"),
    LIKE_H100("mi300x"),
    {"rtxpro6000", VLLM(0.824, 0.12, 0.53, .fitted = {{VLLM_WORK}, 2})},
    {"rtx4090", VLLM(1, 0, 0.785, .fitted = {{VLLM_WORK}, 2})},
    {NULL, {.name = ""}},
};
