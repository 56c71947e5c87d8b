/* Reads the messages of an execution trace from protobuf's JSON mapping. Member names may have
   either of protobuf's spellings: startTimeMicros or start_time_micros. */
#ifndef EXPORT_ET_JSON_READ_H
#define EXPORT_ET_JSON_READ_H

#include "export/chakra/wire/et_node.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The member with the bytes of a message in the file, including the length prefix, in base64.
   Messages have it if these bytes cannot be derived from the other members. */
#define SYN__ET_JSON_WIRE "@wire"

typedef struct syn__et_json_reader {
    syn_json json;
    bool strict;      /* reject members that protobuf does not know and repeated members; otherwise
                         unknown members are skipped and the last repeated one is used */
    syn__buf message; /* the last message read, in wire form without its length */
    syn__buf wire;    /* content of the message's "@wire" (strict only) */
    bool has_wire;
    syn_error *err;
    /* private */
    syn__arena arena; /* strings of the current message */
    uint64_t *ids[2]; /* ctrl, data */
    size_t n_ids[2], ids_cap[2];
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    syn__buf scratch;
    syn__buf added; /* wire form of the message's fields that its record lacks */
} syn__et_json_reader;

/* Read a message whose OBJECT_BEGIN was just read. */
syn_status syn__et_json_read_node(syn__et_json_reader *r);
syn_status syn__et_json_read_meta(syn__et_json_reader *r);
/* The status to return after SYN_JSON_ERROR, and the status to return when memory is out. */
syn_status syn__et_json_broken(const syn__et_json_reader *r);
syn_status syn__et_json_no_memory(const syn__et_json_reader *r);
/* Skips the value of the key just read, which is unknown. Fails if strict. */
syn_status syn__et_json_unknown(syn__et_json_reader *r);
/* Also frees r->json. */
void syn__et_json_reader_free(syn__et_json_reader *r);

#ifdef __cplusplus
}
#endif
#endif
