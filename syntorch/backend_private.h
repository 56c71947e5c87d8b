/* Internal interface between backend.c and backend_module.c, which loads modules. */
#ifndef SYNTORCH_BACKEND_PRIVATE_H
#define SYNTORCH_BACKEND_PRIVATE_H

#include "syntorch/backend_module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets *out to the CUDA backend, which is in syntorch_cuda.so. If the environment variable
   SYNTORCH_CUDA_MODULE is set, it names the file; otherwise the file is searched next to the
   program and in the installation. The first call loads the module. If that fails, every call
   reports the same error. */
syn_status syn__backend_module(const syn_backend **out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
