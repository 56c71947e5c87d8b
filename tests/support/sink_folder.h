/* A folder of this test run, and what stdio and readdir say of it. */
#ifndef TESTS_SINK_FOLDER_H
#define TESTS_SINK_FOLDER_H

#include "tests/support/test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/sink.h"

static char folder[256]; /* of this run, removed at its end */

static inline const char *in_folder(const char *name) {
    static char paths[4][600];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Files of the folder, without "." and "..". */
static inline int entries(const char *path) {
    DIR *dir = opendir(path);
    if (dir == NULL) return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static inline void remove_all(const char *path) {
    DIR *dir = opendir(path);
    char name[1200];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        const int n = snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (n < 0 || (size_t)n >= sizeof name) continue;
        if (unlink(name) != 0) remove_all(name);
    }
    if (dir != NULL) closedir(dir);
    rmdir(path);
}

static inline void start_folder(const char *name) {
    remove_all(in_folder(name));
    mkdir(in_folder(name), 0777);
}

/* The whole file, from stdio and not from the code under test; "" if there is none. */
static inline const char *contents(const char *path) {
    static char buf[65536];
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(buf, 1, sizeof buf - 1, f) : 0;
    buf[n] = '\0';
    if (f != NULL) fclose(f);
    return buf;
}

static inline syn_status write_text(const char *path, const char *text, bool keep, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn_sink_text(sink, text);
    return syn_sink_close(sink, keep, err);
}

/* Runs the cases in a folder of their own, removed at the end. */
static inline int run_in_folder(const test_case *cases, size_t n, int argc, char **argv) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/syn_test_sink_%ld", base != NULL ? base : "/tmp",
             (long)getpid());
    if (mkdir(folder, 0777) != 0) {
        fprintf(stderr, "cannot create %s\n", folder);
        return 1;
    }
    const int result = test_run(cases, n, argc, argv);
    remove_all(folder);
    return result;
}

#endif
