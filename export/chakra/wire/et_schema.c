/* Looks up the schema in the descriptors that protoc-c generates. This is the only file that uses
   protobuf-c. A build without protobuf-c uses the replacements at the end. */
#include "export/chakra/wire/et_schema.h"

#include "export/chakra/wire/et_wire.h"
#include "syntorch/base/memory.h"

#if defined(SYN_HAVE_PROTOBUF_C) && SYN_HAVE_PROTOBUF_C + 0
#include <chakra_schema.pb-c.h> /* generated from et_def.proto by protoc-c */

syn_status syn__et_supported(syn_error *err) {
    (void)err;
    return SYN_OK;
}

/* ---- Protobuf types ---- */

#define INT(name, wire, bits, sign, zigzag) \
    { name, SYN__ET_FORM_INT, wire, bits, sign, zigzag }

static const syn__et_type types[] = {
    [PROTOBUF_C_TYPE_DOUBLE] = {"double", SYN__ET_FORM_FLOAT, SYN__ET_WIRE_I64, 64, true, false},
    [PROTOBUF_C_TYPE_FLOAT] = {"float", SYN__ET_FORM_FLOAT, SYN__ET_WIRE_I32, 32, true, false},
    [PROTOBUF_C_TYPE_INT32] = INT("int32", SYN__ET_WIRE_VARINT, 32, true, false),
    [PROTOBUF_C_TYPE_ENUM] = INT("int32", SYN__ET_WIRE_VARINT, 32, true, false),
    [PROTOBUF_C_TYPE_INT64] = INT("int64", SYN__ET_WIRE_VARINT, 64, true, false),
    [PROTOBUF_C_TYPE_UINT32] = INT("uint32", SYN__ET_WIRE_VARINT, 32, false, false),
    [PROTOBUF_C_TYPE_UINT64] = INT("uint64", SYN__ET_WIRE_VARINT, 64, false, false),
    [PROTOBUF_C_TYPE_SINT32] = INT("sint32", SYN__ET_WIRE_VARINT, 32, true, true),
    [PROTOBUF_C_TYPE_SINT64] = INT("sint64", SYN__ET_WIRE_VARINT, 64, true, true),
    [PROTOBUF_C_TYPE_FIXED32] = INT("fixed32", SYN__ET_WIRE_I32, 32, false, false),
    [PROTOBUF_C_TYPE_FIXED64] = INT("fixed64", SYN__ET_WIRE_I64, 64, false, false),
    [PROTOBUF_C_TYPE_SFIXED32] = INT("sfixed32", SYN__ET_WIRE_I32, 32, true, false),
    [PROTOBUF_C_TYPE_SFIXED64] = INT("sfixed64", SYN__ET_WIRE_I64, 64, true, false),
    [PROTOBUF_C_TYPE_BOOL] = {"bool", SYN__ET_FORM_BOOL, SYN__ET_WIRE_VARINT, 1, false, false},
    [PROTOBUF_C_TYPE_STRING] = {"string", SYN__ET_FORM_STRING, SYN__ET_WIRE_LEN, 0, false, false},
    [PROTOBUF_C_TYPE_BYTES] = {"bytes", SYN__ET_FORM_BYTES, SYN__ET_WIRE_LEN, 0, false, false},
};

/* ---- Messages and their fields ---- */

static const syn__et_enum *const node_types = &syn__chakra__node_type__descriptor;
static const syn__et_enum *const collectives = &syn__chakra__collective_comm_type__descriptor;

const syn__et_message *syn__et_message_of(syn__et_record record) {
    static const syn__et_message *const messages[] = {
        [SYN__ET_RECORD_META] = &syn__chakra__global_metadata__descriptor,
        [SYN__ET_RECORD_NODE] = &syn__chakra__node__descriptor,
        [SYN__ET_RECORD_ATTR] = &syn__chakra__attribute_proto__descriptor,
        [SYN__ET_RECORD_IO] = &syn__chakra__ioinfo__descriptor};
    return messages[record];
}

/* Most messages number their fields from 1 without gaps, so a field's index is usually its number
   minus 1. */
static const ProtobufCFieldDescriptor *field_of(const syn__et_message *m, uint32_t number) {
    if (number - 1 < m->n_fields && m->fields[number - 1].id == number)
        return &m->fields[number - 1];
    return protobuf_c_message_descriptor_get_field(m, number);
}

