#include "tools/calibrate/job.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "models/generate.h"
#include "models/pretraining.h"
#include "models/trainer.h"
#include "syntorch/memory.h"
#include "syntorch/mesh.h"
#include "tools/calibrate/measured.h"

/* What a rank of a job has. */
typedef struct worker {
    const job *what;
    const struct job_shape *shape; /* that runs */
    timed_ops *ops;                /* rank 0's; NULL on others */
    syn_ctx *ctx;
    syn_model *model;
    const syn_mesh *mesh;
    int32_t *ids;
    uint64_t counted; /* nodes up to this id were */
    int done;         /* runs or steps */
    bool timed;
    double decode_ns; /* shortest */
} worker;

/* ---- Times ---- */

static syn_status note(timed_ops *ops, const syn_node *node, double ns, syn_error *err) {
    timed_op *op = NULL;
    for (size_t i = ops->n; i-- > 0 && op == NULL;)
        if (measured_same_cost(&ops->at[i].node, node)) op = &ops->at[i];
    if (op == NULL) {
        SYN_TRY(syn_grow(&ops->at, &ops->cap, ops->n + 1, sizeof *ops->at, err));
        op = &ops->at[ops->n++];
        *op = (timed_op){.node = *node};
        op->node.deps = NULL;
        op->node.n_deps = op->node.n_inputs = op->node.n_outputs = op->node.n_attributes = 0;
        op->node.label = op->node.scope = "";
    }
    SYN_TRY(syn_grow(&op->all, &op->cap, op->n + 1, sizeof *op->all, err));
    op->all[op->n++] = ns;
    return SYN_OK;
}

/* What was recorded since the last call, but not of the first run, which finds nothing in caches
   and takes memory from the system. */
static syn_status note_rows(worker *w, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(w->ctx);
    syn_graph *graph = NULL;
    syn_cursor cursor = {0};
    if (w->ops == NULL) return SYN_OK;
    SYN_TRY(syn_ctx_sync(w->ctx));
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (node == NULL) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        if (node == NULL || node->id <= w->counted) continue;
        w->counted = node->id;
        if ((node->flags & SYN_NODE_VIRTUAL) == 0 && w->done > 0)
            s = note(w->ops, node, syn_node_busy_ns(node), err);
    }
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    return s;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void timed_ops_settle(timed_ops *ops) {
    for (size_t i = 0; i < ops->n; i++) {
        timed_op *op = &ops->at[i];
        qsort(op->all, op->n, sizeof *op->all, compare);
        op->ns = op->all[op->n / 2];
    }
}

/* ---- Inference ---- */

static syn_status after_step(void *user, int64_t step, bool *rows_stay, syn_error *err) {
    (void)step;
    *rows_stay = false;
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
    if (!watched && (w->decode_ns == 0 || ns < w->decode_ns)) w->decode_ns = ns;
    return s;
}

/* Runs are watched, which takes time between steps, and then, if asked for, timed as a whole. */
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
    for (w->done = 0; w->done <= w->what->steps; w->done++) {
        SYN_TRY(syn_trainer_step(trainer, loss_of, w, 1e-4, NULL, err));
        SYN_TRY(note_rows(w, err));
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
    const syn_status s = trainer != NULL ? train(w, trainer, err) : generate(w, err);
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

/* Sums of two tensors instead of a model. */
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

static syn_status sum_over_ranks(worker *w, syn_error *err) {
    for (int bits = 8; bits <= 24; bits += 4) {
        const syn_spec spec = {SYN_F32, 1, {(int64_t)1 << bits}};
        const syn_tensor a = syn_state(w->ctx, "a", &spec);
        const syn_mark mark = syn_ctx_mark(w->ctx);
        for (w->done = 0; w->done <= w->what->steps; w->done++) {
            (void)syn_all_reduce(w->ctx, a, SYN_REDUCE_SUM, w->mesh->group[SYN_AXIS_TP]);
            SYN_TRY(note_rows(w, err));
            syn_forget(w->ctx, mark, NULL, 0);
        }
    }
    return syn_ctx_check(w->ctx, err);
}

/* What ranks do. */
typedef enum task { TASK_MODEL, TASK_ADD, TASK_ALL_REDUCE } task;

typedef struct started {
    const job *what;
    timed_ops *ops;
    task task;
    int64_t elements; /* to add */
    bool timed;
    double decode_ns;
    int32_t ranks; /* that there were */
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
    const syn_mesh_shape shape = {.tp = training ? 1 : comm->size, .dp = training ? comm->size : 1};
    SYN_TRY(syn_mesh_open(&mesh, comm, &shape, err));
    SYN_TRY(syn_ctx_new(&w.ctx, s->what->device, comm, err));
    if (training) syn_ctx_set_overlap(w.ctx, true);
    syn_status status = syn_ctx_set_threads(w.ctx, s->what->threads, err);
    if (status == SYN_OK) status = run_task(&w, s, err);
    if (comm->rank == 0) s->decode_ns = w.decode_ns;
    if (comm->rank == 0) s->ranks = comm->size;
    syn_model_free(w.model);
    syn_ctx_free(w.ctx);
    return status;
}

static syn_status run_ranks(started *s, syn_error *err) {
    return syn_local_run(s->what->ranks, rank_main, s, err);
}

syn_status job_run(const job *what, timed_ops *ops, double *decode_ns, syn_error *err) {
    started s = {.what = what, .ops = ops, .timed = decode_ns != NULL};
    SYN_TRY(run_ranks(&s, err));
    if (decode_ns != NULL) *decode_ns = s.decode_ns;
    return SYN_OK;
}

syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) {
    started s = {.what = what, .ops = ops, .task = TASK_ADD, .elements = elements};
    return run_ranks(&s, err);
}

syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks, syn_error *err) {
    started s = {.what = what, .ops = ops, .task = TASK_ALL_REDUCE};
    SYN_TRY(syn_ranks_run(what->ranks, rank_main, &s, err));
    *ranks = s.ranks;
    return SYN_OK;
}

syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) {
    for (size_t i = 0; i < from->n; i++)
        for (size_t j = 0; j < from->at[i].n; j++)
            SYN_TRY(note(to, &from->at[i].node, from->at[i].all[j], err));
    return SYN_OK;
}

void timed_ops_free(timed_ops *ops) {
    for (size_t i = 0; i < ops->n; i++) syn_free(ops->at[i].all);
    syn_free(ops->at);
    *ops = (timed_ops){0};
}
