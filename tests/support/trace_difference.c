/* Implements trace_difference.h. Rows are matched by number, which a row keeps when earlier rows
   are dropped. */
#include "tests/support/trace_difference.h"

#include <string.h>

static bool texts_equal(const syn_trace *a, uint32_t x, const syn_trace *b, uint32_t y) {
    return strcmp(syn_trace_text(a, x), syn_trace_text(b, y)) == 0;
}

/* Whether tensor row a of `part` equals row b of `all`, from which no rows were dropped. */
static bool tensors_equal(const syn_trace *part, uint32_t a, const syn_trace *all, uint32_t b) {
    const syn_trace_tensor *x = &part->tensors[a], *y = &all->tensors[b];
    syn_operand o, p;
    char name[SYN_MAX_NAME], other[SYN_MAX_NAME];
    memset(&o, 0, sizeof o);
    memset(&p, 0, sizeof p);
    syn_trace_operand(part, a, &o);
    syn_trace_operand(all, b, &p);
    return syn_spec_equal(&o.spec, &p.spec) && o.offset == p.offset &&
           memcmp(o.strides, p.strides, sizeof o.strides) == 0 &&
           syn_trace_tensor_number(part, x->base) == y->base &&
           strcmp(syn_trace_tensor_name(part, a, name), syn_trace_tensor_name(all, b, other)) ==
               0 &&
           (x->producer
                ? x->flags == y->flags && syn_trace_node_number(part, x->producer) == y->producer
                : (x->flags & y->flags) == y->flags);
}

static bool nodes_equal(const syn_trace *part, uint32_t a, const syn_trace *all, uint32_t b) {
    const syn_trace_node *x = &part->nodes[a], *y = &all->nodes[b];
    const size_t bytes = syn_intern_entry_bytes(&part->blobs, x->attrs);
    bool same = x->op == y->op && x->group == y->group && x->phase == y->phase &&
                x->n_in == y->n_in && x->n_out == y->n_out && x->stream == y->stream &&
                texts_equal(part, x->scope, all, y->scope) &&
                texts_equal(part, x->label, all, y->label) &&
                syn_trace_step_of(part, a) == syn_trace_step_of(all, b) &&
                bytes == syn_intern_entry_bytes(&all->blobs, y->attrs) &&
                memcmp(syn_intern_get(&part->blobs, x->attrs),
                       syn_intern_get(&all->blobs, y->attrs), bytes) == 0;
    for (uint32_t i = 0; same && i < x->n_in; i++)
        same = syn_trace_tensor_number(part, part->inputs[x->first_in + i]) ==
               all->inputs[y->first_in + i];
    for (uint32_t i = 0; same && i < x->n_out; i++)
        same = tensors_equal(part, x->first_out + i, all, y->first_out + i);
    return same;
}

uint32_t trace_difference(const syn_trace *part, const syn_trace *all) {
    for (uint32_t row = 1; row < part->n_nodes; row++)
        if (!nodes_equal(part, row, all, syn_trace_node_number(part, row)))
            return syn_trace_node_number(part, row);
    for (uint32_t row = 1; row < part->n_tensors; row++)
        if (!tensors_equal(part, row, all, syn_trace_tensor_number(part, row)))
            return syn_trace_tensor_number(part, row);
    return 0;
}
