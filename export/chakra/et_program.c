/* Encodes and writes programs (et_program.h). */
#include "export/chakra/et_program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

/* A slot of a node, and the attributes that it replaces. */
typedef struct place {
    syn__et_slot slot;
    size_t first, n;
} place;

/* ---- Encoding ---- */

static int find_attr(const syn__et_node *node, const char *name) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__str s = node->attrs[i].name;
        if (s.bytes == strlen(name) && memcmp(s.text, name, s.bytes) == 0) return (int)i;
    }
    return -1;
}

int32_t syn__et_index_in(const syn_mesh_group *g, int64_t rank) {
    for (int32_t i = 0; g->id != 0 && i < g->n; i++)
        if (syn_mesh_group_rank(g, i) == rank) return i;
    return -1;
}

static int64_t integer_of(const syn__et_node *node, int attr) {
    int64_t value = -1;
    (void)syn__et_attr_integer(&node->attrs[attr], &value);
    return value;
}

/* The slots of a message: its ends and its stream. */
static syn_status message_places(const syn__et_node *node, const syn_mesh_group *groups, int at,
                                 place places[SYN__ET_PLACES], uint32_t *n, syn_error *err) {
    const bool is_send = node->type == SYN__ET_COMM_SEND_NODE;
    const int64_t peer = integer_of(node, at + is_send);
    syn_mesh_kind kind = SYN_MESH_PP;
    if (syn__et_index_in(&groups[kind], peer) < 0)
        kind = groups[SYN_MESH_CP_P2P].id != 0 ? SYN_MESH_CP_P2P : SYN_MESH_CP;
    const int32_t index = syn__et_index_in(&groups[kind], peer);
    const int stream = find_attr(node, "stream");
    if (index < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "node %.*s exchanges a message with rank %" PRId64
                        ", which is neither in its pipeline nor in its cp group",
                        (int)node->name.bytes, node->name.text, peer);
    places[0] = (place){{kind, is_send ? SEND : RECV, index}, (size_t)at, 2};
    *n = 1;
    if (stream < 0 || integer_of(node, stream) != syn_message_stream((int32_t)peer, is_send))
        return SYN_OK;
    places[1] = (place){{kind, is_send ? SEND_STREAM : RECV_STREAM, index}, (size_t)stream, 1};
    *n = 2;
    return SYN_OK;
}

/* The slot of a collective: pg_name, pg_desc and, if it has one, root. */
static syn_status collective_place(const syn__et_node *node, const syn_mesh_group *groups, int at,
                                   place *out, syn_error *err) {
    const syn__str digits = node->attrs[at].data;
    const int root = find_attr(node, "root");
    uint64_t id = 0;
    for (size_t i = 0; i < digits.bytes; i++) id = 10 * id + (uint64_t)(digits.text[i] - '0');
    *out = (place){{SYN_MESH_TP, COLLECTIVE, -1}, (size_t)at, root < 0 ? 2 : 3};
    syn_mesh_kind *kind = &out->slot.kind;
    while (*kind < SYN_MESH_KINDS && groups[*kind].id != id) ++*kind;
    if (*kind == SYN_MESH_KINDS)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "node %.*s uses the group %" PRIu64
                        ", which is not a group of its rank in the mesh",
                        (int)node->name.bytes, node->name.text, id);
    if (root < 0) return SYN_OK;
    out->slot.index = syn__et_index_in(&groups[*kind], integer_of(node, root));
    if (root != at + 2 || out->slot.index < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "node %.*s has a reduction beside its root, or a root outside of its group",
                        (int)node->name.bytes, node->name.text);
    return SYN_OK;
}

/* Finds the slots of a node; *n: their number. */
static syn_status find_places(const syn__et_node *node, const syn_mesh_group *groups,
                              place places[SYN__ET_PLACES], uint32_t *n, syn_error *err) {
    const int message = find_attr(node, "comm_src"), group = find_attr(node, "pg_name");
    *n = group >= 0;
    if (message >= 0) return message_places(node, groups, message, places, n, err);
    return group >= 0 ? collective_place(node, groups, group, places, err) : SYN_OK;
}

