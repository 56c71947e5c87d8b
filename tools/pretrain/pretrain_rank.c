/* Creates one rank of the pretraining program (pretrain_rank.h): layers, trainer and weights. */
#include "tools/pretrain/pretrain_rank.h"

#include <math.h>

#include "models/training/pretraining.h"
#include "syntorch/base/memory.h"

/* Makes the weights of --weights the values of parameters. *reader: NULL without --weights. */
static syn_status begin_reading(pretrain_worker *r, syn_weights_reader **reader, syn_error *err) {
    *reader = NULL;
    if (!r->run->weights) return SYN_OK;
    SYN_TRY(syn_weights_reader_new(reader, r->run->weights, err));
    const syn_param_source source = syn_weights_source(*reader);
    syn_ctx_set_param_source(r->ctx, &source);
    return SYN_OK;
}

static void end_reading(pretrain_worker *r, syn_weights_reader *reader) {
    syn_ctx_set_param_source(r->ctx, NULL);
    syn_weights_reader_free(reader);
}

/* Creates a model or a part of it, with random weights or those of --weights. */
static syn_status make_model(pretrain_worker *r, syn_model **model, const syn_model_options *how,
                             syn_error *err) {
    syn_weights_reader *reader;
    SYN_TRY(begin_reading(r, &reader, err));
    syn_status s = syn_model_new(model, r->ctx, &r->run->config, how, err);
    if (s == SYN_OK && reader) s = syn_weights_finish(reader, *model, NULL, err);
    end_reading(r, reader);
    return s;
}

/* Creates the chunks of layers that this rank has. */
static syn_status make_chunks(pretrain_worker *r, const syn_schedule_shape *shape,
                              syn_model_options *how, syn_error *err) {
    r->chunks = syn_calloc((size_t)shape->chunks, sizeof *r->chunks);
    r->chunk_params = syn_calloc((size_t)shape->chunks, sizeof *r->chunk_params);
    if (!r->chunks || !r->chunk_params)
        return SYN_FAIL_NOMEM(err, (size_t)shape->chunks * sizeof *r->chunks, "stages");
    for (int32_t c = 0; c < shape->chunks; c++) {
        const int32_t stage = r->mesh.index[SYN_AXIS_PP];
        how->part = &r->run->parts[syn_schedule_virtual_stage(shape, stage, c)];
        SYN_TRY(make_model(r, &r->chunks[c], how, err));
        r->chunk_params[c] = syn_ctx_param_count(r->ctx);
    }
    return SYN_OK;
}

static syn_status set_master(pretrain_worker *r, const syn_param_source *source, size_t param,
                             syn_error *err) {
    const syn_param_info p = syn_ctx_param(r->ctx, param);
    syn_spec full = p.full, local = *syn_tensor_spec(r->ctx, p.tensor);
    full.dtype = local.dtype = SYN_F32;
    const size_t elems = (size_t)syn_spec_elems(&local);
    int64_t first, n;
    float *data = syn_malloc(elems * sizeof *data + 1);
    if (!data) return SYN_FAIL_NOMEM(err, elems * sizeof *data, "a parameter's master weights");
    syn_status s =
        source->read(source->user, p.name, &full, p.shard, p.valid_rows, &local, data, err);
    syn_optimizer_range(r->state.optimizer, param, &first, &n);
    if (s == SYN_OK)
        s = syn_optimizer_set(r->state.optimizer, param, SYN_OPTIMIZER_MASTER, data + first,
                              (size_t)n, err);
    syn_free(data);
    return s;
}

/* Sets the f32 master weights of 16-bit parameters from the checkpoint, so that they are not
   rounded. */
static syn_status set_masters(pretrain_worker *r, syn_error *err) {
    syn_weights_reader *reader;
    if (!r->run->weights || r->run->dtype == SYN_F32) return SYN_OK;
    SYN_TRY(syn_weights_reader_new(&reader, r->run->weights, err));
    const syn_param_source source = syn_weights_source(reader);
    syn_status s = SYN_OK;
    for (size_t i = 0; s == SYN_OK && i < syn_ctx_param_count(r->ctx); i++)
        s = set_master(r, &source, i, err);
    syn_weights_reader_free(reader);
    return s == SYN_OK ? syn_optimizer_gather(r->state.optimizer, err) : s;
}

