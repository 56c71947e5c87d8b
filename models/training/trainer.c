/* Runs training steps; see trainer.h. If a loss or gradient is not finite, runs the microbatches
   again with nan/inf checks, to name the op that produced the first such value. */
#include "models/training/trainer.h"

#include <string.h>

#include "models/training/data_parallel_private.h"
#include "models/training/optimizer_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

/* The functions that compute the losses of a step. */
typedef struct losses {
    syn_microbatch_loss *microbatch_loss; /* without a pipeline */
    syn_stage_forward *forward;           /* in a pipeline */
    void *arg;
} losses;

struct syn_trainer {
    syn_ctx *ctx;
    syn_trainer_options options; /* options.pipeline: NULL or &pipeline_options */
    syn_pipeline_options pipeline_options;
    syn_data_parallel *parallel;
    syn_optimizer *optimizer;
    syn_pipeline *pipeline; /* NULL: none */
    size_t tied;            /* number of the parameter options.tied; SIZE_MAX: none */
    syn_mark mark;          /* rows before it are never dropped */
    bool keep_rows;
    bool forget_microbatches;
    bool ahead;
    struct {
        bool waits; /* the last step's loss and norm are not read yet; the fields below are for that
                       step */
        int asked;
        losses work; /* to run its microbatches again if loss or norm is not finite */
    } before;
    syn_step_result known;
};

/* Creates the pipeline for that many microbatches per step, which replaces the previous one.
   Without a pipeline in the options it does nothing. */
static syn_status make_pipeline(syn_trainer *t, int microbatches, syn_error *err) {
    syn_pipeline *made;
    if (!t->options.pipeline) return SYN_OK;
    syn_pipeline_options how = *t->options.pipeline;
    how.shape.microbatches = microbatches;
    SYN_TRY(syn_pipeline_new(&made, t->ctx, &how, err));
    syn_pipeline_free(t->pipeline);
    t->pipeline = made;
    return SYN_OK;
}

/* Whether the pipeline has each stage on two ranks, which are in the same data-parallel group. */
static bool is_dual(const syn_trainer *t) {
    return t->pipeline && t->pipeline_options.shape.schedule == SYN_SCHEDULE_DUALPIPE;
}

static syn_status find_tied(syn_trainer *t, syn_error *err) {
    t->tied = SIZE_MAX;
    if (!t->options.tied) return SYN_OK;
    if (!t->pipeline || !t->options.embedding)
        return SYN_FAIL(err, SYN_E_INVALID, "a shared table needs a pipeline and a group");
    return syn__find_param(&t->tied, t->ctx, t->options.tied, err);
}

/* Sets the group of the gradient norm if it is not given and only one kind of group exists. */
static syn_status choose_norm(const syn_trainer *t, syn_optimizer_options *how, syn_error *err) {
    const syn_group *groups[] = {how->tp, t->pipeline_options.pp,
                                 t->options.zero > 0 ? t->options.dp : NULL};
    const syn_group *last = NULL;
    int64_t ranks = 1;
    for (int i = 0; i < 3; i++) {
        if (!groups[i]) continue;
        last = groups[i];
        ranks *= last->size;
    }
    if (is_dual(t) && t->options.zero > 0) ranks /= 2; /* dp has ranks of two stages */
    if (!how->norm && last && last->size == ranks) how->norm = last;
    if ((how->norm ? how->norm->size : 1) == ranks) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the gradient norm must be summed over %lld ranks, but its group has %d",
                    (long long)ranks, how->norm ? (int)how->norm->size : 1);
}

/* The shared table must count only once in the gradient norm, so the last stage leaves out its
   copy. */
static syn_status make_optimizer(syn_trainer *t, syn_error *err) {
    syn_optimizer_options how = t->options.optimizer;
    const syn_group *pp = t->pipeline_options.pp;
    SYN_TRY(choose_norm(t, &how, err));
    how.parallel = t->parallel;
    how.copies = is_dual(t) ? 2 : 1;
    if (pp && pp->index == pp->size - 1) how.copy = t->options.tied;
    return syn_optimizer_new(&t->optimizer, t->ctx, &how, err);
}

/* Whether this rank has the model's first stage. */
static bool is_first_stage(const syn_trainer *t) {
    const syn_group *pp = t->pipeline_options.pp;
    return !pp || pp->index == 0 || (is_dual(t) && pp->index == pp->size - 1);
}

