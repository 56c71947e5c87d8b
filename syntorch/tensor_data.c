/* Allocates, reads, writes and frees the data of tensors. */
#include <string.h>

#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"

syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id) {
    const size_t bytes = (size_t)syn_spec_bytes(syn_trace_spec(ctx->trace, id));
    const uint32_t flags = ctx->trace->tensors[id].flags;
    SYN_TRY(syn__storage_new(&ctx->storages, syn_trace_tensor_number(ctx->trace, id), bytes,
                             &ctx->error));
    if (flags & (SYN_TENSOR_PARAM | SYN_TENSOR_STATE))
        syn__storage_set_kind(&ctx->storages, syn__storage_number(ctx, id),
                              flags & SYN_TENSOR_PARAM ? SYN_MEMORY_WEIGHTS : SYN_MEMORY_STATES);
    return SYN_OK;
}

syn_status syn__set_data(syn_ctx *ctx, uint32_t id, const void *data) {
    const size_t bytes = (size_t)syn_spec_bytes(syn_trace_spec(ctx->trace, id));
    void *to = ctx->storages.at[syn__storage_number(ctx, id)].data;
    if (!ctx->backend->has_data) return SYN_OK;
    if (!data) return ctx->backend->fill(ctx->device, to, 0, bytes, &ctx->error);
    return ctx->backend->copy_in(ctx->device, to, data, bytes, &ctx->error);
}

/* The number of elements of a contiguous run in memory, which consists of the inner dimensions. The
   number of the other dimensions is stored in *outer. */
static int64_t side_by_side(const syn_operand *o, int *outer) {
    int64_t run = 1;
    *outer = o->spec.rank;
    while (*outer > 0 && (o->strides[*outer - 1] == run || o->spec.dims[*outer - 1] == 1))
        run *= o->spec.dims[--*outer];
    return run;
}

/* Copies all elements to buf, one contiguous run at a time, with copy_out of `backend`, or with
   memcpy if backend is NULL. */
static syn_status copy_runs(syn_ctx *ctx, const syn_backend *backend, const syn_operand *o,
                            const char *data, char *buf, size_t bytes) {
    const size_t elem = syn_dtype_bytes((syn_dtype)o->spec.dtype);
    int64_t index[SYN_MAX_RANK] = {0};
    int outer;
    const size_t run_bytes = (size_t)side_by_side(o, &outer) * elem;
    for (char *to = buf, *end = to + bytes; to < end; to += run_bytes) {
        int64_t at = 0;
        for (int d = 0; d < outer; d++) at += index[d] * o->strides[d];
        const char *from = data + at * (int64_t)elem;
        if (!backend) memcpy(to, from, run_bytes);
        else SYN_TRY(backend->copy_out(ctx->device, to, from, run_bytes, &ctx->error));
        for (int d = outer - 1; d >= 0 && ++index[d] == o->spec.dims[d]; d--) index[d] = 0;
    }
    return SYN_OK;
}

/* The number of bytes from the first element to the end of the last. */
static size_t span_bytes(const syn_operand *o) {
    int64_t last = 0;
    for (int d = 0; d < o->spec.rank; d++) last += (o->spec.dims[d] - 1) * o->strides[d];
    return (size_t)(last + 1) * syn_dtype_bytes((syn_dtype)o->spec.dtype);
}

/* Waits for the device, even if a copy failed, because earlier copies must not write to the
   caller's buffer after the return. */
static syn_status finish_reading(syn_ctx *ctx, syn_status copied) {
    const syn_status synced = ctx->backend->sync(ctx->device, &ctx->error);
    return copied == SYN_OK ? synced : copied;
}

/* Reads a tensor. If the host cannot access it and it is not contiguous, it is copied from the
   device as one span, including the gaps between its elements, because each copy has a high fixed
   cost. If the span is more than 16 times as large as the tensor, the contiguous runs are copied
   one by one. */
