/* Records the runs of measured rows on meta: one rank of each pipeline stage, because all ranks of
   a stage run the same ops in these runs. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "export/export.h"
#include "models/generate.h"
#include "models/training/pretraining.h"
#include "models/training/trainer.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tools/calibrate/measured.h"

/* The vocabulary of the measured runs: Megatron pads GPT-2's 50257 tokens to this. */
#define VOCABULARY 51200

/* ---- Counting ---- */

bool measured_same_cost(const syn_node *a, const syn_node *b) {
    return a->kind == b->kind && a->category == b->category && a->flags == b->flags &&
           a->phase == b->phase && a->dtype == b->dtype && a->flops == b->flops &&
           a->bytes_read == b->bytes_read && a->bytes_written == b->bytes_written &&
           a->comm == b->comm && a->comm_bytes == b->comm_bytes &&
           a->extents.batch == b->extents.batch && a->extents.rows == b->extents.rows &&
           a->extents.columns == b->extents.columns && a->extents.inner == b->extents.inner &&
           strcmp(a->op, b->op) == 0;
}

/* Returns the row's entry for ops with the same cost as `one`; NULL if there is none. */
static tally_row *find_op(const measured_row *row, const tally_row *one) {
    for (size_t i = row->n_ops; i-- > 0;) {
        tally_row *known = &row->ops[i];
        if (known->group_ranks == one->group_ranks && known->group_stride == one->group_stride &&
            measured_same_cost(&known->node, &one->node))
            return known;
    }
    return NULL;
}

/* Adds a node of the recorded rank to the row's counts. */
static syn_status count_node(measured_row *row, const syn_graph *graph, const syn_node *node,
                             syn_error *err) {
    const syn_graph_group *group = node->group ? syn_graph_group_by_id(graph, node->group) : NULL;
    tally_row one = {.node = *node, .count = 1};
    one.node.deps = NULL;
    one.node.n_deps = one.node.n_inputs = one.node.n_outputs = one.node.n_attributes = 0;
    if (group != NULL) {
        one.group_ranks = group->n_ranks;
        one.group_stride = group->n_ranks > 1 ? (uint32_t)(group->ranks[1] - group->ranks[0]) : 1;
    }
    tally_row *known = find_op(row, &one);
    if (known != NULL) {
        known->count++;
        return SYN_OK;
    }
    SYN_TRY(syn_grow(&row->ops, &row->cap_ops, row->n_ops + 1, sizeof *row->ops, err));
    row->ops[row->n_ops++] = one;
    return SYN_OK;
}

static syn_status count_trace(measured_row *row, const syn_ctx *ctx, uint64_t after, uint64_t *last,
                              syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_graph *graph = NULL;
    syn_cursor cursor = {0};
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (node == NULL) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        if (node == NULL || node->id <= after || (node->flags & SYN_NODE_VIRTUAL) != 0) continue;
        /* The time of a message depends on its two ranks. Like waiting, it is part of
         * `overlap_factor`. */
        if (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV) continue;
        *last = node->id;
        s = count_node(row, graph, node, err);
    }
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    return s;
}

/* ---- Inference ---- */

struct generating {
    measured_row *row;
    syn_ctx *ctx;
    uint64_t counted;
};

static syn_status after_step(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    struct generating *g = user;
    (void)step;
    *keep_rows = false;
    return count_trace(g->row, g->ctx, g->counted, &g->counted, err);
}

static syn_model_config config_of(const measured_row *row) {
    syn_model_config config = {.family = &syn_gpt_family,
                               .n_layer = row->layers,
                               .n_embd = row->hidden,
                               .n_head = row->heads,
                               .n_positions = row->tokens + row->new_tokens,
                               .n_inner = 4 * row->hidden,
                               .vocab_size = VOCABULARY,
                               .norm_epsilon = 1e-5,
                               .initializer_range = 0.02,
                               .activation = SYN_GELU_TANH,
                               .tied = true};
    snprintf(config.name, sizeof config.name, "%s", row->model);
    return config;
}

