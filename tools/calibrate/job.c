/* Runs the ranks of a job as threads or MPI processes, and collects the op times of rank 0. */
#include "tools/calibrate/job.h"

#include "comm/comm.h"
#include "models/generate.h"
#include "models/training/pretraining.h"
#include "models/training/trainer.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tools/calibrate/measured.h"
#include "tools/launch/gather.h"

/* State of a rank. */
typedef struct worker {
    const job *what;
    const struct job_shape *shape; /* the shape that is being run */
    timed_ops *ops;                /* collected times on rank 0; NULL on other ranks */
    syn_ctx *ctx;
    syn_model *model;
    const syn_mesh *mesh;
    int32_t *ids;
    uint64_t counted; /* id of the last node that was added to `ops` */
    int done;         /* finished runs or steps */
    bool timed;
    job_times shortest;
} worker;

static void note_step(double *shortest, double ns) {
    if (*shortest == 0 || ns < *shortest) *shortest = ns;
}

/* ---- Times ---- */

/* Adds the times recorded since the last call to w->ops. Drops the times of the first run, which is
   slower because its data is not in caches and its memory must be allocated from the system. */
static syn_status note_rows(worker *w, syn_error *err) {
    if (w->ops == NULL) return SYN_OK;
    return timed_ops_take(w->done > 0 ? w->ops : NULL, w->ctx, &w->counted, err);
}

/* ---- Inference ---- */

static syn_status after_step(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    (void)step;
    *keep_rows = false;
    return note_rows(user, err);
}

static syn_status generate_once(worker *w, bool watched, syn_error *err) {
    syn_generation g = {.batch = w->shape->batch,
                        .prompt_tokens = w->shape->tokens,
                        .new_tokens = w->shape->new_tokens,
                        .prompt = w->ids,
                        .sampling = {1.0, 0, 1.0, 1, 0},
                        .after_step = watched ? after_step : NULL,
                        .after_step_user = w};
    const syn_mark mark = syn_ctx_mark(w->ctx);
    const syn_status s = syn_generate(w->model, &g, err);
    syn_free(g.tokens);
    if (!watched) syn_forget(w->ctx, mark, NULL, 0);
    const double ns = (double)g.decode_ns / (double)(g.made > 1 ? g.made - 1 : 1);
    if (!watched) note_step(&w->shortest.prefill_ns, (double)g.prefill_ns);
    if (!watched) note_step(&w->shortest.decode_ns, ns);
    return s;
}

/* ---- Serving ---- */

enum { BLOCK_TOKENS = 16 };

/* The arrays of a packed step. As in a server, the blocks of a prompt are consecutive, and those of
   further tokens alternate between the sequences. */
typedef struct packed {
    int32_t *queries, *keys, *rows, *blocks;
    int64_t max_blocks, prompt_blocks; /* of each sequence */
} packed;

static void fill_packed(packed *p, int64_t n, int64_t tokens, int64_t keys) {
    for (int64_t i = 0; i < n; i++) {
        p->queries[i] = (int32_t)tokens;
        p->keys[i] = (int32_t)keys;
        p->rows[i] = (int32_t)((i + 1) * tokens - 1);
        for (int64_t b = 0; b < p->max_blocks; b++)
            p->blocks[i * p->max_blocks + b] =
                (int32_t)(b < p->prompt_blocks ? i * p->prompt_blocks + b : b * n + i);
    }
}

/* Runs the prompts of all sequences in one step, and then a step for each further token. */
static syn_status serve_steps(worker *w, packed *p, syn_error *err) {
    const int64_t n = w->shape->batch;
    const syn_mark mark = syn_ctx_mark(w->ctx);
    for (int64_t step = 0; step < w->shape->new_tokens; step++) {
        const int64_t tokens = step == 0 ? w->shape->tokens : 1;
        const syn_spec spec = {SYN_I32, 2, {1, n * tokens}};
        fill_packed(p, n, tokens, w->shape->tokens + step);
        const syn_packed_step how = {.n = n,
                                     .queries = p->queries,
                                     .keys = p->keys,
                                     .blocks = p->blocks,
                                     .max_blocks = p->max_blocks,
                                     .rows = p->rows,
                                     .n_rows = n};
        syn_set_phase(w->ctx, step == 0 ? SYN_PHASE_PREFILL : SYN_PHASE_DECODE);
        const syn_tensor logits =
            syn_causal_forward_packed(w->model, syn_input(w->ctx, "tokens", &spec, w->ids), &how);
        (void)syn_argmax(w->ctx, logits);
        SYN_TRY(note_rows(w, err));
        syn_forget(w->ctx, mark, NULL, 0);
    }
    return syn_ctx_check(w->ctx, err);
}

