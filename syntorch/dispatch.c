/* Dispatch of ops (dispatch.h): checks the inputs, infers shapes, appends the rows and, except on
   meta, runs and times the kernel. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/communicator_private.h"
#include "syntorch/context_private.h"
#include "syntorch/dispatch.h"

void syn__locate(syn_ctx *ctx, const syn_opdef *def, uint32_t scope, const syn_error *inner) {
    const char *text = syn_trace_text(ctx->trace, scope);
    SYN_FAIL(&ctx->error, inner->code, "%s%s%s: %s", def->name, *text ? " in " : "", text,
             inner->text);
    ctx->error.file = inner->file;
    ctx->error.line = inner->line;
}

/* The text id of the current scope. */
static uint32_t scope_of(const syn_ctx *ctx) {
    return ctx->n_scopes ? ctx->scopes[ctx->n_scopes - 1] : 0;
}

/* The row that an op uses instead of `row`: the current version of a managed parameter instead of
   an older version, or of a view that is as large and older. (Gradient rules alone use those.) */
static uint32_t managed_row(const syn_ctx *ctx, uint32_t row) {
    const syn_storage *storage = syn__storage(ctx, row);
    const syn_trace_tensor *tensors = ctx->trace->tensors;
    if (!storage || !storage->managed || tensors[row].layout ||
        syn__number_of(&ctx->trace->tensor_numbers, row) >= storage->version)
        return row;
    const uint32_t now = syn_trace_tensor_row(ctx->trace, storage->version);
    return tensors[now].spec == tensors[row].spec ? now : row;
}

/* Reports the managed parameters among the inputs. */
static void report_use(syn_ctx *ctx, const syn_tensor *in, int n_in) {
    for (int i = 0; i < n_in; i++) {
        const syn_storage *storage = syn__storage(ctx, syn__row(ctx, in[i]));
        if (!storage || !storage->managed || !storage->leaf) continue;
        ctx->managed.used(ctx->managed.user, ctx->gradients.leaves[storage->leaf - 1].param,
                          ctx->phase);
    }
}

/* Looks up the rows of the inputs. */
static syn_status find_inputs(const syn_ctx *ctx, const syn_tensor *in, const syn_call *call,
                              uint32_t *rows) {
    const syn_opdef *def = call->def;
    if (call->n_in < def->min_in || call->n_in > def->max_in)
        return SYN_FAIL(call->err, SYN_E_INVALID, "accepts %d to %d inputs, not %d", def->min_in,
                        def->max_in, call->n_in);
    for (int i = 0; i < call->n_in; i++) {
        rows[i] = syn__row(ctx, in[i]);
        if (ctx->managed.used) rows[i] = managed_row(ctx, rows[i]);
        if (!rows[i])
            return SYN_FAIL(call->err, SYN_E_INVALID, "input %d %s", i,
                            in[i].id && in[i].tag == ctx->tag ? "was forgotten"
                                                              : "belongs to another context");
    }
    return SYN_OK;
}

/* Waits for operations in flight that write the op's inputs, and for those that use tensors that
   the op overwrites. Views need not wait, because they neither read nor write data. Waiting may
   free storages, so this function must be called before storages are looked up. */
static syn_status await_inputs(syn_ctx *ctx, const syn_call *call, const uint32_t *rows) {
    if (ctx->n_pending == 0 || (call->def->flags & SYN_OPF_VIEW)) return SYN_OK;
    for (int i = 0; i < call->n_in; i++)
        SYN_TRY(syn__wait_for_tensor(ctx, rows[i], i < syn_opdef_versions(call->def, call->attr)));
    return SYN_OK;
}

/* Fills in the inputs of the call, and checks that their data may be used. */
static syn_status gather_inputs(const syn_ctx *ctx, syn_call *call, const uint32_t *rows) {
    const syn_opdef *def = call->def;
    for (int i = 0; i < call->n_in; i++) {
        syn_operand *o = &call->in[i];
        syn_trace_operand(ctx->trace, rows[i], o);
        const syn_storage *storage = syn__storage(ctx, rows[i]);
        if (!storage)
            return SYN_FAIL(call->err, SYN_E_INVALID, "the data of input %d was released", i);
        if (storage->evicted && !(def->flags & SYN_OPF_VIEW))
            return SYN_FAIL(call->err, SYN_E_INVALID, "input %d is an evicted parameter", i);
        SYN_TRY(syn__check_current(ctx, rows[i], storage, call->err));
        o->data = syn__data(storage, o);
        const int last = o->spec.rank - 1;
        if (!(def->flags & SYN_OPF_STRIDED) && last >= 0 && o->strides[last] != 1 &&
            o->spec.dims[last] > 1)
            return SYN_FAIL(call->err, SYN_E_INVALID,
                            "the last dimension of input %d is not contiguous", i);
    }
    return SYN_OK;
}

