/* The streams of a rank: nodes of one stream run one after the other, in program order.

   Computation and collectives have the streams that the graph gives them. Messages have streams of
   their own, whatever the graph says: one for the sends to a peer, and one for the receives of one
   tag from a peer. So a receive that is posted early holds up nothing but those behind it. */
#ifndef EXPORT_STREAMS_H
#define EXPORT_STREAMS_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__stream_key {
    uint32_t kind, number;
    int32_t tag;
} syn__stream_key;

/* A number for each stream, 0 at first. Begins as {0}. */
typedef struct syn__streams {
    struct syn__stream_slot *slots; /* open addressing */
    size_t n, cap;                  /* cap: 0 or a power of two */
} syn__streams;

syn__stream_key syn__stream_of(const syn_node *node);
/* The order of a group's calls, which is kept apart from the streams. */
syn__stream_key syn__stream_of_group(uint32_t group_id);

/* Sets *out to the stream's number, which can be changed until the next call. */
syn_status syn__streams_at(syn__streams *streams, syn__stream_key key, uint32_t **out,
                           syn_error *err) SYN_MUST_USE;
/* Forgets all streams and keeps the memory. */
void syn__streams_clear(syn__streams *streams);
void syn__streams_free(syn__streams *streams);

#ifdef __cplusplus
}
#endif
#endif