static syn_status serve(worker *w, syn_error *err) {
    const int64_t n = w->shape->batch, all = w->shape->tokens + w->shape->new_tokens;
    packed p = {.max_blocks = (all + BLOCK_TOKENS - 1) / BLOCK_TOKENS,
                .prompt_blocks = (w->shape->tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS};
    const size_t bytes = (size_t)(n * (3 + p.max_blocks)) * sizeof *p.queries;
    if (!(p.queries = syn_malloc(bytes))) return SYN_FAIL_NOMEM(err, bytes, "a packed step");
    p.keys = p.queries + n;
    p.rows = p.keys + n;
    p.blocks = p.rows + n;
    syn_status s = syn_causal_begin_paged(w->model, n * p.max_blocks, BLOCK_TOKENS, err);
    for (w->done = 0; w->done <= w->what->steps && s == SYN_OK; w->done++)
        s = serve_steps(w, &p, err);
    syn_free(p.queries);
    return s;
}

/* ---- Generation ---- */

/* First runs the model and collects op times after each step, which delays the next step. Then, if
   `timed` is set, runs it again and measures only whole steps. */
static syn_status generate(worker *w, syn_error *err) {
    const int runs = (w->timed ? 2 : 1) * w->what->steps;
    for (w->done = 0; w->done <= runs; w->done++)
        SYN_TRY(generate_once(w, w->done <= w->what->steps, err));
    return SYN_OK;
}

/* ---- Training ---- */

static syn_tensor loss_of(void *arg, int pass) {
    const worker *w = arg;
    const syn_spec ids = {SYN_I32, 2, {w->shape->batch, w->shape->tokens}}, one = {SYN_F32, 0, {0}};
    const float weight = 1.0f / (float)(w->shape->batch * w->shape->tokens);
    const syn_model_dropout how = {.embedding = 0.1, .attention = 0.1, .residual = 0.1, .seed = 1};
    (void)pass;
    syn_model_set_dropout(w->model, &how);
    const syn_pretraining_batch batch = {.tokens = syn_input(w->ctx, "tokens", &ids, w->ids),
                                         .targets = syn_input(w->ctx, "targets", &ids, w->ids),
                                         .weight = syn_input(w->ctx, "weight", &one, &weight)};
    return syn_pretraining_loss(w->model, &batch);
}

static syn_status train(worker *w, syn_trainer *trainer, syn_error *err) {
    const int steps = (w->timed ? 2 : 1) * w->what->steps;
    for (w->done = 0; w->done <= steps; w->done++) {
        const uint64_t begun_ns = syn__clock_ns();
        SYN_TRY(syn_trainer_step(trainer, loss_of, w, 1e-4, NULL, err));
        if (w->done <= w->what->steps) SYN_TRY(note_rows(w, err));
        else note_step(&w->shortest.training_ns, (double)(syn__clock_ns() - begun_ns));
    }
    return SYN_OK;
}

/* ---- Both ---- */

static bool is_training(const job *what) {
    return what->shapes[0].new_tokens == 0;
}

static syn_model_config config_of(const job *what) {
    int64_t positions = 0;
    for (int i = 0; i < JOB_SHAPES; i++) {
        const int64_t n = what->shapes[i].tokens + what->shapes[i].new_tokens;
        if (n > positions) positions = n;
    }
    return (syn_model_config){.family = &syn_gpt_family,
                              .name = "measured",
                              .n_layer = what->layers,
                              .n_embd = what->hidden,
                              .n_head = what->hidden / 64,
                              .n_positions = positions,
                              .n_inner = 4 * what->hidden,
                              .vocab_size = what->vocabulary,
                              .norm_epsilon = 1e-5,
                              .initializer_range = 0.02,
                              .activation = SYN_GELU_TANH,
                              .tied = true};
}

static syn_status run_shape(worker *w, syn_trainer *trainer, syn_error *err) {
    const int64_t n = w->shape->batch * w->shape->tokens;
    w->ids = syn_calloc((size_t)n, sizeof *w->ids);
    if (w->ids == NULL) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *w->ids, "tokens");
    for (int64_t i = 0; i < n; i++) w->ids[i] = (int32_t)(i * 7919 % w->what->vocabulary);
    const syn_status s = trainer != NULL  ? train(w, trainer, err)
                         : w->what->paged ? serve(w, err)
                                          : generate(w, err);
    syn_free(w->ids);
    return s;
}