/* Fails if the op overwrites an input that shares its storage with another input. */
static syn_status check_overwritten(const syn_ctx *ctx, const syn_call *call,
                                    const uint32_t *rows) {
    const syn_trace_tensor *tensors = ctx->trace->tensors;
    for (int i = 0; i < syn_opdef_versions(call->def, call->attr); i++)
        for (int k = 0; k < call->n_in; k++)
            if (k != i && tensors[rows[k]].base == tensors[rows[i]].base)
                return SYN_FAIL(call->err, SYN_E_INVALID,
                                "input %d would be overwritten, but input %d shares its storage", i,
                                k);
    return SYN_OK;
}

static syn_status check_comm(const syn_call *call) {
    if (!(call->def->flags & SYN_OPF_COMM)) return SYN_OK;
    if (!call->comm) return SYN_FAIL(call->err, SYN_E_INVALID, "needs a communicator");
    return syn__comm_check_open(call->comm, call->err);
}

/* Infers the outputs. An output that is a new version gets the operand of the input that it
   overwrites. */
static syn_status infer(syn_call *call) {
    for (int i = 0; i < call->n_out; i++) memset(&call->out[i].spec, 0, sizeof call->out[i].spec);
    SYN_TRY(call->def->infer(call));
    const bool view = (call->def->flags & SYN_OPF_VIEW) != 0;
    for (int i = 0; i < call->n_out; i++) {
        if (!syn_spec_valid(&call->out[i].spec))
            return SYN_FAIL(call->err, SYN_E_SHAPE, "the result's shape is negative or too large");
        if (view && i == 0) continue;
        syn__contiguous_strides(&call->out[i]);
    }
    for (int i = 0; i < syn_opdef_versions(call->def, call->attr); i++) call->out[i] = call->in[i];
    return SYN_OK;
}

/* Fills in a node row, except for its outputs, and reserves space in all tables. */
static syn_status make_row(syn_ctx *ctx, const syn_call *call, syn_trace_node *row) {
    syn_trace *t = ctx->trace;
    syn_error *err = &ctx->error;
    if (syn__number_of(&t->node_numbers, (uint32_t)t->n_nodes) >= UINT32_MAX - 1 ||
        t->n_inputs >= UINT32_MAX - SYN_MAX_INPUTS)
        return SYN_FAIL(err, SYN_E_NOMEM, "a context records at most 2^32 nodes and inputs");
    t->ops = call->def - call->def->op;
    *row = (syn_trace_node){.op = (uint16_t)call->def->op,
                            .phase = (uint32_t)ctx->phase & 7,
                            .n_in = (uint32_t)call->n_in & 2047,
                            .n_out = (uint32_t)call->n_out & 1023,
                            .scope = scope_of(ctx),
                            .first_in = (uint32_t)t->n_inputs,
                            .first_out = (uint32_t)t->n_tensors};
    if (call->group) SYN_TRY(syn_trace_add_group(t, call->group, &row->group, err));
    if (call->def->flags & SYN_OPF_COMM) /* a stream for each group, and 255 for messages */
        row->stream = row->group == 0 ? 255u : row->group < 254 ? row->group & 255u : 254u;
    const size_t attr_bytes = (size_t)call->n_attr * sizeof(syn_attr);
    if (attr_bytes) SYN_TRY(syn_intern_put(&t->blobs, call->attr, attr_bytes, &row->attrs, err));
    SYN_TRY(syn_grow(&t->inputs, &t->inputs_cap, t->n_inputs + (size_t)call->n_in,
                     sizeof *t->inputs, err));
    SYN_TRY(syn_grow(&t->nodes, &t->nodes_cap, t->n_nodes + 1, sizeof *row, err));
    if (ctx->backend->has_data) {
        const size_t old = t->times_cap;
        SYN_TRY(syn_grow(&t->times, &t->times_cap, t->nodes_cap, sizeof *t->times, err));
        memset(t->times + old, 0, (t->times_cap - old) * sizeof *t->times);
    }
    return SYN_OK;
}

enum { LEAF_FLAGS = SYN_TENSOR_LEAF | SYN_TENSOR_GRAD };

