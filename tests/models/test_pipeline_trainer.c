/* Tests training steps in a pipeline with data parallelism. Losses, gradient norms and parameters
   must be those of a single rank, with clipping, with sequence parallelism, and with a table that
   the first and the last stage share. */
#include "comm/comm.h"
#include "models/causal.h"
#include "models/training/trainer.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/device.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { STEPS = 4, BATCH = 2, TOKENS = 6, LAYERS = 4, MAX_RANKS = 8, MAX_CHUNKS = 2, ALL = 4 };

typedef struct job {
    const char *preset;       /* a small model of the family of this preset; NULL: small_gpt */
    syn_schedule_shape shape; /* 1 stage: without a pipeline */
    syn_layer_division division;
    int dp, tp;
    bool sp, sp_keep; /* sequence parallelism */
    syn_recompute_mode recompute;
    int zero, hsdp;
    bool no_reshard;
    syn_bucket_rule buckets;
    syn_dtype reduce_dtype;
    bool tied;
    const char *shared; /* name of the shared table; NULL: the model's own */
    bool as_one;        /* call syn_trainer_step although there is a pipeline */
    syn_device device;
    int infinite_microbatch; /* in the second step, the loss weight of this microbatch is infinity;
                                -1: none */
    double loss[MAX_RANKS][STEPS], norm[MAX_RANKS][STEPS];
    uint64_t hash[MAX_RANKS], peak[MAX_RANKS]; /* of the trace; bytes */
    /* An element of the shared table after the last step; 0 on ranks that do not have it. */
    float table[MAX_RANKS];
} job;

typedef struct rank {
    job *job;
    syn_ctx *ctx;
    syn_mesh mesh;
    syn_model *chunks[MAX_CHUNKS];
    size_t params[MAX_CHUNKS];          /* number of parameters of each chunk and those before it */
    uint32_t units[100], n_units, head; /* for ZeRO 3 */
    int step;
} rank;

/* The forward pass of one microbatch. The step has ALL microbatches of BATCH sequences, numbered
   over passes and data-parallel ranks. */
static syn_tensor forward(void *arg, int chunk, int pass, syn_tensor x) {
    rank *r = arg;
    const int dp = r->mesh.size[SYN_AXIS_DP], at = pass * dp + r->mesh.index[SYN_AXIS_DP];
    const syn_spec ids = {SYN_I32, 2, {BATCH, TOKENS}}, scalar = {SYN_F32, 0, {0}};
    const float weight = at == r->job->infinite_microbatch && r->step == 1
                             ? INFINITY
                             : 1.0f / (BATCH * TOKENS * ALL);
    int32_t text[2][BATCH * TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++)
        for (int k = 0; k < 2; k++) text[k][i] = (i * 7 + (at + k) * 13) % 37;
    const syn_tensor tokens = syn_input(r->ctx, "tokens", &ids, text[0]);
    return syn_causal_stage(r->chunks[chunk], x.id ? x : tokens, SYN_NO_MASK,
                            syn_input(r->ctx, "targets", &ids, text[1]),
                            syn_input(r->ctx, "weight", &scalar, &weight));
}

static syn_tensor whole_pass(void *arg, int pass) {
    return forward(arg, 0, pass, (syn_tensor){0});
}

static syn_status open_chunks(rank *r, const syn_model_config *config, syn_error *err) {
    const syn_schedule_shape *shape = &r->job->shape;
    for (int c = 0; c < shape->chunks; c++) {
        syn_model_part part;
        SYN_TRY(syn_pipeline_part(&part, config, shape, &r->job->division,
                                  r->mesh.index[SYN_AXIS_PP], c, err));
        const syn_model_options how = {.part = &part,
                                       .seed = 5,
                                       .tp = r->mesh.group[SYN_AXIS_TP],
                                       .sp = r->job->sp,
                                       .sp_keep = r->job->sp_keep,
                                       .recompute = r->job->recompute,
                                       .fused_attention = true};
        SYN_TRY(syn_model_new(&r->chunks[c], r->ctx, config, &how, err));
        r->params[c] = syn_ctx_param_count(r->ctx);
        uint32_t head;
        r->n_units = syn_model_units(r->chunks[c], r->n_units, r->units, &head);
        if (head != UINT32_MAX) r->head = head;
    }
    return SYN_OK;
}

