/* Maps, reads and decompresses input files; see file_text.h. */
#include "export/text/file_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef SYN_HAVE_ZLIB
#include <zlib.h>
#endif

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

#define SHOWN "%.380s" /* enough of a file name for messages */

/* Maps `bytes` bytes of the file, followed by at least one page of zeros: reserves a larger
   read-only anonymous mapping and maps the file over its start. */
static bool map_open_file(syn__file_text *file, int fd, size_t bytes, size_t page_bytes) {
    const size_t all = (bytes + page_bytes - 1) / page_bytes * page_bytes + page_bytes;
    void *place = mmap(NULL, all, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return false;
    if (mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != place) {
        (void)munmap(place, all);
        return false;
    }
    file->data = (const char *)place;
    file->bytes = bytes;
    file->mapped_bytes = all;
    return true;
}

/* Maps a regular file. Returns false if the file is something else or cannot be mapped. Pipes are
   not opened here: opening and closing a pipe would start its writer, which would then have no
   reader. */
static bool map_file(syn__file_text *file, const char *path) {
    struct stat info;
    const long page = sysconf(_SC_PAGESIZE);
    if (page < SYN__LOOSE_PADDING || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return false;
    const bool mapped = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
                        (uint64_t)info.st_size < SIZE_MAX / 2 &&
                        map_open_file(file, fd, (size_t)info.st_size, (size_t)page);
    (void)close(fd);
    return mapped;
}

/* Reads pipes, and files that cannot be mapped or opened, with syn_read_file, which reports
   errors. */
static syn_status read_whole(syn__file_text *file, const char *path, syn_error *err) {
    char *data;
    size_t bytes, all;
    SYN_TRY(syn_read_file(path, SIZE_MAX, &data, &bytes, err));
    char *padded = syn_add_size(bytes, SYN__LOOSE_PADDING, &all) ? syn_realloc(data, all) : NULL;
    if (padded == NULL) {
        syn_free(data);
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %zu bytes to read " SHOWN, bytes,
                        file->name);
    }
    memset(padded + bytes, 0, SYN__LOOSE_PADDING);
    file->data = padded;
    file->bytes = bytes;
    return SYN_OK;
}

static bool is_gzip(const char *data, size_t bytes) {
    return bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

typedef struct unpack_limits {
    uint64_t memory_bytes, max_unpacked_bytes; /* memory of the machine; limit that the caller set,
                                                  0: none */
} unpack_limits;

#ifdef SYN_HAVE_ZLIB

#define RATIO_MAX 1032u /* the highest compression ratio that deflate can reach */
/* Default limit of the compression ratio. Real profiler traces reach 52:1, and an indented trace of
   one op in a loop reaches 140:1. */
#define KEPT_RATIO 200u
#define KEPT_SMALL ((uint64_t)1 << 20) /* a decompressed size that is allowed at any ratio */
#define KEPT_LARGE ((uint64_t)16 << 30)
#define STEP_BYTES ((size_t)1 << 20) /* maximum number of bytes that one step reads or writes */

typedef struct unpacking {
    syn__file_text *packed;
    uint64_t memory_bytes, max_bytes;
    char *data;
    size_t bytes, cap_bytes;
    z_stream z;
    bool cut;
} unpacking;

/* Routes zlib's allocations through the library's allocator. */
static voidpf zlib_alloc(voidpf opaque, uInt items, uInt bytes) {
    (void)opaque;
    return syn_calloc(items, bytes);
}

static void zlib_free(voidpf opaque, voidpf address) {
    (void)opaque;
    syn_free(address);
}

/* Allocates memory for the whole decompressed text, whose length modulo 2^32 is in the last four
   bytes of a gzip member. Does nothing if this length is not plausible. Failure to allocate is not
   an error, because the length may be wrong. */
static void reserve_guess(unpacking *u) {
    const size_t n = u->packed->bytes;
    if (n < 18) return; /* size of the shortest member */
    const unsigned char *end = (const unsigned char *)u->packed->data + n;
    const uint32_t length = (uint32_t)end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 |
                            (uint32_t)end[-1] << 24;
    if (length / RATIO_MAX > n || length > u->memory_bytes || length > u->max_bytes) return;
    u->data = (char *)syn_malloc((size_t)length + STEP_BYTES);
    if (u->data != NULL) u->cap_bytes = (size_t)length + STEP_BYTES;
}

/* Returns the default limit of the decompressed size. It is needed because 1 MB of gzip can expand
   to 1 GB, and parsing needs even more memory. */
static uint64_t largest_kept(uint64_t packed_bytes) {
    const uint64_t most =
        packed_bytes > KEPT_LARGE / KEPT_RATIO ? KEPT_LARGE : packed_bytes * KEPT_RATIO;
    return most < KEPT_SMALL ? KEPT_SMALL : most;
}

static syn_status check_length(const unpacking *u, syn_error *err) {
    if (u->bytes > u->max_bytes)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "cannot read " SHOWN ": its %zu bytes of gzip unpack to more than %" PRIu64
                        "; if that is intended, raise --max_unpacked_mib",
                        u->packed->name, u->packed->bytes, u->max_bytes);
    if (u->bytes > u->memory_bytes)
        return SYN_FAIL(err, SYN_E_NOMEM,
                        "cannot read " SHOWN ": unpacked, it is longer than the %" PRIu64
                        " bytes that this machine's memory allows",
                        u->packed->name, u->memory_bytes);
    return SYN_OK;
}

static syn_status grow_buffer(unpacking *u, syn_error *err) {
    SYN_TRY(check_length(u, err));
    if (u->cap_bytes - u->bytes > SYN__LOOSE_PADDING) return SYN_OK;
    const syn_status status = syn_grow(&u->data, &u->cap_bytes, u->bytes + STEP_BYTES, 1, NULL);
    if (status == SYN_OK) return status;
    return SYN_FAIL(err, status, "out of memory: %zu bytes to unpack " SHOWN, u->bytes + STEP_BYTES,
                    u->packed->name);
}

/* Calls inflate once, for at most STEP_BYTES of input and of output. */
static int inflate_some(unpacking *u) {
    const char *in = (const char *)u->z.next_in;
    const size_t left = (size_t)(u->packed->data + u->packed->bytes - in);
    size_t space = u->cap_bytes - u->bytes - SYN__LOOSE_PADDING;
    if (space > STEP_BYTES) space = STEP_BYTES;
    u->z.avail_in = left < STEP_BYTES ? (uInt)left : (uInt)STEP_BYTES;
    u->z.avail_out = (uInt)space;
    u->z.next_out = (Bytef *)u->data + u->bytes;
    const int code = inflate(&u->z, Z_NO_FLUSH);
    u->bytes += space - u->z.avail_out;
    syn__file_text_done(u->packed, (const char *)u->z.next_in);
    return code;
}

/* Decompresses all gzip members of the file. Data after the last member that is not gzip, such as
   the zeros that tapes pad with, is ignored. If the data is damaged, stops there, and the text that
   was decompressed so far remains. */
static syn_status inflate_all(unpacking *u, syn_error *err) {
    const char *end = u->packed->data + u->packed->bytes;
    for (;;) {
        SYN_TRY(grow_buffer(u, err));
        const int code = inflate_some(u);
        const char *in = (const char *)u->z.next_in;
        if (code == Z_MEM_ERROR) return SYN_FAIL_NOMEM(err, 1 << 16, "unpacked data");
        if (code == Z_STREAM_END) {
            if (!is_gzip(in, (size_t)(end - in))) return SYN_OK;
            (void)inflateReset(&u->z);
        } else if (code != Z_OK || (in == end && u->z.avail_out != 0)) {
            u->cut = true;
            return SYN_OK;
        }
    }
}

static syn_status unpack(syn__file_text *file, const unpack_limits *limits, syn_error *err) {
    unpacking u = {.packed = file, .memory_bytes = limits->memory_bytes};
    u.max_bytes =
        limits->max_unpacked_bytes != 0 ? limits->max_unpacked_bytes : largest_kept(file->bytes);
    u.z.zalloc = zlib_alloc;
    u.z.zfree = zlib_free;
    if (inflateInit2(&u.z, 16 + MAX_WBITS) != Z_OK) /* +16 selects the gzip format */
        return SYN_FAIL_NOMEM(err, 1 << 16, "unpacked data");
    u.z.next_in = (z_const Bytef *)(uintptr_t)file->data;
    reserve_guess(&u);
    syn_status status = inflate_all(&u, err);
    (void)inflateEnd(&u.z);
    if (status == SYN_OK) status = check_length(&u, err);
    if (status == SYN_OK && u.bytes == 0 && u.cut)
        status = SYN_FAIL(err, SYN_E_FORMAT,
                          "cannot read " SHOWN ": it is a gzip file that is damaged from its start",
                          file->name);
    if (status != SYN_OK) {
        syn_free(u.data);
        return status;
    }
    memset(u.data + u.bytes, 0, SYN__LOOSE_PADDING);
    const char *name = file->name;
    syn__file_text_close(file);
    *file = (syn__file_text){
        .name = name, .data = u.data, .bytes = u.bytes, .packed = true, .cut = u.cut};
    return SYN_OK;
}

#else

static syn_status unpack(syn__file_text *file, const unpack_limits *limits, syn_error *err) {
    (void)limits;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "cannot read " SHOWN ": it is compressed with gzip, but this program was built "
                    "without zlib; unpack it first (gunzip)",
                    file->name);
}

