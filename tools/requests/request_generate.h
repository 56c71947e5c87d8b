/* Generated requests: lengths, arrivals, shared prefixes and priorities. */
#ifndef TOOLS_REQUEST_GENERATE_H
#define TOOLS_REQUEST_GENERATE_H

#include "export/text/bytes.h"
#include "tools/requests/request_random.h"
#include "tools/requests/requests.h"

/* The distribution of a number of tokens. */
typedef struct request_length {
    enum { REQUEST_FIXED, REQUEST_UNIFORM, REQUEST_LOGNORMAL, REQUEST_PERCENTILES } kind;
    double a, b; /* fixed: a; uniform: a to b; lognormal: mean and standard deviation of the log */
    const int32_t *percentiles; /* at request_shares */
} request_length;

enum { REQUEST_SHARES = 18 };
extern const double request_shares[REQUEST_SHARES]; /* 0 to 1 */

typedef struct request_arrivals {
    enum { REQUEST_AT_ONCE, REQUEST_EVENLY, REQUEST_POISSON, REQUEST_GAMMA, REQUEST_BURSTS } kind;
    double gap_ns; /* mean, between requests, or between bursts */
    double shape;  /* gamma */
    int64_t burst; /* requests per burst */
    double now_ns; /* of the latest request */
} request_arrivals;

typedef struct request_generator {
    request_length prompt, output;
    request_arrivals arrivals;
    int64_t groups; /* of prefixes; 0: none */
    int32_t prefix_tokens;
    int32_t n_priorities;
    struct {
        int32_t priority;
        double until; /* sum of the shares up to this one; the last one is 1 */
    } priorities[16];
} request_generator;

/* Whether the text is the name of a workload, such as "fixed:128:16". */
bool request_is_workload(const char *text);
/* The workload whose name is most like the text; NULL: none is. */
const char *request_nearest_workload(const char *text);
/* Sets `text` to the names of all workloads, with their parameters, and returns it. */
const char *request_list_workloads(char *text, size_t bytes);
syn_status request_lengths_parse(const char *text, request_length *prompt, request_length *output,
                                 syn_error *err) SYN_MUST_USE;
syn_status request_arrivals_init(request_arrivals *arrivals, const request_options *how,
                                 syn_error *err) SYN_MUST_USE;
/* The arrival of request i, which must be called in order. */
double request_arrivals_next(request_arrivals *arrivals, int64_t seed, int64_t i);
syn_status request_generator_init(request_generator *g, const request_options *how,
                                  syn_error *err) SYN_MUST_USE;
/* Returns whether the request was cut to how->max_tokens. */
bool request_generate(request_generator *g, const request_options *how, int64_t i, request *out);

/* Divides a text at a separator into exactly n parts. */
bool request_parts(const char *text, size_t bytes, char separator, syn__str *parts, int n);
/* A number from min to max. */
bool request_number(syn__str text, double min, double max, double *out);

#endif
