/* The options for the requests of a serving workload, which several commands share. */
#ifndef TOOLS_REQUESTS_OPTIONS_H
#define TOOLS_REQUESTS_OPTIONS_H

#include <math.h>

#include "tools/cli.h"
#include "tools/requests/requests.h"

#define REQUESTS_OPTION(how)                                                                      \
    {                                                                                             \
        "requests", CLI_TEXT, &(how).requests, "FILE|WORKLOAD",                                   \
            "requests to serve: CSV or JSON lines with arrival times and tokens, or a generated " \
            "workload: sharegpt-like, azure-code, azure-chat, summarize, fixed:IN:OUT, "          \
            "uniform:LO-HI:LO-HI or lognormal:MEAN:SD:MEAN:SD (docs/requests.md)",                \
            0, 0                                                                                  \
    }

/* All of them have an effect only together with --requests. `generated`: the number of generated
   requests, as text. */
#define REQUEST_OPTIONS(how, generated)                                                           \
    {"where",                                                                                     \
     CLI_TEXT,                                                                                    \
     &(how).where,                                                                                \
     "COLUMN=VALUE,...",                                                                          \
     "file: serve only rows with these values; other relations: !=, <, <=, > and >=",             \
     0,                                                                                           \
     0},                                                                                          \
        {"time_scale",                                                                            \
         CLI_REAL,                                                                                \
         &(how).time_scale,                                                                       \
         "X",                                                                                     \
         "file: requests arrive X times as fast [1]",                                             \
         1e-6,                                                                                    \
         1e6},                                                                                    \
        {"num_requests",                                                                          \
         CLI_INT,                                                                                 \
         &(how).num_requests,                                                                     \
         "N",                                                                                     \
         "serve at most N requests; default: all of a file; " generated " generated ones "        \
         "without --duration",                                                                    \
         1,                                                                                       \
         1e15},                                                                                   \
        {"duration",                                                                              \
         CLI_REAL,                                                                                \
         &(how).duration_s,                                                                       \
         "S",                                                                                     \
         "serve requests that arrive in the first S seconds after the first arrival",             \
         1e-9,                                                                                    \
         1e9},                                                                                    \
        {"rate",                                                                                  \
         CLI_REAL,                                                                                \
         &(how).rate,                                                                             \
         "R",                                                                                     \
         "workload, or file without arrival times: mean requests per second; inf: all arrive at " \
         "0 [inf]",                                                                               \
         1e-9,                                                                                    \
         INFINITY},                                                                               \
        {"arrivals",                                                                              \
         CLI_TEXT,                                                                                \
         &(how).arrivals,                                                                         \
         "poisson|gamma:CV|uniform|bursts:N",                                                     \
         "times between arrivals: exponential, with this coefficient of variation, constant, or " \
         "N requests at once [poisson]",                                                          \
         0,                                                                                       \
         0},                                                                                      \
        {"prefixes",                                                                              \
         CLI_TEXT,                                                                                \
         &(how).prefixes,                                                                         \
         "GROUPS:TOKENS",                                                                         \
         "workload: prepend TOKENS tokens to each prompt that are the same in its group",         \
         0,                                                                                       \
         0},                                                                                      \
    {                                                                                             \
        "priorities", CLI_TEXT, &(how).priorities, "P:SHARE,...",                                 \
            "workload: shares of requests with priority P; lower numbers run first", 0, 0         \
    }

/* A rule that rejects these options without --requests; see cli_check_rules. */
#define REQUEST_OPTIONS_RULE(how)                                                      \
    {                                                                                  \
        (how).requests == NULL, {"where", "time_scale", "num_requests", "duration",    \
                                 "rate",  "arrivals",   "prefixes",     "priorities"}, \
            "has no effect without --requests; give that, too, or omit it"             \
    }

#endif
