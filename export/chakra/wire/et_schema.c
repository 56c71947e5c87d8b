#include "export/chakra/wire/et_schema.h"

#ifdef SYN_HAVE_PROTOBUF_C

#include "et_def.pb-c.h"
#include "export/chakra/wire/et_wire.h"
#include "syntorch/memory.h"

/* Unpacks and packs one message; *canonical is cleared if the bytes differ. */
static syn_status check_message(syn__str message, bool is_meta, bool *canonical, bool *fits) {
    const ProtobufCMessageDescriptor *type = is_meta
                                                 ? &chakra_proto_msg__global_metadata__descriptor
                                                 : &chakra_proto_msg__node__descriptor;
    ProtobufCMessage *m =
        protobuf_c_message_unpack(type, NULL, message.bytes, (const uint8_t *)message.text);
    *fits = m != NULL;
    if (m == NULL) return SYN_OK;
    const size_t bytes = protobuf_c_message_get_packed_size(m);
    syn_status status = SYN_OK;
    if (bytes != message.bytes) {
        *canonical = false;
    } else {
        uint8_t *packed = (uint8_t *)syn_malloc(bytes);
        if (packed == NULL) status = SYN_E_NOMEM;
        else if (protobuf_c_message_pack(m, packed) != bytes ||
                 memcmp(packed, message.text, bytes) != 0)
            *canonical = false;
        syn_free(packed);
    }
    protobuf_c_message_free_unpacked(m, NULL);
    return status;
}

syn_status syn__et_schema_check(const char *name, const char *data, size_t bytes, bool *canonical,
                                syn_error *err) {
    syn__et_reader r = {data, data + bytes, NULL};
    *canonical = true;
    for (size_t n = 0; r.cur < r.end || n == 0; n++) {
        syn__str message;
        bool fits = false;
        const size_t at = (size_t)(r.cur - data);
        if (syn__et_read_message(&r, &message) &&
            check_message(message, n == 0, canonical, &fits) != SYN_OK)
            return SYN_FAIL_NOMEM(err, message.bytes, "checking a message");
        if (!fits)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%.200s, byte %zu: message %zu does not fit Chakra's schema", name, at,
                            n);
    }
    return SYN_OK;
}

#else

syn_status syn__et_schema_check(const char *name, const char *data, size_t bytes, bool *canonical,
                                syn_error *err) {
    (void)data;
    (void)bytes;
    *canonical = false;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "%.200s was not checked against Chakra's schema: built without protobuf-c",
                    name);
}

#endif
