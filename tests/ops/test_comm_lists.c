/* Tests collectives over lists of tensors. They give the same bits as one call per tensor, no
   result is used before it arrives, and nothing is copied or allocated. */
#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/random.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { RANKS_MAX = 4, LIST = 60, LONGEST = 30000, GO = 5 };

/* ---- The same as one call per tensor ---- */

typedef struct lists {
    uint64_t seed;
    bool overlap, one_by_one;
    syn_device device;
    uint64_t hash[RANKS_MAX];
    float values[RANKS_MAX][LIST][64]; /* the first elements of each result */
} lists;

/* A random shape; some are scalars, empty or long. */
static syn_spec random_spec(syn_dtype dtype, uint64_t dice) {
    const int64_t small = (int64_t)(dice >> 8) % 12;
    if (dice % 8 == 0) return (syn_spec){(int32_t)dtype, 0, {0}};
    if (dice % 8 == 1) return (syn_spec){(int32_t)dtype, 1, {LONGEST - small}};
    return (syn_spec){(int32_t)dtype, 2, {small, 5}};
}

static syn_tensor random_input(syn_ctx *ctx, const syn_spec *spec, uint64_t dice, int rank) {
    static _Thread_local float data[LONGEST];
    for (int64_t i = 0; i < syn_spec_elems(spec); i++) {
        const int value = (int)((dice + (uint64_t)i * 7 + (uint64_t)rank * 31) % 2001) - 1000;
        if (spec->dtype == SYN_F32) data[i] = (float)value / 7;
        else memcpy(&data[i], &value, sizeof value);
    }
    return syn_input(ctx, "x", spec, data);
}

static void run_collectives(syn_ctx *ctx, const lists *l, syn_tensor *xs, int n, uint64_t dice,
                            const syn_group *group) {
    const syn_reduce reduce = (syn_reduce)(dice % SYN_REDUCE_COUNT);
    const int root = (int)((dice >> 8) % (uint64_t)group->size);
    const bool reduces = dice >> 16 & 1;
    if (l->one_by_one)
        for (int i = 0; i < n; i++)
            xs[i] = reduces ? syn_all_reduce(ctx, xs[i], reduce, group)
                            : syn_broadcast(ctx, xs[i], root, group);
    else if (reduces) syn_all_reduce_coalesced(ctx, xs, n, reduce, group);
    else syn_broadcast_coalesced(ctx, xs, n, root, group);
}

static syn_status lists_rank(const test_rank *me, void *arg, syn_error *err) {
    lists *l = arg;
    uint64_t state = l->seed * 7919;
    const uint64_t how = random_u64(&state) >> 20;
    const int n = 1 + (int)(how % LIST);
    const syn_dtype dtype = how >> 8 & 1 ? SYN_F32 : SYN_I32;
    syn_tensor xs[LIST];
    (void)err;
    syn_ctx_set_overlap(me->ctx, l->overlap);
    for (int i = 0; i < n; i++) {
        const uint64_t dice = random_u64(&state) >> 20;
        const syn_spec spec = random_spec(dtype, dice);
        xs[i] = random_input(me->ctx, &spec, dice, me->index);
    }
    for (int i = 0; i < 3; i++)
        run_collectives(me->ctx, l, xs, n, random_u64(&state) >> 20, me->tp);
    l->hash[me->index] = syn_trace_hash(syn_ctx_trace(me->ctx));
    for (int i = 0; i < n && l->device == SYN_DEVICE_CPU; i++) {
        static _Thread_local float data[LONGEST];
        const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(me->ctx, xs[i]));
        float *kept = l->values[me->index][i];
        if (syn_tensor_read(me->ctx, xs[i], data, bytes) != SYN_OK) break;
        memcpy(kept, data, bytes < 32 * sizeof *kept ? bytes : 32 * sizeof *kept);
        if (bytes > 64 * sizeof *kept)
            memcpy(kept + 32, (char *)data + bytes - 32 * sizeof *kept, 32 * sizeof *kept);
    }
    return SYN_OK;
}

