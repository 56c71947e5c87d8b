/* Tests the optimizer where it differs from PyTorch's: errors and learning rates. test_training.c
   compares everything else with PyTorch. */
#include "comm/comm.h"
#include "models/layers.h"
#include "models/training/optimizer.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/test.h"

enum { IN = 3, OUT = 2 };

/* A layer that is trained, with one input x, to give class 0. */
typedef struct job {
    syn_ctx *ctx;
    syn_layer_linear layer, other;
    syn_optimizer *optimizer;
} job;

static job job_new(const syn_optimizer_options *how, bool other) {
    const syn_initializer init = {.std = 0.1, .seed = 3};
    job j = {0};
    syn_error err = {0};
    if (syn_ctx_new(&j.ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK) abort();
    j.layer = syn_column_linear_new(j.ctx, "used", IN, OUT, 1, &init, NULL);
    if (other) j.other = syn_column_linear_new(j.ctx, "left", IN, OUT, 1, &init, NULL);
    if (syn_optimizer_new(&j.optimizer, j.ctx, how, &err) != SYN_OK) abort();
    return j;
}

static void job_free(job *j) {
    syn_optimizer_free(j->optimizer);
    syn_ctx_free(j->ctx);
}

static void backward(job *j, float x0) {
    const float x[IN] = {x0, 1, -1};
    const int32_t zero = 0;
    const syn_spec xs = {SYN_F32, 2, {1, IN}}, ys = {SYN_I32, 1, {1}};
    const syn_tensor logits =
        syn_column_linear(j->ctx, syn_input(j->ctx, "x", &xs, x), &j->layer, false, NULL, "layer");
    const syn_tensor y = syn_input(j->ctx, "y", &ys, &zero);
    syn_backward(j->ctx, syn_cross_entropy(j->ctx, logits, y, SYN_MEAN, OUT));
}

static void get_weight(job *j, float *to) {
    if (syn_tensor_read(j->ctx, syn_current_version(j->ctx, j->layer.weight), to,
                        IN * OUT * sizeof *to) != SYN_OK)
        abort();
}

static void test_not_finite(void) {
    const syn_optimizer_options how = {0};
    job j = job_new(&how, false);
    float before[IN * OUT], after[IN * OUT];
    syn_error err = {0};
    backward(&j, 1);
    CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
    get_weight(&j, before);
    backward(&j, INFINITY);
    CHECK_INT(syn_optimizer_step(j.optimizer, 0.1, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "step 2: the gradient of 'used.weight' is NaN");
    CHECK_INT(syn_ctx_status(j.ctx), SYN_OK);
    get_weight(&j, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
    syn_drop_grads(j.ctx);
    backward(&j, 1);
    err.code = SYN_OK;
    CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
    get_weight(&j, after);
    CHECK(memcmp(before, after, sizeof before) != 0);
    job_free(&j);
}

/* A failed step discards the previous step's norm, which nobody has read. */
static void test_not_finite_after_forgetting(void) {
    const syn_optimizer_options how = {.max_grad_norm = 1};
    job j = job_new(&how, false);
    syn_error err = {0};
    const syn_mark mark = syn_ctx_mark(j.ctx);
    backward(&j, 1);
    CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
    syn_forget(j.ctx, mark, NULL, 0);
    backward(&j, INFINITY);
    CHECK_INT(syn_optimizer_step(j.optimizer, 0.1, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "step 2: the gradient of 'used.weight' is NaN");
    CHECK_INT(syn_ctx_status(j.ctx), SYN_OK);
    job_free(&j);
}

/* If the check is turned off, an infinite or NaN norm gives no valid clipping factor, and the
   device leaves the parameters unchanged. */
static void test_not_finite_unchecked(void) {
    /* The first gives NaN, the second a gradient whose squares overflow. */
    static const float bad[2] = {INFINITY, 3e37f};
    for (int i = 0; i < 2; i++) {
        const syn_optimizer_options how = {.max_grad_norm = 1, .unchecked = true};
        job j = job_new(&how, false);
        float before[IN * OUT], after[IN * OUT];
        syn_error err = {0};
        get_weight(&j, before);
        backward(&j, bad[i]);
        CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
        get_weight(&j, after);
        CHECK(memcmp(before, after, sizeof before) == 0);
        backward(&j, 1);
        CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
        get_weight(&j, after);
        for (int k = 0; k < IN * OUT; k++) CHECK(isfinite(after[k]));
        CHECK(memcmp(before, after, sizeof before) != 0);
        job_free(&j);
    }
}

static void test_every_parameter(void) {
    const syn_optimizer_options how = {.max_grad_norm = 1};
    job j = job_new(&how, true);
    syn_error err = {0};
    backward(&j, 1);
    CHECK_INT(syn_optimizer_step(j.optimizer, 0.1, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "parameter 'left.bias' has no gradient");
    job_free(&j);
}

/* An older version of a parameter cannot be used, and no backward pass can go through one. */
static void test_versions(void) {
    const syn_optimizer_options how = {.weight_decay = 0.1};
    job j = job_new(&how, false);
    const syn_tensor old = j.layer.weight;
    syn_error err = {0};
    backward(&j, 1);
    CHECK_OK(syn_optimizer_step(j.optimizer, 0.1, &err), err);
    CHECK(syn_current_version(j.ctx, old).id != old.id);
    j.layer.weight = old;
    syn_scale(j.ctx, old, 2);
    CHECK_HAS(syn_ctx_error(j.ctx)->text, "was overwritten by adamw");
    job_free(&j);
}

static void test_rates(void) {
    CHECK_NEAR(syn_learning_rate(2, 0, 4, 10), 0, 0);
    CHECK_NEAR(syn_learning_rate(2, 1, 4, 10), 0.5, 1e-15);
    CHECK_NEAR(syn_learning_rate(2, 4, 4, 10), 2, 1e-15);
    CHECK_NEAR(syn_learning_rate(2, 7, 4, 10), 1, 1e-15);
    CHECK_NEAR(syn_learning_rate(2, 10, 4, 10), 0, 0);
    CHECK_NEAR(syn_learning_rate(2, 0, 0, 10), 2, 0);
}

static void test_shards(void) {
    const syn_optimizer_options how = {.max_grad_norm = 1};
    const syn_initializer init = {.std = 0.1, .seed = 3};
    syn_comm *comm;
    syn_mesh mesh;
    syn_ctx *ctx;
    syn_optimizer *optimizer;
    syn_error err = {0};
    CHECK_OK(syn_comm_fake_new(&comm, 0, 2, &err), err);
    CHECK_OK(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = 2}, &err), err);
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, &err), err);
    syn_column_linear_new(ctx, "cut", IN, OUT, 1, &init, mesh.group[SYN_AXIS_TP]);
    CHECK_INT(syn_optimizer_new(&optimizer, ctx, &how, &err), SYN_E_INVALID);
    CHECK_STR(err.text,
              "parameter 'cut.weight' is sharded over 2 ranks: the optimizer needs their group");
    syn_ctx_free(ctx);
    syn_comm_close(comm);
}

static const test_case cases[] = {
    {"gradients that are not finite", test_not_finite},
    {"gradients that are not finite after a forgotten step", test_not_finite_after_forgetting},
    {"gradients that nobody looks at", test_not_finite_unchecked},
    {"every parameter has a gradient", test_every_parameter},
    {"versions", test_versions},
    {"shards", test_shards},
    {"rates", test_rates},
};
TEST_MAIN(cases)
