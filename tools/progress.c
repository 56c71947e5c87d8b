#include "tools/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(progress *p, double now, int64_t done, int64_t of) {
    const double rate = (double)done / (now - p->start_s);
    char part[64], speed[32], time[32], left[48];
    progress_time_text((double)(of - done) / rate, time, sizeof time);
    if (!p->on_terminal) {
        fprintf(stderr, "%s: %lld of %lld %s, %.3g %s/s, about %s left\n", p->what, (long long)done,
                (long long)of, p->unit, rate, p->unit, time);
        return;
    }
    snprintf(part, sizeof part, "%lld/%lld %.12s", (long long)done, (long long)of, p->unit);
    snprintf(speed, sizeof speed, "%.3g/s", rate);
    snprintf(left, sizeof left, "%s left", time);
    const char *const facts[] = {part, left, speed, NULL};
    progress_line_draw(&p->line, p->what, done, of, facts);
}

void progress_step(void *user, int64_t done, int64_t of) {
    progress *p = user;
    if (p->quiet) return;
    const double now = now_s();
    if (p->start_s == 0) {
        p->start_s = p->shown_s = now;
        p->on_terminal = isatty(STDERR_FILENO) != 0;
        p->line.out = stderr;
    }
    if (done >= of) {
        progress_line_clear(&p->line);
        return;
    }
    const double interval = p->on_terminal ? 0.2 : 10;
    if (done <= 0 || now - p->start_s < 1 || now - p->shown_s < interval) return;
    p->shown_s = now;
    show(p, now, done, of);
}
