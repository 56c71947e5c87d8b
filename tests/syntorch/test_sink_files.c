/* Tests folders and the reading of whole files: what is rejected, and with which message. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink_private.h"

static void make_folders(void) {
    put_folder("k");
    syn_error err = {0};
    struct stat info;
    CHECK_OK(syn_make_folder(in_folder("k/a//b/c/"), &err), err);
    CHECK(stat(in_folder("k/a/b/c"), &info) == 0 && S_ISDIR(info.st_mode));
    CHECK_OK(syn_make_folder(in_folder("k/a/b/c"), &err), err);
    CHECK_OK(syn_make_folder("/", &err), err);
    CHECK_OK(syn_make_folder(".", &err), err);
    put_text("k/file", "x");
    CHECK_INT(syn_make_folder(in_folder("k/file"), &err), SYN_E_IO);
    CHECK_HAS(err.text, "k/file");
    CHECK_HAS(err.text, "a file has that name");
    err = (syn_error){0};
    CHECK_INT(syn_make_folder(in_folder("k/file/deeper"), &err), SYN_E_IO);
    CHECK_HAS(err.text, "k/file");
    err = (syn_error){0};
    CHECK_INT(syn_make_folder("", &err), SYN_E_IO);
    err = (syn_error){0};
    CHECK_OK(syn_make_prefix_folder(in_folder("k/new/set/trace"), &err), err);
    CHECK(stat(in_folder("k/new/set"), &info) == 0 && S_ISDIR(info.st_mode));
    CHECK(stat(in_folder("k/new/set/trace"), &info) != 0);
    CHECK_OK(syn_make_prefix_folder("trace", &err), err);
    CHECK_OK(syn_make_prefix_folder("/trace", &err), err);
    CHECK_INT(syn_make_prefix_folder(in_folder("k/file/trace"), &err), SYN_E_IO);
}

static void read_files(void) {
    put_folder("l");
    const char *path = put_file("l/x", "ab\0cd", 5);
    syn_error err = {0};
    char *data = NULL;
    size_t bytes = 7;
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

/* The file that `git clone` creates if git-lfs is not installed. */
static void lfs_pointers_are_reported(void) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0123\nsize 4\n";
    syn_error err = {0};
    char *data;
    size_t bytes;
    put_folder("p");
    const char *path = put_file("p/x", pointer, sizeof pointer - 1);
    CHECK_INT(syn_read_file(path, SIZE_MAX, &data, &bytes, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "p/x is a Git LFS pointer; run 'git lfs pull' to fetch");
    CHECK(data == NULL && bytes == 0);
}

static void devices_are_refused(void) {
    syn_error err = {0};
    char *data;
    size_t bytes;
    if (access("/dev/zero", R_OK) != 0) SKIP("there is no /dev/zero");
    CHECK_INT(syn_read_file("/dev/zero", SIZE_MAX, &data, &bytes, &err), SYN_E_IO);
    CHECK_HAS(err.text, "cannot read /dev/zero: it is a device or a socket");
    CHECK(data == NULL && bytes == 0);
}

static void sockets_are_refused(void) {
    put_folder("p");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = in_folder("p/s");
    if (strlen(path) >= sizeof at.sun_path) SKIP("the folder's name is too long for a socket");
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    syn_error err = {0};
    char *data;
    size_t bytes;
    CHECK_INT(syn_read_file(path, SIZE_MAX, &data, &bytes, &err), SYN_E_IO);
    CHECK_HAS(err.text, "p/s: it is not a regular file");
    close(fd);
}

