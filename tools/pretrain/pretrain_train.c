/* Training on one rank: batches, steps, validation, and when to save and trace. */
#include <math.h>
#include <string.h>

#include "models/training/pretraining.h"
#include "models/training/trainer.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tools/pretrain/pretrain_rank.h"
#include "tools/progress.h"

/* ---- Batches ---- */

/* Chooses the samples of data-parallel rank `who`. On meta, samples repeat if a step needs more
   than there are. */
static void choose_texts(pretrain_worker *r, const syn_texts *texts, const syn_sampler *sampler,
                         int64_t epoch, int64_t micro, int32_t who) {
    if (!texts) return; /* synth */
    const int64_t n = syn_texts_count(texts);
    syn_sampler_batch(sampler, epoch, micro, who, r->which);
    for (int64_t i = 0; i < sampler->batch; i++)
        if (r->which[i] >= n) r->which[i] %= n;
}

/* Number of labels in the microbatches of data-parallel ranks first .. end - 1. */
static int64_t count_labels(pretrain_worker *r, const syn_texts *texts, const syn_sampler *sampler,
                            int64_t epoch, int64_t micro, const syn_batch_options *how,
                            int32_t first, int32_t end) {
    const syn_batch nothing = {.ids = NULL};
    int64_t n = 0;
    for (int32_t other = first; other < end; other++) {
        choose_texts(r, texts, sampler, epoch, micro, other);
        n += syn_batch_fill(&nothing, texts, r->which, sampler->batch, how);
    }
    return n;
}

/* Number of labels of data-parallel rank `who` in all microbatches of a step. */
static int64_t step_labels(pretrain_worker *r, const pretrain_passes *p,
                           const syn_batch_options *how, int32_t who) {
    int64_t labels = 0;
    for (int64_t i = 0; i < r->run->args->accumulation; i++)
        labels +=
            count_labels(r, r->run->texts, &r->sampler, p->epoch, p->first + i, how, who, who + 1);
    return labels;
}

/* Sets the weight of each label in the loss. The loss is the mean over the labels of all ranks.
   With --recipe reference it is the mean of the ranks' means. A mean of no labels is reported as
   NaN, as in PyTorch; if only some ranks have no labels, the labels of the other ranks still train
   the model. */
static void weigh(pretrain_worker *r, pretrain_passes *p, const syn_batch_options *how) {
    const bool reference = r->run->args->reference;
    const int32_t here = pretrain_dp_index(r);
    int64_t all = 0, own = 0;
    bool without = false; /* a rank has no labels */
    p->weight = 1;
    p->empty = false;
    if (!syn_ctx_has_data(r->ctx)) return;
    for (int32_t who = 0; who < pretrain_dp_size(r); who++) {
        const int64_t labels = step_labels(r, p, how, who);
        all += labels;
        if (who == here) own = labels;
        without = without || labels == 0;
    }
    p->empty = reference ? without : all == 0;
    const int64_t mean_of = reference ? own * pretrain_dp_size(r) : all;
    p->weight = 1.0f / (float)(mean_of > 0 ? mean_of : 1);
}

/* Moves the two pieces of each sample that this rank has to the front. `x` has n samples of
   `tokens` elements. */
static void take_pieces(int32_t *x, int64_t n, int64_t tokens, const syn_group *cp) {
    const int64_t length = tokens / 2 / cp->size;
    const int64_t pieces[2] = {cp->index, 2 * cp->size - 1 - cp->index};
    for (int64_t i = 0; i < 2 * n; i++)
        memmove(x + i * length, x + i / 2 * tokens + pieces[i % 2] * length,
                (size_t)length * sizeof *x);
}

