/* Writes a trace set from a few recorded ranks (stamp.h). A recorded rank is encoded once as a
   program: runs of bytes that are the same on all ranks like it, and between them slots, which
   contain the names of groups or the numbers of ranks. Each rank's file is the program with the
   slots filled in. A slot may change the length of its message, so the lengths of messages with
   slots are written for each rank. */
#include "export/stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "export/chakra/et_ring.h"
#include "export/chakra/et_walk.h"
#include "export/chakra/wire/et_files.h"
#include "syntorch/base/memory.h"

/* What a slot contains: the id and name of a group with the rank of its root, or the source and
   destination of a message, or the stream of a message. */
typedef struct slot {
    syn_mesh_kind kind; /* of the group; messages: SYN_MESH_PP */
    enum { COLLECTIVE, SEND, RECV, SEND_STREAM, RECV_STREAM } use;
    int32_t index; /* of the root or peer within the group; -1: no root */
} slot;

/* A slot of a node, and the attributes that it replaces. */
typedef struct place {
    slot slot;
    size_t first, n;
} place;

enum { PLACES = 2 }; /* slots of a message */

/* A run of whole messages, followed by a message with slots. */
typedef struct piece {
    size_t plain;              /* bytes of the run, with the lengths of its messages */
    size_t parts[PLACES + 1];  /* bytes of the message before, between and after its slots */
    uint32_t slots[PLACES], n; /* n: number of slots */
} piece;

typedef struct program {
    syn__buf bytes;
    piece *pieces;
    size_t n_pieces, pieces_cap;
    slot *slots;
    size_t n_slots, slots_cap;
    uint64_t nodes;
    bool used[SYN_MESH_KINDS]; /* the groups of the recorded rank's graph */
} program;

/* The kinds of groups that ranks use. */
struct used {
    bool known; /* a rank of the stage was recorded */
    bool kind[SYN_MESH_KINDS];
};

struct syn_stamper {
    syn_plan plan;
    syn__et_names names;
    syn_stamp_options options;
    bool announced;
    bool *done;        /* by rank: written or not wanted */
    struct used *used; /* by stage; the last one: by any stage */
    syn_stamp_counts counts;
};

/* ---- Encoding ---- */

static int find_attr(const syn__et_node *node, const char *name) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__str s = node->attrs[i].name;
        if (s.bytes == strlen(name) && memcmp(s.text, name, s.bytes) == 0) return (int)i;
    }
    return -1;
}

static int32_t index_in(const syn_mesh_group *g, int64_t rank) {
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
                                 place places[PLACES], uint32_t *n, syn_error *err) {
    const bool is_send = node->type == SYN__ET_COMM_SEND_NODE;
    const int64_t peer = integer_of(node, at + is_send);
    const int32_t index = index_in(&groups[SYN_MESH_PP], peer);
    const int stream = find_attr(node, "stream");
    if (index < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "node %.*s exchanges a message with rank %" PRId64
                        ", which is not in its pipeline",
                        (int)node->name.bytes, node->name.text, peer);
    places[0] = (place){{SYN_MESH_PP, is_send ? SEND : RECV, index}, (size_t)at, 2};
    *n = 1;
    if (stream < 0 || integer_of(node, stream) != syn_message_stream((int32_t)peer, is_send))
        return SYN_OK;
    places[1] =
        (place){{SYN_MESH_PP, is_send ? SEND_STREAM : RECV_STREAM, index}, (size_t)stream, 1};
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
    out->slot.index = index_in(&groups[*kind], integer_of(node, root));
    return root == at + 2
               ? SYN_OK
               : SYN_FAIL(err, SYN_E_INVALID, "node %.*s has both a root and a reduction",
                          (int)node->name.bytes, node->name.text);
}

/* Finds the slots of a node; *n: their number. */
static syn_status find_places(const syn__et_node *node, const syn_mesh_group *groups,
                              place places[PLACES], uint32_t *n, syn_error *err) {
    const int message = find_attr(node, "comm_src"), group = find_attr(node, "pg_name");
    *n = group >= 0;
    if (message >= 0) return message_places(node, groups, message, places, n, err);
    return group >= 0 ? collective_place(node, groups, group, places, err) : SYN_OK;
}

