#include "syntorch/trace.h"

#include <string.h>

#include "syntorch/memory.h"

syn_status syn_trace_new(syn_trace **out, int32_t rank, int32_t world_size, syn_error *err) {
    syn_trace *t = syn_calloc(1, sizeof *t);
    if (!t) return SYN_FAIL_NOMEM(err, sizeof *t, "a trace");
    t->rank = rank;
    t->world_size = world_size;
    uint32_t id;
    syn_status s = syn_grow(&t->nodes, &t->nodes_cap, 1, sizeof *t->nodes, err);
    if (s == SYN_OK) s = syn_grow(&t->tensors, &t->tensors_cap, 1, sizeof *t->tensors, err);
    if (s == SYN_OK) s = syn_intern_put(&t->texts, "", 0, &id, err); /* text 0: "" */
    if (s == SYN_OK) s = syn_intern_put(&t->blobs, "", 0, &id, err); /* blob 0: none */
    const syn_spec scalar = {SYN_F32, 0, {0}};
    if (s == SYN_OK) s = syn_intern_put(&t->specs, &scalar, sizeof scalar, &id, err);
    if (s != SYN_OK) {
        syn_trace_free(t);
        return s;
    }
    memset(t->nodes, 0, sizeof *t->nodes);
    memset(t->tensors, 0, sizeof *t->tensors);
    t->n_nodes = t->n_tensors = 1;
    *out = t;
    return SYN_OK;
}

void syn_trace_free(syn_trace *trace) {
    if (!trace) return;
    syn_free(trace->nodes);
    syn_free(trace->tensors);
    syn_free(trace->inputs);
    syn_free(trace->times);
    syn_free(trace->steps);
    for (size_t i = 0; i < trace->n_groups; i++) {
        syn_free((void *)(uintptr_t)trace->groups[i].name);
        syn_free((void *)(uintptr_t)trace->groups[i].ranks);
    }
    syn_free(trace->groups);
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
        return SYN_FAIL(err, SYN_E_INVALID, "a trace holds at most %d groups", UINT16_MAX - 1);
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

/* An id of another trace is taken for the poisoned tensor; the door refuses both. */
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
    memset(out->strides, 0, sizeof out->strides); /* views of it are interned whole */
    for (int d = out->spec.rank - 1; d >= 0; d--) {
        out->strides[d] = stride;
        stride *= out->spec.dims[d];
    }
}

void syn_trace_call(const syn_trace *trace, uint32_t node, syn_call *call) {
    const syn_trace_node *n = &trace->nodes[node];
    call->def = &syn_op_table[n->op];
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
    call->wait_ns = 0;
    call->err = NULL;
}

/* Attributes without the seeds. A list takes all that is left. */
static uint64_t hash_attrs(const syn_trace *trace, const syn_trace_node *n, uint64_t h) {
    const syn_attr *attr = syn_intern_get(&trace->blobs, n->attrs);
    size_t left = syn_intern_entry_bytes(&trace->blobs, n->attrs) / sizeof *attr;
    for (const char *type = syn_op_table[n->op].attrs; left > 0; attr++, left--) {
        type = strchr(type, ':') + 1;
        if (*type == 'l') return syn_hash(attr, left * sizeof *attr, h);
        if (*type != 's') h = syn_hash(attr, sizeof *attr, h);
    }
    return h;
}

static uint64_t hash_text(const syn_trace *trace, uint32_t id, uint64_t h) {
    return syn_hash(syn_trace_text(trace, id), syn_intern_entry_bytes(&trace->texts, id), h);
}

static uint64_t hash_tensor(const syn_trace *trace, uint32_t id, uint64_t h) {
    const syn_trace_tensor *t = &trace->tensors[id];
    const uint32_t fixed[3] = {t->producer, t->base, t->flags};
    h = syn_hash(fixed, sizeof fixed, h);
    h = syn_hash(syn_trace_spec(trace, id), sizeof(syn_spec), h);
    return t->name ? hash_text(trace, t->name - 1, h) : h;
}

uint64_t syn_trace_hash(const syn_trace *trace) {
    uint64_t h = 0;
    for (uint32_t id = 1; id < trace->n_tensors; id++) h = hash_tensor(trace, id, h);
    for (size_t i = 1; i < trace->n_nodes; i++) {
        const syn_trace_node *n = &trace->nodes[i];
        const char *op = syn_op_table[n->op].name;
        h = syn_hash(op, strlen(op), h);
        const uint32_t fixed[5] = {n->phase, n->stream, n->n_in, n->n_out, n->first_out};
        h = syn_hash(fixed, sizeof fixed, h);
        h = hash_text(trace, n->scope, h);
        h = hash_text(trace, n->label, h);
        h = hash_attrs(trace, n, h);
        h = syn_hash(trace->inputs + n->first_in, n->n_in * sizeof *trace->inputs, h);
        if (n->group) {
            const syn_group *g = &trace->groups[n->group - 1];
            h = syn_hash(&g->id, sizeof g->id, h);
            h = syn_hash(g->ranks, (size_t)g->size * sizeof *g->ranks, h);
        }
    }
    return syn_hash(trace->steps, trace->n_steps * sizeof *trace->steps, h);
}

size_t syn_trace_memory_bytes(const syn_trace *trace) {
    return sizeof *trace + trace->nodes_cap * sizeof *trace->nodes +
           trace->tensors_cap * sizeof *trace->tensors + trace->inputs_cap * sizeof *trace->inputs +
           trace->times_cap * sizeof *trace->times + trace->steps_cap * sizeof *trace->steps +
           trace->groups_cap * sizeof *trace->groups + syn_intern_memory_bytes(&trace->texts) +
           syn_intern_memory_bytes(&trace->specs) + syn_intern_memory_bytes(&trace->layouts) +
           syn_intern_memory_bytes(&trace->blobs);
}
