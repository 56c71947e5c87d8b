/* Writes the nodes of a simulator.

   Simulators read these attributes:
   - of all nodes: is_cpu_op (bool, false); inputs and outputs (string lists in which names and
     sizes of tensors alternate; empty if the trace has none)
   - of computation: num_ops (int64), tensor_size (uint64)
   - of collectives: comm_type, comm_size (int64), pg_name (string)
   - of messages: comm_src, comm_dst, comm_tag (int32), comm_size

   Other attributes are for people:
   - op: the host op that launched the node
   - not_simulated: why communication is written as computation; comm_kind: its kind
   - launch_deps, stream_deps, sync_deps, group_deps, thread_deps: the data_deps of each class; a
     dependency through host ops has the class of its last edge
   - stream, pg_desc, clamped, size_unknown */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/sim/pt_sim_tensors.h"
#include "export/pytorch/write/pt_cost.h"
#include "export/pytorch/write/pt_sim_counts.h"
#include "export/pytorch/write/pt_write.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/types.h"

#define SCHEMA_VERSION "1.0.0" /* version of Chakra's schema, as its generator writes it */

typedef struct writer {
    const syn__pt_sim *sim;
    const syn__pt_sim_tensors *tensors;
    syn_sink *sink;
    syn__buf buf;
    syn__buf list;    /* the list of tensors that is being written */
    syn__arena arena; /* memory for the current message */
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    struct wait {
        uint64_t id;
        uint32_t class_;
    } * waits;     /* dependencies of the current node, ascending by id */
    uint64_t *ids; /* scratch */
    size_t n_waits, waits_cap, ids_cap;
    bool failed; /* whether memory is exhausted */
} writer;

/* ---- Attributes ---- */

static void add(writer *w, const char *name, uint32_t field, uint64_t bits, syn__str data) {
    w->failed =
        w->failed || data.text == NULL ||
        syn_grow(&w->attrs, &w->attrs_cap, w->n_attrs + 1, sizeof *w->attrs, NULL) != SYN_OK;
    if (w->failed) return;
    w->attrs[w->n_attrs++] =
        (syn__et_attr){.name = syn__str_of(name), .field = field, .bits = bits, .data = data};
}

static void add_number(writer *w, const char *name, uint32_t field, uint64_t bits) {
    add(w, name, field, bits, (syn__str){"", 0});
}

static void add_text(writer *w, const char *name, const char *text) {
    add(w, name, SYN__ET_STRING, 0, syn__arena_utf8(&w->arena, syn__str_of(text)));
}

/* Decodes the text of a JSON string. In the result, text is NULL if memory is exhausted. */
static syn__str decoded(writer *w, syn__str text) {
    char *to = (char *)syn__arena_get(&w->arena, text.bytes + 1);
    const syn__str s = {to, to != NULL ? syn__loose_decode(text, to) : 0};
    w->failed = w->failed || to == NULL;
    return s;
}

/* Returns a list in wire format, as one packed field. In the result, text is NULL if memory is
   exhausted. */
static syn__str packed(writer *w, const uint64_t *values, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += syn__et_varint_bytes(values[i]);
    char *data = (char *)syn__arena_get(&w->arena, bytes + 1 + SYN__ET_VARINT_MAX);
    if (data == NULL) return (syn__str){NULL, 0};
    char *end = data;
    *end++ = SYN__ET_UINT64_LIST_VALUES << 3 | SYN__ET_WIRE_LEN;
    end = syn__et_varint(end, bytes);
    for (size_t i = 0; i < n; i++) end = syn__et_varint(end, values[i]);
    return (syn__str){data, (size_t)(end - data)};
}

static uint64_t at_least(uint64_t value, uint64_t min, bool *clamped) {
    if (value >= min) return value;
    *clamped = true;
    return min;
}

static uint64_t int64_cap(uint64_t value) {
    return value > INT64_MAX ? (uint64_t)INT64_MAX : value;
}

static syn_status send(writer *w, syn_error *err) {
    char length[SYN__ET_VARINT_MAX];
    if (w->failed || w->buf.failed)
        return SYN_FAIL_NOMEM(err, w->buf.cap, "a message of an execution trace");
    syn_sink_write(w->sink, length, (size_t)(syn__et_varint(length, w->buf.bytes) - length));
    syn_sink_write(w->sink, w->buf.data, w->buf.bytes);
    w->buf.bytes = 0;
    w->n_attrs = 0;
    syn__arena_reset(&w->arena);
    return SYN_OK;
}

/* ---- Metadata ---- */

static const char *title(const syn__pt_group *group) {
    return group->desc != NULL && *group->desc != '\0' ? group->desc : group->name;
}

