/* Tests training that forgets its steps. Memory must stay constant for any number of steps. Losses,
   parameters and the trace's hash must be the same as in a run that keeps all steps. */
#include "syntorch/context_private.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>
#define HAVE_MALLINFO2
#endif

enum { STEPS = 1000, FIRST = 20 };

/* The number of bytes that the process has allocated; 0 if it is unknown, for example under a
   sanitizer. */
static size_t allocated(void) {
#ifdef HAVE_MALLINFO2
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

/* Bytes in use before the backward passes of step FIRST, and the first later step that uses more
   (0: none). */
static size_t rows, data, total;
static int growth;

static void watch(syn_ctx *ctx, int step, bool after) {
    if (after || step < FIRST || syn_ctx_rank(ctx) != 0) return;
    const size_t now = syn_trace_memory_bytes(syn_ctx_trace(ctx)), all = allocated();
    const size_t held = ctx->storages.held_bytes + ctx->storages.used_bytes + ctx->storages.cap +
                        ctx->gradients.leaves_cap + ctx->gradients.tape.cap;
    if (step == FIRST) {
        rows = now;
        data = held;
        total = all;
        growth = 0;
    }
    /* The number covers all ranks of the process, which are at different points of their steps. */
    const bool alone = syn_ctx_comm(ctx)->size == 1;
    if (!growth && (now > rows || held > data || (alone && all > total))) growth = step;
}

static void check_params(const small_training *part, const small_training *all, int rank) {
    static float a[1 << 14], b[1 << 14];
    for (size_t i = 0; i < syn_ctx_param_count(all->ctx[rank]); i++) {
        const syn_tensor want = syn_ctx_param(all->ctx[rank], i).tensor,
                         got = syn_ctx_param(part->ctx[rank], i).tensor;
        const size_t bytes = syn_spec_bytes(syn_tensor_spec(all->ctx[rank], want));
        CHECK(bytes <= sizeof a && syn_tensor_read(all->ctx[rank], want, a, bytes) == SYN_OK);
        CHECK(syn_tensor_read(part->ctx[rank], got, b, bytes) == SYN_OK);
        CHECK_MSG(memcmp(a, b, bytes) == 0, "parameter %zu of rank %d", i, rank);
    }
}

static void check_run(const syn_model_config *config, syn_plan shape, int micro, int steps) {
    static float losses[2][STEPS];
    small_training all = {.config = config,
                          .shape = shape,
                          .steps = steps,
                          .micro = micro,
                          .losses = losses[0],
                          .keep = true};
    small_training part = all;
    syn_error err = {0};
    const int n = small_training_ranks(&all);
    part.losses = losses[1];
    part.forget = true;
    part.around_backward = watch;
    CHECK_OK(syn_local_run(n, small_training_rank, &part, &err), err);
    CHECK_MSG(!growth, "memory grew in step %d", growth);
    CHECK_OK(syn_local_run(n, small_training_rank, &all, &err), err);
    for (int i = 0; i < steps; i++)
        CHECK_MSG(losses[0][i] == losses[1][i], "loss of step %d: %g, %g without forgetting", i,
                  (double)losses[1][i], (double)losses[0][i]);
    CHECK(losses[0][steps - 1] < losses[0][0] / 4);
    for (int r = 0; r < n; r++) {
        CHECK(part.hash[r] == all.hash[r]);
        check_params(&part, &all, r);
    }
    drop_ranks(n, part.ctx);
    drop_ranks(n, all.ctx);
}

static void test_alone(void) {
    check_run(&small_gpt, (syn_plan){.tp = 1, .dp = 1}, 1, TEST_ROUNDS(STEPS));
    check_run(&small_bert, (syn_plan){.tp = 1, .dp = 1}, 2, TEST_ROUNDS(STEPS / 2));
}

static void test_ranks(void) {
    check_run(&small_gpt, (syn_plan){.tp = 1, .dp = 2}, 1, STEPS / 5);
    check_run(&small_gpt, (syn_plan){.tp = 2, .dp = 1}, 1, STEPS / 5);
}

static const test_case cases[] = {
    {"alone", test_alone},
    {"on ranks", test_ranks},
};
TEST_MAIN(cases)
