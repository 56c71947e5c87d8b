/* Compares fused attention on CUDA with the CPU: sizes near those of tiles, all head_dims and
   dtypes, layouts with and without packs of 16 bytes, few queries over many keys, and grouped-query
   attention. */
#include "ops/rules.h"
#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

typedef struct heads {
    syn_tensor q, k, v, dout;
    int64_t t, s;
    syn_dtype dtype;
    syn_attention_options how;
} heads;

/* Queries or keys in a layout that models use: dense rows in any order in memory. */
static syn_tensor rows(both_run *r, syn_dtype dtype, int64_t b, int64_t h, int64_t t, int64_t d) {
    const syn_spec heads_first = {(int32_t)dtype, 4, {b, h, t, d}},
                   tokens_first = {(int32_t)dtype, 4, {b, t, h, d}};
    if (ref_int(0, 2) == 0) return both_wild(r->ctx, heads_first, -1, 1);
    if (ref_int(0, 2) == 0) return both_dense(r->ctx, heads_first, -1, 1);
    const int order[4] = {0, 2, 1, 3};
    return syn_permute(r->ctx, both_dense(r->ctx, tokens_first, -1, 1), order, 4);
}

/* Random heads. few and many: largest numbers of queries and of keys. most: largest value of batch
   x heads x queries x keys x head_dim. */
static heads some(both_run *r, int64_t few, int64_t many, int64_t most) {
    static const int64_t depths[] = {1, 8, 16, 64, 80, 96, 128, 256, 257, 320, 512, 1000};
    heads x = {.dtype = both_float()};
    const int64_t d = ref_int(0, 2) ? depths[ref_int(0, 11)] : ref_int(1, 300),
                  values = ref_int(0, 2)   ? d
                           : ref_int(0, 1) ? depths[ref_int(0, 11)]
                                           : ref_int(1, 300);
    const int64_t g = ref_int(1, 2), h = g * (ref_int(0, 1) ? 1 : ref_int(2, 4));
    int64_t b = ref_int(1, 2);
    x.t = both_size(few);
    x.s = both_size(many);
    while (b * h * x.t * x.s * d > most && (x.t > 1 || x.s > 1)) {
        x.t = (x.t + 1) / 2;
        x.s = x.s > few ? x.s - x.s / 3 : x.s;
        b = 1;
    }
    x.q = rows(r, x.dtype, b, h, x.t, d);
    x.k = rows(r, x.dtype, b, g, x.s, d);
    x.v = rows(r, x.dtype, b, g, x.s, values);
    x.dout = rows(r, x.dtype, b, x.t, h, values);
    x.how.scale = 2 / sqrt((double)d);
    x.how.causal = ref_int(0, 2) != 0;
    x.how.offset = ref_int(0, 2) ? x.s - x.t : ref_int(-20, x.s + 5);
    if (x.how.causal && ref_int(0, 2) == 0) x.how.window = ref_int(1, x.s + 5);
    if (ref_int(0, 2) == 0) {
        const syn_spec shape = {SYN_F32, 2, {b, x.s}};
        float *mask = malloc((size_t)(b * x.s) * sizeof *mask);
        for (int64_t i = 0; i < b * x.s; i++)
            mask[i] = ref_int(0, 2) ? (float)ref_real(-2, 0) : -INFINITY;
        x.how.mask = syn_input(r->ctx, "mask", &shape, mask);
        free(mask);
    }
    if (ref_int(0, 1))
        x.how.sinks = both_dense(r->ctx, (syn_spec){(int32_t)x.dtype, 1, {h}}, -2, 2);
    r->tol = x.dtype == SYN_F32 ? 1e-5 : x.dtype == SYN_F16 ? 1e-3 : 8e-3;
    return x;
}

static void forward_of(both_run *r, heads x) {
    const syn_attention_options *how = &x.how;
    r->out[0] = how->sinks.id && how->causal
                    ? syn_attention_sinks(r->ctx, x.q, x.k, x.v, how->mask, how->sinks, how->scale,
                                          how->offset, how->window)
                : how->window ? syn_attention_window(r->ctx, x.q, x.k, x.v, how->mask, how->scale,
                                                     how->offset, how->window)
                              : syn_attention(r->ctx, x.q, x.k, x.v, how->mask, how->scale,
                                              how->causal, how->offset);
    r->n = 1;
}
static void forward(both_run *r) {
    forward_of(r, some(r, 300, 300, 1000000));
}
static void few_queries(both_run *r) {
    forward_of(r, some(r, 8, 4096, 1000000));
}

/* Computes the result and the log-sum-exp. in and attr receive the inputs and attributes of the
   gradient op. The last attribute is the window, or 0. */
