/* syn_backward, which walks a tape from its last op to its first. The gradient rules of the ops
   build the gradients. This file decides which gradients are needed, and frees them and the saved
   tensors after their last use. gradient.c stores and adds gradients; tape.c records the tape. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/dispatch.h"
#include "syntorch/gradient.h"

/* The state of one backward pass. */
typedef struct walk {
    syn_ctx *ctx;
    bool split;          /* whether to leave out weight gradients (syn_backward_inputs) */
    uint32_t again_node; /* the node whose output `again` is; 0: none */
    syn_tensor again;    /* computed again; its storage is kept */
    bool waiting;        /* whether a rule was postponed and must be called again, with `later` */
    syn_grad_call later;
    syn__tape_entry later_entry; /* the tape entry of `later` */
} walk;
/* ---- one op ---- */

syn_tensor syn_grad_out(syn_grad_call *call, int i) {
    syn_ctx *ctx = call->ctx;
    if (i == call->seed && !call->dout[i].id) {
        const syn_spec spec = *syn_tensor_spec(ctx, call->out[i]);
        const float one = 1.0f;
        call->dout[i] = syn_input(ctx, "one", &spec, &one);
    }
    return call->dout[i];
}

/* Fills in the call of a node's gradient rule. Returns false if none of the node's outputs has a
   gradient. */
static bool describe(syn_ctx *ctx, const syn__tape_entry *entry, uint32_t node, syn_grad_call *c) {
    const syn_trace *t = ctx->trace;
    const syn_trace_node *n = &t->nodes[node];
    bool any = false;
    c->ctx = ctx;
    c->def = syn_trace_op(t, n);
    c->n_in = n->n_in;
    c->n_out = n->n_out;
    c->group = n->group ? syn_ctx_group(ctx, node) : NULL;
    c->comm_next = c->later = false;
    c->seed = -1;
    for (int i = 0; i < c->n_out; i++) {
        uint32_t *place = syn__grad_place(ctx, n->first_out + (uint32_t)i);
        c->out[i] = syn__tensor(ctx, n->first_out + (uint32_t)i);
        c->dout[i] = (syn_tensor){0};
        if (!place || !*place) continue;
        any = true;
        if (*place == SYN__GRAD_SEED) c->seed = i;
        else c->dout[i] = (syn_tensor){syn__grad_version(ctx, *place), ctx->tag};
    }
    for (int i = 0; i < c->n_in; i++) {
        c->in[i] = syn__tensor(ctx, syn__tape_input(ctx, entry, node, i));
        c->need[i] = i < 32 && (entry->need >> i & 1);
        c->din[i] = c->sum[i] = (syn_tensor){0};
    }
    return any;
}

/* Whether a rule added to the gradient in place, so that g is a new version of sum. */
static bool is_version(const syn_ctx *ctx, syn_tensor g, syn_tensor sum) {
    const syn_trace_tensor *tensors = ctx->trace->tensors;
    return sum.id && tensors[syn__row(ctx, g)].base == tensors[syn__row(ctx, sum)].base;
}

/* ---- tensors that are computed again ---- */

static void drop_again(walk *w) {
    syn_ctx *ctx = w->ctx;
    if (w->again_node && w->again.id)
        syn__storage_unkeep(&ctx->storages, syn__storage_number(ctx, syn__row(ctx, w->again)));
    w->again_node = 0;
}

/* Runs a node again and returns its output. The last result is kept, because ops with the same
   input follow each other. */
static syn_tensor run_node_again(walk *w, uint32_t node) {
    syn_ctx *ctx = w->ctx;
    const syn_trace *t = ctx->trace;
    if (w->again_node == node) return w->again;
    drop_again(w);
    const syn_trace_node n = t->nodes[node];
    const syn_tensor in = syn__tensor(ctx, t->inputs[n.first_in]);
    syn_attr attr[SYN_MAX_ATTRS];
    const size_t bytes = syn_intern_entry_bytes(&t->blobs, n.attrs);
    memcpy(attr, syn_intern_get(&t->blobs, n.attrs), bytes);
    const syn_mark mark = syn_ctx_mark(ctx);
    ctx->scopes[0] = n.scope;
    ctx->n_scopes = 1;
    syn__dispatch(ctx, syn_trace_op(t, &n), &in, 1, attr, (int)(bytes / sizeof *attr),
                  n.group ? syn_ctx_group(ctx, node) : NULL, &w->again);
    if (!w->again.id) return w->again;
    w->again_node = node;
    syn__storage_keep(&ctx->storages, syn__storage_number(ctx, syn__row(ctx, w->again)));
    syn_release(ctx, mark, NULL, 0); /* drop_again frees it */
    return w->again;
}

