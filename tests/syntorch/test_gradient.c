/* Tests syn_backward: what it rejects, the order in which it adds gradients, and its memory.
   tests/gradients checks the gradient rules of the ops against finite differences. */
#include "ops/rules.h"
#include "syntorch/context_private.h"
#include "syntorch/gradient.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { N = 4 };

static const syn_spec row_spec = {SYN_F32, 1, {N}};

static syn_tensor input(syn_ctx *ctx, const float *values) {
    return syn_input(ctx, "x", &row_spec, values);
}

static syn_tensor leaf(syn_ctx *ctx, const float *values) {
    const syn_tensor t = input(ctx, values);
    syn_require_grad(ctx, t);
    return t;
}

static syn_tensor total(syn_ctx *ctx, syn_tensor x) {
    return syn_sum_to(ctx, x, NULL, 0);
}

/* Whether all elements of t's gradient equal `want`. */
static bool all_are(syn_ctx *ctx, syn_tensor t, float want) {
    float got[N] = {0};
    const syn_tensor g = syn_grad(ctx, t);
    if (!g.id || syn_tensor_read(ctx, g, got, sizeof got) != SYN_OK) return false;
    for (int i = 0; i < N; i++)
        if (got[i] != want)
            fprintf(stderr, "element %d: %g, not %g\n", i, (double)got[i], (double)want);
    for (int i = 0; i < N; i++)
        if (got[i] != want) return false;
    return true;
}

/* ---- what is rejected ---- */

static const float ones[N] = {1, 1, 1, 1};

static syn_status twice(syn_ctx *c) {
    const syn_tensor loss = total(c, syn_tanh(c, leaf(c, ones)));
    if (syn_backward(c, loss) != SYN_OK) return SYN_OK;
    return syn_backward(c, loss);
}

/* The first syn_backward clears the tape, so a second loss cannot use the ops of the first one. */
static syn_status through_an_earlier_pass(syn_ctx *c) {
    const syn_tensor y = syn_tanh(c, leaf(c, ones));
    if (syn_backward(c, total(c, y)) != SYN_OK) return SYN_OK;
    return syn_backward(c, total(c, syn_scale(c, y, 2)));
}

static syn_status of_nothing(syn_ctx *c) {
    leaf(c, ones);
    return syn_backward(c, total(c, syn_tanh(c, input(c, ones))));
}

static syn_status of_an_input(syn_ctx *c) {
    const syn_spec scalar = {SYN_F32, 0, {0}};
    const syn_tensor x = syn_input(c, "x", &scalar, ones);
    syn_require_grad(c, x);
    return syn_backward(c, x);
}

static syn_status of_many(syn_ctx *c) {
    return syn_backward(c, syn_tanh(c, leaf(c, ones)));
}

static syn_status of_a_choice(syn_ctx *c) {
    return syn_backward(c, syn_argmax(c, leaf(c, ones)));
}

static syn_status while_off(syn_ctx *c) {
    const syn_tensor x = leaf(c, ones);
    syn_set_grad(c, false);
    const syn_tensor loss = total(c, syn_tanh(c, x));
    syn_set_grad(c, true);
    return syn_backward(c, loss);
}

static syn_status through_an_overwritten_tensor(syn_ctx *c) {
    const syn_spec spec = {SYN_F32, 2, {2, 2}}, two = {SYN_I32, 1, {2}};
    const syn_tensor x = syn_input(c, "x", &spec, ones);
    syn_require_grad(c, x);
    syn_push_scope(c, "head");
    const syn_tensor y = syn_tanh(c, x); /* the gradient rule of tanh reads the op's result */
    const syn_tensor targets = syn_input(c, "t", &two, NULL);
    const syn_status s = syn_backward(c, syn_cross_entropy(c, y, targets, SYN_MEAN, 2));
    syn_pop_scope(c);
    return s;
}

