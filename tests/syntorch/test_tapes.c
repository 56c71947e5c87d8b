/* Tests several tapes: a graph that is split into stages gets the same gradients as the whole
   graph, and the backward passes of several microbatches may run in any order. */
#include "ops/rules.h"
#include "syntorch/context_private.h"
#include "syntorch/gradient.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { ROWS = 3, N = 8, MICROBATCHES = 4 };

static const syn_spec x_spec = {SYN_F32, 2, {ROWS, N}}, w_spec = {SYN_F32, 2, {N, N}};

/* A model of two stages with one weight each. The result of the first stage is the input of the
   second. */
typedef struct model {
    syn_ctx *ctx;
    syn_tensor w[2];
    int ready; /* number of calls of count_ready */
} model;

static void count_ready(void *user, size_t param) {
    (void)param;
    ((model *)user)->ready++;
}

static void open_model(model *m, syn_device device) {
    static const char *const names[2] = {"a", "b"};
    *m = (model){.ctx = ref_ctx(device, NULL)};
    for (int i = 0; i < 2; i++)
        m->w[i] = syn_param(m->ctx, names[i], &w_spec, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1,
                            7 + (uint64_t)i);
    syn_require_grads(m->ctx);
    syn_ctx_on_grad(m->ctx, count_ready, m);
}

static syn_tensor microbatch(model *m, int index) {
    float values[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) values[i] = (float)((i * 7 + index * 5) % 11) / 8 - 0.5f;
    return syn_input(m->ctx, "x", &x_spec, values);
}

static syn_tensor stage(model *m, int index, syn_tensor x) {
    return syn_tanh(m->ctx, syn_linear(m->ctx, x, m->w[index], SYN_NO_BIAS, false));
}

static syn_tensor loss_of(model *m, syn_tensor y) {
    return syn_sum_to(m->ctx, syn_mul(m->ctx, y, y), NULL, 0);
}

/* Simulates a message: returns a tensor with the same values and without a history. */
static syn_tensor sent(model *m, syn_tensor x, syn_dtype dtype) {
    const bool was = syn_set_grad(m->ctx, false);
    const syn_tensor copy = syn_cast(m->ctx, syn_scale(m->ctx, x, 1), dtype);
    syn_set_grad(m->ctx, was);
    return copy;
}

static void read_grads(model *m, float grads[2][N * N]) {
    for (int i = 0; i < 2; i++) {
        const syn_tensor g = syn_grad(m->ctx, m->w[i]);
        CHECK(g.id && syn_tensor_read(m->ctx, g, grads[i], sizeof grads[i]) == SYN_OK);
    }
}

/* Computes the gradients of the whole graph, one microbatch after the other in this order. */
static void whole(float grads[2][N * N], const int *order) {
    model m;
    open_model(&m, SYN_DEVICE_CPU);
    for (int k = 0; k < MICROBATCHES; k++) {
        const syn_tensor y = stage(&m, 1, stage(&m, 0, microbatch(&m, order[k])));
        CHECK(syn_backward(m.ctx, loss_of(&m, y)) == SYN_OK);
    }
    CHECK_INT(m.ready, 2 * MICROBATCHES);
    read_grads(&m, grads);
    syn_ctx_free(m.ctx);
}

/* Runs both stages on separate tapes: all forward passes, then the backward passes in this order.
   split: weight gradients are computed after all input gradients. */