/* Replaces the inputs whose data the rule reads and that were not saved. */
static void restore_inputs(walk *w, const syn__tape_entry *entry, uint32_t node, syn_grad_call *c) {
    const syn_trace *t = w->ctx->trace;
    uint32_t need = 0;
    for (int i = 0; i < c->n_in && i < 4; i++) need |= (uint32_t)c->need[i] << i;
    const uint32_t operands = syn__kept_operands(c->def, need);
    for (int i = 0; i < c->n_in && i < 8; i++) {
        const uint32_t row = syn__tape_input(w->ctx, entry, node, i);
        const uint32_t again = operands >> i & 1 ? syn__again_node(t, row) : 0;
        if (again) c->in[i] = run_node_again(w, again);
    }
}

/* Calls the rule for the inputs for which c->need is still set, and adds the gradients that the
   rule built. */
static void apply(walk *w, const syn__tape_entry *entry, uint32_t node, syn_grad_call *c) {
    syn_ctx *ctx = w->ctx;
    const syn_trace *t = ctx->trace;
    restore_inputs(w, entry, node, c);
    const syn_mark mark = syn_ctx_mark(ctx);
    ctx->scopes[0] = t->nodes[node].scope;
    ctx->n_scopes = 1;
    for (int i = 0; i < c->n_in; i++) {
        const uint32_t *place =
            c->need[i] ? syn__grad_place(ctx, syn__tape_input(ctx, entry, node, i)) : NULL;
        c->sum[i] = place && syn__grad_alone(ctx, *place)
                        ? (syn_tensor){syn__grad_version(ctx, *place), ctx->tag}
                        : (syn_tensor){0};
    }
    c->attr = syn_intern_get(&t->blobs, t->nodes[node].attrs);
    c->n_attr = (int)(syn_intern_entry_bytes(&t->blobs, t->nodes[node].attrs) / sizeof *c->attr);
    c->def->grad(c);
    for (int i = 0; i < c->n_in; i++) {
        if (!c->need[i] || !c->din[i].id) continue;
        if (!is_version(ctx, c->din[i], c->sum[i]))
            syn__grad_add(ctx, syn__tape_input(ctx, entry, node, i), c->din[i]);
        c->need[i] = false;
        c->din[i] = (syn_tensor){0};
    }
    syn_release(ctx, mark, NULL, 0);
}

/* Called when all gradients of an op's inputs are built. Frees the gradients of its outputs and its
   saved tensors, and reports parameters whose gradient is now final. */
static void finish(syn_ctx *ctx, uint32_t node, const syn_grad_call *c,
                   const syn__tape_entry *entry) {
    const syn_trace *t = ctx->trace;
    for (int i = 0; i < c->n_out; i++) {
        uint32_t *place = syn__grad_place(ctx, t->nodes[node].first_out + (uint32_t)i);
        if (place && *place && *place != SYN__GRAD_SEED) syn__grad_unhold(ctx, *place);
        if (place) *place = 0;
    }
    syn__tape_unpin(ctx, entry);
    ctx->n_scopes = 0;
    for (int i = 0; i < c->n_in && i < 32; i++) {
        syn__leaf *leaf =
            entry->need >> i & 1 ? syn__leaf_of(ctx, syn__tape_input(ctx, entry, node, i)) : NULL;
        if (!leaf || --leaf->uses > 0 || !leaf->grad || leaf->param == SIZE_MAX) continue;
        if (ctx->gradients.ready) ctx->gradients.ready(ctx->gradients.user, leaf->param);
    }
}

/* ---- the walk ---- */

/* Calls the postponed rule for its remaining inputs. */
static void run_later(walk *w) {
    syn_ctx *ctx = w->ctx;
    if (!w->waiting) return;
    const uint32_t node = syn_trace_node_row(ctx->trace, w->later_entry.node);
    w->waiting = false;
    apply(w, &w->later_entry, node, &w->later);
    finish(ctx, node, &w->later, &w->later_entry);
}

