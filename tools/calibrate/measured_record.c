/* Records the runs of measured rows on meta. Only rank 0 is recorded, because all ranks run the
   same ops in these runs. */
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

struct training {
    const measured_row *row;
    syn_model *model;
};

static syn_tensor loss_of(void *arg, int pass) {
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
    return syn_pretraining_loss(t->model, &batch);
}

/* Records a step of `passes` microbatches, counts its ops in *row, and sets *ns to the predicted
   duration of the step, in which ops overlap. */
static syn_status record_step(measured_row *row, syn_trainer *trainer, struct training *t,
                              int passes, const syn_hardware *hw, double *ns, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(t->model);
    const syn_trace *trace = syn_ctx_trace(ctx);
    uint64_t last = 0;
    syn_graph *graph;
    SYN_TRY(syn_trainer_set_microbatches(trainer, passes, err));
    SYN_TRY(syn_trainer_step(trainer, loss_of, t, 1e-4, NULL, err));
    SYN_TRY(count_trace(row, ctx, 0, &last, err));
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, hw, err));
    const syn_status s = syn_predicted_duration(ns, graph, err);
    syn_graph_free(graph);
    return s;
}

/* Adds the ops of `passes` more microbatches to `row`. `fewer` is the same step with one microbatch
   less, so the difference between the two rows is the ops of one microbatch. */
static void add_passes(measured_row *row, const measured_row *fewer, uint64_t passes) {
    for (size_t i = 0; i < row->n_ops; i++) {
        const tally_row *other = find_op(fewer, &row->ops[i]);
        row->ops[i].count += passes * (row->ops[i].count - (other != NULL ? other->count : 0));
    }
}

/* Records a training step. All microbatches between the first and the last have the same ops. So at
   most 3 microbatches are recorded, and the others are added by calculation. */
static syn_status record_steps(measured_row *row, syn_trainer *trainer, struct training *t,
                               const syn_hardware *hw, syn_error *err) {
    enum { RECORDED = 3 };
    measured_row fewer = {0};
    double ns, fewer_ns = 0;
    syn_status s = SYN_OK;
    const int64_t more = row->passes > RECORDED ? row->passes - RECORDED : 0;
    if (more > 0) s = record_step(&fewer, trainer, t, RECORDED - 1, hw, &fewer_ns, err);
    if (s == SYN_OK) s = record_step(row, trainer, t, (int)(row->passes - more), hw, &ns, err);
    if (s == SYN_OK) {
        add_passes(row, &fewer, (uint64_t)more);
        ns += (double)more * (ns - fewer_ns);
        row->overlap_factor = ns / measured_predict_ns(row, hw);
    }
    syn_free(fewer.ops);
    return s;
}

static syn_status train(measured_row *row, syn_ctx *ctx, const syn_mesh *mesh,
                        const syn_hardware *hw, syn_error *err) {
    const syn_model_config config = config_of(row);
    const syn_group *tp = mesh->group[SYN_AXIS_TP];
    const syn_model_options how = {.tp = tp,
                                   .heads = syn_pretraining_heads(&config),
                                   .fused_attention = true,
                                   .recompute = SYN_RECOMPUTE_FULL,
                                   .dtype = SYN_BF16};
    const syn_trainer_options training = {
        .optimizer = {.weight_decay = 0.01, .max_grad_norm = 1, .tp = tp},
        .dp = mesh->group[SYN_AXIS_DP]};
    struct training t = {row, NULL};
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_model_new(&t.model, ctx, &config, &how, err));
    syn_status s = syn_trainer_new(&trainer, ctx, &training, err);
    if (s == SYN_OK) s = record_steps(row, trainer, &t, hw, err);
    syn_trainer_free(trainer);
    syn_model_free(t.model);
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

static syn_status record(measured_row *row, syn_comm *comm, const syn_hardware *hw,
                         syn_error *err) {
    const syn_plan shape = {.tp = (int32_t)row->tp, .dp = (int32_t)row->dp};
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &shape, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_ctx_set_hashing(ctx, false);
    const syn_status s = row->kind == MEASURED_TRAINING ? train(row, ctx, &mesh, hw, err)
                                                        : generate(row, ctx, &mesh, err);
    syn_ctx_free(ctx);
    return s;
}

syn_status measured_record(measured_row *row, const syn_hardware *hw, syn_error *err) {
    syn_comm *comm;
    row->overlap_factor = 1;
    if (row->kind == MEASURED_COLLECTIVE) return count_collective(row, err);
    syn_error why = {0};
    SYN_TRY(syn_comm_fake_new(&comm, 0, (int32_t)(row->tp * row->dp), err));
    const syn_status s = record(row, comm, hw, &why);
    syn_comm_close(comm);
    if (s == SYN_OK) return SYN_OK;
    return SYN_FAIL(err, s, "%s:%lld: %s", row->path, (long long)row->line, why.text);
}
