#include "syntorch/hardware.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/hardware_presets.h"
#include "syntorch/memory.h"
#include "syntorch/settings.h"
#include "syntorch/sink.h"

/* ---- The file format ---- */

#define AT(member) offsetof(syn_hardware, member)
#define ROWS(rows) \
    { (rows), sizeof(rows) / sizeof((rows)[0]), false, NULL }
#define REQUIRED SYN__SETTING_REQUIRED
#define F64(key_, flags_, at, lowest, highest, scale_)                              \
    {                                                                               \
        .key = (key_), .type = SYN__SETTING_F64, .flags = (flags_), .offset = (at), \
        .min = (lowest), .max = (highest), .scale = (scale_)                        \
    }
#define NAME(key_, at) \
    { .key = (key_), .type = SYN__SETTING_NAME, .flags = REQUIRED, .offset = (at) }
#define GROUP(key_, flags_, at, table)                                                \
    {                                                                                 \
        .key = (key_), .type = SYN__SETTING_GROUP, .flags = (flags_), .offset = (at), \
        .group = &(table)                                                             \
    }

static syn_status read_kernels(syn__settings *s, void *member);

static const syn__setting peak_rows[] = {
    F64("f32", REQUIRED, sizeof(double) * SYN_F32, 1e-6, 1e6, 1e3),
    F64("f16", 0, sizeof(double) * SYN_F16, 1e-6, 1e6, 1e3),
    F64("bf16", 0, sizeof(double) * SYN_BF16, 1e-6, 1e6, 1e3),
};
static const syn__setting_table peaks = ROWS(peak_rows);

static const syn__setting link_rows[] = {
    F64("alpha_us", REQUIRED, offsetof(syn_link, alpha_ns), 0, 1e6, 1e3),
    F64("gb_per_s", REQUIRED, offsetof(syn_link, bytes_per_ns), 1e-6, 1e6, 1),
};
static const syn__setting_table links = ROWS(link_rows);

static const syn__setting hardware_rows[] = {
    GROUP("peak_tflops", REQUIRED, AT(peak_flops_per_ns), peaks),
    F64("memory_gib", REQUIRED, AT(memory_bytes), 1e-3, 1e9, 1073741824.0),
    F64("memory_gb_per_s", REQUIRED, AT(memory_bytes_per_ns), 1e-3, 1e7, 1),
    {.key = "node_ranks",
     .type = SYN__SETTING_I32,
     .flags = REQUIRED,
     .offset = AT(node_ranks),
     .min = 1,
     .max = 1048576},
    GROUP("intra", REQUIRED, AT(intra), links),
    GROUP("inter", 0, AT(inter), links),
};
static const syn__setting_table hardware_table = ROWS(hardware_rows);

static const syn__setting stack_rows[] = {
    NAME("name", AT(stack)),
    F64("launch_us", REQUIRED, AT(launch_ns), 0, 1e6, 1e3),
    F64("matmul_efficiency", REQUIRED, AT(matmul_efficiency), 1e-3, 1, 1),
    F64("matmul_half_gflop", REQUIRED, AT(matmul_half_flops), 0, 1e6, 1e9),
    F64("memory_efficiency", REQUIRED, AT(memory_efficiency), 1e-3, 1, 1),
    {.key = "kernels", .type = SYN__SETTING_CUSTOM, .read = read_kernels},
};
static const syn__setting_table stack_table = ROWS(stack_rows);

static const syn__setting file_rows[] = {
    NAME("name", AT(name)),
    GROUP("hardware", REQUIRED, 0, hardware_table),
    GROUP("stack", REQUIRED, 0, stack_table),
};
static const syn__setting_table file_table = ROWS(file_rows);

static const char *const op_names[] = {
#define SYN_OP(id, name, ...) name,
#include "ops/ops.def"
};

/* The op whose name the last key is, or NULL. */
static const char *known_op(const syn__settings *s) {
    for (size_t i = 0; i < sizeof op_names / sizeof op_names[0]; i++)
        if (syn__settings_text_is(s, op_names[i])) return op_names[i];
    return NULL;
}

static syn_status read_kernel(syn__settings *s, syn_hardware *hw) {
    char shown[64];
    const char *op = known_op(s);
    if (op == NULL)
        return syn__settings_fail(s, "\"%s\" names the op \"%s\", which does not exist", s->path,
                                  syn__settings_shown(s, shown));
    const size_t outer = syn__settings_enter(s, op);
    for (int32_t i = 0; i < hw->n_kernels; i++)
        if (strcmp(hw->kernels[i].op, op) == 0)
            return syn__settings_fail(s, "\"%s\" is given twice", s->path);
    if (hw->n_kernels == SYN_HW_KERNELS || strlen(op) >= sizeof hw->kernels[0].op)
        return syn__settings_fail(s, "\"%s\": at most %d ops may be listed", s->path,
                                  SYN_HW_KERNELS);
    struct syn_hw_kernels *kernel = &hw->kernels[hw->n_kernels];
    SYN_TRY(syn__settings_number(s, 0, 1e3, &kernel->count));
    snprintf(kernel->op, sizeof kernel->op, "%s", op);
    hw->n_kernels++;
    syn__settings_leave(s, outer);
    return SYN_OK;
}

static syn_status read_kernels(syn__settings *s, void *member) {
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be an object of op names and numbers", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_KEY)
        SYN_TRY(read_kernel(s, (syn_hardware *)member));
    return type == SYN_JSON_OBJECT_END ? SYN_OK : s->error.code;
}

syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) {
    syn__settings s;
    syn_hardware read;
    memset(&read, 0, sizeof read);
    syn__settings_begin(&s, name, json, bytes);
    syn__settings_read(&s, &file_table, &read);
    SYN_TRY(syn__settings_end(&s, err));
    if (read.inter.bytes_per_ns <= 0) read.inter = read.intra; /* one node: never farther apart */
    *hw = read;
    return SYN_OK;
}

/* ---- Presets ---- */

const char *const *syn_hardware_presets(void) {
    return syn__hardware_preset_names;
}

syn_status syn_hardware_load(syn_hardware *hw, const char *name, syn_error *err) {
    char presets[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < SYN__HARDWARE_PRESETS; i++) {
        if (strcmp(syn__hardware_presets[i].name, name) == 0) {
            *hw = syn__hardware_presets[i];
            return SYN_OK;
        }
        const int n = snprintf(presets + used, sizeof presets - used, "%s%s", i != 0 ? ", " : "",
                               syn__hardware_presets[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    char *json;
    size_t bytes;
    syn_error inner = {0};
    const syn_status read = syn_read_file(name, SYN__SETTING_FILE_BYTES, &json, &bytes, &inner);
    if (read == SYN_E_IO)
        return SYN_FAIL(err, read, "%s; the hardware presets are %s", inner.text, presets);
    if (read != SYN_OK) return SYN_FAIL(err, read, "%s", inner.text);
    const syn_status status = syn_hardware_parse(hw, name, json, bytes, err);
    syn_free(json);
    return status;
}

/* ---- Prediction ---- */

static double max2(double a, double b) {
    return a > b ? a : b;
}

/* Dtypes without a peak are computed in f32, as programs do that convert. */
static double peak(const syn_hardware *hw, syn_dtype dtype) {
    const bool given = (size_t)dtype < (size_t)SYN_DTYPE_COUNT && hw->peak_flops_per_ns[dtype] > 0;
    return hw->peak_flops_per_ns[given ? dtype : SYN_F32];
}

static double kernel_count(const syn_hardware *hw, const char *op) {
    for (int32_t i = 0; i < hw->n_kernels; i++)
        if (strcmp(hw->kernels[i].op, op) == 0) return hw->kernels[i].count;
    return 1;
}

static double compute_ns(const syn_hardware *hw, const syn_node *node, syn_dtype dtype) {
    const double flops = (double)node->flops;
    const double bytes = (double)node->bytes_read + (double)node->bytes_written;
    const bool product =
        node->category == SYN_CATEGORY_MATMUL ||
        (node->category == SYN_CATEGORY_ATTENTION && (node->flags & SYN_NODE_FUSED) != 0);
    double ns = bytes / (hw->memory_bytes_per_ns * hw->memory_efficiency);
    if (!product) ns = max2(ns, flops / hw->peak_flops_per_ns[SYN_F32]);
    else if (node->flops > 0) /* flops / (peak * efficiency * flops / (flops + half)) */
        ns = max2(ns, (flops + hw->matmul_half_flops) / (peak(hw, dtype) * hw->matmul_efficiency));
    return max2(ns, hw->launch_ns * kernel_count(hw, node->op));
}

static const syn_link *link_of(const syn_hardware *hw, const int32_t *ranks, uint32_t n_ranks) {
    for (uint32_t i = 1; i < n_ranks; i++)
        if (ranks[i] / hw->node_ranks != ranks[0] / hw->node_ranks) return &hw->inter;
    return &hw->intra;
}

static double collective_ns(const syn_hardware *hw, const syn_node *node,
                            const syn_graph_group *group) {
    if (group == NULL || group->n_ranks < 2) return 0;
    const syn_link *link = link_of(hw, group->ranks, group->n_ranks);
    const double k = (double)group->n_ranks, steps = k - 1;
    /* One pass around the ring moves (k-1)/k of the whole buffer through each link. */
    const double input_ns = (double)node->comm_bytes / link->bytes_per_ns;
    const double pass_ns = steps * link->alpha_ns + steps / k * input_ns;
    switch (node->comm) {
    case SYN_COMM_ALL_REDUCE:
    case SYN_COMM_BARRIER:
        return 2 * pass_ns;
    case SYN_COMM_ALL_GATHER: /* comm_bytes is the shard: the whole is k times that */
    case SYN_COMM_GATHER:
        return steps * link->alpha_ns + steps * input_ns;
    case SYN_COMM_REDUCE_SCATTER:
    case SYN_COMM_REDUCE_SCATTER_BLOCK:
    case SYN_COMM_SCATTER:
    case SYN_COMM_ALL_TO_ALL:
        return pass_ns;
    default: /* broadcast, reduce: pipelined along the ring */
        return link->alpha_ns + input_ns;
    }
}

static double message_ns(const syn_hardware *hw, const syn_node *node, int32_t self_rank) {
    const int32_t ends[2] = {self_rank, node->peer};
    const syn_link *link = link_of(hw, ends, 2);
    return link->alpha_ns + (double)node->comm_bytes / link->bytes_per_ns;
}

double syn_hardware_predict_ns(const syn_hardware *hw, const syn_node *node, syn_dtype dtype,
                               const syn_graph_group *group, int32_t self_rank) {
    if ((node->flags & SYN_NODE_VIRTUAL) != 0) return 0;
    switch (node->kind) {
    case SYN_NODE_COMPUTE:
        return node->category == SYN_CATEGORY_VIEW ? 0 : compute_ns(hw, node, dtype);
    case SYN_NODE_COLLECTIVE:
        return collective_ns(hw, node, group);
    case SYN_NODE_SEND:
    case SYN_NODE_RECV:
        return message_ns(hw, node, self_rank);
    case SYN_NODE_MEMORY:
        return compute_ns(hw, node, dtype);
    default:
        return 0;
    }
}