static int train(both_run *r, heads *x, syn_tensor in[8], syn_attr attr[10]) {
    const int64_t b = syn_tensor_dim(r->ctx, x->q, 0);
    int n = 3;
    in[0] = syn_contiguous(r->ctx, x->q);
    in[1] = syn_contiguous(r->ctx, x->k);
    in[2] = syn_contiguous(r->ctx, x->v);
    if (ref_int(0, 1)) { /* dense only in the last dimension */
        const int order[4] = {0, 2, 1, 3};
        for (int i = 0; i < 3; i++)
            in[i] = syn_permute(
                r->ctx, syn_contiguous(r->ctx, syn_permute(r->ctx, in[i], order, 4)), order, 4);
    }
    if (x->how.sinks.id) in[n++] = x->how.sinks;
    if (x->how.mask.id) in[n++] = x->how.mask;
    const bool drop = ref_int(0, 1), keys = drop && ref_int(0, 1);
    if (keys) in[n++] = both_dense(r->ctx, (syn_spec){SYN_I32, 1, {b}}, -9, 9);
    const syn_attr all[9] = {{.f = x->how.scale},   {.i = x->how.causal},    {.i = x->how.offset},
                             {.f = drop ? 0.3 : 0}, {.i = ref_int(0, 1000)}, {.i = ref_int(0, 9)},
                             {.i = ref_int(0, 99)}, {.i = ref_int(0, 99)},   {.i = x->how.window}};
    memcpy(attr, all, sizeof all);
    syn__call_op(r->ctx, SYN_OP_ATTENTION_TRAIN, in, n, attr, x->how.window ? 9 : 8, NULL, r->out);
    return n;
}
static void training(both_run *r) {
    heads x = some(r, 200, 200, 1000000);
    syn_tensor in[8];
    syn_attr attr[10];
    train(r, &x, in, attr);
    r->n = 2;
}

/* Gradients are sums over queries, whose weights were rounded to 16 bits. */
static void gradients(both_run *r) {
    heads x = some(r, 200, 200, 1000000);
    syn_tensor in[8], all[8];
    syn_attr attr[10];
    const int n = train(r, &x, in, attr);
    memcpy(all, in, sizeof in);
    all[3] = r->out[0];
    all[4] = r->out[1];
    all[5] = syn_contiguous(r->ctx, x.dout);
    const int sinks = x.how.sinks.id != 0;
    for (int i = 3 + sinks; i < n; i++) all[i + 3 - sinks] = in[i];
    attr[9].i = attr[8].i; /* the window's attribute follows that of the requested gradients */
    attr[8].i = ref_int(0, 1) ? 7 : ref_int(1, 7);
    syn__call_op(r->ctx, SYN_OP_ATTENTION_GRAD, all, n - sinks + 3, attr, x.how.window ? 10 : 9,
                 NULL, r->out);
    r->n = 3;
    if (sinks) {
        const syn_tensor of_sinks[4] = {all[3], all[4], all[5], in[3]};
        syn__call_op(r->ctx, SYN_OP_SINKS_GRAD, of_sinks, 4, NULL, 0, NULL, &r->out[r->n++]);
    }
    r->tol *= x.dtype == SYN_F32 ? 1 + (double)x.t / 100 : 1 + sqrt((double)x.t) / 2;
}

static void test_forward(void) {
    both_rounds(forward, 80);
}
static void test_few_queries(void) {
    both_rounds(few_queries, 50);
}
static void test_training(void) {
    both_rounds(training, 60);
}
static void test_gradients(void) {
    both_rounds(gradients, 60);
}

/* Simulates devices that have tensor cores only for f16, and devices with less shared memory. Only
   the emulated device can have such capabilities. */
static void test_older_devices(void) {
    static const char *const capabilities[] = {"7.5", "8.6"};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int i = 0; i < 2; i++) {
        setenv("SYN_EMULATED_CAPABILITY", capabilities[i], 1);
        both_rounds(forward, 12);
        both_rounds(few_queries, 6);
        both_rounds(gradients, 12);
    }
    unsetenv("SYN_EMULATED_CAPABILITY");
}

/* Simulates a newer device, for which kernels are compiled from an older device's PTX. */
static void test_kernels_from_older_ptx(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    setenv("SYN_EMULATED_PTX", "7.5", 1);
    both_rounds(forward, 12);
    both_rounds(few_queries, 6);
    both_rounds(gradients, 12);
    unsetenv("SYN_EMULATED_PTX");
}

static const test_case cases[] = {{"forward", test_forward},
                                  {"few queries", test_few_queries},
                                  {"training", test_training},
                                  {"gradients", test_gradients},
                                  {"older devices", test_older_devices},
                                  {"kernels from older PTX", test_kernels_from_older_ptx}};
TEST_MAIN(cases)
