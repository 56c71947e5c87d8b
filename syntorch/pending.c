/* Runs communication for syn__dispatch. An operation is either run to its end or only started.
   After only starting it, the context keeps its storages allocated, and waits for the operation
   when an op needs them. */
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"

struct syn__pending {
    uint32_t node;                  /* row of the node, whose inputs the operation reads and whose
                                       outputs it writes */
    syn_request *request;           /* the communicator's request */
    void *of_device;                /* the backend's request; on meta both requests are NULL */
    void (*finish)(syn_call *call); /* see syn_call */
    void *scratch;                  /* see syn_call */
};

bool syn__is_async(const syn_ctx *ctx, const syn_opdef *def) {
    return ctx->overlap && (def->flags & SYN_OPF_COMM) && def->n_out != 0;
}

syn_status syn__run_comm(syn_ctx *ctx, syn_call *call, uint32_t node, uint64_t *wait_ns) {
    const syn_backend *backend = ctx->backend;
    if (backend->start) {
        void *request;
        call->comm_call.now = true;
        SYN_TRY(backend->start(ctx->device, call, node, &request, call->err));
        return backend->wait(ctx->device, request, call->err);
    }
    const syn_status s = syn_comm_run(call->comm, &call->comm_call, wait_ns, call->err);
    if (s == SYN_OK && call->finish) call->finish(call);
    return s;
}

/* Marks a storage as used by an operation in flight. */
static void occupy(syn_storages *s, uint32_t storage) {
    s->at[storage].in_flight++;
}

/* Calls f for the storage of each input and output of a node. */
static void each_storage(syn_ctx *ctx, const syn_trace_node *row,
                         void (*f)(syn_storages *s, uint32_t storage)) {
    const syn_trace *t = ctx->trace;
    for (uint32_t i = 0; i < row->n_in; i++)
        f(&ctx->storages, syn__storage_number(ctx, t->inputs[row->first_in + i]));
    for (uint32_t i = 0; i < row->n_out; i++)
        f(&ctx->storages, syn__storage_number(ctx, row->first_out + i));
}

syn_status syn__start_comm(syn_ctx *ctx, syn_call *call, uint32_t node) {
    syn__pending p = {.node = node, .finish = call->finish, .scratch = call->scratch};
    SYN_TRY(syn_grow(&ctx->pending, &ctx->pending_cap, ctx->n_pending + 1, sizeof p, call->err));
    if (ctx->backend->start)
        SYN_TRY(ctx->backend->start(ctx->device, call, syn_trace_node_number(ctx->trace, node),
                                    &p.of_device, call->err));
    else if (ctx->backend->has_data)
        SYN_TRY(call->comm->ops->start(call->comm, &call->comm_call, &p.request, call->err));
    each_storage(ctx, &ctx->trace->nodes[node], occupy);
    ctx->pending[ctx->n_pending++] = p;
    call->scratch = NULL;
    return SYN_OK;
}

/* Rebuilds the call that the kernel got and runs its `finish` function. */
static syn_status finish(syn_ctx *ctx, const syn__pending *p, syn_error *err) {
    syn_call call;
    SYN_TRY(syn_trace_call(ctx->trace, p->node, &call, &ctx->calls.finished,
                           &ctx->calls.finished_cap, err));
    for (int i = 0; i < call.n_out; i++) {
        const uint32_t row = ctx->trace->nodes[p->node].first_out + (uint32_t)i;
        call.out[i].data = syn__data(syn__storage(ctx, row), &call.out[i]);
    }
    call.scratch = p->scratch;
    p->finish(&call);
    return SYN_OK;
}

static void store_times(syn_ctx *ctx, uint32_t node, const syn_comm_times *times) {
    syn_ctx_set_time(ctx, syn_trace_node_number(ctx->trace, node), times->begin_ns,
                     times->end_ns - times->begin_ns, times->cpu_ns);
    ctx->trace->times[node].wait_ns = (float)times->wait_ns;
}

/* Waits for ctx->pending[i] and removes it from the list. A failure is recorded in the context,
   with op and scope. */
