/* One message of an execution trace as a record, and its two forms: protobuf's wire format and
   protobuf's JSON mapping (protobuf.dev/programming-guides/json). Fields that the schema has and
   the records lack, because somebody added them to et_def.proto, are kept in `added`. */
#ifndef EXPORT_ET_NODE_H
#define EXPORT_ET_NODE_H

#include "export/chakra/wire/et_schema.h"
#include "export/chakra/wire/et_wire.h"
#include "syntorch/base/json.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_NONE           0    /* an attribute without a value */
#define SYN__ET_MIN_ROOT_BYTES 4096 /* "tensor_size" of a node that waits for nothing, at least */

/* The number that such bits of a float or double are, and the reverse: false if only an infinite
   float comes of it. */
double syn__et_float_of(const syn__et_type *type, uint64_t bits);
bool syn__et_float_bits(const syn__et_type *type, double value, uint64_t *bits);

/* Walks the elements of a repeated field of a message, packed or not, and passes over what is
   damaged. */
typedef struct syn__et_list {
    const syn__et_type *type;
    uint32_t number;
    syn__et_reader fields, packed;
} syn__et_list;

static inline syn__et_list syn__et_repeated_of(const syn__et_type *type, uint32_t number,
                                               syn__str message) {
    const syn__et_list list = {
        type, number, {message.text, message.text + message.bytes, NULL}, {NULL, NULL, NULL}};
    return list;
}
/* Of an attribute's list. */
static inline syn__et_list syn__et_list_of(const syn__et_type *type, syn__str payload) {
    return syn__et_repeated_of(type, SYN__ET_INT64_LIST_VALUES, payload);
}
/* The next element: bits as in syn__et_attr, or data. */
bool syn__et_list_next(syn__et_list *list, uint64_t *bits, syn__str *data);

typedef struct syn__et_attr {
    syn__str name, doc;
    uint32_t field; /* SYN__ET_NONE: no value written */
    /* Integers as 64-bit two's complement, bool 0 or 1, the bits of a double or float. */
    uint64_t bits;
    syn__str data;  /* string, bytes; the wire form of a list message */
    syn__str added; /* see syn__et_node */
} syn__et_attr;

syn__et_attr syn__et_number(const char *name, uint32_t field, uint64_t bits);
/* For a string, bytes or list field. */
syn__et_attr syn__et_data(syn__str name, uint32_t field, syn__str data);
/* The value of an integer member, clamped to int64; false for every other member. */
bool syn__et_attr_integer(const syn__et_attr *a, int64_t *out);

typedef struct syn__et_io {
    bool present;
    syn__str text[3]; /* values, shapes, types */
    syn__str added;
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
    /* Wire form with the fields that the schema has and this record lacks. It may hold others,
       which are ignored: it is the whole message if that was read. No bytes: there are none. */
    syn__str added;
} syn__et_node;

typedef struct syn__et_meta {
    syn__str version;
    const syn__et_attr *attrs;
    size_t n_attrs;
    syn__str added;
} syn__et_meta;

static inline bool syn__et_is_communication(uint32_t type) {
    return type == SYN__ET_COMM_SEND_NODE || type == SYN__ET_COMM_RECV_NODE ||
           type == SYN__ET_COMM_COLL_NODE;
}
/* Whether a field is in the schema and not in the record. */
bool syn__et_is_added(syn__et_record record, uint32_t number);

/* ---- Wire form: appended to buf without its length. ---- */
/* A number without its key. */
void syn__et_put_bits(syn__buf *buf, const syn__et_type *type, uint64_t bits);
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
/* The same in another layout (et_json_print.h). */
typedef struct syn__et_printer syn__et_printer;
void syn__et_print_node(syn__et_printer *printer, const syn__et_node *node);
void syn__et_print_meta(syn__et_printer *printer, const syn__et_meta *meta);
/* A list's elements as a JSON array. `payload` is its wire form; damage in it ends the array. */
void syn__et_json_list(syn_sink *sink, uint32_t field, syn__str payload);
void syn__et_json_base64(syn_sink *sink, syn__str bytes); /* with quotes */

/* Reads a scalar from the JSON token just read: bits, or text appended to `text`. */
syn_status syn__et_parse_scalar(syn_json *json, const syn__et_type *type, uint64_t *bits,
                                syn__buf *text);
/* Reads a JSON array, whose ARRAY_BEGIN was just read, into the wire form of a repeated field. */
syn_status syn__et_parse_list(syn_json *json, const syn__et_type *type, uint32_t number,
                              syn__buf *out);
/* Decodes base64 (both alphabets, padding optional) to the end of out; false if it is malformed. */
bool syn__et_parse_base64(syn__str text, syn__buf *out);

#ifdef __cplusplus
}
#endif
#endif
