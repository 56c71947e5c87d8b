#include "tests/support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int missed;

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

void die(const char *why) {
    fprintf(stderr, "the bench failed: %s\n", why);
    exit(1);
}
