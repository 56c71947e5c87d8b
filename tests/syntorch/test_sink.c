/* Tests sinks to files: they write a whole file or none, and their errors tell the user what to
   do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for O_TMPFILE */
#endif
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink_private.h"

/* Whether the folder's file system supports files without a name. */
static bool has_unnamed(const char *path) {
    int fd = -1;
#ifdef O_TMPFILE
    fd = open(path, O_RDWR | O_TMPFILE, 0600);
#endif
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static syn_status write_text(const char *path, const char *text, bool keep, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn_sink_text(sink, text);
    return syn_sink_close(sink, keep, err);
}

/* ---- Files ---- */

static void appears_only_when_closed(void) {
    put_folder("a");
    const char *path = in_folder("a/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_STR(file_text(path), "old");
    syn_sink *sink;
    CHECK_OK(syn_sink_open_file(&sink, path, &err), err);
    /* The folder contains the old file, and also a temporary file if the file system needs a name
       for it. */
    CHECK_INT(count_entries(in_folder("a")), has_unnamed(in_folder("a")) ? 1 : 2);
    syn_sink_text(sink, "new");
    CHECK_INT(syn_sink_bytes(sink), 3);
    CHECK_STR(file_text(path), "old");
    CHECK_OK(syn_sink_close(sink, true, &err), err);
    CHECK_STR(file_text(path), "new");
    CHECK_INT(count_entries(in_folder("a")), 1);
}

/* A child process is killed after it has written half of its file. */
static void killed_writers_leave_nothing(void) {
    put_folder("n");
    if (!has_unnamed(in_folder("n"))) SKIP("the file system has no files without a name");
    const char *path = in_folder("n/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        syn_sink *sink = NULL;
        const syn_status opened = syn_sink_open_file(&sink, path, &err);
        for (int i = 0; i < 100000 && opened == SYN_OK; i++) syn_sink_text(sink, "0123456789");
        const char ready = opened == SYN_OK && syn_sink_status(sink) == SYN_OK ? 'y' : 'n';
        if (write(ends[1], &ready, 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    char ready = 0;
    const ssize_t n = read(ends[0], &ready, 1);
    close(ends[0]);
    int status = 0;
    CHECK(child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(n == 1 && ready == 'y');
    CHECK_STR(file_text(path), "old");
    CHECK_INT(count_entries(in_folder("n")), 1);
}

static void discarding_leaves_the_old_file(void) {
    put_folder("b");
    const char *path = in_folder("b/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_OK(write_text(path, "new", false, &err), err);
    CHECK_STR(file_text(path), "old");
    CHECK_OK(write_text(in_folder("b/y.txt"), "new", false, &err), err);
    CHECK_INT(count_entries(in_folder("b")), 1);
    CHECK_OK(syn_sink_close(NULL, true, &err), err);
}

static void two_writers_do_not_share(void) {
    put_folder("c");
    const char *path = in_folder("c/x.txt");
    syn_error err = {0};
    syn_sink *a, *b;
    CHECK_OK(syn_sink_open_file(&a, path, &err), err);
    CHECK_OK(syn_sink_open_file(&b, path, &err), err);
    syn_sink_text(a, "aaaa");
    syn_sink_text(b, "bb");
    CHECK_OK(syn_sink_close(a, true, &err), err);
    CHECK_STR(file_text(path), "aaaa");
    CHECK_OK(syn_sink_close(b, true, &err), err);
    CHECK_STR(file_text(path), "bb");
    CHECK_INT(count_entries(in_folder("c")), 1);
}

static void large_files_are_whole(void) {
    put_folder("d");
    const char *path = in_folder("d/x.bin");
    syn_error err = {0};
    enum { PIECE = 300000 };
    char *piece = (char *)malloc(PIECE);
    CHECK(piece != NULL);
    syn_sink *sink;
    CHECK_OK(syn_sink_open_file(&sink, path, &err), err);
    uint64_t total = 0;
    /* Sizes smaller and larger than the sink's buffer. */
    for (size_t n = 1; n < PIECE; n = n * 3 + 1) {
        for (size_t i = 0; i < n; i++) piece[i] = (char)((total + i) % 251);
        syn_sink_write(sink, piece, n);
        total += n;
    }
    CHECK_INT(syn_sink_bytes(sink), total);
    CHECK_OK(syn_sink_close(sink, true, &err), err);
    free(piece);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    uint64_t at = 0;
    bool same = true;
    for (int c; (c = fgetc(f)) != EOF; at++) same = same && (char)c == (char)(at % 251);
    fclose(f);
    CHECK(same);
    CHECK_INT(at, total);
}

/* A limit on the file size simulates a full disk. */
static void full_disk_leaves_the_old_file(void) {
    put_folder("e");
    const char *path = in_folder("e/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    struct rlimit before, small;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 200000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    syn_sink *sink = NULL;
    const syn_status opened = syn_sink_open_file(&sink, path, &err);
    for (int i = 0; i < 100000 && opened == SYN_OK; i++) syn_sink_text(sink, "0123456789");
    const syn_status during = opened == SYN_OK ? syn_sink_status(sink) : SYN_OK;
    const syn_status closed = syn_sink_close(sink, true, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    CHECK_INT(during, SYN_E_IO);
    CHECK_INT(closed, SYN_E_IO);
    CHECK_HAS(err.text, "cannot write ");
    CHECK_HAS(err.text, path);
    CHECK_HAS(err.text, strerror(EFBIG));
    CHECK_STR(file_text(path), "old");
    CHECK_INT(count_entries(in_folder("e")), 1);
}

/* A device is written directly and never replaced. Its errors are reported, for small texts only
   when the sink is closed. */
static void full_device_is_an_error(void) {
    struct stat info;
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) SKIP("there is no /dev/full");
    syn_error err = {0};
    CHECK_INT(write_text("/dev/full", "x", true, &err), SYN_E_IO);
    CHECK_STR(err.text, "cannot write /dev/full: No space left on device");
    CHECK(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
    syn_error none = {0};
    CHECK_OK(write_text("/dev/null", "x", true, &none), none);
    CHECK(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}

static void bad_places(void) {
    put_folder("f");
    syn_error err = {0};
    CHECK_INT(write_text(in_folder("f/no/x.svg"), "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, "f/no/x.svg: the folder ");
    CHECK_HAS(err.text, "f/no does not exist");
    err = (syn_error){0};
    CHECK_INT(write_text(in_folder("f"), "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, "/f: it is a folder");
    err = (syn_error){0};
    CHECK_INT(write_text("", "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, "empty");
    err = (syn_error){0};
    CHECK_OK(write_text(in_folder("f/file"), "x", true, &err), err);
    CHECK_INT(write_text(in_folder("f/file/y"), "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, "file is not a folder");
    CHECK_INT(count_entries(in_folder("f")), 1);
}

/* Runs the check as an ordinary user, because permissions do not apply to root. */
static void write_protected(void) {
    put_folder("g");
    syn_error err = {0};
    const char *closed = in_folder("g/closed"), *kept = in_folder("g/kept");
    CHECK_OK(write_text(kept, "old", true, &err), err);
    CHECK_INT(mkdir(closed, 0555), 0);
    CHECK_INT(chmod(kept, 0444), 0);
    CHECK_INT(chmod(in_folder(""), 0777) | chmod(in_folder("g"), 0777), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(77);
        int wrong = 0;
        syn_error e = {0};
        wrong |= write_text(in_folder("g/closed/x"), "x", true, &e) != SYN_E_IO;
        wrong |= strstr(e.text, "g/closed does not allow new files") == NULL;
        e = (syn_error){0};
        wrong |= write_text(kept, "new", true, &e) != SYN_E_IO;
        wrong |= strstr(e.text, strerror(EACCES)) == NULL;
        _exit(wrong);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) SKIP("cannot become an ordinary user");
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK_STR(file_text(kept), "old");
}

static void keeps_mode_and_links(void) {
    put_folder("h");
    syn_error err = {0};
    struct stat info;
    const char *path = in_folder("h/x"), *link = in_folder("h/link");
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_INT(chmod(path, 0640), 0);
    CHECK_INT(symlink("x", link), 0);
    CHECK_OK(write_text(link, "new", true, &err), err);
    CHECK_STR(file_text(path), "new");
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
}

static void long_names_have_temporary_names(void) {
    put_folder("i");
    char name[300];
    syn_error err = {0};
    memset(name, 'n', sizeof name);
    memcpy(name, "i/", 2);
    name[2 + 255] = '\0';
    CHECK_OK(write_text(in_folder(name), "x", true, &err), err);
    CHECK_INT(count_entries(in_folder("i")), 1);
    name[2 + 255] = 'n';
    name[2 + 256] = '\0';
    CHECK_INT(write_text(in_folder(name), "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, strerror(ENAMETOOLONG));
    CHECK_INT(count_entries(in_folder("i")), 1);
}

/* Standard output is a non-blocking pipe whose reader reads small pieces. */
static void standard_output(void) {
    int ends[2];
    fflush(stdout);
    CHECK_INT(pipe(ends), 0);
    const int saved = dup(STDOUT_FILENO);
    CHECK(saved >= 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    const pid_t child = fork();
    if (child == 0) {
        syn_error err = {0};
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        syn_sink *sink;
        if (syn_sink_open_file(&sink, "-", &err) != SYN_OK) _exit(1);
        for (int i = 0; i < 50000; i++) syn_sink_printf(sink, "%07d\n", i);
        _exit(syn_sink_close(sink, true, &err) != SYN_OK || fcntl(STDOUT_FILENO, F_GETFD) < 0);
    }
    close(ends[1]);
    close(saved);
    static char got[500000];
    size_t n = 0;
    for (ssize_t k; (k = read(ends[0], got + n, 1000)) > 0;) n += (size_t)k;
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_INT(n, 400000);
    CHECK(memcmp(got + n - 8, "0049999\n", 8) == 0);
}

static void closed_output_is_an_error(void) {
    const pid_t child = fork();
    if (child == 0) {
        syn_error err = {0};
        close(STDOUT_FILENO);
        const syn_status status = write_text("-", "x", true, &err);
        _exit(status != SYN_E_IO || strstr(err.text, "cannot write standard output: ") == NULL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
}

/* Repeats the tests above with simulated file systems: one without unnamed files, one that cannot
   link them. */
static void other_file_systems(void) {
    static const struct { bool no_unnamed, no_link; } lacks[] = {{true, false}, {false, true}};
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        syn__sink_simulate(lacks[i].no_unnamed, lacks[i].no_link);
        discarding_leaves_the_old_file();
        two_writers_do_not_share();
        large_files_are_whole();
        full_disk_leaves_the_old_file();
        bad_places();
        write_protected();
        keeps_mode_and_links();
        long_names_have_temporary_names();
        put_folder("o");
        syn_error err = {0};
        syn_sink *sink = NULL;
        CHECK_OK(syn_sink_open_file(&sink, in_folder("o/x"), &err), err);
        const bool unnamed = !lacks[i].no_unnamed && has_unnamed(in_folder("o"));
        CHECK_INT(count_entries(in_folder("o")), unnamed ? 0 : 1);
        CHECK_OK(syn_sink_close(sink, true, &err), err);
        CHECK_INT(count_entries(in_folder("o")), 1);
        syn__sink_simulate(false, false);
    }
}

/* Writes a new file. The old file must stay until the new one is complete. */
static syn_status replace_old(void *text, syn_error *err) {
    syn_sink *sink = NULL;
    const char *path = in_folder("j/x");
    const syn_status opened = syn_sink_open_file(&sink, path, err);
    if (opened == SYN_OK) syn_sink_printf(sink, "%s", (const char *)text);
    else if (strstr(err->text, path) == NULL) return SYN_E_IO;
    const syn_status closed = syn_sink_close(sink, true, err);
    const syn_status status = opened != SYN_OK ? opened : closed;
    const bool old = strcmp(file_text(path), "old") == 0;
    return old == (status != SYN_OK) && count_entries(in_folder("j")) == 1 ? status : SYN_E_IO;
}

static void out_of_memory(void) {
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    put_folder("j");
    put_text("j/x", "old");
    CHECK(test_without_memory(replace_old, text) >= 5);
    CHECK_STR(file_text(in_folder("j/x")), text);
}

static const test_case cases[] = {
    {"appears_only_when_closed", appears_only_when_closed},
    {"killed_writers_leave_nothing", killed_writers_leave_nothing},
    {"discarding_leaves_the_old_file", discarding_leaves_the_old_file},
    {"two_writers_do_not_share", two_writers_do_not_share},
    {"large_files_are_whole", large_files_are_whole},
    {"full_disk_leaves_the_old_file", full_disk_leaves_the_old_file},
    {"full_device_is_an_error", full_device_is_an_error},
    {"bad_places", bad_places},
    {"write_protected", write_protected},
    {"keeps_mode_and_links", keeps_mode_and_links},
    {"long_names_have_temporary_names", long_names_have_temporary_names},
    {"standard_output", standard_output},
    {"closed_output_is_an_error", closed_output_is_an_error},
    {"other_file_systems", other_file_systems},
    {"out_of_memory", out_of_memory},
};

TEST_MAIN(cases)
