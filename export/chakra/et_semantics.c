/* Converts a message to a graph node: kind, cost, group and times. The node also gets all
   attributes of the message. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "export/chakra/et_attr.h"
#include "export/chakra/et_build.h"
#include "export/chakra/et_walk.h"
#include "export/walk/graph_walk.h"
#include "syntorch/base/memory.h"
#include "syntorch/graph/op_names.h"

/* The attributes of a message for which a graph node has fields. Strings are NUL-terminated; absent
   strings are "". */
typedef struct known {
    uint64_t num_ops, tensor_size, comm_size, step, stream;
    uint64_t clamped;                                     /* a boolean */
    int64_t comm_type, src, dst, tag, root;               /* -1 if absent */
    int64_t wall_ns, wait_ns, predicted_ns, inclusive_us; /* -1 if absent */
    const char *pg_name, *pg_desc, *op, *phase, *reduce;
} known;

void syn__et_begin_rank(syn__et_builder *b, uint32_t rank, const syn__et_index *index) {
    b->rank = b->graph->ranks[rank].rank;
    b->n_messages = 0;
    b->has_start = index->has_start;
    b->keep_slashes = syn__walk_is_foreign(b->graph);
    for (size_t i = 0; i < b->n_groups; i++) {
        syn__et_group *g = &b->groups[i];
        g->n_comms = 0;
        g->member = false;
        for (size_t k = 0; k < g->n_ranks; k++) g->member = g->member || g->ranks[k] == b->rank;
    }
}

/* ---- Attributes ---- */

static bool is_integer(const syn__et_attr *a) {
    if (a->field == SYN__ET_NONE || syn__et_is_list(a->field)) return false;
    return syn__et_type_of(a->field)->form == SYN__ET_FORM_INT;
}

static void take_number(known *k, const syn__et_attr *a) {
    const struct {
        const char *name;
        uint64_t *slot;
    } any[] = {{"num_ops", &k->num_ops},     {"tensor_size", &k->tensor_size},
               {"comm_size", &k->comm_size}, {"step", &k->step},
               {"stream", &k->stream},       {"clamped", &k->clamped}};
    const struct {
        const char *name;
        int64_t *slot;
    } small[] = {{"comm_type", &k->comm_type},
                 {"comm_src", &k->src},
                 {"comm_dst", &k->dst},
                 {"comm_tag", &k->tag},
                 {"root", &k->root},
                 {"wall_ns", &k->wall_ns},
                 {"wait_ns", &k->wait_ns},
                 {"predicted_ns", &k->predicted_ns},
                 {"inclusive_dur", &k->inclusive_us}};
    /* Negative costs and numbers beyond int64 are ignored. */
    if (a->bits > INT64_MAX && syn__et_type_of(a->field)->is_signed) return;
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        if (syn__str_is(a->name, any[i].name)) *any[i].slot = a->bits;
    }
    for (size_t i = 0; i < sizeof small / sizeof small[0] && a->bits <= INT64_MAX; i++) {
        if (syn__str_is(a->name, small[i].name)) *small[i].slot = (int64_t)a->bits;
    }
}

static syn_status take_text(syn__et_builder *b, known *k, const syn__et_attr *a) {
    const struct {
        const char *name;
        const char **slot;
    } texts[] = {{"pg_name", &k->pg_name},
                 {"pg_desc", &k->pg_desc},
                 {"op", &k->op},
                 {"phase", &k->phase},
                 {"reduce", &k->reduce}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!syn__str_is(a->name, texts[i].name)) continue;
        *texts[i].slot = syn__arena_text(&b->arena, a->data);
        if (*texts[i].slot == NULL) return SYN_E_NOMEM;
    }
    return SYN_OK;
}

static syn_status add(syn__et_builder *b, const syn_attribute *a) {
    SYN_TRY(syn_grow(&b->attributes, &b->attributes_cap, b->n_attributes + 1, sizeof *b->attributes,
                     NULL));
    b->attributes[b->n_attributes++] = *a;
    return SYN_OK;
}

