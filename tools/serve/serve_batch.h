/* The picture of a batch over time. Each of the first requests has a row, which shows when it
   waits, when its prompt is computed, and when it gets its tokens. */
#ifndef TOOLS_SERVE_BATCH_H
#define TOOLS_SERVE_BATCH_H

#include "tools/serve/serve.h"

typedef struct serve_batch serve_batch;

syn_status serve_batch_new(serve_batch **out, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void serve_batch_free(serve_batch *b);
/* An observer of the simulation. The batch must outlive it. */
serve_observer serve_batch_observer(serve_batch *b);
/* Writes the picture, if the first request has finished. requests: their number in the run. */
syn_status serve_batch_draw(const serve_batch *b, const char *path, const char *title,
                            int64_t requests, syn_error *err) SYN_MUST_USE;

#endif
