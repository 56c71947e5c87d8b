/* Tests the table of device work (kernels and copies) that nodes started: work is found by node,
   dropped together with rows, and unchanged by conversion to bytes and back. */
#include "ops/ops.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/graph/work.h"
#include "tests/support/test.h"

/* Adds the work of node n: n % 3 pieces, of which piece i has 100 n + i bytes. */
static void add(syn_work *work, uint32_t n) {
    syn_piece pieces[2] = {0};
    const syn_node_work node = {.node = n, .n_pieces = n % 3, .call_ns = 7 * n};
    syn_error err = {0};
    for (uint32_t i = 0; i < 2; i++) {
        char name[32];
        pieces[i].bytes = 100 * n + i;
        snprintf(name, sizeof name, "kernel %u", (unsigned)(n + i) % 4);
        CHECK_OK(syn_work_put_name(work, name, &pieces[i].name, &err), err);
    }
    CHECK_OK(syn_work_add(work, &node, pieces, &err), err);
}

static bool has(const syn_work *work, uint32_t n) {
    const syn_node_work *node = syn_work_of(work, n);
    bool same = node && node->node == n && node->n_pieces == n % 3 && node->call_ns == 7 * n;
    for (uint32_t i = 0; same && i < node->n_pieces; i++) {
        char name[32];
        const syn_piece *p = &work->pieces[node->first + i];
        snprintf(name, sizeof name, "kernel %u", (unsigned)(n + i) % 4);
        same = p->bytes == 100 * n + i && strcmp(syn_work_name(work, p), name) == 0;
    }
    return same;
}

/* Adds a piece of n bytes that belongs to no node and comes after node n. */
static void add_unowned(syn_work *work, uint32_t n) {
    const syn_unowned_piece between = {n, {.kind = SYN_PIECE_COPY_OUT, .bytes = n}};
    syn_error err = {0};
    CHECK_OK(syn_work_add_unowned(work, &between, &err), err);
}

static bool has_unowned(const syn_work *work, size_t i, uint32_t n) {
    return i < work->n_unowned && work->unowned[i].after == n &&
           work->unowned[i].piece.kind == SYN_PIECE_COPY_OUT && work->unowned[i].piece.bytes == n;
}

/* Work can be added in any order. Adding it twice has no effect. Dropped work is gone, and can be
   added again. */
static void found_by_number(void) {
    static const uint32_t order[] = {2, 4, 5, 11, 8, 7, 14, 1};
    const size_t n = sizeof order / sizeof *order;
    syn_work work = {0};
    syn_error err = {0};
    CHECK(syn_work_of(NULL, 1) == NULL && syn_work_of(&work, 1) == NULL);
    for (size_t i = 0; i < n; i++) add(&work, order[i]);
    for (size_t i = 0; i < n; i++) CHECK_MSG(has(&work, order[i]), "%u", (unsigned)order[i]);
    CHECK(!syn_work_of(&work, 3) && !syn_work_of(&work, 15) && !syn_work_of(&work, 1ull << 33));
    const size_t pieces = work.n_pieces;
    CHECK_OK(syn_work_add(&work, &(syn_node_work){.node = 5}, NULL, &err), err);
    CHECK(has(&work, 5) && work.n_pieces == pieces);
    syn_work_drop(&work, 8);
    for (size_t i = 0; i < n; i++)
        CHECK_MSG((syn_work_of(&work, order[i]) != NULL) == (order[i] < 8) &&
                      (order[i] >= 8 || has(&work, order[i])),
                  "%u", (unsigned)order[i]);
    add(&work, 8);
    CHECK(has(&work, 8) && has(&work, 7));
    for (uint32_t i = 0; i < 12; i += 4) add_unowned(&work, i);
    syn_work_drop(&work, 8);
    CHECK(work.n_unowned == 2 && has_unowned(&work, 0, 0) && has_unowned(&work, 1, 4));
    add_unowned(&work, 9);
    syn_work_drop(&work, 9); /* node 9 has no work */
    CHECK(work.n_unowned == 2);
    syn_work_drop(&work, 0);
    CHECK(work.n_nodes == 0 && work.n_pieces == 0 && work.n_unowned == 0);
    syn_work_free(&work);
}

/* Truncated input is rejected. Input with a changed byte is either rejected, or its nodes refer
   only to existing pieces. */
