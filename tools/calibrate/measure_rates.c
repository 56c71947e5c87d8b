/* Computes the rates of a CPU's kernels from the measured times of ops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"
#include "tools/calibrate/measure.h"

/* ---- The rate that explains the samples best ---- */

enum { MOST = 256 };

/* A measurement of a rate: `work` flops or bytes took `ns` nanoseconds. `least` is the time in ns
   to read the data; no rate can make the work faster than that. */
typedef struct sample {
    double work, ns, least, weight;
} sample;

typedef struct samples {
    sample at[MOST];
    int n;
} samples;

static void add(samples *s, double work, double ns, double least, double weight) {
    if (s->n < MOST && work > 0 && ns > 0) s->at[s->n++] = (sample){work, ns, least, weight};
}

static double off(const samples *s, double rate) {
    double sum = 0;
    for (int i = 0; i < s->n; i++) {
        const sample *o = &s->at[i];
        sum += o->weight * fabs(log(fmax(o->work / rate, o->least) / o->ns));
    }
    return sum;
}

/* Returns the rate of one of the samples: the rate with the smallest sum of errors over all
   samples. If no sample has a `least`, this is the weighted median. Returns 0 if there are no
   samples. */
static double best(const samples *s) {
    double found = 0, least = INFINITY;
    for (int i = 0; i < s->n; i++) {
        const double rate = s->at[i].work / s->at[i].ns, sum = off(s, rate);
        if (sum < least) {
            least = sum;
            found = rate;
        }
    }
    return found;
}

/* ---- Ops ---- */

static bool is_product(const syn_node *n) {
    return n->category == SYN_CATEGORY_MATMUL;
}

static bool is_attention(const syn_node *n) {
    return n->category == SYN_CATEGORY_ATTENTION && (n->flags & SYN_NODE_FUSED) != 0;
}

static int width_of(const syn_node *n) {
    return syn_dtype_bytes(n->dtype) == 2;
}

static double bytes_of(const syn_node *n) {
    return (double)n->bytes_read + (double)n->bytes_written;
}

/* Returns the weight of an op's rate: the square root of the work of all its calls. */
static double weight_of(const timed_op *op) {
    const syn_node *n = &op->node;
    return sqrt(((double)n->flops + bytes_of(n) + (double)n->comm_bytes) * (double)op->n);
}

static double work_ns(const timed_op *op, double own_ns) {
    return fmax(op->ns - own_ns, 0.1 * op->ns);
}

/* Minimum bytes of the matrix products that measure the rate of reading weights; smaller weights
   may be in a cache. These products have one row, so that they read each weight once. */
#define LARGE (4 << 20)

static double reading(const timed_ops *ops, int width) {
    samples s = {.n = 0};
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        if (width_of(&op->node) == width && is_product(&op->node) && op->node.extents.rows == 1 &&
            bytes_of(&op->node) >= LARGE)
            add(&s, bytes_of(&op->node), op->ns, 0, weight_of(op));
    }
    return best(&s);
}

/* ---- Curves ---- */

/* The ops that a curve describes. */
typedef struct kind {
    const char *of; /* op name; NULL: all products */
    int width;
    bool counts_flops;
} kind;

/* Returns the position of an op on the curve; 0: the curve does not describe this op. */
static double place(const kind *what, const syn_node *n) {
    const syn_extents *e = &n->extents;
    const bool many = is_attention(n) && e->rows > 1;
    if (width_of(n) != what->width || n->kind != SYN_NODE_COMPUTE) return 0;
    if (what->of == NULL) return is_product(n) ? fmin((double)e->rows, (double)e->inner) : 0;
    if (is_product(n) || strcmp(n->op, what->of) != 0 || many != what->counts_flops) return 0;
    return many ? (double)e->rows : bytes_of(n);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds a point for the ops with sizes from `first` to `last`. Adds none if the ops that are limited
   by reading weight matrices have more than half of the sum of weight_of. */
static void add_point(syn_hw_curve *curve, const kind *what, const syn_hw_kernels *k,
                      const timed_ops *ops, double first, double last, double own_ns) {
    samples s = {.n = 0};
    double bound = 0, all = 0, sizes = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        const double at = place(what, &op->node), bytes = bytes_of(&op->node);
        if (at < first || at > last || at == 0) continue;
        const double least =
            what->of == NULL ? bytes / k->widths[what->width].read_bytes_per_ns : 0;
        add(&s, what->counts_flops ? (double)op->node.flops : bytes, work_ns(op, own_ns), least,
            weight_of(op));
        all += weight_of(op);
        sizes += weight_of(op) * log(at);
        if (least > 0.8 * op->ns) bound += weight_of(op);
    }
    const double rate = best(&s);
    if (rate > 0 && bound <= 0.5 * all)
        curve->points[curve->n++] =
            (struct syn_hw_point){first < last ? round(exp(sizes / all)) : first, rate};
}

