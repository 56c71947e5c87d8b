/* Reads the system's clocks (clock.h). */
#include "syntorch/base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t syn__clock_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t syn__thread_clock_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
