/* The internal interface between the sources of the emulated device. */
#ifndef TESTS_EMULATION_EMULATED_H
#define TESTS_EMULATION_EMULATED_H

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

/* Detects sanitizers: gcc defines macros, and clang has __has_feature. */
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

/* Prints a message and ends the program. Called where a real device would continue with wrong
   results. */
[[noreturn]] void emulated_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- emulated_device.cc ---- */

/* A runtime function that was called, with its number of calls. failing: the number of the call
   that must fail; 0: none. */
struct emulated_function {
    explicit emulated_function(const char *name);
    const char *name;
    std::atomic<uint64_t> n;
    uint64_t failing;
    emulated_function *next;
};
/* emulated_enter counts a call. It returns an error if SYN_EMULATED_FAIL requests one, or if a
   sticky error has occurred before. emulated_fail stores an error for the thread's cudaGetLastError
   and returns it. */
cudaError_t emulated_enter(emulated_function *f);
cudaError_t emulated_fail(cudaError_t code);
#define EMULATED_ENTER_AS(name)                                           \
    do {                                                                  \
        static emulated_function emulated_self(name);                     \
        const cudaError_t emulated_code = emulated_enter(&emulated_self); \
        if (emulated_code != cudaSuccess) return emulated_code;           \
    } while (0)
#define EMULATED_ENTER() EMULATED_ENTER_AS(__func__)
/* The same for functions that must do their work even after an error. */
#define EMULATED_ENTER_ANYHOW(code)                   \
    static emulated_function emulated_self(__func__); \
    const cudaError_t code = emulated_enter(&emulated_self)
/* Makes an error sticky: all later calls fail with this error. */
void emulated_stick(cudaError_t code);
int emulated_device();     /* the thread's current device */
int emulated_capability(); /* 10 * major + minor of the compute capability, for example 90 */
size_t emulated_memory();  /* memory of a device in bytes */
size_t emulated_shared_optin();

/* ---- emulated_memory.cc ---- */

/* Ends the program if the range begins in a device buffer and extends beyond it. */
void emulated_check_range(const void *at, size_t bytes, const char *what);
void emulated_check_guards();

/* ---- emulated_launch.cc ---- */

struct emulated_kernel {
    const char *name;
    emulated_caller *call;
    std::vector<size_t> bytes; /* size of each parameter in bytes */
    size_t shared;             /* limit of dynamic shared memory in bytes; 0: the default */
    /* For emulated_statics.cc: the range of the kernel's variables in the module's thread-local
       data, and the number of threads of the largest block that was examined. */
    size_t statics_first, statics_end;
    int statics_threads;
};
/* A kernel launch with copies of its arguments. */
struct emulated_launch {
    emulated_kernel *kernel;
    const void *function;
    dim3 grid, block;
    size_t shared;
    std::vector<std::vector<char>> arguments;
};
/* Returns false and sets *code if the kernel is unknown or the launch is invalid. */
bool emulated_make_launch(emulated_launch *l, const void *kernel, dim3 grid, dim3 block,
                          void **arguments, size_t shared, cudaError_t *code);

/* ---- emulated_block.cc ---- */

void emulated_run(const emulated_launch &l);

/* ---- emulated_statics.cc ---- */

/* The static shared memory of a stream's thread, which is part of the module's thread-local
   data. */
struct emulated_statics {
    char *data = NULL;
    size_t bytes = 0;
    emulated_kernel *kernel = NULL;
    int threads = 0;
    /* Range of the kernel's variables, in bytes from the start of the thread-local data. */
    size_t first = 0, end = 0;
    bool looking = false; /* the current block is used to determine the range */
    std::vector<char> before;

    void open(emulated_kernel *k, int n);
    /* Call these before and after each block. */
    void begin_block();
    void end_block();
};

/* ---- emulated_stream.cc ---- */

typedef std::function<void()> emulated_work;
/* Queues work in the stream. If the stream is being captured, adds the work as a node to its graph
   instead. */
cudaError_t emulated_ask(cudaStream_t stream, emulated_work work);
/* Waits for all streams of the current device. */
void emulated_wait_all();
/* Functions that are forbidden during a capture call this. If the thread has a capture whose mode
   is not relaxed, the function returns the error and marks the capture as failed. */
cudaError_t emulated_unsafe();

struct emulated_graph_node {
    emulated_work work; /* if this is empty, the node is a kernel launch */
    emulated_launch launch;
};
struct emulated_graph {
    std::vector<std::shared_ptr<emulated_graph_node>> nodes;
    cudaGraphNode_t newest;
    unsigned long long id;
    bool failed;
};

#endif