static syn_status run_model(worker *w, syn_error *err) {
    const job *what = w->what;
    const syn_model_config config = config_of(what);
    const syn_model_options options = {.tp = w->mesh->group[SYN_AXIS_TP],
                                       .heads = syn_pretraining_heads(&config),
                                       .fused_attention = true,
                                       .dtype = what->dtype};
    const syn_trainer_options how = {.optimizer = {.weight_decay = 0.01, .max_grad_norm = 1},
                                     .dp = w->mesh->group[SYN_AXIS_DP]};
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_model_new(&w->model, w->ctx, &config, &options, err));
    if (is_training(what)) SYN_TRY(syn_trainer_new(&trainer, w->ctx, &how, err));
    syn_status s = SYN_OK;
    for (int i = 0; i < JOB_SHAPES && what->shapes[i].batch > 0 && s == SYN_OK; i++) {
        w->shape = &what->shapes[i];
        s = run_shape(w, trainer, err);
    }
    syn_trainer_free(trainer);
    return s;
}

/* Runs additions of two tensors instead of a model. */
static syn_status add(worker *w, int64_t elements, syn_error *err) {
    const syn_spec spec = {SYN_F32, 1, {elements}};
    const syn_tensor a = syn_state(w->ctx, "a", &spec), b = syn_state(w->ctx, "b", &spec);
    const syn_mark mark = syn_ctx_mark(w->ctx);
    for (w->done = 0; w->done <= w->what->steps; w->done++) {
        (void)syn_add(w->ctx, a, b);
        SYN_TRY(note_rows(w, err));
        syn_forget(w->ctx, mark, NULL, 0);
    }
    return syn_ctx_check(w->ctx, err);
}

/* Runs the all-reduces of one size. *ns: their total time on the slowest rank. */
static syn_status sum_of_size(worker *w, int bits, double *ns, syn_error *err) {
    const syn_spec spec = {SYN_F32, 1, {(int64_t)1 << bits}}, one = {SYN_F32, 1, {1}};
    const syn_group *tp = w->mesh->group[SYN_AXIS_TP];
    const syn_tensor a = syn_state(w->ctx, "a", &spec);
    const syn_mark mark = syn_ctx_mark(w->ctx);
    const uint64_t begun_ns = syn__clock_ns();
    for (w->done = 0; w->done <= w->what->steps; w->done++) {
        (void)syn_all_reduce(w->ctx, a, SYN_REDUCE_SUM, tp);
        SYN_TRY(note_rows(w, err));
        syn_forget(w->ctx, mark, NULL, 0);
    }
    float most = (float)(syn__clock_ns() - begun_ns);
    const syn_tensor mine = syn_input(w->ctx, "took", &one, &most);
    const syn_tensor all = syn_all_reduce(w->ctx, mine, SYN_REDUCE_MAX, tp);
    if (syn_tensor_read(w->ctx, all, &most, sizeof most) != SYN_OK)
        return syn_ctx_check(w->ctx, err);
    w->counted = syn_ctx_mark(w->ctx).node - 1; /* excludes the all-reduce of the maximum from the
                                                   measured ops */
    syn_forget(w->ctx, mark, NULL, 0);
    syn_drop(w->ctx, a);
    *ns = most;
    return SYN_OK;
}

