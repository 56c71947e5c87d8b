/* Random numbers as functions of where they are used, the same on every device. */
#ifndef OPS_HASH_H
#define OPS_HASH_H

#include <stdbool.h>
#include <stdint.h>

/* Before a function that kernels of CUDA call, too. */
#ifdef __CUDACC__
#define SYN_ANYWHERE static __host__ __device__ __forceinline__
#else
#define SYN_ANYWHERE static inline
#endif

/* A hash of (key, index): SplitMix64 (Steele et al. 2014), see parameter.c; index + 1, so that key
   0 has no weak index. */
SYN_ANYWHERE uint64_t syn__counter_hash(uint64_t key, uint64_t index) {
    uint64_t x = key ^ ((index + 1) * 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number in [0, 1) with 24 bits from it. */
SYN_ANYWHERE double syn__counter_uniform(uint64_t key, uint64_t index) {
    return (double)(syn__counter_hash(key, index) >> 40) * 0x1p-24;
}

#endif
