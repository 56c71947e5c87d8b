/* Groups op times by cost and averages them. */
#include "tools/calibrate/timed_ops.h"

#include <stdlib.h>

#include "syntorch/base/memory.h"
#include "tools/calibrate/measured.h"

static syn_status note(timed_ops *ops, const syn_node *node, double ns, uint32_t kernels,
                       syn_error *err) {
    timed_op *op = NULL;
    for (size_t i = ops->n; i-- > 0 && op == NULL;)
        if (measured_same_cost(&ops->at[i].node, node)) op = &ops->at[i];
    if (op == NULL) {
        SYN_TRY(syn_grow(&ops->at, &ops->cap, ops->n + 1, sizeof *ops->at, err));
        op = &ops->at[ops->n++];
        *op = (timed_op){.node = *node};
        op->node.deps = NULL;
        op->node.n_deps = op->node.n_inputs = op->node.n_outputs = op->node.n_attributes = 0;
        op->node.label = op->node.scope = "";
    }
    SYN_TRY(syn_grow(&op->all, &op->cap, op->n + 1, sizeof *op->all, err));
    op->all[op->n++] = ns;
    if (kernels > 0) op->kernels = kernels;
    return SYN_OK;
}

static syn_status take(timed_ops *ops, const syn_graph *graph, uint64_t *counted, syn_error *err) {
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (node == NULL) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        if (node == NULL || node->id <= *counted) continue;
        *counted = node->id;
        if (ops == NULL || (node->flags & SYN_NODE_VIRTUAL) != 0) continue;
        const syn_node_work *work = syn_graph_work(graph, 0, node);
        s = note(ops, node, syn_node_busy_ns(node), work != NULL ? work->n_pieces : 0, err);
    }
    syn_cursor_free(&cursor);
    return s;
}

syn_status timed_ops_take(timed_ops *ops, syn_ctx *ctx, uint64_t *counted, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_graph *graph = NULL;
    if (syn_ctx_sync(ctx) != SYN_OK) return syn_ctx_check(ctx, err);
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    const syn_status s = take(ops, graph, counted, err);
    syn_graph_free(graph);
    return s;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the mean of n sorted values without the lowest and highest 5 % (at least one value on
   each side, if possible). The median would be too short on a machine that is slow at times: a step
   has many ops, so its duration depends on their mean. */
static double mean_within(const double *values, size_t n) {
    const size_t twentieth = (n + 19) / 20, cut = n > 2 * twentieth ? twentieth : (n - 1) / 2;
    double sum = 0;
    for (size_t i = cut; i < n - cut; i++) sum += values[i];
    return sum / (double)(n - 2 * cut);
}

void timed_ops_settle(timed_ops *ops) {
    for (size_t i = 0; i < ops->n; i++) {
        timed_op *op = &ops->at[i];
        qsort(op->all, op->n, sizeof *op->all, compare);
        op->ns = mean_within(op->all, op->n);
    }
}

syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) {
    for (size_t i = 0; i < from->n; i++)
        for (size_t j = 0; j < from->at[i].n; j++)
            SYN_TRY(note(to, &from->at[i].node, from->at[i].all[j], from->at[i].kernels, err));
    return SYN_OK;
}

void timed_ops_free(timed_ops *ops) {
    for (size_t i = 0; i < ops->n; i++) syn_free(ops->at[i].all);
    syn_free(ops->at);
    *ops = (timed_ops){0};
}
