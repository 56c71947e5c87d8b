/* Pseudorandom numbers, the same in every run. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* xorshift64* (Marsaglia 2003, Vigna 2016). *state must not be 0. For similar seeds, the first
   numbers are similar. */
uint64_t random_u64(uint64_t *state);
/* The upper 32 bits of random_u64. */
uint32_t random_u32(uint64_t *state);
#endif
