/* Compares the CPU time of all processes with the CPU time of this process. */
#include "tools/calibrate/quiet.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "syntorch/base/clock.h"
#include "tools/cli.h"

/* Returns the CPU time of all cores in s: user, nice, system, irq, softirq and steal, without idle
   and iowait. Returns -1 if it is unknown. */
static double busy_s(void) {
    unsigned long long t[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    if (f == NULL) return -1;
    const int n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
                         &t[3], &t[4], &t[5], &t[6], &t[7]);
    fclose(f);
    if (n != 8) return -1;
    return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

static double seconds(const struct timeval *t) {
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

idle_mark idle_begin(void) {
    struct rusage own = {0};
    getrusage(RUSAGE_SELF, &own);
    return (idle_mark){busy_s(), seconds(&own.ru_utime) + seconds(&own.ru_stime),
                       1e-9 * (double)syn__clock_ns()};
}

double idle_others(const idle_mark *since) {
    const idle_mark now = idle_begin();
    const double all = (now.wall_s - since->wall_s) * cli_cores();
    if (since->busy_s < 0 || now.busy_s < 0 || all <= 0) return 0;
    const double others = (now.busy_s - since->busy_s) - (now.own_s - since->own_s);
    return others > 0 ? others / all : 0;
}
