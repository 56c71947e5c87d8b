/* The allocator of the library, growable arrays, and size arithmetic that detects overflow. All
   allocations go through this allocator, so that tests can make any of them fail. */
#ifndef SYNTORCH_MEMORY_H
#define SYNTORCH_MEMORY_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

/* Like malloc, calloc, realloc and free. They return NULL if memory is out, and never abort. A size
   of 0 gives a unique pointer, which must also be freed. */
void *syn_malloc(size_t bytes);
void *syn_calloc(size_t count, size_t elem_bytes);
void *syn_realloc(void *ptr, size_t bytes);
void syn_free(void *ptr);

/* Copy a NUL-terminated string, or `bytes` bytes plus a NUL. NULL if memory is out. */
char *syn_strdup(const char *text);
char *syn_strndup(const char *text, size_t bytes);

/* Buffers for tensor data, aligned to a cache line. */
void *syn_aligned_malloc(size_t bytes);
void syn_aligned_free(void *ptr);

/* A reusable scratch buffer; initialize it with zeros. syn_arena_get returns `bytes` bytes with
   undefined contents, aligned to a cache line, or NULL if memory is out. The buffer that the
   previous call returned becomes invalid. The arena at least doubles when it grows, so repeated use
   seldom allocates. */
typedef struct syn_arena {
    void *data;
    size_t bytes;
} syn_arena;
void *syn_arena_get(syn_arena *arena, size_t bytes);
void syn_arena_free(syn_arena *arena);

/* For tests: the next n allocations succeed and all later allocations fail, in every thread, until
   this function is called with SYN_MEMORY_NEVER. It applies to the whole process because malloc
   does. */
#define SYN_MEMORY_NEVER UINT64_MAX
void syn_memory_fail_after(uint64_t n);
/* Number of allocations requested since the process started. */
uint64_t syn_memory_calls(void);

/* Set *out to a * b or a + b. On overflow they return false and do not change *out. */
bool syn_mul_size(size_t a, size_t b, size_t *out);
bool syn_add_size(size_t a, size_t b, size_t *out);
bool syn_mul_i64(int64_t a, int64_t b, int64_t *out); /* also false if an operand is negative */

/* Grows the array *array_ptr, which has space for *cap elements of elem_bytes bytes each, to at
   least `want` elements, and updates *cap. An array that is too small grows by at least a quarter.
   The elements keep their values; on failure nothing changes. */
syn_status syn_grow(void *array_ptr, size_t *cap, size_t want, size_t elem_bytes,
                    syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
