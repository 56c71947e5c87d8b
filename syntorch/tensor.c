/* Creates tensor rows and reads their properties. tensor_data.c reads and writes their data. */
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/dispatch.h"

uint32_t syn__own_row(syn_ctx *ctx, syn_tensor t, const char *done) {
    const uint32_t row = syn__row(ctx, t);
    if (t.id == 0) syn_ctx_fail(ctx, SYN_E_INVALID, "the invalid tensor cannot be %s", done);
    else if (!row)
        syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u cannot be %s: it %s", t.id, done,
                     t.tag == ctx->tag ? "was forgotten" : "belongs to another context");
    return row;
}

syn_status syn__fail_stale(const syn_ctx *ctx, uint32_t row, uint32_t version, syn_error *err) {
    const syn_trace *t = ctx->trace;
    const uint32_t writer = t->tensors[syn_trace_tensor_row(t, version)].producer;
    char name[SYN_MAX_NAME], by[64] = "a forgotten op";
    if (writer)
        snprintf(by, sizeof by, "%s (node %u)", syn_trace_op(t, &t->nodes[writer])->name,
                 syn_trace_node_number(t, writer));
    return SYN_FAIL(
        err, SYN_E_INVALID, "tensor %u, '%.128s', was overwritten by %s; use the result, tensor %u",
        syn_trace_tensor_number(t, row), syn_trace_tensor_name(t, row, name), by, version);
}

syn_tensor syn_current_version(const syn_ctx *ctx, syn_tensor t) {
    const uint32_t row = syn__row(ctx, t);
    const syn_storage *storage = syn__storage(ctx, row);
    return storage ? (syn_tensor){storage->version, ctx->tag} : (syn_tensor){0};
}

void syn__contiguous_strides(syn_operand *operand) {
    int64_t stride = 1;
    memset(operand->strides, 0, sizeof operand->strides);
    for (int d = operand->spec.rank - 1; d >= 0; d--) {
        operand->strides[d] = stride;
        stride *= operand->spec.dims[d];
    }
    operand->offset = 0;
}

/* Whether an operand is contiguous from offset 0. */
static bool plain(const syn_operand *operand) {
    int64_t stride = 1;
    for (int d = operand->spec.rank - 1; d >= 0; d--) {
        if (operand->strides[d] != stride && operand->spec.dims[d] != 1) return false;
        stride *= operand->spec.dims[d];
    }
    return operand->offset == 0;
}

uint32_t syn__append_tensor(syn_ctx *ctx, const syn_operand *operand, uint32_t producer,
                            uint32_t base, uint32_t flags, const char *name) {
    syn_trace *t = ctx->trace;
    syn_error *err = &ctx->error;
    const uint32_t id = (uint32_t)t->n_tensors;
    syn_trace_tensor row = {0, 0, producer, base ? base : id, 0, (uint16_t)flags, 0};
    if (syn__number_of(&t->tensor_numbers, id) >= UINT32_MAX - 1)
        return syn_ctx_fail(ctx, SYN_E_NOMEM, "a context can create at most 2^32 tensors").id;
    if (syn_intern_put(&t->specs, &operand->spec, sizeof operand->spec, &row.spec, err) != SYN_OK)
        return 0;
    if (base && !plain(operand)) {
        syn_layout layout;
        memcpy(layout.strides, operand->strides, sizeof layout.strides);
        layout.offset = operand->offset;
        if (syn_intern_put(&t->layouts, &layout, sizeof layout, &row.layout, err) != SYN_OK)
            return 0;
        row.layout++;
    }
    if (name) {
        if (syn_intern_put(&t->texts, name, strlen(name), &row.name, err) != SYN_OK) return 0;
        row.name++;
    }
    if (syn_grow(&t->tensors, &t->tensors_cap, t->n_tensors + 1, sizeof row, err) != SYN_OK)
        return 0;
    t->tensors[id] = row;
    t->n_tensors++;
    return id;
}

/* Creates a tensor that no op produces, that is, an input or a state. */
static syn_tensor outside(syn_ctx *ctx, const char *name, const syn_spec *spec, uint32_t flags,
                          const void *data) {
    if (ctx->error.code != SYN_OK) return (syn_tensor){0};
    if (!syn_spec_valid(spec))
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "the shape of '%s' is negative or too large", name);
    syn_operand operand = {.spec = *spec};
    syn__contiguous_strides(&operand);
    const uint32_t id = syn__append_tensor(ctx, &operand, 0, 0, flags, name);
    if (!id || syn__alloc_data(ctx, id) != SYN_OK || syn__set_data(ctx, id, data) != SYN_OK)
        return (syn_tensor){0};
    return syn__tensor(ctx, id);
}

syn_tensor syn_input(syn_ctx *ctx, const char *name, const syn_spec *spec, const void *data) {
    return outside(ctx, name, spec, SYN_TENSOR_INPUT, data);
}

syn_tensor syn_state(syn_ctx *ctx, const char *name, const syn_spec *spec) {
    return outside(ctx, name, spec, SYN_TENSOR_STATE, NULL);
}

const syn_spec *syn_tensor_spec(const syn_ctx *ctx, syn_tensor t) {
    return syn_trace_spec(ctx->trace, syn__row(ctx, t));
}

int64_t syn_tensor_dim(const syn_ctx *ctx, syn_tensor t, int dim) {
    const syn_spec *spec = syn_tensor_spec(ctx, t);
    if (dim < 0) dim += spec->rank;
    return dim >= 0 && dim < spec->rank ? spec->dims[dim] : 1;
}

void syn__tensor_operand(const syn_ctx *ctx, syn_tensor t, syn_operand *out) {
    syn_trace_operand(ctx->trace, syn__row(ctx, t), out);
}

bool syn_tensor_contiguous(const syn_ctx *ctx, syn_tensor t) {
    syn_operand operand;
    syn__tensor_operand(ctx, t, &operand);
    operand.offset = 0;
    return plain(&operand);
}

syn_tensor syn_name(syn_ctx *ctx, syn_tensor t, const char *label) {
    if (ctx->error.code != SYN_OK || t.id == 0) return t;
    const uint32_t producer = ctx->trace->tensors[syn__own_row(ctx, t, "named")].producer;
    uint32_t id;
    if (producer &&
        syn_intern_put(&ctx->trace->texts, label, strlen(label), &id, &ctx->error) == SYN_OK)
        ctx->trace->nodes[producer].label = id;
    return t;
}
