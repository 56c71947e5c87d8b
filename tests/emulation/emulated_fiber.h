/* Fibers: several call stacks in one thread, of which one runs at a time. */
#ifndef TESTS_EMULATION_EMULATED_FIBER_H
#define TESTS_EMULATION_EMULATED_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
    char *stack = NULL; /* NULL: the thread's own stack */
#if defined(__x86_64__)
    void *sp = NULL;
#else
    ucontext_t context;
#endif
    void *fake = NULL; /* this and the rest: state of the sanitizers */
    const void *bottom = NULL;
    size_t size = 0;
    void *tsan = NULL;
};

/* Creates a fiber that will run `main`, which must not return. Call fiber_free when it is no longer
   needed. */
fiber *fiber_new(void (*main)());
void fiber_free(fiber *f);
/* Switches from the running fiber to another. Returns when a fiber switches back to `from`. */
void fiber_switch(fiber *from, fiber *to);
/* `main` must call fiber_begun first; the thread's own fiber must call fiber_prepare before its
   first switch. own: the thread's own fiber. */
void fiber_begun(fiber *own);
void fiber_prepare(fiber *own);

#endif
