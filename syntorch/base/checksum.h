/* The XXH64 checksum with seed 0 of data that arrives in pieces. `xxhsum -H1` prints the same
   checksum (github.com/Cyan4973/xxHash, "xxHash fast digest algorithm"). It detects damaged files.
   Computing it is as fast as reading memory. */
#ifndef SYNTORCH_CHECKSUM_H
#define SYNTORCH_CHECKSUM_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__checksum {
    uint64_t lanes[4], total_bytes;
    unsigned char rest[32]; /* the last total_bytes % 32 bytes, not yet added to the lanes */
} syn__checksum;

void syn__checksum_begin(syn__checksum *sum);
void syn__checksum_add(syn__checksum *sum, const void *data, size_t bytes);
/* Returns the checksum of the data so far. More data may be added afterwards. */
uint64_t syn__checksum_end(const syn__checksum *sum);
/* The checksum of a whole file. */
syn_status syn__checksum_file(const char *path, uint64_t *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
