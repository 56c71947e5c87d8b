/* Tests messages between connected ranks (syn_ctx_connect) with random sizes, types and tags. Ranks
   receive in other orders than they send, before or after the sender sends. A sender never waits
   for a receiver, not even to free memory, and failures end messages in flight. On CUDA, each
   message is a kernel in a stream of its own. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "syntorch/context_private.h"
#include "tests/support/device.h"
#include "tests/support/ops_reference.h"
#include "tests/support/random.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { RANKS_MAX = 4, MESSAGES = 12 };

/* Opens a group of all ranks, and a context with overlap in which its neighbours are connected. */
static syn_status begin(syn_comm *comm, syn_ctx **ctx, syn_error *err) {
    const int32_t ranks[RANKS_MAX] = {0, 1, 2, 3};
    syn_group *group;
    SYN_TRY(syn_comm_open_group(comm, 1, "pp0", ranks, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(*ctx, true);
    syn_status s = syn_ctx_connect(*ctx, group, err);
    if (s == SYN_OK) s = syn_ctx_connect(*ctx, group, err); /* has no effect */
    if (s != SYN_OK) syn_ctx_free(*ctx);
    return s;
}

/* Frees the context. s: the status of the rank, which is returned. */
static syn_status end(syn_ctx *ctx, syn_status s, syn_error *err) {
    if (s == SYN_OK && syn_ctx_sync(ctx) != SYN_OK) s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    if (s != SYN_OK) syn_ctx_fail(ctx, s, "%s", err->text); /* for the other ranks */
    syn_ctx_free(ctx);
    return s;
}

/* ---- Any order ---- */

/* Message i from one rank to another. Numbers are small, so every type can hold them. */
static syn_spec spec_of(uint64_t seed, int from, int to, int i) {
    static const syn_dtype dtypes[] = {SYN_F32, SYN_BF16, SYN_F16};
    uint64_t state = seed * 1000 + (uint64_t)(from * 100 + to * 10) + (uint64_t)i * 10000;
    const uint64_t dice = random_u64(&state);
    return (syn_spec){(int32_t)dtypes[dice % 3], 1, {(int64_t)(dice >> 8) % 900}};
}

static float number_of(int from, int to, int i, int64_t k) {
    return (float)((from * 5 + to * 3 + i * 7 + (int)(k % 11)) % 19);
}

/* Numbers 0 to n - 1 in an order that depends on the seed. */
static void shuffle(uint64_t seed, int *order, int n) {
    uint64_t state = seed;
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int k = (int)(random_u64(&state) % (uint64_t)(i + 1)), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
}

static void send_one(syn_ctx *ctx, uint64_t seed, int from, int to, int i) {
    static _Thread_local float data[900];
    const syn_spec spec = spec_of(seed, from, to, i), wide = {SYN_F32, 1, {spec.dims[0]}};
    for (int64_t k = 0; k < spec.dims[0]; k++) data[k] = number_of(from, to, i, k);
    syn_tensor x = syn_input(ctx, "x", &wide, data);
    if (spec.dtype != SYN_F32) x = syn_cast(ctx, x, (syn_dtype)spec.dtype);
    syn_send(ctx, x, to, 10 + i);
    syn_drop(ctx, x); /* later tensors get its memory */
}

static syn_status check_one(syn_ctx *ctx, syn_tensor x, int from, int to, int i, syn_error *err) {
    static _Thread_local float data[900];
    const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, x));
    x = syn_scale(ctx, x, 1); /* an op on the device waits, not the host */
    if (syn_tensor_read_f32(ctx, x, data, n) != SYN_OK) return syn_ctx_check(ctx, err);
    for (size_t k = 0; k < n; k++)
        if (data[k] != number_of(from, to, i, (int64_t)k))
            return SYN_FAIL(err, SYN_E_FORMAT, "message %d from %d to %d: element %zu is %g", i,
                            from, to, k, (double)data[k]);
    return SYN_OK;
}

typedef struct exchange {
    uint64_t seed;
    bool posts; /* all receives are started before they are waited for */
} exchange;

/* All ranks send MESSAGES messages to their neighbours. */
static syn_status exchange_rank(syn_comm *comm, void *arg, syn_error *err) {
    const exchange *e = arg;
    const int me = comm->rank, n = comm->size;
    const int peers[2] = {(me + 1) % n, (me + n - 1) % n}, n_peers = n == 2 ? 1 : 2;
    syn_ctx *ctx = NULL;
    syn_tensor got[2 * MESSAGES];
    int sends[2 * MESSAGES], receives[2 * MESSAGES];
    SYN_TRY(begin(comm, &ctx, err));
    const int all = n_peers * MESSAGES;
    shuffle(e->seed + (uint64_t)me, sends, all);
    shuffle(e->seed * 31 + (uint64_t)me, receives, all);
    for (int k = 0; k < all; k++)
        send_one(ctx, e->seed, me, peers[sends[k] / MESSAGES], sends[k] % MESSAGES);
    syn_status s = SYN_OK;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < all && s == SYN_OK; k++) {
            const int from = peers[receives[k] / MESSAGES], i = receives[k] % MESSAGES;
            const syn_spec spec = spec_of(e->seed, from, me, i);
            if (pass == 0) got[k] = syn_recv(ctx, &spec, from, 10 + i);
            if (pass == (e->posts ? 1 : 0)) s = check_one(ctx, got[k], from, me, i, err);
        }
    return end(ctx, s, err);
}