/* Whether the op that produced input 0 is the next op of the walk and has a collective as its
   gradient. */
static bool comm_follows(const syn_ctx *ctx, const syn_grad_call *c) {
    const syn__gradients *g = &ctx->gradients;
    const syn_trace *t = ctx->trace;
    if (c->n_in == 0 || g->tape.n == 0) return false;
    const uint32_t producer = t->tensors[syn__row(ctx, c->in[0])].producer;
    return producer && (syn_trace_op(t, &t->nodes[producer])->flags & SYN_OPF_GRAD_COMM) &&
           syn_trace_node_number(t, producer) == g->tape.entries[g->tape.n - 1].node;
}

/* Builds the ops of a region again, and records them on the tape this time. The gradient of the
   first run's result becomes the gradient of the second run's result. */
static void run_again(walk *w) {
    syn_ctx *ctx = w->ctx;
    syn__gradients *g = &ctx->gradients;
    const syn__region r = g->tape.regions[--g->tape.n_regions];
    uint32_t *place = syn__grad_place(ctx, syn__row(ctx, r.out));
    const uint32_t due = place ? *place : 0;
    if (due) {
        const syn_mark mark = syn_ctx_mark(ctx);
        *place = 0;
        ctx->scopes[0] = r.scope;
        ctx->n_scopes = r.n_scopes;
        ctx->phase = SYN_PHASE_RECOMPUTE;
        g->off = false;
        g->again = true;
        g->keep = r.keep;
        g->keep_state = 0;
        g->next_kept = r.first_kept;
        const syn_tensor out = r.run(r.arg, r.in);
        g->off = true;
        g->again = false;
        g->keep = NULL;
        ctx->phase = SYN_PHASE_BACKWARD;
        if (ctx->error.code == SYN_OK && syn__grad_extend(ctx, (uint32_t)ctx->trace->n_tensors))
            *syn__grad_place(ctx, syn__row(ctx, out)) = due;
        syn_release(ctx, mark, NULL, 0);
        if (r.keep) syn__wait_for_unused(ctx); /* only ops that were kept use them */
    }
    syn__region_unpin(ctx, &r);
}

/* ---- weight gradients that are computed later ---- */

void syn__left_out_unpin(syn_ctx *ctx, const syn__left_out *op) {
    syn__tape_unpin(ctx, &op->entry);
    syn__grad_unhold(ctx, op->dout);
}

/* Whether input i of a node is a parameter that requires a gradient. */
static bool is_weight(const syn_ctx *ctx, uint32_t node, int i) {
    const syn_trace *t = ctx->trace;
    const syn__leaf *leaf = syn__leaf_of(ctx, t->inputs[t->nodes[node].first_in + (uint32_t)i]);
    return leaf && leaf->param != SIZE_MAX;
}

/* Restricts the call to the inputs that are weights, or to the other inputs. Returns whether any
   weight needs a gradient. */
static bool restrict_to(const syn_ctx *ctx, uint32_t node, bool weights, syn_grad_call *c) {
    bool any = false;
    for (int i = 0; i < c->n_in; i++) {
        const bool is = is_weight(ctx, node, i);
        any = any || (is && c->need[i]);
        c->need[i] = c->need[i] && is == weights;
    }
    return any;
}

/* Builds the gradients of the op's inputs except for its weights, and adds the op to the list of
   left-out ops. Returns false if the op cannot be split in this way. */
static bool leave_out_weights(walk *w, const syn__tape_entry *entry, uint32_t node,
                              syn_grad_call *c) {
    syn_ctx *ctx = w->ctx;
    syn__tape *tape = &ctx->gradients.tape;
    uint32_t *place = syn__grad_place(ctx, ctx->trace->nodes[node].first_out);
    if (!w->split || !(c->def->flags & SYN_OPF_SPLIT) || !place || !*place ||
        *place == SYN__GRAD_SEED)
        return false;
    const uint32_t dout = syn__grad_version(ctx, *place);
    syn_grad_call inputs = *c;
    if (!restrict_to(ctx, node, false, &inputs)) return false;
    if (syn_grow(&tape->left_out, &tape->left_out_cap, tape->n_left_out + 1, sizeof *tape->left_out,
                 &ctx->error) != SYN_OK)
        return false;
    apply(w, entry, node, &inputs);
    tape->left_out[tape->n_left_out++] = (syn__left_out){*entry, dout};
    *place = 0;
    ctx->n_scopes = 0;
    return true;
}

