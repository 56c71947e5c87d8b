/* What benches share: the clock, a line with its limit, medians. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

extern int missed; /* lines that missed their limits */

double now_s(void);
double cpu_s(void); /* of the processor, all threads together */
void line(const char *what, double value, const char *unit, double limit, bool at_most);
/* Sorts the values. */
double median(double *values, int n);
/* Numbers in [-2, 2), on a cache line; given back by free. */
float *filled(int64_t n);

/* Another program that answers a line with a line of numbers. */
typedef struct peer {
    FILE *to, *from; /* NULL: none */
    pid_t process;
} peer;

/* A script of tests/bench in the Python that SYN_PEER_PYTHON names, with up to six arguments before
   a NULL; and the shell's command. None if the variable, or the command, is not there. */
peer open_python(const char *script, const char *const arguments[]);
peer open_command(const char *command);
/* The first n numbers of its answer. */
void ask_peer(const peer *p, const char *question, double *numbers, int n);
void close_peer(const peer *p);
/* Ends the program with this sentence. */
_Noreturn void die(const char *why);
#endif