static syn_status read_all(syn_ctx *ctx, const syn_operand *o, const char *data, char *buf,
                           size_t bytes) {
    enum { WORTH = 16 };
    const syn_backend *backend = ctx->backend;
    const size_t span = bytes ? span_bytes(o) : 0;
    char *all = NULL;
    int outer;
    (void)side_by_side(o, &outer);
    if (!backend->on_host && outer > 0 && span / WORTH <= bytes) all = syn_malloc(span);
    if (!all) return finish_reading(ctx, copy_runs(ctx, backend, o, data, buf, bytes));
    syn_status s =
        finish_reading(ctx, backend->copy_out(ctx->device, all, data, span, &ctx->error));
    if (s == SYN_OK) s = copy_runs(ctx, NULL, o, all, buf, bytes);
    syn_free(all);
    return s;
}

/* Waits for operations that write a tensor, and then finds its data for reading. */
static syn_status readable(syn_ctx *ctx, syn_tensor t, syn_operand *o, const char **data) {
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    const uint32_t row = syn__own_row(ctx, t, "read");
    if (!row) return ctx->error.code;
    syn_trace_operand(ctx->trace, row, o);
    SYN_TRY(syn__wait_for_tensor(ctx, row, false));
    const syn_storage *storage = syn__storage(ctx, row);
    SYN_TRY(syn__check_current(ctx, row, storage, &ctx->error));
    *data = syn__data(storage, o);
    if (*data) return SYN_OK;
    return SYN_FAIL(&ctx->error, SYN_E_INVALID, "tensor %u has no data on '%s'", t.id,
                    ctx->backend->name);
}

syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) {
    syn_operand o;
    const char *data;
    SYN_TRY(readable(ctx, t, &o, &data));
    if (bytes != syn_spec_bytes(&o.spec))
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "tensor %u has %llu bytes, but %zu were requested", t.id,
                        (unsigned long long)syn_spec_bytes(&o.spec), bytes);
    return read_all(ctx, &o, data, buf, bytes);
}

/* Fails unless the tensor is contiguous and the elements first .. first + n - 1 exist. */
static syn_status check_some(syn_ctx *ctx, syn_tensor t, const syn_spec *spec, int64_t first,
                             int64_t n) {
    const int64_t all = syn_spec_elems(spec);
    if (syn_tensor_contiguous(ctx, t) && first >= 0 && n >= 0 && first <= all && n <= all - first)
        return SYN_OK;
    return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                    "tensor %u does not have %lld contiguous elements from %lld on", t.id,
                    (long long)n, (long long)first);
}

syn_status syn_tensor_read_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                 void *buf) {
    syn_operand o;
    const char *data;
    SYN_TRY(readable(ctx, t, &o, &data));
    SYN_TRY(check_some(ctx, t, &o.spec, first, n_elems));
    const size_t elem = syn_dtype_bytes((syn_dtype)o.spec.dtype);
    return finish_reading(ctx, ctx->backend->copy_out(ctx->device, buf, data + (size_t)first * elem,
                                                      (size_t)n_elems * elem, &ctx->error));
}

/* Finds the data of a tensor that has one f32 element. */
static syn_status find_number(syn_ctx *ctx, syn_tensor t, const char **data) {
    syn_operand o;
    SYN_TRY(readable(ctx, t, &o, data));
    if (o.spec.dtype == SYN_F32 && syn_spec_elems(&o.spec) == 1) return SYN_OK;
    return SYN_FAIL(&ctx->error, SYN_E_INVALID, "tensor %u is not a single f32", t.id);
}

static syn_status copy_number(syn_ctx *ctx, syn_tensor t, float *out) {
    const char *data;
    SYN_TRY(find_number(ctx, t, &data));
    return ctx->backend->copy_out(ctx->device, out, data, sizeof *out, &ctx->error);
}

syn_status syn_tensor_read_scalars(syn_ctx *ctx, const syn_tensor *ts, int n, float *out) {
    syn_status s = SYN_OK;
    int i = 0;
    while (i < n && s == SYN_OK) {
        s = copy_number(ctx, ts[i], &out[i]);
        if (s == SYN_OK) i++;
    }
    return i > 0 ? finish_reading(ctx, s) : s;
}