/* Adds a group to the metadata, with its members as int32_list and its name as doc_string. */
static void add_group(writer *w, const syn__pt_group *group) {
    char text[24];
    snprintf(text, sizeof text, "pg.%" PRIu32, group->id);
    const char *name = syn__arena_text(&w->arena, syn__str_of(text));
    const size_t bytes = syn__et_pack_ranks(group->ranks, group->n_ranks, NULL);
    char *list = (char *)syn__arena_get(&w->arena, bytes + 1);
    w->failed = w->failed || name == NULL || list == NULL;
    if (w->failed) return;
    (void)syn__et_pack_ranks(group->ranks, group->n_ranks, list);
    add(w, name, SYN__ET_INT32_LIST, 0, (syn__str){list, bytes});
    const syn__str doc = syn__arena_utf8(&w->arena, syn__str_of(title(group)));
    w->failed = w->failed || doc.text == NULL;
    if (!w->failed) w->attrs[w->n_attrs - 1].doc = doc;
}

/* Adds the groups of this rank that have other members, ordered by id. */
static void add_groups(writer *w) {
    const syn__pt_rank *rank = w->sim->rank;
    for (uint32_t after = 0;;) {
        const syn__pt_group *next = NULL;
        for (size_t i = 0; i < rank->n_groups; i++) {
            const syn__pt_group *g = &rank->groups[i];
            if (g->id <= after || (next != NULL && g->id >= next->id)) continue;
            if (g->n_ranks > 1 && (rank->rank < 0 || syn__pt_group_has(g, rank->rank))) next = g;
        }
        if (next == NULL) return;
        add_group(w, next);
        after = next->id;
    }
}

static syn_status write_meta(writer *w, const char *version, syn_error *err) {
    const syn__pt_rank *rank = w->sim->rank;
    syn__str schema = rank->host.schema;
    add_number(w, "rank", SYN__ET_INT64, (uint64_t)(rank->rank >= 0 ? rank->rank : 0));
    if (rank->world_size > 0)
        add_number(w, "world_size", SYN__ET_INT64, (uint64_t)rank->world_size);
    if (version != NULL) add_text(w, "program", version);
    add_text(w, "source", "pytorch");
    add_text(w, "profile", "astra-sim");
    if (schema.bytes >= 2 && *schema.text == '"') {
        schema.text++;
        schema.bytes -= 2;
    }
    if (schema.bytes != 0) add(w, "schema", SYN__ET_STRING, 0, decoded(w, schema));
    add_groups(w);
    const syn__et_meta meta = {
        .version = syn__str_of(SCHEMA_VERSION), .attrs = w->attrs, .n_attrs = w->n_attrs};
    if (!w->failed) syn__et_put_meta(&w->buf, &meta);
    return send(w, err);
}

/* ---- Dependencies ---- */

static int compare(const void *a, const void *b) {
    const struct wait *x = (const struct wait *)a, *y = (const struct wait *)b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->class_ > y->class_) - (x->class_ < y->class_);
}

/* Collects the dependencies of a node. Each id is listed once. */
static void find_waits(writer *w, uint32_t node) {
    const syn__pt_sim *sim = w->sim;
    const size_t first = sim->first_dep[node], n = sim->first_dep[node + 1] - first;
    w->n_waits = 0;
    w->failed = w->failed ||
                syn_grow(&w->waits, &w->waits_cap, n + 1, sizeof *w->waits, NULL) != SYN_OK ||
                syn_grow(&w->ids, &w->ids_cap, n + 1, sizeof *w->ids, NULL) != SYN_OK;
    if (w->failed) return;
    for (size_t i = 0; i < n; i++) {
        const syn__pt_dep *d = &sim->deps[first + i];
        const syn__pt_sim_node *from = &sim->nodes[d->from];
        const bool of_delay = d->class_ & SYN__PT_SIM_OF_DELAY && from->delay_us > 0;
        w->waits[i] = (struct wait){from->id - of_delay, d->class_ & ~SYN__PT_SIM_OF_DELAY};
    }
    if (n > 1) qsort(w->waits, n, sizeof *w->waits, compare);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && w->waits[i].id == w->waits[i - 1].id) continue;
        w->waits[w->n_waits++] = w->waits[i];
    }
}

