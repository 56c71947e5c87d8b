/* Stores the ops of a segment, and compares calls with them (cuda_graph.h). */
#include "ops/cuda/cuda_segment.h"

#include <string.h>

#include "syntorch/base/memory.h"

size_t syn__call_pack(const syn_call *c, char *to) {
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{c->in, (size_t)c->n_in * sizeof *c->in},
                 {c->out, (size_t)c->n_out * sizeof *c->out},
                 {c->attr, (size_t)c->n_attr * sizeof *c->attr}};
    size_t n = 0;
    for (int i = 0; i < 3; n += parts[i++].bytes)
        if (to && parts[i].bytes) memcpy(to + n, parts[i].from, parts[i].bytes);
    return n;
}

bool syn__same_kind(const syn__graph_op *op, const syn_call *c, uint32_t distance) {
    return op->def == c->def && op->n_in == c->n_in && op->n_out == c->n_out &&
           op->n_attr == c->n_attr && op->distance == distance;
}

/* Compares operands by field, because padding and unused dimensions are undefined. */
static bool same_operands(const syn_operand *a, const syn_operand *b, int n) {
    for (int i = 0; i < n; i++) {
        const size_t dims = (size_t)a[i].spec.rank * sizeof *a[i].strides;
        if (a[i].data != b[i].data || a[i].spec.dtype != b[i].spec.dtype ||
            a[i].spec.rank != b[i].spec.rank || memcmp(a[i].spec.dims, b[i].spec.dims, dims) ||
            memcmp(a[i].strides, b[i].strides, dims))
            return false;
    }
    return true;
}

bool syn__same_call(const syn__segment *s, const syn__graph_op *op, const syn_call *c) {
    const syn_operand *operands = reinterpret_cast<const syn_operand *>(s->bytes + op->at);
    const syn_operand *out = operands + op->n_in;
    return same_operands(operands, c->in, c->n_in) && same_operands(out, c->out, c->n_out) &&
           (op->n_attr == 0 ||
            memcmp(out + op->n_out, c->attr, (size_t)op->n_attr * sizeof *c->attr) == 0);
}

syn__graph_op *syn__segment_append(syn__segment *s, const syn_call *c, syn_kernel kernel,
                                   uint32_t distance) {
    const size_t bytes = syn__call_pack(c, NULL);
    if (syn_grow(&s->ops, &s->ops_cap, s->n_ops + 1, sizeof *s->ops, NULL) != SYN_OK ||
        syn_grow(&s->bytes, &s->bytes_cap, s->n_bytes + bytes, 1, NULL) != SYN_OK)
        return NULL;
    syn__graph_op *op = &s->ops[s->n_ops++];
    memset(op, 0, sizeof *op);
    op->def = c->def;
    op->kernel = kernel;
    op->n_in = c->n_in;
    op->n_out = c->n_out;
    op->n_attr = c->n_attr;
    op->distance = distance;
    op->at = s->n_bytes;
    op->bytes = bytes;
    s->n_bytes += bytes;
    syn__call_pack(c, s->bytes + op->at);
    return op;
}

void syn__segment_drop_graph(syn__segment *s) {
    if (s->exec) cudaGraphExecDestroy(s->exec);
    if (s->graph) cudaGraphDestroy(s->graph);
    s->exec = NULL;
    s->graph = NULL;
    s->n_nodes = 0;
    if (s->state == SYN__READY) s->state = SYN__NEW;
}

void syn__segment_free(syn__segment *s) {
    syn__segment_drop_graph(s);
    syn_free(s->ops);
    syn_free(s->bytes);
    syn_free(s->nodes);
}