static void complete(syn_ctx *ctx, size_t i) {
    const syn__pending p = ctx->pending[i];
    const syn_trace_node *row = &ctx->trace->nodes[p.node];
    syn_comm_times times;
    syn_error error;
    error.code = SYN_OK;
    for (size_t k = i + 1; k < ctx->n_pending; k++) ctx->pending[k - 1] = ctx->pending[k];
    ctx->n_pending--;
    if (p.request && ctx->comm->ops->wait(ctx->comm, p.request, &times, &error) == SYN_OK) {
        if (p.finish) (void)finish(ctx, &p, &error);
        store_times(ctx, p.node, &times);
    }
    if (p.of_device) (void)ctx->backend->wait(ctx->device, p.of_device, &error);
    if (error.code != SYN_OK) syn__locate(ctx, syn_trace_op(ctx->trace, row), row->scope, &error);
    syn_free(p.scratch);
    each_storage(ctx, row, syn__storage_op_done);
}

/* Whether one of n tensors is in the storage. The rows of the tensors are list[first], list[first +
   1], ..., or first, first + 1, ... if list is NULL. */
static bool touches(const syn_ctx *ctx, const uint32_t *list, uint32_t first, uint32_t n,
                    uint32_t storage) {
    for (uint32_t i = 0; i < n; i++)
        if (syn__storage_number(ctx, list ? list[first + i] : first + i) == storage) return true;
    return false;
}

syn_status syn__wait_for_tensor(syn_ctx *ctx, uint32_t tensor, bool overwritten) {
    if (ctx->n_pending == 0) return ctx->error.code;
    const uint32_t number = syn__storage_number(ctx, tensor);
    for (size_t i = 0; i < ctx->n_pending && ctx->storages.at[number].in_flight > 0;) {
        const syn_trace_node *row = &ctx->trace->nodes[ctx->pending[i].node];
        if (touches(ctx, NULL, row->first_out, row->n_out, number) ||
            (overwritten && touches(ctx, ctx->trace->inputs, row->first_in, row->n_in, number)))
            complete(ctx, i);
        else i++;
    }
    return ctx->error.code;
}

void syn_wait(syn_ctx *ctx, syn_tensor t) {
    const uint32_t row = syn__own_row(ctx, t, "waited for");
    const syn_status s = row ? syn__wait_for_tensor(ctx, row, false) : SYN_OK;
    (void)s; /* a failure is recorded in the context */
}

/* Whether no op can read the outputs of a node anymore. */
static bool is_unused(const syn_ctx *ctx, const syn_trace_node *row) {
    for (uint32_t i = 0; i < row->n_out; i++) {
        const syn_storage *storage = syn__storage(ctx, row->first_out + i);
        if (storage && (!storage->released || storage->kept > 0 || storage->pins > 0)) return false;
    }
    return true;
}

void syn__wait_for_unused(syn_ctx *ctx) {
    for (size_t i = 0; i < ctx->n_pending && ctx->error.code == SYN_OK;) {
        if (is_unused(ctx, &ctx->trace->nodes[ctx->pending[i].node])) complete(ctx, i);
        else i++;
    }
}

void syn__wait_for_all(syn_ctx *ctx) {
    while (ctx->n_pending > 0 && ctx->error.code == SYN_OK) complete(ctx, 0);
}

void syn__pending_free(syn_ctx *ctx) {
    /* After a failure, other ranks may never take part in the operations. The abort reports the
       failure to them and ends the operations that this rank still waits for. */
    if (ctx->n_pending > 0 && ctx->error.code != SYN_OK && ctx->backend->has_data &&
        !ctx->comm->closed)
        ctx->comm->ops->abort(ctx->comm, ctx->error.text);
    while (ctx->n_pending > 0) complete(ctx, 0);
    syn_free(ctx->pending);
}

syn_status syn_ctx_connect(syn_ctx *ctx, const syn_group *group, syn_error *err) {
    SYN_TRY(syn_ctx_check(ctx, err));
    if (!ctx->backend->connect || group->size < 2) return SYN_OK;
    return ctx->backend->connect(ctx->device, group, err);
}

void syn_ctx_set_overlap(syn_ctx *ctx, bool overlap) {
    ctx->overlap = overlap;
}
