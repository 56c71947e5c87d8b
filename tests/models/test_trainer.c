/* Tests the trainer. Its steps must equal those of test_forgotten_training, which calls the parts
   manually. NaN and infinity must be reported, and training can continue afterwards. */
#include "models/training/trainer.h"
#include "syntorch/gradient.h"
#include "tests/support/device.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

enum { STEPS = 6, ACCIDENT = 3 };

/* What becomes NaN or infinite before step ACCIDENT, and the message that all ranks must report. */
typedef struct accident {
    const char *param; /* element 5 of this parameter is set to `value`; NULL: the loss weight of
                          rank 1 is set */
    float value;
    const char *sentence;
} accident;

/* When the results of a step are waited for: immediately, by the next step, or (with `ahead`) by a
   call of syn_trainer_settle after each step. */
typedef enum waiting_how { AT_ONCE, AHEAD, SETTLED } waiting_how;

typedef struct job {
    syn_plan shape;
    int passes;
    const accident *accident; /* NULL: no accident */
    waiting_how how;
    bool forget_microbatches, late_sums;
    double losses[STEPS];
    /* Numbers of bytes: of the rows of the last step, and peak of the whole run. */
    size_t rows, peak_bytes;
    uint64_t hash; /* hash of all steps */
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
    return syn_mul(ctx, loss, syn_input(ctx, "factor", &one, &r->job->accident->value));
}

/* Sets one element of a parameter and returns its previous value. */
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
    rank bad = *r; /* a copy, so that the microbatches of the next step are not affected */
    if (a->param) was = set(ctx, a->param, a->value);
    else bad.bad_weight = syn_ctx_rank(ctx) == 1;
    const int64_t before = syn_trainer_last_result(trainer).steps;
    syn_status s = syn_trainer_step(trainer, pass, &bad, 0.001, &loss, &inner);
    if (s == SYN_OK && r->job->how == AHEAD)
        s = syn_trainer_step(trainer, pass, r, 0.001, &loss, &inner);
    if (s == SYN_OK && r->job->how == SETTLED) s = syn_trainer_settle(trainer, &inner);
    if (syn_trainer_last_result(trainer).steps > before + (r->job->how == AHEAD))
        return SYN_FAIL(err, SYN_E_FORMAT, "a step that failed is known");
    if (s != SYN_E_INVALID || strcmp(inner.text, a->sentence) != 0)
        return SYN_FAIL(err, SYN_E_FORMAT, "got \"%s\", want \"%s\"", inner.text, a->sentence);
    if (a->param) set(ctx, a->param, was);
    return syn_ctx_check(ctx, err);
}

/* Stores the loss of the last step whose results are known. This loss covers all ranks. */
static syn_step_result note(job *j, const syn_comm *comm, const syn_trainer *trainer) {
    const syn_step_result known = syn_trainer_last_result(trainer);
    if (known.steps > 0 && comm->rank == 0) j->losses[known.steps - 1] = known.loss;
    return known;
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
                                     .microbatches = j->passes,
                                     .late_sums = j->late_sums,
                                     .ahead = j->how != AT_ONCE};
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_status s = syn_model_new(&r.model, ctx, &small_gpt, &options, err);
    if (s == SYN_OK) s = syn_trainer_new(&trainer, ctx, &how, err);
    if (s == SYN_OK) syn_trainer_forget_microbatches(trainer, j->forget_microbatches);
    for (int i = 0; i < STEPS && s == SYN_OK; i++) {
        double loss = 0;
        if (i == ACCIDENT && j->accident) s = have_accident(&r, trainer, err);
        if (s == SYN_OK) s = syn_trainer_step(trainer, pass, &r, 0.001, &loss, err);
        note(j, comm, trainer);
        if (s == SYN_OK && (j->how == SETTLED || i == STEPS - 1))
            s = syn_trainer_settle(trainer, err);
        const syn_step_result known = note(j, comm, trainer);
        if (s == SYN_OK && j->how == AT_ONCE && loss != known.loss)
            s = SYN_FAIL(err, SYN_E_FORMAT, "loss %g, or %g", loss, known.loss);
    }
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    if (comm->rank == 0) {
        j->rows = syn_ctx_trace(ctx)->n_nodes;
        j->peak_bytes = syn_ctx_peak_bytes(ctx);
        j->hash = syn_trace_hash(syn_ctx_trace(ctx));
    }
    syn_trainer_free(trainer);
    syn_model_free(r.model);
    syn_ctx_free(ctx);
    return s;
}

