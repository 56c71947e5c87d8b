/* Tests collectives and messages that overlap with later ops. Rows and bits are the same as without
   overlap. No result is used before it arrives, and no input is overwritten before it is read.
   Failures end operations in flight. Some of the programs would deadlock without overlap, so they
   show that ops really overlap. */

#include "comm/comm.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/random.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { RANKS_MAX = 3, LARGE = 20000, GO = 5 };

static const syn_spec large = {SYN_F32, 1, {LARGE}};

static syn_status open_all(syn_comm *comm, uint32_t id, syn_group **group, syn_error *err) {
    const int32_t ranks[RANKS_MAX] = {0, 1, 2};
    return syn_comm_open_group(comm, id, "all", ranks, comm->size, group, err);
}

/* Creates a context with overlap, and the rank's group. */
static syn_status begin(syn_comm *comm, syn_ctx **ctx, syn_group **group, syn_error *err) {
    SYN_TRY(open_all(comm, 1, group, err));
    SYN_TRY(syn_ctx_new(ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(*ctx, true);
    return SYN_OK;
}

static syn_tensor filled(syn_ctx *ctx, const char *name, float value) {
    static _Thread_local float data[LARGE];
    for (int i = 0; i < LARGE; i++) data[i] = value;
    return syn_input(ctx, name, &large, data);
}

/* The data of t; NULL after a failure. */
static const void *buffer_of(const syn_ctx *ctx, syn_tensor t) {
    const syn_storage *storage = syn__storage(ctx, syn__row(ctx, t));
    return storage ? storage->data : NULL;
}

static syn_status all_are(syn_ctx *ctx, syn_tensor t, float want, syn_error *err) {
    static _Thread_local float data[LARGE];
    if (syn_tensor_read(ctx, t, data, sizeof data) != SYN_OK) return syn_ctx_check(ctx, err);
    for (int i = 0; i < LARGE; i++)
        if (data[i] != want)
            return SYN_FAIL(err, SYN_E_FORMAT, "element %d is %g, not %g", i, (double)data[i],
                            (double)want);
    return SYN_OK;
}

/* ---- The same as without overlap ---- */

enum { SLOTS = 6, STEPS = 60, WIDTH = 12 };

typedef struct program {
    uint64_t seed;
    bool overlap, forget; /* forget: forget the rows every ten steps */
    syn_device device;
    uint64_t hash[RANKS_MAX];
    size_t peak_bytes[RANKS_MAX];
    float values[RANKS_MAX][SLOTS + 1][WIDTH * WIDTH];
} program;

/* One step: computes a tensor from slot a, or from slots a and b, stores it in slot b, and
   immediately drops the tensor that was in slot b. */
static void step(syn_ctx *ctx, const syn_group *group, uint64_t dice, syn_tensor *slots,
                 syn_tensor *cache, int i) {
    const syn_tensor a = slots[dice % SLOTS], b = slots[(dice >> 8) % SLOTS];
    syn_tensor *to = &slots[(dice >> 8) % SLOTS], got;
    const int axis = (int)(dice >> 16 & 1);
    switch ((dice >> 20) % 9) {
    case 0:
        got = syn_all_reduce(ctx, a, SYN_REDUCE_AVG, group);
        break;
    case 1:
        got = syn_all_reduce(ctx, a, SYN_REDUCE_MAX, group);
        break;
    case 2:
        got = syn_broadcast(ctx, a, (int)((dice >> 24) % (uint64_t)group->size), group);
        break;
    case 3: /* Gather the shards of a reduce-scatter along another axis. */
        got = syn_all_gather(ctx, syn_reduce_scatter(ctx, a, SYN_REDUCE_AVG, axis, group), 1 - axis,
                             group);
        got = syn_reshape(ctx, got, (const int64_t[]){WIDTH, WIDTH}, 2);
        break;
    case 4:
        syn_send(ctx, a, (group->index + 1) % group->size, i);
        got = syn_recv(ctx, syn_tensor_spec(ctx, a), (group->index + group->size - 1) % group->size,
                       i);
        break;
    case 5: /* Overwrite a tensor that an all-reduce may still be reading. */
        got = syn_all_reduce(ctx, *cache, SYN_REDUCE_AVG, group);
        *cache = syn_kv_append(ctx, *cache,
                               syn_reshape(ctx, a, (const int64_t[]){1, 1, WIDTH, WIDTH}, 4), 0);
        got = syn_reshape(ctx, got, (const int64_t[]){WIDTH, WIDTH}, 2);
        break;
    case 6:
        got = syn_add(ctx, a, b);
        break;
    default:
        got = syn_scale(ctx, a, -0.75);
    }
    /* The tensor shares its storage with another slot, or with the new tensor. */
    bool shared = false;
    for (int k = 0; k < SLOTS; k++) shared = shared || (&slots[k] != to && slots[k].id == b.id);
    if (!shared) syn_drop(ctx, b);
    *to = got;
}

static syn_status program_rank(syn_comm *comm, void *arg, syn_error *err) {
    program *p = arg;
    syn_ctx *ctx = NULL;
    syn_group *groups[2] = {NULL};
    uint64_t state = p->seed * 7919;
    syn_tensor slots[SLOTS];
    const syn_spec spec = {SYN_F32, 2, {WIDTH, WIDTH}}, kept = {SYN_F32, 4, {1, 1, WIDTH, WIDTH}};
    for (uint32_t g = 0; g < 2; g++) SYN_TRY(open_all(comm, g + 1, &groups[g], err));
    SYN_TRY(syn_ctx_new(&ctx, p->device, comm, err));
    syn_ctx_set_overlap(ctx, p->overlap);
    if (p->forget) SYN_TRY(syn_ctx_connect(ctx, groups[0], err)); /* or messages use the host */
    for (int k = 0; k < SLOTS; k++) {
        float data[WIDTH * WIDTH];
        for (int i = 0; i < WIDTH * WIDTH; i++)
            data[i] = (float)((comm->rank * 31 + k * 7 + i * 3) % 17) - 8;
        slots[k] = syn_input(ctx, "x", &spec, data);
    }
    syn_tensor cache = syn_state(ctx, "cache", &kept);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int i = 0; i < STEPS; i++) {
        const uint64_t dice = random_u64(&state);
        step(ctx, groups[dice >> 40 & 1], dice, slots, &cache, i);
        if (p->forget && i % 10 == 9) syn_forget(ctx, mark, slots, SLOTS);
    }
    p->peak_bytes[comm->rank] = syn_ctx_peak_bytes(ctx);
    syn_status s = syn_ctx_sync(ctx);
    const size_t bytes = sizeof p->values[0][0];
    for (int k = 0; k < SLOTS && s == SYN_OK && p->device == SYN_DEVICE_CPU; k++)
        s = syn_tensor_read(ctx, slots[k], p->values[comm->rank][k], bytes);
    if (s == SYN_OK && p->device == SYN_DEVICE_CPU)
        s = syn_tensor_read(ctx, cache, p->values[comm->rank][SLOTS], bytes);
    s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    p->hash[comm->rank] = syn_trace_hash(syn_ctx_trace(ctx));
    syn_ctx_free(ctx);
    return s;
}

static void overlap_changes_neither_rows_nor_bits(void) {
    static program runs[3], meta;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const int size = 2 + (int)(seed % 2);
        syn_error err = {0};
        for (int i = 0; i < 3; i++) {
            runs[i] = (program){.seed = seed, .overlap = i > 0, .forget = i == 2};
            meta = runs[i];
            meta.device = SYN_DEVICE_META;
            CHECK_OK(syn_local_run(size, program_rank, &runs[i], &err), err);
            CHECK_OK(run_without_transport(size, program_rank, &meta, &err), err);
            for (int r = 0; r < size; r++) {
                CHECK(meta.hash[r] == runs[0].hash[r] && runs[i].hash[r] == runs[0].hash[r]);
                CHECK_INT(meta.peak_bytes[r], runs[i].peak_bytes[r]);
            }
            CHECK_MSG(memcmp(runs[0].values, runs[i].values, sizeof runs[0].values) == 0,
                      "seed %d: other bits", (int)seed);
        }
    }
}