static syn_status read_attrs(syn__et_builder *b, const syn__et_node *message, known *k) {
    for (size_t i = 0; i < message->n_attrs; i++) {
        const syn__et_attr *a = &message->attrs[i];
        syn_attribute out[2];
        size_t n;
        if (is_integer(a)) take_number(k, a);
        if (a->field == SYN__ET_BOOL && syn__str_is(a->name, "clamped")) k->clamped = a->bits;
        if (a->field == SYN__ET_STRING) SYN_TRY(take_text(b, k, a));
        SYN_TRY(syn__et_attr_to_graph(a, &b->arena, out, &n));
        for (size_t j = 0; j < n; j++) SYN_TRY(add(b, &out[j]));
    }
    return SYN_OK;
}

static syn_status add_text(syn__et_builder *b, const char *name, syn__str text) {
    const syn_attribute a = {
        .name = name, .type = SYN_VALUE_TEXT, .text = syn__arena_text(&b->arena, text)};
    return a.text != NULL ? add(b, &a) : SYN_E_NOMEM;
}

static syn_status add_number(syn__et_builder *b, const char *name, uint64_t v) {
    const syn_attribute a = {.name = name, .type = SYN_VALUE_I64, .i64 = (int64_t)v};
    return add(b, &a);
}

/* Stores inputs and outputs as text attributes, because the graph has no tensors for them. */
static syn_status add_io(syn__et_builder *b, const syn__et_io *io, bool outputs) {
    static const char *const names[2][4] = {
        {"@inputs", "@inputs.values", "@inputs.shapes", "@inputs.types"},
        {"@outputs", "@outputs.values", "@outputs.shapes", "@outputs.types"}};
    const syn_attribute empty = {.name = names[outputs][0], .type = SYN_VALUE_BOOL, .i64 = 1};
    bool any = false;
    for (int i = 0; i < 3 && io->present; i++) {
        if (io->text[i].bytes == 0) continue;
        SYN_TRY(add_text(b, names[outputs][i + 1], io->text[i]));
        any = true;
    }
    return io->present && !any ? add(b, &empty) : SYN_OK;
}

/* ---- Fields ---- */

/* Splits a name such as "h.3.attn/qkv" into scope and label. */
static syn_status put_name(syn__et_builder *b, const syn__et_node *message, const known *k,
                           syn_node *out) {
    const char *name = syn__arena_text(&b->arena, message->name);
    if (name == NULL) return SYN_E_NOMEM;
    const char *slash = strrchr(name, '/');
    out->label = name;
    out->scope = "";
    if (!b->keep_slashes && slash != NULL && slash != name && slash[1] != '\0') {
        out->label = slash + 1;
        out->scope = syn__arena_text(&b->arena, (syn__str){name, (size_t)(slash - name)});
        if (out->scope == NULL) return SYN_E_NOMEM;
    }
    if (*name == '\0') {
        out->label = "unnamed";
        SYN_TRY(add_text(b, "@name", message->name));
    }
    out->op = *k->op != '\0' ? k->op : out->label;
    return SYN_OK;
}

/* Sets the node's group. A group without a name gets pg_desc as its name, unless that is
   "undefined", PyTorch's text for an unnamed group. */
static syn_status put_group(syn__et_builder *b, const known *k, syn_node *out) {
    uint64_t id;
    syn__et_group *group = syn__et_parse_u64(k->pg_name, &id) ? syn__et_find_group(b, id) : NULL;
    /* A group of which this rank is not a member, or that no file lists, counts as all ranks. */
    if (group == NULL || !group->member) return SYN_OK;
    out->group = group->id;
    out->comm_index = group->n_comms++;
    if (group->name != NULL || *k->pg_desc == '\0' || strcmp(k->pg_desc, "undefined") == 0)
        return SYN_OK;
    group->name = syn_strdup(k->pg_desc);
    return group->name != NULL ? SYN_OK : SYN_E_NOMEM;
}

