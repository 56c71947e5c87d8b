/* Implements pt_written.h: decodes the bytes of a trace and prints each message. */
#include "tests/support/pt_written.h"

#include <stdio.h>

bool written_message(syn__str *rest, syn__str *message) {
    syn__et_reader reader = {rest->text, rest->text + rest->bytes, NULL};
    uint64_t bytes;
    if (rest->bytes == 0 || !syn__et_read_varint(&reader, &bytes)) return false;
    message->text = reader.cur;
    message->bytes = (size_t)bytes;
    rest->bytes -= (size_t)(reader.cur + bytes - rest->text);
    rest->text = reader.cur + bytes;
    return true;
}

static bool written_skip(const char *name) {
    static const char *const lists[] = {"launch_deps", "stream_deps", "sync_deps", "group_deps",
                                        "thread_deps"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(name, lists[i]) == 0) return true;
    }
    return false;
}

/* For each dependency list that contains the value, writes its letter: "L", "S", "Y", "G" or
   "T". */
static void written_classes(const syn__et_node *node, uint64_t value, char *out) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        syn__et_field field;
        uint64_t v;
        char name[64] = "";
        memcpy(name, a->name.text, a->name.bytes < 63 ? a->name.bytes : 63);
        if (!written_skip(name) || a->field != SYN__ET_UINT64_LIST) continue;
        syn__et_reader message = {a->data.text, a->data.text + a->data.bytes, NULL};
        if (!syn__et_read_field(&message, &field) || field.number != 1) continue;
        syn__et_reader list = {field.data.text, field.data.text + field.data.bytes, NULL};
        while (list.cur < list.end && syn__et_read_varint(&list, &v)) {
            if (v == value) *out++ = name[0] == 's' && name[1] == 'y' ? 'Y' : (char)(name[0] - 32);
        }
    }
    *out = '\0';
}

void written_attr(const syn__et_attr *a, char *out, size_t cap) {
    char name[64] = "";
    memcpy(name, a->name.text, a->name.bytes < 63 ? a->name.bytes : 63);
    if (a->field == SYN__ET_STRING)
        snprintf(out, cap, "%s='%.*s'", name, (int)a->data.bytes, a->data.text);
    else snprintf(out, cap, "%s=%lld:%s", name, (long long)a->bits, syn__et_field_name(a->field));
}

/* Writes the messages as "1 K 0+5 | 2 K2 5+7 1S" and, with attributes, "{a=1:int64_val ...}" after
   each message. */
static void written_text(const char *data, size_t bytes, bool attributes, char *out, size_t cap) {
    syn__str rest = {data, bytes}, message;
    syn__et_decoder decoder = {0};
    syn__et_node node;
    size_t n = 0;
    out[0] = '\0';
    written_message(&rest, &message); /* skips the metadata message */
    while (written_message(&rest, &message)) {
        if (syn__et_decode_node(&decoder, message, &node) != SYN_OK) break;
        n += (size_t)snprintf(out + n, cap - n, "%s%llu %.*s %llu+%llu", n != 0 ? " | " : "",
                              (unsigned long long)node.id, (int)node.name.bytes, node.name.text,
                              (unsigned long long)node.start_micros,
                              (unsigned long long)node.duration_micros);
        for (size_t i = 0; i < node.n_data; i++) {
            char classes[8];
            written_classes(&node, node.data[i], classes);
            n += (size_t)snprintf(out + n, cap - n, " %llu%s", (unsigned long long)node.data[i],
                                  classes);
        }
        for (size_t i = 0; attributes && i < node.n_attrs; i++) {
            char text[256];
            written_attr(&node.attrs[i], text, sizeof text);
            if (!strstr(text, "_deps=")) n += (size_t)snprintf(out + n, cap - n, " %s", text);
        }
        if (node.n_ctrl != 0) n += (size_t)snprintf(out + n, cap - n, " CTRL");
        if (n >= cap) break;
    }
    syn__et_decoder_free(&decoder);
}

syn_status written(const syn__pt_rank *rank, bool attributes, char *out, size_t cap,
                   syn_error *err) {
    const syn_pytorch_options options = {0};
    syn_sink *sink;
    size_t bytes;
    out[0] = '\0';
    SYN_TRY(syn_sink_open_memory(&sink, err));
    syn_status status = syn__pt_write_sim(rank, options.version, sink, NULL, err);
    const char *data = syn_sink_data(sink, &bytes);
    if (status == SYN_OK && data != NULL) written_text(data, bytes, attributes, out, cap);
    const syn_status closed = syn_sink_close(sink, true, err);
    return status != SYN_OK ? status : closed;
}
