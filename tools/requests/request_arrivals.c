/* Arrival times of generated requests (request_generate.h). The first request arrives at 0. */
#include <math.h>
#include <string.h>

#include "tools/requests/request_generate.h"

/* Whether the text is `name` and a number: "gamma:2". */
static bool takes(const char *text, const char *name, double min, double max, double *out) {
    const size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && text[n] == ':' &&
           request_number(syn__str_of(text + n + 1), min, max, out);
}

syn_status request_arrivals_init(request_arrivals *arrivals, const request_options *how,
                                 syn_error *err) {
    const char *kind = how->arrivals;
    double number = 1;
    *arrivals = (request_arrivals){.kind = REQUEST_AT_ONCE};
    if (how->rate <= 0 || isinf(how->rate)) {
        if (kind == NULL) return SYN_OK;
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--arrivals %.40s has no effect: all requests arrive at 0; give --rate, "
                        "the mean number of requests per second",
                        kind);
    }
    arrivals->gap_ns = 1e9 / how->rate;
    if (kind == NULL || strcmp(kind, "poisson") == 0) {
        arrivals->kind = REQUEST_POISSON;
    } else if (strcmp(kind, "uniform") == 0) {
        arrivals->kind = REQUEST_EVENLY;
    } else if (takes(kind, "gamma", 0.01, 100, &number)) {
        arrivals->kind = REQUEST_GAMMA;
        const double square = number * number;
        arrivals->shape = 1 / square;
    } else if (takes(kind, "bursts", 1, 1e9, &number) && number == floor(number)) {
        arrivals->kind = REQUEST_BURSTS;
        arrivals->burst = (int64_t)number;
        arrivals->gap_ns *= number;
    } else {
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--arrivals '%.40s' must be poisson, gamma:CV with a coefficient of "
                        "variation from 0.01 to 100, uniform, or bursts:N with N requests",
                        kind);
    }
    return SYN_OK;
}

double request_arrivals_next(request_arrivals *arrivals, int64_t seed, int64_t i) {
    request_random random = request_random_of(seed, i, REQUEST_FOR_ARRIVAL);
    double gap = 0;
    if (i == 0) return 0;
    switch (arrivals->kind) {
    case REQUEST_AT_ONCE:
        return 0;
    case REQUEST_EVENLY:
        return (double)i * arrivals->gap_ns;
    case REQUEST_BURSTS:
        return (double)(i / arrivals->burst) * arrivals->gap_ns;
    case REQUEST_POISSON:
        gap = request_exponential(&random);
        break;
    case REQUEST_GAMMA:
        gap = request_gamma(&random, arrivals->shape) / arrivals->shape;
        break;
    }
    gap *= arrivals->gap_ns;
    return arrivals->now_ns += gap;
}