static void lists_give_the_bits_of_one_by_one(void) {
    static lists runs[3];
    for (uint64_t seed = 1; seed <= TEST_ROUNDS(60); seed++) {
        const int size = 2 + (int)(seed % 3);
        uint64_t meta[RANKS_MAX];
        syn_error err = {0};
        for (int i = 0; i < 3; i++) {
            runs[i] = (lists){.seed = seed, .overlap = i == 1, .one_by_one = i == 2};
            CHECK_OK(run_ranks(size, lists_rank, &runs[i], &err), err);
            CHECK_MSG(memcmp(runs[0].values, runs[i].values, sizeof runs[0].values) == 0,
                      "seed %d, way %d: other bits", (int)seed, i);
        }
        lists l = {.seed = seed, .device = SYN_DEVICE_META};
        CHECK(trace_hashes(size, SYN_DEVICE_META, WITHOUT_TRANSPORT, lists_rank, &l, meta));
        for (int r = 0; r < size; r++)
            CHECK(meta[r] == runs[0].hash[r] && meta[r] == runs[1].hash[r] &&
                  meta[r] != runs[2].hash[r]);
    }
}

/* ---- In flight ---- */

static const syn_spec four = {SYN_F32, 1, {4}};

static void three_inputs(syn_ctx *ctx, syn_tensor *xs, float value) {
    for (int i = 0; i < 3; i++) {
        const float data[4] = {value, value, value, value};
        xs[i] = syn_input(ctx, "x", &four, data);
    }
}

static int in_flight(const syn_ctx *ctx, const syn_tensor *xs, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += ctx->storages.at[syn__storage_number(ctx, syn__row(ctx, xs[i]))].in_flight > 0;
    return count;
}

/* Rank 0 starts a collective and then sends a message. Rank 1 joins the collective only after it
   has received the message. */
static syn_status meanwhile_rank(const test_rank *me, void *arg, syn_error *err) {
    syn_ctx *ctx = me->ctx;
    syn_tensor xs[3];
    float got[4] = {0};
    (void)arg;
    syn_ctx_set_overlap(ctx, true);
    three_inputs(ctx, xs, (float)me->index + 1);
    if (me->index == 1) syn_scale(ctx, syn_recv(ctx, &four, 0, GO), 1);
    syn_all_reduce_coalesced(ctx, xs, 3, SYN_REDUCE_SUM, me->tp);
    if (me->index == 0 && in_flight(ctx, xs, 3) != 3)
        SYN_FAIL(err, SYN_E_FORMAT, "not all of the list are under way");
    syn_drop(ctx, xs[0]);
    if (me->index == 0) {
        syn_tensor other[3];
        three_inputs(ctx, other, 99); /* takes all free buffers of this size */
        syn_send(ctx, other[0], 1, GO);
    }
    syn_scale(ctx, xs[2], 1);
    if (in_flight(ctx, xs + 1, 2) != 0)
        SYN_FAIL(err, SYN_E_FORMAT, "one was waited for, and the others were not done");
    if (syn_tensor_read(ctx, xs[1], got, sizeof got) == SYN_OK && got[3] != 3)
        SYN_FAIL(err, SYN_E_FORMAT, "the sum is %g", (double)got[3]);
    return err->code;
}

static void all_of_a_list_are_kept_until_it_is_done(void) {
    for (int repeat = 0; repeat < 20; repeat++) {
        syn_error err = {0};
        CHECK_OK(run_ranks(2, meanwhile_rank, NULL, &err), err);
    }
}

/* ---- Allocations ---- */

enum { WARM = 6, STEPS = 40, BUCKETS = 5 };

/* Counts the allocations of all ranks during collectives over lists, after the first steps.
   Forgetting rows allocates scratch memory, so a rank forgets its rows only after all ranks have
   counted. */
static syn_status steady_rank(const test_rank *me, void *arg, syn_error *err) {
    uint64_t *allocations = arg;
    syn_tensor xs[BUCKETS * LIST];
    syn_ctx *ctx = me->ctx;
    syn_ctx_set_overlap(ctx, true);
    for (int i = 0; i < BUCKETS * LIST; i++) {
        const syn_spec spec = {SYN_F32, 1, {i % LIST ? 3 + i : LONGEST}};
        xs[i] = syn_state(ctx, "x", &spec);
    }
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int step = 0; step < WARM + STEPS; step++) {
        syn_barrier(ctx, me->tp);
        const uint64_t before = syn_memory_calls();
        for (int b = 0; b < BUCKETS; b++)
            syn_all_reduce_coalesced(ctx, xs + b * LIST, LIST, SYN_REDUCE_SUM, me->tp);
        syn_broadcast_coalesced(ctx, xs, LIST, 0, me->tp);
        if (syn_ctx_sync(ctx) != SYN_OK) return syn_ctx_check(ctx, err);
        syn_barrier(ctx, me->tp);
        if (step >= WARM) allocations[me->index] += syn_memory_calls() - before;
        syn_barrier(ctx, me->tp);
        syn_forget(ctx, mark, xs, BUCKETS * LIST);
    }
    return SYN_OK;
}