/* Removes the last entry of the tape and builds its gradients. A rule may postpone a part of its
   work (c.later) until the next op's collective is in flight. The step for the next entry then runs
   this part. */
static void step(walk *w) {
    syn_ctx *ctx = w->ctx;
    const syn__tape_entry entry = ctx->gradients.tape.entries[--ctx->gradients.tape.n];
    if (entry.region) {
        run_later(w);
        run_again(w);
        return;
    }
    const uint32_t node = syn_trace_node_row(ctx->trace, entry.node);
    const bool waiting = w->waiting;
    syn_grad_call c;
    if (node == w->again_node && !waiting) drop_again(w);
    if (describe(ctx, &entry, node, &c)) {
        if (leave_out_weights(w, &entry, node, &c)) return;
        c.comm_next = !w->split && comm_follows(ctx, &c);
        apply(w, &entry, node, &c);
    }
    if (waiting) run_later(w);
    if (node == w->again_node && waiting) drop_again(w); /* run_later has read it */
    if (!c.later) {
        finish(ctx, node, &c, &entry);
        return;
    }
    c.later = c.comm_next = false;
    w->later = c;
    w->later_entry = entry;
    w->waiting = true;
}

/* Whether the op that produced a tensor is on the tape. If not, the context fails. */
static bool check_taped(syn_ctx *ctx, syn_tensor out, uint32_t row) {
    const syn__gradients *g = &ctx->gradients;
    const syn_trace *t = ctx->trace;
    const uint32_t node = t->tensors[row].producer;
    size_t at = g->tape.n;
    while (at > 0 && g->tape.entries[at - 1].node != syn_trace_node_number(t, node)) at--;
    if (node && at > 0) return true;
    syn_ctx_fail(
        ctx, SYN_E_INVALID, "tensor %u has no gradient: %s", out.id,
        t->tensors[row].flags & SYN_TENSOR_GRAD
            ? "an earlier backward pass included it, its ops were forgotten, or they are on "
              "another tape"
            : "none of its inputs requires a gradient");
    return false;
}

/* Checks that dout can be the gradient of a tensor row or, if dout is invalid, that the tensor can
   be a loss. If not, the context fails. */
static bool check_dout(syn_ctx *ctx, syn_tensor out, uint32_t row, syn_tensor dout) {
    const syn_spec *spec = syn_trace_spec(ctx->trace, row);
    if (!dout.id) {
        if (syn_spec_elems(spec) == 1 && spec->dtype == SYN_F32) return true;
        syn_ctx_fail(ctx, SYN_E_SHAPE, "tensor %u is not a loss, which is a single f32", out.id);
        return false;
    }
    const uint32_t given = syn__own_row(ctx, dout, "a gradient");
    if (!given) return false;
    const syn_spec *has = syn_trace_spec(ctx->trace, given);
    if (!syn__storage(ctx, given)) {
        syn_ctx_fail(ctx, SYN_E_INVALID, "the data of gradient %u was released", dout.id);
        return false;
    }
    if (has->dtype == spec->dtype && syn__same_shape(ctx, dout, row)) return true;
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    syn_ctx_fail(ctx, SYN_E_SHAPE, "the gradient of a tensor %s cannot be %s",
                 syn_spec_text(spec, a, sizeof a), syn_spec_text(has, b, sizeof b));
    return false;
}

/* The first tensor row of the walk that may get a gradient and is no leaf. The tensors that a
   region keeps are older than its result. */
static uint32_t first_row(const syn_ctx *ctx) {
    const syn__tape *tape = &ctx->gradients.tape;
    const syn_trace *t = ctx->trace;
    const uint32_t row = t->nodes[syn_trace_node_row(t, tape->entries[0].node)].first_out;
    const uint32_t kept = tape->n_kept > 0 ? syn_trace_tensor_row(t, tape->kept[0]) : row;
    return kept < row ? kept : row;
}

/* Begins the walk over the tape. Returns false if there is nothing to walk over or after a
   failure. */
