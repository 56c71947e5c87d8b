#include "tests/support/device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/context.h"

bool ref_on_cuda(void) {
    const char *device = getenv("SYN_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

bool ref_has_cuda(void) {
    const syn_backend *backend;
    return syn_backend_get(SYN_DEVICE_CUDA, &backend, NULL) == SYN_OK;
}

uint64_t ref_cuda_calls(const char *name) {
    const char *path = getenv("SYNTORCH_CUDA_MODULE");
    void *module = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    uint64_t (*calls)(const char *of) = NULL;
    if (module) *(void **)&calls = dlsym(module, "emulated_calls");
    return calls ? calls(name) : 0;
}

/* The linker's names for a function that is replaced (--wrap). */
syn_status __real_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err);
syn_status __wrap_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err);

syn_status __wrap_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err) {
    if (device == SYN_DEVICE_CPU && ref_on_cuda()) device = SYN_DEVICE_CUDA;
    return __real_syn_ctx_new(out, device, comm, err);
}
