/* XXH64 with seed 0, as `xxhsum -H1` prints it (github.com/Cyan4973/xxHash, "xxHash fast digest
   algorithm"), of data that arrives in pieces. Used to detect damaged files; runs at memory
   speed. */
#ifndef SYNTORCH_CHECKSUM_H
#define SYNTORCH_CHECKSUM_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__checksum {
    uint64_t lanes[4], total_bytes;
    unsigned char rest[32]; /* the last total_bytes % 32 bytes, which are not in the lanes yet */
} syn__checksum;

void syn__checksum_begin(syn__checksum *sum);
void syn__checksum_add(syn__checksum *sum, const void *data, size_t bytes);
/* The checksum of the data so far; more may be added. */
uint64_t syn__checksum_end(const syn__checksum *sum);
/* The checksum of a whole file. */
syn_status syn__checksum_file(const char *path, uint64_t *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
