/* Writes all ops of a rank as an execution trace (profile full): one node per op, in topological
   order, with the attributes that Chakra's own converter writes, and further ones. data_deps has
   all dependencies except calls. ctrl_deps has the op that called or launched the node. The lists
   launch_deps, stream_deps, sync_deps, group_deps and thread_deps repeat the data_deps of one
   class. The data_deps that are in none of these lists are program order. */
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/write/pt_modules.h"
#include "export/pytorch/write/pt_write.h"
#include "export/text/python_json.h"
#include "syntorch/base/memory.h"

#define MAX_ATTRS  32
#define FLUSH      ((size_t)1 << 16)
#define ET_VERSION "1.0.0" /* version of the schema, as Chakra's generator writes it */
#define MADE_UP    "[pytorch|profiler|execution_trace|process]"

typedef struct writer {
    const syn__pt_rank *rank;
    syn_sink *sink;
    syn_error *err;
    syn__buf out;  /* messages that are not written yet, each after its length */
    syn__buf io;   /* texts of the inputs and outputs of io_host */
    syn__buf text; /* other texts of the current node */
    syn__buf lists;
    syn__pt_modules modules;
    size_t io_at[7];
    uint32_t io_host;
    int64_t *carried_ns;   /* per lane (thread or stream): remainder from rounding */
    uint64_t *data, *same; /* ids of all dependencies; ids of the dependencies of one class */
    size_t ids_cap, same_cap;
    syn__et_attr attrs[MAX_ATTRS];
    size_t n_attrs;
} writer;

/* ---- Attributes ---- */

static void add(writer *w, const char *name, uint32_t field, uint64_t bits) {
    const syn__et_attr a = {.name = syn__str_of(name), .field = field, .bits = bits};
    w->attrs[w->n_attrs++] = a;
}

static void add_text(writer *w, const char *name, syn__str text) {
    const syn__et_attr a = {.name = syn__str_of(name), .field = SYN__ET_STRING, .data = text};
    w->attrs[w->n_attrs++] = a;
}

static bool is_plain(syn__str s) {
    for (size_t i = 0; i < s.bytes; i++)
        if (s.text[i] == '\\' || (unsigned char)s.text[i] >= 0x80) return false;
    return true;
}

/* Decodes the text of a JSON string. If this changes the text, it is stored in `text`, whose
   capacity must be large enough. */
static syn__str decoded(writer *w, syn__str raw) {
    if (is_plain(raw)) return raw;
    char *buffer = syn__buf_reserve(&w->text, raw.bytes);
    if (!buffer) return (syn__str){"", 0};
    const syn__str s = {buffer, syn__loose_decode(raw, buffer)};
    w->text.bytes += s.bytes;
    return s;
}

/* Adds the attributes of a host op. If a communication library ran the op in a thread of its own,
   "tid" is Kineto's number of that thread, not of the thread that called the library. */
static void add_host_attributes(writer *w, const syn__pt_op *op) {
    const syn__pt_host_node *n = &w->rank->host.nodes[op->host];
    const uint64_t tid =
        op->detached && !w->rank->host.from_event ? w->rank->tracks[op->track].tid : n->tid;
    if (n->has & SYN__PT_HAS_RF_ID) add(w, "rf_id", SYN__ET_INT64, n->rf_id);
    if (n->has & SYN__PT_HAS_FW_PARENT) add(w, "fw_parent", SYN__ET_INT64, n->fw_parent);
    if (n->has & SYN__PT_HAS_SEQ_ID) add(w, "seq_id", SYN__ET_INT64, (uint64_t)n->seq_id);
    if (n->has & SYN__PT_HAS_SCOPE) add(w, "scope", SYN__ET_INT64, n->scope);
    if (n->has & SYN__PT_HAS_TID) add(w, "tid", SYN__ET_INT64, tid);
    if (n->has & SYN__PT_HAS_FW_TID) add(w, "fw_tid", SYN__ET_INT64, n->fw_tid);
    if (n->has & SYN__PT_HAS_OP_SCHEMA)
        add_text(w, "op_schema", decoded(w, syn__pt_host_name(&w->rank->host, n->op_schema)));
}

