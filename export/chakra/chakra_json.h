/* An execution trace as one JSON document and back, message by message and byte for byte, whoever
   wrote the trace.

   The document has the form of tensor_trace_chakra.json,
   {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]} in protobuf's JSON mapping. A message whose
   bytes do not follow from its fields (unknown fields, another order of fields, numbers that are
   not packed or longer than needed, ...) has the further member "@wire": its bytes in the file,
   with their length in front, in base64. Nothing here builds a graph, so traces with cycles,
   repeated ids or dangling dependencies pass; damaged ones are refused with the byte offset. */
#ifndef EXPORT_CHAKRA_JSON_H
#define EXPORT_CHAKRA_JSON_H

#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_chakra_json_stats {
    uint64_t n_nodes;
    uint64_t n_wire;         /* messages that need "@wire" */
    size_t first_wire;       /* byte offset of the first of them in the .et; 0 none or read back */
    uint64_t left_out_bytes; /* compat: behind an empty message, which ends the file there */
} syn_chakra_json_stats;

/* True for JSON, false for what can only be an .et. */
bool syn_chakra_is_json(const char *data, size_t bytes);

/* Writes the .et in `data` as a document. `name` begins error sentences; rank: the number to write
   where the metadata has none. Every message is read back from its JSON before it is written. */
syn_status syn_chakra_et_to_json(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats,
                                 syn_error *err) SYN_MUST_USE;
/* As chakra_jsonizer of MLCommons Chakra writes it (Python's MessageToJson): objects one after the
   other, which is no JSON document; ids of 0 and fields that the schema lacks are missing. */
syn_status syn_chakra_et_to_json_compat(const char *name, const char *data, size_t bytes,
                                        syn_sink *out, syn_chakra_json_stats *stats,
                                        syn_error *err) SYN_MUST_USE;
/* Writes the .et of one rank of a document; rank -1: the only one. SYN_E_INVALID if the document
   holds several, or not that one; SYN_E_FORMAT for members that the schema lacks, that come twice,
   or that contradict their message's "@wire". */
syn_status syn_chakra_json_to_et(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats,
                                 syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
