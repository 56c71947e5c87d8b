#include "syntorch/context.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/context_private.h"
#include "syntorch/memory.h"

syn_status syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err) {
    if (comm && !comm->ops->moves_data && device != SYN_DEVICE_META)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the '%s' communicator moves no data: it needs --device meta",
                        comm->ops->name);
    syn_ctx *ctx = syn_calloc(1, sizeof *ctx);
    if (!ctx) return SYN_FAIL_NOMEM(err, sizeof *ctx, "a context");
    ctx->device = device;
    ctx->backend = syn_backend_get(device);
    ctx->comm = comm;
    syn_status s = syn_trace_new(&ctx->trace, comm ? comm->rank : 0, comm ? comm->size : 1, err);
    if (s == SYN_OK && ctx->backend->alloc) {
        ctx->pool = syn_pool_new();
        if (!ctx->pool) s = SYN_FAIL_NOMEM(err, 0, "a buffer pool");
    }
    if (s != SYN_OK) {
        syn_ctx_free(ctx);
        return s;
    }
    uint64_t cpu_ns;
    if (ctx->backend->clock) ctx->backend->clock(&ctx->start_ns, &cpu_ns);
    if (ctx->backend->clock && comm && comm->origin_ns) ctx->start_ns = comm->origin_ns;
    *out = ctx;
    return SYN_OK;
}

void syn_ctx_free(syn_ctx *ctx) {
    if (!ctx) return;
    syn_release(ctx, (syn_mark){1}, NULL, 0);
    syn_free(ctx->data);
    syn_free(ctx->live);
    syn_free(ctx->params);
    syn_workers_free(ctx->workers);
    syn_pool_free(ctx->pool);
    syn_trace_free(ctx->trace);
    syn_free(ctx);
}

const syn_trace *syn_ctx_trace(const syn_ctx *ctx) {
    return ctx->trace;
}

syn_device syn_ctx_device(const syn_ctx *ctx) {
    return ctx->device;
}

syn_comm *syn_ctx_comm(const syn_ctx *ctx) {
    return ctx->comm;
}

int32_t syn_ctx_rank(const syn_ctx *ctx) {
    return ctx->trace->rank;
}

syn_status syn_ctx_set_threads(syn_ctx *ctx, int threads, syn_error *err) {
    if (!ctx->pool) return SYN_OK;
    syn_workers *workers = NULL;
    if (threads != 1) SYN_TRY(syn_workers_new(&workers, threads, err));
    syn_workers_free(ctx->workers);
    ctx->workers = workers;
    return SYN_OK;
}

int syn_ctx_threads(const syn_ctx *ctx) {
    return syn_workers_count(ctx->workers);
}

syn_status syn_ctx_status(const syn_ctx *ctx) {
    return ctx->error.code;
}

const syn_error *syn_ctx_error(const syn_ctx *ctx) {
    return &ctx->error;
}

syn_error *syn_ctx_error_slot(syn_ctx *ctx) {
    return &ctx->error;
}

syn_tensor syn_ctx_fail(syn_ctx *ctx, syn_status code, const char *fmt, ...) {
    char text[sizeof ctx->error.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *scope =
        ctx->n_scopes ? syn_trace_text(ctx->trace, ctx->scopes[ctx->n_scopes - 1]) : "";
    if (*scope) SYN_FAIL(&ctx->error, code, "%s (in %s)", text, scope);
    else SYN_FAIL(&ctx->error, code, "%s", text);
    return (syn_tensor){0};
}

/* ---- scopes, phases, steps ------------------------------------------------------------------- */

void syn_push_scope(syn_ctx *ctx, const char *name) {
    if (ctx->error.code != SYN_OK) return;
    if (ctx->n_scopes == SYN__SCOPE_DEPTH) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "more than %d scopes inside each other at '%s'",
                     SYN__SCOPE_DEPTH, name);
        return;
    }
    char full[512];
    const uint32_t outer = ctx->n_scopes ? ctx->scopes[ctx->n_scopes - 1] : 0;
    const char *prefix = syn_trace_text(ctx->trace, outer);
    const int n = snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", name);
    if (n < 0 || (size_t)n >= sizeof full) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "the scope name '%.64s...' is too long", full);
        return;
    }
    uint32_t id;
    if (syn_intern_put(&ctx->trace->texts, full, (size_t)n, &id, &ctx->error) != SYN_OK) return;
    ctx->scopes[ctx->n_scopes++] = id;
}

void syn_push_scope_index(syn_ctx *ctx, const char *name, int index) {
    char text[512];
    const int n = snprintf(text, sizeof text, "%s.%d", name, index);
    if (n < 0 || (size_t)n >= sizeof text)
        syn_ctx_fail(ctx, SYN_E_INVALID, "the scope name '%.64s...' is too long", name);
    else syn_push_scope(ctx, text);
}