static syn_status add_slot(program *p, slot s, uint32_t *number, syn_error *err) {
    for (*number = 0; *number < p->n_slots; ++*number) {
        const slot *known = &p->slots[*number];
        if (known->kind == s.kind && known->use == s.use && known->index == s.index) return SYN_OK;
    }
    SYN_TRY(syn_grow(&p->slots, &p->slots_cap, p->n_slots + 1, sizeof *p->slots, err));
    p->slots[p->n_slots++] = s;
    return SYN_OK;
}

/* Appends a message with its length. */
static void put_message(syn__buf *out, const syn__buf *message) {
    syn__et_put_varint(out, message->bytes);
    syn__buf_put(out, message->data, message->bytes);
}

/* Encodes a node. *plain: bytes since the last slot. */
static syn_status add_node(program *p, const syn__et_node *node, const syn_mesh_group *groups,
                           syn__buf *message, size_t *plain, syn_error *err) {
    place places[PLACES] = {{.n = 0}};
    piece one = {.plain = *plain};
    size_t begin = p->bytes.bytes;
    p->nodes++;
    SYN_TRY(find_places(node, groups, places, &one.n, err));
    if (one.n == 0) {
        message->bytes = 0;
        syn__et_put_node(message, node);
        put_message(&p->bytes, message);
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

static syn_status encode(program *p, syn__et_walk *walk, const syn_mesh_group *groups,
                         syn_error *err) {
    syn__buf message = {0};
    syn__et_node node;
    size_t plain = 0;
    bool more = true;
    syn_status s = SYN_OK;
    while (s == SYN_OK && more) {
        s = syn__et_walk_node(walk, &node, &more, err);
        if (s == SYN_OK && more) s = add_node(p, &node, groups, &message, &plain, err);
        if (s == SYN_OK && (p->bytes.failed || message.failed))
            s = SYN_FAIL_NOMEM(err, p->bytes.cap, "the encoded nodes of a stage");
    }
    syn__buf_free(&message);
    return s;
}

static void free_program(program *p) {
    syn__buf_free(&p->bytes);
    syn_free(p->pieces);
    syn_free(p->slots);
}

/* ---- Filling ---- */

/* One rank's slots, encoded one after another. Slot i ends at ends[i]. */
typedef struct filled {
    syn__buf bytes;
    size_t *ends;
} filled;

static void fill_slot(syn__buf *out, const slot *s, const syn_mesh_group *group, int32_t rank) {
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

static syn_status fill(filled *f, const program *p, const syn_mesh_group *groups, int32_t rank,
                       syn_error *err) {
    f->bytes.bytes = 0;
    for (size_t i = 0; i < p->n_slots; i++) {
        fill_slot(&f->bytes, &p->slots[i], &groups[p->slots[i].kind], rank);
        f->ends[i] = f->bytes.bytes;
    }
    return f->bytes.failed ? SYN_FAIL_NOMEM(err, f->bytes.cap, "a rank's groups") : SYN_OK;
}

static syn__str filled_slot(const filled *f, uint32_t number) {
    const size_t begin = number > 0 ? f->ends[number - 1] : 0;
    return (syn__str){f->bytes.data + begin, f->ends[number] - begin};
}

/* The length of a message with slots. */
static size_t message_bytes(const piece *one, const filled *f) {
    size_t bytes = one->parts[one->n];
    for (uint32_t k = 0; k < one->n; k++)
        bytes += one->parts[k] + filled_slot(f, one->slots[k]).bytes;
    return bytes;
}

static uint64_t program_bytes(const program *p, const filled *f) {
    uint64_t all = p->bytes.bytes; /* all but the slots and the lengths of their messages */
    for (size_t i = 0; i < p->n_pieces; i++) {
        const piece *one = &p->pieces[i];
        all += syn__et_varint_bytes(message_bytes(one, f));
        for (uint32_t k = 0; k < one->n; k++) all += filled_slot(f, one->slots[k]).bytes;
    }
    return all;
}

static void write_program(const program *p, const filled *f, syn_sink *sink) {
    const char *at = p->bytes.data;
    for (size_t i = 0; i < p->n_pieces; i++) {
        const piece *one = &p->pieces[i];
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

/* ---- Groups ---- */

/* Computes the rank's groups of the kinds that are used. */
static void used_groups(const syn_stamper *s, const bool used[SYN_MESH_KINDS], int32_t rank,
                        syn_mesh_group groups[SYN_MESH_KINDS]) {
    syn_mesh_groups(&s->plan, rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++)
        if (!used[k]) groups[k].id = 0;
}

/* Sets graph->groups to n groups, which free_groups frees. */
static syn_status make_groups(syn_graph *graph, const syn_mesh_group *groups, size_t n,
                              syn_error *err) {
    size_t ranks = 0;
    for (size_t i = 0; i < n; i++) ranks += groups[i].id != 0 ? (size_t)groups[i].n : 0;
    graph->n_groups = 0;
    graph->groups = syn_malloc((n + 1) * sizeof *graph->groups);
    int32_t *list = syn_malloc((ranks + 1) * sizeof *list);
    if (!graph->groups || !list) {
        syn_free(graph->groups);
        syn_free(list);
        graph->groups = NULL;
        return SYN_FAIL_NOMEM(err, ranks * sizeof *list, "groups");
    }
    /* The first group's list is the start of the memory. */
    for (size_t i = 0; i < n; i++) {
        if (groups[i].id == 0) continue;
        for (int32_t k = 0; k < groups[i].n; k++) list[k] = syn_mesh_group_rank(&groups[i], k);
        graph->groups[graph->n_groups++] =
            (syn_graph_group){groups[i].id, groups[i].name, list, (uint32_t)groups[i].n};
        list += groups[i].n;
    }
    if (graph->n_groups == 0) syn_free(list);
    return SYN_OK;
}

static void free_groups(syn_graph *graph) {
    if (graph->n_groups > 0) syn_free((void *)(uintptr_t)graph->groups[0].ranks);
    syn_free(graph->groups);
}

static int32_t stage_of(const syn_stamper *s, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(&s->plan, stride);
    return rank / stride[SYN_AXIS_PP] % s->plan.pp;
}

static void note_used(syn_stamper *s, int32_t rank, const bool used[SYN_MESH_KINDS]) {
    struct used *places[] = {&s->used[stage_of(s, rank)], &s->used[s->plan.pp]};
    for (int i = 0; i < 2; i++) {
        places[i]->known = true;
        for (int k = 0; k < SYN_MESH_KINDS; k++) places[i]->kind[k] = places[i]->kind[k] || used[k];
    }
}

/* Whether a rank's group of a kind is used. All ranks of a group are in one stage, or it has ranks
   of several stages, of which each may use it. */
static bool is_used(const syn_stamper *s, syn_mesh_kind kind, int32_t rank) {
    const bool across = kind == SYN_MESH_PP || kind == SYN_MESH_EMBEDDING ||
                        kind == SYN_MESH_MODEL || kind == SYN_MESH_WORLD;
    const struct used *own = &s->used[stage_of(s, rank)], *any = &s->used[s->plan.pp];
    return across || !own->known ? any->kind[kind] : own->kind[kind];
}

/* Writes comm_group.json. Each group is listed by its first rank. */
static syn_status write_groups(syn_stamper *s, syn_error *err) {
    syn_graph graph = {.world_size = s->plan.ranks};
    syn_mesh_group *all = NULL, of_rank[SYN_MESH_KINDS];
    size_t n = 0, cap = 0;
    syn_status status = SYN_OK;
    syn_sink *sink = NULL;
    for (int32_t r = 0; r < s->plan.ranks && status == SYN_OK; r++) {
        bool used[SYN_MESH_KINDS];
        for (int k = 0; k < SYN_MESH_KINDS; k++) used[k] = is_used(s, (syn_mesh_kind)k, r);
        used_groups(s, used, r, of_rank);
        status = syn_grow(&all, &cap, n + SYN_MESH_KINDS, sizeof *all, err);
        for (int k = 0; k < SYN_MESH_KINDS && status == SYN_OK; k++)
            if (of_rank[k].id != 0 && syn_mesh_group_rank(&of_rank[k], 0) == r)
                all[n++] = of_rank[k];
    }
    if (status == SYN_OK) status = make_groups(&graph, all, n, err);
    if (status == SYN_OK) status = syn_sink_open_file(&sink, syn__et_group_path(&s->names), err);
    if (status == SYN_OK) {
        status = syn_export_comm_group(&graph, s->options.node_ranks, sink, err);
        const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
        if (status == SYN_OK) status = closed;
    }
    free_groups(&graph);
    syn_free(all);
    return status;
}

/* ---- Ranks with the same times ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 1099511628211u; /* FNV-1a */
}

static int32_t node_of(const syn_stamper *s, int32_t rank) {
    return rank / s->options.node_ranks;
}

/* The nodes of a group, and the largest number of its ranks on one of them. */
struct nodes {
    int32_t nodes, most;
};

/* A group with one stride has the same pattern of ranks on every `stride` nodes, so a long group
   need not be counted to its end. */
static struct nodes nodes_of(const syn_mesh_group *g, int32_t node_ranks) {
    const bool plain = g->inner == g->n, apart = plain && g->stride >= node_ranks;
    const int32_t enough = 2 * node_ranks + 2;
    const int32_t counted = plain && g->n > enough ? enough : g->n;
    struct nodes n = {0, 0};
    if (apart) return (struct nodes){g->n, 1};
    for (int32_t i = 0, last = -1, here = 0; i < counted; i++) {
        const int32_t node = syn_mesh_group_rank(g, i) / node_ranks;
        here = node == last ? here + 1 : 1;
        n.nodes += node != last;
        n.most = here > n.most ? here : n.most;
        last = node;
    }
    if (plain) n.nodes = syn_mesh_group_rank(g, g->n - 1) / node_ranks - g->first / node_ranks + 1;
    return n;
}

/* A hash of everything that the predicted times of a rank's communication depend on: on how many
   nodes each group is, how many of its ranks share a node, and which ranks of the pipeline are on
   this rank's node. The group of all ranks is the same for all. */
static uint64_t placement(const syn_stamper *s, const bool used[SYN_MESH_KINDS], int32_t rank) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    uint64_t hash = 14695981039346656037u;
    if (s->options.node_ranks <= 0) return 0;
    syn_mesh_groups(&s->plan, rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++) {
        const syn_mesh_group *g = &groups[k];
        if (!used[k] || g->id == 0 || k == SYN_MESH_WORLD) continue;
        const struct nodes n = nodes_of(g, s->options.node_ranks);
        hash = mix(mix(hash, (uint64_t)n.nodes), (uint64_t)n.most);
        for (int32_t i = 0; k == SYN_MESH_PP && i < g->n; i++)
            hash = mix(hash, node_of(s, syn_mesh_group_rank(g, i)) == node_of(s, rank));
    }
    return hash;
}

int32_t syn_stamp_next(const syn_stamper *s, int32_t stage) {
    for (int32_t r = 0; r < s->plan.ranks; r++)
        if (!s->done[r] && stage_of(s, r) == stage) return r;
    return -1;
}

/* ---- Sets ---- */

static void free_stamper(syn_stamper *s) {
    syn__et_names_close(&s->names);
    syn_free(s->done);
    syn_free(s->used);
    syn_free(s);
}

syn_status syn_stamp_open(syn_stamper **out, const syn_plan *plan, const char *prefix,
                          const syn_stamp_options *options, syn_error *err) {
    const size_t ranks = (size_t)plan->ranks;
    const uint32_t keep = options->wanted || options->one_each ? 0 : (uint32_t)plan->ranks;
    const bool replaces = !options->dry && !options->add;
    SYN_TRY(syn__et_supported(err));
    syn_stamper *s = syn_calloc(1, sizeof *s);
    if (!s) return SYN_FAIL_NOMEM(err, sizeof *s, "a trace set");
    s->plan = *plan;
    s->options = *options;
    s->done = syn_calloc(ranks, sizeof *s->done);
    s->used = syn_calloc((size_t)plan->pp + 1, sizeof *s->used);
    for (size_t r = 0; s->done && options->wanted && r < ranks; r++)
        s->done[r] = !options->wanted[r];
    syn_status status =
        s->done && s->used ? SYN_OK : SYN_FAIL_NOMEM(err, ranks * sizeof *s->done, "ranks");
    if (status == SYN_OK && replaces) status = syn_make_prefix_folder(prefix, err);
    if (status == SYN_OK) status = syn__et_names_open(&s->names, prefix, err);
    if (status == SYN_OK && replaces) status = syn__et_remove_old_set(&s->names, keep, err);
    if (status == SYN_OK) *out = s;
    else free_stamper(s);
    return status;
}

/* Writes the metadata of a rank, which has its own groups. */
static syn_status write_meta(const syn_stamper *s, const syn_graph *graph, int32_t rank,
                             const syn_mesh_group *groups, syn_sink *sink, syn_error *err) {
    syn_graph own = *graph;
    syn_graph_rank renamed = graph->ranks[0];
    syn__buf message = {0}, out = {0};
    syn__et_meta meta;
    renamed.rank = rank;
    own.ranks = &renamed;
    SYN_TRY(make_groups(&own, groups, SYN_MESH_KINDS, err));
    syn__et_walk walk = {
        .graph = &own, .version = s->options.version, .verbatim = syn__et_is_verbatim(graph)};
    syn_status status = syn__et_walk_meta(&walk, &meta, err);
    if (status == SYN_OK) {
        syn__et_put_meta(&message, &meta);
        put_message(&out, &message);
        if (message.failed || out.failed) status = SYN_FAIL_NOMEM(err, message.cap, "metadata");
        else syn_sink_write(sink, out.data, out.bytes);
    }
    syn__et_walk_close(&walk);
    syn__buf_free(&message);
    syn__buf_free(&out);
    free_groups(&own);
    return status;
}

enum { SIMULATED_GROUPS = 500 }; /* see syn_stamp_counts.clash */

/* Looks for two groups of a rank that a simulator may confuse. */
static void find_clash(syn_stamper *s, const syn_mesh_group *groups, int32_t rank) {
    for (int a = 0; a < SYN_MESH_KINDS; a++)
        for (int b = a + 1; b < SYN_MESH_KINDS && s->counts.clash[0] == 0; b++) {
            const syn_mesh_group *x = &groups[a], *y = &groups[b];
            if (x->id == 0 || y->id == 0 || (y->id - x->id) % SIMULATED_GROUPS != 0) continue;
            for (int32_t i = 0; i < x->n; i++) {
                const int32_t other = syn_mesh_group_rank(x, i);
                if (other == rank || index_in(y, other) < 0) continue;
                s->counts.clash[0] = x->id;
                s->counts.clash[1] = y->id;
            }
        }
}

static syn_status write_rank(syn_stamper *s, const syn_graph *graph, const program *p, filled *f,
                             int32_t rank, syn_error *err) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    syn_sink *sink;
    used_groups(s, p->used, rank, groups);
    SYN_TRY(fill(f, p, groups, rank, err));
    find_clash(s, groups, rank);
    if (s->options.dry) SYN_TRY(syn_sink_open_memory(&sink, err));
    else SYN_TRY(syn_sink_open_file(&sink, syn__et_rank_path(&s->names, (uint32_t)rank), err));
    syn_status status = write_meta(s, graph, rank, groups, sink, err);
    if (s->options.dry) s->counts.bytes += program_bytes(p, f);
    else if (status == SYN_OK) write_program(p, f, sink);
    s->counts.bytes += syn_sink_bytes(sink);
    s->counts.nodes += p->nodes;
    s->counts.files++;
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status == SYN_OK ? closed : status;
}

/* The number of files of the set, if each stage has one kind of ranks. */
static uint64_t expected_files(const syn_stamper *s) {
    uint64_t n = 0;
    if (s->options.one_each) return (uint64_t)s->plan.pp;
    for (int32_t r = 0; r < s->plan.ranks; r++) n += !s->done[r];
    return n;
}

/* Before the first file: announces the set, and fails if the disk has too little space for it. */
static syn_status announce(syn_stamper *s, const program *p, syn_error *err) {
    const uint64_t files = expected_files(s);
    const syn_stamp_counts set = {
        .files = files, .nodes = files * p->nodes, .bytes = files * (uint64_t)p->bytes.bytes};
    struct statvfs disk;
    char *path = s->names.path; /* names.path is the prefix with a suffix */
    uint64_t free_bytes = UINT64_MAX;
    if (s->announced) return SYN_OK;
    s->announced = true;
    (void)syn__et_group_path(&s->names);
    char *slash = strrchr(path, '/');
    const char behind = slash ? slash[1] : '\0';
    if (slash) slash[1] = '\0';
    if (statvfs(slash ? path : ".", &disk) == 0)
        free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
    if (slash) slash[1] = behind;
    if (s->options.announce) s->options.announce(s->options.user, &set, free_bytes);
    if (s->options.dry || set.bytes <= free_bytes) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "the set needs about %.1f GiB, but the disk has %.1f GiB",
                    (double)set.bytes / 0x1p30, (double)free_bytes / 0x1p30);
}

/* Writes the files of all ranks like the recorded one. */
static syn_status write_ranks(syn_stamper *s, const syn_graph *graph, const program *p,
                              syn_error *err) {
    const int32_t recorded = graph->ranks[0].rank, stage = stage_of(s, recorded);
    const uint64_t times = placement(s, p->used, recorded);
    filled f = {.ends = syn_malloc((p->n_slots + 1) * sizeof *f.ends)};
    syn_status status = SYN_OK;
    if (!f.ends) return SYN_FAIL_NOMEM(err, p->n_slots * sizeof *f.ends, "a rank's groups");
    for (int32_t r = 0; r < s->plan.ranks && status == SYN_OK; r++) {
        if (s->done[r] || stage_of(s, r) != stage || placement(s, p->used, r) != times) continue;
        if (r == recorded || !s->options.one_each) status = write_rank(s, graph, p, &f, r, err);
        s->done[r] = true;
    }
    syn__buf_free(&f.bytes);
    syn_free(f.ends);
    return status;
}

syn_status syn_stamp_rank(syn_stamper *s, const syn_graph *graph, syn_error *err) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    syn__et_walk walk;
    syn__et_meta unused;
    program p = {0};
    if (graph->n_ranks != 1)
        return SYN_FAIL(err, SYN_E_INVALID, "the graph has %u ranks instead of one recorded rank",
                        (unsigned)graph->n_ranks);
    SYN_TRY(syn__et_check_rank(graph, 0, err));
    syn_mesh_groups(&s->plan, graph->ranks[0].rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++)
        p.used[k] = groups[k].id != 0 && syn_graph_group_by_id(graph, groups[k].id) != NULL;
    note_used(s, graph->ranks[0].rank, p.used);
    SYN_TRY(syn__et_walk_open(&walk, graph, 0, s->options.version, err));
    syn_status status = syn__et_walk_meta(&walk, &unused, err);
    if (status == SYN_OK) status = encode(&p, &walk, groups, err);
    syn__et_walk_close(&walk);
    if (status == SYN_OK) status = announce(s, &p, err);
    if (status == SYN_OK) status = write_ranks(s, graph, &p, err);
    free_program(&p);
    return status;
}

syn_stamp_counts syn_stamp_count(const syn_stamper *s) {
    return s->counts;
}

syn_status syn_stamp_close(syn_stamper *s, bool keep, syn_error *err) {
    syn_status status = SYN_OK;
    if (!s) return SYN_OK;
    for (int32_t stage = 0; stage < s->plan.pp; stage++)
        keep = keep && syn_stamp_next(s, stage) < 0;
    if (keep && !s->options.dry && !s->options.add) status = write_groups(s, err);
    free_stamper(s);
    return status;
}
