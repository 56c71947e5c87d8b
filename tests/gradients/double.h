/* Included before each source of a program that computes in doubles. It replaces float by double,
   so that the program's f32 has 8 bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>
#ifdef __clang__
#pragma clang diagnostic ignored "-Wkeyword-macro"
#endif
#define float double
#define expf  exp
#define tanhf tanh
#define erff  erf
#define logf  log
#define sqrtf sqrt
#undef SYN_HAVE_OPENBLAS
#undef SYN_HAVE_MPI
