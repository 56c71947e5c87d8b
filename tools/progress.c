/* Decides when to show progress, and formats it for a terminal or as plain lines. */
#include "tools/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli.h"

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { COUNT_BYTES = 32 };

/* Formats a count: "12" or, without a unit, "1.3 GiB". */
static const char *count_text(const progress *p, double count, char buf[COUNT_BYTES]) {
    if (!p->unit) return cli_bytes_text(count, buf, COUNT_BYTES);
    snprintf(buf, COUNT_BYTES, "%.0f", count);
    return buf;
}

/* Formats a rate per second: "0.49" or, without a unit, "1.3 GiB". */
static const char *rate_text(const progress *p, double rate, char buf[COUNT_BYTES]) {
    if (!p->unit) return cli_bytes_text(rate, buf, COUNT_BYTES);
    snprintf(buf, COUNT_BYTES, "%.3g", rate);
    return buf;
}

static void show(progress *p, double now, int64_t done, int64_t of) {
    const double rate = (double)done / (now - p->start_s);
    const char *gap = p->unit ? " " : "", *unit = p->unit ? p->unit : "";
    char part[100], speed[48], time[32], left[48], a[COUNT_BYTES], b[COUNT_BYTES], c[COUNT_BYTES];
    progress_time_text((double)(of - done) / rate, time, sizeof time);
    (void)count_text(p, (double)done, a);
    (void)count_text(p, (double)of, b);
    (void)rate_text(p, rate, c);
    if (!p->on_terminal) {
        fprintf(stderr, "%s: %s of %s%s%s, %s%s%s/s, about %s left\n", p->what, a, b, gap, unit, c,
                gap, unit, time);
        return;
    }
    snprintf(part, sizeof part, "%s/%s%s%.12s", a, b, gap, unit);
    snprintf(speed, sizeof speed, "%s/s", c);
    snprintf(left, sizeof left, "%s left", time);
    const char *const fields[] = {part, left, speed, NULL};
    progress_line_draw(&p->line, p->what, done, of, fields);
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
    if (p->terminal_only && !p->on_terminal) return;
    const double interval = p->on_terminal ? 0.2 : 10;
    if (done <= 0 || now - p->start_s < 1 || now - p->shown_s < interval) return;
    p->shown_s = now;
    show(p, now, done, of);
}
