/* XXH64 with seed 0, as `xxhsum -H1` prints it (github.com/Cyan4973/xxHash, "xxHash fast digest
   algorithm"), of bytes that arrive in pieces: to find damaged files, at the speed of memory. */
#ifndef SYNTORCH_CHECKSUM_H
#define SYNTORCH_CHECKSUM_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__checksum {
    uint64_t lanes[4], total_bytes;
    unsigned char rest[32]; /* total_bytes % 32 of them are not in the lanes yet */
} syn__checksum;

void syn__checksum_begin(syn__checksum *sum);
void syn__checksum_add(syn__checksum *sum, const void *data, size_t bytes);
/* The checksum of all bytes so far; more may follow. */
uint64_t syn__checksum_end(const syn__checksum *sum);
/* Of a whole file, which is read once. */
syn_status syn__checksum_file(const char *path, uint64_t *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
