#include "syntorch/backend.h"

#include <time.h>

#include "syntorch/memory.h"

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

static const syn_backend cpu = {"cpu",      true,     syn_aligned_malloc, syn_aligned_free,
                                cpu_kernel, cpu_clock};
static const syn_backend meta = {.name = "meta"};

const syn_backend *syn_backend_get(syn_device device) {
    return device == SYN_DEVICE_META ? &meta : &cpu;
}
