/* Fibers: several call stacks in one thread, only one of which runs at a time. */
#ifndef TESTS_EMULATION_EMULATED_FIBER_H
#define TESTS_EMULATION_EMULATED_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
    char *stack = NULL; /* NULL for the fiber of the thread's own stack */
#if defined(__x86_64__)
    void *sp = NULL;
#else
    ucontext_t context;
#endif
    void *fake = NULL; /* this and the members below are state of the sanitizers */
    const void *bottom = NULL;
    size_t size = 0;
    void *tsan = NULL;
};

/* Creates a fiber that will run `main`, which must not return. When the fiber is no longer needed,
   it must call fiber_leave; then call fiber_free. */
fiber *fiber_new(void (*main)());
void fiber_free(fiber *f);
/* Switches from the running fiber `from` to another fiber. Returns when a fiber switches back to
   `from`. */
void fiber_switch(fiber *from, fiber *to);
/* The same, but does not return. */
void fiber_leave(fiber *from, fiber *to);
/* `main` must first call fiber_begun. Before the first switch, the thread must call fiber_prepare
   with its own fiber. own: the fiber of the thread's own stack. */
void fiber_begun(fiber *own);
void fiber_prepare(fiber *own);

#endif