static syn_status generate(measured_row *row, syn_ctx *ctx, const syn_mesh *mesh, syn_error *err) {
    const syn_model_config config = config_of(row);
    const syn_model_options how = {
        .tp = mesh->group[SYN_AXIS_TP], .fused_attention = true, .dtype = SYN_F16};
    struct generating g = {row, ctx, 0};
    syn_model *model = NULL;
    syn_generation work = {.batch = row->batch,
                           .prompt_tokens = row->tokens,
                           .new_tokens = row->new_tokens,
                           .sampling = {1.0, 0, 1.0, 1, 0},
                           .after_step = after_step,
                           .after_step_user = &g};
    SYN_TRY(syn_model_new(&model, ctx, &config, &how, err));
    const syn_status s = syn_generate(model, &work, err);
    syn_model_free(model);
    return s;
}

/* ---- Training ---- */

static syn_plan plan_of(const measured_row *row) {
    return (syn_plan){
        .tp = (int32_t)row->tp, .dp = (int32_t)row->dp, .pp = (int32_t)row->pp, .sp = row->sp};
}

struct training {
    const measured_row *row;
    syn_model *model;
};

static syn_tensor stage_of(void *arg, int chunk, int pass, syn_tensor x) {
    (void)chunk;
    const struct training *t = arg;
    syn_ctx *ctx = syn_model_ctx(t->model);
    const syn_spec ids = {SYN_I32, 2, {t->row->batch, t->row->tokens}}, one = {SYN_F32, 0, {0}},
                   keys = {SYN_I32, 1, {t->row->batch}};
    const syn_model_dropout how = {.embedding = 0.1,
                                   .attention = 0.1,
                                   .residual = 0.1,
                                   .seed = (uint64_t)pass + 1,
                                   .keys = syn_input(ctx, "texts", &keys, NULL)};
    syn_model_set_dropout(t->model, &how);
    const syn_pretraining_batch batch = {.tokens = syn_input(ctx, "tokens", &ids, NULL),
                                         .targets = syn_input(ctx, "targets", &ids, NULL),
                                         .weight = syn_input(ctx, "weight", &one, NULL)};
    return syn_pretraining_stage(t->model, x, &batch);
}

static syn_tensor loss_of(void *arg, int pass) {
    return stage_of(arg, 0, pass, (syn_tensor){0});
}

/* Adds the ops of `rounds` more rounds to `row`. `fewer` is the same step with one round less, so
   the difference between the two rows is the ops of one round. */
static void add_rounds(measured_row *row, const measured_row *fewer, uint64_t rounds) {
    for (size_t i = 0; i < row->n_ops; i++) {
        const tally_row *other = find_op(fewer, &row->ops[i]);
        row->ops[i].count += rounds * (row->ops[i].count - (other != NULL ? other->count : 0));
    }
}

static syn_model_options model_options(const measured_row *row, const syn_mesh *mesh) {
    const syn_model_config config = config_of(row);
    return (syn_model_options){.tp = mesh->group[SYN_AXIS_TP],
                               .heads = syn_pretraining_heads(&config),
                               .fused_attention = true,
                               .sp = row->sp,
                               .recompute = SYN_RECOMPUTE_FULL,
                               .dtype = SYN_BF16};
}

static syn_trainer_options trainer_options(const syn_mesh *mesh, const syn_hardware *hw) {
    return (syn_trainer_options){.optimizer = {.weight_decay = 0.01,
                                               .max_grad_norm = 1,
                                               .tp = mesh->group[SYN_AXIS_TP],
                                               .norm = mesh->model},
                                 .dp = mesh->group[SYN_AXIS_DP],
                                 .late_sums = hw->stack.blocking != 0};
}

/* The stages of a row's run, at least one. The ranks `first`, `first` + `step`, ... are one rank of
 * each stage. */
typedef struct stages {
    syn_plan plan;
    int32_t first, step;
    const syn_hardware *hw;
    syn_ctx **ctx; /* per stage */
} stages;

