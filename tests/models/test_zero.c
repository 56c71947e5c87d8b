/* Tests ZeRO: the sizes of buckets, compared with hand-counted ones by the rules of Megatron-LM and
   PyTorch; the bytes of the state that each rank keeps; and the gradients between passes. */
#include "models/training/data_parallel_private.h"
#include "models/training/optimizer.h"
#include "syntorch/context_private.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

/* ---- Sizes of buckets ---- */

enum { MAX_PARAMS = 8, MAX_BUCKETS = 8 };

typedef struct sizes {
    syn_bucket_rule rule;
    int dp, zero;
    bool later_stage;
    int64_t params[MAX_PARAMS]; /* elements, in order of creation; 0: end */
    int64_t parts[MAX_BUCKETS]; /* per bucket; 0: end */
    size_t chunks[2];           /* parameters of the first chunk, and of both; 0: one chunk */
} sizes;

static const sizes all_sizes[] = {
    /* One bucket, in which each parameter begins at a multiple of 64: 1000 + 24, 64, 100 = 1188
       elements, rounded up to lcm(3, 128) = 384. */
    {SYN_BUCKETS_MEGATRON, 3, 1, false, {100, 64, 1000}, {1536 / 3}, {0}},
    {SYN_BUCKETS_MEGATRON, 2, 1, false, {128, 128}, {128}, {0}},
    {SYN_BUCKETS_MEGATRON, 2, 2, false, {129}, {128}, {0}},
    /* The first bucket is full with its second parameter. */
    {SYN_BUCKETS_MEGATRON, 4, 1, false, {10, 39999990, 20}, {(40000128) / 4, 128 / 4}, {0}},
    {SYN_BUCKETS_MEGATRON, 4, 1, true, {10, 39999990, 20}, {40000128 / 4}, {0}},
    /* 48 ranks: a bucket has 48 million elements; lcm(48, 128) = 384. */
    {SYN_BUCKETS_MEGATRON, 48, 1, false, {10, 39999990, 20}, {40000128 / 48}, {0}},
    {SYN_BUCKETS_MEGATRON, 48, 1, false, {10, 47999990, 20}, {48000384 / 48, 384 / 48}, {0}},
    /* 1 MiB is 262,144 elements, and 25 MiB are 6,553,600. */
    {SYN_BUCKETS_PYTORCH, 3, 1, false, {5, 6553600, 262143, 1}, {262146 / 3, 6553602 / 3, 2}, {0}},
    {SYN_BUCKETS_PYTORCH, 4, 2, false, {7, 9}, {4}, {0}},
    {SYN_BUCKETS_NONE, 2, 1, false, {5, 6553600, 262143, 1}, {(5 + 6553600 + 262144 + 1) / 2}, {0}},
    /* No bucket has parameters of two chunks. */
    {SYN_BUCKETS_NONE, 2, 1, false, {7, 9, 4}, {2, 8}, {2, 3}},
    {SYN_BUCKETS_MEGATRON, 2, 1, false, {100, 64, 1000}, {1024 / 2, 256 / 2}, {2, 3}},
};

static void check_sizes(const sizes *s, size_t number) {
    syn_error err = {0};
    syn_comm *comm;
    syn_group *dp;
    syn_ctx *ctx;
    syn__buckets buckets;
    int32_t ranks[64];
    size_t placed = 0, n = 0;
    for (int32_t r = 0; r < 64; r++) ranks[r] = r;
    CHECK_OK(syn_comm_fake_new(&comm, 0, s->dp, &err), err);
    CHECK_OK(syn_comm_open_group(comm, 1, "dp0", ranks, s->dp, &dp, &err), err);
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, &err), err);
    for (; n < MAX_PARAMS && s->params[n]; n++) {
        char name[16];
        snprintf(name, sizeof name, "p%zu", n);
        const syn_spec spec = {SYN_F32, 1, {s->params[n]}};
        syn_param(ctx, name, &spec, SYN_WHOLE, SYN_INIT_ZERO, 0, -1, 0);
    }
    const syn_data_parallel_options how = {.dp = dp,
                                           .zero = s->zero,
                                           .buckets = s->rule,
                                           .first_stage = !s->later_stage,
                                           .chunks = s->chunks,
                                           .n_chunks = s->chunks[0] ? 2 : 0};
    CHECK_OK(syn__buckets_divide(&buckets, ctx, &how, &err), err);
    for (size_t i = 0; i < buckets.n; i++) {
        CHECK_MSG(buckets.at[i].part == s->parts[i], "case %zu, bucket %zu: %lld", number, i,
                  (long long)buckets.at[i].part);
        placed += (size_t)buckets.at[i].n;
    }
    CHECK(placed == n && s->parts[buckets.n] == 0);
    syn__buckets_free(&buckets);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
}

