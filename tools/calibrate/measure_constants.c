/* Computes the constants that predict a GPU's times, from the measured times of its ops. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/measure.h"

enum { ROUNDS = 60 };

/* ---- Kernels ---- */

static double kernels_of(const syn_stack *stack, const char *op) {
    for (int32_t i = 0; i < stack->kernels.n; i++)
        if (strcmp(stack->kernels.at[i].op, op) == 0) return stack->kernels.at[i].value;
    return 1;
}

void measure_kernels(syn_stack *stack, const timed_ops *ops) {
    syn_hw_ops *kernels = &stack->kernels;
    kernels->n = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const syn_node *node = &ops->at[i].node;
        double n = 0, all = 0;
        if (ops->at[i].kernels == 0 || node->kind != SYN_NODE_COMPUTE) continue;
        for (size_t k = 0; k < ops->n; k++) {
            const timed_op *other = &ops->at[k];
            if (other->kernels == 0 || strcmp(other->node.op, node->op) != 0) continue;
            if (k < i) break; /* ops with this name were already counted */
            n += 1;
            all += other->kernels;
        }
        if (n == 0 || all == n || kernels->n == SYN_HW_OPS) continue;
        struct syn_hw_op *entry = &kernels->at[kernels->n++];
        snprintf(entry->op, sizeof entry->op, "%s", node->op);
        entry->value = round(100 * all / n) / 100;
    }
}

double measure_launches(const syn_stack *stack, const timed_ops *ops, bool decoding) {
    double n = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        const bool decode = op->node.phase == SYN_PHASE_DECODE;
        if (decode == decoding && op->node.phase != SYN_PHASE_PREFILL &&
            op->node.kind == SYN_NODE_COMPUTE)
            n += (double)op->n * kernels_of(stack, op->node.op);
    }
    return n;
}

/* ---- Highest rates seen ---- */

static double bytes_of(const syn_node *n) {
    return (double)n->bytes_read + (double)n->bytes_written;
}

/* Returns the flops per nanosecond of the fastest matrix product. */
static double best_product(const timed_ops *ops, syn_dtype dtype) {
    double best = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const timed_op *op = &ops->at[i];
        if (op->node.category == SYN_CATEGORY_MATMUL && op->node.dtype == dtype && op->ns > 0)
            best = fmax(best, (double)op->node.flops / op->ns);
    }
    return best;
}

/* Returns the highest rate in bytes per nanosecond among the ops that move the most bytes (at least
   an eighth of the maximum). Their data should exceed any cache. */
static double best_memory(const timed_ops *ops) {
    double most = 0, best = 0;
    for (size_t i = 0; i < ops->n; i++) most = fmax(most, bytes_of(&ops->at[i].node));
    for (size_t i = 0; i < ops->n; i++)
        if (bytes_of(&ops->at[i].node) >= most / 8 && ops->at[i].ns > 0)
            best = fmax(best, bytes_of(&ops->at[i].node) / ops->at[i].ns);
    return best;
}

/* ---- Fits ---- */

/* Converts ops to rows, so that constants can be fitted in the same way as to measured runs. ranks:
   number of ranks in the group of the collectives. */
static syn_status add_rows(measured *m, const timed_ops *ops, uint32_t ranks, syn_error *err) {
    for (size_t i = 0; i < ops->n; i++) {
        measured_row row = {.ns = ops->at[i].ns, .overlap_factor = 1, .tp = 1, .dp = 1};
        if (!(row.ns > 0)) continue;
        SYN_TRY(syn_grow(&row.ops, &row.cap_ops, 1, sizeof *row.ops, err));
        row.n_ops = 1;
        row.ops[0] = (tally_row){
            .node = ops->at[i].node, .count = 1, .group_ranks = ranks, .group_stride = 1};
        if (ranks > 0) row.ops[0].node.group = 1;
        const syn_status s = syn_grow(&m->rows, &m->cap, m->n + 1, sizeof *m->rows, err);
        if (s != SYN_OK) syn_free(row.ops);
        SYN_TRY(s);
        m->rows[m->n++] = row;
    }
    return SYN_OK;
}