/* With ZeRO, reads the element from this rank's part of the table, if the part has it. */
static syn_status read_table(const rank *r, const syn_optimizer *optimizer, syn_error *err) {
    enum { ELEMENT = 3 };
    for (size_t i = 0; i < syn_ctx_param_count(r->ctx); i++) {
        int64_t first, n;
        if (strcmp(syn_ctx_param(r->ctx, i).name, "wte.weight") != 0) continue;
        syn_optimizer_range(optimizer, i, &first, &n);
        if (first > ELEMENT || first + n <= ELEMENT) continue;
        float *part = syn_malloc((size_t)n * sizeof *part);
        if (!part) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *part, "a part of a table");
        const syn_status s =
            syn_optimizer_get(optimizer, i, SYN_OPTIMIZER_MASTER, part, (size_t)n, err);
        r->job->table[syn_ctx_rank(r->ctx)] = part[ELEMENT - first];
        syn_free(part);
        SYN_TRY(s);
    }
    return SYN_OK;
}

static syn_status train(rank *r, syn_trainer *trainer, syn_error *err) {
    job *j = r->job;
    const int me = syn_ctx_rank(r->ctx);
    for (r->step = 0; r->step < STEPS; r->step++) {
        double *loss = &j->loss[me][r->step];
        if (j->shape.stages > 1 && !j->as_one)
            SYN_TRY(syn_trainer_step_stage(trainer, forward, r, 0.01, loss, err));
        else SYN_TRY(syn_trainer_step(trainer, whole_pass, r, 0.01, loss, err));
        j->norm[me][r->step] = syn_trainer_last_result(trainer).grad_norm;
    }
    if (j->device == SYN_DEVICE_CPU) SYN_TRY(read_table(r, syn_trainer_optimizer(trainer), err));
    return syn_ctx_sync(r->ctx);
}

static syn_status small_config(syn_model_config *config, const job *j, syn_error *err) {
    *config = small_gpt;
    if (j->preset) {
        SYN_TRY(syn_model_config_preset(config, j->preset, err));
        config->n_embd = 32;
        config->n_head = 4;
        config->n_kv_head = config->n_kv_head > 0 ? 2 : 0;
        config->head_dim = 8;
        config->n_inner = 48;
        config->n_positions = 24;
        config->vocab_size = 131;
    }
    config->n_layer = LAYERS;
    config->tied = j->tied;
    return SYN_OK;
}

static syn_status run_rank(rank *r, syn_error *err) {
    const job *j = r->job;
    syn_model_config config;
    SYN_TRY(small_config(&config, j, err));
    SYN_TRY(open_chunks(r, &config, err));
    const syn_pipeline_options pipeline = {
        .shape = j->shape,
        .pp = r->mesh.group[SYN_AXIS_PP],
        .activation = {SYN_F32, 3, {BATCH, j->sp ? TOKENS / j->tp : TOKENS, config.n_embd}}};
    const bool piped = j->shape.stages > 1, shares = piped && j->tied && r->mesh.embedding;
    const syn_trainer_options options = {
        .optimizer = {.max_grad_norm = 0.1,
                      .weight_decay = 0.1,
                      .tp = r->mesh.group[SYN_AXIS_TP],
                      .norm = j->zero > 0 ? r->mesh.world : r->mesh.model},
        .dp = r->mesh.group[SYN_AXIS_DP],
        .zero = j->zero,
        .buckets = j->buckets,
        .reduce_dtype = j->reduce_dtype,
        .chunks = r->params,
        .n_chunks = j->shape.chunks,
        .shard = r->mesh.shard,
        .replicas = r->mesh.replicas,
        .gather = r->mesh.gather,
        .units = r->units,
        .n_units = r->n_units,
        .head_unit = r->head,
        .no_reshard = j->no_reshard,
        .microbatches = ALL / r->mesh.size[SYN_AXIS_DP],
        .pipeline = piped ? &pipeline : NULL,
        .tied = !shares     ? NULL
                : j->shared ? j->shared
                            : "wte.weight",
        .embedding = r->mesh.embedding};
    syn_trainer *trainer;
    SYN_TRY(syn_trainer_new(&trainer, r->ctx, &options, err));
    const syn_status s = train(r, trainer, err);
    syn_trainer_free(trainer);
    return s;
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    rank r = {.job = arg, .head = UINT32_MAX};
    const syn_plan plan = {.ranks = comm->size,
                           .tp = r.job->tp,
                           .dp = r.job->dp,
                           .pp = r.job->shape.stages,
                           .schedule = r.job->shape.schedule,
                           .zero = r.job->zero,
                           .hsdp = r.job->hsdp};
    SYN_TRY(syn_ctx_new(&r.ctx, r.job->device, comm, err));
    if (r.job->zero == 3) syn_ctx_evict_params(r.ctx);
    syn_status s = syn_mesh_open(&r.mesh, comm, &plan, err);
    if (s == SYN_OK) s = run_rank(&r, err);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(r.ctx), err);
    r.job->hash[comm->rank] = syn_trace_hash(syn_ctx_trace(r.ctx));
    r.job->peak[comm->rank] = syn_ctx_peak_bytes(r.ctx);
    for (int c = 0; c < MAX_CHUNKS; c++) syn_model_free(r.chunks[c]);
    syn_ctx_free(r.ctx);
    return s;
}