static syn_status make_parallel(syn_trainer *t, syn_error *err) {
    const syn_trainer_options *o = &t->options;
    const syn_group *pp = t->pipeline_options.pp;
    const syn_data_parallel_options how = {.dp = o->shard ? o->shard : o->dp,
                                           .replicas = o->replicas,
                                           .edp = o->edp,
                                           .gather = o->gather,
                                           .zero = o->zero,
                                           .buckets = o->buckets,
                                           .reduce_dtype = o->reduce_dtype,
                                           .tp = o->optimizer.tp,
                                           .no_decay = o->optimizer.no_decay,
                                           .tied = o->tied,
                                           .first_stage = is_first_stage(t),
                                           .chunks = o->chunks,
                                           .n_chunks = o->n_chunks,
                                           .units = o->units,
                                           .n_units = o->n_units,
                                           .head = o->head_unit,
                                           .no_reshard = o->no_reshard,
                                           .gather_once = pp != NULL};
    return syn_data_parallel_new(&t->parallel, t->ctx, &how, err);
}

/* Drops the rows of the broadcast of the parameters, which belongs to no step's trace. */
static void forget_broadcast(syn_trainer *t, syn_mark before) {
    const syn__buckets *zero = syn__parallel_buckets(t->parallel);
    if (t->options.zero == 3) return; /* there was none */
    syn_forget(t->ctx, before, zero ? syn__parallel_part(t->parallel, 0) : NULL,
               zero ? (int)zero->n : 0);
}

syn_status syn_trainer_new(syn_trainer **out, syn_ctx *ctx, const syn_trainer_options *options,
                           syn_error *err) {
    syn_trainer *t = syn_calloc(1, sizeof *t);
    if (!t) return SYN_FAIL_NOMEM(err, sizeof *t, "a trainer");
    t->ctx = ctx;
    t->options = *options;
    if (t->options.microbatches == 0) t->options.microbatches = 1;
    if (options->pipeline) {
        t->pipeline_options = *options->pipeline;
        t->options.pipeline = &t->pipeline_options;
    }
    t->ahead = options->ahead && syn_ctx_is_async(ctx) &&
               (options->optimizer.max_grad_norm > 0 || options->optimizer.unchecked);
    const syn_mark before = syn_ctx_mark(ctx);
    syn_status s = make_pipeline(t, t->options.microbatches, err);
    if (s == SYN_OK) s = find_tied(t, err);
    if (s == SYN_OK) s = make_parallel(t, err);
    forget_broadcast(t, before);
    if (s == SYN_OK) s = make_optimizer(t, err);
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
    syn_pipeline_free(t->pipeline);
    syn_free(t);
}

void syn_trainer_keep_rows(syn_trainer *t, bool keep) {
    t->keep_rows = keep;
}

void syn_trainer_forget_microbatches(syn_trainer *t, bool forget) {
    t->forget_microbatches = forget;
}

syn_status syn_trainer_set_microbatches(syn_trainer *t, int microbatches, syn_error *err) {
    SYN_TRY(make_pipeline(t, microbatches, err));
    t->options.microbatches = microbatches;
    return SYN_OK;
}

syn_optimizer *syn_trainer_optimizer(const syn_trainer *t) {
    return t->optimizer;
}

/* The argument of a pipeline's callbacks. */
typedef struct stage {
    syn_trainer *trainer;
    const losses *work;
} stage;

static syn_tensor stage_forward(void *arg, int chunk, int microbatch, syn_tensor x) {
    const stage *s = arg;
    return s->work->forward(s->work->arg, chunk, microbatch, x);
}

/* Gradients of a chunk are summed over the data-parallel ranks in its last backward pass. ZeRO 2
   scatters them after each pass, unless the schedule splits passes: the gradients of a microbatch
   are then never complete. */
static void stage_backward(void *arg, int chunk, bool last, bool done) {
    const stage *s = arg;
    syn_trainer *t = s->trainer;
    (void)chunk;
    syn_data_parallel_sync(t->parallel, last && !t->options.late_sums);
    if (!done) return;
    const syn_schedule schedule = t->pipeline_options.shape.schedule;
    if (t->options.zero == 2 && schedule != SYN_SCHEDULE_ZB_H1 && !is_dual(t))
        syn_data_parallel_sum(t->parallel);
    syn__parallel_store(t->parallel);
}

