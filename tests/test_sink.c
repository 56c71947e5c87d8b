/* Sinks: whole files or none, errors a user can act on, folders, whole-file reading. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syntorch/memory.h"
#include "syntorch/sink.h"

static char folder[256]; /* of this run, removed at its end */

static const char *in_folder(const char *name) {
    static char paths[4][600];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Files of the folder, without "." and "..". */
static int entries(const char *path) {
    DIR *dir = opendir(path);
    if (dir == NULL) return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void remove_all(const char *path) {
    DIR *dir = opendir(path);
    char name[1200];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (unlink(name) != 0) remove_all(name);
    }
    if (dir != NULL) closedir(dir);
    rmdir(path);
}

static void start_folder(const char *name) {
    remove_all(in_folder(name));
    mkdir(in_folder(name), 0777);
}

/* The whole file, from stdio and not from the code under test; "" if there is none. */
static const char *contents(const char *path) {
    static char buf[4096];
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(buf, 1, sizeof buf - 1, f) : 0;
    buf[n] = '\0';
    if (f != NULL) fclose(f);
    return buf;
}

static syn_status write_text(const char *path, const char *text, bool keep, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn_sink_text(sink, text);
    return syn_sink_close(sink, keep, err);
}

/* ---- Files ---- */

static void appears_only_when_closed(void) {
    start_folder("a");
    const char *path = in_folder("a/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_STR(contents(path), "old");
    syn_sink *sink;
    CHECK_OK(syn_sink_open_file(&sink, path, &err), err);
    CHECK_INT(entries(in_folder("a")), 2); /* the old one and a temporary one beside it */
    syn_sink_text(sink, "new");
    CHECK_INT(syn_sink_bytes(sink), 3);
    CHECK_STR(contents(path), "old");
    CHECK_OK(syn_sink_close(sink, true, &err), err);
    CHECK_STR(contents(path), "new");
    CHECK_INT(entries(in_folder("a")), 1);
}

static void discarding_leaves_the_old_file(void) {
    start_folder("b");
    const char *path = in_folder("b/x.txt");
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_OK(write_text(path, "new", false, &err), err);
    CHECK_STR(contents(path), "old");
    CHECK_OK(write_text(in_folder("b/y.txt"), "new", false, &err), err);
    CHECK_INT(entries(in_folder("b")), 1);
    CHECK_OK(syn_sink_close(NULL, true, &err), err);
}

static void two_writers_do_not_share(void) {
    start_folder("c");
    const char *path = in_folder("c/x.txt");
    syn_error err = {0};
    syn_sink *a, *b;
    CHECK_OK(syn_sink_open_file(&a, path, &err), err);
    CHECK_OK(syn_sink_open_file(&b, path, &err), err);
    syn_sink_text(a, "aaaa");
    syn_sink_text(b, "bb");
    CHECK_OK(syn_sink_close(a, true, &err), err);
    CHECK_STR(contents(path), "aaaa");
    CHECK_OK(syn_sink_close(b, true, &err), err);
    CHECK_STR(contents(path), "bb");
    CHECK_INT(entries(in_folder("c")), 1);
}

static void large_files_are_whole(void) {
    start_folder("d");
    const char *path = in_folder("d/x.bin");
    syn_error err = {0};
    enum { PIECE = 300000 };
    char *piece = (char *)malloc(PIECE);
    CHECK(piece != NULL);
    syn_sink *sink;
    CHECK_OK(syn_sink_open_file(&sink, path, &err), err);
    uint64_t total = 0;
    for (size_t n = 1; n < PIECE; n = n * 3 + 1) { /* smaller and larger than the buffer */
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

/* A limit on the file size stands for a disk that fills up. */
static void full_disk_leaves_the_old_file(void) {
    start_folder("e");
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
    CHECK_STR(contents(path), "old");
    CHECK_INT(entries(in_folder("e")), 1);
}

/* A device is written directly, never replaced, and its errors come through: small texts only when
 * closed. */
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
    start_folder("f");
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
    CHECK_INT(entries(in_folder("f")), 1);
}

/* Runs the check as an ordinary user, for whom permissions hold. */
static void write_protected(void) {
    start_folder("g");
    syn_error err = {0};
    const char *closed = in_folder("g/closed"), *kept = in_folder("g/kept");
    CHECK_OK(write_text(kept, "old", true, &err), err);
    CHECK_INT(mkdir(closed, 0555), 0);
    CHECK_INT(chmod(kept, 0444), 0);
    CHECK_INT(chmod(folder, 0777) | chmod(in_folder("g"), 0777), 0);
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
    CHECK_STR(contents(kept), "old");
}

static void keeps_mode_and_links(void) {
    start_folder("h");
    syn_error err = {0};
    struct stat info;
    const char *path = in_folder("h/x"), *link = in_folder("h/link");
    CHECK_OK(write_text(path, "old", true, &err), err);
    CHECK_INT(chmod(path, 0640), 0);
    CHECK_INT(symlink("x", link), 0);
    CHECK_OK(write_text(link, "new", true, &err), err);
    CHECK_STR(contents(path), "new");
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
}

static void long_names_have_temporary_names(void) {
    start_folder("i");
    char name[300];
    syn_error err = {0};
    memset(name, 'n', sizeof name);
    memcpy(name, "i/", 2);
    name[2 + 255] = '\0';
    CHECK_OK(write_text(in_folder(name), "x", true, &err), err);
    CHECK_INT(entries(in_folder("i")), 1);
    name[2 + 255] = 'n';
    name[2 + 256] = '\0';
    CHECK_INT(write_text(in_folder(name), "x", true, &err), SYN_E_IO);
    CHECK_HAS(err.text, strerror(ENAMETOOLONG));
    CHECK_INT(entries(in_folder("i")), 1);
}

/* Standard output goes to a pipe, half of which is read slowly. */
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

static void out_of_memory(void) {
    start_folder("j");
    char path[600]; /* in_folder's buffers are used again below */
    snprintf(path, sizeof path, "%s", in_folder("j/x"));
    syn_error err = {0};
    CHECK_OK(write_text(path, "old", true, &err), err);
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    int failures = 0;
    for (uint64_t n = 0;; n++) {
        syn_error e = {0};
        syn_sink *sink = NULL;
        syn_memory_fail_after(n);
        syn_status status = syn_sink_open_file(&sink, path, &e);
        if (status == SYN_OK) syn_sink_printf(sink, "%s", text);
        const syn_status closed = syn_sink_close(sink, true, &e);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) status = closed;
        if (status == SYN_OK) break;
        CHECK_INT(status, SYN_E_NOMEM);
        CHECK_HAS(e.text, "out of memory");
        CHECK_STR(contents(path), "old");
        CHECK_INT(entries(in_folder("j")), 1);
        failures++;
    }
    CHECK(failures >= 5);
    CHECK_STR(contents(path), text);
}

/* ---- Folders and whole files ---- */

static void make_folders(void) {
    start_folder("k");
    syn_error err = {0};
    struct stat info;
    CHECK_OK(syn_make_folder(in_folder("k/a//b/c/"), &err), err);
    CHECK(stat(in_folder("k/a/b/c"), &info) == 0 && S_ISDIR(info.st_mode));
    CHECK_OK(syn_make_folder(in_folder("k/a/b/c"), &err), err);
    CHECK_OK(syn_make_folder("/", &err), err);
    CHECK_OK(syn_make_folder(".", &err), err);
    CHECK_OK(write_text(in_folder("k/file"), "x", true, &err), err);
    CHECK_INT(syn_make_folder(in_folder("k/file"), &err), SYN_E_IO);
    CHECK_HAS(err.text, "k/file");
    CHECK_HAS(err.text, "a file has that name");
    err = (syn_error){0};
    CHECK_INT(syn_make_folder(in_folder("k/file/deeper"), &err), SYN_E_IO);
    CHECK_HAS(err.text, "k/file");
    err = (syn_error){0};
    CHECK_INT(syn_make_folder("", &err), SYN_E_IO);
}

static void read_files(void) {
    start_folder("l");
    const char *path = in_folder("l/x");
    syn_error err = {0};
    char *data = NULL;
    size_t bytes = 7;
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite("ab\0cd", 1, 5, f) == 5 && fclose(f) == 0);
    CHECK_OK(syn_read_file(path, 5, &data, &bytes, &err), err);
    CHECK_INT(bytes, 5);
    CHECK(memcmp(data, "ab\0cd", 6) == 0);
    syn_free(data);
    CHECK_INT(syn_read_file(path, 4, &data, &bytes, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "longer than 4 bytes");
    CHECK(data == NULL && bytes == 0);
    err = (syn_error){0};
    CHECK_INT(syn_read_file(in_folder("l/none"), 4, &data, &bytes, &err), SYN_E_IO);
    CHECK_HAS(err.text, "l/none: No such file");
    err = (syn_error){0};
    CHECK_INT(syn_read_file(in_folder("l"), 4, &data, &bytes, &err), SYN_E_IO);
    CHECK_HAS(err.text, "it is a folder");
    err = (syn_error){0};
    CHECK_OK(syn_read_file("/dev/null", SIZE_MAX, &data, &bytes, &err), err);
    CHECK(bytes == 0 && data[0] == '\0');
    syn_free(data);
}

/* Files without a size (devices, pipes) end when the limit is passed. */
static void endless_files_are_refused(void) {
    syn_error err = {0};
    char *data;
    size_t bytes;
    if (access("/dev/zero", R_OK) != 0) SKIP("there is no /dev/zero");
    CHECK_INT(syn_read_file("/dev/zero", 1000000, &data, &bytes, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "longer than 1000000 bytes");
}

static void reading_out_of_memory(void) {
    start_folder("m");
    char path[600]; /* in_folder's buffers are used again below */
    snprintf(path, sizeof path, "%s", in_folder("m/x"));
    syn_error err = {0};
    CHECK_OK(write_text(path, "some text", true, &err), err);
    for (uint64_t n = 0;; n++) {
        char *data;
        size_t bytes;
        syn_error e = {0};
        syn_memory_fail_after(n);
        syn_status status = syn_make_folder(in_folder("m/a"), &e);
        if (status == SYN_OK) status = syn_read_file(path, 100, &data, &bytes, &e);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) {
            CHECK_STR(data, "some text");
            syn_free(data);
            break;
        }
        CHECK_INT(status, SYN_E_NOMEM);
        CHECK(n < 10);
    }
}

int main(int argc, char **argv) {
    static const test_case cases[] = {
        {"appears_only_when_closed", appears_only_when_closed},
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
        {"out_of_memory", out_of_memory},
        {"make_folders", make_folders},
        {"read_files", read_files},
        {"endless_files_are_refused", endless_files_are_refused},
        {"reading_out_of_memory", reading_out_of_memory},
    };
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/syn_test_sink_%ld", base != NULL ? base : "/tmp",
             (long)getpid());
    if (mkdir(folder, 0777) != 0) {
        fprintf(stderr, "cannot create %s\n", folder);
        return 1;
    }
    const int result = test_run(cases, sizeof cases / sizeof cases[0], argc, argv);
    remove_all(folder);
    return result;
}