/* ---- Ops run meanwhile ---- */

/* Rank 0 starts an all-reduce and then sends a message. Rank 1 joins the all-reduce only after it
   has received the message. */
static syn_status meanwhile_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_tensor x = filled(ctx, "x", (float)comm->rank + 1);
    const syn_tensor y = filled(ctx, "y", 7);
    if (comm->rank == 1) {
        syn_scale(ctx, syn_recv(ctx, &large, 0, GO), 1); /* waits for the message */
        if (ctx->n_pending != 0) SYN_FAIL(err, SYN_E_FORMAT, "the message was used too early");
    }
    const syn_tensor sum = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    const syn_tensor twice = syn_add(ctx, y, x); /* also reads an input of the all-reduce */
    if (ctx->n_pending != 1) SYN_FAIL(err, SYN_E_FORMAT, "the sum was waited for");
    if (comm->rank == 0) syn_send(ctx, twice, 1, GO);
    const syn_tensor view = syn_slice(ctx, sum, 0, 0, LARGE / 2);
    if (ctx->n_pending != 1) SYN_FAIL(err, SYN_E_FORMAT, "a view waited");
    syn_scale(ctx, view, 2);
    if (ctx->n_pending != 0) SYN_FAIL(err, SYN_E_FORMAT, "the sum was used too early");
    syn_status s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) s = all_are(ctx, sum, 3, err);
    if (s == SYN_OK) s = all_are(ctx, twice, (float)comm->rank + 8, err);
    syn_ctx_free(ctx);
    return err->code != SYN_OK ? err->code : s;
}

