/* Compares token selection on CUDA with the CPU: vocabularies of many blocks, ties, and masks. Both
   devices must draw the same tokens. */

#include "syntorch/base/half.h"
#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static int64_t vocabulary(void) {
    static const int64_t about[] = {1, 17, 256, 1024, 4096, 8192, 50257};
    const int64_t n = about[ref_int(0, 6)] + ref_int(-1, 1);
    return n > 0 ? n : 1;
}

/* Rows of logits. Some have few distinct values, some are partly masked. They are dense, or are the
   rows of the last of several tokens. */
static syn_tensor logits(both_run *r, int64_t rows, int64_t n) {
    const bool cut = ref_int(0, 1);
    const syn_dtype dtype = both_float();
    const syn_spec shape = {(int32_t)dtype, 3, {rows, cut ? 2 : 1, n}};
    const double spread = ref_int(0, 2) ? 8 : 0.5;
    const bool few = ref_int(0, 2) == 0, masked = ref_int(0, 2) == 0;
    const int64_t elems = syn_spec_elems(&shape);
    float *data = malloc((size_t)elems * sizeof *data);
    uint16_t *halves = malloc((size_t)elems * sizeof *halves);
    for (int64_t i = 0; i < elems; i++) {
        data[i] = (float)ref_real(-spread, spread);
        if (few) data[i] = (float)(int)data[i];
        if (masked && i % n != n / 2 && ref_int(0, 1)) data[i] = -INFINITY;
    }
    if (dtype != SYN_F32) syn_half_narrow(data, halves, (size_t)elems, dtype);
    const void *from = dtype == SYN_F32 ? (const void *)data : halves;
    syn_tensor x = syn_input(r->ctx, "logits", &shape, from);
    free(data);
    free(halves);
    x = syn_slice(r->ctx, x, 1, shape.dims[1] - 1, 1);
    return syn_reshape(r->ctx, x, (const int64_t[]){rows, n}, 2);
}

static void best(both_run *r) {
    const int64_t n = vocabulary();
    const int64_t k = ref_int(0, 2) ? ref_int(1, n < 60 ? n : 60) : ref_int(1, n < 3000 ? n : 3000);
    const syn_tensor x = logits(r, ref_int(1, n > 9000 ? 2 : 9), n);
    r->out[0] = syn_argmax(r->ctx, x);
    r->out[1] = syn_top_k(r->ctx, x, k, &r->out[2]);
    r->n = 3;
}

static void draws(both_run *r) {
    /* Sums of equal probabilities are never exactly equal to these values. If they were, rounding
       would decide, and the devices could differ. */
    static const double top_ps[] = {1, 1, 0.9513, 0.8971, 0.5137, 1e-9}, min_ps[] = {0, 0, 0.05, 1};
    static const double temperatures[] = {1, 0.7, 2, 1e-30, 1e30, 0};
    const int64_t n = vocabulary(), top_ks[] = {0, 0, 1, 50, n / 2 + 1, n};
    const syn_sampling how = {.temperature = temperatures[ref_int(0, 5)],
                              .top_k = top_ks[ref_int(0, 5)],
                              .top_p = top_ps[ref_int(0, 5)],
                              .seed = (uint64_t)ref_int(0, 1000),
                              .min_p = min_ps[ref_int(0, 3)]};
    const syn_tensor x = logits(r, ref_int(1, n > 9000 ? 2 : 9), n);
    for (r->n = 0; r->n < 3; r->n++) r->out[r->n] = syn_sample(r->ctx, x, &how, r->n);
}

static void penalties(both_run *r) {
    const int64_t n = vocabulary(), rows = ref_int(1, 4);
    const syn_tensor x = logits(r, rows, n);
    const syn_spec seen = {SYN_I32, 2, {rows, ref_int(0, 2) * 300}};
    const syn_tensor ids = both_wild(r->ctx, seen, -1, (double)n - 1);
    r->out[0] = syn_repetition_penalty(r->ctx, x, ids, ref_real(0.2, 2));
    r->n = 1;
}

/* NaN ranks below every number, except at index 0: no other value compares greater than it. */
static void test_not_numbers(void) {
    static const float x[4][3] = {{1, NAN, 2}, {NAN, 1, 2}, {NAN, NAN, NAN}, {NAN, NAN, 1}};
    static const int32_t want[4] = {2, 0, 0, 0};
    const syn_spec shape = {SYN_F32, 2, {4, 3}};
    int32_t got[2][4];
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int cuda = 0; cuda < 2; cuda++) {
        syn_ctx *ctx;
        CHECK_OK(syn_ctx_new(&ctx, cuda ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU, NULL, &err), err);
        const syn_tensor t = syn_input(ctx, "logits", &shape, x);
        const syn_sampling how = {.temperature = 1, .top_p = 1};
        CHECK(syn_tensor_read(ctx, syn_argmax(ctx, t), got[0], sizeof got[0]) == SYN_OK);
        CHECK(syn_tensor_read(ctx, syn_sample(ctx, t, &how, 0), got[1], sizeof got[1]) == SYN_OK);
        for (int i = 0; i < 4; i++) CHECK_INT(got[0][i], want[i]);
        for (int i = 0; i < 4; i++) CHECK_INT(got[1][i], 2);
        syn_ctx_free(ctx);
    }
}

static void test_best(void) {
    both_rounds(best, 30);
}
static void test_draws(void) {
    both_rounds(draws, 50);
}
static void test_penalties(void) {
    both_rounds(penalties, 20);
}

static const test_case cases[] = {{"best", test_best},
                                  {"draws", test_draws},
                                  {"penalties", test_penalties},
                                  {"not numbers", test_not_numbers}};
TEST_MAIN(cases)