static const job jobs[] = {
    {.shape = {SYN_SCHEDULE_1F1B, 2, 1, 4, 0}, .dp = 1, .tp = 1},
    {.shape = {SYN_SCHEDULE_1F1B, 4, 1, 2, 0}, .dp = 2, .tp = 1},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0}, .dp = 2, .tp = 1},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0}, .dp = 2, .tp = 2},
    {.shape = {SYN_SCHEDULE_GPIPE, 2, 1, 1, 0}, .dp = 4, .tp = 1},
    {.shape = {SYN_SCHEDULE_ZB_H1, 4, 1, 4, 0}, .dp = 1, .tp = 2},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0}, .dp = 2, .tp = 1},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 4, 0}, .dp = 1, .tp = 2, .sp = true},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0}, .dp = 2, .tp = 2, .sp = true, .sp_keep = true},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0}, .dp = 2, .tp = 2, .sp = true},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0},
     .dp = 1,
     .tp = 2,
     .sp = true,
     .recompute = SYN_RECOMPUTE_FULL},
    {.shape = {SYN_SCHEDULE_1F1B, 2, 1, 4, 0},
     .dp = 1,
     .tp = 2,
     .sp = true,
     .recompute = SYN_RECOMPUTE_SELECTIVE},
    {.shape = {SYN_SCHEDULE_1F1B, 2, 1, 4, 0},
     .dp = 1,
     .tp = 2,
     .sp = true,
     .recompute = SYN_RECOMPUTE_OP},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0}, .dp = 2, .tp = 2, .recompute = SYN_RECOMPUTE_OP},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0},
     .dp = 2,
     .tp = 1,
     .zero = 3,
     .recompute = SYN_RECOMPUTE_OP},
    {.shape = {SYN_SCHEDULE_1F1B, 2, 1, 2, 0}, .division = {.layers = "1,3"}, .dp = 2, .tp = 2},
    {.shape = {SYN_SCHEDULE_1F1B, 3, 1, 4, 0},
     .division = {.count_embedding = true, .count_loss = true},
     .dp = 1,
     .tp = 1},
    {.shape = {SYN_SCHEDULE_ZB_H1, 4, 1, 2, 0},
     .division = {.layout = "E|t*4||L"},
     .dp = 2,
     .tp = 1},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0},
     .division = {.layout = "Et||(t)*3|L"},
     .dp = 1,
     .tp = 2,
     .sp = true,
     .recompute = SYN_RECOMPUTE_FULL},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0}, .dp = 2, .tp = 1, .zero = 1},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 1, 0},
     .dp = 4,
     .tp = 2,
     .zero = 1,
     .buckets = SYN_BUCKETS_MEGATRON},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0},
     .dp = 2,
     .tp = 1,
     .zero = 2,
     .buckets = SYN_BUCKETS_NONE},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0}, .dp = 2, .tp = 2, .sp = true, .zero = 2},
    {.shape = {SYN_SCHEDULE_1F1B, 2, 1, 2, 0}, .dp = 2, .tp = 1, .zero = 1},
    {.shape = {SYN_SCHEDULE_1F1B, 4, 1, 2, 0}, .dp = 2, .tp = 1, .zero = 2},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0}, .dp = 2, .tp = 2, .sp = true, .zero = 2},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0}, .dp = 2, .tp = 2, .zero = 2},
    {.shape = {SYN_SCHEDULE_GPIPE, 2, 1, 2, 0},
     .dp = 2,
     .tp = 1,
     .zero = 2,
     .buckets = SYN_BUCKETS_MEGATRON,
     .recompute = SYN_RECOMPUTE_FULL},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0}, .dp = 2, .tp = 1, .zero = 3},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 1, 0}, .dp = 4, .tp = 1, .zero = 3, .no_reshard = true},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0},
     .dp = 2,
     .tp = 2,
     .sp = true,
     .zero = 3,
     .recompute = SYN_RECOMPUTE_FULL},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0},
     .dp = 2,
     .tp = 2,
     .zero = 3,
     .recompute = SYN_RECOMPUTE_SELECTIVE},
    {.shape = {SYN_SCHEDULE_1F1B, 4, 1, 2, 0}, .dp = 2, .tp = 1, .zero = 3},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0}, .dp = 2, .tp = 2, .sp = true, .zero = 3},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0}, .dp = 2, .tp = 2, .zero = 3},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 1, 0}, .dp = 4, .tp = 2, .zero = 3, .hsdp = 2},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 2, 0}, .dp = 2, .tp = 1, .reduce_dtype = SYN_BF16},
    {.shape = {SYN_SCHEDULE_ZB_H1, 2, 1, 2, 0},
     .dp = 2,
     .tp = 2,
     .sp = true,
     .reduce_dtype = SYN_BF16},
    {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0},
     .dp = 2,
     .tp = 1,
     .zero = 2,
     .reduce_dtype = SYN_BF16},
    {.shape = {SYN_SCHEDULE_1F1B, 1, 1, 1, 0},
     .dp = 4,
     .tp = 1,
     .zero = 3,
     .hsdp = 2,
     .reduce_dtype = SYN_BF16},
    {.shape = {SYN_SCHEDULE_DUALPIPE, 2, 2, 4, 0}, .dp = 1, .tp = 1},
    {.shape = {SYN_SCHEDULE_DUALPIPE, 2, 2, 4, 0}, .dp = 1, .tp = 2, .sp = true, .zero = 1},
    {.shape = {SYN_SCHEDULE_DUALPIPE, 2, 2, 4, 0}, .dp = 1, .tp = 2, .zero = 2},
};