static void steady_steps_allocate_nothing(void) {
    for (int size = 2; size <= 4; size++) {
        uint64_t allocations[RANKS_MAX] = {0};
        syn_error err = {0};
        CHECK_OK(run_ranks(size, steady_rank, allocations, &err), err);
        for (int r = 0; r < size; r++) CHECK_INT(allocations[r], 0);
    }
}

/* ---- Failures ---- */

typedef struct wrong {
    int how;
    const char *sentence;
} wrong;

static syn_status wrong_rank(const test_rank *me, void *arg, syn_error *err) {
    const wrong *w = arg;
    syn_tensor xs[SYN_MAX_LIST + 1];
    (void)err;
    for (int i = 0; i <= SYN_MAX_LIST; i++) {
        const bool other = w->how == 1 && i == 1;
        const syn_spec spec = {other ? SYN_I32 : SYN_F32, 2, {2, 3}};
        xs[i] = syn_input(me->ctx, "x", &spec, NULL);
    }
    if (w->how == 2) xs[1] = syn_permute(me->ctx, xs[1], (const int[]){1, 0}, 2);
    if (w->how == 4 && me->index == 1) { /* the same number of elements, in another shape */
        xs[0] = syn_input(me->ctx, "x", &(syn_spec){SYN_F32, 1, {5}}, NULL);
        xs[1] = syn_input(me->ctx, "x", &(syn_spec){SYN_F32, 1, {7}}, NULL);
    }
    syn_push_scope(me->ctx, "bucket");
    syn_all_reduce_coalesced(me->ctx, xs,
                             w->how == 0   ? 0
                             : w->how == 3 ? SYN_MAX_LIST + 1
                                           : 2,
                             SYN_REDUCE_SUM, me->tp);
    syn_pop_scope(me->ctx);
    return SYN_OK;
}

static void invalid_lists_fail_with_a_message(void) {
    static const wrong all[] = {
        {0, "all_reduce_coalesced got 0 tensors but accepts 1 to 1000"},
        {1, "all_reduce_coalesced in bucket: input 1 must be f32, but is i32[2,3]"},
        {2, "all_reduce_coalesced in bucket: the last dimension of input 1 is not contiguous"},
        {3, "all_reduce_coalesced got 1001 tensors but accepts 1 to 1000"},
        {4, "all_reduce_coalesced in bucket: rank 0 calls all_reduce(sum, f32, 12 elements in 2 "
            "tensors) in group tp0 (#1) but rank 1 calls all_reduce(sum, f32, 12 elements in 2 "
            "tensors) of different sizes"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        wrong w = all[i];
        syn_error err = {0};
        CHECK(run_ranks(2, wrong_rank, &w, &err) != SYN_OK);
        CHECK_HAS(err.text, w.sentence);
    }
}

static syn_status memory_rank(const test_rank *me, void *arg, syn_error *err) {
    syn_tensor xs[3];
    (void)arg;
    syn_ctx_set_overlap(me->ctx, true);
    three_inputs(me->ctx, xs, 1);
    syn_all_reduce_coalesced(me->ctx, xs, 3, SYN_REDUCE_SUM, me->tp);
    return syn_ctx_sync(me->ctx) == SYN_OK ? SYN_OK : syn_ctx_check(me->ctx, err);
}

static syn_status memory_step(void *arg, syn_error *err) {
    return run_ranks(2, memory_rank, arg, err);
}

static void out_of_memory_at_any_step_is_reported(void) {
    CHECK(test_without_memory(memory_step, NULL) > 20);
}

static const test_case cases[] = {
    {"lists_give_the_bits_of_one_by_one", lists_give_the_bits_of_one_by_one},
    {"all_of_a_list_are_kept_until_it_is_done", all_of_a_list_are_kept_until_it_is_done},
    {"steady_steps_allocate_nothing", steady_steps_allocate_nothing},
    {"invalid_lists_fail_with_a_message", invalid_lists_fail_with_a_message},
    {"out_of_memory_at_any_step_is_reported", out_of_memory_at_any_step_is_reported},
};

TEST_MAIN(cases)