static syn_pretraining_batch make_inputs(pretrain_worker *r, const syn_texts *texts,
                                         const syn_sampler *sampler, int64_t epoch, int64_t micro,
                                         const syn_batch_options *how, float weight) {
    const int64_t own = how->tokens / r->run->launch.parallel.cp;
    const syn_spec ids = {SYN_I32, 2, {sampler->batch, own}}, one = {SYN_F32, 0, {0}};
    const syn_spec floats = {SYN_F32, 2, {sampler->batch, how->tokens}};
    syn_pretraining_batch b = {.tokens = {0, 0}};
    choose_texts(r, texts, sampler, epoch, micro, pretrain_dp_index(r));
    if (texts) (void)syn_batch_fill(&r->batch, texts, r->which, sampler->batch, how);
    if (texts && r->mesh.cp) {
        take_pieces(r->batch.ids, sampler->batch, how->tokens, r->mesh.cp);
        take_pieces(r->batch.labels, sampler->batch, how->tokens, r->mesh.cp);
    }
    b.tokens = syn_input(r->ctx, "tokens", &ids, r->batch.ids);
    b.targets = syn_input(r->ctx, "targets", &ids, r->batch.labels);
    if (!how->causal) b.types = syn_input(r->ctx, "types", &ids, r->batch.types);
    if (!how->causal || how->predict_padding) /* otherwise no loss depends on padding */
        b.mask = syn_input(r->ctx, "mask", &floats, r->batch.mask);
    b.weight = syn_input(r->ctx, "weight", &one, &weight);
    return b;
}

/* ---- Steps ---- */

/* Sets dropout masks that depend only on seed, epoch and sample, not on the number of ranks. */
static void set_dropout(pretrain_worker *r, syn_model *model, int64_t epoch) {
    const int64_t n = r->sampler.batch;
    const syn_dropout_rates *rates = &r->run->config.dropout;
    const syn_spec spec = {SYN_I32, 1, {n}};
    const uint64_t seed = (uint64_t)r->run->args->seed;
    int32_t *keys = r->batch.types; /* scratch: filled again afterwards */
    for (int64_t i = 0; i < n && r->run->texts; i++) keys[i] = (int32_t)r->which[i];
    const syn_model_dropout how = {.embedding = rates->embedding,
                                   .attention = rates->attention,
                                   .residual = rates->residual,
                                   .seed = syn_hash(&epoch, sizeof epoch, seed),
                                   .keys = syn_input(r->ctx, "texts", &spec, keys)};
    syn_model_set_dropout(model, &how);
}

/* Runs a chunk of layers on a microbatch; a syn_stage_forward. */
static syn_tensor stage_of(void *arg, int chunk, int pass, syn_tensor x) {
    const pretrain_passes *p = arg;
    pretrain_worker *r = p->rank;
    const int64_t micro = p->first + pass;
    syn_batch_options how = r->run->batches;
    how.epoch = p->epoch;
    choose_texts(r, r->run->texts, &r->sampler, p->epoch, micro, pretrain_dp_index(r));
    if (pretrain_drops(r->run)) set_dropout(r, r->chunks[chunk], p->epoch);
    const syn_pretraining_batch b =
        make_inputs(r, r->run->texts, &r->sampler, p->epoch, micro, &how, p->weight);
    return syn_pretraining_stage(r->chunks[chunk], x, &b);
}

/* The loss of a microbatch on a rank that has the whole model; a syn_microbatch_loss. */
static syn_tensor loss_of(void *arg, int pass) {
    return stage_of(arg, 0, pass, (syn_tensor){0});
}

static syn_status read_number(pretrain_worker *r, syn_tensor x, double *out, syn_error *err) {
    float value = 0;
    if (syn_ctx_has_data(r->ctx) && x.id &&
        syn_tensor_read(r->ctx, x, &value, sizeof value) != SYN_OK)
        return syn_ctx_check(r->ctx, err);
    *out = (double)value;
    return syn_ctx_check(r->ctx, err);
}

/* Logs the latest step whose results are known. On an asynchronous device, this is the step before
   the current one. */