/* All microbatches of a step have the same samples, so the step's loss must be the loss of a manual
   step times the number of microbatches. */
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

/* The gradients of two ranks have the same sums during the backward pass and after it. */
static void test_late_sums(void) {
    job early = {.shape = {.tp = 1, .dp = 2}, .passes = 2}, late = early;
    syn_error err = {0};
    late.late_sums = true;
    CHECK_OK(syn_local_run(2, train, &early, &err), err);
    CHECK_OK(syn_local_run(2, train, &late, &err), err);
    CHECK(early.rows == late.rows && early.hash != late.hash);
    for (int i = 0; i < STEPS; i++) CHECK(early.losses[i] == late.losses[i]);
}

/* Forgetting the rows of microbatches changes neither losses nor hash. A step then has the rows of
   one microbatch. Its memory does not grow with the number of microbatches in either case. */
static void test_many_passes(void) {
    job few = {.shape = {.tp = 1, .dp = 1}, .passes = 3, .forget_microbatches = true};
    job held = {.shape = few.shape, .passes = 5};
    job many = {.shape = few.shape, .passes = 5, .forget_microbatches = true};
    syn_error err = {0};
    CHECK_OK(syn_local_run(1, train, &few, &err), err);
    CHECK_OK(syn_local_run(1, train, &held, &err), err);
    CHECK_OK(syn_local_run(1, train, &many, &err), err);
    for (int i = 0; i < STEPS; i++) CHECK(many.losses[i] == held.losses[i]);
    CHECK(many.hash == held.hash);
    CHECK_INT(many.rows, few.rows);
    CHECK(held.rows > 2 * many.rows);
    CHECK_INT(many.peak_bytes, few.peak_bytes);
    CHECK_INT(held.peak_bytes, few.peak_bytes);
}

static void check_accident(syn_plan shape, const accident *a) {
    job without = {.shape = shape};
    syn_error err = {0};
    CHECK_OK(syn_local_run(shape.tp * shape.dp, train, &without, &err), err);
    for (int how = AT_ONCE; how <= SETTLED; how++) {
        job with = {.shape = shape, .accident = a, .how = (waiting_how)how};
        err.code = SYN_OK;
        CHECK_OK(syn_local_run(shape.tp * shape.dp, train, &with, &err), err);
        for (int i = 0; i < STEPS; i++) CHECK(with.losses[i] == without.losses[i]);
    }
}

static void test_bad_parameter(void) {
    const accident a = {"h.1.mlp.c_fc.bias", NAN,
                        "step 4: the loss is NaN; first on rank 0: tensor 'h.1.mlp.c_fc.bias', "
                        "set by the caller, has NaN at element 5"};
    check_accident((syn_plan){.tp = 1, .dp = 1}, &a);
    check_accident((syn_plan){.tp = 1, .dp = 2}, &a);
}

static void test_overflow(void) {
    const accident a = {
        "h.0.ln_2.weight", 3e38f,
        "step 4: the loss is NaN; first on rank 0: tensor 'h.0.mlp/ln_2:0', output of "
        "layernorm in h.0.mlp (forward), has infinity at element 453"};
    check_accident((syn_plan){.tp = 1, .dp = 1}, &a);
    check_accident((syn_plan){.tp = 2, .dp = 2}, &a);
}

static void test_bad_texts(void) {
    const accident a = {NULL, NAN,
                        "step 4: the loss is NaN; first on rank 1: tensor 'factor', set by the "
                        "caller, has NaN at element 0"};
    check_accident((syn_plan){.tp = 1, .dp = 2}, &a);
}

