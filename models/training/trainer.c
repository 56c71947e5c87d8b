/* Runs training steps. If a loss or gradient is not finite, runs the microbatches again with
   nan/inf checks to name the op that caused it. */
#include "models/training/trainer.h"

#include <string.h>

#include "models/training/data_parallel.h"
#include "models/training/optimizer_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

struct syn_trainer {
    syn_ctx *ctx;
    syn_trainer_options options;
    syn_data_parallel *parallel;
    syn_optimizer *optimizer;
    syn_mark mark; /* rows before it are never dropped */
    bool hold;
    bool forget_passes;
    bool ahead;
    struct {
        bool waits; /* the last step's loss and norm are not read yet; the fields below are for that
                       step */
        int asked;
        syn_pass *pass; /* to run its microbatches again if they are not finite */
        void *arg;
    } before;
    syn_trained known;
};

syn_status syn_trainer_new(syn_trainer **out, syn_ctx *ctx, const syn_trainer_options *options,
                           syn_error *err) {
    syn_trainer *t = syn_calloc(1, sizeof *t);
    if (!t) return SYN_FAIL_NOMEM(err, sizeof *t, "a trainer");
    t->ctx = ctx;
    t->options = *options;
    if (t->options.passes == 0) t->options.passes = 1;
    t->ahead = options->ahead && syn_ctx_is_async(ctx) &&
               (options->optimizer.max_grad_norm > 0 || options->optimizer.unchecked);
    const syn_mark before = syn_ctx_mark(ctx);
    syn_status s = syn_data_parallel_new(&t->parallel, ctx, options->dp, err);
    syn_forget(ctx, before, NULL, 0); /* the broadcast of parameters belongs to no step's trace */
    if (s == SYN_OK) s = syn_optimizer_new(&t->optimizer, ctx, &options->optimizer, err);
    t->mark = syn_ctx_mark(ctx);
    if (s == SYN_OK) *out = t;
    else syn_trainer_free(t);
    return s;
}

void syn_trainer_free(syn_trainer *t) {
    float unseen[SYN_ASYNC_READ_VALUES];
    if (!t) return;
    if (t->before.waits && syn_tensor_read_end(t->ctx, t->before.asked, unseen) == SYN_OK)
        t->before.waits = false;
    syn_optimizer_free(t->optimizer);
    syn_data_parallel_free(t->parallel);
    syn_free(t);
}

void syn_trainer_hold(syn_trainer *t, bool hold) {
    t->hold = hold;
}

void syn_trainer_forget_passes(syn_trainer *t, bool forget) {
    t->forget_passes = forget;
}

void syn_trainer_set_passes(syn_trainer *t, int passes) {
    t->options.passes = passes;
}

syn_optimizer *syn_trainer_optimizer(const syn_trainer *t) {
    return t->optimizer;
}

/* Runs the microbatches of a step and returns the sum of this rank's losses. A microbatch only
 * keeps its gradients and that sum. Its inputs and other tensors are released, so memory does not
 * grow with the number of microbatches. */
static syn_tensor run_passes(syn_trainer *t, syn_pass *pass, void *arg) {
    syn_ctx *ctx = t->ctx;
    const syn_mark start = syn_ctx_mark(ctx);
    syn_tensor sum = {0};
    for (int i = 0; i < t->options.passes; i++) {
        const bool last = i == t->options.passes - 1;
        syn_data_parallel_sync(t->parallel, last);
        const syn_tensor loss = pass(arg, i);
        syn_backward(ctx, loss);
        const bool was = syn_set_grad(ctx, false);
        sum = sum.id ? syn_add(ctx, sum, loss) : loss;
        syn_set_grad(ctx, was);
        if (t->forget_passes && !last) syn_forget(ctx, start, &sum, 1);
        else syn_release(ctx, start, &sum, 1);
    }
    return sum;
}

/* The sum over the data-parallel ranks. */
static syn_tensor sum_over_ranks(syn_trainer *t, syn_tensor sum) {
    syn_ctx *ctx = t->ctx;
    if (!t->options.dp) return sum;
    const bool was = syn_set_grad(ctx, false);
    syn_push_scope(ctx, "data_parallel");
    sum = syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, t->options.dp);
    syn_pop_scope(ctx);
    syn_set_grad(ctx, was);
    return sum;
}

/* Replaces the n numbers of x by their sum or minimum over all ranks. */
static syn_status of_all(syn_trainer *t, int32_t *x, int64_t n, syn_reduce reduce) {
    const syn_group *groups[] = {t->options.optimizer.tp, t->options.dp};
    const syn_spec spec = {SYN_I32, 1, {n}};
    syn_tensor all = syn_input(t->ctx, "explanation", &spec, x);
    for (int i = 0; i < 2; i++)
        if (groups[i]) all = syn_all_reduce(t->ctx, all, reduce, groups[i]);
    return syn_tensor_read(t->ctx, all, x, (size_t)n * sizeof *x);
}