static void note_known(pretrain_worker *r) {
    const syn_step_result known = syn_trainer_last_result(r->trainer);
    const pretrain_args *args = r->run->args;
    if (known.steps == r->noted) return;
    const int which = (r->first_step + r->noted) & 1;
    pretrain_metrics *m = &r->metrics[which];
    r->noted = known.steps;
    m->loss = r->passes[which].empty ? NAN : known.loss;
    m->grad_norm = known.grad_norm;
    const uint64_t now = syn__clock_ns();
    const int64_t tokens =
        args->accumulation * args->batch_size * pretrain_dp_size(r) * r->run->batches.tokens;
    m->tokens_per_s = (double)tokens / (1e-9 * (double)(now - r->begun_ns) + 1e-12);
    r->begun_ns = now;
    if (r->comm->rank == 0 && syn_ctx_has_data(r->ctx)) pretrain_log_step(r->run, m);
}

static syn_status one_step(pretrain_worker *r, int64_t step, syn_error *err) {
    const pretrain *run = r->run;
    const pretrain_args *args = run->args;
    syn_batch_options how = run->batches;
    pretrain_passes *p = &r->passes[step & 1];
    pretrain_metrics *m = &r->metrics[step & 1];
    m->step = step + 1;
    p->rank = r;
    m->epoch = how.epoch = p->epoch = step / run->steps_per_epoch;
    m->learning_rate = syn_learning_rate(args->learning_rate, step, args->warmup_steps,
                                         run->steps_per_epoch * args->num_epochs);
    p->first = step % run->steps_per_epoch * args->accumulation;
    weigh(r, p, &how);
    if (r->mesh.group[SYN_AXIS_PP])
        SYN_TRY(syn_trainer_step_stage(r->trainer, stage_of, p, m->learning_rate, NULL, err));
    else SYN_TRY(syn_trainer_step(r->trainer, loss_of, p, m->learning_rate, NULL, err));
    note_known(r);
    return SYN_OK;
}

/* ---- Saving ---- */

/* If a model cannot be saved, prints a warning and continues training. */
static syn_status save(pretrain_worker *r, const char *name, int64_t step, bool resumable,
                       bool *saved, syn_error *err) {
    syn_error why = {.code = SYN_OK};
    const syn_status s = pretrain_save(r->run, &r->state, name, resumable, &why);
    *saved = s == SYN_OK;
    if (s != SYN_OK && (s != SYN_E_IO || syn_ctx_status(r->ctx) != SYN_OK))
        return SYN_FAIL(err, s, "%s", why.text);
    if (r->comm->rank != 0) return SYN_OK;
    pretrain_note_saved(r->run, name, step, resumable, *saved);
    if (*saved) return SYN_OK;
    pretrain_bar_clear(r->run);
    fprintf(stderr, "%s: warning: %s was not saved: %s\n", r->run->launch.program->name, name,
            why.text);
    return SYN_OK;
}

static syn_status save_checkpoint(pretrain_worker *r, int64_t step, syn_error *err) {
    char name[40];
    bool saved;
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    r->state.step = step;
    return save(r, name, step, true, &saved, err);
}

/* Saves the last model if no validation chose a best one, unless the run is only for a trace. */
static syn_status save_last(pretrain_worker *r, int64_t step, syn_error *err) {
    const pretrain_args *args = r->run->args;
    bool saved;
    if (r->validated || (args->skip_eval && args->enable_tracing)) return SYN_OK;
    return save(r, "last_model", step, false, &saved, err);
}

/* ---- Validation ---- */

/* A batch of the validation data. */
typedef struct evaluation {
    pretrain_worker *rank;
    int64_t batch;
} evaluation;

/* A syn_stage_forward. */
static syn_tensor evaluate(void *arg, int chunk, int microbatch, syn_tensor x) {
    const evaluation *e = arg;
    pretrain_worker *r = e->rank;
    const pretrain *run = r->run;
    const syn_pretraining_batch b =
        make_inputs(r, run->eval_texts, &r->eval_sampler, 0, e->batch, &run->batches, 1.0f);
    (void)microbatch;
    return syn_pretraining_stage(r->chunks[chunk], x, &b);
}