static void the_next_ops_run_meanwhile(void) {
    for (int repeat = 0; repeat < 20; repeat++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, meanwhile_rank, NULL, &err), err);
    }
}

/* Operations in flight keep their buffers even if their tensors are released. After the wait, other
   tensors may get the buffers. */
static syn_status pinned_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor go = filled(ctx, "go", 0);
    if (comm->rank == 1) syn_scale(ctx, syn_recv(ctx, &large, 0, GO), 1);
    const syn_tensor x = filled(ctx, "x", (float)comm->rank + 1);
    const void *of_x = buffer_of(ctx, x);
    const syn_tensor sum = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    const void *of_sum = buffer_of(ctx, sum);
    syn_drop(ctx, x);
    for (int i = 0; i < 3; i++) { /* takes all free buffers of this size */
        const syn_tensor other = filled(ctx, "other", 99);
        const void *data = buffer_of(ctx, other);
        if (data == of_x || data == of_sum)
            SYN_FAIL(err, SYN_E_FORMAT, "a buffer was reused while it was needed");
    }
    if (comm->rank == 0) syn_send(ctx, go, 1, GO);
    const size_t used_bytes = ctx->storages.used_bytes;
    syn_status s = all_are(ctx, sum, 3, err);
    if (ctx->storages.used_bytes >= used_bytes)
        SYN_FAIL(err, SYN_E_FORMAT, "what was dropped is still held");
    const syn_tensor last = filled(ctx, "last", 0);
    if (s == SYN_OK && buffer_of(ctx, last) != of_x)
        SYN_FAIL(err, SYN_E_FORMAT, "the buffer was not reused after the wait");
    syn_release(ctx, mark, NULL, 0);
    syn_ctx_free(ctx);
    return err->code;
}

static void buffers_in_flight_are_not_reused(void) {
    for (int repeat = 0; repeat < 20; repeat++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, pinned_rank, NULL, &err), err);
    }
}

/* Results are dropped while in flight. An op that overwrites the input of such an operation waits
   for it, and so does a barrier. */
static syn_status dropped_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_tensor x = filled(ctx, "x", 1);
    for (int i = 0; i < 5; i++) syn_drop(ctx, syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group));
    if (ctx->n_pending != 5) SYN_FAIL(err, SYN_E_FORMAT, "dropping waited");
    if (syn_tensor_write(ctx, x, (const float[LARGE]){0}, LARGE * sizeof(float)) == SYN_OK &&
        ctx->n_pending != 0)
        SYN_FAIL(err, SYN_E_FORMAT, "an input was written over while it was read");
    syn_barrier(ctx, group); /* waits, because no later op depends on its result */
    if (ctx->n_pending != 0) SYN_FAIL(err, SYN_E_FORMAT, "a barrier goes on");
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return err->code != SYN_OK ? err->code : s;
}

