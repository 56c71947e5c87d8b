#ifndef SYNTORCH_CLOCK_H
#define SYNTORCH_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of the monotonic clock, which all times count from. */
uint64_t syn__clock_ns(void);
/* Nanoseconds that the calling thread has computed. */
uint64_t syn__thread_clock_ns(void);

#ifdef __cplusplus
}
#endif
#endif
