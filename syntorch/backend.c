#include "syntorch/backend.h"

#include <string.h>
#include <time.h>

#include "syntorch/memory.h"

/* Size classes: 16 per power of two from 256 bytes, so at most a sixteenth of a buffer is slack. */
enum { MIN_SHIFT = 8, STEPS = 16, CLASSES = (64 - MIN_SHIFT) * STEPS };

struct free_buffer {
    struct free_buffer *next;
};

struct syn_pool {
    struct free_buffer *free[CLASSES];
    size_t used_bytes, peak_bytes, held_bytes;
};

static size_t size_class(size_t bytes, int *index) {
    int shift = MIN_SHIFT;
    while (shift < 62 && ((size_t)1 << (shift + 1)) < bytes) shift++;
    const size_t base = (size_t)1 << shift, step = base / STEPS;
    const size_t n = bytes <= base ? 0 : (bytes - base + step - 1) / step;
    *index = (shift - MIN_SHIFT) * STEPS + (int)n;
    return base + n * step;
}

syn_pool *syn_pool_new(void) {
    return syn_calloc(1, sizeof(syn_pool));
}

void *syn_pool_alloc(syn_pool *pool, size_t bytes) {
    int c;
    const size_t size = size_class(bytes, &c);
    if (size < bytes || c >= CLASSES) return NULL;
    struct free_buffer *b = pool->free[c];
    if (b) {
        pool->free[c] = b->next;
    } else {
        b = syn_aligned_malloc(size);
        if (!b) return NULL;
        pool->held_bytes += size;
    }
    pool->used_bytes += size;
    if (pool->used_bytes > pool->peak_bytes) pool->peak_bytes = pool->used_bytes;
    return b;
}

void syn_pool_release(syn_pool *pool, void *data, size_t bytes) {
    if (!data) return;
    int c;
    pool->used_bytes -= size_class(bytes, &c);
    struct free_buffer *b = data;
    b->next = pool->free[c];
    pool->free[c] = b;
}

void syn_pool_stats(const syn_pool *pool, size_t *used_bytes, size_t *peak_bytes,
                    size_t *held_bytes) {
    *used_bytes = pool->used_bytes;
    *peak_bytes = pool->peak_bytes;
    *held_bytes = pool->held_bytes;
}

void syn_pool_free(syn_pool *pool) {
    if (!pool) return;
    for (int c = 0; c < CLASSES; c++)
        for (struct free_buffer *b = pool->free[c], *next; b; b = next) {
            next = b->next;
            syn_aligned_free(b);
        }
    syn_free(pool);
}

static syn_status (*cpu_kernel(const syn_opdef *def))(syn_call *) {
    return def->cpu;
}

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void cpu_clock(uint64_t *wall_ns, uint64_t *cpu_ns) {
    *wall_ns = clock_ns(CLOCK_MONOTONIC);
    *cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static const syn_backend cpu = {"cpu", syn_pool_alloc, syn_pool_release, cpu_kernel, cpu_clock};
static const syn_backend meta = {"meta", NULL, NULL, NULL, NULL};

const syn_backend *syn_backend_get(syn_device device) {
    return device == SYN_DEVICE_META ? &meta : &cpu;
}
