/* Tests training in a pipeline. For every schedule, the losses must be those of a single rank, bit
   for bit where sums have the same order. On meta, trace and peak memory must be the same. A
   simulator must be able to finish the traces. */
#include "comm/comm.h"
#include "export/export.h"
#include "export/validate.h"
#include "models/causal.h"
#include "models/training/optimizer.h"
#include "models/training/pipeline.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { STEPS = 3, BATCH = 2, TOKENS = 6, LAYERS = 8, MAX_RANKS = 4, MAX_CHUNKS = 4 };

typedef struct job {
    syn_model_config config;
    syn_schedule_shape shape;           /* 1 stage: the whole model, without a pipeline */
    const syn_layer_division *division; /* NULL: evenly */
    syn_device device;
    syn_dtype dtype;
    syn_recompute_mode recompute;
    int32_t max_tag; /* of messages; 0: the communicator's own */
    double loss[STEPS];
    uint64_t hash[MAX_RANKS];
    size_t peak[MAX_RANKS];
    syn_ctx **keep; /* the ranks' contexts are stored here; NULL: they are freed */
} job;

/* The state of one rank. */
typedef struct rank {
    job *job;
    syn_ctx *ctx;
    syn_model *chunks[MAX_CHUNKS];
    int step, stage;
    /* By chunk: the number of calls of count_backward, and the number of calls with `last` set.
       after_last: the most recent call did not have `last` set. */
    int backward[MAX_CHUNKS], last[MAX_CHUNKS];
    bool after_last[MAX_CHUNKS];
} rank;

static void inputs(const rank *r, int microbatch, syn_tensor *tokens, syn_tensor *targets,
                   syn_tensor *weight) {
    const syn_spec ids = {SYN_I32, 2, {BATCH, TOKENS}}, scalar = {SYN_F32, 0, {0}};
    const int words = (int)r->job->config.vocab_size;
    const float each = 1.0f / (float)(BATCH * TOKENS * r->job->shape.microbatches);
    int32_t text[2][BATCH * TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++)
        for (int k = 0; k < 2; k++)
            text[k][i] = (i * 7 + (microbatch + k) * 13 + r->step * 31) % words;
    *tokens = syn_input(r->ctx, "tokens", &ids, text[0]);
    *targets = syn_input(r->ctx, "targets", &ids, text[1]);
    *weight = syn_input(r->ctx, "weight", &scalar, &each);
}

/* Every stage creates its own inputs. Only activations are sent. */
static syn_tensor forward(void *arg, int chunk, int microbatch, syn_tensor x) {
    rank *r = arg;
    syn_tensor tokens, targets, weight;
    inputs(r, microbatch, &tokens, &targets, &weight);
    return syn_causal_stage(r->chunks[chunk], x.id ? x : tokens, SYN_NO_MASK, targets, weight);
}

static void count_backward(void *arg, int chunk, bool last, bool done) {
    if (done) return;
    rank *r = arg;
    r->backward[chunk]++;
    r->last[chunk] += last;
    r->after_last[chunk] = !last;
}

static syn_status open_chunks(rank *r, syn_error *err) {
    const syn_schedule_shape *shape = &r->job->shape;
    for (int c = 0; c < shape->chunks; c++) {
        syn_model_part part;
        SYN_TRY(
            syn_pipeline_part(&part, &r->job->config, shape, r->job->division, r->stage, c, err));
        const syn_model_options how = {.part = &part,
                                       .seed = 5,
                                       .dtype = r->job->dtype,
                                       .fused_attention = true,
                                       .recompute = r->job->recompute};
        SYN_TRY(syn_model_new(&r->chunks[c], r->ctx, &r->job->config, &how, err));
    }
    return SYN_OK;
}