/* A sparse file larger than any memory. On file systems that cannot hold it, it is smaller. */
static void files_larger_than_memory_are_refused(void) {
    put_folder("q");
    const char *path = put_text("q/x", "abcdef");
    syn_error err = {0};
    char *data, number[32];
    size_t bytes;
    CHECK_INT(syn__read_file(path, SIZE_MAX, 5, &data, &bytes, &err), SYN_E_NOMEM);
    CHECK_HAS(err.text, "q/x: its 6 bytes are more than this machine's memory, 5 bytes");
    err = (syn_error){0};
    CHECK_OK(syn__read_file(path, SIZE_MAX, 6, &data, &bytes, &err), err);
    CHECK_INT(bytes, 6);
    syn_free(data);
    off_t size = (off_t)64 << 40;
    while (size > ((off_t)4 << 40) && truncate(path, size) != 0) size /= 2;
    struct stat info;
    CHECK_INT(stat(path, &info), 0);
    if (info.st_size < ((off_t)4 << 40)) SKIP("the file system holds no file of 8 TiB");
    CHECK_INT(syn_read_file(path, SIZE_MAX, &data, &bytes, &err), SYN_E_NOMEM);
    snprintf(number, sizeof number, "%lld", (long long)info.st_size);
    CHECK_HAS(err.text, path);
    CHECK_HAS(err.text, number);
    CHECK(data == NULL && bytes == 0);
}

/* Writes `send` bytes to a pipe, which is read with the given limits. */
static syn_status read_pipe(size_t send, size_t max_bytes, uint64_t memory_bytes, size_t *bytes,
                            syn_error *err) {
    const char *path = in_folder("r/pipe"), zeros[512] = {0};
    char *data = NULL;
    put_folder("r");
    if (mkfifo(path, 0600) != 0) return SYN_E_UNSUPPORTED;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_IGN);
        const int fd = open(path, O_WRONLY);
        for (ssize_t n = fd; n >= 0 && send > 0; send -= (size_t)n)
            if ((n = write(fd, zeros, send < sizeof zeros ? send : sizeof zeros)) < 0) break;
        _exit(0);
    }
    const syn_status status = syn__read_file(path, max_bytes, memory_bytes, &data, bytes, err);
    syn_free(data);
    waitpid(child, NULL, 0);
    return status;
}

static void pipes_have_limits(void) {
    size_t bytes = 0;
    syn_error err = {0};
    CHECK_OK(read_pipe(300000, 300000, 600000, &bytes, &err), err);
    CHECK_INT(bytes, 300000);
    CHECK_INT(read_pipe(SIZE_MAX, 300000, UINT64_MAX, &bytes, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "r/pipe: it is longer than 300000 bytes");
    err = (syn_error){0};
    CHECK_INT(read_pipe(SIZE_MAX, SIZE_MAX, 600000, &bytes, &err), SYN_E_NOMEM);
    CHECK_HAS(err.text, "r/pipe: it has more than the 300000 bytes");
    CHECK_INT(bytes, 0);
}

static syn_status make_and_read(void *unused, syn_error *err) {
    (void)unused;
    char *data;
    size_t bytes;
    SYN_TRY(syn_make_folder(in_folder("m/a"), err));
    const syn_status status = syn_read_file(in_folder("m/x"), 100, &data, &bytes, err);
    if (status != SYN_OK) return strstr(err->text, "m/x") != NULL ? status : SYN_E_FORMAT;
    const bool same = strcmp(data, "some text") == 0;
    syn_free(data);
    return same ? SYN_OK : SYN_FAIL(err, SYN_E_FORMAT, "it was read as another text");
}

static void reading_out_of_memory(void) {
    put_folder("m");
    put_text("m/x", "some text");
    CHECK(test_without_memory(make_and_read, NULL) > 0);
}

static const test_case cases[] = {
    {"make_folders", make_folders},
    {"read_files", read_files},
    {"lfs_pointers_are_reported", lfs_pointers_are_reported},
    {"devices_are_refused", devices_are_refused},
    {"sockets_are_refused", sockets_are_refused},
    {"files_larger_than_memory_are_refused", files_larger_than_memory_are_refused},
    {"pipes_have_limits", pipes_have_limits},
    {"reading_out_of_memory", reading_out_of_memory},
};

TEST_MAIN(cases)
