/* What benches share: the clock, a line with its limit, medians. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

extern int missed; /* lines that missed their limits */

double now_s(void);
void line(const char *what, double value, const char *unit, double limit, bool at_most);
/* Sorts the values. */
double median(double *values, int n);
/* Numbers in [-2, 2), on a cache line; given back by free. */
float *filled(int64_t n);
/* Ends the program with this sentence. */
_Noreturn void die(const char *why);
#endif
