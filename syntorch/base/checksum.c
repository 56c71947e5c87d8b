/* Computes XXH64 checksums (checksum.h). */
#include "syntorch/base/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "syntorch/base/memory.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

enum { STRIPE = 32, FILE_BYTES = 1 << 20 };

static uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

/* Reads a little-endian number on every machine. Compilers turn it into one load. */
static uint64_t load32(const unsigned char *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t load64(const unsigned char *p) {
    return load32(p) | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

static uint64_t step(uint64_t lane, uint64_t word) {
    return rotate(lane + word * P2, 31) * P1;
}

static void add_stripes(uint64_t lanes[4], const unsigned char *p, size_t n) {
    uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
    for (; n > 0; n--, p += STRIPE) {
        a = step(a, load64(p));
        b = step(b, load64(p + 8));
        c = step(c, load64(p + 16));
        d = step(d, load64(p + 24));
    }
    lanes[0] = a;
    lanes[1] = b;
    lanes[2] = c;
    lanes[3] = d;
}

void syn__checksum_begin(syn__checksum *sum) {
    *sum = (syn__checksum){.lanes = {P1 + P2, P2, 0, 0 - P1}};
}

void syn__checksum_add(syn__checksum *sum, const void *data, size_t bytes) {
    const unsigned char *p = data;
    const size_t held = (size_t)(sum->total_bytes % STRIPE);
    sum->total_bytes += bytes;
    if (held > 0) {
        const size_t n = bytes < STRIPE - held ? bytes : STRIPE - held;
        memcpy(sum->rest + held, p, n);
        if (held + n < STRIPE) return;
        add_stripes(sum->lanes, sum->rest, 1);
        p += n;
        bytes -= n;
    }
    add_stripes(sum->lanes, p, bytes / STRIPE);
    if (bytes % STRIPE > 0) memcpy(sum->rest, p + bytes / STRIPE * STRIPE, bytes % STRIPE);
}

uint64_t syn__checksum_end(const syn__checksum *sum) {
    const uint64_t *v = sum->lanes;
    const unsigned char *p = sum->rest;
    size_t left = (size_t)(sum->total_bytes % STRIPE);
    uint64_t h = P5;
    if (sum->total_bytes >= STRIPE) {
        h = rotate(v[0], 1) + rotate(v[1], 7) + rotate(v[2], 12) + rotate(v[3], 18);
        for (int i = 0; i < 4; i++) h = (h ^ step(0, v[i])) * P1 + P4;
    }
    h += sum->total_bytes;
    for (; left >= 8; left -= 8, p += 8) h = rotate(h ^ step(0, load64(p)), 27) * P1 + P4;
    if (left >= 4) {
        h = rotate(h ^ load32(p) * P1, 23) * P2 + P3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++) h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

syn_status syn__checksum_file(const char *path, uint64_t *out, syn_error *err) {
    syn__checksum sum;
    ssize_t n = 1;
    char *buf = syn_malloc(FILE_BYTES);
    if (!buf) return SYN_FAIL_NOMEM(err, FILE_BYTES, "a buffer");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int why = fd < 0 ? errno : 0;
    syn__checksum_begin(&sum);
    while (why == 0 && n != 0) {
        n = read(fd, buf, FILE_BYTES);
        if (n > 0) syn__checksum_add(&sum, buf, (size_t)n);
        else if (n < 0 && errno != EINTR) why = errno;
    }
    if (fd >= 0) (void)close(fd);
    syn_free(buf);
    if (why != 0) return SYN_FAIL(err, SYN_E_IO, "cannot read '%.300s': %s", path, strerror(why));
    *out = syn__checksum_end(&sum);
    return SYN_OK;
}
