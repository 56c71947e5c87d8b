/* KV caches on their way from the replicas that compute prompts to those that generate, in the
   order in which they arrive: a heap. */
#ifndef TOOLS_SERVE_TRANSFERS_H
#define TOOLS_SERVE_TRANSFERS_H

#include "tools/serve/serve.h"

typedef struct serve_transfer {
    serve_request *request;
    double end_ns;
} serve_transfer;

typedef struct serve_transfers {
    serve_transfer *at; /* at[0] arrives first; syn_free it */
    size_t n, cap;
} serve_transfers;

syn_status serve_transfers_add(serve_transfers *t, serve_transfer more,
                               syn_error *err) SYN_MUST_USE;
/* Removes the transfer that arrives first. There must be one. */
serve_transfer serve_transfers_take(serve_transfers *t);
/* How long after the last step of a prompt its cache arrives. bytes: those that a rank sends or
   receives, whichever are more. The cache of a layer is sent while the next layers are computed, so
   only the last layer's part is left, unless the link is slower than the computation. */
double serve_late_ns(const serve_pool_options *from, double bytes, double step_ns);

#endif
