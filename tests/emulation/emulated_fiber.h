/* Fibers: several lines of calls in one thread, of which one goes on at a time. */
#ifndef TESTS_EMULATION_EMULATED_FIBER_H
#define TESTS_EMULATION_EMULATED_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
    char *stack = NULL; /* NULL: the thread's own */
#if defined(__x86_64__)
    void *sp = NULL;
#else
    ucontext_t context;
#endif
    void *fake = NULL; /* of the sanitizers */
    const void *bottom = NULL;
    size_t size = 0;
    void *tsan = NULL;
};

/* One that will run `main`, which must not return; fiber_free when it is not switched to again. */
fiber *fiber_new(void (*main)());
void fiber_free(fiber *f);
/* From the fiber that runs, which goes on when it is switched to. */
void fiber_switch(fiber *from, fiber *to);
/* What `main` does first, with the thread's own fiber, and what that does before the first. */
void fiber_begun(fiber *own);
void fiber_prepare(fiber *own);

#endif
