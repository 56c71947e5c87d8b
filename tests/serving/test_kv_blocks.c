/* Compares the blocks of a KV cache with a naive model in random operations: the order in which
   free blocks are reused, shared blocks, keys and their eviction. */
#include "tests/support/random.h"
#include "tests/support/test.h"

#include "tools/serving/kv_blocks.h"

enum { BLOCKS = 24, OWNERS = 8 };

/* The model: free blocks in the order of reuse, and blocks with keys in the order of their keys. */
static struct {
    int32_t order[BLOCKS], keyed[BLOCKS];
    int n_free, n_keyed, users[BLOCKS];
    uint64_t key[BLOCKS];
} naive;

typedef struct owner {
    int32_t blocks[BLOCKS];
    int n;
} owner;

static owner owners[OWNERS];
static uint64_t state;

static int below(int n) {
    return (int)(random_u32(&state) % (uint32_t)n);
}

static void drop(int32_t *list, int *n, int32_t block) {
    int i = 0;
    while (i < *n && list[i] != block) i++;
    if (i == *n) return;
    for ((*n)--; i < *n; i++) list[i] = list[i + 1];
}

static int32_t naive_find(uint64_t key) {
    for (int i = 0; i < naive.n_keyed; i++)
        if (naive.key[naive.keyed[i]] == key) return naive.keyed[i];
    return -1;
}

static void take(kv_blocks *b, owner *o) {
    int32_t got[BLOCKS];
    const int n = below(naive.n_free < 4 ? naive.n_free + 1 : 4);
    kv_blocks_take(b, n, got);
    for (int i = 0; i < n; i++) {
        const int32_t want = naive.order[0];
        CHECK_INT(got[i], want);
        drop(naive.order, &naive.n_free, want);
        drop(naive.keyed, &naive.n_keyed, want);
        naive.key[want] = 0;
        naive.users[want] = 1;
        o->blocks[o->n++] = want;
    }
}

static void share(kv_blocks *b, owner *o, uint64_t key) {
    const int32_t block = naive_find(key);
    CHECK_INT(kv_blocks_find(b, key), block);
    if (block < 0 || o->n == BLOCKS) return;
    CHECK(kv_blocks_is_free(b, block) == (naive.users[block] == 0));
    kv_blocks_share(b, block);
    if (naive.users[block]++ == 0) drop(naive.order, &naive.n_free, block);
    o->blocks[o->n++] = block;
}

static void release(kv_blocks *b, owner *o) {
    kv_blocks_release(b, o->blocks, o->n);
    for (; o->n > 0; o->n--) {
        const int32_t block = o->blocks[o->n - 1];
        if (--naive.users[block] == 0) naive.order[naive.n_free++] = block;
    }
}

static void set_key(kv_blocks *b, const owner *o, uint64_t key) {
    if (o->n == 0) return;
    const int32_t block = o->blocks[below(o->n)];
    if (naive.key[block] != 0) return;
    kv_blocks_set_key(b, block, key);
    naive.key[block] = key;
    naive.keyed[naive.n_keyed++] = block;
}

static void operations(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kv_blocks *b;
        syn_error err = {0};
        state = seed * 0x9e3779b97f4a7c15u;
        memset(&naive, 0, sizeof naive);
        for (int32_t i = 1; i < BLOCKS; i++) naive.order[naive.n_free++] = i;
        CHECK_OK(kv_blocks_new(&b, BLOCKS, &err), err);
        CHECK_INT(kv_blocks_usable(b), BLOCKS - 1);
        for (int round = 0; round < TEST_ROUNDS(8000) && test_failures == 0; round++) {
            owner *o = &owners[below(OWNERS)];
            /* few keys with equal low bits, so that chains have several blocks */
            const uint64_t key = 1 + (uint64_t)below(4) + 1024 * (uint64_t)below(3);
            switch (below(5)) {
            case 0:
                take(b, o);
                break;
            case 1:
                share(b, o, key);
                break;
            case 2:
                release(b, o);
                break;
            default:
                set_key(b, o, key);
            }
            CHECK_INT(kv_blocks_left(b), naive.n_free);
        }
        for (int i = 0; i < OWNERS; i++) release(b, &owners[i]);
        CHECK_INT(kv_blocks_left(b), BLOCKS - 1);
        kv_blocks_free(b);
    }
}

/* A sequence's blocks are reused from its end, and those of the sequence released first come
   first. A block that is used again keeps its key. */
static void order(void) {
    kv_blocks *b;
    syn_error err = {0};
    int32_t first[2], second[2], third[4];
    CHECK_OK(kv_blocks_new(&b, 5, &err), err);
    kv_blocks_take(b, 2, first);
    kv_blocks_take(b, 2, second);
    kv_blocks_set_key(b, second[0], 7);
    kv_blocks_release(b, second, 2);
    kv_blocks_release(b, first, 2);
    kv_blocks_share(b, kv_blocks_find(b, 7));
    kv_blocks_take(b, 3, third);
    CHECK(third[0] == second[1] && third[1] == first[1] && third[2] == first[0]);
    CHECK_INT(kv_blocks_find(b, 7), second[0]);
    kv_blocks_release(b, second, 1);
    kv_blocks_take(b, 1, third + 3);
    CHECK_INT(third[3], second[0]);
    CHECK_INT(kv_blocks_find(b, 7), -1);
    kv_blocks_free(b);
}

static syn_status create(void *arg, syn_error *err) {
    kv_blocks *b = NULL;
    const syn_status s = kv_blocks_new(&b, 100, err);
    if (s == SYN_OK) kv_blocks_free(b);
    (void)arg;
    return s;
}

static void failures(void) {
    kv_blocks *b;
    syn_error err = {0};
    CHECK(kv_blocks_new(&b, 1, &err) == SYN_E_INVALID);
    CHECK_STR(err.text, "a KV cache needs 2 to 2147483647 blocks, not 1");
    CHECK(kv_blocks_new(&b, (int64_t)INT32_MAX + 1, &err) == SYN_E_INVALID);
    CHECK_INT(test_without_memory(create, NULL), 3);
}

static const test_case cases[] = {
    {"operations", operations}, {"order", order}, {"failures", failures}};
TEST_MAIN(cases)
