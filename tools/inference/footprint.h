/* What memory a rank took, beside what it could not do without. */
#ifndef TOOLS_FOOTPRINT_H
#define TOOLS_FOOTPRINT_H

#include <stdio.h>

#include "syntorch/base/sink.h"
#include "syntorch/context.h"

typedef struct footprint {
    uint64_t weights_bytes, cache_bytes; /* parameters; states */
    uint64_t peak_bytes;                 /* most tensor data in use at once */
    uint64_t process_bytes;              /* most memory the process has had resident; 0: unknown */
} footprint;

footprint footprint_of(const syn_ctx *ctx);
/* largest_bytes: of what one op made. */
void footprint_print(const syn_ctx *ctx, uint64_t largest_bytes, FILE *out);
/* ", \"memory\": {...}" */
void footprint_json(const syn_ctx *ctx, uint64_t largest_bytes, syn_sink *out);

#endif