/* ZeRO 3: numbers the units of all chunks. Sets their number and the unit of the head in *how. */
static syn_status number_units(pretrain_worker *r, int32_t chunks, syn_trainer_options *how,
                               syn_error *err) {
    const size_t n = syn_ctx_param_count(r->ctx);
    if (how->zero < 3) return SYN_OK;
    if (!(r->units = syn_calloc(n + 1, sizeof *r->units)))
        return SYN_FAIL_NOMEM(err, n * sizeof *r->units, "units");
    how->units = r->units;
    how->head_unit = UINT32_MAX;
    for (int32_t c = 0; c < chunks; c++) {
        uint32_t head;
        how->n_units = syn_model_units(r->chunks[c], how->n_units, r->units, &head);
        if (head != UINT32_MAX) how->head_unit = head;
    }
    return SYN_OK;
}

/* Whether experts are divided in another way than the other layers. */
static bool has_experts(const pretrain *run) {
    return syn_model_has_experts(&run->config) && syn_plan_experts_apart(&run->launch.parallel);
}

/* A syn_trainer_options.updated. */
static void update_router_biases(void *user) {
    const pretrain_worker *r = user;
    const syn_group *stage =
        has_experts(r->run) ? r->mesh.stage : r->mesh.group[SYN_AXIS_DP]; /* with other tokens */
    syn_model_update_router_biases(r->chunks, syn_plan_chunks(&r->run->launch.parallel),
                                   r->run->args->bias_rate, stage);
}

/* The losses of routers are means over the microbatches of all data-parallel ranks. */
static syn_router_options router_options(pretrain_worker *r) {
    const pretrain *run = r->run;
    const double passes = (double)run->args->accumulation * pretrain_dp_size(r);
    const double aux = pretrain_aux_coefficient(run), z = run->args->z_coefficient;
    const syn_spec one = {SYN_F32, 1, {1}};
    if (!syn_model_has_experts(&run->config)) return (syn_router_options){.aux = 0};
    if (aux > 0 || z > 0) r->router_losses = syn_state(r->ctx, "router_losses", &one);
    return (syn_router_options){.aux = aux / passes,
                                .z = z / passes,
                                .tokens = has_experts(run) ? r->mesh.tp_cp : r->mesh.cp,
                                .losses = r->router_losses,
                                .count = run->args->bias_rate > 0,
                                .capacity = run->args->capacity,
                                .dispatcher = (syn_dispatcher)run->args->dispatcher,
                                .dispatch_fp8 = run->args->dispatch_fp8,
                                .load = &run->load,
                                .heaviest = r->heaviest};
}

static syn_status make_trainer(pretrain_worker *r, const syn_schedule_shape *shape,
                               syn_error *err) {
    static const char *const spared[] = {"bias", "LayerNorm.weight", NULL};
    const pretrain *run = r->run;
    const pretrain_args *args = run->args;
    const syn_plan *plan = &run->launch.parallel;
    const int64_t tokens = args->max_seq_length / plan->cp / (plan->sp ? plan->tp : 1);
    const syn_pipeline_options pipeline = {
        .shape = *shape,
        .pp = r->mesh.group[SYN_AXIS_PP],
        .activation = {(int32_t)run->dtype, 3, {args->batch_size, tokens, run->config.n_embd}}};
    syn_trainer_options how = {
        .optimizer = {.weight_decay = args->weight_decay,
                      .no_decay = args->reference ? spared : NULL,
                      .max_grad_norm = args->max_grad_norm,
                      .tp = r->mesh.group[SYN_AXIS_TP],
                      .norm = run->launch.parallel.zero > 0 ? r->mesh.world : r->mesh.model,
                      .expert_norm = has_experts(run) && run->launch.parallel.zero == 0
                                         ? r->mesh.expert_model
                                         : NULL},
        .edp = has_experts(run) ? r->mesh.edp : NULL,
        .dp = r->mesh.group[SYN_AXIS_DP],
        .zero = run->launch.parallel.zero,
        .buckets = pretrain_buckets(run),
        .reduce_dtype = args->reduce_dtype ? SYN_BF16 : SYN_F32,
        .chunks = r->chunk_params,
        .n_chunks = shape->chunks,
        .shard = r->mesh.shard,
        .replicas = r->mesh.replicas,
        .gather = r->mesh.gather,
        .no_reshard = args->no_reshard,
        .late_sums = !syn_ctx_has_data(r->ctx) && run->launch.hw && run->launch.hw->stack.blocking,
        .microbatches = (int)r->microbatches,
        .pipeline = pipeline.pp ? &pipeline : NULL,
        .tied = r->mesh.embedding ? pretrain_tied(run, r->shared, sizeof r->shared) : NULL,
        .embedding = r->mesh.embedding,
        .losses = r->router_losses,
        .updated = args->bias_rate > 0 ? update_router_biases : NULL,
        .updated_user = r,
        .ahead = true};
    syn_weights_reader *reader;
    SYN_TRY(number_units(r, shape->chunks, &how, err));
    SYN_TRY(begin_reading(r, &reader, err)); /* with ZeRO 3, the trainer reads the weights */
    const syn_status s = syn_trainer_new(&r->trainer, r->ctx, &how, err);
    end_reading(r, reader);
    return s;
}