static void add_waits(writer *w, syn__et_node *out) {
    static const struct {
        const char *name;
        uint32_t classes;
    } lists[] = {{"launch_deps", 1u << SYN_PYTORCH_EDGE_LAUNCH},
                 {"stream_deps", 1u << SYN_PYTORCH_EDGE_STREAM},
                 {"sync_deps", 1u << SYN_PYTORCH_EDGE_SYNC},
                 {"group_deps", 1u << SYN_PYTORCH_EDGE_GROUP},
                 {"thread_deps", 1u << SYN_PYTORCH_EDGE_CALL | 1u << SYN_PYTORCH_EDGE_PROGRAM |
                                     1u << SYN_PYTORCH_EDGE_THREAD}};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        size_t n = 0;
        for (size_t i = 0; i < w->n_waits; i++) {
            if (lists[k].classes >> w->waits[i].class_ & 1) w->ids[n++] = w->waits[i].id;
        }
        if (n != 0) add(w, lists[k].name, SYN__ET_UINT64_LIST, 0, packed(w, w->ids, n));
    }
    for (size_t i = 0; i < w->n_waits; i++) w->ids[i] = w->waits[i].id;
    out->data = w->ids;
    out->n_data = w->n_waits;
}

/* ---- Nodes ---- */

/* Adds the host op that launched the node, as attribute `name`. */
static void add_op(writer *w, const char *name, const syn__pt_op *op) {
    const syn__pt_rank *rank = w->sim->rank;
    const syn__pt_track *track = &rank->tracks[op->track];
    const uint32_t host = op->detached ? rank->ops[op->parent].host : op->host;
    if (host != SYN__PT_NONE && syn__pt_is_launched(op))
        add(w, name, SYN__ET_STRING, 0,
            decoded(w, syn__pt_host_name(&rank->host, rank->host.nodes[host].name)));
    if (track->device && track->stream >= 0)
        add_number(w, "stream", SYN__ET_INT64, (uint64_t)track->stream);
}

static void add_compute(writer *w, uint64_t flops, uint64_t bytes, bool is_root) {
    bool clamped = false;
    bytes = at_least(bytes, is_root ? SYN__ET_MIN_ROOT_BYTES : 1, &clamped);
    flops = at_least(int64_cap(flops), 1, &clamped);
    add_number(w, "num_ops", SYN__ET_INT64, flops);
    add_number(w, "tensor_size", SYN__ET_UINT64, bytes);
    if (clamped) add_number(w, "clamped", SYN__ET_BOOL, 1);
}

/* The bytes that a copy reads and writes, or that a memset writes. */
static uint64_t moved(const syn__pt_rank *rank, const syn__pt_op *op) {
    uint64_t bytes = 0;
    if (op->event == SYN__PT_NONE) return 0;
    const syn__pt_event *e = &rank->device.events[op->event];
    const syn__str text = {e->text, e->text_bytes};
    const syn__str args = syn__loose_find(text, "args");
    if (args.bytes == 0 || !syn__loose_u64(syn__loose_find(args, "bytes"), &bytes)) return 0;
    return op->kind == SYN_PYTORCH_OP_MEMCPY && bytes <= UINT64_MAX / 2 ? 2 * bytes : bytes;
}

static void add_costs(writer *w, const syn__pt_sim_node *node, bool is_root) {
    const syn__pt_rank *rank = w->sim->rank;
    const syn__pt_op *op = &rank->ops[node->op];
    syn__pt_cost cost = {0, 0};
    if (node->role == SYN__PT_SIM_STAND_IN) cost.bytes = (uint64_t)rank->comms[op->comm].bytes;
    else if (op->kind == SYN_PYTORCH_OP_MEMCPY || op->kind == SYN_PYTORCH_OP_MEMSET)
        cost.bytes = moved(rank, op);
    else if (node->dominates) cost = syn__pt_cost_of(&rank->host, &rank->host.nodes[op->host]);
    add_compute(w, cost.flops, cost.bytes, is_root);
}

static const char *kind_name(const syn__pt_comm *comm) {
    const syn_comm_kind kind = syn__pt_comm_kind(comm);
    return kind == SYN_COMM_NONE ? "unknown" : syn_comm_kind_name(kind);
}

/* ASTRA-sim never finishes an all-gather with fewer bytes than the number of chunks into which it
   splits collectives. */
#define MIN_ALL_GATHER_BYTES 64

static void add_size(writer *w, const syn__pt_comm *comm) {
    bool clamped = false;
    const uint64_t bytes = comm->bytes > 0 ? (uint64_t)comm->bytes : 0;
    const bool gathers = comm->collective == SYN__PT_CALL_ALL_GATHER;
    const uint64_t min = gathers ? MIN_ALL_GATHER_BYTES : 1;
    add_number(w, "comm_size", SYN__ET_INT64, at_least(bytes, min, &clamped));
    if (clamped) add_number(w, "clamped", SYN__ET_BOOL, 1);
    if (syn__pt_size_is_unknown(comm)) add_number(w, "size_unknown", SYN__ET_BOOL, 1);
}

