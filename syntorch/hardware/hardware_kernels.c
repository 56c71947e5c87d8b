/* Predicts the times of CPU ops from measured kernels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

void syn_hardware_set_sharing(syn_hardware *hw, int32_t ranks) {
    hw->sharing = ranks < hw->node_ranks ? ranks : hw->node_ranks;
}

double syn__hardware_rate(const syn_hw_curve *curve, double at) {
    const struct syn_hw_point *p = curve->points;
    if (curve->n == 0) return 0;
    if (at <= p[0].at) return p[0].rate;
    int32_t i = 1;
    while (i < curve->n && p[i].at < at) i++;
    if (i == curve->n) return p[i - 1].rate;
    const double part = log(at / p[i - 1].at) / log(p[i].at / p[i - 1].at);
    return p[i - 1].rate * pow(p[i].rate / p[i - 1].rate, part);
}

/* The curve of an op; NULL if the op was not measured. */
static const syn_hw_curve *op_curve(const syn_hw_rates *rates, const char *op) {
    for (int32_t i = 0; i < rates->n; i++)
        if (strcmp(rates->at[i].op, op) == 0) return &rates->at[i].curve;
    return NULL;
}

static double op_rate(const syn_hw_rates *rates, const char *op, double at) {
    const syn_hw_curve *curve = op_curve(rates, op);
    return curve != NULL ? syn__hardware_rate(curve, at) : 0;
}

static double at_rate(double work, double rate) {
    return rate > 0 ? work / rate : 0;
}

/* The size that determines the rate of a product. This is its number of rows, because all rows
   share one read of the weights. It is the inner size if that is smaller, because each element of
   the result then takes few flops per write. If the extents are unknown, the matrices are taken as
   square. */
static double product_rows(const syn_node *node) {
    const syn_extents *e = &node->extents;
    return e->rows > 0 && e->inner > 0 ? fmin((double)e->rows, (double)e->inner)
                                       : cbrt((double)node->flops / 2);
}

static const struct syn_hw_width *width_of(const syn_hw_kernels *k, const syn_node *node) {
    const bool narrow = syn_dtype_bytes(node->dtype) == 2 && k->widths[1].flops_per_ns.n > 0;
    return &k->widths[narrow];
}

/* The time of a node without its launch. Sets *limit to what limits this time. */
static double work_ns(const syn_hardware *hw, const syn_hw_kernels *k, const syn_node *node,
                      syn_limit *limit) {
    const struct syn_hw_width *width = width_of(k, node);
    const double bytes = (double)node->bytes_read + (double)node->bytes_written;
    const double flops = (double)node->flops;
    if (node->category == SYN_CATEGORY_MATMUL) {
        const double rate = op_rate(&width->flops_per_ns, "linear", product_rows(node));
        const double computed = at_rate(flops, rate),
                     read = at_rate(bytes, width->read_bytes_per_ns);
        *limit = computed >= read ? SYN_LIMIT_COMPUTE : SYN_LIMIT_MEMORY;
        return fmax(computed, read);
    }
    if ((node->flags & SYN_NODE_FUSED) != 0 && node->extents.rows > 1) {
        const double rate = op_rate(&width->flops_per_ns, node->op, (double)node->extents.rows);
        *limit = SYN_LIMIT_COMPUTE;
        if (rate > 0) return flops / rate;
    }
    *limit = SYN_LIMIT_MEMORY;
    double rate = op_rate(&width->bytes_per_ns, node->op, bytes);
    if (rate <= 0) rate = syn__hardware_rate(&k->memory, bytes);
    return at_rate(bytes, rate > 0 ? rate : hw->memory_bytes_per_ns);
}

double syn__hardware_kernel_ns(const syn_hardware *hw, const syn_node *node, double *work,
                               syn_limit *limit) {
    syn_limit of_shared;
    *work = work_ns(hw, &hw->alone, node, limit);
    const double ns = hw->alone.launch_ns + *work, ranks = fmax(hw->sharing, 1);
    if (hw->shared.ranks <= hw->alone.ranks || ranks <= hw->alone.ranks) return ns;
    const double part =
        log(ranks / hw->alone.ranks) / log((double)hw->shared.ranks / hw->alone.ranks);
    const double shared = hw->shared.launch_ns + work_ns(hw, &hw->shared, node, &of_shared);
    const double longer = pow(shared / ns, part);
    *work *= longer;
    return ns * longer;
}

bool syn__hardware_outside_curve(const syn_hardware *hw, const syn_node *node,
                                 syn_hw_extrapolation *out) {
    const struct syn_hw_width *width = width_of(&hw->alone, node);
    const bool product = node->category == SYN_CATEGORY_MATMUL;
    const bool queries = (node->flags & SYN_NODE_FUSED) != 0 && node->extents.rows > 1;
    const syn_hw_curve *curve = NULL;
    *out = (syn_hw_extrapolation){.extent = product   ? SYN_HW_EXTENT_ROWS
                                            : queries ? SYN_HW_EXTENT_QUERIES
                                                      : SYN_HW_EXTENT_BYTES};
    if (product) curve = op_curve(&width->flops_per_ns, "linear");
    else if (queries) curve = op_curve(&width->flops_per_ns, node->op);
    if (curve == NULL && !product) {
        out->extent = SYN_HW_EXTENT_BYTES;
        curve = op_curve(&width->bytes_per_ns, node->op);
        if (curve == NULL) curve = &hw->alone.memory;
    }
    if (curve == NULL || curve->n == 0) return false;
    out->value = out->extent == SYN_HW_EXTENT_ROWS ? product_rows(node)
                 : out->extent == SYN_HW_EXTENT_QUERIES
                     ? (double)node->extents.rows
                     : (double)node->bytes_read + (double)node->bytes_written;
    out->fitted = (syn_hw_range){curve->points[0].at, curve->points[curve->n - 1].at};
    snprintf(out->what, sizeof out->what, "%s", node->op);
    return out->value > 0 && (out->value < out->fitted.least || out->value > out->fitted.most);
}
