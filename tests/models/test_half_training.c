/* Tests bf16 training with f32 master weights. It must learn real text as well as f32 training
   does, on any number of ranks. Also tests the optimizer's state, and resuming a run from this
   state. */
#include "models/causal.h"
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/base/half.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/files.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { BATCH = 8, TOKENS = 48, STEPS = 100, LAST = 10 };

typedef struct job {
    const char *text;
    size_t n; /* number of bytes of the text; each byte is a token */
    syn_plan shape;
    syn_dtype dtype;
    syn_recompute_mode recompute;
    double loss[STEPS]; /* losses of rank 0 */
} job;

static syn_model_config config_of(void) {
    syn_model_config c = small_gpt;
    c.n_embd = 64, c.n_head = 4, c.n_inner = 256, c.n_positions = TOKENS;
    c.vocab_size = 256, c.initializer_range = 0.02;
    return c;
}

/* The loss of this rank's samples of a step. Samples are from random places in the file. */
static syn_tensor loss_of(const job *j, syn_model *m, const syn_mesh *mesh, int step) {
    syn_ctx *ctx = syn_model_ctx(m);
    const int share = BATCH / mesh->size[SYN_AXIS_DP], first = share * mesh->index[SYN_AXIS_DP];
    const syn_spec spec = {SYN_I32, 2, {share, TOKENS}}, one = {SYN_F32, 0, {0}};
    const float weight = 1.0f / (BATCH * TOKENS);
    int32_t x[BATCH * TOKENS], y[BATCH * TOKENS];
    for (int i = 0; i < share * TOKENS; i++) {
        const size_t text = (size_t)(step * BATCH + first + i / TOKENS);
        const size_t at = text * 7919 % (j->n - TOKENS - 1) + (size_t)(i % TOKENS);
        x[i] = (unsigned char)j->text[at];
        y[i] = (unsigned char)j->text[at + 1];
    }
    return syn_causal_loss(m, syn_input(ctx, "tokens", &spec, x), syn_input(ctx, "next", &spec, y),
                           syn_input(ctx, "weight", &one, &weight));
}

static syn_status one_step(job *j, syn_model *m, const syn_mesh *mesh, syn_data_parallel *parallel,
                           syn_optimizer *optimizer, int step, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_group *dp = mesh->group[SYN_AXIS_DP];
    float loss = 0;
    syn_tensor total = loss_of(j, m, mesh, step);
    syn_backward(ctx, total);
    SYN_TRY(syn_data_parallel_check(parallel, err));
    /* With a higher rate, training is chaotic: runs that differ in a rounding end 10 % apart. */
    SYN_TRY(syn_optimizer_step(optimizer, syn_learning_rate(0.001, step, 10, 2 * STEPS), err));
    if (dp) total = syn_all_reduce(ctx, total, SYN_REDUCE_SUM, dp);
    if (syn_tensor_read(ctx, total, &loss, sizeof loss) == SYN_OK && syn_ctx_rank(ctx) == 0)
        j->loss[step] = (double)loss;
    syn_forget(ctx, mark, NULL, 0);
    return syn_ctx_check(ctx, err);
}

static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    job *j = arg;
    const syn_model_config config = config_of();
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    syn_model *m = NULL;
    syn_data_parallel *parallel = NULL;
    syn_optimizer *optimizer = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &j->shape, err));
    const syn_group *tp = mesh.group[SYN_AXIS_TP];
    const syn_model_options options = {
        .tp = tp, .fused_attention = true, .recompute = j->recompute, .seed = 1, .dtype = j->dtype};
    const syn_optimizer_options how = {.weight_decay = 0.01, .max_grad_norm = 1, .tp = tp};
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_status s = syn_model_new(&m, ctx, &config, &options, err);
    if (s == SYN_OK)
        s = syn_data_parallel_new(&parallel, ctx,
                                  &(syn_data_parallel_options){.dp = mesh.group[SYN_AXIS_DP]}, err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &how, err);
    for (int i = 0; i < STEPS && s == SYN_OK; i++)
        s = one_step(j, m, &mesh, parallel, optimizer, i, err);
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    syn_model_free(m);
    syn_ctx_free(ctx);
    return s;
}

static double last_of(const job *j) {
    double sum = 0;
    for (int i = STEPS - LAST; i < STEPS; i++) sum += j->loss[i] / LAST;
    return sum;
}

