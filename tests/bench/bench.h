/* What benches share: the clock, a line with its limit, the order of numbers. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

static int missed;

static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void line(const char *what, double value, const char *unit, double limit,
                        bool at_most) {
    const bool ok = at_most ? value <= limit : value >= limit;
    missed += !ok;
    printf("  %-58s %12.4g %-10s %s %-10.4g %s\n", what, value, unit, at_most ? "<=" : ">=", limit,
           ok ? "ok" : "MISSED");
    fflush(stdout);
}

static inline int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#endif
