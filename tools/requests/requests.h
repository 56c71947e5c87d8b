/* The requests of a serving workload, one after the other: read from a file, or generated. Neither
   needs memory for more than one request. */
#ifndef TOOLS_REQUESTS_H
#define TOOLS_REQUESTS_H

#include "syntorch/base/status.h"

typedef struct request {
    double arrival_ns;      /* from the start of the run; not below that of the request before */
    int32_t prompt, output; /* tokens, at least 1 */
    int32_t priority;       /* requests with lower numbers run first, as in vLLM; default: 0 */
    int64_t prefix;         /* prompts with equal numbers above 0 have the same first prefix_tokens
                               tokens; 0: no prefix */
    int32_t prefix_tokens;  /* at most `prompt` */
    int32_t
        block_tokens; /* the prompt's blocks of block_tokens tokens have ids, as in Mooncake's */
    int32_t n_blocks; /* traces. Prompts with equal ids are equal up to the end of that block */
    const uint64_t *blocks; /* n_blocks ids, valid until the next call; NULL: none */
    double measured_first_ns, measured_last_ns; /* when the first and the last token were generated,
                                                   from the start of the run; below 0: unknown */
    int64_t line;                               /* of the file; 0: generated */
} request;

/* A field that is 0 was not given. requests_options.h has the options of the command line. */
typedef struct request_options {
    const char *requests;   /* a file, "-", or a workload: see docs/requests.md */
    const char *where;      /* rows to select: "COLUMN=VALUE,COLUMN<NUMBER" */
    double time_scale;      /* factor by which requests of a file arrive faster */
    int64_t num_requests;   /* at most this number; 0: all of a file, `generated` ones */
    int64_t generated;      /* of a workload without duration_s; 0: REQUESTS_DEFAULT */
    double duration_s;      /* only requests that arrive in this time from the first arrival on */
    double rate;            /* mean number of requests per second; may be INFINITY */
    const char *arrivals;   /* "poisson", "gamma:CV", "uniform" or "bursts:N" */
    const char *prefixes;   /* "GROUPS:TOKENS" */
    const char *priorities; /* "P:SHARE,P:SHARE" */
    int64_t seed;
    int32_t max_tokens; /* of the model: generated prompts and outputs are cut to this sum; at least
                           2; 0: not cut */
} request_options;

#define REQUESTS_DEFAULT 1000

typedef struct request_source request_source;

/* Opens the file or the workload and reads the first request, so that errors in options and headers
   are reported here. Keeps no reference to `how`, but to its strings. Fails if there is no request.
   Errors of a file begin with its path and line. */
syn_status requests_open(request_source **out, const request_options *how,
                         syn_error *err) SYN_MUST_USE;
/* Requests that are in memory, in order of arrival. They must stay valid. */
syn_status requests_open_list(request_source **out, const request *list, int64_t n,
                              syn_error *err) SYN_MUST_USE;
/* Sets *out to the next request, or *end to true after the last one. */
syn_status requests_next(request_source *source, request *out, bool *end,
                         syn_error *err) SYN_MUST_USE;
/* The text of a column in the first selected row, such as "model" or "max_num_seqs"; NULL: there is
   no such column, or the requests are generated. Valid until requests_close. */
const char *requests_value(const request_source *source, const char *column);
/* Whether requests may have ids of blocks. */
bool requests_have_ids(const request_source *source);
/* Generated requests so far that were cut to max_tokens. */
int64_t requests_cut(const request_source *source);
/* NULL does nothing. */
void requests_close(request_source *source);

/* A number for the tokens first .. first + n - 1 of the prompt, n >= 1. Requests with the same
   number for the same range have the same tokens up to its end, according to `prefix` and `blocks`.
   0: the tokens are this request's own. */
uint64_t request_shared_key(const request *r, int32_t first, int32_t n);

#endif
