/* Streams of a rank: nodes of one stream run one after the other, in program order. Computation and
   collectives use the stream that the graph gives them. Messages do not: they have one stream for
   the sends to each peer, and one for the receives of each tag from each peer. A receive that was
   posted early therefore delays only the receives after it on the same stream. */
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

/* Maps each stream to a number, initially 0. Zero-initialize it. */
typedef struct syn__streams {
    struct syn__stream_slot *slots; /* open addressing */
    size_t n, cap;                  /* cap: 0 or a power of two */
} syn__streams;

syn__stream_key syn__stream_of(const syn_node *node);
/* The key for the order of a group's calls, which is separate from all streams. */
syn__stream_key syn__stream_of_group(uint32_t group_id);

/* Sets *out to the address of the stream's number, valid until the next call. */
syn_status syn__streams_at(syn__streams *streams, syn__stream_key key, uint32_t **out,
                           syn_error *err) SYN_MUST_USE;
/* Removes all streams but keeps the memory. */
void syn__streams_clear(syn__streams *streams);
void syn__streams_free(syn__streams *streams);

#ifdef __cplusplus
}
#endif
#endif