static syn_status fit_all(syn_hardware *hw, const fit_free *constants, const measured *m,
                          fit_errors *errors, syn_error *err) {
    const measured_row **rows = syn_calloc(m->n + 1, sizeof *rows);
    if (rows == NULL) return SYN_FAIL_NOMEM(err, m->n * sizeof *rows, "rows");
    for (size_t i = 0; i < m->n; i++) rows[i] = &m->rows[i];
    const syn_status s = fit_rows(hw, constants, rows, m->n, true, ROUNDS, err);
    if (s == SYN_OK) *errors = fit_measure(rows, m->n, hw);
    syn_free(rows);
    return s;
}

#define AT(member) offsetof(syn_hardware, member)

/* Adds a constant to be fitted whose value is known up to a factor. */
static void add_near(fit_free *out, const char *name, size_t offset, double value, double factor) {
    fit_constant *c = &out->at[out->n++];
    *c = (fit_constant){.offset = offset,
                        .least = value / factor,
                        .most = value * factor,
                        .usual = value,
                        .scale = 1};
    snprintf(c->name, sizeof c->name, "%s", name);
}

static void add_all(fit_free *out, const fit_constant *constants, size_t n) {
    for (size_t i = 0; i < n; i++) out->at[out->n++] = constants[i];
}

/* The efficiency of matrix products is not fitted, because the peaks are the rates that they
   reached. */
static const fit_constant of_stack[] = {
    {"kernel_us", AT(stack.kernel_ns), 0.01, 1e4, 3, 1e3},
    {"matmul_tail", AT(stack.matmul_tail), 0.02, 3, 0.5, 1},
    {"attention_efficiency", AT(stack.attention_efficiency), 0.01, 1, 0.4, 1},
    {"score_passes", AT(stack.score_passes), 0.01, 60, 1, 1},
    {"memory_efficiency", AT(stack.memory_efficiency), 0.1, 1, 0.8, 1},
    {"vector_efficiency", AT(stack.vector_efficiency), 0.05, 1, 0.8, 1},
};

static void begin_anywhere(syn_hardware *hw, const fit_free *constants) {
    for (int i = 0; i < constants->n; i++) {
        const fit_constant *c = &constants->at[i];
        const double value = c->usual * c->scale;
        memcpy((char *)hw + c->offset, &value, sizeof value);
    }
}

syn_status measure_constants(syn_hardware *hw, const timed_ops *ops, fit_errors *errors,
                             syn_error *err) {
    static const syn_dtype types[] = {SYN_F32, SYN_F16, SYN_BF16};
    fit_free constants = {.n = 0};
    measured m = {0};
    for (int i = 0; i < 3; i++) {
        const double best = best_product(ops, types[i]);
        if (best > 0)
            add_near(&constants, "peak", AT(peak_flops_per_ns) + types[i] * sizeof best, best, 4);
    }
    add_all(&constants, of_stack, sizeof of_stack / sizeof of_stack[0]);
    hw->memory_bytes_per_ns = best_memory(ops);
    hw->stack.matmul_efficiency = 1;
    begin_anywhere(hw, &constants);
    syn_status s = add_rows(&m, ops, 0, err);
    if (s == SYN_OK) s = fit_all(hw, &constants, &m, errors, err);
    for (size_t i = 0; s == SYN_OK && i < m.n; i++)
        measured_fitted_to(&m.rows[i], hw, &hw->stack.fitted);
    measured_free(&m);
    return s;
}

/* ---- All-reduces ---- */

