/* The one allocator of the library, growable arrays, and overflow-safe size arithmetic.
   Everything the library allocates goes through here, so that tests can make any step fail. */
#ifndef SYNTORCH_MEMORY_H
#define SYNTORCH_MEMORY_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

/* As malloc/calloc/realloc/free; NULL when memory is out (never aborts). Sizes of 0 give a unique
   pointer that may be freed. */
void *syn_malloc(size_t bytes);
void *syn_calloc(size_t count, size_t elem_bytes);
void *syn_realloc(void *ptr, size_t bytes);
void syn_free(void *ptr);

/* Copies of a NUL-terminated string / of `bytes` bytes plus a NUL; NULL when memory is out. */
char *syn_strdup(const char *text);
char *syn_strndup(const char *text, size_t bytes);

/* Cache-line aligned buffers for tensor data. */
void *syn_aligned_malloc(size_t bytes);
void syn_aligned_free(void *ptr);

/* A buffer that stays from use to use; empty when zero. get gives `bytes` bytes on a cache line,
   whose contents are undefined, in place of what it gave before; NULL when memory is out. It grows
   to twice what it was or more, so that few of many growing uses allocate. */
typedef struct syn_arena {
    void *data;
    size_t bytes;
} syn_arena;
void *syn_arena_get(syn_arena *arena, size_t bytes);
void syn_arena_free(syn_arena *arena);

/* Test instrument: the allocation after the next `n` ones fails, and all later ones too, in every
   thread of the process, until called with SYN_MEMORY_NEVER. Process-wide because malloc is. */
#define SYN_MEMORY_NEVER UINT64_MAX
void syn_memory_fail_after(uint64_t n);
/* Allocations asked for since the process started. */
uint64_t syn_memory_calls(void);

/* *out = a * b (a + b); false on overflow, *out then untouched. */
bool syn_mul_size(size_t a, size_t b, size_t *out);
bool syn_add_size(size_t a, size_t b, size_t *out);
bool syn_mul_i64(int64_t a, int64_t b, int64_t *out); /* false also for negative operands */

/* Makes room for `want` elements in *array (capacity *cap, in elements), growing by a quarter so
   that slack stays small. The elements are kept; on failure nothing changes. */
syn_status syn_grow(void *array_ptr, size_t *cap, size_t want, size_t elem_bytes,
                    syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
