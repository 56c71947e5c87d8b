/* The blocks of a paged KV cache; see kv_blocks.h. Free blocks are a doubly linked list, blocks
   with keys are in the chains of a hash table. Both are arrays over the block numbers, so no call
   allocates. */
#include "tools/serving/kv_blocks.h"

#include "syntorch/base/memory.h"
#include "tools/memory_check.h"

typedef struct block {
    uint64_t key; /* 0: none */
    int32_t users;
    int32_t next, previous; /* of a free block: in the list of free blocks */
    int32_t chain;          /* the next block in the chain of the hash table; -1: none */
} block;

struct kv_blocks {
    block
        *at; /* at[0], which is never given out, is the head of the circular list of free blocks */
    int32_t *chains;
    uint64_t mask; /* number of chains - 1 */
    int64_t n, left;
};

static void append(kv_blocks *b, int32_t i) {
    const int32_t last = b->at[0].previous;
    b->at[i].previous = last;
    b->at[i].next = 0;
    b->at[last].next = i;
    b->at[0].previous = i;
    b->left++;
}

static void detach(kv_blocks *b, int32_t i) {
    block *x = &b->at[i];
    b->at[x->previous].next = x->next;
    b->at[x->next].previous = x->previous;
    b->left--;
}

syn_status kv_blocks_new(kv_blocks **out, int64_t blocks, syn_error *err) {
    uint64_t chains = 1;
    if (blocks < 2 || blocks > INT32_MAX)
        return SYN_FAIL(err, SYN_E_INVALID, "a KV cache needs 2 to %d blocks, not %lld", INT32_MAX,
                        (long long)blocks);
    while (chains < (uint64_t)blocks) chains *= 2;
    const double bytes = (double)blocks * sizeof(block) + (double)chains * sizeof(int32_t);
    if (bytes > memory_free_in_machine("").bytes)
        return SYN_FAIL(err, SYN_E_NOMEM,
                        "a list of %lld KV blocks needs %.3g GiB, which this machine does not have",
                        (long long)blocks, bytes / 1073741824);
    kv_blocks *b = syn_calloc(1, sizeof *b);
    if (b) b->at = syn_calloc((size_t)blocks, sizeof *b->at);
    if (b) b->chains = syn_malloc((size_t)chains * sizeof *b->chains);
    if (!b || !b->at || !b->chains) {
        kv_blocks_free(b);
        return SYN_FAIL_NOMEM(err, (size_t)blocks * sizeof(block), "the blocks of a KV cache");
    }
    b->n = blocks;
    b->mask = chains - 1;
    for (uint64_t i = 0; i < chains; i++) b->chains[i] = -1;
    for (int32_t i = 1; i < blocks; i++) append(b, i);
    *out = b;
    return SYN_OK;
}

void kv_blocks_free(kv_blocks *b) {
    if (!b) return;
    syn_free(b->at);
    syn_free(b->chains);
    syn_free(b);
}

int64_t kv_blocks_left(const kv_blocks *b) {
    return b->left;
}

int64_t kv_blocks_usable(const kv_blocks *b) {
    return b->n - 1;
}

/* Keys are well mixed, so their low bits select the chain. */
static int32_t *chain_of(const kv_blocks *b, uint64_t key) {
    return &b->chains[key & b->mask];
}

static void drop_key(kv_blocks *b, int32_t i) {
    if (b->at[i].key == 0) return;
    int32_t *at = chain_of(b, b->at[i].key);
    while (*at != i) at = &b->at[*at].chain;
    *at = b->at[i].chain;
    b->at[i].key = 0;
}

void kv_blocks_take(kv_blocks *b, int64_t n, int32_t *out) {
    for (int64_t k = 0; k < n; k++) {
        const int32_t i = b->at[0].next;
        detach(b, i);
        drop_key(b, i);
        b->at[i].users = 1;
        out[k] = i;
    }
}

void kv_blocks_share(kv_blocks *b, int32_t i) {
    if (b->at[i].users++ == 0) detach(b, i);
}

bool kv_blocks_is_free(const kv_blocks *b, int32_t i) {
    return b->at[i].users == 0;
}

void kv_blocks_release(kv_blocks *b, const int32_t *blocks, int64_t n) {
    for (int64_t k = n - 1; k >= 0; k--)
        if (--b->at[blocks[k]].users == 0) append(b, blocks[k]);
}

void kv_blocks_set_key(kv_blocks *b, int32_t i, uint64_t key) {
    int32_t *at = chain_of(b, key);
    while (*at >= 0) at = &b->at[*at].chain;
    *at = i;
    b->at[i].key = key;
    b->at[i].chain = -1;
}

int32_t kv_blocks_find(const kv_blocks *b, uint64_t key) {
    int32_t i = *chain_of(b, key);
    while (i >= 0 && b->at[i].key != key) i = b->at[i].chain;
    return i;
}