/* Appends a number, such as a group id, to `text` as a string. */
static syn__str number_text(writer *w, uint32_t number) {
    char *buffer = syn__buf_reserve(&w->text, 16);
    if (!buffer) return (syn__str){"", 0};
    const syn__str s = {buffer, (size_t)snprintf(buffer, 16, "%u", (unsigned)number)};
    w->text.bytes += s.bytes;
    return s;
}

static void add_comm(writer *w, const syn__pt_comm *c) {
    if (c->type == SYN__ET_COMM_COLL_NODE) {
        /* A kind that the format does not have is written as a broadcast, which simulators replay
           by its duration. */
        const bool known = c->collective >= 0;
        add(w, "comm_type", SYN__ET_INT64, known ? (uint64_t)c->collective : SYN__ET_BROADCAST);
        if (!known) add(w, "generic", SYN__ET_BOOL, 1);
    }
    add(w, "comm_size", SYN__ET_INT64, (uint64_t)c->bytes);
    if (syn__pt_size_is_unknown(c)) add(w, "size_unknown", SYN__ET_BOOL, 1);
    if (c->group != SYN__PT_NONE && w->rank->groups[c->group].id != 0) {
        const syn__pt_group *g = &w->rank->groups[c->group];
        add_text(w, "pg_name", number_text(w, g->id));
        add_text(w, "pg_desc", syn__str_of(g->desc[0] ? g->desc : g->name));
    }
    if (c->sequence >= 0) add(w, "seq", SYN__ET_INT64, (uint64_t)c->sequence);
    if (c->type == SYN__ET_COMM_COLL_NODE) return;
    const bool send = c->type == SYN__ET_COMM_SEND_NODE;
    const int32_t own = w->rank->rank < 0 ? 0 : w->rank->rank;
    if (c->peer >= 0) {
        add(w, "comm_src", SYN__ET_INT32, (uint64_t)(send ? own : c->peer));
        add(w, "comm_dst", SYN__ET_INT32, (uint64_t)(send ? c->peer : own));
    }
    add(w, "comm_tag", SYN__ET_INT32, (uint64_t)c->tag);
}

/* ---- Dependencies ---- */

static const char *const class_lists[SYN_PYTORCH_EDGE_CLASSES] = {
    [SYN_PYTORCH_EDGE_LAUNCH] = "launch_deps",
    [SYN_PYTORCH_EDGE_STREAM] = "stream_deps",
    [SYN_PYTORCH_EDGE_SYNC] = "sync_deps",
    [SYN_PYTORCH_EDGE_GROUP] = "group_deps",
    [SYN_PYTORCH_EDGE_THREAD] = "thread_deps"};