static void as_bytes(void) {
    syn_work work = {0}, back;
    syn_error err = {0};
    char *data = NULL;
    size_t bytes = 0;
    for (uint32_t n = 1; n < 40; n++) {
        add(&work, n);
        add_unowned(&work, n);
    }
    CHECK_OK(syn_work_pack(&work, &data, &bytes, &err), err);
    CHECK(bytes % 8 == 0);
    NEED_OK(syn_work_unpack(&back, data, bytes, &err), err);
    for (uint32_t n = 1; n < 40; n++)
        CHECK_MSG(has(&back, n) && has_unowned(&back, n - 1, n), "%u", (unsigned)n);
    CHECK(back.n_nodes == work.n_nodes && back.n_pieces == work.n_pieces);
    syn_work_free(&back);
    for (size_t cut = 0; cut < bytes; cut += 8)
        CHECK_MSG(syn_work_unpack(&back, data, cut, &err) == SYN_E_FORMAT, "%zu", cut);
    for (size_t i = 0; i < 64 + 40 * sizeof(syn_node_work); i++) {
        data[i] = (char)(data[i] + 1);
        if (syn_work_unpack(&back, data, bytes, &err) == SYN_OK) {
            for (uint32_t n = 0; n < 200; n++) {
                const syn_node_work *node = syn_work_of(&back, n);
                CHECK(!node || node->first + node->n_pieces <= back.n_pieces);
            }
            syn_work_free(&back);
        }
        data[i] = (char)(data[i] - 1);
    }
    syn_free(data);
    syn_work_free(&work);
}

/* A context stores the work of those rows that it has, with times relative to its creation.
   Forgetting rows removes their work. */
static void of_a_context(void) {
    const syn_spec spec = {SYN_F32, 1, {4}};
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    const syn_tensor x = syn_input(ctx, "x", &spec, NULL);
    syn_scale(ctx, x, 2);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_scale(ctx, x, 3);
    const uint64_t hash = syn_trace_hash(syn_ctx_trace(ctx)), now = syn__clock_ns();
    for (uint32_t n = 1; n < 4; n++) {
        syn_piece piece = {.call_ns = now + 5, .start_ns = now + 9, .wall_ns = 3};
        const syn_node_work work = {.node = n, .n_pieces = 1, .call_ns = now};
        syn_ctx_add_work(ctx, &work, &piece, (const char *const[]){n == 2 ? NULL : "kernel"});
    }
    const syn_work *work = &syn_ctx_trace(ctx)->work;
    CHECK(syn_work_of(work, 1) && syn_work_of(work, 2) && !syn_work_of(work, 3));
    const syn_node_work *first = syn_work_of(work, 1);
    const syn_piece *piece = &work->pieces[first->first];
    CHECK(first->call_ns < now && piece->call_ns == first->call_ns + 5 &&
          piece->start_ns == first->call_ns + 9 && piece->wall_ns == 3);
    CHECK_STR(syn_work_name(work, piece), "kernel");
    CHECK_STR(syn_work_name(work, &work->pieces[syn_work_of(work, 2)->first]), "");
    for (uint32_t n = 0; n < 3; n++) {
        const syn_unowned_piece between = {n, {.call_ns = now + n, .start_ns = now + 9}};
        syn_ctx_add_unowned_work(ctx, &between);
    }
    CHECK(work->n_unowned == 3 && work->unowned[2].piece.call_ns == first->call_ns + 2 &&
          work->unowned[2].piece.start_ns == first->call_ns + 9);
    CHECK(syn_trace_hash(syn_ctx_trace(ctx)) == hash);
    syn_forget(ctx, mark, NULL, 0);
    CHECK(syn_work_of(work, 1) && !syn_work_of(work, 2) && work->n_unowned == 2);
    /* Work after node 2 that is reported late: it began before node 2 was forgotten, or after
       that. */
    for (int since = 0; since < 2; since++) {
        const syn_unowned_piece late = {2, {.call_ns = since ? syn__clock_ns() : now}};
        syn_ctx_add_unowned_work(ctx, &late);
        CHECK_INT((int)work->n_unowned, 2 + since);
    }
    CHECK_INT(work->unowned[2].after, 1);
    CHECK_INT(syn_ctx_status(ctx), SYN_OK);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"found_by_number", found_by_number}, {"as_bytes", as_bytes}, {"of_a_context", of_a_context}};
TEST_MAIN(cases)