/* Appends output i as a tensor row. It is a view of an input, a new version of an input, or a
   tensor with a new storage. */
static syn_status append_output(syn_ctx *ctx, const syn_call *call, int i, const uint32_t *in) {
    const bool version = i < syn_opdef_versions(call->def, call->attr);
    const bool view = i == 0 && (call->def->flags & SYN_OPF_VIEW);
    syn_trace_tensor from = {0};
    if (view || version) from = ctx->trace->tensors[in[i]];
    const uint32_t stays =
        SYN_TENSOR_STATE |
        (version ? SYN_TENSOR_PARAM | (from.flags & SYN_TENSOR_LEAF ? LEAF_FLAGS : 0u) : 0u);
    const uint32_t flags = (view || version ? SYN_TENSOR_VIEW : 0u) | (from.flags & stays);
    const uint32_t row = syn__append_tensor(ctx, &call->out[i], (uint32_t)ctx->trace->n_nodes,
                                            from.base, flags, NULL);
    if (!row) return ctx->error.code;
    if (flags & SYN_TENSOR_PARAM) {
        ctx->trace->tensors[row].name = from.name;
        ctx->trace->tensors[row].shard = from.shard;
    }
    return from.base ? SYN_OK : syn__alloc_data(ctx, row);
}

/* Appends the node and its outputs. After a failure, which is recorded in the context, the trace is
   unchanged except for unused interned entries. */
static syn_status record(syn_ctx *ctx, const uint32_t *in, const syn_call *call) {
    syn_trace *t = ctx->trace;
    uint32_t need;
    syn_trace_node row;
    SYN_TRY(syn__tape_inputs(ctx, call, in, &need));
    SYN_TRY(make_row(ctx, call, &row));
    for (int i = 0; i < call->n_out; i++) {
        const syn_status s = append_output(ctx, call, i, in);
        if (s == SYN_OK) continue;
        const syn_mark before = {syn_trace_tensor_number(t, row.first_out), 0, ctx->tag};
        syn_release(ctx, before, NULL, 0);
        t->n_tensors = row.first_out;
        return s;
    }
    for (int i = 0; i < call->n_in; i++) t->inputs[t->n_inputs++] = in[i];
    for (int i = 0; i < syn_opdef_versions(call->def, call->attr); i++)
        syn__storage(ctx, in[i])->version = syn_trace_tensor_number(t, row.first_out + (uint32_t)i);
    t->nodes[t->n_nodes++] = row;
    if (need) syn__tape_add(ctx, need);
    return SYN_OK;
}

/* Sets *kernel to the op's kernel, or to NULL on meta and for views, where there is nothing to run.
   Fails if the backend has no kernel for the op. */
static syn_status find_kernel(const syn_ctx *ctx, const syn_call *call, syn_kernel *kernel) {
    *kernel = NULL;
    if (!ctx->backend->has_data || (call->def->flags & SYN_OPF_VIEW)) return SYN_OK;
    *kernel = ctx->backend->kernel(call->def);
    if (*kernel) return SYN_OK;
    return SYN_FAIL(call->err, SYN_E_UNSUPPORTED, "has no kernel on '%s'", ctx->backend->name);
}

/* Runs the kernel and then, for communication ops, the operation that the kernel described. */
static syn_status compute(syn_ctx *ctx, syn_kernel kernel, syn_call *call, uint32_t node) {
    const uint32_t number = syn_trace_node_number(ctx->trace, node);
    uint64_t wait_ns = 0;
    ctx->backend->begin(ctx->device, number);
    syn_status s = kernel(call);
    if (s == SYN_OK && (call->def->flags & SYN_OPF_COMM))
        s = syn__run_comm(ctx, call, number, &wait_ns);
    ctx->backend->end(ctx->device, number);
    ctx->trace->times[node].wait_ns = (float)wait_ns;
    return s;
}

/* Runs the kernel and waits for its operation, or with overlap only starts the operation. */
static syn_status run(syn_ctx *ctx, syn_kernel kernel, syn_call *call, uint32_t node) {
    syn_status s = SYN_OK;
    call->finish = NULL;
    call->scratch = NULL;
    for (int i = 0; kernel && i < call->n_out; i++) {
        const uint32_t row = ctx->trace->nodes[node].first_out + (uint32_t)i;
        call->out[i].data = syn__data(syn__storage(ctx, row), &call->out[i]);
    }
    if (!syn__is_async(ctx, call->def)) {
        if (kernel) s = compute(ctx, kernel, call, node);
    } else {
        if (kernel) s = kernel(call);
        if (s == SYN_OK) s = syn__start_comm(ctx, call, node);
    }
    syn_free(call->scratch);
    return s;
}

