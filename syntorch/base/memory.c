/* Allocation, arenas, growable arrays and checked arithmetic (memory.h). */
#include "syntorch/base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN_BYTES   64 /* size of a cache line and of the widest vector register */
#define MIN_CAP_ELEMS 64
#define HUGE_BYTES    ((size_t)2 << 20) /* size of a huge page on x86-64 and arm64 */

/* Tests use these two variables to make allocations fail. They are global because malloc is. */
static _Atomic uint64_t calls;
static _Atomic uint64_t limit = SYN_MEMORY_NEVER; /* allocations fail when `calls` has reached this
                                                     value */

/* Counts an allocation and returns whether it must fail. Relaxed memory order suffices, because
   only totals matter. Sizes above PTRDIFF_MAX fail here, because the malloc of sanitizers aborts on
   them. */
static bool must_fail(size_t bytes) {
    const uint64_t before = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return before >= atomic_load_explicit(&limit, memory_order_relaxed) || bytes > PTRDIFF_MAX;
}

void syn_memory_fail_after(uint64_t n) {
    const uint64_t now = syn_memory_calls();
    atomic_store_explicit(&limit, n > SYN_MEMORY_NEVER - now ? SYN_MEMORY_NEVER : now + n,
                          memory_order_relaxed);
}

uint64_t syn_memory_calls(void) {
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void *syn_malloc(size_t bytes) {
    return must_fail(bytes) ? NULL : malloc(bytes != 0 ? bytes : 1);
}

void *syn_calloc(size_t count, size_t elem_bytes) {
    size_t bytes = SIZE_MAX;
    (void)syn_mul_size(count, elem_bytes, &bytes);
    return must_fail(bytes) ? NULL : calloc(1, bytes != 0 ? bytes : 1);
}

void *syn_realloc(void *ptr, size_t bytes) {
    return must_fail(bytes) ? NULL : realloc(ptr, bytes != 0 ? bytes : 1);
}

void syn_free(void *ptr) {
    free(ptr);
}

char *syn_strdup(const char *text) {
    return syn_strndup(text, strlen(text));
}

char *syn_strndup(const char *text, size_t bytes) {
    char *copy = (char *)syn_malloc(bytes < SIZE_MAX ? bytes + 1 : bytes);
    if (copy == NULL) return NULL;
    if (bytes != 0) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

void *syn_aligned_malloc(size_t bytes) {
    if (must_fail(bytes)) return NULL;
    const size_t align = bytes < 2 * HUGE_BYTES ? ALIGN_BYTES : HUGE_BYTES;
    size_t whole;
    if (!syn_add_size(bytes != 0 ? bytes : 1, ALIGN_BYTES - 1, &whole)) return NULL;
    whole -= whole % ALIGN_BYTES;
    void *ptr = NULL;
    if (posix_memalign(&ptr, align, whole) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    /* Advise only whole huge pages, because the rest may share a page with other data. A failure
       does not matter, because this is only advice. */
    if (align == HUGE_BYTES) (void)madvise(ptr, whole - whole % HUGE_BYTES, MADV_HUGEPAGE);
#endif
    return ptr;
}

void syn_aligned_free(void *ptr) {
    free(ptr);
}

void *syn_arena_get(syn_arena *arena, size_t bytes) {
    if (arena->data != NULL && bytes <= arena->bytes) return arena->data;
    const size_t twice = arena->bytes <= SIZE_MAX / 2 ? 2 * arena->bytes : 0;
    const size_t want = bytes > twice ? bytes : twice;
    syn_arena_free(arena);
    arena->data = syn_aligned_malloc(want);
    if (arena->data != NULL) arena->bytes = want;
    return arena->data;
}

void syn_arena_free(syn_arena *arena) {
    syn_aligned_free(arena->data);
    *arena = (syn_arena){0};
}

bool syn_mul_size(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

bool syn_add_size(size_t a, size_t b, size_t *out) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

bool syn_mul_i64(int64_t a, int64_t b, int64_t *out) {
    const bool small = ((uint64_t)a | (uint64_t)b) >> 31 == 0; /* the usual case, which needs no
                                                                  division */
    if (!small && (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b))) return false;
    *out = a * b;
    return true;
}

syn_status syn_grow(void *array_ptr, size_t *cap, size_t want, size_t elem_bytes, syn_error *err) {
    assert(elem_bytes != 0);
    if (want <= *cap) return SYN_OK;
    size_t next, bytes;
    if (!syn_add_size(*cap, *cap / 4, &next) || next < want) next = want;
    if (next < MIN_CAP_ELEMS) next = MIN_CAP_ELEMS;
    if (!syn_mul_size(next, elem_bytes, &bytes)) {
        /* Perhaps only the additional capacity made the size overflow. */
        next = want;
        if (!syn_mul_size(next, elem_bytes, &bytes))
            return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %zu elements of %zu bytes", want,
                            elem_bytes);
    }
    void *array; /* *array_ptr has type T *, so C allows reading it as a void * only with memcpy */
    memcpy(&array, array_ptr, sizeof array);
    array = syn_realloc(array, bytes);
    if (array == NULL) return SYN_FAIL_NOMEM(err, bytes, "a growing array");
    memcpy(array_ptr, &array, sizeof array);
    *cap = next;
    return SYN_OK;
}