/* Sums the gradients of n parameters over a group. */
static void sum_grads(syn_trainer *t, const syn_tensor *params, int n, const syn_group *group,
                      const char *scope) {
    syn_tensor grads[SYN_MAX_LIST];
    const bool was = syn_set_grad(t->ctx, false);
    syn_set_phase(t->ctx, SYN_PHASE_BACKWARD);
    syn_push_scope(t->ctx, scope);
    syn__parallel_take_grads(t->parallel, params, n, grads);
    syn_all_reduce_coalesced(t->ctx, grads, n, SYN_REDUCE_SUM, group);
    syn__parallel_put_grads(t->parallel, params, n, grads);
    syn_pop_scope(t->ctx);
    syn_set_phase(t->ctx, SYN_PHASE_FORWARD);
    syn_set_grad(t->ctx, was);
}

/* Sums the gradient of the shared table over the first and the last stage, which each have a
   copy. */
static void sum_tied(syn_trainer *t) {
    if (t->tied == SIZE_MAX) return;
    const syn_tensor table = syn_ctx_param(t->ctx, t->tied).tensor;
    sum_grads(t, &table, 1, t->options.embedding, "pipeline");
}

/* Sums the gradients of which each tensor-parallel rank has a part (syn_param_set_partial). */
static void sum_partial(syn_trainer *t) {
    const syn_group *tp = t->options.optimizer.tp;
    const size_t n = tp ? syn_ctx_param_count(t->ctx) : 0;
    syn_tensor params[SYN_MAX_LIST];
    int listed = 0;
    for (size_t i = 0; i < n; i++) {
        const syn_param_info p = syn_ctx_param(t->ctx, i);
        if (p.partial) params[listed++] = p.tensor;
        if (listed == 0 || (listed < SYN_MAX_LIST && i < n - 1)) continue;
        sum_grads(t, params, listed, tp, "sequence_parallel");
        listed = 0;
    }
}

/* Completes the gradients after the last backward pass. */
static void finish_sums(syn_trainer *t) {
    if (t->options.late_sums) syn_data_parallel_sum(t->parallel);
    sum_partial(t);
    sum_tied(t);
    syn_data_parallel_sum_late(t->parallel);
    syn__parallel_evict_all(t->parallel);
}

/* Sets the further losses of a step to 0. */
static void begin_losses(syn_trainer *t) {
    const float zero = 0;
    if (!t->options.losses.id) return;
    const syn_tensor sum = syn_current_version(t->ctx, t->options.losses);
    const syn_status s = syn_tensor_write(t->ctx, sum, &zero, sizeof zero);
    (void)s; /* a failure is recorded in the context */
}

/* Runs the microbatches of a step and returns the sum of this rank's losses; in a pipeline only the
   last stage has losses. After a microbatch only this sum and the gradients remain; its inputs and
   all other tensors are released, so memory does not grow with the number of microbatches. */
static syn_tensor run_microbatches(syn_trainer *t, const losses *work) {
    syn_ctx *ctx = t->ctx;
    const syn_mark start = syn_ctx_mark(ctx);
    syn_tensor sum = {0};
    begin_losses(t);
    if (t->pipeline) {
        stage s = {t, work};
        sum = syn_pipeline_step(t->pipeline, stage_forward, stage_backward, &s);
        finish_sums(t);
        return sum;
    }
    for (int i = 0; i < t->options.microbatches; i++) {
        const bool last = i == t->options.microbatches - 1;
        syn_data_parallel_sync(t->parallel,
                               (last && !t->options.late_sums) || t->options.zero >= 2);
        const syn_tensor loss = work->microbatch_loss(work->arg, i);
        syn_backward(ctx, loss);
        syn__parallel_store(t->parallel);
        const bool was = syn_set_grad(ctx, false);
        sum = sum.id ? syn_add(ctx, sum, loss) : loss;
        syn_set_grad(ctx, was);
        if (t->forget_microbatches && !last) syn_forget(ctx, start, &sum, 1);
        else syn_release(ctx, start, &sum, 1);
    }
    finish_sums(t);
    return sum;
}

/* Adds the further losses of a step, summed over the tensor-parallel ranks, to the sum of this
   rank's losses, which is invalid on stages without losses. */
