/* What lies behind tensor rows: buffers, reading and writing them, giving them back. */
#include <string.h>

#include "syntorch/context_private.h"
#include "syntorch/memory.h"

/* Bytes of the buffer behind a storage's owner. */
static size_t storage_bytes(const syn_ctx *ctx, uint32_t id) {
    return (size_t)syn_spec_bytes(syn_trace_spec(ctx->trace, id));
}

syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id) {
    if (!ctx->pool) return SYN_OK;
    const size_t bytes = storage_bytes(ctx, id);
    SYN_TRY(syn_grow(&ctx->live, &ctx->live_cap, ctx->n_live + 1, sizeof *ctx->live, &ctx->error));
    ctx->data[id] = ctx->backend->alloc(ctx->pool, bytes);
    if (!ctx->data[id]) return SYN_FAIL_NOMEM(&ctx->error, bytes, "a tensor");
    ctx->live[ctx->n_live++] = id; /* the newest row: the ids stay ascending */
    return SYN_OK;
}

void *syn__data(const syn_ctx *ctx, uint32_t id, const syn_operand *operand) {
    if (!ctx->pool || id == 0 || id >= ctx->trace->n_tensors) return NULL;
    char *start = ctx->data[ctx->trace->tensors[id].base];
    if (!start) return NULL;
    return start + operand->offset * (int64_t)syn_dtype_bytes((syn_dtype)operand->spec.dtype);
}

syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) {
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    syn_operand o;
    syn_trace_operand(ctx->trace, t.id, &o);
    const char *data = syn__data(ctx, t.id, &o);
    if (!data)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID, "tensor %u has no data to read on '%s'", t.id,
                        ctx->backend->name);
    if (bytes != syn_spec_bytes(&o.spec))
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "tensor %u has %llu bytes, but %zu were asked for", t.id,
                        (unsigned long long)syn_spec_bytes(&o.spec), bytes);
    if (syn_tensor_contiguous(ctx, t)) {
        if (bytes > 0) memcpy(buf, data, bytes);
        return SYN_OK;
    }
    const size_t elem = syn_dtype_bytes((syn_dtype)o.spec.dtype);
    int64_t index[SYN_MAX_RANK] = {0};
    for (char *to = buf, *end = to + bytes; to < end; to += elem) {
        int64_t at = 0;
        for (int d = 0; d < o.spec.rank; d++) at += index[d] * o.strides[d];
        memcpy(to, data + at * (int64_t)elem, elem);
        for (int d = o.spec.rank - 1; d >= 0 && ++index[d] == o.spec.dims[d]; d--) index[d] = 0;
    }
    return SYN_OK;
}

syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data, size_t bytes) {
    const uint32_t outside_flags = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    if (t.id == 0 || t.id >= ctx->trace->n_tensors || ctx->trace->tensors[t.id].producer != 0 ||
        !(ctx->trace->tensors[t.id].flags & outside_flags))
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "tensor %u is no parameter, input or state of this context: only those can "
                        "be written",
                        t.id);
    const size_t want = storage_bytes(ctx, t.id);
    const uint32_t text = ctx->trace->tensors[t.id].name; /* + 1 */
    const char *name = text ? syn_trace_text(ctx->trace, text - 1) : "";
    if (bytes != want)
        return SYN_FAIL(&ctx->error, SYN_E_SHAPE, "'%.128s' has %zu bytes, but %zu were given",
                        name, want, bytes);
    if (!ctx->pool) return SYN_OK;
    if (!ctx->data[t.id])
        return SYN_FAIL(&ctx->error, SYN_E_INVALID, "the data of '%.128s' were released", name);
    if (bytes > 0) memcpy(ctx->data[t.id], data, bytes);
    return SYN_OK;
}

syn_mark syn_ctx_mark(const syn_ctx *ctx) {
    return (syn_mark){(uint32_t)ctx->trace->n_tensors};
}

static bool is_kept(const syn_ctx *ctx, uint32_t id, const syn_tensor *keep, int n_keep) {
    for (int k = 0; k < n_keep; k++)
        if (keep[k].id < ctx->trace->n_tensors && ctx->trace->tensors[keep[k].id].base == id)
            return true;
    return false;
}

static void give_back(syn_ctx *ctx, uint32_t id) {
    ctx->backend->release(ctx->pool, ctx->data[id], storage_bytes(ctx, id));
    ctx->data[id] = NULL;
}

/* Costs what has a buffer behind the mark, not the rows behind it: a forward pass releases after
   each layer from one mark, and would otherwise look at all layers again. */
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep) {
    size_t first = ctx->n_live, left;
    while (first > 0 && ctx->live[first - 1] >= mark.tensor) first--;
    ctx->release_visits += ctx->n_live - first;
    left = first;
    for (size_t i = first; i < ctx->n_live; i++) {
        const uint32_t id = ctx->live[i];
        if (!ctx->data[id]) continue; /* dropped */
        if (is_kept(ctx, id, keep, n_keep)) ctx->live[left++] = id;
        else give_back(ctx, id);
    }
    ctx->n_live = left;
}

void syn_drop(syn_ctx *ctx, syn_tensor t) {
    if (!ctx->pool || t.id >= ctx->trace->n_tensors) return;
    const uint32_t base = ctx->trace->tensors[t.id].base;
    if (ctx->data[base]) give_back(ctx, base);
}

size_t syn_ctx_peak_bytes(const syn_ctx *ctx) {
    size_t used = 0, peak = 0, held = 0;
    if (ctx->pool) syn_pool_stats(ctx->pool, &used, &peak, &held);
    return peak;
}