static void dropped_results_are_waited_for_before_inputs_change(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, dropped_rank, NULL, &err), err);
}

/* If a result or input is dropped while its operation is in flight, the wait frees it. Using it
   then is an error, because its buffer may be reused. how: 0: an op reads the dropped result; 1:
   the host reads it; 2: the dropped input is overwritten; 3: an op reads the dropped input and the
   result. */
static syn_status used_rank(syn_comm *comm, void *arg, syn_error *err) {
    const int how = *(const int *)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    static _Thread_local float data[LARGE];
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_tensor x = filled(ctx, "x", 1);
    const syn_tensor sum = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    syn_drop(ctx, how < 2 ? sum : x);
    if (how == 0) syn_scale(ctx, sum, 1);
    if (how == 1) (void)!syn_tensor_read(ctx, sum, data, sizeof data);
    if (how == 2) (void)!syn_tensor_write(ctx, x, data, sizeof data);
    if (how == 3) syn_add(ctx, x, sum);
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void tensors_dropped_in_flight_are_freed_by_the_wait(void) {
    static const char *const says[4] = {"scale: the data of input 0 was released",
                                        "tensor 2 has no data", "the data of 'x' was",
                                        "add: the data of input 0 was released"};
    for (int how = 0; how < 4; how++) {
        syn_error err = {0};
        CHECK_INT(syn_local_run(2, used_rank, &how, &err), SYN_E_INVALID);
        CHECK_HAS(err.text, says[how]);
    }
}

/* A user cannot unpin a buffer that only an operation in flight has pinned. */
static syn_status unpinning_rank(syn_comm *comm, void *arg, syn_error *err) {
    const int how = *(const int *)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_tensor x = filled(ctx, "x", 1);
    if (how / 2) syn_pin(ctx, x), syn_unpin(ctx, x);
    const syn_tensor sum = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    const void *const buffer = buffer_of(ctx, how % 2 ? sum : x);
    syn_unpin(ctx, how % 2 ? sum : x);
    syn_drop(ctx, how % 2 ? sum : x);
    if (buffer_of(ctx, how % 2 ? sum : x) != buffer)
        SYN_FAIL(err, SYN_E_FORMAT, "a buffer under way went");
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void operations_in_flight_stay_pinned(void) {
    for (int how = 0; how < 4; how++) {
        syn_error err = {0};
        CHECK_INT(syn_local_run(2, unpinning_rank, &how, &err), SYN_E_INVALID);
        CHECK_HAS(err.text, how % 2 ? "tensor 2 is not pinned" : "tensor 1 is not pinned");
    }
}

static syn_status times_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_trace_time *times = NULL;
    syn_all_reduce(ctx, filled(ctx, "x", 1), SYN_REDUCE_SUM, group);
    times = &syn_ctx_trace(ctx)->times[1];
    if (times->wall_ns > 0) SYN_FAIL(err, SYN_E_FORMAT, "a time is known before the end");
    const syn_status s = syn_ctx_sync(ctx);
    times = &syn_ctx_trace(ctx)->times[1];
    const bool within = times->wall_ns > 0 && (times->cpu_ns > 0 || ref_on_cuda()) &&
                        times->wait_ns >= 0 && times->wait_ns <= times->wall_ns &&
                        times->start_low > 0;
    if (!within || syn_ctx_trace(ctx)->nodes[1].stream != 1)
        SYN_FAIL(err, SYN_E_FORMAT, "times or stream of the row are not the exchange's");
    syn_ctx_free(ctx);
    return err->code != SYN_OK ? err->code : s;
}

static void times_are_stored_after_the_wait(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, times_rank, NULL, &err), err);
}

/* ---- Failures ---- */

typedef struct failing {
    int how;
    syn_error reported[2];
} failing;

/* Rank 1 has an operation in flight that rank 0 never starts. Then rank 1 fails (possibly after it
   has forgotten the operation's row), calls another collective, or frees its context while the
   operation cannot finish. */
