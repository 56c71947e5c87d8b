/* Writes the .et file of the compat converter; see pt_compat_convert.h. */
#include "export/chakra/wire/et_node.h"
#include "export/pytorch/compat/pt_compat_convert.h"
#include "export/text/python_json.h"

#define FLUSH_BYTES ((size_t)128 << 10)

typedef struct writer {
    syn__converter *c;
    syn__buf out;  /* messages that are not written yet */
    syn__buf io;   /* inputs and outputs of `host` */
    syn__buf base; /* attributes of `host` up to op_schema */
    uint32_t host; /* host node whose texts are in io and base; its device work repeats them */
} writer;

/* Writes the length of the text in the byte that was reserved in front of it, at `at`. If the
   length needs more bytes, the text is moved. */
static void close_length(syn__buf *buf, size_t at) {
    if (buf->failed) return;
    const size_t bytes = buf->bytes - at - 1, width = syn__et_varint_bytes(bytes);
    if (width > 1) {
        if (syn__buf_reserve(buf, width - 1) == NULL) return;
        memmove(buf->data + at + width, buf->data + at + 1, bytes);
        buf->bytes += width - 1;
    }
    (void)syn__et_varint(buf->data + at, bytes);
}

static size_t open_length(syn__buf *buf, uint32_t field) {
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__buf_put(buf, "", 1);
    return buf->bytes - 1;
}

/* ---- Attributes ---- */

static void put_attr(syn__buf *buf, const char *name, uint32_t field, uint64_t bits,
                     syn__str text) {
    const size_t n = strlen(name);
    char *p = syn__buf_reserve(buf, 64 + n);
    if (p == NULL) return;
    char *const begin = p;
    p[0] = SYN__ET_NODE_ATTR << 3 | SYN__ET_WIRE_LEN;
    p[2] = SYN__ET_ATTRIBUTE_PROTO_NAME << 3 | SYN__ET_WIRE_LEN;
    p[3] = (char)n; /* fits in one byte, because these names are short */
    memcpy(p + 4, name, n);
    p = syn__et_varint(p + 4 + n,
                       (uint64_t)field << 3 | (field == SYN__ET_STRING ? SYN__ET_WIRE_LEN : 0u));
    p = syn__et_varint(p, field == SYN__ET_STRING ? text.bytes : bits);
    buf->bytes += (size_t)(p - begin);
    const size_t at = (size_t)(begin + 1 - buf->data);
    if (field == SYN__ET_STRING) syn__buf_put(buf, text.text, text.bytes);
    close_length(buf, at);
}

static void put_int(syn__buf *buf, const char *name, int64_t value) {
    put_attr(buf, name, SYN__ET_INT64, (uint64_t)value, (syn__str){"", 0});
}

static void put_text(syn__buf *buf, const char *name, syn__str text) {
    put_attr(buf, name, SYN__ET_STRING, 0, text);
}

/* Whether a value fits int64. A value in the upper half of uint64 fits only if it was written as a
   negative number. */
static bool fits(const syn__pt_host_node *host, const char *name, uint64_t value) {
    return value <= INT64_MAX || *syn__pt_attr(host, name).text == '-';
}

static syn_status check_attrs(const writer *w, const syn__pt_host_node *host) {
    static const char *const names[] = {"rf_id", "fw_parent", "seq_id",   "scope",
                                        "tid",   "fw_tid",    "op_schema"};
    for (unsigned i = 0; i < 7; i++)
        if (!(host->has & (unsigned)SYN__PT_HAS_RF_ID << i) || (host->has & SYN__PT_HAS_FLAT))
            return SYN__COMPAT_STOP(
                w->c, "\"AttributeError: 'PyTorchNode' object has no attribute '%s'\" in node %llu",
                names[i], (unsigned long long)host->id);
    return SYN_OK;
}

static syn_status put_base(writer *w, const syn__pt_host_node *host) {
    const struct {
        const char *name;
        uint64_t value;
    } ints[] = {{"rf_id", host->rf_id},
                {"fw_parent", host->fw_parent},
                {"seq_id", (uint64_t)host->seq_id},
                {"scope", host->scope},
                {"tid", host->tid},
                {"fw_tid", host->fw_tid}};
    w->base.bytes = 0;
    SYN_TRY(check_attrs(w, host));
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        if (!fits(host, ints[i].name, ints[i].value))
            return SYN__COMPAT_STOP(
                w->c, "\"ValueError: Value out of range: %llu\", %s of node %llu",
                (unsigned long long)ints[i].value, ints[i].name, (unsigned long long)host->id);
        put_int(&w->base, ints[i].name, (int64_t)ints[i].value);
    }
    const syn__compat_name *schema = syn__compat_host_text(w->c, host->op_schema);
    if (schema == NULL) return SYN_FAIL(w->c->err, SYN_E_NOMEM, "out of memory for strings");
    put_text(&w->base, "op_schema", schema->text);
    return SYN_OK;
}

