/* Compares the memory that a rank used with the minimum that it needs: the size of its weights and
   KV cache. */
#ifndef TOOLS_FOOTPRINT_H
#define TOOLS_FOOTPRINT_H

#include <stdio.h>

#include "syntorch/base/sink.h"
#include "syntorch/context.h"

typedef struct footprint {
    uint64_t weights_bytes, cache_bytes; /* bytes of parameters; bytes of states, such as the KV
                                            cache */
    uint64_t peak_bytes;                 /* peak bytes of tensor data */
    uint64_t process_bytes;              /* peak resident set of the process; 0: unknown */
} footprint;

footprint footprint_of(const syn_ctx *ctx);
/* Prints the footprint in one line. largest_bytes is the size of the largest output of an op. */
void footprint_print(const syn_ctx *ctx, uint64_t largest_bytes, FILE *out);
/* Writes ", \"memory\": {...}", a member of a JSON object. */
void footprint_json(const syn_ctx *ctx, uint64_t largest_bytes, syn_sink *out);

#endif