syn_status syn_tensor_read_begin(syn_ctx *ctx, const syn_tensor *ts, int n, int *id) {
    const void *from[SYN_ASYNC_READ_VALUES];
    int which = 0;
    while (which < SYN_ASYNC_READS && ctx->async_reads[which].n > 0) which++;
    if (n < 1 || n > SYN_ASYNC_READ_VALUES || which == SYN_ASYNC_READS)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "a read of %d numbers is not possible: a read has 1 to %d numbers, and at "
                        "most %d reads may be pending",
                        n, SYN_ASYNC_READ_VALUES, SYN_ASYNC_READS);
    syn__async_read *a = &ctx->async_reads[which];
    for (int i = 0; i < n; i++) {
        const char *data;
        SYN_TRY(find_number(ctx, ts[i], &data));
        from[i] = data;
    }
    if (!ctx->backend->ask) SYN_TRY(syn_tensor_read_scalars(ctx, ts, n, a->numbers));
    else SYN_TRY(ctx->backend->ask(ctx->device, which, from, n, &ctx->error));
    a->n = n;
    *id = which;
    return SYN_OK;
}

syn_status syn_tensor_read_end(syn_ctx *ctx, int id, float *out) {
    syn__async_read *a = id >= 0 && id < SYN_ASYNC_READS ? &ctx->async_reads[id] : NULL;
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    if (!a || a->n == 0)
        return SYN_FAIL(&ctx->error, SYN_E_INVALID,
                        "syn_tensor_read_end has no matching syn_tensor_read_begin");
    const int n = a->n;
    a->n = 0;
    if (ctx->backend->get) return ctx->backend->get(ctx->device, id, out, n, &ctx->error);
    memcpy(out, a->numbers, (size_t)n * sizeof *out);
    return SYN_OK;
}

syn_status syn_tensor_read_f32(syn_ctx *ctx, syn_tensor t, float *buf, size_t n_elems) {
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(ctx, t)->dtype;
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    if (!syn_dtype_is_half(dtype)) {
        if (dtype == SYN_F32) return syn_tensor_read(ctx, t, buf, n_elems * sizeof *buf);
        return SYN_FAIL(&ctx->error, SYN_E_UNSUPPORTED,
                        "tensor %u is %s, which cannot be read as f32", t.id,
                        syn_dtype_name(dtype));
    }
    uint16_t *half = syn_malloc(n_elems * sizeof *half + 1);
    if (!half) return SYN_FAIL_NOMEM(&ctx->error, n_elems * sizeof *half, "a copy of a tensor");
    const syn_status s = syn_tensor_read(ctx, t, half, n_elems * sizeof *half);
    if (s == SYN_OK) syn_half_widen(half, buf, n_elems, dtype);
    syn_free(half);
    return s;
}

/* Whether a row is not a view, that is, whether it owns its storage or is a new version of the
   owner. */
static bool is_whole(const syn_ctx *ctx, uint32_t row, const syn_storage *storage) {
    const syn_trace_tensor *t = &ctx->trace->tensors[row];
    return t->base == row ||
           (storage && !t->layout && storage->version == syn_trace_tensor_number(ctx->trace, row));
}

/* The name of a tensor row; "" if it has none. */
static const char *name_of(const syn_ctx *ctx, uint32_t row) {
    const uint32_t text = ctx->trace->tensors[row].name; /* id + 1 */
    return text ? syn_trace_text(ctx->trace, text - 1) : "";
}

/* Checks that a tensor can be written and returns its row; 0 after a failure. */
static uint32_t writable(syn_ctx *ctx, syn_tensor t) {
    const uint32_t outside_flags = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    if (ctx->error.code != SYN_OK) return 0;
    const uint32_t row = syn__own_row(ctx, t, "written");
    if (!row || syn__wait_for_tensor(ctx, row, true) != SYN_OK) return 0;
    const syn_storage *storage = syn__storage(ctx, row);
    if (syn__check_current(ctx, row, storage, &ctx->error) != SYN_OK) return 0;
    if (!is_whole(ctx, row, storage) || !(ctx->trace->tensors[row].flags & outside_flags))
        SYN_FAIL(&ctx->error, SYN_E_INVALID,
                 "tensor %u is not a parameter, input or state: only those can be written", t.id);
    else if (storage && storage->kept > storage->grads)
        SYN_FAIL(&ctx->error, SYN_E_INVALID,
                 "'%.128s' cannot be written: it is saved for a backward pass", name_of(ctx, row));
    return ctx->error.code == SYN_OK ? row : 0;
}

