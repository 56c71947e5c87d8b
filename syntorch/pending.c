/* Exchanges with other ranks as syn__dispatch runs them: to their end, or started, with what they
   read and write kept, and waited for when somebody needs it. */
#include "syntorch/context_private.h"
#include "syntorch/memory.h"

struct syn__pending {
    uint32_t node;
    uint32_t reads, writes; /* numbers of storages; 0: none */
    syn_request *request;   /* NULL on meta */
    void (*finish)(syn_call *call);
    void *scratch;
};

bool syn__goes_on(const syn_ctx *ctx, const syn_opdef *def) {
    return ctx->overlap && (def->flags & SYN_OPF_COMM) && def->n_out > 0;
}

syn_status syn__exchange(syn_call *call, uint64_t *wait_ns) {
    const syn_status s = syn_comm_run(call->comm, &call->exchange, wait_ns, call->err);
    if (s == SYN_OK && call->finish) call->finish(call);
    return s;
}

syn_status syn__exchange_start(syn_ctx *ctx, syn_call *call, uint32_t node) {
    const syn_trace_node *row = &ctx->trace->nodes[node];
    syn__pending p = {.node = node, .finish = call->finish, .scratch = call->scratch};
    p.reads = row->n_in ? syn__storage_number(ctx, ctx->trace->inputs[row->first_in]) : 0;
    p.writes = syn__storage_number(ctx, row->first_out);
    SYN_TRY(syn_grow(&ctx->pending, &ctx->pending_cap, ctx->n_pending + 1, sizeof p, call->err));
    if (ctx->backend->has_data)
        SYN_TRY(call->comm->ops->start(call->comm, &call->exchange, &p.request, call->err));
    if (p.reads) ctx->storages.at[p.reads].under_way++;
    ctx->storages.at[p.writes].under_way++;
    ctx->pending[ctx->n_pending++] = p;
    call->scratch = NULL;
    return SYN_OK;
}

/* The call as the kernel saw it, for what is left to do. */
static void finish(const syn_ctx *ctx, const syn__pending *p) {
    syn_call call;
    syn_trace_call(ctx->trace, p->node, &call);
    call.out[0].data = ctx->storages.at[p->writes].data;
    call.scratch = p->scratch;
    p->finish(&call);
}

static void store_times(syn_ctx *ctx, uint32_t node, const syn_exchange_times *times) {
    syn_ctx_set_time(ctx, syn_trace_node_number(ctx->trace, node), times->begin_ns,
                     times->end_ns - times->begin_ns, times->cpu_ns);
    ctx->trace->times[node].wait_ns = (float)times->wait_ns;
}

/* Waits for number i of those under way. A failure is the context's, with the op's place. */
static void complete(syn_ctx *ctx, size_t i) {
    const syn__pending p = ctx->pending[i];
    const syn_trace_node *row = &ctx->trace->nodes[p.node];
    syn_exchange_times times;
    syn_error error;
    error.code = SYN_OK;
    for (size_t k = i + 1; k < ctx->n_pending; k++) ctx->pending[k - 1] = ctx->pending[k];
    ctx->n_pending--;
    if (p.request && ctx->comm->ops->wait(ctx->comm, p.request, &times, &error) == SYN_OK) {
        if (p.finish) finish(ctx, &p);
        store_times(ctx, p.node, &times);
    }
    if (error.code != SYN_OK) syn__locate(ctx, &syn_op_table[row->op], row->scope, &error);
    syn_free(p.scratch);
    if (p.reads) syn__storage_arrived(&ctx->storages, p.reads);
    syn__storage_arrived(&ctx->storages, p.writes);
}

syn_status syn__await(syn_ctx *ctx, uint32_t tensor, bool overwritten) {
    const uint32_t number = ctx->n_pending ? syn__storage_number(ctx, tensor) : 0;
    for (size_t i = 0; i < ctx->n_pending && number;) {
        const syn__pending *p = &ctx->pending[i];
        if (p->writes == number || (overwritten && p->reads == number)) complete(ctx, i);
        else i++;
    }
    return ctx->error.code;
}

void syn__await_all(syn_ctx *ctx) {
    while (ctx->n_pending > 0 && ctx->error.code == SYN_OK) complete(ctx, 0);
}

void syn__pending_free(syn_ctx *ctx) {
    /* After a failure the others may never come: they get its sentence, and what waits
       for them ends. */
    if (ctx->n_pending > 0 && ctx->error.code != SYN_OK && ctx->backend->has_data &&
        !ctx->comm->closed)
        ctx->comm->ops->abort(ctx->comm, ctx->error.text);
    while (ctx->n_pending > 0) complete(ctx, 0);
    syn_free(ctx->pending);
}

void syn_ctx_set_overlap(syn_ctx *ctx, bool overlap) {
    ctx->overlap = overlap;
}