static void messages_arrive_in_any_order(void) {
    for (int n = 2; n <= RANKS_MAX; n++)
        for (int i = 0; i < ref_rounds(12); i++) {
            exchange e = {.seed = (uint64_t)(n * 100 + i), .posts = i % 2 == 0};
            syn_error err = {0};
            CHECK_OK(syn_local_run(n, exchange_rank, &e, &err), err);
        }
}

/* ---- Senders do not wait ---- */

/* A large message. A real NCCL buffers smaller ones, so that their sends end before they are
   received. */
static syn_spec big(void) {
    const bool real = ref_on_cuda() && !getenv("SYN_EMULATED_DEVICES");
    return (syn_spec){SYN_F32, 1, {real ? 64 << 20 : 50000}};
}

static syn_tensor filled(syn_ctx *ctx, float value) {
    const syn_spec spec = big();
    float *data = malloc((size_t)syn_spec_bytes(&spec));
    for (int64_t i = 0; i < spec.dims[0]; i++) data[i] = value;
    const syn_tensor x = syn_input(ctx, "x", &spec, data);
    free(data);
    return x;
}

static syn_tensor receive(syn_ctx *ctx, int from, int tag) {
    const syn_spec spec = big();
    return syn_recv(ctx, &spec, from, tag);
}

static syn_status is_filled(syn_ctx *ctx, syn_tensor x, float value, syn_error *err) {
    const int64_t last = big().dims[0] - 1;
    float data[2] = {0};
    if (syn_tensor_read_range(ctx, x, 0, 1, &data[0]) != SYN_OK ||
        syn_tensor_read_range(ctx, x, last, 1, &data[1]) != SYN_OK)
        return syn_ctx_check(ctx, err);
    if (data[0] == value && data[1] == value) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "got %g and %g, not %g", (double)data[0], (double)data[1],
                    (double)value);
}

/* Rank 0 sends tag 1 to rank 1. Then it frees memory, for which a device must wait for all streams,
   and sends to rank 2, which rank 1 waits for before it receives tag 1. */
static syn_status waiting_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_status s = SYN_OK;
    SYN_TRY(begin(comm, &ctx, err));
    if (comm->rank == 0) {
        const syn_tensor x = filled(ctx, 3);
        syn_send(ctx, x, 1, 1);
        s = is_filled(ctx, syn_scale(ctx, x, 2), 6, err);
        syn_drop(ctx, x);
        syn__storages_trim(&ctx->storages);
        syn_send(ctx, syn_scale(ctx, filled(ctx, 2), 2), 2, 2); /* launches a kernel meanwhile */
        syn_send(ctx, filled(ctx, 7), 1, 4);
    } else if (comm->rank == 2) {
        const syn_tensor x = receive(ctx, 0, 2);
        syn_send(ctx, syn_scale(ctx, x, 2), 1, 3);
    } else if (comm->rank == 1) {
        s = is_filled(ctx, receive(ctx, 2, 3), 8, err);
        if (s == SYN_OK) s = is_filled(ctx, receive(ctx, 0, 4), 7, err);
        if (s == SYN_OK) s = is_filled(ctx, receive(ctx, 0, 1), 3, err);
    }
    return end(ctx, s, err);
}

static void senders_do_not_wait(void) {
    for (int i = 0; i < ref_rounds(8); i++) {
        syn_error err = {0};
        CHECK_OK(syn_local_run(3, waiting_rank, NULL, &err), err);
    }
}

/* ---- The end ---- */

/* how 0: rank 0 frees its context long before rank 1 receives, and its device work is recorded. 1:
   nobody receives the message. */
static syn_status ending_rank(syn_comm *comm, void *arg, syn_error *err) {
    const int how = *(const int *)arg;
    const struct timespec late = {0, 50000000};
    syn_ctx *ctx = NULL;
    syn_status s = SYN_OK;
    SYN_TRY(begin(comm, &ctx, err));
    syn_ctx_record_work(ctx, true);
    if (comm->rank == 0) syn_send(ctx, filled(ctx, 5), 1, 1);
    if (comm->rank == 1) nanosleep(&late, NULL);
    if (comm->rank == 1 && how == 0) s = is_filled(ctx, receive(ctx, 0, 1), 5, err);
    if (s != SYN_OK || comm->rank == 1) return end(ctx, s, err);
    syn_ctx_free(ctx); /* without a sync before */
    return SYN_OK;
}

