/* Sinks: opening, writing and closing files and memory buffers. Formatting is in sink_text.c,
   reading of files in sink_files.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for O_TMPFILE, realpath */
#endif
#include "syntorch/base/sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink_private.h"

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

#define BUFFER_BYTES    ((size_t)128 << 10)
#define NAME_BYTES      200 /* maximum bytes of a file's name in a temporary name (NAME_MAX: 255) */
#define SHOWN_BYTES     300 /* bytes at a path's end that an error message shows */
#define SUFFIX_BYTES    64
#define TEMPORARY_TRIES 1000

typedef enum sink_kind {
    SINK_MEMORY,
    SINK_FILE,  /* has no name or a temporary name until it is closed */
    SINK_STREAM /* standard output, a device or a pipe: written directly */
} sink_kind;

struct syn_sink {
    sink_kind kind;
    int fd;
    char *buf;
    size_t used_bytes, cap_bytes;
    uint64_t flushed_bytes;
    char *path;         /* as the user gave it, for error messages */
    char *target;       /* the path with symbolic links resolved */
    char *temporary;    /* next to the target: target + ".tmp.<process>.<number>" */
    size_t stem_bytes;  /* length of temporary before ".tmp." */
    bool named;         /* this sink has created a file with the temporary name */
    syn__checksum *sum; /* checksum of the written bytes; NULL: none */
    syn_error error;
};

/* The last SHOWN_BYTES bytes of a path, or fewer, so that the text begins with a whole
   character. */
static const char *shown(const char *path) {
    const size_t bytes = strlen(path);
    if (bytes <= SHOWN_BYTES) return path;
    path += bytes - SHOWN_BYTES;
    while (((unsigned char)*path & 0xC0u) == 0x80u) path++;
    return path;
}

/* Writes the folder that contains `path` to buf and returns it. The text is cut if buf is too
   small. */
static const char *folder_of(const char *path, char *buf, size_t buf_bytes) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return ".";
    const size_t bytes = slash == path ? 1 : (size_t)(slash - path);
    snprintf(buf, buf_bytes, "%.*s", (int)(bytes < INT_MAX ? bytes : INT_MAX), path);
    return buf;
}

static syn_status fail_errno(syn_error *err, const char *verb, const char *path, int code) {
    const syn_status status = code == ENOMEM ? SYN_E_NOMEM : SYN_E_IO;
    return SYN_FAIL(err, status, "cannot %s %s: %s", verb, shown(path), strerror(code));
}

static syn_status fail_memory(const syn_sink *sink, size_t bytes, syn_error *err) {
    return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %zu bytes to write %s", bytes,
                    shown(sink->path));
}

/* ---- Opening ---- */

/* Reports why a file could not be created. If its folder is the reason, the error message names the
   folder. */
static syn_status fail_create(const syn_sink *sink, int code, syn_error *err) {
    char buf[PATH_MAX];
    const char *folder = folder_of(sink->path, buf, sizeof buf);
    struct stat info; /* some file systems, such as /proc, report ENOENT for existing folders */
    const bool absent = code == ENOENT && stat(folder, &info) != 0;
    const char *reason = absent            ? "does not exist"
                         : code == ENOENT  ? "does not allow new files"
                         : code == ENOTDIR ? "is not a folder"
                         : code == EACCES  ? "does not allow new files"
                         : code == EROFS   ? "is read-only"
                                           : NULL;
    if (reason == NULL) return fail_errno(err, "write", sink->path, code);
    const char *shown_folder = shown(folder);
    if (strlen(shown_folder) + strlen(shown(sink->path)) > 400) shown_folder = "its folder";
    return SYN_FAIL(err, SYN_E_IO, "cannot write %s: the folder %s %s", shown(sink->path),
                    shown_folder, reason);
}

static _Atomic bool without_unnamed, without_link;

void syn__sink_simulate(bool no_unnamed, bool no_link) {
    without_unnamed = no_unnamed;
    without_link = no_link;
}