static void sizes_of_buckets(void) {
    for (size_t i = 0; i < COUNT(all_sizes); i++) check_sizes(&all_sizes[i], i);
}

/* Parameters that decay come first in a bucket. */
static void decayed_parameters_come_first(void) {
    syn_error err = {0};
    syn_comm *comm;
    syn_group *dp;
    syn_ctx *ctx;
    syn__buckets b;
    CHECK_OK(syn_comm_fake_new(&comm, 1, 2, &err), err);
    CHECK_OK(syn_comm_open_group(comm, 1, "dp0", (const int32_t[]){0, 1}, 2, &dp, &err), err);
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, &err), err);
    static const struct {
        const char *name;
        syn_spec spec;
    } params[] = {{"a", {SYN_F32, 2, {2, 3}}},
                  {"a.bias", {SYN_F32, 1, {3}}},
                  {"b", {SYN_F32, 2, {4, 5}}},
                  {"b.bias", {SYN_F32, 1, {5}}}};
    for (size_t i = 0; i < COUNT(params); i++)
        syn_param(ctx, params[i].name, &params[i].spec, SYN_WHOLE, SYN_INIT_ZERO, 0, -1, 0);
    const syn_data_parallel_options how = {.dp = dp, .zero = 1, .first_stage = true};
    CHECK_OK(syn__buckets_divide(&b, ctx, &how, &err), err);
    CHECK(b.n == 1 && b.at[0].decayed == 26 && b.at[0].part == 17);
    CHECK(b.order[0] == 2 && b.order[1] == 0 && b.order[2] == 3 && b.order[3] == 1);
    CHECK_INT(syn__bucket_offset(&b, ctx, 3), 26);
    syn__buckets_free(&b);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
}

/* ---- State ---- */

typedef struct training {
    syn_device device;
    syn_dtype dtype, reduce_dtype;
    int zero;
    uint64_t hash[4];
    size_t peak[4];
} training;

static const int64_t shapes[][2] = {{64, 48}, {48, 32}, {32, 16}};

/* The bytes of all states and parameters that have a buffer. */
static uint64_t state_bytes(const syn_ctx *ctx) {
    const syn_trace *t = syn_ctx_trace(ctx);
    uint64_t bytes = 0;
    for (uint32_t row = 1; row < t->n_tensors; row++)
        if (t->tensors[row].base == row && syn__storage(ctx, row) &&
            !syn__storage(ctx, row)->evicted &&
            (t->tensors[row].flags & (SYN_TENSOR_STATE | SYN_TENSOR_PARAM)))
            bytes += syn_spec_bytes(syn_trace_spec(t, row));
    return bytes;
}

static uint64_t gradient_bytes(const syn_ctx *ctx) {
    const syn__gradients *g = &ctx->gradients;
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->n_leaves; i++)
        if (g->leaves[i].grad)
            bytes +=
                syn_spec_bytes(syn_tensor_spec(ctx, (syn_tensor){g->leaves[i].grad, ctx->tag}));
    return bytes;
}

/* Two microbatches and a step. Checks after each microbatch which gradients exist, and after
   creation and at the end which state exists (clusters.md, section 6). */