/* ---- Inputs and outputs ---- */

static const struct {
    const char *name;
    uint32_t field;
} parts[] = {{"values", SYN__ET_IOINFO_VALUES},
             {"shapes", SYN__ET_IOINFO_SHAPES},
             {"types", SYN__ET_IOINFO_TYPES}};

/* Writes values, shapes and types, in this order, in the format of Python's str(). */
static bool put_io(syn__buf *buf, uint32_t field, syn__str object) {
    const size_t whole = open_length(buf, field);
    syn__loose l;
    syn__str key, text;
    uint32_t next = 0;
    syn__loose_init(&l, object.text, object.bytes);
    bool usual = syn__loose_value(&l, &text) == SYN__LOOSE_OBJECT;
    while (usual && next < 3 && syn__loose_member(&l, &key)) {
        usual = syn__str_is(key, parts[next].name);
        if (!usual) break;
        const size_t at = open_length(buf, parts[next++].field);
        l.cur = syn__python_text_next(buf, l.cur, l.end);
        close_length(buf, at);
    }
    for (; next < 3; next++) { /* the file has them in another order */
        const syn__str part = syn__loose_find(object, parts[next].name);
        if (part.bytes == 0) return false;
        const size_t at = open_length(buf, parts[next].field);
        syn__python_text(buf, part);
        close_length(buf, at);
    }
    close_length(buf, whole);
    return true;
}

static syn_status describe(writer *w, uint32_t index) {
    const syn__pt_host_node *host = &w->c->host->nodes[index];
    if (w->host == index) return SYN_OK;
    w->host = index;
    w->io.bytes = 0;
    if (!put_io(&w->io, SYN__ET_NODE_INPUTS, syn__pt_inputs(host)) ||
        !put_io(&w->io, SYN__ET_NODE_OUTPUTS, syn__pt_outputs(host)))
        return SYN__COMPAT_STOP(w->c,
                                "\"KeyError\", because node %llu lacks values, shapes or types of "
                                "its inputs or outputs",
                                (unsigned long long)host->id);
    return put_base(w, host);
}

/* ---- Nodes ---- */

static syn_status micros(const writer *w, const syn__compat_node *node, uint32_t flags,
                         uint64_t *out) {
    const double us = node->exclusive;
    if (!(us > -1.0 && us < 18446744073709551616.0))
        return SYN__COMPAT_STOP(w->c,
                                "\"ValueError: Value out of range\", exclusive_dur of node %llu",
                                (unsigned long long)node->id);
    *out = us < 1.0 || (flags & SYN__NAME_OPTIMIZER) ? 0 : (uint64_t)us;
    return SYN_OK;
}

static void put_number(syn__buf *buf, uint32_t field, uint64_t value) {
    if (value == 0) return;
    syn__et_put_tag(buf, field, SYN__ET_WIRE_VARINT);
    syn__et_put_varint(buf, value);
}

static void put_deps(writer *w, const syn__compat_node *node) {
    const syn__converter *c = w->c;
    if (node->ctrl_dep) {
        const size_t at = open_length(&w->out, SYN__ET_NODE_CTRL_DEPS);
        syn__et_put_varint(&w->out, node->parent_id);
        close_length(&w->out, at);
    }
    if (node->first_dep == SYN__PT_NONE) return;
    const size_t at = open_length(&w->out, SYN__ET_NODE_DATA_DEPS);
    for (uint32_t d = node->first_dep; d != SYN__PT_NONE; d = c->deps[d].next)
        syn__et_put_varint(&w->out, c->deps[d].id);
    close_length(&w->out, at);
}

static void put_comm(writer *w, const syn__compat_comm *comm) {
    if (comm->type != SYN__ET_COMM_COLL_NODE && comm->type != SYN__ET_COMM_SEND_NODE &&
        comm->type != SYN__ET_COMM_RECV_NODE)
        return;
    if (comm->type == SYN__ET_COMM_COLL_NODE) put_int(&w->out, "comm_type", comm->collective);
    put_int(&w->out, "comm_size", comm->bytes);
    if (comm->group.bytes != 0) put_text(&w->out, "pg_name", comm->group);
}