static void test_text(void) {
    if (TEST_REDUCED) SKIP("with a sanitizer a text is learnt too slowly");
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the text is");
    size_t n;
    char *text = file_bytes(source_path("LICENSE"), &n);
    const job jobs[] = {{.text = text, .n = n, .dtype = SYN_F32},
                        {.text = text, .n = n, .dtype = SYN_BF16},
                        {.text = text, .n = n, .dtype = SYN_BF16, .shape = {.dp = 2}},
                        {.text = text, .n = n, .dtype = SYN_BF16, .shape = {.tp = 2}},
                        {.text = text,
                         .n = n,
                         .dtype = SYN_BF16,
                         .shape = {.tp = 2, .dp = 2},
                         .recompute = SYN_RECOMPUTE_FULL}};
    double wide = 0;
    CHECK(text && n > 10000);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs && test_failures == 0; i++) {
        job j = jobs[i];
        const int ranks = (j.shape.tp ? j.shape.tp : 1) * (j.shape.dp ? j.shape.dp : 1);
        syn_error err = {0};
        CHECK_OK(syn_local_run(ranks, train, &j, &err), err);
        if (i == 0) wide = last_of(&j);
        if (getenv("SYN_SHOW")) printf("%zu: %.5f to %.5f\n", i, j.loss[0], last_of(&j));
        CHECK_MSG(j.loss[0] > 5 && last_of(&j) < 3.5, "from %g to %g", j.loss[0], last_of(&j));
        CHECK_MSG(fabs(last_of(&j) - wide) <= 0.01 * wide, "run %zu: %g, in f32 %g", i, last_of(&j),
                  wide);
    }
    free(text);
}

/* ---- Optimizer state ---- */

/* A model in a separate context, its optimizer, and a text. */
typedef struct run {
    syn_model *m;
    syn_ctx *ctx;
    syn_optimizer *optimizer;
} run;

static run run_new(syn_device device, syn_dtype dtype) {
    const syn_model_options options = {.fused_attention = true, .seed = 2, .dtype = dtype};
    const syn_optimizer_options how = {.weight_decay = 0.1, .max_grad_norm = 1};
    run r = {.m = model_alone(device, &small_gpt, &options)};
    syn_error err = {0};
    r.ctx = syn_model_ctx(r.m);
    NEED_OK(syn_optimizer_new(&r.optimizer, r.ctx, &how, &err), err);
    return r;
}

static void run_free(run *r) {
    syn_optimizer_free(r->optimizer);
    model_drop(r->m);
}

static void run_steps(run *r, int n) {
    const syn_spec spec = {SYN_I32, 2, {2, 9}};
    int32_t ids[18];
    for (int i = 0; i < 18; i++) ids[i] = i * 7 % 100;
    for (int i = 0; i < n; i++) {
        syn_error err = {0};
        const syn_tensor x = syn_input(r->ctx, "x", &spec, ids);
        syn_backward(r->ctx, syn_causal_loss(r->m, x, x, SYN_MEAN));
        NEED_OK(syn_optimizer_step(r->optimizer, 0.01, &err), err);
    }
}

static size_t elems_of(const run *r, size_t param) {
    return (size_t)syn_spec_elems(syn_tensor_spec(r->ctx, syn_ctx_param(r->ctx, param).tensor));
}

enum { MOST = 257 * 32, SLOTS = 3 };

/* Three steps, copying all state to another run, and three more steps must give the same results as
   six steps in one run. */
static void check_goes_on(syn_dtype dtype) {
    static float x[MOST], y[MOST];
    run whole = run_new(SYN_DEVICE_CPU, dtype), before = run_new(SYN_DEVICE_CPU, dtype),
        after = run_new(SYN_DEVICE_CPU, dtype);
    const size_t params = syn_ctx_param_count(whole.ctx);
    syn_error err = {0};
    run_steps(&whole, 6);
    run_steps(&before, 3);
    CHECK_INT(syn_optimizer_steps(before.optimizer), 3);
    syn_optimizer_set_steps(after.optimizer, 3);
    for (size_t i = 0; i < params; i++)
        for (int slot = 0; slot < SLOTS; slot++) {
            const size_t n = elems_of(&before, i);
            CHECK(n <= MOST);
            CHECK_OK(syn_optimizer_get(before.optimizer, i, (syn_optimizer_slot)slot, x, n, &err),
                     err);
            CHECK_OK(syn_optimizer_set(after.optimizer, i, (syn_optimizer_slot)slot, x, n, &err),
                     err);
        }
    run_steps(&after, 3);
    for (size_t i = 0; i < params; i++)
        for (int slot = 0; slot < SLOTS; slot++) {
            const size_t n = elems_of(&before, i);
            CHECK_OK(syn_optimizer_get(whole.optimizer, i, (syn_optimizer_slot)slot, x, n, &err),
                     err);
            CHECK_OK(syn_optimizer_get(after.optimizer, i, (syn_optimizer_slot)slot, y, n, &err),
                     err);
            CHECK_MSG(memcmp(x, y, n * sizeof *x) == 0, "%s, slot %d",
                      syn_ctx_param(whole.ctx, i).name, slot);
        }
    run_free(&whole);
    run_free(&before);
    run_free(&after);
}

static void test_goes_on(void) {
    check_goes_on(SYN_F32);
    check_goes_on(SYN_BF16);
}

/* At first, the master weights equal the parameters. Setting a master weight also sets its
   parameter, rounded. */