static syn_status check_data(syn_ctx *ctx, uint32_t row) {
    if (syn__storage(ctx, row)) return SYN_OK;
    return SYN_FAIL(&ctx->error, SYN_E_INVALID, "the data of '%.128s' was released",
                    name_of(ctx, row));
}

syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data, size_t bytes) {
    const uint32_t row = writable(ctx, t);
    if (!row) return ctx->error.code;
    const uint64_t want = syn_spec_bytes(syn_trace_spec(ctx->trace, row));
    if (bytes != want)
        return SYN_FAIL(&ctx->error, SYN_E_SHAPE, "'%.128s' has %llu bytes, but %zu were given",
                        name_of(ctx, row), (unsigned long long)want, bytes);
    SYN_TRY(check_data(ctx, row));
    return data ? syn__set_data(ctx, row, data) : SYN_OK;
}

syn_status syn_tensor_write_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                  const void *data) {
    const uint32_t row = writable(ctx, t);
    syn_operand o;
    if (!row) return ctx->error.code;
    syn_trace_operand(ctx->trace, row, &o);
    SYN_TRY(check_some(ctx, t, &o.spec, first, n_elems));
    SYN_TRY(check_data(ctx, row));
    const size_t elem = syn_dtype_bytes((syn_dtype)o.spec.dtype);
    char *to = syn__data(syn__storage(ctx, row), &o);
    if (!data || !to) return SYN_OK; /* meta has no data */
    return ctx->backend->copy_in(ctx->device, to + (size_t)first * elem, data,
                                 (size_t)n_elems * elem, &ctx->error);
}

syn_mark syn_ctx_mark(const syn_ctx *ctx) {
    const syn_trace *t = ctx->trace;
    return (syn_mark){syn_trace_tensor_number(t, (uint32_t)t->n_tensors),
                      syn_trace_node_number(t, (uint32_t)t->n_nodes), ctx->tag};
}

/* Whether a tensor in `keep` has the storage of tensor number `owner`. */
static bool is_kept(const syn_ctx *ctx, uint32_t owner, const syn_tensor *keep, int n_keep) {
    const uint32_t base = syn_trace_tensor_row(ctx->trace, owner);
    for (int k = 0; k < n_keep; k++)
        if (ctx->trace->tensors[syn__row(ctx, keep[k])].base == base) return true;
    return false;
}

/* Visits the storages that are newer than the mark, not the rows. A forward pass calls syn_release
   with the same mark after each layer, and would otherwise visit the rows of all earlier layers
   again. */
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep) {
    syn_storages *s = &ctx->storages;
    if (mark.tag != ctx->tag) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "the mark belongs to another context");
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

void syn_ctx_set_memory_kind(syn_ctx *ctx, syn_tensor t, syn_memory_kind kind) {
    const uint32_t row = syn__own_row(ctx, t, "given a kind of memory");
    const uint32_t number = syn__storage_number(ctx, row);
    if (number) syn__storage_set_kind(&ctx->storages, number, kind);
}

void syn_ctx_peak_parts(const syn_ctx *ctx, size_t parts[SYN_MEMORY_KINDS]) {
    memcpy(parts, ctx->storages.peak_by, sizeof ctx->storages.peak_by);
}

syn_status syn_ctx_count_reserved(syn_ctx *ctx, syn_error *err) {
    if (ctx->storages.caching) return SYN_OK;
    ctx->storages.caching = syn_calloc(1, sizeof *ctx->storages.caching);
    return ctx->storages.caching
               ? SYN_OK
               : SYN_FAIL_NOMEM(err, sizeof *ctx->storages.caching, "a simulated allocator");
}

size_t syn_ctx_reserved_bytes(const syn_ctx *ctx) {
    return ctx->storages.caching ? ctx->storages.caching->reserved_bytes : 0;
}