static syn_status failing_rank(syn_comm *comm, void *arg, syn_error *err) {
    failing *f = arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    syn_push_scope(ctx, "layer");
    const syn_tensor x = filled(ctx, "x", 1);
    const syn_tensor first = syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
    syn_tensor second = {0};
    if (comm->rank == 0) second = syn_all_reduce(ctx, first, SYN_REDUCE_SUM, group);
    else if (f->how == 1) second = syn_all_gather(ctx, first, 0, group);
    else syn_recv(ctx, &large, 0, GO);
    if (comm->rank == 1 && (f->how == 0 || f->how == 3)) {
        const syn_mark mark = syn_ctx_mark(ctx);
        syn_add(ctx, x, syn_input(ctx, "y", &(syn_spec){SYN_F32, 1, {3}}, NULL));
        if (f->how == 3) syn_forget(ctx, mark, NULL, 0);
    }
    syn_pop_scope(ctx);
    if (second.id) syn_scale(ctx, second, 1);
    const syn_status s = syn_ctx_check(ctx, err);
    f->reported[comm->rank] = *err;
    syn_ctx_free(ctx);
    return s;
}

static void failures_end_operations_in_flight(void) {
    static const char *const reported[4][2] = {
        {"all_reduce in layer: rank 1 failed: add in layer: ", "add in layer: "},
        {"all_reduce in layer: rank 0 calls all_reduce(sum, f32, 20000 elements) in group all (#2) "
         "but rank 1 calls all_gather(f32, 20000 elements)",
         "all_gather in layer: rank 0 calls all_reduce(sum, f32, 20000 elements) in group all (#2) "
         "but rank 1 calls all_gather(f32, 20000 elements)"},
        {"all_reduce in layer: ranks wait for each other: ", ""},
        {"all_reduce in layer: rank 1 failed: add in layer: ", "add in layer: "}};
    for (int repeat = 0; repeat < 10; repeat++)
        for (int how = 0; how < 4; how++) {
            failing f = {.how = how};
            syn_error err = {0};
            CHECK(syn_local_run(2, failing_rank, &f, &err) != SYN_OK);
            for (int r = 0; r < 2; r++) CHECK_HAS(f.reported[r].text, reported[how][r]);
        }
}

static syn_status memory_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    SYN_TRY(begin(comm, &ctx, &group, err));
    const syn_spec spec = {SYN_F32, 2, {4, 4}};
    syn_tensor x = syn_input(ctx, "x", &spec, (const float[16]){0});
    const syn_tensor gathered = syn_all_gather(ctx, x, 1, group);
    syn_send(ctx, x, 1 - comm->rank, GO);
    x = syn_recv(ctx, &spec, 1 - comm->rank, GO);
    syn_reduce_scatter(ctx, gathered, SYN_REDUCE_SUM, 1, group);
    syn_scale(ctx, x, 2);
    syn_status s = syn_ctx_sync(ctx);
    if (s != SYN_OK) s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static syn_status memory_step(void *arg, syn_error *err) {
    return syn_local_run(2, memory_rank, arg, err);
}

static void out_of_memory_at_any_step_is_reported(void) {
    CHECK(test_without_memory(memory_step, NULL) > 20);
}

static const test_case cases[] = {
    {"overlap_changes_neither_rows_nor_bits", overlap_changes_neither_rows_nor_bits},
    {"the_next_ops_run_meanwhile", the_next_ops_run_meanwhile},
    {"buffers_in_flight_are_not_reused", buffers_in_flight_are_not_reused},
    {"dropped_results_are_waited_for_before_inputs_change",
     dropped_results_are_waited_for_before_inputs_change},
    {"tensors_dropped_in_flight_are_freed_by_the_wait",
     tensors_dropped_in_flight_are_freed_by_the_wait},
    {"operations_in_flight_stay_pinned", operations_in_flight_stay_pinned},
    {"times_are_stored_after_the_wait", times_are_stored_after_the_wait},
    {"failures_end_operations_in_flight", failures_end_operations_in_flight},
    {"out_of_memory_at_any_step_is_reported", out_of_memory_at_any_step_is_reported},
};

TEST_MAIN(cases)