static syn_status train(const test_rank *me, training *t, const syn_tensor *weights,
                        syn_data_parallel *parallel, uint64_t elems, syn_error *err) {
    syn_ctx *ctx = me->ctx;
    syn_optimizer *optimizer;
    const uint64_t d = (uint64_t)me->tp->size, wide = syn_dtype_bytes(t->dtype);
    const uint64_t params = t->zero < 3 ? wide * elems : t->dtype == SYN_F32 ? 0 : 2 * elems / d;
    const syn_optimizer_options adamw = {
        .max_grad_norm = 1, .weight_decay = 0.1, .norm = me->tp, .parallel = parallel};
    SYN_TRY(syn_optimizer_new(&optimizer, ctx, &adamw, err));
    if (state_bytes(ctx) != params + 12 * elems / d)
        SYN_FAIL(err, SYN_E_INVALID, "a rank has %llu bytes of state",
                 (unsigned long long)state_bytes(ctx));
    for (int pass = 0; pass < 2; pass++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_spec in = {(int32_t)t->dtype, 2, {5, shapes[0][0]}};
        syn_tensor x = syn_state(ctx, "x", &in);
        for (int i = 0; i < 3; i++)
            x = syn_linear(ctx, x, syn_current_version(ctx, weights[i]), SYN_NO_BIAS, false);
        syn_data_parallel_sync(parallel, pass == 1 || t->zero >= 2);
        const syn_spec targets = {SYN_I32, 1, {5}};
        syn_backward(ctx, syn_cross_entropy(ctx, x, syn_input(ctx, "targets", &targets, NULL),
                                            SYN_MEAN, shapes[2][1]));
        syn__parallel_store(parallel);
        syn_release(ctx, mark, NULL, 0);
        const uint64_t want = pass == 1 || t->zero >= 2 ? 4 * elems / d : 4 * elems;
        if (syn_ctx_status(ctx) == SYN_OK && gradient_bytes(ctx) != want)
            SYN_FAIL(err, SYN_E_INVALID, "pass %d: %llu bytes of gradients, not %llu", pass,
                     (unsigned long long)gradient_bytes(ctx), (unsigned long long)want);
    }
    syn_status s = syn_data_parallel_check(parallel, err);
    if (s == SYN_OK) s = syn_optimizer_step(optimizer, 0.01, err);
    syn__parallel_evict_all(parallel);
    if (s == SYN_OK && gradient_bytes(ctx) != 0)
        s = SYN_FAIL(err, SYN_E_INVALID, "gradients are left");
    if (s == SYN_OK && state_bytes(ctx) != params + 12 * elems / d)
        s = SYN_FAIL(err, SYN_E_INVALID, "a rank has %llu bytes of state at the end",
                     (unsigned long long)state_bytes(ctx));
    if (s == SYN_OK && syn_ctx_sync(ctx) != SYN_OK) s = syn_ctx_check(ctx, err);
    t->hash[me->index] = syn_trace_hash(syn_ctx_trace(ctx));
    t->peak[me->index] = syn_ctx_peak_bytes(ctx);
    syn_optimizer_free(optimizer);
    return s != SYN_OK ? s : err->code;
}

/* Three linear layers. */
static syn_status train_rank(const test_rank *me, void *arg, syn_error *err) {
    training *t = arg;
    syn_ctx *ctx = me->ctx;
    syn_tensor weights[3];
    syn_data_parallel *parallel;
    uint64_t elems = 0;
    static const uint32_t units[3] = {0, 1, 2};
    if (t->zero == 3) syn_ctx_evict_params(ctx);
    for (int i = 0; i < 3; i++) {
        const syn_spec spec = {(int32_t)t->dtype, 2, {shapes[i][0], shapes[i][1]}};
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        weights[i] = syn_param(ctx, name, &spec, SYN_WHOLE, SYN_INIT_NORMAL, 0.1, -1, 3);
        elems += (uint64_t)syn_spec_elems(&spec);
    }
    const syn_data_parallel_options how = {.dp = me->tp,
                                           .zero = t->zero,
                                           .reduce_dtype = t->reduce_dtype,
                                           .units = units,
                                           .n_units = 3,
                                           .head = 2};
    SYN_TRY(syn_data_parallel_new(&parallel, ctx, &how, err));
    const syn_status status = train(me, t, weights, parallel, elems, err);
    syn_data_parallel_free(parallel);
    return status;
}

/* Each rank keeps whole weights (with ZeRO 3: 1/d of them), 1/d of the masters and moments and,
   after a scatter, 1/d of the gradients. A run on meta has the same rows and the same peak. */
static void each_rank_keeps_its_part(void) {
    for (int zero = 1; zero <= 3; zero++)
        for (int k = 0; k < 4; k++)
            for (int d = 2; d <= 4; d += 2) {
                syn_error err = {0};
                training cpu = {.dtype = k % 2 ? SYN_BF16 : SYN_F32,
                                .reduce_dtype = k / 2 ? SYN_BF16 : SYN_F32,
                                .zero = zero};
                training meta = cpu;
                uint64_t hash[4];
                CHECK_OK(run_ranks(d, train_rank, &cpu, &err), err);
                CHECK(trace_hashes(d, SYN_DEVICE_META, WITHOUT_TRANSPORT, train_rank, &meta, hash));
                for (int r = 0; r < d; r++)
                    CHECK(meta.hash[r] == cpu.hash[r] && meta.peak[r] == cpu.peak[r]);
            }
}

/* ---- Sums in bf16 ---- */

typedef struct sums {
    int zero;
    syn_dtype reduce_dtype;
    float found[2][4];
} sums;

/* The gradients of the two ranks. bf16 numbers have 8 bits, so numbers from 1 to 2 are rounded to
   multiples of 2^-7, ties to the even one, and numbers from 256 to multiples of 2. */