void syn_pop_scope(syn_ctx *ctx) {
    /* After a failure pushes stop counting, so pops must not either. */
    if (ctx->error.code == SYN_OK && ctx->n_scopes > 0) ctx->n_scopes--;
}

void syn_set_phase(syn_ctx *ctx, syn_phase phase) {
    ctx->phase = phase;
}

void syn_next_step(syn_ctx *ctx) {
    syn_trace *t = ctx->trace;
    if (ctx->error.code != SYN_OK) return;
    if (syn_grow(&t->steps, &t->steps_cap, t->n_steps + 1, sizeof *t->steps, &ctx->error) != SYN_OK)
        return;
    t->steps[t->n_steps++] = (uint32_t)t->n_nodes;
}

syn_tensor syn_name(syn_ctx *ctx, syn_tensor t, const char *label) {
    if (ctx->error.code != SYN_OK) return t;
    const uint32_t producer = t.id < ctx->trace->n_tensors ? ctx->trace->tensors[t.id].producer : 0;
    uint32_t id;
    if (producer &&
        syn_intern_put(&ctx->trace->texts, label, strlen(label), &id, &ctx->error) == SYN_OK)
        ctx->trace->nodes[producer].label = id;
    return t;
}

/* ---- tensor rows and their data -------------------------------------------------------------- */

void syn__contiguous_strides(syn_operand *operand) {
    int64_t stride = 1;
    memset(operand->strides, 0, sizeof operand->strides);
    for (int d = operand->spec.rank - 1; d >= 0; d--) {
        operand->strides[d] = stride;
        stride *= operand->spec.dims[d];
    }
    operand->offset = 0;
}

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
    syn_trace_tensor row = {0, 0, producer, base ? base : id, 0, flags};
    if (t->n_tensors >= UINT32_MAX - 1)
        return syn_ctx_fail(ctx, SYN_E_NOMEM, "a trace holds at most 2^32 tensors").id;
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
    if (ctx->pool) {
        const size_t old = ctx->data_cap;
        if (syn_grow(&ctx->data, &ctx->data_cap, (size_t)id + 1, sizeof *ctx->data, err) != SYN_OK)
            return 0;
        memset(ctx->data + old, 0, (ctx->data_cap - old) * sizeof *ctx->data);
    }
    t->tensors[id] = row;
    t->n_tensors++;
    return id;
}

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

static syn_tensor outside(syn_ctx *ctx, const char *name, const syn_spec *spec, uint32_t flags,
                          const void *data) {
    if (ctx->error.code != SYN_OK) return (syn_tensor){0};
    if (!syn_spec_valid(spec))
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "the shape of '%s' is negative or too large", name);
    syn_operand operand = {.spec = *spec};
    syn__contiguous_strides(&operand);
    const uint32_t id = syn__append_tensor(ctx, &operand, 0, 0, flags, name);
    if (!id || syn__alloc_data(ctx, id) != SYN_OK) return (syn_tensor){0};
    if (ctx->pool && data) memcpy(ctx->data[id], data, storage_bytes(ctx, id));
    if (ctx->pool && !data) memset(ctx->data[id], 0, storage_bytes(ctx, id));
    return (syn_tensor){id};
}

syn_tensor syn_input(syn_ctx *ctx, const char *name, const syn_spec *spec, const void *data) {
    return outside(ctx, name, spec, SYN_TENSOR_INPUT, data);
}

syn_tensor syn_state(syn_ctx *ctx, const char *name, const syn_spec *spec) {
    return outside(ctx, name, spec, SYN_TENSOR_STATE, NULL);
}

const syn_spec *syn_tensor_spec(const syn_ctx *ctx, syn_tensor t) {
    return syn_trace_spec(ctx->trace, t.id);
}

int64_t syn_tensor_dim(const syn_ctx *ctx, syn_tensor t, int dim) {
    const syn_spec *spec = syn_tensor_spec(ctx, t);
    if (dim < 0) dim += spec->rank;
    return dim >= 0 && dim < spec->rank ? spec->dims[dim] : 1;
}

bool syn_tensor_contiguous(const syn_ctx *ctx, syn_tensor t) {
    syn_operand operand;
    syn_trace_operand(ctx->trace, t.id, &operand);
    operand.offset = 0;
    return plain(&operand);
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

syn_tensor syn_find_param(const syn_ctx *ctx, const char *name) {
    for (uint32_t id = 1; id < ctx->trace->n_tensors; id++) {
        const syn_trace_tensor *t = &ctx->trace->tensors[id];
        if ((t->flags & SYN_TENSOR_PARAM) && !t->producer && t->name &&
            strcmp(syn_trace_text(ctx->trace, t->name - 1), name) == 0)
            return (syn_tensor){id};
    }
    return (syn_tensor){0};
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
