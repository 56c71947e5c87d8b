/* Implements random.h. */
#include "tests/support/random.h"

uint64_t random_u64(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

uint32_t random_u32(uint64_t *state) {
    return (uint32_t)(random_u64(state) >> 32);
}
