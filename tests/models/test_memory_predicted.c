/* Tests that the memory predicted on meta equals the memory of a run on the device, to the byte.
   Covers every model, phase, tp, weight dtype and form of attention, and random programs of ops. */
#include "models/generate.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_program.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { MAX_TP = 4, MAX_POINTS = 16 };

/* Bytes in use, their peak, and bytes held by the allocator, at several points of a run. */
struct memory {
    size_t at[MAX_POINTS][3];
    int points;
};

static void note(struct memory *m, const syn_ctx *ctx) {
    size_t *to = m->at[m->points++];
    to[0] = ctx->storages.used_bytes;
    to[1] = syn_ctx_peak_bytes(ctx);
    to[2] = ctx->storages.held_bytes;
}

struct job {
    const char *preset; /* name of the preset; NULL: the small model */
    bool whole;         /* false: only the first two layers, because the others are identical */
    bool bert, fused;
    int tp;
    syn_dtype dtype, weights;
    bool padding; /* some sequences are padded; BERT also gets token types */
    struct memory memory[MAX_TP];
};

/* A prefill, and then another prefill and three decode steps in the same context. */
static syn_status run_gpt(const struct job *job, syn_ctx *ctx, const syn_group *tp,
                          struct memory *memory, syn_error *err) {
    static const int32_t prompt[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, padding[2] = {0, 2};
    syn_model_config config = small_gpt;
    if (job->preset) SYN_TRY(syn_model_config_preset(&config, job->preset, err));
    if (job->preset && !job->whole) config.n_layer = 2;
    const syn_model_options how = {.tp = tp,
                                   .fused_attention = job->fused,
                                   .dtype = job->dtype,
                                   .weight_dtype = job->weights,
                                   .seed = 1};
    syn_model *gpt = NULL;
    SYN_TRY(syn_model_new(&gpt, ctx, &config, &how, err));
    note(memory, ctx);
    syn_status s = SYN_OK;
    for (int64_t n = 1; n <= 4 && s == SYN_OK; n += 3) {
        syn_generation g = {.batch = 2,
                            .prompt_tokens = 5,
                            .new_tokens = n,
                            .prompt = prompt,
                            .padding = job->padding ? padding : NULL,
                            .sampling = {0.8, 5, 0.9, 1, 0}};
        s = syn_generate(gpt, &g, err);
        syn_free(g.tokens);
        note(memory, ctx);
    }
    syn_model_free(gpt);
    return s;
}

static syn_status run_bert(const struct job *job, syn_ctx *ctx, const syn_group *tp,
                           struct memory *memory, syn_error *err) {
    syn_model_config config = small_bert;
    if (job->preset) SYN_TRY(syn_model_config_preset(&config, job->preset, err));
    if (job->preset && !job->whole) config.n_layer = 2;
    const syn_model_options how = {.tp = tp,
                                   .heads = ALL_HEADS,
                                   .fused_attention = job->fused,
                                   .dtype = job->dtype,
                                   .weight_dtype = job->weights,
                                   .seed = 1};
    syn_model *bert = NULL;
    SYN_TRY(syn_model_new(&bert, ctx, &config, &how, err));
    note(memory, ctx);
    const syn_tensor tokens = ZEROS(ctx, SYN_I32, 2, 9);
    const syn_tensor types = job->padding ? ZEROS(ctx, SYN_I32, 2, 9) : SYN_BERT_NO_TYPES;
    const syn_tensor mask = job->padding ? ZEROS(ctx, SYN_F32, 2, 9) : SYN_NO_MASK;
    const syn_tensor hidden = syn_bert_forward(bert, tokens, types, mask);
    note(memory, ctx);
    (void)syn_bert_nsp(bert, syn_bert_pooled(bert, hidden));
    note(memory, ctx);
    (void)syn_bert_mlm(bert, hidden, ZEROS(ctx, SYN_I32, 3));
    note(memory, ctx);
    syn_model_free(bert);
    return syn_ctx_check(ctx, err);
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    struct memory *memory = &job->memory[me->index];
    memory->points = 0;
    return (job->bert ? run_bert : run_gpt)(job, me->ctx, me->tp, memory, err);
}

static void check_job(struct job job) {
    struct job meta = job;
    syn_error err = {0};
    syn_ctx *ctx[MAX_TP] = {NULL};
    CHECK_OK(run_ranks(job.tp, run_rank, &job, &err), err);
    CHECK(keep_ranks(job.tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, run_rank, &meta, ctx));
    drop_ranks(job.tp, ctx);
    for (int r = 0; r < job.tp; r++) {
        CHECK(job.memory[r].points == meta.memory[r].points && job.memory[r].points >= 3);
        for (int p = 0; p < job.memory[r].points; p++) {
            const size_t *got = meta.memory[r].at[p], *want = job.memory[r].at[p];
            CHECK_MSG(memcmp(got, want, sizeof job.memory[r].at[p]) == 0,
                      "%s %s, tp %d, rank %d, %s (weights %s), %s, padding %d, point %d: %zu used, "
                      "peak %zu, "
                      "held %zu; on meta %zu, %zu, %zu",
                      job.bert ? "BERT" : "GPT", job.preset ? job.preset : "small", job.tp, r,
                      syn_dtype_name(job.dtype), syn_dtype_name(job.weights),
                      job.fused ? "fused" : "unfused", job.padding, p, want[0], want[1], want[2],
                      got[0], got[1], got[2]);
            CHECK(p == 0 ||
                  want[1] > job.memory[r].at[p - 1][0]); /* the step has allocated memory */
        }
    }
}

static void small_models(void) {
    static const syn_dtype dtypes[][2] = {{SYN_F32, SYN_F32},
                                          {SYN_F32, SYN_F16},
                                          {SYN_F32, SYN_BF16},
                                          {SYN_F16, SYN_F16},
                                          {SYN_BF16, SYN_F32}}; /* also with everything in bf16 */
    for (int i = 0; i < 120; i += TEST_REDUCED ? 7 : 1)
        check_job((struct job){.bert = i % 2,
                               .fused = i / 2 % 2,
                               .padding = i / 4 % 2,
                               .tp = 1 << i / 8 % 3,
                               .dtype = dtypes[i / 24][0],
                               .weights = dtypes[i / 24][1]});
}

static void presets(void) {
    static const char *const names[] = {"gpt2", "gpt3-125m", "bert-base-uncased"};
    for (int i = 0; i < 6; i += TEST_REDUCED ? 4 : 1)
        check_job((struct job){.preset = names[i % 3],
                               .whole = i == 0,
                               .bert = i % 3 == 2,
                               .fused = i % 2,
                               .padding = i / 2 % 2,
                               .tp = 1 + i / 3,
                               .dtype = i / 2 == 1 ? SYN_BF16 : SYN_F32,
                               .weights = i % 2 ? SYN_BF16 : SYN_F32});
}

/* Runs every op in random order, then releases all tensors except one. */
static void random_programs(void) {
    static program p;
    for (uint64_t seed = 0; seed < TEST_ROUNDS(100); seed++) {
        struct memory memory[2] = {{.points = 0}, {.points = 0}};
        for (int device = 0; device < 2; device++) {
            p = (program){.ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL),
                          .seed = 1};
            program_run(&p, seed, 60);
            note(&memory[device], p.ctx);
            syn_release(p.ctx, (syn_mark){p.live[0].id / 2 + 1, 0, p.live[0].tag},
                        &p.live[p.n_live / 2], 1);
            note(&memory[device], p.ctx);
            CHECK_OK(syn_ctx_status(p.ctx), *syn_ctx_error(p.ctx));
            syn_ctx_free(p.ctx);
        }
        CHECK_MSG(memcmp(&memory[0], &memory[1], sizeof memory[0]) == 0, "seed %d", (int)seed);
        CHECK(memory[0].at[1][0] < memory[0].at[0][0]);
    }
}

static const test_case cases[] = {
    {"small_models", small_models},
    {"presets", presets},
    {"random_programs", random_programs},
};
TEST_MAIN(cases)
