/* The backends that are part of the library: cpu and meta. backend_module.c loads the CUDA
   backend. */
#include "syntorch/backend.h"

#include <string.h>

#include "syntorch/backend_private.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/context.h"

/* The state of the cpu backend for a context, with the times at which the running kernel began. */
struct cpu {
    syn_ctx *ctx;
    uint64_t start_ns, start_cpu_ns;
};

static syn_status cpu_open(void **device, syn_ctx *ctx, syn_error *err) {
    struct cpu *cpu = syn_malloc(sizeof *cpu);
    if (!cpu) return SYN_FAIL_NOMEM(err, sizeof *cpu, "a device");
    cpu->ctx = ctx;
    *device = cpu;
    return SYN_OK;
}

static void *cpu_alloc(void *device, size_t bytes) {
    (void)device;
    return syn_aligned_malloc(bytes);
}

static void cpu_free(void *device, void *data) {
    (void)device;
    syn_aligned_free(data);
}

static syn_status cpu_copy(void *device, void *to, const void *from, size_t bytes, syn_error *err) {
    (void)device;
    (void)err;
    if (bytes > 0) memcpy(to, from, bytes);
    return SYN_OK;
}

static syn_status cpu_fill(void *device, void *to, int byte, size_t bytes, syn_error *err) {
    (void)device;
    (void)err;
    memset(to, byte, bytes);
    return SYN_OK;
}

static syn_status cpu_sync(void *device, syn_error *err) {
    (void)device;
    (void)err;
    return SYN_OK;
}

static syn_kernel cpu_kernel(const syn_opdef *def) {
    return def->cpu;
}

static void cpu_begin(void *device, uint32_t node) {
    struct cpu *cpu = device;
    (void)node;
    cpu->start_ns = syn__clock_ns();
    cpu->start_cpu_ns = syn__thread_clock_ns();
}

static void cpu_end(void *device, uint32_t node) {
    const struct cpu *cpu = device;
    const uint64_t wall_ns = syn__clock_ns() - cpu->start_ns;
    const uint64_t cpu_ns = syn__thread_clock_ns() - cpu->start_cpu_ns;
    syn_ctx_set_time(cpu->ctx, node, cpu->start_ns, wall_ns, cpu_ns);
}

static const syn_backend cpu_backend = {.name = "cpu",
                                        .has_data = true,
                                        .on_host = true,
                                        .open = cpu_open,
                                        .close = syn_free,
                                        .alloc = cpu_alloc,
                                        .free = cpu_free,
                                        .copy_in = cpu_copy,
                                        .copy_out = cpu_copy,
                                        .fill = cpu_fill,
                                        .sync = cpu_sync,
                                        .kernel = cpu_kernel,
                                        .begin = cpu_begin,
                                        .end = cpu_end};
static const syn_backend meta_backend = {.name = "meta"};

syn_status syn_backend_get(syn_device device, const syn_backend **out, syn_error *err) {
    if (device == SYN_DEVICE_CUDA) return syn__backend_module(out, err);
    if (device != SYN_DEVICE_META && device != SYN_DEVICE_CPU)
        return SYN_FAIL(err, SYN_E_INVALID, "there is no device number %d", (int)device);
    *out = device == SYN_DEVICE_META ? &meta_backend : &cpu_backend;
    return SYN_OK;
}