static syn_tensor without_pipeline(rank *r) {
    syn_tensor sum = {0};
    for (int i = 0; i < r->job->shape.microbatches; i++) {
        const syn_mark mark = syn_ctx_mark(r->ctx);
        const syn_tensor loss = forward(r, 0, i, (syn_tensor){0});
        syn_backward(r->ctx, loss);
        const bool was = syn_set_grad(r->ctx, false);
        sum = sum.id ? syn_add(r->ctx, sum, loss) : loss;
        syn_set_grad(r->ctx, was);
        syn_release(r->ctx, mark, &sum, 1);
    }
    return sum;
}

/* In ZB-H1, a backward pass computes gradients of inputs, of weights, or of both. In all other
   schedules it computes both. */
static bool counts_fit(const rank *r, int chunk) {
    const int m = r->job->shape.microbatches, n = r->backward[chunk], last = r->last[chunk];
    const bool split = r->job->shape.schedule == SYN_SCHEDULE_ZB_H1 && n > m;
    return n >= m && n <= (split ? 2 : 1) * m && last >= 1 && last <= (split ? 2 : 1) &&
           !r->after_last[chunk];
}

static syn_status train(rank *r, syn_pipeline *pipeline, syn_optimizer *optimizer, syn_error *err) {
    job *j = r->job;
    for (r->step = 0; r->step < STEPS; r->step++) {
        const syn_mark mark = syn_ctx_mark(r->ctx);
        for (int c = 0; c < MAX_CHUNKS; c++) r->backward[c] = r->last[c] = 0;
        const syn_tensor sum = pipeline ? syn_pipeline_step(pipeline, forward, count_backward, r)
                                        : without_pipeline(r);
        SYN_TRY(syn_ctx_check(r->ctx, err));
        float loss = 0;
        const bool known = sum.id && syn_ctx_has_data(r->ctx);
        if (known) SYN_TRY(syn_tensor_read(r->ctx, sum, &loss, sizeof loss));
        if (known) j->loss[r->step] = (double)loss;
        SYN_TRY(syn_optimizer_step(optimizer, 0.01, err));
        for (int c = 0; c < j->shape.chunks && pipeline; c++)
            if (!counts_fit(r, c))
                return SYN_FAIL(err, SYN_E_INVALID,
                                "chunk %d: %d backward passes, %d of them the last", c,
                                r->backward[c], r->last[c]);
        syn_release(r->ctx, mark, NULL, 0);
        syn_next_step(r->ctx);
    }
    return syn_ctx_sync(r->ctx);
}

static syn_status run_rank(rank *r, syn_comm *comm, syn_error *err) {
    const job *j = r->job;
    const syn_plan plan = {.ranks = j->shape.stages, .pp = j->shape.stages};
    syn_mesh mesh = {0};
    syn_pipeline *pipeline = NULL;
    syn_optimizer *optimizer = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &plan, err));
    SYN_TRY(open_chunks(r, err));
    const syn_pipeline_options options = {
        .shape = j->shape,
        .pp = mesh.group[SYN_AXIS_PP],
        .activation = {(int32_t)j->dtype, 3, {BATCH, TOKENS, j->config.n_embd}}};
    if (j->shape.stages > 1) SYN_TRY(syn_pipeline_new(&pipeline, r->ctx, &options, err));
    syn_status s = syn_optimizer_new(&optimizer, r->ctx, &(syn_optimizer_options){0}, err);
    if (s == SYN_OK) s = train(r, pipeline, optimizer, err);
    syn_optimizer_free(optimizer);
    syn_pipeline_free(pipeline);
    return s;
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    rank r = {.job = arg, .stage = comm->rank};
    comm->max_tag = r.job->max_tag;
    SYN_TRY(syn_ctx_new(&r.ctx, r.job->device, comm, err));
    syn_status s = run_rank(&r, comm, err);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(r.ctx), err);
    r.job->hash[comm->rank] = syn_trace_hash(syn_ctx_trace(r.ctx));
    r.job->peak[comm->rank] = syn_ctx_peak_bytes(r.ctx);
    for (int c = 0; c < MAX_CHUNKS; c++) syn_model_free(r.chunks[c]);
    if (r.job->keep) r.job->keep[comm->rank] = r.ctx;
    else syn_ctx_free(r.ctx);
    return s;
}

