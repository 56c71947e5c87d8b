/* Tests generation that forgets its steps. Memory must stay constant for any number of steps. The
   rows of the remaining steps, the tokens and the hashes must be the same as in a run that keeps
   all steps. */
#include "models/generate.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/mesh.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"
#include "tests/support/trace_difference.h"

enum { BATCH = 2, PROMPT = 5, MANY = 4000, STEPS = 40, MAX_TP = 2 };

static const int32_t prompt[BATCH * PROMPT] = {1, 2, 3, 4, 5, 0, 0, 8, 9, 10};
static const int32_t padding[BATCH] = {0, 2};

/* Options of a run, and one rank's results. */
struct run {
    syn_device device;
    int tp;
    bool fused;
    int64_t steps, first_kept, n_kept; /* n_kept -1: keep all steps, as without a callback */
    syn_ctx *ctx[MAX_TP];
    syn_generation g[MAX_TP];
};

/* The state of the after_step callback. */
struct watch {
    const struct run *run;
    const syn_ctx *ctx;
    size_t rows_bytes, data_bytes; /* bytes in use after step 20 */
    int64_t first_growth;          /* the first step after step 20 that uses more bytes; 0: none */
};

static syn_status after_step(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    struct watch *w = user;
    (void)err;
    const size_t rows = syn_trace_memory_bytes(syn_ctx_trace(w->ctx));
    /* Unfused attention has a tensor with the scores of all keys, which grows in each step. */
    const size_t data = w->run->fused ? w->ctx->storages.held_bytes + w->ctx->storages.cap : 0;
    if (step == 20) {
        w->rows_bytes = rows;
        w->data_bytes = data;
    }
    if (step > 20 && !w->first_growth && (rows > w->rows_bytes || data > w->data_bytes))
        w->first_growth = step;
    *keep_rows = step >= w->run->first_kept && step < w->run->first_kept + w->run->n_kept;
    return SYN_OK;
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    struct run *r = arg;
    syn_mesh mesh;
    syn_model *gpt = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = r->tp}, err));
    SYN_TRY(syn_ctx_new(&r->ctx[comm->rank], r->device, comm, err));
    const syn_model_options how = {
        .tp = mesh.group[SYN_AXIS_TP], .fused_attention = r->fused, .seed = 1};
    struct watch watch = {.run = r, .ctx = r->ctx[comm->rank]};
    syn_generation *g = &r->g[comm->rank];
    *g = (syn_generation){.batch = BATCH,
                          .prompt_tokens = PROMPT,
                          .new_tokens = r->steps,
                          .prompt = r->device == SYN_DEVICE_META ? NULL : prompt,
                          .padding = padding,
                          .sampling = {1.0, 0, 1.0, 11, 0},
                          .after_step = r->n_kept < 0 ? NULL : after_step,
                          .after_step_user = &watch};
    syn_model_config config = small_gpt;
    config.n_positions = MANY + PROMPT;
    SYN_TRY(syn_model_new(&gpt, r->ctx[comm->rank], &config, &how, err));
    syn_status s = syn_generate(gpt, g, err);
    if (s == SYN_OK && r->n_kept == 0 && watch.first_growth)
        s = SYN_FAIL(err, SYN_E_INVALID, "memory grew in step %d", (int)watch.first_growth);
    syn_model_free(gpt);
    return s;
}

static syn_status run_all(struct run *r, syn_error *err) {
    return (r->device == SYN_DEVICE_META ? run_without_transport : syn_local_run)(r->tp, rank_main,
                                                                                  r, err);
}

static void run_free(struct run *r) {
    for (int rank = 0; rank < r->tp; rank++) {
        syn_ctx_free(r->ctx[rank]);
        syn_free(r->g[rank].tokens);
    }
}

/* Runs thousands of steps. After each step, rows, interned tables and buffers must use as many
   bytes as after step 20. */
static void test_constant_memory(void) {
    for (int how = 0; how < 4; how++) {
        struct run r = {.device = how % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU,
                        .tp = 1,
                        .fused = how < 2,
                        .steps = TEST_ROUNDS(how < 2 ? MANY : MANY / 4)};
        syn_error err = {0};
        const syn_status s = run_all(&r, &err);
        const syn_trace *t = s == SYN_OK ? syn_ctx_trace(r.ctx[0]) : NULL;
        const bool sound = t && syn_trace_verify(t, &err) == SYN_OK && t->n_nodes == 1 &&
                           t->step == (uint32_t)r.steps - 1 &&
                           syn_ctx_mark(r.ctx[0]).node > 30 * r.steps;
        run_free(&r);
        CHECK_MSG(s == SYN_OK && sound, "run %d: %s", how, err.text);
    }
}

/* The rows of the steps that are kept equal those of a run that keeps all steps. */
static void test_window(void) {
    for (int how = 0; how < 8; how++) {
        struct run all = {.device = how % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU,
                          .tp = 1 + how / 2 % 2,
                          .fused = how / 4,
                          .steps = STEPS,
                          .n_kept = -1};
        struct run part = all;
        part.first_kept = 25;
        part.n_kept = 4;
        syn_error err = {0};
        CHECK_OK(run_all(&all, &err), err);
        CHECK_OK(run_all(&part, &err), err);
        for (int rank = 0; rank < all.tp; rank++) {
            const syn_trace *a = syn_ctx_trace(all.ctx[rank]), *t = syn_ctx_trace(part.ctx[rank]);
            CHECK_OK(syn_trace_verify(t, &err), err);
            CHECK_MSG(syn_trace_hash(t) == syn_trace_hash(a), "run %d, rank %d", how, rank);
            CHECK_MSG(trace_difference(t, a) == 0, "run %d, rank %d: number %u", how, rank,
                      trace_difference(t, a));
            CHECK(syn_trace_step_of(t, 1) == 25 &&
                  syn_trace_step_of(t, (uint32_t)t->n_nodes - 1) == 28);
            const size_t bytes = BATCH * STEPS * sizeof(int32_t);
            if (all.device == SYN_DEVICE_CPU)
                CHECK(memcmp(all.g[rank].tokens, part.g[rank].tokens, bytes) == 0);
        }
        run_free(&all);
        run_free(&part);
    }
}

/* If the callback fails, the generation fails. */
static syn_status fails_at_3(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    (void)user;
    *keep_rows = step == 1;
    return step == 3 ? SYN_FAIL(err, SYN_E_IO, "the disk is full") : SYN_OK;
}

static void test_failure(void) {
    const syn_model_options how = {.seed = 1};
    syn_generation g = {.batch = 1,
                        .prompt_tokens = 2,
                        .new_tokens = 9,
                        .sampling = {0, 0, 1.0, 1, 0},
                        .after_step = fails_at_3};
    syn_error err = {0};
    syn_model *gpt = model_alone(SYN_DEVICE_META, &small_gpt, &how);
    const syn_status s = syn_generate(gpt, &g, &err);
    model_drop(gpt);
    CHECK_INT(s, SYN_E_IO);
    CHECK_STR(err.text, "the disk is full");
    CHECK_INT(g.made, 4);
}

static const test_case cases[] = {
    {"constant memory", test_constant_memory},
    {"window", test_window},
    {"failure", test_failure},
};
TEST_MAIN(cases)
