/* Contexts: creating and freeing them, and their device, error, scopes and steps. Ops and tensors
   are in dispatch.c, tensor*.c and parameter.c. */
#include "syntorch/context.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/communicator_private.h"
#include "syntorch/context_private.h"

/* Identifies the context, so that tensors of another context are rejected. Contexts have different
   addresses or start times, and the tag hashes both: two contexts collide with probability
   2^-32. */
static uint32_t new_tag(const syn_ctx *ctx) {
    const uint64_t device_info[2] = {(uint64_t)(uintptr_t)ctx, syn__clock_ns()};
    const uint32_t tag = (uint32_t)syn_hash(device_info, sizeof device_info, 0);
    return tag ? tag : 1;
}

syn_status syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err) {
    const syn_backend *backend;
    SYN_TRY(syn_backend_get(device, &backend, err));
    return syn_ctx_new_on(out, backend, comm, err);
}

syn_status syn_ctx_new_on(syn_ctx **out, const syn_backend *backend, syn_comm *comm,
                          syn_error *err) {
    if (comm && !comm->ops->moves_data && backend->has_data)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the '%s' communicator transfers no data; use it with --device meta",
                        comm->ops->name);
    syn_ctx *ctx = syn_calloc(1, sizeof *ctx);
    if (!ctx) return SYN_FAIL_NOMEM(err, sizeof *ctx, "a context");
    ctx->tag = new_tag(ctx);
    ctx->backend = ctx->storages.backend = backend;
    ctx->comm = comm;
    syn__comm_hold(comm);
    ctx->start_ns = comm && comm->origin_ns ? comm->origin_ns : syn__clock_ns();
    syn_status s = syn_trace_new(&ctx->trace, comm ? comm->rank : 0, comm ? comm->size : 1, err);
    if (s == SYN_OK && backend->has_data) s = backend->open(&ctx->device, ctx, err);
    ctx->storages.device = ctx->device;
    if (s == SYN_OK) *out = ctx;
    else syn_ctx_free(ctx);
    return s;
}

void syn_ctx_free(syn_ctx *ctx) {
    if (!ctx) return;
    syn_error ignored = {0};
    syn__pending_free(ctx);
    syn__gradients_free(&ctx->gradients);
    if (ctx->device) ctx->backend->sync(ctx->device, &ignored);
    syn__storages_free(&ctx->storages);
    if (ctx->device) ctx->backend->close(ctx->device);
    syn_free(ctx->params);
    syn_free(ctx->buffers);
    syn_free(ctx->param_random);
    syn_free(ctx->param_names);
    syn_arena_free(&ctx->arena);
    syn_free(ctx->calls.operands);
    syn_free(ctx->calls.finished);
    syn_free(ctx->calls.rows);
    syn_free(ctx->calls.segments);
    syn_workers_free(ctx->workers);
    syn_trace_free(ctx->trace);
    syn__comm_release(ctx->comm);
    syn_free(ctx);
}

syn_status syn_ctx_sync(syn_ctx *ctx) {
    syn__wait_for_all(ctx);
    if (ctx->error.code != SYN_OK || !ctx->backend->has_data) return ctx->error.code;
    return ctx->backend->sync(ctx->device, &ctx->error);
}

void syn_ctx_describe_device(const syn_ctx *ctx, char *text, size_t bytes) {
    const syn_backend *backend = ctx->backend;
    const int n = snprintf(text, bytes, backend->describe ? "%s: " : "%s", backend->name);
    if (backend->describe && n >= 0 && (size_t)n < bytes)
        backend->describe(ctx->device, text + n, bytes - (size_t)n);
}

void syn_ctx_device_info(const syn_ctx *ctx, syn_device_info *out) {
    *out = (syn_device_info){"", 0, 0};
    if (ctx->backend->device_info) ctx->backend->device_info(ctx->device, out);
}

syn_status syn_ctx_memory(const syn_ctx *ctx, size_t *free_bytes, size_t *all_bytes,
                          syn_error *err) {
    *free_bytes = *all_bytes = 0;
    if (!ctx->backend->memory_info) return SYN_OK;
    return ctx->backend->memory_info(ctx->device, free_bytes, all_bytes, err);
}

void syn_ctx_set_time(syn_ctx *ctx, uint32_t node, uint64_t start_ns, uint64_t wall_ns,
                      uint64_t cpu_ns) {
    const uint32_t row = syn_trace_node_row(ctx->trace, node);
    if (!row) return;
    syn_trace_time *t = &ctx->trace->times[row];
    const uint64_t since_ns = start_ns - ctx->start_ns;
    t->start_low = (uint32_t)since_ns;
    t->start_high = (uint32_t)(since_ns >> 32);
    t->wall_ns = (float)wall_ns;
    t->cpu_ns = (float)cpu_ns;
}

void syn_ctx_record_work(syn_ctx *ctx, bool keep) {
    if (ctx->backend->record_work) ctx->backend->record_work(ctx->device, keep);
}

