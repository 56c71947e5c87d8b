/* Records tapes: the ops that syn_backward will walk over, which of their inputs require a
   gradient, and the tensors that are saved for their gradient rules. backward.c walks over the
   tapes. */
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/gradient.h"

/* Finds a free entry for a leaf and returns its index + 1, or 0 if memory is out. When the table is
   full, the entry of a leaf without data and gradient is reused. The table grows only if there is
   no such entry. */
static uint32_t leaf_entry(syn_ctx *ctx) {
    syn__gradients *g = &ctx->gradients;
    for (size_t i = 0; i < g->n_leaves && g->n_leaves == g->leaves_cap; i++)
        if (!g->leaves[i].grad && !syn__storage_of(&ctx->storages, g->leaves[i].owner))
            return (uint32_t)i + 1;
    if (syn_grow(&g->leaves, &g->leaves_cap, g->n_leaves + 1, sizeof *g->leaves, &ctx->error) !=
        SYN_OK)
        return 0;
    return (uint32_t)++g->n_leaves;
}

/* Makes a tensor row a leaf. param: the index of the parameter; SIZE_MAX: the tensor is not a
   parameter. */
static void make_leaf(syn_ctx *ctx, uint32_t row, size_t param) {
    syn_storage *storage = syn__storage(ctx, row);
    if (ctx->trace->tensors[row].flags & SYN_TENSOR_LEAF) return;
    const uint32_t entry = leaf_entry(ctx);
    if (!entry) return;
    syn_trace_tensor *t = &ctx->trace->tensors[row];
    ctx->gradients.leaves[entry - 1] =
        (syn__leaf){.owner = storage->tensor,
                    .param = param,
                    .dtype = t->flags & (SYN_TENSOR_PARAM | SYN_TENSOR_INPUT)
                                 ? SYN_F32
                                 : (syn_dtype)syn_trace_spec(ctx->trace, row)->dtype};
    storage->leaf = entry;
    t->flags |= SYN_TENSOR_LEAF | SYN_TENSOR_GRAD;
}

void syn_require_grad(syn_ctx *ctx, syn_tensor t) {
    if (ctx->error.code != SYN_OK) return;
    const uint32_t row = syn__own_row(ctx, t, "made to require a gradient");
    if (!row) return;
    const syn_trace_tensor *tensor = &ctx->trace->tensors[row];
    size_t param = SIZE_MAX;
    const bool computed = tensor->base != row ||
                          (tensor->flags & (SYN_TENSOR_GRAD | SYN_TENSOR_LEAF)) == SYN_TENSOR_GRAD;
    if (!syn__storage(ctx, row) || syn_trace_spec(ctx->trace, row)->dtype > SYN_BF16 || computed) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u cannot require a gradient: %s", t.id,
                     !syn__storage(ctx, row) ? "its data was released"
                     : computed ? "it is a view, or was computed from a tensor that requires one"
                                : "only f32, f16 and bf16 tensors can");
        return;
    }
    for (size_t i = 0; i < ctx->n_params && param == SIZE_MAX; i++)
        if (syn_ctx_param(ctx, i).tensor.id == t.id) param = i;
    make_leaf(ctx, row, param);
}

void syn_require_grads(syn_ctx *ctx) {
    for (size_t i = 0; i < ctx->n_params && ctx->error.code == SYN_OK; i++)
        make_leaf(ctx, syn__row(ctx, syn_ctx_param(ctx, i).tensor), i);
}

bool syn_requires_grad(const syn_ctx *ctx, syn_tensor t) {
    return !ctx->gradients.off &&
           (ctx->trace->tensors[syn__row(ctx, t)].flags & SYN_TENSOR_GRAD) != 0;
}

uint32_t syn_set_tape(syn_ctx *ctx, uint32_t tape) {
    syn__gradients *g = &ctx->gradients;
    const uint32_t was = g->set, most = tape > was ? tape : was;
    if (tape == was || ctx->error.code != SYN_OK) return was;
    if (syn_grow(&g->others, &g->others_cap, (size_t)most + 1, sizeof *g->others, &ctx->error) !=
        SYN_OK)
        return was;
    for (; g->n_others <= most; g->n_others++) g->others[g->n_others] = (syn__tape){0};
    g->others[was] = g->tape;
    g->tape = g->others[tape];
    g->others[tape] = (syn__tape){0};
    g->set = tape;
    return was;
}

bool syn_set_grad(syn_ctx *ctx, bool on) {
    const bool was = !ctx->gradients.off;
    ctx->gradients.off = !on;
    return was;
}