static int by_id(const void *x, const void *y) {
    const uint64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* Appends a message with a list of uint64 values to `lists`. */
static syn__str put_list(writer *w, const uint64_t *ids, size_t n) {
    const size_t begin = w->lists.bytes;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += syn__et_varint_bytes(ids[i]);
    syn__et_put_tag(&w->lists, SYN__ET_UINT64_LIST_VALUES, SYN__ET_WIRE_LEN);
    syn__et_put_varint(&w->lists, bytes);
    for (size_t i = 0; i < n; i++) syn__et_put_varint(&w->lists, ids[i]);
    return (syn__str){w->lists.failed ? NULL : w->lists.data + begin, w->lists.bytes - begin};
}

static syn_status add_deps(writer *w, uint32_t op, syn__et_node *node, uint64_t *ctrl) {
    const syn__pt_rank *r = w->rank;
    const size_t first = r->first_dep[op], n = r->first_dep[op + 1] - first;
    uint32_t classes = 0;
    SYN_TRY(syn_grow(&w->data, &w->ids_cap, n + 1, sizeof *w->data, w->err));
    SYN_TRY(syn_grow(&w->same, &w->same_cap, n + 1, sizeof *w->same, w->err));
    node->ctrl = ctrl;
    node->data = w->data;
    for (size_t i = 0; i < n; i++) {
        const syn__pt_dep *d = &r->deps[first + i];
        if (d->from == r->ops[op].parent) ctrl[node->n_ctrl++] = r->ids[d->from];
        if (d->class_ != SYN_PYTORCH_EDGE_CALL) w->data[node->n_data++] = r->ids[d->from];
        classes |= 1u << d->class_;
    }
    if (node->n_data > 1) qsort(w->data, node->n_data, sizeof *w->data, by_id);
    /* Reserve the capacity first, because pointers into `lists` must remain valid. */
    if (!syn__buf_reserve(&w->lists, (n + SYN_PYTORCH_EDGE_CLASSES) * (SYN__ET_VARINT_MAX + 2) * 2))
        return SYN_FAIL_NOMEM(w->err, n, "dependencies");
    for (int c = 0; c < SYN_PYTORCH_EDGE_CLASSES; c++) {
        if (!class_lists[c] || !(classes >> c & 1u)) continue;
        size_t same = 0;
        for (size_t i = 0; i < n; i++)
            if (r->deps[first + i].class_ == (uint32_t)c)
                w->same[same++] = r->ids[r->deps[first + i].from];
        if (same > 1) qsort(w->same, same, sizeof *w->same, by_id);
        const syn__et_attr a = {.name = syn__str_of(class_lists[c]),
                                .field = SYN__ET_UINT64_LIST,
                                .data = put_list(w, w->same, same)};
        w->attrs[w->n_attrs++] = a;
    }
    return SYN_OK;
}

/* ---- Inputs and outputs ---- */

static void put_io(writer *w, syn__str object, const syn__pt_host_node *n, bool output,
                   size_t *at) {
    static const char *const keys[] = {"values", "shapes", "types"};
    static const char *const flat[2][3] = {{"inputs", "input_shapes", "input_types"},
                                           {"outputs", "output_shapes", "output_types"}};
    const syn__str all = {n->text, n->text_bytes};
    for (int i = 0; i < 3; i++) {
        const syn__str value = object.bytes > 0 && object.text[0] == '{'
                                   ? syn__loose_find(object, keys[i])
                                   : syn__loose_find(all, flat[output][i]);
        if (value.bytes > 0) syn__python_text(&w->io, value);
        at[i + 1] = w->io.bytes;
    }
}

static void take_io(writer *w, uint32_t host, syn__et_node *node) {
    if (host == SYN__PT_NONE) return;
    if (w->io_host != host) {
        const syn__pt_host_node *n = &w->rank->host.nodes[host];
        w->io.bytes = 0;
        w->io_at[0] = 0;
        put_io(w, syn__pt_inputs(n), n, false, w->io_at);
        put_io(w, syn__pt_outputs(n), n, true, w->io_at + 3);
        w->io_host = host;
    }
    for (int i = 0; i < 6; i++) {
        node->io[i / 3].present = true;
        node->io[i / 3].text[i % 3].text = w->io.data ? w->io.data + w->io_at[i] : "";
        node->io[i / 3].text[i % 3].bytes = w->io_at[i + 1] - w->io_at[i];
    }
}

/* ---- Nodes ---- */

static syn__str name_of(writer *w, const syn__pt_op *op) {
    if (!syn__pt_is_device(op) && op->host == SYN__PT_NONE) return syn__str_of(MADE_UP);
    return decoded(w, syn__pt_op_name(w->rank, op));
}

/* The duration in whole microseconds. The remainder of rounding is added to the next op of the same
   thread or stream. */
static uint64_t duration_us(writer *w, const syn__pt_op *op) {
    int64_t *carried = &w->carried_ns[op->track];
    const int64_t ns = (op->self_ns > 0 ? op->self_ns : 0);
    if (ns > INT64_MAX - *carried) return (uint64_t)(ns / 1000);
    const int64_t all = ns + *carried;
    *carried = all % 1000;
    return (uint64_t)(all / 1000);
}

/* Whether the op is written as communication. Communication that other ranks lack is written as
   computation, because a simulator would wait for them forever. A collective of a group of one rank
   needs no other rank and remains communication. */
static bool communicates(const writer *w, const syn__pt_op *op) {
    if (op->comm == SYN__PT_NONE) return false;
    const syn__pt_comm *c = &w->rank->comms[op->comm];
    return !c->alone || (c->type == SYN__ET_COMM_COLL_NODE && c->group != SYN__PT_NONE &&
                         w->rank->groups[c->group].n_ranks == 1);
}

static uint32_t type_of(const writer *w, const syn__pt_op *op) {
    if (communicates(w, op)) return w->rank->comms[op->comm].type;
    return op->kind == SYN_PYTORCH_OP_METADATA ? SYN__ET_METADATA_NODE : SYN__ET_COMP_NODE;
}

static syn_status flush(writer *w, bool all) {
    if (w->out.failed) return SYN_FAIL_NOMEM(w->err, w->out.cap, "a node");
    if (!all && w->out.bytes < FLUSH) return SYN_OK;
    syn_sink_write(w->sink, w->out.data, w->out.bytes);
    w->out.bytes = 0;
    return syn_sink_status(w->sink);
}

/* Inserts the length of the message that begins at `begin` in front of it. */
static void close_message(syn__buf *out, size_t begin) {
    char length[SYN__ET_VARINT_MAX];
    if (out->failed) return;
    const size_t bytes = out->bytes - begin;
    const size_t n = (size_t)(syn__et_varint(length, bytes) - length);
    if (!syn__buf_reserve(out, n)) return;
    memmove(out->data + begin + n, out->data + begin, bytes);
    memcpy(out->data + begin, length, n);
    out->bytes += n;
}

/* Adds the path of the module that called the op: "Net_0/Block_1/Linear_0". */
static void add_module(writer *w, uint32_t op) {
    const size_t n = syn__pt_module_path(w->rank, &w->modules, op, NULL);
    char *buffer = n > 0 ? syn__buf_reserve(&w->text, n) : NULL;
    if (buffer == NULL) return;
    (void)syn__pt_module_path(w->rank, &w->modules, op, buffer);
    w->text.bytes += n;
    add_text(w, "module", (syn__str){buffer, n});
}

static size_t text_capacity(const writer *w, const syn__pt_op *op) {
    const syn__pt_host *h = &w->rank->host;
    size_t bytes =
        64 + syn__pt_module_path(w->rank, &w->modules, (uint32_t)(op - w->rank->ops), NULL);
    if (op->host != SYN__PT_NONE)
        bytes += syn_intern_entry_bytes(&h->names, h->nodes[op->host].name) +
                 syn_intern_entry_bytes(&h->names, h->nodes[op->host].op_schema);
    if (syn__pt_is_device(op))
        bytes +=
            syn_intern_entry_bytes(&w->rank->device.names, w->rank->device.events[op->event].name);
    return bytes;
}

/* The duration including the called ops. It is rounded so that an op does not end after its
   caller. */
static uint64_t inclusive_us(const syn__pt_op *op) {
    const uint64_t start_ns = (uint64_t)op->start_ns;
    return (start_ns + (uint64_t)op->wall_ns) / 1000 - start_ns / 1000;
}

static syn_status write_op(writer *w, uint32_t index) {
    const syn__pt_op *op = &w->rank->ops[index];
    uint64_t ctrl[1];
    syn__et_node node = {.id = w->rank->ids[index]};
    w->n_attrs = 0;
    w->lists.bytes = w->text.bytes = 0;
    if (!syn__buf_reserve(&w->text, text_capacity(w, op)))
        return SYN_FAIL_NOMEM(w->err, 1, "a name");
    node.name = name_of(w, op);
    node.type = type_of(w, op);
    if (op->start_ns > 0) node.start_micros = (uint64_t)op->start_ns / 1000;
    node.duration_micros = duration_us(w, op);
    take_io(w, op->host, &node);
    if (op->host != SYN__PT_NONE) add_host_attributes(w, op);
    add_module(w, index);
    add(w, "is_cpu_op", SYN__ET_BOOL, !syn__pt_is_device(op) && op->comm == SYN__PT_NONE);
    const bool on_host = !syn__pt_is_device(op);
    if ((on_host || node.duration_micros == 0) && op->start_ns > 0 && op->wall_ns >= 0)
        add(w, "inclusive_dur", SYN__ET_INT64, inclusive_us(op));
    if (syn__pt_is_device(op)) {
        const syn__pt_track *track = &w->rank->tracks[op->track];
        add(w, "stream", SYN__ET_INT64, (uint64_t)track->stream);
        if (track->device_id >= 0) add(w, "device", SYN__ET_INT64, (uint64_t)track->device_id);
    }
    if (communicates(w, op)) add_comm(w, &w->rank->comms[op->comm]);
    else if (op->comm != SYN__PT_NONE) add(w, "alone", SYN__ET_BOOL, 1);
    SYN_TRY(add_deps(w, index, &node, ctrl));
    node.attrs = w->attrs;
    node.n_attrs = w->n_attrs;
    const size_t begin = w->out.bytes;
    syn__et_put_node(&w->out, &node);
    close_message(&w->out, begin);
    if (w->io.failed || w->text.failed || w->lists.failed) w->out.failed = true;
    return flush(w, false);
}

/* ---- Metadata ---- */

static void add_top_text(writer *w, const char *name, syn__str value) {
    if (value.bytes < 2 || value.text[0] != '"') return;
    value.text++;
    value.bytes -= 2;
    add_text(w, name, decoded(w, value));
}

static void add_top_number(writer *w, const char *name, syn__str value) {
    uint64_t v = 0;
    if (value.bytes > 0 && syn__loose_u64(value, &v)) add(w, name, SYN__ET_UINT64, v);
}

static syn_status write_meta(writer *w, const char *version) {
    const syn__pt_host *h = &w->rank->host;
    if (!syn__buf_reserve(&w->text, h->schema.bytes + h->time.bytes + 1))
        return SYN_FAIL_NOMEM(w->err, h->schema.bytes, "metadata");
    add_top_text(w, "schema", h->schema);
    add_top_number(w, "pid", h->pid);
    add_top_text(w, "time", h->time);
    add_top_number(w, "start_ts", h->start_ts);
    add_top_number(w, "finish_ts", h->finish_ts);
    if (version) add_text(w, "program", syn__str_of(version));
    add_text(w, "source", syn__str_of("pytorch"));
    add_text(w, "profile", syn__str_of("full"));
    if (w->rank->rank >= 0) add(w, "rank", SYN__ET_INT64, (uint64_t)w->rank->rank);
    if (w->rank->world_size > 0) add(w, "world_size", SYN__ET_INT64, (uint64_t)w->rank->world_size);
    const syn__et_meta meta = {
        .version = syn__str_of(ET_VERSION), .attrs = w->attrs, .n_attrs = w->n_attrs};
    syn__et_put_meta(&w->out, &meta);
    close_message(&w->out, 0);
    return SYN_OK;
}

static syn_status write_all(writer *w, const char *version) {
    w->carried_ns = syn_calloc(w->rank->n_tracks + 1, sizeof *w->carried_ns);
    if (!w->carried_ns) return SYN_FAIL_NOMEM(w->err, w->rank->n_tracks * 8, "threads and streams");
    SYN_TRY(syn__pt_modules_find(&w->modules, w->rank, w->err));
    SYN_TRY(write_meta(w, version));
    for (size_t i = 0; i < w->rank->n_ops; i++) SYN_TRY(write_op(w, w->rank->order[i]));
    return flush(w, true);
}

syn_status syn__pt_write_full(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                              syn_error *err) {
    writer w = {.rank = rank, .sink = sink, .err = err, .io_host = SYN__PT_NONE};
    /* syn_sink_close reports why the sink failed. */
    const syn_status s = write_all(&w, version);
    syn__buf_free(&w.out);
    syn__buf_free(&w.io);
    syn__buf_free(&w.text);
    syn__buf_free(&w.lists);
    syn__pt_modules_free(&w.modules);
    syn_free(w.carried_ns);
    syn_free(w.data);
    syn_free(w.same);
    return s;
}