static syn_status add_slot(syn__et_program *p, syn__et_slot s, uint32_t *number, syn_error *err) {
    for (*number = 0; *number < p->n_slots; ++*number) {
        const syn__et_slot *known = &p->slots[*number];
        if (known->kind == s.kind && known->use == s.use && known->index == s.index) return SYN_OK;
    }
    SYN_TRY(syn_grow(&p->slots, &p->slots_cap, p->n_slots + 1, sizeof *p->slots, err));
    p->slots[p->n_slots++] = s;
    return SYN_OK;
}

void syn__et_put_message(syn__buf *out, const syn__buf *message) {
    syn__et_put_varint(out, message->bytes);
    syn__buf_put(out, message->data, message->bytes);
}

/* Encodes a node. *plain: bytes since the last slot. */
static syn_status add_node(syn__et_program *p, const syn__et_node *node,
                           const syn_mesh_group *groups, syn__buf *message, size_t *plain,
                           syn_error *err) {
    place places[SYN__ET_PLACES] = {{.n = 0}};
    syn__et_piece one = {.plain = *plain};
    size_t begin = p->bytes.bytes;
    p->nodes++;
    SYN_TRY(find_places(node, groups, places, &one.n, err));
    if (one.n == 0) {
        message->bytes = 0;
        syn__et_put_node(message, node);
        syn__et_put_message(&p->bytes, message);
        *plain += p->bytes.bytes - begin;
        return SYN_OK;
    }
    syn__et_node head = *node;
    head.n_attrs = places[0].first;
    syn__et_put_node(&p->bytes, &head);
    for (uint32_t i = 0; i < one.n; i++) {
        const size_t from = places[i].first + places[i].n,
                     to = i + 1 < one.n ? places[i + 1].first : node->n_attrs;
        one.parts[i] = p->bytes.bytes - begin;
        begin = p->bytes.bytes;
        syn__et_put_attrs(&p->bytes, node->attrs + from, to - from);
        SYN_TRY(add_slot(p, places[i].slot, &one.slots[i], err));
    }
    one.parts[one.n] = p->bytes.bytes - begin;
    SYN_TRY(syn_grow(&p->pieces, &p->pieces_cap, p->n_pieces + 1, sizeof *p->pieces, err));
    p->pieces[p->n_pieces++] = one;
    *plain = 0;
    return SYN_OK;
}

/* A source of nodes: the next node of a walk, or of a file. */
typedef struct source {
    syn__et_walk *walk; /* NULL: a file */
    const char *name;
    syn__et_reader reader;
    syn__et_decoder decoder;
} source;

static syn_status next_in_file(source *from, syn__et_node *node, bool *more, syn_error *err) {
    syn__str message;
    *more = syn__et_read_message(&from->reader, &message);
    const char *why = from->reader.why;
    if (*more) {
        const syn_status s = syn__et_decode_node(&from->decoder, message, node);
        if (s == SYN_E_NOMEM) return SYN_FAIL_NOMEM(err, message.bytes, "a node");
        if (s != SYN_OK) why = from->decoder.why;
    }
    return why == NULL ? SYN_OK : SYN_FAIL(err, SYN_E_FORMAT, "%.200s: %s", from->name, why);
}

static syn_status encode(syn__et_program *p, source *from, const syn_mesh_group *groups,
                         syn_error *err) {
    syn__buf message = {0};
    syn__et_node node;
    size_t plain = 0;
    bool more = true;
    syn_status s = SYN_OK;
    while (s == SYN_OK && more) {
        s = from->walk != NULL ? syn__et_walk_node(from->walk, &node, &more, err)
                               : next_in_file(from, &node, &more, err);
        if (s == SYN_OK && more) s = add_node(p, &node, groups, &message, &plain, err);
        if (s == SYN_OK && (p->bytes.failed || message.failed))
            s = SYN_FAIL_NOMEM(err, p->bytes.cap, "the encoded nodes of a stage");
    }
    syn__buf_free(&message);
    return s;
}

syn_status syn__et_program_encode(syn__et_program *p, syn__et_walk *walk,
                                  const syn_mesh_group *groups, syn_error *err) {
    source from = {.walk = walk};
    return encode(p, &from, groups, err);
}

syn_status syn__et_program_encode_again(syn__et_program *p, const char *name, syn__str messages,
                                        const syn_mesh_group *groups, syn_error *err) {
    source from = {.name = name, .reader = {messages.text, messages.text + messages.bytes, NULL}};
    const syn_status s = encode(p, &from, groups, err);
    syn__et_decoder_free(&from.decoder);
    return s;
}

