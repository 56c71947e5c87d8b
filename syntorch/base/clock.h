/* Reads the clocks that times in traces come from: monotonic time and CPU time of a thread. */
#ifndef SYNTORCH_CLOCK_H
#define SYNTORCH_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The monotonic clock in ns. All start and wall times in traces come from it. */
uint64_t syn__clock_ns(void);
/* CPU time of the calling thread in ns. */
uint64_t syn__thread_clock_ns(void);

#ifdef __cplusplus
}
#endif
#endif
