/* Tests the simulated allocator: with sizes that were counted by hand from the rules of PyTorch's
   CUDACachingAllocator.cpp, and with random requests for what must always hold. */
#include "syntorch/caching_allocator.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/context.h"
#include "tests/support/test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static uint32_t take(syn__caching *c, size_t bytes) {
    uint32_t block = 0;
    syn_error err = {0};
    NEED_OK(syn__caching_take(c, bytes, &block, &err), err);
    return block;
}

static void test_small_blocks(void) {
    syn__caching c = {.n = 0};
    const uint32_t a = take(&c, 100);
    CHECK_INT(c.reserved_bytes, 2 * MIB); /* a segment for small blocks */
    CHECK_INT(c.blocks[a].bytes, 512);
    take(&c, MIB);
    CHECK_INT(c.reserved_bytes, 2 * MIB); /* 1 MiB - 512 bytes are left */
    take(&c, MIB);
    CHECK_INT(c.reserved_bytes, 4 * MIB);
    syn__caching_give(&c, a);
    CHECK(take(&c, 513) != a); /* 1,024 bytes do not fit into the 512, but into another rest */
    CHECK_INT(take(&c, 512), a);
    CHECK_INT(c.reserved_bytes, 4 * MIB);
    syn__caching_close(&c);
}

static void test_large_blocks(void) {
    syn__caching c = {.n = 0};
    take(&c, MIB + 1);
    CHECK_INT(c.reserved_bytes, 20 * MIB); /* below 10 MiB, blocks share segments of 20 MiB */
    take(&c, 9 * MIB + 512);
    CHECK_INT(c.reserved_bytes, 20 * MIB);
    take(&c, 10 * MIB - 512);
    CHECK_INT(c.reserved_bytes, 40 * MIB); /* less than 10 MiB are left in the first segment */
    take(&c, 10 * MIB);
    CHECK_INT(c.reserved_bytes, 40 * MIB); /* fits into the second */
    const uint32_t b = take(&c, 11 * MIB);
    CHECK_INT(c.reserved_bytes, 52 * MIB);  /* a segment of its own, a multiple of 2 MiB */
    CHECK_INT(c.blocks[b].bytes, 12 * MIB); /* a rest of 1 MiB stays in the block */
    syn__caching_close(&c);
}

/* A free block is divided, and its parts are joined again. */
static void test_fragments(void) {
    syn__caching c = {.n = 0};
    const uint32_t a = take(&c, 100 * MIB), b = take(&c, 60 * MIB);
    syn__caching_give(&c, a);
    syn__caching_give(&c, b);
    const uint32_t one = take(&c, 50 * MIB); /* the best fit are the 60 MiB */
    CHECK_INT(one, b);
    const uint32_t two = take(&c, 20 * MIB), three = take(&c, 30 * MIB), four = take(&c, 50 * MIB);
    CHECK_INT(c.reserved_bytes, 160 * MIB);
    take(&c, 11 * MIB); /* only 10 MiB are left, beside the 50 of the second segment */
    CHECK_INT(c.reserved_bytes, 172 * MIB);
    syn__caching_give(&c, two);
    syn__caching_give(&c, four);
    take(&c, 60 * MIB); /* 70 MiB are free in the first segment, but not together */
    CHECK_INT(c.reserved_bytes, 232 * MIB);
    syn__caching_give(&c, three);
    const uint32_t all = take(&c, 100 * MIB);
    CHECK_INT(c.reserved_bytes, 232 * MIB);
    CHECK_INT(c.blocks[all].bytes, 100 * MIB);
    syn__caching_close(&c);
}

/* Segments are divided without gaps, neighbouring blocks are not both free, and blocks are large
   enough. */
static void check(const syn__caching *c, const uint32_t *taken, const size_t *bytes, size_t n) {
    size_t used = 0, unused = 0;
    for (size_t i = 0; i < n; i++) {
        const syn__cached_block *b = &c->blocks[taken[i]];
        used += b->bytes;
        CHECK(!b->free && b->bytes >= bytes[i]);
        CHECK(!b->after || c->blocks[b->after].address == b->address + b->bytes);
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < c->free[k].n; i++) {
            const syn__cached_block *b = &c->blocks[c->free[k].at[i]];
            unused += b->bytes;
            CHECK(b->free && b->small == (k == 1));
            CHECK(!b->after || !c->blocks[b->after].free);
            CHECK(!b->before || !c->blocks[b->before].free);
        }
    CHECK_INT(used + unused, c->reserved_bytes);
}

static void test_random_requests(void) {
    enum { MOST = 64 };
    syn__caching c = {.n = 0};
    uint32_t taken[MOST];
    size_t bytes[MOST], n = 0;
    srand(1);
    for (int i = 0; i < 20000 && test_failures == 0; i++) {
        if (n < MOST && rand() % 2) {
            bytes[n] = (size_t)rand() % (rand() % 2 ? 4 * KIB : 40 * MIB) + 1;
            taken[n] = take(&c, bytes[n]);
            n++;
        } else if (n > 0) {
            const size_t at = (size_t)rand() % n;
            syn__caching_give(&c, taken[at]);
            taken[at] = taken[--n];
            bytes[at] = bytes[n];
        }
        if (i % 16 == 0) check(&c, taken, bytes, n);
    }
    while (n > 0) syn__caching_give(&c, taken[--n]);
    check(&c, taken, bytes, 0);
    syn__caching_close(&c);
}

/* A context counts its tensors, also those that were released and whose memory is used again. */
static void test_context(void) {
    const syn_spec spec = {SYN_F32, 1, {11 * (int64_t)MIB / 4}};
    syn_error err = {0};
    syn_ctx *ctx;
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    syn_input(ctx, "x", &spec, NULL);
    CHECK_INT(syn_ctx_reserved_bytes(ctx), 0); /* not asked for */
    syn_ctx_free(ctx);
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    CHECK_OK(syn_ctx_count_reserved(ctx, &err), err);
    for (int i = 0; i < 3; i++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        syn_input(ctx, "x", &spec, NULL);
        CHECK_INT(syn_ctx_reserved_bytes(ctx), 12 * MIB);
        syn_release(ctx, mark, NULL, 0);
    }
    syn_input(ctx, "y", &spec, NULL);
    syn_input(ctx, "z", &spec, NULL);
    CHECK_INT(syn_ctx_reserved_bytes(ctx), 24 * MIB);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"small blocks", test_small_blocks}, {"large blocks", test_large_blocks},
    {"fragments", test_fragments},       {"random requests", test_random_requests},
    {"context", test_context},
};
TEST_MAIN(cases)