/* The group of a communication; if it is unknown, the group of all ranks. NULL if there is no such
   group; simulators then use all ranks. */
static const syn__pt_group *group_of(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    const syn__pt_group *g = comm->group != SYN__PT_NONE ? &rank->groups[comm->group] : NULL;
    if (g != NULL && g->id != 0 && g->n_ranks > 1) return g;
    for (size_t i = 0; i < rank->n_groups; i++) {
        g = &rank->groups[i];
        if (g->id != 0 && g->n_ranks > 1 && (int64_t)g->n_ranks == rank->world_size) return g;
    }
    return NULL;
}

static void add_collective(writer *w, const syn__pt_comm *comm) {
    const syn__pt_group *group = group_of(w->sim->rank, comm);
    char id[16];
    add_number(w, "comm_type", SYN__ET_INT64, (uint64_t)comm->collective);
    add_size(w, comm);
    if (group == NULL) return;
    snprintf(id, sizeof id, "%" PRIu32, group->id);
    const char *kept = syn__arena_text(&w->arena, syn__str_of(id));
    if (kept != NULL) add_text(w, "pg_name", kept);
    else w->failed = true;
    add_text(w, "pg_desc", title(group));
}

static void add_message(writer *w, const syn__pt_comm *comm) {
    const uint64_t own = (uint64_t)(w->sim->rank->rank >= 0 ? w->sim->rank->rank : 0);
    const uint64_t peer = (uint64_t)comm->peer;
    const bool is_send = comm->type == SYN__ET_COMM_SEND_NODE;
    add_number(w, "comm_src", SYN__ET_INT32, is_send ? own : peer);
    add_number(w, "comm_dst", SYN__ET_INT32, is_send ? peer : own);
    add_number(w, "comm_tag", SYN__ET_INT32, (uint64_t)comm->tag);
    add_size(w, comm);
}

/* Sets the type of a node, and adds the attributes that depend on it. */
static void describe(writer *w, const syn__pt_sim_node *node, syn__et_node *out) {
    const syn__pt_rank *rank = w->sim->rank;
    const syn__pt_op *op = &rank->ops[node->op];
    const syn__pt_comm *comm = op->comm != SYN__PT_NONE ? &rank->comms[op->comm] : NULL;
    out->type = syn__pt_sim_is_compute(node) ? SYN__ET_COMP_NODE : comm->type;
    if (syn__pt_sim_is_compute(node)) add_costs(w, node, out->n_data == 0);
    else if (node->role == SYN__PT_SIM_COLLECTIVE) add_collective(w, comm);
    else add_message(w, comm);
    if (node->role == SYN__PT_SIM_STAND_IN) {
        add_text(w, "not_simulated", node->why);
        add_text(w, "comm_kind", kind_name(comm));
    }
    add_op(w, "op", op);
}

/* ---- Tensors ---- */

static void put_element(syn__buf *buf, const char *text) {
    syn__et_put_tag(buf, SYN__ET_STRING_LIST_VALUES, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, strlen(text));
    syn__buf_put(buf, text, strlen(text));
}

/* Adds a list of tensors as names and sizes. The name is "s12" for the first tensor with storage id
   12, and "s12.1" for the next tensor with the same storage id. */
static void add_list(writer *w, const char *name, const uint32_t *tensors, uint32_t n) {
    w->list.bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn__pt_sim_tensor *t = &w->tensors->tensors[tensors[i]];
        char text[64];
        snprintf(text, sizeof text, t->version > 0 ? "s%" PRId64 ".%" PRIu32 : "s%" PRId64,
                 t->storage, t->version);
        put_element(&w->list, text);
        snprintf(text, sizeof text, "%" PRId64, t->bytes);
        put_element(&w->list, text);
    }
    char *data = (char *)syn__arena_get(&w->arena, w->list.bytes + 1);
    w->failed = w->failed || data == NULL || w->list.failed;
    if (w->failed) return;
    if (w->list.bytes > 0) memcpy(data, w->list.data, w->list.bytes);
    add(w, name, SYN__ET_STRING_LIST, 0, (syn__str){data, w->list.bytes});
}

/* Adds the lists of tensors that a node reads and writes. Simulators that track memory require both
   lists on every node. */
static void add_tensors(writer *w, const struct syn__pt_sim_use *use) {
    const uint32_t *uses = w->tensors->uses;
    add_list(w, "inputs", use->reads > 0 ? uses + use->first : NULL, use->reads);
    add_list(w, "outputs", use->writes > 0 ? uses + use->first + use->reads : NULL, use->writes);
}