syn_status pretrain_make_rank(pretrain_worker *r, syn_error *err) {
    pretrain *run = r->run;
    const pretrain_args *args = run->args;
    const size_t elems = (size_t)(args->batch_size * args->max_seq_length);
    const syn_schedule_shape shape = pretrain_schedule(run, r->microbatches);
    syn_model_options model = {.tp = r->mesh.group[SYN_AXIS_TP],
                               .kv = r->mesh.kv,
                               .ep = r->mesh.ep,
                               .etp =
                                   r->mesh.ep && run->launch.parallel.etp > 1 ? r->mesh.etp : NULL,
                               .experts_of_all = r->mesh.experts,
                               .cp = r->mesh.cp,
                               .cp_a2a = r->mesh.cp_a2a,
                               .cp_p2p = r->mesh.cp_p2p,
                               .cp_gathers = run->launch.parallel.cp_comm == SYN_CP_ALL_GATHER,
                               .whole_experts = has_experts(run),
                               .router = router_options(r),
                               .heads = syn_pretraining_heads(&run->config),
                               .fused_attention = true,
                               .sp = run->launch.parallel.sp,
                               .sp_keep = args->sp_keep,
                               .recompute = (syn_recompute_mode)args->recompute,
                               .unfused_loss = args->loss == 1,
                               .dtype = run->dtype,
                               .vocab_multiple = args->vocab_multiple,
                               .seed = (uint64_t)args->seed};
    r->sampler = (syn_sampler){.n = run->n_texts,
                               .batch = args->batch_size,
                               .ranks = pretrain_dp_size(r),
                               .seed = (uint64_t)args->seed,
                               .shuffle = true};
    r->eval_sampler = r->sampler;
    r->eval_sampler.shuffle = false;
    r->eval_sampler.whole = true;
    r->eval_sampler.n = run->eval_texts ? syn_texts_count(run->eval_texts) : 0;
    r->which = syn_malloc((size_t)args->batch_size * sizeof *r->which);
    r->batch.ids = syn_malloc(elems * sizeof(int32_t));
    r->batch.labels = syn_malloc(elems * sizeof(int32_t));
    r->batch.types = syn_malloc(elems * sizeof(int32_t));
    r->batch.mask = syn_malloc(elems * sizeof(float));
    if (!r->which || !r->batch.ids || !r->batch.labels || !r->batch.types || !r->batch.mask)
        return SYN_FAIL_NOMEM(err, elems * 16, "a batch");
    if (run->launch.parallel.zero == 3) syn_ctx_evict_params(r->ctx);
    if (r->mesh.cp_p2p && !model.cp_gathers) SYN_TRY(syn_ctx_connect(r->ctx, r->mesh.cp_p2p, err));
    SYN_TRY(make_chunks(r, &shape, &model, err));
    SYN_TRY(make_trainer(r, &shape, err));
    r->state = (pretrain_state){.ctx = r->ctx,
                                .comm = r->comm,
                                .optimizer = syn_trainer_optimizer(r->trainer),
                                .files = pretrain_own_files(run, r->comm->rank),
                                .best = INFINITY};
    if (!syn_ctx_has_data(r->ctx)) return SYN_OK;
    SYN_TRY(set_masters(r, err));
    if (args->resume) SYN_TRY(pretrain_resume(run, &r->state, err));
    r->validated = isfinite(r->state.best);
    return r->comm->rank == 0 ? pretrain_log_open(run, r->state.step, err) : SYN_OK;
}

void pretrain_free_rank(pretrain_worker *r) {
    syn_trainer_free(r->trainer);
    for (int32_t c = 0; r->chunks && c < syn_plan_chunks(&r->run->launch.parallel); c++)
        syn_model_free(r->chunks[c]);
    syn_free(r->chunks);
    syn_free(r->chunk_params);
    syn_free(r->units);
    syn_free(r->which);
    syn_free(r->batch.ids);
    syn_free(r->batch.labels);
    syn_free(r->batch.types);
    syn_free(r->batch.mask);
}
