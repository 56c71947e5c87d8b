/* Creates folders and reads whole files: the functions of sink.h that do not use sinks. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink_private.h"

/* Paths in error messages are cut to 380 bytes, about 3/4 of a message. */
#define SHOWN        "%.380s"
#define PIPE_WAIT_MS 5000 /* how long to wait until a writer opens the pipe */

bool syn_file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

static syn_status make_one_folder(const char *path, syn_error *err) {
    if (mkdir(path, 0777) == 0) return SYN_OK;
    const int code = errno;
    struct stat info;
    /* If the folder exists, errors of mkdir ("exists", "read-only") do not matter. */
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

syn_status syn_make_prefix_folder(const char *prefix, syn_error *err) {
    const char *slash = strrchr(prefix, '/');
    if (!slash || slash == prefix) return SYN_OK;
    char *folder = syn_strndup(prefix, (size_t)(slash - prefix));
    if (!folder) return SYN_FAIL_NOMEM(err, strlen(prefix), "a folder name");
    const syn_status s = syn_make_folder(folder, err);
    syn_free(folder);
    return s;
}

/* A file that is being read. */
typedef struct reading {
    int fd;
    const char *path;
    size_t max_bytes;      /* limit given by the caller */
    uint64_t memory_bytes; /* limit given by the machine's memory */
    char *buf;
    size_t cap_bytes, used_bytes;
} reading;

static syn_status grow_buffer(reading *r, size_t want, syn_error *err) {
    const syn_status status = syn_grow(&r->buf, &r->cap_bytes, want, 1, NULL);
    if (status == SYN_OK) return status;
    return SYN_FAIL(err, status, "out of memory: %zu bytes to read " SHOWN, want, r->path);
}

static syn_status fail_long(const reading *r, syn_error *err) {
    return SYN_FAIL(err, SYN_E_FORMAT, "cannot read " SHOWN ": it is longer than %zu bytes",
                    r->path, r->max_bytes);
}

static syn_status fail_read(const char *path, int code, syn_error *err) {
    struct stat link;
    const bool dangling = code == ENOENT && lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    /* ENXIO: a socket, or a device without a driver. */
    const char *reason = code == ENXIO ? "it is not a regular file"
                         : dangling    ? "it is a link to a missing file"
                                       : strerror(code);
    return SYN_FAIL(err, code == ENOMEM ? SYN_E_NOMEM : SYN_E_IO, "cannot read " SHOWN ": %s", path,
                    reason);
}

/* Reads to the end of the file. The buffer grows as needed; one byte stays free for the NUL. */
static syn_status read_all(reading *r, syn_error *err) {
    for (;;) {
        SYN_TRY(grow_buffer(r, r->used_bytes + 2, err));
        size_t left = r->cap_bytes - r->used_bytes - 1;
        if (left > SSIZE_MAX) left = SSIZE_MAX;
        const ssize_t n = read(r->fd, r->buf + r->used_bytes, left);
        if (n == 0) return SYN_OK;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_read(r->path, errno, err);
        r->used_bytes += (size_t)n;
        if (r->used_bytes > r->max_bytes) return fail_long(r, err);
        if (r->used_bytes > r->memory_bytes)
            return SYN_FAIL(err, SYN_E_NOMEM,
                            "cannot read " SHOWN ": it has more than the %" PRIu64
                            " bytes that this machine's memory allows",
                            r->path, r->memory_bytes);
    }
}

/* Whether a file is a terminal or /dev/null, which scripts pass for "no file". */
static bool is_readable_device(int fd, const struct stat *info) {
    struct stat null;
    if (!S_ISCHR(info->st_mode)) return false;
    return isatty(fd) == 1 || (stat("/dev/null", &null) == 0 && S_ISCHR(null.st_mode) &&
                               null.st_rdev == info->st_rdev);
}

/* Fails if no process has opened the pipe for writing within PIPE_WAIT_MS, instead of waiting
   forever. A pipe with a slow writer is read to its end. */
static syn_status await_writer(reading *r, syn_error *err) {
    struct pollfd wait = {.fd = r->fd, .events = POLLIN};
    int n;
    do n = poll(&wait, 1, PIPE_WAIT_MS);
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        const ssize_t got = read(r->fd, r->buf, r->cap_bytes - 1); /* fails with EAGAIN if the pipe
                                                                      has a writer */
        if (got == 0)
            return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": it is a pipe without a writer",
                            r->path);
        if (got > 0) r->used_bytes = (size_t)got;
    }
    return SYN_OK;
}