static void test_masters(void) {
    static float master[MOST], wide[MOST];
    run r = run_new(SYN_DEVICE_CPU, SYN_BF16);
    syn_error err = {0};
    for (size_t i = 0; i < syn_ctx_param_count(r.ctx); i++) {
        const size_t n = elems_of(&r, i);
        const syn_tensor t = syn_ctx_param(r.ctx, i).tensor;
        CHECK_OK(syn_optimizer_get(r.optimizer, i, SYN_OPTIMIZER_MASTER, master, n, &err), err);
        CHECK_OK(syn_tensor_read_f32(r.ctx, t, wide, n), *syn_ctx_error(r.ctx));
        CHECK(memcmp(master, wide, n * sizeof *wide) == 0);
        for (size_t k = 0; k < n; k++) master[k] = 1.0f + 0.001f * (float)(k % 1000);
        CHECK_OK(syn_optimizer_set(r.optimizer, i, SYN_OPTIMIZER_MASTER, master, n, &err), err);
        CHECK_OK(syn_tensor_read_f32(r.ctx, t, wide, n), *syn_ctx_error(r.ctx));
        for (size_t k = 0; k < n; k++) CHECK(fabsf(wide[k] - master[k]) <= 0.00390625f * master[k]);
    }
    run_steps(&r, 1); /* setting a master weight is not reported as a write by the program */
    run_free(&r);
}

/* Sizes are also checked on meta, although meta reads no values. */
static void test_slots_refused(void) {
    for (int d = 0; d < 2; d++) {
        run r = run_new(d ? SYN_DEVICE_META : SYN_DEVICE_CPU, SYN_BF16);
        float x[1] = {7};
        syn_error err = {0};
        CHECK(syn_optimizer_get(r.optimizer, 0, SYN_OPTIMIZER_M, x, 1, &err) == SYN_E_SHAPE);
        CHECK_STR(err.text, "parameter 'wte.weight' has 8224 elements, not 1");
        err.code = SYN_OK;
        CHECK(syn_optimizer_set(r.optimizer, 999, SYN_OPTIMIZER_M, x, 1, &err) == SYN_E_INVALID);
        CHECK_HAS(err.text, "parameter 999 does not exist: there are ");
        CHECK(x[0] == 7 && syn_ctx_status(r.ctx) == SYN_OK);
        run_free(&r);
    }
}

static void refuse(const syn_model_options *how, const char *says) {
    const syn_optimizer_options adamw = {.max_grad_norm = 1};
    syn_model *m = model_alone(SYN_DEVICE_META, &small_gpt, how);
    syn_optimizer *optimizer = NULL;
    syn_error err = {0};
    CHECK_INT(syn_optimizer_new(&optimizer, syn_model_ctx(m), &adamw, &err), SYN_E_UNSUPPORTED);
    CHECK_STR(err.text, says);
    model_drop(m);
}

static void test_types_refused(void) {
    refuse(&(syn_model_options){.dtype = SYN_F16},
           "parameter 'wte.weight' is f16, which cannot be trained: it needs loss scaling, which "
           "is not supported; use bf16");
    refuse(&(syn_model_options){.weight_dtype = SYN_BF16},
           "parameter 'wpe.weight' is f32, but others are bf16: all parameters must have the same "
           "dtype");
}

/* If the master weight is older than a write to its parameter, the next step would undo the write,
   so it is an error. */
static syn_status wrong_order(syn_comm *comm, void *says, syn_error *err) {
    const syn_spec spec = {SYN_I32, 2, {1, 2}};
    const syn_model_options options = {.dtype = SYN_BF16};
    const syn_optimizer_options how = {.max_grad_norm = 1};
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    syn_model *m = NULL;
    syn_optimizer *optimizer = NULL;
    syn_data_parallel *parallel = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.dp = 2}, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, err));
    syn_status s = syn_model_new(&m, ctx, &small_gpt, &options, err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &how, err);
    if (s == SYN_OK)
        s = syn_data_parallel_new(&parallel, ctx,
                                  &(syn_data_parallel_options){.dp = mesh.group[SYN_AXIS_DP]}, err);
    if (s == SYN_OK) {
        const syn_tensor x = syn_input(ctx, "x", &spec, NULL);
        syn_error refused = {0};
        syn_backward(ctx, syn_causal_loss(m, x, x, SYN_MEAN));
        if (syn_optimizer_step(optimizer, 0.1, &refused) != SYN_OK)
            memcpy(says, refused.text, sizeof refused.text);
    }
    syn_data_parallel_free(parallel);
    syn_optimizer_free(optimizer);
    syn_model_free(m);
    syn_ctx_free(ctx);
    return s;
}

static void test_order(void) {
    syn_error err = {0};
    char says[sizeof err.text] = "";
    CHECK_OK(run_without_transport(2, wrong_order, says, &err), err);
    CHECK_HAS(says, "' was written after its f32 master weights were created; create the optimizer "
                    "after syn_data_parallel_new");
}

static const test_case cases[] = {
    {"a text", test_text},
    {"a run goes on", test_goes_on},
    {"masters", test_masters},
    {"slots refused", test_slots_refused},
    {"types refused", test_types_refused},
    {"order", test_order},
};
TEST_MAIN(cases)