void syn_ctx_on_grad(syn_ctx *ctx, void (*ready)(void *user, size_t param), void *user) {
    ctx->gradients.ready = ready;
    ctx->gradients.user = user;
}

syn__leaf *syn__leaf_of(const syn_ctx *ctx, uint32_t row) {
    if (!(ctx->trace->tensors[row].flags & SYN_TENSOR_LEAF)) return NULL;
    const syn_storage *storage = syn__storage(ctx, row);
    return storage && storage->leaf ? &ctx->gradients.leaves[storage->leaf - 1] : NULL;
}

syn_status syn__tape_inputs(syn_ctx *ctx, const syn_call *call, const uint32_t *rows,
                            uint32_t *need) {
    syn__gradients *g = &ctx->gradients;
    *need = 0;
    if (g->off || g->n_leaves == 0 || (call->def->flags & SYN_OPF_CONSTANT)) return SYN_OK;
    bool any = false;
    for (int i = 0; i < call->n_in; i++) {
        if (!(ctx->trace->tensors[rows[i]].flags & SYN_TENSOR_GRAD)) continue;
        any = true;
        if (i < SYN_MAX_GRADS) *need |= 1u << i;
    }
    if (!any) return SYN_OK;
    if (call->n_in > SYN_MAX_GRADS || call->n_out > SYN_MAX_GRADS)
        return SYN_FAIL(&ctx->error, SYN_E_UNSUPPORTED,
                        "has a gradient only with at most %d inputs and outputs, not %d and %d",
                        SYN_MAX_GRADS, call->n_in, call->n_out);
    if (!call->def->grad)
        return SYN_FAIL(&ctx->error, SYN_E_UNSUPPORTED,
                        "has no gradient, but an input requires one");
    return syn_grow(&g->tape.entries, &g->tape.cap, g->tape.n + 1, sizeof *g->tape.entries,
                    &ctx->error);
}

uint32_t syn__kept_operands(const syn_opdef *def, uint32_t need) {
    uint32_t operands = 0;
    for (int i = 0; i < 4; i++)
        if (need >> i & 1) operands |= (uint32_t)(def->saves >> (16 * i)) & 0xffff;
    return operands;
}

uint32_t syn__again_node(const syn_trace *t, uint32_t tensor) {
    const uint32_t node = t->tensors[tensor].producer;
    if (!node || !(syn_trace_op(t, &t->nodes[node])->flags & SYN_OPF_AGAIN)) return 0;
    const uint32_t attrs = t->nodes[node].attrs;
    const syn_attr *attr = syn_intern_get(&t->blobs, attrs);
    const size_t n = syn_intern_entry_bytes(&t->blobs, attrs) / sizeof *attr;
    return attr[n - 1].i ? 0 : node;
}

static uint32_t input_of(const syn_trace *t, const syn__tape *tape, const syn__tape_entry *entry,
                         uint32_t node, uint32_t i) {
    return entry->inputs ? syn_trace_tensor_row(t, tape->inputs[entry->inputs - 1 + i])
                         : t->inputs[t->nodes[node].first_in + i];
}

uint32_t syn__tape_input(const syn_ctx *ctx, const syn__tape_entry *entry, uint32_t node, int i) {
    return input_of(ctx->trace, &ctx->gradients.tape, entry, node, (uint32_t)i);
}

/* Calls f with the number of each storage that is saved for a tape entry. row: the row of the
   entry's node. Instead of the output of an op that runs again, the op's input is saved. */
static void each_saved(syn_ctx *ctx, const syn__tape *tape, const syn__tape_entry *entry,
                       uint32_t row, void (*f)(syn_storages *s, uint32_t storage)) {
    const syn_trace *t = ctx->trace;
    const syn_trace_node *n = &t->nodes[row];
    const uint32_t operands = syn__kept_operands(syn_trace_op(t, n), entry->need);
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t k = i % 8;
        if (!(operands >> i & 1) || k >= (i < 8 ? n->n_in : n->n_out)) continue;
        uint32_t tensor = i < 8 ? input_of(t, tape, entry, row, k) : n->first_out + k;
        const uint32_t again = i < 8 ? syn__again_node(t, tensor) : 0;
        if (again) tensor = t->inputs[t->nodes[again].first_in];
        const uint32_t storage = syn__storage_number(ctx, tensor);
        if (storage) f(&ctx->storages, storage);
    }
}

