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

/* ---- emulated_launch.cc ---- */

struct emulated_kernel {
    const char *name;
    emulated_caller *call;
    std::vector<size_t> bytes; /* of its parameters */
    size_t shared;             /* that it may ask for; 0: what all may */
    /* Of emulated_statics.cc: where its variables lie among the module's; how many threads the
       largest block had that was looked at. */
    size_t statics_first, statics_end;
    int statics_threads;
};
/* A launch, with copies of its arguments. */
struct emulated_launch {
    emulated_kernel *kernel;
    const void *function;
    dim3 grid, block;
    size_t shared;
    std::vector<std::vector<char>> arguments;
};
/* False: the kernel is unknown, or the launch is none that a device takes; *code says so. */
bool emulated_make_launch(emulated_launch *l, const void *kernel, dim3 grid, dim3 block,
                          void **arguments, size_t shared, cudaError_t *code);

/* ---- emulated_block.cc ---- */

void emulated_run(const emulated_launch &l);

/* ---- emulated_statics.cc ---- */

/* The thread's static shared memory, within its variables of the module. */
struct emulated_statics {
    char *data = NULL;
    size_t bytes = 0;
    emulated_kernel *kernel = NULL;
    int threads = 0;
    size_t first = 0, end = 0; /* the kernel's */
    bool looking = false;      /* for them */
    std::vector<char> before;

    void open(emulated_kernel *k, int n);
    /* Around each block. */
    void begin_block();
    void end_block();
};

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