/* Provides the arrays of a call, which the context reuses. */
static syn_status make_arrays(syn_ctx *ctx, syn_call *call) {
    syn__calls *c = &ctx->calls;
    const size_t n_in = (size_t)call->n_in, n = n_in + (size_t)call->n_out;
    SYN_TRY(syn_grow(&c->operands, &c->operands_cap, n, sizeof *c->operands, call->err));
    SYN_TRY(syn_grow(&c->rows, &c->rows_cap, n_in, sizeof *c->rows, call->err));
    if (call->def->flags & SYN_OPF_COMM)
        SYN_TRY(syn_grow(&c->segments, &c->segments_cap, n, sizeof *c->segments, call->err));
    call->in = c->operands;
    call->out = c->operands + n_in;
    call->segments = c->segments;
    return SYN_OK;
}

/* An op that a region has kept: takes the outputs of the region's first run. */
static void reuse(syn_ctx *ctx, syn_call *call, const syn_tensor *in, syn_tensor *out) {
    if (ctx->error.code != SYN_OK) return;
    syn_status s = make_arrays(ctx, call);
    if (s == SYN_OK) s = find_inputs(ctx, in, call, ctx->calls.rows);
    if (s == SYN_OK) syn__region_reuse(ctx, call, ctx->calls.rows, out);
    else syn__locate(ctx, call->def, scope_of(ctx), call->err);
}

void syn__dispatch(syn_ctx *ctx, const syn_opdef *def, const syn_tensor *in, int n_in,
                   const syn_attr *attr, int n_attr, const syn_group *group, syn_tensor *out) {
    syn_call call;
    syn_kernel kernel;
    syn_error inner;
    inner.code = SYN_OK;
    call.def = def;
    call.n_in = n_in;
    call.n_out = call.def->n_out < 0 ? (int)attr[0].i : call.def->n_out;
    call.attr = attr;
    call.n_attr = n_attr;
    call.group = group;
    call.comm = ctx->comm;
    call.workers = ctx->workers;
    call.arena = &ctx->arena;
    call.device = ctx->device;
    call.err = &inner;
    for (int i = 0; i < call.n_out; i++) out[i] = (syn_tensor){0};
    const bool kept = ctx->gradients.keep && syn__region_keeps(ctx, def);
    if (kept && ctx->gradients.again) {
        reuse(ctx, &call, in, out);
        return;
    }
    if (ctx->managed.used) report_use(ctx, in, n_in);
    if (ctx->error.code != SYN_OK) return;
    const uint32_t node = (uint32_t)ctx->trace->n_nodes,
                   first_out = (uint32_t)ctx->trace->n_tensors;
    syn_status s = make_arrays(ctx, &call);
    const uint32_t *const rows = ctx->calls.rows;
    if (s == SYN_OK) s = check_comm(&call);
    if (s == SYN_OK) s = find_inputs(ctx, in, &call, ctx->calls.rows);
    if (s == SYN_OK && await_inputs(ctx, &call, rows) != SYN_OK) return;
    if (s == SYN_OK) s = gather_inputs(ctx, &call, rows);
    if (s == SYN_OK) s = check_overwritten(ctx, &call, rows);
    if (s == SYN_OK) s = infer(&call);
    if (s == SYN_OK) s = find_kernel(ctx, &call, &kernel);
    const bool watched = s == SYN_OK && ctx->finite_check.on && kernel;
    const unsigned bad = watched ? syn__check_inputs(ctx, call.def, rows, n_in) : 0;
    if (s == SYN_OK && (s = record(ctx, rows, &call)) != SYN_OK) {
        inner = ctx->error; /* this failure is recorded again below, with op and scope */
        ctx->error.code = SYN_OK;
    }
    if (s == SYN_OK) s = run(ctx, kernel, &call, node);
    if (s == SYN_OK) {
        if (watched) syn__check_outputs(ctx, node, bad);
        for (int i = 0; i < call.n_out; i++) out[i] = syn__tensor(ctx, first_out + (uint32_t)i);
        if (kept) syn__region_keep(ctx);
        return;
    }
    SYN_FAIL(&inner, s, "%s", syn_status_name(s)); /* does nothing if `inner` already has a
                                                      message */
    syn__locate(ctx, call.def, scope_of(ctx), &inner);
}
