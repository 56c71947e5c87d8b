/* Internal interface between backend.c and backend_module.c, which loads modules. */
#ifndef SYNTORCH_BACKEND_PRIVATE_H
#define SYNTORCH_BACKEND_PRIVATE_H

#include "syntorch/backend_module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CUDA backend, from syntorch_cuda.so. Uses the file named by the environment variable
   SYNTORCH_CUDA_MODULE if it is set; otherwise searches next to the program and in the
   installation. Loads it once; after a failure, every call reports the same error. */
syn_status syn__backend_module(const syn_backend **out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
