/* Implements device.h: wraps syn_ctx_new, and finds out which CUDA devices this machine has. */
#include "tests/support/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "syntorch/context.h"

bool ref_on_cuda(void) {
    const char *device = getenv("SYN_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

int ref_rounds(int n) {
    return ref_on_cuda() && getenv("SYN_EMULATED_DEVICES") ? (n + 3) / 4 : n;
}

bool ref_has_cuda(void) {
    const syn_backend *backend;
    return syn_backend_get(SYN_DEVICE_CUDA, &backend, NULL) == SYN_OK;
}

/* The function that counts the emulated device's calls; NULL on a real device. */
static uint64_t (*emulated_calls(void))(const char *of) {
    const char *path = getenv("SYNTORCH_CUDA_MODULE");
    void *module = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    uint64_t (*calls)(const char *of) = NULL;
    if (module) *(void **)&calls = dlsym(module, "emulated_calls");
    return calls;
}

uint64_t ref_cuda_calls(const char *name) {
    uint64_t (*calls)(const char *of) = emulated_calls();
    return calls ? calls(name) : 0;
}

int ref_cuda_devices(void) {
    const char *emulated = getenv("SYN_EMULATED_DEVICES");
    int n = 0, (*init)(unsigned) = NULL, (*count)(int *) = NULL;
    if (!ref_has_cuda()) return 0;
    if (emulated_calls()) return emulated ? atoi(emulated) : 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver) *(void **)&init = dlsym(driver, "cuInit");
    if (driver) *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    return init && count && init(0) == 0 && count(&n) == 0 ? n : 1;
}

/* The CUDA module reads SYNTORCH_CUDA_SHARED when it opens a device. */
void ref_share_devices(int ranks) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool ours;
    const bool wanted = ranks > ref_cuda_devices();
    pthread_mutex_lock(&lock);
    const char *set = getenv("SYNTORCH_CUDA_SHARED");
    if (!set || (ours && strcmp(set, "1") == 0)) {
        if (wanted && !set) setenv("SYNTORCH_CUDA_SHARED", "1", 1);
        if (!wanted && set) unsetenv("SYNTORCH_CUDA_SHARED");
        ours = wanted;
    }
    pthread_mutex_unlock(&lock);
}

/* If CUDA was requested and is missing, the whole program reports a skip before any test runs. */
static __attribute__((constructor)) void skip_without_device(void) {
    if (!ref_on_cuda() || ref_has_cuda()) return;
    fputs("skipped: no CUDA device\n", stderr);
    _Exit(77);
}

/* The linker's --wrap option gives the wrapped function these names. */
syn_status __real_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err);
syn_status __wrap_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err);

syn_status __wrap_syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm, syn_error *err) {
    if (device == SYN_DEVICE_CPU && ref_on_cuda()) device = SYN_DEVICE_CUDA;
    if (device == SYN_DEVICE_CUDA && (!comm || comm->ops->in_process))
        ref_share_devices(comm ? comm->size : 1);
    return __real_syn_ctx_new(out, device, comm, err);
}