static bool put_collective(syn__et_builder *b, const known *k, syn_node *out) {
    out->comm = syn__et_comm_kind(k->comm_type);
    if (out->comm == SYN_COMM_NONE) return false;
    const bool reduces = out->comm == SYN_COMM_ALL_REDUCE || out->comm == SYN_COMM_REDUCE ||
                         out->comm == SYN_COMM_REDUCE_SCATTER;
    if (reduces) out->reduce = SYN_REDUCE_SUM;
    for (int r = 0; r < SYN_REDUCE_COUNT; r++) {
        if (strcmp(k->reduce, syn_reduce_name((syn_reduce)r)) == 0) out->reduce = r;
    }
    if (k->root >= 0 && k->root < SYN_MAX_WORLD) {
        out->root = (int32_t)k->root;
        syn__et_extend_world(b, out->root);
    }
    return true;
}

static bool put_message(syn__et_builder *b, bool is_send, const known *k, syn_node *out) {
    const int64_t peer = is_send ? k->dst : k->src;
    if (peer < 0 || peer >= SYN_MAX_WORLD) return false;
    out->comm = is_send ? SYN_COMM_SEND : SYN_COMM_RECV;
    out->peer = (int32_t)peer;
    out->tag = k->tag >= 0 && k->tag <= INT32_MAX ? (int32_t)k->tag : 0;
    out->comm_index = b->n_messages++;
    syn__et_extend_world(b, out->peer);
    return true;
}

/* Resets costs that the writer raised to the minimum that simulators need, because the program did
   not have these costs. */
static void drop_clamped(known *k) {
    if (k->clamped == 0) return;
    if (k->tensor_size == 1 || (k->tensor_size == SYN__ET_MIN_ROOT_BYTES && k->num_ops != 1))
        k->tensor_size = 0;
    if (k->num_ops == 1) k->num_ops = 0;
    if (k->comm_size == 1) k->comm_size = 0;
}

/* Sets the kind and the fields of communication. A node type that the graph cannot express is
   stored in the attribute "@type". */
static syn_status put_kind(syn__et_builder *b, const syn__et_node *message, const known *k,
                           syn_node *out) {
    bool exact = true;
    out->kind = SYN_NODE_COMPUTE;
    switch (message->type) {
    case SYN__ET_COMP_NODE:
        break;
    case SYN__ET_METADATA_NODE:
        out->kind = SYN_NODE_METADATA;
        break;
    case SYN__ET_MEM_LOAD_NODE:
        out->kind = SYN_NODE_MEMORY;
        break;
    case SYN__ET_MEM_STORE_NODE:
        out->kind = SYN_NODE_MEMORY;
        exact = false;
        break;
    case SYN__ET_COMM_COLL_NODE:
        exact = put_collective(b, k, out);
        if (exact) out->kind = SYN_NODE_COLLECTIVE;
        if (exact) SYN_TRY(put_group(b, k, out));
        break;
    case SYN__ET_COMM_SEND_NODE:
    case SYN__ET_COMM_RECV_NODE: {
        const bool is_send = message->type == SYN__ET_COMM_SEND_NODE;
        exact = put_message(b, is_send, k, out);
        if (exact) out->kind = is_send ? SYN_NODE_SEND : SYN_NODE_RECV;
        break;
    }
    default:
        out->kind = SYN_NODE_METADATA;
        exact = false;
    }
    const bool is_comm = syn__et_is_communication(message->type);
    out->category = is_comm ? SYN_CATEGORY_COMMUNICATION : syn_op_category(out->op);
    out->comm_bytes = is_comm ? k->comm_size : 0;
    if (exact) return SYN_OK;
    const char *name = syn__et_node_type_name(message->type);
    return name != NULL ? add_text(b, "@type", syn__str_of(name))
                        : add_number(b, "@type", message->type);
}

