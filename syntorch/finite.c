/* The NaN and infinity check (syn_ctx_check_finite), which finds the first tensor with a value that
   is not finite. */
#include <math.h>
#include <stdio.h>

#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"

enum { HAS_NAN = 1, HAS_INFINITY = 2, HAS_MINUS_INFINITY = 4 };

static unsigned kind(float x) {
    return isfinite(x) ? 0 : isnan(x) ? HAS_NAN : x > 0 ? HAS_INFINITY : HAS_MINUS_INFINITY;
}

/* Returns which of NaN, infinity and -infinity the tensor of a row contains; 0 for integers. The
   index of the first value of one of the kinds in `wanted` is stored in *element. */
static unsigned kinds(syn_ctx *ctx, uint32_t row, unsigned wanted, int64_t *element) {
    const syn_spec *spec = syn_trace_spec(ctx->trace, row);
    const int64_t n = syn_spec_elems(spec);
    unsigned found = 0;
    if (spec->dtype > SYN_BF16) return 0;
    float *x = syn_malloc((size_t)n * sizeof *x + 1);
    if (!x) {
        SYN_FAIL_NOMEM(&ctx->error, (size_t)n * sizeof *x, "a tensor to check");
        return 0;
    }
    if (syn_tensor_read_f32(ctx, syn__tensor(ctx, row), x, (size_t)n) == SYN_OK)
        for (int64_t i = n; i-- > 0;) {
            found |= kind(x[i]);
            if (kind(x[i]) & wanted) *element = i;
        }
    syn_free(x);
    return found;
}

static void remember(syn_ctx *ctx, uint32_t row, unsigned bad) {
    syn__finite_check *w = &ctx->finite_check;
    const unsigned wanted = bad & HAS_NAN ? HAS_NAN : bad;
    if (w->tensor || !bad) return;
    (void)kinds(ctx, row, wanted, &w->element);
    w->is_nan = wanted == HAS_NAN;
    w->tensor = syn_trace_tensor_number(ctx->trace, row);
}

unsigned syn__check_inputs(syn_ctx *ctx, const syn_opdef *def, const uint32_t *rows, int n) {
    unsigned all = 0;
    for (int i = 0; i < n && !ctx->finite_check.tensor; i++) {
        int64_t unused;
        const syn_trace_tensor *t = &ctx->trace->tensors[rows[i]];
        const syn_storage *storage = syn__storage(ctx, rows[i]);
        const bool managed = storage && storage->managed;
        /* A restored parameter has undefined contents until this op, an all-gather, overwrites it.
           The next op reports what the parameter contains then, with the parameter's name. */
        if (managed && (def->flags & SYN_OPF_COMM)) return 0;
        const unsigned found = kinds(ctx, rows[i], 0, &unused);
        if (!t->producer || managed)
            remember(ctx, rows[i],
                     t->flags & SYN_TENSOR_PARAM ? found : found & (HAS_NAN | HAS_INFINITY));
        all |= found;
    }
    return all;
}

/* Communication ops are not checked, because their non-finite values come from other ranks, which
   report these values. -infinity is normal in the output of a causal mask. */
void syn__check_outputs(syn_ctx *ctx, uint32_t node, unsigned inputs) {
    const syn_trace_node *n = &ctx->trace->nodes[node];
    const syn_opdef *def = syn_trace_op(ctx->trace, n);
    if (ctx->finite_check.tensor || (def->flags & SYN_OPF_COMM)) return;
    for (uint32_t i = 0; i < n->n_out; i++) {
        int64_t unused;
        const uint32_t row = n->first_out + i;
        const unsigned found = kinds(ctx, row, 0, &unused);
        unsigned bad = 0;
        if (!(inputs & (HAS_NAN | HAS_INFINITY))) bad = found & (HAS_NAN | HAS_INFINITY);
        if (!inputs && n->op != SYN_OP_SCALE_MASK) bad |= found & HAS_MINUS_INFINITY;
        remember(ctx, row, bad);
    }
}

void syn_ctx_check_finite(syn_ctx *ctx, bool on) {
    if (on) ctx->finite_check = (syn__finite_check){.on = ctx->backend->has_data};
    ctx->finite_check.on = on && ctx->backend->has_data;
}

bool syn_ctx_first_nonfinite(const syn_ctx *ctx, char *text, size_t bytes) {
    const syn__finite_check *w = &ctx->finite_check;
    const syn_trace *t = ctx->trace;
    const uint32_t row = w->tensor ? syn_trace_tensor_row(t, w->tensor) : 0;
    char name[SYN_MAX_NAME], made[SYN_MAX_NAME + 64] = "set by the caller";
    if (!row) return false;
    const uint32_t producer = t->tensors[row].producer;
    const syn_trace_node *n = &t->nodes[producer];
    const char *scope = syn_trace_text(t, n->scope);
    if (producer)
        snprintf(made, sizeof made, "output of %s%s%s (%s)", syn_trace_op(t, n)->name,
                 *scope ? " in " : "", scope, syn_phase_name((syn_phase)n->phase));
    snprintf(text, bytes, "tensor '%s', %s, has %s at element %lld",
             syn_trace_tensor_name(t, row, name), made, w->is_nan ? "NaN" : "infinity",
             (long long)w->element);
    return true;
}
