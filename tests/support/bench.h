/* Shared by the benchmarks: clocks, medians, output lines that compare a value with its limit, and
   peer programs to compare with. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "syntorch/base/workers.h"

extern int missed; /* number of printed values that missed their limits */

/* Seconds since an arbitrary time. */
double now_s(void);
double cpu_s(void); /* CPU seconds of all threads of the process */
/* Prints a value with its limit. Increments `missed` if the value is above the limit (at_most) or
   below it (not at_most). */
void line(const char *what, double value, const char *unit, double limit, bool at_most);
/* Sorts the values in place and returns their median. */
double median(double *values, int n);
/* n numbers in [-2, 2), aligned to a cache line. The caller frees them with free(). */
float *filled(int64_t n);
/* Reads memory with all threads of the pool, each in eight streams, which on some processors are
   faster than one. The address is a multiple of 64, and the size of 512. */
void read_bytes(syn_workers *workers, const void *from, int64_t bytes);

/* Another process, which answers each line that it reads with a line of numbers. */
typedef struct peer {
    FILE *to, *from; /* its input and output; NULL: there is no process */
    pid_t process;
} peer;

/* Start a peer: open_python runs a script of tests/bench with the Python that SYN_PEER_PYTHON
   names, with up to six arguments and a NULL at the end; open_command runs a shell command. Both
   return an empty peer if the variable is not set or the command does not exist. */
peer open_python(const char *script, const char *const arguments[]);
peer open_command(const char *command);
/* Sends a line and reads the first n numbers of the answer. */
void ask_peer(const peer *p, const char *question, double *numbers, int n);
void close_peer(const peer *p);
/* Prints the message and ends the program. */
_Noreturn void die(const char *why);
#endif