static void in_parts(syn_device device, const int *order, bool split, float grads[2][N * N]) {
    model m;
    syn_tensor y[MICROBATCHES], x[MICROBATCHES], loss[MICROBATCHES];
    open_model(&m, device);
    const size_t before = m.ctx->storages.used_bytes;
    const syn_mark mark = syn_ctx_mark(m.ctx);
    for (int k = 0; k < MICROBATCHES; k++) {
        syn_set_tape(m.ctx, 2 * (uint32_t)k);
        y[k] = stage(&m, 0, microbatch(&m, k));
        CHECK_INT(syn_set_tape(m.ctx, 2 * (uint32_t)k + 1), 2 * (uint32_t)k);
        x[k] = sent(&m, y[k], SYN_F32);
        syn_require_grad(m.ctx, x[k]);
        loss[k] = loss_of(&m, stage(&m, 1, x[k]));
        syn_drop(m.ctx, y[k]); /* backward needs the row of y, not its data */
    }
    CHECK_INT(m.ready, 0);
    syn_status (*const back)(syn_ctx *, const syn_tensor *, const syn_tensor *, int) =
        split ? syn_backward_inputs : syn_backward_from;
    for (int k = 0; k < MICROBATCHES; k++) {
        const int i = order[k];
        const syn_tensor none = {0};
        syn_set_tape(m.ctx, 2 * (uint32_t)i + 1);
        CHECK(back(m.ctx, &loss[i], &none, 1) == SYN_OK);
        const syn_tensor dx = sent(&m, syn_grad(m.ctx, x[i]), SYN_F32);
        syn_drop_grad(m.ctx, x[i]);
        CHECK(!syn_grad(m.ctx, x[i]).id);
        syn_set_tape(m.ctx, 2 * (uint32_t)i);
        CHECK(back(m.ctx, &y[i], &dx, 1) == SYN_OK);
        /* `ready` is called once per parameter, when no tape has a use of it left. */
        CHECK_INT(m.ready, k == MICROBATCHES - 1 && !split ? 2 : 0);
    }
    CHECK(syn_grad(m.ctx, m.w[0]).id == 0 || !split);
    for (int k = 0; k < 2 * MICROBATCHES && split; k++) {
        syn_set_tape(m.ctx, 2 * (uint32_t)order[k / 2] + (k % 2 == 0));
        CHECK(syn_backward_weights(m.ctx) == SYN_OK);
        CHECK(syn_backward_weights(m.ctx) == SYN_OK); /* no weight gradients are left */
    }
    CHECK_INT(m.ready, 2);
    if (device == SYN_DEVICE_CPU) read_grads(&m, grads);
    CHECK(syn_grad(m.ctx, m.w[0]).id && syn_grad(m.ctx, m.w[1]).id);
    syn_drop_grads(m.ctx);
    syn_release(m.ctx, mark, NULL, 0);
    CHECK_INT(m.ctx->storages.used_bytes, before);
    syn_ctx_free(m.ctx);
}

static void test_parts_are_the_whole(void) {
    static const int orders[3][MICROBATCHES] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    for (size_t o = 0; o < COUNT(orders); o++) {
        float want[2][N * N], got[2][N * N];
        whole(want, orders[o]);
        for (int split = 0; split < 2; split++) {
            in_parts(SYN_DEVICE_CPU, orders[o], split, got);
            /* The same sums in the same order give the same bits. */
            CHECK(memcmp(want, got, sizeof want) == 0);
            in_parts(SYN_DEVICE_META, orders[o], split, got);
        }
    }
}

/* Backward starts from several outputs, one of which is a loss. Their contributions are added. */
static void test_several_outputs(void) {
    model m;
    float want[2][N * N], got[2][N * N], dy[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) dy[i] = (float)(i % 5) - 2;
    open_model(&m, SYN_DEVICE_CPU);
    syn_tensor y = stage(&m, 0, microbatch(&m, 0)), z = loss_of(&m, stage(&m, 1, y));
    const syn_tensor weights = syn_input(m.ctx, "dy", &x_spec, dy);
    z = syn_add(m.ctx, z, syn_sum_to(m.ctx, syn_mul(m.ctx, y, weights), NULL, 0));
    CHECK(syn_backward(m.ctx, z) == SYN_OK);
    read_grads(&m, want);
    syn_drop_grads(m.ctx);
    y = stage(&m, 0, microbatch(&m, 0));
    z = loss_of(&m, stage(&m, 1, y));
    const syn_tensor out[2] = {y, z}, dout[2] = {syn_input(m.ctx, "dy", &x_spec, dy), {0}};
    CHECK(syn_backward_from(m.ctx, out, dout, 2) == SYN_OK);
    read_grads(&m, got);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N * N; i++)
            CHECK_NEAR(got[k][i], want[k][i], 1e-5 + 1e-5 * fabs((double)want[k][i]));
    syn_ctx_free(m.ctx);
}

/* The gradient of a received tensor has the tensor's dtype, because it is sent back in this
   dtype. */
static void test_dtype_of_received(void) {
    model m;
    open_model(&m, SYN_DEVICE_CPU);
    const syn_tensor x = sent(&m, microbatch(&m, 0), SYN_BF16);
    syn_require_grad(m.ctx, x);
    const syn_tensor y = stage(&m, 0, syn_cast(m.ctx, x, SYN_F32));
    CHECK(syn_backward(m.ctx, loss_of(&m, y)) == SYN_OK);
    const syn_tensor g = syn_grad(m.ctx, x);
    CHECK(g.id && syn_tensor_spec(m.ctx, g)->dtype == SYN_BF16);
    CHECK_INT(syn_tensor_spec(m.ctx, syn_grad(m.ctx, m.w[0]))->dtype, SYN_F32);
    syn_ctx_free(m.ctx);
}

