/* A thread that says aloud when a call takes too long; private to the communicators whose
   ranks are processes. */
#ifndef COMM_COMM_WATCHDOG_H
#define COMM_COMM_WATCHDOG_H

#include "comm/comm_internal.h"

typedef struct syn__watchdog_options {
    double log_s, abort_s; /* seconds within one call; 0: never */
    void (*log)(void *log_arg, const char *sentence);
    void *log_arg;
    void (*end_job)(void);
} syn__watchdog_options;

typedef struct syn__watchdog syn__watchdog;

/* *out is NULL if both times are 0; the other functions accept that. */
syn_status syn__watchdog_new(syn__watchdog **out, int32_t rank,
                             const syn__watchdog_options *options, syn_error *err) SYN_MUST_USE;
/* The rank enters a call (its group must live until leave) or leaves it. */
void syn__watchdog_enter(syn__watchdog *dog, const syn__turn *turn);
void syn__watchdog_leave(syn__watchdog *dog);
void syn__watchdog_free(syn__watchdog *dog);

#endif