static syn_tensor add_losses(syn_trainer *t, syn_tensor sum) {
    const syn_group *tp = t->options.optimizer.tp;
    syn_tensor more = syn_current_version(t->ctx, t->options.losses);
    if (tp) more = syn_all_reduce(t->ctx, more, SYN_REDUCE_SUM, tp);
    more = syn_reshape(t->ctx, more, NULL, 0);
    return sum.id ? syn_add(t->ctx, sum, more) : more;
}

static syn_tensor halve(syn_ctx *ctx, syn_tensor scalar) {
    const syn_tensor one = syn_reshape(ctx, scalar, (const int64_t[]){1}, 1);
    return syn_reshape(ctx, syn_scale(ctx, one, 0.5), NULL, 0);
}

/* Sums the losses over the data-parallel ranks and, in a pipeline, sends the sum from the last
   stage to all stages. training: the step's further losses are added, also over the stages. With
   DualPipe, the sum over dp already includes both ranks of each stage, so the sum over pp counts it
   twice and is halved. */
static syn_tensor sum_over_ranks(syn_trainer *t, syn_tensor sum, bool training) {
    syn_ctx *ctx = t->ctx;
    const syn_group *pp = t->pipeline ? t->options.pipeline->pp : NULL;
    const bool was = syn_set_grad(ctx, false), more = training && t->options.losses.id;
    const syn_spec scalar = {SYN_F32, 0, {0}};
    const float zero = 0;
    if (more) sum = add_losses(t, sum);
    if (is_dual(t) && pp->index == 0 && !sum.id) sum = syn_input(ctx, "loss", &scalar, &zero);
    if (t->options.dp && sum.id) {
        syn_push_scope(ctx, "data_parallel");
        sum = syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, t->options.dp);
        syn_pop_scope(ctx);
    }
    if (pp) {
        syn_push_scope(ctx, "pipeline");
        if (!sum.id) sum = syn_input(ctx, "loss", &scalar, NULL);
        sum = more ? syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, pp)
                   : syn_broadcast(ctx, sum, pp->size - 1, pp);
        if (more && is_dual(t)) sum = halve(ctx, sum);
        syn_pop_scope(ctx);
    }
    syn_set_grad(ctx, was);
    return sum;
}

syn_tensor syn_trainer_evaluate(syn_trainer *t, syn_stage_forward *forward, void *arg) {
    const bool was = syn_set_grad(t->ctx, false);
    const syn_tensor loss = t->pipeline ? syn_pipeline_forward(t->pipeline, forward, arg)
                                        : forward(arg, 0, 0, (syn_tensor){0});
    syn__parallel_evict_all(t->parallel);
    syn_set_grad(t->ctx, was);
    return sum_over_ranks(t, loss, false);
}

enum { WORDS = 128 }; /* of an explanation */

/* Replaces each of the n <= WORDS numbers in x by its sum or minimum over all ranks. With DualPipe,
   the sum over dp includes another stage, so only one of the two stages may add it to the sum over
   pp. */
static syn_status of_all(syn_trainer *t, int32_t *x, int64_t n, syn_reduce reduce) {
    const syn_group *groups[] = {t->options.optimizer.tp, t->options.dp,
                                 t->pipeline ? t->options.pipeline->pp : NULL};
    const syn_spec spec = {SYN_I32, 1, {n}};
    const int32_t zeros[WORDS] = {0};
    syn_tensor all = syn_input(t->ctx, "explanation", &spec, x);
    for (int i = 0; i < 3; i++) {
        if (i == 2 && is_dual(t) && groups[2]->index >= groups[2]->size / 2 &&
            reduce == SYN_REDUCE_SUM)
            all = syn_input(t->ctx, "explanation", &spec, zeros);
        if (groups[i]) all = syn_all_reduce(t->ctx, all, reduce, groups[i]);
    }
    return syn_tensor_read(t->ctx, all, x, (size_t)n * sizeof *x);
}

/* Runs the microbatches again with nan/inf checks to find the op that first produced a value that
 * is not finite. All ranks call this, and all fail. The message gives the op of the lowest rank
 * that found one. It begins with `what` or, if that is empty, with the message of
 * syn__optimizer_fail_nonfinite. */
