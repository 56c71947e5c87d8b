/* The devices of the emulation, the errors of its functions, and counts of calls. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <mutex>

#include "tests/emulation/emulated.h"

void emulated_die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("the emulated device: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static emulated_function *functions; /* list of all functions that were called */
static std::mutex functions_lock;
static std::atomic<int> stuck;
static thread_local cudaError_t last;
static thread_local int current;

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

emulated_function::emulated_function(const char *its_name) : name(its_name), n(0), failing(0) {
    const char *wish = setting("SYN_EMULATED_FAIL", ""), *colon = strchr(wish, ':');
    if (colon && strlen(name) == (size_t)(colon - wish) &&
        strncmp(name, wish, (size_t)(colon - wish)) == 0)
        failing = strtoull(colon + 1, NULL, 10);
    std::lock_guard<std::mutex> hold(functions_lock);
    next = functions;
    functions = this;
}

cudaError_t emulated_fail(cudaError_t code) {
    if (code != cudaSuccess) last = code;
    return code;
}

void emulated_stick(cudaError_t code) {
    int none = 0;
    stuck.compare_exchange_strong(none, code);
}

cudaError_t emulated_enter(emulated_function *f) {
    const uint64_t n = ++f->n;
    if (stuck) return emulated_fail((cudaError_t)(int)stuck);
    if (n != f->failing) return cudaSuccess;
    if (strcmp(f->name, "cudaLaunchKernel") != 0) return emulated_fail(cudaErrorUnknown);
    emulated_stick(cudaErrorIllegalAddress);
    return cudaSuccess;
}

uint64_t emulated_calls(const char *name) {
    uint64_t n = 0;
    std::lock_guard<std::mutex> hold(functions_lock);
    for (const emulated_function *f = functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) n += f->n;
    return n;
}

int emulated_device() {
    return current;
}

int emulated_capability() {
    return (int)(10 * atof(setting("SYN_EMULATED_CAPABILITY", "9.0")) + 0.5);
}

static int compiled() {
    return (int)(10 * atof(setting("SYN_EMULATED_PTX", setting("SYN_EMULATED_CAPABILITY", "9.0"))) +
                 0.5);
}

void emulated_compiled_for(int capability) {
    if (compiled() < capability)
        emulated_die("a kernel needs capability %d, and was compiled for %d", capability,
                     compiled());
}

cudaError_t emulated_func_attributes(cudaFuncAttributes *a) {
    EMULATED_ENTER_AS("cudaFuncGetAttributes");
    a->ptxVersion = compiled();
    a->binaryVersion = emulated_capability();
    return cudaSuccess;
}

size_t emulated_memory() {
    return strtoull(setting("SYN_EMULATED_MEMORY", "68719476736"), NULL, 10);
}

size_t emulated_shared_optin() {
    const int capability = emulated_capability();
    const size_t kib = capability >= 90 ? 227 : capability == 80 ? 163 : capability > 80 ? 99 : 64;
    return kib << 10;
}

static int devices() {
    return atoi(setting("SYN_EMULATED_DEVICES", "1"));
}

cudaError_t cudaGetDeviceCount(int *n) {
    EMULATED_ENTER();
    *n = devices();
    return *n > 0 ? cudaSuccess : emulated_fail(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
    EMULATED_ENTER();
    if (device < 0 || device >= devices()) return emulated_fail(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    EMULATED_ENTER();
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device) {
    EMULATED_ENTER();
    if (device < 0 || device >= devices()) return emulated_fail(cudaErrorInvalidDevice);
    switch (what) {
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = emulated_capability() / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = emulated_capability() % 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)emulated_shared_optin();
        break;
    default:
        return emulated_fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    EMULATED_ENTER();
    if (device < 0 || device >= devices()) return emulated_fail(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated device");
    snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "emulated %d",
             atoi(setting("SYN_EMULATED_FIRST", "0")) + device);
    p->totalGlobalMem = emulated_memory();
    p->major = emulated_capability() / 10;
    p->minor = emulated_capability() % 10;
    p->multiProcessorCount = 4;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    EMULATED_ENTER();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    return cudaDriverGetVersion(version);
}

cudaError_t cudaDeviceSynchronize() {
    EMULATED_ENTER();
    emulated_wait_all();
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    EMULATED_ENTER();
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    EMULATED_ENTER();
    (void)peer, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    EMULATED_ENTER();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
#define EMULATED_X(name, code, text) {cuda##name, "cuda" #name, text},
    EMULATED_ERRORS(EMULATED_X)
#undef EMULATED_X
};

const char *cudaGetErrorName(cudaError_t code) {
    for (const auto &error : errors)
        if (error.code == code) return error.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code) {
    for (const auto &error : errors)
        if (error.code == code) return error.text;
    return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
    const cudaError_t code = last;
    last = cudaSuccess;
    return stuck ? (cudaError_t)(int)stuck : code;
}

cudaError_t cudaPeekAtLastError() {
    return stuck ? (cudaError_t)(int)stuck : last;
}
