/* The blocks of a paged KV cache (Kwon et al. 2023): which are free, how many requests use each,
   and which hold a known prefix. Blocks are numbers; the cache itself is not here. Free blocks are
   reused in the order in which they were released. A free block keeps its key until it is reused,
   so a later request with the same prefix can take it back (prefix caching). */
#ifndef TOOLS_KV_BLOCKS_H
#define TOOLS_KV_BLOCKS_H

#include "syntorch/base/status.h"

typedef struct kv_blocks kv_blocks;

/* Creates a pool of `blocks` blocks, at least 2. As in vLLM, block 0 is never given out. */
syn_status kv_blocks_new(kv_blocks **out, int64_t blocks, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void kv_blocks_free(kv_blocks *b);
/* Number of blocks that no request uses. */
int64_t kv_blocks_left(const kv_blocks *b);
/* Number of blocks that can be given out: all but block 0. */
int64_t kv_blocks_usable(const kv_blocks *b);
/* Takes n free blocks, the ones released first, and stores their numbers. They lose their keys. n
   must not exceed kv_blocks_left. */
void kv_blocks_take(kv_blocks *b, int64_t n, int32_t *out);
/* Adds a user to a block with a key, which may be free. */
void kv_blocks_share(kv_blocks *b, int32_t block);
/* Whether no request uses the block. */
bool kv_blocks_is_free(const kv_blocks *b, int32_t block);
/* Removes a user of n blocks, the last one first, so that the end of a sequence is reused before
   its beginning. */
void kv_blocks_release(kv_blocks *b, const int32_t *blocks, int64_t n);
/* Gives a used block the key of its contents, which is not 0. */
void kv_blocks_set_key(kv_blocks *b, int32_t block, uint64_t key);
/* A block with this key; -1: none. If several blocks have it, the one that got it first. */
int32_t kv_blocks_find(const kv_blocks *b, uint64_t key);

#endif
