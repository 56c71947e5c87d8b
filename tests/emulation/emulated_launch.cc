/* The table of registered kernels, and the checks of a launch against the device's limits. */
#include <map>
#include <mutex>

#include "tests/emulation/emulated.h"

static std::mutex lock;
static std::map<const void *, emulated_kernel> kernels;

void emulated_know_kernel(const char *name, const void *kernel, emulated_caller *call,
                          const size_t *bytes, int n) {
    std::lock_guard<std::mutex> hold(lock);
    emulated_kernel &k = kernels[kernel];
    if (k.call) return;
    k.name = name;
    k.call = call;
    k.bytes.assign(bytes, bytes + n);
}

cudaError_t emulated_set_shared(const void *kernel, cudaFuncAttribute what, int value) {
    EMULATED_ENTER_AS("cudaFuncSetAttribute");
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || (size_t)value > emulated_shared_optin())
        return emulated_fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> hold(lock);
    kernels[kernel].shared = (size_t)value;
    return cudaSuccess;
}

bool emulated_make_launch(emulated_launch *l, const void *kernel, dim3 grid, dim3 block,
                          void **arguments, size_t shared, cudaError_t *code) {
    std::lock_guard<std::mutex> hold(lock);
    const auto found = kernels.find(kernel);
    *code = cudaErrorInvalidDeviceFunction;
    if (found == kernels.end() || !found->second.call) return false;
    emulated_kernel &k = found->second;
    size_t bytes = 0;
    for (size_t one : k.bytes) bytes += one;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const size_t allowed = k.shared > (48u << 10) ? k.shared : 48u << 10;
    *code = cudaErrorInvalidConfiguration;
    if (threads == 0 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > 65535 ||
        grid.z > 65535)
        return false;
    *code = cudaErrorInvalidValue;
    if (shared > allowed || bytes > 4096) return false;
    l->kernel = &k;
    l->function = kernel;
    l->grid = grid;
    l->block = block;
    l->shared = shared;
    for (size_t i = 0; i < k.bytes.size(); i++) {
        const char *from = static_cast<const char *>(arguments[i]);
        l->arguments.emplace_back(from, from + k.bytes[i]);
    }
    return true;
}