static void test_as_one_rank(void) {
    for (int tied = 0; tied < 2; tied++) {
        job alone = {.shape = {SYN_SCHEDULE_1F1B, 1, 1, ALL, 0},
                     .dp = 1,
                     .tp = 1,
                     .tied = tied,
                     .infinite_microbatch = -1,
                     .device = SYN_DEVICE_CPU};
        syn_error err = {0};
        CHECK_OK(syn_local_run(1, rank_main, &alone, &err), err);
        const size_t sample = ref_rounds(4) == 1 ? 6 : 1; /* the emulated device is slow */
        for (size_t i = 2 * (size_t)tied * (sample > 1); i < COUNT(jobs); i += sample) {
            job j = jobs[i];
            const int n = j.shape.stages * j.dp * j.tp;
            j.tied = tied;
            j.infinite_microbatch = -1;
            j.device = SYN_DEVICE_CPU;
            CHECK_OK(syn_local_run(n, rank_main, &j, &err), err);
            /* rounding a gradient to bf16 changes it by up to 4e-3 */
            const double most = j.reduce_dtype == SYN_BF16 ? 1e-2 : 1e-5;
            for (int r = 0; r < n; r++) {
                for (int s = 0; s < STEPS; s++) {
                    CHECK_NEAR(j.loss[r][s], alone.loss[0][s], most / 5 * alone.loss[0][s]);
                    CHECK_NEAR(j.norm[r][s], alone.norm[0][s], most * alone.norm[0][s]);
                }
                if (j.table[r] != 0 && r % j.tp == 0)
                    CHECK_NEAR(j.table[r], alone.table[0],
                               10 * most * fabs((double)alone.table[0]));
            }
            job meta = j;
            meta.device = SYN_DEVICE_META;
            CHECK_OK(run_without_transport(n, rank_main, &meta, &err), err);
            for (int r = 0; r < n; r++)
                CHECK_MSG(meta.hash[r] == j.hash[r] && meta.peak[r] == j.peak[r],
                          "job %zu, rank %d: %llu and %llu bytes", i, r,
                          (unsigned long long)meta.peak[r], (unsigned long long)j.peak[r]);
        }
    }
}

