/* The schema of execution traces, et_def.proto, as compiled by protoc-c: names, numbers and types
   of its messages, fields and enums, for all code that reads or writes traces. No other part uses
   protobuf-c. Numbers that C code needs as constants, for example as case labels, are in
   et_numbers.h, which the build generates from the same file: SYN__ET_NODE_CTRL_DEPS,
   SYN__ET_COMP_NODE, SYN__ET_INT64 (int64_val of an attribute). */
#ifndef EXPORT_ET_SCHEMA_H
#define EXPORT_ET_SCHEMA_H

#include "export/chakra/wire/et_numbers.h"
#include "export/text/bytes.h"
#include "syntorch/base/status.h"
#include "syntorch/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fails with SYN_E_UNSUPPORTED in a build without protobuf-c, which has no schema. Call it before
   reading or writing execution traces. Without a schema, all functions below find nothing. */
syn_status syn__et_supported(syn_error *err) SYN_MUST_USE;

/* ---- Protobuf types ---- */

typedef enum syn__et_form {
    SYN__ET_FORM_INT,
    SYN__ET_FORM_FLOAT,
    SYN__ET_FORM_BOOL,
    SYN__ET_FORM_STRING,
    SYN__ET_FORM_BYTES
} syn__et_form;

typedef struct syn__et_type {
    const char *name; /* "sint64" */
    syn__et_form form;
    uint32_t wire; /* SYN__ET_WIRE_... */
    uint32_t bits; /* 32 or 64; 1 for bool; 0 for text */
    bool is_signed, zigzag;
} syn__et_type;

/* ---- Messages and their fields ---- */

typedef struct ProtobufCMessageDescriptor syn__et_message;
typedef struct ProtobufCEnumDescriptor syn__et_enum;

/* The messages that have a record in et_node.h. */
typedef enum syn__et_record {
    SYN__ET_RECORD_META,
    SYN__ET_RECORD_NODE,
    SYN__ET_RECORD_ATTR,
    SYN__ET_RECORD_IO
} syn__et_record;

/* NULL without a schema. */
const syn__et_message *syn__et_message_of(syn__et_record record);

typedef struct syn__et_member {
    const char *name; /* "start_time_micros"; in JSON "startTimeMicros" */
    uint32_t number;
    bool is_repeated;
    const syn__et_type *type;       /* type of one element; int32 for an enum; NULL: a message */
    const syn__et_enum *values;     /* NULL: not an enum */
    const syn__et_message *message; /* NULL: not a message */
} syn__et_member;

/* Look up a field by position (from 0, in order of field numbers), by number, or by name in either
   spelling. Return false if there is none. `m` may be NULL. */
bool syn__et_member_at(const syn__et_message *m, size_t place, syn__et_member *out);
bool syn__et_member_of(const syn__et_message *m, uint32_t number, syn__et_member *out);
bool syn__et_member_named(const syn__et_message *m, syn__str name, syn__et_member *out);
/* Look up an enum value by number or name. Return NULL or false if there is none. */
const char *syn__et_value_name(const syn__et_enum *values, int64_t number);
bool syn__et_value_named(const syn__et_enum *values, syn__str name, int32_t *out);

/* ---- An attribute's value, which is one member of a oneof ---- */

typedef struct syn__et_value {
    const syn__et_type *type; /* type of one element; NULL: the field is not a value */
    bool is_list;             /* int64_list rather than int64_val */
} syn__et_value;

syn__et_value syn__et_value_of(uint32_t field);
static inline const syn__et_type *syn__et_type_of(uint32_t field) {
    return syn__et_value_of(field).type;
}
static inline bool syn__et_is_list(uint32_t field) {
    return syn__et_value_of(field).is_list;
}
/* "int64_val", "bool_list"; "none" for 0. */
const char *syn__et_field_name(uint32_t field);
/* The field number of the value with that name, in either spelling; 0 if there is none. */
uint32_t syn__et_field_by_name(syn__str name);

/* ---- Enums ---- */

const char *syn__et_node_type_name(uint32_t type); /* "COMM_COLL_NODE"; NULL if the schema lacks the
                                                      number */
bool syn__et_node_type_named(syn__str name, uint32_t *out);
const char *syn__et_collective_name(int64_t comm_type); /* "ALL_REDUCE"; NULL if the schema lacks
                                                           the number */
/* syn__et_comm_type converts a collective's kind to its number in the schema; -1 if it is not a
   collective. syn__et_comm_kind converts the number back; SYN_COMM_NONE if it is unknown. */
int32_t syn__et_comm_type(syn_comm_kind kind);
syn_comm_kind syn__et_comm_kind(int64_t comm_type);

/* ---- Single messages, with protobuf-c's own pack and unpack ---- */

/* protobuf-c is slower than our code (docs/performance.md), and does not report the cause and the
   position of an error. Messages that are frequent or may be damaged are therefore read and written
   by et_node.c. */

/* Packs ranks as an int32_list; `out` may be NULL. Returns the number of bytes. */
size_t syn__et_pack_ranks(const int32_t *ranks, size_t n, char *out);
/* Unpacks such a list into *n ranks. The caller frees *out. */
syn_status syn__et_unpack_ranks(syn__str list, int32_t **out, size_t *n,
                                syn_error *err) SYN_MUST_USE;
/* The value of the metadata attribute "rank", an int64_val; -1 if it is not found. */
int64_t syn__et_unpack_rank(syn__str message);

#ifdef __cplusplus
}
#endif
#endif
