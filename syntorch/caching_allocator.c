/* See caching_allocator.h. The constants are those of PyTorch. */
#include "syntorch/caching_allocator.h"

#include <string.h>

#include "syntorch/base/memory.h"

#define MIB ((size_t)1 << 20)

static const size_t MIN_BLOCK = 512, /* all blocks have a multiple of this size */
    SMALL_SIZE = MIB,                /* the largest "small" block */
    SMALL_BUFFER = 2 * MIB,          /* segments for small blocks */
    LARGE_BUFFER = 20 * MIB,         /* segments for blocks below MIN_LARGE_ALLOC */
    MIN_LARGE_ALLOC = 10 * MIB, ROUND_LARGE = 2 * MIB; /* segments for larger blocks: multiples */

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static size_t segment_bytes(size_t bytes) {
    if (bytes <= SMALL_SIZE) return SMALL_BUFFER;
    return bytes < MIN_LARGE_ALLOC ? LARGE_BUFFER : round_up(bytes, ROUND_LARGE);
}

/* Reserves space for two more blocks, in the table and in the lists of free blocks. */
static syn_status grow(syn__caching *c, syn_error *err) {
    if (c->n == 0) c->n = 1;
    SYN_TRY(syn_grow(&c->blocks, &c->cap, c->n + 2, sizeof *c->blocks, err));
    for (int k = 0; k < 2; k++)
        SYN_TRY(syn_grow(&c->free[k].at, &c->free[k].cap, c->n + 2, sizeof *c->free[k].at, err));
    return SYN_OK;
}

static uint32_t new_block(syn__caching *c, syn__cached_block block) {
    const uint32_t number = c->vacant ? c->vacant : (uint32_t)c->n++;
    if (c->vacant) c->vacant = c->blocks[number].after;
    c->blocks[number] = block;
    return number;
}

/* The index of the first free block that is not before a block of this size and address. */
static size_t find(const syn__caching *c, bool small, size_t bytes, uint64_t address) {
    const struct syn__cached_list *list = &c->free[small];
    size_t low = 0, high = list->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const syn__cached_block *b = &c->blocks[list->at[middle]];
        if (b->bytes < bytes || (b->bytes == bytes && b->address < address)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void add_free(syn__caching *c, uint32_t number) {
    syn__cached_block *b = &c->blocks[number];
    struct syn__cached_list *list = &c->free[b->small];
    uint32_t *at = list->at + find(c, b->small, b->bytes, b->address);
    memmove(at + 1, at, (size_t)(list->at + list->n - at) * sizeof *at);
    *at = number;
    list->n++;
    b->free = true;
}

static void remove_free(syn__caching *c, uint32_t number) {
    syn__cached_block *b = &c->blocks[number];
    struct syn__cached_list *list = &c->free[b->small];
    uint32_t *at = list->at + find(c, b->small, b->bytes, b->address);
    list->n--;
    memmove(at, at + 1, (size_t)(list->at + list->n - at) * sizeof *at);
    b->free = false;
}

/* The smallest free block of at least `bytes` bytes, and of several the one with the lowest
   address; 0: there is none. */
static uint32_t best_fit(const syn__caching *c, size_t bytes, bool small) {
    const size_t at = find(c, small, bytes, 0);
    return at < c->free[small].n ? c->free[small].at[at] : 0;
}

static uint32_t new_segment(syn__caching *c, size_t bytes, bool small) {
    const size_t segment = segment_bytes(bytes);
    const uint32_t number =
        new_block(c, (syn__cached_block){.address = c->end, .bytes = segment, .small = small});
    c->end += segment;
    c->reserved_bytes += segment;
    return number;
}

/* Cuts a block to `bytes` bytes and adds the rest to the free blocks. */
static void split(syn__caching *c, uint32_t number, size_t bytes) {
    const syn__cached_block whole = c->blocks[number];
    const uint32_t rest = new_block(c, (syn__cached_block){.address = whole.address + bytes,
                                                           .bytes = whole.bytes - bytes,
                                                           .before = number,
                                                           .after = whole.after,
                                                           .small = whole.small});
    c->blocks[number].bytes = bytes;
    c->blocks[number].after = rest;
    if (whole.after) c->blocks[whole.after].before = rest;
    add_free(c, rest);
}

syn_status syn__caching_take(syn__caching *c, size_t bytes, uint32_t *block, syn_error *err) {
    bytes = bytes < MIN_BLOCK ? MIN_BLOCK : round_up(bytes, MIN_BLOCK);
    const bool small = bytes <= SMALL_SIZE;
    SYN_TRY(grow(c, err));
    *block = best_fit(c, bytes, small);
    if (*block) remove_free(c, *block);
    else *block = new_segment(c, bytes, small);
    const size_t rest = c->blocks[*block].bytes - bytes;
    if (small ? rest >= MIN_BLOCK : rest > SMALL_SIZE) split(c, *block, bytes);
    return SYN_OK;
}

/* Appends the block after `number` to it. */
static void join_after(syn__caching *c, uint32_t number) {
    syn__cached_block *b = &c->blocks[number];
    const uint32_t after = b->after;
    b->bytes += c->blocks[after].bytes;
    b->after = c->blocks[after].after;
    if (b->after) c->blocks[b->after].before = number;
    c->blocks[after] = (syn__cached_block){.after = c->vacant};
    c->vacant = after;
}

void syn__caching_give(syn__caching *c, uint32_t block) {
    const uint32_t before = c->blocks[block].before, after = c->blocks[block].after;
    if (after && c->blocks[after].free) {
        remove_free(c, after);
        join_after(c, block);
    }
    if (before && c->blocks[before].free) {
        remove_free(c, before);
        join_after(c, before);
        block = before;
    }
    add_free(c, block);
}

void syn__caching_close(syn__caching *c) {
    syn_free(c->blocks);
    for (int k = 0; k < 2; k++) syn_free(c->free[k].at);
}
