/* Starts threads with a fixed stack size (thread.h). */
#include "syntorch/base/thread.h"

#include <sys/resource.h>

int syn__thread_start(pthread_t *thread, void *(*run)(void *), void *arg) {
    pthread_attr_t how;
    int code = pthread_attr_init(&how);
    if (code != 0) return code;
    code = pthread_attr_setstacksize(&how, SYN__STACK_BYTES + SYN__STACK_GUARD_BYTES);
    if (code == 0) code = pthread_attr_setguardsize(&how, SYN__STACK_GUARD_BYTES);
    if (code == 0) code = pthread_create(thread, &how, run, arg);
    (void)pthread_attr_destroy(&how);
    return code;
}

bool syn__stack_is_small(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           limit.rlim_cur < SYN__STACK_BYTES;
}