static bool describe(const ProtobufCFieldDescriptor *f, syn__et_member *out) {
    if (f == NULL) return false;
    const bool is_message = f->type == PROTOBUF_C_TYPE_MESSAGE;
    *out = (syn__et_member){.name = f->name,
                            .number = f->id,
                            .is_repeated = f->label == PROTOBUF_C_LABEL_REPEATED,
                            .type = is_message ? NULL : &types[f->type]};
    if (is_message) out->message = (const syn__et_message *)f->descriptor;
    if (f->type == PROTOBUF_C_TYPE_ENUM) out->values = (const syn__et_enum *)f->descriptor;
    return true;
}

bool syn__et_member_at(const syn__et_message *m, size_t place, syn__et_member *out) {
    return place < m->n_fields && describe(&m->fields[place], out);
}

bool syn__et_member_of(const syn__et_message *m, uint32_t number, syn__et_member *out) {
    return describe(field_of(m, number), out);
}

/* Whether `text` is the field's name or its JSON name, such as "startTimeMicros" for
   start_time_micros. */
static bool is_name(const char *name, syn__str text) {
    if (syn__str_is(text, name)) return true;
    size_t i = 0;
    for (; *name != '\0'; name++, i++) {
        const bool upper = *name == '_' && name[1] >= 'a' && name[1] <= 'z';
        if (*name == '_') name++;
        if (i >= text.bytes || text.text[i] != (upper ? (char)(*name - 'a' + 'A') : *name))
            return false;
    }
    return i == text.bytes;
}

static const ProtobufCFieldDescriptor *field_named(const syn__et_message *m, syn__str name) {
    for (unsigned i = 0; i < m->n_fields && name.bytes > 0; i++) {
        if (*m->fields[i].name == *name.text && is_name(m->fields[i].name, name))
            return &m->fields[i];
    }
    return NULL;
}

bool syn__et_member_named(const syn__et_message *m, syn__str name, syn__et_member *out) {
    return describe(field_named(m, name), out);
}

const char *syn__et_value_name(const syn__et_enum *values, int64_t number) {
    if (number != (int32_t)number) return NULL;
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(values, (int)number);
    return v != NULL ? v->name : NULL;
}

bool syn__et_value_named(const syn__et_enum *values, syn__str name, int32_t *out) {
    for (unsigned i = 0; i < values->n_value_names; i++) {
        if (!syn__str_is(name, values->values_by_name[i].name)) continue;
        *out = values->values[values->values_by_name[i].index].value;
        return true;
    }
    return false;
}

/* ---- An attribute's value ---- */

