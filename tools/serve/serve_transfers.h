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
/* The time of a message from a rank to one on another node. */
double serve_message_ns(const syn_hardware *hw, double bytes);

#endif
