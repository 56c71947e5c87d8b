/* Starts threads whose stacks have a fixed size. All threads are started here, because the default
   size is the shell's limit (`ulimit -s`), which may be too small: kernels have blocks of hundreds
   of KiB on the stack (ops/products*). */
#ifndef SYNTORCH_THREAD_H
#define SYNTORCH_THREAD_H

#include <pthread.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stack size of each thread. Only the pages that are touched use memory. */
#define SYN__STACK_BYTES ((size_t)8 << 20)
/* Size of the guard area below the stack. It is larger than any frame, so a stack overflow crashes
   the program instead of changing another thread's data. */
#define SYN__STACK_GUARD_BYTES ((size_t)1 << 20)

/* Like pthread_create without attributes: returns 0 or an error number. */
int syn__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* Whether the main thread's stack is limited to less than SYN__STACK_BYTES. */
bool syn__stack_is_small(void);

#ifdef __cplusplus
}
#endif
#endif