/* Records a step of `microbatches` microbatches on this rank's stage. */
static syn_status train_stage(const measured_row *row, const stages *p, const syn_mesh *mesh,
                              int64_t microbatches, syn_ctx *ctx, syn_error *err) {
    const syn_schedule_shape shape = {p->plan.schedule, p->plan.pp, 1, (int32_t)microbatches, 0};
    const syn_model_config config = config_of(row);
    const int64_t tokens = row->tokens / (row->sp ? row->tp : 1);
    const syn_pipeline_options pipeline = {
        .shape = shape,
        .pp = mesh->group[SYN_AXIS_PP],
        .activation = {SYN_BF16, 3, {row->batch, tokens, row->hidden}}};
    syn_model_part part;
    char shared[64];
    struct training t = {row, NULL};
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_pipeline_part(&part, &config, &shape, NULL, mesh->index[SYN_AXIS_PP], 0, err));
    syn_model_options how = model_options(row, mesh);
    how.part = &part;
    syn_trainer_options training = trainer_options(mesh, p->hw);
    training.microbatches = (int)microbatches;
    training.pipeline = pipeline.pp ? &pipeline : NULL;
    training.embedding = mesh->embedding;
    if (mesh->embedding) training.tied = syn_model_tied_parameter(&config, shared, sizeof shared);
    SYN_TRY(syn_model_new(&t.model, ctx, &config, &how, err));
    syn_status s = syn_trainer_new(&trainer, ctx, &training, err);
    if (s == SYN_OK && pipeline.pp)
        s = syn_trainer_step_stage(trainer, stage_of, &t, 1e-4, NULL, err);
    else if (s == SYN_OK) s = syn_trainer_step(trainer, loss_of, &t, 1e-4, NULL, err);
    syn_trainer_free(trainer);
    syn_model_free(t.model);
    return s;
}

/* Records a step on one stage, in a new context that the caller frees. */
static syn_status record_stage(const measured_row *row, const stages *p, int32_t stage,
                               int64_t microbatches, syn_error *err) {
    syn_comm *comm;
    syn_mesh mesh;
    SYN_TRY(syn_comm_fake_new(&comm, p->first + stage * p->step, p->plan.ranks, err));
    syn_status s = syn_mesh_open(&mesh, comm, &p->plan, err);
    if (s == SYN_OK) s = syn_ctx_new(&p->ctx[stage], SYN_DEVICE_META, comm, err);
    if (s == SYN_OK) {
        syn_ctx_set_overlap(p->ctx[stage], true);
        syn_ctx_set_hashing(p->ctx[stage], false);
        s = train_stage(row, p, &mesh, microbatches, p->ctx[stage], err);
    }
    syn_comm_close(comm);
    return s;
}

/* Sets *ns to the predicted duration of the step that the stages have recorded. */
static syn_status replay_stages(const stages *p, double *ns, syn_error *err) {
    const uint32_t n = (uint32_t)p->plan.pp;
    syn_graph *graph = NULL;
    const syn_trace **traces = syn_calloc(n, sizeof *traces);
    if (!traces) return SYN_FAIL_NOMEM(err, n * sizeof *traces, "traces");
    for (uint32_t i = 0; i < n; i++) traces[i] = syn_ctx_trace(p->ctx[i]);
    syn_status s = syn_trace_graph(&graph, traces, n, p->hw, err);
    if (s == SYN_OK) s = syn_predicted_duration(ns, graph, err);
    syn_graph_free(graph);
    syn_free(traces);
    return s;
}

