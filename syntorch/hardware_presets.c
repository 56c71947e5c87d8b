#include "syntorch/hardware_presets.h"

const char *const syn__hardware_preset_names[SYN__HARDWARE_PRESETS + 1] = {
    "a100-80g", "h100", "h200", "v100-32g", "cpu", NULL};

/* The struct's units from the data sheets' units. */
#define TFLOPS(x)   ((x)*1e3)
#define GIB(x)      ((x)*1073741824.0)
#define GB_PER_S(x) (x)
#define US(x)       ((x)*1e3)
#define GFLOP(x)    ((x)*1e9)

/* Eager PyTorch as measured on A100s; only the size of product that reaches half the efficiency
   grows with the peak. scale_mask and softmax together were one op in that measurement. */
#define PYTORCH_EAGER(half_gflop)                                              \
    .stack = "pytorch-eager", .launch_ns = US(72), .matmul_efficiency = 0.793, \
    .matmul_half_flops = GFLOP(half_gflop), .memory_efficiency = 0.741,        \
    .kernels = {{"scale_mask", 0.5}, {"softmax", 0.5}}, .n_kernels = 2

const syn_hardware syn__hardware_presets[SYN__HARDWARE_PRESETS] = {
    {
        .name = "a100-80g",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(19.5), [SYN_F16] = TFLOPS(312), [SYN_BF16] = TFLOPS(312)},
        .memory_bytes = GIB(80),
        .memory_bytes_per_ns = GB_PER_S(2039),
        .node_ranks = 8,
        .intra = {US(5.7), GB_PER_S(201.5)},
        .inter = {US(14), GB_PER_S(85.6)},
        PYTORCH_EAGER(2.6),
    },
    {
        .name = "h100",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(66.9), [SYN_F16] = TFLOPS(989.4), [SYN_BF16] = TFLOPS(989.4)},
        .memory_bytes = GIB(80),
        .memory_bytes_per_ns = GB_PER_S(3350),
        .node_ranks = 8,
        .intra = {US(5.7), GB_PER_S(302)},
        .inter = {US(14), GB_PER_S(302)},
        PYTORCH_EAGER(8.2),
    },
    {
        .name = "h200",
        .peak_flops_per_ns =
            {[SYN_F32] = TFLOPS(66.9), [SYN_F16] = TFLOPS(989.4), [SYN_BF16] = TFLOPS(989.4)},
        .memory_bytes = GIB(140),
        .memory_bytes_per_ns = GB_PER_S(4800),
        .node_ranks = 8,
        .intra = {US(5.7), GB_PER_S(302)},
        .inter = {US(14), GB_PER_S(302)},
        PYTORCH_EAGER(8.2),
    },
    {
        .name = "v100-32g",
        .peak_flops_per_ns = {[SYN_F32] = TFLOPS(15.7), [SYN_F16] = TFLOPS(125)},
        .memory_bytes = GIB(32),
        .memory_bytes_per_ns = GB_PER_S(900),
        .node_ranks = 8,
        .intra = {US(5.7), GB_PER_S(101)},
        .inter = {US(14), GB_PER_S(42.8)},
        PYTORCH_EAGER(1),
    },
    {
        .name = "cpu",
        .peak_flops_per_ns = {[SYN_F32] = TFLOPS(0.496)},
        .memory_bytes = GIB(16),
        .memory_bytes_per_ns = GB_PER_S(84),
        .node_ranks = 2,
        .intra = {US(0.2), GB_PER_S(12.5)},
        .inter = {US(0.2), GB_PER_S(12.5)},
        .stack = "syntorch",
        .launch_ns = US(2),
        .matmul_efficiency = 0.95,
        .matmul_half_flops = GFLOP(0.001),
        .memory_efficiency = 0.7,
    },
};