/* Stages with one device each send their messages over NCCL. */
static void test_messages_on_devices(void) {
    const bool counted = ref_cuda_calls("cudaMalloc") > 0 && ref_cuda_devices() >= MAX_RANKS;
    if (ref_on_cuda() && counted) CHECK(ref_cuda_calls("ncclSend") > 100);
}

/* Llama with grouped queries, Qwen with biases for q, k and v, and GPT-NeoX with parallel
   residuals. */
static void test_families(void) {
    static const char *const presets[] = {"llama-3-8b", "mistral-7b", "qwen2.5-7b", "pythia-70m"};
    for (size_t i = 0; i < COUNT(presets) && ref_rounds(4) > 1; i++)
        for (int k = 0; k < 2; k++) {
            job alone = {.preset = presets[i],
                         .shape = {SYN_SCHEDULE_1F1B, 1, 1, ALL, 0},
                         .dp = 1,
                         .tp = 1,
                         .infinite_microbatch = -1,
                         .device = SYN_DEVICE_CPU};
            job j = alone;
            syn_error err = {0};
            j.shape = k == 0 ? (syn_schedule_shape){SYN_SCHEDULE_1F1B, 4, 1, 4, 0}
                             : (syn_schedule_shape){SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0};
            j.tp = k == 0 ? 1 : 2;
            j.sp = k == 1;
            CHECK_OK(syn_local_run(1, rank_main, &alone, &err), err);
            CHECK_OK(syn_local_run(4, rank_main, &j, &err), err);
            for (int s = 0; s < STEPS; s++)
                CHECK_NEAR(j.loss[0][s], alone.loss[0][s], 2e-6 * alone.loss[0][s]);
        }
}

/* If a loss is NaN or infinite, all ranks of all stages fail with the same error message. */
static void test_not_finite(void) {
    job j = jobs[1];
    syn_error err = {0};
    j.device = SYN_DEVICE_CPU;
    j.infinite_microbatch = 2;
    CHECK_INT(syn_local_run(8, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "step 2: the loss is");
    CHECK_HAS(err.text, "weight");
    j = jobs[COUNT(jobs) - 3];
    err = (syn_error){0};
    j.infinite_microbatch = 2;
    CHECK_INT(syn_local_run(2, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "first on rank 0: tensor 'weight'");
}

static void test_refusals(void) {
    job j = jobs[0];
    syn_error err = {0};
    j.device = SYN_DEVICE_META;
    j.infinite_microbatch = -1;
    j.tied = true;
    j.shared = "no.weight";
    CHECK_INT(run_without_transport(2, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "there is no parameter 'no.weight'");
    err = (syn_error){0};
    j.shared = NULL;
    j.as_one = true;
    CHECK_INT(run_without_transport(2, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "a pipeline needs syn_trainer_step_stage");
}

static const test_case cases[] = {
    {"as one rank", test_as_one_rank}, {"messages on devices", test_messages_on_devices},
    {"families", test_families},       {"not finite", test_not_finite},
    {"refusals", test_refusals},
};
TEST_MAIN(cases)