void syn__tape_add(syn_ctx *ctx, uint32_t need) {
    syn_trace *t = ctx->trace;
    const uint32_t row = (uint32_t)t->n_nodes - 1;
    const syn_trace_node *n = &t->nodes[row];
    const uint32_t number = syn_trace_node_number(t, row);
    const syn__tape_entry entry = {.node = number, .need = need, .at = number};
    syn__gradients *g = &ctx->gradients;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (syn_trace_spec(t, n->first_out + i)->dtype <= SYN_BF16)
            t->tensors[n->first_out + i].flags |= SYN_TENSOR_GRAD;
    for (uint32_t i = 0; i < n->n_in && i < 32; i++) {
        syn__leaf *leaf = need >> i & 1 ? syn__leaf_of(ctx, t->inputs[n->first_in + i]) : NULL;
        if (leaf && !g->again) leaf->uses++;
    }
    if (g->counting) return;
    each_saved(ctx, &g->tape, &entry, row, syn__storage_keep);
    g->tape.entries[g->tape.n++] = entry;
}

/* ---- regions of syn_recompute ---- */

/* Calls f with the number of the storage of each input of a region. */
static void each_input(syn_ctx *ctx, const syn__region *region,
                       void (*f)(syn_storages *s, uint32_t storage)) {
    for (int i = 0; i < region->n_in; i++) {
        const uint32_t storage = syn__storage_number(ctx, syn__row(ctx, region->in[i]));
        if (storage) f(&ctx->storages, storage);
    }
}

/* Releases the kept tensors from index `first` on. */
static void drop_kept(syn_ctx *ctx, syn__tape *tape, size_t first) {
    for (; tape->n_kept > first; tape->n_kept--) {
        const uint32_t row = syn_trace_tensor_row(ctx->trace, tape->kept[tape->n_kept - 1]);
        syn__storage_unkeep(&ctx->storages, syn__storage_number(ctx, row));
    }
}

void syn__region_unpin(syn_ctx *ctx, const syn__region *region) {
    each_input(ctx, region, syn__storage_unkeep);
    drop_kept(ctx, &ctx->gradients.tape, region->first_kept);
}

bool syn__region_keeps(syn_ctx *ctx, const syn_opdef *def) {
    return ctx->gradients.keep(def->name, &ctx->gradients.keep_state);
}

void syn__region_keep(syn_ctx *ctx) {
    const syn_trace *t = ctx->trace;
    const syn_trace_node *n = &t->nodes[t->n_nodes - 1];
    syn__tape *tape = &ctx->gradients.tape;
    if (syn_grow(&tape->kept, &tape->kept_cap, tape->n_kept + n->n_out, sizeof *tape->kept,
                 &ctx->error) != SYN_OK)
        return;
    for (uint32_t i = 0; i < n->n_out; i++) {
        syn__storage_keep(&ctx->storages, syn__storage_number(ctx, n->first_out + i));
        tape->kept[tape->n_kept++] = syn_trace_tensor_number(t, n->first_out + i);
    }
}

/* Puts a kept op on the tape. node: the row of its node in the first run. */
static void add_kept(syn_ctx *ctx, const syn_call *call, const uint32_t *rows, uint32_t node) {
    syn__tape *tape = &ctx->gradients.tape;
    const syn_trace *t = ctx->trace;
    syn__tape_entry entry = {.node = syn_trace_node_number(t, node),
                             .at = syn_trace_node_number(t, (uint32_t)t->n_nodes - 1)};
    if (syn__tape_inputs(ctx, call, rows, &entry.need) != SYN_OK || !entry.need) return;
    if (syn_grow(&tape->inputs, &tape->inputs_cap, tape->n_inputs + (size_t)call->n_in,
                 sizeof *tape->inputs, &ctx->error) != SYN_OK)
        return;
    entry.inputs = (uint32_t)tape->n_inputs + 1;
    for (int i = 0; i < call->n_in; i++)
        tape->inputs[tape->n_inputs++] = syn_trace_tensor_number(t, rows[i]);
    each_saved(ctx, tape, &entry, node, syn__storage_keep);
    tape->entries[tape->n++] = entry;
}

void syn__region_reuse(syn_ctx *ctx, const syn_call *call, const uint32_t *rows, syn_tensor *out) {
    syn__gradients *g = &ctx->gradients;
    const syn_trace *t = ctx->trace;
    const uint32_t *kept = g->tape.kept + g->next_kept;
    const size_t left = g->tape.n_kept - g->next_kept;
    const uint32_t node =
        left >= (size_t)call->n_out ? t->tensors[syn_trace_tensor_row(t, *kept)].producer : 0;
    if (!node || syn_trace_op(t, &t->nodes[node]) != call->def) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "a region builds other ops when it runs again");
        return;
    }
    for (int i = 0; i < call->n_out; i++) out[i] = (syn_tensor){kept[i], ctx->tag};
    g->next_kept += (size_t)call->n_out;
    add_kept(ctx, call, rows, node);
}