/* Rounds to whole microseconds as the writer does (et_describe.c). */
static uint64_t micros_of(double ns) {
    const double units = ns / 1000;
    if (!(units > 0)) return 0;
    return units >= 9.2e18 ? (uint64_t)INT64_MAX : (uint64_t)llround(units);
}

static syn_status add_micros(syn__et_builder *b, const char *name, uint64_t v) {
    const syn__et_attr a = syn__et_number(name + 1, SYN__ET_UINT64, v);
    syn_attribute out[2];
    size_t n;
    if (v <= INT64_MAX) return add_number(b, name, v);
    SYN_TRY(syn__et_attr_to_graph(&a, &b->arena, out, &n));
    out[0].name = name;
    return add(b, &out[0]);
}

static syn_status put_times(syn__et_builder *b, const syn__et_node *message, const known *k,
                            syn_node *out) {
    const uint64_t start = message->start_micros, duration = message->duration_micros;
    if (start != 0 || b->has_start) out->start_ns = (double)start * 1000;
    if (k->predicted_ns >= 0) out->predicted_ns = (double)k->predicted_ns;
    if (k->wall_ns >= 0) out->wall_ns = (double)k->wall_ns;
    else if ((duration != 0 || k->inclusive_us >= 0) && k->predicted_ns < 0)
        out->wall_ns = (double)duration * 1000; /* may be 0: then the ops that it called took all
                                                   the time */
    if (k->wait_ns >= 0) out->wait_ns = (double)k->wait_ns;
    const double length = syn__et_duration_ns(out);
    if (micros_of(out->start_ns) != start) SYN_TRY(add_micros(b, "@start_time_micros", start));
    if (micros_of(length) == duration) return SYN_OK;
    return add_micros(b, "@duration_micros", duration);
}

static syn_status fill(syn__et_builder *b, const syn__et_node *message, syn_node *out) {
    known k = {.comm_type = -1,
               .src = -1,
               .dst = -1,
               .tag = -1,
               .root = -1,
               .wall_ns = -1,
               .wait_ns = -1,
               .predicted_ns = -1,
               .inclusive_us = -1,
               .pg_name = "",
               .pg_desc = "",
               .op = "",
               .phase = "",
               .reduce = ""};
    b->n_attributes = 0;
    SYN_TRY(read_attrs(b, message, &k));
    drop_clamped(&k);
    SYN_TRY(put_name(b, message, &k, out));
    SYN_TRY(put_kind(b, message, &k, out));
    SYN_TRY(put_times(b, message, &k, out));
    SYN_TRY(add_io(b, &message->io[0], false));
    SYN_TRY(add_io(b, &message->io[1], true));
    out->flops = k.num_ops;
    out->bytes_read = k.tensor_size;
    out->step = k.step <= UINT32_MAX ? (uint32_t)k.step : 0;
    out->stream = k.stream <= INT32_MAX ? (int32_t)k.stream : 0;
    for (int p = 0; p < SYN_PHASE_COUNT; p++) {
        if (strcmp(k.phase, syn_phase_name((syn_phase)p)) == 0) out->phase = (syn_phase)p;
    }
    out->attributes = b->attributes;
    out->n_attributes = (uint32_t)b->n_attributes;
    return SYN_OK;
}

syn_status syn__et_to_graph(syn__et_builder *b, const syn__et_node *message, syn_node *out,
                            syn_error *err) {
    *out = (syn_node){.id = message->id, SYN_NODE_UNKNOWN};
    if (message->n_attrs > UINT32_MAX / 4)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "node %" PRIu64 " has too many attributes",
                        message->id);
    if (fill(b, message, out) == SYN_OK) return SYN_OK;
    return SYN_FAIL_NOMEM(err, sizeof *out, "a node of an execution trace");
}
