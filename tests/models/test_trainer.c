/* The trainer: steps as test_forgotten_training makes them by hand, and sentences for numbers that
   are not finite, after which training goes on. */
#include "models/trainer.h"
#include "syntorch/gradient.h"
#include "tests/support/device.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

enum { STEPS = 6, ACCIDENT = 3 };

/* What happens before step ACCIDENT, and what all ranks then say. */
typedef struct accident {
    const char *param; /* gets `value` at element 5; NULL: rank 1's weight of the loss does */
    float value;
    const char *sentence;
} accident;

typedef struct job {
    syn_mesh_shape shape;
    int passes;
    const accident *accident; /* NULL: none */
    double losses[STEPS];
} job;

typedef struct rank {
    const job *job;
    syn_model *model;
    syn_mesh mesh;
    bool bad_weight;
} rank;

static syn_tensor pass(void *arg, int number) {
    const rank *r = arg;
    syn_ctx *ctx = syn_model_ctx(r->model);
    const syn_tensor loss =
        small_training_loss(r->model, TRAINED_TEXTS / r->mesh.size[SYN_AXIS_DP]);
    const syn_spec one = {SYN_F32, 0, {0}};
    (void)number;
    if (!r->bad_weight) return loss;
    return syn_mul(ctx, loss, syn_input(ctx, "factor", &one, &(float){NAN}));
}

/* Sets one element of a parameter; what it was. */
static float set(syn_ctx *ctx, const char *name, float value) {
    static _Thread_local float x[1 << 14];
    const syn_tensor t = syn_find_param(ctx, name);
    const size_t bytes = syn_spec_bytes(syn_tensor_spec(ctx, t));
    if (!t.id || syn_tensor_read(ctx, t, x, bytes) != SYN_OK) return 0;
    const float was = x[5];
    x[5] = value;
    return syn_tensor_write(ctx, t, x, bytes) == SYN_OK ? was : 0;
}

static syn_status have_accident(rank *r, syn_trainer *trainer, syn_error *err) {
    const accident *a = r->job->accident;
    syn_ctx *ctx = syn_model_ctx(r->model);
    syn_error inner = {0};
    double loss;
    float was = 0;
    if (a->param) was = set(ctx, a->param, a->value);
    else r->bad_weight = syn_ctx_rank(ctx) == 1;
    const syn_status s = syn_trainer_step(trainer, pass, r, 0.001, &loss, &inner);
    if (s != SYN_E_INVALID || strcmp(inner.text, a->sentence) != 0)
        return SYN_FAIL(err, SYN_E_FORMAT, "got \"%s\", want \"%s\"", inner.text, a->sentence);
    r->bad_weight = false;
    if (a->param) set(ctx, a->param, was);
    return syn_ctx_check(ctx, err);
}

static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    job *j = arg;
    rank r = {.job = j};
    syn_ctx *ctx = NULL;
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_mesh_open(&r.mesh, comm, &j->shape, err));
    const syn_model_options options = {.tp = r.mesh.group[SYN_AXIS_TP]};
    const syn_trainer_options how = {.optimizer = {.max_grad_norm = 1, .tp = options.tp},
                                     .dp = r.mesh.group[SYN_AXIS_DP],
                                     .passes = j->passes};
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_status s = syn_model_new(&r.model, ctx, &small_gpt, &options, err);
    if (s == SYN_OK) s = syn_trainer_new(&trainer, ctx, &how, err);
    for (int i = 0; i < STEPS && s == SYN_OK; i++) {
        double loss = 0;
        if (i == ACCIDENT && j->accident) s = have_accident(&r, trainer, err);
        if (s == SYN_OK) s = syn_trainer_step(trainer, pass, &r, 0.001, &loss, err);
        if (comm->rank == 0) j->losses[i] = loss;
    }
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    syn_trainer_free(trainer);
    syn_model_free(r.model);
    syn_ctx_free(ctx);
    return s;
}

/* Passes over the same texts add up: each as a step by hand has it. */
static void test_steps(void) {
    float by_hand[STEPS];
    for (int passes = 1; passes <= 2; passes++) {
        job j = {.shape = {.tp = 1, .dp = 1}, .passes = passes == 1 ? 0 : passes};
        small_training t = {.config = &small_gpt,
                            .shape = j.shape,
                            .steps = STEPS,
                            .micro = passes,
                            .losses = by_hand};
        syn_error err = {0};
        CHECK_OK(syn_local_run(1, train, &j, &err), err);
        CHECK_OK(syn_local_run(1, small_training_rank, &t, &err), err);
        for (int i = 0; i < STEPS; i++) CHECK_NEAR(j.losses[i], passes * (double)by_hand[i], 1e-12);
    }
}