static syn_status validate(pretrain_worker *r, int64_t step, syn_error *err) {
    pretrain *run = r->run;
    const int64_t batches = syn_sampler_steps(&r->eval_sampler);
    double sum = 0, part = 0;
    int64_t labels = 0;
    progress bar = {
        .what = "validating", .unit = "batches", .quiet = run->args->quiet || r->comm->rank != 0};
    if (r->comm->rank == 0) pretrain_bar_clear(run);
    for (int64_t i = 0; i < batches; i++) {
        progress_step(&bar, i, batches);
        const syn_mark mark = syn_ctx_mark(r->ctx);
        labels += count_labels(r, run->eval_texts, &r->eval_sampler, 0, i, &run->batches, 0,
                               pretrain_dp_size(r));
        evaluation e = {r, i};
        SYN_TRY(read_number(r, syn_trainer_evaluate(r->trainer, evaluate, &e), &part, err));
        sum += part;
        syn_forget(r->ctx, mark, NULL, 0);
    }
    progress_step(&bar, batches, batches);
    const double loss = labels ? sum / (double)labels : NAN;
    r->validated = r->validated || labels > 0;
    if (r->comm->rank == 0) pretrain_log_eval(run, step, loss);
    r->begun_ns = syn__clock_ns();
    bool saved = false;
    if (loss < r->state.best) SYN_TRY(save(r, "best_model", step, false, &saved, err));
    if (saved) r->state.best = loss;
    return SYN_OK;
}

/* ---- The loop ---- */

static bool is_time(int64_t step, int64_t every) {
    return every > 0 && (step + 1) % every == 0;
}

static syn_status after_step(pretrain_worker *r, int64_t step, syn_error *err) {
    pretrain *run = r->run;
    const pretrain_args *args = run->args;
    const bool meta = !syn_ctx_has_data(r->ctx), last = step + 1 == run->steps;
    const int64_t nth = step - r->first_step;
    const pretrain_tracing tracing = pretrain_tracing_of(args, nth, last);
    const bool saves = is_time(step, args->save_steps);
    const bool ends =
        last || is_time(step, run->steps_per_epoch) || is_time(step, args->eval_steps);
    if (tracing != PRETRAIN_UNTRACED || saves || ends) {
        SYN_TRY(syn_trainer_settle(r->trainer, err));
        note_known(r);
    }
    syn_trainer_keep_rows(r->trainer, tracing == PRETRAIN_ACTIVE);
    if (tracing >= PRETRAIN_WINDOW) {
        if (!meta && r->comm->rank == 0)
            run->measured_ns = pretrain_step_tokens(run) * 1e9 / r->metrics[step & 1].tokens_per_s;
        const bool over = tracing == PRETRAIN_LAST_WINDOW;
        SYN_TRY(pretrain_write_trace(run, r->ctx, r->comm, nth, step + 1, over, err));
        r->done =
            meta && over; /* the rows must stay until the other ranks have run, so stop here */
    }
    if (meta) return SYN_OK;
    if (run->eval_texts && ends) SYN_TRY(validate(r, step + 1, err));
    if (saves) return save_checkpoint(r, step + 1, err);
    return last ? save_last(r, step + 1, err) : SYN_OK;
}

/* Waits for the previous step, so that a trace has no part of it. */
static syn_status before_traced(pretrain_worker *r, int64_t step, syn_error *err) {
    if (r->noted == step - r->first_step) return SYN_OK;
    SYN_TRY(syn_trainer_settle(r->trainer, err));
    note_known(r);
    return syn_ctx_sync(r->ctx) == SYN_OK ? SYN_OK : syn_ctx_check(r->ctx, err);
}

static syn_status all_steps(pretrain_worker *r, syn_error *err) {
    r->begun_ns = syn__clock_ns();
    r->first_step = r->state.step;
    for (int64_t step = r->first_step; step < r->run->steps && !r->done; step++) {
        const pretrain_tracing tracing =
            pretrain_tracing_of(r->run->args, step - r->first_step, step + 1 == r->run->steps);
        if (tracing != PRETRAIN_UNTRACED) SYN_TRY(before_traced(r, step, err));
        syn_ctx_record_work(r->ctx, tracing != PRETRAIN_UNTRACED);
        syn_trainer_forget_microbatches(r->trainer, tracing == PRETRAIN_UNTRACED);
        SYN_TRY(one_step(r, step, err));
        SYN_TRY(after_step(r, step, err));
    }
    if (r->comm->rank == 0 && r->first_step < r->run->steps) pretrain_end_trace(r->run);
    return SYN_OK;
}

