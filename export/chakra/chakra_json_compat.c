/* The output of MLCommons Chakra's jsonizer, byte for byte: for each message Python's
   MessageToJson, which is json.dumps(indent=2) of protobuf's JSON mapping. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/chakra_json.h"
#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_node.h"
#include "export/text/python_json.h"
#include "syntorch/base/utf8.h"

/* ---- Strings ---- */

/* As json.dumps: all but ASCII's printable characters escaped. */
static void put_string(syn_sink *sink, syn__str s) {
    const char *p = s.text, *const end = p + s.bytes;
    char code[SYN__PYTHON_ESCAPE];
    syn_sink_char(sink, '"');
    while (p < end) {
        const char *const from = p;
        while (p < end && *p >= ' ' && *p < 127 && *p != '"' && *p != '\\') p++;
        syn_sink_write(sink, from, (size_t)(p - from));
        if (p == end) break;
        const size_t n = syn_utf8_char_bytes(p, (size_t)(end - p));
        if (n != 0) syn_sink_write(sink, code, syn__python_escape(p, n, code));
        p += n != 0 ? n : 1;
    }
    syn_sink_char(sink, '"');
}

/* ---- Structure ---- */

/* An object or array in the making. */
typedef struct printer {
    syn_sink *sink;
    int depth;
    bool empty; /* nothing is in the innermost one yet */
} printer;

static void begin(printer *p, char bracket) {
    syn_sink_char(p->sink, bracket);
    p->depth++;
    p->empty = true;
}

static void new_line(printer *p) {
    syn_sink_char(p->sink, '\n');
    for (int i = 0; i < p->depth; i++) syn_sink_write(p->sink, "  ", 2);
}

static void end(printer *p, char bracket) {
    p->depth--;
    if (!p->empty) new_line(p);
    p->empty = false;
    syn_sink_char(p->sink, bracket);
}

static void item(printer *p) {
    if (!p->empty) syn_sink_char(p->sink, ',');
    p->empty = false;
    new_line(p);
}

static void key(printer *p, const char *name) {
    item(p);
    syn_sink_char(p->sink, '"');
    syn_sink_text(p->sink, name);
    syn_sink_text(p->sink, "\": ");
}

static void put_u64(printer *p, uint64_t v) {
    syn_sink_char(p->sink, '"');
    syn_sink_u64(p->sink, v);
    syn_sink_char(p->sink, '"');
}

static void member_u64(printer *p, const char *name, uint64_t v) {
    if (v == 0) return;
    key(p, name);
    put_u64(p, v);
}

static void member_text(printer *p, const char *name, syn__str s) {
    if (s.bytes == 0) return;
    key(p, name);
    put_string(p->sink, s);
}

/* ---- Values ---- */

/* The shortest decimal of at least six digits that rounds to the same float, as a double. */
static double shortest_float(float value) {
    char text[SYN__ET_VARINT_MAX + 40];
    double rounded = (double)value;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
        rounded = strtod(text, NULL); /* same locale both ways */
        if ((float)rounded == value) break;
    }
    return rounded;
}