/* Fits a curve. Groups the sizes into ranges in which the largest size is less than `apart` times
   the smallest, and adds one point for each range. */
static void fit_curve(syn_hw_curve *curve, const kind *what, const syn_hw_kernels *k,
                      const timed_ops *ops, double apart, double own_ns) {
    double sizes[MOST];
    int n = 0;
    for (size_t i = 0; i < ops->n && n < MOST; i++)
        if (place(what, &ops->at[i].node) > 0) sizes[n++] = place(what, &ops->at[i].node);
    if (n > 0) qsort(sizes, (size_t)n, sizeof sizes[0], compare);
    curve->n = 0;
    for (int at = 0, next; at < n && curve->n < SYN_HW_POINTS; at = next) {
        for (next = at + 1; next < n && sizes[next] < apart * sizes[at];) next++;
        add_point(curve, what, k, ops, sizes[at], sizes[next - 1], own_ns);
    }
}

static void fit_op(syn_hw_rates *rates, const kind *what, const char *name, const syn_hw_kernels *k,
                   const timed_ops *ops, double own_ns) {
    struct syn_hw_rate *entry = &rates->at[rates->n];
    for (int32_t i = 0; i < rates->n; i++)
        if (strcmp(rates->at[i].op, name) == 0) return;
    if (rates->n == SYN_HW_CURVES) return;
    memcpy(entry->op, name, strlen(name) + 1);
    fit_curve(&entry->curve, what, k, ops, what->counts_flops ? 1.2 : 4, own_ns);
    if (entry->curve.n > 0) rates->n++;
}

void measure_rates(syn_hw_kernels *k, const timed_ops *ops, double own_ns) {
    for (int width = 0; width < 2; width++) {
        struct syn_hw_width *w = &k->widths[width];
        w->read_bytes_per_ns = reading(ops, width);
        w->flops_per_ns.n = w->bytes_per_ns.n = 0;
        fit_op(&w->flops_per_ns, &(kind){NULL, width, true}, "linear", k, ops, own_ns);
        for (size_t i = 0; i < ops->n; i++) {
            const syn_node *n = &ops->at[i].node;
            const bool many = is_attention(n) && n->extents.rows > 1;
            if (n->kind == SYN_NODE_COMPUTE && !is_product(n))
                fit_op(many ? &w->flops_per_ns : &w->bytes_per_ns, &(kind){n->op, width, many},
                       n->op, k, ops, own_ns);
        }
    }
}

/* ---- Collectives ---- */

void measure_link(syn_link *link, const timed_ops *ops, int32_t ranks) {
    const double k = ranks, steps = 2 * (k - 1);
    double smallest = INFINITY;
    samples s = {.n = 0};
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        if (op->node.comm != SYN_COMM_ALL_REDUCE || (double)op->node.comm_bytes >= smallest)
            continue;
        smallest = (double)op->node.comm_bytes;
        link->alpha_ns = op->ns / steps;
    }
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        if (op->node.comm != SYN_COMM_ALL_REDUCE) continue;
        const double ns = op->ns - steps * link->alpha_ns;
        add(&s, steps / k * (double)op->node.comm_bytes, fmax(ns, 0.1 * op->ns), 0, weight_of(op));
    }
    link->bytes_per_ns = best(&s);
}

void measure_link_ranges(syn_hardware *hw, const timed_ops *ops, int32_t ranks) {
    int32_t all[MEASURED_RANKS];
    const syn_graph_group group = {.id = 1, .ranks = all, .n_ranks = (uint32_t)ranks};
    memset(&hw->stack.fitted, 0, sizeof hw->stack.fitted);
    if (ranks > MEASURED_RANKS) return;
    for (int32_t r = 0; r < ranks; r++) all[r] = r;
    for (size_t i = 0; i < ops->n; i++)
        if (ops->at[i].node.comm == SYN_COMM_ALL_REDUCE)
            syn_hardware_fitted_to(&hw->stack.fitted, hw, &ops->at[i].node, &group);
}