static void check_accident(syn_mesh_shape shape, const accident *a) {
    job with = {.shape = shape, .accident = a}, without = {.shape = shape};
    syn_error err = {0};
    CHECK_OK(syn_local_run(shape.tp * shape.dp, train, &with, &err), err);
    CHECK_OK(syn_local_run(shape.tp * shape.dp, train, &without, &err), err);
    for (int i = 0; i < STEPS; i++) CHECK(with.losses[i] == without.losses[i]);
}

static void test_bad_parameter(void) {
    const accident a = {"h.1.mlp.c_fc.bias", NAN,
                        "step 4: the loss is NaN: first, on rank 0, tensor 'h.1.mlp.c_fc.bias', "
                        "given from outside, holds NaN at element 5"};
    check_accident((syn_mesh_shape){.tp = 1, .dp = 1}, &a);
    check_accident((syn_mesh_shape){.tp = 1, .dp = 2}, &a);
}

static void test_overflow(void) {
    const accident a = {
        "h.0.ln_2.weight", 3e38f,
        "step 4: the loss is NaN: first, on rank 0, tensor 'h.0.mlp/ln_2:0', made by "
        "layernorm in h.0.mlp (forward), holds infinity at element 453"};
    check_accident((syn_mesh_shape){.tp = 1, .dp = 1}, &a);
    check_accident((syn_mesh_shape){.tp = 2, .dp = 2}, &a);
}

static void test_bad_texts(void) {
    const accident a = {NULL, NAN,
                        "step 4: the loss is NaN: first, on rank 1, tensor 'factor', given from "
                        "outside, holds NaN at element 0"};
    check_accident((syn_mesh_shape){.tp = 1, .dp = 2}, &a);
}

/* The loss and the norm come with one wait for the device, where it counts what it is asked for. */
static syn_status waiting(syn_comm *comm, void *arg, syn_error *err) {
    const job j = {.shape = {.tp = 1, .dp = 1}};
    rank r = {.job = &j};
    syn_ctx *ctx = NULL;
    syn_trainer *trainer = NULL;
    uint64_t *waits = arg;
    double loss, norm;
    float from_tensor;
    const syn_model_options options = {.tp = NULL};
    const syn_trainer_options how = {.optimizer = {.max_grad_norm = 0.1}};
    SYN_TRY(syn_mesh_open(&r.mesh, comm, &j.shape, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_status s = syn_model_new(&r.model, ctx, &small_gpt, &options, err);
    if (s == SYN_OK) s = syn_trainer_new(&trainer, ctx, &how, err);
    for (int i = 0; i < STEPS && s == SYN_OK; i++) {
        *waits = ref_cuda_calls("cudaStreamSynchronize");
        s = syn_trainer_step(trainer, pass, &r, 0.001, &loss, err);
        if (s == SYN_OK) s = syn_optimizer_norm_value(syn_trainer_optimizer(trainer), &norm, err);
        *waits = ref_cuda_calls("cudaStreamSynchronize") - *waits;
    }
    if (s == SYN_OK) {
        const syn_tensor t = syn_optimizer_norm(syn_trainer_optimizer(trainer));
        s = syn_tensor_read(ctx, t, &from_tensor, sizeof from_tensor);
        if (s == SYN_OK && (double)from_tensor != norm)
            s = SYN_FAIL(err, SYN_E_FORMAT, "norm %g, or %g", norm, (double)from_tensor);
    }
    syn_trainer_free(trainer);
    syn_model_free(r.model);
    syn_ctx_free(ctx);
    return s;
}

static void test_one_wait_a_step(void) {
    uint64_t waits = 0;
    syn_error err = {0};
    CHECK_OK(syn_local_run(1, waiting, &waits, &err), err);
    if (ref_cuda_calls("cudaMalloc") > 0) CHECK_INT(waits, 1);
}

static const test_case cases[] = {
    {"steps", test_steps},
    {"a parameter that is no number", test_bad_parameter},
    {"a product that overflows", test_overflow},
    {"texts of one rank", test_bad_texts},
    {"one wait a step", test_one_wait_a_step},
};
TEST_MAIN(cases)
