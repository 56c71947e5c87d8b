/* One message of an execution trace as a record, with conversions from and to protobuf's wire
   format and its JSON mapping (protobuf.dev/programming-guides/json). The schema et_def.proto can
   have fields that the records lack, because they were added later; records keep such fields in
   `added`. */
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
#define SYN__ET_MIN_ROOT_BYTES 4096 /* least "tensor_size" of a node that waits for nothing */

/* Converts the bits of a float or double to a number, and back. syn__et_float_bits returns false if
   the value does not fit into a float and would become infinite. */
double syn__et_float_of(const syn__et_type *type, uint64_t bits);
bool syn__et_float_bits(const syn__et_type *type, double value, uint64_t *bits);

/* Iterates over the elements of a message's repeated field, which may be packed or not. Skips
   damaged data. */
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
/* Iterates over an attribute's list. */
static inline syn__et_list syn__et_list_of(const syn__et_type *type, syn__str payload) {
    return syn__et_repeated_of(type, SYN__ET_INT64_LIST_VALUES, payload);
}
/* Gets the next element: a number in *bits, in the form of syn__et_attr.bits, or a string or bytes
   in *data. Returns false at the end. */
bool syn__et_list_next(syn__et_list *list, uint64_t *bits, syn__str *data);

typedef struct syn__et_attr {
    syn__str name, doc;
    uint32_t field; /* SYN__ET_NONE: no value is written */
    /* Integers as 64-bit two's complement; bool as 0 or 1; float and double as their bits. */
    uint64_t bits;
    syn__str data;  /* string or bytes; for a list, the wire form of the list message */
    syn__str added; /* see syn__et_node.added */
} syn__et_attr;

syn__et_attr syn__et_number(const char *name, uint32_t field, uint64_t bits);
/* An attribute whose field is a string, bytes or a list. */
syn__et_attr syn__et_data(syn__str name, uint32_t field, syn__str data);
/* Gets the value of an integer attribute, clamped to int64. Returns false for attributes of other
   types. */
bool syn__et_attr_integer(const syn__et_attr *a, int64_t *out);

typedef struct syn__et_io {
    bool present;
    syn__str text[3]; /* in this order: values, shapes, types */
    syn__str added;
} syn__et_io;

typedef struct syn__et_node {
    uint64_t id;
    syn__str name;
    uint32_t type; /* any number, also one that the schema lacks */
    uint64_t start_micros, duration_micros;
    const uint64_t *ctrl, *data;
    size_t n_ctrl, n_data;
    syn__et_io io[2]; /* inputs, outputs */
    const syn__et_attr *attrs;
    size_t n_attrs;
    /* Wire form of the fields that are in the schema but not in this record; empty if there are no
       such fields. Other fields in it are ignored: a decoded record has the whole message here. */
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
/* Whether a field is in the schema but not in the record. */
bool syn__et_is_extra_field(syn__et_record record, uint32_t number);

/* ---- Wire form: appended to buf without its length. ---- */
/* Appends a number without its key. */
void syn__et_put_bits(syn__buf *buf, const syn__et_type *type, uint64_t bits);
void syn__et_put_node(syn__buf *buf, const syn__et_node *node);
/* Appends attributes of a node, each with its key and length. */
void syn__et_put_attrs(syn__buf *buf, const syn__et_attr *attrs, size_t n);
void syn__et_put_meta(syn__buf *buf, const syn__et_meta *meta);

/* Owns the memory of decoded records. Records point into this memory and into the input, and are
   valid until the next call. */
typedef struct syn__et_decoder {
    uint64_t *deps[2]; /* ctrl, data */
    size_t n_deps[2], cap_deps[2];
    syn__et_attr *attrs;
    size_t n_attrs, cap_attrs;
    const char *why; /* after SYN_E_FORMAT: what is wrong, as part of an error message */
    const char *at;  /* after SYN_E_FORMAT: the position of the error in the input */
} syn__et_decoder;

/* Decode a message. Return SYN_OK, SYN_E_FORMAT (see d->why and d->at) or SYN_E_NOMEM. Unknown
   fields are skipped; strings must be valid UTF-8. */
syn_status syn__et_decode_node(syn__et_decoder *d, syn__str message, syn__et_node *out);
syn_status syn__et_decode_meta(syn__et_decoder *d, syn__str message, syn__et_meta *out);
void syn__et_decoder_free(syn__et_decoder *d);

/* ---- JSON form ---- */
void syn__et_json_node(syn_sink *sink, const syn__et_node *node);
void syn__et_json_meta(syn_sink *sink, const syn__et_meta *meta);
/* Print the JSON form in the layout of the printer (et_json_print.h). */
typedef struct syn__et_printer syn__et_printer;
void syn__et_print_node(syn__et_printer *printer, const syn__et_node *node);
void syn__et_print_meta(syn__et_printer *printer, const syn__et_meta *meta);
/* Writes a list's elements as a JSON array. `payload` is the list's wire form; the array ends at
   damaged data. */
void syn__et_json_list(syn_sink *sink, uint32_t field, syn__str payload);
void syn__et_json_base64(syn_sink *sink, syn__str bytes); /* with quotes */

/* Converts the JSON token just read to a scalar: sets *bits, or appends a string or bytes to
   `text`. */
syn_status syn__et_parse_scalar(syn_json *json, const syn__et_type *type, uint64_t *bits,
                                syn__buf *text);
/* Reads a JSON array, whose ARRAY_BEGIN was just read, into the wire form of a repeated field. */
syn_status syn__et_parse_list(syn_json *json, const syn__et_type *type, uint32_t number,
                              syn__buf *out);
/* Decodes base64 (both alphabets, padding optional) and appends the bytes to out. Returns false if
   the text is malformed. */
bool syn__et_parse_base64(syn__str text, syn__buf *out);

#ifdef __cplusplus
}
#endif
#endif