/* Finds the op that first produced a value that is not finite: runs the microbatches again with
 * nan/inf checks. All ranks call this, and all fail with the same message, that of the lowest rank
 * that found something. `what` is its first part; if empty, the message of syn__optimizer_blame
 * takes its place. */
static syn_status explain(syn_trainer *t, syn_pass *pass, void *arg, const char *what,
                          syn_error *err) {
    enum { NOBODY = INT32_MAX };
    syn_ctx *ctx = t->ctx;
    syn_error blamed = {0};
    int32_t who = NOBODY, words[128] = {0};
    syn_drop_grads(ctx);
    syn_forget(ctx, t->mark, NULL, 0);
    syn_ctx_check_finite(ctx, true);
    run_passes(t, pass, arg);
    syn_ctx_check_finite(ctx, false);
    SYN_TRY(syn_data_parallel_check(t->parallel, err));
    if (!*what && syn__optimizer_blame(t->optimizer, &blamed) != SYN_OK) what = blamed.text;
    if (syn_ctx_first_nonfinite(ctx, (char *)words, sizeof words)) who = syn_ctx_rank(ctx);
    const bool mine = of_all(t, &who, 1, SYN_REDUCE_MIN) == SYN_OK && who == syn_ctx_rank(ctx);
    if (!mine) memset(words, 0, sizeof words);
    (void)of_all(t, words, sizeof words / sizeof *words, SYN_REDUCE_SUM);
    syn_drop_grads(ctx);
    syn_forget(ctx, t->mark, NULL, 0);
    SYN_TRY(syn_ctx_check(ctx, err));
    if (who == NOBODY) return SYN_FAIL(err, SYN_E_INVALID, "%s", what);
    return SYN_FAIL(err, SYN_E_INVALID, "%s; first on rank %d: %s", what, (int)who,
                    (const char *)words);
}

syn_status syn_trainer_settle(syn_trainer *t, syn_error *err) {
    syn_error inner = {0};
    float loss = 0;
    double norm = 0;
    if (!t->before.waits) return SYN_OK;
    t->before.waits = false;
    const syn_status s = syn__optimizer_settle(t->optimizer, t->before.asked, &loss, &norm, &inner);
    if (s != SYN_OK && syn_ctx_status(t->ctx) == SYN_OK)
        return explain(t, t->before.pass, t->before.arg, inner.text, err);
    if (s != SYN_OK) return syn_ctx_check(t->ctx, err);
    t->known = (syn_trained){t->known.steps + 1, (double)loss, norm};
    return SYN_OK;
}

syn_trained syn_trainer_known(const syn_trainer *t) {
    return t->known;
}

static syn_status step_ahead(syn_trainer *t, syn_pass *pass, void *arg, double learning_rate,
                             syn_tensor loss, syn_error *err) {
    int asked;
    SYN_TRY(syn_trainer_settle(t, err));
    SYN_TRY(syn__optimizer_step_ahead(t->optimizer, learning_rate, loss, &asked, err));
    t->before.waits = true;
    t->before.asked = asked;
    t->before.pass = pass;
    t->before.arg = arg;
    return SYN_OK;
}

syn_status syn_trainer_step(syn_trainer *t, syn_pass *pass, void *arg, double learning_rate,
                            double *loss, syn_error *err) {
    syn_error inner = {0};
    float value = 0;
    if (!t->hold) syn_forget(t->ctx, t->mark, NULL, 0);
    const syn_tensor sum = run_passes(t, pass, arg);
    SYN_TRY(syn_data_parallel_check(t->parallel, err));
    const syn_tensor all = sum_over_ranks(t, sum);
    if (t->ahead) {
        SYN_TRY(step_ahead(t, pass, arg, learning_rate, all, err));
        if (loss) *loss = t->known.loss;
        syn_next_step(t->ctx);
        return syn_ctx_check(t->ctx, err);
    }
    const syn_status s = syn__optimizer_step(t->optimizer, learning_rate, all, &value, &inner);
    if (loss) *loss = (double)value;
    if (s != SYN_OK && syn_ctx_status(t->ctx) == SYN_OK)
        return explain(t, pass, arg, inner.text, err);
    if (s != SYN_OK) return syn_ctx_check(t->ctx, err);
    t->known =
        (syn_trained){t->known.steps + 1, (double)value, syn__optimizer_looked(t->optimizer)};
    syn_next_step(t->ctx);
    return syn_ctx_check(t->ctx, err);
}
