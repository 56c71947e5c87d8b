/* One message of an execution trace as a record, and its two forms: protobuf's wire format and
   protobuf's JSON mapping (protobuf.dev/programming-guides/json). Field numbers: et_def.proto. */
#ifndef EXPORT_ET_NODE_H
#define EXPORT_ET_NODE_H

#include "export/chakra/wire/et_wire.h"
#include "syntorch/base/json.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SYN__ET_INVALID_NODE,
    SYN__ET_METADATA_NODE,
    SYN__ET_MEM_LOAD_NODE,
    SYN__ET_MEM_STORE_NODE,
    SYN__ET_COMP_NODE,
    SYN__ET_COMM_SEND_NODE,
    SYN__ET_COMM_RECV_NODE,
    SYN__ET_COMM_COLL_NODE,
    SYN__ET_NODE_TYPES
};

/* Members of AttributeProto's oneof that we name; list fields are one more than their value's. */
enum {
    SYN__ET_NONE = 0,
    SYN__ET_DOUBLE = 3,
    SYN__ET_FLOAT = 5,
    SYN__ET_INT32 = 7,
    SYN__ET_INT64 = 9,
    SYN__ET_UINT64 = 13,
    SYN__ET_BOOL = 27,
    SYN__ET_STRING = 29,
    SYN__ET_BYTES = 31,
    SYN__ET_LAST = 32
};

#define SYN__ET_MIN_ROOT_BYTES 4096 /* "tensor_size" of a node that waits for nothing, at least */

typedef enum syn__et_form {
    SYN__ET_FORM_INT,
    SYN__ET_FORM_FLOAT,
    SYN__ET_FORM_BOOL,
    SYN__ET_FORM_STRING,
    SYN__ET_FORM_BYTES
} syn__et_form;

/* An element type of the oneof: int64 has the value int64_val and the list int64_list. */
typedef struct syn__et_type {
    const char *value, *list;           /* "int64_val", "int64_list" */
    const char *value_json, *list_json; /* "int64Val", "int64List" */
    syn__et_form form;
    uint32_t wire;
    uint32_t bits; /* 32 or 64; 1 for bool; 0 for text */
    bool is_signed, zigzag;
} syn__et_type;

/* The type of a oneof field 3..32, and whether the field is a list of it. */
const syn__et_type *syn__et_type_of(uint32_t field);
static inline bool syn__et_is_list(uint32_t field) {
    return field != 0 && field % 2 == 0;
}
/* "int64_val", "bool_list"; "none" for 0. */
const char *syn__et_field_name(uint32_t field);
/* The oneof field of that name in either spelling (JSON or .proto); 0 if there is none. */
uint32_t syn__et_field_by_name(syn__str name);
/* The number that such bits of a float or double are, and the reverse: false if only an infinite
   float comes of it. */
double syn__et_float_of(const syn__et_type *type, uint64_t bits);
bool syn__et_float_bits(const syn__et_type *type, double value, uint64_t *bits);
const char *syn__et_node_type_name(uint32_t type); /* NULL beyond the schema */
/* Short names without what all types share: "COMP", "COLL"; "type 8" is NULL. */
const char *syn__et_short_type(uint32_t type);
const char *syn__et_collective_name(int64_t comm_type); /* "ALL_REDUCE"; NULL beyond the schema */

/* Walks the elements of a list message, packed or not, and passes over what is damaged. */
typedef struct syn__et_list {
    const syn__et_type *type;
    syn__et_reader fields, packed;
} syn__et_list;

static inline syn__et_list syn__et_list_of(const syn__et_type *type, syn__str payload) {
    const syn__et_list list = {
        type, {payload.text, payload.text + payload.bytes, NULL}, {NULL, NULL, NULL}};
    return list;
}
/* The next element: bits as in syn__et_attr, or data. */
bool syn__et_list_next(syn__et_list *list, uint64_t *bits, syn__str *data);

typedef struct syn__et_attr {
    syn__str name, doc;
    uint32_t field; /* SYN__ET_NONE: no value written */
    /* Integers as 64-bit two's complement, bool 0 or 1, the bits of a double or float. */
    uint64_t bits;
    syn__str data; /* string, bytes; the wire form of a list message */
} syn__et_attr;

/* The value of an integer member, clamped to int64; false for every other member. */
bool syn__et_attr_integer(const syn__et_attr *a, int64_t *out);

typedef struct syn__et_io {
    bool present;
    syn__str text[3]; /* values, shapes, types */
} syn__et_io;

typedef struct syn__et_node {
    uint64_t id;
    syn__str name;
    uint32_t type; /* open enum: any value */
    uint64_t start_micros, duration_micros;
    const uint64_t *ctrl, *data;
    size_t n_ctrl, n_data;
    syn__et_io io[2]; /* inputs, outputs */
    const syn__et_attr *attrs;
    size_t n_attrs;
} syn__et_node;

typedef struct syn__et_meta {
    syn__str version;
    const syn__et_attr *attrs;
    size_t n_attrs;
} syn__et_meta;

/* ---- Wire form: appended to buf without its length. ---- */
void syn__et_put_node(syn__buf *buf, const syn__et_node *node);
void syn__et_put_meta(syn__buf *buf, const syn__et_meta *meta);

/* Owns what decoding or parsing needs; records point into it and into the input until
   the next call. */
typedef struct syn__et_decoder {
    uint64_t *deps[2]; /* ctrl, data */
    size_t n_deps[2], cap_deps[2];
    syn__et_attr *attrs;
    size_t n_attrs, cap_attrs;
    const char *why; /* after SYN_E_FORMAT: what is wrong, part of a sentence */
    const char *at;  /* and where in the input */
} syn__et_decoder;

/* SYN_OK, SYN_E_FORMAT (d->why, d->at) or SYN_E_NOMEM. Unknown fields are skipped; text must be
   valid UTF-8. */
syn_status syn__et_decode_node(syn__et_decoder *d, syn__str message, syn__et_node *out);
syn_status syn__et_decode_meta(syn__et_decoder *d, syn__str message, syn__et_meta *out);
void syn__et_decoder_free(syn__et_decoder *d);

/* ---- JSON form ---- */
void syn__et_json_node(syn_sink *sink, const syn__et_node *node);
void syn__et_json_meta(syn_sink *sink, const syn__et_meta *meta);
/* A list's elements as a JSON array. `payload` is its wire form; damage in it ends the array. */
void syn__et_json_list(syn_sink *sink, uint32_t field, syn__str payload);
void syn__et_json_base64(syn_sink *sink, syn__str bytes); /* with quotes */

/* Reads a scalar of the oneof field from the JSON token just read: bits, or text
   appended to `text`. */
syn_status syn__et_parse_scalar(syn_json *json, uint32_t field, uint64_t *bits, syn__buf *text);
/* Reads a JSON array, whose ARRAY_BEGIN was just read, into the list's wire form. */
syn_status syn__et_parse_list(syn_json *json, uint32_t field, syn__buf *out);
/* Decodes base64 (both alphabets, padding optional) to the end of out; false if it is malformed. */
bool syn__et_parse_base64(syn__str text, syn__buf *out);

#ifdef __cplusplus
}
#endif
#endif