#endif

/* Checks the first bytes: decompresses gzip, and fails with advice for other compressed formats. */
static syn_status look_inside(syn__file_text *file, const unpack_limits *limits, syn_error *err) {
    static const struct {
        const char *name, *tool;
        char magic[6];
        size_t bytes;
    } packers[] = {
        {"zstd", "unzstd", {'\x28', '\xB5', '\x2F', '\xFD'}, 4},
        {"xz", "unxz", {'\xFD', '7', 'z', 'X', 'Z', '\0'}, 6},
        {"lz4", "unlz4", {'\x04', '\x22', '\x4D', '\x18'}, 4},
        {"bzip2", "bunzip2", {'B', 'Z', 'h'}, 3},
        {"zip", "unzip", {'P', 'K', '\x03', '\x04'}, 4},
    };
    if (is_gzip(file->data, file->bytes)) SYN_TRY(unpack(file, limits, err));
    if (file->bytes == 0)
        return SYN_FAIL(err, SYN_E_FORMAT, SHOWN " is empty%s", file->name,
                        file->packed ? " (unpacked)" : "");
    if (file->bytes >= 4 &&
        (memcmp(file->data, "\xFF\xFE{\0", 4) == 0 || memcmp(file->data, "\xFE\xFF\0{", 4) == 0))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "cannot read " SHOWN
                        ": it is UTF-16; convert it to UTF-8 first (iconv -f utf-16)",
                        file->name);
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i++)
        if (file->bytes >= packers[i].bytes &&
            memcmp(file->data, packers[i].magic, packers[i].bytes) == 0)
            return SYN_FAIL(
                err, SYN_E_UNSUPPORTED,
                "cannot read " SHOWN
                ": it is compressed with %s; unpack it first (%s), or compress it with gzip",
                file->name, packers[i].name, packers[i].tool);
    return SYN_OK;
}

