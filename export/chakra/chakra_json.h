/* Converts an execution trace to one JSON document and back. The round trip restores every byte,
   whichever program wrote the trace.

   The document has the form of tensor_trace_chakra.json,
   {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]}, in protobuf's JSON mapping. The bytes of
   some messages cannot be derived from their JSON fields, for example because of unknown fields,
   another order of fields, or numbers in more bytes than needed. Such a message gets the extra
   member "@wire": its bytes in the file, including the length prefix, in base64. The converter
   builds no graph, so it accepts traces with cycles, repeated ids or dangling dependencies. Damaged
   traces are rejected with the byte offset. */
#ifndef EXPORT_CHAKRA_JSON_H
#define EXPORT_CHAKRA_JSON_H

#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_chakra_json_stats {
    uint64_t n_nodes;
    uint64_t n_wire;   /* messages that need "@wire" */
    size_t first_wire; /* byte offset in the .et of the first of these messages; 0: none, or unknown
                          because the document was read back */
    uint64_t omitted_bytes; /* compat: number of bytes after an empty message, which Chakra's reader
                                takes for the end of the file */
} syn_chakra_json_stats;

/* Whether the data is JSON. Data that begins with a bracket counts as JSON unless it can only be an
   .et. */
bool syn_chakra_is_json(const char *data, size_t bytes);

/* Converts the .et in `data` to a document. `name` prefixes error messages. rank: the rank to write
   if the metadata has none. Every message is verified by reading its JSON back before it is
   written. */
syn_status syn_chakra_et_to_json(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats,
                                 syn_error *err) SYN_MUST_USE;
/* Converts the .et to the output of MLCommons Chakra's chakra_jsonizer (Python's MessageToJson),
   which is a sequence of objects and not one JSON document. Ids of 0 and fields outside the schema
   are omitted. */
syn_status syn_chakra_et_to_json_compat(const char *name, const char *data, size_t bytes,
                                        syn_sink *out, syn_chakra_json_stats *stats,
                                        syn_error *err) SYN_MUST_USE;
/* Converts one rank of a document to an .et; rank -1: the only rank. SYN_E_INVALID if rank is -1
   and the document has several ranks, or if the document lacks the given rank. SYN_E_FORMAT for
   members that are not in the schema, are repeated, or contradict their message's "@wire". */
syn_status syn_chakra_json_to_et(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats,
                                 syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