static void config_of(job *j) {
    j->config = small_gpt;
    j->config.n_layer = LAYERS;
    j->config.tied = false;
}

static const syn_schedule_shape shapes[] = {
    {SYN_SCHEDULE_GPIPE, 2, 1, 3, 0},       {SYN_SCHEDULE_1F1B, 2, 1, 1, 0},
    {SYN_SCHEDULE_1F1B, 2, 1, 4, 0},        {SYN_SCHEDULE_1F1B, 4, 1, 3, 0},
    {SYN_SCHEDULE_1F1B, 4, 1, 6, 0},        {SYN_SCHEDULE_GPIPE, 4, 1, 5, 0},
    {SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0}, {SYN_SCHEDULE_INTERLEAVED, 2, 4, 2, 0},
    {SYN_SCHEDULE_INTERLEAVED, 2, 2, 5, 3}, {SYN_SCHEDULE_INTERLEAVED, 4, 2, 4, 0},
    {SYN_SCHEDULE_ZB_H1, 2, 1, 4, 0},       {SYN_SCHEDULE_ZB_H1, 4, 1, 2, 0},
    {SYN_SCHEDULE_ZB_H1, 4, 1, 7, 0},
};

static void check_job(const syn_schedule_shape *shape, const syn_layer_division *division,
                      syn_dtype dtype, syn_recompute_mode recompute) {
    job alone = {.shape = {SYN_SCHEDULE_1F1B, 1, 1, shape->microbatches, 0},
                 .device = SYN_DEVICE_CPU,
                 .dtype = dtype,
                 .recompute = recompute};
    job cpu = alone;
    syn_error err = {0};
    cpu.shape = *shape;
    cpu.division = division;
    config_of(&alone);
    config_of(&cpu);
    CHECK_OK(syn_local_run(1, rank_main, &alone, &err), err);
    CHECK_OK(syn_local_run(shape->stages, rank_main, &cpu, &err), err);
    /* ZB-H1 adds weight gradients in another order. */
    const double apart = shape->schedule == SYN_SCHEDULE_ZB_H1 ? 1e-6 : 0;
    for (int s = 0; s < STEPS; s++)
        CHECK_MSG(fabs(cpu.loss[s] - alone.loss[s]) <= apart * alone.loss[s],
                  "step %d: %.9g, not %.9g", s, cpu.loss[s], alone.loss[s]);
    CHECK(alone.loss[0] > 1 && alone.loss[0] != alone.loss[1]);
    job meta = cpu;
    meta.device = SYN_DEVICE_META;
    CHECK_OK(run_without_transport(shape->stages, rank_main, &meta, &err), err);
    for (int r = 0; r < shape->stages; r++) {
        CHECK_MSG(meta.hash[r] == cpu.hash[r], "rank %d", r);
        CHECK_INT(meta.peak[r], cpu.peak[r]);
    }
}

static void test_every_schedule(void) {
    for (size_t i = 0; i < COUNT(shapes); i++)
        check_job(&shapes[i], NULL, SYN_F32, SYN_RECOMPUTE_NONE);
}

static void test_bf16_and_recompute(void) {
    check_job(&shapes[2], NULL, SYN_BF16, SYN_RECOMPUTE_NONE);
    check_job(&shapes[4], NULL, SYN_F32, SYN_RECOMPUTE_FULL);
    check_job(&shapes[6], NULL, SYN_BF16, SYN_RECOMPUTE_SELECTIVE);
    check_job(&shapes[12], NULL, SYN_BF16, SYN_RECOMPUTE_FULL);
    check_job(&shapes[12], NULL, SYN_BF16, SYN_RECOMPUTE_OP);
}

/* Stages with different numbers of layers, also with only the embedding, only the head, or without
   layers in between. */
