/* Creates the tables of a trace and reads rows. Dropping rows, hashing, numbering, sharding and
   verification are in trace_*.c. */
#include "syntorch/trace.h"

#include <string.h>

#include "syntorch/base/memory.h"

syn_status syn_trace_new(syn_trace **out, int32_t rank, int32_t world_size, syn_error *err) {
    syn_trace *t = syn_calloc(1, sizeof *t);
    if (!t) return SYN_FAIL_NOMEM(err, sizeof *t, "a trace");
    t->rank = rank;
    t->world_size = world_size;
    uint32_t id;
    syn_status s = syn_grow(&t->nodes, &t->nodes_cap, 1, sizeof *t->nodes, err);
    if (s == SYN_OK) s = syn_grow(&t->tensors, &t->tensors_cap, 1, sizeof *t->tensors, err);
    if (s == SYN_OK) s = syn_intern_put(&t->texts, "", 0, &id, err); /* text 0 is "" */
    if (s == SYN_OK) s = syn_intern_put(&t->blobs, "", 0, &id, err); /* blob 0 is empty */
    const syn_spec scalar = {SYN_F32, 0, {0}};
    if (s == SYN_OK) s = syn_intern_put(&t->specs, &scalar, sizeof scalar, &id, err);
    if (s != SYN_OK) {
        syn_trace_free(t);
        return s;
    }
    memset(t->nodes, 0, sizeof *t->nodes);
    memset(t->tensors, 0, sizeof *t->tensors);
    t->n_nodes = t->n_tensors = 1;
    t->hashed.next_node = t->hashed.next_tensor = 1;
    *out = t;
    return SYN_OK;
}

void syn_trace_free(syn_trace *trace) {
    if (!trace) return;
    syn_free(trace->nodes);
    syn_free(trace->tensors);
    syn_free(trace->inputs);
    syn_free(trace->times);
    syn_work_free(&trace->work);
    syn_free(trace->steps);
    syn_free(trace->passes);
    syn_free(trace->node_numbers.runs);
    syn_free(trace->tensor_numbers.runs);
    for (size_t i = 0; i < trace->n_groups; i++) {
        syn_free((void *)(uintptr_t)trace->groups[i].name);
        syn_free((void *)(uintptr_t)trace->groups[i].ranks);
    }
    syn_free(trace->groups);
    syn_free(trace->shards);
    syn_intern_free(&trace->texts);
    syn_intern_free(&trace->specs);
    syn_intern_free(&trace->layouts);
    syn_intern_free(&trace->blobs);
    syn_free(trace);
}

syn_status syn_trace_add_group(syn_trace *trace, const syn_group *group, uint16_t *row,
                               syn_error *err) {
    for (size_t i = 0; i < trace->n_groups; i++)
        if (trace->groups[i].id == group->id) {
            *row = (uint16_t)(i + 1);
            return SYN_OK;
        }
    if (trace->n_groups >= UINT16_MAX - 1)
        return SYN_FAIL(err, SYN_E_INVALID, "a trace has at most %d groups", UINT16_MAX - 1);
    SYN_TRY(syn_grow(&trace->groups, &trace->groups_cap, trace->n_groups + 1, sizeof *trace->groups,
                     err));
    const size_t bytes = (size_t)group->size * sizeof *group->ranks;
    char *name = syn_strdup(group->name);
    int32_t *ranks = syn_malloc(bytes);
    if (!name || !ranks) {
        syn_free(name);
        syn_free(ranks);
        return SYN_FAIL_NOMEM(err, bytes, "a group");
    }
    memcpy(ranks, group->ranks, bytes);
    trace->groups[trace->n_groups++] =
        (syn_group){group->id, name, ranks, group->size, group->index, NULL};
    *row = (uint16_t)trace->n_groups;
    return SYN_OK;
}