void syn__et_program_free(syn__et_program *p) {
    syn__buf_free(&p->bytes);
    syn_free(p->pieces);
    syn_free(p->slots);
}

/* ---- Filling ---- */

static void fill_slot(syn__buf *out, const syn__et_slot *s, const syn_mesh_group *group,
                      int32_t rank) {
    syn__et_attr attrs[3];
    const int32_t other = s->index >= 0 ? syn_mesh_group_rank(group, s->index) : -1;
    char id[16];
    if (s->use == COLLECTIVE) {
        snprintf(id, sizeof id, "%" PRIu32, group->id);
        attrs[0] = syn__et_data(syn__str_of("pg_name"), SYN__ET_STRING, (syn__str){id, strlen(id)});
        attrs[1] = syn__et_data(syn__str_of("pg_desc"), SYN__ET_STRING, syn__str_of(group->name));
        attrs[2] = syn__et_number("root", SYN__ET_INT32, (uint64_t)(int64_t)other);
        syn__et_put_attrs(out, attrs, s->index >= 0 ? 3 : 2);
        return;
    }
    if (s->use == SEND_STREAM || s->use == RECV_STREAM) {
        const int32_t stream = syn_message_stream(other, s->use == SEND_STREAM);
        attrs[0] = syn__et_number("stream", SYN__ET_INT64, (uint64_t)stream);
        syn__et_put_attrs(out, attrs, 1);
        return;
    }
    const uint64_t from = (uint64_t)(s->use == SEND ? rank : other),
                   to = (uint64_t)(s->use == SEND ? other : rank);
    attrs[0] = syn__et_number("comm_src", SYN__ET_INT32, from);
    attrs[1] = syn__et_number("comm_dst", SYN__ET_INT32, to);
    syn__et_put_attrs(out, attrs, 2);
}

syn_status syn__et_program_fill(syn__et_filled *f, const syn__et_program *p,
                                const syn_mesh_group *groups, int32_t rank, syn_error *err) {
    f->bytes.bytes = 0;
    for (size_t i = 0; i < p->n_slots; i++) {
        fill_slot(&f->bytes, &p->slots[i], &groups[p->slots[i].kind], rank);
        f->ends[i] = f->bytes.bytes;
    }
    return f->bytes.failed ? SYN_FAIL_NOMEM(err, f->bytes.cap, "a rank's groups") : SYN_OK;
}

static syn__str filled_slot(const syn__et_filled *f, uint32_t number) {
    const size_t begin = number > 0 ? f->ends[number - 1] : 0;
    return (syn__str){f->bytes.data + begin, f->ends[number] - begin};
}

/* The length of a message with slots. */
static size_t message_bytes(const syn__et_piece *one, const syn__et_filled *f) {
    size_t bytes = one->parts[one->n];
    for (uint32_t k = 0; k < one->n; k++)
        bytes += one->parts[k] + filled_slot(f, one->slots[k]).bytes;
    return bytes;
}

uint64_t syn__et_program_bytes(const syn__et_program *p, const syn__et_filled *f) {
    uint64_t all = p->bytes.bytes; /* all but the slots and the lengths of their messages */
    for (size_t i = 0; i < p->n_pieces; i++) {
        const syn__et_piece *one = &p->pieces[i];
        all += syn__et_varint_bytes(message_bytes(one, f));
        for (uint32_t k = 0; k < one->n; k++) all += filled_slot(f, one->slots[k]).bytes;
    }
    return all;
}

void syn__et_program_write(const syn__et_program *p, const syn__et_filled *f, syn_sink *sink) {
    const char *at = p->bytes.data;
    for (size_t i = 0; i < p->n_pieces; i++) {
        const syn__et_piece *one = &p->pieces[i];
        const size_t bytes = message_bytes(one, f);
        char length[SYN__ET_VARINT_MAX];
        syn_sink_write(sink, at, one->plain);
        at += one->plain;
        syn_sink_write(sink, length, (size_t)(syn__et_varint(length, bytes) - length));
        for (uint32_t k = 0; k <= one->n; k++) {
            syn_sink_write(sink, at, one->parts[k]);
            at += one->parts[k];
            if (k == one->n) break;
            const syn__str text = filled_slot(f, one->slots[k]);
            syn_sink_write(sink, text.text, text.bytes);
        }
    }
    syn_sink_write(sink, at, p->bytes.bytes - (size_t)(at - p->bytes.data));
}