static const float grads[2][4] = {{1 + 0x1p-8f, 1 + 0x3p-8f, 256, 1}, {1, 0, 1, -1}};
static const float summed[2][4] = {{2 + 0x1p-8f, 1 + 0x3p-8f, 257, 0}, {2, 1 + 0x1p-6f, 256, 0}};

/* The gradient of w is this rank's row of `grads`. */
static syn_status sum_rank(const test_rank *me, void *arg, syn_error *err) {
    static const float one[4] = {1, 1, 1, 1};
    static const uint32_t unit = 0;
    const syn_spec spec = {SYN_F32, 1, {4}};
    sums *t = arg;
    syn_ctx *ctx = me->ctx;
    syn_data_parallel *parallel;
    const syn_data_parallel_options how = {.dp = me->tp,
                                           .zero = t->zero,
                                           .reduce_dtype = t->reduce_dtype,
                                           .units = &unit,
                                           .n_units = 1};
    if (t->zero == 3) syn_ctx_evict_params(ctx);
    const syn_tensor w = syn_param(ctx, "w", &spec, SYN_WHOLE, SYN_INIT_ZERO, 0, -1, 0);
    SYN_TRY(syn_data_parallel_new(&parallel, ctx, &how, err));
    const syn_tensor y =
        syn_mul(ctx, syn_current_version(ctx, w), syn_input(ctx, "grad", &spec, grads[me->index]));
    const syn_tensor dy = syn_input(ctx, "one", &spec, one);
    syn_backward_from(ctx, &y, &dy, 1);
    syn_status s = syn_data_parallel_check(parallel, err);
    const bool divided = t->zero > 0;
    const syn_tensor of = divided ? *syn__parallel_part(parallel, 0) : syn_current_version(ctx, w);
    const size_t n = divided ? 2 : 4;
    float *found = t->found[me->index] + (divided ? 2 * me->index : 0);
    if (s == SYN_OK && syn_tensor_read_f32(ctx, syn_grad(ctx, of), found, n) != SYN_OK)
        s = syn_ctx_check(ctx, err);
    syn_data_parallel_free(parallel);
    return s;
}

/* Each rank rounds its gradients, and their sum is rounded. */
static void gradients_are_summed_in_the_dtype(void) {
    for (int zero = 0; zero <= 3; zero++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            sums t = {.zero = zero, .reduce_dtype = bf16 ? SYN_BF16 : SYN_F32};
            syn_error err = {0};
            CHECK_OK(run_ranks(2, sum_rank, &t, &err), err);
            for (int i = 0; i < 4; i++)
                CHECK_NEAR(t.found[zero > 0 ? i / 2 : i % 2][i], summed[bf16][i], 0);
        }
}

/* ---- Failures ---- */

static syn_status train_ranks(void *arg, syn_error *err) {
    return run_ranks(2, train_rank, arg, err);
}

static void out_of_memory_is_reported(void) {
    for (int zero = 1; zero <= 3; zero += 2) {
        training t = {.dtype = SYN_BF16, .reduce_dtype = SYN_BF16, .zero = zero};
        CHECK(test_without_memory(train_ranks, &t) > 50);
    }
}

static void invalid_options_are_refused(void) {
    syn_error err = {0};
    syn_ctx *ctx;
    syn_data_parallel *p;
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    CHECK_INT(syn_data_parallel_new(&p, ctx, &(syn_data_parallel_options){.zero = 4}, &err),
              SYN_E_INVALID);
    CHECK_HAS(err.text, "ZeRO has no stage 4");
    err.code = SYN_OK;
    CHECK_INT(syn_data_parallel_new(&p, ctx, &(syn_data_parallel_options){.zero = 3}, &err),
              SYN_E_INVALID);
    CHECK_HAS(err.text, "ZeRO 3 needs units and data-parallel ranks");
    err.code = SYN_OK;
    CHECK_INT(
        syn_data_parallel_new(&p, ctx, &(syn_data_parallel_options){.reduce_dtype = SYN_F16}, &err),
        SYN_E_INVALID);
    CHECK_HAS(err.text, "gradients are summed in f32 or bf16, not f16");
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"sizes_of_buckets", sizes_of_buckets},
    {"decayed_parameters_come_first", decayed_parameters_come_first},
    {"each_rank_keeps_its_part", each_rank_keeps_its_part},
    {"gradients_are_summed_in_the_dtype", gradients_are_summed_in_the_dtype},
    {"out_of_memory_is_reported", out_of_memory_is_reported},
    {"invalid_options_are_refused", invalid_options_are_refused},
};

TEST_MAIN(cases)
