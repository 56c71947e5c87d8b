/* A thread that logs calls that take too long, and can abort the job. For communicators whose ranks
   are processes. */
#ifndef COMM_COMM_WATCHDOG_H
#define COMM_COMM_WATCHDOG_H

#include "comm/comm_internal.h"

typedef struct syn__watchdog_options {
    double log_s, abort_s; /* seconds in one call; 0: never */
    void (*log)(void *log_arg, const char *sentence);
    void *log_arg;
    void (*end_job)(void); /* called after abort_s seconds; must end all ranks */
} syn__watchdog_options;

typedef struct syn__watchdog syn__watchdog;

/* *out is NULL if both times are 0; the other functions accept NULL. */
syn_status syn__watchdog_new(syn__watchdog **out, int32_t rank,
                             const syn__watchdog_options *options, syn_error *err) SYN_MUST_USE;
/* Call these two functions when the rank enters and leaves a call. sig's group must stay valid
   until the rank leaves the call. */
void syn__watchdog_enter(syn__watchdog *dog, const syn__call_sig *sig);
void syn__watchdog_leave(syn__watchdog *dog);
void syn__watchdog_free(syn__watchdog *dog);

#endif