#define SUMS_NS 2e8 /* if one size takes longer in total, no larger size is tried */

static syn_status sum_over_ranks(worker *w, syn_error *err) {
    double ns = 0;
    for (int bits = w->what->first_bits; bits <= w->what->last_bits && ns < SUMS_NS;
         bits += w->what->more_bits)
        SYN_TRY(sum_of_size(w, bits, &ns, err));
    return syn_ctx_check(w->ctx, err);
}

/* What all ranks run. */
typedef enum task { TASK_MODEL, TASK_ADD, TASK_ALL_REDUCE } task;

typedef struct started {
    const job *what;
    timed_ops *ops;
    task task;
    int64_t elements; /* for TASK_ADD */
    bool timed;
    job_times times;
    int32_t ranks;     /* number of ranks that ran */
    int32_t refused;   /* over MPI: the lowest rank that could not start; -1: none */
    bool refused_here; /* this rank is that one */
} started;

static syn_status run_task(worker *w, const started *s, syn_error *err) {
    switch (s->task) {
    case TASK_ADD:
        return add(w, s->elements, err);
    case TASK_ALL_REDUCE:
        return sum_over_ranks(w, err);
    default:
        return run_model(w, err);
    }
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    started *s = arg;
    const bool training = is_training(s->what);
    syn_mesh mesh;
    worker w = {.what = s->what, .mesh = &mesh, .timed = s->timed};
    if (comm->rank == 0) w.ops = s->ops;
    const syn_plan shape = {.tp = training ? 1 : comm->size, .dp = training ? comm->size : 1};
    SYN_TRY(syn_mesh_open(&mesh, comm, &shape, err));
    SYN_TRY(syn_ctx_new(&w.ctx, s->what->device, comm, err));
    if (training) syn_ctx_set_overlap(w.ctx, true);
    syn_ctx_record_work(w.ctx, s->what->record_work);
    syn_status status = syn_ctx_set_threads(w.ctx, s->what->threads, err);
    if (status == SYN_OK) status = run_task(&w, s, err);
    if (comm->rank == 0) s->times = w.shortest;
    if (comm->rank == 0) s->ranks = comm->size;
    syn_model_free(w.model);
    syn_ctx_free(w.ctx);
    return status;
}

/* Runs a rank. Over MPI, it first agrees with the other ranks, so that no rank waits for a rank
   whose preparations failed. */
static syn_status begin_rank(syn_comm *comm, void *arg, syn_error *err) {
    started *s = arg;
    gather_start start = {-1, -1};
    if (!comm->ops->in_process) SYN_TRY(gather_agreement(&start, comm, s->what->before, 0, err));
    s->refused = start.failed;
    if (start.failed < 0) return rank_main(comm, arg, err);
    s->refused_here = start.failed == comm->rank;
    return SYN_OK;
}

static syn_status run_ranks(started *s, syn_error *err) {
    return syn_local_run(s->what->ranks, rank_main, s, err);
}

syn_status job_run(const job *what, timed_ops *ops, job_times *times, syn_error *err) {
    started s = {.what = what, .ops = ops, .timed = times != NULL};
    SYN_TRY(run_ranks(&s, err));
    if (times != NULL) *times = s.times;
    return SYN_OK;
}

syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) {
    started s = {.what = what, .ops = ops, .task = TASK_ADD, .elements = elements};
    return run_ranks(&s, err);
}

syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks, syn_error *err) {
    started s = {.what = what, .ops = ops, .task = TASK_ALL_REDUCE};
    SYN_TRY(syn_ranks_run(what->ranks, begin_rank, &s, err));
    if (s.refused >= 0 && s.refused_here) return what->before;
    if (s.refused >= 0) return SYN_FAIL(err, SYN_E_COMM, "rank %d could not start", s.refused);
    *ranks = s.ranks;
    return SYN_OK;
}
