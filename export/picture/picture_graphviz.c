/* Runs graphviz in a separate process with limits on time and memory. It uses posix_spawn, because
   fork can deadlock in a process with several threads. Input and output are temporary files without
   names, so neither process can block the other as with pipes. */
#include "export/picture/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ; /* POSIX requires it, but no header declares it */

#define PATH_BYTES 4096

/* Finds the full path of `program` in PATH. Returns false if it is not there. */
static bool find_program(const char *program, char *out) {
    const char *path = getenv("PATH");
    if (path == NULL) return false;
    while (*path != '\0') {
        const size_t n = strcspn(path, ":");
        const int used = snprintf(out, PATH_BYTES, "%.*s/%s", (int)n, n > 0 ? path : ".", program);
        if (used > 0 && used < PATH_BYTES && access(out, X_OK) == 0) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static syn_status open_temporary(int *fd, syn_error *err) {
    const char *folder = getenv("TMPDIR");
    char name[PATH_BYTES];
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
    const int n = snprintf(name, sizeof name, "%s/syntorch-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof name)
        return SYN_FAIL(err, SYN_E_IO, "the folder for temporary files has too long a name");
    *fd = mkstemp(name);
    if (*fd < 0)
        return SYN_FAIL(err, SYN_E_IO,
                        "could not create a temporary file in %s (set TMPDIR to a "
                        "folder that can be written): %s",
                        folder, strerror(errno));
    unlink(name);
    fcntl(*fd, F_SETFD, FD_CLOEXEC);
    return SYN_OK;
}

static syn_status write_all(int fd, const char *data, size_t bytes, syn_error *err) {
    while (bytes > 0) {
        const ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return SYN_FAIL(err, SYN_E_IO, "could not write a temporary file for graphviz: %s",
                            strerror(n < 0 ? errno : ENOSPC));
        data += n;
        bytes -= (size_t)n;
    }
    if (lseek(fd, 0, SEEK_SET) < 0)
        return SYN_FAIL(err, SYN_E_IO, "could not rewind a temporary file: %s", strerror(errno));
    return SYN_OK;
}

static syn_status spawn(const syn__pic_limits *limits, const char *path, const char *format,
                        double dpi, const int fds[3], pid_t *pid, syn_error *err) {
    char script[160], type[32], scale[32];
    snprintf(script, sizeof script,
             "ulimit -t %" PRIu64 "; ulimit -v %" PRIu64 "; exec \"$0\" \"$@\"",
             limits->cpu_seconds, limits->memory_bytes / 1024);
    snprintf(type, sizeof type, "-T%s", format);
    snprintf(scale, sizeof scale, "-Gdpi=%g", dpi);
    char path_arg[PATH_BYTES];
    snprintf(path_arg, sizeof path_arg, "%s", path);
    char sh[] = "sh", c[] = "-c", n2[] = "-n2";
    char *argv[] = {sh, c, script, path_arg, n2, type, scale, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while starting graphviz");
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    if (rc == 0) rc = posix_spawn(pid, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        return SYN_FAIL(err, SYN_E_IO, "could not start graphviz's neato: %s", strerror(rc));
    return SYN_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Waits for the child process, and kills it when the time limit is reached. */
static syn_status wait_for(pid_t pid, const syn__pic_limits *limits, int *status, syn_error *err) {
    const double start = now();
    long pause_ns = 1000000;
    for (;;) {
        const pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid) return SYN_OK;
        if (got < 0 && errno != EINTR) {
            *status = 0; /* the caller's program ignores SIGCHLD, so there is no status; an error
                            shows only in the output */
            return SYN_OK;
        }
        if (now() - start > limits->seconds) break;
        const struct timespec t = {0, pause_ns};
        nanosleep(&t, NULL);
        if (pause_ns < 20000000) pause_ns += pause_ns / 2;
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) continue;
    return SYN_FAIL(err, SYN_E_IO,
                    "graphviz took longer than %g s to draw the picture and was stopped; draw less "
                    "(without --no-fold), or write --format dot",
                    limits->seconds);
}

/* Reads the first line that graphviz wrote to its error output. */
static void complaint(int fd, char *out, size_t bytes) {
    out[0] = '\0';
    if (lseek(fd, 0, SEEK_SET) < 0) return;
    const ssize_t n = read(fd, out, bytes - 1);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static syn_status copy_output(int fd, syn_sink *sink, syn_error *err) {
    char buf[16384];
    ssize_t n;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return SYN_FAIL(err, SYN_E_IO, "could not rewind a temporary file: %s", strerror(errno));
    bool any = false;
    while ((n = read(fd, buf, sizeof buf)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return SYN_FAIL(err, SYN_E_IO, "could not read graphviz's picture: %s",
                            strerror(errno));
        syn_sink_write(sink, buf, (size_t)n);
        any = true;
    }
    if (!any) return SYN_FAIL(err, SYN_E_IO, "graphviz wrote an empty picture; is its disk full?");
    return SYN_OK;
}

static syn_status finish(const syn__pic_limits *limits, pid_t pid, const int fds[3], syn_sink *sink,
                         syn_error *err) {
    int status;
    char said[200];
    SYN_TRY(wait_for(pid, limits, &status, err));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return copy_output(fds[1], sink, err);
    complaint(fds[2], said, sizeof said);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return SYN_FAIL(err, SYN_E_IO,
                        "graphviz used more than %" PRIu64 " s of processor time and was stopped; "
                        "draw less (without --no-fold), or write --format dot",
                        limits->cpu_seconds);
    if (WIFSIGNALED(status))
        return SYN_FAIL(err, SYN_E_IO,
                        "graphviz was ended by signal %d (its memory is limited to "
                        "%" PRIu64 " MiB); draw less, or write --format dot%s%s",
                        WTERMSIG(status), limits->memory_bytes >> 20, said[0] != '\0' ? ": " : "",
                        said);
    return SYN_FAIL(err, SYN_E_IO, "graphviz could not draw the picture (exit code %d)%s%s",
                    WEXITSTATUS(status), said[0] != '\0' ? ": " : "", said);
}

syn_status syn__pic_graphviz(const syn__pic_limits *limits, const char *format, double dpi,
                             const char *dot, size_t dot_bytes, syn_sink *sink, syn_error *err) {
    char path[PATH_BYTES];
    if (!find_program(limits->program, path))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "pictures need graphviz's program %s, which is not in the PATH: install "
                        "graphviz (on Debian: apt install graphviz), or write DOT text (--format "
                        "dot) and draw it elsewhere with neato -n2",
                        limits->program);
    int fds[3] = {-1, -1, -1};
    pid_t pid;
    syn_status s = SYN_OK;
    for (int i = 0; i < 3 && s == SYN_OK; i++) s = open_temporary(&fds[i], err);
    if (s == SYN_OK) s = write_all(fds[0], dot, dot_bytes, err);
    if (s == SYN_OK) s = spawn(limits, path, format, dpi, fds, &pid, err);
    if (s == SYN_OK) s = finish(limits, pid, fds, sink, err);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    return s;
}
