/* Shared by the tests of the emulation itself: launching kernels, device arrays, and tests that
   must end a process. */
#ifndef TESTS_EMULATION_EMULATION_TEST_H
#define TESTS_EMULATION_EMULATION_TEST_H

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/test.h"

#define CHECK_CUDA(call)                                                            \
    do {                                                                            \
        const cudaError_t check_code = (call);                                      \
        CHECK_MSG(check_code == cudaSuccess, "%s", cudaGetErrorString(check_code)); \
    } while (0)
#define CHECK_CODE(call, want)                                                           \
    do {                                                                                 \
        const cudaError_t check_code = (call);                                           \
        CHECK_MSG(check_code == (want), "got %s, want %s", cudaGetErrorName(check_code), \
                  cudaGetErrorName(want));                                               \
    } while (0)

/* LAUNCH(kernel, grid, block, bytes of dynamic shared memory, stream, arguments...) launches a
   kernel and returns the error code. */
#define LAUNCH(kernel, grid, block, shared, stream, ...) \
    launch(#kernel, kernel, (grid), (block), (shared), (stream), __VA_ARGS__)
template <typename... P, typename... A>
static inline cudaError_t launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                 size_t shared, cudaStream_t stream, A... arguments) {
    emulated_know(name, kernel);
    return [&](P... parameters) {
        void *pointers[] = {static_cast<void *>(&parameters)...};
        return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, pointers,
                                shared, stream);
    }(static_cast<P>(arguments)...);
}

/* Device memory with n elements, which are zero at first. */
template <typename T> struct device_array {
    T *data = NULL;
    size_t n;

    explicit device_array(size_t count) : n(count) {
        NEED(cudaMalloc(&data, n * sizeof(T)) == cudaSuccess, "no memory");
        NEED(cudaMemsetAsync(data, 0, n * sizeof(T), NULL) == cudaSuccess, "no fill");
    }
    explicit device_array(const std::vector<T> &from) : device_array(from.size()) {
        cudaMemcpy(data, from.data(), n * sizeof(T), cudaMemcpyHostToDevice);
    }
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() { cudaFree(data); }
    /* A copy of the elements after all work of the device is done. */
    std::vector<T> host() const {
        std::vector<T> to(n);
        cudaMemcpy(to.data(), data, n * sizeof(T), cudaMemcpyDeviceToHost);
        return to;
    }
};

/* Tests that must end a process run in a child process. The child is this program with "--child
   NAME", and with settings of environment variables before it (such as
   "SYN_EMULATED_DEVICES=0"). */
struct ended {
    int code; /* exit code of the shell; after a signal, 128 + its number */
    std::string text;
};
static inline ended run_child(const char *name, const char *settings = "") {
    char program[4096] = "";
    ended e = {-1, ""};
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) return e;
    const std::string command =
        std::string("ulimit -c 0; ") + settings + " '" + program + "' --child " + name + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    if (!pipe) return e;
    char part[512];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) e.text.append(part, n);
    const int status = pclose(pipe);
    e.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return e;
}
/* Checks that a child ends with this sentence. A report of the address sanitizer, which may find an
   out-of-bounds access first, is also accepted. */
#define CHECK_DIES(child, sentence)                                                          \
    do {                                                                                     \
        const ended check_end = run_child(child, "SYN_EMULATED_ORDER=forward");              \
        CHECK_MSG(check_end.code != 0 &&                                                     \
                      (check_end.text.find(sentence) != std::string::npos ||                 \
                       check_end.text.find("AddressSanitizer: heap-") != std::string::npos), \
                  "%s: %d, \"%s\"", (child), check_end.code, check_end.text.c_str());        \
    } while (0)

/* Like TEST_MAIN, for programs with child processes. */
#define TEST_MAIN_WITH(cases, children)                                                      \
    int main(int argc, char **argv) {                                                        \
        for (size_t i = 0; argc > 2 && i < COUNT(children); i++)                             \
            if (strcmp(argv[1], "--child") == 0 && strcmp(argv[2], children[i].name) == 0) { \
                children[i].run();                                                           \
                return test_failures ? 99 : 0;                                               \
            }                                                                                \
        return test_run(cases, COUNT(cases), argc, argv);                                    \
    }

#endif