/* Whether the run predicts a program that allocates its tensors with PyTorch. */
static bool predicts_pytorch(const launch *l) {
    static const char *const stacks[] = {"pytorch-eager", "megatron", "fsdp", "fsdp-eager",
                                         "megatron-core"};
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        if (l->device == SYN_DEVICE_META && l->hw && strcmp(l->hw->stack.name, stacks[i]) == 0)
            return true;
    return false;
}

/* Runs `steps` in a new context, which the caller frees. */
static syn_status run_in_context(pretrain_worker *r, syn_ctx **ctx,
                                 syn_status (*steps)(pretrain_worker *r, syn_error *err),
                                 syn_error *err) {
    SYN_TRY(syn_ctx_new(ctx, r->run->launch.device, r->comm, err));
    r->ctx = *ctx;
    SYN_TRY(syn_ctx_set_threads(r->ctx, r->run->launch.threads, err));
    syn_ctx_set_overlap(r->ctx, true);
    syn_ctx_set_hashing(r->ctx, false);
    if (predicts_pytorch(&r->run->launch)) SYN_TRY(syn_ctx_count_reserved(r->ctx, err));
    syn_status s = pretrain_make_rank(r, err);
    if (s == SYN_OK) s = steps(r, err);
    pretrain_free_rank(r);
    return s;
}

static syn_status first_step(pretrain_worker *r, syn_error *err) {
    return one_step(r, 0, err);
}

/* Records the steps from which a step is predicted. */
static syn_status predict_rank(pretrain_worker *r, syn_ctx **ctx, syn_error *err) {
    pretrain *run = r->run;
    int64_t microbatches[2];
    const int n = pretrain_recorded_steps(run, microbatches);
    const int32_t stage = r->mesh.index[SYN_AXIS_PP];
    for (int i = 0; i < n; i++) {
        pretrain_worker recorded = {.run = run, .comm = r->comm, .mesh = r->mesh, .heaviest = true};
        syn_ctx **to = ctx;
        recorded.microbatches = microbatches[i];
        if (i < n - 1) to = &run->shorter[stage];
        SYN_TRY(run_in_context(&recorded, to, first_step, err));
    }
    return SYN_OK;
}

syn_status pretrain_rank(syn_comm *comm, void *user, syn_ctx **ctx, syn_error *err) {
    pretrain *run = user;
    pretrain_worker r = {.run = run, .comm = comm, .microbatches = run->args->accumulation};
    SYN_TRY(syn_mesh_open(&r.mesh, comm, &run->launch.parallel, err));
    if (run->predicts || run->swept) return predict_rank(&r, ctx, err);
    return run_in_context(&r, ctx, all_steps, err);
}

syn_status pretrain_launch(pretrain *run, syn_error *err) {
    launch *l = &run->launch;
    const bool predicts = run->predicts || run->swept;
    l->quiet = run->args->quiet;
    l->alone_together = predicts;
    l->plan = pretrain_plan;
    l->parts = pretrain_parts;
    l->main = pretrain_rank;
    l->user = run;
    syn_status s = pretrain_prepare(run, err);
    if (s == SYN_OK) s = launch_threads(l, err);
    SYN_TRY(launch_run(l, s, err));
    return predicts && (!l->mpi || l->rank == 0) ? pretrain_predict_recorded(run, err) : SYN_OK;
}

syn_status pretrain_record_rank(pretrain *run, int32_t rank, launch_use_graph *use, void *user,
                                syn_error *err) {
    syn_comm *comm;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_comm_fake_new(&comm, rank, run->launch.ranks, err));
    pretrain_worker r = {.run = run, .comm = comm, .microbatches = run->args->accumulation};
    syn_status s = syn_mesh_open(&r.mesh, comm, &run->launch.parallel, err);
    if (s == SYN_OK) s = run_in_context(&r, &ctx, first_step, err);
    if (s == SYN_OK) s = pretrain_use_graph(run, ctx, use, user, err);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
    return s;
}
