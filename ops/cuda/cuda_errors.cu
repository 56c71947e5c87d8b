/* Converts error codes of CUDA and cuBLASLt to error messages. */
#include "ops/cuda/cuda.h"

/* Returns advice on the error, or "". */
static const char *advice(cudaError_t code) {
    switch (code) {
    case cudaErrorMemoryAllocation:
        return "; the device is out of memory";
    case cudaErrorInsufficientDriver:
        return "; NVIDIA's driver is older than this build's CUDA";
    case cudaErrorNoDevice:
        return "; see nvidia-smi, and CUDA_VISIBLE_DEVICES if it is set";
    case cudaErrorNoKernelImageForDevice:
        return "; this build has no kernels for the device: see CMAKE_CUDA_ARCHITECTURES";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
        return "; run compute-sanitizer to find the faulty access";
    default:
        return "";
    }
}

syn_status syn__cuda_failed(cudaError_t code, const char *what, const char *file, int line,
                            syn_error *err) {
    const syn_status status = code == cudaErrorMemoryAllocation ? SYN_E_NOMEM : SYN_E_IO;
    return syn__fail(err, file, line, status, "CUDA failed at %s: %s (%s)%s", what,
                     cudaGetErrorString(code), cudaGetErrorName(code), advice(code));
}

syn_status syn__cublas_failed(cublasStatus_t code, const char *what, const char *file, int line,
                              syn_error *err) {
    return syn__fail(err, file, line, SYN_E_IO, "cuBLASLt failed at %s: %s", what,
                     cublasLtGetStatusString(code));
}
