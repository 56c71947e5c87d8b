/* Shared by the benchmarks: clocks, printing a value with its limit, medians, and peer programs to
   compare with. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

extern int missed; /* number of printed values that missed their limits */

double now_s(void);
double cpu_s(void); /* CPU time of the process, all threads */
/* Prints a value with its limit, and counts it in `missed` if it is above (at_most) or below the
   limit. */
void line(const char *what, double value, const char *unit, double limit, bool at_most);
/* Sorts the values. */
double median(double *values, int n);
/* n numbers in [-2, 2), aligned to a cache line; to be freed with free(). */
float *filled(int64_t n);

/* Another process, which answers each line with a line of numbers. */
typedef struct peer {
    FILE *to, *from; /* NULL: there is no process */
    pid_t process;
} peer;

/* Starts a script of tests/bench with the Python that SYN_PEER_PYTHON names, with up to six
   arguments and a NULL at the end; or starts a shell command. Returns an empty peer if the variable
   is not set or the command does not exist. */
peer open_python(const char *script, const char *const arguments[]);
peer open_command(const char *command);
/* Sends a line and reads the first n numbers of the answer. */
void ask_peer(const peer *p, const char *question, double *numbers, int n);
void close_peer(const peer *p);
/* Prints the sentence and ends the program. */
_Noreturn void die(const char *why);
#endif
