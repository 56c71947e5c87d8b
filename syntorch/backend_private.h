/* Between backend.c and what loads modules. */
#ifndef SYNTORCH_BACKEND_PRIVATE_H
#define SYNTORCH_BACKEND_PRIVATE_H

#include "syntorch/backend_module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's, syntorch_cuda.so: the file that the environment variable SYNTORCH_CUDA_MODULE names, else
   beside the program, or where both are installed. Loaded once; a failure is said again. */
syn_status syn__backend_module(const syn_backend **out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