static syn_status through_an_overwritten_input(syn_ctx *c) {
    const syn_spec spec = {SYN_F32, 4, {1, 1, 2, 2}}, row = {SYN_F32, 4, {1, 1, 1, 2}};
    const syn_tensor x = syn_input(c, "x", &spec, ones), cache = syn_state(c, "cache", &spec);
    syn_require_grad(c, x);
    const syn_tensor y = syn_mul(c, x, cache);
    syn_kv_append(c, cache, syn_input(c, "row", &row, ones), 0);
    return syn_backward(c, total(c, y));
}

static syn_status with_a_written_input(syn_ctx *c) {
    const syn_tensor x = leaf(c, ones), by = input(c, ones);
    const syn_tensor loss = total(c, syn_mul(c, x, by));
    const syn_status s = syn_tensor_write(c, by, ones, sizeof ones);
    return s == SYN_OK ? syn_backward(c, loss) : s;
}

static syn_status through_an_op_without_a_rule(syn_ctx *c) {
    const syn_spec spec = {SYN_F32, 4, {1, 1, 2, 2}}, row = {SYN_F32, 4, {1, 1, 1, 2}};
    const syn_tensor x = syn_input(c, "x", &row, ones);
    syn_require_grad(c, x);
    syn_push_scope(c, "h.0");
    syn_kv_append(c, syn_state(c, "cache", &spec), x, 0);
    syn_pop_scope(c);
    return syn_ctx_status(c);
}

static syn_status of_a_forgotten_loss(syn_ctx *c) {
    const syn_tensor x = leaf(c, ones);
    const syn_mark mark = syn_ctx_mark(c);
    const syn_tensor loss = total(c, syn_tanh(c, x));
    syn_forget(c, mark, NULL, 0);
    return syn_backward(c, loss);
}

static syn_status of_a_loss_whose_ops_are_forgotten(syn_ctx *c) {
    const syn_tensor x = leaf(c, ones);
    const syn_mark mark = syn_ctx_mark(c);
    const syn_tensor loss = total(c, syn_tanh(c, x));
    syn_forget(c, mark, &loss, 1);
    return syn_backward(c, loss);
}

static syn_status of_a_released_leaf(syn_ctx *c) {
    const syn_tensor x = leaf(c, ones), y = syn_scale(c, x, 2);
    syn_drop(c, x);
    return syn_backward(c, total(c, y));
}

static syn_status for_what_is_computed(syn_ctx *c) {
    syn_require_grad(c, syn_tanh(c, leaf(c, ones)));
    return syn_ctx_status(c);
}

static syn_status for_integers(syn_ctx *c) {
    syn_require_grad(c, ZEROS(c, SYN_I32, 2));
    return syn_ctx_status(c);
}

static syn_status for_what_was_released(syn_ctx *c) {
    const syn_tensor x = input(c, ones);
    syn_drop(c, x);
    syn_require_grad(c, x);
    return syn_ctx_status(c);
}