/* The loss and the gradients are finite, but the sum of the gradients' squares overflows. */
static void test_large_gradients(void) {
    const accident a = {NULL, 3e37f,
                        "step 4: the gradient of 'wte.weight' is infinite or too large"};
    check_accident((syn_plan){.tp = 1, .dp = 2}, &a);
}

typedef struct waits {
    waiting_how how;
    uint64_t device, events; /* counted in the last step */
} waits;

/* On a device that counts reads, loss and norm are read with one wait for the whole device or, with
   `ahead`, with one wait for those reads that the previous step queued. */
static syn_status waiting(syn_comm *comm, void *arg, syn_error *err) {
    waits *w = arg;
    const job j = {.shape = {.tp = 1, .dp = 1}};
    rank r = {.job = &j};
    syn_ctx *ctx = NULL;
    syn_trainer *trainer = NULL;
    double loss, norm = 0;
    float from_tensor;
    const syn_model_options options = {.tp = NULL};
    const syn_trainer_options how = {.optimizer = {.max_grad_norm = 0.1},
                                     .ahead = w->how != AT_ONCE};
    SYN_TRY(syn_mesh_open(&r.mesh, comm, &j.shape, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_status s = syn_model_new(&r.model, ctx, &small_gpt, &options, err);
    if (s == SYN_OK) s = syn_trainer_new(&trainer, ctx, &how, err);
    for (int i = 0; i < STEPS && s == SYN_OK; i++) {
        w->device = ref_cuda_calls("cudaStreamSynchronize");
        w->events = ref_cuda_calls("cudaEventSynchronize");
        s = syn_trainer_step(trainer, pass, &r, 0.001, &loss, err);
        if (s == SYN_OK && w->how == AT_ONCE)
            s = syn_optimizer_norm_value(syn_trainer_optimizer(trainer), &norm, err);
        w->device = ref_cuda_calls("cudaStreamSynchronize") - w->device;
        w->events = ref_cuda_calls("cudaEventSynchronize") - w->events;
    }
    if (s == SYN_OK) s = syn_trainer_settle(trainer, err);
    if (w->how == AT_ONCE && norm != syn_trainer_last_result(trainer).grad_norm)
        s = SYN_FAIL(err, SYN_E_FORMAT, "norm %g, or %g", norm,
                     syn_trainer_last_result(trainer).grad_norm);
    norm = syn_trainer_last_result(trainer).grad_norm;
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

static void test_waits(void) {
    for (int how = AT_ONCE; how <= AHEAD; how++) {
        waits w = {.how = (waiting_how)how};
        syn_error err = {0};
        CHECK_OK(syn_local_run(1, waiting, &w, &err), err);
        if (ref_cuda_calls("cudaMalloc") == 0) continue;
        CHECK_INT(w.device, how == AT_ONCE);
        CHECK_INT(w.events, how == AHEAD);
    }
}

/* All ways of waiting give the same losses, on one rank and on four. The results of the last step
   are waited for at the end. */
static void test_ahead(void) {
    for (int ranks = 1; ranks <= 4; ranks *= 4) {
        job jobs[3];
        for (int how = AT_ONCE; how <= SETTLED; how++) {
            syn_error err = {0};
            jobs[how] = (job){.how = (waiting_how)how, .passes = 2};
            jobs[how].shape = (syn_plan){.tp = ranks / 2 + ranks % 2, .dp = ranks > 1 ? 2 : 1};
            CHECK_OK(syn_local_run(ranks, train, &jobs[how], &err), err);
            for (int i = 0; i < STEPS; i++) CHECK(jobs[how].losses[i] == jobs[0].losses[i]);
        }
    }
}

static const test_case cases[] = {
    {"steps", test_steps},
    {"late sums", test_late_sums},
    {"many passes", test_many_passes},
    {"a parameter that is no number", test_bad_parameter},
    {"a product that overflows", test_overflow},
    {"texts of one rank", test_bad_texts},
    {"gradients that are too large", test_large_gradients},
    {"waits", test_waits},
    {"steps ahead", test_ahead},
};
TEST_MAIN(cases)