static void test_uneven(void) {
    static const struct {
        syn_schedule_shape shape;
        syn_layer_division division;
    } uneven[] = {
        {{SYN_SCHEDULE_1F1B, 2, 1, 4, 0}, {.layers = "3,5"}},
        {{SYN_SCHEDULE_GPIPE, 3, 1, 3, 0}, {.count_loss = true}},
        {{SYN_SCHEDULE_1F1B, 4, 1, 6, 0}, {.layout = "E|t*5|t*3|L"}},
        {{SYN_SCHEDULE_1F1B, 4, 1, 3, 0}, {.layers = "4,0,4,0"}},
        {{SYN_SCHEDULE_ZB_H1, 4, 1, 7, 0}, {.layout = "Et|t*3|(t)*3|tL"}},
        {{SYN_SCHEDULE_ZB_H1, 4, 1, 4, 0}, {.layers = "0,8,0,0"}},
        {{SYN_SCHEDULE_INTERLEAVED, 2, 2, 5, 3}, {.layers = "1,4,0,3"}},
        {{SYN_SCHEDULE_INTERLEAVED, 2, 4, 2, 0}, {.layout = "Et|tt(|t)*4|t|L"}},
    };
    for (size_t i = 0; i < COUNT(uneven); i++) {
        check_job(&uneven[i].shape, &uneven[i].division, SYN_F32, SYN_RECOMPUTE_NONE);
        check_job(&uneven[i].shape, &uneven[i].division, SYN_BF16, SYN_RECOMPUTE_FULL);
    }
}

/* The .et trace set of every schedule is valid, every message has a partner, and a replay
   finishes. */
static void test_simulated(void) {
    if (!can_export(&syn_export_chakra)) SKIP("built without protobuf-c");
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g", NULL, &err), err);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        syn_ctx *ctx[MAX_RANKS] = {NULL};
        const syn_trace *traces[MAX_RANKS];
        const int n = shapes[i].stages;
        syn_graph *graph;
        syn_validation found;
        job j = {.shape = shapes[i], .device = SYN_DEVICE_META, .keep = ctx};
        config_of(&j);
        CHECK_OK(run_without_transport(n, rank_main, &j, &err), err);
        for (int r = 0; r < n; r++) traces[r] = syn_ctx_trace(ctx[r]);
        CHECK_OK(syn_trace_graph(&graph, traces, (uint32_t)n, &hw, &err), err);
        CHECK_OK(syn_graph_verify(graph, &err), err);
        const char *prefix = in_folder("trace");
        CHECK_OK(syn_export_et_set(graph, NULL, prefix, &err), err);
        CHECK_OK(syn_validate(&found, &prefix, 1, &(syn_validate_options){0}, &err), err);
        const uint64_t messages = 2 * (uint64_t)STEPS * (uint64_t)shapes[i].microbatches *
                                  (uint64_t)(shapes[i].stages * shapes[i].chunks - 1);
        CHECK_MSG(found.n_problems == 0 && found.executed, "%zu: %s", i,
                  found.n_findings > 0 ? found.findings[0].text : "not executed");
        CHECK_INT(found.n_sends, messages);
        CHECK_INT(found.n_recvs, messages);
        syn_validation_free(&found);
        syn_graph_free(graph);
        drop_ranks(n, ctx);
    }
}

static void test_refusals(void) {
    job j = {.shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 3, 0}, .device = SYN_DEVICE_META};
    syn_error err = {0};
    config_of(&j);
    CHECK_INT(run_without_transport(2, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "leave a last group of 1");
    j.shape.microbatches = 4;
    j.max_tag = 32767; /* the least that the MPI standard guarantees */
    err = (syn_error){0};
    CHECK_INT(run_without_transport(2, rank_main, &j, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "need message tags above 32767");
}

static const test_case cases[] = {
    {"every schedule", test_every_schedule},
    {"bf16 and recompute", test_bf16_and_recompute},
    {"uneven", test_uneven},
    {"simulated", test_simulated},
    {"refusals", test_refusals},
};
TEST_MAIN(cases)
