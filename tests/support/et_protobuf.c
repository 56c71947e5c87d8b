#include "tests/support/et_protobuf.h"

#include "tests/support/random.h"
#include "tests/support/test.h"

#if defined(SYN_HAVE_PROTOBUF_C)
#include "chakra_schema.pb-c.h" /* which protoc-c makes of export/chakra/wire/et_def.proto */
#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_node.h"

static const ProtobufCMessageDescriptor *type_of(bool is_meta) {
    return is_meta ? &syn__chakra__global_metadata__descriptor : &syn__chakra__node__descriptor;
}

static bool equal(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static bool same_message(syn__str message, bool is_meta, bool *canonical) {
    ProtobufCMessage *m = protobuf_c_message_unpack(type_of(is_meta), NULL, message.bytes,
                                                    (const uint8_t *)message.text);
    if (m == NULL) return false;
    const size_t bytes = protobuf_c_message_get_packed_size(m);
    uint8_t *packed = (uint8_t *)malloc(bytes + 1);
    NEED(packed != NULL, "out of memory");
    NEED(protobuf_c_message_pack(m, packed) == bytes, "the size is another");
    protobuf_c_message_free_unpacked(m, NULL);
    syn__et_decoder decoder = {0};
    syn__buf ours = {0};
    syn__et_node node;
    syn__et_meta meta;
    const syn_status status = is_meta ? syn__et_decode_meta(&decoder, message, &meta)
                                      : syn__et_decode_node(&decoder, message, &node);
    if (status == SYN_OK && is_meta) syn__et_put_meta(&ours, &meta);
    else if (status == SYN_OK) syn__et_put_node(&ours, &node);
    const bool same = status == SYN_OK && equal(ours.data, ours.bytes, packed, bytes);
    *canonical = *canonical && equal(packed, bytes, message.text, message.bytes);
    syn__buf_free(&ours);
    syn__et_decoder_free(&decoder);
    free(packed);
    return same;
}

bool et_same_as_protobuf(const char *data, size_t bytes, bool *canonical) {
    syn__et_frames frames = syn__et_frames_of("trace", data, bytes);
    syn__et_frame frame;
    bool more = true;
    *canonical = true;
    for (size_t n = 0;; n++) {
        if (syn__et_frames_next(&frames, &frame, &more, NULL) != SYN_OK) return false;
        if (!more) return n > 0;
        if (!same_message(frame.message, n == 0, canonical)) return false;
    }
}

/* ---- Random messages ---- */

static struct {
    char data[1 << 18];
    size_t used;
} pool;

static void *take(size_t bytes) {
    char *at = pool.data + pool.used;
    pool.used += (bytes + 15) / 16 * 16;
    NEED(pool.used <= sizeof pool.data, "a random message is too large");
    memset(at, 0, bytes);
    return at;
}

static void fill(uint64_t *state, ProtobufCMessage *m, int depth);

static uint64_t random_bits(uint64_t *state) {
    const uint64_t bits = random_u64(state);
    return bits >> (random_u32(state) % 64) ^ (random_u32(state) % 4 == 0 ? UINT64_MAX : 0);
}

static char *random_text(uint64_t *state) {
    static const char *const texts[] = {"", "a", "\"\\/\n\x01", "\xC3\xA4\xE2\x82\xAC", "name_1"};
    return (char *)(uintptr_t)texts[random_u32(state) % 5];
}

static size_t size_of(ProtobufCType type) {
    static const size_t sizes[] = {[PROTOBUF_C_TYPE_INT64] = 8,
                                   [PROTOBUF_C_TYPE_SINT64] = 8,
                                   [PROTOBUF_C_TYPE_SFIXED64] = 8,
                                   [PROTOBUF_C_TYPE_UINT64] = 8,
                                   [PROTOBUF_C_TYPE_FIXED64] = 8,
                                   [PROTOBUF_C_TYPE_DOUBLE] = 8,
                                   [PROTOBUF_C_TYPE_STRING] = 8,
                                   [PROTOBUF_C_TYPE_MESSAGE] = 8,
                                   [PROTOBUF_C_TYPE_BYTES] = sizeof(ProtobufCBinaryData)};
    return type < COUNT(sizes) && sizes[type] != 0 ? sizes[type] : 4;
}

static void random_value(uint64_t *state, const ProtobufCFieldDescriptor *f, char *at, int depth) {
    const ProtobufCEnumDescriptor *e = f->descriptor;
    const uint64_t bits = random_bits(state);
    const double number = (double)(int64_t)bits / 3;
    const float single = (float)number;
    ProtobufCBinaryData data = {(size_t)(bits % 5), (uint8_t *)random_text(state)};
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = random_text(state);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        if (data.len > strlen((char *)data.data)) data.len = 0;
        memcpy(at, &data, sizeof data);
        break;
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessageDescriptor *type = f->descriptor;
        ProtobufCMessage *m = take(type->sizeof_message);
        type->message_init(m);
        fill(state, m, depth + 1);
        *(ProtobufCMessage **)at = m;
        break;
    }
    case PROTOBUF_C_TYPE_ENUM: /* open: also what it lacks */
        *(int *)at = bits % 8 == 0 ? 1000 : e->values[bits % e->n_values].value;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = bits % 2;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(at, &number, sizeof number);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(at, &single, sizeof single);
        break;
    default:
        memcpy(at, &bits, size_of(f->type));
    }
}

static void random_list(uint64_t *state, const ProtobufCFieldDescriptor *f, char *m, int depth) {
    const size_t n = random_u32(state) % 4;
    char *elements = take(n * size_of(f->type) + 1);
    for (size_t i = 0; i < n; i++) random_value(state, f, elements + i * size_of(f->type), depth);
    *(size_t *)(m + f->quantifier_offset) = n;
    *(char **)(m + f->offset) = elements;
}

/* Half of the fields, and one of those that exclude each other. */
static void fill(uint64_t *state, ProtobufCMessage *message, int depth) {
    const ProtobufCMessageDescriptor *type = message->descriptor;
    char *m = (char *)message;
    const uint32_t chosen = random_u32(state) % type->n_fields;
    for (uint32_t i = 0; i < type->n_fields && depth < 5; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const bool one = (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
        if (one ? i != chosen : random_u32(state) % 2 != 0) continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) random_list(state, f, m, depth);
        else random_value(state, f, m + f->offset, depth);
        if (one) *(uint32_t *)(m + f->quantifier_offset) = f->id;
    }
}

size_t et_random_message(uint64_t *state, bool is_meta, const char **out) {
    static uint8_t packed[1 << 16];
    const ProtobufCMessageDescriptor *type = type_of(is_meta);
    pool.used = 0;
    ProtobufCMessage *m = take(type->sizeof_message);
    type->message_init(m);
    fill(state, m, 0);
    NEED(protobuf_c_message_get_packed_size(m) <= sizeof packed, "a message is too large");
    *out = (const char *)packed;
    return protobuf_c_message_pack(m, packed);
}

#else

bool et_same_as_protobuf(const char *data, size_t bytes, bool *canonical) {
    (void)data, (void)bytes, (void)canonical;
    return false;
}

size_t et_random_message(uint64_t *state, bool is_meta, const char **out) {
    (void)state, (void)is_meta;
    *out = "";
    return 0;
}

#endif