static const struct refusal {
    const char *name;
    syn_status (*provoke)(syn_ctx *ctx);
    const char *says;
} refusals[] = {
    {"twice", twice,
     "tensor 3 has no gradient: an earlier backward pass included it, its ops were forgotten, or "},
    {"through an earlier pass", through_an_earlier_pass,
     "tensor 2 was computed before the last backward pass or on another tape, so its inputs "
     "get no gradients"},
    {"of nothing", of_nothing, "tensor 4 has no gradient: none of its inputs requires a gradient"},
    {"of an input", of_an_input, "tensor 1 has no gradient"},
    {"of many elements", of_many, "tensor 2 is not a loss, which is a single f32"},
    {"of a choice", of_a_choice, "tensor 2 is not a loss, which is a single f32"},
    {"while off", while_off, "tensor 3 has no gradient: none of its inputs requires a gradient"},
    {"through an overwritten tensor", through_an_overwritten_tensor,
     "tanh_grad in head: tensor 2, 'head/tanh:0', was overwritten by cross_entropy (node 2)"},
    {"through an overwritten input", through_an_overwritten_input,
     "mul: tensor 2, 'cache', was overwritten by kv_append (node 2)"},
    {"with a written input", with_a_written_input,
     "'x' cannot be written: it is saved for a backward pass"},
    {"through an op without a rule", through_an_op_without_a_rule,
     "kv_append in h.0: has no gradient, but an input requires one"},
    {"of a forgotten loss", of_a_forgotten_loss, "cannot be differentiated"},
    {"of a loss whose ops are forgotten", of_a_loss_whose_ops_are_forgotten,
     "has no gradient: an earlier backward pass included it, its ops were forgotten, or "},
    {"of a released leaf", of_a_released_leaf,
     "the data of tensor 1, which requires a gradient, was released"},
    {"for what is computed", for_what_is_computed,
     "tensor 2 cannot require a gradient: it is a view, or was computed from a tensor that "
     "requires one"},
    {"for integers", for_integers,
     "tensor 1 cannot require a gradient: only f32, f16 and bf16 tensors can"},
    {"for what was released", for_what_was_released,
     "tensor 1 cannot require a gradient: its data was released"},
};

static void test_refusals(void) {
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < COUNT(refusals); i++) {
            syn_error err = {0};
            syn_ctx *ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
            const syn_status s = refusals[i].provoke(ctx);
            CHECK_MSG(s != SYN_OK && s == syn_ctx_status(ctx), "%s", refusals[i].name);
            CHECK_MSG(strstr(syn_ctx_error(ctx)->text, refusals[i].says), "%s: %s",
                      refusals[i].name, syn_ctx_error(ctx)->text);
            CHECK_OK(syn_trace_verify(syn_ctx_trace(ctx), &err), err);
            CHECK(syn_backward(ctx, ref_scalar(ctx)) == s); /* the context stays failed */
            syn_ctx_free(ctx);
        }
}

static void test_other_contexts(void) {
    syn_ctx *a = ref_ctx(SYN_DEVICE_CPU, NULL), *b = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(a, ones), y = leaf(b, ones);
    const syn_tensor loss = total(a, syn_tanh(a, x));
    CHECK(syn_backward(a, loss) == SYN_OK);
    CHECK(syn_grad(a, x).id && !syn_grad(a, y).id && !syn_grad(b, x).id);
    CHECK(!syn_requires_grad(b, x));
    CHECK(syn_backward(b, loss) == SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(b)->text, "cannot be differentiated: it belongs to another context");
    syn_require_grad(a, y);
    CHECK_HAS(syn_ctx_error(a)->text,
              "cannot be made to require a gradient: it belongs to another context");
    syn_ctx_free(a);
    syn_ctx_free(b);
}

/* ---- what is recorded ---- */

static void test_off_records_nothing(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(ctx, ones);
    CHECK(syn_requires_grad(ctx, x) && syn_set_grad(ctx, false) && !syn_requires_grad(ctx, x));
    const size_t used = ctx->storages.used_bytes;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor y = syn_tanh(ctx, x);
    syn_mul(ctx, y, y);
    CHECK_INT(ctx->gradients.tape.n, 0);
    syn_release(ctx, mark, NULL, 0);
    CHECK_INT(ctx->storages.used_bytes, used);
    CHECK(!syn_set_grad(ctx, true));
    /* Gradients are enabled, but no input requires one. */
    y = syn_mul(ctx, input(ctx, ones), input(ctx, ones));
    CHECK(!syn_requires_grad(ctx, y) && ctx->gradients.tape.n == 0);
    CHECK(syn_requires_grad(ctx, syn_tanh(ctx, x)) && ctx->gradients.tape.n == 1);
    syn_ctx_free(ctx);
}

/* Only required gradients are computed. Inputs that do not require one get none, and neither do
   tensors that the loss does not depend on. Backward rows have the scope of their forward op. */
