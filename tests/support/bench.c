/* Implements bench.h: clocks, medians, lines with limits, and pipes to a peer process. */
#define _GNU_SOURCE /* for pipe2 */
#include "tests/support/bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int missed;

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void line(const char *what, double value, const char *unit, double limit, bool at_most) {
    const bool ok = at_most ? value <= limit : value >= limit;
    missed += !ok;
    printf("  %-58s %12.4g %-10s %s %-10.4g %s\n", what, value, unit, at_most ? "<=" : ">=", limit,
           ok ? "ok" : "MISSED");
    fflush(stdout);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

float *filled(int64_t n) {
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    if (!x) die("out of memory");
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((uint64_t)i * 2654435761u >> 7 & 2047) / 512.0f - 2.0f;
    return x;
}

static uint64_t sums[SYN_WORKERS_MAX]; /* so that the compiler does not remove the reads */

static void read_some(void *arg, int64_t begin, int64_t end, int worker) {
    enum { STREAMS = 8 };
    const uint64_t *data = arg;
    const int64_t each = (end - begin) * 8; /* numbers per stream */
    uint64_t s[8] = {0};
    data += begin * 8 * STREAMS;
    for (int64_t i = 0; i < each; i += 8)
        for (int64_t stream = 0; stream < STREAMS; stream++)
            for (int j = 0; j < 8; j++) s[j] += data[stream * each + i + j];
    for (int j = 0; j < 8; j++) sums[worker] += s[j];
}

void read_bytes(syn_workers *workers, const void *from, int64_t bytes) {
    syn_workers_ranges(workers, bytes / 512, 64, read_some, (void *)(uintptr_t)from);
}

void die(const char *why) {
    fprintf(stderr, "the bench failed: %s\n", why);
    exit(1);
}

static peer open_program(const char *program, char *const arguments[]) {
    int to[2], from[2];
    /* O_CLOEXEC keeps other children from inheriting these ends, so a peer ends when its pipe is
       closed. */
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) die("no pipe");
    const pid_t child = fork();
    if (child < 0) die("no process");
    if (child == 0) {
        if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0) _exit(126);
        execvp(program, arguments);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    const peer p = {fdopen(to[1], "w"), fdopen(from[0], "r"), child};
    if (!p.to || !p.from) die("no pipe");
    return p;
}

peer open_python(const char *script, const char *const arguments[]) {
    enum { MOST = 6 };
    const char *python = getenv("SYN_PEER_PYTHON"), *source = getenv("SYN_SOURCE");
    char path[1024], *all[MOST + 3] = {(char *)(uintptr_t)python, path};
    if (!python || !source) return (peer){NULL, NULL, 0};
    snprintf(path, sizeof path, "%s/tests/bench/%s", source, script);
    for (int i = 0; i < MOST && arguments[i]; i++) all[i + 2] = (char *)(uintptr_t)arguments[i];
    return open_program(python, all);
}

peer open_command(const char *command) {
    char shell[] = "sh", option[] = "-c";
    if (!command) return (peer){NULL, NULL, 0};
    return open_program(shell, (char *[]){shell, option, (char *)(uintptr_t)command, NULL});
}

void ask_peer(const peer *p, const char *question, double *numbers, int n) {
    char answer[256];
    fprintf(p->to, "%s\n", question);
    fflush(p->to);
    if (!fgets(answer, sizeof answer, p->from)) die("another program gave no answer");
    const char *at = answer;
    for (int i = 0; i < n; i++) {
        char *end;
        numbers[i] = strtod(at, &end);
        if (end == at) die("another program's answer lacks numbers");
        at = end;
    }
}

void close_peer(const peer *p) {
    if (!p->to) return;
    fclose(p->to);
    fclose(p->from);
    waitpid(p->process, NULL, 0);
}