static bool begin(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n) {
    for (int i = 0; i < n; i++) {
        const uint32_t row = syn__own_row(ctx, out[i], "differentiated");
        if (!row || !check_dout(ctx, out[i], row, dout[i]) || !check_taped(ctx, out[i], row))
            return false;
    }
    if (n == 0) return false;
    syn__grad_begin(ctx, first_row(ctx));
    if (!syn__grad_extend(ctx, (uint32_t)ctx->trace->n_tensors)) return false;
    for (int i = 0; i < n; i++) {
        uint32_t *place = syn__grad_place(ctx, syn__row(ctx, out[i]));
        if (*place) {
            syn_ctx_fail(ctx, SYN_E_INVALID, "tensor %u appears twice", out[i].id);
            return false;
        }
        *place = dout[i].id ? dout[i].id : SYN__GRAD_SEED;
        if (dout[i].id) syn__grad_hold(ctx, dout[i].id);
    }
    return true;
}

/* The members of the context that a backward pass changes while it runs, and restores
   afterwards. */
typedef struct saved_state {
    uint32_t scopes[SYN__SCOPE_DEPTH];
    int n_scopes;
    syn_phase phase;
    bool grad;
} saved_state;

static void enter(syn_ctx *ctx, saved_state *s) {
    s->n_scopes = ctx->n_scopes;
    s->phase = ctx->phase;
    s->grad = syn_set_grad(ctx, false);
    memcpy(s->scopes, ctx->scopes, sizeof s->scopes);
    ctx->phase = SYN_PHASE_BACKWARD;
}

static void leave(syn_ctx *ctx, const saved_state *s) {
    ctx->phase = s->phase;
    memcpy(ctx->scopes, s->scopes, sizeof s->scopes);
    ctx->n_scopes = s->n_scopes;
    syn_set_grad(ctx, s->grad);
}

static syn_status go_back(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n,
                          bool split) {
    walk w = {.ctx = ctx, .split = split};
    saved_state around;
    if (ctx->error.code != SYN_OK || !begin(ctx, out, dout, n)) return ctx->error.code;
    enter(ctx, &around);
    while (ctx->gradients.tape.n > 0 && ctx->error.code == SYN_OK) step(&w);
    run_later(&w);
    drop_again(&w);
    leave(ctx, &around);
    if (ctx->gradients.tape.n_left_out == 0) ctx->gradients.tape.n_inputs = 0;
    return ctx->error.code;
}

syn_status syn_backward_from(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n) {
    return go_back(ctx, out, dout, n, false);
}

syn_status syn_backward(syn_ctx *ctx, syn_tensor loss) {
    const syn_tensor none = {0};
    return go_back(ctx, &loss, &none, 1, false);
}

syn_status syn_backward_inputs(syn_ctx *ctx, const syn_tensor *out, const syn_tensor *dout, int n) {
    return go_back(ctx, out, dout, n, true);
}

/* Computes the weight gradients of an op that was left out. Only its output needs an entry in
   of_row: the gradients of weights are in their leaves. */
static void compute_weights(walk *w, const syn__left_out *op) {
    syn_ctx *ctx = w->ctx;
    const uint32_t node = syn_trace_node_row(ctx->trace, op->entry.node);
    syn_grad_call c;
    syn__grad_begin(ctx, ctx->trace->nodes[node].first_out);
    if (ctx->error.code != SYN_OK || !syn__grad_extend(ctx, ctx->gradients.first_row + 1)) {
        syn__left_out_unpin(ctx, op);
        return;
    }
    *syn__grad_place(ctx, ctx->gradients.first_row) = op->dout;
    describe(ctx, &op->entry, node, &c);
    restrict_to(ctx, node, true, &c);
    apply(w, &op->entry, node, &c);
    finish(ctx, node, &c, &op->entry);
}

syn_status syn_backward_weights(syn_ctx *ctx) {
    syn__tape *tape = &ctx->gradients.tape;
    walk w = {.ctx = ctx};
    saved_state around;
    if (ctx->error.code != SYN_OK) return ctx->error.code;
    enter(ctx, &around);
    for (size_t i = 0; i < tape->n_left_out; i++) compute_weights(&w, &tape->left_out[i]);
    tape->n_left_out = 0;
    tape->n_inputs = 0;
    drop_again(&w);
    leave(ctx, &around);
    return ctx->error.code;
}