void syn_ctx_add_work(syn_ctx *ctx, const syn_node_work *work, syn_piece *pieces,
                      const char *const *names) {
    syn_work *to = &ctx->trace->work;
    syn_node_work node = *work;
    if (!syn_trace_node_row(ctx->trace, node.node)) return;
    syn_status s = SYN_OK;
    node.call_ns -= ctx->start_ns;
    for (uint32_t i = 0; i < node.n_pieces && s == SYN_OK; i++) {
        pieces[i].call_ns -= ctx->start_ns;
        pieces[i].start_ns -= ctx->start_ns;
        s = syn_work_put_name(to, names[i] ? names[i] : "", &pieces[i].name, &ctx->error);
    }
    if (s == SYN_OK) s = syn_work_add(to, &node, pieces, &ctx->error);
    (void)s; /* out of memory: a failure of the context */
}

void syn_ctx_add_unowned_work(syn_ctx *ctx, const syn_unowned_piece *piece) {
    const syn_trace *t = ctx->trace;
    syn_unowned_piece own = *piece;
    if (own.after && !syn_trace_node_row(t, own.after)) {
        if (own.piece.call_ns < ctx->forget_ns) return; /* syn_forget has dropped it */
        own.after = t->n_nodes > 1 ? syn__number_of(&t->node_numbers, (uint32_t)t->n_nodes - 1) : 0;
    }
    own.piece.call_ns -= ctx->start_ns;
    own.piece.start_ns -= ctx->start_ns;
    const syn_status s = syn_work_add_unowned(&ctx->trace->work, &own, &ctx->error);
    (void)s; /* out of memory: a failure of the context */
}

const syn_trace *syn_ctx_trace(const syn_ctx *ctx) {
    return ctx->trace;
}

bool syn_ctx_has_data(const syn_ctx *ctx) {
    return ctx->backend->has_data;
}

bool syn_ctx_is_async(const syn_ctx *ctx) {
    return ctx->backend->ask != NULL;
}

syn_comm *syn_ctx_comm(const syn_ctx *ctx) {
    return ctx->comm;
}

int32_t syn_ctx_rank(const syn_ctx *ctx) {
    return ctx->trace->rank;
}

const syn_group *syn_ctx_group(const syn_ctx *ctx, uint32_t node) {
    const syn_trace *t = ctx->trace;
    const uint16_t group = node < t->n_nodes ? t->nodes[node].group : 0;
    return group && ctx->comm ? syn_comm_group(ctx->comm, t->groups[group - 1].id) : NULL;
}

syn_status syn_ctx_set_threads(syn_ctx *ctx, int threads, syn_error *err) {
    if (!ctx->backend->on_host) return SYN_OK;
    syn_workers *workers = NULL;
    if (threads != 1) SYN_TRY(syn_workers_new(&workers, threads, err));
    syn_workers_free(ctx->workers);
    ctx->workers = workers;
    return SYN_OK;
}

syn_status syn_ctx_status(const syn_ctx *ctx) {
    return ctx->error.code;
}

const syn_error *syn_ctx_error(const syn_ctx *ctx) {
    return &ctx->error;
}

syn_status syn_ctx_check(const syn_ctx *ctx, syn_error *err) {
    if (err && err->code == SYN_OK && ctx->error.code != SYN_OK) *err = ctx->error;
    return ctx->error.code;
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

/* ---- Scopes, phases, steps ---- */

void syn_push_scope(syn_ctx *ctx, const char *name) {
    if (ctx->error.code != SYN_OK) return;
    if (ctx->n_scopes == SYN__SCOPE_DEPTH) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "more than %d nested scopes at '%s'", SYN__SCOPE_DEPTH,
                     name);
        return;
    }
    char full[SYN_MAX_NAME];
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
    char text[SYN_MAX_NAME];
    const int n = snprintf(text, sizeof text, "%s.%d", name, index);
    if (n < 0 || (size_t)n >= sizeof text)
        syn_ctx_fail(ctx, SYN_E_INVALID, "the scope name '%.64s...' is too long", name);
    else syn_push_scope(ctx, text);
}

void syn_pop_scope(syn_ctx *ctx) {
    /* After a failure, syn_push_scope does nothing, so syn_pop_scope must do nothing either. */
    if (ctx->error.code == SYN_OK && ctx->n_scopes > 0) ctx->n_scopes--;
}

void syn_set_phase(syn_ctx *ctx, syn_phase phase) {
    ctx->phase = phase;
}

syn_phase syn_current_phase(const syn_ctx *ctx) {
    return ctx->phase;
}

void syn_next_step(syn_ctx *ctx) {
    syn_trace *t = ctx->trace;
    if (ctx->error.code != SYN_OK) return;
    if (syn_grow(&t->steps, &t->steps_cap, t->n_steps + 1, sizeof *t->steps, &ctx->error) != SYN_OK)
        return;
    t->steps[t->n_steps++] = (syn_trace_step){(uint32_t)t->n_nodes, ++t->step};
    if (ctx->backend->step) ctx->backend->step(ctx->device);
}

void syn_begin_pass(syn_ctx *ctx, bool paired) {
    syn_trace *t = ctx->trace;
    if (ctx->error.code != SYN_OK || syn_grow(&t->passes, &t->passes_cap, t->n_passes + 1,
                                              sizeof *t->passes, &ctx->error) != SYN_OK)
        return;
    t->passes[t->n_passes++] = (syn_trace_pass){(uint32_t)t->n_nodes, paired};
}
