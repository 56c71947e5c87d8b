/* Random numbers that are the same on all platforms (request_random.h). A product and a sum in one
   expression may be fused to one operation, which rounds once, on some platforms. They are separate
   statements here. */
#include "tools/requests/request_random.h"

#include <math.h>

#include "ops/hash.h"

request_random request_random_of(int64_t seed, int64_t i, request_purpose purpose) {
    const uint64_t stream = syn__counter_hash((uint64_t)seed, (uint64_t)purpose);
    return (request_random){.key = syn__counter_hash(stream, (uint64_t)i)};
}

double request_uniform(request_random *random) {
    const uint64_t bits = syn__counter_hash(random->key, random->n++) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

/* log x = e log 2 + 2 (s + s^3 / 3 + s^5 / 5 + ...) for x = m 2^e and s = (m - 1) / (m + 1). */
double request_log(double x) {
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 21; k >= 1; k -= 2) {
        sum *= square;
        sum += 1.0 / k;
    }
    sum *= 2 * s;
    const double exponent = e * 0.69314718055994531;
    return exponent + sum;
}

/* exp x = 2^k (1 + r + r^2 / 2! + ...) with x = k log 2 + r. */
double request_exp(double x) {
    if (x < -700) return 0;
    if (x > 700) return INFINITY;
    const double scaled = x * 1.4426950408889634, k = floor(scaled + 0.5);
    const double high = k * 0.693147180369123816490, low = k * 1.90821492927058770002e-10;
    const double r = (x - high) - low;
    double sum = 1;
    for (int n = 14; n >= 1; n--) {
        sum *= r / n;
        sum += 1;
    }
    return ldexp(sum, (int)k);
}

/* The polar method (Marsaglia, Bray 1964). */
double request_normal(request_random *random) {
    double u, square;
    do {
        u = 2 * request_uniform(random) - 1;
        const double v = 2 * request_uniform(random) - 1;
        const double v_square = v * v;
        square = u * u;
        square += v_square;
    } while (square >= 1);
    return u * sqrt(-2 * request_log(square) / square);
}

double request_exponential(request_random *random) {
    return -request_log(request_uniform(random));
}

/* The method of Marsaglia and Tsang (2000). For shapes below 1, a gamma number of shape + 1 is
   multiplied by u^(1 / shape). */
double request_gamma(request_random *random, double shape) {
    if (shape < 1) {
        const double exponent = request_log(request_uniform(random)) / shape;
        return request_gamma(random, shape + 1) * request_exp(exponent);
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = request_normal(random), cx = c * x;
        const double base = 1 + cx, v = base * base * base;
        if (v <= 0) continue;
        const double half = 0.5 * x * x, dv = d * v, d_log = d * request_log(v);
        const double log_u = request_log(request_uniform(random));
        double limit = half + d;
        limit -= dv;
        limit += d_log;
        if (log_u < limit) return dv;
    }
}