/* Checks the kind of file and allocates a buffer of its size. */
static syn_status prepare(reading *r, syn_error *err) {
    struct stat info;
    if (fstat(r->fd, &info) != 0) return fail_read(r->path, errno, err);
    if (S_ISDIR(info.st_mode))
        return SYN_FAIL(err, SYN_E_IO, "cannot read " SHOWN ": it is a folder", r->path);
    const bool is_socket = S_ISSOCK(info.st_mode); /* standard input; open refuses named ones */
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode) && !is_socket &&
        !is_readable_device(r->fd, &info))
        return SYN_FAIL(err, SYN_E_IO,
                        "cannot read " SHOWN ": it is a device or a socket, not a regular file",
                        r->path);
    const uint64_t size = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (size > r->max_bytes) return fail_long(r, err);
    if (size > r->memory_bytes)
        return SYN_FAIL(err, SYN_E_NOMEM,
                        "cannot read " SHOWN ": its %" PRIu64
                        " bytes are more than this machine's memory, %" PRIu64 " bytes",
                        r->path, size, r->memory_bytes);
    /* If the size is unknown, the buffer grows, which needs memory for the old and the new
       buffer. */
    if (size == 0) r->memory_bytes /= 2;
    /* Of the two additional bytes, one is for the NUL. The other lets the read that finds the end
       of the file run without growing the buffer. */
    SYN_TRY(grow_buffer(r, (size_t)size + 2, err));
    if (S_ISFIFO(info.st_mode)) SYN_TRY(await_writer(r, err));
    /* The file was opened non-blocking, so that open does not wait for a writer; but reads must
       block. */
    const int flags = fcntl(r->fd, F_GETFL);
    if (flags < 0 || fcntl(r->fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return fail_read(r->path, errno, err);
    return SYN_OK;
}

const char *syn_input_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* "-" is standard input. A socket cannot be opened again, so it is duplicated. */
static int open_input(const char *path) {
    struct stat info;
    int fd;
    if (strcmp(path, "-") == 0) {
        if (fstat(STDIN_FILENO, &info) == 0 && S_ISSOCK(info.st_mode))
            return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        path = "/dev/stdin";
    }
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

syn_status syn__read_file(const char *path, size_t max_bytes, uint64_t memory_bytes, char **out,
                          size_t *out_bytes, syn_error *err) {
    *out = NULL;
    *out_bytes = 0;
    if (max_bytes > SIZE_MAX - 2) max_bytes = SIZE_MAX - 2;
    reading r = {
        .path = syn_input_name(path), .max_bytes = max_bytes, .memory_bytes = memory_bytes};
    r.fd = open_input(path);
    if (r.fd < 0) return fail_read(r.path, errno, err);
    syn_status status = prepare(&r, err);
    if (status == SYN_OK) status = read_all(&r, err);
    (void)close(r.fd);
    if (status != SYN_OK) {
        syn_free(r.buf);
        return status;
    }
    r.buf[r.used_bytes] = '\0';
    *out = r.buf;
    *out_bytes = r.used_bytes;
    return SYN_OK;
}

syn_status syn_read_file(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                         syn_error *err) {
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t memory_bytes =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    SYN_TRY(syn__read_file(path, max_bytes, memory_bytes, out, out_bytes, err));
    if (!syn_is_lfs_pointer(*out, *out_bytes)) return SYN_OK;
    syn_free(*out);
    *out = NULL;
    *out_bytes = 0;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%s is a Git LFS pointer; run 'git lfs pull' to fetch the file",
                    syn_input_name(path));
}

bool syn_is_lfs_pointer(const char *data, size_t bytes) {
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    return bytes >= sizeof begin - 1 && memcmp(data, begin, sizeof begin - 1) == 0;
}
