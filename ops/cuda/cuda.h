/* Declarations that the files of the CUDA module share on the host. The files are C++: nvcc
   compiles them for devices, and any C++ compiler compiles them against the emulated runtime of
   tests/emulation. Nothing outside the module includes this header. */
#ifndef OPS_CUDA_CUDA_H
#define OPS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "syntorch/backend_module.h"

/* ---- errors: every return code of CUDA and cuBLASLt is checked here ---- */

/* Both fail with an error message that has three parts: what failed ("a copy to the device"), the
   library's message, and advice if there is any. */
syn_status syn__cuda_failed(cudaError_t code, const char *what, const char *file, int line,
                            syn_error *err);
syn_status syn__cublas_failed(cublasStatus_t code, const char *what, const char *file, int line,
                              syn_error *err);
/* For functions that return a syn_status. */
#define SYN_CUDA(expr, what, err)                                                 \
    do {                                                                          \
        const cudaError_t syn_code = (expr);                                      \
        if (syn_code != cudaSuccess)                                              \
            return syn__cuda_failed(syn_code, (what), __FILE__, __LINE__, (err)); \
    } while (0)
#define SYN_CUBLAS(expr, what, err)                                                 \
    do {                                                                            \
        const cublasStatus_t syn_code = (expr);                                     \
        if (syn_code != CUBLAS_STATUS_SUCCESS)                                      \
            return syn__cublas_failed(syn_code, (what), __FILE__, __LINE__, (err)); \
    } while (0)

/* ---- faults: errors that kernels find in data ---- */

/* Kernels cannot return errors. A kernel that finds an error in its data, such as a target that is
   no class, stores a fault, unless there is a fault already. The next sync reports it with op,
   scope and the message below. */
typedef enum syn__fault_kind {
    SYN__FAULT_NONE,
    SYN__FAULT_TARGET, /* "a target is <value>, which is no class of <limit>" */
    SYN__FAULT_SEEN,   /* "token <value> was seen, but there are <limit>" */
    SYN__FAULT_EXPERT, /* "there is no expert <value> among <limit>" */
    SYN__FAULT_PLACE,  /* "a row has place <value>, which is not below <limit>" */
    SYN__FAULT_TWICE,  /* "two rows have place <value>" */
    SYN__FAULT_SIZES,  /* "the experts' sizes do not add up to <limit> rows" */
    SYN__FAULT_SLOT,   /* "slot <value> is not in a cache of <limit> slots" */
    SYN__FAULT_BLOCK   /* "block <value> is not in a cache of <limit> blocks" */
} syn__fault_kind;
typedef struct syn__fault {
    int32_t kind;  /* syn__fault_kind */
    uint32_t node; /* node number */
    int64_t value, limit;
} syn__fault;

/* ---- the device state of a context ---- */

/* Defined in cuda_device.h, for the files that need more than syn__cuda_at. */
typedef struct syn__cuda syn__cuda;

/* What kernel functions need to launch kernels. */
typedef struct syn__cuda_at {
    cudaStream_t stream;
    cublasLtHandle_t lt;
    int sms; /* streaming multiprocessors */
    /* The compute capability that kernels may assume, such as 75, 80, 89 or 90. It is the device's,
       or a lower one if the kernels were compiled for a lower one and run from PTX. */
    int capability;
    size_t shared_bytes; /* maximum dynamic shared memory per block, after cudaFuncSetAttribute */
    syn__fault *fault;   /* in device memory */
    uint32_t node;       /* number of the node whose kernel runs */
    syn__cuda *device;
} syn__cuda_at;
/* The backend sets syn_call.device to this struct. */
static inline const syn__cuda_at *syn__cuda_of(const syn_call *c) {
    return static_cast<const syn__cuda_at *>(c->device);
}

/* Returns `bytes` bytes of device memory, aligned to 256 bytes, for this kernel. An op may call it
   only once, and the next op that calls it gets the same memory, which is safe because ops run in
   stream order. The memory stays allocated, so repeated steps allocate nothing. It belongs to no
   tensor and does not count in the peak. */
syn_status syn__cuda_scratch(const syn_call *c, size_t bytes, void **out) SYN_MUST_USE;
/* Call after an op's launches: fails if one of them failed. */
syn_status syn__launched(const syn_call *c) SYN_MUST_USE;

/* ---- launches ---- */

/* A launch as SYN_LAUNCH (device.cuh) describes it. The arguments are copied before the call
   returns. */
typedef struct syn__launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared; /* dynamic shared memory in bytes */
    cudaStream_t stream;
    void **arguments;
} syn__launch;
/* Launches, or redirects the launch to a graph. cudaGetLastError returns its failure. */
void syn__launch_now(const syn__launch *launch);

/* Call one of these after a library has launched work within an op. They record the work as a
   kernel with that name, or as a copy or fill of that many bytes. They do nothing unless work is
   recorded (syn_ctx_record_work). */
void syn__cuda_note_kernel(const syn_call *c, const char *fmt, ...) SYN_PRINTF(2, 3);
void syn__cuda_note_bytes(const syn_call *c, syn_piece_kind kind, size_t bytes);

/* ---- tables of kernels ---- */

/* Each family of ops lists its CUDA kernel functions; SYN_OP_NONE ends a list. A kernel function
   only launches: it must not wait, allocate, or read device data. */
typedef struct syn__cuda_row {
    syn_op op;
    syn_kernel kernel;
} syn__cuda_row;
extern const syn__cuda_row syn__cuda_norms[], syn__cuda_lookups[], syn__cuda_pointwise[],
    syn__cuda_shapes[], syn__cuda_reductions[], syn__cuda_products[], syn__cuda_attention[],
    syn__cuda_attention_grad[], syn__cuda_context[], syn__cuda_paged[], syn__cuda_losses[],
    syn__cuda_optimizer[], syn__cuda_select[], syn__cuda_experts[], syn__cuda_comm_rows[];

/* ---- dtypes ---- */

/* Runs the code `...` with T defined as the element type of dtype, which is f32, f16 or bf16. */
#define SYN_WITH_FLOAT(dtype, T, ...) \
    do {                              \
        switch (dtype) {              \
        case SYN_F16: {               \
            typedef __half T;         \
            __VA_ARGS__;              \
        } break;                      \
        case SYN_BF16: {              \
            typedef __nv_bfloat16 T;  \
            __VA_ARGS__;              \
        } break;                      \
        default: {                    \
            typedef float T;          \
            __VA_ARGS__;              \
        } break;                      \
        }                             \
    } while (0)

#endif
