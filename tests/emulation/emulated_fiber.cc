/* Fibers for the emulated device. On x86-64 they switch with a few instructions, because
   swapcontext, which other machines use, makes a system call at each switch. */
#include "tests/emulation/emulated_fiber.h"

#include <sys/mman.h>

#include "tests/emulation/emulated.h"

#if defined(EMULATED_ADDRESS)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATED_THREAD)
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK = 256 << 10, PAGE = 4096 };

#if defined(__x86_64__)
/* Saves the callee-saved registers on the stack and the stack pointer in *from. Then restores both
   from `to`. */
extern "C" void emulated_switch(void **from, void *to);
asm(".text\n"
    ".hidden emulated_switch\n"
    ".globl emulated_switch\n"
    ".type emulated_switch,@function\n"
    "emulated_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size emulated_switch,.-emulated_switch\n"
    ".section .note.GNU-stack,\"\",@progbits\n"
    ".text\n");
#endif

/* last: frees the stack on which the address sanitizer keeps the variables of `from`. */
static void switch_to(fiber *from, fiber *to, bool last) {
    (void)last;
#if defined(EMULATED_ADDRESS)
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->bottom, to->size);
#endif
#if defined(EMULATED_THREAD)
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#if defined(__x86_64__)
    emulated_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
#if defined(EMULATED_ADDRESS)
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

void fiber_switch(fiber *from, fiber *to) {
    switch_to(from, to, false);
}

void fiber_leave(fiber *from, fiber *to) {
    switch_to(from, to, true);
}

void fiber_begun(fiber *own) {
    (void)own;
#if defined(EMULATED_ADDRESS)
    __sanitizer_finish_switch_fiber(NULL, &own->bottom, &own->size);
#endif
}

void fiber_prepare(fiber *own) {
    (void)own;
#if defined(EMULATED_THREAD)
    own->tsan = __tsan_get_current_fiber();
#endif
}

fiber *fiber_new(void (*main)()) {
    fiber *f = new fiber;
    char *whole = static_cast<char *>(mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (whole == MAP_FAILED) emulated_die("no memory for a fiber's stack");
    mprotect(whole, PAGE, PROT_NONE);
    f->stack = whole + PAGE;
    f->bottom = f->stack;
    f->size = STACK;
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(f->stack + STACK) - 2;
    *--top = NULL; /* return address for `main`, which never returns */
    *--top = reinterpret_cast<void *>(main);
    f->sp = top - 6; /* values of the six saved registers */
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = NULL;
    makecontext(&f->context, main, 0);
#endif
#if defined(EMULATED_THREAD)
    f->tsan = __tsan_create_fiber(0);
#endif
    return f;
}

void fiber_free(fiber *f) {
#if defined(EMULATED_THREAD)
    __tsan_destroy_fiber(f->tsan);
#endif
    munmap(f->stack - PAGE, STACK + PAGE);
    delete f;
}
