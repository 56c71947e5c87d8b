/* Inside of the CUDA module: what its files share on the host. They are C++ that nvcc compiles, and
   that any C++ compiler compiles against the runtime of tests/emulation. Nothing else includes
   this. */
#ifndef OPS_CUDA_CUDA_H
#define OPS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "syntorch/backend_module.h"

/* ---- errors: every code of CUDA and cuBLASLt is looked at here ---- */

/* A sentence: what failed ("a copy to the device"), CUDA's own words, and what may help. */
syn_status syn__cuda_failed(cudaError_t code, const char *what, const char *file, int line,
                            syn_error *err);
syn_status syn__cublas_failed(cublasStatus_t code, const char *what, const char *file, int line,
                              syn_error *err);
/* Within a function that returns a syn_status. */
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

/* ---- what a kernel finds wrong ---- */

/* Kernels cannot fail; what they find wrong with data (an id that is no row's) they note here, the
   first one stays, and the next sync says the sentence: op and scope, then the text of `what`. */
typedef enum syn__fault_kind {
    SYN__FAULT_NONE,
    SYN__FAULT_TARGET, /* "target <value> is none of <limit> classes" */
    SYN__FAULT_SEEN    /* "id <value> is none of <limit>" of a repetition penalty */
} syn__fault_kind;
typedef struct syn__fault {
    int32_t kind;  /* 0: none */
    uint32_t node; /* number */
    int64_t value, limit;
} syn__fault;

/* ---- a context's device ---- */

typedef struct syn__cuda syn__cuda; /* cuda_device.h: only for the files that need its inside */

/* What kernels' functions need of it. */
typedef struct syn__cuda_at {
    cudaStream_t stream;
    cublasLtHandle_t lt;
    int sms;             /* multiprocessors */
    int capability;      /* what kernels may ask for: the device's 75, 80, 89, 90, or less where
                            they were compiled for less, and for this device from PTX */
    size_t shared_bytes; /* a block may have, with cudaFuncSetAttribute */
    syn__fault *fault;   /* device memory */
    uint32_t node;       /* number of the node whose kernel runs */
    syn__cuda *device;
} syn__cuda_at;
/* syn_call.device is one of these. */
static inline const syn__cuda_at *syn__cuda_of(const syn_call *c) {
    return static_cast<const syn__cuda_at *>(c->device);
}

/* `bytes` bytes of device memory for this kernel, on 256 bytes, until the next op of the context
   asks for some: in stream order. One piece an op; stays allocated, so that a steady step asks the
   system for nothing. It is no tensor's and not in the peak. */
syn_status syn__cuda_scratch(const syn_call *c, size_t bytes, void **out) SYN_MUST_USE;
/* After launches of an op: whether they could be launched. */
syn_status syn__launched(const syn_call *c) SYN_MUST_USE;

/* ---- launches ---- */

/* A launch, as SYN_LAUNCH (device.cuh) makes it; arguments are read before the call returns. */
typedef struct syn__launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared; /* bytes, dynamic */
    cudaStream_t stream;
    void **arguments;
} syn__launch;
/* Failures are those of the next cudaGetLastError. */
void syn__launch_now(const syn__launch *launch);

/* After a library was asked for work within an op: notes it as a kernel of that name, or as a copy
   or fill of that many bytes, where what is done for nodes is kept; else nothing. */
void syn__cuda_note_kernel(const syn_call *c, const char *fmt, ...) SYN_PRINTF(2, 3);
void syn__cuda_note_bytes(const syn_call *c, syn_piece_kind kind, size_t bytes);

/* ---- the column of kernels ---- */

/* What the column has, a list a family, ended by SYN_OP_NONE. A kernel only launches: it never
   waits, allocates, or reads data of the device. */
typedef struct syn__cuda_row {
    syn_op op;
    syn_kernel kernel;
} syn__cuda_row;
extern const syn__cuda_row syn__cuda_norms[], syn__cuda_lookups[], syn__cuda_pointwise[],
    syn__cuda_shapes[], syn__cuda_reductions[], syn__cuda_products[], syn__cuda_attention[],
    syn__cuda_attention_grad[], syn__cuda_losses[], syn__cuda_optimizer[], syn__cuda_select[],
    syn__cuda_exchanges_rows[];

/* ---- types ---- */

/* Runs `...` with T as the type of elements of dtype, which is f32, f16 or bf16. */
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