static void contexts_end_with_messages_in_flight(void) {
    for (int i = 0; i < 4; i++) {
        int how = i % 2;
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, ending_rank, &how, &err), err);
    }
}

/* ---- On the device ---- */

static syn_status recorded_rank(syn_comm *comm, void *arg, syn_error *err) {
    int *found = arg;
    syn_ctx *ctx = NULL;
    SYN_TRY(begin(comm, &ctx, err));
    syn_ctx_record_work(ctx, true);
    const syn_tensor x = filled(ctx, 2);
    syn_send(ctx, x, 1 - comm->rank, 1);
    syn_scale(ctx, receive(ctx, 1 - comm->rank, 1), 2);
    const syn_status s = syn_ctx_sync(ctx);
    const syn_work *work = &syn_ctx_trace(ctx)->work;
    for (size_t i = 0; i < work->n_pieces; i++) {
        const char *name = syn_work_name(work, &work->pieces[i]);
        if (strcmp(name, "ncclDevKernel_SendRecv") == 0) found[comm->rank]++;
    }
    return end(ctx, s, err);
}

static void messages_are_device_work(void) {
    int found[2] = {0};
    syn_error err = {0};
    CHECK_OK(syn_local_run(2, recorded_rank, found, &err), err);
    const bool nccl = ref_on_cuda() && ref_cuda_devices() >= 2;
    CHECK(found[0] == (nccl ? 2 : 0) && found[1] == found[0]);
}

/* ---- Failures ---- */

typedef struct failing {
    int how;
    syn_error reported[2];
} failing;

/* 0 and 1: rank 1 fails while messages are in flight in both directions; in 1, rank 0 then waits
   for one. 2: the ranks describe a message differently. 3: both wait for a message that nobody
   sends. */
static syn_status failing_rank(syn_comm *comm, void *arg, syn_error *err) {
    failing *f = arg;
    syn_ctx *ctx = NULL;
    const int other = 1 - comm->rank;
    SYN_TRY(begin(comm, &ctx, err));
    syn_push_scope(ctx, "layer");
    const syn_tensor x = filled(ctx, 1);
    if (f->how < 2) syn_send(ctx, x, other, 1);
    if (f->how == 2 && comm->rank == 0) syn_send(ctx, x, 1, 1);
    syn_spec spec = big();
    if (f->how == 2) spec.dims[0]--;
    syn_tensor y = {0};
    if ((f->how != 2 && f->how != 4) || comm->rank == 1)
        y = syn_recv(ctx, &spec, other, f->how >= 3 ? 9 : 1);
    if (f->how < 2 && comm->rank == 1)
        syn_add(ctx, x, syn_input(ctx, "y", &(syn_spec){SYN_F32, 1, {3}}, NULL));
    if (f->how == 1 && comm->rank == 0) y = receive(ctx, other, 2);
    if (y.id) syn_scale(ctx, y, 1);
    syn_pop_scope(ctx);
    syn_status s = syn_ctx_check(ctx, err);
    if ((f->how == 2 || f->how == 4) && comm->rank == 0) s = end(ctx, s, err);
    else syn_ctx_free(ctx);
    f->reported[comm->rank] = *err;
    return s;
}

static void failures_end_messages(void) {
    for (int i = 0; i < 5 * ref_rounds(4); i++) {
        failing f = {.how = i % 5};
        syn_error err = {0};
        CHECK(syn_local_run(2, failing_rank, &f, &err) != SYN_OK);
        if (f.how < 2) CHECK_HAS(f.reported[1].text, "add in layer: ");
        if (f.how == 1) CHECK_HAS(f.reported[0].text, "rank 1 failed: add in layer: ");
        if (f.how == 2) CHECK_HAS(f.reported[1].text, "recv in layer: rank 0 calls send(f32, ");
        if (f.how == 2) CHECK_HAS(f.reported[1].text, "but rank 1 calls recv(f32, ");
        if (f.how == 3) CHECK_HAS(f.reported[1].text, "ranks wait for each other");
    }
}

static syn_status memory_step(void *arg, syn_error *err) {
    return syn_local_run(2, exchange_rank, arg, err);
}

static void out_of_memory_is_reported(void) {
    exchange e = {.seed = 5};
    CHECK(test_without_memory(memory_step, &e) > 20);
}

static const test_case cases[] = {
    {"messages_arrive_in_any_order", messages_arrive_in_any_order},
    {"senders_do_not_wait", senders_do_not_wait},
    {"contexts_end_with_messages_in_flight", contexts_end_with_messages_in_flight},
    {"messages_are_device_work", messages_are_device_work},
    {"failures_end_messages", failures_end_messages},
    {"out_of_memory_is_reported", out_of_memory_is_reported},
};

TEST_MAIN(cases)
