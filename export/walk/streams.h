/* Streams of a rank: nodes of one stream run one after the other, in program order. Computation and
   collectives run on the stream that the graph specifies for them. Messages do not: all sends to
   one peer share a stream, and so do all receives of one tag from one peer. A receive that was
   posted early therefore delays only later receives with the same peer and tag. Blocking nodes
   (SYN_NODE_BLOCKING) run on the stream of computation. */
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

/* Maps each stream to a number, which is 0 at first. The struct must be zero-initialized. */
typedef struct syn__streams {
    struct syn__stream_slot *slots; /* open addressing */
    size_t n, cap;                  /* cap: 0 or a power of two */
} syn__streams;

syn__stream_key syn__stream_of(const syn_node *node);
/* The key for the order of a group's calls, which is separate from all streams. */
syn__stream_key syn__stream_of_group(uint32_t group_id);
/* A stream for the collectives of several groups. */
syn__stream_key syn__stream_of_links(uint32_t id);

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