static void put_float(printer *p, const syn__et_type *type, uint64_t bits) {
    char text[SYN_NUMBER_TEXT];
    double value = syn__et_float_of(type, bits);
    if (type->bits != 64 && isfinite(value)) value = shortest_float((float)value);
    if (isnan(value)) syn_sink_text(p->sink, "\"NaN\"");
    else if (isinf(value)) syn_sink_text(p->sink, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else syn_sink_write(p->sink, text, syn__python_float(value, text));
}

static void put_integer(printer *p, const syn__et_type *type, uint64_t bits) {
    if (type->bits == 64) syn_sink_char(p->sink, '"');
    if (type->is_signed) syn_sink_i64(p->sink, (int64_t)bits);
    else syn_sink_u64(p->sink, bits);
    if (type->bits == 64) syn_sink_char(p->sink, '"');
}

static void put_scalar(printer *p, const syn__et_type *type, uint64_t bits, syn__str data) {
    switch (type->form) {
    case SYN__ET_FORM_BOOL:
        syn_sink_text(p->sink, bits != 0 ? "true" : "false");
        return;
    case SYN__ET_FORM_FLOAT:
        put_float(p, type, bits);
        return;
    case SYN__ET_FORM_STRING:
        put_string(p->sink, data);
        return;
    case SYN__ET_FORM_BYTES:
        syn__et_json_base64(p->sink, data);
        return;
    case SYN__ET_FORM_INT:
        put_integer(p, type, bits);
        return;
    }
}

static void put_list(printer *p, const syn__et_type *type, syn__str payload) {
    syn__et_list list = syn__et_list_of(type, payload);
    syn__str data;
    uint64_t bits;
    bool any = false;
    begin(p, '{');
    for (; syn__et_list_next(&list, &bits, &data); any = true) {
        if (!any) {
            key(p, "values");
            begin(p, '[');
        }
        item(p);
        put_scalar(p, type, bits, data);
    }
    if (any) end(p, ']');
    end(p, '}');
}

/* ---- Messages ---- */

static void put_attrs(printer *p, const syn__et_attr *attrs, size_t n) {
    if (n == 0) return;
    key(p, "attr");
    begin(p, '[');
    for (size_t i = 0; i < n; i++) {
        const syn__et_attr *a = &attrs[i];
        item(p);
        begin(p, '{');
        member_text(p, "name", a->name);
        member_text(p, "docString", a->doc);
        if (a->field != SYN__ET_NONE) {
            const syn__et_type *type = syn__et_type_of(a->field);
            const bool list = syn__et_is_list(a->field);
            key(p, list ? type->list_json : type->value_json);
            if (list) put_list(p, type, a->data);
            else put_scalar(p, type, a->bits, a->data);
        }
        end(p, '}');
    }
    end(p, ']');
}

static void put_deps(printer *p, const char *name, const uint64_t *ids, size_t n) {
    if (n == 0) return;
    key(p, name);
    begin(p, '[');
    for (size_t i = 0; i < n; i++) {
        item(p);
        put_u64(p, ids[i]);
    }
    end(p, ']');
}

static void put_io(printer *p, const char *name, const syn__et_io *io) {
    static const char *const names[] = {"values", "shapes", "types"};
    if (!io->present) return;
    key(p, name);
    begin(p, '{');
    for (int i = 0; i < 3; i++) member_text(p, names[i], io->text[i]);
    end(p, '}');
}

static void put_type(printer *p, uint32_t type) {
    if (type == SYN__ET_INVALID_NODE) return;
    const char *name = syn__et_node_type_name(type);
    key(p, "type");
    if (name == NULL) {
        syn_sink_i64(p->sink, (int64_t)(int32_t)type);
        return;
    }
    syn_sink_char(p->sink, '"');
    syn_sink_text(p->sink, name);
    syn_sink_char(p->sink, '"');
}

static void put_node(printer *p, const syn__et_node *n) {
    begin(p, '{');
    member_u64(p, "id", n->id);
    member_text(p, "name", n->name);
    put_type(p, n->type);
    put_deps(p, "ctrlDeps", n->ctrl, n->n_ctrl);
    put_deps(p, "dataDeps", n->data, n->n_data);
    member_u64(p, "startTimeMicros", n->start_micros);
    member_u64(p, "durationMicros", n->duration_micros);
    put_io(p, "inputs", &n->io[0]);
    put_io(p, "outputs", &n->io[1]);
    put_attrs(p, n->attrs, n->n_attrs);
    end(p, '}');
}

static void put_meta(printer *p, const syn__et_meta *m) {
    begin(p, '{');
    member_text(p, "version", m->version);
    put_attrs(p, m->attrs, m->n_attrs);
    end(p, '}');
}

/* ---- The file ---- */

static syn_status put_message(printer *p, syn__et_decoder *d, syn__str message, bool is_meta) {
    syn__et_meta meta;
    syn__et_node node;
    if (is_meta) SYN_TRY(syn__et_decode_meta(d, message, &meta));
    else SYN_TRY(syn__et_decode_node(d, message, &node));
    if (is_meta) put_meta(p, &meta);
    else put_node(p, &node);
    return SYN_OK;
}

static syn_status put_file(syn__et_frames *frames, syn__et_decoder *d, syn_sink *out,
                           syn_chakra_json_stats *stats, syn_error *err) {
    printer p = {out, 0, true};
    for (bool is_meta = true; syn_sink_status(out) == SYN_OK; is_meta = false) {
        syn__et_frame frame;
        bool more;
        SYN_TRY(syn__et_frames_next(frames, &frame, &more, err));
        if (!more && is_meta) syn_sink_text(out, "{}");
        if (!more) return SYN_OK;
        if (!is_meta && frame.message.bytes == 0) {
            stats->left_out_bytes = (uint64_t)(frames->reader.end - frames->reader.cur);
            return SYN_OK;
        }
        const syn_status status = put_message(&p, d, frame.message, is_meta);
        if (status == SYN_E_FORMAT) return syn__et_frames_fail(frames, d->at, d->why, err);
        if (status != SYN_OK) return SYN_FAIL_NOMEM(err, frame.message.bytes, "a message");
        stats->n_nodes += !is_meta;
    }
    return SYN_OK;
}

syn_status syn_chakra_et_to_json_compat(const char *name, const char *data, size_t bytes,
                                        syn_sink *out, syn_chakra_json_stats *stats,
                                        syn_error *err) {
    syn__et_frames frames = syn__et_frames_of(name, data, bytes);
    syn__et_decoder decoder = {0};
    *stats = (syn_chakra_json_stats){0};
    const syn_status status = put_file(&frames, &decoder, out, stats, err);
    syn__et_decoder_free(&decoder);
    return status;
}