syn__et_value syn__et_value_of(uint32_t field) {
    const ProtobufCFieldDescriptor *f = field_of(&syn__chakra__attribute_proto__descriptor, field);
    if (f == NULL || (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return (syn__et_value){NULL, false};
    if (f->type != PROTOBUF_C_TYPE_MESSAGE) return (syn__et_value){&types[f->type], false};
    /* A list is a message with one repeated field, which has the same number in all lists. */
    const syn__et_message *list = (const syn__et_message *)f->descriptor;
    f = list->fields;
    if (list->n_fields != 1 || f->label != PROTOBUF_C_LABEL_REPEATED ||
        f->type == PROTOBUF_C_TYPE_MESSAGE || f->id != SYN__ET_INT64_LIST_VALUES)
        return (syn__et_value){NULL, false};
    return (syn__et_value){&types[f->type], true};
}

/* ---- Single messages ---- */

static void *allocate(void *failed, size_t bytes) {
    void *memory = syn_malloc(bytes);
    if (memory == NULL) *(bool *)failed = true;
    return memory;
}

static void release(void *unused, void *memory) {
    (void)unused;
    syn_free(memory);
}

size_t syn__et_pack_ranks(const int32_t *ranks, size_t n, char *out) {
    Syn__Chakra__Int32List list = SYN__CHAKRA__INT32_LIST__INIT;
    list.n_values = n;
    list.values = (int32_t *)(uintptr_t)ranks; /* protobuf-c only reads the ranks */
    return out == NULL ? syn__chakra__int32_list__get_packed_size(&list)
                       : syn__chakra__int32_list__pack(&list, (uint8_t *)out);
}

syn_status syn__et_unpack_ranks(syn__str list, int32_t **out, size_t *n, syn_error *err) {
    bool failed = false;
    ProtobufCAllocator memory = {allocate, release, &failed};
    *out = NULL;
    *n = 0;
    Syn__Chakra__Int32List *m =
        syn__chakra__int32_list__unpack(&memory, list.bytes, (const uint8_t *)list.text);
    if (m == NULL && failed) return SYN_FAIL_NOMEM(err, list.bytes, "a group");
    if (m == NULL) return SYN_FAIL(err, SYN_E_FORMAT, "the ranks of a group are not an int32_list");
    *out = m->values;
    *n = m->n_values;
    m->values = NULL;
    m->n_values = 0;
    syn__chakra__int32_list__free_unpacked(m, &memory);
    return SYN_OK;
}

int64_t syn__et_unpack_rank(syn__str message) {
    bool failed = false;
    ProtobufCAllocator memory = {allocate, release, &failed};
    Syn__Chakra__GlobalMetadata *m =
        syn__chakra__global_metadata__unpack(&memory, message.bytes, (const uint8_t *)message.text);
    int64_t rank = -1;
    for (size_t i = 0; m != NULL && i < m->n_attr; i++) {
        const Syn__Chakra__AttributeProto *a = m->attr[i];
        if (a->value_case == SYN__CHAKRA__ATTRIBUTE_PROTO__VALUE_INT64_VAL &&
            strcmp(a->name, "rank") == 0)
            rank = a->int64_val;
    }
    if (m != NULL) syn__chakra__global_metadata__free_unpacked(m, &memory);
    return rank;
}

#else

static const syn__et_enum *const node_types = NULL, *const collectives = NULL;

syn_status syn__et_supported(syn_error *err) {
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "this build has no Chakra execution traces because protobuf-c was missing: "
                    "install the packages libprotobuf-c-dev and protobuf-c-compiler and build "
                    "again");
}

const syn__et_message *syn__et_message_of(syn__et_record record) {
    (void)record;
    return NULL;
}

bool syn__et_member_at(const syn__et_message *m, size_t place, syn__et_member *out) {
    (void)m, (void)place, (void)out;
    return false;
}

bool syn__et_member_of(const syn__et_message *m, uint32_t number, syn__et_member *out) {
    (void)m, (void)number, (void)out;
    return false;
}

bool syn__et_member_named(const syn__et_message *m, syn__str name, syn__et_member *out) {
    (void)m, (void)name, (void)out;
    return false;
}

const char *syn__et_value_name(const syn__et_enum *values, int64_t number) {
    (void)values, (void)number;
    return NULL;
}

bool syn__et_value_named(const syn__et_enum *values, syn__str name, int32_t *out) {
    (void)values, (void)name, (void)out;
    return false;
}

syn__et_value syn__et_value_of(uint32_t field) {
    (void)field;
    return (syn__et_value){NULL, false};
}

size_t syn__et_pack_ranks(const int32_t *ranks, size_t n, char *out) {
    (void)ranks, (void)n, (void)out;
    return 0;
}

syn_status syn__et_unpack_ranks(syn__str list, int32_t **out, size_t *n, syn_error *err) {
    (void)list;
    *out = NULL;
    *n = 0;
    return syn__et_supported(err);
}

int64_t syn__et_unpack_rank(syn__str message) {
    (void)message;
    return -1;
}

#endif

/* ---- Names ---- */

const char *syn__et_field_name(uint32_t field) {
    syn__et_member m;
    return syn__et_member_of(syn__et_message_of(SYN__ET_RECORD_ATTR), field, &m) ? m.name : "none";
}

uint32_t syn__et_field_by_name(syn__str name) {
    syn__et_member m;
    const bool found = syn__et_member_named(syn__et_message_of(SYN__ET_RECORD_ATTR), name, &m);
    return found && syn__et_type_of(m.number) != NULL ? m.number : 0;
}

const char *syn__et_node_type_name(uint32_t type) {
    return syn__et_value_name(node_types, (int32_t)type);
}

bool syn__et_node_type_named(syn__str name, uint32_t *out) {
    int32_t type;
    const bool found = syn__et_value_named(node_types, name, &type);
    if (found) *out = (uint32_t)type;
    return found;
}

const char *syn__et_collective_name(int64_t comm_type) {
    return syn__et_value_name(collectives, comm_type);
}

static const char *kind_id(syn_comm_kind kind) {
    static const char *const ids[] = {
#define SYN_X(id, name) #id,
        SYN_COMM_KIND_LIST(SYN_X)
#undef SYN_X
    };
    return (size_t)kind < SYN_COMM_KIND_COUNT ? ids[kind] : "";
}

int32_t syn__et_comm_type(syn_comm_kind kind) {
    int32_t type;
    return syn__et_value_named(collectives, syn__str_of(kind_id(kind)), &type) ? type : -1;
}

syn_comm_kind syn__et_comm_kind(int64_t comm_type) {
    const char *name = syn__et_collective_name(comm_type);
    for (int k = 0; name != NULL && k < SYN_COMM_KIND_COUNT; k++)
        if (strcmp(kind_id((syn_comm_kind)k), name) == 0) return (syn_comm_kind)k;
    return SYN_COMM_NONE;
}