static const fit_constant of_library[] = {
    {"ll.base_us", AT(collectives.protocols[SYN_PROTOCOL_LL].base_ns), 0.1, 1e5, 8, 1e3},
    {"simple.base_us", AT(collectives.protocols[SYN_PROTOCOL_SIMPLE].base_ns), 0.1, 1e5, 30, 1e3},
};

static const fit_constant of_steps[] = {
    {"ll.step_us", AT(collectives.protocols[SYN_PROTOCOL_LL].step_ns), 0.01, 1e4, 1, 1e3},
    {"simple.step_us", AT(collectives.protocols[SYN_PROTOCOL_SIMPLE].step_ns), 0.01, 1e4, 2, 1e3},
};

/* Returns a protocol that behaves between nodes like the protocol of hw: it has the same network
   rate, which follows from the network efficiency or the maximum bandwidth. If hw does not have the
   protocol `id`, uses its protocol for large buffers (`simple`). */
static syn_protocol protocol_of(const syn_hardware *hw, syn_protocol_id id) {
    const syn_protocol *all = hw->collectives.protocols, *p = &all[id];
    if (p->link_efficiency <= 0) p = &all[SYN_PROTOCOL_SIMPLE];
    double part = p->network_efficiency > 0 ? p->network_efficiency : p->link_efficiency;
    if (p->bytes_per_ns > 0)
        part = fmin(part, p->bytes_per_ns / syn_hardware_between(hw)->bytes_per_ns);
    return (syn_protocol){.hop_ns = part > 0 ? p->hop_ns : syn_hardware_between(hw)->alpha_ns,
                          .post_ns = p->post_ns,
                          .ring_hop_ns = p->ring_hop_ns,
                          .link_efficiency = 1,
                          .network_efficiency = part > 0 ? fmax(part, 0.001) : 0,
                          .network_fill_ns = p->network_fill_ns};
}

/* Returns a library with two protocols: one with a low latency for small buffers, and one with a
   high rate for large buffers. */
static syn_collectives library_of(const syn_hardware *hw) {
    return (syn_collectives){
        .name = "nccl",
        .protocols = {[SYN_PROTOCOL_LL] = protocol_of(hw, SYN_PROTOCOL_LL),
                      [SYN_PROTOCOL_SIMPLE] = protocol_of(hw, SYN_PROTOCOL_SIMPLE)},
        .fitted = hw->collectives.fitted};
}

syn_status measure_library(syn_hardware *hw, const timed_ops *of_two, const timed_ops *of_all,
                           int32_t ranks, fit_errors *errors, syn_error *err) {
    fit_free constants = {.n = 0};
    measured m = {0};
    syn_link link = {.bytes_per_ns = 0};
    measure_link(&link, of_all, ranks);
    /* Without a collective library, `inter` is the link of one rank; with a library it is the link
       of a node. */
    if (hw->collectives.name[0] == '\0')
        hw->inter.bytes_per_ns = fmin(hw->inter.bytes_per_ns * ranks, 1e6);
    hw->collectives = library_of(hw);
    add_near(&constants, "intra", AT(intra.bytes_per_ns), link.bytes_per_ns, 4);
    add_near(&constants, "ll", AT(collectives.protocols[SYN_PROTOCOL_LL].bytes_per_ns),
             link.bytes_per_ns / 10, 10);
    add_all(&constants, of_library, sizeof of_library / sizeof of_library[0]);
    if (of_two->n > 0) add_all(&constants, of_steps, sizeof of_steps / sizeof of_steps[0]);
    begin_anywhere(hw, &constants);
    syn_status s = add_rows(&m, of_two, 2, err);
    if (s == SYN_OK) s = add_rows(&m, of_all, (uint32_t)ranks, err);
    if (s == SYN_OK) s = fit_all(hw, &constants, &m, errors, err);
    for (size_t k = 0; s == SYN_OK && k < m.n; k++)
        measured_fitted_to(&m.rows[k], hw, &hw->collectives.fitted);
    measured_free(&m);
    return s;
}
