/* Inside of the emulation. */
#ifndef TESTS_EMULATION_EMULATED_H
#define TESTS_EMULATION_EMULATED_H

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

/* What the compiler says of sanitizers: gcc by names of its own, clang by a question. */
#if defined(__SANITIZE_ADDRESS__)
#define EMULATED_ADDRESS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATED_ADDRESS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define EMULATED_THREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EMULATED_THREAD 1
#endif
#endif

/* Ends the program with a sentence: a device would go on and be wrong. */
[[noreturn]] void emulated_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- emulated_device.cc ---- */

/* A function that was called, and how often; `failing`: which of its calls is to fail. */
struct emulated_function {
    explicit emulated_function(const char *name);
    const char *name;
    std::atomic<uint64_t> n;
    uint64_t failing;
    emulated_function *next;
};
/* What this call of it gives: a failure that was wished for, or one that came before and stays. The
   thread's cudaGetLastError gives it, too. */
cudaError_t emulated_enter(emulated_function *f);
cudaError_t emulated_fail(cudaError_t code);
#define EMULATED_ENTER_AS(name)                                           \
    do {                                                                  \
        static emulated_function emulated_self(name);                     \
        const cudaError_t emulated_code = emulated_enter(&emulated_self); \
        if (emulated_code != cudaSuccess) return emulated_code;           \
    } while (0)
#define EMULATED_ENTER() EMULATED_ENTER_AS(__func__)
/* The same for what is done after a failure, too. */
#define EMULATED_ENTER_ANYHOW(code)                   \
    static emulated_function emulated_self(__func__); \
    const cudaError_t code = emulated_enter(&emulated_self)
/* From now on all calls fail with it. */
void emulated_stick(cudaError_t code);
int emulated_device();     /* the thread's */
int emulated_capability(); /* 90 */
size_t emulated_memory();  /* bytes a device has */
size_t emulated_shared_optin();

/* ---- emulated_memory.cc ---- */

/* Dies unless those bytes lie within what was allocated, or are no device's. */
void emulated_check_range(const void *at, size_t bytes, const char *what);
void emulated_check_guards();

/* ---- emulated_fiber.cc ---- */

/* A launch, with copies of its arguments. */
struct emulated_launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared;
    std::vector<std::vector<char>> arguments;
};
/* False: the kernel is unknown, or the launch is none that a device takes; *code says so. */
bool emulated_make_launch(emulated_launch *l, const void *kernel, dim3 grid, dim3 block,
                          void **arguments, size_t shared, cudaError_t *code);
void emulated_run(const emulated_launch &l);

/* ---- emulated_stream.cc ---- */

typedef std::function<void()> emulated_work;
/* Asks the stream for it: done behind all that was asked before, or a node of a graph. */
cudaError_t emulated_ask(cudaStream_t stream, emulated_work work);
/* All streams of the process. */
void emulated_wait_all();
/* For calls that a thread must not make while it captures in a mode that is not relaxed: the
   failure that the call gives, after which the capture has failed, too. */
cudaError_t emulated_unsafe();

struct emulated_graph_node {
    emulated_work work; /* empty: of a kernel */
    emulated_launch launch;
};
struct emulated_graph {
    std::vector<std::shared_ptr<emulated_graph_node>> nodes;
    cudaGraphNode_t newest;
    unsigned long long id;
    bool failed;
};

#endif