static syn_status put_node(writer *w, const syn__compat_node *node) {
    const syn__compat_name *name = syn__compat_name_of(w->c, node);
    syn__compat_comm comm;
    uint64_t duration = 0;
    if (name == NULL) return SYN_FAIL(w->c->err, SYN_E_NOMEM, "out of memory for names");
    SYN_TRY(describe(w, node->host));
    SYN_TRY(syn__compat_comm_of(w->c, node, &comm));
    SYN_TRY(micros(w, node, name->flags, &duration));
    syn__buf *out = &w->out;
    const size_t at = out->bytes;
    syn__buf_put(out, "", 1);
    put_number(out, SYN__ET_NODE_ID, node->id);
    if (name->text.bytes != 0) syn__et_put_str(out, SYN__ET_NODE_NAME, name->text);
    put_number(out, SYN__ET_NODE_TYPE, comm.type);
    put_deps(w, node);
    put_number(out, SYN__ET_NODE_DURATION_MICROS, duration);
    syn__buf_put(out, w->io.data, w->io.bytes);
    syn__buf_put(out, w->base.data, w->base.bytes);
    put_attr(out, "is_cpu_op", SYN__ET_BOOL, !node->gpu, (syn__str){"", 0});
    if (node->has_stream) put_int(out, "stream", node->stream);
    put_comm(w, &comm);
    close_length(out, at);
    return SYN_OK;
}

/* ---- The file ---- */

static syn_status meta_text(writer *w, syn__et_attr *attr, const char *name, syn__str value) {
    if (value.bytes < 2 || *value.text != '"')
        return SYN__COMPAT_STOP(w->c, "\"TypeError\", because \"%s\" is not a string", name);
    char *text = syn__arena_get(&w->c->arena, value.bytes);
    if (text == NULL) return SYN_FAIL(w->c->err, SYN_E_NOMEM, "out of memory for strings");
    value.text++;
    value.bytes -= 2;
    *attr = (syn__et_attr){.name = syn__str_of(name), .field = SYN__ET_STRING};
    attr->data.text = text;
    attr->data.bytes = syn__loose_decode(value, text);
    return SYN_OK;
}

static syn_status meta_number(writer *w, syn__et_attr *attr, const char *name, syn__str value) {
    *attr = (syn__et_attr){.name = syn__str_of(name), .field = SYN__ET_UINT64};
    if (value.bytes > 0 && *value.text != '-' && syn__loose_u64(value, &attr->bits)) return SYN_OK;
    return SYN__COMPAT_STOP(w->c, "\"TypeError\", because \"%s\" is not an integer of at least 0",
                            name);
}

static syn_status put_head(writer *w) {
    const syn__pt_host *h = w->c->host;
    syn__et_attr attrs[5];
    SYN_TRY(meta_text(w, &attrs[0], "schema", h->schema));
    SYN_TRY(meta_number(w, &attrs[1], "pid", h->pid));
    SYN_TRY(meta_text(w, &attrs[2], "time", h->time));
    SYN_TRY(meta_number(w, &attrs[3], "start_ts", h->start_ts));
    SYN_TRY(meta_number(w, &attrs[4], "finish_ts", h->finish_ts));
    const syn__et_meta meta = {.version = {"", 0}, .attrs = attrs, .n_attrs = 5};
    syn__buf_put(&w->out, "", 1);
    syn__et_put_meta(&w->out, &meta);
    close_length(&w->out, 0);
    return SYN_OK;
}

static void flush(writer *w, syn_sink *sink) {
    if (!w->out.failed) syn_sink_write(sink, w->out.data, w->out.bytes);
    w->out.bytes = 0;
}

static syn_status put_all(writer *w, syn_sink *sink) {
    SYN_TRY(put_head(w));
    for (size_t i = 0; i < w->c->n_nodes; i++) {
        const syn__compat_node *node = &w->c->nodes[w->c->order[i]];
        if (!node->written) continue;
        const size_t at = w->out.bytes;
        SYN_TRY(put_node(w, node)); /* done even if the node is dropped, because the reference fails
                                       on errors in any node */
        if (node->alone) w->out.bytes = at;
        if (w->out.bytes > FLUSH_BYTES) flush(w, sink);
    }
    flush(w, sink);
    if (w->out.failed || w->io.failed || w->base.failed)
        return SYN_FAIL(w->c->err, SYN_E_NOMEM, "out of memory while writing execution traces");
    return syn_sink_status(sink);
}

syn_status syn__compat_write(syn__converter *c, syn_sink *sink) {
    writer w = {.c = c, .host = SYN__PT_NONE};
    const syn_status s = put_all(&w, sink);
    syn__buf_free(&w.out);
    syn__buf_free(&w.io);
    syn__buf_free(&w.base);
    return s;
}
