/* Tests the hash table from 64-bit keys to 32-bit values (pt_map.h), with families of keys that are
   typical of ids or that collide easily. */
#include "export/pytorch/read/pt_map.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

/* Key i of a family. In the order of the cases: consecutive numbers, multiples of 4096, upper half
   only, negative numbers, equal lower bits, both halves, scattered. */
static uint64_t key_of(int family, uint64_t i) {
    switch (family) {
    case 0:
        return i;
    case 1:
        return i * 4096;
    case 2:
        return i << 32;
    case 3:
        return 0 - i;
    case 4:
        return i << 44 | 77;
    case 5:
        return (i & 1023) << 32 | i >> 10;
    default:
        return (i + 1) * UINT64_C(0xD1342543DE82EF95) ^ i << 17;
    }
}

static void keys_are_found(void) {
    const uint32_t n = 150000;
    for (int family = 0; family < 7; family++) {
        syn__pt_map map = {0};
        CHECK_INT(syn__pt_map_get(&map, 5), SYN__PT_NONE);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t *value = syn__pt_map_put(&map, key_of(family, i));
            CHECK(value != NULL && *value == SYN__PT_NONE);
            *value = i;
        }
        CHECK_INT(map.n, n);
        CHECK(map.slots * 2 >= map.n * 3 && map.slots <= map.n * 4);
        /* In a table that is two thirds full, finding a key visits two slots on average if keys are
           spread like random ones (Knuth, The Art of Computer Programming, 6.4), and 75,000 slots
           if all keys collide. */
        const uint64_t probes = syn__pt_map_probes(&map);
        CHECK_MSG(probes >= n && probes <= 3 * n, "family %d: %llu", family,
                  (unsigned long long)probes);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_INT(syn__pt_map_get(&map, key_of(family, i)), i);
            CHECK(syn__pt_map_get(&map, key_of(family, n + i)) == SYN__PT_NONE);
        }
        for (uint32_t i = 0; i < n; i += 7) {
            uint32_t *value = syn__pt_map_put(&map, key_of(family, i));
            CHECK(value != NULL && *value == i);
            *value = i + 1;
        }
        CHECK_INT(map.n, n);
        CHECK_INT(syn__pt_map_get(&map, key_of(family, 7)), 8);
        syn__pt_map_free(&map);
        CHECK(map.keys == NULL && map.n == 0);
    }
}

static void out_of_memory(void) {
    for (uint64_t limit = 0;; limit++) {
        syn__pt_map map = {0};
        bool failed = false;
        syn_memory_fail_after(limit);
        uint64_t i = 0;
        for (; i < 1000 && !failed; i++) {
            uint32_t *value = syn__pt_map_put(&map, i);
            if (value != NULL) *value = (uint32_t)i;
            failed = value == NULL;
        }
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        /* All keys that were added before the failure are still there. */
        for (uint64_t k = 0; k + failed < i; k++) CHECK_INT(syn__pt_map_get(&map, k), k);
        CHECK_INT(map.n, failed ? i - 1 : i);
        syn__pt_map_free(&map);
        if (!failed) break;
        CHECK(limit < 100);
    }
}

static const test_case cases[] = {
    {"keys_are_found", keys_are_found},
    {"out_of_memory", out_of_memory},
};
TEST_MAIN(cases)
