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
    enum { WIDTH = 30 };
    const double rate = (double)done / (now - p->start_s);
    const double left_s = rate > 0 ? (double)(of - done) / rate : 0;
    if (!p->on_terminal) {
        fprintf(stderr, "%s: %lld of %lld %s, %.3g %s/s, about %.0f s left\n", p->what,
                (long long)done, (long long)of, p->unit, rate, p->unit, left_s);
        return;
    }
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = (int64_t)i * of < done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %lld/%lld %s, %.3g/s, %.0f s left \033[K", p->what, bar,
            (long long)done, (long long)of, p->unit, rate, left_s);
}

void progress_step(void *user, int64_t done, int64_t of) {
    progress *p = user;
    if (p->quiet) return;
    const double now = now_s();
    if (p->start_s == 0) {
        p->start_s = p->shown_s = now;
        p->on_terminal = isatty(STDERR_FILENO) != 0;
    }
    if (done >= of) {
        if (p->shown && p->on_terminal) fprintf(stderr, "\r\033[K");
        return;
    }
    const double interval = p->on_terminal ? 0.2 : 10;
    if (now - p->start_s < 1 || now - p->shown_s < interval) return;
    p->shown = true;
    p->shown_s = now;
    show(p, now, done, of);
}
