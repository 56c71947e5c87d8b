/* Reads the messages of an execution trace from protobuf's JSON mapping. Member names may be in
   either of protobuf's spellings. */
#ifndef EXPORT_ET_JSON_READ_H
#define EXPORT_ET_JSON_READ_H

#include "export/chakra/wire/et_node.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Member of a message that JSON cannot hold otherwise: its bytes in the file, with their length in
   front, in base64. */
#define SYN__ET_JSON_WIRE "@wire"

typedef struct syn__et_json_reader {
    syn_json json;
    bool strict; /* refuse members that protobuf does not know, and those that come twice; else they
                    are skipped, or the last one counts */
    syn__buf message; /* the last message read, in wire form without its length */
    syn__buf wire;    /* what its "@wire" held (strict only) */
    bool has_wire;
    syn_error *err;
    /* private */
    syn__arena arena; /* texts of the message at hand */
    uint64_t *ids[2]; /* ctrl, data */
    size_t n_ids[2], ids_cap[2];
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    syn__buf scratch;
    syn__buf added; /* fields of the message that its record lacks */
} syn__et_json_reader;

/* Reads a message whose OBJECT_BEGIN was just read. */
syn_status syn__et_json_read_node(syn__et_json_reader *r);
syn_status syn__et_json_read_meta(syn__et_json_reader *r);
/* The status after SYN_JSON_ERROR; of memory that is out. */
syn_status syn__et_json_broken(const syn__et_json_reader *r);
syn_status syn__et_json_no_memory(const syn__et_json_reader *r);
/* Skips the value of the key just read; refused if strict. */
syn_status syn__et_json_unknown(syn__et_json_reader *r);
/* Also ends r->json. */
void syn__et_json_reader_free(syn__et_json_reader *r);

#ifdef __cplusplus
}
#endif
#endif