static void test_only_required_gradients(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_spec w_spec = {SYN_F32, 2, {N, N}}, x_spec = {SYN_F32, 2, {2, N}};
    const syn_tensor w = syn_param(ctx, "w", &w_spec, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1, 1);
    const syn_tensor b = syn_param(ctx, "b", &row_spec, SYN_WHOLE, SYN_INIT_ZERO, 0, -1, 1);
    const syn_tensor x = syn_input(ctx, "x", &x_spec, NULL);
    syn_require_grads(ctx);
    syn_push_scope(ctx, "h.0");
    const syn_tensor y = syn_linear(ctx, x, w, SYN_NO_BIAS, false);
    syn_pop_scope(ctx);
    syn_tanh(ctx, b); /* the loss does not depend on this op */
    syn_push_scope(ctx, "later");
    syn_set_phase(ctx, SYN_PHASE_DECODE);
    CHECK(syn_backward(ctx, total(ctx, y)) == SYN_OK);
    const syn_trace *t = syn_ctx_trace(ctx);
    int products = 0;
    for (size_t i = 1; i < t->n_nodes; i++) {
        const syn_trace_node *n = &t->nodes[i];
        if (n->phase != SYN_PHASE_BACKWARD) continue;
        products += n->op == SYN_OP_MATMUL || n->op == SYN_OP_LINEAR;
        CHECK(n->op != SYN_OP_TANH_GRAD);
        if (n->op == SYN_OP_MATMUL) CHECK_STR(syn_trace_text(t, n->scope), "h.0");
    }
    CHECK_INT(products, 1);
    CHECK(syn_grad(ctx, w).id && !syn_grad(ctx, b).id && !syn_grad(ctx, x).id);
    syn_tanh(ctx, x); /* recorded with the restored scope and phase */
    CHECK_STR(syn_trace_text(t, t->nodes[t->n_nodes - 1].scope), "later");
    CHECK_INT(t->nodes[t->n_nodes - 1].phase, SYN_PHASE_DECODE);
    syn_ctx_free(ctx);
}

/* ---- accumulation ---- */

/* Gradients of uses are added from the last use to the first: (1 - 10^8) + 10^8 is 0 in f32, and
   any other order gives 1. */
static void test_order_of_uses(void) {
    for (int threads = 1; threads <= 3; threads++) {
        syn_error err = {0};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK_OK(syn_ctx_set_threads(ctx, threads, &err), err);
        const syn_tensor x = leaf(ctx, ones);
        const syn_tensor a = syn_scale(ctx, x, 1e8), b = syn_scale(ctx, x, -1e8),
                         c = syn_scale(ctx, x, 1);
        const syn_tensor sum = syn_add(ctx, a, syn_add(ctx, b, c));
        CHECK(syn_backward(ctx, total(ctx, sum)) == SYN_OK);
        CHECK(all_are(ctx, x, 0));
        CHECK_INT(ref_count(ctx, SYN_OP_ACCUMULATE), 2);
        syn_ctx_free(ctx);
    }
}

/* If two tensors have the same gradient tensor, an addition must not overwrite it. */
static void test_shared_gradients(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(ctx, ones), y = leaf(ctx, ones);
    const syn_tensor a = syn_scale(ctx, x, 3), b = syn_add(ctx, a, y);
    const syn_tensor c = syn_add(ctx, b, a); /* the gradients of b and a are one tensor */
    CHECK(syn_backward(ctx, total(ctx, c)) == SYN_OK);
    CHECK(all_are(ctx, x, 6) && all_are(ctx, y, 1));
    syn_ctx_free(ctx);
}

/* One op uses a tensor twice, its gradient rule adds in place, and the tensor already has a
   gradient. */