/* Allocates the temporary name at the start, so that closing needs no memory. */
static syn_status start_name(syn_sink *sink, syn_error *err) {
    const char *slash = strrchr(sink->target, '/');
    const size_t folder_bytes = slash != NULL ? (size_t)(slash - sink->target) + 1 : 0;
    size_t name_bytes = strlen(sink->target) - folder_bytes;
    if (name_bytes > NAME_BYTES) name_bytes = NAME_BYTES;
    sink->stem_bytes = folder_bytes + name_bytes;
    sink->temporary = (char *)syn_malloc(sink->stem_bytes + SUFFIX_BYTES);
    if (sink->temporary == NULL) return fail_memory(sink, sink->stem_bytes + SUFFIX_BYTES, err);
    memcpy(sink->temporary, sink->target, sink->stem_bytes);
    return SYN_OK;
}

/* Moves a file to a descriptor above 2. In a process that was started without standard descriptors,
   a file could get descriptor 1 or 2, and printed text would then be written to the file. */
static int above_standard(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int why = errno;
    (void)close(fd);
    errno = why;
    return moved;
}

/* Arguments of make_named. make_file creates a new file with the temporary name. make_link gives
   the temporary name to the sink's file, which was opened without a name. */
static int make_file(const syn_sink *sink) {
    return above_standard(open(sink->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

/* The descriptor's path in /proc. Every process may create a link through this path, whereas
   AT_EMPTY_PATH needs privileges. */
static const char *descriptor_path(int fd, char buf[SUFFIX_BYTES]) {
    snprintf(buf, SUFFIX_BYTES, "/proc/self/fd/%d", fd);
    return buf;
}

static int make_link(const syn_sink *sink) {
    char buf[SUFFIX_BYTES];
    if (without_link) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return linkat(AT_FDCWD, descriptor_path(sink->fd, buf), AT_FDCWD, sink->temporary,
                  AT_SYMLINK_FOLLOW);
}

/* Calls `make` with new temporary names until one is free, so that two writers never use the same
   name. Returns the result of `make`, which is negative, with errno set, on failure. */
static int make_named(syn_sink *sink, int (*make)(const syn_sink *)) {
    static _Atomic unsigned number;
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        snprintf(sink->temporary + sink->stem_bytes, SUFFIX_BYTES, ".tmp.%ld.%u", (long)getpid(),
                 atomic_fetch_add(&number, 1));
        const int made = make(sink);
        sink->named = made >= 0;
        if (made >= 0) return made;
        if (errno != EEXIST && errno != EINTR) break;
    }
    return -1;
}

/* Opens a file without a name in the target's folder. The file disappears with the process, however
   the process ends. Returns -1 if the file system does not support such files, or if /proc is
   missing. */
static int open_unnamed(const syn_sink *sink) {
    int fd = -1;
#ifdef O_TMPFILE
    char buf[PATH_MAX], place[SUFFIX_BYTES];
    if (without_unnamed) return -1;
    /* opened for reading, too, because the file must be copied if it cannot get a name */
    fd = above_standard(
        open(folder_of(sink->target, buf, sizeof buf), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666));
    if (fd >= 0 && access(descriptor_path(fd, place), F_OK) != 0) {
        (void)close(fd);
        fd = -1;
    }
#endif
    return fd;
}

static syn_status create_temporary(syn_sink *sink, syn_error *err) {
    SYN_TRY(start_name(sink, err));
    sink->fd = open_unnamed(sink);
    /* a file with a name may still work; otherwise its error is reported */
    if (sink->fd < 0) sink->fd = make_named(sink, make_file);
    return sink->fd >= 0 ? SYN_OK : fail_create(sink, errno, err);
}

/* Follows symbolic links, so that the sink replaces the file to which a link points, not the
   link. */
static syn_status resolve_target(syn_sink *sink, syn_error *err) {
    char resolved[PATH_MAX];
    struct stat link;
    const bool is_link = lstat(sink->path, &link) == 0 && S_ISLNK(link.st_mode);
    const char *target = is_link && realpath(sink->path, resolved) ? resolved : sink->path;
    sink->target = syn_strdup(target);
    if (sink->target == NULL) return fail_memory(sink, strlen(target) + 1, err);
    return SYN_OK;
}

static syn_status open_stream(syn_sink *sink, syn_error *err) {
    sink->kind = SINK_STREAM;
    do sink->fd = above_standard(open(sink->path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    while (sink->fd < 0 && errno == EINTR);
    return sink->fd >= 0 ? SYN_OK : fail_errno(err, "write", sink->path, errno);
}

static syn_status open_path(syn_sink *sink, syn_error *err) {
    const char *path = sink->path;
    if (*path == '\0') return SYN_FAIL(err, SYN_E_IO, "cannot write a file with an empty name");
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    /* Fail now, because a file without a name would fail only when it is closed. */
    if (!exists && errno == ENAMETOOLONG) return fail_errno(err, "write", path, errno);
    if (exists && S_ISDIR(old.st_mode))
        return SYN_FAIL(err, SYN_E_IO, "cannot write %s: it is a folder", shown(path));
    if (exists && !S_ISREG(old.st_mode)) return open_stream(sink, err);
    /* Fail explicitly, because renaming would replace a write-protected file. */
    if (exists && access(path, W_OK) != 0) return fail_errno(err, "write", path, errno);
    SYN_TRY(resolve_target(sink, err));
    SYN_TRY(create_temporary(sink, err));
    /* A failure does not matter: file systems without modes still store the file. */
    if (exists && fchmod(sink->fd, old.st_mode & 0777u) != 0) errno = 0;
    return SYN_OK;
}

static void sink_free(syn_sink *sink) {
    syn_free(sink->temporary);
    syn_free(sink->target);
    syn_free(sink->path);
    syn_free(sink->buf);
    syn_free(sink);
}

static syn_sink *sink_new(sink_kind kind, const char *path, size_t buf_bytes) {
    syn_sink *sink = (syn_sink *)syn_calloc(1, sizeof *sink);
    if (sink == NULL) return NULL;
    sink->kind = kind;
    sink->fd = -1;
    sink->cap_bytes = buf_bytes;
    sink->buf = (char *)syn_malloc(buf_bytes);
    sink->path = syn_strdup(path);
    if (sink->buf != NULL && sink->path != NULL) return sink;
    sink_free(sink);
    return NULL;
}

syn_status syn_sink_open_file(syn_sink **out, const char *path, syn_error *err) {
    *out = NULL;
    const bool is_stdout = strcmp(path, "-") == 0;
    syn_sink *sink = sink_new(is_stdout ? SINK_STREAM : SINK_FILE,
                              is_stdout ? "standard output" : path, BUFFER_BYTES);
    if (sink == NULL)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %zu bytes to write %s", BUFFER_BYTES,
                        shown(path));
    if (is_stdout) {
        sink->fd = STDOUT_FILENO;
    } else {
        const syn_status status = open_path(sink, err);
        if (status != SYN_OK) {
            sink_free(sink);
            return status;
        }
    }
    *out = sink;
    return SYN_OK;
}

syn_status syn_sink_open_memory(syn_sink **out, syn_error *err) {
    *out = sink_new(SINK_MEMORY, "memory", 256);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, 256, "a memory buffer");
    return SYN_OK;
}

/* ---- Writing ---- */

void syn__sink_sum(syn_sink *sink, syn__checksum *sum) {
    sink->sum = sum;
}

/* Writes all bytes, in several system calls if necessary. */
static void write_fd(syn_sink *sink, const char *data, size_t bytes) {
    while (bytes > 0 && sink->error.code == SYN_OK) {
        const ssize_t n = write(sink->fd, data, bytes < SSIZE_MAX ? bytes : SSIZE_MAX);
        if (n > 0) {
            if (sink->sum) syn__checksum_add(sink->sum, data, (size_t)n);
            data += n;
            bytes -= (size_t)n;
            sink->flushed_bytes += (uint64_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd wait = {.fd = sink->fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else if (n == 0 || errno != EINTR) {
            (void)fail_errno(&sink->error, "write", sink->path, n == 0 ? EIO : errno);
        }
    }
}

/* Writes the buffer to the file. */
static void flush(syn_sink *sink) {
    write_fd(sink, sink->buf, sink->used_bytes);
    sink->used_bytes = 0;
}

static void write_memory(syn_sink *sink, const void *data, size_t bytes) {
    size_t want;
    if (!syn_add_size(sink->used_bytes, bytes, &want) || !syn_add_size(want, 1, &want)) {
        (void)SYN_FAIL_NOMEM(&sink->error, SIZE_MAX, "a memory buffer");
        return;
    }
    /* The additional byte is for the NUL of syn_sink_data. */
    if (syn_grow(&sink->buf, &sink->cap_bytes, want, 1, &sink->error) != SYN_OK) return;
    memcpy(sink->buf + sink->used_bytes, data, bytes);
    sink->used_bytes += bytes;
}

void syn_sink_write(syn_sink *sink, const void *data, size_t bytes) {
    if (bytes == 0 || sink->error.code != SYN_OK) return;
    if (bytes < sink->cap_bytes - sink->used_bytes) {
        memcpy(sink->buf + sink->used_bytes, data, bytes);
        sink->used_bytes += bytes;
        return;
    }
    if (sink->kind == SINK_MEMORY) {
        write_memory(sink, data, bytes);
        return;
    }
    flush(sink);
    if (bytes >= sink->cap_bytes) {
        write_fd(sink, (const char *)data, bytes);
    } else {
        memcpy(sink->buf, data, bytes);
        sink->used_bytes = bytes;
    }
}

void syn_sink_printf(syn_sink *sink, const char *fmt, ...) {
    char small[512];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n < 0) return; /* only for invalid wide characters, which are never printed */
    if ((size_t)n < sizeof small) {
        syn_sink_write(sink, small, (size_t)n);
        return;
    }
    char *large = (char *)syn_malloc((size_t)n + 1);
    if (large == NULL) {
        (void)SYN_FAIL_NOMEM(&sink->error, (size_t)n + 1, "a line of text");
        return;
    }
    va_start(args, fmt);
    vsnprintf(large, (size_t)n + 1, fmt, args);
    va_end(args);
    syn_sink_write(sink, large, (size_t)n);
    syn_free(large);
}

uint64_t syn_sink_bytes(const syn_sink *sink) {
    return sink->flushed_bytes + sink->used_bytes;
}

const char *syn_sink_data(const syn_sink *sink, size_t *bytes) {
    if (sink->kind != SINK_MEMORY || sink->error.code != SYN_OK) return NULL;
    sink->buf[sink->used_bytes] = '\0';
    if (bytes != NULL) *bytes = sink->used_bytes;
    return sink->buf;
}

syn_status syn_sink_status(const syn_sink *sink) {
    return sink->error.code;
}

/* ---- Closing ---- */

static void close_fd(syn_sink *sink) {
    if (sink->fd < 0 || sink->fd == STDOUT_FILENO) return;
    /* Network file systems report a full disk only on close. EINTR is no error: on Linux the
       descriptor is then closed. */
    if (close(sink->fd) != 0 && errno != EINTR)
        (void)fail_errno(&sink->error, "write", sink->path, errno);
    sink->fd = -1;
}

/* Copies a file without a name to a new file with a temporary name. */
static void copy_to_named(syn_sink *sink) {
    struct stat info;
    const int from = sink->fd;
    const int to = make_named(sink, make_file);
    sink->sum = NULL; /* the checksum already covers these bytes */
    if (to < 0) {
        (void)fail_create(sink, errno, &sink->error);
        return;
    }
    sink->fd = to;
    if (fstat(from, &info) == 0 && fchmod(to, info.st_mode & 0777u) != 0) errno = 0;
    for (off_t at = 0; sink->error.code == SYN_OK;) {
        const ssize_t n = pread(from, sink->buf, sink->cap_bytes, at);
        if (n == 0) break;
        if (n > 0) write_fd(sink, sink->buf, (size_t)n);
        else if (errno != EINTR) (void)fail_errno(&sink->error, "write", sink->path, errno);
        if (n > 0) at += n;
    }
    (void)close(from);
}

syn_status syn_sink_close(syn_sink *sink, bool keep, syn_error *err) {
    if (sink == NULL) return SYN_OK;
    if (keep && sink->kind != SINK_MEMORY) flush(sink);
    if (keep && sink->kind == SINK_FILE && !sink->named && sink->error.code == SYN_OK &&
        make_named(sink, make_link) < 0)
        copy_to_named(sink);
    close_fd(sink);
    if (sink->kind == SINK_FILE) {
        keep = keep && sink->error.code == SYN_OK;
        if (keep && rename(sink->temporary, sink->target) != 0) {
            (void)fail_errno(&sink->error, "write", sink->path, errno);
            keep = false;
        }
        if (!keep && sink->named) (void)unlink(sink->temporary);
    }
    const syn_status status = sink->error.code;
    if (status != SYN_OK && err != NULL && err->code == SYN_OK) *err = sink->error;
    sink_free(sink);
    return status;
}
