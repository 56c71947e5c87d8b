/* Counter-based random numbers. Each number depends only on its key and index, so it is the same on
   every device and for every number of threads. CUDA kernels use these functions, too. */
#ifndef OPS_HASH_H
#define OPS_HASH_H

#include <stdbool.h>
#include <stdint.h>

/* Marks a function that both the host and CUDA kernels call. */
#ifdef __CUDACC__
#define SYN_ANYWHERE static __host__ __device__ __forceinline__
#else
#define SYN_ANYWHERE static inline
#endif

/* Hashes (key, index) with SplitMix64's mixer (Steele et al. 2014), like parameter.c. Uses index +
   1, because key 0 with index 0 would hash to 0. */
SYN_ANYWHERE uint64_t syn__counter_hash(uint64_t key, uint64_t index) {
    uint64_t x = key ^ ((index + 1) * 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number in [0, 1) with 24 random bits. */
SYN_ANYWHERE double syn__counter_uniform(uint64_t key, uint64_t index) {
    return (double)(syn__counter_hash(key, index) >> 40) * 0x1p-24;
}

#endif
