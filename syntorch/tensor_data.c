/* What lies behind tensor rows: buffers, reading and writing them, giving them back. */
#include "syntorch/context_private.h"

syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id) {
    const size_t bytes = (size_t)syn_spec_bytes(syn_trace_spec(ctx->trace, id));
    return syn__storage_new(&ctx->storages, syn_trace_tensor_number(ctx->trace, id), bytes,
                            &ctx->error);
}

syn_status syn__set_data(syn_ctx *ctx, uint32_t id, const void *data) {
    const size_t bytes = (size_t)syn_spec_bytes(syn_trace_spec(ctx->trace, id));
    void *to = ctx->storages.at[syn__storage_number(ctx, id)].data;
    if (!ctx->backend->has_data) return SYN_OK;
    if (!data) return ctx->backend->fill(ctx->device, to, 0, bytes, &ctx->error);
    return ctx->backend->copy_in(ctx->device, to, data, bytes, &ctx->error);
}

/* Asks for copies of all elements, of those side by side in one. */
static syn_status copy_out(syn_ctx *ctx, const syn_operand *o, const char *data, char *buf,
                           size_t bytes) {
    const size_t elem = syn_dtype_bytes((syn_dtype)o->spec.dtype);
    int64_t index[SYN_MAX_RANK] = {0}, run = 1; /* elements side by side, of the dimensions from */
    int outer = o->spec.rank;                   /* this one on */
    while (outer > 0 && (o->strides[outer - 1] == run || o->spec.dims[outer - 1] == 1))
        run *= o->spec.dims[--outer];
    const size_t run_bytes = (size_t)run * elem;
    for (char *to = buf, *end = to + bytes; to < end; to += run_bytes) {
        int64_t at = 0;
        for (int d = 0; d < outer; d++) at += index[d] * o->strides[d];
        SYN_TRY(ctx->backend->copy_out(ctx->device, to, data + at * (int64_t)elem, run_bytes,
                                       &ctx->error));
        for (int d = outer - 1; d >= 0 && ++index[d] == o->spec.dims[d]; d--) index[d] = 0;
    }
    return SYN_OK;
}

syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) {
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    const uint32_t row = syn__own_row(ctx, t, "read");
    if (!row) return ctx->error.code;
    syn_operand o;
    syn_trace_operand(ctx->trace, row, &o);
    SYN_TRY(syn__await(ctx, row, false));
    const syn_storage *storage = syn__storage(ctx, row);
    SYN_TRY(syn__check_current(ctx, row, storage, &ctx->error));
    const char *data = syn__data(storage, &o);
    if (!data)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID, "tensor %u has no data to read on '%s'", t.id,
                        ctx->backend->name);
    if (bytes != syn_spec_bytes(&o.spec))
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "tensor %u has %llu bytes, but %zu were asked for", t.id,
                        (unsigned long long)syn_spec_bytes(&o.spec), bytes);
    const syn_status copied = copy_out(ctx, &o, data, buf, bytes);
    /* always: copies before one that failed must not write to the caller's buffer later */
    const syn_status synced = ctx->backend->sync(ctx->device, &ctx->error);
    return copied == SYN_OK ? synced : copied;
}

/* Whether a row is what its storage was made for, or a new version of that: no view. */
static bool is_whole(const syn_ctx *ctx, uint32_t row, const syn_storage *storage) {
    const syn_trace_tensor *t = &ctx->trace->tensors[row];
    return t->base == row ||
           (storage && !t->layout && storage->version == syn_trace_tensor_number(ctx->trace, row));
}

syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data, size_t bytes) {
    const uint32_t outside_flags = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    const uint32_t row = syn__own_row(ctx, t, "written");
    if (!row) return ctx->error.code;
    SYN_TRY(syn__await(ctx, row, true));
    const syn_storage *storage = syn__storage(ctx, row);
    SYN_TRY(syn__check_current(ctx, row, storage, &ctx->error));
    if (!is_whole(ctx, row, storage) || !(ctx->trace->tensors[row].flags & outside_flags))
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "tensor %u is no parameter, input or state: only those can be written",
                        t.id);
    syn_operand o;
    syn_trace_operand(ctx->trace, row, &o);
    const uint64_t want = syn_spec_bytes(&o.spec);
    const uint32_t text = ctx->trace->tensors[row].name; /* + 1 */
    const char *name = text ? syn_trace_text(ctx->trace, text - 1) : "";
    if (bytes != want)
        return SYN_FAIL(&ctx->error, SYN_E_SHAPE, "'%.128s' has %llu bytes, but %zu were given",
                        name, (unsigned long long)want, bytes);
    if (!storage)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID, "the data of '%.128s' were released", name);
    if (storage->kept > storage->grads)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "'%.128s' cannot be written: a backward pass still to come is computed "
                        "from what it holds",
                        name);
    return data ? syn__set_data(ctx, row, data) : SYN_OK;
}

syn_mark syn_ctx_mark(const syn_ctx *ctx) {
    const syn_trace *t = ctx->trace;
    return (syn_mark){syn_trace_tensor_number(t, (uint32_t)t->n_tensors),
                      syn_trace_node_number(t, (uint32_t)t->n_nodes), ctx->tag};
}

/* Whether a tensor of `keep` lies in the storage that tensor number `owner` owns. */
static bool is_kept(const syn_ctx *ctx, uint32_t owner, const syn_tensor *keep, int n_keep) {
    const uint32_t base = syn_trace_tensor_row(ctx->trace, owner);
    for (int k = 0; k < n_keep; k++)
        if (ctx->trace->tensors[syn__row(ctx, keep[k])].base == base) return true;
    return false;
}

/* Costs what has a buffer behind the mark, not the rows behind it: a forward pass releases after
   each layer from one mark, and would otherwise look at all layers again. */
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep) {
    syn_storages *s = &ctx->storages;
    if (mark.tag != ctx->tag) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "a mark of another context was given");
        return;
    }
    for (int k = 0; k < n_keep; k++)
        if (keep[k].id) syn__own_row(ctx, keep[k], "kept");
    for (uint32_t at = s->newest, older; at && s->at[at].tensor >= mark.tensor; at = older) {
        older = s->at[at].older;
        s->visits++;
        if (!is_kept(ctx, s->at[at].tensor, keep, n_keep)) syn__storage_release(s, at);
    }
}

void syn_drop(syn_ctx *ctx, syn_tensor t) {
    const bool gone = t.id == 0 || (t.tag == ctx->tag && !syn__row(ctx, t));
    const uint32_t number = gone ? 0 : syn__storage_number(ctx, syn__own_row(ctx, t, "dropped"));
    if (number) syn__storage_release(&ctx->storages, number);
}

void syn_pin(syn_ctx *ctx, syn_tensor t) {
    const uint32_t row = syn__own_row(ctx, t, "pinned"), number = syn__storage_number(ctx, row);
    if (number) ctx->storages.at[number].pins++;
    else if (row)
        syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u cannot be pinned: it has no data", t.id);
}

void syn_unpin(syn_ctx *ctx, syn_tensor t) {
    const uint32_t row = syn__own_row(ctx, t, "unpinned"), number = syn__storage_number(ctx, row);
    if (number && ctx->storages.at[number].pins > 0) syn__storage_unpin(&ctx->storages, number);
    else if (row) syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u is not pinned", t.id);
}

size_t syn_ctx_peak_bytes(const syn_ctx *ctx) {
    return ctx->storages.peak_bytes;
}