/* ---- what is refused ---- */

static void refuse_other_tape(model *m) {
    const syn_tensor y = stage(m, 0, microbatch(m, 0));
    syn_set_tape(m->ctx, 1);
    syn_backward(m->ctx, loss_of(m, stage(m, 1, y)));
}

static void refuse_other_loss(model *m) {
    const syn_tensor loss = loss_of(m, stage(m, 0, microbatch(m, 0)));
    syn_set_tape(m->ctx, 3);
    syn_backward(m->ctx, loss);
}

static void refuse_shape(model *m) {
    const syn_tensor y = stage(m, 0, microbatch(m, 0)), dy = syn_input(m->ctx, "dy", &w_spec, NULL);
    syn_backward_from(m->ctx, &y, &dy, 1);
}

static void refuse_dtype(model *m) {
    const syn_spec half = {SYN_BF16, 2, {ROWS, N}};
    const syn_tensor y = stage(m, 0, microbatch(m, 0)), dy = syn_input(m->ctx, "dy", &half, NULL);
    syn_backward_from(m->ctx, &y, &dy, 1);
}

static void refuse_released(model *m) {
    const syn_tensor y = stage(m, 0, microbatch(m, 0)), dy = syn_input(m->ctx, "dy", &x_spec, NULL);
    syn_drop(m->ctx, dy);
    syn_backward_from(m->ctx, &y, &dy, 1);
}

static void refuse_twice(model *m) {
    const syn_tensor y = stage(m, 0, microbatch(m, 0)), dy = syn_input(m->ctx, "dy", &x_spec, NULL);
    const syn_tensor out[2] = {y, y}, dout[2] = {dy, dy};
    syn_backward_from(m->ctx, out, dout, 2);
}

static void test_refusals(void) {
    static const struct {
        void (*provoke)(model *m);
        const char *says;
    } cases[] = {
        {refuse_other_tape, "before the last backward pass or on another tape"},
        {refuse_other_loss, "or they are on another tape"},
        {refuse_shape, "the gradient of a tensor f32[3,8] cannot be f32[8,8]"},
        {refuse_dtype, "the gradient of a tensor f32[3,8] cannot be bf16[3,8]"},
        {refuse_released, "was released"},
        {refuse_twice, "appears twice"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        model m;
        open_model(&m, SYN_DEVICE_CPU);
        cases[i].provoke(&m);
        CHECK(syn_ctx_status(m.ctx) != SYN_OK);
        CHECK_HAS(syn_ctx_error(m.ctx)->text, cases[i].says);
        syn_ctx_free(m.ctx);
    }
}

/* syn_forget clears all tapes and unpins the tensors they save. */
static void test_forgetting(void) {
    model m;
    open_model(&m, SYN_DEVICE_CPU);
    const size_t before = m.ctx->storages.used_bytes;
    for (int step = 0; step < 3; step++) {
        const syn_mark mark = syn_ctx_mark(m.ctx);
        for (uint32_t tape = 0; tape < 5; tape++) {
            syn_set_tape(m.ctx, tape);
            stage(&m, 0, microbatch(&m, 0));
        }
        syn_forget(m.ctx, mark, NULL, 0);
        CHECK_INT(m.ctx->storages.used_bytes, before);
        CHECK_INT(m.ctx->gradients.tape.n, 0);
    }
    syn_set_tape(m.ctx, 2);
    const syn_tensor y = stage(&m, 0, microbatch(&m, 0)),
                     dy = syn_input(m.ctx, "dy", &x_spec, NULL);
    stage(&m, 1, microbatch(&m, 0));
    CHECK(syn_backward_inputs(m.ctx, &y, &dy, 1) == SYN_OK);
    syn_set_tape(m.ctx, 0);
    /* Frees the context while weight gradients are pending on a tape that is not selected. */
    syn_ctx_free(m.ctx);
}

static const test_case cases[] = {
    {"parts are the whole", test_parts_are_the_whole},
    {"several outputs", test_several_outputs},
    {"dtype of received", test_dtype_of_received},
    {"refusals", test_refusals},
    {"forgetting", test_forgetting},
};
TEST_MAIN(cases)
