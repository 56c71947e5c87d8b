/* Internal. A simulation of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, with
   its default settings and one stream): how many bytes of a GPU it would reserve for the buffers of
   a run. It takes segments from the device, divides them into blocks, and returns no segment. What
   it reserves beyond the blocks in use is lost to fragmentation, or free for later buffers. */
#ifndef SYNTORCH_CACHING_ALLOCATOR_H
#define SYNTORCH_CACHING_ALLOCATOR_H

#include "syntorch/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct syn__cached_block {
    uint64_t address;
    size_t bytes;
    uint32_t before, after; /* its neighbours in the segment; 0: none */
    bool free;
    bool small; /* in a segment for small blocks */
} syn__cached_block;

typedef struct syn__caching {
    syn__cached_block *blocks; /* blocks[0] is unused */
    size_t n, cap;
    uint32_t vacant; /* the first unused entry of `blocks`; the others follow through `after` */
    struct syn__cached_list {
        uint32_t *at;
        size_t n, cap;
    } free[2];    /* blocks that are not in use, in no order: large, small */
    uint64_t end; /* the address of the next segment */
    size_t reserved_bytes;
} syn__caching;

/* Takes a block for `bytes` bytes, which give returns. *block: its number, never 0. */
syn_status syn__caching_take(syn__caching *c, size_t bytes, uint32_t *block,
                             syn_error *err) SYN_MUST_USE;
void syn__caching_give(syn__caching *c, uint32_t block);
void syn__caching_close(syn__caching *c);

#endif