static const struct syn__pt_sim_use no_tensors = {0, 0, 0};

static const syn__et_io no_io = {.text = {{"", 0}, {"", 0}, {"", 0}}};

/* Writes a delay. Its dependencies are those in w->waits. */
static syn_status put_delay(writer *w, const syn__pt_sim_node *node, uint64_t id, int64_t start_us,
                            int64_t us, syn_error *err) {
    syn__et_node out = {.id = id,
                        .name = syn__str_of("host delay"),
                        .type = SYN__ET_COMP_NODE,
                        .start_micros = start_us > 0 ? (uint64_t)start_us : 0,
                        .duration_micros = (uint64_t)us,
                        .io = {no_io, no_io}};
    if (w->failed) return send(w, err);
    add_number(w, "is_cpu_op", SYN__ET_BOOL, 0);
    add_compute(w, 0, 0, true);
    add_op(w, "before", &w->sim->rank->ops[node->op]); /* named "before", because the op comes after
                                                          the delay */
    add_waits(w, &out);
    add_tensors(w, &no_tensors);
    out.attrs = w->attrs;
    out.n_attrs = w->n_attrs;
    if (!w->failed) syn__et_put_node(&w->buf, &out);
    return send(w, err);
}

/* Writes the delay before a node. The delay gets the dependencies of the node, and the node then
   depends only on the delay. */
static syn_status write_delay(writer *w, const syn__pt_sim_node *node, syn_error *err) {
    const uint64_t id = node->id - 1;
    SYN_TRY(put_delay(w, node, id, node->start_us - node->delay_us, node->delay_us, err));
    w->waits[0] = (struct wait){id, SYN_PYTORCH_EDGE_LAUNCH};
    w->n_waits = 1;
    return SYN_OK;
}

static syn_status write_node(writer *w, uint32_t index, syn_error *err) {
    const syn__pt_sim_node *node = &w->sim->nodes[index];
    find_waits(w, index);
    if (node->role == SYN__PT_SIM_DELAY)
        return put_delay(w, node, node->id, node->start_us, node->end_us - node->start_us, err);
    if (node->delay_us > 0) SYN_TRY(write_delay(w, node, err));
    syn__et_node out = {.id = node->id,
                        .name =
                            decoded(w, syn__pt_op_name(w->sim->rank, &w->sim->rank->ops[node->op])),
                        .start_micros = node->start_us > 0 ? (uint64_t)node->start_us : 0,
                        .duration_micros = (uint64_t)(node->end_us - node->start_us),
                        .n_data = w->n_waits,
                        .io = {no_io, no_io}};
    if (w->failed) return send(w, err);
    add_number(w, "is_cpu_op", SYN__ET_BOOL, 0);
    describe(w, node, &out);
    add_waits(w, &out);
    add_tensors(w, &w->tensors->nodes[index]);
    out.attrs = w->attrs;
    out.n_attrs = w->n_attrs;
    if (!w->failed) syn__et_put_node(&w->buf, &out);
    return send(w, err);
}

static syn_status write_nodes(const syn__pt_sim *sim, const syn__pt_sim_tensors *tensors,
                              const char *version, syn_sink *sink, syn_error *err) {
    writer w = {.sim = sim, .tensors = tensors, .sink = sink};
    syn_status status = write_meta(&w, version, err);
    for (size_t i = 0; i < sim->n_nodes && status == SYN_OK; i++) {
        status = write_node(&w, sim->sequence[i], err);
        if (syn_sink_status(sink) != SYN_OK) break; /* syn_sink_close reports the error */
    }
    syn__buf_free(&w.buf);
    syn__buf_free(&w.list);
    syn__arena_free(&w.arena);
    syn_free(w.attrs);
    syn_free(w.waits);
    syn_free(w.ids);
    return status;
}

syn_status syn__pt_write_sim(const syn__pt_rank *rank, const char *version, syn_sink *sink,
                             syn_pytorch_simulated *written, syn_error *err) {
    syn__pt_sim sim;
    syn__pt_sim_tensors tensors = {.tensors = NULL};
    syn_status status = syn__pt_sim_make(&sim, rank, err);
    if (status == SYN_OK && written != NULL) *written = syn__pt_sim_count(&sim);
    if (status == SYN_OK) status = syn__pt_sim_tensors_find(&tensors, &sim, err);
    if (status == SYN_OK) status = write_nodes(&sim, &tensors, version, sink, err);
    syn__pt_sim_tensors_free(&tensors);
    syn__pt_sim_free(&sim);
    return status;
}