static void test_twice_in_one_op(void) {
    const syn_spec spec = {SYN_F32, 2, {2, 2}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = syn_input(ctx, "x", &spec, ones);
    syn_require_grad(ctx, x);
    const syn_tensor y = syn_linear(ctx, x, x, SYN_NO_BIAS, false);
    CHECK(syn_backward(ctx, total(ctx, syn_add(ctx, y, x))) == SYN_OK);
    CHECK(all_are(ctx, x, 5)); /* the product contributes 2 + 2 and the sum 1 */
    syn_ctx_free(ctx);
}

/* Gradients of several syn_backward calls are added up, as in gradient accumulation, even if the
   rows of earlier calls were forgotten. */
static void test_passes_add_up(void) {
    syn_error err = {0};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_spec one = {SYN_F32, 1, {1}};
    const float three = 3;
    const syn_tensor x = leaf(ctx, ones), p = syn_input(ctx, "p", &one, &three);
    syn_require_grad(ctx, p);
    for (int pass = 1; pass <= 4; pass++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor y = syn_reshape(ctx, syn_scale(ctx, x, 2), (const int64_t[]){2, 2}, 2);
        CHECK(syn_backward(ctx, syn_add(ctx, total(ctx, y), syn_reshape(ctx, p, NULL, 0))) ==
              SYN_OK);
        CHECK(all_are(ctx, x, 2 * (float)pass));
        syn_forget(ctx, mark, NULL, 0);
        CHECK(all_are(ctx, x, 2 * (float)pass));
        float got;
        CHECK(syn_tensor_read(ctx, syn_grad(ctx, p), &got, sizeof got) == SYN_OK);
        CHECK(got == (float)pass);
        CHECK_OK(syn_trace_verify(syn_ctx_trace(ctx), &err), err);
    }
    syn_drop_grads(ctx);
    CHECK(!syn_grad(ctx, x).id && !syn_grad(ctx, p).id);
    syn_ctx_free(ctx);
}

/* An op, such as an all-reduce, may overwrite a gradient after syn_backward. The gradient is still
   found after the rows before that op were forgotten. */
static void test_rewritten_gradients(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(ctx, ones);
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor sum = syn_add(ctx, syn_scale(ctx, x, 2), x);
    CHECK(syn_backward(ctx, total(ctx, sum)) == SYN_OK);
    const syn_tensor pair[2] = {syn_grad(ctx, x), x};
    syn_tensor out;
    syn_set_grad(ctx, false);
    syn__call_op(ctx, SYN_OP_ACCUMULATE, pair, 2, NULL, 0, NULL, &out);
    CHECK(syn_grad(ctx, x).id == out.id);
    syn_forget(ctx, mark, NULL, 0);
    CHECK(all_are(ctx, x, 4));
    syn_drop_grads(ctx);
    syn_ctx_free(ctx);
}

/* ---- the ready callback ---- */

typedef struct notes {
    syn_ctx *ctx;
    size_t params[8];
    int n;
    bool complete;
} notes;

static void note(void *user, size_t param) {
    notes *n = user;
    n->params[n->n++] = param;
    n->complete =
        n->complete && all_are(n->ctx, syn_ctx_param(n->ctx, param).tensor, param == 0 ? 3 : 1);
}

/* `ready` is called once for each parameter, when its gradient is final. It is not called for a
   parameter without a gradient. */
static void test_ready(void) {
    notes n = {.ctx = ref_ctx(SYN_DEVICE_CPU, NULL), .complete = true};
    syn_tensor p[3];
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        p[i] = syn_param(n.ctx, name, &row_spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    }
    syn_require_grads(n.ctx);
    syn_ctx_on_grad(n.ctx, note, &n);
    syn_tanh(n.ctx, p[2]);
    const syn_tensor y = syn_add(n.ctx, p[0], p[1]);
    const syn_tensor z = syn_add(n.ctx, y, syn_scale(n.ctx, p[0], 2));
    CHECK(syn_backward(n.ctx, total(n.ctx, z)) == SYN_OK);
    CHECK(n.n == 2 && n.complete);
    CHECK(n.params[0] + n.params[1] == 1);
    syn_ctx_free(n.ctx);
}

/* ---- memory ---- */

enum { LAYERS = 10, WIDTH = 1024 };

/* Applies x = tanh(x * w) LAYERS times. Everything except the leaves is released immediately. */
static syn_tensor deep(syn_ctx *ctx, const syn_tensor *w) {
    const syn_spec spec = {SYN_F32, 1, {WIDTH}};
    syn_tensor x = syn_input(ctx, "x", &spec, NULL);
    for (int i = 0; i < LAYERS; i++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor y = syn_tanh(ctx, syn_mul(ctx, x, w[i]));
        syn_drop(ctx, x);
        syn_release(ctx, mark, &y, 1);
        x = y;
    }
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor loss = total(ctx, x);
    syn_drop(ctx, x);
    syn_release(ctx, mark, &loss, 1);
    return loss;
}

/* The forward pass saves LAYERS + 1 tensors: the first x and the result of each tanh, which is the
   next layer's x. The backward pass frees them while it creates the weights' gradients. The peak is
   therefore the saved tensors plus the memory of one layer's backward pass. Afterwards, the memory
   in use is the same as at the start. */
static size_t peak_of(syn_device device) {
    const size_t bytes = WIDTH * sizeof(float);
    const syn_spec spec = {SYN_F32, 1, {WIDTH}};
    syn_ctx *ctx = ref_ctx(device, NULL);
    syn_tensor w[LAYERS];
    size_t peak = 0;
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = syn_param(ctx, name, &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    }
    syn_require_grads(ctx);
    const size_t before = ctx->storages.used_bytes;
    for (int pass = 0; pass < 3; pass++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor loss = deep(ctx, w);
        const size_t kept = ctx->storages.used_bytes - before;
        if (kept > (LAYERS + 1) * bytes + 256) return 0;
        if (syn_backward(ctx, loss) != SYN_OK) return 0;
        if (ctx->storages.used_bytes > before + LAYERS * bytes + 512) return 0;
        syn_drop_grads(ctx);
        syn_release(ctx, mark, NULL, 0);
        if (ctx->storages.used_bytes != before) return 0;
        if (pass > 0 && syn_ctx_peak_bytes(ctx) != peak) return 0;
        peak = syn_ctx_peak_bytes(ctx);
    }
    if (peak > before + (LAYERS + 4) * bytes + 512) {
        fprintf(stderr, "peak %zu, at rest %zu\n", peak, before);
        peak = 0;
    }
    syn_ctx_free(ctx);
    return peak;
}

static void test_memory(void) {
    const size_t meta = peak_of(SYN_DEVICE_META), cpu = peak_of(SYN_DEVICE_CPU);
    CHECK(meta > 0);
    CHECK_INT(cpu, meta);
}

/* ---- regions that keep some outputs ---- */

typedef struct region {
    syn_ctx *ctx;
    bool changes; /* builds another op the second time */
    int runs;
} region;

/* x tanh(2 x^2) */
static syn_tensor region_run(void *arg, const syn_tensor *in) {
    region *r = arg;
    const syn_tensor y = syn_mul(r->ctx, syn_scale(r->ctx, in[0], 2), in[0]);
    const bool other = r->runs++ > 0 && r->changes;
    const syn_tensor kept = other ? syn_silu(r->ctx, y) : syn_tanh(r->ctx, y);
    return syn_mul(r->ctx, kept, in[0]);
}

/* Keeps tanh, or whatever takes its place. */
static bool keep_third(const char *op, uint32_t *calls) {
    (void)op;
    return ++*calls == 3;
}

static int count_of(const syn_ctx *ctx, const char *op) {
    int n = 0;
    for (size_t i = 1; i < ctx->trace->n_nodes; i++)
        n += strcmp(syn_trace_op(ctx->trace, &ctx->trace->nodes[i])->name, op) == 0;
    return n;
}

static void test_kept_outputs(void) {
    float want[N], got[N];
    for (int i = 0; i < 2; i++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const float values[N] = {0.5f, -1, 0.25f, 2};
        const syn_tensor x = leaf(ctx, values), in = syn_scale(ctx, x, 3);
        const size_t before = ctx->storages.used_bytes;
        const syn_mark mark = syn_ctx_mark(ctx);
        region r = {.ctx = ctx};
        const syn_tensor y = i == 0 ? region_run(&r, &in)
                                    : syn_recompute_except(ctx, region_run, &r, &in, 1, keep_third);
        syn_release(ctx, mark, &y, 1);
        if (i == 1) /* the result and what tanh returned */
            CHECK_INT(ctx->storages.used_bytes - before, 2 * (before / 2));
        CHECK(syn_backward(ctx, total(ctx, y)) == SYN_OK);
        CHECK(syn_tensor_read(ctx, syn_grad(ctx, x), i == 0 ? want : got, sizeof got) == SYN_OK);
        CHECK_INT(count_of(ctx, "tanh"), 1);
        CHECK_INT(r.runs, 1 + i);
        CHECK(ctx->gradients.tape.n_kept == 0 && ctx->gradients.tape.n_inputs == 0);
        syn_ctx_free(ctx);
    }
    CHECK(memcmp(want, got, sizeof want) == 0);
}

static void test_kept_outputs_are_freed(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(ctx, ones), constant = input(ctx, ones);
    const size_t before = ctx->storages.used_bytes;
    for (int i = 0; i < 3; i++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        region r = {.ctx = ctx};
        syn_recompute_except(ctx, region_run, &r, i == 0 ? &constant : &x, 1, keep_third);
        if (i == 0) CHECK_INT(ctx->gradients.tape.n_kept, 0); /* nothing requires a gradient */
        syn_forget(ctx, mark, NULL, 0);
        CHECK_INT(ctx->storages.used_bytes, before);
    }
    region r = {.ctx = ctx, .changes = true};
    const syn_tensor y = syn_recompute_except(ctx, region_run, &r, &x, 1, keep_third);
    CHECK(syn_backward(ctx, total(ctx, y)) != SYN_OK);
    CHECK_STR(syn_ctx_error(ctx)->text, "a region builds other ops when it runs again");
    syn_ctx_free(ctx);
}

/* Tensors saved for backward are freed when their rows are forgotten or the context is freed. */
static void test_forgetting_unpins(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = leaf(ctx, ones);
    const size_t before = ctx->storages.used_bytes;
    for (int i = 0; i < 3; i++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        total(ctx, syn_tanh(ctx, syn_mul(ctx, x, x)));
        syn_forget(ctx, mark, NULL, 0);
        CHECK_INT(ctx->storages.used_bytes, before);
        CHECK_INT(ctx->gradients.tape.n, 0);
    }
    syn_tanh(ctx, x);
    syn_ctx_free(ctx);
}

/* If every step creates leaves and forgets them, memory stays constant. */
static void test_leaves_of_steps(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    size_t before = 0;
    for (int i = 0; i < 1000; i++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor x = leaf(ctx, ones), y = leaf(ctx, ones);
        CHECK(syn_backward(ctx, total(ctx, syn_mul(ctx, x, syn_scale(ctx, y, 2)))) == SYN_OK);
        CHECK(all_are(ctx, x, 2) && all_are(ctx, y, 2));
        /* x is no longer saved for backward. */
        CHECK(syn_tensor_write(ctx, x, ones, sizeof ones) == SYN_OK);
        syn_drop_grads(ctx);
        syn_forget(ctx, mark, NULL, 0);
        if (i == 100) before = ctx->gradients.n_leaves;
        CHECK_INT(ctx->storages.used_bytes, 0);
    }
    CHECK_INT(ctx->gradients.n_leaves, before);
    syn_ctx_free(ctx);
}

/* ---- out of memory ---- */

/* Calls syn_backward on ops of all kinds. One gradient is the sum of three. */
static syn_status train(syn_device device, uint64_t *hash, syn_error *err) {
    static const int32_t ids[3] = {1, 0, 1};
    const syn_spec table = {SYN_F32, 2, {3, N}}, of_ids = {SYN_I32, 1, {3}};
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, device, NULL, err));
    const syn_tensor w = syn_param(ctx, "w", &table, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1, 1);
    const syn_tensor s = syn_param(ctx, "s", &row_spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    syn_require_grads(ctx);
    for (int step = 0; step < 2; step++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor t = syn_input(ctx, "ids", &of_ids, ids);
        syn_tensor x = syn_embedding(ctx, w, t, 0);
        x = syn_layernorm(ctx, syn_add(ctx, x, syn_gelu(ctx, x, true)), s, s, 1e-5);
        x = syn_linear(ctx, syn_softmax(ctx, x), w, SYN_NO_BIAS, true);
        (void)!syn_backward(ctx, syn_cross_entropy(ctx, x, t, SYN_MEAN, 3));
        syn_drop_grads(ctx);
        syn_forget(ctx, mark, NULL, 0);
    }
    syn_status status = syn_ctx_check(ctx, err);
    if (status == SYN_OK && hash) *hash = syn_trace_hash(syn_ctx_trace(ctx));
    if (status == SYN_OK) status = syn_trace_verify(syn_ctx_trace(ctx), err);
    syn_ctx_free(ctx);
    return status;
}