/* Puts a region on the tape and saves its inputs. */
static syn_status remember_region(syn_ctx *ctx, const syn__region *region) {
    syn__gradients *g = &ctx->gradients;
    const syn_trace *t = ctx->trace;
    const uint32_t number =
        syn_trace_node_number(t, t->tensors[syn__row(ctx, region->out)].producer);
    SYN_TRY(syn_grow(&g->tape.regions, &g->tape.regions_cap, g->tape.n_regions + 1,
                     sizeof *g->tape.regions, &ctx->error));
    SYN_TRY(syn_grow(&g->tape.entries, &g->tape.cap, g->tape.n + 1, sizeof *g->tape.entries,
                     &ctx->error));
    each_input(ctx, region, syn__storage_keep);
    g->tape.regions[g->tape.n_regions++] = *region;
    g->tape.entries[g->tape.n++] = (syn__tape_entry){.node = number, .at = number, .region = true};
    return SYN_OK;
}

syn_tensor syn_recompute_except(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in,
                                int n, syn_keep *keep) {
    syn__gradients *g = &ctx->gradients;
    syn__region region = {.run = run,
                          .arg = arg,
                          .n_in = n,
                          .n_scopes = ctx->n_scopes > 0,
                          .keep = keep,
                          .first_kept = g->tape.n_kept};
    if (g->off || g->counting || ctx->error.code != SYN_OK) return run(arg, in);
    if (n < 0 || n > SYN_MAX_REGION_INPUTS)
        return syn_ctx_fail(ctx, SYN_E_INVALID, "a region has %d inputs; at most %d are supported",
                            n, SYN_MAX_REGION_INPUTS);
    for (int i = 0; i < n; i++) region.in[i] = in[i];
    if (region.n_scopes) region.scope = ctx->scopes[ctx->n_scopes - 1];
    g->counting = true;
    g->keep = keep;
    g->keep_state = 0;
    region.out = run(arg, in);
    g->keep = NULL;
    g->counting = false;
    if (!syn_requires_grad(ctx, region.out)) drop_kept(ctx, &g->tape, region.first_kept);
    else if (remember_region(ctx, &region) != SYN_OK) return (syn_tensor){0};
    return region.out;
}

syn_tensor syn_recompute(syn_ctx *ctx, syn_region *run, void *arg, const syn_tensor *in, int n) {
    return syn_recompute_except(ctx, run, arg, in, n, NULL);
}

void syn__tape_unpin(syn_ctx *ctx, const syn__tape_entry *entry) {
    const uint32_t row = syn_trace_node_row(ctx->trace, entry->node);
    each_saved(ctx, &ctx->gradients.tape, entry, row, syn__storage_unkeep);
}

/* Empties the current tape. */
static void clear(syn_ctx *ctx) {
    syn__tape *tape = &ctx->gradients.tape;
    for (; tape->n > 0; tape->n--)
        if (!tape->entries[tape->n - 1].region) syn__tape_unpin(ctx, &tape->entries[tape->n - 1]);
    for (; tape->n_regions > 0; tape->n_regions--)
        syn__region_unpin(ctx, &tape->regions[tape->n_regions - 1]);
    for (; tape->n_left_out > 0; tape->n_left_out--)
        syn__left_out_unpin(ctx, &tape->left_out[tape->n_left_out - 1]);
    drop_kept(ctx, tape, 0);
    tape->n_inputs = 0;
}

void syn__tape_clear(syn_ctx *ctx) {
    syn__gradients *g = &ctx->gradients;
    const uint32_t set = g->set;
    clear(ctx);
    for (uint32_t i = 0; i < g->n_others; i++) {
        (void)syn_set_tape(ctx, i);
        clear(ctx);
    }
    (void)syn_set_tape(ctx, set);
    for (size_t i = 0; i < g->n_leaves; i++) g->leaves[i].uses = 0;
}

static void free_tape(syn__tape *tape) {
    syn_free(tape->entries);
    syn_free(tape->regions);
    syn_free(tape->left_out);
    syn_free(tape->kept);
    syn_free(tape->inputs);
}

void syn__gradients_free(syn__gradients *g) {
    free_tape(&g->tape);
    for (uint32_t i = 0; i < g->n_others; i++) free_tape(&g->others[i]);
    syn_free(g->others);
    syn_free(g->leaves);
    syn_free(g->of_row);
}
