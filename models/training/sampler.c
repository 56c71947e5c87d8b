/* Selects samples; see sampler.h. Computes their order with a keyed permutation, so that no
   shuffled list has to be stored. */
#include "models/training/sampler.h"

#include "ops/rules.h"

/* A permutation of 0 .. 4^half_bits - 1: a Feistel network with hashes as round functions. */
static uint64_t shuffled(uint64_t x, int half_bits, uint64_t key) {
    enum { ROUNDS = 6 };
    const uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t next = left ^ (syn__counter_hash(key + round, right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

/* Cycle walking: `shuffled` permutes at most 4 n numbers, so it is applied until the result is
 * below n. On average this needs at most four applications. */
int64_t syn_sampler_place(const syn_sampler *s, int64_t epoch, int64_t i) {
    const uint64_t n = (uint64_t)s->n, key = syn__counter_hash(s->seed, (uint64_t)epoch);
    uint64_t x = (uint64_t)i;
    int half_bits = 1;
    if (!s->shuffle) return i;
    while (half_bits < 31 && (uint64_t)1 << (2 * half_bits) < n) half_bits++;
    do x = shuffled(x, half_bits, key);
    while (x >= n);
    return (int64_t)x;
}

int64_t syn_sampler_steps(const syn_sampler *s) {
    const int64_t each = s->batch * s->ranks;
    return s->n / each + (s->whole && s->n % each != 0);
}

void syn_sampler_batch(const syn_sampler *s, int64_t epoch, int64_t step, int32_t rank,
                       int64_t *out) {
    const int64_t first = step * s->batch * s->ranks + rank;
    for (int64_t i = 0; i < s->batch; i++) {
        const int64_t place = first + i * s->ranks;
        out[i] = place < s->n ? syn_sampler_place(s, epoch, place) : -1;
    }
}