/* Records a step on all stages, adds their ops to *row, and sets *ns to the predicted duration. */
static syn_status record_stages(measured_row *row, stages *p, int64_t microbatches, double *ns,
                                syn_error *err) {
    uint64_t last = 0;
    syn_status s = SYN_OK;
    p->ctx = syn_calloc((size_t)p->plan.pp, sizeof *p->ctx);
    if (!p->ctx) return SYN_FAIL_NOMEM(err, (size_t)p->plan.pp * sizeof *p->ctx, "contexts");
    for (int32_t i = 0; i < p->plan.pp && s == SYN_OK; i++) {
        s = record_stage(row, p, i, microbatches, err);
        if (s == SYN_OK) s = count_trace(row, p->ctx[i], 0, &last, err);
    }
    if (s == SYN_OK) s = replay_stages(p, ns, err);
    for (int32_t i = 0; i < p->plan.pp; i++) syn_ctx_free(p->ctx[i]);
    syn_free(p->ctx);
    return s;
}

/* Records a training step; pipelines run 1F1B. A full pipeline takes the same time for every round
   of `pp` further microbatches. So at most three rounds and the remaining microbatches are
   recorded, and the other rounds are added by calculation. */
static syn_status train(measured_row *row, const syn_hardware *hw, syn_error *err) {
    stages p = {.plan = plan_of(row), .hw = hw};
    measured_row fewer = *row;
    int32_t stride[SYN_AXES];
    double ns = 0, fewer_ns = 0;
    SYN_TRY(syn_plan_complete(&p.plan, err));
    syn_plan_strides(&p.plan, stride);
    p.step = stride[SYN_AXIS_PP];
    p.first = syn_plan_slowest_rank(&p.plan, hw->node_ranks) % p.step;
    const int64_t rounds = row->passes / row->pp, more = rounds > 3 ? rounds - 3 : 0;
    const int64_t recorded = row->passes - more * row->pp;
    syn_status s = SYN_OK;
    if (more > 0) s = record_stages(&fewer, &p, recorded - row->pp, &fewer_ns, err);
    if (s == SYN_OK) s = record_stages(row, &p, recorded, &ns, err);
    if (s == SYN_OK) {
        add_rounds(row, &fewer, (uint64_t)more);
        ns += (double)more * (ns - fewer_ns);
        row->overlap_factor = ns / measured_predict_ns(row, hw);
    }
    syn_free(fewer.ops);
    return s;
}

/* ---- All kinds of rows ---- */

static syn_status count_collective(measured_row *row, syn_error *err) {
    const bool shard = row->comm == SYN_COMM_ALL_GATHER;
    SYN_TRY(syn_grow(&row->ops, &row->cap_ops, 1, sizeof *row->ops, err));
    row->ops[row->n_ops++] =
        (tally_row){.node = {.kind = SYN_NODE_COLLECTIVE,
                             .category = SYN_CATEGORY_COMMUNICATION,
                             .op = syn_comm_kind_name(row->comm),
                             .comm = row->comm,
                             .group = 1,
                             .comm_bytes = row->bytes / (shard ? (uint64_t)row->tp : 1)},
                    .group_ranks = (uint32_t)row->tp,
                    .group_stride = 1,
                    .count = 1};
    return SYN_OK;
}

static syn_status generate_on(measured_row *row, syn_comm *comm, syn_error *err) {
    const syn_plan plan = plan_of(row);
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &plan, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_ctx_set_hashing(ctx, false);
    const syn_status s = generate(row, ctx, &mesh, err);
    syn_ctx_free(ctx);
    return s;
}

/* Records a run of inference on rank 0. */
static syn_status infer(measured_row *row, syn_error *err) {
    syn_comm *comm;
    SYN_TRY(syn_comm_fake_new(&comm, 0, (int32_t)(row->tp * row->dp), err));
    const syn_status s = generate_on(row, comm, err);
    syn_comm_close(comm);
    return s;
}

syn_status measured_record(measured_row *row, const syn_hardware *hw, syn_error *err) {
    row->overlap_factor = 1;
    if (row->kind == MEASURED_COLLECTIVE) return count_collective(row, err);
    syn_error why = {0};
    const syn_status s = row->kind == MEASURED_TRAINING ? train(row, hw, &why) : infer(row, &why);
    if (s == SYN_OK) return SYN_OK;
    return SYN_FAIL(err, s, "%s:%lld: %s", row->path, (long long)row->line, why.text);
}
