/* Folders and whole files: the parts of sink.h that are no sink. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/memory.h"
#include "syntorch/sink.h"

/* Folders: 3/4 of an error's room is enough for any name worth reading. */
#define SHOWN "%.380s"

static syn_status make_one_folder(const char *path, syn_error *err) {
    if (mkdir(path, 0777) == 0) return SYN_OK;
    const int code = errno;
    struct stat info;
    /* Whatever mkdir says of a folder that is there ("exists", "read-only"), it will do. */
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return SYN_OK;
        return SYN_FAIL(err, SYN_E_IO, "cannot create the folder " SHOWN ": a file has that name",
                        path);
    }
    return SYN_FAIL(err, SYN_E_IO, "cannot create the folder " SHOWN ": %s", path, strerror(code));
}

syn_status syn_make_folder(const char *path, syn_error *err) {
    if (*path == '\0') return SYN_FAIL(err, SYN_E_IO, "cannot create a folder without a name");
    char *part = syn_strdup(path);
    if (part == NULL) return SYN_FAIL_NOMEM(err, strlen(path) + 1, "a folder name");
    syn_status status = SYN_OK;
    for (char *p = part + 1; status == SYN_OK; p++) {
        if (*p != '/' && *p != '\0') continue;
        const char end = *p;
        *p = '\0';
        status = make_one_folder(part, err);
        *p = end;
        while (*p == '/' && p[1] == '/') p++;
        if (*p == '\0' || p[1] == '\0') break;
    }
    syn_free(part);
    return status;
}

/* Reads to the end of the file into *out, which grows; one byte stays free for the NUL. */
static syn_status read_all(int fd, const char *path, size_t max_bytes, char **out, size_t *cap,
                           size_t *used, syn_error *err) {
    for (;;) {
        SYN_TRY(syn_grow(out, cap, *used + 2, 1, err));
        size_t room = *cap - *used - 1;
        if (room > SSIZE_MAX) room = SSIZE_MAX;
        const ssize_t n = read(fd, *out + *used, room);
        if (n == 0) return SYN_OK;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": %s", path, strerror(errno));
        *used += (size_t)n;
        if (*used > max_bytes)
            return SYN_FAIL(err, SYN_E_FORMAT, "cannot read " SHOWN ": it is longer than %zu bytes",
                            path, max_bytes);
    }
}

/* Checks what kind of file it is and makes a buffer of its size. */
static syn_status prepare(int fd, const char *path, size_t max_bytes, char **buf, size_t *cap,
                          syn_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": it is a folder", path);
    const uint64_t size = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (size > max_bytes)
        return SYN_FAIL(err, SYN_E_FORMAT, "cannot read " SHOWN ": it is longer than %zu bytes",
                        path, max_bytes);
    /* Two bytes more: the NUL, and one so that the read that finds the end needs no growth. */
    return size < SIZE_MAX - 2 ? syn_grow(buf, cap, (size_t)size + 2, 1, err) : SYN_OK;
}

syn_status syn_read_file(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                         syn_error *err) {
    *out = NULL;
    *out_bytes = 0;
    if (max_bytes > SIZE_MAX - 2) max_bytes = SIZE_MAX - 2;
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": %s", path, strerror(errno));
    char *buf = NULL;
    size_t cap = 0, used = 0;
    syn_status status = prepare(fd, path, max_bytes, &buf, &cap, err);
    if (status == SYN_OK) status = read_all(fd, path, max_bytes, &buf, &cap, &used, err);
    (void)close(fd);
    if (status != SYN_OK) {
        syn_free(buf);
        return status;
    }
    buf[used] = '\0';
    *out = buf;
    *out_bytes = used;
    return SYN_OK;
}