static syn_status explain(syn_trainer *t, const losses *work, const char *what, syn_error *err) {
    enum { NO_RANK = INT32_MAX };
    syn_ctx *ctx = t->ctx;
    syn_error blamed = {0};
    int32_t who = NO_RANK, words[WORDS] = {0};
    syn_drop_grads(ctx);
    syn_forget(ctx, t->mark, NULL, 0);
    syn_ctx_check_finite(ctx, true);
    run_microbatches(t, work);
    syn_ctx_check_finite(ctx, false);
    SYN_TRY(syn_data_parallel_check(t->parallel, err));
    if (!*what && syn__optimizer_fail_nonfinite(t->optimizer, &blamed) != SYN_OK)
        what = blamed.text;
    if (syn_ctx_first_nonfinite(ctx, (char *)words, sizeof words)) who = syn_ctx_rank(ctx);
    const bool mine = of_all(t, &who, 1, SYN_REDUCE_MIN) == SYN_OK && who == syn_ctx_rank(ctx);
    if (!mine) memset(words, 0, sizeof words);
    (void)of_all(t, words, WORDS, SYN_REDUCE_SUM);
    syn_drop_grads(ctx);
    syn_forget(ctx, t->mark, NULL, 0);
    SYN_TRY(syn_ctx_check(ctx, err));
    if (who == NO_RANK) return SYN_FAIL(err, SYN_E_INVALID, "%s", what);
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
        return explain(t, &t->before.work, inner.text, err);
    if (s != SYN_OK) return syn_ctx_check(t->ctx, err);
    t->known = (syn_step_result){t->known.steps + 1, (double)loss, norm};
    return SYN_OK;
}

syn_step_result syn_trainer_last_result(const syn_trainer *t) {
    return t->known;
}

static void updated(syn_trainer *t) {
    if (!t->options.updated) return;
    const bool was = syn_set_grad(t->ctx, false);
    syn_set_phase(t->ctx, SYN_PHASE_OPTIMIZER);
    t->options.updated(t->options.updated_user);
    syn_set_phase(t->ctx, SYN_PHASE_FORWARD);
    syn_set_grad(t->ctx, was);
}

static syn_status step_ahead(syn_trainer *t, const losses *work, double learning_rate,
                             syn_tensor loss, syn_error *err) {
    int asked;
    SYN_TRY(syn_trainer_settle(t, err));
    SYN_TRY(syn__optimizer_step_ahead(t->optimizer, learning_rate, loss, &asked, err));
    t->before.waits = true;
    t->before.asked = asked;
    t->before.work = *work;
    return SYN_OK;
}

static syn_status train_step(syn_trainer *t, const losses *work, double learning_rate, double *loss,
                             syn_error *err) {
    syn_error inner = {0};
    float value = 0;
    if (!t->keep_rows) syn_forget(t->ctx, t->mark, NULL, 0);
    const syn_tensor sum = run_microbatches(t, work);
    SYN_TRY(syn_data_parallel_check(t->parallel, err));
    const syn_tensor all = sum_over_ranks(t, sum, true);
    if (t->ahead) {
        SYN_TRY(step_ahead(t, work, learning_rate, all, err));
        if (loss) *loss = t->known.loss;
        updated(t);
        syn_next_step(t->ctx);
        return syn_ctx_check(t->ctx, err);
    }
    const syn_status s = syn__optimizer_step(t->optimizer, learning_rate, all, &value, &inner);
    if (loss) *loss = (double)value;
    if (s != SYN_OK && syn_ctx_status(t->ctx) == SYN_OK) return explain(t, work, inner.text, err);
    if (s != SYN_OK) return syn_ctx_check(t->ctx, err);
    t->known =
        (syn_step_result){t->known.steps + 1, (double)value, syn__optimizer_looked(t->optimizer)};
    updated(t);
    syn_next_step(t->ctx);
    return syn_ctx_check(t->ctx, err);
}

syn_status syn_trainer_step(syn_trainer *t, syn_microbatch_loss *forward, void *arg,
                            double learning_rate, double *loss, syn_error *err) {
    const losses work = {.microbatch_loss = forward, .arg = arg};
    if (t->pipeline) return SYN_FAIL(err, SYN_E_INVALID, "a pipeline needs syn_trainer_step_stage");
    return train_step(t, &work, learning_rate, loss, err);
}

syn_status syn_trainer_step_stage(syn_trainer *t, syn_stage_forward *forward, void *arg,
                                  double learning_rate, double *loss, syn_error *err) {
    const losses work = {.forward = forward, .arg = arg};
    if (!t->pipeline) return SYN_FAIL(err, SYN_E_INVALID, "the trainer has no pipeline");
    return train_step(t, &work, learning_rate, loss, err);
}
