/* Threads with a stack of a known size, whatever the shell's limit is: the one place that starts
   them. Kernels keep blocks of hundreds of KiB on the stack (ops/products*), more than `ulimit -s`
   may grant. */
#ifndef SYNTORCH_THREAD_H
#define SYNTORCH_THREAD_H

#include <pthread.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What each thread gets; address space, of which only what is touched becomes memory. */
#define SYN__STACK_BYTES ((size_t)8 << 20)
/* Below it lies a gap that cannot be written to, larger than any frame here: running over the end
   of a stack ends the program and never changes another thread's data. */
#define SYN__STACK_GUARD_BYTES ((size_t)1 << 20)

/* As pthread_create without attributes: 0, or the system's error number. */
int syn__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* Whether a thread that the system started (main's) may use less than SYN__STACK_BYTES. */
bool syn__stack_is_small(void);

#ifdef __cplusplus
}
#endif
#endif
