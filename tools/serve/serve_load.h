/* Decides whether requests arrive faster than a server finishes them. A long queue alone does not
   show it: a burst of requests leaves one, too, and the server serves it later. The server is
   overloaded if

   * the shortest queue in each of the last three quarters of the arrivals is longer than that in
     the quarter before,
   * in the last quarter, more requests always wait than the server ever computed at once, and at
     least 32, and
   * requests finish less often than they arrive while others wait, from the second half of the
     arrivals on.

   The memory does not depend on the number of requests: arrivals are divided into at most 64 spans,
   and if there are more, two spans become one. */
#ifndef TOOLS_SERVE_LOAD_H
#define TOOLS_SERVE_LOAD_H

#include "syntorch/base/status.h"

enum { SERVE_SPANS = 64 };

typedef struct serve_moment {
    double ns;
    int64_t arrived, finished; /* requests so far */
} serve_moment;

typedef struct serve_load {
    struct serve_span {
        serve_moment start;
        int64_t shortest; /* queue */
    } spans[SERVE_SPANS];
    int32_t n;
    int64_t each; /* arrivals of a span */
    int64_t most_running;
    serve_moment last_arrival, busy; /* busy: the latest moment at which a request waited */
} serve_load;

/* The state of a server after an event. */
typedef struct serve_load_state {
    serve_moment now;
    int64_t waiting, running;
    bool ended; /* no more requests will arrive */
} serve_load_state;

/* Call it after each event. Returns true from time to time, when it is worthwhile to call
   serve_load_check before the last request has arrived. */
bool serve_load_see(serve_load *l, const serve_load_state *s);

/* Rates in requests per second. finishing: while requests wait, 0 if unknown. */
typedef struct serve_rates {
    double arriving, finishing;
    bool growing, overloaded; /* growing: a weaker condition, for searches. The queue has grown from
                                 the third to the last quarter, and at least 32 requests wait */
} serve_rates;
serve_rates serve_load_check(const serve_load *l);

#endif
