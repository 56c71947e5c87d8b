/* Compression with zlib, which is optional; see file_text_deflate.h. */
#include "export/text/file_text_deflate.h"

#ifdef SYN_HAVE_ZLIB
#include <zlib.h>

#include "syntorch/base/memory.h"

#define PIECE ((size_t)64 << 10)

static voidpf get(voidpf arg, uInt count, uInt bytes) {
    (void)arg;
    return syn_calloc(count, bytes);
}

static void put_back(voidpf arg, voidpf data) {
    (void)arg;
    syn_free(data);
}

/* Compresses `bytes` more bytes and appends the output. */
static bool pack(z_stream *z, syn__buf *out, size_t bytes, bool last) {
    z->avail_in = (uInt)bytes;
    do {
        z->next_out = (Bytef *)syn__buf_reserve(out, PIECE);
        if (z->next_out == NULL) return false;
        z->avail_out = PIECE;
        (void)deflate(z, last ? Z_FINISH : Z_NO_FLUSH);
        out->bytes += PIECE - z->avail_out;
    } while (z->avail_out == 0);
    return true;
}

enum { ZLIB_FORMAT = 15, GZIP_FORMAT = 15 + 16 }; /* both with the largest window */

static syn_status pack_all(syn__buf *out, const void *data, size_t bytes, int level, int format,
                           syn_error *err) {
    z_stream z = {.zalloc = get, .zfree = put_back, .next_in = (z_const Bytef *)data};
    bool ok = deflateInit2(&z, level, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    for (size_t left = bytes; ok;) {
        const size_t n = left < PIECE ? left : PIECE;
        left -= n;
        ok = pack(&z, out, n, left == 0);
        if (left == 0) break;
    }
    (void)deflateEnd(&z);
    return ok ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "compressed data");
}

syn_status syn__deflate(syn__buf *out, bool *packed, const void *data, size_t bytes,
                        syn_error *err) {
    *packed = true;
    return pack_all(out, data, bytes, Z_BEST_COMPRESSION, ZLIB_FORMAT, err);
}

syn_status syn__gzip(syn__buf *out, const void *data, size_t bytes, syn_error *err) {
    return pack_all(out, data, bytes, Z_BEST_SPEED, GZIP_FORMAT, err);
}
#else
syn_status syn__deflate(syn__buf *out, bool *packed, const void *data, size_t bytes,
                        syn_error *err) {
    (void)out;
    (void)data;
    (void)bytes;
    (void)err;
    *packed = false;
    return SYN_OK;
}

syn_status syn__gzip(syn__buf *out, const void *data, size_t bytes, syn_error *err) {
    (void)out;
    (void)data;
    (void)bytes;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "this build has no zlib, which gzip files need");
}
#endif