static syn_status open_within(syn__file_text *file, const char *path, const unpack_limits *limits,
                              syn_error *err) {
    *file = (syn__file_text){.name = syn_input_name(path)};
    if (!map_file(file, path)) SYN_TRY(read_whole(file, path, err));
    const syn_status status = look_inside(file, limits, err);
    if (status != SYN_OK) syn__file_text_close(file);
    return status;
}

syn_status syn__file_text_open_within(syn__file_text *file, const char *path, uint64_t memory_bytes,
                                      uint64_t max_unpacked_bytes, syn_error *err) {
    const unpack_limits within = {memory_bytes, max_unpacked_bytes};
    return open_within(file, path, &within, err);
}

syn_status syn__file_text_open(syn__file_text *file, const char *path, uint64_t max_unpacked_bytes,
                               syn_error *err) {
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t memory_bytes =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    const unpack_limits limits = {memory_bytes, max_unpacked_bytes};
    return open_within(file, path, &limits, err);
}

syn_status syn__file_text_memory(syn__file_text *file, const char *name, const char *data,
                                 size_t bytes, syn_error *err) {
    size_t all;
    *file = (syn__file_text){.name = name};
    char *copy = syn_add_size(bytes, SYN__LOOSE_PADDING, &all) ? (char *)syn_malloc(all) : NULL;
    if (copy == NULL) return SYN_FAIL_NOMEM(err, bytes, "a copy of a file's text");
    if (bytes != 0) memcpy(copy, data, bytes);
    memset(copy + bytes, 0, SYN__LOOSE_PADDING);
    file->data = copy;
    file->bytes = bytes;
    return SYN_OK;
}

void syn__file_text_done(syn__file_text *file, const char *upto) {
    if (file->mapped_bytes == 0) return;
    const size_t at = (size_t)(upto - file->data) / SYN__FILE_TEXT_STEP * SYN__FILE_TEXT_STEP;
    if (upto == file->data)
        file->released_bytes = 0; /* the caller begins another pass over the text */
    if (at <= file->released_bytes) return;
    /* The pages were not changed, so they are only removed from the process's memory. They are read
       from the file again when needed. */
    (void)madvise((void *)(uintptr_t)(file->data + file->released_bytes), at - file->released_bytes,
                  MADV_DONTNEED);
    file->released_bytes = at;
}

void syn__file_text_close(syn__file_text *file) {
    if (file->mapped_bytes != 0) (void)munmap((void *)(uintptr_t)file->data, file->mapped_bytes);
    else syn_free((void *)(uintptr_t)file->data);
    *file = (syn__file_text){0};
}
