/* Checks, removes, flushes and moves folders and files of outputs. Does not follow symbolic links
   when it removes. */
#include "tools/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/base/sink.h"

syn_status folder_path(char path[FOLDER_PATH_BYTES], syn_error *err, const char *folder,
                       const char *name) {
    const int n = snprintf(path, FOLDER_PATH_BYTES, "%s/%s", folder, name);
    if (n >= 0 && n < FOLDER_PATH_BYTES) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "the name '%.100s...' is too long", folder);
}

bool folder_is(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool folder_is_prefix(const char *prefix) {
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool folder_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISDIR(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static bool is_file(const struct dirent *e) {
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Removes the contents of the folder that is open as fd, and closes fd. */
static void remove_entries(int fd) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir));) {
        if (!is_file(e) || unlinkat(fd, e->d_name, 0) == 0) continue;
        const int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) continue;
        remove_entries(below);
        (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    (void)closedir(dir);
}

void folder_remove(const char *folder) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) remove_entries(fd);
    if (fd < 0 || rmdir(folder) != 0) (void)unlink(folder);
}

syn_status folder_make_empty(const char *folder, syn_error *err) {
    folder_remove(folder);
    if (mkdir(folder, 0777) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "cannot recreate the folder '%.300s': %s", folder,
                    strerror(errno));
}

syn_status folder_check_output(const char *path, syn_error *err) {
    struct stat st;
    syn_sink *sink;
    if (!path || strcmp(path, "-") == 0) return SYN_OK;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    return syn_sink_close(sink, false, err);
}

/* Truncates `path` to the nearest existing folder above it, or a file that exists there instead,
   and returns the result. */
static const char *nearest(char *path) {
    struct stat st;
    for (char *slash; (slash = strrchr(path, '/'));) {
        if (slash == path) return "/";
        *slash = '\0';
        if (stat(path, &st) == 0) return path;
    }
    return ".";
}

/* The longest suffix of the file names of a trace set with up to 1,000 ranks. */
static const char suffix[] = ".999_kineto.json";

syn_status folder_check_prefix(const char *prefix, syn_error *err) {
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    char above[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES];
    syn_error why = {.code = SYN_OK};
    if ((size_t)snprintf(above, sizeof above, "%s", prefix) >= sizeof above)
        return SYN_FAIL(err, SYN_E_INVALID, "the name '%.100s...' is too long", prefix);
    if (strlen(name) + sizeof suffix > NAME_MAX)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the name '%.100s...' is too long: with endings such as %s it would have "
                        "more than %d bytes",
                        name, suffix, NAME_MAX);
    const char *folder = nearest(above);
    SYN_TRY(folder_path(path, err, folder, ".lock"));
    if (folder_check_output(path, &why) == SYN_OK) return SYN_OK;
    return SYN_FAIL(err, why.code,
                    "cannot write %.200s: the folder %.200s does not allow new files", prefix,
                    folder);
}

syn_status folder_sync_path(const char *path, syn_error *err) {
    const int fd = open(path, O_RDONLY);
    const bool ok = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    return ok ? SYN_OK : SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s': %s", path, strerror(why));
}

syn_status folder_sync(const char *folder, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    syn_status s = SYN_OK;
    DIR *dir = opendir(folder);
    if (!dir) return SYN_FAIL(err, SYN_E_IO, "cannot read '%.300s'", folder);
    for (const struct dirent *e; s == SYN_OK && (e = readdir(dir));) {
        if (!is_file(e)) continue;
        s = folder_path(path, err, folder, e->d_name);
        if (s == SYN_OK) s = folder_sync_path(path, err);
    }
    closedir(dir);
    return s == SYN_OK ? folder_sync_path(folder, err) : s;
}

syn_status folder_move_files(const char *from, const char *to, syn_error *err) {
    char source[FOLDER_PATH_BYTES], target[FOLDER_PATH_BYTES];
    syn_status s = SYN_OK;
    DIR *dir = opendir(from);
    if (!dir) return SYN_FAIL(err, SYN_E_IO, "cannot read '%.300s'", from);
    for (const struct dirent *e; s == SYN_OK && (e = readdir(dir));) {
        if (!is_file(e)) continue;
        s = folder_path(source, err, from, e->d_name);
        if (s == SYN_OK) s = folder_path(target, err, to, e->d_name);
        if (s == SYN_OK && rename(source, target) != 0)
            s = SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s': %s", target, strerror(errno));
    }
    closedir(dir);
    if (s == SYN_OK) rmdir(from);
    return s == SYN_OK ? folder_sync_path(to, err) : s;
}