static syn_status train_on(void *device, syn_error *err) {
    return train(*(const syn_device *)device, NULL, err);
}

/* After some parameters were forgotten, `ready` gets the new numbers of the remaining ones. */
static void test_numbers_of_parameters(void) {
    notes n = {.ctx = ref_ctx(SYN_DEVICE_CPU, NULL), .complete = true};
    const syn_mark mark = syn_ctx_mark(n.ctx);
    syn_tensor p[3];
    for (int i = 0; i < 3; i++)
        p[i] = syn_param(n.ctx, &"abc"[i], &row_spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    syn_require_grads(n.ctx);
    syn_ctx_on_grad(n.ctx, note, &n);
    syn_forget(n.ctx, mark, p + 1, 2);
    CHECK_INT(syn_ctx_param_count(n.ctx), 2);
    const syn_tensor y = syn_add(n.ctx, syn_scale(n.ctx, p[1], 3), p[2]);
    CHECK(syn_backward(n.ctx, total(n.ctx, y)) == SYN_OK);
    CHECK(n.n == 2 && n.complete);
    CHECK(n.params[0] + n.params[1] == 1);
    syn_ctx_free(n.ctx);
}

static void test_out_of_memory(void) {
    for (syn_device device = SYN_DEVICE_CPU; device <= SYN_DEVICE_META; device++)
        CHECK(test_without_memory(train_on, &device) > 20);
}

static void test_same_trace_on_meta(void) {
    syn_error err = {0};
    uint64_t meta, cpu;
    CHECK_OK(train(SYN_DEVICE_META, &meta, &err), err);
    CHECK_OK(train(SYN_DEVICE_CPU, &cpu, &err), err);
    CHECK(meta == cpu);
}

static const test_case cases[] = {
    {"refusals", test_refusals},
    {"other contexts", test_other_contexts},
    {"off records nothing", test_off_records_nothing},
    {"only what is asked for", test_only_required_gradients},
    {"order of uses", test_order_of_uses},
    {"shared gradients", test_shared_gradients},
    {"twice in one op", test_twice_in_one_op},
    {"passes add up", test_passes_add_up},
    {"rewritten gradients", test_rewritten_gradients},
    {"ready", test_ready},
    {"numbers of parameters", test_numbers_of_parameters},
    {"memory", test_memory},
    {"kept outputs", test_kept_outputs},
    {"kept outputs are freed", test_kept_outputs_are_freed},
    {"forgetting unpins", test_forgetting_unpins},
    {"leaves of steps", test_leaves_of_steps},
    {"out of memory", test_out_of_memory},
    {"same trace on meta", test_same_trace_on_meta},
};
TEST_MAIN(cases)
