/* Implements files.h. One temporary folder per process is created on first use. */
#include "tests/support/files.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[512];
static pid_t owner;

static void die(const char *path) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void end_folder(void) {
    if (getpid() != owner) return; /* a child process must not remove its parent's folder */
    clear_folder();
    rmdir(folder);
}

static void begin_folder(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.400s/syn_test_XXXXXX",
             tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) die(folder);
    owner = getpid();
    atexit(end_folder);
}

static const char *joined(const char *base, const char *name) {
    static _Thread_local char paths[8][1024];
    static _Thread_local unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], *name != '\0' ? "%s/%s" : "%s", base, name);
    return path;
}

const char *in_folder(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_folder);
    return joined(folder, name);
}

const char *put_file(const char *name, const void *data, size_t bytes) {
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) die(path);
    const bool written = bytes == 0 || fwrite(data, 1, bytes, f) == bytes;
    if (fclose(f) != 0 || !written) die(path);
    return path;
}

const char *put_text(const char *name, const char *text) {
    return put_file(name, text, strlen(text));
}

const char *put_folder(const char *name) {
    const char *path = in_folder(name);
    remove_all(path);
    if (mkdir(path, 0777) != 0) die(path);
    return path;
}

bool path_exists(const char *path) {
    return access(path, F_OK) == 0;
}

int count_entries(const char *path) {
    DIR *dir = opendir(path);
    if (dir == NULL) return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int remove_below(const char *path) {
    DIR *dir = opendir(path);
    char name[1400];
    int n = 0;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, "%.900s/%.300s", path, e->d_name);
        remove_all(name);
        n++;
    }
    if (dir != NULL) closedir(dir);
    return n;
}

int clear_folder(void) {
    return owner != 0 ? remove_below(folder) : 0;
}

void remove_all(const char *path) {
    if (unlink(path) == 0) return;
    remove_below(path);
    rmdir(path);
}

char *file_bytes(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t cap = 4096;
    char *data = malloc(cap);
    *bytes = 0;
    for (size_t n = 1; n > 0 && data != NULL; *bytes += n) {
        if (cap - *bytes < 2) data = realloc(data, cap *= 2);
        n = data != NULL ? fread(data + *bytes, 1, cap - *bytes - 1, f) : 0;
    }
    if (data == NULL || ferror(f)) die(path);
    fclose(f);
    data[*bytes] = '\0';
    return data;
}

const char *file_text(const char *path) {
    static char text[65536];
    size_t bytes;
    char *all = file_bytes(path, &bytes);
    snprintf(text, sizeof text, "%s", all != NULL ? all : "");
    free(all);
    return text;
}

/* The path that `fmt` gives, in the subfolder `within` of a folder that an environment variable
   names ("." if the variable is not set). */
static const char *below(const char *variable, const char *within, const char *fmt, va_list args) {
    char name[512], base[512];
    const char *folder_name = getenv(variable);
    vsnprintf(name, sizeof name, fmt, args);
    snprintf(base, sizeof base, "%.400s%s", folder_name != NULL ? folder_name : ".", within);
    return joined(base, name);
}

const char *source_path(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *path = below("SYN_SOURCE", "", fmt, args);
    va_end(args);
    return path;
}

const char *reference_path(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *path = below("SYN_SOURCE", "/tests/reference", fmt, args);
    va_end(args);
    return path;
}

const char *shared_path(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *path = below("SYN_SHARED_DATA", "", fmt, args);
    va_end(args);
    return path;
}

bool have_shared_data(void) {
    return getenv("SYN_SHARED_DATA") != NULL;
}
