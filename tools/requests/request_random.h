/* Random numbers for generated requests. Each number depends only on the seed, the request and what
   it is for, so that other arrivals leave the lengths as they are. Uses no function of libm except
   sqrt, frexp and ldexp, whose results are exact, so that all platforms generate the same
   requests. */
#ifndef TOOLS_REQUEST_RANDOM_H
#define TOOLS_REQUEST_RANDOM_H

#include <stdint.h>

typedef enum request_purpose {
    REQUEST_FOR_ARRIVAL,
    REQUEST_FOR_PROMPT,
    REQUEST_FOR_OUTPUT,
    REQUEST_FOR_PREFIX,
    REQUEST_FOR_PRIORITY
} request_purpose;

typedef struct request_random {
    uint64_t key, n; /* n: numbers that were drawn */
} request_random;

/* The numbers of request i for one purpose. */
request_random request_random_of(int64_t seed, int64_t i, request_purpose purpose);
/* A uniform number in (0, 1). */
double request_uniform(request_random *random);
/* Standard normal, exponential with mean 1, and gamma with scale 1. */
double request_normal(request_random *random);
double request_exponential(request_random *random);
double request_gamma(request_random *random, double shape);
/* Logarithm of x > 0 and exponential function, accurate to about 1e-15. */
double request_log(double x);
double request_exp(double x);

#endif