uint32_t syn_trace_step_of(const syn_trace *trace, uint32_t node) {
    size_t low = 0, n = trace->n_steps;
    while (n > 0) { /* counts the steps that begin at or before the node */
        const size_t half = n / 2;
        if (trace->steps[low + half].node <= node) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low ? trace->steps[low - 1].step : 0;
}

/* Returns a tensor row. An index from another trace, which may be out of range, gives the row of
   the invalid tensor. */
static const syn_trace_tensor *row_of(const syn_trace *trace, uint32_t tensor) {
    return &trace->tensors[tensor < trace->n_tensors ? tensor : 0];
}

const syn_spec *syn_trace_spec(const syn_trace *trace, uint32_t tensor) {
    return syn_intern_get(&trace->specs, row_of(trace, tensor)->spec);
}

const char *syn_trace_text(const syn_trace *trace, uint32_t id) {
    return syn_intern_get(&trace->texts, id);
}

void syn_trace_operand(const syn_trace *trace, uint32_t tensor, syn_operand *out) {
    const syn_trace_tensor *row = row_of(trace, tensor);
    out->spec = *(const syn_spec *)syn_intern_get(&trace->specs, row->spec);
    out->data = NULL;
    if (row->layout) {
        const syn_layout *layout = syn_intern_get(&trace->layouts, row->layout - 1);
        memcpy(out->strides, layout->strides, sizeof out->strides);
        out->offset = layout->offset;
        return;
    }
    out->offset = 0;
    int64_t stride = 1;
    memset(out->strides, 0, sizeof out->strides); /* unused entries are 0, because layouts of views
                                                     are interned as bytes */
    for (int d = out->spec.rank - 1; d >= 0; d--) {
        out->strides[d] = stride;
        stride *= out->spec.dims[d];
    }
}

int syn_trace_versions(const syn_trace *trace, const syn_trace_node *node) {
    return syn_opdef_versions(syn_trace_op(trace, node),
                              syn_intern_get(&trace->blobs, node->attrs));
}

syn_status syn_trace_call(const syn_trace *trace, uint32_t node, syn_call *call,
                          syn_operand **operands, size_t *cap, syn_error *err) {
    const syn_trace_node *n = &trace->nodes[node];
    SYN_TRY(syn_grow(operands, cap, (size_t)n->n_in + n->n_out, sizeof **operands, err));
    call->in = *operands;
    call->out = *operands + n->n_in;
    call->segments = NULL;
    call->def = syn_trace_op(trace, n);
    call->n_in = n->n_in;
    call->n_out = n->n_out;
    for (int i = 0; i < n->n_in; i++)
        syn_trace_operand(trace, trace->inputs[n->first_in + (uint32_t)i], &call->in[i]);
    for (int i = 0; i < n->n_out; i++)
        syn_trace_operand(trace, n->first_out + (uint32_t)i, &call->out[i]);
    call->attr = syn_intern_get(&trace->blobs, n->attrs);
    call->n_attr = (int)(syn_intern_entry_bytes(&trace->blobs, n->attrs) / sizeof(syn_attr));
    call->group = n->group ? &trace->groups[n->group - 1] : NULL;
    call->comm = NULL;
    call->err = NULL;
    return SYN_OK;
}

size_t syn_trace_memory_bytes(const syn_trace *trace) {
    return sizeof *trace + trace->nodes_cap * sizeof *trace->nodes +
           trace->tensors_cap * sizeof *trace->tensors + trace->inputs_cap * sizeof *trace->inputs +
           trace->times_cap * sizeof *trace->times + trace->steps_cap * sizeof *trace->steps +
           trace->passes_cap * sizeof *trace->passes + syn_work_memory_bytes(&trace->work) +
           (trace->node_numbers.runs_cap + trace->tensor_numbers.runs_cap) * sizeof(syn_trace_run) +
           trace->groups_cap * sizeof *trace->groups + trace->shards_cap * sizeof *trace->shards +
           syn_intern_memory_bytes(&trace->texts) + syn_intern_memory_bytes(&trace->specs) +
           syn_intern_memory_bytes(&trace->layouts) + syn_intern_memory_bytes(&trace->blobs);
}
